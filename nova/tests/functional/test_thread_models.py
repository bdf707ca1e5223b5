"""What nova.runtime.concurrency promises of threads, on native and on green ones."""
import threading
import time

from nova.runtime import concurrency


def test_a_thread_that_goes_on_is_waited_for_as_long_as_was_said():
    going_on = threading.Event()
    thread = concurrency.spawn('goes-on', going_on.wait)
    for seconds in (0, 0.2):
        began = time.monotonic()
        assert concurrency.join(thread, seconds) is False
        assert seconds <= time.monotonic() - began < seconds + 5
    going_on.set()
    assert concurrency.join(thread, 30) is True
    assert concurrency.join(thread, 0) is True
