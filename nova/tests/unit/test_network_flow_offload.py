"""Rules of flow offload: which ports have them, and that they are removed when the security rules change."""
import dataclasses

import pytest

from nova.network.host import state as host_state
from nova.network.linux import flow_offload
from nova.network.linux import frames
from nova.network.linux import rules

BRIDGE, TUNNEL = 'br0123456789ab', 'vx0123456789ab'
OVERLAY = host_state.Overlay('n', BRIDGE, 7, 1450, None, [], [], [['fa:16:3e:00:00:09', '192.0.2.2']])


def port(number, **values):
    return host_state.Port(**{'id': f'p{number}', 'device': f'tap{number}', 'mac': f'fa:16:3e:00:00:0{number}',
                              'bridge': BRIDGE, 'addresses': [f'10.0.0.{number}'], 'groups': ['g'], **values})


def state(*ports, **values):
    return host_state.HostState(**{'networks': [], 'ports': list(ports), 'rules': {'g': []}, 'members': {},
                                   'overlays': [OVERLAY], 'tunnel': '192.0.2.1', **values})


def script(given, devices=('tap1', 'tap2', TUNNEL)):
    return flow_offload.script('t', given, devices, 7)


def test_a_guest_sends_with_its_own_addresses_to_whom_the_frame_is_for():
    text = script(state(port(1), port(2)))
    assert f'ether saddr fa:16:3e:00:00:01 ether type ip ip saddr {{ 10.0.0.1 }} goto short_{BRIDGE}' in text
    assert (f'elements = {{ fa:16:3e:00:00:09 : goto to_{TUNNEL}, fa:16:3e:00:00:01 : goto to_tap1, '
            'fa:16:3e:00:00:02 : goto to_tap2 }') in text
    assert 'meta mark 0x7 ether daddr fa:16:3e:00:00:02 goto learn_tap2' in text
    assert text.startswith(frames.removal('netdev', 't'))


@pytest.mark.parametrize('values', [
    {'port_security': False}, {'limits': [['egress', 100, 0]]}, {'addresses': []},
    {'pairs': [{'ip_address': '10.0.0.9', 'mac_address': None}]}])
def test_ports_with_extra_rules_are_not_offloaded(values):
    text = script(state(port(1, **values), port(2)))
    assert 'tap1' not in text and 'tap2' in text


def test_offloaded_packets_of_a_port_with_dscp_marking_are_marked():
    text = script(state(port(1, dscp_mark=8), port(2)))
    assert f'ip saddr {{ 10.0.0.1 }} ip dscp set 8 goto short_{BRIDGE}' in text
    assert f'ip saddr {{ 10.0.0.2 }} goto short_{BRIDGE}' in text


@pytest.mark.parametrize(('name', 'key'), [
    ('flows_tap1', 'ip saddr . ip daddr . tcp sport . tcp dport'),
    ('flowsu_tap1', 'ip saddr . ip daddr . udp sport . udp dport'),
    ('flowsu6_tap1', 'ip6 saddr . ip6 daddr . udp sport . udp dport'),
    ('flowsp_tap1', 'ip saddr . ip daddr . icmp type . icmp id'),
    ('flowsp6_tap1', 'ip6 saddr . ip6 daddr . icmpv6 type . icmpv6 id')])
def test_each_protocol_has_what_its_connections_differ_in(name, key):
    """UDP and ping took the long way alone."""
    text = script(state(port(1)))
    assert f'set {name} {{\ntypeof {key}\n' in text
    assert f' {key} @{name} fwd to "tap1"' in text and f' add @{name} {{ {key} }}' in text


def test_the_requests_of_ping_are_marked():
    text = rules.script('t', state(port(1)), {}, offload=True)
    assert f'icmp type echo-request iifname {{ "{BRIDGE}" }} ct direction original ct mark set' in text


def test_only_devices_that_are_there_have_chains():
    assert 'tap1' not in script(state(port(1), port(2)), ('tap2', TUNNEL))
    assert TUNNEL not in script(state(port(1)), ('tap1',))


def test_a_guest_that_is_at_two_places_has_none():
    moving = dataclasses.replace(OVERLAY, remotes=[['fa:16:3e:00:00:01', '192.0.2.2']])
    assert 'elements' not in script(state(port(1), overlays=[moving]))


def test_no_mark_of_a_range_is_taken_for_a_generation():
    ranged = port(1, pairs=[{'ip_address': '10.0.0.64/28', 'mac_address': None}])
    assert flow_offload.is_possible(state(port(2))) and not flow_offload.is_possible(state(ranged, port(2)))
    assert not flow_offload.is_possible(state(port(1), overlays=[]))


def test_packets_get_the_generation_if_offload_is_on():
    given = state(port(1))
    text = rules.script('t', given, {}, offload=True)
    generation = rules.generation(text)
    assert text.count(f'ct mark {generation:#x} meta mark set {generation:#x} accept') == 2
    plain = rules.script('t', given, {})
    assert 'meta mark set' not in plain and rules.generation(plain) == generation
    other = rules.script('t', state(port(1), port(2)), {}, offload=True)
    assert rules.generation(other) != generation
    assert rules.generation(rules.script('t', state(overlays=[]), {})) is None
