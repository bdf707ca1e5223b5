"""What is kept of the past of a living server."""
import datetime
import uuid as uuids

import pytest
import sqlalchemy as sa

from nova import utils
from nova.db.moves import migrations as moves
from nova.db.servers import history
from nova.db.tables import api as tables_api
from nova.db.tables import cell as tables
from nova.db.tables.audit import records
from nova.tests import core

KEPT = 100
ACTIONS, EVENTS, MOVES = tables.instance_actions, tables.instance_action_events, tables.migrations


@pytest.fixture
def cloud(tmp_path, database_url):
    fixture = core.Cloud(tmp_path, url=database_url, conductor__server_actions_kept=KEPT)
    yield fixture
    fixture.close()


def add_actions(cloud, uuid, count, **more):
    """Actions, each with an event; the newest ones of the server."""
    now = utils.utcnow()
    with cloud.db.writer() as conn:
        for number in range(count):
            made = conn.execute(sa.insert(ACTIONS).values(**{
                'instance_uuid': uuid, 'action': 'lock', 'request_id': f'req-{number}', 'started_at': now,
                'updated_at': now, 'finished_at': now, **more})).inserted_primary_key[0]
            conn.execute(sa.insert(EVENTS).values(action_id=made, event='compute_lock', started_at=now))


def count(cloud, table, **match):
    with cloud.db.reader() as conn:
        return conn.execute(sa.select(sa.func.count()).select_from(table).where(
            *(table.c[name] == value for name, value in match.items()))).scalar_one()


def test_actions_of_a_living_server_have_a_bound(cloud, monkeypatch):
    """Who locked and unlocked a server for long enough filled the database: nothing went before its deletion."""
    monkeypatch.setattr(history, 'BATCH', 30)
    first, second = cloud.boot(), cloud.boot()
    expire = cloud.conductor.expiry.expire_old_actions
    assert expire() == 0
    add_actions(cloud, first, 10, finished_at=None, action='attach_volume')          # in progress
    add_actions(cloud, first, KEPT + 50)
    add_actions(cloud, second, KEPT - 1)
    assert expire() == 50
    shown = cloud.actions(first)
    assert shown[0][0] == 'create' and [row[0] for row in shown].count('lock') == KEPT
    assert [row[0] for row in shown].count('attach_volume') == 10
    assert count(cloud, ACTIONS, instance_uuid=second) == KEPT
    events = count(cloud, EVENTS)
    with cloud.db.reader() as conn:
        assert not conn.execute(sa.select(EVENTS.c.id).where(EVENTS.c.action_id.not_in(sa.select(ACTIONS.c.id)))).all()
    assert expire() == 0 and count(cloud, EVENTS) == events
    add_actions(cloud, second, 20)                   # a later look sees what came since the one before
    assert expire() == 20 - 1 and count(cloud, ACTIONS, instance_uuid=second) == KEPT + 1


def test_moves_of_a_living_server_have_a_bound(cloud):
    uuid = cloud.boot()
    row = cloud.row(uuid)
    old = utils.utcnow() - datetime.timedelta(days=1)
    with cloud.db.writer() as conn:
        for status in ['confirmed'] * 40 + ['done'] + ['finished'] + ['reverted'] * KEPT:
            conn.execute(sa.insert(MOVES).values(
                uuid=str(uuids.uuid4()),
                instance_uuid=uuid, project_id='p', user_id='u', migration_type=moves.RESIZE, status=status,
                created_at=old, updated_at=old, arguments={}, claims_swapped=False, old_flavor=row['flavor'],
                new_flavor=row['flavor'], claimed_vcpus=0, claimed_memory_mb=0, claimed_local_gb=0))
    assert cloud.conductor.expiry.expire_old_actions() == 40
    assert count(cloud, MOVES, status='done') == count(cloud, MOVES, status='finished') == 1
    assert count(cloud, MOVES, status='reverted') == KEPT


def test_servers_that_have_what_is_kept_do_not_hide_others(cloud, monkeypatch):
    """The action that made a server stays beside those that are kept: such servers were found again at each look, and
    once there were as many of them as one look takes, nothing went any more."""
    monkeypatch.setattr(history, 'SERVERS', 2)
    uuids = sorted(cloud.boot() for _number in range(4))
    expire = cloud.conductor.expiry.expire_old_actions
    for uuid in uuids[:2]:
        add_actions(cloud, uuid, KEPT + 5)
    assert expire() == 10
    for uuid in uuids[2:]:
        add_actions(cloud, uuid, KEPT + 5)
    with cloud.db.reader() as conn:                      # as the first look after a start
        assert sorted(history.with_more(conn, ACTIONS, KEPT, 0)) == uuids[2:]
    assert expire() == 10 and expire() == 0


def test_no_row_of_a_deleted_server_outlives_the_default_periods(tmp_path, monkeypatch):
    """Deleted servers and audit records expire without any option: the databases do not grow for ever."""
    made = core.Cloud(tmp_path)
    try:
        uuid = made.boot()
        add_actions(made, uuid, 3)
        made.delete(uuid)
        made.settle()
        for database in (made.api_db, made.db):
            with database.writer() as conn:
                conn.execute(sa.insert(records).values(
                    uuid=str(uuids.uuid4()), created_at=utils.utcnow(), method='DELETE', route='/servers/{id}',
                    action='os_compute_api:servers:delete', outcome='accepted', code=204, target_id=uuid))
        made.conductor.audit_log.seal_audit_log()
        assert {'instances_history', 'instance_actions', 'audit_records'} <= mentions(made, uuid).keys()
        later, conf = utils.utcnow(), made.conf
        assert (conf.conductor.deleted_servers_kept_days, conf.audit.keep_days) == (90, 365)
        monkeypatch.setattr(utils, 'utcnow', lambda: later + datetime.timedelta(days=91))
        for host in made.computes:                                  # a host that is away may still need a row
            made.heartbeat(host)
        expire(made)
        assert mentions(made, uuid).keys() == {'audit_records'}
        monkeypatch.setattr(utils, 'utcnow', lambda: later + datetime.timedelta(days=366))
        expire(made)
        assert mentions(made, uuid) == {}
    finally:
        made.close()


def expire(cloud):
    """Run the periodic tasks of the conductor that remove old rows."""
    for name, _period_s, function in cloud.conductor.periodic_tasks():
        if name.startswith('expire_'):
            function()


def mentions(cloud, uuid):
    """{name of a table: rows that have this id in a column}"""
    found = {}
    for database, metadata in ((cloud.api_db, tables_api.metadata), (cloud.db, tables.metadata)):
        with database.reader() as conn:
            for table in metadata.sorted_tables:
                named = [column == uuid for column in table.c if isinstance(column.type, sa.String)]
                number = named and conn.execute(sa.select(sa.func.count()).select_from(table).where(
                    sa.or_(*named))).scalar_one()
                if number:
                    found[table.name] = found.get(table.name, 0) + number
    return found
