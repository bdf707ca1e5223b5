"""EC2 operations on subnets: each subnet has a separate network and is connected to the VPC's router."""
from collections.abc import Iterable
import contextlib
import ipaddress
from typing import Any

from nova.db.ec2 import vpcs as db
from nova.ec2 import errors
from nova.ec2 import filters
from nova.ec2 import operations
from nova.ec2 import regions
from nova.ec2 import tags
from nova.ec2.networks import routing
from nova.ec2.networks import vpcs
from nova.json_types import JsonDocument

DHCP = 'network:dhcp'
PUBLIC = 'map-public-ip-on-launch'           # internal attribute: new instances get a public address


ZONE = 'availability-zone'                   # internal attribute: zone of the subnet, from CreateSubnet
# constant attributes of all subnets, for features that the cloud does not have
CONSTANTS: dict[str, Any] = {
    'AssignIpv6AddressOnCreation': False, 'DefaultForAz': False, 'EnableDns64': False,
    'Ipv6CidrBlockAssociationSet': [], 'Ipv6Native': False, 'MapCustomerOwnedIpOnLaunch': False,
    'PrivateDnsNameOptionsOnLaunch': {'HostnameType': 'ip-name', 'EnableResourceNameDnsARecord': False,
                                      'EnableResourceNameDnsAAAARecord': False}}
_OPTIONS = 'PrivateDnsNameOptionsOnLaunch.'
FILTERS: dict[str, filters.Values] = {
    'subnet-id': 'SubnetId', 'vpc-id': 'VpcId', 'state': 'State', 'cidr-block': 'CidrBlock', 'cidr': 'CidrBlock',
    'cidrBlock': 'CidrBlock', 'owner-id': 'OwnerId', 'subnet-arn': 'SubnetArn',
    **dict.fromkeys(('availability-zone', 'availabilityZone', 'availability-zone-id', 'availabilityZoneId'),
                    'AvailabilityZone'),
    'available-ip-address-count': 'AvailableIpAddressCount', 'default-for-az': 'DefaultForAz',
    'defaultForAz': 'DefaultForAz', 'enable-dns64': 'EnableDns64', 'ipv6-native': 'Ipv6Native',
    'map-customer-owned-ip-on-launch': 'MapCustomerOwnedIpOnLaunch', 'map-public-ip-on-launch': 'MapPublicIpOnLaunch',
    'private-dns-name-options-on-launch.hostname-type': _OPTIONS + 'HostnameType',
    'private-dns-name-options-on-launch.enable-resource-name-dns-a-record': _OPTIONS + 'EnableResourceNameDnsARecord',
    'private-dns-name-options-on-launch.enable-resource-name-dns-aaaa-record':
        _OPTIONS + 'EnableResourceNameDnsAAAARecord',
    **filters.unset('customer-owned-ipv4-pool enable-lni-at-device-index ipv6-cidr-block-association.ipv6-cidr-block '
                    'ipv6-cidr-block-association.association-id ipv6-cidr-block-association.state outpost-arn')}


def describe_subnets(req: operations.Request, given: operations.Given) -> JsonDocument:
    rows = [row for row in req.pages('network', '/subnets', 'subnets') if row['ip_version'] == 4]
    return filters.answer('Subnets', _shown(req, rows), given, 'SubnetId', FILTERS, prefix='subnet')


def _shown(req: operations.Request, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the views of subnets."""
    uuids, known = [row['id'] for row in rows], vpcs.Vpcs(req)
    names, kept = req.ids.shown('subnet', uuids), tags.of(req, 'subnet', uuids)
    chosen, mapped = tags.attribute(req, 'subnet', uuids, ZONE), tags.attribute(req, 'subnet', uuids, PUBLIC)
    zones = regions.zones(req)
    only = zones[0] if len(zones) == 1 else None
    used: dict[str, list[str]] = {}
    for port in req.pages('network', '/ports', 'ports', {'fields': ['id', 'fixed_ips']}) if rows else ():
        for fixed in port['fixed_ips']:
            used.setdefault(fixed['subnet_id'], []).append(fixed['ip_address'])
    return [{**CONSTANTS, 'SubnetId': (ident := str(names[row['id']])), 'VpcId': known.of_subnet(row['id']),
             'CidrBlock': row['cidr'], 'State': 'available', 'OwnerId': row.get('project_id'), 'Tags': kept[row['id']],
             'SubnetArn': f'arn:aws:ec2:{req.region}:{row.get("project_id")}:subnet/{ident}',
             'AvailabilityZone': (zone := chosen.get(row['id'], only)), 'AvailabilityZoneId': zone,
             'MapPublicIpOnLaunch': row['id'] in mapped,
             'AvailableIpAddressCount': _available(row, used.get(row['id'], []))} for row in rows]


def _available(row: dict[str, Any], used: Iterable[str]) -> int:
    """Return the number of free addresses in the pools of a subnet.

    :param used: addresses of the ports that the caller can see
    """
    pools = [(int(ipaddress.ip_address(pool['start'])), int(ipaddress.ip_address(pool['end'])))
             for pool in row.get('allocation_pools') or ()]
    inside = {number for number in (int(ipaddress.ip_address(text)) for text in used)
              if any(start <= number <= end for start, end in pools)}
    return sum(end - start + 1 for start, end in pools) - len(inside)


def modify_subnet_attribute(req: operations.Request, given: operations.Given) -> JsonDocument:
    """Set whether new instances get a public address; other attributes accept only their present values."""
    subnet = req.find('subnet', given['SubnetId'], 'network', '/subnets/{}')['subnet']
    if 'MapPublicIpOnLaunch' in given:
        if given['MapPublicIpOnLaunch'].get('Value'):
            tags.put_rows(req, 'subnet', subnet['id'], {tags.HIDDEN + PUBLIC: 'true'})
        else:
            tags.remove_attribute(req, 'subnet', subnet['id'], PUBLIC)
    return {}


def create_subnet(req: operations.Request, given: operations.Given) -> JsonDocument:
    known = vpcs.Vpcs(req)
    vpc = known.find_made(given['VpcId'])
    if not given.get('CidrBlock'):
        raise errors.missing('CidrBlock')
    cidr = vpcs.range_of(given['CidrBlock'], 'CidrBlock', 'InvalidSubnet.Range')
    if not cidr.subnet_of(ipaddress.IPv4Network(known.made[vpc]['cidr'])):
        raise errors.Ec2Error('InvalidSubnet.Range', f"The CIDR '{cidr}' is not within that of the VPC.")
    found = tags.given(given.get('TagSpecifications'), 'subnet')
    zone = given.get('AvailabilityZone') or given.get('AvailabilityZoneId')
    if zone and zone not in regions.zones(req):
        raise errors.invalid('AvailabilityZone', zone)
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
        tags.put_rows(req, 'subnet', row['id'], {**found, **({tags.HIDDEN + ZONE: zone} if zone else {})})
        undo.pop_all()
    return {'Subnet': _shown(req, [row])[0]}


def _conflict(cidr: ipaddress.IPv4Network) -> errors.Ec2Error:
    return errors.Ec2Error('InvalidSubnet.Conflict', f"The CIDR '{cidr}' conflicts with another subnet.")


def _check_apart(req: operations.Request, cidr: ipaddress.IPv4Network, others: Iterable[str]) -> None:
    for subnet in routing.subnets(req, others):
        if subnet['ip_version'] == 4 and cidr.overlaps(ipaddress.IPv4Network(subnet['cidr'])):
            raise _conflict(cidr)


def delete_subnet(req: operations.Request, given: operations.Given) -> JsonDocument:
    row = req.find('subnet', given['SubnetId'], 'network', '/subnets/{}')['subnet']
    known = vpcs.Vpcs(req)
    vpc = known.of_subnets.get(row['id'])
    if vpc is None:
        known.find_made(req.vpc)  # always raises Ec2Error, because the subnet belongs to the default VPC
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
    tags.forget(req, 'subnet', row['id'])
    return {}


OPERATIONS = [
    operations.row('DescribeSubnets', describe_subnets, 'SubnetIds' + operations.PAGED),
    operations.row('CreateSubnet', create_subnet,
                   'VpcId CidrBlock AvailabilityZone AvailabilityZoneId TagSpecifications', makes='subnet'),
    operations.row('ModifySubnetAttribute', modify_subnet_attribute, 'SubnetId MapPublicIpOnLaunch'),
    operations.row('DeleteSubnet', delete_subnet, 'SubnetId'),
]
