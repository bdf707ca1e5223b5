"""Each row of the table of guest options that the driver does is in the XML of the domain, which the schema takes.

PROOFS has a case for each such row; test_every_row_of_the_driver_has_a_proof fails when one has none.
"""
import shutil
import subprocess
from xml.etree import ElementTree as etree

import pytest

pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova import conf as configuration
from nova import exception
from nova.hardware import guest_option_rows as rows
from nova.hardware import guest_options
from nova.tests.contract import driver_contract
from nova.tests.unit import test_libvirt_xml
from nova.virt import driver
from nova.virt.libvirt.features import diagnostics
from nova.virt.libvirt import spec
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain import offered
from nova.virt.libvirt.domain import processors

UEFI = {'hw_firmware_type': 'uefi'}
PORT = {'id': 'p', 'type': 'bridge', 'address': 'fa:16:3e:00:00:01', 'devname': 'tap0', 'network': {'bridge': 'br0'}}


def domain(specs=None, properties=None, virt_type='qemu', vcpus=4, traits=frozenset(), bus='virtio'):
    """The domain that a server of this flavor and image gets, after the API has let them pass."""
    guest_options.check(specs, properties)
    instance = driver_contract.make_instance()
    instance.vcpus = vcpus
    instance.flavor = {'name': 'f', 'vcpus': vcpus, 'swap': 0, 'extra_specs': specs or {}}
    instance.image_properties = properties or {}
    request = driver.SpawnRequest(image={'id': 'image', 'properties': properties or {}}, network_info=[PORT])
    disks = [xml.Disk('/i/disk', 'raw', 'sda' if bus == 'scsi' else 'vda', bus)]
    made = spec.guest(instance, request, virt_type, test_libvirt_xml.FakeStorage(), disks, {}, traits)
    return etree.fromstring(xml.domain(made))


# name of the row: (extra specs, image properties, virt_type, paths that must be there, paths that must not)
PROOFS = {
    'hide_hypervisor_id': ({'hide_hypervisor_id': 'true'}, {}, 'kvm', [
        "features/kvm/hidden[@state='on']", "cpu/feature[@name='hypervisor'][@policy='disable']"], []),
    'maxphysaddr_mode': ({'hw:maxphysaddr_mode': 'passthrough'}, {}, 'kvm', [
        "cpu/maxphysaddr[@mode='passthrough']"], []),
    'maxphysaddr_bits': ({'hw:maxphysaddr_mode': 'emulate', 'hw:maxphysaddr_bits': '42'}, {}, 'kvm', [
        "cpu/maxphysaddr[@mode='emulate'][@bits='42']"], []),
    'pmu': ({}, {'hw_pmu': 'no'}, 'qemu', ["features/pmu[@state='off']"], []),
    'max_vcpus': ({'hw:max_vcpus': '6'}, {}, 'qemu', [
        "vcpu[@current='4'][.='6']", "cpu/topology[@sockets='6']"], ['maxMemory', 'cpu/numa']),
    'max_mem_mb': ({'hw:max_mem_mb': '4096'}, {}, 'qemu', [
        "maxMemory[@unit='MiB'][@slots='16'][.='4096']", "cpu/numa/cell[@cpus='0-3']"], ['vcpu[@current]']),
    'time_hpet': ({}, {'hw_time_hpet': 'yes'}, 'kvm', ["clock/timer[@name='hpet'][@present='yes']"], []),
    'quota_cpu_shares': ({'quota:cpu_shares': '2048'}, {}, 'qemu', ["cputune[shares='2048']"], []),
    'quota_cpu_period': ({'quota:cpu_period': '20000'}, {}, 'qemu', ["cputune[period='20000']"], []),
    'quota_cpu_quota': ({'quota:cpu_quota': '10000'}, {}, 'qemu', ["cputune[quota='10000']"], []),
    'locked_memory': ({'hw:locked_memory': 'true'}, {}, 'qemu', ['memoryBacking/locked'], []),
    'mem_encryption': ({'hw:mem_encryption': 'true'}, {**UEFI, 'hw_qemu_guest_agent': 'yes'}, 'kvm', [
        "launchSecurity[@type='sev'][policy='0x0033']", 'memoryBacking/locked', "os/type[@machine='q35']",
        "devices/disk/driver[@iommu='on']", "devices/interface/driver[@iommu='on']",
        "devices/memballoon/driver[@iommu='on']", "devices/rng/driver[@iommu='on']",
        "devices/controller[@type='virtio-serial']/driver[@iommu='on']"], []),
    'mem_encryption_model': ({'hw:mem_encryption': 'true', 'hw:mem_encryption_model': 'amd-sev-es'}, UEFI, 'kvm', [
        "launchSecurity[policy='0x0037']"], []),
    'machine_type': ({}, {'hw_machine_type': 'q35'}, 'qemu', ["os/type[@machine='q35']"], []),
    'firmware_type': ({}, UEFI, 'qemu', ["os[@firmware='efi']/nvram"], ['os/loader', 'features/smm']),
    'secure_boot': ({'os:secure_boot': 'required'}, UEFI, 'qemu', [
        "os/loader[@secure='yes']", "os/firmware/feature[@name='enrolled-keys'][@enabled='yes']",
        "os/type[@machine='q35']", "features/smm[@state='on']"], []),
    'boot_menu': ({}, {'hw_boot_menu': 'true'}, 'qemu', ["os/bootmenu[@enable='yes']"], []),
    'tpm_version': ({'hw:tpm_version': '2.0'}, {}, 'qemu', [
        "devices/tpm[@model='tpm-crb']/backend[@type='emulator'][@version='2.0']"], []),
    'tpm_model': ({'hw:tpm_version': '1.2', 'hw:tpm_model': 'tpm-tis'}, {}, 'qemu', [
        "devices/tpm[@model='tpm-tis']/backend[@version='1.2']"], []),
    'os_type': ({}, {'os_type': 'windows'}, 'kvm', [
        "clock[@offset='localtime']/timer[@name='hypervclock']", "features/hyperv/relaxed[@state='on']",
        "features/hyperv/spinlocks[@retries='8191']"], []),
    'watchdog_action': ({'hw:watchdog_action': 'reset'}, {}, 'qemu', [
        "devices/watchdog[@model='i6300esb'][@action='reset']"], []),
    'rng_allowed': ({'hw_rng:allowed': 'False'}, {}, 'qemu', [], ['devices/rng']),
    'rng_rate_bytes': ({'hw_rng:rate_bytes': '64'}, {}, 'qemu', ["devices/rng/rate[@bytes='64'][@period='1000']"], []),
    'rng_rate_period': ({'hw_rng:rate_bytes': '64', 'hw_rng:rate_period': '500'}, {}, 'qemu', [
        "devices/rng/rate[@bytes='64'][@period='500']"], []),
    'rng_model': ({}, {'hw_rng_model': 'virtio'}, 'qemu', ["devices/rng[@model='virtio']"], []),
    'video_model': ({}, {'hw_video_model': 'qxl'}, 'qemu', ["devices/video/model[@type='qxl']"], []),
    'video_ram': ({'hw_video:ram_max_mb': '64'}, {'hw_video_ram': '32', 'hw_video_model': 'vga'}, 'qemu', [
        "devices/video/model[@vram='32768']"], []),
    'input_bus': ({'hw:input_bus': 'virtio'}, {}, 'qemu', ["devices/input[@type='tablet'][@bus='virtio']"], []),
    'pointer_model': ({}, {'hw_pointer_model': 'usbtablet'}, 'qemu', [
        "devices/input[@type='tablet'][@bus='usb']"], []),
    'sound_model': ({'hw:sound_model': 'ich9'}, {}, 'qemu', ["devices/sound[@model='ich9']"], []),
    'usb_model': ({'hw:usb_model': 'qemu-xhci'}, {}, 'qemu', [
        "devices/controller[@type='usb'][@model='qemu-xhci']"], []),
    'serial_port_count': ({'hw:serial_port_count': '3'}, {'hw_serial_port_count': '2'}, 'qemu', [
        "devices/serial[2]/target[@port='1']"], ['devices/serial[3]']),
    'viommu_model': ({'hw:viommu_model': 'auto'}, {}, 'kvm', [
        "devices/iommu[@model='intel']/driver[@intremap='on'][@caching_mode='on']", "features/ioapic[@driver='qemu']",
        "os/type[@machine='q35']"], []),
    'virtio_packed_ring': (
        {'hw:virtio_packed_ring': 'true', 'hw:input_bus': 'virtio'}, {'hw_video_model': 'virtio'}, 'qemu', [
            "devices/disk/driver[@packed='on']", "devices/interface/driver[@packed='on']",
            "devices/input/driver[@packed='on']", "devices/video/driver[@packed='on']"], []),
    'qemu_guest_agent': ({}, {'hw_qemu_guest_agent': 'yes'}, 'qemu', [
        "devices/channel/target[@name='org.qemu.guest_agent.0']"], []),
    'disk_bus': ({}, {'hw_disk_bus': 'scsi'}, 'qemu', [
        "devices/disk/target[@bus='scsi']", "devices/controller[@model='virtio-scsi']/driver[@queues='4']"], []),
    'scsi_model': ({}, {'hw_disk_bus': 'scsi', 'hw_scsi_model': 'lsilogic'}, 'qemu', [
        "devices/controller[@type='scsi'][@model='lsilogic']"], []),
    'vif_model': ({}, {'hw_vif_model': 'e1000e'}, 'qemu', ["devices/interface/model[@type='e1000e']"], []),
    'vif_multiqueue_enabled': ({'hw:vif_multiqueue_enabled': 'true'}, {}, 'qemu', [
        "devices/interface/driver[@queues='4']"], []),
}
for _unit in ('bytes', 'iops'):
    for _what in ('read', 'write', 'total'):
        _specs = {}
        for _end in ('', '_max', '_max_length'):
            _name = f'disk_{_what}_{_unit}_sec{_end}'
            _specs = {**_specs, f'quota:{_name}': str(1000 + len(_end))}
            PROOFS[f'quota_{_name}'] = (_specs, {}, 'qemu', [
                f"devices/disk/iotune[{_name.removeprefix('disk_')}='{1000 + len(_end)}']"], [])
for _way in ('inbound', 'outbound'):
    for _what in ('average', 'peak', 'burst'):
        PROOFS[f'quota_vif_{_way}_{_what}'] = (
            {f'quota:vif_{_way}_average': '512', f'quota:vif_{_way}_{_what}': '1024'}, {}, 'qemu', [
                f"devices/interface/bandwidth/{_way}[@{_what}='1024']"], [])


# of disks, which the guest does not see: test_libvirt_storage.py, integration/test_libvirt_encryption.py
ENCRYPTION = {'ephemeral_encryption', 'ephemeral_encryption_format'}


def test_every_row_of_the_driver_has_a_proof():
    assert {row.name for row in rows.ROWS if row.by == rows.GUEST} == set(PROOFS) | ENCRYPTION


@pytest.mark.parametrize('name', sorted(PROOFS))
def test_the_domain_has_it(name, tmp_path):
    specs, properties, virt_type, present, absent = PROOFS[name]
    bus = properties.get('hw_disk_bus', 'virtio')
    root, plain = domain(specs, properties, virt_type, bus=bus), domain(virt_type=virt_type)
    for path in present:
        assert root.find(path) is not None, (path, etree.tostring(root, encoding='unicode'))
    for path in absent:
        assert root.find(path) is None, path
    if name not in ('rng_model', 'maxphysaddr_bits'):          # it is not what every guest has
        assert all(plain.find(path) is None for path in present) and (present or all(
            plain.find(path) is not None for path in absent))
    if shutil.which('virt-xml-validate') and shutil.which('xmllint'):
        file = tmp_path / 'domain.xml'
        file.write_text(etree.tostring(root, encoding='unicode'))
        done = subprocess.run(['virt-xml-validate', str(file), 'domain'], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_another_architecture_is_emulated(tmp_path):
    root = domain({}, {'hw_architecture': 'arm64'})
    kind = root.find('os/type')
    assert (kind.get('arch'), kind.get('machine')) == ('aarch64', 'virt')
    assert root.find("os[@firmware='efi']") is not None and root.find('features/apic') is None
    assert domain({}, {'hw_architecture': 'x86_64'}).find('os/type').get('arch') is None


CPUS = etree.fromstring("""<domainCapabilities><cpu><mode name='custom' supported='yes'>
    <model usable='yes'>Nehalem</model><model usable='no'>EPYC-Milan</model><model usable='yes'>EPYC</model>
    </mode></cpu></domainCapabilities>""")


def configured(**options):
    conf = configuration.new(files=[])
    for name, value in options.items():
        conf.set_override(name, value, 'libvirt')
    return conf


def test_the_processor_of_the_configuration():
    chosen = processors.choose(configured(cpu_mode='custom', cpu_models=['EPYC-Milan', 'EPYC', 'Nehalem'],
                                          cpu_model_extra_flags=['pcid', '-vmx']), [CPUS])
    assert chosen == processors.Processor('custom', 'EPYC', ('pcid', '-vmx'))
    cpu = etree.fromstring(xml.domain(test_libvirt_xml.guest(), processor=chosen)).find('cpu')
    assert (cpu.get('mode'), cpu.get('match'), cpu.findtext('model')) == ('custom', 'exact', 'EPYC')
    assert [(each.get('name'), each.get('policy')) for each in cpu.findall('feature')] == [
        ('pcid', 'require'), ('vmx', 'disable')]
    assert processors.choose(configured(), [CPUS]) == processors.Processor()


@pytest.mark.parametrize('options', [
    {'cpu_mode': 'custom'}, {'cpu_models': ['EPYC']}, {'cpu_mode': 'custom', 'cpu_models': ['EPYC-Milan']},
    {'cpu_mode': 'none', 'cpu_model_extra_flags': ['pcid']}])
def test_a_processor_that_cannot_be_given(options):
    with pytest.raises(exception.VirtError):
        processors.choose(configured(**options), [CPUS])


def test_optional_secure_boot_is_what_the_host_can():
    specs = {'os:secure_boot': 'optional'}
    able = domain(specs, UEFI, traits={'COMPUTE_SECURITY_UEFI_SECURE_BOOT'})
    assert able.find("os/loader[@secure='yes']") is not None and able.find('os/type').get('machine') == 'q35'
    assert domain(specs, UEFI).find("os/loader") is None


def test_traits_are_read_from_what_libvirt_says():
    text = '''<domainCapabilities>
      <os supported='yes'><enum name='firmware'><value>efi</value></enum>
        <loader supported='yes'><enum name='secure'><value>yes</value><value>no</value></enum></loader></os>
      <devices>
        <video supported='yes'><enum name='modelType'><value>vga</value><value>none</value></enum></video>
        <disk supported='yes'><enum name='bus'><value>sata</value></enum></disk>
        <tpm supported='%s'><enum name='model'><value>tpm-crb</value></enum>
          <enum name='backendModel'><value>passthrough</value><value>emulator</value></enum>
          <enum name='backendVersion'><value>2.0</value></enum></tpm>
      </devices>
      <features><sev supported='yes'><maxESGuests>0</maxESGuests></sev></features></domainCapabilities>'''
    found = offered.of([etree.fromstring(text % 'yes')], 'qemu')
    assert {'COMPUTE_FIRMWARE_UEFI', 'COMPUTE_SECURITY_UEFI_SECURE_BOOT', 'COMPUTE_GRAPHICS_MODEL_NONE',
            'COMPUTE_STORAGE_BUS_SATA', 'COMPUTE_SECURITY_TPM_2_0', 'COMPUTE_SECURITY_TPM_CRB',
            'HW_CPU_X86_AMD_SEV'} <= found
    assert not {'COMPUTE_SECURITY_TPM_1_2', 'HW_CPU_X86_AMD_SEV_ES', 'COMPUTE_STORAGE_BUS_IDE',
                'COMPUTE_ADDRESS_SPACE_EMULATED'} & found
    assert 'COMPUTE_ADDRESS_SPACE_EMULATED' in offered.of([], 'kvm')
    assert not any('TPM' in trait for trait in offered.of([etree.fromstring(text % 'no')], 'qemu'))
    assert found - {'HW_CPU_X86_AMD_SEV'} <= guest_options.every_trait() | {'COMPUTE_GRAPHICS_MODEL_RAMFB'}


def test_the_balloon_tells_of_the_guests_memory():
    assert domain().find("devices/memballoon[@model='virtio']/stats[@period='10']") is not None
    host = {'balloon.current': 524288, 'balloon.rss': 300000}
    assert diagnostics.used_kib(host) == 300000
    assert diagnostics.used_kib({**host, 'balloon.available': 500000, 'balloon.unused': 400000}) == 100000


def test_number_of_serial_ports():
    """The image has at most as many as the flavor allows; both are numbers of ports."""
    def count(flavor, image):
        specs = {'hw:serial_port_count': flavor} if flavor else {}
        properties = {'hw_serial_port_count': image} if image else {}
        guest_options.check(specs, properties)
        return int(guest_options.settings(specs, properties).get('serial_port_count', 1))
    assert [count(None, None), count('3', None), count(None, '2'), count('4', '2')] == [1, 3, 2, 2]
    for flavor, image in (('0', None), ('5', None), ('-1', None), ('x', None), (None, '9'), ('2', '4')):
        with pytest.raises(exception.InvalidInput):
            count(flavor, image)
