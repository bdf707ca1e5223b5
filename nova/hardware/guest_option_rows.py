"""Table of the extra specs and image properties that the compute API knows. guest_options.py reads it.

Names and values: https://docs.openstack.org/nova/latest/configuration/extra-specs.html,
https://docs.openstack.org/glance/latest/admin/useful-image-properties.html and Glance's metadata definitions. Traits:
https://docs.openstack.org/os-traits/latest/reference/traits.html.
"""
from collections.abc import Mapping
import dataclasses

from nova.hardware import cpus

# component that implements an option
GUEST = 'the virtualization driver'
PLACE = 'the scheduler'
CREATE = 'the compute API'
COMPUTE = 'the compute service'
FACT = 'no service: it only describes the image'
REFUSED = 'no service: the API refuses it'

# trait of a host whose driver implements all driver options (by=GUEST) that have no separate trait in os-traits
ALL_OPTIONS = 'CUSTOM_GUEST_OPTIONS'
# trait of hosts that verify image signatures
TRUSTED_CERTIFICATES = 'COMPUTE_TRUSTED_CERTS'
# trait of hosts that encrypt local disks
ENCRYPTION = 'COMPUTE_EPHEMERAL_ENCRYPTION_LUKS'
# trait of hosts with hot-plug of CPUs and memory (growth.py)
GROWTH = 'CUSTOM_GUEST_GROWTH'


@dataclasses.dataclass(frozen=True)
class Option:
    """An extra spec or image property.

    name      name of the setting for drivers
    spec      pattern of the extra spec's key, or None
    prop      pattern of the image property's name, or None
    values    pattern of the values
    by        component that implements the option
    meaning   description of the value, without a final dot
    traits    {pattern of values: required trait of the host}; only for GUEST
    refused   {pattern of values: reason of the refusal, a sentence}
    """

    name: str
    spec: str | None
    prop: str | None
    values: str
    by: str
    meaning: str
    traits: Mapping[str, str] = dataclasses.field(default_factory=dict)
    refused: Mapping[str, str] = dataclasses.field(default_factory=dict)


BOOLEAN = r'(?i:true|false|yes|no|on|off|1|0|t|f|y|n)'
TRUE_WORDS = ('true', 'yes', 'on', '1', 't', 'y')
TRUE = f'(?i:{"|".join(TRUE_WORDS)})'
ANY = r'(?s:.*)'
NUMBER = r'[0-9]{1,18}'
INTEGER = r'-?[0-9]{1,18}'
POSITIVE = r'0*[1-9][0-9]{0,17}'
CPUS = r'\^?[0-9]+(-[0-9]+)?(,\^?[0-9]+(-[0-9]+)?)*'
ADDRESS_BITS = '3[2-9]|[45][0-9]|6[0-4]'
BUSES = 'fdc|ide|sata|scsi|usb|virtio|none'
CLASS = r'(CUSTOM_[A-Z0-9_]+|[A-Z][A-Z0-9_]*)'
GROUP = r'([1-9][0-9]*|_[a-zA-Z0-9_-]{1,64})?'
PAGE_SIZE = rf'(?i:any|small|large|{cpus.SIZE})'
# pattern of the namespaces of extra specs for which this table has all keys
NAMESPACES = ('accel|aggregate_instance_extra_specs|capabilities|hw|hw_rng|hw_video|os|pci_passthrough|quota|'
              f'resources{GROUP}|trait{GROUP}|vmware')
_ENABLED = {TRUE: ALL_OPTIONS}
_ALWAYS = {ANY: ALL_OPTIONS}


def _traits(prefix: str, *values: str) -> dict[str, str]:
    return {value: prefix + value.upper().replace('-', '_').replace('.', '_') for value in values}


def _hw(name: str, values: str, by: str, meaning: str, **more: Mapping[str, str]) -> Option:
    """Return the row of the extra spec hw:NAME and the image property hw_NAME."""
    return Option(name, f'hw:{name}', f'hw_{name}', values, by, meaning, **more)


def _image(prop: str, values: str, by: str, meaning: str, **more: Mapping[str, str]) -> Option:
    return Option(prop.removeprefix('hw_'), None, prop, values, by, meaning, **more)


def _spec(spec: str, values: str, by: str, meaning: str, **more: Mapping[str, str]) -> Option:
    name = spec.removeprefix('hw:').removeprefix('hw_').replace(':', '_')
    return Option(name, spec, None, values, by, meaning, **more)


_NO_VMWARE = 'It needs VMware hosts, which this system does not support'
_NO_CYBORG = 'This system has no accelerator service'

PROCESSOR = (
    *(_hw(f'cpu_{part}', POSITIVE, COMPUTE, f'preferred number of {part} in the CPU topology of the guest')
      for part in ('sockets', 'cores', 'threads')),
    *(_hw(f'cpu_max_{part}', POSITIVE, COMPUTE, f'maximum number of {part} in the CPU topology of the guest')
      for part in ('sockets', 'cores', 'threads')),
    _hw('cpu_policy', 'dedicated|shared|mixed', PLACE, 'pinning of the vCPUs to CPUs of the host'),
    _hw('cpu_thread_policy', 'prefer|isolate|require', PLACE, 'placement of pinned vCPUs on threads of a core'),
    _spec('hw:cpu_dedicated_mask', CPUS, PLACE, 'pinned vCPUs of a guest with the CPU policy mixed'),
    _spec('hw:cpu_realtime', BOOLEAN, PLACE, 'real-time priority of vCPUs'),
    _hw('cpu_realtime_mask', CPUS, PLACE, 'vCPUs with real-time priority'),
    _hw('emulator_threads_policy', 'isolate|share', PLACE, 'CPUs for the threads of the emulator'),
    _hw('numa_nodes', POSITIVE, PLACE, 'number of NUMA nodes of the guest'),
    Option('numa_cpus', r'hw:numa_cpus\.[0-9]+', r'hw_numa_cpus\.[0-9]+', CPUS, PLACE, 'vCPUs of a NUMA node'),
    Option('numa_mem', r'hw:numa_mem\.[0-9]+', r'hw_numa_mem\.[0-9]+', POSITIVE, PLACE,
           'memory of a NUMA node in MiB'),
    _hw('mem_page_size', PAGE_SIZE, PLACE, 'page size of the memory of the guest'),
    _hw('pci_numa_affinity_policy', 'required|preferred|legacy|socket', PLACE,
        'NUMA affinity of PCI devices'),
    Option('hide_hypervisor_id', '(hw:)?hide_hypervisor_id', 'img_hide_hypervisor_id', BOOLEAN, GUEST,
           'whether the hypervisor is hidden from the guest', traits=_ENABLED),
    _hw('maxphysaddr_mode', 'passthrough|emulate', GUEST, 'source of the width of physical addresses',
        traits={'passthrough': 'COMPUTE_ADDRESS_SPACE_PASSTHROUGH', 'emulate': 'COMPUTE_ADDRESS_SPACE_EMULATED'}),
    _hw('maxphysaddr_bits', ADDRESS_BITS, GUEST,
        'width of physical addresses in bits, for hw:maxphysaddr_mode emulate',
        traits={ANY: 'COMPUTE_ADDRESS_SPACE_EMULATED'}),
    _spec('hw:max_vcpus', POSITIVE, GUEST, 'maximum vCPUs after a resize of the running guest',
          traits={ANY: GROWTH}),
    _image('hw_pmu', BOOLEAN, GUEST, 'whether the guest has a performance monitoring unit', traits=_ALWAYS),
    _image('hw_time_hpet', BOOLEAN, GUEST, 'whether an x86 guest has an HPET', traits=_ENABLED),
    _spec('quota:cpu_shares', POSITIVE, GUEST, 'weight of the guest in the CPU scheduler of the host, 2 to 10000',
          traits=_ALWAYS),
    _spec('quota:cpu_period', POSITIVE, GUEST, 'period of quota:cpu_quota in microseconds, 1000 to 1000000',
          traits=_ALWAYS),
    _spec('quota:cpu_quota', INTEGER, GUEST, 'CPU time of each vCPU in a period, in microseconds; -1 is unlimited',
          traits=_ALWAYS),
    Option('architecture', None, '(hw_)?architecture', ANY, PLACE, 'CPU architecture of the image'),
    Option('emulation_architecture', None, 'hw_emulation_architecture', ANY, REFUSED, 'emulated CPU architecture',
           refused={ANY: 'Set hw_architecture instead: hosts report the architectures that they emulate'}),
    Option('hypervisor_type', None, 'img_hv_type|hypervisor_type', ANY, PLACE,
           'hypervisor type that the image needs'),
    Option('hypervisor_version', None, 'img_hv_requested_version|hypervisor_version_requires', ANY, PLACE,
           'hypervisor versions that the image needs'),
    Option('vm_mode', None, '(hw_)?vm_mode', ANY, PLACE, 'virtual machine mode that the image needs'),
)

MEMORY = (
    _spec('hw:max_mem_mb', POSITIVE, GUEST, 'maximum memory in MiB after a resize of the running guest',
          traits={ANY: GROWTH}),
    _hw('locked_memory', BOOLEAN, GUEST, 'whether the host never swaps the memory of the guest', traits=_ENABLED),
    _hw('mem_encryption', BOOLEAN, GUEST, 'encryption of the memory of the guest',
        traits={TRUE: 'HW_CPU_X86_AMD_SEV'}),
    _hw('mem_encryption_model', 'amd-sev|amd-sev-es|amd-sev-snp|intel-tdx', GUEST,
        'technology that encrypts the memory',
        traits={'amd-sev': 'HW_CPU_X86_AMD_SEV', 'amd-sev-es': 'HW_CPU_X86_AMD_SEV_ES'},
        refused={'amd-sev-snp|intel-tdx': 'This system supports only amd-sev and amd-sev-es'}),
    _spec('hw:pmem', r'[a-zA-Z0-9_.-]+(,[a-zA-Z0-9_.-]+)*', REFUSED, 'persistent memory of the guest',
          refused={ANY: 'This system does not support persistent memory'}),
    *(_spec(f'quota:memory_{name}', values, REFUSED, 'limit of the memory of a VMware guest', refused={ANY: _NO_VMWARE})
      for name, values in (('limit', INTEGER), ('reservation', NUMBER), ('shares_level', 'custom|high|normal|low'),
                           ('shares_share', NUMBER))),
)

FIRMWARE = (
    _image('hw_machine_type', ANY, GUEST, 'machine type: pc, q35, or a version of these as in QEMU'),
    _image('hw_firmware_type', 'bios|uefi', GUEST, 'firmware of the guest',
           traits={'uefi': 'COMPUTE_FIRMWARE_UEFI', 'bios': ALL_OPTIONS}),
    _image('hw_firmware_stateless', BOOLEAN, REFUSED, 'whether UEFI stores no variables',
           refused={TRUE: 'This system always stores the UEFI variables of a guest'}),
    Option('secure_boot', 'os:secure_boot', 'os_secure_boot', 'required|disabled|optional', GUEST,
           'UEFI secure boot; optional uses it if the host supports it',
           traits={'required': 'COMPUTE_SECURITY_UEFI_SECURE_BOOT', 'optional|disabled': ALL_OPTIONS}),
    Option('boot_menu', '(hw|os):boot_menu', 'hw_boot_menu', BOOLEAN, GUEST,
           'boot menu of the firmware', traits=_ENABLED),
    _hw('tpm_version', r'1\.2|2\.0', GUEST, 'version of an emulated TPM for the guest',
        traits=_traits('COMPUTE_SECURITY_TPM_', '1.2', '2.0')),
    _hw('tpm_model', 'tpm-tis|tpm-crb', GUEST, 'model of the TPM',
        traits={'tpm-tis': 'COMPUTE_SECURITY_TPM_TIS', 'tpm-crb': 'COMPUTE_SECURITY_TPM_CRB'}),
    _hw('tpm_secret_security', 'user|host|deployment', REFUSED, 'owner of the key that encrypts the TPM state',
        refused={ANY: 'This system does not encrypt the TPM state separately'}),
    Option('os_type', None, 'os_type', ANY, GUEST,
           'operating system of the image; windows sets the clock to local time and enables Hyper-V enlightenments',
           traits={'windows': ALL_OPTIONS}),
    Option('command_line', None, 'os_command_line', ANY, COMPUTE,
           'command line of the kernel of the image'),
    _image('hw_ipxe_boot', BOOLEAN, REFUSED, 'whether the guest boots from the network',
           refused={TRUE: 'This system boots servers only from disks'}),
)

DEVICES = (
    _hw('watchdog_action', 'none|pause|poweroff|reset|disabled', GUEST,
        'action when the watchdog of the guest expires',
        traits={'none|pause|poweroff|reset': ALL_OPTIONS}),
    _spec('hw_rng:allowed', BOOLEAN, GUEST, 'whether the guest has a random number generator'),
    _spec('hw_rng:rate_bytes', NUMBER, GUEST, 'maximum random bytes that the guest reads in a period',
          traits={POSITIVE: ALL_OPTIONS}),
    _spec('hw_rng:rate_period', POSITIVE, GUEST, 'period of hw_rng:rate_bytes in milliseconds',
          traits=_ALWAYS),
    _image('hw_rng_model', 'virtio', GUEST, 'model of the random number generator'),
    _image('hw_video_model', 'vga|cirrus|vmvga|qxl|virtio|none|bochs|gop|xen', GUEST, 'model of the graphics device',
           traits=_traits('COMPUTE_GRAPHICS_MODEL_', 'vga', 'cirrus', 'vmvga', 'qxl', 'virtio', 'none', 'bochs'),
           refused={'gop|xen': 'This system does not support this graphics device'}),
    _image('hw_video_ram', NUMBER, GUEST, 'memory of the graphics device in MiB, at most hw_video:ram_max_mb of '
           'the flavor', traits={POSITIVE: ALL_OPTIONS}),
    _spec('hw_video:ram_max_mb', NUMBER, CREATE, 'maximum of hw_video_ram in images'),
    _hw('input_bus', 'usb|virtio', GUEST, 'bus of the pointer device', traits=_ALWAYS),
    _hw('pointer_model', 'ps2mouse|usbtablet', GUEST, 'model of the pointer device', traits={'usbtablet': ALL_OPTIONS}),
    _hw('sound_model', 'ac97|es1370|ich6|ich9|pcspk|sb16|usb|virtio', GUEST, 'model of the sound device',
        traits=_traits('COMPUTE_SOUND_MODEL_', 'ac97', 'es1370', 'ich6', 'ich9', 'pcspk', 'sb16', 'usb', 'virtio')),
    _hw('usb_model', 'piix3-uhci|piix4-uhci|ehci|ich9-ehci1|vt82c686b-uhci|pci-ohci|nec-xhci|qemu-xhci', GUEST,
        'model of the USB controller',
        traits=_traits('COMPUTE_USB_MODEL_', 'nec-xhci', 'qemu-xhci') | {ANY: ALL_OPTIONS}),
    _hw('redirected_usb_ports', NUMBER, REFUSED, 'number of USB devices that are redirected from the console client',
        refused={POSITIVE: 'This system does not redirect USB devices'}),
    _hw('serial_port_count', NUMBER, GUEST, 'number of serial ports, at most 4',
        traits={'0*([2-9]|[1-9][0-9]+)': ALL_OPTIONS}),
    _hw('viommu_model', 'none|intel|smmuv3|virtio|auto', GUEST, 'model of the IOMMU',
        traits=_traits('COMPUTE_VIOMMU_MODEL_', 'intel', 'smmuv3', 'virtio', 'auto')),
    _hw('virtio_packed_ring', BOOLEAN, GUEST, 'whether virtio devices use packed rings',
        traits={TRUE: 'COMPUTE_NET_VIRTIO_PACKED'}),
    _image('hw_qemu_guest_agent', BOOLEAN, GUEST, 'whether the guest has a channel for the QEMU guest agent'),
    _image('os_require_quiesce', BOOLEAN, COMPUTE, 'whether a snapshot fails if the file systems cannot be frozen'),
    Option('pci_alias', 'pci_passthrough:alias', None, r'[^:,]+:0*[1-9][0-9]*(,[^:,]+:0*[1-9][0-9]*)*', PLACE,
           'PCI devices of the host for the guest'),
    _spec('accel:device_profile', ANY, REFUSED, 'accelerators of the guest', refused={ANY: _NO_CYBORG}),
)

DISKS = (
    _image('hw_disk_bus', 'fdc|ide|sata|scsi|usb|virtio|lxc|uml|xen|none', GUEST, 'bus of the disks',
           traits=_traits('COMPUTE_STORAGE_BUS_', 'fdc', 'ide', 'sata', 'scsi', 'usb', 'lxc', 'uml', 'xen'),
           refused={'none': 'Every server has a disk. Select another bus'}),
    _image('hw_scsi_model', 'virtio-scsi|lsilogic|lsisas1068|lsisas1078|vmpvscsi', GUEST,
           'controller of disks on the bus scsi', traits={'(?!virtio-scsi).*': ALL_OPTIONS}),
    _image('hw_cdrom_bus', BUSES, COMPUTE, 'bus of CD-ROM drives'),
    _image('hw_floppy_bus', BUSES, FACT, 'bus of floppy drives'),
    *(_spec(f'quota:disk_{what}_{unit}_sec', NUMBER, GUEST, f'maximum {words} that each local disk {does} per '
            'second', traits={POSITIVE: ALL_OPTIONS})
      for unit, words in (('bytes', 'bytes'), ('iops', 'requests'))
      for what, does in (('read', 'reads'), ('write', 'writes'), ('total', 'reads and writes'))),
    *(_spec(f'quota:disk_{what}_{unit}_sec_max', NUMBER, GUEST,
            f'maximum of quota:disk_{what}_{unit}_sec during a burst',
            traits={POSITIVE: ALL_OPTIONS})
      for unit in ('bytes', 'iops') for what in ('read', 'write', 'total')),
    *(_spec(f'quota:disk_{what}_{unit}_sec_max_length', NUMBER, GUEST, 'maximum seconds of a burst',
            traits={POSITIVE: ALL_OPTIONS})
      for unit in ('bytes', 'iops') for what in ('read', 'write', 'total')),
    _hw('ephemeral_encryption', BOOLEAN, GUEST, 'encryption of local disks, with a separate key for each server',
        traits={TRUE: ENCRYPTION}),
    _hw('ephemeral_encryption_format', 'luks|luksv2|plain', GUEST, 'format of encrypted disks',
        traits={'luks': ENCRYPTION},
        refused={'luksv2|plain': 'This system encrypts disks only in the format luks'}),
    _image('hw_ephemeral_encryption_secret_uuid', ANY, REFUSED, 'key of an encrypted image',
           refused={ANY: 'This system does not support encrypted images. Upload the image without encryption'}),
    *(_image(f'hw_rescue_{name}', values, COMPUTE, f'{name} of the rescue disk, in the properties of a rescue image')
      for name, values in (('bus', BUSES), ('device', 'cdrom|disk|floppy'))),
    *(Option(f'flavor_rescue_{name}', f'hw:rescue_{name}', None, values, REFUSED, f'{name} of the rescue disk',
             refused={ANY: f'Set hw_rescue_{name} of the rescue image instead'})
      for name, values in (('bus', BUSES), ('device', 'cdrom|disk|floppy'))),
    *(_spec(f'quota:disk_io_{name}', values, REFUSED, 'limit of the disks of a VMware guest', refused={ANY: _NO_VMWARE})
      for name, values in (('limit', INTEGER), ('reservation', NUMBER), ('shares_level', 'custom|high|normal|low'),
                           ('shares_share', NUMBER))),
)

NETWORK = (
    _image('hw_vif_model', 'e1000|e1000e|igb|lan9118|ne2k_pci|netfront|pcnet|rtl8139|spapr-vlan|sriov|virtio|vmxnet|'
           'vmxnet3', GUEST, 'model of the network device',
           traits=_traits('COMPUTE_NET_VIF_MODEL_', 'e1000', 'e1000e', 'igb', 'lan9118', 'ne2k_pci', 'netfront',
                          'pcnet', 'rtl8139', 'spapr-vlan', 'sriov', 'vmxnet', 'vmxnet3')),
    _hw('vif_multiqueue_enabled', BOOLEAN, GUEST, 'whether virtio network devices have one queue for each vCPU',
        traits=_ENABLED),
    *(_spec(f'quota:vif_{way}_{what}', NUMBER, GUEST, f'{what} of the {way} traffic of each port, in {unit}',
            traits={POSITIVE: ALL_OPTIONS})
      for way in ('inbound', 'outbound')
      for what, unit in (('average', 'KiB a second'), ('peak', 'KiB a second'), ('burst', 'KiB'))),
    *(_spec(f'quota:vif_{name}', values, REFUSED, 'limit of the ports of a VMware guest', refused={ANY: _NO_VMWARE})
      for name, values in (('limit', INTEGER), ('reservation', NUMBER), ('shares_level', 'custom|high|normal|low'),
                           ('shares_share', NUMBER))),
)

HOSTS = (
    Option('aggregate', 'aggregate_instance_extra_specs:.*', None, ANY, PLACE,
           'required metadata of host aggregates (AggregateInstanceExtraSpecsFilter)'),
    Option('capabilities', 'capabilities:.*', None, ANY, PLACE,
           'required capabilities of the host (ComputeCapabilitiesFilter)'),
    Option('trait', f'trait{GROUP}:{CLASS}', f'trait{GROUP}:{CLASS}', 'required|forbidden', PLACE,
           'whether the host must have or must lack a trait'),
    _spec('trust:trusted_host', ANY, PLACE, 'required attestation of the host (TrustedFilter)'),
    Option('dedicated', 'resources:PCPU', None, NUMBER, PLACE, 'number of pinned CPUs'),
    Option('counted', 'resources:(VCPU|MEMORY_MB|DISK_GB)', None, NUMBER, PLACE,
           '0 in flavors of bare metal, because a server reserves a whole machine',
           refused={POSITIVE: 'Set vcpus, ram and disk of the flavor instead. Only 0 is allowed here, for bare metal'}),
    Option('machine', 'resources:CUSTOM_[A-Z0-9_]+', None, NUMBER, PLACE,
           '1 for a bare metal machine of this resource class',
           refused={'0*([2-9]|[1-9][0-9]+)': 'A server uses exactly one bare metal machine: set 1'}),
    Option('vgpu', 'resources:VGPU', None, NUMBER, PLACE, 'number of virtual GPUs'),
    Option('resources', f'resources{GROUP}:{CLASS}', None, NUMBER, REFUSED, 'amount of another resource of the host',
           refused={POSITIVE: 'No host reports resources of this class'}),
    Option('group_policy', 'group_policy', None, 'none|isolate', PLACE,
           'policy of numbered resource groups; no effect, because one host must have the traits of all groups'),
    *(Option(f'cpu_{name}', f'quota:cpu_{name}', None, values, REFUSED, 'limit of the CPUs of a VMware guest',
             refused={ANY: _NO_VMWARE})
      for name, values in (('limit', INTEGER), ('reservation', NUMBER), ('shares_level', 'custom|high|normal|low'),
                           ('shares_share', NUMBER))),
    *(_spec(f'vmware:{name}', values, REFUSED, 'setting of VMware hosts', refused={ANY: _NO_VMWARE})
      for name, values in (('hw_version', ANY), ('storage_policy', ANY), ('boot_retry', NUMBER))),
)

IMAGES = (
    _image('img_config_drive', 'mandatory|optional', CREATE, 'whether servers of the image need a config drive'),
    _image('img_signature', ANY, COMPUTE, 'signature of the image data',
           traits={ANY: TRUSTED_CERTIFICATES}),
    _image('img_signature_(hash_method|key_type|certificate_uuid)', ANY, COMPUTE,
           'hash method, key type or certificate of the signature',
           traits={ANY: TRUSTED_CERTIFICATES}),
    _image('(img_)?(block_device_mapping|bdm_v2|mappings|root_device_name)', ANY, CREATE,
           'block devices of servers that boot from the image'),
    _image('auto_disk_config', ANY, CREATE, 'whether servers of the image may use OS-DCF:diskConfig AUTO'),
    Option('metadata_tokens', 'metadata:tokens', 'metadata_tokens', 'optional|required', COMPUTE,
           'whether guests need a session token to read their metadata'),
    _image('(kernel|ramdisk)_id', ANY, COMPUTE, 'image of the kernel or ramdisk'),
    _image('os_(distro|version|admin_user)', ANY, FACT,
           'operating system of the image, its version, or the name of its administrator'),
    _image('img_(owner_id|version|use_agent|compression_level|linked_clone)|vmware_.*|xenapi_.*|os_skip_agent_.*', ANY,
           FACT, 'setting of other systems'),
)

ROWS = (*PROCESSOR, *MEMORY, *FIRMWARE, *DEVICES, *DISKS, *NETWORK, *HOSTS, *IMAGES)
