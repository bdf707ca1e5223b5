"""The oslo.messaging driver ``nova-rabbit``: one connection for each process; no message waits for another's reply."""
from collections.abc import Callable, Iterable, Sequence
import logging
import threading
import time
from typing import NoReturn
import uuid

from oslo_config import cfg
import oslo_messaging

from nova.json_types import Json
from nova.json_types import JsonObject
from nova.rpc.delivery import ExcInfo
from nova.rpc.rabbit import envelope
from nova.rpc.rabbit import frames
from nova.rpc.rabbit import session as rabbit_session
from nova.rpc.rabbit import settings as rabbit_settings
from nova.runtime.hooks import oslo_messaging as messaging_hooks

LOG = logging.getLogger(__name__)

CONFIRM_S = 30               # seconds after which an unconfirmed message fails
CONNECTION_POLL_INTERVAL_S = 0.25      # seconds between two checks whether there is a connection
LONGEST_WAIT_S = 3600.0


class Sent(rabbit_session.Message):
    """A message; its sender waits for the confirmation of the broker."""

    def __init__(self, exchange: rabbit_settings.Exchange, key: str, body: bytes, *, mandatory: bool,
                 expires_ms: int | None = None, queue: rabbit_settings.Queue | None = None) -> None:
        super().__init__(exchange, key, body, mandatory=mandatory, expires_ms=expires_ms, queue=queue)
        self.settled = threading.Event()
        self.error: Exception | None = None

    def settle(self, failure: Exception | None) -> None:
        self.error = failure
        self.settled.set()


class Call(Sent):
    """A call: its sender waits for the reply.

    :param monitored: seconds without a heartbeat after which the receiver is considered dead; None: no heartbeats
    """

    def __init__(self, exchange: rabbit_settings.Exchange, key: str, body: bytes, *, mandatory: bool,
                 expires_ms: int | None, monitored: float | None) -> None:
        super().__init__(exchange, key, body, mandatory=mandatory, expires_ms=expires_ms)
        self.monitored = monitored
        self.heard = time.monotonic()
        self.answer: JsonObject = {}

    def settle(self, failure: Exception | None) -> None:
        if failure is not None:  # a successful call ends with the reply, not with the confirmation
            super().settle(failure)

    def answered(self, answer: JsonObject) -> None:
        self.heard = time.monotonic()
        if answer.get('ending'):
            self.answer = answer
            self.settled.set()


class Replies:
    """The reply queue of this process.

    :param prefetch: see Settings
    """

    def __init__(self, session: rabbit_session.Session, topology: rabbit_settings.Topology, host: str,
                 prefetch: int) -> None:
        self._session, self._topology, self._host = session, topology, host
        self._calls: dict[str, Call] = {}
        self._numbers = envelope.Numbers(prefetch)
        self._lock = threading.Lock()
        self._queue: str | None = None

    @property
    def queue(self) -> str:
        """The name of the reply queue, which is declared before the session sends the next message."""
        with self._lock:
            if self._queue is None:
                queue = self._topology.reply_queue(f'reply_{self._host}{uuid.uuid4().hex}')
                self._session.start(self._session.subscribe((queue,), self._take, wait=False))
                self._queue = queue.name
            return self._queue

    def expect(self, number: str, call: Call) -> None:
        self._calls[number] = call

    def forget(self, number: str) -> None:
        self._calls.pop(number, None)

    def _take(self, body: bytes, acknowledge: Callable[[], None]) -> bool:
        acknowledge()
        try:
            answer = envelope.unpack(body)
        except ValueError as error:
            LOG.error('An unreadable reply was dropped: %s', error)
            return True
        call = self._calls.get(str(answer.get(envelope.CALL)))
        if call is None:
            LOG.debug('No call waits for the reply to %s.', answer.get(envelope.CALL))
        elif self._numbers.is_new(answer):
            call.answered(answer)
        return True


class Reply(rabbit_session.Message):
    """A reply. While its queue is missing it is sent again, because callers redeclare queues after a broker's restart.

    :param expiry_s: seconds after which the reply is dropped
    """

    def __init__(self, queue: str, body: bytes, expiry_s: float) -> None:
        super().__init__(None, queue, body, mandatory=True)
        self._until = time.monotonic() + expiry_s
        self.settled = False   # True: the broker has the reply, or the reply was dropped
        self.returned = False  # True: the reply was dropped, because its queue was missing until the expiry

    def waits(self, session: rabbit_session.Session) -> bool:
        return time.monotonic() < self._until

    def settle(self, failure: Exception | None) -> None:
        self.returned = isinstance(failure, oslo_messaging.MessageUndeliverable)
        self.settled = True    # last: another thread that reads True reads the final value of the other one
        if failure is not None:
            LOG.error('A reply to the queue %s was dropped: %s', self.key,
                      getattr(failure, 'exception', failure))


class Answers:
    """Sender of this process's replies.

    :param expiry_s: see Reply
    """

    def __init__(self, session: rabbit_session.Session, expiry_s: float) -> None:
        self._session, self._expiry_s = session, expiry_s

    def send(self, queue: str, body: bytes) -> Reply:
        reply = Reply(queue, body, self._expiry_s)
        self._session.publish(reply)
        return reply


class Incoming(messaging_hooks.BaseIncoming):
    """A message for a server of this process.

    :param acknowledge: function that tells the broker that the message has a worker, or that one is expected soon
    """

    def __init__(self, answers: Answers, inner: JsonObject, acknowledge: Callable[[], None]) -> None:
        number, queue = inner.pop(envelope.CALL, None), inner.pop(envelope.REPLIES, None)
        timeout = inner.pop(envelope.MONITORED, None)
        super().__init__(*envelope.parts(inner), msg_id=number)
        # a queue of another type, or with a name that AMQP does not allow, cannot exist: the message gets no reply
        self._queue = queue if isinstance(queue, str) and len(queue.encode()) <= frames.MAX_NAME else None
        self.client_timeout = timeout if self._queue else None
        self._number, self._answers, self._acknowledge = number, answers, acknowledge
        self._sign_of_life: Reply | None = None

    def _send(self, result: Json, failure: str | None, ending: bool) -> Reply:
        return self._answers.send(self._queue or '', envelope.pack(
            {'result': result, 'failure': failure, 'ending': ending, envelope.CALL: self._number}))

    def reply(self, reply: Json = None, failure: ExcInfo | None = None) -> None:
        if self._number and self._queue:
            self._send(reply, messaging_hooks.serialize_exception(failure) if failure else None, True)

    def heartbeat(self) -> None:
        """Send a heartbeat to the caller, unless the session is still delivering the last one.

        :raises MessageDeliveryFailure: the last heartbeat could not be delivered
        """
        last = self._sign_of_life
        if last is not None and not last.settled:
            return
        if last is not None and last.returned:
            raise oslo_messaging.MessageDeliveryFailure('The caller no longer waits for the reply.')
        self._sign_of_life = self._send(None, None, False)

    def acknowledge(self) -> None:
        """Acknowledge the message, unless it is acknowledged; see priorities.Pools.submit."""
        self._acknowledge()

    def requeue(self) -> None:
        """Raise an error: received messages cannot be requeued."""
        raise NotImplementedError('A received message cannot be requeued.')


class Listener(messaging_hooks.BaseListener):
    """A server's subscription.

    :param prefetch: see Settings
    """

    def __init__(self, session: rabbit_session.Session, answers: Answers, queues: tuple[rabbit_settings.Queue, ...],
                 batch_size: int, batch_timeout: float | None, prefetch: int) -> None:
        super().__init__(batch_size, batch_timeout)
        self._session, self._answers = session, answers
        self._numbers, self._stopped = envelope.Numbers(len(queues) * prefetch), False
        self._subscription = session.subscribe(queues, self._take)

    def follow(self, again: Callable[[], None]) -> None:
        """Call ``again()``, which must not block, after each redeclaration of the queues."""
        self._subscription.declared_again = again

    def start(self, on_incoming_callback: Callable[[list[Incoming]], object]) -> None:
        super().start(on_incoming_callback)
        self._session.start(self._subscription)

    def _take(self, body: bytes, acknowledge: Callable[[], None]) -> bool:
        if self._stopped:
            return False
        try:
            inner = envelope.unpack(body)
        except ValueError as error:
            LOG.error('An unreadable message was dropped: %s', error)
            acknowledge()
            return True
        if not self._numbers.is_new(inner):
            acknowledge()
            return True
        try:
            self.on_incoming_callback([Incoming(self._answers, inner, acknowledge)])
        except RuntimeError as error:                  # the thread pool of the server has ended
            LOG.debug('A message was not taken: %s', error)
            return False
        return True

    def stop(self) -> None:
        self._stopped = True
        self._session.stop(self._subscription)
        super().stop()

    def cleanup(self) -> None:
        self._session.end(self._subscription)


class Driver(messaging_hooks.BaseDriver):
    """Driver class, registered as ``nova-rabbit`` among the oslo.messaging drivers.

    :raises RuntimeError: an option of [oslo_messaging_rabbit] is not supported
    """

    def __init__(self, conf: cfg.ConfigOpts, url: oslo_messaging.TransportURL, default_exchange: str = '',
                 allowed_remote_exmods: Sequence[str] | None = None) -> None:
        options = messaging_hooks.rabbit_options(conf, url)
        super().__init__(conf, url, default_exchange, allowed_remote_exmods)
        self._exchange, self._exceptions = default_exchange, allowed_remote_exmods or []
        chosen = {name for name in rabbit_settings.DURABILITY_OPTIONS if name in url.query or _is_set(conf, name)}
        self._topology = rabbit_settings.Topology(options, chosen)
        self._settings = rabbit_settings.of(options, url)
        self._session = rabbit_session.Session(self._settings)
        self._answers = Answers(self._session, self._settings.expiry_s)
        self.name_replies('')

    def name_replies(self, prefix: str) -> None:
        """Name the reply queue ``reply_<prefix><random id>``. Call this method before the first RPC call."""
        self._replies = Replies(self._session, self._topology, prefix, self._settings.prefetch)

    @property
    def reply_queue(self) -> str:
        """The name of the reply queue."""
        return self._replies.queue

    def send(self, target: oslo_messaging.Target, ctxt: JsonObject, message: JsonObject,
             wait_for_reply: bool | None = None, timeout: float | None = None,
             call_monitor_timeout: float | None = None, retry: int | None = None,
             transport_options: oslo_messaging.TransportOptions | None = None) -> Json:
        """Send a message; return the reply of a call.

        :raises MessageUndeliverable: there is no such queue, and the options require one
        :raises MessageDeliveryFailure: there is no broker, or it does not take the message in time
        :raises MessagingTimeout: no reply
        """
        exchange, key = self._address(target)
        mandatory = bool(transport_options and transport_options.at_least_once)
        if not wait_for_reply:
            sent = Sent(exchange, key, envelope.pack(message, ctxt), mandatory=mandatory)
            self._session.publish(sent)
            self._wait(sent, retry)
            return None
        number = uuid.uuid4().hex
        call = Call(exchange, key, envelope.pack(message, ctxt, **{
            envelope.CALL: number, envelope.REPLIES: self.reply_queue, envelope.MONITORED: call_monitor_timeout}),
            monitored=call_monitor_timeout, expires_ms=None if timeout is None else int(timeout * 1000),
            mandatory=mandatory)
        self._replies.expect(number, call)
        try:
            self._session.publish(call)
            self._wait(call, retry, timeout)
        finally:
            self._replies.forget(number)
        if call.answer.get('failure'):
            raise messaging_hooks.deserialize_exception(call.answer['failure'], self._exceptions)
        return call.answer.get('result')

    def _address(self, target: oslo_messaging.Target) -> tuple[rabbit_settings.Exchange, str]:
        if target.fanout:
            return self._topology.fanout(target.topic), ''
        exchange = self._topology.topics(target.exchange or self._exchange)
        return exchange, f'{target.topic}.{target.server}' if target.server else target.topic

    def _wait(self, sent: Sent, retry: int | None, timeout: float | None = None) -> None:
        """Wait until the message is confirmed, answered or failed.

        :param retry: attempts to reach a broker; None and below 0: unlimited
        :param timeout: seconds until the reply; None: unlimited
        """
        begun, attempts = time.monotonic(), self._session.attempts
        for_ever = retry is None or retry < 0
        wait_s = 0.0 if for_ever else self._settings.waited(retry or 0)
        while not sent.settled.wait(self._left(sent, begun, timeout)):
            now, tried = time.monotonic(), self._session.attempts - attempts
            unreachable = tried and (now - begun >= wait_s or tried > (retry or 0))
            # a connected broker may have a memory or disk alarm, or refuse the queues of this process
            if sent.sent_at is None and not for_ever and (unreachable or now - begun >= wait_s + CONFIRM_S):
                if self._session.withdraw(sent):
                    raise oslo_messaging.MessageDeliveryFailure(
                        f'No broker takes the message: {self._session.last_error}')
            elif self._left(sent, begun, timeout) == 0:
                self._session.withdraw(sent)
                self._fail(sent)
        if sent.error is not None:
            raise sent.error

    def _left(self, sent: Sent, begun: float, timeout: float | None) -> float:
        """Return the seconds until a message may time out; 0: it has timed out."""
        ends = [] if timeout is None else [begun + timeout]
        if not isinstance(sent, Call):
            ends += [] if sent.sent_at is None else [sent.sent_at + CONFIRM_S]
        elif sent.monitored:
            ends.append(max(sent.heard, sent.sent_at or begun) + sent.monitored)
        left = max(0.0, min(ends, default=float('inf')) - time.monotonic())
        return min(left, CONNECTION_POLL_INTERVAL_S if sent.sent_at is None else LONGEST_WAIT_S)

    def _fail(self, sent: Sent) -> NoReturn:
        if isinstance(sent, Call):
            raise oslo_messaging.MessagingTimeout(f'No reply from {sent.key}.')
        raise oslo_messaging.MessageDeliveryFailure(f'The broker has not confirmed a message to {sent.key}.')

    def send_notification(self, target: oslo_messaging.Target, ctxt: JsonObject, message: JsonObject, version: float,
                          retry: int | None = None) -> None:
        """Send a notification to the queue of its topic; declare the queue, because consumers may connect later.

        :raises MessageDeliveryFailure: there is no broker, or it does not take the message
        """
        exchange = self._topology.topics(target.exchange or self._exchange)
        sent = Sent(exchange, target.topic, envelope.pack(message, ctxt), mandatory=False,
                    queue=self._topology.notification_queue(exchange.name, target.topic))
        self._session.publish(sent)
        self._wait(sent, retry)

    def listen(self, target: oslo_messaging.Target, batch_size: int, batch_timeout: float | None) -> Listener:
        exchange = target.exchange or self._exchange
        return Listener(self._session, self._answers, (
            self._topology.topic_queue(exchange, target.topic),
            self._topology.topic_queue(exchange, f'{target.topic}.{target.server}'),
            self._topology.fanout_queue(target.topic)), batch_size, batch_timeout, self._settings.prefetch)

    def listen_for_notifications(self, targets_and_priorities: Iterable[tuple[oslo_messaging.Target, str]],
                                 pool: str | None, batch_size: int, batch_timeout: float | None) -> NoReturn:
        raise NotImplementedError('This driver cannot read notifications: use a transport URL rabbit://.')

    def cleanup(self) -> None:
        self._session.close()


def _is_set(conf: cfg.ConfigOpts, name: str) -> bool:
    """Return whether an option is set, possibly to its default value."""
    found = conf.get_location(name, messaging_hooks.RABBIT_GROUP)
    return found is not None and found.location not in (cfg.Locations.opt_default, cfg.Locations.set_default)
