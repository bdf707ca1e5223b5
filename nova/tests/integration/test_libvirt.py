"""The libvirt driver with real QEMU guests: the contract of all drivers, and what only real guests show.

Needs root, a libvirtd that answers (tools/libvirt-host.sh) and the guest image (tools/guest-image.sh) in the
directory that NOVA_TEST_GUEST_DIR names.
"""
import _socket
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from xml.etree import ElementTree as etree

import pytest

from nova import exception
from nova import states
from nova.image.embedded import files
from nova.tests import long_runs
from nova.tests.contract import driver_contract
from nova.virt import driver as contract

from nova.tests.support import libvirt as shared_libvirt
from nova.tests.support.libvirt import BOOT_SECONDS
from nova.tests.support.libvirt import DISK_ID
from nova.tests.support.libvirt import GUEST
from nova.tests.support.libvirt import Images
from nova.tests.support.libvirt import KERNEL_ID
from nova.tests.support.libvirt import RAMDISK_ID
from nova.tests.support.libvirt import ROOT_ID
from nova.tests.support.libvirt import URI
from nova.tests.support.libvirt import libvirt
from nova.tests.support.libvirt import make_driver
from nova.tests.support.libvirt import make_instance
from nova.tests.support.libvirt import spawn
from nova.tests.support.libvirt import wait_for
from nova.virt.libvirt import disk_backups

instance = shared_libvirt.instance
module_rig = shared_libvirt.module_rig
pytestmark = shared_libvirt.pytestmark
rig = shared_libvirt.rig
state_path = shared_libvirt.state_path


@pytest.fixture(scope='module')
def module_system(module_rig):
    """An instance that boots once for all tests of ``system``: a boot is most of what any of them costs."""
    made = make_instance()
    meta_data = json.dumps({'uuid': made.uuid, 'hostname': 'my-name'}).encode()
    spawn(module_rig, made, config_drive={'openstack/latest/meta_data.json': meta_data})
    yield made
    module_rig.driver.destroy(None, made, [])


@pytest.fixture
def system(rig, module_system):
    """A running instance whose system is up; a test may leave it off."""
    if rig.driver.power_state(module_system) != states.RUNNING:
        rig.booted_again(module_system, lambda: rig.driver.reboot(None, module_system, [], True))
    rig.booted(module_system)
    rig.events.clear()
    return module_system


class TestContract(driver_contract.DriverContract):
    pass


# ---- boot -------------------------------------------------------------------------------

def test_a_guest_that_cannot_be_started_says_what_is_missing(rig, instance):
    """What a server of a restored database needs on its host."""
    assert f'has no disks of server {instance.uuid}' in rig.driver.why_unstartable(instance)
    spawn(rig, instance)
    assert rig.driver.why_unstartable(instance) is None
    rig.driver.power_off(instance)
    assert rig.driver.why_unstartable(instance) is None
    disk = rig.instances / instance.uuid / 'disk'
    disk.rename(disk.with_name('aside'))
    assert rig.driver.why_unstartable(instance) == 'Host a-host lacks the file disk of its disks.'
    disk.with_name('aside').rename(disk)
    assert rig.driver.why_unstartable(instance) is None


def test_guest_boots_and_finds_its_config_drive(rig, system):
    line = next(line for line in rig.console(system).splitlines() if b'guest ready' in line)
    assert system.uuid.encode() in line and b'my-name' in line


def test_guest_boots_with_kernel_and_ramdisk(rig, instance):
    instance.kernel_id, instance.ramdisk_id = KERNEL_ID, RAMDISK_ID
    spawn(rig, instance, image=rig.images.show(None, ROOT_ID))
    wait_for(lambda: b'guest ready' in rig.console(instance), BOOT_SECONDS, 'the guest to boot')


def _qemu_user(instance):
    for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
        with contextlib.suppress(OSError):
            if b'-uuid\0' + instance.uuid.encode() in path.read_bytes() and path.parent.joinpath('exe').exists():
                return path.parent.stat().st_uid, path.parent.stat().st_gid
    raise AssertionError('the guest does not run')


def test_a_guest_cannot_write_the_image_that_it_shares_with_others(rig, instance):
    base = pathlib.Path(rig.driver.storage.cache.fetch(None, rig.image).path)

    def seen():
        status = base.stat()
        return status.st_uid, status.st_gid, status.st_mode & 0o7777
    spawn(rig, instance)
    uid, gid = _qemu_user(instance)
    assert uid != 0 and seen() == (0, 0, 0o444)
    for attempt in (f'echo x >>{base}', f'chmod 777 {base}', f'rm {base}', f'mv {base} {base}.other'):
        done = subprocess.run(['setpriv', f'--reuid={uid}', f'--regid={gid}', '--clear-groups', '--', 'sh', '-c',
                               attempt], capture_output=True, text=True)
        assert done.returncode and ('Permission' in done.stderr or 'not permitted' in done.stderr), (attempt, done)
    assert subprocess.run(['setpriv', f'--reuid={uid}', f'--regid={gid}', '--clear-groups', '--', 'head', '-c1', base],
                          capture_output=True).returncode == 0      # it does read it
    rig.driver.reboot(None, instance, [], True)
    assert seen() == (0, 0, 0o444)
    rig.driver.power_off(instance)
    rig.driver.features[contract.Snapshot].snapshot(None, instance, 'snap', lambda step: None)
    assert seen() == (0, 0, 0o444)
    rig.driver.destroy(None, instance, [])
    assert seen() == (0, 0, 0o444)


def test_a_host_that_does_not_keep_guests_apart_says_so(rig):
    connection = libvirt.open(URI)
    capabilities = connection.getCapabilities()
    connection.close()
    labels = {model.text for model in etree.fromstring(capabilities).findall('./host/secmodel/model')}
    said = [text for text in rig.driver.weaknesses if 'neither AppArmor nor SELinux' in text]
    assert len(said) == (0 if labels & {'apparmor', 'selinux'} else 1)


def test_spawn_of_a_cached_image_is_fast(rig, instance):
    rig.driver.storage.cache.fetch(None, rig.image)
    times, downloads = [], list(rig.images.downloads)
    while not times or min(times) > 1.5 and len(times) < 20:        # a busy machine needs luck
        began = time.monotonic()
        spawn(rig, instance)
        times.append(time.monotonic() - began)
    assert min(times) < 5 and rig.images.downloads == downloads, times


def test_parallel_spawns_download_once(state_path, rig):
    images = Images(delay=0.5)
    other = make_driver(state_path / 'parallel', images)
    (state_path / 'parallel').mkdir(mode=0o711)
    other.init_host()
    instances = [make_instance(memory_mb=64) for _ in range(3)]
    try:
        request = contract.SpawnRequest(image=rig.image, network_info=[])
        threads = [threading.Thread(target=other.spawn, args=(None, made, request)) for made in instances]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert images.downloads == [DISK_ID]
        assert other.guests() == {made.uuid: states.RUNNING for made in instances}
        assert not set(rig.driver.guests()) & set(other.guests()), 'two deployments see only their own guests'
    finally:
        for made in instances:
            other.destroy(None, made, [])
        other.stop()


def test_port_is_plugged_and_goes_with_the_guest(rig, instance):
    bridge = 'lv' + uuid.uuid4().hex[:8]
    devname = 'tap' + uuid.uuid4().hex[:11]
    vif = {'id': str(uuid.uuid4()), 'address': 'fa:16:3e:01:02:03', 'type': 'bridge', 'devname': devname,
           'network': {'bridge': bridge, 'mtu': 1450, 'subnets': []}}
    subprocess.run(['ip', 'link', 'add', bridge, 'type', 'bridge'], check=True)
    try:
        spawn(rig, instance, network_info=[vif])
        port = pathlib.Path('/sys/class/net', devname)
        assert (port / 'brport/bridge').resolve().name == bridge
        assert (port / 'mtu').read_text().strip() == '1450'
        rig.driver.reboot(None, instance, [], True)
        wait_for(lambda: not port.exists(), 10, 'a hard reboot to take the networks that the server has now')
        rig.driver.reboot(None, instance, [vif], True)
        assert port.exists()
        rig.driver.destroy(None, instance, [vif])
        wait_for(lambda: not port.exists(), 10, 'the device to go')
    finally:
        subprocess.run(['ip', 'link', 'del', bridge], check=True)


def test_guest_sees_ports_come_and_go(rig, system):
    vif = rig.vif()
    port = pathlib.Path('/sys/class/net', vif['devname'])
    rig.driver.features[contract.Interfaces].attach_interface(None, system, vif)
    assert (port / 'brport/bridge').resolve().name == rig.bridge
    rig.type(system, 'until grep -s : /sys/class/net/e*/address; do sleep 1; done')       # it takes its time
    wait_for(lambda: vif['address'].encode() in rig.console(system), BOOT_SECONDS, 'the port in the guest')
    rig.driver.features[contract.Interfaces].detach_interface(None, system, vif)
    wait_for(lambda: not port.exists(), 10, 'the device to go')


@long_runs.only
def test_q35_guest_gets_many_ports(rig, instance):
    spawn(rig, instance, image={**rig.image, 'properties': {'hw_machine_type': 'q35'}})
    rig.booted(instance)
    vifs = [rig.vif() for _ in range(10)]
    for vif in vifs:
        rig.driver.features[contract.Interfaces].attach_interface(None, instance, vif)
    assert rig.ports(instance) == [vif['id'] for vif in vifs]
    rig.driver.features[contract.Interfaces].detach_interface(None, instance, vifs[4])
    assert len(rig.ports(instance)) == 9


@long_runs.only
def test_a_guest_that_holds_a_port_keeps_it(rig, instance, monkeypatch):
    """A guest whose system is not up does not let a device go: it stays plugged, and goes at the next start."""
    monkeypatch.setattr('nova.virt.libvirt.guest_power.RELEASE_S', 1)
    vif = rig.vif()
    spawn(rig, instance, network_info=[vif])
    rig.driver.features[contract.Pause].pause(instance)
    with pytest.raises(exception.VirtError):
        rig.driver.features[contract.Interfaces].detach_interface(None, instance, vif)
    assert rig.ports(instance) == [vif['id']]
    rig.driver.reboot(None, instance, [], True)
    assert rig.ports(instance) == []


# ---- power ------------------------------------------------------------------------------

@long_runs.only
def test_guest_shuts_down_when_it_is_asked(rig, instance):
    spawn(rig, instance)
    rig.booted(instance)
    rig.type(instance, 'killall acpid; acpid -d -c /etc/acpi &')
    began = time.monotonic()
    rig.driver.power_off(instance, timeout=BOOT_SECONDS)
    assert rig.driver.power_state(instance) == states.SHUTDOWN
    assert time.monotonic() - began < BOOT_SECONDS
    assert b'poweroff' in rig.console(instance) or b'going down' in rig.console(instance)


def test_suspended_guest_goes_on_where_it_was(rig, system):
    rig.type(system, 'fact=kept')
    rig.driver.features[contract.Suspend].suspend(system)
    rig.driver.features[contract.Suspend].resume(None, system, [])
    rig.type(system, 'echo "<$fact>"')
    wait_for(lambda: b'<kept>' in rig.console(system), BOOT_SECONDS, 'the answer')


def test_intermediate_states_are_not_told(rig, instance):
    spawn(rig, instance)
    rig.driver.reboot(None, instance, [], True)
    time.sleep(1)
    assert set(rig.events) <= {(instance.uuid, states.RUNNING)}


# ---- snapshots ----------------------------------------------------------------------------

@pytest.mark.parametrize('prepare', long_runs.rest(['running', 'pause', 'suspend', 'power_off']))
def test_snapshot_is_one_whole_qcow2(rig, system, prepare, tmp_path, monkeypatch):
    rig.type(system, 'echo written-by-the-guest-$((1 + 1)) >/root/file; sync; echo done-$((2 + 2))')
    wait_for(lambda: b'done-4' in rig.console(system), BOOT_SECONDS, 'the file to be written')
    if prepare != 'running':
        feature = {'pause': contract.Pause, 'suspend': contract.Suspend}.get(prepare)
        getattr(rig.driver.features[feature] if feature else rig.driver, prepare)(system)
    state, copied = rig.driver.power_state(system), []
    monkeypatch.setattr(disk_backups, 'REPORT_S', -1)           # with each look
    monkeypatch.setattr(disk_backups, 'POLL_INTERVAL_S', 0.01)
    rig.driver.features[contract.Snapshot].snapshot(None, system, 'snap', lambda step: None, copied.append)
    assert rig.driver.power_state(system) == state
    assert bool(copied) == (prepare in ('running', 'pause')) and copied == sorted(copied)
    assert all(0 <= percent <= 100 for percent in copied)
    data, disk_format = rig.uploads['snap']
    file = tmp_path / 'snapshot'
    file.write_bytes(data)
    info = json.loads(subprocess.check_output(['qemu-img', 'info', '--output=json', '-f', 'qcow2', file]))
    assert disk_format == 'qcow2' and info['virtual-size'] == 1024 ** 3 and 'backing-filename' not in info
    subprocess.run(['qemu-img', 'check', '-f', 'qcow2', file], check=True, capture_output=True)
    subprocess.run(['qemu-img', 'convert', '-f', 'qcow2', '-O', 'raw', file, tmp_path / 'raw'], check=True)
    assert subprocess.run(['grep', '-aq', 'written-by-the-guest-2', tmp_path / 'raw']).returncode == 0
    assert list(rig.instances.glob('*/snapshot-*')) == []


def test_a_snapshot_is_moved_into_the_image_store(rig, system, state_path, monkeypatch):
    """QEMU has closed the copy by then, and libvirt has given the file back: nothing but the store can write it."""
    store = files.Files(str(state_path / 'images'), 2 ** 40)
    monkeypatch.setattr(rig.images, 'store', store)
    rig.driver.features[contract.Snapshot].snapshot(None, system, 'moved', lambda step: None)
    data, _format = rig.uploads['moved']
    columns, path = rig.images.adopted['moved'], pathlib.Path(store.path('moved'))
    assert columns is not None and columns['size'] == len(data)
    assert path.read_bytes() == data and (path.stat().st_uid, path.stat().st_mode & 0o777) == (0, 0o600)
    assert list(rig.instances.glob('*/snapshot-*')) == []


# ---- what the host tells -----------------------------------------------------------------

def test_connection_that_breaks_is_made_again(rig, system):
    """As when libvirtd restarts: calls go on, and events that were missed are made up for.

    The last test of ``system``, which is off afterwards.
    """
    time.sleep(0.5)
    rig.events.clear()
    assert _break_connections() > 0
    wait_for(lambda: (system.uuid, states.RUNNING) in rig.events, BOOT_SECONDS, 'the states after reconnecting')
    _break_connections()
    assert rig.driver.power_state(system) == states.RUNNING
    rig.halt(system)
    wait_for(lambda: (system.uuid, states.SHUTDOWN) in rig.events, BOOT_SECONDS, 'the event')


def _break_connections():
    """Shut every socket of this process to libvirtd; how many there were."""
    broken = 0
    for name in os.listdir('/proc/self/fd'):
        if not os.path.realpath(f'/proc/self/fd/{name}').rpartition('/')[2].startswith('socket:'):
            continue
        # The C type: under eventlet the module's own would change the mode of what it wraps.
        with contextlib.suppress(OSError), contextlib.closing(_socket.socket(fileno=os.dup(int(name)))) as copy:
            if copy.family == _socket.AF_UNIX and str(copy.getpeername()).endswith('libvirt-sock'):
                copy.shutdown(_socket.SHUT_RDWR)
                broken += 1
    return broken


# ---- what fails --------------------------------------------------------------------------

def test_failed_upload_leaves_the_guest_and_no_file(rig, instance, monkeypatch):
    spawn(rig, instance)

    def upload(_context, image_id, path, disk_format, moved=None, give=False):
        raise exception.ImageNotFound(image_id=image_id)

    monkeypatch.setattr(rig.images, 'upload', upload)
    with pytest.raises(exception.ImageNotFound):
        rig.driver.features[contract.Snapshot].snapshot(None, instance, 'gone', lambda step: None)
    assert rig.driver.power_state(instance) == states.RUNNING
    assert list(rig.instances.glob('*/snapshot-*')) == []


def test_destroy_during_a_snapshot_leaves_nothing(rig, instance, monkeypatch):
    """Class I."""
    spawn(rig, instance)
    monkeypatch.setattr(rig.images, 'upload', lambda *_args, **_more: rig.driver.destroy(None, instance, []))
    rig.driver.features[contract.Snapshot].snapshot(None, instance, 'snap', lambda step: None)
    assert rig.leftovers(instance.uuid) == []


def test_header_that_a_guest_writes_is_data(state_path, rig, tmp_path):
    """Class B: a raw root disk that begins with a qcow2 header naming a file of the host."""
    secret = tmp_path / 'secret'
    secret.write_bytes(b'secret of the host ' * 100000)
    header = tmp_path / 'header'
    subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', '-b', secret, '-F', 'raw', header], check=True)
    other = make_driver(state_path / 'raw', rig.images, libvirt__images_type='raw')
    (state_path / 'raw').mkdir(mode=0o711)
    other.init_host()
    made = make_instance()
    try:
        other.spawn(None, made, contract.SpawnRequest(image=rig.image, network_info=[]))
        other.power_off(made)
        with open(other.storage.path(made.uuid, 'disk'), 'r+b') as disk:
            disk.write(header.read_bytes())
        for change in (lambda: None, lambda: other.reboot(None, made, [], True)):
            change()
            other.features[contract.Snapshot].snapshot(None, made, 'snap', lambda step: None)
            file = tmp_path / 'snapshot'
            file.write_bytes(rig.uploads['snap'][0])
            subprocess.run(['qemu-img', 'convert', '-f', 'qcow2', '-O', 'raw', file, tmp_path / 'out'], check=True)
            with open(tmp_path / 'out', 'rb') as copy:
                assert copy.read(4) == b'QFI\xfb'
            assert subprocess.run(['grep', '-aq', 'secret of the host secret', tmp_path / 'out']).returncode == 1
    finally:
        other.destroy(None, made, [])
        other.stop()


# ---- trouble --------------------------------------------------------------------------------

def test_refused_image_leaves_nothing(rig, instance, tmp_path, monkeypatch):
    subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', '-b', '/etc/shadow', '-F', 'raw', tmp_path / 'bad'],
                   check=True)
    image_id = str(uuid.uuid4())
    monkeypatch.setitem(rig.images.rows, image_id, ('qcow2', tmp_path / 'bad'))
    with pytest.raises(exception.ImageUnacceptable):
        spawn(rig, instance, image=rig.images.show(None, image_id))
    assert rig.leftovers(instance.uuid) == []


def test_failed_start_leaves_nothing(rig, instance):
    vif = {'id': 'x', 'address': 'fa:16:3e:01:02:03', 'type': 'bridge', 'devname': 'tap0',
           'network': {'bridge': 'no-such-bridge', 'subnets': []}}
    with pytest.raises(exception.BuildFailed):
        spawn(rig, instance, network_info=[vif])
    assert rig.leftovers(instance.uuid) == []


def test_foreign_guests_are_left_alone(rig):
    """A guest that somebody else defined is neither listed nor touched."""
    name, foreign = 'foreign-' + uuid.uuid4().hex[:8], str(uuid.uuid4())
    connection = libvirt.open(URI)
    domain = connection.defineXML(f'<domain type="qemu"><name>{name}</name><uuid>{foreign}</uuid><memory>65536'
                                  '</memory><os><type>hvm</type></os></domain>')
    try:
        assert foreign not in rig.driver.guests()
    finally:
        domain.undefine()
        connection.close()


CHILD = '''
import sys
from nova.runtime import concurrency
concurrency.setup()
from nova.tests.integration import test_libvirt as t
made = t.make_driver(sys.argv[1], t.Images())
made.init_host()
print('go', flush=True)
made.spawn(None, t.make_instance(uuid=sys.argv[2]), t.driver.SpawnRequest(
    image=t.Images().show(None, t.DISK_ID), network_info=[], config_drive={'a': b'b'}))
'''


@long_runs.only
def test_spawn_killed_at_any_moment_can_be_repeated(rig, state_path, instance):
    for _ in range(6):
        if random.random() < 0.3:        # with the download, too
            for path in (rig.instances / '_base').glob(f'{DISK_ID}*'):
                path.unlink()
        child = subprocess.Popen([sys.executable, '-c', CHILD, str(state_path), instance.uuid],
                                 stdout=subprocess.PIPE, env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)})
        assert child.stdout.readline() == b'go\n'
        time.sleep(random.uniform(0, 0.7))
        child.send_signal(signal.SIGKILL)
        child.wait()
        if random.random() < 0.5:
            rig.driver.destroy(None, instance, [])
            assert rig.leftovers(instance.uuid) == []
        spawn(rig, instance)
        assert rig.driver.power_state(instance) == states.RUNNING
        assert list(rig.driver.guests()).count(instance.uuid) == 1
        base = rig.driver.storage.cache.fetch(None, rig.image)
        assert os.path.getsize(base.path) == (GUEST / 'guest.qcow2').stat().st_size
    assert list((rig.instances / '_base').glob('*.part')) == []
