"""Settings of the driver from [oslo_messaging_rabbit], and the resulting queues and exchanges.

Names and properties are those of oslo.messaging's RabbitMQ driver, so that services with either driver interoperate.
"""
from __future__ import annotations

from collections.abc import Collection
import dataclasses
import math
import ssl
from typing import TYPE_CHECKING, TypeAlias
import uuid

from oslo_config import cfg
import oslo_messaging

if TYPE_CHECKING:
    from pamqp import common

Options: TypeAlias = cfg.ConfigOpts.GroupAttr          # [oslo_messaging_rabbit]
PORT = 5672
# Default limit of unacknowledged messages for each queue. A lower limit makes the broker wait for acknowledgements.
# Without a limit, the broker sends its whole backlog to one process. After a lost connection, the broker repeats
# unacknowledged messages, even those that the process has handled.
PREFETCH = 300
# Options that make queues survive a restart of the broker. RPC queues use the options only if they are set:
# conductors repeat lost RPC messages, and disk writes take a third of a broker's time (ADR 0009). The queue of
# notifications also uses the default values, because notifications are never sent again.
DURABILITY_OPTIONS = ('amqp_durable_queues', 'rabbit_quorum_queue')
# Options of oslo.messaging's driver that this driver does not support.
_NOT_HERE = ('rabbit_stream_fanout', 'rabbit_ha_queues', 'use_queue_manager', 'kombu_compression')


@dataclasses.dataclass(frozen=True)
class Broker:
    host: str
    port: int
    user: str
    password: str = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the driver.

    brokers                         addresses of the brokers, tried in a random order
    tls                             TLS context; None: no TLS
    certificate                     whether the client authenticates by its certificate instead of a password
    heartbeat                       AMQP heartbeat in seconds; a connection that is silent for twice this time is dead
    pause, longer, longest, splay   seconds between attempts: first, increment, longest; maximum random addition
    expiry_s                        seconds after which an undeliverable reply is dropped
    prefetch                        maximum unacknowledged deliveries of a queue
    """

    brokers: tuple[Broker, ...]
    virtual_host: str
    tls: ssl.SSLContext | None
    certificate: bool
    heartbeat: int
    pause: float
    longer: float
    longest: float
    splay: float
    expiry_s: float
    prefetch: int

    def waited(self, attempts: int) -> float:
        """Return the sum of the first ``attempts`` pauses between attempts to reach a broker, in seconds."""
        rising = 0
        if self.longer > 0:
            rising = min(attempts, max(0, math.ceil((self.longest - self.pause) / self.longer)))
        rest = self.longest if self.longer > 0 else min(self.pause, self.longest)
        return rising * self.pause + self.longer * rising * (rising - 1) / 2 + (attempts - rising) * rest


def of(options: Options, url: oslo_messaging.TransportURL) -> Settings:
    """Return the Settings of the options.

    :raises RuntimeError: an option that is set is not supported by this driver
    """
    wrong = [name for name in _NOT_HERE if getattr(options, name)]
    if wrong:
        raise RuntimeError(f'[oslo_messaging_rabbit] {", ".join(wrong)}: for rabbit:// only, not for nova-rabbit://.')
    brokers = tuple(Broker(host.hostname or 'localhost', host.port or PORT, host.username or '', host.password or '')
                    for host in url.hosts)
    return Settings(
        brokers=brokers or (Broker('localhost', PORT, 'guest', 'guest'),), virtual_host=url.virtual_host or '/',
        tls=_tls(options) if options.ssl else None, certificate=options.rabbit_login_method == 'EXTERNAL',
        heartbeat=options.heartbeat_timeout_threshold, pause=options.rabbit_retry_interval,
        longer=options.rabbit_retry_backoff, longest=options.rabbit_interval_max,
        splay=options.kombu_reconnect_splay, expiry_s=options.kombu_missing_consumer_retry_timeout,
        prefetch=options.rabbit_qos_prefetch_count or PREFETCH)


def _tls(options: Options) -> ssl.SSLContext:
    """Return a TLS context that verifies the broker's name and certificate by the CAs of ssl_ca_file or the system.

    :raises RuntimeError: a file cannot be used
    """
    try:
        context = ssl.create_default_context(cafile=options.ssl_ca_file or None)
        if options.ssl_cert_file:
            context.load_cert_chain(options.ssl_cert_file, options.ssl_key_file or None)
    except OSError as error:
        raise RuntimeError(f'[oslo_messaging_rabbit] certificates: {error}') from error
    return context


@dataclasses.dataclass(frozen=True)
class Exchange:
    name: str
    kind: str
    durable: bool
    auto_delete: bool

    def as_durable(self) -> Exchange:
        return dataclasses.replace(self, durable=True)


@dataclasses.dataclass(frozen=True)
class Queue:
    """Queue of a listener or topic.

    exchange     None: the default exchange, which routes to each queue by its name
    own          whether the queue is deleted when its listener ends
    """

    name: str
    key: str
    exchange: Exchange | None
    durable: bool
    auto_delete: bool
    arguments: common.FieldTable
    own: bool = False

    def as_durable(self) -> Queue:
        """Return the queue for a broker that refuses transient queues: a quorum queue with the same expiry.

        A durable classic queue would be unavailable while its node of a cluster is down.
        """
        if self.durable:
            return self
        return dataclasses.replace(self, exchange=self.exchange and self.exchange.as_durable(), durable=True,
                                   auto_delete=False, arguments={'x-queue-type': 'quorum', **self.arguments})


class Topology:
    """Exchanges and queues of topics.

    :param chosen: names of options that are set
    """

    def __init__(self, options: Options, chosen: Collection[str]) -> None:
        durable, quorum = (name in chosen and getattr(options, name) for name in DURABILITY_OPTIONS)
        self._durable = durable or quorum
        self._routes_durable = any(getattr(options, name) for name in DURABILITY_OPTIONS)
        self._auto_delete = options.amqp_auto_delete
        self._kept = _arguments(options, quorum, 0)
        self._notified = _arguments(options, options.rabbit_quorum_queue, 0)
        self._replicated = options.rabbit_transient_quorum_queue
        self._passing = _arguments(options, self._replicated, options.rabbit_transient_queues_ttl)

    def topics(self, exchange: str) -> Exchange:
        return Exchange(exchange, 'topic', self._routes_durable, self._auto_delete)

    def fanout(self, topic: str) -> Exchange:
        return Exchange(f'{topic}_fanout', 'fanout', self._replicated, True)

    def topic_queue(self, exchange: str, topic: str) -> Queue:
        return Queue(topic, topic, self.topics(exchange), self._durable, self._auto_delete, self._kept)

    def notification_queue(self, exchange: str, topic: str) -> Queue:
        """Return the queue with the properties that oslo.messaging's RabbitMQ driver declares."""
        return Queue(topic, topic, self.topics(exchange), self._routes_durable, self._auto_delete, self._notified)

    def fanout_queue(self, topic: str) -> Queue:
        return Queue(f'{topic}_fanout_{uuid.uuid4().hex}', topic, self.fanout(topic), self._replicated, False,
                     self._passing, own=True)

    def reply_queue(self, name: str) -> Queue:
        return Queue(name, '', None, self._replicated, False, self._passing)


def _arguments(options: Options, quorum: bool, expires: int) -> common.FieldTable:
    """Return the arguments of a queue's declaration.

    :param expires: seconds without a consumer, 0: never
    """
    found: common.FieldTable = {'x-queue-type': 'quorum'} if quorum else {}
    for name, option in (('x-delivery-limit', 'delivery_limit'), ('x-max-in-memory-length', 'max_memory_length'),
                         ('x-max-in-memory-bytes', 'max_memory_bytes')):
        value = getattr(options, f'rabbit_quorum_{option}')
        if quorum and value:
            found[name] = value
    if expires > 0:
        found['x-expires'] = expires * 1000
    return found
