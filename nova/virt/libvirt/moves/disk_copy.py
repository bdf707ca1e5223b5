"""Blockwise copy of one file from another host."""
import contextlib
import os
import time
from typing import BinaryIO
from xml.etree import ElementTree as etree

import libvirt

from nova.disk_files import files
from nova import exception
from nova.runtime import disk_space
from nova.runtime import durable_files
from nova.virt.libvirt.moves import transfer_progress

# Minimum and maximum bytes of a block, and its intended duration in seconds. A complete block is synced to disk and not
# sent again, so an interruption costs at most one block.
SMALLEST, LARGEST, BLOCK_S = 1024 ** 2, 256 * 1024 ** 2, 2.0


class Copy:
    """Copy of a file, block by block, into ``path``.part; the complete file is renamed to ``path``.

    :param arrival: record of the progress; None: the progress is only in memory, and an existing file is kept
    :param reserve: nova.runtime.disk_space.Reserve: free space that the copy must leave
    :ivar offset: bytes synced to disk; later bytes are sent again
    """

    def __init__(self, path: str, arrival: transfer_progress.IncomingTransfer | None = None,
                 reserve: disk_space.Reserve = disk_space.Reserve()) -> None:
        self.path, self._arrival, self._reserve = path, arrival, reserve
        self._part, self._block = path + transfer_progress.PART, SMALLEST
        self._checked = arrival is None
        self.whole = os.path.exists(path)
        self._stamp, self.offset = arrival.of(os.path.basename(path)) if arrival else (None, 0)

    def is_done(self) -> bool:
        """Return whether the file is complete and, after a restart, was compared with the source."""
        return self.whole and self._checked

    def go_on(self, connection: libvirt.virConnect, volume: libvirt.virStorageVol, deadline: float) -> None:
        """Fetch the rest of the file.

        :raises TimeoutError: the deadline has passed
        :raises VirtError: the source file has changed
        :raises InsufficientStorage: there is no space for the file
        """
        stamp = stamp_of(volume)
        if not self._checked:
            self._check(stamp)
        elif self._stamp not in (None, stamp):
            raise exception.VirtError(operation='fetch the disks from the other host',
                                      reason=f'{os.path.basename(self.path)} has changed there meanwhile')
        self._stamp = stamp
        if self.whole:
            return
        with open(self._part, 'r+b' if self.offset else 'wb') as file, self._reserve.claimed(
                os.path.dirname(self._part), 0, self._part) as claim:
            while self.offset < stamp.size:
                length = min(self._block, stamp.size - self.offset)
                claim.need(os.fstat(file.fileno()).st_blocks * 512 + length)
                self._fetch_block(connection, volume, file, length, deadline)
                if self._arrival is not None:
                    self._arrival.note(os.path.basename(self.path), stamp, self.offset)
        files.give_to_guest(self._part)
        durable_files.commit(self._part, self.path)
        self.whole = True

    def _check(self, stamp: transfer_progress.FileVersion) -> None:
        """Check after a restart that the copied data and the source file are unchanged; otherwise copy again."""
        part_size = os.path.getsize(self._part) if os.path.exists(self._part) else -1
        if not stamp.written or stamp != self._stamp or not (
                self.offset == stamp.size if self.whole else part_size >= self.offset):
            files.remove(self.path)
            self.whole, self.offset = False, 0
        self._checked = True

    def _fetch_block(self, connection: libvirt.virConnect, volume: libvirt.virStorageVol, file: BinaryIO,
                     length: int, deadline: float) -> None:
        began = time.monotonic()
        file.truncate(self.offset)       # drop data after the offset: a download skips holes, so old data would remain
        file.seek(self.offset)
        _download(connection, volume, file, self.offset, length, deadline)
        file.truncate(self.offset + length)
        file.flush()
        os.fsync(file.fileno())
        self.offset += length
        took = time.monotonic() - began
        if took < BLOCK_S / 2:
            self._block = min(2 * self._block, LARGEST)
        elif took > 2 * BLOCK_S:
            self._block = max(self._block // 2, SMALLEST)


def stamp_of(volume: libvirt.virStorageVol) -> transfer_progress.FileVersion:
    """Return size and modification time of a source file as libvirt reports them."""
    size = volume.infoFlags(libvirt.VIR_STORAGE_VOL_GET_PHYSICAL)[2]
    return transfer_progress.FileVersion(
        size, etree.fromstring(volume.XMLDesc()).findtext('./target/timestamps/mtime') or '')


def _download(connection: libvirt.virConnect, volume: libvirt.virStorageVol, file: BinaryIO, offset: int,
              length: int, deadline: float) -> None:
    """Download a block of a libvirt volume to the current position of a file; holes are skipped."""
    stream = connection.newStream(0)

    def write(_stream: libvirt.virStream, data: bytes, _opaque: None) -> int:
        if time.monotonic() > deadline:
            raise TimeoutError(0, 'it took longer than [libvirt] qemu_img_timeout allows')
        if data == bytes(len(data)):     # zeros written by a guest become a hole
            file.seek(len(data), os.SEEK_CUR)
            return len(data)
        return file.write(data)

    def skip(_stream: libvirt.virStream, hole: int, _opaque: None) -> None:
        file.seek(hole, os.SEEK_CUR)

    volume.download(stream, offset, length, libvirt.VIR_STORAGE_VOL_DOWNLOAD_SPARSE_STREAM)
    try:
        stream.sparseRecvAll(write, skip, None)
        stream.finish()
    except BaseException:
        with contextlib.suppress(libvirt.libvirtError):
            stream.abort()
        raise
    if file.tell() != offset + length:
        raise exception.VirtError(operation='fetch the disks from the other host', reason='a block is incomplete')
