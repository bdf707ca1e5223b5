"""Trunks on a host: devices, filters, and the checks of the privileged process."""
import dataclasses
import json

import pytest

from nova.network.host import state
from nova.network.linux import flow_offload
from nova.network.linux import rules
from nova.network.linux import trunks
from nova.network.linux import validators
from nova.objects import network_info

PARENT, FIRST, SECOND = (f'{digit * 8}-aaaa-4bbb-8ccc-{digit * 12}' for digit in '123')


def trunk(*vlans):
    return state.Trunk(PARENT, 'br111111111111', 1450, [
        state.Subport(port, vlan, 'br222222222222', 1400) for port, vlan in zip((FIRST, SECOND), vlans)])


def host(*placed):
    return state.HostState([], [], {}, {}, trunks=list(placed))


def test_names_are_distinct_and_fit_into_15_characters():
    names = [*trunks.guest_devices(trunk()), trunks.bridge(trunk()), network_info.trunk_devname(PARENT)]
    assert all(len(name) <= 15 for name in names) and len(set(names)) == 4


def test_device_of_a_parent_has_no_flow_offload():
    plain = state.Port(PARENT, network_info.devname(PARENT), 'fa:16:3e:00:00:01', 'br1', ['10.0.0.5'], [])
    parent = dataclasses.replace(plain, device=network_info.trunk_devname(PARENT))
    assert [flow_offload.is_eligible(port) for port in (plain, parent)] == [True, False]


def test_host_drops_frames_that_the_bridge_of_a_guest_would_deliver_to_it():
    text = rules.script('nova_br', host(trunk()), {})
    chain = text.partition('chain input {')[2].partition('}\n')[0]
    assert all(f'"{device}"' in chain for device in trunks.guest_devices(trunk()))
    assert 'chain input' not in rules.script('nova_br', host(), {})


def test_packets_are_not_tracked_in_the_bridge_of_a_guest():
    """Otherwise packets of a parent in a flat network are translated there."""
    text = rules.script('nova_br', host(trunk()), {})
    chain = text.partition('chain trunks {')[2].partition('}\n')[0]
    assert f'iifname {{ "{trunks.bridge(trunk())}" }} notrack' in chain
    assert 'chain trunks' not in rules.script('nova_br', host(), {})


def test_state_passes_the_checks_of_the_privileged_process():
    check = validators.state('br-default', [])
    given = state.as_json(host(trunk(5)))
    assert check(json.loads(json.dumps(given))).trunks == [trunk(5)] == state.from_json(given).trunks
    bad = dataclasses.replace(trunk(5), port='x; reboot')
    for each in (bad, dataclasses.replace(trunk(5), bridge='eth0'), trunk(0), trunk(4095)):
        with pytest.raises(ValueError):
            check(state.as_json(host(each)))
