"""Live migration of QEMU guests between two hosts that share no disks; the needs are those of moving.py."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading

import pytest

from nova import exception
from nova import states
from nova.runtime import certificates
from nova.tests import long_runs
from nova.tests.integration import moving
from nova.virt import driver as contract

libvirt = pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova.virt.libvirt.moves import outgoing

pytestmark = moving.needed
ONE, TWO = 'compute1', 'compute2'
AWAY_S = 45                              # longer than libvirt waits for the other end


@pytest.fixture(scope='module')
def fleet():
    with moving.hosts() as made:
        yield made


@pytest.fixture(autouse=True)
def clean(fleet):
    yield
    fleet.clear()


def slowly(fleet, name, **options):
    """A host whose migrations take their time."""
    fleet.drivers[name].stop()
    return fleet.make_driver(name, libvirt__live_migration_bandwidth=1, **options)


def at_first(function):
    """A callback for reports of progress that calls ``function`` once, when something was copied."""
    done = threading.Event()

    def report(values):
        if not done.is_set() and values['memory_processed_bytes'] + values['disk_processed_bytes']:
            done.set()
            function()
    return report


@long_runs.only
def test_a_guest_goes_with_its_disks_and_comes_back(fleet):
    """It never restarts; what it has written is there, and its config drive."""
    fleet.drivers[ONE].stop()
    fleet.make_driver(ONE, libvirt__live_migration_bandwidth=60)     # else it is over before it can be reported
    instance = fleet.spawn(ONE, ephemeral_gb=1)
    fleet.booted(ONE, instance)
    fleet.type(ONE, instance, 'X=memo; echo on-the-disk >/dev/vdb; sync; echo $X-ry', 'memo-ry')
    reports = []
    facts = fleet.migrate(ONE, TWO, instance, reports.append)
    assert facts['block_migration'] and facts['incremental']
    fleet.only_at(TWO, instance)
    assert reports and set(reports[-1]) == {f'{part}_{name}_bytes' for part in ('memory', 'disk')
                                            for name in ('total', 'processed', 'remaining')}
    assert {'disk', 'disk.ephemeral0', 'disk.config', 'guest.json'} <= set(fleet.files(TWO, instance.uuid))
    fleet.type(TWO, instance, 'head -n1 /dev/vdb; echo $X-came', 'memo-came')
    assert b'\non-the-disk' in fleet.drivers[TWO].console_output(instance)
    text = fleet.virsh(TWO, 'dumpxml', '--inactive', instance.uuid) + fleet.virsh(TWO, 'dumpxml', instance.uuid)
    assert f'{fleet.directory}/{ONE}/' not in text and f'{fleet.directory}/{TWO}/' in text
    fleet.migrate(TWO, ONE, instance)
    fleet.only_at(ONE, instance)
    fleet.type(ONE, instance, 'echo $X-back', 'memo-back')
    fleet.drivers[ONE].reboot(None, instance, [], True)
    fleet.booted(ONE, instance)


@long_runs.only
def test_an_image_that_is_gone_is_no_hindrance(fleet, monkeypatch):
    """The destination cannot have the image; the disk arrives whole, with nothing below it."""
    instance = fleet.spawn(ONE)
    fleet.booted(ONE, instance)
    for path in pathlib.Path(fleet.drivers[TWO].storage.directory, '_base').iterdir():
        path.unlink()

    def gone(_context, image_id):
        raise exception.ImageNotFound(image_id=image_id)
    monkeypatch.setattr(fleet.images, 'show', gone)
    facts = fleet.migrate(ONE, TWO, instance)
    assert not facts['incremental']
    fleet.only_at(TWO, instance)
    assert [disk.backing_file for disk in fleet.drivers[TWO].storage.load(instance.uuid).disks] == [None, None]
    fleet.drivers[TWO].reboot(None, instance, [], True)
    fleet.booted(TWO, instance)


def test_incompatible_destination_is_refused_by_the_source_check(fleet, monkeypatch):
    instance = fleet.spawn(ONE)
    there, here = fleet.drivers[TWO], fleet.drivers[ONE]
    facts = there.features[contract.LiveMigration].check_destination(instance, None, False)
    for wrong, said in (({'free_bytes': 1 << 20}, 'GiB free'),
                        ({'cpu_features': ['sse']}, 'the processor of the destination lacks'),
                        ({'block_migration': False}, 'share no storage'), ({'tls_able': False}, 'native_tls'),
                        ({'virt_type': 'kvm'}, 'with kvm there')):
        with pytest.raises(exception.MigrationPreCheckError, match=said):
            here.features[contract.LiveMigration].check_source(instance, {**facts, **wrong})
    assert facts['cpu_features'] and here.features[contract.LiveMigration].check_source(instance,
                                                                                        facts)['block_migration']
    fleet.only_at(ONE, instance)


@long_runs.only
def test_guest_of_an_aborted_migration_stays(fleet):
    driver = slowly(fleet, ONE)
    instance = fleet.spawn(ONE)
    fleet.booted(ONE, instance)
    there = fleet.drivers[TWO]

    def abort():
        assert instance.uuid in there.guests() and not there.features[contract.LiveMigration].has_arrived(instance.uuid)
        driver.features[contract.LiveMigration].abort_live_migration(instance)
    with pytest.raises(exception.MigrationAborted):
        fleet.migrate(ONE, TWO, instance, at_first(abort))
    assert driver.features[contract.LiveMigration].has_arrived(instance.uuid)
    fleet.only_at(ONE, instance)

    def refuse():
        raise exception.InstanceChanged(instance_id=instance.uuid)
    with pytest.raises(exception.InstanceChanged):
        fleet.migrate(ONE, TWO, instance, at_first(refuse))
    fleet.only_at(ONE, instance)


@long_runs.only
def test_migration_that_takes_too_long_is_aborted_or_forced(fleet):
    slowly(fleet, ONE, libvirt__live_migration_completion_timeout=1)
    instance = fleet.spawn(ONE)
    with pytest.raises(exception.VirtError, match='it took too long'):
        fleet.migrate(ONE, TWO, instance)
    fleet.only_at(ONE, instance)
    fleet.drivers[ONE].stop()
    fleet.make_driver(ONE)
    paused = []
    driver = fleet.drivers[ONE]

    def hurry():
        driver.features[contract.LiveMigration].force_complete_live_migration(instance)
        paused.append(driver.power_state(instance))
    fleet.migrate(ONE, TWO, instance, at_first(hurry))
    fleet.only_at(TWO, instance)

    # hurried before libvirt began: it came as a guest that its owner had paused, and stayed so
    fleet.drivers[TWO].features[contract.Pause].pause(instance)
    instance.vm_state = states.ACTIVE
    fleet.migrate(TWO, ONE, instance)
    fleet.only_at(ONE, instance)
    fleet.drivers[ONE].features[contract.Pause].pause(instance)
    instance.vm_state = states.PAUSED
    fleet.migrate(ONE, TWO, instance)
    fleet.only_at(TWO, instance, states.POWER_PAUSED)


def test_a_destination_whose_qemu_dies_leaves_the_guest_where_it_was(fleet):
    slowly(fleet, ONE)
    instance = fleet.spawn(ONE)
    fleet.booted(ONE, instance)

    def kill():
        pid, = pathlib.Path(fleet.directory, 'hosts', TWO, 'run/libvirt/qemu').glob('instance-*.pid')
        os.kill(int(pid.read_text()), signal.SIGKILL)
    with pytest.raises(exception.VirtError):
        fleet.migrate(ONE, TWO, instance, at_first(kill))
    fleet.only_at(ONE, instance)
    fleet.type(ONE, instance, 'echo still-$((40+2))', 'still-42')


def test_a_compute_that_restarts_ends_what_it_had_begun(fleet):
    """libvirt goes on without nova-compute; a new one finds the guest here, with nothing under way."""
    driver = slowly(fleet, ONE)
    instance = fleet.spawn(ONE)
    facts = fleet.prepare(ONE, TWO, instance)
    begun, ended = threading.Event(), []

    def sends():
        try:
            driver.features[contract.LiveMigration].live_migrate(None, instance, TWO, facts,
                                                                 at_first(begun.set))
        except exception.NovaException as error:
            ended.append(error)
    thread = threading.Thread(target=sends)
    thread.start()
    assert begun.wait(60)
    again = fleet.make_driver(ONE)               # beside the old one, which sees its migration end
    assert again.guests() == {instance.uuid: states.RUNNING}
    thread.join(60)
    assert len(ended) == 1
    fleet.live(TWO).rollback_live_migration(None, instance, [], facts)
    fleet.only_at(ONE, instance)
    driver.stop()


MARKER = b'a-line-that-nobody-else-reads'


class Listener:
    """Somebody on the network between the hosts; ``heard`` says whether MARKER came by."""

    def __init__(self, device):
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))         # ETH_P_ALL
        self._socket.bind((device, 0))
        self._socket.settimeout(0.5)
        self._end, self.heard, self.packets = threading.Event(), False, 0
        self._thread = threading.Thread(target=self._listen)

    def __enter__(self):
        self._thread.start()
        return self

    def _listen(self):
        while not self._end.is_set():
            with contextlib.suppress(TimeoutError):
                self.heard |= MARKER in self._socket.recv(1 << 17)
                self.packets += 1

    def __exit__(self, *_error):
        self._end.set()
        self._thread.join()
        self._socket.close()


@pytest.mark.parametrize('tls', long_runs.rest([True, False]))
def test_memory_and_disks_are_encrypted_on_their_way(fleet, tls):
    """Without TLS they are heard, which shows that the listener would hear them."""
    for name in (ONE, TWO):
        fleet.drivers[name].stop()
        fleet.make_driver(name, libvirt__live_migration_with_native_tls=tls)
    instance = fleet.spawn(ONE, ephemeral_gb=1)
    fleet.booted(ONE, instance)
    fleet.type(ONE, instance, f'yes {MARKER.decode()} | head -c 500000 >/dev/vdb; sync; echo done-$((40+2))', 'done-42')
    with Listener(fleet.cluster.settings.CABLES + '1') as listener:
        fleet.migrate(ONE, TWO, instance)
    fleet.only_at(TWO, instance)
    assert listener.packets > 100 and listener.heard is not tls


def test_strangers_are_kept_out(fleet):
    """A certificate of another authority, and none at all."""
    stranger = fleet.directory / 'stranger'
    pair = certificates.Authority(stranger).pair('stranger', ['127.0.0.1'], use=certificates.CLIENT)
    uri = f'qemu+tls://{fleet.address(TWO)}/system?pkipath={stranger}'
    (stranger / 'cacert.pem').write_bytes((fleet.directory / 'tls' / 'ca.pem').read_bytes())
    with pytest.raises(libvirt.libvirtError):
        libvirt.open(uri)
    for source, name in ((pair.certificate, 'clientcert.pem'), (pair.key, 'clientkey.pem')):
        (stranger / name).write_bytes(source.read_bytes())
    with pytest.raises(libvirt.libvirtError):
        libvirt.open(uri)
    libvirt.open(fleet.cluster.hosts.migration_uri(ONE).replace('%s', fleet.address(TWO))).close()


AHEAD = pytest.mark.skipif(pathlib.Path('/proc/sys/vm/unprivileged_userfaultfd').read_text().strip() != '1',
                           reason='QEMU may not copy afterwards: sysctl vm.unprivileged_userfaultfd')
POST_COPY = {'libvirt__live_migration_permit_post_copy': True, 'libvirt__live_migration_bandwidth': 1}


@long_runs.only                   # a network is away for longer than libvirt waits
@AHEAD
def test_a_guest_that_runs_there_already_is_waited_for_when_the_network_breaks(fleet):
    """It was given up after a minute, and removed at its destination: nothing of it was left that could run."""
    fleet.drivers[ONE].stop()
    driver = fleet.make_driver(ONE, **POST_COPY)
    instance = slow_guest(fleet)

    def cut():
        moving.base.wait_for(lambda: fleet.guests()[TWO].get(instance.uuid) == states.RUNNING, 120,
                             'the guest to run there')
        assert driver.hypervisor.guest('look', instance.uuid, outgoing.went_ahead)
        fleet.inside(ONE, 'ip', 'link', 'set', 'eth0', 'down')
        threading.Event().wait(AWAY_S)
        fleet.inside(ONE, 'ip', 'link', 'set', 'eth0', 'up')
    cutter = threading.Thread(target=cut)

    def go_ahead():
        driver.features[contract.LiveMigration].force_complete_live_migration(instance)
        cutter.start()
    try:
        fleet.migrate(ONE, TWO, instance, at_first(go_ahead))
    finally:
        cutter.join()
        fleet.inside(ONE, 'tc', 'qdisc', 'del', 'dev', 'eth0', 'root')
    fleet.only_at(TWO, instance)
    fleet.type(TWO, instance, 'echo $X-there', 'memo-there')


def slow_guest(fleet):
    """A guest that remembers something, on a host whose network is slow."""
    instance = fleet.spawn(ONE)
    fleet.booted(ONE, instance)
    fleet.type(ONE, instance, 'X=memo; echo $X-ry', 'memo-ry')
    fleet.inside(ONE, 'tc', 'qdisc', 'add', 'dev', 'eth0', 'root', 'tbf', 'rate', '16mbit', 'burst', '64kb', 'latency',
                 '400ms')
    return instance


# a nova-compute that sends a guest, hurries it, and is there to be killed
SENDER = """
import json, sys
from nova import conf
from nova.tests.integration import test_libvirt as base
from nova.virt import driver as contract
from nova.virt.libvirt import driver
options, name, uuid, destination, facts = json.load(sys.stdin)
made = driver.LibvirtDriver(conf.new(files=[], **options), name, base.Images(), base.inspect)
made.init_host()
sender = made.features[contract.LiveMigration]
instance, asked = base.make_instance(uuid=uuid), []
def hurry(values):
    if not asked and values['memory_processed_bytes'] + values['disk_processed_bytes']:
        asked.append(sender.force_complete_live_migration(instance))
sender.live_migrate(None, instance, destination, facts, hurry)
"""


@long_runs.only                   # a network is away for longer than libvirt waits
@AHEAD
@pytest.mark.parametrize('broken', [True, False])
def test_a_guest_that_runs_there_already_is_seen_over_by_a_compute_that_was_killed(fleet, broken):
    """The network broke, and nova-compute was killed: the next one did not start, or had the guest removed there."""
    fleet.drivers[ONE].stop()
    fleet.make_driver(ONE, **POST_COPY)
    instance = slow_guest(fleet)
    facts = fleet.prepare(ONE, TWO, instance)
    words = [{**fleet.options_of(ONE), **POST_COPY}, ONE, instance.uuid, TWO, facts]
    try:
        with subprocess.Popen([sys.executable, '-c', SENDER], stdin=subprocess.PIPE, text=True) as sender:
            sender.stdin.write(json.dumps(words))
            sender.stdin.close()
            moving.base.wait_for(lambda: fleet.guests()[TWO].get(instance.uuid) == states.RUNNING, 120,
                                 'the guest to run there')
            if broken:
                fleet.inside(ONE, 'ip', 'link', 'set', 'eth0', 'down')
            sender.kill()
        if broken:
            threading.Event().wait(AWAY_S)
        fleet.drivers[ONE].stop()
        driver = fleet.make_driver(ONE)                  # whoever starts it again may have taken the option away
        assert driver.guests()[instance.uuid] == states.POWER_PAUSED
        assert outgoing_calls(fleet, instance) == [f'post-copy.{ONE}.json']
        fleet.inside(ONE, 'ip', 'link', 'set', 'eth0', 'up')
        reports = []
        driver.features[contract.LiveMigration].await_live_migration(instance, reports.append)
        assert instance.uuid not in driver.guests() and (reports or broken)
    finally:
        fleet.inside(ONE, 'ip', 'link', 'set', 'eth0', 'up')
        fleet.inside(ONE, 'tc', 'qdisc', 'del', 'dev', 'eth0', 'root')
    driver.features[contract.LiveMigration].post_live_migration_at_source(None, instance, [], {})
    fleet.live(TWO).post_live_migration_at_destination(None, instance, [])
    fleet.only_at(TWO, instance)
    fleet.type(TWO, instance, 'echo $X-there', 'memo-there')


def outgoing_calls(fleet, instance):
    return [name for name in fleet.files(ONE, instance.uuid) if name.startswith('post-copy.')]
