"""Backup and restore of the control plane of a fleet: MariaDB and PostgreSQL, and from one kind to another."""
import contextlib
import datetime

import pytest
import sqlalchemy as sa

from nova import conf as nova_conf
from nova import exception
from nova.cloud import assembly
from nova.cloud import state_backup
from nova.cmd.manage import main as manage
from nova.db import engine
from nova.db import schema
from nova.db import state_backup as rows
from nova.db.services import services
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables_cell
from nova.tests import long_runs
from nova.tests.integration import servers
from nova.tests.support import archive as test_archive
from nova.tests.support import state_backup as functional

KINDS = ('mariadb', 'postgresql')


def configured(state, url_of, name):
    return nova_conf.new(files=[], state_path=str(state), api_database__connection=url_of(f'{name}_api'),
                         database__connection=url_of(f'{name}_cell'), identity__backend='keystone')


def filled(conf):
    """Databases with rows of every type; (API database, Cells)."""
    for db, branch in zip(assembly.open_databases(conf), ('api', 'cell')):
        schema.sync(db, branch)
        db.dispose()
    api_db, cells = assembly.checked_databases(conf)
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)
    with api_db.writer() as conn:
        for number in range(1, 13):
            conn.execute(sa.insert(tables_api.flavors).values(
                id=number * 10, flavor_id=f'f{number}', name=f'größe \U0001F30D {number}', vcpus=1, memory_mb=64,
                root_gb=1, ephemeral_gb=0, swap=0, rxtx_factor=1.25, is_public=number % 2 == 0, disabled=False,
                extra_specs={'a:b': 'ü' * number}, created_at=moment))
    with cells.default.db.writer() as conn:
        test_archive.fill(conn, [test_archive.deleted(number, number) for number in range(1, 30)])
    return api_db, cells


def contents(db, branch):
    with rows.moment([db]) as (conn,):
        return {table: sorted(batch, key=repr) for table, _columns, batch in rows.batches(conn, branch)}


@pytest.mark.parametrize('kind', KINDS)
def test_a_fleet_is_restored_into_empty_databases(kind, tmp_path, capsys):
    with servers.SHARED[kind]() as url_of, contextlib.ExitStack() as stack:
        conf = configured(tmp_path / 'one', url_of, 'one')
        api_db, cells = filled(conf)
        stack.callback(api_db.dispose)
        stack.callback(cells.default.db.dispose)
        keys = tmp_path / 'one' / 'keys'
        keys.mkdir(parents=True)
        (keys / 'token.keys').write_text('secret')
        path = tmp_path / 'backup'
        config = tmp_path / 'nova.conf'
        config.write_text(f'[DEFAULT]\nstate_path = {tmp_path}/one\n[identity]\nbackend = keystone\n'
                          f'[api_database]\nconnection = {conf.api_database.connection}\n'
                          f'[database]\nconnection = {conf.database.connection}\n')
        assert manage.main(['state', 'backup', str(path), '--config-file', str(config)]) == 0
        assert path.stat().st_mode & 0o777 == 0o600

        other = configured(tmp_path / 'two', url_of, 'two')
        done = state_backup.restore(other, str(path), str)
        assert done.replaced == [] and (tmp_path / 'two' / 'keys' / 'token.keys').read_text() == 'secret'
        again, again_cells = assembly.checked_databases(other)
        stack.callback(again.dispose)
        stack.callback(again_cells.default.db.dispose)
        for one, two, branch in ((api_db, again, 'api'), (cells.default.db, again_cells.default.db, 'cell')):
            expected, found = contents(one, branch), contents(two, branch)
            for table in ('audit_records', 'audit_chain'):               # the command itself is in the log
                expected.pop(table, None)
                found.pop(table, None)
            assert found == expected and sum(map(len, found.values())) > 10
            assert schema.differences(two, branch) == []
        with again.writer() as conn:                     # numbers go on behind those of the backup
            row = conn.execute(sa.insert(tables_api.flavors).values(
                flavor_id='new', name='new', vcpus=1, memory_mb=64, root_gb=1, ephemeral_gb=0, swap=0, rxtx_factor=1,
                is_public=True, disabled=False, extra_specs={}, created_at=datetime.datetime(2026, 1, 1)))
            assert row.inserted_primary_key[0] > 120

        with pytest.raises(exception.Conflict, match='The deployment already has data') as refused:
            state_backup.restore(other, str(path), str)
        assert '--replace-existing-state' in refused.value.message
        again_cells.default.db.run(services.report, 'host1', 'nova-compute', 'compute', 'nova', 2)
        with pytest.raises(exception.Conflict, match='Services use this database: nova-compute on host1'):
            state_backup.restore(other, str(path), str, replace=True)
        with again_cells.default.db.writer() as conn:
            conn.execute(sa.delete(tables_cell.services))
        assert state_backup.restore(other, str(path), str, replace=True).content.row_count == done.content.row_count
        with again.reader() as conn:
            assert 'new' not in conn.execute(sa.select(tables_api.flavors.c.flavor_id)).scalars().all()


@pytest.mark.parametrize('kind', KINDS)
def test_the_databases_of_a_server_are_read_at_one_moment(kind):
    with servers.SHARED[kind]() as url_of:
        databases = [engine.Database(url_of(f'moment{number}')) for number in range(2)]
        try:
            functional.check_counted(functional.counted(databases))
        finally:
            for db in databases:
                db.dispose()


@pytest.mark.parametrize('kind', long_runs.rest(KINDS))
def test_a_state_moves_from_sqlite_to_a_server_and_back(kind, tmp_path):
    """An all-in-one grows to a fleet with its rows."""
    with servers.sqlite() as files, servers.SHARED[kind]() as url_of, contextlib.ExitStack() as stack:
        api_db, cells = filled(configured(tmp_path / 'one', files, 'one'))
        path = str(tmp_path / 'backup')
        state_backup.create(configured(tmp_path / 'one', files, 'one'), api_db, cells, path)
        there = configured(tmp_path / 'two', url_of, 'there')
        state_backup.restore(there, path, str)
        found_api, found_cells = assembly.checked_databases(there)
        stack.callback(found_api.dispose)
        stack.callback(found_cells.default.db.dispose)
        assert contents(found_api, 'api') == contents(api_db, 'api')
        assert contents(found_cells.default.db, 'cell') == contents(cells.default.db, 'cell')
        state_backup.create(there, found_api, found_cells, path)
        back = configured(tmp_path / 'three', files, 'back')
        state_backup.restore(back, path, str)
        back_api, _cells = assembly.checked_databases(back)
        assert contents(back_api, 'api') == contents(api_db, 'api')


@pytest.mark.parametrize('kind', KINDS)
def test_a_restore_that_is_cut_off_leaves_databases_that_no_service_uses(kind, tmp_path, monkeypatch):
    with servers.SHARED[kind]() as url_of:
        conf = configured(tmp_path / 'one', url_of, 'cut')
        api_db, cells = filled(conf)
        path = str(tmp_path / 'backup')
        state_backup.create(conf, api_db, cells, path)
        other = configured(tmp_path / 'two', url_of, 'off')

        def cut_off(*_arguments):
            raise KeyboardInterrupt
        monkeypatch.setattr(rows, 'finish', cut_off)
        with pytest.raises(KeyboardInterrupt):
            state_backup.restore(other, path, str)
        monkeypatch.undo()
        with pytest.raises(exception.DatabaseNotReady):
            assembly.checked_databases(other)
        with pytest.raises(exception.Conflict):
            state_backup.restore(other, path, str)
        state_backup.restore(other, path, str, replace=True)
        again, again_cells = assembly.checked_databases(other)
        assert contents(again, 'api') == contents(api_db, 'api')
        for db in (api_db, cells.default.db, again, again_cells.default.db):
            db.dispose()
