"""Ports that are a virtual function of the host, in the guest's XML; no machine of ours has such a card."""
from xml.etree import ElementTree as etree

import pytest

from nova import exception
from nova.objects import pci
from nova.tests.support import libvirt_placement as test_libvirt_placement
from nova.tests.support import libvirt_xml as test_libvirt_xml
from nova.tests.support.libvirt_port_devices import ADDRESS
from nova.tests.support.libvirt_port_devices import PORT
from nova.tests.support.libvirt_port_devices import vif
from nova.virt.libvirt import spec
from nova.virt.libvirt import vifs
from nova.virt.libvirt import xml


def domain(tmp_path, given, settings=None):
    device = pci.Device(ADDRESS, '8086', '10ed', pci.VIRTUAL, request_id=PORT)
    other = pci.Device('0000:81:00.0', '10de', '20b0')
    guest = test_libvirt_xml.guest(hostdevs=[device, other])
    guest.hardware.settings.update(settings or {})
    guest.interfaces = spec.interfaces([given], guest)
    text = xml.domain(guest)
    test_libvirt_placement.validate(tmp_path, text, 'domain')
    devices = etree.fromstring(text).find('devices')
    # once in the guest, and the device of an alias beside it
    assert [each.find('source/address').get('bus') for each in devices.findall('hostdev')] == ['0x81']
    interface, = devices.findall('interface')
    assert interface.find('mac').get('address') == 'fa:16:3e:01:02:03'
    return interface


def test_a_function_is_given_to_the_guest(tmp_path):
    interface = domain(tmp_path, vif())
    assert interface.attrib == {'type': 'hostdev', 'managed': 'yes'}
    assert interface.find('source/address').attrib == {
        'type': 'pci', 'domain': '0x0000', 'bus': '0x0a', 'slot': '0x00', 'function': '0x1'}
    assert interface.find('vlan/tag').get('id') == '100'


def test_macvtap_port_uses_the_interface_of_the_function(tmp_path, monkeypatch):
    (tmp_path / ADDRESS / 'net' / 'ens1f0v1').mkdir(parents=True)
    found = vifs.interface_of
    monkeypatch.setattr(vifs, 'interface_of', lambda address: found(address, tmp_path))
    interface = domain(tmp_path, vif(vnic_type='macvtap', details={}))
    assert interface.get('type') == 'direct' and interface.find('vlan') is None
    assert interface.find('source').attrib == {'dev': 'ens1f0v1', 'mode': 'passthrough'}
    assert interface.find('model').get('type') == 'virtio'


def test_macvtap_port_has_bandwidth_limits_and_queues(tmp_path, monkeypatch):
    """They were left out without a word."""
    monkeypatch.setattr(vifs, 'interface_of', lambda address: 'ens1f0v1')
    interface = domain(tmp_path, vif(vnic_type='macvtap', details={}), {
        'quota_vif_inbound_average': '100', 'quota_vif_outbound_peak': '0', 'vif_multiqueue_enabled': 'true'})
    assert interface.find('bandwidth/inbound').attrib == {'average': '100'}
    assert interface.find('bandwidth/outbound') is None
    assert int(interface.find('driver').get('queues')) > 1


def test_bounds_of_a_device_that_the_guest_has_for_itself_are_refused(tmp_path):
    with pytest.raises(exception.VirtError, match='does not support the limits'):
        domain(tmp_path, vif(), {'quota_vif_outbound_average': '100'})


def test_device_without_network_interface_has_no_name(tmp_path):
    (tmp_path / ADDRESS / 'net' / 'ens1f0v1').mkdir(parents=True)
    assert vifs.interface_of(ADDRESS, tmp_path) == 'ens1f0v1'
    with pytest.raises(exception.VirtError, match='no network interface'):
        vifs.interface_of('0000:0a:00.2', tmp_path)


@pytest.mark.parametrize('values', [
    {'pci_slot': None}, {'pci_slot': '../../x'}, {'details': {'vlan': '4095'}}, {'details': {'vlan': 'x'}},
    {'details': {'vlan': '-1'}}])
def test_binding_without_device_or_vlan_is_refused(values):
    with pytest.raises(exception.VirtError, match='no device of the host'):
        vifs.device(vif(**values))


def test_a_port_whose_interface_went_is_not_given_as_a_bare_device():
    """Without its MAC and VLAN it could send as anybody."""
    guest = test_libvirt_xml.guest(hostdevs=[pci.Device(ADDRESS, '8086', '10ed', pci.VIRTUAL, request_id=PORT)])
    guest.interfaces = []
    assert etree.fromstring(xml.domain(guest)).find('devices/hostdev') is None
