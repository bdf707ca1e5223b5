"""Waiting for what others do."""
import time


def wait_for(condition, seconds, what, pause_s=0.05):
    """Wait until ``condition()`` is true and give its value back."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f'waited {seconds} s for {what}'
        time.sleep(pause_s)


def settled(check, seconds=10, pause_s=0.05):
    """The value of ``check()`` once it holds: what it asserts may come true a moment after an answer, as the mapping of
    a server goes after its row; what it asserted last is raised after ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            return check()
        except AssertionError:
            time.sleep(pause_s)
    return check()
