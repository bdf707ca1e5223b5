"""EC2 operations that list ports as network interfaces."""
from __future__ import annotations

from typing import Any

from nova.api.ec2 import errors
from nova.api.ec2 import filters
from nova.api.ec2 import operations
from nova.api.ec2 import tags
from nova.api.ec2.networks import vpcs


ATTACHMENT = 'eni-attach-'                 # prefix of an attachment ID; the digits of its interface's ID follow


def shown(req: operations.Request, ports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the views of ports."""
    names = req.ids.shown('eni', [port['id'] for port in ports])
    subnets = req.ids.shown('subnet', {fixed['subnet_id'] for port in ports for fixed in port['fixed_ips']})
    groups = req.ids.shown('sg', {group for port in ports for group in port.get('security_groups') or ()})
    servers = req.ids.shown('i', {port['device_id'] for port in ports
                                  if (port.get('device_owner') or '').startswith('compute')})
    kept = tags.of(req, 'eni', [port['id'] for port in ports])
    known = vpcs.Vpcs(req)
    found = []
    for port in ports:
        fixed = (port['fixed_ips'] or [{}])[0]
        instance = servers.get(port['device_id'])
        found.append({
            'NetworkInterfaceId': names[port['id']], 'MacAddress': port['mac_address'],
            'VpcId': known.of_subnet(fixed.get('subnet_id')),
            'SubnetId': subnets.get(fixed.get('subnet_id')), 'PrivateIpAddress': fixed.get('ip_address'),
            'OwnerId': port.get('project_id'), 'Status': 'in-use' if port['device_id'] else 'available',
            'Description': port.get('name') or '', 'Groups': [
                {'GroupId': groups[group]} for group in port.get('security_groups') or ()],
            'Attachment': {'InstanceId': instance, 'Status': 'attached',
                           'AttachmentId': ATTACHMENT + str(names[port['id']])[4:]} if instance else None,
            'PrivateIpAddresses': [{'PrivateIpAddress': row['ip_address'], 'Primary': index == 0}
                                   for index, row in enumerate(port['fixed_ips'])],
            'TagSet': kept[port['id']]})
    return found


def ambiguous(instance: str) -> errors.Ec2Error:
    return errors.Ec2Error('InvalidInstanceID', f"There are multiple interfaces attached to instance '{instance}'. "
                                                'Specify an interface ID for the operation instead.')


def describe_network_interfaces(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    rows = shown(req, req.pages('network', '/ports', 'ports', {'project_id': req.project_id}))
    rows = filters.choose(rows, 'NetworkInterfaceId', given.get('NetworkInterfaceIds'), 'eni')
    rows = filters.apply(rows, given.get('Filters'), {
        'network-interface-id': lambda row: row['NetworkInterfaceId'], 'subnet-id': lambda row: row['SubnetId'],
        'vpc-id': lambda row: row['VpcId'], 'status': lambda row: row['Status'],
        'description': lambda row: row['Description'],
        'mac-address': lambda row: row['MacAddress'], 'private-ip-address': lambda row: row['PrivateIpAddress'],
        'group-id': lambda row: [group['GroupId'] for group in row['Groups']],
        'attachment.instance-id': lambda row: (row['Attachment'] or {}).get('InstanceId'),
        'attachment.attachment-id': lambda row: (row['Attachment'] or {}).get('AttachmentId')})
    page, token = filters.page(rows, given, 'NetworkInterfaceId')
    return {'NetworkInterfaces': page, 'NextToken': token}


OPERATIONS = [
    operations.row('DescribeNetworkInterfaces', describe_network_interfaces, 'NetworkInterfaceIds' + operations.PAGED),
]
