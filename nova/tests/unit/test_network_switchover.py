"""Announcements of guests that arrive, and what they change."""
import dataclasses
import struct

import pytest

from nova.network import switchover
from nova.network.host import state as host_state
from nova.network.linux import validators
from nova.network.linux import frames
from nova.network.linux import overlay
from nova.network.linux import runner

MAC, BYTES = 'fa:16:3e:00:00:01', bytes.fromhex('fa163e000001')
ANNOUNCEMENT = b'\xff' * 6 + BYTES + bytes.fromhex('80350001080006040003') + BYTES + bytes(4) + BYTES + bytes(4)
NETWORK = host_state.Overlay('n1', 'br0123456789ab', 7, 1450, None, [], [], [[MAC, '192.0.2.1']],
                             migrating=[[MAC, '192.0.2.2']])
PORT = host_state.Port('p', 'tap1', MAC, 'br0123456789ab', ['10.0.0.1'], [])


def test_an_announcement_names_its_sender():
    assert switchover.announced_mac(ANNOUNCEMENT.ljust(60, b'\0')) == MAC


@pytest.mark.parametrize('frame', [
    b'', ANNOUNCEMENT[:20], ANNOUNCEMENT[:12] + b'\x08\x06' + ANNOUNCEMENT[14:],
    ANNOUNCEMENT[:21] + b'\x04' + ANNOUNCEMENT[22:], ANNOUNCEMENT[:22] + bytes(6) + ANNOUNCEMENT[28:]])
def test_other_frames_announce_nothing(frame):
    """Too short, ARP, an answer, and one about another MAC than its sender's."""
    assert switchover.announced_mac(frame) is None


@pytest.mark.parametrize(('address', 'size'), [('192.0.2.2', 4), ('2001:db8::2', 16)])
def test_a_switch_is_one_message_for_each_table(address, size):
    own, of_bridge = switchover.requests(9, MAC, address)
    for message, flags in ((own, 0x02), (of_bridge, 0x04)):
        length, kind = struct.unpack_from('=IH', message)
        assert (length, kind) == (len(message), 28)
        assert struct.unpack_from('=BBHiHBB', message, 16)[3] == 9
        assert struct.unpack_from('=BBHiHBB', message, 16)[5] == flags and BYTES in message
    assert len(own) == len(of_bridge) + 4 + size


class Commands(runner.Runner):
    """Commands of a host whose table has some entries."""

    def __init__(self, entries):
        super().__init__()
        self.entries, self.changes = entries, []

    def __call__(self, *words, stdin=None, check=True):
        if 'show' in words and words[0] == 'bridge':
            return self.entries
        if 'show' in words:
            return '[{"mtu": 1450, "flags": ["UP"], "linkinfo": {"info_data": {"id": 7, "local": "192.0.2.3"}}}]'
        self.changes += stdin.splitlines() if stdin else [' '.join(words)]
        return ''


def changes(state, entries='[]', switched=None):
    run = Commands(entries)
    overlay.ensure(run, state, '192.0.2.3', lambda device: switched or {})
    return [each for each in run.changes if MAC in each]


def test_frames_go_where_a_guest_is_until_it_runs_elsewhere():
    there = f'fdb replace {MAC} dev vx0123456789ab dst 192.0.2.{{}} self permanent'
    behind = f'fdb replace {MAC} dev vx0123456789ab master static'
    assert changes(NETWORK) == [there.format(1), behind]
    assert changes(NETWORK, switched={MAC: '192.0.2.2'}) == [there.format(2), behind]
    # a switch of an earlier migration counts no more
    assert changes(dataclasses.replace(NETWORK, migrating=[]), switched={MAC: '192.0.2.2'}) == [there.format(1), behind]


def test_a_guest_that_leaves_this_host_is_behind_its_own_device_until_then():
    here = dataclasses.replace(NETWORK, remotes=[])
    there = f'fdb replace {MAC} dev vx0123456789ab dst 192.0.2.2 self permanent'
    assert changes(here) == [there]
    assert changes(here, switched={MAC: '192.0.2.2'}) == [there, f'fdb replace {MAC} dev vx0123456789ab master static']


def test_every_host_that_expects_it_gets_what_is_for_all():
    run = Commands('[]')
    overlay.ensure(run, NETWORK, '192.0.2.3')
    assert sorted(each.split()[6] for each in run.changes if '00:00:00:00:00:00' in each) == ['192.0.2.1', '192.0.2.2']


@pytest.mark.parametrize('values', [{}, {'port_security': False}])
def test_a_guest_is_announced_only_where_it_arrives(values):
    """One that announced itself where it runs would have its frames sent to where it does not run."""
    stays, arrives = (frames.from_guest(dataclasses.replace(PORT, incoming=arriving, **values))
                      for arriving in (False, True))
    if values:
        assert 'ether type 0x8035 drop' in stays and f'ether type 0x8035 ether saddr != {MAC} drop' in arrives
    else:
        assert not any('0x8035' in rule for rule in stays) and stays[-1] == 'drop'
        assert f'ether saddr {MAC} ether type 0x8035 @nh,48,16 3 accept' in arrives


def test_a_state_with_a_migration_reaches_the_privileged_process_unchanged():
    state = host_state.HostState([], [dataclasses.replace(PORT, incoming=True, migration=['192.0.2.1', KEY])], {},
                                 {}, [NETWORK])
    made = host_state.as_json(state)
    assert host_state.from_json(made) == validators.state('br', ())(made) == state


# ---- connections that go along

KEY, OTHER = '00' * 32, '11' * 32
FLOW = [6, '10.0.0.1', '192.0.2.80', 40000, 80, 300]


def test_connections_have_the_signature_of_their_move():
    datagram = switchover.signed(KEY, [FLOW])
    assert switchover.verified(KEY, datagram) == [FLOW]
    assert switchover.verified(OTHER, datagram) == switchover.verified(KEY, datagram[:-1] + b' ') == []
    assert switchover.verified(KEY, b'') == switchover.verified(KEY, datagram[:32]) == []
    assert len(switchover.verified(KEY, switchover.signed(KEY, [FLOW] * 99))) == switchover.FLOWS_OF_MESSAGE
    long = [17, 'fd00:1111:2222:3333:4444:5555:6666:7777', 'fd00:1111:2222:3333:4444:5555:6666:8888', 65535, 65535,
            432000]
    assert len(switchover.signed(KEY, [long] * switchover.FLOWS_OF_MESSAGE)) < switchover.DATAGRAM


@pytest.mark.parametrize('flow', [FLOW, [17, 'fd00::9', 'fd00::1', 5353, 53, 30]])
def test_a_connection_arrives_as_it_was_sent(flow):
    message = switchover.new_flow(flow, 7, ['10.0.0.1', 'fd00::1'])
    length, kind, flags = struct.unpack_from('=IHH', message)
    assert (length, kind, flags & 0x600) == (len(message), 0x100, 0x600)             # made, and none that is there
    assert switchover.flow_of(message[20:], 7) == flow
    assert switchover.flow_of(message[20:], 8) is None, 'another network'


@pytest.mark.parametrize('flow', [
    [6, '10.0.0.2', '192.0.2.80', 40000, 80, 300], [1, *FLOW[1:]], [6, 'fd00::9', *FLOW[2:]],
    [6, '10.0.0.1', 'x', 1, 2, 3],
    [6, '10.0.0.1', '192.0.2.80', -1, 80, 300], [6, '10.0.0.1', '192.0.2.80', 70000, 80, 300], FLOW[:5], 'x', None, 7,
    [6, '10.0.0.1', '192.0.2.80', '80', 80, 300], [6, 1, 2, 3, 4, 5]])
def test_flows_that_are_not_of_the_guest_are_ignored(flow):
    """Of another guest, of another protocol, of two versions of IP, and none at all."""
    assert switchover.new_flow(flow, 7, ['10.0.0.1']) is None


def test_a_connection_that_had_no_answer_or_is_translated_stays():
    message = switchover.new_flow(FLOW, 7, ['10.0.0.1'])[20:]
    known = struct.pack('=HH', 8, 3) + (0xe).to_bytes(4, 'big')
    assert known in message
    assert switchover.flow_of(message.replace(known, struct.pack('=HH', 8, 3) + (0x8).to_bytes(4, 'big')), 7) is None
    back = message.index(bytes([192, 0, 2, 80]), message.index(bytes([192, 0, 2, 80])) + 4)
    assert switchover.flow_of(message[:back] + bytes([192, 0, 2, 81]) + message[back + 4:], 7) is None


def test_the_kernel_is_asked_for_the_addresses_of_a_guest():
    """For both ends of IPv4, and for all of IPv6 once."""
    found = switchover.dump_requests(['10.0.0.1', 'fd00::1', 'fd00::2'])
    assert [struct.unpack_from('=I', each)[0] for each in found] == [len(each) for each in found]
    assert [bytes([10, 0, 0, 1]) in each for each in found] == [True, True, False]
    assert [each[16] for each in found] == [2, 2, 10]
    assert len(switchover.dump_requests(['10.0.0.1'])) == 2
