"""Messages between services: a client and a server are made from an interface's rows.

    bus = Bus(conf)                                         # conf.transport_url
    computes = bus.client(compute_interface.INTERFACE)
    computes.stop_instance(context, server='host1', instance=instance, clean_shutdown=True)
    server = bus.serve(compute_interface.INTERFACE, manager, 'host1')
"""
from __future__ import annotations

from collections.abc import Callable
import copy
import functools
import logging
import os
import socket
import threading
import time
from typing import Any, TYPE_CHECKING

from oslo_config import cfg
from oslo_config.cfg import ConfigOpts
import oslo_messaging
import orjson
from oslo_messaging import opts as messaging_opts

from nova import exception
from nova import utils
from nova.rpc import admission as rpc_admission
from nova.rpc import delivery
from nova.rpc import errors
from nova.rpc import inprocess
from nova.rpc import interface as rpc_interface
from nova.rpc import keepalive
from nova.rpc import priorities
from nova.rpc import probe
from nova.rpc import queue_declaration
from nova.rpc import reply_names
from nova.rpc import serializer
from nova.rpc import shutdown
from nova.rpc import signatures
from nova.rpc import transport_url
from nova.rpc import versions
from nova.runtime import concurrency
from nova.runtime import health
from nova.runtime import host_identity
from nova.runtime import metrics
from nova.runtime.hooks import oslo_messaging as messaging_hooks

if TYPE_CHECKING:
    from nova.rpc.interface import Method

LOG = logging.getLogger(__name__)

EXCHANGE = 'nova'
AMQP_PORT = 5672
OPTION_GROUPS = [*messaging_opts.list_opts(), *messaging_hooks.GLOBAL_OPTIONS]

SIGN_OF_LIFE_S = 15         # a server that works on a call says so; one that died is noticed after so many seconds

# Of calls and casts RabbitMQ's driver puts off no acknowledgement; with its 1 ms the wake-ups took more time than the
# messages.
messaging_hooks.acknowledge_after(0.5)

_RABBIT_DEFAULTS = {
    'heartbeat_timeout_threshold': 30,       # a dead broker is noticed within half a minute
    'rabbit_retry_interval': 1,
    'rabbit_retry_backoff': 2,
    'rabbit_interval_max': 15,
    'kombu_reconnect_splay': 2,              # a thousand computes do not come back in the same second
    'amqp_durable_queues': True,             # a restarted broker still has what was cast
    'rabbit_quorum_queue': True,             # and so has a cluster that lost a node
}


def register_options(conf: ConfigOpts) -> None:
    """oslo.messaging's options, with our defaults."""
    for group, options in OPTION_GROUPS:
        conf.register_opts(options, group=group)
    for name, value in _RABBIT_DEFAULTS.items():
        found = conf.get_location(name, 'oslo_messaging_rabbit')
        if found is None or found.location is not cfg.Locations.set_override:      # else it would look like a default
            conf.set_default(name, value, group='oslo_messaging_rabbit')
    conf.set_default('control_exchange', EXCHANGE)
    conf.set_default('transport_url', None)


def configured(conf: ConfigOpts) -> bool:
    """Whether the configuration names a broker."""
    register_options(conf)
    return bool(conf.transport_url)


class Bus:
    """A transport.

    :param conf: configuration
    :param url: transport URL; None is ``conf.transport_url``
    :param pins: versions.Pins of another Bus of this process; None: its own, ``bus.pins``
    :param keys: signatures.Signatures of another Bus of this process; None: its own, ``bus.signatures``
    :raises InvalidInput: there is no URL, or it is not usable; [upgrade_levels] names no known version
    """

    def __init__(self, conf: ConfigOpts, url: str | None = None, pins: Any = None, keys: Any = None) -> None:
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
        # In one process the sender is known, and no other process can send.
        mode = signatures.OFF if alone else conf.messages.signatures
        # where the configuration names none, each daemon decides before it takes messages
        self.signatures = keys or signatures.Signatures(
            mode or signatures.ACCEPT, undecided=not mode,
            directory=os.path.join(host_identity.state_path(conf), host_identity.DIRECTORY))
        if self.signatures.mode != signatures.OFF:
            self._transport = signatures.signed_transport(self._transport, self.signatures)

    def of_host(self, host: str) -> Any:
        """The same bus, for what a compute host sends: receivers know whose it is, and take what is its own."""
        made = copy.copy(self)
        made._host = host
        return made

    def client(self, interface: Any) -> Any:
        """An object with one method a row of the interface.

        Each takes the context, ``server`` (None: any server of the topic) and the row's arguments by keyword; a
        call returns the result. Errors of the domain come back as the class that was raised; no answer and no
        broker is an ``exception.Unavailable``, any other failure of the other side an ``exception.RemoteError``.
        What ``pins`` says that the receivers do not know yet is left out, or ``exception.Unsupported``: its row
        says which.
        """
        return Client(self._transport, interface, self.pins, self._backport, self._host)

    def serve(self, interface: Any, manager: Any, server: Any, admission: Any = None) -> Any:
        """A server that dispatches the interface's methods to ``manager``; not yet started.

        :param manager: what rpc.interface.methods_of takes
        :param admission: rpc.admission.Admission: what compute hosts may ask for; None: nothing
        :raises TypeError: the manager lacks a method of the interface
        """
        return Server(self._transport, interface, manager, server, self._backport,
                      admission or rpc_admission.Admission(interface.topic, rpc_admission.NO_RIGHTS), self._host,
                      self.signatures)

    def _backport(self, context: Any, primitive: Any) -> Any:
        """An object that is too new for this code, as a conductor makes it older.

        It travels as text: a conductor that does not know it either says so, instead of asking for itself.
        """
        answer = self.client(rpc_interface.BACKPORT).object_backport(
            context, primitive=orjson.dumps(primitive).decode(), versions=versions.RELEASES[versions.VERSION].objects)
        return orjson.loads(answer)

    def reach(self, timeout: float = 2) -> None:
        """Whether a broker listens, by a connection alone.

        :raises OSError: none does
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
    """See Bus.client."""

    def __init__(self, transport: Any, interface: Any, pins: Any, backport: Any, host: str | None = None) -> None:
        self._interface, self._pins = interface, pins
        self._absent: set[Any] = set()           # servers without a service, None: any; a warning says so once
        target = oslo_messaging.Target(topic=interface.topic, version=interface.version)
        self._rpc = oslo_messaging.get_rpc_client(transport, target, serializer=serializer.Serializer(
            functools.partial(pins.of, interface.topic), backport, host))
        self._methods = {method.name: functools.partial(self._counted, method)
                         for method in interface.methods.values()}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """What sends a method of the interface."""
        methods = self.__dict__.get('_methods', {})
        if name not in methods:
            raise AttributeError(f'{type(self).__name__} has no {name!r}')
        return methods[name]

    def _counted(self, method: Method, context: Any, **arguments: Any) -> Any:
        begun, result = time.monotonic(), 'ok'
        try:
            return self._send(method, context, **arguments)
        except Exception as error:
            result = _result(error)
            raise
        finally:
            labels = self._interface.topic, method.name
            metrics.RPC_SENT.labels(*labels, result).inc()
            if method.call:
                metrics.RPC_CALL_SECONDS.labels(*labels).observe(time.monotonic() - begun)

    def _send(self, method: Method, context: Any, *, server: Any = None, **arguments: Any) -> Any:
        unknown = arguments.keys() - set(method.arguments)
        if unknown:
            raise TypeError(f'{self._interface.topic}.{method.name} has no argument {", ".join(sorted(unknown))}')
        fitted = method.fitted(arguments, self._pins.of(self._interface.topic).interface)
        if fitted is None:
            return None
        version, arguments = fitted
        rpc = self._rpc.prepare(server=server, version=version, timeout=method.timeout,
                                fanout=True if method.fanout and server is None else None,
                                call_monitor_timeout=SIGN_OF_LIFE_S if method.timeout > SIGN_OF_LIFE_S else None,
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
            if error.exc_type == 'UnsupportedVersion' and not method.unpinned:      # its code is older than the message
                raise exception.Unsupported(f'{method.name} needs services of a newer version: some are not upgraded '
                                            'yet.') from error
            raise exception.RemoteError(service=self._interface.topic, type=error.exc_type) from error
        except Exception as error:
            if not errors.is_unsent(error):
                raise
            if method.fanout and server is None and isinstance(error, oslo_messaging.MessageUndeliverable):
                LOG.debug('%s has no receiver among %s.', method.name, self._interface.topic)
                return None              # all that there are were notified
            level = logging.WARNING
            if isinstance(error, oslo_messaging.MessageUndeliverable):
                level = logging.DEBUG if server in self._absent else level
                self._absent.add(server)
            LOG.log(level, '%s could not be sent to %s: %s', method.name, self._interface.topic, errors.reason(error))
            raise self._unavailable(server) from error

    def _unavailable(self, server: Any) -> Any:
        if self._interface.topic == 'compute' and server:
            return exception.HostUnavailable(host=server)
        return exception.ServiceUnavailable(service=self._interface.topic)


def _result(error: Any) -> Any:
    """How a message that a Client sent has ended, for the metrics."""
    if isinstance(error, exception.RemoteError):
        return 'failed'
    if isinstance(error.__cause__, exception.NovaException):
        return 'error'                       # relayed, whatever it is
    return ('unavailable' if isinstance(error, exception.Unavailable) else
            'unsupported' if isinstance(error, exception.Unsupported) else 'failed')


def _original(error: Any) -> Any:
    """The error as it was raised there; oslo.messaging gives a subclass whose text ends in a traceback."""
    kind: Any = type(error)
    while kind.__module__ != exception.__name__:
        kind = kind.__base__
    return kind(error.message, **error.kwargs)


class _RpcServer(messaging_hooks.Server):
    """Works on plain pools; refuses a message whose sender is not known, and one that the broker has delivered before:
    its first copy is answered.
    """

    def __init__(self, interface: Any, transport: Any, target: Any, dispatcher: keepalive.Dispatcher) -> None:
        super().__init__(transport, target, dispatcher, functools.partial(self._begin, interface), dispatcher.check,
                         refusals=exception.NovaException, unanswered=exception.MessageRepeated)
        self._pools: priorities.Pools | None = None

    def _begin(self, interface: Any, **options: Any) -> priorities.Pools:
        self._pools = priorities.Pools(interface, **options)
        return self._pools

    @property
    def full(self) -> bool:
        return self._pools is not None and self._pools.full

    def end_workers(self) -> None:
        """Wait for what the workers have begun, and end them."""
        if self._pools is not None:
            self._pools.shutdown()


class Server:
    """A manager behind its queues: ``start``, then ``stop`` and ``wait``; ``probe`` finds out whether they answer."""

    def __init__(self, transport: Any, interface: Any, manager: Any, server: Any, backport: Any, admission: Any,
                 host: str | None = None,
                 keys: Any = None) -> None:
        self._name = f'{interface.topic}.{server}'
        target = oslo_messaging.Target(topic=interface.topic, server=server)
        self._work = health.Work(transport.conf.executor_thread_pool_size)
        self.alive = self._work.alive
        self._arrivals, self._sender = probe.Endpoint(), probe.Sender(transport, target, host)
        self._new = functools.partial(_RpcServer, interface, transport, target, keepalive.Dispatcher(
            [_endpoint(interface, manager, self._work, admission), self._arrivals],
            serializer.Serializer(backport=backport),
            check=keys and functools.partial(keys.check, interface.topic, server, interface)))
        self._rpc = self._new()
        self._leaving: list[Any] = []               # threads that wait for what earlier subscriptions have taken
        self._stopped, self._changing = False, threading.Lock()
        self._again = threading.Event()

    def start(self) -> None:
        self._start(self._rpc)

    def _start(self, server: Any) -> None:
        server.start()
        queue_declaration.follow(server.listener, self._again.set)

    def declared_again(self) -> Any:
        """A block (``utils.taken``) that gets whether queues were redeclared: messages in them may be lost."""
        return utils.taken(self._again)

    def stop(self) -> None:
        """Take no new message; those on their way stay in the queue for the next process."""
        with self._changing:
            self._stopped = True
        self._rpc.stop()
        shutdown.give_back(self._rpc.listener)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for what runs, ``timeout`` seconds at most; True when all has ended."""
        deadline = None if timeout is None else time.monotonic() + timeout
        waiters = [concurrency.spawn(f'wait-{self._name}', self._rpc.wait), *self._leaving]
        for waiter in waiters:
            waiter.join(None if deadline is None else max(0, deadline - time.monotonic()))
        return not any(waiter.is_alive() for waiter in waiters)

    def on_probe(self, arrived: Any) -> None:
        """Call ``arrived(token)`` in one of the workers when a message of ``probe`` has come."""
        self._arrivals.follow(arrived)

    def probe(self, context: Any, token: Any) -> Any:
        """Send this server a message through its own queue; False when the broker has no such queue.

        :raises ServiceUnavailable: there is no broker
        """
        return self._sender.send(context, token)

    @property
    def full(self) -> Any:
        """Whether messages wait because every worker is busy."""
        return self._rpc.full

    def subscribe_again(self) -> None:
        """Declare the queues and take messages again; what was taken before goes on. Nothing when it has stopped."""
        if self._stopped:
            return
        new = self._new()
        self._start(new)
        self._again.set()
        with self._changing:
            old = new if self._stopped else self._rpc        # a broker that was away may have held up the start
            self._rpc = self._rpc if self._stopped else new
        self._leaving = [thread for thread in self._leaving if thread.is_alive()]
        self._leaving.append(concurrency.spawn(f'leave-{self._name}', _leave, old))


def _leave(server: Any) -> None:
    """End a subscription that does not work: what the broker has sent to it goes to the new one at once."""
    for end in (server.stop, functools.partial(shutdown.give_back, server.listener), server.listener.cleanup,
                server.end_workers):
        try:
            end()
        except Exception as error:
            LOG.warning('A subscription was left: %s', error)


def _endpoint(interface: Any, manager: Any, work: Any, admission: Any) -> Any:
    """An object with the interface's methods, and nothing else, of ``manager``."""
    table = rpc_interface.methods_of(interface, manager)
    methods = {name: staticmethod(_counted(interface.topic, row, work,
                                           _guarded(interface.topic, row, _admitted(admission, name, table[name]))))
               for name, row in interface.methods.items()}
    return type('Endpoint', (), {'target': oslo_messaging.Target(version=interface.version), **methods})()


def _admitted(admission: Any, name: str, function: Callable[..., Any]) -> Any:
    """The one place where it is looked at who has sent a message."""
    def method(context: Any, **arguments: Any) -> Any:
        return function(admission.admit(context, name, arguments), **arguments)
    return method


def _counted(topic: str, row: Method, work: Any, function: Callable[..., Any]) -> Any:
    def method(*args: Any, **kwargs: Any) -> Any:
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


# A service without its database does not answer: the caller retries. By name, for computes have no such modules.
_AWAY = frozenset({'oslo_db.exception.DBConnectionError', 'nova.db.errors.Unwritable'})
# A row that others hold, or all connections in use: other messages can be worked on, and a worker that sleeps works on
# none.
_BUSY = frozenset({'oslo_db.exception.DBDeadlock', 'sqlalchemy.exc.TimeoutError'})
# Seconds between the attempts of a cast. While the database is away no worker has anything else to do.
CAST_PAUSES_S = {_AWAY: (0.5, 1, 2, 4, 8, 16), _BUSY: (0.5, 1)}


def _without_database(error: Any) -> Any:
    return errors.is_named(error, _AWAY | _BUSY)


def _persistent(function: Callable[..., Any]) -> Any:
    """Let a cast wait for the database for a while: it has no caller that would retry. Any other error, that of a
    statement among them, ends it at once.
    """
    def method(*args: Any, **kwargs: Any) -> Any:
        attempt = 0
        while True:
            try:
                return function(*args, **kwargs)
            except Exception as error:
                pauses = next((each for names, each in CAST_PAUSES_S.items() if errors.is_named(error, names)), ())
                if attempt >= len(pauses):
                    raise
                pause = pauses[attempt]
                LOG.warning('The database does not serve; a message waits %s s for it: %s', pause, error)
            time.sleep(pause)
            attempt += 1
    return method


def _guarded(topic: str, row: Method, function: Callable[..., Any]) -> Any:
    """Errors of the domain are answers; any other stays in this service's log and the caller learns its type."""
    run = function if row.call else _persistent(function)

    def method(*args: Any, **kwargs: Any) -> Any:
        try:
            return run(*args, **kwargs)
        except exception.NovaException as error:
            LOG.log(logging.DEBUG if row.call else logging.WARNING, '%s.%s: %s', topic, row.name, error)
            failure = error
        except Exception as error:
            if _without_database(error):
                LOG.error('%s.%s: the database does not serve: %s', topic, row.name, error)
                failure = exception.ServiceUnavailable(service=topic)
            else:
                LOG.exception('%s.%s failed', topic, row.name)
                failure = exception.RemoteError(service=topic, type=type(error).__name__)
        try:
            raise failure from None
        except exception.NovaException:
            # oslo.messaging answers with it without logging it once more
            raise oslo_messaging.ExpectedException() from None
    return method
