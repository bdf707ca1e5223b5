"""What libvirt is told of volumes, by the kind of their connection: https://libvirt.org/formatdomain.html."""
import dataclasses
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from xml.etree import ElementTree as etree

import pytest

from nova import exception
from nova.tests.contract.driver_contract import make_instance
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain import chain
from nova.virt.libvirt.volumes import connectors
from nova.virt.libvirt.domain import volume_disks as disk

ID = '11111111-2222-3333-4444-555555555555'
CHOICES = disk.Choices({'file': 'none', 'block': 'none', 'network': 'writeback'})
LOCAL = {'driver_volume_type': 'local', 'data': {'device_path': '/v/' + ID}}
RBD = {'driver_volume_type': 'rbd', 'data': {
    'name': 'volumes/volume-' + ID, 'hosts': ['192.0.2.1', '192.0.2.2'], 'ports': ['6789', '6789'],
    'auth_enabled': True, 'auth_username': 'cinder', 'secret_uuid': ID, 'secret_type': 'ceph'}}
ISCSI = {'driver_volume_type': 'iscsi', 'data': {
    'target_portal': '192.0.2.1:3260', 'target_iqn': 'iqn.2010-10.org.openstack:volume-' + ID, 'target_lun': 1,
    'auth_method': 'CHAP', 'auth_username': 'user', 'auth_password': 'hidden', 'access_mode': 'rw'}}
NFS = {'driver_volume_type': 'nfs', 'data': {
    'export': '192.0.2.1:/exports/a', 'name': 'volume-1', 'options': None, 'format': 'raw'}}
NBD = {'driver_volume_type': 'nbd', 'data': {'export': ID, 'host': '192.0.2.1', 'port': 10809, 'tls': True,
                                             'tls_hostname': 'storage'}}


@pytest.fixture(scope='module')
def known():
    return connectors.Connectors('h1')


def made(known, info, device=None, properties=None, machine='pc', taken=()):
    return disk.volume({'volume_id': ID, 'device_name': '/dev/vdb', **(device or {})}, known.connect(info),
                       properties or {}, machine, set(taken), CHOICES)


def element(known, info, **values):
    return etree.fromstring(xml.volume(made(known, info, **values), guest()))


def shown(root):
    """An element as [(tag, attributes)] of itself and all below it, without what every volume has."""
    return [(each.tag, each.attrib) for each in root.iter() if each.tag not in ('target', 'backingStore', 'serial')]


def test_local_volume_is_a_raw_file(known):
    root = element(known, LOCAL)
    assert shown(root) == [
        ('disk', {'type': 'file', 'device': 'disk'}),
        ('driver', {'name': 'qemu', 'type': 'raw', 'cache': 'none', 'discard': 'unmap'}),
        ('source', {'file': '/v/' + ID})]
    assert root.findtext('serial') == ID and root.find('target').attrib == {'dev': 'vdb', 'bus': 'virtio'}
    assert len(root.find('backingStore')) == 0           # libvirt looks for nothing below it


def test_rbd_volume_has_monitors_and_a_secret(known):
    assert shown(element(known, RBD))[2:] == [
        ('source', {'protocol': 'rbd', 'name': 'volumes/volume-' + ID}),
        ('host', {'name': '192.0.2.1', 'port': '6789'}), ('host', {'name': '192.0.2.2', 'port': '6789'}),
        ('auth', {'username': 'cinder'}), ('secret', {'type': 'ceph', 'uuid': ID})]
    assert 'secret' not in known.connect(RBD)            # libvirt has it from the operator
    with_key = {**RBD, 'data': {**RBD['data'], 'keyring': '[client.cinder]\n\tkey = QUJD\n'}}
    assert known.connect(with_key)['secret']['value'] == 'QUJD'
    with pytest.raises(exception.VirtError, match='cephx'):
        known.connect({**RBD, 'data': {**RBD['data'], 'secret_uuid': None}})


def test_iscsi_volume_in_user_space_uses_chap(known):
    source = known.connect(ISCSI)
    name = ISCSI['data']['target_iqn'] + '/1'
    assert shown(element(known, ISCSI))[2:] == [
        ('source', {'protocol': 'iscsi', 'name': name}), ('host', {'name': '192.0.2.1', 'port': '3260'}),
        ('initiator', {}), ('iqn', {'name': known.initiator}), ('auth', {'username': 'user'}),
        ('secret', {'type': 'iscsi', 'usage': name})]
    assert source['secret'] == {'usage': name, 'value': 'hidden', 'base64': False}
    assert 'hidden' not in xml.volume(made(known, ISCSI), guest()) + disk.secret('iscsi', name)
    six = known.connect({**ISCSI, 'data': {**ISCSI['data'], 'target_portal': '[2001:db8::1]:3260'}})
    assert six['hosts'] == [['2001:db8::1', 3260]]
    for wrong in ({'target_portal': 'nowhere'}, {'auth_method': 'KRB5'}):
        with pytest.raises(exception.VirtError):
            known.connect({**ISCSI, 'data': {**ISCSI['data'], **wrong}})


@pytest.mark.parametrize('demand', [
    {'auth_username_in': 'target'}, {'mutual_chap_password': 'x'}, {'target_auth_username': 'x'}, {'password_in': 'x'},
    {'auth_method': 'CHAP_MUTUAL'}])
def test_a_target_that_is_to_prove_itself_is_not_used_one_way(known, demand):
    """QEMU logs in with a name and a password of its own, and asks for none of the target."""
    info = {**ISCSI, 'data': {**ISCSI['data'], **demand}}
    with pytest.raises(exception.VirtError, match='mutual CHAP|not a supported authentication'):
        known.connect(info)
    if 'auth_method' not in demand:
        by_kernel = connectors.Connectors('h1', connectors.ConnectorOptions('sudo', multipath=True))
        with pytest.raises(exception.VirtError, match='mutual CHAP'):
            by_kernel.connect(info)
    absent = {'auth_username_in': None, 'discovery_auth_method': 'CHAP', 'discovery_auth_username': 'd'}
    assert known.connect({**ISCSI, 'data': {**ISCSI['data'], **absent}})['auth']['username'] == 'user'


def test_nbd_volume_uses_tls_and_reconnects(known):
    assert shown(element(known, NBD))[2:] == [
        ('source', {'protocol': 'nbd', 'name': ID, 'tls': 'yes', 'tlsHostname': 'storage'}),
        ('host', {'name': '192.0.2.1', 'port': '10809'}), ('reconnect', {'delay': '60'})]
    local = {'driver_volume_type': 'nbd', 'data': {'export': ID, 'socket': '/run/x.sock'}}
    assert ('host', {'transport': 'unix', 'socket': '/run/x.sock'}) in shown(element(known, local))
    with pytest.raises(exception.VirtError, match='TLS'):
        known.connect({**NBD, 'data': {**NBD['data'], 'tls': False}})


def test_unsupported_volume_kinds_are_refused_with_the_reason(known, monkeypatch):
    with pytest.raises(exception.VirtError, match='this host knows no volumes of kind sheepdog; it knows .*iscsi'):
        known.connect({'driver_volume_type': 'sheepdog', 'data': {}})
    monkeypatch.setattr(connectors.importlib.util, 'find_spec', lambda name: None)
    for kind in ('fibre_channel', 'nvmeof'):
        with pytest.raises(exception.VirtError, match=f'{kind} need os-brick'):
            known.connect({'driver_volume_type': kind, 'data': {}})
    monkeypatch.undo()
    if importlib.util.find_spec('os_brick') is not None:
        # its privileged daemon does not start unless the operator says how: no volume at all could be attached
        with pytest.raises(exception.VirtError, match='volume_root_helper of this host is not set'):
            known.connect({'driver_volume_type': 'nvmeof', 'data': {}})
    assert known.facts('192.0.2.9') == {'initiator': known.initiator, 'multipath': False}
    assert known.connect({**LOCAL, 'data': {**LOCAL['data'], 'encrypted': True}})['encrypted']


def test_nfs_volume_is_opened_by_qemu(known):
    assert shown(element(known, NFS))[1:] == [
        ('driver', {'name': 'qemu', 'type': 'raw', 'cache': 'writeback', 'discard': 'unmap'}),
        ('source', {'protocol': 'nfs', 'name': '/exports/a/volume-1'}), ('host', {'name': '192.0.2.1'})]
    for wrong in ({'export': 'somewhere'}, {'name': '../other'}, {'export': '-o x:/a'}, {'name': ''}):
        with pytest.raises(exception.VirtError, match='the location of its file is invalid'):
            known.connect({**NFS, 'data': {**NFS['data'], **wrong}})


def qcow2(path, name=None, form=None, *options):
    """A qcow2 file on another one, whose name its header has as it is given."""
    below = [] if name is None else ['-u', '-b', name]
    subprocess.run(['qemu-img', 'create', '-q', '-f', 'qcow2', *below, *(['-F', form] if form else []), *options,
                    str(path), '1M'], check=True)


needs_qemu_img = pytest.mark.skipif(shutil.which('qemu-img') is None, reason='qemu-img is not installed')


@needs_qemu_img
def test_each_file_of_a_chain_has_an_explicit_format(known, tmp_path):
    """Each is named to libvirt with its format: neither it nor QEMU looks for one in what a guest has written."""
    (tmp_path / 'v').write_bytes(bytes(2 ** 20))
    qcow2(tmp_path / 'v.1', 'v', 'raw')
    qcow2(tmp_path / 'v.2', str(tmp_path / 'v.1'), 'qcow2')
    info = {**LOCAL, 'data': {'device_path': str(tmp_path / 'v.2'), 'format': 'qcow2'}}
    volume = made(known, info)
    assert disk.files_of(volume.source) == [('v.2', 'qcow2'), ('v.1', 'qcow2'), ('v', 'raw')]
    root = etree.fromstring(xml.volume(volume, guest()))
    assert root.find('driver').get('type') == 'qcow2' and root.find('source').get('file') == str(tmp_path / 'v.2')
    assert [each.get('file') for each in root.iterfind('.//backingStore/source')] == [
        str(tmp_path / 'v.1'), str(tmp_path / 'v')]
    assert [each.get('type') for each in root.iterfind('.//backingStore/format')] == ['qcow2', 'raw']
    assert len(root.findall('.//backingStore')) == 3               # the last one says that nothing is below
    stored = disk.Volume(**json.loads(json.dumps(dataclasses.asdict(volume))))
    assert xml.volume(stored, guest()) == xml.volume(volume, guest())


@needs_qemu_img
def test_chain_with_a_file_elsewhere_is_refused(known, tmp_path):
    """Headers name what they like: a file of the host, another volume's directory, a format that would be guessed."""
    secret = tmp_path / 'other' / 'secret'
    secret.parent.mkdir()
    secret.write_bytes(bytes(2 ** 20))
    path = tmp_path / 'v.1'
    info = {**LOCAL, 'data': {'device_path': str(path), 'format': 'qcow2'}}
    (tmp_path / 'v').write_bytes(bytes(2 ** 20))
    for name, form, why in ((str(secret), 'raw', 'without directories'), ('../v', 'raw', 'without directories'),
                            ('json:{}', 'raw', 'without directories'), ('nbd:x:1', 'raw', 'without directories'),
                            ('v.1', 'qcow2', 'cycle'), ('v', 'vmdk', "format 'vmdk'"), ('gone', 'qcow2', 'No such'),
                            ('v', 'qcow2', 'not qcow2')):
        qcow2(path, name, form)
        with pytest.raises(exception.VirtError, match=why):
            known.connect(info)
    qcow2(path, None, None, '-o', f'data_file={tmp_path}/data,data_file_raw=on')
    with pytest.raises(exception.VirtError, match='data in another file'):
        known.connect(info)
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(exception.VirtError, match='v.1: '):
        known.connect(info)
    for number in range(chain.MAX_FILES + 2):
        qcow2(tmp_path / f'd.{number + 1}', f'd.{number}', 'qcow2')
    with pytest.raises(exception.VirtError, match='more than 64'):
        known.connect({**LOCAL, 'data': {'device_path': str(tmp_path / f'd.{number + 1}'), 'format': 'qcow2'}})
    for header in (b'', b'QFI\xfb', b'QFI\xfb' + b'\xff' * 200, b'QFI\xfb\0\0\0\3' + b'\xff' * 65528):
        with pytest.raises(exception.VirtError):
            chain.below(header)


def test_a_file_of_another_format_is_not_taken_for_a_raw_one(known):
    """Its guest would have seen, and written, the tables of the format."""
    for info, form in ((NFS, 'vmdk'), (LOCAL, 'vhd'), (RBD, 'qcow2')):
        with pytest.raises(exception.VirtError, match=f"the format '{form}'"):
            known.connect({**info, 'data': {**info['data'], 'format': form}})
    with pytest.raises(exception.VirtError, match='unencrypted'):
        known.connect({**LOCAL, 'data': {**LOCAL['data'], 'format': 'qcow2', 'encrypted': True}})


FILES = [('v.3', 'qcow2'), ('v.2', 'qcow2'), ('v.1', 'qcow2'), ('v', 'raw')]


@pytest.mark.parametrize('merged, target, planned', [
    ('v.2', 'v.1', chain.Merge(True, 1, 2, [FILES[0], *FILES[2:]])),
    ('v.2', 'v', chain.Merge(True, 1, 3, [FILES[0], FILES[3]])),
    ('v.3', 'v.2', chain.Merge(True, 0, 1, FILES[1:])),
    ('v.1', None, chain.Merge(False, 0, 2, [FILES[0], *FILES[2:]])),
    (None, None, chain.Merge(False, 0, None, FILES[:1])),
    ('v.2', None, None)])
def test_merge_plan_follows_the_backing_chain(merged, target, planned):
    assert chain.plan(FILES, merged, target) == planned


@pytest.mark.parametrize('merged, target', [
    ('v.3', None), ('v', 'v.1'), ('v.1', 'v.1'), (None, 'v'), ('x', None), ('v.1', 'x'), ('../v', None), (7, None),
    ('v.1', '/v')])
def test_invalid_merge_is_refused(merged, target):
    with pytest.raises(exception.VirtError):
        chain.plan(FILES, merged, target)


ASKS = '''
import sys
from nova.virt.libvirt.domain import chain
from nova.virt.libvirt.volumes import connectors
connectors._brick(connectors.ConnectorOptions(sys.argv[1], locks=sys.argv[2]))
from os_brick.privileged import rootwrap
print(rootwrap.execute_root('echo', 'done'))
'''


def test_os_brick_begins_its_daemon_as_the_operator_says(tmp_path):
    """It began it with sudo, whatever volume_root_helper was: a host without sudo could not reach its volumes."""
    pytest.importorskip('os_brick')
    helper = tmp_path / 'helper'
    helper.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/log\nexec "$@"\n')
    helper.chmod(0o755)
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ['PATH']])
    done = subprocess.run([sys.executable, '-c', ASKS, f'{helper} env', str(tmp_path / 'locks')], capture_output=True,
                          text=True, env={**os.environ, 'PATH': path}, timeout=120)
    began = (tmp_path / 'log').read_text() if (tmp_path / 'log').exists() else ''
    assert began.startswith('env privsep-helper --privsep_context os_brick.privileged.default'), done.stderr
    if os.geteuid() == 0:
        assert done.stdout.strip() == "('done\\n', '')", done.stderr
    assert 'os_brick.setup' not in done.stderr and (tmp_path / 'locks').is_dir()


def test_os_brick_connector_receives_connect_disconnect_and_extend(monkeypatch, tmp_path):
    """The kernel of the tests has no initiator: the calls, and the XML of what they give."""
    brick = pytest.importorskip('os_brick.initiator.connector')
    calls = []

    class Initiator:
        def connect_volume(self, data):
            calls.append(('connect', data))
            return {'type': 'block', 'path': '/dev/disk/by-id/dm-1', 'multipath_id': '36'}

        def disconnect_volume(self, data, device, force=False, ignore_errors=False):
            calls.append(('disconnect', data, device, force, ignore_errors))
            if data.get('fails'):
                raise RuntimeError('multipath -f: map in use')

        def extend_volume(self, data):
            calls.append(('extend', data))

    def factory(protocol, helper, use_multipath=False, **_more):
        calls.append((protocol, helper, use_multipath))
        return Initiator()
    monkeypatch.setattr(brick.InitiatorConnector, 'factory', staticmethod(factory))
    monkeypatch.setattr(brick, 'get_connector_properties', lambda *args, **more: {'wwpns': ['50'], 'initiator': 'x'})
    several = connectors.Connectors('h1', connectors.ConnectorOptions('doas', True, str(tmp_path / 'locks')))
    facts = several.facts('192.0.2.9')
    from os_brick import opts
    assert opts.cfg.CONF.os_brick.lock_path == str(tmp_path / 'locks')
    assert facts['wwpns'] == ['50'] and facts['multipath'] and facts['initiator'] == several.initiator
    for kind in ('fibre_channel', 'nvmeof', 'iscsi'):
        data, device = {'target': kind}, {'type': 'block', 'path': '/dev/disk/by-id/dm-1', 'multipath_id': '36'}
        volume = made(several, {'driver_volume_type': kind, 'data': data})
        root = disk.element(volume)
        assert root.get('type') == 'block' and root.find('source').get('dev') == '/dev/disk/by-id/dm-1'
        several.extend(volume.source['connection'])
        several.disconnect(volume.source['connection'])
        assert calls == [(kind.upper(), 'doas', True), ('connect', data), (kind.upper(), 'doas', True),
                         ('extend', data), (kind.upper(), 'doas', True), ('disconnect', data, device, True, True)]
        calls.clear()
        with pytest.raises(exception.VirtError, match='map in use'):       # not an error that no caller knows
            several.disconnect({'driver_volume_type': kind, 'data': {'fails': True}, 'device': device})
        calls.clear()


def test_read_only_and_shareable_volumes_are_marked_in_the_domain(known):
    info = {**LOCAL, 'data': {**LOCAL['data'], 'access_mode': 'ro', 'multiattach': True}}
    root = element(known, info)
    assert root.find('readonly') is not None and root.find('shareable') is not None
    assert root.find('driver').attrib == {'name': 'qemu', 'type': 'raw', 'cache': 'none'}
    assert element(known, {**RBD, 'data': {**RBD['data'], 'multiattach': True}}).find('driver').get('cache') == 'none'


@pytest.mark.parametrize('info, specs, names', [
    (RBD, {'read_iops_sec': '200', 'total_bytes_sec': '5000000', 'total_bytes_sec_max': 6000000, 'vendor:x': 'y'},
     ['total_bytes_sec', 'read_iops_sec', 'total_bytes_sec_max']),
    (LOCAL, {'read_iops_sec': '200', 'write_bytes_sec': 1000000, 'size_iops_sec': '4096', 'total_iops_sec': '0',
             'key of a storage': 'x'}, ['write_bytes_sec', 'read_iops_sec', 'size_iops_sec'])])
def test_front_end_qos_specs_limit_the_disk(known, info, specs, names):
    """QoS specs of the consumer front-end were read by nobody: such a volume had no bounds."""
    bounded = made(known, {**info, 'data': {**info['data'], 'qos_specs': specs}})
    root = disk.element(bounded)
    assert shown(root)[-1 - len(names):] == [('iotune', {}), *((name, {}) for name in names)]
    assert root.findtext('iotune/read_iops_sec') == '200'
    assert xml.Guest.from_dict(guest(volumes=[bounded]).to_record()).volumes == [bounded]
    assert element(known, {**info, 'data': {**info['data'], 'qos_specs': None}}).find('iotune') is None
    with pytest.raises(exception.VirtError, match='read_iops_sec is .* not a number'):
        known.connect({**info, 'data': {**info['data'], 'qos_specs': {'read_iops_sec': 'many'}}})


@pytest.mark.parametrize('device, properties, machine, expected', [
    ({}, {}, 'pc', ('disk', 'vdb', 'virtio')),
    ({}, {'hw_disk_bus': 'scsi'}, 'pc', ('disk', 'sdb', 'scsi')),
    ({'disk_bus': 'sata'}, {'hw_disk_bus': 'scsi'}, 'pc', ('disk', 'sdb', 'sata')),
    ({'device_type': 'cdrom'}, {}, 'pc', ('cdrom', 'hdb', 'ide')),
    ({'device_type': 'cdrom'}, {}, 'q35', ('cdrom', 'sdb', 'sata')),
    ({'device_type': 'cdrom'}, {}, 'virt', ('cdrom', 'sdb', 'scsi')),
    ({'device_type': 'cdrom'}, {'hw_cdrom_bus': 'scsi'}, 'pc', ('cdrom', 'sdb', 'scsi')),
    ({'device_name': '/dev/sdc'}, {}, 'pc', ('disk', 'vdc', 'virtio')),
    ({'device_name': None}, {}, 'pc', ('disk', 'vdb', 'virtio')),
    ({'device_name': '/dev/vda'}, {}, 'pc', ('disk', 'vdb', 'virtio'))])
def test_device_type_bus_and_name_of_a_volume_are_used(known, device, properties, machine, expected):
    found = made(known, LOCAL, device=device, properties=properties, machine=machine, taken=('vda',))
    assert (found.device, found.target, found.bus) == expected


@pytest.mark.parametrize('device', [{'device_type': 'tape'}, {'disk_bus': 'xen'}, {'device_type': 'lun'},
                                    {'device_type': 'lun', 'disk_bus': 'scsi'},
                                    {'device_type': 'cdrom', 'disk_bus': 'virtio'}])
def test_unsupported_volume_devices_are_refused(known, device):
    with pytest.raises(exception.VirtError):
        made(known, LOCAL, device=device)


@pytest.mark.parametrize('device, properties, machine', [
    ({'disk_bus': 'ide'}, {}, 'q35'), ({}, {'hw_disk_bus': 'ide'}, 'virt'),
    ({'device_type': 'cdrom'}, {'hw_cdrom_bus': 'ide'}, 'pc-q35-7.2'), ({'device_type': 'floppy'}, {}, 'virt')])
def test_volume_on_a_bus_that_the_machine_lacks_is_refused(known, device, properties, machine):
    with pytest.raises(exception.VirtError, match=f'a {machine} machine has no (ide|fdc) disks'):
        made(known, LOCAL, device=device, properties=properties, machine=machine)


def test_fifth_ide_disk_is_refused(known):
    taken = ('hda', 'hdb', 'hdc', 'hdd')
    assert made(known, LOCAL, device={'disk_bus': 'ide'}, taken=taken[:3]).target == 'hdd'
    with pytest.raises(exception.VirtError, match='on the bus ide are in use'):
        made(known, LOCAL, device={'disk_bus': 'ide'}, taken=taken)


def test_lun_passes_scsi_commands_of_iscsi_and_host_devices(known):
    """SCSI commands of the guest reach the storage; the serial number is that of its device."""
    root = element(known, ISCSI, device={'device_type': 'lun'})
    assert root.attrib == {'type': 'network', 'device': 'lun'} and root.find('source').get('protocol') == 'iscsi'
    assert root.find('target').attrib == {'dev': 'sdb', 'bus': 'scsi'} and root.find('serial') is None
    found = disk.volume({'volume_id': ID, 'device_type': 'lun'}, {'type': 'block', 'path': '/dev/sdx'}, {}, 'pc', set(),
                        CHOICES)
    root = etree.fromstring(xml.volume(found, guest()))
    assert root.attrib == {'type': 'block', 'device': 'lun'} and root.find('target').get('bus') == 'scsi'


@pytest.mark.parametrize('info, way', [(NBD, 'nbd'), (RBD, 'rbd'), (NFS, 'nfs'), (LOCAL, 'a file')])
def test_lun_is_refused_where_scsi_commands_do_not_pass(known, info, way):
    """libvirt was asked for it, and its own words were the answer."""
    with pytest.raises(exception.VirtError, match=f'SCSI commands do not pass through {way}'):
        made(known, info, device={'device_type': 'lun'})


@pytest.mark.parametrize('info, kind', [(LOCAL, 'file'), (NBD, 'network')])
def test_volume_can_be_a_floppy(known, info, kind):
    root = element(known, info, device={'device_type': 'floppy', 'device_name': None})
    assert root.attrib == {'type': kind, 'device': 'floppy'}
    assert root.find('target').attrib == {'dev': 'fda', 'bus': 'fdc'} and root.findtext('serial') == ID


def guest(**values):
    uuid = make_instance().uuid
    return xml.Guest.of({'uuid': uuid, 'name': 'n', 'owner': '/o', 'virt_type': 'qemu', 'vcpus': 1, 'memory_mb': 64,
                         'console_log': '/c', **values})


def test_boot_order_follows_boot_indexes(known):
    root, second, data = (made(known, LOCAL, device={'boot_index': index, 'device_name': name}) for index, name in (
        (0, 'vda'), (1, 'vdb'), (-1, 'vdc')))
    ephemeral = xml.Disk('/i/disk.ephemeral0', 'raw', 'vdd')
    domain = etree.fromstring(xml.domain(guest(disks=[ephemeral], volumes=[root, second, data])))
    orders = {each.find('target').get('dev'): each.find('boot') is not None and each.find('boot').get('order')
              for each in domain.findall('./devices/disk')}
    assert orders == {'vda': '1', 'vdb': '2', 'vdc': False, 'vdd': False} and domain.find('./os/boot') is None
    # beside a root disk that is no volume
    domain = etree.fromstring(xml.domain(guest(disks=[xml.Disk('/i/disk', 'qcow2', 'vda')], volumes=[second])))
    assert [each.get('order') for each in domain.findall('./devices/disk/boot')] == ['1', '2']
    # a volume that nothing boots from changes nothing
    domain = etree.fromstring(xml.domain(guest(disks=[xml.Disk('/i/disk', 'qcow2', 'vda')], volumes=[data])))
    assert domain.find('./os/boot').get('dev') == 'hd' and domain.find('./devices/disk/boot') is None


def test_scsi_volumes_have_a_controller_and_an_io_thread(known):
    one = made(known, LOCAL, properties={'hw_disk_bus': 'scsi'})
    two = made(known, LOCAL, device={'device_name': 'vdc'})
    two.iothread = 2
    domain = etree.fromstring(xml.domain(guest(disks=[xml.Disk('/i/disk', 'qcow2', 'vda')], volumes=[one, two])))
    assert domain.findtext('iothreads') == '2'
    assert domain.find("./devices/controller[@type='scsi']").get('model') == 'virtio-scsi'
    # local disks and volumes take turns, and one that comes later gets the thread of the fewest
    root, swap, drive = (xml.Disk(f'/i/{name}', 'raw', name, readonly=name == 'vdd') for name in ('vda', 'vdb', 'vdd'))
    disk.spread([root, swap, drive, two, one], 2, dataclasses.replace(CHOICES, detect_zeroes='unmap'))
    assert [each.iothread for each in (root, swap, drive, two, one)] == [1, 2, 1, 2, None]
    assert (root.detect_zeroes, drive.detect_zeroes) == ('unmap', 'off')
    assert disk.quietest(made(known, LOCAL), [root, swap, drive, two]) == 1
    assert disk.quietest(made(known, LOCAL), [root, swap]) == 1 and disk.quietest(one, [root]) is None
    domain = etree.fromstring(xml.domain(guest(disks=[root, drive])))
    assert domain.find('./devices/disk/driver').get('detect_zeroes') == 'unmap' and domain.findtext('iothreads') == '1'


def test_disk_settings_of_flavor_and_image_apply_to_volumes(known):
    """The controller of a guest of volumes alone was always virtio-scsi, and volumes had no packed rings."""
    scsi = made(known, LOCAL, properties={'hw_disk_bus': 'scsi'})
    domain = etree.fromstring(xml.domain(guest(volumes=[scsi], settings={'scsi_model': 'lsilogic'})))
    assert domain.find("./devices/controller[@type='scsi']").get('model') == 'lsilogic'
    packed = guest(volumes=[made(known, LOCAL)], settings={'virtio_packed_ring': 'true'}, agent=True)
    domain = etree.fromstring(xml.domain(packed))
    for path in ('disk', 'controller[@type="virtio-serial"]', 'memballoon', 'rng'):
        assert domain.find(f'./devices/{path}/driver').get('packed') == 'on', path
    assert etree.fromstring(xml.volume(packed.volumes[0], packed)).find('driver').get('packed') == 'on'


def test_a_record_is_read_again(known):
    before = guest(volumes=[made(known, RBD), made(known, ISCSI, device={'device_name': 'vdc'})])
    assert xml.Guest.from_dict(before.to_record()) == before
    old = {key: value for key, value in before.to_record().items() if key != 'volumes'}
    assert xml.Guest.from_dict(old).volumes == []        # of the release before
