"""Agents of the network service as processes over RabbitMQ: one on each of two hosts, which have no database.

A host is a network namespace with a /run of its own, and reaches nothing outside but the broker.
"""
import contextlib
import ctypes
import os
import pathlib
import shutil
import socket
import subprocess
import threading
import time
import types
import uuid

import pytest
import requests

from nova import conf as nova_conf
from nova import context
from nova.network import interface
from nova.network.agents import agent_client
from nova.network.linux import driver
from nova.network.linux import runner
from nova.rpc import bus as rpc_bus
from nova.tests import long_runs
from nova.tests import waiting
from nova.tests.integration import daemons
from nova.tests.integration import prepared
from nova.tests.integration import servers
from nova.tests.integration import test_network_overlay as overlay

_MISSING = [command for command in (*driver.COMMANDS, 'busybox', 'ping', 'nsenter', 'unshare')
            if not shutil.which(command)]
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason='needs root'),
    pytest.mark.skipif(bool(_MISSING), reason='not installed: ' + ', '.join(_MISSING)),
]

run = runner.Runner()
BOUND_S = 60                        # until a daemon is there, on a machine that does much else
CHANGE_S = 5                        # for a change of a group: it takes far less than 1 s where nothing else runs
AGENT_MB = 80                       # of memory that an agent may have
CLONE_NEWNET = 0x40000000
BOTH = {'host1', 'host2'}
SHARED = '''
[DEFAULT]
transport_url = {url}
state_path = {state}
host = {host}
report_interval = 1
service_down_time = 8
graceful_shutdown_timeout = 5
[messages]
signatures = accept
[identity]
password_hash_rounds = 4
[network]
bridge = {bridge}
'''
CONTROLLER = SHARED + '''
[database]
connection = sqlite:///{state}/cell.sqlite
[api_database]
connection = sqlite:///{state}/api.sqlite
[http]
port = {port}
[network]
driver = fake
routers = false
'''
AGENT = SHARED + '''
[network]
agent = true
driver = linux
tunnel_address = {address}
'''


class Door:
    """A port of the broker within a network namespace."""

    def __init__(self, space, port):
        self._space, self._port, self._ends = space, port, []
        self.open()

    def open(self):
        made = []
        opener = threading.Thread(target=lambda: made.append(self._listener(self._space, self._port)))
        opener.start()
        opener.join()
        self._listening, = made
        threading.Thread(target=self._serve, daemon=True).start()

    @staticmethod
    def _listener(space, port):
        with open(f'/run/netns/{space}', 'rb') as handle:         # of this thread alone, which ends
            if ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), space)
        return socket.create_server(('127.0.0.1', port), reuse_port=True)

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                inner, _peer = self._listening.accept()
                try:
                    outer = socket.create_connection(('127.0.0.1', self._port))
                except OSError:
                    inner.close()
                    continue
                self._ends += [inner, outer]
                for source, sink in ((inner, outer), (outer, inner)):
                    threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pass(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._ends.clear()


class HostDaemon(daemons.Daemon):
    """A daemon in the namespaces of a host."""

    def __init__(self, directory, name, holder=None):
        super().__init__(directory, name)
        self._command = [*(('nsenter', '-t', str(holder.pid), '-n', '-m') if holder else ()),
                         *map(str, self._command)]

    def pids(self):
        """Of the daemon and of those that it has started."""
        found = [self._process.pid]
        for pid in found:
            found += map(int, pathlib.Path(f'/proc/{pid}/task/{pid}/children').read_text().split())
        return found


class Host:
    """A host that has nothing but the broker, and its agent."""

    def __init__(self, cloud, number):
        self.name, self.space = f'host{number}', cloud.space(f'h{number}')
        run('ip', '-n', cloud.outer, 'link', 'add', f'tun{number}', 'type', 'veth', 'peer', 'name', 'tun0', 'netns',
            self.space)
        run('ip', '-n', cloud.outer, 'link', 'set', f'tun{number}', 'master', 'tun', 'up')
        run('ip', '-n', self.space, 'link', 'set', 'tun0', 'up')
        run('ip', '-n', self.space, 'address', 'add', f'192.0.2.{number}/24', 'dev', 'tun0')
        self.run = runner.Runner(('nsenter', f'--net=/run/netns/{self.space}'))
        self._holder = subprocess.Popen(
            ['nsenter', f'--net=/run/netns/{self.space}', 'unshare', '--mount', 'sh', '-c',
             'mount -t tmpfs tmpfs /run && mkdir /run/netns && echo && exec sleep infinity'], stdout=subprocess.PIPE)
        cloud.stack.callback(self._holder.wait)
        cloud.stack.callback(self._holder.kill)
        self._holder.stdout.readline()
        self.door = Door(self.space, cloud.broker.port)
        cloud.stack.callback(self.door.close)
        cloud.stack.callback(self._end_what_stays)
        self.state = cloud.path / self.name
        self.state.mkdir()
        (self.state / f'network{number}.conf').write_text(AGENT.format(
            url=cloud.broker.url, state=self.state, host=self.name, bridge=cloud.bridge, address=f'192.0.2.{number}'))
        self.agent = HostDaemon(self.state, f'network{number}', self._holder)
        cloud.stack.callback(self.agent.end)
        self.client = agent_client.AgentClient(
            cloud.bus.client(interface.INTERFACE), cloud.bus.of_host(self.name).client(interface.AGENT), self.name)

    def _end_what_stays(self):
        """DHCP, relays and what keeps namespaces outlive the agent; ``ip netns exec`` has mounts of its own."""
        own = pathlib.Path(f'/proc/{self._holder.pid}')
        mine = {'mnt': {(own / 'ns/mnt').stat().st_ino},
                'net': {(own / 'ns/net').stat().st_ino, *(
                    each.stat().st_ino for each in (own / 'root/run/netns').iterdir())}}
        for entry in pathlib.Path('/proc').glob('[0-9]*'):
            with contextlib.suppress(OSError):
                if int(entry.name) != self._holder.pid and any(
                        (entry / 'ns' / kind).stat().st_ino in found for kind, found in mine.items()):
                    os.kill(int(entry.name), 9)


class Cloud:
    """The control plane, which has the databases, and two hosts. Guests find here what test_network_overlay has."""

    def __init__(self, stack, path):
        self.stack, self.path, self.tag = stack, path, uuid.uuid4().hex[:6]
        self.bridge = f'na{self.tag}'
        self.broker = stack.enter_context(servers.rabbitmq())
        port = servers.free_port()
        self.url = f'http://127.0.0.1:{port}'
        self.daemons = {}
        for name in ('conductor', 'network', 'api'):
            (path / f'{name}.conf').write_text(CONTROLLER.format(
                url=self.broker.url, state=path, host='controller', bridge=self.bridge, port=port))
            self.daemons[name] = HostDaemon(path, name)
            stack.callback(self.daemons[name].end)
        first = prepared.prepare(path / 'conductor.conf', self.url)
        first.close()
        self._token = first.token
        self.bus = rpc_bus.Bus(nova_conf.new(files=[str(path / 'conductor.conf')]), self.broker.url)
        self.bus.pins.learn({})
        stack.callback(self.bus.close)
        self.face = types.SimpleNamespace(context=context.admin_context())
        self.outer = self.space('o')
        run('ip', '-n', self.outer, 'link', 'add', 'tun', 'type', 'bridge')
        run('ip', '-n', self.outer, 'link', 'set', 'tun', 'up')
        self.hosts = [Host(self, number) for number in (1, 2)]
        for daemon in (*self.daemons.values(), *(host.agent for host in self.hosts)):
            daemon.start()
        waiting.wait_for(lambda: servers.answers(port), BOUND_S, 'nova-api to answer')
        waiting.wait_for(lambda: self.alive() == BOTH, BOUND_S, 'both agents to report')

    def space(self, kind):
        name = f'nw{kind}{self.tag}'
        run('ip', 'netns', 'add', name)
        self.stack.callback(run, 'ip', 'netns', 'del', name, check=False)
        run('ip', '-n', name, 'link', 'set', 'lo', 'up')
        return name

    def ask(self, method, path, **body):
        answer = requests.request(method, f'{self.url}/network/v2.0/{path}', json=body or None,
                                  headers={'X-Auth-Token': self._token}, timeout=60)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    def alive(self):
        """Names of the hosts whose agents are heard of."""
        return BOTH & {each['host'] for each in self.ask('GET', 'agents')['agents'] if each['alive']}

    def network(self):
        network = self.ask('POST', 'networks', network={'name': 'net'})['network']
        self.ask('POST', 'subnets', subnet={'network_id': network['id'], 'cidr': '10.0.0.0/24', 'ip_version': 4})
        return network

    def services(self):
        """What nova-manage prints of the agents."""
        printed = subprocess.run([prepared.BIN / 'nova-manage', 'service', 'list', '--config-file',
                                  self.path / 'conductor.conf'], check=True, text=True, stdout=subprocess.PIPE).stdout
        return [line for line in printed.splitlines() if 'nova-network-agent' in line]


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        yield Cloud(stack, tmp_path_factory.mktemp('agents'))


@pytest.fixture(scope='module')
def guests(cloud):
    """Two, one on each host, in one network."""
    network = cloud.network()
    made = [overlay.Guest(cloud, host, network['id'], f'guest{number}', network['project_id'], None)
            for number, host in enumerate(cloud.hosts)]
    for guest in made:
        assert guest.dhcp()[0] == guest.address
    return made


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


def resident(pid):
    """Megabytes of a process that are in memory."""
    text = pathlib.Path(f'/proc/{pid}/status').read_text()
    return int(text.partition('VmRSS:')[2].split()[0]) / 1024


def test_an_agent_is_small(cloud, guests):
    for host in cloud.hosts:
        assert resident(host.agent.pids()[0]) <= AGENT_MB


def change(cloud, guests):
    """Let TCP port 7000 in, then no more: [seconds until the other host's guest notices], both times."""
    group = cloud.ask('GET', f'ports/{guests[1].port}')['port']['security_groups'][0]
    listening, took = guests[1].listens(7000), []

    def connects():
        return bool(overlay.connects(guests[0].space, guests[1].address, 7000, 0.2))
    rules = [each['id'] for each in cloud.ask('GET', f'security-group-rules?security_group_id={group}')[
        'security_group_rules'] if each['direction'] == 'ingress']
    try:
        for rule in rules:
            cloud.ask('DELETE', f'security-group-rules/{rule}')
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
        cloud.ask('POST', 'security-group-rules', security_group_rule={
            'security_group_id': group, 'direction': 'ingress', 'protocol': 'icmp'})
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
    group = cloud.ask('GET', f'ports/{guests[1].port}')['port']['security_groups'][0]
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
def test_the_network_service_killed_and_back(cloud, guests, capsys):
    """Agents go on; what changed meanwhile they take up when it is back."""
    service = cloud.daemons['network']

    def back():
        service.start()
        cloud.bus.client(interface.INTERFACE).network_info(cloud.face.context, instance_uuid=str(uuid.uuid4()))
    with capsys.disabled(), changed_unheard(cloud, guests, '\nnetwork service', back):
        service.kill()
        assert reach(guests) and guests[0].dhcp()[0] == guests[0].address


@long_runs.only
def test_a_host_cut_off_and_back(cloud, guests, capsys):
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
def test_an_agent_started_without_a_service(cloud, guests):
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
def test_the_broker_restarted(cloud, guests):
    cloud.broker.kill()
    cloud.broker.stop()
    assert reach(guests)
    waiting.wait_for(lambda: not cloud.alive(), BOUND_S, 'the agents to be missed')
    cloud.broker.start()
    waiting.wait_for(lambda: cloud.alive() == BOTH, BOUND_S, 'the agents to connect again')
    assert reach(guests)
    change(cloud, guests)
