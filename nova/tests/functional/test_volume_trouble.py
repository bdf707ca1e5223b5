"""A full disk, and a file that somebody removed, at every step of a volume: each ends clearly, with nothing half done
and nothing lost, and works once there is room again."""
import errno
import os
import pathlib
import shutil
import subprocess

import pytest

from nova import exception
from nova.db.tables import volume as tables
from nova.tests.support import volume_files as test_volume_files
from nova.volume.exports import daemon

ALICE, GIB, SERVER = test_volume_files.ALICE, test_volume_files.GIB, test_volume_files.SERVER
MIB = 2 ** 20
SIZE, DATA, LEFT = 16, 4, 1              # MiB: of the file system, of what a volume has, that are free when it is full
FAR = {'host': 'h2', 'ip': '192.0.2.2'}
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason='mounts a file system')


class Small(test_volume_files.Home):
    """Volumes on a file system of SIZE MiB; databases and images are elsewhere."""

    def __init__(self, directory):
        self.place = directory / 'volumes'
        self.place.mkdir()
        subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={SIZE}m,mode=711', 'tmpfs', self.place], check=True)
        super().__init__(directory)

    def end(self):
        self.volumes.stop(10)
        subprocess.run(['umount', self.place], check=True)

    def fill(self, left=LEFT * MIB):
        """Write until no more than so much is free."""
        with open(self.place / 'filler', 'wb') as file:
            free = os.statvfs(self.place).f_bavail * os.statvfs(self.place).f_frsize
            os.posix_fallocate(file.fileno(), 0, max(4096, free - left))
            if not left:
                with pytest.raises(OSError) as caught:
                    os.posix_fallocate(file.fileno(), 0, SIZE * MIB)
                assert caught.value.errno == errno.ENOSPC

    def empty(self):
        os.unlink(self.place / 'filler')

    def files(self):
        """What there is, but the trash and the filler."""
        found = {str(path.relative_to(self.place)) for path in self.place.rglob('*') if path.is_file()}
        return {name for name in found if not name.startswith('trash/') and not name.endswith('.lock')} - {'filler'}

    def begins(self):
        """{file: what it begins with}; all of a volume would be a GiB, most of it a hole."""
        return {name: test_volume_files.begin(self.place / name, DATA * MIB) for name in self.files()}

    # ---- what has data

    def full_volume(self):
        ident = self.made(1)
        self.write(ident, b'v' * DATA * MIB)
        return ident

    def full_image(self, disk_format):
        path = self.directory / f'image.{disk_format}'
        raw = self.directory / 'image.raw'
        raw.write_bytes(b'i' * DATA * MIB)
        if disk_format != 'raw':
            subprocess.run(['qemu-img', 'convert', '-f', 'raw', '-O', disk_format, raw, path], check=True)
        return self.image(path, disk_format)[0]

    def backup(self, volume_id):
        ident = self.volumes.backups.create(ALICE, volume_id, name='b', description='', metadata={})['id']
        return ident, self.status_of(lambda: self.volumes.backups.get(ALICE, ident))

    def status_of(self, ask):
        return self.ended(ask)['status']

    def new(self, **source):
        """(id, status) of a volume that is made of something."""
        ident = self.volumes.create(ALICE, 1, **source)['id']
        return ident, self.status_of(lambda: self.volumes.get(ALICE, ident))


@pytest.fixture
def small(tmp_path):
    made = Small(tmp_path)
    yield made
    made.end()


# {step: (what it needs, what it does)}; the second gives what it made and its status
def snapshot(small, volume):
    ident = small.volumes.create_snapshot(ALICE, volume, 's')['id']
    return ident, small.status_of(lambda: small.volumes.get_snapshot(ALICE, ident))


STEPS = {
    'an image, raw': (lambda small: small.full_image('raw'), lambda small, image: small.new(image_id=image)),
    'an image, qcow2': (lambda small: small.full_image('qcow2'), lambda small, image: small.new(image_id=image)),
    'a snapshot': (lambda small: small.snapshot(small.full_volume()),
                   lambda small, source: small.new(snapshot_id=source)),
    'a volume': (Small.full_volume, lambda small, source: small.new(source_volume_id=source)),
    'snapshot': (Small.full_volume, snapshot),
    'backup': (Small.full_volume, Small.backup),
}
REMOVE = {'snapshot': lambda small, ident: small.volumes.delete_snapshot(ALICE, ident),
          'backup': lambda small, ident: small.volumes.backups.delete(ALICE, ident)}


@pytest.mark.parametrize('step', STEPS)
def test_copy_on_a_full_disk_ends_in_error_and_leaves_no_file(small, step):
    """It ends in error, leaves no file, keeps what it is made of, and works when there is room."""
    need, act = STEPS[step]
    source = need(small)
    before = small.begins()
    small.fill()
    made, status = act(small, source)
    assert status == 'error'
    assert small.begins() == before
    REMOVE.get(step, lambda _small, ident: _small.volumes.delete(ALICE, ident))(small, made)
    small.empty()
    made, status = act(small, source)
    assert status == 'available' and small.files() > set(before)


def test_a_volume_and_its_growth_take_no_room(small):
    """They are sparse: what fills the disk is what guests write."""
    grown = small.full_volume()
    small.fill()
    blank, status = small.new()
    small.volumes.extend(ALICE, grown, 2)
    assert status == 'available' and small.path(blank).stat().st_size == GIB
    assert small.path(grown).stat().st_size == 2 * GIB and small.read(grown, 3) == b'vvv'


def test_no_file_can_be_made(small):
    """A file system without inodes."""
    subprocess.run(['mount', '-o', 'remount,nr_inodes=6', small.place], check=True)
    inodes = os.statvfs(small.place)
    for number in range(inodes.f_ffree):
        (small.place / f'notes{number}').touch()
    made, status = small.new()
    assert status == 'error' and not small.path(made).exists()
    small.volumes.delete(ALICE, made)


@pytest.mark.parametrize('step', ['restore', 'reimage'])
def test_failed_restore_or_reimage_on_a_full_disk_keeps_the_volume_data(small, step):
    volume, image = small.full_volume(), small.full_image('raw')
    backup, status = small.backup(volume)
    assert status == 'available'
    small.write(volume, b'newer')
    small.fill()
    begin = {'restore': lambda: small.volumes.backups.restore(ALICE, backup, volume),
             'reimage': lambda: small.volumes.reimage(ALICE, volume, image)}[step]
    begin()
    found = small.status_of(lambda: _settled(small, volume))
    assert found == {'restore': 'error_restoring', 'reimage': 'error'}[step]
    assert small.read(volume) == b'newer' and not [name for name in small.files() if name.endswith('.part')]
    assert small.volumes.backups.get(ALICE, backup)['status'] == 'available'
    small.empty()
    small.set(tables.volumes, volume, status='available')
    begin()
    assert small.status_of(lambda: _settled(small, volume)) == 'available'
    assert small.read(volume) == {'restore': b'vvvvv', 'reimage': b'iiiii'}[step]


def _settled(small, volume):
    found = small.volumes.get(ALICE, volume)
    return {'status': 'creating'} if found['status'] == 'restoring-backup' else found


@pytest.mark.skipif(shutil.which(daemon.PROGRAM) is None, reason='needs qemu-storage-daemon')
def test_attachment_on_a_full_disk_works_or_is_refused(small):
    """The host of the files needs no room. An export needs a little, and without it is refused; the volume is free."""
    volume = small.full_volume()
    small.fill(left=0)
    attachment = small.volumes.attach(ALICE, volume, SERVER)
    with pytest.raises(exception.InsufficientStorage):
        small.volumes.connect(ALICE, attachment, FAR, '/dev/vdb')
    small.volumes.detach(ALICE, attachment)
    assert small.volumes.get(ALICE, volume)['status'] == 'available'
    near = small.volumes.attach(ALICE, volume, SERVER)
    assert small.volumes.connect(ALICE, near, test_volume_files.HOST, '/dev/vdb')['driver_volume_type'] == 'local'
    small.volumes.detach(ALICE, near)


def test_a_snapshot_of_a_volume_in_use_on_a_full_disk(small):
    """Refused before any host is asked for a copy."""
    volume = small.full_volume()
    small.volumes.conf.set_override('free_disk_reserve', 1, 'image')
    small.volumes.files._reserve.size = MIB
    attachment = small.volumes.attach(ALICE, volume, SERVER)
    small.volumes.connect(ALICE, attachment, test_volume_files.HOST, '/dev/vdb')
    small.volumes.complete(ALICE, attachment)
    small.volumes.snapshots._guests = Guests()
    small.fill()
    with pytest.raises(exception.InsufficientStorage):
        small.volumes.create_snapshot(ALICE, volume, 's')
    assert small.volumes.list_snapshots(ALICE, 10) == [] and small.files() == {volume}


class Guests:
    def copy(self, *_args):
        raise AssertionError('a host was asked')


def test_a_volume_in_use_is_not_copied_without_tools(home, monkeypatch):
    """Guests of other hosts may write to it, whatever is installed here."""
    volume = home.volumes.create(ALICE, 1)['id']
    attachment = home.volumes.attach(ALICE, volume, SERVER)
    home.volumes.connect(ALICE, attachment, test_volume_files.HOST, '/dev/vdb')
    home.volumes.complete(ALICE, attachment)
    monkeypatch.setattr(type(home.volumes.files), 'has_tools', False)
    monkeypatch.setattr(home.volumes.files, 'clone', lambda *_given: False)
    with pytest.raises(exception.InvalidVolume, match='qemu-img is not installed on the volume host'):
        home.volumes.create_snapshot(ALICE, volume, 's')
    assert home.volumes.list_snapshots(ALICE, 10) == []


# ---- files that somebody removed

@pytest.fixture
def home(tmp_path):
    return test_volume_files.Home(tmp_path)


LOST = {
    'attach here': lambda home, volume: home.volumes.connect(
        ALICE, home.volumes.attach(ALICE, volume, SERVER), test_volume_files.HOST, '/dev/vdb'),
    'attach elsewhere': lambda home, volume: home.volumes.connect(
        ALICE, home.volumes.attach(ALICE, volume, SERVER), FAR, '/dev/vdb'),
    'extend': lambda home, volume: home.volumes.extend(ALICE, volume, 2),
}


@pytest.mark.parametrize('step', LOST)
def test_a_volume_whose_file_is_gone_is_refused(home, step):
    """A guest was given the path, and its host made an error of it that named no reason."""
    volume = home.made(1)
    home.path(volume).unlink()
    with pytest.raises(exception.InvalidVolume, match='file'):
        LOST[step](home, volume)
    for attachment in home.volumes.attachments_of(ALICE, SERVER):
        home.volumes.detach(ALICE, attachment)
    assert home.volumes.get(ALICE, volume)['status'] == 'available'
    assert home.volumes.get(ALICE, volume)['size'] == 1 and not home.path(volume).exists()
    home.volumes.delete(ALICE, volume)


@pytest.mark.parametrize('kind', ['clone', 'snapshot', 'backup', 'of a snapshot'])
def test_a_copy_of_what_is_gone_is_in_error(home, kind):
    """Never a disk of zeros in its place."""
    volume = home.made(1)
    taken = home.snapshot(volume)
    pathlib.Path(home.volumes.files.snapshot(taken)).unlink()
    home.path(volume).unlink()
    ask = {
        'clone': lambda: (home.volumes.create(ALICE, 1, source_volume_id=volume)['id'], home.volumes.get),
        'of a snapshot': lambda: (home.volumes.create(ALICE, 1, snapshot_id=taken)['id'], home.volumes.get),
        'snapshot': lambda: (home.volumes.create_snapshot(ALICE, volume, 's')['id'], home.volumes.get_snapshot),
        'backup': lambda: (home.volumes.backups.create(ALICE, volume, name='b', description='', metadata={})['id'],
                           home.volumes.backups.get)}[kind]
    ident, get = ask()
    assert home.ended(lambda: get(ALICE, ident))['status'] == 'error'
    assert not [path for path in home.path(volume).parent.rglob('*') if path.name.startswith(ident)]


def test_reimage_recreates_a_lost_volume_file(home, tmp_path):
    volume = home.made(1)
    (tmp_path / 'source').write_bytes(b'boot!')
    image, _path = home.image(tmp_path / 'source')
    home.path(volume).unlink()
    home.volumes.reimage(ALICE, volume, image)
    assert home.ended(lambda: home.volumes.get(ALICE, volume))['status'] == 'available'
    assert home.read(volume) == b'boot!' and home.path(volume).stat().st_size == GIB
