"""Ports."""
from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, TYPE_CHECKING

from nova import context as nova_context
from nova import exception
from nova import utils
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.networks import hosts as db_hosts
from nova.db.networks import listing
from nova.db.networks import networks as db_networks
from nova.db.networks import ports as db
from nova.db.networks import routers as db_routers
from nova.db.networks import security_groups as db_groups
from nova.db.tables import network as t
from nova.network import gateways
from nova.network import ipam
from nova.network import ranges
from nova.network import selection
from nova.network.rest import attributes as a
from nova.network.rest import faults
from nova.network.rest import qos
from nova.network.rest import quotas
from nova.network.rest import resource

if TYPE_CHECKING:
    from nova.db.tables.rows import NetworksRow, PortsRow
    from nova.network.rest.request import Deps

CONSTANTS = {'binding:vnic_type': 'normal', 'dns_domain': '',
             'dns_assignment': [], 'ip_allocation': 'immediate', 'propagate_uplink_status': False,
             'resource_request': None, 'numa_affinity_policy': None}

# fields that a list can read without whole rows: columns, and data of other tables
PLAIN = ('id', 'project_id', 'name', 'description', 'network_id', 'mac_address', 'admin_state_up', 'status',
         'device_id', 'device_owner', 'port_security_enabled', 'dns_name', 'qos_policy_id')
OF_OTHERS: dict[str, Callable[[Connection, list[str]], dict[str, list[Any]]]] = {
    'fixed_ips': db_networks.addresses_of, 'security_groups': db_groups.of_ports}


def partial_views(conn: Connection, rows: list[dict[str, Any]], wanted: set[str]) -> list[dict[str, Any]]:
    """Return views of ports with a few fields.

    :param rows: rows with id and the requested columns
    :param wanted: fields in PLAIN and OF_OTHERS
    """
    idents, plain = [row['id'] for row in rows], [name for name in PLAIN if name in wanted]
    found = [{name: row[name] for name in plain} for row in rows]
    for name, read in OF_OTHERS.items():
        if name in wanted:
            known = read(conn, idents)
            for ident, view in zip(idents, found, strict=True):
                view[name] = known.get(ident, [])
    return found


def views(conn: Connection, context: RequestContext, rows: list[PortsRow]) -> list[resource.View]:
    idents = [row['id'] for row in rows]
    fixed, groups = db_networks.addresses_of(conn, idents), db_groups.of_ports(conn, idents)
    nets = {row['id']: row for row in db_networks.many(conn, t.networks, {row['network_id'] for row in rows})}
    found = []
    for row in rows:
        view = {**resource.times(row), 'name': row['name'], 'network_id': row['network_id'],
                'mac_address': row['mac_address'], 'admin_state_up': row['admin_state_up'],
                'status': row['status'], 'device_id': row['device_id'], 'device_owner': row['device_owner'],
                'fixed_ips': fixed.get(row['id'], []), 'security_groups': groups.get(row['id'], []),
                'port_security_enabled': row['port_security_enabled'], 'dns_name': row['dns_name'],
                'allowed_address_pairs': [{**pair, 'mac_address': pair['mac_address'] or row['mac_address']}
                                          for pair in row['allowed_address_pairs'] or ()],
                'extra_dhcp_opts': list(row['extra_dhcp_opts'] or ()), 'qos_policy_id': row['qos_policy_id'],
                'qos_network_policy_id': nets[row['network_id']]['qos_policy_id'], **CONSTANTS}
        if context.is_admin:
            bound = 'bridge' if row['host'] else 'unbound'
            view.update({'binding:host_id': row['host'], 'binding:vif_type': bound, 'binding:profile': {},
                         'binding:vif_details': {'port_filter': True} if row['host'] else {}})
        found.append(view)
    return found


def create(conn: Connection, deps: Deps, context: RequestContext, values: dict[str, Any]) -> str:
    project = a.owner(context, values)
    quotas.check(conn, deps.conf, 'port', project)
    usable = db_networks.usable(conn, project, [values['network_id']], lock=True)
    if context.is_admin and values['network_id'] in usable:
        network, subnets = usable[values['network_id']]
    else:
        network, subnets = selection.network_of(usable, values['network_id'], project)
    security = _security(conn, context, network, values)
    mac = values['mac_address']
    if mac:
        _check_mac(conn, context, network, mac)
    ident, mac = str(uuid.uuid4()), mac or ipam.new_mac()
    wanted = values['fixed_ips']
    if subnets and wanted != []:
        ipam.claim(conn, network['id'], subnets, ident, wanted or [],
                   ipam.quarantine_cutoff(deps.conf.network.dhcp_lease_time), mac,
                   anywhere=resource.owner(context, network), owner=values['device_owner'])
    groups = _groups(conn, project, values['security_groups']) if security['port_security_enabled'] else []
    db_networks.insert(conn, t.ports, [{
        'id': ident, 'project_id': project, 'network_id': network['id'], 'name': values['name'],
        'description': values['description'] or '', 'mac_address': mac, **security, 'dns_name': values['dns_name'],
        'extra_dhcp_opts': values['extra_dhcp_opts'],
        'admin_state_up': values['admin_state_up'], 'status': 'DOWN', 'device_id': values['device_id'],
        'device_owner': values['device_owner'], 'host': values['binding:host_id'] or '', 'position': 0,
        'tag': None, 'qos_policy_id': qos.chosen(conn, context, None, values['qos_policy_id']),
        'made_for_server': False}])
    db_groups.bind(conn, [(ident, group) for group in groups])
    return ident


def update(conn: Connection, deps: Deps, context: RequestContext, row: PortsRow, values: dict[str, Any]) -> None:
    names = ('name', 'description', 'admin_state_up', 'device_id', 'device_owner', 'dns_name', 'extra_dhcp_opts')
    changeable = {'name', 'description'} | ({'fixed_ips'} if row['device_owner'] == db.INTERFACE else set())
    if row['device_owner'].startswith('network:') and values.keys() - changeable:
        raise faults.ServicePortInUse(port_id=row['id'], reason=f"it has device owner {row['device_owner']}")
    stored = {name: values[name] for name in names
              if values.get(name) is not None}
    if 'qos_policy_id' in values:
        stored['qos_policy_id'] = qos.chosen(conn, context, row['qos_policy_id'], values['qos_policy_id'])
    if values.get('binding:host_id') is not None:
        stored['host'] = values['binding:host_id']
    if values.get('mac_address') and values['mac_address'] != row['mac_address']:
        if row['device_id']:
            raise exception.PortInUse(port_id=row['id'])
        _check_mac(conn, context, _network(conn, row), values['mac_address'])
        stored['mac_address'] = values['mac_address']
    if values.get('fixed_ips') is not None:
        _change_addresses(conn, deps, context, row, values['fixed_ips'])
    if values.keys() & {'port_security_enabled', 'allowed_address_pairs'}:
        stored.update(_security(conn, context, _network(conn, row), {
            'security_groups': db_groups.of_ports(conn, [row['id']]).get(row['id']), **row,
            **values}))
    if 'security_groups' in values:
        groups = _groups(conn, row['project_id'], values['security_groups'] or [])
        db_groups.unbind(conn, [row['id']])
        db_groups.bind(conn, [(row['id'], group) for group in groups])
    db_networks.update(conn, t.ports, row['id'], stored)


def delete(conn: Connection, deps: Deps, context: RequestContext, row: PortsRow) -> None:
    row = resource.found(db_networks.lock(conn, t.ports, row['id']), exception.PortNotFound(port_id=row['id']))
    if row['device_owner'] == db.INTERFACE and not resource.owner(context, row):       # see removable
        return db.remove_from_router(conn, row)
    if row['device_owner'].startswith('network:'):
        raise faults.ServicePortInUse(port_id=row['id'], reason=f"it has device owner {row['device_owner']}")
    if row['device_id']:
        # a server's filters are removed with its device
        raise exception.PortInUse(port_id=row['id'])
    db.remove(conn, [row['id']])


def removable(conn: Connection, context: RequestContext, row: PortsRow) -> bool:
    """Return whether the caller may delete a port, as owner of the port or network."""
    return resource.owner(context, row) or resource.owner(context, _network(conn, row))


def _network(conn: Connection, row: PortsRow) -> NetworksRow:
    return resource.found(db_networks.get(conn, t.networks, row['network_id']),
                          exception.NetworkNotFound(network_id=row['network_id']))


def _check_mac(conn: Connection, context: RequestContext, network: NetworksRow, mac: str) -> None:
    if not resource.owner(context, network):
        raise exception.PolicyDenied(rule='create_port:mac_address')
    if db.count(conn, mac_address=mac):
        raise faults.MacAddressInUse(network_id=network['id'], mac=mac)


def _security(conn: Connection, context: RequestContext, network: NetworksRow,
              values: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of port security and allowed address pairs."""
    enabled = values['port_security_enabled']
    if enabled is None:
        enabled = network['port_security_enabled']
    pairs = values['allowed_address_pairs'] or []
    if (not enabled or pairs) and network['network_type'] == db_networks.FLAT:
        raise exception.InvalidInput(reason='Disabling port security and allowed_address_pairs are supported only in '
                                            'networks of type vxlan or vlan: guests of other projects share the '
                                            'routing table of the hosts.')
    if not resource.owner(context, network) and (not enabled and network['port_security_enabled'] or pairs):
        raise exception.PolicyDenied(rule='create_port:port_security_enabled, allowed_address_pairs')
    if not enabled and (pairs or values['security_groups']):
        raise faults.PortSecurityPortHasSecurityGroup()
    older = db_hosts.older(conn, gateways.FEATURE_RELEASE) if any(
        ranges.is_range(pair['ip_address']) for pair in pairs) else []
    if older:
        raise exception.Conflict('Ranges in allowed_address_pairs require this release on all network hosts. Upgrade '
                                 f'first: {utils.some(older)}.')
    return {'port_security_enabled': enabled, 'allowed_address_pairs': [
        {'mac_address': None, **pair} for pair in pairs] or None}


def _change_addresses(conn: Connection, deps: Deps, context: RequestContext, row: PortsRow,
                      wanted: list[dict[str, Any]]) -> None:
    """Keep unchanged addresses, release the others and claim new ones."""
    db.lock_many(conn, [row['id']])                         # lock order: ports before subnets, as in allocation
    network, subnets = db_networks.usable(
        conn, nova_context.ALL_PROJECTS, [row['network_id']], lock=True)[row['network_id']]
    have = db_networks.addresses_of(conn, [row['id']]).get(row['id'], [])
    if row['device_owner'] == db.INTERFACE and (len(wanted) != 1 or not _stays(subnets, wanted[0], have)):
        raise exception.BadRequest('A router interface must keep its subnet, with exactly one address in it.')
    kept: list[dict[str, str]] = []
    fresh: list[dict[str, str]] = []
    for request in wanted:
        match = next((entry for entry in have if entry not in kept and all(
            entry[name] == value for name, value in request.items())), None)
        (kept if match else fresh).append(match or request)
    gone = [entry['ip_address'] for entry in have if entry not in kept]
    if gone:
        db_networks.release_some(conn, row['id'], gone)
        db_routers.forget_addresses(conn, row['id'], gone)
    if fresh:
        ipam.claim(conn, network['id'], subnets, row['id'], fresh,
                   ipam.quarantine_cutoff(deps.conf.network.dhcp_lease_time), row['mac_address'],
                   anywhere=resource.owner(context, network), owner=row['device_owner'])


def _shown(conn: Connection, row: PortsRow) -> tuple[str, Any]:
    """Return the addresses that a server with this port shows."""
    held = db_networks.addresses_of(conn, [row['id']]).get(row['id'], [])
    return row['id'], tuple(entry['ip_address'] for entry in held)


def _stays(subnets: list[Any], wanted: dict[str, Any], have: list[dict[str, str]]) -> bool:
    """Return whether a request is for an address in the port's subnet."""
    ident = wanted.get('subnet_id') or ipam.check_fixed(subnets, wanted.get('ip_address', ''))['id']
    return all(entry['subnet_id'] == ident for entry in have)


def _groups(conn: Connection, project: str, wanted: list[str] | None) -> list[str]:
    """Return the ids of own or shared groups in a request; the default group for None."""
    if wanted is None:
        return [db_groups.ensure_default(conn, project)]
    known = {row['id'] for row in db_groups.of_project(conn, project)} if wanted else set()
    known |= db_groups.shared_with(conn, project, [ident for ident in wanted if ident not in known],
                                   lock=True)
    for ident in wanted:
        if ident not in known:
            raise exception.SecurityGroupNotFound(security_group_id=ident)
    return list(dict.fromkeys(wanted))


PORTS = resource.Resource(
    singular='port', plural='ports', table=t.ports,
    attributes={
        **a.DESCRIBED,
        'network_id': a.Attribute(a.ident, a.REQUIRED, put=False),
        'admin_state_up': a.Attribute(a.boolean, True),
        'mac_address': a.Attribute(a.maybe(a.mac)),
        'fixed_ips': a.Attribute(a.maybe(a.items(a.record(subnet_id=a.ident, ip_address=a.address), 10))),
        'security_groups': a.Attribute(a.maybe(a.items(a.ident, 20))),
        # only the compute service assigns ports to servers
        'device_id': a.Attribute(a.text(), '', admin=True),
        'device_owner': a.Attribute(a.text(), '', admin=True),
        'binding:host_id': a.Attribute(a.maybe(a.text()), admin=True),
        'binding:vnic_type': a.Attribute(a.one_of('normal'), 'normal'),
        'binding:profile': a.Attribute(a.one_of(None, {}), None, admin=True),
        'port_security_enabled': a.Attribute(a.maybe(a.boolean)),
        'allowed_address_pairs': a.Attribute(a.maybe(a.items(a.record(
            ip_address_=a.host_range, mac_address=a.mac), 10))),
        'extra_dhcp_opts': a.Attribute(a.maybe(a.items(a.record(
            opt_name_=a.dhcp_option, opt_value_=a.dhcp_value, ip_version=a.ip_version), 20))),
        'qos_policy_id': a.Attribute(a.maybe(a.ident)),
        'dns_name': a.Attribute(a.host_name, ''),
    },
    listing=listing.Listing(t.ports, {
        'id': t.ports.c.id, 'name': t.ports.c.name, 'project_id': t.ports.c.project_id,
        'tenant_id': t.ports.c.project_id, 'network_id': t.ports.c.network_id,
        'device_id': t.ports.c.device_id,
        'device_owner': t.ports.c.device_owner, 'status': t.ports.c.status,
        'mac_address': t.ports.c.mac_address,
        'admin_state_up': t.ports.c.admin_state_up, 'description': t.ports.c.description,
        'binding:host_id': t.ports.c.host, 'created_at': t.ports.c.created_at,
        'dns_name': t.ports.c.dns_name, 'port_security_enabled': t.ports.c.port_security_enabled,
        'qos_policy_id': t.ports.c.qos_policy_id,
    }, CONSTANTS, {'fixed_ips': db.by_fixed_ips, 'security_groups': db.by_groups,
                   'security_group_id': db.by_groups}),
    visible=db.visible, writable=resource.owner, views=views, create=create, update=update, delete=delete,
    narrow=(PLAIN, OF_OTHERS, partial_views), removable=removable, server_view=_shown,
    missing=lambda ident: exception.PortNotFound(port_id=ident))
