"""Domain XML of the machine: firmware, boot, features, clock, and settings of the processor except placement."""
import dataclasses
from xml.etree import ElementTree as etree

from nova.hardware import guest_options
from nova.virt.libvirt.domain.tree import add, child

# Hyper-V enlightenments that KVM supports: https://libvirt.org/formatdomain.html#hypervisor-features
HYPERV = ('relaxed', 'vapic', 'vpindex', 'runtime', 'synic', 'reset', 'frequencies', 'tlbflush', 'ipi')
SPINLOCK_RETRIES = 8191                  # attempts to get a spinlock before a Windows guest notifies the hypervisor
SEV_POLICY, SEV_ES_POLICY = 0x33, 0x37   # bits: no debugging, no key sharing, only SEV hosts; 0x37 also demands SEV-ES
DEFAULT = guest_options.PC


@dataclasses.dataclass
class Hardware:
    """Virtual hardware of a guest.

    virt_type  type of the domain: 'kvm', 'qemu' or 'lxc'
    machine    machine type
    arch       libvirt's name of the architecture; None: architecture of the host
    vif_model  model of the network devices
    agent      whether the guest has a channel for the guest agent
    settings   settings of flavor and image (hardware.guest_options.settings)
    """

    virt_type: str
    machine: str = DEFAULT
    arch: str | None = None
    vif_model: str = 'virtio'
    agent: bool = False
    settings: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def serial_ports(self) -> int:
        """Return the number of serial ports. An invalid value, which another host may have sent, counts as 0."""
        count = self.settings.get('serial_port_count', '1')
        return int(count) if count.isascii() and count.isdecimal() else 0

    def is_on(self, name: str) -> bool:
        """Return whether a boolean setting is true."""
        return self.settings.get(name) == guest_options.TRUE


@dataclasses.dataclass
class Boot:
    """Boot files of a guest: paths of kernel, ramdisk and UEFI variables, and the kernel's command line."""

    kernel: str | None = None
    ramdisk: str | None = None
    cmdline: str | None = None
    nvram: str | None = None


def boot(root: etree.Element, hardware: Hardware, files: Boot, has_cdrom: bool) -> None:
    """Add firmware and boot settings."""
    os_ = add(root, 'os')
    add(os_, 'type', 'hvm', machine=hardware.machine, arch=hardware.arch)
    if hardware.settings.get('firmware_type') == 'uefi':
        _uefi(os_, hardware, files.nvram)
    if files.kernel:
        add(os_, 'kernel', files.kernel)
        if files.ramdisk:
            add(os_, 'initrd', files.ramdisk)
        add(os_, 'cmdline', files.cmdline)
    else:
        add(os_, 'boot', dev='hd')
        if has_cdrom:                        # the guest boots from the CD-ROM if the disk has no OS
            add(os_, 'boot', dev='cdrom')
    if hardware.is_on('boot_menu'):
        add(os_, 'bootmenu', enable='yes')
    add(os_, 'smbios', mode='sysinfo')


def _uefi(os_: etree.Element, hardware: Hardware, nvram: str | None) -> None:
    """Add features of the UEFI firmware. libvirt selects a firmware with these features."""
    secure = 'yes' if _is_secure(hardware) else 'no'
    os_.set('firmware', 'efi')
    firmware = add(os_, 'firmware')
    for feature in ('secure-boot', 'enrolled-keys'):
        add(firmware, 'feature', enabled=secure, name=feature)
    if secure == 'yes':
        add(os_, 'loader', secure='yes')
    add(os_, 'nvram', nvram)


def _is_secure(hardware: Hardware) -> bool:
    return hardware.settings.get('secure_boot') == 'required'


def features(root: etree.Element, hardware: Hardware) -> None:
    element = add(root, 'features')
    add(element, 'acpi')
    if hardware.arch is None:            # a PC
        add(element, 'apic')
    if 'pmu' in hardware.settings:
        add(element, 'pmu', state='on' if hardware.is_on('pmu') else 'off')
    if hardware.virt_type == 'kvm':
        if hardware.is_on('hide_hypervisor_id'):
            add(add(element, 'kvm'), 'hidden', state='on')
        if hardware.settings.get('os_type') == 'windows':
            hyperv = add(element, 'hyperv', mode='custom')
            for name in HYPERV:
                add(hyperv, name, state='on')
            add(hyperv, 'spinlocks', state='on', retries=SPINLOCK_RETRIES)
        if _iommu(hardware) == 'intel':
            add(element, 'ioapic', driver='qemu')            # required by the Intel IOMMU to remap interrupts
    if _is_secure(hardware):
        add(element, 'smm', state='on')                      # without SMM, the guest OS could write UEFI variables


def processor(cpu: etree.Element, hardware: Hardware) -> None:
    """Add settings of flavor and image to the element of the processor."""
    if hardware.is_on('hide_hypervisor_id'):
        add(cpu, 'feature', policy='disable', name='hypervisor')
    mode, bits = hardware.settings.get('maxphysaddr_mode'), hardware.settings.get('maxphysaddr_bits')
    if mode or bits:
        add(cpu, 'maxphysaddr', mode=mode or 'emulate', bits=bits)


def clock(root: etree.Element, hardware: Hardware) -> None:
    windows = hardware.settings.get('os_type') == 'windows'
    element = add(root, 'clock', offset='localtime' if windows else 'utc')
    if hardware.virt_type == 'kvm':
        add(element, 'timer', name='pit', tickpolicy='delay')
        add(element, 'timer', name='rtc', tickpolicy='catchup')
        if windows:
            add(element, 'timer', name='hypervclock', present='yes')
    if hardware.arch is None and (hardware.virt_type == 'kvm' or 'time_hpet' in hardware.settings):
        add(element, 'timer', name='hpet', present='yes' if hardware.is_on('time_hpet') else 'no')


def tuning(root: etree.Element, hardware: Hardware) -> None:
    """Add weight and limits of CPU time to the element cputune, which may already have the placement of the vCPUs."""
    settings = hardware.settings
    for name in ('shares', 'period', 'quota'):
        if f'quota_cpu_{name}' in settings:
            add(child(root, 'cputune'), name, settings[f'quota_cpu_{name}'])


def memory(root: etree.Element, hardware: Hardware) -> None:
    """Lock the guest's memory if flavor or image requests locked or encrypted memory. SEV requires locked memory."""
    if hardware.is_on('locked_memory') or hardware.is_on('mem_encryption'):
        child(child(root, 'memoryBacking'), 'locked')


def launch_security(root: etree.Element, hardware: Hardware) -> None:
    if hardware.is_on('mem_encryption'):
        policy = SEV_ES_POLICY if hardware.settings.get('mem_encryption_model') == 'amd-sev-es' else SEV_POLICY
        add(add(root, 'launchSecurity', type='sev'), 'policy', f'0x{policy:04x}')


def _iommu(hardware: Hardware) -> str | None:
    """Return the IOMMU model, or None if the guest has no IOMMU."""
    model = hardware.settings.get('viommu_model')
    if model == 'auto':
        return 'virtio' if hardware.arch else 'intel'
    return None if model == 'none' else model


def iommu(devices: etree.Element, hardware: Hardware) -> None:
    model = _iommu(hardware)
    if model:
        element = add(devices, 'iommu', model=model)
        if model == 'intel':
            add(element, 'driver', intremap='on' if hardware.virt_type == 'kvm' else None, caching_mode='on',
                iotlb='on')
