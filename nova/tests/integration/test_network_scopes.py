"""Address scopes on a host that is a namespace: which networks a router connects, and whose addresses it translates."""
import pytest

from nova.network.linux import runner
from nova.tests.support import network_overlay as overlays

pytestmark = overlays.pytestmark
run = runner.Runner()


@pytest.fixture
def world(tmp_path):
    made = overlays.World(tmp_path, hosts=1)
    yield made
    made.close()


def scope(world, user='admin'):
    answer = world.face(user, 'POST', 'address-scopes', {'address_scope': {'ip_version': 4, 'shared': user == 'admin'}})
    assert answer.status_code == 201, answer.text
    return answer.json()['address_scope']['id']


def network(world, prefix, address_scope, user='demo', **more):
    pool = world.make(user, 'subnetpools', prefixes=[prefix], address_scope_id=address_scope, default_prefixlen=24)
    made = world.make(user, 'networks', **more)
    world.make(user, 'subnets', network_id=made['id'], ip_version=4, subnetpool_id=pool['id'],
               enable_dhcp='router:external' not in more)
    return made['id']


def test_router_separates_scopes_and_translates_no_addresses_within_one(world):
    one, other = scope(world), scope(world)
    external = network(world, '172.24.4.0/24', one, 'admin', **{
        'router:external': True, 'provider:physical_network': 'wire'})
    networks = [network(world, '10.1.0.0/24', one), network(world, '10.2.0.0/24', one),
                network(world, '10.3.0.0/24', other), world.network(cidr='10.4.0.0/24')]
    router = world.router(networks[0], external=external)
    for each in networks[1:]:
        subnet = world.face('demo', 'GET', f'subnets?network_id={each}').json()['subnets'][0]['id']
        world.put('demo', f'routers/{router}/add_router_interface', {'subnet_id': subnet})
    guests = [world.boot(0, each, f'guest{number}') for number, each in enumerate(networks)]
    for guest in guests:
        guest.dhcp()
    first, same, apart, plain = guests
    assert first.pings(same.address) and same.pings(first.address)
    for here, there in ((first, apart), (apart, first), (first, plain), (plain, apart)):
        assert not here.pings(there.address, 2)
    gateway = world.face('demo', 'GET', f'routers/{router}').json()['router']['external_gateway_info'][
        'external_fixed_ips'][0]['ip_address']
    run('ip', '-n', world.outer, 'route', 'add', '10.0.0.0/14', 'via', gateway)
    listener = overlays.subprocess.Popen(
        ['ip', 'netns', 'exec', world.outer, 'python3', '-c',
         'import socket\ns = socket.create_server(("", 7007))\nprint(1, flush=True)\n'
         'while 1:\n c, a = s.accept(); c.send(a[0].encode())'], stdout=overlays.subprocess.PIPE, text=True)
    listener.stdout.readline()
    try:
        seen = [overlays.connects(guest.space, '172.24.4.1', 7007) for guest in guests]
    finally:
        listener.kill()
    assert seen == [first.address, same.address, gateway, gateway]
    group = world.face('demo', 'GET', 'security-groups').json()['security_groups'][0]['id']
    answer = world.face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
        'security_group_id': group, 'direction': 'ingress', 'protocol': 'icmp'}})
    assert answer.status_code == 201, answer.text
    world.report()
    assert overlays.pings_from(world.outer, first.address) and not overlays.pings_from(world.outer, apart.address, 2)
