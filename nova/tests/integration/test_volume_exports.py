"""Exports of volumes for other hosts: the real qemu-storage-daemon, real TLS, and QEMU's own client of it."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from concurrent import futures

import pytest

from nova import context as nova_context
from nova import exception
from nova.db.tables import volume as tables
from nova.runtime import metrics
from nova.runtime import process_exit
from nova.tests import long_runs
from nova.tests.support import volume_exports
from nova.tests.support import volume_files as test_volume_files
from nova.tests.support.volume_exports import ALICE
from nova.tests.support.volume_exports import CLOSED
from nova.tests.support.volume_exports import GIB
from nova.tests.support.volume_exports import Home
from nova.tests.support.volume_exports import SERVER
from nova.tests.support.waiting import wait_for
from nova.volume.exports import daemon
from nova.volume.exports import exporter

pytestmark = volume_exports.pytestmark


@pytest.fixture
def home():
    directory = pathlib.Path(tempfile.mkdtemp(prefix='nova-exports-', dir='/var/tmp'))
    made = Home(directory)
    try:
        yield made
    finally:
        made.volumes.stop(5)
        for pid in made.daemons():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(directory)


def test_a_host_elsewhere_reads_and_writes_over_tls_and_no_other_does(home):
    volume_id, other_id = home.made(1), home.made(1)
    home.write(other_id, b'other')
    attachment, data = home.attached(volume_id)
    assert data['tls'] is True and data['export'] == attachment and data['port'] == home.port
    code, said = home.client('h2', data, 'write -P 7 4096 4096', 'flush', 'read -P 7 4096 4096')
    assert code == 0 and 'verification failed' not in said
    assert home.read(volume_id, 2, 4096) == b'\7\7' and home.path(volume_id).stat().st_size == GIB
    # another host with a certificate of the same authority, and one that says nothing of itself
    assert home.client('h3', data, 'read 0 512')[0] == CLOSED
    assert home.client('h2', data, 'read 0 512', tls=False)[0] == CLOSED
    # no other volume has a name there
    assert home.client('h2', {**data, 'export': other_id}, 'read 0 512')[0] == CLOSED
    assert home.client('h2', {**data, 'export': ''}, 'read 0 512')[0] == CLOSED
    # the attachment goes, and so does all of it
    home.volumes.detach(ALICE, attachment)
    assert home.client('h2', data, 'read 0 512')[0] == CLOSED
    assert home.daemons() == [] and home.volumes.get(ALICE, volume_id)['status'] == 'available'


def test_two_hosts_have_one_volume_while_its_server_moves(home):
    volume_id = home.made(1)
    first, here = home.attached(volume_id, 'h2')
    second, there = home.attached(volume_id, 'h3')
    assert here['port'] != there['port']
    assert home.client('h2', here, 'write -P 5 0 512', 'flush')[0] == 0
    code, said = home.client('h3', there, 'read -P 5 0 512')
    assert code == 0 and 'verification failed' not in said
    home.volumes.detach(ALICE, first)
    assert home.client('h2', here, 'read 0 512')[0] == CLOSED
    assert home.client('h3', there, 'write -P 6 0 512')[0] == 0
    # the same attachment for another host: the one before is shut out
    moved = home.volumes.connect(ALICE, second, home.connector('h4'), '/dev/vdb')['data']
    assert home.client('h3', there, 'write -P 1 0 512')[0] == CLOSED
    assert home.client('h4', moved, 'read -P 6 0 512')[0] == 0
    # and for the host that has the files
    local = home.volumes.connect(ALICE, second, {'host': 'h1', 'ip': '127.0.0.1'}, '/dev/vdb')
    assert local['driver_volume_type'] == 'local' and home.daemons() == []


def test_exports_outlive_the_service_and_come_back_after_a_crash(home):
    kept, gone = home.made(1), home.made(1)
    attachment, data = home.attached(kept)
    left, left_data = home.attached(gone)
    before, = home.daemons()
    home.start()                                         # the service ends, and another one goes on
    assert home.daemons() == [before]
    assert home.client('h2', data, 'write -P 9 0 4096', 'flush')[0] == 0
    # a restored database does not name it, or names the host where it was before: the guest keeps its disk
    home.volumes.stop(5)
    with home.db.reader() as conn:
        row = test_volume_files.db_volumes.get(conn, tables.volume_attachments, left, nova_context.ALL_PROJECTS)
    home.db.run(test_volume_files.db_volumes.delete, tables.volume_attachments, left)
    unnamed = metrics.EXPORTS_ORPHANED._value.get()
    home.start()
    assert metrics.EXPORTS_ORPHANED._value.get() == unnamed + 1
    assert home.client('h2', left_data, 'write -P 3 0 512', 'flush')[0] == 0
    home.db.run(test_volume_files.db_volumes.insert, tables.volume_attachments, {
        **row, 'connector': home.connector('h3')})
    home.volumes.attach_backend.exports.reconcile()
    assert home.client('h2', left_data, 'read -P 3 0 512')[0] == 0
    # a row that says that it ends closes it
    home.db.run(test_volume_files.db_volumes.update, tables.volume_attachments, left, {
        'status': 'closing', 'connector': home.connector('h2')})
    home.start()
    assert home.client('h2', left_data, 'read 0 512')[0] == CLOSED
    # the daemon crashes: the same address, the same export
    assert process_exit.end(before, signal.SIGKILL, 30)
    wait_for(lambda: home.client('h2', data, 'read 0 512')[0] == 0, 30, 'the exporter to come back')
    assert home.daemons() != [before]
    code, said = home.client('h2', data, 'read -P 9 0 4096')
    assert code == 0 and 'verification failed' not in said
    # the service and the daemons crash, and a removal was under way
    home.volumes.stop(5)
    for pid in home.daemons():
        assert process_exit.end(pid, signal.SIGKILL, 30)
    home.db.run(test_volume_files.db_volumes.update, tables.volume_attachments, attachment, {'status': 'closing'})
    home.start()
    assert home.daemons() == [] and home.volumes.get(ALICE, kept)['attachments'] == []


@long_runs.only
def test_a_daemon_whose_certificate_ends_is_named_in_the_log(home, monkeypatch, caplog):
    attachment, _data = home.attached(home.made(1))
    home.volumes.attach_backend.exports.reconcile()
    assert 'expires soon' not in caplog.text
    monkeypatch.setattr(exporter, 'EXPIRY_WARNING_S', 398 * 86400)
    home.volumes.attach_backend.exports.reconcile()
    assert 'expires soon' not in caplog.text                # it is for so long
    monkeypatch.setattr(exporter, 'EXPIRY_WARNING_S', 400 * 86400)
    home.volumes.attach_backend.exports.reconcile()
    assert 'The certificate of the exporter of host h2 expires soon' in caplog.text
    home.volumes.detach(ALICE, attachment)


@long_runs.only
def test_a_daemon_that_hangs_does_not_keep_a_volume(home, monkeypatch):
    monkeypatch.setattr(daemon.qmp, 'TIMEOUT_S', 1)
    monkeypatch.setattr(daemon.qmp.Monitor.__init__, '__defaults__', (1,))
    volume_id, other_id = home.made(1), home.made(1)
    attachment, data = home.attached(volume_id)
    _other, other_data = home.attached(other_id)
    hung, = home.daemons()
    os.kill(hung, signal.SIGSTOP)
    home.volumes.detach(ALICE, attachment)
    assert hung not in home.daemons()
    wait_for(lambda: home.client('h2', other_data, 'read 0 512')[0] == 0, 30, 'the other export to come back')
    assert home.client('h2', data, 'read 0 512')[0] == CLOSED


@long_runs.only
def test_servers_of_one_host_have_separate_exports(home):
    """Each has an export of its own."""
    volume_id = home.volumes.create(ALICE, 1, multiattach=True)['id']
    first, one = home.attached(volume_id)
    second, two = home.attached(volume_id, server=str(uuid.uuid4()))
    assert one['port'] == two['port'] and one['multiattach']
    assert home.client('h2', one, 'write -P 3 0 512', 'flush')[0] == 0
    assert home.client('h2', two, 'read -P 3 0 512')[0] == 0
    home.volumes.detach(ALICE, first)
    assert home.client('h2', one, 'read 0 512')[0] == CLOSED
    assert home.client('h2', two, 'read 0 512')[0] == 0
    home.volumes.detach(ALICE, second)


def test_impossible_exports_are_refused_with_the_reason(home, monkeypatch):
    volume_id = home.made(1)
    attachment = home.volumes.attach(ALICE, volume_id, SERVER)
    with pytest.raises(exception.InvalidVolume, match='not a valid host name'):
        home.volumes.connect(ALICE, attachment, {'host': 'a,CN=h2', 'ip': '192.0.2.2'}, '/dev/vdb')
    # an address that another program has is left out
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', home.port))
        taken.listen()
        data = home.volumes.connect(ALICE, attachment, home.connector('h2'), '/dev/vdb')['data']
    assert data['port'] > home.port
    home.volumes.complete(ALICE, attachment)
    with pytest.raises(exception.InvalidVolume, match='exported to another host'):
        home.volumes.extend(ALICE, volume_id, 2, online=True)
    home.volumes.detach(ALICE, attachment)
    # no program
    monkeypatch.setattr(exporter.shutil, 'which', lambda name: None)
    attachment = home.volumes.attach(ALICE, volume_id, SERVER)
    with pytest.raises(exception.InvalidVolume, match='not installed'):
        home.volumes.connect(ALICE, attachment, home.connector('h2'), '/dev/vdb')


@long_runs.only
def test_a_snapshot_of_one_moment_while_a_host_elsewhere_writes(home):
    volume_id = home.made(1)
    attachment, data = home.attached(volume_id)
    assert home.client('h2', data, 'write -P 4 0 1M', 'write -P 5 512M 64k', 'flush')[0] == 0
    snapshot = home.snapshot(volume_id)
    assert home.client('h2', data, 'write -P 6 0 1M')[0] == 0
    path = pathlib.Path(home.volumes.files.snapshot(snapshot))
    with path.open('rb') as content:
        assert content.read(2 ** 20) == b'\4' * 2 ** 20
        content.seek(512 << 20)
        assert content.read(65536) == b'\5' * 65536
    assert path.stat().st_size == GIB and path.stat().st_blocks * 512 < 4 * 2 ** 20
    # a backup is of one moment, too
    backup = home.volumes.backups.create(ALICE, volume_id, name='b', description=None, metadata={})['id']
    assert home.ended(lambda: home.volumes.backups.get(ALICE, backup))['status'] == 'available'
    assert home.client('h2', data, 'write -P 8 0 1M', 'write -P 6 0 1M')[0] == 0
    with open(home.volumes.files.backup(backup), 'rb') as content:
        assert content.read(2 ** 20) == b'\6' * 2 ** 20
    again = home.snapshot(volume_id)
    assert pathlib.Path(home.volumes.files.snapshot(again)).open('rb').read(2) == b'\6\6'
    home.volumes.detach(ALICE, attachment)
    assert home.daemons() == []


def test_zeros_that_a_guest_has_written_are_not_in_a_copy(home):
    volume_id = home.made(1)
    attachment, data = home.attached(volume_id)
    assert home.client('h2', data, 'write -P 4 0 1M', 'write -P 0 16M 32M', 'flush')[0] == 0
    assert home.path(volume_id).stat().st_blocks * 512 >= 33 << 20
    copy = home.volumes.files.prepare_copy(str(home.directory / 'copy'), GIB, str(home.path(volume_id)))
    home.volumes.attach_backend.copy(attachment, home.connector('h2'), copy)
    assert pathlib.Path(copy).stat().st_blocks * 512 < 4 << 20
    home.volumes.detach(ALICE, attachment)


def test_detachment_ends_only_the_copy_of_its_export(home):
    volume_id = home.made(1)
    attachment, data = home.attached(volume_id)
    _other, other_data = home.attached(home.made(1))
    pid, = home.daemons()
    assert home.client('h2', data, 'write -P 4 0 16M', 'flush')[0] == 0
    served = home.volumes.attach_backend.exports._daemon('h2')
    copy = daemon._copy_of(attachment)
    path = home.volumes.files.prepare_copy(str(home.directory / 'copy'), GIB, str(home.path(volume_id)))
    with served._connected() as monitor:     # as begin_copy, but too slow to be complete before the detachment
        monitor.run('blockdev-add', driver='qcow2', node_name=copy, file={'driver': 'file', 'filename': path})
        monitor.run('blockdev-backup', job_id=copy, device=daemon.ident(attachment), target=copy, sync='full',
                    auto_dismiss=False, speed=65536)
    home.volumes.detach(ALICE, attachment)
    assert home.daemons() == [pid] and served.names() == {daemon.ident(other_data['export'])}
    with pytest.raises(exception.InvalidVolume, match='interrupted'):
        served.is_copied(attachment)


@long_runs.only
def test_hosts_that_come_and_go_at_once_leave_nothing(home):
    """A daemon ends with its last export, while another one of its host is being opened."""
    volumes, found = [home.made(1) for _ in range(4)], []
    home.certificate('h2')

    def come_and_go(volume_id):
        for _ in range(3):
            attachment, data = home.attached(volume_id)
            found.append(home.client('h2', data, 'write -P 2 0 512'))
            home.volumes.detach(ALICE, attachment)
    with futures.ThreadPoolExecutor() as pool:
        list(pool.map(come_and_go, volumes))
    assert [code for code, _said in found] == [0] * 12, found
    assert home.daemons() == []


def test_a_read_only_volume_is_exported_so(home):
    volume_id = home.made(1)
    home.write(volume_id, b'\5' * 512)
    home.volumes.update(ALICE, volume_id, lambda row: {'readonly': True})
    attachment, data = home.attached(volume_id)
    assert data['access_mode'] == 'ro'
    assert home.client('h2', data, 'read -P 5 0 512')[0] == CLOSED       # qemu-io opens it for writing
    target = (f'driver=nbd,server.type=inet,server.host={data["host"]},server.port={data["port"]},'
              f'export={data["export"]},tls-creds=tls')
    done = subprocess.run(['qemu-io', '-r', '--object', 'tls-creds-x509,id=tls,endpoint=client,verify-peer=on,dir='
                           f'{home.certificate("h2")}', '-c', 'read -P 5 0 512', '--image-opts', target],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and 'verification failed' not in done.stdout
    home.volumes.detach(ALICE, attachment)
    assert home.read(volume_id, 1) == b'\5'
