"""Messages between services: a client and a server are made from an interface's rows.

    bus = Bus(conf)                                         # conf.transport_url
    computes = bus.client(compute_interface.INTERFACE)
    computes.stop_instance(context, server='host1', instance=instance, clean_shutdown=True)
    server = bus.serve(compute_interface.INTERFACE, manager, 'host1')
"""
import concurrent.futures
import functools
import logging

import oslo_messaging
from oslo_messaging import opts as messaging_opts
from oslo_messaging._tracing import client as messaging_tracing
from oslo_messaging._metrics import client as messaging_metrics
from oslo_messaging.rpc import server as rpc_server

from nova import concurrency
from nova import exception
from nova.rpc import serializer

LOG = logging.getLogger(__name__)

EXCHANGE = 'nova'
DELIVERY_RETRIES = 3                # attempts to reach a broker before a sender is told that it is not there
OPTION_GROUPS = [
    *messaging_opts.list_opts(),
    # oslo.messaging registers these on the global configuration only.
    ('oslo_messaging_tracing', messaging_tracing.oslo_messaging_tracing),
    ('oslo_messaging_metrics', messaging_metrics.oslo_messaging_metrics),
]

SIGN_OF_LIFE_S = 15         # a server that works on a call says so; one that died is noticed after so many seconds

# A broker that has no queue for a message says so at once, instead of dropping it in silence.
_MUST_ARRIVE = oslo_messaging.TransportOptions(at_least_once=True)

_RABBIT_DEFAULTS = {
    'heartbeat_timeout_threshold': 30,       # a dead broker is noticed within half a minute
    'rabbit_retry_interval': 1,
    'rabbit_retry_backoff': 2,
    'rabbit_interval_max': 15,
    'amqp_durable_queues': True,             # a restarted broker still has what was cast
    'rabbit_quorum_queue': True,             # and so has a cluster that lost a node
}


def register_options(conf):
    """oslo.messaging's options, with our defaults."""
    for group, options in OPTION_GROUPS:
        conf.register_opts(options, group=group)
    for name, value in _RABBIT_DEFAULTS.items():
        conf.set_default(name, value, group='oslo_messaging_rabbit')
    conf.set_default('control_exchange', EXCHANGE)
    conf.set_default('transport_url', None)


def configured(conf):
    """Whether the configuration names a broker."""
    register_options(conf)
    return bool(conf.transport_url)


class Bus:
    """A transport.

    :param conf: configuration
    :param url: transport URL; None is ``conf.transport_url``
    :raises InvalidInput: there is no URL, or it is not usable
    """

    def __init__(self, conf, url=None):
        if not configured(conf) and not url:
            raise exception.InvalidInput('transport_url is not set: services in several processes need a broker.')
        try:
            self._transport = oslo_messaging.get_rpc_transport(
                conf, url, allowed_remote_exmods=[exception.__name__])
        except oslo_messaging.InvalidTransportURL as error:
            raise exception.InvalidInput(reason=f'transport_url: {error}') from None
        except oslo_messaging.DriverLoadFailure as error:
            raise exception.InvalidInput(reason=f'transport_url: no driver {error.driver!r}') from error

    def client(self, interface, version_cap=None):
        """An object with one method a row of the interface.

        Each takes the context, ``server`` (None: any server of the topic) and the row's arguments by keyword; a
        call returns the result. Errors of the domain come back as the class that was raised; no answer and no
        broker is an ``exception.Unavailable``, any other failure of the other side an ``exception.RemoteError``.

        :param version_cap: newest version that the receivers know, during an upgrade
        """
        return Client(self._transport, interface, version_cap)

    def serve(self, interface, manager, server):
        """A server that dispatches the interface's methods to ``manager``; not yet started.

        :raises TypeError: the manager lacks a method of the interface
        """
        return Server(self._transport, interface, manager, server)

    def close(self):
        self._transport.cleanup()


class Client:
    """See Bus.client."""

    def __init__(self, transport, interface, version_cap=None):
        self._interface = interface
        target = oslo_messaging.Target(topic=interface.topic, version=interface.version)
        self._rpc = oslo_messaging.get_rpc_client(transport, target, serializer=serializer.Serializer(),
                                                  version_cap=version_cap)
        for method in interface.methods.values():
            setattr(self, method.name, functools.partial(self._send, method))

    def _send(self, method, context, *, server=None, **arguments):
        unknown = arguments.keys() - set(method.arguments)
        if unknown:
            raise TypeError(f'{self._interface.topic}.{method.name} has no argument {", ".join(sorted(unknown))}')
        rpc = self._rpc.prepare(server=server, version=method.since, timeout=method.timeout,
                                call_monitor_timeout=SIGN_OF_LIFE_S if method.timeout > SIGN_OF_LIFE_S else None,
                                retry=DELIVERY_RETRIES, transport_options=_MUST_ARRIVE)
        try:
            return (rpc.call if method.call else rpc.cast)(context, method.name, **arguments)
        except exception.NovaException as error:
            raise _original(error) from error
        except oslo_messaging.MessagingTimeout as error:
            raise self._unavailable(server) from error
        except oslo_messaging.RPCVersionCapError as error:
            raise exception.Unsupported(f'{method.name} needs services of a newer version.') from error
        except oslo_messaging.RemoteError as error:
            raise exception.RemoteError(service=self._interface.topic, type=error.exc_type) from error
        except (oslo_messaging.MessagingException, oslo_messaging.MessageUndeliverable, OSError) as error:
            LOG.warning('%s could not be sent to %s: %s', method.name, self._interface.topic, error)
            raise self._unavailable(server) from error

    def _unavailable(self, server):
        if self._interface.topic == 'compute' and server:
            return exception.HostUnavailable(host=server)
        return exception.ServiceUnavailable(service=self._interface.topic)


def _original(error):
    """The error as it was raised there; oslo.messaging gives a subclass whose text ends in a traceback."""
    kind = type(error)
    while kind.__module__ != exception.__name__:
        kind = kind.__base__
    return kind(error.message, **error.kwargs)


class _RpcServer(rpc_server.RPCServer):
    """Works on plain pools: under eventlet their threads are green, and idle threads are used before new ones."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, executor='threading', **kwargs)
        self._executor_cls = functools.partial(concurrent.futures.ThreadPoolExecutor,
                                               thread_name_prefix=f'rpc-{self._target.topic}')


class Server:
    """A manager behind its queues: ``start``, then ``stop`` and ``wait``."""

    def __init__(self, transport, interface, manager, server):
        self._name = f'{interface.topic}.{server}'
        target = oslo_messaging.Target(topic=interface.topic, server=server)
        self._rpc = _RpcServer(transport, target, rpc_server.rpc_dispatcher.RPCDispatcher(
            [_endpoint(interface, manager)], serializer.Serializer()))

    def start(self):
        self._rpc.start()

    def stop(self):
        """Take no new message."""
        self._rpc.stop()

    def wait(self, timeout=None):
        """Wait for what runs, ``timeout`` seconds at most; True when all has ended."""
        waiter = concurrency.spawn(f'wait-{self._name}', self._rpc.wait)
        waiter.join(timeout)
        return not waiter.is_alive()


def _endpoint(interface, manager):
    """An object with the interface's methods, and nothing else, of ``manager``."""
    missing = [name for name in interface.methods if not callable(getattr(manager, name, None))]
    if missing:
        raise TypeError(f'{type(manager).__name__} lacks {", ".join(missing)} of the {interface.topic} interface')
    methods = {name: staticmethod(_guarded(interface.topic, row, getattr(manager, name)))
               for name, row in interface.methods.items()}
    return type('Endpoint', (), {'target': oslo_messaging.Target(version=interface.version), **methods})()


def _guarded(topic, row, function):
    """Errors of the domain are answers; any other stays in this service's log and the caller learns its type."""
    def method(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except exception.NovaException as error:
            LOG.log(logging.DEBUG if row.call else logging.WARNING, '%s.%s: %s', topic, row.name, error)
            failure = error
        except Exception as error:
            LOG.exception('%s.%s failed', topic, row.name)
            failure = exception.RemoteError(service=topic, type=type(error).__name__)
        try:
            raise failure from None
        except exception.NovaException:
            # oslo.messaging answers with it without logging it once more
            raise oslo_messaging.ExpectedException() from None
    return method
