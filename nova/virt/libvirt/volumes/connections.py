"""Connections of volumes to this host, and their secrets in libvirt."""
import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Sequence

from oslo_config import cfg

from nova import exception
from nova.objects.block_device import BlockDevice
from nova.objects.block_device import is_volume
from nova.objects.block_device import VolumeDevice
from nova.objects.instance import Instance
from nova.virt.libvirt.domain import volume_disks as disk
from nova.virt.libvirt.host import Host
from nova.virt.libvirt.local_disks.storage import Storage
from nova.virt.libvirt.volumes import operations
from nova.virt.libvirt.volumes.connectors import Connectors
from nova.virt.libvirt.xml import Disk
from nova.virt.libvirt.xml import Guest


LOG = logging.getLogger(__name__)


class VolumeConnections:
    """Connects and disconnects the volumes of guests.

    :param key: function(server uuid, volume id) -> passphrase of an encrypted volume; raises VirtError
    :param incoming: function that returns the guests whose live migration to this host has not ended
    """

    def __init__(self, conf: cfg.ConfigOpts, storage: Storage, hypervisor: Host, connectors: Connectors,
                 key: Callable[[str, str], str], incoming: Callable[[], list[Guest]] = list) -> None:
        self._conf, self._storage, self._hypervisor = conf, storage, hypervisor
        self._connectors, self._key, self._incoming = connectors, key, incoming
        self._leaving = threading.Lock()
        self._users: set[tuple[str, str]] = set()        # {(volume id, server uuid)}, also before a record names them

    def connect_all(self, instance: Instance, devices: Iterable[BlockDevice], machine: str, disks: Sequence[Disk],
                    known: Sequence[disk.Volume] = ()) -> list[disk.Volume]:
        """Connect the volumes in the block devices of a guest.

        :param disks: local disks of the guest, which also get cache modes and I/O threads
        :param known: previous Volumes of the guest, which keep their targets
        :raises VirtError: this host does not reach one of the volumes; none is connected, except those in the guest's
            record
        """
        made: list[disk.Volume] = []
        taken = {each.target for each in disks}
        kept = {each.volume_id: each.target for each in known}
        try:
            for device in devices:
                if is_volume(device):
                    wanted = kept.get(device['volume_id']) or device.get('device_name')
                    made.append(self.connect(instance, {**device, 'device_name': wanted}, machine, taken))
                    taken.add(made[-1].target)
        except Exception:
            self._take_back_new(instance.uuid, made)
            raise
        choices = self._choices()
        for local in disks:
            if local.source is None and not local.readonly:
                local.cache = choices.cache['file']
        disk.spread([*disks, *made], self._conf.libvirt.io_threads, choices)
        return made

    def connect(self, instance: Instance, device: VolumeDevice, machine: str, taken: set[str]) -> disk.Volume:
        """Connect one volume.

        :param taken: targets of the guest's other disks
        :raises VirtError: this host does not reach the volume; it is not connected
        """
        user = device['volume_id'], instance.uuid
        with self._leaving:              # else another guest, which loses the volume now, would remove its device
            self._users.add(user)
        try:
            source = self._connectors.connect(device['connection_info'])
        except Exception:
            self._users.discard(user)
            raise
        if source.pop('encrypted', False):
            source['luks'] = device['volume_id']         # id of the libvirt secret
        try:
            return disk.volume(device, source, instance.image_properties or {}, machine, taken, self._choices())
        except Exception:
            self._take_back_new(instance.uuid, [disk.Volume(device['volume_id'], '', '', source)])
            raise

    def reconnect(self, volumes: Iterable[disk.Volume]) -> list[disk.Volume]:
        """Connect volumes of a guest again that the host's kernel attaches, and set their present device names.

        The kernel loses the connections at a boot, and may give the name of a device to another volume.

        :returns: the volumes that were connected; the caller saves the record
        :raises VirtError: this host does not reach one of the volumes
        """
        found = [each for each in volumes if each.source.get('connection') and each.source['type'] == 'block']
        for volume in found:
            fresh = self._connectors.connect(volume.source['connection'])
            volume.source.update({'path': fresh['path'], 'connection': fresh['connection']})
        return found

    def _choices(self) -> disk.Choices:
        options = self._conf.libvirt
        cache = {'file': self._storage.backends.files.cache, 'block': 'none', 'network': 'writeback',
                 **options.disk_cachemodes}
        return disk.Choices(cache, options.detect_zeroes)

    def define_secrets(self, volumes: Iterable[disk.Volume]) -> None:
        """Define libvirt's secrets for authentication to storage servers, which libvirt loses when it restarts."""
        for volume in volumes:
            if volume.source.get('secret'):
                self._hypervisor.run('keep a secret', operations.define_secret, '', volume.source['auth'],
                                     volume.source['secret'])

    def define_keys(self, uuid: str, volumes: Iterable[disk.Volume]) -> None:
        """Define the passphrases of a guest's encrypted volumes in libvirt, which loses them when it restarts."""
        for volume in volumes:
            if volume.source.get('luks'):
                self._hypervisor.run('keep a key', operations.define_passphrase, uuid, volume.volume_id,
                                     self._key(uuid, volume.volume_id))

    def disconnect(self, uuid: str, volumes: Collection[disk.Volume],
                   forget: Callable[[], None] | None = None) -> None:
        """Disconnect volumes that a guest does not use anymore, except volumes of other guests of this host.

        :param uuid: uuid of the guest
        :param forget: function that removes the volumes from the guest's record, called after they are disconnected
        :raises VirtError: a volume remains connected, and ``forget`` was not called; the others are disconnected
        """
        if not volumes:                  # most guests: need neither the lock nor the records of all guests
            self._users.difference_update({each for each in self._users.copy() if each[1] == uuid})
            if forget is not None:
                forget()
            return
        with self._leaving:              # else two guests that lose a volume at once would leave it to each other
            self._disconnect(uuid, volumes)
            if forget is not None:
                forget()

    def take_back(self, uuid: str, volumes: Collection[disk.Volume]) -> None:
        """Like ``disconnect``, but errors are only logged: the caller has another error, or its work is done."""
        with contextlib.suppress(exception.VirtError):
            self.disconnect(uuid, volumes)

    def _take_back_new(self, uuid: str, volumes: Iterable[disk.Volume]) -> None:
        """Like ``take_back``, but keep the volumes in this host's record of the guest, which may run."""
        recorded = {each.volume_id for guest in self._storage.guests() if guest.uuid == uuid for each in guest.volumes}
        self.take_back(uuid, [each for each in volumes if each.volume_id not in recorded])

    def _disconnect(self, uuid: str, volumes: Collection[disk.Volume]) -> None:
        guests = [*self._storage.guests(), *self._incoming()]
        left, has_record = {each.volume_id for each in volumes}, any(guest.uuid == uuid for guest in guests)
        users = self._users.copy()
        self._users.difference_update({each for each in users if each[1] == uuid
                                       and (each[0] in left or not has_record)})
        used = {each.volume_id for guest in guests if guest.uuid != uuid for each in guest.volumes}
        used |= {volume_id for volume_id, user in users if user != uuid}
        errors = []
        for volume in volumes:
            if volume.volume_id in used:         # a multiattach volume, which has one device on this host
                continue
            try:
                self._remove(volume)
            except exception.VirtError as error:
                LOG.error('Volume %s of guest %s remains connected to this host: %s', volume.volume_id, uuid, error)
                errors.append(error)
        if errors:
            raise errors[0]

    def _remove(self, volume: disk.Volume) -> None:
        if volume.source.get('luks'):
            with contextlib.suppress(exception.HypervisorUnreachable):      # a stopped libvirt has lost the secret
                self._hypervisor.run('forget a key', operations.forget_passphrase, '', volume.volume_id)
        if volume.source.get('connection'):      # else QEMU connects the volume, not the host
            self._connectors.disconnect(volume.source['connection'])
