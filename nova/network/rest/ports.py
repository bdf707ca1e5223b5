"""Ports."""
from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, TYPE_CHECKING

from nova import context as nova_context
from nova import exception
from nova.context import RequestContext
from nova.db.engine import Connection
from nova.db.networks import guarantees as db_guarantees
from nova.db.networks import networks as db_networks
from nova.db.networks import ports as db
from nova.db.networks import routers as db_routers
from nova.db.networks import security_groups as db_groups
from nova.db.networks import trunks as db_trunks
from nova.db.tables import network as t
from nova.network import guarantees
from nova.network import ipam
from nova.network import selection
from nova.network.rest import faults
from nova.network.rest import guarantees as rest_guarantees
from nova.network.rest.networks import NETWORKS
from nova.network.rest import qos
from nova.network.rest import quotas
from nova.network.rest import rows as r
from nova.network.rest import schemas as s
from nova.network.rest import trunks
from nova.web.fields import Constant
from nova.web.resource import closed

if TYPE_CHECKING:
    from nova.db.tables.rows import NetworksRow, PortsRow, SubnetsRow
    from nova.network.rest.request import Deps
    from nova.network.rest.values import PortExtraDhcpOpts
    from nova.network.rest.values import PortValues

MAX_OPTIONS = 20            # maximum number of DHCP options of a port


def _load_policies(conn: Connection, _context: RequestContext, rows: list[dict[str, Any]]) -> None:
    """Add to each port the QoS policy of its network and the resources that the effective QoS policy guarantees."""
    known = {row['id']: row for row in db_networks.many(conn, t.networks, {row['network_id'] for row in rows})}
    policies: dict[str, str] = {
        row['id']: row['qos_policy_id'] or known[row['network_id']]['qos_policy_id'] or '' for row in rows
        if not row['device_owner'].startswith(('network:', db_trunks.SUBPORT))}
    rules = db_guarantees.of_policies(conn, {*policies.values()} - {''})
    for row in rows:
        network = known[row['network_id']]
        row['network_policy'] = network['qos_policy_id']
        row['resource_request'] = guarantees.resource_request(
            row['id'], rules.get(policies.get(row['id'], ''), ()), network['physical_network'])


def _pairs(row: Mapping[str, Any], _context: RequestContext) -> list[dict[str, str]]:
    return [{**pair, 'mac_address': pair['mac_address'] or row['mac_address']}
            for pair in row['allowed_address_pairs'] or ()]


def create(conn: Connection, deps: Deps, context: RequestContext, values: PortValues) -> str:
    project = r.new_owner(context, values)
    quotas.check(conn, deps.conf, 'port', project)
    usable = db_networks.usable(conn, project, [values['network_id']], lock=True)
    if context.is_admin and values['network_id'] in usable:
        network, subnets = usable[values['network_id']]
    else:
        network, subnets = selection.network_of(usable, values['network_id'], project)
    security = _security(conn, network, values)
    mac = values['mac_address']
    if mac:
        _check_mac(conn, network, mac)
    ident, mac = str(uuid.uuid4()), mac or ipam.new_mac()
    wanted = values['fixed_ips']
    if wanted or subnets and wanted is None:
        ipam.claim(conn, network['id'], subnets, ident, wanted or [],
                   deps.quarantine_cutoff, mac,
                   anywhere=r.is_owner(context, network), owner=values['device_owner'])
    groups = _groups(conn, project, values['security_groups']) if security['port_security_enabled'] else []
    db_networks.insert(conn, t.ports, [{
        **PORTS.stored(values), 'id': ident, 'project_id': project, 'network_id': network['id'],
        'extra_dhcp_opts': _merged((), values['extra_dhcp_opts'] or ()),
        'mac_address': mac, **security, 'status': 'DOWN', 'position': 0, 'tag': None,
        'qos_policy_id': qos.chosen(conn, context, None, values['qos_policy_id']), 'created_by_compute': False}])
    db_groups.bind(conn, [(ident, group) for group in groups])
    return ident


def update(conn: Connection, deps: Deps, context: RequestContext, row: PortsRow, values: PortValues) -> None:
    row = PORTS.locked(conn, row['id'])
    changeable = {'name', 'description'} | ({'fixed_ips'} if row['device_owner'] == db.INTERFACE else set())
    if row['device_owner'].startswith('network:') and values.keys() - changeable:
        raise faults.ServicePortInUse(port_id=row['id'], reason=f"it has device owner {row['device_owner']}")
    if row['device_owner'] == db_trunks.SUBPORT and values.keys() & {'device_id', 'device_owner', 'binding:host_id'}:
        _check_no_subport(conn, row)
    stored = PORTS.stored(values)
    if 'extra_dhcp_opts' in values:
        stored['extra_dhcp_opts'] = _merged(row['extra_dhcp_opts'] or (), values['extra_dhcp_opts'] or ())
    if 'qos_policy_id' in values:
        stored['qos_policy_id'] = qos.chosen(conn, context, row['qos_policy_id'], values['qos_policy_id'])
        if row['device_owner'] == db_trunks.SUBPORT:
            rest_guarantees.refuse(conn, stored['qos_policy_id'], f"subport {row['id']}")
    mac, wanted = values.get('mac_address'), values.get('fixed_ips')
    if mac and mac != row['mac_address']:
        if row['device_id']:
            raise exception.PortInUse(port_id=row['id'])
        _check_mac(conn, NETWORKS.get(conn, row['network_id']), mac)
        stored['mac_address'] = mac
    if wanted is not None:
        _change_addresses(conn, deps, context, row, wanted)
    if values.keys() & {'port_security_enabled', 'allowed_address_pairs', 'security_groups'}:
        stored.update(_security(conn, NETWORKS.get(conn, row['network_id']), {
            'security_groups': db_groups.of_ports(conn, [row['id']]).get(row['id']), **row,
            **values}))
    if 'security_groups' in values:
        groups = _groups(conn, row['project_id'], values['security_groups'] or [])
        db_groups.unbind(conn, [row['id']])
        db_groups.bind(conn, [(row['id'], group) for group in groups])
    db_networks.update(conn, t.ports, row['id'], stored)
    if stored.keys() & {'host', 'device_id'}:
        db_trunks.follow(conn, t.ports.c.id == row['id'])
    changed = {**row, **stored}
    if stored.keys() & {'host', 'device_id', 'device_owner', 'qos_policy_id'} and changed['device_id']:
        for place in sorted({changed['host'], changed['migrating_to']} - {''}):
            rest_guarantees.claim(conn, db_guarantees.claim_server, changed['device_id'], place)


def delete(conn: Connection, deps: Deps, context: RequestContext, row: PortsRow) -> None:
    row = PORTS.locked(conn, row['id'])
    if row['device_owner'] == db.INTERFACE and not r.is_owner(context, row):  # the caller owns only the network
        return db.remove_from_router(conn, row)
    if row['device_owner'].startswith('network:'):
        raise faults.ServicePortInUse(port_id=row['id'], reason=f"it has device owner {row['device_owner']}")
    _check_no_subport(conn, row)
    for trunk in db_trunks.of_ports(conn, [row['id']]).values():
        raise faults.PortInUseAsTrunkParent(port_id=row['id'], trunk_id=trunk['id'])
    if row['device_id']:
        # as long as the server has the device, the host needs the filters of the port
        raise exception.PortInUse(port_id=row['id'])
    db.remove(conn, [row['id']])


def _check_no_subport(conn: Connection, row: PortsRow) -> None:
    for subport in db_trunks.of_subports(conn, [row['id']]).values():
        raise faults.PortInUseAsSubPort(port_id=row['id'], trunk_id=subport['trunk_id'])


def _check_mac(conn: Connection, network: NetworksRow, mac: str) -> None:
    if db.count(conn, mac_address=mac):
        raise faults.MacAddressInUse(network_id=network['id'], mac=mac)


def _security(conn: Connection, network: NetworksRow, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of port security and allowed address pairs."""
    enabled = values['port_security_enabled']
    if enabled is None:
        enabled = network['port_security_enabled']
    pairs = values['allowed_address_pairs'] or []
    if (not enabled or pairs) and network['network_type'] == db_networks.FLAT:
        raise exception.InvalidInput(reason='Disabling port security and allowed_address_pairs are supported only in '
                                            'networks of type vxlan or vlan: guests of other projects share the '
                                            'routing table of the hosts.')
    if not enabled and (pairs or values['security_groups']):
        raise faults.PortSecurityPortHasSecurityGroup()
    return {'port_security_enabled': enabled, 'allowed_address_pairs': [
        {'mac_address': None, **pair} for pair in pairs] or None}


def _merged(known: Sequence[PortExtraDhcpOpts], given: Sequence[PortExtraDhcpOpts]) -> list[PortExtraDhcpOpts] | None:
    """Return the DHCP options of a port after a request, as Neutron merges them, or None if there are none.

    A request replaces or adds the options that it names, and deletes options with the value null.

    :raises InvalidInput: too many options
    """
    found = {(option['opt_name'], option.get('ip_version', 4)): option for option in (*known, *given)}
    merged = [option for option in found.values() if option['opt_value'] is not None]
    if len(merged) > MAX_OPTIONS:
        raise exception.InvalidInput(reason=f'A port can have at most {MAX_OPTIONS} DHCP options.')
    return merged or None


def _change_addresses(conn: Connection, deps: Deps, context: RequestContext, row: PortsRow,
                      wanted: list[dict[str, str]]) -> None:
    """Give a port the requested addresses: claim new addresses, and release addresses that are not requested."""
    db.lock_many(conn, [row['id']])                         # lock order of Allocation: first ports, then subnets
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
                   deps.quarantine_cutoff, row['mac_address'],
                   anywhere=r.is_owner(context, network), owner=row['device_owner'])


def _shown(conn: Connection, row: PortsRow) -> tuple[str, Any]:
    """Return what the compute API shows of the port in its server: (port id, addresses)."""
    held = db_networks.addresses_of(conn, [row['id']]).get(row['id'], [])
    return row['id'], tuple(entry['ip_address'] for entry in held)


def _stays(subnets: list[SubnetsRow], wanted: dict[str, str], have: list[dict[str, str]]) -> bool:
    """Return whether all addresses of the port are in the subnet of the requested address."""
    ident = wanted.get('subnet_id') or ipam.check_fixed(subnets, wanted.get('ip_address', ''))['id']
    return all(entry['subnet_id'] == ident for entry in have)


def _groups(conn: Connection, project: str, wanted: list[str] | None) -> list[str]:
    """Check and return the ids of the groups in a request; return the default group for None."""
    if wanted is None:
        return [db_groups.ensure_default(conn, project)]
    known = {row['id'] for row in db_groups.of_project(conn, project)} if wanted else set()
    known |= db_groups.shared_with(conn, project, [ident for ident in wanted if ident not in known],
                                   lock=True)
    for ident in wanted:
        if ident not in known:
            raise exception.SecurityGroupNotFound(security_group_id=ident)
    return list(dict.fromkeys(wanted))


_PAIR = s.record('ip_address', ip_address=s.HOST_RANGE, mac_address=s.MAC_ADDRESS)
_SHOWN_OPTION = s.shape(opt_name=s.TEXT, opt_value=s.TEXT, ip_version=s.NUMBER)
_REQUEST = s.nullable(s.shape(
    request_groups=s.array(s.shape(id=s.UUID, required=s.array(s.TEXT), resources={
        'type': 'object', 'additionalProperties': s.NUMBER})), same_subtree=s.array(s.UUID)))
PORTS = r.Resource('port', 'ports', t.ports, (
    *r.NAMED,
    r.column('network_id', s.UUID, 'Network.', write='create', accepts=s.IDENT, required=True),
    r.column('mac_address', s.TEXT, 'MAC address.', write=r.BOTH, accepts=s.nullable(s.MAC_ADDRESS), guarded=True,
             chosen=True),
    r.ADMIN_STATE,
    r.column('status', s.TEXT, 'Whether a device uses it: ACTIVE or DOWN.'),
    r.column('device_id', s.TEXT, 'Server or router.', write=r.BOTH, accepts=s.NAME, default='', guarded=True),
    r.column('device_owner', s.TEXT, 'Kind of the device.', write=r.BOTH, accepts=s.NAME, default='', guarded=True),
    r.Field('fixed_ips', s.FIXED_IPS, 'fixed_ips', 'Addresses.', lists=db_networks.addresses_of,
            where=db.by_fixed_ips, write=r.BOTH, accepts=s.nullable(s.items(s.FIXED_IP, 10)), guarded=True,
            chosen=True, parts=('ip_address', 'subnet_id')),
    r.Field('security_groups', s.array(s.UUID), 'security_groups', 'Security groups.', lists=db_groups.of_ports,
            where=db.by_groups, write=r.BOTH, accepts=s.nullable(s.items(s.IDENT, 20))),
    r.Field('security_group_id', s.UUID, None, 'Filter for one security group.', '', where=db.by_groups),
    r.column('port_security_enabled', s.FLAG, 'Whether packets are filtered.', write=r.BOTH,
             accepts=s.nullable(s.BOOLEAN), guarded=True, chosen=True),
    r.Field('allowed_address_pairs', s.array(s.shape(ip_address=s.TEXT, mac_address=s.TEXT)), _pairs,
            'Further addresses that the device may send from.', columns=('mac_address', 'allowed_address_pairs'),
            write=r.BOTH, accepts=s.nullable(s.items(_PAIR, 10)), guarded=True, parts=('mac_address', 'ip_address')),
    r.Field('extra_dhcp_opts', s.array(_SHOWN_OPTION), lambda row, context: [
                {'ip_version': 4, **option} for option in row['extra_dhcp_opts'] or ()],
            'DHCP options.', column='extra_dhcp_opts', columns=('extra_dhcp_opts',), write=r.BOTH,
            accepts=s.nullable(s.items(s.DHCP_OPTION, MAX_OPTIONS))),
    r.column('dns_name', s.TEXT, 'Name of the device in DNS.', write=r.BOTH, accepts=s.HOST_NAME, default=''),
    r.Field('dns_domain', s.const(''), Constant(''), 'Always empty.'),
    r.Field('dns_assignment', s.EMPTY, Constant([]), 'Always empty.'),
    r.column('qos_policy_id', s.UUID_OR_NULL, 'QoS policy.', write=r.BOTH, accepts=s.nullable(s.IDENT)),
    r.Field('qos_network_policy_id', s.UUID_OR_NULL, 'network_policy', 'QoS policy of the network.',
            load=_load_policies, columns=('id', 'network_id', 'qos_policy_id', 'device_owner')),
    r.Field('binding:host_id', s.TEXT, 'host', 'Host of the device.', rule='get_port:binding:host_id', write=r.BOTH,
            accepts=s.clearable(s.NAME), default='', guarded=True),
    r.Field('binding:vif_type', s.one_of('bridge', 'unbound'),
            lambda row, context: 'bridge' if row['host'] else 'unbound', 'How the host connects it.', columns=('host',),
            rule='get_port:binding:vif_type'),
    r.Field('binding:vif_details', closed(port_filter=s.const(True)),
            lambda row, context: {'port_filter': True} if row['host'] else {}, 'Details of the connection.',
            columns=('host',), rule='get_port:binding:vif_details'),
    r.Field('binding:profile', s.const({}), lambda row, context: {}, 'Always empty.', columns=('id',),
            rule='get_port:binding:profile', write=r.BOTH, accepts=s.one_of(None, {})),
    r.Field('binding:vnic_type', s.const('normal'), Constant('normal'), 'Always normal.', write=r.BOTH,
            accepts=s.one_of('normal'), default='normal'),
    r.Field('trunk_details', trunks.DETAILS, 'trunk_details', 'Trunk with this port as parent, and its subports.',
            load=trunks.load_details, columns=('id',), listed=False),
    r.Field('ip_allocation', s.const('immediate'), Constant('immediate'), 'Always immediate.'),
    r.Field('propagate_uplink_status', s.const(False), Constant(False), 'Always false.'),
    r.Field('resource_request', _REQUEST, 'resource_request', 'Guarantees that the port requests by its QoS policy.',
            load=_load_policies, columns=('id', 'network_id', 'qos_policy_id', 'device_owner'),
            rule='get_port:resource_request', listed=False),
    r.Field('numa_affinity_policy', s.NULL, Constant(None), 'Always null.'),
), visible=db.visible, of_network=True, create=create, update=update, delete=delete, server_view=_shown,
    missing=lambda ident: exception.PortNotFound(port_id=ident))
