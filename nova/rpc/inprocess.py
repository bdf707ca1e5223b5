"""An oslo.messaging driver that delivers messages within one process: ``nova-inprocess:///name``.

The sender's thread submits a message to the listener's pool of workers. The sender of a call waits on a lock for the
reply, without polling. Messages and replies are serialized to JSON and back, so that a service behaves as with a
broker. Queues also behave as in a broker: they outlive their listeners, and the listeners of one queue take turns. A
message is dropped if its queue has no listener before its deadline.
"""
from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Sequence
import itertools
import threading
import time
from typing import TypeAlias

from oslo_config.cfg import ConfigOpts
import oslo_messaging
import orjson

from nova.json_types import Json
from nova.json_types import JsonObject
from nova.rpc.delivery import ExcInfo
from nova.runtime.hooks import oslo_messaging as messaging_hooks

SCHEME = 'nova-inprocess'
QUEUE_LIMIT = 10_000                # maximum messages in a queue without a listener; a further message raises an error

_Name: TypeAlias = tuple[tuple[str, ...], str | None]        # hosts and virtual host of a transport URL
_brokers: dict[_Name, _Broker] = {}
_brokers_lock = threading.Lock()


class _Reply:
    """The result of a call, set once; the caller waits for it."""

    def __init__(self) -> None:
        self._ready = threading.Lock()
        self._ready.acquire()
        self._once = threading.Lock()
        self.result = b''
        self.failure: str | None = None              # serialized exception

    def fill(self, result: bytes, failure: str | None) -> None:
        if self._once.acquire(blocking=False):
            self.result, self.failure = result, failure
            self._ready.release()

    def wait(self, timeout: float | None) -> bool:
        return self._ready.acquire(timeout=-1 if timeout is None else max(0, timeout))


class Incoming(messaging_hooks.BaseIncoming):
    """A message for a server. ``deadline`` is a time of time.monotonic(); None: the message does not expire."""

    def __init__(self, payload: bytes, reply: _Reply | None, deadline: float | None) -> None:
        context, message = orjson.loads(payload)
        super().__init__(context, message)
        self._payload, self._reply, self.deadline = payload, reply, deadline

    def copy(self) -> Incoming:
        return Incoming(self._payload, self._reply, self.deadline)

    @property
    def expired(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def reply(self, reply: Json = None, failure: ExcInfo | None = None) -> None:
        if self._reply is not None:
            self._reply.fill(b'' if failure else orjson.dumps(reply),
                             messaging_hooks.serialize_exception(failure) if failure else None)

    def requeue(self) -> None:
        raise NotImplementedError('A message cannot be requeued.')

    def heartbeat(self) -> None:
        """Do nothing: caller and server are in one process, so the caller need not check that the server is alive."""


class Listener(messaging_hooks.BaseListener):
    """One server's subscription to its queues."""

    def __init__(self, queues: Sequence[_Queue], batch_size: int, batch_timeout: float | None) -> None:
        super().__init__(batch_size, batch_timeout)
        self._queues = queues
        self._lock = threading.Lock()

    def start(self, on_incoming_callback: Callable[[list[Incoming]], object]) -> None:
        super().start(on_incoming_callback)
        for queue in self._queues:
            queue.attach(self)

    def stop(self) -> None:
        for queue in self._queues:
            queue.detach(self)
        with self._lock:
            super().stop()

    def take(self, incoming: Incoming) -> bool:
        """Pass the message to the server; return False if the server has stopped."""
        with self._lock:
            if self.on_incoming_callback is None:
                return False
            self.on_incoming_callback([incoming])
            return True

    def cleanup(self) -> None:
        """Do nothing: ``stop`` has released all resources."""


class _Queue:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: collections.deque[Incoming] = collections.deque()
        self._listeners: list[Listener] = []
        self._turn = itertools.count()

    def attach(self, listener: Listener) -> None:
        with self._lock:
            self._listeners.append(listener)
            waiting, self._waiting = self._waiting, collections.deque()
        for incoming in waiting:
            if not incoming.expired:
                self.put(incoming)

    def detach(self, listener: Listener) -> None:
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)

    def put(self, incoming: Incoming) -> None:
        """Give the message to the next listener, or keep it until there is a listener."""
        while True:
            with self._lock:
                if not self._listeners:
                    self._keep(incoming)
                    return
                listener = self._listeners[next(self._turn) % len(self._listeners)]
            if listener.take(incoming):
                return
            self.detach(listener)

    def _keep(self, incoming: Incoming) -> None:
        if len(self._waiting) >= QUEUE_LIMIT:
            self._waiting = collections.deque(kept for kept in self._waiting if not kept.expired)
            if len(self._waiting) >= QUEUE_LIMIT:
                raise oslo_messaging.MessageDeliveryFailure(f'{QUEUE_LIMIT} messages already wait for a listener; '
                                                            'no more are kept.')
        self._waiting.append(incoming)


class _Broker:
    """The queues of one transport URL, by (exchange, topic, server or None)."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, str, str | None], _Queue] = collections.defaultdict(_Queue)
        self._lock = threading.Lock()

    def queue(self, exchange: str, topic: str, server: str | None = None) -> _Queue:
        with self._lock:
            return self._queues[exchange, topic, server]

    def fanout(self, exchange: str, topic: str) -> list[_Queue]:
        with self._lock:
            return [queue for key, queue in self._queues.items() if key[:2] == (exchange, topic) and key[2]]


def _broker(url: oslo_messaging.TransportURL) -> _Broker:
    """Return the broker that all transports of one URL in this process share."""
    name = (tuple(host.hostname for host in url.hosts), url.virtual_host)
    with _brokers_lock:
        return _brokers.setdefault(name, _Broker())


class Driver(messaging_hooks.BaseDriver):
    """In-process driver, registered as ``nova-inprocess`` among the oslo.messaging drivers."""

    def __init__(self, conf: ConfigOpts, url: oslo_messaging.TransportURL, default_exchange: str = '',
                 allowed_remote_exmods: Sequence[str] | None = None) -> None:
        super().__init__(conf, url, default_exchange, allowed_remote_exmods)
        self._exchange, self._exceptions = default_exchange, allowed_remote_exmods or []
        self._broker = _broker(url)

    def send(self, target: oslo_messaging.Target, ctxt: JsonObject, message: JsonObject,
             wait_for_reply: bool | None = None, timeout: float | None = None,
             call_monitor_timeout: float | None = None, retry: int | None = None,
             transport_options: oslo_messaging.TransportOptions | None = None) -> Json:
        exchange = target.exchange or self._exchange
        reply = _Reply() if wait_for_reply else None
        deadline = time.monotonic() + timeout if wait_for_reply and timeout is not None else None
        incoming = Incoming(orjson.dumps([ctxt, message]), reply, deadline)
        if target.fanout:
            self._put_all(self._broker.fanout(exchange, target.topic), incoming)
        else:
            self._broker.queue(exchange, target.topic, target.server).put(incoming)
        if reply is None:
            return None
        if not reply.wait(timeout):
            raise oslo_messaging.MessagingTimeout(f'No reply to {message.get("method")} on topic {target.topic}.')
        if reply.failure:
            raise messaging_hooks.deserialize_exception(reply.failure, self._exceptions)
        result: Json = orjson.loads(reply.result)
        return result

    @staticmethod
    def _put_all(queues: list[_Queue], incoming: Incoming) -> None:
        """Give each queue a copy of the message.

        :raises MessageDeliveryFailure: a queue was full; the others have the message
        """
        full = None
        for queue in queues:
            try:
                queue.put(incoming.copy())
            except oslo_messaging.MessageDeliveryFailure as error:
                full = error
        if full is not None:
            raise full

    def send_notification(self, target: oslo_messaging.Target, ctxt: JsonObject, message: JsonObject, version: float,
                          retry: int | None = None) -> None:
        self.send(target, ctxt, message)

    def listen(self, target: oslo_messaging.Target, batch_size: int, batch_timeout: float | None) -> Listener:
        exchange = target.exchange or self._exchange
        return Listener([self._broker.queue(exchange, target.topic, target.server),
                         self._broker.queue(exchange, target.topic)], batch_size, batch_timeout)

    def listen_for_notifications(self, targets_and_priorities: Iterable[tuple[oslo_messaging.Target, str]],
                                 pool: str | None, batch_size: int, batch_timeout: float | None) -> Listener:
        if pool:
            raise NotImplementedError('Notification pools need a broker.')
        return Listener([self._broker.queue(target.exchange or self._exchange,
                                            f'{target.topic}.{priority}')
                         for target, priority in targets_and_priorities], batch_size, batch_timeout)

    def cleanup(self) -> None:
        """Do nothing: the queues keep their messages for the next listener."""
