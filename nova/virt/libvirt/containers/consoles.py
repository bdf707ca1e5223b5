"""What containers print, kept in a file each.

libvirt gives a container a terminal and reads nothing of it: one that no process reads is full after some pages, and
the container stands still at its next line. So they are read all the time, by this service, in turn.
"""
from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import libvirt

from nova import exception
from nova.disk_files import files
from nova.runtime import concurrency
from nova.virt.libvirt import console
from nova.virt.libvirt import host as hosts

POLL = 0.2                               # seconds between two looks at all of them
PIECE = 64 * 1024                        # bytes that one may print in that time; what is more waits
MOST = 4 * console.TAIL                  # bytes of a file, after which it is put aside as NAME.0
NOTHING_YET = -2                         # virStreamRecv


class Consoles:
    """
    :param hypervisor: the Host
    :param path: function of a uuid -> path of the file
    """

    def __init__(self, hypervisor: hosts.Host, path: Callable[[str], str]) -> None:
        self._hypervisor, self._path = hypervisor, path
        self._streams: dict[str, Any] = {}
        self._wanted: set[str] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def start(self) -> None:
        self._stopped.clear()
        concurrency.spawn('container-consoles', self._go_round)

    def stop(self) -> None:
        self._stopped.set()

    def add(self, uuid: str) -> None:
        """Read the console of a container, which has just been started or was running before this service."""
        with self._lock:
            self._wanted.add(uuid)

    def remove(self, uuid: str) -> None:
        with self._lock:
            self._wanted.discard(uuid)

    def _go_round(self) -> None:
        while not self._stopped.is_set():
            with self._lock:
                wanted = set(self._wanted)
            if wanted or self._streams:
                with contextlib.suppress(exception.VirtError, OSError):
                    for uuid, data in self._hypervisor.run('read consoles', _read, self._streams, wanted).items():
                        self._write(uuid, data)
            time.sleep(POLL)

    def _write(self, uuid: str, data: bytes) -> None:
        path = self._path(uuid)
        with contextlib.suppress(FileNotFoundError):         # the guest is gone with its directory
            with open(path, 'ab', opener=files.private) as file:
                file.write(data)
                size = file.tell()
            if size > MOST:
                os.replace(path, path + '.0')


def _read(connection: libvirt.virConnect, streams: dict[str, Any], wanted: set[str]) -> dict[str, bytes]:
    """{uuid: bytes} that were printed since the last time; opens and closes ``streams`` as they are wanted."""
    found = {}
    for uuid in set(streams) - wanted:
        _close(streams.pop(uuid))
    for uuid in wanted:
        try:
            if uuid not in streams:
                stream = connection.newStream(libvirt.VIR_STREAM_NONBLOCK)
                connection.lookupByUUIDString(uuid).openConsole(None, stream, 0)
                streams[uuid] = stream
            data = streams[uuid].recv(PIECE)
        except libvirt.libvirtError:                     # it is off, or the connection is another: opened again
            _close(streams.pop(uuid, None))
            continue
        if data == NOTHING_YET:
            continue
        if data:
            found[uuid] = data
        else:
            _close(streams.pop(uuid))
    return found


def _close(stream: Any) -> None:
    if stream is not None:
        with contextlib.suppress(libvirt.libvirtError):
            stream.abort()
