"""Table of all extra specs and image properties that the compute API knows, one row each.

Names and values: https://docs.openstack.org/nova/latest/configuration/extra-specs.html,
https://docs.openstack.org/glance/latest/admin/useful-image-properties.html and Glance's metadata definitions. Traits:
https://docs.openstack.org/os-traits/latest/reference/traits.html. guest_options.py reads the table.
"""
from collections.abc import Mapping
import dataclasses

# implementers of a row
GUEST = 'the driver, in the guest'
PLACE = 'the scheduler'
CREATE = 'the compute API'
COMPUTE = 'the compute service'
FACT = 'no service: it is information about the image'
REFUSED = 'no service: it is refused'

# trait of hosts that implement every GUEST row that names no other trait
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
    by        implementer
    meaning   end of a sentence that begins with its name
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
TRUE = r'(?i:true|yes|on|1|t|y)'
ANY = r'(?s:.*)'
NUMBER = r'[0-9]{1,18}'
INTEGER = r'-?[0-9]{1,18}'
POSITIVE = r'0*[1-9][0-9]{0,17}'
CPUS = r'\^?[0-9]+(-[0-9]+)?(,\^?[0-9]+(-[0-9]+)?)*'
BUSES = 'fdc|ide|sata|scsi|usb|virtio|none'
CLASS = r'(CUSTOM_[A-Z0-9_]+|[A-Z][A-Z0-9_]*)'
GROUP = r'([1-9][0-9]*|_[a-zA-Z0-9_-]{1,64})?'
PAGE_SIZE = r'(?i:any|small|large|[0-9]+ ?([kmgt]i?b?)?)'
# pattern of namespaces with complete lists of keys in this table
NAMESPACES = ('accel|aggregate_instance_extra_specs|capabilities|hw|hw_rng|hw_video|os|pci_passthrough|quota|'
              f'resources{GROUP}|trait{GROUP}|vmware')
_ENABLED = {TRUE: ALL_OPTIONS}
_ALWAYS = {ANY: ALL_OPTIONS}


def _traits(prefix: str, *values: str) -> dict[str, str]:
    return {value: prefix + value.upper().replace('-', '_').replace('.', '_') for value in values}


def _hw(name: str, values: str, by: str, meaning: str, **more: Mapping[str, str]) -> Option:
    """Return a row of the extra spec hw:name and the image property hw_name."""
    return Option(name, f'hw:{name}', f'hw_{name}', values, by, meaning, **more)


def _image(prop: str, values: str, by: str, meaning: str, **more: Mapping[str, str]) -> Option:
    return Option(prop.removeprefix('hw_'), None, prop, values, by, meaning, **more)


def _spec(spec: str, values: str, by: str, meaning: str, **more: Mapping[str, str]) -> Option:
    name = spec.removeprefix('hw:').removeprefix('hw_').replace(':', '_')
    return Option(name, spec, None, values, by, meaning, **more)


_NO_VMWARE = 'It is for VMware hosts, and this system has no driver for them'
_NO_CYBORG = 'This system has no accelerator service'

PROCESSOR = (
    *(_hw(f'cpu_{part}', POSITIVE, COMPUTE, f'prefers that the guest sees so many {part}')
      for part in ('sockets', 'cores', 'threads')),
    *(_hw(f'cpu_max_{part}', POSITIVE, COMPUTE, f'lets the guest see at most so many {part}')
      for part in ('sockets', 'cores', 'threads')),
    _hw('cpu_policy', 'dedicated|shared|mixed', PLACE, "says whether the guest's CPUs are pinned"),
    _hw('cpu_thread_policy', 'prefer|isolate|require', PLACE, 'says how pinned CPUs use threads of a core'),
    _spec('hw:cpu_dedicated_mask', CPUS, PLACE, 'says which CPUs of a mixed guest are pinned'),
    _spec('hw:cpu_realtime', BOOLEAN, PLACE, 'gives the CPUs real-time priority'),
    _hw('cpu_realtime_mask', CPUS, PLACE, 'says which CPUs are real-time'),
    _hw('emulator_threads_policy', 'isolate|share', PLACE, "says where QEMU's own threads run"),
    _hw('numa_nodes', POSITIVE, PLACE, 'gives the guest so many NUMA nodes'),
    Option('numa_cpus', r'hw:numa_cpus\.[0-9]+', r'hw_numa_cpus\.[0-9]+', CPUS, PLACE, 'says which CPUs a node has'),
    Option('numa_mem', r'hw:numa_mem\.[0-9]+', r'hw_numa_mem\.[0-9]+', POSITIVE, PLACE,
           'says how many MiB a node has'),
    _hw('mem_page_size', PAGE_SIZE, PLACE, "says of which pages the guest's memory is"),
    _hw('pci_numa_affinity_policy', 'required|preferred|legacy|socket', PLACE,
        'says how near PCI devices must be to the memory'),
    Option('hide_hypervisor_id', '(hw:)?hide_hypervisor_id', 'img_hide_hypervisor_id', BOOLEAN, GUEST,
           'hides from the guest that it runs on a hypervisor', traits=_ENABLED),
    _hw('maxphysaddr_mode', 'passthrough|emulate', GUEST, 'says from where the width of addresses comes',
        traits={'passthrough': 'COMPUTE_ADDRESS_SPACE_PASSTHROUGH', 'emulate': 'COMPUTE_ADDRESS_SPACE_EMULATED'}),
    _hw('maxphysaddr_bits', POSITIVE, GUEST, "is the width of physical addresses, with the mode emulate",
        traits={ANY: 'COMPUTE_ADDRESS_SPACE_EMULATED'}),
    _spec('hw:max_vcpus', POSITIVE, GUEST, 'is how many vCPUs a resize may give the guest while it runs',
          traits={ANY: GROWTH}),
    _image('hw_pmu', BOOLEAN, GUEST, "says whether the guest sees a performance monitoring unit", traits=_ALWAYS),
    _image('hw_time_hpet', BOOLEAN, GUEST, 'gives an x86 guest the HPET', traits=_ENABLED),
    _spec('quota:cpu_shares', POSITIVE, GUEST, "is the guest's weight among others that want the processor",
          traits=_ALWAYS),
    _spec('quota:cpu_period', POSITIVE, GUEST, 'is the period of quota:cpu_quota in microseconds, 1000 to 1000000',
          traits=_ALWAYS),
    _spec('quota:cpu_quota', INTEGER, GUEST, 'is the time in microseconds that each vCPU gets in a period; -1: all',
          traits=_ALWAYS),
    Option('architecture', None, '(hw_)?architecture', ANY, PLACE, 'says for which processors the image is'),
    Option('emulation_architecture', None, 'hw_emulation_architecture', ANY, REFUSED, 'asks for an emulated processor',
           refused={ANY: 'Hosts say with their architectures (hw_architecture) what they emulate'}),
    Option('hypervisor_type', None, 'img_hv_type|hypervisor_type', ANY, PLACE,
           'says for which hypervisor the image is'),
    Option('hypervisor_version', None, 'img_hv_requested_version|hypervisor_version_requires', ANY, PLACE,
           'says for which versions of the hypervisor the image is'),
    Option('vm_mode', None, '(hw_)?vm_mode', ANY, PLACE, 'says for which virtual machine mode the image is'),
)

MEMORY = (
    _spec('hw:max_mem_mb', POSITIVE, GUEST, 'is how many MiB of memory a resize may give the guest while it runs',
          traits={ANY: GROWTH}),
    _hw('locked_memory', BOOLEAN, GUEST, "keeps the guest's memory from being swapped", traits=_ENABLED),
    _hw('mem_encryption', BOOLEAN, GUEST, "encrypts the guest's memory (AMD SEV)",
        traits={TRUE: 'HW_CPU_X86_AMD_SEV'}),
    _hw('mem_encryption_model', 'amd-sev|amd-sev-es|amd-sev-snp|intel-tdx', GUEST, 'says how memory is encrypted',
        traits={'amd-sev': 'HW_CPU_X86_AMD_SEV', 'amd-sev-es': 'HW_CPU_X86_AMD_SEV_ES'},
        refused={'amd-sev-snp|intel-tdx': 'No driver of this system does it'}),
    _spec('hw:pmem', r'[a-zA-Z0-9_.-]+(,[a-zA-Z0-9_.-]+)*', REFUSED, 'asks for persistent memory',
          refused={ANY: 'No driver of this system has persistent memory'}),
    *(_spec(f'quota:memory_{name}', values, REFUSED, "bounds a VMware guest's memory", refused={ANY: _NO_VMWARE})
      for name, values in (('limit', INTEGER), ('reservation', NUMBER), ('shares_level', 'custom|high|normal|low'),
                           ('shares_share', NUMBER))),
)

FIRMWARE = (
    _image('hw_machine_type', ANY, GUEST, 'is the machine: pc, q35, or a version of one as QEMU names it'),
    _image('hw_firmware_type', 'bios|uefi', GUEST, 'is the firmware that the image boots with',
           traits={'uefi': 'COMPUTE_FIRMWARE_UEFI', 'bios': ALL_OPTIONS}),
    _image('hw_firmware_stateless', BOOLEAN, REFUSED, 'lets UEFI keep no variables',
           refused={TRUE: 'Each UEFI guest of this system has variables of its own'}),
    Option('secure_boot', 'os:secure_boot', 'os_secure_boot', 'required|disabled|optional', GUEST,
           'lets UEFI start only signed boot loaders; optional: if the host supports it',
           traits={'required': 'COMPUTE_SECURITY_UEFI_SECURE_BOOT', 'optional|disabled': ALL_OPTIONS}),
    Option('boot_menu', '(hw|os):boot_menu', 'hw_boot_menu', BOOLEAN, GUEST,
           "shows the firmware's boot menu", traits=_ENABLED),
    _hw('tpm_version', r'1\.2|2\.0', GUEST, 'gives the guest a TPM of its own',
        traits=_traits('COMPUTE_SECURITY_TPM_', '1.2', '2.0')),
    _hw('tpm_model', 'tpm-tis|tpm-crb', GUEST, "is the TPM's model",
        traits={'tpm-tis': 'COMPUTE_SECURITY_TPM_TIS', 'tpm-crb': 'COMPUTE_SECURITY_TPM_CRB'}),
    _hw('tpm_secret_security', 'user|host|deployment', REFUSED, "says who holds the key of a TPM's state",
        refused={ANY: "The state of a TPM lies on its host as the guest's disks do, without a key of its own"}),
    Option('os_type', None, 'os_type', ANY, GUEST,
           'is the system in the image; windows: the clock shows local time, and QEMU offers the interfaces of Hyper-V',
           traits={'windows': ALL_OPTIONS}),
    Option('command_line', None, 'os_command_line', ANY, COMPUTE,
           'is the command line of a kernel that the image names'),
    _image('hw_ipxe_boot', BOOLEAN, REFUSED, 'boots from the network',
           refused={TRUE: 'Servers boot from their disks'}),
)

DEVICES = (
    _hw('watchdog_action', 'none|pause|poweroff|reset|disabled', GUEST,
        'gives the guest a watchdog, and says what happens when it is not fed',
        traits={'none|pause|poweroff|reset': ALL_OPTIONS}),
    _spec('hw_rng:allowed', BOOLEAN, GUEST, 'false takes the random number generator away'),
    _spec('hw_rng:rate_bytes', NUMBER, GUEST, 'lets the guest read so many random bytes in a period',
          traits={POSITIVE: ALL_OPTIONS}),
    _spec('hw_rng:rate_period', POSITIVE, GUEST, 'is the period of hw_rng:rate_bytes in milliseconds',
          traits=_ALWAYS),
    _image('hw_rng_model', 'virtio', GUEST, 'is the model of the random number generator'),
    _image('hw_video_model', 'vga|cirrus|vmvga|qxl|virtio|none|bochs|gop|xen', GUEST, 'is the graphics device',
           traits=_traits('COMPUTE_GRAPHICS_MODEL_', 'vga', 'cirrus', 'vmvga', 'qxl', 'virtio', 'none', 'bochs'),
           refused={'gop|xen': 'No driver of this system has it'}),
    _image('hw_video_ram', NUMBER, GUEST, "is the graphics device's memory in MiB, up to the flavor's "
           'hw_video:ram_max_mb', traits={POSITIVE: ALL_OPTIONS}),
    _spec('hw_video:ram_max_mb', NUMBER, CREATE, 'bounds what images may ask for with hw_video_ram'),
    _hw('input_bus', 'usb|virtio', GUEST, 'is the bus of the pointer', traits=_ALWAYS),
    _hw('pointer_model', 'ps2mouse|usbtablet', GUEST, 'is the pointer', traits={'usbtablet': ALL_OPTIONS}),
    _hw('sound_model', 'ac97|es1370|ich6|ich9|pcspk|sb16|usb|virtio', GUEST, 'gives the guest a sound device',
        traits=_traits('COMPUTE_SOUND_MODEL_', 'ac97', 'es1370', 'ich6', 'ich9', 'pcspk', 'sb16', 'usb', 'virtio')),
    _hw('usb_model', 'piix3-uhci|piix4-uhci|ehci|ich9-ehci1|vt82c686b-uhci|pci-ohci|nec-xhci|qemu-xhci', GUEST,
        'is the USB controller', traits=_traits('COMPUTE_USB_MODEL_', 'nec-xhci', 'qemu-xhci') | {ANY: ALL_OPTIONS}),
    _hw('redirected_usb_ports', NUMBER, REFUSED, 'redirects USB devices from the computer of the console user',
        refused={POSITIVE: 'No driver of this system redirects USB devices'}),
    _hw('serial_port_count', NUMBER, GUEST, 'gives the guest so many serial ports, 4 at most',
        traits={'0*([2-9]|[1-9][0-9]+)': ALL_OPTIONS}),
    _hw('viommu_model', 'none|intel|smmuv3|virtio|auto', GUEST, 'gives the guest an IOMMU',
        traits=_traits('COMPUTE_VIOMMU_MODEL_', 'intel', 'smmuv3', 'virtio', 'auto')),
    _hw('virtio_packed_ring', BOOLEAN, GUEST, 'lets virtio devices use packed rings',
        traits={TRUE: 'COMPUTE_NET_VIRTIO_PACKED'}),
    _image('hw_qemu_guest_agent', BOOLEAN, GUEST, "gives QEMU's guest agent its channel"),
    _image('os_require_quiesce', BOOLEAN, COMPUTE, 'fails a snapshot if the file systems cannot be frozen'),
    Option('pci_alias', 'pci_passthrough:alias', None, r'[^:,]+:0*[1-9][0-9]*(,[^:,]+:0*[1-9][0-9]*)*', PLACE,
           'gives the guest PCI devices of the host'),
    _spec('accel:device_profile', ANY, REFUSED, 'asks for accelerators', refused={ANY: _NO_CYBORG}),
)

DISKS = (
    _image('hw_disk_bus', 'fdc|ide|sata|scsi|usb|virtio|lxc|uml|xen|none', GUEST, 'is the bus of the disks',
           traits=_traits('COMPUTE_STORAGE_BUS_', 'fdc', 'ide', 'sata', 'scsi', 'usb', 'lxc', 'uml', 'xen'),
           refused={'none': 'A server has disks'}),
    _image('hw_scsi_model', 'virtio-scsi|lsilogic|lsisas1068|lsisas1078|vmpvscsi', GUEST,
           'is the controller of disks on the bus scsi', traits={'(?!virtio-scsi).*': ALL_OPTIONS}),
    _image('hw_(cdrom|floppy)_bus', BUSES, FACT, 'is the bus of CD-ROM or floppy drives'),
    *(_spec(f'quota:disk_{what}_{unit}_sec', NUMBER, GUEST, f'bounds how many {words} each local disk may {does} '
            'a second', traits={POSITIVE: ALL_OPTIONS})
      for unit, words in (('bytes', 'bytes'), ('iops', 'requests'))
      for what, does in (('read', 'read'), ('write', 'write'), ('total', 'read and write'))),
    *(_spec(f'quota:disk_{what}_{unit}_sec_max', NUMBER, GUEST, 'is the same while a burst lasts',
            traits={POSITIVE: ALL_OPTIONS})
      for unit in ('bytes', 'iops') for what in ('read', 'write', 'total')),
    *(_spec(f'quota:disk_{what}_{unit}_sec_max_length', NUMBER, GUEST, 'is how many seconds a burst may last',
            traits={POSITIVE: ALL_OPTIONS})
      for unit in ('bytes', 'iops') for what in ('read', 'write', 'total')),
    _hw('ephemeral_encryption', BOOLEAN, GUEST, 'encrypts local disks, each server with a key of its own',
        traits={TRUE: ENCRYPTION}),
    _hw('ephemeral_encryption_format', 'luks|luksv2|plain', GUEST, 'is the format of encrypted disks',
        traits={'luks': ENCRYPTION},
        refused={'luksv2|plain': 'Disks are encrypted in the format luks alone: QEMU itself does that'}),
    _image('hw_ephemeral_encryption_secret_uuid', ANY, REFUSED, 'names the key of an image that is encrypted itself',
           refused={ANY: 'Images that are encrypted cannot be used; each server gets a key of its own'}),
    *(_image(f'hw_rescue_{name}', values, COMPUTE, f'of a rescue image is the {name} of the rescue disk')
      for name, values in (('bus', BUSES), ('device', 'cdrom|disk|floppy'))),
    *(Option(f'flavor_rescue_{name}', f'hw:rescue_{name}', None, values, REFUSED, 'asks for a kind of rescue disk',
             refused={ANY: 'The image that a server is rescued with says it'})
      for name, values in (('bus', BUSES), ('device', 'cdrom|disk|floppy'))),
    *(_spec(f'quota:disk_io_{name}', values, REFUSED, "bounds a VMware guest's disks", refused={ANY: _NO_VMWARE})
      for name, values in (('limit', INTEGER), ('reservation', NUMBER), ('shares_level', 'custom|high|normal|low'),
                           ('shares_share', NUMBER))),
)

NETWORK = (
    _image('hw_vif_model', 'e1000|e1000e|igb|lan9118|ne2k_pci|netfront|pcnet|rtl8139|spapr-vlan|sriov|virtio|vmxnet|'
           'vmxnet3', GUEST, 'is the network device',
           traits=_traits('COMPUTE_NET_VIF_MODEL_', 'e1000', 'e1000e', 'igb', 'lan9118', 'ne2k_pci', 'netfront',
                          'pcnet', 'rtl8139', 'spapr-vlan', 'sriov', 'vmxnet', 'vmxnet3')),
    _hw('vif_multiqueue_enabled', BOOLEAN, GUEST, 'gives virtio network devices one queue a vCPU', traits=_ENABLED),
    *(_spec(f'quota:vif_{way}_{what}', NUMBER, GUEST, f'is the {what} of what each port {does}, in {unit}',
            traits={POSITIVE: ALL_OPTIONS})
      for way, does in (('inbound', 'receives'), ('outbound', 'sends'))
      for what, unit in (('average', 'KiB a second'), ('peak', 'KiB a second'), ('burst', 'KiB'))),
    *(_spec(f'quota:vif_{name}', values, REFUSED, "bounds a VMware guest's ports", refused={ANY: _NO_VMWARE})
      for name, values in (('limit', INTEGER), ('reservation', NUMBER), ('shares_level', 'custom|high|normal|low'),
                           ('shares_share', NUMBER))),
)

HOSTS = (
    Option('aggregate', 'aggregate_instance_extra_specs:.*', None, ANY, PLACE,
           'is compared with the metadata of host aggregates (AggregateInstanceExtraSpecsFilter)'),
    Option('capabilities', 'capabilities:.*', None, ANY, PLACE,
           'is compared with what hosts report (ComputeCapabilitiesFilter)'),
    Option('trait', f'trait{GROUP}:{CLASS}', f'trait{GROUP}:{CLASS}', 'required|forbidden', PLACE,
           'requires or forbids a trait of the host'),
    _spec('trust:trusted_host', ANY, PLACE, 'asks for hosts that are attested (TrustedFilter)'),
    Option('dedicated', 'resources:PCPU', None, NUMBER, PLACE, 'asks for pinned CPUs'),
    Option('counted', 'resources:(VCPU|MEMORY_MB|DISK_GB)', None, NUMBER, PLACE,
           'is 0 in flavors of bare metal, whose servers have a machine as a whole',
           refused={POSITIVE: 'What a server takes of its host follows from vcpus, ram and disk of its flavor'}),
    Option('machine', 'resources:CUSTOM_[A-Z0-9_]+', None, NUMBER, PLACE,
           'is 1 for a machine of bare metal as a whole, of that resource class',
           refused={'0*([2-9]|[1-9][0-9]+)': 'A server has one machine'}),
    Option('vgpu', 'resources:VGPU', None, NUMBER, PLACE, 'gives the guest so many virtual graphics devices'),
    Option('resources', f'resources{GROUP}:{CLASS}', None, NUMBER, REFUSED, 'asks for a resource of hosts',
           refused={POSITIVE: 'No host reports resources of that class'}),
    Option('group_policy', 'group_policy', None, 'none|isolate', PLACE,
           'applies to groups of resources; the host must have the traits of all groups'),
    *(Option(f'cpu_{name}', f'quota:cpu_{name}', None, values, REFUSED, "bounds a VMware guest's processor",
             refused={ANY: _NO_VMWARE})
      for name, values in (('limit', INTEGER), ('reservation', NUMBER), ('shares_level', 'custom|high|normal|low'),
                           ('shares_share', NUMBER))),
    *(_spec(f'vmware:{name}', values, REFUSED, 'is for VMware hosts', refused={ANY: _NO_VMWARE})
      for name, values in (('hw_version', ANY), ('storage_policy', ANY), ('boot_retry', NUMBER))),
)

IMAGES = (
    _image('img_config_drive', 'mandatory|optional', CREATE, 'says whether servers of the image need a config drive'),
    _image('img_signature', ANY, COMPUTE, "is the signature of the image's data",
           traits={ANY: TRUSTED_CERTIFICATES}),
    _image('img_signature_(hash_method|key_type|certificate_uuid)', ANY, COMPUTE, 'says how the image is signed',
           traits={ANY: TRUSTED_CERTIFICATES}),
    _image('(img_)?(block_device_mapping|bdm_v2|mappings|root_device_name)', ANY, CREATE,
           'describes the devices of servers of the image'),
    _image('auto_disk_config', ANY, CREATE, 'false forbids OS-DCF:diskConfig AUTO'),
    Option('metadata_tokens', 'metadata:tokens', 'metadata_tokens', 'optional|required', COMPUTE,
           'says whether guests need a session token to read their metadata'),
    _image('(kernel|ramdisk)_id', ANY, COMPUTE, 'names the kernel and the ramdisk of the image'),
    _image('os_(distro|version|admin_user)', ANY, FACT, 'names the system in the image'),
    _image('img_(owner_id|version|use_agent|compression_level|linked_clone)|vmware_.*|xenapi_.*|os_skip_agent_.*', ANY,
           FACT, 'is for other systems'),
)

ROWS = (*PROCESSOR, *MEMORY, *FIRMWARE, *DEVICES, *DISKS, *NETWORK, *HOSTS, *IMAGES)
