"""Lists over several cells are the list of one big cell: page by page, in any order, also while servers move."""
import datetime
import random
import threading
import time
import uuid as uuidlib

import pytest
import sqlalchemy as sa

from nova import context as nova_context
from nova import utils
from nova.api.servers import cell_pages
from nova.db.moves import cell_steps
from nova.db.moves import migrations as server_migrations
from nova.db.servers import instances
from nova.db.servers import listing
from nova.db.servers import mappings
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.tests import long_runs
from nova.tests import server_rows
from nova.tests.functional import base
from nova.tests.functional import cloud_rows
from nova.tests.functional import servers
from nova.tests.support import idempotency as test_idempotency
from nova.tests.support import servers_cells as test_servers_cells

SEEDS = range(6)
KEYS = ('display_name', 'created_at', 'updated_at', 'availability_zone', 'locked', 'key_name', 'uuid', 'vm_state')
HREF = 'http://cloud.test:8774/v2.1'


def _rows(chance, count):
    """Rows with values of which many are equal, or are none."""
    made = []
    for number in range(count):
        moment = server_rows.START + datetime.timedelta(seconds=chance.randrange(6))
        made.append(server_rows.row(
            number, project_id=base.PROJECT, created_at=moment, updated_at=moment + datetime.timedelta(
                microseconds=chance.randrange(3)), display_name=chance.choice(['a', 'A', 'ä', 'b', 'z', '']),
            availability_zone=chance.choice(['x', 'Y', None]), locked=chance.random() < .5,
            key_name=chance.choice([None, 'k', 'K']), vm_state=chance.choice(['active', 'stopped', 'error'])))
    return made


@pytest.fixture(scope='module')
def clouds(tmp_path_factory):
    """(three cells, one big cell) with the same servers, some of which are deleted."""
    chance = random.Random(1)
    many = test_servers_cells.Cells(tmp_path_factory.mktemp('many'))
    one = servers.Servers(tmp_path_factory.mktemp('one'))
    for row in _rows(chance, 60):
        name = chance.choice(test_servers_cells.NAMES)
        deleted = chance.random() < .2
        if deleted:
            row.update(vm_state='deleted', deleted_at=row['updated_at'], terminated_at=row['updated_at'])
        for db in (many.dbs[name], one.cell_db):
            with db.writer() as conn:
                server_rows.insert(conn, [row], deleted)
        if not deleted:
            many.map(name, row)
    yield many, one
    many.close()
    one.close()


def _walk(client, path, key, limit):
    """What all pages show; none is empty or shorter than asked for but the last one."""
    found, pages = [], []
    while path:
        answer = client.get(path, version='2.90')
        assert answer.status == 200, answer.body
        pages.append(len(answer.json[key]))
        found += answer.json[key]
        links = answer.json.get(f'{key}_links')
        path = links and links[0]['href'].removeprefix(HREF)
    assert set(pages[:-1]) <= {limit} and (pages[-1] or len(pages) == 1), pages
    return found


@pytest.mark.parametrize('seed', long_runs.rest(SEEDS, 2))
def test_any_order_and_page_is_that_of_one_big_cell(clouds, seed):
    many, one = clouds
    chance = random.Random(seed)
    for _ in range(4):
        keys = chance.sample(KEYS, chance.randrange(4))
        sort = [(key, chance.choice(['asc', 'desc'])) for key in keys]
        limit = chance.choice([1, 2, 7, 20, 100])
        query = [f'sort_key={key}&sort_dir={direction}' for key, direction in sort]
        filters = {}
        if chance.random() < .5:
            filters['vm_state'] = chance.choice(['active', 'error'])
            query.append(f'vm_state={filters["vm_state"]}')
        rows = chance.choice(['live', 'live', 'all', 'deleted'])
        if rows == 'deleted':
            query.append('deleted=true')
            filters['soft_deleted'] = None
        elif rows == 'all':
            query.append('changes-since=2020-01-01T00:00:00Z')
        elif 'vm_state' not in filters:
            filters['soft_deleted'] = False
        filters = {name: value for name, value in filters.items() if value is not None}
        asked = listing.Query(nova_context.ALL_PROJECTS, filters=filters, rows=rows, several=True,
                                     sort=tuple(sort) or (('created_at', 'desc'),))
        with one.cell_db.reader() as conn:
            expected = [row['uuid'] for row in listing.page(conn, asked, {'uuid'})]
        path = f'/servers?limit={limit}&' + '&'.join(query)
        found = [server['id'] for server in _walk(many.admin(), path, 'servers', limit)]
        assert found == expected, (path, len(found), len(expected))


def test_a_marker_may_be_anywhere(clouds):
    many, _one = clouds
    client = many.client()
    every = [server['id'] for server in client.get('/servers?limit=1000').json['servers']]
    for number in range(0, len(every), 7):
        answer = client.get(f'/servers?limit=3&marker={every[number]}')
        assert [server['id'] for server in answer.json['servers']] == every[number + 1:number + 4]


# ---- servers that move ---------------------------------------------------------

@pytest.fixture
def cells(tmp_path):
    made = test_servers_cells.Cells(tmp_path)
    yield made
    made.close()


def _leaving(cells, number):
    """A server of the default cell that is on its way to the second one: its row is in both."""
    row = server_rows.row(number, project_id=base.PROJECT, vm_state='building', task_state='scheduling', host=None,
                          node=None, cell_move=cell_steps.OUTGOING)
    with cells.dbs['default'].writer() as conn:
        server_rows.insert(conn, [row])
    cells.map('default', row)
    with cells.dbs['second'].writer() as conn:
        server_rows.insert(conn, [{**row, 'host': 'host2', 'node': 'host2', 'cell_move': cell_steps.INCOMING}])
    return row['uuid']


def _turn(cells, uuid, landed=True):
    with cells.api_db.writer() as conn:
        conn.execute(sa.update(tables_api.instance_mappings).where(
            tables_api.instance_mappings.c.instance_uuid == uuid).values(cell_uuid=cells.by_name['second'].uuid))
    if landed:
        with cells.dbs['second'].writer() as conn:
            conn.execute(sa.update(tables_cell.instances).values(cell_move=None, display_name='landed'))


def _remove(cells, uuid):
    with cells.dbs['default'].writer() as conn:
        conn.execute(sa.delete(tables_cell.instances).where(tables_cell.instances.c.uuid == uuid))


def test_a_server_on_its_way_is_shown_once(cells):
    """Before its mapping turns, between that and its landing, after it, and when its old row is gone."""
    uuid = _leaving(cells, 1)
    client = cells.client()
    others = [cells.add(name, number) for number, name in enumerate(('default', 'second', 'third'), 2)]

    def shown():
        walked = [server['id'] for server in _walk(client, '/servers?limit=2', 'servers', 2)]
        assert sorted(walked) == sorted([uuid, *others])
        assert client.get(f'/servers/{uuid}').status == 200
        return [server['name'] for server in client.get('/servers').json['servers'] if server['id'] == uuid]
    assert shown() == ['server-1']
    _turn(cells, uuid, landed=False)
    assert shown() == ['server-1']
    _turn(cells, uuid)
    assert shown() == ['landed']
    _remove(cells, uuid)
    assert shown() == ['landed']


def _goes_at_the_next_look(cells, uuid):
    """Whoever looks into the default cell now comes too late: the server has just gone to the other one.

    :returns: function() that says whether somebody has looked
    """
    db = cells.by_name['default'].db
    opened = db.reader

    def reader():
        db.reader = opened
        _turn(cells, uuid)
        _remove(cells, uuid)
        return opened()
    db.reader = reader
    return lambda: db.reader == opened


def test_a_server_that_moves_while_it_is_looked_for_is_found(cells):
    """Its mapping is read, it moves, and it is looked for where it was: it is looked up again."""
    uuid, default = _leaving(cells, 1), cells.by_name['default']
    for path in ('', '/metadata', '/os-instance-actions', '/tags'):
        looked = _goes_at_the_next_look(cells, uuid)
        assert cells.client().get(f'/servers/{uuid}{path}', version='2.90').status == 200, path
        assert looked(), path
        with cells.api_db.writer() as conn:
            conn.execute(sa.update(tables_api.instance_mappings).values(cell_uuid=default.uuid))
    assert cells.client().get(f'/servers/{uuid}').status == 404, 'and no longer than its mapping changes'


def _copy(cells, uuid):
    """A server of the default cell stands in the second one, too."""
    with cells.dbs['default'].reader() as conn:
        row = listing.by_uuid(conn, uuid)
    with cells.dbs['second'].writer() as conn:
        server_rows.insert(conn, [{**{name: value for name, value in row.items() if name != 'id'}, 'host': 'host2'}])


def test_a_create_that_is_sent_again_finds_its_server_where_it_is(cells, monkeypatch):
    """Its process died, and its server gets its host while it is looked for; or was deleted there."""
    test_idempotency.break_off(cells, monkeypatch, 'send')
    (uuid,) = test_idempotency.uuids(cells)
    _copy(cells, uuid)
    looked = _goes_at_the_next_look(cells, uuid)
    answer = test_idempotency.create(cells, 'one')
    assert looked()
    assert answer.status == 202 and answer.json['server']['id'] == uuid and test_idempotency.uuids(cells) == {uuid}
    assert cells.client().get(f'/servers/{uuid}').json['server']['name'] == 'landed'


def test_a_create_that_is_sent_again_makes_no_server_that_was_deleted(cells, monkeypatch):
    test_idempotency.break_off(cells, monkeypatch, 'send')
    (uuid,) = test_idempotency.uuids(cells)
    _copy(cells, uuid)
    _remove(cells, uuid)
    cells.dbs['second'].run(instances.destroy, uuid, utils.utcnow())
    cells.api_db.run(mappings.delete_many, [uuid])
    answer = test_idempotency.create(cells, 'one')
    assert answer.status == 202 and answer.json['server']['id'] == uuid and test_idempotency.uuids(cells) == set()


def test_lists_while_servers_move(cells):
    """None is missing or shown twice, whatever the moment."""
    uuids = [_leaving(cells, number) for number in range(12)]
    failures, done = [], threading.Event()

    def look():
        client = cells.client()
        while not done.is_set():
            found = sorted(server['id'] for server in client.get('/servers').json['servers'])
            if found != sorted(uuids):
                failures.append((len(found), len(set(found))))
            time.sleep(0)
    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for uuid in uuids:
        _turn(cells, uuid, landed=False)
        with cells.dbs['second'].writer() as conn:
            conn.execute(sa.update(tables_cell.instances).where(tables_cell.instances.c.uuid == uuid)
                         .values(cell_move=None))
        time.sleep(0.02)
        _remove(cells, uuid)
        time.sleep(0.02)
    done.set()
    for thread in threads:
        thread.join(30)
    assert not failures


# ---- moves of servers ----------------------------------------------------------

@pytest.mark.parametrize('limit', [1, 3, 50])
def test_migrations_of_all_cells_are_listed_in_one_order(cells, limit):
    chance, expected = random.Random(limit), []
    for name in test_servers_cells.NAMES:
        with cells.dbs[name].writer() as conn:
            for _ in range(8):
                _move(conn, server_rows.START + datetime.timedelta(seconds=chance.randrange(3)))
            rows = server_migrations.page(conn, nova_context.ALL_PROJECTS)
        expected += [(row['created_at'], row['id'], row['uuid']) for row in rows]
    found = _walk(cells.admin(), f'/os-migrations?limit={limit}', 'migrations', limit)
    assert [row['uuid'] for row in found] == [uuid for *_, uuid in sorted(expected, reverse=True)]


def _move(conn, moment):
    uuid = str(uuidlib.uuid4())
    conn.execute(sa.insert(tables_cell.migrations).values(
        uuid=uuid, instance_uuid=uuid, project_id=base.PROJECT, user_id=base.USER, migration_type='migration',
        status='confirmed', created_at=moment, updated_at=moment, arguments={}, old_flavor={}, new_flavor={}))


def test_hypervisors_of_all_cells_are_paged(cells):
    """Their numbers are the same in every cell, and nodes without a service are left out of no page."""
    expected = []
    for name in test_servers_cells.NAMES:
        with cells.dbs[name].writer() as conn:
            conn.execute(sa.delete(tables_cell.services))
            for number in range(5):
                expected.append(cloud_rows.node(conn, f'{name}-{number}'))
                if number == 2:
                    expected.pop()
                else:
                    cloud_rows.service(conn, f'{name}-{number}')
    for limit in (1, 2, 4, 12):
        found = _walk(cells.admin(), f'/os-hypervisors?limit={limit}', 'hypervisors', limit)
        assert [node['id'] for node in found] == expected
    # before nodes were shown with their uuids, a number names none of several
    for path in ('/os-hypervisors/1', '/os-hypervisors/1/uptime'):
        answer = cells.admin().get(path, version='2.52')
        assert answer.status == 400 and 'The number 1 is ambiguous' in answer.fault[2], path


def test_a_service_is_not_taken_for_that_of_another_cell(cells):
    for name in ('second', 'third'):
        with cells.dbs[name].writer() as conn:
            conn.execute(sa.delete(tables_cell.services))
            for number in range(2 if name == 'second' else 1):
                cloud_rows.service(conn, f'{name}-{number}')
    with cells.dbs['default'].writer() as conn:
        conn.execute(sa.delete(tables_cell.services))
    admin = cells.admin()
    listed = [(row['host'], row['id']) for row in admin.get('/os-services').json['services']]
    assert len({number for _, number in listed}) == 2 < len(listed) == 3
    both = dict(listed)['third-0']
    answer = admin.delete(f'/os-services/{both}')
    assert answer.status == 400 and 'Use the UUID' in answer.fault[2]
    assert [(row['host'], row['id']) for row in admin.get('/os-services').json['services']] == listed
    with cells.dbs['second'].writer() as conn:
        cloud_rows.stop(conn, 'second-1')
    assert admin.delete(f'/os-services/{dict(listed)["second-1"]}').status == 204


# ---- what a page costs -----------------------------------------------------------

def test_a_project_asks_the_cells_of_its_servers_alone(cells):
    mine = cells.add('second', 1)
    cells.add('third', 2, project_id=test_servers_cells.OTHER)
    asked = []
    for name, cell in cells.by_name.items():
        sa.event.listen(cell.db.engine, 'before_cursor_execute', lambda *_arguments, name=name: asked.append(name))
    for path in ('/servers', '/servers/detail?sort_key=display_name'):
        assert [server['id'] for server in cells.client().get(path).json['servers']] == [mine]
    assert set(asked) == {'default', 'second'}
    cells.break_cell('third')
    assert [server['id'] for server in cells.client().get('/servers', version='2.69').json['servers']] == [mine]


PLACED = {'alike': lambda number, _newest: number,
          'the newest in one cell': lambda number, newest: 0 if newest else number,
          'all in one cell': lambda _number, _newest: 3}


@pytest.mark.parametrize('placed', PLACED)
def test_about_a_page_is_read_of_many_cells(tmp_path, placed):
    """Each cell gave a whole page of its own."""
    count, limit, every = 12, 60, 400
    cells = test_servers_cells.Cells(tmp_path)
    names = [f'more-{number:02}x' for number in range(count)]
    cells.dbs |= {name: cells._add_cell(name) for name in names}
    rows = [server_rows.row(number) for number in range(every)]
    for number, name in enumerate(names):
        here = [row for index, row in enumerate(rows)
                if PLACED[placed](index, index >= every - limit) % count == number]
        if here:
            with cells.dbs[name].writer() as conn:
                server_rows.insert(conn, here)
    cells.services.cells.refresh()
    query, read = listing.Query(nova_context.ALL_PROJECTS, limit=limit, several=True), []

    def prepare(part, place):
        page = listing.prepare(part, {'uuid'}, place)

        def rows_of(cell):
            with cell.db.reader() as conn:
                found = page(conn)
            read.extend(found)
            return found
        return rows_of
    page = cell_pages.CellPage(cells.services.cells, cells.api_db, query, None, prepare)
    assert [row['uuid'] for row in page.rows()] == [row['uuid'] for row in rows[:-limit - 1:-1]]
    assert len(read) < 4 * limit and not page.down
    cells.close()
