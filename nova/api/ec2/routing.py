"""Ways out of VPCs: internet gateways and route tables.

An internet gateway that is attached is the way of the VPC's router to the external network. A route table reaches
guests by DHCP: a subnet's gateway is set where its table sends everything to the internet gateway; otherwise its guests
are told the ways that they have. What they may reach at all is for security groups to say.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
import contextlib
import ipaddress
from typing import Any
import uuid

from nova.api.ec2 import client_tokens
from nova.api.ec2 import errors
from nova.api.ec2 import filters
from nova.api.ec2 import ids
from nova.api.ec2 import operations
from nova.api.ec2 import tags
from nova.db.ec2 import vpcs as db

EVERYTHING = '0.0.0.0/0'
JOINS = ('network:router_interface', 'network:router_interface_distributed', 'network:ha_router_replicated_interface')
PART = 50                                     # ids of one query
TRIES = 3


# ---- the network service

def joins(req: operations.Request, routers: Sequence[str]) -> list[dict[str, Any]]:
    """The ports by which routers are in subnets."""
    found: list[dict[str, Any]] = []
    for start in range(0, len(routers), PART):
        found += req.call('network', 'GET', '/ports', query={'device_id': list(routers[start:start + PART])})['ports']
    return [port for port in found if port['device_owner'] in JOINS]


def subnets(req: operations.Request, uuids: Iterable[str]) -> list[dict[str, Any]]:
    """Subnets of these ids."""
    wanted, found = list(uuids), []
    for start in range(0, len(wanted), PART):
        found += req.call('network', 'GET', '/subnets', query={'id': wanted[start:start + PART]})['subnets']
    return found


def groups(req: operations.Request) -> list[dict[str, Any]]:
    """The security groups of the project."""
    return list(req.call('network', 'GET', '/security-groups',
                         query={'project_id': req.project_id})['security_groups'])


def undo(req: operations.Request, method: str, path: str, body: Any = None) -> None:
    """Take back what a request has done to the network service, as far as that goes: its own error is told."""
    with contextlib.suppress(errors.ServiceRefused, errors.Ec2Error):
        req.call('network', method, path, body)


def carry(req: operations.Request, vpc: str) -> None:
    """Make the subnets of a VPC what its route tables say, and look whether another request has changed them meanwhile.

    :raises ServiceRefused: the network service does not take it
    """
    known = db.known(req.api_db, req.project_id)
    for _try in range(TRIES):
        joined = [fixed for port in joins(req, [vpc]) for fixed in port['fixed_ips']]
        routers = {fixed['subnet_id']: fixed['ip_address'] for fixed in joined}
        for row in subnets(req, routers):
            wanted = _wanted(known, vpc, row, routers[row['id']])
            if row['ip_version'] == 4 and any(row[name] != value for name, value in wanted.items()):
                req.call('network', 'PUT', f'/subnets/{row["id"]}', {'subnet': wanted})
        before, known = known, db.known(req.api_db, req.project_id)
        if known == before:
            return


def _wanted(known: db.Known, vpc: str, subnet: dict[str, Any], router: str) -> dict[str, Any]:
    """The gateway and the routes of a subnet.

    :param router: the address of the VPC's router in it
    """
    if vpc not in known.vpcs:
        return {}
    table, attached = known.table_of(vpc, subnet['id']), known.gateway_of(vpc)
    out = sorted(where for where, gateway in known.routes.get(table or '', {}).items() if gateway == attached)
    if EVERYTHING in out:
        return {'gateway_ip': router, 'host_routes': []}
    return {'gateway_ip': None, 'host_routes': [{'destination': where, 'nexthop': router}
                                                for where in [known.vpcs[vpc]['cidr'], *out]]}


# ---- internet gateways

def _find(req: operations.Request, known: db.Known, prefix: str, shown: str) -> str:
    """The uuid of an internet gateway or a route table of the project.

    :raises Ec2Error: there is none
    """
    ident = req.ids.uuid(prefix, shown)
    if ident not in (known.gateways if prefix == 'igw' else known.tables):
        raise errors.not_found(prefix, shown)
    return ident


def _vpc(req: operations.Request, known: db.Known, shown: str) -> str:
    """The uuid of a VPC that was made.

    :raises Ec2Error: there is none, or it is the first one
    """
    if shown == req.vpc:
        raise errors.unsupported('The routers of the first VPC are those of the network service. CreateVpc makes '
                                 'another one.')
    ident = req.ids.uuid('vpc', shown)
    if ident not in known.vpcs:
        raise errors.not_found('vpc', shown)
    return ident


def create_internet_gateway(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    found = tags.given(given.get('TagSpecifications'), 'internet-gateway')
    req.writes()
    ident = req.api_db.run(db.add_gateway, req.project_id)
    if ident is None:
        raise errors.Ec2Error('InternetGatewayLimitExceeded', f'A project has {db.MOST_GATEWAYS} internet gateways at '
                                                              'most.')
    tags.put(req, 'igw', ident, found)
    return {'InternetGateway': {'InternetGatewayId': req.ids.one('igw', ident), 'Attachments': [],
                                'OwnerId': req.project_id, 'Tags': tags.shown(found)}}


def describe_internet_gateways(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    known = db.known(req.api_db, req.project_id)
    names, vpcs = req.ids.shown('igw', known.gateways), req.ids.shown('vpc', known.vpcs)
    kept = tags.of(req, 'igw', list(known.gateways))
    shown = [{'InternetGatewayId': names[ident], 'OwnerId': req.project_id, 'Tags': kept[ident], 'Attachments': [
        {'VpcId': vpcs[row['vpc_id']], 'State': 'available'}] if row['vpc_id'] else []}
             for ident, row in known.gateways.items()]
    shown = filters.choose(shown, 'InternetGatewayId', given.get('InternetGatewayIds'), 'igw')
    shown = filters.apply(shown, given.get('Filters'), {
        'internet-gateway-id': lambda row: row['InternetGatewayId'], 'owner-id': lambda row: row['OwnerId'],
        'attachment.vpc-id': lambda row: [each['VpcId'] for each in row['Attachments']],
        'attachment.state': lambda row: [each['State'] for each in row['Attachments']]})
    page, token = filters.page(shown, given, 'InternetGatewayId')
    return {'InternetGateways': page, 'NextToken': token}


def attach_internet_gateway(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    known = db.known(req.api_db, req.project_id)
    gateway = _find(req, known, 'igw', given['InternetGatewayId'])
    vpc = _vpc(req, known, given['VpcId'])
    outside = req.call('network', 'GET', '/networks', query={'router:external': 'true'})['networks']
    if not outside:
        raise errors.unsupported('This cloud has no external network.')
    req.writes()
    if not db.attach_gateway(req.api_db, gateway, vpc):
        raise errors.Ec2Error('Resource.AlreadyAssociated', f"'{given['InternetGatewayId']}' is attached already, or "
                                                            f"'{given['VpcId']}' has another internet gateway.")
    try:
        req.call('network', 'PUT', f'/routers/{vpc}', {'router': {
            'external_gateway_info': {'network_id': outside[0]['id']}}})
    except BaseException:
        req.api_db.run(db.detach_gateway, gateway, vpc)
        raise
    carry(req, vpc)
    return {}


def detach_internet_gateway(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    known = db.known(req.api_db, req.project_id)
    gateway = _find(req, known, 'igw', given['InternetGatewayId'])
    vpc = _vpc(req, known, given['VpcId'])
    if known.gateways[gateway]['vpc_id'] != vpc:
        raise errors.Ec2Error('Gateway.NotAttached', f"'{given['InternetGatewayId']}' is not attached to "
                                                     f"'{given['VpcId']}'.")
    try:
        req.call('network', 'PUT', f'/routers/{vpc}', {'router': {'external_gateway_info': {}}})
    except errors.ServiceRefused as refused:
        if refused.status == 409:
            raise errors.Ec2Error('DependencyViolation', f"'{given['VpcId']}' has mapped public addresses: "
                                                         'disassociate them before the gateway is detached.') from None
        if refused.status != 404:                            # else the network service has removed it itself
            raise
    req.api_db.run(db.detach_gateway, gateway, vpc)
    carry(req, vpc)
    return {}


def delete_internet_gateway(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    gateway = _find(req, db.known(req.api_db, req.project_id), 'igw', given['InternetGatewayId'])
    req.writes()
    if not req.api_db.run(db.remove_gateway, gateway):
        raise errors.Ec2Error('DependencyViolation', f"'{given['InternetGatewayId']}' is attached and cannot be "
                                                     'deleted.')
    return {}


# ---- route tables

def _association(ident: str) -> str:
    """The uuid of the association of a VPC with its main route table."""
    return ids.derived('rtbassoc', ident)


def _tables(req: operations.Request, known: db.Known, wanted: Iterable[str]) -> list[dict[str, Any]]:
    """Route tables as they are shown."""
    wanted = list(wanted)
    names, vpcs, gateways = (req.ids.shown(*each) for each in (
        ('rtb', wanted), ('vpc', known.vpcs), ('igw', known.gateways)))
    held = [row for row in known.associations.values() if row['route_table_id'] in names]
    nets = req.ids.shown('subnet', [row['subnet_id'] for row in held])
    mains = {_association(ident): ident for ident in wanted if known.tables[ident]['main_of']}
    joins_ = req.ids.shown('rtbassoc', [*(row['id'] for row in held), *mains])
    kept = tags.of(req, 'rtb', wanted)
    shown = []
    for ident in wanted:
        vpc = known.tables[ident]['vpc_id']
        attached = known.gateway_of(vpc)
        routes = [{'DestinationCidrBlock': known.vpcs[vpc]['cidr'], 'GatewayId': 'local', 'State': 'active',
                   'Origin': 'CreateRouteTable'}] + [
            {'DestinationCidrBlock': where, 'GatewayId': gateways[gateway], 'Origin': 'CreateRoute',
             'State': 'active' if gateway == attached else 'blackhole'}
            for where, gateway in sorted(known.routes.get(ident, {}).items())]
        of = [(held_id, None) for held_id, table in mains.items() if table == ident] + [
            (row['id'], row['subnet_id']) for row in held if row['route_table_id'] == ident]
        shown.append({'RouteTableId': names[ident], 'VpcId': vpcs[vpc], 'OwnerId': req.project_id, 'Routes': routes,
                      'Tags': kept[ident], 'PropagatingVgws': [], 'Associations': [
                          {'RouteTableAssociationId': joins_[held_id], 'RouteTableId': names[ident],
                           'SubnetId': nets[subnet], 'Main': subnet is None,
                           'AssociationState': {'State': 'associated'}} for held_id, subnet in of]})
    return shown


def create_route_table(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    vpc = _vpc(req, db.known(req.api_db, req.project_id), given['VpcId'])
    found = tags.given(given.get('TagSpecifications'), 'route-table')
    req.writes()
    token = given.get('ClientToken')
    ident = str(uuid.uuid5(uuid.UUID(vpc), f'{req.project_id} {token}') if token else uuid.uuid4())

    def make() -> str:
        if not req.api_db.run(db.add_table, ident, req.project_id, vpc):
            raise errors.Ec2Error('RouteTableLimitExceeded', f'A project has {db.MOST_TABLES} route tables at most.')
        tags.put(req, 'rtb', ident, found)
        return ident

    def find() -> str | None:
        return ident if db.exists(req.api_db, 'rtb', req.project_id, ident) else None
    ident = client_tokens.once(req, 'CreateRouteTable', given, find, make)
    known = db.known(req.api_db, req.project_id)
    if ident not in known.tables:                        # made by this token, and deleted
        raise errors.not_found('rtb', req.ids.one('rtb', ident))
    return {'RouteTable': _tables(req, known, [ident])[0]}


def describe_route_tables(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    known = db.known(req.api_db, req.project_id)
    shown = filters.choose(_tables(req, known, known.tables), 'RouteTableId', given.get('RouteTableIds'), 'rtb')
    shown = filters.apply(shown, given.get('Filters'), {
        'route-table-id': lambda row: row['RouteTableId'], 'vpc-id': lambda row: row['VpcId'],
        'owner-id': lambda row: row['OwnerId'],
        'association.main': lambda row: [each['Main'] for each in row['Associations']],
        'association.subnet-id': lambda row: [each['SubnetId'] for each in row['Associations']],
        'association.route-table-association-id': lambda row: [
            each['RouteTableAssociationId'] for each in row['Associations']],
        'association.route-table-id': lambda row: [each['RouteTableId'] for each in row['Associations']],
        'route.destination-cidr-block': lambda row: [each['DestinationCidrBlock'] for each in row['Routes']],
        'route.gateway-id': lambda row: [each['GatewayId'] for each in row['Routes']],
        'route.state': lambda row: [each['State'] for each in row['Routes']],
        'route.origin': lambda row: [each['Origin'] for each in row['Routes']]})
    page, token = filters.page(shown, given, 'RouteTableId')
    return {'RouteTables': page, 'NextToken': token}


def delete_route_table(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    known = db.known(req.api_db, req.project_id)
    table = _find(req, known, 'rtb', given['RouteTableId'])
    if known.tables[table]['main_of'] or any(
            row['route_table_id'] == table for row in known.associations.values()):
        raise errors.Ec2Error('DependencyViolation', f"The routeTable '{given['RouteTableId']}' has dependencies and "
                                                     'cannot be deleted.')
    req.writes()
    req.api_db.run(db.remove_table, table)
    return {}


def create_route(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    return _put_route(req, given, replace=False)


def replace_route(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    return _put_route(req, given, replace=True)


def _put_route(req: operations.Request, given: operations.Given, replace: bool) -> dict[str, Any]:
    known = db.known(req.api_db, req.project_id)
    table = _find(req, known, 'rtb', given['RouteTableId'])
    vpc = known.tables[table]['vpc_id']
    where = _destination(given, known.vpcs[vpc]['cidr'])
    if not given.get('GatewayId'):
        raise errors.missing('GatewayId')
    gateway = _find(req, known, 'igw', given['GatewayId'])
    if known.gateways[gateway]['vpc_id'] != vpc:
        raise errors.Ec2Error('InvalidParameterValue', f"route table {given['RouteTableId']} and network gateway "
                                                       f"{given['GatewayId']} belong to different networks")
    if not replace and len(known.routes.get(table, {})) >= db.MOST_ROUTES:
        raise errors.Ec2Error('RouteLimitExceeded', f'A route table has {db.MOST_ROUTES} routes at most.')
    req.writes()
    if not req.api_db.run(db.put_route, table, where, gateway, replace):
        if replace:
            raise _no_route(given, where)
        raise errors.Ec2Error('RouteAlreadyExists', f'The route identified by {where} already exists.')
    carry(req, vpc)
    return {} if replace else {'Return': True}


def _destination(given: operations.Given, local: str) -> str:
    """
    :raises Ec2Error: it is no range, or one of the VPC itself
    """
    text = given.get('DestinationCidrBlock')
    if not text:
        raise errors.missing('DestinationCidrBlock')
    try:
        cidr = ipaddress.IPv4Network(text)
    except ValueError:
        raise errors.invalid('destinationCidrBlock', text) from None
    if cidr.subnet_of(ipaddress.IPv4Network(local)):
        raise errors.Ec2Error('InvalidParameterValue', f'The destination {cidr} is within the VPC, whose route is '
                                                       'local.')
    return str(cidr)


def _no_route(given: operations.Given, where: str) -> errors.Ec2Error:
    return errors.Ec2Error('InvalidRoute.NotFound', f"no route with destination-cidr-block {where} in route table "
                                                    f"{given['RouteTableId']}")


def delete_route(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    known = db.known(req.api_db, req.project_id)
    table = _find(req, known, 'rtb', given['RouteTableId'])
    vpc = known.tables[table]['vpc_id']
    where = _destination(given, known.vpcs[vpc]['cidr'])
    req.writes()
    if not req.api_db.run(db.remove_route, table, where):
        raise _no_route(given, where)
    carry(req, vpc)
    return {}


def associate_route_table(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    known = db.known(req.api_db, req.project_id)
    table = _find(req, known, 'rtb', given['RouteTableId'])
    vpc = known.tables[table]['vpc_id']
    if not given.get('SubnetId'):
        raise errors.missing('SubnetId')
    subnet = req.find('subnet', given['SubnetId'], 'network', '/subnets/{}')['subnet']['id']
    if subnet not in {fixed['subnet_id'] for port in joins(req, [vpc]) for fixed in port['fixed_ips']}:
        raise errors.Ec2Error('InvalidParameterValue', f"route table {given['RouteTableId']} and subnet "
                                                       f"{given['SubnetId']} belong to different networks")
    req.writes()
    ident = req.api_db.run(db.associate, subnet, table)
    if ident is None:
        raise errors.Ec2Error('Resource.AlreadyAssociated', f"The subnet {given['SubnetId']} has a route table "
                                                            'already.')
    carry(req, vpc)
    return {'AssociationId': req.ids.one('rtbassoc', ident), 'AssociationState': {'State': 'associated'}}


def _associated(req: operations.Request, known: db.Known, shown: str) -> tuple[str, str | None]:
    """(VPC, subnet) of an association; of that with a main table no subnet.

    :raises Ec2Error: there is none
    """
    ident = req.ids.uuid('rtbassoc', shown)
    for subnet, row in known.associations.items():
        if row['id'] == ident:
            return known.tables[row['route_table_id']]['vpc_id'], subnet
    for table, row in known.tables.items():
        if row['main_of'] and _association(table) == ident:
            return row['vpc_id'], None
    raise errors.not_found('rtbassoc', shown)


def disassociate_route_table(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    known = db.known(req.api_db, req.project_id)
    vpc, subnet = _associated(req, known, given['AssociationId'])
    if subnet is None:
        raise errors.Ec2Error('InvalidParameterValue', 'The association with the main route table is not removed: '
                                                       'ReplaceRouteTableAssociation makes another table the main one.')
    req.writes()
    req.api_db.run(db.disassociate, subnet)
    carry(req, vpc)
    return {}


def replace_route_table_association(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    known = db.known(req.api_db, req.project_id)
    vpc, subnet = _associated(req, known, given['AssociationId'])
    table = _find(req, known, 'rtb', given['RouteTableId'])
    if known.tables[table]['vpc_id'] != vpc:
        raise errors.Ec2Error('InvalidParameterValue', f"route table {given['RouteTableId']} belongs to a different "
                                                       'network')
    req.writes()
    if subnet is None:
        req.api_db.run(db.set_main, vpc, table)
        ident = _association(table)
    else:
        ident = req.api_db.run(_replace, subnet, table)
    carry(req, vpc)
    return {'NewAssociationId': req.ids.one('rtbassoc', ident), 'AssociationState': {'State': 'associated'}}


def _replace(conn: Any, subnet: str, table: str) -> str:
    db.disassociate(conn, subnet)
    return str(db.associate(conn, subnet, table))


OPERATIONS = [
    operations.row('CreateInternetGateway', create_internet_gateway, 'TagSpecifications'),
    operations.row('DescribeInternetGateways', describe_internet_gateways, 'InternetGatewayIds' + operations.PAGED),
    operations.row('AttachInternetGateway', attach_internet_gateway, 'InternetGatewayId VpcId'),
    operations.row('DetachInternetGateway', detach_internet_gateway, 'InternetGatewayId VpcId'),
    operations.row('DeleteInternetGateway', delete_internet_gateway, 'InternetGatewayId'),
    operations.row('CreateRouteTable', create_route_table, 'VpcId TagSpecifications ClientToken'),
    operations.row('DescribeRouteTables', describe_route_tables, 'RouteTableIds' + operations.PAGED),
    operations.row('DeleteRouteTable', delete_route_table, 'RouteTableId'),
    operations.row('CreateRoute', create_route, 'RouteTableId DestinationCidrBlock GatewayId'),
    operations.row('ReplaceRoute', replace_route, 'RouteTableId DestinationCidrBlock GatewayId'),
    operations.row('DeleteRoute', delete_route, 'RouteTableId DestinationCidrBlock'),
    operations.row('AssociateRouteTable', associate_route_table, 'RouteTableId SubnetId'),
    operations.row('DisassociateRouteTable', disassociate_route_table, 'AssociationId'),
    operations.row('ReplaceRouteTableAssociation', replace_route_table_association, 'AssociationId RouteTableId'),
]
