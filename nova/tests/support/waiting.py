"""Waiting for what others do."""
import time


def wait_for(condition, seconds=120, what='it', pause_s=0.02):
    """Wait until ``condition()`` is true and return its value; to ask takes half of the time at most."""
    deadline = time.monotonic() + seconds
    while True:
        asked = time.monotonic()
        value = condition()
        if value:
            return value
        now = time.monotonic()
        assert now < deadline, f'waited {seconds} s for {what}'
        time.sleep(max(pause_s, now - asked))


def settled(check, seconds=10, pause_s=0.05):
    """The value of ``check()`` once it holds: what it asserts may come true a moment after an answer, as the mapping of
    a server goes after its row; what it asserted last is raised after ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while (asked := time.monotonic()) < deadline:
        try:
            return check()
        except AssertionError:
            time.sleep(max(pause_s, time.monotonic() - asked))
    return check()
