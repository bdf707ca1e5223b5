"""The Networking API and its OpenAPI document: valid, served, and what every operation answers."""
import gzip
import json
import urllib.parse

import hypothesis
from oslo_context import context as oslo_context
import openapi_spec_validator
import pytest
import schemathesis

from nova import context
from nova.db.networks import hosts
from nova.db.networks import routers
from nova.network.rest import app
from nova.network.rest import openapi
from nova.network.rest import rows
from nova.tests import openapi_answers
from nova.tests.contract import network_walk
from nova.web import openapi as web_openapi

RESOURCES = [*app.RESOURCES.values()]
# operations that always refuse, or need what the walk does not have
NEVER = {'PUT /default-security-group-rules/{}'}
# attributes that ignore null, as in Neutron: the first changes only the options that it names, the others are constants
IGNORE_NULL = {'port.extra_dhcp_opts', 'router.distributed', 'router.ha'}
# attributes that are always empty, or that the walk does not set
EMPTY = {'port.binding:profile', 'router.routes', 'router.flavor_id', 'floatingip.qos_policy_id',
         'security_group_rule.remote_group_id', 'security_group_rule.remote_address_group_id'}


def checked(method, path, body, response):
    """Compare an answer with the document, unless it is compressed."""
    if 'Content-Encoding' in response.headers:
        return
    openapi_answers.NETWORK.check(method, path.partition('?')[0], body, response.status_int, response.headers,
                                  response.text)


@pytest.fixture
def api(tmp_path):
    made = network_walk.Api(tmp_path, checked)
    yield made
    made.db.dispose()


def test_an_independent_validator_finds_the_document_valid():
    document = openapi.DESCRIBER.document(app.ROUTES, openapi.VERSION)
    openapi_spec_validator.validate(document, cls=openapi_spec_validator.OpenAPIV31SpecValidator)
    assert {web_openapi.operation_of(row) for row in app.ROUTES} == {
        f'{method.upper()} {web_openapi.nameless(path)}' for path, item in document['paths'].items()
        for method in item.keys() - {'parameters'}}


def test_every_field_is_described_and_its_column_exists():
    assert len(RESOURCES) > 10
    for resource in RESOURCES:
        assert [field.name for field in resource.fields if not field.doc.endswith('.')] == []
        columns = {*resource.table.c.keys()}
        named = {name for field in resource.fields for name in (*field.columns, field.column) if name}
        assert named - columns == set(), resource.name
        for field in resource.fields:             # a list with only this field reads what it needs
            assert resource.columns(frozenset({field.name})) is not None, (resource.name, field.name)
            assert not isinstance(field.get, str) or field.get in columns or field.load or field.lists, (
                resource.name, field.name)


def test_every_answer_with_a_body_is_described():
    without = {web_openapi.operation_of(row): row.status for row in app.ROUTES if row.answer is None}
    assert {name for name, status in without.items() if name.startswith('GET ') and status == 200} == set()


def test_every_operation_has_a_name():
    assert [web_openapi.operation_of(row) for row in app.ROUTES if not row.called] == []


def test_the_document_is_served_to_anybody(api):
    answer = api.call('GET', '/openapi.json', who=None, status=200)
    assert answer.json == json.loads(json.dumps(openapi.DESCRIBER.document(app.ROUTES, openapi.VERSION)))
    packed = api.call('GET', '/openapi.json', who=None, headers={'Accept-Encoding': 'gzip'})
    assert json.loads(gzip.decompress(packed.body)) == answer.json
    again = api.call('GET', '/openapi.json', who=None, headers={'If-None-Match': answer.headers['ETag']})
    assert (again.status_int, again.body) == (304, b'')


@pytest.mark.timeout(900)
def test_every_operation_answers_as_documented(api):
    seen = openapi_answers.NETWORK.seen
    seen.clear()
    things = network_walk.setting(api)
    network_walk.nested(api, things)
    network_walk.documents(api, things)
    network_walk.lives(api, things)
    network_walk.agents(api, things)
    network_walk.topology(api)
    expected = {web_openapi.operation_of(row) for row in app.ROUTES if row.status != 400}
    assert expected - {name for name, status in seen if status < 400} - NEVER == set()
    assert {status for _name, status in seen} >= {200, 201, 204, 400, 401, 403, 404, 409, 412}


def test_a_list_inside_of_a_resource_is_an_unknown_attribute(api):
    for plural, resource in app.RESOURCES.items():
        before = api.call('GET', plural, who='admin').json[resource.plural]
        for value in ([None], [{}], 'ab', [{}] * 101):
            refused = api.call('POST', plural, {resource.name: {resource.plural: value}}, 'admin', 400)
            assert f'Unrecognized attribute(s) {resource.plural!r}' in refused.text
        assert api.call('GET', plural, who='admin').json[resource.plural] == before


def test_an_automatic_topology_leaves_the_context_of_the_thread(api):
    network = api.made('networks', 'network', 'admin', **{'router:external': True, 'is_default': True})
    api.made('subnets', 'subnet', 'admin', network_id=network, cidr='172.24.0.0/24', ip_version=4)
    api.made('subnetpools', 'subnetpool', 'admin', prefixes=['10.70.0.0/16'], is_default=True,
             default_prefixlen=26, shared=True)
    caller = context.RequestContext(user_id='u', project_id='p1')
    api.call('GET', 'auto-allocated-topology/p1', status=200)
    assert oslo_context.get_current() is caller


def test_a_long_project_id_stands_for_no_other_project(api):
    api.call('PUT', f'quotas/{"p" * 255}', {'quota': {'network': 5}}, 'admin', 200)
    for method, path, body in (('PUT', 'quotas', {'quota': {'network': 6}}), ('DELETE', 'quotas', None),
                               ('GET', 'auto-allocated-topology', None), ('DELETE', 'auto-allocated-topology', None)):
        refused = api.call(method, f'{path}/{"p" * 256}', body, 'admin', 400)
        assert 'at most 255 characters' in refused.text
    assert api.call('GET', f'quotas/{"p" * 255}', who='admin', status=200).json['quota']['network'] == 5


def test_unknown_keys_of_actions_are_refused(api):
    things = network_walk.setting(api)
    group = 'address-groups/' + api.made('address-groups', 'address_group')
    flavor = 'flavors/' + api.made('flavors', 'flavor', 'admin', service_type='L3_ROUTER_NAT')
    profile = {'id': api.made('service_profiles', 'service_profile', 'admin', metainfo='m')}
    limit = {'bandwidth_limit_rule': {'max_kbps': 9}}
    for method, path, body in (
            ('PUT', f'{group}/add_addresses', {'addresses': ['192.0.2.0/24']}),
            ('PUT', f'{group}/remove_addresses', {'addresses': ['192.0.2.0/24']}),
            ('PUT', f'networks/{things["network"]}/tags', {'tags': ['a']}),
            ('POST', f'qos/policies/{things["policy"]}/bandwidth_limit_rules', limit),
            ('PUT', f'routers/{things["router"]}/add_extraroutes', {'router': {'routes': []}}),
            ('POST', f'{flavor}/service_profiles', {'service_profile': profile})):
        refused = api.call(method, path, {**body, 'bogus': 1}, 'admin', 400)
        assert "unknown key 'bogus'" in refused.text
        if body == {'service_profile': profile}:
            api.call(method, path, {'service_profile': {**profile, 'bogus': 1}}, 'admin', 400)
        assert api.call(method, path, body, 'admin').status_int in (200, 201)


def test_null_in_an_update_changes_the_value_or_is_refused(api):
    """A value that stays although the answer is 200 misleads: a client expects that null clears it."""
    things, ignored, empty = network_walk.setting(api), set(), set()
    scope = api.made('address-scopes', 'address_scope', 'admin', ip_version=4)
    further = {'floatingips': {'port_id': things['bare']}, 'subnetpools': {'address_scope_id': scope}}
    for plural, (name, body, changes) in network_walk.kinds(things).items():
        one = f'{plural}/{api.made(plural, name, "admin", **body)}'

        def value(attribute):
            return api.call('GET', one, who='admin', status=200).json[name][attribute]

        for attribute, field in app.RESOURCES[plural].attributes.items():
            if 'update' not in field.write or app.RESOURCES[plural].unchangeable:
                continue
            if value(attribute) in (None, '', [], {}):
                for key, each in {**changes, **further.get(plural, {})}.items():
                    prepared = api.call('PUT', one, {name: {key: each}}, 'admin').status_int
                    assert prepared in (200, 400, 403, 404, 409), (name, key)
            before = value(attribute)
            if before in (None, '', [], {}):
                empty.add(f'{name}.{attribute}')
                continue
            status = api.call('PUT', one, {name: {attribute: None}}, 'admin').status_int
            assert status in (200, 400, 403, 409), (name, attribute)
            if status == 200 and value(attribute) == before:
                ignored.add(f'{name}.{attribute}')
    assert (ignored, empty) == (IGNORE_NULL, EMPTY)


def test_a_hidden_field_neither_filters_nor_sorts(api):
    things = network_walk.setting(api)
    api.call('PUT', f'ports/{things["port"]}', {'port': {'binding:host_id': 'secret'}}, 'admin', 200)
    for query in ('binding:host_id=secret', 'binding:host_id=other', 'sort_key=binding:host_id'):
        assert 'you may not read it' in api.call('GET', f'ports?{query}', status=400).text
    assert [row['id'] for row in api.call('GET', 'ports?binding:host_id=secret', who='admin').json['ports']] == [
        things['port']]
    for kind, resource in app.RESOURCES.items():
        for name in resource.read_rules:
            assert api.call('GET', f'{kind}?fields={name}&fields=id', status=200).json[resource.plural][0].keys() == {
                'id'}
            api.call('GET', f'{kind}?{name}=x', status=400)


def test_a_rule_for_owners_filters_their_own_rows_only(tmp_path):
    """The owner of a shared network sees the ports of others without the fields that the rule hides."""
    from nova import policies
    from nova import policy
    path = tmp_path / 'policy.yaml'
    path.write_text('"get_port:binding:host_id": "rule:admin_or_owner"\n')
    made = network_walk.Api(tmp_path, checked)
    made.conf.set_override('policy_file', str(path), policies.NETWORK.group)
    made.application = app.Application(made.conf, made.db, rules=policy.Policy(made.conf, policies.NETWORK))
    things = network_walk.setting(made)
    made.call('PUT', f'networks/{things["network"]}', {'network': {'shared': True}}, 'admin', 200)
    other = made.made('ports', 'port', 'other', network_id=things['network'])
    for port in (things['port'], other):
        made.call('PUT', f'ports/{port}', {'port': {'binding:host_id': 'secret'}}, 'admin', 200)
    seen = {row['id']: row.get('binding:host_id') for row in made.call('GET', 'ports').json['ports']}
    assert (seen[things['port']], seen[other]) == ('secret', None)
    assert [row['id'] for row in made.call('GET', 'ports?binding:host_id=secret').json['ports']] == [things['port']]
    made.db.dispose()


@pytest.mark.timeout(900)
def test_values_of_every_type_get_documented_answers(api):
    things = network_walk.setting(api)
    network_walk.values_of_fields(api, things, ('ports', 'security-group-rules'))
    assert not [request for request, status, _text in api.answers if status >= 500]


@pytest.mark.timeout(900)
def test_requests_generated_from_the_document_get_documented_answers(api):
    """schemathesis generates requests for each operation; Api.call validates the answers."""
    document = openapi.DESCRIBER.document(app.ROUTES, openapi.VERSION, web_openapi.SPLIT)
    document['security'] = []
    sent = []
    for number, found in enumerate(schemathesis.openapi.from_dict(document).get_all_operations()):
        @hypothesis.seed(number)
        @hypothesis.settings(max_examples=2, deadline=None, database=None, phases=[hypothesis.Phase.generate],
                             suppress_health_check=list(hypothesis.HealthCheck))
        @hypothesis.given(found.ok().as_strategy())
        def send(case):
            body = case.body if isinstance(case.body, dict) else None
            query = urllib.parse.urlencode(case.query or {}, doseq=True)
            answer = api.call(case.method, f'/v2.0{case.formatted_path.partition("#")[0]}?{query}', body, 'admin')
            assert answer.status_int < 500, (case.method, case.path, body)
            sent.append(case.operation.label)
        send()
    assert len({*sent}) == len(app.ROUTES)


def test_rows_declare_what_requests_accept():
    assert rows.NAME.write == 'create update'
    accepted = app.RESOURCES['ports'].accepted('create')
    assert accepted['required'] == ['network_id'] and accepted['additionalProperties'] is False
    assert 'network_id' not in app.RESOURCES['ports'].accepted('update')['properties']


def test_every_list_declares_its_filters():
    lists = []
    for row in app.ROUTES:
        answer = row.answer.schema(1).get('properties', {}) if row.method == 'GET' and row.answer else {}
        if any(each.get('type') == 'array' and each.get('maxItems') != 0 for each in answer.values()) and (
                not row.path.endswith('/tags') and row.path != '/'):
            lists.append(row)
    assert len(lists) > 25
    assert [row.path for row in lists if row.query is None] == []


def test_lists_below_resources_are_filtered_sorted_and_paged(api):
    things = network_walk.setting(api)
    path = 'floatingips/{}/port_forwardings'.format(
        api.made('floatingips', 'floatingip', floating_network_id=things['outside']))
    for protocol, number in (('tcp', 80), ('udp', 53), ('tcp', 443)):
        api.made(path, 'port_forwarding', protocol=protocol, external_port=number, internal_port=number,
                 internal_port_id=things['bare'])

    def ports(query):
        return [each['external_port'] for each in api.call('GET', f'{path}?{query}', status=200).json[
            'port_forwardings']]

    def idents(query=''):
        return [each['id'] for each in api.call('GET', f'{path}?{query}', status=200).json['port_forwardings']]
    assert ports('protocol=udp') == [53] and ports('protocol=TCP&external_port=443') == [443]
    assert ports('external_port=80&external_port=53&sort_key=external_port') == [53, 80]
    assert ports('sort_key=protocol&sort_key=external_port&sort_dir=asc&sort_dir=desc') == [443, 80, 53]
    assert ports(f'internal_port_id={things["port"]}') == [] and ports('description=&protocol=udp') == [53]
    assert idents('limit=2') == idents()[:2] and idents(f'limit=1&marker={idents()[0]}') == idents()[1:2]
    assert idents(f'limit=1&page_reverse=true&marker={idents()[2]}') == idents()[1:2]
    assert idents('nonsense=1') == idents()                       # as the document says
    for query in ('sort_key=nonsense', 'sort_key=id&sort_dir=up', 'limit=x', 'marker=x',
                  'sort_key=id&sort_dir=asc&sort_dir=asc'):
        api.call('GET', f'{path}?{query}', status=400)


@pytest.mark.parametrize('path, key, query, number', [
    ('availability_zones', 'availability_zones', 'resource=router', 1),
    ('availability_zones', 'availability_zones', 'agent_type=network&availability_zone=nova', 1),
    ('availability_zones', 'availability_zones', 'state=unavailable', 0),
    ('service-providers', 'service_providers', 'service_type=LOADBALANCERV2', 0),
    ('service-providers', 'service_providers', 'default=true', 1),
    ('service-providers', 'service_providers', 'default=1', 1),
    ('service-providers', 'service_providers', 'default=0', 0),
    ('extensions', 'extensions', 'alias=router', 1),
    ('quotas', 'quotas', 'project_id=p9', 0),
    ('routers/{router}/l3-agents', 'agents', 'host=other', 0),
    ('routers/{router}/conntrack_helpers', 'conntrack_helpers', 'port=22', 0),
    ('agents/{agent}/l3-routers', 'routers', 'name=r&sort_key=external_gateway_info', 1),
    ('agents/{agent}/l3-routers', 'routers', 'name=other', 0),
    ('qos/policies/{policy}/bandwidth_limit_rules', 'bandwidth_limit_rules', 'direction=ingress', 0),
    ('qos/policies/{policy}/bandwidth_limit_rules', 'bandwidth_limit_rules', 'direction=egress&max_kbps=9', 1),
    ('qos/rule-types', 'rule_types', 'type=dscp_marking&all_rules=true', 1),
    ('trunks/{trunk}/get_subports', 'sub_ports', 'segmentation_id=8', 0),
    ('trunks/{trunk}/get_subports', 'sub_ports', 'segmentation_id=7', 1)])
def test_small_lists_are_filtered(api, path, key, query, number):
    things = network_walk.setting(api)
    with api.db.writer() as conn:
        hosts.seen(conn, 'h1', '192.0.2.1', True)
        routers.place(conn, things['router'], 'h1')
    things['agent'] = api.call('GET', 'agents', who='admin').json['agents'][0]['id']
    parent, carried = (api.made('ports', 'port', network_id=things['network']) for _ in range(2))
    things['trunk'] = api.made('trunks', 'trunk', port_id=parent, sub_ports=[
        {'port_id': carried, 'segmentation_type': 'vlan', 'segmentation_id': 7}])
    api.made(f'qos/policies/{things["policy"]}/bandwidth_limit_rules', 'bandwidth_limit_rule', 'admin', max_kbps=9)
    api.made(f'routers/{things["router"]}/conntrack_helpers', 'conntrack_helper', helper='ftp', protocol='tcp', port=21)
    api.call('PUT', 'quotas/p3', {'quota': {'network': 5}}, 'admin', 200)
    path = path.format(**things)
    assert api.call('GET', path, who='admin', status=200).json[key] != []
    assert len(api.call('GET', f'{path}?{query}', who='admin', status=200).json[key]) == number
    api.call('GET', f'{path}?sort_key=nonsense', who='admin', status=400)


@pytest.mark.parametrize('path, list_key, key', [
    ('extensions', 'extensions', 'alias'), ('qos/rule-types', 'rule_types', 'type'),
    ('service-providers', 'service_providers', 'service_type')])
def test_lists_without_ids_are_paged_by_their_key(api, path, list_key, key):
    found, marker = [], ''
    while page := api.call('GET', f'{path}?limit=2{marker}', who='admin', status=200).json[list_key]:
        found += [row[key] for row in page]
        marker = f'&marker={found[-1]}'
    assert found == [row[key] for row in api.call('GET', path, who='admin', status=200).json[list_key]]
    api.call('GET', f'{path}?marker=nonsense', who='admin', status=400)


def test_availabilities_of_networks_are_paged(api):
    for number in range(3):
        api.made('networks', 'network', name=f'n{number}')
    path, key = 'network-ip-availabilities', 'network_ip_availabilities'
    whole = api.call('GET', path, who='admin', status=200).json
    assert len(whole[key]) >= 3 and whole.keys() == {key}
    found, url = [], f'{path}?limit=1'
    while url:
        page = api.call('GET', url, who='admin', status=200).json
        found += page[key]
        url = next(('/v2.0' + link['href'].partition('/v2.0')[2] for link in page.get(key + '_links', ())
                    if link['rel'] == 'next'), None)
    assert found == whole[key]
    names = [each['network_name'] for each in whole[key]]
    ordered = api.call('GET', f'{path}?sort_key=network_name&sort_dir=desc', who='admin', status=200).json[key]
    assert [each['network_name'] for each in ordered] == sorted(names, reverse=True)
    api.call('GET', f'{path}?sort_key=bogus', who='admin', status=400)
