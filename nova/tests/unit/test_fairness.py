"""Turns of projects at a bounded number of threads."""
import pathlib
import re
import threading
import time

import pytest

import nova
from nova.runtime import fairness
from nova.runtime import metrics
from nova.runtime import queues
from nova.tests.support import waiting


def take(taken, project_id, count):
    return sum([taken.take(project_id, project_id) for _ in range(count)])


@pytest.mark.parametrize('most, of_one', [(1, 1), (2, 1), (3, 2), (4, 3), (5, 4), (10, 8), (32, 24)])
def test_one_project_does_not_get_all(most, of_one):
    taken = fairness.FairQueue(most)
    assert take(taken, 'a', 100) == of_one
    assert take(taken, 'b', 1) == min(1, most - of_one)


def test_the_more_projects_the_less_each_has():
    taken = fairness.FairQueue(32)
    assert [take(taken, name, 100) for name in 'abcde'] == [24, 6, 1, 1, 0]
    running = {'a': 24, 'b': 6, 'c': 1, 'd': 1}
    for _ in range(200):                             # each ends in its turn
        for name in list(running):
            if running[name]:
                running[name] -= 1
                for work in taken.ended(name):
                    running[work] = running.get(work, 0) + 1
                assert sum(running.values()) <= 32
                assert set(running) == set('abcde') or running.keys() == set('abcd')
    assert not any(taken.forget())


def test_those_that_wait_take_turns():
    taken = fairness.FairQueue(3)
    assert [taken.take('a', name) for name in ('a1', 'a2', 'a3', 'a4')] == [True, True, False, False]
    assert taken.take('b', 'b1') and not taken.take('c', 'c1') and not taken.take('b', 'b2')
    order, running = [], ['a', 'a', 'b']
    while running:
        following = taken.ended(running.pop(0))
        order += following
        running += [work[0] for work in following]
    assert sorted(order) == ['a3', 'a4', 'b2', 'c1'] and order[0] == 'c1'
    assert taken.take('a', 'a5') and taken.take('b', 'b3') and taken.take('c', 'c2')


def test_forget_returns_and_removes_waiting_items():
    taken = fairness.FairQueue(1)
    assert taken.take('a', 1) and not taken.take('a', 2) and not taken.take('b', 3)
    assert taken.forget() == [2, 3] and taken.ended('a') == []


def test_the_next_project_is_the_one_of_least_cost():
    """By the number of works, one of 30 seconds counted as much as one of a tenth of a second."""
    now = [0.0]
    shares = fairness.Shares(lambda: now[0])
    shares.start('a')
    now[0] = 3.0
    shares.stop('a')
    for _ in range(10):
        shares.start('b')
        now[0] += 0.1
        shares.stop('b')
    assert shares.cost('a') > 2 * shares.cost('b') > 1
    assert shares.next(['a', 'b', 'c'], 1) == 'c' and shares.next(['a', 'b'], 1) == 'b'
    now[0] += 3 * fairness.HALF_LIFE_S
    assert shares.cost('a') < 3 / 8


def test_a_work_that_runs_counts_before_it_ends():
    now = [0.0]
    shares = fairness.Shares(lambda: now[0])
    shares.start('a')
    now[0] = 5.0
    assert shares.cost('a') == 5 and shares.cost('b') == 0
    shares.start('a')
    now[0] = 6.0
    assert 6 < shares.cost('a') <= 7


def test_costs_of_projects_that_do_nothing_are_forgotten():
    now = [0.0]
    shares = fairness.Shares(lambda: now[0])
    for number in range(fairness.MAX_COSTS + 10):
        shares.start(str(number))
        now[0] += 0.001
        shares.stop(str(number))
    assert len(shares._costs) <= fairness.MAX_COSTS and shares.running.total() == 0


def test_without_spare_threads_one_project_may_have_all():
    taken = fairness.FairQueue(3, spare=False)
    assert take(taken, 'a', 5) == 3 and not taken.take('b', 'b')
    assert taken.ended('a') == ['b']


# ---- executor

QUEUE = queues.Queue('example', 'jobs of a test', '', '2', '', '')


def sizes():
    """{metric: value} of the queue of these tests."""
    return {family['name']: sample['value'] for family in metrics.values() for sample in family['samples']
            if sample['labels'].get('queue') == QUEUE.name}


@pytest.fixture
def busy():
    """(executor of two threads without a spare one, event that ends the job on each)"""
    made, go = fairness.FairExecutor(QUEUE, 'example', 2, spare=False), threading.Event()
    for _ in range(2):
        made.submit('a', go.wait, 20)
    waiting.wait_for(lambda: not made.full, 20, 'both to begin')
    yield made, go
    go.set()
    made.stop(20)


def test_executor_returns_results_and_errors():
    made = fairness.FairExecutor(QUEUE, 'example', 2)
    assert made.submit('a', lambda one, two: one + two, 1, 2).result(20) == 3
    with pytest.raises(ZeroDivisionError):
        made.submit('a', lambda: 1 / 0).result(20)
    assert made.submit('a', lambda: 'next').result(20) == 'next'
    assert made.stop(20)
    with pytest.raises(RuntimeError):
        made.submit('a', print)


def test_executor_starts_the_waiting_project_of_least_cost(busy):
    made, go = busy
    done = []
    futures = [made.submit(project, done.append, project) for project in ('a', 'a', 'b')]
    assert made.waiting == 3 and not made.full
    go.set()
    assert [future.result(20) for future in futures] == [None] * 3 and done.index('b') < 2


def test_executor_does_not_count_jobs_without_a_project(busy):
    made, go = busy
    future = made.submit(None, lambda: 'done')
    assert made.full and made.waiting == 0
    go.set()
    assert future.result(20) == 'done'


def test_executor_that_stops_cancels_the_waiting_jobs(busy):
    made, go = busy
    queued = made.submit('b', print)
    assert not made.stop(0.01) and queued.cancelled()
    go.set()
    assert made.stop(20)


def test_executor_that_drains_runs_the_waiting_jobs(busy):
    made, go = busy
    waiting = made.submit('b', lambda: 'done')
    assert not made.stop(0.01, start_waiting=True)
    go.set()
    assert made.stop(None, start_waiting=True) and waiting.result() == 'done'


def test_queue_metrics_count_waiting_and_running_jobs(busy):
    made, go = busy
    for _ in range(3):
        made.submit('b', print)
    deadline = time.monotonic() + 20
    while made.full and time.monotonic() < deadline:
        time.sleep(0.001)
    assert sizes() == {'nova_queue_waiting': 3, 'nova_queue_running': 2}


def test_each_row_of_a_queue_is_watched():
    """A row without metrics would be a line of the reference page alone."""
    root = pathlib.Path(nova.__file__).parent
    sources = ''.join(path.read_text() for path in root.rglob('*.py')
                      if 'tests' not in path.parts and path.name != 'queues.py')
    used = set(re.findall(r'\bqueues\.([A-Z][A-Z_0-9]+)\b', sources))
    assert {queues.__dict__[name] for name in used} == set(queues.ROWS)
    assert len({row.name for row in queues.ROWS}) == len(queues.ROWS)
