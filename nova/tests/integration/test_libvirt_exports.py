"""Guests of other hosts than that of the volumes: real QEMU guests in namespaces, real exports over NBD with TLS."""
import errno
import os
import pathlib
import signal
import types
import uuid

import pytest

from nova import conf as nova_conf
from nova import exception
from nova.db import engine
from nova.db.tables import volume as tables
from nova.image import api as image_api
from nova.tests import long_runs
from nova.tests.integration import moving
from nova.tests.support import encrypted_volumes as test_encrypted_volumes
from nova.tests.support import volume_exports as test_volume_exports
from nova.tests.support import volume_files as test_volume_files
from nova.tests.support.waiting import wait_for
from nova.virt import driver as contract
from nova.volume import embedded

pytest.importorskip('libvirt', reason='libvirt-python is not installed')

pytestmark = [moving.needed, *([test_volume_exports.pytestmark])]
ONE, TWO = 'compute1', 'compute2'
ALICE = test_volume_files.ALICE
MIB = 2 ** 20


@pytest.fixture(scope='module')
def fleet():
    with moving.hosts() as made:
        yield made


@pytest.fixture(scope='module')
def home(fleet):
    """The embedded volumes on the machine outside of the hosts; the certificates are those of the fleet."""
    made = test_volume_exports.Home.__new__(test_volume_exports.Home)
    made.directory = pathlib.Path(fleet.directory)
    made.db = engine.Database(f'sqlite:///{made.directory}/volumes.sqlite')
    tables.volumes.metadata.create_all(made.db.engine)
    made.images = image_api.Images()
    conf = nova_conf.new(files=[], host='storage', state_path=str(made.directory), libvirt__sandbox_qemu_img=False,
                         my_ip=fleet.cluster.settings.ADDRESS, image__free_disk_reserve=0)
    made.volumes = embedded.EmbeddedVolumes(conf, made.db, made.images)
    made.volumes.recover()
    yield made
    made.volumes.stop(5)
    for pid in made.daemons():
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def guest(fleet):
    instance = fleet.spawn(ONE)
    fleet.booted(ONE, instance)
    yield instance
    fleet.clear()


def connected(home, fleet, instance, volume_id, name):
    """(attachment, the device of a driver) of a volume for a host."""
    attachment = home.volumes.attach(ALICE, volume_id, instance.uuid)
    info = home.volumes.connect(ALICE, attachment, fleet.drivers[name].features[contract.Volumes].volume_connector(),
                                '/dev/vdb')
    return types.SimpleNamespace(id=attachment, device={
        'uuid': str(uuid.uuid4()), 'volume_id': volume_id, 'destination_type': 'volume', 'source_type': 'volume',
        'device_name': '/dev/vdb', 'volume_size': 1, 'boot_index': None, 'connection_info': info})


def data(path, begin):
    """Where a file has its first data from a place on; None: it is one hole."""
    with open(path, 'rb') as file:
        try:
            return os.lseek(file.fileno(), begin, os.SEEK_DATA)
        except OSError as error:
            assert error.errno == errno.ENXIO
            return None


def test_a_guest_writes_over_tls_and_its_host_is_shut_out_at_the_end(fleet, home, guest):
    volume_id = home.made(1)
    fleet.drivers[ONE].conf.set_override('detect_zeroes', 'unmap', 'libvirt')
    made = connected(home, fleet, guest, volume_id, ONE)
    fleet.drivers[ONE].features[contract.Volumes].attach_volume(None, guest, made.device)
    home.volumes.complete(ALICE, made.id)
    fleet.type(ONE, guest, f'D=/dev/$(grep -l {volume_id[:20]} /sys/block/*/serial | cut -d/ -f4); X=fo; [ -b $D ] && '
                           'echo ${X}und', 'found')
    fleet.type(ONE, guest, 'X=wr; echo before | dd of=$D bs=4096 conv=fsync 2>/dev/null; echo ${X}ote', 'wrote')
    assert home.read(volume_id, 6) == b'before'
    # what it zeroes becomes a hole in the file, by way of the export
    fleet.type(ONE, guest, 'W=fi; tr "\\0" x </dev/zero | dd of=$D bs=64k count=16 seek=16 iflag=fullblock conv=fsync '
                           '2>/dev/null; echo ${W}lled', 'filled')
    assert data(home.path(volume_id), MIB) == MIB
    fleet.type(ONE, guest, 'W=em; dd if=/dev/zero of=$D bs=64k count=16 seek=16 conv=fsync 2>/dev/null; echo ${W}pty',
               'empty')
    assert data(home.path(volume_id), MIB) is None
    # a snapshot of one moment
    snapshot = home.snapshot(volume_id)
    assert pathlib.Path(home.volumes.files.snapshot(snapshot)).open('rb').read(6) == b'before'
    check_an_encrypted_one(fleet, home, guest)
    # the service ends and comes back: the guest does not see it
    assert home.volumes.stop(5)
    home.volumes = embedded.EmbeddedVolumes(home.volumes.conf, home.db, home.images)
    home.volumes.recover()
    fleet.type(ONE, guest, 'Y=n; echo middle | dd of=$D bs=4096 conv=fsync 2>/dev/null; echo ${Y}oted', 'noted')
    assert home.read(volume_id, 6) == b'middle'
    # the exporter is killed: it comes back at its address, and the guest finds it again
    os.kill(home.daemons()[0], signal.SIGKILL)
    wait_for(lambda: home.volumes.attach_backend.exports._daemon(ONE).is_alive(), 30, 'the exporter')
    fleet.type(ONE, guest, 'until echo after | dd of=$D bs=4096 conv=fsync 2>/dev/null; do sleep 1; done; '
                           'Z=ag; echo ${Z}ain', 'again')
    assert home.read(volume_id, 5) == b'after'
    # shut out, whatever its guest still has
    home.volumes.detach(ALICE, made.id)
    fleet.type(ONE, guest, 'V=o; echo lost | dd of=$D bs=4096 conv=fsync 2>/dev/null || echo ${V}ver', 'over')
    assert home.read(volume_id, 5) == b'after'
    wait_for(lambda: home.daemons() == [], 20, 'the exporter to end')
    fleet.drivers[ONE].features[contract.Volumes].detach_volume(None, guest, made.device)


def check_an_encrypted_one(fleet, home, guest):
    """The guest's host encrypts what goes through the export, so the exporter's copy of one moment is encrypted."""
    store, driver = home.volumes, fleet.drivers[ONE]
    kind = store.types.create('sealed', None, {})
    store.types.set_encryption(kind['id'], {'provider': 'luks'}, new=True)
    volume_id = store.create(ALICE, 1, volume_type='sealed')['id']
    wait_for(lambda: store.get(ALICE, volume_id)['status'] == 'available', 60, 'the volume')
    key = store.passphrase(ALICE, volume_id)
    driver.use_keys(None, lambda _uuid, asked: store.passphrase(ALICE, asked))
    made = connected(home, fleet, guest, volume_id, ONE)
    assert made.device['connection_info']['data']['encrypted'] is True
    driver.features[contract.Volumes].attach_volume(None, guest, made.device)
    store.complete(ALICE, made.id)
    fleet.type(ONE, guest, f'E=/dev/$(grep -l {volume_id[:20]} /sys/block/*/serial | cut -d/ -f4); X=se; [ -b $E ] && '
                           'echo ${X}en', 'seen')
    fleet.type(ONE, guest, 'X=hid; tr "\\0" a </dev/zero | dd of=$E bs=64k count=1 iflag=fullblock conv=fsync '
                           '2>/dev/null; echo ${X}den', 'hidden')
    snapshot = home.snapshot(volume_id)
    fleet.type(ONE, guest, 'X=ov; dd if=/dev/zero of=$E bs=64k count=1 conv=fsync 2>/dev/null; echo ${X}erwritten',
               'overwritten')
    for path, written in ((store.files.snapshot(snapshot), True), (store.files.volume(volume_id), False)):
        with open(path, 'rb') as file:
            begin = file.read(4 * MIB)
        assert begin.startswith(test_encrypted_volumes.LUKS) and b'a' * 64 not in begin
        assert test_encrypted_volumes.is_written(path, key) is written
    driver.features[contract.Volumes].detach_volume(None, guest, made.device)
    store.detach(ALICE, made.id)


@long_runs.only
def test_a_host_with_the_certificate_of_another_gets_nothing(fleet, home, guest):
    volume_id = home.made(1)
    made = connected(home, fleet, guest, volume_id, TWO)
    with pytest.raises(exception.VirtError):
        fleet.drivers[ONE].features[contract.Volumes].attach_volume(None, guest, made.device)
    home.volumes.detach(ALICE, made.id)
