"""Waiting for a server. A waiting request occupies an HTTP thread, so the number and time of waits are limited."""
from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import time
from typing import TypeVar

from nova.ec2 import errors
from nova.ec2 import operations
from nova.ec2.server import Server

_Result = TypeVar('_Result')
IMAGE_TASKS = 'image_'                 # prefix of the task states while an image of the server is created
WAIT_S, POLL_INTERVAL_S = 20, 0.2          # maximum wait (below client timeouts), interval of polls


def when_idle(req: operations.Request, server_id: str, change: Callable[[], _Result]) -> _Result:
    """Call a function that changes a server. If an image of the server is being created, wait and repeat the call.

    The compute API refuses changes while it creates an image. EC2 allows such changes, and EC2 clients send them.
    """
    try:
        return change()
    except errors.ServiceRefused as refused:
        if refused.status != 409 or not _task(req, server_id).startswith(IMAGE_TASKS) or not wait(
                req, server_id, lambda server: not server['OS-EXT-STS:task_state']):
            raise
    return change()


def _task(req: operations.Request, server_id: str) -> str:
    return str(req.call('compute', 'GET', f'/servers/{server_id}')['server']['OS-EXT-STS:task_state'] or '')


@contextlib.contextmanager
def slot(req: operations.Request) -> Iterator[None]:
    """Reserve one of the places for waiting requests, before the request changes anything.

    :raises Ec2Error: too many requests wait
    """
    if not req.waits.acquire(req.project_id):
        raise errors.Ec2Error('RequestLimitExceeded', 'Too many requests wait for instances. Try again later.', 503)
    try:
        yield
    finally:
        req.waits.release(req.project_id)


def wait(req: operations.Request, server_id: str, reached: Callable[[Server], bool]) -> bool:
    """Return True if a server reaches a condition; False at the timeout, or if too many requests wait.

    :param reached: predicate of the server's document
    """
    if not req.waits.acquire(req.project_id):
        return False
    try:
        return poll(req, server_id, reached)
    finally:
        req.waits.release(req.project_id)


def poll(req: operations.Request, server_id: str, reached: Callable[[Server], bool]) -> bool:
    """Return True if a server reaches a condition, False at the timeout. The caller holds a place, see ``slot``.

    :param reached: predicate of the server's document
    """
    while time.monotonic() < req.began + WAIT_S:
        if reached(req.call('compute', 'GET', f'/servers/{server_id}')['server']):
            return True
        time.sleep(POLL_INTERVAL_S)
    return False
