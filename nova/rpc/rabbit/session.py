"""A session reconnects after a failure, restores subscriptions and sends unconfirmed messages again."""
from __future__ import annotations

from collections.abc import Callable
import itertools
import logging
import random
import threading
import time
from typing import ParamSpec

import oslo_messaging
from pamqp import base
from pamqp import commands
from pamqp import frame as pamqp_frame

from nova.rpc.rabbit import frames
from nova.rpc.rabbit import link as rabbit_link
from nova.rpc.rabbit import settings as rabbit_settings
from nova.runtime import concurrency

LOG = logging.getLogger(__name__)
P = ParamSpec('P')

ATTEMPT_S = 1                # minimum seconds between two attempts to reach a broker
REDELIVERY_INTERVAL_S = 0.5      # seconds between two attempts to deliver a message with a missing queue
SETTLE_S = 10                # seconds that other services may need to reconnect after a failure of the broker
IS_OTHERWISE = 406           # PRECONDITION_FAILED: the queue or exchange exists with other properties


class Message:
    """A message to publish; ``settle`` is called once with the outcome.

    :param exchange: exchange name; None: the default exchange
    :param mandatory: the broker returns the message if no queue takes it
    :param expires_ms: milliseconds after which a queue drops the message
    :param queue: a queue that has to be declared first
    """

    def __init__(self, exchange: rabbit_settings.Exchange | None, key: str, body: bytes, *, mandatory: bool,
                 expires_ms: int | None = None, queue: rabbit_settings.Queue | None = None) -> None:
        self.exchange, self.key, self.body = exchange, key, body
        self.mandatory, self.expires_ms, self.queue = mandatory, expires_ms, queue
        self.sent_at: float | None = None              # monotonic time of the last attempt to send; None: not sent
        self.failure: Exception | None = None          # why the broker returned it; set before the confirmation
        self.given_up = False                          # the caller has stopped waiting

    @property
    def exchange_name(self) -> str:
        return self.exchange.name if self.exchange else ''

    def settle(self, failure: Exception | None) -> None:
        """Report the final outcome; called by the reading thread, or by the sender's if the message cannot be encoded.

        :param failure: MessageUndeliverable, MessageDeliveryFailure; None: the broker has confirmed the message
        """

    def waits(self, session: Session) -> bool:
        """Return whether to send a returned message again; called by the reading thread."""
        return session.settling


class Subscription:
    """Queues that a listener consumes; see Session.subscribe."""

    def __init__(self, queues: tuple[rabbit_settings.Queue, ...], deliver: rabbit_link.Deliver) -> None:
        self.queues, self.deliver = queues, deliver
        self.tags: dict[str, str] = {}                 # {queue: consumer tag}
        self.started = self.stopped = False
        self.declared_on: rabbit_link.Link | None = None
        self.consumed_on: rabbit_link.Link | None = None
        self.declared_again: Callable[[], None] | None = None


class Session:
    """Session with a broker.

    :param settings: settings.Settings
    """

    def __init__(self, settings: rabbit_settings.Settings) -> None:
        self._settings = settings
        self._state = threading.Condition(threading.RLock())
        self._link: rabbit_link.Link | None = None     # the connection, once all queues are declared on it
        self._takes = True
        self._thread: threading.Thread | None = None
        self._closed = False
        self.attempts, self.last_error = 0, 'there was no attempt yet'       # number of attempts to connect
        self._tried = -float('inf')
        self._wanted = threading.Event()               # set if a caller waits for a broker
        self._subscriptions: list[Subscription] = []
        self._tags = itertools.count(1)
        self._number = 1                               # number of the next message on this connection
        self._unconfirmed: dict[int, Message] = {}
        self._parked: dict[int, Message] = {}          # {id: message} of messages that wait for a connection
        self._suspects: list[Message] = []             # one of these messages made the broker close the channel
        self._undelivered: list[Message] = []          # returned messages, sent again after REDELIVERY_INTERVAL_S
        self._redelivers = False
        self._first = True
        self._connected_at: float | None = None        # time of the last reconnection
        # names of the queues and exchanges that were declared for messages on this connection
        self._declared: set[str] = set()
        self._declares = True
        self._durable = False                          # the broker refuses transient queues

    # ---- publishing

    def publish(self, message: Message) -> None:
        """Send a message now, or as soon as a broker takes it. A message that was withdrawn is not sent."""
        with self._state:
            if message.given_up:
                return
            self._begin()
            if self._link is not None and self._takes:
                self._write(self._link, message)
            else:
                self._parked[id(message)] = message
                self._wanted.set()

    def withdraw(self, message: Message) -> bool:
        """Cancel a message; return True if it was still waiting for a broker."""
        with self._state:
            message.given_up = True
            return self._parked.pop(id(message), None) is not None

    def _write(self, link: rabbit_link.Link, message: Message) -> None:
        number = self._number
        try:
            data = frames.publish(
                rabbit_link.PUBLISHING, message.exchange_name, message.key, message.body, number,
                mandatory=message.mandatory, expires_ms=message.expires_ms, limit=link.limit)
        except ValueError as error:
            message.settle(oslo_messaging.MessageDeliveryFailure(str(error)))
            return
        # Only a message that is written takes a number, because the broker counts the messages that it receives.
        self._number += 1
        self._unconfirmed[number] = message
        message.sent_at = time.monotonic()
        try:
            link.write(self._declarations(message) + data)
        except OSError as error:                       # the next connection sends the message
            LOG.debug('A message waits for the next connection: %s', error)

    def _declarations(self, message: Message) -> bytes:
        """Return the frames that declare a message's exchange and queue without an answer by the broker (nowait)."""
        wanted: list[base.Frame] = []
        exchange, queue = message.exchange, message.queue
        if self._durable:
            exchange, queue = exchange and exchange.as_durable(), queue and queue.as_durable()
        if exchange is not None and self._declares and exchange.name not in self._declared:
            wanted.append(_declaration(exchange, nowait=True))
            if not exchange.auto_delete:               # declare an auto-delete exchange each time
                self._declared.add(exchange.name)
        if queue is not None and exchange is not None and self._declares and queue.name not in self._declared:
            self._declared.add(queue.name)
            wanted += [_queue_declaration(queue, nowait=True),
                       commands.Queue.Bind(0, queue.name, exchange.name, queue.key, True)]
        return b''.join(pamqp_frame.marshal(each, rabbit_link.PUBLISHING) for each in wanted)

    def _confirmed(self, unconfirmed: dict[int, Message], number: int, multiple: bool, taken: bool) -> None:
        numbers = itertools.takewhile(lambda each: each <= number, list(unconfirmed)) if multiple else (number,)
        for each in numbers:
            message = unconfirmed.pop(each, None)
            if message is not None:
                failure, message.failure = message.failure, None
                if failure is not None and message.waits(self):
                    self._deliver_later(message)
                    continue
                message.settle(failure or (None if taken else oslo_messaging.MessageDeliveryFailure(
                    'The broker could not keep the message.')))

    def _returned(self, unconfirmed: dict[int, Message], header: bytes, code: int, text: str) -> None:
        message = unconfirmed.get(frames.number_of(header) or 0)
        if message is not None:
            message.failure = oslo_messaging.MessageUndeliverable(f'{code} {text}', message.exchange_name, message.key,
                                                                  None)

    @property
    def settling(self) -> bool:
        """Return whether this process has just reconnected: other services may not have redeclared their queues yet."""
        return self._connected_at is not None and time.monotonic() - self._connected_at < SETTLE_S

    def _deliver_later(self, message: Message) -> None:
        with self._state:
            self._undelivered.append(message)
            self._redelivers = self._redelivers or concurrency.try_spawn('rabbit-undelivered', self._deliver_again)

    def _deliver_again(self) -> None:
        while True:
            time.sleep(REDELIVERY_INTERVAL_S)
            with self._state:
                waiting, self._undelivered = self._undelivered, []
                self._redelivers = bool(waiting) and not self._closed
                if not self._redelivers:
                    return
            for message in waiting:
                self.publish(message)

    def _taking(self, takes: bool) -> None:
        """Handle a change of the broker's memory alarm."""
        (LOG.info if takes else LOG.error)('The broker %s messages.', 'accepts' if takes else 'does not accept')
        with self._state:
            self._takes = takes
            self.last_error = self.last_error if takes else 'it has a memory or disk alarm'
            if takes and self._link is not None:
                self._unpark(self._link)

    def _unpark(self, link: rabbit_link.Link) -> None:
        parked, self._parked = self._parked, {}
        for message in parked.values():
            self._write(link, message)

    # ---- subscriptions

    def subscribe(self, queues: tuple[rabbit_settings.Queue, ...], deliver: rabbit_link.Deliver,
                  wait: bool = True) -> Subscription:
        """Declare queues; ``start`` begins to consume them.

        On a new connection the queues are declared before messages are sent.

        :param wait: wait for a broker, without a limit
        :param deliver: runs in the reading thread
        :raises MessageDeliveryFailure: the broker refuses the subscription
        """
        made = Subscription(queues, deliver)
        with self._state:
            self._begin()
            self._subscriptions.append(made)
            link = self._link
        if link is not None:
            try:
                self._declare(link, made)
            except rabbit_link.Refused as error:
                self._forget(made)
                raise oslo_messaging.MessageDeliveryFailure(str(error)) from error
            except OSError as error:
                LOG.debug('A subscription waits for the next connection: %s', error)
        self._wanted.set()
        with self._state:
            self._state.wait_for(lambda: not wait or self._closed or made.declared_on is not None)
        return made

    def start(self, subscription: Subscription) -> None:
        with self._state:
            subscription.started = True
            link = self._link
        if link is not None and subscription.declared_on is link:
            self._unless_gone(self._consume, link, subscription)

    def stop(self, subscription: Subscription) -> None:
        """Cancel the consumers; messages in transit are requeued."""
        subscription.stopped = True
        self._forget(subscription)
        link = self._link
        if link is not None and subscription.consumed_on is link:
            for tag in subscription.tags.values():
                self._unless_gone(link.cancel, tag)

    def end(self, subscription: Subscription) -> None:
        """Delete the queues that belong only to the subscription."""
        link = self._link
        for queue in subscription.queues:
            if queue.own and link is not None and subscription.declared_on is link:
                self._unless_gone(link.ask, rabbit_link.DECLARING, commands.Queue.Delete(0, queue.name))

    def _forget(self, subscription: Subscription) -> None:
        with self._state:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)

    def _unless_gone(self, function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except (OSError, rabbit_link.Refused) as error:
            LOG.info('The broker did not answer: %s', error)

    def _declare(self, link: rabbit_link.Link, subscription: Subscription) -> None:
        for queue in subscription.queues:
            queue = queue.as_durable() if self._durable else queue
            _ensure(link, _queue_declaration, queue, queue.name)
            if queue.exchange is not None:
                _ensure(link, _declaration, queue.exchange, queue.exchange.name)
                link.ask(rabbit_link.DECLARING, commands.Queue.Bind(0, queue.name, queue.exchange.name, queue.key))
        with self._state:
            if self._link in (None, link):             # not if a newer link has replaced this link
                subscription.declared_on = link
                self._state.notify_all()

    def _consume(self, link: rabbit_link.Link, subscription: Subscription) -> None:
        with self._state:
            if subscription.consumed_on is link or subscription.stopped:
                return
            subscription.consumed_on = link
        for queue in subscription.queues:
            tag = subscription.tags[queue.name] = str(next(self._tags))
            link.consume(queue.name, tag, subscription.deliver)

    # ---- the connection

    def _begin(self) -> None:
        if self._thread is None and not self._closed:
            self._wanted.set()
            self._thread = concurrency.spawn('rabbit', self._run)

    def _run(self) -> None:
        brokers, failures = list(self._settings.brokers), 0
        random.shuffle(brokers)
        for broker in itertools.cycle(brokers):
            if self._closed:
                return
            self._tried, began = time.monotonic(), self.attempts
            declarations = self._declares, self._durable
            try:
                self._serve(broker)
            except rabbit_link.TransientQueuesRefused as error:
                self._durable = True
                LOG.info('The broker %s:%s refuses transient queues; quorum queues are declared instead: %s',
                         broker.host, broker.port, error)
            except (OSError, rabbit_link.Refused) as error:
                self._log(broker, error)
            except Exception:
                LOG.exception('The connection to the broker %s:%s ended.', broker.host, broker.port)
            failures = failures + 1 if self.attempts > began else 0
            if declarations == (self._declares, self._durable):  # after a change of the declarations, retry now
                self._pause(failures, len(brokers))

    def _log(self, broker: rabbit_settings.Broker, error: Exception) -> None:
        self.last_error = f'{broker.host}:{broker.port}: {error}'
        if not self._closed:
            LOG.error('The broker %s:%s is unavailable: %s. Trying again.', broker.host, broker.port, error)

    def _pause(self, failures: int, brokers: int) -> None:
        """Wait before the next attempt to connect, or until a caller needs a connection."""
        settings = self._settings
        rounds = failures // brokers
        if failures % brokers == 0 and not self._closed:
            pause = min(settings.pause + max(0, rounds - 1) * settings.longer, settings.longest) if failures else 0
            self._wanted.clear()
            if self._parked:
                self._wanted.set()
            self._wanted.wait(pause + random.uniform(0, settings.splay))       # nosec: no secret
            time.sleep(max(0, self._tried + ATTEMPT_S - time.monotonic()))

    def _serve(self, broker: rabbit_settings.Broker) -> None:
        """Connect, declare, send unconfirmed messages, and read until the connection fails.

        :raises OSError, Refused: reason of the failure
        """
        unconfirmed: dict[int, Message] = {}
        try:
            made = rabbit_link.Link(
                broker, self._settings, confirmed=lambda *args: self._confirmed(unconfirmed, *args),
                returned=lambda *args: self._returned(unconfirmed, *args), takes=self._taking)
        except (OSError, rabbit_link.Refused):
            self.attempts += 1
            raise
        self._takes = True
        self._connected_at = None if self._first else time.monotonic()
        try:
            self._prepare(made, unconfirmed)
            self._first = False
            LOG.info('Connected to the broker %s:%s.', broker.host, broker.port)
            made.run()
        except rabbit_link.Refused as error:
            self._declares = self._declares and error.code != IS_OTHERWISE
            with self._state:
                self._suspects = [*self._suspects, *self._unconfirmed.values()]
                self._unconfirmed = {}
            raise
        finally:
            with self._state:
                self._link = None
            made.close(ConnectionError('The connection has ended.'))

    def _prepare(self, made: rabbit_link.Link, unconfirmed: dict[int, Message]) -> None:
        with self._state:
            waiting = {id(message): message for message in self._unconfirmed.values() if not message.given_up}
            self._unconfirmed, self._number, self._declared = unconfirmed, 1, set()
            self._parked = waiting | self._parked
        while self._suspects:
            if self._suspects[0].given_up:
                del self._suspects[0]
            else:
                self._try(made, self._suspects[0])
        while True:
            with self._state:
                missing = [each for each in self._subscriptions if each.declared_on is not made or (
                    each.started and each.consumed_on is not made)]
                if not missing:
                    self._link = made
                    self._unpark(made)
                    break
            for each in missing:
                if each.declared_on is not made:
                    known = each.declared_on is not None
                    self._declare(made, each)
                    if known and each.declared_again is not None:
                        each.declared_again()
                if each.started:
                    self._consume(made, each)
        with self._state:
            self._state.notify_all()

    def _try(self, made: rabbit_link.Link, message: Message) -> None:
        """Send one suspect message and wait for its confirmation: the broker may refuse it and close the channel.

        :raises Refused: the broker closed the channel
        """
        before = len(self._unconfirmed)
        self._write(made, message)
        try:
            made.read_until(lambda: len(self._unconfirmed) == before)
        except rabbit_link.Refused as error:
            # IS_OTHERWISE: the broker refused a declaration; the next connection sends the message without declarations
            if error.code != IS_OTHERWISE:
                self._suspects.remove(message)
                message.settle(oslo_messaging.MessageDeliveryFailure(str(error)))
            self._unconfirmed.clear()
            raise
        self._suspects.remove(message)

    def close(self) -> None:
        with self._state:
            self._closed = True
            link = self._link
            self._state.notify_all()
        self._wanted.set()
        if link is not None:
            link.leave()


def _declaration(exchange: rabbit_settings.Exchange, passive: bool = False, nowait: bool = False) -> base.Frame:
    return commands.Exchange.Declare(0, exchange.name, exchange.kind, passive, exchange.durable, exchange.auto_delete,
                                     False, nowait, {})


def _queue_declaration(queue: rabbit_settings.Queue, passive: bool = False, nowait: bool = False) -> base.Frame:
    return commands.Queue.Declare(0, queue.name, passive, queue.durable, False, queue.auto_delete, nowait,
                                  queue.arguments)


def _ensure(link: rabbit_link.Link, declaration: Callable[..., base.Frame],
            wanted: rabbit_settings.Exchange | rabbit_settings.Queue, name: str) -> None:
    """Declare a queue or exchange. An existing queue or exchange with other properties is used unchanged.

    :raises Refused: the broker does not allow it
    """
    try:
        link.ask(rabbit_link.DECLARING, declaration(wanted))
    except rabbit_link.Refused as error:
        if error.code != IS_OTHERWISE:
            raise
        LOG.warning('%s exists with other properties than those of the options, and is used unchanged: %s', name,
                    error)
        link.ask(rabbit_link.DECLARING, declaration(wanted, passive=True))
