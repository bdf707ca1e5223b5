"""Networks and subnets.

Hosts route flat networks in their main routing table. Projects create flat subnets only in [network] project_ranges;
administrators may use other ranges. Overlay networks are isolated and may use any addresses. Gateways of routers are in
external networks.
"""
from __future__ import annotations

import functools
import ipaddress
import random
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, cast, TYPE_CHECKING

from nova import exception
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.networks import address_scopes as db_scopes
from nova.db.networks import guarantees as db_guarantees
from nova.db.networks import networks as db
from nova.db.networks import ports as db_ports
from nova.db.networks import routers as db_routers
from nova.db.projects import quotas as db_quotas
from nova.db.tables import network as t
from nova.network import ipam
from nova.network import managers
from nova.network import ranges
from nova.network.rest import faults
from nova.network.rest import guarantees
from nova.network.rest import qos
from nova.network.rest import quotas
from nova.network.rest import rows as r
from nova.network.rest import schemas as s
from nova.network.rest import subnet_pools
from nova.network.rest import vlans
from nova.web.fields import Constant

if TYPE_CHECKING:
    from nova.db.tables.rows import NetworksRow, SubnetsRow
    from nova.network.rest.request import Deps
    from nova.network.rest.values import NetworkValues
    from nova.network.rest.values import SubnetValues

IPV6_MODES = ('slaac', 'dhcpv6-stateful', 'dhcpv6-stateless')
VXLAN_BYTES = 50            # bytes that VXLAN adds to a frame (RFC 7348)


def _allow(deps: Deps, context: RequestContext, network: Mapping[str, Any], rule: str) -> None:
    """Raise PolicyDenied if a project requests a flat network, and [network] project_ranges is empty."""
    if not context.is_admin and network['network_type'] == db.FLAT and not deps.conf.network.project_ranges:
        raise exception.PolicyDenied(rule=rule)


# ---- networks --------------------------------------------------------------------

def _subnets(conn: Connection, idents: list[str]) -> dict[str, list[str]]:
    subnets: dict[str, list[str]] = {}
    for subnet in sorted(db.many(conn, t.subnets, idents, 'network_id'), key=lambda subnet: subnet['created_at']):
        subnets.setdefault(subnet['network_id'], []).append(subnet['id'])
    return subnets


def _load_scopes(conn: Connection, _context: RequestContext, rows: list[dict[str, Any]]) -> None:
    scopes = db_scopes.of_networks(conn, [row['id'] for row in rows])
    for row in rows:
        row |= {f'scope_{version}': scopes.get((row['id'], version)) for version in (4, 6)}


def _load_number(conn: Connection, _context: RequestContext, rows: list[dict[str, Any]]) -> None:
    idents = [row['id'] for row in rows]
    numbers = db.segments_of(conn, idents) | db.vlans_of(conn, idents)
    for row in rows:
        row['number'] = numbers.get(row['id'])


def _physical(row: Mapping[str, Any], _context: RequestContext) -> str | None:
    return row['physical_network'] or (row['bridge'] if row['network_type'] == db.FLAT else None)


def create_network(conn: Connection, deps: Deps, context: RequestContext, values: NetworkValues) -> str:
    project = r.new_owner(context, values)
    kind = values['provider:network_type'] or (
        db.FLAT if values['router:external'] or deps.conf.network.project_ranges else managers.project_type(deps.conf))
    ident, physical, wanted = (str(uuid.uuid4()), values['provider:physical_network'],
                               values['provider:segmentation_id'])
    vlan = vlans.chosen(conn, deps.conf, physical, wanted) if kind == db.VLAN else None
    physical, wanted = vlan or (physical, wanted)
    row = {
        **NETWORKS.stored(values), 'id': ident, 'project_id': project,
        'bridge': 'br' + ident.replace('-', '')[:12], 'network_type': kind, 'physical_network': physical,
        'mtu': values['mtu'] or deps.conf.network.mtu - (VXLAN_BYTES if kind == db.OVERLAY else 0),
        'qos_policy_id': qos.chosen(conn, context, None, values['qos_policy_id'])}
    _check_kind(deps, row, wanted)
    _check_mtu(deps, kind, values['mtu'])
    if not row['external']:                 # external networks need the rule of router:external instead
        _allow(deps, context, row, 'create_network')
    quotas.check(conn, deps.conf, 'network', project)
    _check_default(conn, row, row['is_default'])
    db.insert(conn, t.networks, [row])
    if kind != db.FLAT:
        db.add_segment(conn, ident, _number(conn, wanted) if kind == db.OVERLAY else _free_number(conn))
    if vlan is not None:
        db.add_vlan(conn, ident, *vlan)
    return ident


def _check_kind(deps: Deps, row: Mapping[str, Any], number: int | None) -> None:
    """Check that the attributes of a new network fit together."""
    if row['is_default'] and not row['external']:
        raise exception.InvalidInput(reason='is_default is supported only for external networks.')
    if row['external'] and row['network_type'] != db.FLAT:
        raise exception.InvalidInput(reason='An external network must be of type flat.')
    _check_port_security(row, row['port_security_enabled'])
    if number is not None and row['network_type'] == db.FLAT:
        raise exception.InvalidInput(reason='Only a network of type vxlan or vlan has a segmentation_id.')
    if row['physical_network'] is not None:
        if not row['external'] and row['network_type'] != db.VLAN:
            raise exception.InvalidInput(reason='physical_network is supported only for external networks and networks '
                                                'of type vlan.')
        if row['physical_network'] not in deps.conf.network.physical_networks:
            raise exception.InvalidInput(reason=f"physical_network '{row['physical_network'][:60]}' is not in "
                                                '[network] physical_networks.')


def _check_port_security(row: Mapping[str, Any], wanted: bool | None) -> None:
    if wanted is False and row['network_type'] == db.FLAT and not row['external']:
        raise exception.InvalidInput(reason='Disabling port security is supported only for networks of type vxlan or '
                                            'vlan: guests of other projects share the routing table of the hosts.')


def _check_default(conn: Connection, row: Mapping[str, Any], wanted: bool) -> None:
    """Check that there is at most one default external network. Concurrent requests wait until the transaction ends.

    :raises DefaultExternalNetworkExists:
    """
    if not wanted:
        return
    db_quotas.lock(conn, 'default external network:')
    for other in db.page(conn, t.networks, t.networks.c.external & t.networks.c.is_default, [('id', 'asc')], None,
                         None):
        if other['id'] != row['id']:
            raise faults.DefaultExternalNetworkExists(net_id=other['id'])


def _check_mtu(deps: Deps, kind: str, mtu: int | None) -> None:
    """Check that an encapsulated frame fits into the hosts' MTU."""
    most = deps.conf.network.mtu - VXLAN_BYTES
    if kind == db.OVERLAY and mtu is not None and mtu > most:
        raise exception.InvalidInput(reason=f'mtu must be at most {most} in a network of type vxlan.')


def _number(conn: Connection, wanted: int | None) -> int:
    """Return the requested segmentation id of an overlay, or a free id if the request has none."""
    if wanted is None:
        return _free_number(conn)
    if db.many(conn, t.segments, [wanted], 'number'):
        raise faults.TunnelIdInUse(number=wanted)
    return wanted


def _free_number(conn: Connection) -> int:
    """Return an unused segmentation id. If two requests choose the same number, the unique key rejects one request."""
    while True:
        number = random.choice(db.SEGMENTS)
        if not db.many(conn, t.segments, [number], 'number'):
            return number


def update_network(conn: Connection, deps: Deps, context: RequestContext, row: NetworksRow,
                   values: NetworkValues) -> None:
    _allow(deps, context, row, 'update_network')
    stored = {name: value for name, value in NETWORKS.stored(values).items() if name not in ('external', 'is_default')}
    if 'qos_policy_id' in values:
        stored['qos_policy_id'] = qos.chosen(conn, context, row['qos_policy_id'], values['qos_policy_id'])
    _check_mtu(deps, row['network_type'], stored.get('mtu'))
    if row['port_security_enabled']:
        _check_port_security(row, stored.get('port_security_enabled'))
    if values.get('router:external') not in (None, row['external']):
        stored.update(_outside(conn, row, values['router:external']))
    if values.get('is_default') not in (None, row['is_default']):
        if not {**NETWORKS.locked(conn, row['id']), **stored}['external']:
            raise exception.InvalidInput(reason='is_default can be set only on external networks.')
        _check_default(conn, row, values['is_default'])
        stored['is_default'] = values['is_default']
    db.update(conn, t.networks, row['id'], stored)
    if stored.get('qos_policy_id'):
        guarantees.claim(conn, db_guarantees.claim_policy, stored['qos_policy_id'])
    if stored.get('shared') is False and row['shared']:
        db_ports.evict(conn, row['id'], row['project_id'])


def _outside(conn: Connection, row: Mapping[str, Any], external: bool) -> dict[str, Any]:
    """Return the changed columns of a network that becomes external or internal.

    :raises NetworkInUse: the network has ports, or subnets of another network type
    """
    row = db.lock_with_subnets(conn, row['id'])
    other_type = external and row['network_type'] != db.FLAT
    if db_ports.count(conn, network_id=row['id']) or other_type and db.ranges_of(conn, row['id']):
        raise exception.NetworkInUse(network_id=row['id'])
    if other_type:
        db.forget_numbers(conn, row['id'])
        return {'external': True, 'network_type': db.FLAT, 'physical_network': None}
    return {'external': external, 'is_default': False}


def delete_network(conn: Connection, deps: Deps, context: RequestContext, row: NetworksRow) -> None:
    _allow(deps, context, row, 'delete_network')
    row = db.lock_with_subnets(conn, row['id'])
    unused = [floating for floating in db.many(conn, t.floating_ips, [row['id']], 'floating_network_id')
              if floating['router_id'] is None] if row['external'] else []
    own = [port['id'] for port in db_ports.in_network(conn, row['id']) if port['device_owner'] == db_ports.DHCP]
    own += [floating['floating_port_id'] for floating in unused]
    if db_ports.count(conn, network_id=row['id']) > len(own):
        raise exception.NetworkInUse(network_id=row['id'])
    for floating in unused:  # delete the network's unassociated floating addresses
        db_routers.remove_floating(conn, floating['id'])
    if own:
        db_ports.remove(conn, own)
    db.remove_network(conn, row['id'])


_TYPES = (db.FLAT, db.OVERLAY, db.VLAN)
NETWORKS = r.Resource('network', 'networks', t.networks, (
    *r.NAMED, r.ADMIN_STATE,
    r.Field('status', s.const('ACTIVE'), Constant('ACTIVE'), 'Always ACTIVE.'),
    r.SHARED,
    r.column('mtu', s.NUMBER, 'Largest packet in bytes.', write=r.BOTH, accepts=s.nullable(s.integer(576, 65535)),
             chosen=True),
    r.Field('subnets', s.array(s.UUID), 'subnets', 'Subnets.', lists=_subnets),
    r.Field('router:external', s.FLAG, 'external', 'Whether routers can have their gateways in it.', write=r.BOTH,
            accepts=s.BOOLEAN, default=False, guarded=True),
    r.column('is_default', s.FLAG, 'Whether it is the default external network.', write=r.BOTH, accepts=s.BOOLEAN,
             default=False, guarded=True),
    r.column('port_security_enabled', s.FLAG, 'Default of its ports.', write=r.BOTH, accepts=s.BOOLEAN, default=True,
             guarded=True),
    r.column('qos_policy_id', s.UUID_OR_NULL, 'QoS policy.', write=r.BOTH, accepts=s.nullable(s.IDENT)),
    r.column('dns_domain', s.TEXT, 'Domain of the names of its ports.', write=r.BOTH, accepts=s.DOMAIN, default=''),
    *r.zones(t.networks),
    r.Field('provider:network_type', s.one_of(*_TYPES), 'network_type', 'Type of the network.', write='create',
            rule='get_network:provider:network_type', guarded=True),
    r.Field('provider:physical_network', s.TEXT_OR_NULL, _physical, 'Physical network.',
            columns=('physical_network', 'bridge', 'network_type'), where=db.on_physical,
            rule='get_network:provider:physical_network', write='create', accepts=s.nullable(s.NAME), guarded=True),
    r.Field('provider:segmentation_id', s.NUMBER_OR_NULL, 'number', 'VLAN or VXLAN identifier.', load=_load_number,
            columns=('id',), where=db.with_number, rule='get_network:provider:segmentation_id', write='create',
            accepts=s.nullable(s.integer(1, db.SEGMENTS[-1])), guarded=True),
    *(r.Field(f'ipv{version}_address_scope', s.UUID_OR_NULL, f'scope_{version}',
              f'Address scope of its IPv{version} subnets.', load=_load_scopes, columns=('id',),
              where=functools.partial(db_scopes.on_networks, version)) for version in (4, 6)),
    r.Field('vlan_transparent', s.NULL, Constant(None), 'Always null.'),
    r.Field('l2_adjacency', s.const(True), Constant(True), 'Always true.'),
), visible=db.visible, create=create_network, update=update_network, delete=delete_network,
    missing=lambda ident: exception.NetworkNotFound(network_id=ident))


# ---- subnets -----------------------------------------------------------------------

def create_subnet(conn: Connection, deps: Deps, context: RequestContext, values: SubnetValues) -> str:
    network = db.lock(conn, t.networks, values['network_id'])
    if network is None or not (r.is_owner(context, network) or network['shared']):
        raise exception.NetworkNotFound(network_id=values['network_id'])
    _allow(deps, context, network, 'create_subnet')
    r.new_owner(context, values)
    quotas.check(conn, deps.conf, 'subnet', network['project_id'])
    overlay = network['network_type'] != db.FLAT
    others = db.ranges_of(conn, network['id']) if overlay else db.host_ranges(conn)
    pool, wanted = subnet_pools.allocate(conn, context, values, network['project_id'], others)
    cidr = ipam.parse_cidr(wanted, strict=False, versions=(4, 6) if overlay else (4,))
    if values['ip_version'] != cidr.version:
        raise exception.InvalidInput(reason=f"ip_version {values['ip_version']} does not match {cidr}.")
    if not overlay:
        managers.check_dhcp(deps.conf, values['enable_dhcp'])
        _check_range(deps, context, cidr)
    _check_overlap(others, cidr)
    _check_scope(conn, network, cidr.version, pool)
    gateway = str(cidr.network_address + 1) if values['gateway_ip'] is s.UNSET else values['gateway_ip']
    row = {**SUBNETS.stored(values), 'id': str(uuid.uuid4()), 'project_id': network['project_id'],
           'cidr': str(cidr), 'ip_version': cidr.version, 'subnetpool_id': pool, 'gateway_ip': gateway,
           **_modes(cidr, values)}
    _check_gateway(cidr, row, overlay)
    _check_versions(cidr, row)
    row['allocation_pools'] = _pools(cidr, row, values['allocation_pools'])
    db.insert(conn, t.subnets, [row])
    if overlay:
        _serve_dhcp(conn, deps, network, row)
    return row['id']


def update_subnet(conn: Connection, deps: Deps, context: RequestContext, row: SubnetsRow,
                  values: SubnetValues) -> None:
    network = NETWORKS.get(conn, row['network_id'])
    _allow(deps, context, network, 'update_subnet')
    stored = SUBNETS.stored(values) | ({'gateway_ip': values['gateway_ip']} if 'gateway_ip' in values else {})
    cidr, fresh = ipaddress.ip_network(row['cidr']), {**row, **stored}
    overlay = network['network_type'] != db.FLAT
    if not overlay and 'enable_dhcp' in stored:
        managers.check_dhcp(deps.conf, stored['enable_dhcp'])
    _check_gateway(cidr, fresh, overlay)
    _check_versions(cidr, fresh)
    if 'allocation_pools' in values or 'gateway_ip' in stored:
        stored['allocation_pools'] = _pools(cidr, fresh, values.get('allocation_pools') or (
            row['allocation_pools'] if row['allocation_pools'] != ipam.default_pools(
                cidr, ipaddress.ip_address(row['gateway_ip']) if row['gateway_ip'] else None) else None))
    if fresh['gateway_ip'] and fresh['gateway_ip'] != row['gateway_ip']:
        routers = db_routers.addresses_on(conn, row['id'])
        if row['gateway_ip'] in routers:
            raise faults.GatewayIpInUse(ip_address=row['gateway_ip'], subnet_id=row['id'])
        if fresh['gateway_ip'] not in routers and db.used_addresses(conn, row['id'], fresh['gateway_ip']):
            raise exception.FixedIpInUse(address=fresh['gateway_ip'])
    if not db.update(conn, t.subnets, row['id'], stored):                # deleted concurrently
        raise exception.SubnetNotFound(subnet_id=row['id'])
    if overlay and fresh['enable_dhcp'] != row['enable_dhcp']:
        _serve_dhcp(conn, deps, network, {**fresh, **stored})


def delete_subnet(conn: Connection, deps: Deps, context: RequestContext, row: SubnetsRow) -> None:
    network = NETWORKS.get(conn, row['network_id'])
    _allow(deps, context, network, 'delete_subnet')
    db.lock(conn, t.subnets, row['id'])
    _serve_dhcp(conn, deps, network, {**row, 'enable_dhcp': False})
    if db.used_addresses(conn, row['id']):
        raise faults.SubnetInUse(subnet_id=row['id'])
    db.remove_subnet(conn, row['id'])


def _serve_dhcp(conn: Connection, deps: Deps, network: NetworksRow, subnet: Mapping[str, Any]) -> None:
    """Claim or release the address that the DHCP and DNS servers of all hosts use in a subnet."""
    port = next((port for port in db_ports.in_network(conn, network['id']) if port['device_owner'] == db_ports.DHCP),
                None)
    if not subnet['enable_dhcp']:
        if port is not None:
            held = db.addresses_of(conn, [port['id']]).get(port['id'], [])
            db.release_some(conn, port['id'], [entry['ip_address'] for entry in held
                                               if entry['subnet_id'] == subnet['id']])
            if all(entry['subnet_id'] == subnet['id'] for entry in held):
                db_ports.remove(conn, [port['id']])
        return
    ident, mac = (str(uuid.uuid4()), ipam.new_mac()) if port is None else (port['id'], port['mac_address'])
    if port is None:
        _insert_port(conn, network, ident, project_id=network['project_id'], mac_address=mac, status='ACTIVE',
                     device_id='dhcp-' + network['id'], device_owner=db_ports.DHCP)
    stored = cast('SubnetsRow', subnet)           # created_at and updated_at may be missing; claim() does not read them
    ipam.claim(conn, network['id'], [stored], ident, [{'subnet_id': stored['id']}], deps.quarantine_cutoff, mac)


def add_service_port(conn: Connection, deps: Deps, network: NetworksRow, subnets: list[SubnetsRow],
                     wanted: list[dict[str, str]], owner: str, device_id: str, host: str = '',
                     project_id: str = '') -> tuple[str, list[dict[str, str]]]:
    """Add a port of the network service and return (id, addresses); see ipam.claim."""
    ident = str(uuid.uuid4())
    given = ipam.claim(conn, network['id'], subnets, ident, wanted, deps.quarantine_cutoff,
                       gateways=owner == db_ports.INTERFACE, owner=owner)
    _insert_port(conn, network, ident, project_id=project_id, mac_address=ipam.new_mac(), device_id=device_id,
                 status='ACTIVE' if host else 'DOWN', device_owner=owner, host=host)
    return ident, given


def _insert_port(conn: Connection, network: NetworksRow, ident: str, **columns: str) -> None:
    db.insert(conn, t.ports, [{
        'id': ident, 'network_id': network['id'], 'name': '', 'description': '', 'admin_state_up': True, 'host': '',
        'position': 0, 'tag': None, 'created_by_compute': False, **columns}])


def _modes(cidr: ranges.Cidr, values: SubnetValues) -> dict[str, str | None]:
    """Check and return the columns ipv6_ra_mode and ipv6_address_mode of a subnet."""
    ra, address = values['ipv6_ra_mode'], values['ipv6_address_mode']
    if cidr.version == 4 and (ra or address):
        raise exception.InvalidInput(reason='ipv6_ra_mode and ipv6_address_mode are supported only for IPv6 subnets.')
    if ra != address:
        raise exception.InvalidInput(reason='ipv6_ra_mode and ipv6_address_mode must be equal: this service advertises '
                                            'what it serves.')
    if address in ipam.SLAAC and cidr.prefixlen != 64:
        raise exception.InvalidInput(reason=f'{address} needs a prefix length of 64.')
    if address and not values['enable_dhcp']:
        raise exception.InvalidInput(reason='ipv6_address_mode requires enable_dhcp.')
    return {'ipv6_ra_mode': ra, 'ipv6_address_mode': address}


def _check_versions(cidr: ranges.Cidr, row: Mapping[str, Any]) -> None:
    """Check that name servers and routes have the subnet's IP version."""
    given = [*row['dns_nameservers'], *(each for route in row['host_routes'] for each in
                                        (route['nexthop'], route['destination'].partition('/')[0]))]
    if any(ipaddress.ip_address(each).version != cidr.version for each in given):
        raise exception.InvalidInput(reason=f'Name servers and routes of {cidr} must be IPv{cidr.version}.')


def _check_range(deps: Deps, context: RequestContext, cidr: ranges.Cidr) -> None:
    allowed = deps.conf.network.project_ranges
    if not context.is_admin and not ranges.covers(map(ipaddress.ip_network, allowed), cidr):
        raise exception.InvalidInput(reason=f'Subnets of projects must be in {", ".join(allowed)}.')


def _check_scope(conn: Connection, network: NetworksRow, version: int, pool: str | None) -> None:
    """Check that a new subnet has the same address scope as the network's subnets of its IP version.

    :param pool: id of the new subnet's pool
    :raises NetworkAddressScopeAffinityError:
    """
    known = db_scopes.of_networks(conn, [network['id']])
    scope = db_scopes.of_pools(conn, [pool]).get(pool) if pool else None
    if known.get((network['id'], version), scope) != scope:
        raise faults.NetworkAddressScopeAffinityError(network_id=network['id'], version=version)


def _check_overlap(others: Sequence[str], cidr: ranges.Cidr) -> None:
    for other in map(ipaddress.ip_network, others):
        if other.version == cidr.version and cidr.overlaps(other):
            raise exception.InvalidInput(
                reason=f'Requested subnet with cidr: {cidr} overlaps with another subnet.')


def _check_gateway(cidr: ranges.Cidr, row: Mapping[str, Any], overlay: bool) -> None:
    gateway = row['gateway_ip']
    if gateway is None:
        if row['enable_dhcp'] and not overlay:
            raise exception.InvalidInput(
                reason="DHCP is served from the gateway: a subnet without a gateway needs enable_dhcp false.")
        return
    address = ipaddress.ip_address(gateway)
    if address not in cidr or address == cidr.network_address or cidr.version == 4 and (
            address == cidr.broadcast_address):
        raise exception.InvalidInput(reason=f'Gateway is not valid on subnet {cidr}.')


def _pools(cidr: ranges.Cidr, row: Mapping[str, Any], pools: list[dict[str, str]] | None) -> list[dict[str, str]]:
    gateway = row['gateway_ip'] and ipaddress.ip_address(row['gateway_ip'])
    if not pools:
        return ipam.default_pools(cidr, gateway)
    spans: list[tuple[Any, Any]] = sorted(
        ((ipaddress.ip_address(pool['start']), ipaddress.ip_address(pool['end'])) for pool in pools),
        key=lambda span: [(each.version, int(each)) for each in span])    # the loop below rejects a wrong IP version
    previous = cidr.network_address
    for start, end in spans:
        if {start.version, end.version} != {cidr.version} or start > end or start <= previous or (
                end > cidr.broadcast_address or cidr.version == 4 and end == cidr.broadcast_address):
            raise exception.InvalidInput(
                reason=f'The allocation pools must lie in {cidr}, in order and without overlap.')
        if gateway and start <= gateway <= end:
            raise exception.InvalidInput(
                reason=f'Gateway ip {gateway} conflicts with allocation pool {start}-{end}.')
        previous = end
    return [{'start': str(start), 'end': str(end)} for start, end in spans]


_MODE = s.one_of(None, *IPV6_MODES)
SUBNETS = r.Resource('subnet', 'subnets', t.subnets, (
    *r.NAMED,
    r.column('network_id', s.UUID, 'Network.', write='create', accepts=s.IDENT, required=True),
    r.column('cidr', s.TEXT, 'Range.', write='create', accepts=s.nullable(s.text(43))),
    r.Field('prefixlen', s.NUMBER, None, 'Prefix length of a range from the pool.', '', write='create',
            accepts=s.nullable(s.integer(0, 128))),
    r.column('ip_version', s.NUMBER, 'IP version.', write='create', accepts=s.IP_VERSION, default=4),
    r.column('gateway_ip', s.TEXT_OR_NULL, 'Address of the gateway.', write=r.BOTH,
             accepts=s.nullable(s.NETWORK_ADDRESS), default=s.UNSET),
    r.column('enable_dhcp', s.FLAG, 'Whether DHCP is served.', write=r.BOTH, accepts=s.BOOLEAN, default=True),
    r.column('allocation_pools', s.array(s.shape(start=s.TEXT, end=s.TEXT)), 'Ranges of addresses for ports.',
             write=r.BOTH, accepts=s.nullable(s.items(s.record(
                 'start', 'end', start=s.NETWORK_ADDRESS, end=s.NETWORK_ADDRESS))), chosen=True),
    r.column('dns_nameservers', s.TEXTS, 'Name servers.', write=r.BOTH,
             accepts=s.clearable(s.items(s.NETWORK_ADDRESS, 10)), default=[]),
    r.column('host_routes', s.ROUTES, 'Routes of the guests.', write=r.BOTH, accepts=s.clearable(s.items(s.ROUTE, 20)),
             default=[]),
    r.column('ipv6_ra_mode', _MODE, 'Mode of router advertisements.', write='create'),
    r.column('ipv6_address_mode', _MODE, 'Mode of IPv6 addresses.', write='create'),
    r.column('subnetpool_id', s.UUID_OR_NULL, 'Subnet pool of the range.', write='create', accepts=s.nullable(s.IDENT)),
    r.Field('use_default_subnetpool', s.FLAG, None, 'Whether the range comes from the default pool.', '',
            write='create', accepts=s.BOOLEAN, default=False),
    r.Field('service_types', s.TEXTS, lambda row, context: row['service_types'] or [],
            'Device owners that get addresses; empty: all.', column='service_types', columns=('service_types',),
            write=r.BOTH, accepts=s.SERVICE_TYPES, default=[], guarded=True),
    r.Field('segment_id', s.NULL, Constant(None), 'Always null.'),
    r.Field('dns_publish_fixed_ip', s.const(False), Constant(False), 'Always false.'),
    r.Field('router:external', s.const(False), Constant(False), 'Always false.'),
), visible=db.visible_subnets, of_network=True, create=create_subnet, update=update_subnet, delete=delete_subnet,
    missing=lambda ident: exception.SubnetNotFound(subnet_id=ident))
