"""PCI devices of a real host: what libvirt lists, and a guest that is given one.

The listing needs a libvirtd that answers. The guest needs a device that this host can spare, behind an IOMMU, whose
address NOVA_TEST_PCI_ADDRESS names, and what test_libvirt.py needs.
"""
import os
import pathlib
from xml.etree import ElementTree as etree

import pytest

from nova import exception
from nova.objects import pci
from nova.tests.support import libvirt as rig
from nova.tests.support import libvirt_port_devices as ports
from nova.virt import driver as contract

libvirt = pytest.importorskip('libvirt', reason='libvirt-python is not installed')

SYS = pathlib.Path('/sys/bus/pci/devices')
BRIDGES = '0x06'                         # class of the host bridge, PCI bridges and their like
ADDRESS = os.environ.get('NOVA_TEST_PCI_ADDRESS')


@pytest.fixture
def driver(tmp_path):
    try:
        libvirt.open(rig.URI).close()
    except libvirt.libvirtError as error:
        pytest.skip(f'libvirt does not answer: {error}')
    made = rig.make_driver(tmp_path, rig.Images(), pci__device_spec=['{}'])
    made.hypervisor.connect()
    yield made
    made.stop()


def test_pci_devices_are_those_of_the_kernel(driver):
    found = {device.address: device for device in driver.hypervisor.pci_devices()}
    expected = {path.name: path for path in SYS.iterdir()
                if not (path / 'class').read_text().startswith(BRIDGES)}
    if not expected:
        pytest.skip('this host has no PCI devices beside bridges')
    assert expected.keys() <= found.keys() and found.keys() <= {path.name for path in SYS.iterdir()}
    for address, path in expected.items():
        device = found[address]
        assert (f'0x{device.vendor_id}', f'0x{device.product_id}') == tuple(
            (path / name).read_text().strip() for name in ('vendor', 'device'))
        node = int((path / 'numa_node').read_text()) if (path / 'numa_node').exists() else -1
        assert (device.numa_node if device.numa_node is not None else -1) == node
        assert device.dev_type == (pci.VIRTUAL if (path / 'physfn').exists() else pci.PHYSICAL if
                                   (path / 'sriov_totalvfs').exists() else pci.PCI)
        if (path / 'net').is_dir() and device.dev_type != pci.VIRTUAL:
            assert device.devname in [each.name for each in (path / 'net').iterdir()]


def test_only_who_offers_devices_lists_them(driver):
    asked = []
    driver.hypervisor.pci_devices = lambda: asked.append(1) or []
    driver.platform.virt_type = 'qemu'
    driver.storage.prepare()
    driver.resources()
    assert asked == [1]
    driver.conf.set_override('device_spec', [], group='pci')
    assert driver.resources()[0].pci_devices == [] and asked == [1]


@pytest.mark.skipif(not ADDRESS, reason='NOVA_TEST_PCI_ADDRESS names no device that a guest may have')
@pytest.mark.skipif(rig._REASON is not None, reason=str(rig._REASON))
def test_guest_starts_with_a_pci_device(tmp_path):
    made = rig.Rig(tmp_path)
    device = next(each for each in made.driver.hypervisor.pci_devices() if each.address == ADDRESS)
    instance = rig.make_instance()
    instance.pci_devices = pci.dump([device])
    try:
        made.driver.spawn(None, instance, rig.contract.SpawnRequest(image=made.image, network_info=[]))
        made.booted(instance)
        made.type(instance, 'cat /sys/bus/pci/devices/*/device')
        rig.wait_for(lambda: f'0x{device.product_id}'.encode() in made.console(instance), 30, 'the device in the guest')
    finally:
        made.driver.destroy(None, instance, [])
        made.driver.stop()


state_path = rig.state_path


@pytest.fixture
def machine(state_path):
    made, instance = rig.Rig(state_path), rig.make_instance()
    made.driver.spawn(None, instance, rig.contract.SpawnRequest(image=made.image, network_info=[]))
    yield made, instance
    made.driver.destroy(None, instance, [])
    made.driver.stop()


@pytest.mark.skipif(rig._REASON is not None, reason=str(rig._REASON))
def test_direct_port_is_a_device_in_the_guest_definition(machine):
    """As far as a host without such a card has it: libvirt takes it into the definition of a guest that is off, refuses
    it to one that runs, and nothing of it stays."""
    (made, instance), vif = machine, ports.vif()
    device = pci.Device(ports.ADDRESS, '8086', '10ed', pci.VIRTUAL, request_id=ports.PORT)

    def defined():
        connection = libvirt.open(rig.URI)
        try:
            domain = connection.lookupByUUIDString(instance.uuid)
            root = etree.fromstring(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
            return [(each.get('type'), each.find('mac').get('address'), each.find('vlan/tag').get('id'),
                     each.find('source/address').get('bus')) for each in root.iterfind('devices/interface')]
        finally:
            connection.close()
    instance.pci_devices = pci.dump([device])
    with pytest.raises(exception.VirtError):
        made.driver.features[contract.Interfaces].attach_interface(None, instance, vif)
    # as the caller of attach_interface does after a failure
    made.driver.features[contract.Interfaces].detach_interface(None, instance, vif)
    guest = made.driver.storage.load(instance.uuid)
    assert defined() == [] and guest.interfaces == guest.hostdevs == []
    made.driver.power_off(instance)
    for _ in range(2):
        made.driver.features[contract.Interfaces].attach_interface(None, instance, vif)
        assert defined() == [('hostdev', vif['address'], '100', '0x0a')]
    assert made.driver.storage.load(instance.uuid).hostdevs == [device]
    gone = {'id': ports.PORT, 'pci_slot': ports.ADDRESS, 'address': None}         # all that is known of a deleted port
    for _ in range(2):
        made.driver.features[contract.Interfaces].detach_interface(None, instance, gone)
        assert defined() == []
    assert made.driver.storage.load(instance.uuid).hostdevs == []
