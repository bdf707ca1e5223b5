"""The EC2 API with boto3, against a whole cloud with the fake driver."""
import base64
from concurrent import futures
import contextlib
import datetime
import io
import json
import re
import sys

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.config
import botocore.credentials
import botocore.exceptions
from PIL import Image as pil
import pytest
import requests
import sqlalchemy as sa

from nova import utils
from nova.db.ec2 import ids as ec2_ids
from nova.db.projects import attempts
from nova.db.tables import ec2 as tables
from nova.ec2 import app as ec2_app
from nova.ec2 import errors
from nova.ec2 import signing
from nova.ec2 import table
from nova.policies import ec2 as policies
from nova.tests.support import waiting
from nova.tests.fuzz import ec2_requests
from nova.tests.support import ec2 as shared_ec2
from nova.tests.support.ec2 import PATH
from nova.tests.support.ec2 import SIGNED_HEADERS
from nova.tests.support.ec2 import boto
from nova.tests.support.ec2 import keys_of
from nova.tests.support.ec2 import member_of_another_project
from nova.tests.support.ec2 import refused
from nova.tests.support.ec2 import run
from nova.tests.support.ec2 import signed
from nova.tests.support.ec2 import signed_with
from nova.virt.fake import guest_operations as machine_screen

cloud = shared_ec2.cloud
demo = shared_ec2.demo
ec2 = shared_ec2.ec2
flavor = shared_ec2.flavor
image = shared_ec2.image
pair = shared_ec2.pair


def test_every_operation_has_its_rule():
    assert set(table.OPERATIONS) == {*policies.READS, *policies.WRITES}
    model = __import__('nova.ec2.protocol', fromlist=['service']).service()
    for row in table.OPERATIONS.values():
        shape = model.operation_model(row.name).input_shape
        assert row.takes | row.ignores <= set(shape.members), row.name


def test_instance_runs_stops_and_terminates(cloud, ec2, image, flavor, demo):
    made = run(ec2, image, flavor, MinCount=2, MaxCount=2, UserData='#!/bin/sh', TagSpecifications=[
        {'ResourceType': 'instance', 'Tags': [{'Key': 'Name', 'Value': 'twin'}, {'Key': 'job', 'Value': 'web'}]}])
    ids = [row['InstanceId'] for row in made['Instances']]
    assert len(set(ids)) == 2 and all(len(row) == 19 and row.startswith('i-') for row in ids)
    ec2.get_waiter('instance_running').wait(InstanceIds=ids, WaiterConfig={'Delay': 0.2, 'MaxAttempts': 100})
    found = ec2.describe_instances(Filters=[
        {'Name': 'tag:job', 'Values': ['web']}, {'Name': 'instance-state-name', 'Values': ['running']}])['Reservations']
    instances = [row for reservation in found for row in reservation['Instances']]
    assert sorted(row['InstanceId'] for row in instances) == sorted(ids)
    one = instances[0]
    assert one['ImageId'] == image and one['InstanceType'] == flavor and one['PrivateIpAddress']
    assert {'Key': 'job', 'Value': 'web'} in one['Tags'] and one['Placement']['AvailabilityZone'] == 'nova'
    servers = demo.get('/servers/detail?reservation_id=' + made['ReservationId'], version='2.96').json()['servers']
    assert sorted(row['name'] for row in servers) == ['twin-1', 'twin-2']
    uuid = next(row['id'] for row in servers if utils.ec2_id(row['id']) == ids[0])
    short = f'i-{ec2_ids.numbers(cloud.api_db, "i", [uuid])[uuid]:08x}'
    assert ec2.describe_instances(InstanceIds=[short])['Reservations'][0]['Instances'][0]['InstanceId'] == ids[0]
    assert ec2.describe_instance_status(InstanceIds=ids[:1])['InstanceStatuses'][0]['InstanceStatus']['Status'] == 'ok'
    attribute = ec2.describe_instance_attribute(InstanceId=ids[0], Attribute='instanceType')
    assert attribute['InstanceType']['Value'] == flavor
    assert 'Output' in ec2.get_console_output(InstanceId=ids[0])
    ec2.reboot_instances(InstanceIds=ids[1:])
    changes = ec2.stop_instances(InstanceIds=ids[:1])['StoppingInstances']
    assert changes[0]['PreviousState']['Name'] == 'running' and changes[0]['CurrentState']['Name'] == 'stopping'
    ec2.get_waiter('instance_stopped').wait(InstanceIds=ids[:1], WaiterConfig={'Delay': 0.2, 'MaxAttempts': 100})
    assert ec2.start_instances(InstanceIds=ids[:1])['StartingInstances'][0]['CurrentState']['Name'] == 'pending'
    ec2.get_waiter('instance_running').wait(InstanceIds=ids, WaiterConfig={'Delay': 0.2, 'MaxAttempts': 100})
    ended = ec2.terminate_instances(InstanceIds=ids)['TerminatingInstances']
    assert {row['CurrentState']['Name'] for row in ended} == {'shutting-down'}
    ec2.get_waiter('instance_terminated').wait(InstanceIds=ids, WaiterConfig={'Delay': 0.2, 'MaxAttempts': 100})


def test_console_screenshot_is_returned(ec2, image, flavor, demo, monkeypatch):
    made = run(ec2, image, flavor)['Instances'][0]['InstanceId']
    ec2.get_waiter('instance_running').wait(InstanceIds=[made], WaiterConfig={'Delay': 0.2, 'MaxAttempts': 100})
    shown = ec2.get_console_screenshot(InstanceId=made)
    assert shown['InstanceId'] == made
    with pil.open(io.BytesIO(base64.b64decode(shown['ImageData'])), formats=['JPEG']) as picture:
        assert picture.size == machine_screen.SCREEN and len(picture.convert('RGB').getcolors()) == 1
    looked = demo.get('/os-audit?limit=1').json()['audit_records'][0]
    assert (looked['action'], looked['outcome']) == ('nova:os-console-screenshot', 'accepted')
    no = ('UnsupportedOperation', 400)
    assert refused(ec2.get_console_screenshot, InstanceId=made, DryRun=True) == ('DryRunOperation', 412)
    assert refused(ec2.get_console_screenshot, InstanceId=made, WakeUp=True) == no
    assert refused(ec2.get_console_screenshot, InstanceId='i-' + '0' * 17) == ('InvalidInstanceID.NotFound', 400)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, 'PIL', None)
        with pytest.raises(botocore.exceptions.ClientError, match=r'nova\[screenshots\]') as error:
            ec2.get_console_screenshot(InstanceId=made)
        assert error.value.response['Error']['Code'] == no[0]
    ec2.stop_instances(InstanceIds=[made])
    ec2.get_waiter('instance_stopped').wait(InstanceIds=[made], WaiterConfig={'Delay': 0.2, 'MaxAttempts': 100})
    with pytest.raises(botocore.exceptions.ClientError, match='power_state shutdown') as error:
        ec2.get_console_screenshot(InstanceId=made)
    assert error.value.response['Error']['Code'] == no[0]
    ec2.terminate_instances(InstanceIds=[made])


MOST_STATEMENTS = {'describe_instances': 11, 'run_instances': 18}          # of four
# Statements of RunInstances that POST /servers does without; five are of boto's token, which is counted.
BESIDES_CREATE = 8


def serves_ec2():
    """Whether this thread serves a request to the EC2 API."""
    frame = sys._getframe()
    while frame is not None and frame.f_code is not ec2_app.Application.__call__.__code__:
        frame = frame.f_back
    return frame is not None


@contextlib.contextmanager
def statements_of_requests(cloud):
    """[statement] of the databases, of the threads that serve the EC2 API alone; without those about who asks, which
    are remembered for some seconds."""
    found = []

    def note(_conn, _cursor, statement, *_more):
        if serves_ec2() and not statement.startswith('PRAGMA') and 'identity_' not in statement:
            found.append(statement)
    engines = [cloud.api_db.engine, *(cell.db.engine for cell in cloud.cells.all())]
    for engine in engines:
        sa.event.listen(engine, 'before_cursor_execute', note)
    try:
        yield found
    finally:
        for engine in engines:
            sa.event.remove(engine, 'before_cursor_execute', note)


def test_statements_do_not_grow_with_the_instances(cloud, ec2, image, flavor):
    """And RunInstances does not look for ports that no server has yet."""
    def listed():
        with statements_of_requests(cloud) as seen:
            ec2.describe_instances()
        return [statement.partition('WHERE')[0] for statement in seen]
    made = run(ec2, image, flavor)['Instances']
    ids = [row['InstanceId'] for row in made]
    ec2.get_waiter('instance_running').wait(InstanceIds=ids, WaiterConfig={'Delay': 0.2, 'MaxAttempts': 100})
    listed()                                            # its ids are known from now on
    few = listed()
    # the ports, and the names of their groups
    assert len([statement for statement in few if 'FROM ports' in statement]) == 2
    with statements_of_requests(cloud) as seen:
        alone = run(ec2, image, flavor)['Instances'][0]['InstanceId']
    begun = next(place for place, statement in enumerate(seen) if 'FROM quotas' in statement) - 1        # the flavor
    ended = max(place for place, statement in enumerate(seen) if 'INTO instance_actions' in statement)
    assert begun > 0 and len(seen) - (ended - begun + 1) <= BESIDES_CREATE, seen
    ids.append(alone)
    with statements_of_requests(cloud) as seen:
        made = run(ec2, image, flavor, MinCount=4, MaxCount=4)['Instances']
    # the quota counts ports
    assert not [statement for statement in seen if 'FROM ports' in statement and ' AS room' not in statement]
    assert len(seen) <= MOST_STATEMENTS['run_instances'], seen
    ids += [row['InstanceId'] for row in made]
    ec2.get_waiter('instance_running').wait(InstanceIds=ids, WaiterConfig={'Delay': 0.2, 'MaxAttempts': 100})
    listed()
    many = listed()
    assert few == many and len(many) <= MOST_STATEMENTS['describe_instances'], many
    assert not [statement for statement in many if 'FROM tags' in statement]       # of ports: nobody asked for them
    ec2.terminate_instances(InstanceIds=ids)


def test_a_guest_and_the_api_say_the_same_id(cloud, ec2, image, demo):
    """What the metadata service tells is taken, also when this API has not shown the server yet."""
    made = demo.boot(demo.upload_image(), networks='none', version='2.37')['id']
    shown = utils.ec2_id(made)                      # /latest/meta-data/instance-id, see unit/test_metadata.py
    found, = ec2.describe_instances(InstanceIds=[shown])['Reservations'][0]['Instances']
    assert found['InstanceId'] == shown
    assert refused(ec2.describe_instances, InstanceIds=[shown[:-1] + ('0' if shown[-1] != '0' else '1')]) == (
        'InvalidInstanceID.NotFound', 400)
    demo.delete(f'/servers/{made}')


def test_a_client_token_runs_once(ec2, image, flavor):
    first = run(ec2, image, flavor, ClientToken='once upon a time')
    again = run(ec2, image, flavor, ClientToken='once upon a time')
    assert first['ReservationId'] == again['ReservationId']
    assert first['Instances'][0]['InstanceId'] == again['Instances'][0]['InstanceId']
    for more in ({'MaxCount': 2}, {'InstanceType': 'm1.small'}, {'UserData': 'other'}):
        assert refused(run, ec2=ec2, image=image, flavor=flavor, ClientToken='once upon a time', **more) == (
            'IdempotentParameterMismatch', 400)
    assert refused(run, ec2=ec2, image=image, flavor=flavor, ClientToken='x' * 65) == ('InvalidParameterValue', 400)
    failed = {'ClientToken': 'at last', 'SecurityGroupIds': ['sg-0123456789abcdef0']}
    assert refused(run, ec2=ec2, image=image, flavor=flavor, **failed)[0] == 'InvalidGroup.NotFound'
    assert refused(run, ec2=ec2, image=image, flavor=flavor, ClientToken='at last', MinCount=500, MaxCount=500) == (
        'InstanceLimitExceeded', 400)
    made = run(ec2, image, flavor, ClientToken='at last')                  # what was refused does not count
    ec2.terminate_instances(InstanceIds=[made['Instances'][0]['InstanceId']])
    ec2.terminate_instances(InstanceIds=[first['Instances'][0]['InstanceId']])


def test_instances_that_no_request_has_named_yet_are_found_by_their_ids(cloud, ec2, image, flavor):
    """RunInstances writes no row for them: any process finds the uuid that begins with the digits."""
    made = [row['InstanceId'] for row in run(ec2, image, flavor, MinCount=2, MaxCount=2)['Instances']]
    with cloud.api_db.reader() as conn:
        rows = conn.execute(sa.select(tables.ec2_ids.c.digits).where(tables.ec2_ids.c.prefix == 'i')).scalars().all()
    assert not {ident[2:] for ident in made} & set(rows)
    assert len(ec2_ids.uuids(cloud.api_db, 'i', [ident[2:] for ident in made])) == 2
    assert ec2_ids.uuids(cloud.api_db, 'i', ['0' * 17, 'f' * 17]) == {}
    ec2.terminate_instances(InstanceIds=made)


def test_the_instances_of_a_request_are_one_reservation(cloud, demo, ec2, image, flavor):
    """RunInstances named a reservation that DescribeInstances did not show."""
    made = run(ec2, image, flavor, MinCount=3, MaxCount=3, TagSpecifications=[
        {'ResourceType': 'instance', 'Tags': [{'Key': 'Name', 'Value': 'many'}]}])
    ids, ident = [row['InstanceId'] for row in made['Instances']], made['ReservationId']
    assert [row['AmiLaunchIndex'] for row in made['Instances']] == [0, 1, 2]
    assert [row['PrivateDnsName'] for row in made['Instances']] == [f'many-{number}' for number in range(1, 4)]
    alone = run(ec2, image, flavor)
    for more in ({}, {'Filters': [{'Name': 'reservation-id', 'Values': [ident, alone['ReservationId']]}]}):
        shown = {row['ReservationId']: row['Instances'] for row in ec2.describe_instances(**more)['Reservations']}
        assert sorted(row['InstanceId'] for row in shown[ident]) == sorted(ids)
        assert [row['AmiLaunchIndex'] for row in shown[alone['ReservationId']]] == [0]
    assert set(shown) == {ident, alone['ReservationId']}
    assert not [tag for row in shown[ident] for tag in row['Tags'] if tag['Key'] != 'Name']
    uuid = ec2_ids.uuids(cloud.api_db, 'i', [ids[0][2:]])[ids[0][2:]]
    assert demo.get(f'/servers/{uuid}').json()['server']['metadata'][utils.EC2_RESERVATION] == f'{ident}/3'
    ec2.terminate_instances(InstanceIds=[*ids, alone['Instances'][0]['InstanceId']])


def test_a_server_of_the_compute_api_is_a_reservation_of_its_own(ec2, demo):
    made = demo.boot(demo.upload_image(), networks='none', version='2.37',
                     metadata={utils.EC2_RESERVATION: 'r-<b>'})['id']
    shown, = ec2.describe_instances(InstanceIds=[utils.ec2_id(made)])['Reservations']
    assert shown['ReservationId'] == utils.ec2_id(made, 'r') and shown['Instances'][0]['AmiLaunchIndex'] == 0
    demo.delete(f'/servers/{made}')


def test_no_client_chooses_the_reservation_of_its_servers(cloud, demo, ec2, image, flavor):
    """The compute API took its reservation_id from the metadata of any caller: also that of the servers of others."""
    made = run(ec2, image, flavor, MinCount=2, MaxCount=2, ClientToken='two of one')
    item, admin = {utils.EC2_RESERVATION: f'{made["ReservationId"]}/2'}, cloud.admin('2.96')

    def reserved():
        found = admin.get(f'/servers/detail?all_tenants=1&reservation_id={made["ReservationId"]}').json()['servers']
        return sorted(utils.ec2_id(row['id']) for row in found)
    ids = sorted(row['InstanceId'] for row in made['Instances'])
    other = demo.request('POST', '/servers', {'server': {
        'name': 'x', 'imageRef': demo.image, 'flavorRef': '1', 'networks': 'none', 'metadata': item}}, version='2.37',
        headers={'nova.ec2': '1', 'Nova-Ec2': '1', 'Nova.Ec2': '1'}).json()['server']['id']
    assert reserved() == ids
    uuid = ec2_ids.uuids(cloud.api_db, 'i', [ids[0][2:]])[ids[0][2:]]
    demo.wait_for(uuid)                  # metadata of a server that is built do not change
    assert demo.request('POST', f'/servers/{uuid}/metadata', {'metadata': {
        utils.EC2_RESERVATION: f'r-{"0" * 17}/1'}}).status_code == 200
    again = run(ec2, image, flavor, MinCount=2, MaxCount=2, ClientToken='two of one')
    assert reserved() == ids == sorted(row['InstanceId'] for row in again['Instances'])
    demo.delete(f'/servers/{other}')
    ec2.terminate_instances(InstanceIds=ids)


def test_one_instance_is_of_the_reservation_that_is_shown_later(ec2, image, flavor):
    """RunInstances named another one than DescribeInstances."""
    made = run(ec2, image, flavor, ClientToken='one reservation')
    shown, = ec2.describe_instances(InstanceIds=[made['Instances'][0]['InstanceId']])['Reservations']
    assert made['ReservationId'] == shown['ReservationId']
    assert made['Instances'][0]['LaunchTime'] == shown['Instances'][0]['LaunchTime']
    ec2.terminate_instances(InstanceIds=[made['Instances'][0]['InstanceId']])
    ec2.get_waiter('instance_terminated').wait(InstanceIds=[made['Instances'][0]['InstanceId']],
                                               WaiterConfig={'Delay': 0.2, 'MaxAttempts': 100})
    again = run(ec2, image, flavor, ClientToken='one reservation')
    assert (again['ReservationId'], again['Instances']) == (made['ReservationId'], [])


def test_missing_image_or_instance_type_is_refused_also_in_a_dry_run(ec2, image, flavor, demo):
    """The compute API looks for the image; a dry run has to look itself."""
    before = {row['ImageId'] for row in ec2.describe_images()['Images']}
    with_image = demo.upload_image(b'gone')
    gone, = {row['ImageId'] for row in ec2.describe_images()['Images']} - before
    demo.delete(f'/image/v2/images/{with_image}')
    for more in ({}, {'DryRun': True}):
        assert refused(run, ec2=ec2, image=gone, flavor=flavor, **more) == ('InvalidAMIID.NotFound', 400)
        assert refused(run, ec2=ec2, image=image, flavor=flavor[:-1], **more) == ('InvalidInstanceType', 400)
    assert refused(run, ec2=ec2, image=image, flavor=flavor, DryRun=True) == ('DryRunOperation', 412)


def test_key_pairs_are_created_imported_and_deleted(ec2):
    made = ec2.create_key_pair(KeyName='made here')
    assert made['KeyMaterial'].startswith('-----BEGIN') and made['KeyPairId'].startswith('key-')
    assert refused(ec2.create_key_pair, KeyName='made here') == ('InvalidKeyPair.Duplicate', 400)
    public = ec2.describe_key_pairs(KeyNames=['made here'], IncludePublicKey=True)['KeyPairs'][0]['PublicKey']
    assert ec2.import_key_pair(KeyName='imported', PublicKeyMaterial=public.encode())['KeyFingerprint']
    assert refused(ec2.import_key_pair, KeyName='bad', PublicKeyMaterial=b'nonsense') == ('InvalidKey.Format', 400)
    ec2.delete_key_pair(KeyPairId=made['KeyPairId'])
    ec2.delete_key_pair(KeyName='imported')
    ec2.delete_key_pair(KeyName='imported')
    assert ec2.describe_key_pairs()['KeyPairs'] == []


def _describe_rules(ec2, group, permission, rule):
    """Descriptions of rules are set by their ids and by what they allow; what is not there changes nothing."""
    def shown():
        found, = ec2.describe_security_group_rules(SecurityGroupRuleIds=[rule])['SecurityGroupRules']
        return found.get('Description')

    def described(text):
        return {**permission, 'IpRanges': [{**permission['IpRanges'][0], 'Description': text}]}
    change = ec2.update_security_group_rule_descriptions_ingress
    change(GroupId=group, SecurityGroupRuleDescriptions=[{'SecurityGroupRuleId': rule, 'Description': 'the web'}])
    assert shown() == 'the web'
    change(GroupName='web', IpPermissions=[described('all')])
    assert shown() == 'all'
    other = {**described('none'), 'ToPort': 82}
    assert refused(change, GroupId=group, IpPermissions=[described('half'), other])[0] == 'InvalidPermission.NotFound'
    assert refused(ec2.update_security_group_rule_descriptions_egress, GroupId=group, SecurityGroupRuleDescriptions=[
        {'SecurityGroupRuleId': rule}])[0] == 'InvalidSecurityGroupRuleId.NotFound'
    assert refused(change, GroupId=group)[0] == 'MissingParameter' and shown() == 'all'
    change(GroupId=group, SecurityGroupRuleDescriptions=[{'SecurityGroupRuleId': rule}])
    assert shown() is None
    assert refused(ec2.modify_security_group_rules, GroupId=group, SecurityGroupRules=[
        {'SecurityGroupRuleId': rule}])[0] == 'MissingParameter'


def test_security_groups_are_created_and_changed(ec2):
    made = ec2.create_security_group(GroupName='web', Description='of the web')['GroupId']
    assert refused(ec2.create_security_group, GroupName='web', Description='') == ('InvalidGroup.Duplicate', 400)
    permission = {'IpProtocol': 'tcp', 'FromPort': 80, 'ToPort': 81, 'IpRanges': [{'CidrIp': '10.0.0.0/8'}]}
    rule = ec2.authorize_security_group_ingress(GroupId=made, IpPermissions=[permission])['SecurityGroupRules'][0]
    assert rule['CidrIpv4'] == '10.0.0.0/8' and rule['FromPort'] == 80
    assert refused(ec2.authorize_security_group_ingress, GroupId=made, IpPermissions=[permission]) == (
        'InvalidPermission.Duplicate', 400)
    ec2.authorize_security_group_ingress(GroupId=made, IpPermissions=[
        {'IpProtocol': '-1', 'UserIdGroupPairs': [{'GroupId': made}]},
        {'IpProtocol': 'icmp', 'FromPort': -1, 'ToPort': -1, 'IpRanges': [{'CidrIp': '0.0.0.0/0'}]}])
    shown, = ec2.describe_security_groups(GroupIds=[made])['SecurityGroups']
    assert len(shown['IpPermissions']) == 3
    pairs = [part for row in shown['IpPermissions'] for part in row.get('UserIdGroupPairs') or ()]
    assert [part['GroupId'] for part in pairs] == [made]
    _describe_rules(ec2, made, permission, rule['SecurityGroupRuleId'])
    ec2.revoke_security_group_ingress(GroupId=made, IpPermissions=[permission])
    assert refused(ec2.revoke_security_group_ingress, GroupId=made, IpPermissions=[permission]) == (
        'InvalidPermission.NotFound', 400)
    assert len(ec2.describe_security_group_rules(Filters=[
        {'Name': 'group-id', 'Values': [made]}])['SecurityGroupRules']) == 4         # two of egress come with it
    ec2.create_tags(Resources=[made], Tags=[{'Key': 'of', 'Value': 'web'}])
    assert ec2.describe_tags(Filters=[{'Name': 'resource-id', 'Values': [made]}])['Tags'] == [
        {'ResourceId': made, 'ResourceType': 'security-group', 'Key': 'of', 'Value': 'web'}]
    ec2.delete_security_group(GroupId=made)
    assert refused(ec2.describe_security_groups, GroupIds=[made]) == ('InvalidGroup.NotFound', 400)


@pytest.mark.parametrize(('protocol', 'given', 'shown'), [
    ('tcp', (0, 65535), (0, 65535)), ('17', (0, 65535), (0, 65535)), ('tcp', (0, 1024), (1, 1024)),
    ('50', (-1, -1), (-1, -1)), ('47', (0, 0), (-1, -1)), ('51', (22, 22), (-1, -1)), ('132', (-1, -1), (-1, -1)),
    ('132', (0, 65535), (-1, -1)), ('132', (22, 22), (22, 22)), ('132', (0, 0), (-1, -1)),
    ('icmp', (-1, -1), (-1, -1)), ('icmp', (8, -1), (8, -1)), ('-1', (0, 0), (-1, -1))])
def test_ports_of_rules_have_the_meaning_of_ec2(ec2, protocol, given, shown):
    """Clients send 0 to 65535 for all ports of TCP and UDP. Ports of protocols without ports have no effect."""
    group = ec2.create_security_group(GroupName='ports', Description='-')['GroupId']
    try:
        permission = {'IpProtocol': protocol, 'FromPort': given[0], 'ToPort': given[1],
                      'IpRanges': [{'CidrIp': '192.0.2.0/24'}]}
        rule, = ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[permission])['SecurityGroupRules']
        assert (rule['FromPort'], rule['ToPort']) == shown
        found, = ec2.describe_security_groups(GroupIds=[group])['SecurityGroups'][0]['IpPermissions']
        assert (found.get('FromPort', -1), found.get('ToPort', -1)) == shown
        again = {'IpProtocol': found['IpProtocol'], 'FromPort': rule['FromPort'], 'ToPort': rule['ToPort']}
        assert refused(ec2.authorize_security_group_ingress, GroupId=group, IpPermissions=[
            {**permission, **again}]) == ('InvalidPermission.Duplicate', 400)         # the shown form is the same rule
        ec2.revoke_security_group_ingress(GroupId=group, IpPermissions=[permission])
        assert ec2.describe_security_groups(GroupIds=[group])['SecurityGroups'][0]['IpPermissions'] == []
    finally:
        ec2.delete_security_group(GroupId=group)


@pytest.mark.parametrize('ports', [(-1, -1), (0, 0), (5, 4), (1, 65536), (-1, 80)])
def test_invalid_ports_of_rules_are_refused_in_terms_of_ec2(ec2, ports):
    group = ec2.create_security_group(GroupName='invalid-ports', Description='-')['GroupId']
    with pytest.raises(botocore.exceptions.ClientError) as error:
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[
            {'IpProtocol': 'tcp', 'FromPort': ports[0], 'ToPort': ports[1], 'IpRanges': [{'CidrIp': '192.0.2.0/24'}]}])
    ec2.delete_security_group(GroupId=group)
    found = error.value.response['Error']
    assert found['Code'] == 'InvalidParameterValue' and 'FromPort and ToPort' in found['Message']


def test_a_group_that_is_used_is_named_as_its_client_knows_it(ec2, image, flavor):
    group = ec2.create_security_group(GroupName='used', Description='')['GroupId']
    instance = run(ec2, image, flavor, SecurityGroupIds=[group])['Instances'][0]['InstanceId']
    ec2.get_waiter('instance_running').wait(InstanceIds=[instance], WaiterConfig={'Delay': 0.2, 'MaxAttempts': 100})
    with pytest.raises(botocore.exceptions.ClientError) as error:
        ec2.delete_security_group(GroupId=group)
    said = error.value.response['Error']
    assert said['Code'] == 'DependencyViolation' and group in said['Message']
    assert not re.search('[0-9a-f]{8}-[0-9a-f]{4}-', said['Message'])
    ec2.terminate_instances(InstanceIds=[instance])


def test_volumes_and_snapshots_are_managed(ec2, image, flavor):
    made = ec2.create_volume(Size=1, AvailabilityZone='nova', TagSpecifications=[
        {'ResourceType': 'volume', 'Tags': [{'Key': 'Name', 'Value': 'data'}]}])['VolumeId']
    ec2.get_waiter('volume_available').wait(VolumeIds=[made], WaiterConfig={'Delay': 0.2, 'MaxAttempts': 100})
    instance = run(ec2, image, flavor)['Instances'][0]['InstanceId']
    ec2.get_waiter('instance_running').wait(InstanceIds=[instance], WaiterConfig={'Delay': 0.2, 'MaxAttempts': 100})
    ec2.attach_volume(VolumeId=made, InstanceId=instance, Device='/dev/vdb')
    ec2.get_waiter('volume_in_use').wait(VolumeIds=[made], WaiterConfig={'Delay': 0.2, 'MaxAttempts': 100})
    shown, = ec2.describe_volumes(Filters=[{'Name': 'attachment.instance-id', 'Values': [instance]}])['Volumes']
    assert shown['VolumeId'] == made and shown['Tags'] == [{'Key': 'Name', 'Value': 'data'}]
    assert refused(ec2.delete_volume, VolumeId=made) == ('VolumeInUse', 400)
    snapshot = ec2.create_snapshot(VolumeId=made, Description='of its data')['SnapshotId']
    ec2.get_waiter('snapshot_completed').wait(SnapshotIds=[snapshot], WaiterConfig={'Delay': 0.2, 'MaxAttempts': 100})
    assert ec2.describe_snapshots(OwnerIds=['self'], SnapshotIds=[snapshot])['Snapshots'][0]['VolumeId'] == made
    ec2.detach_volume(VolumeId=made)
    ec2.get_waiter('volume_available').wait(VolumeIds=[made], WaiterConfig={'Delay': 0.2, 'MaxAttempts': 100})
    ec2.delete_snapshot(SnapshotId=snapshot)
    ec2.terminate_instances(InstanceIds=[instance])
    assert refused(ec2.describe_volumes, VolumeIds=['vol-ffffffff']) == ('InvalidVolume.NotFound', 400)


def test_cached_description_of_an_instance_reflects_changes(cloud, ec2, image, flavor, demo):
    """Whatever changes, the text that was written before is not shown again. With filters nothing is remembered."""
    group = ec2.create_security_group(GroupName='remembered', Description='')['GroupId']
    made = run(ec2, image, flavor, SecurityGroupIds=[group])['Instances'][0]['InstanceId']
    ec2.get_waiter('instance_running').wait(InstanceIds=[made], WaiterConfig={'Delay': 0.2, 'MaxAttempts': 100})
    volume = ec2.create_volume(Size=1, AvailabilityZone='nova')['VolumeId']
    ec2.get_waiter('volume_available').wait(VolumeIds=[volume], WaiterConfig={'Delay': 0.2, 'MaxAttempts': 100})
    uuid = next(row['id'] for row in demo.get('/servers').json()['servers'] if utils.ec2_id(row['id']) == made)
    groups = demo.get('/network/v2.0/security-groups?name=remembered').json()['security_groups']
    port, = demo.get(f'/network/v2.0/ports?device_id={uuid}').json()['ports']
    changes = (
        lambda: None,
        lambda: ec2.create_tags(Resources=[made], Tags=[{'Key': 'role', 'Value': 'a&b'}]),
        lambda: demo.put(f'/network/v2.0/security-groups/{groups[0]["id"]}', {'security_group': {'name': 'renamed'}}),
        lambda: demo.put(f'/servers/{uuid}', {'server': {'name': 'renamed'}}),
        lambda: demo.put(f'/network/v2.0/ports/{port["id"]}', {'port': {'security_groups': []}}),
        lambda: ec2.attach_volume(VolumeId=volume, InstanceId=made, Device='/dev/vdb'),
        lambda: ec2.modify_instance_metadata_options(InstanceId=made, HttpTokens='required'),
        lambda: ec2.stop_instances(InstanceIds=[made]))
    seen = []

    def shown(**more):
        found = ec2.describe_instances(**more)['Reservations']
        return [row for row in found if row['Instances'][0]['InstanceId'] == made]

    def settled():
        seen.append(shown())
        return shown(Filters=[{'Name': 'instance-id', 'Values': ['i-*']}]) == seen[-1] == shown(InstanceIds=[made])
    for change in changes:
        change()
        waiting.wait_for(settled, 20, 'the change')
    assert len({json.dumps(row, default=str) for row in seen}) >= len(changes)
    assert seen[-1][0]['Instances'][0]['SecurityGroups'] == []
    ec2.terminate_instances(InstanceIds=[made])


def test_one_client_token_makes_one_volume(cloud, pair, ec2):
    """However many requests come at the same moment."""
    def make(_number):
        try:
            return boto(cloud, pair).create_volume(Size=1, AvailabilityZone='nova', ClientToken='twice')['VolumeId']
        except botocore.exceptions.ClientError as error:
            assert error.response['Error']['Code'] == 'Unavailable', 'the first one is still at work'
            return None
    before = {row['VolumeId'] for row in ec2.describe_volumes()['Volumes']}
    with futures.ThreadPoolExecutor(8) as pool:
        made = {volume for volume in pool.map(make, range(8)) if volume}
    assert len(made) == 1 and {row['VolumeId'] for row in ec2.describe_volumes()['Volumes']} - before == made
    assert make(0) in made
    assert refused(ec2.create_volume, Size=2, AvailabilityZone='nova', ClientToken='twice') == (
        'IdempotentParameterMismatch', 400)
    assert refused(ec2.create_volume, AvailabilityZone='nova', SnapshotId='snap-ffffffff', ClientToken='free')[0] == (
        'InvalidSnapshot.NotFound')
    assert ec2.create_volume(Size=1, AvailabilityZone='nova', ClientToken='free')['VolumeId'], 'it was not used up'


def test_client_token_of_an_interrupted_request_finds_its_volume(cloud, ec2):
    """The volume is there, the row has no end: a later request finds it by its metadata."""
    made = ec2.create_volume(Size=1, AvailabilityZone='nova', ClientToken='broken')['VolumeId']
    rows = tables.ec2_client_tokens
    with cloud.api_db.writer() as conn:
        conn.execute(sa.update(rows).values(uuid=None))
    again = {'Size': 1, 'AvailabilityZone': 'nova', 'ClientToken': 'broken'}
    assert refused(ec2.create_volume, **again) == ('Unavailable', 503)
    with cloud.api_db.writer() as conn:
        conn.execute(sa.update(rows).values(attempted_at=utils.utcnow() - datetime.timedelta(
            seconds=attempts.ABANDONED_S + 1)))
    assert ec2.create_volume(**again)['VolumeId'] == made


def test_client_tokens_of_a_project_have_a_bound(ec2, monkeypatch):
    monkeypatch.setattr(attempts.CLIENT_TOKENS, 'most', 0)
    assert refused(ec2.create_volume, Size=1, AvailabilityZone='nova', ClientToken='one more') == (
        'RequestLimitExceeded', 503)


def test_a_dry_run_proves_what_can_be_known(cloud, ec2, demo, image, flavor):
    """It looks things up, asks the compute API's rules of the write, and writes nothing."""
    before = len(ec2.describe_instances()['Reservations'])
    assert refused(run, ec2=ec2, image=image, flavor=flavor, DryRun=True) == ('DryRunOperation', 412)
    assert refused(run, ec2=ec2, image=image, flavor='no such', DryRun=True)[0] == 'InvalidInstanceType'
    assert refused(ec2.create_volume, Size=1, AvailabilityZone='nova', ClientToken='dry', DryRun=True)[0] == (
        'DryRunOperation')
    assert refused(ec2.create_key_pair, KeyName='dry', DryRun=True)[0] == 'DryRunOperation'
    assert refused(ec2.create_tags, Resources=[image], Tags=[{'Key': 'dry', 'Value': 'x'}], DryRun=True)[0] == (
        'DryRunOperation')
    assert refused(ec2.describe_regions, DryRun=True)[0] == 'DryRunOperation'
    assert refused(ec2.terminate_instances, InstanceIds=['i-0ffffff0'], DryRun=True)[0] == 'InvalidInstanceID.NotFound'
    assert len(ec2.describe_instances()['Reservations']) == before
    assert not ec2.describe_key_pairs(Filters=[{'Name': 'key-name', 'Values': ['dry']}])['KeyPairs']
    assert not ec2.describe_tags(Filters=[{'Name': 'key', 'Values': ['dry']}])['Tags']


def test_regions_zones_and_subnets_are_described(ec2):
    assert ec2.describe_regions()['Regions'][0]['RegionName'] == 'RegionOne'
    assert [zone['ZoneName'] for zone in ec2.describe_availability_zones()['AvailabilityZones']] == ['nova']
    vpc, = ec2.describe_vpcs()['Vpcs']
    subnets = ec2.describe_subnets(Filters=[{'Name': 'vpc-id', 'Values': [vpc['VpcId']]}])['Subnets']
    assert subnets and subnets[0]['SubnetId'].startswith('subnet-')
    assert ec2.describe_account_attributes(AttributeNames=['max-instances'])['AccountAttributes']
    assert isinstance(ec2.describe_network_interfaces()['NetworkInterfaces'], list)


def test_instances_are_paged(ec2, image, flavor):
    made = run(ec2, image, flavor, MinCount=6, MaxCount=6)
    ids = sorted(row['InstanceId'] for row in made['Instances'])
    first = ec2.describe_instances(MaxResults=5)
    seen = [one['InstanceId'] for row in first['Reservations'] for one in row['Instances']]
    assert len(seen) == 5 and first['NextToken']
    rest = ec2.describe_instances(MaxResults=5, NextToken=first['NextToken'])
    seen += [one['InstanceId'] for row in rest['Reservations'] for one in row['Instances']]
    assert set(ids) <= set(seen) and len(seen) == len(set(seen))
    assert refused(ec2.describe_instances, MaxResults=4) == ('InvalidParameterValue', 400)
    ec2.terminate_instances(InstanceIds=ids)


def test_invalid_ec2_requests_return_the_documented_error_codes(cloud, ec2, pair, image, flavor):
    assert refused(ec2.run_instances, ImageId=image, InstanceType='no such', MinCount=1, MaxCount=1) == (
        'InvalidInstanceType', 400)
    assert refused(ec2.run_instances, ImageId=image, InstanceType=flavor, MinCount=1, MaxCount=1,
                   IamInstanceProfile={'Name': 'x'}) == ('UnsupportedOperation', 400)
    assert refused(ec2.get_ebs_default_kms_key_id) == ('InvalidAction', 400)
    assert refused(ec2.describe_instances, InstanceIds=['i-zzz']) == ('InvalidInstanceID.Malformed', 400)
    assert refused(ec2.describe_instances, InstanceIds=['i-0ffffff0']) == ('InvalidInstanceID.NotFound', 400)
    assert refused(ec2.run_instances, ImageId=image, InstanceType=flavor, MinCount=1, MaxCount=1, DryRun=True) == (
        'DryRunOperation', 412)
    wrong = boto(cloud, {**pair, 'secret': 'x' * 40})
    assert refused(wrong.describe_regions) == ('AuthFailure', 401)
    assert refused(boto(cloud, {'access': 'a' * 32, 'secret': 'b' * 40}).describe_regions) == ('AuthFailure', 401)


def test_another_project_sees_nothing(cloud, ec2, image, flavor):
    admin = cloud.admin()
    other = boto(cloud, keys_of(admin))
    instance = run(ec2, image, flavor)['Instances'][0]['InstanceId']
    volume = ec2.create_volume(Size=1, AvailabilityZone='nova')['VolumeId']
    group = ec2.create_security_group(GroupName='private', Description='')['GroupId']
    assert other.describe_instances()['Reservations'] == [] and other.describe_volumes()['Volumes'] == []
    assert group not in [row['GroupId'] for row in other.describe_security_groups()['SecurityGroups']]
    assert refused(other.describe_security_groups, GroupIds=[group])[0] == 'InvalidGroup.NotFound'
    third = member_of_another_project(cloud, admin)
    third.upload_image(b'\0' * 1024, name='third')
    member = boto(cloud, keys_of(third))
    own = member.describe_images()['Images'][0]['ImageId']
    for shown in (group, 'sg-0123456789abcdef0'):
        assert refused(run, ec2=member, image=own, flavor=flavor,
                       SecurityGroupIds=[shown])[0] == 'InvalidGroup.NotFound', 'both are answered alike'
    ec2.terminate_instances(InstanceIds=[instance])
    ec2.delete_security_group(GroupId=group)
    assert volume


GROUP, OTHER = {'Group': 'all'}, {'UserId': 'f' * 32}


@pytest.mark.parametrize('administrator, changes, refusal', [
    (True, [({'Add': [GROUP]}, [GROUP]), ({'Remove': [GROUP]}, []), ({'Add': [OTHER]}, [OTHER])], None),
    (False, [({'Add': [OTHER]}, [OTHER]), ({'Remove': [OTHER]}, [])], {'Add': [GROUP]}),
], ids=['administrator', 'owner'])
def test_launch_permissions_are_changed_or_refused(cloud, demo, administrator, changes, refusal):
    """A change of visibility was sent as another kind of document than the patch that it is, and ended in an
    InternalError. An administrator alone makes an image public.
    """
    client = cloud.admin() if administrator else demo
    uuid = client.upload_image(b'\0' * 1024, name='permitted', visibility='private')
    ec2 = boto(cloud, keys_of(client))
    image, = [row['ImageId'] for row in ec2.describe_images(Owners=['self'])['Images'] if row['Name'] == 'permitted']
    for change, wanted in changes:
        ec2.modify_image_attribute(ImageId=image, LaunchPermission=change)
        assert ec2.describe_image_attribute(
            ImageId=image, Attribute='launchPermission')['LaunchPermissions'] == wanted
    assert client.get(f'/image/v2/images/{uuid}').json()['visibility'] == 'shared'
    assert ec2.describe_image_attribute(ImageId=image, Attribute='productCodes')['ProductCodes'] == []
    if refusal:
        assert refused(ec2.modify_image_attribute, ImageId=image, LaunchPermission=refusal)[0] == (
            'UnauthorizedOperation')
    else:
        ec2.modify_image_attribute(ImageId=image, LaunchPermission={'Add': [GROUP]})
        assert refused(ec2.modify_image_attribute, ImageId=image, LaunchPermission={'Add': [OTHER]})[0] == (
            'UnsupportedOperation')
        assert client.get(f'/image/v2/images/{uuid}').json()['visibility'] == 'public'
    ec2.deregister_image(ImageId=image)


def test_spread_placement_group_separates_instances(cloud, ec2, image, flavor):
    """Of the strategy spread: the second instance finds no other host."""
    assert refused(ec2.create_placement_group, GroupName='p', Strategy='partition')[0] == 'UnsupportedOperation'
    made = ec2.create_placement_group(GroupName='apart', Strategy='spread', TagSpecifications=[
        {'ResourceType': 'placement-group', 'Tags': [{'Key': 'a', 'Value': 'b'}]}])['PlacementGroup']
    assert made['GroupId'].startswith('pg-') and made['Tags'] == [{'Key': 'a', 'Value': 'b'}]
    assert refused(ec2.create_placement_group, GroupName='apart', Strategy='spread')[0] == (
        'InvalidPlacementGroup.Duplicate')
    assert ec2.describe_placement_groups(GroupNames=['apart'])['PlacementGroups'] == [made]
    assert refused(ec2.describe_placement_groups, GroupNames=['far'])[0] == 'InvalidPlacementGroup.Unknown'
    assert refused(run, ec2=ec2, image=image, flavor=flavor, Placement={'GroupName': 'far'})[0] == (
        'InvalidPlacementGroup.Unknown')
    other = boto(cloud, keys_of(cloud.admin()))
    assert other.describe_placement_groups()['PlacementGroups'] == [], 'a group is its project\'s'
    instances = []
    for _number in range(2):
        instances += [run(ec2, image, flavor, Placement={'GroupName': 'apart'})['Instances'][0]['InstanceId']]
        if len(instances) == 1:          # the two would race for the host
            ec2.get_waiter('instance_running').wait(InstanceIds=instances, WaiterConfig={
                'Delay': 0.2, 'MaxAttempts': 200})
    waiting.wait_for(lambda: ec2.describe_instances(InstanceIds=instances[1:])['Reservations'][0]['Instances'][0][
        'State']['Name'] == 'terminated', 30, 'the second one to find no host')
    assert refused(ec2.delete_placement_group, GroupName='apart')[0] == 'InvalidPlacementGroup.InUse'
    ec2.terminate_instances(InstanceIds=instances)
    ec2.get_waiter('instance_terminated').wait(InstanceIds=instances, WaiterConfig={'Delay': 1})
    ec2.delete_placement_group(GroupName='apart')
    assert ec2.describe_placement_groups()['PlacementGroups'] == []


def test_a_place_that_would_not_be_carried_out_is_refused(ec2, image, flavor):
    for placement in ({'Tenancy': 'dedicated'}, {'HostId': 'h-1'}, {'PartitionNumber': 1}):
        assert refused(run, ec2=ec2, image=image, flavor=flavor, Placement=placement)[0] == 'UnsupportedOperation'
    made = run(ec2, image, flavor, Placement={'AvailabilityZone': 'nova', 'Tenancy': 'default'})['Instances'][0]
    ec2.terminate_instances(InstanceIds=[made['InstanceId']])


def test_launch_templates_are_managed_and_used(cloud, ec2, image, flavor):
    data = {'ImageId': image, 'InstanceType': flavor, 'UserData': base64.b64encode(b'#!').decode(),
            'Placement': {'AvailabilityZone': 'nova', 'Tenancy': 'default'}, 'Monitoring': {'Enabled': False},
            'TagSpecifications': [{'ResourceType': 'instance', 'Tags': [{'Key': 'Name', 'Value': 'templated'}]}]}
    made = ec2.create_launch_template(LaunchTemplateName='web', LaunchTemplateData=data, VersionDescription='first',
                                      ClientToken='web')['LaunchTemplate']
    assert made['LaunchTemplateId'].startswith('lt-') and len(made['LaunchTemplateId']) == 20
    assert (made['DefaultVersionNumber'], made['LatestVersionNumber']) == (1, 1)
    by_id, by_name = {'LaunchTemplateId': made['LaunchTemplateId']}, {'LaunchTemplateName': 'web'}
    again = ec2.create_launch_template(LaunchTemplateName='web', LaunchTemplateData=data, VersionDescription='first',
                                       ClientToken='web')['LaunchTemplate']
    assert again == made
    assert refused(ec2.create_launch_template, LaunchTemplateName='web', LaunchTemplateData=data)[0] == (
        'InvalidLaunchTemplateName.AlreadyExistsException')
    second = ec2.create_launch_template_version(**by_name, SourceVersion='1', LaunchTemplateData={
        'InstanceType': 'no such'})['LaunchTemplateVersion']
    assert second['VersionNumber'] == 2 and second['LaunchTemplateData']['ImageId'] == image
    shown = ec2.describe_launch_template_versions(**by_id)['LaunchTemplateVersions']
    assert [(row['VersionNumber'], row['DefaultVersion'], row.get('VersionDescription')) for row in shown] == [
        (1, True, 'first'), (2, False, None)]
    assert shown[0]['LaunchTemplateData'] == data
    latest = ec2.describe_launch_template_versions(Versions=['$Latest'])['LaunchTemplateVersions']
    assert [row['VersionNumber'] for row in latest] == [2]

    ran = ec2.run_instances(MinCount=1, MaxCount=1, LaunchTemplate=by_name)['Instances'][0]
    assert ran['ImageId'] == image and {'Key': 'Name', 'Value': 'templated'} in ran['Tags']
    for version, code in (('$Latest', 'InvalidInstanceType'), ('7', 'InvalidLaunchTemplateId.VersionNotFound'),
                          ('x', 'InvalidParameterValue')):
        assert refused(ec2.run_instances, MinCount=1, MaxCount=1, LaunchTemplate={**by_id, 'Version': version})[0] == (
            code)
    other = ec2.run_instances(MinCount=1, MaxCount=1, LaunchTemplate={**by_id, 'Version': '2'}, InstanceType=flavor)
    ec2.terminate_instances(InstanceIds=[ran['InstanceId'], other['Instances'][0]['InstanceId']])

    ec2.create_launch_template_version(**by_id, LaunchTemplateData={'InstanceType': flavor})
    ec2.delete_launch_template_versions(**by_id, Versions=['$Latest'])
    assert ec2.describe_launch_templates()['LaunchTemplates'][0]['LatestVersionNumber'] == 2
    assert ec2.create_launch_template_version(**by_id, LaunchTemplateData={'InstanceType': flavor})[
        'LaunchTemplateVersion']['VersionNumber'] == 4, 'a number never comes again'
    once = {**by_id, 'DefaultVersion': '4', 'ClientToken': 'default'}
    assert ec2.modify_launch_template(**once)['LaunchTemplate']['DefaultVersionNumber'] == 4
    assert ec2.modify_launch_template(**by_id, DefaultVersion='2')['LaunchTemplate']['DefaultVersionNumber'] == 2
    ec2.modify_launch_template(**once)                 # repeated, as a client does that has lost the answer
    assert ec2.describe_launch_templates()['LaunchTemplates'][0]['DefaultVersionNumber'] == 2
    assert refused(ec2.modify_launch_template, **{**once, 'DefaultVersion': '1'})[0] == 'IdempotentParameterMismatch'
    gone = ec2.delete_launch_template_versions(**by_id, Versions=['1', '2', '9'])
    assert [row['VersionNumber'] for row in gone['SuccessfullyDeletedLaunchTemplateVersions']] == [1]
    assert [(row['VersionNumber'], row['ResponseError']['Code'])
            for row in gone['UnsuccessfullyDeletedLaunchTemplateVersions']] == [
        (2, 'unexpectedError'), (9, 'launchTemplateVersionDoesNotExist')]
    stranger = boto(cloud, keys_of(cloud.admin()))
    assert stranger.describe_launch_templates()['LaunchTemplates'] == []
    for call in (stranger.delete_launch_template, stranger.describe_launch_template_versions):
        assert refused(call, **by_id)[0] == 'InvalidLaunchTemplateId.NotFound'
        assert refused(call, **by_name)[0] == 'InvalidLaunchTemplateName.NotFoundException'
    assert refused(stranger.run_instances, MinCount=1, MaxCount=1, LaunchTemplate=by_id)[0] == (
        'InvalidLaunchTemplateId.NotFound')
    assert refused(ec2.delete_launch_template, **by_id, DryRun=True)[0] == 'DryRunOperation'
    assert [row['LaunchTemplateName'] for row in ec2.describe_launch_templates(
        LaunchTemplateNames=['web'])['LaunchTemplates']] == ['web']
    ec2.delete_launch_template(**by_id)
    assert ec2.describe_launch_templates()['LaunchTemplates'] == []
    assert refused(ec2.describe_launch_templates, LaunchTemplateIds=[made['LaunchTemplateId']])[0] == (
        'InvalidLaunchTemplateId.NotFound')


@pytest.mark.parametrize('name, data, code', [
    ('ok1', {'IamInstanceProfile': {'Name': 'x'}}, 'UnsupportedOperation'),
    ('ok1', {'NetworkInterfaces': [{'DeviceIndex': 1}]}, 'UnsupportedOperation'),
    ('ok1', {'NetworkInterfaces': [{'Description': 'x'}]}, 'UnsupportedOperation'),
    ('ok1', {'NetworkInterfaces': [{'DeviceIndex': 0}], 'SecurityGroupIds': ['sg-0123456789abcdef0']},
     'InvalidParameterCombination'),
    ('ok1', {'Placement': {'Tenancy': 'dedicated'}}, 'UnsupportedOperation'),
    ('ok1', {'BlockDeviceMappings': [{'DeviceName': 'vdb', 'Ebs': {'Iops': 5}}]}, 'UnsupportedOperation'),
    ('ok1', {'TagSpecifications': [{'ResourceType': 'vpc', 'Tags': []}]}, 'InvalidParameterValue'),
    ('ok1', {'UserData': '%%'}, 'InvalidUserData.Malformed'),
    ('ok1', {'UserData': base64.b64encode(b'x' * 16385).decode()}, 'InvalidParameterValue'),
    ('ok1', {'KeyName': 'x' * 40000}, 'InvalidParameterValue'),
    ('no', {'KeyName': 'x'}, 'InvalidLaunchTemplateName.MalformedException')])
def test_unsupported_launch_template_data_is_refused(ec2, name, data, code):
    assert refused(ec2.create_launch_template, LaunchTemplateName=name, LaunchTemplateData=data) == (code, 400)
    assert ec2.describe_launch_templates()['LaunchTemplates'] == []


# ---- signatures

def test_only_what_was_signed_counts(cloud, pair):
    assert signed(cloud, pair).status_code == 200
    assert signed(cloud, pair, sent='Action=DescribeInstances&Version=2016-11-15').status_code == 401
    assert signed(cloud, pair, query='?Action=DescribeInstances').status_code == 400
    assert signed(cloud, pair, service='s3').status_code == 403
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    assert signed(cloud, pair, moment=now - datetime.timedelta(minutes=16)).status_code == 401
    assert signed(cloud, pair, moment=now + datetime.timedelta(minutes=16)).status_code == 401


def url_of(cloud, service):
    return cloud.url + ('/objectstore/' if service == 's3' else PATH)


@pytest.mark.parametrize('service', ['ec2', 'sts', 's3'])
def test_any_header_may_be_signed(cloud, pair, service):
    url = url_of(cloud, service)
    for name, value in SIGNED_HEADERS.items():
        if name == 'Content-Length' and service == 's3':
            continue                                       # a GET has none
        answer = signed_with(url, pair, service, {name: value})
        assert answer.status_code == 200, (name, answer.text)
        if name not in ('Content-Length', 'Accept-Encoding', 'Date'):
            changed = signed_with(url, pair, service, {name: value}, sent={name: 'another'})
            assert changed.status_code in (401, 403), (name, changed.text)
    old = signed_with(url, pair, service, {'Date': 'x'}, sent={'Date': 'Fri, 01 May 2020 12:00:00 GMT'})
    assert old.status_code == 403, old.text


@pytest.mark.parametrize('service', ['ec2', 's3'])
def test_a_signature_with_bytes_that_are_no_text_is_refused(cloud, service):
    proof = ('AWS4-HMAC-SHA256 Credential=AK\xff/20261129/RegionOne/' + service + '/aws4_request, '
             'SignedHeaders=host;x-amz-date, Signature=' + 'a' * 64).encode('latin-1')
    answer = requests.get(url_of(cloud, service), headers={'Authorization': proof, 'X-Amz-Date': '20261129T000000Z'},
                          timeout=30)
    assert answer.status_code in (400, 401, 403), answer.text


def test_a_compressed_request_of_ec2_is_refused(cloud):
    answer = requests.post(url_of(cloud, 'ec2'), data=b'Action=DescribeImages', timeout=30,
                           headers={'Content-Encoding': 'gzip', 'Content-Type': 'application/x-www-form-urlencoded'})
    assert answer.status_code == 415 and '<Code>InvalidParameterValue<' in answer.text


@pytest.mark.parametrize('service, code', [
    ('ec2', 'SignatureDoesNotMatch'), ('sts', 'SignatureDoesNotMatch'), ('s3', 'AccessDenied')])
def test_host_and_each_x_amz_header_must_be_signed(cloud, pair, service, code):
    url = url_of(cloud, service)
    host = signed_with(url, pair, service, {}, unsigned=['host'])
    assert host.status_code == 403 and f'<Code>{code}<' in host.text and 'header host' in host.text
    for answer in (signed_with(url, pair, service, {'X-Amz-Own': 'a'}, unsigned=['x-amz-own']),
                   signed_with(url, pair, service, {}, sent={'X-Amz-Own': 'added on the way'})):
        assert answer.status_code == 403 and f'<Code>{code}<' in answer.text and 'header x-amz-own' in answer.text


@pytest.mark.parametrize('header', [
    '{0}, Credential=b/20200101/r/ec2/aws4_request', '{0}x', 'x{0}', 'AWS4-HMAC-SHA256', '{0}, ', 'Bearer {0}'])
def test_a_header_is_a_signature_from_its_begin_to_its_end(header):
    proof = 'AWS4-HMAC-SHA256 Credential=a/20200101/r/ec2/aws4_request, SignedHeaders=host, Signature=' + 'a' * 64
    environ = {'REQUEST_METHOD': 'POST', 'HTTP_AUTHORIZATION': proof, 'HTTP_DATE': 'Wed, 01 Jan 2020 00:00:00 GMT'}
    assert signing.signed_of(environ, b'', [])['access'] == 'a'
    with pytest.raises(errors.Ec2Error) as found:
        signing.signed_of({**environ, 'HTTP_AUTHORIZATION': header.format(proof)}, b'', [])
    assert found.value.code == 'MissingAuthenticationToken'


@pytest.mark.parametrize('date', ['Thu, 02 Jan 2020 00:00:00 GMT', None])
def test_request_must_have_the_day_of_its_credential_scope(date):
    proof = 'AWS4-HMAC-SHA256 Credential=a/20200101/r/ec2/aws4_request, SignedHeaders=host, Signature=' + 'a' * 64
    environ = {'REQUEST_METHOD': 'POST', 'HTTP_AUTHORIZATION': proof} | ({'HTTP_DATE': date} if date else {})
    with pytest.raises(errors.Ec2Error) as found:
        signing.signed_of(environ, b'', [])
    assert (found.value.code, found.value.message) == (
        'SignatureDoesNotMatch', 'The date of the request is missing, or is not the day 20200101 of its credential '
                                 'scope.')


def test_signature_version_2_is_accepted(cloud, pair):
    import hashlib
    import hmac
    import urllib.parse
    host = cloud.url.partition('//')[2]
    params = {'Action': 'DescribeRegions', 'Version': '2013-02-01', 'AWSAccessKeyId': pair['access'],
              'SignatureVersion': '2', 'SignatureMethod': 'HmacSHA256',
              'Timestamp': datetime.datetime.now(datetime.UTC).strftime('%Y-%m-%dT%H:%M:%SZ')}
    query = '&'.join(f'{key}={urllib.parse.quote(value, safe="-_~")}' for key, value in sorted(params.items()))
    text = f'GET\n{host}\n{PATH}\n{query}'
    proof = base64.b64encode(hmac.new(pair['secret'].encode(), text.encode(), hashlib.sha256).digest()).decode()
    answer = requests.get(f'{cloud.url}{PATH}?{query}&Signature={urllib.parse.quote(proof, safe="")}', timeout=30)
    assert answer.status_code == 200 and 'doc/2013-02-01/' in answer.text, answer.text
    forged = requests.get(f'{cloud.url}{PATH}?{query}&Signature=AAAA', timeout=30)
    assert forged.status_code == 401
    old = query.replace('SignatureVersion=2', 'SignatureVersion=0')
    assert requests.get(f'{cloud.url}{PATH}?{old}&Signature=AAAA', timeout=30).status_code == 401


@pytest.mark.parametrize('body', [
    'Action=' + 'A' * 100000, '&'.join(f'InstanceId.{n}=i-1' for n in range(3000)), 'a.b.c.d.e.f.g.h.i.j=1', '%ff=%fe',
    'Filter.1.Name=x&Filter.1=y', 'InstanceId.0=x', 'InstanceId.99999999999999=x', 'InstanceId=x', 'x', 'Action=&&&==',
    'Filter.1.Name=instance-id&Filter.1.Value.1=' + '*a' * 200, 'MaxResults=' + '9' * 400, 'NextToken=%00',
])
def test_hostile_parameters_are_refused(cloud, pair, body):
    answer = signed(cloud, pair, body='Action=DescribeInstances&' + body)
    assert 400 <= answer.status_code < 500 and answer.text.startswith('<?xml'), answer.text[:300]


def test_ec2_keys_are_managed_by_the_identity_service(cloud, demo, pair):
    path = f'/identity/v3/users/{demo.user_id}/credentials/OS-EC2'
    assert pair['access'] in [row['access'] for row in demo.get(path).json()['credentials']]
    other = cloud.admin()
    assert demo.get(f'/identity/v3/users/{other.user_id}/credentials/OS-EC2').status_code == 403
    assert demo.post(path, {'tenant_id': other.project_id}).status_code == 404
    mine = keys_of(demo)
    assert boto(cloud, mine).describe_regions()['Regions']              # its token is kept for a minute
    assert demo.delete(f'{path}/{mine["access"]}').status_code == 204
    assert refused(boto(cloud, mine).describe_regions) == ('AuthFailure', 401)
    body = {'credentials': {'access': pair['access'], 'signature': 'x', 'host': 'h', 'verb': 'GET', 'path': '/',
                            'params': {}, 'headers': {}, 'body_hash': ''}}
    assert demo.post('/identity/v3/ec2tokens', body).status_code == 403
    assert cloud.admin().post('/identity/v3/ec2tokens', body).status_code == 401


def test_get_caller_identity_returns_the_user_and_project(cloud, pair, demo):
    """Ansible asks STS before it makes a security group."""
    sts = boto3.client('sts', endpoint_url=cloud.url + PATH, region_name='RegionOne',
                       aws_access_key_id=pair['access'], aws_secret_access_key=pair['secret'])
    found = sts.get_caller_identity()
    assert (found['Account'], found['UserId']) == (demo.project_id, demo.user_id)
    who = {'Action': 'GetCallerIdentity', 'Version': '2011-06-15'}
    assert signed_get(cloud, pair, 'ec2', who).status_code == 403            # a signature is for one service
    assert signed_get(cloud, pair, 'sts', {'Action': 'DescribeVpcs', 'Version': '2016-11-15'}).status_code == 403


def test_lists_as_libcloud_writes_them(cloud, pair, ec2, image):
    assert ec2.create_key_pair(KeyName='libcloud')
    found = signed_get(cloud, pair, 'ec2', {'Action': 'DescribeKeyPairs', 'Version': '2016-11-15',
                                            'KeyName': 'libcloud'})
    assert found.status_code == 200 and '<keyName>libcloud<' in found.text, found.text
    found = signed_get(cloud, pair, 'ec2', {'Action': 'CreateTags', 'Version': '2016-11-15', 'ResourceId.0': image,
                                            'Tag.0.Key': 'from', 'Tag.0.Value': 'nought'})
    assert found.status_code == 200, found.text
    assert {'Key': 'from', 'Value': 'nought'} in ec2.describe_images(ImageIds=[image])['Images'][0]['Tags']
    ec2.delete_tags(Resources=[image], Tags=[{'Key': 'from'}])
    ec2.delete_key_pair(KeyName='libcloud')


def test_an_instance_says_where_it_is(ec2, image, flavor):
    vpc = ec2.describe_vpcs()['Vpcs'][0]['VpcId']
    subnet = ec2.describe_subnets()['Subnets'][0]['SubnetId']
    group = ec2.create_security_group(GroupName='where', Description='x', VpcId=vpc)['GroupId']
    assert refused(ec2.create_security_group, GroupName='other', Description='x', VpcId='vpc-00000000') == (
        'InvalidVpcID.NotFound', 400)
    found = ec2.describe_security_groups(Filters=[{'Name': 'vpc-id', 'Values': [vpc]}, {
        'Name': 'group-name', 'Values': ['where']}])['SecurityGroups']
    assert [(row['GroupId'], row['VpcId']) for row in found] == [(group, vpc)]
    interface = {'DeviceIndex': 0, 'SubnetId': subnet, 'Groups': [group], 'DeleteOnTermination': True}
    for code, more in (('UnsupportedOperation', {'DeviceIndex': 1}),
                       ('InsufficientAddressCapacity', {'AssociatePublicIpAddress': True})):     # no external network
        assert refused(run, ec2=ec2, image=image, flavor=flavor, NetworkInterfaces=[{**interface, **more}])[0] == code
    assert refused(run, ec2=ec2, image=image, flavor=flavor, NetworkInterfaces=[interface], SubnetId=subnet)[0] == (
        'InvalidParameterCombination')
    made = run(ec2, image, flavor, NetworkInterfaces=[interface], TagSpecifications=[
        {'ResourceType': kind, 'Tags': [{'Key': 'Name', 'Value': 'where'}]} for kind in ('instance', 'volume')])
    ids = [made['Instances'][0]['InstanceId']]
    ec2.get_waiter('instance_running').wait(InstanceIds=ids, WaiterConfig={'Delay': 0.2, 'MaxAttempts': 100})
    one = ec2.describe_instances(InstanceIds=ids, Filters=[
        {'Name': 'instance.group-id', 'Values': [group]}, {'Name': 'subnet-id', 'Values': [subnet]}])[
            'Reservations'][0]['Instances'][0]
    assert one['SecurityGroups'] == [{'GroupId': group, 'GroupName': 'where'}]
    assert (one['VpcId'], one['SubnetId']) == (vpc, subnet)
    assert [row['PrivateIpAddress'] for row in one['NetworkInterfaces']] == [one['PrivateIpAddress']]
    groups = ec2.describe_instance_attribute(InstanceId=ids[0], Attribute='groupSet')['Groups']
    assert groups == one['SecurityGroups']
    eni = one['NetworkInterfaces'][0]['NetworkInterfaceId']
    ec2.create_tags(Resources=[eni], Tags=[{'Key': 'a', 'Value': 'b'}])
    tagged = ec2.describe_network_interfaces(Filters=[{'Name': 'tag:a', 'Values': ['b']}])['NetworkInterfaces']
    assert [row['NetworkInterfaceId'] for row in tagged] == [eni]
    assert ec2.describe_vpc_attribute(VpcId=vpc, Attribute='enableDnsSupport')['EnableDnsSupport'] == {'Value': True}
    assert refused(ec2.describe_vpc_attribute, VpcId='vpc-00000000', Attribute='enableDnsSupport')[0] == (
        'InvalidVpcID.NotFound')
    ec2.terminate_instances(InstanceIds=ids)
    ec2.get_waiter('instance_terminated').wait(InstanceIds=ids, WaiterConfig={'Delay': 0.2, 'MaxAttempts': 100})
    ec2.delete_security_group(GroupId=group)


def test_the_type_standard_is_no_wish(ec2):
    volume = ec2.create_volume(Size=1, AvailabilityZone='nova', VolumeType='standard', Encrypted=False)['VolumeId']
    assert refused(ec2.create_volume, Size=1, AvailabilityZone='nova', Encrypted=True)[0] == 'UnsupportedOperation'
    assert ec2.describe_volumes(VolumeIds=[volume])['Volumes']
    ec2.get_waiter('volume_available').wait(VolumeIds=[volume], WaiterConfig={'Delay': 0.2, 'MaxAttempts': 100})
    ec2.delete_volume(VolumeId=volume)
    assert refused(ec2.create_volume, Size=1, AvailabilityZone='nova', VolumeType='none-such')[0] == (
        'InvalidParameterValue')


def test_generated_requests_never_fail_in_the_server(cloud):
    """The short form of tools/fuzz/ec2.py, as a project of its own."""
    admin = cloud.admin()
    admin.upload_image(b'\0' * 1024, name='fuzzed')
    codes, faults = ec2_requests.run(ec2_requests.Client(cloud.url + PATH, keys_of(admin)), 3, 250)
    assert not faults and codes['OK'] > 25, (codes, faults)


# ---- what clients need that are not boto3: each was found by tools/ec2_walk.py

def signed_get(cloud, pair, service, params):
    request = botocore.awsrequest.AWSRequest('GET', cloud.url + PATH, params=params)
    keys = botocore.credentials.Credentials(pair['access'], pair['secret'])
    botocore.auth.SigV4Auth(keys, service, 'RegionOne').add_auth(request)
    prepared = request.prepare()
    return requests.get(prepared.url, headers=dict(prepared.headers), timeout=30)


def test_a_client_of_s3_hears_where_its_endpoint_is(cloud, pair):
    """awscli printed an empty error: it reads no XML but S3's."""
    client = boto3.client('s3', endpoint_url=cloud.url + PATH, region_name='RegionOne',
                          aws_access_key_id=pair['access'], aws_secret_access_key=pair['secret'])
    with pytest.raises(botocore.exceptions.ClientError, match='its own endpoint'):
        client.list_buckets()
