"""Waiting for reports of plugged ports."""
import threading

import pytest

from nova import exception
from nova.compute.ports import plugging

SERVER = 's'


def vif(ident, active=False):
    return {'id': ident, 'active': active}


def event(tag, status='completed', name=plugging.PLUGGED):
    return {'name': name, 'tag': tag, 'status': status}


def waiter(waits, vifs, timeout=5, fatal=True, look=lambda: None):
    return waits.waiter(SERVER, vifs, timeout, fatal, look)


def test_plugging_wait_without_ports_returns_immediately():
    waits = plugging.Plugging()
    assert waiter(waits, [vif('a', True)]) is None
    assert waiter(waits, [vif('a')], timeout=0) is None


def test_reports_before_and_during_the_wait():
    waits, vifs = plugging.Plugging(), [vif('a'), vif('b'), vif('c', True)]
    wait = waiter(waits, vifs)
    waits.report(SERVER, [event('a'), event('a'), event('c'), event('b', name=plugging.UNPLUGGED)])
    waits.report('another', [event('b')])
    threading.Timer(0.2, waits.report, (SERVER, [event('b', 'in-progress'), event('b')])).start()
    wait()
    assert all(each['active'] for each in vifs)


def test_failed_or_missing_plug_event_fails_the_build():
    waits, vifs = plugging.Plugging(), [vif('a'), vif('b')]
    wait = waiter(waits, vifs)
    waits.report(SERVER, [event('b', 'failed'), event('a')])
    with pytest.raises(exception.VifPluggingFailed, match='failure of port b'):
        wait()
    assert [each['active'] for each in vifs] == [True, False]
    with pytest.raises(exception.VifPluggingFailed, match='no event arrived'):
        waiter(waits, [vif('a')], timeout=0.1)()
    waiter(waits, [vif('a')], timeout=0.1, fatal=False)()


def test_plugging_wait_ends_when_the_server_is_deleted(monkeypatch):
    monkeypatch.setattr(plugging, 'CHECK_INTERVAL_S', 0.05)

    def look():
        raise exception.InstanceChanged(instance_id=SERVER)
    with pytest.raises(exception.InstanceChanged):
        waiter(plugging.Plugging(), [vif('a')], 60, look=look)()


def test_a_wait_that_nobody_holds_is_forgotten():
    waits = plugging.Plugging()
    wait = waiter(waits, [vif('a')])
    assert len(waits._waiters) == 1
    del wait
    assert not waits._waiters
