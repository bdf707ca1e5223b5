"""Connections of volumes to this host, and their secrets in libvirt."""
import contextlib
from collections.abc import Callable, Iterable, Sequence

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


class VolumeConnections:
    """Connects and disconnects the volumes of guests.

    :param key: function(server uuid, volume id) -> passphrase of an encrypted volume; raises VirtError
    """

    def __init__(self, conf: cfg.ConfigOpts, storage: Storage, hypervisor: Host, connectors: Connectors,
                 key: Callable[[str, str], str]) -> None:
        self._conf, self._storage, self._hypervisor = conf, storage, hypervisor
        self._connectors, self._key = connectors, key

    def connect_all(self, instance: Instance, devices: Iterable[BlockDevice], machine: str, disks: Sequence[Disk],
                    known: Sequence[disk.Volume] = ()) -> list[disk.Volume]:
        """Connect the volumes in the block devices of a guest.

        :param disks: local disks of the guest, which also get cache modes and I/O threads
        :param known: previous Volumes of the guest, which keep their targets
        :raises VirtError: this host does not reach one of the volumes
        """
        made, taken = [], {each.target for each in disks}
        kept = {each.volume_id: each.target for each in known}
        for device in devices:
            if is_volume(device):
                wanted = kept.get(device['volume_id']) or device.get('device_name')
                made.append(self.connect(instance, {**device, 'device_name': wanted}, machine, taken))
                taken.add(made[-1].target)
        choices = self._choices()
        for local in disks:
            if local.source is None and not local.readonly:
                local.cache = choices.cache['file']
        disk.spread([*disks, *made], self._conf.libvirt.io_threads, choices)
        return made

    def connect(self, instance: Instance, device: VolumeDevice, machine: str, taken: set[str]) -> disk.Volume:
        """Connect one volume.

        :param taken: targets of the guest's other disks
        :raises VirtError: this host does not reach the volume
        """
        source = self._connectors.connect(device['connection_info'])
        if source.pop('encrypted', False):
            source['luks'] = device['volume_id']         # id of the libvirt secret
        return disk.volume(device, source, instance.image_properties or {}, machine, taken, self._choices())

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

    def disconnect(self, volumes: Iterable[disk.Volume]) -> None:
        """Disconnect volumes that no guest of this host uses."""
        for volume in volumes:
            if volume.source.get('luks'):
                with contextlib.suppress(exception.HypervisorUnreachable):      # a stopped libvirt has lost the secret
                    self._hypervisor.run('forget a key', operations.forget_passphrase, '', volume.volume_id)
            if volume.source.get('connection'):      # QEMU, not the host, connects a volume without this key
                self._connectors.disconnect(volume.source['connection'])
