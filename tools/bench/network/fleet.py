"""Hosts with agents for tools/bench/network/services.py: processes, RabbitMQ, network namespaces, real filters.

A host is an agent and its privileged part, in a network namespace with a /run of its own; two network services are
processes as well. What is left out of the daemons: heartbeats to conductors, and signatures.
"""
import collections
import contextlib
import ctypes
import ipaddress
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import traceback
import uuid

import sqlalchemy as sa

from nova import conf as nova_conf
from nova import context
from nova.db import engine
from nova.db.networks import networks
from nova.db.networks import security_groups
from nova.db.tables import network as t
from nova.network import attach
from nova.network import authority
from nova.network import fake
from nova.network import gateways
from nova.network import groups
from nova.network import interface
from nova.network import ipam
from nova.network import manager
from nova.network.agents import agent
from nova.network.linux import driver
from nova.network.linux import remote
from nova.rpc import bus
from nova.runtime import metrics
from nova.runtime import service

NAME = 'bench-of-agents'
CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
SYNC_S, START_S, CHANGE_S = 60, 120, 60
FIRST = 10000                   # the port of the first rule, by which a change is known


class Fleet:
    """Hosts and network services; a context.

    :param url: of the database
    :param broker: URL of the broker
    :param hosts: how many
    :param ports: how many, of one project in one network of it, on all hosts
    :param services: how many network services
    """

    def __init__(self, url, broker, hosts, ports, services=2):
        self._url, self._broker, self._hosts, self._ports = url, broker, hosts, ports
        self._tag = uuid.uuid4().hex[:6]
        self._read, self._write = os.pipe()
        self._text, self._stack = b'', contextlib.ExitStack()
        self._wait_for(_child(self._prepare))
        self.services = [Process(self._serve, number) for number in range(services)]
        self.agents = [Process(self._agent, number) for number in range(hosts)]
        self.seen = collections.Counter()

    def __enter__(self):
        for number in range(self._hosts):
            space = self._space(number)
            subprocess.run(['ip', 'netns', 'add', space], check=True)
            self._stack.callback(_remove, space)
        for each in (*self.services, *self.agents):
            self._stack.callback(each.end)
        # only now threads may begin here: all processes are forked
        self._conf = self._configuration()
        self._db = engine.Database(self._url)
        self._stack.callback(self._db.dispose)
        self._bus = bus.Bus(self._conf, self._broker)
        self._bus.pins.learn({})
        self._stack.callback(self._bus.close)
        self._groups = groups.Groups(self._conf, self._db)
        with self._db.reader() as conn:
            self._project = conn.execute(sa.select(t.networks.c.project_id).where(t.networks.c.name == NAME)).scalar()
        self._group = self._db.run(security_groups.ensure_default, self._project)
        for each in self.services:
            each.start()
        self._up('service', len(self.services))
        for each in self.agents:
            each.start()
        self._up('agent', len(self.agents))
        return self

    def __exit__(self, *_error):
        self._stack.close()

    # ---- what is measured

    def change(self):
        """Seconds from before a rule is made to the first and the last host whose filters have it."""
        begun = time.monotonic()
        port = self._rule()
        self._bus.client(interface.INTERFACE).refresh_ports(context.admin_context(), port_ids=[])
        return self._applied(port, begun)

    def unheard(self):
        """The same of a rule that is made while no network service runs, from when the first one is back."""
        for each in self.services:
            each.kill()
        port = self._rule()
        for each in self.services:
            each.start()
        return self._applied(port, self._up('service', 1))

    def _rule(self):
        self.seen['rules'] += 1
        port = FIRST + self.seen['rules']
        self._groups.add_rule(self._project, {
            'security_group_id': self._group, 'ethertype': 'IPv4', 'protocol': 'tcp', 'port_range_min': port,
            'port_range_max': port, 'remote_ip_prefix': None, 'remote_group_id': None})
        return port

    def _applied(self, port, begun):
        found = {}
        while len(found) < self._hosts:
            kind, who, at, newest = self._line(CHANGE_S)
            if kind == 'filters' and newest >= port:
                found.setdefault(who, at - begun)
        return min(found.values()), max(found.values())

    def messages(self, seconds):
        """RPC messages a second of all agents while nothing changes."""
        before = self._asked()
        time.sleep(seconds)
        return (self._asked() - before) / seconds

    def _asked(self):
        for each in self.agents:
            each.ask()
        counts = {}
        while len(counts) < len(self.agents):
            kind, who, _at, number = self._line(CHANGE_S)
            if kind == 'messages':
                counts[who] = number
        return sum(counts.values())

    # ---- what the processes say

    def _say(self, kind, who, number=0):
        os.write(self._write, f'{kind} {who} {time.monotonic()} {number}\n'.encode())

    def _line(self, seconds):
        deadline = time.monotonic() + seconds
        while b'\n' not in self._text:
            if time.monotonic() > deadline:
                raise RuntimeError(f'The hosts said nothing more for {seconds} s.')
            os.set_blocking(self._read, False)
            try:
                self._text += os.read(self._read, 65536)
            except BlockingIOError:
                time.sleep(0.001)
        line, _, self._text = self._text.partition(b'\n')
        kind, who, at, number = line.decode().split()
        return kind, who, float(at), int(number)

    def _up(self, kind, number):
        """When the last of so many was up."""
        names, at = set(), 0.0
        while len(names) < number:
            found, who, at, _number = self._line(START_S)
            if found == 'up' and who.startswith(kind):
                names.add(who)
        return at

    @staticmethod
    def _wait_for(pid):
        if os.waitpid(pid, 0)[1]:
            raise RuntimeError('A process of the fleet has failed.')

    # ---- the processes

    def _configuration(self, **more):
        return nova_conf.new(files=[], **more, messages__signatures='off')

    def _space(self, number):
        return f'nb{number}x{self._tag}'

    def _prepare(self):
        """A network of a project, and servers' ports in it, on all hosts."""
        from nova.tests.support import network_api as test_network_api
        face = test_network_api.Face(pathlib.Path('/nonexistent'), url=self._url)
        network = face('demo', 'POST', 'networks', {'network': {'name': NAME}}).json()['network']
        subnet = face('demo', 'POST', 'subnets', {'subnet': {
            'network_id': network['id'], 'cidr': '10.0.0.0/16', 'ip_version': 4}}).json()['subnet']
        ports, addresses = [], []
        for number in range(self._ports):
            ports.append(attach.new_port(network['project_id'], network['id'], {
                'device_id': str(uuid.uuid4()), 'host': f'host{number % self._hosts}', 'status': 'ACTIVE',
                'device_owner': 'compute:nova', 'dns_name': f'server{number}'}))
            address = ipaddress.ip_address('10.0.128.0') + number
            addresses.append({'subnet_id': subnet['id'], 'number': ipam.number_of(address), 'address': str(address),
                              'port_id': ports[-1]['id']})
        with face.db.writer() as conn:
            group = security_groups.ensure_default(conn, network['project_id'])
            networks.insert(conn, t.ports, ports)
            networks.insert_addresses(conn, addresses)
            security_groups.bind(conn, [(port['id'], group) for port in ports])

    def _serve(self, number, commands):
        conf = self._configuration(network__driver='fake', network__routers=False)
        db, real, name = engine.Database(self._url), bus.Bus(conf, self._broker), f'service{number}'
        real.pins.learn({})
        made = manager.NetworkManager(conf, db, name, fake.FakeDriver(conf), db, real.client(interface.INTERFACE),
                                      real.client(interface.AGENT))
        running = service.Service(
            conf, 'nova-network', name, interface.INTERFACE, made, real, admission=authority.admission_of(db),
            tasks=[('report', gateways.REPORT_S, made.report), ('sync', SYNC_S, made.sync)])
        running.start()
        self._say('up', name)
        while commands.recv(1):
            pass

    def _agent(self, number, commands):
        name = f'host{number}'
        conf = self._configuration(network__driver='linux', network__tunnel_address=f'192.0.2.{number + 1}')
        original = driver.LinuxDriver._load

        def load(linux, text):
            original(linux, text)
            self._say('filters', name, max(map(int, re.findall(r'tcp dport ([0-9]+) accept', text)), default=0))
        driver.LinuxDriver._load = load
        helper = remote.helper(conf)
        with _inside(self._space(number)):
            helper.fork()
        real = bus.Bus(conf, self._broker)
        real.pins.learn({})
        own = real.of_host(name)
        made = agent.NetworkAgent(conf, name, remote.RemoteDriver(helper), own.client(interface.INTERFACE))
        running = service.Service(
            conf, 'nova-network-agent', name, interface.AGENT, made, own, admission=agent.admission_of_agent(name),
            tasks=[('report', agent.REPORT_S, made.report), ('sync', SYNC_S, made.sync)])
        running.start()
        self._say('up', f'agent{number}')
        while commands.recv(1):
            self._say('messages', name, int(sum(
                sample.value for metric in metrics.RPC_SENT.collect() for sample in metric.samples
                if sample.name.endswith('_total'))))
        helper.call('network.teardown')


class Process:
    """A process that can be killed and started again, by one that has no threads.

    :param function: function(*arguments, socket): it ends when the socket does
    """

    def __init__(self, function, *arguments):
        self._ours, theirs = socket.socketpair()
        self._pid = _child(self._spawn, theirs, function, *arguments)
        theirs.close()

    def _spawn(self, commands, function, *arguments):
        self._ours.close()
        pid = ours = None
        while command := commands.recv(1):
            if command == b's':
                ours, theirs = socket.socketpair()
                pid = _child(_without, (ours, commands), function, *arguments, theirs)
                theirs.close()
            elif command == b'k':
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                ours.close()
            else:
                ours.sendall(command)
        if ours is not None:
            ours.close()
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)

    def start(self):
        self._ours.sendall(b's')

    def kill(self):
        self._ours.sendall(b'k')

    def ask(self):
        """Have it say how it goes."""
        self._ours.sendall(b'?')

    def end(self):
        self._ours.close()
        os.waitpid(self._pid, 0)


def _without(sockets, function, *arguments):
    for each in sockets:
        each.close()
    function(*arguments)


def _child(function, *arguments):
    """The process that calls a function and ends."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            function(*arguments)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return pid


@contextlib.contextmanager
def _inside(space):
    """The block runs in a network namespace, and from then on there is a /run of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open('/proc/self/ns/net', 'rb') as outside, open(f'/run/netns/{space}', 'rb') as namespace:
        def enter(handle):
            if libc.setns(handle.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), space)
        enter(namespace)
        if libc.unshare(CLONE_NEWNS):
            raise OSError(ctypes.get_errno(), 'unshare')
        subprocess.run(['mount', '--make-rprivate', '/'], check=True)
        subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', '/run'], check=True)
        pathlib.Path('/run/netns').mkdir()
        subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)
        try:
            yield
        finally:
            enter(outside)


def _remove(space):
    """A namespace, and what still runs in it."""
    for pid in subprocess.run(['ip', 'netns', 'pids', space], capture_output=True, text=True).stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    subprocess.run(['ip', 'netns', 'del', space], check=False)


