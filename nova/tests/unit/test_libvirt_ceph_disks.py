"""Disks of guests in a pool of Ceph, as far as no Ceph is needed; with one: integration/test_ceph_disks.py."""
import json
import os
import types
from xml.etree import ElementTree as etree

import pytest

pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova import conf as configuration
from nova import exception
from nova.runtime import disk_space
from nova.runtime import versioned_records
from nova.virt.libvirt.local_disks import storage
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain import disks
from nova.virt.libvirt.local_disks import owners
from nova.virt.libvirt.local_disks import pool
from nova.virt.libvirt.local_disks import rbd
from nova.virt.libvirt.moves import transferred_record

from nova.virt.libvirt.local_disks import backends
from nova.virt.libvirt.features import live_migration

UUID = '6b1d4dc4-6a3f-4a43-9a66-3c1ad1f0a001'
SECRET = '0d3e0a5e-52b0-4a41-9b5b-3a1c4a8c2f01'


def place(host='here', conf='/nonexistent/ceph.conf', **options):
    auth = {'username': 'nova', 'uuid': SECRET}
    return rbd.Rbd(pool.Pool('vms', conf, 'nova', 60), None, host, auth, 'writeback', 60, **options)


def stored(tmp_path, pooled=True):
    return storage.Storage(str(tmp_path), None, None, host='here', disks=place() if pooled else None)


def guest(store, **values):
    path = store.path(UUID, 'disk')
    disk = xml.Disk(path, 'raw', 'vda', source=place().source(path), **values)
    return xml.Guest.of({'uuid': UUID, 'name': 'instance-1', 'owner': store.directory, 'virt_type': 'qemu', 'vcpus': 1,
                         'memory_mb': 64, 'console_log': store.path(UUID, 'console.log'), 'disks': [disk]})


def test_the_xml_names_the_image_and_the_secret_and_no_file(tmp_path):
    element = disks.disk(etree.Element('devices'), guest(stored(tmp_path)).disks[0])
    assert element.get('type') == 'network' and element.find('source').get('name') == f'vms/{UUID}_disk'
    assert element.find('source/auth').get('username') == 'nova'
    assert element.find('source/auth/secret').attrib == {'type': 'ceph', 'uuid': SECRET}
    assert str(tmp_path) not in etree.tostring(element, encoding='unicode')


def test_a_record_brings_its_disks_back(tmp_path):
    made = guest(stored(tmp_path))
    assert xml.Guest.from_dict(made.to_record()).disks == made.disks


def test_a_host_without_the_pool_says_so(tmp_path):
    store = stored(tmp_path, pooled=False)
    with pytest.raises(exception.VirtError, match='images_type of this host is not rbd'):
        store.backends.of(guest(store).disks[0])


def test_transferred_record_omits_the_location_of_the_pool(tmp_path):
    values = transferred_record.packed(guest(stored(tmp_path / 'one')))
    assert values['disks'][0]['size'] == 0 and 'source' not in values['disks'][0]
    values['disks'][0]['source'] = {'type': 'file', 'path': '/etc/shadow'}
    there = stored(tmp_path / 'two')
    found = transferred_record.unpacked(values, UUID, there, 'qemu', [])
    assert found.disks[0].source == place().source(there.path(UUID, 'disk'))
    with pytest.raises(exception.VirtError, match='is not rbd'):
        transferred_record.unpacked(values, UUID, stored(tmp_path / 'three', pooled=False), 'qemu', [])


class Notes:
    """What a pool says of one guest."""

    def __init__(self, values):
        self._text = json.dumps(values)

    def note(self, _uuid):
        return self._text


def test_unknown_fields_of_a_record_in_the_pool_are_ignored(tmp_path):
    values = transferred_record.packed(guest(stored(tmp_path / 'one')))
    known = {'host': 'there', 'previous_host': None, 'successor': None, 'guest': values}
    newer = {**known, 'new': 1, 'guest': {**values, 'new': 1, 'disks': [{**values['disks'][0], 'new': 1}]}}
    note = owners.Owners(Notes(newer), 'here').read(UUID)
    here = stored(tmp_path / 'two')
    assert note.host == 'there' and transferred_record.known(note.guest) == values
    unpacked = transferred_record.unpacked(transferred_record.known(note.guest), UUID, here, 'qemu', [])
    assert unpacked.disks[0].file == here.path(UUID, 'disk')
    with pytest.raises(exception.VirtError, match='it is not a JSON object'):
        owners.Owners(Notes([]), 'here').read(UUID)


def test_transferred_record_without_a_source_has_no_source_field(tmp_path):
    store = stored(tmp_path, pooled=False)
    made = guest(store)
    made.disks[0].source = None
    (tmp_path / UUID).mkdir()
    (tmp_path / UUID / 'disk').write_bytes(bytes(512))
    known = versioned_records.fields_of(xml.Disk) - {'source'}
    assert set(transferred_record.packed(made)['disks'][0]) == {*known, 'size'}


def test_a_cache_of_librbd_hinders_no_live_migration(tmp_path):
    made = guest(stored(tmp_path), cache='writeback')
    assert live_migration._seen_alike(made, False)
    made.disks[0].source = None
    assert not live_migration._seen_alike(made, False)


@pytest.mark.parametrize('options', [{'rbd_user': 'nova'}, {'rbd_secret_uuid': SECRET}])
def test_a_user_needs_a_secret(options):
    conf = configuration.new(files=[], libvirt__images_type='rbd',
                             **{f'libvirt__{name}': value for name, value in options.items()})
    with pytest.raises(exception.VirtError, match='must be set together'):
        backends.configured(conf, '/', None, 'here')


def test_disk_is_not_exported_to_a_full_host(tmp_path, monkeypatch):
    program, path = tmp_path / 'rbd', tmp_path / UUID / 'disk'
    program.write_text(f"""#!/bin/sh
echo "$*" >> {tmp_path}/calls
case "$*" in
    *" info "*) echo '{{"size": 1073741824, "parent": {{"pool": "vms", "image": "i", "snapshot": "base"}}}}';;
    *" du "*@base) echo '{{"images": [{{"used_size": 8388608}}]}}';;
    *" du "*) echo '{{"images": [{{"used_size": 4194304}}, {{"used_size": 4194304}}]}}';;
esac""")
    program.chmod(0o755)
    path.parent.mkdir()
    monkeypatch.setenv('PATH', f'{tmp_path}:{os.environ["PATH"]}')
    made = place(reserve=disk_space.Reserve(1 << 60, str(tmp_path / 'ledger')))
    with pytest.raises(exception.InsufficientStorage):
        made.copy(xml.Disk(str(path), 'raw', 'vda'), str(tmp_path / 'copy'))
    assert ' export ' not in (tmp_path / 'calls').read_text()
    assert pool.Pool('vms', '/nonexistent/ceph.conf', 'nova', 60).most_exported('disk') == 16 << 20


def test_other_kinds_of_disks_need_no_ceph():
    found = backends.configured(configuration.new(files=[]), '/', None, 'here')
    assert not found.pooled
    found.check_hypervisor(types.SimpleNamespace())


@pytest.mark.parametrize('known, found', [
    ([{'type': 'v2', 'addr': '10.0.0.1:3300'}, {'type': 'v1', 'addr': '10.0.0.1:6789'}], [['10.0.0.1', 6789]]),
    ([{'type': 'v2', 'addr': '[fd00::1]:3300'}], [['fd00::1', 3300]]), ([], [])])
def test_a_monitor_is_reached_by_the_older_protocol_if_it_has_it(known, found):
    assert pool._address(known) == found


@pytest.mark.parametrize('text, line', [
    ('x\nrbd: error opening image a: (2) No such file or directory\n',
     'rbd: error opening image a: (2) No such file or directory'),
    ('2026-11-23T11:38:41.123+0000 7f1c2a3b4c5d -1 auth: unable to find a keyring on /etc/ceph/a.keyring',
     'auth: unable to find a keyring on a.keyring'), ('', 'rbd failed')])
def test_an_error_is_one_line_without_directories(text, line):
    assert pool.last_line(text, 'rbd') == line


def test_a_program_that_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv('PATH', str(tmp_path))
    with pytest.raises(exception.VirtError, match='the program rbd cannot be run'):
        place().disks_of(UUID)
