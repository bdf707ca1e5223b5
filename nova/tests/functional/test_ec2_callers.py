"""Every reference in every operation of the EC2 API, asked by callers of another project about what is not theirs.

The rows are those of the table of operations and the places are those of botocore's model, so that a new operation or
parameter is asked, too; a parameter that could name something and of which nobody has said here what fails a test.
"""
import contextlib
import json
import re

import botocore.exceptions
import pytest

from nova.ec2 import protocol
from nova.ec2 import table
from nova.tests import long_runs
from nova.tests.functional.callers_cloud import *  # noqa: F403
from nova.tests.support import ec2 as test_ec2
from nova.tests.support import isolation

# What a parameter names, by its last word. In an operation on placement groups GroupId and GroupName name one of those.
REFERENCES = {
    'InstanceId': 'instance', 'ImageId': 'image', 'KernelId': 'image', 'RamDiskId': 'image', 'VolumeId': 'volume',
    'RamdiskId': 'image', 'SnapshotId': 'snapshot', 'GroupId': 'group', 'SecurityGroupIds': 'group',
    'SecurityGroupId': 'group',
    'ReferencedGroupId': 'group', 'SourceSecurityGroupName': 'group_name',
    'SecurityGroupRuleId': 'rule', 'SubnetId': 'subnet', 'VpcId': 'vpc', 'NetworkInterfaceId': 'interface',
    'AllocationId': 'address', 'AssociationId': 'association', 'PublicIp': 'public_ip', 'KeyName': 'key_name',
    'KeyPairId': 'key', 'GroupName': 'group_name', 'SecurityGroups': 'group_name', 'Resources': 'instance',
    'ResourceId': 'instance', 'LaunchTemplateId': 'template', 'LaunchTemplateName': 'template_name',
    'InternetGatewayId': 'gateway', 'RouteTableId': 'routes', 'GatewayId': 'gateway', 'DhcpOptionsId': 'dhcp',
    'AttachmentId': 'attachment'}
# Names of nothing that belongs to a project, or of what is refused or made.
OTHERS = {'AcceleratorName', 'AvailabilityZoneId', 'CapacityReservationId', 'DeviceName', 'HostId', 'KmsKeyId',
          'MetricCategoryId', 'PrefixListId', 'SecondarySubnetId', 'VpcPeeringConnectionId', 'ZoneId', 'ZoneName',
          'RegionName', 'AttributeName', 'VirtualName', 'OwnerId', 'UserId', 'Name', 'RootDeviceName'}
# What a call needs besides the parameter in question.
NEEDED = {'MinCount': 1, 'MaxCount': 1, 'Size': 1, 'AvailabilityZone': 'nova', 'Device': '/dev/vdz', 'Name': 'stolen',
          'DeviceIndex': 1,
          'Description': 'stolen', 'Attribute': 'description', 'Tags': [{'Key': 'stolen', 'Value': 'it'}],
          'PublicKeyMaterial': b'', 'InstanceType': 'm1.tiny', 'Strategy': 'spread', 'CidrBlock': '10.78.0.0/24',
          'DestinationCidrBlock': '0.0.0.0/0', 'LaunchTemplateData': {'InstanceType': 'm1.tiny'}, 'Versions': ['1'],
          'SecurityGroupRules': [{'SecurityGroupRuleId': 'sgr-0123456789abcdef0', 'SecurityGroupRule': {
              'IpProtocol': 'tcp', 'FromPort': 22, 'ToPort': 22, 'CidrIpv4': '0.0.0.0/0'}}],
          'DhcpConfigurations': [], 'IpProtocol': 'tcp', 'FromPort': 22, 'ToPort': 22, 'CidrIp': '0.0.0.0/0'}
MAKES = {'CreateKeyPair', 'ImportKeyPair', 'CreateSecurityGroup', 'CreatePlacementGroup', 'CreateLaunchTemplate'}
MODEL = protocol.service()
PREFIXES = {'instance': 'i', 'image': 'ami', 'volume': 'vol', 'snapshot': 'snap', 'group': 'sg', 'rule': 'sgr',
            'subnet': 'subnet', 'vpc': 'vpc', 'interface': 'eni', 'address': 'eipalloc', 'association': 'eipassoc',
            'key': 'key', 'placement': 'pg', 'template': 'lt', 'gateway': 'igw', 'routes': 'rtb', 'dhcp': 'dopt',
            'attachment': 'eni-attach'}
MISSING_IDS = {**{kind: f'{prefix}-0123456789abcdef0' for kind, prefix in PREFIXES.items()},
               'public_ip': '203.0.113.250', 'key_name': 'missing', 'group_name': 'missing', 'template_name': 'missing',
               'placement_name': 'missing'}
ROLES = ('reader', 'member', 'manager', 'service')
SHARE = 2              # one in so many roles asks about a parameter, in turn; in long runs all of them do


def leaves(shape, path=()):
    """[(path, last word in the singular)] of the strings of a shape of the model; None in a path: an item of a list."""
    if shape.type_name == 'structure':
        return [] if len(path) > 7 else [each for name, member in shape.members.items()
                                         for each in leaves(member, (*path, name))]
    if shape.type_name == 'list':
        return leaves(shape.member, (*path, None))
    if shape.type_name != 'string':
        return []
    word = [each for each in path if each][-1]
    return [(path, word if word in REFERENCES or path[-1] else word.removesuffix('s'))]


def kind_of(operation, word):
    kind = REFERENCES.get(word)
    if 'Placement' in operation and kind in ('group', 'group_name'):
        return {'group': 'placement', 'group_name': 'placement_name'}[kind]
    return kind


def references():
    """[(operation, path, kind)]"""
    for row in table.OPERATIONS.values():
        members = MODEL.operation_model(row.name).input_shape.members
        for name in sorted(row.takes):
            for path, word in leaves(members[name], (name,)):
                kind = kind_of(row.name + ('Placement' if path[0] == 'Placement' else ''), word)
                if kind is not None and row.name not in MAKES:
                    yield row.name, path, kind


def put(given, path, value):
    """A copy of parameters with this value there."""
    if not path:
        return value
    if path[0] is None:
        return [put((given or [{}])[0] if path[1:] else None, path[1:], value)]
    return {**(given or {}), path[0]: put((given or {}).get(path[0]), path[1:], value)}


def base(operation, own):
    """What a call of this operation has to say, about the caller's own things."""
    shape = MODEL.operation_model(operation).input_shape
    takes = table.OPERATIONS[operation].takes
    found = {}
    for name in [*shape.required_members, *(('ImageId', 'InstanceType') if operation == 'RunInstances' else ())]:
        if name not in takes:
            continue
        (_path, word), *_rest = leaves(shape.members[name], (name,)) or [((), name)]
        kind = kind_of(operation, word)
        if kind and name not in NEEDED:
            found[name] = [own[kind]] if shape.members[name].type_name == 'list' else own[kind]
        else:
            found[name] = NEEDED[name]
    return found


def ids_of(client, name):
    """{kind: id} of what a project has, as EC2 names it.

    :param name: of a key and of a group that it makes
    """
    def first(rows, key, **wanted):
        return next((row.get(key) for row in rows if wanted.items() <= row.items()), None)
    client.create_key_pair(KeyName=name)
    group = client.create_security_group(GroupName=name, Description='canary')['GroupId']
    template = client.create_launch_template(LaunchTemplateName=name, LaunchTemplateData={'InstanceType': 'm1.tiny'})
    rules = client.describe_security_group_rules()['SecurityGroupRules']
    options = client.create_dhcp_options(DhcpConfigurations=[{'Key': 'domain-name-servers', 'Values': ['192.0.2.1']}])
    interfaces = client.describe_network_interfaces()['NetworkInterfaces']
    reservations = client.describe_instances()['Reservations']
    addresses = client.describe_addresses()['Addresses']
    found = {
        'instance': reservations[0]['Instances'][0]['InstanceId'], 'group': group, 'group_name': name,
        'image': first(client.describe_images()['Images'], 'ImageId', Name='canary-image'),
        'volume': client.describe_volumes()['Volumes'][0]['VolumeId'],
        'snapshot': client.describe_snapshots(OwnerIds=['self'])['Snapshots'][0]['SnapshotId'],
        'rule': first(rules, 'SecurityGroupRuleId', GroupId=group),
        'interface': interfaces[0]['NetworkInterfaceId'], 'dhcp': options['DhcpOptions']['DhcpOptionsId'],
        'attachment': interfaces[0]['NetworkInterfaceId'].replace('eni-', 'eni-attach-'),
        'key': first(client.describe_key_pairs()['KeyPairs'], 'KeyPairId', KeyName=name), 'key_name': name,
        'template': template['LaunchTemplate']['LaunchTemplateId'], 'template_name': name,
        'address': first(addresses, 'AllocationId'), 'association': first(addresses, 'AssociationId'),
        'public_ip': first(addresses, 'PublicIp'),
        'subnet': min((row['CidrBlock'] != '10.77.0.0/24', row['SubnetId'])
                      for row in client.describe_subnets()['Subnets'])[1],
        'vpc': client.describe_vpcs()['Vpcs'][-1]['VpcId'],
        'placement': first(client.describe_placement_groups()['PlacementGroups'], 'GroupId'),
        'placement_name': first(client.describe_placement_groups()['PlacementGroups'], 'GroupName')}
    return {**MISSING_IDS, **{kind: value for kind, value in found.items() if value}}


@pytest.fixture(scope='module')
def canaries(cloud, owner, things):
    client = test_ec2.boto(cloud, test_ec2.keys_of(owner))
    found = ids_of(client, 'canary-of-the-owner')
    assert {kind for kind in found if found[kind] == MISSING_IDS.get(kind)} <= {
        'association', 'gateway', 'routes', 'dhcp'}, found
    return found


@pytest.fixture(scope='module')
def askers(cloud, identity):      # before the networks of the owner
    """{role: EC2 client} of another project, and what that project has."""
    owners = identity.in_project('asking', 'member')
    isolation.make_things(owners)
    asking = {role: identity.in_project('asking', role) for role in ROLES} | {'member': owners}
    clients = {role: test_ec2.boto(cloud, test_ec2.keys_of(caller, cloud.admin())) for role, caller in asking.items()}
    return clients, ids_of(clients['member'], 'own')


def said(client, operation, given):
    """(code, text) of an answer without ids of requests and times."""
    call = getattr(client, ''.join('_' + c.lower() if c.isupper() and i else c.lower()
                                   for i, c in enumerate(operation)))
    with contextlib.suppress(AttributeError):
        try:
            text, code = json.dumps(call(**given), default=str), 200
        except botocore.exceptions.ClientError as error:
            code = error.response['ResponseMetadata']['HTTPStatusCode']
            text = json.dumps(error.response['Error'])
        return code, re.sub(r'"ResponseMetadata": \{.*', '', text)
    raise AssertionError(f'{operation} is no method of the client')


def test_every_parameter_that_names_something_is_known():
    unknown = set()
    for row in table.OPERATIONS.values():
        members = MODEL.operation_model(row.name).input_shape.members
        for name in row.takes:
            unknown |= {word for _path, word in leaves(members[name], (name,))
                        if re.search('(Id|Name)$', word) and word not in OTHERS and word not in REFERENCES}
    assert not unknown
    assert len(set(references())) > 60


def test_resources_of_another_project_look_nonexistent(askers, owner, things, canaries):
    clients, own = askers
    before, wrong, asked = isolation.everything(owner, things), {}, 0
    for operation, path, kind in references():
        given = base(operation, own)
        for role, client in long_runs.turn(f'{operation} {path}', clients.items(), SHARE):
            theirs, absent = (said(client, operation, put(given, path, value[kind]))
                              for value in (canaries, MISSING_IDS))
            asked += 1
            shown, hidden = (json.loads(json.dumps(answer).replace(value[kind], '…'))
                             for answer, value in ((theirs, canaries), (absent, MISSING_IDS)))
            if shown != hidden or 'canary-of' in str(shown) or absent[0] >= 500:
                wrong[operation, '.'.join(each or '[]' for each in path), role] = shown, hidden
    assert asked > 60 * len(clients) / SHARE
    assert not wrong, json.dumps({str(key): value for key, value in wrong.items()}, indent=1)
    assert isolation.everything(owner, things) == before


def test_a_dry_run_finds_what_the_call_finds(askers, owner, things, canaries):
    """CreateImage said that it would have been allowed, of another project's instance."""
    clients, own = askers
    wrong, asked = {}, 0
    for operation, path, kind in references():
        given = base(operation, own)
        if 'DryRun' not in MODEL.operation_model(operation).input_shape.members:
            continue
        for role, client in long_runs.turn(f'dry {operation} {path}', clients.items(), SHARE):
            for value in (canaries, MISSING_IDS):
                wanted = put(given, path, value[kind])
                dry = said(client, operation, {**wanted, 'DryRun': True})
                real = said(client, operation, wanted)
                asked += 1
                if real[0] == 400 and 'NotFound' in real[1] and dry != real:
                    wrong[operation, '.'.join(each or '[]' for each in path), role] = real, dry
    assert asked > 60
    assert not wrong, json.dumps({str(key): value for key, value in wrong.items()}, indent=1)


def test_caller_without_a_project_cannot_create_ec2_credentials(nowhere, things):
    for who, caller in nowhere.items():
        path = f'/identity/v3/users/{caller.user_id}/credentials/OS-EC2'
        for project in (things['project'], None, '', 'None'):
            answer = caller.post(path, {'tenant_id': project})
            assert answer.status_code in (400, 403, 404), (who, project, answer.text)
