"""nova-manage network, fixed, floating: the embedded network service's rows, without the API."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

from nova.cmd import tables

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.db import engine

HOST = {'metavar': 'HOST', 'nargs': '?', 'help': 'only those on this host'}
ADDRESS = {'metavar': 'ADDRESS', 'help': 'the address'}
RESERVED = 'reserved'            # in place of the id of a port


def list_networks(conf: cfg.ConfigOpts) -> None:
    """List the networks with their subnets."""
    from nova.db.networks import networks
    from nova.db.tables import network as t
    with _api_db(conf).reader() as conn:
        rows = networks.page(conn, t.networks, t.networks.c.id.is_not(None), [('name', 'asc'), ('id', 'asc')], None,
                             None)
        idents = [row['id'] for row in rows]
        numbers = networks.segments_of(conn, idents) | networks.vlans_of(conn, idents)
        subnets = networks.many(conn, t.subnets, [row['id'] for row in rows], 'network_id')
    tables.print_table(('Id', 'Name', 'Type', 'Number', 'Ranges', 'Project'), [
        (row['id'], row['name'], 'external' if row['external'] else row['network_type'], numbers.get(row['id'], ''),
         ' '.join(subnet['cidr'] for subnet in subnets if subnet['network_id'] == row['id']), row['project_id'])
        for row in rows])


def create_vlans(conf: cfg.ConfigOpts, vlan: int | None, vlan_start: int | None, num_networks: int | None,
                 fixed_range_v4: str | None, label: str | None, project: str | None,
                 physical_network: str | None) -> None:
    """Make networks of a project, each a VLAN with a part of a range; print their ids. All are made, or none."""
    from nova import context
    from nova import exception
    from nova.network import ipam
    from nova.network.face import app
    from nova.network.face import calls
    if (vlan is None) == (vlan_start is None) or vlan is not None and num_networks is not None:
        raise exception.InvalidInput('Either --vlan is expected, or --vlan-start and perhaps --num-networks.')
    if not project or not fixed_range_v4:
        raise exception.InvalidInput('--project and --fixed-range-v4 are expected.')
    first, count = int(vlan_start or 0) if vlan is None else vlan, 1 if num_networks is None else num_networks
    name, whole, longer = label or '', ipam.parse_cidr(fixed_range_v4), max(0, count - 1).bit_length()
    if count < 1 or whole.prefixlen + longer > 30:
        raise exception.InvalidInput(f'{whole} has no room for {count} networks.')
    api_db, admin = _api_db(conf), context.admin_context()
    face = app.Face(conf, api_db)

    def make(conn: Any, path: str, **values: Any) -> str:
        return calls.create(conn, face, admin, app.RESOURCES[path], values)

    def create(conn: Any) -> list[str]:
        made: list[str] = []
        for index, piece in zip(range(count), whole.subnets(longer)):
            ident = make(conn, 'networks', name=name if count == 1 else f'{name}_{index}', project_id=project, **{
                'provider:network_type': 'vlan', 'provider:physical_network': physical_network,
                'provider:segmentation_id': first + index})
            make(conn, 'subnets', network_id=ident, cidr=str(piece), ip_version=4, name=name, project_id=project)
            made.append(ident)
        return made
    for ident in api_db.run(ipam.arbitrated(create)):
        print(ident)


def delete_network(conf: cfg.ConfigOpts, network: str) -> None:
    """Delete a network that has no ports, with its subnets."""
    from nova.network.operators import networks as operators
    operators.delete_network(_api_db(conf), network)


def modify_network(conf: cfg.ConfigOpts, network: str, project: str | None, disassociate_project: bool) -> None:
    """Give a network to a project, or take it from its project: it is for all then."""
    from nova import exception
    from nova.network.operators import networks as operators
    if bool(project) == disassociate_project:
        raise exception.InvalidInput('Either --project or --disassociate-project is expected.')
    operators.give_network(_api_db(conf), network, project)


def list_fixed(conf: cfg.ConfigOpts, host: str | None) -> None:
    """List the addresses that ports have, and those that are reserved; of leased ones until when."""
    from nova import utils
    from nova.db.networks import addresses
    now = utils.utcnow()
    with _api_db(conf).reader() as conn:
        found = addresses.taken(conn, host)
    tables.print_table(('Address', 'Network', 'MAC', 'Server', 'Host', 'Leased until'), [
        (row.address, row.name, row.mac_address or '', RESERVED if row.mac_address is None else row.device_id,
         row.host or '', row.until.isoformat(' ', 'seconds') if row.until and row.until > now else '')
        for row in found])


def reserve(conf: cfg.ConfigOpts, address: str) -> None:
    """Keep an address of the cloud's own networks from being given to a port."""
    from nova.network.operators import networks as operators
    operators.reserve(_api_db(conf), address, True)


def unreserve(conf: cfg.ConfigOpts, address: str) -> None:
    """Let ports have an address again that was reserved."""
    from nova.network.operators import networks as operators
    operators.reserve(_api_db(conf), address, False)


def create_floating(conf: cfg.ConfigOpts, ip_range: str, pool: str, interface: str | None) -> None:
    """Let floating addresses be had from a range: a subnet of the network to the outside that has the pool's name,
    which is made where it is missing. Its first address is the way out.
    """
    from nova.network.operators import floating_ranges
    floating_ranges.create(conf, _api_db(conf), ip_range, pool, interface)


def delete_floating(conf: cfg.ConfigOpts, ip_range: str) -> None:
    """Take a range back from which floating addresses could be had; none of them may be in use."""
    from nova.network.operators import floating_ranges
    floating_ranges.delete(_api_db(conf), ip_range)


def list_floating(conf: cfg.ConfigOpts) -> None:
    """List all floating addresses, and where they lead."""
    from nova.db.networks import networks
    from nova.db.tables import network as t
    with _api_db(conf).reader() as conn:
        rows = networks.page(conn, t.floating_ips, t.floating_ips.c.id.is_not(None),
                             [('floating_ip_address', 'asc'), ('id', 'asc')], None, None)
    tables.print_table(('Project', 'Address', 'Fixed address', 'Port'), [
        (row['project_id'], row['floating_ip_address'], row['fixed_ip_address'] or '', row['port_id'] or '')
        for row in rows])


def _api_db(conf: cfg.ConfigOpts) -> engine.Database:
    from nova.cloud import assembly
    return assembly.checked_databases(conf)[0]


VLANS = {
    '--vlan': {'type': int, 'metavar': 'VLAN', 'default': None, 'help': 'of the one network that is made'},
    '--vlan-start': {'type': int, 'metavar': 'VLAN', 'default': None, 'help': 'of the first of the networks'},
    '--num-networks': {'type': int, 'metavar': 'COUNT', 'default': None, 'help': '1 unless given'},
    '--fixed-range-v4': {'metavar': 'RANGE', 'default': None, 'help': 'that the networks share in equal parts'},
    '--label': {'metavar': 'NAME', 'default': None, 'help': 'of the network, with a number where there are more'},
    '--project': {'metavar': 'PROJECT', 'default': None, 'help': 'id of the project whose they are'},
    '--physical-network': {'metavar': 'NAME', 'default': None,
                           'help': 'one of [network] physical_networks; the first of vlan_ranges unless given'},
}
UUID = {'metavar': 'NETWORK', 'help': 'id of the network'}
NETWORK = {'list': list_networks, 'delete': delete_network, 'modify': modify_network}
FIXED = {'list': list_fixed, 'reserve': reserve, 'unreserve': unreserve}
FLOATING = {'create': create_floating, 'delete': delete_floating, 'list': list_floating}
RANGE = {'metavar': 'RANGE', 'help': 'as 203.0.113.0/24'}
OPTIONS = {
    delete_network: {'network': UUID}, list_fixed: {'host': HOST}, reserve: {'address': ADDRESS},
    unreserve: {'address': ADDRESS},
    create_floating: {'ip_range': RANGE,
                      '--pool': {'metavar': 'NAME', 'default': 'public', 'help': 'public unless given'},
                      '--interface': {'metavar': 'NAME', 'default': None,
                                      'help': 'one of [network] physical_networks'}},
    delete_floating: {'ip_range': RANGE},
    modify_network: {'network': UUID,
                     '--project': {'metavar': 'PROJECT', 'default': None, 'help': 'id of its new project'},
                     '--disassociate-project': {'action': 'store_true', 'help': 'it is for all projects then'}},
}
