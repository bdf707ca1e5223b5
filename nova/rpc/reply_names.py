"""Queues for answers have the name of the host in theirs, so that a broker can keep other hosts from reading them.

oslo.messaging 18.3.1 names them at random, or by counters in files that every process of a machine can write. The queue
is known to the services that this process calls: a random name alone is no secret.
"""
from __future__ import annotations

from typing import Any
import uuid

from nova.runtime.hooks import oslo_messaging as messaging_hooks

HOST_LENGTH = 180            # of a queue's name that may have 255 bytes


class _Names:
    def __init__(self, host: str) -> None:
        self._prefix = prefix(host)

    def get(self) -> str:
        return self._prefix + uuid.uuid4().hex


def prefix(host: str) -> str:
    """What stands before the random part of a host's queues, after ``reply_``."""
    return host[:HOST_LENGTH] + ':'


def use(transport: Any, host: str) -> None:
    """Let a transport name its queue for answers so; nothing where it is not RabbitMQ's, or has names of its own."""
    driver = messaging_hooks.driver_of(transport)
    if hasattr(driver, 'name_replies'):          # our own
        driver.name_replies(prefix(host))
    messaging_hooks.name_replies(driver, _Names(host))
