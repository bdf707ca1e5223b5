"""Which disks a rescued guest has, and from which it boots: pure functions."""
import json
import shutil
import subprocess
import types
from xml.etree import ElementTree as etree

import pytest

from nova import exception
from nova import states
from nova.tests.support import libvirt_xml as test_libvirt_xml
from nova.virt.libvirt import disk_clients
from nova.virt.libvirt import guest_power
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain import rescued

pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova.virt.libvirt.features import rescue

IMAGE = {'id': 'an-image', 'properties': {}}


def stable(device, bus, target):
    own = test_libvirt_xml.guest()
    disk = xml.Disk('/i/disk.rescue', 'qcow2', target, bus, backing_file='/i/_base/r.raw', backing_format='raw')
    own.rescued = rescued.Rescued([*own.disks, disk], target=target, device=device)
    return own


KINDS = [('disk', 'virtio', 'vdc'), ('disk', 'usb', 'sda'), ('disk', 'scsi', 'sda'), ('cdrom', 'ide', 'hda'),
         ('cdrom', 'sata', 'sda'), ('floppy', 'fdc', 'fda')]


@pytest.mark.parametrize('device, bus, target', KINDS)
def test_one_disk_alone_is_booted(device, bus, target):
    root = etree.fromstring(xml.domain(stable(device, bus, target)))
    disks = root.findall('./devices/disk')
    assert [disk.get('device') for disk in disks] == ['disk', 'disk', device]
    assert [disk.find('boot') is not None for disk in disks] == [False, False, True]
    assert root.find('./os/boot') is None


@pytest.mark.skipif(shutil.which('virt-xml-validate') is None, reason='virt-xml-validate is not installed')
@pytest.mark.parametrize('device, bus, target', KINDS)
def test_rescue_domain_follows_the_schema(device, bus, target, tmp_path):
    path = tmp_path / 'domain.xml'
    path.write_text(xml.domain(stable(device, bus, target)))
    done = subprocess.run(['virt-xml-validate', path, 'domain'], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_record_is_read_as_it_was_written():
    own = stable('cdrom', 'ide', 'hda')
    again = xml.Guest.from_dict(json.loads(json.dumps(own.to_record())))
    assert again == own and xml.domain(again) == xml.domain(own)
    assert [disk.file for disk in own.files()] == ['/i/disk', '/i/disk.config', '/i/disk.rescue']


@pytest.mark.parametrize(('image', 'same'), [
    ({'id': 'origin'}, True), ({'id': 'other'}, False), ({'id': 'x', 'properties': {'base_image_ref': 'origin'}}, True),
    ({'id': 'first'}, True), ({'id': 'x', 'properties': {'base_image_ref': 'first'}}, True),
    ({'id': 'x', 'properties': {'instance_uuid': 'own'}}, True),
    ({'id': 'x', 'properties': {'base_image_ref': ''}}, False)])
def test_disks_with_the_same_origin_are_known(image, same):
    instance = types.SimpleNamespace(uuid='own', image_id='origin', image_properties={'base_image_ref': 'first'})
    assert rescue.has_same_origin(instance, image) == same
    booted_of_volume = types.SimpleNamespace(uuid='own', image_id='', image_properties=None)
    assert not rescue.has_same_origin(booted_of_volume, {'id': 'x', 'properties': {'base_image_ref': ''}})


class Hypervisor:
    """A guest whose rescue disk has these (reads, writes), one at each look; the last one stays."""

    def __init__(self, *requests, state=states.RUNNING):
        self.requests, self.state, self.attached = list(requests), state, []

    def power_state(self, _uuid):
        return self.state

    def guest(self, operation, _uuid, _function, argument):
        if operation == 'attach the root disk':
            self.attached.append(argument)
            return None
        return self.requests.pop(0) if len(self.requests) > 1 else self.requests[0]


def attached(monkeypatch, hypervisor):
    """Attach the root disk of a rescued guest; (seconds that it took, XML of what was attached)."""
    clock = [0.0]
    monkeypatch.setattr(rescue, 'time', types.SimpleNamespace(
        monotonic=lambda: clock[0], sleep=lambda seconds: clock.__setitem__(0, clock[0] + seconds)))
    own = test_libvirt_xml.guest()
    own.rescued, own.hardware.virt_type = rescued.Rescued([own.disks[1]], hot_plugged=[own.disks[0]]), 'kvm'
    feature = rescue.Rescue(guest_power.GuestPower(None, hypervisor), disk_clients.DiskClients(None))
    feature._attach_late(own)
    return clock[0], hypervisor.attached


def test_the_root_disk_is_attached_when_the_rescue_system_has_booted(monkeypatch):
    reading = [(number, 0) for number in range(50)] + [(49, 1)]
    seconds, (text,) = attached(monkeypatch, Hypervisor(*reading))
    assert seconds == 50 + rescue.BOOTED_S['kvm'] - 1
    root = etree.fromstring(text)
    assert root.find('source').get('file') == '/i/disk' and root.find('target').get('dev') == 'vda'
    seconds, (text,) = attached(monkeypatch, Hypervisor((7, 0)))                  # it never writes
    assert seconds == rescue.BOOT_TIMEOUT_S['kvm']
    assert attached(monkeypatch, Hypervisor((7, 1), state=states.SHUTDOWN)) == (0, [])


def test_a_late_disk_is_in_the_record_and_not_in_the_definition():
    own = test_libvirt_xml.guest()
    own.rescued = rescued.Rescued([own.disks[1]], hot_plugged=[own.disks[0]])
    again = xml.Guest.from_dict(json.loads(json.dumps(own.to_record())))
    assert again == own and "'/i/disk'" not in xml.domain(again).replace('"', "'")


def test_record_without_rescue_fields_is_read():
    values = test_libvirt_xml.guest().to_record()
    del values['rescued']
    assert xml.Guest.from_dict(values).rescued is None


@pytest.mark.parametrize('properties, machine, found', [
    ({}, 'pc', ('disk', 'virtio')), ({'hw_rescue_device': 'cdrom'}, 'pc', ('cdrom', 'ide')),
    ({'hw_rescue_device': 'cdrom'}, 'q35', ('cdrom', 'sata')), ({'hw_rescue_bus': 'usb'}, 'pc', ('disk', 'usb')),
    ({'hw_rescue_device': 'cdrom'}, 'virt', ('cdrom', 'scsi')),
    ({'hw_rescue_device': 'cdrom', 'hw_cdrom_bus': 'usb'}, 'pc', ('cdrom', 'usb')),
    ({'hw_rescue_device': 'cdrom', 'hw_cdrom_bus': 'ide'}, 'q35', ('cdrom', 'sata')),
    ({'hw_rescue_device': 'cdrom', 'hw_cdrom_bus': 'virtio'}, 'pc', ('cdrom', 'ide')),
    ({'hw_rescue_device': 'floppy'}, 'pc', ('floppy', 'fdc'))])
def test_rescue_disk_follows_the_properties_of_its_image(properties, machine, found):
    assert rescue.kind(test_libvirt_xml.guest(machine=machine), {**IMAGE, 'properties': properties}) == found


@pytest.mark.parametrize('properties, machine', [
    ({'hw_rescue_device': 'cdrom', 'hw_rescue_bus': 'virtio'}, 'pc'), ({'hw_rescue_device': 'tape'}, 'pc'),
    ({'hw_rescue_device': 'floppy', 'hw_rescue_bus': 'usb'}, 'pc'), ({'hw_rescue_bus': 'ide'}, 'q35'),
    ({'hw_rescue_bus': 'ide'}, 'virt-7.2'), ({'hw_rescue_device': 'floppy'}, 'virt')])
def test_unsupported_rescue_disk_is_refused(properties, machine):
    with pytest.raises(exception.ImageUnacceptable):
        rescue.kind(test_libvirt_xml.guest(machine=machine), {**IMAGE, 'properties': properties})


def test_guest_without_local_disks_can_be_rescued():
    """As one that boots from a volume: its rescue disk is found a bus, and is alone in a classic rescue."""
    own = test_libvirt_xml.guest(disks=[])
    disk = xml.Disk('/i/disk.rescue', 'qcow2', 'vda')
    assert rescue.kind(own, IMAGE) == ('disk', 'virtio') and rescue.classic(disk, []) == [disk]


def test_a_stable_rescue_takes_no_name_of_a_volume():
    """Else two disks were to be booted from, and libvirt refused the guest: one that boots from a volume, too."""
    volumes = [types.SimpleNamespace(target='vda'), types.SimpleNamespace(target='vdc')]
    own = test_libvirt_xml.guest(disks=[xml.Disk('/i/disk', 'qcow2', 'vdb')], volumes=volumes)
    names = rescue.targets_of(own)
    assert rescue.free_target('virtio', names) == 'vdd' and rescue.free_target('scsi', names) == 'sda'
