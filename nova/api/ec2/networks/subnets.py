"""EC2 operations on subnets: each has its own network, connected to the VPC's router."""
from __future__ import annotations

from collections.abc import Iterable
import contextlib
import ipaddress
from typing import Any

from nova.api.ec2 import errors
from nova.api.ec2 import filters
from nova.api.ec2 import operations
from nova.api.ec2 import tags
from nova.api.ec2.networks import routing
from nova.api.ec2.networks import vpcs
from nova.db.ec2 import vpcs as db

DHCP = 'network:dhcp'


def describe_subnets(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    rows = [row for row in req.pages('network', '/subnets', 'subnets') if row['ip_version'] == 4]
    uuids, known = [row['id'] for row in rows], vpcs.Vpcs(req)
    names, kept = req.ids.shown('subnet', uuids), tags.of(req, 'subnet', uuids)
    shown = [_shown_subnet(row, str(names[row['id']]), known.of_subnet(row['id']), kept[row['id']]) for row in rows]
    shown = filters.choose(shown, 'SubnetId', given.get('SubnetIds'), 'subnet')
    shown = filters.apply(shown, given.get('Filters'), {
        'subnet-id': lambda row: row['SubnetId'], 'vpc-id': lambda row: row['VpcId'], 'state': lambda row: row['State'],
        'cidr-block': lambda row: row['CidrBlock'], 'cidrBlock': lambda row: row['CidrBlock'],
        'owner-id': lambda row: row['OwnerId']})
    page, token = filters.page(shown, given, 'SubnetId')
    return {'Subnets': page, 'NextToken': token}


def _shown_subnet(row: dict[str, Any], ident: str, vpc: str, kept: list[dict[str, str]]) -> dict[str, Any]:
    return {'SubnetId': ident, 'VpcId': vpc, 'CidrBlock': row['cidr'], 'State': 'available',
            'OwnerId': row.get('project_id'), 'Tags': kept}


def create_subnet(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    known = vpcs.Vpcs(req)
    vpc = known.find_made(given['VpcId'])
    if not given.get('CidrBlock'):
        raise errors.missing('CidrBlock')
    cidr = vpcs.range_of(given['CidrBlock'], 'CidrBlock', 'InvalidSubnet.Range')
    if not cidr.subnet_of(ipaddress.IPv4Network(known.made[vpc]['cidr'])):
        raise errors.Ec2Error('InvalidSubnet.Range', f"The CIDR '{cidr}' is not within that of the VPC.")
    found = tags.given(given.get('TagSpecifications'), 'subnet')
    _check_apart(req, cidr, [subnet for subnet, of in known.of_subnets.items() if of == vpc])
    gateway = str(cidr.network_address + 1)
    with contextlib.ExitStack() as undo:
        network = req.call('network', 'POST', '/networks', {'network': {'name': given['VpcId']}})['network']['id']
        undo.callback(routing.undo, req, 'DELETE', f'/networks/{network}')
        row = req.call('network', 'POST', '/subnets', {'subnet': {
            'network_id': network, 'cidr': str(cidr), 'ip_version': 4, 'gateway_ip': gateway}})['subnet']
        try:
            req.call('network', 'PUT', f'/routers/{vpc}/add_router_interface', {'subnet_id': row['id']})
        except errors.ServiceRefused as refused:
            raise _conflict(cidr) if refused.status == 400 else refused from None
        undo.callback(routing.undo, req, 'PUT', f'/routers/{vpc}/remove_router_interface', {'subnet_id': row['id']})
        routing.write_routes(req, vpc)
        undo.pop_all()
    tags.put(req, 'subnet', row['id'], found)
    return {'Subnet': _shown_subnet(row, req.ids.one('subnet', row['id']), given['VpcId'], tags.shown(found))}


def _conflict(cidr: ipaddress.IPv4Network) -> errors.Ec2Error:
    return errors.Ec2Error('InvalidSubnet.Conflict', f"The CIDR '{cidr}' conflicts with another subnet.")


def _check_apart(req: operations.Request, cidr: ipaddress.IPv4Network, others: Iterable[str]) -> None:
    for subnet in routing.subnets(req, others):
        if subnet['ip_version'] == 4 and cidr.overlaps(ipaddress.IPv4Network(subnet['cidr'])):
            raise _conflict(cidr)


def delete_subnet(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    row = req.find('subnet', given['SubnetId'], 'network', '/subnets/{}')['subnet']
    known = vpcs.Vpcs(req)
    vpc = known.of_subnets.get(row['id'])
    if vpc is None:
        known.find_made(req.vpc)                                 # raises the error for the default VPC
    ports = req.call('network', 'GET', '/ports', query={'network_id': row['network_id']})['ports']
    if any(port['device_owner'] != DHCP and port['device_id'] != vpc for port in ports):
        raise vpcs.used('subnet', given['SubnetId'])
    with contextlib.ExitStack() as undo:
        try:
            req.call('network', 'PUT', f'/routers/{vpc}/remove_router_interface', {'subnet_id': row['id']})
            undo.callback(routing.undo, req, 'PUT', f'/routers/{vpc}/add_router_interface', {'subnet_id': row['id']})
            # another subnet may have been added to the network through the Network API
            others = req.call('network', 'GET', '/subnets', query={'network_id': row['network_id']})['subnets']
            req.call('network', 'DELETE', f'/subnets/{row["id"]}' if len(others) > 1
                     else f'/networks/{row["network_id"]}')
        except errors.ServiceRefused as refused:
            raise vpcs.used('subnet', given['SubnetId']) if refused.status == 409 else refused from None
        undo.pop_all()
    req.api_db.run(db.disassociate, row['id'])
    return {}


OPERATIONS = [
    operations.row('DescribeSubnets', describe_subnets, 'SubnetIds' + operations.PAGED),
    operations.row('CreateSubnet', create_subnet, 'VpcId CidrBlock TagSpecifications', makes='subnet'),
    operations.row('DeleteSubnet', delete_subnet, 'SubnetId'),
]
