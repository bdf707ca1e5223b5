"""EC2 operations that create, attach, modify and delete network interfaces (ports)."""
from collections.abc import Callable
import datetime
from typing import Any

from nova.ec2 import client_tokens
from nova.ec2 import errors
from nova.ec2 import ids
from nova.ec2 import operations
from nova.ec2 import tags
from nova.ec2 import waits
from nova.ec2.instances import launches
from nova.ec2.networks import network_interfaces
from nova.json_types import JsonDocument

MAX_DESCRIPTION = 255                      # characters of a description
ATTRIBUTES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    'description': lambda shown: {'Description': {'Value': shown['Description']}},
    'groupSet': lambda shown: {'Groups': shown['Groups']},
    'sourceDestCheck': lambda shown: {'SourceDestCheck': {'Value': True}},
    'attachment': lambda shown: {'Attachment': shown['Attachment']}}


def find_port(req: operations.Request, shown: str) -> dict[str, Any]:
    """Return a port of the caller's project.

    :raises Ec2Error: the port does not exist
    """
    port = req.find('eni', shown, 'network', '/ports/{}')['port']
    if port.get('project_id') != req.project_id:                       # an administrator sees ports of other projects
        raise errors.not_found('eni', shown)
    return dict(port)


def create_network_interface(req: operations.Request, given: operations.Given) -> JsonDocument:
    subnet = req.find('subnet', given['SubnetId'], 'network', '/subnets/{}')['subnet']
    wanted, text = given.get('Groups') or (), given.get('Description') or ''
    if len(text) > MAX_DESCRIPTION:
        raise errors.invalid('Description', f'text of more than {MAX_DESCRIPTION} characters')
    address = _address(given)
    groups = [req.find('sg', shown, 'network', '/security-groups/{}')['security_group']['id'] for shown in wanted]
    launches.check_groups(req, wanted, subnet['id'])
    found = tags.given(given.get('TagSpecifications'), 'network-interface')
    fixed = {'subnet_id': subnet['id'], **(
        {'ip_address': address} if address else {})}
    # EC2's description is the name of the port; the description of the port finds it after an interrupted request
    mark = 'ec2:' + ids.derived('eni', token) if (token := given.get('ClientToken')) else ''
    body = {'network_id': subnet['network_id'], 'name': text, 'fixed_ips': [fixed], 'description': mark,
            **({'security_groups': groups} if groups else {})}

    def make() -> str:
        try:
            return str(req.call('network', 'POST', '/ports', {'port': body})['port']['id'])
        except errors.ServiceRefused as refused:
            if refused.status == 409 and address and 'uota' not in refused.message:
                raise errors.Ec2Error('InvalidIPAddress.InUse', f'Address {address} is in use.') from None
            raise

    def find(since: datetime.datetime | None) -> str | None:
        rows = req.pages('network', '/ports', 'ports', {
            'project_id': req.project_id, 'network_id': subnet['network_id'],
            'fields': ['id', 'description']}) if since else []
        return next((str(row['id']) for row in rows if row['description'] == mark), None)
    made = client_tokens.once(req, 'CreateNetworkInterface', given, find, make, lambda port: tags.put_rows(
        req, 'eni', port, {**found, tags.HIDDEN + network_interfaces.OWN: 'true'}))
    shown = req.ids.one('eni', made)
    return {'NetworkInterface': network_interfaces.shown(req, [find_port(req, shown)])[0]}


def _address(given: operations.Given) -> str | None:
    """Return the address of a new interface, from PrivateIpAddress or a list with one primary address.

    :raises Ec2Error: several addresses
    """
    listed = given.get('PrivateIpAddresses') or ()
    if len(listed) > 1:
        raise errors.unsupported('A network interface has one private address.')
    return network_interfaces.private_address(given.get('PrivateIpAddress'), given.get('PrivateIpAddresses'))


def delete_network_interface(req: operations.Request, given: operations.Given) -> JsonDocument:
    port = find_port(req, given['NetworkInterfaceId'])
    if port['device_id']:
        raise errors.Ec2Error('InvalidParameterValue', f'The network interface {given["NetworkInterfaceId"]} is in '
                                                       'use.')
    req.call('network', 'DELETE', f'/ports/{port["id"]}')
    tags.forget(req, 'eni', port['id'])
    return {}


def attach_network_interface(req: operations.Request, given: operations.Given) -> JsonDocument:
    """Attach an interface after the existing ones. DeviceIndex is only for display: guests number their devices."""
    if not 1 <= given['DeviceIndex'] <= 31:
        raise errors.invalid('DeviceIndex', given['DeviceIndex'])
    port = find_port(req, given['NetworkInterfaceId'])
    server = req.find('i', given['InstanceId'], 'compute', '/servers/{}')['server']['id']
    if port['device_id']:
        raise errors.Ec2Error('InvalidNetworkInterface.InUse', f'The network interface {given["NetworkInterfaceId"]} '
                                                               'is in use.')
    waits.when_idle(req, server, lambda: req.call('compute', 'POST', f'/servers/{server}/os-interface', {
        'interfaceAttachment': {'port_id': port['id']}}))
    tags.put_rows(req, 'eni', port['id'], {tags.HIDDEN + network_interfaces.INDEX: str(given['DeviceIndex'])})
    return {'AttachmentId': network_interfaces.ATTACHMENT + req.ids.one('eni', port['id'])[4:]}


def detach_network_interface(req: operations.Request, given: operations.Given) -> JsonDocument:
    shown = given['AttachmentId']
    if not shown.startswith(network_interfaces.ATTACHMENT):
        raise errors.Ec2Error('InvalidAttachmentID.Malformed', f'{shown[:64]!r} is not the ID of an attachment.')
    try:
        port = find_port(req, 'eni-' + shown.removeprefix(network_interfaces.ATTACHMENT))
    except errors.Ec2Error:
        port = {}
    if not (port.get('device_owner') or '').startswith('compute'):
        raise errors.Ec2Error('InvalidAttachmentID.NotFound', f'The attachment {shown[:64]!r} does not exist.')
    waits.when_idle(req, port['device_id'], lambda: req.call(
        'compute', 'DELETE', f'/servers/{port["device_id"]}/os-interface/{port["id"]}'))
    tags.remove_attribute(req, 'eni', port['id'], network_interfaces.INDEX)
    return {}


def describe_network_interface_attribute(req: operations.Request, given: operations.Given) -> JsonDocument:
    shown = network_interfaces.shown(req, [find_port(req, given['NetworkInterfaceId'])])[0]
    if given.get('Attribute') not in ATTRIBUTES:
        raise errors.unsupported(f'The attribute {str(given.get("Attribute"))[:64]!r} is not supported.')
    return {'NetworkInterfaceId': given['NetworkInterfaceId'], **ATTRIBUTES[given['Attribute']](shown)}


def modify_network_interface_attribute(req: operations.Request, given: operations.Given) -> JsonDocument:
    port = find_port(req, given['NetworkInterfaceId'])
    changes: dict[str, Any] = {}
    if given.get('Groups'):
        changes['security_groups'] = [req.find('sg', shown, 'network', '/security-groups/{}')['security_group']['id']
                                      for shown in given['Groups']]
        launches.check_groups(req, given['Groups'], (port['fixed_ips'] or [{}])[0].get('subnet_id', ''))
    if 'Description' in given:
        changes['name'] = (given['Description'].get('Value') or '')
        if len(changes['name']) > MAX_DESCRIPTION:
            raise errors.invalid('Description', f'text of more than {MAX_DESCRIPTION} characters')
    attachment = given.get('Attachment') or {}
    if attachment and attachment.get('AttachmentId') != network_interfaces.attachment_of(given['NetworkInterfaceId']):
        raise errors.Ec2Error('InvalidAttachmentID.NotFound', 'The interface does not have this attachment.')
    if attachment.get('DeleteOnTermination') or set(attachment) - {'AttachmentId', 'DeleteOnTermination'}:
        raise errors.unsupported('A network interface that was attached is not deleted with its instance, and has no '
                                 'ENA queues.')
    if (given.get('SourceDestCheck') or {}).get('Value') is False:
        raise errors.unsupported('SourceDestCheck must be true: instances may only send from their own addresses.')
    if changes:
        req.call('network', 'PUT', f'/ports/{port["id"]}', {'port': changes})
    return {}


ONE = 'NetworkInterfaceId '
OPERATIONS = [
    operations.row('CreateNetworkInterface', create_network_interface,
                   'SubnetId Groups Description PrivateIpAddress PrivateIpAddresses TagSpecifications ClientToken',
                   makes='port'),
    operations.row('DeleteNetworkInterface', delete_network_interface, ONE),
    operations.row('AttachNetworkInterface', attach_network_interface, ONE + 'InstanceId DeviceIndex'),
    operations.row('DetachNetworkInterface', detach_network_interface, 'AttachmentId', 'Force'),
    operations.row('DescribeNetworkInterfaceAttribute', describe_network_interface_attribute, ONE + 'Attribute'),
    operations.row('ModifyNetworkInterfaceAttribute', modify_network_interface_attribute,
                   ONE + 'Groups Description SourceDestCheck Attachment'),
]
