"""Address groups, and the rules of security groups that refer to them."""
import pytest

from nova.network.host import load
from nova.tests.support import network_api as test_network_api
from nova.tests.support.network_subnet_pools import MISSING
from nova.tests.support.network_subnet_pools import ok


@pytest.fixture
def face(tmp_path):
    rig = test_network_api.Face(tmp_path)
    yield rig
    rig.close()


def group(face, user='demo', **values):
    return ok(face(user, 'POST', 'address-groups', {'address_group': {'name': 'g', **values}}))


def rule(face, address_group, **values):
    security_group = ok(face('demo', 'POST', 'security-groups', {'security_group': {'name': 's'}}))['id']
    return face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
        'security_group_id': security_group, 'direction': 'ingress', 'remote_address_group_id': address_group,
        **values}})


def test_address_group_has_its_documented_fields(face):
    made = group(face, description='d', addresses=['192.168.1.1/32'])
    assert made == {'id': made['id'], 'name': 'g', 'description': 'd', 'addresses': ['192.168.1.1/32'], 'shared': False,
                    'project_id': made['project_id'], 'tenant_id': made['project_id']}
    path = f"address-groups/{made['id']}"
    assert ok(face('demo', 'PUT', path, {'address_group': {'name': 'n', 'description': ''}}), 200) == {
        **made, 'name': 'n', 'description': ''}
    added = ok(face('demo', 'PUT', f'{path}/add_addresses', {'addresses': ['10.0.0.0/8', '192.168.1.1/32']}), 200)
    assert added['addresses'] == ['192.168.1.1/32', '10.0.0.0/8']
    left = ok(face('demo', 'PUT', f'{path}/remove_addresses', {'addresses': ['192.168.1.1/32']}), 200)
    assert left['addresses'] == ['10.0.0.0/8']
    assert face('demo', 'PUT', f'{path}/remove_addresses', {'addresses': ['192.168.1.1/32']}).status_code == 404
    assert [row['id'] for row in ok(face('demo', 'GET', 'address-groups?name=n'), 200)] == [made['id']]
    assert face('other', 'GET', path).status_code == 404
    assert face('demo', 'DELETE', path).status_code == 204
    aliases = {each['alias'] for each in ok(face('demo', 'GET', 'extensions'), 200)}
    assert {'address-group', 'rbac-address-group', 'security-groups-remote-address-group'} <= aliases


@pytest.mark.parametrize('addresses', [['x'], ['10.0.0.1-10.0.0.9'], '10.0.0.0/8', ['10.0.0.0/33'],
                                       [f'10.0.{number}.0/24' for number in range(256)] + ['10.1.0.0/24']])
def test_invalid_addresses_are_refused(face, addresses):
    body = {'address_group': {'addresses': addresses}}
    assert face('demo', 'POST', 'address-groups', body).status_code == 400


def test_address_group_does_not_grow_beyond_its_bound(face):
    path = f"address-groups/{group(face, addresses=['10.0.0.0/8'])['id']}/add_addresses"
    more = [f'172.16.{number}.0/24' for number in range(256)]
    assert face('demo', 'PUT', path, {'addresses': more}).status_code == 400


def test_rule_refers_to_a_visible_group_which_stays(face):
    made = group(face, addresses=['10.0.0.0/8'])
    path = f"address-groups/{made['id']}"
    added = ok(rule(face, made['id']))
    assert added['remote_address_group_id'] == made['id'] and added['remote_ip_prefix'] is None
    assert face('demo', 'DELETE', path).status_code == 409
    assert rule(face, MISSING).status_code == 404
    assert rule(face, group(face, 'admin')['id']).status_code == 404
    assert rule(face, made['id'], remote_ip_prefix='10.0.0.0/8').status_code == 400
    assert face('demo', 'DELETE', f"security-group-rules/{added['id']}").status_code == 204
    assert face('demo', 'DELETE', path).status_code == 204


def test_shared_address_group_is_visible_to_its_target(face):
    made = group(face, 'admin', addresses=['10.0.0.0/8'])
    own = group(face)['project_id']
    ok(face('admin', 'POST', 'rbac-policies', {'rbac_policy': {
        'object_type': 'address_group', 'object_id': made['id'], 'action': 'access_as_shared',
        'target_tenant': own}}))
    assert ok(face('demo', 'GET', f"address-groups/{made['id']}"), 200)['shared']
    assert rule(face, made['id']).status_code == 201
    assert face('demo', 'DELETE', f"address-groups/{made['id']}").status_code == 403


@pytest.mark.parametrize('kind, path, name', [
    ('network', 'networks', 'network'), ('security_group', 'security-groups', 'security_group'),
    ('qos_policy', 'qos/policies', 'policy')])
def test_filter_shared_selects_what_is_shown_as_shared(face, kind, path, name):
    """Shares with the caller's project count, and shares with others do not."""
    made = {whom: ok(face('admin', 'POST', path, {name: {'name': whom}}))['id'] for whom in ('p1', 'p2', 'none')}
    for whom in ('p1', 'p2'):
        ok(face('admin', 'POST', 'rbac-policies', {'rbac_policy': {
            'object_type': kind, 'object_id': made[whom], 'action': 'access_as_shared', 'target_tenant': whom}}))
    plural = path.rpartition('/')[2].replace('-', '_')
    for user, shared in (('demo', {made['p1']}), ('admin', set())):
        for wanted in (True, False):
            found = face(user, 'GET', f'{path}?shared={wanted}').json()[plural]
            assert {each['shared'] for each in found} <= {wanted}
            if wanted:
                assert {each['id'] for each in found} & set(made.values()) == shared


def test_hosts_get_a_rule_for_each_range_of_the_ip_version(face):
    made = group(face, addresses=['10.0.0.0/8', 'fd00::/64', '192.168.1.1/32'])
    added = ok(rule(face, made['id'], ethertype='IPv4', protocol='tcp'))
    with face.db.reader() as conn:
        found = load._rules(conn, {added['security_group_id']})[added['security_group_id']]
    assert [each['remote_ip_prefix'] for each in found if each['id'] == added['id']] == [
        '10.0.0.0/8', '192.168.1.1/32']
