"""Ranking without sorting, requests gathered, and the view of the hosts that follows changes."""
import collections
import contextlib
import datetime
import threading
import time
import uuid as uuidlib

import numpy as np
import pytest

from nova import utils
from nova.runtime import batching
from nova.scheduler import aggregate_values
from nova.scheduler import host_view
from nova.scheduler import pipeline
from nova.tests.support import waiting
from nova.tests.support.scheduler import with_multipliers

SPREAD = with_multipliers({'ram_weight_multiplier': 1.0, 'cpu_weight_multiplier': 1.0})


def row(number, **values):
    return {'id': number + 1, 'host': f'h{number}', 'node': f'n{number}', 'change_number': 1, 'cell': 'c', 'vcpus': 8,
            'memory_mb': 8192, 'local_gb': 100, 'reserved_memory_mb': 0, 'reserved_disk_gb': 0,
            'cpu_allocation_ratio': 2.0, 'ram_allocation_ratio': 1.0, 'disk_allocation_ratio': 1.0, 'vcpus_used': 0,
            'memory_mb_used': 0, 'local_gb_used': 0, 'running_vms': 0, 'capabilities': {}, 'hypervisor_type': 'fake',
            'availability_zone': 'nova', 'disabled': False, 'forced_down': False, 'last_seen_at': utils.utcnow(),
            'aggregates': [], **values}


def view(count, **used):
    return host_view.Hosts([row(number, **{name: function(number) for name, function in used.items()})
                            for number in range(count)])


def test_smallest_value_of_aggregates_depends_on_its_type_and_bound():
    hosts = host_view.Hosts([row(0, aggregates=[{'metadata': {'k': '1.5'}}, {'metadata': {'k': '3'}}])])
    assert [aggregate_values.smallest(hosts, 'k', kind, least)[0] for kind, least in (
        (float, 0), (int, 0), (float, 2), (float, 0))] == [1.5, 3, 3, 1.5]


# ---- rank --------------------------------------------------------------------

@pytest.mark.parametrize('count', [1, 5, 64, 300, 5000])
@pytest.mark.parametrize('used', [
    lambda number: 0, lambda number: number % 3 * 512, lambda number: number * 7919 % 8192,
    lambda number: 0 if number < 5 else 512])
@pytest.mark.parametrize('shuffle', [True, False])
def test_the_best_are_those_that_sorting_all_would_give(count, used, shuffle):
    hosts, order = view(count, memory_mb_used=used), pipeline.TieBreak(shuffle=shuffle)
    for positions in (np.arange(count), np.arange(0, count, 2)):
        for _ in range(3):
            uuid = str(uuidlib.uuid4())
            every = pipeline.rank(hosts, positions, SPREAD, uuid, order)
            assert sorted(every) == list(positions)
            best = pipeline.rank(hosts, positions, SPREAD, uuid, order, enough_hosts=16)
            assert list(best) == list(every[:16])
            free = hosts.free('memory_mb')[every]
            assert (np.diff(free) <= 0).all()


def test_a_burst_is_spread_over_equals():
    hosts, firsts = view(2000), collections.Counter()
    for _ in range(2000):
        firsts[int(pipeline.rank(hosts, np.arange(2000), SPREAD, str(uuidlib.uuid4()), enough_hosts=4)[0])] += 1
    # as a fair dice throws: 63 % of the hosts, and hardly one of them more than six times
    assert 1150 < len(firsts) < 1380 and max(firsts.values()) < 10


def test_without_the_dice_equals_come_in_the_order_of_the_table():
    order = pipeline.TieBreak(shuffle=False)
    ranked = pipeline.rank(view(100), np.arange(100), SPREAD, str(uuidlib.uuid4()), order, enough_hosts=4)
    assert list(ranked) == [0, 1, 2, 3]


def test_one_of_the_best_few_is_taken():
    hosts, firsts = view(50, memory_mb_used=lambda number: number * 100), collections.Counter()
    for _ in range(600):
        ranked = pipeline.rank(hosts, np.arange(50), SPREAD, str(uuidlib.uuid4()), pipeline.TieBreak(subset=3),
                               enough_hosts=8)
        assert sorted(ranked[:3]) == [0, 1, 2] and list(ranked[3:]) == [3, 4, 5, 6, 7]
        firsts[int(ranked[0])] += 1
    assert set(firsts) == {0, 1, 2} and min(firsts.values()) > 140


def test_a_node_of_the_same_number_in_another_cell_throws_its_own_dice():
    one, other = (host_view.Hosts([row(number, cell=cell) for number in range(40)]) for cell in ('a', 'b'))
    uuid = str(uuidlib.uuid4())
    ranked = [list(pipeline.rank(hosts, np.arange(40), SPREAD, uuid)) for hosts in (one, other)]
    assert ranked[0] != ranked[1]


# ---- the view ----------------------------------------------------------------

def same(one, other):
    """Whether two views say the same of every host."""
    assert one.rows == other.rows
    for name, array in vars(other).items():
        found = getattr(one, name)
        if isinstance(array, np.ndarray):
            assert np.array_equal(found, array), name
        elif isinstance(array, dict) and not name.startswith('_'):
            assert all(np.array_equal(found[key], array[key]) for key in array), name


def test_a_view_takes_rows_over_without_being_made_anew():
    before = view(10)
    assert list(before.match_column('availability_zone', 'nova'.__eq__)) == [True] * 10
    changes = {3: row(3, vcpus=64, availability_zone='east', disabled=True, memory_mb_used=512),
               7: row(7, running_vms=2)}
    after = before.with_rows(changes)
    same(after, host_view.Hosts([changes.get(number, before.rows[number]) for number in range(10)]))
    assert list(np.flatnonzero(~after.match_column('availability_zone', 'nova'.__eq__))) == [3]
    assert before.total['vcpus'][3] == 8 and before.zone[3] == 'nova'          # who decides on it sees one moment


def test_usage_and_heartbeats_keep_what_was_found_out():
    before = view(10)
    asked = []

    def judge(value):
        asked.append(value)
        return True
    before.cached('x', lambda: judge(1))
    used = before.with_usage({2: row(2, memory_mb_used=4096, vcpus_used=3, running_vms=1)})
    later = utils.utcnow() + datetime.timedelta(seconds=5)
    seen = used.with_seen({4: later})
    seen.cached('x', lambda: judge(2))
    assert asked == [1]
    assert seen.free('memory_mb')[2] == 4096 and before.free('memory_mb')[2] == 8192
    assert seen.seen[4] == np.datetime64(later, 'us') and before.seen[4] != seen.seen[4]


def test_consumption_is_seen_by_what_was_computed_before():
    hosts = view(3).copy()
    assert list(hosts.free('memory_mb')) == [8192] * 3 and list(hosts.left('vcpus')) == [16] * 3
    hosts.consume(1, {'vcpus': 12, 'memory_mb': 1000, 'local_gb': 5})
    assert list(hosts.free('memory_mb')) == [8192, 7192, 8192] and list(hosts.left('vcpus')) == [16, 4, 16]
    assert list(hosts.free('vcpus')) == [8, 4, 8] and list(hosts.running_vms) == [0, 1, 0]


# ---- batch ---------------------------------------------------------------

class Number(batching.Item):
    def __init__(self, number, size=1):
        super().__init__(size)
        self.number, self.result = number, None


def run(made, numbers, size=1):
    """[item] after a thread for each has brought it."""
    items = [Number(number, size) for number in numbers]
    failed = {}

    def bring(item):
        try:
            made.run(item)
        except ValueError as error:
            failed[item.number] = str(error)
    threads = [threading.Thread(target=bring, args=(item,)) for item in items]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    return items, failed


def test_waiting_items_are_processed_in_batches_one_batch_at_a_time():
    sizes, busy = [], threading.Lock()

    def work(items):
        assert busy.acquire(blocking=False)
        sizes.append(len(items))
        waiting.wait_for(lambda: sum(sizes) + len(made._waiting) == 40, 20, 'all others', 0.001)
        for item in items:
            item.result = item.number * 2
        busy.release()
    made = batching.Batch(work, 10)
    items, _ = run(made, range(40))
    assert [item.result for item in items] == [number * 2 for number in range(40)]
    assert sum(sizes) == 40 and max(sizes) == 10 and len(sizes) < 12


def test_batch_of_items_with_sizes_is_bounded_by_their_sum():
    sums = []

    def work(items):
        sums.append(sum(item.size for item in items))
        waiting.wait_for(lambda: len(sums) > 1 or len(made._waiting) == 19, 20, 'all others', 0.001)
    made = batching.Batch(work, 10)
    run(made, range(20), size=4)
    assert sums == [4, *[8] * 9, 4]
    made.run(Number(0, size=11))                                 # alone it may be larger
    assert sums[-1] == 11


def test_those_who_come_again_at_once_are_one_batch_and_not_two_halves():
    # a machine that does something else may part them, but not each time
    assert any(_together() > 4.5 for _ in range(5))         # 4 when halves take turns


def _together():
    """How many of eight callers, who all come again at once, are worked for together, on the average."""
    sizes, here, again = [], threading.Barrier(8), 30

    def work(items):
        sizes.append(len(items))
        time.sleep(0.005)
    made = batching.Batch(work, 64)

    def caller():
        here.wait(20)
        for number in range(again):
            made.run(Number(number))
    threads = [threading.Thread(target=caller) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert sum(sizes) == 8 * again
    return sum(sizes) / len(sizes)


def test_nobody_waits_for_a_thread_that_was_ended_while_it_let_others_come(monkeypatch):
    class Ended(BaseException):
        pass
    begun, go, ended = threading.Event(), threading.Event(), []

    def sleep(_seconds):
        if not ended:
            ended.append(threading.current_thread())
            raise Ended

    def work(items):
        begun.set()
        assert go.wait(10)
        for item in items:
            item.result = item.number
    made, items = batching.Batch(work, 5), [Number(number) for number in range(4)]

    def bring(item):
        with contextlib.suppress(Ended):
            made.run(item)
    threads = [threading.Thread(target=bring, args=(item,), daemon=True) for item in items]
    threads[0].start()
    assert begun.wait(10)
    for thread in threads[1:]:
        thread.start()
    deadline = time.monotonic() + 120
    while len(made._waiting) < 3 and time.monotonic() < deadline:
        time.sleep(0.001)
    monkeypatch.setattr(batching.time, 'sleep', sleep)
    go.set()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert [item.result for item in items].count(None) == len(ended) == 1 and not made._at_work


def test_one_bad_item_fails_alone_and_bad_work_fails_its_own_items_only():
    calls = []

    def work(items):
        calls.append([item.number for item in items])
        time.sleep(0.01)
        for item in items:
            if item.number == 7:
                item.error = ValueError('seven')
        if len(calls) == 2:
            raise ValueError('all')
    _, failed = run(batching.Batch(work, 5), range(20))
    assert failed[7] in ('seven', 'all')
    assert {number for number, text in failed.items() if text == 'all'} == set(calls[1])
    assert failed.keys() == {7, *calls[1]}


def test_nobody_waits_for_a_thread_that_was_ended():
    class Ended(BaseException):
        pass
    first = []

    def work(items):
        if not first:
            first.append(items[0].number)
            time.sleep(0.05)
            raise Ended
    made, ended = batching.Batch(work, 5), []

    def bring(number):
        try:
            made.run(Number(number))
        except Ended:
            ended.append(number)
    threads = [threading.Thread(target=bring, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert ended == first


@pytest.mark.parametrize('chosen', [False, True], ids=['where it waits', 'when its turn has come'])
def test_nobody_waits_for_a_thread_that_was_ended_while_it_waited(chosen):
    class Ended(BaseException):
        pass

    class Lock:
        """Held; the thread that waits for it is ended, before or just as it is released."""

        def __init__(self):
            self.locked_now = True

        def locked(self):
            return self.locked_now

        def acquire(self):
            while chosen and self.locked_now:
                time.sleep(0.001)
            raise Ended

        def release(self):
            self.locked_now = False
    begun, go = threading.Event(), threading.Event()

    def work(items):
        begun.set()
        assert go.wait(10)
        for item in items:
            item.result = item.number
    made, items, ended = batching.Batch(work, 2), [Number(number) for number in range(5)], []
    items[1]._woken = Lock()

    def bring(item):
        try:
            made.run(item)
        except Ended:
            ended.append(item.number)
    threads = []
    for number, item in enumerate(items):
        threads.append(threading.Thread(target=bring, args=(item,), daemon=True))
        threads[-1].start()
        assert begun.wait(10)
        deadline = time.monotonic() + 120
        while len(made._waiting) + len(ended) < number and time.monotonic() < deadline:
            time.sleep(0.001)
    go.set()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert ended == [1] and [item.result for item in items] == [0, None, 2, 3, 4]
