"""Rules of the EC2 API: one for each action. The rules of the APIs that an action calls also apply."""
from nova.policies.base import MEMBER
from nova.policies.base import READER

READS = (
    'DescribeAccountAttributes', 'DescribeAddresses', 'DescribeAvailabilityZones', 'DescribeDhcpOptions',
    'DescribeImageAttribute', 'DescribeImages', 'DescribeInstanceAttribute', 'DescribeInstanceStatus',
    'DescribeInstanceTypeOfferings', 'DescribeInstanceTypes', 'DescribeInstances', 'DescribeInternetGateways',
    'DescribeKeyPairs', 'DescribeLaunchTemplateVersions', 'DescribeLaunchTemplates',
    'DescribeNetworkInterfaceAttribute', 'DescribeNetworkInterfaces', 'DescribePlacementGroups', 'DescribeRegions',
    'DescribeRouteTables', 'DescribeSecurityGroupRules', 'DescribeSecurityGroups', 'DescribeSnapshotAttribute',
    'DescribeSnapshots', 'DescribeSubnets', 'DescribeTags', 'DescribeVolumeAttribute', 'DescribeVolumeStatus',
    'DescribeVolumes', 'DescribeVolumesModifications', 'DescribeVpcAttribute', 'DescribeVpcs',
)
WRITES = (
    'AllocateAddress', 'AssociateAddress', 'AssociateDhcpOptions', 'AssociateRouteTable', 'AttachInternetGateway',
    'AttachNetworkInterface', 'AttachVolume', 'AuthorizeSecurityGroupEgress', 'AuthorizeSecurityGroupIngress',
    'CreateDhcpOptions', 'CreateImage', 'CreateInternetGateway', 'CreateKeyPair', 'CreateLaunchTemplate',
    'CreateLaunchTemplateVersion', 'CreateNetworkInterface', 'CreatePlacementGroup', 'CreateRoute',
    'CreateRouteTable', 'CreateSecurityGroup', 'CreateSnapshot', 'CreateSubnet', 'CreateTags', 'CreateVolume',
    'CreateVpc', 'DeleteDhcpOptions', 'DeleteInternetGateway', 'DeleteKeyPair', 'DeleteLaunchTemplate',
    'DeleteLaunchTemplateVersions', 'DeleteNetworkInterface', 'DeletePlacementGroup', 'DeleteRoute',
    'DeleteRouteTable', 'DeleteSecurityGroup', 'DeleteSnapshot', 'DeleteSubnet', 'DeleteTags', 'DeleteVolume',
    'DeleteVpc', 'DeregisterImage', 'DetachInternetGateway', 'DetachNetworkInterface', 'DetachVolume',
    'DisassociateAddress', 'DisassociateRouteTable', 'GetConsoleOutput', 'GetConsoleScreenshot', 'GetPasswordData',
    'ImportKeyPair', 'ModifyImageAttribute', 'ModifyInstanceAttribute', 'ModifyInstanceMetadataOptions',
    'ModifyLaunchTemplate', 'ModifyNetworkInterfaceAttribute', 'ModifySecurityGroupRules',
    'ModifySubnetAttribute', 'ModifyVolume',
    'ModifyVpcAttribute', 'RebootInstances', 'RegisterImage',
    'ReleaseAddress', 'ReplaceRoute', 'ReplaceRouteTableAssociation', 'ResetImageAttribute',
    'RevokeSecurityGroupEgress', 'RevokeSecurityGroupIngress', 'RunInstances', 'StartInstances', 'StopInstances',
    'TerminateInstances', 'UnmonitorInstances', 'UpdateSecurityGroupRuleDescriptionsEgress',
    'UpdateSecurityGroupRuleDescriptionsIngress',
)
PATH = '/services/Cloud'

# (rule, check, description, ((method, path), …))
RULES = tuple((f'ec2_api:{name}', check, f'The action {name} of the EC2 API.', (('POST', f'{PATH} ({name})'),))
              for names, check in ((READS, READER), (WRITES, MEMBER)) for name in names)
