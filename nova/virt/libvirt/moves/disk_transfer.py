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
from typing import Any
from xml.etree import ElementTree as etree

import libvirt

from nova import exception
from nova.runtime import concurrency
from nova.virt.libvirt import files

KEEPALIVE_SECONDS, KEEPALIVE_COUNT = 5, 3
SYNC_BYTES = 64 * 1024 ** 2              # written between two looks at the clock


def fetch(uri: str, directory: str, names: collections.abc.Sequence[str], target: str, timeout_s: float) -> None:
    """Fetch files of a directory of another host; what is there already under its final name is left.

    A file appears under its name when it is whole. A call after a crash begins with the first that is missing.

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
    """On a thread of its own: takes no lock, writes no log."""
    connection = libvirt.open(uri)
    try:
        connection.setKeepAlive(KEEPALIVE_SECONDS, KEEPALIVE_COUNT)
        with pool(connection, directory) as opened:
            for name in names:
                path = os.path.join(target, name)
                _download(connection, opened.storageVolLookupByName(name), path + '.part', deadline)
                os.replace(path + '.part', path)
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


def _download(connection: Any, volume: Any, path: str, deadline: float) -> None:
    stream = connection.newStream(0)
    with open(path, 'wb') as file:
        written = [0]

        def write(_stream: Any, data: bytes, _opaque: Any) -> int:
            written[0] += len(data)
            if written[0] >= SYNC_BYTES:
                written[0] = 0
                if time.monotonic() > deadline:
                    raise TimeoutError(0, 'it took longer than [libvirt] qemu_img_timeout allows')
            return file.write(data)

        def skip(_stream: Any, length: int, _opaque: Any) -> None:
            file.seek(length, os.SEEK_CUR)

        volume.download(stream, 0, 0, libvirt.VIR_STORAGE_VOL_DOWNLOAD_SPARSE_STREAM)
        try:
            stream.sparseRecvAll(write, skip, None)
            stream.finish()
        except BaseException:
            with contextlib.suppress(libvirt.libvirtError):
                stream.abort()
            raise
        file.truncate(file.tell())
        file.flush()
        os.fsync(file.fileno())
