"""Queues that are declared anew: what was in them may be lost.

oslo.messaging 18.3.1 declares the queues of a server again whenever its connection was lost, or somebody has deleted a
queue, and tells nobody.
"""
import functools


def follow(listener, again):
    """Call ``again()``, which must not wait, whenever a queue of a listener is declared once more.

    :param listener: of a server that has started
    """
    polled = getattr(listener, '_poll_style_listener', None)
    for consumer in getattr(getattr(polled, 'conn', None), '_consumers', None) or ():         # none: not AMQP
        consumer.declare = functools.partial(_declare, consumer.declare, again)


def _declare(declare, again, connection):
    declare(connection)
    again()
