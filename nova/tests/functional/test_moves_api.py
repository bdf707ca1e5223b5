"""Resize, migrate and the lists of moves, as clients ask for them."""
import datetime

import pytest
import sqlalchemy as sa

from nova import context as nova_context
from nova import utils
from nova.db import engine
from nova.db.moves import migrations as server_migrations
from nova.db.projects import flavors
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.tests import races
from nova.tests import server_rows
from nova.tests.functional import base
from nova.tests.functional import servers

FLAVORS = {
    'big': {'memory_mb': 1024, 'vcpus': 2, 'root_gb': 2}, 'same-size': {'memory_mb': 512, 'vcpus': 1, 'root_gb': 1},
    'zero': {'memory_mb': 512, 'vcpus': 1, 'root_gb': 0}, 'off': {'memory_mb': 512, 'vcpus': 1, 'root_gb': 1},
    'private': {'memory_mb': 512, 'vcpus': 1, 'root_gb': 1, 'is_public': False},
    'small': {'memory_mb': 16, 'vcpus': 1, 'root_gb': 1},
    'wide': {'memory_mb': 512, 'vcpus': 20, 'root_gb': 1}, 'huge': {'memory_mb': 512, 'vcpus': 21, 'root_gb': 1},
}


@pytest.fixture
def cloud(tmp_path):
    fixture = servers.Servers(tmp_path)
    with fixture.api_db.writer() as conn:
        for name, values in FLAVORS.items():
            flavors.create(conn, {'flavor_id': name, 'name': name, **values})
        flavors.update(conn, 'off', {'disabled': True})
    with fixture.cell_db.writer() as conn:
        fixture.add_host(conn, 'host2', 'node2')
    yield fixture
    fixture.close()


def create(cloud, **values):
    """An ACTIVE server that was made through the API."""
    uuid = cloud.client().post('/servers', cloud.body(**values)).json['server']['id']
    with cloud.cell_db.writer() as conn:
        instances.update(conn, uuid, {'vm_state': 'active', 'task_state': None, 'host': servers.HOST,
                                      'node': servers.NODE})
        instance_actions.finish(conn, uuid)
    cloud.conductor.sent.clear()
    return uuid


def act(cloud, uuid, name, body=None, client=None, version=None):
    client = client or cloud.client(roles=('manager', 'member', 'reader'))
    return client.post(f'/servers/{uuid}/action', {name: body}, version=version)


def moves(cloud, uuid):
    with cloud.cell_db.reader() as conn:
        return server_migrations.open_of(conn, uuid)


def counted(cloud, uuid):
    table = tables_api.instance_mappings
    with cloud.api_db.reader() as conn:
        return tuple(conn.execute(sa.select(table.c.vcpus, table.c.memory_mb).where(
            table.c.instance_uuid == uuid)).one())


def test_a_resize_is_written_and_told_to_a_conductor(cloud):
    uuid = create(cloud)
    answer = act(cloud, uuid, 'resize', {'flavorRef': 'big', 'OS-DCF:diskConfig': 'AUTO'})
    assert answer.status == 202 and answer.body == b''
    assert cloud.conductor.sent == [('continue_move', None, {'instance_uuid': uuid})]
    row, (move,) = cloud.row(uuid), moves(cloud, uuid)
    assert (row['task_state'], row['disk_config'], row['flavor_id']) == ('resize_prep', 'AUTO', '1')
    assert move['migration_type'] == 'resize' and move['status'] == 'pre-migrating'
    assert (move['source_compute'], move['source_node'], move['dest_compute']) == ('host1', 'node1', None)
    assert move['new_flavor']['flavor_id'] == 'big' and move['old_flavor']['flavor_id'] == '1'
    assert move['arguments'] == {'old_vm_state': 'active', 'ignored_hosts': []}
    assert counted(cloud, uuid) == (2, 1024)
    assert cloud.client().get(f'/servers/{uuid}').json['server']['status'] == 'RESIZE'
    actions = cloud.client().get(f'/servers/{uuid}/os-instance-actions').json['instanceActions']
    assert actions[0]['action'] == 'resize'


def test_resize_excludes_its_own_host_if_configured(cloud):
    cloud.conf.set_override('allow_resize_to_same_host', False)
    uuid = create(cloud)
    act(cloud, uuid, 'resize', {'flavorRef': 'big'})
    assert moves(cloud, uuid)[0]['arguments']['ignored_hosts'] == ['host1']


@pytest.mark.parametrize(('flavor', 'status', 'words'), [
    ('1', 400, 'When resizing, instances must change flavor!'), ('none', 400, 'Flavor none could not be found.'),
    ('off', 400, 'Flavor off could not be found.'), ('private', 400, 'Flavor private could not be found.'),
    ('zero', 400, 'Resize to zero disk flavor is not allowed.'), ('huge', 403, 'Quota exceeded for cores'),
    ('wide', 202, ''), ('same-size', 202, ''), ('small', 202, ''), (7, 400, 'Flavor 7 could not be found.'),
    (None, 400, 'flavorRef'), ({}, 400, 'flavorRef'), ('', 400, 'flavorRef'), ('x' * 300, 400, 'flavorRef')])
def test_resize_accepts_and_refuses_flavors_with_the_reason(cloud, flavor, status, words):
    uuid = create(cloud)
    answer = act(cloud, uuid, 'resize', {'flavorRef': flavor})
    assert answer.status == status and words in answer.body.decode(), answer.body
    assert (cloud.row(uuid)['task_state'] is None) == (status != 202)
    if status != 202:
        assert moves(cloud, uuid) == [] and cloud.conductor.sent == [] and counted(cloud, uuid) == (1, 512)


def test_disks_never_shrink(cloud):
    uuid = create(cloud, flavorRef='big')
    assert 'cannot shrink' in act(cloud, uuid, 'resize', {'flavorRef': '1'}).fault[2]
    volume = cloud.add_server(1, root_gb=2)
    with cloud.cell_db.writer() as conn:
        instances.update(conn, volume, {'image_id': None})          # its root disk is a volume
    assert act(cloud, volume, 'resize', {'flavorRef': 'zero'}).status == 202


def test_a_flavor_without_root_disk_is_for_those_who_may(cloud):
    uuid = cloud.add_server(1, root_gb=0)
    assert act(cloud, uuid, 'resize', {'flavorRef': 'zero'}).status == 403
    assert act(cloud, uuid, 'resize', {'flavorRef': 'zero'}, cloud.admin(project=base.PROJECT)).status == 202


def test_resize_respects_minimum_memory_and_disk_config_of_the_image(cloud):
    image_id = cloud.add_image(min_ram=128)
    uuid = create(cloud, imageRef=image_id)
    answer = act(cloud, uuid, 'resize', {'flavorRef': 'small'})
    assert answer.status == 400 and 'memory is too small' in answer.fault[2]
    fixed = cloud.add_server(2, image_properties={'auto_disk_config': 'False'})
    answer = act(cloud, fixed, 'resize', {'flavorRef': 'big', 'OS-DCF:diskConfig': 'AUTO'})
    assert answer.status == 400 and 'automatic disk resize disabled' in answer.fault[2]
    assert act(cloud, fixed, 'resize', {'flavorRef': 'big', 'OS-DCF:diskConfig': 'MANUAL'}).status == 202


def test_resize_uses_flavors_and_quota_of_the_project(cloud):
    """The limits are those of the server's project, whoever asks."""
    uuid = create(cloud)
    answer = act(cloud, uuid, 'resize', {'flavorRef': 'huge'}, cloud.admin(project='c' * 32))
    assert answer.status == 403
    assert act(cloud, uuid, 'resize', {'flavorRef': 'big'}, cloud.client(project='c' * 32)).status == 404


def test_a_host_that_is_down_moves_nothing(cloud):
    uuid = create(cloud)
    with cloud.cell_db.writer() as conn:
        conn.execute(sa.update(tables_cell.services).values(forced_down=True))
    for name, body in (('resize', {'flavorRef': 'big'}), ('migrate', None)):
        answer = act(cloud, uuid, name, body)
        assert answer.status == 409 and 'is down' in answer.fault[2] and 'host1' not in answer.fault[2]


@pytest.mark.threads
def test_one_of_parallel_resizes_wins(cloud):
    for _ in range(3):
        uuid = create(cloud)
        answers = races.at_once(*[lambda: act(cloud, uuid, 'resize', {'flavorRef': 'big'})] * 4)
        assert sorted(answer.status for answer in answers) == [202, 409, 409, 409]
        assert len(moves(cloud, uuid)) == 1 and counted(cloud, uuid) == (2, 1024)


@pytest.mark.threads
def test_resizes_at_once_never_exceed_the_quota(cloud):
    """Of five servers two can grow by seven cores within twenty."""
    with cloud.api_db.writer() as conn:
        flavors.create(conn, {'flavor_id': 'eight', 'name': 'eight', 'memory_mb': 512, 'vcpus': 8, 'root_gb': 1})
    uuids = [create(cloud) for _ in range(5)]
    answers = races.at_once(*(lambda uuid=uuid: act(cloud, uuid, 'resize', {'flavorRef': 'eight'}) for uuid in uuids))
    assert sorted(answer.status for answer in answers) == [202, 202, 403, 403, 403]
    assert sum(counted(cloud, uuid)[0] for uuid in uuids) == 19


@pytest.mark.threads
def test_a_resize_and_a_delete_at_once(cloud):
    for _ in range(5):
        uuid = create(cloud)
        resized, deleted = races.at_once(lambda: act(cloud, uuid, 'resize', {'flavorRef': 'big'}),
                                         lambda: cloud.client().delete(f'/servers/{uuid}'))
        assert deleted.status == 204 and resized.status in (202, 409)
        assert cloud.row(uuid)['task_state'] == 'deleting'


# ---- migrate -----------------------------------------------------------------

def test_migrate_is_for_administrators(cloud):
    uuid = create(cloud)
    assert act(cloud, uuid, 'migrate', client=cloud.client()).status == 403
    assert act(cloud, uuid, 'migrate').status == 202
    move, = moves(cloud, uuid)
    assert move['migration_type'] == 'migration' and move['old_flavor'] == move['new_flavor']
    assert move['arguments'] == {'old_vm_state': 'active', 'ignored_hosts': ['host1']}
    assert cloud.conductor.sent == [('continue_move', None, {'instance_uuid': uuid})]


@pytest.mark.parametrize(('body', 'version', 'status'), [
    ({'host': 'host2'}, '2.56', 202), ({'host': 'host1'}, '2.56', 400), ({'host': 'nowhere'}, '2.56', 400),
    ({'host': None}, '2.56', 202), ({}, '2.56', 202), ({'host': 'host2'}, '2.55', 202), ({'host': 'a b'}, '2.56', 400),
    ({'x': 1}, '2.56', 400), ('text', '2.56', 400), ('text', '2.55', 202)])
def test_migrate_to_a_host_needs_2_56(cloud, body, version, status):
    uuid = create(cloud)
    answer = act(cloud, uuid, 'migrate', body, cloud.admin(project=base.PROJECT), version)
    assert answer.status == status, answer.body
    if status == 202:
        named = version == '2.56' and bool(body.get('host'))
        assert moves(cloud, uuid)[0]['arguments'].get('host') == ('host2' if named else None)


def test_only_administrators_name_a_host(cloud):
    uuid = create(cloud)
    assert act(cloud, uuid, 'migrate', {'host': 'host2'}, version='2.56').status == 403
    assert act(cloud, uuid, 'migrate', {'host': 'nowhere'}, version='2.56').status == 403


# ---- the end -----------------------------------------------------------------

@pytest.mark.parametrize(('name', 'status', 'task'), [('confirmResize', 204, 'confirming'),
                                                      ('revertResize', 202, 'reverting')])
def test_the_end_of_a_resize(cloud, name, status, task):
    uuid = cloud.add_server(1, vm_state='resized')
    answer = act(cloud, uuid, name)
    assert answer.status == 400 and answer.fault[2] == f'Instance {uuid} has not been resized.'
    assert cloud.row(uuid)['task_state'] is None
    with cloud.cell_db.writer() as conn:
        server_migrations.create(conn, cloud.owner, instances.get(conn, uuid), 'resize', 'finished')
    assert act(cloud, uuid, name).status == status
    assert cloud.row(uuid)['task_state'] == 'resize_' + task and moves(cloud, uuid)[0]['status'] == task
    assert act(cloud, uuid, name).status == 409
    assert cloud.client().get(f'/servers/{uuid}').json['server']['status'] == (
        'VERIFY_RESIZE' if task == 'confirming' else 'REVERT_RESIZE')


def test_a_server_is_not_sent_back_to_a_host_that_is_down(cloud):
    uuid = cloud.add_server(1, vm_state='resized', host='host2', node='node2')
    with cloud.cell_db.writer() as conn:
        row = {**instances.get(conn, uuid), 'host': 'host1'}
        server_migrations.create(conn, cloud.owner, row, 'resize', 'finished')
        conn.execute(sa.update(tables_cell.services).where(tables_cell.services.c.host == 'host1').values(
            forced_down=True))
    answer = act(cloud, uuid, 'revertResize')
    assert answer.status == 409 and answer.fault[2] == f'Cannot revert instance {uuid}: its source host is down.'
    assert cloud.row(uuid)['task_state'] is None
    assert act(cloud, uuid, 'confirmResize').status == 204


def test_a_reset_state_ends_the_move(cloud):
    uuid = cloud.add_server(1, vm_state='resized')
    with cloud.cell_db.writer() as conn:
        move = server_migrations.create(conn, cloud.owner, instances.get(conn, uuid), 'resize', 'finished')
        conn.execute(sa.update(tables_cell.migrations).values(
            claimed_host='host2', claimed_node='node2', claimed_vcpus=1, claimed_memory_mb=512, claimed_local_gb=1))
        conn.execute(sa.update(tables_cell.compute_nodes).where(tables_cell.compute_nodes.c.host == 'host2').values(
            vcpus_used=1, memory_mb_used=512, local_gb_used=1, running_vms=1))
    act(cloud, uuid, 'os-resetState', {'state': 'active'}, cloud.admin(project=base.PROJECT))
    with cloud.cell_db.reader() as conn:
        assert server_migrations.get(conn, move['id'])['status'] == 'error'
        node = conn.execute(sa.select(tables_cell.compute_nodes).where(
            tables_cell.compute_nodes.c.host == 'host2')).mappings().one()
    assert (node['vcpus_used'], node['running_vms']) == (0, 0)


# ---- lists -------------------------------------------------------------------

OTHER = 'c' * 32
START = datetime.datetime(2026, 1, 1, 12)


@pytest.fixture
def listed(cloud):
    """Five moves: of two servers, by two projects, a minute apart."""
    first, second = cloud.add_server(1), cloud.add_server(2, project_id=OTHER, host='host2')
    rows = (('resize', 'confirmed', first, base.PROJECT, 'host2'), ('migration', 'error', first, base.PROJECT, None),
            ('live-migration', 'completed', second, OTHER, 'host3'),
            ('live-migration', 'running', second, OTHER, 'host1'),
            ('evacuation', 'done', first, base.PROJECT, 'host2'))
    cloud.moves = []
    with cloud.cell_db.writer() as conn:
        for number, (kind, status, uuid, project, dest) in enumerate(rows):
            made = server_migrations.create(
                conn, cloud.owner, instances.get(conn, uuid), kind, status, dest_compute=dest, project_id=project,
                user_id=f'user{number}', created_at=START + datetime.timedelta(minutes=number),
                updated_at=START + datetime.timedelta(minutes=number))
            cloud.moves.append(made)
    cloud.first, cloud.second = first, second
    return cloud


def listing(cloud, query='', version='2.80', client=None):
    answer = (client or cloud.admin()).get('/os-migrations' + query, version=version)
    assert answer.status == 200, answer.body
    return [move['id'] - cloud.moves[0]['id'] for move in answer.json['migrations']]


@pytest.mark.parametrize(('query', 'found'), [
    ('', [4, 3, 2, 1, 0]), ('?status=done', [4]), ('?status=nothing', []), ('?host=host3', [2]),
    ('?host=host1', [4, 3, 1, 0]),
    ('?source_compute=host2', [3, 2]), ('?migration_type=live-migration', [3, 2]), ('?hidden=0', [4, 3, 2, 1, 0]),
    ('?hidden=1', []), ('?user_id=user2', [2]), (f'?project_id={OTHER}', [3, 2]), ('?limit=2', [4, 3]),
    ('?limit=0', []), ('?changes-since=2026-01-01T12:03:00Z', [4, 3]),
    ('?changes-before=2026-01-01T12:01:00Z', [1, 0]), (f'?project_id={OTHER}&status=running&limit=1', [3])])
def test_migrations_are_filtered(listed, query, found):
    assert listing(listed, query) == found


def test_migrations_are_filtered_by_server(listed):
    assert listing(listed, f'?instance_uuid={listed.second}') == [3, 2]


def test_migrations_are_paged_since_2_59(listed):
    client, seen, path = listed.admin(), [], '/os-migrations?limit=2'
    while path:
        body = client.get(path, version='2.59').json
        seen += [move['id'] for move in body['migrations']]
        links = body.get('migrations_links')
        path = links and links[0]['href'].partition('/v2.1')[2]
        assert not links or len(body['migrations']) == 2
    assert seen == [move['id'] for move in reversed(listed.moves)]


@pytest.mark.parametrize(('query', 'version', 'status'), [
    ('?marker=none', '2.59', 400), ('?limit=x', '2.59', 400), ('?limit=-1', '2.59', 400), ('?x=1', '2.59', 400),
    ('?x=1', '2.58', 200), ('?limit=1', '2.58', 200), ('?changes-before=2026-01-01', '2.65', 400),
    ('?user_id=u', '2.79', 400), ('?project_id=u', '2.79', 400), ('?changes-since=yesterday', '2.59', 400),
    ('?changes-since=2026-01-02T00:00:00Z&changes-before=2026-01-01T00:00:00Z', '2.66', 400)])
def test_invalid_migration_list_query_is_refused(listed, query, version, status):
    assert listed.admin().get('/os-migrations' + query, version=version).status == status


def test_marker_continues_the_list(listed):
    assert listing(listed, f'?marker={listed.moves[3]["uuid"]}') == [2, 1, 0]


@pytest.mark.threads
def test_moves_of_several_cells_are_one_list(listed, tmp_path):
    """In one order, page by page, whichever cell holds the marker."""
    url = f'sqlite:///{tmp_path}/second.sqlite'
    second = engine.Database(url)
    tables_cell.metadata.create_all(second.engine)
    with listed.api_db.writer() as conn:
        conn.execute(sa.insert(tables_api.cells).values(
            uuid='2' * 36, name='second', database_url=url, transport_url='', disabled=False))
    listed.services.cells.refresh()
    with second.writer() as conn:
        for minute in (0.5, 2.5, 9):
            server_migrations.create(
                conn, listed.owner, server_rows.row(7), 'resize', 'confirmed', user_id=str(minute),
                created_at=START + datetime.timedelta(minutes=minute))
    second.dispose()

    def users(query):
        body = listed.admin().get('/os-migrations' + query, version='2.80').json
        return [move['user_id'] for move in body['migrations']], body.get('migrations_links')
    whole = ['9', 'user4', 'user3', '2.5', 'user2', 'user1', '0.5', 'user0']
    assert users('')[0] == whole
    seen, query = [], '?limit=3'
    while query:
        found, links = users(query)
        seen += found
        query = links and '?' + links[0]['href'].partition('?')[2]
    assert seen == whole


def test_migrations_are_not_paged_before_2_59(listed):
    assert listing(listed, version='2.1') == listing(listed, '?limit=1', version='2.58') == [4, 3, 2, 1, 0]


def test_managers_see_their_projects_moves_and_no_hosts(listed):
    manager = listed.client(roles=('manager', 'member', 'reader'))
    answer = manager.get('/os-migrations', version='2.80')
    assert {move['project_id'] for move in answer.json['migrations']} == {base.PROJECT}
    assert len(answer.json['migrations']) == 3 and b'host' not in answer.body.replace(b'dest_host', b'')
    assert manager.get(f'/os-migrations?project_id={OTHER}', version='2.80').status == 403
    assert manager.get('/os-migrations?host=host1', version='2.80').status == 403
    assert listed.client().get('/os-migrations').status == 403


def test_only_live_migrations_in_progress_have_links(listed):
    shown = listed.admin().get('/os-migrations', version='2.23').json['migrations']
    links = [move['links'] for move in shown if 'links' in move]
    path = f'/servers/{listed.second}/migrations/{listed.moves[3]["id"]}'
    assert [[link['href'] for link in pair] for pair in links] == [[
        'http://cloud.test:8774/v2.1' + path, 'http://cloud.test:8774' + path]]


def test_the_moves_of_one_server(listed):
    admin = listed.admin()
    found = admin.get(f'/servers/{listed.second}/migrations', version='2.23').json['migrations']
    assert [move['id'] for move in found] == [listed.moves[3]['id']]
    assert admin.get(f'/servers/{listed.first}/migrations', version='2.23').json == {'migrations': []}
    assert admin.get(f'/servers/{listed.second}/migrations', version='2.22').status == 404
    path = f'/servers/{listed.second}/migrations/'
    assert admin.get(f'{path}{listed.moves[3]["id"]}', version='2.23').status == 200
    for number in (listed.moves[2]['id'], listed.moves[0]['id'], 'x', '9' * 30, 0):
        assert admin.get(f'{path}{number}', version='2.23').status == 404


def test_another_projects_server_has_no_moves(listed):
    manager = listed.client(roles=('manager', 'member', 'reader'))
    assert manager.get(f'/servers/{listed.second}/migrations', version='2.23').status == 404
    own = listed.client(roles=('manager', 'member', 'reader'), project=OTHER)
    shown, = own.get(f'/servers/{listed.second}/migrations', version='2.23').json['migrations']
    assert shown['source_compute'] is None and shown['dest_compute'] is None
    assert own.get(f'/servers/{listed.second}/migrations/{shown["id"]}', version='2.23').status == 403


def test_moves_go_with_the_history_of_their_server(cloud):
    from nova.db.servers import history
    uuid, = cloud.add_servers({**server_rows.row(9), 'deleted_at': utils.utcnow() - datetime.timedelta(days=2),
                               'uuid': '70a599e0-31e7-49b7-b260-868f441e8620'}, deleted=True)
    with cloud.cell_db.writer() as conn:
        server_migrations.create(conn, cloud.owner, {**server_rows.row(9), 'uuid': uuid}, 'resize', 'confirmed')
        assert history.expire(conn, utils.utcnow()) == 1
        assert server_migrations.page(conn, nova_context.ALL_PROJECTS) == []
