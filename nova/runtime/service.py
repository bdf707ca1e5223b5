"""The lifecycle of a service, and of the process that runs one or many.

Why this is not oslo.service: doc/source/adr/0001-service-lifecycle.rst.
"""
from __future__ import annotations

from collections.abc import Callable
import gc
import logging
import os
import random
import signal
import socket
import threading
import time
from typing import Any

from oslo_config.cfg import ConfigOpts

from nova import context as nova_context
from nova import exception
from nova.runtime import concurrency
from nova.runtime import health
from nova.runtime import heartbeat
from nova.runtime import metrics
from nova.runtime import release

LOG = logging.getLogger(__name__)

VERSION = release.VERSION          # in the service rows, for rolling upgrades
JITTER = 0.1                        # part of a spacing by which runs of a periodic task vary
TICK_S = 5                          # the main loop shows so often that it turns
START_LOOK_S = 0.5                  # between two looks, while it starts, whether it shall stop
LOOP_STUCK_S = 60                   # one that has not for so long hangs
GC_THRESHOLDS = (50_000, 10, 10)    # of objects: one page of a list makes more than Python's 700 many times over


class Service:
    """One service of a process: its queue, its periodic tasks, its heartbeat.

    A manager has the interface's methods, and may have ``start()`` (before the first message), ``stop()``,
    ``reload()``, ``messages_lost()`` (its queues were redeclared) and ``periodic_tasks()`` -> [(name, seconds,
    function)]; a function runs with a fresh administrator's context as the thread's current one.

    :param binary: name in the service list: nova-compute, …
    :param interface: rpc.interface.Interface of the manager, or None for a service without a queue
    :param topic: name of its kind in the service rows; None: the interface's
    :param conductor: gets the heartbeats: an RPC client of a conductor, or its manager; None: no heartbeats
    :param tasks: further periodic tasks, as the manager's
    :param admission: rpc.admission.Admission: what compute hosts may ask of it; None: nothing
    """

    def __init__(self, conf: ConfigOpts, binary: str, host: str, interface: Any = None, manager: Any = None,
                 bus: Any = None, conductor: Any = None, topic: str | None = None,
                 tasks: Any = (), admission: Any = None) -> None:
        self.conf, self.binary, self.host, self.manager = conf, binary, host, manager
        self.topic = topic or interface.topic
        self._server = bus.serve(interface, manager, host, admission) if interface is not None else None
        self._bus, self._prepared, self._serving = bus, False, False
        self._heartbeat = health.Heartbeat(binary, conf.report_interval, conf.service_down_time)
        self._tasks = tasks
        self._stopping = threading.Event()
        self._heart = conductor and heartbeat.Heart(conf, binary, host, self.topic, conductor, self._server,
                                                    self._stopping)
        if self._heart is not None:
            self._heart.on_new_row = getattr(manager, 'forget_told', None)
            self._heart.on_return = getattr(manager, 'came_back', None)
            self._heart.on_lost = getattr(manager, 'messages_lost', None)
        self.refused: Any = None              # why it must not go on: its name belongs to another service
        self._threads: list[Any] = []

    def start(self) -> None:
        """Make sure of the name, prepare the manager, take messages, report for duty.

        What conductors call takes messages before it asks one for its name: while all of a cloud starts, every thread
        of the conductors may wait for it.

        :raises ServiceExists: the name belongs to another service
        """
        if self._heart is not None:
            self._heart.take_name()
            if self.topic == 'compute':
                self._heart.enlist()
        if self._stopping.is_set():      # while it waited for a conductor
            return
        self._prepared = True
        getattr(self.manager, 'start', _nothing)()
        if self._server is not None:
            self._server.start()
            self._serving = True
        if self._heart is not None:
            if self.topic != 'compute':
                self._heart.enlist()
            self._report()
            self._repeat('heartbeat', self.conf.report_interval, self._report)
        for name, spacing, function in [*getattr(self.manager, 'periodic_tasks', list)(), *self._tasks]:
            self._repeat(name, spacing, function)
        LOG.info('%s on %s serves', self.binary, self.host)

    def rest(self) -> None:
        """Begin no new run of a periodic task: called on all services of a process before the first one stops."""
        self._stopping.set()

    def stop(self, timeout: float) -> bool:
        """Take no new message and no new run of a task; True when what ran has ended within ``timeout`` s."""
        deadline = time.monotonic() + timeout
        self._stopping.set()
        done = True
        if self._server is not None and self._serving:       # oslo.messaging waits for a start that never came
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
        """The configuration was read again; a heartbeat brings what this service cannot look up itself."""
        if self._bus is not None:
            self._bus.pins.reload()
        if self._heart is not None and self._prepared:
            self._report(ask=True)
        getattr(self.manager, 'reload', _nothing)()

    def alive(self) -> Any:
        """See nova.runtime.health."""
        found = {'heartbeat': self._heartbeat.alive()} if self._heart is not None else {}
        if self._server is not None:
            found['workers'] = self._server.alive()
        return self._named(found)

    def ready(self) -> Any:
        return self._named({'reports': self._heartbeat.ready()} if self._heart is not None else {})

    def _named(self, found: Any) -> dict[Any, Any]:
        return {f'{self.binary} {self.host} {name}': state for name, state in found.items()}

    def _report(self, ask: bool = False) -> None:
        arrived = False
        try:
            arrived = self._heart.beat(ask)
        except exception.ServiceExists as error:
            LOG.error('%s stops: %s', self.binary, error)
            self.refused = error
            self._stopping.set()
        finally:
            self._heartbeat.done(arrived)

    def _repeat(self, name: str, spacing: float, function: Callable[..., Any]) -> None:
        self._threads.append(concurrency.spawn(f'{self.topic}-{name}', self._loop, name, spacing, function))

    def _loop(self, name: str, spacing: float, function: Callable[..., Any]) -> None:
        """Run a task again and again; a long run delays the next one and never overlaps it."""
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


def _refused(parts: Any) -> bool:
    """Whether one of the parts, or of the parts in them, must not go on."""
    return any(getattr(part, 'refused', None) or _refused(getattr(part, 'parts', ())) for part in parts)


def _rest(parts: Any) -> None:
    for part in parts:
        getattr(part, 'rest', _nothing)()
        _rest(getattr(part, 'parts', ()))


def _tame_collector() -> None:
    """Modules and tables that stay until the end are not searched for garbage again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


class Process:
    """Runs parts until a signal says stop.

    SIGTERM, SIGINT  stop gracefully; a second one ends the process at once
    SIGHUP           read the configuration again (log level and other mutable options), notify the parts
    SIGUSR1          write a Guru Meditation Report

    :param parts: objects with start(), stop(timeout) and optionally reload(), started in order and stopped in
                  the opposite one
    :param notifies: function(state) that notifies who started it; None: systemd
    """

    def __init__(self, conf: ConfigOpts, binary: str, parts: Any,
                 notifies: Callable[[str], None] | None = None) -> None:
        self._notify = notifies or notify
        self.conf, self.binary, self.parts = conf, binary, list(parts)
        self._pipe, self._wakeup = socket.socketpair()
        self._turned, self._state, self._was_alive = time.monotonic(), 'starting', True
        self._stop_asked = False

    def run(self) -> Any:
        """Start, serve, stop; returns the exit code."""
        self._catch_signals()
        started = []
        try:
            for part in self.parts:
                started.append(part)
                part.start()
            _tame_collector()
            self._state = 'serving'
            self._notify('READY=1')
            self._serve()
        finally:
            self._state = 'stopping'
            self._notify('STOPPING=1')
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: os._exit(1))
            code = 1 if _refused(self.parts) else 0
            done = self._stop(started)
        LOG.info('%s has stopped', self.binary)
        if not done:
            logging.shutdown()
            os._exit(code)       # threads that do not end would keep the interpreter alive
        return code

    def _catch_signals(self) -> None:
        """Turn signals into bytes of a socket: nothing runs in a handler, under either thread model."""
        def note(number: Any, _frame: Any) -> None:
            self._stop_asked |= _SIGNALS[number] == 'stop'
        self._wakeup.setblocking(False)
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, note)
        self._pipe.settimeout(min(_watchdog_interval() or TICK_S, TICK_S))
        concurrency.spawn('stop-while-starting', self._watch_start)

    def _watch_start(self) -> None:
        """A part may wait for others in its start: it is notified when the process shall stop instead."""
        while self._state == 'starting':
            time.sleep(START_LOOK_S)
            if self._stop_asked:
                _rest(self.parts)
                return

    def _serve(self) -> None:
        while not _refused(self.parts):
            self._turned = time.monotonic()
            self._feed_watchdog()
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
        """systemd ends and restarts a process that is silent: what does not work is no sign of life."""
        dead = [name for name, (well, _details) in health.alive(self.parts).items() if not well]
        if not dead:
            self._notify('WATCHDOG=1')
        elif self._was_alive:
            LOG.error('%s does not work any more: %s. The watchdog gets no notification.', self.binary, ', '.join(dead))
        self._was_alive = not dead

    def alive(self) -> dict[Any, Any]:
        """Whether it works, as /healthz reports; see nova.runtime.health."""
        since = time.monotonic() - self._turned
        # before and after it serves the main thread starts and stops its parts, under deadlines of their own
        turns = self._state != 'serving' or since < LOOP_STUCK_S
        return {'main loop': (turns, {'seconds_since_turn': round(since, 1)}), **health.alive(self.parts)}

    def ready(self) -> dict[Any, Any]:
        """Whether it can do its work, as /readyz reports."""
        return {**self.alive(), 'state': (self._state == 'serving', {'state': self._state}),
                **health.ready(self.parts)}

    def _stop(self, started: Any) -> Any:
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
            self._read_again()
        finally:
            self._notify('READY=1')            # or systemd takes it for reloading still

    def _read_again(self) -> None:
        try:
            changed = self.conf.mutate_config_files()
        except SystemExit:               # an option of the command line has no such value: oslo.config has said so
            raise exception.InvalidInput('the configuration has a value that cannot be; what was read before stays'
                                         ) from None
        LOG.info('Configuration read again; %d options changed', len(changed or ()))
        for part in self.parts:
            try:
                getattr(part, 'reload', _nothing)()
            except Exception:            # the others have read theirs
                LOG.exception('%s could not read its configuration again', type(part).__name__)

    def _report(self) -> None:
        from nova.runtime.diagnostics import report
        report.write(self.conf, self.binary, self.parts, self.ready())


_SIGNALS: dict[int, str] = {
    signal.SIGTERM: 'stop', signal.SIGINT: 'stop', signal.SIGHUP: 'reload', signal.SIGUSR1: 'report'}


def notify(state: Any) -> None:
    """Notify systemd; does nothing where no systemd listens."""
    address = os.environ.get('NOTIFY_SOCKET')
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        try:
            sock.sendto(state.encode(), '\0' + address[1:] if address[0] == '@' else address)
        except OSError as error:
            LOG.warning('systemd could not be notified: %s', error)


def _watchdog_interval() -> Any:
    """Seconds between two watchdog notifications for systemd; None when it requests none."""
    value = os.environ.get('WATCHDOG_USEC', '')
    return int(value) / 2_000_000 if value.isdigit() else None
