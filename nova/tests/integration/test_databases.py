"""The migrations, and the few statements that differ, on the three databases."""
import datetime
import functools
import threading
import time
import uuid

from alembic import command
from oslo_db import exception as db_exc
import pytest
import sqlalchemy as sa

from nova import actions
from nova import conf as nova_conf
from nova import context
from nova import exception
from nova import utils
from nova.cloud import conversion
from nova.cloud import state_backup
from nova.db import conversion as db_conversion
from nova.db import engine
from nova.db import schema as migration
from nova.db.images import images
from nova.db.networks import hosts as network_hosts
from nova.db.networks import leases
from nova.db.placement import compute_nodes
from nova.db.placement import pci_devices
from nova.db.projects import attempts
from nova.db.projects import flavors
from nova.db.servers import instance_actions
from nova.db.servers import port_devices
from nova.db.servers import usage
from nova.db.services import heartbeats
from nova.db.services import services
from nova.db.services import task_log
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.db.tables import image as tables_image
from nova.db.tables import network as tables_network
from nova.db.tables import volume as tables_volume
from nova.db.volumes import keys as volume_keys
from nova.db.volumes import volumes
from nova.objects import pci
from nova.tests import long_runs
from nova.tests import races
from nova.tests import schemas
from nova.tests import server_rows
from nova.tests.integration import servers
from nova.tests.older_release import stored
from nova.tests.support import schema_phases as test_schema_phases


@pytest.fixture(scope='module', params=long_runs.rest(['sqlite', 'mariadb', 'postgresql', 'mysqlclient'], 3))
def make(request):
    """function(name) -> Database, on one of the servers."""
    with servers.CLIENTS[request.param]() as url_of:
        made = []

        def database(name):
            made.append(engine.Database(url_of(name)))
            return made[-1]
        yield database
        for db in made:
            db.dispose()


@pytest.mark.parametrize('branch', migration.BRANCHES)
def test_the_migrations_make_the_tables_of_the_code(make, branch):
    db = make(f'same_{branch}')
    with pytest.raises(exception.DatabaseNotReady, match='nova-manage'):
        migration.check(db, branch)
    migration.sync(db, branch)
    assert migration.differences(db, branch) == []
    made = make(f'made_{branch}')
    migration.metadata(branch).create_all(made.engine)
    assert schemas.reflected(db) == schemas.reflected(made)
    migration.check(db, branch)
    migration.sync(db, branch)                     # again: nothing to do
    assert migration.version(db) == migration.head(branch)


class Interrupted(Exception):
    """Ends a migration between two statements."""


@pytest.mark.parametrize('branch', migration.BRANCHES)
def test_an_interrupted_migration_is_continued(make, branch):
    """MariaDB commits each statement, so the next run found tables of a revision that was not recorded."""
    db, made, rounds = make(f'cut_{branch}'), [], 0

    @sa.event.listens_for(db.engine, 'before_cursor_execute')
    def cut(conn, cursor, statement, parameters, context, many):
        if statement.lstrip().startswith(('CREATE', 'ALTER', 'DROP')):
            made.append(statement)
            if len(made) > 4:
                raise Interrupted('killed')
    while rounds < 200:
        rounds += 1
        try:
            migration.sync(db, branch)
            break
        except (Interrupted, db_exc.DBError) as error:               # a dialect may wrap it
            assert 'killed' in str(error)
            made.clear()
        if db.engine.dialect.name != 'mysql':                        # all is rolled back
            sa.event.remove(db.engine, 'before_cursor_execute', cut)
    assert rounds > (5 if db.engine.dialect.name == 'mysql' else 1)
    assert migration.differences(db, branch) == []


def test_parallel_migrations_do_not_collide(make):
    """One whose commit came after the end of its lock let the next one read the version before."""
    db = make('parallel')
    url = db.url.render_as_string(hide_password=False)
    errors = []

    def sync():
        try:
            other = engine.Database(url)
            sa.event.listen(other.engine, 'commit', lambda _conn: time.sleep(0.5))
            migration.sync(other, 'cell')
            other.dispose()
        except Exception as error:
            errors.append(error)
    threads = [threading.Thread(target=sync) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert migration.version(db) == migration.head('cell')


def test_beside_a_migration_that_does_not_end_no_other_begins(make, monkeypatch):
    db = make('endless')
    if db.engine.dialect.name != 'mysql':
        pytest.skip('PostgreSQL waits for it')
    monkeypatch.setattr(migration, 'LOCK_TIMEOUT', 1)
    with db.writer() as conn, migration.alone(conn), pytest.raises(exception.Unavailable, match='has not ended'):
        migration.sync(db, 'cell')
    assert migration.version(db) is None
    migration.sync(db, 'cell')


def test_a_deployment_of_the_tree_before_the_first_release_is_converted(make, tmp_path, monkeypatch):
    """A conversion that is interrupted in its last transaction is repeated; the state backup has the rows before."""
    databases = {branch: stored.make(make(f'before_{branch}'), branch) for branch in migration.BRANCHES}
    api_db, cell_db = databases.values()
    before = {branch: stored.contents(db, branch) for branch, db in databases.items()}
    conf = nova_conf.new(files=[], state_path=str(tmp_path))
    stamp, calls = migration.stamp, []

    def die(*args):
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        stamp(*args)
    with monkeypatch.context() as patched:
        patched.setattr(migration, 'stamp', die)
        with pytest.raises(KeyboardInterrupt):
            conversion.convert(conf, api_db, cell_db)
    first = {branch: migration.revisions(branch)[0] for branch in databases}
    assert [migration.version(db) for db in databases.values()] == [migration.PREDECESSORS['api'], first['cell']]
    # MariaDB commits the rename of a column at once
    assert stored.contents(api_db, 'api') == (
        stored.with_new_columns(before['api'], 'api') if api_db.url.get_backend_name() in ('mysql', 'mariadb') else
        before['api'])
    copies = {path.name for path in tmp_path.glob(f'*{conversion.COPY}*')}
    assert conversion.convert(conf, api_db, cell_db) != []
    assert conversion.convert(conf, api_db, cell_db) == []
    for branch, db in databases.items():
        migration.sync(db, branch)                       # the revisions after the first
        migration.check(db, branch)
        assert migration.differences(db, branch) == []
        fresh = make(f'fresh_{branch}')
        migration.sync(fresh, branch)
        assert schemas.reflected(db) == schemas.reflected(fresh)
        for row in db_conversion.ROWS[branch]:
            if isinstance(row, db_conversion.Column | db_conversion.Index):
                continue
            with db.reader() as conn:
                assert row.new in str(conn.execute(sa.select(sa.column(row.column)).select_from(
                    sa.table(row.table))).scalars().all())
    if api_db.sqlite:
        return
    with open(tmp_path / copies.pop(), 'rb') as file:
        content = state_backup.examine(conf, file, str)
    assert copies == set() and content.row_count == sum(len(rows) for tables in before.values()
                                                        for rows in tables.values())
    assert [each['revision'] for each in content.manifest['databases']] == list(migration.PREDECESSORS.values())


def test_another_revision_is_refused(make):
    db = stored.make(make('unknown_cell'), 'cell')
    with db.writer() as conn:
        migration.stamp(conn, 'cell_0010')
    with pytest.raises(exception.DatabaseUnknown, match='cell_0010.*cell_expand_0001'):
        migration.sync(db, 'cell')


@pytest.fixture(scope='module')
def cell(make):
    db = make('cell')
    migration.sync(db, 'cell')
    return db


def test_heartbeats_update_one_service_row(cell):
    with cell.writer() as conn:
        first = services.report(conn, 'h', 'nova-compute', 'compute', 'nova', 1)
    with cell.writer() as conn:
        again = services.report(conn, 'h', 'nova-compute', 'compute', 'nova', 2)
    assert first['uuid'] == again['uuid'] and again['version'] == 2
    assert again['last_seen_at'] >= first['last_seen_at']
    assert again['last_seen_at'].microsecond or first['last_seen_at'].microsecond       # not cut to seconds


def test_floats_and_long_texts_are_compared_and_stored_as_written(make):
    """Four bytes of MariaDB made 1.3 to 1.29999995, so pages lost flavors and the last unit of a node stayed free."""
    db, text = make('floats'), 'é' * 40_000

    def create(conn, name, factor, description):
        flavors.create(conn, {'flavor_id': name, 'name': name, 'memory_mb': 1, 'vcpus': 1, 'root_gb': 1,
                              'rxtx_factor': factor, 'description': description})
    with db.writer() as conn:
        command.upgrade(migration.config('api', conn), 'api_expand_0016')
    with db.writer() as conn:
        create(conn, 'd', 33.3, text[:3])
    migration.sync(db, 'api')
    with db.writer() as conn:
        for name, factor in (('a', 1.1), ('b', 1.3), ('c', 1.3)):
            create(conn, name, factor, text)
    found = [None]
    with db.reader() as conn:
        while rows := flavors.page(conn, project_id=context.ALL_PROJECTS, sort_key='rxtx_factor', limit=1,
                                   marker=found[-1]):
            found.append(rows[0]['flavor_id'])
            assert rows[0]['description'] in (text, text[:3])
            factor = rows[0]['rxtx_factor']
    assert found == [None, 'a', 'b', 'c', 'd'] and factor == 33.3
    cell = make('floats_cell')
    migration.sync(cell, 'cell')
    with cell.writer() as conn:
        table = tables_cell.compute_nodes
        row = {column.name: 0 for column in table.columns if not column.nullable and column.name != 'id'}
        texts = {name: 'x' for name in row if isinstance(table.c[name].type, sa.String)}
        conn.execute(sa.insert(table).values({
            **row, **texts, 'vcpus': 10, 'cpu_allocation_ratio': 1.3, 'created_at': utils.utcnow(),
            'updated_at': utils.utcnow()}))
        capacity = sa.select(table.c.vcpus).where(table.c.vcpus * table.c.cpu_allocation_ratio >= 13)
        assert conn.execute(capacity).scalars().all() == [10]


def test_insert_ignore_keeps_what_is_there(cell):
    row = {'uuid': str(uuid.uuid4()), 'host': 'twice', 'binary': 'b', 'topic': 't', 'availability_zone': 'z',
           'version': 1, 'created_at': datetime.datetime(2026, 11, 21), 'disabled': False, 'forced_down': False}
    with cell.writer() as conn:
        engine.insert_ignore(conn, tables_cell.services, row)
        engine.insert_ignore(conn, tables_cell.services, {**row, 'uuid': str(uuid.uuid4()), 'version': 2})
    with cell.reader() as conn:
        rows = conn.execute(sa.select(tables_cell.services).where(tables_cell.services.c.host == 'twice')).all()
    assert [found.uuid for found in rows] == [row['uuid']]


def test_a_failing_transaction_leaves_nothing(cell):
    with pytest.raises(ZeroDivisionError), cell.writer() as conn:
        services.report(conn, 'lost', 'b', 't', 'z', 1)
        raise ZeroDivisionError
    with cell.reader() as conn:
        assert [row['host'] for row in services.list(conn, host='lost')] == []


def test_usage_counts_present_and_deleted_servers(cell):
    """What a project used, of present and deleted servers in one statement; one audit of a host and period."""
    begin, end = server_rows.START, server_rows.START + datetime.timedelta(days=2)
    day = datetime.timedelta(days=1)
    rows = [server_rows.row(number, launched_at=begin - day, host='audited', project_id='used') for number in range(3)]
    gone = [server_rows.row(number, launched_at=begin - day, terminated_at=begin + day, deleted_at=begin + day,
                            host='audited', project_id='used') for number in range(3, 5)]
    with cell.writer() as conn:
        server_rows.insert(conn, rows)
        server_rows.insert(conn, gone, deleted=True)
    uuids = sorted(row['uuid'] for row in rows + gone)
    with cell.reader() as conn:
        found = {row['uuid']: row for row in usage.servers(conn, begin, end, 'used')}
        assert sorted(found) == uuids
        assert {row['flavor']['name'] for row in found.values()} == {'m1.tiny'}
        assert found[gone[0]['uuid']]['terminated_at'] == begin + day
        page = usage.page(conn, begin, end, 2, 'used', marker=uuids[1])
        assert [row['uuid'] for row in page] == uuids[2:4]
        assert usage.count_on_host(conn, 'audited', begin, end) == 5
        assert usage.count_on_host(conn, 'audited', begin + 2 * day, end + day) == 3
    period, now = (begin, end), utils.utcnow()
    won = []

    def audit():
        won.append(cell.run(task_log.begin, 'audited', period, now - day))
    threads = [threading.Thread(target=audit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [False, False, False, True]
    cell.run(task_log.end, 'audited', period, 5, 0, 'done')
    with cell.reader() as conn:
        assert task_log.of_period(conn, period)['audited']['task_items'] == 5
    cell.run(task_log.expire, end + day)
    with cell.reader() as conn:
        assert task_log.of_period(conn, period) == {}


def test_background_action_ends_independently_of_the_task(cell):
    row = server_rows.row(50, host='beside')
    caller = context.RequestContext(request_id='req-main', overwrite=False)
    other = context.RequestContext(request_id='req-beside', overwrite=False)
    with cell.writer() as conn:
        server_rows.insert(conn, [row])
        instance_actions.insert(conn, caller, [row['uuid']], 'stop', arguments={'a': 1})
        instance_actions.insert(conn, other, [row['uuid']], 'attach_interface', arguments={'b': 2})
    with cell.writer() as conn:
        assert instance_actions.take(conn, row['uuid'], 'x', request_id='req-beside')
        assert not instance_actions.take(conn, row['uuid'], 'x', request_id='req-none')
        assert instance_actions.arguments_of_open(conn, [row['uuid']]) == {row['uuid']: {'a': 1}}
        instance_actions.finish(conn, row['uuid'], 'compute_stop_instance', background=False)
        found, = instance_actions.background_on_host(conn, 'beside')
        assert found['arguments'] == {'b': 2}
        instance_actions.finish(conn, row['uuid'], 'compute_attach_interface', request_id='req-beside')
        assert instance_actions.background_on_host(conn, 'beside') == []


def test_ports_that_are_attached_at_once_have_a_device_each_or_none(cell):
    """Four for two devices, and what they leave when they fail."""
    host, attach = 'card', actions.ACTIONS['attach_interface']
    rows = [server_rows.row(60 + number, host=host, node=host) for number in range(4)]
    devices = [{'address': f'0000:0a:00.{number}', 'vendor_id': '8086', 'product_id': '10ed',
                'dev_type': pci.VIRTUAL} for number in (1, 2)]
    cell.run(compute_nodes.report, host, [{
        'node': host, 'vcpus': 8, 'memory_mb': 8192, 'local_gb': 100, 'hypervisor_type': 'fake',
        'hypervisor_version': 1, 'cpu_allocation_ratio': 1, 'ram_allocation_ratio': 1, 'disk_allocation_ratio': 1,
        'capabilities': {}, 'supported_instances': [], 'pci_devices': devices}])
    cell.run(server_rows.insert, rows)

    def begin(row):
        port = str(uuid.uuid4())
        caller = context.RequestContext(user_id='u', project_id='p', request_id=f'req-{port}', overwrite=False)
        cell.run(port_devices.begin, caller, row['uuid'], attach, {'port_id': port},
                 pci.Request(1, ({'dev_type': pci.VIRTUAL},), request_id=port))
        return row['uuid'], caller.request_id
    begun = [each for each in races.outcomes(*(functools.partial(begin, row) for row in rows))
             if not isinstance(each, exception.Conflict)]
    with cell.reader() as conn:
        taken = [pci_devices.of_instance(conn, row['uuid'], host) for row in rows]
        opened = instance_actions.background_on_host(conn, host)
    assert len(begun) == 2 and sorted(map(len, taken)) == [0, 0, 1, 1]
    assert len({device.address for each in taken for device in each}) == 2 == len(opened)
    for server, request in begun:
        cell.run(port_devices.end, server, request, 'compute_attach_interface', True)
    with cell.reader() as conn:
        assert not any(pci_devices.of_instance(conn, row['uuid'], host) for row in rows)
    assert cell.run(pci_devices.audit) == []


def test_an_older_release_runs_on_an_expanded_schema_and_not_on_a_contracted_one(make, tmp_path, monkeypatch):
    if migration.head('cell', migration.CONTRACT):
        pytest.skip('this release has a contraction of its own')
    test_schema_phases.check_phases(make('phases'), test_schema_phases.Releases(tmp_path, monkeypatch))


def test_the_first_report_of_a_host_may_come_twice_at_once(make):
    db = make('reports')
    tables_cell.metadata.create_all(db.engine)
    node = {'hypervisor_type': 'fake', 'hypervisor_version': 1, 'vcpus': 1, 'memory_mb': 1, 'local_gb': 1,
            'cpu_allocation_ratio': 1, 'ram_allocation_ratio': 1, 'disk_allocation_ratio': 1, 'capabilities': {},
            'supported_instances': []}
    hosts = [f'host{number}' for number in range(20)]
    for host in hosts:
        races.at_once(*[functools.partial(db.run, compute_nodes.report, host, [{'node': host, **node}])] * 4)
    with db.reader() as conn:
        assert sorted(row['node'] for row in compute_nodes.list(conn)) == sorted(hosts)


def test_names_belong_to_one_and_heartbeats_are_written_together(make):
    db = make('heartbeats')
    tables_cell.metadata.create_all(db.engine)
    barrier, taken = threading.Barrier(4), []

    def register(host, identity):
        return db.run(heartbeats.register, host, 'nova-compute', 'compute', 'nova', 2, identity, 60)

    def start(number):
        barrier.wait()
        try:
            register('same', f'identity {number}')
            taken.append(number)
        except exception.ServiceExists:
            pass
    threads = [threading.Thread(target=start, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 1
    numbers = [register(f'h{number}', f'i{number}')['id'] for number in range(20)]
    assert db.run(heartbeats.seen, numbers) == 20
    assert db.run(heartbeats.seen, numbers) == 20            # nothing else has changed: they are counted all the same
    with db.reader() as conn:
        assert heartbeats.known(conn, ['h3', 'none']) == {('h3', 'nova-compute'): (numbers[3], 'i3')}
        assert heartbeats.registered(conn, 'h3', 'nova-compute', 2, 'i3')['last_seen_at'] is not None
        assert heartbeats.registered(conn, 'h3', 'nova-compute', 2, 'other') is None


def test_leases_take_the_place_of_those_before(make):
    db, t = make('leases'), tables_network
    tables_api.metadata.create_all(db.engine)
    here = [{'mac': f'fa:16:3e:00:00:0{number}', 'address': f'10.0.0.{number}'} for number in (1, 2, 3)]
    subnets, made = ['a', 'a', 'b'], dict.fromkeys(('created_at', 'updated_at'), utils.utcnow())
    with db.writer() as conn:
        conn.execute(sa.insert(t.ports), [
            {'id': each['mac'], 'network_id': 'n', 'mac_address': each['mac'], 'host': 'host1', **made}
            for each in here])
        conn.execute(sa.insert(t.addresses), [
            {'subnet_id': subnet, 'number': number, 'address': each['address'], 'port_id': each['mac']}
            for number, (subnet, each) in enumerate(zip(subnets, here, strict=True), 1)])
    for until in (2000000000, 2100000000):
        db.run(leases.record, 'host1', [{**each, 'expires_at': until} for each in here])
    db.run(leases.record, 'host1', [{**here[1], 'expires_at': 2000000001}])
    with db.reader() as conn:
        kept = conn.execute(sa.select(t.leases.c.address, t.leases.c.expires_at).order_by(t.leases.c.number)).all()
    assert kept == [(each['address'], utils.from_timestamp(until))
                    for each, until in zip(here, (2100000000, 2000000001, 2100000000), strict=True)]


def test_an_image_is_one_select(make):
    """With its properties and tags, with some and without any, and the same as where its row is locked."""
    db, now = make('images'), utils.utcnow()
    tables_api.metadata.create_all(db.engine)
    values = {**{column.name: None for column in tables_image.images.c}, 'name': 'x', 'status': 'active',
              'visibility': 'public', 'protected': False, 'os_hidden': False, 'min_disk': 0, 'min_ram': 0,
              'reserved': 0, 'created_at': now, 'updated_at': now}
    for properties, tags in (({'a': '1', 'b': '2'}, ['t2', 't1']), ({}, ['t']), ({'c': '3'}, []), ({}, [])):
        ident = str(uuid.uuid4())
        assert db.run(images.insert, {**values, 'id': ident}, properties, tags)
        with db.reader() as conn:
            found = images.get(conn, ident)
        with db.writer() as conn:
            assert images.get(conn, ident, lock=True) == found
        assert (found['properties'], found['tags'], found['name']) == (properties, tags, 'x')
    with db.reader() as conn:
        assert images.get(conn, str(uuid.uuid4())) is None


def test_new_database_connections_have_strict_mode_and_isolation_level(make):
    """Strict columns, the level of isolation; the connection that was used last is the next one, but not in a fork."""
    db = make('begins')
    if db.sqlite:
        pytest.skip('it has no server')
    first, second = db.engine.connect(), db.engine.connect()
    last = second.connection.dbapi_connection
    if first.dialect.name == 'postgresql':
        assert first.scalar(sa.text('SHOW client_encoding')) == 'UTF8'
    else:
        mode, charset, level = first.execute(sa.text(
            'SELECT @@sql_mode, @@character_set_client, @@tx_isolation')).one()
        assert 'TRADITIONAL' in mode and charset.startswith('utf8') and level == 'READ-COMMITTED'
    first.close()
    second.close()
    with db.engine.connect() as conn:
        assert conn.connection.dbapi_connection is last
        conn.connection.info['pid'] += 1                 # as if this process had been forked since then
    with db.engine.connect() as conn:
        assert conn.connection.dbapi_connection is not last and conn.scalar(sa.select(1)) == 1


def _collations(db):
    """The set of (collation of a table, of its text columns)."""
    with db.reader() as conn:
        return {tuple(row) for row in conn.execute(sa.text(
            'SELECT t.table_collation, c.collation_name FROM information_schema.tables t '
            'JOIN information_schema.columns c ON c.table_schema = t.table_schema AND c.table_name = t.table_name '
            'WHERE t.table_schema = DATABASE() AND c.collation_name IS NOT NULL AND t.table_name NOT LIKE :versions'),
            {'versions': 'alembic%'})}


@pytest.mark.parametrize('branch', migration.BRANCHES)
def test_tables_have_one_collation_whatever_the_server_takes_by_default(make, branch):
    """MariaDB 11.5 changed the default of utf8mb4; MySQL 8 has another one."""
    db = make(f'one_collation_{branch}')
    if db.sqlite or db.engine.dialect.name == 'postgresql':
        pytest.skip('Only MariaDB and MySQL have collations of tables.')
    migration.sync(db, branch)
    assert _collations(db) == {('utf8mb4_general_ci', 'utf8mb4_general_ci')}


def test_tables_made_before_and_after_an_upgrade_of_the_server_compare(make):
    """The tables that an older release made after the upgrade of the server get the collation of the others."""
    db = make('collations')
    if db.sqlite or db.engine.dialect.name == 'postgresql':
        pytest.skip('Only MariaDB and MySQL have collations of tables.')
    migration.sync(db, 'cell')
    statement = sa.select(tables_cell.instances.c.id).join(
        tables_cell.instance_actions, tables_cell.instance_actions.c.instance_uuid == tables_cell.instances.c.uuid)
    row = server_rows.row(1)
    db.run(lambda conn: conn.execute(sa.insert(tables_cell.instances), [row]))

    def convert(*names, collation='utf8mb4_unicode_ci'):
        with db.writer() as conn:
            for name in names:
                conn.exec_driver_sql(f'ALTER TABLE {name} CONVERT TO CHARACTER SET utf8mb4 COLLATE {collation}')
    convert('instance_actions', 'services')
    with pytest.raises(sa.exc.OperationalError, match='Illegal mix of collations'), db.reader() as conn:
        conn.execute(statement).all()
    migration.sync(db, 'cell')                       # there is no newer revision
    with db.reader() as conn:
        assert conn.execute(statement).all() == []
        assert conn.scalar(sa.select(tables_cell.instances.c.uuid)) == row['uuid']
    assert _collations(db) == {('utf8mb4_general_ci', 'utf8mb4_general_ci')}


def test_a_database_keeps_the_collation_that_its_tables_have(make, tmp_path, monkeypatch):
    """Also in the tables of later revisions: large tables are not rebuilt for it."""
    db = make('kept_collation')
    if db.sqlite or db.engine.dialect.name == 'postgresql':
        pytest.skip('Only MariaDB and MySQL have collations of tables.')
    releases = test_schema_phases.Releases(tmp_path, monkeypatch)
    migration.sync(db, 'cell')
    with db.writer() as conn:
        for name in sa.inspect(conn).get_table_names():
            conn.exec_driver_sql(f'ALTER TABLE {name} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci')
    releases.next()
    migration.sync(db, 'cell')
    with db.reader() as conn:
        assert 'moods' in sa.inspect(conn).get_table_names()
    assert _collations(db) == {('utf8mb4_unicode_ci', 'utf8mb4_unicode_ci')}


def test_text_outside_the_basic_plane_is_kept_without_a_word_in_the_url(make):
    """A connection's character set is utf8mb4, not MariaDB's utf8 of three bytes."""
    db = make('characters')
    plain = engine.Database(db.url.set(query={}))
    migration.sync(plain, 'cell')
    plain.run(lambda conn: conn.execute(sa.insert(tables_cell.instances), [
        server_rows.row(1, display_name='web \U0001f600')]))
    with plain.reader() as conn:
        assert conn.scalar(sa.select(tables_cell.instances.c.display_name)) == 'web \U0001f600'
    plain.dispose()


def test_rows_are_read_as_the_driver_reads_them(make):
    """nova.runtime.hooks.pymysql_answers stands in for PyMySQL; other drivers are asked themselves."""
    db = make('rows')
    migration.sync(db, 'cell')
    db.run(lambda conn: conn.execute(sa.insert(tables_cell.instances), [
        server_rows.row(number, display_name='Größe \U0001f600' * (number % 30),
                        user_data=None if number else 'x' * 40_000)
        for number in range(40)]))
    statement = sa.select(tables_cell.instances).order_by(tables_cell.instances.c.id)
    with db.reader() as conn:
        first, second = ([tuple(row) for row in conn.execute(statement)] for _ in range(2))
        driver = conn.connection.dbapi_connection
    assert first == second and len(first) == 40
    if db.url.get_driver_name() != 'pymysql':
        return
    pymysql_answers = pytest.importorskip('nova.runtime.hooks.pymysql_answers')
    assert isinstance(driver, pymysql_answers._Connection) and pymysql_answers._known
    stock = sa.create_engine(db.url)
    with stock.connect() as conn:
        assert [tuple(row) for row in conn.execute(statement)] == first
    stock.dispose()


def test_the_mode_of_a_server_does_not_say_how_names_are_quoted(make):
    """Sessions are strict, and have another mode than a server that an operator has set to ANSI."""
    db = make('quotes')
    if db.sqlite or db.engine.dialect.name == 'postgresql':
        pytest.skip('it has no modes')
    with db.engine.connect() as conn:
        before = conn.scalar(sa.text('SELECT @@GLOBAL.sql_mode'))
        conn.execute(sa.text("SET GLOBAL sql_mode = 'ANSI'"))
    try:
        fresh = make('quotes_again')
        with fresh.engine.connect() as conn:
            assert fresh.engine.dialect.identifier_preparer.quote_identifier('key') == '`key`'
            assert conn.scalar(sa.text('SELECT 1 AS `key`')) == 1
    finally:
        with db.engine.connect() as conn:
            conn.execute(sa.text('SET GLOBAL sql_mode = :mode'), {'mode': before})


def test_the_key_of_volumes_goes_with_the_last_row_that_has_it(make):
    db, key_id, other = make('volume_keys'), str(uuid.uuid4()), str(uuid.uuid4())
    migration.sync(db, 'api')
    common = {'project_id': 'p', 'size': 1, 'status': 'available', 'metadata': {}, 'image_metadata': {},
              'key_id': key_id}
    ids = [str(uuid.uuid4()) for _number in range(2)]
    rows = ((tables_volume.volumes, {'volume_type': 'sealed', 'availability_zone': 'nova'}),
            (tables_volume.volume_backups, {'volume_id': ids[0]}))

    def left(conn):
        return [each for each in (key_id, other) if volume_keys.get(conn, each) is not None]
    with db.writer() as conn:
        for (table, values), ident in zip(rows, ids):
            volumes.insert(conn, table, {'id': ident, **common, **values})
        for each in (key_id, other):
            volume_keys.insert(conn, each, 'type', 'a name', 'sealed')
        assert volume_keys.of_type(conn, 'type') and volume_keys.encryption_key_ids(conn) == {'a name'}
    for (table, _values), ident in zip(rows, ids):
        with db.writer() as conn:
            assert volume_keys.forget_unused(conn, key_id) == 0 and left(conn) == [key_id, other]
            volumes.delete(conn, table, ident)
    with db.writer() as conn:
        assert volume_keys.forget_unused(conn, key_id) == 1 and left(conn) == [other]
        assert volume_keys.forget_unused(conn) == 1 and left(conn) == []


def test_a_key_elsewhere_is_given_up_when_nothing_has_it(make):
    """Its row stays until the Key Manager service has destroyed it; who comes late cannot name it any more."""
    db, key_id, ident = make('outside_keys'), str(uuid.uuid4()), str(uuid.uuid4())
    migration.sync(db, 'api')
    with db.writer() as conn:
        volume_keys.insert(conn, key_id, 'type', volume_keys.BARBICAN, '')
        volume_keys.set_secret(conn, key_id, 'secret')
        volumes.insert(conn, tables_volume.volumes, {
            'id': ident, 'project_id': 'p', 'size': 1, 'status': 'available', 'metadata': {}, 'image_metadata': {},
            'key_id': key_id, 'volume_type': 'sealed', 'availability_zone': 'nova'})
        assert volume_keys.encryption_key_ids(conn) == set() and volume_keys.unused_outside(conn) == []
        assert volume_keys.give_up(conn, key_id) is None
        volumes.delete(conn, tables_volume.volumes, ident)
        assert volume_keys.forget_unused(conn) == 0 and volume_keys.unused_outside(conn) == [key_id]
    with db.writer() as conn:
        assert volume_keys.give_up(conn, key_id)['encrypted_key'] == 'secret'
    with db.writer() as conn:
        assert volume_keys.lock(conn, key_id)['encryption_key_id'] == volume_keys.GIVEN_UP
        assert volume_keys.unused_outside(conn) == [key_id]              # as long as it is not destroyed
        volume_keys.delete(conn, key_id)
        assert volume_keys.give_up(conn, key_id) is None


def test_keys_of_a_project_are_counted(make, monkeypatch):
    rows = attempts.IDEMPOTENCY_KEYS
    monkeypatch.setattr(rows, 'most', 2)
    db, now = make('keys'), utils.utcnow()
    migration.sync(db, 'api')
    assert [db.run(rows.begin, 'p', f'{number:064}', 'x', now) for number in range(2)] == [None, None]
    with pytest.raises(exception.TooManyKeys, match='2 idempotency keys'):
        db.run(rows.begin, 'p', f'{2:064}', 'x', now)
    assert db.run(rows.begin, 'p', f'{1:064}', 'x', now)['request_hash'] == 'x'
    assert db.run(rows.begin, 'q', f'{2:064}', 'x', now) is None
    with db.reader() as conn:
        assert conn.execute(sa.select(sa.func.count()).select_from(tables_api.idempotency_keys)).scalar_one() == 3


def test_a_host_whose_key_was_revoked_has_no_routers(make):
    db = make('hosts')
    migration.sync(db, 'api')
    with db.writer() as conn:
        network_hosts.seen(conn, 'host1', '192.0.2.1', True, 0)
        assert network_hosts.every(conn)[0]['gateway']
        network_hosts.distrust(conn, 'host1')
        assert not network_hosts.every(conn)[0]['gateway']
