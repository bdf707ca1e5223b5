"""Disks as images of a Ceph pool.

    <uuid>_disk, <uuid>_disk.config …   disks of guests, each named after its file path
    <uuid>_disk@resize                  state before a resize
    <uuid>_disk@copy                    state at the start of a server snapshot, during its copy
    <uuid>_record                       record of the owner, without content (owners.py)
    image_<image id>@base               an image, shared by all hosts; root disks are clones of it
    image_<image id>.<host>.part        an import in progress

``rbd import`` creates images from files. Untrusted formats are first converted to raw in the sandbox.
"""
import datetime
import errno
import logging
import os
import time
import typing

import libvirt
from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.disk_files import files
from nova.disk_files.qemu_img import Tool
from nova.runtime import disk_space
from nova.runtime import progress
from nova.virt.libvirt import calls
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain.volume_disks import DiskSource
from nova.virt.libvirt.local_disks import base as places
from nova.virt.libvirt.local_disks import image_cache
from nova.virt.libvirt.local_disks import pool as pools

LOG = logging.getLogger(__name__)

BASE, PUT_ASIDE, MOMENT = 'base', 'resize', 'copy'       # names of snapshots
IMAGE, PART = 'image_', '.part'
RECORD, NOTE = '_record', 'nova'         # suffix of the image with the owner record, and its metadata key
CACHE = 'writeback'                      # cache mode of librbd; QEMU passes the flushes of a guest to librbd
COPY = 'disk.copy'                       # temporary file in the guest's directory during a copy
LOGIN = 'use Ceph'                       # name of the operation in errors of Ceph's authentication
CONVERTED = 50                          # progress in percent after the conversion to raw, before the import


class Rbd(places.SharedPlace):
    """Storage backend of a Ceph pool.

    :param host: name of this host
    :param auth: {'username', 'uuid'} of libvirt's secret; None: no authentication
    :param cache: QEMU's cache mode
    :param max_age: seconds after which an unused image in the pool may be removed
    :param reserve: nova.runtime.disk_space.Reserve: space that files must leave free on this host
    """

    pooled = True

    def __init__(self, pool: pools.Pool, qemu_img: Tool, host: str | None, auth: dict[str, str] | None,
                 cache: str, max_age: float, reserve: disk_space.Reserve = disk_space.Reserve()) -> None:
        self._reserve = reserve
        self._pool, self._qemu_img, self._auth = pool, qemu_img, auth
        self.cache, self._max_age = cache, max_age
        self._part = f'.{host}{PART}'
        self._monitors: list[list[typing.Any]] = []

    @classmethod
    def configured(cls, conf: ConfigOpts, directory: str, qemu_img: Tool, host: str) -> typing.Self:
        options = conf.libvirt
        return cls(pools.configured(options), qemu_img, host, login_of(options),
                   options.disk_cachemodes.get('network', CACHE), options.remove_unused_base_images_after,
                   disk_space.reserve_of(conf))

    def check_hypervisor(self, hypervisor: places.Hypervisor) -> None:
        if self._auth:
            _check_secret(self._auth['uuid'], hypervisor)

    def prepare(self) -> None:
        self._monitors = self._pool.monitors()
        for name in self._pool.images():
            if name.startswith(IMAGE) and name.endswith(self._part):
                self._remove_image(name)

    # ---- disks ----

    def from_image(self, path: str, image_id: str, image: image_cache.Base, size: int, target: str,
                   bus: str, report: progress.Report = progress.ignore) -> xml.Disk:
        snapshot, name = f'{IMAGE}{image_id}@{BASE}', name_of(path)
        if not self._clone(snapshot, name):
            self._bring(image_id, image, path, progress.part(report, 0, CONVERTED))
            if not self._clone(snapshot, name):
                raise exception.VirtError(operation='make a disk', reason='the image was removed from the pool')
        if size > image.virtual_size:
            self._pool.rbd('resize a disk', 'resize', '--no-progress', '--size', f'{size}B', name)
        return self._disk(path, target, bus)

    def _clone(self, snapshot: str, image: str) -> bool:
        return self._pool.try_rbd(errno.ENOENT, 'make a disk', 'clone', snapshot, f'{self._pool.name}/{image}')

    def _bring(self, image_id: str, image: image_cache.Base, path: str, report: progress.Report) -> None:
        """Import an image into the pool; another host may import it concurrently.

        :param path: path of a temporary file
        :param report: called with the progress of that file
        """
        name = f'{IMAGE}{image_id}'
        part = name + self._part
        try:
            source = image.path
            if image.format != 'raw':
                size = self._qemu_img.measure(image.path, image.format)
                with self._reserve.claimed(os.path.dirname(path), size, path), progress.watched(
                        path, [image.path], report):
                    self._qemu_img.convert(image.path, image.format, path, 'raw')
                source = path
            self._remove_image(part)     # left by an interrupted attempt
            self._import(source, part)
            self._pool.rbd('keep an image', 'snap', 'create', '--no-progress', f'{part}@{BASE}')
            self._pool.rbd('keep an image', 'snap', 'protect', f'{part}@{BASE}')
            if not self._pool.try_rbd(errno.EEXIST, 'keep an image', 'rename', part, f'{self._pool.name}/{name}'):
                self._remove_image(part)
        finally:
            if path != image.path:
                files.remove(path)

    def from_file(self, path: str, target: str, bus: str, readonly: bool = False) -> xml.Disk:
        try:
            self._import(path, name_of(path))
        finally:
            files.remove(path)
        return self._disk(path, target, bus, readonly)

    def _import(self, path: str, image: str) -> None:
        self._pool.rbd('import a disk into the pool', 'import', '--no-progress', path,
                       f'{self._pool.name}/{image}', data=True)

    def _disk(self, path: str, target: str, bus: str, readonly: bool = False) -> xml.Disk:
        return xml.Disk(path, 'raw', target, bus, readonly=readonly, cache=self.cache, source=self.source(path))

    def source(self, path: str) -> DiskSource:
        """Return the DiskSource of a disk, with the monitors and the login that this host is configured to use."""
        made: DiskSource = {'type': 'network', 'protocol': 'rbd', 'hosts': self._monitors,
                        'name': f'{self._pool.name}/{name_of(path)}'}
        if self._auth:
            made['auth'] = {**self._auth, 'type': 'ceph'}
        return made

    def remove(self, path: str) -> None:
        self._pool.remove(name_of(path))

    def erase(self, uuid: str, kept: typing.Collection[str] = ()) -> None:
        for name in self.disks_of(uuid):
            if name.partition('_')[2] not in kept:
                self._pool.remove(name)
        if not kept:                     # removed last, so that every remaining image has a record of its owner
            self._pool.remove(uuid + RECORD)

    def disks_of(self, uuid: str) -> list[str]:
        """Return the names of a guest's disk images in the pool."""
        return [name for name in self._pool.images() if name.startswith(f'{uuid}_') and name != uuid + RECORD]

    def images_of(self, uuid: str) -> list[str]:
        return [f'{self._pool.name}/{name}' for name in self.disks_of(uuid)]

    def note(self, uuid: str) -> str | None:
        return self._pool.metadata(uuid + RECORD, NOTE)

    def put_note(self, uuid: str, text: str) -> None:
        self._pool.try_rbd(errno.EEXIST, 'record the owner of the disks', 'create', '--size', '1M', uuid + RECORD)
        self._pool.rbd('record the owner of the disks', 'image-meta', 'set', uuid + RECORD, NOTE, text)

    def check_new(self, uuid: str) -> None:
        if self.disks_of(uuid):
            raise exception.VirtError(operation='make the disks', reason=(
                f'the pool {self._pool.name} already has disks of this server, but neither this host nor the pool has '
                'its record; only hosts that share the directory of the guests may take the server over'))

    def size(self, disk: xml.Disk) -> int:
        found = self._pool.info(name_of(disk.file))
        if found is None:
            raise exception.VirtError(operation='look at a disk', reason='the pool does not have it')
        return found['size']

    def grow(self, disk: xml.Disk, size: int) -> None:
        if not disk.keeps_size and size > self.size(disk):
            self._pool.rbd('resize a disk', 'resize', '--no-progress', '--size', f'{size}B', name_of(disk.file))

    def keep_moment(self, disk: xml.Disk) -> None:
        name = f'{name_of(disk.file)}@{MOMENT}'
        if not self._pool.try_rbd(errno.EEXIST, 'copy a disk', 'snap', 'create', '--no-progress', name):
            self.forget_moment(disk)     # left by a crashed copy
            self._pool.rbd('copy a disk', 'snap', 'create', '--no-progress', name)

    def forget_moment(self, disk: xml.Disk) -> None:
        self._pool.try_rbd(errno.ENOENT, 'copy a disk', 'snap', 'rm', '--no-progress',
                           f'{name_of(disk.file)}@{MOMENT}', data=True)

    def copy_moment(self, disk: xml.Disk, path: str) -> None:
        self._copy(disk, f'@{MOMENT}', path)

    def copy(self, disk: xml.Disk, path: str) -> None:
        self._copy(disk, '', path)

    def _copy(self, disk: xml.Disk, snapshot: str, path: str) -> None:
        """Copy a disk or a snapshot (@name) to a qcow2 file; unallocated data and zeros take no space.

        :raises InsufficientStorage: there is no space on this host
        """
        directory, name = os.path.dirname(disk.file), name_of(disk.file)
        part = os.path.join(directory, COPY)
        files.remove(part)
        try:
            with self._reserve.claimed(directory, self._pool.most_exported(name), part):
                self._pool.rbd('copy a disk', 'export', '--no-progress', name + snapshot, part, data=True)
            with self._reserve.claimed(directory, self._qemu_img.measure(part, 'raw'), path):
                self._qemu_img.convert(part, 'raw', path, 'qcow2')
        finally:
            files.remove(part)

    # ---- resize: a snapshot has the state before the resize ----

    def renew(self, disk: xml.Disk, source: str) -> None:
        name = f'{name_of(disk.file)}@{PUT_ASIDE}'
        if not self._pool.try_rbd(errno.EEXIST, 'take a snapshot of a disk', 'snap', 'create', '--no-progress', name):
            self.restore(disk)           # undo writes since the snapshot of an interrupted attempt

    def restore(self, disk: xml.Disk) -> None:
        self._pool.try_rbd(errno.ENOENT, 'roll back a disk', 'snap', 'rollback', '--no-progress',
                           f'{name_of(disk.file)}@{PUT_ASIDE}', data=True)

    def release(self, disk: xml.Disk) -> None:
        self._pool.try_rbd(errno.ENOENT, 'delete the snapshot of a disk', 'snap', 'rm', '--no-progress',
                           f'{name_of(disk.file)}@{PUT_ASIDE}', data=True)

    # ---- the pool ----

    def room(self) -> places.Room:
        stored, free = self._pool.room()
        return places.Room(stored + free, free)

    def remove_unused(self) -> None:
        try:
            for name in self._pool.images():
                if name.startswith(IMAGE) and self._is_old(name):    # also removes incomplete imports of failed hosts
                    self._remove_image(name)
        except pools.Failed as error:    # another host may remove the same image
            LOG.warning('Cannot remove unused images from the pool: %s', error)

    def _is_old(self, name: str) -> bool:
        found = self._pool.info(name)
        return found is not None and time.time() - made_at(found) > self._max_age

    def _remove_image(self, name: str) -> None:
        """Remove an image from the pool, unless disks are clones of it."""
        snapshot = f'{name}@{BASE}'
        try:
            if self._pool.info(snapshot) is not None:
                if self._pool.rbd('look for clones', 'children', snapshot).strip():
                    return
                self._pool.try_rbd(errno.EINVAL, 'remove an image', 'snap', 'unprotect', snapshot)
            self._pool.remove(name)
        except pools.Failed as error:
            LOG.info('The image %s stays in the pool: %s', name, error)
        else:
            LOG.info('Removed the image %s from the pool: unused.', name)


def name_of(path: str) -> str:
    """Return the name that a disk with this path has in the pool."""
    return f'{os.path.basename(os.path.dirname(path))}_{os.path.basename(path)}'


def made_at(info: pools.ImageInfo) -> float:
    """Return the creation time in seconds since 1970."""
    return datetime.datetime.strptime(info['create_timestamp'], '%a %b %d %H:%M:%S %Y').timestamp()


def login_of(options: ConfigOpts.GroupAttr) -> dict[str, str] | None:
    """Return {'username', 'uuid' of the libvirt secret}, or None without Ceph authentication.

    :raises VirtError: the user has no secret
    """
    if bool(options.rbd_user) != bool(options.rbd_secret_uuid):
        raise exception.VirtError(operation=LOGIN, reason='[libvirt] rbd_user and rbd_secret_uuid must be set together')
    return {'username': options.rbd_user, 'uuid': options.rbd_secret_uuid.lower()} if options.rbd_user else None


def _check_secret(uuid: str, hypervisor: places.Hypervisor) -> None:
    """Check that libvirt has a secret.

    :raises VirtError: libvirt does not know the secret
    """
    if not hypervisor.run('find the secret of Ceph', _has_secret, uuid):
        raise exception.VirtError(operation=LOGIN, reason='libvirt has no secret with the id in [libvirt] '
                                  'rbd_secret_uuid; create it with virsh secret-define and secret-set-value')


def _has_secret(connection: libvirt.virConnect, uuid: str) -> bool:
    with calls.suppressed(libvirt.VIR_ERR_NO_SECRET):
        connection.secretLookupByUUIDString(uuid)
        return True
    return False
