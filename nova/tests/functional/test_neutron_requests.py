"""Ports that request bandwidth or a packet rate, and routed networks: where servers go, and what they hold there."""
import uuid

import pytest

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova.network.neutron import api
from nova.network.neutron import manager
from nova.network.neutron import requests
from nova.tests import neutron_service
from nova.tests import placement_service
from nova.tests.support import waiting
from nova.tests.functional import cloud as clouds
from nova.tests.support import neutron as test_neutron

ALICE, SERVER, OTHER, request, server, user = (
    test_neutron.ALICE, test_neutron.SERVER, test_neutron.OTHER, test_neutron.request, test_neutron.server,
    test_neutron.user)
EGRESS, INGRESS = 'NET_BW_EGR_KILOBIT_PER_SEC', 'NET_BW_IGR_KILOBIT_PER_SEC'
PACKETS = 'NET_PACKET_RATE_KILOPACKET_PER_SEC'
BANDWIDTH, RATE = (str(uuid.uuid4()) for _ in range(2))
TRAITS = ['CUSTOM_PHYSNET_PHYSNET0', 'CUSTOM_VNIC_TYPE_NORMAL']


def plain(kbps):
    """As the extension port-resource-request has it."""
    return {'required': TRAITS, 'resources': {EGRESS: kbps}}


def grouped(kbps, packets):
    """As port-resource-request-groups has it."""
    return {'request_groups': [{'id': BANDWIDTH, 'required': TRAITS, 'resources': {EGRESS: kbps, INGRESS: kbps}},
                               {'id': RATE, 'required': ['CUSTOM_VNIC_TYPE_NORMAL'], 'resources': {PACKETS: packets}}],
            'same_subtree': [BANDWIDTH, RATE]}


def below(placement, host, kbps, packets):
    """What the agent of a host reports: its own provider has the packet rate, below it that of a bridge bandwidth."""
    root = next(ident for ident, each in placement.providers.items() if each['name'] == host)
    agent, bridge = str(uuid.uuid4()), str(uuid.uuid4())
    placement.provider(agent, f'{host}:{agent}', root, {PACKETS: packets}, ['CUSTOM_VNIC_TYPE_NORMAL'])
    placement.provider(bridge, f'{host}:{bridge}', agent, {EGRESS: kbps, INGRESS: kbps}, TRAITS)
    return bridge, agent


class Rig(test_neutron.Rig):
    """As that of test_neutron, with a Placement service."""

    def __init__(self, neutron, address, placement, place):
        conf = nova_conf.new(
            files=[], network__backend='neutron', neutron__endpoint_override=address, neutron__auth_type='none',
            placement__endpoint_override=place, placement__auth_type='none')
        self.neutron, self.placement, self.api = neutron, placement, api.API(conf)
        self.hosts, self.ctx = {}, context.admin_context()
        self.manager = manager.NeutronManager(conf, self.hosts.get, nodes=lambda: [
            (host, f'{host}.example', str(uuid.uuid5(uuid.NAMESPACE_DNS, host))) for host in ('host1', 'host2')])
        self.manager.begin()
        self.network = neutron.network(ALICE)

    def port(self, wanted):
        return self.neutron.port(ALICE, self.network, resource_request=wanted)

    def profile(self, port):
        return self.neutron.rows['ports'][port]['binding:profile']


@pytest.fixture
def rig():
    neutron, placement = neutron_service.Neutron(['host1', 'host2']), placement_service.Placement()
    neutron.aliases += ['port-resource-request', 'port-resource-request-groups']
    with neutron_service.listening(neutron) as address, neutron_service.listening(placement) as place:
        yield Rig(neutron, address, placement, place)


def test_hosts_have_providers_below_which_neutron_makes_its_own(rig):
    assert sorted(each['name'] for each in rig.placement.providers.values()) == ['host1.example', 'host2.example']
    before = dict(rig.placement.providers)
    rig.manager.begin()
    assert rig.placement.providers == before and rig.placement.versions == {'placement 1.36'}


def test_a_port_of_one_group_is_claimed_and_given_back(rig):
    bridge, _rate = below(rig.placement, 'host1.example', 1000, 0)
    port = rig.port(plain(600))
    rig.api.validate_networks(user(), [request(port_id=port)])
    with pytest.raises(exception.NetworkRequestInvalid, match='2.72'):
        rig.api.validate_networks(user(), [request(port_id=port)], guarantees=False)
    vif, = rig.allocate([request(port_id=port)])
    assert rig.profile(port)['allocation'] == bridge and rig.placement.free(bridge, EGRESS) == 400
    assert rig.allocate([request(port_id=port)]) == [vif] and len(rig.placement.allocations) == 1
    second = rig.port(plain(600))
    with pytest.raises(exception.PortBindingFailed, match='lacks the bandwidth'):
        rig.allocate([request(port_id=second)], OTHER)
    assert len(rig.placement.allocations) == 1 and rig.neutron.rows['ports'][second]['device_id'] == ''
    rig.give_back()
    assert not rig.placement.allocations and 'allocation' not in rig.profile(port)
    rig.allocate([request(port_id=second)], OTHER)


def test_groups_are_of_one_subtree(rig):
    """Bandwidth of one agent and packets of another one of the host do not serve one port."""
    _bridge, rate = below(rig.placement, 'host1.example', 0, 50)
    bridge, _rate = below(rig.placement, 'host1.example', 1000, 0)
    port = rig.port(grouped(100, 5))
    with pytest.raises(exception.PortBindingFailed):
        rig.allocate([request(port_id=port)])
    rig.placement.providers[bridge]['parent'] = rate
    rig.allocate([request(port_id=port)])
    assert rig.profile(port)['allocation'] == {BANDWIDTH: bridge, RATE: rate}
    assert (rig.placement.free(bridge, INGRESS), rig.placement.free(rate, PACKETS)) == (900, 45)


def test_a_faster_claim_is_met(rig):
    """Between the look and the claim another server takes a bridge: the other bridge is claimed."""
    first, _rate = below(rig.placement, 'host1.example', 1000, 0)
    second, _rate = below(rig.placement, 'host1.example', 1000, 0)

    def faster():
        rig.placement.before_claim = lambda: None
        rig.placement.allocations['other'] = {first: {'resources': {EGRESS: 1000}}}
    rig.placement.before_claim = faster
    port = rig.port(plain(600))
    rig.allocate([request(port_id=port)])
    assert rig.profile(port)['allocation'] == second


def test_moves_take_their_claim_along(rig):
    one, two = (below(rig.placement, f'{host}.example', 1000, 0)[0] for host in ('host1', 'host2'))
    port = rig.port(plain(600))
    rig.allocate([request(port_id=port)])
    # a live migration holds both ends, and gives one back
    rig.manager.prepare_for_instance(rig.ctx, server(), 'host2')
    assert (rig.placement.free(one, EGRESS), rig.placement.free(two, EGRESS)) == (400, 400)
    rig.manager.unprepare_for_instance(rig.ctx, SERVER, 'host2')
    assert (rig.placement.free(one, EGRESS), rig.placement.free(two, EGRESS)) == (400, 1000)
    assert rig.profile(port)['allocation'] == one
    rig.manager.prepare_for_instance(rig.ctx, server(), 'host2')
    rig.manager.setup_for_instance(rig.ctx, server(), 'host2')
    assert (rig.placement.free(one, EGRESS), rig.placement.free(two, EGRESS)) == (1000, 400)
    assert rig.profile(port)['allocation'] == two
    # another move: without a waiting binding
    rig.manager.setup_for_instance(rig.ctx, server(), 'host1')
    assert (rig.placement.free(one, EGRESS), rig.placement.free(two, EGRESS)) == (400, 1000)
    assert rig.profile(port)['allocation'] == one
    # a destination that has no more of it is refused, and nothing changes
    rig.placement.allocations['other'] = {two: {'resources': {EGRESS: 900}}}
    for refused in (lambda: rig.manager.prepare_for_instance(rig.ctx, server(), 'host2'),
                    lambda: rig.manager.setup_for_instance(rig.ctx, server(), 'host2')):
        with pytest.raises(exception.PortBindingFailed):
            refused()
    assert rig.neutron.rows['ports'][port]['binding:host_id'] == 'host1' and rig.placement.free(one, EGRESS) == 400
    # shelved, and back
    rig.manager.unbind_ports(rig.ctx, SERVER, 'host1')
    assert rig.placement.free(one, EGRESS) == 1000 and 'allocation' not in rig.profile(port)
    rig.manager.setup_for_instance(rig.ctx, server(), 'host1')
    assert rig.placement.free(one, EGRESS) == 400
    # evacuated during a live migration that had a claim at its destination, then deleted
    del rig.placement.allocations['other']
    rig.manager.prepare_for_instance(rig.ctx, server(), 'host2')
    rig.give_back()
    assert not rig.placement.allocations


def test_a_claim_that_is_not_given_back_costs_no_other(rig, monkeypatch):
    """The service goes away when a port has moved: what it has claimed at its new host stays its own."""
    one, two = (below(rig.placement, f'{host}.example', 1000, 0)[0] for host in ('host1', 'host2'))
    port = rig.port(plain(600))
    rig.allocate([request(port_id=port)])
    answer = rig.placement._answer
    monkeypatch.setattr(rig.placement, '_answer', lambda method, *more: (503, {}) if method == 'DELETE' else answer(
        method, *more))
    with pytest.raises(exception.Unavailable):
        rig.manager.setup_for_instance(rig.ctx, server(), 'host2')
    assert rig.neutron.rows['ports'][port]['binding:host_id'] == 'host2'
    assert (rig.placement.free(one, EGRESS), rig.placement.free(two, EGRESS)) == (400, 400)


def test_attached_port_claims_and_releases_resources(rig):
    bridge, _rate = below(rig.placement, 'host1.example', 1000, 0)
    port = rig.port(plain(600))
    (asked,) = rig.api.check_attach(user(), ALICE, {rig.network}, request(port_id=port)).requests
    rig.manager.attach_port(rig.ctx, server(), asked, 'req-1', 'host1')
    assert rig.placement.free(bridge, EGRESS) == 400 and rig.profile(port)['allocation'] == bridge
    del rig.neutron.rows['ports'][port]                       # by its owner
    rig.manager.detach_port(rig.ctx, SERVER, port, None, 'host1')
    assert not rig.placement.allocations


def test_a_binding_that_fails_gives_its_claim_back(rig):
    below(rig.placement, 'host1.example', 1000, 0)
    rig.neutron.hosts.discard('host1')
    port = rig.port(plain(600))
    with pytest.raises(exception.PortBindingFailed, match='binding_failed'):
        rig.allocate([request(port_id=port)])
    rig.give_back(host='host1')
    assert not rig.placement.allocations


def test_a_network_whose_ports_request_something_is_refused(rig, monkeypatch):
    """The port would be made when the host is chosen already."""
    insert = rig.neutron._insert
    monkeypatch.setattr(rig.neutron, '_insert', lambda kind, values: insert(
        kind, {**values, **({'resource_request': plain(1)} if kind == 'ports' else {})}))
    with pytest.raises(exception.NetworkRequestInvalid, match='Create a port first'):
        rig.allocate([request(network_id=rig.network)])
    assert not rig.neutron.ports()


def test_a_port_whose_policy_went_away_is_no_request():
    assert requests.groups({'resource_request': None}) == requests.groups({}) == []
    assert requests.groups({'resource_request': {'request_groups': [], 'same_subtree': []}}) == []


# ---- a whole cloud


@pytest.fixture
def cloud(tmp_path):
    neutron, placement = neutron_service.Neutron(['host1', 'host2', 'host3']), placement_service.Placement()
    neutron.aliases += ['port-resource-request', 'segment']
    with neutron_service.listening(neutron) as address, neutron_service.listening(placement) as place, clouds.running(
            tmp_path / 'state', hosts=['host1', 'host2', 'host3'], network__backend='neutron',
            neutron__endpoint_override=address, neutron__auth_type='none', placement__endpoint_override=place,
            placement__auth_type='none') as made:
        made.neutron, made.placement = neutron, placement
        made.demo, made.boss = made.client(version='2.72'), made.admin('2.74')
        known = {made.demo.token: made.demo.project_id, made.boss.token: None}
        neutron.project_of = lambda token: known.get(token, token)
        made.network = neutron.network(made.demo.project_id)
        made.image = made.demo.upload_image()
        waiting.wait_for(lambda: len(placement.providers) == 3, 60, 'the providers of hosts')
        yield made


def test_servers_go_where_their_ports_can_be(cloud):
    """Bandwidth on host2 for one server, and host3 alone in the segment of a network."""
    bridge, _rate = below(cloud.placement, 'host2', 1000, 0)
    demo, placement, neutron = cloud.demo, cloud.placement, cloud.neutron
    ports = [neutron.port(demo.project_id, cloud.network, resource_request=plain(600)) for _ in range(2)]
    body = {'server': {'name': 's', 'imageRef': cloud.image, 'flavorRef': '42', 'networks': [{'port': ports[0]}]}}
    assert demo.post('/servers', body, version='2.71').status_code == 400
    first = demo.boot(cloud.image, networks=[{'port': ports[0]}])['id']
    demo.wait_for(first)
    assert neutron.rows['ports'][ports[0]]['binding:host_id'] == 'host2' and placement.free(bridge, EGRESS) == 400
    second = demo.boot(cloud.image, networks=[{'port': ports[1]}])['id']
    demo.wait_for(second, 'ERROR')
    assert 'No valid host' in demo.get(f'/servers/{second}').json()['server']['fault']['message']
    # no other host has it: the server cannot be moved
    assert cloud.boss.post(f'/servers/{first}/action', {'migrate': None}).status_code in (202, 400)
    cloud.boss.wait_for(first)
    assert neutron.rows['ports'][ports[0]]['binding:host_id'] == 'host2'
    demo.delete(f'/servers/{first}')
    demo.wait_for(first, 'DELETED')
    assert not placement.allocations
    # its owner took the port away, whose claim stayed for ever
    lost = demo.boot(cloud.image, networks=[{'port': ports[0]}, {'uuid': cloud.network}])['id']
    demo.wait_for(lost)
    neutron.rows['ports'][ports[0]].update(device_id='', device_owner='')
    placement.allocations['other'] = {bridge: {'resources': {EGRESS: 1}}}
    assert placement.free(bridge, EGRESS) == 399
    demo.delete(f'/servers/{lost}')
    demo.wait_for(lost, 'DELETED')
    assert list(placement.allocations) == ['other'] and placement.free(bridge, EGRESS) == 999
    del placement.allocations['other']
    # a routed network: Neutron puts hosts into the aggregate by the compute API, and no host was found for it
    segment, boss = str(uuid.uuid4()), cloud.boss
    made = boss.post('/os-aggregates', {'aggregate': {'name': f'Neutron segment id {segment}'}}).json()['aggregate']
    aggregate, act = made['uuid'], f'/os-aggregates/{made["id"]}/action'
    assert boss.post(act, {'add_host': {'host': 'host3'}}).status_code == 200
    routed = neutron.network(demo.project_id, '10.6.0.0/24')
    for row in neutron.rows['subnets'].values():
        if row['network_id'] == routed:
            row['segment_id'] = segment
    placement.provider(segment, f'Neutron segment id {segment}', aggregates=[aggregate])
    deferred = neutron.port(demo.project_id, routed, ip_allocation='deferred')
    neutron.rows['ports'][deferred]['fixed_ips'] = []

    def host_of(*networks):
        made = demo.boot(cloud.image, networks=networks)['id']
        demo.wait_for(made)
        found, = (port['binding:host_id'] for port in neutron.ports(device_id=made))
        demo.delete(f'/servers/{made}')
        demo.wait_for(made, 'DELETED')
        return found
    given = neutron.port(demo.project_id, routed)
    assert [host_of({'uuid': routed}), host_of({'port': given}), host_of({'port': deferred})] == ['host3'] * 3
    assert boss.post(act, {'remove_host': {'host': 'host3'}}).status_code == 200
    next(each for each in placement.providers.values() if each['name'] == 'host1')['aggregates'].append(aggregate)
    assert host_of({'uuid': routed}) == 'host1'                  # who says it in the Placement service is heard as well
