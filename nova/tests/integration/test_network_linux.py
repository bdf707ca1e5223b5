"""The real thing: bridges, dnsmasq and nftables of this host, with network namespaces for guests."""
import itertools
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid

import pytest

from nova import exception
from nova.db.networks import networks
from nova.db.tables import network as t
from nova.network import manager
from nova.network.host import state as host_state
from nova.network.linux import dhcp
from nova.network.linux import driver
from nova.network.linux import namespaces
from nova.network.linux import remote
from nova.network.linux import rules as filters
from nova.network.linux import runner
from nova.objects import network_info
from nova.runtime import privileges
from nova.runtime import process_exit
from nova.tests.support import network_manager as unit
from nova.tests.support import network_rules as rows
from nova.tests.support import waiting

_MISSING = [command for command in (*driver.COMMANDS, 'busybox') if not shutil.which(command)]
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason='needs root'),
    pytest.mark.skipif(bool(_MISSING), reason='not installed: ' + ', '.join(_MISSING)),
]

run = runner.Runner()
REFUSED_S = 1.5                  # who hears nothing for so long is not let through


class Guest:
    """A namespace at the end of a port's device."""

    def __init__(self, vif, project=unit.PROJECT):
        self.vif, self.mac, self.project = vif, vif['address'], project
        self.address = unit.address(vif)
        subnet = vif['network']['subnets'][0]
        self.gateway, self.prefix = subnet['gateway'], subnet['cidr'].partition('/')[2]
        self.name = 'g' + vif['id'][:8]
        run('ip', 'netns', 'add', self.name)
        run('ip', 'link', 'add', vif['devname'], 'type', 'veth', 'peer', 'name', 'eth0', 'netns', self.name)
        run('ip', 'link', 'set', vif['devname'], 'master', vif['network']['bridge'], 'up')
        self('ip', 'link', 'set', 'eth0', 'address', self.mac)
        self('ip', 'link', 'set', 'eth0', 'up')
        self('ip', 'link', 'set', 'lo', 'up')

    def __call__(self, *arguments, check=True):
        return run('ip', 'netns', 'exec', self.name, *arguments, check=check)

    def static(self, address=None):
        self('ip', 'address', 'add', f'{address or self.address}/{self.prefix}', 'dev', 'eth0')
        self('ip', 'route', 'replace', 'default', 'via', self.gateway)
        return self

    def dhcp(self, tries=15):
        """What DHCP offers, as udhcpc hands it to its script."""
        script = pathlib.Path(f'/tmp/{self.name}.dhcp')
        script.write_text('#!/bin/sh\n[ "$1" = bound ] && echo "$ip/$subnet/$router/$dns/$mtu"\nexit 0\n')
        script.chmod(0o755)
        try:
            return self('busybox', 'udhcpc', '-i', 'eth0', '-n', '-q', '-f', '-t', str(tries), '-T', '1', '-s',
                        str(script), check=False).strip()
        finally:
            script.unlink()

    def pings(self, address):
        """Twice, with patience: on a busy machine a new bridge port may take a moment to forward."""
        program = ['ping', '-i', '0.2'] if shutil.which('ping') else ['busybox', 'ping']
        return bool(self(*program, '-c', '2', '-W', '2', address, check=False))

    def python(self, code):
        return self('python3', '-c', code, check=False).strip()

    def connects(self, address, port, seconds=20):
        """What is said there first; '' when nobody answers in time."""
        return self.python('import socket; s = socket.create_connection((%r, %d), %s); '
                           'print(s.recv(20).decode() or 1)' % (address, port, seconds))

    def refused(self, address, port):
        return not self.connects(address, port, REFUSED_S)

    def listen(self, port, kind='tcp', seconds=60):
        code = {
            'tcp': 'import socket\ns = socket.create_server(("", %d))\nprint(1, flush=True)\n'
            'while 1:\n c, a = s.accept(); c.send(a[0].encode())',
            'udp': 'import socket\ns = socket.socket(2, 2)\ns.setsockopt(1, 6, 1)\ns.bind(("", %d))\n'
            's.settimeout(%d)\nprint(1, flush=True)\ntry: print(s.recvfrom(99)[1][0], flush=True)\n'
            'except OSError: print("none")',
        }[kind] % ((port,) if kind == 'tcp' else (port, seconds))
        process = subprocess.Popen(
            ['ip', 'netns', 'exec', self.name, 'python3', '-c', code], stdout=subprocess.PIPE, text=True
        )
        process.stdout.readline()
        return process

    def close(self):
        run('ip', 'netns', 'del', self.name, check=False)
        run('ip', 'link', 'del', self.vif['devname'], check=False)


class Host(unit.Rig):
    def __init__(self, path, **overrides):
        octet = random.randrange(1, 250)
        super().__init__(path, network__bridge='nt' + uuid.uuid4().hex[:8],
                         network__default_cidr=f'10.203.{octet}.0/24', **overrides)
        self.octet, self.guests, self.processes = octet, [], []
        self.restart()

    def restart(self):
        self.driver = driver.LinuxDriver(self.conf)
        self.manager = manager.NetworkManager(self.conf, self.db, 'host1', self.driver)
        self.manager.start()

    def boot(self, **kwargs):
        project = kwargs.pop('project', unit.PROJECT)
        instance = unit.make_instance(project)
        guest = Guest(self.allocate(instance, **kwargs)[0], project)
        guest.instance = instance
        self.guests.append(guest)
        return guest

    def unused(self):
        """An address of the default network that no guest has."""
        taken = {guest.address for guest in self.guests}
        return next(a for number in range(2, 255) if (a := f'10.203.{self.octet}.{number}') not in taken)

    def rule(self, **values):
        """A rule for the default group of a project, loaded at once."""
        ident = str(uuid.uuid4())
        with self.db.writer() as conn:
            group = unit.security_groups.ensure_default(conn, values.pop('project', unit.PROJECT))
            networks.insert(conn, t.security_group_rules, [{
                'id': ident, 'project_id': unit.PROJECT, 'security_group_id': group, 'direction': 'ingress',
                'ethertype': 'IPv4', 'protocol': None, 'port_range_min': None, 'port_range_max': None,
                'remote_ip_prefix': None, 'remote_group_id': None, 'description': '', **values}])
        self.manager.refresh_ports(self.context, port_ids=[])
        return ident

    def drop_rule(self, ident):
        with self.db.writer() as conn:
            networks.delete(conn, t.security_group_rules, ident)
        self.manager.refresh_ports(self.context, port_ids=[])

    def listen(self, guest, *args, **more):
        process = guest.listen(*args, **more)
        self.processes.append(process)
        return process

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
        for guest in self.guests:
            guest.close()
        self.driver.teardown()
        self.db.dispose()


@pytest.fixture
def host(tmp_path):
    rig = Host(tmp_path)
    yield rig
    rig.close()


class PartedHost(Host):
    """As nova-network is when root starts it: another process touches the host."""

    helper = None

    def restart(self):
        self.close_helper()
        self.helper = privileges.Helper(remote.operations(self.conf))
        self.helper.fork()
        self.driver = remote.RemoteDriver(self.helper)
        self.manager = manager.NetworkManager(self.conf, self.db, 'host1', self.driver)
        self.manager.start()

    def close_helper(self):
        if self.helper is not None:
            self.helper.stop()
            os.waitpid(self.helper.pid, 0)

    def close(self):
        super().close()
        self.close_helper()


@pytest.fixture
def parted(tmp_path):
    rig = PartedHost(tmp_path)
    yield rig
    rig.close()


def test_a_process_of_its_own_does_it_as_well(parted):
    a, b = parted.boot(), parted.boot()
    assert a.dhcp().startswith(a.address) and b.static()
    a.static()
    assert a.pings(b.address)
    stranger = parted.boot(project='another').static()
    assert not stranger.pings(a.address)
    server = dhcp.Dnsmasq(run, parted.conf.network.bridge, pathlib.Path(driver.RUN_DIRECTORY)
                          / parted.conf.network.bridge / parted.conf.network.bridge)
    before = server.pid()
    parted.restart()                     # what it has set up outlives it, and is found
    assert before and server.pid() == before and a.pings(b.address)


def test_a_device_that_is_no_bridge_is_left_alone(parted):
    """Who has taken over the ordinary part names a device of the host."""
    name = 'br' + uuid.uuid4().hex[:12]
    run('ip', 'link', 'add', name, 'type', 'veth')
    try:
        state = host_state.as_json(parted.manager.load())
        state['networks'][0]['bridge'] = name
        for port in state['ports']:
            port['bridge'] = name
        before = run('ip', '-json', 'address', 'show', 'dev', name)
        with pytest.raises(exception.NetworkPlumbingError, match='not a bridge'):
            parted.helper.call('network.refresh', state=state)
        state['networks'][0]['bridge'] = 'lo'
        with pytest.raises(exception.NetworkPlumbingError, match='refuses'):
            parted.helper.call('network.refresh', state=state)
        assert run('ip', '-json', 'address', 'show', 'dev', name) == before
    finally:
        run('ip', 'link', 'del', name)


def test_a_network_that_fails_does_not_affect_others(host, caplog):
    for octet in (1, 2, 3):
        host.add_network(cidr=f'10.20{3 + octet}.{host.octet}.0/29')
    bad, *others = [each for each in host.manager.load().networks if not each.is_default]
    run('ip', 'link', 'add', bad.bridge, 'type', 'veth')
    try:
        host.manager.refresh_ports(host.context, port_ids=[])
        assert f'{bad.bridge} is a device of this host, but not a bridge' in caplog.text
        for each in others:
            link = run.link(each.bridge, command='address')
            assert each.subnets[0].gateway in [address['local'] for address in link['addr_info']]
    finally:
        run('ip', 'link', 'del', bad.bridge)


def test_dhcp_gives_each_guest_its_own_address(host):
    a, b = host.boot(), host.boot()
    gateway = f'10.203.{host.octet}.1'
    assert a.dhcp() == f'{a.address}/24/{gateway}/{gateway}/1500' or a.dhcp().startswith(a.address)
    assert b.dhcp().split('/')[0] == b.address != a.address


def test_a_new_gateway_replaces_the_address_of_the_bridge_and_is_a_name_server(host):
    """The kernel deletes the other addresses of a range with its first one."""
    gateway = f'10.203.{host.octet}.254'
    with host.db.writer() as conn:
        subnet = networks.many(conn, t.subnets, [host.network_id], 'network_id')[0]
        networks.update(conn, t.subnets, subnet['id'], {'gateway_ip': gateway})
    host.manager.refresh_ports(host.context, port_ids=[])
    link = run.link(host.conf.network.bridge, command='address')
    assert [each['local'] for each in link['addr_info'] if each['family'] == 'inet'] == [gateway]
    waiting.wait_for(lambda: _answers(gateway, 53), 20, 'the name server')


def test_a_second_subnet_without_dhcp_has_a_name_server(host):
    gateway = f'10.204.{host.octet}.1'
    with host.db.writer() as conn:
        subnet = networks.many(conn, t.subnets, [host.network_id], 'network_id')[0]
        networks.insert(conn, t.subnets, [{
            **subnet, 'id': str(uuid.uuid4()), 'cidr': f'10.204.{host.octet}.0/24', 'gateway_ip': gateway,
            'enable_dhcp': False, 'allocation_pools': []}])
    host.manager.refresh_ports(host.context, port_ids=[])
    waiting.wait_for(lambda: _answers(gateway, 53), 20, 'the name server')


def test_guests_without_dhcp_have_a_name_server(tmp_path):
    """network_data.json named the gateway, where nothing answered."""
    rig = Host(tmp_path, network__manager='FlatManager')
    try:
        guest = rig.boot()
        assert guest.vif['network']['subnets'][0]['dns'] == [guest.gateway]
        waiting.wait_for(lambda: _answers(guest.gateway, 53), 20, 'the name server')
        assert not guest.dhcp(tries=1)
        rig.conf.set_override('dns_servers', ['192.0.2.53'], 'network')
        rig.manager.refresh_ports(rig.context, port_ids=[])
        assert not _answers(guest.gateway, 53)
    finally:
        rig.close()


def _answers(address, port):
    try:
        socket.create_connection((address, port), 1).close()
    except OSError:
        return False
    return True


def test_guests_of_the_same_group_reach_each_other(host):
    a, b = host.boot().static(), host.boot().static()
    host.listen(b, 8080)
    assert a.pings(b.address) and a.connects(b.address, 8080) == a.address


def test_a_spoofed_address_is_dropped(host):
    a, b = host.boot(), host.boot().static()
    host.rule()                                       # b takes anything, so only anti-spoofing is in the way
    a.static(host.unused())
    assert not a.pings(b.address) and not a.pings(a.gateway)
    a.static()
    assert a('ping', '-c1', '-W1', '-I', a.address, b.address, check=False) or a.pings(b.address)


def test_another_guests_address_cannot_be_taken(host):
    victim, thief, third = host.boot().static(), host.boot(), host.boot().static()
    host.rule()
    assert third.pings(victim.address)
    victim('ip', 'link', 'set', 'eth0', 'down')
    third('ip', 'neigh', 'flush', 'all')
    thief.static(victim.address)
    assert not third.pings(victim.address)


def test_another_mac_is_dropped(host):
    a, b = host.boot(), host.boot().static()
    a.static()
    assert a.pings(b.address)
    a('ip', 'link', 'set', 'eth0', 'address', 'fa:16:3e:00:00:99')
    a('ip', 'route', 'replace', 'default', 'via', a.gateway)
    b('ip', 'neigh', 'flush', 'all')
    assert not a.pings(b.address)


def test_tagged_frames_are_dropped(host):
    """A VLAN tag does not carry a packet past the filters."""
    a, b = host.boot().static(), host.boot().static()
    sent = pathlib.Path(f'/tmp/{a.name}.py')
    sent.write_text("""
import socket, struct, sys
source, target, tag = sys.argv[1:4]
mac = lambda text: bytes.fromhex(text.replace(":", ""))
def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xffff)
    return ~(total + (total >> 16)) & 0xffff
def header(check):
    return struct.pack("!BBHHHBBH4s4s", 69, 0, 29, 1, 0, 64, 17, check, socket.inet_aton(source),
    socket.inet_aton(target))
packet = header(checksum(header(0))) + struct.pack("!4H", 9, 999, 9, 0) + b"x"
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 0))
s.send(mac(sys.argv[5]) + mac(sys.argv[4]) + bytes.fromhex(tag) + packet)
""")
    try:
        for source, tag in ((a.address, '0800'), ('10.99.9.9', '0800'), ('10.99.9.9', '810000000800'),
                            ('10.99.9.9', '88a80000810000000800')):
            listener = host.listen(b, 999, 'udp')
            a('python3', str(sent), source, b.address, tag, a.mac, b.mac)
            a('python3', str(sent), a.address, b.address, '0800', a.mac, b.mac)
            assert listener.stdout.readline().strip() == a.address, (source, tag)        # the first that came
    finally:
        sent.unlink()


def test_a_guest_cannot_play_dhcp_server(host):
    a, b = host.boot().static(), host.boot().static()
    listener = host.listen(b, 68, 'udp', seconds=3)
    a.python('import socket; s = socket.socket(2, 2); s.bind(("", 67)); s.sendto(b"x", (%r, 68))' % b.address)
    assert listener.stdout.readline().strip() == 'none'


def test_ipv6_does_not_pass(host):
    a, b = host.boot(), host.boot()
    a('ip', 'address', 'add', 'fd00::1/64', 'dev', 'eth0', 'nodad')
    b('ip', 'address', 'add', 'fd00::2/64', 'dev', 'eth0', 'nodad')
    assert (
        not a('ping', '-6', '-c1', '-W1', 'fd00::2', check=False)
        if shutil.which('ping')
        else not a.pings('fd00::2')
    )


def test_a_rule_takes_effect_and_its_removal_ends_the_connection(host):
    """Security class M: filters follow the rules of running guests."""
    a = host.boot(project='p2').static()
    b = host.boot().static()
    host.listen(b, 8080)
    assert not a.pings(b.address) and a.refused(b.address, 8080)
    ident = host.rule(protocol='tcp', port_range_min=8000, port_range_max=8100)
    assert a.connects(b.address, 8080) == a.address and not a.pings(b.address)
    code = (
        'import socket, sys\ns = socket.create_connection((%r, 8080), 60)\ns.recv(20)\nprint(1, flush=True)\n'
        'sys.stdin.readline()\ns.shutdown(1)\nprint(2, flush=True)\nsys.stdin.readline()' % b.address
    )
    client = subprocess.Popen(['ip', 'netns', 'exec', a.name, 'python3', '-c', code], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    host.processes.append(client)
    assert client.stdout.readline().strip() == '1'
    host.drop_rule(ident)
    assert a.refused(b.address, 8080)
    before = _segments(b)
    client.stdin.write('\n')
    client.stdin.flush()
    client.stdout.readline()
    assert _segments(b) == before                     # its FIN never arrived


def _segments(guest):
    """How many segments of TCP it has got."""
    names, numbers = (line.split() for line in guest('cat', '/proc/net/snmp').splitlines() if line.startswith('Tcp:'))
    return int(dict(zip(names, numbers))['InSegs'])


def test_rules_select_by_prefix_protocol_and_remote_group(host):
    a = host.boot(project='p2').static()
    b = host.boot().static()
    host.rule(protocol='icmp', port_range_min=8, port_range_max=0, remote_ip_prefix=f'{a.address}/32')
    assert a.pings(b.address)
    c = host.boot(project='p2').static()
    assert not c.pings(b.address)
    with host.db.writer() as conn:
        group = unit.security_groups.ensure_default(conn, 'p2')
    host.rule(protocol='icmp', remote_group_id=group)
    assert c.pings(b.address)
    assert host.boot(project='p2').static().pings(b.address)         # a new member, without a new rule


def test_the_host_is_filtered_like_any_other_sender(host):
    a = host.boot().static()
    assert not _host_pings(a.address)
    host.rule(protocol='icmp')
    assert _host_pings(a.address)


def _host_pings(address):
    return bool(run('busybox', 'ping', '-c', '1', '-W', '1', address, check=False))


def test_metadata_is_redirected_with_the_guests_address(host):
    a = host.boot().static()
    port = _free_port(a.gateway)
    host.conf.set_override('port', port, 'metadata')
    host.restart()
    with socket.create_server((a.gateway, port)) as server:
        def serve():
            connection, peer = server.accept()
            connection.send(peer[0].encode())
            connection.close()
        threading.Thread(target=serve, daemon=True).start()
        assert a.connects('169.254.169.254', 80) == a.address


def test_services_of_the_host_are_out_of_reach(host):
    a = host.boot().static()
    port = _free_port(a.gateway)
    with socket.create_server((a.gateway, port)) as server:
        server.settimeout(120)
        assert a.pings(a.gateway) and a.refused(a.gateway, port)
        host.conf.set_override('guest_to_host_ports', [port], 'network')
        host.restart()
        threading.Thread(target=lambda: server.accept()[0].send(b'hello'), daemon=True).start()
        assert a.connects(a.gateway, port) == 'hello'


def _free_port(address):
    with socket.create_server((address, 0)) as server:
        return server.getsockname()[1]


def test_networks_are_kept_apart(host):
    a = host.boot().static()
    other = host.add_network(cidr=f'10.204.{host.octet}.0/29')
    b = host.boot(requested=[{'network_id': other}]).static()
    host.rule()
    assert b.pings(b.gateway) and not a.pings(b.address) and not b.pings(a.address)


def test_a_restart_leaves_everything_alone(host):
    a, b = host.boot().static(), host.boot().static()
    server = dhcp.Dnsmasq(run, host.conf.network.bridge, host.driver.directory / host.conf.network.bridge)
    pid, link = server.pid(), run.link(host.conf.network.bridge)
    lost = subprocess.Popen(
        ['ip', 'netns', 'exec', a.name, 'busybox', 'ping', '-c', '10', '-i', '0.2', '-q', b.address],
        stdout=subprocess.PIPE,
        text=True,
    )
    for _ in range(3):
        host.restart()
    assert ' 0% packet loss' in lost.communicate(timeout=120)[0]
    again = run.link(host.conf.network.bridge)
    assert server.pid() == pid and pid and again['ifindex'] == link['ifindex']


def test_start_mends_what_is_missing(host):
    a, b = host.boot().static(), host.boot()
    host.rule()                                       # b takes anything, so only anti-spoofing is in the way
    server = dhcp.Dnsmasq(run, host.conf.network.bridge, host.driver.directory / host.conf.network.bridge)
    assert process_exit.end(server.pid(), signal.SIGKILL, 60)
    run('nft', 'delete', 'table', 'bridge', host.driver.table)
    run('nft', 'delete', 'table', 'inet', host.driver.table)
    host.manager.sync()
    assert server.pid()
    assert b.dhcp().split('/')[0] == b.address
    b.static()
    foreign = host.unused()
    a.static(foreign)
    assert a.pings(b.address) and not a('ping', '-c1', '-W1', '-I', foreign, b.address, check=False)


def test_deleted_server_loses_its_filters_and_lease(host):
    a = host.boot()
    assert a.dhcp()
    host.deallocate(a.instance)
    assert 'from_' + network_info.devname(a.vif['id']) not in run(
        'nft', 'list', 'table', 'bridge', host.driver.table
    )
    assert not a.dhcp(tries=3)


def test_an_address_that_had_to_be_reused_is_leased_to_its_new_owner(host):
    small = [{'network_id': host.add_network(cidr=f'10.204.{host.octet}.0/29')}]
    guests = [host.boot(requested=small) for _ in range(5)]
    assert guests[0].dhcp()
    host.deallocate(guests[0].instance)
    guests[0].close()
    fresh = host.boot(requested=small)
    assert fresh.address == guests[0].address and fresh.dhcp().split('/')[0] == fresh.address


def test_a_device_whose_port_is_gone_is_cut_off(host):
    a, b = host.boot().static(), host.boot().static()
    host.rule()
    assert a.pings(b.address)
    host.deallocate(a.instance)
    assert not a.pings(b.address) and not a.pings(a.gateway)


def test_guests_reach_the_outside_under_the_hosts_address(host):
    a, name = host.boot().static(), 'out' + uuid.uuid4().hex[:8]
    near, far = f'10.205.{host.octet}.1', f'10.205.{host.octet}.2'
    run('ip', 'netns', 'add', name)
    try:
        run('ip', 'link', 'add', name, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name)
        run('ip', 'address', 'add', near + '/24', 'dev', name)
        run('ip', 'link', 'set', name, 'up')
        run('ip', '-n', name, 'address', 'add', far + '/24', 'dev', 'eth0')
        run('ip', '-n', name, 'link', 'set', 'eth0', 'up')
        server = subprocess.Popen(['ip', 'netns', 'exec', name, 'python3', '-c',
                                   'import socket\ns = socket.create_server(("", 99))\nprint(1, flush=True)\n'
                                   'c, a = s.accept()\nc.send(a[0].encode())'], stdout=subprocess.PIPE)
        host.processes.append(server)
        server.stdout.readline()
        assert a.connects(far, 99) == near
        run('ip', '-n', name, 'route', 'add', f'10.203.{host.octet}.0/24', 'via', near)
        assert not run('ip', 'netns', 'exec', name, 'busybox', 'ping', '-c1', '-W1', a.address, check=False)
        host.rule(protocol='icmp')
        assert run('ip', 'netns', 'exec', name, 'busybox', 'ping', '-c1', '-W1', a.address, check=False)
    finally:
        run('ip', 'netns', 'del', name, check=False)
        run('ip', 'link', 'del', name, check=False)


def test_teardown_leaves_nothing(host):
    host.boot()
    host.driver.teardown()
    assert run.link(host.conf.network.bridge) is None
    assert host.driver.table not in run('nft', 'list', 'tables')
    assert not host.driver.directory.exists()
    host.driver.teardown()


_START = '''
import sys
from nova.network.linux import namespaces, runner
space = namespaces.Namespace(runner.Runner(), sys.argv[1])
made = space.ensure()
if made:
    space.run('ip', 'link', 'add', 'left', 'type', 'veth', 'peer', 'name', 'right')
print(made, *sorted(space.devices()))
'''


def test_a_namespace_outlives_the_mounts_of_a_unit():
    # A unit of systemd has mounts of its own, so the names of namespaces ended with it, and routers with their
    # connections at each restart of nova-network.
    name = f'nvt{os.getpid()}'
    start = ['unshare', '--mount', '--propagation', 'slave', sys.executable, '-c', _START, name]
    try:
        said = [subprocess.check_output(start, text=True).split() for _ in range(3)]
        assert said == [['True', 'left', 'right'], ['False', 'left', 'right'], ['False', 'left', 'right']]
        holder = int((namespaces.HOLDERS / name).read_text().split()[0])
        os.kill(holder, 9)                      # and when that process is gone, with what it held
        assert subprocess.check_output(start, text=True).split()[0] == 'True'
        holder = int((namespaces.HOLDERS / name).read_text().split()[0])
    finally:
        namespaces.Namespace(run, name).remove()
    deadline = time.monotonic() + 120
    while os.path.exists(f'/proc/{holder}/ns/net') and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not os.path.exists(f'/proc/{holder}/ns/net')
    assert name not in namespaces.managed('nvt') and not (namespaces.HOLDERS / name).exists()


def test_devices_of_a_namespace_ignore_router_advertisements():
    # A DHCP device configured itself by the advertisement of its network's router; its own address was there then, and
    # adding it failed ("address already assigned").
    space = namespaces.Namespace(run, f'nvt{os.getpid()}')
    try:
        assert space.ensure()
        space.run('ip', 'link', 'add', 'left', 'type', 'veth', 'peer', 'name', 'right')
        assert space.run('cat', '/proc/sys/net/ipv6/conf/left/accept_ra').strip() == '0'
    finally:
        space.remove()


def test_changed_rules_are_what_a_whole_load_makes(tmp_path):
    """The kernel's own print of the tables, after changes alone and after loads of all."""
    space = f'nf{uuid.uuid4().hex[:6]}'
    subprocess.run(['ip', 'netns', 'add', space], check=True)

    def nft(*words, stdin=None):
        return subprocess.run(['ip', 'netns', 'exec', space, 'nft', *words], input=stdin, text=True, check=True,
                              stdout=subprocess.PIPE).stdout
    rule = rows.row(protocol='tcp', port_range_min=7000, port_range_max=7009)
    by_group = rows.row(remote_group_id='g-2')
    states = [rows.state(**values) for values in (
        {'members': {'g-2': []}},
        {'members': {'g-2': ['10.0.0.7', '10.0.0.9', 'fd00::7']},
         'rules': {'g-1': [rows.row('egress'), rule, by_group]}},
        {'members': {'g-2': ['10.0.0.7']}, 'rules': {'g-1': [by_group]}},
        {'members': {'g-2': []}, 'rules': {'g-1': []}})]
    texts = [filters.script('t', state, {}) for state in states]
    try:
        nft('-f', '-', stdin=texts[0])
        for old, new in itertools.pairwise([*texts, *reversed(texts)]):
            if changes := filters.changes('t', old, new):
                nft('-f', '-', stdin=changes)
            changed = nft('list', 'ruleset')
            nft('-f', '-', stdin=new)
            assert changed == nft('list', 'ruleset')
        assert all(filters.changes('t', old, new) for old, new in itertools.pairwise(texts))
    finally:
        subprocess.run(['ip', 'netns', 'del', space], check=True)


def test_rule_change_restores_removed_filters(host):
    """A driver that is asked for rules alone loads all filters where others have removed what it would change."""
    linux = host.manager.driver

    def loaded():
        return run('nft', 'list', 'table', 'inet', linux.table, check=False)
    host.boot()
    state = host.manager.load()
    group, known = next(iter(state.rules.items()))
    more = {**state.rules, group: [*known, {**known[0], 'direction': 'ingress', 'protocol': 'tcp',
                                           'port_range_min': 7777, 'port_range_max': 7777}]}
    assert linux.refilter(more, state.members) and '7777' in loaded()
    run('nft', 'delete', 'table', 'inet', linux.table)
    assert linux.refilter(state.rules, state.members)
    assert 'chain forward' in loaded() and '7777' not in loaded()
    fresh = driver.LinuxDriver(host.conf)
    assert not fresh.refilter(state.rules, state.members)          # it does not know the rest
