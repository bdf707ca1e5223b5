"""Transfer of a guest's files from another host through that host's libvirt, as for migrations.

The directory becomes a temporary pool of libvirt's storage API, which streams its files without holes. Files are sent
as raw bytes and never parsed as a disk format, because the guest may have written any header.
https://libvirt.org/html/libvirt-libvirt-storage.html describes the calls.
"""
import collections.abc
import contextlib
import os
import re
import time
from urllib import parse
from xml.etree import ElementTree as etree

import libvirt
from oslo_config import cfg

from nova import exception
from nova.runtime import concurrency
from nova.runtime import disk_space
from nova.virt.libvirt.moves import transfer_progress
from nova.virt.libvirt.moves import disk_copy

KEEPALIVE_SECONDS, KEEPALIVE_COUNT = 5, 3
ATTEMPTS, PAUSE_S = 5, 1.0               # maximum connections in a row that copy nothing; pause, doubled after each
# libvirt's errors for a connection that has ended or cannot be opened
_BROKEN = (libvirt.VIR_ERR_RPC, libvirt.VIR_ERR_SYSTEM_ERROR, libvirt.VIR_ERR_INTERNAL_ERROR,
           libvirt.VIR_ERR_OPERATION_FAILED, libvirt.VIR_ERR_NO_CONNECT)


def fetch(uri: str, directory: str, names: collections.abc.Sequence[str], target: str, timeout_s: float,
          arrival: transfer_progress.IncomingTransfer | None = None,
          reserve: disk_space.Reserve = disk_space.Reserve()) -> None:
    """Fetch files of a directory of another host.

    A file gets its name when it is complete. After a connection error, the copy resumes after the last completed
    block. With ``arrival``, a call after a restart also resumes, if the source file is unchanged. Without
    ``arrival``, complete files from an earlier call are kept.

    :param uri: URI of the other host's libvirt
    :param directory: directory on the other host
    :param target: directory here
    :param reserve: nova.runtime.disk_space.Reserve: free space that the files must leave
    :raises InsufficientStorage: there is no space for the files
    :raises VirtError: the host is unreachable, or a file is missing there or incomplete here
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
    """Fetch the files. Runs on a native thread, so it takes no lock and writes no log.

    A broken connection is reopened and the copy resumes, up to ATTEMPTS times without progress. A pool that another
    transfer of the directory has destroyed is reopened likewise, also before the first block.
    """
    attempt = 0
    while True:
        before = sum(copy.offset for copy in copies)
        try:
            _fetch_rest(uri, directory, copies, deadline)
            return
        except libvirt.libvirtError as error:
            attempt = 0 if sum(copy.offset for copy in copies) > before else attempt + 1
            code = error.get_error_code()
            again = code == libvirt.VIR_ERR_NO_STORAGE_POOL or code in _BROKEN and any(copy.offset for copy in copies)
            if not again or attempt >= ATTEMPTS or time.monotonic() > deadline:
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
def pool(connection: libvirt.virConnect, directory: str) -> collections.abc.Iterator[libvirt.virStoragePool]:
    """Context manager: a temporary libvirt storage pool of the files in a directory.

    libvirt permits one pool for a directory. A pool of another transfer, or one that a crashed call has left, is used
    too. The first user that ends destroys it; the others get VIR_ERR_NO_STORAGE_POOL.
    """
    # libvirt finds the files of a pool by its name, so the names for two directories differ
    name = 'nova-' + parse.quote(directory, safe='')
    root = etree.Element('pool', type='dir')
    etree.SubElement(root, 'name').text = name
    etree.SubElement(etree.SubElement(root, 'target'), 'path').text = directory
    try:
        made = connection.storagePoolCreateXML(etree.tostring(root, encoding='unicode'), 0)
    except libvirt.libvirtError:
        found = [each for each in connection.listAllStoragePools() if each.name() == name]
        if not found:
            raise
        made = found[0]
        made.refresh()                                   # read the present files of the directory
    try:
        yield made
    finally:
        with contextlib.suppress(libvirt.libvirtError):
            made.destroy()                               # removes the pool and keeps the files


ADDRESS = re.compile(r'[0-9A-Za-z][0-9A-Za-z.:-]{0,254}\Z')


class LibvirtAddresses:
    """Addresses of the libvirt daemons of this host and of other hosts, for migrations and for transfers of files."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    @property
    def own(self) -> str:
        """Address of this host's libvirt for other hosts."""
        return str(self._conf.libvirt.live_migration_inbound_addr or self._conf.my_ip)

    def uri_of(self, address: str) -> str:
        """Return the URI of the libvirt of another host.

        :param address: sent by that host; it is checked, because libvirt runs commands that a URI contains
        :raises VirtError: the value is not an address
        """
        if not isinstance(address, str) or not ADDRESS.match(address):
            raise exception.VirtError(operation='reach the other host',
                                      reason='the value that it reported is not an address')
        return str(self._conf.libvirt.live_migration_uri).replace('%s', f'[{address}]' if ':' in address else address)
