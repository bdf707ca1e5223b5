"""nova-manage network, fixed, floating: data of the embedded network service, without the API."""
from __future__ import annotations

import ipaddress
import itertools
from typing import Any, TYPE_CHECKING

from nova import exception
from nova import utils
from nova.cmd import common
from nova.cmd import tables
from nova.cmd.manage import known_projects

if TYPE_CHECKING:
    from oslo_config import cfg

    from nova.db import engine

HOST = {'metavar': 'HOST', 'nargs': '?', 'help': 'list only addresses on this host'}
ADDRESS = {'metavar': 'ADDRESS', 'help': 'the address'}
RESERVED = 'reserved'            # printed for a reserved address in place of the id of a port


def list_networks(conf: cfg.ConfigOpts) -> None:
    """List the networks with their subnets."""
    from nova.db.networks import networks
    from nova.db.tables import network as t
    with common.api_db(conf).reader() as conn:
        rows = networks.page(conn, t.networks, t.networks.c.id.is_not(None), [('name', 'asc'), ('id', 'asc')], None,
                             None)
        idents = [row['id'] for row in rows]
        numbers = networks.segments_of(conn, idents) | networks.vlans_of(conn, idents)
        subnets = networks.many(conn, t.subnets, [row['id'] for row in rows], 'network_id')
    tables.print_table(('Id', 'Name', 'Type', 'Number', 'Ranges', 'Project'), [
        (row['id'], row['name'], 'external' if row['external'] else row['network_type'], numbers.get(row['id'], ''),
         ' '.join(subnet['cidr'] for subnet in subnets if subnet['network_id'] == row['id']), row['project_id'])
        for row in rows])


def create(conf: cfg.ConfigOpts, default: bool, **wanted: str | int | None) -> None:
    """Create networks for one project or all, optionally VLANs, each with a part of the address ranges.

    All networks are created, or none. A cloud of several daemons needs the default network of [network], which all
    projects share, before nova-network starts: --default creates it, unless it exists.
    """
    from nova import context
    from nova.network import ipam
    from nova.network.rest.request import Deps
    from nova.network.operators import legacy_parameters
    given: dict[str, Any] = {name: value for name, value in wanted.items() if value is not None}
    if default:
        if given:
            raise exception.InvalidInput('--default allows no other option: [network] describes the default network.')
        _create_default(conf)
        return
    missing = [' or '.join(options) for options in NEEDED if not any(
        option.removeprefix('--').replace('-', '_') in given for option in options)]
    if missing:
        raise exception.InvalidInput(f'A network needs {" and ".join(missing)}. Example: {EXAMPLE}. For the '
                                     'default network of [network], give only --default.')
    legacy_parameters.refuse(given, REFUSED)
    if 'vlan' in given and given.keys() & {'vlan_start', 'num_networks'}:
        raise exception.InvalidInput('Either --vlan is expected, or --vlan-start and perhaps --num-networks.')
    count, project = given.get('num_networks', 1), given.get('project')
    networks = _networks(given, count)               # check options before opening the database
    names = [given['label'] if count == 1 else f'{given["label"]}_{index}' for index in range(count)]
    api_db, admin = common.api_db(conf), context.admin_context()
    project = known_projects.find(conf, api_db, project) if project is not None else None
    deps = Deps(conf, api_db)

    def make(conn: engine.Connection) -> list[str]:
        return [legacy_parameters.make(conn, deps, admin, {
            'project_id': project or EVERYBODY, 'shared': project is None,
            'name': names[index], **_kind(given, index)
        }, subnets, for_all=project is None) for index, subnets in enumerate(networks)]
    idents = api_db.run(ipam.retry_on_duplicate(make))
    tables.print_table(('Id', 'Name', 'Ranges', 'Project'), [
        (ident, name, ' '.join(subnet['cidr'] for subnet in subnets), project or 'all projects')
        for ident, name, subnets in zip(idents, names, networks)])


def _create_default(conf: cfg.ConfigOpts) -> None:
    from nova.network import setup
    api_db = common.api_db(conf)
    found = setup.default_id(api_db)
    ident = found or setup.bootstrap(conf, api_db)
    print(f'Network {ident} is the default network. ' + ('It existed before.' if found else 'It was created.'))


def _kind(given: dict[str, Any], index: int) -> dict[str, Any]:
    """Return the fields of the Networking API for the VLAN of a network, or {} without a VLAN."""
    first = given.get('vlan', given.get('vlan_start'))
    if first is None and 'physical_network' not in given:
        return {}
    return {'provider:network_type': 'vlan', 'provider:physical_network': given.get('physical_network'),
            'provider:segmentation_id': None if first is None else first + index}


def _networks(given: dict[str, Any], count: int) -> list[list[dict[str, Any]]]:
    """Return, for each network, the bodies of the requests to the Networking API that create its subnets.

    :raises InvalidInput:
    """
    from nova.network.operators import legacy_parameters
    if not 0 < count <= MAX_NETWORKS:
        raise exception.InvalidInput(f'--num-networks must be a number from 1 to {MAX_NETWORKS}.')
    alone = sorted(given.keys() & {'gateway', 'gateway_v6', 'fixed_cidr'})
    if count > 1 and alone:
        raise exception.InvalidInput(f"--{alone[0].replace('_', '-')} allows only one network.")
    if 'fixed_range_v4' not in given and given.keys() & {'network_size', 'fixed_cidr', 'gateway', 'dns1', 'dns2'}:
        raise exception.InvalidInput('--network-size, --fixed-cidr, --gateway and --dns1 need --fixed-range-v4.')
    found: list[list[dict[str, Any]]] = [[] for _index in range(count)]
    if 'fixed_range_v4' in given:
        for piece, subnets in zip(_pieces(given['fixed_range_v4'], 4, count, given.get('network_size')), found):
            pool = _pool(piece, given) if 'fixed_cidr' in given else {}
            subnets += legacy_parameters.subnet_v4({**given, **pool, 'cidr': str(piece)})
    if 'fixed_range_v6' in given:
        for piece, subnets in zip(_pieces(given['fixed_range_v6'], 6, count, None), found):
            subnets += legacy_parameters.subnet_v6({**given, 'cidr_v6': str(piece)})
    return found


def _pieces(text: str, version: int, count: int, size: int | None) -> list[Any]:
    """Split a range into equal parts, one for each network. Parts of an IPv6 range are /64 prefixes, as SLAAC needs.

    :param size: addresses of each part
    :raises InvalidInput:
    """
    from nova.network import ipam
    whole = ipam.parse_cidr(text) if version == 4 else _range_v6(text)
    if size is not None and (size < 4 or size & (size - 1)):
        raise exception.InvalidInput('--network-size must be a power of two: 4, 8, 16 and so on.')
    longest = 30 if version == 4 else 64
    length = whole.prefixlen + max(0, count - 1).bit_length() if version == 4 else max(whole.prefixlen, 64)
    if size is not None:
        length = 33 - size.bit_length()
    if length > longest or length < whole.prefixlen or count > 1 << length - whole.prefixlen:
        raise exception.InvalidInput(f'{whole} is too small for {count} networks.')
    return list(itertools.islice(whole.subnets(new_prefix=length), count))


def _range_v6(text: str) -> ipaddress.IPv6Network:
    """Parse an IPv6 range. Its size is checked when the networks are created.

    :raises InvalidInput:
    """
    try:
        return ipaddress.IPv6Network(text if '%' not in text else '')
    except ValueError:
        raise exception.InvalidInput(f"'{text[:60]}' is not an IPv6 range.") from None


def _pool(cidr: ipaddress.IPv4Network, given: dict[str, Any]) -> dict[str, str]:
    """Return the first and the last address of --fixed-cidr that ports may get. A gateway at the beginning is skipped.

    :raises InvalidInput:
    """
    from nova.network import ipam
    fixed = ipam.parse_cidr(given['fixed_cidr'])
    if not isinstance(fixed, ipaddress.IPv4Network) or not fixed.subnet_of(cidr):
        raise exception.InvalidInput(f'--fixed-cidr must be a part of {cidr}.')
    first, last = max(fixed[0], cidr[1]), min(fixed[-1], cidr[-2])
    gateway = given.get('gateway', str(cidr[1]))
    return {'allowed_start': str(first + 1 if str(first) == gateway else first), 'allowed_end': str(last)}


def delete_network(conf: cfg.ConfigOpts, network: str) -> None:
    """Delete a network that has no ports, with its subnets."""
    from nova.network.operators import networks as operators
    operators.delete_network(common.api_db(conf), network)


def modify_network(conf: cfg.ConfigOpts, network: str, project: str | None, disassociate_project: bool) -> None:
    """Assign a network to a project, or make it available to all projects."""
    from nova.network.operators import networks as operators
    if bool(project) == disassociate_project:
        raise exception.InvalidInput('Either --project or --disassociate-project is expected.')
    api_db = common.api_db(conf)
    operators.assign_network(api_db, network, known_projects.find(conf, api_db, project) if project else None)


def list_fixed(conf: cfg.ConfigOpts, host: str | None) -> None:
    """List the addresses of ports with the ends of their leases, and the reserved addresses."""
    from nova.db.networks import addresses
    now = utils.utcnow()
    with common.api_db(conf).reader() as conn:
        found = addresses.taken(conn, host)
    tables.print_table(('Address', 'Network', 'MAC', 'Server', 'Host', 'Leased until'), [
        (row.address, row.name, row.mac_address or '', RESERVED if row.mac_address is None else row.device_id,
         row.host or '', row.expires_at.isoformat(' ', 'seconds') if row.expires_at and row.expires_at > now else '')
        for row in found])


def reserve(conf: cfg.ConfigOpts, address: str) -> None:
    """Reserve an address of the embedded networks: no port gets it."""
    from nova.network.operators import networks as operators
    operators.reserve(common.api_db(conf), address, True)


def unreserve(conf: cfg.ConfigOpts, address: str) -> None:
    """Release a reserved address."""
    from nova.network.operators import networks as operators
    operators.reserve(common.api_db(conf), address, False)


def create_floating(conf: cfg.ConfigOpts, ip_range: str, pool: str, interface: str | None) -> None:
    """Create a floating address range: a subnet of the external network with the name of the pool.

    A missing external network is created. The first address of the range is the gateway.
    """
    from nova.network.operators import floating_ranges
    floating_ranges.create(conf, common.api_db(conf), ip_range, pool, interface)


def delete_floating(conf: cfg.ConfigOpts, ip_range: str) -> None:
    """Delete a floating address range that has no addresses in use."""
    from nova.network.operators import floating_ranges
    floating_ranges.delete(common.api_db(conf), ip_range)


def list_floating(conf: cfg.ConfigOpts) -> None:
    """List all floating addresses with their fixed addresses and ports."""
    from nova.db.networks import networks
    from nova.db.tables import network as t
    with common.api_db(conf).reader() as conn:
        rows = networks.page(conn, t.floating_ips, t.floating_ips.c.id.is_not(None),
                             [('floating_ip_address', 'asc'), ('id', 'asc')], None, None)
    tables.print_table(('Project', 'Address', 'Fixed address', 'Port'), [
        (row['project_id'], row['floating_ip_address'], row['fixed_ip_address'] or '', row['port_id'] or '')
        for row in rows])


def _text(metavar: str, text: str) -> dict[str, Any]:
    return {'metavar': metavar, 'default': None, 'help': text}


def _number(metavar: str, text: str) -> dict[str, Any]:
    return {'type': int, **_text(metavar, text)}


MAX_NETWORKS = 4096              # maximum number of networks created by one command
EVERYBODY = 'nova-manage'        # temporary owner of a network without a project, during its creation
NEEDED = (('--label',), ('--fixed-range-v4', '--fixed-range-v6'))        # one option of each group is required
EXAMPLE = 'nova-manage network create --label private --fixed-range-v4 10.44.0.0/24'
REFUSED = {'vpn': 'os-cloudpipe sets the port of a VPN instance'}
CREATE = {
    '--default': {'action': 'store_true', 'help': 'create the default network of [network] if it is missing'},
    '--label': _text('NAME', 'name of the network; several networks get a number as suffix'),
    '--fixed-range-v4': _text('RANGE', 'IPv4 range, which is divided equally between the networks'),
    '--fixed-range-v6': _text('RANGE', 'IPv6 range, from which each network gets a /64; guests choose their '
                                       'addresses by SLAAC'),
    '--num-networks': _number('COUNT', 'number of networks (default: 1)'),
    '--network-size': _number('COUNT', 'number of IPv4 addresses per network (default: equal parts of the range)'),
    '--fixed-cidr': _text('RANGE', 'part of --fixed-range-v4 from which ports get addresses'),
    '--gateway': _text('ADDRESS', 'gateway address (default: the first of the range)'),
    '--gateway-v6': _text('ADDRESS', 'gateway address (default: the first of the range)'),
    '--dns1': _text('ADDRESS', 'name server, in addition to that of the network'),
    '--dns2': _text('ADDRESS', 'second name server'),
    '--project': _text('PROJECT', f'project that owns the networks: {known_projects.HELP} (default: all projects)'),
    '--vlan': _number('VLAN', 'VLAN id of the network; allows only one network'),
    '--vlan-start': _number('VLAN', 'VLAN id of the first network'),
    '--physical-network': _text('NAME', 'physical network of VLANs, one of [network] physical_networks (default: '
                                        'the first of vlan_ranges)'),
    **{f'--{name}': _text('VALUE', 'refused, with the reason') for name in (
        'bridge', 'bridge-interface', 'multi-host', 'uuid', 'priority', 'vpn')},
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
                      '--pool': {'metavar': 'NAME', 'default': 'public', 'help': 'name of the pool (default: '
                                                                                 'public)'},
                      '--interface': {'metavar': 'NAME', 'default': None,
                                      'help': 'one of [network] physical_networks'}},
    delete_floating: {'ip_range': RANGE},
    modify_network: {'network': UUID,
                     '--project': {'metavar': 'PROJECT', 'default': None,
                                   'help': f'new project of the network: {known_projects.HELP}'},
                     '--disassociate-project': {'action': 'store_true', 'help': 'make the network available to all '
                                                                                'projects'}},
}
