"""The privileged steps of the libvirt driver: what they refuse, and that root's hands end where they should."""
import os
import pwd
import subprocess
import uuid

import pytest

from nova import conf as configuration
from nova import exception
from nova.disk_files import files
from nova.runtime import privileges
from nova.tests.support import libvirt_remote
from nova.tests.support import passable
from nova.virt.libvirt.local_disks import storage
from nova.virt.libvirt.privileged import remote

pytestmark = libvirt_remote.pytestmark


MIB = 2 ** 20
UUID, OTHER = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))
NOBODY, QEMU = 65534, 64055

@pytest.fixture
def place():
    """The directory of the guests of a host, with one guest in it."""
    with passable.directory() as made:
        for name in (UUID, '_base'):
            (made / name).mkdir()
            (made / name).chmod(0o711)
        yield made


@pytest.fixture
def helper(place):
    made = remote.helper(configuration.new(files=[]), str(place), NOBODY)
    made.fork()
    yield made
    made.stop()
    os.waitpid(made.pid, 0)


def reads(user, path):
    """Whether a user may read a file."""
    return not subprocess.run(['setpriv', f'--reuid={user}', f'--regid={user}', '--clear-groups', 'cat', path],
                              capture_output=True).returncode


def test_privileged_steps_are_those_of_the_driver(place, helper):
    conf = configuration.new(files=[])
    steps = remote.RemoteSteps(helper, conf)
    disk, copy = place / UUID / 'disk', place / UUID / 'snapshot-ab_1' / 'disk.qcow2'
    copy.parent.mkdir()
    copy.parent.chmod(0o711)
    assert steps.qemu_img.prepare(str(place)).startswith(('user, as', 'root, as'))
    steps.qemu_img.create(str(disk), 'qcow2', MIB)
    steps.qemu_img.resize(str(disk), 'qcow2', 2 * MIB)
    assert steps.qemu_img.info(str(disk), 'qcow2')['virtual-size'] == 2 * MIB
    assert 0 < steps.qemu_img.measure(str(disk), 'qcow2') < MIB
    steps.qemu_img.convert(str(disk), 'qcow2', str(copy), 'qcow2')
    assert copy.stat().st_size
    key, locked = '5' * 64, place / UUID / 'disk.locked'
    steps.qemu_img.convert(str(disk), 'qcow2', str(locked), 'qcow2', key=key)
    steps.qemu_img.resize(str(locked), 'qcow2', 3 * MIB, key=key)
    with pytest.raises(exception.VirtError, match='(?i)password|key'):
        steps.qemu_img.resize(str(locked), 'qcow2', 4 * MIB, key='6' * 64)
    assert steps.qemu_img.info(str(locked), 'qcow2')['encrypted']
    (place / UUID / 'console.log').write_bytes(b'\xff booted')
    assert steps.console(UUID) == b'\xff booted' and steps.console(OTHER) == b''
    assert set(steps.qemu_settings()) <= {'security_default_confined', 'seccomp_sandbox'}
    os.chmod(copy, 0o600)
    os.chown(copy, QEMU, QEMU)
    assert not reads(NOBODY, copy)
    steps.let_read(str(copy))
    assert reads(NOBODY, copy) and copy.stat().st_uid == NOBODY          # a snapshot that QEMU has ended
    os.chown(disk, QEMU, QEMU)
    steps.let_read(str(disk))
    assert reads(NOBODY, disk) and disk.stat().st_uid == QEMU


def test_an_image_of_another_program_is_converted_in_the_cache_alone(place, helper):
    tool, source = remote.RemoteQemuImg(helper), place / '_base' / 'one.vmdk.part'
    subprocess.run(['qemu-img', 'create', '-q', '-f', 'vmdk', source, '3M'], check=True)
    target = place / '_base' / 'one.qcow2.part'
    assert tool.info(str(source), 'vmdk')['virtual-size'] == 3 * MIB and tool.measure(str(source), 'vmdk') < MIB
    tool.convert(str(source), 'vmdk', str(target), 'qcow2')
    assert tool.info(str(target), 'qcow2')['virtual-size'] == 3 * MIB
    for other in ('_base/one.qcow2', '_base/one.raw.part', '_base/../one.qcow2.part'):
        with pytest.raises(exception.VirtError, match='the privileged part refuses it'):
            helper.call('qemu_img.convert', path=str(source), disk_format='vmdk', target=f'{place}/{other}',
                        target_format='qcow2', backing_file=None)


def test_a_failure_is_one_of_the_hypervisor(place, helper):
    (place / UUID / 'disk').write_bytes(b'no qcow2')
    with pytest.raises(exception.VirtError) as caught:
        remote.RemoteQemuImg(helper).info(str(place / UUID / 'disk'), 'qcow2')
    assert caught.value.kwargs['operation'] == 'read the disk'
    with pytest.raises(exception.VirtError, match='No such file'):
        helper.call('qemu_img.info', path=str(place / UUID / 'disk.swap'), disk_format='raw')


@pytest.mark.parametrize('path', [
    '/etc/passwd', '{}/../etc/passwd', '{}/' + UUID + '/../disk', '{}/' + UUID + '/guest.json', '{}/' + UUID,
    '{}/_base/x', '{}/_base/../' + UUID + '/disk', '{}' + UUID + '/disk', UUID + '/disk', '', None, 7, ['{}'],
    '{}/' + UUID + '/disk\n', '{}/' + UUID + '/disk.', '{}/' + UUID + '/snapshot-a/../../x/disk.qcow2', '{}/x/disk'])
def test_other_paths_are_refused(place, helper, path):
    path = path.format(place) if isinstance(path, str) else path
    for operation, arguments in (
            ('qemu_img.info', {'disk_format': 'raw'}), ('guest.let_read', {}),
            ('qemu_img.measure', {'disk_format': 'raw', 'backing_file': None}),
            ('qemu_img.create', {'disk_format': 'raw', 'size': 1, 'backing_file': None, 'backing_format': None}),
            ('qemu_img.resize', {'disk_format': 'raw', 'size': 1, 'backing_file': None})):
        with pytest.raises(exception.VirtError, match='the privileged part refuses it'):
            helper.call(operation, path=path, **arguments)


@pytest.mark.parametrize(('operation', 'arguments'), [
    ('qemu_img.info', {'disk_format': 'ploop'}), ('qemu_img.info', {'disk_format': ['raw']}),
    ('qemu_img.info', {'disk_format': 'raw', 'more': 1}), ('qemu_img.info', {}),
    *(('qemu_img.resize', {'disk_format': 'raw', 'size': size, 'backing_file': None})
      for size in (-1, 1 << 62, '1', 1.5, True, None)),
    ('qemu_img.resize', {'disk_format': 'raw', 'size': 1, 'backing_file': '/etc/passwd'}),
    ('qemu_img.convert', {'disk_format': 'raw', 'target': '/etc/x', 'target_format': 'raw', 'backing_file': None}),
    ('qemu_img.create', {'disk_format': 'vmdk', 'size': 1, 'backing_file': None, 'backing_format': None}),
    ('qemu_img.create', {'disk_format': 'raw', 'size': 1, 'backing_file': None, 'backing_format': 'nbd'}),
    ('qemu_img.create', {'disk_format': 'raw', 'size': 1, 'backing_file': None, 'backing_format': None,
                         'key': 'x,file=/etc/shadow'}),
])
def test_other_arguments_are_refused(place, helper, operation, arguments):
    (place / UUID / 'disk').write_bytes(b'')
    with pytest.raises(exception.VirtError, match='the privileged part refuses it'):
        helper.call(operation, path=str(place / UUID / 'disk'), **arguments)


def test_other_guests_of_the_console_are_refused(helper):
    for given in ('..', '../../etc', UUID + '/..', UUID.upper().replace('0', 'A'), '', None, UUID + '\n'):
        with pytest.raises(exception.VirtError, match='refuses'):
            helper.call('guest.console', uuid=given)


def test_privileged_steps_do_not_follow_links(place, helper, tmp_path):
    """Who has taken over the ordinary part owns the directories, and puts links into them."""
    secret = tmp_path / 'secret'
    secret.write_text('of root')
    secret.chmod(0o600)
    (place / UUID / 'disk').symlink_to(secret)
    os.link(secret, place / UUID / 'disk.swap')
    (place / UUID / 'console.log').symlink_to(secret)
    (tmp_path / 'disk').write_text('of root')
    (tmp_path / 'console.log').write_text('of root')
    (place / OTHER).symlink_to(tmp_path)
    os.mkfifo(place / UUID / 'disk.config')
    for name in (f'{UUID}/disk', f'{UUID}/disk.swap', f'{UUID}/disk.config', f'{OTHER}/disk'):
        for operation, arguments in (
                ('qemu_img.info', {'disk_format': 'raw'}), ('guest.let_read', {}),
                ('qemu_img.resize', {'disk_format': 'raw', 'size': MIB, 'backing_file': None}),
                ('qemu_img.convert', {'disk_format': 'raw', 'target': str(place / UUID / 'disk.eph'),
                                      'target_format': 'raw', 'backing_file': None})):
            with pytest.raises(exception.VirtError):
                helper.call(operation, path=str(place / name), **arguments)
    for given in (UUID, OTHER):
        with pytest.raises(exception.VirtError):
            helper.call('guest.console', uuid=given)
    assert secret.read_text() == 'of root' and secret.stat().st_uid == secret.stat().st_gid == 0
    assert not reads(NOBODY, secret)


def test_ports_are_plugged_only_where_the_networks_are_neutrons(place):
    for backend, plugs in (('embedded', False), ('neutron', True)):
        conf = configuration.new(files=[], network__backend=backend)
        made = remote.operations(conf, str(place), NOBODY)
        assert ('vif.plug' in made) is plugs
        assert (privileges.NET_ADMIN in remote.capabilities(conf)) is plugs
    good = {'kind': 'ovs', 'id': UUID, 'mac': 'fa:16:3e:00:00:01', 'bridge': 'br-int', 'device': 'tap1', 'mtu': 1500,
            'datapath': '', 'socket': '', 'server': False, 'multiqueue': False}
    for bad in ({**good, 'bridge': '-x'}, {**good, 'device': 'a/b'}, {**good, 'mtu': 1}, {**good, 'more': 1}, 'text',
                {**good, 'id': 'x'}, {**good, 'kind': 'any'}, {**good, 'mtu': '1500'}, {**good, 'mtu': None}):
        with pytest.raises((ValueError, exception.VirtError)):
            made['vif.plug'](uuid=UUID, port=bad)


def test_without_a_sandbox_nothing_reads_images_as_root(place):
    conf = configuration.new(files=[], libvirt__sandbox_qemu_img=False)
    assert not any(name.startswith('qemu_img') for name in remote.operations(conf, str(place), NOBODY))
    helper = privileges.Helper({})
    assert remote.RemoteSteps(helper, conf).qemu_img.prepare(str(place)) == 'none'


# ---- whose the files are ------------------------------------------------------

def test_a_disk_is_read_whoever_it_belongs_to(place):
    disk = place / UUID / 'disk'
    disk.write_text('x')
    files.give_to_guest(disk)
    os.chown(disk, QEMU, QEMU)
    assert not reads(NOBODY, disk)                       # root needs no leave of the file
    files.let_read(str(disk), NOBODY)
    for owner in (QEMU, 0, NOBODY):
        os.chown(disk, owner, owner)
        assert reads(NOBODY, disk) and not reads(1, disk)
    assert disk.stat().st_mode & 0o777 == 0o640


def test_leave_to_read_a_private_file_is_for_those_users_alone(place):
    """The mode of a file with an access control list has the list's mask in place of the group's rights."""
    disk = place / UUID / 'disk'
    disk.write_text('x')
    disk.chmod(0o600)
    os.chown(disk, QEMU, 1)
    for user in (NOBODY, 2, NOBODY):
        files.let_read(str(disk), user)
    assert reads(NOBODY, disk) and reads(2, disk) and not reads(1, disk)
    disk.chmod(0o600)                                    # takes the rights of both
    files.let_read(str(disk), NOBODY)
    assert reads(NOBODY, disk) and not reads(2, disk) and not reads(1, disk)


def test_guests_of_root_are_taken_over(place, tmp_path):
    running, off, base = place / UUID / 'disk', place / UUID / 'disk.swap', place / '_base' / 'i.raw'
    secret = tmp_path / 'secret'
    for path in (running, off, base, secret):
        path.write_text('x')
        path.chmod(0o640)
    os.chown(running, QEMU, QEMU)
    os.chown(base, QEMU, QEMU)
    (place / UUID / 'disk.config').symlink_to(secret)
    os.link(secret, place / UUID / 'kernel')
    for _ in range(2):
        storage.take_over(str(place), pwd.getpwnam('nobody'))
        assert {path.stat().st_uid for path in (place, place / UUID, place / '_base', off, base)} == {NOBODY}
        assert running.stat().st_uid == QEMU and reads(NOBODY, running)
        assert secret.stat().st_uid == 0 and not reads(NOBODY, secret)


def test_a_link_in_the_place_of_the_guests_is_not_followed(place, tmp_path):
    """Who is the ordinary user puts it there, and waits for the next start of root's part."""
    secret, link = tmp_path / 'etc' / 'shadow', place / 'instances'
    secret.parent.mkdir()
    secret.write_text('of root')
    link.symlink_to(secret.parent)
    storage.take_over(str(link), pwd.getpwnam('nobody'))
    storage.take_over(str(place / 'absent'), pwd.getpwnam('nobody'))
    assert secret.stat().st_uid == secret.parent.stat().st_uid == 0
