"""Additions to the subscriptions of oslo.messaging 18.3.1: events of redeclared queues, and requeueing at a shutdown.

After a lost connection or a deleted queue, oslo.messaging declares the queues of a server again, without an event.
Servers need this event, because messages may have been lost.

At a shutdown oslo.messaging stops reading, but keeps its subscription until the running calls have ended. The broker
continues to send messages. Closing the connection acknowledges these messages, so they are lost.
"""
from collections.abc import Callable
import functools
import logging
import operator

from nova.rpc import delivery
from nova.runtime.hooks import oslo_messaging as messaging_hooks

LOG = logging.getLogger(__name__)


def follow(listener: delivery.Listener, again: Callable[[], None]) -> None:
    """Call ``again()``, which must not block, after each redeclaration of a listener's queue.

    :param listener: listener of a started server
    """
    if hasattr(listener, 'follow'):          # the listener of nova-rabbit
        listener.follow(again)
        return
    for consumer in messaging_hooks.consumers_of(listener):
        consumer.declare = functools.partial(_declare, consumer.declare, again)


def _declare(declare: Callable[[object], None], again: Callable[[], None], connection: object) -> None:
    declare(connection)
    again()


def requeue(listener: delivery.Listener | None) -> None:
    """Cancel the subscriptions of a stopped listener, and requeue messages in transit for the next process.

    :param listener: listener of a stopped server; None: it has not started
    """
    consumers = messaging_hooks.consumers_of(listener)
    for consumer in consumers:
        consumer.callback = operator.methodcaller('requeue')
    try:
        for consumer, tag in consumers.items():
            consumer.cancel(tag)
    except Exception as error:           # if the connection is lost, the broker has requeued the messages
        LOG.info('Cannot cancel the consumers at the broker: %s', error)
