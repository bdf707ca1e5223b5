"""libvirt's event loop: one native thread of the process, independent of the thread model.

libvirt requires the loop to be registered once a process, before the first connection is opened.
"""
from __future__ import annotations

import threading

import libvirt

from nova.runtime import concurrency

_lock = threading.Lock()
_started = False


def start_loop() -> None:
    """Register and run the loop; later calls do nothing."""
    global _started
    with _lock:
        if _started:
            return
        libvirt.registerErrorHandler(_quiet, None)   # errors are raised; libvirt would also print them
        libvirt.virEventRegisterDefaultImpl()
        concurrency.spawn_native('libvirt-loop', _run)
        _started = True


def _run() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


def _quiet(_context: object, _error: object) -> None:
    pass
