"""Parameters of features that the cloud lacks, with the values that do not ask for the feature.

Clients such as Terraform send many parameters at their defaults. A parameter with a neutral value is removed from the
request. Any other value of an unsupported parameter is refused.
"""
from collections.abc import Collection, Mapping
from typing import TypeAlias

from nova.ec2 import errors
from nova.ec2.protocol import Parameters

# {parameter: its neutral values, or for a structure, the Rules of its members}
Rules: TypeAlias = Mapping[str, 'tuple[str | int, ...] | Rules']
OFF, NONE = (False,), (0,)
EITHER = (False, True)                   # both values have no effect: this cloud lacks what the parameter selects
BASE_IOPS, BASE_THROUGHPUT = 3000, 125   # default performance of a gp3 volume, from EC2's documentation
_SRD: Rules = {'EnaSrdEnabled': OFF, 'EnaSrdUdpSpecification': {'EnaSrdUdpEnabled': OFF}}
_EBS: Rules = {'Encrypted': OFF, 'Iops': (0, BASE_IOPS), 'Throughput': (0, BASE_THROUGHPUT),
               'VolumeInitializationRate': NONE, 'KmsKeyId': ('',), 'OutpostArn': ('',)}
_DNS_NAMES: Rules = {'HostnameType': ('ip-name',), 'EnableResourceNameDnsARecord': OFF,
                     'EnableResourceNameDnsAAAARecord': OFF}
_NEW_INTERFACE: Rules = {
    'InterfaceType': ('interface',), 'Ipv4PrefixCount': NONE, 'Ipv6AddressCount': NONE, 'Ipv6PrefixCount': NONE,
    'SecondaryPrivateIpAddressCount': NONE}
_INTERFACE: Rules = {
    **_NEW_INTERFACE, 'AssociateCarrierIpAddress': OFF, 'EnaQueueCount': NONE, 'EnaSrdSpecification': _SRD,
    'NetworkCardIndex': NONE, 'PrimaryIpv6': OFF}
LAUNCH: Rules = {
    'BlockDeviceMappings': {'Ebs': {**_EBS, 'EbsCardIndex': NONE}, 'VirtualName': ('',)},
    'CapacityReservationSpecification': {'CapacityReservationPreference': ('open', 'none')},
    'CpuOptions': {'AmdSevSnp': ('disabled',), 'NestedVirtualization': ('disabled',)},
    'CreditSpecification': {'CpuCredits': ('standard',)},
    'EbsOptimized': OFF, 'EnablePrimaryIpv6': OFF, 'EnclaveOptions': {'Enabled': OFF},
    'HibernationOptions': {'Configured': OFF}, 'InstanceMarketOptions': {'MarketType': ('on-demand',)},
    'Ipv6AddressCount': NONE, 'MaintenanceOptions': {'AutoRecovery': ('default', 'disabled')},
    'Monitoring': {'Enabled': OFF}, 'NetworkInterfaces': _INTERFACE,
    'NetworkPerformanceOptions': {'BandwidthWeighting': ('default',)},
    'Placement': {'Tenancy': ('default',), 'PartitionNumber': NONE, 'Affinity': ('', 'default'), 'HostId': ('',),
                  'GroupId': ('',), 'GroupName': ('',), 'SpreadDomain': ('',), 'HostResourceGroupArn': ('',)},
    'PrivateDnsNameOptions': _DNS_NAMES}
_MANAGED: Rules = {'IncludeManagedResources': EITHER}
# operation: its rules
RULES: dict[str, Rules] = {
    'RunInstances': LAUNCH,
    'AllocateAddress': {'PublicIpv4Pool': ('amazon',)},
    'AttachNetworkInterface': {'NetworkCardIndex': NONE, 'EnaQueueCount': NONE, 'EnaSrdSpecification': _SRD},
    'AttachVolume': {'EbsCardIndex': NONE},
    'CreateImage': {'SnapshotLocation': ('regional',)},
    'CreateLaunchTemplateVersion': {'ResolveAlias': OFF},
    'CreateNetworkInterface': {**_NEW_INTERFACE, 'EnablePrimaryIpv6': OFF},
    'CreatePlacementGroup': {'PartitionCount': NONE},
    'CreateSnapshot': {'Location': ('regional',)},
    'CreateSubnet': {'Ipv6Native': OFF, 'Ipv4NetmaskLength': NONE, 'Ipv6NetmaskLength': NONE},
    'CreateVolume': {**_EBS, 'MultiAttachEnabled': OFF},
    'CreateVpc': {'AmazonProvidedIpv6CidrBlock': OFF, 'InstanceTenancy': ('default',), 'Ipv4NetmaskLength': NONE,
                  'Ipv6NetmaskLength': NONE},
    'DeregisterImage': {'DeleteAssociatedSnapshots': OFF},
    'DescribeInstanceStatus': _MANAGED, 'DescribeInstances': _MANAGED, 'DescribeLaunchTemplates': _MANAGED,
    'DescribeInstanceTypes': {'IncludeUnsupportedInRegion': EITHER},
    'DescribeLaunchTemplateVersions': {**_MANAGED, 'ResolveAlias': OFF},
    'DescribeNetworkInterfaces': _MANAGED, 'DescribeVolumeStatus': _MANAGED, 'DescribeVolumes': _MANAGED,
    'DescribeVolumesModifications': _MANAGED,
    'DetachVolume': {'Force': OFF},
    'ModifyNetworkInterfaceAttribute': {'AssociatePublicIpAddress': OFF, 'EnablePrimaryIpv6': OFF,
                                        'EnaSrdSpecification': _SRD},
    'ModifySubnetAttribute': {
        'AssignIpv6AddressOnCreation': {'Value': OFF}, 'DisableLniAtDeviceIndex': {'Value': EITHER},
        'EnableDns64': {'Value': OFF}, 'EnableLniAtDeviceIndex': NONE,
        'EnableResourceNameDnsAAAARecordOnLaunch': {'Value': OFF},
        'EnableResourceNameDnsARecordOnLaunch': {'Value': OFF}, 'MapCustomerOwnedIpOnLaunch': {'Value': OFF},
        'PrivateDnsHostnameTypeOnLaunch': ('ip-name',)},
    'ModifyVolume': {'Iops': (0, BASE_IOPS), 'Throughput': (0, BASE_THROUGHPUT), 'MultiAttachEnabled': OFF},
    'StopInstances': {'SkipOsShutdown': OFF},
    'TerminateInstances': {'Force': OFF, 'SkipOsShutdown': OFF},
}
# {unsupported parameter: what the cloud lacks}
REASONS = {
    'AmazonProvidedIpv6CidrBlock': 'VPCs are IPv4 only.', 'AssignIpv6AddressOnCreation': 'VPCs are IPv4 only.',
    'CapacityReservationSpecification': 'There are no capacity reservations.',
    'CpuOptions': 'The flavor determines the processors.', 'CreditSpecification': 'There are no CPU credits.',
    'EbsOptimized': 'There is no dedicated bandwidth for volumes.', 'EnclaveOptions': 'There are no enclaves.',
    'Encrypted': 'Volumes are encrypted by their volume type.',
    'HibernationOptions': 'Hibernation suspends any instance and needs no option.',
    'IamInstanceProfile': 'There are no instance profiles.', 'InstanceMarketOptions': 'There are no spot instances.',
    'Iops': 'The volume type determines the performance.', 'Ipv6CidrBlock': 'VPCs are IPv4 only.',
    'Ipv6Native': 'VPCs are IPv4 only.', 'Monitoring': 'There is no detailed monitoring.',
    'MultiAttachEnabled': 'The volume type determines whether a volume is multi-attached.',
    'Throughput': 'The volume type determines the performance.',
}


def without(given: Parameters, rules: Rules) -> Parameters:
    """Return the parameters of a request without those that have neutral values.

    A structure is removed if all of its members are neutral.
    """
    found: Parameters = {}
    for name, value in given.items():
        rule = rules.get(name)
        if rule is None:
            found[name] = value
        elif not isinstance(rule, Mapping):
            if value not in rule:
                found[name] = value
        elif isinstance(value, list):
            found[name] = [without(each, rule) for each in value if isinstance(each, dict)]
        elif not isinstance(value, dict) or not value or (value := without(value, rule)):
            found[name] = value
    return found


def refuse(operation: str, given: Parameters, supported: Collection[str]) -> None:
    """Refuse unsupported parameters; empty strings are neutral.

    :raises Ec2Error: a parameter is not supported
    """
    for name, value in given.items():
        if name not in supported and value != '':
            reason = REASONS.get(name, 'Omit it.')
            raise errors.unsupported(f'The parameter {_path(name, value)} of {operation} is not supported. {reason}')


def _path(name: str, value: object) -> str:
    """Return the path of the first member of a parameter, for a message."""
    while isinstance(value, list) and value:
        value = value[0]
    if isinstance(value, dict) and value:
        first = next(iter(value))
        return f'{name}.{_path(first, value[first])}'
    return name
