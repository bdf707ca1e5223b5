"""The queue of a compute's tasks: what is waited for gives its result, its error, or up."""
import logging
import threading
import time

import pytest

from nova import context
from nova import exception
from nova.compute import queue
from nova.runtime import concurrency
from nova.runtime.hooks import oslo_context
from nova.tests.support import waiting


@pytest.fixture
def tasks(monkeypatch):
    monkeypatch.setattr(queue, 'POLL_INTERVAL_S', 0.05)
    made = queue.TaskQueue(2, 2)
    yield made
    made.stop(5)


def test_run_returns_the_result_of_the_task(tasks):
    assert tasks.run('u', lambda one, two: one + two, 1, 2) == 3


def test_run_raises_the_error_of_the_task(tasks):
    def fail():
        raise exception.PortInUse(port_id='p')
    with pytest.raises(exception.PortInUse):
        tasks.run('u', fail)
    with pytest.raises(TimeoutError):                # the function's own is no sign that it still runs
        tasks.run('u', lambda: (_ for _ in ()).throw(TimeoutError()))
    assert tasks.run('u', lambda: 'the next one') == 'the next one'


def test_run_waits_its_turn_behind_submitted_tasks(tasks):
    go, done = threading.Event(), []
    tasks.submit('u', lambda: (go.wait(20), done.append('first')))
    waiter = threading.Thread(target=lambda: done.append(tasks.run('u', lambda: 'second')))
    waiter.start()
    assert tasks.run('other', lambda: 'meanwhile', project_id='other') == 'meanwhile' and done == []
    go.set()
    waiter.join(20)
    assert done == ['first', 'second']


def test_tasks_waiting_for_a_thread_are_abandoned_when_the_queue_stops(tasks):
    """All of it together within the time that the queue has: none begins while others are waited for."""
    go, errors, begun = threading.Event(), [], []
    for kind in (True, False):
        for number in range(2):
            tasks.submit(f'{kind} {number}', go.wait, 60, build=kind, project_id=str(number))

    def wait():
        try:
            tasks.run('u', begun.append, 'never')
        except exception.Unavailable as error:
            errors.append(error)
    waiter = threading.Thread(target=wait)
    waiter.start()
    while not tasks.busy('u'):
        time.sleep(0)
    started = time.monotonic()
    assert not tasks.stop(4)
    assert time.monotonic() - started < 7.5          # two that are waited for one after the other: 8
    go.set()
    waiter.join(20)
    assert len(errors) == 1 and not begun


def test_waiting_callers_get_unavailable_when_the_queue_stops(tasks):
    go, errors = threading.Event(), []
    tasks.submit('u', go.wait, 5)

    def wait():
        try:
            tasks.run('u', lambda: 'never')
        except exception.Unavailable as error:
            errors.append(error)
    waiter = threading.Thread(target=wait)
    waiter.start()
    while not tasks._waiting['u']:
        pass
    tasks._stopped = True
    go.set()
    waiter.join(20)
    assert len(errors) == 1
    with pytest.raises(exception.Unavailable):
        tasks.run('new', lambda: 'never')


def test_slow_tasks_of_one_project_do_not_hold_up_those_of_others():
    """A project that stopped as many deaf guests as a host has threads held up every project of that host."""
    tasks, go, begun = queue.TaskQueue(4, 4), threading.Event(), []
    try:
        for kind in (True, False):
            for number in range(20):
                tasks.submit(f'{kind} {number}', lambda: (begun.append(1), go.wait(60)), build=kind,
                             project_id='many')
        assert tasks.run('u', lambda: 'served', project_id='other') == 'served'
        built = threading.Event()
        tasks.submit('v', built.set, build=True, project_id='other')
        assert built.wait(20)
        waiting.wait_for(lambda: len(begun) >= 6, 20, 'six tasks to begin')
        assert len(begun) == 6
        go.set()
        deadline = time.monotonic() + 20
        while tasks.in_progress() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(begun) == 40
    finally:
        go.set()
        tasks.stop(5)


def test_queued_tasks_are_abandoned_when_the_queue_stops(tasks):
    go, begun = threading.Event(), threading.Event()
    for number in range(5):
        tasks.submit(str(number), lambda: (begun.set(), go.wait(60)))
    assert begun.wait(20)
    assert not tasks.stop(0.1)
    assert set(tasks.in_progress()) == {'0'}
    go.set()


# ---- whose request id log lines carry

class Lines(logging.Handler):
    """{text: request id} of lines, as oslo.log reads them on the thread of each."""

    def __init__(self):
        super().__init__()
        self.found = {}

    def emit(self, record):
        current = oslo_context.current()
        self.found[record.getMessage()] = current and current.request_id


@pytest.fixture
def lines():
    handler, logger = Lines(), logging.getLogger('nova.tests.request_ids')
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    oslo_context.become(None)


def test_log_lines_of_a_task_carry_the_id_of_its_request(lines, tasks):
    """The threads of a compute kept the context of the first task: all later lines carried its id."""
    log, done = logging.getLogger('nova.tests.request_ids'), threading.Event()

    def work(number):
        context.admin_context('req-of-nobody')               # as tasks make them for messages: no line carries it
        log.info('%s', number)
        if number == 19:
            done.set()
    for number in range(20):                                 # one server: each begins on the thread of the one before
        context.RequestContext(request_id=f'req-{number}')
        tasks.submit('u', work, number)
    oslo_context.become(None)
    assert done.wait(20)
    assert lines.found == {str(number): f'req-{number}' for number in range(20)}


def test_a_thread_without_a_task_has_no_request_id(lines):
    pool, log = concurrency.Pool('ids', 1), logging.getLogger('nova.tests.request_ids')
    context.RequestContext(request_id='req-1')
    pool.submit(log.info, 'first').result(20)
    oslo_context.become(None)
    pool.submit(context.admin_context).result(20)
    pool.submit(log.info, 'second').result(20)
    pool.stop(5)
    assert lines.found == {'first': 'req-1', 'second': None}
