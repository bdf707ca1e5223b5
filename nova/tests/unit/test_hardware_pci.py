"""PCI devices: which are for guests, what names mean, which a guest gets, and what stays free beside it."""
import collections
import dataclasses
import json

import hypothesis
import pytest
from hypothesis import strategies as st

from nova import exception
from nova.hardware import pci_pools
from nova.hardware import pci_spec
from nova.objects import numa
from nova.objects import pci

PF = pci.Device('0000:0a:00.0', '8086', '154d', pci.PHYSICAL, 0, devname='eth1')
VFS = [pci.Device(f'0000:0a:00.{number}', '8086', '10ed', pci.VIRTUAL, 0, PF.address, 'eth1') for number in (1, 2, 3)]
GPU = pci.Device('0001:81:1f.0', '10de', '20b0', numa_node=1)
DEVICES = [PF, *VFS, GPU]


def specs(*items):
    return pci_spec.device_specs([json.dumps(item) for item in items])


def admitted(*items):
    return [device.address[5:] for device in pci_spec.admitted(specs(*items), DEVICES)]


@pytest.mark.parametrize('spec, expected', [
    ({'vendor_id': '8086', 'product_id': '154d'}, ['0a:00.0']),
    ({'vendor_id': '8086'}, ['0a:00.0', '0a:00.1', '0a:00.2', '0a:00.3']),
    ({'vendor_id': '0x8086', 'product_id': '10ED'}, ['0a:00.1', '0a:00.2', '0a:00.3']),
    ({'vendor_id': '*', 'product_id': '20b0'}, ['81:1f.0']),
    ({}, ['0a:00.0', '0a:00.1', '0a:00.2', '0a:00.3', '81:1f.0']),
    ({'address': '*:81:*.*'}, ['81:1f.0']), ({'address': '0001:81:1f.0'}, ['81:1f.0']),
    ({'address': '81:1f.0'}, ['81:1f.0']), ({'address': '1:81:1F.0'}, ['81:1f.0']), ({'address': ':81:.'}, ['81:1f.0']),
    ({'address': '0000:0a:00.2'}, ['0a:00.2']),
    ({'address': '0000:0a:00.0'}, ['0a:00.0', '0a:00.1', '0a:00.2', '0a:00.3']),       # its functions as well
    ({'address': '0000:0a:00.0', 'product_id': '10ed'}, ['0a:00.1', '0a:00.2', '0a:00.3']),
    ({'address': {'domain': '.*', 'bus': '0a', 'slot': '00', 'function': '[1-2]'}}, ['0a:00.1', '0a:00.2']),
    ({'address': {'bus': '81'}}, ['81:1f.0']), ({'address': {'function': '[2-9]'}}, ['0a:00.2', '0a:00.3']),
    ({'devname': 'eth1'}, ['0a:00.0', '0a:00.1', '0a:00.2', '0a:00.3']),
    ({'devname': 'eth1', 'product_id': '154d'}, ['0a:00.0']), ({'devname': 'eth2'}, []),
    ({'vendor_id': '1234'}, [])])
def test_device_spec_admits_matching_devices(spec, expected):
    assert admitted(spec) == expected


def test_a_value_may_be_a_list_and_the_first_that_admits_names_the_tags():
    values = specs([{'product_id': '10ed', 'physical_network': 'a', 'trusted': 'TRUE', 'traits': 'B, A'}],
                   {'vendor_id': '8086', 'physical_network': 'b'})
    found = {device.address: device.tags for device in pci_spec.admitted(values, DEVICES)}
    assert found == {PF.address: {'physical_network': 'b'}, **{
        device.address: {'physical_network': 'a', 'trusted': 'true', 'traits': 'A,B'} for device in VFS}}


@pytest.mark.parametrize('value', [
    '', '{', '7', '[7]', '{"vendor_id": "80"}', '{"vendor_id": 8086}', '{"product_id": "80867"}', '{"address": "x"}',
    '{"address": "0000:0a:20.0"}', '{"address": "0000:0a:00.8"}', '{"address": "10000:0a:00.0"}', '{"address": 3}',
    '{"address": "0000:0a:00.0", "devname": "eth1"}', '{"adress": "*:0a:*.*"}', '{"address": {"bus": "["}}',
    '{"address": {"bus": 3}}', '{"address": {"buss": "0a"}}', '{"physical_network": 3}', '{"address": "0a:0g.1"}'])
def test_malformed_device_spec_is_refused(value):
    with pytest.raises(ValueError):
        pci_spec.device_specs([value])


# ---- names -------------------------------------------------------------------

def aliases(*items):
    return pci_spec.aliases([json.dumps(item) for item in items])


NIC = {'name': 'nic', 'vendor_id': '8086', 'product_id': '154d', 'device_type': 'type-PF', 'numa_policy': 'preferred'}


def test_aliases_with_equal_names_are_alternatives():
    found = aliases(NIC, dict(NIC, product_id='154e'), {'name': 'gpu', 'vendor_id': '10DE'})
    assert found == {
        'nic': pci_spec.Alias('nic', ({'dev_type': 'type-PF', 'vendor_id': '8086', 'product_id': '154d'},
                                      {'dev_type': 'type-PF', 'vendor_id': '8086', 'product_id': '154e'}), 'preferred'),
        'gpu': pci_spec.Alias('gpu', ({'dev_type': 'type-PCI', 'vendor_id': '10de'},), 'legacy')}
    assert pci_spec.aliases([json.dumps([NIC, {'name': 'other'}])]).keys() == {'nic', 'other'}


@pytest.mark.parametrize('change', [
    {'name': ''}, {'name': 'a,b'}, {'name': 'a:b'}, {'name': None}, {'name': 'x' * 257}, {'vendor_id': 'intel'},
    {'device_type': 'PF'}, {'numa_policy': 'near'}, {'capability_type': 'usb'}, {'address': '*:0a:*.*'},
    {'traits': ['A']}])
def test_malformed_alias_is_refused(change):
    with pytest.raises(ValueError):
        aliases(dict(NIC, **change))


@pytest.mark.parametrize('change', [{'device_type': 'type-VF'}, {'numa_policy': 'legacy'}])
def test_alternatives_must_agree(change):
    with pytest.raises(ValueError, match='nic'):
        aliases(NIC, dict(NIC, **change))


def requests(text, properties=None, **extra):
    flavor = {'extra_specs': {'pci_passthrough:alias': text, **extra} if text else extra}
    return pci_spec.requests(aliases(NIC, {'name': 'gpu', 'vendor_id': '10de'}), flavor, properties or {})


def test_flavor_alias_becomes_pci_requests():
    assert requests(None) == []
    found = requests('nic:2, gpu:1')
    assert [(each.alias_name, each.count, each.numa_policy) for each in found] == [
        ('nic', 2, 'preferred'), ('gpu', 1, 'legacy')]
    assert found[1].spec == ({'dev_type': 'type-PCI', 'vendor_id': '10de'},)
    assert pci.load_requests(json.loads(json.dumps(pci.dump(found)))) == found


def test_the_policy_of_flavor_or_image_is_that_of_all_devices():
    assert {each.numa_policy for each in requests('nic:1,gpu:1', {'hw_pci_numa_affinity_policy': 'socket'})} == {
        'socket'}
    assert requests('nic:1', **{'hw:pci_numa_affinity_policy': 'required'})[0].numa_policy == 'required'


@pytest.mark.parametrize('text', ['nic', 'nic:', 'nic:0', 'nic:x', ':1', 'other:1', 'nic:1,', 'nic:1;gpu:1', 'nic:-1'])
def test_malformed_pci_request_of_a_flavor_is_refused(text):
    with pytest.raises(exception.InvalidInput):
        requests(text)


# ---- pools -------------------------------------------------------------------

def request(count=1, policy='legacy', request_id=None, **spec):
    return pci.Request(count, (spec,), policy, request_id=request_id)


def test_pools_count_what_is_available():
    devices = [*DEVICES, dataclasses.replace(GPU, address='0001:82:00.0', numa_node=None)]
    found = pci_pools.pools(devices)
    assert sorted((pool.product_id, pool.numa_node is None, pool.count, pool.tags['dev_type']) for pool in found) == [
        ('10ed', False, 3, 'type-VF'), ('154d', False, 1, 'type-PF'), ('20b0', False, 1, 'type-PCI'),
        ('20b0', True, 1, 'type-PCI')]
    assert pci_pools.pools(devices[::-1]) == found
    assert pci.load_pools(json.loads(json.dumps(pci.dump(found)))) == found
    assert pci.load_devices(json.loads(json.dumps(pci.dump(devices)))) == devices


def test_a_physical_function_and_its_virtual_ones_exclude_each_other():
    asked = [request(dev_type='type-VF')]
    taken = pci_pools.claim(DEVICES, asked, pci_pools.choose(DEVICES, asked), 'uuid')
    assert [device.status for device in taken] == ['unavailable', 'claimed', 'available', 'available', 'available']
    assert pci_pools.choose(taken, [request(dev_type='type-PF')]) is None
    assert pci_pools.release(taken, 'uuid') == DEVICES
    whole = [request(dev_type='type-PF')]
    taken = pci_pools.claim(DEVICES, whole, pci_pools.choose(DEVICES, whole), 'uuid')
    assert [device.status for device in taken] == ['claimed', *['unavailable'] * 3, 'available']
    assert pci_pools.choose(DEVICES, [*whole, *asked]) is None, 'not both for one guest either'


def test_virtual_functions_of_a_device_in_use_come_first():
    second = [pci.Device(f'0000:0b:00.{number}', '8086', '10ed', pci.VIRTUAL, 0, '0000:0b:00.0') for number in (1, 2)]
    asked = [request(dev_type='type-VF')]
    devices = pci_pools.claim([*VFS, *second], asked, {second[0].address: 0}, 'other')
    assert pci_pools.choose(devices, asked) == {second[1].address: 0}


def test_one_guest_may_have_functions_of_several_devices():
    """The physical function of one card, virtual ones of another: who chooses must look for both."""
    other = pci.Device('0000:0b:00.0', '8086', '154d', pci.PHYSICAL, 0)
    found = pci_pools.choose([*DEVICES, other], [request(dev_type='type-PF'), request(2, dev_type='type-VF')])
    assert found == {'0000:0b:00.0': 0, '0000:0a:00.1': 1, '0000:0a:00.2': 1}


def test_requests_with_fewest_candidates_are_served_first():
    devices = [dataclasses.replace(device, tags={'physical_network': name}) for device, name in zip(VFS, 'aab')]
    asked = [request(2, dev_type='type-VF'), request(dev_type='type-VF', physical_network='a')]
    found = pci_pools.choose(devices, asked)
    assert collections.Counter(found.values()) == {0: 2, 1: 1}


@pytest.mark.parametrize('tags, spec, expected', [
    ({'physical_network': 'a'}, {'physical_network': 'a'}, True), ({'physical_network': 'a'}, {}, True),
    ({}, {'physical_network': 'a'}, False), ({'physical_network': 'a'}, {'physical_network': None}, False),
    ({}, {'physical_network': None}, True),
    ({'traits': 'A,B'}, {'traits': 'A'}, True), ({'traits': 'A'}, {'traits': 'A,B'}, False),
    ({}, {'traits': 'A'}, False),
    ({'remote_managed': 'true'}, {}, False), ({'remote_managed': 'true'}, {'remote_managed': 'true'}, True),
    ({}, {'remote_managed': 'true'}, False), ({'trusted': 'false'}, {'trusted': 'true'}, False),
    ({'resource_class': 'X'}, {'resource_class': 'X'}, True), ({}, {'resource_class': 'X'}, False),
    ({'resource_class': 'CUSTOM_GPU_A'}, {'resource_class': 'gpu--a'}, True),
    ({'resource_class': 'gpu.a'}, {'resource_class': 'CUSTOM_GPU_A'}, True),
    ({'resource_class': 'GPU'}, {'resource_class': 'GPU_A'}, False),
    ({'resource_class': 'GPU', 'traits': 'CUSTOM_A,b c'}, {'traits': 'a,CUSTOM_B_C'}, True),
    ({'traits': 'CUSTOM_A'}, {'traits': 'a,b'}, False)])
def test_request_tags_must_match_device_tags(tags, spec, expected):
    devices = [dataclasses.replace(GPU, tags=tags)]
    asked = [request(vendor_id='10de', **spec)]
    assert pci_pools.supports(pci_pools.pools(devices), asked) is expected
    assert (pci_pools.choose(devices, asked) is not None) is expected


HOST = numa.HostTopology(tuple(numa.HostCell(id=number, cpuset=frozenset({number}), memory=1, socket=socket)
                               for number, socket in ((0, 0), (1, 0), (2, 1), (3, None))))


@pytest.mark.parametrize('policy, node, cells, expected', [
    ('required', 0, [0], True), ('required', 1, [0], False), ('required', None, [0], False),
    ('required', 1, [0, 1], True), ('preferred', 2, [0], True), ('preferred', None, [0], True),
    ('legacy', 0, [0], True), ('legacy', 1, [0], False), ('legacy', None, [0], True),
    ('socket', 1, [0], True), ('socket', 2, [0], False), ('socket', None, [0], False), ('socket', 3, [3], False),
    ('socket', 9, [0], False), ('required', 2, None, True), ('socket', None, None, True),
    ('socket', 1, [0, 7], True), ('socket', 1, [7], False)])             # 7: a cell that guests cannot have any more
def test_numa_policy_decides_which_devices_are_near_enough(policy, node, cells, expected):
    devices = [dataclasses.replace(GPU, numa_node=node)]
    asked = [request(policy=policy, vendor_id='10de')]
    assert pci_pools.supports(pci_pools.pools(devices), asked, HOST, cells) is expected
    assert (pci_pools.choose(devices, asked, HOST, cells) is not None) is expected


def test_nearest_pci_devices_are_chosen_first():
    devices = [dataclasses.replace(GPU, address=f'0001:8{number}:00.0', numa_node=number) for number in range(3)]
    asked = [request(policy='preferred', vendor_id='10de')]
    assert pci_pools.choose(devices, asked, HOST, [1]) == {'0001:81:00.0': 0}


# ---- claims ------------------------------------------------------------------

def test_claim_of_a_taken_device_is_refused():
    asked = [request(vendor_id='10de')]
    taken = pci_pools.claim(DEVICES, asked, {GPU.address: 0}, 'first')
    with pytest.raises(ValueError, match='claimed'):
        pci_pools.claim(taken, asked, {GPU.address: 0}, 'second')
    with pytest.raises(ValueError, match='no PCI device'):
        pci_pools.claim(DEVICES, asked, {'0000:00:00.0': 0}, 'second')
    with pytest.raises(ValueError, match='exclude'):
        pci_pools.claim(DEVICES, [request()], {PF.address: 0, VFS[0].address: 0}, 'second')


def test_devices_of_one_port_are_given_back_alone():
    asked = [request(dev_type='type-VF', request_id='port1'), request(dev_type='type-VF', request_id='port2')]
    taken = pci_pools.claim(DEVICES, asked, pci_pools.choose(DEVICES, asked), 'uuid')
    left = pci_pools.release(taken, 'uuid', 'port1')
    assert [device.request_id for device in left if device.status == pci.CLAIMED] == ['port2']
    assert left[0].status == pci.UNAVAILABLE
    assert pci_pools.release(left, 'other') == left and pci_pools.release(left, 'uuid') == DEVICES


def test_a_hundred_alike_are_refused_at_once():
    devices = [dataclasses.replace(GPU, address=f'0001:{number:02x}:00.0') for number in range(100)]
    assert pci_pools.choose(devices, [request(101, vendor_id='10de')]) is None
    assert len(pci_pools.choose(devices, [request(100, vendor_id='10de')])) == 100


@st.composite
def hosts_devices(draw):
    devices = []
    for card in range(draw(st.integers(1, 4))):
        parent = pci.Device(f'0000:{card:02x}:00.0', '8086', '154d', pci.PHYSICAL, draw(st.sampled_from([0, 1, None])))
        functions = draw(st.integers(0, 3))
        devices += [parent, *(pci.Device(f'0000:{card:02x}:00.{number}', '8086', '10ed', pci.VIRTUAL, parent.numa_node,
                                         parent.address, tags={'physical_network': draw(st.sampled_from('ab'))})
                              for number in range(1, functions + 1))]
    return devices


ASKED = st.builds(
    lambda count, policy, spec: pci.Request(count, (spec,), policy), st.integers(1, 3),
    st.sampled_from(['required', 'preferred', 'legacy', 'socket']),
    st.sampled_from([{'dev_type': 'type-PF'}, {'dev_type': 'type-VF'}, {'vendor_id': '8086'},
                     {'dev_type': 'type-VF', 'physical_network': 'a'}]))


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(hosts_devices(), st.lists(st.lists(ASKED, min_size=1, max_size=2), max_size=5),
                  st.sampled_from([None, [0], [0, 1]]))
def test_devices_come_and_go(devices, guests, cells):
    empty, here = devices, devices
    for number, asked in enumerate(guests):
        chosen = pci_pools.choose(here, asked, HOST, cells)
        assert chosen == pci_pools.choose(here, asked, HOST, cells)
        if chosen is None:
            continue
        assert pci_pools.supports(pci_pools.pools(here), asked, HOST, cells)
        assert collections.Counter(chosen.values()) == {index: each.count for index, each in enumerate(asked)}
        before, here = here, pci_pools.claim(here, asked, chosen, f'guest{number}')
        assert pci_pools.release(here, f'guest{number}') == before
        claimed = {device.address for device in here if device.status == pci.CLAIMED}
        assert not any(device.address in claimed and device.parent_addr in claimed for device in here)
    for number in range(len(guests)):
        here = pci_pools.release(here, f'guest{number}')
    assert here == empty
