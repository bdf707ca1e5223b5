"""Cold moves, their ends, deletes and looks at the same moment, on each database."""
import time

import pytest
import sqlalchemy as sa

from nova import exception
from nova import states
from nova.db.moves import migrations as server_migrations
from nova.db.placement import server_groups
from nova.tests import core
from nova.tests import races
from nova.tests.support import core_moves as moves
from nova.tests.support.waiting import wait_for


@pytest.fixture
def cloud(tmp_path, database_url):
    made = moves.Cloud(tmp_path, hosts=moves.HOSTS, url=database_url)
    yield made
    made.close()


@pytest.mark.parametrize('moment', [0, 0.01, 0.02, 0.04, 0.08, None])
def test_a_delete_leaves_nothing_on_either_host(cloud, moment):
    for compute in cloud.computes.values():
        for operation in ('accept_guest', 'send_guest', 'finish_migration'):
            compute.driver.delays[operation] = 0.015
    uuid = cloud.boot()
    number = cloud.move(uuid, moves.BIG)
    if moment is None:
        cloud.settle()
    else:
        time.sleep(moment)
    cloud.delete(uuid)
    cloud.settle()
    assert cloud.gone(uuid) and cloud.guests() == {}
    assert cloud.migration(number)['status'] in server_migrations.OVER
    cloud.check()


def test_only_one_of_concurrent_moves_starts(cloud):
    uuid = cloud.boot()
    results = races.outcomes(*[lambda: cloud.move(uuid, moves.BIG)] * 6)
    assert len([found for found in results if isinstance(found, int)]) == 1
    assert {type(found) for found in results if not isinstance(found, int)} == {exception.InstanceInvalidState}
    cloud.settle()
    results = races.outcomes(lambda: cloud.end(uuid, 'confirmResize'), lambda: cloud.end(uuid, 'revertResize'),
                             lambda: cloud.end(uuid, 'confirmResize'))
    assert len([found for found in results if found is None]) == 1
    cloud.settle()
    assert cloud.state(uuid) == (states.ACTIVE, None, states.RUNNING)
    cloud.check()


def test_many_servers_move_and_the_claims_agree(cloud):
    """Moves and their ends, deletes and audits at once: the audit mends nothing."""
    uuids = cloud.create(count=9)
    cloud.settle()
    mended = []

    def life(uuid, number):
        def run():
            for ending in ('confirmResize', 'revertResize'):
                cloud.move(uuid, moves.BIG if number % 2 else None)
                wait_for(lambda: cloud.row(uuid)['vm_state'] == states.RESIZED)
                cloud.end(uuid, ending)
                wait_for(lambda: cloud.state(uuid)[:2] == (states.ACTIVE, None))
            if number % 3 == 0:
                cloud.move(uuid)
                cloud.delete(uuid)
        return run

    def audit():
        for _ in range(20):
            mended.extend(cloud.conductor.claim_check.audit())
            time.sleep(0.02)
    races.outcomes(*(life(uuid, number) for number, uuid in enumerate(uuids)), audit)
    cloud.settle(60)
    assert mended == []
    cloud.check()


def test_a_member_that_changes_places_has_both_hosts_all_the_time(cloud):
    """Its row and its move swap hosts without the group's lock: between two looks one of them would be missed."""
    uuid = cloud.boot()
    source = cloud.row(uuid)['host']
    cloud.bus.lost = lambda topic, method, server: method == 'prep_resize'
    number = cloud.move(uuid)
    cloud.settle()
    move = cloud.migration(number)
    assert move['claimed_host'] not in (None, source) and not move['claims_swapped']
    cloud.db.run(core.instances.update, uuid, {'server_group_id': 'g'})
    looks = []

    def between(conn, cursor, statement, *_):
        if statement.startswith('SELECT'):
            looks.append(statement)
            if len(looks) == 2:
                for text in (f"UPDATE instances SET host = '{move['claimed_host']}'", "UPDATE migrations SET "
                             f"claimed_host = '{source}'"):
                    other = conn.connection.cursor()
                    other.execute(text)
                    other.close()
    sa.event.listen(cloud.db.engine, 'before_cursor_execute', between)
    try:
        with cloud.db.writer() as conn:
            found = server_groups.places(conn, 'g')
    finally:
        sa.event.remove(cloud.db.engine, 'before_cursor_execute', between)
    assert found == {(uuid, source), (uuid, move['claimed_host'])}
