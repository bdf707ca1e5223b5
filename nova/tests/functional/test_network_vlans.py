"""Networks that are VLANs: who gets which, what hosts are told, and what they run."""
import dataclasses
import json
import types

import pytest

from nova import conf as nova_conf
from nova import exception
from nova.network.host import state as host_state
from nova.network.linux import overlay
from nova.network.linux import remote
from nova.network.linux import runner
from nova.network.linux import validators
from nova.tests.support import network_api as test_network_api
from nova.tests.support import network_manager as unit

OPTIONS = {'network__manager': 'VlanManager', 'network__vlan_ranges': ['wire:100:101', 'cable:7:7'],
           'network__physical_networks': {'wire': 'br-wire', 'cable': 'br-cable', 'third': 'br-third'}}
TYPE, PHYSICAL, NUMBER = (f'provider:{name}' for name in ('network_type', 'physical_network', 'segmentation_id'))


@pytest.fixture
def face(tmp_path):
    rig = test_network_api.Face(tmp_path, **OPTIONS)
    yield rig
    rig.close()


def make(face, user='demo', **values):
    return face(user, 'POST', 'networks', {'network': values})


def test_projects_get_vlans_of_the_ranges_and_do_not_see_which(face):
    made = [make(face).json()['network'] for _ in range(3)]
    assert not any(name in made[0] for name in (TYPE, PHYSICAL, NUMBER)) and made[0]['mtu'] == 1500
    shown = [face('admin', 'GET', f"networks/{each['id']}").json()['network'] for each in made]
    assert sorted((each[TYPE], each[PHYSICAL], each[NUMBER]) for each in shown) == [
        ('vlan', 'cable', 7), ('vlan', 'wire', 100), ('vlan', 'wire', 101)]
    answer = make(face)
    assert answer.status_code == 503 and answer.json()['NeutronError']['type'] == 'NoNetworkAvailable'
    found = face('admin', 'GET', f'networks?{NUMBER}=7&{PHYSICAL}=cable').json()['networks']
    assert [each[NUMBER] for each in found] == [7]
    assert face('demo', 'DELETE', f"networks/{found[0]['id']}").status_code == 204
    again = make(face).json()['network']['id']
    assert face('admin', 'GET', f'networks/{again}').json()['network'][NUMBER] == 7


def test_administrators_name_them(face):
    assert make(face, 'demo', **{TYPE: 'vlan', PHYSICAL: 'wire', NUMBER: 5}).status_code == 403
    made = make(face, 'admin', **{TYPE: 'vlan', PHYSICAL: 'third', NUMBER: 4094}).json()['network']
    assert (made[PHYSICAL], made[NUMBER]) == ('third', 4094)
    for values, code, said in (
            ({PHYSICAL: 'third', NUMBER: 4094}, 409, 'is in use'),
            ({PHYSICAL: 'third', NUMBER: 4095}, 400, '1 to 4094'),
            ({PHYSICAL: 'third'}, 400, 'has no VLANs for this network'),
            ({PHYSICAL: 'lost', NUMBER: 1}, 400, 'is not in'),
            ({PHYSICAL: 'wire', 'router:external': True}, 400, 'of type flat')):
        answer = make(face, 'admin', **{TYPE: 'vlan', **values})
        assert answer.status_code == code and said in answer.text, (values, answer.text)
    assert make(face, 'admin', **{TYPE: 'vlan', PHYSICAL: 'wire', NUMBER: 4094}).status_code == 201
    shown = make(face, 'admin', **{TYPE: 'vxlan'}).json()['network']
    assert shown[TYPE] == 'vxlan'
    again = make(face, 'admin', **{TYPE: 'vxlan', NUMBER: shown[NUMBER]})       # which was a 500
    assert again.status_code == 409 and 'is in use' in again.text


def test_host_state_contains_bridge_and_vlan_and_rejects_invalid_values(face):
    network = make(face).json()['network']['id']
    face('demo', 'POST', 'subnets', {'subnet': {'network_id': network, 'cidr': '10.0.0.0/24', 'ip_version': 4}})
    vif, = face.allocate(unit.make_instance(), requested=[{'network_id': network}])
    assert vif['network']['mtu'] == 1500 and vif['network']['subnets'][0]['dhcp_server']
    told, = face.manager.load().overlays
    assert (told.physical_bridge, told.vlan) in (('br-wire', 100), ('br-wire', 101), ('br-cable', 7))
    assert told.remotes == []
    sent = host_state.as_json(face.manager.load())
    validated = validators.state(face.conf.network.bridge, OPTIONS['network__physical_networks'].values())
    assert validated(sent).overlays == [told]
    assert host_state.from_json(sent).overlays == [told]
    for bad in ({'vlan': 4095}, {'vlan': '1'}, {'physical_bridge': 'a b'}, {'physical_bridge': '-x'}):
        with pytest.raises(ValueError):
            validated({**sent, 'overlays': [{**sent['overlays'][0], **bad}]})


def test_a_bridge_that_is_not_the_operators_is_refused():
    operations = remote.operations(nova_conf.new(files=[], network__physical_networks={'wire': 'br-wire'}))
    state = host_state.HostState([], [], {}, {}, overlays=[dataclasses.replace(OVERLAY, physical_bridge='eth0')])
    with pytest.raises(ValueError, match='not in .network. physical_networks'):
        operations['network.refresh'](state=host_state.as_json(state))


OVERLAY = host_state.Overlay('n', 'br0123456789ab', 300, 1500, None, [], [], [], 100, 'br-wire')


def test_vlan_device_is_created_once_for_its_trunk():
    """Made once, and again when the VLAN or its trunk is another one."""
    ran, known = [], types.SimpleNamespace(text='')

    class Run(runner.Runner):
        def __call__(self, *words, **options):
            ran.append(' '.join(words))
            return known.text if words[-1] == 'vl0123456789ab' and 'show' in words else ''
    run = Run()
    overlay.ensure(run, OVERLAY, '192.0.2.1')
    assert 'ip link add link br-wire name vl0123456789ab mtu 1500 type vlan id 100' in ran
    assert 'ip link set dev vl0123456789ab master br0123456789ab' in ran and not any('vxlan' in each for each in ran)
    device = {'link': 'br-wire', 'mtu': 1500, 'linkinfo': {'info_kind': 'vlan', 'info_data': {'id': 100}},
              'master': 'br0123456789ab', 'flags': ['UP']}
    known.text = json.dumps([device])
    del ran[:]
    overlay.ensure(run, OVERLAY, '192.0.2.1')
    assert not any('vl0123456789ab' in each and 'show' not in each for each in ran)
    for other in ({'vlan': 101}, {'physical_bridge': 'br-cable'}):
        del ran[:]
        overlay.ensure(run, dataclasses.replace(OVERLAY, **other), '192.0.2.1')
        assert 'ip link del dev vl0123456789ab' in ran and any(' type vlan id ' in each for each in ran)
    with pytest.raises(exception.NetworkPlumbingError, match='has no bridge'):
        overlay.ensure(run, dataclasses.replace(OVERLAY, physical_bridge=None), '192.0.2.1')


@pytest.mark.parametrize('name, change, info', [
    ('vl0123456789ab', {}, {'id': 100}),
    ('vx0123456789ab', {'vlan': None, 'physical_bridge': None}, {'id': 300, 'local': '192.0.2.1'})])
def test_device_whose_creation_was_interrupted_is_completed(name, change, info):
    ran, device = [], {'link': 'br-wire', 'mtu': 1500, 'linkinfo': {'info_data': info}}

    class Run(runner.Runner):
        def __call__(self, *words, **options):
            if 'show' in words:
                return json.dumps([device]) if words[-1] == name and 'fdb' not in words else ''
            ran.append(' '.join(words))
            return ''
    steps = [f'ip link set dev {name} addrgenmode none', f'ip link set dev {name} master br0123456789ab',
             *([f'bridge link set dev {name} learning off'] if name[:2] == 'vx' else []), f'ip link set dev {name} up']
    for known, expected in (({}, steps), ({'master': 'br0123456789ab'}, steps), ({'flags': ['UP']}, steps),
                            ({'master': 'br0123456789ab', 'flags': ['UP']}, [])):
        device = {**device, 'master': None, 'flags': [], **known}
        del ran[:]
        overlay.ensure(Run(), dataclasses.replace(OVERLAY, **change), '192.0.2.1')
        assert [each for each in ran if name in each] == expected


@pytest.mark.parametrize('text', ['wire', 'wire:1', 'wire:0:5', 'wire:5:4', 'wire:1:4095', ':1:2', 'wire:a:b'])
def test_invalid_vlan_ranges_are_refused(text):
    with pytest.raises(ValueError):
        nova_conf.new(files=[], network__vlan_ranges=[text])
