"""Mediated devices: what a host could make of them, what a guest is given, and what libvirt is asked to make."""
from xml.etree import ElementTree as etree

import pytest

from nova import exception
from nova.hardware import pci_pools
from nova.hardware import pci_spec
from nova.objects import pci
from nova.tests.support import libvirt_placement as test_libvirt_placement
from nova.tests.support import libvirt_xml as test_libvirt_xml
from nova.virt.libvirt import capabilities
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain import mediated as described

libvirt = pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova.virt.libvirt import calls

GUEST = '6d2f1b5e-3ab4-4c0c-9a58-0c1f2d3e4f50'
# as https://libvirt.org/drvnodedev.html#mediated-devices-mdevs shows a card and a device of it
CARD = etree.fromstring("""<device><name>pci_0000_06_00_0</name><capability type='pci'>
  <domain>0</domain><bus>6</bus><slot>0</slot><function>0</function>
  <product id='0x20b0'/><vendor id='0x10de'/><numa node='1'/>
  <capability type='mdev_types'>
    <type id='nvidia-11'><deviceAPI>vfio-pci</deviceAPI><availableInstances>2</availableInstances></type>
    <type id='nvidia-12'><deviceAPI>vfio-pci</deviceAPI><availableInstances>7</availableInstances></type>
  </capability></capability></device>""")


def made(uuid, kind='nvidia-11'):
    return f"""<device><name>mdev_{uuid.replace('-', '_')}</name><parent>pci_0000_06_00_0</parent>
        <capability type='mdev'><type id='{kind}'/><uuid>{uuid}</uuid></capability></device>"""


def found(others=(), types=('nvidia-11',)):
    return capabilities.mediated_devices([CARD], [etree.fromstring(text) for text in others], types)


def test_available_and_created_mediated_devices_are_counted_together():
    before = found()
    assert [(each.vendor_id, each.product_id, each.numa_node, each.parent_addr) for each in before] == [
        ('10de', '20b0', 1, '0000:06:00.0')] * 2
    assert all(each.tags == {'mdev_type': 'nvidia-11'} and len(each.address) <= 16 for each in before)
    assert found([made(GUEST)]) == [*before, found([made(GUEST)])[2]]        # the places of before stay what they were
    assert found([made(GUEST, 'nvidia-12')]) == before
    both = found(types=('nvidia-11', 'nvidia-12'))
    assert len({each.address for each in both}) == len(both) == 9
    assert pci_spec.admitted([], before) == before                           # the host has named them


def test_types_that_cannot_be_told_apart_are_refused():
    alike = ['x']
    while len(alike) < 300:
        alike.append(f'x{len(alike)}')
    with pytest.raises(exception.InvalidInput, match='enabled_mdev_types'):
        found(types=alike)


def test_an_alias_may_name_the_type():
    devices = found(types=('nvidia-11', 'nvidia-12'))
    names = pci_spec.aliases(['{"name": "small", "device_type": "type-MD", "mdev_type": "nvidia-12"}'])
    request, = pci_spec.requests(names, {'extra_specs': {'pci_passthrough:alias': 'small:1'}}, {})
    address, = pci_pools.choose(devices, [request])
    assert next(each for each in devices if each.address == address).tags['mdev_type'] == 'nvidia-12'


@pytest.mark.parametrize('value', ['x', '-1', '1000', ''])
def test_invalid_number_of_virtual_gpus_is_refused(value):
    with pytest.raises(exception.InvalidInput, match='VGPU'):
        pci_spec.requests({}, {'extra_specs': {'resources:VGPU': value}}, {})


def test_the_guest_is_given_it(tmp_path):
    device = found()[0]
    text = xml.domain(test_libvirt_xml.guest(hostdevs=[device]))
    given = etree.fromstring(text).find('devices/hostdev')
    assert given.attrib == {'mode': 'subsystem', 'type': 'mdev', 'model': 'vfio-pci'}
    assert given.find('source/address').get('uuid') == described.id_of(GUEST, device)
    test_libvirt_placement.validate(tmp_path, text, 'domain')
    test_libvirt_placement.validate(tmp_path, described.request(GUEST, device), 'nodedev')


class Connection:
    """Stands in for libvirt's: no machine of ours has such hardware."""

    def __init__(self):
        self.there = []

    def listAllDevices(self, kind):
        assert kind == libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV
        return list(self.there)

    def nodeDeviceCreateXML(self, text):
        wanted = etree.fromstring(text)
        assert wanted.findtext('parent') == 'pci_0000_06_00_0'
        self.there.append(Made(self, made(wanted.findtext('capability/uuid'))))


class Made:
    def __init__(self, connection, text):
        self.connection, self.text = connection, text

    def XMLDesc(self):
        return self.text

    def destroy(self):
        self.connection.there.remove(self)


def test_they_are_made_once_and_given_back():
    connection, devices = Connection(), [*found(), pci.Device('0000:81:00.0', '10de', '20b0')]
    other = Made(connection, made('00000000-0000-0000-0000-00000000000a'))
    connection.there.append(other)
    for _attempt in range(2):                        # once more, after a crash or with the next start
        calls.ensure_mediated(connection, GUEST, devices)
        assert len(connection.there) == 3
    for _attempt in range(2):
        calls.remove_mediated(connection, GUEST, devices)
        assert connection.there == [other]
    assert calls.needs_mediated(devices) and not calls.needs_mediated(devices[2:])
