"""Machine: firmware and boot, features, clock, and processor settings except placement."""
from typing import Any
from xml.etree import ElementTree as etree

from nova.hardware import disks as disk_words
from nova.hardware import guest_options
from nova.virt.libvirt.domain.tree import add

# Hyper-V enlightenments that KVM supports: https://libvirt.org/formatdomain.html#hypervisor-features
HYPERV = ('relaxed', 'vapic', 'vpindex', 'runtime', 'synic', 'reset', 'frequencies', 'tlbflush', 'ipi')
SPINLOCK_RETRIES = 8191                  # attempts after which a Windows guest notifies the hypervisor
SEV_POLICY, SEV_ES_POLICY = 0x33, 0x37   # AMD's SEV API: no debugging, no key sharing, only SEV hosts (and ES)


def is_on(guest: Any, name: str) -> bool:
    """Return whether a boolean setting of the guest is true."""
    return bool(guest.settings.get(name) == guest_options.TRUE)


def boot(root: etree.Element, guest: Any) -> None:
    """Add firmware and boot settings.

    :param guest: xml.Guest
    """
    os_ = add(root, 'os')
    add(os_, 'type', 'hvm', machine=guest.machine, arch=guest.arch)
    if guest.settings.get('firmware_type') == 'uefi':
        _uefi(os_, guest)
    if guest.kernel:
        add(os_, 'kernel', guest.kernel)
        if guest.ramdisk:
            add(os_, 'initrd', guest.ramdisk)
        add(os_, 'cmdline', guest.cmdline)
    else:
        add(os_, 'boot', dev='hd')
        if any(disk.device == disk_words.CDROM for disk in guest.disks):     # until an OS is on the disk
            add(os_, 'boot', dev='cdrom')
    if is_on(guest, 'boot_menu'):
        add(os_, 'bootmenu', enable='yes')
    add(os_, 'smbios', mode='sysinfo')


def _uefi(os_: etree.Element, guest: Any) -> None:
    """Add UEFI features: libvirt selects a matching firmware and copies its variables template."""
    secure = 'yes' if _is_secure(guest) else 'no'
    os_.set('firmware', 'efi')
    firmware = add(os_, 'firmware')
    for feature in ('secure-boot', 'enrolled-keys'):
        add(firmware, 'feature', enabled=secure, name=feature)
    if secure == 'yes':
        add(os_, 'loader', secure='yes')
    add(os_, 'nvram', guest.nvram)


def _is_secure(guest: Any) -> bool:
    return bool(guest.settings.get('secure_boot') == 'required')


def features(root: etree.Element, guest: Any) -> None:
    element = add(root, 'features')
    add(element, 'acpi')
    if guest.arch is None:               # a PC
        add(element, 'apic')
    if 'pmu' in guest.settings:
        add(element, 'pmu', state='on' if is_on(guest, 'pmu') else 'off')
    if guest.virt_type == 'kvm':
        if is_on(guest, 'hide_hypervisor_id'):
            add(add(element, 'kvm'), 'hidden', state='on')
        if guest.settings.get('os_type') == 'windows':
            hyperv = add(element, 'hyperv', mode='custom')
            for name in HYPERV:
                add(hyperv, name, state='on')
            add(hyperv, 'spinlocks', state='on', retries=SPINLOCK_RETRIES)
        if _iommu(guest) == 'intel':
            add(element, 'ioapic', driver='qemu')            # required for interrupt remapping
    if _is_secure(guest):
        add(element, 'smm', state='on')                      # otherwise the guest could write the variables


def processor(cpu: etree.Element, guest: Any) -> None:
    """Add the settings to the element of the processor."""
    if is_on(guest, 'hide_hypervisor_id'):
        add(cpu, 'feature', policy='disable', name='hypervisor')
    mode, bits = guest.settings.get('maxphysaddr_mode'), guest.settings.get('maxphysaddr_bits')
    if mode or bits:
        add(cpu, 'maxphysaddr', mode=mode or 'emulate', bits=bits)


def clock(root: etree.Element, guest: Any) -> None:
    windows = guest.settings.get('os_type') == 'windows'
    element = add(root, 'clock', offset='localtime' if windows else 'utc')
    if guest.virt_type == 'kvm':
        add(element, 'timer', name='pit', tickpolicy='delay')
        add(element, 'timer', name='rtc', tickpolicy='catchup')
        if windows:
            add(element, 'timer', name='hypervclock', present='yes')
    if guest.virt_type == 'kvm' or 'time_hpet' in guest.settings:
        add(element, 'timer', name='hpet', present='yes' if is_on(guest, 'time_hpet') else 'no')


def tuning(root: etree.Element, guest: Any) -> None:
    """Add weight and limits of CPU time to the present placement of the vCPUs, if any."""
    settings = guest.settings
    found = [(name, settings[f'quota_cpu_{name}']) for name in ('shares', 'period', 'quota')
             if f'quota_cpu_{name}' in settings]
    if found:
        element = root.find('cputune')
        if element is None:
            element = add(root, 'cputune')
        for name, value in found:
            add(element, name, value)


def memory(root: etree.Element, guest: Any) -> None:
    """Lock memory if the guest requests it, or if devices need encrypted memory to stay in place."""
    if is_on(guest, 'locked_memory') or is_on(guest, 'mem_encryption'):
        element = root.find('memoryBacking')
        if element is None:
            element = add(root, 'memoryBacking')
        if element.find('locked') is None:
            add(element, 'locked')


def launch_security(root: etree.Element, guest: Any) -> None:
    if is_on(guest, 'mem_encryption'):
        policy = SEV_ES_POLICY if guest.settings.get('mem_encryption_model') == 'amd-sev-es' else SEV_POLICY
        add(add(root, 'launchSecurity', type='sev'), 'policy', f'0x{policy:04x}')


def _iommu(guest: Any) -> str | None:
    """Return the IOMMU model, or None without one."""
    model = guest.settings.get('viommu_model')
    return None if model in (None, 'none') else 'intel' if model == 'auto' else model


def iommu(devices: etree.Element, guest: Any) -> None:
    model = _iommu(guest)
    if model:
        element = add(devices, 'iommu', model=model)
        if model == 'intel':
            add(element, 'driver', intremap='on' if guest.virt_type == 'kvm' else None, caching_mode='on', iotlb='on')
