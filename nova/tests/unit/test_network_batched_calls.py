"""Ports of many servers in one transaction: who waits gets a result of its own."""
import threading

import pytest

from nova import exception
from nova.db.networks import networks
from nova.network import allocation
from nova.network.agents import batched_calls
from nova.tests.support import network_manager as unit


class Runs:
    """A function whose first run waits until it is told to go on: others come meanwhile."""

    def __init__(self, wrong=(), error=exception.NoMoreFixedIps(network_id='n')):
        self.seen, self.wrong, self.error = [], wrong, error
        self.began, self.go_on = threading.Event(), threading.Event()
        self.call = batched_calls.BatchedCalls(self.run, str)

    def run(self, orders):
        self.seen.append(list(orders))
        if len(self.seen) == 1:
            self.began.set()
            assert self.go_on.wait(30)
        if any(order in self.wrong for order in orders):
            raise self.error
        return [10 * order for order in orders]

    def together(self, orders):
        """{order: result or error} of a call that is at work, 0, and of these that come meanwhile."""
        found, threads = [], []

        def one(order):
            try:
                found.append((order, self.call('lane', order)))
            except Exception as error:
                found.append((order, error))
        for number, order in enumerate([0, *orders]):
            threads.append(threading.Thread(target=one, args=(order,)))
            threads[-1].start()
            assert self.began.wait(30)
            while self.call._lanes['lane'].waiting < number:
                threading.Event().wait(0.001)
        self.go_on.set()
        for thread in threads:
            thread.join()
        return found


def test_waiting_calls_are_served_in_one_run():
    runs = Runs()
    assert dict(runs.together([1, 2, 3])) == {0: 0, 1: 10, 2: 20, 3: 30}
    assert runs.seen == [[0], [1, 2, 3]] and not runs.call._lanes
    assert runs.call('lane', 5) == 50 and runs.call('other lane', 6) == 60


def test_a_refusal_is_of_its_own_order_alone():
    found = dict((runs := Runs(wrong=[2])).together([1, 2, 3]))
    assert isinstance(found.pop(2), exception.NoMoreFixedIps)
    assert found == {0: 0, 1: 10, 3: 30}
    assert runs.seen == [[0], [1, 2, 3], [1], [2], [3]]


def test_an_error_of_the_database_is_of_all_and_the_next_run_goes_on():
    runs = Runs(wrong=[2], error=OSError('away'))
    found = dict(runs.together([1, 2, 3]))
    assert found.pop(0) == 0 and all(isinstance(each, OSError) for each in found.values()) and len(found) == 3
    assert len(runs.seen) == 2 and runs.call('lane', 1) == 10


def test_an_error_of_a_separate_retry_keeps_the_results_before_it():
    class Outage(Runs):
        def run(self, orders):
            if orders == [3]:
                self.seen.append(orders)
                raise OSError('away')
            return super().run(orders)
    runs = Outage(wrong=[2])
    found = dict(runs.together([1, 2, 3, 4]))
    assert found[0] == 0 and found[1] == 10 and isinstance(found[2], exception.NoMoreFixedIps)
    assert isinstance(found[3], OSError) and isinstance(found[4], OSError)
    assert runs.seen == [[0], [1, 2, 3, 4], [1], [2], [3]]


def test_two_messages_about_one_server_are_in_two_runs():
    runs = Runs()
    assert sorted(runs.together([1, 1, 2])) == [(0, 0), (1, 10), (1, 10), (2, 20)]
    assert runs.seen == [[0], [1, 2], [1]]


def test_a_run_is_bounded(monkeypatch):
    monkeypatch.setattr(batched_calls, 'MAX_BATCH', 2)
    runs = Runs()
    assert len(runs.together([1, 2, 3, 4, 5])) == 6
    assert runs.seen == [[0], [1, 2], [3, 4], [5]]


# ---- what one transaction does for many

@pytest.fixture
def rig(tmp_path):
    rig = unit.Rig(tmp_path, network__default_cidr='10.44.0.0/24')
    yield rig
    rig.db.dispose()


def order(rig, requests=None, groups=None, host='host1', instance=None):
    return allocation.AllocationRequest(instance or unit.make_instance(), requests, groups, host)


def request(**values):
    return {'network_id': None, 'port_id': None, 'fixed_ip': None, 'tag': None, **values}


def test_all_kinds_of_allocations_share_one_transaction(rig):
    """The default network, a named one, a user's port, a fixed address, a server that has its ports, other groups."""
    other, third = rig.add_network(), rig.add_network(cidr='10.11.0.0/29')
    mine = rig.add_port(other)
    repeated = unit.make_instance()
    before = rig.allocate(repeated)
    found = rig.manager._allocate([
        order(rig, [request(network_id=rig.network_id), request(network_id=other), request(network_id=other)]),
        order(rig, [request(port_id=mine, tag='nic')]),
        order(rig, [request(network_id=third, fixed_ip='10.11.0.5')]),
        order(rig, [request(network_id=third)], groups=['default']),
        order(rig, [], instance=repeated)])
    first, bound, fixed, named, again = found
    assert [vif['network']['id'] for vif in first] == [rig.network_id, other, other]
    assert bound[0]['id'] == mine and bound[0]['tag'] == 'nic' and again == before
    assert unit.address(fixed[0]) == '10.11.0.5' != unit.address(named[0])
    addresses = [unit.address(vif) for vifs in found for vif in vifs if vif['id'] != mine]
    assert len(set(addresses)) == len(addresses) == 6
    assert unit.address(first[1]).startswith('10.9.0.') and len({vif['address'] for vif in first}) == 3


def test_allocations_beyond_the_last_address_fail_separately(rig):
    """Six servers for five addresses: five of them have one each, the sixth is refused alone."""
    network = rig.add_network()
    runs = [order(rig, [request(network_id=network)]) for _ in range(6)]
    with pytest.raises(exception.NoMoreFixedIps):
        rig.manager._allocate(runs)
    with rig.db.reader() as conn:
        assert not conn.execute(networks.t.ports.select().where(networks.t.ports.c.network_id == network)).all()
    given = rig.manager._allocate(runs[:5])
    assert sorted(unit.address(vifs[0]) for vifs in given) == [f'10.9.0.{number}' for number in range(2, 7)]
    requests = [allocation.ReleaseRequest(each.instance.uuid, None, None) for each in runs[:5]]
    assert rig.manager._release(requests) == [1] * 5
    again = rig.manager._allocate(runs[:5])                # all rest: they are taken over
    assert sorted(unit.address(vifs[0]) for vifs in again) == [f'10.9.0.{number}' for number in range(2, 7)]


def test_port_requested_by_two_servers_goes_to_one(rig):
    mine = rig.add_port(rig.network_id)
    with pytest.raises(exception.PortInUse):
        rig.manager._allocate([order(rig, [request(port_id=mine)]) for _ in range(2)])
    assert rig.allocate(requested=[{'port_id': mine}])[0]['id'] == mine


def test_each_server_gives_back_what_its_own_caller_may(rig):
    one, two, three = (order(rig, host=host) for host in ('host1', 'host1', 'host2'))
    for each in (one, two, three):
        rig.manager._allocate([each])
    given = rig.manager._release([
        allocation.ReleaseRequest(one.instance.uuid, 'host2', None),
        allocation.ReleaseRequest(two.instance.uuid, None, lambda rows: []),
        allocation.ReleaseRequest(three.instance.uuid, 'host2', lambda rows: rows),
        allocation.ReleaseRequest('none', None, None)])
    assert given == [0, 0, 1, 0]
    with rig.db.reader() as conn:
        left = [row.device_id for row in conn.execute(networks.t.ports.select())]
    assert {one.instance.uuid, two.instance.uuid} <= set(left) and three.instance.uuid not in left
