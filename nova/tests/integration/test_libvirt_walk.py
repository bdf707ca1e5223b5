"""A server goes through every action of the API that the libvirt driver can do, and is asked for the others in every
state on the way: with a real guest, which needs what test_libvirt.py does, and with a fake one.
"""
import pathlib
import shutil
import tempfile

import pytest

from nova import actions
from nova import states
from nova.tests import long_runs
from nova.tests.functional import cloud
from nova.tests.support import libvirt as base
from nova.tests.support.libvirt_walk import _remove_guests
from nova.tests.support.waiting import wait_for


BODIES = {
    'reboot': {'type': 'SOFT'}, 'reboot-hard': {'type': 'HARD'}, 'os-getConsoleOutput': {},
    'os-resetState': {'state': 'active'}, 'changePassword': {'adminPass': 'new'}, 'resize': {'flavorRef': 'large'},
    'createImage': {'name': 'copy'}, 'createBackup': {'name': 'copy', 'backup_type': 'daily', 'rotation': 1},
    'os-migrateLive': {'host': None, 'block_migration': 'auto'}, 'evacuate': {},
}
NEWEST = '2.79'
# (action, status afterwards): each is carried out where the walk comes by
WALK = (
    ('os-getConsoleOutput', 'ACTIVE'), ('lock', 'ACTIVE'), ('unlock', 'ACTIVE'), ('changePassword', 'ACTIVE'),
    ('createImage', 'ACTIVE'), ('pause', 'PAUSED'), ('createBackup', 'PAUSED'), ('unpause', 'ACTIVE'),
    ('suspend', 'SUSPENDED'), ('createBackup', 'SUSPENDED'), ('resume', 'ACTIVE'), ('reboot', 'ACTIVE'),
    ('reboot-hard', 'ACTIVE'), ('os-stop', 'SHUTOFF'), ('createBackup', 'SHUTOFF'), ('os-start', 'ACTIVE'),
    ('rescue', 'RESCUE'), ('trigger_crash_dump', 'RESCUE'), ('unrescue', 'ACTIVE'), ('resize', 'VERIFY_RESIZE'),
    ('revertResize', 'ACTIVE'), ('resize', 'VERIFY_RESIZE'), ('confirmResize', 'ACTIVE'), ('rebuild', 'ACTIVE'),
    ('injectNetworkInfo', 'ACTIVE'), ('shelve', 'SHELVED'), ('shelveOffload', 'SHELVED_OFFLOADED'),
    ('unshelve', 'ACTIVE'), ('os-resetState', 'ACTIVE'),
)
# Three need another host; the others have tests of their own, with a volume, a share or a network.
ELSEWHERE = {'os-migrateLive', 'migrate', 'evacuate', 'addFixedIp', 'removeFixedIp', 'attach_interface',
             'detach_interface', 'attach_volume', 'detach_volume', 'swap_volume', 'attach_share', 'detach_share',
             'metadata', 'delete', 'softDelete', 'restore', 'forceDelete'}
# asked for by a request of their own, not by POST /servers/{id}/action, or for what only a server on a network has
OTHER_REQUESTS = {'attach_interface', 'detach_interface', 'attach_volume', 'detach_volume', 'swap_volume',
                  'attach_share', 'detach_share', 'metadata', 'delete', 'softDelete', 'addFixedIp', 'removeFixedIp'}
SETTLED = {'ACTIVE': states.ACTIVE, 'PAUSED': states.PAUSED, 'SUSPENDED': states.SUSPENDED, 'SHUTOFF': states.STOPPED,
           'RESCUE': states.RESCUED, 'VERIFY_RESIZE': states.RESIZED, 'SHELVED': states.SHELVED,
           'SHELVED_OFFLOADED': states.SHELVED_OFFLOADED}


@pytest.fixture(params=[pytest.param('fake', marks=long_runs.only), pytest.param('libvirt', marks=base.pytestmark)])
def running(request):
    path = pathlib.Path(tempfile.mkdtemp(prefix='nova-walk-', dir='/var/tmp'))
    path.chmod(0o711)
    try:
        with cloud.running(path / 'state', compute_driver=request.param, shelved_offload_time=-1, shutdown_timeout=1,
                           libvirt__wait_soft_reboot_seconds=1) as made:
            yield made
    finally:
        if request.param == 'libvirt':
            _remove_guests(path)
        shutil.rmtree(path)


def upload(client, driver):
    """The id of an image that boots."""
    if driver == 'fake':
        return client.upload_image(hw_qemu_guest_agent='yes')
    return client.upload_image((base.GUEST / 'guest.qcow2').read_bytes(), 'guest', disk_format='qcow2',
                               hw_qemu_guest_agent='yes')


def ask(client, server_id, name, image_id):
    body = {'rebuild': {'imageRef': image_id}}.get(name, BODIES.get(name))
    return client.post(f'/servers/{server_id}/action', {name.removesuffix('-hard'): body},
                       version=NEWEST)


def test_every_action_is_walked_or_has_tests_elsewhere():
    assert {name for name, _status in WALK} | ELSEWHERE == set(actions.ACTIONS)
    assert not {name for name, _status in WALK} & ELSEWHERE


def test_each_action_is_carried_out_or_refused_with_a_sentence(running):
    admin = running.admin()
    for name, ram in (('small', 96), ('large', 128)):
        made = admin.post('/flavors', {'flavor': {'name': name, 'id': name, 'vcpus': 1, 'ram': ram, 'disk': 1}})
        assert made.status_code == 200, made.text
    image_id = upload(admin, running.conf.compute_driver)
    ready = 'guest ready' if running.conf.compute_driver == 'libvirt' else 'booted'
    server_id = admin.boot(image_id, flavor='small', version=NEWEST, networks='none')['id']
    admin.wait_for(server_id, timeout=base.BOOT_SECONDS)
    wait_for(lambda: ready in admin.post(
        f'/servers/{server_id}/action', {'os-getConsoleOutput': {}}).json().get('output', ''), base.BOOT_SECONDS, 'it')
    before, refused = 'ACTIVE', set()
    for name, status in WALK:
        for other in actions.ROWS:
            allowed = other.conditions.vm_states
            if allowed is actions.ANY or other.name in OTHER_REQUESTS or (before, other.name) in refused:
                continue
            if SETTLED[before] not in allowed:
                answer = ask(admin, server_id, other.name, image_id)
                fault, = answer.json().values()
                assert answer.status_code == 409 and server_id in fault['message'], (before, other.name, answer.text)
                refused.add((before, other.name))
        answer = ask(admin, server_id, name, image_id)
        assert answer.status_code in (200, 202, 204), (before, name, answer.text)
        found = admin.wait_for(server_id, status, timeout=base.BOOT_SECONDS)
        assert found.get('fault') is None, (name, found['fault'])
        before = status
    assert len(refused) > 50
    records = admin.get(f'/servers/{server_id}/os-instance-actions', version=NEWEST).json()['instanceActions']
    assert not [each for each in records if each['message']], records
    backups = [image for image in admin.get('/image/v2/images').json()['images'] if image.get('image_type') == 'backup']
    assert len(backups) == 1, 'a rotation of one keeps the newest'
    assert admin.delete(f'/servers/{server_id}').status_code == 204
    admin.wait_for(server_id, 'DELETED')
    assert [path for path in running.state_path.glob(f'instances/{server_id}*')] == []
