"""The elements that place a guest, against libvirt's schema; a host's hardware read from libvirt's XML."""
import dataclasses
import pathlib
from xml.etree import ElementTree as etree

import pytest

from nova import exception
from nova.hardware import cpu_topology
from nova.hardware import fit
from nova.hardware import guest_request
from nova.objects import numa
from nova.objects import pci
from nova.tests import numa_seed
from nova.tests.support import libvirt_xml as test_libvirt_xml
from nova.tests.support.libvirt_placement import validate
from nova.virt.libvirt import capabilities
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain import cells
from nova.virt.libvirt.domain import placement
from nova.virt.libvirt.domain import processors


SIBLINGS = tuple(frozenset({cpu, cpu + 4}) for cpu in range(4))
PAGES = (numa.Pages(4, 1 << 20), numa.Pages(2048, 1024), numa.Pages(1048576, 4))


def host(parted=True):
    cells = []
    for number in range(2):
        first = number * 8
        cpuset = frozenset(range(first, first + 8))
        siblings = tuple(frozenset(cpu + first for cpu in group) for group in SIBLINGS)
        shared = frozenset({first, first + 4})
        cells.append(numa.HostCell(id=number, cpuset=shared if parted else cpuset, memory=16384, siblings=siblings,
                                   mempages=PAGES, pcpuset=cpuset - shared if parted else None))
    return numa.HostTopology(tuple(cells))


def placed(parted=True, vcpus=4, **specs):
    flavor = {'vcpus': vcpus, 'memory_mb': 2048, 'extra_specs': {f'hw:{k}': v for k, v in specs.items()}}
    here = host(parted)
    guest = fit.fit(here, guest_request.topology(flavor, {})).topology
    assert guest is not None
    return here, guest, cpu_topology.choose(flavor['vcpus'], flavor['extra_specs'], {}, guest)


def pins(here, guest):
    root = placement.cputune(here, guest)
    return ([each.get('cpuset') for each in root.findall('vcpupin')], root.find('emulatorpin').get('cpuset'))


DEDICATED = {'cpu_policy': 'dedicated'}


@pytest.mark.parametrize('specs, expected', [
    (DEDICATED, (['1', '5', '2', '6'], '1-2,5-6')),
    ({**DEDICATED, 'cpu_thread_policy': 'isolate', 'numa_nodes': '2'}, (['1', '2', '9', '10'], '1-2,9-10')),
    ({**DEDICATED, 'emulator_threads_policy': 'isolate'}, (['1', '5', '2', '6'], '3')),
    ({**DEDICATED, 'emulator_threads_policy': 'share'}, (['1', '5', '2', '6'], '0,4,8,12')),
    ({'cpu_policy': 'mixed', 'cpu_dedicated_mask': '^0-1'}, (['0,4', '0,4', '1', '5'], '0-1,4-5')),
    ({**DEDICATED, 'cpu_realtime': 'yes', 'cpu_realtime_mask': '^0'}, (['1', '5', '2', '6'], '1'))])
def test_cputune_pins_vcpus_and_emulator(specs, expected):
    here, guest, _ = placed(**specs)
    assert pins(here, guest) == expected


def test_the_emulator_shares_the_vcpus_where_no_cpus_are_set_apart():
    here, guest, _ = placed(parted=False, emulator_threads_policy='share', **DEDICATED)
    assert pins(here, guest) == (['0', '4', '1', '5'], '0-1,4-5')


def test_realtime_vcpus_have_a_fifo_scheduler_and_locked_memory():
    here, guest, _ = placed(cpu_realtime='yes', cpu_realtime_mask='^0-1', **DEDICATED)
    sched = placement.cputune(here, guest).find('vcpusched')
    assert sched.attrib == {'vcpus': '2-3', 'scheduler': 'fifo', 'priority': '1'}
    backing = placement.memory_backing(here, guest)
    assert [child.tag for child in backing] == ['nosharepages', 'locked']


@pytest.mark.parametrize('size, expected', [
    ('2MB', [{'size': '2048', 'nodeset': '0-1', 'unit': 'KiB'}]),
    ('large', [{'size': '1048576', 'nodeset': '0-1', 'unit': 'KiB'}]), ('small', None)])
def test_guest_uses_huge_pages_of_the_requested_size(size, expected):
    here, guest, _ = placed(mem_page_size=size, numa_nodes='2')
    backing = placement.memory_backing(here, guest)
    assert (backing and [page.attrib for page in backing.findall('./hugepages/page')]) == expected


def test_each_guest_cell_has_its_own_page_size():
    here, guest, _ = placed(mem_page_size='2MB', numa_nodes='2')
    cells = (guest.cells[0], dataclasses.replace(guest.cells[1], pagesize=1048576))
    backing = placement.memory_backing(here, dataclasses.replace(guest, cells=cells))
    assert [(page.get('size'), page.get('nodeset')) for page in backing.findall('./hugepages/page')] == [
        ('2048', '0'), ('1048576', '1')]


def test_guest_threads_are_siblings():
    here, guest, topology = placed(**DEDICATED)
    assert topology == {'sockets': 2, 'cores': 1, 'threads': 2}
    assert etree.tostring(placement.cpu(topology, guest, 'host-model'), encoding='unicode') == (
        '<cpu mode="host-model"><topology sockets="2" cores="1" threads="2" /><numa>'
        '<cell id="0" cpus="0-3" memory="2097152" /></numa></cpu>')


@pytest.mark.parametrize('tags, managed', [({}, 'yes'), ({'managed': 'true'}, 'yes'), ({'managed': 'false'}, 'no')])
def test_pci_device_becomes_a_hostdev_element(tags, managed):
    element = placement.hostdev(pci.Device('0000:0a:1f.7', '8086', '154d', tags=tags))
    assert etree.tostring(element, encoding='unicode') == (
        f'<hostdev mode="subsystem" type="pci" managed="{managed}"><source>'
        '<address domain="0x0000" bus="0x0a" slot="0x1f" function="0x7" /></source></hostdev>')


SCHEMA = {
    'pages': {'mem_page_size': '1GB', 'numa_nodes': '2'},
    'realtime': {**DEDICATED, 'cpu_realtime': 'yes', 'cpu_realtime_mask': '^0', 'mem_page_size': '2MB'},
    'mixed': {'cpu_policy': 'mixed', 'cpu_dedicated_mask': '^0-1', 'emulator_threads_policy': 'isolate'},
    'shared': {'numa_nodes': '2'}}


CAPABILITY_SCHEMA = pathlib.Path('/usr/share/libvirt/schemas/capability.rng')


@pytest.mark.parametrize('name', SCHEMA)
def test_the_elements_follow_the_schema(name, tmp_path):
    here, guest, topology = placed(**SCHEMA[name])
    made = test_libvirt_xml.guest(vcpus=4, processor=topology, numa=numa.text_of_guest(guest))
    text = xml.domain(made, here, processors.Processor('host-model'))
    root = etree.fromstring(text)
    assert etree.tostring(root.find('cputune')) == etree.tostring(placement.cputune(here, guest))
    assert (root.find('memoryBacking') is None) == (placement.memory_backing(here, guest) is None)
    root.find('devices').append(placement.hostdev(pci.Device('0000:0a:00.1', '8086', '154d')))
    validate(tmp_path, etree.tostring(root, encoding='unicode'), 'domain')


def test_a_floating_guest_follows_the_schema(tmp_path):
    text = xml.domain(test_libvirt_xml.guest(cpuset='6-7'))
    assert etree.fromstring(text).find('vcpu').get('cpuset') == '6-7'
    validate(tmp_path, text, 'domain')


@pytest.mark.parametrize('here, cell', [
    (None, {}), (numa.HostTopology(()), {}), (host(), {'cpu_pinning': {0: 0, 1: 99}})])
def test_guest_placed_on_missing_resources_is_refused(here, cell):
    _, guest, _ = placed(**DEDICATED)
    guest = dataclasses.replace(guest, cells=tuple(dataclasses.replace(each, **cell) for each in guest.cells))
    with pytest.raises(exception.VirtError, match='NUMA node 0'):
        xml.domain(test_libvirt_xml.guest(numa=numa.text_of_guest(guest)), here)


# ---- guests without a topology -----------------------------------------------

def others(*found):
    return [test_libvirt_xml.guest(uuid=str(number), **values).resources for number, values in enumerate(found)]


LIMITS = fit.Overcommit(cpu_ratio=16.0)


@pytest.mark.parametrize('vcpus, memory_mb, there, cell, expected', [
    (1, 512, [], 2, {6, 7}),                                                  # the smallest, while all are empty
    (1, 512, [{'cell': 2, 'vcpus': 1, 'memory_mb': 512}], 1, {4, 5}),
    (1, 1900, [{'cell': 2, 'vcpus': 1, 'memory_mb': 512}, {'cell': 1, 'vcpus': 1, 'memory_mb': 512}], 0, {0, 1, 2, 3}),
    (3, 512, [], 0, {0, 1, 2, 3}),                                            # more than the small ones have
    (6, 512, [], None, set(range(8))), (1, 5000, [], None, set(range(8)))])   # more than any has
def test_floating_guest_gets_the_expected_numa_cell(vcpus, memory_mb, there, cell, expected):
    made = test_libvirt_xml.guest(vcpus=vcpus, memory_mb=memory_mb)
    assert cells.floating(numa_seed.host(), made.resources, others(*there), LIMITS) == (cell, expected)


def test_a_floating_guest_keeps_off_pinned_cpus():
    flavor = {'vcpus': 1, 'memory_mb': 512, 'extra_specs': {'hw:cpu_policy': 'dedicated'}}
    seed = numa_seed.host()
    guest = fit.fit(seed, guest_request.topology(flavor, {}), pack=True).topology
    pinned = {'numa': numa.text_of_guest(guest), 'vcpus': 1, 'memory_mb': 512}
    cpu, = guest.cells[0].cpu_pinning.values()
    made = test_libvirt_xml.guest(vcpus=6)
    assert cells.floating(seed, made.resources, others(pinned), LIMITS) == (None, set(range(8)) - {cpu})


# ---- what libvirt says of a host ---------------------------------------------

TWO_SOCKETS = """<capabilities><host><topology><cells num='3'>
  <cell id='1'>
    <memory unit='KiB'>2097152</memory>
    <pages unit='KiB' size='2048'>16</pages><pages unit='KiB' size='4'>516096</pages>
    <distances><sibling id='0' value='21'/><sibling id='1' value='10'/></distances>
    <cpus num='4'>
      <cpu id='4' socket_id='1' die_id='0' core_id='0' siblings='4,6'/>
      <cpu id='6' socket_id='1' die_id='0' core_id='0' siblings='4,6'/>
      <cpu id='5' socket_id='1' die_id='0' core_id='1' siblings='5,7'/>
      <cpu id='7'/>
    </cpus>
  </cell>
  <cell id='0'>
    <memory unit='KiB'>1048576</memory>
    <cpus num='2'>
      <cpu id='0' socket_id='0' core_id='0' siblings='0'/><cpu id='1' socket_id='2' core_id='0' siblings='1'/>
    </cpus>
  </cell>
  <cell id='2'><memory unit='KiB'>8388608</memory><cpus num='0'/></cell>
</cells></topology></host></capabilities>"""


def test_host_topology_is_read_from_capabilities():
    found = capabilities.topology(etree.fromstring(TWO_SOCKETS))
    assert found == numa.HostTopology((
        numa.HostCell(id=0, cpuset=frozenset({0, 1}), memory=1024),
        numa.HostCell(id=1, cpuset=frozenset({4, 5, 6}), memory=2048,
                      siblings=(frozenset({4, 6}), frozenset({5, 7})), socket=1, distances={0: 21, 1: 10},
                      mempages=(numa.Pages(4, 516096), numa.Pages(2048, 16)))))


def test_host_without_numa_cells_has_no_topology():
    assert capabilities.topology(etree.fromstring('<capabilities><host/></capabilities>')) is None


def test_the_sample_is_as_libvirt_writes_it(tmp_path):
    with_clusters = 'cluster_id' in CAPABILITY_SCHEMA.read_text() if CAPABILITY_SCHEMA.exists() else True
    validate(tmp_path, numa_seed.capabilities(with_clusters), 'capability')


NODE = """<device><name>pci_0000_0a_00_1</name><capability type='pci'>
  <class>0x020000</class><domain>0</domain><bus>10</bus><slot>0</slot><function>1</function>
  <product id='0x{product}'>a card</product><vendor id='0x8086'>a vendor</vendor>{more}
</capability></device>"""
VF = "<capability type='phys_function'><address domain='0x0000' bus='0x0a' slot='0x00' function='0x0'/></capability>"
PF = ("<capability type='virt_functions' maxCount='8'><address domain='0x0000' bus='0x0a' slot='0x00' "
      "function='0x2'/></capability>")


@pytest.mark.parametrize('product, more, expected', [
    ('154d', "<numa node='1'/>", {'numa_node': 1}), ('154d', '', {}),
    ('154d', PF + "<numa node='0'/>", {'dev_type': 'type-PF', 'numa_node': 0}),
    ('10ed', VF, {'product_id': '10ed', 'dev_type': 'type-VF', 'parent_addr': '0000:0a:00.0', 'devname': 'eth5'})])
def test_pci_devices_are_read_from_node_devices(product, more, expected):
    found = capabilities.device(etree.fromstring(NODE.format(product=product, more=more)), {'0000:0a:00.0': 'eth5'})
    assert found == pci.Device(**{'address': '0000:0a:00.1', 'vendor_id': '8086', 'product_id': '154d', **expected})


@pytest.mark.parametrize('text', ["<device><capability type='net'/></device>",
                                  NODE.format(product='1', more="<capability type='pci-bridge'/>")])
def test_unsupported_node_device_is_ignored(text):
    assert capabilities.device(etree.fromstring(text)) is None


NET = """<device><name>net_eth5_02</name><parent>pci_0000_0a_00_1</parent>
<capability type='net'><interface>eth5</interface></capability></device>"""


def test_devices_know_their_network_interfaces():
    physical = NODE.format(product='154d', more=PF)
    virtual = NODE.replace('<function>1<', '<function>2<').replace('_00_1<', '_00_2<').format(
        product='10ed', more=VF.replace("function='0x0'", "function='0x1'"))
    bridge = NODE.format(product='1', more="<capability type='pci-bridge'/>")
    found = capabilities.devices([etree.fromstring(text) for text in (physical, virtual, bridge)],
                                 [etree.fromstring(NET)])
    assert [(each.address, each.dev_type, each.devname) for each in found] == [
        ('0000:0a:00.1', 'type-PF', 'eth5'), ('0000:0a:00.2', 'type-VF', 'eth5')]
