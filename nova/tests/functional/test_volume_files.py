"""What is in volumes: files, their copies, what a crash leaves of them, and a file system that is full."""
import json
import os
import pathlib
import shutil
import subprocess
import time

from oslo_db import exception as db_exc
import pytest

from nova import exception
from nova.db import engine
from nova.db.tables import volume as tables_volume
from nova.disk_files import sandbox
from nova.image.embedded import digests
from nova.runtime import certificates
from nova.tests import db_faults
from nova.tests.support import waiting
from nova.tests.support.volume_files import ALICE
from nova.tests.support.volume_files import GIB
from nova.tests.support.volume_files import HOST
from nova.tests.support.volume_files import Home
from nova.tests.support.volume_files import SERVER
from nova.volume.exports import exporter
from nova.volume.store import attach_backend
from nova.volume.store import files as volume_files


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


def test_blank_volume_is_extended_and_deleted(home):
    volume_id = home.made(2)
    path = home.path(volume_id)
    assert path.stat().st_size == 2 * GIB and path.stat().st_blocks < 64          # sparse
    home.write(volume_id, b'hello', at=2 * GIB - 5)
    home.volumes.extend(ALICE, volume_id, 3)
    assert path.stat().st_size == 3 * GIB and home.read(volume_id, at=2 * GIB - 5) == b'hello'
    home.volumes.delete(ALICE, volume_id)
    assert not path.exists()


def test_copies_are_independent_of_their_source(home):
    volume_id = home.made(1)
    home.write(volume_id, b'first')
    snapshot = home.snapshot(volume_id)
    home.write(volume_id, b'after')
    copy, clone = home.made(2, snapshot_id=snapshot), home.made(1, source_volume_id=volume_id)
    assert home.read(copy) == b'first' and home.read(clone) == b'after' and home.path(copy).stat().st_size == 2 * GIB
    home.write(copy, b'other')
    assert home.read(home.made(None, snapshot_id=snapshot)) == b'first'          # nobody writes into a snapshot
    assert home.path(copy).stat().st_blocks < 64
    home.volumes.delete_snapshot(ALICE, snapshot)
    assert not os.path.exists(home.volumes.files.snapshot(snapshot))


@pytest.mark.parametrize('disk_format', ['raw', 'qcow2', 'vmdk', 'vdi', 'vhdx', 'vhd'])
def test_a_volume_of_an_image_has_its_blocks(home, tmp_path, disk_format):
    raw = tmp_path / 'disk'
    raw.write_bytes(b'boot!' + b'\0' * (2 ** 20 - 5))
    source = raw
    if disk_format != 'raw':
        source = tmp_path / 'disk.other'
        name = {'vhd': 'vpc'}.get(disk_format, disk_format)
        subprocess.run(['qemu-img', 'convert', '-f', 'raw', '-O', name, raw, source], check=True)
    image = home.images.create(ALICE, {'name': 'i'})
    home.images.upload(ALICE, image['id'], str(source), disk_format)
    volume_id = home.made(1, image_id=image['id'])
    assert home.read(volume_id) == b'boot!' and home.path(volume_id).stat().st_size == GIB
    blank = home.made(1)
    home.volumes.reimage(ALICE, blank, image['id'])
    assert home.ended(lambda: home.volumes.get(ALICE, blank))['status'] == 'available'
    assert home.read(blank) == b'boot!'


@pytest.fixture
def hashed(monkeypatch):
    """The algorithms of the digests that were made of the store's files."""
    made, real = [], digests.hashlib.new
    monkeypatch.setattr(digests.hashlib, 'new', lambda name, **more: made.append(name) or real(name, **more))
    return made


def test_an_image_is_hashed_once_a_day_and_beside_its_copy(home, tmp_path, hashed, monkeypatch):
    (tmp_path / 'source').write_bytes(b'boot!')
    image, _path = home.image(tmp_path / 'source')
    home.made(1, image_id=image)
    assert hashed == []                                          # its upload was hashed by this process
    home.start()
    assert home.read(home.made(1, image_id=image)) == b'boot!'
    home.made(1, image_id=image)
    assert hashed == ['sha512']
    now = time.monotonic()
    monkeypatch.setattr(digests.time, 'monotonic', lambda: now + digests.FRESH_S + 60)
    with home.images.readable(ALICE, image, str(tmp_path / 'copy')) as path:
        assert path == home.image_path(image)
    assert hashed == ['sha512'] * 2                              # the end of the copy waits for it
    assert not os.path.exists(tmp_path / 'copy')


@pytest.mark.parametrize('restarted', [False, True])
def test_no_volume_is_made_of_an_image_whose_file_was_changed(home, tmp_path, restarted):
    """Of the same length; a process that has hashed it before sees the change by its time."""
    (tmp_path / 'source').write_bytes(b'boot!')
    image, path = home.image(tmp_path / 'source')
    home.made(1, image_id=image)
    with open(path, 'r+b') as file:
        file.write(b'boo??')
    os.utime(path, ns=(1, 1))
    if restarted:
        home.start()
    made = home.volumes.create(ALICE, 1, image_id=image)['id']
    assert home.ended(lambda: home.volumes.get(ALICE, made))['status'] == 'error'
    assert not home.path(made).exists() and not list(home.path(made).parent.glob('*.part'))


def test_image_that_changes_while_it_is_read_is_refused(home, tmp_path):
    (tmp_path / 'source').write_bytes(b'boot!')
    image, path = home.image(tmp_path / 'source')
    with pytest.raises(exception.ImageUnacceptable, match='changed while it was read'), \
            home.images.readable(ALICE, image, str(tmp_path / 'copy')), open(path, 'r+b') as file:
        file.write(b'boo??')


@pytest.mark.skipif(os.geteuid() != 0, reason='gives files to the user of the sandbox')
@pytest.mark.parametrize('mode', [0o711, 0o700])
def test_the_sandbox_reads_an_image_where_it_lies(home, tmp_path, mode):
    """The store stays closed to everybody else; where its user cannot get there it reads a copy, as before."""
    if not (shutil.which('bwrap') and sandbox.Sandbox().user):
        pytest.skip('bubblewrap is not installed')
    for parent in tmp_path.parents:                              # those that pytest made for itself
        if not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    raw, source = tmp_path / 'disk', tmp_path / 'disk.qcow2'
    raw.write_bytes(b'boot!' + b'\0' * (2 ** 20 - 5))
    subprocess.run(['qemu-img', 'convert', '-f', 'raw', '-O', 'qcow2', raw, source], check=True)
    image, path = home.image(source, 'qcow2')
    tmp_path.chmod(0o711)
    home.start(sandbox=True)
    if mode == 0o700:
        home.images.store.files.directory = str(tmp_path / 'closed' / 'images')
        (tmp_path / 'closed').mkdir(mode=mode)
        os.rename(tmp_path / 'images', tmp_path / 'closed' / 'images')
        path = home.image_path(image)
    assert home.read(home.made(1, image_id=image)) == b'boot!'
    assert home.volumes.files._convert.reaches(path) is (mode == 0o711)
    found = [os.stat(each).st_mode & 0o777 for each in (path, os.path.dirname(path))]
    assert found == [0o640, 0o710] and not list(home.path(image).parent.glob('*.part'))


def test_an_image_is_put_onto_no_volume_that_is_written_to_or_copied(home, tmp_path):
    """The state was looked at before, in another transaction: a server that got the volume meanwhile lost its disk."""
    (tmp_path / 'source').write_bytes(b'boot!')
    image = home.images.create(ALICE, {'name': 'i'})
    home.images.upload(ALICE, image['id'], str(tmp_path / 'source'), 'raw')
    used, copied = home.made(1), home.made(1)
    attachment = home.volumes.attach(ALICE, used, SERVER)
    with pytest.raises(exception.InvalidVolume):
        home.volumes.reimage(ALICE, used, image['id'], reserved=False)
    home.volumes.complete(ALICE, attachment)
    home.set(tables_volume.volume_snapshots, home.snapshot(copied), status='creating')
    for volume in (used, copied):
        with pytest.raises(exception.InvalidVolume):
            home.volumes.reimage(ALICE, volume, image['id'])
    assert [home.volumes.get(ALICE, each)['status'] for each in (used, copied)] == ['in-use', 'available']


def test_an_attachment_that_is_closing_stays_so_until_it_is_removed(home):
    """Else a restart would not find it, and its export would be opened again beside the next server's."""
    volume = home.made(1)
    attachment = home.volumes.attach(ALICE, volume, SERVER)
    home.set(tables_volume.volume_attachments, attachment, status=attach_backend.CLOSING, connector=HOST)
    home.set(tables_volume.volumes, volume, status='detaching')
    with pytest.raises(exception.InvalidVolume, match='is being removed'):
        home.volumes.complete(ALICE, attachment)
    home.volumes.roll_detaching(ALICE, volume)
    assert home.volumes.get(ALICE, volume)['status'] == 'in-use'
    home.start()
    assert home.volumes.get(ALICE, volume)['status'] == 'available'
    assert home.volumes.attachments_of(ALICE, SERVER) == []


def failing(home, monkeypatch, error, times):
    """The next commits of the database fail; ``run`` repeats a transaction after a deadlock."""
    left, commit = [error] * times, home.db.engine.dialect.do_commit

    def fail(connection):
        if left:
            connection.rollback()
            raise left.pop()
        commit(connection)
    monkeypatch.setattr(home.db.engine.dialect, 'do_commit', fail)


def manage(home):
    return home.volumes.managed.manage(ALICE, 'disk', 'nova', {'name': 'm'}, None)['id']


@pytest.mark.parametrize('times', [1, engine.DEADLOCK_RETRIES])
def test_a_file_is_a_volume_or_unmanaged_also_after_deadlocks(home, monkeypatch, times):
    monkeypatch.setattr(engine.random, 'uniform', lambda *_: 0)
    unmanaged = home.directory / 'volumes' / volume_files.UNMANAGED
    unmanaged.mkdir(parents=True)
    (unmanaged / 'disk').write_bytes(b'data!')
    failing(home, monkeypatch, db_exc.DBDeadlock(), times)
    if times > 1:
        with pytest.raises(db_exc.DBDeadlock):
            manage(home)
        assert os.listdir(unmanaged) == ['disk'] and home.volumes.list(ALICE, 10) == []
    volume = manage(home)
    assert home.read(volume) == b'data!' and os.listdir(unmanaged) == []
    failing(home, monkeypatch, db_exc.DBDeadlock(), times)
    if times > 1:
        with pytest.raises(db_exc.DBDeadlock):
            home.volumes.managed.unmanage(ALICE, volume)
        assert home.read(volume) == b'data!' and home.volumes.get(ALICE, volume)['status'] == 'available'
    home.volumes.managed.unmanage(ALICE, volume)
    assert os.listdir(unmanaged) == [f'volume-{volume}'] and home.volumes.list(ALICE, 10) == []


@pytest.mark.parametrize('committed', [True, False])
def test_a_managed_file_whose_commit_is_unknown_stays_with_its_possible_row(home, committed):
    unmanaged = home.directory / 'volumes' / volume_files.UNMANAGED
    unmanaged.mkdir(parents=True)
    (unmanaged / 'disk').write_bytes(b'data!')
    db_faults.lose_commit(home.db, committed)
    with pytest.raises(engine.CommitUnanswered):
        manage(home)
    assert os.listdir(unmanaged) == []


def test_a_volume_without_its_file_is_not_unmanaged(home):
    volume = home.made(1)
    home.path(volume).unlink()
    with pytest.raises(exception.InvalidVolume, match='the file of the volume is not on this host'):
        home.volumes.managed.unmanage(ALICE, volume)
    assert home.volumes.get(ALICE, volume)['status'] == 'available'


def test_start_after_a_crash_completes_new_volumes_and_reports_lost_files(home):
    """What was being made is made at the next start; a lost file is an error, not a blank disk. A file of no volume
    stays: the database may be a restored one, which does not know what was made since."""
    kept, unmade, lost, short = (home.made(1) for _ in range(4))
    home.write(kept, b'hello')
    snapshot = home.snapshot(kept)
    home.set(tables_volume.volumes, unmade, status='creating')
    home.path(unmade).unlink()
    half = home.path(unmade).with_name(unmade + '.part')
    half.write_bytes(b'half')
    home.path(lost).unlink()
    home.set(tables_volume.volumes, short, size=2)               # the row was written, the file was not
    stray = home.path('99999999-2222-3333-4444-555555555555')
    stray.write_bytes(b'x')
    other = home.path('notes.txt')                               # a file that is not ours to judge
    other.write_bytes(b'x')
    cut_off = home.snapshot(short)
    home.set(tables_volume.volume_snapshots, cut_off, status='creating')
    home.start()
    assert home.read(kept) == b'hello' and os.path.exists(home.volumes.files.snapshot(snapshot))
    assert home.ended(lambda: home.volumes.get(ALICE, unmade))['status'] == 'available' and not half.exists()
    assert home.volumes.get(ALICE, lost)['status'] == 'error'
    assert home.path(short).stat().st_size == 2 * GIB
    assert stray.read_bytes() == b'x' and other.exists()
    assert home.volumes.get_snapshot(ALICE, cut_off)['status'] == 'error'


def test_a_reset_status_makes_no_volume_anew(home):
    """``volume set --state creating``, and a restart: a blank file took the place of the volume's."""
    data, held = home.made(1), home.made(1)
    attachment = home.volumes.attach(ALICE, held, SERVER)
    home.volumes.connect(ALICE, attachment, HOST, '/dev/vdb')
    home.volumes.complete(ALICE, attachment)
    for volume_id in (data, held):
        home.write(volume_id, b'hello')
        home.set(tables_volume.volumes, volume_id, status='creating')
    home.start()
    for volume_id, status in ((data, 'available'), (held, 'in-use')):
        assert home.ended(lambda volume_id=volume_id: home.volumes.get(ALICE, volume_id))['status'] == status
        assert home.read(volume_id) == b'hello'


def test_a_copy_that_cannot_be_made_is_an_error(home):
    """The file of the source is gone behind our back."""
    volume_id = home.made(1)
    snapshot = home.snapshot(volume_id)
    os.unlink(home.volumes.files.snapshot(snapshot))
    made = home.volumes.create(ALICE, None, snapshot_id=snapshot)['id']
    assert home.ended(lambda: home.volumes.get(ALICE, made))['status'] == 'error'
    home.volumes.delete(ALICE, made)
    assert sorted(os.listdir(home.volumes.files.directory)) == sorted([volume_id, 'snapshots', 'trash'])


def test_a_reserve_is_left(home):
    """Copies leave the free space that the operator keeps back."""
    volume_id = home.made(1)
    home.write(volume_id, b'x' * 2 ** 20)
    home.volumes.files._reserve.size = 2 ** 62
    snapshot = home.volumes.create_snapshot(ALICE, volume_id, 's')['id']
    assert home.ended(lambda: home.volumes.get_snapshot(ALICE, snapshot))['status'] == 'error'
    assert os.listdir(os.path.join(home.volumes.files.directory, 'snapshots')) == []
    home.volumes.delete_snapshot(ALICE, snapshot)


def test_volume_with_a_snapshot_in_progress_cannot_be_attached_or_deleted(home):
    volume_id, snapshot = home.made(1), None
    snapshot = home.snapshot(volume_id)
    home.set(tables_volume.volume_snapshots, snapshot, status='creating')
    for refused in (lambda: home.volumes.attach(ALICE, volume_id, SERVER),
                    lambda: home.volumes.delete(ALICE, volume_id, cascade=True)):
        with pytest.raises(exception.InvalidVolume):
            refused()
    waiting = home.volumes.create(ALICE, None, snapshot_id=snapshot)
    assert waiting['status'] == 'creating'
    home.volumes.update_snapshot_status(ALICE, snapshot, 'creating', '90%')
    assert home.ended(lambda: home.volumes.get(ALICE, waiting['id']))['status'] == 'available'


def test_a_snapshot_whose_server_is_gone_can_be_deleted(home):
    """Nobody says any more how the copy ended: it was "creating", its volume there, until a restart."""
    volume_id = home.made(1)
    snapshot = home.snapshot(volume_id)
    attachment = home.volumes.attach(ALICE, volume_id, SERVER)
    os.replace(home.volumes.files.snapshot(snapshot), part := home.volumes.files.snapshot(snapshot) + volume_files.COPY)
    home.set(tables_volume.volume_snapshots, snapshot, status='creating')
    with pytest.raises(exception.InvalidVolume, match='is being created or copied'):
        home.volumes.delete_snapshot(ALICE, snapshot)
    home.volumes.detach(ALICE, attachment)
    home.volumes.jobs._busy.add(snapshot)
    with pytest.raises(exception.InvalidVolume, match='is being created or copied'):
        home.volumes.delete_snapshot(ALICE, snapshot)
    home.volumes.jobs._busy.clear()
    home.volumes.delete_snapshot(ALICE, snapshot)
    assert not os.path.exists(part)
    home.volumes.update_snapshot_status(ALICE, snapshot, 'creating', '90%')          # late: nothing is made of it
    home.volumes.delete(ALICE, volume_id)


def test_snapshots_of_which_something_is_made_stay_with_their_volume(home, monkeypatch):
    """A cascade took them away in the middle of the copy, and what was made of them was in error."""
    volume_id = home.made(1)
    snapshot = home.snapshot(volume_id)
    monkeypatch.setattr(home.volumes.jobs, 'make_volume', lambda ctx, row: None)
    made = home.volumes.create(ALICE, None, snapshot_id=snapshot)
    with pytest.raises(exception.InvalidVolume, match='from one of its snapshots'):
        home.volumes.delete(ALICE, volume_id, cascade=True)
    assert home.volumes.get_snapshot(ALICE, snapshot)['id'] == snapshot
    home.set(tables_volume.volumes, made['id'], status='available')
    home.volumes.delete(ALICE, volume_id, cascade=True)


def test_a_copy_that_the_guests_qemu_made_has_the_size_of_the_volume(home):
    """The file belongs to the guest's QEMU meanwhile: one that a guest has taken over could say exabytes."""
    volume_id, files = home.made(1), home.volumes.files
    path = files.snapshot(volume_id)
    part = files.prepare_copy(path, 2 ** 30, files.volume(volume_id))
    files.finish_copy(path, 2 ** 30, home.images.check_header)
    assert files.size(path) == 2 ** 30 and not os.path.exists(part)
    os.remove(path)
    part = files.prepare_copy(path, 2 ** 30, files.volume(volume_id))
    with open(part, 'r+b') as file:
        file.seek(24)
        file.write((2 ** 31).to_bytes(8))
    with pytest.raises((exception.InvalidVolume, exception.VirtError)):
        files.finish_copy(path, 2 ** 30, home.images.check_header)
    assert files.size(path) is None


@pytest.mark.parametrize('option', ['backing', 'data_file'])
def test_a_copy_that_names_another_file_is_not_opened(home, tmp_path, option):
    """A guest that has taken over its QEMU got any file of the host into its snapshot, where qemu-img had no sandbox:
    that was asked before the header was looked at.
    """
    secret, volume_id, files = tmp_path / 'secret', home.made(1), home.volumes.files
    path = files.snapshot(volume_id)
    part = files.prepare_copy(path, GIB, files.volume(volume_id))
    with open(secret, 'wb') as file:
        file.truncate(GIB)
    named = ['-b', secret, '-F', 'raw'] if option == 'backing' else ['-o', f'data_file={secret},data_file_raw=on']
    subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', *named, part, str(GIB)], check=True)
    with open(secret, 'r+b') as file:
        file.write(b'secret')
    with pytest.raises(exception.InvalidVolume, match='it has an? (backing|external data) file'):
        files.finish_copy(path, GIB, home.images.check_header)
    assert files.size(path) is None


def test_an_image_is_put_onto_no_volume_in_error_that_a_server_has(home, tmp_path):
    """A rebuild that failed leaves it so; its owner could have exchanged the file below the guest."""
    (tmp_path / 'source').write_bytes(b'boot!')
    volume_id, image = home.made(1), home.image(tmp_path / 'source')[0]
    home.volumes.attach(ALICE, volume_id, SERVER)
    home.set(tables_volume.volumes, volume_id, status='error')
    with pytest.raises(exception.InvalidVolume, match='attached to a server'):
        home.volumes.reimage(ALICE, volume_id, image, reserved=False)
    home.volumes.reimage(ALICE, volume_id, image)
    assert home.ended(lambda: home.volumes.get(ALICE, volume_id))['status'] == 'reserved'


def test_an_image_for_a_volume_that_was_deleted_meanwhile_goes(home, tmp_path, monkeypatch):
    (tmp_path / 'source').write_bytes(b'boot!')
    volume_id, image = home.made(1), home.image(tmp_path / 'source')[0]
    put = home.volumes.jobs._image

    def late(ctx, row, path, size):
        home.volumes.delete(ALICE, volume_id, force=True)
        put(ctx, row, path, size)
    monkeypatch.setattr(home.volumes.jobs, '_image', late)
    home.volumes.reimage(ALICE, volume_id, image, reserved=False)
    waiting.wait_for(lambda: not home.volumes.jobs._busy, 30, 'the work to end')
    assert not home.path(volume_id).exists()


def test_a_host_elsewhere_is_refused_without_an_exporter(home, monkeypatch):
    volume_id = home.made(1)
    attachment = home.volumes.attach(ALICE, volume_id, SERVER)
    info = home.volumes.connect(ALICE, attachment, HOST, '/dev/vdb')
    assert info['driver_volume_type'] == 'local' and info['data']['device_path'] == str(home.path(volume_id))
    monkeypatch.setattr(exporter.shutil, 'which', lambda name: None)         # see integration/test_volume_exports.py
    with pytest.raises(exception.InvalidVolume, match='has no access'):
        home.volumes.connect(ALICE, attachment, {'host': 'h2', 'ip': '192.0.2.2'}, '/dev/vdb')
    assert json.dumps(info)


# ---- the certificates of exports

def test_a_wrong_directory_of_certificates_is_found_at_the_start(tmp_path):
    """It showed at the first attachment, without its path."""
    home, directory = Home(tmp_path), tmp_path / 'pki'
    conf = home.volumes.conf
    conf.set_override('export_tls_dir', str(directory), 'volume')

    def refused(name):
        with pytest.raises(exception.InvalidInput) as refusal:
            home.volumes.recover()
        assert str(directory / name) in refusal.value.message
        return refusal.value.message
    assert 'No such file' in refused('ca-cert.pem')
    directory.mkdir()
    pair = certificates.Authority(tmp_path / 'made').pair('server', ['127.0.0.1'], 30)
    for source, name in ((certificates.Authority(tmp_path / 'made').trusted, 'ca-cert.pem'),
                         (pair.certificate, 'server-cert.pem')):
        (directory / name).write_bytes(pathlib.Path(source).read_bytes())
    assert 'No such file' in refused('server-key.pem')
    (directory / 'server-key.pem').write_text('key')
    assert 'not in the PEM format' in refused('server-key.pem')
    (directory / 'server-key.pem').write_bytes(pathlib.Path(pair.key).read_bytes())
    home.volumes.recover()
