"""The agent of the network services on a host: over a bus, with the rights of a host, and without a database."""
import json
import subprocess
import sys
import types

import pytest
import sqlalchemy as sa

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova.cmd import all as cmd_all
from nova.cmd import network as cmd_network
from nova.db.tables import network as t
from nova.network import api
from nova.network import authority
from nova.network import interface
from nova.network.agents import agent
from nova.network.agents import agent_client
from nova.network.host import state as host_state
from nova.rpc import bus as rpc_bus
from nova.rpc import inprocess
from nova.runtime import metrics
from nova.tests.support import network_manager as unit


class Driver:
    """Keeps what it is told."""

    def __init__(self):
        self.states, self.mended, self.error = [], [], None

    def start(self):
        self.states.clear()

    def refresh(self, load):
        if self.error:
            raise self.error
        self.states.append(load())
        return self.mended


class Fleet:
    """A network service, and an agent on host1 that asks it over a bus."""

    def __init__(self, path):
        self.rig = unit.Rig(path)
        self.bus = rpc_bus.Bus(self.rig.conf, f'{inprocess.SCHEME}:///{path}')
        self.serve()
        self.of_host = self.bus.of_host('host1').client(interface.INTERFACE)
        self.driver = Driver()
        self.agent = agent.NetworkAgent(nova_conf.new(files=[], network__tunnel_address='192.0.2.1'), 'host1',
                                        self.driver, self.of_host)
        self.rig.context.update_store()

    def serve(self):
        cell_db = types.SimpleNamespace()           # not read for what agents ask
        self.server = self.bus.serve(interface.INTERFACE, self.rig.manager, 'control',
                                     authority.admission_of(cell_db))
        self.server.start()

    def begin(self):
        """Start the agent as its service does."""
        self.agent.start()
        self.agent.listening()

    @staticmethod
    def asked():
        """{method of the network interface that agents call: how many messages}"""
        return {name: sum(sample.value for metric in metrics.RPC_SENT.collect() for sample in metric.samples
                          if sample.name.endswith('_total') and sample.labels['method'] == name)
                for name in ('report_host', 'host_state')}

    def close(self):
        self.server.stop()
        self.server.wait(30)
        self.bus.close()


def add_rule(fleet, port=22, remote_group_id=None):
    """A rule of the group that the ports are in, as the API makes it."""
    with fleet.rig.db.reader() as conn:
        group = conn.execute(sa.select(t.default_security_groups.c.security_group_id)).scalar_one()
    return api.API(fleet.rig.db, fleet.rig.conf).groups_of(context.admin_context()).add_rule(unit.PROJECT, {
        'security_group_id': group, 'ethertype': 'IPv4', 'protocol': 'tcp', 'port_range_min': port,
        'port_range_max': port, 'remote_ip_prefix': None, 'remote_group_id': remote_group_id})


@pytest.fixture
def fleet(tmp_path):
    made = Fleet(tmp_path)
    yield made
    made.close()


def test_the_agent_has_what_a_service_with_the_database_has(fleet):
    fleet.begin()
    assert fleet.driver.states[-1].ports == []
    vif, = fleet.rig.allocate()
    fleet.agent.apply_host_state(context.admin_context())
    told = fleet.driver.states[-1]
    assert [port.id for port in told.ports] == [vif['id']] and told.tunnel == '192.0.2.1'
    loaded = json.loads(json.dumps(host_state.as_json(fleet.rig.manager.load())))
    assert host_state.as_json(told) == {**loaded, 'tunnel': '192.0.2.1'}


def test_a_report_applies_a_changed_state_and_repeats_a_failed_attempt(fleet):
    fleet.begin()
    begun = len(fleet.driver.states)
    fleet.agent.report()
    assert len(fleet.driver.states) == begun
    fleet.of_host.report_host(context.admin_context(), host='host1', address='192.0.2.7', routers=True)
    fleet.driver.error = exception.NetworkPlumbingError(reason='no room')
    with pytest.raises(exception.NetworkPlumbingError):
        fleet.agent.report()                        # its address is the one before again
    fleet.driver.error = None
    fleet.agent.report()
    assert len(fleet.driver.states) == begun + 1
    fleet.agent.report()
    assert len(fleet.driver.states) == begun + 1


def test_a_change_that_no_message_said_is_found_by_the_next_report(fleet):
    """It was found with the next sync, up to 60 s later: no network service ran when a group got a rule."""
    vif, = fleet.rig.allocate()
    fleet.begin()
    fleet.server.stop()
    fleet.server.wait(30)
    known = fleet.driver.states[-1].rules
    rule = add_rule(fleet)
    fleet.serve()
    begun, asked = len(fleet.driver.states), fleet.asked()
    fleet.agent.report()
    assert len(fleet.driver.states) == begun + 1
    group, = known
    assert {row['direction'] for row in fleet.driver.states[-1].rules[group]} == {'ingress', 'egress'}
    assert len(fleet.driver.states[-1].rules[group]) == len(known[group]) + 1, rule
    assert fleet.asked() == {'report_host': asked['report_host'] + 1, 'host_state': asked['host_state'] + 1}


def test_a_quiet_network_costs_a_report_one_small_message(fleet):
    fleet.rig.allocate()
    fleet.begin()
    asked = fleet.asked()
    for _ in range(3):
        fleet.agent.report()
    assert fleet.asked() == {'report_host': asked['report_host'] + 3, 'host_state': asked['host_state']}
    answer = fleet.of_host.report_host(context.admin_context(), host='host1', address='192.0.2.1', routers=True)
    assert len(answer) == 2                 # it had all hosts and all routers: of N hosts N squared a report


def test_a_rule_is_told_by_itself(fleet):
    """The whole state, of 312 kB with 2,000 ports, was read, sent and looked at for one rule, by each host."""
    fleet.rig.allocate()
    fleet.begin()
    states = fleet.driver.states
    add_rule(fleet)
    add_rule(fleet, 23)
    answer = fleet.agent._services.host_state(
        context.admin_context(), host='host1', physical_networks={}, address='192.0.2.1',
        applied_state={'revision': fleet.agent._revision, 'members': sorted(states[-1].members)})
    assert answer.keys() == {'revision', 'rules', 'members'} and answer['members'] == {}
    fleet.agent.host_state_changed(context.admin_context())
    loaded = host_state.as_json(fleet.rig.manager.load())
    assert host_state.as_json(states[-1]) == json.loads(json.dumps({**loaded, 'tunnel': '192.0.2.1'}))
    # nothing more, until there is more
    begun = len(states)
    fleet.agent.host_state_changed(context.admin_context())
    assert len(states) == begun
    fleet.agent.apply_host_state(context.admin_context())   # a guest is about to begin: the host is looked at
    fleet.agent.sync()
    assert len(states) == begun + 2
    fleet.rig.allocate()
    fleet.agent.host_state_changed(context.admin_context())
    assert len(states[-1].ports) == 2
    loaded = host_state.as_json(fleet.rig.manager.load())
    assert host_state.as_json(states[-1]) == json.loads(json.dumps({**loaded, 'tunnel': '192.0.2.1'}))


def test_a_rule_that_names_a_group_brings_its_members(fleet):
    fleet.rig.allocate()
    groups = api.API(fleet.rig.db, fleet.rig.conf).groups_of(context.admin_context())
    other = groups.create(unit.PROJECT, 'other', '')['id']
    vif, = fleet.rig.allocate(groups=['other'], host='host2')
    fleet.begin()
    add_rule(fleet, remote_group_id=other)
    fleet.agent.host_state_changed(context.admin_context())
    assert fleet.driver.states[-1].members[other] == [unit.address(vif)]


def test_rule_change_is_applied_by_refilter_if_the_driver_supports_it(fleet):
    """And does all of it where it does not know the rest any more."""
    asked = []

    def refilter(rules, members):
        asked.append((rules, members))
        return len(asked) == 1
    fleet.rig.allocate()
    fleet.begin()
    fleet.driver.refilter = refilter
    begun = len(fleet.driver.states)
    for port in (22, 23):
        add_rule(fleet, port)
        fleet.agent.host_state_changed(context.admin_context())
    assert len(asked) == 2 and len(fleet.driver.states) == begun + 1
    assert fleet.driver.states[-1].rules == asked[-1][0]


def test_a_driver_that_need_not_look_is_let_follow(fleet):
    """For a port it looked at all networks and routers of the host, with a dozen commands each."""
    followed = []

    def follow(load):
        followed.append(load())
        return []
    fleet.begin()
    fleet.driver.follow = follow
    begun = len(fleet.driver.states)
    fleet.rig.allocate()
    fleet.agent.host_state_changed(context.admin_context())
    fleet.agent.apply_host_state(context.admin_context())
    assert len(followed[-1].ports) == 1 and len(followed) == 2 and len(fleet.driver.states) == begun
    fleet.agent.sync()
    assert len(followed) == 2 and len(fleet.driver.states) == begun + 1


def test_the_retry_of_a_failed_check_checks_the_whole_host(fleet, monkeypatch):
    followed = []
    fleet.begin()
    fleet.driver.follow = lambda load: followed.append(load()) or []
    begun = len(fleet.driver.states)

    def away(*args, **arguments):
        raise exception.ServiceUnavailable(service='network')
    with monkeypatch.context() as patch:
        patch.setattr(fleet.agent._services, 'host_state', away, raising=False)
        with pytest.raises(exception.ServiceUnavailable):
            fleet.agent.sync()
    fleet.agent.report()
    assert len(fleet.driver.states) == begun + 1 and followed == []
    fleet.agent.apply_host_state(context.admin_context())
    assert len(fleet.driver.states) == begun + 1 and len(followed) == 1


@pytest.mark.parametrize('known', [{}, {'revision': 7}, {'revision': [0, 0], 'members': [1]}, {'members': []}])
def test_host_state_accepts_any_applied_state(fleet, known):
    fleet.rig.allocate()
    answer = fleet.of_host.host_state(context.admin_context(), host='host1', physical_networks={}, address='192.0.2.1',
                                      applied_state=known)
    assert 'state' in answer


def test_agent_applies_no_state_while_the_network_service_is_unavailable():
    class Away:
        def report_host(self, ctx, **arguments):
            raise exception.ServiceUnavailable(service='network')
        host_state = report_host
    driver = Driver()
    alone = agent.NetworkAgent(nova_conf.new(files=[]), 'host1', driver, Away())
    alone.listening()
    for ask in (alone.sync, lambda: alone.apply_host_state(context.admin_context())):
        with pytest.raises(exception.ServiceUnavailable):
            ask()
    assert driver.states == []                      # not even an empty one


def test_agent_counts_network_repairs(fleet):
    counter = metrics.NETWORK_REPAIRS.labels('filters')
    before = counter._value.get()
    fleet.driver.mended = ['filters']
    fleet.agent.sync()
    assert counter._value.get() == before + 1


@pytest.mark.parametrize('method, arguments', [
    ('report_host', {'address': '192.0.2.9', 'routers': True}),
    ('report_leases', {'leases': []}),
    ('host_state', {'physical_networks': {}, 'address': '192.0.2.9'})])
def test_a_host_asks_for_itself_alone(fleet, method, arguments):
    with pytest.raises(exception.HostForbidden):
        getattr(fleet.of_host, method)(context.admin_context(), host='host2', **arguments)
    getattr(fleet.of_host, method)(context.admin_context(), host='host1', **arguments)


@pytest.mark.parametrize('method, arguments', [
    ('report_host', {'address': 'x; reboot', 'routers': True}),
    ('host_state', {'physical_networks': [], 'address': '192.0.2.9'}),
    ('host_state', {'physical_networks': {str(n): 'b' for n in range(65)}, 'address': '192.0.2.9'})])
def test_invalid_arguments_from_a_host_are_refused(fleet, method, arguments):
    with pytest.raises(exception.InvalidInput):
        getattr(fleet.of_host, method)(context.admin_context(), host='host1', **arguments)


def test_an_agent_serves_only_its_own_host(fleet):
    server = fleet.bus.serve(interface.AGENT, fleet.agent, 'host1', agent.admission_of_agent('host1'))
    server.start()
    try:
        own, other = (fleet.bus.of_host(host).client(interface.AGENT) for host in ('host1', 'host2'))
        own.apply_host_state(context.admin_context(), server='host1')
        assert len(fleet.driver.states) == 1
        with pytest.raises(exception.HostForbidden):
            other.apply_host_state(context.admin_context(), server='host1')
    finally:
        server.stop()
        server.wait(30)


def test_the_host_applies_a_port_before_the_call_returns(fleet):
    done = []

    class Services:
        def allocate_for_instance(self, ctx, **arguments):
            done.append('allocated')
            return ['vif']

        def network_info(self, ctx, **arguments):
            return ['known']

    class Agent:
        def apply_host_state(self, ctx, server):
            done.append(f'plumbed on {server}')
    both = agent_client.AgentClient(Services(), Agent(), 'host1')
    assert both.allocate_for_instance(None) == ['vif'] and done == ['allocated', 'plumbed on host1']
    assert both.network_info(None) == ['known'] and len(done) == 2


def test_plumbing_methods_are_methods_of_the_interface():
    assert agent_client.PLUMBING_METHODS < interface.INTERFACE.methods.keys()


def test_a_change_reaches_agents(fleet):
    told = []

    class Agents:
        def host_state_changed(self, ctx):
            told.append(ctx)
    manager = fleet.rig.manager
    manager._agents, manager.gateways.others = Agents(), True
    manager.refresh_ports(context.admin_context(), port_ids=[])
    assert len(told) == 1


def test_agent_is_refused_with_embedded_network_service_or_neutron():
    conf = nova_conf.new(files=[], network__agent=True)
    with pytest.raises(exception.InvalidInput, match='nova-all runs the network service itself'):
        cmd_all.cloud(conf, {})
    conf.set_override('backend', 'neutron', group='network')
    with pytest.raises(exception.InvalidInput, match='the Networking service has its own agents'):
        cmd_network.parts(conf, None)


def test_an_agent_loads_no_database_code():
    """It has no database, and did: 12 of its 91 megabytes."""
    code = ('import sys\nfrom nova.cloud import assembly\nfrom nova.network import drivers, interface\n'
            'from nova.network.agents import agent\nfrom nova.network.linux import remote\n'
            'print([name for name in sys.modules if name in ("sqlalchemy", "oslo_db", "nova.db")])')
    found = subprocess.run([sys.executable, '-W', 'ignore', '-c', code], check=True, text=True, stdout=subprocess.PIPE)
    assert found.stdout.split('\n')[-2] == '[]'


@pytest.mark.parametrize('version', ['2', -1, None, True, 1 << 17])
def test_invalid_release_of_an_agent_is_refused(fleet, version):
    with pytest.raises(exception.InvalidInput):
        fleet.of_host.report_host(context.admin_context(), host='host1', address='192.0.2.1', routers=True,
                                  version=version)
