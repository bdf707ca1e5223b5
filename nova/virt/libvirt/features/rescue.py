"""Rescue: run a guest from a disk of another image, to repair the guest's own disks.

    <instances>/<uuid>/disk.rescue           overlay on the rescue image
                       kernel.rescue, ramdisk.rescue
                       disk.configrescue     config drive with the password of the rescue

* Classic: the rescue disk is the first disk, and the guest's root disk is the second. All other disks except the config
  drive are detached.
* Stable, if the image has hw_rescue_device or hw_rescue_bus: all devices keep their names. The rescue disk is the last
  disk, and the guest boots from it.

If rescue disk and root disk are copies of one image, their file systems have equal UUIDs. The rescue system could then
mount the guest's root file system as its own. So the root disk is attached after the boot of the rescue system.
"""
from collections.abc import Sequence
import contextlib
import copy
import os
import time

from nova import exception
from nova.objects.block_device import BlockDevice
from nova.objects.image import Image
from nova import states
from nova.context import RequestContext
from nova.disk_files import files
from nova.hardware import disks as disk_words
from nova.objects.instance import Instance
from nova.virt import driver
from nova.virt.libvirt import calls
from nova.virt.libvirt import spec
from nova.virt.libvirt import xml
from nova.virt.libvirt.disk_clients import DiskClients
from nova.virt.libvirt.domain import rescued
from nova.virt.libvirt.domain import volume_disks
from nova.virt.libvirt.guests import Guests
from nova.virt.libvirt.local_disks import new_disks
from nova.virt.libvirt.local_disks import records

DISK, CONFIG_DRIVE = 'disk.rescue', 'disk.configrescue'
BOOT_FILES = {'kernel': 'kernel.rescue', 'ramdisk': 'ramdisk.rescue'}
ORIGIN = 'base_image_ref'                # property of a snapshot image: image from which the server was built
COLD_BUSES = ('ide', 'sata', 'fdc')      # buses without hot-plug
POLL_S = 1                               # seconds between two polls of a booting rescue system
# {domain type: seconds}: the boot counts as complete after BOOTED_S without reads, or after BOOT_TIMEOUT_S
BOOTED_S = {'kvm': 10, 'qemu': 30}
BOOT_TIMEOUT_S = {'kvm': 60, 'qemu': 300}
PROPERTIES = ('hw_rescue_device', 'hw_rescue_bus')
# {device type: supported buses}
BUSES = {'disk': ('virtio', 'scsi', 'ide', 'usb', 'sata'), 'cdrom': disk_words.CDROM_BUSES, 'floppy': ('fdc',)}


class Rescue:
    """Features Rescue and StableRescue. The record of a guest stores the state, so that it survives a restart."""

    def __init__(self, guests: Guests, clients: DiskClients) -> None:
        self._guests, self._storage, self._hypervisor = guests, guests.storage, guests.hypervisor
        self._clients = clients

    def rescue(self, context: RequestContext, instance: Instance, network_info: driver.NetworkInfo,
               image: Image, admin_password: str, block_devices: list[BlockDevice],
               config_drive: dict[str, bytes] | None = None) -> None:
        uuid = instance.uuid
        with self._guests.operation(uuid):
            guest = self._back(uuid, network_info)
            try:
                guest.rescued = self._make(context, instance, guest, image, config_drive)
                self._storage.save(guest)
                self._guests.reconnect(guest)
                self._guests.start(guest)
                self._attach_late(guest)
            except Exception as error:
                with contextlib.suppress(exception.VirtError, OSError):     # raise only the first error, below
                    self._back(uuid, network_info)
                if isinstance(error, OSError):
                    raise exception.VirtError(operation='rescue the guest', reason=error.strerror) from error
                raise

    def _attach_late(self, guest: xml.Guest) -> None:
        """Attach the disks ``hot_plugged`` after the boot of the rescue system.

        The boot counts as complete when the system has written to the rescue disk and has not read from it for
        BOOTED_S; the maximum wait is BOOT_TIMEOUT_S.
        """
        made, hypervisor = guest.rescued, self._hypervisor
        if made is None or not made.hot_plugged:
            return
        end, last, since = time.monotonic() + BOOT_TIMEOUT_S[guest.hardware.virt_type], None, 0.0
        while time.monotonic() < end:
            if hypervisor.power_state(guest.uuid) != states.RUNNING:
                return                   # the guest has stopped
            reads, writes = hypervisor.guest('look at the rescue disk', guest.uuid, calls.requests, made.first)
            if reads != last:
                last, since = reads, time.monotonic()
            elif writes and time.monotonic() - since >= BOOTED_S[guest.hardware.virt_type]:
                break
            time.sleep(POLL_S)
        for disk in made.hot_plugged:
            with self._clients.plugging_disk(guest.uuid, disk):
                hypervisor.guest('attach the root disk', guest.uuid, calls.attach_live, xml.local_disk(disk, guest))

    def unrescue(self, context: RequestContext, instance: Instance, network_info: driver.NetworkInfo) -> None:
        with self._guests.operation(instance.uuid):
            guest = self._back(instance.uuid, network_info)
            self._guests.reconnect(guest)
            self._guests.start(guest)

    def _back(self, uuid: str, network_info: driver.NetworkInfo) -> xml.Guest:
        """End a rescue: stop the guest, restore the record of its own disks, and remove the files of the rescue.

        :raises GuestNotFound:
        """
        guest = self._guests.refresh(uuid, network_info)
        with contextlib.suppress(exception.GuestNotFound):
            self._hypervisor.guest('stop the guest', uuid, calls.stop_and_forget)
        guest.rescued = None
        self._storage.save(guest)
        for name in BOOT_FILES.values():
            files.remove(self._storage.path(uuid, name))
        for name in (DISK, CONFIG_DRIVE):
            self._storage.backends.remove(self._storage.path(uuid, name))
        return guest

    def _make(self, context: RequestContext, instance: Instance, guest: xml.Guest, image: Image,
              config_drive: dict[str, bytes] | None) -> rescued.Rescued:
        """Create the files of a rescue. Return the Rescued, which describes the disks and the boot."""
        stored, uuid, properties = self._storage, instance.uuid, image.get('properties') or {}
        device, bus = kind(guest, image)
        boot_files = new_disks.boot_files(stored, context, uuid, image, {
            part: (properties.get(f'{part}_id'), name) for part, name in BOOT_FILES.items()})
        stable = any(name in properties for name in PROPERTIES)
        own = [self._with_drive(uuid, disk, config_drive) for disk in guest.disks]
        target = free_target(bus, targets_of(guest) if stable else set())
        disk = new_disks.image_disk(stored, context, instance, image, target, bus, DISK,
                                    root_gb=instance.root_gb if device == 'disk' else 0)
        disk.readonly = device == 'cdrom'
        disks = [*own, disk] if stable else classic(disk, own, records.elsewhere(guest))
        late = []
        if device == 'disk' and 'kernel' not in boot_files and has_same_origin(instance, image):
            late = [each for each in disks if each.file == guest.disks[0].file] if guest.disks else []
            disks = [each for each in disks if each not in late]
            taken = {each.target for each in [*disks, *(guest.volumes if stable else ())]}
            for each in late:
                if each.bus in COLD_BUSES:
                    each.bus, each.target = 'usb', free_target('usb', taken)
        made = rescued.Rescued(
            disks, boot_files.get('kernel'), boot_files.get('ramdisk'), target=disk.target if stable else None,
            device=device, hot_plugged=late)
        if made.kernel:
            made.cmdline = properties.get('os_command_line') or spec.cmdline(disk.target, guest.hardware.arch)
        return made

    def _with_drive(self, uuid: str, disk: xml.Disk, config_drive: dict[str, bytes] | None) -> xml.Disk:
        """Return a copy of a guest's disk; for the config drive, return a new config drive with the rescue's data."""
        if config_drive is None or os.path.basename(disk.file) != 'disk.config':
            return copy.copy(disk)
        return new_disks.config_drive(self._storage, uuid, config_drive, disk.target, disk.bus, CONFIG_DRIVE,
                                      encrypted=disk.secret is not None)


def has_same_origin(instance: Instance, image: Image) -> bool:
    """Return whether the rescue image is a snapshot of the server or has the same origin as the root disk."""
    properties, own = image.get('properties') or {}, instance.image_properties or {}
    origins = {instance.image_id, own.get(ORIGIN)} & {image['id'], properties.get(ORIGIN)}
    return bool(origins - {None, ''}) or properties.get('instance_uuid') == instance.uuid


def kind(guest: xml.Guest, image: Image) -> tuple[str, str]:
    """Return (device, bus) of the rescue disk.

    :raises ImageUnacceptable: the image requests a device or bus that this machine type does not support
    """
    properties = image.get('properties') or {}
    device = properties.get('hw_rescue_device', 'disk')
    machine = guest.hardware.machine
    cdrom = volume_disks.cdrom_bus(properties, machine)
    if cdrom not in BUSES['cdrom'] or not disk_words.has_bus(machine, cdrom):
        cdrom = volume_disks.cdrom_bus({}, machine)        # one image rescues servers of several machine types
    usual = {'disk': guest.disks[0].bus if guest.disks else 'virtio', 'cdrom': cdrom, 'floppy': 'fdc'}
    bus = properties.get('hw_rescue_bus', usual.get(device))
    if bus not in BUSES.get(device, ()):
        raise exception.ImageUnacceptable(image_id=image['id'], reason=f'there is no {device} on the bus {bus}')
    if not disk_words.has_bus(machine, bus):
        raise exception.ImageUnacceptable(image_id=image['id'], reason=f'a {machine} machine has no {bus} disks')
    return device, bus


def classic(disk: xml.Disk, own: list[xml.Disk], elsewhere: Sequence[xml.Disk] = ()) -> list[xml.Disk]:
    """Return the disks of a classic rescue: ``disk``, the guest's root disk and its config drive.

    A root disk that is a volume is omitted.
    :param elsewhere: disks of an adopted guest outside of its directory; the first of them is its root disk
    """
    kept = [each for each in own
            if os.path.basename(each.file) in ('disk', 'disk.config', CONFIG_DRIVE) or each in elsewhere[:1]]
    taken = {disk.target}
    for each in kept:
        each.target = free_target(each.bus, taken)
        taken.add(each.target)
    return [disk, *kept]


def targets_of(guest: xml.Guest) -> set[str]:
    """Return the target names of a guest's disks and volumes, which must not change in a stable rescue."""
    return {disk.target for disk in guest.devices()}


def free_target(bus: str, taken: set[str]) -> str:
    """Return the first free target name, or raise VirtError if all are in use."""
    found = volume_disks.free_target(bus, taken)
    if found is None:
        raise exception.VirtError(operation='rescue the guest',
                                  reason=f'all letters of device names on the bus {bus} are in use')
    return found
