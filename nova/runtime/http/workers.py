"""Several processes of one daemon behind one port: [http] workers.

The first process creates the listening sockets and starts and restarts the workers; it serves no request. Each worker
runs the command of the daemon with a socket at the same address (SO_REUSEPORT), so that the kernel distributes
connections. If a worker ends, its replacement serves the pending connections. ADR 0004 explains why the
workers do not share one socket.

A socket pair connects each worker with the first process. The worker sends its systemd notifications through the pair,
and each of the two processes detects the end of the other.
"""
import contextlib
import dataclasses
import http.client
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.runtime import concurrency
from nova.runtime import health
from nova.runtime import metrics
from nova.runtime.http import server

LOG = logging.getLogger(__name__)

VARIABLE = 'NOVA_WORKER'             # environment variable that passes the inherited sockets to a worker
PORT_RELEASE_TIMEOUT_S = 5  # time in which workers release the port after a kill of the first process
START_S = 120                        # a worker that does not serve within this time is restarted
SILENT_S = 60                        # a worker without a notification in this time is restarted; it sends one every 5 s
MIN_STABLE_LIFETIME_S = 60                        # a worker that lived longer is restarted immediately
PAUSES_S = (0, 1, 2, 4, 8, 16, 30)   # seconds before successive restarts of a short-lived worker
POLL_INTERVAL_S = 1                           # interval of the checks for a silent worker
ANSWER_TIMEOUT_S = 3                            # timeout of a request for a worker's metrics or health
MAX_ANSWER_BYTES = 4 << 20                       # maximum bytes of the response


@dataclasses.dataclass(frozen=True)
class WorkerSockets:
    """Inherited sockets of a worker. As a service.Part, the object stops the worker when the first process ends.

    number       number of the worker, from 1
    http         listening socket for the API
    monitoring   listening socket on loopback for metrics and health
    """

    number: int
    http: socket.socket
    monitoring: socket.socket
    _first: socket.socket

    def notify(self, state: str) -> None:
        with contextlib.suppress(OSError):        # the first process has ended: _watch stops this worker
            self._first.send(state.encode())

    def start(self) -> None:
        concurrency.spawn('first-process', self._watch)

    def _watch(self) -> None:
        with contextlib.suppress(OSError):
            self._first.recv(1)
        os.kill(os.getpid(), signal.SIGTERM)

    def stop(self, timeout: float) -> bool:
        return True


def inherited() -> WorkerSockets | None:
    """Return the sockets from the first process at the first call; None at later calls and outside of workers."""
    given = os.environ.pop(VARIABLE, None)
    if given is None:
        return None
    facts = json.loads(given)
    sockets = {name: socket.socket(fileno=facts[name]) for name in ('http', 'monitoring', 'first')}
    for sock in sockets.values():
        sock.set_inheritable(False)
    return WorkerSockets(facts['number'], sockets['http'], sockets['monitoring'], sockets['first'])


class Pool:
    """The workers, as a service.Part of the first process.

    :param binary: the daemon's name
    :param command: command of a worker; None: the command of this process
    :param silent_s: seconds without a notification after which a worker is killed
    """

    def __init__(self, conf: ConfigOpts, binary: str, command: list[str] | None = None,
                 silent_s: float = SILENT_S) -> None:
        self._conf, self._binary, self._silent_s = conf, binary, silent_s
        self._command = command or [sys.executable, *sys.orig_argv[1:]]
        self._workers: list[_Worker] = []
        self._resting = False
        self.parts: list[health.Dependencies] = []

    def start(self) -> None:
        """Start the workers; return when all of them serve.

        :raises InvalidInput: the address cannot be used
        :raises WorkerEnded: a worker ended during its start, and has logged the reason
        """
        options = self._conf.http
        port = self._free_port()
        for number in range(1, options.workers + 1):
            self._workers.append(_Worker(self._binary, number, self._command, self._silent_s,
                                         server.listening_socket(options.listen, port, shared=True)))
        self.parts = [health.Dependencies({f'{self._binary} worker {worker.number}': worker.check
                                    for worker in self._workers})]
        for worker in self._workers:
            worker.start()
        for worker in self._workers:
            worker.await_first_start()
        LOG.info('%s workers of %s serve on %s:%s', len(self._workers), self._binary, options.listen, port)

    def _free_port(self) -> int:
        """Wait until no other server uses the port, and return the port: SO_REUSEPORT would let both servers share it.

        Workers of a killed first process release the port when they detect its end.
        """
        options = self._conf.http
        deadline = time.monotonic() + PORT_RELEASE_TIMEOUT_S + options.drain_time
        while True:
            try:
                with server.listening_socket(options.listen, options.port) as sock:
                    return sock.getsockname()[1]
            except exception.InvalidInput:
                if time.monotonic() > deadline or self._resting:
                    raise
            time.sleep(POLL_INTERVAL_S)

    def rest(self) -> None:
        """Restart no worker from now on."""
        self._resting = True
        for worker in self._workers:
            worker.rest()

    def stop(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        for worker in self._workers:
            worker.terminate()
        return all([worker.ended(deadline) for worker in self._workers])

    def reload(self) -> None:
        for worker in self._workers:
            worker.send(signal.SIGHUP)

    def alive(self) -> health.States:
        """Return the states of the workers. An ended worker is no failure of the process, because it is restarted."""
        return {f'{self._binary} worker {worker.number}': worker.state() for worker in self._workers}

    def exposed(self, accept: str = '') -> tuple[bytes, str]:
        """Return the metrics of all processes that serve, each with its label ``worker``; the first process has 0."""
        found = {}
        for worker in self._workers:
            try:
                found[str(worker.number)] = metrics.parsed(worker.ask('/metrics').decode())
            except (OSError, ValueError, http.client.HTTPException, exception.Unavailable) as error:
                LOG.warning('Cannot read the metrics of worker %s: %s', worker.number, error)
        return metrics.exposed_of_all(found, accept)


class _Worker:
    """One worker, and the thread that restarts it."""

    def __init__(self, binary: str, number: int, command: list[str], silent_s: float, listener: socket.socket) -> None:
        self.number, self._silent_s = number, silent_s
        self._binary, self._command, self._listener = binary, command, listener
        self._monitoring = server.listening_socket('127.0.0.1', 0)
        self._lock = threading.Lock()                # guards _process and _stopping
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping, self._began = threading.Event(), threading.Event()
        self._serves, self._ended_code = False, 0
        self._starts, self._sign = 0, time.monotonic()
        self._thread: threading.Thread | None = None

    # ---- methods that the pool calls

    def start(self) -> None:
        self._thread = concurrency.spawn(f'worker-{self.number}', self._keep)

    def await_first_start(self) -> None:
        """:raises WorkerEnded: it ended before it served"""
        self._began.wait()
        if not self._serves and not self._stopping.is_set():
            raise exception.WorkerEnded(number=self.number, code=self._ended_code)

    def rest(self) -> None:
        self._stopping.set()
        self._began.set()

    def terminate(self) -> None:
        with self._lock:
            self.rest()
        self._listener.close()
        self._monitoring.close()
        self.send(signal.SIGTERM)

    def ended(self, deadline: float) -> bool:
        """Wait until the worker has ended; kill it at the deadline. Return whether it ended in time."""
        if self._thread is None:
            return True
        if concurrency.join(self._thread, max(0.1, deadline - time.monotonic())):
            return True
        self.send(signal.SIGKILL)
        concurrency.join(self._thread, POLL_INTERVAL_S)
        return False

    def send(self, number: signal.Signals) -> None:
        with self._lock:
            if self._process is not None:
                self._process.send_signal(number)

    def state(self) -> health.State:
        return True, {'serves': self._serves, 'starts': self._starts,
                      'seconds_since_sign': round(time.monotonic() - self._sign, 1)}

    def check(self) -> None:
        """:raises Unavailable: it is not ready"""
        self.ask('/readyz')

    def ask(self, path: str) -> bytes:
        """Return the response of the worker's monitoring listener to a GET of ``path``.

        :raises Unavailable: the worker does not serve, or is not ready
        :raises OSError, HTTPException: no response
        """
        if not self._serves:
            raise exception.Unavailable()
        connection = http.client.HTTPConnection('127.0.0.1', self._monitoring.getsockname()[1],
                                                timeout=ANSWER_TIMEOUT_S)
        try:
            connection.request('GET', path)
            answer = connection.getresponse()
            body = answer.read(MAX_ANSWER_BYTES)
        finally:
            connection.close()
        if answer.status != 200:
            raise exception.Unavailable()
        return body

    # ---- its thread

    def _keep(self) -> None:
        quick = 0                                    # consecutive short runs
        while not self._stopping.wait(PAUSES_S[min(quick, len(PAUSES_S) - 1)]):
            begun = time.monotonic()
            try:
                self._run()
            except OSError as error:                 # e.g. out of memory
                LOG.error('Worker %s of %s cannot be started: %s', self.number, self._binary, error)
            self._serves = False
            self._began.set()
            quick = 0 if time.monotonic() - begun > MIN_STABLE_LIFETIME_S else quick + 1

    def _run(self) -> None:
        """Start the worker, and process its notifications until it ends."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            with theirs, self._lock:
                if self._stopping.is_set():
                    return
                self._process = process = self._spawn(theirs)
            self._starts += 1
            LOG.info('Worker %s of %s is process %s', self.number, self._binary, process.pid)
            self._sign = time.monotonic()
            self._listen(ours, process)
        code = self._ended_code = process.wait()     # do not hold the lock: ``ended`` needs it for a kill
        with self._lock:
            self._process = None
        if not self._stopping.is_set():
            LOG.error('Worker %s of %s ended with %s', self.number, self._binary,
                      f'exit code {code}' if code >= 0 else f'signal {-code}')

    def _spawn(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        sockets = {'http': self._listener, 'monitoring': self._monitoring, 'first': theirs}
        numbers = {name: sock.fileno() for name, sock in sockets.items()}
        environment = {name: value for name, value in os.environ.items()
                       if name not in ('NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID')}
        environment[VARIABLE] = json.dumps({'number': self.number, **numbers})
        return subprocess.Popen(self._command, env=environment, pass_fds=list(numbers.values()),
                                stdin=subprocess.DEVNULL)

    def _listen(self, ours: socket.socket, process: subprocess.Popen[bytes]) -> None:
        ours.settimeout(POLL_INTERVAL_S)
        while True:
            try:
                states = ours.recv(4096).decode().splitlines()
            except TimeoutError:
                self._end_if_silent(process)
                continue
            except OSError:
                states = []
            if not states:
                return
            self._sign = time.monotonic()
            if 'READY=1' in states:
                self._serves = True
                self._began.set()
            elif 'STOPPING=1' in states:
                self._serves = False

    def _end_if_silent(self, process: subprocess.Popen[bytes]) -> None:
        silent_s = time.monotonic() - self._sign
        if self._stopping.is_set() or silent_s < (self._silent_s if self._serves else START_S):
            return
        LOG.error('Worker %s of %s has been silent for %.0f s and is killed', self.number, self._binary, silent_s)
        process.kill()
