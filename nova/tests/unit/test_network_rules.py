"""The filters of a host as text, and the DHCP server's arguments."""
import dataclasses
import pytest

from nova import exception
from nova.network import group_rules
from nova.network import ipam
from nova.network.host import state as host_state
from nova.network.linux import address_ranges
from nova.network.linux import bridge
from nova.network.linux import dhcp
from nova.network.linux import rules
from nova.tests.support.network_rules import MAC
from nova.tests.support.network_rules import network
from nova.tests.support.network_rules import port
from nova.tests.support.network_rules import row
from nova.tests.support.network_rules import state
from nova.tests.support.network_rules import subnet


def chain(text, name):
    """Rules of one chain."""
    lines = [line.strip() for line in text.splitlines()]
    start = lines.index(f'chain {name} {{')
    return lines[start + 1:lines.index('}', start)]


def script(**values):
    return rules.script('t', state(**values), {'br0': ('10.0.0.1', 8775)})


@pytest.mark.parametrize('values, text', [
    ({}, 'meta nfproto ipv4 accept'),
    ({'protocol': 'tcp'}, 'ip protocol 6 accept'),
    ({'protocol': 'tcp', 'port_range_min': 22, 'port_range_max': 22}, 'ip protocol 6 tcp dport 22 accept'),
    ({'protocol': 'udp', 'port_range_min': 1, 'port_range_max': 9}, 'ip protocol 17 udp dport 1-9 accept'),
    ({'protocol': 'icmp', 'port_range_min': 8}, 'ip protocol 1 icmp type 8 accept'),
    ({'protocol': 'icmp', 'port_range_min': 3, 'port_range_max': 4},
     'ip protocol 1 icmp type 3 icmp code 4 accept'),
    ({'protocol': '99'}, 'ip protocol 99 accept'),
    ({'remote_ip_prefix': '10.1.0.0/16'}, 'ip saddr 10.1.0.0/16 accept'),
    ({'remote_ip_prefix': '10.1.0.0/16', 'direction': 'egress'}, 'ip daddr 10.1.0.0/16 accept'),
    ({'remote_group_id': 'a-b'}, 'ip saddr @members_ab accept'),
    ({'ethertype': 'IPv6'}, 'meta nfproto ipv6 accept'),
    ({'protocol': 'icmpv6', 'port_range_min': 1}, None),
    ({'ethertype': 'IPv6', 'protocol': 'icmp', 'port_range_min': 128},
     'meta nfproto ipv6 meta l4proto 58 icmpv6 type 128 accept'),
])
def test_security_group_rule_becomes_nft_text(values, text):
    assert rules.rule(row(**values)) == text


def test_replacing_is_one_script_that_works_with_and_without_tables():
    for family in ('bridge', 'inet'):
        lines = script().splitlines()
        assert lines.index(f'table {family} t') < lines.index(f'delete table {family} t') < lines.index(
            f'table {family} t {{')


def test_a_port_is_its_mac_and_addresses():
    found = chain(script(), 'from_tap1')
    assert found[0] == f'ether saddr != {MAC} drop' and found[-1] == 'drop'
    assert 'ether type ip ip saddr { 10.0.0.5 } accept' in found
    assert found.index('ether type ip udp sport 67 drop') < found.index(
        'ether type ip ip saddr { 10.0.0.5 } accept'
    )
    assert chain(script(), 'to_tap1')[-1] == 'drop'


def test_a_port_without_addresses_passes_nothing():
    assert chain(script(ports=[port(addresses=())]), 'to_tap1') == ['drop']
    assert not [rule for rule in chain(script(ports=[port(addresses=())]), 'from_tap1') if 'accept' in rule]


def test_a_port_without_groups_takes_and_sends_nothing():
    text = script(ports=[port(groups=())])
    assert chain(text, 'ingress_tap1') == chain(text, 'egress_tap1') == ['drop']


def test_groups_are_chains_that_ports_share():
    text = script(ports=[port(), port('tap2', ['10.0.0.6'])])
    assert chain(text, 'egress_tap1') == chain(text, 'egress_tap2') == ['jump egress_g1', 'drop']
    assert text.count('chain egress_g1 {') == 1
    assert '"br-a" . 10.0.0.5 : goto ingress_tap1, "br-a" . 10.0.0.6 : goto ingress_tap2' in text


def test_members_of_remote_groups_are_sets():
    assert 'elements = { 10.0.0.5, 10.0.0.6 }' in script(members={'x-y': ['10.0.0.5', '10.0.0.6']})
    assert 'set members_xy {' in script(members={'x-y': []})


def test_orphan_devices_are_dropped():
    text = rules.script('t', state(), {}, orphans=['tapx'])
    assert text.count('"tapx" : goto orphan') == 2 and chain(text, 'orphan') == ['drop']


def test_networks_are_kept_apart_and_from_the_hosts_metadata():
    text = script(
        networks=[network(), network('br-b', [subnet(cidr='10.1.0.0/24', gateway='10.1.0.1')], False)]
    )
    found = chain(text, 'forward_egress')
    assert (
        'iifname "br-a" oifname { "br-b" } drop' in found
        and 'iifname "br-b" oifname { "br-a" } drop' in found
    )
    assert 'iifname { "br-a", "br-b" } ip daddr 169.254.0.0/16 drop' in found


def overlays(count):
    return [host_state.Overlay(f'n{number}', f'br{number:012x}', number + 1, 1450, MAC, [host_state.OverlaySubnet(
        '10.0.0.0/24', '10.0.0.1', '10.0.0.2', [], [], None)], [], []) for number in range(count)]


def between(count, **values):
    return rules.script('t', dataclasses.replace(state(**values), overlays=overlays(count), tunnel='192.0.2.1'), {})


def test_a_packet_meets_as_many_rules_however_many_networks_the_host_has():
    """Three rules a network stood before each packet that is no reply: 300 with 100 networks."""
    few, many = between(2), between(100)
    for name in ('egress_check', 'ingress_check', 'basics', 'forward_egress', 'zones'):
        assert len(chain(few, name)) == len(chain(many, name)) <= 9, name
    for name in ('egress_check', 'ingress_check'):
        assert chain(many, name)[1] == 'ct direction reply ct state established accept'
    assert '"br000000000001" . 10.0.0.2' in chain(many, 'basics')[0]
    assert chain(few, 'forward_egress')[1:4] == [
        'iifname . oifname vmap { "br000000000000" . "br000000000000" : goto egress_check, '
        '"br000000000001" . "br000000000001" : goto egress_check }',
        *(f'{name} {{ "br000000000000", "br000000000001" }} drop' for name in ('iifname', 'oifname'))]


def test_connection_marks_change_with_the_rules_only():
    first, again, more, fewer = (between(1, **values) for values in (
        {}, {}, {'rules': {'g-1': [row('egress'), row()]}}, {'members': {'x': ['10.0.0.9']}}))
    marks = [chain(text, 'egress_check')[0] for text in (first, again, more, fewer)]
    assert marks[0] == marks[1] and len(set(marks)) == 3
    for text, mark in zip((first, more), (marks[0], marks[2]), strict=True):
        assert chain(text, 'ingress_check')[0] == mark and mark.endswith(' accept')
        seen, sent = mark.split()[2], f'{int(mark.split()[2], 16) ^ 1:#x}'
        # not what rules may tell apart and the tracking of connections may not: other ICMP, other protocols
        assert chain(text, 'sent') == [
            *(f'{those} iifname {{ "br000000000000" }} ct direction original ct mark set {sent}' for those in (
                'meta l4proto { tcp, udp }', 'icmp type echo-request', 'icmpv6 type echo-request')), 'accept']
        # a packet that met the sender's rules before a change, and the receiver's behind it, marks nothing
        assert chain(text, 'seen') == [f'ct mark {sent} ct mark set {seen}', 'accept']
    assert chain(more, 'ingress_g1') == ['meta nfproto ipv4 goto seen']
    assert chain(more, 'egress_g1') == ['meta nfproto ipv4 goto sent']
    lines = rules.changes('t', first, more).splitlines()                        # and few rules are loaded for it
    assert {line.split()[4] for line in lines} == {'ingress_g1', 'sent', 'seen', 'egress_check', 'ingress_check'}
    assert 'ct mark' not in script()


def ranged(*addresses, device='tap1', mac=MAC):
    return dataclasses.replace(port(device, mac=mac), pairs=[
        {'ip_address': each, 'mac_address': None} for each in addresses])


def test_packets_from_an_allowed_range_are_marked_as_those_of_the_port():
    text = between(1, ports=[ranged('10.1.0.0/16', '10.1.2.0/24', 'fd00:1::/61'), port('tap2', ['10.1.0.9'])])
    sent = chain(text, 'from_tap1')
    mark = next(each for each in sent if 'ether type ip ip saddr { 10.1.0.0/16 } ' in each).split()[-2]
    assert f'ether type ip ip saddr {{ 10.1.0.0/16 }} meta mark set {mark} accept' in sent
    assert f'ether type ip6 ip6 saddr {{ fd00:1::/61 }} meta mark set {mark} accept' in sent
    assert sent.index('ether type ip udp sport 67 drop') < sent.index(
        f'ether type ip ip saddr {{ 10.1.0.0/16 }} meta mark set {mark} accept')
    assert f'ether type arp arp saddr ether {MAC} arp saddr ip {{ 0.0.0.0, 10.0.0.5, 10.1.0.0/16 }} accept' in sent
    assert [each.split('nd-neighbor-advert ')[1].split(' ip6')[0] for each in sent if 'nd-neighbor-advert @' in each][
        -1] == f'@th,64,61 {0xfd00000100000000 >> 3:#x}'
    number = int(mark, 16) >> 16
    assert 1 < number < 1 << 16 and mark == f'{number << 16:#010x}'
    assert f'meta mark & 0xffff0000 vmap {{ {mark} : goto egress_tap1 }}' in chain(text, 'egress_check')
    assert f'meta mark & 0x0000ffff vmap {{ {number:#010x} : goto ingress_tap1 }}' in chain(text, 'ingress_check')
    # the bridge's choice of the device, whatever the MAC: a frame to all of them is for the range, too
    assert chain(text, 'wide_receivers')[1:] == ['oifname vmap { "tap1" : goto wide_tap1 }']
    assert chain(text, 'wide_tap1')[:2] == [
        'ether type ip ip daddr { 10.1.0.0/16 } meta mark & 0x0000ffff != 0x00000001 drop',
        f'ether type ip ip daddr {{ 10.1.0.0/16 }} meta mark set meta mark & 0xffff0000 | {number:#010x}']
    # no connection of another guest's stands for such a packet, and none takes its mark along to the network of hosts
    assert all(chain(text, name)[0].startswith('meta mark 0 ct mark ') for name in ('egress_check', 'ingress_check'))
    assert chain(text, 'to_vx' + '0' * 12)[0] == 'meta mark set 0'
    assert 'meta mark' not in between(1)


def test_its_own_address_is_none_of_a_ports_range():
    text = between(1, ports=[ranged('10.0.0.0/24'), port('tap2', ['10.0.0.9'])])
    for name, of_mac in (('wide_tap1', ''), ('wide_followed', f'ether daddr {MAC} ')):
        assert f'{of_mac}ether type ip ip daddr {{ 10.0.0.5 }} return' in chain(text, name)[:2]


def test_connections_of_ranges_have_zones_that_no_network_has():
    assert address_ranges.zones({'a': 1, 'b': 2}) == {'a': 65534, 'b': 65533}
    found = address_ranges.zones({'a': 65535, 'b': 1, 'c': 65534})
    assert len({0, 65535, 1, 65534, *found.values()}) == 7


def test_numbers_of_ports_with_ranges_are_others_and_stay():
    many = [ranged('10.1.0.0/16', device=f'tap{number}') for number in range(300)]
    found = address_ranges.numbers(many)
    assert len(set(found.values())) == 300 and all(1 < number < 1 << 16 for number in found.values())
    assert address_ranges.numbers(many[7:8])['tap7'] == found['tap7']


def test_frames_between_hosts_are_not_followed_as_connections_of_the_host():
    text = between(1)
    assert chain(text, 'tunnels')[1:] == ['udp dport 4789 ip saddr 192.0.2.1 notrack']
    assert chain(text, 'zones')[1] == (
        'udp dport 4789 ip daddr 192.0.2.1 iifname != { "br000000000000" } notrack accept')     # guests' are followed


def test_tcp_and_udp_of_a_guest_are_let_through_early():
    assert chain(script(), 'from_tap1')[1:3] == [f'ether type ip {kind} ip saddr {{ 10.0.0.5 }} accept'
                                                 for kind in ('ip protocol tcp', 'udp sport != { 67, 68 }')]


def test_no_network_makes_valid_tables():
    assert 'masquerade' not in rules.script('t', host_state.HostState([], [], {}, {}), {})


def test_table_name_follows_the_bridge():
    assert rules.table_name('br-nova') == 'nova_br_nova'


def test_bridge_address_is_stable_and_unicast():
    assert bridge.mac_of('11111111-2222-3333-4444-555555555555') == '02:11:11:11:11:22'


def test_dnsmasq_gets_ranges_routes_and_dns(tmp_path):
    server = dhcp.Dnsmasq(None, 'br-a', tmp_path)
    words = server.arguments(
        network(subnets=[subnet(routes=[{'destination': '10.9.0.0/16', 'nexthop': '10.0.0.9'}])]),
        600,
        lambda _: ['9.9.9.9'],
    )
    assert '--dhcp-range=set:subnet0,10.0.0.0,static,255.255.255.0,600s' in words
    assert '--dhcp-option=tag:subnet0,option:dns-server,9.9.9.9' in words
    assert '--dhcp-option=option:mtu,1450' in words and '--interface=br-a' in words
    assert (
        '--dhcp-option=tag:subnet0,option:classless-static-route,10.9.0.0/16,10.0.0.9,0.0.0.0/0,10.0.0.1'
        in words
    )


def test_pid_file_of_another_process_is_not_ours(tmp_path):
    server = dhcp.Dnsmasq(None, 'br-a', tmp_path)
    server.pid_file.write_text('1')
    assert server.pid() is None
    server.stop()


# ---- the pure parts of groups and addresses -------------------------------------------

@pytest.mark.parametrize(
    'given, stored',
    [
        ('TCP', 'tcp'),
        ('6', 'tcp'),
        ('006', 'tcp'),
        ('ipv6-icmp', 'icmpv6'),
        ('ipv6-frag', '44'),
        ('any', None),
        ('0', None),
        (None, None),
        ('99', '99'),
        ('1', 'icmp'),
    ],
)
def test_protocol_names_become_canonical(given, stored):
    assert group_rules.canonical_protocol(given) == stored


@pytest.mark.parametrize('given', ['x', '256', '1.5', '²', '-1', '-2', '', '0006', 'tcp drop'])
def test_unknown_protocol_is_refused(given):
    with pytest.raises(exception.InvalidInput):
        group_rules.canonical_protocol(given)


def test_pools_leave_the_gateway_out():
    cidr = ipam.parse_cidr('10.0.0.0/29')
    pools = ipam.default_pools(cidr, cidr.network_address + 3)
    assert pools == [{'start': '10.0.0.1', 'end': '10.0.0.2'}, {'start': '10.0.0.4', 'end': '10.0.0.6'}]
    assert ipam.default_pools(cidr, None) == [{'start': '10.0.0.1', 'end': '10.0.0.6'}]


# ---- what differs between two scripts

def one_more():
    """The state with one more rule of the group."""
    return state(rules={'g-1': [row('egress'), row(protocol='tcp', port_range_min=7000, port_range_max=7000)]})


def test_a_rule_more_changes_one_chain():
    old, new = (rules.script('t', each, {}) for each in (state(), one_more()))
    lines = rules.changes('t', old, new).splitlines()
    assert lines[0] == 'flush chain inet t ingress_g1' and 'add rule inet t ingress_g1 ' in lines[-1]
    assert 'dport 7000 accept' in lines[-1] and all(' ingress_g1' in line for line in lines)
    assert rules.changes('t', new, new) == ''


def test_members_change_a_set():
    old, new = (rules.script('t', state(members={'g2': members}), {}) for members in ([], ['10.0.0.7', 'fd00::7']))
    assert rules.changes('t', old, new) == (
        'flush set inet t members_g2\nadd element inet t members_g2 { 10.0.0.7 }\n'
        'flush set inet t members6_g2\nadd element inet t members6_g2 { fd00::7 }\n')
    assert rules.changes('t', new, old) == 'flush set inet t members_g2\nflush set inet t members6_g2\n'


def test_changes_beyond_rules_load_the_whole_script():
    old = rules.script('t', state(), {})
    for new in (rules.script('t', state(), {}, orphans=['tapx']), rules.script('t', state(rules={}), {}),
                rules.script('t', state(), {'br0': ('10.0.0.1', 8775)}), 'something else\n'):
        assert rules.changes('t', old, new) is None


# ---- stateless groups

def test_packets_of_ports_with_stateless_groups_are_checked_before_any_connection():
    values = {'ports': [port('tap1', ['10.0.0.2'], groups=['g'])], 'rules': {'g': []}, 'stateless': ['g']}
    text = script(**values)
    assert chain(text, 'ingress_check')[:2] == [
        'oifname . ip daddr @stateless goto ingress_stateless',
        'oifname . ip6 daddr @stateless6 goto ingress_stateless']
    assert chain(text, 'egress_check')[0] == 'iifname . ip saddr @stateless goto egress_stateless'
    assert not any('ct ' in rule for rule in (*chain(text, 'ingress_stateless'), *chain(text, 'egress_stateless')))
    assert 'elements = { "br-a" . 10.0.0.2 }' in text.partition('set stateless {')[2].partition('}\n')[0] + '}'
    for other in ({'stateless': []}, {'ports': [port('tap1', ['10.0.0.2'], groups=['g', 'h'])]}):
        assert '_stateless' not in script(**{**values, **other})


def test_connections_that_a_stateless_group_accepts_get_no_mark():
    row = {'direction': 'ingress', 'ethertype': 'IPv4', 'protocol': 'tcp', 'port_range_min': 22, 'port_range_max': 22,
           'remote_ip_prefix': None, 'remote_group_id': None}
    values = {'ports': [port('tap1', ['10.0.0.2'], groups=['g'])], 'rules': {'g': [row]}}
    assert [chain(between(1, **values, stateless=known), 'ingress_g')[0].rpartition('22 ')[2]
            for known in ([], ['g'])] == ['goto seen', 'accept']
