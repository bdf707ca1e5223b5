"""libvirt's event loop: one native thread of the process, whatever thread model the rest runs on.

libvirt wants its loop registered before the first connection is opened, once a process.
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
        libvirt.registerErrorHandler(_quiet, None)   # errors are raised; libvirt would print them, too
        libvirt.virEventRegisterDefaultImpl()
        concurrency.spawn_native('libvirt-loop', _run)
        _started = True


def _run() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


def _quiet(_context: object, _error: object) -> None:
    pass
