"""Ports of a Networking service on a libvirt host: what is plugged, and the device of the guest."""
import types
from xml.etree import ElementTree as etree

import pytest

from nova import exception
from nova.tests.contract.driver_contract import make_instance
from nova.virt.libvirt import spec
from nova.virt.libvirt import vifs
from nova.virt.libvirt import xml
from nova.virt.libvirt.local_disks import storage

PORT, MAC = '0a1b2c3d-1111-2222-3333-444444444444', 'fa:16:3e:00:00:01'


def vif(kind, bridge='br-int', **details):
    return {'id': PORT, 'address': MAC, 'type': kind, 'devname': 'tap0a1b2c3d-11', 'details': details,
            'network': {'id': 'n', 'bridge': bridge, 'mtu': 1442}}


def plain(**values):
    return xml.Guest.of({'uuid': PORT, 'name': 'g', 'owner': '/srv', 'virt_type': 'qemu', 'vcpus': 1, 'memory_mb': 64,
                         'console_log': '/log', **values})


def device(given, **values):
    guest = plain(**values)
    interface, = spec.interfaces([given], guest)
    return etree.fromstring(xml.interface(interface, guest))


def test_a_bridge_as_the_embedded_network_has_it():
    element = device(vif('bridge', 'br-nova'))
    assert vifs.port(vif('bridge')) is None
    assert (element.get('type'), element.find('source').get('bridge')) == ('bridge', 'br-nova')


def test_tap_port_is_an_unmanaged_ethernet_interface():
    element = device(vif('tap', ''))
    assert element.get('type') == 'ethernet' and element.find('target').get('managed') is None
    assert element.find('source') is None


def test_ovs_port_is_plugged_into_its_bridge():
    port = vifs.port(vif('ovs', datapath_type='netdev'))
    assert (port.kind, port.bridge, port.device, port.mtu) == ('ovs', 'br-int', 'tap0a1b2c3d-11', 1442)
    element = device(vif('ovs', datapath_type='netdev'))
    assert element.get('type') == 'ethernet'
    assert element.find('target').attrib == {'dev': 'tap0a1b2c3d-11', 'managed': 'no'}
    assert element.find('driver/host').get('csum') == 'off'       # else TCP passes nothing through that datapath
    assert device(vif('ovs')).find('driver') is None


def test_hybrid_ovs_port_has_its_own_bridge():
    given = vif('ovs', ovs_hybrid_plug=True)
    assert vifs.port(given).kind == 'hybrid'
    element = device(given)
    assert (element.get('type'), element.find('source').get('bridge')) == ('bridge', 'qbr0a1b2c3d-11')


def test_vhost_user_port_has_a_socket():
    element = device(vif('vhostuser', vhostuser_socket='/run/vhu0a1b2c3d', vhostuser_mode='server'))
    assert element.get('type') == 'vhostuser'
    assert element.find('source').attrib == {'type': 'unix', 'path': '/run/vhu0a1b2c3d', 'mode': 'server'}


QUEUES = {'vcpus': 4, 'settings': {'vif_multiqueue_enabled': 'true'}}


def test_vif_queues_follow_the_multiqueue_setting():
    """A vhost-user port had one queue whatever was asked for, and a tap of one queue takes no device of several."""
    user = vif('vhostuser', vhostuser_socket='/run/vhu')
    assert device(user, **QUEUES).find('driver').get('queues') == '4' and device(user).find('driver') is None
    assert device(vif('ovs'), **QUEUES).find('driver').get('queues') == '4'
    assert spec.interfaces([vif('ovs')], plain(**QUEUES))[0].port['multiqueue'] is True
    for given, guest in ((vif('ovs'), plain()), (vif('ovs', ovs_hybrid_plug=True), plain(**QUEUES))):
        assert spec.interfaces([given], guest)[0].port['multiqueue'] is False      # libvirt makes that one's tap


@pytest.mark.parametrize('values, word', [
    ({'settings': {'quota_vif_inbound_average': '100'}}, 'quota:vif'), ({'vif_model': 'e1000'}, 'hw_vif_model')])
def test_unsupported_settings_of_a_vhost_user_port_are_refused(values, word):
    """It was left out without a word."""
    with pytest.raises(exception.VirtError, match=word):
        device(vif('vhostuser', vhostuser_socket='/run/vhu'), **values)


def test_vhost_user_shares_the_guests_memory():
    def backing(given):
        guest = plain(interfaces=spec.interfaces([given], plain()))
        return etree.fromstring(xml.domain(guest)).find('memoryBacking')
    assert backing(vif('ovs')) is None
    assert backing(vif('vhostuser', vhostuser_socket='/run/vhu')).find('access').get('mode') == 'shared'


@pytest.mark.parametrize('given', [
    vif('hostdev_physical'), vif('unbound'), vif('ovs', 'br-int; rm'), vif('ovs', datapath_type='../x'),
    vif('vhostuser'), vif('vhostuser', vhostuser_socket='/run/../etc/passwd'), {**vif('ovs'), 'address': 'x'},
    {**vif('ovs'), 'id': '..'}])
def test_unsupported_vif_is_refused(given):
    with pytest.raises(exception.VirtError):
        vifs.port(given)


def test_a_guest_is_kept_with_its_ports():
    guest = plain(interfaces=spec.interfaces([vif('ovs'), vif('bridge')], plain()))
    again = xml.Guest.from_dict(guest.to_record())
    assert again == guest and [vifs.Port(**port).kind for port in again.ports()] == ['ovs']


def test_plugging_fails_without_open_vswitch():
    plugs = vifs.Plugs('unix:/nonexistent/db.sock')
    with pytest.raises(exception.VirtError):
        plugs.plug('0a1b2c3d-1111-2222-3333-444444444445', vifs.port(vif('ovs')))


@pytest.mark.parametrize('kind', ['binding_failed', 'unbound', 'ovs'])
def test_port_is_unplugged_as_it_was_plugged(tmp_path, kind):
    """A port whose binding had failed stayed in the guest, and one with another binding left its bridge on the host."""
    pytest.importorskip('libvirt', reason='libvirt-python is not installed')
    from nova.virt.libvirt import guest_power
    from nova.virt.libvirt.features import interfaces
    instance, stored, unplugged = make_instance(), storage.Storage(str(tmp_path), None, None), []
    guest = plain(uuid=instance.uuid)
    other = {**vif('bridge'), 'address': 'fa:16:3e:00:00:02'}
    guest.interfaces = spec.interfaces([vif('ovs', ovs_hybrid_plug=True), other], guest)
    stored.make_directory(instance.uuid)
    stored.save(guest)
    hypervisor = types.SimpleNamespace(guest=lambda *_arguments: None)
    steps = types.SimpleNamespace(unplug=lambda _uuid, port: unplugged.append((port['kind'], port['device'])))
    feature = interfaces.Interfaces(guest_power.GuestPower(stored, hypervisor), steps)
    for _attempt in range(2):
        feature.detach_interface(None, instance, vif(kind))
        assert unplugged == [('hybrid', 'qbr0a1b2c3d-11')]
        assert [each.mac for each in stored.load(instance.uuid).interfaces] == ['fa:16:3e:00:00:02']


def test_port_with_a_failed_binding_is_detached_from_a_container(tmp_path):
    pytest.importorskip('libvirt', reason='libvirt-python is not installed')
    from nova.virt.libvirt import guest_power
    from nova.virt.libvirt.containers import guests
    instance, stored = make_instance(), storage.Storage(str(tmp_path), None, None)
    guest = plain(uuid=instance.uuid)
    guest.interfaces = spec.interfaces([vif('bridge')], guest)
    stored.make_directory(instance.uuid)
    stored.save(guest)
    feature = guests.Interfaces(guest_power.GuestPower(stored, types.SimpleNamespace(guest=lambda *_arguments: None)))
    feature.detach_interface(None, instance, {'id': PORT, 'address': None, 'pci_slot': '0000:0a:00.1'})
    assert stored.load(instance.uuid).interfaces == guest.interfaces
    feature.detach_interface(None, instance, vif('unbound'))
    assert stored.load(instance.uuid).interfaces == []
