"""EC2 operations on routes to internet gateways."""
import ipaddress
from typing import Any

from nova.db.ec2 import vpcs as db
from nova.ec2 import errors
from nova.ec2 import operations
from nova.ec2.networks import routing
from nova.json_types import JsonDocument


def create_route(req: operations.Request, given: operations.Given) -> JsonDocument:
    return _put_route(req, given, replace=False)


def replace_route(req: operations.Request, given: operations.Given) -> JsonDocument:
    return _put_route(req, given, replace=True)


def _put_route(req: operations.Request, given: operations.Given, replace: bool) -> dict[str, Any]:
    known = db.known(req.api_db, req.project_id)
    table = routing.find(req, known, 'rtb', given['RouteTableId'])
    vpc = known.tables[table]['vpc_id']
    where = _destination(given, known.vpcs[vpc]['cidr'])
    if not given.get('GatewayId'):
        raise errors.missing('GatewayId')
    gateway = routing.find(req, known, 'igw', given['GatewayId'])
    if known.gateways[gateway]['vpc_id'] != vpc:
        raise errors.Ec2Error('InvalidParameterValue', f"route table {given['RouteTableId']} and network gateway "
                                                       f"{given['GatewayId']} belong to different networks")
    if not replace and len(known.routes.get(table, {})) >= db.MAX_ROUTES:
        raise errors.Ec2Error('RouteLimitExceeded', f'A route table can have at most {db.MAX_ROUTES} routes.')
    req.writes()
    if not req.api_db.run(db.put_route, table, where, gateway, replace):
        if replace:
            raise _no_route(given, where)
        routing.write_routes(req, vpc)               # the process of an earlier request may have ended before
        raise errors.Ec2Error('RouteAlreadyExists', f'The route identified by {where} already exists.')
    routing.apply_changed(req, vpc, lambda: replace or req.api_db.run(db.remove_route, table, where))
    return {} if replace else {'Return': True}


def _destination(given: operations.Given, local: str) -> str:
    """Return the destination of a route.

    :raises Ec2Error: the destination is malformed, or inside the VPC
    """
    text = given.get('DestinationCidrBlock')
    if not text:
        raise errors.missing('DestinationCidrBlock')
    try:
        cidr = ipaddress.IPv4Network(text)
    except ValueError:
        raise errors.invalid('destinationCidrBlock', text) from None
    if cidr.subnet_of(ipaddress.IPv4Network(local)):
        raise errors.Ec2Error('InvalidParameterValue', f'The destination {cidr} is within the VPC, which has a '
                                                       'local route.')
    return str(cidr)


def _no_route(given: operations.Given, where: str) -> errors.Ec2Error:
    return errors.Ec2Error('InvalidRoute.NotFound', f"no route with destination-cidr-block {where} in route table "
                                                    f"{given['RouteTableId']}")


def delete_route(req: operations.Request, given: operations.Given) -> JsonDocument:
    known = db.known(req.api_db, req.project_id)
    table = routing.find(req, known, 'rtb', given['RouteTableId'])
    vpc = known.tables[table]['vpc_id']
    where = _destination(given, known.vpcs[vpc]['cidr'])
    req.writes()
    gateway = known.routes.get(table, {}).get(where)
    if gateway is None or not req.api_db.run(db.remove_route, table, where):
        routing.write_routes(req, vpc)
        raise _no_route(given, where)
    routing.apply_changed(req, vpc, lambda: req.api_db.run(db.put_route, table, where, gateway, False))
    return {}


OPERATIONS = [
    operations.row('CreateRoute', create_route, 'RouteTableId DestinationCidrBlock GatewayId'),
    operations.row('ReplaceRoute', replace_route, 'RouteTableId DestinationCidrBlock GatewayId'),
    operations.row('DeleteRoute', delete_route, 'RouteTableId DestinationCidrBlock'),
]
