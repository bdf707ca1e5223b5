"""What tests share with nova/tests/functional/test_guest_options.py."""
import re

from nova.hardware import guest_option_rows as rows

# a value of each row that is refused, as a flavor or an image says it
REFUSED = {
    'emulation_architecture': ('prop', 'hw_emulation_architecture', 'aarch64'),
    'mem_encryption_model': ('spec', 'hw:mem_encryption_model', 'amd-sev-snp'),
    'pmem': ('spec', 'hw:pmem', '4GB'),
    'firmware_stateless': ('prop', 'hw_firmware_stateless', 'true'),
    'tpm_secret_security': ('spec', 'hw:tpm_secret_security', 'user'),
    'ipxe_boot': ('prop', 'hw_ipxe_boot', 'true'),
    'video_model': ('prop', 'hw_video_model', 'gop'),
    'redirected_usb_ports': ('spec', 'hw:redirected_usb_ports', '2'),
    'accel_device_profile': ('spec', 'accel:device_profile', 'gpu'),
    'disk_bus': ('prop', 'hw_disk_bus', 'none'),
    'ephemeral_encryption_format': ('prop', 'hw_ephemeral_encryption_format', 'plain'),
    'ephemeral_encryption_secret_uuid': ('prop', 'hw_ephemeral_encryption_secret_uuid', 'x'),
    'flavor_rescue_bus': ('spec', 'hw:rescue_bus', 'virtio'),
    'flavor_rescue_device': ('spec', 'hw:rescue_device', 'disk'),
    'counted': ('spec', 'resources:VCPU', '2'),
    'machine': ('spec', 'resources:CUSTOM_GOLD', '2'),
    'resources': ('spec', 'resources:FPGA', '1'),
    'vmware_hw_version': ('spec', 'vmware:hw_version', 'vmx-1'),
    'vmware_storage_policy': ('spec', 'vmware:storage_policy', 'gold'),
    'vmware_boot_retry': ('spec', 'vmware:boot_retry', '1'),
    **{row.name: ('spec', row.spec, 'high' if row.name.endswith('level') else '1') for row in rows.ROWS
       if row.spec and re.fullmatch('quota:(cpu|disk_io|memory|vif)_(limit|reservation|shares_level|shares_share)',
                                    row.spec)},
}
