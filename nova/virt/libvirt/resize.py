"""Resizing guests on their own host: what the guest was is put aside, disks and record, until the end is decided.

    <instances>/<uuid>_kept/            the guest as it was, under its old name

The new guest gets copies of the disks, so that a revert finds the old ones untouched. Formats stand in the record.
"""
import contextlib
import os
import shutil
import subprocess

from nova import exception
from nova.virt import driver
from nova.virt.libvirt import files
from nova.virt.libvirt import guest as guests
from nova.virt.libvirt import spec
from nova.virt.libvirt import storage


class Resize(driver.Resize):
    """Needs what LibvirtDriver has. Guests of other hosts are refused: their disks are there."""

    def accept_guest(self, context, instance, flavor):
        if instance.host != self.host:
            raise exception.VirtError(operation='take the guest', reason='its disks are on another host')

    def send_guest(self, context, instance, dest_host, network_info, timeout):
        uuid, kept = instance.uuid, self.storage.kept_path(instance.uuid)
        with self._operation(uuid):
            if self.storage.load(uuid) is not None:      # it is the guest; what was put aside before is of no use
                self.power_off(instance, timeout)
                self._remove(uuid, keep_disks=True)
                shutil.rmtree(kept, ignore_errors=True)
                variables = self.storage.path(uuid, spec.NVRAM)
                if os.path.exists(variables):
                    self._steps.let_read(variables)
                os.rename(self.storage.path(uuid), kept)
            if not os.path.isdir(kept):
                raise exception.GuestNotFound(instance_id=uuid)
        return {}

    def finish_migration(self, context, instance, guest, request, power_on):
        uuid = instance.uuid
        old = self.storage.load_kept(uuid)
        if old is None:
            raise exception.GuestNotFound(instance_id=uuid)
        with self._operation(uuid):
            self._remove(uuid)
            try:
                disks, boot_files = _copies(self.storage, self._qemu_img, instance, old)
                made = spec.guest(
                    instance, request, self.virt_type, self.storage, disks, boot_files, self._guest_traits,
                    lambda machine: self.volumes_of(instance, request.block_devices, machine, disks, old.volumes))
                self.define_secrets(made.volumes)
                self.storage.save(made)
                self._define(made, power_on)
            except Exception as error:
                self._undo(uuid)
                if isinstance(error, OSError):
                    raise exception.VirtError(operation='resize the guest', reason=error.strerror) from error
                raise

    def drop_migrated(self, context, instance, network_info):
        with self._operation(instance.uuid):
            if self.storage.load_kept(instance.uuid) is not None:        # else it is the one that was taken back
                self._remove(instance.uuid)

    def finish_revert_migration(self, context, instance, network_info, block_devices, power_on):
        uuid, kept = instance.uuid, self.storage.kept_path(instance.uuid)
        with self._operation(uuid):
            if os.path.isdir(kept):
                self._remove(uuid)
                os.rename(kept, self.storage.path(uuid))
            self._define(self._recorded(uuid, network_info), power_on)

    def confirm_migration(self, context, instance, network_info):
        self._forget_kept(instance.uuid)

    def kept_guests(self):
        return self.storage.kept_guests()

    def _forget_kept(self, uuid):
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.storage.kept_path(uuid))

    def _define(self, guest, power_on):
        self._plug(guest)
        function = guests.define_and_start if power_on else guests.define
        self.hypervisor.run('define the guest', function, guest.uuid, self._domain(guest))


def _copies(stored, qemu_img, instance, old):
    """Copies of a guest's files in a new directory, its disks as large as its flavor says: (disks, boot files)."""
    uuid, source = instance.uuid, stored.kept_path(instance.uuid)
    os.mkdir(stored.path(uuid))
    os.chmod(stored.path(uuid), storage.DIRECTORY_MODE)
    sizes = {'disk': instance.root_gb * storage.GIB, 'disk.ephemeral0': instance.ephemeral_gb * storage.GIB,
             'disk.swap': int((instance.flavor or {}).get('swap') or 0) * storage.MIB}
    boot_files, disks = {}, []
    for disk in old.disks:
        name = os.path.basename(disk.file)
        if name == 'disk.swap' and not sizes[name]:
            continue
        _copy(os.path.join(source, name), disk.file)
        _grow(qemu_img, disk, sizes.get(name, 0))
        disks.append(disk)
    disks += stored.blanks(uuid, {name: size for name, size in sizes.items() if name != 'disk'}, disks, old.volumes)
    if old.nvram and os.path.exists(os.path.join(source, spec.NVRAM)):
        _copy(os.path.join(source, spec.NVRAM), old.nvram)
    for part in ('kernel', 'ramdisk'):
        if getattr(old, part):
            _copy(os.path.join(source, part), getattr(old, part))
            boot_files[part] = getattr(old, part)
    return disks, boot_files


def _copy(source, target):
    done = subprocess.run(['cp', '--reflink=auto', '--sparse=always', '--', source, target],
                          stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        raise exception.VirtError(operation='copy a disk', reason='there is no room, or the disk cannot be read')
    files.give_to_guest(target)


def _grow(qemu_img, disk, size):
    """Make a disk that no guest uses ``size`` bytes large, when it is smaller; its format is the recorded one."""
    if disk.format == 'qcow2':
        if size > storage.qcow2_size(disk.file):
            qemu_img.resize(disk.file, disk.format, size, disk.backing_file)
    elif size > os.path.getsize(disk.file) and not disk.readonly:
        os.truncate(disk.file, size)
