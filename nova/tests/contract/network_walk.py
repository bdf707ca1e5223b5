"""Requests to the Networking API for every operation and field, by every kind of caller.

The answers of a walk are compared with the OpenAPI document (test_network.py).
"""
import json

import webob

from nova import conf as nova_conf
from nova import context
from nova.db import engine
from nova.db.networks import hosts
from nova.network import setup
from nova.network.rest import app
from nova.network.rest import documents as documents_of_api
from nova.network.rest import qos
from nova.tests import schemas

MISSING = '5c6a1c4e-6f3b-4c1b-9d4e-0d6a3c2b1a00'
CALLERS = {'admin': ('p0', ['admin', 'manager', 'member', 'reader']), 'member': ('p1', ['member', 'reader']),
           'reader': ('p1', ['reader']), 'other': ('p2', ['member', 'reader'])}
# values of every type, most of which a field refuses
VALUES = (None, True, 'true', 0, 5, -1, 1.5, '7', '', 'x', 'x' * 300, 'a\nb', '10.0.0.9', '10.9.0.0/24', 'fe80::1%eth0',
          'fd00::5', 'FA-16-3E-00-00-01', MISSING, [], {}, ['x'], [{}], ['10.9.8.0/24'], [{'x': 1}], {'x': 1},
          'nova', ['nova'], 'example.org.', 'tcp', 'egress', 'vxlan', 70000, 2 ** 40)


class Api:
    """The application over a database of its own.

    :param checked: function(method, path, body, response), called with each answer
    """

    def __init__(self, directory, checked=lambda method, path, body, response: None, **overrides):
        self.conf = nova_conf.new(files=[], network__driver='fake', network__default_cidr='10.44.0.0/24', **{
            'network__vlan_ranges': ['physnet1:100:110'], 'network__physical_networks': {'physnet1': 'br-p'},
            **overrides})
        self.db = engine.Database(f'sqlite:///{directory}/api.sqlite')
        schemas.create(self.db, 'api')
        setup.bootstrap(self.conf, self.db)
        self.application, self._checked = app.Application(self.conf, self.db), checked
        self.answers = []

    def call(self, method, path, body=None, who='member', status=None, headers=()):
        """Send a request; the path is below /v2.0 unless it begins with a slash."""
        path = path if path.startswith('/') else '/v2.0/' + path
        request = webob.Request.blank(path, method=method, headers=dict(headers))
        if who:
            project, roles = CALLERS[who]
            request.environ['nova.context'] = context.RequestContext(
                user_id=who, project_id=project, roles=roles, is_admin=who == 'admin', overwrite=False)
        if body is not None:
            request.json = body
        response = request.get_response(self.application)
        text = '' if 'Content-Encoding' in response.headers else response.text
        self.answers.append((f'{method} {path} {who} {json.dumps(body)[:300]} {dict(headers)}', response.status_int,
                             text))
        self._checked(method, path, body, response)
        assert status is None or response.status_int == status, (method, path, body, response.text)
        return response

    def made(self, path, key, who='member', **values):
        """Return the id of a new resource."""
        return self.call('POST', path, {key: values}, who, 201).json[key]['id']


# plural: (name, a minimal body, {attribute: new value} of updates)
def kinds(things):
    return {
        'networks': ('network', {'name': 'n1'}, {
            'name': 'n2', 'description': 'd', 'admin_state_up': False, 'mtu': 1200, 'shared': True,
            'port_security_enabled': False, 'dns_domain': 'example.org.', 'qos_policy_id': things['policy'],
            'availability_zone_hints': ['nova'], 'is_default': True, 'router:external': True}),
        'subnets': ('subnet', {'network_id': things['network'], 'cidr': '10.60.0.0/24', 'ip_version': 4}, {
            'name': 's', 'description': 'd', 'gateway_ip': '10.60.0.7', 'enable_dhcp': False,
            'dns_nameservers': ['9.9.9.9'], 'host_routes': [{'destination': '10.1.0.0/16', 'nexthop': '10.60.0.9'}],
            'allocation_pools': [{'start': '10.60.0.20', 'end': '10.60.0.30'}], 'service_types': ['compute:nova']}),
        'subnetpools': ('subnetpool', {'name': 'p', 'prefixes': ['10.70.0.0/16']}, {
            'name': 'q', 'description': 'd', 'default_prefixlen': 26, 'min_prefixlen': 24, 'max_prefixlen': 28,
            'default_quota': 1000, 'is_default': True, 'prefixes': ['10.70.0.0/16', '10.71.0.0/16']}),
        'trunks': ('trunk', {'port_id': things['bare']}, {'name': 's', 'description': 'd', 'admin_state_up': False}),
        'address-groups': ('address_group', {'addresses': ['192.0.2.0/24']}, {'name': 's', 'description': 'd'}),
        'address-scopes': ('address_scope', {'ip_version': 4}, {'name': 's', 'shared': True}),
        'ports': ('port', {'network_id': things['network']}, {
            'name': 'p', 'description': 'd', 'admin_state_up': False, 'device_id': 'd', 'device_owner': 'compute:x',
            'mac_address': 'FA-16-3E-00-00-11', 'dns_name': 'Host', 'binding:host_id': 'h1',
            'fixed_ips': [{'subnet_id': things['subnet']}], 'security_groups': [things['group']],
            'allowed_address_pairs': [{'ip_address': '10.50.0.200', 'mac_address': '02-00-00-00-00-12'}],
            'extra_dhcp_opts': [{'opt_name': 'ntp-server', 'opt_value': '10.0.0.1', 'ip_version': '4'}],
            'qos_policy_id': things['policy'], 'binding:profile': {}, 'binding:vnic_type': 'normal'}),
        'security-groups': ('security_group', {'name': 'g'}, {'name': 'h', 'description': 'd'}),
        'security-group-rules': ('security_group_rule', {
            'security_group_id': things['group'], 'direction': 'ingress', 'protocol': 6, 'port_range_min': 1,
            'port_range_max': '2', 'remote_ip_prefix': '10.1.2.3/16'}, {'description': 'd'}),
        'default-security-group-rules': ('default_security_group_rule', {
            'direction': 'ingress', 'protocol': 'udp', 'remote_group_id': 'PARENT'}, {'description': 'd'}),
        'routers': ('router', {'name': 'r'}, {
            'name': 's', 'description': 'd', 'admin_state_up': False, 'availability_zone_hints': ['nova'],
            'external_gateway_info': {'network_id': things['outside'], 'enable_snat': True}, 'routes': []}),
        'floatingips': ('floatingip', {'floating_network_id': things['outside']}, {
            'description': 'd', 'port_id': things['port']}),
        'rbac-policies': ('rbac_policy', {
            'object_type': 'security_group', 'object_id': things['group'], 'action': 'access_as_shared',
            'target_tenant': 'p2'}, {'target_tenant': 'p3'}),
        'flavors': ('flavor', {'service_type': 'L3_ROUTER_NAT'}, {'name': 'f', 'description': 'd', 'enabled': False}),
        'service_profiles': ('service_profile', {'metainfo': 'm'}, {
            'description': 'd', 'driver': 'nova-network', 'enabled': False, 'metainfo': 'n'}),
        'qos/policies': ('policy', {'name': 'q'}, {'name': 'r', 'description': 'd', 'shared': True}),
    }


def setting(api):
    """Make what other resources refer to, and return their ids."""
    made = {'network': api.made('networks', 'network', name='n'),
            'outside': api.made('networks', 'network', 'admin', name='o', **{'router:external': True}),
            'policy': api.made('qos/policies', 'policy', 'admin', name='q', shared=True),
            'group': api.made('security-groups', 'security_group', name='web')}
    made['subnet'] = api.made('subnets', 'subnet', network_id=made['network'], cidr='10.50.0.0/24', ip_version=4,
                              allocation_pools=[{'start': '10.50.0.100', 'end': '10.50.0.199'}])
    made['outside_subnet'] = api.made('subnets', 'subnet', 'admin', network_id=made['outside'], cidr='172.24.0.0/24',
                                      ip_version=4)
    made['port'] = api.made('ports', 'port', network_id=made['network'], tags=['b', 'a'])
    made['bare'] = api.made('ports', 'port', network_id=made['network'])
    made['router'] = api.made('routers', 'router', name='r', external_gateway_info={'network_id': made['outside']})
    api.call('PUT', f'routers/{made["router"]}/add_router_interface', {'subnet_id': made['subnet']}, status=200)
    made['floatingip'] = api.made('floatingips', 'floatingip', floating_network_id=made['outside'],
                                  port_id=made['port'])
    return made


def lives(api, things):
    """Create, show, list, update and delete each kind of resource."""
    for plural, (name, body, changes) in kinds(things).items():
        made = []
        for who in ('other', 'reader', 'member', 'admin', None):
            answer = api.call('POST', plural, {name: body}, who)
            made += [answer.json[name]['id']] if answer.status_int == 201 else []
        for ident in made[:-1]:
            api.call('DELETE', f'{plural}/{ident}', who='admin')
        for broken in ({}, {name: 1}, {name: {}}, {name: {**body, 'unknown': 1, 'x' * 90: 2}}, [], {plural: []},
                       {plural: [1]}, {name: {**body, 'tenant_id': 'p9'}}, {name: {**body, 'id': 'x'}},
                       {name: {**body, 'tags': ['a,b']}}, {name: {**body, 'created_at': 'x', 'revision_number': 5}}):
            api.call('POST', plural, broken)
        found = api.call('GET', plural, who='admin').json
        rows = found[plural.rpartition('/')[2].replace('-', '_')]
        assert rows, plural
        one = f'{plural}/{made[-1]}'
        for who in ('other', 'reader', 'member', 'admin', None):
            for query in ('', '?fields=id', f'?fields=id&fields=tags&fields=project_id&fields={[*rows[0]][-1]}'):
                api.call('GET', plural + query, who=who)
                api.call('GET', one + query, who=who)
        api.call('GET', f'{plural}/{MISSING}')
        for attribute, value in changes.items():
            for who in ('other', 'member', 'admin'):
                api.call('PUT', one, {name: {attribute: value}}, who)
            api.call('PUT', one, {name: {attribute: value, 'revision_number': 99}}, 'admin')
        fresh = api.call('GET', one, who='admin').json[name]
        api.call('PUT', one, {name: fresh}, 'admin')
        for revision in ('0', '', 'x', str(fresh.get('revision_number', 1))):
            for method, document in (('PUT', {name: {'description': 'e'}}),):
                api.call(method, one, document, 'admin', headers={'If-Match': f'revision_number={revision}'})
        for path in dict.fromkeys((one, one.removeprefix('qos/'))):
            tags(api, plural, path)
        sorts_and_filters(api, plural, [*rows[0]], fresh)
        for who in ('other', 'reader', 'member', 'admin', 'admin'):
            api.call('DELETE', one, who=who)


def tags(api, plural, one):
    for who in ('other', 'reader', 'member', 'admin'):
        for method, path, body in (
                ('GET', '/tags', None), ('PUT', '/tags', {'tags': ['red', 'blue']}), ('PUT', '/tags/green', None),
                ('GET', '/tags/green', None), ('GET', '/tags/none', None), ('PUT', '/tags', {'tags': ['a,b']}),
                ('PUT', '/tags', {'tags': ''}), ('PUT', '/tags', {}), ('DELETE', '/tags/green', None),
                ('DELETE', '/tags/green', None)):
            api.call(method, one + path, body, who)
        for query in ('tags=red', 'tags=red,none', 'tags-any=red,none', 'not-tags=red', 'not-tags-any=red,none'):
            api.call('GET', f'{plural}?{query}', who=who)
    api.call('DELETE', one + '/tags', who='admin')


def sorts_and_filters(api, plural, names, row):
    """Filter and sort by each field, as each caller."""
    for who in ('member', 'admin'):
        for name in (*names, 'unknown', 'binding:host_id', 'provider:segmentation_id'):
            for value in (row.get(name), 'x'):
                text = json.dumps(value) if isinstance(value, (list, dict)) else str(value)
                api.call('GET', f'{plural}?{name}={text}&fields=id', who=who)
            api.call('GET', f'{plural}?sort_key={name}&sort_dir=desc&fields=id', who=who)
    for query in ('limit=1', 'limit=x', 'limit=0', 'marker=x', 'sort_key=id&sort_dir=up', 'sort_key=id&sort_dir=asc',
                  'sort_key=name&sort_key=id&sort_dir=asc', 'page_reverse=true', 'changed_since=2020-01-01',
                  'changed_since=x', 'id=a&id=b', 'limit=1&sort_key=id&fields=name', 'ip_version=4&limit=2'):
        answer = api.call('GET', f'{plural}?{query}', who='admin')
        for link in answer.json.get(plural.rpartition('/')[2].replace('-', '_') + '_links', ()):
            api.call('GET', '/v2.0' + link['href'].partition('/v2.0')[2], who='admin')


def values_of_fields(api, things, plurals=()):
    """Send values of every type for each attribute of these kinds; empty: all."""
    for plural, (name, body, changes) in kinds(things).items():
        if plurals and plural not in plurals:
            continue
        one = api.call('GET', plural, who='admin').json[plural.rpartition('/')[2].replace('-', '_')]
        attributes = {**body, **changes, **(one[0] if one else {})}
        for attribute in (*attributes, 'prefixlen', 'use_default_subnetpool', 'tags'):
            for value in VALUES:
                answer = api.call('POST', plural, {name: {**body, attribute: value}}, 'admin')
                if answer.status_int == 201:
                    api.call('DELETE', f'{plural}/{answer.json[name]["id"]}', who='admin')
                if one and one[0]['id'] not in things.values():
                    api.call('PUT', f'{plural}/{one[0]["id"]}', {name: {attribute: value}}, 'admin')


def nested(api, things):
    """Resources below others, and actions."""
    outside, network, router = things['outside'], things['network'], f'routers/{things["router"]}'
    floating = 'floatingips/' + api.made('floatingips', 'floatingip', floating_network_id=outside)
    port = api.made('ports', 'port', network_id=network, fixed_ips=[{'ip_address': '10.50.0.77'}])
    policy = f'qos/policies/{things["policy"]}'
    # path, name, body, other bodies, callers
    parts = (
        (f'{floating}/port_forwardings', 'port_forwarding', {
            'protocol': 'tcp', 'external_port': 80, 'internal_port': '81', 'internal_port_id': port},
         ({'external_port': 82}, {'description': 'd'}, {'protocol': 'icmp'}, {'internal_ip_address': '10.50.0.77'},
          {'internal_port_id': MISSING}, {'external_port': 0}, {'id': 'x'}, {'x': 1})),
        (f'{policy}/bandwidth_limit_rules', 'bandwidth_limit_rule', {'max_kbps': 1000}, (
            {'max_kbps': '2000'}, {'max_burst_kbps': 5}, {'direction': 'ingress'}, {'direction': 'x'},
            {'max_kbps': None}, {'tenant_id': 'x'}, {'x': 1})),
        (f'{policy}/dscp_marking_rules', 'dscp_marking_rule', {'dscp_mark': 10}, (
            {'dscp_mark': '12'}, {'dscp_mark': 13}, {'dscp_mark': None}, {'project_id': 'x'}, {'x': 1})),
        (f'{policy}/minimum_bandwidth_rules', 'minimum_bandwidth_rule', {'min_kbps': 1}, (
            {'min_kbps': '2'}, {'direction': 'ingress'}, {'direction': 'any'}, {'min_kbps': None}, {'x': 1})),
        (f'{policy}/minimum_packet_rate_rules', 'minimum_packet_rate_rule', {'min_kpps': 1, 'direction': 'any'}, (
            {'min_kpps': '2'}, {'direction': 'ingress'}, {'direction': 'x'}, {'min_kpps': 0}, {'x': 1})),
        (f'{policy}/{qos.OTHER}_rules', 'packet_rate_limit_rule', {'max_kpps': 1}, ()))
    for path, name, body, changes in parts:
        made = None
        for who in ('other', 'reader', 'member', 'admin', 'admin'):
            answer = api.call('POST', path, {name: body}, who)
            made = answer.json[name]['id'] if answer.status_int == 201 else made
            for each in (path, f'{path}/{made}', f'{path}/{MISSING}'):
                api.call('GET', each, who=who)
        for broken in ({}, {name: 1}, {name: {}}, [1]):
            api.call('POST', path, broken, 'admin')
        for change in changes:
            api.call('POST', path, {name: {**body, **change}}, 'admin')
            for who in ('other', 'member', 'admin'):
                api.call('PUT', f'{path}/{made}', {name: change}, who)
        api.call('GET', path.rpartition('/')[0], who='admin')
        for who in ('other', 'member', 'admin', 'admin'):
            api.call('DELETE', f'{path}/{made}', who=who)
    for who in ('other', 'reader', 'member', 'admin'):
        api.call('GET', f'{router}/l3-agents', who=who)
        for action in ('add_extraroutes', 'remove_extraroutes'):
            for routes in ([], [{'destination': '10.1.0.0/16', 'nexthop': '10.50.0.9'}], [{'destination': 'x'}], None,
                           [{'destination': '10.1.0.0/16', 'nexthop': '10.99.0.9'}]):
                api.call('PUT', f'{router}/{action}', {'router': {'routes': routes}}, who)
            api.call('PUT', f'{router}/{action}', {}, who)
        for action in ('remove_router_interface', 'add_router_interface'):
            for body in ({'subnet_id': things['subnet']}, {'subnet_id': MISSING}, {'port_id': port}, {}, {'x': 1},
                         {'subnet_id': 5}, {'subnet_id': things['subnet'], 'port_id': port}):
                api.call('PUT', f'{router}/{action}', body, who)
    other = {'subnet_id': api.made('subnets', 'subnet', network_id=things['network'], cidr='10.97.0.0/24',
                                   ip_version=4)}
    for action in ('add_router_interface', 'remove_router_interface'):
        api.call('PUT', f'routers/{things["router"]}/{action}', other, status=200)
    parent, carried = (api.made('ports', 'port', network_id=network) for _ in range(2))
    subport = {'port_id': carried, 'segmentation_type': 'vlan', 'segmentation_id': 7}
    trunk = 'trunks/' + api.made('trunks', 'trunk', port_id=parent)
    for action in ('add_subports', 'remove_subports'):
        for body in ({'sub_ports': [subport]}, {'sub_ports': []}, {'sub_ports': [{'port_id': MISSING}]}, {}, {'x': 1},
                     {'sub_ports': [{**subport, 'segmentation_id': 0}]}, {'sub_ports': [{**subport, 'x': 1}]}):
            for who in ('other', 'member', 'admin'):
                api.call('PUT', f'{trunk}/{action}', body, who)
        for who in ('other', 'reader', 'member', 'admin'):
            api.call('GET', f'{trunk}/get_subports', who=who)
    api.call('PUT', f'{trunk}/add_subports', {'sub_ports': [subport]}, status=200)
    for path in (f'ports/{parent}', f'ports/{carried}', trunk, f'{trunk}/get_subports'):
        api.call('GET', path, status=200)
    for path in (f'ports/{parent}', f'ports/{carried}'):
        api.call('DELETE', path, who='admin', status=409)
    api.call('DELETE', trunk, status=204)
    ranges = 'address-groups/' + api.made('address-groups', 'address_group', addresses=['192.0.2.0/24'])
    for action in ('add_addresses', 'remove_addresses'):
        for body in ({'addresses': ['198.51.100.0/24']}, {'addresses': ['x']}, {}, {'x': 1}):
            for who in ('other', 'member', 'admin'):
                api.call('PUT', f'{ranges}/{action}', body, who)
    flavor = 'flavors/' + api.made('flavors', 'flavor', 'admin', service_type='L3_ROUTER_NAT')
    profile = api.made('service_profiles', 'service_profile', 'admin', metainfo='m')
    for body in ({}, *({'service_profile': each} for each in ({}, {'id': MISSING}, {'id': profile}))):
        for who in ('member', 'admin'):
            api.call('POST', f'{flavor}/service_profiles', body, who)
    for who, status in (('member', 403), ('admin', 204), ('admin', 404)):
        api.call('DELETE', f'{flavor}/service_profiles/{profile}', who=who, status=status)
    helpers = f'routers/{things["router"]}/conntrack_helpers'
    helper = api.made(helpers, 'conntrack_helper', helper='ftp', protocol='tcp', port=21)
    for who in ('other', 'reader', 'member', 'admin'):
        for body in ({}, {'helper': 'ftp'}, {'helper': 'ftp', 'protocol': 'udp', 'port': 1}, {'helper': 7},
                     {'helper': 'tftp', 'protocol': 'udp', 'port': 69}, {'helper': 'x', 'protocol': 'tcp', 'port': 0}):
            api.call('POST', helpers, {'conntrack_helper': body}, who)
            api.call('PUT', f'{helpers}/{helper}', {'conntrack_helper': body}, who)
        for ident in (helper, MISSING):
            api.call('GET', f'{helpers}/{ident}', who=who)
        api.call('GET', helpers, who=who)
        api.call('DELETE', f'{helpers}/{MISSING}', who=who)
    api.call('DELETE', f'{helpers}/{helper}', status=204)
    scope = api.made('address-scopes', 'address_scope', ip_version=4)
    pool = 'subnetpools/' + api.made('subnetpools', 'subnetpool', name='p', prefixes=['10.80.0.0/16'])
    for action in ('add_prefixes', 'remove_prefixes'):
        for body in ({'prefixes': ['10.81.0.0/16']}, {'prefixes': []}, {'prefixes': ['x']}, {}, {'x': 1},
                     {'prefixes': ['10.80.0.0/16', '10.81.0.0/16']}):
            for who in ('other', 'member', 'admin'):
                api.call('PUT', f'{pool}/{action}', body, who)
    ident = pool.partition('/')[2]
    for value in (scope, MISSING, 7, None):
        for who in ('other', 'member', 'admin'):
            api.call('PUT', pool, {'subnetpool': {'address_scope_id': value}}, who)
    api.call('PUT', pool, {'subnetpool': {'address_scope_id': scope}}, 'admin')
    api.call('POST', 'subnetpools', {'subnetpool': {
        'name': 'p', 'prefixes': ['10.80.0.0/20'], 'address_scope_id': scope}}, 'admin', 409)
    api.call('DELETE', f'address-scopes/{scope}', who='admin', status=409)
    for values in ({}, {'prefixlen': 25}, {'prefixlen': 3}, {'cidr': '10.80.9.0/24'}, {'use_default_subnetpool': True},
                   {'gateway_ip': '10.80.0.9'}, {'prefixlen': 26, 'cidr': '10.80.8.0/24'}):
        api.call('POST', 'subnets', {'subnet': {'network_id': network, 'subnetpool_id': ident, **values}})
    for values in ({'cidr': 'fd00:5::/64', 'ip_version': 6, 'ipv6_ra_mode': 'slaac', 'ipv6_address_mode': 'slaac'},
                   {'cidr': 'fd00:6::/60', 'ip_version': 6, 'ipv6_ra_mode': 'slaac', 'ipv6_address_mode': 'slaac'},
                   {'cidr': 'fd00:7::/64', 'ip_version': 4}, {'cidr': '10.50.0.0/25'}, {}, {'gateway_ip': None},
                   {'cidr': '10.90.0.0/24', 'gateway_ip': None}, {'cidr': '10.91.0.0/24', 'gateway_ip': '10.1.1.1'}):
        api.call('POST', 'subnets', {'subnet': {'network_id': network, **values}})
    for values in ({'provider:network_type': 'vlan'}, {'provider:network_type': 'vxlan', 'provider:segmentation_id': 9},
                   {'provider:network_type': 'vlan', 'provider:physical_network': 'physnet1'},
                   {'provider:network_type': 'vlan', 'provider:segmentation_id': 5},
                   {'provider:physical_network': 'physnet1', 'router:external': True},
                   {'provider:network_type': 'flat'}, {'provider:segmentation_id': 12}, {'is_default': True},
                   {'router:external': True, 'is_default': True}):
        for who in ('member', 'admin'):
            api.call('POST', 'networks', {'network': {'name': 'k', **values}}, who)
    api.call('POST', 'networks', {'networks': [{'name': 'b1'}, {'name': 'b2', 'tags': ['t']}]}, status=201)
    api.call('POST', 'ports', {'ports': [{'network_id': network}, {'network_id': MISSING}]}, status=404)
    api.call('POST', 'networks', {'networks': [{'name': 'b'}] * 101})


def lists(api, things):
    """Filter and sort lists of many rows, with fields of several tables."""
    network, subnet = things['network'], things['subnet']
    for fields in ('id', 'fixed_ips', 'security_groups', 'tags', 'name&fields=device_id', 'binding:host_id',
                   'qos_network_policy_id', 'status&fields=fixed_ips&fields=security_groups', 'none', ''):
        for who in ('member', 'other', 'admin'):
            for plural in ('ports', 'networks', 'subnets', 'routers', 'security-groups', 'floatingips'):
                api.call('GET', f'{plural}?fields={fields}', who=who)
            api.call('GET', f'ports/{things["port"]}?fields={fields}', who=who)
    for query in (f'fixed_ips=subnet_id={subnet}', 'fixed_ips=ip_address=10.50.0.77', 'fixed_ips=x',
                  f'security_groups={things["group"]}', f'network_id={network}&device_owner=',
                  'binding:host_id=', 'binding:host_id=h1', 'binding:vnic_type=normal', 'device_owner=network:dhcp',
                  'admin_state_up=x', 'admin_state_up=true', 'mac_address=x', 'security_group_id=x',
                  'binding:vif_type=bridge', 'sort_key=binding:host_id'):
        for who in ('member', 'other', 'admin'):
            api.call('GET', 'ports?' + query, who=who)
    for query in ('router:external=true', 'shared=true', 'provider:physical_network=physnet1', 'mtu=1450', 'mtu=x',
                  'provider:segmentation_id=9', 'provider:segmentation_id=x', 'provider:network_type=vxlan',
                  'availability_zone_hints=nova', 'status=ACTIVE', 'status=active', 'is_default=true', 'subnets=x',
                  'vlan_transparent=', 'sort_key=provider:network_type'):
        for who in ('member', 'other', 'admin'):
            api.call('GET', 'networks?' + query, who=who)
    for who in ('member', 'other', 'admin'):
        for path in ('subnets?ip_version=4', 'subnets?ip_version=x', 'routers?status=ACTIVE', 'routers?status=DOWN',
                     'routers?ha=false', 'security-group-rules?protocol=tcp', 'security-group-rules?protocol=6',
                     'security-group-rules?protocol=', 'security-groups?shared=true', 'security-groups?stateful=true',
                     'subnetpools?is_default=true', 'subnetpools?shared=false', 'rbac-policies?object_type=network',
                     'rbac-policies?target_tenant=p2', 'floatingips?status=DOWN', 'floatingips?port_id='):
            api.call('GET', path, who=who)


def documents(api, things):
    """Documents without a resource."""
    for who in ('member', 'reader', 'other', 'admin', None):
        for path in ('/', '/v2.0', '/v2.0/', 'extensions', 'extensions.json', 'extensions/router', 'extensions/none',
                     'availability_zones', 'agents', f'agents/{MISSING}', 'network-ip-availabilities',
                     f'network-ip-availabilities/{things["network"]}', f'network-ip-availabilities/{MISSING}',
                     'network-ip-availabilities?ip_version=6&fields=network_name', 'quotas', 'quotas/p1', 'quotas/p2',
                     'quotas/tenant', 'quotas/project', 'quotas/p1/default', 'quotas/p1/details', 'quotas/p2/details',
                     'service-providers?fields=name', *documents_of_api.EMPTY,
                     *(f'qos/policies/{things["policy"]}/{kind.plural}' for kind in qos.KINDS),
                     f'qos/policies/{things["policy"]}/{qos.OTHER}_rules', 'qos/rule-types',
                     *(f'qos/rule-types/{kind.plural.removesuffix("_rules")}' for kind in qos.KINDS),
                     'qos/rule-types/none', 'none', 'qos', '/v3', 'networks/x/y',
                     'auto-allocated-topology/null?fields=dry-run', 'auto-allocated-topology/p1',
                     'auto-allocated-topology/p2', f'routers/{things["router"]}/conntrack_helpers'):
            api.call('GET', path, who=who)
        for method, path, body in (
                ('PUT', 'quotas/p3', {'quota': {'network': 5, 'tenant_id': 'x', 'check_limit': 'true'}}),
                ('PUT', 'quotas/p3', {'quota': {'network': 'x'}}), ('PUT', 'quotas/p3', {'quota': {'none': 1}}),
                ('PUT', 'quotas/p1', {'quota': {'network': 0, 'check_limit': True}}), ('PUT', 'quotas/p3', {}),
                ('PUT', 'quotas/p3', {'quota': {'force': 'x'}}), ('DELETE', 'quotas/p3', None),
                ('PUT', f'agents/{MISSING}', {'agent': {}}), ('PUT', f'agents/{MISSING}', {'agent': {'alive': True}}),
                ('DELETE', f'agents/{MISSING}', None), ('PUT', f'agents/{MISSING}', {}),
                ('PATCH', 'networks', {}), ('POST', '/', {}), ('DELETE', 'networks', None),
                ('DELETE', 'auto-allocated-topology/p1', None), ('DELETE', 'auto-allocated-topology/p2', None),
                ('PUT', f'subnetpools/{MISSING}/onboard_network_subnets', {})):
            api.call(method, path, body, who)


def agents(api, things):
    """Set a host down and up, and take its router."""
    with api.db.writer() as conn:
        hosts.seen(conn, 'h1', '192.0.2.1', True)
    agent = 'agents/' + api.call('GET', 'agents?agent_type=L3 agent&alive=true', who='admin').json['agents'][0]['id']
    for up in (False, True):
        for body in ({'admin_state_up': up, 'description': 'd'}, {'admin_state_up': 'x'}, {'description': None}):
            for who in ('member', 'admin'):
                api.call('PUT', agent, {'agent': body}, who)
        for router in (things['router'], MISSING, 7):
            for who in ('member', 'admin'):
                api.call('POST', f'{agent}/l3-routers', {'router_id': router}, who)
    for who in ('member', 'admin'):
        api.call('GET', agent, who=who)
        api.call('GET', f'{agent}/l3-routers', who=who)
        for router in (things['router'], MISSING):
            api.call('DELETE', f'{agent}/l3-routers/{router}', who=who)


def topology(api):
    """Prepare automatic allocation, and use it."""
    outside = api.call('GET', 'networks?is_default=true&router:external=true', who='admin').json['networks'][0]['id']
    api.made('subnets', 'subnet', 'admin', network_id=outside, cidr='172.25.0.0/24', ip_version=4)
    api.made('subnetpools', 'subnetpool', 'admin', name='d', prefixes=['10.120.0.0/16'],
             default_prefixlen=26, is_default=True, shared=True)
    for who in ('member', 'other', 'admin'):
        for path in ('null?fields=dry-run', 'null', 'p1', 'p2'):
            api.call('GET', f'auto-allocated-topology/{path}', who=who)
    for who in ('member', 'other', 'admin'):
        api.call('DELETE', 'auto-allocated-topology/p1', who=who)


def walk(api):
    """Send all requests; return what other resources refer to."""
    things = setting(api)
    nested(api, things)
    lists(api, things)
    lives(api, things)
    documents(api, things)
    topology(api)
    return things
