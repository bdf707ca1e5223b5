"""Health of a process, for the watchdog of systemd, /healthz and /readyz.

A part of a process, such as a service, may have two methods. Both return {name: (whether it is healthy, {details})}:

* ``alive()`` reports failures that a restart would repair. It never blocks.
* ``ready()`` reports whether the dependencies of the part are available.

Details contain no secrets: they are names, numbers and error classes.
"""
from collections.abc import Callable, Iterable, Mapping
import threading
import time

from nova.json_types import Json

from nova.runtime import concurrency
from nova.runtime import metrics

State = tuple[bool, Mapping[str, Json]]          # (whether it is healthy, details)
States = Mapping[str, State]                     # {name: State}

# Seconds without progress after which workers are considered stuck.
STUCK_S = 600
# Seconds without a heartbeat after which the sending thread counts as stuck; each wait for the broker is shorter.
HEARTBEAT_STUCK_S = 300
ANSWER_S = 3                 # seconds until a check times out
FRESH_S = 1                  # seconds for which the result of a check is reused


class Work:
    """Load of a pool of workers; used as the context manager of each job.

    :param workers: maximum number of concurrent jobs
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        self._running, self._moved = 0, time.monotonic()

    def __enter__(self) -> None:
        self._move(1)

    def __exit__(self, *_: object) -> None:
        self._move(-1)

    def _move(self, number: int) -> None:
        with self._lock:
            self._running += number
            self._moved = time.monotonic()

    def alive(self) -> State:
        """Return (whether a worker is free or a job has started or ended within STUCK_S, details)."""
        with self._lock:
            running, idle_s = self._running, time.monotonic() - self._moved
        return running < self._workers or idle_s < STUCK_S, {
            'workers': self._workers, 'working': running, 'seconds_since_progress': round(idle_s, 1)}


class Heartbeat:
    """State of the heartbeats of one service; also exported as a metric.

    :param interval_s: time between two heartbeats
    :param max_age_s: maximum age of the last successful heartbeat
    """

    def __init__(self, binary: str, interval_s: float, max_age_s: float) -> None:
        self._binary, self._interval_s, self._max_age_s = binary, interval_s, max_age_s
        self._tried = time.monotonic()
        self._arrived: float | None = None
        metrics.HEARTBEAT_AGE.watch(self, Heartbeat._age)

    def done(self, arrived: bool) -> None:
        """Record the end of a heartbeat."""
        now = self._tried = time.monotonic()
        metrics.HEARTBEATS.labels(self._binary, 'ok' if arrived else 'failed').inc()
        if not arrived:
            return
        late = self._arrived is not None and now - self._arrived > 2 * self._interval_s
        metrics.HEARTBEATS_LATE.labels(self._binary).inc(late)
        self._arrived = now

    def _age(self) -> dict[tuple[str], float]:
        return {} if self._arrived is None else {(self._binary,): time.monotonic() - self._arrived}

    def alive(self) -> State:
        """Return whether the sending thread makes progress."""
        since = time.monotonic() - self._tried
        return since < self._interval_s + HEARTBEAT_STUCK_S, {'seconds_since_try': round(since, 1)}

    def ready(self) -> State:
        """Return whether heartbeats succeed."""
        if self._arrived is None:
            return False, {'arrived': 'never'}
        since = time.monotonic() - self._arrived
        return since < self._max_age_s, {'seconds_since_arrival': round(since, 1)}


class Dependencies:
    """A part that only reports dependencies of the process.

    :param needs: {name: function() that raises if the dependency is unavailable}; it may block
    """

    def __init__(self, needs: Mapping[str, Callable[[], object]]) -> None:
        self._checks = {name: _Check(name, function) for name, function in needs.items()}

    def start(self) -> None:
        pass

    def stop(self, timeout: float) -> None:
        pass

    def ready(self) -> States:
        deadline = time.monotonic() + ANSWER_S
        for check in self._checks.values():
            check.ask()
        return {name: check.answer(deadline) for name, check in self._checks.items()}


class _Check:
    """Runs the check of one dependency in a separate thread, so that a hanging check does not delay others.

    A check is not started again while it runs.
    """

    def __init__(self, name: str, function: Callable[[], object]) -> None:
        self._name, self._function = name, function
        self._lock, self._answered = threading.Lock(), threading.Event()
        self._asked = float('-inf')
        self._asking = False
        self._result: State = False, {}

    def ask(self) -> None:
        with self._lock:
            if self._asking or time.monotonic() - self._asked < FRESH_S:
                return
            self._asked, self._asking = time.monotonic(), True
            self._answered.clear()
        if not concurrency.try_spawn(f'check-{self._name}', self._ask):
            self._note((False, {'error': 'no thread can start'}))

    def _ask(self) -> None:
        begun = time.monotonic()
        try:
            self._function()
            result: State = True, {'seconds': round(time.monotonic() - begun, 3)}
        except Exception as error:
            result = False, {'error': type(error).__name__}    # not the error's text, which may name hosts and users
        self._note(result)

    def _note(self, result: State) -> None:
        with self._lock:
            self._result, self._asking = result, False
            self._answered.set()

    def answer(self, deadline: float) -> State:
        if not self._answered.wait(max(0, deadline - time.monotonic())):
            return False, {'no answer for seconds': round(time.monotonic() - self._asked, 1)}
        return self._result


def alive(parts: Iterable[object]) -> States:
    """Return {name: (whether it is healthy, details)} of all parts, including nested parts."""
    return _gathered(parts, 'alive')


def ready(parts: Iterable[object]) -> States:
    return _gathered(parts, 'ready')


def _gathered(parts: Iterable[object], question: str) -> States:
    found: dict[str, State] = {}
    for part in parts:
        found.update(getattr(part, question, dict)())
        found.update(_gathered(getattr(part, 'parts', ()), question))
    return found


def well(found: States) -> bool:
    return all(good for good, _details in found.values())
