"""Bounded waiting for a server: each request occupies an HTTP thread, so number and time are limited."""
from __future__ import annotations

from collections.abc import Callable
import time
from typing import Any

from nova.api.ec2 import operations

WAIT_S, LOOK_S = 20, 0.2          # maximum seconds of a request, less than client timeouts; polling interval


def wait(req: operations.Request, server_id: str, reached: Callable[[dict[str, Any]], bool]) -> bool:
    """Return True if a server reaches a condition; False at the timeout, or if too many requests wait.

    :param reached: predicate of the server's document
    """
    if not req.waits.acquire(req.project_id):
        return False
    try:
        while time.monotonic() < req.began + WAIT_S:
            if reached(req.call('compute', 'GET', f'/servers/{server_id}')['server']):
                return True
            time.sleep(LOOK_S)
        return False
    finally:
        req.waits.release(req.project_id)
