"""A compute that is cut off while it builds: another one builds the server, and nothing is left on the first."""
import threading
import types

import pytest
import sqlalchemy as sa

from nova import exception
from nova import objects
from nova import states
from nova.db.networks import ports
from nova.db.placement import server_groups
from nova.db.projects import quotas
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.tables import network as tables_network
from nova.network import fake
from nova.network import manager
from nova.network import setup
from nova.tests import core
from nova.tests.support.waiting import wait_for

BOUND_S = 30             # of every wait: what is waited for comes, on however busy a machine
# methods before which, or after which, the build on host1 stands still
MOMENTS = {
    'taken': ('begin_task', False), 'begun': ('begin_task', True), 'ports asked for': ('allocate_for_instance', False),
    'ports given': ('allocate_for_instance', True), 'guest made': ('end_task', False)}


class Cloud(core.Cloud):
    """With the ports of the product's own network service."""

    def __init__(self, path, hosts):
        super().__init__(path, hosts, network__driver='fake')
        setup.bootstrap(self.conf, self.api_db)
        self.network = manager.NetworkManager(self.conf, self.api_db, 'controller', fake.FakeDriver(self.conf),
                                              self.db)
        self.bus.managers['network', None] = self.network

    def ports(self, uuid):
        """[(host, address)] of a server."""
        with self.api_db.reader() as conn:
            return [(row['host'], row['mac_address']) for row in ports.of_device(conn, uuid)]

    def check(self):
        with self.api_db.reader() as conn:
            rows = conn.execute(sa.select(tables_network.ports)).mappings().all()
        self.network.allocated = {row['device_id']: (row['host'], []) for row in rows}
        super().check()


@pytest.fixture
def cloud(tmp_path):
    cloud = Cloud(tmp_path, ('host1', 'host2'))
    yield cloud
    cloud.close()


class Held:
    """The first call of a method stands still, before it is done or with its answer, until it is let go."""

    def __init__(self, bus, method, answered):
        self._method, self._lock = method, threading.Lock()
        self._reached, self._free = threading.Event(), threading.Event()
        if answered:
            bus.reply_lost = lambda topic, name: self._hold(name)
        else:
            bus.lost = lambda topic, name, server: self._hold(name)

    def _hold(self, name):
        with self._lock:
            first = name == self._method
            if first:
                self._method = None
        if first:
            self._reached.set()
            assert self._free.wait(4 * BOUND_S)
        return False

    def reached(self):
        assert self._reached.wait(BOUND_S)

    def let_go(self):
        self._free.set()


def cut_off(cloud, method, answered, **spec):
    """(uuid, Held) of a server whose build on host1 stands still; nobody has heard of that host for long."""
    cloud.force_down('host2')
    cloud.scheduler.table.hosts(full=True)
    held = Held(cloud.bus, method, answered)
    uuid, = cloud.create(**spec)
    held.reached()
    assert cloud.row(uuid)['host'] == 'host1'
    cloud.force_down('host2', down=False)
    cloud.force_down('host1')
    cloud.scheduler.table.hosts(full=True)
    return uuid, held


def active_on(cloud, uuid, host):
    row = cloud.row(uuid)
    return (row['vm_state'], row['task_state'], row['host']) == (states.ACTIVE, None, host)


@pytest.mark.parametrize('moment', MOMENTS)
def test_build_of_a_host_that_was_cut_off_continues_on_another_host(cloud, moment):
    """It ended in ERROR."""
    uuid, held = cut_off(cloud, *MOMENTS[moment])
    cloud.pass_time()
    assert cloud.conductor.reconciler.reconcile() == 1
    wait_for(lambda: active_on(cloud, uuid, 'host2'), seconds=BOUND_S)
    ports = cloud.ports(uuid)
    assert [host for host, _ in ports] == ['host2']
    held.let_go()                                    # the first host is back, and goes on
    cloud.settle()
    assert active_on(cloud, uuid, 'host2') and cloud.ports(uuid) == ports
    assert cloud.row(uuid)['fault'] is None
    (_, message, finished, events), = cloud.actions(uuid)
    assert (message, finished) == (None, True)
    assert sorted(events) == [('compute_build_instance', 'Error'), ('compute_build_instance', 'Success')]
    cloud.check()


@pytest.mark.parametrize('moment', ['ports asked for', 'ports given'])
def test_the_first_host_goes_on_before_the_other_one_has_ports(cloud, moment):
    uuid, held = cut_off(cloud, *MOMENTS[moment])
    cloud.pass_time()
    second = Held(cloud.bus, 'allocate_for_instance', False)
    assert cloud.conductor.reconciler.reconcile() == 1
    second.reached()
    held.let_go()
    wait_for(lambda: not cloud.computes['host1'].queue.busy(uuid), seconds=BOUND_S)
    second.let_go()
    cloud.settle()
    assert active_on(cloud, uuid, 'host2') and [host for host, _ in cloud.ports(uuid)] == ['host2']
    cloud.check()


def test_the_first_host_gets_no_ports_any_more_and_ends_after_the_other_one(cloud):
    """The server has left it."""
    uuid, held = cut_off(cloud, *MOMENTS['ports asked for'])
    cloud.pass_time()
    second = Held(cloud.bus, 'allocate_for_instance', False)
    assert cloud.conductor.reconciler.reconcile() == 1
    second.reached()
    third = Held(cloud.bus, 'allocate_for_instance', True)
    cloud.bus.lost = None
    held.let_go()
    third.reached()
    assert cloud.ports(uuid) == []
    second.let_go()
    wait_for(lambda: active_on(cloud, uuid, 'host2'), seconds=BOUND_S)
    third.let_go()
    cloud.settle()
    assert active_on(cloud, uuid, 'host2') and [host for host, _ in cloud.ports(uuid)] == ['host2']
    cloud.check()


def test_the_message_comes_when_another_host_has_built_it(cloud):
    cloud.force_down('host2')
    cloud.bus.lost = lambda topic, name, server: name == 'build_instance'
    uuid, = cloud.create()
    cloud.settle()
    cloud.bus.lost = None
    late = objects.Instance.from_row(cloud.row(uuid))
    cloud.force_down('host2', down=False)
    cloud.force_down('host1')
    cloud.pass_time()
    assert late.host == 'host1' and cloud.conductor.reconciler.reconcile() == 1
    cloud.settle()
    assert active_on(cloud, uuid, 'host2')
    cloud.client['compute'].build_instance(cloud.ctx, server='host1', instance=late,
                                           spec=cloud.conductor.methods.get_request_spec(None, uuid))
    cloud.settle()
    assert active_on(cloud, uuid, 'host2') and [host for host, _ in cloud.ports(uuid)] == ['host2']
    cloud.check()


def test_the_first_host_is_started_again(cloud):
    """Nothing undoes what it has made: it finds the guest."""
    uuid, held = cut_off(cloud, *MOMENTS['guest made'])
    cloud.kill_compute('host1')
    held.let_go()
    cloud.pass_time()
    assert cloud.conductor.reconciler.reconcile() == 1
    cloud.settle()
    assert active_on(cloud, uuid, 'host2')
    found = cloud.restarted('host1')
    cloud.settle()
    assert found == [uuid]
    cloud.check()


@pytest.mark.parametrize('moment', MOMENTS)
def test_a_host_that_is_back_in_time_ends_it(cloud, moment):
    """Whether its deadline has passed or not, and whoever has looked meanwhile."""
    uuid, held = cut_off(cloud, *MOMENTS[moment])
    assert cloud.conductor.reconciler.reconcile() == 0
    cloud.force_down('host1', down=False)
    cloud.pass_time()
    assert cloud.conductor.reconciler.reconcile() == 1          # it is asked once more
    held.let_go()
    cloud.settle()
    assert active_on(cloud, uuid, 'host1') and [host for host, _ in cloud.ports(uuid)] == ['host1']
    cloud.check()


def test_ports_that_the_first_host_gets_at_its_release_are_the_next_ones(cloud):
    """The host asks for them between the release of the server and the record of its failure."""
    uuid, held = cut_off(cloud, *MOMENTS['ports asked for'])

    def run(function, *args):
        held.let_go()
        wait_for(lambda: cloud.ports(uuid) or not cloud.computes['host1'].queue.busy(uuid), seconds=BOUND_S)
        return cloud.api_db.run(function, *args)
    cloud.conductor.builds._api_db = types.SimpleNamespace(run=run)
    cloud.pass_time()
    assert cloud.conductor.reconciler.reconcile() == 1
    wait_for(lambda: active_on(cloud, uuid, 'host2'), seconds=BOUND_S)
    cloud.settle()
    assert active_on(cloud, uuid, 'host2') and [host for host, _ in cloud.ports(uuid)] == ['host2']
    cloud.check()


def test_a_host_that_comes_back_meanwhile_keeps_it(cloud):
    """The reconciler has read that it is down, and a heartbeat comes before it writes."""
    uuid, held = cut_off(cloud, *MOMENTS['ports given'])
    row = cloud.row(uuid)
    cloud.force_down('host1', down=False)
    cloud.conductor.builds.replace_build(cloud.ctx, row)
    assert cloud.conductor.methods.get_request_spec(None, uuid).retry_hosts == []       # its host has not failed
    held.let_go()
    cloud.settle()
    assert active_on(cloud, uuid, 'host1') and [host for host, _ in cloud.ports(uuid)] == ['host1']
    cloud.check()


WAITS = {
    'no other host': {'down': True},
    'its host was named': {'spec': {'requested_host': 'host1'}},
    'its host was forced': {'spec': {'force_host': 'host1'}},
    'it may have volumes': {'spec': {'block_devices': [{'destination_type': 'volume'}]}}}


@pytest.mark.parametrize('why', WAITS)
def test_it_waits_for_its_host(cloud, why):
    uuid, held = cut_off(cloud, *MOMENTS['ports given'], **WAITS[why].get('spec', {}))
    if WAITS[why].get('down'):
        cloud.force_down('host2')
    cloud.pass_time()
    assert cloud.conductor.reconciler.reconcile() == 1
    row = cloud.row(uuid)
    assert (row['vm_state'], row['task_state'], row['host']) == (states.BUILDING, states.SPAWNING, 'host1')
    held.let_go()
    cloud.settle()
    assert active_on(cloud, uuid, 'host1') and cloud.row(uuid)['fault'] is None
    cloud.check()


@pytest.mark.parametrize(('is_only', 'host'), [(True, 'host2'), (False, 'host1')])
def test_member_of_an_affinity_group_is_built_on_another_host_if_it_is_the_only_one(cloud, is_only, host):
    """It waited for its host: it was counted as a member on that host."""
    with cloud.api_db.writer() as conn:
        group = server_groups.create(conn, quotas.Limits({'server_groups': -1}, {}), {
            'project_id': 'p', 'user_id': 'u', 'name': 'g', 'policies': [server_groups.AFFINITY]})['uuid']

    def join(uuid):
        with cloud.db.writer() as conn:
            instances.update(conn, uuid, {'server_group_id': group})
    if not is_only:
        join(cloud.boot(requested_host='host1'))
    uuid, held = cut_off(cloud, *MOMENTS['ports given'], hints={'group': [group]})
    join(uuid)
    cloud.pass_time()
    assert cloud.conductor.reconciler.reconcile() == 1
    if is_only:
        wait_for(lambda: active_on(cloud, uuid, host), seconds=BOUND_S)
    held.let_go()
    cloud.settle()
    assert active_on(cloud, uuid, host)
    cloud.check()


def test_volumes_that_no_guest_can_have_hold_up_nothing(cloud):
    cloud.force_down('host2')
    cloud.bus.lost = lambda topic, name, server: name == 'build_instance'
    uuid, = cloud.create(block_devices=[{'destination_type': 'volume'}])
    cloud.settle()
    cloud.bus.lost = None
    cloud.force_down('host2', down=False)
    cloud.force_down('host1')
    cloud.pass_time()
    assert cloud.conductor.reconciler.reconcile() == 1
    cloud.settle()
    assert active_on(cloud, uuid, 'host2')
    cloud.check()


def test_fault_says_that_no_other_host_was_found_after_the_host_went_down(cloud):
    uuid, held = cut_off(cloud, *MOMENTS['ports given'])
    cloud.pass_time()

    def lost(topic, name, server):
        if name == 'select_destinations':
            raise exception.NoValidHost(reason='1 host: 1 is down or disabled.', details='')
        return False
    cloud.bus.lost = lost
    assert cloud.conductor.reconciler.reconcile() == 1
    row = cloud.row(uuid)
    assert (row['vm_state'], row['task_state'], row['host']) == (states.ERROR, None, None)
    assert row['fault']['message'] == ('The host went down while the server was being built. No valid host was found. '
                                       '1 host: 1 is down or disabled.')
    assert cloud.ports(uuid) == []
    held.let_go()
    cloud.settle()
    cloud.check()


def test_hosts_that_went_down_are_no_attempts(cloud):
    """One more host than may be tried goes down with the server; it is built all the same."""
    cloud.conf.set_override('max_attempts', 1, 'scheduler')
    uuid, held = cut_off(cloud, *MOMENTS['begun'])
    cloud.pass_time()
    assert cloud.conductor.reconciler.reconcile() == 1
    wait_for(lambda: active_on(cloud, uuid, 'host2'), seconds=BOUND_S)
    held.let_go()
    cloud.settle()
    cloud.check()


def test_a_deletion_does_not_wait_for_a_host_that_is_down(cloud):
    """It waited for the deadline of hosts that work: 120 s untaken, 600 s after the host had begun."""
    uuid = cloud.boot(force_host='host1')
    cloud.kill_compute('host1')
    cloud.delete(uuid)
    assert cloud.conductor.reconciler.reconcile() == 0 and not cloud.gone(uuid), 'the host counts as up'
    cloud.db.run(instance_actions.take, uuid, 'compute:host1')
    cloud.force_down('host1')
    assert cloud.conductor.reconciler.reconcile() == 1
    wait_for(lambda: cloud.gone(uuid), seconds=BOUND_S)
