"""Guaranteed bandwidth and packet rates: rules, hosts that state what they can give, claims, and placement."""
import contextlib

import pytest

from nova import exception
from nova.db.networks import guarantees
from nova.db.networks import hosts
from nova.db.networks import ports
from nova.network import guarantees as stated_guarantees
from nova.objects import guarantees as names
from nova.tests.functional import cloud as functional_cloud
from nova.tests.support import network_api as test_network_api
from nova.tests.support import network_manager as unit
from nova.tests.support.network_routers import ok
from nova.tests.support.network_routers import outside
from nova.tests.support.network_routers import router
from nova.tests.support import waiting

EGRESS, INGRESS = 'NET_BW_EGR_KILOBIT_PER_SEC', 'NET_BW_IGR_KILOBIT_PER_SEC'
PACKETS = 'NET_PACKET_RATE_KILOPACKET_PER_SEC'
TUNNELLED = names.TUNNELLED


@pytest.fixture
def face(tmp_path):
    rig = test_network_api.Face(tmp_path, network__guaranteed_bandwidth=[f'{TUNNELLED}:1000:2000'],
                                network__guaranteed_packet_rate='50')
    rig.manager.report()
    yield rig
    rig.close()


def state(rig, host, egress):
    """A report of another host."""
    with rig.db.writer() as conn:
        hosts.seen(conn, host, '192.0.2.9', False, guarantees={EGRESS: {TUNNELLED: egress}})


def policy(rig, **minimums):
    """A shared policy with rules {type: body}."""
    ident = ok(rig('admin', 'POST', 'qos/policies', {'policy': {'shared': True}}))['id']
    for kind, body in minimums.items():
        rule(rig, ident, kind, **body)
    return ident


def rule(rig, ident, kind='minimum_bandwidth', **body):
    return ok(rig('admin', 'POST', f'qos/policies/{ident}/{kind}_rules', {f'{kind}_rule': body}))


def port(rig, ident, network=None):
    return ok(rig('demo', 'POST', 'ports', {'port': {
        'network_id': network or rig.network_id, 'qos_policy_id': ident}}))['id']


def shown(answer):
    return ok(answer, 200)


def with_port(ident):
    return [{'port_id': ident, 'network_id': None, 'fixed_ip': None, 'tag': None}]


def test_options_state_what_a_host_guarantees(face):
    assert stated_guarantees.stated(face.conf) == {
        EGRESS: {TUNNELLED: 1000}, INGRESS: {TUNNELLED: 2000}, PACKETS: {'': 50}}
    with face.db.reader() as conn:
        assert hosts.every(conn)[0]['guarantees'] == stated_guarantees.stated(face.conf)
    face.conf.set_override('guaranteed_packet_rate', '30:40', 'network')
    assert {name: amounts[''] for name, amounts in stated_guarantees.stated(face.conf).items() if '' in amounts} == {
        'NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC': 30, 'NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC': 40}
    for name, bad in (('guaranteed_bandwidth', ['x:1']), ('guaranteed_bandwidth', [':1:2']),
                      ('guaranteed_bandwidth', ['x:1:-2']), ('guaranteed_packet_rate', '1:2:3'),
                      ('guaranteed_packet_rate', 'x')):
        with pytest.raises(ValueError):
            face.conf.set_override(name, bad, 'network')


def test_agents_report_what_their_hosts_guarantee(face):
    def report(**values):
        face.methods['report_host'](face.context, host='agent1', address='192.0.2.1', routers=False, version=2,
                                    **values)
    report(guarantees={EGRESS: {'physnet1': 5}})
    with face.db.reader() as conn:
        assert {row['host']: row['guarantees'] for row in hosts.every(conn)}['agent1'] == {EGRESS: {'physnet1': 5}}
    for bad in ({'VCPU': {'': 1}}, {EGRESS: {'physnet1': -1}}, {EGRESS: {'physnet1': '1'}}, [], {EGRESS: 1},
                {EGRESS: {str(number): 1 for number in range(65)}}, {EGRESS: {'a\nb': 1}}):
        with pytest.raises(exception.InvalidInput):
            report(guarantees=bad)
    report()
    with face.db.reader() as conn:
        assert not {row['host']: row['guarantees'] for row in hosts.every(conn)}['agent1']


def test_rules_that_contradict_each_other_are_refused(face):
    ident = policy(face, minimum_bandwidth={'min_kbps': 100})
    for kind, body, code in (
            ('minimum_bandwidth', {'min_kbps': 200}, 409), ('minimum_bandwidth', {'min_kbps': 0}, 400),
            ('minimum_bandwidth', {'min_kbps': 1, 'direction': 'any'}, 400), ('bandwidth_limit', {'max_kbps': 99}, 409),
            ('bandwidth_limit', {'max_kbps': 99, 'direction': 'ingress'}, 201),
            ('minimum_bandwidth', {'min_kbps': 100, 'direction': 'ingress'}, 409),
            ('minimum_packet_rate', {'min_kpps': 1, 'direction': 'any'}, 201),
            ('minimum_packet_rate', {'min_kpps': 1, 'direction': 'egress'}, 409)):
        answer = face('admin', 'POST', f'qos/policies/{ident}/{kind}_rules', {f'{kind}_rule': body})
        assert answer.status_code == code, (kind, body, answer.text)
    assert sorted(each['type'] for each in shown(face('demo', 'GET', f'qos/policies/{ident}'))['rules']) == [
        'bandwidth_limit', 'minimum_bandwidth', 'minimum_packet_rate']
    assert face('demo', 'POST', f'qos/policies/{ident}/minimum_bandwidth_rules', {
        'minimum_bandwidth_rule': {'min_kbps': 1}}).status_code == 403
    assert face('admin', 'DELETE', f'qos/policies/{ident}').status_code == 204


def test_only_administrators_see_what_a_port_requests(face):
    ident = policy(face, minimum_bandwidth={'min_kbps': 100}, minimum_packet_rate={'min_kpps': 3, 'direction': 'any'})
    made = port(face, ident)
    assert 'resource_request' not in shown(face('demo', 'GET', f'ports/{made}'))
    requested = shown(face('admin', 'GET', f'ports/{made}'))['resource_request']
    bandwidth, packets = requested['request_groups']
    assert bandwidth == {'id': bandwidth['id'], 'resources': {EGRESS: 100}, 'required': [
        'CUSTOM_NETWORK_TUNNEL_PROVIDER', 'CUSTOM_VNIC_TYPE_NORMAL']}
    assert packets == {'id': packets['id'], 'resources': {PACKETS: 3}, 'required': ['CUSTOM_VNIC_TYPE_NORMAL']}
    assert requested['same_subtree'] == [bandwidth['id'], packets['id']]
    assert shown(face('admin', 'GET', f'ports/{port(face, None)}'))['resource_request'] is None
    face('admin', 'PUT', f'networks/{face.network_id}', {'network': {'qos_policy_id': ident}})
    listed = shown(face('admin', 'GET', f'ports?id={port(face, None)}&fields=resource_request'))
    assert listed[0]['resource_request']['request_groups'][0]['resources'] == {EGRESS: 100}
    served = ok(face('admin', 'POST', 'ports', {'port': {'network_id': face.network_id, 'device_owner': 'network:x'}}))
    assert shown(face('admin', 'GET', f"ports/{served['id']}"))['resource_request'] is None


def test_a_host_gives_no_more_than_it_states(face):
    ident = policy(face, minimum_bandwidth={'min_kbps': 600})
    first, second, third = (unit.make_instance() for _ in range(3))
    face.allocate(first, with_port(port(face, ident)))
    face.allocate(first, with_port(port(face, ident)))             # idempotent: the server has its ports
    with pytest.raises(exception.PortBindingFailed, match=f'1000 of 1200 kbit/s egress on {TUNNELLED}'):
        face.allocate(second, with_port(port(face, ident)))
    with pytest.raises(exception.PortBindingFailed):
        face.allocate(second, with_port(port(face, ident)), host='unknown')
    face.allocate(third)                                           # its port needs nothing
    face.deallocate(first)
    face.allocate(second, with_port(port(face, ident)))
    # a second port of a server, attached to it
    with pytest.raises(exception.PortBindingFailed):
        face.manager.attachments.attach_port(face.context, second, with_port(port(face, ident))[0], 'r', 'host1')
    with face.db.reader() as conn:
        assert guarantees.used(conn) == {'host1': {(EGRESS, TUNNELLED): 600}}


def test_policies_of_networks_guarantee_new_ports(face):
    face('admin', 'PUT', f'networks/{face.network_id}', {'network': {
        'qos_policy_id': policy(face, minimum_packet_rate={'min_kpps': 30, 'direction': 'any'})}})
    face.allocate()
    with pytest.raises(exception.PortBindingFailed, match='50 of 60 kpackets/s'):
        face.allocate()


@pytest.mark.parametrize('rate, fits', [(20, True), (40, False)])
def test_packet_rates_count_for_all_physical_networks(tmp_path, rate, fits):
    """A host guaranteed its packet rate once for each physical network."""
    with contextlib.closing(test_network_api.Face(
            tmp_path, network__guaranteed_packet_rate='50', network__physical_networks='wire:br-wire',
            network__vlan_ranges='wire:100:199')) as face:
        face.manager.report()
        tagged = ok(face('admin', 'POST', 'networks', {'network': {
            'shared': True, 'provider:network_type': 'vlan', 'provider:physical_network': 'wire'}}))['id']
        ok(face('admin', 'POST', 'subnets', {'subnet': {
            'network_id': tagged, 'ip_version': 4, 'cidr': '10.55.0.0/24'}}))
        ident = policy(face, minimum_packet_rate={'min_kpps': rate, 'direction': 'any'})
        face.allocate(unit.make_instance(), with_port(port(face, ident, tagged)))
        with contextlib.nullcontext() if fits else pytest.raises(
                exception.PortBindingFailed, match='50 of 80 kpackets/s'):
            face.allocate(unit.make_instance(), with_port(port(face, ident)))
        with face.db.reader() as conn:
            assert guarantees.used(conn) == {'host1': {(PACKETS, ''): 40}}


def test_moves_claim_on_both_hosts(face):
    ident = policy(face, minimum_bandwidth={'min_kbps': 600})
    state(face, 'host2', 700)
    moving, other = unit.make_instance(), unit.make_instance()
    face.allocate(moving, with_port(port(face, ident)))
    manager = face.manager
    manager.prepare_for_instance(face.context, moving, 'host2')
    with pytest.raises(exception.PortBindingFailed):
        face.allocate(other, with_port(port(face, ident)), host='host2')
    manager.unprepare_for_instance(face.context, moving.uuid, 'host2')
    face.allocate(other, with_port(port(face, ident)), host='host2')
    for move in (manager.prepare_for_instance, manager.setup_for_instance):
        with pytest.raises(exception.PortBindingFailed):
            move(face.context, moving, 'host2')
    with face.db.reader() as conn:
        assert [row['host'] for row in ports.of_device(conn, moving.uuid)] == ['host1']
    # a shelved server claims nothing
    manager.unbind_ports(face.context, other.uuid, 'host2')
    manager.setup_for_instance(face.context, moving, 'host2')
    with face.db.reader() as conn:
        assert guarantees.used(conn) == {'host2': {(EGRESS, TUNNELLED): 600}}


def test_changes_of_policies_claim_for_running_servers(face):
    ident, more = policy(face, minimum_bandwidth={'min_kbps': 600}), policy(face, minimum_bandwidth={'min_kbps': 1001})
    made = port(face, ident)
    face.allocate(requested=with_port(made))
    known = shown(face('admin', 'GET', f'qos/policies/{ident}'))['rules'][0]['id']
    path = f'qos/policies/{ident}/minimum_bandwidth_rules/{known}'
    for amount, code in ((1000, 200), (1001, 409), (900, 200)):
        answer = face('admin', 'PUT', path, {'minimum_bandwidth_rule': {'min_kbps': amount}})
        assert answer.status_code == code, answer.text
    answer = face('admin', 'POST', f'qos/policies/{ident}/minimum_packet_rate_rules', {
        'minimum_packet_rate_rule': {'min_kpps': 51, 'direction': 'any'}})
    assert answer.status_code == 409 and 'QosGuaranteeExceeded' in answer.text
    answer = face('admin', 'PUT', f'ports/{made}', {'port': {'qos_policy_id': more}})
    assert answer.status_code == 409 and '1000 of 1001' in answer.text
    face.allocate()                                                # a port without a policy of its own
    assert face('admin', 'PUT', f'networks/{face.network_id}', {'network': {'qos_policy_id': more}}).status_code == 409
    assert face('admin', 'PUT', f'ports/{made}', {'port': {'qos_policy_id': None}}).status_code == 200
    with face.db.reader() as conn:
        assert guarantees.used(conn) == {}


def test_routers_and_subports_get_no_guarantees(face):
    external = outside(face)
    ident = policy(face, minimum_bandwidth={'min_kbps': 1})
    made = router(face)
    gateway = {'network_id': external, 'qos_policy_id': ident}
    answer = face('admin', 'PUT', f'routers/{made}', {'router': {'external_gateway_info': gateway}})
    assert answer.status_code == 409 and 'only to ports of servers' in answer.text
    empty = policy(face)
    shown(face('admin', 'PUT', f'routers/{made}', {'router': {'external_gateway_info': {
        **gateway, 'qos_policy_id': empty}}}))
    answer = face('admin', 'POST', f'qos/policies/{empty}/minimum_bandwidth_rules', {
        'minimum_bandwidth_rule': {'min_kbps': 1}})
    assert answer.status_code == 409 and f'router {made}' in answer.text
    parent, below = port(face, None), port(face, ident)
    body = {'trunk': {'port_id': parent, 'sub_ports': [
        {'port_id': below, 'segmentation_type': 'vlan', 'segmentation_id': 5}]}}
    assert face('demo', 'POST', 'trunks', body).status_code == 409
    shown(face('demo', 'PUT', f'ports/{below}', {'port': {'qos_policy_id': None}}))
    ok(face('demo', 'POST', 'trunks', body))
    assert face('demo', 'PUT', f'ports/{below}', {'port': {'qos_policy_id': ident}}).status_code == 409
    # the guarantee of a network is for its ports of servers alone
    face.allocate(unit.make_instance(), with_port(parent))
    shown(face('admin', 'PUT', f'networks/{face.network_id}', {'network': {'qos_policy_id': ident}}))
    assert {each.id: each.guaranteed_kbps for each in face.manager.load().ports} == {parent: 1, below: 0}


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with functional_cloud.running(tmp_path_factory.mktemp('cloud'), ('host1', 'host2', 'host3'),
                                  network__guaranteed_bandwidth=[f'{TUNNELLED}:1000:1000']) as made:
        yield made


def test_servers_go_only_where_their_ports_get_guarantees(cloud):
    demo, boss = cloud.client(version='2.72'), cloud.admin('2.74')

    def call(method, path, body=None, code=201):
        answer = boss.request(method, f'/network/v2.0/{path}', body)
        assert answer.status_code == code, answer.text
        return answer.json() if answer.text else {}

    def shared(kbps):
        ident = call('POST', 'qos/policies', {'policy': {'shared': True}})['policy']['id']
        call('POST', f'qos/policies/{ident}/minimum_bandwidth_rules', {'minimum_bandwidth_rule': {'min_kbps': kbps}})
        return ident

    def free_port(ident):
        return demo.post('/network/v2.0/ports', {'port': {'network_id': network, 'qos_policy_id': ident}}).json()[
            'port']['id']

    def host_of(server):
        return boss.get(f'/servers/{server}').json()['server']['OS-EXT-SRV-ATTR:host']
    network = call('GET', 'networks?name=private', code=200)['networks'][0]['id']
    image, ident, huge = demo.upload_image(), shared(600), shared(5000)
    wanted = [{'port': free_port(ident)}]
    body = {'server': {'name': 's', 'imageRef': image, 'flavorRef': '42', 'networks': wanted}}
    answer = demo.post('/servers', body, version='2.71')
    assert answer.status_code == 400 and '2.72' in answer.text
    first = demo.boot(image, networks=wanted)['id']
    demo.wait_for(first)
    assert host_of(first) == 'host1'                               # the only one that states something
    for policy_id in (ident, huge):
        lost = demo.boot(image, networks=[{'port': free_port(policy_id)}])['id']
        fault = demo.wait_for(lost, 'ERROR')['fault']['message']
        amount = 600 if policy_id == ident else 5000
        assert f'cannot guarantee {amount} kbit/s egress' in fault, fault
        details = boss.get(f'/servers/{lost}').json()['server']['fault']['details']
        assert 'host2 guarantees no network resources' in details
        assert f'of {amount} kbit/s egress on {TUNNELLED} left' in details
    with cloud.api_db.writer() as conn:
        hosts.seen(conn, 'host3', '192.0.2.3', False, guarantees={EGRESS: {TUNNELLED: 700}})
    second = demo.boot(image, networks=[{'port': free_port(ident)}])['id']
    demo.wait_for(second)
    assert host_of(second) == 'host3'
    # no other host has as much left
    assert boss.post(f'/servers/{first}/action', {'migrate': None}).status_code in (202, 400)
    demo.wait_for(first)
    assert host_of(first) == 'host1'
    demo.delete(f'/servers/{second}')
    demo.wait_for(second, 'DELETED')
    # an attached port counts in the next move
    attached = free_port(shared(300))
    answer = demo.post(f'/servers/{first}/os-interface', {'interfaceAttachment': {'port_id': attached}})
    assert answer.status_code == 200, answer.text
    assert boss.post(f'/servers/{first}/action', {'migrate': None}).status_code in (202, 400)
    demo.wait_for(first)
    assert host_of(first) == 'host1'
    assert demo.delete(f'/servers/{first}/os-interface/{attached}').status_code == 202
    waiting.wait_for(lambda: len(demo.get(f'/servers/{first}/os-interface').json()['interfaceAttachments']) == 1, 60,
                     'the end of the port')
    assert boss.post(f'/servers/{first}/action', {'migrate': None}).status_code == 202
    demo.wait_for(first, 'VERIFY_RESIZE')
    assert host_of(first) == 'host3'
    demo.delete(f'/servers/{first}')
    demo.wait_for(first, 'DELETED')
    # the policy of a network, for servers that name it and for those that name none
    call('PUT', f'networks/{network}', {'network': {'qos_policy_id': ident}}, code=200)
    for networks in ([{'uuid': network}], 'auto'):
        made = demo.boot(image, networks=networks)['id']
        demo.wait_for(made)
        assert host_of(made) in ('host1', 'host3')
        demo.delete(f'/servers/{made}')
        demo.wait_for(made, 'DELETED')
