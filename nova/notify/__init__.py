"""Notifications over oslo.messaging, in the versioned and the older form.

    notifier = notify.new(conf)
    with db.writer() as conn:
        row = …
        if notifier.on:
            notifier.record(conn, ctx, 'instance.power_off', 'end', row, host='host1')

Pass ``record`` the row as it is at the end of the transaction; the event is queued after the commit. Events of one
server keep the order of their commits. ``publish`` queues an event without a transaction. A thread of the notifier
renders and sends the queued events. While the broker is unavailable, the thread waits. If the queue is full, further
events are dropped and counted; events that are unsent when the process ends are lost. An event is sent at most once in
each form. A failure to send an event does not fail the operation.

Without a driver in [oslo_messaging_notifications] there is no notifier: ``on`` is False, no event is created or queued,
and no data is read for events.
"""
from __future__ import annotations

import atexit
import collections
import functools
import logging
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, TYPE_CHECKING

from oslo_config import cfg

from nova import context as nova_context
from nova.json_types import JsonObject
from nova.notify import cadf
from nova.notify import events
from nova.notify import legacy
from nova.notify import payloads
from nova.notify.event import Initiator
from nova.notify.event import Event
from nova.notify.event import Row
from nova.notify.event import States
from nova.runtime import commits
from nova.runtime import concurrency
from nova.runtime import metrics
from nova.runtime import queues

if TYPE_CHECKING:
    import oslo_messaging

# (form, context, publisher, event type, phase, payload)
Message = tuple[str, JsonObject, str, str, str | None, JsonObject]

LOG = logging.getLogger(__name__)

QUEUE = 10_000            # events that wait for the broker
LOG_S = 60                # seconds between two log lines about dropped events
FLUSH_TIMEOUT_S = 2                # seconds to send the queued events when the process ends
IDLE_S = 5                # seconds without an event after which the thread ends
OFF_DRIVERS = ('', 'noop')
# fields of the caller's context; never the token
_CONTEXT = ('request_id', 'global_request_id', 'user_id', 'project_id', 'user_domain_id', 'project_domain_id',
            'is_admin', 'roles')


class NoNotifier:
    """Notifier that sends no notifications."""

    on: Literal[False] = False

    def publish_seal(self, name: str, seal: str) -> None:
        pass

    def stop(self, timeout: float = 0) -> None:
        pass


OFF = NoNotifier()


def new(conf: cfg.ConfigOpts, binary: str = events.API) -> Notifier | NoNotifier:
    """Return the notifier of a configuration; OFF if it names no driver.

    :param binary: publishing service
    :raises InvalidInput: the driver needs a broker, and there is no transport_url
    """
    return Notifier(conf, _senders(conf), binary) if wanted(conf) else OFF


def wanted(conf: cfg.ConfigOpts) -> bool:
    """Return whether a configuration names a driver."""
    from nova.rpc import bus
    bus.register_options(conf)
    return any(name not in OFF_DRIVERS for name in conf.oslo_messaging_notifications.driver or ())


def _senders(conf: cfg.ConfigOpts) -> dict[str, oslo_messaging.Notifier]:
    """Return the senders of the configured forms."""
    import oslo_messaging

    from nova import exception
    from nova.rpc import transport_url

    wanted_form, options = conf.notifications.notification_format, conf.oslo_messaging_notifications
    url = options.transport_url or conf.transport_url
    if not url and any(name.startswith('messaging') for name in options.driver):
        raise exception.InvalidInput(reason='[oslo_messaging_notifications] names a driver that needs a broker: set '
                                            'transport_url there, or in [DEFAULT].')
    transport = oslo_messaging.get_notification_transport(conf, transport_url.parse(conf, url or 'fake://'))
    topics = {'versioned': conf.notifications.versioned_notifications_topics, 'unversioned': options.topics}
    # with -1 (unlimited retries), the RabbitMQ driver would not retry its first connection
    retry = options.retry if options.retry >= 0 else sys.maxsize
    return {form: oslo_messaging.Notifier(transport, topics=names, retry=retry)
            for form, names in topics.items() if wanted_form in (form, 'both')}


class _Caller(JsonObject):
    """Context of a message, as a dictionary. oslo.messaging sends only contexts that have ``redacted_copy``."""

    def redacted_copy(self) -> JsonObject:
        return dict(self)


class Notifier:
    """Renders and sends notifications.

    :param senders: {form: sender}; the forms are 'versioned' and 'unversioned'
    :param binary: publishing service
    :ivar counts: number of events by result: 'sent' (passed to oslo.messaging, which logs failed deliveries), 'dropped'
        (the queue was full) and 'failed' (not rendered or not passed on)
    """

    on: Literal[True] = True

    def __init__(self, conf: cfg.ConfigOpts, senders: Mapping[str, oslo_messaging.Notifier],
                 binary: str = events.API) -> None:
        options = conf.notifications
        self.devices, self.shares = options.bdms_in_notifications, options.include_share_mapping
        self.states = {None: (), 'vm_state': ('vm_state',), 'vm_and_task_state': ('vm_state', 'task_state')}[
            options.notify_on_state_change]
        self.host, self.binary = conf.host, binary
        self.counts: collections.Counter[str] = collections.Counter()
        self._senders = senders
        self._order = commits.OrderedCallbacks()
        self._waiting: queue.Queue[tuple[Callable[..., list[Message]], tuple[Any, ...]]] = queue.Queue(QUEUE)
        queues.watch(queues.NOTIFICATIONS, self, lambda each: queues.Size(each.waiting, 0))
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._stopped, self._logged = False, float('-inf')

    def record(self, conn: commits.Connection, ctx: nova_context.RequestContext, name: str, phase: str | None, row: Row,
               host: str | None = None, by: str | None = None, action: str | None = None,
               server_uuid: str | None = None, **about: object) -> None:
        """Queue an event of a server when the transaction is committed.

        The transaction must have locked the server's row.

        :param name, phase: of a row of events.EVENTS
        :param row: the columns of the server at the end of the transaction; they must not change later
        :param host: host of the event; None: this one
        :param by: binary in the publisher's id; None: the event's
        :param action: name of the event's action
        :param server_uuid: required if the row is not the server's
        :param about: fields of payloads.Subject in addition to the columns
        """
        uuid = server_uuid or row['uuid']
        event = Event(name, phase, uuid, row, action, Initiator(ctx, by, host), about)
        self._order.add(conn, uuid, functools.partial(self._put, self._render, event))

    def publish(self, ctx: nova_context.RequestContext | None, name: str, phase: str | None, row: Row,
                host: str | None = None, by: str | None = None, **about: object) -> None:
        """Queue an event outside of a transaction; for the parameters see ``record``.

        :param ctx: None: the service acts without a request
        """
        by_whom = Initiator(ctx or nova_context.admin_context(), by, host)
        self._put(self._render, Event(name, phase, None, row, None, by_whom, about))

    def _render(self, event: Event) -> list[Message]:
        """Return [(form, context, publisher, event type, phase, payload)] of the messages of an event."""
        row, ctx = events.EVENTS[event.name], event.by.ctx
        subject = payloads.Subject(ctx, event.row, event.about)
        context = _Caller((key, getattr(ctx, key, None)) for key in _CONTEXT)
        binary, host = event.by.binary or row.by, event.by.host or self.host
        messages: list[Message] = []
        if 'versioned' in self._senders:
            messages.append(('versioned', context, f'{binary}:{host}', events.typed(event.name, event.phase),
                             event.phase, payloads.build(row.payload, subject)))
        old = row.old_type(event.phase)
        if 'unversioned' in self._senders and old:
            messages.append(('unversioned', context, f'{binary.removeprefix("nova-")}.{host}', old, event.phase,
                             legacy.build(row.payload, subject)))
        return messages

    def publish_audit(self, row: Row) -> None:
        """Queue an audit record as a CADF event. If both forms are sent, only the unversioned topics get the event.

        :param row: of the table audit_records
        """
        self._put(self._render_cadf, cadf.EVENT, row['request_id'], functools.partial(
            cadf.event, row, self.host, self.binary))

    def publish_seal(self, name: str, seal: str) -> None:
        """Queue a CADF event with the newest seal of a database's audit log: the number and digest of a record."""
        self._put(self._render_cadf, cadf.SEALED, None, functools.partial(
            cadf.sealed, name, seal, self.host, self.binary))

    def _render_cadf(self, event_type: str, request_id: str | None,
                     make: Callable[[], JsonObject]) -> list[Message]:
        form = 'unversioned' if 'unversioned' in self._senders else 'versioned'
        return [(form, _Caller(request_id=request_id), f'{self.binary}:{self.host}', event_type, None, make())]

    def record_states(self, conn: commits.Connection, ctx: nova_context.RequestContext, before: States | None,
                      row: States, **about: Any) -> bool:
        """Record ``instance.update`` and return True if a state that ``notify_on_state_change`` covers has changed.

        :param before: columns of the server before the transaction; None: unknown, no event is recorded
        """
        changed = before is not None and any(before.get(state) != row.get(state) for state in self.states)
        if before is not None and changed:
            self.record(conn, ctx, 'instance.update', None, row, by=self.binary, old_state=before['vm_state'],
                        old_task_state=before['task_state'], **about)
        return changed

    def failed(self, what: str | Event) -> None:
        """Count and log an event that could not be rendered; the operation continues."""
        self._count('failed')
        LOG.exception('Cannot create or queue the notification of %s.', what)

    def _count(self, result: str) -> None:
        self.counts[result] += 1
        metrics.NOTIFICATIONS.labels(result).inc()

    def _put(self, render: Callable[..., list[Message]], *args: Any) -> None:
        """Queue a function and its arguments; the function returns the messages to send."""
        try:
            self._waiting.put_nowait((render, args))
            self._begin()
        except queue.Full:
            self._count('dropped')
            if time.monotonic() > self._logged + LOG_S:
                self._logged = time.monotonic()
                LOG.error('Notifications are dropped, %d so far: %d wait for their broker.', self.counts['dropped'],
                          QUEUE)
        except Exception:
            self.failed(args[0])

    def _begin(self) -> None:
        """Start the thread at the first event; a thread started earlier would not survive a fork."""
        with self._lock:
            if self._thread is None:
                atexit.register(self.stop)
                self._thread = concurrency.spawn('notifications', self._send_all)

    def _idle(self) -> bool:
        """Return whether the thread may end; the next event starts a new thread."""
        with self._lock:
            if not self._waiting.empty():
                return False
            self._thread = None
            atexit.unregister(self.stop)
        return True

    def _send_all(self) -> None:
        while True:
            try:
                item = self._waiting.get(timeout=IDLE_S)
            except queue.Empty:
                if self._idle():
                    return
                continue
            self._send_item(*item)
            self._waiting.task_done()

    def _send_item(self, render: Callable[..., list[Message]], args: tuple[Any, ...]) -> None:
        try:
            messages = render(*args)
        except Exception:
            self.failed(args[0])
            return
        for message in messages:
            try:
                self._send(*message)
            except Exception as error:
                self._count('failed')
                LOG.warning('%s could not be sent: %s', message[3], error)
            else:
                self._count('sent')

    def _send(self, form: str, context: JsonObject, publisher: str, event_type: str, phase: str | None,
              payload: JsonObject) -> None:
        sender = self._senders[form].prepare(publisher_id=publisher)
        (sender.error if phase == events.ERROR else sender.info)(context, event_type, payload)

    @property
    def waiting(self) -> int:
        """Number of queued events that are not sent."""
        return self._waiting.unfinished_tasks

    def stop(self, timeout: float = FLUSH_TIMEOUT_S) -> None:
        """Wait up to ``timeout`` seconds until the queued events are sent."""
        deadline = time.monotonic() + timeout
        while self.waiting and time.monotonic() < deadline:
            time.sleep(0.01)
        if self.waiting and not self._stopped:
            LOG.warning('%d notifications are lost: their broker did not take them in time.', self.waiting)
        self._stopped = True
        atexit.unregister(self.stop)

