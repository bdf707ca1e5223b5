"""What notifications cost a boot and a deletion where they are on: statements; and no message more."""
import time

import pytest

from nova.notify import payloads
from nova.tests import server_rows
from nova.tests.functional import notifications
from nova.tests.support import boot_budget as budget
from nova.tests.support.budgets import calls
from nova.tests.support.notify import CTX

BESIDE = 2                   # the services look after their own meanwhile
STATEMENTS = 27              # instead of 24: the action's record for each write with an event. Measured: 28 in all
CALLS = 250                  # of making the payload of a server. Measured: 208


still = budget.still


@pytest.fixture(params=['noop', 'test'])
def driver(request):
    return request.param


@pytest.fixture
def running(tmp_path, driver, still):
    cloud = notifications.start(
        tmp_path / 'state', driver, notifications__notification_format='versioned',
        notifications__notify_on_state_change=None, notifications__bdms_in_notifications=False,
        notifications__include_share_mapping=False, compute_monitors=[], **budget.QUIET)
    yield cloud
    cloud.stop(5)


def test_one_boot_and_one_delete(running, driver, monkeypatch):
    most = BESIDE + {'noop': budget.STATEMENTS, 'test': STATEMENTS}[driver]
    client = running.client()
    image = client.upload_image(b'\0' * 4096)
    warm = client.boot(image, version='2.37', networks='auto')
    client.wait_for(warm['id'])
    counter = budget.Counter(monkeypatch, running.api_db, running.cell_db)
    made = []
    boot = counter.of(lambda: made.append(client.boot(image, version='2.37', networks='auto')['id']),
                      lambda: client.get(f'/servers/{made[0]}').json()['server']['status'] == 'ACTIVE')
    print(driver, 'boot', boot)
    assert boot['statements'] <= most, '\n'.join(counter.seen)
    assert boot['write transactions'] <= budget.WRITE_TRANSACTIONS and boot['messages'] <= budget.MESSAGES
    gone = counter.of(lambda: client.delete(f'/servers/{made[0]}'),
                      lambda: client.get(f'/servers/{made[0]}').status_code == 404)
    print(driver, 'delete', gone)
    assert gone['statements'] <= most, '\n'.join(counter.seen)
    assert gone['write transactions'] <= budget.WRITE_TRANSACTIONS and gone['messages'] <= budget.MESSAGES


def test_calls_of_a_payload():
    subject = payloads.Subject(CTX, server_rows.row())
    made = min(calls(lambda: payloads.build('InstanceActionPayload', subject)) for _ in range(3))
    began = time.perf_counter()
    for _ in range(200):
        payloads.build('InstanceActionPayload', subject)
    print(f'{made} calls, {(time.perf_counter() - began) * 5000:.0f} µs')
    assert made <= CALLS
