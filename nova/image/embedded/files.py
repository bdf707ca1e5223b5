"""Files of the embedded image store; each upload has one file, named by a random id."""
import contextlib
from collections.abc import Iterable, Iterator
import errno
import fcntl
import functools
import hashlib
import io
import logging
import os
import stat
from typing import BinaryIO, TypedDict

from nova import exception
from nova.disk_files import reflink
from nova.image import formats
from nova.image import inspector
from nova.image.embedded import hashing
from nova.objects.image import Image
from nova.runtime import concurrency
from nova.runtime import disk_space
from nova.runtime import durable_files
from nova.runtime import progress

LOG = logging.getLogger(__name__)

CHUNK = 256 * 1024
COPIED = 64 * 1024 * 1024        # maximum bytes of one copy_file_range call
ZEROS = bytes(CHUNK)
PART = '.part'


class Sizes(TypedDict):
    """Columns of an image that contain the sizes of its data."""

    size: int
    virtual_size: int | None


class Columns(Sizes, hashing.Columns):
    """Columns of an image that describe its data: sizes and checksums."""


class Files:
    """Files in one directory (mode 0700, files 0600).

    :param directory: absolute path; created if missing
    :param max_size: maximum size of a file in bytes
    :param reserve: nova.runtime.disk_space.Reserve of its file system
    """

    def __init__(self, directory: str, max_size: int, reserve: disk_space.Reserve = disk_space.Reserve()) -> None:
        self.directory, self.max_size, self.reserve = directory, max_size, reserve
        os.makedirs(directory, mode=0o700, exist_ok=True)
        os.chmod(directory, 0o700)

    def path(self, data_id: str) -> str:
        return os.path.join(self.directory, data_id)

    def write(self, data_id: str, chunks: Iterable[bytes], disk_format: str, max_virtual_size: int,
              image_id: str) -> Columns:
        """Store the data of ``chunks``; return the columns with sizes and checksums. A failure leaves no file.

        :raises TooLarge: the data exceeds the limit
        :raises InsufficientStorage: the data would use the reserve, or the disk is full
        :raises ImageUnacceptable: the inspector refuses the data
        """
        with self._atomic_write(data_id) as part, hashing.Hashes() as hashes:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, 'wb', buffering=0) as file, self.reserve.claimed(
                    self.directory, 0, part) as claim:
                upload = _Upload(file, self.max_size, claim)
                for chunk in chunks:
                    upload.check(chunk)
                    hashes.add(chunk)
                    concurrency.blocking(upload.add, chunk)
                    if upload.inspector.report.findings:
                        break
                report = upload.inspector.finish()
                inspector.verify(report, disk_format, max_virtual_size, image_id, may_be_empty=True)
                concurrency.blocking(upload.finish)
            return {**_sizes(report), **hashes.columns()}

    def adopt(self, data_id: str, path: str, disk_format: str, max_virtual_size: int, image_id: str) -> Sizes | None:
        """Move a file on the store's file system into the store, without copying its data.

        The process must own the file or be able to change its owner. The file must not be open for writing, for
        example by the QEMU that wrote it, because it could change after the inspection.

        :returns: {'size', 'virtual_size'}, or None if the file must be copied instead. PendingHashes computes the
            checksums
        :raises TooLarge, ImageUnacceptable: as ``write``
        """
        try:
            file = self._move_in(path, self.path(data_id) + PART)
        except OSError as error:
            LOG.debug('Cannot move %s into the image store, copying it: %s', path, error)
            return None
        with file, self._atomic_write(data_id) as part:
            report = inspector.inspect_file(part)
            if report.size > self.max_size:
                raise exception.TooLarge(limit=self.max_size)
            inspector.verify(report, disk_format, max_virtual_size, image_id)
            return _sizes(report)

    def _move_in(self, path: str, part: str) -> io.FileIO:
        """Move a file into the store and return it, open for reading.

        :raises OSError: the file is on another file system, has another owner, or is open for writing
        """
        file = io.FileIO(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC))
        try:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
                raise OSError(errno.EINVAL, 'it is not a plain file with one name')
            if found.st_dev != os.stat(self.directory).st_dev:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            os.fchown(file.fileno(), os.geteuid(), -1)
            os.fchmod(file.fileno(), 0o600)
            with contextlib.suppress(OSError):       # an ACL would override later chmod calls
                os.removexattr(file.fileno(), 'system.posix_acl_access')
            _check_no_writer(file.fileno())
            os.rename(path, part)
        except BaseException:
            file.close()
            raise
        return file

    @contextlib.contextmanager
    def _atomic_write(self, data_id: str) -> Iterator[str]:
        """Context manager that yields the path of a temporary file and renames it at the end. A failure leaves no file.

        :raises InsufficientStorage: the disk is full
        """
        part = self.path(data_id) + PART
        try:
            yield part
            concurrency.blocking(durable_files.commit, part, self.path(data_id))
        except BaseException as error:
            self.remove(data_id)
            if isinstance(error, OSError) and error.errno in disk_space.FULL:
                LOG.error('The image store is full: an upload failed.')
                raise exception.InsufficientStorage() from None
            raise

    def check_room(self, adding: int = 0) -> None:
        """Raise InsufficientStorage if ``adding`` bytes would use the reserved space of the file system."""
        self.reserve.check(self.directory, adding)

    def remove(self, data_id: str) -> None:
        """Remove a file and the temporary file of its upload, if they exist."""
        for path in (self.path(data_id) + PART, self.path(data_id)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def delete_incomplete(self, data_ids: set[str]) -> None:
        """Remove temporary files of interrupted uploads after a crash.

        Files without an image are kept: the database may have been restored from a backup older than the files.
        """
        for name in os.listdir(self.directory):
            if name.endswith(PART):
                os.unlink(self.path(name))
                LOG.info('Removed %s from the image store: its upload was incomplete.', name)
            elif name not in data_ids:
                LOG.error('%s belongs to no image. It is kept, because the database may have been restored from a '
                          'backup. Delete it if it is not needed.', self.path(name))

    def grant_read(self, data_id: str, group: int) -> None:
        """Give a group read access to a file. Members of the group cannot list the directory."""
        for path, mode in ((self.path(data_id), 0o640), (self.directory, 0o710)):
            if os.stat(path).st_gid != group:
                os.chown(path, -1, group)
            os.chmod(path, mode)

    def open(self, data_id: str) -> BinaryIO:
        return open(self.path(data_id), 'rb')


class _Upload:
    """Writes and inspects data chunk by chunk; runs of zeros become holes."""

    def __init__(self, file: io.FileIO, max_size: int, claim: disk_space.Claim) -> None:
        self.file, self.max_size, self._claim, self._written = file, max_size, claim, 0
        self.inspector = inspector.Inspector()

    def check(self, chunk: bytes) -> None:
        """Check the size limit; raises TooLarge."""
        if self.inspector.report.size + len(chunk) > self.max_size:
            raise exception.TooLarge(limit=self.max_size)

    def add(self, chunk: bytes) -> None:
        self.inspector.feed(chunk)
        if chunk == ZEROS[:len(chunk)]:
            self.file.seek(len(chunk), os.SEEK_CUR)
            return
        self._written += len(chunk)
        self._claim.need(self._written)          # reserves space in steps, so that an idle upload reserves little
        rest = memoryview(chunk)
        while rest:
            rest = rest[self.file.write(rest):]

    def finish(self) -> None:
        self.file.truncate(self.inspector.report.size)


def _sizes(report: formats.Report) -> Sizes:
    return {'size': report.size, 'virtual_size': report.virtual_size}


def _check_no_writer(descriptor: int) -> None:
    """Take and release a read lease (fcntl(2)): the kernel grants it only if the file is not open for writing.

    :raises OSError: the file is open for writing, or its file system does not support leases
    """
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def copy(source: BinaryIO, target: BinaryIO, moved: progress.Moved = progress.ignore) -> None:
    """Copy an open file in the kernel, as a reflink if the file system supports it. Holes are preserved."""
    try:
        reflink.share(source.fileno(), target.fileno())
        return
    except OSError:
        pass
    size, offset = os.fstat(source.fileno()).st_size, 0
    while offset < size:
        try:
            start = os.lseek(source.fileno(), offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:       # the rest of the file is a hole
                break
            raise
        offset = os.lseek(source.fileno(), start, os.SEEK_HOLE)
        _copy_range(source, target, start, offset, moved)
    os.truncate(target.fileno(), size)


def _copy_range(source: BinaryIO, target: BinaryIO, start: int, end: int, moved: progress.Moved) -> None:
    while start < end:
        size = min(end - start, COPIED)
        try:
            copied = os.copy_file_range(source.fileno(), target.fileno(), size, start, start)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
            os.lseek(target.fileno(), start, os.SEEK_SET)
            copied = os.sendfile(target.fileno(), source.fileno(), start, size)
        if not copied:
            raise OSError(errno.EIO, 'the file became shorter while it was copied')
        start += copied
        moved(start)


def verify_download(path: str, image: Image, max_virtual_size: int) -> None:
    """Raise ImageUnacceptable if the file does not match the image's checksum or does not pass the inspection."""
    checksum = hashing.expected(image)
    if checksum is not None:
        algorithm, digest = checksum
        new = functools.partial(hashlib.new, algorithm, usedforsecurity=False)
        with open(path, 'rb') as file:
            if concurrency.blocking(hashlib.file_digest, file, new).hexdigest() != digest:
                raise exception.ImageUnacceptable(image_id=image['id'], reason='its checksum does not match')
    report = inspector.inspect_file(path)
    expected = inspector.expected(image)
    # uploads with compressed data are refused, but images that an older release stored may contain such data
    inspector.verify(report, inspector.ARCHIVE if expected == 'raw' else expected, max_virtual_size, image['id'])
