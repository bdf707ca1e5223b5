"""The heartbeat of a service, sent only if a test message shows that the service consumes its queue.

Every [DEFAULT] report_interval the service sends itself a message through the broker. When a worker gets the message,
the service sends a heartbeat to the conductor, usually as a cast. If the queue is missing, the consumer hangs or all
workers are busy, the service logs this and sends no heartbeat. After service_down_time the service counts as down.
Unless its workers are busy, the service also subscribes to its queues again.
"""
from collections.abc import Callable
import contextlib
import itertools
import logging
import threading
import time
from typing import Literal, Protocol, TypedDict

from oslo_config.cfg import ConfigOpts

from nova import context as nova_context
from nova import exception
from nova.context import RequestContext
from nova.runtime import host_identity
from nova.runtime import release

LOG = logging.getLogger(__name__)

PROBE_TIMEOUT_S = 10  # if the probe message takes longer, no heartbeat is sent
MAX_FAILURES = 2      # consecutive failures after which the service subscribes again
REPLY_EVERY = 12      # number of report intervals between two requests for the service's state (disabled, …)
PAUSE_S = 2           # seconds before another attempt to register, or to probe a missing queue


class ServiceState(TypedDict, total=False):
    """Reply of a conductor to a report: the state of the service."""

    uuid: str
    disabled: bool
    forced_down: bool
    versions: dict[str, int]


class Report(TypedDict):
    """Arguments of each report, the RPC message of a heartbeat."""

    host: str
    binary: str
    topic: str
    version: int


class Conductor(Protocol):
    """The receiver of heartbeats: an RPC client of a conductor, or its manager."""

    def report_service(self, context: RequestContext, /, *, host: str, binary: str, topic: str,
                       version: int) -> ServiceState: ...

    def register_service(self, context: RequestContext, /, *, host: str, binary: str, topic: str, version: int,
                         identity: str) -> ServiceState: ...

    def heartbeat(self, context: RequestContext, /, *, host: str, binary: str, topic: str, version: int,
                  identity: str) -> None: ...


class Queue(Protocol):
    """The queue that a service probes, implemented by rpc.bus.Server."""

    @property
    def full(self) -> bool: ...

    def on_probe(self, arrived: Callable[[str], None], /) -> None: ...

    def probe(self, context: RequestContext, token: str, /) -> bool: ...

    def declared_again(self) -> contextlib.AbstractContextManager[bool]: ...

    def resubscribe(self) -> None: ...


_STATES: tuple[tuple[Literal['disabled', 'forced_down'], str, str], ...] = (
    ('disabled', 'enabled', 'disabled'), ('forced_down', 'not forced down', 'forced down'))


class Sender:
    """Sender of the heartbeats of a service.

    answer   the conductor's last reply

    :param server: the queue to probe; None: the service has no queue
    :param stopping: set when the service stops
    """

    def __init__(self, conf: ConfigOpts, binary: str, host: str, topic: str, conductor: Conductor,
                 server: Queue | None, stopping: threading.Event) -> None:
        self._binary, self._host, self._topic = binary, host, topic
        self._conductor, self._server, self._stopping = conductor, server, stopping
        self._wait_s = min(PROBE_TIMEOUT_S, conf.report_interval)
        self._valid_s, self._ask_s = conf.service_down_time, REPLY_EVERY * conf.report_interval
        self._identity = host_identity.IdentityFile(conf, binary, host)
        self._arrived, self._silent = threading.Event(), 0
        self._numbers = itertools.count()
        self._sent: dict[str, float] = {}
        self._asked_at: float | None = None
        self._first = True
        self._sending = threading.Lock()         # the periodic task and SIGHUP send in different threads
        self.answer: ServiceState = {}
        # called when the service's row was deleted and created again
        self.on_new_row: Callable[[], None] | None = None
        # called after a gap between heartbeats: the service may have counted as down
        self.on_return: Callable[[], None] | None = None
        # called after the service's queues were redeclared: messages may have been lost
        self.on_lost: Callable[[], None] | None = None
        self._reported_at: float | None = None
        if server is not None:
            server.on_probe(self._on_probe)

    def lock_name(self) -> None:
        """Lock the service's name on this machine.

        :raises ServiceExists: another process of this machine has the name
        """
        self._identity.take()

    def register(self) -> None:
        """Register the service's name in the whole deployment.

        A compute service waits for a conductor. Other services do not wait: their next heartbeat registers the name.

        :raises ServiceExists: the name belongs to another service
        """
        while not self._stopping.is_set():
            try:
                self._ask()
                return
            except exception.Unavailable as error:
                if self._topic != 'compute':
                    LOG.warning('%s is not registered yet: %s', self._binary, error)
                    return
                LOG.warning('Waiting for a conductor: %s', error)
            self._stopping.wait(PAUSE_S)

    def release(self) -> None:
        """Release the name for other processes."""
        self._identity.release()

    def send(self, ask: bool = False) -> bool:
        """Send a heartbeat if the service takes messages from its own queue; return whether it was sent.

        :param ask: request the state of the service and the versions of others
        :raises ServiceExists: the name belongs to another service by now
        """
        with self._sending:
            if ask:
                self._asked_at = None
            reported = self._answers() and self._reported()
            if reported:
                self._notify_of_redeclaration()
            return reported

    def _reported(self) -> bool:
        try:
            self._report()
        except exception.ServiceExists:
            raise
        except exception.NovaException as error:
            self._asked_at = None
            LOG.warning('%s could not report: %s', self._binary, error)
            return False
        before, self._reported_at = self._reported_at, time.monotonic()
        # 0.8 allows for the delay until the conductor has recorded a heartbeat
        if before is not None and self._reported_at - before > 0.8 * self._valid_s and self.on_return is not None:
            self.on_return()
        return True

    def _notify_of_redeclaration(self) -> None:
        """Notify the manager if queues were redeclared; called when queue and conductor are reachable again."""
        if self.on_lost is None or self._server is None:
            return
        with self._server.declared_again() as lost:
            if lost:
                LOG.warning('The queues of %s were redeclared: unprocessed messages are sent again soon.',
                            self._binary)
                self.on_lost()

    # ---- the probe

    def _answers(self) -> bool:
        if self._server is None:
            return True
        try:
            sent = self._probe(self._server) or self._probe_again(self._server)
        except exception.Unavailable:
            return False
        if sent and self._arrived.wait(self._wait_s):
            self._arrived.clear()
            if self._silent:
                LOG.warning('%s on %s receives messages from its own queue again.', self._binary, self._host)
            self._silent = 0
            return True
        if self._stopping.is_set():
            return False                             # a stopping service takes no more messages
        self._silent += 1
        busy = self._server.full
        LOG.warning('%s on %s does not receive messages from its own queue%s. It sends no heartbeat, so it will '
                    'count as down.', self._binary, self._host, ': all its workers are busy' if busy else '')
        if not busy and self._silent % MAX_FAILURES == 0:
            self._resubscribe(self._server, f'It has not answered {self._silent} times')
        return False

    def _probe(self, server: Queue) -> bool:
        now = time.monotonic()
        self._sent = {token: at for token, at in self._sent.items() if at > now - self._valid_s}
        token = f'{self._identity.text} {id(self)} {next(self._numbers)}'
        self._sent[token] = now
        return server.probe(nova_context.admin_context(), token)

    def _probe_again(self, server: Queue) -> bool:
        """Probe again, because oslo.messaging may have declared the queue; after a failure, subscribe and probe."""
        self._stopping.wait(PAUSE_S)
        return self._probe(server) or (
            self._resubscribe(server, 'The broker has no queue for it any more') and self._probe(server))

    def _on_probe(self, token: str) -> None:
        if token in self._sent:
            self._arrived.set()

    def _resubscribe(self, server: Queue, reason: str) -> bool:
        LOG.warning('%s on %s subscribes to its queues again. %s.', self._binary, self._host, reason)
        try:
            server.resubscribe()
        except Exception:
            LOG.exception('%s could not subscribe to its queues.', self._binary)
            return False
        return True

    # ---- the report

    def _report(self) -> None:
        if self._first:
            self._apply(self._conductor.report_service(nova_context.admin_context(), **self._arguments()))
            self._first = False                      # the database now has the row of this service
            return
        if self._asked_at is None or time.monotonic() - self._asked_at > self._ask_s:
            self._ask()
        self._conductor.heartbeat(nova_context.admin_context(), identity=self._identity.text, **self._arguments())

    def _ask(self) -> None:
        try:
            self._apply(self._conductor.register_service(nova_context.admin_context(), **self._arguments(),
                                                         identity=self._identity.text))
        except exception.RemoteError as error:
            raise exception.ServiceUnavailable(service='conductor') from error
        self._asked_at = time.monotonic()

    def _apply(self, answer: ServiceState) -> None:
        """Log and keep the state of the service."""
        for name, off, on in _STATES:
            if answer.get(name) != self.answer.get(name, False):
                LOG.info('%s on %s is %s now.', self._binary, self._host, on if answer.get(name) else off)
        if self.answer and answer.get('uuid') != self.answer.get('uuid') and self.on_new_row is not None:
            self.on_new_row()
        self.answer = answer

    def _arguments(self) -> Report:
        return {'host': self._host, 'binary': self._binary, 'topic': self._topic, 'version': release.VERSION}
