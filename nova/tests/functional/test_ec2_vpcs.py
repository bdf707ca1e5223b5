"""VPCs of the EC2 API that a project makes: routers and networks, with boto3, against a cloud with the fake driver."""
from concurrent import futures
import dataclasses
import itertools

import boto3
import botocore.config
import botocore.exceptions
import pytest
import sqlalchemy as sa

from nova.db.tables import ec2 as tables
from nova.ec2 import calls
from nova.ec2 import errors
from nova.ec2.networks import routing
from nova.ec2.networks import security_groups
from nova.tests.functional import cloud as whole

PATH = '/services/Cloud'
OUTSIDE = '203.0.113.0/24'
EVERYTHING = '0.0.0.0/0'


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with whole.running(tmp_path_factory.mktemp('vpcs'), ['host1']) as running:
        admin = running.admin()
        network = made(admin, 'network', name='outside', **{'router:external': True})
        made(admin, 'subnet', network_id=network['id'], cidr=OUTSIDE, ip_version=4)
        yield running


def made(client, kind, **values):
    answer = client.post(f'/network/v2.0/{kind}s', {kind: values})
    assert answer.status_code == 201, answer.text
    return answer.json()[kind]


@pytest.fixture(scope='module')
def demo(cloud):
    client = cloud.client()
    client.upload_image(b'\0' * 1024, name='small')
    return client


def boto(cloud, client):
    answer = client.post(f'/identity/v3/users/{client.user_id}/credentials/OS-EC2', {'tenant_id': client.project_id})
    pair = answer.json()['credential']
    return boto3.client('ec2', endpoint_url=cloud.url + PATH, region_name='RegionOne',
                        aws_access_key_id=pair['access'], aws_secret_access_key=pair['secret'],
                        config=botocore.config.Config(retries={'max_attempts': 0}, parameter_validation=False))


@pytest.fixture(scope='module')
def ec2(cloud, demo):
    return boto(cloud, demo)


@pytest.fixture
def vpc(ec2):
    """A VPC of 10.90.0.0/16; all that is made in it is removed."""
    ident = ec2.create_vpc(CidrBlock='10.90.0.0/16')['Vpc']['VpcId']
    yield ident
    mine = [{'Name': 'vpc-id', 'Values': [ident]}]
    for subnet in ec2.describe_subnets(Filters=mine)['Subnets']:
        ec2.delete_subnet(SubnetId=subnet['SubnetId'])
    attached = [{'Name': 'attachment.vpc-id', 'Values': [ident]}]
    for gateway in ec2.describe_internet_gateways(Filters=attached)['InternetGateways']:
        ec2.detach_internet_gateway(InternetGatewayId=gateway['InternetGatewayId'], VpcId=ident)
    for gateway in ec2.describe_internet_gateways()['InternetGateways']:
        ec2.delete_internet_gateway(InternetGatewayId=gateway['InternetGatewayId'])
    for table in ec2.describe_route_tables(Filters=mine)['RouteTables']:
        if not any(each['Main'] for each in table['Associations']):
            ec2.delete_route_table(RouteTableId=table['RouteTableId'])
    for group in ec2.describe_security_groups(Filters=mine)['SecurityGroups']:
        ec2.delete_security_group(GroupId=group['GroupId'])
    ec2.delete_vpc(VpcId=ident)


def refused(call, **given):
    with pytest.raises(botocore.exceptions.ClientError) as error:
        call(**given)
    return error.value.response['Error']['Code']


def add_subnet(ec2, vpc, cidr='10.90.1.0/24'):
    return ec2.create_subnet(VpcId=vpc, CidrBlock=cidr)['Subnet']['SubnetId']


def gateway_of(ec2, vpc):
    """The id of an internet gateway that is attached to a VPC."""
    gateway = ec2.create_internet_gateway()['InternetGateway']['InternetGatewayId']
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    return gateway


def network_of(demo, cidr):
    """The subnet of the network service with this range."""
    found, = demo.get(f'/network/v2.0/subnets?cidr={cidr}').json()['subnets']
    return found


def main_table(ec2, vpc):
    table, = ec2.describe_route_tables(Filters=[{'Name': 'vpc-id', 'Values': [vpc]},
                                                {'Name': 'association.main', 'Values': ['true']}])['RouteTables']
    return table


def test_a_vpc_is_a_router_and_its_subnets_are_networks(ec2, demo):
    first = ec2.create_vpc(CidrBlock='10.90.0.0/16', TagSpecifications=[
        {'ResourceType': 'vpc', 'Tags': [{'Key': 'Name', 'Value': 'one'}]}])['Vpc']
    second = ec2.create_vpc(CidrBlock='10.90.0.0/16')['Vpc']                 # another may have the same addresses
    assert first['CidrBlock'] == '10.90.0.0/16' and not first['IsDefault'] and first['VpcId'] != second['VpcId']
    shown = {row['VpcId']: row for row in ec2.describe_vpcs()['Vpcs']}
    assert sum(row['IsDefault'] for row in shown.values()) == 1 and shown.keys() > {first['VpcId'], second['VpcId']}
    assert shown[first['VpcId']]['Tags'] == [{'Key': 'Name', 'Value': 'one'}]
    found = ec2.describe_vpcs(Filters=[{'Name': 'tag:Name', 'Values': ['one']}])['Vpcs']
    assert [row['VpcId'] for row in found] == [first['VpcId']]
    subnets = [add_subnet(ec2, first['VpcId']), add_subnet(ec2, first['VpcId'], '10.90.2.0/24'),
               add_subnet(ec2, second['VpcId'])]
    places = {row['SubnetId']: row['VpcId'] for row in ec2.describe_subnets()['Subnets']}
    assert [places[each] for each in subnets] == [first['VpcId'], first['VpcId'], second['VpcId']]
    routers = {row['id'] for row in demo.get('/network/v2.0/routers').json()['routers']}
    joined = {port['device_id'] for port in demo.get('/network/v2.0/ports').json()['ports']
              if port['device_owner'] == 'network:router_interface'}
    assert len(joined) == 2 and joined <= routers
    assert refused(ec2.delete_vpc, VpcId=first['VpcId']) == 'DependencyViolation'
    for subnet in subnets:
        ec2.delete_subnet(SubnetId=subnet)
    for each in (first, second):
        ec2.delete_vpc(VpcId=each['VpcId'])
        assert refused(ec2.describe_vpcs, VpcIds=[each['VpcId']]) == 'InvalidVpcID.NotFound'
    assert not demo.get('/network/v2.0/routers').json()['routers']
    assert not [row for row in demo.get('/network/v2.0/networks').json()['networks'] if row['name'].startswith('vpc')]


@pytest.mark.parametrize('given, code', [
    ({'CidrBlock': '10.0.0.0/8'}, 'InvalidVpc.Range'), ({'CidrBlock': '10.0.0.0/29'}, 'InvalidVpc.Range'),
    ({'CidrBlock': 'x'}, 'InvalidParameterValue'), ({'CidrBlock': 'fd00::/20'}, 'InvalidParameterValue'),
    ({'CidrBlock': '10.0.0.0'}, 'InvalidVpc.Range'), ({}, 'MissingParameter'),
    ({'CidrBlock': '10.0.0.0/16', 'InstanceTenancy': 'dedicated'}, 'UnsupportedOperation'),
    ({'CidrBlock': '10.0.0.0/16', 'AmazonProvidedIpv6CidrBlock': True}, 'UnsupportedOperation'),
    ({'CidrBlock': '10.0.0.0/16', 'DryRun': True}, 'DryRunOperation')])
def test_invalid_vpc_is_refused_and_leaves_no_router(ec2, demo, given, code):
    assert refused(ec2.create_vpc, **given) == code
    assert not demo.get('/network/v2.0/routers').json()['routers']


@pytest.mark.parametrize('given, code', [
    ({'CidrBlock': '10.91.0.0/24'}, 'InvalidSubnet.Range'), ({'CidrBlock': '10.0.0.0/8'}, 'InvalidSubnet.Range'),
    ({'CidrBlock': '10.90.0.0/15'}, 'InvalidSubnet.Range'), ({'CidrBlock': '10.90.1.128/25'}, 'InvalidSubnet.Conflict'),
    ({'CidrBlock': '10.90.0.0/16'}, 'InvalidSubnet.Conflict'), ({'CidrBlock': '10.90.2.0/29'}, 'InvalidSubnet.Range'),
    ({'CidrBlock': 'x'}, 'InvalidParameterValue'), ({}, 'MissingParameter'),
    ({'CidrBlock': '10.90.2.0/24', 'AvailabilityZone': 'elsewhere'}, 'InvalidParameterValue'),
    ({'CidrBlock': '10.90.2.0/24', 'Ipv6Native': True}, 'UnsupportedOperation'),
    ({'CidrBlock': '10.90.2.0/24', 'DryRun': True}, 'DryRunOperation')])
def test_invalid_subnet_is_refused_and_leaves_no_network(ec2, vpc, demo, given, code):
    add_subnet(ec2, vpc)
    before = len(demo.get('/network/v2.0/networks').json()['networks'])
    assert refused(ec2.create_subnet, VpcId=vpc, **given) == code
    assert len(demo.get('/network/v2.0/networks').json()['networks']) == before


def test_the_first_vpc_is_the_network_services(ec2, demo):
    first = next(row['VpcId'] for row in ec2.describe_vpcs()['Vpcs'] if row['IsDefault'])
    gateway = ec2.create_internet_gateway()['InternetGateway']['InternetGatewayId']
    own = ec2.describe_subnets()['Subnets'][0]
    assert own['VpcId'] == first
    assert refused(ec2.delete_vpc, VpcId=first) == 'UnsupportedOperation'
    assert refused(ec2.create_subnet, VpcId=first, CidrBlock='10.5.0.0/24') == 'UnsupportedOperation'
    assert refused(ec2.delete_subnet, SubnetId=own['SubnetId']) == 'UnsupportedOperation'
    assert refused(ec2.create_route_table, VpcId=first) == 'UnsupportedOperation'
    assert refused(ec2.attach_internet_gateway, InternetGatewayId=gateway, VpcId=first) == 'UnsupportedOperation'
    ec2.delete_internet_gateway(InternetGatewayId=gateway)


def test_an_internet_gateway_is_the_routers_way_out(ec2, vpc, demo):
    gateway = ec2.create_internet_gateway(TagSpecifications=[
        {'ResourceType': 'internet-gateway', 'Tags': [{'Key': 'Name', 'Value': 'out'}]}])['InternetGateway']
    ident = gateway['InternetGatewayId']
    assert gateway['Attachments'] == [] and gateway['Tags'] == [{'Key': 'Name', 'Value': 'out'}]
    assert refused(ec2.detach_internet_gateway, InternetGatewayId=ident, VpcId=vpc) == 'Gateway.NotAttached'
    ec2.attach_internet_gateway(InternetGatewayId=ident, VpcId=vpc)
    router, = demo.get('/network/v2.0/routers').json()['routers']
    assert router['external_gateway_info']
    assert refused(ec2.attach_internet_gateway, InternetGatewayId=ident, VpcId=vpc) == 'Resource.AlreadyAssociated'
    other = ec2.create_internet_gateway()['InternetGateway']['InternetGatewayId']
    assert refused(ec2.attach_internet_gateway, InternetGatewayId=other, VpcId=vpc) == 'Resource.AlreadyAssociated'
    shown, = ec2.describe_internet_gateways(InternetGatewayIds=[ident])['InternetGateways']
    assert shown['Attachments'] == [{'VpcId': vpc, 'State': 'available'}]
    assert refused(ec2.delete_internet_gateway, InternetGatewayId=ident) == 'DependencyViolation'
    assert refused(ec2.delete_vpc, VpcId=vpc) == 'DependencyViolation'
    ec2.create_tags(Resources=[ident, vpc], Tags=[{'Key': 'a', 'Value': 'b'}])
    assert len(ec2.describe_tags(Filters=[{'Name': 'key', 'Values': ['a']}])['Tags']) == 2
    ec2.detach_internet_gateway(InternetGatewayId=ident, VpcId=vpc)
    router, = demo.get('/network/v2.0/routers').json()['routers']
    assert not router['external_gateway_info']
    for each in (ident, other):
        ec2.delete_internet_gateway(InternetGatewayId=each)
    assert refused(ec2.describe_internet_gateways, InternetGatewayIds=[ident]) == 'InvalidInternetGatewayID.NotFound'


def test_route_tables_reach_guests_by_dhcp(ec2, vpc, demo):
    subnet = add_subnet(ec2, vpc)
    local = {'destination': '10.90.0.0/16', 'nexthop': '10.90.1.1'}
    told = network_of(demo, '10.90.1.0/24')
    assert told['gateway_ip'] is None and told['host_routes'] == [local]
    gateway, main = gateway_of(ec2, vpc), main_table(ec2, vpc)['RouteTableId']
    assert network_of(demo, '10.90.1.0/24')['gateway_ip'] is None            # attached is not yet a route
    assert ec2.create_route(RouteTableId=main, DestinationCidrBlock=EVERYTHING, GatewayId=gateway)['Return']
    told = network_of(demo, '10.90.1.0/24')
    assert told['gateway_ip'] == '10.90.1.1' and told['host_routes'] == []
    own = ec2.create_route_table(VpcId=vpc)['RouteTable']
    assert [(row['DestinationCidrBlock'], row['GatewayId']) for row in own['Routes']] == [('10.90.0.0/16', 'local')]
    table = own['RouteTableId']
    joined = ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)['AssociationId']
    assert network_of(demo, '10.90.1.0/24')['host_routes'] == [local]
    ec2.create_route(RouteTableId=table, DestinationCidrBlock='198.51.100.0/24', GatewayId=gateway)
    told = network_of(demo, '10.90.1.0/24')
    assert told['gateway_ip'] is None
    assert told['host_routes'] == [local, {'destination': '198.51.100.0/24', 'nexthop': '10.90.1.1'}]
    assert refused(ec2.associate_route_table, RouteTableId=main, SubnetId=subnet) == 'Resource.AlreadyAssociated'
    assert refused(ec2.delete_route_table, RouteTableId=table) == 'DependencyViolation'
    new = ec2.replace_route_table_association(AssociationId=joined, RouteTableId=main)['NewAssociationId']
    assert new != joined and network_of(demo, '10.90.1.0/24')['gateway_ip'] == '10.90.1.1'
    assert refused(ec2.disassociate_route_table, AssociationId=joined) == 'InvalidAssociationID.NotFound'
    ec2.disassociate_route_table(AssociationId=new)
    of_main = main_table(ec2, vpc)['Associations'][0]['RouteTableAssociationId']
    ec2.replace_route_table_association(AssociationId=of_main, RouteTableId=table)
    assert main_table(ec2, vpc)['RouteTableId'] == table
    assert network_of(demo, '10.90.1.0/24')['gateway_ip'] is None
    ec2.create_route(RouteTableId=table, DestinationCidrBlock=EVERYTHING, GatewayId=gateway)
    assert network_of(demo, '10.90.1.0/24')['gateway_ip'] == '10.90.1.1'
    ec2.detach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    assert network_of(demo, '10.90.1.0/24')['gateway_ip'] is None
    routes = {row['DestinationCidrBlock']: row['State'] for row in main_table(ec2, vpc)['Routes']}
    assert routes == {'10.90.0.0/16': 'active', EVERYTHING: 'blackhole', '198.51.100.0/24': 'blackhole'}
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    assert network_of(demo, '10.90.1.0/24')['gateway_ip'] == '10.90.1.1'
    ec2.delete_route(RouteTableId=table, DestinationCidrBlock=EVERYTHING)
    assert network_of(demo, '10.90.1.0/24')['gateway_ip'] is None


def test_routes_that_keep_changing_are_an_error(ec2, vpc, monkeypatch):
    add_subnet(ec2, vpc)
    gateway, main, real = gateway_of(ec2, vpc), main_table(ec2, vpc)['RouteTableId'], routing.db.known
    route = {'RouteTableId': main, 'DestinationCidrBlock': EVERYTHING, 'GatewayId': gateway}
    reads = itertools.count()

    def changing(*given):
        found = real(*given)
        return dataclasses.replace(found, routes={**found.routes, 'other': {str(next(reads)): ''}})
    with monkeypatch.context() as patched:
        patched.setattr(routing.db, 'known', changing)
        assert refused(ec2.create_route, **route) == 'Unavailable'
    ec2.create_route(**route)


@pytest.fixture
def failing(monkeypatch):
    """A function(operation, refusal, **given): call the EC2 API, while a service is not available.

    :param refusal: (method, begin of the path, number of such calls that succeed before)
    """
    real = calls.Caller.call

    def attempt(operation, refusal=('PUT', '/subnets/', 0), **given):
        wanted, prefix, left = refusal
        number = itertools.count()

        def call(self, service, method, path, *given, **more):
            if method == wanted and path.startswith(prefix) and next(number) == left:
                raise errors.Ec2Error('Unavailable', 'A required service does not respond.', 503)
            return real(self, service, method, path, *given, **more)
        with monkeypatch.context() as patched:
            patched.setattr(calls.Caller, 'call', call)
            assert refused(operation, **given) == 'Unavailable'
    return attempt


def test_a_change_of_routes_that_failed_can_be_repeated(ec2, vpc, demo, failing):
    subnet, gateway, main = add_subnet(ec2, vpc), gateway_of(ec2, vpc), main_table(ec2, vpc)['RouteTableId']
    add_subnet(ec2, vpc, '10.90.2.0/24')
    table = ec2.create_route_table(VpcId=vpc)['RouteTable']['RouteTableId']
    route = {'RouteTableId': main, 'DestinationCidrBlock': EVERYTHING, 'GatewayId': gateway}

    def way_out():
        return network_of(demo, '10.90.1.0/24')['gateway_ip']

    def written():
        return [[network_of(demo, f'10.90.{number}.0/24')[name] for name in (
            'gateway_ip', 'host_routes', 'dns_nameservers')] for number in (1, 2)]

    def attempt(operation, expected, number=1, **given):
        before, shown = written(), ec2.describe_route_tables()['RouteTables']
        failing(operation, ('PUT', '/subnets/', number), **given)
        assert written() == before and ec2.describe_route_tables()['RouteTables'] == shown
        answer = operation(**given)
        assert way_out() == expected
        return answer
    attempt(ec2.create_route, '10.90.1.1', **route)
    attempt(ec2.detach_internet_gateway, None, InternetGatewayId=gateway, VpcId=vpc)
    attempt(ec2.attach_internet_gateway, '10.90.1.1', InternetGatewayId=gateway, VpcId=vpc)
    joined = attempt(ec2.associate_route_table, None, 0, RouteTableId=table, SubnetId=subnet)['AssociationId']
    joined = attempt(ec2.replace_route_table_association, '10.90.1.1', 0, AssociationId=joined, RouteTableId=main)
    attempt(ec2.replace_route_table_association, None, 0, AssociationId=joined['NewAssociationId'], RouteTableId=table)
    found, = ec2.describe_route_tables(RouteTableIds=[table])['RouteTables'][0]['Associations']
    attempt(ec2.disassociate_route_table, '10.90.1.1', 0, AssociationId=found['RouteTableAssociationId'])
    of_main = main_table(ec2, vpc)['Associations'][0]['RouteTableAssociationId']
    of_main = attempt(ec2.replace_route_table_association, None, AssociationId=of_main, RouteTableId=table)
    attempt(ec2.replace_route_table_association, '10.90.1.1', AssociationId=of_main['NewAssociationId'],
            RouteTableId=main)
    attempt(ec2.delete_route, None, RouteTableId=main, DestinationCidrBlock=EVERYTHING)
    options = ec2.create_dhcp_options(DhcpConfigurations=[{'Key': 'domain-name-servers', 'Values': ['192.0.2.1']}])
    options = {'DhcpOptionsId': options['DhcpOptions']['DhcpOptionsId']}
    attempt(ec2.associate_dhcp_options, None, **options, VpcId=vpc)
    assert network_of(demo, '10.90.1.0/24')['dns_nameservers'] == ['192.0.2.1']
    attempt(ec2.associate_dhcp_options, None, DhcpOptionsId='default', VpcId=vpc)
    assert network_of(demo, '10.90.1.0/24')['dns_nameservers'] == []
    ec2.delete_dhcp_options(**options)


def test_rules_are_authorized_and_revoked_all_or_none(ec2, vpc, failing, monkeypatch):
    group = {'GroupId': ec2.create_security_group(GroupName='rules', Description='-', VpcId=vpc)['GroupId']}
    permissions = [{'IpProtocol': 'tcp', 'FromPort': port, 'ToPort': port, 'IpRanges': [
        {'CidrIp': '192.0.2.0/24', 'Description': 'said'}]} for port in (1, 2, 3)]

    def rules():
        shown = ec2.describe_security_groups(GroupIds=[group['GroupId']])['SecurityGroups'][0]['IpPermissions']
        return sorted((each['FromPort'], each['IpRanges'][0]['Description']) for each in shown)
    failing(ec2.authorize_security_group_ingress, ('POST', '/security-group-rules', 2), **group,
            IpPermissions=permissions)
    assert rules() == []
    real, number = security_groups.tags.db.put, itertools.count()

    def put(*given):
        if next(number):
            raise RuntimeError('the database has ended')
        real(*given)
    with monkeypatch.context() as patched:
        patched.setattr(security_groups.tags.db, 'put', put)
        assert refused(ec2.authorize_security_group_ingress, **group, IpPermissions=permissions, TagSpecifications=[
            {'ResourceType': 'security-group-rule', 'Tags': [{'Key': 'undone', 'Value': ''}]}]) == 'InternalError'
    assert rules() == [] and not ec2.describe_tags(Filters=[{'Name': 'key', 'Values': ['undone']}])['Tags']
    ec2.authorize_security_group_ingress(**group, IpPermissions=permissions)
    assert rules() == [(1, 'said'), (2, 'said'), (3, 'said')]
    failing(ec2.revoke_security_group_ingress, ('DELETE', '/security-group-rules', 2), **group,
            IpPermissions=permissions)
    assert rules() == [(1, 'said'), (2, 'said'), (3, 'said')]
    ec2.revoke_security_group_ingress(**group, IpPermissions=permissions)
    assert rules() == []


def test_a_rule_for_an_address_group_is_not_revoked(ec2, vpc, demo):
    addresses = demo.post('/network/v2.0/address-groups', {'address_group': {'addresses': ['192.0.2.1/32']}}).json()[
        'address_group']['id']
    group = ec2.create_security_group(GroupName='addresses', Description='-', VpcId=vpc)['GroupId']
    uuid = demo.get('/network/v2.0/security-groups?name=addresses').json()['security_groups'][0]['id']
    rule = demo.post('/network/v2.0/security-group-rules', {'security_group_rule': {
        'security_group_id': uuid, 'direction': 'ingress', 'remote_address_group_id': addresses}}).json()[
            'security_group_rule']
    permission = {'IpProtocol': '-1', 'IpRanges': [{'CidrIp': EVERYTHING}]}
    assert refused(ec2.revoke_security_group_ingress, GroupId=group, IpPermissions=[permission]) == (
        'InvalidPermission.NotFound')
    assert demo.get(f'/network/v2.0/security-group-rules/{rule["id"]}').status_code == 200


def test_launch_permissions_that_failed_halfway_can_be_repeated(ec2, demo, failing):
    image = {'ImageId': ec2.describe_images(Filters=[{'Name': 'name', 'Values': ['small']}])['Images'][0]['ImageId']}
    users = [{'UserId': letter * 32} for letter in 'abc']

    def shared():
        return ec2.describe_image_attribute(**image, Attribute='launchPermission')['LaunchPermissions']
    for change, method, expected in (('Add', 'POST', users), ('Remove', 'DELETE', [])):
        failing(ec2.modify_image_attribute, (method, '/images/', 1), **image, LaunchPermission={change: users})
        ec2.modify_image_attribute(**image, LaunchPermission={change: users})
        assert sorted(shared(), key=str) == expected


def test_a_resource_that_cannot_be_stored_is_not_left(ec2, vpc, demo, monkeypatch):
    def ended(*_given):
        raise RuntimeError('the database has ended')

    def tagged(kind, count=1):
        return {'TagSpecifications': [{'ResourceType': kind, 'Tags': [
            {'Key': f'{half} {number}', 'Value': ''} for number in range(count)]} for half in 'ab']}
    with monkeypatch.context() as patched:
        patched.setattr(security_groups.db, 'add_group', ended)
        patched.setattr(security_groups.tags.db, 'put', ended)
        for call, given in ((ec2.create_security_group, {'GroupName': 'left', 'Description': '-', 'VpcId': vpc}),
                            (ec2.create_subnet, {'CidrBlock': '10.90.5.0/24', 'VpcId': vpc, **tagged('subnet')}),
                            (ec2.create_vpc, {'CidrBlock': '10.94.0.0/16', **tagged('vpc')})):
            assert refused(call, **given) == 'InternalError'
    assert not demo.get('/network/v2.0/security-groups?name=left').json()['security_groups']
    assert len(demo.get('/network/v2.0/routers').json()['routers']) == 1
    add_subnet(ec2, vpc, '10.90.5.0/24')
    assert refused(ec2.create_security_group, GroupName='left', Description='-', **tagged('security-group', 26)) == (
        'TagLimitExceeded')
    assert not demo.get('/network/v2.0/security-groups?name=left').json()['security_groups']


def test_a_refused_repetition_completes_a_change_of_routes(cloud, ec2, vpc, demo):
    """The process ended after it had changed the table."""
    add_subnet(ec2, vpc)
    gateway, main = gateway_of(ec2, vpc), main_table(ec2, vpc)['RouteTableId']
    route = {'RouteTableId': main, 'DestinationCidrBlock': EVERYTHING}
    own = sa.select(tables.ec2_vpcs.c.id).where(tables.ec2_vpcs.c.cidr == '10.90.0.0/16')
    with cloud.api_db.reader() as conn:
        of_table, of_gateway = (conn.execute(sa.select(table.c.id).where(table.c.vpc_id.in_(own))).scalar_one()
                                for table in (tables.ec2_route_tables, tables.ec2_internet_gateways))
    cloud.api_db.run(routing.db.put_route, of_table, EVERYTHING, of_gateway, False)
    assert refused(ec2.create_route, **route, GatewayId=gateway) == 'RouteAlreadyExists'
    assert network_of(demo, '10.90.1.0/24')['gateway_ip'] == '10.90.1.1'
    cloud.api_db.run(routing.db.remove_route, of_table, EVERYTHING)
    assert refused(ec2.delete_route, **route) == 'InvalidRoute.NotFound'
    assert network_of(demo, '10.90.1.0/24')['gateway_ip'] is None


def test_invalid_routes_are_refused(ec2, vpc):
    gateway = gateway_of(ec2, vpc)
    table = ec2.create_route_table(VpcId=vpc, ClientToken='t')['RouteTable']['RouteTableId']
    assert ec2.create_route_table(VpcId=vpc, ClientToken='t')['RouteTable']['RouteTableId'] == table
    loose = ec2.create_internet_gateway()['InternetGateway']['InternetGatewayId']
    base = {'RouteTableId': table, 'DestinationCidrBlock': EVERYTHING, 'GatewayId': gateway}
    for more, code in (
            ({'GatewayId': loose}, 'InvalidParameterValue'), ({'DestinationCidrBlock': 'x'}, 'InvalidParameterValue'),
            ({'DestinationCidrBlock': '10.90.3.0/24'}, 'InvalidParameterValue'),
            ({'DestinationCidrBlock': '10.90.0.0/16'}, 'InvalidParameterValue'),
            ({'GatewayId': 'igw-00000000000000dea'}, 'InvalidInternetGatewayID.NotFound'),
            ({'RouteTableId': 'rtb-00000000000000dea'}, 'InvalidRouteTableID.NotFound'),
            ({'RouteTableId': 'x'}, 'InvalidRouteTableId.Malformed'),
            ({'NatGatewayId': 'nat-1'}, 'UnsupportedOperation'),
            ({'DryRun': True}, 'DryRunOperation')):
        assert refused(ec2.create_route, **{**base, **more}) == code, more
    assert refused(ec2.replace_route, **base) == 'InvalidRoute.NotFound'
    ec2.create_route(**base)
    assert refused(ec2.create_route, **base) == 'RouteAlreadyExists'
    ec2.replace_route(**base)
    for number in range(14):
        ec2.create_route(**{**base, 'DestinationCidrBlock': f'198.51.{number}.0/24'})
    assert refused(ec2.create_route, **{**base, 'DestinationCidrBlock': '198.52.0.0/24'}) == 'RouteLimitExceeded'
    main = main_table(ec2, vpc)['RouteTableId']
    assert refused(ec2.delete_route_table, RouteTableId=main) == 'DependencyViolation'


def test_instances_are_in_their_vpc(ec2, vpc, demo):
    image = ec2.describe_images(Filters=[{'Name': 'name', 'Values': ['small']}])['Images'][0]['ImageId']
    subnet, gateway = add_subnet(ec2, vpc), gateway_of(ec2, vpc)
    main = main_table(ec2, vpc)['RouteTableId']
    ec2.create_route(RouteTableId=main, DestinationCidrBlock=EVERYTHING, GatewayId=gateway)
    group = ec2.create_security_group(GroupName='web', Description='web', VpcId=vpc)['GroupId']
    same_name = ec2.create_security_group(GroupName='web', Description='of the first VPC')['GroupId']
    assert refused(ec2.create_security_group, GroupName='web', Description='-', VpcId=vpc) == 'InvalidGroup.Duplicate'
    mine = [{'Name': 'vpc-id', 'Values': [vpc]}]
    assert [row['GroupId'] for row in ec2.describe_security_groups(Filters=mine)['SecurityGroups']] == [group]
    base = {'ImageId': image, 'InstanceType': 'm1.tiny', 'MinCount': 1, 'MaxCount': 1}
    ours = ec2.run_instances(**base, SubnetId=subnet, SecurityGroupIds=[group])['Instances'][0]['InstanceId']
    theirs = ec2.run_instances(**base)['Instances'][0]['InstanceId']         # of the first VPC's only network
    first = next(row['SubnetId'] for row in ec2.describe_subnets()['Subnets']
                 if row['VpcId'] != vpc and row['CidrBlock'] != OUTSIDE)
    for place in ({'SubnetId': first}, {}):
        assert refused(ec2.run_instances, **base, **place, SecurityGroupIds=[group]) == 'InvalidParameter'
    ec2.get_waiter('instance_running').wait(InstanceIds=[ours, theirs], WaiterConfig={'Delay': 0.2, 'MaxAttempts': 100})
    found = {row['InstanceId']: row for each in ec2.describe_instances()['Reservations'] for row in each['Instances']}
    assert found[ours]['VpcId'] == vpc and found[ours]['SubnetId'] == subnet and found[theirs]['VpcId'] != vpc
    assert found[ours]['PrivateIpAddress'].startswith('10.90.1.')
    found = ec2.describe_instances(Filters=mine)['Reservations']
    assert [row['InstanceId'] for each in found for row in each['Instances']] == [ours]
    address = ec2.allocate_address()
    ec2.associate_address(AllocationId=address['AllocationId'], InstanceId=ours)
    assert refused(ec2.detach_internet_gateway, InternetGatewayId=gateway, VpcId=vpc) == 'DependencyViolation'
    assert refused(ec2.delete_subnet, SubnetId=subnet) == 'DependencyViolation'
    assert network_of(demo, '10.90.1.0/24')['gateway_ip'] == '10.90.1.1'
    ec2.disassociate_address(PublicIp=address['PublicIp'])
    ec2.release_address(AllocationId=address['AllocationId'])
    ec2.terminate_instances(InstanceIds=[ours, theirs])
    ec2.get_waiter('instance_terminated').wait(InstanceIds=[ours, theirs],
                                               WaiterConfig={'Delay': 0.2, 'MaxAttempts': 100})
    ec2.delete_security_group(GroupId=same_name)


@pytest.mark.parametrize('default_first', [True, False])
def test_the_name_of_a_group_is_one_of_the_default_vpc(ec2, vpc, demo, default_first):
    image = ec2.describe_images(Filters=[{'Name': 'name', 'Values': ['small']}])['Images'][0]['ImageId']
    launch = {'ImageId': image, 'InstanceType': 'm1.tiny', 'MinCount': 1, 'MaxCount': 1, 'SecurityGroups': ['same']}
    port = {'IpProtocol': 'tcp', 'FromPort': 80, 'ToPort': 80}
    named, of_vpc = {'GroupName': 'same', 'CidrIp': '192.0.2.0/24', **port}, {'VpcId': vpc}
    made = [ec2.create_security_group(GroupName='same', Description='-', **more)['GroupId']
            for more in (({}, of_vpc) if default_first else (of_vpc, {}))]
    own, other = made if default_first else made[::-1]

    def rules(group):
        return ec2.describe_security_groups(GroupIds=[group])['SecurityGroups'][0]['IpPermissions']
    ec2.authorize_security_group_ingress(**named)
    ec2.authorize_security_group_ingress(GroupId=own, IpPermissions=[
        {**port, 'FromPort': 79, 'UserIdGroupPairs': [{'GroupName': 'same'}]}])
    pairs = [pair['GroupId'] for rule in rules(own) for pair in rule.get('UserIdGroupPairs', ())]
    assert len(rules(own)) == 2 and pairs == [own] and rules(other) == []
    assert [row['GroupId'] for row in ec2.describe_security_groups(GroupNames=['same'])['SecurityGroups']] == [own]
    assert refused(ec2.run_instances, **launch, DryRun=True) == 'DryRunOperation'
    ec2.delete_security_group(GroupName='same')
    assert [row['GroupId'] for row in ec2.describe_security_groups(GroupIds=[other])['SecurityGroups']] == [other]
    for call, given in ((ec2.delete_security_group, {'GroupName': 'same'}), (ec2.run_instances, launch),
                        (ec2.describe_security_groups, {'GroupNames': ['same']}),
                        (ec2.authorize_security_group_ingress, named)):
        assert refused(call, **given) == 'InvalidGroup.NotFound'
    for _number in range(2):
        assert demo.post('/network/v2.0/security-groups', {'security_group': {'name': 'twins'}}).status_code == 201
    assert refused(ec2.delete_security_group, GroupName='twins') == 'InvalidParameterValue'
    for row in demo.get('/network/v2.0/security-groups?name=twins').json()['security_groups']:
        demo.delete(f'/network/v2.0/security-groups/{row["id"]}')


def test_another_project_sees_and_changes_nothing(cloud, ec2, vpc):
    subnet, gateway, mark = add_subnet(ec2, vpc), gateway_of(ec2, vpc), [{'Key': 'a', 'Value': 'b'}]
    table = ec2.create_route_table(VpcId=vpc)['RouteTable']['RouteTableId']
    other = boto(cloud, cloud.admin())
    assert vpc not in {row['VpcId'] for row in other.describe_vpcs()['Vpcs']}
    assert not other.describe_internet_gateways()['InternetGateways']
    assert not other.describe_route_tables()['RouteTables']
    for call, given, code in (
            ('delete_vpc', {'VpcId': vpc}, 'InvalidVpcID.NotFound'),
            ('create_subnet', {'VpcId': vpc, 'CidrBlock': '10.90.9.0/24'}, 'InvalidVpcID.NotFound'),
            ('create_route_table', {'VpcId': vpc}, 'InvalidVpcID.NotFound'),
            ('create_security_group', {'VpcId': vpc, 'GroupName': 'x', 'Description': 'x'}, 'InvalidVpcID.NotFound'),
            ('delete_internet_gateway', {'InternetGatewayId': gateway}, 'InvalidInternetGatewayID.NotFound'),
            ('create_tags', {'Resources': [gateway], 'Tags': mark}, 'InvalidInternetGatewayID.NotFound'),
            ('create_tags', {'Resources': [table], 'Tags': mark}, 'InvalidRouteTableID.NotFound'),
            ('delete_route_table', {'RouteTableId': table}, 'InvalidRouteTableID.NotFound'),
            ('delete_route', {'RouteTableId': table, 'DestinationCidrBlock': EVERYTHING},
             'InvalidRouteTableID.NotFound')):
        assert refused(getattr(other, call), **given) == code, call
    assert subnet in {row['SubnetId'] for row in ec2.describe_subnets()['Subnets']}


def test_two_requests_at_the_same_moment_make_one_subnet(cloud, demo, vpc):
    def attempt(_number):
        try:
            return add_subnet(boto(cloud, demo), vpc)
        except botocore.exceptions.ClientError as error:
            return error.response['Error']['Code']
    with futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(attempt, range(4)))
    assert sum(each.startswith('subnet-') for each in found) == 1 and found.count('InvalidSubnet.Conflict') == 3, found
    assert len([row for row in demo.get('/network/v2.0/networks').json()['networks'] if row['name'] == vpc]) == 1


def test_a_router_that_the_network_service_has_removed_is_no_vpc(ec2, demo, cloud):
    """Its gateway can be detached and deleted all the same. DeleteVpc removes its route table."""
    vpc = ec2.create_vpc(CidrBlock='10.92.0.0/16')['Vpc']['VpcId']
    gateway = gateway_of(ec2, vpc)
    with cloud.api_db.reader() as conn:
        query = sa.select(tables.ec2_vpcs.c.id).where(tables.ec2_vpcs.c.cidr == '10.92.0.0/16')
        router, = conn.execute(query).scalars()
    assert demo.delete(f'/network/v2.0/routers/{router}').status_code == 204
    assert vpc not in {row['VpcId'] for row in ec2.describe_vpcs()['Vpcs']}
    assert refused(ec2.delete_vpc, VpcId=vpc) == 'DependencyViolation'
    ec2.detach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    ec2.delete_internet_gateway(InternetGatewayId=gateway)
    assert vpc in {row['VpcId'] for row in ec2.describe_route_tables()['RouteTables']}
    ec2.delete_vpc(VpcId=vpc)
    assert vpc not in {row['VpcId'] for row in ec2.describe_route_tables()['RouteTables']}
    assert refused(ec2.delete_vpc, VpcId=vpc) == 'InvalidVpcID.NotFound'


def test_dhcp_options_are_the_name_servers_of_subnets(cloud, ec2, vpc, demo):
    """Of subnets that are there and of later ones; a VPC without options leaves to the network service what it has."""
    def servers(cidr):
        return next(row for row in demo.get('/network/v2.0/subnets').json()['subnets']
                    if row['cidr'] == cidr)['dns_nameservers']
    add_subnet(ec2, vpc)
    own = next(row for row in demo.get('/network/v2.0/subnets').json()['subnets'] if row['cidr'] == '10.90.1.0/24')
    demo.put(f'/network/v2.0/subnets/{own["id"]}', {'subnet': {'dns_nameservers': ['192.0.2.9']}})
    add_subnet(ec2, vpc, '10.90.2.0/24')
    assert servers('10.90.1.0/24') == ['192.0.2.9'] and ec2.describe_vpcs(VpcIds=[vpc])['Vpcs'][0][
        'DhcpOptionsId'] == 'default'

    def wanted(*values, key='domain-name-servers'):
        return {'DhcpConfigurations': [{'Key': key, 'Values': list(values)}]}
    for wrong, code in ((wanted('no address'), 'InvalidParameterValue'), (wanted(), 'InvalidParameterValue'),
                        (wanted(*(f'192.0.2.{n}' for n in range(5))), 'InvalidParameterValue'),
                        (wanted('example.org', key='domain-name'), 'UnsupportedOperation')):
        assert refused(ec2.create_dhcp_options, **wrong) == code
    made = ec2.create_dhcp_options(**wanted('192.0.2.1', '192.0.2.2'), TagSpecifications=[
        {'ResourceType': 'dhcp-options', 'Tags': [{'Key': 'a', 'Value': 'b'}]}])['DhcpOptions']
    one = {'DhcpOptionsId': made['DhcpOptionsId']}
    assert ec2.describe_dhcp_options(Filters=[{'Name': 'tag:a', 'Values': ['b']}])['DhcpOptions'] == [made]
    ec2.associate_dhcp_options(**one, VpcId=vpc)
    add_subnet(ec2, vpc, '10.90.3.0/24')
    assert servers('10.90.1.0/24') == servers('10.90.3.0/24') == ['192.0.2.1', '192.0.2.2']
    assert ec2.describe_vpcs(Filters=[{'Name': 'dhcp-options-id', 'Values': [made['DhcpOptionsId']]}])['Vpcs'][0][
        'VpcId'] == vpc
    assert refused(ec2.delete_dhcp_options, **one) == 'DependencyViolation'
    other = boto(cloud, cloud.admin())
    assert refused(other.associate_dhcp_options, **one, VpcId=vpc) == 'InvalidVpcID.NotFound'
    assert refused(other.delete_dhcp_options, **one) == 'InvalidDhcpOptionsID.NotFound'
    ec2.associate_dhcp_options(DhcpOptionsId='default', VpcId=vpc)
    assert servers('10.90.1.0/24') == servers('10.90.3.0/24') == []
    ec2.delete_dhcp_options(**one)
    assert ec2.describe_dhcp_options()['DhcpOptions'] == []
