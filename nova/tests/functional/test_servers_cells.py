"""Lists over several cells, and cells that do not answer."""
import threading
import time

import pytest
import sqlalchemy as sa

from nova import utils
from nova.db import engine
from nova.db.tables import api as tables_api
from nova.tests import server_rows
from nova.tests.support import waiting
from nova.tests.functional import base
from nova.tests.functional import servers
from nova.tests.support.servers_cells import Cells
from nova.tests.support.servers_cells import NAMES
from nova.tests.support.servers_cells import OTHER


@pytest.fixture
def cloud(tmp_path):
    fixture = Cells(tmp_path)
    yield fixture
    fixture.close()


def _walk(client, query):
    """Names of all servers, page by page."""
    found, path = [], f'/servers?{query}'
    while path:
        answer = client.get(path, version='2.74')
        assert answer.status == 200, answer.body
        found += [server['name'] for server in answer.json['servers']]
        links = answer.json.get('servers_links')
        path = links and links[0]['href'].removeprefix('http://cloud.test:8774/v2.1')
    return found


@pytest.mark.parametrize('query, key', [
    ('', lambda row: -row[0]), ('sort_dir=asc', lambda row: row[0]),
    ('sort_key=display_name&sort_dir=asc', lambda row: row[1]),
    ('sort_key=availability_zone&sort_dir=asc&sort_key=display_name&sort_dir=asc',
     lambda row: (row[2] is None, row[2] or '', row[1])),
    ('sort_key=locked&sort_dir=desc&sort_key=created_at&sort_dir=desc', lambda row: (not row[3], -row[0])),
    ('name=n', lambda row: -row[0]), ('name=[nN]', lambda row: -row[0])])
@pytest.mark.parametrize('limit', [1, 4, 7, 100])
def test_pages_join_across_cells(cloud, query, key, limit):
    rows = []
    for number in range(20):
        name = f'{"nN"[number % 2]}ä{number % 7}-{number}'
        zone, locked = ('b', None, 'A', 'Z')[number % 4], number % 3 == 0
        cloud.add(NAMES[number % 3], number, display_name=name, availability_zone=zone, locked=locked)
        rows.append((number, name, zone, locked))
    expected = [row[1] for row in sorted(rows, key=key) if query != 'name=n' or 'n' in row[1]]
    assert _walk(cloud.client(), f'limit={limit}&{query}') == expected


def test_equal_sort_keys_in_cells_lose_no_server(cloud):
    """Nothing is shown twice or left out where the sort keys, and the ids, are the same in every cell."""
    made = {cloud.add(name, 1, display_name=f'{name}-{number}') for number in range(3) for name in NAMES}
    found = _walk(cloud.client(), 'limit=2')
    assert len(found) == len(set(found)) == len(made)


def test_unknown_marker_returns_400(cloud):
    cloud.add('second', 1)
    answer = cloud.client().get('/servers?marker=' + '1' * 36)
    assert answer.fault[:2] == ('badRequest', 400)


def test_server_of_another_cell_is_shown_with_its_actions(cloud):
    uuid = cloud.add('third', 1)
    assert cloud.client().get(f'/servers/{uuid}').json['server']['name'] == 'server-1'
    gone = server_rows.row(2, project_id=base.PROJECT, vm_state='deleted', deleted_at=server_rows.START)
    with cloud.dbs['second'].writer() as conn:
        server_rows.insert(conn, [gone], deleted=True)
    client, path = cloud.client(), f'/servers/{gone["uuid"]}'
    assert client.get(path).status == 404
    assert client.get(path + '/os-instance-actions', version='2.20').status == 404
    assert client.get(path + '/os-instance-actions', version='2.21').json == {'instanceActions': []}


# ---- a cell is down ----------------------------------------------------------

def test_lists_without_a_cell(cloud):
    up, lost = cloud.add('default', 1), cloud.add('second', 2)
    cloud.add('second', 3, project_id=OTHER)
    cloud.break_cell('second')
    client = cloud.client()
    for version in ('2.1', '2.68'):
        assert [row['id'] for row in client.get('/servers', version=version).json['servers']] == [up]
    minimal, full = client.get('/servers', version='2.69').json['servers']
    assert minimal.keys() == {'id', 'status', 'links'} and full['id'] == up and 'status' not in full
    assert (minimal['id'], minimal['status']) == (lost, 'UNKNOWN')
    assert minimal['links'][0]['href'] == f'http://cloud.test:8774/v2.1/servers/{lost}'
    minimal, full = client.get('/servers/detail', version='2.104').json['servers']
    assert {key: minimal[key] for key in minimal if key != 'links'} == {
        'id': lost, 'status': 'UNKNOWN', 'tenant_id': base.PROJECT, 'created': '2026-01-01T12:00:02Z'}
    assert full['status'] == 'ACTIVE'


@pytest.mark.parametrize('query, shown', [
    ('', 1), ('deleted=False', 1), (f'project_id={base.PROJECT}&deleted=false', 1), ('limit=10', 0), ('name=server', 0),
    ('sort_key=created_at', 0), ('changes-since=2020-01-01', 0), ('status=ACTIVE', 0)])
def test_server_list_shows_servers_of_a_missing_cell_if_the_query_allows(cloud, query, shown):
    cloud.add('second', 2)
    cloud.add('default', 1)
    cloud.break_cell('second')
    assert len(cloud.client().get(f'/servers?{query}', version='2.69').json['servers']) == 1 + shown


def test_administrators_see_the_lost_servers_of_all_projects(cloud):
    for project in (base.PROJECT, OTHER):
        cloud.add('second', 2, project_id=project)
    cloud.break_cell('second')
    admin = cloud.admin()
    assert len(admin.get('/servers?all_tenants=1', version='2.69').json['servers']) == 2
    listed = admin.get(f'/servers/detail?all_tenants=1&project_id={OTHER}', version='2.69').json['servers']
    assert [server['tenant_id'] for server in listed] == [OTHER]
    assert admin.get('/servers?all_tenants=1&deleted=True', version='2.69').json['servers'] == []


def test_server_of_a_cell_that_is_down_is_shown_partially(cloud):
    uuid, foreign = cloud.add('second', 2), cloud.add('second', 3, project_id=OTHER)
    cloud.break_cell('second')
    client = cloud.client()
    assert client.get(f'/servers/{uuid}', version='2.68').fault[:2] == ('serviceUnavailable', 503)
    assert client.get(f'/servers/{foreign}', version='2.69').status == 404
    assert client.get('/servers/' + '1' * 36, version='2.69').status == 404
    shown = client.get(f'/servers/{uuid}', version='2.69').json['server']
    assert shown.keys() == {'id', 'status', 'links', 'tenant_id', 'user_id', 'created', 'image', 'flavor',
                            'OS-EXT-AZ:availability_zone', 'OS-EXT-STS:power_state'}
    assert (shown['status'], shown['OS-EXT-AZ:availability_zone'], shown['OS-EXT-STS:power_state']) == (
        'UNKNOWN', 'UNKNOWN', 0)
    assert shown['image']['id'] == server_rows.IMAGE_ID and shown['flavor']['original_name'] == 'm1.tiny'
    shown = client.get(f'/servers/{uuid}', version='2.71').json['server']
    assert shown['server_groups'] == [server_rows.NETWORK_ID]


def test_services_of_a_cell_that_is_down_are_unknown(cloud):
    with cloud.api_db.writer() as conn:
        conn.execute(sa.insert(tables_api.host_mappings), [
            {'host': host, 'cell_uuid': cloud.by_name[name].uuid}
            for host, name in (('lost2', 'second'), ('lost1', 'second'), ('host1', 'default'))])
    cloud.break_cell('second')
    admin = cloud.admin()

    def shown(query='', version='2.69'):
        return [(row['host'], row['status']) for row in
                admin.get(f'/os-services{query}', version=version).json['services']]
    lost = [('lost1', 'UNKNOWN'), ('lost2', 'UNKNOWN')]
    assert shown() == [*lost, ('host1', 'enabled')] and shown(version='2.68') == [('host1', 'enabled')]
    assert shown('?host=lost2') == lost[1:] and shown('?binary=nova-scheduler') == []
    record = admin.get('/os-services', version='2.69').json['services'][0]
    assert record == {'binary': 'nova-compute', 'host': 'lost1', 'status': 'UNKNOWN'}


def test_a_cell_that_hangs_is_waited_for_once(tmp_path):
    cloud = Cells(tmp_path, api__cell_timeout=4)
    cloud.add('default', 1)
    cloud.add('third', 2)
    waits, released, opened = cloud.by_name['third'], threading.Event(), []
    waits._db, waits._open = None, lambda: (opened.append(1), released.wait(60), cloud.dbs['third'])[-1]
    client, begin = cloud.client(), time.monotonic()
    assert len(client.get('/servers', version='2.69').json['servers']) == 2
    assert time.monotonic() - begin > 3.9
    assert len(client.get('/servers', version='2.69').json['servers']) == 2
    assert len(opened) == 1
    released.set()

    def names():
        return {server.get('name') for server in client.get('/servers', version='2.69').json['servers']}
    waiting.wait_for(lambda: names() == {'server-1', 'server-2'}, 60, 'the cell to be asked again')      # after as long
    cloud.close()


class New(Cells):
    """The process has just read that there is one cell; then came the others."""

    def __init__(self, directory):
        super().__init__(directory)
        cells = self.services.cells
        for cell in cells.all()[1:]:
            del cells._known[cell.uuid]


def test_server_in_a_new_cell_is_found(tmp_path):
    cloud = New(tmp_path)
    uuid = cloud.add('second', 1)
    assert len(cloud.services.cells.all()) == 1
    assert cloud.client().get(f'/servers/{uuid}/metadata').status == 200
    assert len(cloud.services.cells.all()) == 3
    assert cloud.client().get('/servers/00000000-0000-0000-0000-00000000000f').status == 404
    cloud.close()


def test_the_only_cell_is_down(tmp_path):
    fixture = servers.Servers(tmp_path)
    uuid, cell = fixture.add_server(1), fixture.services.cells.default
    with fixture.api_db.writer() as conn:
        conn.execute(sa.insert(tables_api.instance_mappings).values(
            instance_uuid=uuid, cell_uuid=cell.uuid, project_id=base.PROJECT,
            user_id=base.USER, vcpus=1, memory_mb=1, created_at=utils.utcnow()))
    cell._db = engine.Database('sqlite:////nowhere/cell.sqlite')
    client = fixture.client()
    assert client.get('/servers', version='2.68').fault[:2] == ('serviceUnavailable', 503)
    listed = client.get('/servers', version='2.69').json['servers']
    assert [server['status'] for server in listed] == ['UNKNOWN']
    fixture.close()
