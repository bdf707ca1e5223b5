"""Actions that need an agent in the guest are refused where the image of the server names none."""
import itertools

import pytest

from nova.tests.functional import servers

AGENT, QUIESCE = {'hw_qemu_guest_agent': 'yes'}, {'os_require_quiesce': 'yes'}
PASSWORD, IMAGE = {'changePassword': {'adminPass': 'secret'}}, {'createImage': {'name': 'copy'}}
NUMBERS = itertools.count(1)
BACKUP = {'createBackup': {'name': 'copy', 'backup_type': 'daily', 'rotation': 1}}


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    fixture = servers.Servers(tmp_path_factory.mktemp('api'))
    with fixture.cell_db.writer() as conn:
        fixture.add_host(conn, 'agents', 'agents', guest_agent=True)
        fixture.add_host(conn, 'older', 'older')
    yield fixture
    fixture.close()


def ask(cloud, body, properties, host='agents', vm_state='active'):
    made = cloud.add_server(next(NUMBERS), host=host, node=host, vm_state=vm_state, image_properties=properties)
    return cloud.client().post(f'/servers/{made}/action', body)


@pytest.mark.parametrize(('body', 'properties', 'vm_state', 'reason'), [
    (PASSWORD, {}, 'active', 'hw_qemu_guest_agent=yes'), (PASSWORD, {'hw_qemu_guest_agent': 'no'}, 'active', 'rebuild'),
    (IMAGE, QUIESCE, 'active', 'os_require_quiesce'), (IMAGE, QUIESCE, 'paused', 'hw_qemu_guest_agent=yes'),
    (BACKUP, QUIESCE, 'active', 'os_require_quiesce'), (IMAGE, AGENT | QUIESCE, 'paused', 'paused')])
def test_guest_agent_action_that_cannot_succeed_returns_409_with_the_reason(cloud, body, properties, vm_state, reason):
    """It was accepted: no password was set, and the image was deleted without a word."""
    answer = ask(cloud, body, properties, vm_state=vm_state)
    assert answer.status == 409 and reason in answer.json['conflictingRequest']['message'], answer.json


@pytest.mark.parametrize(('body', 'properties', 'vm_state', 'host'), [
    (PASSWORD, AGENT, 'active', 'agents'), (IMAGE, AGENT | QUIESCE, 'active', 'agents'),
    (IMAGE, {}, 'active', 'agents'), (IMAGE, QUIESCE, 'stopped', 'agents'),
    (BACKUP, AGENT | QUIESCE, 'active', 'agents'), (PASSWORD, {}, 'active', 'older')])
def test_guest_agent_action_that_can_succeed_is_accepted(cloud, body, properties, vm_state, host):
    assert ask(cloud, body, properties, host, vm_state).status == 202
