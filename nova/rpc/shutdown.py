"""A subscription that ends: what the broker sends meanwhile goes to the next process.

oslo.messaging 18.3.1 stops reading and stays subscribed until the work has ended, so that the broker goes on sending;
and it acknowledges what it finds on the connection when that is closed at last: those messages were lost.
"""
from __future__ import annotations

import logging
from typing import Any

from nova.runtime.hooks import oslo_messaging as messaging_hooks

LOG = logging.getLogger(__name__)


def give_back(listener: Any) -> None:
    """End the subscriptions of a listener that has stopped. Messages that are on their way to it are put back.

    :param listener: of a server that has stopped; None: it has not started
    """
    consumers = messaging_hooks.consumers_of(listener)
    for consumer in consumers:
        consumer.callback = _put_back
    try:
        for consumer, tag in consumers.items():
            consumer.cancel(tag)
    except Exception as error:           # it is away, and has its messages back then
        LOG.info('The consumers could not be cancelled at the broker: %s', error)


def _put_back(message: Any) -> None:
    message.requeue()
