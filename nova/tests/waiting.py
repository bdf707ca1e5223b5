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
