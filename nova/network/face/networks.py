"""Networks and subnets. A network here is a part of the hosts' own routing table, where a project must not take
addresses that it does not own: projects make them in [network] project_ranges, administrators everywhere."""
import ipaddress
import uuid

from nova import exception
from nova.db.networks import listing
from nova.db.networks import networks as db
from nova.db.networks import ports as db_ports
from nova.db.tables import network as t
from nova.network import ipam
from nova.network.face import attributes as a
from nova.network.face import faults
from nova.network.face import quotas
from nova.network.face import resource

NETWORK_CONSTANTS = {
    'status': 'ACTIVE', 'router:external': False, 'port_security_enabled': True,
    'availability_zone_hints': [],
    'availability_zones': ['nova'], 'ipv4_address_scope': None, 'ipv6_address_scope': None,
    'vlan_transparent': None,
    'qos_policy_id': None, 'l2_adjacency': True, 'dns_domain': ''}
PROVIDER = {'provider:network_type': 'flat', 'provider:segmentation_id': None}
SUBNET_CONSTANTS = {'ipv6_ra_mode': None, 'ipv6_address_mode': None, 'subnetpool_id': None,
                    'service_types': [],
                    'segment_id': None, 'dns_publish_fixed_ip': False, 'router:external': False}


def _allow(face, context, rule):
    """:raises PolicyDenied: the caller's project makes no networks of its own here"""
    if not context.is_admin and not face.conf.network.project_ranges:
        raise exception.PolicyDenied(rule=rule)


# ---- networks --------------------------------------------------------------------

def network_views(conn, context, rows):
    subnets = {}
    for row in sorted(db.many(conn, t.subnets, [row['id'] for row in rows], 'network_id'),
                      key=lambda row: row['created_at']):
        subnets.setdefault(row['network_id'], []).append(row['id'])
    return [{
        **resource.times(row), 'name': row['name'], 'admin_state_up': row['admin_state_up'],
        'mtu': row['mtu'],
        'shared': row['shared'], 'is_default': row['is_default'], 'subnets': subnets.get(row['id'], []),
        **NETWORK_CONSTANTS,
        **({**PROVIDER, 'provider:physical_network': row['bridge']} if context.is_admin else {}),
    } for row in rows]


def create_network(conn, face, context, values):
    _allow(face, context, 'create_network')
    project = a.owner(context, values)
    quotas.check(conn, face.conf, 'network', project)
    ident = str(uuid.uuid4())
    db.insert(conn, t.networks, [{
        'id': ident, 'project_id': project, 'name': values['name'],
        'description': values['description'] or '',
        'shared': values['shared'], 'is_default': False, 'admin_state_up': values['admin_state_up'],
        'bridge': 'br' + ident.replace('-', '')[:12], 'mtu': values['mtu'] or face.conf.network.mtu}])
    return ident


def update_network(conn, face, context, row, values):
    _allow(face, context, 'update_network')
    stored = {name: values[name] for name in ('name', 'description', 'admin_state_up', 'mtu', 'shared')
              if values.get(name) is not None}
    if stored.get('shared') is False and row['shared'] and db_ports.others_use(conn, row):
        raise faults.InvalidSharedSetting(network_id=row['id'])
    db.update(conn, t.networks, row['id'], stored)


def delete_network(conn, face, context, row):
    _allow(face, context, 'delete_network')
    if db_ports.count(conn, network_id=row['id']):
        raise exception.NetworkInUse(network_id=row['id'])
    for subnet in db.many(conn, t.subnets, [row['id']], 'network_id'):
        db.remove_subnet(conn, subnet['id'])
    db.delete(conn, t.networks, row['id'])


NETWORKS = resource.Resource(
    singular='network', plural='networks', table=t.networks,
    attributes={
        **a.DESCRIBED,
        'admin_state_up': a.Attribute(a.boolean, True),
        'shared': a.Attribute(a.boolean, False, admin=True),
        'mtu': a.Attribute(a.maybe(a.integer(576, 65535))),
        'router:external': a.Attribute(a.one_of(False), False),
        'port_security_enabled': a.Attribute(a.one_of(True), True),
        'availability_zone_hints': a.Attribute(a.items(a.text()), ()),
        'provider:network_type': a.Attribute(a.one_of('flat'), admin=True, put=False),
        'qos_policy_id': a.Attribute(a.one_of(None)),
        'is_default': a.Attribute(a.one_of(False), False),
        'dns_domain': a.Attribute(a.one_of(''), ''),
    },
    listing=listing.Listing(t.networks, {
        'id': t.networks.c.id, 'name': t.networks.c.name, 'project_id': t.networks.c.project_id,
        'tenant_id': t.networks.c.project_id, 'shared': t.networks.c.shared, 'mtu': t.networks.c.mtu,
        'admin_state_up': t.networks.c.admin_state_up, 'is_default': t.networks.c.is_default,
        'description': t.networks.c.description, 'created_at': t.networks.c.created_at,
        'provider:physical_network': t.networks.c.bridge,
    }, {**NETWORK_CONSTANTS, **PROVIDER}),
    visible=db.visible, writable=resource.owner, views=network_views, create=create_network,
    update=update_network,
    delete=delete_network, missing=lambda ident: exception.NetworkNotFound(network_id=ident))


# ---- subnets -----------------------------------------------------------------------

def subnet_views(conn, context, rows):
    return [{
        **resource.times(row), 'name': row['name'], 'network_id': row['network_id'], 'cidr': row['cidr'],
        'ip_version': row['ip_version'], 'gateway_ip': row['gateway_ip'], 'enable_dhcp': row['enable_dhcp'],
        'allocation_pools': row['allocation_pools'], 'dns_nameservers': row['dns_nameservers'],
        'host_routes': row['host_routes'], **SUBNET_CONSTANTS,
    } for row in rows]


def create_subnet(conn, face, context, values):
    _allow(face, context, 'create_subnet')
    if values['ip_version'] != 4:
        raise exception.InvalidInput(reason='Only IPv4 subnets are supported by this network service.')
    network = db.lock(conn, t.networks, values['network_id'])
    if network is None or not (resource.owner(context, network) or network['shared']):
        raise exception.NetworkNotFound(network_id=values['network_id'])
    if not resource.owner(context, network):
        raise exception.PolicyDenied(rule='create_subnet')
    a.owner(context, values)
    quotas.check(conn, face.conf, 'subnet', network['project_id'])
    cidr = ipam.parse_cidr(values['cidr'], strict=False)
    _check_range(face, context, cidr)
    _check_overlap(conn, cidr)
    gateway = str(cidr.network_address + 1) if values['gateway_ip'] is a.UNSET else values['gateway_ip']
    row = {'id': str(uuid.uuid4()), 'project_id': network['project_id'], 'network_id': network['id'],
           'name': values['name'], 'description': values['description'] or '', 'cidr': str(cidr),
           'ip_version': 4,
           'gateway_ip': gateway, 'enable_dhcp': values['enable_dhcp'],
           'dns_nameservers': values['dns_nameservers'] or [], 'host_routes': values['host_routes'] or []}
    _check_gateway(cidr, row)
    row['allocation_pools'] = _pools(cidr, row, values['allocation_pools'])
    db.insert(conn, t.subnets, [row])
    return row['id']


def update_subnet(conn, face, context, row, values):
    _allow(face, context, 'update_subnet')
    names = ('name', 'description', 'gateway_ip', 'enable_dhcp', 'dns_nameservers', 'host_routes')
    stored = {name: values[name] for name in names if name in values}
    stored = {name: value for name, value in stored.items() if value is not None or name == 'gateway_ip'}
    cidr, fresh = ipaddress.ip_network(row['cidr']), {**row, **stored}
    _check_gateway(cidr, fresh)
    if 'allocation_pools' in values or 'gateway_ip' in stored:
        stored['allocation_pools'] = _pools(cidr, fresh, values.get('allocation_pools') or (
            row['allocation_pools'] if row['allocation_pools'] != ipam.default_pools(
                cidr, row['gateway_ip'] and ipaddress.ip_address(row['gateway_ip'])) else None))
    if fresh['gateway_ip'] and fresh['gateway_ip'] != row['gateway_ip'] and db.used_addresses(
            conn, row['id'], fresh['gateway_ip']):
        raise exception.FixedIpInUse(address=fresh['gateway_ip'])
    db.update(conn, t.subnets, row['id'], stored)


def delete_subnet(conn, face, context, row):
    _allow(face, context, 'delete_subnet')
    db.lock(conn, t.subnets, row['id'])
    if db.used_addresses(conn, row['id']):
        raise faults.SubnetInUse(subnet_id=row['id'])
    db.remove_subnet(conn, row['id'])


def _check_range(face, context, cidr):
    ranges = face.conf.network.project_ranges
    if not context.is_admin and not any(cidr.subnet_of(ipaddress.ip_network(each)) for each in ranges):
        raise exception.InvalidInput(reason=f'Subnets of projects lie in {", ".join(ranges)}.')


def _check_overlap(conn, cidr):
    for other in db.ranges(conn):
        if cidr.overlaps(ipaddress.ip_network(other)):
            raise exception.InvalidInput(
                reason=f'Requested subnet with cidr: {cidr} overlaps with another subnet.')


def _check_gateway(cidr, row):
    gateway = row['gateway_ip']
    if gateway is None:
        if row['enable_dhcp']:
            raise exception.InvalidInput(
                reason="DHCP is served from the gateway: a subnet without one needs enable_dhcp false.")
        return
    address = ipaddress.ip_address(gateway)
    if address not in cidr or address in (cidr.network_address, cidr.broadcast_address):
        raise exception.InvalidInput(reason=f'Gateway is not valid on subnet {cidr}.')


def _pools(cidr, row, pools):
    gateway = row['gateway_ip'] and ipaddress.ip_address(row['gateway_ip'])
    if not pools:
        return ipam.default_pools(cidr, gateway)
    spans = sorted((ipaddress.ip_address(pool['start']), ipaddress.ip_address(pool['end'])) for pool in pools)
    previous = cidr.network_address
    for start, end in spans:
        if start > end or start <= previous or end >= cidr.broadcast_address:
            raise exception.InvalidInput(
                reason=f'The allocation pools must lie in {cidr}, in order and without overlap.')
        if gateway and start <= gateway <= end:
            raise exception.InvalidInput(
                reason=f'Gateway ip {gateway} conflicts with allocation pool {start}-{end}.')
        previous = end
    return [{'start': str(start), 'end': str(end)} for start, end in spans]


SUBNETS = resource.Resource(
    singular='subnet', plural='subnets', table=t.subnets,
    attributes={
        **a.DESCRIBED,
        'network_id': a.Attribute(a.ident, a.REQUIRED, put=False),
        'cidr': a.Attribute(a.text(43), a.REQUIRED, put=False),
        'ip_version': a.Attribute(a.integer(4, 6), 4, put=False),
        'gateway_ip': a.Attribute(a.maybe(a.address), a.UNSET),
        'enable_dhcp': a.Attribute(a.boolean, True),
        'allocation_pools': a.Attribute(a.maybe(a.items(a.record(start_=a.address, end_=a.address)))),
        'dns_nameservers': a.Attribute(a.maybe(a.items(a.address, 10))),
        'host_routes': a.Attribute(a.maybe(a.items(a.record(destination_=a.network, nexthop_=a.address),
                                                   20))),
        'subnetpool_id': a.Attribute(a.one_of(None), put=False),
        'use_default_subnetpool': a.Attribute(a.one_of(False), False, put=False),
        'service_types': a.Attribute(a.items(a.text(), 0), ()),
    },
    listing=listing.Listing(t.subnets, {
        'id': t.subnets.c.id, 'name': t.subnets.c.name, 'project_id': t.subnets.c.project_id,
        'tenant_id': t.subnets.c.project_id, 'network_id': t.subnets.c.network_id, 'cidr': t.subnets.c.cidr,
        'ip_version': t.subnets.c.ip_version, 'gateway_ip': t.subnets.c.gateway_ip,
        'enable_dhcp': t.subnets.c.enable_dhcp, 'description': t.subnets.c.description,
        'created_at': t.subnets.c.created_at,
    }, SUBNET_CONSTANTS),
    visible=db.visible_subnets, writable=resource.owner, views=subnet_views, create=create_subnet,
    update=update_subnet,
    delete=delete_subnet, missing=lambda ident: exception.SubnetNotFound(subnet_id=ident))
