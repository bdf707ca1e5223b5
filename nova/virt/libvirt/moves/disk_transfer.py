"""Files of a guest from another host, fetched through the libvirt there: the same door that migrations use.

libvirt's storage API streams a file of a directory that is made a pool for as long as this takes; holes are not sent.
What is sent are the bytes of the file, whatever a guest has written into it; they are never parsed as a format.
https://libvirt.org/html/libvirt-libvirt-storage.html describes the calls.
"""
from __future__ import annotations

import collections.abc
import contextlib
import os
import time
from typing import Any, BinaryIO
from xml.etree import ElementTree as etree

import libvirt

from nova import exception
from nova.runtime import concurrency
from nova.virt.libvirt import files

KEEPALIVE_SECONDS, KEEPALIVE_COUNT = 5, 3
BLOCK = 256 * 1024 ** 2                  # bytes after which what has come is written out, and does not come again
ATTEMPTS, PAUSE_S = 5, 1.0               # of connections that bring nothing, one after the other; before the second
# libvirt's words for a connection that has ended, or cannot be made
_BROKEN = (libvirt.VIR_ERR_RPC, libvirt.VIR_ERR_SYSTEM_ERROR, libvirt.VIR_ERR_INTERNAL_ERROR,
           libvirt.VIR_ERR_OPERATION_FAILED, libvirt.VIR_ERR_NO_CONNECT)


def fetch(uri: str, directory: str, names: collections.abc.Sequence[str], target: str, timeout_s: float) -> None:
    """Fetch files of a directory of another host; what is there already under its final name is left.

    A file appears under its name when it is whole. A call after a crash begins with the first that is missing. When the
    connection breaks, it goes on after the last block that has come.

    :param uri: of the other host's libvirt
    :param directory: there
    :param target: directory here
    :raises VirtError: the host cannot be reached, or a file is missing there or not whole here
    """
    missing = [name for name in names if not os.path.exists(os.path.join(target, name))]
    if not missing:
        return
    try:
        concurrency.blocking(_fetch, uri, directory, missing, target, time.monotonic() + timeout_s)
    except libvirt.libvirtError as error:
        raise exception.VirtError(operation='fetch the disks from the other host',
                                  reason=error.get_error_message()) from error
    except OSError as error:
        raise exception.VirtError(operation='write the disks of the guest', reason=error.strerror) from error
    for name in missing:
        files.give_to_guest(os.path.join(target, name))


def _fetch(uri: str, directory: str, names: list[str], target: str, deadline: float) -> None:
    """On a thread of its own: takes no lock, writes no log.

    A connection that breaks is made again, as long as it brought something, and the copy goes on where it was.
    """
    copies, attempt = [_Copy(os.path.join(target, name)) for name in names], 0
    while True:
        before = sum(copy.offset for copy in copies)
        try:
            _fetch_rest(uri, directory, copies, deadline)
            return
        except libvirt.libvirtError as error:
            attempt = 0 if sum(copy.offset for copy in copies) > before else attempt + 1
            if error.get_error_code() not in _BROKEN or not any(copy.offset for copy in copies) or attempt >= ATTEMPTS:
                raise
            if time.monotonic() > deadline:
                raise
        time.sleep(PAUSE_S * 2 ** attempt)


def _fetch_rest(uri: str, directory: str, copies: list[_Copy], deadline: float) -> None:
    connection = libvirt.open(uri)
    try:
        connection.setKeepAlive(KEEPALIVE_SECONDS, KEEPALIVE_COUNT)
        with pool(connection, directory) as opened:
            for copy in copies:
                if not copy.whole:
                    copy.go_on(connection, opened.storageVolLookupByName(os.path.basename(copy.path)), deadline)
    finally:
        with contextlib.suppress(libvirt.libvirtError):
            connection.close()


@contextlib.contextmanager
def pool(connection: Any, directory: str) -> collections.abc.Iterator[Any]:
    """The directory as a pool of libvirt, for as long as this takes."""
    name = f'nova-{os.path.basename(directory)}'
    with contextlib.suppress(libvirt.libvirtError):      # of a call that a crash ended
        connection.storagePoolLookupByName(name).destroy()
    root = etree.Element('pool', type='dir')
    etree.SubElement(root, 'name').text = name
    etree.SubElement(etree.SubElement(root, 'target'), 'path').text = directory
    made = connection.storagePoolCreateXML(etree.tostring(root, encoding='unicode'), 0)
    try:
        yield made
    finally:
        with contextlib.suppress(libvirt.libvirtError):
            made.destroy()                               # forgets the pool, and leaves the files


class _Copy:
    """A file that comes by blocks into ``path``.part.

    :ivar offset: what is before it is here, and on the disk; what is not comes again
    """

    def __init__(self, path: str) -> None:
        self.path, self.offset, self.whole = path, 0, False
        self._size: int | None = None

    def go_on(self, connection: Any, volume: Any, deadline: float) -> None:
        """Fetch the rest.

        :raises TimeoutError: the time is over
        :raises VirtError: the file is not the one that it was
        """
        size = volume.infoFlags(libvirt.VIR_STORAGE_VOL_GET_PHYSICAL)[2]
        if self._size not in (None, size):
            raise exception.VirtError(operation='fetch the disks from the other host',
                                      reason=f'{os.path.basename(self.path)} has changed there meanwhile')
        self._size = size
        with open(self.path + '.part', 'r+b' if self.offset else 'wb') as file:
            while self.offset < size:
                length = min(BLOCK, size - self.offset)
                file.seek(self.offset)
                _download(connection, volume, file, self.offset, length, deadline)
                file.truncate(self.offset + length)
                file.flush()
                os.fsync(file.fileno())
                self.offset += length
        os.replace(self.path + '.part', self.path)
        self.whole = True


def _download(connection: Any, volume: Any, file: BinaryIO, offset: int, length: int, deadline: float) -> None:
    """Write a block of a volume where the file is; holes are left out."""
    stream = connection.newStream(0)

    def write(_stream: Any, data: bytes, _opaque: Any) -> int:
        if time.monotonic() > deadline:
            raise TimeoutError(0, 'it took longer than [libvirt] qemu_img_timeout allows')
        return file.write(data)

    def skip(_stream: Any, hole: int, _opaque: Any) -> None:
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
        raise exception.VirtError(operation='fetch the disks from the other host', reason='a block was not whole')
