"""EC2 operations on VPCs.

The default VPC has all networks of the project that belong to no other VPC. Every other VPC is a router of the network
service. Its subnets are connected to this router, and each subnet has a separate network.
"""
import contextlib
import functools
import ipaddress
from typing import Any

from nova.db.ec2 import vpcs as db
from nova.ec2 import errors
from nova.ec2 import filters
from nova.ec2 import operations
from nova.ec2 import tags
from nova.ec2.networks import routing
from nova.json_types import JsonDocument

PREFIXES = range(16, 29)                        # prefix lengths that EC2 allows for VPCs and subnets
# {attribute of a VPC: (parameter, only supported value, reason)}
ATTRIBUTES = {
    'enableDnsSupport': ('EnableDnsSupport', True, 'DHCP always announces a resolver.'),
    'enableDnsHostnames': ('EnableDnsHostnames', False, 'Instances have no public DNS names.'),
    'enableNetworkAddressUsageMetrics': ('EnableNetworkAddressUsageMetrics', False,
                                         'There are no metrics of address usage.')}


class Vpcs:
    """The VPCs of the caller's project, looked up once for each request."""

    def __init__(self, req: operations.Request) -> None:
        self._req = req

    @functools.cached_property
    def made(self) -> dict[str, dict[str, Any]]:
        """{uuid: row} of the VPCs that clients created and that still have their router, oldest first."""
        rows = db.of_project(self._req.api_db, self._req.project_id)
        if not rows:
            return {}
        routers = self._req.call('network', 'GET', '/routers', query={'project_id': self._req.project_id})['routers']
        there = {router['id'] for router in routers}
        return {row['id']: row for row in rows if row['id'] in there}

    @functools.cached_property
    def of_subnets(self) -> dict[str, str]:
        """{UUID of a subnet: UUID of its VPC}, except for subnets of the default VPC."""
        return {subnet: port['device_id'] for port in routing.joins(self._req, list(self.made))
                for subnet in (fixed['subnet_id'] for fixed in port['fixed_ips'])}

    @functools.cached_property
    def of_groups(self) -> dict[str, str]:
        """{UUID of a security group: UUID of its VPC}, except for groups of the default VPC."""
        rows = db.groups_of_project(self._req.api_db, self._req.project_id)
        return {group: vpc for group, vpc in rows.items() if vpc in self.made}

    @functools.cached_property
    def _ids(self) -> dict[Any, Any]:
        return self._req.ids.shown('vpc', self.made)

    def shown(self, vpc: str | None) -> str:
        """Return the ID of a VPC, or of the default VPC for None or an unknown UUID."""
        return str(self._ids.get(vpc) or self._req.vpc) if vpc else self._req.vpc

    def of_subnet(self, subnet: str | None) -> str:
        """Return the ID of the VPC of a subnet."""
        return self.shown(self.of_subnets.get(subnet or ''))

    def find(self, shown: str) -> str | None:
        """Return the UUID of a VPC; None for the default VPC.

        :raises Ec2Error: the VPC does not exist
        """
        if shown == self._req.vpc:
            return None
        uuid = self._req.uuid('vpc', shown)
        if uuid not in self.made:
            raise errors.not_found('vpc', shown)
        return uuid

    def find_made(self, shown: str) -> str:
        """Return the UUID of a VPC other than the default one.

        :raises Ec2Error: the VPC does not exist, or is the default VPC
        """
        uuid = self.find(shown)
        if uuid is None:
            raise errors.unsupported('The networks, subnets and routers of the default VPC are managed by the network '
                                     'service. Use CreateVpc to create another VPC.')
        return uuid


def range_of(text: str, name: str, code: str) -> ipaddress.IPv4Network:
    """Parse the CIDR of a VPC or subnet.

    :raises Ec2Error: the CIDR is malformed, or its prefix length is not supported
    """
    try:
        cidr = ipaddress.IPv4Network(text, strict=False)
    except ValueError:
        raise errors.invalid(name, text) from None
    if cidr.prefixlen not in PREFIXES or '/' not in text:
        raise errors.Ec2Error(code, f'The CIDR {text[:64]!r} is invalid: the prefix length must be /16 to /28.')
    return cidr


def create_vpc(req: operations.Request, given: operations.Given) -> JsonDocument:
    if not given.get('CidrBlock'):
        raise errors.missing('CidrBlock')
    cidr = range_of(given['CidrBlock'], 'CidrBlock', 'InvalidVpc.Range')
    found = tags.given(given.get('TagSpecifications'), 'vpc')
    with errors.OnStatus(404, lambda _refused: errors.unsupported(
            'The network service of this cloud does not support routers.')):
        router = req.call('network', 'POST', '/routers', {'router': {'name': 'vpc'}})['router']
    with contextlib.ExitStack() as undo:
        undo.callback(routing.undo, req, 'DELETE', f'/routers/{router["id"]}')
        req.api_db.run(db.add_vpc, req.project_id, router['id'], str(cidr))
        undo.callback(req.api_db.run, db.remove_vpc, router['id'])
        tags.put(req, 'vpc', router['id'], found)
        undo.pop_all()
    return {'Vpc': _shown(req, req.ids.one('vpc', router['id']), str(cidr), tags.shown(found), None)}


def _shown(req: operations.Request, ident: str, cidr: str | None, kept: list[dict[str, str]],
           options: str | None) -> dict[str, Any]:
    return {'VpcId': ident, 'CidrBlock': cidr, 'State': 'available', 'IsDefault': cidr is None,
            'OwnerId': req.project_id, 'InstanceTenancy': 'default', 'Tags': kept,
            'DhcpOptionsId': options or 'default', 'Ipv6CidrBlockAssociationSet': [], 'CidrBlockAssociationSet': [
                {'AssociationId': 'vpc-cidr-assoc-' + ident.partition('-')[2], 'CidrBlock': cidr,
                 'CidrBlockState': {'State': 'associated'}}] if cidr else []}


def describe_vpcs(req: operations.Request, given: operations.Given) -> JsonDocument:
    known = Vpcs(req)
    kept = tags.of(req, 'vpc', list(known.made))
    options = req.ids.shown('dopt', {row['dhcp_options_id'] for row in known.made.values()})
    shown = [_shown(req, req.vpc, None, [], None)] + [
        _shown(req, known.shown(uuid), row['cidr'], kept[uuid], options[row['dhcp_options_id']])
        for uuid, row in known.made.items()]
    return filters.answer('Vpcs', shown, given, 'VpcId', {
        'vpc-id': 'VpcId', 'cidr': 'CidrBlock', 'isDefault': 'IsDefault', 'is-default': 'IsDefault',
        'dhcp-options-id': 'DhcpOptionsId', 'state': 'State', 'owner-id': 'OwnerId',
        'cidr-block-association.cidr-block': 'CidrBlockAssociationSet.CidrBlock',
        'cidr-block-association.association-id': 'CidrBlockAssociationSet.AssociationId',
        'cidr-block-association.state': 'CidrBlockAssociationSet.CidrBlockState.State', **filters.unset(
            'ipv6-cidr-block-association.ipv6-cidr-block ipv6-cidr-block-association.ipv6-pool '
            'ipv6-cidr-block-association.association-id ipv6-cidr-block-association.state')}, prefix='vpc')


def describe_vpc_attribute(req: operations.Request, given: operations.Given) -> JsonDocument:
    Vpcs(req).find(given['VpcId'])
    if given['Attribute'] not in ATTRIBUTES:
        raise errors.unsupported(f'The attribute {given["Attribute"][:64]!r} is not supported.')
    name, value, _why = ATTRIBUTES[given['Attribute']]
    return {'VpcId': given['VpcId'], name: {'Value': value}}


def modify_vpc_attribute(req: operations.Request, given: operations.Given) -> JsonDocument:
    """Check that the request does not change an attribute: attributes of VPCs are constant."""
    Vpcs(req).find(given['VpcId'])
    wanted: dict[str, Any] = {name: value for name, value in given.items()
                              if name in {row[0] for row in ATTRIBUTES.values()}}
    if len(wanted) != 1:
        raise errors.Ec2Error('InvalidParameterCombination', 'A request must modify one attribute.')
    for name, value, why in ATTRIBUTES.values():
        if name in wanted and wanted[name].get('Value', value) != value:
            raise errors.unsupported(f'{name} must be {str(value).lower()}. {why}')
    return {}


def delete_vpc(req: operations.Request, given: operations.Given) -> JsonDocument:
    known, parts = Vpcs(req), db.known(req.api_db, req.project_id)
    vpc = routing.find_vpc(req, parts, given['VpcId'])      # its router may be gone, if a deletion was interrupted
    subnets = [subnet for subnet, of in known.of_subnets.items() if of == vpc]
    own = [row for row in parts.tables.values() if row['vpc_id'] == vpc and row['main_vpc_id'] is None]
    groups = {row['id'] for row in routing.groups(req)} if vpc in parts.groups.values() else set()
    if subnets or own or parts.gateway_of(vpc) or any(parts.groups.get(group) == vpc for group in groups):
        raise used('vpc', given['VpcId'])
    # 409: another request has added a subnet or route
    with errors.OnStatus(409, lambda _refused: used('vpc', given['VpcId'])), errors.ignored(404):
        req.call('network', 'DELETE', f'/routers/{vpc}')
    req.api_db.run(db.remove_vpc, vpc)
    tags.forget(req, 'vpc', vpc)
    tags.forget(req, 'rtb', *(ident for ident, row in parts.tables.items() if row['vpc_id'] == vpc))
    return {}


def used(noun: str, shown: str) -> errors.Ec2Error:
    return errors.Ec2Error('DependencyViolation', f"The {noun} '{shown}' has dependencies and cannot be deleted.")


OPERATIONS = [
    operations.row('CreateVpc', create_vpc, 'CidrBlock TagSpecifications', makes='router'),
    operations.row('DescribeVpcs', describe_vpcs, 'VpcIds' + operations.PAGED),
    operations.row('DescribeVpcAttribute', describe_vpc_attribute, 'VpcId Attribute'),
    operations.row('ModifyVpcAttribute', modify_vpc_attribute,
                   'VpcId ' + ' '.join(name for name, _value, _why in ATTRIBUTES.values())),
    operations.row('DeleteVpc', delete_vpc, 'VpcId'),
]
