"""Find the Ceph clients of a guest's QEMU, so that an evacuation can fence them (moves/fencing.py).

For each disk in Ceph, QEMU is a separate client with a random number in its address. Only Ceph knows this address, from
the watch that librbd sets when it opens an image. So the guest starts in the paused state, the driver reads the watches
from Ceph and records the clients, and then the guest runs.

An image that several guests may open (multiattach) has watches of several guests. For such an image, the clients of a
guest are the clients on this host that the guest's start added. Starts of such guests are serialized on this host.
"""
import collections.abc
import contextlib
import logging
import socket
import threading
import typing

from nova import exception
from nova.objects import disk_clients
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain.volume_disks import Volume
from nova.virt.libvirt.local_disks import pool as pools

LOG = logging.getLogger(__name__)

QUERY_TIMEOUT_S = 10                     # timeout of a Ceph query, which delays the start of a guest
Record = typing.Callable[[str, disk_clients.Images, bool], None]


class DiskClients:
    """Recorder of Ceph clients.

    :param ceph: connection to Ceph, for images of all pools
    """

    def __init__(self, ceph: pools.Pool) -> None:
        self._ceph = ceph
        self.record: Record = lambda _uuid, _images, _started: None
        self._shared = threading.Lock()

    def starting(self, guest: xml.Guest) -> contextlib.AbstractContextManager[None]:
        """Context manager: record the clients of a guest after the block, which starts the guest in the paused state.

        :raises NovaException: the clients were not recorded, so the guest must not run
        """
        return self._recording(guest.uuid, images_of(guest), True)

    def plugging(self, uuid: str, volume: Volume) -> contextlib.AbstractContextManager[None]:
        """Context manager: record the clients of a volume after the block, which attaches this volume to a guest.

        Before the block, the clients are recorded as unknown, because the guest may write as soon as it has the volume.
        """
        return self._plugging(uuid, images_of_volumes([volume]))

    def plugging_disk(self, uuid: str, disk: xml.Disk) -> contextlib.AbstractContextManager[None]:
        """Context manager: record the clients of a local disk, as ``plugging`` does for a volume."""
        return self._plugging(uuid, _local_images([disk]))

    @contextlib.contextmanager
    def _plugging(self, uuid: str, images: dict[str, bool]) -> collections.abc.Iterator[None]:
        if images:
            self.record(uuid, dict.fromkeys(images), False)
        with self._recording(uuid, images, False):
            yield

    @contextlib.contextmanager
    def _recording(self, uuid: str, images: dict[str, bool], started: bool) -> collections.abc.Iterator[None]:
        if not images:
            yield
            return
        shared = [image for image, several in images.items() if several]
        with self._shared if shared else contextlib.nullcontext():
            before = {image: self._watchers(image) for image in shared}
            yield
            found = self._found({image: several for image, several in images.items() if not several})
            for image in shared:
                found[image] = new_clients(before[image], self._watchers(image), is_local)
        self._warn(uuid, found)
        try:
            self.record(uuid, found, started)
        except exception.NovaException as error:
            if started:
                raise
            # the guest has the volume, but the clients remain unknown, so that an evacuation is refused
            LOG.warning('The clients of server %s are not recorded: %s', uuid, error)

    def look(self, guest: xml.Guest) -> disk_clients.Images:
        """Return {image: clients} of a running guest, with None for an image that several guests may open."""
        late = guest.rescued.hot_plugged if guest.rescued else []
        found = self._found({**images_of(guest), **_local_images(late)})
        self._warn(guest.uuid, found)
        return found

    def record_open(self, guest: xml.Guest) -> None:
        """Record the clients of a guest that has its disks open already, as ``look`` returns them.

        :raises NovaException: the clients were not recorded
        """
        if found := self.look(guest):
            self.record(guest.uuid, found, True)

    def _found(self, images: dict[str, bool]) -> disk_clients.Images:
        """Return {image: clients}, with None if several guests may open the image or Ceph reports no clients."""
        return {image: None if several else sorted(self._watchers(image) or ()) or None
                for image, several in images.items()}

    def _watchers(self, image: str) -> frozenset[str] | None:
        """Return the watchers of an image, or None if Ceph does not respond."""
        try:
            return frozenset(self._ceph.watchers(image, QUERY_TIMEOUT_S))
        except exception.VirtError as error:
            LOG.warning('The clients of image %s in Ceph are unknown: %s', image, error.kwargs.get('reason', error))
            return None

    @staticmethod
    def _warn(uuid: str, found: disk_clients.Images) -> None:
        unknown = sorted(image for image, addresses in found.items() if addresses is None)
        if unknown:
            LOG.warning('Server %s can only be evacuated if an operator accepts the risk of two writers, because the '
                        'Ceph clients of %s are unknown.', uuid, ', '.join(unknown))


def images_of(guest: xml.Guest) -> dict[str, bool]:
    """Return {pool/image of a disk that the guest may write: whether other guests may also write to this image}."""
    running = guest.booted()
    return {**_local_images(running.disks), **images_of_volumes(running.volumes)}


def _local_images(disks: collections.abc.Iterable[xml.Disk]) -> dict[str, bool]:
    return {name: False for disk in disks if (name := _image(disk))}


def images_of_volumes(volumes: collections.abc.Iterable[Volume]) -> dict[str, bool]:
    return {name: volume.shareable for volume in volumes if (name := _image(volume))}


def _image(disk: xml.Disk | Volume) -> str | None:
    """Return pool/image of a writable disk in Ceph, or None for other disks."""
    source = disk.source or {}
    return source['name'] if source.get('protocol') == 'rbd' and not disk.readonly else None


def new_clients(before: frozenset[str] | None, after: frozenset[str] | None,
                is_own: typing.Callable[[str], bool]) -> list[str] | None:
    """Return the clients that the start of a guest added to an image, or None if they are unknown.

    :param before: clients before the start, or None if unknown
    :param after: clients after the start, or None if unknown
    :param is_own: function that returns whether an address belongs to this host
    """
    if before is None or after is None:
        return None
    return sorted(address for address in after - before if is_own(address)) or None


def is_local(client: str) -> bool:
    """Return whether a client (address:port/number) is on this host: a socket can be bound only to a local address."""
    address = client.rpartition('/')[0].rpartition(':')[0].strip('[]')
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
