"""Runs one parser after another on bytes that nobody should send, and says what it did that it must not.

A target is a function of bytes. It may raise the errors that it promises; whatever else it raises, AssertionError of
an invariant among it, is a finding, and so is an input that takes more processor time or memory than the target's
bound. The same seed makes the same inputs.
"""
import collections.abc
import contextlib
import dataclasses
import random
import signal
import threading
import time
import traceback
import tracemalloc

from nova import exception
from nova.tests.fuzz import mutations

MEASURED = 16                # every so many inputs have their memory measured, which takes time itself
MAX_FINDINGS = 20            # of one target: then it has had its say
CORPUS = 256                 # inputs that a target did not refuse, kept to be mutated further
LARGEST = 1 << 20            # bytes of an input: of a request that is gathered before anybody works on it
SHOWN = 512                  # bytes of a finding in a test's message
KEPT = 64 << 10              # of one that is mutated further
# What a client may be told: any domain error but the one that stands for a failure of ours.
REFUSALS = (exception.BadRequest, exception.Unauthorized, exception.Forbidden, exception.NotFound,
            exception.NotAcceptable, exception.Conflict)

Run = collections.abc.Callable[[bytes], object]


class TooLong(BaseException):
    """The processor time of one input is over; no parser may catch it."""


@dataclasses.dataclass(frozen=True)
class Target:
    """
    :ivar name: as ``--only`` takes it
    :ivar make: function(directory) -> function(bytes): what is fuzzed, with what it needs
    :ivar seeds: inputs to begin with
    :ivar refuses: the errors that the parser promises
    :ivar seconds: of processor time for one input at most
    :ivar mib: of memory for one input at most
    :ivar mutate: function(random.Random, bytes) -> bytes that knows the form of the input
    """

    name: str
    make: collections.abc.Callable[[str], Run]
    seeds: tuple[bytes, ...]
    refuses: tuple[type[Exception], ...] = REFUSALS
    seconds: float = 1.0
    mib: int = 32
    mutate: collections.abc.Callable[[random.Random, bytes], bytes] = mutations.texts


@dataclasses.dataclass(frozen=True)
class Finding:
    target: str
    what: str
    where: str
    data: bytes

    def __str__(self) -> str:
        return self.shown(SHOWN)

    def shown(self, most: int) -> str:
        """In lines, with so many of its bytes."""
        rest = f'… of {len(self.data)} bytes' if len(self.data) > most else ''
        return f'{self.target}: {self.what}\n    {self.where}\n    {self.data[:most].hex()}{rest}'


class Fuzz:
    """
    :param directory: an empty one, for what the target keeps in files
    """

    def __init__(self, target: Target, directory: str, seed: int = 1):
        self.target, self._random = target, random.Random(f'{target.name} {seed}')
        self._run = target.make(directory)
        self._corpus = list(target.seeds)
        self.count = self.accepted = 0
        self.slowest = 0.0
        self.findings: dict[tuple[str, str], Finding] = {}

    def run(self, seconds: float) -> list[Finding]:
        """Every seed, and then mutations of them for so long."""
        end = time.monotonic() + seconds
        for data in self.target.seeds:
            self.once(data)
        while time.monotonic() < end and len(self.findings) < MAX_FINDINGS:
            self.once(self._next())
        return list(self.findings.values())

    def _next(self) -> bytes:
        data = self._random.choice(self._corpus)
        for _ in range(self._random.choice((1, 1, 2, 4, 8))):
            own = self._random.random() < 0.6
            data = (self.target.mutate if own else mutations.anything)(self._random, data)[:LARGEST]
        return data

    def once(self, data: bytes) -> None:
        """One input, by itself."""
        measured = self.count % MEASURED == 0
        self.count += 1
        begun = time.thread_time()
        try:
            with _bounded(self.target.seconds), _memory(measured, self.target.mib):
                self._run(data)
        except self.target.refuses:
            pass
        except (TooLong, Exception) as error:
            self._found(error, data)
        else:
            self.accepted += 1
            if len(data) <= KEPT:                      # mutated further; the seeds stay
                place = self._random.randrange(len(self.target.seeds), CORPUS)
                self._corpus[place:place + 1] = [data]
        self.slowest = max(self.slowest, time.thread_time() - begun)

    def _found(self, error: BaseException, data: bytes) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        where = next((frame for frame in reversed(frames) if '/nova/' in frame.filename), frames[-1])
        place = f'{where.filename.rpartition("/nova/")[2]}:{where.lineno}'
        what = f'{type(error).__name__}: {str(error)[:300]}'
        key = type(error).__name__, place
        if key not in self.findings or len(data) < len(self.findings[key].data):
            self.findings[key] = Finding(self.target.name, what, place, data)

    def summary(self) -> str:
        return (f'{self.target.name}: {self.count} inputs, {self.accepted} accepted, slowest {self.slowest:.3f} s, '
                f'{len(self.findings)} findings')


@contextlib.contextmanager
def _bounded(seconds: float):
    """A block that ends after so much processor time of this process, which other processes do not shorten."""
    if threading.current_thread() is not threading.main_thread():
        yield                                          # no signals there
        return

    def late(_number, _frame):
        raise TooLong(f'more than {seconds} s of processor time')
    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextlib.contextmanager
def _memory(measured: bool, mib: int):
    if not measured:
        yield
        return
    tracemalloc.start()
    try:
        yield
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak <= mib << 20, f'{peak >> 20} MiB of memory, the bound is {mib}'
