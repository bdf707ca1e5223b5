"""What one server costs from POST to ACTIVE, and its deletion, in a whole cloud: statements, transactions, messages."""

import pytest

from nova.tests.functional import cloud
from nova.tests.support import boot_budget
from nova.tests.support.boot_budget import Counter
from nova.tests.support.boot_budget import MESSAGES
from nova.tests.support.boot_budget import QUIET
from nova.tests.support.boot_budget import STATEMENTS
from nova.tests.support.boot_budget import WRITE_TRANSACTIONS

still = boot_budget.still


# Of one without a network. Measured: 17, 5 and 5.
ALONE = {'statements': 17, 'write transactions': 5, 'messages': 5}
# Of its delete. Measured: 23, 5 and 4; one deletes the tags of the port.
DELETE_STATEMENTS, DELETE_TRANSACTIONS, DELETE_MESSAGES = 23, 5, 4
@pytest.fixture
def running(tmp_path, still):
    with cloud.running(tmp_path / 'state', **QUIET) as made:
        yield made


def test_one_boot_and_one_delete(running, monkeypatch):
    client = running.client()
    image = client.upload_image(b'\0' * 4096)
    warm = client.boot(image, version='2.37', networks='auto')
    client.wait_for(warm['id'])
    counter = Counter(monkeypatch, running.api_db, running.cell_db)
    made = []
    boot = counter.of(lambda: made.append(client.boot(image, version='2.37', networks='auto')['id']),
                      lambda: client.get(f'/servers/{made[0]}').json()['server']['status'] == 'ACTIVE')
    seen = '\n'.join(counter.seen)
    assert client.wait_for(made[0])['addresses']['private']
    assert boot['statements'] <= STATEMENTS, seen
    assert boot['write transactions'] <= WRITE_TRANSACTIONS, seen
    assert boot['messages'] <= MESSAGES, seen

    alone = counter.of(lambda: made.append(client.boot(image, version='2.37', networks='none')['id']),
                       lambda: client.get(f'/servers/{made[1]}').json()['server']['status'] == 'ACTIVE')
    assert all(alone[what] <= most for what, most in ALONE.items()), '\n'.join(counter.seen)

    gone = counter.of(lambda: client.delete(f'/servers/{made[0]}'),
                      lambda: client.get(f'/servers/{made[0]}').status_code == 404)
    seen = '\n'.join(counter.seen)
    assert gone['statements'] <= DELETE_STATEMENTS, seen
    assert gone['write transactions'] <= DELETE_TRANSACTIONS, seen
    assert gone['messages'] <= DELETE_MESSAGES, seen
