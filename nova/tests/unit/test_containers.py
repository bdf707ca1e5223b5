"""Containers without libvirt: whose users they are, what is unpacked, and what the privileged part does for them."""
import contextlib
import io
import os
import pathlib
import pwd
import tarfile
import uuid
from xml.etree import ElementTree as etree

import pytest

from nova import conf as configuration
from nova import exception
from nova.tests.support import passable
from nova.virt.libvirt.local_disks import storage
from nova.virt.libvirt import xml
from nova.virt.libvirt.containers import domain
from nova.virt.libvirt.container_root import unpack
from nova.virt.libvirt.container_root import users
from nova.virt.libvirt.privileged import remote

UUID = str(uuid.UUID(int=1))
NOBODY = 65534
MAP = users.parse('uid_maps', ['0:500000:1000', '1000:2000000:10'])
as_root = pytest.mark.skipif(os.geteuid() != 0, reason='needs root')


@pytest.fixture
def place():
    with passable.directory() as made:
        (made / UUID).mkdir()
        (made / UUID).chmod(0o711)
        yield made


def archive(path, *members):
    """A tar archive of (name, content or type, values)."""
    with tarfile.open(path, 'w') as made:
        for name, content, values in (('sbin/init', b'#!', {'mode': 0o4755}), *members):
            member = tarfile.TarInfo(name)
            for key, value in values.items():
                setattr(member, key, value)
            if content is not None:
                member.size = len(content)
            made.addfile(member, io.BytesIO(content or b''))
    return str(path)


# ---- users ------------------------------------------------------------------------------

@pytest.mark.parametrize('texts', [
    [], ['1:500000:10'], ['0:0:65536'], ['0:999:10'], ['0:500000:10', '5:600000:10'], ['0:500000:10', '10:500005:10'],
    ['0:4294967290:10']])
def test_a_container_is_never_a_user_of_the_host(texts):
    with pytest.raises(exception.VirtError, match=r'\[libvirt\] uid_maps'):
        users.parse('uid_maps', texts)


def test_each_id_has_its_place():
    assert [users.of(MAP, number) for number in (0, 999, 1000, 1009, 1010)] == [500000, 500999, 2000000, 2000009, None]
    assert users.table(MAP) == '0 500000 1000\n1000 2000000 10\n'


def test_the_default_is_one_that_is_accepted():
    options = configuration.new(files=[]).libvirt
    assert users.of(users.parse('uid_maps', options.uid_maps), 0) == 1000000000
    assert users.parse('gid_maps', options.gid_maps)


# ---- the domain ---------------------------------------------------------------------------

def test_the_domain_has_a_map_a_network_of_its_own_and_bounds():
    guest = xml.Guest.of({
        'uuid': UUID, 'name': 'instance-' + UUID, 'owner': '/instances', 'virt_type': 'lxc', 'vcpus': 3,
        'memory_mb': 256, 'console_log': '/console.log', 'settings': {'quota_cpu_shares': '77'},
        'interfaces': [xml.Interface('fa:16:3e:00:00:01', 'br0', 'tap1', mtu=1450)]})
    root = etree.fromstring(domain.domain(guest, '/instances/root', MAP, MAP, cgroups=2))
    assert (root.get('type'), root.findtext('os/type'), root.findtext('os/init')) == ('lxc', 'exe', '/sbin/init')
    assert [each.attrib for each in root.findall('idmap/uid')] == [
        {'start': '0', 'target': '500000', 'count': '1000'}, {'start': '1000', 'target': '2000000', 'count': '10'}]
    assert root.find('features/privnet') is not None
    assert [root.findtext(f'cputune/{name}') for name in ('shares', 'quota')] == ['77', '300000']
    assert root.findtext('memory') == '256'
    assert root.find('devices/filesystem/source').get('dir') == '/instances/root'
    assert root.find('devices/interface/target').get('dev') == 'tap1'


@pytest.mark.parametrize('cgroups, vcpus, weight', [
    (1, 2, 2048), (1, 300, 262144), (2, 2, 200), (2, 64, 6400), (2, 101, 10000)])
def test_default_cpu_weight_is_valid_in_the_control_groups_of_the_host(cgroups, vcpus, weight):
    guest = xml.Guest.of({
        'uuid': UUID, 'name': 'n', 'owner': '/instances', 'virt_type': 'lxc', 'vcpus': vcpus, 'memory_mb': 256,
        'console_log': '/console.log'})
    root = etree.fromstring(domain.domain(guest, '/instances/root', MAP, MAP, cgroups))
    assert root.findtext('cputune/shares') == str(weight)


# ---- the file system ----------------------------------------------------------------------

@as_root
def test_files_belong_to_the_users_of_the_container(place):
    made = archive(place / 'image', ('etc/x', b'1', {'uid': 1005, 'gid': 7}), ('dev/null', None, {
        'type': tarfile.CHRTYPE, 'devmajor': 1, 'devminor': 3}), ('etc/y', None, {
            'type': tarfile.SYMTYPE, 'linkname': '/etc/x'}), ('/etc/z', None, {
                'type': tarfile.LNKTYPE, 'linkname': './etc/x', 'uid': 1005, 'gid': 7}))
    unpack.unpack(str(place / UUID), [made], 1 << 20, MAP, MAP)
    root = place / UUID / 'root'
    owners = {str(path.relative_to(root)): (path.lstat().st_uid, path.lstat().st_gid) for path in root.rglob('*')}
    assert owners == {'sbin': (500000, 500000), 'sbin/init': (500000, 500000), 'etc': (500000, 500000),
                      'etc/x': (2000005, 500007), 'etc/y': (500000, 500000), 'etc/z': (2000005, 500007)}
    assert (root / 'sbin/init').stat().st_mode & 0o7777 == 0o4755 and root.stat().st_uid == 500000
    for _ in range(2):
        unpack.remove(str(place / UUID))
    assert not root.exists()


@as_root
def test_reason_of_an_unpacking_process_that_ends_early_is_reported(place, tmp_path, monkeypatch):
    program = tmp_path / 'python'
    program.write_text('#!/bin/sh\necho this host does not allow user namespaces: Invalid argument\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setattr(unpack.sys, 'executable', str(program))
    with pytest.raises(exception.VirtError, match='this host does not allow user namespaces: Invalid argument'):
        unpack.unpack(str(place / UUID), [archive(place / 'image', ('a', b'1', {}))], 1 << 20, MAP, MAP)


@as_root
@pytest.mark.parametrize('member, said', [
    (('x/../../y', b'1', {}), 'leads out'), (('x', b'1', {'uid': 4000}), 'Invalid argument|could not change owner'),
    (('x', b'1' * 200000, {}), 'unpack the file system: its content is larger than the root disk of the flavor')])
def test_invalid_archive_member_aborts_unpacking(place, member, said):
    with pytest.raises(exception.VirtError, match=said):
        unpack.unpack(str(place / UUID), [archive(place / 'image', member)], 100000, MAP, MAP)


def test_too_many_files_are_the_reason_when_they_are(place):
    """It said that the content was larger than the root disk."""
    (place / 'target').mkdir()
    with (open(archive(place / 'image', ('a', b'1', {}), ('b', b'1', {})), 'rb') as file,
          pytest.raises(unpack.Refused, match='it has more than 1000000 files')):
        unpack.extract(file.fileno(), str(place / 'target'), [100000, 1])


@pytest.mark.parametrize('kind', (tarfile.DIRTYPE, tarfile.SYMTYPE))
def test_a_size_below_zero_makes_no_room(place, kind):
    """The room that was left grew by it: an archive filled the disk of the host."""
    member = tarfile.TarInfo('x')
    member.type, member.linkname = kind, 'y' if kind == tarfile.SYMTYPE else ''
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = (-1 << 40).to_bytes(12, 'big', signed=True)        # GNU's form of large numbers
    header[148:156] = b'%06o\0 ' % (sum(header[:148]) + 8 * ord(' ') + sum(header[156:]))
    rest = pathlib.Path(archive(place / 'image', ('big', b'1' * 200000, {}))).read_bytes()
    (place / 'image').write_bytes(header + rest)
    (place / 'target').mkdir()
    with open(place / 'image', 'rb') as file, pytest.raises(ValueError, match='below zero'):
        unpack.extract(file.fileno(), str(place / 'target'), [100000, 100])
    assert not (place / 'target/big').exists()


@as_root
def test_links_lead_nowhere_out_of_the_container(place):
    """The process that unpacks has the new directory as its root."""
    victim = place / 'victim'
    victim.mkdir()
    victim.chmod(0o777)
    made = archive(place / 'image', ('out', None, {'type': tarfile.SYMTYPE, 'linkname': str(victim)}),
                   ('out/written', b'1', {}))
    with contextlib.suppress(exception.VirtError):       # there is no such directory in the container
        unpack.unpack(str(place / UUID), [made], 1 << 20, MAP, MAP)
    assert list(victim.iterdir()) == []


@as_root
def test_a_later_archive_replaces_files(place):
    made = [archive(place / 'image', ('etc/x', b'old', {})), archive(place / 'seed', ('etc/x', b'new', {}))]
    unpack.unpack(str(place / UUID), made, 1 << 20, MAP, MAP)
    assert (place / UUID / 'root/etc/x').read_bytes() == b'new'


@as_root
def test_a_service_that_starts_again_leaves_the_files_to_the_container(place):
    """A nova-compute that root starts gives the guests to its user each time."""
    unpack.unpack(str(place / UUID), [archive(place / UUID / 'disk.seed')], 1 << 20, MAP, MAP)
    storage.take_over(str(place), pwd.getpwuid(NOBODY))
    assert (place / UUID).stat().st_uid == (place / UUID / 'disk.seed').stat().st_uid == NOBODY
    assert {path.lstat().st_uid for path in (place / UUID / 'root', *(place / UUID / 'root').rglob('*'))} == {500000}


# ---- the privileged part ------------------------------------------------------------------

@pytest.fixture
def helper(place):
    conf = configuration.new(files=[], libvirt__virt_type='lxc', libvirt__sandbox_qemu_img=False)
    made = remote.helper(conf, str(place), NOBODY)
    made.fork()
    yield made
    made.stop()
    os.waitpid(made.pid, 0)


@as_root
def test_an_ordinary_user_has_containers_unpacked_and_removed(place, helper):
    archive(place / UUID / 'disk.seed')
    helper.call('container.unpack', uuid=UUID, archives=[str(place / UUID / 'disk.seed')], size=1 << 20)
    assert (place / UUID / 'root/sbin/init').stat().st_uid == 1000000000
    helper.call('container.remove', uuid=UUID)
    assert [path.name for path in (place / UUID).iterdir()] == ['disk.seed']


@as_root
@pytest.mark.parametrize('arguments', [
    {'uuid': '../x', 'archives': [], 'size': 1}, {'uuid': UUID, 'archives': ['/etc/shadow'], 'size': 1},
    {'uuid': UUID, 'archives': ['x'] * 3, 'size': 1}, {'uuid': UUID, 'archives': [], 'size': '1'}])
def test_helper_refuses_invalid_arguments(helper, arguments):
    with pytest.raises(exception.VirtError, match='refuses'):
        helper.call('container.unpack', **arguments)


def test_hosts_with_machines_have_no_steps_for_containers(place):
    assert not [name for name in remote.operations(configuration.new(files=[]), str(place), NOBODY)
                if name.startswith('container.')]
