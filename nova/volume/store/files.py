"""Files of volumes and snapshots: sparse raw files, so that headers in the data have no effect.

Files of encrypted volumes have a LUKS header and are copied without decryption.

<directory>/<volume id>             data of a volume
<directory>/snapshots/<id>          snapshot: a full copy; shares blocks if the file system has reflinks (XFS, btrfs)
<backups>/<id>                      backup: a full copy; <backups> is by default <directory>/backups
<directory>/trash/                  files to delete in the background, because large files take seconds
<directory>/unmanaged/<name>        raw disks without a volume; administrators can turn them into volumes
*.part                              incomplete file; deleted after a crash
"""
from collections.abc import Callable
import contextlib
import errno
import logging
import os
import pwd
import re
import shutil
import stat
import subprocess
import typing
import uuid

from nova.disk_files import files
from nova.disk_files import qemu_img
from nova.disk_files import reflink
from nova import exception
from nova.hardware import disks
from nova.runtime import disk_space
from nova.runtime import durable_files
from nova.runtime import privileges
from nova.volume.store import luks

LOG = logging.getLogger(__name__)

DIRECTORY_MODE = 0o711                   # world-executable because QEMU runs as a separate user
PART, SNAPSHOTS, BACKUPS, TRASH, UNMANAGED = '.part', 'snapshots', 'backups', 'trash', 'unmanaged'
COPY = '.copy' + PART
TOO_LARGE = 'its disk is larger than the volume'
RAW_FORMATS = ('raw', 'ami', 'ari', 'aki', 'iso')
Readable = Callable[[str, int | None], typing.ContextManager[str]]
Check = Callable[[str, str], None]
UUID = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z')


class VolumeFiles:
    """Files of one volume host.

    :param directory: created with the first volume
    :param reserve: free space that copies must leave
    :param convert: nova.disk_files.qemu_img.QemuImg, for images that are not raw
    :param backups: directory of the backups; None: a subdirectory of ``directory``
    """

    def __init__(self, directory: str, reserve: disk_space.Reserve, convert: qemu_img.QemuImg,
                 backups: str | None = None) -> None:
        self.directory, self._reserve, self._convert = directory, reserve, convert
        self._backups = backups or os.path.join(directory, BACKUPS)
        self._copies: dict[str, disk_space.Claim] = {}       # {path: claim of disk space by ``prepare_copy``}

    @property
    def has_tools(self) -> bool:
        """Whether qemu-img is installed."""
        return shutil.which('qemu-img') is not None

    def volume(self, volume_id: str) -> str:
        """Return the path of a volume's file."""
        return os.path.join(self.directory, volume_id)

    def snapshot(self, snapshot_id: str) -> str:
        """Return the path of a snapshot's file."""
        return os.path.join(self.directory, SNAPSHOTS, snapshot_id)

    def backup(self, backup_id: str) -> str:
        """Return the path of a backup's file."""
        return os.path.join(self._backups, backup_id)

    # ---- creating

    def create_empty(self, path: str, size: int, key: str | None = None) -> None:
        """Create a sparse file of ``size`` bytes.

        :param key: passphrase of an encrypted volume; the file is larger by its LUKS header
        :raises InsufficientStorage: the file system is full
        """
        if key is None:
            with self._atomic_write(path) as part, open(part, 'xb') as file:
                file.truncate(size)
            return
        with self._reserved_space(luks.MAX_HEADER_BYTES, path + PART), self._atomic_write(path) as part:
            self._convert.create(part, qemu_img.LUKS, size, key=key)
            luks.header_bytes(part)

    @staticmethod
    def room(source: str, size: int, encrypted: str | bool | None) -> int:
        """Return the size of a copy of ``source`` with ``size`` bytes of data, including the LUKS header if encrypted.

        :raises InvalidVolume: ``encrypted`` is true, but the source has no LUKS header
        """
        return size + (luks.header_bytes(source) if encrypted else 0)

    def clone(self, source: str, path: str, size: int) -> bool:
        """Create a file that shares its blocks with ``source`` (reflink).

        :returns: False if the file system does not support reflinks
        """
        try:
            with self._atomic_write(path) as part, open(source, 'rb') as old, open(part, 'xb') as new:
                reflink.share(old.fileno(), new.fileno())
                new.truncate(size)
        except OSError as error:
            if error.errno in reflink.UNABLE:
                return False
            raise
        return True

    def copy(self, source: str, path: str, size: int) -> None:
        """Copy a file that no process writes; holes are preserved.

        :param size: bytes of the copy; zeros follow the data of the source
        :raises InsufficientStorage: no space for the copy
        """
        self._make_directories()
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # no access for QEMU: guests do not open backups
        if self.clone(source, path, size):
            return
        with self._reserved_space(disk_space.used_bytes(source), path + PART), self._atomic_write(path) as part:
            _copy(source, part)
            os.truncate(part, size)

    def image(self, path: str, size: int, disk_format: str, readable: Readable, key: str | None = None,
              fetches: int = 0) -> None:
        """Create a file with the data of an image.

        :param fetches: maximum bytes that ``readable`` downloads to a temporary file
        :param readable: function(path, group); see nova.image.api.Images.readable
        :param key: as for ``create_empty``
        :raises ImageUnacceptable: the image is larger than the volume
        :raises InsufficientStorage: no space
        """
        fetched = path + '.image' + PART
        with self._reserved_space(fetches, fetched), self._atomic_write(path) as part:
            try:
                with readable(fetched, self._convert.group) as source:
                    if key is not None:
                        with self._sandbox_readable(source, fetched) as reached:
                            self._encrypt(reached, disk_format, part, size, key)
                    elif disk_format in RAW_FORMATS:
                        with self._reserved_space(disk_space.used_bytes(source), part):
                            _copy(source, part)
                    else:
                        with self._sandbox_readable(source, fetched) as reached:
                            self._expand(reached, disk_format, part, size)
            finally:
                files.remove(fetched)
            room = self.room(part, size, key)
            if os.path.getsize(part) > room:
                raise exception.ImageUnacceptable(image_id='of the volume', reason=TOO_LARGE)
            os.truncate(part, room)

    @contextlib.contextmanager
    def as_image(self, path: str, disk_format: str) -> typing.Iterator[str]:
        """Context manager: path of an image file with the data of a volume that no process writes.

        :raises InsufficientStorage: no space
        """
        if disk_format == 'raw':
            yield path
            return
        made, copy = path + '.upload' + PART, path + '.upload.raw' + PART
        try:
            with self._sandbox_readable(path, copy) as source, self._reserved_space(
                    disk_space.used_bytes(path) + qemu_img.TABLES, made):
                self._convert.convert(source, 'raw', made, disk_format)
            yield made
        finally:
            files.remove(made)

    def _encrypt(self, source: str, disk_format: str, part: str, size: int, key: str) -> None:
        """Write an encrypted copy of an image. The copy is as large as the disk, because holes are also encrypted."""
        form = 'raw' if disk_format in RAW_FORMATS else disk_format
        needed = int(self._convert.info(source, form)['virtual-size'])
        if needed > size:
            raise exception.ImageUnacceptable(image_id='of the volume', reason=TOO_LARGE)
        with self._reserved_space(needed + luks.MAX_HEADER_BYTES, part):
            self._convert.convert(source, form, part, qemu_img.LUKS, key=key)

    def _expand(self, source: str, disk_format: str, part: str, size: int) -> None:
        """Convert an image file to raw. The disk may be much larger than a compressed file."""
        if int(self._convert.info(source, disk_format)['virtual-size']) > size:
            raise exception.ImageUnacceptable(image_id='of the volume', reason=TOO_LARGE)
        with self._reserved_space(self._convert.measure(source, disk_format), part):
            self._convert.convert(source, disk_format, part, 'raw')

    @contextlib.contextmanager
    def _sandbox_readable(self, source: str, copy: str) -> typing.Iterator[str]:
        """Context manager: path at which the sandbox can read ``source``: the file or a copy of it."""
        if source == copy or self._convert.reaches(source):
            yield source
            return
        try:
            with self._reserved_space(disk_space.used_bytes(source), copy):
                _copy(source, copy)
            os.chmod(copy, files.GUEST_MODE)             # the group of the sandbox may read it
            yield copy
        finally:
            files.remove(copy)

    def prepare_copy(self, path: str, size: int, source: str, key: str | None = None) -> str:
        """Create an empty qcow2 file to which a QEMU copies a volume; after the copy, call ``finish_copy``.

        :param key: passphrase of an encrypted volume; then the file is a LUKS file of the size of the volume
        :raises InsufficientStorage: no space for the copy
        """
        part = path + COPY
        files.remove(part)
        self._end_claim(path)
        room = size + luks.MAX_HEADER_BYTES if key else disk_space.used_bytes(source) + qemu_img.TABLES
        self._make_directories()
        # space for the copy and for the result of ``finish_copy``
        self._copies[path] = self._reserve.claim(os.path.dirname(path), 2 * room, part, path + PART)
        self._convert.create(part, qemu_img.LUKS if key else 'qcow2', size, key=key)
        files.give_to_guest(part)
        return part

    def finish_copy(self, path: str, size: int, check: Check, encrypted: bool = False) -> None:
        """Create the final file from the copy that QEMU wrote to the file of ``prepare_copy``; idempotent.

        The data is copied to a new file, because a guest that has taken over QEMU can still write to QEMU's copy.

        :param check: as nova.image.api.Images.check_header
        :param encrypted: whether ``prepare_copy`` was called with a key
        :raises InvalidVolume: the copy is invalid or has another size
        """
        try:
            self._finish_copy(path, size, check, encrypted)
        finally:
            self._end_claim(path)

    def _finish_copy(self, path: str, size: int, check: Check, encrypted: bool) -> None:
        if not os.path.exists(path) and encrypted:
            room = self.room(path + COPY, size, encrypted)
            with self._atomic_write(path) as part:
                _copy(path + COPY, part)
                if luks.header_bytes(part) + size != room or os.path.getsize(part) != room:
                    raise exception.InvalidVolume(reason='the size of the copy differs from the volume.')
        elif not os.path.exists(path):
            try:
                check(path + COPY, 'qcow2')
            except exception.ImageUnacceptable as error:
                raise exception.InvalidVolume(reason=f'its copy is refused: {error.message}') from None
            if int(self._convert.info(path + COPY, 'qcow2')['virtual-size']) != size:
                raise exception.InvalidVolume(reason='the size of the copy differs from the volume.')
            with self._atomic_write(path) as part:
                self._convert.convert(path + COPY, 'qcow2', part, 'raw')
                os.truncate(part, size)
        files.remove(path + COPY)

    def has_copy(self, path: str) -> bool:
        """Return whether there is a file of ``prepare_copy``; ``finish_copy`` removes it after it has made ``path``."""
        return os.path.exists(path + COPY)

    def discard_copy(self, path: str) -> None:
        """Delete the file of ``prepare_copy`` after a failure."""
        files.remove(path + COPY)
        self._end_claim(path)

    def _end_claim(self, path: str) -> None:
        claim = self._copies.pop(path, None)
        if claim is not None:
            claim.end()

    @contextlib.contextmanager
    def _atomic_write(self, path: str) -> typing.Iterator[str]:
        """Context manager: path of a temporary file that atomically replaces ``path`` after an fsync."""
        part = path + PART
        try:
            self._make_directories()
            files.remove(part)
            yield part
            self._make_readable(part)
            durable_files.commit(part, path)
        except BaseException as error:
            files.remove(part)
            if isinstance(error, OSError) and error.errno in disk_space.FULL:
                raise exception.InsufficientStorage() from error
            raise

    @staticmethod
    def _make_readable(path: str) -> None:
        files.give_to_guest(path)
        if os.geteuid():    # libvirt gives the file to QEMU's user, but this service must still open it for exports
            files.let_read(path, os.geteuid(), files.READ | files.WRITE)

    @contextlib.contextmanager
    def _reserved_space(self, size: int, *targets: str) -> typing.Iterator[None]:
        """Context manager: reserve space for files written in the block.

        :raises InsufficientStorage: no space
        """
        self._make_directories()
        with self._reserve.claimed(os.path.dirname(targets[0]), size, *targets):
            yield

    def _make_directories(self) -> None:
        for path in (self.directory, *(os.path.join(self.directory, name) for name in (SNAPSHOTS, TRASH))):
            if not os.path.isdir(path):
                os.makedirs(path, exist_ok=True)
                os.chmod(path, DIRECTORY_MODE)

    # ---- changing, deleting

    def extend(self, path: str, size: int) -> None:
        """Extend a smaller file to ``size`` bytes.

        :raises InvalidVolume: the file is missing or belongs to another user
        """
        try:
            if os.path.getsize(path) < size:
                os.truncate(path, size)
        except (FileNotFoundError, PermissionError) as error:
            raise exception.InvalidVolume(reason='its file is missing or belongs to another user.') from error

    def complete_extension(self, volume_id: str, size: int, encrypted: bool = False) -> bool:
        """Extend the file of a volume whose extension was interrupted; return False, with a log entry, if this fails.

        :param size: GiB
        """
        path = self.volume(volume_id)
        try:
            self.extend(path, self.room(path, size * qemu_img.GIB, encrypted))
        except (exception.InvalidVolume, OSError) as error:
            LOG.warning('Cannot extend the file of volume %s to %s GiB: %s', volume_id, size, error)
            return False
        return True

    def discard(self, path: str) -> None:
        """Move a file to the trash; ``empty_trash`` frees its space. Ends a copy to this path."""
        self._end_claim(path)
        try:
            self._make_directories()
            os.replace(path, os.path.join(self.directory, TRASH, str(uuid.uuid4())))
        except FileNotFoundError:
            pass
        except OSError as error:
            # the file is on another file system, or there is no space for a directory entry: delete it directly
            if error.errno not in (errno.EXDEV, *disk_space.FULL):
                raise
            files.remove(path)
        for end in (PART, COPY):
            files.remove(path + end)

    def empty_trash(self) -> None:
        trash = os.path.join(self.directory, TRASH)
        for name in os.listdir(trash) if os.path.isdir(trash) else ():
            files.remove(os.path.join(trash, name))

    # ---- files without a volume

    def unmanaged_sizes(self) -> dict[str, int]:
        """Return {name: bytes} of the files without a volume; links are ignored, as they could lead to other files."""
        directory = os.path.join(self.directory, UNMANAGED)
        if not os.path.isdir(directory):
            return {}
        found = {}
        with os.scandir(directory) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):             # another request has moved the file
                    found[entry.name] = entry.stat(follow_symlinks=False)
        return {name: facts.st_size for name, facts in found.items() if disks.FILE_NAME.match(name)
                and stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1 and facts.st_size}

    def adopt(self, name: str, volume_id: str, size: int) -> None:
        """Turn a file without a volume into the file of a new volume. A repeated call has no effect.

        :param size: bytes of the volume, not less than the size of the file
        """
        if os.path.exists(self.volume(volume_id)):
            return
        self._make_directories()
        path = os.path.join(self.directory, UNMANAGED, name)
        os.truncate(path, size)
        self._make_readable(path)
        durable_files.commit(path, self.volume(volume_id))

    def release(self, volume_id: str, name: str) -> None:
        """Move the file of a deleted volume to the files without a volume."""
        directory = os.path.join(self.directory, UNMANAGED)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        os.rename(self.volume(volume_id), os.path.join(directory, name))

    # ---- reading

    def size(self, path: str) -> int | None:
        """Return the size of a file in bytes, or None if it is missing."""
        try:
            return os.path.getsize(path)
        except FileNotFoundError:
            return None

    def delete_incomplete(self, volume_ids: set[str], snapshot_ids: set[str], backup_ids: set[str]) -> list[str]:
        """Delete incomplete files, and return the paths of files without a row in the database.

        Files without a row are kept: a database that was restored from a backup lacks the rows of newer volumes.
        """
        found = []
        for directory, known in ((self.directory, volume_ids), (os.path.join(self.directory, SNAPSHOTS), snapshot_ids),
                                 (self._backups, backup_ids)):
            for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else ():
                path = os.path.join(directory, name)
                if name.endswith(PART):
                    files.remove(path)
                elif UUID.match(name) and name not in known:
                    found.append(path)
        self.empty_trash()
        return found


def let_use(directory: str, user: pwd.struct_passwd) -> None:
    """Let an ordinary user use the volumes and snapshots that root has created, also while QEMU owns them.

    root calls it. A link or a missing directory is ignored.
    """
    if not os.path.isdir(directory):
        return
    for _folder, below, names, descriptor in os.fwalk(directory):
        below[:] = {SNAPSHOTS}.intersection(below)       # QEMU opens no other file; those of exports stay private
        for name in names:
            with privileges.plain_file(name, descriptor) as file:
                if file is not None:
                    with contextlib.suppress(OSError):   # a file system without access control lists
                        files.let_read(file, user.pw_uid, files.READ | files.WRITE)


def _copy(source: str, target: str) -> None:
    """Copy a sparse file, with shared blocks if supported; raises InsufficientStorage (the file system is full)."""
    done = subprocess.run([shutil.which('cp') or '/bin/cp', '--sparse=always', '--reflink=auto', '--', source, target],
                          stdin=subprocess.DEVNULL, capture_output=True, env={'LC_ALL': 'C', 'PATH': os.defpath})
    if done.returncode:
        if b'No space left' in done.stderr or b'quota' in done.stderr:
            raise exception.InsufficientStorage()
        raise exception.InvalidVolume(reason='its source cannot be read.')
