"""Image cache of this host: images are downloaded once, checked before any tool reads them, and removed after disuse.

An image in a format of other hypervisors (``qemu_img.FOREIGN``) is converted to qcow2 once.

A cached image is ``<directory>/<image id>.<format>`` with the checked format. The file gets this name after the check,
so a file of this name is complete and valid. Guests share cached images. So cached images are read-only, and QEMU's
user does not own them: a compromised QEMU cannot change the disks of other guests.
"""
import dataclasses
import logging
import os
import re
import stat
import struct
import time
from collections.abc import Callable, Collection
from typing import Any

from nova import exception
from nova.context import RequestContext
from nova.disk_files import files
from nova.disk_files import qemu_img
from nova.objects.image import Image
from nova.runtime import concurrency
from nova.runtime import disk_space
from nova.runtime import durable_files
from nova.runtime import progress
from nova.virt import driver
from nova.virt import image_signatures

LOG = logging.getLogger(__name__)

# {disk_format of an image: format of the file in the cache}
FORMATS = {'raw': 'raw', 'qcow2': 'qcow2', 'iso': 'raw', 'ami': 'raw', 'aki': 'raw', 'ari': 'raw',
           **dict.fromkeys(qemu_img.FOREIGN, 'qcow2')}
ISO = 'iso'                              # disk format of a CD-ROM image
IMAGE_ID = re.compile(r'[0-9A-Za-z][0-9A-Za-z_-]{0,63}\Z')
MODE = 0o640                             # mode of a downloaded file until the checks are complete
BASE_MODE = 0o444  # mode of a cached image: QEMU's user may read it, and no process writes it
SCRATCH = ('.part', '.lock')

QCOW2_DATA_FILE = 1 << 2                 # incompatible feature bit 2, docs/interop/qcow2.rst of QEMU


@dataclasses.dataclass(frozen=True)
class Base:
    path: str
    format: str
    virtual_size: int                    # bytes


class ImageCache:
    """Cache of checked images.

    :param directory: directory of the cached images
    :param inspect: called with (path, disk format) after a download; raises if the image must not be used
    :param max_age: seconds after which an unused image is removed
    :param verify: called with (context, image, path) before each use of a file; raises on an invalid signature
    :param reserve: nova.runtime.disk_space.Reserve: free space that downloads must leave
    """

    def __init__(self, directory: str, images: driver.ImageSource, qemu_img: qemu_img.Tool,
                 inspect: Callable[[str, str], None] | None, max_age: float,
                 verify: Callable[[Any, Image, str], None] | None = None,
                 reserve: disk_space.Reserve = disk_space.Reserve()) -> None:
        self._reserve = reserve
        self._directory, self._images, self._qemu_img = directory, images, qemu_img
        self._inspect, self._max_age, self._verify = inspect, max_age, verify

    def fetch(self, context: RequestContext, image: Image,
              report: progress.Report = progress.ignore, most_bytes: int | None = None) -> Base:
        """Return the Base of an image, downloading it if necessary.

        :param context: context of the task, for the ImageSource
        :param image: dict as returned by ImageSource.show
        :param report: called with the progress of the download
        :param most_bytes: limit of the resulting disk; None: unlimited
        :raises ImageUnacceptable: the image's format is unsupported or differs from the data, or the disk is too large
        :raises InsufficientStorage: there is no space for the image
        """
        image_id, disk_format = image['id'], image.get('disk_format')
        if not IMAGE_ID.match(image_id):
            raise exception.ImageUnacceptable(image_id='', reason='its id is not valid')
        if disk_format not in FORMATS:
            raise exception.ImageUnacceptable(image_id=image_id,
                                              reason=f'disk format {disk_format} is not supported by this host')
        path = os.path.join(self._directory, f'{image_id}.{FORMATS[disk_format]}')
        with files.lock(path + '.lock'):
            # the signature covers the downloaded data, not the converted image
            again = disk_format in qemu_img.FOREIGN and self._verify and image_signatures.is_signed(image)
            if again or not os.path.exists(path):
                self._download(context, image, path, report, most_bytes)
            elif self._verify:           # verify again: the user who fetched the image may trust other certificates
                self._verify(context, image, path)
            protect(path)
            os.utime(path)               # last use, for remove_unused
        base = Base(path, FORMATS[disk_format], virtual_size(path, FORMATS[disk_format]))
        check_size(image_id, base.virtual_size, most_bytes)
        return base

    def cache_image(self, context: RequestContext, image_id: str) -> None:
        """Fetch an image before a guest needs it; see driver.ImageCache."""
        self.fetch(context, self._images.show(context, image_id))

    def has(self, context: RequestContext, path: str) -> bool:
        """Try to fetch an image, and return whether the cache has the image at ``path``."""
        image_id = os.path.basename(path).rpartition('.')[0]
        try:
            found = self.fetch(context, self._images.show(context, image_id))
        except exception.NovaException as error:
            LOG.info('Image %s is unavailable (%s); the disk is copied with the image data that it uses.', image_id,
                     error)
            return False
        return found.path == path

    def _download(self, context: RequestContext, image: Image, path: str, report: progress.Report,
                  most_bytes: int | None) -> None:
        image_id, disk_format = image['id'], str(image['disk_format'])
        part = converted = path + '.part'
        if disk_format in qemu_img.FOREIGN:
            part = os.path.join(self._directory, f'{image_id}.{disk_format}.part')
        for left in (part, converted):   # left by a crashed download
            files.remove(left)
        try:
            # ``part`` exists only at the end of the download: until then the image source writes to another file
            with self._reserve.claimed(self._directory, image.get('size') or 0, part):
                self._images.download(context, image_id, part, progress.of_bytes(report, image.get('size')))
            os.chmod(part, MODE)
            if self._verify:
                self._verify(context, image, part)
            self._check(image_id, disk_format, part)
            if disk_format in qemu_img.FOREIGN:
                self._convert(image_id, disk_format, part, converted, most_bytes)
                files.remove(part)
                part = converted
            protect(part)
            concurrency.blocking(durable_files.commit, part, path)
        finally:
            files.remove(part)
            files.remove(converted)

    def _convert(self, image_id: str, disk_format: str, source: str, target: str, most_bytes: int | None) -> None:
        """Convert a checked image to a qcow2 file.

        qemu-img runs in its sandbox. Its time, the size of the disk and the space for the data are limited.
        """
        check_size(image_id, int(self._qemu_img.info(source, disk_format)['virtual-size']), most_bytes)
        with self._reserve.claimed(self._directory, self._qemu_img.measure(source, disk_format), target):
            try:
                self._qemu_img.convert(source, disk_format, target, 'qcow2')
            except exception.VirtError as error:
                LOG.warning('Image %s of the format %s is not converted: %s', image_id, disk_format, error)
                raise exception.ImageUnacceptable(
                    image_id=image_id, reason=f'it cannot be converted from {disk_format} to qcow2') from error

    def _check(self, image_id: str, disk_format: str, path: str) -> None:
        reason = header_refusal(path, disk_format)
        if not reason and self._inspect:
            self._inspect(path, disk_format)
        if not reason:
            reason = self._tool_refusal(path, disk_format if disk_format in qemu_img.FOREIGN else FORMATS[disk_format])
        if reason:
            raise exception.ImageUnacceptable(image_id=image_id, reason=reason)

    def _tool_refusal(self, path: str, disk_format: str) -> str | None:
        """Return why qemu-img rejects the image, as a second check; None if it accepts the image."""
        try:
            info = self._qemu_img.info(path, disk_format)
        except exception.VirtError as error:
            LOG.warning('qemu-img refuses an image: %s', error)
            return f'it cannot be read as {disk_format}'
        data = info.get('format-specific', {}).get('data', {})
        if info.get('backing-filename') or info.get('full-backing-filename'):
            return 'it has a backing file'
        if data.get('data-file'):
            return 'it has an external data file'
        return 'it is encrypted' if info.get('encrypted') else None

    def remove_unused(self, in_use: Collection[str | None]) -> None:
        """Remove images that no guest uses and that were not requested recently.

        :param in_use: set of paths that guests' disks refer to
        """
        oldest = time.time() - self._max_age
        for entry in list(os.scandir(self._directory)):
            if entry.name.endswith(SCRATCH) or entry.path in in_use or entry.stat().st_mtime > oldest:
                continue
            with files.lock(entry.path + '.lock', wait=False) as held:
                if held and os.stat(entry.path).st_mtime <= oldest:
                    LOG.info('Removing the cached image %s: unused.', entry.name)
                    files.remove(entry.path)
                    files.remove(entry.path + '.lock')

    def clean(self) -> None:
        """Remove incomplete downloads of processes that have ended, and lock files without an image."""
        found = sorted(entry.name for entry in os.scandir(self._directory))
        for name in found:
            if name.endswith('.part'):
                # a download has several .part files; the lock of the cached image covers all of them
                image_id, _dot, disk_format = name.partition('.part')[0].rpartition('.')
                kept = FORMATS.get(disk_format, disk_format)
                with files.lock(self.path_of(f'{image_id}.{kept}.lock'), wait=False) as held:
                    if held:
                        files.remove(self.path_of(name))
        for name in found:
            if name.endswith('.lock') and name.removesuffix('.lock') not in found:
                with files.lock(self.path_of(name), wait=False) as held:
                    if held:
                        files.remove(self.path_of(name))

    def protect(self) -> None:
        """Call ``protect`` for all cached images: earlier releases let libvirt give the images to QEMU's user."""
        for entry in list(os.scandir(self._directory)):
            if not entry.name.endswith(SCRATCH) and entry.is_file(follow_symlinks=False):
                protect(entry.path)

    def path_of(self, name: str) -> str:
        """Return the path that a file of this name has in the cache; the file may be missing."""
        return os.path.join(self._directory, name)


def protect(path: str) -> None:
    """Make a cached image read-only and owned by this user."""
    status = os.stat(path, follow_symlinks=False)
    owner = os.geteuid(), os.getegid()
    try:
        if (status.st_uid, status.st_gid) != owner:
            os.chown(path, *owner, follow_symlinks=False)
        if stat.S_IMODE(status.st_mode) != BASE_MODE or (status.st_uid, status.st_gid) != owner:
            os.chmod(path, BASE_MODE)
    except PermissionError:
        LOG.warning('The cached image %s belongs to the user %s, who may write it.', path, status.st_uid)


def check_size(image_id: str, size: int, most_bytes: int | None) -> None:
    """Check the size of an image's disk.

    :raises ImageUnacceptable: the disk is too large
    """
    if most_bytes is not None and size > most_bytes:
        raise exception.ImageUnacceptable(
            image_id=image_id, reason=f'its virtual size of {size} bytes is over the limit of {most_bytes} bytes')


def header_refusal(path: str, disk_format: str) -> str | None:
    """Return why tools must not open a file as ``disk_format``, or None if they may. Reads only the header."""
    with open(path, 'rb') as file:
        header = file.read(112)
    is_qcow2 = header.startswith(qemu_img.QCOW2_MAGIC)
    if disk_format != 'qcow2':
        return f'its disk format is {disk_format}, but its data is qcow2' if is_qcow2 else None
    if not is_qcow2 or len(header) < 72:
        return 'its disk format is qcow2, but its data is not'
    version, backing_offset, backing_size = struct.unpack_from('>IQI', header, 4)
    encryption, = struct.unpack_from('>I', header, 32)
    if version not in (2, 3) or (version == 3 and len(header) < 104):
        return 'its qcow2 header is not valid'
    if backing_offset or backing_size:
        return 'it has a backing file'
    if _names_data_file(header):
        return 'it has an external data file'
    return 'it is encrypted' if encryption else None


def has_data_file(path: str) -> bool:
    """Return whether a qcow2 file names an external data file, which QEMU would open regardless of the backing file."""
    with open(path, 'rb') as file:
        return _names_data_file(file.read(80).ljust(80, b'\0'))


def _names_data_file(header: bytes) -> bool:
    version, = struct.unpack_from('>I', header, 4)
    features, = struct.unpack_from('>Q', header, 72) if version >= 3 else (0,)
    return bool(features & QCOW2_DATA_FILE)


def virtual_size(path: str, disk_format: str) -> int:
    """Return the virtual size of a disk in bytes. The caller has checked the header of a qcow2 file."""
    with open(path, 'rb') as file:
        return file.seek(0, os.SEEK_END) if disk_format == 'raw' else int.from_bytes(file.read(32)[24:])
