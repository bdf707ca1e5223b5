"""Volumes that a guest gets and loses, running or not; mixed into the libvirt driver."""
from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TYPE_CHECKING

from oslo_config import cfg

from nova import exception
from nova.virt import driver
from nova.virt.libvirt import disk_clients
from nova.virt.libvirt import guest as guests
from nova.virt.libvirt import xml
from nova.virt.libvirt.life import hands
from nova.virt.libvirt.volumes import disk
from nova.virt.libvirt.volumes import operations
from nova.virt.libvirt.volumes import probe

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.objects.instance import Instance
    from nova.virt.libvirt.host import Host
    from nova.virt.libvirt.storage import Storage
    from nova.virt.libvirt.volumes.connectors import Connectors

GIB = 2 ** 30
RELEASE_SECONDS = 60         # a guest's system must let a disk go; one that still boots does not hear it
RETRY_S = 5                  # after which the request is repeated
POLL = 0.2
RELEASE_POLL = 0.05          # a guest that hears the request lets a disk go within a tenth of a second
NO_CHAIN = 'the new one has snapshots: zeros that are copied onto it would show what is below'
NO_COPY = 'it is encrypted, and QEMU would copy what it has without that'


class Volumes(hands.Feature, driver.Volumes, driver.ExtendVolume, driver.VolumeCopies):
    """Needs what LibvirtDriver has."""

    conf: cfg.ConfigOpts
    host: str
    hypervisor: Host
    storage: Storage
    connectors: Connectors
    clients: disk_clients.DiskClients
    volume_key: Callable[[str, str], str] | None
    is_active: Callable[[str], bool]
    copy_running: Callable[..., bool]

    def attached_volumes(self) -> dict[str, dict[str, dict[str, Any]]]:
        return {guest.uuid: {volume.volume_id: {'attachment_id': _attachment_of(volume),
                                                'device_name': f'/dev/{volume.target}'} for volume in guest.volumes}
                for guest in self.storage.guests() if guest.volumes}

    def volume_connector(self) -> dict[str, Any]:
        return {'platform': 'x86_64', 'os_type': 'linux', **self.connectors.facts(self.conf.my_ip), 'host': self.host,
                'ip': self.conf.my_ip}

    def volumes_of(self, instance: Instance, devices: Iterable[disk.Device], machine: str, disks: Sequence[xml.Disk],
                   known: Sequence[disk.Volume] = ()) -> list[disk.Volume]:
        """[disk.Volume] of those of a guest's devices that are volumes.

        :param disks: its local ones, which get their cache mode and their I/O threads with the volumes
        :param known: Volumes that it had, whose targets it keeps
        :raises VirtError: this host does not reach one of them
        """
        made, taken = [], {each.target for each in disks}
        kept = {each.volume_id: each.target for each in known}
        for device in devices:
            if device.get('destination_type') == 'volume':
                wanted = kept.get(device['volume_id']) or device.get('device_name')
                made.append(self._volume(instance, {**device, 'device_name': wanted}, machine, taken))
                taken.add(made[-1].target)
        choices = self._choices()
        for local in disks:
            if local.source is None and not local.readonly:
                local.cache = choices.cache['file']
        disk.spread([*disks, *made], self.conf.libvirt.io_threads, choices)
        return made

    def _choices(self) -> disk.Choices:
        options = self.conf.libvirt
        cache = {'file': self.storage.disk_cache, 'block': 'none', 'network': 'writeback', **options.disk_cachemodes}
        return disk.Choices(cache, options.detect_zeroes)

    def _volume(self, instance: Instance, device: disk.Device, machine: str, taken: set[str]) -> disk.Volume:
        source = self.connectors.connect(device['connection_info'])
        if source.pop('encrypted', False):
            source['luks'] = device['volume_id']         # the id of its secret, too
        return disk.volume(device, source, instance.image_properties or {}, machine, taken, self._choices())

    def define_secrets(self, volumes: Iterable[disk.Volume]) -> None:
        """Give libvirt what it needs to log in to the storages of volumes; it forgets that when it restarts."""
        for volume in volumes:
            if volume.source.get('secret'):
                self.hypervisor.run('keep a secret', operations.define_secret, '', volume.source['auth'],
                                    volume.source['secret'])

    def define_volume_keys(self, uuid: str, volumes: Iterable[disk.Volume]) -> None:
        """Give libvirt what opens the encrypted ones of a guest's volumes."""
        for volume in volumes:
            if volume.source.get('luks'):
                if self.volume_key is None:
                    raise exception.VirtError(operation='open the volume', reason='this service was given no keys')
                self.hypervisor.run('keep a key', operations.define_passphrase, uuid, volume.volume_id,
                                    self.volume_key(uuid, volume.volume_id))

    def attach_volume(self, context: RequestContext, instance: Instance, device: disk.Device) -> None:
        with self.hands.operation(instance.uuid):
            guest = self.hands.known(instance.uuid)
            before = [each for each in guest.volumes if each.volume_id != device['volume_id']]
            known = [each for each in guest.volumes if each.volume_id == device['volume_id']]
            wanted = {**device, 'boot_index': None,
                      'device_name': known[0].target if known else device.get('device_name')}
            volume = self._volume(instance, wanted, guest.machine,
                                  {each.target for each in [*guest.disks, *before]})
            if self.is_active(instance.uuid):
                probe.check([volume])
            volume.iothread = disk.quietest(volume, [*guest.disks, *before])
            self.define_secrets([volume])
            self.define_volume_keys(instance.uuid, [volume])
            guest.volumes = [*before, volume]
            self.storage.save(guest)         # first: what the guest has is known whatever comes
            try:
                with contextlib.suppress(exception.GuestNotFound), self._opening_volume(instance.uuid, volume):
                    self.hypervisor.guest('attach the volume', instance.uuid, guests.plug,
                                          xml.volume(volume, guest), volume.path)
            except exception.VirtError:
                if not known:
                    guest.volumes = before
                    self.storage.save(guest)
                raise

    def _opening_volume(self, uuid: str, volume: disk.Volume) -> contextlib.AbstractContextManager[None]:
        """Record the clients of Ceph with which a running guest opens a volume in the block."""
        return self.clients.plugging(uuid, volume) if self.is_active(uuid) else contextlib.nullcontext()

    def detach_volume(self, context: RequestContext, instance: Instance, device: disk.Device) -> None:
        with self.hands.operation(instance.uuid):
            guest = self.storage.load(instance.uuid)
            if guest is None:
                return
            found = [each for each in guest.volumes if each.volume_id == device['volume_id']]
            for volume in found:
                with contextlib.suppress(exception.GuestNotFound):
                    self._release(guest, volume)
                guest.volumes = [each for each in guest.volumes if each is not volume]
                self.storage.save(guest)
            self.disconnect(found)

    def disconnect(self, volumes: Iterable[disk.Volume]) -> None:
        """Nothing on this host uses these Volumes any more."""
        for volume in volumes:
            if volume.source.get('luks'):
                with contextlib.suppress(exception.HypervisorUnreachable):      # libvirt forgets it when it ends
                    self.hypervisor.run('forget a key', operations.forget_passphrase, '', volume.volume_id)
            if volume.source.get('connection'):      # else there is nothing of it but what QEMU has opened
                self.connectors.disconnect(volume.source['connection'])

    def _release(self, guest: xml.Guest, volume: disk.Volume) -> None:
        """
        :raises VirtError: the guest holds the disk
        """
        uuid, operation, text = guest.uuid, 'detach the volume', xml.volume(volume, guest)
        deadline, ask_at = time.monotonic() + RELEASE_SECONDS, 0.0
        while self.hypervisor.guest(operation, uuid, guests.holds_device, volume.path):
            if time.monotonic() > deadline:
                raise exception.VirtError(operation=operation, reason='the guest does not let it go')
            if time.monotonic() >= ask_at:
                self.hypervisor.guest(operation, uuid, guests.ask_to_unplug, text, volume.path)
                ask_at = time.monotonic() + RETRY_S
            time.sleep(RELEASE_POLL)
        self.hypervisor.guest(operation, uuid, guests.undefine_device, text, volume.path)

    def swap_volume(self, context: RequestContext, instance: Instance, old: disk.Device, new: disk.Device) -> None:
        uuid, operation = instance.uuid, 'swap the volume'
        with self.hands.operation(uuid):
            guest = self.hands.known(uuid)
            volume = self._of(guest, old['volume_id']) or self._of(guest, new['volume_id'])
            if volume is None:
                raise exception.VirtError(operation=operation, reason='the guest does not have it')
            if old['volume_id'] == new['volume_id']:     # all but the end of it is recorded
                return
            if volume.volume_id == old['volume_id']:
                fresh = self._volume(instance, {**new, 'device_name': volume.target}, guest.machine, set())
                fresh.target, fresh.bus, fresh.boot_order = volume.target, volume.bus, volume.boot_order
                if volume.source.get('luks') or fresh.source.get('luks'):
                    raise exception.VirtError(operation=operation, reason=NO_COPY)
                if fresh.source.get('below'):
                    raise exception.VirtError(operation=operation, reason=NO_CHAIN)
                self._give(guest, operation, fresh)
                guest.volumes = [fresh if each is volume else each for each in guest.volumes]
                self.storage.save(guest)
            # from here on it is a repetition where a crash came after the record
            self.hypervisor.run(operation, guests.define, uuid, self.hands.described(guest))
            if old.get('connection_info'):
                self.connectors.disconnect(old['connection_info'])

    def rename_volume(self, context: RequestContext, instance: Instance, volume_id: str, stays: str) -> None:
        with self.hands.operation(instance.uuid):
            guest = self.hands.known(instance.uuid)
            volume = self._of(guest, volume_id)
            if volume is not None:
                volume.volume_id = stays
                self.storage.save(guest)
                self.hypervisor.run('rename the volume', guests.define, guest.uuid, self.hands.described(guest))

    def _give(self, guest: xml.Guest, operation: str, fresh: disk.Volume) -> None:
        """Let the guest use this Volume at its target, unless a crash came after it had it: libvirt knows. What it
        writes since would be lost with a second copy, or with the volume that is taken back.

        :raises VirtError: it still uses the other one
        """
        uuid, text = guest.uuid, xml.volume(fresh, guest)
        if self.hypervisor.guest(operation, uuid, operations.uses, fresh.target, text):
            return
        if not self.is_active(uuid):
            raise exception.VirtError(operation=operation, reason='the guest does not run')
        probe.check([fresh])
        self.define_secrets([fresh])
        with self.clients.plugging(uuid, fresh):
            self._mirror(uuid, operation, fresh, text)

    def _mirror(self, uuid: str, operation: str, fresh: disk.Volume, text: str) -> None:
        deadline = time.monotonic() + self.conf.libvirt.qemu_img_timeout
        self.hypervisor.guest(operation, uuid, operations.begin_swap, fresh.target, text)
        try:
            while (ready := self.hypervisor.guest(operation, uuid, operations.swap_ready, fresh.target)) is None:
                if time.monotonic() > deadline:
                    raise exception.VirtError(operation=operation, reason='the copy takes too long')
                time.sleep(POLL)
            if not ready:
                raise exception.VirtError(operation=operation, reason='the copy failed')
            self.hypervisor.guest(operation, uuid, operations.end_swap, fresh.target)
        except exception.VirtError:
            self.hypervisor.guest(operation, uuid, operations.abort_swap, fresh.target)
            raise

    def extend_volume(self, context: RequestContext, instance: Instance, device: disk.Device) -> None:
        with self.hands.operation(instance.uuid), contextlib.suppress(exception.GuestNotFound):
            volume = self._of(self.hands.known(instance.uuid), device['volume_id'])
            if volume is not None and volume.source.get('luks'):
                raise exception.VirtError(operation='extend the volume', reason='it is encrypted; the guest sees its '
                                          'new size after a stop and a start')
            if volume is not None and volume.source.get('connection'):
                self.connectors.extend(volume.source['connection'])
            if volume is not None:
                self.hypervisor.guest('extend the volume', instance.uuid, operations.resize, volume.target,
                                      device['volume_size'] * GIB)

    # ---- snapshots that the block storage cannot make by itself

    def copy_volume(self, context: RequestContext, instance: Instance, volume_id: str, create_info: dict[str, Any],
                    begun: Callable[[], None] | None = None) -> None:
        operation = 'copy the volume'
        with self.hands.operation(instance.uuid):
            guest = self.hands.known(instance.uuid)
            volume = self._of(guest, volume_id)
            if volume is None:
                raise exception.VirtError(operation=operation, reason='the guest does not have it')
            secret = volume.source.get('luks')
            if bool(secret) != bool(create_info.get('encrypted')):
                raise exception.VirtError(operation=operation, reason=NO_COPY)
            path = create_info['new_file']
            if self.is_active(instance.uuid):
                others = [each.target for each in [*guest.disks, *guest.volumes] if each.target != volume.target]
                text = disk.copy_of(volume.target, path, others, secret)
                self.define_volume_keys(instance.uuid, [volume])     # libvirt forgets them when it restarts
                if not self.copy_running(instance.uuid, text, operations.begin_copy, begun):
                    raise exception.VirtError(operation=operation, reason='the copy failed')
            elif volume.source['type'] == 'file' and not volume.source.get('format'):
                _copy(operation, volume.source['path'], path, 'raw' if secret else 'qcow2')
            else:
                raise exception.VirtError(operation=operation, reason='the guest does not run')

    @staticmethod
    def _of(guest: xml.Guest, volume_id: str) -> disk.Volume | None:
        return next((each for each in guest.volumes if each.volume_id == volume_id), None)


def _copy(operation: str, source: str, target: str, form: str) -> None:
    """Into a file that is there and stays its owner's. Its source is raw, or encrypted and taken as it is: qemu-img
    interprets no byte of it."""
    done = subprocess.run(['qemu-img', 'convert', '-n', '-f', 'raw', '-O', form, source, target],
                          stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        raise exception.VirtError(operation=operation, reason='there is no room, or the volume cannot be read')


def _attachment_of(volume: disk.Volume) -> str | None:
    """Id of the attachment of an exported volume; None of any other, whose source does not name it."""
    return volume.source.get('name') if volume.source.get('protocol') == 'nbd' else None
