"""nova-manage db archive_deleted_rows, purge, null_instance_uuid_scan: rows, and the exit codes of the man page."""
import datetime

import pytest
import sqlalchemy as sa

from nova.db import engine
from nova.db.moves import live_migrations
from nova.db.servers import archive
from nova.db.servers import history
from nova.db.tables import cell as tables_cell
from nova.db.tables.shadow import SHADOWS
from nova.tests import schemas
from nova.tests import server_rows
from nova.tests.support.archive import SHADOW_TABLES
from nova.tests.support.archive import START
from nova.tests.support.archive import counts
from nova.tests.support.archive import deleted
from nova.tests.support.archive import fill
from nova.tests.support.archive import race
from nova.tests.support.manage import run


TABLES = {table.name: table for table in SHADOWS}


@pytest.fixture
def cell(capsys, tmp_path):
    """(run(*arguments), Database with three deleted servers of the days 1, 2 and 3)"""
    state = ('--state-path', tmp_path)
    db = engine.Database(f'sqlite:///{tmp_path}/cell1.sqlite')
    schemas.migrate(db, 'cell')
    api_db = engine.Database(f'sqlite:///{tmp_path}/api.sqlite')
    schemas.migrate(api_db, 'api')
    api_db.dispose()
    rows = [deleted(number, number) for number in (1, 2, 3)]
    with db.writer() as conn:
        fill(conn, rows)
    yield lambda *arguments: run(capsys, *arguments, *state), db, rows
    db.dispose()


def test_archive_moves_complete_rows_of_deleted_servers_only(cell):
    nova_manage, db, rows = cell
    code, out, err = nova_manage('db', 'archive_deleted_rows', '--max_rows', 2, '--verbose')
    assert (code, err) == (1, '')
    assert [line.split()[1:] for line in out.splitlines()[1:]] == [
        ['instance_action_events', '4'], ['instance_actions', '2'], ['instances_history', '2'], ['migrations', '2']]
    assert counts(db, SHADOW_TABLES) == {'instances_history': 2, 'instance_actions': 2, 'instance_action_events': 4,
                                         'migrations': 2, 'task_log': 0}
    assert counts(db, TABLES) == {'instances_history': 1, 'instance_actions': 2, 'instance_action_events': 4,
                                  'migrations': 2, 'task_log': 3}
    shadow = SHADOWS[tables_cell.instances_history]
    with db.reader() as conn:
        found = conn.execute(sa.select(shadow).order_by(shadow.c.ended_at)).mappings().first()
    assert {name: found[name] for name in rows[0]} == rows[0] and found['ended_at'] == rows[0]['deleted_at']
    assert nova_manage('db', 'archive_deleted_rows') == (1, '', '')
    assert nova_manage('db', 'archive_deleted_rows') == (0, '', '')
    assert counts(db, TABLES)['instance_actions'] == 1                    # of the server that lives


@pytest.mark.parametrize('end', ['return', 'deletion of the services'])
@pytest.mark.parametrize('remove', [lambda db: archive.servers(db).get('instances_history', 0),
                                    lambda db: db.run(history.expire, START + datetime.timedelta(days=9))],
                         ids=['archive', 'expire'])
def test_rows_that_a_host_needs_to_remove_a_guest_stay(cell, remove, end):
    """Without its row, the guest of a deleted server counts as unknown and keeps its address."""
    _nova_manage, db, rows = cell
    services, moves = tables_cell.services, tables_cell.migrations
    with db.writer() as conn:
        conn.execute(sa.update(tables_cell.instances_history).where(
            tables_cell.instances_history.c.uuid == rows[1]['uuid']).values(host='away'))
        conn.execute(sa.insert(services), [{
            'uuid': host, 'host': host, 'binary': 'nova-compute', 'topic': 'compute', 'availability_zone': 'nova',
            'version': 1, 'created_at': START, 'last_seen_at': START, 'disabled': False, 'forced_down': False}
            for host in ('away', 'failed')])
        conn.execute(sa.update(moves).where(moves.c.instance_uuid == rows[0]['uuid']).values(
            migration_type='evacuation', status='done', source_compute='failed'))
    assert remove(db) == 1
    with db.reader() as conn:
        assert history.generations(conn, [row['uuid'] for row in rows]).keys() == {row['uuid'] for row in rows[:2]}
        assert [move['instance_uuid'] for move in live_migrations.list_evacuated(conn, 'failed')] == [rows[0]['uuid']]
    with db.writer() as conn:
        if end == 'return':
            conn.execute(sa.update(services).values(last_seen_at=START + datetime.timedelta(days=8)))
            conn.execute(sa.update(moves).values(status='completed'))
        else:
            conn.execute(sa.delete(services))
    assert remove(db) == 2


def test_archive_until_complete_respects_before_and_includes_the_task_log(cell):
    nova_manage, db, _rows = cell
    code, _out, _err = nova_manage('db', 'archive_deleted_rows', '--max_rows', 1, '--until-complete',
                                   '--before', '2026-01-03 12:00', '--task-log')
    assert code == 1
    found = counts(db, SHADOW_TABLES)
    assert (found['instances_history'], found['task_log']) == (1, 1)      # of day 1; day 2 is not before
    code, _out, _err = nova_manage('db', 'archive_deleted_rows', '--max_rows', 1, '--until-complete', '--task-log')
    found = counts(db, SHADOW_TABLES)
    assert (found['instances_history'], found['task_log']) == (3, 2)      # the audit that runs stays
    assert nova_manage('db', 'archive_deleted_rows', '--all-cells', '--verbose')[:2] == (0, 'Nothing was archived.\n')


def test_purge_requires_all_or_before_and_removes_archived_rows(cell):
    nova_manage, db, _rows = cell
    code, _out, err = nova_manage('db', 'purge')
    assert code == 1 and '--all' in err
    assert nova_manage('db', 'purge', '--before', 'yesterday')[0] == 2
    assert nova_manage('db', 'purge', '--all')[0] == 3
    nova_manage('db', 'archive_deleted_rows', '--until-complete')
    code, out, _err = nova_manage('db', 'purge', '--before', '2026-01-03', '--verbose')
    assert code == 0 and 'shadow_instance_action_events' in out
    assert counts(db, SHADOW_TABLES)['instances_history'] == 2
    assert nova_manage('db', 'purge', '--all', '--all-cells')[0] == 0
    assert not any(counts(db, SHADOW_TABLES).values())


def test_archive_with_purge_leaves_no_shadow_rows(cell):
    nova_manage, db, _rows = cell
    assert nova_manage('db', 'archive_deleted_rows', '--until-complete', '--purge')[0] == 1
    assert not any(counts(db, SHADOW_TABLES).values()) and counts(db, TABLES)['instances_history'] == 0


def test_wrong_values_and_a_database_that_is_away_have_codes(cell, tmp_path):
    nova_manage, _db, _rows = cell
    assert nova_manage('db', 'archive_deleted_rows', '--max_rows', 0)[0] == 2
    assert nova_manage('db', 'archive_deleted_rows', '--before', '2026-13-01')[0] == 4
    assert nova_manage('db', 'archive_deleted_rows', '--until-complete', '--sleep=-1')[0] == 255
    config = tmp_path / 'away.conf'
    config.write_text('[api_database]\nconnection = mysql+pymysql://root:canary-secret@127.0.0.1:1/nova\n')
    for action, code in (('archive_deleted_rows', 3), ('purge', 4)):
        more = ('--all',) if action == 'purge' else ()
        found, _out, err = nova_manage('db', action, *more, '--config-file', config)
        assert found == code and 'canary' not in err and len(err.splitlines()) == 1


def test_a_number_that_sqlite_gives_again_is_no_conflict(cell):
    nova_manage, db, _rows = cell
    nova_manage('db', 'archive_deleted_rows')
    with db.writer() as conn:
        server_rows.insert(conn, [deleted(1, 9)], deleted=True)
    assert nova_manage('db', 'archive_deleted_rows')[0] == 1
    assert counts(db, SHADOW_TABLES)['instances_history'] == 4


def test_parallel_archive_runs_lose_no_row(cell):
    _run, db, rows = cell
    race(db, rows)


def test_null_instance_uuid_scan_reports_rows_without_a_server(cell):
    nova_manage, db, _rows = cell
    code, out, _err = nova_manage('db', 'null_instance_uuid_scan')
    assert (code, out) == (0, 'There were no records found where instance_uuid was NULL.\n')
    with db.writer() as conn:                             # as a table of long ago, without the rule
        conn.exec_driver_sql('DROP TABLE console_auth_tokens')
        conn.exec_driver_sql('CREATE TABLE console_auth_tokens (id INTEGER, instance_uuid VARCHAR(36))')
        conn.exec_driver_sql("INSERT INTO console_auth_tokens VALUES (1, NULL), (2, 'a')")
    code, out, _err = nova_manage('db', 'null_instance_uuid_scan')
    assert code == 0 and out.splitlines()[1].split() == ['console_auth_tokens', '1']
    assert 'were removed' in nova_manage('db', 'null_instance_uuid_scan', '--delete')[1]
    assert 'no records' in nova_manage('db', 'null_instance_uuid_scan')[1]
