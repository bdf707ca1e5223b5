"""Lifecycle of a service, and of the process that runs one or more services.

ADR 0001 explains why oslo.service is not used.
"""
from collections.abc import Callable, Iterable, Sequence
import functools
import gc
import logging
import os
import random
import signal
import socket
import threading
import time
import types
from typing import Protocol, TypeVar

from oslo_config.cfg import ConfigOpts

from nova import context as nova_context
from nova import exception
from nova.conf import renamed
from nova.runtime import concurrency
from nova.runtime import health
from nova.runtime import heartbeat
from nova.runtime import memory
from nova.runtime import metrics
from nova.runtime import release

LOG = logging.getLogger(__name__)

VERSION = release.VERSION          # stored in the service rows, for rolling upgrades
JITTER = 0.1                        # maximum relative deviation of the interval of a periodic task
TICK_S = 5                          # the main loop reports progress at this interval
START_POLL_INTERVAL_S = 0.5                  # interval of checks for a stop request during the start
LOOP_STUCK_S = 60                   # time without progress after which the main loop counts as stuck


Task = tuple[str, float, Callable[[], object]]            # (name, seconds between two runs, function)


class Topic(Protocol):
    """RPC interface of a manager; this module needs only its topic."""

    @property
    def topic(self) -> str: ...


Interface = TypeVar('Interface', bound=Topic)
Interface_contra = TypeVar('Interface_contra', bound=Topic, contravariant=True)
Admission = TypeVar('Admission')
Admission_contra = TypeVar('Admission_contra', contravariant=True)


class Queue(heartbeat.Queue, Protocol):
    """The queue of a manager, implemented by rpc.bus.Server."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def wait(self, timeout: float, /) -> bool: ...

    def alive(self) -> health.State: ...


class Reloadable(Protocol):
    def reload(self) -> None: ...


class Bus(Protocol[Interface_contra, Admission_contra]):
    """The message bus, implemented by rpc.bus.Bus."""

    @property
    def pins(self) -> Reloadable: ...

    def serve(self, interface: Interface_contra, manager: object, server: str, admission: Admission_contra | None, /
              ) -> Queue: ...


class Part(Protocol):
    """A part of a process. Optional members: reload(), alive(), ready(), rest(), refused and parts."""

    def start(self) -> None: ...

    def stop(self, timeout: float, /) -> bool | None: ...


class Service:
    """One service of a process: its queue, its periodic tasks and its heartbeat.

    A manager has the interface's methods. It may also have these methods:

    * ``start()``, called before the first message
    * ``listening()``, called after the service has begun to consume its queue
    * ``stop()`` and ``reload()``
    * ``messages_lost()``, called after the service's queues were redeclared
    * ``periodic_tasks()`` -> [(name, seconds, function)]; each run has a new administrator's context as the current
      context of its thread

    :param binary: name in the service list: nova-compute, …
    :param interface: None for a service without a queue
    :param topic: topic in the service rows; None: topic of the interface, or the binary without nova-
    :param conductor: receiver of the heartbeats; None: no heartbeats
    :param tasks: additional periodic tasks, in the format of the manager's ``periodic_tasks()``
    :param admission: rpc.admission.Admission, the rights of compute hosts; None: compute hosts have no rights
    """

    def __init__(self, conf: ConfigOpts, binary: str, host: str, interface: Interface | None = None,
                 manager: object = None, bus: Bus[Interface, Admission] | None = None,
                 conductor: heartbeat.Conductor | None = None, topic: str | None = None,
                 tasks: Sequence[Task] = (), admission: Admission | None = None) -> None:
        self.conf, self.binary, self.host, self.manager = conf, binary, host, manager
        self.topic = topic or (binary.removeprefix('nova-') if interface is None else interface.topic)
        self._server: Queue | None = None
        if interface is not None and bus is not None:
            self._server = bus.serve(interface, manager, host, admission)
        self._pins, self._prepared, self._serving = None if bus is None else bus.pins, False, False
        self._heartbeat = health.Heartbeat(binary, conf.report_interval, conf.service_down_time)
        self._tasks = tasks
        self._stopping = threading.Event()
        self._heart: heartbeat.Sender | None = None
        if conductor is not None:
            self._heart = heartbeat.Sender(conf, binary, host, self.topic, conductor, self._server, self._stopping)
            self._heart.on_new_row = getattr(manager, 'forget_told', None)
            self._heart.on_return = getattr(manager, 'came_back', None)
            self._heart.on_lost = getattr(manager, 'messages_lost', None)
        self.refused: exception.ServiceExists | None = None    # set if another service has the name: the process stops
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Lock the name, start the manager, consume messages, send the first heartbeat.

        Services except nova-compute consume messages before they register at a conductor. While a whole cloud starts,
        all conductor threads may wait for replies of these services, and then no thread can handle a registration.

        :raises ServiceExists: the name belongs to another service
        """
        if self._heart is not None:
            self._heart.lock_name()
            if self.topic == 'compute':
                self._heart.register()
        if self._stopping.is_set():      # stop() was called while register() waited
            return
        self._prepared = True
        getattr(self.manager, 'start', _nothing)()
        if self._server is not None:
            self._server.start()
            self._serving = True
            getattr(self.manager, 'listening', _nothing)()
        if self._heart is not None:
            if self.topic != 'compute':
                self._heart.register()
            self._report(self._heart)
            self._repeat('heartbeat', self.conf.report_interval, functools.partial(self._report, self._heart))
        for name, spacing, function in [*getattr(self.manager, 'periodic_tasks', list)(), *self._tasks]:
            self._repeat(name, spacing, function)
        LOG.info('%s on %s serves', self.binary, self.host)

    def rest(self) -> None:
        """Start no more periodic tasks; called for all services of a process before the first service stops."""
        self._stopping.set()

    def stop(self, timeout: float) -> bool:
        """Consume no more messages, start no task; return True if all work has ended within ``timeout`` s."""
        deadline = time.monotonic() + timeout
        self._stopping.set()
        done = True
        if self._server is not None and self._serving:       # stop() of a server that was not started would block
            self._server.stop()
            done = self._server.wait(max(0.01, deadline - time.monotonic()))
        ended = [concurrency.join(thread, max(0.01, deadline - time.monotonic())) for thread in self._threads]
        done = done and all(ended)
        if self._prepared:
            getattr(self.manager, 'stop', _nothing)()
        if self._heart is not None:
            self._heart.release()
        if not done:
            LOG.warning('%s stops before everything has ended: graceful_shutdown_timeout passed', self.binary)
        return done

    def reload(self) -> None:
        """Apply a reloaded configuration. Without a database, the service fetches the RPC versions with a heartbeat."""
        if self._pins is not None:
            self._pins.reload()
        if self._heart is not None and self._prepared:
            self._report(self._heart, ask=True)
        getattr(self.manager, 'reload', _nothing)()

    def alive(self) -> health.States:
        """Return the health, see nova.runtime.health."""
        found = {'heartbeat': self._heartbeat.alive()} if self._heart is not None else {}
        if self._server is not None:
            found['workers'] = self._server.alive()
        return self._named(found)

    def ready(self) -> health.States:
        return self._named({'reports': self._heartbeat.ready()} if self._heart is not None else {})

    def _named(self, found: health.States) -> health.States:
        return {f'{self.binary} {self.host} {name}': state for name, state in found.items()}

    def _report(self, heart: heartbeat.Sender, ask: bool = False) -> None:
        arrived = False
        try:
            arrived = heart.send(ask)
        except exception.ServiceExists as error:
            LOG.error('%s stops: %s', self.binary, error)
            self.refused = error
            self._stopping.set()
        finally:
            self._heartbeat.done(arrived)

    def _repeat(self, name: str, spacing: float, function: Callable[[], object]) -> None:
        self._threads.append(concurrency.spawn(f'{self.topic}-{name}', self._loop, name, spacing, function))

    def _loop(self, name: str, spacing: float, function: Callable[[], object]) -> None:
        """Run a task periodically; a long run delays the next run."""
        while not self._stopping.wait(spacing * random.uniform(1 - JITTER, 1 + JITTER)):
            nova_context.admin_context().update_store()
            begun, result = time.monotonic(), 'failed'
            try:
                function()
                result = 'ok'
            except exception.NovaException as error:
                LOG.warning('Periodic task %s: %s', name, error)
            except Exception:
                LOG.exception('Periodic task %s failed; it runs again in %s s', name, spacing)
            metrics.PERIODIC_RUNS.labels(name, result).inc()
            metrics.PERIODIC_SECONDS.labels(name).observe(time.monotonic() - begun)


def _nothing() -> None:
    return None


def _refused(parts: Iterable[object]) -> bool:
    """Return whether a part, or a part of a part, requires the process to stop (attribute ``refused``)."""
    return any(getattr(part, 'refused', None) or _refused(getattr(part, 'parts', ())) for part in parts)


def _rest(parts: Iterable[object]) -> None:
    for part in parts:
        getattr(part, 'rest', _nothing)()
        _rest(getattr(part, 'parts', ()))


class Process:
    """Runs parts until a stop signal.

    SIGTERM, SIGINT  stop gracefully; a second signal ends the process immediately, except a worker
    SIGHUP           read the mutable options again, such as the log level, and notify the parts
    SIGUSR1          write a Guru Meditation Report

    :param parts: started in this order and stopped in reverse order
    :param notifies: function(state) that notifies the parent; None: systemd
    """

    def __init__(self, conf: ConfigOpts, binary: str, parts: Iterable[Part],
                 notifies: Callable[[str], None] | None = None) -> None:
        self._notify = notifies or notify
        # systemd and the first process both signal a worker, and the first process kills it at the deadline
        self._on_second_signal = (lambda *_: os._exit(1)) if notifies is None else signal.SIG_IGN
        self.conf, self.binary, self.parts = conf, binary, list(parts)
        self._pipe, self._wakeup = socket.socketpair()
        self._last_turn, self._state, self._was_alive = time.monotonic(), 'starting', True
        self._stop_asked = False

    def run(self) -> int:
        """Start, serve, stop; return the exit code."""
        self._catch_signals()
        started: list[Part] = []
        try:
            for part in self.parts:
                started.append(part)
                part.start()
            # The objects of the start are permanent. A collection before this takes 0.3 s and finds a hundred objects.
            gc.freeze()
            self._state = 'serving'
            self._notify('READY=1')
            self._serve()
        finally:
            self._state = 'stopping'
            self._notify('STOPPING=1')
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._on_second_signal)
            code = 1 if _refused(self.parts) else 0
            done = self._stop(started)
        LOG.info('%s has stopped', self.binary)
        if not done:
            logging.shutdown()
            os._exit(code)       # a normal exit would wait for threads that do not end
        return code

    def _catch_signals(self) -> None:
        """Write each signal as a byte to a socket, so that the signal handlers themselves do no work."""
        def note(number: int, _frame: types.FrameType | None) -> None:
            self._stop_asked |= _SIGNALS[number] == 'stop'
        self._wakeup.setblocking(False)
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, note)
        self._pipe.settimeout(min(_watchdog_interval() or TICK_S, TICK_S))
        concurrency.spawn('stop-while-starting', self._watch_start)

    def _watch_start(self) -> None:
        """Pass a stop request to the parts during the start, when a part may wait for other services."""
        while self._state == 'starting':
            time.sleep(START_POLL_INTERVAL_S)
            if self._stop_asked:
                _rest(self.parts)
                return

    def _serve(self) -> None:
        while not _refused(self.parts):
            self._last_turn = time.monotonic()
            self._feed_watchdog()
            memory.tick()
            try:
                received = self._pipe.recv(1)
            except TimeoutError:
                continue
            action = _SIGNALS.get(received[0])
            if action == 'stop':
                return
            try:
                if action == 'reload':
                    self._reload()
                elif action == 'report':
                    self._report()
            except Exception:
                LOG.exception('%s failed', action)

    def _feed_watchdog(self) -> None:
        """Notify systemd's watchdog if all parts are alive; systemd restarts a process without notifications."""
        dead = [name for name, (well, _details) in health.alive(self.parts).items() if not well]
        if not dead:
            self._notify('WATCHDOG=1')
        elif self._was_alive:
            LOG.error('%s does not work: %s. The watchdog gets no notification.', self.binary, ', '.join(dead))
        self._was_alive = not dead

    def alive(self) -> health.States:
        """Return the health for /healthz; see nova.runtime.health."""
        since = time.monotonic() - self._last_turn
        # during start and stop, which have deadlines, the main loop does not run
        turns = self._state != 'serving' or since < LOOP_STUCK_S
        return {'main loop': (turns, {'seconds_since_turn': round(since, 1)}), **health.alive(self.parts)}

    def ready(self) -> health.States:
        """Return the health for /readyz."""
        return {**self.alive(), 'state': (self._state == 'serving', {'state': self._state}),
                **health.ready(self.parts)}

    def _stop(self, started: Sequence[Part]) -> bool:
        deadline = time.monotonic() + self.conf.graceful_shutdown_timeout
        done = True
        for part in reversed(started):
            try:
                done = part.stop(max(0.1, deadline - time.monotonic())) is not False and done
            except Exception:
                LOG.exception('Stopping %s failed', type(part).__name__)
        return done

    def _reload(self) -> None:
        self._notify(f'RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}')
        try:
            self._reload_configuration()
        finally:
            self._notify('READY=1')            # also after a failure: systemd waits for this notification

    def _reload_configuration(self) -> None:
        try:
            renamed.check(self.conf)
            changed = self.conf.mutate_config_files()
        except renamed.RenamedOption as error:
            raise exception.InvalidInput(f'{error} The previous configuration is kept.') from None
        except SystemExit:               # an invalid value: oslo.config has printed it
            raise exception.InvalidInput('the configuration has an invalid value; the previous one is kept') from None
        LOG.info('Configuration read again; %d options changed', len(changed or ()))
        for part in self.parts:
            try:
                getattr(part, 'reload', _nothing)()
            except Exception:            # continue with the other parts
                LOG.exception('%s could not read its configuration again', type(part).__name__)

    def _report(self) -> None:
        from nova.runtime.diagnostics import report
        report.write(self.conf, self.binary, self.parts, self.ready())


_SIGNALS: dict[int, str] = {
    signal.SIGTERM: 'stop', signal.SIGINT: 'stop', signal.SIGHUP: 'reload', signal.SIGUSR1: 'report'}


def notify(state: str) -> None:
    """Notify systemd, if it listens."""
    address = os.environ.get('NOTIFY_SOCKET')
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        try:
            sock.sendto(state.encode(), '\0' + address[1:] if address[0] == '@' else address)
        except OSError as error:
            LOG.warning('systemd could not be notified: %s', error)


def _watchdog_interval() -> float | None:
    """Return the seconds between two watchdog notifications, or None if systemd requests none."""
    value = os.environ.get('WATCHDOG_USEC', '')
    return int(value) / 2_000_000 if value.isdigit() else None
