"""Find the Ceph clients of a guest's QEMU, so that an evacuation can fence them (moves/fencing.py).

Each disk that QEMU opens in Ceph is a separate client. A random part of its address is known only to Ceph, through the
watch that librbd sets when it opens an image. So the guest starts paused, the driver queries Ceph and records the
clients, and then the guest runs.

An image that several guests may open (multiattach) has the watches of all of them. The clients of this guest are the
ones added by its start that have an address of this host. Starts of such guests are serialized.
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

QUERY_TIMEOUT_S = 10                     # timeout of a Ceph query, during which the start of a guest waits
Record = typing.Callable[[str, disk_clients.Images, bool], None]


class DiskClients:
    """Recorder of Ceph clients.

    :param ceph: Ceph access of this host, for any pool
    """

    def __init__(self, ceph: pools.Pool) -> None:
        self._ceph = ceph
        self.record: Record = lambda _uuid, _images, _started: None
        self._shared = threading.Lock()

    def starting(self, guest: xml.Guest) -> contextlib.AbstractContextManager[None]:
        """Record the clients of a guest after the block has started it paused.

        :raises NovaException: the clients were not recorded, so the guest must not run
        """
        return self._recording(guest.uuid, images_of(guest), True)

    def plugging(self, uuid: str, volume: Volume) -> contextlib.AbstractContextManager[None]:
        """Record the clients of a volume that the block attaches to a running guest.

        The guest may write immediately, so its clients count as unknown until they are recorded.
        """
        return self._plugging(uuid, images_of_volumes([volume]))

    def plugging_disk(self, uuid: str, disk: xml.Disk) -> contextlib.AbstractContextManager[None]:
        """Record the clients of a local disk that the block attaches to a running guest."""
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
            # the guest has the volume, but its clients stay unknown, so an evacuation is refused
            LOG.warning('The clients of server %s are not recorded: %s', uuid, error)

    def look(self, guest: xml.Guest) -> disk_clients.Images:
        """Return the clients of a running guest; clients of an image shared by several guests cannot be distinguished.
        """
        late = guest.rescued.hot_plugged if guest.rescued else []
        found = self._found({**images_of(guest), **_local_images(late)})
        self._warn(guest.uuid, found)
        return found

    def _found(self, images: dict[str, bool]) -> disk_clients.Images:
        """Return the client of each image; None if there are several or Ceph reports none."""
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
            LOG.warning('Server %s cannot be evacuated without an operator who accepts two writers: the clients of %s '
                        'are unknown.', uuid, ', '.join(unknown))


def images_of(guest: xml.Guest) -> dict[str, bool]:
    """Return {pool/image that the guest may write to: whether other guests may write too}."""
    running = guest.booted()
    return {**_local_images(running.disks), **images_of_volumes(running.volumes)}


def _local_images(disks: collections.abc.Iterable[xml.Disk]) -> dict[str, bool]:
    return {name: False for disk in disks if (name := _image(disk))}


def images_of_volumes(volumes: collections.abc.Iterable[Volume]) -> dict[str, bool]:
    return {name: volume.shareable for volume in volumes if (name := _image(volume))}


def _image(disk: xml.Disk | Volume) -> str | None:
    """Return pool/image of a writable disk in Ceph, or None."""
    source = disk.source or {}
    return source['name'] if source.get('protocol') == 'rbd' and not disk.readonly else None


def new_clients(before: frozenset[str] | None, after: frozenset[str] | None,
                is_own: typing.Callable[[str], bool]) -> list[str] | None:
    """Return the clients that a start added to an image, or None if they cannot be distinguished.

    :param before: clients before the start; None: unknown
    :param is_own: whether an address belongs to this host
    """
    if before is None or after is None:
        return None
    return sorted(address for address in after - before if is_own(address)) or None


def is_local(client: str) -> bool:
    """Return whether a client address (address:port/number) belongs to this host, by binding a socket to it."""
    address = client.rpartition('/')[0].rpartition(':')[0].strip('[]')
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
