"""Routers on each host with guests of their networks; what goes out passes the host that has the way out."""
import json

import pytest

from nova.db.networks import networks
from nova.db.networks import routers as db_routers
from nova.db.tables import network as t
from nova.network import manager
from nova.network.linux import namespaces
from nova.tests import long_runs
from nova.tests.support import network_overlay as overlay

pytestmark = overlay.pytestmark


@pytest.fixture(params=long_runs.rest([True, False]), ids=['agents', 'databases'])
def world(tmp_path, request):
    made = overlay.World(tmp_path, agents=request.param, hosts=3)
    yield made
    made.close()


def routed(world):
    """(a router to the outside, two networks with both kinds of addresses that it joins)"""
    external, (mine, theirs) = world.outside(), (
        world.network(cidr=f'{prefix}.0/24', allocation_pools=[{'start': f'{prefix}.2', 'end': f'{prefix}.90'}])
        for prefix in ('10.0.0', '10.1.0'))
    for ident, cidr in ((mine, 'fd00:7::/64'), (theirs, 'fd00:8::/64')):
        world.make('demo', 'subnets', network_id=ident, cidr=cidr, ip_version=6, ipv6_ra_mode='slaac',
                   ipv6_address_mode='slaac')
    router = world.router(mine, external=external)
    for subnet in world.face('demo', 'GET', f'subnets?network_id={theirs}').json()['subnets']:
        world.put('demo', f'routers/{router}/add_router_interface', {'subnet_id': subnet['id']})
    with world.face.db.reader() as conn:
        assert db_routers.places(conn)[router] == 'host1'
    return router, external, mine, theirs


def forwarded(world, router):
    """How many packets the router has led since it was last asked, on the host that has it."""
    space = f'{world.hosts[0].conf.network.bridge}-r-{router}'
    text = overlay.run('ip', 'netns', 'exec', space, 'nft', '-j', 'list', 'table', 'inet', 'probe', check=False)
    overlay.run('ip', 'netns', 'exec', space, 'nft', '-f', '-', stdin=(
        'table inet probe\ndelete table inet probe\ntable inet probe { chain forward {\n'
        ' type filter hook forward priority -50;\n counter\n }\n}\n'))
    return sum(part['counter']['packets'] for each in json.loads(text or '{"nftables": []}')['nftables']
               for part in each.get('rule', {}).get('expr', ()) if 'counter' in part)


def six(guest):
    """Its IPv6 address, once it has made it."""
    return overlay.wait_for(lambda: [entry['local'] for link in json.loads(
        guest('ip', '-json', '-6', 'address', 'show', 'dev', 'eth0')) for entry in link['addr_info']
        if entry['scope'] == 'global' and not entry.get('tentative')], 1)[0]


def test_between_its_networks_a_router_is_on_the_hosts_of_the_guests(world):
    router, external, mine, theirs = routed(world)
    first, second, near = world.boot(1, mine, 'a'), world.boot(2, theirs, 'b'), world.boot(1, theirs, 'c')
    for guest in (first, second, near):
        guest.dhcp()
    world.report()
    sixth = [six(guest) for guest in (first, second)]
    forwarded(world, router)
    listener = second.listens(8080)
    try:
        assert first.pings(second.address) and second.pings(first.address) and first.pings(near.address)
        assert overlay.connects(first.space, second.address, 8080) == first.address
        assert first.pings(sixth[1]) and second.pings(sixth[0])
        assert first.pings('10.1.0.1') and second.pings('10.0.0.1'), 'the router itself'
        assert forwarded(world, router) == 0
        # what goes out, and what the outside asks for
        assert first.pings('172.24.4.1') and second.pings('172.24.4.1')
        assert forwarded(world, router) >= 8
        group = world.face('demo', 'GET', 'security-groups').json()['security_groups'][0]['id']
        world.face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
            'security_group_id': group, 'direction': 'ingress', 'remote_ip_prefix': '172.24.4.0/24'}})
        floating = world.make('demo', 'floatingips', floating_network_id=external,
                              port_id=second.port)['floating_ip_address']
        world.report()
        assert overlay.pings_from(world.outer, floating, 20) and first.pings(floating, 20)    # agents follow beside us
        # the host of the router dies
        for wire in ('tun1', 'ext1'):
            overlay.run('ip', '-n', world.outer, 'link', 'set', wire, 'down')
        assert not first.pings('172.24.4.1', 2)
        for guest in (first, second):
            guest('ip', 'neighbour', 'flush', 'all')
        assert first.pings(second.address) and second.pings(first.address) and first.pings(sixth[1])
        assert overlay.connects(near.space, second.address, 8080) == near.address
        with world.face.db.writer() as conn:
            rows = networks.many(conn, t.hosts, ['host1'], 'host')
            conn.execute(t.hosts.update().where(t.hosts.c.host == 'host1').values(
                last_seen_at=rows[0]['last_seen_at'] - manager.datetime.timedelta(seconds=20)))
        dead, *world.hosts = world.hosts
        world.report()
        world.report()
        world.hosts.append(dead)
        assert first.pings('172.24.4.1', 8) and second.pings('172.24.4.1', 8)
        assert overlay.pings_from(world.outer, floating, 8) and first.pings(second.address)
    finally:
        listener.kill()
        listener.wait()
        listener.stdout.close()


@long_runs.only
def test_distributed_router_enforces_the_same_rules_as_a_central_gateway(tmp_path):
    world = overlay.World(tmp_path, hosts=3)
    try:
        router, _external, mine, theirs = routed(world)
        first, second = world.boot(1, mine, 'a'), world.boot(2, theirs, 'b')
        for guest in (first, second):
            guest.dhcp()
        world.report()
        assert first.pings(second.address)
        # of three hosts that have the address one answers
        found = first('busybox', 'arping', '-c', '1', '-w', '2', '-I', 'eth0', '10.0.0.1', check=False)
        assert 'Received 1 response' in found
        # an address that a guest took by itself, as its owner allowed: the way to it is over the gateway, which asks
        world.put('demo', f'ports/{second.port}', {'port': {'allowed_address_pairs': [{'ip_address': '10.1.0.99'}]}})
        second('ip', 'address', 'add', '10.1.0.99/24', 'dev', 'eth0')
        world.report()
        assert first.pings('10.1.0.99')
        # another one's it may not take
        first('ip', 'address', 'add', '10.0.0.98/24', 'dev', 'eth0')
        assert not first('ping', '-I', '10.0.0.98', '-c', '1', '-W', '1', second.address, check=False)
        # who is in no group of its own is not let in
        world.put('demo', f'ports/{second.port}', {'port': {'security_groups': []}})
        world.report()
        assert not first.pings(second.address, 2)
        # when the guests are gone, so are the parts of the router
        for guest in (first, second):
            guest.host.client.deallocate_for_instance(world.face.context, instance_uuid=guest.instance.uuid,
                                                      host=guest.host.name)
        world.report()
        assert [host.name for host in world.hosts
                if namespaces.managed(f'{host.conf.network.bridge}-r-')] == ['host1']
    finally:
        world.close()


@long_runs.only
def test_central_router_can_be_selected(tmp_path):
    world = overlay.World(tmp_path, hosts=3)
    try:
        for host in world.hosts:
            host.conf.set_override('routing', 'central', group='network')
        router, _external, mine, theirs = routed(world)
        first, second = world.boot(1, mine, 'a'), world.boot(2, theirs, 'b')
        for guest in (first, second):
            guest.dhcp()
        forwarded(world, router)
        assert first.pings(second.address)
        assert forwarded(world, router) >= 4
        assert not namespaces.managed(f'{world.hosts[1].conf.network.bridge}-r-')
    finally:
        world.close()
