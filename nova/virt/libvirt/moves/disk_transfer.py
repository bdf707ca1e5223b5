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
from nova.runtime import disk_space
from nova.virt.libvirt.moves import transfer_progress
from nova.virt.libvirt.moves import disk_copy

KEEPALIVE_SECONDS, KEEPALIVE_COUNT = 5, 3
ATTEMPTS, PAUSE_S = 5, 1.0               # of connections that bring nothing, one after the other; before the second
# libvirt's words for a connection that has ended, or cannot be made
_BROKEN = (libvirt.VIR_ERR_RPC, libvirt.VIR_ERR_SYSTEM_ERROR, libvirt.VIR_ERR_INTERNAL_ERROR,
           libvirt.VIR_ERR_OPERATION_FAILED, libvirt.VIR_ERR_NO_CONNECT)


def fetch(uri: str, directory: str, names: collections.abc.Sequence[str], target: str, timeout_s: float,
          arrival: transfer_progress.Arrival | None = None, reserve: disk_space.Reserve = disk_space.Reserve()) -> None:
    """Fetch files of a directory of another host.

    A file appears under its name when it is whole. When the connection breaks, the copy goes on after the last block
    that has come; with an ``arrival`` also in a call after a restart, if the file is the same at its host. Without one,
    what is there already under its final name is left.

    :param uri: of the other host's libvirt
    :param directory: there
    :param target: directory here
    :param reserve: nova.runtime.disk_space.Reserve that the files leave
    :raises InsufficientStorage: there is no room for them
    :raises VirtError: the host cannot be reached, or a file is missing there or not whole here
    """
    copies = [disk_copy.Copy(os.path.join(target, name), arrival, reserve) for name in names]
    if all(copy.is_done() for copy in copies):
        return
    try:
        concurrency.blocking(_fetch, uri, directory, copies, time.monotonic() + timeout_s)
    except libvirt.libvirtError as error:
        raise exception.VirtError(operation='fetch the disks from the other host',
                                  reason=error.get_error_message()) from error
    except OSError as error:
        raise exception.VirtError(operation='write the disks of the guest', reason=error.strerror) from error


def _fetch(uri: str, directory: str, copies: list[disk_copy.Copy], deadline: float) -> None:
    """On a thread of its own: takes no lock, writes no log.

    A connection that breaks is made again, as long as it brought something, and the copy goes on where it was.
    """
    attempt = 0
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


def _fetch_rest(uri: str, directory: str, copies: list[disk_copy.Copy], deadline: float) -> None:
    connection = libvirt.open(uri)
    try:
        connection.setKeepAlive(KEEPALIVE_SECONDS, KEEPALIVE_COUNT)
        with pool(connection, directory) as opened:
            for copy in copies:
                if not copy.is_done():
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
