"""EC2 operations on internet gateways: attaching one sets the external gateway of the VPC's router."""
import contextlib

from nova.db.ec2 import vpcs as db
from nova.ec2 import errors
from nova.ec2 import filters
from nova.ec2 import operations
from nova.ec2 import tags
from nova.ec2.networks import routing
from nova.json_types import JsonDocument


def create_internet_gateway(req: operations.Request, given: operations.Given) -> JsonDocument:
    found = tags.given(given.get('TagSpecifications'), 'internet-gateway')
    req.writes()
    ident = req.api_db.run(db.add_gateway, req.project_id)
    if ident is None:
        raise errors.Ec2Error('InternetGatewayLimitExceeded', f'A project can have at most {db.MAX_GATEWAYS} internet '
                                                              'gateways.')
    tags.put(req, 'igw', ident, found)
    return {'InternetGateway': {'InternetGatewayId': req.ids.one('igw', ident), 'Attachments': [],
                                'OwnerId': req.project_id, 'Tags': tags.shown(found)}}


def describe_internet_gateways(req: operations.Request, given: operations.Given) -> JsonDocument:
    known = db.known(req.api_db, req.project_id)
    names, vpcs = req.ids.shown('igw', known.gateways), req.ids.shown('vpc', known.vpcs)
    kept = tags.of(req, 'igw', list(known.gateways))
    shown = [{'InternetGatewayId': names[ident], 'OwnerId': req.project_id, 'Tags': kept[ident], 'Attachments': [
        {'VpcId': vpcs[row['vpc_id']], 'State': 'available'}] if row['vpc_id'] else []}
             for ident, row in known.gateways.items()]
    return filters.answer('InternetGateways', shown, given, 'InternetGatewayId', {
        'internet-gateway-id': 'InternetGatewayId', 'owner-id': 'OwnerId', 'attachment.vpc-id': 'Attachments.VpcId',
        'attachment.state': 'Attachments.State'}, prefix='igw')


def attach_internet_gateway(req: operations.Request, given: operations.Given) -> JsonDocument:
    known = db.known(req.api_db, req.project_id)
    gateway = routing.find(req, known, 'igw', given['InternetGatewayId'])
    vpc = routing.find_vpc(req, known, given['VpcId'])
    outside = req.call('network', 'GET', '/networks', query={'router:external': 'true'})['networks']
    if not outside:
        raise errors.unsupported('This cloud has no external network.')
    req.writes()
    if not db.attach_gateway(req.api_db, gateway, vpc):
        raise errors.Ec2Error('Resource.AlreadyAssociated', f"'{given['InternetGatewayId']}' is already attached, or "
                                                            f"'{given['VpcId']}' already has an internet gateway.")
    with contextlib.ExitStack() as undo:
        undo.callback(routing.restore_routes, req, vpc)
        undo.callback(req.api_db.run, db.detach_gateway, gateway, vpc)
        req.call('network', 'PUT', f'/routers/{vpc}', {'router': {
            'external_gateway_info': {'network_id': outside[0]['id']}}})
        undo.callback(routing.undo, req, 'PUT', f'/routers/{vpc}', {'router': {'external_gateway_info': {}}})
        routing.write_routes(req, vpc)
        undo.pop_all()
    return {}


def detach_internet_gateway(req: operations.Request, given: operations.Given) -> JsonDocument:
    known = db.known(req.api_db, req.project_id)
    gateway = routing.find(req, known, 'igw', given['InternetGatewayId'])
    vpc = routing.find_vpc(req, known, given['VpcId'])
    if known.gateways[gateway]['vpc_id'] != vpc:
        routing.write_routes(req, vpc)
        raise errors.Ec2Error('Gateway.NotAttached', f"'{given['InternetGatewayId']}' is not attached to "
                                                     f"'{given['VpcId']}'.")
    # 404: the router was deleted, so nothing is attached
    with errors.ignored(404), errors.OnStatus(409, lambda _refused: errors.Ec2Error(
            'DependencyViolation', f"'{given['VpcId']}' has mapped public addresses: disassociate them before "
                                   'detaching the gateway.')):
        req.call('network', 'PUT', f'/routers/{vpc}', {'router': {'external_gateway_info': {}}})
    req.api_db.run(db.detach_gateway, gateway, vpc)
    routing.apply_changed(req, vpc, lambda: db.attach_gateway(req.api_db, gateway, vpc))
    return {}


def delete_internet_gateway(req: operations.Request, given: operations.Given) -> JsonDocument:
    gateway = routing.find(req, db.known(req.api_db, req.project_id), 'igw', given['InternetGatewayId'])
    req.writes()
    if not req.api_db.run(db.remove_gateway, gateway):
        raise errors.Ec2Error('DependencyViolation', f"'{given['InternetGatewayId']}' is attached and cannot be "
                                                     'deleted.')
    tags.forget(req, 'igw', gateway)
    return {}


OPERATIONS = [
    operations.row('CreateInternetGateway', create_internet_gateway, 'TagSpecifications'),
    operations.row('DescribeInternetGateways', describe_internet_gateways, 'InternetGatewayIds' + operations.PAGED),
    operations.row('AttachInternetGateway', attach_internet_gateway, 'InternetGatewayId VpcId'),
    operations.row('DetachInternetGateway', detach_internet_gateway, 'InternetGatewayId VpcId'),
    operations.row('DeleteInternetGateway', delete_internet_gateway, 'InternetGatewayId'),
]
