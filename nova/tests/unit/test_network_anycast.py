"""Which frames for a router stay with its part on a host, and which go on to the host that has the way out."""
import dataclasses

import pytest

from nova.network.host import state as host_state
from nova.network.linux import anycast

MAC, AWAY = 'fa:16:3e:00:00:02', 'f2:16:3e:00:00:02'
LEG = host_state.RouterInterface('0123456789abcdef', MAC, 'br0123456789ab', 1450, ['10.0.0.1/24'], [], True,
                     [['10.0.0.5', 'fa:16:3e:00:00:05'], ['10.0.0.130', 'fa:16:3e:00:00:06']])
ROUTER = host_state.Router('r-1', True, [LEG], None, None, False, [], [], [], host_state.DVR_LOCAL)


def state(**changes):
    port = host_state.Port('p', 'tap1', 'fa:16:3e:00:00:05', LEG.bridge, ['10.0.0.5'], [])
    return host_state.HostState([], [port], {}, {}, routers=[dataclasses.replace(ROUTER, **changes)])


def test_anycast_sets_exclude_longer_routes():
    four, six = anycast.sets(state())
    assert four[2] == ['10.0.0.1', '10.0.0.130', '10.0.0.5', '169.254.169.254'] and six[2] == []
    longer = [{'destination': '10.0.0.128/25', 'nexthop': '10.0.0.9'},
              {'destination': '10.0.0.0/8', 'nexthop': '10.0.0.9'}]
    assert '10.0.0.130' not in anycast.sets(state(routes=longer))[0][2]
    assert '10.0.0.5' in anycast.sets(state(routes=longer))[0][2]


@pytest.mark.parametrize(('role', 'says'), [(host_state.DVR_LOCAL, f'ether daddr set {AWAY}'),
                                            (host_state.DVR_ISOLATED, 'drop')])
def test_other_packets_follow_the_default_route_or_are_dropped(role, says):
    (_name, rules), = anycast.chains(state(role=role))
    assert [rule for rule in rules if rule.startswith('ether type ip ip daddr !=')] == [
        f'ether type ip ip daddr != @led4_r1 {says}']
    assert any(rule.startswith('iifname { "tap1" } ether daddr ' + MAC) for rule in anycast.rules(state(role=role)))


def test_gateway_address_is_local_on_each_host():
    found = anycast.rules(state(role=host_state.DVR_GATEWAY))
    assert found == [f'iifname "vx0123456789ab" ether daddr {AWAY} ether daddr set {MAC} accept']
    assert anycast.sets(state(role=host_state.DVR_GATEWAY)) == [] == anycast.chains(state(role=host_state.DVR_GATEWAY))


def test_a_router_that_is_down_or_on_one_host_is_left_alone():
    assert anycast.rules(state(up=False)) == [] == anycast.to_others(state(up=False), LEG.bridge)
    assert anycast.rules(state(internal=[dataclasses.replace(LEG, distributed=False)], role=host_state.CENTRAL)) == []


def test_nothing_for_a_router_leaves_the_host():
    found = anycast.to_others(state(), LEG.bridge)
    assert f'ether daddr {MAC} drop' in found and f'ether saddr {MAC} ether type arp drop' in found
    assert 'ether type arp arp operation request arp daddr ip { 10.0.0.1 } drop' in found
    assert anycast.to_others(state(), 'br000000000000') == []
