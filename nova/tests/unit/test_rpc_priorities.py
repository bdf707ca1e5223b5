"""Messages of projects share the threads of an RPC server by cost."""
import threading
import types

import pytest

from nova.rpc import priorities
from nova.tests.support import waiting

INTERFACE = types.SimpleNamespace(topic='conductor', methods={
    'build': types.SimpleNamespace(name='build', at_once=1), 'other': types.SimpleNamespace(name='other', at_once=0)})


@pytest.fixture
def pools():
    made = priorities.Pools(INTERFACE, 2)
    yield made
    made.shutdown()


def message(project_id, method='other'):
    return [types.SimpleNamespace(ctxt={'project_id': project_id}, message={'method': method},
                                  acknowledge=lambda: None)]


@pytest.mark.parametrize('method', ['other', 'build'])
def test_a_message_of_another_project_is_not_behind_all_of_one(pools, method):
    gate, order = threading.Event(), []

    def work(incoming):
        gate.wait(20)
        order.append(incoming[0].ctxt['project_id'])
    futures = [pools.submit(work, message('a', method)) for _ in range(20)]
    futures.append(pools.submit(work, message('b', method)))
    gate.set()
    for future in futures:
        future.result(20)
    assert len(order) == 21 and order.index('b') < 5


def test_messages_beyond_the_limit_are_not_acknowledged(pools, monkeypatch):
    """The RPC server acknowledges them when they have a thread."""
    monkeypatch.setattr(priorities, 'MAX_WAITING', 3)
    gate, acknowledged = threading.Event(), []

    def submit(number, method):
        incoming = message(f'p{number % 2}', method)
        incoming[0].acknowledge = lambda: acknowledged.append(number)
        return pools.submit(lambda _incoming: gate.wait(20), incoming)
    futures = [submit(number, 'other') for number in range(20)]
    first = list(acknowledged)
    assert 3 <= len(first) <= 3 + 2                      # and those that run
    futures += [submit(number, 'build') for number in range(20, 40)]    # they would stop all other methods
    assert acknowledged == [*first, *range(20, 40)]
    gate.set()
    for future in futures:
        future.result(20)
    assert acknowledged == [*first, *range(20, 40)]


def test_one_project_alone_has_all_threads(pools):
    both = threading.Barrier(2)
    futures = [pools.submit(lambda _incoming: both.wait(20), message('a')) for _ in range(2)]
    assert sorted(future.result(20) for future in futures) == [0, 1]


def test_pool_is_full_when_a_message_between_services_waits(pools):
    gate = threading.Event()
    for _ in range(3):
        pools.submit(lambda _incoming: gate.wait(20), message('a'))
    waiting.wait_for(lambda: not pools.full, 20, 'two to begin')     # the third one waits for its project's turn
    probe = pools.submit(lambda _incoming: 'here', message(None))
    assert pools.full
    gate.set()
    assert probe.result(20) == 'here'
    waiting.wait_for(lambda: not pools.full, 20, 'the pool to be free')


def test_queued_work_runs_when_the_pool_shuts_down():
    pools, gate, done = priorities.Pools(INTERFACE, 1), threading.Event(), []

    def work(incoming):
        gate.wait(20)
        done.append(incoming[0].ctxt['project_id'])
    for project_id in ('a', 'a', 'b'):
        pools.submit(work, message(project_id))
    pools.shutdown(wait=False)
    with pytest.raises(RuntimeError):
        pools.submit(work, message('c'))
    gate.set()
    pools.shutdown()
    assert sorted(done) == ['a', 'a', 'b']


def test_an_error_of_a_message_frees_its_thread(pools):
    def fail(_incoming):
        raise ValueError('x')
    failed = [pools.submit(fail, message('a')) for _ in range(5)]
    for future in failed:
        with pytest.raises(ValueError):
            future.result(20)
    assert pools.submit(lambda _incoming: 1, message('b')).result(20) == 1
