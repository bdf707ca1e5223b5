"""Requests that wait for a server: few at a time, since each holds a thread of the HTTP server, and not for long."""
from __future__ import annotations

from collections.abc import Callable
import time
from typing import Any

from nova.api.ec2 import operations

WAIT_S, LOOK_S = 20, 0.2          # seconds of one request in all, less than clients wait; between two looks


def wait(req: operations.Request, server_id: str, reached: Callable[[dict[str, Any]], bool]) -> bool:
    """Whether a server has become what a request waits for; False where it has not, or too many wait already.

    :param reached: function of the server's document
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
