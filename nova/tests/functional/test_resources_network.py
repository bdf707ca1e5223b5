"""Every resource of the Network API by one table: created with all attributes, read, sent back, found by each filter.

The filters are those that the Networking API reference (v2.0) documents for the list of a resource. A form says what
the reference shows for a value.
"""
import datetime
import re
from typing import Any, NamedTuple

import pytest

from nova.network import quotas
from nova.network.rest import app
from nova.tests.support import network_api as test_network_api

UUID = re.compile('[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')
COMMON = ('id', 'project_id', 'tenant_id', 'description', 'revision_number')


def is_uuid(value):
    return isinstance(value, str) and UUID.fullmatch(value)


def is_time(value):
    return isinstance(value, str) and datetime.datetime.strptime(value, '%Y-%m-%dT%H:%M:%SZ')


def is_text(value):
    return isinstance(value, str)


def is_number(value):
    return isinstance(value, int) and not isinstance(value, bool)


def is_flag(value):
    return isinstance(value, bool)


def is_list(value):
    return isinstance(value, list)


def optional(check):
    return lambda value: value is None or check(value)


def each(**checks):
    """A list of objects that have exactly these keys."""
    return lambda value: is_list(value) and all(
        entry.keys() == checks.keys() and all(check(entry[name]) for name, check in checks.items()) for entry in value)


TIMES = {'id': is_uuid, 'project_id': is_text, 'tenant_id': is_text, 'description': is_text, 'created_at': is_time,
         'updated_at': is_time, 'revision_number': is_number, 'tags': is_list}


class Row(NamedTuple):
    """
    path     of the resource
    body     function(world) -> attributes of a POST
    hidden   attributes that no answer shows
    filters  that the reference documents, besides COMMON and those of tags
    forms    {attribute: check of the value's form}
    common   filters that all resources have
    """

    path: str
    body: Any
    filters: tuple[str, ...]
    forms: dict[str, Any]
    hidden: tuple[str, ...] = ()
    common: tuple[str, ...] = COMMON


def network(world):
    return {'name': 'all', 'description': 'd', 'admin_state_up': False, 'shared': False, 'mtu': 1400,
            'router:external': False, 'port_security_enabled': False, 'provider:network_type': 'vxlan',
            'provider:segmentation_id': world.number(), 'qos_policy_id': world.policy, 'is_default': False,
            'dns_domain': '', 'availability_zone_hints': ['nova']}


def subnet(world):
    cidr = f'10.{world.number() % 200}.0'
    return {'name': 'all', 'description': 'd', 'network_id': world.network, 'cidr': cidr + '.0/24', 'ip_version': 4,
            'gateway_ip': cidr + '.9', 'enable_dhcp': True, 'dns_nameservers': ['9.9.9.9', '8.8.8.8'],
            'allocation_pools': [{'start': cidr + '.100', 'end': cidr + '.200'}],
            'host_routes': [{'destination': '192.0.2.0/24', 'nexthop': cidr + '.7'}],
            'service_types': ['compute:nova', 'network:dhcp'], 'ipv6_ra_mode': None, 'ipv6_address_mode': None}


def subnet_of_pool(world):
    return {'name': 'six', 'description': 'd', 'network_id': world.network, 'ip_version': 6, 'prefixlen': 64,
            'subnetpool_id': world.pool6, 'enable_dhcp': True, 'ipv6_ra_mode': 'dhcpv6-stateful',
            'ipv6_address_mode': 'dhcpv6-stateful', 'dns_nameservers': ['2001:db8::53'], 'host_routes': [],
            'service_types': []}


def trunk(world):
    return {'name': 'all', 'description': 'd', 'admin_state_up': False, 'sub_ports': [],
            'port_id': world.new('ports', network_id=world.network)}


def address_group(world):
    return {'name': 'all', 'description': 'd', 'addresses': ['192.0.2.0/24']}


def address_scope(world):
    return {'name': 'all', 'ip_version': 6, 'shared': True}


def port(world):
    number = world.inner_number()
    return {'name': 'all', 'description': 'd', 'network_id': world.network, 'admin_state_up': True,
            'mac_address': f'fa:16:3e:00:00:{number:02x}', 'fixed_ips': [
                {'subnet_id': world.subnet, 'ip_address': f'10.250.0.{number}'}],
            'security_groups': [world.group], 'device_id': f'device-{number}', 'device_owner': 'compute:nova',
            'binding:host_id': 'host1', 'binding:vnic_type': 'normal', 'binding:profile': {},
            'port_security_enabled': True, 'qos_policy_id': world.policy, 'dns_name': f'n{number}',
            'allowed_address_pairs': [{'ip_address': '10.250.0.66', 'mac_address': 'fa:16:3e:00:00:66'}],
            'extra_dhcp_opts': [{'opt_name': 'mtu', 'opt_value': '1400', 'ip_version': 4}]}


def rule(world):
    return {'description': 'd', 'security_group_id': world.group, 'direction': 'ingress', 'ethertype': 'IPv4',
            'protocol': '6', 'port_range_min': 20000 + world.number(), 'port_range_max': 40000,
            'remote_ip_prefix': '10.2.3.4/24', 'remote_group_id': None, 'remote_address_group_id': None}


def rule_of_group(world):
    return {'description': 'd', 'security_group_id': world.new('security-groups', name='g', project_id='p1'),
            'direction': 'egress',
            'ethertype': 'IPv6', 'protocol': 'ipv6-icmp', 'port_range_min': 128, 'port_range_max': 0,
            'remote_ip_prefix': None, 'remote_group_id': world.group, 'remote_address_group_id': None}


def template(world):
    return {'description': 'd', 'direction': 'ingress', 'ethertype': 'IPv4', 'protocol': 'udp',
            'port_range_min': 10000 + world.number(), 'port_range_max': 40000, 'remote_ip_prefix': '10.2.3.0/24',
            'remote_group_id': None, 'remote_address_group_id': None, 'used_in_default_sg': False,
            'used_in_non_default_sg': False}


def router(world):
    return {'name': 'all', 'description': 'd', 'admin_state_up': False, 'distributed': False, 'ha': False,
            'flavor_id': None, 'availability_zone_hints': ['nova'], 'external_gateway_info': {
                'network_id': world.outside, 'enable_snat': False, 'qos_policy_id': world.policy,
                'external_fixed_ips': [{'subnet_id': world.outer_subnet, 'ip_address': world.outer_address()}]}}


def flavor(world):
    return {'name': 'all', 'description': 'd', 'enabled': True, 'service_type': 'L3_ROUTER_NAT'}


def service_profile(world):
    return {'description': 'd', 'enabled': True, 'driver': 'nova-network', 'metainfo': 'm'}


def floating_ip(world):
    inner = world.new('ports', network_id=world.network, fixed_ips=[{'subnet_id': world.subnet}])
    held = world.show('ports', inner)['fixed_ips'][0]['ip_address']
    return {'description': 'd', 'floating_network_id': world.outside, 'port_id': inner, 'fixed_ip_address': held,
            'floating_ip_address': world.outer_address(), 'subnet_id': world.outer_subnet,
            'dns_name': '', 'dns_domain': ''}


def share(world):
    return {'object_type': 'network', 'object_id': world.network, 'action': 'access_as_shared',
            'target_tenant': f'project-{world.number()}'}


def pool(world):
    return {'name': 'all', 'description': 'd', 'prefixes': ['10.0.0.0/16', '10.2.0.0/16'], 'min_prefixlen': 20,
            'default_prefixlen': 24, 'max_prefixlen': 28, 'default_quota': 5000, 'shared': False,
            'is_default': False}


def policy(world):
    return {'name': 'all', 'description': 'd', 'shared': False, 'is_default': False}


def security_group(world):
    return {'name': 'all', 'description': 'd', 'stateful': True}


RULE_FORMS = {'direction': is_text, 'ethertype': is_text, 'protocol': optional(is_text),
              'port_range_min': optional(is_number), 'port_range_max': optional(is_number),
              'remote_ip_prefix': optional(is_text), 'remote_group_id': optional(is_uuid),
              'remote_address_group_id': optional(is_uuid)}
RULE_FILTERS = ('direction', 'ethertype', 'protocol', 'port_range_min', 'port_range_max', 'remote_ip_prefix',
                'remote_group_id', 'security_group_id')
SUBNET_FILTERS = ('name', 'enable_dhcp', 'network_id', 'ip_version', 'gateway_ip', 'cidr', 'ipv6_address_mode',
                  'ipv6_ra_mode', 'segment_id', 'subnetpool_id')
SUBNET_FORMS = {
    **TIMES, 'name': is_text, 'network_id': is_uuid, 'cidr': is_text, 'ip_version': is_number,
    'gateway_ip': optional(is_text), 'enable_dhcp': is_flag, 'subnetpool_id': optional(is_uuid),
    'allocation_pools': each(start=is_text, end=is_text), 'dns_nameservers': is_list,
    'host_routes': each(destination=is_text, nexthop=is_text), 'ipv6_ra_mode': optional(is_text),
    'ipv6_address_mode': optional(is_text), 'service_types': is_list, 'segment_id': optional(is_uuid)}
ROWS = {
    'network': Row('networks', network, (
        'name', 'admin_state_up', 'mtu', 'provider:network_type', 'provider:physical_network',
        'provider:segmentation_id', 'router:external', 'shared', 'status', 'is_default', 'vlan_transparent',
        'availability_zone_hints'), {
        **TIMES, 'name': is_text, 'admin_state_up': is_flag, 'mtu': is_number, 'shared': is_flag, 'subnets': is_list,
        'router:external': is_flag, 'port_security_enabled': is_flag, 'qos_policy_id': optional(is_uuid),
        'status': is_text, 'availability_zone_hints': is_list, 'availability_zones': is_list, 'is_default': is_flag,
        'l2_adjacency': is_flag, 'dns_domain': is_text, 'provider:network_type': is_text,
        'provider:physical_network': optional(is_text), 'provider:segmentation_id': optional(is_number),
        'vlan_transparent': optional(is_flag), 'ipv4_address_scope': optional(is_uuid),
        'ipv6_address_scope': optional(is_uuid)}),
    'subnet': Row('subnets', subnet, SUBNET_FILTERS, SUBNET_FORMS),
    'subnet of a pool': Row('subnets', subnet_of_pool, SUBNET_FILTERS, SUBNET_FORMS, hidden=('prefixlen',)),
    'port': Row('ports', port, (
        'name', 'admin_state_up', 'binding:host_id', 'device_id', 'device_owner', 'fixed_ips', 'ip_allocation',
        'mac_address', 'network_id', 'status', 'security_groups'), {
        **TIMES, 'name': is_text, 'network_id': is_uuid, 'mac_address': is_text, 'admin_state_up': is_flag,
        'status': is_text, 'device_id': is_text, 'device_owner': is_text, 'security_groups': is_list,
        'fixed_ips': each(subnet_id=is_uuid, ip_address=is_text), 'port_security_enabled': is_flag,
        'allowed_address_pairs': each(ip_address=is_text, mac_address=is_text), 'dns_name': is_text,
        'extra_dhcp_opts': each(opt_name=is_text, opt_value=is_text, ip_version=is_number),
        'qos_policy_id': optional(is_uuid), 'qos_network_policy_id': optional(is_uuid), 'ip_allocation': is_text,
        'binding:host_id': is_text, 'binding:vif_type': is_text, 'binding:vnic_type': is_text}),
    'security group': Row('security-groups', security_group, ('name', 'stateful', 'shared'), {
        **TIMES, 'name': is_text, 'stateful': is_flag, 'shared': is_flag, 'security_group_rules': is_list}),
    'rule': Row('security-group-rules', rule, RULE_FILTERS, {**TIMES, **RULE_FORMS, 'security_group_id': is_uuid}),
    'rule of a group': Row('security-group-rules', rule_of_group, RULE_FILTERS, {**TIMES, **RULE_FORMS}),
    'default rule': Row('default-security-group-rules', template, (
        *RULE_FILTERS[:6], 'used_in_default_sg', 'used_in_non_default_sg'), {
        'id': is_uuid, **RULE_FORMS, 'used_in_default_sg': is_flag, 'used_in_non_default_sg': is_flag},
        common=('id', 'description')),
    'router': Row('routers', router, ('name', 'admin_state_up', 'availability_zone_hints'), {
        **TIMES, 'name': is_text, 'admin_state_up': is_flag, 'status': is_text, 'routes': is_list, 'ha': is_flag,
        'distributed': is_flag, 'availability_zones': is_list, 'availability_zone_hints': is_list}),
    'flavor': Row('flavors', flavor, ('name', 'enabled', 'service_type'), {
        'id': is_uuid, 'name': is_text, 'description': is_text, 'enabled': is_flag, 'service_type': is_text,
        'service_profiles': is_list}, common=('id', 'description')),
    'service profile': Row('service_profiles', service_profile, ('enabled', 'driver', 'metainfo'), {
        'id': is_uuid, 'description': is_text, 'enabled': is_flag, 'driver': is_text, 'metainfo': is_text},
        common=('id', 'description')),
    'floating IP': Row('floatingips', floating_ip, (
        'router_id', 'status', 'floating_network_id', 'fixed_ip_address', 'floating_ip_address', 'port_id'), {
        **TIMES, 'router_id': optional(is_uuid), 'status': is_text, 'floating_network_id': is_uuid,
        'fixed_ip_address': optional(is_text), 'floating_ip_address': is_text, 'port_id': optional(is_uuid),
        'dns_name': is_text, 'dns_domain': is_text, 'port_forwardings': is_list,
        'qos_policy_id': optional(is_uuid)}, hidden=('subnet_id',)),
    'RBAC policy': Row('rbac-policies', share, ('object_type', 'object_id', 'action', 'target_tenant'), {
        'id': is_uuid, 'object_id': is_uuid, 'object_type': is_text, 'action': is_text, 'target_tenant': is_text,
        'project_id': is_text, 'tenant_id': is_text}, common=('id', 'project_id', 'tenant_id')),
    'QoS policy': Row('qos/policies', policy, ('name', 'shared', 'is_default'), {
        **TIMES, 'name': is_text, 'shared': is_flag, 'is_default': is_flag, 'rules': is_list}),
    'trunk': Row('trunks', trunk, ('name', 'admin_state_up', 'port_id', 'status'), {
        **TIMES, 'name': is_text, 'admin_state_up': is_flag, 'port_id': is_uuid, 'status': is_text,
        'sub_ports': is_list}),
    'address group': Row('address-groups', address_group, ('name', 'description'), {
        'id': is_uuid, 'name': is_text, 'description': is_text, 'addresses': is_list, 'shared': is_flag,
        'project_id': is_text, 'tenant_id': is_text}, common=('id', 'project_id', 'tenant_id')),
    'address scope': Row('address-scopes', address_scope, ('name', 'ip_version', 'shared'), {
        'id': is_uuid, 'name': is_text, 'ip_version': is_number, 'shared': is_flag, 'project_id': is_text,
        'tenant_id': is_text}, common=('id', 'project_id', 'tenant_id')),
    'subnet pool': Row('subnetpools', pool, (
        'name', 'default_quota', 'min_prefixlen', 'default_prefixlen', 'max_prefixlen', 'ip_version', 'shared',
        'is_default', 'address_scope_id'), {
        **TIMES, 'name': is_text, 'prefixes': is_list, 'default_quota': optional(is_number),
        'min_prefixlen': is_number, 'default_prefixlen': is_number, 'max_prefixlen': is_number,
        'ip_version': is_number, 'shared': is_flag, 'is_default': is_flag, 'address_scope_id': optional(is_uuid)}),
}


class World:
    """A face with what the bodies of the table name."""

    def __init__(self, face):
        self.face, self._count, self._outer, self._inner = face, 0, 29, 99      # above the allocation pools
        self.policy = self.new('qos/policies', name='p', shared=True)
        self.network = self.new('networks', name='n', project_id='p1', **{'provider:network_type': 'vxlan'})
        self.subnet = self.new('subnets', network_id=self.network, cidr='10.250.0.0/24', ip_version=4,
                               allocation_pools=[{'start': '10.250.0.2', 'end': '10.250.0.99'}])
        self.group = self.new('security-groups', name='g', project_id='p1')
        self.pool6 = self.new('subnetpools', name='six', prefixes=['2001:db8::/60'], default_prefixlen=64,
                              project_id='p1')
        self.outside = self.new('networks', name='public', **{'router:external': True})
        self.outer_subnet = self.new('subnets', network_id=self.outside, cidr='172.24.4.0/24', ip_version=4,
                                     enable_dhcp=False, allocation_pools=[
                                         {'start': '172.24.4.2', 'end': '172.24.4.29'}])
        inner = self.new('routers', name='r', project_id='p1', external_gateway_info={'network_id': self.outside})
        joined = face('admin', 'PUT', f'routers/{inner}/add_router_interface', {'subnet_id': self.subnet})
        assert joined.status_code == 200, joined.text

    def number(self):
        self._count += 1
        return self._count

    def outer_address(self):
        self._outer += 1
        return f'172.24.4.{self._outer}'

    def inner_number(self):
        self._inner += 1
        return self._inner

    def make(self, path, values):
        made = self.face('admin', 'POST', path, {app.RESOURCES[path].name: values})
        assert made.status_code == 201, made.text
        return made.json()[app.RESOURCES[path].name]

    def new(self, path, **values):
        return self.make(path, values)['id']

    def show(self, path, ident, user='admin'):
        shown = self.face(user, 'GET', f'{path}/{ident}')
        assert shown.status_code == 200, shown.text
        return shown.json()[app.RESOURCES[path].name]

    def put(self, path, ident, values, user='admin'):
        answer = self.face(user, 'PUT', f'{path}/{ident}', {app.RESOURCES[path].name: values})
        assert answer.status_code == 200, (values, answer.text)
        return answer.json()[app.RESOURCES[path].name]

    def found(self, path, user='admin', **filters):
        query = '&'.join(f'{name}={value}' for name, value in filters.items())
        listed = self.face(user, 'GET', f'{path}?{query}')
        assert listed.status_code == 200, (query, listed.text)
        return {row['id'] for row in listed.json()[app.RESOURCES[path].plural]}


@pytest.fixture(scope='module')
def world(tmp_path_factory):
    face = test_network_api.Face(tmp_path_factory.mktemp('resources'), network__quota=dict.fromkeys(quotas.COUNTED, -1))
    yield World(face)
    face.close()


@pytest.fixture(params=ROWS)
def made(request, world):
    """(its row, the attributes that were sent, the resource, which belongs to project p1 where projects own such)"""
    row = ROWS[request.param]
    sent = row.body(world)
    owned = {} if 'project_id' not in app.RESOURCES[row.path].attributes else {'project_id': 'p1'}
    return row, sent, world.make(row.path, {**sent, **owned})


def test_every_resource_is_in_the_table():
    assert {row.path for row in ROWS.values()} == app.RESOURCES.keys()
    for row in ROWS.values():            # and every attribute that a POST takes is in its body
        known = {name for name, attribute in app.RESOURCES[row.path].attributes.items()
                 if 'create' in attribute.write}
        of_path = set().union(*(other.body(_Nothing()) for other in ROWS.values() if other.path == row.path))
        assert known - of_path <= LEFT_OUT.get(row.path, set()) | {'project_id', 'tenant_id'}


# attributes that a POST takes and the table does not send, because another one of the same body excludes them
LEFT_OUT = {'networks': {'provider:physical_network'}, 'subnets': {'use_default_subnetpool'},
            'subnetpools': {'address_scope_id'}, 'floatingips': {'qos_policy_id'}}


class _Nothing:
    """A world whose ids do not matter."""

    def __getattr__(self, name):
        return ''

    def number(self):
        return 1

    inner_number = number

    def outer_address(self):
        return ''

    def new(self, path, **values):
        return ''

    def show(self, path, ident):
        return {'fixed_ips': [{'ip_address': ''}]}


def test_values_are_returned_as_they_were_sent(world, made):
    row, sent, shown = made
    differ = {name: (value, shown.get(name)) for name, value in sent.items()
              if name not in row.hidden and shown.get(name) != value}
    assert not differ
    assert world.show(row.path, shown['id']) == shown


def test_values_have_the_form_of_the_reference(world, made):
    row, _sent, shown = made
    for name, check in row.forms.items():
        assert name in shown, name
        assert check(shown[name]), (name, shown[name])


ADMINISTRATORS = ('qos/policies', 'default-security-group-rules', 'flavors', 'service_profiles')


def test_sending_back_what_was_read_changes_nothing(world, made):
    row, _sent, shown = made
    attributes = app.RESOURCES[row.path].attributes
    for user in ('admin', 'demo'):
        if user == 'demo' and row.path in ADMINISTRATORS:
            continue
        before = world.show(row.path, shown['id'], user)
        writable = {name: value for name, value in before.items() if name in attributes
                    and 'update' in attributes[name].write}
        for values in ({**writable}, *({name: value} for name, value in writable.items())):
            assert world.put(row.path, shown['id'], values, user) == before
            assert world.show(row.path, shown['id'], user) == before


def test_changing_one_attribute_leaves_the_others(world, made):
    row, _sent, shown = made
    attributes = app.RESOURCES[row.path].attributes
    name = next((each for each in ('name', 'description', 'target_tenant') if each in attributes), None)
    if row.path == 'default-security-group-rules':          # the reference has no update of them
        return
    writable = {each: value for each, value in shown.items() if each in attributes
                and 'update' in attributes[each].write}
    changed = world.put(row.path, shown['id'], {**writable, name: 'other'})
    volatile = {name, 'updated_at', 'revision_number', 'target_project'}
    assert changed[name] == 'other'
    assert {key: value for key, value in changed.items() if key not in volatile} == {
        key: value for key, value in shown.items() if key not in volatile}
    if 'revision_number' in shown:
        assert changed['revision_number'] > shown['revision_number']


def test_list_finds_it_by_each_filter_of_the_reference(world, made):
    row, _sent, shown = made
    for name in (*row.common, *row.filters):
        value = shown[name]
        if name == 'fixed_ips':
            for key in ('ip_address', 'subnet_id'):
                assert shown['id'] in world.found(row.path, fixed_ips=f'{key}={value[0][key]}')
            assert shown['id'] in world.found(row.path, fixed_ips='ip_address_substr=10.250.0.')
            assert shown['id'] not in world.found(row.path, fixed_ips='ip_address=10.250.0.254')
            continue
        text = '' if value is None else ','.join(value) if is_list(value) else str(value)
        if value is not None or name in app.RESOURCES[row.path].listing.columns:
            assert shown['id'] in world.found(row.path, **{name: text}), (name, text)
        other = str(not value) if is_flag(value) else '9999' if is_number(value) else 'other'
        assert shown['id'] not in world.found(row.path, **{name: other}), (name, other)


def test_list_finds_it_by_tags_and_shows_chosen_fields(world, made):
    row, _sent, shown = made
    resource = app.RESOURCES[row.path]
    if resource.tagged:
        tags = f"{resource.plural if resource.at else row.path}/{shown['id']}/tags"
        assert world.face('admin', 'PUT', tags, {'tags': ['red', 'blue']}).status_code == 200
        for query, matches in (({'tags': 'red,blue'}, True), ({'tags': 'red,green'}, False),
                               ({'tags-any': 'red,green'}, True), ({'not-tags': 'red,blue'}, False),
                               ({'not-tags-any': 'green'}, True)):
            assert (shown['id'] in world.found(row.path, **query)) is matches, query
        assert sorted(world.show(row.path, shown['id'])['tags']) == ['blue', 'red']
    listed = world.face('admin', 'GET', f"{row.path}?id={shown['id']}&fields=id&fields=description").json()
    keys = {'id', 'description'} & shown.keys()
    assert listed[resource.plural] == [{key: shown[key] for key in keys}]


def test_unknown_filter_is_refused(world, made):
    row, _sent, _shown = made
    assert world.face('admin', 'GET', f'{row.path}?nothing=1').status_code == 400


def test_filter_by_a_time_is_answered(world, made):
    row, _sent, shown = made
    if 'created_at' in shown:
        assert shown['id'] in world.found(row.path, created_at=shown['created_at'])
        assert shown['id'] not in world.found(row.path, created_at='2001-01-01T00:00:00Z')
        assert shown['id'] in world.found(row.path, changed_since=shown['updated_at'])
        assert shown['id'] not in world.found(row.path, changed_since='2999-01-01T00:00:00Z')
        for name in ('created_at', 'changed_since'):
            for value in ('x', '9' * 30, '0001-01-01T00:00:00%2B14:00'):
                assert world.face('admin', 'GET', f'{row.path}?{name}={value}').status_code == 400


RULES = {'bandwidth_limit': {'max_kbps': 1000, 'max_burst_kbps': 800, 'direction': 'egress'},
         'dscp_marking': {'dscp_mark': 46}, 'minimum_bandwidth': {'min_kbps': 1000, 'direction': 'ingress'},
         'minimum_packet_rate': {'min_kpps': 1000, 'direction': 'any'}}


@pytest.mark.parametrize('kind', RULES)
def test_qos_rules_are_managed(world, kind):
    policy_id, path = world.new('qos/policies', name='p'), f'{kind}_rules'
    base = f'qos/policies/{policy_id}/{path}'
    made = world.face('admin', 'POST', base, {f'{kind}_rule': RULES[kind]}).json()[f'{kind}_rule']
    assert made.items() >= RULES[kind].items() and is_uuid(made['id'])
    before = world.show('qos/policies', policy_id)
    assert world.face('admin', 'GET', f"{base}/{made['id']}").json() == {f'{kind}_rule': made}
    assert world.face('admin', 'GET', base).json() == {path: [made]}
    writable = {name: made[name] for name in RULES[kind]}
    again = world.face('admin', 'PUT', f"{base}/{made['id']}", {f'{kind}_rule': writable})
    assert again.status_code == 200 and again.json() == {f'{kind}_rule': made}
    assert world.show('qos/policies', policy_id) == before


def test_port_forwardings_are_managed(world):
    values = floating_ip(world)
    inner = {'internal_port_id': values.pop('port_id'), 'internal_ip_address': values.pop('fixed_ip_address')}
    base = f"floatingips/{world.make('floatingips', values)['id']}/port_forwardings"
    sent = {'protocol': 'tcp', 'external_port': 2222, 'internal_port': 22, 'description': 'd', **inner}
    made = world.face('admin', 'POST', base, {'port_forwarding': sent}).json()['port_forwarding']
    ranges = {'external_port_range': '2222:2222', 'internal_port_range': '22:22'}
    assert made == {**sent, **ranges, 'id': made['id']}
    again = world.face('admin', 'PUT', f"{base}/{made['id']}", {'port_forwarding': sent})
    assert again.status_code == 200 and again.json()['port_forwarding'] == made
    assert world.face('admin', 'GET', base).json() == {'port_forwardings': [made]}
