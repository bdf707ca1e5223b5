"""What tests share with nova/tests/integration/test_network_overlay.py."""
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import uuid
from wsgiref import simple_server

import pytest

from nova import conf as nova_conf
from nova import objects
from nova.api.metadata import app
from nova.db import engine
from nova.db.cells import cells
from nova.db.servers import instances
from nova.network import authority
from nova.network import fake
from nova.network import interface
from nova.network import manager
from nova.network.agents import agent
from nova.network.agents import agent_client
from nova.network.host import state as host_state
from nova.network.linux import driver
from nova.network.linux import runner
from nova.network.linux import validators
from nova.rpc import bus as rpc_bus
from nova.rpc import inprocess
from nova.tests import schemas
from nova.tests.integration import vlan_devices
from nova.tests.support import metadata as test_metadata
from nova.tests.support import network_api as test_network_api

_COMMANDS = (*driver.COMMANDS, 'busybox', 'ping', 'nsenter', 'curl')
_MISSING = [command for command in _COMMANDS if not shutil.which(command)]
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason='needs root'),
    pytest.mark.skipif(bool(_MISSING), reason='not installed: ' + ', '.join(_MISSING)),
]

run = runner.Runner()
SCRIPT = '''#!/bin/sh
[ "$1" = bound ] || exit 0
ip address flush dev eth0
ip address add $ip/$mask dev eth0
ip link set dev eth0 mtu $mtu
ip route replace default via $router
echo "$ip|$dns|$mtu|$tftp"
'''


class World:
    """Two hosts, the wires between them, and the outside."""

    def __init__(self, path, agents=False, hosts=2):
        self.tag = uuid.uuid4().hex[:6]
        self.bus = self.served = None
        self.spaces, self.path = [], path
        self.face = test_network_api.Face(path)
        self.outer = self.space('o')
        for wire in ('tun', 'ext'):
            run('ip', '-n', self.outer, 'link', 'add', wire, 'type', 'bridge')
            run('ip', '-n', self.outer, 'link', 'set', wire, 'up')
        run('ip', '-n', self.outer, 'address', 'add', '172.24.4.1/24', 'dev', 'ext')
        if agents:
            self.serve()
        self.hosts = [(AgentHost if agents else Host)(self, number) for number in range(1, hosts + 1)]
        for host in self.hosts:
            host.manager.start()
        for host in self.hosts:
            host.manager.report()
        if not agents:
            self.face.client.manager = Everybody(self.hosts)

    def serve(self):
        """One network service, of no host, behind a bus."""
        self.bus = self.bus or rpc_bus.Bus(self.face.conf, f'{inprocess.SCHEME}:///{self.path}')
        service = manager.NetworkManager(
            self.face.conf, self.face.db, 'controller', fake.FakeDriver(self.face.conf),
            others=self.bus.client(interface.INTERFACE), agents=self.bus.client(interface.AGENT))
        self.face.conf.set_override('routers', False, group='network')
        service.gateways.others = True
        self.face.client.manager = self.bus.client(interface.INTERFACE)
        self.served = self.bus.serve(interface.INTERFACE, service, 'controller', authority.admission_of(None))
        self.served.start()

    def unserve(self):
        self.served.stop()
        self.served.wait(30)

    def space(self, kind):
        name = f'nv{kind}{self.tag}'
        run('ip', 'netns', 'add', name)
        run('ip', '-n', name, 'link', 'set', 'lo', 'up')
        self.spaces.append(name)
        return name

    def close(self):
        for host in self.hosts:
            host.close()
        if self.bus is not None:
            self.unserve()
        for name in self.spaces:
            run('ip', 'netns', 'del', name, check=False)
        self.face.close()

    # ---- what users do, over HTTP

    def make(self, user, kind, **values):
        answer = self.face(user, 'POST', kind, {kind[:-1]: values})
        assert answer.status_code == 201, answer.text
        return answer.json()[kind[:-1]]

    def put(self, user, path, body):
        answer = self.face(user, 'PUT', path, body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def network(self, user='demo', cidr='10.0.0.0/24', **more):
        network = self.make(user, 'networks', name='net')
        self.make(user, 'subnets', network_id=network['id'], cidr=cidr, ip_version=4, **more)
        return network['id']

    def outside(self, **where):
        """By a wire of the hosts, or as it is said."""
        network = self.make('admin', 'networks', **{'name': 'public', 'router:external': True, **(where or {
            'provider:physical_network': 'wire'})})
        self.make('admin', 'subnets', network_id=network['id'], cidr='172.24.4.0/24', ip_version=4, enable_dhcp=False)
        return network['id']

    def router(self, network, user='demo', external=None):
        self.report()                               # one that has been silent for seven seconds gets no router
        router = self.make(user, 'routers', name='r', **(
            {'external_gateway_info': {'network_id': external}} if external else {}))
        subnets = self.face(user, 'GET', f'subnets?network_id={network}').json()['subnets']
        for subnet in subnets:
            self.put(user, f"routers/{router['id']}/add_router_interface", {'subnet_id': subnet['id']})
        return router['id']

    def report(self):
        """Each host says that it is there, and follows what no notification has said."""
        for host in self.hosts:
            host.manager.report()

    def server_of(self, guest):
        """The address of DHCP in the network of a guest."""
        ports = self.face('admin', 'GET', f"ports?network_id={guest.vif['network']['id']}&device_owner=network:dhcp")
        return ports.json()['ports'][0]['fixed_ips'][0]['ip_address']

    def boot(self, host, network, name, project='p1', groups=None, port=None):
        return Guest(self, self.hosts[host], network, name, project, groups, port)


class Everybody:
    """Stands for the fan-out of the message queue: each host's service gets it."""

    def __init__(self, hosts):
        self.hosts = hosts

    def refresh_ports(self, ctx, port_ids):
        for host in self.hosts:
            host.manager.refresh_ports(ctx, port_ids=port_ids)


class Host:
    """A host: its network service, whose commands run in a namespace, with the checks of the privileged part."""

    def __init__(self, world, number):
        self.world, self.name = world, f'host{number}'
        self.space = world.space(f'h{number}')
        self.run = vlan_devices.Runner(('nsenter', f'--net=/run/netns/{self.space}'))
        for wire, device in (('tun', 'tun0'), ('ext', 'ext0')):
            run('ip', '-n', world.outer, 'link', 'add', f'{wire}{number}', 'type', 'veth', 'peer', 'name', device,
                'netns', self.space)
            run('ip', '-n', world.outer, 'link', 'set', f'{wire}{number}', 'master', wire, 'up')
            run('ip', '-n', self.space, 'link', 'set', device, 'up')
        self.run('ip', 'address', 'add', f'192.0.2.{number}/24', 'dev', 'tun0')
        self.run('ip', 'link', 'add', 'br-wire', 'type', 'bridge')
        self.run('ip', 'link', 'set', 'ext0', 'master', 'br-wire')
        self.run('ip', 'link', 'set', 'br-wire', 'up')
        self.conf = nova_conf.new(files=[], network__bridge=f'nt{number}{world.tag}',
                                  network__tunnel_address=f'192.0.2.{number}',
                                  network__physical_networks={'wire': 'br-wire'}, metadata__dhcp_domain='cloud.test',
                                  network__metadata_host='192.0.2.99')
        self.driver = Checked(self.conf, self.run)
        self.begin()
        world.face.conf.set_override('physical_networks', {'wire': 'br-wire'}, group='network')

    def begin(self):
        self.manager = manager.NetworkManager(self.conf, self.world.face.db, self.name, self.driver,
                                              others=Others(self.world))
        self.client = self.manager

    def close(self):
        self.driver.teardown()


class AgentHost(Host):
    """A host whose agent has nothing but the bus, with the rights of this host."""

    def begin(self):
        bus = self.world.bus.of_host(self.name)
        self.manager = agent.NetworkAgent(self.conf, self.name, self.driver, bus.client(interface.INTERFACE))
        self.served = bus.serve(interface.AGENT, self.manager, self.name, agent.admission_of_agent(self.name))
        self.served.start()
        self.client = agent_client.AgentClient(
            self.world.bus.client(interface.INTERFACE), bus.client(interface.AGENT), self.name)

    def close(self):
        self.served.stop()
        self.served.wait(30)
        super().close()


class Others:
    def __init__(self, world):
        self.world = world

    def refresh_ports(self, ctx, port_ids):
        self.world.face.client.manager.refresh_ports(ctx, port_ids)


class Checked:
    """The driver behind the border of privileges: what it gets has been JSON and was checked."""

    def __init__(self, conf, run_in_host):
        self.linux = driver.LinuxDriver(conf, run_in_host)
        self.bridge, self.run = conf.network.bridge, run_in_host

    def start(self):
        self.linux.start()

    def refresh(self, load):
        return self.linux.refresh(lambda: self.checked(load()))

    def follow(self, load):
        return self.linux.follow(lambda: self.checked(load()))

    def checked(self, state):
        # the default network has one bridge's name for all hosts
        state.networks = [each for each in state.networks if each.bridge == self.bridge or each.external]
        return validators.state(self.bridge, ['br-wire'])(json.loads(json.dumps(host_state.as_json(state))))

    def leases(self, whole):
        return self.linux.leases(whole)

    def teardown(self):
        self.linux.teardown()


class Guest:
    """A server: its port by the network service of its host, and a namespace at the end of its device."""

    def __init__(self, world, host, network, name, project, groups, port=None):
        self.instance = objects.Instance(uuid=str(uuid.uuid4()), project_id=project, availability_zone=None,
                                         hostname=name)
        self.host = host
        self.vif, = host.client.allocate_for_instance(
            world.face.context, instance=self.instance,
            requested_networks=[{'port_id': port} if port else {'network_id': network}], security_groups=groups,
            host=host.name)
        self.port, self.mac = self.vif['id'], self.vif['address']
        self.address = next(ip['address'] for subnet in self.vif['network']['subnets'] for ip in subnet['ips'])
        self.space = world.space('g' + self.port[:8])
        device = self.vif['devname']
        run('ip', '-n', host.space, 'link', 'add', device, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', self.space)
        run('ip', '-n', self.space, 'link', 'set', 'eth0', 'address', self.mac, 'up')
        run('ip', '-n', host.space, 'link', 'set', device, 'master', self.vif['network']['bridge'], 'up')
        self.script = world.path / 'udhcpc'
        self.script.write_text(SCRIPT)
        self.script.chmod(0o755)

    def __call__(self, *words, check=True):
        return run('ip', 'netns', 'exec', self.space, *words, check=check)

    def dhcp(self):
        """[address, name servers, MTU] by DHCP; set up."""
        for _attempt in range(3):
            found = self('busybox', 'udhcpc', '-i', 'eth0', '-n', '-q', '-f', '-t', '8', '-T', '1', '-O', 'mtu', '-O',
                         'staticroutes', '-O', 'tftp', '-s', str(self.script), check=False).strip()
            if found:
                return found.split('|')
        raise AssertionError(f'{self.address} is not leased')

    def searches(self):
        """[domain, search domains] by DHCP."""
        script = self.script.with_name('udhcpc-domains')
        script.write_text('#!/bin/sh\n[ "$1" = bound ] && echo "$domain|$search"\nexit 0\n')
        script.chmod(0o755)
        return self('busybox', 'udhcpc', '-i', 'eth0', '-n', '-q', '-f', '-t', '8', '-T', '1', '-O', 'domain', '-O',
                    'search', '-s', str(script)).strip().split('|')

    def pings(self, address, seconds=4):
        return bool(self('ping', '-i', '0.2', '-c', '2', '-W', '1', '-w', str(seconds), address, check=False))

    def resolves(self, name, server):
        found = self('busybox', 'nslookup', name, server, check=False)
        return [line.split()[-1] for line in found.splitlines()[2:] if line.startswith('Address')]

    def listens(self, port):
        code = ('import socket\ns = socket.create_server(("", %d))\nprint(1, flush=True)\n'
                'while 1:\n c, a = s.accept(); c.send(a[0].encode())' % port)
        process = subprocess.Popen(['ip', 'netns', 'exec', self.space, 'python3', '-c', code], stdout=subprocess.PIPE,
                                   text=True)
        process.stdout.readline()
        return process


def connects(space, address, port, seconds=4):
    """What is said there first, '' for nothing."""
    return run('ip', 'netns', 'exec', space, 'python3', '-c',
               f'import socket; s = socket.create_connection(({address!r}, {port}), {seconds})\n'
               'print(s.recv(30).decode())', check=False).strip()


def pings_from(space, address, seconds=4):
    return bool(run('ip', 'netns', 'exec', space, 'ping', '-i', '0.2', '-c', '2', '-W', '1', '-w', str(seconds),
                    address, check=False))


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.close()


@pytest.fixture
def agents(tmp_path):
    made = World(tmp_path, agents=True)
    yield made
    made.close()


class Metadata:
    """The metadata service at an address of the hosts, over the databases of the world and one of servers."""

    def __init__(self, world):
        self.world = world
        self.cell_db = engine.Database(f'sqlite:///{world.path}/cell.sqlite')
        schemas.create(self.cell_db, 'cell')
        self.conf = nova_conf.new(files=[])
        self.app = app.Application(self.conf, world.face.db, cells.Cells(self.conf, world.face.db, self.cell_db))
        self.servers = [self.served(host) for host in world.hosts]

    def served(self, host):
        """A server that listens in a host's namespace: at the same address on each, which is its own there."""
        host.run('ip', 'address', 'add', '192.0.2.99/32', 'dev', 'lo')
        ours, theirs = socket.socketpair(socket.AF_UNIX)
        with ours, theirs:
            host.run(sys.executable, '-I', '-c', 'import socket, sys\nlistener = socket.create_server(("192.0.2.99", '
                     '8775))\nsocket.send_fds(socket.socket(fileno=int(sys.argv[1])), [b"x"], [listener.fileno()])',
                     str(theirs.fileno()), descriptors=(theirs.fileno(),))
            listener = socket.socket(fileno=socket.recv_fds(ours, 1, 1)[1][0])
        server = simple_server.WSGIServer(('', 0), Quiet, bind_and_activate=False)
        server.socket.close()
        server.socket, server.server_name, server.server_port = listener, 'metadata', 8775
        server.setup_environ()
        server.set_app(self.app)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server

    def knows(self, guest):
        with self.cell_db.writer() as conn:
            instances.insert(conn, [test_metadata.instance_row(uuid=guest.instance.uuid,
                                                               project_id=guest.instance.project_id)])

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()
        self.cell_db.dispose()


class Quiet(simple_server.WSGIRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def make_metadata():
    made = []

    def make(world):
        made.append(Metadata(world))
        return made[0]
    yield make
    for each in made:
        each.close()


@pytest.fixture
def metadata(world, make_metadata):
    return make_metadata(world)


DOCUMENT = 'http://169.254.169.254/openstack/latest/meta_data.json'


def fetch(guest, *words, url=DOCUMENT):
    return guest('curl', '-s', '-m', '15', *words, url, check=False)


def told(guest, *words):
    """The server that a guest is for the metadata service, or what it says else."""
    text = fetch(guest, *words)
    try:
        return json.loads(text)['uuid']
    except ValueError:
        return text


def wait_for(look, count, seconds=20):
    deadline = time.monotonic() + seconds
    while len(found := look()) < count and time.monotonic() < deadline:
        time.sleep(0.5)
    return found
