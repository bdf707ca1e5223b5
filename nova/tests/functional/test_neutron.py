"""Networks of a Networking service: what is sent to it and read from it, and a whole cloud on it."""
import pytest

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova.network.neutron import api
from nova.rpc import retrying_client
from nova.tests import neutron_service
from nova.tests.support import waiting
from nova.tests.functional import cloud as clouds
from nova.tests.support import neutron as shared_neutron
from nova.tests.support.neutron import ALICE
from nova.tests.support.neutron import BOB
from nova.tests.support.neutron import OTHER
from nova.tests.support.neutron import SERVER
from nova.tests.support.neutron import request
from nova.tests.support.neutron import server
from nova.tests.support.neutron import user

neutron = shared_neutron.neutron
rig = shared_neutron.rig


ABSENT = '99999999-2222-3333-4444-555555555555'


def test_the_networks_of_a_request_are_those_of_the_caller(rig):
    own, foreign = rig.neutron.network(ALICE), rig.neutron.network(BOB)
    port, theirs = rig.neutron.port(ALICE, own), rig.neutron.port(BOB, foreign)
    outside = rig.neutron.network(BOB, **{'router:external': True})
    check = rig.api.validate_networks
    for good in (None, 'auto', 'none', [], [request(network_id=own)], [request(port_id=port)],
                 [request(network_id=own, fixed_ip='10.9.0.77')]):
        check(user(), good)
    for bad in ({'network_id': foreign}, {'network_id': outside}, {'network_id': ABSENT}, {'port_id': theirs},
                {'port_id': ABSENT}, {'network_id': own, 'fixed_ip': '10.8.0.1'}):
        with pytest.raises(exception.NetworkRequestInvalid):
            check(user(), [request(**bad)])
    with pytest.raises(exception.NetworkRequestInvalid):
        check(user(), [request(port_id=port)], count=2)
    rig.neutron.rows['ports'][port]['device_id'] = OTHER
    with pytest.raises(exception.PortInUse):
        check(user(), [request(port_id=port)])


def test_a_host_cannot_get_ports_of_another_project(rig):
    foreign = rig.neutron.network(BOB)
    theirs = rig.neutron.port(BOB, foreign)
    with pytest.raises(exception.NetworkNotFound):
        rig.allocate([request(network_id=foreign)])
    with pytest.raises(exception.PortNotFound):
        rig.allocate([request(port_id=theirs)])
    assert not rig.neutron.ports(project_id=ALICE)
    assert rig.neutron.rows['ports'][theirs]['device_id'] == ''


def test_network_shared_with_the_project_is_found(rig):
    lent = rig.neutron.network(BOB)
    rig.neutron._insert('rbac-policies', {'project_id': BOB, 'object_id': lent, 'object_type': 'network',
                                          'action': 'access_as_shared', 'target_tenant': ALICE})
    rig.api.validate_networks(user(), [request(network_id=lent)])
    vif, = rig.allocate([request(network_id=lent)])
    assert vif['network']['id'] == lent


def test_ports_are_made_bound_and_given_back(rig):
    network = rig.neutron.network(ALICE, name='blue')
    kept = rig.neutron.port(ALICE, network, **{'binding:profile': {'mine': 'x'}})
    vifs = rig.allocate([request(network_id=network, fixed_ip='10.9.0.50', tag='red'), request(port_id=kept)])
    first, second = vifs
    assert first['network']['label'] == 'blue' and first['network']['mtu'] == 1442 and first['tag'] == 'red'
    assert [ip['address'] for ip in first['network']['subnets'][0]['ips']] == ['10.9.0.50']
    assert (first['type'], first['network']['bridge'], second['id']) == ('ovs', 'br-int', kept)
    made = rig.neutron.rows['ports'][first['id']]
    assert (made['project_id'], made['device_id'], made['device_owner'], made['binding:host_id']) == (
        ALICE, SERVER, 'compute:nova', 'host1')
    again = rig.allocate([request(network_id=network, fixed_ip='10.9.0.50', tag='red'), request(port_id=kept)])
    assert again == vifs                                # a repeated message makes nothing twice
    with pytest.raises(exception.PortInUse):
        rig.allocate([request(port_id=kept)], OTHER)
    rig.give_back(host='host2')
    assert len(rig.neutron.ports(device_id=SERVER)) == 2
    rig.give_back()
    port, = rig.neutron.ports()
    assert (port['id'], port['device_id'], port['device_owner'], port['binding:host_id'], port['binding:profile']) == (
        kept, '', '', '', {'mine': 'x'})
    rig.give_back()


@pytest.mark.parametrize('extension', [True, False])
def test_ports_have_the_dns_name_of_their_server(rig, extension):
    if extension:
        rig.neutron.aliases.append('dns-integration')
    network = rig.neutron.network(ALICE)
    more = {'dns_name': ''} if extension else {}
    own = rig.neutron.port(ALICE, network, **more)
    other = rig.neutron.port(ALICE, network, **{**more, 'dns_name': 'mine'} if extension else {})
    instance = server()
    instance.hostname = 'Web'
    requests = [request(network_id=network), request(port_id=own), request(port_id=other)]
    vifs = rig.manager.allocate_for_instance(rig.ctx, instance, requests, None, 'host1')

    def names():
        return [rig.neutron.rows['ports'].get(vif['id'], {}).get('dns_name') for vif in vifs]
    assert names() == (['web', 'web', 'mine'] if extension else [None] * 3)
    rig.give_back()
    assert names() == ([None, '', 'mine'] if extension else [None] * 3)


def test_a_build_that_was_cut_off_goes_on_with_the_ports_that_it_has(rig):
    network = rig.neutron.network(ALICE)
    rig.allocate([request(network_id=network)])
    vifs = rig.allocate([request(network_id=network), request(network_id=network)], host='host2')
    assert len(vifs) == 2 == len(rig.neutron.ports(device_id=SERVER))
    assert {port['binding:host_id'] for port in rig.neutron.ports()} == {'host2'}


def test_port_binding_on_a_host_without_agent_fails(rig):
    network = rig.neutron.network(ALICE)
    with pytest.raises(exception.PortBindingFailed, match='host9') as refused:
        rig.allocate([request(network_id=network)], host='host9')
    assert refused.value.code == 500                    # not the request's fault: another host may do
    rig.give_back(host='host9')
    assert not rig.neutron.ports()


def test_ports_with_unsupported_vnic_type_or_bandwidth_request_are_refused(rig):
    network = rig.neutron.network(ALICE)
    for values, word in (({'binding:vnic_type': 'direct-physical'}, 'vnic_type direct-physical'),
                         ({'resource_request': {'required': ['CUSTOM_PHYSNET']}}, 'guaranteed bandwidth')):
        port = rig.neutron.port(ALICE, network, **values)
        for refused in (lambda: rig.api.validate_networks(user(), [request(port_id=port)]),
                        lambda: rig.allocate([request(port_id=port)])):
            with pytest.raises(exception.NetworkRequestInvalid, match=word):
                refused()


def test_trunk_parent_is_plugged_and_its_subports_are_left_alone(rig):
    """The parent is plugged into the bridge that the binding names, here and at a destination; its subports, which have
    no device, are no server's ports, and are left alone."""
    network = rig.neutron.network(ALICE)
    parent = rig.neutron.port(ALICE, network)
    below = rig.neutron.port(ALICE, rig.neutron.network(ALICE, '10.8.0.0/24'), device_owner='trunk:subport')
    rig.neutron.trunks[parent] = 'tbr-12345678-9'
    for refused in (lambda: rig.api.validate_networks(user(), [request(port_id=below)]),
                    lambda: rig.api.check_attach(user(), ALICE, set(), request(port_id=below)),
                    lambda: rig.allocate([request(port_id=below)], OTHER)):
        with pytest.raises(exception.PortInUse):
            refused()
    untouched = dict(rig.neutron.rows['ports'][below])
    vif, = rig.allocate([request(port_id=parent)])
    assert vif['network']['bridge'] == 'tbr-12345678-9' == vif['details']['bridge_name']
    coming, = rig.manager.prepare_for_instance(rig.ctx, server(), 'host2')
    assert coming['network']['bridge'] == 'tbr-12345678-9'
    moved, = rig.manager.setup_for_instance(rig.ctx, server(), 'host2')
    assert moved['network']['bridge'] == 'tbr-12345678-9'
    rig.give_back()
    assert rig.neutron.rows['ports'][parent]['device_id'] == '' and rig.neutron.rows['ports'][below] == untouched


def test_exceeded_quotas_and_addresses_are_reported(rig):
    network, small = rig.neutron.network(ALICE), rig.neutron.network(ALICE, '10.8.0.0/30')
    rig.neutron.port(ALICE, small)
    with pytest.raises(exception.NoMoreFixedIps):
        rig.allocate([request(network_id=small)])
    with pytest.raises(exception.FixedIpInUse):
        rig.allocate([request(network_id=small, fixed_ip='10.8.0.2')])
    rig.neutron.quota = 2
    rig.api.validate_networks(user(), [request(network_id=network)])
    with pytest.raises(exception.PortLimitExceeded, match='1 of 2 ports'):
        rig.api.validate_networks(user(), [request(network_id=network)], count=2)
    with pytest.raises(exception.PortLimitExceeded):
        rig.allocate([request(network_id=network), request(network_id=network)])
    rig.give_back()
    assert len(rig.neutron.ports()) == 1


def test_several_networks_are_ambiguous(rig):
    rig.neutron.network(BOB, shared=True)
    rig.api.validate_networks(user(), None)
    assert len(rig.allocate(None)) == 1
    rig.neutron.network(BOB, shared=True)
    with pytest.raises(exception.NetworkAmbiguous):
        rig.api.validate_networks(user(), None)
    own = rig.neutron.network(ALICE)
    rig.api.validate_networks(user(), None)             # that of the project comes first
    vif, = rig.allocate(None, OTHER)
    assert vif['network']['id'] == own


def test_subports_of_a_trunk_are_left_alone(rig):
    network = rig.neutron.network(ALICE)
    below = rig.neutron.port(ALICE, network, device_id=SERVER, device_owner='trunk:subport')
    rig.allocate([request(network_id=network)])
    rig.give_back()
    assert [port['id'] for port in rig.neutron.ports()] == [below]


def test_a_port_that_claims_to_be_a_servers_is_not(rig):
    """Owners of ports may write the id of anybody's server into them: it must not be plugged there, nor deleted."""
    network, foreign = rig.neutron.network(ALICE), rig.neutron.network(BOB)
    rig.neutron.port(BOB, foreign, device_id=SERVER, device_owner='compute:nova')
    vif, = rig.allocate([request(network_id=network)])
    assert [each['id'] for each in rig.manager.setup_for_instance(rig.ctx, server(), 'host2')] == [vif['id']]
    assert rig.manager.find_port(rig.ctx, SERVER, rig.neutron.ports(project_id=BOB)[0]['id'], None) is None
    rig.give_back()
    assert [port['project_id'] for port in rig.neutron.ports()] == [BOB]


def test_a_port_that_was_another_servers_goes_to_none_of_another_project(rig):
    """It keeps our mark when its owner, whose server has it, writes the id of somebody else's server into it."""
    network, foreign, theirs = rig.neutron.network(ALICE), rig.neutron.network(BOB), ABSENT
    vif, = rig.allocate([request(network_id=network)])
    rig.projects[theirs] = BOB
    port = rig.neutron.port(BOB, foreign)
    rig.manager.allocate_for_instance(rig.ctx, server(theirs, BOB), [request(port_id=port)], None, 'host1')
    rig.neutron.rows['ports'][port]['device_id'] = SERVER
    assert [each['id'] for each in rig.manager.network_info(rig.ctx, SERVER)] == [vif['id']]
    assert rig.manager.find_port(rig.ctx, SERVER, port, None) is None


def test_ports_follow_a_moved_server(rig):
    network = rig.neutron.network(ALICE)
    vif, = rig.allocate([request(network_id=network)])
    port, bindings = rig.neutron.rows['ports'][vif['id']], rig.neutron.bindings[vif['id']]
    prepare, setup = rig.manager.prepare_for_instance, rig.manager.setup_for_instance
    there, = prepare(rig.ctx, server(), 'host2')
    assert there['type'] == 'ovs' and port['binding:host_id'] == 'host1'
    prepare(rig.ctx, server(), 'host2')
    assert {host: row['status'] for host, row in bindings.items()} == {'host1': 'ACTIVE', 'host2': 'INACTIVE'}
    rig.manager.unprepare_for_instance(rig.ctx, SERVER, 'host2')
    rig.manager.unprepare_for_instance(rig.ctx, SERVER, 'host2')
    assert set(bindings) == {'host1'}
    prepare(rig.ctx, server(), 'host2')
    setup(rig.ctx, server(), 'host2')
    assert port['binding:host_id'] == 'host2' and set(rig.neutron.bindings[vif['id']]) == {'host2'}
    with pytest.raises(exception.PortBindingFailed):
        prepare(rig.ctx, server(), 'host9')
    assert set(rig.neutron.bindings[vif['id']]) == {'host2'}
    setup(rig.ctx, server(), 'host1')                   # as an evacuation or a resize does: without preparation
    assert set(rig.neutron.bindings[vif['id']]) == {'host1'}
    rig.manager.unbind_ports(rig.ctx, SERVER, 'host1')
    assert (port['binding:host_id'], port['device_id']) == ('', SERVER)
    vif, = setup(rig.ctx, server(), 'host2')
    assert vif['type'] == 'ovs'
    rig.give_back()
    assert not rig.neutron.ports()


def test_a_host_gives_back_what_is_its_own(rig):
    network = rig.neutron.network(ALICE)
    rig.allocate([request(network_id=network)])
    host = context.admin_context()
    host.sender_host = 'host2'
    rig.manager.deallocate_for_instance(host, SERVER, None)
    assert len(rig.neutron.ports()) == 1
    rig.hosts[SERVER] = 'host2'                         # the server is there by now
    rig.manager.deallocate_for_instance(host, SERVER, None)
    assert not rig.neutron.ports()


def test_ports_are_attached_and_detached(rig):
    network = rig.neutron.network(ALICE)
    rig.allocate([request(network_id=network)])
    (asked,) = rig.api.check_attach(user(), ALICE, {network}, request()).requests
    asked['port_id'] = ABSENT
    attach = rig.manager.attach_port
    vif = attach(rig.ctx, server(), asked, 'req-1', 'host1')
    assert attach(rig.ctx, server(), asked, 'req-1', 'host1')['id'] == vif['id']
    assert rig.manager.find_port(rig.ctx, SERVER, ABSENT, 'req-1')['id'] == vif['id']
    assert rig.manager.find_port(rig.ctx, SERVER, vif['id'], None)['id'] == vif['id']
    assert rig.manager.find_port(rig.ctx, SERVER, vif['id'], 'req-2') is None
    rig.manager.add_address(rig.ctx, SERVER, network, [ip['ip_address'] for port in rig.neutron.ports()
                                                       for ip in port['fixed_ips']], 'host1')
    first = rig.api.ports_of(user(), SERVER)[0]
    assert len(first['fixed_ips']) == 2
    rig.manager.remove_address(rig.ctx, SERVER, first['fixed_ips'][0]['ip_address'], 'host1')
    assert len(rig.api.ports_of(user(), SERVER)[0]['fixed_ips']) == 1
    rig.manager.detach_port(rig.ctx, SERVER, ABSENT, 'req-1', 'host1')
    rig.manager.detach_port(rig.ctx, SERVER, ABSENT, 'req-1', 'host1')
    assert len(rig.neutron.ports()) == 1
    assert rig.api.ports_of(user(BOB), SERVER) == []


def test_a_floating_address_goes_to_the_first_interface(rig):
    """Neutron returned the ports in another order."""
    network, outside = rig.neutron.network(ALICE), rig.neutron.network(BOB, '172.24.0.0/24', **{
        'router:external': True})
    ports = sorted((rig.neutron.port(ALICE, network) for _ in range(2)), reverse=True)
    rig.allocate([request(port_id=port) for port in ports])
    made = rig.neutron._create('floatingips', {'floating_network_id': outside, 'project_id': ALICE})
    rig.api.floating_ips_of(user()).add(SERVER, made['floating_ip_address'], None)
    assert rig.neutron.rows['floatingips'][made['id']]['port_id'] == ports[0]


def test_an_address_of_two_interfaces_is_removed_from_the_first(rig):
    networks = [rig.neutron.network(ALICE) for _ in range(2)]
    vifs = rig.allocate([request(network_id=network) for network in networks])
    for port in rig.neutron.ports():                     # the service below gives an address once
        port['fixed_ips'][0]['ip_address'] = '10.9.0.5'
    rig.manager.remove_address(rig.ctx, SERVER, '10.9.0.5', 'host1')
    assert [len(rig.neutron.rows['ports'][vif['id']]['fixed_ips']) for vif in vifs] == [0, 1]


def test_security_groups_are_created_and_applied(rig):
    network = rig.neutron.network(ALICE)
    groups = rig.api.groups_of(user())
    made = groups.create(ALICE, 'web', 'd')
    assert rig.api.check_security_groups(user(), ['web', 'default', made['id']]) == ['web', 'default']
    with pytest.raises(exception.SecurityGroupNotFound):
        rig.api.check_security_groups(user(BOB), ['web'])
    with pytest.raises(exception.SecurityGroupNotFound):
        rig.allocate([request(network_id=network)], groups=['absent'])
    rig.allocate([request(network_id=network)], groups=['web'])
    shown = rig.api.security_groups_for(user(), [SERVER])[SERVER]
    assert [row['name'] for row in shown] == ['web']
    rule = groups.add_rule(ALICE, {
        'security_group_id': made['id'], 'ethertype': 'IPv4', 'protocol': 'tcp', 'port_range_min': 80,
        'port_range_max': 80, 'remote_ip_prefix': None, 'remote_group_id': None})
    assert rig.api.security_group_rules(user(), [made['id']]) == {made['id']: [rule]}
    with pytest.raises(exception.BadRequest):
        groups.delete(ALICE, made['id'])
    rig.api.add_security_group(user(), ALICE, SERVER, 'default')
    rig.api.remove_security_group(user(), ALICE, SERVER, 'web')
    with pytest.raises(exception.SecurityGroupNotFound):
        rig.api.remove_security_group(user(), ALICE, SERVER, 'web')
    with pytest.raises(exception.SecurityGroupNotFound):
        rig.api.groups_of(user(BOB)).show(BOB, made['id'])
    groups.remove_rule(ALICE, rule['id'])
    groups.delete(ALICE, made['id'])


def test_groups_are_refused_on_ports_without_port_security(rig):
    """They were passed over without a word."""
    network, secured = rig.neutron.network(ALICE, port_security_enabled=False), rig.neutron.network(ALICE)
    open_port = rig.neutron.port(ALICE, secured, port_security_enabled=False, security_groups=[])
    web = rig.api.groups_of(user()).create(ALICE, 'web', 'd')['id']
    check = rig.api.validate_networks
    assert check(user(), [request(network_id=secured)], groups=['web']).secured
    assert check(user(), [request(network_id=secured), request(network_id=network)], groups=['default']).secured
    assert not check(user(), [request(network_id=network)], groups=['default']).secured
    assert not check(user(), [request(port_id=open_port)], groups=['web']).secured       # not for ports that are there
    for refused in (lambda: check(user(), [request(network_id=network)], groups=['web']),
                    lambda: check(user(), [request(network_id=secured), request(network_id=network)], groups=['web']),
                    lambda: rig.allocate([request(network_id=network)], groups=['web']),
                    lambda: rig.allocate([request(network_id=network)], groups=[web, 'default'])):
        with pytest.raises(exception.NetworkRequestInvalid, match='has no port security'):
            refused()
    assert [port['id'] for port in rig.neutron.ports()] == [open_port]
    del rig.neutron.rows['networks'][secured]
    assert not check(user(), None, groups=['default']).secured
    with pytest.raises(exception.NetworkRequestInvalid):
        check(user(), None, groups=['web'])


def test_ids_do_not_become_parts_of_addresses(rig):
    for ident in ('../ports', 'a/b', 'x?y', '', 'ü', 'x' * 300):
        with pytest.raises(exception.NetworkNotFound):
            rig.api.show_network(user(), ident)
    assert not rig.neutron.requests


def test_silent_neutron_raises_unavailable():
    conf = nova_conf.new(files=[], neutron__endpoint_override='http://127.0.0.1:1', neutron__auth_type='none')
    with pytest.raises(exception.Unavailable, match='Networking'):
        api.API(conf).list_networks(user())


def test_long_filters_are_divided_into_pages(rig, monkeypatch):
    network = rig.neutron.network(ALICE, '10.0.0.0/16')
    idents = [rig.neutron.port(ALICE, network, fixed_ips=[{'ip_address': f'10.0.1.{n}'}]) for n in range(120)]
    assert {row['id'] for row in rig.api.neutron.list(user(), 'ports', id=idents)} == set(idents)
    monkeypatch.setattr('nova.network.neutron.client.PAGE', 50)
    assert len(rig.api.neutron.list(user(), 'ports')) == 120


def test_pages_of_a_service_with_a_lower_limit_are_read_to_the_end(rig, monkeypatch):
    network = rig.neutron.network(ALICE, '10.0.0.0/16')
    idents = {rig.neutron.port(ALICE, network) for _ in range(12)}
    monkeypatch.setattr(rig.neutron, 'page', 5)
    assert {row['id'] for row in rig.api.neutron.list(user(), 'ports')} == idents


# ---- a whole cloud


@pytest.fixture(scope='module')
def cloud(tmp_path_factory, neutron):
    with neutron_service.listening(neutron) as address, clouds.running(
            tmp_path_factory.mktemp('neutron') / 'state', hosts=['host1', 'host2'], network__backend='neutron',
            neutron__endpoint_override=address, neutron__auth_type='none') as made:
        made.demo, made.boss = made.client(version='2.35'), made.admin('2.74')
        known = {made.demo.token: made.demo.project_id, made.boss.token: None}
        neutron.project_of = lambda token: known.get(token, token)
        neutron.network(made.demo.project_id, name='blue')
        made.image = made.demo.upload_image()
        yield made


def test_server_with_neutron_ports_is_built_and_deleted(cloud, neutron):
    made = cloud.demo.boot(cloud.image, version='2.1')['id']
    cloud.demo.wait_for(made)
    shown = cloud.demo.get(f'/servers/{made}').json()['server']
    port, = neutron.ports(device_id=made)
    address, = shown['addresses']['blue']
    assert address['addr'] == port['fixed_ips'][0]['ip_address']
    assert port['project_id'] == cloud.demo.project_id and port['binding:host_id'] in ('host1', 'host2')
    listed = cloud.demo.get('/os-networks').json()['networks']
    assert [(row['label'], row['cidr']) for row in listed] == [('blue', '10.9.0.0/24')]
    answer = cloud.demo.post(f'/servers/{made}/os-interface', {'interfaceAttachment': {'net_id': listed[0]['id']}})
    assert answer.status_code == 200, answer.text
    port_id = answer.json()['interfaceAttachment']['port_id']
    assert len(neutron.ports(device_id=made)) == 2
    assert cloud.demo.delete(f'/servers/{made}/os-interface/{port_id}').status_code == 202
    waiting.wait_for(lambda: len(neutron.ports(device_id=made)) == 1, 20, 'the ports')
    group = cloud.demo.post('/os-security-groups', {'security_group': {'name': 'web', 'description': ''}})
    assert group.status_code == 200, group.text
    assert cloud.demo.post(f'/servers/{made}/action', {'addSecurityGroup': {'name': 'web'}}).status_code == 202
    names = [row['name'] for row in cloud.demo.get(f'/servers/{made}').json()['server']['security_groups']]
    assert names == ['default', 'web']
    floating_ips(cloud, neutron, made, address['addr'])
    cloud.demo.delete(f'/servers/{made}')
    cloud.demo.wait_for(made, 'DELETED')
    assert not neutron.ports()


def floating_ips(cloud, neutron, made, fixed):
    outside = neutron.network('z' * 32, '172.24.0.0/24', name='public', **{'router:external': True})
    assert cloud.demo.get('/os-floating-ip-pools').json() == {'floating_ip_pools': [{'name': 'public'}]}
    assert cloud.demo.post('/os-floating-ips', {'pool': 'absent'}).status_code == 404
    assert cloud.demo.post('/os-floating-ips', {'pool': None}).status_code == 404
    mine = cloud.demo.post('/os-floating-ips', {'pool': 'public'}).json()['floating_ip']
    assert (mine['pool'], mine['instance_id'], mine['fixed_ip']) == ('public', None, None)
    theirs = neutron._create('floatingips', {'floating_network_id': outside, 'project_id': 'z' * 32})

    def act(name, **body):
        return cloud.demo.post(f'/servers/{made}/action', {name: body}).status_code
    assert act('addFloatingIp', address=theirs['floating_ip_address']) == 404
    assert act('addFloatingIp', address=mine['ip'], fixed_address='10.9.0.222') == 400
    assert act('removeFloatingIp', address=mine['ip']) == 409
    assert act('addFloatingIp', address=mine['ip']) == 202
    shown, = cloud.demo.get('/os-floating-ips').json()['floating_ips']
    assert (shown['instance_id'], shown['fixed_ip']) == (made, fixed)
    port, = neutron.ports(device_id=made)
    cloud.boss.post('/os-server-external-events', {'events': [
        {'server_uuid': made, 'name': 'network-changed', 'tag': port['id']}]})
    waiting.wait_for(lambda: [entry['addr'] for entry in cloud.demo.get(f'/servers/{made}').json()[
        'server']['addresses']['blue']] == [fixed, mine['ip']], 10, 'the floating IP')
    assert act('removeFloatingIp', address=mine['ip']) == 202
    assert cloud.demo.delete(f'/os-floating-ips/{theirs["id"]}').status_code == 404
    assert cloud.demo.delete(f'/os-floating-ips/{mine["id"]}').status_code == 202
    assert cloud.demo.get(f'/os-floating-ips/{mine["id"]}').status_code == 404
    del neutron.rows['networks'][outside], neutron.rows['floatingips'][theirs['id']]


def test_server_without_port_security_shows_no_group(cloud, neutron):
    """It showed the default group until its ports changed."""
    network = neutron.network(cloud.demo.project_id, '10.6.0.0/24', port_security_enabled=False)
    group = neutron._insert('security-groups', {'project_id': cloud.demo.project_id, 'name': 'closed'})['id']
    for name in ('closed', group):
        refused = cloud.demo.post('/servers', {'server': {
            'name': 'x', 'imageRef': cloud.image, 'flavorRef': '42', 'networks': [{'uuid': network}],
            'security_groups': [{'name': name}]}}, version='2.1')
        assert refused.status_code == 400 and 'no port security' in refused.text
    made = cloud.demo.boot(cloud.image, version='2.1', networks=[{'uuid': network}],
                           security_groups=[{'name': 'default'}])['id']
    shown = cloud.demo.wait_for(made)
    assert 'security_groups' not in shown
    cloud.demo.delete(f'/servers/{made}')
    cloud.demo.wait_for(made, 'DELETED')
    del neutron.rows['networks'][network], neutron.rows['security-groups'][group]


def test_servers_show_the_groups_of_their_ports(cloud, neutron):
    """A list reads the ports and the groups of all its servers, in two requests."""
    network = neutron.network(cloud.demo.project_id, '10.5.0.0/24')
    groups = [neutron._insert('security-groups', {'project_id': cloud.demo.project_id, 'name': name})['id']
              for name in ('db', 'front')]
    ports = [neutron.port(cloud.demo.project_id, network, security_groups=[groups[0]]) for _ in range(3)]
    made = [cloud.demo.boot(cloud.image, version='2.1', networks=[{'port': port}])['id'] for port in ports]
    for ident in made:
        cloud.demo.wait_for(ident)

    def shown():
        return {server['id']: [group['name'] for group in server.get('security_groups', [])]
                for server in cloud.demo.get('/servers/detail').json()['servers']}
    assert shown() == dict.fromkeys(made, ['db'])
    neutron.rows['ports'][ports[0]]['security_groups'] = groups
    neutron.rows['ports'][ports[1]]['security_groups'] = []
    neutron.rows['security-groups'][groups[0]]['name'] = 'renamed'
    neutron.requests.clear()
    assert shown() == dict(zip(made, (['front', 'renamed'], [], ['renamed'])))
    assert sorted(neutron.requests) == [('GET', 'ports'), ('GET', 'security-groups')]
    neutron.away = True
    try:
        assert shown() == dict.fromkeys(made, ['db'])         # the list is not lost with the service: those at boot
    finally:
        neutron.away = False
    for ident in made:
        cloud.demo.delete(f'/servers/{ident}')
        cloud.demo.wait_for(ident, 'DELETED')
    for port in ports:
        del neutron.rows['ports'][port], neutron.bindings[port]
    for group in groups:
        del neutron.rows['security-groups'][group]
    del neutron.rows['networks'][network]


def test_server_with_auto_network_gets_a_new_network(cloud, neutron, monkeypatch):
    for row in neutron.rows['networks'].values():
        monkeypatch.setitem(row, 'admin_state_up', False)
    made = cloud.demo.boot(cloud.image, networks='auto', version='2.37')['id']
    cloud.demo.wait_for(made)
    port, = neutron.ports(device_id=made)
    assert neutron.rows['networks'][port['network_id']]['name'] == 'auto_allocated_network'
    cloud.demo.delete(f'/servers/{made}')
    cloud.demo.wait_for(made, 'DELETED')
    del neutron.rows['networks'][port['network_id']]


def test_a_server_moves_in_a_cloud(cloud, neutron):
    network = neutron.network(cloud.boss.project_id, '10.7.0.0/24')
    made = cloud.boss.boot(cloud.image, networks=[{'uuid': network}], host='host1')['id']
    cloud.boss.wait_for(made)

    def act(**body):
        return cloud.boss.post(f'/servers/{made}/action', body)
    assert act(**{'os-migrateLive': {'host': 'host2', 'block_migration': 'auto'}}).status_code == 202
    waiting.wait_for(lambda: [port['binding:host_id'] for port in neutron.ports(device_id=made)] == ['host2'], 20,
                     'the ports')
    cloud.boss.wait_for(made)
    (bindings,) = neutron.bindings.values()
    assert set(bindings) == {'host2'}
    assert act(migrate={'host': 'host1'}).status_code == 202
    cloud.boss.wait_for(made, 'VERIFY_RESIZE')
    assert [port['binding:host_id'] for port in neutron.ports()] == ['host1']
    assert act(revertResize=None).status_code == 202
    cloud.boss.wait_for(made)
    assert [port['binding:host_id'] for port in neutron.ports()] == ['host2']
    assert act(shelve=None).status_code == 202
    cloud.boss.wait_for(made, 'SHELVED_OFFLOADED')
    assert [port['binding:host_id'] for port in neutron.ports()] == ['']
    assert act(unshelve=None).status_code == 202
    cloud.boss.wait_for(made)
    cloud.boss.delete(f'/servers/{made}')
    cloud.boss.wait_for(made, 'DELETED')
    assert not neutron.ports() and not any(neutron.bindings.values())


def test_a_build_waits_for_its_ports(cloud, neutron):
    """What ML2/OVN sends: a false report of unplugging, others' ports, one report thrice in one request."""
    def send(*events):
        body = {'events': [{'server_uuid': made, 'name': f'network-{name}', 'status': status, 'tag': tag}
                           for name, status, tag in events]}
        assert cloud.boss.post('/os-server-external-events', body).status_code == 200

    def state():
        return cloud.demo.get(f'/servers/{made}').json()['server']['status']
    neutron.slow = True
    try:
        made = cloud.demo.boot(cloud.image, version='2.1')['id']
        waiting.wait_for(lambda: neutron.ports(device_id=made), 20, 'the port')
        port, = neutron.ports(device_id=made)
        send(('vif-unplugged', 'completed', port['id']), ('vif-plugged', 'completed', ABSENT),
             ('changed', 'completed', port['id']), ('vif-plugged', 'in-progress', port['id']))
        with pytest.raises(AssertionError):
            waiting.wait_for(lambda: state() != 'BUILD', 2, 'another state')
        port['status'] = 'ACTIVE'
        send(*[('vif-plugged', 'completed', port['id'])] * 3, ('changed', 'completed', port['id']))
        cloud.demo.wait_for(made)
        send(('vif-unplugged', 'completed', port['id']))
        (network,) = (row for row in neutron.rows['networks'].values() if row['id'] == port['network_id'])
        network['name'] = 'green'
        send(('changed', 'completed', port['id']))
        waiting.wait_for(lambda: 'green' in cloud.demo.get(f'/servers/{made}').json()['server']['addresses'], 10,
                         'the healed addresses')
        network['name'] = 'blue'
        cloud.demo.delete(f'/servers/{made}')
        cloud.demo.wait_for(made, 'DELETED')
        # a failure, and a delete meanwhile
        made = cloud.demo.boot(cloud.image, version='2.1')['id']
        waiting.wait_for(lambda: neutron.ports(device_id=made), 20, 'the port')
        port, = neutron.ports(device_id=made)
        cloud.demo.delete(f'/servers/{made}')
        cloud.demo.wait_for(made, 'DELETED')
        assert not neutron.ports()
    finally:
        neutron.slow = False


def test_a_service_that_is_away_while_a_server_is_deleted(cloud, neutron):
    made = cloud.demo.boot(cloud.image, version='2.1')['id']
    cloud.demo.wait_for(made)
    neutron.away = True
    try:
        refused = cloud.demo.post('/servers', {'server': {'name': 'x', 'imageRef': cloud.image, 'flavorRef': '42'}})
        assert refused.status_code == 503, refused.text
        cloud.demo.delete(f'/servers/{made}')
    finally:
        neutron.away = False
    waiting.wait_for(lambda: not neutron.ports(), 40, 'the ports to go')
    cloud.demo.wait_for(made, 'DELETED')


def test_build_fails_while_neutron_is_unavailable(cloud, neutron, monkeypatch):
    monkeypatch.setattr(retrying_client, 'RELAYED_RETRY_TIME_S', 1)
    made = cloud.demo.boot(cloud.image, version='2.1')['id']
    cloud.demo.wait_for(made)
    neutron.away = True
    try:
        cloud.demo.delete(f'/servers/{made}')
        cloud.demo.wait_for(made, 'ERROR')
    finally:
        neutron.away = False
    assert neutron.ports(device_id=made)
    cloud.demo.delete(f'/servers/{made}')
    waiting.wait_for(lambda: cloud.demo.get(f'/servers/{made}').status_code == 404, 20, 'the delete')
    assert not neutron.ports()


def test_no_host_can_bind(cloud, neutron):
    hosts, neutron.hosts = neutron.hosts, set()
    try:
        made = cloud.demo.boot(cloud.image, version='2.1')['id']
        cloud.demo.wait_for(made, 'ERROR')
        waiting.wait_for(lambda: not neutron.ports(), 20, 'the ports')
        fault = cloud.boss.get(f'/servers/{made}').json()['server']['fault']
        assert 'host' in fault['message'], fault
        cloud.demo.delete(f'/servers/{made}')
    finally:
        neutron.hosts = hosts
