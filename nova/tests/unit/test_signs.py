"""Heartbeats of calls that take long: one thread sends them for all."""
import threading

import oslo_messaging
import pytest

from nova.rpc import keepalive
from nova.tests.support.waiting import wait_for


class Incoming:
    """A message of a call, as the driver hands it to a dispatcher."""

    def __init__(self, client_timeout, broken=False):
        self.client_timeout, self.ctxt, self.signs, self._broken = client_timeout, {}, 0, broken
        self.message = {'method': 'work', 'args': {}, 'version': '1.0'}

    def heartbeat(self):
        self.signs += 1
        if self._broken:
            raise oslo_messaging.MessageDeliveryFailure('nobody waits')


class Endpoint:
    target = oslo_messaging.Target(version='1.0')

    def __init__(self):
        self.go_on = threading.Event()

    def work(self, _context):
        self.go_on.wait(30)
        return 'done'


@pytest.fixture
def served(monkeypatch):
    monkeypatch.setattr(keepalive, 'POLL_INTERVAL_S', 0.05)
    endpoint = Endpoint()
    yield keepalive.Dispatcher([endpoint], None), endpoint
    endpoint.go_on.set()


def test_caller_of_a_long_call_receives_repeated_keepalives(served):
    dispatcher, endpoint = served
    calls = [Incoming(0.4), Incoming(0.4), Incoming(0.4, broken=True), Incoming(None), Incoming(600)]
    threads = [threading.Thread(target=dispatcher.dispatch, args=(call,)) for call in calls]
    others = threading.active_count()
    for thread in threads:
        thread.start()
    wait_for(lambda: calls[0].signs >= 2 and calls[1].signs >= 2 and calls[2].signs)
    assert threading.active_count() <= others + len(calls) + 1         # one thread for all
    assert [call.signs for call in calls[2:]] == [1, 0, 0]             # who is gone is not told again
    endpoint.go_on.set()
    for thread in threads:
        thread.join()
    had = calls[0].signs
    wait_for(lambda: not dispatcher._at_work)                             # nor does it wake up for nothing
    assert calls[0].signs <= had + 1


def test_a_call_begins_the_signs_anew(served):
    dispatcher, endpoint = served
    endpoint.go_on.set()
    assert dispatcher.dispatch(Incoming(0.2)) == 'done'
    wait_for(lambda: not dispatcher._at_work)
    endpoint.go_on.clear()
    call = Incoming(0.2)
    thread = threading.Thread(target=dispatcher.dispatch, args=(call,))
    thread.start()
    wait_for(lambda: call.signs)
    endpoint.go_on.set()
    thread.join()


def test_keepalives_begin_with_the_next_call_after_a_thread_could_not_start(served, monkeypatch):
    dispatcher, endpoint = served
    endpoint.go_on.set()

    def fail(*_args):
        raise RuntimeError("can't start new thread")
    with monkeypatch.context() as patch:
        patch.setattr(keepalive.concurrency, 'spawn', fail)
        with pytest.raises(RuntimeError):
            dispatcher.dispatch(Incoming(0.2))
    endpoint.go_on.clear()
    call = Incoming(0.2)
    thread = threading.Thread(target=dispatcher.dispatch, args=(call,))
    thread.start()
    wait_for(lambda: call.signs)
    endpoint.go_on.set()
    thread.join()
