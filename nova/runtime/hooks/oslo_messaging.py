"""Private parts of oslo.messaging 18.3.1.

The base classes that external drivers need exist only in ``oslo_messaging._drivers``.
"""
from collections.abc import Callable
import sys
from typing import Any, Protocol

from oslo_config import cfg
import oslo_messaging
from oslo_messaging._drivers import amqp
from oslo_messaging._drivers import amqpdriver
from oslo_messaging._drivers import base
from oslo_messaging._drivers import common
from oslo_messaging._drivers import impl_rabbit
from oslo_messaging._metrics import client as metrics_client
from oslo_messaging._tracing import client as tracing_client
from oslo_messaging.rpc import server as rpc_server

BaseDriver, BaseListener, BaseIncoming = base.BaseDriver, base.Listener, base.RpcIncomingMessage
serialize_exception, deserialize_exception = common.serialize_remote_exception, common.deserialize_remote_exception
ENVELOPE_VERSION: str = common._RPC_ENVELOPE_VERSION
RABBIT_GROUP = 'oslo_messaging_rabbit'
# Options that oslo.messaging registers only on the global configuration.
GLOBAL_OPTIONS = (('oslo_messaging_tracing', tracing_client.oslo_messaging_tracing),
                  ('oslo_messaging_metrics', metrics_client.oslo_messaging_metrics))


def rabbit_options(conf: cfg.ConfigOpts, url: oslo_messaging.TransportURL) -> cfg.ConfigOpts.GroupAttr:
    """Register and return the options of RabbitMQ's driver; options in the query of the URL have precedence."""
    conf.register_opts(impl_rabbit.rabbit_opts, group=RABBIT_GROUP)
    conf.register_opts(amqp.amqp_opts, group=RABBIT_GROUP)
    options: cfg.ConfigOpts.GroupAttr = common.ConfigOptsProxy(conf, url, RABBIT_GROUP).oslo_messaging_rabbit
    return options


def acknowledge_after(seconds: float) -> None:
    """Set the first delay after which RabbitMQ's driver sends deferred acknowledgements; the delay doubles."""
    amqpdriver.ACK_REQUEUE_EVERY_SECONDS_MIN = seconds


def driver_of(transport: oslo_messaging.Transport) -> base.BaseDriver:
    return transport._driver


class Names(Protocol):
    def get(self) -> str: ...


def name_replies(driver: base.BaseDriver, names: Names) -> None:
    """Set the names of RabbitMQ's reply queue to ``names.get()``; do nothing if the driver sets its own names."""
    if getattr(driver, '_q_manager', False) is None:
        driver._q_manager = names


def consumers_of(listener: base.Listener) -> dict[impl_rabbit.Consumer, str]:
    """Return {consumer: tag} of a started listener; {} if its driver does not use AMQP."""
    polled = getattr(listener, '_poll_style_listener', None)
    return getattr(getattr(polled, 'conn', None), '_consumers', None) or {}


class Transport(oslo_messaging.transport.RPCTransport):
    """An RPC transport that changes the context of sent messages.

    :param of: the transport that it replaces
    :param context: function(target, context, message) -> the context to send
    """

    def __init__(self, of: oslo_messaging.Transport,
                 context: Callable[[oslo_messaging.Target, dict[str, Any], dict[str, Any]], dict[str, Any]]) -> None:
        super().__init__(driver_of(of))
        self._context = context

    def _send(self, target: oslo_messaging.Target, ctxt: dict[str, Any], message: dict[str, Any],
              **options: object) -> object:
        return super()._send(target, self._context(target, ctxt, message), message, **options)


class Server(rpc_server.RPCServer):
    """An RPC server with a custom executor, which checks messages before their dispatch.

    :param executor: function(**options) -> the executor of messages; called at the start
    :param check: function(incoming); its exception is the reply to the sender
    :param unanswered: class of errors of ``check`` that drop the message without a reply
    """

    def __init__(self, transport: oslo_messaging.Transport, target: oslo_messaging.Target,
                 dispatcher: oslo_messaging.RPCDispatcher, executor: Callable[..., object],
                 check: Callable[[base.RpcIncomingMessage], None], refusals: type[Exception],
                 unanswered: type[Exception]) -> None:
        super().__init__(transport, target, dispatcher, executor='threading')
        self._executor_cls = executor
        self._check, self._refusals, self._unanswered = check, refusals, unanswered

    def _process_incoming(self, incoming: list[base.RpcIncomingMessage]) -> None:
        message = incoming[0]
        try:
            self._check(message)
        except self._refusals as error:
            message.acknowledge()
            if not isinstance(error, self._unanswered):
                message.reply(failure=sys.exc_info())
            return
        super()._process_incoming(incoming)
