"""Agents of the network service as processes over RabbitMQ: one on each of two hosts, which have no database.

A host is a network namespace with a /run of its own, and reaches nothing outside but the broker.
"""
import contextlib
import os
import pathlib
import shutil
import time
import uuid

import pytest

from nova import conf as nova_conf
from nova.network import interface
from nova.network.linux import driver
from nova.tests import long_runs
from nova.tests.support import waiting
from nova.tests.support import network_agents
from nova.tests.support import network_overlay as overlay
from nova.tests.support.network_agents import BOTH
from nova.tests.support.network_agents import BOUND_S
from nova.tests.support.network_agents import resident

cloud = network_agents.cloud


_MISSING = [command for command in (*driver.COMMANDS, 'busybox', 'ping', 'nsenter', 'unshare')
            if not shutil.which(command)]
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason='needs root'),
    pytest.mark.skipif(bool(_MISSING), reason='not installed: ' + ', '.join(_MISSING)),
]

CHANGE_S = 5                        # for a change of a group: it takes far less than 1 s where nothing else runs
AGENT_MB = 80                       # of memory that an agent may have
@pytest.fixture(scope='module')
def guests(cloud):
    """Two, one on each host, in one network."""
    network = cloud.network()
    made = [overlay.Guest(cloud, host, network['id'], f'guest{number}', network['project_id'], None)
            for number, host in enumerate(cloud.hosts)]
    for guest in made:
        assert guest.dhcp()[0] == guest.address
    group = group_of(cloud, made)
    listening = made[1].listens(7001)
    try:
        let_pings_alone_in(cloud, group)
        waiting.wait_for(lambda: not overlay.connects(made[0].space, made[1].address, 7001, 0.2), BOUND_S,
                         'the filters to close')
    finally:
        listening.kill()
        listening.wait()
    return made


def group_of(cloud, guests):
    return cloud.ask('GET', f'ports/{guests[1].port}')['port']['security_groups'][0]


def remove_ingress(cloud, group):
    for rule in cloud.ask('GET', f'security-group-rules?security_group_id={group}')['security_group_rules']:
        if rule['direction'] == 'ingress':
            cloud.ask('DELETE', f'security-group-rules/{rule["id"]}')


def let_pings_alone_in(cloud, group):
    remove_ingress(cloud, group)
    cloud.ask('POST', 'security-group-rules', security_group_rule={
        'security_group_id': group, 'direction': 'ingress', 'protocol': 'icmp'})


def reach(guests):
    return guests[0].pings(guests[1].address) and guests[1].pings(guests[0].address)


def test_guests_of_two_hosts_reach_each_other(cloud, guests):
    waiting.wait_for(lambda: reach(guests), CHANGE_S, 'the guests to reach each other')
    table = cloud.hosts[0].run('bridge', 'fdb', 'show')
    assert f'{guests[1].mac} dev vx{guests[0].vif["network"]["bridge"][2:]} dst 192.0.2.2' in table


def test_an_agent_opens_no_database(cloud, guests):
    for host in cloud.hosts:
        opened = [os.readlink(each) for pid in host.agent.pids() for each in pathlib.Path(f'/proc/{pid}/fd').iterdir()]
        assert not [path for path in opened if 'sqlite' in path], opened
        assert any('socket' in path for path in opened)
        assert not list(host.state.rglob('*.sqlite'))
        conf = nova_conf.new(files=[str(host.state / f'{host.agent.name}.conf')])
        assert not conf.database.connection and not conf.api_database.connection
    network = cloud.daemons['network']                          # the same look finds it where there is one
    assert [each for each in pathlib.Path(f'/proc/{network.pids()[0]}/fd').iterdir()
            if os.readlink(each).endswith('.sqlite')]


def test_an_agent_is_small(cloud, guests):
    for host in cloud.hosts:
        assert resident(host.agent.pids()[0]) <= AGENT_MB


def change(cloud, guests):
    """Let TCP port 7000 in, then no more: [seconds until the other host's guest notices], both times."""
    group = group_of(cloud, guests)
    listening, took = guests[1].listens(7000), []

    def connects():
        return bool(overlay.connects(guests[0].space, guests[1].address, 7000, 0.2))
    try:
        remove_ingress(cloud, group)
        waiting.wait_for(lambda: not connects(), CHANGE_S, 'the filters to close')
        rule = cloud.ask('POST', 'security-group-rules', security_group_rule={
            'security_group_id': group, 'direction': 'ingress', 'protocol': 'tcp', 'port_range_min': 7000,
            'port_range_max': 7000})['security_group_rule']['id']
        begun = time.monotonic()
        waiting.wait_for(connects, CHANGE_S, 'the filters to open')
        took.append(time.monotonic() - begun)
        cloud.ask('DELETE', f'security-group-rules/{rule}')
        begun = time.monotonic()
        waiting.wait_for(lambda: not connects(), CHANGE_S, 'the filters to close')
        took.append(time.monotonic() - begun)
    finally:
        listening.kill()
        listening.wait()
        let_pings_alone_in(cloud, group)
    waiting.wait_for(lambda: reach(guests), CHANGE_S, 'the guests to reach each other')
    return took


def test_a_change_of_a_group_arrives(cloud, guests, capsys):
    """The service signed as a host, which agents do not believe: they found a change within a minute."""
    took = change(cloud, guests)
    with capsys.disabled():
        print('\nseconds until a change of a group applies on the other host:', *(f'{each:.2f}' for each in took))


def test_an_agent_killed_and_started_again_loses_nothing(cloud, guests):
    host = cloud.hosts[1]
    before = host.run('bridge', 'fdb', 'show'), host.run('nft', 'list', 'tables')
    host.agent.kill()
    assert reach(guests)
    waiting.wait_for(lambda: cloud.alive() == {'host1'}, BOUND_S, 'the agent to be missed')
    waiting.wait_for(lambda: any('host2' in line and ' down ' in line for line in cloud.services()), BOUND_S,
                     'the service to be down')
    host.agent.start()
    waiting.wait_for(lambda: cloud.alive() == BOTH, BOUND_S, 'the agent to be back')
    assert (host.run('bridge', 'fdb', 'show'), host.run('nft', 'list', 'tables')) == before
    assert reach(guests) and guests[1].dhcp()[0] == guests[1].address
    change(cloud, guests)


@contextlib.contextmanager
def changed_unheard(cloud, guests, name, back):
    """The block changes a group without the other host hearing of it; ``back()`` ends what kept the news from it.

    Its agent found out with its next sync, up to a minute later.
    """
    yield
    group = group_of(cloud, guests)
    rule = cloud.ask('POST', 'security-group-rules', security_group_rule={
        'security_group_id': group, 'direction': 'ingress', 'protocol': 'tcp'})['security_group_rule']['id']
    listening = guests[1].listens(7001)
    try:
        assert not overlay.connects(guests[0].space, guests[1].address, 7001, 1)
        back()
        begun = time.monotonic()
        waiting.wait_for(lambda: overlay.connects(guests[0].space, guests[1].address, 7001, 0.2), CHANGE_S,
                         'the agent to catch up')
        print(f'{name}: {time.monotonic() - begun:.2f} s after it was back the change applied')
    finally:
        listening.kill()
        listening.wait()
        cloud.ask('DELETE', f'security-group-rules/{rule}')
    waiting.wait_for(lambda: cloud.alive() == BOTH, BOUND_S, 'the agents to report')
    assert reach(guests)


@long_runs.only
def test_agents_catch_up_after_the_network_service_was_killed(cloud, guests, capsys):
    """Agents go on; what changed meanwhile they take up when it is back."""
    service = cloud.daemons['network']

    def back():
        service.start()
        cloud.bus.client(interface.INTERFACE).network_info(cloud.face.context, instance_uuid=str(uuid.uuid4()))
    with capsys.disabled(), changed_unheard(cloud, guests, '\nnetwork service', back):
        service.kill()
        assert reach(guests) and guests[0].dhcp()[0] == guests[0].address


@long_runs.only
def test_agent_catches_up_after_its_connection_was_cut(cloud, guests, capsys):
    """The same of an agent whose connection was down."""
    door = cloud.hosts[1].door

    def back():
        door.open()
        waiting.wait_for(lambda: cloud.alive() == BOTH, BOUND_S, 'the agent to connect again', 0.05)
    with capsys.disabled(), changed_unheard(cloud, guests, '\nconnection of an agent', back):
        door.close()
        waiting.wait_for(lambda: cloud.alive() == {'host1'}, BOUND_S, 'the agent to be missed')
        assert reach(guests)


@long_runs.only
def test_agent_starts_without_a_network_service(cloud, guests):
    """It begins, leaves alone what is there, and takes up its work when one is there."""
    cloud.daemons['network'].kill()
    cloud.hosts[0].agent.kill()
    cloud.hosts[0].agent.start()
    waiting.wait_for(lambda: not cloud.alive(), BOUND_S, 'the agents not to be heard of')
    assert reach(guests)
    cloud.daemons['network'].start()
    waiting.wait_for(lambda: cloud.alive() == BOTH, BOUND_S * 2, 'the agents to report')
    assert reach(guests)


@long_runs.only
def test_agents_reconnect_to_a_restarted_broker(cloud, guests):
    cloud.broker.kill()
    cloud.broker.stop()
    assert reach(guests)
    waiting.wait_for(lambda: not cloud.alive(), BOUND_S, 'the agents to be missed')
    cloud.broker.start()
    waiting.wait_for(lambda: cloud.alive() == BOTH, BOUND_S, 'the agents to connect again')
    assert reach(guests)
    change(cloud, guests)
