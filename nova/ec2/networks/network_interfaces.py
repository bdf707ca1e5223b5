"""EC2 operations that list ports as network interfaces."""
from collections.abc import Sequence
from typing import Any

from nova.ec2 import errors
from nova.ec2 import filters
from nova.ec2 import operations
from nova.ec2 import tags
from nova.ec2.networks import public_addresses
from nova.ec2.networks import vpcs
from nova.json_types import JsonDocument


INDEX = 'device-index'                     # internal attribute of an interface: DeviceIndex of AttachNetworkInterface
OWN = 'created'                            # internal attribute of interfaces that CreateNetworkInterface created
ATTACHMENT = 'eni-attach-'                 # an attachment ID is this prefix and the digits of the interface's ID


def association(public: str | None, owner: str | None, **more: str | None) -> JsonDocument | None:
    """Return the view of the public address of an interface."""
    return {'PublicIp': public, 'PublicDnsName': '', 'IpOwnerId': owner, **more} if public else None


def private_address(single: str | None, listed: Sequence[operations.Structure] | None) -> str | None:
    """Return PrivateIpAddress, or the address of the only item in PrivateIpAddresses.

    :raises Ec2Error: the two differ
    """
    primary = listed[0].get('PrivateIpAddress') if listed else None
    if single and primary and single != primary:
        raise errors.Ec2Error('InvalidParameterCombination', 'PrivateIpAddress and PrivateIpAddresses have different '
                                                             'primary addresses.')
    return single or primary


def _floating(req: operations.Request, ports: list[dict[str, Any]]) -> dict[str, JsonDocument]:
    """Return {UUID of a port: view of its public address}."""
    rows = [row for row in req.pages('network', '/floatingips', 'floatingips', {'project_id': req.project_id})
            if row['port_id']] if ports else []
    names = req.ids.shown('eipalloc', [row['id'] for row in rows if not public_addresses.is_assigned(row)])
    return {row['port_id']: association(row['floating_ip_address'], req.project_id, **(
        {} if public_addresses.is_assigned(row) else {
            'AllocationId': names[row['id']], 'AssociationId': 'eipassoc' + str(names[row['id']])[8:]})) or {}
        for row in rows}


def shown(req: operations.Request, ports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the views of ports."""
    names = req.ids.shown('eni', [port['id'] for port in ports])
    subnets = req.ids.shown('subnet', {fixed['subnet_id'] for port in ports for fixed in port['fixed_ips']})
    groups = req.ids.shown('sg', {group for port in ports for group in port.get('security_groups') or ()})
    servers = req.ids.shown('i', {port['device_id'] for port in ports
                                  if (port.get('device_owner') or '').startswith('compute')})
    kept = tags.of(req, 'eni', [port['id'] for port in ports])
    known, public = vpcs.Vpcs(req), _floating(req, ports)
    group_names = {row['id']: row['name'] for row in req.pages('network', '/security-groups', 'security_groups', {
        'project_id': req.project_id, 'fields': ['id', 'name']})} if ports else {}
    attributes = tags.attributes_of(req, 'eni', [port['id'] for port in ports])
    places = _places(ports, attributes)
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
                {'GroupId': groups[group], 'GroupName': group_names.get(group)}
                for group in port.get('security_groups') or ()],
            'InterfaceType': 'interface', 'SourceDestCheck': True, 'RequesterManaged': False, 'Ipv6Addresses': [],
            'Association': public.get(port['id']),
            'Attachment': {'InstanceId': instance, 'InstanceOwnerId': req.project_id, 'Status': 'attached',
                           'NetworkCardIndex': 0, 'DeviceIndex': places.get(port['id'], 0),
                           'DeleteOnTermination': is_deleted_with_instance(attributes[port['id']]),
                           'AttachmentId': ATTACHMENT + str(names[port['id']])[4:]} if instance else None,
            'PrivateIpAddresses': [{'PrivateIpAddress': row['ip_address'], 'Primary': index == 0,
                                    'Association': None if index else public.get(port['id'])}
                                   for index, row in enumerate(port['fixed_ips'])],
            'TagSet': kept[port['id']]})
    return found


def _places(ports: list[dict[str, Any]], attributes: dict[str, dict[str, str]]) -> dict[str, int]:
    """Return {UUID of a port: device index}: the index in AttachNetworkInterface, or the position by creation time.

    :param attributes: internal attributes of the ports
    """
    found = {port['id']: int(attributes[port['id']][INDEX]) for port in ports if INDEX in attributes[port['id']]}
    count: dict[str, int] = {}
    for port in sorted(ports, key=lambda port: str(port.get('created_at') or '')):
        if port['id'] not in found:
            found[port['id']] = count.get(port['device_id'], 0)
            count[port['device_id']] = found[port['id']] + 1
    return found


def attachment_of(shown_id: str) -> str:
    """Return the ID of the attachment of an interface."""
    return ATTACHMENT + shown_id.partition('-')[2]


def is_deleted_with_instance(attributes: dict[str, str]) -> bool:
    """Return False if CreateNetworkInterface or AttachNetworkInterface was used: the interface outlives its instance.

    :param attributes: internal attributes of the port
    """
    return OWN not in attributes and INDEX not in attributes


def ambiguous(instance: str) -> errors.Ec2Error:
    return errors.Ec2Error('InvalidInstanceID', f"There are multiple interfaces attached to instance '{instance}'. "
                                                'Specify an interface ID for the operation instead.')


def describe_network_interfaces(req: operations.Request, given: operations.Given) -> JsonDocument:
    rows = shown(req, req.pages('network', '/ports', 'ports', {'project_id': req.project_id}))
    return filters.answer('NetworkInterfaces', rows, given, 'NetworkInterfaceId', {
        'network-interface-id': 'NetworkInterfaceId', 'subnet-id': 'SubnetId', 'vpc-id': 'VpcId', 'status': 'Status',
        'description': 'Description', 'mac-address': 'MacAddress', 'private-ip-address': 'PrivateIpAddress',
        'group-id': 'Groups.GroupId', 'group-name': 'Groups.GroupName',
        'attachment.instance-id': 'Attachment.InstanceId', 'attachment.attachment-id': 'Attachment.AttachmentId',
        'attachment.device-index': 'Attachment.DeviceIndex', 'attachment.status': 'Attachment.Status',
        'attachment.instance-owner-id': 'Attachment.InstanceOwnerId',
        'attachment.delete-on-termination': 'Attachment.DeleteOnTermination',
        'association.allocation-id': 'Association.AllocationId', 'association.public-ip': 'Association.PublicIp',
        'association.association-id': 'Association.AssociationId',
        'association.ip-owner-id': 'Association.IpOwnerId', 'association.owner-id': 'Association.IpOwnerId',
        'addresses.association.owner-id': 'PrivateIpAddresses.Association.IpOwnerId',
        'addresses.association.public-ip': 'PrivateIpAddresses.Association.PublicIp',
        'addresses.primary': 'PrivateIpAddresses.Primary',
        'addresses.private-ip-address': 'PrivateIpAddresses.PrivateIpAddress', 'interface-type': 'InterfaceType',
        'owner-id': 'OwnerId', 'requester-managed': 'RequesterManaged', 'source-dest-check': 'SourceDestCheck',
        **filters.fixed('false', 'operator.managed'), **filters.unset(
            'association.public-dns-name attachment.attach-time availability-zone availability-zone-id '
            'ipv6-addresses.ipv6-address operator.principal private-dns-name requester-id')}, prefix='eni')


OPERATIONS = [
    operations.row('DescribeNetworkInterfaces', describe_network_interfaces, 'NetworkInterfaceIds' + operations.PAGED),
]
