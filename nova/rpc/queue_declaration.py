"""Detection of queue redeclarations, which may have lost messages.

oslo.messaging 18.3.1 declares the queues of a server again after a lost connection or a deleted queue, without an
event.
"""
from __future__ import annotations

from collections.abc import Callable
import functools

from nova.rpc import delivery
from nova.rpc.rabbit import driver as rabbit_driver
from nova.runtime.hooks import oslo_messaging as messaging_hooks


def follow(listener: delivery.Listener, again: Callable[[], None]) -> None:
    """Call ``again()``, which must not block, after each redeclaration of a listener's queue.

    :param listener: listener of a started server
    """
    if isinstance(listener, rabbit_driver.Listener):
        listener.follow(again)
        return
    for consumer in messaging_hooks.consumers_of(listener):
        consumer.declare = functools.partial(_declare, consumer.declare, again)


def _declare(declare: Callable[[object], None], again: Callable[[], None], connection: object) -> None:
    declare(connection)
    again()
