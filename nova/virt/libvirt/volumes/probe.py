"""Probe the storage of a volume before QEMU opens it.

QEMU opens a disk in its main loop without a timeout. If the storage hangs while a disk is opened, a running guest
freezes or a start of a guest blocks. If the storage hangs later, only the guest's reads and writes wait.
"""
from collections.abc import Callable
import functools
import socket
import struct
import time
import typing

from nova import exception
from nova.virt.libvirt.domain import volume_disks as disk

ANSWER_S = 10.0
NFS_PORT = 2049
# ONC RPC call (RFC 5531) of the procedure NULL of NFS version 3, without credentials, in one record
_CALL = struct.pack('>10I', 0x4e4f5641, 0, 2, 100003, 3, 0, 0, 0, 0, 0)
NFS_CALL = struct.pack('>I', 0x80000000 | len(_CALL)) + _CALL
# {protocol: (request, start of the response)}; NBD and Ceph servers send first. For iSCSI, a connection suffices.
WORDS: dict[str, tuple[bytes, bytes]] = {
    'nbd': (b'', b'NBDMAGIC'), 'rbd': (b'', b'ceph v'), 'iscsi': (b'', b''), 'nfs': (NFS_CALL, b'')}


def check(volumes: typing.Iterable[disk.Volume], answer_s: float | None = None) -> None:
    """Check that the servers of volumes respond.

    :param answer_s: timeout of a response in seconds; None selects ANSWER_S
    :raises VirtError: a server does not respond
    """
    seconds = ANSWER_S if answer_s is None else answer_s
    for volume in volumes:
        source = volume.source
        if source['type'] == disk.NETWORK and source['protocol'] in WORDS:
            ways, words = _ways(source), WORDS[source['protocol']]
            failures = [why for way in ways if (why := _failure(way, *words, seconds))]
            if ways and len(failures) == len(ways):
                raise exception.VirtError(operation='reach the volume', reason=(
                    f'the storage of volume {volume.volume_id} {failures[0]}'))


def _ways(source: disk.DiskSource) -> list[Callable[[float], socket.socket]]:
    """Return a connect function for each server of a source."""
    if source.get('socket'):
        return [functools.partial(_unix, source['socket'])]
    return [functools.partial(socket.create_connection, (host, int(port or NFS_PORT)))
            for host, port in source.get('hosts', ())]


def _unix(path: str, seconds: float) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    try:
        made.settimeout(seconds)
        made.connect(path)
    except BaseException:
        made.close()
        raise
    return made


def _failure(connect: Callable[[float], socket.socket], words: bytes, greeting: bytes, seconds: float) -> str | None:
    """Return the failure of one server, or None."""
    until = time.monotonic() + seconds
    try:
        with connect(seconds) as connection:
            connection.sendall(words)
            found = b''
            while len(found) < (len(greeting) or bool(words)):
                connection.settimeout(max(0.001, until - time.monotonic()))
                more = connection.recv(64)
                if not more:
                    return 'closed the connection'
                found += more
            return None if found.startswith(greeting) else 'does not speak the expected protocol'
    except PermissionError:                # no failure: QEMU runs as another user
        return None
    except TimeoutError:
        return f'did not answer within {seconds:.0f} seconds'
    except OSError as error:
        return f'is unreachable: {error.strerror or error}'
