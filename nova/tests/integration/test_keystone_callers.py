"""The compute API behind a real Keystone: tokens of every scope, application credentials and trusts."""
import base64
import contextlib
import http.client
import io
import itertools
import os
import socket
import subprocess
import time

import boto3
import botocore.config
import botocore.exceptions
import pytest

from nova import utils
from nova.tests import long_runs
from nova.tests.functional import callers
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.integration import keystone
from nova.tests.integration import prepared
from nova.tests.integration import servers
from nova.tests.support import callers as matrix
from nova.tests.support import ec2 as test_ec2
from nova.tests.support import isolation
from nova.tests.support import objectstore_chunks as test_objectstore_chunks

VERSION, one = isolation.VERSION, isolation.one


@pytest.fixture(scope='module')
def identity(tmp_path_factory):
    """callers.Identity of a cloud whose compute API asks a Keystone, and so do its images, networks and volumes."""
    with keystone.running() as (url, password), keystone.trusted(url, password), cloud_fixture.running(
            tmp_path_factory.mktemp('keystone'), identity__backend='keystone') as cloud:
        auth = callers.by_password(keystone.ADMIN, password, {'project': {
            'name': 'admin', 'domain': callers.DOMAIN}})
        made = callers.Identity(callers.Caller(cloud.url, auth, VERSION, identity=url), VERSION)
        made.databases = {'api': f'sqlite:///{cloud.state_path}/api.sqlite',
                          'cell': f'sqlite:///{cloud.state_path}/cell1.sqlite'}
        made.image = made.admin.upload_image(name='everybodys', visibility='public')
        yield made


@pytest.fixture(scope='module')
def owner(identity):
    return identity.in_project('canary-project', 'member')


@pytest.fixture(scope='module')
def things(identity, owner):
    server = owner.boot(identity.image, name='canary-server', networks='none')['id']
    owner.wait_for(server)
    one(identity.admin, '/flavors', 'flavor', id='private', name='canary-flavor', ram=64, vcpus=1, disk=1,
        **{'os-flavor-access:is_public': False})
    given = identity.admin.post('/flavors/private/action', {'addTenantAccess': {'tenant': owner.project_id}})
    assert given.status_code == 200, given.text
    group = one(owner, '/os-server-groups', 'server_group', name='canary-group', policy='affinity')['id']
    key = one(owner, '/os-keypairs', 'keypair', name='canary-key', type='ssh', public_key=isolation.PUBLIC_KEY)['name']
    actions = owner.get(f'/servers/{server}/os-instance-actions').json()['instanceActions']
    known = {'server': server, 'server_group': group, 'key': key, 'flavor': 'private', 'project': owner.project_id,
             'image': identity.image, 'request': actions[0]['request_id'], 'metadata_key': 'key', 'tag': 'tag'}
    return {name: known.get(name, isolation.MISSING) for name in {*matrix.PARTS['compute'].values(), *known} - {None}}


def state(owner):
    return {path: owner.get(path).json() for path in (
        '/servers/detail', '/os-server-groups', '/os-keypairs', '/flavors/detail', '/os-security-groups',
        '/limits')}


def test_callers_without_a_project_cannot_access_project_resources(identity, owner, things):
    before, wrong = state(owner), {}
    assert 'canary' in str(before)
    nowhere = identity.without_project()
    for row in matrix.compute_rows():
        path = matrix.path_of('compute', row[2], things, isolation.MISSING)
        for who, caller in long_runs.turn(row[0], nowhere.items(), len(nowhere)):
            answer = matrix.ask(caller, row, path)
            refused = answer.status_code == 403 or row[-1] and answer.status_code < 500
            if not refused or 'canary' in matrix.text_of(answer, row):
                wrong[row[0], who] = answer.status_code, matrix.text_of(answer, row)[:150]
    assert not wrong and state(owner) == before
    for who, caller in nowhere.items():
        assert 'm1.tiny' in caller.get('/flavors').text and caller.get('/flavors/private').status_code == 404, who


def sees(caller):
    """Names of the servers of a caller's list; None: refused."""
    answer = caller.get('/servers/detail')
    return {server['name'] for server in answer.json()['servers']} if answer.status_code == 200 else None


def test_an_application_credential_is_its_project(identity, owner, things):
    found = identity.delegated('canary-project') | {'credential elsewhere': identity.delegated('other')['credential']}
    assert found['credential'].project_id == owner.project_id
    for who in callers.DELEGATED:
        assert 'canary-server' in sees(found[who])
        assert found[who].get('/servers?all_tenants=1').status_code == 403
        assert found[who].get('/os-services').status_code == 403
        assert found[who].get('/os-keypairs/canary-key').status_code == 404        # of another user
    elsewhere = found['credential elsewhere']
    assert sees(elsewhere) == set() and elsewhere.get(f'/servers/{things["server"]}').status_code == 404
    made = found['credential'].boot(identity.image, name='by-credential', networks='none')['id']
    owner.wait_for(made)
    assert owner.delete(f'/servers/{made}').status_code == 204


@pytest.mark.parametrize('impersonation, role', long_runs.rest(itertools.product([True, False], ['member', 'reader'])))
def test_a_trust_gives_one_project_and_its_roles(identity, owner, things, impersonation, role):
    name, password, trustee = identity.user(None, None)
    made = owner.post('/identity/v3/OS-TRUST/trusts', {'trust': {
        'trustor_user_id': owner.user_id, 'trustee_user_id': trustee, 'project_id': owner.project_id,
        'impersonation': impersonation, 'roles': [{'id': identity.roles[role]}]}})
    assert made.status_code == 201, made.text
    caller = identity.caller(callers.by_password(name, password, {
        'OS-TRUST:trust': {'id': made.json()['trust']['id']}}))
    assert caller.project_id == owner.project_id
    assert caller.user_id == (owner.user_id if impersonation else trustee)
    assert 'canary-server' in sees(caller)
    tagged = caller.put(f'/servers/{things["server"]}/tags/{role}-{impersonation}')
    assert tagged.status_code == (201 if role == 'member' else 403), tagged.text
    assert caller.get('/servers?all_tenants=1').status_code == 403
    key = caller.get('/os-keypairs/canary-key').status_code
    assert key == (200 if impersonation else 404)          # keys are those of the user
    elsewhere = identity.in_project('other', 'member').boot(identity.image, name='elsewhere', networks='none')['id']
    assert caller.get(f'/servers/{elsewhere}').status_code == 404


@long_runs.only
def test_an_administrator_of_a_domain_or_the_system_is_none_here(identity, things):
    """Who needs a project gets one: the same user is an administrator by a token of the project."""
    name, password, user_id = identity.user('/domains/default', 'admin')
    scoped = identity.caller(callers.by_password(name, password, {'domain': callers.DOMAIN}))
    for path in ('/servers?all_tenants=1', '/os-services', '/os-hypervisors', f'/servers/{things["server"]}'):
        answer = scoped.get(path)
        assert answer.status_code == 403 and 'Yours is scoped to a domain.' in answer.text, path
    project = identity.project('admins')
    granted = identity.admin.put(
        f'/identity/v3/projects/{project}/users/{user_id}/roles/{identity.roles["admin"]}')
    assert granted.status_code == 204, granted.text
    admin = identity.caller(callers.by_password(name, password, {'project': {'id': project}}))
    assert admin.get(f'/servers/{things["server"]}').status_code == 200
    assert 'canary-server' in admin.get('/servers?all_tenants=1').text


def test_keystone_says_which_projects_there_are(identity, owner):
    admin = identity.in_project('canary-project', 'admin')
    assert admin.get(f'/os-quota-sets/{owner.project_id}').status_code == 200
    for answer in (admin.get('/os-quota-sets/' + '0' * 32),
                   admin.put('/os-quota-sets/' + '0' * 32, {'quota_set': {'cores': 1}})):
        assert answer.status_code == 400 and 'no project' in answer.text


def test_the_object_store_asks_keystone_who_has_signed(identity, owner, tmp_path):
    """nova-objectstore as a process, with a client of S3, and credentials that Keystone has made."""
    port, state = servers.free_port(), tmp_path / 'state'
    config = tmp_path / 'nova.conf'
    config.write_text(f'''
[DEFAULT]
state_path = {state}
[objectstore]
port = {port}
[monitoring]
port = 0
[ec2]
auth_type = password
auth_url = {os.environ['OS_KEYSTONE_AUTHTOKEN__AUTH_URL']}
username = {keystone.ADMIN}
password = {os.environ['OS_KEYSTONE_AUTHTOKEN__PASSWORD']}
project_name = admin
user_domain_id = default
project_domain_id = default
''')

    def start():
        process = subprocess.Popen([prepared.BIN / 'nova-objectstore', '--config-file', config], stdout=log, stderr=log,
                                   env=prepared.environment())
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', port), 1):
                return process
            assert process.poll() is None and time.monotonic() < deadline, (tmp_path / 'log').read_text()
            time.sleep(0.1)

    def client(pair, **config):
        return boto3.client('s3', endpoint_url=f'http://127.0.0.1:{port}', region_name='RegionOne',
                            aws_access_key_id=pair['access'], aws_secret_access_key=pair['secret'],
                            config=botocore.config.Config(retries={'max_attempts': 0},
                                                          s3={'addressing_style': 'path'}, **config))
    pair = owner.post(f'/identity/v3/users/{owner.user_id}/credentials/OS-EC2', {
        'tenant_id': owner.project_id}).json()['credential']
    data = os.urandom(8 << 20)
    with open(tmp_path / 'log', 'wb') as log:
        process = start()
        try:
            for more in ({}, {'signature_version': 's3'}):
                s3 = client(pair, **more)
                s3.create_bucket(Bucket='mine')
                s3.upload_fileobj(io.BytesIO(data), 'mine', 'object')
                assert s3.get_object(Bucket='mine', Key='object')['Body'].read() == data
                s3.delete_objects(Bucket='mine', Delete={'Objects': [{'Key': 'object'}]})
                s3.delete_bucket(Bucket='mine')
            with pytest.raises(botocore.exceptions.ClientError, match='SignatureDoesNotMatch'):
                client({**pair, 'secret': 'wrong'}).list_buckets()
            s3 = client(pair)
            s3.create_bucket(Bucket='mine')
            s3.put_object(Bucket='mine', Key='object', Body=b'whole')
            for secret, status in ((pair['secret'], 200), ('wrong', 403)):
                assert test_objectstore_chunks.signed_put(
                    f'http://127.0.0.1:{port}', pair, '/mine/chunks', [b'x' * 9000, b'y'],
                    chunk_secret=secret).status_code == status
            assert s3.get_object(Bucket='mine', Key='chunks')['Body'].read() == b'x' * 9000 + b'y'
            s3.delete_object(Bucket='mine', Key='chunks')
            # it dies while an object is written anew: the one before stays, and nothing else
            url = s3.generate_presigned_url('put_object', {'Bucket': 'mine', 'Key': 'object'})
            connection = http.client.HTTPConnection('127.0.0.1', port, timeout=30)
            connection.putrequest('PUT', url.partition(str(port))[2])
            connection.putheader('Content-Length', str(8 << 20))
            connection.endheaders()
            deadline = time.monotonic() + 120
            while not list((state / 'objects' / 'contents').rglob('*.part')):
                connection.send(b'x' * 65536)
                assert time.monotonic() < deadline
                time.sleep(0.02)
            process.kill()
            connection.close()
            process.wait(60)
            assert list((state / 'objects' / 'contents').rglob('*.part'))
            process = start()
            assert client(pair).get_object(Bucket='mine', Key='object')['Body'].read() == b'whole'
            # it has no database of the deployment, so its log tells of writes
            assert f'Write: objectstore:put of mine object by user {owner.user_id} of project {owner.project_id} ' in (
                tmp_path / 'log').read_text()
            assert len([path for path in (state / 'objects' / 'contents').rglob('*') if path.is_file()]) == 1
        finally:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _ec2_daemon(owner, directory, identity):
    """function(kind of client, more keys): a boto3 client of a nova-api-ec2 that is a process of its own."""
    port, config = servers.free_port(), directory / 'nova.conf'
    config.write_text(f'''
[DEFAULT]
state_path = {directory}
[api_database]
connection = {identity.databases['api']}
[database]
connection = {identity.databases['cell']}
[monitoring]
port = 0
[ec2]
port = {port}
auth_type = password
auth_url = {os.environ['OS_KEYSTONE_AUTHTOKEN__AUTH_URL']}
username = {keystone.ADMIN}
password = {os.environ['OS_KEYSTONE_AUTHTOKEN__PASSWORD']}
project_name = admin
user_domain_id = default
project_domain_id = default
''')
    pair = owner.post(f'/identity/v3/users/{owner.user_id}/credentials/OS-EC2', {
        'tenant_id': owner.project_id}).json()['credential']

    def client(kind, **more):
        keys = {'aws_access_key_id': pair['access'], 'aws_secret_access_key': pair['secret'], **more}
        return boto3.client(kind, endpoint_url=f'http://127.0.0.1:{port}/services/Cloud', region_name='RegionOne',
                            config=botocore.config.Config(retries={'max_attempts': 0}), **keys)
    log = directory / 'log'
    with servers._running([prepared.BIN / 'nova-api-ec2', '--config-file', config], log,
                          env=prepared.environment()) as process:
        servers._wait(lambda: _listens(port), process, log)
        yield client


@pytest.mark.parametrize('service', ['ec2', 'sts'])
def test_keystone_checks_requests_that_sign_any_header(identity, owner, tmp_path, service):
    """The EC2 API passed a fixed list of headers on, without content-length, accept and date."""
    with _ec2_daemon(owner, tmp_path, identity) as client:
        url = client('ec2').meta.endpoint_url
        keys = client('ec2')._request_signer._credentials.get_frozen_credentials()
        pair = {'access': keys.access_key, 'secret': keys.secret_key}
        for name, value in test_ec2.SIGNED_HEADERS.items():
            answer = test_ec2.signed_with(url, pair, service, {name: value})
            assert answer.status_code == 200, (name, answer.text)
            if name not in ('Content-Length', 'Accept-Encoding', 'Date'):
                changed = test_ec2.signed_with(url, pair, service, {name: value}, sent={name: 'another'})
                assert changed.status_code == 401, (name, changed.text)
        old = test_ec2.signed_with(url, pair, service, {'Date': 'x'}, sent={'Date': 'Fri, 01 May 2020 12:00:00 GMT'})
        assert old.status_code == 403          # Keystone answers 500 when date and scope differ


@long_runs.only
def test_the_ec2_daemon_asks_keystone_and_its_catalog(identity, owner, tmp_path):
    """nova-api-ec2 as a process, with compute alone in Keystone's catalog: a life of an instance."""
    _offer(identity, 'compute', '/compute/v2.1')
    account = f'/identity/v3/projects/{identity.admin.project_id}/users/{identity.admin.user_id}'
    given = identity.admin.put(f'{account}/roles/{identity.roles["service"]}')
    assert given.status_code == 204, given.text
    data = base64.b64encode(b'#!/bin/sh').decode()
    server = owner.boot(identity.image, name='ec2', networks='none', metadata={'Name': 'ec2'}, user_data=data)['id']
    owner.wait_for(server)
    with _ec2_daemon(owner, tmp_path, identity) as client:
        assert client('sts').get_caller_identity()['Account'] == owner.project_id
        ec2, quick = client('ec2'), {'WaiterConfig': {'Delay': 0.2, 'MaxAttempts': 200}}
        with pytest.raises(botocore.exceptions.ClientError, match='AuthFailure'):
            client('ec2', aws_secret_access_key='wrong').describe_regions()
        assert ec2.describe_availability_zones()['AvailabilityZones'] and ec2.describe_account_attributes()
        assert 'm1.tiny' in {row['InstanceType'] for row in ec2.describe_instance_types()['InstanceTypes']}
        ec2.create_key_pair(KeyName='ec2')
        ec2.create_placement_group(GroupName='ec2', Strategy='spread')
        found = ec2.describe_instances(Filters=[{'Name': 'tag:Name', 'Values': ['ec2']}])['Reservations']
        one = found[0]['Instances'][0]
        made = one['InstanceId']
        assert made == utils.ec2_id(server) and one['NetworkInterfaces'] == []
        ec2.create_tags(Resources=[made], Tags=[{'Key': 'a', 'Value': 'b'}])
        assert owner.get(f'/servers/{server}').json()['server']['metadata']['a'] == 'b'
        assert ec2.describe_instance_status(InstanceIds=[made])['InstanceStatuses']
        assert ec2.describe_instance_attribute(InstanceId=made, Attribute='instanceType')['InstanceType']
        # the compute API shows these to a service alone, and the owner is none
        shown = ec2.describe_instance_attribute(InstanceId=made, Attribute='userData')['UserData']
        assert shown == {'Value': data} and 'OS-EXT-SRV-ATTR:user_data' not in owner.get(f'/servers/{server}').text
        assert (one['AmiLaunchIndex'], one['RootDeviceName']) == (0, '/dev/vda')
        ec2.get_console_output(InstanceId=made)
        ec2.reboot_instances(InstanceIds=[made])
        ec2.get_waiter('instance_running').wait(InstanceIds=[made], **quick)
        ec2.stop_instances(InstanceIds=[made])
        ec2.get_waiter('instance_stopped').wait(InstanceIds=[made], **quick)
        ec2.start_instances(InstanceIds=[made])
        ec2.get_waiter('instance_running').wait(InstanceIds=[made], **quick)
        for call in (ec2.describe_volumes, ec2.describe_images, ec2.describe_subnets):
            with pytest.raises(botocore.exceptions.ClientError, match='This cloud has no'):
                call()                                            # no such service in the catalog
        ec2.terminate_instances(InstanceIds=[made])
        ec2.get_waiter('instance_terminated').wait(InstanceIds=[made], **quick)
        ec2.delete_placement_group(GroupName='ec2')
        ec2.delete_key_pair(KeyName='ec2')


@long_runs.only
def test_the_ec2_daemon_asks_the_services_of_keystones_catalog(identity, owner, tmp_path):
    """Images, networks and volumes over HTTP, each behind Keystone, as the user who signs."""
    for kind, path in (('compute', '/compute/v2.1'), ('image', '/image'), ('network', '/network'),
                       ('volumev3', '/volume/v3')):
        _offer(identity, kind, path)
    with _ec2_daemon(owner, tmp_path, identity) as client:
        _walk_images_networks_and_volumes(client('ec2'), owner, {'WaiterConfig': {'Delay': 1, 'MaxAttempts': 100}})


def _offer(identity, kind, path):
    """Put a service of the cloud into Keystone's catalog, once."""
    if identity.admin.get(f'/identity/v3/services?type={kind}').json()['services']:
        return
    made = identity.admin.post('/identity/v3/services', {'service': {'type': kind, 'name': kind}}).json()['service']
    answer = identity.admin.post('/identity/v3/endpoints', {'endpoint': {
        'service_id': made['id'], 'interface': 'public', 'region_id': 'RegionOne',
        'url': identity.admin.url + path}})
    assert answer.status_code == 201, answer.text


def _walk_images_networks_and_volumes(ec2, owner, quick):
    image, = [row for row in ec2.describe_images()['Images'] if row['Name'] == 'everybodys']
    ami, project = image['ImageId'], owner.project_id
    assert image['Public'] and image['OwnerId'] != project
    # a VPC with a subnet, a gateway and a group
    vpc = ec2.create_vpc(CidrBlock='10.91.0.0/16')['Vpc']['VpcId']
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock='10.91.1.0/24')['Subnet']['SubnetId']
    assert ec2.describe_subnets(SubnetIds=[subnet])['Subnets'][0]['VpcId'] == vpc
    group = ec2.create_security_group(GroupName='walk', Description='walk', VpcId=vpc)['GroupId']
    allowed = {'IpProtocol': 'tcp', 'FromPort': 22, 'ToPort': 22, 'IpRanges': [{'CidrIp': '10.0.0.0/8'}]}
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[allowed])
    shown, = ec2.describe_security_groups(GroupIds=[group])['SecurityGroups']
    assert shown['OwnerId'] == project and shown['IpPermissions'][0]['IpRanges'] == [{'CidrIp': '10.0.0.0/8'}]
    table = ec2.create_route_table(VpcId=vpc)['RouteTable']['RouteTableId']
    ec2.delete_route_table(RouteTableId=table)
    # an instance in it, with a volume, a snapshot of that and an image of it
    made = ec2.run_instances(ImageId=ami, InstanceType='m1.tiny', MinCount=1, MaxCount=1, SubnetId=subnet,
                             SecurityGroupIds=[group], ClientToken='walk')['Instances'][0]['InstanceId']
    ec2.get_waiter('instance_running').wait(InstanceIds=[made], **quick)
    one = ec2.describe_instances(InstanceIds=[made])['Reservations'][0]['Instances'][0]
    assert one['SubnetId'] == subnet and one['PrivateIpAddress'].startswith('10.91.1.')
    assert one['SecurityGroups'] == [{'GroupId': group, 'GroupName': 'walk'}] and one['ImageId'] == ami
    interface, = ec2.describe_network_interfaces(
        Filters=[{'Name': 'attachment.instance-id', 'Values': [made]}])['NetworkInterfaces']
    assert interface['PrivateIpAddress'] == one['PrivateIpAddress']
    zone = ec2.describe_availability_zones()['AvailabilityZones'][0]['ZoneName']
    volume = ec2.create_volume(Size=1, AvailabilityZone=zone)['VolumeId']
    ec2.get_waiter('volume_available').wait(VolumeIds=[volume], **quick)
    ec2.attach_volume(VolumeId=volume, InstanceId=made, Device='/dev/vdb')
    ec2.get_waiter('volume_in_use').wait(VolumeIds=[volume], **quick)
    attached, = ec2.describe_volumes(VolumeIds=[volume])['Volumes'][0]['Attachments']
    assert attached['InstanceId'] == made
    ec2.detach_volume(VolumeId=volume)
    ec2.get_waiter('volume_available').wait(VolumeIds=[volume], **quick)
    snapshot = ec2.create_snapshot(VolumeId=volume, Description='walk')['SnapshotId']
    ec2.get_waiter('snapshot_completed').wait(SnapshotIds=[snapshot], **quick)
    copy = ec2.create_image(InstanceId=made, Name='copy')['ImageId']
    ec2.get_waiter('image_available').wait(ImageIds=[copy], **quick)
    ec2.modify_image_attribute(ImageId=copy, Description={'Value': 'a copy'})
    shown, = ec2.describe_images(ImageIds=[copy], Owners=['self'])['Images']
    assert (shown['Description'], shown['OwnerId'], shown['Public']) == ('a copy', project, False)
    with pytest.raises(botocore.exceptions.ClientError, match='UnauthorizedOperation'):
        ec2.deregister_image(ImageId=ami)                         # another project's
    ec2.deregister_image(ImageId=copy)
    ec2.terminate_instances(InstanceIds=[made])
    ec2.get_waiter('instance_terminated').wait(InstanceIds=[made], **quick)
    ec2.delete_snapshot(SnapshotId=snapshot)
    for delete, what in ((ec2.delete_volume, {'VolumeId': volume}), (ec2.delete_security_group, {'GroupId': group}),
                         (ec2.delete_subnet, {'SubnetId': subnet}), (ec2.delete_vpc, {'VpcId': vpc})):
        _repeat(delete, what)
    assert vpc not in {row['VpcId'] for row in ec2.describe_vpcs()['Vpcs']}


def _repeat(delete, what):
    """What was let go of a moment ago is not free at once."""
    deadline = time.monotonic() + 120
    while True:
        try:
            return delete(**what)
        except botocore.exceptions.ClientError as error:
            if 'InUse' not in str(error) and 'DependencyViolation' not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.2)


def _listens(port):
    with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', port), 1):
        return True
    return False
