"""What the privileged part of nova-network takes for the state of a host, and what it refuses."""
import copy
import uuid

import pytest

from nova.network import host_state
from nova.network.linux import remote
from nova.network.linux import rules

NETWORK, PORT, GROUP = (str(uuid.UUID(int=number)) for number in range(1, 4))
ROW = {'id': 'x', 'direction': 'ingress', 'ethertype': 'IPv4', 'protocol': 'tcp', 'port_range_min': 22,
       'port_range_max': 22, 'remote_ip_prefix': '10.0.0.0/8', 'remote_group_id': None, 'created_at': object()}
STATE = host_state.HostState(
    networks=[host_state.Network(NETWORK, 'nova-br', 1450, True, [host_state.Subnet(
        '10.1.0.0/24', '10.1.0.1', True, ['9.9.9.9'], [{'destination': '10.9.0.0/16', 'nexthop': '10.1.0.9'}])])],
    ports=[host_state.Port(PORT, 'tap' + PORT[:11], 'fa:16:3e:00:00:01', 'nova-br', ['10.1.0.5'], [GROUP])],
    rules={GROUP: [ROW, {**ROW, 'protocol': '47', 'port_range_min': None, 'port_range_max': None,
                         'remote_ip_prefix': None, 'remote_group_id': GROUP}]},
    members={GROUP: ['10.1.0.5']})


def test_a_state_arrives_as_it_was_sent():
    arrived = remote.state_of(remote.request_of(STATE), 'nova-br')
    assert (arrived.networks, arrived.ports, arrived.members) == (STATE.networks, STATE.ports, STATE.members)
    assert rules.script('t', arrived, None) == rules.script('t', STATE, None)


def changed(path, value):
    given = copy.deepcopy(remote.request_of(STATE))
    at = given
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return given


NFT = '10.0.0.1 }; add rule inet filter input accept #'


@pytest.mark.parametrize(('path', 'value'), [
    (('networks', 0, 'bridge'), 'eth0'),
    (('networks', 0, 'bridge'), '../../etc'),
    (('networks', 0, 'bridge'), 'br0123456789ab/..'),
    (('networks', 0, 'bridge'), 'br0123456789ab\n'),
    (('networks', 0, 'id'), '../x'),
    (('networks', 0, 'mtu'), '1450 up'),
    (('networks', 0, 'mtu'), True),
    (('networks', 0, 'mtu'), 10 ** 6),
    (('networks', 0, 'subnets', 0, 'cidr'), NFT),
    (('networks', 0, 'subnets', 0, 'gateway'), '10.1.0.1 dev eth0'),
    (('networks', 0, 'subnets', 0, 'dns'), ['9.9.9.9,option:router,1.1.1.1']),
    (('networks', 0, 'subnets', 0, 'dns'), '9.9.9.9'),
    (('networks', 0, 'subnets', 0, 'routes', 0, 'nexthop'), '10.1.0.9 --dhcp-script=/tmp/x'),
    (('networks', 0, 'subnets', 0, 'routes', 0, 'more'), 1),
    (('ports', 0, 'device'), 'eth0'),
    (('ports', 0, 'device'), 'tap1" : accept } #'),
    (('ports', 0, 'device'), 'tap1\nadd'),
    (('ports', 0, 'mac'), 'fa:16:3e:00:00:01 accept; ether saddr fa:16:3e:00:00:02'),
    (('ports', 0, 'addresses'), [NFT]),
    (('ports', 0, 'groups'), ['x; flush ruleset']),
    (('ports', 0, 'bridge'), 'docker0'),
    (('ports', 0), []),
    (('rules', GROUP, 0, 'direction'), 'both'),
    (('rules', GROUP, 0, 'ethertype'), 'IPv4 accept'),
    (('rules', GROUP, 0, 'protocol'), 'tcp dport 22 accept; ip protocol tcp'),
    (('rules', GROUP, 0, 'protocol'), '256'),
    (('rules', GROUP, 0, 'port_range_min'), '22'),
    (('rules', GROUP, 0, 'port_range_max'), 65536),
    (('rules', GROUP, 0, 'remote_ip_prefix'), NFT),
    (('rules', GROUP, 0, 'remote_group_id'), '@x'),
    (('rules', 'x }; flush'), []),
    (('members', GROUP), [NFT]),
    (('members',), None),
    (('script',), 'flush ruleset'),
])
def test_what_is_no_state_is_refused(path, value):
    with pytest.raises(ValueError):
        remote.state_of(changed(path, value), 'nova-br')
