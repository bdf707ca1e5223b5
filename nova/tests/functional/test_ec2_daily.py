"""The EC2 API as Terraform, awscli and controllers of Kubernetes use it daily, with boto3."""
import base64
import datetime
import functools
import hashlib
import re
import shutil

from botocore import loaders
from botocore import xform_name
from cryptography.hazmat.primitives import serialization
import pytest
import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.api import idempotency
from nova.db.projects import attempts
from nova.db.tables import api as tables_api
from nova.db.tables import ec2 as tables
from nova.ec2 import absent
from nova.ec2 import operations
from nova.ec2 import protocol
from nova.ec2 import table
from nova.ec2.networks import public_addresses
from nova.tests.functional import cloud as whole
from nova.tests.support import ec2 as test_ec2
from nova.tests.support import holding
from nova.tests.support import waiting

refused = test_ec2.refused
ED25519 = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ/ImHLjjIY1SyPpIrM2mhEHuWUzSRFdU+bQKyJzqdSf someone@somewhere'
INVALID, UNSUPPORTED = ('InvalidParameterValue', 400), ('UnsupportedOperation', 400)
TAGS = [{'Key': 'kubernetes.io/cluster/x', 'Value': 'owned=1'}, {'Key': 'Größe @+', 'Value': 'ä/ö'},
        {'Key': 'plain', 'Value': '=/@'}]


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with whole.running(tmp_path_factory.mktemp('daily'), ['host1', 'host2']) as running:
        admin = running.admin()
        project = running.client().project_id
        admin.put(f'/os-quota-sets/{project}', {'quota_set': {'instances': -1, 'cores': -1, 'ram': -1}})
        admin.put(f'/volume/v3/os-quota-sets/{project}', {'quota_set': {
            'volumes': -1, 'snapshots': -1, 'gigabytes': -1}})
        outside = admin.post('/network/v2.0/networks', {'network': {
            'name': 'outside', 'router:external': True}}).json()['network']['id']
        admin.post('/network/v2.0/subnets', {'subnet': {
            'network_id': outside, 'cidr': '203.0.113.0/24', 'ip_version': 4}})
        yield running


@pytest.fixture(scope='module')
def demo(cloud):
    client = cloud.client()
    client.upload_image(b'\0' * 1024, name='small')
    return client


@pytest.fixture(scope='module')
def ec2(cloud, demo):
    return test_ec2.boto(cloud, test_ec2.keys_of(demo))


@pytest.fixture(scope='module')
def image(ec2):
    return ec2.describe_images(Filters=[{'Name': 'name', 'Values': ['small']}])['Images'][0]['ImageId']


@pytest.fixture(scope='module')
def zone(ec2):
    return ec2.describe_availability_zones()['AvailabilityZones'][0]['ZoneName']


@pytest.fixture(scope='module')
def subnet(ec2, demo):
    """A subnet of a VPC with a route to the internet."""
    vpc = ec2.create_vpc(CidrBlock='10.80.0.0/16')['Vpc']['VpcId']
    gateway = ec2.create_internet_gateway()['InternetGateway']['InternetGatewayId']
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    return ec2.create_subnet(VpcId=vpc, CidrBlock='10.80.1.0/24')['Subnet']


def run(ec2, image, subnet, **more):
    given = {'SubnetId': subnet['SubnetId']} if 'NetworkInterfaces' not in more else {}
    made = ec2.run_instances(ImageId=image, InstanceType='m1.tiny', MinCount=1, MaxCount=1, **given, **more)
    return running(ec2, made['Instances'][0]['InstanceId'])


def running(ec2, ident):
    ec2.get_waiter('instance_running').wait(InstanceIds=[ident], WaiterConfig={'Delay': 1})
    return shown(ec2, ident)


def addressed(ec2, ident):
    """A running instance, once it shows its public address: the server follows a moment after the port."""
    running(ec2, ident)
    return waiting.wait_for(lambda: (found := shown(ec2, ident)).get('PublicIpAddress') and found, 20, 'its address')


def shown(ec2, ident):
    return ec2.describe_instances(InstanceIds=[ident])['Reservations'][0]['Instances'][0]


@pytest.fixture(scope='module')
def instance(ec2, image, subnet):
    return run(ec2, image, subnet, ClientToken='daily')


def test_a_launch_template_has_a_network_interface(ec2, image, subnet):
    """They were refused."""
    group = ec2.create_security_group(GroupName='of-template', Description='x', VpcId=subnet['VpcId'])['GroupId']
    interface = {'DeviceIndex': 0, 'SubnetId': subnet['SubnetId'], 'Groups': [group], 'DeleteOnTermination': True,
                 'AssociatePublicIpAddress': True}
    data = {'ImageId': image, 'InstanceType': 'm1.tiny', 'NetworkInterfaces': [interface]}
    template = ec2.create_launch_template(LaunchTemplateName='interface', LaunchTemplateData=data)['LaunchTemplate']
    by_id = {'LaunchTemplateId': template['LaunchTemplateId']}
    version, = ec2.describe_launch_template_versions(**by_id)['LaunchTemplateVersions']
    assert version['LaunchTemplateData'] == data
    made = ec2.run_instances(MinCount=1, MaxCount=1, LaunchTemplate=by_id)['Instances'][0]['InstanceId']
    found = addressed(ec2, made)
    assert found['SubnetId'] == subnet['SubnetId'] and found['PublicIpAddress'].startswith('203.0.113.')
    assert [each['GroupId'] for each in found['SecurityGroups']] == [group]
    # as in EC2, which Terraform reads
    assert {('aws:ec2launchtemplate:id', by_id['LaunchTemplateId']), ('aws:ec2launchtemplate:version', '1')} <= pairs(
        found['Tags'])
    tag, = ec2.describe_tags(Filters=[{'Name': 'resource-id', 'Values': [made]},
                                      {'Name': 'key', 'Values': ['aws:ec2launchtemplate:version']}])['Tags']
    assert tag['Value'] == '1'
    ec2.delete_tags(Resources=[made])
    assert len(shown(ec2, made)['Tags']) == 2
    start = functools.partial(refused, ec2.run_instances, MinCount=1, MaxCount=1, LaunchTemplate=by_id)
    assert start(SubnetId=subnet['SubnetId']) == ('InvalidParameterCombination', 400)
    plain = [{'DeviceIndex': 0, 'SubnetId': subnet['SubnetId']}]
    assert start(NetworkInterfaces=plain, DryRun=True) == ('DryRunOperation', 412)
    ec2.terminate_instances(InstanceIds=[made])


@pytest.fixture
def volume(ec2, zone):
    made = ec2.create_volume(Size=1, AvailabilityZone=zone)['VolumeId']
    ec2.get_waiter('volume_available').wait(VolumeIds=[made], WaiterConfig={'Delay': 1})
    return made


def snapshot_of(ec2, volume):
    made = ec2.create_snapshot(VolumeId=volume)['SnapshotId']
    ec2.get_waiter('snapshot_completed').wait(SnapshotIds=[made], WaiterConfig={'Delay': 1})
    return made


def pairs(tags):
    return {(tag['Key'], tag['Value']) for tag in tags}


# ---- parameters that ask for nothing

LAUNCH = {
    'AdditionalInfo': '', 'CapacityReservationSpecification': {'CapacityReservationPreference': 'open'},
    'CreditSpecification': {'CpuCredits': 'standard'}, 'EbsOptimized': False, 'EnclaveOptions': {'Enabled': False},
    'HibernationOptions': {'Configured': False}, 'InstanceMarketOptions': {'MarketType': 'on-demand'},
    'MaintenanceOptions': {'AutoRecovery': 'default'}, 'Monitoring': {'Enabled': False},
    'Placement': {'Tenancy': 'default', 'GroupName': ''}, 'DisableApiTermination': False, 'DisableApiStop': False,
    'PrivateDnsNameOptions': {'HostnameType': 'ip-name', 'EnableResourceNameDnsARecord': False,
                              'EnableResourceNameDnsAAAARecord': False},
    'MetadataOptions': {'HttpEndpoint': 'enabled', 'HttpProtocolIpv6': 'disabled', 'InstanceMetadataTags': 'disabled',
                        'HttpTokens': 'optional'}}


def test_launch_parameters_at_their_defaults_are_accepted(ec2, image, subnet):
    found = run(ec2, image, subnet, **LAUNCH, Ipv6AddressCount=0, BlockDeviceMappings=[
        {'DeviceName': '/dev/vdb', 'Ebs': {'VolumeSize': 1, 'VolumeType': 'gp3', 'Encrypted': False, 'Iops': 3000,
                                           'Throughput': 125, 'DeleteOnTermination': True}}])
    assert found['State']['Name'] == 'running'
    made = run(ec2, image, subnet, NetworkInterfaces=[{
        'DeviceIndex': 0, 'SubnetId': subnet['SubnetId'], 'AssociatePublicIpAddress': False, 'Ipv6AddressCount': 0,
        'InterfaceType': 'interface', 'NetworkCardIndex': 0, 'DeleteOnTermination': True,
        'SecondaryPrivateIpAddressCount': 0}])
    assert made['SubnetId'] == subnet['SubnetId'] and 'PublicIpAddress' not in made


@pytest.mark.parametrize(('name', 'value', 'sentence'), [
    ('EbsOptimized', True, 'dedicated bandwidth'), ('EnclaveOptions', {'Enabled': True}, 'enclaves'),
    ('HibernationOptions', {'Configured': True}, 'Hibernation'), ('Monitoring', {'Enabled': True}, 'monitoring'),
    ('CapacityReservationSpecification', {'CapacityReservationPreference': 'capacity-reservations-only'}, 'capacity'),
    ('InstanceMarketOptions', {'MarketType': 'spot'}, 'spot'), ('CpuOptions', {'CoreCount': 2}, 'flavor'),
    ('PrivateDnsNameOptions', {'HostnameType': 'resource-name'}, 'PrivateDnsNameOptions.HostnameType'),
    ('IamInstanceProfile', {'Name': 'x'}, 'profiles'), ('Ipv6AddressCount', 1, 'Ipv6AddressCount'),
    ('Placement', {'Tenancy': 'dedicated'}, 'Placement.Tenancy'),
    ('BlockDeviceMappings', [{'DeviceName': '/dev/vdb', 'Ebs': {'VolumeSize': 1, 'Encrypted': True}}], 'volume type'),
    ('BlockDeviceMappings', [{'DeviceName': '/dev/vdb', 'Ebs': {'VolumeSize': 1, 'Iops': 9000}}], 'performance')])
def test_a_launch_parameter_that_asks_for_an_absent_feature_is_refused(ec2, image, subnet, name, value, sentence):
    with pytest.raises(ec2.exceptions.ClientError) as error:
        run(ec2, image, subnet, **{name: value})
    assert error.value.response['Error']['Code'] == 'UnsupportedOperation'
    assert sentence in error.value.response['Error']['Message']


def test_default_values_of_parameters_are_accepted(ec2, zone, subnet, volume):
    vpc = ec2.create_vpc(CidrBlock='10.81.0.0/16', AmazonProvidedIpv6CidrBlock=False, InstanceTenancy='default')['Vpc']
    ec2.create_subnet(VpcId=vpc['VpcId'], CidrBlock='10.81.1.0/24', AvailabilityZone=zone, Ipv6Native=False)
    ec2.create_security_group(GroupName='defaults', Description='x', VpcId=vpc['VpcId'])
    ec2.create_volume(Size=1, AvailabilityZone=zone, Encrypted=False, MultiAttachEnabled=False, VolumeType='gp3',
                      Iops=3000, Throughput=125)
    ec2.create_snapshot(VolumeId=volume, Location='regional')
    ec2.create_placement_group(GroupName='defaults', Strategy='spread', SpreadLevel='host', PartitionCount=0)
    ec2.create_network_interface(SubnetId=subnet['SubnetId'], InterfaceType='interface', Ipv6AddressCount=0,
                                 SecondaryPrivateIpAddressCount=0)
    address = ec2.allocate_address(Domain='vpc', NetworkBorderGroup='RegionOne', PublicIpv4Pool='amazon')
    ec2.release_address(AllocationId=address['AllocationId'], NetworkBorderGroup='RegionOne')
    ec2.describe_instances(IncludeManagedResources=True)
    for refusal in (refused(ec2.create_vpc, CidrBlock='10.82.0.0/16', AmazonProvidedIpv6CidrBlock=True),
                    refused(ec2.create_subnet, VpcId=vpc['VpcId'], CidrBlock='10.81.2.0/24', Ipv6Native=True),
                    refused(ec2.create_volume, Size=1, AvailabilityZone=zone, Encrypted=True),
                    refused(ec2.create_volume, Size=1, AvailabilityZone=zone, Iops=5000)):
        assert refusal == UNSUPPORTED


def test_a_launch_template_keeps_parameters_at_their_defaults(ec2, image, subnet):
    data = {**LAUNCH, 'ImageId': image, 'InstanceType': 'm1.tiny'}
    del data['AdditionalInfo']
    made = ec2.create_launch_template(LaunchTemplateName='defaults', LaunchTemplateData=data)['LaunchTemplate']
    version, = ec2.describe_launch_template_versions(
        LaunchTemplateId=made['LaunchTemplateId'])['LaunchTemplateVersions']
    assert version['LaunchTemplateData'] == data
    started = ec2.run_instances(LaunchTemplate={'LaunchTemplateName': 'defaults'}, SubnetId=subnet['SubnetId'],
                                MinCount=1, MaxCount=1)['Instances'][0]
    assert running(ec2, started['InstanceId'])['ImageId'] == image
    assert refused(ec2.create_launch_template, LaunchTemplateName='more', LaunchTemplateData={
        'EbsOptimized': True}) == UNSUPPORTED


# ---- absent features, and filters

def test_describe_of_absent_features_returns_empty_lists(ec2):
    model = protocol.service()
    for name in sorted(absent.OPERATIONS):
        shape = model.operation_model(name)
        if shape.input_shape and shape.input_shape.required_members:
            continue
        found = getattr(ec2, xform_name(name))()
        lists = [key for key, member in shape.output_shape.members.items() if member.type_name == 'list']
        assert lists and all(found[key] == [] for key in lists), name
    assert refused(ec2.describe_nat_gateways, NatGatewayIds=['nat-1']) == ('NatGatewayNotFound', 400)
    assert refused(ec2.describe_network_acls, NetworkAclIds=['acl-1']) == ('InvalidNetworkAclID.NotFound', 400)
    assert ec2.describe_spot_instance_requests(Filters=[{'Name': 'state', 'Values': ['open']}])[
        'SpotInstanceRequests'] == []


VALUES = ('tag', 'informational', 'low', 'medium', 'high', 'critical')         # listed below filters


def documented_filters(operation):
    """Return the names of filters in the documentation of an operation in botocore's model."""
    described = loaders.Loader().load_service_model('ec2', 'service-2', protocol.VERSION)
    member = described['shapes'][described['operations'][operation]['input']['shape']]['members']['Filters']
    return [name for name in re.findall(r'<li>\s*<p>\s*<code>([^<]+)</code>(?:\s*-|\s*:|\s*–)', member['documentation'])
            if '<' not in name and name not in VALUES]


@pytest.mark.parametrize('operation', sorted(
    name for name, row in table.OPERATIONS.items() if 'Filters' in row.takes))
def test_documented_filters_are_valid_and_others_are_refused(ec2, operation, instance):
    call = getattr(ec2, xform_name(operation))
    if operation == 'DescribeLaunchTemplateVersions':
        call = functools.partial(call, Versions=['$Latest'])
    for name in documented_filters(operation):
        call(Filters=[{'Name': name, 'Values': ['nothing-has-this-value']}])
    assert refused(call, Filters=[{'Name': 'no-such-filter', 'Values': ['x']}]) == INVALID


@pytest.mark.parametrize(('name', 'value'), [
    ('architecture', 'x86_64'), ('source-dest-check', 'true'), ('hypervisor', 'xen'), ('tenancy', 'default'),
    ('client-token', 'daily'), ('metadata-options.http-tokens', 'optional'), ('monitoring-state', 'disabled'),
    ('network-interface.addresses.private-ip-address', '10.80.1.*'), ('virtualization-type', 'hvm'),
    ('network-interface.status', 'in-use'), ('ebs-optimized', 'false')])
def test_an_instance_is_found_by_its_attributes(ec2, instance, name, value):
    found = ec2.describe_instances(InstanceIds=[instance['InstanceId']], Filters=[{'Name': name, 'Values': [value]}])
    assert [row['InstanceId'] for each in found['Reservations'] for row in each['Instances']] == [
        instance['InstanceId']]
    assert ec2.describe_instances(InstanceIds=[instance['InstanceId']], Filters=[
        {'Name': name, 'Values': ['other']}])['Reservations'] == []


# ---- what responses have

def test_an_instance_has_the_attributes_that_terraform_reads(instance, image, subnet):
    assert instance['SourceDestCheck'] is True and instance['EbsOptimized'] is False
    assert instance['Architecture'] == 'x86_64' and instance['Hypervisor'] == 'xen'
    assert instance['RootDeviceName'] == '/dev/vda' and instance['RootDeviceType'] == 'instance-store'
    assert instance['ClientToken'] == 'daily' and instance['Placement']['Tenancy'] == 'default'
    assert instance['MetadataOptions'] == {
        'State': 'applied', 'HttpTokens': 'optional', 'HttpEndpoint': 'enabled', 'HttpPutResponseHopLimit': 64,
        'HttpProtocolIpv6': 'disabled', 'InstanceMetadataTags': 'disabled'}
    assert instance['CpuOptions'] == {'CoreCount': 1, 'ThreadsPerCore': 1} and instance['ImageId'] == image
    assert instance['EnclaveOptions'] == {'Enabled': False} == {'Enabled': instance['HibernationOptions']['Configured']}
    assert instance['CapacityReservationSpecification'] == {'CapacityReservationPreference': 'open'}
    assert instance['PrivateDnsNameOptions']['HostnameType'] == 'ip-name' and instance['ProductCodes'] == []
    interface, = instance['NetworkInterfaces']
    assert interface['SourceDestCheck'] is True and interface['InterfaceType'] == 'interface'
    assert interface['PrivateIpAddresses'] == [{'PrivateIpAddress': instance['PrivateIpAddress'], 'Primary': True}]
    assert interface['SubnetId'] == subnet['SubnetId'] and interface['Attachment']['NetworkCardIndex'] == 0


def test_subnets_and_vpcs_have_the_attributes_that_terraform_reads(ec2, subnet, zone, instance):
    found, = ec2.describe_subnets(SubnetIds=[subnet['SubnetId']])['Subnets']
    assert found['AvailabilityZone'] == found['AvailabilityZoneId'] == zone
    assert found['MapPublicIpOnLaunch'] is found['AssignIpv6AddressOnCreation'] is found['DefaultForAz'] is False
    assert found['Ipv6CidrBlockAssociationSet'] == [] and found['Ipv6Native'] is False and not found['EnableDns64']
    assert found['SubnetArn'].endswith('subnet/' + subnet['SubnetId'])
    assert found['PrivateDnsNameOptionsOnLaunch']['HostnameType'] == 'ip-name'
    assert 200 < found['AvailableIpAddressCount'] < subnet['AvailableIpAddressCount']
    vpc, = ec2.describe_vpcs(VpcIds=[subnet['VpcId']])['Vpcs']
    association, = vpc['CidrBlockAssociationSet']
    assert association['CidrBlock'] == '10.80.0.0/16' and association['CidrBlockState'] == {'State': 'associated'}
    assert vpc['Ipv6CidrBlockAssociationSet'] == [] and vpc['InstanceTenancy'] == 'default'


def test_a_placement_group_is_shown_with_its_instances(ec2, image, subnet):
    ec2.create_placement_group(GroupName='apart', Strategy='spread')
    found = run(ec2, image, subnet, Placement={'GroupName': 'apart'})
    assert found['Placement']['GroupName'] == 'apart'


def test_vpc_attributes_are_shown_and_changed(ec2, subnet):
    vpc = subnet['VpcId']
    for attribute, name, value in (('enableDnsSupport', 'EnableDnsSupport', True),
                                   ('enableDnsHostnames', 'EnableDnsHostnames', False),
                                   ('enableNetworkAddressUsageMetrics', 'EnableNetworkAddressUsageMetrics', False)):
        assert ec2.describe_vpc_attribute(VpcId=vpc, Attribute=attribute)[name] == {'Value': value}
        ec2.modify_vpc_attribute(VpcId=vpc, **{name: {'Value': value}})
        assert refused(ec2.modify_vpc_attribute, VpcId=vpc, **{name: {'Value': not value}}) == UNSUPPORTED
    assert refused(ec2.modify_vpc_attribute, VpcId='vpc-00000000000000000', EnableDnsSupport={
        'Value': True})[0] == 'InvalidVpcID.NotFound'


def test_subnet_attributes_are_shown_and_changed(ec2, subnet):
    ident = subnet['SubnetId']
    ec2.modify_subnet_attribute(SubnetId=ident, AssignIpv6AddressOnCreation={'Value': False})
    ec2.modify_subnet_attribute(SubnetId=ident, MapPublicIpOnLaunch={'Value': True})
    assert ec2.describe_subnets(SubnetIds=[ident])['Subnets'][0]['MapPublicIpOnLaunch'] is True
    ec2.modify_subnet_attribute(SubnetId=ident, MapPublicIpOnLaunch={'Value': False})
    assert ec2.describe_subnets(SubnetIds=[ident])['Subnets'][0]['MapPublicIpOnLaunch'] is False
    assert refused(ec2.modify_subnet_attribute, SubnetId=ident, EnableDns64={'Value': True}) == UNSUPPORTED


def test_a_subnet_places_instances_in_its_zone(ec2, image, subnet, zone):
    made = ec2.create_subnet(VpcId=subnet['VpcId'], CidrBlock='10.80.9.0/24', AvailabilityZone=zone)['Subnet']
    assert made['AvailabilityZone'] == zone
    assert refused(ec2.create_subnet, VpcId=subnet['VpcId'], CidrBlock='10.80.8.0/24',
                   AvailabilityZone='elsewhere') == INVALID
    assert run(ec2, image, made)['Placement']['AvailabilityZone'] == zone
    assert refused(ec2.run_instances, ImageId=image, InstanceType='m1.tiny', MinCount=1, MaxCount=1,
                   SubnetId=made['SubnetId'], Placement={'AvailabilityZone': 'elsewhere'}) == INVALID


# ---- tags

def test_tags_may_have_any_characters(ec2, image, subnet, demo, zone, volume):
    found = run(ec2, image, subnet, TagSpecifications=[{'ResourceType': 'instance', 'Tags': TAGS}])
    assert pairs(found['Tags']) == pairs(TAGS)
    made = ec2.create_volume(Size=1, AvailabilityZone=zone, TagSpecifications=[
        {'ResourceType': 'volume', 'Tags': TAGS}])
    assert pairs(made['Tags']) == pairs(TAGS)
    snapshot = ec2.create_snapshot(VolumeId=volume, TagSpecifications=[{'ResourceType': 'snapshot', 'Tags': TAGS}])
    assert pairs(snapshot['Tags']) == pairs(TAGS)
    for ident in (found['InstanceId'], made['VolumeId'], snapshot['SnapshotId'], subnet['SubnetId'], image):
        ec2.create_tags(Resources=[ident], Tags=[*TAGS, {'Key': 'a/b', 'Value': ''}])
        listed = ec2.describe_tags(Filters=[{'Name': 'resource-id', 'Values': [ident]}])['Tags']
        assert pairs(listed) == pairs(TAGS) | {('a/b', '')}
        ec2.delete_tags(Resources=[ident], Tags=[{'Key': 'a/b'}, {'Key': 'plain', 'Value': 'other'}])
        assert pairs(ec2.describe_tags(Filters=[{'Name': 'resource-id', 'Values': [ident]}])['Tags']) == pairs(TAGS)
    assert [row['InstanceId'] for each in ec2.describe_instances(Filters=[
        {'Name': 'tag:kubernetes.io/cluster/x', 'Values': ['owned=1']}])['Reservations'] for row in each['Instances']
            ] == [found['InstanceId']]
    ec2.delete_tags(Resources=[found['InstanceId']])
    assert shown(ec2, found['InstanceId'])['Tags'] == []
    assert shown(ec2, found['InstanceId'])['ImageId'] == image


def test_run_instances_tags_its_volumes(ec2, image, subnet):
    found = run(ec2, image, subnet, BlockDeviceMappings=[{'DeviceName': '/dev/vda', 'Ebs': {'VolumeSize': 1}}],
                TagSpecifications=[{'ResourceType': 'volume', 'Tags': TAGS},
                                   {'ResourceType': 'instance', 'Tags': [{'Key': 'a', 'Value': 'b'}]}])
    volume, = ec2.describe_volumes(VolumeIds=[found['BlockDeviceMappings'][0]['Ebs']['VolumeId']])['Volumes']
    assert pairs(volume['Tags']) == pairs(TAGS) and pairs(found['Tags']) == {('a', 'b')}


# ---- root devices and volumes

@pytest.mark.parametrize('root', ['/dev/sda1', '/dev/xvda', '/dev/vda'])
def test_a_mapping_resizes_the_root_device_of_an_image_of_a_snapshot(ec2, volume, subnet, root):
    """Registered with /dev/sda1, an image was shown with /dev/vda, and neither name was accepted in a mapping."""
    snapshot = snapshot_of(ec2, volume)
    image = ec2.register_image(Name='image-' + root[5:], RootDeviceName=root, EnaSupport=True, SriovNetSupport='simple',
                               Architecture='x86_64', VirtualizationType='hvm', BlockDeviceMappings=[
        {'DeviceName': root, 'Ebs': {'SnapshotId': snapshot, 'VolumeType': 'gp3'}}])['ImageId']
    found, = ec2.describe_images(ImageIds=[image])['Images']
    assert found['RootDeviceName'] == root and found['RootDeviceType'] == 'ebs'
    assert found['EnaSupport'] is True and found['SriovNetSupport'] == 'simple' and found['Hypervisor'] == 'xen'
    assert found['BlockDeviceMappings'][0]['Ebs'] == {
        'SnapshotId': snapshot, 'VolumeSize': 1, 'VolumeType': 'gp3', 'Encrypted': False, 'DeleteOnTermination': True}
    made = run(ec2, image, subnet, BlockDeviceMappings=[
        {'DeviceName': root, 'Ebs': {'VolumeSize': 2, 'VolumeType': 'gp2', 'DeleteOnTermination': True}}])
    assert made['RootDeviceName'] == root and made['RootDeviceType'] == 'ebs' and made['ImageId'] == image
    device, = made['BlockDeviceMappings']
    assert device['DeviceName'] == root and device['Ebs']['DeleteOnTermination'] is True
    volume, = ec2.describe_volumes(VolumeIds=[device['Ebs']['VolumeId']])['Volumes']
    assert volume['Size'] == 2 and volume['SnapshotId'] == snapshot and volume['VolumeType'] == 'gp2'
    plain = run(ec2, image, subnet)
    assert plain['RootDeviceName'] == root and plain['RootDeviceType'] == 'ebs' and plain['ImageId'] == image


def test_an_image_of_a_volume_backed_instance_takes_a_larger_root_device(ec2, image, subnet):
    assert ec2.describe_images(ImageIds=[image])['Images'][0]['RootDeviceType'] == 'ebs'       # as any but a bundle
    first = run(ec2, image, subnet, BlockDeviceMappings=[{'DeviceName': '/dev/vda', 'Ebs': {'VolumeSize': 1}}])
    assert first['RootDeviceType'] == 'ebs'
    made = ec2.create_image(InstanceId=first['InstanceId'], Name='of-instance')['ImageId']
    ec2.get_waiter('image_available').wait(ImageIds=[made], WaiterConfig={'Delay': 1})
    found, = ec2.describe_images(ImageIds=[made])['Images']
    assert found['RootDeviceType'] == 'ebs'
    ec2.get_waiter('snapshot_completed').wait(
        SnapshotIds=[found['BlockDeviceMappings'][0]['Ebs']['SnapshotId']], WaiterConfig={'Delay': 1})
    second = run(ec2, made, subnet, BlockDeviceMappings=[
        {'DeviceName': found['RootDeviceName'], 'Ebs': {'VolumeSize': 2}}])
    volume, = ec2.describe_volumes(VolumeIds=[second['BlockDeviceMappings'][0]['Ebs']['VolumeId']])['Volumes']
    assert volume['Size'] == 2 and second['RootDeviceType'] == 'ebs' and second['ImageId'] == made


def test_gp2_and_gp3_are_names_of_the_default_type(ec2, zone, demo):
    made = ec2.create_volume(Size=1, AvailabilityZone=zone, VolumeType='gp3')
    assert made['VolumeType'] == 'gp3' and made['Iops'] == 3000 and made['Throughput'] == 125
    ec2.get_waiter('volume_available').wait(VolumeIds=[made['VolumeId']], WaiterConfig={'Delay': 1})
    changed = ec2.modify_volume(VolumeId=made['VolumeId'], VolumeType='gp2', Size=2)['VolumeModification']
    assert (changed['OriginalVolumeType'], changed['TargetVolumeType'], changed['TargetSize']) == ('gp3', 'gp2', 2)
    found, = ec2.describe_volumes(VolumeIds=[made['VolumeId']])['Volumes']
    assert found['VolumeType'] == 'gp2' and found['Tags'] == []
    types = {row['volume_type'] for row in demo.get('/volume/v3/volumes/detail').json()['volumes']}
    assert types == {demo.get('/volume/v3/types/default').json()['volume_type']['name']}
    assert refused(ec2.create_volume, Size=1, AvailabilityZone=zone, VolumeType='io2')[0] == 'InvalidParameterValue'


def test_shared_volume_is_shown_with_the_device_of_each_instance(ec2, image, subnet, instance, volume, demo):
    """All its instances had the device and the time of the last attachment."""
    made = demo.post('/volume/v3/volumes', {'volume': {'size': 1, 'name': 'shared', 'multiattach': True}})
    waiting.wait_for(lambda: demo.get(f'/volume/v3/volumes/{made.json()["volume"]["id"]}').json()['volume'][
        'status'] == 'available')
    shared, = ec2.describe_volumes(Filters=[{'Name': 'multi-attach-enabled', 'Values': ['true']}])['Volumes']
    other = run(ec2, image, subnet)['InstanceId']
    expected = {}
    for ident, volumes in ((other, [volume, shared['VolumeId']]), (instance['InstanceId'], [shared['VolumeId']])):
        for each in volumes:
            ec2.attach_volume(VolumeId=each, InstanceId=ident, Device='/dev/vdb' if each == volumes[0] else '/dev/vdc')
            waiting.wait_for(lambda ident=ident, each=each: each in devices_of(ec2, ident))
        expected[ident] = '/dev/vdb' if len(volumes) == 1 else '/dev/vdc'
    for ident, device in expected.items():
        assert devices_of(ec2, ident)[shared['VolumeId']] == device
    ec2.terminate_instances(InstanceIds=[other])
    ec2.detach_volume(VolumeId=shared['VolumeId'], InstanceId=instance['InstanceId'])


def devices_of(ec2, ident):
    """{volume: device} of an instance."""
    return {row['Ebs']['VolumeId']: row['DeviceName'] for row in shown(ec2, ident)['BlockDeviceMappings']}


@pytest.mark.skipif(shutil.which('qemu-img') is None, reason='encrypted volumes need qemu-img')
def test_snapshots_of_encrypted_volumes_are_encrypted(cloud, ec2, zone, volume, monkeypatch):
    admin = cloud.admin()
    kind = admin.post('/volume/v3/types', {'volume_type': {'name': 'sealed'}}).json()['volume_type']['id']
    admin.post(f'/volume/v3/types/{kind}/encryption', {'encryption': {'provider': 'luks'}})
    sealed = ec2.create_volume(Size=1, AvailabilityZone=zone, VolumeType='sealed')['VolumeId']
    ec2.get_waiter('volume_available').wait(VolumeIds=[sealed], WaiterConfig={'Delay': 1})
    made, plain = ec2.create_snapshot(VolumeId=sealed), ec2.create_snapshot(VolumeId=volume)
    assert (made['Encrypted'], plain['Encrypted']) == (True, False)
    ec2.get_waiter('snapshot_completed').wait(SnapshotIds=[made['SnapshotId'], plain['SnapshotId']],
                                              WaiterConfig={'Delay': 1})
    ec2.delete_volume(VolumeId=sealed)                       # hidden until its snapshot is deleted
    for single_reads in (8, 0):                              # with 0, the list of volumes is read
        monkeypatch.setattr(operations, 'MAX_SINGLE_READS', single_reads)
        found = ec2.describe_snapshots(SnapshotIds=[made['SnapshotId'], plain['SnapshotId']])['Snapshots']
        assert {row['SnapshotId']: row['Encrypted'] for row in found} == {
            made['SnapshotId']: True, plain['SnapshotId']: False}
    assert [row['SnapshotId'] for row in ec2.describe_snapshots(Filters=[
        {'Name': 'encrypted', 'Values': ['true']}])['Snapshots']] == [made['SnapshotId']]
    for each in (made, plain):
        ec2.delete_snapshot(SnapshotId=each['SnapshotId'])
    ec2.delete_volume(VolumeId=volume)


def test_snapshots_outlive_their_volume(ec2, zone, volume, demo):
    snapshots = [snapshot_of(ec2, volume) for _each in range(2)]
    name = next(row['id'] for row in demo.get('/volume/v3/snapshots').json()['snapshots'])
    uuid = demo.get(f'/volume/v3/snapshots/{name}').json()['snapshot']['volume_id']
    assert demo.delete(f'/volume/v3/volumes/{uuid}').status_code == 400         # the rule of the Block Storage API
    tag = {'Resources': [volume], 'Tags': [{'Key': 'a', 'Value': 'b'}, {'Key': 'a/b', 'Value': 'of the EC2 API'}]}
    ec2.create_tags(**tag)
    ec2.delete_volume(VolumeId=volume)
    assert ec2.describe_tags(Filters=[{'Name': 'resource-id', 'Values': [volume]}])['Tags'] == []
    for call in (ec2.create_tags, ec2.delete_tags):
        assert refused(call, **tag)[0] == 'InvalidVolume.NotFound'
    assert refused(ec2.describe_volumes, VolumeIds=[volume])[0] == 'InvalidVolume.NotFound'
    assert refused(ec2.delete_volume, VolumeId=volume)[0] == 'InvalidVolume.NotFound'
    assert volume not in [row['VolumeId'] for row in ec2.describe_volumes()['Volumes']]
    assert {row['VolumeId'] for row in ec2.describe_snapshots(SnapshotIds=snapshots)['Snapshots']} == {volume}
    copy = ec2.create_volume(SnapshotId=snapshots[0], AvailabilityZone=zone)
    ec2.get_waiter('volume_available').wait(VolumeIds=[copy['VolumeId']], WaiterConfig={'Delay': 1})
    ec2.delete_snapshot(SnapshotId=snapshots[0])
    assert demo.get(f'/volume/v3/volumes/{uuid}').status_code == 200
    ec2.delete_snapshot(SnapshotId=snapshots[1])
    assert demo.get(f'/volume/v3/volumes/{uuid}').status_code == 404 or demo.get(
        f'/volume/v3/volumes/{uuid}').json()['volume']['status'] == 'deleting'


def test_a_hidden_volume_goes_after_a_snapshot_that_another_client_deleted(ec2, volume, demo):
    """It stayed for ever, and counted against the quota."""
    snapshot = snapshot_of(ec2, volume)
    of_it = [row for row in demo.get('/volume/v3/snapshots/detail').json()['snapshots']
             if row['id'].replace('-', '').startswith(snapshot.removeprefix('snap-'))][0]
    ec2.delete_volume(VolumeId=volume)
    demo.delete(f'/volume/v3/snapshots/{of_it["id"]}')
    path = f'/volume/v3/volumes/{of_it["volume_id"]}'
    waiting.wait_for(lambda: demo.get(f'/volume/v3/snapshots/{of_it["id"]}').status_code == 404, 30, 'the deletion')
    assert demo.get(path).status_code == 200
    assert volume not in [row['VolumeId'] for row in ec2.describe_volumes()['Volumes']]
    waiting.wait_for(lambda: demo.get(path).status_code == 404, 30, 'the deletion of the volume')


def test_a_hidden_volume_is_deleted_when_a_creation_reaches_the_quota(ec2, volume, demo, cloud):
    snapshot = snapshot_of(ec2, volume)
    of_it = [row for row in demo.get('/volume/v3/snapshots/detail').json()['snapshots']
             if row['id'].replace('-', '').startswith(snapshot.removeprefix('snap-'))][0]
    ec2.delete_volume(VolumeId=volume)
    demo.delete(f'/volume/v3/snapshots/{of_it["id"]}')
    waiting.wait_for(lambda: demo.get(f'/volume/v3/snapshots/{of_it["id"]}').status_code == 404, 30, 'the deletion')
    quotas = f'/volume/v3/os-quota-sets/{demo.project_id}'
    used = len(demo.get('/volume/v3/volumes').json()['volumes'])
    admin = cloud.admin()
    assert admin.put(quotas, {'quota_set': {'volumes': used}}).status_code == 200
    try:
        made = ec2.create_volume(Size=1, AvailabilityZone='nova')['VolumeId']
        assert demo.get(f'/volume/v3/volumes/{of_it["volume_id"]}').status_code == 404
        assert refused(ec2.create_volume, Size=1, AvailabilityZone='nova')[0] == 'VolumeLimitExceeded'
        ec2.delete_volume(VolumeId=made)
    finally:
        admin.delete(quotas)


def test_a_root_volume_of_an_image_goes_with_its_instance(ec2, image, subnet, demo):
    """CreateImage makes a snapshot, because of which the volume stayed after the termination."""
    found = run(ec2, image, subnet, BlockDeviceMappings=[{'DeviceName': '/dev/vda', 'Ebs': {'VolumeSize': 1}}])
    volume = found['BlockDeviceMappings'][0]['Ebs']['VolumeId']
    made = ec2.create_image(InstanceId=found['InstanceId'], Name='of-root')['ImageId']
    ec2.get_waiter('image_available').wait(ImageIds=[made], WaiterConfig={'Delay': 1})
    device, = ec2.describe_images(ImageIds=[made])['Images'][0]['BlockDeviceMappings']
    ec2.get_waiter('snapshot_completed').wait(SnapshotIds=[device['Ebs']['SnapshotId']], WaiterConfig={'Delay': 1})
    ec2.terminate_instances(InstanceIds=[found['InstanceId']])
    ec2.get_waiter('instance_terminated').wait(InstanceIds=[found['InstanceId']], WaiterConfig={'Delay': 1})
    assert refused(ec2.describe_volumes, VolumeIds=[volume])[0] == 'InvalidVolume.NotFound'
    ec2.deregister_image(ImageId=made)
    ec2.delete_snapshot(SnapshotId=device['Ebs']['SnapshotId'])
    left = [row for row in demo.get('/volume/v3/volumes/detail').json()['volumes'] if row['metadata'].get(
        'ec2:delete-with-snapshots') and row['status'] != 'deleting']
    assert left == []


# ---- public addresses

def test_an_instance_gets_and_releases_a_public_address(ec2, image, subnet, demo):
    found = addressed(ec2, launched(ec2, image, subnet)['InstanceId'])
    assert found['PublicIpAddress'].startswith('203.0.113.')
    interface, = found['NetworkInterfaces']
    assert interface['Association']['PublicIp'] == found['PublicIpAddress']
    assert found['PublicIpAddress'] not in [row['PublicIp'] for row in ec2.describe_addresses()['Addresses']]
    ec2.terminate_instances(InstanceIds=[found['InstanceId']])
    held = [row['floating_ip_address'] for row in demo.get('/network/v2.0/floatingips').json()['floatingips']]
    assert found['PublicIpAddress'] not in held


def test_a_subnet_gives_its_instances_public_addresses(ec2, image, subnet):
    made = ec2.create_subnet(VpcId=subnet['VpcId'], CidrBlock='10.80.7.0/24')['Subnet']
    ec2.modify_subnet_attribute(SubnetId=made['SubnetId'], MapPublicIpOnLaunch={'Value': True})
    assert addressed(ec2, run(ec2, image, made)['InstanceId'])
    assert 'PublicIpAddress' not in run(ec2, image, made, NetworkInterfaces=[
        {'DeviceIndex': 0, 'SubnetId': made['SubnetId'], 'AssociatePublicIpAddress': False}])


PUBLIC_INTERFACE = {'DeviceIndex': 0, 'AssociatePublicIpAddress': True}


def launched(ec2, image, subnet, **more):
    return ec2.run_instances(ImageId=image, InstanceType='m1.tiny', MinCount=1, MaxCount=1, NetworkInterfaces=[
        {**PUBLIC_INTERFACE, 'SubnetId': subnet['SubnetId']}], **more)['Instances'][0]


def assigned(demo):
    return [row['floating_ip_address'] for row in demo.get('/network/v2.0/floatingips').json()['floatingips']]


def test_a_refused_termination_leaves_the_public_address(ec2, image, subnet, demo, cloud):
    found = addressed(ec2, launched(ec2, image, subnet)['InstanceId'])
    server = next(row for row in demo.get('/servers/detail').json()['servers']
                  if found['PublicIpAddress'] in str(row['addresses']))['id']
    cloud.admin().post(f'/servers/{server}/action', {'lock': None})
    assert refused(ec2.terminate_instances, InstanceIds=[found['InstanceId']])[1] < 500
    assert found['PublicIpAddress'] in assigned(demo)
    cloud.admin().post(f'/servers/{server}/action', {'unlock': None})
    ec2.terminate_instances(InstanceIds=[found['InstanceId']])
    assert found['PublicIpAddress'] not in assigned(demo)


def test_a_launch_with_a_public_address_without_room_shows_a_failed_instance(ec2, image, subnet, cloud, demo):
    admin, before = cloud.admin('2.95'), assigned(demo)
    services = [row['id'] for row in admin.get('/os-services?binary=nova-compute').json()['services']]
    for ident in services:
        assert admin.put(f'/os-services/{ident}', {'status': 'disabled'}).status_code == 200
    try:
        made = launched(ec2, image, subnet, ClientToken='no-room')
        assert launched(ec2, image, subnet, ClientToken='no-room')['InstanceId'] == made['InstanceId']
    finally:
        for ident in services:
            admin.put(f'/os-services/{ident}', {'status': 'enabled'})
    ec2.terminate_instances(InstanceIds=[made['InstanceId']])
    assert assigned(demo) == before


def test_a_launch_with_a_public_address_does_not_wait_for_the_build(ec2, image, subnet, cloud):
    drivers = {id(part.manager.driver): part.manager.driver for part in cloud.services if part.binary == 'nova-compute'}
    with holding.held('spawn', *(driver.machine for driver in drivers.values())):
        made = launched(ec2, image, subnet)
        assert made['State']['Name'] == 'pending'
    addressed(ec2, made['InstanceId'])


def test_a_public_address_stays_when_another_host_builds_the_instance(ec2, image, subnet, cloud, demo):
    """The first host released the port, and the address stayed without an instance."""
    machines = {part.host: part.manager.driver.machine for part in cloud.services if part.binary == 'nova-compute'}
    before = assigned(demo)
    with holding.held('spawn', *machines.values()) as (_begun, goes_on), pytest.MonkeyPatch.context() as patch:
        for each in machines.values():
            patch.setitem(each.failures, 'spawn', exception.VirtError(operation='spawn', reason='x'))
        made = launched(ec2, image, subnet)['InstanceId']              # returns when the address is assigned
        address, = set(assigned(demo)) - set(before)
        port = next(row['port_id'] for row in demo.get('/network/v2.0/floatingips').json()['floatingips']
                    if row['floating_ip_address'] == address)
        server = '/servers/' + demo.get(f'/network/v2.0/ports/{port}').json()['port']['device_id']
        first = cloud.admin().get(server).json()['server']['OS-EXT-SRV-ATTR:host']
        for host in machines.keys() - {first}:
            patch.delitem(machines[host].failures, 'spawn')
        goes_on.set()
        found = addressed(ec2, made)
    assert cloud.admin().get(server).json()['server']['OS-EXT-SRV-ATTR:host'] not in (None, first)
    assert cloud.admin().get(f'/network/v2.0/ports/{port}').json()['port']['binding:host_id'] not in ('', first)
    assert found['PublicIpAddress'] == address
    ec2.terminate_instances(InstanceIds=[made])
    assert assigned(demo) == before


@pytest.mark.parametrize('count', [1, 2])
def test_a_launch_that_the_end_of_a_process_interrupted_assigns_its_public_addresses(
        cloud, ec2, image, subnet, demo, monkeypatch, count):
    def ended(*_given):
        raise RuntimeError('the process has ended')
    before, token = assigned(demo), f'interrupted-{count}'

    def launch():
        return ec2.run_instances(ImageId=image, InstanceType='m1.tiny', MinCount=count, MaxCount=count,
                                 NetworkInterfaces=[{**PUBLIC_INTERFACE, 'SubnetId': subnet['SubnetId']}],
                                 ClientToken=token)['Instances']
    with monkeypatch.context() as patched:
        patched.setattr(idempotency, '_keep', ended)               # the servers are stored
        assert refused(launch) == ('InternalError', 500)
    with cloud.api_db.writer() as conn:
        for keys in (tables.ec2_client_tokens, tables_api.idempotency_keys):
            conn.execute(sa.update(keys).values(attempted_at=utils.utcnow() - datetime.timedelta(
                seconds=attempts.ABANDONED_S + 1)))
    found = [addressed(ec2, made['InstanceId']) for made in launch()]
    assert {row['PublicIpAddress'] for row in found} == set(assigned(demo)) - set(before) and len(found) == count
    ec2.terminate_instances(InstanceIds=[row['InstanceId'] for row in found])


def test_an_associated_address_replaces_the_assigned_one(ec2, image, subnet, demo, monkeypatch):
    found = addressed(ec2, launched(ec2, image, subnet)['InstanceId'])
    eni = found['NetworkInterfaces'][0]['NetworkInterfaceId']

    def association():
        return ec2.describe_network_interfaces(NetworkInterfaceIds=[eni])['NetworkInterfaces'][0]['Association']
    assert association()['PublicIp'] == found['PublicIpAddress'] and 'AllocationId' not in association()
    made = ec2.allocate_address(Domain='vpc')
    refusal = refused(ec2.associate_address, AllocationId=made['AllocationId'], InstanceId=found['InstanceId'],
                      PrivateIpAddress='10.255.255.1')
    assert refusal == INVALID and association()['PublicIp'] == found['PublicIpAddress']       # nothing has changed
    ec2.associate_address(AllocationId=made['AllocationId'], InstanceId=found['InstanceId'])
    assert (association()['PublicIp'], association()['AllocationId']) == (made['PublicIp'], made['AllocationId'])
    assert found['PublicIpAddress'] not in assigned(demo)
    row, = demo.get(f'/network/v2.0/floatingips?floating_ip_address={made["PublicIp"]}').json()['floatingips']
    ec2.disassociate_address(PublicIp=made['PublicIp'])
    demo.post('/network/v2.0/floatingips', {'floatingip': {
        'floating_network_id': row['floating_network_id'], 'port_id': row['port_id'],
        'description': public_addresses.DESCRIPTION}})
    real = public_addresses.assigned

    def then_released(req, ports):
        rows = real(req, ports)
        public_addresses.release(req, rows)
        assert len(rows) == 1
        return rows
    with monkeypatch.context() as patched:
        patched.setattr(public_addresses, 'assigned', then_released)
        ec2.associate_address(AllocationId=made['AllocationId'], InstanceId=found['InstanceId'])
    assert association()['PublicIp'] == made['PublicIp']
    ec2.terminate_instances(InstanceIds=[found['InstanceId']])
    assert made['PublicIp'] in assigned(demo)


@pytest.fixture
def lost(ec2, image, subnet, demo):
    """The address of an instance that the compute API has deleted, as DescribeAddresses shows it."""
    found = addressed(ec2, launched(ec2, image, subnet)['InstanceId'])
    server = next(row for row in demo.get('/servers/detail').json()['servers']
                  if found['PublicIpAddress'] in str(row['addresses']))['id']
    of_it = [{'Name': 'public-ip', 'Values': [found['PublicIpAddress']]}]
    assert not ec2.describe_addresses(Filters=of_it)['Addresses']
    demo.delete(f'/servers/{server}')
    demo.wait_for(server, 'DELETED')
    made, = ec2.describe_addresses(Filters=of_it)['Addresses']
    return made


def test_an_assigned_address_that_lost_its_instance_is_shown_and_released(ec2, lost, demo):
    ec2.release_address(AllocationId=lost['AllocationId'])
    assert lost['PublicIp'] not in assigned(demo)


def test_an_assigned_address_that_lost_its_instance_becomes_an_ordinary_one_of_another(ec2, lost, instance, demo):
    ec2.associate_address(AllocationId=lost['AllocationId'], InstanceId=instance['InstanceId'])
    found, = ec2.describe_addresses(AllocationIds=[lost['AllocationId']])['Addresses']
    assert (found['PublicIp'], found['InstanceId']) == (lost['PublicIp'], instance['InstanceId'])
    ec2.disassociate_address(AssociationId=found['AssociationId'])
    ec2.release_address(AllocationId=lost['AllocationId'])
    assert lost['PublicIp'] not in assigned(demo)


def test_a_subnet_with_an_internal_attribute_has_fifty_tags(ec2, subnet):
    made = ec2.create_subnet(VpcId=subnet['VpcId'], CidrBlock='10.80.12.0/24')['Subnet']['SubnetId']
    ec2.create_tags(Resources=[made], Tags=[{'Key': f'k{number}', 'Value': ''} for number in range(50)])
    ec2.modify_subnet_attribute(SubnetId=made, MapPublicIpOnLaunch={'Value': True})
    assert refused(ec2.create_tags, Resources=[made], Tags=[{'Key': 'more', 'Value': ''}]) == ('TagLimitExceeded', 400)


def test_two_primary_addresses_are_refused(ec2, image, subnet):
    both = {'SubnetId': subnet['SubnetId'], 'PrivateIpAddress': '10.80.1.70',
            'PrivateIpAddresses': [{'PrivateIpAddress': '10.80.1.71', 'Primary': True}]}
    expected = ('InvalidParameterCombination', 400)
    assert refused(ec2.create_network_interface, **both) == expected
    assert refused(run, ec2=ec2, image=image, subnet=subnet, NetworkInterfaces=[{'DeviceIndex': 0, **both}]) == expected


# ---- key pairs

def test_an_ed25519_key_is_created_with_its_type_and_fingerprint(ec2):
    made = ec2.create_key_pair(KeyName='ed', KeyType='ed25519')
    key = serialization.load_ssh_private_key(made['KeyMaterial'].encode(), None)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    digest = hashlib.sha256(base64.b64decode(public.split()[1])).digest()
    assert made['KeyFingerprint'] == base64.b64encode(digest).decode()
    found, = ec2.describe_key_pairs(KeyNames=['ed'], IncludePublicKey=True)['KeyPairs']
    assert found['KeyType'] == 'ed25519' and found['KeyFingerprint'] == made['KeyFingerprint']
    assert found['PublicKey'].split()[:2] == public.decode().split()[:2]


def test_an_imported_ed25519_key_has_the_fingerprint_of_openssh(ec2):
    made = ec2.import_key_pair(KeyName='imported-ed', PublicKeyMaterial=ED25519.encode())
    assert made['KeyFingerprint'] == base64.b64encode(hashlib.sha256(
        base64.b64decode(ED25519.split()[1])).digest()).decode()
    assert ec2.describe_key_pairs(KeyNames=['imported-ed'])['KeyPairs'][0]['KeyType'] == 'ed25519'


def test_a_created_rsa_key_has_the_sha1_of_its_private_key_and_an_imported_one_the_md5_of_its_public_key(ec2):
    made = ec2.create_key_pair(KeyName='rsa')
    key = serialization.load_pem_private_key(made['KeyMaterial'].encode(), None)
    private = key.private_bytes(serialization.Encoding.DER, serialization.PrivateFormat.PKCS8,
                                serialization.NoEncryption())
    assert made['KeyFingerprint'] == hashlib.sha1(private).digest().hex(':')
    found, = ec2.describe_key_pairs(KeyNames=['rsa'])['KeyPairs']
    assert found['KeyFingerprint'] == made['KeyFingerprint'] and found['KeyType'] == 'rsa' and found['Tags'] == []
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    der = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    imported = ec2.import_key_pair(KeyName='imported-rsa', PublicKeyMaterial=public)
    assert imported['KeyFingerprint'] == hashlib.md5(der).digest().hex(':')
    ec2.delete_key_pair(KeyName='rsa')
    again = ec2.import_key_pair(KeyName='rsa', PublicKeyMaterial=public)
    assert again['KeyFingerprint'] == imported['KeyFingerprint']


def test_a_key_has_no_tags_of_a_deleted_one_of_its_name(ec2, demo):
    def tagged(key):
        return {'KeyName': 'again', 'TagSpecifications': [
            {'ResourceType': 'key-pair', 'Tags': [{'Key': key, 'Value': key}]}]}
    ec2.create_key_pair(**tagged('old'), KeyType='ed25519')
    demo.delete('/os-keypairs/again')
    ec2.import_key_pair(**tagged('new'), PublicKeyMaterial=ED25519.encode())
    found, = ec2.describe_key_pairs(KeyNames=['again'])['KeyPairs']
    assert found['Tags'] == [{'Key': 'new', 'Value': 'new'}]


# ---- interfaces and rules

def test_an_attached_interface_shows_its_device_index(ec2, instance, subnet):
    former = ec2.create_network_interface(SubnetId=subnet['SubnetId'])['NetworkInterface']       # its address is free
    ec2.delete_network_interface(NetworkInterfaceId=former['NetworkInterfaceId'])
    address = former['PrivateIpAddress']
    made = ec2.create_network_interface(SubnetId=subnet['SubnetId'], PrivateIpAddresses=[
        {'Primary': True, 'PrivateIpAddress': address}])['NetworkInterface']
    assert made['PrivateIpAddress'] == address and made['SourceDestCheck'] is True
    ident = made['NetworkInterfaceId']
    attached = ec2.attach_network_interface(NetworkInterfaceId=ident, InstanceId=instance['InstanceId'], DeviceIndex=3,
                                            NetworkCardIndex=0)['AttachmentId']
    found, = ec2.describe_network_interfaces(NetworkInterfaceIds=[ident])['NetworkInterfaces']
    assert found['Attachment']['DeviceIndex'] == 3 and found['TagSet'] == []
    assert found['Attachment']['DeleteOnTermination'] is False
    assert [(row['Attachment']['DeviceIndex'], row['Attachment']['DeleteOnTermination'])
            for row in shown(ec2, instance['InstanceId'])['NetworkInterfaces']] == [(0, True), (3, False)]
    ec2.modify_network_interface_attribute(NetworkInterfaceId=ident, Attachment={
        'AttachmentId': attached, 'DeleteOnTermination': False})
    ec2.detach_network_interface(AttachmentId=attached)


def test_rules_are_created_with_tags(ec2, subnet):
    group = ec2.create_security_group(GroupName='tagged', Description='x', VpcId=subnet['VpcId'])['GroupId']
    rule, = ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[
        {'IpProtocol': 'tcp', 'FromPort': 1, 'ToPort': 2, 'Ipv6Ranges': [{'CidrIpv6': '::/0', 'Description': 'six'}]}],
        TagSpecifications=[{'ResourceType': 'security-group-rule', 'Tags': TAGS}])['SecurityGroupRules']
    assert pairs(rule['Tags']) == pairs(TAGS)
    found = ec2.describe_security_group_rules(SecurityGroupRuleIds=[rule['SecurityGroupRuleId']])['SecurityGroupRules']
    assert pairs(found[0]['Tags']) == pairs(TAGS)
    shown_group, = ec2.describe_security_groups(Filters=[{'Name': 'group-id', 'Values': [group]}, {
        'Name': 'ip-permission.ipv6-cidr', 'Values': ['::/0']}])['SecurityGroups']
    assert shown_group['IpPermissions'][0]['Ipv6Ranges'] == [{'CidrIpv6': '::/0', 'Description': 'six'}]
    ident, same = rule['SecurityGroupRuleId'], {'IpProtocol': 'tcp', 'FromPort': 1, 'ToPort': 2, 'CidrIpv6': '::/0'}
    ec2.modify_security_group_rules(GroupId=group, SecurityGroupRules=[
        {'SecurityGroupRuleId': ident, 'SecurityGroupRule': {**same, 'Description': 'changed'}}])
    assert ec2.describe_security_group_rules(SecurityGroupRuleIds=[ident])['SecurityGroupRules'][0][
        'Description'] == 'changed'
    changed = {'IpProtocol': 'udp', 'FromPort': 5, 'ToPort': 6, 'CidrIpv4': '192.0.2.0/25'}
    ec2.modify_security_group_rules(GroupId=group, SecurityGroupRules=[
        {'SecurityGroupRuleId': ident, 'SecurityGroupRule': changed}])
    found, = ec2.describe_security_group_rules(SecurityGroupRuleIds=[ident])['SecurityGroupRules']
    assert found.items() >= changed.items() and 'CidrIpv6' not in found and pairs(found['Tags']) == pairs(TAGS)
    every = {**changed, 'FromPort': 0, 'ToPort': 65535}
    ec2.modify_security_group_rules(GroupId=group, SecurityGroupRules=[
        {'SecurityGroupRuleId': ident, 'SecurityGroupRule': every}])
    found, = ec2.describe_security_group_rules(SecurityGroupRuleIds=[ident])['SecurityGroupRules']
    assert found.items() >= every.items()
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[
        {'IpProtocol': 'tcp', 'FromPort': 1, 'ToPort': 2, 'Ipv6Ranges': [{'CidrIpv6': '::/0'}]}])
    assert refused(ec2.modify_security_group_rules, GroupId=group, SecurityGroupRules=[
        {'SecurityGroupRuleId': ident, 'SecurityGroupRule': same}]) == ('InvalidPermission.Duplicate', 400)
    assert ec2.describe_security_groups(Filters=[{'Name': 'group-id', 'Values': [group]}, {
        'Name': 'egress.ip-permission.cidr', 'Values': ['192.0.2.0/24']}])['SecurityGroups'] == []


def test_an_instance_type_has_the_attributes_that_clients_read(ec2):
    found, = ec2.describe_instance_types(InstanceTypes=['m1.tiny'])['InstanceTypes']
    assert found['BurstablePerformanceSupported'] is False and found['SupportedUsageClasses'] == ['on-demand']
    assert found['ProcessorInfo'] == {'SupportedArchitectures': ['x86_64']}
    assert found['PlacementGroupInfo'] == {'SupportedStrategies': ['spread', 'cluster']}
    assert found['NetworkInfo']['MaximumNetworkInterfaces'] == 16 and found['EbsInfo']['MaximumEbsAttachments'] == 25
