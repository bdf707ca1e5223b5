"""Requests that come at the same moment, on each of the databases: as many win as may, the others are refused, and
the rows say the same.

The API alone, whose messages are recorded. What the other services decide has races of its own: claims, groups and
moves in test_cloud_on_servers.py, live migration in test_live_races.py.
"""
import collections
import uuid

import pytest
import sqlalchemy as sa

from nova import exception
from nova import states
from nova.db.moves import migrations as server_migrations
from nova.db.placement import aggregates
from nova.db.projects import flavors
from nova.db.servers import console_tokens
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.tables import aggregates as tables_aggregates
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.tests import long_runs
from nova.tests import server_rows
from nova.tests.functional import servers as fixture
from nova.tests.support import categories as test_categories
from nova.tests.integration import races_of_volumes  # noqa: F401 (its races are run, too)
from nova.tests.integration import servers
from nova.tests.integration.racing import Project
from nova.tests.integration.racing import RACES
from nova.tests.integration.racing import Race
from nova.tests.integration.racing import THREADS
from nova.tests.integration.racing import at_once
from nova.tests.integration.racing import equal
from nova.tests.integration.racing import race
from nova.tests.integration.racing import winners

KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIHAEdAOFUYHq9NB9q+OTYEUaQdUg0XtGEhBf7QKhMnh'


@pytest.fixture(scope='module', params=long_runs.rest(['mariadb', 'postgresql', 'mysqlclient', 'sqlite'], 2))
def cloud(request, tmp_path_factory):
    with servers.CLIENTS[request.param]() as url_of:
        made = fixture.Servers(tmp_path_factory.mktemp('races'), url_of=url_of)
        with made.api_db.writer() as conn:
            flavors.create(conn, {'flavor_id': 'big', 'name': 'big', 'memory_mb': 1024, 'vcpus': 4, 'root_gb': 1})
        yield made
        made.close()


# ---- quotas and limits -------------------------------------------------------

def _servers(project, most, owner=None):
    def after():
        assert project.used(owner)['instances'] == most
        assert project.count(tables_cell.instances, tables_cell.instances.c.project_id == project.id) == most
    return Race(lambda number: project.boot(), winners(202, 403, most), after)


@race
def quota_of_servers(cloud, project):
    project.limits(instances=3)
    return _servers(project, 3)


@race
def quota_of_cores(cloud, project):
    project.limits(cores=2)
    return _servers(project, 2)


@race
def quota_of_ram(cloud, project):
    project.limits(ram=4 * 512 + 511)
    return _servers(project, 4)


@race
def quota_of_a_user(cloud, project):
    project.limits(instances=6)
    project.limits(user=project.user, instances=2)
    return _servers(project, 2, project.user)


@race
def quota_of_cores_and_resize(cloud, project):
    """Larger flavors count from the request on."""
    made = [project.server() for _ in range(THREADS)]
    project.limits(cores=THREADS + 3)
    return Race(lambda number: project.client().post(f'/servers/{made[number]}/action', {
        'resize': {'flavorRef': 'big'}}), winners(202, 403), lambda: equal(project.used()['cores'], THREADS + 3))


@race
def quota_and_restore(cloud, project):
    made = [project.server(vm_state=states.SOFT_DELETED) for _ in range(THREADS)]
    project.limits(instances=2)

    def after():
        assert project.used()['instances'] == 2
        assert project.count(tables_cell.instances, tables_cell.instances.c.project_id == project.id,
                             tables_cell.instances.c.task_state == states.RESTORING) == 2
    return Race(lambda number: project.client().post(f'/servers/{made[number]}/action', {'restore': None}),
                winners(202, 403, 2), after)


@race
def two_restores(cloud, project):
    made = project.server(vm_state=states.SOFT_DELETED)
    return Race(lambda number: project.client().post(f'/servers/{made}/action', {'restore': None}),
                winners(202, 409), lambda: equal(project.used()['instances'], 1))


@race
def quota_of_key_pairs(cloud, project):
    project.limits(key_pairs=3)
    return Race(lambda number: project.client('2.92').post('/os-keypairs', {'keypair': {
        'name': f'k{number}', 'public_key': KEY}}), winners(201, 403, 3),
        lambda: equal(project.count(tables_api.key_pairs, tables_api.key_pairs.c.user_id == project.user), 3))


@race
def quota_of_server_groups(cloud, project):
    project.limits(server_groups=2)
    groups = tables_aggregates.server_groups
    return Race(lambda number: _group(project), winners(200, 403, 2),
                lambda: equal(project.count(groups, groups.c.project_id == project.id), 2))


@race
def quota_of_members(cloud, project):
    project.limits(server_group_members=3)
    group = _group(project).json['server_group']['id']
    return Race(lambda number: project.boot(hints={'os:scheduler_hints': {'group': group}}), winners(202, 403, 3),
                lambda: equal(len(project.client().get(f'/os-server-groups/{group}').json['server_group']['members']),
                               3))


def _group(project):
    return project.client('2.15').post('/os-server-groups', {
        'server_group': {'name': 'g', 'policies': ['soft-affinity']}})


@race
def members_and_another_policy(cloud, project):
    """Who joins finds the policy that the group keeps: it changes only before the first of them."""
    path = '/os-server-groups/' + _group(project).json['server_group']['id']
    client = project.client('2.64')
    asked = [*[lambda: client.put(path, {'server_group': {'policy': 'affinity'}})] * 4,
             *[lambda: project.boot(hints={'os:scheduler_hints': {'group': path.rpartition('/')[2]}})] * 4]

    def codes(found):
        assert found[202] == 4 and found[200] + found[409] == 4
        shown = client.get(path).json['server_group']
        assert shown['policy'] == ('affinity' if found[200] else 'soft-affinity') and len(shown['members']) == 4
        assert client.put(path, {'server_group': {'policy': 'anti-affinity'}}).status == 409
    return Race(asked, codes)


@race
def members_and_what_their_hosts_must_have(cloud, project):
    made = project.client(admin=True).post('/os-server-groups', {
        'server_group': {'name': 'g', 'policies': ['host-capabilities']}}).json['server_group']['id']
    path = f'/os-server-groups/{made}/metadata/capabilities:ssd'
    asked = [*[lambda: project.client().put(path, {'meta': {'capabilities:ssd': 'true'}})] * 4,
             *[lambda: project.boot(hints={'os:scheduler_hints': {'group': made}})] * 4]

    def codes(found):
        assert found[202] == 4 and found[200] + found[409] == 4
        assert project.client().get(path).status == (200 if found[200] else 404)
        assert project.client().put(path, {'meta': {'capabilities:ssd': 'false'}}).status == 409
    return Race(asked, codes)


@race
def groups_given_to_one_project(cloud, project):
    """Its quota holds, whoever gives, and a group goes to one of those to whom it is given."""
    others = [Project(cloud) for _ in range(THREADS)]
    made = [_group(other).json['server_group']['id'] for other in others]
    project.limits(server_groups=2)

    def give(number):
        admin = cloud.admin(project=others[number].id, prefix=f'/v3.0/{others[number].id}')
        return admin.put('/groups/' + made[number], {'group': {'tenant_id': project.id}})
    groups = tables_aggregates.server_groups
    return Race(give, winners(200, 403, 2), lambda: equal(project.count(groups, groups.c.project_id == project.id), 2))


@race
def one_group_given_away_and_joined(cloud, project):
    """Either it went away empty, or it has its members and stays."""
    made, other = _group(project).json['server_group']['id'], Project(cloud)
    admin = cloud.admin(project=project.id, prefix=f'/v3.0/{project.id}')
    asked = [*[lambda: admin.put('/groups/' + made, {'group': {'tenant_id': other.id}})] * 2,
             *[lambda: project.boot(hints={'os:scheduler_hints': {'group': made}})] * 6]

    def codes(found):
        stayed = project.client().get('/os-server-groups/' + made).status == 200
        assert found == ({202: 6, 409: 2} if stayed else {200: 1, 404: 1, 400: 6})
    return Race(asked, codes)


@race
def items_of_a_group_are_not_lost(cloud, project):
    path = f'/os-server-groups/{_group(project).json["server_group"]["id"]}/metadata'
    return Race(lambda number: project.client().put(f'{path}/k{number}', {'meta': {f'k{number}': 'v'}}),
                collections.Counter({200: THREADS}),
                lambda: equal(len(project.client().get(path).json['metadata']), THREADS))


@race
def limit_of_tags(cloud, project):
    made = project.server(tags=''.join(f',t{number}' for number in range(49)) + ',')
    return Race(lambda number: project.client('2.26').put(f'/servers/{made}/tags/new{number}'), winners(201, 400),
                lambda: equal(len(project.client('2.26').get(f'/servers/{made}/tags').json['tags']), 50))


@race
def limit_of_metadata(cloud, project):
    made = project.server(metadata={f'k{number}': '' for number in range(126)})
    return Race(lambda number: project.client().put(f'/servers/{made}/metadata/new{number}', {
        'meta': {f'new{number}': ''}}), winners(200, 403, 2),
        lambda: equal(len(project.client().get(f'/servers/{made}/metadata').json['metadata']), 128))


@race
def tags_and_metadata_are_not_lost(cloud, project):
    made, client = project.server(tags='', metadata={}), project.client('2.26')
    asked = [*(lambda n=n: client.put(f'/servers/{made}/tags/t{n}') for n in range(4)),
             *(lambda n=n: client.put(f'/servers/{made}/metadata/k{n}', {'meta': {f'k{n}': 'v'}}) for n in range(4))]

    def after():
        shown = client.get(f'/servers/{made}').json['server']
        assert sorted(shown['tags']) == ['t0', 't1', 't2', 't3'] and len(shown['metadata']) == 4
    return Race(asked, collections.Counter({201: 4, 200: 4}), after)


# ---- states ------------------------------------------------------------------

@race
def actions_on_one_server(cloud, project):
    made = project.server()
    bodies = ({'os-stop': None}, {'pause': None}, {'suspend': None}, {'reboot': {'type': 'SOFT'}},
              {'createImage': {'name': 'copy'}}, {'changePassword': {'adminPass': 'p'}}, {'shelve': None},
              {'createBackup': {'name': 'b', 'backup_type': 'daily', 'rotation': 1}})

    def after():
        with cloud.cell_db.reader() as conn:
            assert len(instance_actions.by_instance(conn, made)) == 1
        assert len(_messages(cloud, made)) == 1
    return Race([lambda body=body: project.client().post(f'/servers/{made}/action', body) for body in bodies],
                winners(202, 409), after)


@race
def moves_of_one_server(cloud, project):
    """One move, and a quota that counts what it says."""
    made, admin = project.server(), project.client('2.30', admin=True)
    bodies = ({'resize': {'flavorRef': 'big'}}, {'migrate': None}, {'resize': {'flavorRef': 'big'}},
              {'os-migrateLive': {'host': None, 'block_migration': 'auto'}})

    def after():
        table = tables_cell.migrations
        with cloud.cell_db.reader() as conn:
            move, = conn.execute(sa.select(table).where(table.c.instance_uuid == made)).mappings()
        assert project.used()['cores'] == move['new_flavor']['vcpus']
    return Race([lambda body=body: admin.post(f'/servers/{made}/action', body) for body in bodies * 2],
                winners(202, 409), after)


@race
def resize_and_delete(cloud, project):
    made = [project.server() for _ in range(THREADS // 2)]

    def codes(found):
        assert found[204] == len(made) and found[202] + found[409] == len(made)

    def after():
        for ident in made:
            row = cloud.row(ident)
            assert row['task_state'] == states.DELETING
            with cloud.cell_db.reader() as conn:
                moves = server_migrations.open_of(conn, ident)
            table = tables_api.instance_mappings
            with cloud.api_db.reader() as conn:
                counted = conn.execute(sa.select(table.c.vcpus).where(table.c.instance_uuid == ident)).scalar()
            assert counted == (4 if moves else 1)
    return Race([function for ident in made for function in (
        lambda ident=ident: project.client().post(f'/servers/{ident}/action', {'resize': {'flavorRef': 'big'}}),
        lambda ident=ident: project.client().delete(f'/servers/{ident}'))], codes, after)


@race
def confirm_and_revert(cloud, project):
    made, client = project.server(vm_state=states.RESIZED), project.client()
    with cloud.cell_db.writer() as conn:
        server_migrations.create(conn, cloud.owner, instances.get(conn, made), server_migrations.RESIZE, 'finished')

    def codes(found):
        assert found[204] + found[202] == 1 and found[409] == THREADS - 1

    def after():
        with cloud.cell_db.reader() as conn:
            move, = server_migrations.open_of(conn, made)
        assert move['status'] in ('confirming', 'reverting')
    return Race([lambda name=name: client.post(f'/servers/{made}/action', {name: None})
                 for name in ('confirmResize', 'revertResize') * (THREADS // 2)], codes, after)


@race
def a_console_and_a_delete(cloud, project):
    """No token opens anything of a server that is gone."""
    made, client = project.server(), project.client('2.6')
    cloud.compute.answers['get_console'] = {'host': '192.0.2.1', 'port': 5900, 'tls_port': None,
                                            'internal_access_path': None}
    tokens = []

    def ask():
        answer = client.post(f'/servers/{made}/remote-consoles', {
            'remote_console': {'protocol': 'vnc', 'type': 'novnc'}})
        if answer.status == 200:
            tokens.append(answer.json['remote_console']['url'].rpartition('%3D')[2])
        return answer

    def delete():
        cloud.cell_db.run(instances.destroy, made, server_rows.START)
        return cloud.client().get('/')

    def codes(found):
        assert found[200] + found[404] + found[409] == THREADS

    def after():
        with cloud.cell_db.reader() as conn:
            for token in tokens:
                with pytest.raises(exception.ConsoleTokenNotFound):
                    console_tokens.get(conn, token)
    return Race([*[ask] * 4, delete, *[ask] * 3], codes, after)


# ---- names and membership ----------------------------------------------------

@race
def name_of_a_key_pair(cloud, project):
    return Race(lambda number: project.client('2.92').post('/os-keypairs', {'keypair': {
        'name': 'mine', 'public_key': KEY}}), winners(201, 409))


@race
def name_of_a_flavor(cloud, project):
    return Race(lambda number: _flavor(project, project.id, str(uuid.uuid4())), winners(200, 409))


@race
def id_of_a_flavor(cloud, project):
    return Race(lambda number: _flavor(project, str(uuid.uuid4()), project.id), winners(200, 409))


def _flavor(project, name, ident):
    return project.client(admin=True).post('/flavors', {'flavor': {
        'name': name, 'id': ident, 'ram': 1, 'vcpus': 1, 'disk': 1, 'os-flavor-access:is_public': False}})


@race
def access_to_a_flavor(cloud, project):
    assert _flavor(project, project.id, project.id).status == 200
    return Race(lambda number: project.client(admin=True).post(f'/flavors/{project.id}/action', {
        'addTenantAccess': {'tenant': project.id}}), winners(200, 409))


@race
def extra_specs_are_not_lost(cloud, project):
    assert _flavor(project, project.id, project.id).status == 200
    path, admin = f'/flavors/{project.id}/os-extra_specs', project.client(admin=True)
    return Race(lambda number: admin.post(path, {'extra_specs': {f'k{number}': 'v'}}), collections.Counter({200: 8}),
                lambda: equal(len(admin.get(path).json['extra_specs']), THREADS))


@race
def name_of_an_aggregate(cloud, project):
    return Race(lambda number: _aggregate(project, project.id), winners(200, 409))


@race
def zone_of_a_host(cloud, project):
    host = _host(cloud, project)
    made = [_aggregate(project, f'{project.id}-{number}', zone=f'z{number}').json['aggregate']['id']
            for number in range(THREADS)]
    return Race(lambda number: project.client(admin=True).post(f'/os-aggregates/{made[number]}/action', {
        'add_host': {'host': host}}), winners(200, 409), lambda: _member(cloud, made))


@race
def host_of_an_aggregate(cloud, project):
    host, made = _host(cloud, project), _aggregate(project, project.id).json['aggregate']['id']
    return Race(lambda number: project.client(admin=True).post(f'/os-aggregates/{made}/action', {
        'add_host': {'host': host}}), winners(200, 409), lambda: _member(cloud, [made]))


@race
def hosts_and_the_end_of_an_aggregate(cloud, project):
    """It is gone, or has hosts."""
    host, made = _host(cloud, project), _aggregate(project, project.id).json['aggregate']['id']
    admin, path = project.client(admin=True), f'/os-aggregates/{made}'

    def codes(found):
        assert found[200] == 1 and found.keys() <= {200, 400, 404, 409}

    def after():
        members = tables_aggregates.aggregate_hosts
        assert project.count(members, members.c.aggregate_id == made) == (admin.get(path).status == 200)
    return Race([lambda: admin.post(path + '/action', {'add_host': {'host': host}}),
                 lambda: admin.delete(path)] * (THREADS // 2), codes, after)


def _aggregate(project, name, zone=None):
    return project.client(admin=True).post('/os-aggregates', {'aggregate': {
        'name': name, **({'availability_zone': zone} if zone else {})}})


def _host(cloud, project):
    """A host without servers."""
    host = project.id[:20]
    with cloud.cell_db.writer() as conn:
        cloud.add_host(conn, host, host)
    return host


def _member(cloud, idents):
    """The host is in one of these aggregates."""
    with cloud.api_db.reader() as conn:
        assert sum(len(aggregates.get(conn, ident)['hosts']) for ident in idents) == 1


@race
def quota_sets(cloud, project):
    path, admin = f'/os-quota-sets/{project.id}', project.client(admin=True)

    def after():
        assert admin.get(path).json['quota_set']['key_pairs'] in range(100, 100 + THREADS)
    return Race(lambda number: admin.put(path, {'quota_set': {'key_pairs': 100 + number}}),
                collections.Counter({200: THREADS}), after)


# ---- requests that come twice ------------------------------------------------

@race
def one_idempotency_key(cloud, project):
    def codes(found):
        assert found[202] >= 1 and found[202] + found[409] == THREADS
    return Race(lambda number: _once(project, project.id), codes, lambda: equal(project.used()['instances'], 1))


@race
def one_idempotency_key_of_refused_requests(cloud, project):
    def codes(found):
        assert found[400] >= 1 and found[400] + found[409] == THREADS
    return Race(lambda number: _once(project, project.id, flavorRef='none'), codes,
                lambda: equal(_once(project, project.id).status, 202))


@race
def one_idempotency_key_of_two_requests(cloud, project):
    def codes(found):
        assert found[202] >= 1 and found[202] + found[409] == THREADS
    return Race(lambda number: _once(project, project.id, name=f'vm-{number}'), codes,
                lambda: equal(project.used()['instances'], 1))


def _once(project, key, **values):
    return project.client('2.37').post('/servers', project.cloud.body(networks='none', **values),
                                       headers={'Idempotency-Key': key})


# ---- the tests ---------------------------------------------------------------

def _messages(cloud, server_id):
    return [each for each in cloud.compute.sent if each[2].get('instance') and each[2]['instance'].uuid == server_id]


@pytest.mark.parametrize('name', list(RACES))
def test_concurrent_requests_return_the_expected_status_codes(cloud, name):
    made = RACES[name](cloud, Project(cloud))
    answers = at_once(made.ask)
    codes = collections.Counter(answer.status for answer in answers)
    told = [answer.body for answer in answers if answer.status >= 400]
    if callable(made.codes):
        made.codes(codes)
    else:
        assert codes == made.codes, told
    assert max(codes) < 500, told
    made.after()


# ---- instance categories -----------------------------------------------------------

def test_a_category_is_deleted_while_servers_are_made_in_it(cloud):
    test_categories.race_of_a_category(cloud)
