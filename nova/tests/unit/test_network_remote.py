"""What the privileged part of nova-network takes for the state of a host, and what it refuses."""
import copy
import dataclasses
import uuid

import pytest

from nova import conf as configuration
from nova.network.host import state as host_state
from nova.network.linux import remote
from nova.network.linux import rules
from nova.network.linux import validators
from nova.runtime import privileges

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

validated = validators.state('nova-br', ['br-wire'])


def test_a_state_arrives_as_it_was_sent():
    arrived = validated(host_state.as_json(STATE))
    assert (arrived.networks, arrived.ports, arrived.members) == (STATE.networks, STATE.ports, STATE.members)
    assert rules.script('t', arrived, {}) == rules.script('t', STATE, {})


def test_the_state_of_an_agent_goes_to_the_privileged_process_without_another_encoding():
    class Local(privileges.Helper):
        """Runs its operations in this process."""

        def call(self, operation, **arguments):
            return self._operations[operation](**arguments)
    sent = []
    helper = Local({f'network.{name}': lambda **given: sent.append(given)
                    for name in ('refresh', 'follow', 'refilter')})
    driver, received = remote.RemoteDriver(helper), host_state.EncodedState(host_state.as_json(STATE))
    driver.refresh(received)
    driver.follow(received)
    changed = received.with_rules({GROUP: []}, {})
    driver.refilter(changed.encoded['rules'], changed.encoded['members'])
    assert [values.get('state') is received.encoded for values in sent] == [True, True, False]
    assert sent[2] == {'rules': {GROUP: []}, 'members': {}}
    assert received().ports == STATE.ports and changed().rules == {GROUP: []}


def changed(path, value):
    given = copy.deepcopy(host_state.as_json(STATE))
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
    (('networks', 0, 'is_default'), 1),
    (('ports', 0, 'port_security'), 'no'),
    (('rules', GROUP, 0, 'remote_ip_prefix'), 'fe80::%eth0/64'),
])
def test_invalid_host_state_is_refused(path, value):
    with pytest.raises(ValueError):
        validated(changed(path, value))


# ---- networks between hosts, and routers

LEG = host_state.RouterInterface(PORT, 'fa:16:3e:00:00:02', 'br0123456789ab', 1450, ['10.0.0.1/24'],
                                 [['fd00::/64', 'slaac']])
CROSSING = host_state.HostState(
    networks=[], ports=[], rules={}, members={GROUP: ['fd00::5']}, tunnel='192.0.2.1',
    physical_bridges={'br0123456789ac': 'br-wire'},
    overlays=[host_state.Overlay(
        NETWORK, 'br0123456789ab', 7, 1450, 'fa:16:3e:00:00:03',
        [host_state.OverlaySubnet('10.0.0.0/24', '10.0.0.1', '10.0.0.2', ['9.9.9.9'], [], None)],
        [{'mac': 'fa:16:3e:00:00:04', 'address': '10.0.0.5', 'name': 'one', 'options': [
            {'opt_name': 'mtu', 'opt_value': '1400', 'ip_version': 4}]}], [['fa:16:3e:00:00:05', '192.0.2.2']])],
    routers=[host_state.Router(NETWORK, True, [LEG], LEG, '172.24.4.1', True,
                               [{'destination': '10.9.0.0/16', 'nexthop': '10.0.0.9'}], [['172.24.4.9', '10.0.0.5']],
                               [['172.24.4.9', 'tcp', 80, '10.0.0.5', 8080]])])


def crossing(path, value):
    given = at = copy.deepcopy(host_state.as_json(CROSSING))
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return given


def test_networks_between_hosts_arrive_as_they_were_sent():
    assert validated(host_state.as_json(CROSSING)) == CROSSING
    leg = dataclasses.replace(LEG, distributed=True, neighbours=[['10.0.0.5', 'fa:16:3e:00:00:04']])
    part = dataclasses.replace(CROSSING, routers=[dataclasses.replace(
        CROSSING.routers[0], internal=[leg], external=None, role=host_state.DVR_LOCAL)])
    assert validated(host_state.as_json(part)) == part


@pytest.mark.parametrize(('path', 'value'), [
    (('overlays', 0, 'bridge'), 'eth0'), (('overlays', 0, 'number'), 0), (('overlays', 0, 'mac'), NFT),
    (('overlays', 0, 'id'), '../x'), (('overlays', 0, 'remotes', 0), ['fa:16:3e:00:00:05', '192.0.2.2 dev eth0']),
    (('overlays', 0, 'leases', 0, 'name'), 'a\nb'), (('overlays', 0, 'leases', 0, 'more'), 1),
    (('overlays', 0, 'leases', 0, 'options', 0, 'opt_name'), 'x,y'),
    (('overlays', 0, 'leases', 0, 'options', 0, 'opt_value'), '1\ndhcp-script=/x'),
    (('overlays', 0, 'subnets', 0, 'mode'), 'x'), (('routers', 0, 'id'), 'a/b'), (('routers', 0, 'up'), 1),
    (('routers', 0, 'internal', 0, 'port'), '-x'),
    (('routers', 0, 'internal', 0, 'addresses'), ['10.0.0.1/24 dev eth0']),
    (('routers', 0, 'floating_ips', 0), [NFT, '10.0.0.5']), (('routers', 0, 'port_forwardings', 0, 1), 'tcp accept'),
    (('routers', 0, 'role'), 'x'), (('routers', 0, 'internal', 0, 'neighbours'), [['10.0.0.5', 'fa:16 dev x']]),
    (('routers', 0, 'routes', 0, 'nexthop'), 'fe80::1%eth0'), (('routers', 0, 'more'), 1), (('tunnel',), 'x'),
    (('physical_bridges',), {'eth0': 'br-wire'}), (('physical_bridges',), {'br0123456789ac': '../x'}),
])
def test_invalid_overlay_in_a_host_state_is_refused(path, value):
    with pytest.raises((ValueError, TypeError)):
        validated(crossing(path, value))


def test_privileged_network_operations_take_named_arguments():
    """They get their arguments by name."""
    operations = remote.operations(configuration.new(files=[]))
    assert operations['network.refilter'](rules={}, members={}) is False
    assert operations['network.leases'](whole=False) == []
    for name, arguments in (('network.refilter', {'rules': []}), ('network.leases', {'whole': 1}),
                            ('network.refresh', {'state': {}}), ('network.follow', {})):
        with pytest.raises(ValueError):
            operations[name](**arguments)
