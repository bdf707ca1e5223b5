"""Power states that many hosts report at a moment: few statements, and never over what a task does.

SQLite always; MariaDB and PostgreSQL when NOVA_TEST_MYSQL_URL and NOVA_TEST_POSTGRESQL_URL name an empty database.
"""
import threading
import time

import pytest
import sqlalchemy as sa

from nova import states
from nova.conductor.hosts import power_states
from nova.db.servers import instances
from nova.db.tables import cell as tables_cell
from nova.tests import core

MANY = 100


@pytest.fixture
def cloud(tmp_path, database_url):
    cloud = core.Cloud(tmp_path, hosts=(), url=database_url)
    yield cloud
    cloud.close()


def servers(cloud, count, **values):
    """Servers that run, one on each of so many hosts: [(host, uuid)]."""
    uuids = cloud.insert(count)
    placed = [(f'host{number}', uuid) for number, uuid in enumerate(uuids)]
    with cloud.db.writer() as conn:
        for host, uuid in placed:
            instances.update(conn, uuid, {'host': host, 'node': host, 'vm_state': states.ACTIVE, 'task_state': None,
                                          'power_state': states.RUNNING, **values})
    return placed


def reports(placed, power_state):
    return [power_states.Report(host, {uuid: power_state}) for host, uuid in placed]


class Watched:
    """Statements and commits of a database, while the block runs."""

    def __init__(self, db):
        self._engine, self.statements, self.commits = db.engine, [], 0

    def _executed(self, _conn, _cursor, statement, *_more):
        if statement.split(None, 1)[0] in ('SELECT', 'INSERT', 'UPDATE', 'DELETE'):
            self.statements.append(statement)

    def _committed(self, _conn):
        self.commits += 1

    def __enter__(self):
        sa.event.listen(self._engine, 'before_cursor_execute', self._executed)
        sa.event.listen(self._engine, 'commit', self._committed)
        return self

    def __exit__(self, *_):
        sa.event.remove(self._engine, 'before_cursor_execute', self._executed)
        sa.event.remove(self._engine, 'commit', self._committed)


def found(cloud, uuid):
    row = cloud.row(uuid)
    return row['vm_state'], row['power_state']


def test_reports_of_many_hosts_are_five_statements_and_one_transaction(cloud):
    placed = servers(cloud, MANY)
    some = reports(placed[:60], states.SHUTDOWN) + reports(placed[60:], states.POWER_PAUSED)
    with Watched(cloud.db) as seen:
        cloud.conductor.power_states.write(some)
    assert (len(seen.statements), seen.commits) == (5, 1), seen.statements
    assert {found(cloud, uuid) for _, uuid in placed[:60]} == {(states.STOPPED, states.SHUTDOWN)}
    assert {found(cloud, uuid) for _, uuid in placed[60:]} == {(states.PAUSED, states.POWER_PAUSED)}


def test_nothing_is_written_where_nothing_has_changed(cloud):
    placed = servers(cloud, MANY)
    with Watched(cloud.db) as seen:
        cloud.conductor.power_states.write(reports(placed, states.RUNNING))
    assert (len(seen.statements), seen.commits) == (1, 0)


@pytest.mark.parametrize(('values', 'reported', 'after'), [
    ({}, states.CRASHED, (states.STOPPED, states.CRASHED)),
    ({}, states.NOSTATE, (states.ACTIVE, states.NOSTATE)),
    ({'vm_state': states.SUSPENDED, 'power_state': states.POWER_SUSPENDED}, states.SHUTDOWN,
     (states.SUSPENDED, states.SHUTDOWN)),
    ({'vm_state': states.RESCUED}, states.SHUTDOWN, (states.RESCUED, states.SHUTDOWN)),
    ({'task_state': states.POWERING_OFF}, states.SHUTDOWN, (states.ACTIVE, states.RUNNING)),
], ids=['crashed', 'unknown', 'suspended', 'rescued', 'in-a-task'])
def test_reported_power_state_determines_the_state_of_the_server(cloud, values, reported, after):
    (host, uuid), = servers(cloud, 1, **values)
    cloud.conductor.methods.report_power_states(None, host, {uuid: reported})
    assert found(cloud, uuid) == after


def test_only_the_host_of_a_server_tells_its_state(cloud):
    placed = servers(cloud, 2)
    crossed = [power_states.Report(host, {each: states.SHUTDOWN if host == home else states.CRASHED})
               for host in ('host0', 'host1') for home, each in placed]
    cloud.conductor.power_states.write(crossed)
    assert [found(cloud, uuid) for _, uuid in placed] == [(states.STOPPED, states.SHUTDOWN)] * 2
    cloud.conductor.methods.report_power_states(None, 'host0', {placed[1][1]: states.RUNNING, 'nobody': states.RUNNING})
    assert found(cloud, placed[1][1]) == (states.STOPPED, states.SHUTDOWN)


def test_power_states_reported_during_a_write_are_written_together(cloud):
    placed = servers(cloud, 40)
    report = cloud.conductor.methods.report_power_states
    threads = [threading.Thread(target=report, args=(None, host, {uuid: states.SHUTDOWN})) for host, uuid in placed]
    with Watched(cloud.db) as seen:
        with cloud.db.writer() as conn:
            instances.lock(conn, placed[0][1])               # the first one waits for this
            for thread in threads:
                thread.start()
            deadline = time.monotonic() + 120
            while cloud.conductor.power_states.waiting < 39:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        for thread in threads:
            thread.join()
    assert seen.commits <= 3                                 # the lock's, the first one's, and that of all others
    assert {found(cloud, uuid) for _, uuid in placed} == {(states.STOPPED, states.SHUTDOWN)}


def test_a_report_never_writes_into_a_task(cloud):
    """What a task finds at its end is what it has left at its begin, however many reports come meanwhile."""
    placed, over, errors = servers(cloud, 4), threading.Event(), []

    def report():
        while not over.is_set():
            for state in (states.SHUTDOWN, states.RUNNING):
                cloud.conductor.power_states.write(reports(placed, state))
            time.sleep(0)

    def work(uuid):
        try:
            for _ in range(25):
                cloud.db.run(instances.update, uuid, {'task_state': states.POWERING_ON, 'vm_state': states.ERROR,
                                                      'power_state': states.CRASHED})
                time.sleep(0.001)
                cloud.db.run(instances.update, uuid, {'task_state': None, 'vm_state': states.ACTIVE}, {
                    'task_state': states.POWERING_ON, 'vm_state': states.ERROR, 'power_state': states.CRASHED})
                time.sleep(0.001)
        except Exception as error:
            errors.append(error)
    reporters = [threading.Thread(target=report) for _ in range(2)]
    workers = [threading.Thread(target=work, args=(uuid,)) for _, uuid in placed]
    for thread in reporters + workers:
        thread.start()
    for thread in workers:
        thread.join()
    over.set()
    for thread in reporters:
        thread.join()
    assert errors == []
    with cloud.db.reader() as conn:
        assert set(conn.execute(sa.select(tables_cell.instances.c.task_state)).scalars()) == {None}
