"""Projects share the threads of a priority of the HTTP server by cost."""
import threading

import pytest

from nova import exception
from nova.runtime.http import priorities
from nova.tests.support import waiting


class Job:
    client = address = '127.0.0.1'

    def __init__(self, project, priority, rests):
        self.project, self.priority, self.rests = project, priority, rests
        self.parts, self.refused, self.end = 0, None, threading.Event()


class Rig:
    """A Dispatcher; each job runs in a thread of its own, joins its project, and waits until it is told to end."""

    def __init__(self, threads, *more):
        self.began, self.ended = [], []
        self.dispatcher = priorities.Dispatcher(priorities.Plan(threads, 1, *more), self._begin)

    def _begin(self, job):
        threading.Thread(target=self._run, args=(job,), daemon=True).start()

    def _run(self, job):
        try:
            self.dispatcher.join(job.priority, job, job.project)
            self.began.append(job)
            while not job.end.wait(0.005):
                if job.rests:
                    job.parts += 1
                    self.dispatcher.rest(job.priority, job)
        except exception.ServiceBusy as error:
            job.refused = error
        self.dispatcher.done(job.priority, job)
        self.ended.append(job)

    def ask(self, project, priority='', rests=False):
        job = Job(project, priority, rests)
        self.dispatcher.ask(priority, job)
        return job

    def settle(self, running, parked):
        waiting.wait_for(lambda: (self.dispatcher.running, self.dispatcher.parked) == (running, parked), 20,
                         f'{running} jobs to run and {parked} to wait')


@pytest.mark.parametrize('threads, of_one', [(2, 1), (4, 3), (12, 9), (32, 24)])
def test_another_project_finds_a_thread(threads, of_one):
    """One project's requests had all threads, and others waited until they ended."""
    rig = Rig(threads)
    jobs = [rig.ask('a') for _ in range(40)]
    rig.settle(of_one, 40 - of_one)
    assert rig.dispatcher.waiting == 0 and rig.dispatcher.threads == 40
    other = rig.ask('b')
    waiting.wait_for(lambda: other in rig.began, 20, 'the other project to begin')
    for job in (*jobs, other):
        job.end.set()
    rig.settle(0, 0)
    assert len(rig.began) == 41 and rig.dispatcher.threads == 0


def test_a_long_request_gives_way_between_its_parts():
    """Where each thread has a project of its own the next one waited until a whole request had ended."""
    rig = Rig(2)
    long = [rig.ask('a', rests=True), rig.ask('b', rests=True)]
    rig.settle(2, 0)
    short = rig.ask('c')
    waiting.wait_for(lambda: short in rig.began, 20, 'the short request to begin')
    assert not rig.ended
    short.end.set()
    before = [job.parts for job in long]
    waiting.wait_for(lambda: all(job.parts > part + 2 for job, part in zip(long, before, strict=True)), 20,
                     'both long requests to go on')
    for job in long:
        job.end.set()
    rig.settle(0, 0)


def test_resting_costs_nothing_while_nobody_waits():
    rig = Rig(2)
    job = rig.ask('a', rests=True)
    waiting.wait_for(lambda: job.parts > 5, 20, 'some parts')
    assert rig.dispatcher.parked == 0 and rig.dispatcher.running == 1
    job.end.set()
    rig.settle(0, 0)


def test_those_that_wait_with_a_thread_are_bounded(monkeypatch):
    monkeypatch.setattr(priorities, 'MAX_WAITING_OF_ONE', 2)
    monkeypatch.setattr(priorities, 'MAX_WAITING', 3)
    rig = Rig(4)
    jobs = [rig.ask('a') for _ in range(3)]
    waiting.wait_for(lambda: len(rig.began) == 3, 20, 'the first three to join')
    jobs += [rig.ask('a'), rig.ask('a')]
    rig.settle(3, 2)
    refused = rig.ask('a')
    waiting.wait_for(lambda: refused in rig.ended, 20, 'one more to be refused')
    assert refused.refused.kwargs == {'retry_after': priorities.RETRY_S}
    jobs += [rig.ask('b')]
    rig.settle(4, 2)
    jobs += [rig.ask('b')]                   # it waits without a thread until a place is free
    for job in jobs[:3]:
        job.end.set()
    waiting.wait_for(lambda: len(rig.ended) == 4, 20, 'the first three to end')
    for job in jobs:
        job.end.set()
    rig.settle(0, 0)
    assert len(rig.began) == 7


def test_shares_of_priorities_are_separate():
    """A project at its share of one face has all of its share of the others."""
    rig = Rig(12, [priorities.Priority('network', 2, 4)])
    jobs = [rig.ask('a', 'network') for _ in range(6)]
    rig.settle(3, 3)
    jobs += [rig.ask('a')]
    rig.settle(4, 3)
    jobs += [rig.ask('b', 'network')]
    rig.settle(5, 3)
    for job in jobs:
        job.end.set()
    rig.settle(0, 0)


def test_request_is_counted_once_for_its_project():
    rig = Rig(4)
    jobs = [rig.ask('a') for _ in range(3)]
    rig.settle(3, 0)
    rig.dispatcher.join('', jobs[0], 'a')    # as where two applications in a row know the caller
    for job in jobs:
        job.end.set()
    rig.settle(0, 0)


def test_without_the_server_of_this_product_nothing_waits():
    environ = {}
    priorities.join(environ, 'a')
    priorities.rest(environ)
    assert environ == {}
