"""Code that NetworkManager, Attachments and Allocation share: binding columns, VIFs and guarantees of ports."""
from collections.abc import Callable, Mapping, Sequence
import dataclasses
import re
from typing import TypedDict

from oslo_config.cfg import ConfigOpts

from nova import context as nova_context
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.networks import guarantees
from nova.db.networks import networks
from nova.db.networks import ports
from nova.db.networks import routers
from nova.db.networks import trunks
from nova.db.tables import rows as db_rows
from nova.network.host.state import search_domain
from nova.objects import network_info
from nova.objects.instance import Instance

LABEL = re.compile('[a-z0-9]([a-z0-9-]*[a-z0-9])?')


class Binding(TypedDict, total=False):
    """Columns that bind a port to a server."""

    device_id: str
    device_owner: str
    host: str
    status: str
    position: int
    tag: str | None
    dns_name: str
    attached_by: str | None
    qos_policy_id: str | None


class ServerPort(Binding):
    """Columns of a server's port; in a new row, all other columns have the database's defaults."""

    id: str
    project_id: str
    network_id: str
    name: str
    mac_address: str
    admin_state_up: bool
    created_by_compute: bool
    description: str
    port_security_enabled: bool


@dataclasses.dataclass(frozen=True)
class HostNetwork:
    """
    api_db   the API database
    host     name of this host
    refresh  function that applies the state in the database to this host
    """

    conf: ConfigOpts
    api_db: Database
    host: str
    refresh: Callable[[], None]

    def binding(self, instance: Instance, host: str) -> Binding:
        """Return the columns that bind a port to a server."""
        zone = instance.availability_zone or self.conf.default_availability_zone
        return {'device_id': instance.uuid, 'host': host, 'status': 'ACTIVE', 'device_owner': f'compute:{zone}'}

    def vifs(self, conn: Connection, rows: Sequence[db_rows.PortsRow | ServerPort]) -> list[network_info.Vif]:
        """Build VIFs of port rows."""
        vlans, subports = self._subports(conn, rows)
        every = [*rows, *subports.values()]
        known = networks.usable(conn, nova_context.ALL_PROJECTS, {row['network_id'] for row in every}) if rows else {}
        fixed = networks.addresses_of(conn, [row['id'] for row in every])
        more = overlay_addresses(conn, every, {ident: network for ident, (network, _subnets) in known.items()})
        made = {row['id']: vif(self.conf, row, *known[row['network_id']], fixed.get(row['id'], []), more)
                for row in every}
        for parent, carried in vlans.items():
            made[parent]['network']['bridge'] = network_info.trunk_bridge(parent)
            made[parent]['subports'] = [{**made[ident], 'vlan': vlan} for ident, vlan in carried if ident in subports]
        return [made[row['id']] for row in rows]

    def _subports(self, conn: Connection, rows: Sequence[db_rows.PortsRow | ServerPort],
                  ) -> tuple[dict[str, list[tuple[str, int]]], dict[str, db_rows.PortsRow]]:
        """Return ({id of a trunk's parent port: [(id of a subport, its VLAN)]}, {id: row} of the subports)."""
        parents = trunks.of_ports(conn, [row['id'] for row in rows if not row['created_by_compute']])
        found = trunks.subports(conn, [trunk['id'] for trunk in parents.values()])
        vlans = {parent: [(each.port_id, each.segmentation_id) for each in found[trunk['id']]]
                 for parent, trunk in parents.items()}
        return vlans, ports.of_ids(conn, [ident for carried in vlans.values() for ident, _vlan in carried])


def claim_guarantees(conn: Connection, host: str, rows: Sequence[db_rows.PortsRow | ServerPort],
                     known: Mapping[str, tuple[db_rows.NetworksRow, list[db_rows.SubnetsRow]]]) -> None:
    """Claim the resources that the QoS policies of a server's new ports guarantee. Without policies, run no SQL.

    :param known: result of networks.usable() for the networks of the ports
    :raises PortBindingFailed: the host lacks these resources
    """
    policies = [(row['network_id'], row.get('qos_policy_id')) for row in rows]
    guarantees.claim(conn, host, guarantees.needs(
        conn, policies, {ident: network for ident, (network, _subnets) in known.items()}))


@dataclasses.dataclass(frozen=True)
class OverlayAddresses:
    """Addresses of ports in overlay networks.

    served    {subnet id: address of the DHCP and DNS server in the subnet}
    floating  {(port id, fixed address): floating address}
    """

    served: dict[str, str] = dataclasses.field(default_factory=dict)
    floating: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)


NO_ADDRESSES = OverlayAddresses()


def overlay_addresses(conn: Connection, rows: Sequence[db_rows.PortsRow | ServerPort],
                      known: dict[str, db_rows.NetworksRow]) -> OverlayAddresses:
    """Load the OverlayAddresses of ports in two SELECTs, or without a SELECT if all networks are flat."""
    overlays = [ident for ident, network in known.items() if network['network_type'] != networks.FLAT]
    if not overlays:
        return NO_ADDRESSES
    return OverlayAddresses(ports.dhcp_addresses(conn, overlays),
                            routers.floating_of(conn, [row['id'] for row in rows]))


def vif(conf: ConfigOpts, port: db_rows.PortsRow | ServerPort, network: db_rows.NetworksRow,
        subnets: list[db_rows.SubnetsRow],
        fixed: list[dict[str, str]], more: OverlayAddresses = NO_ADDRESSES) -> network_info.Vif:
    """Return one entry of a server's network information (nova/objects/network_info.py)."""
    floating = {each['ip_address']: more.floating.get((port['id'], each['ip_address'])) for each in fixed}
    by_subnet: dict[str, list[network_info.Address]] = {}
    for entry in fixed:
        by_subnet.setdefault(entry['subnet_id'], []).append(
            {'address': entry['ip_address'], 'type': 'fixed', 'floating_ips': [
                {'address': outside, 'type': 'floating'} for outside in [floating[entry['ip_address']]] if outside]})
    return {
        'id': port['id'],
        'address': port['mac_address'],
        'type': 'bridge',
        'devname': network_info.devname(port['id']),
        'active': True,
        'tag': port['tag'],
        'network': {
            'id': network['id'],
            'label': network['name'],
            'bridge': network['bridge'],
            'mtu': network['mtu'],
            'dns_domain': search_domain(network['dns_domain'], conf.metadata.dhcp_domain),
            'subnets': [
                _subnet(conf, subnet, by_subnet[subnet['id']], network, more.served.get(subnet['id']))
                for subnet in subnets
                if subnet['id'] in by_subnet
            ],
        },
    }


def _subnet(conf: ConfigOpts, subnet: db_rows.SubnetsRow, ips: list[network_info.Address],
            network: db_rows.NetworksRow, served: str | None) -> network_info.Subnet:
    gateway = subnet['gateway_ip']
    if network['network_type'] != networks.FLAT:
        mode = subnet['ipv6_address_mode']
        return {'id': subnet['id'], 'cidr': subnet['cidr'], 'version': subnet['ip_version'], 'gateway': gateway,
                'dns': [*([served] if served else []), *subnet['dns_nameservers']], 'ips': ips,
                'routes': subnet['host_routes'], 'ipv6_address_mode': mode,
                'dhcp_server': served if mode or subnet['ip_version'] == 4 else None}
    return {'id': subnet['id'], 'cidr': subnet['cidr'], 'version': subnet['ip_version'], 'gateway': gateway,
            'dns': _name_servers(conf, subnet, network), 'ips': ips, 'routes': subnet['host_routes'],
            'dhcp_server': gateway if subnet['enable_dhcp'] else None}


def _name_servers(conf: ConfigOpts, subnet: db_rows.SubnetsRow, network: db_rows.NetworksRow) -> list[str]:
    """Return the name servers of guests of a flat subnet."""
    # hosts serve DNS at the gateways of all flat networks, but in external ones only together with DHCP
    served = subnet['gateway_ip'] if subnet['enable_dhcp'] or not network['external'] else None
    return (subnet['dns_nameservers'] or [str(ip) for ip in conf.network.dns_servers]
            or ([served] if served else []))


def dns_name(instance: Instance) -> str:
    """Return the server's DNS name in its networks, or '' if it has none."""
    return dns_label(instance.hostname if instance.obj_attr_is_set('hostname') else None)


def dns_label(hostname: str | None) -> str:
    """Return the DNS name for a host name, or '' if it is none."""
    name = (hostname or '').lower()[:63]
    return name if LABEL.fullmatch(name) else ''
