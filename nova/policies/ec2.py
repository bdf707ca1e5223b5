"""Rules of the EC2 API: who may send which action. The rules of the services guard what an action does."""
from nova.policies.base import MEMBER
from nova.policies.base import READER

READS = (
    'DescribeAccountAttributes', 'DescribeAddresses', 'DescribeAvailabilityZones', 'DescribeImageAttribute',
    'DescribeImages', 'DescribeInstanceAttribute', 'DescribeInstanceStatus', 'DescribeInstanceTypes',
    'DescribeInstances', 'DescribeInternetGateways', 'DescribeKeyPairs', 'DescribeLaunchTemplateVersions',
    'DescribeLaunchTemplates', 'DescribeNetworkInterfaces',
    'DescribePlacementGroups', 'DescribeRegions', 'DescribeRouteTables',
    'DescribeSecurityGroupRules', 'DescribeSecurityGroups', 'DescribeSnapshotAttribute',
    'DescribeSnapshots', 'DescribeSubnets',
    'DescribeTags', 'DescribeVolumes', 'DescribeVpcAttribute', 'DescribeVpcs',
)
WRITES = (
    'AllocateAddress', 'AssociateAddress', 'AssociateRouteTable', 'AttachInternetGateway', 'AttachVolume',
    'AuthorizeSecurityGroupEgress',
    'AuthorizeSecurityGroupIngress', 'CreateImage', 'CreateInternetGateway', 'CreateKeyPair',
    'CreateLaunchTemplate',
    'CreateLaunchTemplateVersion', 'CreatePlacementGroup', 'CreateRoute', 'CreateRouteTable',
    'CreateSecurityGroup', 'CreateSnapshot', 'CreateSubnet',
    'CreateTags', 'CreateVolume', 'CreateVpc', 'DeleteInternetGateway', 'DeleteKeyPair',
    'DeleteLaunchTemplate', 'DeleteLaunchTemplateVersions',
    'DeletePlacementGroup', 'DeleteRoute', 'DeleteRouteTable', 'DeleteSecurityGroup',
    'DeleteSnapshot', 'DeleteSubnet', 'DeleteTags',
    'DeleteVolume', 'DeleteVpc', 'DeregisterImage', 'DetachInternetGateway', 'DetachVolume',
    'DisassociateAddress', 'DisassociateRouteTable', 'GetConsoleOutput', 'GetPasswordData', 'ImportKeyPair',
    'ModifyImageAttribute', 'ModifyInstanceAttribute', 'ModifyLaunchTemplate', 'ModifyVolume',
    'RebootInstances', 'RegisterImage', 'ReleaseAddress', 'ReplaceRoute', 'ReplaceRouteTableAssociation',
    'RevokeSecurityGroupEgress', 'RevokeSecurityGroupIngress', 'RunInstances', 'StartInstances', 'StopInstances',
    'TerminateInstances',
)
PATH = '/services/Cloud'

# (rule, check, what it guards, ((method, path), …))
RULES = tuple((f'ec2_api:{name}', check, f'The action {name} of the EC2 API.', (('POST', f'{PATH} ({name})'),))
              for names, check in ((READS, READER), (WRITES, MEMBER)) for name in names)
