"""What changes about a server group: its name, its policies while it has no members, its metadata; and who may."""
import pytest
import sqlalchemy as sa

from nova.db.servers import request_specs
from nova.db.tables import api as tables_api
from nova.tests import races
from nova.tests.functional import servers
from nova.tests.support import server_groups as test_server_groups
from nova.tests.support.server_groups import boot
from nova.tests.support.server_groups import make

VERSIONS = ('2.1', '2.14', '2.15', '2.63', '2.64', '2.104')


@pytest.fixture
def cloud(tmp_path):
    fixture = servers.Servers(tmp_path)
    yield fixture
    fixture.close()


def put(client, group, version='2.64', **fields):
    return client.put('/os-server-groups/' + group, {'server_group': fields}, version=version)


def shown(client, group, version='2.64'):
    return client.get('/os-server-groups/' + group, version=version).json['server_group']


def named(policy, version):
    """The policy as a version names it in a body."""
    return {'policy': policy} if int(version[2:]) >= 64 else {'policies': [policy]}


# ---- name, policy, rules -------------------------------------------------------

def test_another_name_whoever_is_in_it(cloud):
    client = cloud.client(version='2.64')
    group = make(client)['id']
    assert boot(cloud, group).status == 202
    answer = put(client, group, name='other')
    assert answer.status == 200 and answer.json['server_group'] == shown(client, group)
    assert shown(client, group)['name'] == 'other' and len(shown(client, group)['members']) == 1


@pytest.mark.parametrize('version', VERSIONS)
def test_another_policy_while_it_is_empty(cloud, version):
    client = cloud.client()
    group = make(client, rules={'max_server_per_host': 3})['id']
    answer = put(client, group, version, **named('affinity', version))
    assert answer.status == 200, answer.body
    assert answer.json['server_group'] == shown(client, group, version)
    now = shown(client, group)
    assert (now['policy'], now['rules']) == ('affinity', {})          # its rules were of the other policy


def test_policies_and_rules_stay_while_it_has_members(cloud):
    client = cloud.client(version='2.64')
    group = make(client, rules={'max_server_per_host': 3})['id']
    assert boot(cloud, group).status == 202
    for fields in ({'policy': 'affinity'}, {'rules': {'max_server_per_host': 2}}, {'rules': {}},
                   {'name': 'other', 'policy': 'network-proximity'}):
        answer = put(client, group, **fields)
        assert answer.status == 409 and 'has members' in answer.fault[2], fields
    # what it has already is no change
    assert put(client, group, name='new', policy='anti-affinity', rules={'max_server_per_host': 3}).status == 200
    assert (shown(client, group)['name'], shown(client, group)['rules']) == ('new', {'max_server_per_host': 3})


@pytest.mark.parametrize(('version', 'fields'), [
    ('2.64', {}), ('2.64', {'name': ''}), ('2.64', {'policy': 'other'}), ('2.64', {'policies': ['affinity']}),
    ('2.63', {'policy': 'affinity'}), ('2.63', {'policies': []}), ('2.63', {'policies': ['affinity', 'affinity']}),
    ('2.14', {'policies': ['soft-affinity']}), ('2.64', {'rules': {'max_server_per_host': 0}}),
    ('2.64', {'policy': 'affinity', 'rules': {'max_server_per_host': 2}}), ('2.64', {'members': []}),
    ('2.63', {'rules': {}}), ('2.64', {'project_id': 'c' * 32})])
def test_invalid_group_update_is_refused(cloud, version, fields):
    client = cloud.client()
    group = make(client)
    assert put(client, group['id'], version, **fields).status == 400
    assert shown(client, group['id']) == group


def test_rules_come_with_the_policy_that_has_them(cloud):
    client = cloud.client(version='2.64')
    group = make(client, policy='affinity')['id']
    assert put(client, group, rules={'max_server_per_host': 2}).status == 400
    assert put(client, group, policy='anti-affinity', rules={'max_server_per_host': '2'}).status == 200
    assert shown(client, group)['rules'] == {'max_server_per_host': 2}
    assert put(client, group, policy='anti-affinity').json['server_group']['rules'] == {'max_server_per_host': 2}


def test_groups_are_changed_by_members_of_their_project_and_administrators(cloud):
    made = make(cloud.client())['id']
    stranger = cloud.client(project='c' * 32, user='s' * 32)
    reader, admin = cloud.client(roles=('reader',)), cloud.admin(project='d' * 32)
    path = f'/os-server-groups/{made}/metadata'
    for method, where, body in (
            ('PUT', f'/os-server-groups/{made}', {'server_group': {'name': 'n'}}), ('POST', path, {'metadata': {}}),
            ('PUT', path, {'metadata': {'a': 'b'}}), ('PUT', path + '/a', {'meta': {'a': 'c'}}),
            ('GET', path, None), ('GET', path + '/a', None), ('DELETE', path + '/a', None)):
        assert stranger.request(method, where, body).status == 404, (method, where)
        assert admin.request(method, where, body).status in (200, 204), (method, where)
        if method != 'GET':
            assert reader.request(method, where, body).status == 403, (method, where)
    assert reader.get(path).status == 200
    for bad in ('x', test_server_groups.MISSING):
        assert put(cloud.client(), bad, name='n').status == 404
        assert cloud.client().get(f'/os-server-groups/{bad}/metadata').status == 404


# ---- metadata -------------------------------------------------------------------

@pytest.mark.parametrize('version', ['2.1', '2.63', '2.64', '2.104'])
def test_group_metadata_is_changed_since_its_version(cloud, version):
    client = cloud.client(version=version)
    path = f'/os-server-groups/{make(cloud.client())["id"]}/metadata'
    assert client.get(path).json == {'metadata': {}}
    assert client.post(path, {'metadata': {'a': '1', 'b': '2'}}).json == {'metadata': {'a': '1', 'b': '2'}}
    assert client.post(path, {'metadata': {'b': '3'}}).json == {'metadata': {'a': '1', 'b': '3'}}
    assert client.get(path + '/b').json == {'meta': {'b': '3'}}
    assert client.put(path + '/c', {'meta': {'c': '4'}}).json == {'meta': {'c': '4'}}
    assert client.get(path).json == {'metadata': {'a': '1', 'b': '3', 'c': '4'}}
    answer = client.delete(path + '/a')
    assert (answer.status, answer.body) == (204, b'')
    assert client.delete(path + '/a').status == client.get(path + '/a').status == 404
    assert client.put(path, {'metadata': {'d': '5'}}).json == client.get(path).json == {'metadata': {'d': '5'}}
    for where, body in ((path + '/a', {'meta': {'b': '1'}}), (path + '/a', {'meta': {'a': '1', 'b': '1'}}),
                        (path, {'metadata': {'a': 1}}), (path, {'metadata': {'ä': ''}}), (path, {'meta': {}}),
                        (path, {'metadata': {'a': 'x' * 256}}), (path, {'metadata': {'k' * 256: ''}})):
        assert client.put(where, body).status == 400, body


def test_group_metadata_is_hidden_from_older_microversions(cloud):
    client = cloud.client()
    before = {version: shown(client, make(client)['id'], version) for version in VERSIONS}
    for version, group in before.items():
        assert client.put(f'/os-server-groups/{group["id"]}/metadata', {'metadata': {'k': 'v'}}).status == 200
        assert shown(client, group['id'], version) == group


def test_metadata_of_a_group_has_a_quota(tmp_path):
    cloud = servers.Servers(tmp_path, quota__metadata_items=2)
    client = cloud.client()
    path = f'/os-server-groups/{make(client)["id"]}/metadata'
    assert client.put(path, {'metadata': {'a': '', 'b': '', 'c': ''}}).status == 403
    answers = races.at_once(*(lambda n=n: client.put(f'{path}/k{n}', {'meta': {f'k{n}': ''}}) for n in range(6)))
    assert sorted(answer.status for answer in answers) == [200] * 2 + [403] * 4
    assert len(client.get(path).json['metadata']) == 2
    cloud.close()


def test_capabilities_of_a_group_with_members_cannot_be_changed(cloud):
    client = cloud.client(version='2.64')
    group = make(client, policy='host-capabilities')['id']
    path = f'/os-server-groups/{group}/metadata'
    assert client.put(path, {'metadata': {'capabilities:hypervisor_type': 'fake', 'note': 'a'}}).status == 200
    assert boot(cloud, group).status == 202
    assert client.put(path + '/note', {'meta': {'note': 'b'}}).status == 200
    for answer in (client.put(path, {'metadata': {'note': 'b'}}), client.delete(path + '/capabilities:hypervisor_type'),
                   client.post(path, {'metadata': {'capabilities:x': '1'}})):
        assert answer.status == 409 and 'capabilities:' in answer.fault[2]
    other = make(client, policy='affinity')['id']       # for other policies it is a note like any other
    assert boot(cloud, other).status == 202
    assert client.put(f'/os-server-groups/{other}/metadata', {'metadata': {'capabilities:x': '1'}}).status == 200


# ---- the hint -------------------------------------------------------------------

def test_the_hint_may_name_the_group(cloud):
    client = cloud.client(version='2.100')
    group = make(client, 'web servers')['id']
    for hint in ('web servers', ['web servers'], group):
        uuid = boot(cloud, hint).json['server']['id']
        shown_server = client.get(f'/servers/{uuid}').json['server']
        assert shown_server['server_groups'] == [group] and shown_server['scheduler_hints'] == {'group': [group]}
        with cloud.api_db.reader() as conn:                      # moves find it when it has another name, too
            assert request_specs.get(conn, uuid).hints == {'group': [group]}
    assert len(shown(client, group)['members']) == 3


def test_a_name_that_says_too_little_or_nothing(cloud):
    client, stranger = cloud.client(), cloud.client(project='c' * 32)
    make(client, 'twice'), make(client, 'twice')
    make(stranger, 'theirs')
    for name, sentence in (
            ('twice', '2 server groups have the name twice: use the ID of one.'),
            ('theirs', 'Server group theirs could not be found.'),
            ('TWICE', 'Server group TWICE could not be found.')):
        answer = boot(cloud, name)
        assert answer.status == 400 and answer.fault[2] == sentence
    for bad in ('', ['a', 'b'], 7, {'a': 'b'}, 'x' * 256, [7]):
        assert boot(cloud, bad).status == 400, bad
    with cloud.api_db.reader() as conn:
        assert not conn.execute(sa.select(tables_api.instance_mappings.c.instance_uuid).where(
            tables_api.instance_mappings.c.project_id == client.project,
            tables_api.instance_mappings.c.server_group_id.is_not(None))).all()


# ---- at once --------------------------------------------------------------------

def test_policy_change_races_with_the_first_member_without_mixing(cloud):
    """Either the group had no members and has the new policy, or its member found the policy that it has."""
    client = cloud.client(version='2.64')
    outcomes = set()
    for _ in range(8):
        group = make(client)['id']
        changed, joined = races.at_once(lambda group=group: put(cloud.client(), group, policy='affinity'),
                                        lambda group=group: boot(cloud, group))
        assert joined.status == 202 and changed.status in (200, 409)
        assert shown(client, group)['policy'] == ('affinity' if changed.status == 200 else 'anti-affinity')
        outcomes.add(changed.status)
        assert put(client, group, policy='soft-affinity').status == 409
    assert outcomes


def test_changes_of_metadata_are_not_lost(cloud):
    client = cloud.client()
    path = f'/os-server-groups/{make(client)["id"]}/metadata'
    races.at_once(*(lambda n=n: client.put(f'{path}/k{n}', {'meta': {f'k{n}': str(n)}}) for n in range(8)))
    assert client.get(path).json['metadata'] == {f'k{n}': str(n) for n in range(8)}
