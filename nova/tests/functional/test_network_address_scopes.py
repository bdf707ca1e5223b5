"""Address scopes: their rules for subnet pools and networks, with the API and the unmodified client."""
import pytest

from nova.tests.support import network_api as test_network_api
from nova.tests.support.network_subnet_pools import MISSING
from nova.tests.support.network_subnet_pools import network
from nova.tests.support.network_subnet_pools import ok
from nova.tests.support.network_subnet_pools import pool
from nova.tests.support.network_subnet_pools import subnet


@pytest.fixture
def face(tmp_path):
    rig = test_network_api.Face(tmp_path)
    yield rig
    rig.close()


def scope(face, user='demo', **values):
    return ok(face(user, 'POST', 'address-scopes', {'address_scope': {'name': 's', 'ip_version': 4, **values}}))


def refused(answer, code, kind):
    assert (answer.status_code, answer.json()['NeutronError']['type']) == (code, kind), answer.text


def test_scope_has_its_documented_fields(face):
    made = scope(face)
    assert made == {'id': made['id'], 'name': 's', 'ip_version': 4, 'shared': False,
                    'project_id': made['project_id'], 'tenant_id': made['project_id']}
    path = f"address-scopes/{made['id']}"
    assert ok(face('demo', 'PUT', path, {'address_scope': {'name': 'n'}}), 200)['name'] == 'n'
    assert ok(face('demo', 'GET', 'address-scopes?name=n&ip_version=4'), 200) == [{**made, 'name': 'n'}]
    assert ok(face('demo', 'GET', 'address-scopes?ip_version=6'), 200) == []
    assert face('demo', 'DELETE', path).status_code == 204
    refused(face('demo', 'GET', path), 404, 'AddressScopeNotFound')
    aliases = {each['alias'] for each in ok(face('demo', 'GET', 'extensions'), 200)}
    assert {'address-scope', 'rbac-address-scope'} <= aliases


@pytest.mark.parametrize('body', [{}, {'ip_version': 5}, {'ip_version': 'x'}, {'ip_version': 4, 'name': 7},
                                  {'ip_version': 4, 'more': 1}])
def test_invalid_scope_returns_400(face, body):
    assert face('demo', 'POST', 'address-scopes', {'address_scope': body}).status_code == 400


def test_only_administrators_share_scopes_and_no_one_ends_it(face):
    answer = face('demo', 'POST', 'address-scopes', {'address_scope': {'ip_version': 4, 'shared': True}})
    assert answer.status_code == 403
    shared, own = scope(face, 'admin', shared=True), scope(face, 'admin')
    assert ok(face('demo', 'GET', f"address-scopes/{shared['id']}"), 200)['shared']
    refused(face('demo', 'GET', f"address-scopes/{own['id']}"), 404, 'AddressScopeNotFound')
    assert face('demo', 'DELETE', f"address-scopes/{shared['id']}").status_code == 403
    refused(face('admin', 'PUT', f"address-scopes/{shared['id']}", {'address_scope': {'shared': False}}), 400,
            'AddressScopeUpdateError')


def test_prefixes_of_pools_in_a_scope_are_unique(face):
    made = scope(face)['id']
    first, other = pool(face, address_scope_id=made), pool(face)
    assert (first['address_scope_id'], other['address_scope_id']) == (made, None)
    body = {'subnetpool': {'name': 'p', 'prefixes': ['10.80.128.0/20'], 'address_scope_id': made}}
    refused(face('demo', 'POST', 'subnetpools', body), 409, 'AddressScopePrefixConflict')
    refused(face('demo', 'PUT', f"subnetpools/{other['id']}", {'subnetpool': {'address_scope_id': made}}), 409,
            'AddressScopePrefixConflict')
    third = pool(face, prefixes=['10.81.0.0/16'], address_scope_id=made)
    refused(face('demo', 'PUT', f"subnetpools/{third['id']}/add_prefixes", {'prefixes': ['10.80.0.0/24']}), 409,
            'AddressScopePrefixConflict')
    refused(face('demo', 'PUT', f"subnetpools/{third['id']}", {'subnetpool': {'prefixes': ['10.80.0.0/15']}}), 409,
            'AddressScopePrefixConflict')
    refused(face('demo', 'DELETE', f'address-scopes/{made}'), 409, 'AddressScopeInUse')
    assert ok(face('demo', 'PUT', f"subnetpools/{first['id']}", {'subnetpool': {'address_scope_id': None}}), 200)[
        'address_scope_id'] is None
    assert ok(face('demo', 'PUT', f"subnetpools/{third['id']}", {'subnetpool': {'prefixes': ['10.80.0.0/15']}}), 200)
    assert face('demo', 'DELETE', f"subnetpools/{third['id']}").status_code == 204
    assert face('demo', 'DELETE', f'address-scopes/{made}').status_code == 204


def test_pool_joins_only_a_visible_scope_of_its_version(face):
    six, foreign, shared = scope(face, ip_version=6)['id'], scope(face, 'admin')['id'], scope(
        face, 'admin', shared=True)['id']
    body = {'name': 'p', 'prefixes': ['10.80.0.0/16']}
    for ident, code, kind in ((six, 400, 'IllegalSubnetPoolAssociationToAddressScope'),
                              (foreign, 404, 'AddressScopeNotFound'), (MISSING, 404, 'AddressScopeNotFound')):
        refused(face('demo', 'POST', 'subnetpools', {'subnetpool': {**body, 'address_scope_id': ident}}), code, kind)
    refused(face('admin', 'POST', 'subnetpools', {'subnetpool': {
        **body, 'shared': True, 'address_scope_id': foreign}}), 400, 'IllegalSubnetPoolAssociationToAddressScope')
    assert pool(face, address_scope_id=shared)['address_scope_id'] == shared


def test_network_shows_the_scope_of_its_subnets(face):
    made = scope(face)['id']
    inside, outside = pool(face, address_scope_id=made)['id'], pool(face, prefixes=['10.90.0.0/16'])['id']
    net = network(face)
    assert ok(subnet(face, net, ip_version=4, subnetpool_id=inside, prefixlen=24))
    shown = ok(face('demo', 'GET', f'networks/{net}'), 200)
    assert (shown['ipv4_address_scope'], shown['ipv6_address_scope']) == (made, None)
    assert [each['id'] for each in ok(face('demo', 'GET', f'networks?ipv4_address_scope={made}'), 200)] == [net]
    assert ok(face('demo', 'GET', f'networks?ipv6_address_scope={made}'), 200) == []
    for values in ({'subnetpool_id': outside, 'prefixlen': 24}, {'cidr': '10.91.0.0/24'}):
        refused(subnet(face, net, ip_version=4, **values), 400, 'NetworkAddressScopeAffinityError')
    assert ok(subnet(face, net, ip_version=6, cidr='fd00:7::/64'))
    second = pool(face, prefixes=['10.81.0.0/16'], address_scope_id=made)['id']
    assert ok(subnet(face, net, ip_version=4, subnetpool_id=second, prefixlen=24))
    refused(face('demo', 'PUT', f'subnetpools/{second}', {'subnetpool': {'address_scope_id': None}}), 400,
            'IllegalSubnetPoolUpdate')


def test_openstackclient_manages_address_scopes(face):
    made = face.cli('address', 'scope', 'create', '--ip-version', '4', 's')
    face.cli('address', 'scope', 'set', '--name', 'blue', 's')
    assert [row['Name'] for row in face.cli('address', 'scope', 'list')] == ['blue']
    shown = face.cli('subnet', 'pool', 'create', '--pool-prefix', '10.9.0.0/16', '--address-scope', 'blue', 'p')
    assert shown['address_scope_id'] == made['id']
    rule = face.cli('network', 'rbac', 'create', '--type', 'address_scope', '--action', 'access_as_shared',
                    '--target-all-projects', 'blue')
    assert ok(face('demo', 'GET', f"address-scopes/{made['id']}"), 200)['shared']
    joined = pool(face, prefixes=['10.10.0.0/16'], address_scope_id=made['id'])
    code, text = face.cli('network', 'rbac', 'delete', rule['id'], check=False)
    assert code == 1 and 'depend on it' in text
    assert face('demo', 'DELETE', f"subnetpools/{joined['id']}").status_code == 204
    face.cli('network', 'rbac', 'delete', rule['id'])
    refused(face('demo', 'GET', f"address-scopes/{made['id']}"), 404, 'AddressScopeNotFound')
    face.cli('subnet', 'pool', 'set', '--no-address-scope', 'p')
    face.cli('address', 'scope', 'delete', 'blue')
