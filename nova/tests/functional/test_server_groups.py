"""Server groups: the API, who is a member, and where members are placed."""
import collections

import pytest
import sqlalchemy as sa

from nova import states
from nova.db.placement import server_groups
from nova.db.servers import instances
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.tests import races
from nova.tests.functional import base
from nova.tests.functional import cloud as whole
from nova.tests.functional import servers
from nova.tests.support import server_groups as shared_server_groups
from nova.tests.support import waiting
from nova.tests.support.server_groups import MISSING
from nova.tests.support.server_groups import UNLIMITED
from nova.tests.support.server_groups import boot
from nova.tests.support.server_groups import build
from nova.tests.support.server_groups import hosts_of
from nova.tests.support.server_groups import insert
from nova.tests.support.server_groups import make
from nova.tests.support.server_groups import members

cloud = shared_server_groups.cloud
hosts = shared_server_groups.hosts


def test_group_can_be_created_read_and_deleted(cloud):
    client = cloud.client(version='2.64')
    made = make(client, rules={'max_server_per_host': '2'})
    assert made == {'id': made['id'], 'name': 'g', 'policy': 'anti-affinity', 'rules': {'max_server_per_host': 2},
                    'members': [], 'project_id': base.PROJECT, 'user_id': base.USER}
    assert client.get('/os-server-groups/' + made['id']).json['server_group'] == made
    old = client.get('/os-server-groups/' + made['id'], version='2.12').json['server_group']
    assert old == {'id': made['id'], 'name': 'g', 'policies': ['anti-affinity'], 'metadata': {}, 'members': []}
    again = make(client)                       # a name may be given twice
    assert [group['id'] for group in client.get('/os-server-groups').json['server_groups']] == [
        made['id'], again['id']]
    answer = client.delete('/os-server-groups/' + made['id'])
    assert (answer.status, answer.body) == (204, b'')
    assert client.delete('/os-server-groups/' + made['id']).status == 404


@pytest.mark.parametrize(('version', 'group', 'status'), [
    ('2.1', {'name': 'g', 'policies': ['affinity']}, 200), ('2.14', {'name': 'g', 'policies': ['soft-affinity']}, 400),
    ('2.15', {'name': 'g', 'policies': ['soft-affinity']}, 200), ('2.15', {'name': 'g', 'policies': []}, 400),
    ('2.15', {'name': 'g', 'policies': ['affinity', 'anti-affinity']}, 400),
    ('2.63', {'name': 'g', 'policy': 'affinity'}, 400), ('2.64', {'name': 'g', 'policies': ['affinity']}, 400),
    ('2.64', {'name': 'g', 'policy': 'other'}, 400), ('2.64', {'name': '', 'policy': 'affinity'}, 400),
    ('2.64', {'name': ' g', 'policy': 'affinity'}, 400), ('2.64', {'name': 'g' * 256, 'policy': 'affinity'}, 400),
    ('2.64', {'name': 'g', 'policy': 'affinity', 'rules': {}}, 200),
    ('2.64', {'name': 'g', 'policy': 'affinity', 'rules': {'max_server_per_host': 2}}, 400),
    ('2.64', {'name': 'g', 'policy': 'anti-affinity', 'rules': {'max_server_per_host': 0}}, 400),
    ('2.64', {'name': 'g', 'policy': 'anti-affinity', 'rules': {'other': 1}}, 400),
    ('2.64', {'policy': 'affinity'}, 400), ('2.64', {'name': 'g'}, 400)])
def test_server_group_policies_match_the_microversion(cloud, version, group, status):
    answer = cloud.client().post('/os-server-groups', {'server_group': group}, version=version)
    assert answer.status == status, answer.body


def test_groups_are_visible_and_writable_in_their_project_only(cloud):
    made = make(cloud.client())
    stranger, admin = cloud.client(project='c' * 32, user='s' * 32), cloud.admin(project='d' * 32)
    path = '/os-server-groups/' + made['id']
    assert stranger.get(path).status == stranger.delete(path).status == 404
    assert admin.get(path).status == 200
    for client, query, seen in ((stranger, '', 0), (stranger, '?all_projects=1', 0), (admin, '', 0),
                                (admin, '?all_projects', 1), (cloud.client(), '?all_projects=1', 1)):
        assert len(client.get('/os-server-groups' + query).json['server_groups']) == seen, (client, query)
    assert cloud.client(roles=('reader',)).delete(path).status == 403
    assert cloud.client().get('/os-server-groups/x').status == 404
    assert admin.delete(path).status == 204


def test_server_groups_are_paged(cloud):
    client = cloud.client(version='2.75')
    ids = [make(client, f'g{number}')['id'] for number in range(5)]

    def page(query):
        return [group['id'] for group in client.get('/os-server-groups' + query).json['server_groups']]
    assert page('?limit=2') == ids[:2] and page('?limit=2&offset=3') == ids[3:] and page('?offset=4') == ids[4:]
    assert page('?offset=9') == []
    for query in ('?limit=-1', '?limit=x', '?offset=-1', '?offset=x', '?other=1'):
        assert client.get('/os-server-groups' + query).status == 400, query


def test_members_come_and_go(cloud):
    client = cloud.client(version='2.71')
    group = make(client)['id']
    uuid = boot(cloud, group).json['server']['id']
    assert client.get(f'/os-server-groups/{group}').json['server_group']['members'] == [uuid]
    assert client.get(f'/servers/{uuid}').json['server']['server_groups'] == [group]
    outside = client.post('/servers', cloud.body(networks='auto')).json['server']['id']
    assert client.get(f'/servers/{outside}').json['server']['server_groups'] == []
    with cloud.api_db.writer() as conn:                 # what the conductor does when the server is gone
        conn.execute(sa.delete(tables_api.instance_mappings).where(
            tables_api.instance_mappings.c.instance_uuid == uuid))
    assert client.get(f'/os-server-groups/{group}').json['server_group']['members'] == []


def test_a_group_leaves_its_members(cloud):
    client = cloud.client(version='2.71')
    group = make(client)['id']
    uuid = boot(cloud, group).json['server']['id']
    assert client.delete(f'/os-server-groups/{group}').status == 204
    assert client.get(f'/servers/{uuid}').json['server']['server_groups'] == []
    assert boot(cloud, group).status == 400


@pytest.mark.parametrize('group', [MISSING, 'x', [MISSING, 'x'], [MISSING, '11111111-2222-4333-8444-666666666666']])
def test_a_hint_that_names_no_group(cloud, group):
    answer = boot(cloud, group)
    assert answer.status == 400, answer.body
    with cloud.api_db.reader() as conn:
        assert conn.execute(sa.select(tables_api.instance_mappings)).all() == []


def test_another_projects_group_is_not_there(cloud):
    group = make(cloud.client(project='c' * 32))['id']
    for client in (cloud.client(), cloud.admin()):
        answer = boot(cloud, group, client)
        assert answer.status == 400 and answer.fault[2] == f'Server group {group} could not be found.'


def test_quotas_limit_groups_and_members(tmp_path):
    cloud = servers.Servers(tmp_path, quota__server_groups=2, quota__server_group_members=3, quota__instances=20)
    client = cloud.client(version='2.64')
    group = make(client)['id']
    make(client)
    answer = client.post('/os-server-groups', {'server_group': {'name': 'g', 'policy': 'affinity'}})
    assert answer.status == 403 and 'server groups' in answer.fault[2]
    used = client.get('/limits').json['limits']['absolute']
    assert (used['totalServerGroupsUsed'], used['maxServerGroups'], used['maxServerGroupMembers']) == (2, 2, 3)
    detail = client.get(f'/os-quota-sets/{base.PROJECT}/detail').json['quota_set']
    assert detail['server_groups'] == {'limit': 2, 'in_use': 2, 'reserved': 0}
    assert boot(cloud, group, min_count=1, max_count=2).status == 202
    assert boot(cloud, group, min_count=2).status == 403
    assert boot(cloud, group, min_count=1, max_count=5).status == 202           # one of them fits
    assert boot(cloud, group).status == 403
    assert len(client.get(f'/os-server-groups/{group}').json['server_group']['members']) == 3
    cloud.close()


def test_quotas_hold_when_all_come_at_once(tmp_path):
    cloud = servers.Servers(tmp_path, quota__server_groups=3, quota__server_group_members=4, quota__instances=40)
    answers = races.at_once(*[lambda: cloud.client().post('/os-server-groups', {
        'server_group': {'name': 'g', 'policies': ['affinity']}})] * 10)
    assert sorted(answer.status for answer in answers) == [200] * 3 + [403] * 7
    group = next(answer.json['server_group']['id'] for answer in answers if answer.status == 200)
    answers = races.at_once(*[lambda: boot(cloud, group)] * 12)
    assert sorted(answer.status for answer in answers) == [202] * 4 + [403] * 8
    assert len(cloud.client().get(f'/os-server-groups/{group}').json['server_group']['members']) == 4
    cloud.close()


def test_joining_races_the_groups_end(cloud):
    """Either it is a member and left alone, or there is no group: nobody names one that is gone."""
    client = cloud.client(version='2.71')
    for _ in range(5):
        group = make(client)['id']
        answers = races.at_once(lambda group=group: client.delete(f'/os-server-groups/{group}'),
                                lambda group=group: boot(cloud, group))
        assert answers[0].status == 204 and answers[1].status in (202, 400)
    with cloud.api_db.reader() as conn:
        assert conn.execute(sa.select(tables_api.instance_mappings.c.instance_uuid).where(
            tables_api.instance_mappings.c.server_group_id.is_not(None))).all() == []


# ---- placing -----------------------------------------------------------------

def group_of(cloud, policy, **rules):
    with cloud.api_db.writer() as conn:
        return server_groups.create(conn, UNLIMITED, {
            'project_id': 'p', 'user_id': 'u', 'name': 'g', 'policies': [policy], 'rules': rules})['uuid']


def server_ids(cloud):
    with cloud.db.reader() as conn:
        return conn.execute(sa.select(tables_cell.instances.c.uuid)).scalars().all()


def test_anti_affinity_places_members_on_different_hosts(hosts):
    group = group_of(hosts, 'anti-affinity')
    assert len(set(build(hosts, group) + build(hosts, group, 2))) == 3
    fourth = build(hosts, group)
    assert fourth != [None]
    uuid, = insert(hosts, group)
    hosts.client['conductor'].build_instances(hosts.ctx, instance_uuids=[uuid])
    hosts.settle()
    assert hosts.row(uuid)['vm_state'] == states.ERROR
    assert hosts.row(uuid)['fault']['message'] == (
        'No valid host was found. 4 hosts: 4 have a server of the group with the policy anti-affinity already.')
    hosts.check()


def test_no_more_on_a_host_than_the_rule_allows(hosts):
    group = group_of(hosts, 'anti-affinity', max_server_per_host=2)
    assert collections.Counter(build(hosts, group, 8)) == {f'host{number}': 2 for number in range(1, 5)}
    assert build(hosts, group) == [None]


def test_affinity_places_members_on_the_same_host(hosts):
    group = group_of(hosts, 'affinity')
    first, = build(hosts, group)
    assert set(build(hosts, group, 3) + build(hosts, group)) == {first}
    # 8 servers of 512 MB fill the host
    assert build(hosts, group, 3) == [first] * 3
    assert build(hosts, group) == [None]


def test_affinity_selects_a_host_with_room_for_the_whole_request(hosts):
    """The host that is best for the first of them has no vCPUs for all; another has."""
    with hosts.db.writer() as conn:
        nodes = tables_cell.compute_nodes
        conn.execute(sa.update(nodes).where(nodes.c.host != 'host3').values(vcpus=2, cpu_allocation_ratio=1.0,
                                                                            change_number=nodes.c.change_number + 1))
        conn.execute(sa.update(nodes).where(nodes.c.host == 'host3').values(
            reserved_memory_mb=1024, change_number=nodes.c.change_number + 1))
    assert build(hosts, group_of(hosts, 'affinity'), 4, flavor={'memory_mb': 256}) == ['host3'] * 4


def test_soft_policies_are_preferences(hosts):
    apart = group_of(hosts, 'soft-anti-affinity')
    assert len(set(build(hosts, apart, 4))) == 4
    assert build(hosts, apart) != [None]
    group = group_of(hosts, 'soft-affinity')
    first, = build(hosts, group)
    free = 8 - sum(row['host'] == first for row in map(hosts.row, server_ids(hosts)))
    assert build(hosts, group, free) == [first] * free
    assert build(hosts, group) not in ([None], [first])          # the host is full; another one will do


def test_without_its_group_a_server_is_placed_all_the_same(hosts):
    group = group_of(hosts, 'anti-affinity')
    uuids = insert(hosts, group, 5)
    with hosts.api_db.writer() as conn:
        server_groups.delete(conn, group)
    hosts.client['conductor'].build_instances(hosts.ctx, instance_uuids=uuids)
    hosts.settle()
    assert all(hosts.row(uuid)['vm_state'] == states.ACTIVE for uuid in uuids)
    assert hosts.conductor.synchronization.forget_groups() == {group}
    assert hosts.row(uuids[0])['server_group_id'] is None
    assert hosts.conductor.synchronization.forget_groups() == set()


def test_an_administrator_may_force_a_host(hosts):
    group = group_of(hosts, 'anti-affinity')
    assert build(hosts, group, force_host='host2') == build(hosts, group, force_host='host2') == ['host2']


@pytest.mark.parametrize(('policy', 'rules', 'placed'), [
    ('anti-affinity', {}, 4), ('anti-affinity', {'max_server_per_host': 2}, 8), ('affinity', {}, 8)])
def test_many_schedulers_cannot_break_a_policy(hosts, policy, rules, placed):
    """Each has a table of its own, and they all look before the first one claims."""
    group = group_of(hosts, policy, **rules)
    uuids = insert(hosts, group, 16)
    found = races.place(hosts, uuids)
    assert found.pop(None) == 16 - placed
    assert sum(found.values()) == placed
    if policy == 'affinity':
        assert len(found) == 1
    else:
        assert max(found.values()) == rules.get('max_server_per_host', 1)
    assert hosts_of(hosts, group) == found
    with hosts.db.reader() as conn:
        for uuid in uuids:
            instances.get(conn, uuid)


def test_moves_keep_apart(hosts):
    """Two members that move at the same time: what is on its way to a host counts as being there."""
    group = group_of(hosts, 'anti-affinity')
    build(hosts, group, 2)
    before = members(hosts, group)
    races.at_once(*(lambda uuid=uuid: hosts.move(uuid) for uuid in before))
    hosts.settle()
    after = members(hosts, group)
    assert len(set(after.values())) == 2 and not set(after.values()) & set(before.values())
    for uuid in after:
        assert hosts.state(uuid)[0] == states.RESIZED
    # until they are confirmed, the hosts that they have left are theirs, too
    assert build(hosts, group) == [None]
    for uuid in after:
        hosts.end(uuid, 'confirmResize')
    hosts.settle()
    assert build(hosts, group) != [None]


@pytest.mark.parametrize('ending', ['confirmResize', 'revertResize'])
def test_nobody_joins_a_member_that_is_between_two_hosts(hosts, ending):
    """It may end on either; who joined it on one of them would be parted from it."""
    group = group_of(hosts, 'affinity')
    build(hosts, group)
    uuid, = members(hosts, group)
    hosts.move(uuid)
    hosts.settle()
    other, = insert(hosts, group)
    hosts.client['conductor'].build_instances(hosts.ctx, instance_uuids=[other])
    hosts.settle()
    assert hosts.row(other)['host'] is None
    assert 'with the policy affinity is being moved' in hosts.row(other)['fault']['message']
    hosts.end(uuid, ending)
    hosts.settle()
    assert build(hosts, group) == [hosts.row(uuid)['host']]


def test_moves_stay_together(hosts):
    group = group_of(hosts, 'affinity')
    first, = build(hosts, group)
    uuid, = members(hosts, group)
    hosts.move(uuid)                                      # alone it may go anywhere
    hosts.settle()
    hosts.end(uuid, 'confirmResize')
    hosts.settle()
    second = members(hosts, group)[uuid]
    assert second != first
    assert build(hosts, group) == [second]
    hosts.move(uuid)
    hosts.settle()
    assert hosts.state(uuid)[:2] == (states.ACTIVE, None) and members(hosts, group)[uuid] == second


def test_server_group_policies_work_over_http(tmp_path):
    with whole.running(tmp_path, ['host1', 'host2']) as cloud:
        client, admin = cloud.client(version='2.71'), cloud.admin('2.71')
        image_id = admin.upload_image(visibility='public')
        group = client.post('/os-server-groups', {'server_group': {'name': 'g', 'policy': 'anti-affinity'}}).json()[
            'server_group']['id']

        def one(name, status='ACTIVE'):
            answer = client.post('/servers', {
                'server': {'name': name, 'imageRef': image_id, 'flavorRef': '42', 'networks': 'none'},
                'os:scheduler_hints': {'group': group}})
            assert answer.status_code == 202, answer.text
            return client.wait_for(answer.json()['server']['id'], status)
        made = [one('a'), one('b')]
        assert len({server['hostId'] for server in made}) == 2
        third = one('c', 'ERROR')
        assert 'policy anti-affinity' in third['fault']['message']
        for server in (*made, third):
            assert client.delete('/servers/' + server['id']).status_code == 204
        # a server's mapping goes a moment after its row
        waiting.wait_for(lambda: not client.get(f'/os-server-groups/{group}').json()['server_group']['members'], 10,
                         'the members to go')
        one('d')
