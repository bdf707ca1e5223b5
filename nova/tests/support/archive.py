"""What tests share with nova/tests/unit/test_archive.py."""
import datetime
import threading

import sqlalchemy as sa

from nova.db.servers import archive
from nova.db.tables import cell as tables_cell
from nova.db.tables.shadow import SHADOWS
from nova.tests import server_rows

START = server_rows.START


def deleted(number, days):
    moment = START + datetime.timedelta(days=days)
    return server_rows.row(number, deleted_at=moment, terminated_at=moment, vm_state='deleted')


def fill(conn, rows):
    """Deleted servers, each with an action of two events and a migration; one server that lives."""
    server_rows.insert(conn, rows, deleted=True)
    live = server_rows.row(99)
    server_rows.insert(conn, [live])
    for number, row in enumerate([*rows, live], 1):
        action = conn.execute(sa.insert(tables_cell.instance_actions), {
            'instance_uuid': row['uuid'], 'action': 'create', 'request_id': f'req-{number}', 'started_at': START,
            'updated_at': START, 'arguments': {'a': [number]}}).inserted_primary_key[0]
        conn.execute(sa.insert(tables_cell.instance_action_events), [
            {'action_id': action, 'event': event, 'started_at': START} for event in ('build', 'destroy')])
        conn.execute(sa.insert(tables_cell.migrations), {
            'uuid': row['uuid'], 'instance_uuid': row['uuid'], 'project_id': 'p', 'user_id': 'u',
            'migration_type': 'resize', 'status': 'confirmed', 'created_at': START, 'updated_at': START,
            'arguments': {}, 'old_flavor': {}, 'new_flavor': {}})
    for day, state in ((1, 'DONE'), (2, 'DONE'), (3, 'RUNNING')):
        moment = START + datetime.timedelta(days=day)
        conn.execute(sa.insert(tables_cell.task_log), {
            'host': 'host1', 'period_beginning': START, 'period_ending': moment, 'state': state, 'updated_at': moment,
            'task_items': 1, 'errors': 0, 'message': 'm'})


def counts(db, tables):
    with db.reader() as conn:
        return {name: conn.execute(sa.select(sa.func.count()).select_from(table)).scalar()
                for name, table in tables.items()}


SHADOW_TABLES = {table.name: shadow for table, shadow in SHADOWS.items()}


def race(db, rows):
    """Two that archive at once move every row once."""
    moved, errors = [], []

    def work():
        try:
            moved.append(archive.servers(db))
        except Exception as error:
            errors.append(error)
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sum(found.get('instances_history', 0) for found in moved) == len(rows)
    assert counts(db, SHADOW_TABLES)['instances_history'] == len(rows)
    assert counts(db, SHADOW_TABLES)['instance_action_events'] == 2 * len(rows)
