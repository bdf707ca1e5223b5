"""A whole cloud under load while messages come twice and out of order, and while the databases report deadlocks; and a
proof that the comparison afterwards can fail.
"""
import contextlib
import random

import pytest
import sqlalchemy as sa

from nova.tests import db_faults
from nova.tests import disorder
from nova.tests import loaded

LOAD_S, RUNS = 3, 10               # as many runs as it takes until enough has gone wrong, at most so many
CELL, API = 'cell_db', 'api_db'


@contextlib.contextmanager
def working(directory, **overrides):
    """(Cloud, Loaded)"""
    cloud = loaded.start(directory / 'state', **overrides)
    try:
        cloud.start()
        clients = loaded.Loaded(cloud)
        yield cloud, clients
        clients.close()
    finally:
        cloud.stop(5)


def work(clients, wrong):
    """Until more than ten things have gone wrong, as ``wrong()`` counts them; the clients notice none."""
    for seed in range(RUNS):
        result = clients.run(LOAD_S, seed=seed)
        assert (result.failed, result.found) == (0, []), result.history.counts
        if wrong() > 10:
            return
    raise AssertionError(f'{wrong()} in {RUNS} runs')


def test_messages_come_twice_and_out_of_order(tmp_path):
    disorder.register()
    with working(tmp_path, transport_url=f'nova-disorder:///{tmp_path}?doubled=0.3&late=0.3&longest=0.3') as (
            cloud, clients):
        counts = cloud.bus._transport._driver.counts
        work(clients, lambda: min(counts.values()))


def test_cloud_survives_deadlocks_and_lock_timeouts(tmp_path):
    with (working(tmp_path) as (cloud, clients), db_faults.Injector(cloud.api_db, 0.05) as first,
          db_faults.Injector(cloud.cell_db, 0.05) as second):
        work(clients, lambda: first.count + second.count)


@pytest.fixture(scope='module')
def rested(tmp_path_factory):
    """(Cloud, Loaded, History of two servers that rest)"""
    # nobody mends what is spoilt
    with working(tmp_path_factory.mktemp('rested'), conductor__reconcile_interval=3600) as (cloud, clients):
        history = clients.load.History()
        for _ in range(2):
            clients.load.Client(clients.cloud, clients._body, clients._flavors, history, 2, random.Random(1)).create()
        assert clients.load.differences(clients.cloud, history)[1] == []
        yield cloud, clients, history


# what is spoilt: (database, statement) -> a part of what the comparison must say
SABOTAGE = {
    'a server vanishes': (CELL, 'DELETE FROM instances WHERE uuid = {uuid}', 'was acknowledged and is lost'),
    'a server fails': (CELL, "UPDATE instances SET vm_state = 'error' WHERE uuid = {uuid}", 'is in ERROR'),
    'a task hangs': (CELL, "UPDATE instances SET task_state = 'spawning' WHERE uuid = {uuid}", 'task spawning'),
    'a claim leaks': (CELL, 'UPDATE compute_nodes SET vcpus_used = vcpus_used + 1', 'vcpus_used is'),
    'a claim is lost': (CELL, 'UPDATE compute_nodes SET running_vms = running_vms - 1', 'running_vms is'),
    'an address leaks': (API, "UPDATE ports SET device_id = 'gone' WHERE device_id = {uuid}", 'which is gone'),
    'a port moves': (API, "UPDATE ports SET host = 'elsewhere' WHERE device_id = {uuid}", 'which is elsewhere'),
    'an address is given back': (API, 'UPDATE addresses SET port_id = NULL', 'the network has []'),
    'the quota drifts': (API, 'UPDATE instance_mappings SET vcpus = vcpus + 3', 'the quota counts'),
    'a mapping stays': (API, "UPDATE instance_mappings SET instance_uuid = 'x' WHERE instance_uuid = {uuid}",
                        'instance_mappings has x'),
    'an action stays open': (CELL, 'UPDATE instance_actions SET finished_at = NULL', 'is still open'),
    'an action is forgotten': (CELL, 'DELETE FROM instance_actions', 'is not recorded'),
    'the host is another': (CELL, "UPDATE instances SET host = 'host9' WHERE uuid = {uuid}", 'its server on host9'),
}


@pytest.mark.parametrize('what', SABOTAGE)
def test_comparison_reports_a_damaged_row(rested, what):
    cloud, clients, history = rested
    name, statement, sentence = SABOTAGE[what]
    database = getattr(cloud, name)
    uuid = min(server['id'] for server in clients.admin.get('/servers').json()['servers'])
    assert found(clients, history) == []
    with database.writer() as conn:
        tables = {table: [dict(row) for row in conn.execute(sa.text(f'SELECT * FROM {table}')).mappings()]
                  for table in (statement.replace('DELETE FROM', 'UPDATE').split()[1],)}
        conn.execute(sa.text(statement.format(uuid=f"'{uuid}'")))
    try:
        assert any(sentence in each for each in found(clients, history)), found(clients, history)
    finally:
        with database.writer() as conn:
            for table, rows in tables.items():
                conn.execute(sa.text(f'DELETE FROM {table}'))
                for row in rows:
                    conn.execute(sa.text(f'INSERT INTO {table} ({", ".join(row)}) VALUES '
                                         f'({", ".join(":" + column for column in row)})'), row)
    assert found(clients, history) == []


@pytest.mark.parametrize('what, sentence', [('second', 'has guests on'), ('stray', 'which is no server'),
                                            ('none', 'has no guest'), ('off', 'its guest has power state 4')])
def test_comparison_reports_a_wrong_guest(rested, what, sentence):
    _cloud, clients, history = rested
    guests = clients.cloud.guests()
    host = next(name for name in guests if guests[name])
    uuid = min(guests[host])
    spoilt = {**guests, host: dict(guests[host])}
    if what == 'second':
        spoilt['host9'] = {uuid: 1}
    elif what == 'stray':
        spoilt[host]['x'] = 1
    elif what == 'off':
        spoilt[host][uuid] = 4
    else:
        del spoilt[host][uuid]
    clients.cloud.guests = lambda: spoilt
    try:
        assert any(sentence in each for each in found(clients, history))
    finally:
        del clients.cloud.guests
    assert found(clients, history) == []


def test_the_comparison_notices_messages_and_answers(rested):
    _cloud, clients, history = rested
    clients.cloud.queues = lambda: {'compute.host1': 2, 'conductor': 0}
    try:
        assert found(clients, history) == ['2 messages wait in queue compute.host1']
    finally:
        del clients.cloud.queues
    uuid = min(history.created)
    history.delete_acknowledged.add(uuid)
    assert any('was deleted and is there' in each for each in found(clients, history))
    history.delete_acknowledged.clear()


ONLY_DOWN = ("No valid host was found. 3 hosts: 1 is down or disabled, 2 do not satisfy the flavor's extra specs "
             '(hypervisor_type).')


@pytest.mark.parametrize('message, counts', [
    (ONLY_DOWN, False), (ONLY_DOWN.replace('down or disabled', 'full'), True), (f'{ONLY_DOWN} And more.', True),
    ('No valid host was found. 3 hosts: 3 are down or disabled.', True)], ids=['only-down', 'full', 'more', 'all-down'])
def test_a_refusal_is_no_difference_where_the_only_host_was_down(rested, message, counts):
    cloud, clients, history = rested
    uuid = min(history.created)
    server = next(each for each in clients.admin.get('/servers/detail').json()['servers'] if each['id'] == uuid)
    state = clients.load.State(clients.cloud, history, [{**server, 'status': 'ERROR', 'fault': {'message': message}}])
    statement = f"UPDATE instance_actions SET message = :message WHERE instance_uuid = '{uuid}'"
    with cloud.cell_db.writer() as conn:
        conn.execute(sa.text(statement), {'message': 'Error'})
    try:
        failed = list(clients.load.crash_test.actions(state))
    finally:
        with cloud.cell_db.writer() as conn:
            conn.execute(sa.text(statement), {'message': None})
    assert counts == (f'create of {uuid} failed' in failed)
    assert counts == any('is in ERROR' in sentence for sentence in clients.load.crash_test.acknowledged(state))


def found(clients, history):
    """What the comparison says now, with no time to mend anything."""
    load = clients.load
    servers = clients.admin.get('/servers/detail?limit=1000').json()['servers']
    state = load.State(clients.cloud, history, servers)
    return [sentence for check in load.CHECKS for sentence in check(state)]
