"""Shutdown of a subscription: messages that arrive then go to the next process.

oslo.messaging 18.3.1 stops reading, but keeps its subscription until the work has ended. The broker therefore keeps
sending. When oslo.messaging closes the connection, it acknowledges the received messages, which are then lost.
"""
from __future__ import annotations

import logging
import operator

from nova.rpc import delivery
from nova.runtime.hooks import oslo_messaging as messaging_hooks

LOG = logging.getLogger(__name__)



def requeue(listener: delivery.Listener | None) -> None:
    """End the subscriptions of a stopped listener and requeue messages that are on their way.

    :param listener: listener of a stopped server; None: it has not started
    """
    consumers = messaging_hooks.consumers_of(listener)
    for consumer in consumers:
        consumer.callback = operator.methodcaller('requeue')
    try:
        for consumer, tag in consumers.items():
            consumer.cancel(tag)
    except Exception as error:           # without a connection the broker has requeued them
        LOG.info('Cannot cancel the consumers at the broker: %s', error)

