"""Trees of classes of tc: which ports are in them, at which rates."""
import json

from nova import conf as nova_conf
from nova.network.host import state as host_state
from nova.network.linux import flow_offload
from nova.network.linux import guarantees

TUNNELLED, TAGGED, FLAT = 'br00000000000a', 'br00000000000b', 'br00000000000c'


def port(number, bridge, kbps, **values):
    return host_state.Port(f'p{number}', f'tap{number}', f'fa:16:3e:00:00:0{number}', bridge, ['10.0.0.9'], [],
                           guaranteed_kbps=kbps, **values)


def state(*ports):
    return host_state.HostState(networks=[], ports=list(ports), rules={}, members={}, overlays=[
        host_state.Overlay('a', TUNNELLED, 7, 1450, None, [], [], []),
        host_state.Overlay('b', TAGGED, 8, 1500, None, [], [], [], vlan=5, physical_bridge='br-one')],
        tunnel='192.0.2.1')


class Run:
    """A host whose card eth0 is in the bridge br-one, which has the tunnel address."""

    def __init__(self):
        self.ran, self.present = [], False

    def __call__(self, *words, check=True, stdin=None):
        if words[:3] == ('tc', '-json', 'qdisc'):
            return json.dumps([{'kind': 'htb', 'handle': guarantees.HANDLE, 'dev': 'eth0', 'root': True}]
                              if self.present else [])
        if words[0] == 'cat':
            return '-1\n'
        self.present = self.present or words[:3] == ('tc', 'qdisc', 'replace')
        self.present = self.present and words[:3] != ('tc', 'qdisc', 'del')
        self.ran.append(' '.join(words))
        return ''

    def links(self, *words):
        if words[-1] == 'br-one':
            return [{'ifname': 'eth0'}, {'ifname': 'nr0123456789a'}]
        return [{'ifname': 'br-one', 'addr_info': [{'local': '192.0.2.1'}]}] if words[0] == 'address' else []


def made():
    conf = nova_conf.new(files=[], network__guaranteed_bandwidth=['one:6000:1', 'rp_tunnelled:4000:1'],
                         network__physical_networks={'one': 'br-one'}, network__tunnel_address='192.0.2.1')
    run = Run()
    return run, guarantees.Guarantees(conf, run)


def test_a_card_of_two_networks_has_the_ports_of_both():
    run, found = made()
    assert found.apply(state()) == {} and run.ran == []
    classes = found.apply(state(port(1, TUNNELLED, 1000), port(2, TAGGED, 2000), port(3, FLAT, 3000),
                                port(4, TUNNELLED, 4000, incoming=True), port(5, TUNNELLED, 0)))
    assert classes == {'tap1': '7676:1', 'tap2': '7676:2'}       # no class of what the host routes, or is elsewhere
    assert run.ran[0] == 'tc qdisc replace dev eth0 root handle 7676: htb default ffff'
    assert [line.partition(' burst')[0].partition('classid ')[2] for line in run.ran[1:]] == [
        '7676:fffe htb rate 10000kbit ceil 10000kbit', '7676:ffff htb rate 7000kbit ceil 10000kbit',
        '7676:1 htb rate 1000kbit ceil 10000kbit', '7676:2 htb rate 2000kbit ceil 10000kbit']


def test_only_differences_are_loaded():
    run, found = made()
    before = state(port(1, TUNNELLED, 1000), port(2, TAGGED, 2000))
    found.apply(before)
    run.ran.clear()
    found.apply(before)
    assert run.ran == []
    found.apply(state(port(1, TUNNELLED, 1500)))
    assert [line.partition(' htb')[0].rpartition(' ')[2] for line in run.ran] == ['7676:ffff', '7676:1', '7676:2']
    assert run.ran[-1] == 'tc class del dev eth0 classid 7676:2'
    run.ran.clear()
    found.apply(state())
    assert run.ran == ['tc qdisc del dev eth0 root']


def test_classes_of_a_network_that_lost_its_guarantee_are_removed():
    run, found = made()
    found.apply(state(port(1, TUNNELLED, 1000)))
    run.ran.clear()
    guarantees.Guarantees(nova_conf.new(files=[]), run).apply(state())
    assert run.ran == ['tc qdisc del dev eth0 root']


def test_the_rest_always_has_a_share():
    assert guarantees.tree(1000, {'1': 1000})[guarantees.OTHERS].rate == 10
    assert guarantees.tree(1000, {'1': 2000})['1'].ceiling == 2000


def test_guaranteed_ports_are_not_offloaded():
    assert flow_offload.is_eligible(port(1, TUNNELLED, 0)) and not flow_offload.is_eligible(port(1, TUNNELLED, 1))
