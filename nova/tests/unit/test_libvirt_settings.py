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
from nova.tests.support import libvirt_xml as test_libvirt_xml
from nova.tests.support.libvirt_settings import PROOFS
from nova.tests.support.libvirt_settings import UEFI
from nova.virt import driver
from nova.virt.libvirt import calls
from nova.virt.libvirt import spec
from nova.virt.libvirt import xml
from nova.virt.libvirt.domain import offered
from nova.virt.libvirt.domain import processors


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


# of disks, which the guest does not see: test_libvirt_storage.py, integration/test_libvirt_encryption.py
ENCRYPTION = {'ephemeral_encryption', 'ephemeral_encryption_format'}


def test_every_row_of_the_driver_has_a_proof():
    assert {row.name for row in rows.ROWS if row.by == rows.GUEST} == set(PROOFS) | ENCRYPTION


@pytest.mark.parametrize('name', sorted(PROOFS))
def test_domain_has_the_element_of_each_guest_option(name, tmp_path):
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


@pytest.mark.parametrize('value', ['1', 't', 'TRUE', 'on', 'y', 'Yes', '0', 'f', 'n', 'no'])
def test_each_boolean_word_sets_the_agent_channel(value):
    channel = domain(properties={'hw_qemu_guest_agent': value}).find('devices/channel')
    assert (channel is not None) == (value not in ('0', 'f', 'n', 'no'))


ARM = {'hw_architecture': 'aarch64'}


@pytest.mark.parametrize('specs, properties, present, absent', [
    ({'hw:viommu_model': 'auto'}, {}, ["devices/iommu[@model='virtio']", "os/type[@machine='virt']"], []),
    ({'os:secure_boot': 'optional'}, {}, ["os/type[@machine='virt']"], ['os/loader', 'features/smm']),
    ({'os:secure_boot': 'optional'}, UEFI, ["os/type[@machine='virt']"], ['os/loader', 'features/smm']),
    ({'hw:tpm_version': '2.0'}, {}, ["devices/tpm[@model='tpm-tis']"], []),
    ({'hide_hypervisor_id': 'no', 'hw:mem_encryption': 'no'}, {'hw_time_hpet': 'no'}, [],
     ["clock/timer[@name='hpet']"])])
def test_options_follow_the_architecture(specs, properties, present, absent):
    root = domain(specs, {**ARM, **properties}, traits={'COMPUTE_SECURITY_UEFI_SECURE_BOOT'})
    assert all(root.find(path) is not None for path in present) and all(root.find(path) is None for path in absent)


@pytest.mark.parametrize('specs, properties', [
    ({'hw:viommu_model': 'intel'}, ARM), ({'os:secure_boot': 'required'}, {**ARM, **UEFI}),
    ({'hw:maxphysaddr_mode': 'emulate', 'hw:maxphysaddr_bits': '40'}, ARM), ({'hide_hypervisor_id': 'yes'}, ARM),
    ({'hw:mem_encryption': 'yes'}, {**ARM, **UEFI}), ({}, {**ARM, 'hw_time_hpet': 'yes'}),
    ({'hw:tpm_version': '1.2'}, ARM), ({'hw:tpm_version': '2.0', 'hw:tpm_model': 'tpm-crb'}, ARM),
    ({'hw:max_vcpus': '4'}, ARM), ({'hw:max_mem_mb': '4096'}, ARM), ({}, {**ARM, 'hw_machine_type': 'q35'})])
def test_options_only_for_x86_are_refused_for_another_architecture(specs, properties):
    with pytest.raises(exception.InvalidInput, match='only for x86, but the architecture of the image is aarch64'):
        guest_options.check(specs, properties)
    guest_options.check(specs, {name: value for name, value in properties.items() if name not in ARM})


def test_machine_of_another_architecture_needs_the_architecture():
    with pytest.raises(exception.InvalidInput, match='needs hw_architecture'):
        guest_options.check({}, {'hw_machine_type': 'virt-7.2'})
    guest_options.check({}, {**ARM, 'hw_machine_type': 'virt-7.2'})


CPUS = etree.fromstring("""<domainCapabilities><cpu><mode name='custom' supported='yes'>
    <model usable='yes'>Nehalem</model><model usable='no'>EPYC-Milan</model><model usable='yes'>EPYC</model>
    </mode></cpu></domainCapabilities>""")


def configured(**options):
    conf = configuration.new(files=[])
    for name, value in options.items():
        conf.set_override(name, value, 'libvirt')
    return conf


def test_first_supported_configured_cpu_model_is_chosen():
    chosen = processors.choose(configured(cpu_mode='custom', cpu_models=['EPYC-Milan', 'EPYC', 'Nehalem'],
                                          cpu_model_extra_flags=['pcid', '-vmx']), [CPUS])
    assert chosen == processors.Processor('custom', 'EPYC', ('pcid', '-vmx'))
    cpu = etree.fromstring(xml.domain(test_libvirt_xml.guest(), processor=chosen)).find('cpu')
    assert (cpu.get('mode'), cpu.get('match'), cpu.findtext('model')) == ('custom', 'exact', 'EPYC')
    assert [(each.get('name'), each.get('policy')) for each in cpu.findall('feature')] == [
        ('pcid', 'require'), ('vmx', 'disable')]
    assert processors.choose(configured(), [CPUS]) == processors.Processor()
    emulated = test_libvirt_xml.guest(arch='aarch64', machine='virt')
    assert xml.domain(emulated, processor=chosen) == xml.domain(emulated)        # the model is of the host


@pytest.mark.parametrize('options', [
    {'cpu_mode': 'custom'}, {'cpu_models': ['EPYC']}, {'cpu_mode': 'custom', 'cpu_models': ['EPYC-Milan']},
    {'cpu_mode': 'none', 'cpu_model_extra_flags': ['pcid']}])
def test_unsupported_cpu_configuration_is_refused(options):
    with pytest.raises(exception.VirtError):
        processors.choose(configured(**options), [CPUS])


def test_optional_secure_boot_is_what_the_host_can():
    specs = {'os:secure_boot': 'optional'}
    able = domain(specs, UEFI, traits={'COMPUTE_SECURITY_UEFI_SECURE_BOOT'})
    assert able.find("os/loader[@secure='yes']") is not None and able.find('os/type').get('machine') == 'q35'
    assert domain(specs, UEFI).find("os/loader") is None
    ide = domain(specs, {**UEFI, 'hw_disk_bus': 'ide'}, traits={'COMPUTE_SECURITY_UEFI_SECURE_BOOT'}, bus='ide')
    assert ide.find("os/loader") is None and ide.find('os/type').get('machine') == 'pc'


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


def test_memory_balloon_reports_the_used_memory():
    assert domain().find("devices/memballoon[@model='virtio']/stats[@period='10']") is not None
    host = {'balloon.current': 524288, 'balloon.rss': 300000}
    assert calls.used_kib(host) == 300000
    assert calls.used_kib({**host, 'balloon.available': 500000, 'balloon.unused': 400000}) == 100000


@pytest.mark.parametrize('flavor, image, action', [
    ('reset', 'poweroff', 'poweroff'), ('reset', 'disabled', None), ('disabled', 'pause', 'pause'),
    ('reset', None, 'reset')])
def test_watchdog_of_the_image_overrides_that_of_the_flavor(flavor, image, action):
    found = domain({'hw:watchdog_action': flavor}, {'hw_watchdog_action': image} if image else {})
    assert [each.get('action') for each in found.findall('devices/watchdog')] == ([action] if action else [])


def test_number_of_serial_ports_is_limited_by_the_flavor():
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
