"""What one host's plumbing is made from: plain data, read from the database in one moment (host_load)."""
from __future__ import annotations

from collections.abc import Sequence
import dataclasses
import re
from typing import Any, NamedTuple

# of DHCP: what the API takes, what a host gets of what is stored, and what its privileged part takes
OPTION_NAME = re.compile(r'[a-z0-9][a-z0-9-]{0,30}')
OPTION_VALUE = re.compile(r'[!#-~]([ !#-~]{0,253}[!#-~])?')         # printable, without quotation marks
OPTION_VERSIONS = (4, 6)
DOMAIN_LENGTH = 189              # with a label before it, a name has at most 253 characters
_LABEL = '[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?'
DOMAIN = re.compile(rf'(?=.{{1,{DOMAIN_LENGTH}}}\Z){_LABEL}(\.{_LABEL})*')
DEFAULT_DOMAIN = 'openstacklocal'        # the default of the Networking service


def search_domain(of_network: str, configured: str) -> str:
    """The domain of the guests' names in a network, which DHCP and router advertisements announce.

    :param of_network: ``dns_domain`` of the network
    :param configured: [metadata] dhcp_domain
    """
    return of_network.rstrip('.') or configured.lower() or DEFAULT_DOMAIN


@dataclasses.dataclass
class Subnet:
    cidr: str
    gateway: str | None
    dhcp: bool
    dns: list[Any]
    routes: list[Any]                    # [{'destination', 'nexthop'}]


@dataclasses.dataclass
class Network:
    id: str
    bridge: str
    mtu: int
    is_default: bool
    subnets: list[Any]
    external: bool = False
    domain: str = ''                     # dns_domain; '': that of the configuration


@dataclasses.dataclass
class Port:
    """A guest's port on this host. ``groups``: ids of its security groups."""

    id: str
    device: str
    mac: str
    bridge: str
    addresses: list[Any]
    groups: list[Any]
    # [{'ip_address', 'mac_address' or None}]; a range with '/' for an address
    pairs: list[Any] = dataclasses.field(default_factory=list)
    secured: bool = True                                          # False: no filter but that of frames' tags
    limits: list[Any] = dataclasses.field(default_factory=list)        # [[direction, kbit/s, burst in kbit, 0: any]]
    mark: int | None = None                                       # of what the guest sends, in the field DS
    arriving: bool = False                                        # it runs on another host, and is about to come
    # while it moves: [address of the other host, key by which these two know each other, in hexadecimal digits]
    move: list[Any] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class OverlaySubnet:
    """``mode``: how guests get IPv6 addresses, as the API names it, or None. ``dns``: besides the service's own."""

    cidr: str
    gateway: str | None
    dhcp: str | None                # the address of DHCP and DNS in it; None: it is not served
    dns: list[Any]
    routes: list[Any]                    # [{'destination', 'nexthop'}]
    mode: str | None


@dataclasses.dataclass
class Overlay:
    """A network between hosts.

    mac        of the port that answers DHCP and DNS, on each host the same; None: nothing is served
    leases     [{'mac', 'address', 'name', 'options': [{'opt_name', 'opt_value', 'ip_version'}]}] of all its ports; the
               options of those on this host alone, which no other one serves
    remotes    [[MAC, address of the host that has it]] of ports elsewhere
    moving     [[MAC, address of the host that expects it]] of ports whose guests move to another host; until they run
               there, their frames go where the guests are
    vlan       its VLAN, which carries its frames then; None: VXLAN does, with ``number``
    trunk      the operator's bridge whose frames have that VLAN's tag; None: this host is on no such network
    domain     dns_domain of the network; '': that of the configuration
    """

    id: str
    bridge: str
    number: int
    mtu: int
    mac: str | None
    subnets: list[Any]
    leases: list[Any]
    remotes: list[Any]
    vlan: int | None = None
    trunk: str | None = None
    moving: list[Any] = dataclasses.field(default_factory=list)
    domain: str = ''


@dataclasses.dataclass
class Leg:
    """An interface of a router: its port's id and MAC, the bridge, and its addresses with prefix lengths."""

    port: str
    mac: str
    bridge: str
    mtu: int
    addresses: list[Any]
    modes: list[Any] = dataclasses.field(default_factory=list)         # [[IPv6 range, mode]] that it advertises
    everywhere: bool = False                # each host with guests of its network has it, with this MAC
    neighbours: list[Any] = dataclasses.field(default_factory=list)    # then: [[address, MAC]] of its network's guests


@dataclasses.dataclass
class Router:
    """
    outside      the Leg to the outside, or None
    gateway      the next hop there, or None
    snat         whether what has no floating address leaves under the router's
    floating     [[floating address, fixed address]]
    forwarded    [[floating address, protocol, port, fixed address, port there]]
    role         WHOLE: it is on this host alone. GATEWAY: here is the way out, and other hosts have parts. PART: it
                 leads between its networks, and sends all else to the GATEWAY. ALONE: a PART while no host is GATEWAY
    """

    id: str
    up: bool
    inside: list[Any]
    outside: Leg | None
    gateway: str | None
    snat: bool
    routes: list[Any]
    floating: list[Any]
    forwarded: list[Any]
    role: str = 'whole'


WHOLE, GATEWAY, PART, ALONE = ROLES = ('whole', 'gateway', 'part', 'alone')
PARTS = (PART, ALONE)


def gateway_mac(mac: str) -> str:
    """The MAC by which parts of a router send to its GATEWAY through a network where all of them have ``mac``."""
    return f'{int(mac[:2], 16) ^ 0x08:02x}{mac[2:]}'


@dataclasses.dataclass
class HostState:
    """
    rules    {group id: [row of security_group_rules]} of the groups of the ports
    members  {group id: [address]} of the groups that rules name as remote ones
    """

    networks: list[Any]
    ports: list[Any]
    rules: dict[str, Any]
    members: dict[str, Any]
    overlays: list[Any] = dataclasses.field(default_factory=list)
    routers: list[Any] = dataclasses.field(default_factory=list)
    # {bridge: bridge of the operator} of networks there
    outside: dict[str, Any] = dataclasses.field(default_factory=dict)
    tunnel: str = ''                                               # this host's address between hosts
    host: str = ''                                                 # its name
    metadata_key: str = ''                      # of its relay's signatures (hexadecimal digits); '': it serves nothing
    # [[id of the network that resolves it, '' for all, address, full name]] of names that users gave to addresses, and
    # with '' as address of the domains that they are below
    names: list[Any] = dataclasses.field(default_factory=list)


RULE = ('direction', 'ethertype', 'protocol', 'port_range_min', 'port_range_max', 'remote_ip_prefix', 'remote_group_id')


def as_json(state: HostState) -> dict[str, Any]:
    """A HostState as JSON can hold it. Of rules it has the columns that filters are made from."""
    made = dataclasses.asdict(dataclasses.replace(state, rules={}))
    for each in made['overlays']:           # agents of a release before VLANs take no field that they do not know
        if each['vlan'] is None:
            del each['vlan'], each['trunk']
        if not each['moving']:              # nor those of a release before guests were followed
            del each['moving']
    for each in [*made['overlays'], *made['networks']]:
        if not each['domain']:              # nor those of a release before domains of networks
            del each['domain']
    for each in made['ports']:
        for name in ('arriving', 'move'):
            if not each[name]:
                del each[name]
    for each in made['routers']:            # nor those of a release before parts of routers
        if each['role'] == WHOLE:
            del each['role']
            for leg in filter(None, [*each['inside'], each['outside']]):
                del leg['everywhere'], leg['neighbours']
    return {**made, 'rules': rules_as_json(state.rules)}


class Names(NamedTuple):
    """Names that users gave to addresses, as one network resolves them.

    entries  [(address, full name)]
    domains  that they are below, and others without any; of these no other server is queried
    """

    entries: Sequence[tuple[str, str]]
    domains: Sequence[str]


DSCP_MARKS = (0, *range(8, 41, 2), 46, 48, 56)           # RFC 2474, 2597, 3246: what a guest's packets may be given


def for_older(made: dict[str, Any]) -> dict[str, Any]:
    """What as_json has made for an agent of a release before names, marks and ranges in pairs, which takes none."""
    return {**{name: value for name, value in made.items() if name != 'names'},
            'ports': [{**{name: value for name, value in port.items() if name != 'mark'},
                       'pairs': [pair for pair in port['pairs'] if '/' not in pair['ip_address']]}
                      for port in made['ports']]}


def without_moves(made: dict[str, Any]) -> dict[str, Any]:
    """What as_json has made for an agent of a release before it followed guests that move."""
    later = ('moving', 'arriving', 'move')
    return {**made, **{kind: [{name: value for name, value in each.items() if name not in later}
                              for each in made[kind]] for kind in ('overlays', 'ports')}}


def without_domains(made: dict[str, Any]) -> dict[str, Any]:
    """What as_json has made for an agent of a release that announces the domain of the configuration alone."""
    return {**made, **{kind: [{name: value for name, value in each.items() if name != 'domain'}
                              for each in made[kind]] for kind in ('overlays', 'networks')}}


def names_in(state: HostState, network_id: str) -> Names:
    """Those that a network resolves: its project's before those of all."""
    own = [(address, name) for of, address, name in state.names if of == network_id and address]
    taken = {name for _address, name in own}
    return Names(own + [(address, name) for of, address, name in state.names
                        if of == '' and address and name not in taken],
                 sorted({name for of, address, name in state.names if of in ('', network_id) and not address}))


def rules_as_json(rules: dict[str, list[Any]]) -> dict[str, list[dict[str, Any]]]:
    """``rules`` of a HostState, the columns that filters are made from."""
    return {group: [{name: row[name] for name in RULE} for row in rows] for group, rows in rules.items()}


def remote_groups(rules: dict[str, list[Any]]) -> set[str]:
    """Ids of the groups that rules name as remote ones."""
    return {rule['remote_group_id'] for of_group in rules.values() for rule in of_group if rule['remote_group_id']}


def from_json(given: dict[str, Any]) -> HostState:
    """The HostState of ``as_json``, as the driver takes it; who does privileged work checks its values.

    :raises TypeError: it has other fields
    """
    return HostState(**{
        **given,
        'networks': [Network(**{**each, 'subnets': [Subnet(**one) for one in each['subnets']]})
                     for each in given['networks']],
        'ports': [Port(**each) for each in given['ports']],
        'overlays': [Overlay(**{**each, 'subnets': [OverlaySubnet(**one) for one in each['subnets']]})
                     for each in given['overlays']],
        'routers': [Router(**{**each, 'inside': [Leg(**one) for one in each['inside']],
                              'outside': each['outside'] and Leg(**each['outside'])})
                    for each in given['routers']]})
