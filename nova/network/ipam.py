"""IP address management: choose addresses for ports.

If two transactions choose the same address, the second violates the unique key and is retried (see
``retry_on_duplicate``). A released address stays in quarantine, so that no guest conflicts with a DHCP lease or ARP
entry of its former owner. If no other address is free, the address that was released first is used.
"""
from collections.abc import Callable, Collection
import datetime
import functools
import ipaddress
import os
import random
from typing import Concatenate, ParamSpec, TypeVar

from oslo_db import exception as db_exc

from nova import exception
from nova import utils
from nova.db.engine import Connection
from nova.db.networks import networks
from nova.db.tables.rows import AddressesRow
from nova.db.tables.rows import SubnetsRow
from nova.network import ranges

P = ParamSpec('P')
T = TypeVar('T')
WINDOW = 256            # maximum addresses read in one SELECT
Network = ranges.Cidr
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
SLAAC = ('slaac', 'dhcpv6-stateless')       # IPv6 address modes in which guests derive their address from their MAC
_LOW = (1 << 64) - 1                        # mask of the host part of an IPv6 address; no subnet is larger than /64
_HALF = 1 << 63


def number_of(address: Address) -> int:
    """Return the value of the column ``number`` for an address: a signed 64-bit integer, in the order of addresses."""
    return int(address) if address.version == 4 else (int(address) & _LOW) - _HALF


def address_of(cidr: str, number: int) -> str:
    """Return the address with this number in a subnet's range."""
    network = ipaddress.ip_network(cidr)
    if network.version == 4:
        return str(ipaddress.ip_address(number))
    return str(ipaddress.IPv6Address((int(network.network_address) & ~_LOW) | (number + _HALF)))


def parse_cidr(text: str, strict: bool = True, versions: tuple[int, ...] = (4,)) -> Network:
    """Parse the CIDR of a subnet.

    :param strict: reject host bits that are not 0
    :param versions: allowed IP versions
    :raises InvalidInput: the CIDR is invalid, or guests cannot use it
    """
    try:
        if '%' in text:
            raise ValueError('a zone is not allowed.')
        network = ipaddress.ip_network(text, strict)
    except ValueError as error:
        raise exception.InvalidInput(reason=f"'{text}' is not a valid network: {error}")
    if network.version not in versions:
        raise exception.InvalidInput(reason='Networks of type flat support only IPv4 subnets.')
    low, high = (8, 30) if network.version == 4 else (64, 126)
    if not low <= network.prefixlen <= high:
        raise exception.InvalidInput(reason=f"'{text}': the prefix length must be between {low} and {high}.")
    if network.is_multicast or network.is_loopback or network.is_link_local or network.is_unspecified:
        raise exception.InvalidInput(reason=f"'{text}' cannot hold guests.")
    return network


def default_pools(network: Network, gateway: Address | None) -> list[dict[str, str]]:
    """Return [{'start', 'end'}] with all host addresses except the gateway's."""
    first, last = int(network.network_address) + 1, int(network.broadcast_address) - (network.version == 4)
    if gateway is None or not first <= int(gateway) <= last:
        spans = [(first, last)]
    else:
        spans = [(first, int(gateway) - 1), (int(gateway) + 1, last)]
    return [{'start': str(_address(low, network)), 'end': str(_address(high, network))}
            for low, high in spans if low <= high]


def _address(number: int, network: Network) -> Address:
    return type(network.network_address)(number)


def pool_spans(subnet: SubnetsRow) -> list[tuple[int, int]]:
    """Return [(first, last)] of a subnet's allocation pools as numbers (see ``number_of``)."""
    return [(number_of(ipaddress.ip_address(pool['start'])), number_of(ipaddress.ip_address(pool['end'])))
            for pool in subnet['allocation_pools']]


def uses_slaac(subnet: SubnetsRow) -> bool:
    """Return whether guests derive their addresses from their MACs (SLAAC)."""
    return subnet['ipv6_address_mode'] in SLAAC


def quarantine_cutoff(lease_time: int) -> datetime.datetime:
    """Return the time T: addresses that were released before T may be assigned again."""
    return utils.utcnow() - datetime.timedelta(seconds=lease_time)


def choose_free(conn: Connection, subnet: SubnetsRow, count: int, rested_before: datetime.datetime,
                excluded: Collection[int] = ()) -> list[tuple[int, bool]]:
    """Choose up to ``count`` free addresses of a subnet; return [(number, rests)].

    ``rests`` is True if the address was released earlier: its row exists and must be replaced.

    :param excluded: numbers that the caller has already chosen
    """
    pools = pool_spans(subnet)
    if not pools:
        return []
    first, last = random.choice(pools)
    start = random.randint(first, last)
    chosen: list[tuple[int, bool]] = []
    for low, high in [(start, last), (first, start - 1), *[span for span in pools if span != (first, last)]]:
        chosen += _free(conn, subnet['id'], low, high, count - len(chosen), rested_before)
        if len(chosen) == count:
            return chosen
    if all(number in excluded for number, _rests in chosen):
        oldest = networks.oldest_resting(conn, subnet['id'], pools, excluded)
        chosen = [] if oldest is None else [(oldest, True)]
    return chosen


def _free(conn: Connection, subnet_id: str, low: int, high: int, count: int,
          rested_before: datetime.datetime) -> list[tuple[int, bool]]:
    chosen: list[tuple[int, bool]] = []
    while low <= high and len(chosen) < count:
        rows = networks.numbers(conn, subnet_id, low, high, WINDOW)
        known = {row.number: row for row in rows}
        until = rows[-1].number if len(rows) == WINDOW else high
        for number in range(low, until + 1):
            row = known.get(number)
            if row is None or (row.port_id is None and row.released_at < rested_before):
                chosen.append((number, row is not None))
                if len(chosen) == count:
                    break
        low = until + 1
    return chosen


def unused(conn: Connection, subnet_id: str, low: int, high: int, most: int) -> list[int]:
    """Return up to ``most`` numbers from ``low`` to ``high`` that no port has, including numbers in quarantine."""
    found: list[int] = []
    while low <= high and len(found) < most:
        rows = networks.numbers(conn, subnet_id, low, high, WINDOW)
        taken = {row.number for row in rows if row.port_id is not None}
        until = min(rows[-1].number if len(rows) == WINDOW else high, low + most)
        found += [number for number in range(low, until + 1) if number not in taken]
        low = until + 1
    return found[:most]


def check_fixed(subnets: list[SubnetsRow], address: str, gateways: bool = False, anywhere: bool = True) -> SubnetsRow:
    """Return the subnet of a requested address.

    :param gateways: whether the gateway's address may be requested
    :param anywhere: False: only addresses in allocation pools. The owner of the network may use the others
    :raises InvalidInput: the value is not an address, or a guest of the network cannot use it
    """
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        raise exception.InvalidInput(reason=f"'{address}' is not an IP address.")
    for subnet in subnets:
        network = ipaddress.ip_network(subnet['cidr'])
        if ip.version == network.version and ip in network:
            if ip == network.network_address or ip.version == 4 and ip == network.broadcast_address:
                raise exception.InvalidInput(reason=f"IP address {address} is not a valid IP for the subnet.")
            if subnet['gateway_ip'] == str(ip) and not gateways:
                raise exception.FixedIpInUse(address=address)
            if not anywhere and not any(low <= number_of(ip) <= high for low, high in pool_spans(subnet)):
                raise exception.InvalidInput(reason=f'IP address {address} is in no allocation pool: only the owner of '
                                                    'the network can assign it.')
            return subnet
    raise exception.InvalidInput(reason=f'IP address {address} is not in a subnet of the network.')


def check_free(conn: Connection, subnets: list[SubnetsRow], address: str, gateways: bool = False,
               anywhere: bool = True) -> tuple[SubnetsRow, bool]:
    """Return (subnet of a requested address, True if the address was released earlier and still has a row).

    :raises InvalidInput: a guest of the network cannot use the address
    :raises FixedIpInUse:
    """
    subnet = check_fixed(subnets, address, gateways, anywhere)
    number = number_of(ipaddress.ip_address(address))
    known = networks.numbers(conn, subnet['id'], number, number, 1)
    if known and known[0].port_id is not None:
        raise exception.FixedIpInUse(address=address)
    return subnet, bool(known)


class AddressAllocator:
    """Chooses addresses for ports in a transaction that has locked the subnets, and inserts the addresses together.

    :param rested_before: see quarantine_cutoff
    :param size: number of free addresses of a subnet to find in one lookup
    """

    def __init__(self, conn: Connection, rested_before: datetime.datetime, size: int = 1) -> None:
        self._conn, self._rested_before, self._size = conn, rested_before, size
        self._chosen: dict[tuple[str, int], AddressesRow] = {}        # {(subnet, number): new row}
        self._resting: dict[str, list[int]] = {}  # {subnet: numbers of released addresses that are chosen again}
        self._free: dict[str, list[tuple[int, bool]]] = {}  # {subnet: free numbers}; the last number is used first

    def claim(self, network_id: str, subnets: list[SubnetsRow], port_id: str, wanted: list[dict[str, str]],
              mac: str | None = None, gateways: bool = False, anywhere: bool = True,
              owner: str = '') -> list[dict[str, str]]:
        """Choose the addresses of a port; for parameters and result see the function ``claim``."""
        given: list[dict[str, str]] = []
        if subnets and not (wanted and anywhere):       # the network's owner may request any subnet
            subnets = for_owner(subnets, owner)
            if not subnets:
                raise exception.NoMoreFixedIps(network_id=network_id)
        for request, candidates in _requests(subnets, wanted, mac):
            named = bool(request.get('ip_address'))
            if request.get('subnet_id'):
                candidates = [subnet for subnet in candidates if subnet['id'] == request['subnet_id']]
                if not candidates:
                    raise exception.SubnetNotFound(subnet_id=request['subnet_id'])
                if mac and uses_slaac(candidates[0]) and not request.get('ip_address'):
                    request = {**request, 'ip_address': ranges.from_mac(candidates[0]['cidr'], mac)}
            if request.get('ip_address'):
                subnet, rests = check_free(self._conn, candidates, request['ip_address'], gateways,
                                           anywhere or not named)
                number = number_of(ipaddress.ip_address(request['ip_address']))
                if (subnet['id'], number) in self._chosen:
                    raise exception.FixedIpInUse(address=request['ip_address'])
            elif not candidates:
                continue
            else:
                subnet, number, rests = self._any_of(network_id, candidates)
            address = address_of(subnet['cidr'], number)
            given.append({'subnet_id': subnet['id'], 'ip_address': address})
            self._chosen[subnet['id'], number] = {'subnet_id': subnet['id'], 'number': number, 'address': address,
                                                  'port_id': port_id, 'released_at': None}
            if rests:
                self._resting.setdefault(subnet['id'], []).append(number)
        return given

    def _any_of(self, network_id: str, subnets: list[SubnetsRow]) -> tuple[SubnetsRow, int, bool]:
        for subnet in subnets:
            free = self._free.setdefault(subnet['id'], [])
            while free and (subnet['id'], free[-1][0]) in self._chosen:
                free.pop()
            if not free:
                given = {number for ident, number in self._chosen if ident == subnet['id']}
                found = choose_free(self._conn, subnet, len(given) + self._size, self._rested_before, given)
                free += [each for each in found if each[0] not in given][:self._size][::-1]
            if free:
                return subnet, *free.pop()
        raise exception.NoMoreFixedIps(network_id=network_id)

    def store(self) -> None:
        """Insert the chosen addresses. A concurrent equal choice violates the unique key; see retry_on_duplicate."""
        for subnet_id, numbers in self._resting.items():
            networks.forget_rests(self._conn, subnet_id, numbers)
        networks.insert_addresses(self._conn, list(self._chosen.values()))
        self._chosen, self._resting, self._free = {}, {}, {}


def claim(conn: Connection, network_id: str, subnets: list[SubnetsRow], port_id: str, wanted: list[dict[str, str]],
          rested_before: datetime.datetime, mac: str | None = None, gateways: bool = False,
          anywhere: bool = True, owner: str = '') -> list[dict[str, str]]:
    """Assign addresses to a port; return [{'subnet_id', 'ip_address'}].

    :param wanted: [{'subnet_id', 'ip_address'}] with one or both keys; empty: one address for each IP version, from the
        first subnet with a free address, and all SLAAC addresses
    :param mac: MAC of the port
    :param gateways: True: the port of a router, which may have the gateway's address
    :param anywhere: see check_fixed
    :param owner: device_owner of the port, which selects among the subnets if ``wanted`` is empty
    :raises FixedIpInUse, NoMoreFixedIps, InvalidInput, SubnetNotFound:
    """
    allocator = AddressAllocator(conn, rested_before)
    given = allocator.claim(network_id, subnets, port_id, wanted, mac, gateways, anywhere, owner)
    allocator.store()
    return given


def for_owner(subnets: list[SubnetsRow], owner: str) -> list[SubnetsRow]:
    """Return the subnets for a port: first those with its device_owner in service_types, then those for all owners."""
    return [subnet for subnet in subnets if owner in (subnet['service_types'] or ())] + [
        subnet for subnet in subnets if not subnet['service_types']]


def _requests(subnets: list[SubnetsRow], wanted: list[dict[str, str]],
              mac: str | None) -> list[tuple[dict[str, str], list[SubnetsRow]]]:
    """Return [(request, candidate subnets)]."""
    if wanted:
        return [(request, subnets) for request in wanted]
    own = [subnet for subnet in subnets if mac and uses_slaac(subnet)]
    others = [subnet for subnet in subnets if subnet not in own]
    found: list[tuple[dict[str, str], list[SubnetsRow]]] = []
    for version in (4, 6):
        of_version = [subnet for subnet in others if subnet['ip_version'] == version]
        if of_version:
            found.append(({}, of_version))
    return found + [({'subnet_id': subnet['id']}, [subnet]) for subnet in own]


def new_mac() -> str:
    """Return a random unicast MAC in the range that OpenStack clouds use."""
    return 'fa:16:3e:%02x:%02x:%02x' % tuple(os.urandom(3))   # not ``random``, which may be seeded and repeat MACs


def retry_on_duplicate(function: Callable[Concatenate[Connection, P], T]) -> Callable[Concatenate[Connection, P], T]:
    """Decorate a transaction: run it again if a duplicate key shows that another transaction took a MAC or address."""
    @functools.wraps(function)
    def inner(conn: Connection, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(conn, *args, **kwargs)
        except db_exc.DBDuplicateEntry as error:
            raise db_exc.RetryRequest(error)
    return inner
