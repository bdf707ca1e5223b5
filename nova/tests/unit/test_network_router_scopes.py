"""Address scopes and ranges of ports in the filters of a router."""
import dataclasses

from nova.network.host import state
from nova.network.linux import router

A, B = '00000000-0000-0000-0000-00000000000a', '00000000-0000-0000-0000-00000000000b'


def interface(number, four='', six=''):
    return state.RouterInterface(port=f'{number}0000000-0000', mac=f'fa:16:3e:00:00:0{number}', bridge=f'br{number}',
                                 mtu=1450, addresses=[f'10.{number}.0.1/24'], scopes=[four, six])


def made(*internal, external=None, **more):
    return state.Router(id='r', up=True, internal=list(internal), external=external, gateway=None, snat=True, routes=[],
                        floating_ips=[], port_forwardings=[], **more)


def chain(text, name):
    body = text.partition(f'  chain {name} {{\n')[2].partition('  }')[0]
    return [line.strip() for line in body.splitlines()[1:]]


def test_networks_without_scopes_have_no_chain():
    assert 'chain scopes' not in router.script(made(interface(1), interface(2)))


def test_packets_between_scopes_are_dropped_unless_they_are_translated():
    text = router.script(made(interface(1, A), interface(2, A), interface(3, B), interface(4)))
    drop = 'meta nfproto ipv4 ct status & (snat | dnat) == 0 drop'
    one, two, three, four = (f'"nr{number}0000000-00"' for number in range(1, 5))
    assert chain(text, 'scopes') == [
        f'iifname {{ {one}, {two} }} oifname {{ {three}, {four} }} {drop}',
        f'iifname {{ {three} }} oifname {{ {one}, {two}, {four} }} {drop}',
        f'iifname {{ {four} }} oifname {{ {one}, {two}, {three} }} {drop}']


def test_scopes_of_the_ip_versions_are_separate():
    text = router.script(made(interface(1, A, B), interface(2, A)))
    assert all('nfproto ipv6' in rule for rule in chain(text, 'scopes')) and len(chain(text, 'scopes')) == 2


def test_local_instances_of_distributed_routers_use_no_connection_state():
    text = router.script(made(interface(1, A), interface(2, B), role=state.DVR_LOCAL))
    assert len(chain(text, 'scopes')) == 2 and 'ct ' not in ''.join(chain(text, 'scopes'))


def test_addresses_in_the_scope_of_the_external_network_are_not_translated():
    outside = dataclasses.replace(interface(9, A), addresses=['172.24.4.7/24'])
    text = router.script(made(interface(1, A), interface(2, B), external=outside))
    away, inside = '"nr90000000-00"', '{ "nr10000000-00" }'
    assert chain(text, 'postrouting')[:2] == [
        f'oifname {away} iifname {inside} meta nfproto ipv4 return',
        f'oifname {away} meta nfproto ipv4 ip saddr != 172.24.4.7 snat ip to 172.24.4.7']
    assert f'iifname {away} oifname {inside} meta nfproto ipv4 accept' in chain(text, 'forward')
    assert 'return' not in router.script(made(interface(1), external=dataclasses.replace(outside, scopes=['', ''])))


def test_ranges_of_ports_keep_or_shift_the_port():
    ranges = [['172.24.4.9', 'tcp', 1200, 1299, '10.1.0.5', 1200], ['172.24.4.9', 'udp', 1300, 1301, '10.1.0.5', 2300]]
    assert chain(router.script(made(interface(1), port_ranges=ranges)), 'prerouting') == [
        'ip daddr 172.24.4.9 tcp dport 1200-1299 dnat ip to 10.1.0.5',
        'ip daddr 172.24.4.9 udp dport 1300-1301 dnat ip to 10.1.0.5:udp dport map { 1300 : 2300, 1301 : 2301 }']
