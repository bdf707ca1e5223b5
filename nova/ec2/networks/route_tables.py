"""EC2 operations on route tables and their associations with subnets."""
from collections.abc import Iterable
import datetime
from typing import Any
import uuid

from nova.db.ec2 import vpcs as db
from nova.db.engine import Connection
from nova.ec2 import client_tokens
from nova.ec2 import errors
from nova.ec2 import filters
from nova.ec2 import ids
from nova.ec2 import operations
from nova.ec2 import tags
from nova.ec2.networks import routing
from nova.json_types import JsonDocument


def _association(ident: str) -> str:
    """Return a UUID for the association of a main route table (``ident``) with its VPC."""
    return ids.derived('rtbassoc', ident)


def _tables(req: operations.Request, known: db.Known, wanted: Iterable[str]) -> list[dict[str, Any]]:
    """Return the views of route tables."""
    wanted = list(wanted)
    names, vpcs, gateways = (req.ids.shown(*each) for each in (
        ('rtb', wanted), ('vpc', known.vpcs), ('igw', known.gateways)))
    held = [row for row in known.associations.values() if row['route_table_id'] in names]
    nets = req.ids.shown('subnet', [row['subnet_id'] for row in held])
    mains = {_association(ident): ident for ident in wanted if known.tables[ident]['main_vpc_id']}
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


def create_route_table(req: operations.Request, given: operations.Given) -> JsonDocument:
    vpc = routing.find_vpc(req, db.known(req.api_db, req.project_id), given['VpcId'])
    found = tags.given(given.get('TagSpecifications'), 'route-table')
    req.writes()
    token = given.get('ClientToken')
    ident = str(uuid.uuid5(uuid.UUID(vpc), f'{req.project_id} {token}') if token else uuid.uuid4())

    def make() -> str:
        if not req.api_db.run(db.add_table, ident, req.project_id, vpc):
            raise errors.Ec2Error('RouteTableLimitExceeded', f'The limit is {db.MAX_ROUTE_TABLES} route tables.')
        return ident

    def find(_since: datetime.datetime | None) -> str | None:
        return ident if db.exists(req.api_db, 'rtb', req.project_id, ident) else None
    ident = client_tokens.once(req, 'CreateRouteTable', given, find, make, lambda uuid: tags.put(
        req, 'rtb', uuid, found))
    known = db.known(req.api_db, req.project_id)
    if ident not in known.tables:            # the table of an earlier request with this token was deleted
        raise errors.not_found('rtb', req.ids.one('rtb', ident))
    return {'RouteTable': _tables(req, known, [ident])[0]}


def describe_route_tables(req: operations.Request, given: operations.Given) -> JsonDocument:
    known = db.known(req.api_db, req.project_id)
    return filters.answer('RouteTables', _tables(req, known, known.tables), given, 'RouteTableId', {
        'route-table-id': 'RouteTableId', 'vpc-id': 'VpcId', 'owner-id': 'OwnerId',
        'association.main': 'Associations.Main', 'association.subnet-id': 'Associations.SubnetId',
        'association.route-table-association-id': 'Associations.RouteTableAssociationId',
        'association.route-table-id': 'Associations.RouteTableId',
        'route.destination-cidr-block': 'Routes.DestinationCidrBlock', 'route.gateway-id': 'Routes.GatewayId',
        'route.state': 'Routes.State', 'route.origin': 'Routes.Origin', **filters.unset(
            'association.gateway-id route.destination-ipv6-cidr-block route.destination-prefix-list-id '
            'route.egress-only-internet-gateway-id route.instance-id route.nat-gateway-id route.transit-gateway-id '
            'route.vpc-peering-connection-id')}, prefix='rtb')


def delete_route_table(req: operations.Request, given: operations.Given) -> JsonDocument:
    known = db.known(req.api_db, req.project_id)
    table = routing.find(req, known, 'rtb', given['RouteTableId'])
    if known.tables[table]['main_vpc_id'] or any(
            row['route_table_id'] == table for row in known.associations.values()):
        raise errors.Ec2Error('DependencyViolation', f"The routeTable '{given['RouteTableId']}' has dependencies and "
                                                     'cannot be deleted.')
    req.writes()
    req.api_db.run(db.remove_table, table)
    tags.forget(req, 'rtb', table)
    return {}


def associate_route_table(req: operations.Request, given: operations.Given) -> JsonDocument:
    known = db.known(req.api_db, req.project_id)
    table = routing.find(req, known, 'rtb', given['RouteTableId'])
    vpc = known.tables[table]['vpc_id']
    if not given.get('SubnetId'):
        raise errors.missing('SubnetId')
    subnet = req.find('subnet', given['SubnetId'], 'network', '/subnets/{}')['subnet']['id']
    if subnet not in {fixed['subnet_id'] for port in routing.joins(req, [vpc]) for fixed in port['fixed_ips']}:
        raise errors.Ec2Error('InvalidParameterValue', f"route table {given['RouteTableId']} and subnet "
                                                       f"{given['SubnetId']} belong to different networks")
    req.writes()
    ident = req.api_db.run(db.associate, subnet, table)
    if ident is None:
        routing.write_routes(req, vpc)
        raise errors.Ec2Error('Resource.AlreadyAssociated', f"The subnet {given['SubnetId']} has a route table "
                                                            'already.')
    routing.apply_changed(req, vpc, lambda: req.api_db.run(db.disassociate, subnet))
    return {'AssociationId': req.ids.one('rtbassoc', ident), 'AssociationState': {'State': 'associated'}}


def _associated(req: operations.Request, known: db.Known, shown: str) -> tuple[str, str | None]:
    """Return (VPC, subnet) of an association; the association with a main table has no subnet.

    :raises Ec2Error: the association does not exist
    """
    ident = req.uuid('rtbassoc', shown)
    for subnet, row in known.associations.items():
        if row['id'] == ident:
            return known.tables[row['route_table_id']]['vpc_id'], subnet
    for table, row in known.tables.items():
        if row['main_vpc_id'] and _association(table) == ident:
            return row['vpc_id'], None
    raise errors.not_found('rtbassoc', shown)


def disassociate_route_table(req: operations.Request, given: operations.Given) -> JsonDocument:
    known = db.known(req.api_db, req.project_id)
    vpc, subnet = _associated(req, known, given['AssociationId'])
    if subnet is None:
        raise errors.Ec2Error('InvalidParameterValue', 'Cannot remove the association with the main route table. '
                                                       'Use ReplaceRouteTableAssociation to choose another main table.')
    req.writes()
    old = known.associations[subnet]
    req.api_db.run(db.disassociate, subnet)
    routing.apply_changed(req, vpc, lambda: req.api_db.run(_replace, subnet, old['route_table_id'], old['id']))
    return {}


def replace_route_table_association(req: operations.Request, given: operations.Given) -> JsonDocument:
    known = db.known(req.api_db, req.project_id)
    vpc, subnet = _associated(req, known, given['AssociationId'])
    table = routing.find(req, known, 'rtb', given['RouteTableId'])
    if known.tables[table]['vpc_id'] != vpc:
        raise errors.Ec2Error('InvalidParameterValue', f"route table {given['RouteTableId']} belongs to a different "
                                                       'network')
    req.writes()
    if subnet is None:
        old_main = str(known.main_of(vpc))
        req.api_db.run(db.set_main, vpc, table)
        ident = _association(table)
        routing.apply_changed(req, vpc, lambda: req.api_db.run(db.set_main, vpc, old_main))
    else:
        old = known.associations[subnet]
        ident = req.api_db.run(_replace, subnet, table)
        routing.apply_changed(req, vpc, lambda: req.api_db.run(_replace, subnet, old['route_table_id'], old['id']))
    return {'NewAssociationId': req.ids.one('rtbassoc', ident), 'AssociationState': {'State': 'associated'}}


def _replace(conn: Connection, subnet: str, table: str, ident: str | None = None) -> str:
    """Replace the association of a subnet; return the new ID.

    :param ident: the new ID; None: a random one
    """
    db.disassociate(conn, subnet)
    return str(db.associate(conn, subnet, table, ident))


OPERATIONS = [
    operations.row('CreateRouteTable', create_route_table, 'VpcId TagSpecifications ClientToken'),
    operations.row('DescribeRouteTables', describe_route_tables, 'RouteTableIds' + operations.PAGED),
    operations.row('DeleteRouteTable', delete_route_table, 'RouteTableId'),
    operations.row('AssociateRouteTable', associate_route_table, 'RouteTableId SubnetId'),
    operations.row('DisassociateRouteTable', disassociate_route_table, 'AssociationId'),
    operations.row('ReplaceRouteTableAssociation', replace_route_table_association, 'AssociationId RouteTableId'),
]
