"""What EC2's clients change of instances, images, volumes and interfaces, with boto3 and the fake driver."""
import collections
import datetime

import pytest
import sqlalchemy as sa

from nova import utils
from nova.db.networks import listing
from nova.db.projects import attempts
from nova.db.tables import ec2 as tables
from nova.ec2 import operations
from nova.ec2 import table
from nova.ec2 import tags as ec2_tags
from nova.ec2 import unsupported as refusals
from nova.tests.support import waiting
from nova.tests.support import ec2 as test_ec2
from nova.tests.support.ec2 import refused
from nova.tests.support.ec2 import run

cloud, demo, pair, ec2, image, flavor = (
    test_ec2.cloud, test_ec2.demo, test_ec2.pair, test_ec2.ec2, test_ec2.image, test_ec2.flavor)
RANGES = ('10.91.0.0/24', '10.92.0.0/24')
QUICK = {'WaiterConfig': {'Delay': 0.2, 'MaxAttempts': 200}}


@pytest.fixture(scope='module')
def network(demo):
    """The subnet of a network of the project."""
    made = demo.post('/network/v2.0/networks', {'network': {'name': 'own'}}).json()['network']['id']
    demo.post('/network/v2.0/subnets', {'subnet': {          # a test names an address outside of the pool
        'network_id': made, 'cidr': '10.78.0.0/24', 'ip_version': 4,
        'allocation_pools': [{'start': '10.78.0.100', 'end': '10.78.0.200'}]}})


@pytest.fixture(scope='module')
def subnet(ec2, network):
    found = ec2.describe_subnets(Filters=[{'Name': 'cidr-block', 'Values': ['10.78.0.0/24']}])['Subnets']
    return found[0]['SubnetId']


@pytest.fixture
def instance(ec2, image, flavor, subnet):
    made = run(ec2, image, flavor, SubnetId=subnet)['Instances'][0]['InstanceId']
    ec2.get_waiter('instance_running').wait(InstanceIds=[made], **QUICK)
    yield made
    ec2.terminate_instances(InstanceIds=[made])
    ec2.get_waiter('instance_terminated').wait(InstanceIds=[made], **QUICK)


def shown(ec2, instance):
    return ec2.describe_instances(InstanceIds=[instance])['Reservations'][0]['Instances'][0]


def test_a_stopped_instance_becomes_one_of_another_type(cloud, ec2, instance, flavor, demo):
    """Confirmed within the request; it is stopped all the time, and starts."""
    made = cloud.admin().post('/flavors', {'flavor': {'name': 'larger', 'ram': 128, 'vcpus': 2, 'disk': 1}})
    assert made.status_code == 200, made.text
    change = {'InstanceId': instance, 'InstanceType': {'Value': 'larger'}}
    assert refused(ec2.modify_instance_attribute, **change) == ('IncorrectInstanceState', 400)
    ec2.stop_instances(InstanceIds=[instance])
    ec2.get_waiter('instance_stopped').wait(InstanceIds=[instance], **QUICK)
    assert refused(ec2.modify_instance_attribute, InstanceId=instance, InstanceType={'Value': 'none'}) == (
        'InvalidInstanceType', 400)
    ec2.modify_instance_attribute(**change)
    found = shown(ec2, instance)
    assert (found['InstanceType'], found['State']['Name']) == ('larger', 'stopped')
    ec2.modify_instance_attribute(InstanceId=instance, Attribute='instanceType', Value=flavor)
    assert shown(ec2, instance)['InstanceType'] == flavor
    server, = demo.get('/servers/detail').json()['servers']
    assert server['status'] == 'SHUTOFF', server
    large = next(row['id'] for row in demo.get('/flavors').json()['flavors'] if row['name'] == 'larger')
    demo.post(f'/servers/{server["id"]}/action', {'resize': {'flavorRef': large}})      # nobody confirms this one
    waiting.wait_for(lambda: demo.get(f'/servers/{server["id"]}').json()['server']['status'] == 'VERIFY_RESIZE', 30,
                     'the resize')
    assert shown(ec2, instance)['State']['Name'] == 'stopped'
    ec2.start_instances(InstanceIds=[instance])
    ec2.get_waiter('instance_running').wait(InstanceIds=[instance], **QUICK)
    assert shown(ec2, instance)['InstanceType'] == 'larger'


def test_groups_volumes_and_what_is_not_changed(ec2, instance, demo):
    group = ec2.create_security_group(GroupName='other', Description='other')['GroupId']
    ec2.modify_instance_attribute(InstanceId=instance, Groups=[group])
    assert [row['GroupId'] for row in shown(ec2, instance)['SecurityGroups']] == [group]
    volume = ec2.create_volume(Size=1, AvailabilityZone='nova')['VolumeId']
    ec2.get_waiter('volume_available').wait(VolumeIds=[volume], **QUICK)
    ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device='/dev/vdb')
    ec2.get_waiter('volume_in_use').wait(VolumeIds=[volume], **QUICK)
    device = shown(ec2, instance)['BlockDeviceMappings'][0]
    assert device['Ebs']['DeleteOnTermination'] is False
    ec2.modify_instance_attribute(InstanceId=instance, BlockDeviceMappings=[{
        'DeviceName': device['DeviceName'], 'Ebs': {'DeleteOnTermination': True}}])
    assert shown(ec2, instance)['BlockDeviceMappings'][0]['Ebs']['DeleteOnTermination'] is True
    mappings = [{'DeviceName': name, 'Ebs': {'DeleteOnTermination': False}}
                for name in (device['DeviceName'], '/dev/vdz')]
    assert refused(ec2.modify_instance_attribute, InstanceId=instance, BlockDeviceMappings=mappings) == (
        'InvalidInstanceAttributeValue', 400)
    assert shown(ec2, instance)['BlockDeviceMappings'][0]['Ebs']['DeleteOnTermination'] is True
    for change in ({'SourceDestCheck': {'Value': False}}, {'DisableApiTermination': {'Value': True}},
                   {'Kernel': {'Value': 'aki-1'}}, {'DisableApiStop': {'Value': True}},
                   {'EbsOptimized': {'Value': True}}, {'UserData': {'Value': b'x'}},
                   {'InstanceInitiatedShutdownBehavior': {'Value': 'terminate'}}):
        assert refused(ec2.modify_instance_attribute, InstanceId=instance, **change) == ('UnsupportedOperation', 400)
    ec2.modify_instance_attribute(InstanceId=instance, SourceDestCheck={'Value': True})
    assert refused(ec2.modify_instance_attribute, InstanceId=instance, SourceDestCheck={'Value': True},
                   EbsOptimized={'Value': False}) == ('InvalidParameterCombination', 400)


def test_a_requirement_of_tokens_is_no_tag(ec2, image, flavor, subnet, demo):
    """Who removes all tags, as tools do that know only their own, does not open the metadata of an instance."""
    made = run(ec2, image, flavor, SubnetId=subnet, MetadataOptions={
        'HttpTokens': 'required', 'HttpPutResponseHopLimit': 64})['Instances'][0]
    one, key = made['InstanceId'], 'metadata_tokens'
    assert made['MetadataOptions']['HttpTokens'] == 'required' and made.get('Tags', []) == []
    assert made['MetadataOptions']['HttpPutResponseHopLimit'] == 64
    ec2.create_tags(Resources=[one], Tags=[{'Key': 'a', 'Value': 'b'}])
    ec2.delete_tags(Resources=[one])
    ec2.delete_tags(Resources=[one], Tags=[{'Key': key}])
    assert refused(ec2.create_tags, Resources=[one], Tags=[{'Key': key, 'Value': 'optional'}])[0] == (
        'InvalidParameterValue')
    of_one = {'Filters': [{'Name': 'resource-id', 'Values': [one]}]}
    assert shown(ec2, one)['MetadataOptions']['HttpTokens'] == 'required' and ec2.describe_tags(**of_one)['Tags'] == []
    changed = ec2.modify_instance_metadata_options(InstanceId=one, HttpTokens='optional')
    assert changed['InstanceMetadataOptions']['HttpTokens'] == 'optional'
    assert shown(ec2, one)['MetadataOptions']['HttpTokens'] == 'optional'
    ec2.modify_instance_metadata_options(InstanceId=one, HttpTokens='required')
    items = {key: 'required', 'metadata_hop_limit': '64'}.items()
    assert any(row['metadata'].items() >= items for row in demo.get('/servers/detail').json()['servers'])
    changed = ec2.modify_instance_metadata_options(InstanceId=one, HttpPutResponseHopLimit=2)['InstanceMetadataOptions']
    assert (changed['HttpPutResponseHopLimit'], changed['HttpTokens']) == (2, 'required')
    changed = ec2.modify_instance_metadata_options(InstanceId=one, HttpTokens='optional')['InstanceMetadataOptions']
    assert (changed['HttpPutResponseHopLimit'], changed['HttpTokens']) == (2, 'optional')
    assert shown(ec2, one)['MetadataOptions']['HttpPutResponseHopLimit'] == 2 and not shown(ec2, one).get('Tags')
    for hops in (0, 65, -1):
        assert refused(ec2.modify_instance_metadata_options, InstanceId=one, HttpPutResponseHopLimit=hops)[0] == (
            'InvalidParameterValue')
    for options in ({'HttpEndpoint': 'disabled'}, {'InstanceMetadataTags': 'enabled'}):
        assert refused(ec2.modify_instance_metadata_options, InstanceId=one, **options) == (
            'UnsupportedOperation', 400)
    ec2.terminate_instances(InstanceIds=[one])


def test_an_instance_starts_with_several_interfaces(ec2, image, flavor, subnet, network, demo):
    for number in (1, 2):
        made = demo.post('/network/v2.0/networks', {'network': {'name': f'more{number}'}}).json()['network']['id']
        demo.post('/network/v2.0/subnets', {'subnet': {
            'network_id': made, 'cidr': f'10.7{number}.9.0/24', 'ip_version': 4}})
    subnets = [subnet, *(ec2.describe_subnets(Filters=[{'Name': 'cidr-block', 'Values': [cidr]}])[
        'Subnets'][0]['SubnetId'] for cidr in ('10.71.9.0/24', '10.72.9.0/24'))]
    group = ec2.create_security_group(GroupName='several', Description='several')['GroupId']
    kept = ec2.create_network_interface(SubnetId=subnets[1])['NetworkInterface']['NetworkInterfaceId']
    new = {'Groups': [group], 'DeleteOnTermination': True}
    wanted = [{'DeviceIndex': 2, 'SubnetId': subnets[2], 'PrivateIpAddress': '10.72.9.77', **new},
              {'DeviceIndex': 0, 'SubnetId': subnets[0], **new}, {'DeviceIndex': 1, 'NetworkInterfaceId': kept}]
    instance = run(ec2, image, flavor, NetworkInterfaces=wanted)['Instances'][0]['InstanceId']
    ec2.get_waiter('instance_running').wait(InstanceIds=[instance], **QUICK)
    found = shown(ec2, instance)
    assert [row['SubnetId'] for row in found['NetworkInterfaces']] == subnets
    assert [row['Attachment']['DeviceIndex'] for row in found['NetworkInterfaces']] == [0, 1, 2]
    assert found['NetworkInterfaces'][1]['NetworkInterfaceId'] == kept
    assert found['NetworkInterfaces'][2]['PrivateIpAddress'] == '10.72.9.77'
    assert found['PrivateIpAddress'] == found['NetworkInterfaces'][0]['PrivateIpAddress']
    assert refused(ec2.modify_instance_attribute, InstanceId=instance, Groups=[group]) == ('InvalidInstanceID', 400)
    assert [each['GroupId'] for place in (0, 2) for each in found['NetworkInterfaces'][place]['Groups']] == [group] * 2
    ec2.terminate_instances(InstanceIds=[instance])
    ec2.get_waiter('instance_terminated').wait(InstanceIds=[instance], **QUICK)
    ec2.delete_network_interface(NetworkInterfaceId=kept)


def test_an_instance_is_in_the_subnet_that_it_names(ec2, image, flavor, demo):
    """One of a network with two ranges got an address of the other one."""
    made = demo.post('/network/v2.0/networks', {'network': {'name': 'ranges'}}).json()['network']['id']
    uuids = [demo.post('/network/v2.0/subnets', {'subnet': {
        'network_id': made, 'cidr': cidr, 'ip_version': 4}}).json()['subnet']['id'] for cidr in RANGES]
    first, second = (ec2.describe_subnets(Filters=[{'Name': 'cidr-block', 'Values': [cidr]}])['Subnets'][0]['SubnetId']
                     for cidr in RANGES)
    start = {'ec2': ec2, 'image': image, 'flavor': flavor, 'DryRun': True}
    assert refused(run, **start, SubnetId=second) == ('UnsupportedOperation', 400)
    for address in ('10.91.0.9', 'no address'):
        assert refused(run, **start, SubnetId=second, PrivateIpAddress=address) == ('InvalidParameterValue', 400)
    instance = run(ec2, image, flavor, SubnetId=second, PrivateIpAddress='10.92.0.9')['Instances'][0]['InstanceId']
    ec2.get_waiter('instance_running').wait(InstanceIds=[instance], **QUICK)
    assert (shown(ec2, instance)['SubnetId'], shown(ec2, instance)['PrivateIpAddress']) == (second, '10.92.0.9')
    demo.delete(f'/network/v2.0/subnets/{uuids[0]}')
    assert refused(run, **start, SubnetId=second) == ('DryRunOperation', 412)
    assert refused(run, **start, SubnetId=first) == ('InvalidSubnetID.NotFound', 400)
    ec2.terminate_instances(InstanceIds=[instance])


def test_lists_that_the_network_service_cuts_are_whole(ec2, subnet, monkeypatch):
    """Subnets, interfaces, groups and their names ended with the thousandth."""
    groups = [ec2.create_security_group(GroupName=f'cut{number}', Description='cut')['GroupId'] for number in range(4)]
    made = [ec2.create_network_interface(SubnetId=subnet, Groups=[group])['NetworkInterface']['NetworkInterfaceId']
            for group in groups]
    subnets = len(ec2.describe_subnets()['Subnets'])
    for owner, name in ((operations, 'PAGE'), (listing, 'MAX_LIMIT')):
        monkeypatch.setattr(owner, name, 2)
    assert set(made) <= {row['NetworkInterfaceId'] for row in ec2.describe_network_interfaces()['NetworkInterfaces']}
    assert set(groups) <= {row['GroupId'] for row in ec2.describe_security_groups()['SecurityGroups']}
    assert len(ec2.describe_subnets()['Subnets']) == subnets
    monkeypatch.undo()
    for ident in made:
        ec2.delete_network_interface(NetworkInterfaceId=ident)


@pytest.mark.parametrize('code, interfaces', [
    ('InvalidParameterValue', [{'DeviceIndex': 0}, {'DeviceIndex': 2}]),
    ('InvalidParameterValue', [{'DeviceIndex': 0}, {'DeviceIndex': 0}]),
    ('MissingParameter', [{'DeviceIndex': 0}, {'DeviceIndex': 1, 'Groups': ()}]),
    ('UnsupportedOperation', [{'DeviceIndex': 0}, {'DeviceIndex': 1, 'Groups': ['sg-0123456789abcdef0']}]),
    ('UnsupportedOperation', [{'DeviceIndex': 0}, {'DeviceIndex': 1, 'Ipv6AddressCount': 1}]),
    ('InvalidParameterCombination', [{'DeviceIndex': 0}, {'DeviceIndex': 1, 'AssociatePublicIpAddress': True}]),
    ('AttachmentLimitExceeded', [{'DeviceIndex': number} for number in range(17)])])
def test_interfaces_that_an_instance_cannot_start_with(ec2, image, flavor, code, interfaces):
    assert refused(run, ec2=ec2, image=image, flavor=flavor, NetworkInterfaces=interfaces) == (code, 400)


@pytest.mark.parametrize('more', [{'DisableApiTermination': True}, {'DisableApiStop': True},
                                  {'InstanceInitiatedShutdownBehavior': 'terminate'}])
def test_an_instance_is_not_protected(ec2, image, flavor, more):
    """A lock would stop every other action as well. What is so anyway may be said."""
    assert refused(run, ec2=ec2, image=image, flavor=flavor, **more) == ('UnsupportedOperation', 400)
    said = {name: 'stop' if value == 'terminate' else False for name, value in more.items()}
    assert refused(run, ec2=ec2, image=image, flavor=flavor, DryRun=True, **said) == ('DryRunOperation', 412)


def test_interfaces_are_made_attached_and_kept(ec2, image, flavor, subnet, instance):
    given = {'SubnetId': subnet, 'Description': 'second', 'PrivateIpAddress': '10.78.0.77', 'ClientToken': 'once',
             'TagSpecifications': [{'ResourceType': 'network-interface', 'Tags': [{'Key': 'a', 'Value': 'b'}]}]}
    one, again = (ec2.create_network_interface(**given)['NetworkInterface'] for _time in range(2))
    assert again['NetworkInterfaceId'] == one['NetworkInterfaceId']
    assert (one['PrivateIpAddress'], one['Status'], one['Description']) == ('10.78.0.77', 'available', 'second')
    assert refused(ec2.create_network_interface, SubnetId=subnet, PrivateIpAddress='10.78.0.77') == (
        'InvalidIPAddress.InUse', 400)
    interface = {'NetworkInterfaceId': one['NetworkInterfaceId']}
    held = ec2.attach_network_interface(**interface, InstanceId=instance, DeviceIndex=1)['AttachmentId']
    assert one['NetworkInterfaceId'] in [row['NetworkInterfaceId'] for row in shown(ec2, instance)['NetworkInterfaces']]
    assert refused(ec2.delete_network_interface, **interface) == ('InvalidParameterValue', 400)
    assert refused(ec2.attach_network_interface, **interface, InstanceId=instance, DeviceIndex=2) == (
        'InvalidNetworkInterface.InUse', 400)
    found = ec2.describe_network_interfaces(Filters=[{'Name': 'attachment.attachment-id', 'Values': [held]}])
    assert [row['NetworkInterfaceId'] for row in found['NetworkInterfaces']] == [one['NetworkInterfaceId']]
    group = ec2.create_security_group(GroupName='of-interfaces', Description='x')['GroupId']
    ec2.modify_network_interface_attribute(**interface, Groups=[group])
    ec2.modify_network_interface_attribute(**interface, Description={'Value': 'renamed'})
    described = ec2.describe_network_interface_attribute(**interface, Attribute='groupSet')
    assert [row['GroupId'] for row in described['Groups']] == [group]
    assert ec2.describe_network_interface_attribute(**interface, Attribute='description')['Description'] == {
        'Value': 'renamed'}
    assert refused(ec2.modify_network_interface_attribute, **interface, SourceDestCheck={'Value': False}) == (
        'UnsupportedOperation', 400)
    ec2.detach_network_interface(AttachmentId=held)
    waiting.wait_for(lambda: ec2.describe_network_interfaces(NetworkInterfaceIds=[one['NetworkInterfaceId']])[
        'NetworkInterfaces'][0]['Status'] == 'available', 30, 'the interface to be free')
    assert refused(ec2.detach_network_interface, AttachmentId=held) == ('InvalidAttachmentID.NotFound', 400)
    launch = {'ec2': ec2, 'image': image, 'flavor': flavor, 'NetworkInterfaces': [{**interface, 'DeviceIndex': 0}]}
    booted = run(**launch, ClientToken='kept')['Instances'][0]['InstanceId']
    ec2.get_waiter('instance_running').wait(InstanceIds=[booted], **QUICK)
    assert run(**launch, ClientToken='kept')['Instances'][0]['InstanceId'] == booted
    assert refused(run, **launch) == ('InvalidNetworkInterface.InUse', 400)
    assert shown(ec2, booted)['PrivateIpAddress'] == '10.78.0.77'
    ec2.terminate_instances(InstanceIds=[booted])
    ec2.get_waiter('instance_terminated').wait(InstanceIds=[booted], **QUICK)
    ec2.delete_network_interface(**interface)                                             # it stayed
    assert refused(ec2.describe_network_interfaces, NetworkInterfaceIds=[one['NetworkInterfaceId']])[0] == (
        'InvalidNetworkInterfaceID.NotFound')


@pytest.fixture
def interrupted(cloud, monkeypatch):
    """A function(call, owner, name, **given): call, while the function ``name`` of ``owner`` fails; then call again."""
    def ended(*_given, **_more):
        raise RuntimeError('the process has ended')

    def attempt(call, owner, name, **given):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, ended)
            assert refused(call, **given) == ('InternalError', 500)
        assert refused(call, **given) == ('Unavailable', 503)
        with cloud.api_db.writer() as conn:
            conn.execute(sa.update(tables.ec2_client_tokens).values(attempted_at=utils.utcnow() - datetime.timedelta(
                seconds=attempts.ABANDONED_S + 1)))
        answer = call(**given)
        answer.pop('ResponseMetadata')
        return answer
    return attempt


def test_a_token_of_an_interrupted_request_finds_its_resource_and_sets_its_tags(ec2, subnet, demo, interrupted):
    def attempt(call, kind, **given):
        return interrupted(call, ec2_tags.db, 'put', ClientToken='broken', TagSpecifications=[
            {'ResourceType': kind, 'Tags': [{'Key': 'a/b', 'Value': kind}]}], **given)

    def tag(kind):
        return [{'Key': 'a/b', 'Value': kind}]
    before = {port['id'] for port in demo.get('/network/v2.0/ports').json()['ports']}
    interface = attempt(ec2.create_network_interface, 'network-interface', SubnetId=subnet, Description='said')
    interface = interface['NetworkInterface']
    assert (interface['TagSet'], interface['Description']) == (tag('network-interface'), 'said')
    made = [port for port in demo.get('/network/v2.0/ports').json()['ports'] if port['id'] not in before]
    assert len(made) == 1
    ec2.delete_network_interface(NetworkInterfaceId=interface['NetworkInterfaceId'])
    template = attempt(ec2.create_launch_template, 'launch-template', LaunchTemplateName='broken',
                       LaunchTemplateData={'InstanceType': 'm1.tiny'})['LaunchTemplate']
    assert template['Tags'] == tag('launch-template')
    ec2.delete_launch_template(LaunchTemplateName='broken')
    volumes = len(ec2.describe_volumes()['Volumes'])
    volume = attempt(ec2.create_volume, 'volume', Size=1, AvailabilityZone='nova')
    assert volume['Tags'] == tag('volume') and len(ec2.describe_volumes()['Volumes']) == volumes + 1
    vpc = ec2.create_vpc(CidrBlock='10.79.0.0/16')['Vpc']['VpcId']
    route_table = attempt(ec2.create_route_table, 'route-table', VpcId=vpc)['RouteTable']
    assert route_table['Tags'] == tag('route-table') and len(ec2.describe_route_tables()['RouteTables']) == 2
    ec2.delete_route_table(RouteTableId=route_table['RouteTableId'])
    ec2.delete_vpc(VpcId=vpc)


def test_a_token_of_an_interrupted_request_makes_one_version(ec2, interrupted):
    one, ending = {'LaunchTemplateName': 'versions'}, (attempts.CLIENT_TOKENS, 'finish')
    ec2.create_launch_template(**one, LaunchTemplateData={'InstanceType': 'm1.tiny'})
    made = interrupted(ec2.create_launch_template_version, *ending, **one, ClientToken='second',
                       LaunchTemplateData={'InstanceType': 'm1.small'})['LaunchTemplateVersion']
    shown = ec2.describe_launch_template_versions(**one)['LaunchTemplateVersions']
    assert made['VersionNumber'] == 2 and [row['VersionNumber'] for row in shown] == [1, 2]
    made = interrupted(ec2.modify_launch_template, *ending, **one, ClientToken='default',
                       DefaultVersion='2')['LaunchTemplate']
    assert made['DefaultVersionNumber'] == 2
    assert refused(ec2.modify_launch_template, **one, ClientToken='ü', DefaultVersion='1') == (
        'InvalidParameterValue', 400)
    ec2.delete_launch_template(**one)


def test_an_image_of_a_snapshot_boots_from_a_volume(ec2, flavor, image, subnet):
    volume = ec2.create_volume(Size=1, AvailabilityZone='nova')['VolumeId']
    ec2.get_waiter('volume_available').wait(VolumeIds=[volume], **QUICK)
    snapshot = ec2.create_snapshot(VolumeId=volume, TagSpecifications=[{
        'ResourceType': 'snapshot', 'Tags': [{'Key': 'of', 'Value': 'disk'}]}])['SnapshotId']
    ec2.get_waiter('snapshot_completed').wait(SnapshotIds=[snapshot], **QUICK)
    tags = ec2.describe_tags(Filters=[{'Name': 'resource-type', 'Values': ['snapshot']}])['Tags']
    assert [(row['ResourceId'], row['Key']) for row in tags] == [(snapshot, 'of')]         # they were not listed
    device = {'DeviceName': '/dev/vda', 'Ebs': {'SnapshotId': snapshot, 'VolumeSize': 2}}
    made = ec2.register_image(Name='of a snapshot', RootDeviceName='/dev/vda', BlockDeviceMappings=[device])['ImageId']
    found = ec2.describe_images(ImageIds=[made])['Images'][0]
    assert (found['State'], found['RootDeviceType']) == ('available', 'ebs')
    assert found['BlockDeviceMappings'] == [{'DeviceName': '/dev/vda', 'Ebs': {
        'SnapshotId': snapshot, 'VolumeSize': 2, 'DeleteOnTermination': True, 'VolumeType': 'standard',
        'Encrypted': False}}]
    for wrong, code in (([], 'MissingParameter'), ([device, device], 'InvalidBlockDeviceMapping'),
                        ([{**device, 'DeviceName': '/dev/vdb'}], 'InvalidBlockDeviceMapping'),
                        ([{'DeviceName': '/dev/vda', 'Ebs': {'VolumeSize': 1}}], 'UnsupportedOperation'),
                        ([{'DeviceName': '/dev/vda', 'Ebs': {'SnapshotId': 'snap-00000000000000dea'}}],
                         'InvalidSnapshot.NotFound')):
        assert refused(ec2.register_image, Name='wrong', RootDeviceName='/dev/vda', BlockDeviceMappings=wrong)[
            0] == code
    one = run(ec2, made, flavor, SubnetId=subnet)['Instances'][0]['InstanceId']
    ec2.get_waiter('instance_running').wait(InstanceIds=[one], **QUICK)
    assert [row['DeviceName'] for row in shown(ec2, one)['BlockDeviceMappings']] == ['/dev/vda']
    ec2.terminate_instances(InstanceIds=[one])
    ec2.get_waiter('instance_terminated').wait(InstanceIds=[one], **QUICK)
    ec2.deregister_image(ImageId=made)
    ec2.modify_image_attribute(ImageId=image, Description={'Value': 'said'})
    ec2.modify_image_attribute(ImageId=image, Attribute='launchPermission', OperationType='add', UserIds=['0' * 32])
    assert ec2.describe_images(ImageIds=[image])['Images'][0]['Description'] == 'said'
    for nothing in ({}, {'Value': 'x'}, {'Attribute': 'launchPermission', 'Value': 'x'}):
        assert refused(ec2.modify_image_attribute, ImageId=image, **nothing) == ('InvalidParameterCombination', 400)
    permissions = {'ImageId': image, 'Attribute': 'launchPermission'}
    assert ec2.describe_image_attribute(**permissions)['LaunchPermissions'] == [{'UserId': '0' * 32}]
    ec2.reset_image_attribute(**permissions)
    assert ec2.describe_image_attribute(**permissions)['LaunchPermissions'] == []


def test_volume_status_attributes_and_modifications_are_described(ec2):
    volume = ec2.create_volume(Size=1, AvailabilityZone='nova')['VolumeId']
    ec2.get_waiter('volume_available').wait(VolumeIds=[volume], **QUICK)
    one = {'VolumeIds': [volume]}
    assert ec2.describe_volume_status(**one)['VolumeStatuses'][0]['VolumeStatus']['Status'] == 'ok'
    assert ec2.describe_volume_attribute(VolumeId=volume, Attribute='autoEnableIO')['AutoEnableIO'] == {'Value': False}
    ec2.modify_volume(VolumeId=volume, Size=2)
    waiting.wait_for(lambda: ec2.describe_volumes_modifications(**one)['VolumesModifications'][0][
        'ModificationState'] == 'completed', 30, 'the volume to grow')
    assert ec2.describe_volumes_modifications(**one)['VolumesModifications'][0]['TargetSize'] == 2
    assert refused(ec2.describe_volume_status, VolumeIds=['vol-00000000000000dea'])[0] == 'InvalidVolume.NotFound'


def test_refused_extension_of_a_volume_keeps_its_type(ec2):
    volume = ec2.create_volume(Size=1, AvailabilityZone='nova', VolumeType='gp2')['VolumeId']
    ec2.get_waiter('volume_available').wait(VolumeIds=[volume], **QUICK)
    assert refused(ec2.modify_volume, VolumeId=volume, Size=60000, VolumeType='gp3')[0] == 'ResourceLimitExceeded'
    found, = ec2.describe_volumes(VolumeIds=[volume])['Volumes']
    assert (found['Size'], found['VolumeType']) == (1, 'gp2')
    ec2.delete_volume(VolumeId=volume)


@pytest.mark.parametrize(('specifications', 'code'), [
    ([{'ResourceType': 'image', 'Tags': []}, {'ResourceType': 'snapshot', 'Tags': [{'Key': 'a', 'Value': 'b'}]}],
     'InvalidParameterValue'),
    ([{'ResourceType': 'image', 'Tags': [{'Key': 'aws:own', 'Value': 'b'}]}], 'InvalidParameterValue'),
    ([{'ResourceType': 'image', 'Tags': [{'Key': f'k{count}', 'Value': ''} for count in range(51)]}],
     'TagLimitExceeded')])
def test_image_with_refused_tags_is_not_created(ec2, instance, specifications, code):
    def images():
        return {each['ImageId'] for each in ec2.describe_images()['Images']}
    before, wanted = images(), {'InstanceId': instance, 'Name': 'tagged', 'TagSpecifications': specifications}
    for more in ({'DryRun': True}, {}):
        assert refused(ec2.create_image, **wanted, **more) == (code, 400)
    assert images() == before


def test_tags_of_what_no_service_shows_by_its_id(ec2):
    def tagged(kind):
        return [{'ResourceType': kind, 'Tags': [{'Key': 'of', 'Value': kind}]}]
    ec2.create_key_pair(KeyName='tagged', TagSpecifications=tagged('key-pair'))
    template = ec2.create_launch_template(LaunchTemplateName='tagged', LaunchTemplateData={'InstanceType': 'm1.tiny'},
                                          TagSpecifications=tagged('launch-template'))['LaunchTemplate']
    assert template['Tags'] == [{'Key': 'of', 'Value': 'launch-template'}]
    key = ec2.describe_key_pairs(Filters=[{'Name': 'tag:of', 'Values': ['key-pair']}])['KeyPairs'][0]
    assert key['KeyName'] == 'tagged'
    ec2.create_tags(Resources=[key['KeyPairId'], template['LaunchTemplateId']], Tags=[{'Key': 'a', 'Value': 'b'}])
    assert len(ec2.describe_key_pairs(KeyNames=['tagged'])['KeyPairs'][0]['Tags']) == 2
    ec2.delete_key_pair(KeyPairId=key['KeyPairId'])
    ec2.create_key_pair(KeyName='tagged')                     # another one, though its id is the same
    assert ec2.describe_key_pairs(KeyNames=['tagged'])['KeyPairs'][0]['Tags'] == []
    assert refused(ec2.delete_key_pair, KeyPairId='key-00000000000000dea')[0] == 'InvalidKeyPair.NotFound'


def test_tags_are_deleted_with_their_resource(ec2, subnet, demo):
    def tagged(kind):
        return {'TagSpecifications': [{'ResourceType': kind, 'Tags': [{'Key': 'short', 'Value': kind}]}]}

    def listed():
        found = ec2.describe_tags(Filters=[{'Name': 'key', 'Values': ['short']}])['Tags']
        return collections.Counter(row['ResourceType'] for row in found)
    demo.upload_image(b'\0' * 1024, name='short')
    image, = ec2.describe_images(Filters=[{'Name': 'name', 'Values': ['short']}])['Images']
    ec2.create_tags(Resources=[image['ImageId']], Tags=[{'Key': 'short', 'Value': 'image'}])
    vpc = ec2.create_vpc(CidrBlock='10.77.0.0/16', **tagged('vpc'))['Vpc']['VpcId']
    made = ec2.create_subnet(VpcId=vpc, CidrBlock='10.77.1.0/24', **tagged('subnet'))['Subnet']['SubnetId']
    table_id = ec2.create_route_table(VpcId=vpc, **tagged('route-table'))['RouteTable']['RouteTableId']
    gateway = ec2.create_internet_gateway(**tagged('internet-gateway'))['InternetGateway']['InternetGatewayId']
    options = ec2.create_dhcp_options(DhcpConfigurations=[{'Key': 'domain-name-servers', 'Values': ['192.0.2.1']}],
                                      **tagged('dhcp-options'))['DhcpOptions']['DhcpOptionsId']
    main, = ec2.describe_route_tables(Filters=[{'Name': 'vpc-id', 'Values': [vpc]}, {
        'Name': 'association.main', 'Values': ['true']}])['RouteTables']
    ec2.create_tags(Resources=[main['RouteTableId']], Tags=[{'Key': 'short', 'Value': 'main'}])
    group = ec2.create_security_group(GroupName='short', Description='-', **tagged('security-group'))['GroupId']
    rule = {'GroupId': group, 'IpProtocol': 'tcp', 'CidrIp': '192.0.2.0/24'}
    for port in (1, 2):
        ec2.authorize_security_group_ingress(**rule, FromPort=port, ToPort=port, **tagged('security-group-rule'))
    other = ec2.create_security_group(GroupName='of-short', Description='-')['GroupId']
    ec2.authorize_security_group_ingress(GroupId=other, **tagged('security-group-rule'), IpPermissions=[
        {'IpProtocol': '-1', 'UserIdGroupPairs': [{'GroupId': group}]}])
    interface = ec2.create_network_interface(SubnetId=made, **tagged('network-interface'))['NetworkInterface']
    ec2.create_placement_group(GroupName='short', Strategy='spread', **tagged('placement-group'))
    ec2.create_launch_template(LaunchTemplateName='short', LaunchTemplateData={'InstanceType': 'm1.tiny'},
                               **tagged('launch-template'))
    assert listed().keys() == {
        'image', 'vpc', 'subnet', 'route-table', 'internet-gateway', 'dhcp-options', 'security-group',
        'security-group-rule', 'network-interface', 'placement-group', 'launch-template'}
    ec2.deregister_image(ImageId=image['ImageId'])
    ec2.delete_network_interface(NetworkInterfaceId=interface['NetworkInterfaceId'])
    ec2.delete_subnet(SubnetId=made)
    ec2.delete_route_table(RouteTableId=table_id)
    ec2.delete_vpc(VpcId=vpc)
    ec2.delete_internet_gateway(InternetGatewayId=gateway)
    ec2.delete_dhcp_options(DhcpOptionsId=options)
    ec2.revoke_security_group_ingress(**rule, FromPort=1, ToPort=1)
    assert listed()['security-group-rule'] == 2
    ec2.delete_security_group(GroupId=group)              # with the rule of the other group
    ec2.delete_security_group(GroupId=other)
    ec2.delete_placement_group(GroupName='short')
    deleted = ec2.delete_launch_template(LaunchTemplateName='short')['LaunchTemplate']
    assert deleted['Tags'] == [{'Key': 'short', 'Value': 'launch-template'}] and not listed()


def test_unsupported_ec2_operations_return_unsupported_operation(ec2):
    assert not refusals.OF.keys() & table.OPERATIONS.keys()
    assert refused(ec2.describe_spot_datafeed_subscription) == ('UnsupportedOperation', 400)
    assert refused(ec2.create_fleet, LaunchTemplateConfigs=[], TargetCapacitySpecification={
        'TotalTargetCapacity': 1}) == ('UnsupportedOperation', 400)
    model = ec2.meta.service_model
    assert set(refusals.OF) <= set(model.operation_names), set(refusals.OF) - set(model.operation_names)


def test_types_are_offered_and_there_is_no_detailed_monitoring(ec2, flavor, instance):
    offered = ec2.describe_instance_type_offerings(LocationType='availability-zone', Filters=[
        {'Name': 'instance-type', 'Values': [flavor]}])['InstanceTypeOfferings']
    assert [(row['InstanceType'], row['Location']) for row in offered] == [(flavor, 'nova')]
    assert refused(ec2.monitor_instances, InstanceIds=[instance]) == ('UnsupportedOperation', 400)
    assert ec2.unmonitor_instances(InstanceIds=[instance])['InstanceMonitorings'] == [
        {'InstanceId': instance, 'Monitoring': {'State': 'disabled'}}]


def test_a_cluster_is_near_each_other(ec2, demo):
    """The strategy that clients of EC2 send when they say none."""
    made = ec2.create_placement_group(GroupName='near')['PlacementGroup']
    assert made['Strategy'] == 'cluster' and 'SpreadLevel' not in made
    groups = demo.get('/os-server-groups', version='2.91').json()['server_groups']
    assert [row['policy'] for row in groups] == ['network-proximity']
    assert ec2.describe_placement_groups(Filters=[{'Name': 'strategy', 'Values': ['cluster']}])[
        'PlacementGroups'][0]['GroupName'] == 'near'
    ec2.delete_placement_group(GroupName='near')
    assert refused(ec2.create_placement_group, GroupName='x', Strategy='partition')[0] == 'UnsupportedOperation'
