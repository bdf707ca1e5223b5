"""Messages that a server sends to itself to test its queue."""
from collections.abc import Callable
import logging

import oslo_messaging

from nova import exception
from nova.context import RequestContext
from nova.rpc import delivery
from nova.rpc import errors
from nova.rpc import serializer

LOG = logging.getLogger(__name__)

NAMESPACE = 'nova.probe'


class Endpoint:
    """RPC endpoint for the probe messages of a server; it passes their tokens to the function given to ``follow``."""

    target = oslo_messaging.Target(namespace=NAMESPACE, version='1.0')

    def __init__(self) -> None:
        self._arrived: Callable[[str], object] | None = None

    def follow(self, arrived: Callable[[str], object]) -> None:
        self._arrived = arrived

    def arrive(self, context: RequestContext, token: str) -> None:
        if self._arrived is not None:
            self._arrived(token)


class Sender:
    """Sender of probe messages.

    :param target: oslo_messaging.Target with the server's topic and name
    :param host: see serializer.Serializer
    """

    def __init__(self, transport: oslo_messaging.Transport, target: oslo_messaging.Target,
                 host: str | None = None) -> None:
        self._name = f'{target.topic}.{target.server}'
        self._rpc = oslo_messaging.get_rpc_client(
            transport, oslo_messaging.Target(topic=target.topic, server=target.server, namespace=NAMESPACE,
                                             version='1.0'), serializer=serializer.Serializer(host=host))

    def send(self, context: RequestContext, token: str) -> bool:
        """Send a probe message; return False if the broker does not have the server's queue.

        :raises ServiceUnavailable: there is no broker
        """
        try:
            self._rpc.prepare(**delivery.OPTIONS).cast(context, 'arrive', token=token)
        except oslo_messaging.MessageUndeliverable:
            return False
        except Exception as error:
            if not errors.is_unsent(error):
                raise
            LOG.warning('%s cannot send itself a message: %s', self._name, error)
            raise exception.ServiceUnavailable(service='message') from error
        return True
