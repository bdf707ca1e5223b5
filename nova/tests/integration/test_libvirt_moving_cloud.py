"""Servers with real guests that move between the hosts of a cloud, as its users ask for it over HTTP."""
import json
import urllib.parse

import pytest
from websockets import exceptions as closed
from websockets.sync import client as websocket

from nova import actions
from nova import states
from nova.tests import guests_consoles as consoles
from nova.tests import long_runs
from nova.tests.support import waiting
from nova.tests.integration import moving
from nova.tests.integration import moving_cloud
from nova.tests.support import libvirt as base
from nova.virt.libvirt.local_disks import records

pytestmark = moving.needed
ONE, TWO = 'compute1', 'compute2'


@pytest.fixture(scope='module')
def fleet():
    with moving_cloud.fleet() as made:
        yield made


@pytest.fixture(autouse=True)
def clean(fleet):
    yield
    fleet.restore()


def screen(url):
    """The size of the screen that a console's address leads to; None: it leads nowhere now."""
    try:
        with websocket.connect(url, subprotocols=['binary'], compression=None, proxy=None, max_size=None) as opened:
            return consoles.Screen(opened).begin().size
    except (closed.InvalidStatus, closed.ConnectionClosed):
        return None


def test_guest_moves_live_and_cold_and_back(fleet):
    server = fleet.boot(ONE, config_drive=True)['id']
    fleet.keep(ONE, server)
    answer = fleet.admin.post(f'/servers/{server}/remote-consoles', {
        'remote_console': {'protocol': 'vnc', 'type': 'novnc'}})
    assert answer.status_code == 200, answer.text
    parts = urllib.parse.urlsplit(answer.json()['remote_console']['url'])
    token = urllib.parse.unquote(parts.query).rpartition('token=')[2]
    url = urllib.parse.urlunsplit(('ws', parts.netloc, parts.path, f'token={token}', ''))
    with websocket.connect(url, subprotocols=['binary'], compression=None, proxy=None, max_size=None) as opened:
        size = consoles.Screen(opened).begin().size
        fleet.migrate_live(server, TWO)
        fleet.migrated(server)
        with pytest.raises(closed.ConnectionClosed):
            for _piece in range(1000):
                opened.recv(30)
    assert waiting.wait_for(lambda: screen(url), 20, 'the console to follow the guest') == size
    fleet.remembers(TWO, server)
    fleet.settled_at(TWO, server)
    disk = json.loads((fleet.places[TWO] / 'instances' / server / records.RECORD).read_text())['disks'][0]
    assert disk['backing_file'].startswith(str(fleet.places[TWO])), 'only what the guest had changed was sent'
    fleet.act(server, 'migrate', {'host': ONE})
    fleet.migrated(server, 'finished', 'VERIFY_RESIZE')
    fleet.settled_at(ONE, server, kept=[TWO])
    fleet.act(server, 'revertResize')
    fleet.migrated(server, 'reverted')
    fleet.settled_at(TWO, server)
    fleet.booted_on(TWO, server)
    fleet.remembers(TWO, server, memory=False)
    fleet.act(server, 'migrate', {'host': ONE})
    fleet.migrated(server, 'finished', 'VERIFY_RESIZE')
    fleet.act(server, 'confirmResize', code=204)
    fleet.migrated(server, 'confirmed')
    fleet.settled_at(ONE, server)


@long_runs.only
def test_aborted_and_failed_migrations_stay_and_forced_ones_complete(fleet):
    server = fleet.boot(ONE)['id']
    fleet.keep(ONE, server)
    with fleet.slow(ONE):
        fleet.migrate_live(server, TWO)
        migration = fleet.running(server)
        assert fleet.admin.delete(f'/servers/{server}/migrations/{migration}').status_code == 202
        fleet.migrated(server, 'cancelled')
        fleet.settled_at(ONE, server)
        fleet.parts[TWO].kill()                          # nova-compute is up there, and its libvirt is not
        fleet.migrate_live(server, TWO)
        fleet.migrated(server, 'error')
        fleet.parts[TWO].start()
        fleet.settled_at(ONE, server)
        waiting.wait_for(lambda: TWO in fleet.enabled(), 60, 'the host to take servers again')
        fleet.migrate_live(server, TWO)
        migration = fleet.running(server)
        answer = fleet.admin.post(f'/servers/{server}/migrations/{migration}/action', {'force_complete': None})
        assert answer.status_code == 202, answer.text
        fleet.migrated(server)
    fleet.remembers(TWO, server)
    fleet.settled_at(TWO, server)


def test_an_evacuated_guest_is_on_one_host_when_the_other_is_back(fleet):
    server = fleet.boot(ONE)['id']
    fleet.switch_off(ONE)
    fleet.evacuate(server, TWO)
    fleet.switch_on(ONE)
    fleet.migrated(server)               # the old host has cleaned up
    fleet.settled_at(TWO, server)
    fleet.booted_on(TWO, server)


@long_runs.only
def test_a_shelved_server_comes_back_on_another_host_with_its_disk(fleet):
    server = fleet.boot(ONE)['id']
    fleet.keep(ONE, server)
    fleet.act(server, 'shelve')
    fleet.user_server(server, 'SHELVED_OFFLOADED')
    waiting.wait_for(lambda: fleet.left_of(server) == [], 20, 'what it had on its host to go')
    fleet.act(server, 'unshelve', {'host': TWO})
    fleet.user_server(server)
    fleet.settled_at(TWO, server)
    fleet.booted_on(TWO, server)
    fleet.remembers(TWO, server, memory=False)


@long_runs.only
def test_maintenance_empties_a_host_and_fills_it_again(fleet):
    running, stopped = fleet.boot(ONE)['id'], fleet.boot(ONE)['id']
    fleet.keep(ONE, running)
    fleet.act(stopped, 'os-stop')
    fleet.user_server(stopped, 'SHUTOFF')
    made = fleet.admin.post('/os-aggregates', {'aggregate': {'name': 'all'}}).json()['aggregate']['id']
    for name in (ONE, TWO):
        fleet.admin.post(f'/os-aggregates/{made}/action', {'add_host': {'host': name}})

    def do(what, status):
        answer = fleet.admin.post(f'/os-aggregates/{made}/action', {f'os-host-maintenance:{what}': {'host': ONE}})
        assert answer.status_code == 202, answer.text
        path = f'/os-aggregates/{made}/os-host-maintenance/{ONE}'
        waiting.wait_for(lambda: fleet.admin.get(path).json()['os-host-maintenance']['status'] == status, 120,
                         f'{fleet.admin.get(path).json()} to be {status}', pause_s=0.5)
    do('start', 'maintenance')
    assert fleet.guests()[ONE] == {}
    fleet.settled_at(TWO, running)
    fleet.settled_at(TWO, stopped, states.SHUTDOWN)
    fleet.remembers(TWO, running)
    do('stop', 'ended')
    fleet.settled_at(ONE, running)
    fleet.settled_at(ONE, stopped, states.SHUTDOWN)
    for name in (ONE, TWO):
        fleet.admin.post(f'/os-aggregates/{made}/action', {'remove_host': {'host': name}})


def test_in_each_state_a_server_moves_or_is_refused(fleet):
    server, here, there = fleet.boot(ONE, booted=False)['id'], ONE, TWO
    for into, out_of, status, vm_state, power in (
            ('pause', 'unpause', 'PAUSED', states.PAUSED, states.POWER_PAUSED),
            ('suspend', 'resume', 'SUSPENDED', states.SUSPENDED, states.POWER_SUSPENDED),
            ('rescue', 'unrescue', 'RESCUE', states.RESCUED, states.RUNNING),
            ('os-stop', 'os-start', 'SHUTOFF', states.STOPPED, states.SHUTDOWN)):
        answer = fleet.admin.post(f'/servers/{server}/action', {into: None})
        assert answer.status_code in (200, 202), answer.text
        fleet.user_server(server, status)
        for move in ('os-migrateLive', 'migrate'):
            body = {'host': there, **({'block_migration': 'auto'} if move == 'os-migrateLive' else {})}
            answer = fleet.admin.post(f'/servers/{server}/action', {move: body}, version='2.79')
            if vm_state not in actions.ACTIONS[move].conditions.vm_states:
                assert answer.status_code == 409 and server in answer.text, (status, move, answer.text)
                continue
            assert answer.status_code == 202, answer.text
            if move == 'migrate':
                fleet.migrated(server, 'finished', 'VERIFY_RESIZE')
                fleet.act(server, 'confirmResize', code=204)
            fleet.migrated(server, 'confirmed' if move == 'migrate' else 'completed', status)
            here, there = there, here
            fleet.settled_at(here, server, power)
        fleet.act(server, out_of)
        fleet.user_server(server)
    fleet.settled_at(here, server)


def test_uefi_variables_and_a_tpm_go_with_their_server(fleet):
    """Of one that runs, and of one that is off: then the state is the same to the byte."""
    made = fleet.admin.post('/flavors', {'flavor': {'name': 'tpm', 'id': 'tpm', 'vcpus': 1, 'ram': 192, 'disk': 1}})
    assert made.status_code == 200, made.text
    specs = {'hw:tpm_version': '2.0', 'hw:tpm_model': 'tpm-crb'}
    assert fleet.admin.post('/flavors/tpm/os-extra_specs', {'extra_specs': specs}).status_code == 200
    image = fleet.admin.upload_image((base.GUEST / 'guest.qcow2').read_bytes(), 'uefi', disk_format='qcow2',
                                     hw_firmware_type='uefi')
    server = fleet.boot(ONE, 'tpm', image, booted=False)['id']

    def kept(name):
        variables = fleet.places[name] / 'instances' / server / 'disk.nvram'
        state = fleet.cluster.hosts.directory(name) / 'lib' / 'swtpm' / server / 'tpm2' / 'tpm2-00.permall'
        return state.read_bytes(), variables.exists() and variables.read_bytes()
    fleet.migrate_live(server, TWO)
    fleet.migrated(server)
    fleet.settled_at(TWO, server)
    fleet.act(server, 'os-stop')
    fleet.user_server(server, 'SHUTOFF')
    before = kept(TWO)
    assert all(before)
    for action, code, status, home in (('revertResize', 202, 'reverted', TWO),
                                       ('confirmResize', 204, 'confirmed', ONE)):
        fleet.act(server, 'migrate', {'host': ONE})
        fleet.migrated(server, 'finished', 'VERIFY_RESIZE')
        assert kept(ONE) == before
        fleet.act(server, action, code=code)
        fleet.migrated(server, status, 'SHUTOFF')
        fleet.settled_at(home, server, states.SHUTDOWN)
        assert kept(home) == before
    fleet.act(server, 'os-start')
    fleet.user_server(server)
    fleet.settled_at(ONE, server)


def _volume(fleet, name, **fields):
    made = fleet.admin.post('/volume/v3/volumes', {'volume': {'name': name, 'size': 1, **fields}})
    assert made.status_code == 202, made.text
    path = '/volume/v3/volumes/' + made.json()['volume']['id']
    waiting.wait_for(lambda: fleet.admin.get(path).json()['volume']['status'] == 'available', 120, f'volume {name}')
    return made.json()['volume']['id']


def _attachments(fleet, server):
    """{host of each attachment of the server's volumes}, which must all be in use."""
    found = [each for each in fleet.admin.get('/volume/v3/volumes/detail').json()['volumes'] if each['attachments']]
    assert {each['status'] for each in found} == {'in-use'}
    held = [each for volume in found for each in volume['attachments']]
    assert {each['server_id'] for each in held} == {server} and len(held) == len(found) == 2
    hosts = {each['host_name'] for each in held}
    assert fleet.exported() == {host: 2 for host in hosts}, 'any other host is shut out'
    return hosts


def _count(fleet, volume):
    """The number that a guest's loop has written last."""
    return int(fleet.stored(volume, 16, 4096).split(b'\n')[0].strip(b'\0') or b'0')


def _goes_on(fleet, volume):
    """Whether the loop writes still, after what it has written until now."""
    before = _count(fleet, volume)
    waiting.wait_for(lambda: _count(fleet, volume) > before + 1, 30, 'the guest to write')


def _with_volumes(fleet):
    """A server that boots from a volume, and so has no disk on any host, and has one more: (id, id of that one)."""
    root, data = _volume(fleet, 'root', imageRef=fleet.image), _volume(fleet, 'data')
    made = fleet.admin.boot('', flavor='small', host=ONE, networks='auto', block_device_mapping_v2=[
        {'uuid': root, 'source_type': 'volume', 'destination_type': 'volume', 'boot_index': 0}])
    server = fleet.user_server(made['id'])['id']
    fleet.booted_on(ONE, server)
    answer = fleet.admin.post(f'/servers/{server}/os-volume_attachments', {'volumeAttachment': {'volumeId': data}})
    assert answer.status_code == 200, answer.text
    fleet.keep(ONE, server)
    fleet.tell(ONE, server, 'echo data-$((40+2)) >/dev/vdb; sync; head -n1 /dev/vdb', 'data-42')
    return server, data


def _writes(fleet, volume, server):
    """The guest writes numbers from now on, one a second."""
    loop = 'while N=$((N+1)); do echo $N | dd of=/dev/vdb bs=4096 seek=1 conv=fsync 2>/dev/null; sleep 1; done'
    fleet.tell(ONE, server, f'[ $L ] || {{ L=1; {loop} & }}; echo loop-$((40+2))', 'loop-42')
    _goes_on(fleet, volume)


@long_runs.only
def test_volumes_go_with_their_server(fleet):
    """Both are exports for either host; a guest that runs writes on, and the host that it left is shut out."""
    server, data = _with_volumes(fleet)
    _writes(fleet, data, server)
    assert _attachments(fleet, server) == {ONE}
    with fleet.slow(ONE):
        fleet.migrate_live(server, TWO)
        migration = fleet.running(server)
        assert fleet.exported() == {ONE: 2, TWO: 2}
        fleet.admin.delete(f'/servers/{server}/migrations/{migration}')
        fleet.migrated(server, 'cancelled')
    fleet.settled_at(ONE, server)
    assert _attachments(fleet, server) == {ONE}
    _goes_on(fleet, data)
    fleet.migrate_live(server, TWO)
    fleet.migrated(server)
    fleet.remembers(TWO, server)
    _goes_on(fleet, data)
    fleet.settled_at(TWO, server)
    assert _attachments(fleet, server) == {TWO}
    for action, code, status, home in (('revertResize', 202, 'reverted', TWO),
                                       ('confirmResize', 204, 'confirmed', ONE)):
        fleet.act(server, 'migrate', {'host': ONE})
        fleet.migrated(server, 'finished', 'VERIFY_RESIZE')
        assert _attachments(fleet, server) == {ONE}
        fleet.act(server, action, code=code)
        fleet.migrated(server, status)
        fleet.settled_at(home, server)
        assert _attachments(fleet, server) == {home}
    fleet.booted_on(ONE, server)
    fleet.remembers(ONE, server, memory=False)
    fleet.tell(ONE, server, 'head -n1 /dev/vdb', 'data-42')


@long_runs.only
def test_a_host_that_was_only_thought_dead_is_shut_out_of_the_volumes(fleet):
    """Its nova-compute is gone and its guest runs on, while the server is evacuated."""
    server, data = _with_volumes(fleet)
    _writes(fleet, data, server)
    fleet.kill(ONE)
    waiting.wait_for(lambda: ONE not in fleet.up(), 60, f'{ONE} to be down')
    _goes_on(fleet, data)
    fleet.evacuate(server, TWO)
    assert _attachments(fleet, server) == {TWO}
    assert server in fleet.guests()[ONE] and server in fleet.guests()[TWO]
    last = _count(fleet, data)
    with pytest.raises(AssertionError):
        waiting.wait_for(lambda: _count(fleet, data) != last, 4, 'a guest that is shut out to write')
    fleet.start(ONE)
    fleet.all_up()
    fleet.migrated(server)
    fleet.settled_at(TWO, server)
    assert _attachments(fleet, server) == {TWO}
    fleet.booted_on(TWO, server)
    fleet.remembers(TWO, server, memory=False)
    fleet.tell(TWO, server, 'head -n1 /dev/vdb', 'data-42')
