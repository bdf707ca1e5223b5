"""Which resizes leave a guest running, and which maxima no guest can have."""
import pytest

from nova import exception
from nova.api.servers import spec
from nova.hardware import cpu_topology
from nova.hardware import growth
from nova.hardware import guest_options
from nova.objects import pci

MOST = {'hw:max_vcpus': '4', 'hw:max_mem_mb': '1024'}


def flavor(vcpus=2, memory_mb=256, specs=MOST, **more):
    return {'vcpus': vcpus, 'memory_mb': memory_mb, 'root_gb': 1, 'ephemeral_gb': 0, 'swap': 0, 'extra_specs': specs,
            **more}


CASES = {
    'both': ({}, {'vcpus': 4, 'memory_mb': 1024}, True),
    'CPUs': ({}, {'vcpus': 3}, True),
    'memory': ({}, {'memory_mb': 384}, True),
    'neither': ({}, {}, True),
    'fewer CPUs': ({}, {'vcpus': 1, 'memory_mb': 512}, False),
    'less memory': ({}, {'vcpus': 3, 'memory_mb': 128}, False),
    'more than the maximum': ({}, {'vcpus': 5}, False),
    'a larger disk': ({}, {'vcpus': 3, 'root_gb': 2}, False),
    'swap': ({}, {'vcpus': 3, 'swap': 64}, False),
    'another maximum': ({}, {'vcpus': 3, 'specs': {**MOST, 'hw:max_vcpus': '8'}}, False),
    'other extra specs': ({}, {'vcpus': 3, 'specs': {**MOST, 'quota:cpu_shares': '10'}}, False),
    'other limits of disks': ({}, {'specs': {**MOST, 'quota:disk_read_iops_sec': '10'}}, True),
    'other limits of disks without a maximum': ({'specs': {}}, {'specs': {'quota:disk_read_iops_sec': '10'}}, False),
    'no maximum': ({'specs': {}}, {'vcpus': 3, 'specs': {}}, False),
    'a maximum of CPUs alone, and CPUs': ({'specs': {'hw:max_vcpus': '4'}},
                                          {'vcpus': 3, 'specs': {'hw:max_vcpus': '4'}}, True),
    'a maximum of CPUs alone, and memory': ({'specs': {'hw:max_vcpus': '4'}},
                                            {'memory_mb': 512, 'specs': {'hw:max_vcpus': '4'}}, False),
}


@pytest.mark.parametrize('name', CASES)
def test_resize_of_a_running_server_allows_growth_within_bounds(name):
    old, new, wanted = CASES[name]
    assert growth.while_running(flavor(**old), flavor(**new)) is wanted


def test_limits_are_parsed_as_for_a_new_guest():
    given = {**MOST, 'quota:disk_read_iops_sec': ' 10 ', 'quota:disk_write_iops_sec': '', 'quota:disk_other': '1'}
    assert growth.limits(flavor(specs=given)) == {'quota_disk_read_iops_sec': '10'}
    assert growth.limits(flavor(specs=None)) == {}
    with pytest.raises(exception.InvalidInput, match="'1e3' is not a valid value of the extra spec quota:disk_read_io"):
        growth.limits(flavor(specs={'quota:disk_read_iops_sec': '1e3'}))


REFUSED = {
    'It must be from 2, the vCPUs of the flavor': ({'hw:max_vcpus': '1'}, {}),
    'to 255': ({'hw:max_vcpus': '256'}, {}),
    'a multiple of 128 MiB': ({'hw:max_mem_mb': '300'}, {}),
    'the memory of the flavor': ({'hw:max_mem_mb': '128'}, {}),
    'cannot be combined with a NUMA topology': ({**MOST, 'hw:numa_nodes': '1'}, {}),
    'cannot be combined with a NUMA topology, pinned CPUs': ({**MOST, 'hw:cpu_policy': 'dedicated'}, {}),
    'or a page size': ({**MOST, 'hw:mem_page_size': 'small'}, {}),
    'cannot be combined with encrypted memory': ({**MOST, 'hw:mem_encryption': 'true'}, {'hw_firmware_type': 'uefi'}),
    '4 vCPUs cannot be divided': (
        {**MOST, 'hw:cpu_max_sockets': '3', 'hw:cpu_max_cores': '1', 'hw:cpu_max_threads': '1'}, {}),
}


@pytest.mark.parametrize('words', REFUSED)
def test_impossible_maximum_is_refused(words):
    specs, properties = REFUSED[words]
    guest_options.check(specs, properties)
    with pytest.raises(exception.InvalidInput, match=words):
        spec.guest_topology(flavor(specs=specs), properties)


@pytest.mark.parametrize('vcpus, specs, properties, accepted', [
    (255, {}, {}, True), (256, {}, {}, False), (256, {}, {'hw_machine_type': 'q35'}, False),
    (256, {}, {'hw_architecture': 'x86_64', 'hypervisor_type': 'qemu'}, False),
    (256, {}, {'hw_architecture': 'aarch64'}, True), (256, {}, {'hypervisor_type': 'lxc'}, True),
    (256, {}, {'hw_vm_mode': 'exe'}, True), (256, {'resources:CUSTOM_GOLD': '1'}, {}, True)])
def test_vcpus_of_a_pc_have_a_maximum(vcpus, specs, properties, accepted):
    made = flavor(vcpus=vcpus, specs=specs)
    if accepted:
        assert spec.guest_topology(made, properties) is None
    else:
        with pytest.raises(exception.InvalidInput, match='256 vCPUs, but virtual machines have at most 255'):
            spec.guest_topology(made, properties)


def test_guests_with_host_devices_cannot_grow():
    requests = pci.dump([pci.Request(count=1, spec=({'vendor_id': '10de'},), alias_name='gpu')])
    with pytest.raises(exception.InvalidInput, match='cannot be combined with PCI devices'):
        spec.guest_topology(flavor(pci_requests=requests), {})
    assert not growth.while_running(flavor(pci_requests=requests), flavor(vcpus=3))


def test_supported_maximum_sizes_pass():
    assert spec.guest_topology(flavor(specs={**MOST, 'hw:cpu_policy': 'shared'}), {}) is None
    assert cpu_topology.choose(2, MOST, {}) == {'sockets': 4, 'cores': 1, 'threads': 1}
    assert cpu_topology.choose(2, {**MOST, 'hw:cpu_max_sockets': '2'}, {})['cores'] == 2
