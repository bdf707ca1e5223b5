"""Agents of the network service as processes over RabbitMQ: one on each of two hosts, which have no database.

A host is a network namespace that reaches nothing outside but the broker. Its devices are simulated here.
"""
import contextlib
import ctypes
import os
import pathlib
import shutil
import socket
import subprocess
import threading
import uuid

import pytest

from nova import conf as nova_conf
from nova import context
from nova import objects
from nova.db import engine
from nova.db.networks import hosts
from nova.network import gateways
from nova.network import interface
from nova.network.agents import plumbed_client
from nova.network.linux import runner
from nova.rpc import bus as rpc_bus
from nova.tests import waiting
from nova.tests.integration import daemons
from nova.tests.integration import prepared
from nova.tests.integration import servers

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason='needs root'),
              pytest.mark.skipif(not shutil.which('nsenter'), reason='not installed: nsenter')]

run = runner.Runner()
BOUND_S = 60                        # until a daemon is there, on a machine that does much else
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
[network]
driver = fake
routers = false
'''
AGENT = SHARED + '''
[network]
agent = true
driver = fake
tunnel_address = {address}
'''


class Door:
    """A port of the broker within a network namespace."""

    def __init__(self, space, port):
        self._port = port
        made = []
        opener = threading.Thread(target=lambda: made.append(self._listener(space, port)))
        opener.start()
        opener.join()
        self._listening, = made
        threading.Thread(target=self._serve, daemon=True).start()

    @staticmethod
    def _listener(space, port):
        with open(f'/run/netns/{space}', 'rb') as handle:         # of this thread alone, which ends
            if ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), space)
        return socket.create_server(('127.0.0.1', port))

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                inner, _peer = self._listening.accept()
                try:
                    outer = socket.create_connection(('127.0.0.1', self._port))
                except OSError:
                    inner.close()
                    continue
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


class HostDaemon(daemons.Daemon):
    """A daemon in the namespace of a host."""

    def __init__(self, directory, name, space=None):
        super().__init__(directory, name)
        self._command = [*(['nsenter', f'--net=/run/netns/{space}'] if space else []), *map(str, self._command)]

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
        self._door = Door(self.space, cloud.broker.port)
        cloud.stack.callback(self._door.close)
        self.state = cloud.path / self.name
        self.state.mkdir()
        (self.state / f'network{number}.conf').write_text(AGENT.format(
            url=cloud.broker.url, state=self.state, host=self.name, bridge=cloud.bridge, address=f'192.0.2.{number}'))
        self.agent = HostDaemon(self.state, f'network{number}', self.space)
        cloud.stack.callback(self.agent.end)
        self.client = plumbed_client.Plumbed(
            cloud.bus.client(interface.INTERFACE), cloud.bus.of_host(self.name).client(interface.AGENT), self.name)


class Cloud:
    """The control plane, which has the databases, and two hosts."""

    def __init__(self, stack, path):
        self.stack, self.path, self.tag = stack, path, uuid.uuid4().hex[:6]
        self.bridge = f'na{self.tag}'
        self.broker = stack.enter_context(servers.rabbitmq())
        self.daemons = {}
        for name in ('conductor', 'network'):
            (path / f'{name}.conf').write_text(CONTROLLER.format(
                url=self.broker.url, state=path, host='controller', bridge=self.bridge))
            self.daemons[name] = HostDaemon(path, name)
            stack.callback(self.daemons[name].end)
        prepared.prepare(path / 'conductor.conf', 'http://127.0.0.1:9').close()
        self._api_db = engine.Database(f'sqlite:///{path}/api.sqlite')
        stack.callback(self._api_db.dispose)
        self.bus = rpc_bus.Bus(nova_conf.new(files=[str(path / 'conductor.conf')]), self.broker.url)
        self.bus.pins.learn({})
        stack.callback(self.bus.close)
        self.hosts = [Host(self, number) for number in (1, 2)]
        for daemon in (*self.daemons.values(), *(host.agent for host in self.hosts)):
            daemon.start()
        waiting.wait_for(lambda: self.alive() == BOTH, BOUND_S, 'both agents to report')

    def space(self, kind):
        name = f'nw{kind}{self.tag}'
        run('ip', 'netns', 'add', name)
        self.stack.callback(run, 'ip', 'netns', 'del', name, check=False)
        run('ip', '-n', name, 'link', 'set', 'lo', 'up')
        return name

    def alive(self):
        """Names of the hosts whose agents the network service has heard of lately; it has a row of its own."""
        with self._api_db.reader() as conn:
            return BOTH & {row['host'] for row in hosts.every(conn) if hosts.alive(row, gateways.DOWN_S)}

    def services(self):
        """What nova-manage prints of the agents."""
        printed = subprocess.run([prepared.BIN / 'nova-manage', 'service', 'list', '--config-file',
                                  self.path / 'conductor.conf'], check=True, text=True, stdout=subprocess.PIPE).stdout
        return [line for line in printed.splitlines() if 'nova-network-agent' in line]


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        yield Cloud(stack, tmp_path_factory.mktemp('agents'))


def plumbed(host):
    """Whether a port of a new server is allocated, and the agent of the host has plumbed it."""
    instance = objects.Instance(uuid=str(uuid.uuid4()), project_id='p1', availability_zone=None, hostname='guest')
    vif, = host.client.allocate_for_instance(
        context.admin_context(), instance=instance, requested_networks=None, security_groups=None, host=host.name)
    return bool(vif['devname'])


def test_an_agent_opens_no_database(cloud):
    for host in cloud.hosts:
        assert plumbed(host)
        opened = [os.readlink(each) for pid in host.agent.pids() for each in pathlib.Path(f'/proc/{pid}/fd').iterdir()]
        assert not [path for path in opened if 'sqlite' in path] and any('socket' in path for path in opened)
        assert not list(host.state.rglob('*.sqlite'))
        conf = nova_conf.new(files=[str(host.state / f'{host.agent.name}.conf')])
        assert not conf.database.connection and not conf.api_database.connection
    service, = cloud.daemons['network'].pids()[:1]              # the same look finds it where there is one
    assert [each for each in pathlib.Path(f'/proc/{service}/fd').iterdir() if os.readlink(each).endswith('.sqlite')]


def test_an_agent_killed_and_started_again(cloud):
    host = cloud.hosts[1]
    host.agent.kill()
    waiting.wait_for(lambda: cloud.alive() == {'host1'}, BOUND_S, 'the agent to be missed')
    waiting.wait_for(lambda: any('host2' in line and ' down ' in line for line in cloud.services()), BOUND_S,
                     'the service to be down')
    host.agent.start()
    waiting.wait_for(lambda: cloud.alive() == BOTH, BOUND_S, 'the agent to be back')
    assert plumbed(host)


def test_the_network_service_killed_and_back(cloud):
    cloud.daemons['network'].kill()
    waiting.wait_for(lambda: not cloud.alive(), BOUND_S, 'the agents not to be heard of')
    cloud.daemons['network'].start()
    waiting.wait_for(lambda: cloud.alive() == BOTH, BOUND_S, 'the agents to report')
    assert all(plumbed(host) for host in cloud.hosts)


def test_an_agent_started_without_a_service(cloud):
    """It begins, and takes up its work when one is there."""
    cloud.daemons['network'].kill()
    cloud.hosts[0].agent.kill()
    cloud.hosts[0].agent.start()
    waiting.wait_for(lambda: not cloud.alive(), BOUND_S, 'the agents not to be heard of')
    cloud.daemons['network'].start()
    waiting.wait_for(lambda: cloud.alive() == BOTH, BOUND_S * 2, 'the agents to report')
    assert plumbed(cloud.hosts[0])


def test_the_broker_restarted(cloud):
    cloud.broker.kill()
    cloud.broker.stop()
    waiting.wait_for(lambda: not cloud.alive(), BOUND_S, 'the agents not to be heard of')
    cloud.broker.start()
    waiting.wait_for(lambda: cloud.alive() == BOTH, BOUND_S, 'the agents to connect again')
    assert all(plumbed(host) for host in cloud.hosts)
