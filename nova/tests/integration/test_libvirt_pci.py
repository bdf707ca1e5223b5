"""PCI devices of a real host: what libvirt lists, and a guest that is given one.

The listing needs a libvirtd that answers. The guest needs a device that this host can spare, behind an IOMMU, whose
address NOVA_TEST_PCI_ADDRESS names, and what test_libvirt.py needs.
"""
import os
import pathlib

import pytest

from nova.objects import pci
from nova.tests.integration import test_libvirt as rig

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


def test_the_list_is_what_the_kernel_has(driver):
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
    driver.virt_type = 'qemu'
    driver.storage.prepare()
    driver.resources()
    assert asked == [1]
    driver.conf.set_override('device_spec', [], group='pci')
    assert driver.resources()[0].pci_devices == [] and asked == [1]


@pytest.mark.skipif(not ADDRESS, reason='NOVA_TEST_PCI_ADDRESS names no device that a guest may have')
@pytest.mark.skipif(rig._REASON is not None, reason=str(rig._REASON))
def test_a_guest_with_a_device(tmp_path):
    made = rig.Rig(tmp_path)
    device = next(each for each in made.driver.hypervisor.pci_devices() if each.address == ADDRESS)
    instance = rig.make_instance()
    instance.pci_devices = pci.dump([device])
    try:
        made.driver.spawn(None, instance, rig.driver.SpawnRequest(image=made.image, network_info=[]))
        made.booted(instance)
        made.type(instance, 'cat /sys/bus/pci/devices/*/device')
        rig.wait_for(lambda: f'0x{device.product_id}'.encode() in made.console(instance), 30, 'the device in the guest')
    finally:
        made.driver.destroy(None, instance, [])
        made.driver.stop()
