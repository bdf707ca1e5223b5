"""Networks of projects on two hosts, each a network namespace, with guests that are namespaces, too.

The hosts share a wire for frames between hosts, and another one to the outside, where a third namespace stands for the
rest of the world.
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

from nova import context
from nova.db.networks import addresses
from nova.db.networks import networks
from nova.db.networks import routers as db_routers
from nova.db.tables import network as t
from nova.network import fake
from nova.network import manager
from nova.network import relay
from nova.network.linux import namespaces
from nova.network.operators import dns
from nova.runtime import certificates
from nova.tests import long_runs
from nova.tests.integration import networkd
from nova.tests.integration import vlan_devices
from nova.tests.support import network_api as test_network_api
from nova.tests.support import network_overlay
from nova.tests.support.network_overlay import Checked
from nova.tests.support.network_overlay import connects
from nova.tests.support.network_overlay import fetch
from nova.tests.support.network_overlay import pings_from
from nova.tests.support.network_overlay import run
from nova.tests.support.network_overlay import told
from nova.tests.support.network_overlay import wait_for

agents = network_overlay.agents
make_metadata = network_overlay.make_metadata
metadata = network_overlay.metadata
pytestmark = network_overlay.pytestmark
world = network_overlay.world


def test_guests_of_one_project_on_two_hosts_reach_each_other_by_name(world):
    """Two guests on two hosts by name; another project with the same addresses is apart from them."""
    mine, theirs = world.network(), world.network('other')
    first, second = world.boot(0, mine, 'first'), world.boot(1, mine, 'second')
    apart = world.boot(0, theirs, 'apart', 'p2'), world.boot(1, theirs, 'second', 'p2')
    told = first.dhcp()
    assert told[0] == first.address and told[2] == '1450'
    name_server = told[1].split()[0]
    assert second.dhcp()[0] == second.address

    def leased():
        world.report()
        with world.face.db.reader() as conn:
            return {row.mac_address for row in addresses.taken(conn) if row.expires_at is not None}
    assert wait_for(leased, 2) == {first.mac, second.mac}
    for guest in apart:
        assert guest.dhcp()[0] == guest.address
    assert first.resolves('second.cloud.test', name_server) == [second.address]
    assert first.resolves('apart.cloud.test', name_server) == []
    assert first.pings(second.address) and second.pings(first.address)
    assert apart[0].pings(apart[1].address)
    # each hears the neighbour of its own network, whatever addresses the others have
    neighbours = first('ip', 'neighbour', 'show', second.address)
    assert second.mac in neighbours
    # nothing was learned: the table has what the service knows
    table = world.hosts[0].run('bridge', 'fdb', 'show')
    assert f'{second.mac} dev vx{first.vif["network"]["bridge"][2:]} dst 192.0.2.2' in table


# The reply to one query, as the client of a C library reads it: its code and the number of its answers.
QUERY = """
import socket, struct, sys
server, name, kind = sys.argv[1], sys.argv[2], int(sys.argv[3])
words = b''.join(bytes([len(label)]) + label.encode() for label in name.split('.')) + b'\\0'
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.settimeout(5)
    sock.sendto(struct.pack('!6H', 7, 0x100, 1, 0, 0, 0) + words + struct.pack('!2H', kind, 1), (server, 53))
    reply = sock.recv(4096)
print(reply[3] & 15, struct.unpack('!H', reply[6:8])[0])
"""
NOERROR, NXDOMAIN, REFUSED = 0, 3, 5
TYPES = {'A': 1, 'MX': 15, 'TXT': 16, 'AAAA': 28, 'SRV': 33, 'HTTPS': 65}


def test_a_known_name_has_no_data_of_other_types(world):
    """AAAA of a name that has an A record was REFUSED, which musl takes for a failure: no name was resolved."""
    mine = world.network()
    named = world.make('demo', 'networks', name='named', dns_domain='blue.example.')['id']
    world.make('demo', 'subnets', network_id=named, cidr='10.0.1.0/24', ip_version=4)
    world.put('demo', f'networks/{mine}', {'network': {'dns_domain': ''}})
    for network, domain in ((mine, 'cloud.test'), (named, 'blue.example')):
        first, second = world.boot(0, network, 'first'), world.boot(0, network, 'second')
        server = first.dhcp()[1].split()[0]
        assert first.searches() == [domain, domain]

        def asks(name, kind, guest=first, server=server):
            return tuple(map(int, guest('python3', '-c', QUERY, server, name, str(TYPES[kind])).split()))
        for name, kinds in (('second', ('A', 'AAAA')), (f'second.{domain}', TYPES)):
            assert {kind: asks(name, kind) for kind in kinds} == {
                kind: (NOERROR, 1 if kind == 'A' else 0) for kind in kinds}
            assert {asks(name.replace('second', 'third'), kind) for kind in kinds} == {(NXDOMAIN, 0)}
        assert first.resolves('second', server) == [second.address]
        assert asks('www.example.org', 'A') == (REFUSED, 0)            # the client tries its next server


def test_names_of_addresses_are_resolved(world):
    """os-floating-ip-dns: public names are resolved in all networks, a project's own in its networks alone."""
    external, mine, theirs = world.outside(), world.network(), world.network('other')
    guests = world.boot(1, mine, 'first'), world.boot(1, theirs, 'apart', 'p2')
    servers = [guest.dhcp()[1].split()[0] for guest in guests]
    given = world.make('demo', 'floatingips', floating_network_id=external)
    caller = context.RequestContext(user_id='u', project_id=given['project_id'])
    conf, db = world.face.conf, world.face.db

    def resolved(name):
        return [guest.resolves(name, server) for guest, server in zip(guests, servers, strict=True)]
    dns.put_domain(conf, db, caller, 'example.org', True)
    dns.put_domain(conf, db, caller, 'intern', False)
    dns.put_entry(conf, db, caller, 'example.org', 'web', given['floating_ip_address'], 'A')
    dns.put_entry(conf, db, caller, 'intern', 'db', '10.0.0.77', 'A')
    dns.put_entry(conf, db, caller, 'intern', 'six', 'fd00::77', 'AAAA')
    world.hosts[1].manager.report()                     # finds it by the revision, as hosts that heard no notification
    assert wait_for(lambda: resolved('db.intern')[0] and resolved('web.example.org'), 2) == [
        [given['floating_ip_address']]] * 2
    assert resolved('db.intern') == [['10.0.0.77'], []] and resolved('six.intern')[0] == ['fd00::77']
    assert resolved('first.cloud.test')[0] == [guests[0].address]
    dns.delete_entry(db, caller, 'intern', 'db')
    world.face('demo', 'DELETE', f"floatingips/{given['id']}")
    world.hosts[1].manager.report()
    assert wait_for(lambda: 'x' * (resolved('db.intern') == resolved('web.example.org') == [[], []]), 1)


def test_packets_are_marked(world):
    """The field DS of what a guest sends, as its policy says; what it wrote there is lost."""
    network = world.network()
    first, second = world.boot(0, network, 'first'), world.boot(1, network, 'second')
    for guest in (first, second):
        guest.dhcp()
    policy = world.face('admin', 'POST', 'qos/policies', {'policy': {'shared': True}}).json()['policy']['id']
    answer = world.face('admin', 'POST', f'qos/policies/{policy}/dscp_marking_rules', {
        'dscp_marking_rule': {'dscp_mark': 46}})
    assert answer.status_code == 201, answer.text
    world.put('demo', f'ports/{first.port}', {'port': {'qos_policy_id': policy}})
    world.hosts[0].manager.report()
    code = ('import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)\ns.settimeout(20)\n'
            'print(1, flush=True)\nwhile 1:\n d = s.recv(99)\n if d[20] == 8:\n  print(d[1]); break')
    seen = []
    for guest, other in ((first, second), (second, first)):
        listener = subprocess.Popen(['ip', 'netns', 'exec', other.space, 'python3', '-c', code], text=True,
                                    stdout=subprocess.PIPE)
        listener.stdout.readline()
        guest('ping', '-c', '2', '-i', '0.2', '-W', '2', '-Q', '0x20', other.address, check=False)
        seen.append(int(listener.communicate(timeout=30)[0]))
    assert seen == [46 << 2, 0x20]


def test_vlans_are_separate_and_routed_outside(world):
    """Guests of one VLAN reach each other over a trunk and a router reaches out; those of another do not hear them."""
    for name, value in (('manager', 'VlanManager'), ('vlan_ranges', ['wire:100:101'])):
        world.face.conf.set_override(name, value, group='network')
    mine = world.network(allocation_pools=[{'start': '10.0.0.2', 'end': '10.0.0.99'}])
    theirs = world.network('other', allocation_pools=[{'start': '10.0.0.100', 'end': '10.0.0.200'}])
    first, second = world.boot(0, mine, 'first'), world.boot(1, mine, 'second')
    apart = world.boot(0, theirs, 'apart', 'p2'), world.boot(1, theirs, 'other', 'p2')
    told = first.dhcp()
    assert told[0] == first.address and told[2] == '1500'
    assert second.dhcp()[0] == second.address and all(guest.dhcp()[0] == guest.address for guest in apart)
    vlans = {ident: world.face('admin', 'GET', f'networks/{ident}').json()['network']['provider:segmentation_id']
             for ident in (mine, theirs)}
    assert sorted(vlans.values()) == [100, 101]
    with vlan_devices.tags(world.outer, 'ext1') as seen:
        assert first.pings(second.address) and second.pings(first.address)
    assert seen == {vlans[mine]}
    with vlan_devices.tags(world.outer, 'ext1') as seen:
        assert apart[0].pings(apart[1].address) and not first.pings(apart[1].address, 2)
    assert seen == set(vlans.values())              # the last one asked in its own VLAN, and nobody was there
    assert first.resolves('second.cloud.test', told[1].split()[0]) == [second.address]
    world.router(mine, external=world.outside())
    assert first.pings('172.24.4.1') and second.pings('172.24.4.1')
    answer = world.face('demo', 'POST', 'networks', {'network': {}})
    assert answer.status_code == 503 and 'vlan_ranges' in answer.text
    device = 'vl' + first.vif['network']['bridge'][2:]
    for host in world.hosts:
        before = host.run('ip', 'link', 'show', device)
        host.manager.sync()
        assert host.run('ip', 'link', 'show', device) == before
    with world.face.db.reader() as conn:
        host = world.hosts['host1' in db_routers.places(conn).values()]             # the one without the router
    for guest in (first, second):
        host.client.deallocate_for_instance(world.face.context, instance_uuid=guest.instance.uuid, host=guest.host.name)
    host.manager.sync()
    assert not host.run('ip', 'link', 'show', device, check=False)


def end(space):
    """Take a namespace its name and the process that stays in it."""
    os.kill(int((namespaces.HOLDERS / space).read_text().split()[0]), 9)
    run('ip', 'netns', 'del', space)


def test_agents_without_a_network_service_keep_their_networks(agents):
    """Agents ask a service for what they plumb; without one what is there goes on and what was removed waits for it."""
    assert not any('db' in name for host in agents.hosts for name in vars(host.manager))
    external, network = agents.outside(), agents.network()
    router = agents.router(network, external=external)
    first, second = agents.boot(0, network, 'first'), agents.boot(1, network, 'second')
    assert first.dhcp()[0] == first.address and second.dhcp()[0] == second.address
    assert first.pings(second.address) and second.pings('172.24.4.1')
    group = agents.face('demo', 'GET', 'security-groups').json()['security_groups'][0]['id']
    floating = agents.make('demo', 'floatingips', floating_network_id=external, port_id=second.port)
    outside = floating['floating_ip_address']
    assert not pings_from(agents.outer, outside, 2)
    answer = agents.face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
        'security_group_id': group, 'direction': 'ingress'}})
    assert answer.status_code == 201
    assert pings_from(agents.outer, outside, 20)                # agents follow beside this test
    # the service is away: guests and DHCP go on, and no host takes that for having nothing
    agents.unserve()
    assert first.dhcp()[0] == first.address and first.pings(second.address)
    with agents.face.db.reader() as conn:
        place = db_routers.places(conn)[router]
    host = next(each for each in agents.hosts if each.name == place)
    end(f'{host.conf.network.bridge}-r-{router}')
    host.run('nft', 'flush', 'ruleset')
    agents.serve()
    before = {kind: manager.metrics.NETWORK_REPAIRS.labels(kind)._value.get() for kind in ('namespace', 'filters')}
    host.manager.sync()
    assert second.pings('172.24.4.1') and first.pings(second.address)
    for kind, count in before.items():
        assert manager.metrics.NETWORK_REPAIRS.labels(kind)._value.get() > count, kind


def test_a_port_does_not_wait_for_a_look_at_all_networks(agents):
    """A dozen commands for each network and router of the host went before each port: a busy host's agent was said not
    to answer."""
    one, other = agents.network(), agents.network(cidr='10.1.0.0/24')
    host, guest = agents.hosts[0], agents.boot(0, one, 'a')
    server = 'nd' + guest.vif['network']['bridge'][2:]

    def there():
        return bool(host.run('ip', '-json', 'link', 'show', 'dev', server, check=False).strip())
    assert there()
    host.run('ip', 'link', 'del', 'dev', server)
    second = agents.boot(0, other, 'b')
    assert second.dhcp()[0] == second.address and not there()
    third = agents.boot(0, one, 'c')                        # of this network something is another one now
    assert there() and third.dhcp()[0] == third.address
    host.run('ip', 'link', 'del', 'dev', server)
    host.manager.sync()
    assert there() and guest.dhcp()[0] == guest.address


def test_router_and_floating_address_reach_a_guest(world):
    external, network = world.outside(), world.network()
    other = world.network(cidr='10.1.0.0/24')
    router = world.router(network, external=external)
    world.put('demo', f'routers/{router}/add_router_interface', {
        'subnet_id': world.face('demo', 'GET', f'subnets?network_id={other}').json()['subnets'][0]['id']})
    first, second = world.boot(0, network, 'a'), world.boot(1, network, 'b')
    third = world.boot(1, other, 'c')
    for guest in (first, second, third):
        guest.dhcp()
    assert first.pings(third.address) and third.pings(second.address)           # by the router, from either host
    assert first.pings('172.24.4.1') and second.pings('172.24.4.1')             # under the router's address
    floating = world.make('demo', 'floatingips', floating_network_id=external, port_id=second.port)
    outside = floating['floating_ip_address']
    group = world.face('demo', 'GET', 'security-groups').json()['security_groups'][0]['id']
    assert not pings_from(world.outer, outside, 2)                              # its group does not let it in
    answer = world.face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
        'security_group_id': group, 'direction': 'ingress'}})
    assert answer.status_code == 201
    assert pings_from(world.outer, outside)
    server = second.listens(80)
    try:
        assert connects(world.outer, outside, 80) == '172.24.4.1'
        # moved while it is used: the first one's connections go by the other address from then on
        world.put('demo', f"floatingips/{floating['id']}", {'floatingip': {'port_id': first.port}})
        moved = first.listens(81)
        try:
            assert connects(world.outer, outside, 81) == '172.24.4.1'
        finally:
            moved.kill()
            moved.wait()
        world.put('demo', f"floatingips/{floating['id']}", {'floatingip': {'port_id': None}})
        assert not connects(world.outer, outside, 80, 2)
        answer = world.face('demo', 'POST', f"floatingips/{floating['id']}/port_forwardings", {'port_forwarding': {
            'protocol': 'tcp', 'external_port': 8080, 'internal_port': 80, 'internal_port_id': second.port}})
        assert answer.status_code == 201
        assert connects(world.outer, outside, 8080) == '172.24.4.1'
    finally:
        server.kill()
        server.wait()
    # from outside nobody reaches a guest by its own address
    run('ip', '-n', world.outer, 'route', 'add', '10.0.0.0/24', 'via', router_address(world, router))
    assert not pings_from(world.outer, first.address, 2)


def test_host_routes_guests_to_the_outside(world):
    """Without a wire to the outside, as in the quickstart, the host of a router is its gateway: no floating address
    answered, since what crossed the guests' bridge got the host's own address there."""
    external, network = world.outside(description='a bridge of the host'), world.network()
    router = world.router(network, external=external)
    (place,) = world.face('admin', 'GET', f'routers/{router}/l3-agents').json()['agents']
    number = [host.name for host in world.hosts].index(place['host'])
    guest = world.boot(number, network, 'a')
    guest.dhcp()
    floating = world.make('demo', 'floatingips', floating_network_id=external, port_id=guest.port)
    group = world.face('demo', 'GET', 'security-groups').json()['security_groups'][0]['id']
    assert world.face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
        'security_group_id': group, 'direction': 'ingress', 'protocol': 'icmp'}}).status_code == 201
    assert pings_from(world.hosts[number].space, floating['floating_ip_address'])
    assert guest.pings('172.24.4.1') and guest.pings(f'192.0.2.{2 - number}')       # to the other host, as this one


@long_runs.only
def test_guest_reaches_neighbours_by_their_floating_address(world):
    """On the same router: of the same network, of another one, with and without a floating address of its own."""
    external, network = world.outside(), world.network()
    other = world.network(cidr='10.1.0.0/24')
    router = world.router(network, external=external)
    world.put('demo', f'routers/{router}/add_router_interface', {
        'subnet_id': world.face('demo', 'GET', f'subnets?network_id={other}').json()['subnets'][0]['id']})
    server, neighbour, far = (world.boot(0, network, 'a'), world.boot(1, network, 'b'), world.boot(1, other, 'c'))
    for guest in (server, neighbour, far):
        guest.dhcp()
    floating, own = (world.make('demo', 'floatingips', floating_network_id=external, port_id=guest.port)[
        'floating_ip_address'] for guest in (server, far))
    group = world.face('demo', 'GET', 'security-groups').json()['security_groups'][0]['id']
    assert world.face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
        'security_group_id': group, 'direction': 'ingress', 'remote_ip_prefix': '172.24.4.0/24'}}).status_code == 201
    listening = server.listens(80)
    try:
        assert connects(neighbour.space, floating, 80) == router_address(world, router)
        assert connects(far.space, floating, 80) == own
        assert connects(server.space, floating, 80) == floating                     # itself
        assert connects(far.space, server.address, 80) == far.address               # untranslated between its networks
    finally:
        listening.kill()
        listening.wait()


SINK = '''
import socket, time
server = socket.create_server(("", 5001))
print(1, flush=True)
while True:
    connection, _peer = server.accept()
    got, began = 0, time.monotonic()
    while part := connection.recv(1 << 16):
        got += len(part)
    print(round(got * 8 / 1000 / (time.monotonic() - began)), flush=True)
'''
SOURCE = '''
import socket, sys, time
connection = socket.create_connection((sys.argv[1], 5001), 10)
ends = time.monotonic() + float(sys.argv[2])
while time.monotonic() < ends:
    connection.send(b"x" * 16384)
'''


def rate(source, sink, seconds=4):
    """Kilobits a second that one guest sends to another, of TCP's payload."""
    process = subprocess.Popen(['ip', 'netns', 'exec', sink.space, 'python3', '-c', SINK], stdout=subprocess.PIPE,
                               text=True)
    try:
        process.stdout.readline()
        source('python3', '-c', SOURCE, sink.address, str(seconds))
        return int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


@long_runs.only
def test_bandwidth_limits_apply_to_running_guests(world):
    """Measured in both directions, on a guest that runs: policies that come, change and go."""
    network = world.network()
    first, second = world.boot(0, network, 'a'), world.boot(1, network, 'b')
    for guest in (first, second):
        guest.dhcp()
    free = rate(first, second, 1)
    answer = world.face('admin', 'POST', 'qos/policies', {'policy': {'shared': True}})
    policy = answer.json()['policy']['id']
    rules = f'qos/policies/{policy}/bandwidth_limit_rules'
    egress = world.face('admin', 'POST', rules, {'bandwidth_limit_rule': {'max_kbps': 8000, 'max_burst_kbps': 1000}})
    egress = egress.json()['bandwidth_limit_rule']['id']
    world.put('demo', f'ports/{first.port}', {'port': {'qos_policy_id': policy}})
    limited, back = rate(first, second), rate(second, first, 1)
    print('kbit/s: free', free, 'limited to 8000:', limited, 'the other way', back)
    assert 4000 < limited < 10500 and back > 30000 and free > 30000
    world.face('admin', 'POST', rules, {'bandwidth_limit_rule': {'max_kbps': 4000, 'direction': 'ingress'}})
    assert 2000 < rate(second, first) < 5500
    world.put('admin', f'{rules}/{egress}', {'bandwidth_limit_rule': {'max_kbps': 16000}})
    assert 9000 < rate(first, second) < 20000
    world.put('demo', f'ports/{first.port}', {'port': {'qos_policy_id': None}})
    assert rate(first, second, 1) > 30000 and rate(second, first, 1) > 30000


@long_runs.only
def test_metadata_is_correct_for_networks_with_equal_addresses(world, metadata):
    """Isolated ones and behind routers; on each host the guests of that host; nothing that a guest says changes it."""
    mine, theirs, routed = world.network(), world.network('other'), world.network('admin', enable_dhcp=False)
    router = world.router(routed, 'admin')
    guests = [world.boot(0, mine, 'a'), world.boot(1, mine, 'b'), world.boot(1, theirs, 'c', 'p2')]
    apart = [world.boot(place, routed, 'd', 'admin-project') for place in (0, 1)]
    for guest in guests:
        guest.dhcp()
        guest('ip', 'route', 'replace', '169.254.169.254', 'via', world.server_of(guest))
    for guest in apart:                       # addressed by hand, and by the router alone
        guest('ip', 'address', 'add', guest.address + '/24', 'dev', 'eth0')
        guest('ip', 'route', 'replace', 'default', 'via', '10.0.0.1')
    for guest in guests + apart:
        metadata.knows(guest)
        assert told(guest) == guest.instance.uuid
    first, second, _third = guests
    # on a link of its own: who has 169.254/16 there needs no route
    first('ip', 'route', 'replace', '169.254.169.254', 'dev', 'eth0')
    assert told(first) == first.instance.uuid
    # session tokens, and not through a proxy
    token = ('-X', 'PUT', '-H', 'X-aws-ec2-metadata-token-ttl-seconds: 60')
    given = fetch(first, *token, url='http://169.254.169.254/latest/api/token')
    assert told(first, '-H', f'X-aws-ec2-metadata-token: {given}') == first.instance.uuid
    assert 'is invalid' in told(second, '-H', f'X-aws-ec2-metadata-token: {given}')
    assert 'not available' in fetch(first, *token, '-H', 'X-Forwarded-For: 10.0.0.9',
                                url='http://169.254.169.254/latest/api/token')
    # what the relay says, said by the guest: of another server, of another network
    for name, value in ((relay.GUEST, second.address), (relay.NETWORK, theirs), (relay.ROUTER, router),
                        (relay.HOST, 'host2'), (relay.SIGNATURE, '0' * 64), ('X-Instance-ID', second.instance.uuid)):
        assert told(first, '-H', f'{name}: {value}') == first.instance.uuid
    raw = f'GET /openstack HTTP/1.1\r\nX: y\n{relay.GUEST}: {second.address}\r\n\r\n'
    assert '400' in first('python3', '-c', 'import socket; s = socket.create_connection(("169.254.169.254", 80), 9); '
                          f's.sendall({raw!r}.encode()); print(s.recv(99))')
    # an address of a neighbour that its owner lets it have, and none at all that it must keep to
    world.put('demo', f'ports/{first.port}', {'port': {'allowed_address_pairs': [{'ip_address': second.address}]}})
    assert told(first) == first.instance.uuid
    first('ip', 'address', 'add', second.address + '/24', 'dev', 'eth0')
    assert told(first, '--interface', second.address, '-m', '3') == ''
    world.put('demo', f'ports/{first.port}', {'port': {'allowed_address_pairs': [], 'security_groups': [],
                                                       'port_security_enabled': False}})
    assert told(first, '--interface', second.address, '-m', '3') == ''
    assert told(first, '--interface', first.address) == first.instance.uuid


def test_agent_host_serves_metadata_without_a_database(agents, make_metadata):
    """Guests of such hosts had a config drive or nothing."""
    metadata, host = make_metadata(agents), agents.hosts[0]
    host.conf.set_override('agent', True, 'network')
    with agents.face.db.writer() as conn:
        networks.update(conn, t.networks, agents.face.network_id, {'bridge': host.conf.network.bridge})
    guests = [agents.boot(0, agents.face.network_id, name) for name in ('a', 'b')]
    for guest in guests:
        guest.dhcp()
        metadata.knows(guest)
    first, second = guests
    assert [told(guest) for guest in guests] == [guest.instance.uuid for guest in guests]
    assert told(first, '-H', f'{relay.GUEST}: {second.address}') == first.instance.uuid
    first('ip', 'address', 'add', second.address + '/24', 'dev', 'eth0')
    assert told(first, '--interface', second.address, '-m', '3') == ''
    # who has an address outside reaches no relay of the guests
    gateway = first.vif['network']['subnets'][0]['gateway']
    text = host.run('nft', 'list', 'table', 'inet', host.driver.linux.table)
    assert f'ip daddr {gateway} tcp dport {host.conf.metadata.port} accept' in text
    host.driver.linux.relay.stop()
    host.manager.sync()
    assert told(first, '--interface', first.address) == first.instance.uuid


GUEST = pathlib.Path(os.environ.get('NOVA_TEST_GUEST_DIR') or '/nonexistent')


@pytest.mark.skipif(not (GUEST / 'guest.qcow2').exists() or not shutil.which('qemu-system-x86_64'),
                    reason='needs QEMU and the guest image that NOVA_TEST_GUEST_DIR names')
@pytest.mark.parametrize('routed', long_runs.rest([True, False]))
def test_real_guest_reads_metadata_without_a_config_drive(world, metadata, routed):
    """It boots, asks at 169.254.169.254 and knows who it is: alone in a network, and behind a router."""
    network = world.network()
    if routed:
        world.router(network)
    place = world.boot(0, network, 'real')
    metadata.knows(place)
    place.host.run('ip', 'link', 'del', 'dev', place.vif['devname'])              # QEMU has its device
    device = place.vif['devname']
    process = subprocess.Popen(
        [*place.host.run.prefix, 'qemu-system-x86_64', '-accel', 'tcg', '-cpu', 'max', '-m', '128', '-nographic',
         '-nodefaults', '-no-user-config', '-serial', 'stdio', '-snapshot', '-drive',
         f'file={GUEST}/guest.qcow2,if=virtio,format=qcow2', '-netdev',
         f'tap,id=n,ifname={device},script=no,downscript=no', '-device', f'virtio-net-pci,netdev=n,mac={place.mac}'],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace')
    try:
        wait_for(lambda: place.host.run('ip', 'link', 'show', device, check=False).splitlines(), 1)
        place.host.run('ip', 'link', 'set', device, 'master', place.vif['network']['bridge'], 'up')
        said = []
        for line in process.stdout:
            said.append(line)
            if 'guest ready' in line:
                break
        ready = said[-1]
        assert f'address {place.address}' in ready and 'metadata service' in ready, ''.join(said[-20:])
        assert 'name web-server' in ready and 'key yes' in ready
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@long_runs.only
def test_the_relay_is_mended_and_answers_nobody_outside(world, metadata):
    external, network = world.outside(), world.network()
    router = world.router(network, external=external)
    guest = world.boot(0, network, 'a')
    guest.dhcp()                                      # by the router: the script of this test takes no routes
    metadata.knows(guest)
    assert told(guest) == guest.instance.uuid
    run('ip', '-n', world.outer, 'route', 'add', '169.254.169.254', 'via', router_address(world, router))
    assert not connects(world.outer, '169.254.169.254', 80, 2)
    process = world.hosts[0].driver.linux.relay.process
    status = pathlib.Path(f'/proc/{process.pid}/status').read_text()
    assert 'CapEff:\t0000000000000000' in status and '\nUid:\t0' not in status
    os.kill(process.pid, signal.SIGKILL)
    assert wait_for(lambda: [process.ended()] * (process.ended() is not None), 1) == [-signal.SIGKILL]
    assert told(guest, '-m', '2') == ''
    world.hosts[0].manager.sync()
    assert told(guest) == guest.instance.uuid
    world.face('demo', 'PUT', f'routers/{router}', {'router': {'admin_state_up': False}})
    assert told(guest, '-m', '2') == ''


def test_relays_speak_tls_with_the_service(world, metadata):
    host, guest = world.hosts[0], world.boot(0, world.network(), 'a')
    guest.dhcp()
    guest('ip', 'route', 'replace', '169.254.169.254', 'via', world.server_of(guest))
    metadata.knows(guest)
    authority = certificates.Authority(world.path / 'tls')
    context = certificates.server_context(authority.pair('metadata', ['192.0.2.99']))
    for server in metadata.servers:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    assert told(guest).startswith('50'), 'plain HTTP to a service with TLS'
    other = certificates.Authority(world.path / 'other')
    other.pair('metadata', ['192.0.2.99'])
    for each, answer in ((authority, guest.instance.uuid), (other, '503 Service Unavailable\n')):
        host.conf.set_override('metadata_ca_file', str(each.trusted), 'network')
        host.manager.sync()
        assert told(guest) == answer


def router_address(world, router):
    info = world.face('demo', 'GET', f'routers/{router}').json()['router']['external_gateway_info']
    return info['external_fixed_ips'][0]['ip_address']


@long_runs.only
def test_sync_restores_namespaces_and_filters_removed_by_hand(world):
    external, network = world.outside(), world.network()
    router = world.router(network, external=external)
    first, second = world.boot(0, network, 'a'), world.boot(1, network, 'b')
    for guest in (first, second):
        guest.dhcp()
    with world.face.db.reader() as conn:
        place = db_routers.places(conn)[router]
    host = next(each for each in world.hosts if each.name == place)
    assert first.pings('172.24.4.1')
    space = f'{host.conf.network.bridge}-r-{router}'
    for link in json.loads(run('ip', '-json', '-n', space, 'link', 'show')):
        run('ip', '-n', space, 'link', 'set', link['ifname'], 'down')
    end(space)                                   # which the relay's socket keeps alive, without its name
    host.run('nft', 'flush', 'ruleset')
    assert not first.pings('172.24.4.1', 2)
    counted = manager.metrics.NETWORK_REPAIRS
    before = {kind: counted.labels(kind)._value.get() for kind in ('namespace', 'filters')}
    host.manager.sync()
    assert first.pings('172.24.4.1') and second.pings('172.24.4.1')
    assert {kind: counted.labels(kind)._value.get() - was for kind, was in before.items()} == {
        'namespace': 1, 'filters': 1}


def test_a_restart_leaves_connections_alone_and_a_dead_host_loses_its_routers(world):
    external, network = world.outside(), world.network()
    router = world.router(network, external=external)
    guest = world.boot(1, network, 'b')
    guest.dhcp()
    with world.face.db.reader() as conn:
        place = db_routers.places(conn)[router]
    assert place == 'host1'
    for host in world.hosts:
        fresh = Checked(host.conf, host.run)
        pids = run('pgrep', '-f', host.conf.network.bridge, check=False)
        manager.NetworkManager(host.conf, world.face.db, host.name, fresh).start()
        assert run('pgrep', '-f', host.conf.network.bridge, check=False) == pids       # the same processes
        host.driver.linux = fresh.linux
    assert guest.pings('172.24.4.1')
    # host1 is not heard of any more
    with world.face.db.writer() as conn:
        rows = networks.many(conn, t.hosts, ['host1'], 'host')
        conn.execute(t.hosts.update().where(t.hosts.c.host == 'host1').values(
            last_seen_at=rows[0]['last_seen_at'] - manager.datetime.timedelta(seconds=20)))
    run('ip', '-n', world.outer, 'link', 'set', 'tun1', 'down')
    run('ip', '-n', world.outer, 'link', 'set', 'ext1', 'down')
    world.hosts[1].manager.report()
    with world.face.db.reader() as conn:
        assert db_routers.places(conn)[router] == 'host2'
    deadline = time.monotonic() + 120
    while not guest.pings('172.24.4.1') and time.monotonic() < deadline:
        pass
    assert guest.pings('172.24.4.1')


def test_guest_cannot_send_with_foreign_addresses_unless_its_port_allows_them(world):
    network = world.network(allocation_pools=[{'start': '10.0.0.2', 'end': '10.0.0.90'}])
    first, second = world.boot(0, network, 'a'), world.boot(1, network, 'b')
    for guest in (first, second):
        guest.dhcp()
    assert first.pings(second.address)
    # another address, another MAC, another name of its own for ARP
    first('ip', 'address', 'add', '10.0.0.99/24', 'dev', 'eth0')
    assert not first('ping', '-I', '10.0.0.99', '-c', '1', '-W', '1', second.address, check=False)
    first('ip', 'address', 'del', '10.0.0.99/24', 'dev', 'eth0')
    first('ip', 'link', 'set', 'eth0', 'address', 'fa:16:3e:99:99:99')
    assert not first.pings(second.address, 2)
    first('ip', 'link', 'set', 'eth0', 'address', first.mac)
    assert first.pings(second.address)
    # an address that the port's owner allowed it besides
    world.put('demo', f'ports/{first.port}', {'port': {'allowed_address_pairs': [{'ip_address': '10.0.0.99'}]}})
    first('ip', 'address', 'add', '10.0.0.99/24', 'dev', 'eth0')
    group = world.face('demo', 'GET', 'security-groups').json()['security_groups'][0]['id']
    assert world.face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
        'security_group_id': group, 'direction': 'ingress'}}).status_code == 201
    assert first('ping', '-I', '10.0.0.99', '-c', '2', '-W', '2', second.address, check=False)


def test_allowed_address_ranges_may_be_used_as_source(world):
    """Between two hosts, of both versions of IP; and under the rules of its own groups, whoever has the address."""
    network = world.network()
    world.make('demo', 'subnets', network_id=network, cidr='fd00:7::/64', ip_version=6, ipv6_ra_mode='slaac',
               ipv6_address_mode='slaac')
    default, closed = (world.face('demo', *words).json() for words in (
        ('GET', 'security-groups'), ('POST', 'security-groups', {'security_group': {'name': 'closed'}})))
    default, closed = default['security_groups'][0]['id'], closed['security_group']
    for ethertype in ('IPv4', 'IPv6'):
        world.face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
            'security_group_id': default, 'direction': 'ingress', 'ethertype': ethertype}})
    node, near, far = (world.boot(host, network, name, groups=groups) for host, name, groups in (
        (0, 'node', [closed['id']]), (0, 'near', None), (1, 'far', None)))
    for guest in (node, near, far):
        guest.dhcp()
        own = next(ip['address'] for subnet in guest.vif['network']['subnets'] for ip in subnet['ips']
                   if subnet['version'] == 6)
        guest('ip', 'address', 'replace', f'{own}/64', 'dev', 'eth0', 'nodad')
        for family, to in (('-4', '10.9.0.0/16'), ('-6', 'fd00:9::/48')):
            guest('ip', family, 'route', 'add', to, 'dev', 'eth0')
    for address in ('10.9.0.7/32', '10.9.1.7/32', 'fd00:9::7/128'):
        node('ip', 'address', 'add', address, 'dev', 'eth0', *(['nodad'] if ':' in address else []))
    near('ip', 'address', 'add', '10.9.0.8/32', 'dev', 'eth0')

    def reaches(guest, source, other):
        return bool(guest('ping', '-I', source, '-i', '0.2', '-c', '2', '-W', '1', '-w', '1', other, check=False))

    def of(guest, version):
        return next(ip['address'] for subnet in guest.vif['network']['subnets'] for ip in subnet['ips']
                    if subnet['version'] == version)
    assert not reaches(node, '10.9.0.7', far.address)
    world.put('demo', f'ports/{node.port}', {'port': {'allowed_address_pairs': [
        {'ip_address': '10.9.0.0/24'}, {'ip_address': 'fd00:9::/61'}]}})
    for other in (near, far):
        for version, address in ((4, '10.9.0.7'), (6, 'fd00:9::7')):
            assert wait_for(lambda address=address, version=version, other=other: [1] * reaches(
                node, address, of(other, version)), 1)
        assert not other.pings('10.9.0.7', 1)                    # the node's group lets none in
    assert not far.pings('fd00:9::7', 1)
    assert not reaches(node, '10.9.1.7', far.address) and not reaches(near, '10.9.0.8', far.address)
    # near's ARP request for far names 10.9.0.8, and the kernel repeats it so: forget it before near asks as itself
    near('ip', 'neigh', 'flush', 'dev', 'eth0')
    world.face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
        'security_group_id': closed['id'], 'direction': 'ingress'}})
    assert near.pings('10.9.0.7') and far.pings('10.9.0.7')
    # a range with a neighbour's address: under that, too, it may send what its own group lets it
    for rule in closed['security_group_rules']:
        world.face('demo', 'DELETE', f"security-group-rules/{rule['id']}")
    world.put('demo', f'ports/{node.port}', {'port': {'allowed_address_pairs': [{'ip_address': '10.0.0.0/24'}]}})
    assert near.pings(far.address)
    node('ip', 'address', 'add', f'{near.address}/32', 'dev', 'eth0')
    assert heard(far, node, near.address) == ''


def test_a_rule_that_goes_ends_what_it_let_pass(world):
    """On one host and between two: a host lets pass what it has let pass before, until the rules are others."""
    network = world.network()
    group = world.face('demo', 'POST', 'security-groups', {'security_group': {'name': 'open'}}).json()[
        'security_group']['id']
    target, senders = world.boot(0, network, 'a', groups=[group]), [world.boot(host, network, 's') for host in (0, 1)]
    for guest in (target, *senders):
        guest.dhcp()

    def allow():
        return world.face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
            'security_group_id': group, 'direction': 'ingress', 'protocol': 'udp', 'port_range_min': 5353,
            'port_range_max': 5353}}).json()['security_group_rule']['id']
    rule = allow()
    ends = [subprocess.Popen(['ip', 'netns', 'exec', guest.space, 'python3', '-c', code], stdout=subprocess.PIPE)
            for guest, code in ((target, HEARS), *((sender, SENDS % target.address) for sender in senders))]
    try:
        heard = ends[0].stdout
        os.set_blocking(heard.fileno(), False)
        addresses = {sender.address for sender in senders}
        assert said(heard, addresses) == addresses
        followed = world.hosts[0].run('cat', '/proc/net/nf_conntrack')
        marks = {line.rpartition('mark=')[2].split()[0] for line in followed.splitlines() if 'dport=5353' in line}
        mark = marks.pop()
        assert not marks and f'ct mark {int(mark):#010x} ' in world.hosts[0].run('nft', 'list', 'ruleset')
        assert world.face('demo', 'DELETE', f'security-group-rules/{rule}').status_code == 204
        drain(heard)
        assert said(heard, {'none'}, 0.6) == set()
        allow()
        assert said(heard, addresses) == addresses
        # what no rule names does not pass beside it
        assert not senders[0]('ping', '-c', '1', '-W', '1', target.address, check=False)
    finally:
        for end in ends:
            end.kill()
            end.wait()
            end.stdout.close()


@pytest.mark.parametrize('version', (4, 6))
def test_tcp_is_offloaded_until_the_rules_change(world, version):
    """Past the bridge, on one host and between two; as with each packet, a connection ends with its rule."""
    network = world.network()
    if version == 6:
        world.make('demo', 'subnets', network_id=network, cidr='fd00:9::/64', ip_version=6, ipv6_address_mode='slaac',
                   ipv6_ra_mode='slaac')
    group = world.face('demo', 'POST', 'security-groups', {'security_group': {'name': 'open'}}).json()[
        'security_group']['id']
    target, senders = world.boot(0, network, 'a', groups=[group]), [world.boot(host, network, 's') for host in (0, 1)]
    own = {}
    for guest in (target, *senders):
        guest.dhcp()
        port = world.face('admin', 'GET', f'ports/{guest.port}').json()['port']
        own[guest] = next(each['ip_address'] for each in port['fixed_ips'] if (':' in each['ip_address']) == (
            version == 6))
        if version == 6:
            guest('ip', 'address', 'add', f'{own[guest]}/64', 'dev', 'eth0', 'nodad')
    for host in world.hosts:                    # finds the devices that the guests have got, as it does each minute
        host.manager.sync()

    def allow():
        return world.face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
            'security_group_id': group, 'direction': 'ingress', 'protocol': 'tcp', 'ethertype': f'IPv{version}',
            'port_range_min': 5353, 'port_range_max': 5353}}).json()['security_group_rule']['id']

    def learned(host, device):
        listed = host.run('nft', 'list', 'set', 'netdev', host.driver.linux.table,
                          f'flows{"6" if version == 6 else ""}_{device}')
        return [each for each in addresses if f'{each} . {own[target]} . ' in listed]
    rule, addresses = allow(), {own[sender] for sender in senders}
    ends = [subprocess.Popen(['ip', 'netns', 'exec', guest.space, 'python3', '-c', code], stdout=subprocess.PIPE)
            for guest, code in ((target, TAKES), *((sender, GIVES % own[target]) for sender in senders))]
    first, second = world.hosts
    device, bridge = target.vif['devname'], target.vif['network']['bridge']
    try:
        heard = ends[0].stdout
        os.set_blocking(heard.fileno(), False)
        assert said(heard, addresses) == addresses
        assert set(wait_for(lambda: learned(first, device), 2)) == addresses
        assert learned(second, 'vx' + bridge[2:]) == [own[senders[1]]]
        first.run('ip', 'link', 'set', bridge, 'down')
        said(heard, set(), 0.2)
        assert said(heard, addresses) == addresses
        first.run('ip', 'link', 'set', bridge, 'up')
        assert world.face('demo', 'DELETE', f'security-group-rules/{rule}').status_code == 204
        drain(heard)
        assert said(heard, {'none'}, 0.6) == set()
        assert learned(first, device) == []
        allow()
        assert said(heard, addresses) == addresses
        # the end of a connection is told, also when most of it was not tracked: with data that nobody reads, by RST
        ends[0].kill()
        for end in ends[1:]:
            assert end.wait(10) == 7
    finally:
        for end in ends:
            end.kill()
            end.wait()
            end.stdout.close()


TAKES = """
import os, socket, threading
server = socket.create_server(("::", 5353), family=socket.AF_INET6, dualstack_ipv6=True)
def take(connection, address):
    while connection.recv(9):
        os.write(1, (address.removeprefix("::ffff:") + chr(10)).encode())      # threads mix lines of print
while 1:
    connection, address = server.accept()
    threading.Thread(target=take, args=(connection, address[0])).start()
"""
GIVES = """
import socket, sys, time
while 1:
    try:
        s = socket.create_connection(("%s", 5353), 5)
        break
    except OSError:
        time.sleep(.2)
try:
    while 1:
        s.send(b"x")
        time.sleep(.05)
except OSError:
    sys.exit(7)
"""
HEARS = """
import socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("", 5353))
while 1:
    print(server.recvfrom(9)[1][0], flush=True)
"""
SENDS = """
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 5353))
while 1:
    s.sendto(b"x", ("%s", 5353))
    time.sleep(.05)
"""


def test_udp_and_ping_are_offloaded_until_the_rules_change(world):
    """They took the long way alone: half of a bridge's throughput, and twice its latency."""
    network = world.network()
    group = world.face('demo', 'POST', 'security-groups', {'security_group': {'name': 'open'}}).json()[
        'security_group']['id']
    target, senders = world.boot(0, network, 'a', groups=[group]), [world.boot(host, network, 's') for host in (0, 1)]
    for guest in (target, *senders):
        guest.dhcp()
    for host in world.hosts:                    # finds the devices that the guests have got, as it does each minute
        host.manager.sync()
    rules = [world.face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
        'security_group_id': group, 'direction': 'ingress', 'ethertype': 'IPv4', **values}}).json()[
        'security_group_rule']['id'] for values in (
            {'protocol': 'udp', 'port_range_min': 5353, 'port_range_max': 5353}, {'protocol': 'icmp'})]
    first, addresses = world.hosts[0], {sender.address for sender in senders}
    device, bridge = target.vif['devname'], target.vif['network']['bridge']

    def learned(kind):
        listed = first.run('nft', 'list', 'set', 'netdev', first.driver.linux.table, f'flows{kind}_{device}')
        return {each for each in addresses if f'{each} . {target.address} . ' in listed}

    def inside(guest, *words):
        return subprocess.Popen(['ip', 'netns', 'exec', guest.space, *words], stdout=subprocess.PIPE)
    ends = [inside(target, 'python3', '-c', HEARS),
            *(inside(sender, 'python3', '-c', SENDS % target.address) for sender in senders),
            *(inside(sender, 'ping', '-n', '-i', '0.2', target.address) for sender in senders)]
    heard, *pings = [end.stdout for end in (ends[0], *ends[3:])]

    def answered(stream, seconds):
        """Whether a ping has an answer within this time."""
        over = time.monotonic() + seconds
        while not any(word.startswith('time=') for word in said(stream, {'none'}, 0.2)):
            if time.monotonic() > over:
                return False
        return True
    try:
        for stream in (heard, *pings):
            os.set_blocking(stream.fileno(), False)
        assert said(heard, addresses) == addresses and all(answered(stream, 15) for stream in pings)
        for kind in 'up':
            assert wait_for(lambda kind=kind: learned(kind), 2) == addresses
        first.run('ip', 'link', 'set', bridge, 'down')
        for stream in (heard, *pings):
            said(stream, set(), 0.3)
        assert said(heard, addresses) == addresses and answered(pings[0], 15)
        first.run('ip', 'link', 'set', bridge, 'up')
        for rule in rules:
            assert world.face('demo', 'DELETE', f'security-group-rules/{rule}').status_code == 204
        for stream in (heard, *pings):
            drain(stream)
        assert said(heard, {'none'}, 0.6) == set() and not answered(pings[0], 0.6)
        assert not learned('u') and not learned('p')
    finally:
        for end in ends:
            end.kill()
            end.wait()
            end.stdout.close()


def said(stream, wanted, seconds=15):
    """The lines that come until those that are wanted are there, or for some time."""
    found, ends = set(), time.monotonic() + seconds
    while not wanted or not wanted <= found:
        found |= set((stream.read() or b'').decode().split())
        if time.monotonic() > ends:
            break
        time.sleep(0.05)
    return found


def drain(stream):
    """Read until nothing has come for some time: a listener prints what it got when it runs again."""
    over = time.monotonic() + 10
    while said(stream, {'none'}, 0.3) and time.monotonic() < over:
        pass


@long_runs.only
def test_nobody_sends_as_a_neighbour_by_two_routers(world):
    """A network of the same range and a router between let a project send as a guest of a network that it shares, whose
    groups let that guest in."""
    network = world.network(allocation_pools=[{'start': '10.0.0.2', 'end': '10.0.0.90'}])
    neighbour, target = world.boot(0, network, 'a'), world.boot(0, network, 'b')
    target.dhcp()
    assert world.face('demo', 'POST', 'rbac-policies', {'rbac_policy': {
        'object_type': 'network', 'object_id': network, 'action': 'access_as_shared',
        'target_tenant': 'p2'}}).status_code == 201
    same = world.network('other', allocation_pools=[{'start': '10.0.0.100', 'end': '10.0.0.200'}])
    between = world.network('other', cidr='10.5.0.0/24')
    first, second = world.router(same, 'other'), world.router(between, 'other')
    legs = [world.make('other', 'ports', network_id=ident) for ident in (between, network)]
    for router, leg in zip((first, second), legs):
        world.put('admin', f'routers/{router}/add_router_interface', {'port_id': leg['id']})
    world.put('other', f'routers/{first}', {'router': {'routes': [
        {'destination': f'{target.address}/32', 'nexthop': '10.5.0.1'}]}})
    port = world.make('other', 'ports', network_id=same, fixed_ips=[{'ip_address': neighbour.address}])
    liar = world.boot(0, same, 'x', 'p2', port=port['id'])
    liar.dhcp()
    liar('ip', 'route', 'add', f'{target.address}/32', 'via', '10.0.0.1')
    assert heard(target, liar, liar.address) == ''
    # the way is there: under an address that no network of the target's has it arrives, and its group refuses it
    group = world.face('demo', 'GET', 'security-groups').json()['security_groups'][0]['id']
    world.face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
        'security_group_id': group, 'direction': 'ingress'}})
    honest = world.boot(0, between, 'y', 'p2')
    honest.dhcp()
    assert heard(target, honest, honest.address) == honest.address
    assert heard(target, liar, liar.address) == ''


def heard(target, sender, address):
    """From whom a guest hears a datagram that another one sends, '' in vain."""
    code = ('import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(("", 5353))\ns.settimeout(4)\n'
            'print(1, flush=True)\ntry:\n print(s.recvfrom(9)[1][0])\nexcept TimeoutError:\n print("")')
    process = subprocess.Popen(['ip', 'netns', 'exec', target.space, 'python3', '-c', code], stdout=subprocess.PIPE,
                               text=True)
    process.stdout.readline()
    sender('python3', '-c', f'import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n'
           f's.bind(({address!r}, 0))\nfor _ in range(6):\n s.sendto(b"x", ({target.address!r}, 5353))\n'
           ' time.sleep(.5)')
    return process.communicate()[0].strip()


def test_ipv6_guests_use_router_advertisements(world):
    """Addresses that guests make of a router's advertisement, and what reaches them from another host."""
    network = world.network()
    world.make('demo', 'subnets', network_id=network, cidr='fd00:7::/64', ip_version=6, ipv6_ra_mode='slaac',
               ipv6_address_mode='slaac')
    world.router(network)
    first, second = world.boot(0, network, 'a'), world.boot(1, network, 'b')
    for guest in (first, second):
        guest.dhcp()
    found = wait_for(lambda: [entry['local'] for guest in (first, second) for link in json.loads(
        guest('ip', '-json', '-6', 'address', 'show', 'dev', 'eth0')) for entry in link['addr_info']
        if entry['scope'] == 'global' and not entry.get('tentative')], 2)
    wanted = [ip['address'] for guest in (first, second) for subnet in guest.vif['network']['subnets']
              if subnet['version'] == 6 for ip in subnet['ips']]
    assert found == wanted
    assert first.pings(found[1])
    assert wait_for(lambda: first('ip', '-6', 'route', 'show', 'default').splitlines(), 1)


@pytest.mark.skipif(not os.path.exists(networkd.PATH), reason='not installed: systemd-networkd')
def test_dhcpv6_guests_get_addresses_and_name_servers(world):
    """A guest of the machine's own DHCPv6 client gets its port's address where it is stateful, the name servers of its
    subnet both there and where it is stateless, and reaches guests of the other network by what it was given.
    """
    router = world.make('demo', 'routers', name='r')['id']
    guests, servers = [], []
    for number, mode in enumerate(('dhcpv6-stateful', 'dhcpv6-stateless')):
        network, name_server = world.make('demo', 'networks', name=mode)['id'], f'fd00:53::{number + 1}'
        subnet = world.make('demo', 'subnets', network_id=network, cidr=f'fd00:{number + 1}::/64', ip_version=6,
                            ipv6_ra_mode=mode, ipv6_address_mode=mode, dns_nameservers=[name_server])
        world.put('demo', f'routers/{router}/add_router_interface', {'subnet_id': subnet['id']})
        guests.append(world.boot(number, network, f'g{number}'))
        servers.append(sorted([world.server_of(guests[-1]), name_server]))
    with networkd.Client(guests[0].space) as first, networkd.Client(guests[1].space) as second:
        assert [first.name_servers(), second.name_servers()] == servers
        assert [first.domains(), second.domains()] == [['cloud.test']] * 2
        for guest in guests:
            assert wait_for(lambda guest=guest: [entry['local'] for link in json.loads(
                guest('ip', '-json', '-6', 'address', 'show', 'dev', 'eth0')) for entry in link['addr_info']
                if entry['scope'] == 'global' and not entry.get('tentative')], 1) == [guest.address]
        assert guests[0].pings(guests[1].address, 10)


def test_network_that_the_kernel_refuses_does_not_affect_other_projects(world):
    """IPv6 needs packets of 1280 bytes: a network of smaller ones kept all networks of the host from being set up."""
    small = world.make('demo', 'networks', name='small', mtu=576)['id']
    world.make('demo', 'subnets', network_id=small, cidr='fd00:9::/64', ip_version=6, ipv6_ra_mode='slaac',
               ipv6_address_mode='slaac')
    world.boot(0, small, 'unlucky')
    other = world.network('other')
    first, second = world.boot(0, other, 'a', 'p2'), world.boot(1, other, 'b', 'p2')
    for guest in (first, second):
        guest.dhcp()
    assert first.pings(second.address)


def test_removed_network_leaves_nothing_on_the_hosts(world):
    network = world.network()
    guest = world.boot(0, network, 'a')
    host = world.hosts[0]
    assert 'vx' in host.run('ip', 'link', 'show')
    host.manager.deallocate_for_instance(world.face.context, instance_uuid=guest.instance.uuid, host=None)
    assert 'vx' not in host.run('ip', 'link', 'show')
    assert not [name for name in os.listdir('/run/netns') if name.startswith(host.conf.network.bridge + '-')]


def test_fake_network_driver_accepts_all_operations(tmp_path):
    """The rows alone: the same calls as above where nothing may be touched."""
    face = test_network_api.Face(tmp_path)
    try:
        assert isinstance(face.manager.driver, fake.FakeDriver)
        face.manager.start()
        network = face('demo', 'POST', 'networks', {'network': {}}).json()['network']['id']
        face('demo', 'POST', 'subnets', {'subnet': {'network_id': network, 'cidr': '10.0.0.0/24', 'ip_version': 4}})
        router = face('demo', 'POST', 'routers', {'router': {}}).json()['router']['id']
        subnet = face('demo', 'GET', f'subnets?network_id={network}').json()['subnets'][0]['id']
        face('demo', 'PUT', f'routers/{router}/add_router_interface', {'subnet_id': subnet})
        state = face.manager.load()
        assert [each.id for each in state.routers] == [router] and [each.id for each in state.overlays] == [network]
    finally:
        face.close()
