"""What real QEMU guests see of their flavor's and image's settings; needs what test_libvirt.py does, OVMF and swtpm."""
import contextlib
import os
import pathlib
import re
import subprocess
from xml.etree import ElementTree as etree

import pytest

from nova import exception
from nova.hardware import guest_options
from nova.tests import long_runs
from nova.tests.support import libvirt as base
from nova.virt import driver as contract

pytestmark = base.pytestmark
libvirt = base.libvirt
state_path, module_rig, rig = base.state_path, base.module_rig, base.rig
UEFI = {'hw_firmware_type': 'uefi'}
TPM_STATE = pathlib.Path('/var/lib/libvirt/swtpm')


def made(specs=None, properties=None, kernel=False, ramdisk_id=base.RAMDISK_ID, **values):
    """(instance, image) of a flavor and an image; the image of a kernel boots under every firmware."""
    guest_options.check(specs, properties)
    instance = base.make_instance(**values)
    instance.flavor = {'name': 'f', 'swap': 0, 'vcpus': instance.vcpus, 'memory_mb': instance.memory_mb,
                       'extra_specs': specs or {}}
    instance.image_properties = properties or {}
    image_id = base.DISK_ID
    if kernel:
        image_id, instance.kernel_id, instance.ramdisk_id = base.ROOT_ID, base.KERNEL_ID, ramdisk_id
        instance.image_properties['os_command_line'] = 'root=/dev/vda console=ttyS0 panic=5 tsc=unstable'
    instance.image_id = image_id
    return instance, {'id': image_id, 'disk_format': base.Images.rows[image_id][0],
                      'properties': instance.image_properties}


@pytest.fixture
def spawn(rig):
    instances = []

    def start(*args, network_info=(), booted=True, **values):
        instance, image = made(*args, **values)
        instances.append(instance)
        missing = guest_options.traits(instance.flavor['extra_specs'], image['properties']).difference(
            rig.driver.guest_traits())
        if missing:
            pytest.skip(f'this host cannot do it: {sorted(missing)}')
        rig.driver.spawn(None, instance, contract.SpawnRequest(image=image, network_info=list(network_info)))
        if booted:
            rig.booted(instance)
        return instance
    yield start
    for instance in instances:
        rig.driver.destroy(None, instance, [])


def said(rig, instance, command):
    """What a command in the guest prints."""
    before = len(rig.console(instance))
    rig.type(instance, f'{command}; echo end-of-$((1+1))')
    base.wait_for(lambda: b'end-of-2' in rig.console(instance)[before:], base.BOOT_SECONDS, 'the command to end')
    return rig.console(instance)[before:].decode(errors='replace')


def dumped(instance):
    return etree.fromstring(subprocess.check_output(['virsh', '-c', base.URI, 'dumpxml', instance.uuid]))


def monitor(instance, command):
    return subprocess.check_output(['virsh', '-c', base.URI, 'qemu-monitor-command', instance.uuid, '--hmp', command],
                                   text=True)


def test_guest_sees_the_requested_devices(rig, spawn):
    """One guest with everything that hangs on the bus: PCI ids of the watchdog, sound, USB and IOMMU; CPUs as said."""
    instance = spawn({'hw:watchdog_action': 'poweroff', 'hw:sound_model': 'ich6', 'hw:usb_model': 'qemu-xhci',
                      'hw:serial_port_count': '2', 'hw:cpu_sockets': '1', 'hw:cpu_cores': '2',
                      'hide_hypervisor_id': 'true', 'hw_rng:allowed': 'false', 'hw:input_bus': 'virtio'},
                     {'hw_machine_type': 'q35', 'hw_video_model': 'bochs', 'hw_boot_menu': 'no'}, vcpus=2)
    devices = said(rig, instance, "cat /sys/bus/pci/devices/*/vendor /sys/bus/pci/devices/*/device | tr '\\n' ' '")
    for ident in ('0x25ab', '0x2668', '0x000d', '0x29c0', '0x1111', '0x1052'):
        assert ident in devices, ident           # i6300esb, ich6, xhci, q35's host bridge, bochs, virtio tablet
    assert '0x1044' not in devices and '0x1005' not in devices       # no random number generator
    base.wait_for(lambda: 'unused' in rig.driver.hypervisor.guest('look', instance.uuid, lambda it: it.memoryStats()),
                  60, 'the guest to say what it uses of its memory')
    text = said(rig, instance, "grep -c hypervisor /proc/cpuinfo; grep 'cpu cores' /proc/cpuinfo; "
                "cat /proc/tty/driver/serial")
    assert re.search(r'^0\r?$', text, re.MULTILINE) and 'cpu cores\t: 2' in text
    assert len(re.findall('uart:16550A', text)) == 2


@long_runs.only
def test_guest_has_its_own_uefi_variables(rig, spawn):
    instance = spawn({'hw:tpm_version': '2.0'}, dict(UEFI), kernel=True, memory_mb=256)
    assert 'efivars' in said(rig, instance, 'ls /sys/firmware/efi')
    assert 'TPM2' in said(rig, instance, 'ls /sys/firmware/acpi/tables')
    variables = rig.instances / instance.uuid / 'disk.nvram'
    assert variables.stat().st_size > 100000
    before = variables.stat().st_ino
    rig.driver.power_off(instance)
    rig.booted_again(instance, lambda: rig.driver.power_on(None, instance, []))
    assert variables.stat().st_ino == before
    rig.driver.destroy(None, instance, [])
    assert not variables.exists()


def test_the_guest_knows_that_it_was_booted_securely(rig, spawn):
    """Its kernel restricts itself when the firmware says so. QEMU's own -kernel is trusted by the firmware as such."""
    instance = spawn({'os:secure_boot': 'required'}, dict(UEFI), kernel=True, memory_mb=256, ramdisk_id=base.SIGNED_ID)
    root = dumped(instance)
    assert 'q35' in root.find('os/type').get('machine') and root.find("os/loader[@secure='yes']") is not None
    assert b'Secure boot enabled' in rig.console(instance)


@pytest.mark.parametrize('version, model', long_runs.rest([('2.0', 'tpm-crb'), ('1.2', 'tpm-tis')]))
def test_guest_has_its_own_tpm(rig, spawn, version, model):
    instance = spawn({'hw:tpm_version': version, 'hw:tpm_model': model}, booted=False)
    state = TPM_STATE / instance.uuid
    base.wait_for(lambda: any(path.stat().st_size for path in state.rglob('tpm*.permall')), 10, 'its state')
    assert f'model={model}' in monitor(instance, 'info tpm')
    (state / 'marker').touch()                           # it goes when libvirt removes the state
    rig.driver.power_off(instance)
    rig.driver.power_on(None, instance, [])
    assert (state / 'marker').exists()
    rig.driver.destroy(None, instance, [])
    base.wait_for(lambda: not state.exists(), 10, 'its state to go')


def test_the_state_of_a_tpm_goes_even_when_libvirt_has_lost_the_guest(rig, spawn):
    instance = spawn({'hw:tpm_version': '2.0'}, booted=False)
    connection = libvirt.open(base.URI)
    domain = connection.lookupByUUIDString(instance.uuid)
    domain.destroy()
    domain.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_KEEP_TPM)
    connection.close()
    assert (TPM_STATE / instance.uuid).exists()
    rig.driver.destroy(None, instance, [])
    base.wait_for(lambda: not (TPM_STATE / instance.uuid).exists(), 10, 'its state to go')


def test_variables_and_tpm_stay_in_a_resize_and_its_end(rig, spawn):
    instance = spawn({'hw:tpm_version': '2.0'}, dict(UEFI), kernel=True, memory_mb=256, booted=False)
    request = contract.SpawnRequest(image={'id': base.ROOT_ID, 'disk_format': 'ami',
                                         'properties': instance.image_properties}, network_info=[])
    rig.driver.power_off(instance)
    variables, state = rig.instances / instance.uuid / 'disk.nvram', TPM_STATE / instance.uuid
    with variables.open('r+b') as file:                  # as a guest that writes one
        file.seek(-16, 2)
        file.write(b'a variable here!')
    before = variables.read_bytes()
    (state / 'marker').touch()
    rig.driver.features[contract.Resize].send_guest(None, instance, rig.driver.host, [], 0)
    rig.driver.features[contract.Resize].finish_migration(None, instance, {}, request, False)
    assert variables.read_bytes() == before
    rig.driver.power_on(None, instance, [])
    rig.driver.features[contract.Resize].drop_migrated(None, instance, [])
    rig.driver.features[contract.Resize].finish_revert_migration(None, instance, [], [], False)
    assert variables.read_bytes() == before and (state / 'marker').exists()
    rig.driver.features[contract.Resize].send_guest(None, instance, rig.driver.host, [], 0)
    rig.driver.features[contract.Resize].finish_migration(None, instance, {}, request, False)
    rig.driver.destroy(None, instance, [])
    assert not variables.exists()
    base.wait_for(lambda: not state.exists(), 10, 'the state of its TPM to go')


def test_variables_and_tpm_stay_in_a_rebuild(rig, spawn):
    instance = spawn({'hw:tpm_version': '2.0'}, dict(UEFI), kernel=True, memory_mb=256, booted=False)
    variables, state = rig.instances / instance.uuid / 'disk.nvram', TPM_STATE / instance.uuid
    base.wait_for(lambda: any(path.stat().st_size for path in state.rglob('tpm*.permall')), 10, 'the state of its TPM')
    rig.driver.power_off(instance)
    with variables.open('r+b') as file:                  # as a guest that writes one
        file.seek(-16, 2)
        file.write(b'a variable here!')
    (state / 'marker').touch()
    disk = rig.instances / instance.uuid / 'disk'
    (rig.instances / instance.uuid / 'disk.local').mkdir()
    rig.driver.destroy(None, instance, [], keep_machine=True)
    assert not disk.exists() and sorted(os.listdir(rig.instances / instance.uuid)) == ['disk.nvram', 'machine.json']
    rig.driver.destroy(None, instance, [], keep_machine=True)       # as after a restart in the middle
    request = contract.SpawnRequest(image={'id': base.ROOT_ID, 'disk_format': 'ami',
                                         'properties': instance.image_properties}, network_info=[], keep_machine=True)
    rig.driver.spawn(None, instance, request)
    assert disk.exists() and variables.read_bytes()[-16:] == b'a variable here!' and (state / 'marker').exists()
    rig.driver.power_off(instance)
    instance.image_properties = {name: value for name, value in instance.image_properties.items()
                                 if name != 'hw_firmware_type'}       # another image, without UEFI
    rig.driver.destroy(None, instance, [], keep_machine=True)
    assert not variables.exists()
    base.wait_for(lambda: not state.exists(), 10, 'the state of its TPM to go')


def test_guest_of_another_architecture_is_emulated(rig, spawn):
    if 'aarch64' not in {line[0] for line in rig.driver.resources()[0].supported_instances}:
        pytest.skip('qemu-system-aarch64 is not installed')
    if not pathlib.Path('/usr/share/AAVMF').exists():
        pytest.skip('qemu-efi-aarch64 is not installed')
    instance = spawn({}, {'hw_architecture': 'aarch64'}, memory_mb=256, booted=False)
    assert dumped(instance).find('os/type').get('arch') == 'aarch64'
    base.wait_for(lambda: b'UEFI' in rig.console(instance), base.BOOT_SECONDS, 'its firmware to speak')


def test_disk_limits_apply_to_the_guest(rig, spawn):
    instance = spawn({'quota:disk_read_bytes_sec': '10485760', 'quota:disk_write_iops_sec': '100'}, booted=False)
    text = subprocess.check_output(['virsh', '-c', base.URI, 'blkdeviotune', instance.uuid, 'vda'], text=True)
    found = dict(line.split(':') for line in text.replace(' ', '').splitlines() if ':' in line)
    assert found['read_bytes_sec'] == '10485760' and found['write_iops_sec'] == '100'


def test_network_device_has_a_queue_for_each_vcpu(rig, spawn):
    instance = spawn({'hw:vif_multiqueue_enabled': 'true'}, {}, vcpus=2, booted=False, network_info=[rig.vif()])
    assert dumped(instance).find("devices/interface/driver[@queues='2']") is not None
    assert 'mq = true' in monitor(instance, 'info qtree')


def kernel_bounds_ports():
    """Whether this kernel has what libvirt sets with tc: a queueing discipline for what comes in, and a policer."""
    device = 'guests-tc'
    subprocess.run(['ip', 'link', 'add', device, 'type', 'bridge'], check=True)
    try:
        steps = (f'qdisc add dev {device} root handle 1: htb default 1', f'qdisc add dev {device} ingress',
                 f'filter add dev {device} parent ffff: protocol all u32 match u32 0 0 police rate 512kbps '
                 'burst 512kb mtu 64kb drop flowid :1')
        return all(not subprocess.run(['tc', *step.split()], capture_output=True).returncode for step in steps)
    finally:
        subprocess.run(['ip', 'link', 'del', device], check=True)


def test_port_limits_apply_to_the_guest(rig, spawn):
    """Where the kernel has what tc needs they are there; where not, the build fails and says so."""
    port = rig.vif()
    specs = {'quota:vif_inbound_average': '1024', 'quota:vif_outbound_average': '512'}
    if not kernel_bounds_ports():
        with pytest.raises(exception.BuildFailed, match='tc'):
            spawn(specs, {}, booted=False, network_info=[port])
    else:
        instance = spawn(specs, {}, booted=False, network_info=[port])
        text = subprocess.check_output(['virsh', '-c', base.URI, 'domiftune', instance.uuid, port['devname']],
                                       text=True)
        found = dict(line.split(':') for line in text.replace(' ', '').splitlines() if ':' in line)
        assert (found['inbound.average'], found['outbound.average']) == ('1024', '512')


def test_a_scsi_controller_has_queues_and_all_virtio_devices_packed_rings(rig, spawn):
    instance = spawn({'hw:virtio_packed_ring': 'true', 'hw:input_bus': 'virtio'},
                     {'hw_disk_bus': 'scsi', 'hw_qemu_guest_agent': 'yes'}, vcpus=2, booted=False,
                     network_info=[rig.vif()])
    devices = monitor(instance, 'info qtree')
    assert 'num_queues = 2' in devices
    assert devices.count('packed = true') == devices.count('bus: virtio-bus') == 6


def has_cpu_controller():
    """Whether libvirt has the cgroup controller of processors here, of either version."""
    unified = pathlib.Path('/sys/fs/cgroup/cgroup.controllers')
    if unified.exists():
        return 'cpu' in unified.read_text().split()
    return any('cpu' in line.split()[3].split(',') for line in pathlib.Path('/proc/mounts').read_text().splitlines()
               if line.split()[2] == 'cgroup')


def test_a_host_without_the_controller_of_processors_refuses_shares(rig, spawn):
    """Where the kernel has cgroups for processors the weight is there; where not, the build fails and says so."""
    if not has_cpu_controller():
        with pytest.raises(exception.BuildFailed, match='(?i)cpu'):
            spawn({'quota:cpu_shares': '512'}, booted=False)
    else:
        instance = spawn({'quota:cpu_shares': '512'}, booted=False)
        text = subprocess.check_output(['virsh', '-c', base.URI, 'schedinfo', instance.uuid], text=True)
        assert re.search(r'cpu_shares\s*: 512', text)


@pytest.mark.parametrize('source', long_runs.rest(['memfd', 'file']))
def test_memory_is_where_the_host_says(rig, spawn, monkeypatch, source):
    monkeypatch.setattr(rig.driver.platform, 'memory_source', source)
    instance = spawn({}, booted=False)
    mine = subprocess.check_output(['pgrep', '-af', f'^[^ ]*qemu-system.*{instance.uuid}'], text=True)
    assert f'"qom-type":"memory-backend-{source}"' in mine
    assert ('"prealloc":true' in mine) is (source == 'file')
    assert rig.driver.storage.load(instance.uuid).resources.memory_source == source
    assert ('COMPUTE_MEM_BACKING_FILE' in rig.driver.guest_traits()) is (source == 'file')


def test_traits_are_of_this_host(rig):
    found = set(rig.driver.guest_traits())
    assert {'COMPUTE_FIRMWARE_UEFI', 'COMPUTE_SECURITY_UEFI_SECURE_BOOT', 'COMPUTE_SECURITY_TPM_2_0',
            'COMPUTE_STORAGE_BUS_SATA', 'COMPUTE_GRAPHICS_MODEL_VIRTIO'} <= found
    assert not any('SEV' in trait for trait in found)


def test_firmware_that_is_installed_later_is_offered_with_the_next_report(rig):
    """An empty file in /etc/qemu/firmware hides the description of the same name that a package has."""
    hidden = [pathlib.Path('/etc/qemu/firmware') / file.name for file in
              pathlib.Path('/usr/share/qemu/firmware').glob('*.json')]
    with contextlib.ExitStack() as stack:
        hidden[0].parent.mkdir(parents=True, exist_ok=True)
        for file in hidden:
            file.touch(exist_ok=False)
            stack.callback(file.unlink)
        rig.driver.resources()
        assert 'COMPUTE_SECURITY_UEFI_SECURE_BOOT' not in rig.driver.guest_traits()
    rig.driver.resources()
    assert {'COMPUTE_FIRMWARE_UEFI', 'COMPUTE_SECURITY_UEFI_SECURE_BOOT'} <= set(rig.driver.guest_traits())
