"""What is in volumes: files, their copies, what a crash leaves of them, and a file system that is full."""
import collections
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import threading
import time
import types

from oslo_db import exception as db_exc
import pytest

from nova import conf as nova_conf
from nova import exception
from nova.cloud import assembly
from nova.db import engine
from nova.db.tables import volume as tables_volume
from nova.db.volumes import volumes as db_volumes
from nova.disk_files import sandbox
from nova.image.embedded import digests
from nova.runtime import certificates
from nova.tests import db_faults
from nova.tests.support import passable
from nova.tests.support import volume_files as volume_support
from nova.tests.support import waiting
from nova.tests.support.volume_files import ALICE
from nova.tests.support.volume_files import GIB
from nova.tests.support.volume_files import HOST
from nova.tests.support.volume_files import Home
from nova.tests.support.volume_files import SERVER
from nova.volume import checked
from nova.volume import embedded
from nova.volume.exports import exporter
from nova.volume.store import attach_backend
from nova.volume.store import files as volume_files
from nova.volume.store import jobs as store_jobs
from nova.volume.store import snapshots as store_snapshots
from nova.volume.store import types as volume_types

OTHER = '11111111-2222-3333-4444-666666666666'


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


def test_volume_that_its_guest_did_not_extend_is_extended_when_it_is_detached(home):
    """As by a host that missed the event: its file had the size of before until the service started again."""
    volume_id = home.made(1)
    held = [home.volumes.attach(ALICE, volume_id, SERVER) for _number in range(2)]
    for ident in held:
        home.volumes.connect(ALICE, ident, HOST, '/dev/vdb')
        home.volumes.complete(ALICE, ident)
    home.volumes.extend(ALICE, volume_id, 2, online=True)
    sizes = []
    for ident in held:
        sizes.append(home.path(volume_id).stat().st_size // GIB)
        home.volumes.detach(ALICE, ident)
    assert [*sizes, home.path(volume_id).stat().st_size // GIB] == [1, 1, 2]


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


def test_state_path_may_have_a_symbolic_link(tmp_path):
    """qemu-img's sandbox refuses links; it needs the path of the image without them."""
    (tmp_path / 'target').mkdir()
    (tmp_path / 'state').symlink_to('target')
    home, source = Home(tmp_path / 'state'), tmp_path / 'source.qcow2'
    conf = nova_conf.new(files=[], state_path=str(home.directory), libvirt__sandbox_qemu_img=False,
                         image__free_disk_reserve=0)
    home.images = assembly.images(conf, home.db)
    home.volumes = embedded.EmbeddedVolumes(conf, home.db, home.images)
    subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', source, '1M'], check=True)
    image, _path = home.image(source, 'qcow2')
    home.made(1, image_id=image)


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
def test_the_sandbox_reads_an_image_where_it_lies(mode):
    """The store stays closed to everybody else; where its user cannot get there it reads a copy, as before."""
    if not (shutil.which('bwrap') and sandbox.Sandbox().user):
        pytest.skip('bubblewrap is not installed')
    with passable.directory() as place:
        home, raw, source = Home(place), place / 'disk', place / 'disk.qcow2'
        raw.write_bytes(b'boot!' + b'\0' * (2 ** 20 - 5))
        subprocess.run(['qemu-img', 'convert', '-f', 'raw', '-O', 'qcow2', raw, source], check=True)
        image, path = home.image(source, 'qcow2')
        home.start(sandbox=True)
        if mode == 0o700:
            home.images.store.files.directory = str(place / 'closed' / 'images')
            (place / 'closed').mkdir(mode=mode)
            os.rename(place / 'images', place / 'closed' / 'images')
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


@pytest.mark.parametrize('committed', [True, False])
def test_an_uploaded_image_keeps_its_file_after_an_unanswered_commit(home, tmp_path, committed):
    image = home.images.create(ALICE, {'name': 'i', 'disk_format': 'raw', 'container_format': 'bare'})['id']
    db_faults.lose_commit(home.db, committed, after=1)               # the first commit claims the image
    home.images.store.upload(ALICE, image, [b'data!'], 5)
    row, file = home.images.store.open(ALICE, image)
    with file:
        assert (row['status'], row['size'], file.read()) == ('active', 5, b'data!')
    (tmp_path / 'snapshot').write_bytes(b'moved')
    given = home.images.create(ALICE, {'name': 'j', 'disk_format': 'raw', 'container_format': 'bare'})['id']
    db_faults.lose_commit(home.db, committed, after=1)
    assert home.images.store.adopt(ALICE, given, str(tmp_path / 'snapshot'))
    with home.images.store.open(ALICE, given)[1] as file:
        assert file.read() == b'moved'


def test_an_image_keeps_its_file_if_the_database_stays_away(home, monkeypatch):
    """The commit was made; the repeated write finds no database."""
    image = home.images.create(ALICE, {'name': 'i', 'disk_format': 'raw', 'container_format': 'bare'})['id']
    run, settled = home.db.run, []

    def lost(function, *args, **kwargs):
        if kwargs and settled:
            raise db_exc.DBConnectionError()
        found = run(function, *args, **kwargs)
        if kwargs:
            settled.append(found)
            raise engine.CommitUnanswered()
        return found
    monkeypatch.setattr(home.db, 'run', lost)
    with pytest.raises(engine.CommitUnanswered):
        home.images.store.upload(ALICE, image, [b'data!'], 5)
    with home.images.store.open(ALICE, image)[1] as file:
        assert file.read() == b'data!'


@pytest.mark.parametrize('committed', [True, False])
def test_work_whose_commit_is_unanswered_is_done_or_taken_back(home, tmp_path, committed):
    """Its row had a status such as creating, without a job, until a restart."""
    (tmp_path / 'source').write_bytes(b'boot!')
    image, _path = home.image(tmp_path / 'source')
    volume, volumes = home.made(1), home.volumes
    home.write(volume, b'saved')

    def unanswered(function, *args, **kwargs):
        waiting.wait_for(lambda: not volumes.jobs._busy, 30, 'the end of all jobs')
        db_faults.lose_commit(home.db, committed)
        with pytest.raises(engine.CommitUnanswered):
            function(*args, **kwargs)
        waiting.wait_for(lambda: not volumes.jobs._busy, 30, 'the end of the job')
        assert {each['status'] for each in volumes.list(ALICE, 10)} == {'available'}

    def rows(table):
        with home.db.reader() as conn:
            return db_volumes.every(conn, table)
    unanswered(volumes.create, ALICE, 1)
    assert len(volumes.list(ALICE, 10)) == 1 + committed
    unanswered(volumes.backups.create, ALICE, volume)
    assert [each['status'] for each in rows(tables_volume.volume_backups)] == ['available'] * committed
    backup = volumes.backups.create(ALICE, volume)['id']
    home.ended(lambda: volumes.backups.get(ALICE, backup))
    home.write(volume, b'other')
    unanswered(volumes.backups.restore, ALICE, backup, volume)
    assert home.read(volume) == (b'saved' if committed else b'other')
    assert volumes.backups.get(ALICE, backup)['status'] == 'available'
    unanswered(volumes.reimage, ALICE, volume, image)
    assert home.read(volume) == (b'boot!' if committed else b'other')
    unanswered(volumes.uploads.begin, ALICE, volume, 'raw', {'name': 'made'})
    unanswered(volumes.create_snapshot, ALICE, volume, 's')
    assert rows(tables_volume.volume_snapshots) == []
    given = home.images.create(ALICE, {'name': 'i', 'disk_format': 'raw', 'container_format': 'bare'})['id']
    unanswered(home.images.store.upload, ALICE, given, [b'data!'], 5)
    assert home.images.store.show(ALICE, given)['status'] == 'queued'


@pytest.mark.parametrize('specs', [{}, {'multiattach': '<is> True'}])
def test_the_rule_of_shared_volumes_is_checked_without_access_to_the_type_of_a_snapshot(home, specs):
    volume = home.made(1)
    home.volumes.types.create('quiet', None, specs, is_public=False)
    home.set(tables_volume.volumes, volume, volume_type='quiet')
    rules = types.SimpleNamespace(allows=lambda ctx, rule, target: rule != volume_types.MULTIATTACH,
                                  compares=lambda rule: {'project_id'})
    asked, snapshot = checked.CheckedVolumes(home.volumes, rules), home.snapshot(volume)
    with pytest.raises(exception.PolicyDenied) if specs else contextlib.nullcontext():
        asked.check_create(ALICE, snapshot_id=snapshot)
    with pytest.raises(exception.VolumeTypeNotFound):
        asked.check_create(ALICE, snapshot_id=snapshot, volume_type='quiet')


@pytest.mark.parametrize('ask', [
    lambda home, volume, image: home.volumes.create_snapshot(ALICE, volume, 's'),
    lambda home, volume, image: home.volumes.uploads.begin(ALICE, volume, 'raw', {'name': 'made'}),
    lambda home, volume, image: home.images.store.upload(ALICE, image, [b'data!'], 5)])
def test_an_unanswered_commit_is_reported_although_the_database_stays_away(home, monkeypatch, ask):
    volume, run, asked = home.made(1), home.db.run, []
    image = home.images.create(ALICE, {'name': 'i', 'disk_format': 'raw', 'container_format': 'bare'})['id']

    def lost(function, *args, **kwargs):
        asked.append(function)
        if len(asked) > 1:
            raise db_exc.DBConnectionError()
        run(function, *args, **kwargs)
        raise engine.CommitUnanswered()
    monkeypatch.setattr(home.db, 'run', lost)
    with pytest.raises(engine.CommitUnanswered):
        ask(home, volume, image)
    assert len(asked) > 1


def test_a_volume_grows_although_the_host_of_a_guest_is_not_told(home, monkeypatch, caplog):
    """The answer was 503 after the size was stored, and the file kept its size."""
    told, volume = [], home.made(1)

    def extended(ctx, instance_uuid, volume_id):
        told.append(instance_uuid)
        raise exception.HostUnavailable(host='h1')
    for server in (SERVER, OTHER):
        home.set(tables_volume.volumes, volume, status='available')
        home.volumes.attachments.attach(ALICE, volume, server, reserved=False)
    monkeypatch.setattr(home.volumes, '_guests', types.SimpleNamespace(extended=extended))
    home.volumes.extend(ALICE, volume, 2, online=True)
    assert sorted(told) == sorted([SERVER, OTHER])
    assert home.volumes.get(ALICE, volume)['size'] == 2 and home.path(volume).stat().st_size == 2 * GIB
    assert 'next start' in caplog.text


@pytest.mark.parametrize('error', [exception.InvalidVolume(reason='no'), OSError(116, 'Stale file handle')])
def test_an_attached_volume_whose_file_cannot_be_extended(home, monkeypatch, caplog, error):
    """Extension and detachment were answered with 500; the volume stayed in use, and the service did not start."""
    told, volume = [], home.made(1)

    def extended(ctx, instance_uuid, volume_id):
        told.append(instance_uuid)
        raise exception.HostUnavailable(host='h1')

    def extend(path, size):
        raise error
    for server in (SERVER, OTHER):
        home.set(tables_volume.volumes, volume, status='available')
        home.volumes.attachments.attach(ALICE, volume, server, reserved=False)
    monkeypatch.setattr(home.volumes, '_guests', types.SimpleNamespace(extended=extended))
    with monkeypatch.context() as patched:
        patched.setattr(home.volumes.files, 'extend', extend)
        home.volumes.extend(ALICE, volume, 2, online=True)
        assert sorted(told) == sorted([SERVER, OTHER]) and home.volumes.get(ALICE, volume)['size'] == 2
        assert 'Cannot extend the file' in caplog.text and 'next start' not in caplog.text
        for server in (SERVER, OTHER):
            attachment, = home.volumes.attachments_of(ALICE, server)
            home.volumes.detach(ALICE, attachment)
        assert home.volumes.get(ALICE, volume)['status'] == 'available'
        home.volumes.jobs.recover()
    assert home.path(volume).stat().st_size == GIB
    home.volumes.jobs.recover()
    assert home.path(volume).stat().st_size == 2 * GIB


def held(home):
    """A volume that a guest of the volume host uses."""
    volume = home.made(1)
    attachment = home.volumes.attach(ALICE, volume, SERVER)
    home.volumes.connect(ALICE, attachment, HOST, '/dev/vdb')
    home.volumes.complete(ALICE, attachment)
    return volume


def test_a_copy_that_no_host_reports_ends(home, monkeypatch):
    """Its host had crashed: snapshot and backup were creating until a restart."""
    volumes, volume = home.volumes, held(home)
    monkeypatch.setattr(volumes.files, 'clone', lambda *_: False)
    monkeypatch.setattr(volumes.snapshots, '_guests', types.SimpleNamespace(copy=lambda *args: None))
    snapshot = volumes.create_snapshot(ALICE, volume, 's')['id']
    backup = volumes.backups.create(ALICE, volume)['id']
    volumes.snapshots.end_lost()
    assert volumes.get_snapshot(ALICE, snapshot)['status'] == 'creating' and len(volumes.files._copies) == 2
    monkeypatch.setattr(store_snapshots, 'REPORT_S', -1)
    volumes.snapshots.end_lost()
    assert volumes.get_snapshot(ALICE, snapshot)['status'] == 'error' and volumes.files._copies == {}
    assert home.ended(lambda: volumes.backups.get(ALICE, backup))['status'] == 'error'
    assert os.listdir(home.directory / 'volumes' / 'snapshots') == []


def test_a_snapshot_stays_while_another_backup_is_made_of_it(home, monkeypatch):
    """The end of the first backup deleted it, and the second ended in error."""
    volumes, volume = home.volumes, held(home)
    go, copy = collections.defaultdict(threading.Event), volumes.jobs._backup
    monkeypatch.setattr(volumes.jobs, '_backup', lambda ident: go[ident].wait(30) and copy(ident))
    monkeypatch.setattr(volumes.files, 'clone', lambda source, path, size: pathlib.Path(path).write_bytes(
        volume_support.begin(source, 4)))
    first = volumes.backups.create(ALICE, volume)
    second = volumes.backups.create(ALICE, volume, first['snapshot_id'])
    for backup in (first, second):
        go[backup['id']].set()
        waiting.wait_for(lambda backup=backup: not volumes.jobs.is_busy(backup['id']), 30, 'the end of the backup')
        assert volumes.backups.get(ALICE, backup['id'])['status'] == 'available'
        with home.db.reader() as conn:
            kept = [row['id'] for row in db_volumes.every(conn, tables_volume.volume_snapshots)]
        assert kept == ([first['snapshot_id']] if backup is first else [])       # the last one removes it


@pytest.mark.parametrize('error', [db_exc.DBConnectionError(), exception.QuotaExceeded('full')])
def test_the_snapshot_of_a_refused_backup_is_removed(home, monkeypatch, error):
    volumes, volume = home.volumes, held(home)
    monkeypatch.setattr(volumes.files, 'clone', lambda source, path, size: pathlib.Path(path).write_bytes(
        volume_support.begin(source, 4)))

    def check(*args, **kwargs):
        if args[2] == 'backups':
            raise error
    monkeypatch.setattr(volumes.limits, 'check', check)
    with pytest.raises(type(error)):
        volumes.backups.create(ALICE, volume)
    with home.db.reader() as conn:
        assert db_volumes.every(conn, tables_volume.volume_snapshots) == []
    assert os.listdir(home.directory / 'volumes' / 'snapshots') == []


def test_work_whose_job_found_no_database_is_done_later(home, monkeypatch):
    """Its row kept its status until a restart."""
    volumes, source = home.volumes, home.made(1)
    home.write(source, b'saved')
    backup = volumes.backups.create(ALICE, source)['id']
    home.ended(lambda: volumes.backups.get(ALICE, backup))
    with monkeypatch.context() as patched:
        patched.setattr(volumes.jobs, 'work', lambda row, job: None)
        lost = [volumes.create(ALICE, 1)['id'], volumes.create(ALICE, None, backup_id=backup)['id']]
        second = volumes.backups.create(ALICE, source)['id']
    volumes.jobs.resume()                    # their requests may still start the jobs
    assert [volumes.get(ALICE, each)['status'] for each in lost] == ['creating', 'restoring-backup']
    monkeypatch.setattr(store_jobs, 'RESUME_S', -1)
    volumes.jobs.resume()
    for each in lost:
        waiting.wait_for(lambda each=each: volumes.get(ALICE, each)['status'] == 'available', 30, 'the volume')
    assert home.read(lost[1]) == b'saved'
    for each in (backup, second):
        waiting.wait_for(lambda each=each: volumes.backups.get(ALICE, each)['status'] == 'available', 30)


def test_a_failed_copy_of_a_guest_releases_its_disk_space(home, monkeypatch):
    """The claim of each failed snapshot stayed until a restart."""
    def copy(*args):
        raise exception.HostUnavailable(host='h1')
    volumes, volume = home.volumes, held(home)
    monkeypatch.setattr(volumes.files, 'clone', lambda *_: False)
    monkeypatch.setattr(volumes.snapshots, '_guests', types.SimpleNamespace(copy=copy))
    with pytest.raises(exception.HostUnavailable):
        volumes.create_snapshot(ALICE, volume, 's')
    assert volumes.files._copies == {} and os.listdir(home.directory / 'volumes' / 'snapshots') == []


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


@pytest.fixture
def writing(home, tmp_path, monkeypatch):
    """(id of a volume to which an image is being written, id of its attachment, event that ends the writing)"""
    (tmp_path / 'source').write_bytes(b'image')
    volume_id, image = home.made(1), home.image(tmp_path / 'source')[0]
    attachment, ends, put = home.volumes.attach(ALICE, volume_id, SERVER), threading.Event(), home.volumes.jobs._image

    def late(ctx, row, path, size):
        assert ends.wait(60)
        put(ctx, row, path, size)
    monkeypatch.setattr(home.volumes.jobs, '_image', late)
    home.volumes.reimage(ALICE, volume_id, image)
    yield volume_id, attachment, ends
    ends.set()


def finished(home, ends):
    ends.set()
    waiting.wait_for(lambda: not home.volumes.jobs._busy, 30, 'the work to end')


def test_volume_stays_downloading_after_its_server_is_deleted(home, writing):
    """The job replaces the file at its end: writes of another server in the meantime would be lost."""
    volume_id, attachment, ends = writing
    home.volumes.detach(ALICE, attachment)
    assert home.volumes.get(ALICE, volume_id)['status'] == 'downloading'
    with pytest.raises(exception.InvalidVolume):
        home.volumes.attach(ALICE, volume_id, OTHER)
    with pytest.raises(exception.InvalidVolume):
        home.volumes.extend(ALICE, volume_id, 2)
    finished(home, ends)
    assert home.volumes.get(ALICE, volume_id)['status'] == 'available' and home.read(volume_id) == b'image'


def test_attachment_cannot_be_used_while_an_image_is_written(home, writing):
    volume_id, attachment, ends = writing
    with pytest.raises(exception.InvalidVolume, match='an image is being written'):
        home.volumes.connect(ALICE, attachment, HOST, '/dev/vda')
    with pytest.raises(exception.InvalidVolume, match='an image is being written'):
        home.volumes.complete(ALICE, attachment)
    assert home.volumes.get(ALICE, volume_id)['status'] == 'downloading'
    finished(home, ends)
    assert home.volumes.get(ALICE, volume_id)['status'] == 'reserved' and home.read(volume_id) == b'image'


def test_volume_is_deleted_with_its_server_while_an_image_is_written(home, writing):
    volume_id, attachment, ends = writing
    home.volumes.detach(ALICE, attachment)
    home.volumes.delete(ALICE, volume_id)
    finished(home, ends)
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


def test_snapshots_whose_end_found_no_database_end_later(home, monkeypatch):
    """They were 'creating' for REPORT_S, and the volume could not be attached or deleted."""
    volumes, source = home.volumes, home.made(1)
    complete, failed, copied = [home.snapshot(source) for _ in range(3)]
    os.unlink(volumes.files.snapshot(failed))
    path = volumes.files.snapshot(copied)
    os.rename(path, path + volume_files.COPY)
    with monkeypatch.context() as patched:
        patched.setattr(volumes.jobs, 'work', lambda row, job: None)
        waiting_for_it = volumes.create(ALICE, 1, snapshot_id=complete)['id']
    for each in (complete, failed, copied):
        home.set(tables_volume.volume_snapshots, each, status='creating')

    def statuses():
        return [volumes.get_snapshot(ALICE, each)['status'] for each in (complete, failed, copied)]
    volumes.snapshots.end_lost()             # their requests may still start the jobs
    assert statuses() == ['creating'] * 3
    monkeypatch.setattr(store_jobs, 'RESUME_S', -1)
    volumes.snapshots.end_lost()
    assert statuses() == ['available', 'error', 'creating']          # a host may still write the copy
    assert home.ended(lambda: volumes.get(ALICE, waiting_for_it))['status'] == 'available'


def test_volumes_whose_upload_ended_without_database_become_available_later(home, monkeypatch):
    volumes, volume = home.volumes, home.made(1)
    home.set(tables_volume.volumes, volume, status='uploading')
    volumes.uploads.resume()                 # the request may still start the job
    assert volumes.get(ALICE, volume)['status'] == 'uploading'
    monkeypatch.setattr(store_jobs, 'RESUME_S', -1)
    volumes.uploads.resume()
    assert volumes.get(ALICE, volume)['status'] == 'available'
