"""The domain XML against libvirt's own schema, and against hostile names."""
import json
import shutil
import subprocess
from xml.etree import ElementTree as etree

import pytest

from nova import exception
from nova.objects import pci
from nova.tests.contract import driver_contract
from nova.tests.support import libvirt_xml
from nova.tests.support.libvirt_xml import FakeStorage
from nova.tests.support.libvirt_xml import UUID
from nova.virt import driver
from nova.virt.libvirt import spec
from nova.virt.libvirt import xml

guest = libvirt_xml.guest


HOSTILE = '</name><devices><disk/></devices> & "\' \x00\x1b\ud800\uffff é'


VARIANTS = {
    'plain': {},
    'kvm': {'virt_type': 'kvm'},
    'kernel': {'kernel': '/i/kernel', 'ramdisk': '/i/ramdisk', 'cmdline': 'root=/dev/vda console=ttyS0'},
    'kernel alone': {'kernel': '/i/kernel', 'cmdline': 'x'},
    'network': {'interfaces': [xml.Interface('fa:16:3e:00:00:01', 'br0', 'tap0123', 'e1000', 1450)]},
    'agent and q35': {'agent': True, 'machine': 'q35'},
    'devices of the host': {'machine': 'q35', 'hostdevs': [
        pci.Device('0000:81:00.0', '10de', '20b0'), pci.Device('0001:0a:1f.7', '8086', '10ed', tags={
            'managed': 'false'})]},
    'memfd': {'memory_source': 'memfd'},
    'file': {'memory_source': 'file', 'settings': {'locked_memory': 'true'}},
    'share': {'shares': [{'share_id': UUID, 'tag': 'data', 'directory': '/i/share', 'program': '/bin/nova-virtiofsd'}]},
    'scsi': {'disks': [xml.Disk('/i/disk', 'raw', 'sda', 'scsi')]},
    'hostile': {'facts': dict.fromkeys(('name', 'flavor', 'project_id', 'user_id', 'image_id'), HOSTILE),
                'kernel': '/i/kernel', 'cmdline': HOSTILE},
}


@pytest.mark.parametrize('name', VARIANTS)
def test_domain_follows_the_schema(name, tmp_path):
    if not (shutil.which('virt-xml-validate') and shutil.which('xmllint')):
        pytest.skip('virt-xml-validate (libvirt-clients) or xmllint (libxml2-utils) is not installed')
    file = tmp_path / 'domain.xml'
    file.write_text(xml.domain(guest(**VARIANTS[name])))
    done = subprocess.run(['virt-xml-validate', str(file), 'domain'], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize('machine, ports', [
    ('pc', 0), ('pc-i440fx-7.2', 0), ('q35', 24), ('pc-q35-7.2', 24), ('virt', 24), ('virt-7.2', 24)])
def test_machines_with_pci_express_have_ports_for_later_devices(machine, ports):
    root = etree.fromstring(xml.domain(guest(machine=machine)))
    assert len(root.findall("./devices/controller[@model='pcie-root-port']")) == ports
    assert len(root.findall("./devices/controller[@model='pcie-root'][@index='0']")) == (ports > 0)


def test_names_never_become_markup():
    root = etree.fromstring(xml.domain(guest(**VARIANTS['hostile'])))
    assert len(root.findall('./devices')) == 1 and len(root.findall('./devices/disk')) == 2
    assert root.findtext(f'.//{{{xml.NAMESPACE}}}name') == '</name><devices><disk/></devices> & "\'  é'


def test_every_disk_names_its_format_and_the_end_of_its_chain():
    """Class B: libvirt probes a chain that is not named to its end, and a guest can write any header."""
    root = etree.fromstring(xml.domain(guest()))
    for disk in root.findall('./devices/disk'):
        assert disk.find('driver').get('type') in ('qcow2', 'raw')
        store = disk.find('backingStore')
        while len(store):
            assert store.find('format').get('type') == 'raw'
            store = store.find('backingStore')
        assert not store.attrib


def test_owner_is_read_back():
    root = etree.fromstring(xml.domain(guest(owner='/a "dir" & more')))
    element = root.find(f'./metadata/{{{xml.OWNER_NAMESPACE}}}owner')
    assert xml.owner_of(etree.tostring(element, encoding='unicode')) == '/a "dir" & more'


def test_a_guest_survives_its_record():
    made = guest(**VARIANTS['network'], **VARIANTS['devices of the host'])
    assert xml.Guest.from_dict(json.loads(json.dumps(made.to_record()))) == made


def made_from(properties, boot_files=None, bus='virtio'):
    request = driver.SpawnRequest(image={'id': 'image', 'properties': properties}, network_info=[])
    return spec.guest(driver_contract.make_instance(), request, 'qemu', FakeStorage(),
                      [xml.Disk('/i/disk', 'raw', 'vda', bus)], boot_files or {})


@pytest.mark.parametrize('properties', [
    {'hw_vif_model': 'evil"/>'}, {'hw_machine_type': 'pc,accel=kvm'}, {'hw_machine_type': 'q35\n'}])
def test_unknown_hardware_is_refused(properties):
    with pytest.raises(exception.ImageUnacceptable):
        made_from(properties)


@pytest.mark.parametrize('machine', ['q35', 'pc-q35-7.2', 'virt'])
def test_only_i440fx_machines_have_ide(machine):
    with pytest.raises(exception.ImageUnacceptable, match=f'a {machine} machine has no ide disks'):
        made_from({'hw_machine_type': machine}, bus='ide')
    assert made_from({'hw_machine_type': 'pc-i440fx-7.2'}, bus='ide').disks[0].bus == 'ide'


def test_kernel_command_line_has_a_default_and_can_be_set():
    boot_files = {'kernel': '/k', 'ramdisk': '/r'}
    assert made_from({}, boot_files).boot.cmdline == 'root=/dev/vda console=ttyS0'
    assert made_from({'os_command_line': 'mine'}, boot_files).boot.cmdline == 'mine'
    assert made_from({'os_command_line': 'mine'}).boot.cmdline is None


def test_a_port_of_another_type_is_refused():
    with pytest.raises(exception.VirtError):
        spec.interfaces([{'type': 'hw_veb', 'address': 'x', 'devname': 'tap', 'network': {}}], guest())


def test_devices_that_the_instance_has_are_given_to_the_guest():
    instance = driver_contract.make_instance()
    instance.pci_devices = pci.dump([pci.Device('0000:81:00.1', '10de', '20b0')])
    request = driver.SpawnRequest(image={'id': 'image', 'properties': {}}, network_info=[])
    made = spec.guest(instance, request, 'qemu', FakeStorage(), [xml.Disk('/i/disk', 'raw', 'vda')], {})
    found = etree.fromstring(xml.domain(made)).findall('./devices/hostdev')
    assert [(each.get('managed'), each.find('source/address').attrib) for each in found] == [
        ('yes', {'domain': '0x0000', 'bus': '0x81', 'slot': '0x00', 'function': '0x1'})]


def test_a_record_that_was_made_before_there_were_devices():
    values = guest().to_record()
    del values['hostdevs']
    assert xml.Guest.from_dict(values) == guest()
