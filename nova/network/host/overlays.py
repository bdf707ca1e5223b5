"""Load the overlay networks that one host needs."""
import bisect
from collections.abc import Collection, Mapping
import dataclasses
import ipaddress
from typing import TypeVar

from nova.db.engine import Connection
from nova.db.networks import hosts
from nova.db.networks import networks
from nova.db.networks import ports as db_ports
from nova.db.tables import network as t
from nova.db.tables import rows as db_rows
from nova.network import ranges
from nova.network.host import state as host_state

R = TypeVar('R', db_rows.PortsRow, db_rows.SubnetsRow)


@dataclasses.dataclass
class OverlayState:
    """Overlay networks that a host needs, and the guests in them.

    neighbours  {bridge: [[address, MAC]]} of guests, except addresses that several ports of the network may use
    """

    overlays: list[host_state.Overlay]
    neighbours: dict[str, list[list[str]]]


def load(conn: Connection, rows: dict[str, db_rows.NetworksRow], host: str, physical: dict[str, str],
         substitutes: Mapping[str, str | None] | None = None, transit: Collection[str] = ()) -> OverlayState:
    """Load the overlays of networks in five SELECTs, or six if a network is a VLAN.

    :param rows: {id: row of a network}
    :param physical: {physical network: bridge of the operator}
    :param substitutes: see routers.HostRouters
    :param transit: ids of networks without guests on this host; no DHCP or DNS is served in them
    """
    if not rows:
        return OverlayState([], {})
    numbers = networks.segments_of(conn, rows)
    ports = _by_network(networks.many(conn, t.ports, rows, 'network_id'))
    subnets = _by_network(networks.many(conn, t.subnets, rows, 'network_id'))
    fixed = networks.addresses_of(conn, [row['id'] for found in ports.values() for row in found])
    places = {row['host']: row['address'] for row in hosts.every(conn)}
    vlans = networks.vlans_of(conn, [ident for ident, row in rows.items() if row['network_type'] == networks.VLAN])
    found = [_overlay(row, numbers[ident], ports.get(ident, []), subnets.get(ident, []), fixed, places, host,
                      substitutes or {})
             for ident, row in sorted(rows.items()) if ident in numbers]
    return OverlayState([_with_transport(each, vlans, physical, rows[each.id], each.id in transit) for each in found],
                        {row['bridge']: _neighbours(ports.get(ident, []), fixed) for ident, row in rows.items()})


def _with_transport(overlay: host_state.Overlay, vlans: dict[str, int], physical: dict[str, str],
                    row: db_rows.NetworksRow, transit: bool) -> host_state.Overlay:
    if transit:
        overlay = dataclasses.replace(overlay, mac=None, subnets=[], leases=[])
    if overlay.id not in vlans:
        return overlay
    return dataclasses.replace(overlay, remotes=[], migrating=[], vlan=vlans[overlay.id],
                               physical_bridge=physical.get(row['physical_network'] or ''))


def _neighbours(ports: list[db_rows.PortsRow], fixed: dict[str, list[dict[str, str]]]) -> list[list[str]]:
    """Return [[address, MAC]] of guests that have a host, without addresses that several ports may use."""
    several = {pair['ip_address'] for port in ports for pair in port['allowed_address_pairs'] or ()}
    wide = _AddressRanges([each for each in several if ranges.is_range(each)])
    return sorted([entry['ip_address'], port['mac_address']] for port in ports
                  if port['host'] and not port['device_owner'].startswith('network:')
                  for entry in fixed.get(port['id'], ())
                  if entry['ip_address'] not in several and entry['ip_address'] not in wide)


class _AddressRanges:
    """Set of address ranges with a lookup in logarithmic time."""

    def __init__(self, ranges: list[str]) -> None:
        networks = [ipaddress.ip_network(each) for each in ranges]
        self._of = {version: list(ipaddress.collapse_addresses([          # sorted, without overlaps
            each for each in networks if each.version == version])) for version in (4, 6)}      # type: ignore[type-var]
        self._first = {version: [each.network_address for each in some] for version, some in self._of.items()}

    def __contains__(self, address: str) -> bool:
        found = ipaddress.ip_address(address)
        before = bisect.bisect_right(self._first[found.version], found)
        return bool(before) and found in self._of[found.version][before - 1]


def _name_owners(row: db_rows.NetworksRow, ports: list[db_rows.PortsRow]) -> dict[str, str]:
    """Return {DNS name: project}: the network's project if a port of this project has the name, otherwise the project
    of the oldest port with the name. So another project in a shared network cannot take over the name of a server.
    """
    found: dict[str, str] = {}
    for port in sorted(ports, key=lambda port: port['project_id'] != row['project_id']):
        if port['dns_name']:
            found.setdefault(port['dns_name'], port['project_id'])
    return found


def _options(port: db_rows.PortsRow) -> list[host_state.DhcpOption]:
    """Return the valid DHCP options of a port: an invalid option would make the host reject its whole state."""
    return [option for option in port['extra_dhcp_opts'] or ()
            if host_state.OPTION_NAME.fullmatch(option['opt_name'])
            and host_state.OPTION_VALUE.fullmatch(option['opt_value'])
            and option.get('ip_version', 4) in host_state.OPTION_VERSIONS]


def _by_network(rows: list[R]) -> dict[str, list[R]]:
    found: dict[str, list[R]] = {}
    for row in sorted(rows, key=lambda row: (row['created_at'], row['id'])):
        found.setdefault(row['network_id'], []).append(row)
    return found


def _overlay(row: db_rows.NetworksRow, number: int, ports: list[db_rows.PortsRow], subnets: list[db_rows.SubnetsRow],
             fixed: dict[str, list[dict[str, str]]], places: dict[str, str], host: str,
             substitutes: Mapping[str, str | None]) -> host_state.Overlay:
    service = next((port for port in ports if port['device_owner'] == db_ports.DHCP), None)
    served = {entry['subnet_id']: entry['ip_address'] for entry in fixed.get(service['id'], ())} if service else {}
    owners = _name_owners(row, ports)
    leases: list[host_state.StaticLease] = [{'mac': port['mac_address'], 'address': entry['ip_address'],
               'name': port['dns_name'] if owners.get(port['dns_name']) == port['project_id'] else '',
               'options': _options(port) if host in (port['host'], port['migrating_to']) else []}
              for port in ports if not port['device_owner'].startswith('network:')
              for entry in fixed.get(port['id'], ())]
    remotes = [[mac, places[port['host']]] for port in ports
               if (mac := substitutes.get(port['id'], port['mac_address'])) is not None
               and port['host'] != host and port['host'] in places]
    moving = [[port['mac_address'], places[port['migrating_to']]] for port in ports
              if port['migrating_to'] not in ('', host, port['host']) and port['migrating_to'] in places]
    return host_state.Overlay(
        id=row['id'], bridge=row['bridge'], number=number, mtu=row['mtu'], mac=service and service['mac_address'],
        subnets=[host_state.OverlaySubnet(subnet['cidr'], subnet['gateway_ip'], served.get(subnet['id']),
                               subnet['dns_nameservers'], subnet['host_routes'], subnet['ipv6_address_mode'])
                 for subnet in subnets],
        leases=sorted(leases, key=lambda lease: (lease['mac'], lease['address'])), remotes=sorted(remotes),
        migrating=sorted(moving), domain=row['dns_domain'].rstrip('.'))
