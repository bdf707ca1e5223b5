"""What tests share with nova/tests/unit/test_libvirt_settings.py."""
UEFI = {'hw_firmware_type': 'uefi'}

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
