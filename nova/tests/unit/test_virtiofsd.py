"""nova-virtiofsd, as far as it goes without root: which directory it serves, and what it mounts there."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import types
import uuid
from xml.etree import ElementTree as etree

import pytest

from nova import states
from nova.tests.support import waiting
from nova.tests.support import libvirt_xml as guests
from nova.virt import share_exports
from nova.virt import virtiofsd
from nova.virt.libvirt import xml
from nova.virt.libvirt.features import shares

SHARE, KEY = str(uuid.uuid4()), 'QUJD' * 10


@pytest.fixture
def directory(tmp_path):
    made = tmp_path / f'share-{SHARE}'
    made.mkdir()
    return made


def test_the_command_mounts_what_the_file_says(directory):
    (directory.parent / (directory.name + '.json')).write_text(json.dumps(
        {'protocol': 'NFS', 'export_location': '[2001:db8::1]:/a b'}))
    found = virtiofsd.source(['--fd=31', '-o', f'source={directory},cache=auto'])
    assert found == str(directory)
    protocol, location, user = virtiofsd.described(found)
    assert (protocol, user) == ('NFS', None)
    assert share_exports.mount(location, found) == [
        'mount', '-t', 'nfs', '-o', share_exports.OPTIONS + ',retry=0', '--', '[2001:db8::1]:/a b', found]


def test_a_share_of_cephfs_is_served_by_a_program_that_is_told_the_file_of_the_key():
    command = share_exports.serve('192.0.2.1:6789,[2001:db8::1]:6789:/volumes/_nogroup/a', 'nova-x', '/d.key', '/d')
    assert command[0] == 'ceph-fuse' and '-f' in command and command[-1] == '/d'
    options = dict(zip(command[3:-1:2], command[4:-1:2]))
    assert options['-m'] == '192.0.2.1:6789,[2001:db8::1]:6789' and options['-r'] == '/volumes/_nogroup/a'
    assert (options['--id'], options['--keyfile'], options['-o']) == ('nova-x', '/d.key', 'nosuid,nodev,noexec')
    assert options['--conf'] == '/dev/null' and options['--log-file'] == options['--admin-socket'] == ''


@pytest.mark.parametrize('form', [['--shared-dir', '{}'], ['--shared-dir={}'], ['-o', 'source={}']])
def test_the_directory_is_named_as_libvirt_names_it_to_either_virtiofsd(directory, form):
    """--shared-dir where virtiofsd has the feature separate-options."""
    arguments = ['--fd=31', *(word.format(directory) for word in form), '--cache', 'auto']
    assert virtiofsd.source(arguments) == str(directory)


def test_libvirt_gets_the_capabilities_of_the_program(tmp_path):
    program = tmp_path / 'virtiofsd'
    program.write_text('#!/bin/sh\necho "of the program: $*"\n')
    program.chmod(0o755)
    (tmp_path / 'a.json').write_text(json.dumps({'type': 'fs', 'binary': str(program)}))
    done = subprocess.run([sys.executable, '-c', 'import sys; from nova.virt import virtiofsd; '
                           'virtiofsd.DESCRIPTIONS = sys.argv.pop(1); sys.exit(virtiofsd.main())',
                           str(tmp_path / '*.json'), '--print-capabilities'], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, 'of the program: --print-capabilities\n')


@pytest.mark.parametrize('arguments', [
    [], ['--unknown'], ['-o', 'source=relative'], ['-o', 'source=/etc'], ['-o', 'cache=auto'], ['--shared-dir'],
    ['--shared-dir', '/etc'], ['--shared-dir', '/share-1', '-o', 'source=/share-2']])
def test_only_directories_of_shares_are_served(arguments, capsys):
    with pytest.raises(ValueError):
        virtiofsd.source(arguments)
    assert virtiofsd.main(arguments) == 2 and 'share' in capsys.readouterr().err


def test_a_link_is_no_directory_of_a_share(directory):
    link = directory.parent / f'share-{uuid.uuid4()}'
    link.symlink_to(directory)
    with pytest.raises(ValueError):
        virtiofsd.source(['-o', f'source={link}'])
    (directory.parent / (directory.name + '.json')).symlink_to('/etc/hostname')
    with pytest.raises(OSError):
        virtiofsd.described(str(directory))


@pytest.mark.parametrize('protocol, location', [
    ('CIFS', '//host/x'), ('NFS', 'host'), ('NFS', '-o:/x'), ('NFS', 'host:x'), ('NFS', 'host:/a\nb'), ('NFS', None),
    ('NFS', 'host:/' + 'x' * share_exports.MAX_LOCATION_LENGTH), (None, 'host:/x'), ('NFS', 'a:6789,b:6789:/x'),
    ('CEPHFS', 'host'), ('CEPHFS', '-m:/x'), ('CEPHFS', 'a,--conf:/x'), ('CEPHFS', 'a:6789,:/x'),
    ('CEPHFS', 'a:b:/x'),
    ('CEPHFS', ','.join(['a:6789'] * 17) + ':/x'), ('CEPHFS', 'a:6789:x'), ('CEPHFS', 'a:/x\n')])
def test_invalid_share_export_is_refused(protocol, location):
    with pytest.raises(ValueError):
        share_exports.check(protocol, location)


@pytest.mark.parametrize('user, key', [
    (None, None), ('', KEY), ('-x', KEY), ('a.b', KEY), ('a', ''), ('a', 'x y' * 10), ('a', KEY + '\n'),
    ('a' * 129, KEY), (['a'], KEY), ('a', 7)])
def test_invalid_ceph_user_is_refused(user, key):
    with pytest.raises(ValueError, match='no Ceph user'):
        share_exports.check_access('CEPHFS', user, key)
    share_exports.check_access('CEPHFS', 'nova-x', KEY)
    share_exports.check_access('NFS', user, key)


HELD = """
import os, sys
from nova.virt import share_servers
share_servers.os.path.ismount = os.path.exists         # a directory that appears stands for the mount
share_servers.FLUSH_S, share_servers.DEVICES = float(sys.argv[3]), (sys.argv[1] + '.none', sys.argv[1] + '.group')
leaked = os.open('/dev/null', os.O_RDONLY)
os.set_inheritable(leaked, True)
share_servers.start(['sh', '-c', sys.argv[2], 'sh', sys.argv[1]], sys.argv[1], float(sys.argv[4]))
os.execvp('sleep', ['sleep', '1000'])
"""
SERVES = 'echo $$ >"$1.pid"; trap "touch $1.flushed; exit" TERM; mkdir "$1"; while :; do sleep 0.05; done'
HANGS = 'echo $$ >"$1.pid"; trap "" TERM; mkdir "$1"; while :; do sleep 0.05; done'


def gone(pid):
    return not os.path.exists(f'/proc/{pid}') or open(f'/proc/{pid}/stat').read().split()[2] == 'Z'


@pytest.mark.parametrize('script, flushed', [(SERVES, True), (HANGS, False)])
def test_a_program_that_serves_a_share_ends_when_the_guest_has(tmp_path, script, flushed):
    """It has time to write what it holds; one that hangs is killed. It keeps nothing of libvirt's open."""
    place, group = tmp_path / 'share', tmp_path / 'share.group'
    group.mkdir()
    (group / 'cgroup.procs').write_bytes(b'-')
    held = subprocess.Popen([sys.executable, '-c', HELD, place, script, '60' if flushed else '0.5', '20'])
    waiting.wait_for(lambda: pathlib.Path(f'/proc/{held.pid}/comm').read_text() == 'sleep\n', 30, 'the mount')
    pid = int((tmp_path / 'share.pid').read_text())
    keeper = int(open(f'/proc/{pid}/stat').read().split()[3])
    assert not gone(pid) and keeper != held.pid and (group / 'cgroup.procs').read_text() == '0'
    targets = {os.readlink(each) for each in pathlib.Path(f'/proc/{keeper}/fd').iterdir() if int(each.name) > 2}
    assert targets == {'anon_inode:[pidfd]'}
    os.kill(keeper, signal.SIGTERM)              # as all of a guest's scope may get it
    held.kill()
    held.wait()
    waiting.wait_for(lambda: gone(pid) and gone(keeper), 30, 'the end of both')
    assert (tmp_path / 'share.flushed').exists() is flushed


@pytest.mark.parametrize('script', ['echo why >&2; exit 1', 'echo why >&2; exec sleep 1000'])
def test_a_program_that_does_not_mount_is_told(tmp_path, script):
    held = subprocess.run([sys.executable, '-c', HELD, tmp_path / 'share', script, '0.5', '1'], stderr=subprocess.PIPE,
                          text=True, timeout=60)
    assert held.returncode == 1 and 'why' in held.stderr and 'sh ended, or timed out after 1 s' in held.stderr


def test_the_program_is_the_one_of_the_host(tmp_path):
    with pytest.raises(ValueError, match='no virtiofsd'):
        virtiofsd.server(str(tmp_path / '*.json'))
    (tmp_path / 'a.json').write_text(json.dumps({'type': 'gpu', 'binary': '/bin/true'}))
    (tmp_path / 'b.json').write_text(json.dumps({'type': 'fs', 'binary': '/bin/sh'}))
    assert virtiofsd.server(str(tmp_path / '*.json')) == '/bin/sh'


def test_the_domain_has_the_share_and_memory_that_virtiofsd_reads():
    guest = guests.guest(shares=[{'share_id': SHARE, 'tag': 'a<b', 'directory': '/d', 'program': '/p'}])
    root = etree.fromstring(xml.domain(guest))
    found = root.find('./devices/filesystem')
    assert (found.find('driver').get('type'), found.find('binary').get('path')) == ('virtiofs', '/p')
    assert (found.find('source').get('dir'), found.find('target').get('dir')) == ('/d', 'a<b')
    assert root.find('./memoryBacking/source').get('type') == 'memfd'
    assert root.find('./memoryBacking/access').get('mode') == 'shared'
    assert xml.Guest.from_dict(guest.to_record()).shares == guest.shares


@pytest.mark.parametrize('user', [None, 7, ''])
def test_a_share_of_cephfs_without_its_user_is_refused_with_the_reason(directory, monkeypatch, capsys, user):
    (directory.parent / (directory.name + '.json')).write_text(json.dumps(
        {'protocol': 'CEPHFS', 'export_location': '192.0.2.1:6789:/x', 'user': user}))
    monkeypatch.setattr(virtiofsd, 'server', lambda: '/bin/true')
    monkeypatch.setattr(virtiofsd, '_leave_mounts', lambda: None)
    assert virtiofsd.main(['--shared-dir', str(directory)]) == 1
    assert capsys.readouterr().err == 'nova-virtiofsd: The CephFS share has no Ceph user.\n'


def test_share_is_not_mounted_if_the_host_would_see_the_mount(directory, tmp_path, monkeypatch, capsys):
    (directory.parent / (directory.name + '.json')).write_text(json.dumps(
        {'protocol': 'NFS', 'export_location': 'host:/a'}))
    programs = tmp_path / 'programs'
    programs.mkdir()
    (programs / 'mount').write_text(
        f'#!/bin/sh\n[ "$1" != --make-rslave ] || {{ echo "not a mount point"; exit 32; }}\n: >{tmp_path}/mounted\n')
    (programs / 'mount').chmod(0o755)
    monkeypatch.setenv('PATH', str(programs), prepend=os.pathsep)
    monkeypatch.setattr(virtiofsd, 'server', lambda: '/bin/true')
    monkeypatch.setattr(virtiofsd, 'ctypes', types.SimpleNamespace(
        CDLL=lambda *_, **__: types.SimpleNamespace(unshare=lambda _flags: 0)))
    monkeypatch.setattr(os, 'execv', lambda *_: None)
    assert virtiofsd.main(['--shared-dir', str(directory)]) == 1
    assert capsys.readouterr().err == ('nova-virtiofsd: The mounts of this process cannot be separated from those of '
                                       'the host: not a mount point\n')
    assert not (tmp_path / 'mounted').exists()


@pytest.mark.parametrize('crashed', [False, True])
def test_directory_of_an_attached_share_can_be_passed_by_virtiofsd(tmp_path, monkeypatch, crashed):
    """A crash between the creation of the directory and the change of its mode left it closed."""
    path = tmp_path / f'share-{SHARE}'
    if crashed:
        path.mkdir(mode=0o700)
    guests = types.SimpleNamespace(
        storage=types.SimpleNamespace(path=lambda uuid, name: str(tmp_path / name), save=lambda guest: None),
        hypervisor=types.SimpleNamespace(power_state=lambda uuid: states.SHUTDOWN),
        operation=lambda uuid: contextlib.nullcontext(), record=lambda uuid: types.SimpleNamespace(shares=[]))
    monkeypatch.setattr(virtiofsd, 'server', lambda: '/bin/true')
    shares.Shares(guests, '/bin/true').attach_share(None, types.SimpleNamespace(uuid='u'), {
        'share_id': SHARE, 'protocol': 'NFS', 'export_location': 'host:/a', 'tag': 't', 'access': None})
    assert path.stat().st_mode & 0o777 == shares.DIRECTORY_MODE
