"""The threads that hash: in turn by address, bounded, and beside everything else."""
import threading
import time

import pytest

from nova import exception
from nova.identity import hashing


class Held:
    """A pool of one thread that is busy until ``release``; what ends is noted in the order in which it does."""

    def __init__(self, places):
        self.pool, self.order, self.refused, self.threads = hashing.HashPool(1, places), [], [], []
        self._goes_on = threading.Event()
        self.put('first', self._goes_on.wait)
        self.until(lambda: self.pool._held == 1 and self.pool._waiting == 0)

    @staticmethod
    def until(condition):
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def put(self, lane, function=lambda: None):
        def ask():
            try:
                self.pool.run(lane, lambda: (function(), self.order.append(lane)))      # as they are served
            except exception.ServiceBusy as error:
                self.refused.append((lane, error.kwargs['retry_after']))
        thread = threading.Thread(target=ask, daemon=True)
        before = self.pool._held + len(self.refused)
        thread.start()
        self.threads.append(thread)
        self.until(lambda: self.pool._held + len(self.refused) > before)

    def release(self):
        self._goes_on.set()
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive()


def test_addresses_are_served_in_turn():
    held = Held(20)
    for lane in ('a', 'a', 'a', 'a', 'b', 'b', 'c'):
        held.put(lane)
    held.release()
    assert held.refused == [] and sorted(held.order[1:4]) == ['a', 'b', 'c'] and sorted(held.order[4:6]) == ['a', 'b']


def test_full_pool_refuses_the_project_with_most_waiting_work():
    held = Held(5)
    for _ in range(6):
        held.put('flood')
    assert held.refused == [('flood', hashing.RETRY_S)] * 2
    with pytest.raises(exception.ServiceBusy):
        held.pool.check('flood')
    held.pool.check('honest')
    held.put('honest')
    held.put('other')
    held.put('third')
    assert [lane for lane, _retry in held.refused] == ['flood'] * 5
    with pytest.raises(exception.ServiceBusy):                 # nobody has two more
        held.pool.run('late', lambda: None)
    held.release()
    assert sorted(held.order) == ['first', 'flood', 'honest', 'other', 'third']


def test_errors_reach_who_asked_and_the_thread_goes_on():
    pool = hashing.HashPool(1, 2)
    with pytest.raises(ZeroDivisionError):
        pool.run('a', lambda: 1 / 0)
    assert pool.run('a', lambda value: value + 1, 1) == 2 and pool._held == pool._waiting == 0


def test_hash_pool_runs_no_more_threads_than_its_size(monkeypatch):
    monkeypatch.setattr(hashing, 'IDLE_S', 0.05)
    pool, running, most, lock = hashing.HashPool(3, 50), [0], [0], threading.Lock()

    def busy():
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.05)
        with lock:
            running[0] -= 1
    threads = [threading.Thread(target=pool.run, args=(number, busy)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 3
    Held.until(lambda: pool._threads == 0)                      # they end when there is nothing to do
    assert pool.run('a', lambda: 1) == 1
