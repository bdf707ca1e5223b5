"""EC2 operations on instance types (flavors)."""
from typing import Any

from nova.ec2 import errors
from nova.ec2 import filters
from nova.ec2 import operations
from nova.ec2.instances import placement_groups
from nova.ec2.instances import run_parameters
from nova.json_types import JsonDocument

PARTS_OF_NAMES = {'OpenStack-API-Version': 'compute 2.102'}           # microversion that can filter flavors by name


# constant attributes of all instance types. The real architectures are unknown, because users cannot list hosts.
CONSTANTS: dict[str, Any] = {
    'AutoRecoverySupported': False, 'BareMetal': False, 'BurstablePerformanceSupported': False,
    'CurrentGeneration': True, 'DedicatedHostsSupported': False, 'FreeTierEligible': False,
    'EbsInfo': {'EbsOptimizedSupport': 'unsupported', 'EncryptionSupport': 'supported', 'NvmeSupport': 'unsupported',
                'MaximumEbsAttachments': run_parameters.MAX_VOLUMES, 'AttachmentLimitType': 'dedicated'},
    'HibernationSupported': True, 'Hypervisor': 'xen', 'NitroEnclavesSupport': 'unsupported',
    'NitroTpmSupport': 'unsupported', 'PhcSupport': 'unsupported', 'RebootMigrationSupport': 'unsupported',
    'NetworkInfo': {
        'DefaultNetworkCardIndex': 0, 'EfaSupported': False, 'EnaSrdSupported': False, 'EnaSupport': 'unsupported',
        'EncryptionInTransitSupported': False, 'Ipv4AddressesPerInterface': 1, 'Ipv6AddressesPerInterface': 0,
        'Ipv6Supported': False, 'MaximumNetworkCards': 1, 'NetworkPerformance': '',
        'MaximumNetworkInterfaces': run_parameters.MAX_INTERFACES, 'NetworkCards': [
            {'NetworkCardIndex': 0, 'MaximumNetworkInterfaces': run_parameters.MAX_INTERFACES,
             'NetworkPerformance': ''}]},
    'PlacementGroupInfo': {'SupportedStrategies': list(placement_groups.POLICIES)},
    'ProcessorInfo': {'SupportedArchitectures': ['x86_64']}, 'SupportedBootModes': ['legacy-bios', 'uefi'],
    'SupportedRootDeviceTypes': ['ebs', 'instance-store'], 'SupportedUsageClasses': ['on-demand'],
    'SupportedVirtualizationTypes': ['hvm']}


def _type(flavor: dict[str, Any]) -> dict[str, Any]:
    disk = flavor['disk']
    return {**CONSTANTS, 'InstanceType': flavor['name'], 'MemoryInfo': {'SizeInMiB': flavor['ram']},
            'VCpuInfo': {'DefaultVCpus': flavor['vcpus'], 'DefaultCores': flavor['vcpus'], 'DefaultThreadsPerCore': 1},
            'InstanceStorageSupported': disk > 0, 'InstanceStorageInfo': {
                'TotalSizeInGB': disk, 'Disks': [{'SizeInGB': disk, 'Count': 1, 'Type': 'hdd'}],
                'NvmeSupport': 'unsupported', 'EncryptionSupport': 'unsupported'} if disk else None}


FILTERS: dict[str, filters.Values] = {
    'auto-recovery-supported': 'AutoRecoverySupported', 'bare-metal': 'BareMetal',
    'burstable-performance-supported': 'BurstablePerformanceSupported', 'current-generation': 'CurrentGeneration',
    'dedicated-hosts-supported': 'DedicatedHostsSupported', 'free-tier-eligible': 'FreeTierEligible',
    'ebs-info.attachment-limit-type': 'EbsInfo.AttachmentLimitType',
    'ebs-info.maximum-ebs-attachments': 'EbsInfo.MaximumEbsAttachments',
    'ebs-info.ebs-optimized-support': 'EbsInfo.EbsOptimizedSupport',
    'ebs-info.encryption-support': 'EbsInfo.EncryptionSupport', 'ebs-info.nvme-support': 'EbsInfo.NvmeSupport',
    'hibernation-supported': 'HibernationSupported', 'hypervisor': 'Hypervisor', 'instance-type': 'InstanceType',
    'instance-storage-info.disk.count': 'InstanceStorageInfo.Disks.Count',
    'instance-storage-info.disk.size-in-gb': 'InstanceStorageInfo.Disks.SizeInGB',
    'instance-storage-info.disk.type': 'InstanceStorageInfo.Disks.Type',
    'instance-storage-info.encryption-support': 'InstanceStorageInfo.EncryptionSupport',
    'instance-storage-info.nvme-support': 'InstanceStorageInfo.NvmeSupport',
    'instance-storage-info.total-size-in-gb': 'InstanceStorageInfo.TotalSizeInGB',
    'instance-storage-supported': 'InstanceStorageSupported', 'memory-info.size-in-mib': 'MemoryInfo.SizeInMiB',
    'network-info.efa-supported': 'NetworkInfo.EfaSupported', 'network-info.ena-support': 'NetworkInfo.EnaSupport',
    'network-info.encryption-in-transit-supported': 'NetworkInfo.EncryptionInTransitSupported',
    'network-info.ipv4-addresses-per-interface': 'NetworkInfo.Ipv4AddressesPerInterface',
    'network-info.ipv6-addresses-per-interface': 'NetworkInfo.Ipv6AddressesPerInterface',
    'network-info.ipv6-supported': 'NetworkInfo.Ipv6Supported',
    'network-info.maximum-network-cards': 'NetworkInfo.MaximumNetworkCards',
    'network-info.maximum-network-interfaces': 'NetworkInfo.MaximumNetworkInterfaces',
    'nitro-enclaves-support': 'NitroEnclavesSupport', 'nitro-tpm-support': 'NitroTpmSupport',
    'processor-info.supported-architecture': 'ProcessorInfo.SupportedArchitectures',
    'reboot-migration-support': 'RebootMigrationSupport', 'supported-boot-mode': 'SupportedBootModes',
    'supported-root-device-type': 'SupportedRootDeviceTypes', 'supported-usage-class': 'SupportedUsageClasses',
    'supported-virtualization-type': 'SupportedVirtualizationTypes', 'vcpu-info.default-cores': 'VCpuInfo.DefaultCores',
    'vcpu-info.default-threads-per-core': 'VCpuInfo.DefaultThreadsPerCore',
    'vcpu-info.default-vcpus': 'VCpuInfo.DefaultVCpus', **filters.unset(
        'ebs-info.ebs-optimized-info.baseline-bandwidth-in-mbps ebs-info.ebs-optimized-info.baseline-iops '
        'ebs-info.ebs-optimized-info.baseline-throughput-in-mbps ebs-info.ebs-optimized-info.maximum-bandwidth-in-mbps '
        'ebs-info.ebs-optimized-info.maximum-iops ebs-info.ebs-optimized-info.maximum-throughput-in-mbps '
        'network-info.bandwidth-weightings network-info.efa-info.maximum-efa-interfaces '
        'network-info.flexible-ena-queues-support network-info.network-performance nitro-tpm-info.supported-versions '
        'processor-info.sustained-clock-speed-in-ghz processor-info.supported-features vcpu-info.valid-cores '
        'vcpu-info.valid-threads-per-core')}


def describe_instance_types(req: operations.Request, given: operations.Given) -> JsonDocument:
    flavors = req.pages('compute', '/flavors/detail', 'flavors')
    shown = [_type(flavor) for flavor in flavors]
    shown = filters.choose_named(shown, 'InstanceType', given.get('InstanceTypes'), 'InvalidInstanceType',
                                 'The instance type {} does not exist.')
    return filters.answer('InstanceTypes', shown, given, 'InstanceType', FILTERS)


def flavor_of(req: operations.Request, name: str | None) -> str:
    """Return the ID of the flavor with the name of an instance type.

    :raises Ec2Error: the flavor does not exist
    """
    if not name:
        raise errors.missing('InstanceType')
    for flavor in req.pages('compute', '/flavors', 'flavors', {'name': name}, headers=PARTS_OF_NAMES):
        if flavor['name'] == name:
            return str(flavor['id'])
    raise errors.Ec2Error('InvalidInstanceType', f'The instance type {name[:255]!r} does not exist.')


def describe_instance_type_offerings(req: operations.Request, given: operations.Given) -> JsonDocument:
    """List every flavor in the region or in all zones: the API does not know which zones have free capacity."""
    kind = given.get('LocationType') or 'region'
    if kind not in ('region', 'availability-zone', 'availability-zone-id'):
        raise errors.invalid('LocationType', kind)
    places = [req.region] if kind == 'region' else [
        zone['zoneName'] for zone in req.call('compute', 'GET', '/os-availability-zone')['availabilityZoneInfo']]
    shown = [{'InstanceType': flavor['name'], 'LocationType': kind, 'Location': place}
             for flavor in req.pages('compute', '/flavors', 'flavors') for place in places]
    return filters.answer('InstanceTypeOfferings', shown, given, lambda row: f'{row["InstanceType"]} {row["Location"]}',
                          {'instance-type': 'InstanceType', 'location': 'Location'})


OPERATIONS = [
    operations.row('DescribeInstanceTypes', describe_instance_types, 'InstanceTypes' + operations.PAGED),
    operations.row('DescribeInstanceTypeOfferings', describe_instance_type_offerings,
                   'LocationType' + operations.PAGED),
]
