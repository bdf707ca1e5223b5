"""What tests share with nova/tests/integration/test_network_agents.py."""
import contextlib
import ctypes
import os
import pathlib
import socket
import subprocess
import threading
import types
import uuid

import pytest
import requests

from nova import conf as nova_conf
from nova import context
from nova.network import interface
from nova.network.agents import agent_client
from nova.network.linux import runner
from nova.rpc import bus as rpc_bus
from nova.tests.support import waiting
from nova.tests.integration import daemons
from nova.tests.integration import prepared
from nova.tests.integration import servers

run = runner.Runner()
BOUND_S = 60                        # until a daemon is there
START_S = 120                       # until all are there, which begin at once
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
        waiting.wait_for(lambda: servers.answers(port), START_S, 'nova-api to answer')
        waiting.wait_for(lambda: self.alive() == BOTH, START_S, 'both agents to report')

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
        """Names of the hosts whose agents are heard of; nothing while the API cannot say."""
        with contextlib.suppress(requests.RequestException):
            answer = requests.get(f'{self.url}/network/v2.0/agents', headers={'X-Auth-Token': self._token}, timeout=60)
            if answer.status_code == requests.codes.ok:
                return BOTH & {each['host'] for each in answer.json()['agents'] if each['alive']}
        return set()

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


def resident(pid):
    """Megabytes of a process that are in memory."""
    text = pathlib.Path(f'/proc/{pid}/status').read_text()
    return int(text.partition('VmRSS:')[2].split()[0]) / 1024
