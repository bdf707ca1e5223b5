"""Several hosts' network services over the real in-process bus: who is told, what is placed where, and what leaks."""
import random
import uuid

import pytest
import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.db.networks import hosts as db_hosts
from nova.db.networks import routers as db_routers
from nova.db.tables import network as t
from nova.network import fake
from nova.network import gateways
from nova.network import interface
from nova.network import manager
from nova.rpc import bus
from nova.tests.support import waiting
from nova.tests.support import network_api as test_network_api
from nova.tests.support import network_manager as unit

HOSTS = 20


class Seen(fake.FakeDriver):
    """A driver that keeps what it was last given."""

    forwards = True
    state = None

    def refresh(self, load):
        self.state = load()
        return []


@pytest.fixture
def face(tmp_path):
    rig = test_network_api.Face(tmp_path)
    yield rig
    rig.close()


@pytest.fixture
def fleet(face, tmp_path):
    """{host: manager} of HOSTS hosts that serve their queues; the face tells them."""
    real = bus.Bus(face.conf, f'nova-inprocess:///{tmp_path.name}')
    managers, servers = {}, []
    for number in range(HOSTS):
        name = f'host{number}'
        client = real.client(interface.INTERFACE)
        managers[name] = manager.NetworkManager(face.conf, face.db, name, Seen(face.conf), others=client)
        servers.append(real.serve(interface.INTERFACE, managers[name], name))
        managers[name].start()
        servers[-1].start()
    for each in managers.values():
        each.report()
    face.app.api._deps.network_rpc = real.client(interface.INTERFACE)
    yield managers
    for server in servers:
        server.stop()


def boot(face, managers, host, network=None):
    instance = unit.make_instance()
    vif, = managers[host].allocate_for_instance(
        face.context, instance=instance, requested_networks=network and [{'network_id': network}],
        security_groups=None, host=host)
    return instance, vif


def test_a_change_of_a_group_reaches_every_host_at_once(face, fleet):
    """Only one of them was told; the others looked once a minute."""
    for host in fleet:
        boot(face, fleet, host)
    group = face('demo', 'GET', 'security-groups').json()['security_groups'][0]['id']
    rule = face('demo', 'POST', 'security-group-rules', {'security_group_rule': {
        'security_group_id': group, 'direction': 'ingress', 'protocol': 'tcp'}}).json()['security_group_rule']['id']

    def everywhere():
        return all(any(row['id'] == rule for row in each.driver.state.rules.get(group, ())) for each in fleet.values())
    waiting.wait_for(everywhere, 30, 'the rule on every host', 0.01)         # long before they look again


def test_a_guest_on_another_host_is_known_to_all(face, fleet):
    network = face('demo', 'POST', 'networks', {'network': {}}).json()['network']['id']
    face('demo', 'POST', 'subnets', {'subnet': {'network_id': network, 'cidr': '10.0.0.0/24', 'ip_version': 4}})
    boot(face, fleet, 'host3', network)
    instance, vif = boot(face, fleet, 'host7', network)

    def remotes():
        return [mac for overlay in fleet['host3'].driver.state.overlays for mac, _host in overlay.remotes]
    waiting.wait_for(lambda: remotes() == [vif['address']], 30, 'the guest of the other host')
    fleet['host7'].deallocate_for_instance(face.context, instance_uuid=instance.uuid, host=None)
    waiting.wait_for(lambda: remotes() == [], 30, 'its end')


def test_every_host_expects_a_guest_that_moves(face, fleet):
    """Other hosts sent to the destination, or to neither of both, from the begin of a migration on."""
    network = face('demo', 'POST', 'networks', {'network': {}}).json()['network']['id']
    face('demo', 'POST', 'subnets', {'subnet': {'network_id': network, 'cidr': '10.0.0.0/24', 'ip_version': 4}})
    boot(face, fleet, 'host3', network)
    instance, vif = boot(face, fleet, 'host7', network)
    with face.db.reader() as conn:
        address = {row['host']: row['address'] for row in db_hosts.every(conn)}

    def known(host):
        """(host that has it, host that expects it, whether it arrives here)"""
        state, mac = fleet[host].driver.state, vif['address']
        return [(dict(each.remotes).get(mac), dict(each.migrating).get(mac)) for each in state.overlays
                if each.id == network], [port.incoming for port in state.ports if port.mac == mac]
    third, source, dest = 'host3', 'host7', 'host5'
    fleet[dest].prepare_for_instance(face.context, instance=instance, host=dest)
    waiting.wait_for(lambda: known(third) == ([(address[source], address[dest])], []), 30, 'a third host to expect it')
    waiting.wait_for(lambda: known(source) == ([(None, address[dest])], [False]), 30, 'its host to expect that it goes')
    assert known(dest) == ([(address[source], None)], [True])
    moves = {name: [port.migration for port in fleet[name].driver.state.ports if port.mac == vif['address']]
             for name in (source, dest)}
    assert [move[0] for move in moves[source] + moves[dest]] == [address[dest], address[source]]
    assert len({move[1] for move in moves[source] + moves[dest]}) == 1, 'one key for these two'
    assert not any(port.migration for port in fleet[third].driver.state.ports)
    fleet[dest].unprepare_for_instance(face.context, instance_uuid=instance.uuid, host=dest)
    waiting.wait_for(lambda: known(third) == ([(address[source], None)], []), 30, 'a third host to expect it no more')
    fleet[dest].prepare_for_instance(face.context, instance=instance, host=dest)
    fleet[dest].setup_for_instance(face.context, instance=instance, host=dest)
    waiting.wait_for(lambda: known(third) == ([(address[dest], None)], []), 30, 'a third host to follow it')
    waiting.wait_for(lambda: known(source) == ([], []), 30, 'its host to forget it')


def test_routers_are_spread_and_leave_a_silent_host(face, fleet):
    made = [face('demo', 'POST', 'routers', {'router': {}}).json()['router']['id'] for _ in range(10)]
    with face.db.reader() as conn:
        places = db_routers.places(conn)
    assert len(set(places.values())) == len(made) == 10
    gone = places[made[0]]
    with face.db.writer() as conn:
        row = next(row for row in db_hosts.every(conn) if row['host'] == gone)
        conn.execute(sa.update(t.hosts).where(t.hosts.c.host == gone).values(
            last_seen_at=row['last_seen_at'] - 2 * manager.datetime.timedelta(seconds=gateways.DOWN_S)))
    next(each for host, each in fleet.items() if host != gone).report()
    with face.db.reader() as conn:
        places = db_routers.places(conn)
    assert gone not in places.values() and '' not in places.values()


@pytest.mark.parametrize('seed', range(2))
def test_no_address_is_lost(face, seed):
    """Random operations, some of which fail: whatever is deleted at the end leaves no address, port or entry behind."""
    dice = random.Random(seed)
    face.manager.start()
    made = face('admin', 'POST', 'networks', {'network': {'name': 'out', 'router:external': True}}).json()
    made = made['network']['id']
    face('admin', 'POST', 'subnets', {'subnet': {'network_id': made, 'cidr': '172.24.4.0/28', 'enable_dhcp': False}})
    walk = Walk(face, dice, made)
    for _ in range(150):
        dice.choice(walk.STEPS)(walk)
    walk.end()
    with face.db.reader() as conn:
        for table in (t.ports, t.routers, t.floating_ips, t.router_interfaces, t.port_forwardings):
            assert conn.execute(sa.select(sa.func.count()).select_from(table)).scalar() == 0, table.name
        held = sa.select(t.addresses.c.address).where(t.addresses.c.port_id.is_not(None))
        assert conn.execute(held).all() == []


class Walk:
    """What users do, in any order."""

    def __init__(self, face, dice, outside):
        self.face, self.dice, self.outside, self.servers = face, dice, outside, []

    def ids(self, kind):
        return [row['id'] for row in self.face('demo', 'GET', kind).json()[kind] if row['project_id'] == 'p1']

    def any(self, kind):
        return self.dice.choice(self.ids(kind) or [str(uuid.uuid4())])

    def network(self):
        made = self.face('demo', 'POST', 'networks', {'network': {}}).json()['network']['id']
        self.face('demo', 'POST', 'subnets', {'subnet': {'network_id': made, 'cidr': '10.0.0.0/29', 'ip_version': 4}})

    def port(self):
        self.face('demo', 'POST', 'ports', {'port': {'network_id': self.any('networks')}})

    def ports(self):
        self.face('demo', 'POST', 'ports', {'ports': [{'network_id': self.any('networks')} for _ in range(3)]})

    def router(self):
        self.face('demo', 'POST', 'routers', {'router': {'external_gateway_info': {'network_id': self.outside}}})

    def interface(self):
        way = self.dice.choice(['add', 'remove'])
        self.face('demo', 'PUT', f"routers/{self.any('routers')}/{way}_router_interface",
                  {'subnet_id': self.any('subnets')})

    def floating(self):
        self.face('demo', 'POST', 'floatingips', {'floatingip': {
            'floating_network_id': self.outside, **self.dice.choice([{}, {'port_id': self.any('ports')}])}})

    def associate(self):
        self.face('demo', 'PUT', f"floatingips/{self.any('floatingips')}", {'floatingip': {
            'port_id': self.dice.choice([None, self.any('ports')])}})

    def forward(self):
        self.face('demo', 'POST', f"floatingips/{self.any('floatingips')}/port_forwardings", {'port_forwarding': {
            'protocol': 'tcp', 'external_port': self.dice.randrange(1, 5), 'internal_port': 1,
            'internal_port_id': self.any('ports')}})

    def server(self):
        instance = unit.make_instance()
        try:
            self.face.allocate(instance, requested=[{'network_id': self.any('networks')}])
        except exception.NovaException:
            return
        self.servers.append(instance)

    def unserve(self):
        if self.servers:
            self.face.deallocate(self.servers.pop(self.dice.randrange(len(self.servers))))

    def drop(self):
        kind = self.dice.choice(['ports', 'routers', 'floatingips', 'networks'])
        self.face('demo', 'DELETE', f'{kind}/{self.any(kind)}')

    STEPS = (network, port, port, ports, router, interface, interface, floating, associate, associate, forward, server,
             server, unserve, drop, drop)

    def end(self):
        """Delete everything."""
        while self.servers:
            self.unserve()
        for kind in ('floatingips', 'routers', 'ports', 'networks'):
            for ident in self.ids(kind):
                if kind == 'routers':
                    for port in self.face('demo', 'GET', f'ports?device_id={ident}').json()['ports']:
                        for entry in port['fixed_ips']:
                            self.face('demo', 'PUT', f'routers/{ident}/remove_router_interface',
                                      {'subnet_id': entry['subnet_id']})
                answer = self.face('demo', 'DELETE', f'{kind}/{ident}')
                assert answer.status_code in (204, 409), answer.text
                if answer.status_code == 409:
                    assert kind == 'ports' and 'network:dhcp' in answer.text


class Silent(Seen):
    forwards = False


def test_no_router_is_on_a_host_that_forwards_no_packets(face):
    """One router in three of a fleet was ACTIVE on the controller, whose driver is the fake one."""
    def host(name, driver):
        return manager.NetworkManager(face.conf, face.db, name, driver(face.conf))

    def routers(query=''):
        return {each['id']: (each['status'], each['status_reason'])
                for each in face('demo', 'GET', f'routers{query}').json()['routers']}

    def places():
        with face.db.reader() as conn:
            return set(db_routers.places(conn).values())
    controller = face.manager
    made = [face('demo', 'POST', 'routers', {'router': {}}).json()['router']['id'] for _ in range(3)]
    controller.report()
    assert places() == {controller.host} and set(routers().values()) == {('ACTIVE', None)}, 'a cloud of one host'
    real = host('real', Seen)
    real.report()
    controller.report()
    made += [face('demo', 'POST', 'routers', {'router': {}}).json()['router']['id'] for _ in range(3)]
    controller.report()
    real.report()
    assert places() == {'real'} and set(routers().values()) == {('ACTIVE', None)}
    assert set(routers('?status=ACTIVE')) == set(made) and routers('?status=DOWN') == {}
    with face.db.writer() as conn:
        conn.execute(sa.update(t.hosts).where(t.hosts.c.host == 'real').values(
            last_seen_at=utils.utcnow() - 2 * manager.datetime.timedelta(seconds=gateways.DOWN_S)))
    controller.report()
    assert places() == {'real'}, 'the controller takes none from a host that is silent'
    for ident, (status, reason) in routers('?status=DOWN').items():
        assert status == 'DOWN' and reason.startswith(f'Router {ident} is not active: the host of the router is down')
    assert len(routers('?status=DOWN')) == 6 and routers('?status=ACTIVE') == {}
    agents = face('admin', 'GET', f'routers/{made[0]}/l3-agents').json()['agents']
    assert [(each['host'], each['alive']) for each in agents] == [('real', False)]
    real.report()
    assert set(routers().values()) == {('ACTIVE', None)}


def test_a_router_without_a_host_is_down(face):
    face.conf.set_override('routers', False, group='network')
    face.manager.report()
    router = face('demo', 'POST', 'routers', {'router': {}}).json()['router']
    assert router['status'] == 'DOWN' and 'no host of this cloud forwards packets of routers' in router['status_reason']


def agents(face, query=''):
    return {each['host']: each for each in face('admin', 'GET', f'agents{query}').json()['agents']}


def of_host(face, name):
    found = face('admin', 'GET', f"agents/{agents(face)[name]['id']}/l3-routers")
    return {each['id'] for each in found.json()['routers']}


def set_up(face, name, up):
    answer = face('admin', 'PUT', f"agents/{agents(face)[name]['id']}", {'agent': {'admin_state_up': up}})
    assert answer.status_code == 200 and answer.json()['agent']['admin_state_up'] is up


def report(fleet):
    for each in fleet.values():
        each.report()


def test_a_host_that_is_set_down_has_no_routers_while_there_are_others(face, fleet):
    made = {face('demo', 'POST', 'routers', {'router': {}}).json()['router']['id'] for _ in range(4)}
    assert len(of_host(face, 'host0')) == 1
    assert face('admin', 'GET', 'agents?marker=x').status_code == 400
    set_up(face, 'host0', False)
    assert [*agents(face, '?admin_state_up=False')] == ['host0'] and 'host0' not in agents(face, '?admin_state_up=true')
    report(fleet)
    assert of_host(face, 'host0') == set()
    assert {face('demo', 'GET', f'routers/{ident}').json()['router']['status'] for ident in made} == {'ACTIVE'}
    fresh = face('demo', 'POST', 'routers', {'router': {}}).json()['router']['id']
    report(fleet)
    assert fresh not in of_host(face, 'host0')
    with face.db.writer() as conn:
        conn.execute(sa.update(t.hosts).values(admin_state_up=False))
    report(fleet)
    assert not of_host(face, 'host0') and sum(len(of_host(face, name)) for name in fleet) == 5, 'there is nowhere else'
    set_up(face, 'host0', True)
    report(fleet)
    assert len(of_host(face, 'host0')) == 5


def test_an_administrator_takes_a_router_and_gives_it_to_another_host(face, fleet):
    ident = face('demo', 'POST', 'routers', {'router': {}}).json()['router']['id']
    here = next(name for name in fleet if of_host(face, name))
    there = next(name for name in fleet if name != here)
    paths = {name: f"agents/{each['id']}/l3-routers" for name, each in agents(face).items()}
    assert face('admin', 'POST', paths[here], {'router_id': ident}).status_code == 201, 'it is there already'
    refused = face('admin', 'POST', paths[there], {'router_id': ident})
    assert (refused.status_code, refused.json()['NeutronError']['type']) == (409, 'RouterHostedByL3Agent')
    refused = face('admin', 'DELETE', f'{paths[there]}/{ident}')
    assert (refused.status_code, refused.json()['NeutronError']['type']) == (409, 'RouterNotHostedByL3Agent')
    assert face('admin', 'DELETE', f'{paths[here]}/{ident}').status_code == 204
    report(fleet)
    assert not any(of_host(face, name) for name in fleet)
    router = face('demo', 'GET', f'routers/{ident}').json()['router']
    assert router['status'] == 'DOWN' and 'An administrator has removed router' in router['status_reason']
    set_up(face, there, False)
    refused = face('admin', 'POST', paths[there], {'router_id': ident})
    assert (refused.status_code, refused.json()['NeutronError']['type']) == (409, 'InvalidL3Agent')
    set_up(face, there, True)
    fleet[there].report()
    assert face('admin', 'POST', paths[there], {'router_id': ident}).status_code == 201
    assert of_host(face, there) == {ident}
    for method, path, body in (('GET', paths[here], None), ('POST', paths[here], {'router_id': ident}),
                               ('DELETE', f'{paths[here]}/{ident}', None),
                               ('PUT', paths[here].rpartition('/')[0], {'agent': {}})):
        assert face('demo', method, path, body).status_code == 403
