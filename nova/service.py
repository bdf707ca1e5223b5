"""The lifecycle of a service, and of the process that runs one or many.

Why this is not oslo.service: doc/source/adr/0001-service-lifecycle.rst.
"""
import gc
import logging
import os
import random
import signal
import socket
import threading
import time

from nova import concurrency
from nova import context as nova_context
from nova import exception

LOG = logging.getLogger(__name__)

VERSION = 1                         # of the services' behaviour; in the service rows, for rolling upgrades
JITTER = 0.1                        # part of a spacing by which runs of a periodic task vary
GC_THRESHOLDS = (50_000, 10, 10)    # of objects: one page of a list makes more than Python's 700 many times over


class Service:
    """One service of a process: its queue, its periodic tasks, its heartbeat.

    A manager has the interface's methods, and may have ``start()`` (before the first message), ``stop()``,
    ``reload()`` and ``periodic_tasks()`` -> [(name, seconds, function)]; a function runs with a fresh
    administrator's context as the thread's current one.

    :param binary: name in the service list: nova-compute, …
    :param interface: rpc.interface.Interface of the manager, or None for a service without a queue
    :param topic: name of its kind in the service rows; None: the interface's
    :param reporter: ``reporter(context, host=, binary=, topic=, version=)``, the heartbeat; may raise Unavailable
    :param tasks: further periodic tasks, as the manager's
    """

    def __init__(self, conf, binary, host, interface=None, manager=None, bus=None, reporter=None, topic=None,
                 tasks=()):
        self.conf, self.binary, self.host, self.manager = conf, binary, host, manager
        self.topic = topic or interface.topic
        self._server = bus.serve(interface, manager, host) if interface is not None else None
        self._serving = False
        self._reporter = reporter
        self._tasks = tasks
        self._stopping = threading.Event()
        self._threads = []

    def start(self):
        """Prepare the manager, take messages, report for duty."""
        getattr(self.manager, 'start', _nothing)()
        if self._server is not None:
            self._server.start()
            self._serving = True
        if self._reporter is not None:
            self._report()
            self._repeat('heartbeat', self.conf.report_interval, self._report)
        for name, spacing, function in [*getattr(self.manager, 'periodic_tasks', list)(), *self._tasks]:
            self._repeat(name, spacing, function)
        LOG.info('%s on %s serves', self.binary, self.host)

    def rest(self):
        """Begin no new run of a periodic task: called on all services of a process before the first one stops."""
        self._stopping.set()

    def stop(self, timeout):
        """Take no new message and no new run of a task; True when what ran has ended within ``timeout`` s."""
        deadline = time.monotonic() + timeout
        self._stopping.set()
        done = True
        if self._serving:                # oslo.messaging waits for a start that never came
            self._server.stop()
            done = self._server.wait(max(0.01, deadline - time.monotonic()))
        for thread in self._threads:
            thread.join(max(0.01, deadline - time.monotonic()))
        done = done and not any(thread.is_alive() for thread in self._threads)
        getattr(self.manager, 'stop', _nothing)()
        if not done:
            LOG.warning('%s stops before everything has ended: graceful_shutdown_timeout passed', self.binary)
        return done

    def reload(self):
        getattr(self.manager, 'reload', _nothing)()

    def _report(self):
        try:
            self._reporter(nova_context.admin_context(), host=self.host, binary=self.binary, topic=self.topic,
                           version=VERSION)
        except exception.NovaException as error:
            LOG.warning('%s could not report: %s', self.binary, error)

    def _repeat(self, name, spacing, function):
        self._threads.append(concurrency.spawn(f'{self.topic}-{name}', self._loop, name, spacing, function))

    def _loop(self, name, spacing, function):
        """Run a task again and again; a long run delays the next one and never overlaps it."""
        while not self._stopping.wait(spacing * random.uniform(1 - JITTER, 1 + JITTER)):
            nova_context.admin_context().update_store()
            try:
                function()
            except exception.NovaException as error:
                LOG.warning('Periodic task %s: %s', name, error)
            except Exception:
                LOG.exception('Periodic task %s failed; it runs again in %s s', name, spacing)


def _nothing():
    return None


def _tame_collector():
    """Modules and tables that stay until the end are not searched for garbage again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


class Process:
    """Runs parts until a signal says stop.

    SIGTERM, SIGINT  stop gracefully; a second one ends the process at once
    SIGHUP           read the configuration again (log level and other mutable options), tell the parts
    SIGUSR1          write a Guru Meditation Report

    :param parts: objects with start(), stop(timeout) and optionally reload(), started in order and stopped in
                  the opposite one
    """

    def __init__(self, conf, binary, parts):
        self.conf, self.binary, self.parts = conf, binary, list(parts)
        self._pipe, self._wakeup = socket.socketpair()

    def run(self):
        """Start, serve, stop; returns the exit code."""
        self._catch_signals()
        started = []
        try:
            for part in self.parts:
                started.append(part)
                part.start()
            _tame_collector()
            notify('READY=1')
            self._serve()
        finally:
            notify('STOPPING=1')
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: os._exit(1))
            done = self._stop(started)
        LOG.info('%s has stopped', self.binary)
        if not done:
            logging.shutdown()
            os._exit(0)          # threads that do not end would keep the interpreter alive
        return 0

    def _catch_signals(self):
        """Signals become bytes of a socket: nothing runs inside a handler, under either thread model."""
        self._wakeup.setblocking(False)
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)

    def _serve(self):
        self._pipe.settimeout(_watchdog_interval())
        while True:
            notify('WATCHDOG=1')
            try:
                received = self._pipe.recv(1)
            except TimeoutError:
                continue
            action = _SIGNALS.get(received[0])
            if action is None:
                continue
            if action == 'stop':
                return
            try:
                getattr(self, '_' + action)()
            except Exception:
                LOG.exception('%s failed', action)

    def _stop(self, started):
        deadline = time.monotonic() + self.conf.graceful_shutdown_timeout
        done = True
        for part in reversed(started):
            try:
                done = part.stop(max(0.1, deadline - time.monotonic())) is not False and done
            except Exception:
                LOG.exception('Stopping %s failed', type(part).__name__)
        return done

    def _reload(self):
        notify(f'RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}')
        changed = self.conf.mutate_config_files()
        LOG.info('Configuration read again; %d options changed', len(changed or ()))
        for part in self.parts:
            getattr(part, 'reload', _nothing)()
        notify('READY=1')

    def _report(self):
        write_report(self.conf, self.binary)


_SIGNALS = {signal.SIGTERM: 'stop', signal.SIGINT: 'stop', signal.SIGHUP: 'reload', signal.SIGUSR1: 'report'}


class _Version:
    """What oslo.reports asks about a product."""

    @staticmethod
    def vendor_string():
        return 'nova'

    product_string = vendor_string

    @staticmethod
    def version_string_with_package():
        import importlib.metadata
        return importlib.metadata.version('nova')


def write_report(conf, binary):
    """Threads, stacks, configuration (secrets masked): to stderr, or to a file in [oslo_reports]/log_dir."""
    from oslo_reports import guru_meditation_report as gmr
    from oslo_reports import opts
    from oslo_reports.generators import conf as conf_generator

    opts.set_defaults(conf)
    gmr.TextGuruMeditation.persistent_sections = [('nova configuration',
                                                   conf_generator.ConfigReportGenerator(conf))]
    gmr.TextGuruMeditation.handle_signal(_Version, binary, conf.oslo_reports.log_dir, None)


def notify(state):
    """Tell systemd; does nothing where no systemd listens."""
    address = os.environ.get('NOTIFY_SOCKET')
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        try:
            sock.sendto(state.encode(), '\0' + address[1:] if address[0] == '@' else address)
        except OSError as error:
            LOG.warning('systemd could not be notified: %s', error)


def _watchdog_interval():
    """Seconds between two signs of life for systemd; None when it asks for none."""
    asked = os.environ.get('WATCHDOG_USEC', '')
    return int(asked) / 2_000_000 if asked.isdigit() else None
