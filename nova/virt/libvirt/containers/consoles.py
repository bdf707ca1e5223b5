"""Reader of container consoles: it writes the output of each container to a file.

libvirt connects a container to a pseudoterminal but does not read the output. If no process reads the output, the
buffer is full after a few kilobytes, and the container blocks. So this service polls all pseudoterminals.
"""
import contextlib
import os
import threading
from collections.abc import Callable

import libvirt

from nova import exception
from nova.disk_files import files
from nova.runtime import concurrency
from nova.virt.libvirt.privileged import steps
from nova.virt.libvirt import host as hosts

POLL_INTERVAL_S = 0.2                    # seconds between two polls of all consoles
READ_BYTES = 64 * 1024                   # maximum bytes that one poll reads from a console
MAX_FILE_BYTES = 4 * steps.TAIL          # size in bytes at which a file is rotated to NAME.0
NO_DATA = -2                             # result of virStreamRecv if there is no data


class Consoles:
    """Reader of the consoles.

    :param path: function that returns the path of a container's output file for its uuid
    """

    def __init__(self, hypervisor: hosts.Host, path: Callable[[str], str]) -> None:
        self._hypervisor, self._path = hypervisor, path
        self._wanted: dict[str, object] = {}     # {uuid: object that each ``add`` replaces}
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def start(self) -> None:
        self._stopped = threading.Event()        # a new event, because the thread of an old one may still run
        concurrency.spawn('container-consoles', self._go_round, self._stopped)

    def stop(self) -> None:
        self._stopped.set()

    def add(self, uuid: str) -> None:
        """Begin to read the console of a running or paused container. The reader forgets it when it is off."""
        with self._lock:
            self._wanted[uuid] = object()

    def remove(self, uuid: str) -> None:
        with self._lock:
            self._wanted.pop(uuid, None)

    def _go_round(self, stopped: threading.Event) -> None:
        streams: dict[str, libvirt.virStream] = {}
        while not stopped.wait(POLL_INTERVAL_S):
            self._poll(streams)
        for stream in streams.values():
            _close(stream)

    def _poll(self, streams: dict[str, libvirt.virStream]) -> None:
        with self._lock:
            wanted = dict(self._wanted)
        if not wanted and not streams:
            return
        with contextlib.suppress(exception.VirtError, OSError):
            found, ended = self._hypervisor.run('read consoles', _read, streams, set(wanted))
            with self._lock:
                for uuid in ended:
                    if self._wanted.get(uuid) is wanted[uuid]:           # else it was started again
                        del self._wanted[uuid]
            for uuid, data in found.items():
                self._write(uuid, data)

    def _write(self, uuid: str, data: bytes) -> None:
        path = self._path(uuid)
        with contextlib.suppress(FileNotFoundError):         # the guest was removed with its directory
            with open(path, 'ab', opener=files.private) as file:
                file.write(data)
                size = file.tell()
            if size > MAX_FILE_BYTES:
                os.replace(path, path + '.0')


def _read(connection: libvirt.virConnect, streams: dict[str, libvirt.virStream],
          wanted: set[str]) -> tuple[dict[str, bytes], list[str]]:
    """Return ({uuid: new output}, [uuid of a container that is off]).

    Open missing streams of the containers ``wanted``, and close all other streams.
    """
    found, ended = {}, []
    for uuid in set(streams) - wanted:
        _close(streams.pop(uuid))
    for uuid in wanted:
        try:
            if uuid not in streams:
                stream = connection.newStream(libvirt.VIR_STREAM_NONBLOCK)
                connection.lookupByUUIDString(uuid).openConsole(None, stream, 0)
                streams[uuid] = stream
            data = streams[uuid].recv(READ_BYTES)
        except libvirt.libvirtError:       # the container is off, or the connection is new: open the stream again later
            _close(streams.pop(uuid, None))
            if _is_off(connection, uuid):
                ended.append(uuid)
            continue
        if data == NO_DATA:
            continue
        if data:
            found[uuid] = data
        else:
            _close(streams.pop(uuid))
    return found, ended


def _is_off(connection: libvirt.virConnect, uuid: str) -> bool:
    """Return whether a container is off or has no definition. Return False if libvirt does not respond."""
    try:
        return not connection.lookupByUUIDString(uuid).isActive()
    except libvirt.libvirtError as error:
        return bool(error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN)


def _close(stream: libvirt.virStream | None) -> None:
    if stream is not None:
        with contextlib.suppress(libvirt.libvirtError):
            stream.abort()
