"""EC2 operations on floating IPs."""
import contextlib
from typing import Any

from nova.ec2 import errors
from nova.ec2 import filters
from nova.ec2 import operations
from nova.ec2 import tags
from nova.ec2.networks import network_interfaces
from nova.ec2.networks import public_addresses
from nova.ec2.networks import routing
from nova.json_types import JsonDocument

POOL = 'amazon'                  # EC2's name of Amazon's pool of public IPv4 addresses


def _floating(req: operations.Request) -> list[dict[str, Any]]:
    """Return the floating IPs of the project, except those that RunInstances assigned to ports.

    An assigned address that has lost its port is included, so that it can be released.
    """
    rows = req.pages('network', '/floatingips', 'floatingips', {'project_id': req.project_id})
    return [row for row in rows if not public_addresses.is_assigned(row) or not row['port_id']]


def _of(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    if given.get('AllocationId'):
        uuid = req.uuid('eipalloc', given['AllocationId'])
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


def describe_addresses(req: operations.Request, given: operations.Given) -> JsonDocument:
    rows = _floating(req)
    uuids = [row['id'] for row in rows]
    names, kept = req.ids.shown('eipalloc', uuids), tags.of(req, 'eipalloc', uuids)
    ports = {port['id']: port for port in req.pages('network', '/ports', 'ports', {
        'project_id': req.project_id})} if any(row['port_id'] for row in rows) else {}
    enis = req.ids.shown('eni', {row['port_id'] for row in rows})
    servers = req.ids.shown('i', {port['device_id'] for port in ports.values()
                                  if (port.get('device_owner') or '').startswith('compute')})
    shown = [{'AllocationId': names[row['id']], 'PublicIp': row['floating_ip_address'], 'Domain': 'vpc',
              'PrivateIpAddress': row['fixed_ip_address'], 'NetworkInterfaceId': enis[row['port_id']],
              'PublicIpv4Pool': POOL, 'NetworkBorderGroup': req.region,
              'NetworkInterfaceOwnerId': req.project_id if row['port_id'] else None,
              'InstanceId': servers.get((ports.get(row['port_id']) or {}).get('device_id')),
              'AssociationId': 'eipassoc' + str(names[row['id']])[8:] if row['port_id'] else None,
              'Tags': kept[row['id']]} for row in rows]
    shown = filters.choose(shown, 'AllocationId', given.get('AllocationIds'), 'eipalloc')
    shown = filters.choose_named(shown, 'PublicIp', given.get('PublicIps'), 'InvalidAddress.NotFound',
                                 'The address {} does not belong to you.')
    return {'Addresses': filters.apply(shown, given.get('Filters'), {
        'allocation-id': 'AllocationId', 'public-ip': 'PublicIp', 'association-id': 'AssociationId',
        'instance-id': 'InstanceId', 'domain': 'Domain', 'private-ip-address': 'PrivateIpAddress',
        'network-border-group': 'NetworkBorderGroup', 'network-interface-id': 'NetworkInterfaceId',
        'network-interface-owner-id': 'NetworkInterfaceOwnerId'})}


def allocate_address(req: operations.Request, given: operations.Given) -> JsonDocument:
    if given.get('Domain', 'vpc') != 'vpc':
        raise errors.unsupported('The only supported domain is vpc.')
    found = tags.given(given.get('TagSpecifications'), 'elastic-ip')
    _check_group(req, given)
    made = req.call('network', 'POST', '/floatingips', {'floatingip': {
        'floating_network_id': public_addresses.external_network(req)}})['floatingip']
    tags.put(req, 'eipalloc', made['id'], found)
    return {'PublicIp': made['floating_ip_address'], 'AllocationId': req.ids.one('eipalloc', made['id']),
            'Domain': 'vpc', 'PublicIpv4Pool': POOL, 'NetworkBorderGroup': req.region}


def _check_group(req: operations.Request, given: operations.Given) -> None:
    """Check the NetworkBorderGroup of a request.

    :raises Ec2Error: it is not the region
    """
    if given.get('NetworkBorderGroup', req.region) != req.region:
        raise errors.invalid('NetworkBorderGroup', given['NetworkBorderGroup'])


def associate_address(req: operations.Request, given: operations.Given) -> JsonDocument:
    row = _of(req, given)
    if row['port_id'] and not given.get('AllowReassociation', True):
        raise errors.Ec2Error('Resource.AlreadyAssociated', 'The address is already associated.')
    if given.get('NetworkInterfaceId'):
        port = req.uuid('eni', given['NetworkInterfaceId'])
    elif given.get('InstanceId'):
        server = req.uuid('i', given['InstanceId'])
        ports = req.call('network', 'GET', '/ports', query={
            'device_id': server, 'project_id': req.project_id})['ports']
        if not ports:
            raise errors.not_found('i', given['InstanceId'])
        if len(ports) > 1:
            raise network_interfaces.ambiguous(given['InstanceId'])
        port = ports[0]['id']
    else:
        raise errors.missing('InstanceId')
    body = {'port_id': port}
    if given.get('PrivateIpAddress'):
        body['fixed_ip_address'] = given['PrivateIpAddress']
    if public_addresses.is_assigned(row):            # it lost its instance: from now on it is an address of the user
        body['description'] = ''
    # the associated address replaces the address that RunInstances assigned to the port, which is released last
    replaced = public_addresses.assigned(req, [port])
    with contextlib.ExitStack() as undo:
        for each in replaced:
            undo.callback(routing.undo, req, 'PUT', f'/floatingips/{each["id"]}', {'floatingip': {
                'port_id': port, 'fixed_ip_address': each['fixed_ip_address']}})
            with errors.ignored(404):                            # another request has released it
                req.call('network', 'PUT', f'/floatingips/{each["id"]}', {'floatingip': {'port_id': None}})
        req.call('network', 'PUT', f'/floatingips/{row["id"]}', {'floatingip': body})
        undo.pop_all()
    public_addresses.release(req, replaced)
    return {'AssociationId': 'eipassoc' + req.ids.one('eipalloc', row['id'])[8:]}


def disassociate_address(req: operations.Request, given: operations.Given) -> JsonDocument:
    association = given.get('AssociationId')
    if association:
        if not association.startswith('eipassoc-'):
            raise errors.Ec2Error('InvalidAssociationID.NotFound',
                                  f'The association {association[:64]!r} does not exist.')
        given = {'AllocationId': 'eipalloc' + association[8:]}
    req.call('network', 'PUT', f'/floatingips/{_of(req, given)["id"]}', {'floatingip': {'port_id': None}})
    return {}


def release_address(req: operations.Request, given: operations.Given) -> JsonDocument:
    _check_group(req, given)
    row = _of(req, given)
    if row['port_id']:
        raise errors.Ec2Error('InvalidIPAddress.InUse', 'The address is associated: disassociate it first.')
    req.call('network', 'DELETE', f'/floatingips/{row["id"]}')
    tags.forget(req, 'eipalloc', row['id'])
    return {}


OPERATIONS = [
    operations.row('DescribeAddresses', describe_addresses, 'AllocationIds PublicIps Filters'),
    operations.row('AllocateAddress', allocate_address, 'Domain NetworkBorderGroup TagSpecifications',
                   makes='floatingip'),
    operations.row('AssociateAddress', associate_address,
                   'AllocationId PublicIp InstanceId NetworkInterfaceId PrivateIpAddress AllowReassociation'),
    operations.row('DisassociateAddress', disassociate_address, 'AssociationId PublicIp'),
    operations.row('ReleaseAddress', release_address, 'AllocationId PublicIp NetworkBorderGroup'),
]
