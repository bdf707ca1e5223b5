"""Waiting for what others do."""
import contextlib
import pathlib
import re
import time

PRESSURE = tuple(pathlib.Path('/proc/pressure', name) for name in ('cpu', 'io'))
STALLED = 0.75                      # of a second in which tasks waited for a processor or a disk does not count


def stalled():
    """Seconds since the machine started in which some task waited for a processor or a disk.

    Where the kernel does not count them, a machine is taken for a busy one: each second is one of them.
    """
    found = []
    for path in PRESSURE:
        with contextlib.suppress(OSError):
            found.append(int(re.search(r'some .*total=(\d+)', path.read_text())[1]) / 1e6)
    return sum(found) if found else time.monotonic()


class Limit:
    """A limit in seconds of a quiet machine: a busy one has up to four times as long."""

    def __init__(self, seconds):
        self._seconds, self._began, self._stalled = seconds, time.monotonic(), stalled()

    def is_over(self):
        return time.monotonic() - self._began >= self._seconds and self.spent() >= self._seconds

    def spent(self):
        """Seconds of a quiet machine since the limit began."""
        took = time.monotonic() - self._began
        return took - STALLED * min(stalled() - self._stalled, took)


def wait_for(condition, seconds=120, what='it', pause_s=0.02):
    """Wait until ``condition()`` is true and return its value; to ask takes half of the time at most."""
    limit = Limit(seconds)
    while True:
        asked = time.monotonic()
        value = condition()
        if value:
            return value
        assert not limit.is_over(), f'waited {seconds} s for {what}'
        time.sleep(max(pause_s, time.monotonic() - asked))


def settled(check, seconds=10, pause_s=0.05):
    """The value of ``check()`` once it holds: what it asserts may come true a moment after an answer, as the mapping of
    a server goes after its row; what it asserted last is raised after ``seconds``.
    """
    limit = Limit(seconds)
    while not limit.is_over():
        asked = time.monotonic()
        try:
            return check()
        except AssertionError:
            time.sleep(max(pause_s, time.monotonic() - asked))
    return check()
