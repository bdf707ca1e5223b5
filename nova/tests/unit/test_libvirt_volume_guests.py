"""Volumes of guests whose hypervisor and storage hosts are fakes: what they are asked, and what the records keep."""
import dataclasses
import operator
import pathlib
import types

import pytest

pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova import conf as nova_conf
from nova import exception
from nova import states
from nova.tests.contract.driver_contract import make_instance
from nova.virt.libvirt import calls
from nova.virt.libvirt import disk_clients
from nova.virt.libvirt import driver
from nova.virt.libvirt import guests
from nova.virt.libvirt import platform
from nova.virt.libvirt import vifs
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain import rescued
from nova.virt.libvirt.domain import volume_disks as disk
from nova.virt.libvirt.features import live_migration
from nova.virt.libvirt.features import rescue
from nova.virt.libvirt.features import volumes
from nova.virt.libvirt.local_disks import storage
from nova.virt.libvirt.moves import shared_storage
from nova.virt.libvirt.volumes import connections
from nova.virt.libvirt.volumes import connectors

VOLUME, OTHER = '11111111-2222-3333-4444-555555555555', '22222222-2222-3333-4444-555555555555'
SIZE = 1 << 20
BUSY = exception.VirtError(operation='ask os-brick', reason='map in use')


class Hypervisor:
    """Guests that are asked.

    :ivar asked: [(name of the function, arguments)]
    :ivar answers: {name of a function: result, or an exception}
    """

    def __init__(self):
        self.asked, self.answers, self.states = [], {}, {}

    def power_state(self, uuid):
        if uuid not in self.states:
            raise exception.GuestNotFound(instance_id=uuid)
        return self.states[uuid]

    def guest(self, _operation, _uuid, function, *arguments):
        self.asked.append((function.__name__, *arguments))
        answer = self.answers.get(function.__name__)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def run(self, operation, function, uuid='', *arguments):
        return self.guest(operation, uuid, function, *arguments)

    def named(self, name):
        return [arguments for found, *arguments in self.asked if found == name]


class Mapped(connectors.Connector):
    """Volumes that the host maps to a device, one for each volume.

    :cvar left: ids of disconnected volumes
    :cvar error: what ``disconnect`` raises
    :cvar directory: directory of the devices
    """

    left, error, directory = [], None, '/dev/'

    def connect(self, data):
        return {'type': 'block', 'path': self.directory + data['name'],
                'connection': {'driver_volume_type': self.kind, 'data': data, 'device': {'path': data['name']}}}

    def disconnect(self, data, device=None):
        if self.error is not None:
            raise self.error
        assert device == {'path': data['name']}
        self.left.append(data['name'])


class Backups:
    def __init__(self):
        self.texts = []

    def copy(self, _uuid, text, _begun):
        self.texts.append(text)
        return True


class Rig:
    """The feature and all that it uses."""

    def __init__(self, directory):
        conf = nova_conf.new(files=[])
        self.directory, self.hypervisor, self.backups = directory, Hypervisor(), Backups()
        self.storage = storage.Storage(str(directory / 'instances'), None, None)
        self.connectors, self.clients = connectors.Connectors('here'), disk_clients.DiskClients(None)
        self.connections = connections.VolumeConnections(
            conf, self.storage, self.hypervisor, self.connectors, lambda _uuid, _volume: 'secret')
        steps = types.SimpleNamespace(plug=lambda _uuid, port: self.hypervisor.asked.append(('port', port['device'])))
        self.platform = platform.Platform(conf)
        self.platform.virt_type = 'qemu'
        self.guests = guests.Guests(conf, 'here', self.storage, self.hypervisor, steps, self.platform,
                                    self.connections, self.clients, lambda _uuid: 'secret')
        self.volumes = volumes.Volumes(conf, 'here', self.guests, self.connectors, self.connections, self.clients,
                                       self.backups)

    def guest(self, *attached, state=states.RUNNING):
        """An instance with a saved guest, whose root disk is vda."""
        instance = make_instance()
        self.storage.make_directory(instance.uuid)
        self.storage.save(xml.Guest.of({
            'uuid': instance.uuid, 'name': 'n', 'owner': '/o', 'virt_type': 'qemu', 'vcpus': 1, 'memory_mb': 64,
            'console_log': '/c', 'volumes': list(attached),
            'disks': [xml.Disk(self.storage.path(instance.uuid, 'disk'), 'qcow2', 'vda')]}))
        if state is not None:
            self.hypervisor.states[instance.uuid] = state
        return instance

    def file(self, volume_id=VOLUME, target='vdb'):
        path = self.directory / volume_id
        path.write_bytes(b'data' + bytes(SIZE - 4))
        return disk.Volume(volume_id, target, 'virtio', {'type': 'file', 'path': str(path)})

    def rescue(self, instance, target=None):
        """Let a guest run its rescue system, whose disk is vda in a classic rescue."""
        guest = self.storage.load(instance.uuid)
        root = xml.Disk(guest.disks[0].file, 'qcow2', 'vda' if target else 'vdb')
        rescue = xml.Disk(self.storage.path(instance.uuid, 'disk.rescue'), 'qcow2', target or 'vda')
        guest.rescued = rescued.Rescued([root, rescue] if target else [rescue, root], target=target)
        self.storage.save(guest)


@pytest.fixture
def rig(tmp_path, monkeypatch):
    monkeypatch.setitem(connectors.OURS, 'fibre_channel', Mapped)
    monkeypatch.setattr(Mapped, 'left', [])
    return Rig(tmp_path)


def device(volume_id=VOLUME, **values):
    return {'volume_id': volume_id, 'volume_size': 1, 'destination_type': 'volume', 'device_name': None,
            'connection_info': {'driver_volume_type': 'fibre_channel', 'data': {'name': volume_id}}, **values}


def mapped(rig, volume_id=VOLUME):
    return disk.Volume(volume_id, 'vdb', 'virtio', rig.connectors.connect(device(volume_id)['connection_info']))


def test_extend_and_copy_of_a_volume_leave_the_root_disk_of_a_rescued_guest_alone(rig, monkeypatch):
    """Its name is that of the root disk in a classic rescue: that one was resized, also to fewer bytes, and copied."""
    instance, copies = rig.guest(rig.file()), []
    monkeypatch.setattr(volumes, '_copy', lambda _operation, *arguments: copies.append(arguments[:3]))
    steps = ((lambda: None, True), (lambda: rig.rescue(instance), False), (lambda: rig.rescue(instance, 'vdc'), True))
    for prepare, is_open in steps:
        prepare()
        rig.volumes.extend_volume(None, instance, {'volume_id': VOLUME, 'volume_size': 2})
        rig.volumes.copy_volume(None, instance, VOLUME, {'new_file': '/new'})
        assert rig.hypervisor.named('resize') == ([['vdb', 2 << 30]] if is_open else [])
        assert (bool(rig.backups.texts), bool(copies)) == (is_open, not is_open)
        assert copies in ([], [(str(rig.directory / VOLUME), '/new', 'qcow2')])
        for seen in (rig.hypervisor.asked, rig.backups.texts, copies):
            seen.clear()


@pytest.mark.parametrize('leave', [
    lambda rig, instance: rig.volumes.detach_volume(None, instance, device()),
    lambda rig, instance: rig.volumes.swap_volume(None, instance, device(), device(OTHER))])
def test_device_of_a_multiattach_volume_stays_for_the_other_guest(rig, leave):
    """It was removed from the host under a guest that ran on it."""
    one, two = (rig.guest(mapped(rig)) for _number in range(2))
    rig.hypervisor.answers['uses'] = True                # else the swap would copy
    leave(rig, one)
    assert Mapped.left == [] and [each.volume_id for each in rig.storage.load(two.uuid).volumes] == [VOLUME]
    leave(rig, two)
    assert Mapped.left == [VOLUME]


def test_swap_after_a_crash_disconnects_the_old_volume(rig):
    """The record had the new one already, and only the block storage still knows of the old one."""
    instance, other = rig.guest(mapped(rig, OTHER)), rig.guest(mapped(rig))
    old = device()
    old['connection_info']['device'] = {'path': VOLUME}
    rig.volumes.swap_volume(None, instance, old, device(OTHER))
    assert Mapped.left == []
    rig.storage.forget(other.uuid)
    rig.volumes.swap_volume(None, instance, old, device(OTHER))
    assert Mapped.left == [VOLUME]


def test_guest_that_arrives_keeps_the_device_of_its_volume(rig):
    """Its record on the shared storage is that of the host which it leaves."""
    instance, coming = rig.guest(mapped(rig)), rig.guest(mapped(rig))
    found = rig.storage.load(coming.uuid)
    rig.connections._incoming = lambda: [found]
    rig.storage.forget(coming.uuid)
    rig.volumes.detach_volume(None, instance, device())
    assert Mapped.left == []


def test_guest_that_connects_a_multiattach_volume_keeps_its_device(rig, monkeypatch):
    """Its record did not have the volume yet when another guest lost it."""
    one, two, connect = rig.guest(mapped(rig)), rig.guest(), Mapped.connect

    def connect_meanwhile(self, data):
        source = connect(self, data)
        rig.volumes.detach_volume(None, one, device())
        return source
    monkeypatch.setattr(Mapped, 'connect', connect_meanwhile)
    rig.volumes.attach_volume(None, two, device())
    assert Mapped.left == [] and rig.storage.load(one.uuid).volumes == []
    rig.volumes.detach_volume(None, two, device())
    assert Mapped.left == [VOLUME] and rig.connections._users == set()


@pytest.mark.parametrize('removed', [(), (OTHER,)])
def test_guest_that_is_gone_or_has_failed_to_connect_uses_no_volume(rig, monkeypatch, removed):
    """Also if no record ever had the volume."""
    one, two, connect = rig.guest(mapped(rig)), rig.guest(), Mapped.connect
    gone = [mapped(rig, each) for each in removed]
    rig.connections.connect(two, device(), 'pc', set())
    rig.storage.forget(two.uuid)
    rig.connections.disconnect(two.uuid, gone)
    monkeypatch.setattr(Mapped, 'connect', lambda _self, _data: operator.getitem({}, 'unreachable'))
    with pytest.raises(KeyError, match='unreachable'):
        rig.connections.connect(two, device(), 'pc', set())
    monkeypatch.setattr(Mapped, 'connect', connect)
    assert rig.connections._users == set()
    rig.volumes.detach_volume(None, one, device())
    assert Mapped.left == [*removed, VOLUME]


def test_removal_of_a_guest_without_volumes_reads_no_records(rig, monkeypatch):
    """It failed because of a damaged record of another guest, and waited for the volumes of others."""
    monkeypatch.setattr(rig.storage, 'guests', lambda: pytest.fail('all records are read'))
    forgotten = []
    with rig.connections._leaving:
        rig.connections.disconnect(make_instance().uuid, (), lambda: forgotten.append(True))
    assert forgotten == [True]


def test_detachment_that_fails_on_the_host_can_be_repeated(rig, monkeypatch):
    """The record had lost the volume: the next call disconnected nothing and succeeded."""
    instance = rig.guest(mapped(rig), rig.file(OTHER, 'vdc'))
    monkeypatch.setattr(Mapped, 'error', BUSY)
    with pytest.raises(exception.VirtError):
        rig.volumes.detach_volume(None, instance, device())
    assert [each.volume_id for each in rig.storage.load(instance.uuid).volumes] == [VOLUME, OTHER]
    monkeypatch.setattr(Mapped, 'error', None)
    for _attempt in range(2):
        rig.volumes.detach_volume(None, instance, device())
        assert [each.volume_id for each in rig.storage.load(instance.uuid).volumes] == [OTHER]
    assert Mapped.left == [VOLUME]


def test_volumes_after_one_that_fails_are_disconnected(rig, monkeypatch):
    """They stayed on the host, and no later call named them."""
    both, disconnect = [mapped(rig), mapped(rig, OTHER)], Mapped.disconnect

    def fail_at_first(self, data, device=None):
        disconnect(self, data, device)
        if len(Mapped.left) == 1:
            raise BUSY
    monkeypatch.setattr(Mapped, 'disconnect', fail_at_first)
    with pytest.raises(exception.VirtError, match='map in use'):
        rig.connections.disconnect(rig.guest().uuid, both)
    assert Mapped.left == [VOLUME, OTHER]


def test_volume_that_stays_connected_hides_no_result_of_a_migration(rig, monkeypatch, caplog):
    """The cause of the failure was lost, and a guest that had been rolled back was expected for ever."""
    monkeypatch.setattr(Mapped, 'error', BUSY)
    instance = rig.guest()
    feature = live_migration.LiveMigration(rig.volumes._conf, 'here', rig.guests, None, rig.platform, rig.connections,
                                           None, None)
    coming = dataclasses.replace(rig.storage.load(instance.uuid), volumes=[mapped(rig)])
    shared_storage.note_incoming(rig.storage, coming, 'here')
    feature.rollback_live_migration(None, instance, [], {'block_migration': False})
    assert feature.incoming_guests() == [] and 'map in use' in caplog.text
    monkeypatch.setattr(live_migration.transferred_record, 'unpacked', lambda *_arguments: coming)
    monkeypatch.setattr(feature, '_make_ready', lambda *_arguments: operator.getitem({}, 'the cause'))
    with pytest.raises(KeyError, match='the cause'):
        feature.pre_live_migration(None, instance, [], [device()], {'guest': {}})


def test_ports_and_processors_of_an_arriving_guest_are_taken(rig, monkeypatch):
    """Its choices were in no record: a guest that started meanwhile got the TCP port of the same serial console."""
    conf, seen = rig.guests._conf, []
    conf.set_override('enabled', True, 'serial_console')
    conf.set_override('server_listen', '127.0.0.1', 'serial_console')
    rig.platform.topology = object()
    monkeypatch.setattr(guests.cells, 'floating', lambda _topology, own, others, _limits: (
        seen.append(others) or len(others), {len(others)}))
    monkeypatch.setattr(xml, 'domain', lambda *_arguments: '')
    coming = rig.storage.load(rig.guest().uuid)
    rig.storage.host = 'here'
    coming.ownership.host = 'other'                      # the record on shared storage belongs to the source
    rig.storage.record(coming)
    rig.guests.domain_xml(coming, lambda guest: shared_storage.note_incoming(rig.storage, guest, 'here'))
    noted = shared_storage.incoming(rig.storage, coming.uuid, 'here')
    assert (noted.consoles, noted.resources) == (coming.consoles, coming.resources) and rig.storage.guests() == []
    other = rig.storage.load(rig.guest().uuid)
    rig.guests.domain_xml(other)
    ports = [guest.consoles['serial']['ports'] for guest in (coming, other)]
    assert ports[0] and ports[1] and not set(ports[0]) & set(ports[1])
    assert seen == [[], [coming.resources]]


FAILED = exception.VirtError(operation='attach the volume', reason='it failed')


@pytest.mark.parametrize('step', ['plug', 'define_passphrase'])
def test_attachment_that_fails_leaves_no_device_on_the_host(rig, step):
    """Its record was dropped with the connection: the device stayed, and became one of the next volume there."""
    instance = rig.guest()
    rig.hypervisor.answers[step] = FAILED
    wanted = device()
    wanted['connection_info']['data']['encrypted'] = True
    with pytest.raises(exception.VirtError, match='it failed'):
        rig.volumes.attach_volume(None, instance, wanted)
    assert Mapped.left == [VOLUME] and rig.storage.load(instance.uuid).volumes == []


def test_volume_that_a_guest_may_have_stays_in_its_record(rig):
    """libvirt was lost while it plugged the volume, whose detachment then did nothing and released it."""
    instance = rig.guest()
    rig.hypervisor.answers.update(plug=FAILED, holds_device=FAILED)
    with pytest.raises(exception.VirtError, match='it failed'):
        rig.volumes.attach_volume(None, instance, device())
    with pytest.raises(exception.VirtError):
        rig.volumes.detach_volume(None, instance, device())
    assert Mapped.left == [] and [each.volume_id for each in rig.storage.load(instance.uuid).volumes] == [VOLUME]
    rig.hypervisor.answers.clear()
    rig.volumes.detach_volume(None, instance, device())
    assert Mapped.left == [VOLUME] and rig.storage.load(instance.uuid).volumes == []


def test_build_that_fails_at_one_volume_disconnects_all(rig):
    """Also the one that was connected last, whose settings are refused."""
    with pytest.raises(exception.VirtError, match='needs the bus scsi'):
        rig.connections.connect_all(rig.guest(), [device(), device(OTHER, device_type='lun', disk_bus='virtio')], 'pc',
                                    [])
    assert Mapped.left == [OTHER, VOLUME]
    refused = device()
    refused['connection_info']['data']['qos_specs'] = {'read_iops_sec': 'many'}
    Mapped.left.clear()
    with pytest.raises(exception.VirtError, match='not a number'):
        rig.connections.connect_all(rig.guest(), [device(OTHER), refused], 'pc', [])
    assert Mapped.left == [OTHER]                        # the other was refused before it was connected


def test_repeated_connection_that_fails_keeps_the_volumes_of_the_guest(rig):
    """A revert of a resize that was repeated took the devices from the running guest."""
    instance, unusable = rig.guest(mapped(rig)), {'device_type': 'lun', 'disk_bus': 'virtio'}
    for wanted in ([device(), device(OTHER, **unusable)], [device(**unusable)]):
        with pytest.raises(exception.VirtError, match='needs the bus scsi'):
            rig.connections.connect_all(instance, wanted, 'pc', [])
        assert VOLUME not in Mapped.left
    assert Mapped.left == [OTHER]
    rig.storage.host = 'here'
    guest = rig.storage.load(instance.uuid)
    guest.ownership.host = 'other'                       # on shared storage: the guest runs there
    rig.storage.record(guest)
    with pytest.raises(exception.VirtError, match='needs the bus scsi'):
        rig.connections.connect_all(instance, [device(**unusable)], 'pc', [])
    assert Mapped.left == [OTHER, VOLUME]


@pytest.mark.parametrize('answers, state, left', [
    ({'begin_swap': FAILED}, states.RUNNING, [OTHER]), ({}, states.SHUTDOWN, [OTHER]),
    ({'uses': exception.GuestNotFound(instance_id='x')}, states.RUNNING, [OTHER]),
    ({'uses': FAILED}, states.RUNNING, [])])
def test_swap_that_fails_disconnects_the_new_volume(rig, answers, state, left):
    instance = rig.guest(mapped(rig), state=state)
    rig.hypervisor.answers.update(answers)
    with pytest.raises(exception.VirtError):
        rig.volumes.swap_volume(None, instance, device(), device(OTHER))
    assert Mapped.left == left and [each.volume_id for each in rig.storage.load(instance.uuid).volumes] == [VOLUME]


def test_swap_whose_old_volume_stays_connected_succeeds(rig, monkeypatch, caplog):
    """It was undone, and its new volume released, while the guest wrote to it."""
    instance = rig.guest(mapped(rig))
    rig.hypervisor.answers['uses'] = True
    monkeypatch.setattr(Mapped, 'error', BUSY)
    rig.volumes.swap_volume(None, instance, device(), device(OTHER))
    assert [each.volume_id for each in rig.storage.load(instance.uuid).volumes] == [OTHER]
    assert 'map in use' in caplog.text


@pytest.mark.parametrize('state', [states.SHUTDOWN, states.POWER_SUSPENDED, None])
def test_volume_of_a_guest_that_is_off_is_extended(rig, state):
    """Its size was that of before for ever, though the block storage showed and counted the new one."""
    volume = rig.file()
    instance, path = rig.guest(volume, state=state), pathlib.Path(volume.source['path'])
    for size in (2, 1):
        rig.volumes.extend_volume(None, instance, device(volume_size=size))
        assert path.stat().st_size == 2 << 30 and rig.hypervisor.named('resize') == []
    path.unlink()
    with pytest.raises(exception.VirtError, match='No such file'):
        rig.volumes.extend_volume(None, instance, device(volume_size=3))


def test_volume_of_a_rescued_guest_is_extended(rig):
    volume = rig.file()
    instance = rig.guest(volume)
    rig.rescue(instance)
    rig.volumes.extend_volume(None, instance, device(volume_size=2))
    assert pathlib.Path(volume.source['path']).stat().st_size == 2 << 30


def test_resume_renews_what_the_host_has_lost_since_the_suspension(rig):
    """libvirt loses secrets when it restarts, and a host its taps: the guest did not start, and its memory was lost."""
    volume = rig.file()
    volume.source['luks'] = VOLUME
    instance = rig.guest(volume, state=states.POWER_SUSPENDED)
    guest = rig.storage.load(instance.uuid)
    port = vifs.Port('ovs', 'p', 'fa:16:3e:00:00:01', 'br-int', 'tap1')
    guest.interfaces = [xml.Interface(port.mac, '', 'tap1', port=dataclasses.asdict(port))]
    rig.storage.save(guest)
    rig.guests.power_on(instance.uuid, [])
    assert rig.hypervisor.asked == [('define_passphrase', VOLUME, 'secret'), ('port', 'tap1'), ('start_paused',),
                                    ('start',)]


def test_classic_rescue_starts_without_the_volumes(rig):
    """A server whose storage was unreachable could not be rescued, and stayed off."""
    volume = disk.Volume(VOLUME, 'vdb', 'virtio', {
        'type': 'network', 'protocol': 'nbd', 'socket': str(rig.directory / 'none'), 'luks': VOLUME,
        'auth': {'kind': 'ceph', 'user': 'u', 'uuid': OTHER}, 'secret': 'secret'})
    instance = rig.guest(volume)
    rig.rescue(instance)
    rig.guests.start(rig.storage.load(instance.uuid))
    assert [name for name, *_arguments in rig.hypervisor.asked] == ['define_and_start']
    rig.rescue(instance, 'vdc')
    with pytest.raises(exception.VirtError, match='unreachable'):
        rig.guests.start(rig.storage.load(instance.uuid))


BOOTED = '/dev/after-boot/'


def _reboot(rig, instance):
    rebooted = driver.LibvirtDriver(nova_conf.new(files=[], state_path=str(rig.directory)), 'here', None)
    rebooted._guests, rebooted.hypervisor = rig.guests, rig.hypervisor
    rebooted.reboot(None, instance, [], hard=True)


def _unrescue(rig, instance):
    rig.rescue(instance)
    rescue.Rescue(rig.guests, None).unrescue(None, instance, [])


@pytest.mark.parametrize('start, state', [
    (lambda rig, instance: rig.guests.power_on(instance.uuid, []), states.SHUTDOWN),
    (lambda rig, instance: rig.guests.power_on(instance.uuid, []), None),
    (_reboot, states.SHUTDOWN), (_reboot, states.RUNNING), (_unrescue, states.RUNNING)])
def test_start_uses_the_present_device_of_a_volume(rig, monkeypatch, start, state):
    """Kernel names of devices change at a boot of the host: a guest got no volume, or that of another guest."""
    instance = rig.guest(mapped(rig), rig.file(OTHER, 'vdc'), state=state)
    monkeypatch.setattr(Mapped, 'directory', BOOTED)
    start(rig, instance)
    (text,), = rig.hypervisor.named('define_and_start')
    assert f'<source dev="{BOOTED}{VOLUME}" />' in text and f'<source file="{rig.directory}/{OTHER}" />' in text
    assert rig.storage.load(instance.uuid).volumes[0].source['path'] == BOOTED + VOLUME


def test_resume_uses_the_present_device_of_a_volume(rig, monkeypatch):
    """The saved memory names the device, too."""
    instance = rig.guest(mapped(rig), rig.file(OTHER, 'vdc'), state=states.POWER_SUSPENDED)
    monkeypatch.setattr(Mapped, 'directory', BOOTED)
    rig.guests.power_on(instance.uuid, [])
    assert rig.hypervisor.asked == [('renew_saved_devices', {'vdb': BOOTED + VOLUME}), ('start_paused',), ('start',)]
    assert rig.storage.load(instance.uuid).volumes[0].source['path'] == BOOTED + VOLUME


def test_device_in_saved_memory_is_replaced():
    saved = []
    domain = types.SimpleNamespace(managedSaveDefineXML=saved.append, managedSaveGetXMLDesc=lambda _flags: (
        '<domain><devices><disk><source dev="/dev/dm-3" index="2"/><target dev="vdb"/></disk>'
        '<disk><source file="/x"/><target dev="vda"/></disk></devices></domain>'))
    calls.renew_saved_devices(domain, {'vdb': '/dev/dm-7'})
    assert saved == ['<domain><devices><disk><source dev="/dev/dm-7" index="2" /><target dev="vdb" /></disk>'
                     '<disk><source file="/x" /><target dev="vda" /></disk></devices></domain>']


def test_reboot_fails_before_the_stop_if_a_volume_is_unreachable(rig, monkeypatch):
    instance = rig.guest(mapped(rig))
    monkeypatch.setattr(Mapped, 'connect', lambda _self, _data: operator.getitem({}, 'unreachable'))
    with pytest.raises(KeyError, match='unreachable'):
        _reboot(rig, instance)
    assert rig.hypervisor.asked == []


def test_paused_guest_runs_after_its_ceph_clients_are_recorded(rig):
    """A service was killed before it recorded them: the row kept those of an earlier run, which fence nothing."""
    image = {'type': 'network', 'protocol': 'rbd', 'name': 'pool/image'}
    instance = rig.guest(disk.Volume(VOLUME, 'vdb', 'virtio', image), state=states.POWER_PAUSED)
    rig.clients._ceph = types.SimpleNamespace(watchers=lambda _image, _timeout: ['192.0.2.1:0/7'])
    rig.clients.record = lambda *recorded: rig.hypervisor.asked.append(recorded)
    rig.guests.power_on(instance.uuid, [])
    assert rig.hypervisor.asked == [(instance.uuid, {'pool/image': ['192.0.2.1:0/7']}, True), ('start',)]
