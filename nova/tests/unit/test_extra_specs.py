"""The documented extra specs: keys and values that are taken, and those that are refused."""
import pytest

from nova import exception
from nova.hardware import guest_options

GOOD = [
    ('hw:cpu_policy', 'dedicated'), ('hw:cpu_realtime_mask', '^0-1'), ('hw:numa_cpus.0', '0,2-3'),
    ('hw:numa_mem.1', '512'), ('hw:mem_page_size', '2MB'), ('hw:mem_page_size', '1048576'),
    ('hw:mem_page_size', 'large'), ('hw:boot_menu', 'TRUE'), ('hw:pci_numa_affinity_policy', 'socket'),
    ('hw:tpm_version', '2.0'), ('hw:viommu_model', 'virtio'), ('hw:mem_encryption_model', 'amd-sev-es'),
    ('hw:watchdog_action', 'reset'), ('hw_rng:rate_period', '1000'), ('hw_video:ram_max_mb', '16'),
    ('os:secure_boot', 'optional'), ('pci_passthrough:alias', 'gpu:1,nic:2'), ('quota:cpu_quota', '-1'),
    ('quota:disk_read_iops_sec', '10'), ('quota:disk_total_bytes_sec_max_length', '10'),
    ('quota:vif_inbound_peak', '10'), ('quota:memory_shares_level', 'high'), ('resources:VCPU', '2'),
    ('resources1:CUSTOM_BAREMETAL', '1'), ('resources_GPU:VGPU', '1'), ('trait:HW_CPU_X86_AVX2', 'required'),
    ('trait_GPU:CUSTOM_A', 'forbidden'), ('accel:device_profile', 'x'),
    ('capabilities:cpu_info:features', '<in> avx'), ('aggregate_instance_extra_specs:ssd', 'true'),
    ('vmware:storage_policy', 'gold'), ('hide_hypervisor_id', 'no'), ('group_policy', 'isolate'),
    ('mine:anything', 'at all'), ('anything', 'at all'), ('resources0:VCPU', 'x'), ('hwx:cpu_policy', 'x')]
BAD = [
    ('hw:cpu_polcy', 'dedicated'), ('hw:cpu_policy', 'sharde'), ('hw:numa_cpus.x', '0'),
    ('hw:numa_cpus.0', 'all'), ('hw:numa_nodes', '0'), ('hw:boot_menu', 'maybe'), ('hw_rng:rate', '1'),
    ('hw_video:ram_max_mb', '-1'), ('os:secure_boot', 'yes'), ('pci_passthrough:alias', 'gpu'),
    ('quota:disk_read', '1'), ('quota:cpu_shares_level', 'x'), ('resources:VCPU', 'two'),
    ('resources:vcpu', '2'), ('trait:HW_CPU_X86_AVX2', 'maybe'), ('accel:profile', 'x'),
    ('hide_hypervisor_id', 'x'), ('group_policy', 'x'), ('hw:tpm_version', '3.0'),
    ('hw:maxphysaddr_bits', '31'), ('hw:maxphysaddr_bits', '65'),
    ('hw:mem_page_size', '2 ponies'), ('hw:cpu_policy', 'shared\n')]


@pytest.mark.parametrize('key, value', GOOD)
def test_valid_extra_specs_are_accepted(key, value):
    guest_options.check_specs({key: value})


@pytest.mark.parametrize('key, value', BAD)
def test_invalid_extra_specs_are_refused(key, value):
    with pytest.raises(exception.BadRequest, match='Validation failed'):
        guest_options.check_specs({key: value})


LIMITS = {
    'quota:cpu_shares': (2, 10000), 'quota:cpu_period': (1000, 1000000), 'quota:cpu_quota': (1000, 17592186044415),
    'hw_rng:rate_bytes': (0, 4294967295), 'hw_rng:rate_period': (1, 4294967295), 'hw:serial_port_count': (1, 4),
    **{f'quota:disk_{what}_{unit}_sec': (0, 10**15)
       for what in ('read', 'write', 'total') for unit in ('bytes', 'iops')}}


@pytest.mark.parametrize('key', LIMITS)
def test_numbers_have_the_bounds_of_the_hypervisor(key):
    least, most = LIMITS[key]
    others = {'hw_rng:rate_bytes': '1'} if key == 'hw_rng:rate_period' else {}
    for value in (least, most):
        guest_options.check({**others, key: str(value)}, {})
    for value in (least - 1, most + 1):
        with pytest.raises(exception.InvalidInput):
            guest_options.check({**others, key: str(value)}, {})


@pytest.mark.parametrize('end, value, most', [('_max', 2, 10**15), ('_max_length', 0, 10**9)])
def test_bursts_of_disks_have_the_bounds_of_qemu(end, value, most):
    """QEMU also limits the requests of a whole burst."""
    name = 'quota:disk_read_iops_sec'
    specs = {name: '1', f'{name}_max': '1000000', f'{name}_max_length': '1'}
    for number in (value, most):
        guest_options.check({**specs, f'{name}{end}': str(number)}, {})
    with pytest.raises(exception.InvalidInput, match=f'{name}_max'):
        guest_options.check({**specs, f'{name}{end}': str(most + 1)}, {})


def test_emulated_address_width_needs_its_bits():
    guest_options.check({'hw:maxphysaddr_mode': 'emulate', 'hw:maxphysaddr_bits': '52'}, {})
    with pytest.raises(exception.InvalidInput, match='needs maxphysaddr_bits'):
        guest_options.check({'hw:maxphysaddr_mode': 'emulate'}, {})
