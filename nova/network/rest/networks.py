"""Networks and subnets.

A flat network is part of the hosts' own routing table. Projects create flat subnets only in [network] project_ranges,
administrators anywhere. An overlay network has a separate routing table and any addresses. Routers have their gateways
in external networks.
"""
from __future__ import annotations

import ipaddress
import random
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, cast, TYPE_CHECKING

from nova import exception
from nova import utils
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.networks import hosts as db_hosts
from nova.db.networks import listing
from nova.db.networks import networks as db
from nova.db.networks import ports as db_ports
from nova.db.networks import routers as db_routers
from nova.db.tables import network as t
from nova.network import gateways
from nova.network import ipam
from nova.network import managers
from nova.network import ranges
from nova.network.rest import attributes as a
from nova.network.rest import faults
from nova.network.rest import qos
from nova.network.rest import quotas
from nova.network.rest import resource
from nova.network.rest import subnet_pools
from nova.network.rest import vlans

if TYPE_CHECKING:
    from nova.db.tables.rows import NetworksRow, SubnetsRow
    from nova.network.rest.request import Deps

NETWORK_CONSTANTS = {
    'status': 'ACTIVE',
    'availability_zones': ['nova'], 'ipv4_address_scope': None, 'ipv6_address_scope': None,
    'vlan_transparent': None,
    'l2_adjacency': True}
SUBNET_CONSTANTS: dict[str, Any] = {
    'segment_id': None, 'dns_publish_fixed_ip': False,
    'router:external': False}
IPV6_MODES = ('slaac', 'dhcpv6-stateful', 'dhcpv6-stateless')
VXLAN_BYTES = 50            # overhead of an encapsulated frame (RFC 7348)


def _allow(deps: Deps, context: RequestContext, network: Mapping[str, Any], rule: str) -> None:
    """Check that the caller may create such networks; raises PolicyDenied (project networks may not be flat)."""
    if not context.is_admin and network['network_type'] == db.FLAT and not deps.conf.network.project_ranges:
        raise exception.PolicyDenied(rule=rule)


# ---- networks --------------------------------------------------------------------

def network_views(conn: Connection, context: RequestContext, rows: list[NetworksRow]) -> list[resource.View]:
    subnets: dict[str, list[str]] = {}
    idents = [row['id'] for row in rows]
    for row in sorted(db.many(conn, t.subnets, idents, 'network_id'), key=lambda row: row['created_at']):
        subnets.setdefault(row['network_id'], []).append(row['id'])
    shared = db.shared_among(conn, idents, context.project_id)
    numbers = db.segments_of(conn, idents) | db.vlans_of(conn, idents) if context.is_admin else {}
    return [{
        **resource.times(row), 'name': row['name'], 'admin_state_up': row['admin_state_up'],
        'mtu': row['mtu'], 'shared': row['shared'] or row['id'] in shared, 'is_default': row['is_default'],
        'subnets': subnets.get(row['id'], []), 'router:external': row['external'],
        'port_security_enabled': row['port_security_enabled'], 'qos_policy_id': row['qos_policy_id'],
        'dns_domain': row['dns_domain'], **NETWORK_CONSTANTS, 'availability_zone_hints': row['zone_hints'] or [],
        **(_provider(row, numbers.get(row['id'])) if context.is_admin else {}),
    } for row in rows]


def _provider(row: Mapping[str, Any], number: int | None) -> dict[str, Any]:
    physical = row['physical_network'] or (row['bridge'] if row['network_type'] == db.FLAT else None)
    return {'provider:network_type': row['network_type'], 'provider:physical_network': physical,
            'provider:segmentation_id': number}


def create_network(conn: Connection, deps: Deps, context: RequestContext, values: dict[str, Any]) -> str:
    project = a.owner(context, values)
    kind = values['provider:network_type'] or (
        db.FLAT if values['router:external'] or deps.conf.network.project_ranges else managers.project_type(deps.conf))
    ident, physical, wanted = (str(uuid.uuid4()), values['provider:physical_network'],
                               values['provider:segmentation_id'])
    if kind == db.VLAN:
        physical, wanted = vlans.chosen(conn, deps.conf, physical, wanted)
    row = {
        'id': ident, 'project_id': project, 'name': values['name'],
        'description': values['description'] or '', 'shared': values['shared'], 'is_default': values['is_default'],
        'admin_state_up': values['admin_state_up'], 'bridge': 'br' + ident.replace('-', '')[:12],
        'mtu': values['mtu'] or deps.conf.network.mtu - (VXLAN_BYTES if kind == db.OVERLAY else 0),
        'network_type': kind, 'external': values['router:external'], 'physical_network': physical,
        'port_security_enabled': values['port_security_enabled'], 'dns_domain': values['dns_domain'],
        'zone_hints': list(values['availability_zone_hints']),
        'qos_policy_id': qos.chosen(conn, context, None, values['qos_policy_id'])}
    _check_domain(conn, row['dns_domain'], '')
    _check_kind(deps, row, wanted)
    _check_mtu(deps, kind, values['mtu'])
    _allow(deps, context, row, 'create_network')
    quotas.check(conn, deps.conf, 'network', project)
    _check_default(conn, row, row['is_default'])
    db.insert(conn, t.networks, [row])
    if kind != db.FLAT:
        db.add_segment(conn, ident, _number(conn, wanted) if kind == db.OVERLAY else _free_number(conn))
    if kind == db.VLAN:
        db.add_vlan(conn, ident, physical, wanted)
    return ident


def _check_kind(deps: Deps, row: Mapping[str, Any], number: int | None) -> None:
    """Check the combination of attributes."""
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


def _check_domain(conn: Connection, wanted: str, present: str) -> None:
    """Check that all hosts support dns_domain.

    :raises Conflict: hosts of an older release would announce another domain
    """
    older = db_hosts.older(conn, gateways.FEATURE_RELEASE) if wanted and wanted != present else []
    if older:
        raise exception.Conflict('dns_domain requires this release on all network hosts. Upgrade first: '
                                 f'{utils.some(older)}.')


def _check_default(conn: Connection, row: Mapping[str, Any], wanted: bool) -> None:
    """Check that there is at most one default external network.

    :raises DefaultExternalNetworkExists:
    """
    for other in db.page(conn, t.networks, t.networks.c.external & t.networks.c.is_default, [('id', 'asc')], None,
                         None) if wanted else ():
        if other['id'] != row['id']:
            raise faults.DefaultExternalNetworkExists(net_id=other['id'])


def _check_mtu(deps: Deps, kind: str, mtu: int | None) -> None:
    """Check that an encapsulated frame fits into the hosts' MTU."""
    most = deps.conf.network.mtu - VXLAN_BYTES
    if kind == db.OVERLAY and mtu is not None and mtu > most:
        raise exception.InvalidInput(reason=f'mtu must be at most {most} in a network of type vxlan.')


def _number(conn: Connection, wanted: int | None) -> int:
    """Return the requested segmentation id of an overlay, or a free one."""
    if wanted is None:
        return _free_number(conn)
    if db.many(conn, t.segments, [wanted], 'number'):
        raise faults.TunnelIdInUse(number=wanted)
    return wanted


def _free_number(conn: Connection) -> int:
    """Return an unused segmentation id. The unique key refuses the second of two concurrent choices."""
    while True:
        number = random.choice(db.SEGMENTS)
        if not db.many(conn, t.segments, [number], 'number'):
            return number


def update_network(conn: Connection, deps: Deps, context: RequestContext, row: NetworksRow,
                   values: dict[str, Any]) -> None:
    _allow(deps, context, row, 'update_network')
    stored = {name: values[name] for name in ('name', 'description', 'admin_state_up', 'mtu', 'shared',
                                              'port_security_enabled', 'dns_domain')
              if values.get(name) is not None}
    if 'availability_zone_hints' in values:
        stored['zone_hints'] = list(values['availability_zone_hints'])
    _check_domain(conn, stored.get('dns_domain', ''), row['dns_domain'])
    if 'qos_policy_id' in values:
        stored['qos_policy_id'] = qos.chosen(conn, context, row['qos_policy_id'], values['qos_policy_id'])
    _check_mtu(deps, row['network_type'], stored.get('mtu'))
    if row['port_security_enabled']:
        _check_port_security(row, stored.get('port_security_enabled'))
    if values.get('router:external') not in (None, row['external']):
        stored.update(_outside(conn, row, values['router:external']))
    if values.get('is_default') not in (None, row['is_default']):
        if not {**row, **stored}['external'] or not context.is_admin:
            raise exception.InvalidInput(reason='is_default can be set only on external networks, by an administrator.')
        _check_default(conn, row, values['is_default'])
        stored['is_default'] = values['is_default']
    db.update(conn, t.networks, row['id'], stored)
    if stored.get('shared') is False and row['shared']:
        db_ports.evict(conn, row['id'], row['project_id'])


def _outside(conn: Connection, row: Mapping[str, Any], external: bool) -> dict[str, Any]:
    """Return the changed columns of a network that becomes external or internal.

    :raises NetworkInUse: the network has ports, or subnets of another network type
    """
    other_type = external and row['network_type'] != db.FLAT
    if db_ports.count(conn, network_id=row['id']) or other_type and db.ranges_of(conn, row['id']):
        raise exception.NetworkInUse(network_id=row['id'])
    if other_type:
        db.forget_numbers(conn, row['id'])
        return {'external': True, 'network_type': db.FLAT, 'physical_network': None}
    return {'external': external, 'is_default': False}


def delete_network(conn: Connection, deps: Deps, context: RequestContext, row: NetworksRow) -> None:
    _allow(deps, context, row, 'delete_network')
    unused = [floating for floating in db.many(conn, t.floating_ips, [row['id']], 'floating_network_id')
              if floating['router_id'] is None] if row['external'] else []
    own = [port['id'] for port in db_ports.in_network(conn, row['id']) if port['device_owner'] == db_ports.DHCP]
    own += [floating['floating_port_id'] for floating in unused]
    if db_ports.count(conn, network_id=row['id']) > len(own):
        raise exception.NetworkInUse(network_id=row['id'])
    for floating in unused:  # unassociated floating addresses are deleted with their network
        db_routers.remove_floating(conn, floating['id'])
    if own:
        db_ports.remove(conn, own)
    db.remove_network(conn, row['id'])


_N = t.networks.c

NETWORKS = resource.Resource(
    singular='network', plural='networks', table=t.networks,
    attributes={
        **a.DESCRIBED,
        'admin_state_up': a.Attribute(a.boolean, True),
        'shared': a.Attribute(a.boolean, False, admin=True),
        'mtu': a.Attribute(a.maybe(a.integer(576, 65535))),
        'router:external': a.Attribute(a.boolean, False, admin=True),
        'port_security_enabled': a.Attribute(a.boolean, True),
        'availability_zone_hints': a.Attribute(a.zone_hints, ()),
        'provider:network_type': a.Attribute(a.one_of(db.FLAT, db.OVERLAY, db.VLAN), admin=True, put=False),
        'provider:physical_network': a.Attribute(a.maybe(a.text()), admin=True, put=False),
        'provider:segmentation_id': a.Attribute(a.maybe(a.integer(1, db.SEGMENTS[-1])), admin=True, put=False),
        'qos_policy_id': a.Attribute(a.maybe(a.ident)),
        'is_default': a.Attribute(a.boolean, False),
        'dns_domain': a.Attribute(a.domain, ''),
    },
    listing=listing.Listing(t.networks, {
        'id': _N.id, 'name': _N.name, 'project_id': _N.project_id,
        'tenant_id': _N.project_id, 'shared': _N.shared, 'mtu': _N.mtu,
        'admin_state_up': _N.admin_state_up, 'is_default': _N.is_default,
        'description': _N.description, 'created_at': _N.created_at, 'router:external': _N.external,
        'provider:network_type': _N.network_type, 'port_security_enabled': _N.port_security_enabled,
        'qos_policy_id': _N.qos_policy_id, 'dns_domain': _N.dns_domain,
    }, NETWORK_CONSTANTS, {'provider:physical_network': db.on_physical, 'provider:segmentation_id': db.with_number,
                           'availability_zone_hints': lambda values: db.with_hints(t.networks, values)}),
    visible=db.visible, writable=resource.owner, views=network_views, create=create_network,
    update=update_network,
    delete=delete_network, missing=lambda ident: exception.NetworkNotFound(network_id=ident))


# ---- subnets -----------------------------------------------------------------------

def subnet_views(conn: Connection, context: RequestContext, rows: list[SubnetsRow]) -> list[resource.View]:
    return [{
        **resource.times(row), 'name': row['name'], 'network_id': row['network_id'], 'cidr': row['cidr'],
        'ip_version': row['ip_version'], 'gateway_ip': row['gateway_ip'], 'enable_dhcp': row['enable_dhcp'],
        'subnetpool_id': row['subnetpool_id'],
        'allocation_pools': row['allocation_pools'], 'dns_nameservers': row['dns_nameservers'],
        'host_routes': row['host_routes'], 'ipv6_ra_mode': row['ipv6_ra_mode'],
        'ipv6_address_mode': row['ipv6_address_mode'], 'service_types': row['service_types'] or [], **SUBNET_CONSTANTS,
    } for row in rows]


def _check_service_types(conn: Connection, context: RequestContext, wanted: list[str], present: list[str]) -> None:
    """Check and return the changed service_types.

    :param present: current value; sending it back is allowed
    :raises PolicyDenied: only administrators may change it
    :raises Conflict: network services of an older release would give the subnet's addresses to any port
    """
    if wanted == present:
        return
    if not context.is_admin:
        raise exception.PolicyDenied(rule='service_types of a subnet')
    older = db_hosts.older(conn, gateways.FEATURE_RELEASE) if wanted else []
    if older:
        raise exception.Conflict('service_types requires this release on all network hosts. Upgrade first: '
                                 f'{utils.some(older)}.')


def create_subnet(conn: Connection, deps: Deps, context: RequestContext, values: dict[str, Any]) -> str:
    network = db.lock(conn, t.networks, values['network_id'])
    if network is None or not (resource.owner(context, network) or network['shared']):
        raise exception.NetworkNotFound(network_id=values['network_id'])
    _allow(deps, context, network, 'create_subnet')
    if not resource.owner(context, network):
        raise exception.PolicyDenied(rule='create_subnet')
    a.owner(context, values)
    quotas.check(conn, deps.conf, 'subnet', network['project_id'])
    _check_service_types(conn, context, list(values['service_types']), [])
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
    gateway = str(cidr.network_address + 1) if values['gateway_ip'] is a.UNSET else values['gateway_ip']
    row = {'id': str(uuid.uuid4()), 'project_id': network['project_id'], 'network_id': network['id'],
           'name': values['name'], 'description': values['description'] or '', 'cidr': str(cidr),
           'ip_version': cidr.version, 'subnetpool_id': pool,
           'gateway_ip': gateway, 'enable_dhcp': values['enable_dhcp'],
           'dns_nameservers': values['dns_nameservers'] or [], 'host_routes': values['host_routes'] or [],
           'service_types': list(values['service_types']), **_modes(cidr, values)}
    _check_gateway(cidr, row, overlay)
    _check_versions(cidr, row)
    row['allocation_pools'] = _pools(cidr, row, values['allocation_pools'])
    db.insert(conn, t.subnets, [row])
    if overlay:
        _serve_dhcp(conn, deps, network, row)
    return row['id']


def update_subnet(conn: Connection, deps: Deps, context: RequestContext, row: SubnetsRow,
                  values: dict[str, Any]) -> None:
    network = resource.found(db.get(conn, t.networks, row['network_id']),
                             exception.NetworkNotFound(network_id=row['network_id']))
    _allow(deps, context, network, 'update_subnet')
    names = ('name', 'description', 'gateway_ip', 'enable_dhcp', 'dns_nameservers', 'host_routes',
             'service_types')
    stored = {name: values[name] for name in names if name in values}
    stored = {name: value for name, value in stored.items() if value is not None or name == 'gateway_ip'}
    if 'service_types' in stored:
        _check_service_types(conn, context, list(stored['service_types']), row['service_types'] or [])
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
    db.update(conn, t.subnets, row['id'], stored)
    if overlay and fresh['enable_dhcp'] != row['enable_dhcp']:
        _serve_dhcp(conn, deps, network, {**fresh, **stored})


def delete_subnet(conn: Connection, deps: Deps, context: RequestContext, row: SubnetsRow) -> None:
    network = resource.found(db.get(conn, t.networks, row['network_id']),
                             exception.NetworkNotFound(network_id=row['network_id']))
    _allow(deps, context, network, 'delete_subnet')
    db.lock(conn, t.subnets, row['id'])
    _serve_dhcp(conn, deps, network, {**row, 'enable_dhcp': False})
    if db.used_addresses(conn, row['id']):
        raise faults.SubnetInUse(subnet_id=row['id'])
    db.remove_subnet(conn, row['id'])


def _serve_dhcp(conn: Connection, deps: Deps, network: NetworksRow, subnet: Mapping[str, Any]) -> None:
    """Claim an address of the subnet for DHCP and DNS, equal on all hosts, or release it."""
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
        db.insert(conn, t.ports, [{
            'id': ident, 'project_id': network['project_id'], 'network_id': network['id'], 'name': '',
            'description': '', 'mac_address': mac, 'admin_state_up': True, 'status': 'ACTIVE',
            'device_id': 'dhcp-' + network['id'], 'device_owner': db_ports.DHCP, 'host': '', 'position': 0,
            'tag': None, 'made_for_server': False}])
    stored = cast('SubnetsRow', subnet)           # a new row lacks the times, which are not read
    ipam.claim(conn, network['id'], [stored], ident, [{'subnet_id': stored['id']}],
               ipam.quarantine_cutoff(deps.conf.network.dhcp_lease_time), mac)


def _modes(cidr: ranges.Cidr, values: dict[str, Any]) -> dict[str, Any]:
    """Return the IPv6 modes of a subnet."""
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
        key=lambda span: [(each.version, int(each)) for each in span])        # versions are checked below
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


SUBNETS = resource.Resource(
    singular='subnet', plural='subnets', table=t.subnets,
    attributes={
        **a.DESCRIBED,
        'network_id': a.Attribute(a.ident, a.REQUIRED, put=False),
        'cidr': a.Attribute(a.maybe(a.text(43)), put=False),
        'prefixlen': a.Attribute(a.maybe(a.integer(0, 128)), put=False),
        'ip_version': a.Attribute(a.integer(4, 6), 4, put=False),
        'gateway_ip': a.Attribute(a.maybe(a.address), a.UNSET),
        'enable_dhcp': a.Attribute(a.boolean, True),
        'allocation_pools': a.Attribute(a.maybe(a.items(a.record(start_=a.address, end_=a.address)))),
        'dns_nameservers': a.Attribute(a.maybe(a.items(a.address, 10))),
        'host_routes': a.Attribute(a.maybe(a.items(a.record(destination_=a.network, nexthop_=a.address),
                                                   20))),
        'ipv6_ra_mode': a.Attribute(a.one_of(None, *IPV6_MODES), put=False),
        'ipv6_address_mode': a.Attribute(a.one_of(None, *IPV6_MODES), put=False),
        'subnetpool_id': a.Attribute(a.maybe(a.ident), put=False),
        'use_default_subnetpool': a.Attribute(a.boolean, False, put=False),
        'service_types': a.Attribute(a.service_types, ()),
    },
    listing=listing.Listing(t.subnets, {
        'id': t.subnets.c.id, 'name': t.subnets.c.name, 'project_id': t.subnets.c.project_id,
        'tenant_id': t.subnets.c.project_id, 'network_id': t.subnets.c.network_id, 'cidr': t.subnets.c.cidr,
        'ip_version': t.subnets.c.ip_version, 'gateway_ip': t.subnets.c.gateway_ip,
        'enable_dhcp': t.subnets.c.enable_dhcp, 'description': t.subnets.c.description,
        'created_at': t.subnets.c.created_at, 'ipv6_ra_mode': t.subnets.c.ipv6_ra_mode,
        'ipv6_address_mode': t.subnets.c.ipv6_address_mode, 'subnetpool_id': t.subnets.c.subnetpool_id,
    }, SUBNET_CONSTANTS),
    visible=db.visible_subnets, writable=resource.owner, views=subnet_views, create=create_subnet,
    update=update_subnet,
    delete=delete_subnet, missing=lambda ident: exception.SubnetNotFound(subnet_id=ident))
