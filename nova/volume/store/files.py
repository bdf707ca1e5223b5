"""The files of volumes and snapshots: sparse, one a volume, raw, so that no header in them means anything.

Those of encrypted volumes have a LUKS header, and what comes after it means nothing without the key. They are copied as
they are.

    <directory>/<volume id>             its blocks
    <directory>/snapshots/<id>          a whole copy, which shares blocks where the file system can (XFS, btrfs)
    <backups>/<id>                      a whole copy, where the operator wants it
    <directory>/trash/                  what is being removed: a large file takes seconds to go
    *.part                              being written; gone after a crash
"""
from __future__ import annotations

from collections.abc import Callable
import contextlib
import errno
import os
import re
import shutil
import subprocess
import typing
import uuid

from nova.disk_files import files
from nova.disk_files import qemu_img
from nova.disk_files import reflink
from nova import exception
from nova.runtime import disk_space
from nova.runtime import durable_files
from nova.volume.store import luks

DIRECTORY_MODE = 0o711                   # QEMU runs as another user and passes through to what it is given
PART, SNAPSHOTS, BACKUPS, TRASH = '.part', 'snapshots', 'backups', 'trash'
COPY = '.copy' + PART
TOO_LARGE = 'its disk is larger than the volume'
RAW_FORMATS = ('raw', 'ami', 'ari', 'aki', 'iso')
Readable = Callable[[str, int | None], typing.ContextManager[str]]
Check = Callable[[str, str], None]
UUID = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z')


class VolumeFiles:
    """
    :param directory: made when the first volume is
    :param reserve: free space that copies leave
    :param convert: nova.disk_files.qemu_img.QemuImg, for images that are not raw
    :param backups: directory of the backups; None: one in ``directory``
    """

    def __init__(self, directory: str, reserve: disk_space.Reserve, convert: qemu_img.QemuImg,
                 backups: str | None = None) -> None:
        self.directory, self._reserve, self._convert = directory, reserve, convert
        self._backups = backups or os.path.join(directory, BACKUPS)
        self._copies: dict[str, disk_space.Claim] = {}       # of ``prepare_copy``, by the path of the file

    @property
    def has_tools(self) -> bool:
        """Whether QEMU's tools are installed."""
        return shutil.which('qemu-img') is not None

    def volume(self, volume_id: str) -> str:
        """Path of a volume's file."""
        return os.path.join(self.directory, volume_id)

    def snapshot(self, snapshot_id: str) -> str:
        """Path of a snapshot's file."""
        return os.path.join(self.directory, SNAPSHOTS, snapshot_id)

    def backup(self, backup_id: str) -> str:
        """Path of a backup's file."""
        return os.path.join(self._backups, backup_id)

    # ---- making

    def blank(self, path: str, size: int, key: str | None = None) -> None:
        """Make a file of ``size`` bytes that takes no room yet.

        :param key: passphrase of a volume that is encrypted, whose header comes on top of its size
        :raises InsufficientStorage: the file system is full
        """
        if key is None:
            with self._written(path) as part, open(part, 'xb') as file:
                file.truncate(size)
            return
        with self._claimed(luks.MOST_BYTES, path + PART), self._written(path) as part:
            self._convert.create(part, qemu_img.LUKS, size, key=key)
            luks.header_bytes(part)

    @staticmethod
    def room(source: str, size: int, encrypted: object) -> int:
        """Bytes of a file that has what ``source`` has, with ``size`` bytes of a volume.

        :raises InvalidVolume: it is to be encrypted, and is not
        """
        return size + (luks.header_bytes(source) if encrypted else 0)

    def clone(self, source: str, path: str, size: int) -> bool:
        """Make a file that shares the blocks of another one, as they are at this moment.

        :returns: False where the file system cannot do that
        """
        try:
            with self._written(path) as part, open(source, 'rb') as old, open(part, 'xb') as new:
                reflink.share(old.fileno(), new.fileno())
                new.truncate(size)
        except OSError as error:
            if error.errno in reflink.UNABLE:
                return False
            raise
        return True

    def copy(self, source: str, path: str, size: int) -> None:
        """Make a file with what is in one that is not written to, holes stay holes.

        :param size: bytes; what is beyond the source is zeros
        :raises InsufficientStorage: there is no room for it
        """
        self._make_directories()
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)    # of the backups: no guest opens those
        if self.clone(source, path, size):
            return
        with self._claimed(disk_space.used_bytes(source), path + PART), self._written(path) as part:
            _copy(source, part)
            os.truncate(part, size)

    def image(self, path: str, size: int, disk_format: str, readable: Readable, key: str | None = None,
              fetches: int = 0) -> None:
        """Make a file with what is in an image.

        :param fetches: bytes that ``readable`` writes to the path that it gets, at most
        :param readable: as nova.image.api.Images.readable, given a path and a group
        :param key: as for ``blank``
        :raises ImageUnacceptable: it is larger than the volume
        :raises InsufficientStorage: there is no room for it
        """
        fetched = path + '.image' + PART
        with self._claimed(fetches, fetched), self._written(path) as part:
            try:
                with readable(fetched, self._convert.group) as source:
                    if key is not None:
                        with self._reached(source, fetched) as reached:
                            self._encrypt(reached, disk_format, part, size, key)
                    elif disk_format in RAW_FORMATS:
                        with self._claimed(disk_space.used_bytes(source), part):
                            _copy(source, part)
                    else:
                        with self._reached(source, fetched) as reached:
                            self._expand(reached, disk_format, part, size)
            finally:
                files.remove(fetched)
            room = self.room(part, size, key)
            if os.path.getsize(part) > room:
                raise exception.ImageUnacceptable(image_id='of the volume', reason=TOO_LARGE)
            os.truncate(part, room)

    @contextlib.contextmanager
    def as_image(self, path: str, disk_format: str) -> typing.Iterator[str]:
        """The path of a file in a format of images with what is in a volume that is not written to, for the time of
        the block.

        :raises InsufficientStorage: there is no room for it
        """
        if disk_format == 'raw':
            yield path
            return
        made, copy = path + '.upload' + PART, path + '.upload.raw' + PART
        try:
            with self._reached(path, copy) as source, self._claimed(
                    disk_space.used_bytes(path) + qemu_img.TABLES, made):
                self._convert.convert(source, 'raw', made, disk_format)
            yield made
        finally:
            files.remove(made)

    def _encrypt(self, source: str, disk_format: str, part: str, size: int, key: str) -> None:
        """What is no data is encrypted, too: the copy takes the room of all of the image's disk, however small its
        file is."""
        form = 'raw' if disk_format in RAW_FORMATS else disk_format
        needed = int(self._convert.info(source, form)['virtual-size'])
        if needed > size:
            raise exception.ImageUnacceptable(image_id='of the volume', reason=TOO_LARGE)
        with self._claimed(needed + luks.MOST_BYTES, part):
            self._convert.convert(source, form, part, qemu_img.LUKS, key=key)

    def _expand(self, source: str, disk_format: str, part: str, size: int) -> None:
        """Write the disk of an image file, which takes much more room than the file where that is compressed."""
        if int(self._convert.info(source, disk_format)['virtual-size']) > size:
            raise exception.ImageUnacceptable(image_id='of the volume', reason=TOO_LARGE)
        with self._claimed(self._convert.measure(source, disk_format), part):
            self._convert.convert(source, disk_format, part, 'raw')

    @contextlib.contextmanager
    def _reached(self, source: str, copy: str) -> typing.Iterator[str]:
        """The path of a file that the sandbox reaches, for the time of the block: its own, or that of a copy."""
        if source == copy or self._convert.reaches(source):
            yield source
            return
        try:
            with self._claimed(disk_space.used_bytes(source), copy):
                _copy(source, copy)
            os.chmod(copy, files.GUEST_MODE)             # the sandbox reads it through its group
            yield copy
        finally:
            files.remove(copy)

    def prepare_copy(self, path: str, size: int, source: str, key: str | None = None) -> str:
        """An empty file that another QEMU copies a volume into; then ``finish_copy``. Holes stay holes: it is qcow2.

        :param key: passphrase of a volume that is encrypted: it is a LUKS file, with the room of the whole volume
        :raises InsufficientStorage: there is no room for the copy
        """
        part = path + COPY
        files.remove(part)
        self._end_claim(path)
        room = size + luks.MOST_BYTES if key else disk_space.used_bytes(source) + qemu_img.TABLES
        self._make_directories()
        # the copy, and what ``finish_copy`` makes of it
        self._copies[path] = self._reserve.claim(os.path.dirname(path), 2 * room, part, path + PART)
        self._convert.create(part, qemu_img.LUKS if key else 'qcow2', size, key=key)
        files.give_to_guest(part)
        return part

    def finish_copy(self, path: str, size: int, check: Check, encrypted: bool = False) -> None:
        """Make the file of what stands in that of ``prepare_copy``; nothing when it was made before.

        It is another file in any case: the guest's QEMU, which a guest may have taken over, can still write to its own.

        :param check: as nova.image.api.Images.check_header
        :param encrypted: ``prepare_copy`` got a key
        :raises InvalidVolume: the guest's QEMU has made another disk of it
        """
        try:
            self._finish_copy(path, size, check, encrypted)
        finally:
            self._end_claim(path)

    def _finish_copy(self, path: str, size: int, check: Check, encrypted: bool) -> None:
        if not os.path.exists(path) and encrypted:
            room = self.room(path + COPY, size, encrypted)
            with self._written(path) as part:
                _copy(path + COPY, part)
                if luks.header_bytes(part) + size != room or os.path.getsize(part) != room:
                    raise exception.InvalidVolume(reason='the copy has another size than the volume.')
        elif not os.path.exists(path):
            try:
                check(path + COPY, 'qcow2')
            except exception.ImageUnacceptable as error:
                raise exception.InvalidVolume(reason=f'its copy is not used. {error.message}') from None
            if int(self._convert.info(path + COPY, 'qcow2')['virtual-size']) != size:
                raise exception.InvalidVolume(reason='the copy has another size than the volume.')
            with self._written(path) as part:
                self._convert.convert(path + COPY, 'qcow2', part, 'raw')
                os.truncate(part, size)
        files.remove(path + COPY)

    def give_up_copy(self, path: str) -> None:
        """The copy of ``prepare_copy`` was not made."""
        files.remove(path + COPY)
        self._end_claim(path)

    def _end_claim(self, path: str) -> None:
        claim = self._copies.pop(path, None)
        if claim is not None:
            claim.end()

    @contextlib.contextmanager
    def _written(self, path: str) -> typing.Iterator[str]:
        """A path to write to, which takes the place of ``path`` when all is well and on the disk."""
        part = path + PART
        try:
            self._make_directories()
            files.remove(part)
            yield part
            files.give_to_guest(part)
            if os.geteuid():     # for an exporter, while libvirt still has given the file to a guest that moves away
                files.let_read(part, os.geteuid(), files.READ | files.WRITE)
            durable_files.commit(part, path)
        except BaseException as error:
            files.remove(part)
            if isinstance(error, OSError) and error.errno in disk_space.FULL:
                raise exception.InsufficientStorage() from error
            raise

    @contextlib.contextmanager
    def _claimed(self, size: int, *targets: str) -> typing.Iterator[None]:
        """Room for the files that are written in the block.

        :raises InsufficientStorage: there is none
        """
        self._make_directories()
        with self._reserve.claimed(os.path.dirname(targets[0]), size, *targets):
            yield

    def _make_directories(self) -> None:
        for path in (self.directory, *(os.path.join(self.directory, name) for name in (SNAPSHOTS, TRASH))):
            if not os.path.isdir(path):
                os.makedirs(path, exist_ok=True)
                os.chmod(path, DIRECTORY_MODE)

    # ---- changing, removing

    def extend(self, path: str, size: int) -> None:
        """Make a file ``size`` bytes large, when it is smaller.

        :raises InvalidVolume: it is gone, or it is not ours
        """
        try:
            if os.path.getsize(path) < size:
                os.truncate(path, size)
        except (FileNotFoundError, PermissionError) as error:
            raise exception.InvalidVolume(reason='its file is gone, or belongs to another user.') from error

    def discard(self, path: str) -> None:
        """Take a file away at once; ``empty_trash`` gives its room back."""
        try:
            self._make_directories()
            os.replace(path, os.path.join(self.directory, TRASH, str(uuid.uuid4())))
        except FileNotFoundError:
            pass
        except OSError as error:
            # a backup on another file system, or no room for a directory: what makes room must not need it
            if error.errno not in (errno.EXDEV, *disk_space.FULL):
                raise
            files.remove(path)
        for end in (PART, COPY):
            files.remove(path + end)

    def empty_trash(self) -> None:
        trash = os.path.join(self.directory, TRASH)
        for name in os.listdir(trash) if os.path.isdir(trash) else ():
            files.remove(os.path.join(trash, name))

    # ---- looking

    def size(self, path: str) -> int | None:
        """Bytes of a file; None: it is not there."""
        try:
            return os.path.getsize(path)
        except FileNotFoundError:
            return None

    def clean(self, volume_ids: set[str], snapshot_ids: set[str], backup_ids: set[str]) -> list[str]:
        """Remove what a crash left half-written; the paths of files that have no row.

        These stay: a database that was restored from a backup does not know what was made since.
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


def _copy(source: str, target: str) -> None:
    """
    :raises InsufficientStorage: the file system is full
    """
    done = subprocess.run([shutil.which('cp') or '/bin/cp', '--sparse=always', '--reflink=auto', '--', source, target],
                          stdin=subprocess.DEVNULL, capture_output=True, env={'LC_ALL': 'C', 'PATH': os.defpath})
    if done.returncode:
        if b'No space left' in done.stderr or b'quota' in done.stderr:
            raise exception.InsufficientStorage()
        raise exception.InvalidVolume(reason='what it is made of cannot be read.')
