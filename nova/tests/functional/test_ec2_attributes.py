"""How instances were launched, as their owners see it in the EC2 API: attributes, root devices, categories, times."""
import base64
import re

import pytest

from nova.tests.functional import cloud as whole
from nova.tests.support import ec2 as test_ec2

QUICK = {'Delay': 0.2, 'MaxAttempts': 300}


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with whole.running(tmp_path_factory.mktemp('attributes'), ['host1']) as running:
        yield running


@pytest.fixture(scope='module')
def demo(cloud):
    client = cloud.client()
    kernel, ramdisk = (client.upload_image(b'\0' * 1024, name=name, disk_format=name, container_format=name)
                       for name in ('aki', 'ari'))
    client.parts = client.upload_image(b'\0' * 1024, name='parts', kernel_id=kernel, ramdisk_id=ramdisk)
    client.plain = client.upload_image(b'\0' * 1024, name='plain')
    return client


@pytest.fixture(scope='module')
def ec2(cloud, demo):
    return test_ec2.boto(cloud, test_ec2.keys_of(demo))


@pytest.fixture(scope='module')
def boss(cloud, demo):
    """EC2 client of an administrator in the same project."""
    return test_ec2.boto(cloud, test_ec2.keys_of(cloud.admin()))


@pytest.fixture(scope='module')
def images(ec2, demo):
    return {row['Name']: row for row in ec2.describe_images()['Images']}


def member_of(cloud, admin, *roles):
    """A client that has these roles in the administrator's project."""
    user = {'name': roles[0], 'password': 'a long password of a test', 'domain_id': 'default'}
    made = admin.post('/identity/v3/users', {'user': user})
    assert made.status_code == 201, made.text
    known = {row['name']: row['id'] for row in admin.get('/identity/v3/roles').json()['roles']}
    place = f'/identity/v3/projects/{admin.project_id}/users/{made.json()["user"]["id"]}/roles'
    for name in roles:
        given = admin.put(f'{place}/{known[name]}')
        assert given.status_code == 204, given.text
    project = admin.get(f'/identity/v3/projects/{admin.project_id}').json()['project']['name']
    return whole.Client(cloud.url, user['name'], user['password'], project)


def run(ec2, image, **more):
    made = ec2.run_instances(**{'ImageId': image['ImageId'], 'InstanceType': 'm1.tiny', 'MinCount': 1, 'MaxCount': 1,
                                **more})
    ids = [row['InstanceId'] for row in made['Instances']]
    ec2.get_waiter('instance_running').wait(InstanceIds=ids, WaiterConfig=QUICK)
    return ids


def shown(ec2, *ids, **filters):
    found = ec2.describe_instances(InstanceIds=list(ids), Filters=[
        {'Name': name.replace('_', '-'), 'Values': [value]} for name, value in filters.items()])
    return {row['InstanceId']: row for reservation in found['Reservations'] for row in reservation['Instances']}


def test_an_owner_sees_how_its_instances_were_launched(ec2, images, demo, cloud):
    """Administrators alone saw it."""
    ids = run(ec2, images['parts'], MinCount=2, MaxCount=2, UserData='#!/bin/sh')
    found = shown(ec2, *ids)
    assert [found[one]['AmiLaunchIndex'] for one in ids] == [0, 1]
    aki, ari = (images[name]['ImageId'].replace('ami-', name + '-') for name in ('aki', 'ari'))
    for one in found.values():
        assert (one['KernelId'], one['RamdiskId'], one['RootDeviceName']) == (aki, ari, '/dev/vda')

    def attribute(name):
        return ec2.describe_instance_attribute(InstanceId=ids[1], Attribute=name)
    assert base64.b64decode(attribute('userData')['UserData']['Value']) == b'#!/bin/sh'
    assert attribute('rootDeviceName')['RootDeviceName'] == {'Value': '/dev/vda'}
    assert attribute('kernel')['KernelId'] == {'Value': aki} and attribute('ramdisk')['RamdiskId'] == {'Value': ari}
    assert set(shown(ec2, launch_index='1', kernel_id=aki, ramdisk_id=ari)) == {ids[1]}
    assert shown(ec2, root_device_name='/dev/sda1') == {}
    # in the compute API they stay with administrators, also for who pretends to be a service
    server = demo.get('/servers/detail', version='2.96').json()['servers'][0]['id']
    for headers in ({}, {'X-Service-Roles': 'service'}):
        document = demo.get(f'/servers/{server}', version='2.96', headers=headers).json()['server']
        assert not {name for name in document if name.startswith('OS-EXT-SRV-ATTR:')} - {'OS-EXT-SRV-ATTR:hostname'}
    wrong = demo.get(f'/servers/{server}', headers={'X-Service-Token': demo.token}, version='2.96').json()['server']
    assert 'OS-EXT-SRV-ATTR:user_data' not in wrong
    account = member_of(cloud, cloud.admin(), 'service')
    asked = demo.get(f'/servers/{server}', headers={'X-Service-Token': account.token}, version='2.96').json()['server']
    assert asked['OS-EXT-SRV-ATTR:user_data'] and 'OS-EXT-SRV-ATTR:host' not in asked
    ec2.terminate_instances(InstanceIds=ids)


@pytest.mark.parametrize('name', ['/dev/vda', 'vda'])
def test_a_mapping_of_the_root_device_sizes_the_root_disk(ec2, images, name):
    """It made a second, blank disk of that name."""
    one, = run(ec2, images['plain'], BlockDeviceMappings=[
        {'DeviceName': name, 'Ebs': {'VolumeSize': 3, 'DeleteOnTermination': True}},
        {'DeviceName': '/dev/vdb', 'Ebs': {'VolumeSize': 1}}])
    found = shown(ec2, one)[one]
    devices = {row['DeviceName']: row['Ebs'] for row in found['BlockDeviceMappings']}
    assert set(devices) == {'/dev/vda', '/dev/vdb'} and devices['/dev/vda']['DeleteOnTermination']
    root, = ec2.describe_volumes(VolumeIds=[devices['/dev/vda']['VolumeId']])['Volumes']
    assert (root['Size'], root['Attachments'][0]['Device']) == (3, '/dev/vda')
    assert (found['RootDeviceType'], found['RootDeviceName']) == ('ebs', '/dev/vda')
    assert found['ImageId'] == images['plain']['ImageId']
    assert one in shown(ec2, image_id=images['plain']['ImageId'], **{'block_device_mapping.device_name': '/dev/vda'})
    ec2.terminate_instances(InstanceIds=[one])


def test_a_mapping_of_the_root_device_that_asks_for_nothing_keeps_the_images_disk(ec2, images):
    one, = run(ec2, images['plain'], BlockDeviceMappings=[
        {'DeviceName': '/dev/vda', 'Ebs': {'DeleteOnTermination': True}}])
    found = shown(ec2, one)[one]
    assert (found['RootDeviceType'], found['BlockDeviceMappings']) == ('instance-store', [])
    kept, = run(ec2, images['plain'], BlockDeviceMappings=[
        {'DeviceName': '/dev/vda', 'Ebs': {'DeleteOnTermination': False}}])
    volume, = shown(ec2, kept)[kept]['BlockDeviceMappings']
    assert volume['Ebs']['DeleteOnTermination'] is False and ec2.describe_volumes(
        VolumeIds=[volume['Ebs']['VolumeId']])['Volumes'][0]['Size'] == 1
    ec2.terminate_instances(InstanceIds=[one, kept])


def test_an_image_names_its_root_device(ec2, demo, images):
    """Clients that size root disks take the name from there."""
    assert (images['plain']['RootDeviceName'], images['aki'].get('RootDeviceName')) == ('/dev/vda', None)
    demo.upload_image(b'\0' * 1024, name='sda', root_device_name='/dev/sda')
    image, = ec2.describe_images(Filters=[{'Name': 'name', 'Values': ['sda']}])['Images']
    assert image['RootDeviceName'] == '/dev/sda'
    one, = run(ec2, image, BlockDeviceMappings=[{'DeviceName': '/dev/sda', 'Ebs': {'VolumeSize': 2}},
                                                {'DeviceName': '/dev/vda', 'Ebs': {'VolumeSize': 1}}])
    found = shown(ec2, one)[one]
    assert found['RootDeviceName'] == '/dev/sda'
    assert {row['DeviceName'] for row in found['BlockDeviceMappings']} == {'/dev/sda', '/dev/vda'}
    ec2.terminate_instances(InstanceIds=[one])


def test_the_root_disk_of_an_image_of_snapshots_is_sized(ec2, images):
    one, = run(ec2, images['plain'], BlockDeviceMappings=[{'DeviceName': '/dev/vda', 'Ebs': {'VolumeSize': 1}}])
    volume = shown(ec2, one)[one]['BlockDeviceMappings'][0]['Ebs']['VolumeId']
    snapshot = ec2.create_snapshot(VolumeId=volume)['SnapshotId']
    ec2.get_waiter('snapshot_completed').wait(SnapshotIds=[snapshot], WaiterConfig=QUICK)
    made = ec2.register_image(Name='of-snapshot', RootDeviceName='/dev/vda', BlockDeviceMappings=[
        {'DeviceName': '/dev/vda', 'Ebs': {'SnapshotId': snapshot}}])
    two, = run(ec2, made, BlockDeviceMappings=[{'DeviceName': '/dev/vda', 'Ebs': {'VolumeSize': 4}}])
    root, = shown(ec2, two)[two]['BlockDeviceMappings']
    size = ec2.describe_volumes(VolumeIds=[root['Ebs']['VolumeId']])['Volumes'][0]
    assert (root['DeviceName'], size['Size'], size['SnapshotId']) == ('/dev/vda', 4, snapshot)
    ec2.terminate_instances(InstanceIds=[one, two])


# ---- categories of instances

def of_category(client, name):
    """The same client, whose calls that take a category name this one."""
    def add(params, **_more):
        params['body']['InstanceCategory'] = name
    for operation in ('RunInstances', 'TerminateInstances', 'RebootInstances'):
        client.meta.events.register(f'before-call.ec2.{operation}', add)
    return client


def raw_category(cloud, pair, action, instance):
    """The text of an answer about an instance: botocore leaves out what its model does not have."""
    name = 'InstanceId.1' if action == 'DescribeInstances' else 'InstanceId'
    answer = test_ec2.signed(cloud, pair, body=f'Action={action}&Version=2016-11-15&{name}={instance}')
    return re.findall('<instanceCategory>(.*?)</instanceCategory>', answer.text)


def test_a_category_is_a_parameter_an_attribute_and_a_filter(cloud, demo, ec2, images):
    admin = cloud.admin()
    pair = test_ec2.keys_of(admin)
    made = admin.post('/os-instance-categories', {'instance_category': {
        'name': 'storage', 'default_image': admin.upload_image(b'\0' * 1024, name='of-storage'),
        'default_flavor': '42'}})
    assert made.status_code in (200, 201), made.text
    storage, plain = of_category(test_ec2.boto(cloud, pair), 'storage'), test_ec2.boto(cloud, pair)
    one = storage.run_instances(MinCount=1, MaxCount=1)['Instances'][0]['InstanceId']      # of its image and flavor
    plain.get_waiter('instance_running').wait(InstanceIds=[one], WaiterConfig=QUICK)
    assert plain.describe_instances(InstanceIds=[one])['Reservations'][0]['Instances'][0]['InstanceType'] == 'm1.nano'
    other = plain.run_instances(ImageId=images['plain']['ImageId'], InstanceType='m1.tiny',
                                MinCount=1, MaxCount=1)['Instances'][0]['InstanceId']
    plain.get_waiter('instance_running').wait(InstanceIds=[other], WaiterConfig=QUICK)
    assert raw_category(cloud, pair, 'DescribeInstances', one) == ['storage']
    assert raw_category(cloud, pair, 'DescribeInstances', other) == []
    assert raw_category(cloud, pair, 'DescribeInstanceAttribute&Attribute=instanceCategory', one) == [
        '<value>storage</value>']
    assert raw_category(cloud, pair, 'DescribeInstanceAttribute&Attribute=instanceCategory', other) == [
        '<value>regular</value>']
    assert set(shown(plain, instance_category='storage')) == {one}
    assert set(shown(plain, instance_category='regular')) == {other}
    # users see neither, and may not make one
    assert shown(ec2, instance_category='storage') == {}
    user = of_category(test_ec2.boto(cloud, test_ec2.keys_of(demo)), 'storage')
    for more in ({}, {'DryRun': True}):
        assert test_ec2.refused(user.run_instances, ImageId=images['plain']['ImageId'], InstanceType='m1.tiny',
                                MinCount=1, MaxCount=1, **more) == ('UnauthorizedOperation', 403)
    assert test_ec2.refused(plain.run_instances, MinCount=1, MaxCount=1)[0] == 'MissingParameter'
    assert test_ec2.refused(of_category(test_ec2.boto(cloud, pair), 'none-such').run_instances, MinCount=1,
                            MaxCount=1, ImageId=images['plain']['ImageId'], InstanceType='m1.tiny')[0] in (
                                'InvalidParameterValue', 'InvalidAMIID.NotFound')
    assert test_ec2.refused(storage.terminate_instances, InstanceIds=[other])[0] == 'InvalidParameterValue'
    storage.terminate_instances(InstanceIds=[one])
    plain.get_waiter('instance_terminated').wait(InstanceIds=[one], WaiterConfig=QUICK)
    plain.terminate_instances(InstanceIds=[other])


def test_a_manager_ends_and_reboots_an_instance_whose_category_it_names(cloud, demo):
    """Users do not see it: the EC2 API answered that there is none, and there was no way to name the category."""
    admin = cloud.admin()
    made = admin.post('/os-instance-categories', {'instance_category': {'name': 'balancer'}})
    assert made.status_code in (200, 201), made.text
    image = admin.upload_image(b'\0' * 1024, name='balancer')
    server = admin.boot(image, networks='none', version='2.37', **{'os-instance-categories:category': 'balancer'})['id']
    admin.wait_for(server)
    instance = 'i-' + server.replace('-', '')[:17]
    manager = test_ec2.keys_of(member_of(cloud, admin, 'manager', 'member', 'reader'))
    named, unnamed = of_category(test_ec2.boto(cloud, manager), 'balancer'), test_ec2.boto(cloud, manager)
    wrong = of_category(test_ec2.boto(cloud, manager), 'storage')
    for client in (unnamed, wrong):
        for call in (client.terminate_instances, client.reboot_instances):
            assert test_ec2.refused(call, InstanceIds=[instance])[0] == 'InvalidInstanceID.NotFound'
    assert test_ec2.refused(named.terminate_instances, InstanceIds=[instance], DryRun=True) == ('DryRunOperation', 412)
    named.reboot_instances(InstanceIds=[instance])
    admin.wait_for(server)
    ended = named.terminate_instances(InstanceIds=[instance])['TerminatingInstances']
    assert [(row['InstanceId'], row['CurrentState']['Name']) for row in ended] == [(instance, 'shutting-down')]
    admin.wait_for(server, 'DELETED')


# ---- times

TIME = re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z')


def test_every_time_has_the_form_of_ec2(cloud, demo, ec2, images):
    """The time of an attachment had no zone, and that of a launch no milliseconds, beside others that had both."""
    one, = run(ec2, images['plain'], BlockDeviceMappings=[{'DeviceName': '/dev/vdb', 'Ebs': {'VolumeSize': 1}}])
    volume = shown(ec2, one)[one]['BlockDeviceMappings'][0]['Ebs']['VolumeId']
    snapshot = ec2.create_snapshot(VolumeId=volume)['SnapshotId']
    ec2.get_waiter('snapshot_completed').wait(SnapshotIds=[snapshot], WaiterConfig=QUICK)
    ec2.create_launch_template(LaunchTemplateName='times', LaunchTemplateData={'InstanceType': 'm1.tiny'})
    pair, times = test_ec2.keys_of(demo), {}
    for action in ('DescribeInstances', 'DescribeVolumes', 'DescribeSnapshots', 'DescribeImages',
                   'DescribeLaunchTemplates', 'DescribeVolumesModifications', f'GetConsoleOutput&InstanceId={one}'):
        answer = test_ec2.signed(cloud, pair, body=f'Action={action}&Version=2016-11-15')
        assert answer.status_code == 200, answer.text
        for name, text in re.findall(r'<(\w*(?:[tT]ime|Date|timestamp))>([^<]*)<', answer.text):
            times.setdefault(name, set()).add(text)
    assert {'launchTime', 'attachTime', 'createTime', 'startTime', 'creationDate', 'timestamp'} <= set(times)
    assert not {(name, text) for name, texts in times.items() for text in texts if not TIME.fullmatch(text)}
    launched = next(iter(times['launchTime']))
    assert shown(ec2, launch_time=launched[:10] + '*')
    ec2.terminate_instances(InstanceIds=[one])
    ec2.delete_snapshot(SnapshotId=snapshot)
