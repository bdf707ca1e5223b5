"""A guest that moves has the disks and volumes of its own definition and no others (class H of the advisories)."""
from xml.etree import ElementTree as etree

import pytest

pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova.tests.support import libvirt_moves as moves
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain import volume_disks as disk
from nova.virt.libvirt.moves import migration_xml
from nova.virt.libvirt.moves import transferred_record

UUID = moves.UUID


def sources(text):
    """{target: where its blocks are} of a definition, with the secret that opens them."""
    found = {}
    for each in etree.fromstring(text).findall('./devices/disk'):
        source, secret = each.find('source'), each.find('source/encryption/secret')
        place = None if source is None else source.get('file') or source.get('dev') or source.get('name')
        found[each.find('target').get('dev')] = place, None if secret is None else secret.get('uuid')
    return found


def guest(directory, first, second):
    """With a root disk, an ephemeral one and two volumes."""
    disks = [xml.Disk(f'{directory}/{UUID}/{name}', 'qcow2', target, 'virtio') for name, target in (
        ('disk', 'vda'), ('disk.ephemeral0', 'vdb'))]
    made = xml.Guest.of({'uuid': UUID, 'name': 'instance-1', 'owner': directory, 'virt_type': 'qemu', 'vcpus': 1,
                         'memory_mb': 64, 'console_log': f'{directory}/log', 'disks': disks})
    made.volumes = [disk.Volume(name, target, 'virtio', {'type': 'block', 'path': path, **more}) for
                    name, target, path, more in (('a', 'vdc', first, {}), ('b', 'vdd', second, {'luks': 'b'}))]
    return made


def test_a_live_migration_gives_each_target_the_blocks_that_the_destination_has_for_it():
    """CVE-2013-7130: the root disk went into the ephemeral one. CVE-2020-17376: the definition that stayed named the
    devices of the source, which are another server's at the destination. Its device names are the source's in turn."""
    running = xml.domain(guest('/source', '/dev/sda', '/dev/sdb'))
    text = xml.domain(guest('/destination', '/dev/sdb', '/dev/sda'))
    wanted = {'vda': (f'/destination/{UUID}/disk', None), 'vdb': (f'/destination/{UUID}/disk.ephemeral0', None),
              'vdc': ('/dev/sdb', None), 'vdd': ('/dev/sda', 'b')}
    assert sources(text) == wanted
    assert sources(migration_xml.for_destination(running, text)) == wanted
    assert sources(migration_xml.for_later(text, running)) == wanted         # what stays: the same as what runs


def test_an_encrypted_volume_is_never_opened_as_a_raw_one():
    """CVE-2017-18191: after a swap or a move the blocks were read without their key."""
    assert sources(xml.domain(guest('/d', '/dev/sda', '/dev/sdb')))['vdd'] == ('/dev/sdb', 'b')


def test_volume_device_paths_of_the_source_are_not_sent():
    made = guest('/source', '/dev/sda', '/dev/sdb')
    made.disks = []
    packed = transferred_record.packed(made)
    assert '/dev/sda' not in str(packed) and '/dev/sdb' not in str(packed)
