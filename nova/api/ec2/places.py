"""Regions, zones, the account, and what ports and addresses of the network service are in EC2's words."""
from __future__ import annotations

from typing import Any

from nova.api.ec2 import errors
from nova.api.ec2 import filters
from nova.api.ec2 import operations
from nova.api.ec2 import tags
from nova.api.ec2 import vpcs


def describe_availability_zones(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    zones = req.call('compute', 'GET', '/os-availability-zone')['availabilityZoneInfo']
    shown = [{'ZoneName': zone['zoneName'], 'ZoneId': zone['zoneName'], 'RegionName': req.region,
              'ZoneType': 'availability-zone', 'OptInStatus': 'opt-in-not-required',
              'State': 'available' if zone['zoneState']['available'] else 'unavailable'} for zone in zones]
    for given_names in (given.get('ZoneNames'), given.get('ZoneIds')):
        for name in given_names or ():
            if name not in {zone['ZoneName'] for zone in shown}:
                raise errors.invalid('ZoneName', name)
        if given_names:
            shown = [zone for zone in shown if zone['ZoneName'] in given_names]
    return {'AvailabilityZones': filters.apply(shown, given.get('Filters'), {
        'zone-name': lambda zone: zone['ZoneName'], 'zone-id': lambda zone: zone['ZoneId'],
        'state': lambda zone: zone['State'], 'region-name': lambda zone: zone['RegionName'],
        'zone-type': lambda zone: zone['ZoneType'], 'opt-in-status': lambda zone: zone['OptInStatus']})}


def describe_regions(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    shown = [{'RegionName': req.region, 'Endpoint': req.url, 'OptInStatus': 'opt-in-not-required'}]
    for name in given.get('RegionNames') or ():
        if name != req.region:
            raise errors.invalid('RegionName', name)
    return {'Regions': filters.apply(shown, given.get('Filters'), {
        'region-name': lambda region: region['RegionName'], 'endpoint': lambda region: region['Endpoint'],
        'opt-in-status': lambda region: region['OptInStatus']})}


def describe_account_attributes(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    limits = req.call('compute', 'GET', '/limits')['limits']['absolute']
    values = {'supported-platforms': ['VPC'], 'default-vpc': [req.vpc],
              'max-instances': [str(limits['maxTotalInstances'])]}
    wanted = given.get('AttributeNames') or values
    return {'AccountAttributes': [
        {'AttributeName': name, 'AttributeValues': [{'AttributeValue': value} for value in values[name]]}
        for name in wanted if name in values]}


def describe_network_interfaces(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    ports = req.call('network', 'GET', '/ports', query={'project_id': req.project_id})['ports']
    names = req.ids.shown('eni', [port['id'] for port in ports])
    subnets = req.ids.shown('subnet', {fixed['subnet_id'] for port in ports for fixed in port['fixed_ips']})
    groups = req.ids.shown('sg', {group for port in ports for group in port.get('security_groups') or ()})
    servers = req.ids.shown('i', {port['device_id'] for port in ports
                                  if (port.get('device_owner') or '').startswith('compute')})
    kept = tags.of(req, 'eni', [port['id'] for port in ports])
    known = vpcs.Vpcs(req)
    shown = []
    for port in ports:
        fixed = (port['fixed_ips'] or [{}])[0]
        instance = servers.get(port['device_id'])
        shown.append({
            'NetworkInterfaceId': names[port['id']], 'MacAddress': port['mac_address'],
            'VpcId': known.of_subnet(fixed.get('subnet_id')),
            'SubnetId': subnets.get(fixed.get('subnet_id')), 'PrivateIpAddress': fixed.get('ip_address'),
            'OwnerId': port.get('project_id'), 'Status': 'in-use' if port['device_id'] else 'available',
            'Description': port.get('name') or '', 'Groups': [
                {'GroupId': groups[group]} for group in port.get('security_groups') or ()],
            'Attachment': {'InstanceId': instance, 'Status': 'attached'} if instance else None,
            'PrivateIpAddresses': [{'PrivateIpAddress': row['ip_address'], 'Primary': index == 0}
                                   for index, row in enumerate(port['fixed_ips'])],
            'TagSet': kept[port['id']]})
    shown = filters.choose(shown, 'NetworkInterfaceId', given.get('NetworkInterfaceIds'), 'eni')
    shown = filters.apply(shown, given.get('Filters'), {
        'network-interface-id': lambda row: row['NetworkInterfaceId'], 'subnet-id': lambda row: row['SubnetId'],
        'vpc-id': lambda row: row['VpcId'], 'status': lambda row: row['Status'],
        'mac-address': lambda row: row['MacAddress'], 'private-ip-address': lambda row: row['PrivateIpAddress'],
        'group-id': lambda row: [group['GroupId'] for group in row['Groups']],
        'attachment.instance-id': lambda row: (row['Attachment'] or {}).get('InstanceId')})
    page, token = filters.page(shown, given, 'NetworkInterfaceId')
    return {'NetworkInterfaces': page, 'NextToken': token}


# ---- addresses

def _floating(req: operations.Request) -> list[dict[str, Any]]:
    return list(req.call('network', 'GET', '/floatingips', query={'project_id': req.project_id})['floatingips'])


def _of(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    if given.get('AllocationId'):
        uuid = req.ids.uuid('eipalloc', given['AllocationId'])
        found = next((row for row in _floating(req) if row['id'] == uuid), None)
        if found is None:
            raise errors.not_found('eipalloc', given['AllocationId'])
        return found
    address = given.get('PublicIp')
    if not address:
        raise errors.missing('AllocationId')
    found = next((row for row in _floating(req) if row['floating_ip_address'] == address), None)
    if found is None:
        raise errors.Ec2Error('InvalidAddress.NotFound', f'The address {address[:64]!r} does not belong to you.')
    return found


def describe_addresses(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    rows = _floating(req)
    uuids = [row['id'] for row in rows]
    names, kept = req.ids.shown('eipalloc', uuids), tags.of(req, 'eipalloc', uuids)
    ports = {port['id']: port for port in req.call('network', 'GET', '/ports', query={
        'project_id': req.project_id})['ports']} if any(row['port_id'] for row in rows) else {}
    enis = req.ids.shown('eni', {row['port_id'] for row in rows})
    servers = req.ids.shown('i', {port['device_id'] for port in ports.values()
                                  if (port.get('device_owner') or '').startswith('compute')})
    shown = [{'AllocationId': names[row['id']], 'PublicIp': row['floating_ip_address'], 'Domain': 'vpc',
              'PrivateIpAddress': row['fixed_ip_address'], 'NetworkInterfaceId': enis[row['port_id']],
              'InstanceId': servers.get((ports.get(row['port_id']) or {}).get('device_id')),
              'AssociationId': 'eipassoc' + str(names[row['id']])[8:] if row['port_id'] else None,
              'Tags': kept[row['id']]} for row in rows]
    shown = filters.choose(shown, 'AllocationId', given.get('AllocationIds'), 'eipalloc')
    wanted = given.get('PublicIps') or ()
    for address in wanted:
        if address not in {row['PublicIp'] for row in shown}:
            raise errors.Ec2Error('InvalidAddress.NotFound', f'The address {address[:64]!r} does not belong to you.')
    if wanted:
        shown = [row for row in shown if row['PublicIp'] in wanted]
    return {'Addresses': filters.apply(shown, given.get('Filters'), {
        'allocation-id': lambda row: row['AllocationId'], 'public-ip': lambda row: row['PublicIp'],
        'association-id': lambda row: row['AssociationId'], 'instance-id': lambda row: row['InstanceId'],
        'domain': lambda row: row['Domain'], 'private-ip-address': lambda row: row['PrivateIpAddress'],
        'network-interface-id': lambda row: row['NetworkInterfaceId']})}


def allocate_address(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    if given.get('Domain', 'vpc') != 'vpc':
        raise errors.unsupported('Addresses are of the domain vpc.')
    found = tags.given(given.get('TagSpecifications'), 'elastic-ip')
    networks = req.call('network', 'GET', '/networks', query={'router:external': 'true'})['networks']
    if not networks:
        raise errors.Ec2Error('InsufficientAddressCapacity', 'There is no external network.', 500)
    made = req.call('network', 'POST', '/floatingips', {'floatingip': {
        'floating_network_id': networks[0]['id']}})['floatingip']
    tags.put(req, 'eipalloc', made['id'], found)
    return {'PublicIp': made['floating_ip_address'], 'AllocationId': req.ids.one('eipalloc', made['id']),
            'Domain': 'vpc'}


def associate_address(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    row = _of(req, given)
    if row['port_id'] and not given.get('AllowReassociation', True):
        raise errors.Ec2Error('Resource.AlreadyAssociated', 'The address is associated already.')
    if given.get('NetworkInterfaceId'):
        port = req.ids.uuid('eni', given['NetworkInterfaceId'])
    elif given.get('InstanceId'):
        server = req.ids.uuid('i', given['InstanceId'])
        ports = req.call('network', 'GET', '/ports', query={
            'device_id': server, 'project_id': req.project_id})['ports']
        if not ports:
            raise errors.not_found('i', given['InstanceId'])
        port = ports[0]['id']
    else:
        raise errors.missing('InstanceId')
    body = {'port_id': port}
    if given.get('PrivateIpAddress'):
        body['fixed_ip_address'] = given['PrivateIpAddress']
    req.call('network', 'PUT', f'/floatingips/{row["id"]}', {'floatingip': body})
    return {'AssociationId': 'eipassoc' + req.ids.one('eipalloc', row['id'])[8:]}


def disassociate_address(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    association = given.get('AssociationId')
    if association:
        if not association.startswith('eipassoc-'):
            raise errors.Ec2Error('InvalidAssociationID.NotFound',
                                  f'The association {association[:64]!r} does not exist.')
        given = {'AllocationId': 'eipalloc' + association[8:]}
    req.call('network', 'PUT', f'/floatingips/{_of(req, given)["id"]}', {'floatingip': {'port_id': None}})
    return {}


def release_address(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    row = _of(req, given)
    if row['port_id']:
        raise errors.Ec2Error('InvalidIPAddress.InUse', 'The address is associated: disassociate it first.')
    req.call('network', 'DELETE', f'/floatingips/{row["id"]}')
    return {}


OPERATIONS = [
    operations.row('DescribeAvailabilityZones', describe_availability_zones, 'ZoneNames ZoneIds Filters',
                   'AllAvailabilityZones'),
    operations.row('DescribeRegions', describe_regions, 'RegionNames Filters', 'AllRegions'),
    operations.row('DescribeAccountAttributes', describe_account_attributes, 'AttributeNames'),
    operations.row('DescribeNetworkInterfaces', describe_network_interfaces, 'NetworkInterfaceIds' + operations.PAGED),
    operations.row('DescribeAddresses', describe_addresses, 'AllocationIds PublicIps Filters'),
    operations.row('AllocateAddress', allocate_address, 'Domain TagSpecifications', makes='floatingip'),
    operations.row('AssociateAddress', associate_address,
                   'AllocationId PublicIp InstanceId NetworkInterfaceId PrivateIpAddress AllowReassociation'),
    operations.row('DisassociateAddress', disassociate_address, 'AssociationId PublicIp'),
    operations.row('ReleaseAddress', release_address, 'AllocationId PublicIp'),
]
