"""RPC between services. An Interface lists the methods; clients and servers are built from this list.

    bus = Bus(conf)                                         # conf.transport_url
    computes = bus.client(compute_interface.INTERFACE)
    computes.stop_instance(context, server='host1', instance=instance, clean_shutdown=True)

    server = bus.serve(compute_interface.INTERFACE, manager, 'host1')
"""
from __future__ import annotations

from collections.abc import Callable
import contextlib
import copy
import functools
import logging
import os
import socket
import threading
import time
from typing import Any, ParamSpec, TypeVar

from oslo_config import cfg
from oslo_config.cfg import ConfigOpts
import oslo_messaging
import orjson
from oslo_messaging import opts as messaging_opts

from nova import exception
from nova import utils
from nova.context import RequestContext
from nova.json_types import JsonObject
from nova.rpc import admission as rpc_admission
from nova.rpc import delivery
from nova.rpc import errors
from nova.rpc import inprocess
from nova.rpc import interface as rpc_interface
from nova.rpc import keepalive
from nova.rpc import priorities
from nova.rpc import probe
from nova.rpc import reply_names
from nova.rpc import serializer
from nova.rpc import subscriptions
from nova.rpc import signatures
from nova.rpc import transport_url
from nova.rpc import versions
from nova.rpc.interface import Interface
from nova.rpc.interface import Method
from nova.runtime import concurrency
from nova.runtime import health
from nova.runtime import host_identity
from nova.runtime import metrics
from nova.runtime.hooks import oslo_messaging as messaging_hooks

LOG = logging.getLogger(__name__)
P = ParamSpec('P')
Result = TypeVar('Result')

EXCHANGE = 'nova'
AMQP_PORT = 5672
OPTION_GROUPS = [*messaging_opts.list_opts(), *messaging_hooks.GLOBAL_OPTIONS]

KEEPALIVE_TIMEOUT_S = 15         # a server without a keepalive for this time during a call is considered dead

# The RabbitMQ driver of oslo.messaging acknowledges calls and casts on receipt. Yet its listener wakes up after 1 ms
# for deferred acknowledgements. These wake-ups took more time than the messages, so 0.5 s replaces the 1 ms.
messaging_hooks.acknowledge_after(0.5)

# {(group, option of oslo.messaging): default of this project}
DEFAULTS: dict[tuple[str | None, str], str | float | None] = {
    (None, 'control_exchange'): EXCHANGE,
    (None, 'transport_url'): None,
    **{(messaging_hooks.RABBIT_GROUP, name): value for name, value in {
        'heartbeat_timeout_threshold': 30,       # a dead broker is detected within 30 s
        'rabbit_retry_interval': 1,
        'rabbit_retry_backoff': 2,
        'rabbit_interval_max': 15,
        'kombu_reconnect_splay': 2.0,            # spreads the reconnections of a thousand computes
        'amqp_durable_queues': True,             # casts survive a restart of the broker
        'rabbit_quorum_queue': True,             # casts survive the loss of a cluster node
    }.items()}}


def register_options(conf: ConfigOpts) -> None:
    """Register the options of oslo.messaging, with the defaults of this project."""
    for group, options in OPTION_GROUPS:
        conf.register_opts(options, group=group)
    for (section, name), value in DEFAULTS.items():
        found = conf.get_location(name, section)
        # skip overrides: set_default would replace the location that set_override has recorded for get_location
        if found is None or found.location is not cfg.Locations.set_override:
            conf.set_default(name, value, group=section)


def configured(conf: ConfigOpts) -> bool:
    """Return whether the configuration names a broker."""
    register_options(conf)
    return bool(conf.transport_url)


class Bus:
    """A transport.

    :param conf: configuration
    :param url: transport URL; None is ``conf.transport_url``
    :param pins: pins of another Bus of this process; None: new ones, ``bus.pins``
    :param keys: signatures of another Bus of this process; None: new ones, ``bus.signatures``
    :raises InvalidInput: there is no URL, or it is not usable; [upgrade_levels] names an unknown version
    """

    def __init__(self, conf: ConfigOpts, url: str | None = None, pins: versions.Pins | None = None,
                 keys: signatures.Signatures | None = None) -> None:
        if not configured(conf) and not url:
            raise exception.InvalidInput('transport_url is not set: services in several processes need a broker.')
        try:
            parsed = transport_url.parse(conf, url)
            self._transport = oslo_messaging.get_rpc_transport(
                conf, parsed, allowed_remote_exmods=[exception.__name__])
        except oslo_messaging.InvalidTransportURL as error:
            raise exception.InvalidInput(reason=f'transport_url: {error}') from None
        except oslo_messaging.DriverLoadFailure as error:
            raise exception.InvalidInput(reason=f'transport_url: {error}') from error
        reply_names.use(self._transport, conf.host)
        self._brokers = [(host.hostname, host.port or AMQP_PORT)
                         for host in parsed.hosts if host.hostname]
        alone = (url or conf.transport_url).startswith(inprocess.SCHEME + ':')
        self.pins = pins or versions.Pins(conf, alone)
        self._host: str | None = None
        # messages within one process need no signatures
        mode = signatures.OFF if alone else conf.messages.signatures
        # if [messages] signatures is not set, the daemon chooses the mode before it consumes messages
        self.signatures = keys or signatures.Signatures(
            mode or signatures.ACCEPT, undecided=not mode,
            directory=os.path.join(host_identity.state_path(conf), host_identity.DIRECTORY))
        if self.signatures.mode != signatures.OFF:
            self._transport = signatures.signed_transport(self._transport, self.signatures)

    def of_host(self, host: str) -> Bus:
        """Return a bus that sends as this compute host: receivers check the host's rights."""
        made = copy.copy(self)
        made._host = host
        return made

    def client(self, interface: Interface) -> Client:
        """Return an object with one method for each Method of the interface.

        Methods take the context, ``server`` (None: any server of the topic) and the Method's arguments by keyword. A
        call returns the result or raises a NovaException of the server. It raises ``exception.Unavailable`` if there is
        no broker or no reply, and ``exception.RemoteError`` for any other failure of the server. If ``pins`` shows that
        receivers are too old, the call drops arguments or raises ``exception.Unsupported``, as the Method specifies.
        """
        return Client(self._transport, interface, self.pins, self._backport, self._host)

    def serve(self, interface: Interface, manager: object, server: str,
              admission: rpc_admission.Admission | None = None) -> Server:
        """Return a server that dispatches the interface's methods to ``manager``; it is not started.

        :param manager: see rpc.interface.methods_of
        :param admission: rights of compute hosts; None: no rights
        :raises TypeError: the manager has no function for a method of the interface
        """
        return Server(self._transport, interface, manager, server, self._backport,
                      admission or rpc_admission.Admission(interface.topic, rpc_admission.NO_RIGHTS), self._host,
                      self.signatures)

    def _backport(self, context: RequestContext | None, primitive: JsonObject) -> JsonObject:
        """Return the older version of an object that is too new for this code; a conductor converts the object.

        The object is sent as JSON text, which the conductor's serializer does not deserialize. So a conductor that is
        also too old for the object raises an error, and does not ask another conductor.
        """
        answer = self.client(rpc_interface.BACKPORT).object_backport(
            context, primitive=orjson.dumps(primitive).decode(), versions=versions.RELEASES[versions.VERSION].objects)
        made: JsonObject = orjson.loads(answer)
        return made

    def reach(self, timeout: float = 2) -> None:
        """Check with a TCP connection whether a broker listens.

        :raises OSError: no broker listens
        """
        error = None
        for host in self._brokers:
            try:
                socket.create_connection(host, timeout).close()
                return
            except OSError as failure:
                error = failure
        if error is not None:
            raise error

    def close(self) -> None:
        self._transport.cleanup()


class Client:
    """RPC client, see Bus.client."""

    def __init__(self, transport: oslo_messaging.Transport, interface: Interface, pins: versions.Pins,
                 backport: serializer.Backport, host: str | None = None) -> None:
        self._interface, self._pins = interface, pins
        # servers for which a missing queue was logged as a warning; None: any server of the topic
        self._absent: set[str | None] = set()
        target = oslo_messaging.Target(topic=interface.topic, version=interface.version)
        self._rpc = oslo_messaging.get_rpc_client(transport, target, serializer=serializer.Serializer(
            functools.partial(pins.of, interface.topic), backport, host))
        self._methods = {method.name: functools.partial(self._counted, method)
                         for method in interface.methods.values()}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return the function that calls a method of the interface at the server."""
        methods = self.__dict__.get('_methods', {})
        if name not in methods:
            raise AttributeError(f'{type(self).__name__} has no {name!r}')
        return methods[name]

    def _counted(self, method: Method, context: RequestContext, *, server: str | None = None,
                 **arguments: object) -> object:
        begun, result = time.monotonic(), 'ok'
        try:
            return self._send(method, context, server, arguments)
        except Exception as error:
            result = _result(error)
            raise
        finally:
            labels = self._interface.topic, method.name
            metrics.RPC_SENT.labels(*labels, result).inc()
            if method.call:
                metrics.RPC_CALL_SECONDS.labels(*labels).observe(time.monotonic() - begun)

    def _send(self, method: Method, context: RequestContext, server: str | None,
              arguments: dict[str, object]) -> object:
        unknown = arguments.keys() - set(method.arguments)
        if unknown:
            raise TypeError(f'{self._interface.topic}.{method.name} has no argument {", ".join(sorted(unknown))}')
        fitted = method.fitted(arguments, self._pins.of(self._interface.topic).interface)
        if fitted is None:
            return None
        version, arguments = fitted
        rpc = self._rpc.prepare(server=server, version=version, timeout=method.timeout,
                                fanout=True if method.fanout and server is None else None,
                                call_monitor_timeout=(
                                    KEEPALIVE_TIMEOUT_S if method.timeout > KEEPALIVE_TIMEOUT_S else None),
                                **delivery.OPTIONS)
        try:
            answer = (rpc.call if method.call else rpc.cast)(context, method.name, **arguments)
            self._absent.discard(server)
            if method.versions:
                self._pins.learn(answer.get('versions'))
            return answer
        except exception.NovaException as error:
            raise _original(error) from error
        except oslo_messaging.MessagingTimeout as error:
            raise self._unavailable(server) from error
        except oslo_messaging.RemoteError as error:
            if error.exc_type == 'UnsupportedVersion':       # the receiver does not support this version
                raise exception.Unsupported(f'{method.name} needs services of a newer version: some are not upgraded '
                                            'yet.') from error
            raise exception.RemoteError(service=self._interface.topic, type=error.exc_type) from error
        except Exception as error:
            if not errors.is_unsent(error):
                raise
            if method.fanout and server is None and isinstance(error, oslo_messaging.MessageUndeliverable):
                LOG.debug('%s has no receiver among %s.', method.name, self._interface.topic)
                return None              # a fanout without receivers is no error
            level = logging.WARNING
            if isinstance(error, oslo_messaging.MessageUndeliverable):
                level = logging.DEBUG if server in self._absent else level
                self._absent.add(server)
            LOG.log(level, '%s could not be sent to %s: %s', method.name, self._interface.topic, errors.reason(error))
            raise self._unavailable(server) from error

    def _unavailable(self, server: str | None) -> exception.Unavailable:
        if self._interface.topic == 'compute' and server:
            return exception.HostUnavailable(host=server)
        return exception.ServiceUnavailable(service=self._interface.topic)


def _result(error: Exception) -> str:
    """Return the result label of a sent message, for the metrics."""
    if isinstance(error, exception.RemoteError):
        return 'failed'
    if isinstance(error.__cause__, exception.NovaException):
        return 'error'                       # a NovaException of the server
    return ('unavailable' if isinstance(error, exception.Unavailable) else
            'unsupported' if isinstance(error, exception.Unsupported) else 'failed')


def _original(error: exception.NovaException) -> exception.NovaException:
    """Return the error in the nearest base class that nova.exception defines.

    oslo.messaging raises a subclass with a traceback in the message; drivers and services may define their own classes.
    """
    kind = next(each for each in type(error).__mro__ if each.__module__ == exception.__name__)
    return kind(error.message, **error.kwargs)


class _RpcServer(messaging_hooks.Server):
    """RPC server with the thread pools of nova.rpc.priorities.

    It rejects messages of unknown senders. It drops repeated messages: the sender gets the reply to the first copy.
    """

    def __init__(self, interface: Interface, transport: oslo_messaging.Transport, target: oslo_messaging.Target,
                 dispatcher: keepalive.Dispatcher) -> None:
        super().__init__(transport, target, dispatcher, functools.partial(self._begin, interface), dispatcher.check,
                         refusals=exception.NovaException, unanswered=exception.MessageRepeated)
        self._pools: priorities.Pools | None = None

    def _begin(self, interface: Interface, **options: int) -> priorities.Pools:
        self._pools = priorities.Pools(interface, **options)
        return self._pools

    @property
    def full(self) -> bool:
        return self._pools is not None and self._pools.full

    def end_workers(self) -> None:
        """Wait until the workers have finished their running messages, and end the workers."""
        if self._pools is not None:
            self._pools.shutdown()


class Server:
    """RPC server of a manager. To end it, call ``stop``, then ``wait``; ``probe`` checks whether the queues work."""

    def __init__(self, transport: oslo_messaging.Transport, interface: Interface, manager: object, server: str,
                 backport: serializer.Backport, admission: rpc_admission.Admission, host: str | None = None,
                 keys: signatures.Signatures | None = None) -> None:
        self._name = f'{interface.topic}.{server}'
        target = oslo_messaging.Target(topic=interface.topic, server=server)
        self._work = health.Work(transport.conf.executor_thread_pool_size)
        self.alive = self._work.alive
        self._arrivals, self._sender = probe.Endpoint(), probe.Sender(transport, target, host)
        self._new = functools.partial(_RpcServer, interface, transport, target, keepalive.Dispatcher(
            [_endpoint(interface, manager, self._work, admission), self._arrivals],
            serializer.Serializer(backport=backport),
            check=None if keys is None else functools.partial(_check_sender, keys, interface, server)))
        self._rpc = self._new()
        # threads that end former subscriptions (see resubscribe) and wait for their running calls
        self._unsubscribing: list[threading.Thread] = []
        self._stopped, self._changing = False, threading.Lock()
        self._again = threading.Event()

    def start(self) -> None:
        self._start(self._rpc)

    def _start(self, server: _RpcServer) -> None:
        server.start()
        subscriptions.follow(server.listener, self._again.set)

    def declared_again(self) -> contextlib.AbstractContextManager[bool]:
        """Return a context manager (``utils.taken``) that yields whether queues were redeclared since the last use.

        After a redeclaration, messages may have been lost.
        """
        return utils.taken(self._again)

    def stop(self) -> None:
        """Stop consuming; the broker requeues unacknowledged messages for the next process."""
        with self._changing:
            self._stopped = True
        self._rpc.stop()
        subscriptions.requeue(self._rpc.listener)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for running work, ``timeout`` seconds at most; return True if all has ended."""
        deadline = None if timeout is None else time.monotonic() + timeout
        waiters = [concurrency.spawn(f'wait-{self._name}', self._rpc.wait), *self._unsubscribing]
        for waiter in waiters:
            waiter.join(None if deadline is None else max(0, deadline - time.monotonic()))
        return not any(waiter.is_alive() for waiter in waiters)

    def on_probe(self, arrived: Callable[[str], object]) -> None:
        """Call ``arrived(token)`` in a worker thread for each message that ``probe`` has sent."""
        self._arrivals.follow(arrived)

    def probe(self, context: RequestContext, token: str) -> bool:
        """Send this server a message through its own queue; return False if the broker has no such queue.

        :raises ServiceUnavailable: there is no broker
        """
        return self._sender.send(context, token)

    @property
    def full(self) -> bool:
        """Return whether messages wait because every worker is busy."""
        return self._rpc.full

    def resubscribe(self) -> None:
        """Subscribe again; messages that are being processed continue. Do nothing after ``stop``."""
        if self._stopped:
            return
        new = self._new()
        self._start(new)
        self._again.set()
        with self._changing:
            # stop() may have run while _start() waited for the broker
            old = new if self._stopped else self._rpc
            self._rpc = self._rpc if self._stopped else new
        self._unsubscribing = [thread for thread in self._unsubscribing if thread.is_alive()]
        self._unsubscribing.append(concurrency.spawn(f'leave-{self._name}', _unsubscribe, old))


def _unsubscribe(server: _RpcServer) -> None:
    """End a replaced subscription: the broker redelivers its messages to the new subscription."""
    for end in (server.stop, functools.partial(subscriptions.requeue, server.listener), server.listener.cleanup,
                server.end_workers):
        try:
            end()
        except Exception as error:
            LOG.warning('Cannot end a subscription: %s', error)


def _endpoint(interface: Interface, manager: object, work: health.Work, admission: rpc_admission.Admission) -> object:
    """Return an endpoint that exposes those methods of ``manager`` that the interface lists."""
    table = rpc_interface.methods_of(interface, manager)
    methods = {name: staticmethod(_counted(interface.topic, row, work, _convert_errors(
                   interface.topic, row, _check_rights(admission, name, table[name]))))
               for name, row in interface.methods.items()}
    return type('Endpoint', (), {'target': oslo_messaging.Target(version=interface.version), **methods})()


def _check_rights(admission: rpc_admission.Admission, name: str, function: Callable[..., Result]
                  ) -> Callable[..., Result]:
    """Return a function that checks the sender's rights before each call, because the manager does not check rights."""
    def method(context: RequestContext, **arguments: object) -> Result:
        return function(admission.admit(context, name, arguments), **arguments)
    return method


def _counted(topic: str, row: Method, work: health.Work, function: Callable[P, Result]) -> Callable[P, Result]:
    def method(*args: P.args, **kwargs: P.kwargs) -> Result:
        begun, result = time.monotonic(), 'ok'
        try:
            with work, metrics.RPC_RUNNING.during(topic, row.name):
                return function(*args, **kwargs)
        except oslo_messaging.ExpectedException as error:
            result = 'failed' if isinstance(error.exc_info[1], exception.RemoteError) else 'error'
            raise
        finally:
            metrics.RPC_RECEIVED.labels(topic, row.name, result).inc()
            metrics.RPC_SECONDS.labels(topic, row.name).observe(time.monotonic() - begun)
    return method


# Without its database, a service raises ServiceUnavailable, and callers retry. The exception classes are given by name,
# because compute services do not import the database modules.
_DATABASE_DOWN = frozenset({'oslo_db.exception.DBConnectionError', 'nova.db.errors.Unwritable'})
# The database is busy: a deadlock, or no free connection in the pool.
_DATABASE_BUSY = frozenset({'oslo_db.exception.DBDeadlock', 'sqlalchemy.exc.TimeoutError'})
# Pauses in seconds between the attempts of a cast. During a pause, the worker handles no other message. If the
# database is down, other messages would fail too, so the pauses are longer than for a busy database.
CAST_PAUSES_S = {_DATABASE_DOWN: (0.5, 1, 2, 4, 8, 16), _DATABASE_BUSY: (0.5, 1)}


def _retry_cast(topic: str, row: Method, function: Callable[P, Result]) -> Callable[P, Result]:
    """Return a function that retries a cast while the database is unavailable or busy: it has no caller to retry it."""
    def method(*args: P.args, **kwargs: P.kwargs) -> Result:
        attempt = 0
        while True:
            try:
                return function(*args, **kwargs)
            except Exception as error:
                pauses = next((each for names, each in CAST_PAUSES_S.items() if errors.is_named(error, names)), ())
                if attempt >= len(pauses):
                    raise
                pause = pauses[attempt]
                LOG.warning('%s.%s is retried in %s s, because the database is unavailable or busy: %s', topic,
                            row.name, pause, error)
            time.sleep(pause)
            attempt += 1
    return method


def _check_sender(keys: signatures.Signatures, interface: Interface, server: str, ctxt: JsonObject,
                  message: JsonObject) -> None:
    """Verify the signature of a message; the lookup of its key may need the database.

    :raises NovaException: the message is refused, or could not be checked
    """
    topic, name = interface.topic, str(message.get('method'))
    row = interface.methods.get(name)
    check = functools.partial(keys.check, topic, server, interface)
    try:
        (check if row is None or row.call else _retry_cast(topic, row, check))(ctxt, message)
    except exception.NovaException:
        raise
    except Exception as error:
        raise _logged(topic, name[:40], error) from None


def _logged(topic: str, name: str, error: Exception) -> exception.NovaException:
    """Log the error of a message; return the error for its sender."""
    if errors.is_named(error, _DATABASE_DOWN | _DATABASE_BUSY):
        LOG.error('%s.%s: the database is unavailable or busy: %s', topic, name, error)
        return exception.ServiceUnavailable(service=topic)
    LOG.exception('%s.%s failed', topic, name)
    return exception.RemoteError(service=topic, type=type(error).__name__)


def _convert_errors(topic: str, row: Method, function: Callable[P, Result]) -> Callable[P, Result]:
    """Return a function that passes NovaExceptions to the caller; it logs other errors and passes only their type."""
    run = function if row.call else _retry_cast(topic, row, function)

    def method(*args: P.args, **kwargs: P.kwargs) -> Result:
        try:
            return run(*args, **kwargs)
        except exception.NovaException as error:
            LOG.log(logging.DEBUG if row.call else logging.WARNING, '%s.%s: %s', topic, row.name, error)
            failure = _original(error)               # the caller knows only the classes of nova.exception
        except Exception as error:
            failure = _logged(topic, row.name, error)
        try:
            raise failure from None
        except exception.NovaException:
            # prevents a second log entry by oslo.messaging
            raise oslo_messaging.ExpectedException() from None
    return method
