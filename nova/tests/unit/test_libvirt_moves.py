"""What a host makes of another host's word, and whose a guest's files are: without a hypervisor."""
import dataclasses
import functools
import json
import operator
import pathlib
import types
from xml.etree import ElementTree as etree

import pytest

from nova import conf as configuration
from nova import exception
from nova import states
from nova import utils
from nova.objects import pci
from nova.virt.libvirt import vifs
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain import rescued
from nova.virt.libvirt.domain import volume_disks as volumes
from nova.virt.libvirt.moves import migration_xml
from nova.virt.libvirt.moves import shared_storage
from nova.virt.libvirt.moves import transferred_record

pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova.tests.support.libvirt_moves import OTHER
from nova.tests.support.libvirt_moves import UUID
from nova.tests.support.libvirt_moves import VIF
from nova.tests.support.libvirt_moves import record
from nova.tests.support.libvirt_moves import sent
from nova.tests.support.libvirt_moves import store
from nova.virt.libvirt import disk_clients
from nova.virt.libvirt import guest_power
from nova.virt.libvirt.features import live_migration
from nova.virt.libvirt.moves import outgoing
from nova.virt.libvirt.moves import post_copy
from nova.virt.libvirt.moves import tpm_state


def test_a_guest_that_comes_has_this_hosts_paths_and_networks(tmp_path):
    one, two = store(tmp_path / 'one', 'one'), store(tmp_path / 'two', 'two')
    guest = transferred_record.unpacked(sent(one), UUID, two, 'qemu', [VIF])
    assert str(tmp_path / 'one') not in json.dumps(guest.to_record())
    assert [disk.file for disk in guest.disks] == [two.path(UUID, 'disk'), two.path(UUID, 'disk.config')]
    assert guest.disks[0].backing_file == f'{two.directory}/_base/img.qcow2'
    assert guest.boot.kernel == two.path(UUID, 'kernel')
    assert [(port.bridge, port.devname, port.mtu) for port in guest.interfaces] == [('br-b', 'tap-b', 1400)]
    assert guest.ownership.host is None
    assert transferred_record.sizes(sent(one)) == {'disk': 1 << 20, 'disk.config': 1 << 20}


def test_host_specific_fields_of_a_received_record_are_ignored(tmp_path):
    """A host that was taken over names a file, or a device, of the destination."""
    one, two = store(tmp_path / 'one', 'one'), store(tmp_path / 'two', 'two')
    hostile = {**sent(one), 'volumes': [{'source': {'type': 'file', 'path': '/etc/shadow'}}], 'nvram': '/etc/passwd',
               'hostdevs': [{'address': '0000:00:1f.0'}], 'consoles': {'serial': {'paths': ['/run/any.sock']}},
               'rescued': {'disks': [{'file': '/etc/shadow'}]}, 'memory_source': 'file',
               'shares': [{'program': '/etc/run-as-root', 'directory': '/', 'tag': 'x', 'share_id': 'x'}]}
    guest = transferred_record.unpacked(hostile, UUID, two, 'qemu', [VIF])
    assert (guest.volumes, guest.hostdevs, guest.consoles, guest.rescued) == ([], [], {}, None)
    assert (guest.shares, guest.resources.memory_source) == ([], 'anonymous')
    assert guest.boot.nvram == two.path(UUID, 'disk.nvram') and '/etc/' not in json.dumps(guest.to_record())
    assert not set(transferred_record.OWN) & set(transferred_record.packed(record_with_files(one)))


def record_with_files(stored):
    guest = record(stored)
    guest.disks = []
    return guest


@pytest.mark.parametrize('wrong', [
    {'settings': {'x': 1}}, {'settings': {'x': 'y' * 300}}, {'settings': {'serial_port_count': '9'}},
    {'settings': {'serial_port_count': 'x'}}, {'arch': 'vax'},
    {'uuid': '8a8f0f7e-55c2-4b2c-9d5e-0f4a4a1f0c12'}, {'machine': 'pc;rm'}, {'vif_model': 'any'},
    {'disks': 'text'}, {'disks': [{'file': '/x/shadow', 'format': 'raw', 'target': 'vda'}]},
    {'disks': [{'file': '/x/disk', 'format': 'vmdk', 'target': 'vda'}]},
    {'disks': [{'file': '/x/disk', 'format': 'raw', 'target': '../a'}]},
    {'disks': [{'file': '/x/disk', 'format': 'qcow2', 'target': 'vda', 'backing_file': 'x' * 40 + '.qcow2'}]},
    {'disks': [{'file': '/x/disk', 'format': 'raw', 'target': 'vda'}] * 2}, {'unknown': 1}])
def test_invalid_transferred_record_is_refused(tmp_path, wrong):
    one = store(tmp_path / 'one', 'one')
    with pytest.raises(exception.VirtError, match='not valid'):
        transferred_record.unpacked({**sent(one), **wrong}, UUID, one, 'qemu', [])


@pytest.mark.parametrize('name', ['guest.json', 'disk', 'transfer.json', 'img.qcow2.part', '.qcow2'])
def test_a_base_image_has_the_name_of_one(tmp_path, name):
    """It is fetched under its name into the guest's directory, whose record it must not become."""
    one = store(tmp_path / 'one', 'one')
    disk, *others = sent(one)['disks']
    with pytest.raises(exception.VirtError, match='not valid'):
        transferred_record.unpacked({**sent(one), 'disks': [{**disk, 'backing_file': f'/x/_base/{name}'}, *others]},
                                    UUID, one, 'qemu', [VIF])


def test_a_guest_of_volumes_alone_comes_and_none_of_them_is_copied(tmp_path):
    one = store(tmp_path / 'one', 'one')
    assert transferred_record.unpacked({**sent(one), 'disks': []}, UUID, one, 'qemu', []).disks == []
    copying = outgoing.libvirt.VIR_MIGRATE_NON_SHARED_INC | outgoing.libvirt.VIR_MIGRATE_NON_SHARED_DISK
    options = configuration.new(files=[]).libvirt
    assert outgoing.flags(options, True, True, False, False) & copying
    assert not outgoing.flags(options, False, True, False, False) & copying


def test_volumes_of_an_incoming_guest_are_recorded_for_the_destination_only(tmp_path):
    one, two = store(tmp_path / 'a', 'one'), store(tmp_path / 'a', 'two')
    (tmp_path / 'a' / UUID).mkdir()
    one.save(record(one))
    guest = one.load(UUID)
    guest.volumes = [volumes.Volume('volume', 'vdc', 'virtio', {'type': 'block', 'path': '/dev/of-two'})]
    shared_storage.note_incoming(two, guest, 'two')
    assert shared_storage.incoming(one, UUID, 'one') is None and one.load(UUID).volumes == []
    assert shared_storage.incoming(two, UUID, 'two').volumes == guest.volumes
    shared_storage.forget_incoming(two, UUID, 'two')
    assert shared_storage.incoming(two, UUID, 'two') is None


def test_unreadable_record_of_an_incoming_guest_hides_no_other(tmp_path, caplog):
    """With it, no guest of the host could be removed or lose a volume."""
    stored = store(tmp_path, 'one')
    for uuid in (UUID, OTHER):
        (tmp_path / uuid).mkdir()
        shared_storage.note_incoming(stored, dataclasses.replace(record(stored), uuid=uuid), 'one')
    (tmp_path / UUID / 'coming.one.json').write_text('{')
    assert [each.uuid for each in shared_storage.incoming_guests(stored, 'one')] == [OTHER]
    assert UUID in caplog.text


def rich_record(stored):
    """A record with a part of every kind that is stored below a guest."""
    values = dataclasses.replace(
        record(stored), hostdevs=[pci.Device('0000:00:02.0', '8086', '1572', pci.PCI)],
        volumes=[volumes.Volume('v1', 'vdc', 'virtio', {'type': 'file', 'file': '/v1'})],
        rescued=rescued.Rescued([xml.Disk('/rescue', 'raw', 'vda')])).to_record()
    values['interfaces'][0]['port'] = utils.to_record(vifs.Port('ovs', UUID, '52:54:00:00:00:01', 'br-int', 'tap-a'))
    return values


DERIVED = (('interfaces', 0, 'port'), ('hostdevs', 0))


@pytest.mark.parametrize('path', [(), ('disks', 0), ('interfaces', 0), ('interfaces', 0, 'port'), ('hostdevs', 0),
                                  ('volumes', 0), ('rescued',), ('rescued', 'disks', 0)])
def test_unknown_fields_of_a_stored_record_are_kept(tmp_path, path):
    """A host of a newer release that shares the directory has written it."""
    stored = store(tmp_path / 'one', 'one')
    values = rich_record(stored)
    expected = xml.Guest.from_dict(json.loads(json.dumps(values)))
    functools.reduce(operator.getitem, path, values)['of_a_newer_release'] = {'any': 'thing'}
    (tmp_path / 'one' / UUID).mkdir()
    (tmp_path / 'one' / UUID / 'guest.json').write_text(json.dumps(values))
    assert stored.records() == [expected] == stored.guests()
    assert expected.to_record() == rich_record(stored)
    guest = stored.load(UUID)
    guest.identity.name = 'renamed'
    stored.record(guest)
    written = json.loads((tmp_path / 'one' / UUID / 'guest.json').read_text())
    assert written['name'] == 'renamed' and (written['version'], written['readable_by']) == (1, 1)
    # ports and host devices are made again from the database
    assert ('of_a_newer_release' in functools.reduce(operator.getitem, path, written)) is (path not in DERIVED)


def test_a_port_of_an_older_record_gets_the_fields_that_it_lacks(tmp_path):
    values = rich_record(store(tmp_path / 'one', 'one'))
    del values['interfaces'][0]['port']['multiqueue']
    assert xml.Guest.from_dict(values).ports()[0]['multiqueue'] is False


def test_unknown_fields_of_a_migrations_call_are_ignored(tmp_path):
    stored = store(tmp_path / 'one', 'one')
    (tmp_path / 'one' / UUID).mkdir()
    calls = post_copy.PostCopy(None, stored, 'one')
    call = post_copy.Call('qemu:///session', {}, outgoing.libvirt.VIR_MIGRATE_POSTCOPY)
    calls.keep(UUID, call)
    path = tmp_path / 'one' / UUID / 'post-copy.one.json'
    path.write_text(json.dumps({**json.loads(path.read_text()), 'of_a_newer_release': 1}))
    assert calls.kept(UUID) == call


def test_sizes_are_numbers(tmp_path):
    values = sent(store(tmp_path / 'one', 'one'))
    for wrong in (-1, 1 << 60, '7', None, True):
        values['disks'][0]['size'] = wrong
        with pytest.raises(exception.VirtError, match='not valid'):
            transferred_record.sizes(values)


def test_the_running_definition_keeps_its_machine_and_gets_the_destinations_files(tmp_path):
    one, two = store(tmp_path / 'one', 'one'), store(tmp_path / 'two', 'two')
    here = record(one)
    there = transferred_record.unpacked(sent(one), UUID, two, 'qemu', [VIF])
    here.resources.cpuset, there.resources.cpuset = '0-1', '2-3'
    running = etree.fromstring(xml.domain(here))
    etree.SubElement(running.find('./devices/disk'), 'address', type='pci', slot='0x09')
    made = etree.fromstring(migration_xml.for_destination(etree.tostring(running, encoding='unicode'),
                                                          xml.domain(there)))
    text = etree.tostring(made, encoding='unicode')
    assert str(tmp_path / 'one') not in text and '/old/kernel' not in text
    assert made.find('./devices/disk/address').get('slot') == '0x09'
    assert made.find('vcpu').get('cpuset') == '2-3'
    assert made.find('./devices/interface/source').get('bridge') == 'br-b'
    assert made.find('./devices/interface/target').get('dev') == 'tap-b'
    there.disks.pop()
    with pytest.raises(exception.VirtError, match='disk vdb'):
        migration_xml.for_destination(xml.domain(here), xml.domain(there))


HYBRID, TAP = ({'kind': kind, 'id': UUID, 'mac': 'm', 'bridge': 'br-int', 'device': device, 'datapath': ''}
               for kind, device in (('hybrid', 'qbr1'), ('ovs', 'tap1')))
ISCSI = {'type': 'network', 'protocol': 'iscsi', 'name': 'iqn/1', 'hosts': [['h', 3260]]}
BLOCK = {'type': 'block', 'path': '/dev/dm-1'}


@pytest.mark.parametrize('here, there, interface, disk', [
    ((HYBRID, ISCSI), (TAP, BLOCK), ('ethernet', None), ('block', {'dev': '/dev/dm-1'})),
    ((TAP, BLOCK), (HYBRID, ISCSI), ('bridge', {'bridge': 'qbr1'}), (
        'network', {'protocol': 'iscsi', 'name': 'iqn/1'}))])
def test_devices_get_the_type_that_they_have_at_the_destination(tmp_path, here, there, interface, disk):
    """libvirt refused a type without its source: the guest could not leave a host with other options."""
    stored, texts = store(tmp_path / 'one', 'one'), []
    for port, source in (here, there):
        guest = record(stored)
        guest.interfaces[0].bridge, guest.interfaces[0].port = '', port
        guest.volumes = [volumes.Volume('volume', 'vdc', 'virtio', source)]
        texts.append(xml.domain(guest))
    made = etree.fromstring(migration_xml.for_destination(*texts))
    for element, wanted in ((made.find('./devices/interface'), interface), (made.findall('./devices/disk')[2], disk)):
        source = element.find('source')
        assert (element.get('type'), None if source is None else source.attrib) == wanted


@pytest.mark.parametrize('here, there', [(2, 2), (2, 0), (0, 2), (1, 3)])
def test_disks_keep_the_io_threads_of_the_running_guest(tmp_path, here, there):
    """With a volume that was attached to the running guest, QEMU was asked for a thread that it did not have."""
    stored, choices = store(tmp_path / 'one', 'one'), volumes.Choices({})
    first, second = record(stored), record(stored)
    first.disks, second.disks = first.disks[:1], second.disks[:1]
    volumes.spread(first.disks, here, choices)
    running = etree.fromstring(xml.domain(first))
    attached, wanted = volumes.Volume('volume', 'vdb', 'virtio', BLOCK), {'vda': 1, 'vdb': 1} if here else {}
    attached.iothread = volumes.quietest(attached, first.disks)
    running.find('devices').append(volumes.element(attached))
    text = etree.tostring(running, encoding='unicode')
    second.volumes = [volumes.Volume('volume', 'vdb', 'virtio', BLOCK)]
    volumes.spread(second.devices(), there, choices)
    made = migration_xml.for_destination(text, xml.domain(second)), migration_xml.for_later(xml.domain(second), text)
    for each in made:
        assert volumes.threads(each) == wanted
        assert etree.fromstring(each).findtext('iothreads') == ('1' if here else None)


def test_record_of_an_arrived_guest_describes_the_running_guest(tmp_path):
    """A later attachment chose a thread that the running guest did not have."""
    stored = store(tmp_path / 'one', 'one')
    pathlib.Path(stored.path(UUID)).mkdir()
    arrived = record(stored)
    volumes.spread(arrived.disks, 3, volumes.Choices({}))
    stored.save(arrived)
    volumes.spread(arrived.disks, 1, volumes.Choices({}))
    hypervisor = types.SimpleNamespace(guest=lambda *_arguments: xml.domain(arrived))
    feature = live_migration.LiveMigration(
        configuration.new(files=[]), 'one', guest_power.GuestPower(stored, hypervisor), steps=None, platform=None,
        connections=None, clients=disk_clients.DiskClients(None), addresses=None)
    feature.post_live_migration_at_destination(None, types.SimpleNamespace(uuid=UUID, vm_state='paused'), [])
    assert [disk.iothread for disk in stored.load(UUID).disks] == [1, 1]
    arrived.resources.cell, arrived.resources.cpuset = 1, '4-7'        # of the destination, while the disks are shared
    shared_storage.note_incoming(stored, arrived, 'one')
    feature.post_live_migration_at_destination(None, types.SimpleNamespace(uuid=UUID, vm_state='paused'), [])
    assert stored.load(UUID).resources == arrived.resources


def test_only_hosts_with_the_same_file_share(tmp_path):
    one, same, other = (store(tmp_path / name, host) for name, host in (('a', 'one'), ('a', 'two'), ('b', 'two')))
    for stored in (one, other):
        (tmp_path / stored.directory / UUID).mkdir()
    assert shared_storage.record_fingerprint(one, UUID) is None
    one.save(record(one))
    other.save(record(one))
    fingerprints = [shared_storage.record_fingerprint(stored, UUID) for stored in (one, same, other)]
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]


def test_only_the_owning_host_may_remove_files_on_shared_storage(tmp_path):
    """Neither a rollback nor a host that comes back removes what another one uses."""
    one, two = store(tmp_path / 'a', 'one'), store(tmp_path / 'a', 'two')
    (tmp_path / 'a' / UUID).mkdir()
    one.save(record(one))

    def may(host):
        return shared_storage.may_remove(one.load(UUID), host)
    assert (may('one'), may('two')) == (True, False) and [len(each.guests()) for each in (one, two)] == [1, 0]
    shared_storage.hand_over(one, one.load(UUID), 'two')
    assert (may('one'), may('two')) == (False, False)
    shared_storage.hand_over(one, one.load(UUID), None)
    assert (may('one'), may('two')) == (True, False)
    assert shared_storage.was_taken_over(two.load(UUID), 'one', 'two') and not shared_storage.was_taken_over(
        one.load(UUID), 'one', 'one')
    two.save(two.load(UUID))
    assert (may('one'), may('two')) == (False, True)
    assert shared_storage.was_taken_over(two.load(UUID), 'one', 'two')          # again, after a crash
    assert not shared_storage.was_taken_over(two.load(UUID), 'three', 'two')    # what was left of an older stay
    assert shared_storage.may_remove(None, 'two') and not shared_storage.was_taken_over(None, 'one', 'two')


def test_a_state_of_a_tpm_has_a_bound(tmp_path):
    state = tmp_path / 'state'
    state.write_bytes(bytes(tpm_state.MAX_BYTES))
    assert tpm_state.read(str(state)) == bytes(tpm_state.MAX_BYTES)
    state.write_bytes(bytes(tpm_state.MAX_BYTES + 1))
    with pytest.raises(exception.VirtError, match='not a TPM state'):
        tpm_state.read(str(state))
    assert tpm_state.version({'tpm_version': '3'}) is tpm_state.version({}) is None


@pytest.mark.parametrize('copied, disk_cache, volume_cache, kind, alike', [
    (True, 'writeback', None, None, False), (False, 'none', None, None, True), (False, 'writeback', None, None, False),
    (True, 'writeback', 'writeback', 'network', True), (True, 'writeback', 'none', 'file', True),
    (True, 'writeback', 'writeback', 'file', False), (False, 'none', 'writeback', 'network', True)])
def test_shared_disks_are_seen_alike_only_without_host_cache(tmp_path, copied, disk_cache, volume_cache, kind, alike):
    guest = record(store(tmp_path / 'one', 'one'))
    guest.disks[0].cache = disk_cache
    if kind:
        guest.volumes = [volumes.Volume('volume', 'vdc', 'virtio', {'type': kind}, cache=volume_cache)]
    assert live_migration._seen_alike(guest, copied) is alike


@pytest.mark.parametrize('name, ahead', [('PAUSED_POSTCOPY', True), ('PAUSED_POSTCOPY_FAILED', True),
                                         ('PAUSED_MIGRATION', False), ('PAUSED_USER', False)])
def test_a_guest_that_runs_elsewhere_already_is_known_by_its_state(name, ahead):
    class Domain:                        # what libvirt's says
        def state(self):
            return [libvirt.VIR_DOMAIN_PAUSED, getattr(libvirt, f'VIR_DOMAIN_{name}')]
    libvirt = outgoing.libvirt
    assert outgoing.went_ahead(Domain()) is ahead


class Guests:
    """Two guests of a hypervisor, both here with no migration under way; of those in ``mute`` it cannot say that."""

    def __init__(self, *uuids):
        self.mute, self.asked = set(uuids), 0

    def guests(self):
        return dict.fromkeys((UUID, OTHER), states.RUNNING)

    def power_state(self, uuid):
        return states.RUNNING

    def guest(self, operation, uuid, function, *args):
        if uuid in self.mute:
            self.asked += 1
            assert self.asked < 3, 'it is asked again and again'
            raise exception.VirtError(operation=operation, reason='the state of the guest is locked')
        return function is outgoing.settled


def test_a_guest_that_libvirt_cannot_tell_of_does_not_hold_up_the_start_of_its_host(tmp_path):
    """It is asked again when its migration is taken up; until then nothing of it is changed."""
    hypervisor, stored = Guests(OTHER), store(tmp_path, 'one')
    feature = live_migration.LiveMigration(
        configuration.new(files=[]), 'one', guest_power.GuestPower(stored, hypervisor), steps=None, platform=None,
        connections=None, clients=None, addresses=None)
    for uuid in (UUID, OTHER):
        pathlib.Path(stored.path(uuid)).mkdir()
        stored.save(dataclasses.replace(record(stored), uuid=uuid, ownership=xml.Ownership('one', 'two')))
    feature.settle_migrations()                  # ends
    assert [stored.load(uuid).ownership.successor for uuid in (UUID, OTHER)] == [None, 'two']
    hypervisor.mute.clear()
    feature.await_live_migration(types.SimpleNamespace(uuid=OTHER), None)
    assert stored.load(OTHER).ownership.successor is None and feature._unsettled == set()


def test_migration_call_is_stored_privately_and_only_for_post_copy(tmp_path):
    stored = store(tmp_path / 'one', 'one')
    pathlib.Path(stored.path(UUID)).mkdir()
    calls = post_copy.PostCopy(None, stored, 'one')
    plain = post_copy.Call('qemu+tls://192.0.2.1/system', {'migrate_disks': ['vda'], 'bandwidth': 1}, 1)
    calls.keep(UUID, plain)
    assert calls.kept(UUID) is None
    ahead = dataclasses.replace(plain, flags=1 | outgoing.libvirt.VIR_MIGRATE_POSTCOPY)
    calls.keep(UUID, ahead)
    assert calls.kept(UUID) == ahead and post_copy.PostCopy(None, stored, 'two').kept(UUID) is None
    file, = pathlib.Path(stored.path(UUID)).glob('post-copy.*')
    assert file.stat().st_mode & 0o077 == 0
    calls.forget(UUID)
    calls.forget(UUID)
    assert calls.kept(UUID) is None
