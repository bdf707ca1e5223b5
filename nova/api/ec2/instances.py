"""Instances: servers of the compute API."""
from __future__ import annotations

import base64
from collections.abc import Sequence
import datetime
from typing import Any

from nova.api.ec2 import client_tokens
from nova.api.ec2 import errors
from nova.api.ec2 import filters
from nova.api.ec2 import interfaces
from nova.api.ec2 import launch_templates
from nova.api.ec2 import operations
from nova.api.ec2 import placement_groups
from nova.api.ec2 import run_parameters
from nova.api.ec2 import tags
from nova.api.ec2 import vpcs
from nova.db.ec2 import vpcs as db_vpcs

REMEMBERED = datetime.timedelta(hours=1)            # for which a terminated instance is shown to who names it
STATES = {'pending': 0, 'running': 16, 'shutting-down': 32, 'terminated': 48, 'stopping': 64, 'stopped': 80}
# Task states of a server that EC2 has a state for.
TASKS = {'deleting': 'shutting-down', 'soft-deleting': 'shutting-down', 'powering-off': 'stopping',
         'powering-on': 'pending', 'shelving': 'stopping', 'shelving_offloading': 'stopping',
         'suspending': 'stopping', 'resuming': 'pending', 'unshelving': 'pending'}
STATUSES = {'BUILD': 'pending', 'SHUTOFF': 'stopped', 'SUSPENDED': 'stopped', 'PAUSED': 'stopped', 'SHELVED': 'stopped',
            'SHELVED_OFFLOADED': 'stopped', 'DELETED': 'terminated', 'SOFT_DELETED': 'terminated'}
# vm state of a stopped server: the action that starts it
STARTS = {'stopped': 'os-start', 'suspended': 'resume', 'paused': 'unpause', 'shelved': 'unshelve',
          'shelved_offloaded': 'unshelve'}
FIELDS = {'instance-id': 'InstanceId', 'image-id': 'ImageId', 'instance-type': 'InstanceType', 'key-name': 'KeyName',
          'private-ip-address': 'PrivateIpAddress', 'ip-address': 'PublicIpAddress', 'launch-time': 'LaunchTime',
          'private-dns-name': 'PrivateDnsName', 'vpc-id': 'VpcId', 'subnet-id': 'SubnetId',
          'root-device-type': 'RootDeviceType'}


def _nested(*path: str) -> filters.Values:
    def value(item: Any) -> Any:
        for name in path:
            item = item.get(name) if item else None
        return item
    return value


FILTERS: dict[str, filters.Values] = {
    **{name: _nested(field) for name, field in FIELDS.items()},
    'instance-state-name': _nested('State', 'Name'), 'instance-state-code': _nested('State', 'Code'),
    'availability-zone': _nested('Placement', 'AvailabilityZone'),
    'instance.group-name': lambda item: [group['GroupName'] for group in item['SecurityGroups']],
    'group-name': lambda item: [group['GroupName'] for group in item['SecurityGroups']],
    **dict.fromkeys(('instance.group-id', 'group-id'), lambda item: [
        group.get('GroupId') for group in item['SecurityGroups']]),
    'block-device-mapping.volume-id': lambda item: [
        mapping['Ebs']['VolumeId'] for mapping in item['BlockDeviceMappings']],
}


def state_of(server: dict[str, Any]) -> str:
    """The name of a server's state in EC2. One that was never up and failed counts as terminated: waiters end there."""
    task = server.get('OS-EXT-STS:task_state')
    if task in TASKS:
        return TASKS[task]
    if server['status'] == 'ERROR':
        return 'stopped' if server.get('OS-SRV-USG:launched_at') else 'terminated'
    return STATUSES.get(server['status'], 'running')


def _state(name: str) -> dict[str, Any]:
    return {'Code': STATES[name], 'Name': name}


def _addresses(server: dict[str, Any], kind: str) -> list[str]:
    return [address['addr'] for network in server['addresses'].values() for address in network
            if address['version'] == 4 and address.get('OS-EXT-IPS:type', 'fixed') == kind]


class _Shown:
    """Servers as instances, with the ids of all in one look at the table."""

    def __init__(self, req: operations.Request, servers: Sequence[dict[str, Any]]) -> None:
        self._instances = req.ids.shown('i', [server['id'] for server in servers])
        self._images = req.ids.shown('ami', {_image_of(server) for server in servers})
        volumes = {volume['id'] for server in servers
                   for volume in server.get('os-extended-volumes:volumes_attached') or ()}
        self._volumes, self._devices = req.ids.shown('vol', volumes), _devices(req) if volumes else {}
        self._interfaces = interfaces.Interfaces(req, [server['id'] for server in servers])

    def one(self, server: dict[str, Any], index: int = 0) -> dict[str, Any]:
        private, public = _addresses(server, 'fixed'), _addresses(server, 'floating')
        state = state_of(server)
        fault = server.get('fault')
        volumes = server.get('os-extended-volumes:volumes_attached') or ()
        return {
            'InstanceId': self._instances[server['id']], 'ImageId': self._images[_image_of(server)],
            'State': _state(state), 'PrivateDnsName': server['name'], 'PublicDnsName': (public or [''])[0],
            'StateReason': {'Code': 'Server.InternalError', 'Message': fault['message']} if fault else None,
            'KeyName': server.get('key_name'), 'AmiLaunchIndex': index,
            'InstanceType': server['flavor'].get('original_name'), 'LaunchTime': server['created'],
            'Placement': {'AvailabilityZone': server.get('OS-EXT-AZ:availability_zone') or None},
            'Monitoring': {'State': 'disabled'}, 'PrivateIpAddress': private[0] if private else None,
            'PublicIpAddress': public[0] if public else None,
            'RootDeviceType': 'instance-store' if _image_of(server) else 'ebs',
            'BlockDeviceMappings': [{'DeviceName': self._devices.get(volume['id']), 'Ebs': {
                'VolumeId': self._volumes[volume['id']], 'Status': 'attached',
                'DeleteOnTermination': bool(volume.get('delete_on_termination'))}} for volume in volumes],
            **self._interfaces.of(server),
            'Tags': tags.shown(server['metadata']), 'VirtualizationType': 'hvm',
        }


def _devices(req: operations.Request) -> dict[str, str]:
    """{uuid of a volume: where its server has it}, as the block storage says."""
    return {volume['id']: attachment['device'] for volume in req.pages('volume', '/volumes/detail', 'volumes')
            for attachment in volume['attachments'] if attachment.get('device')}


def _image_of(server: dict[str, Any]) -> str | None:
    return server['image']['id'] if server.get('image') else None


def _reservation(req: operations.Request, instance: dict[str, Any]) -> dict[str, Any]:
    return {'ReservationId': 'r' + instance['InstanceId'][1:], 'OwnerId': req.project_id,
            'Groups': [], 'Instances': [instance]}


def servers_of(req: operations.Request, instance_ids: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Servers of the caller's project in detail: those of these ids, or all.

    :raises Ec2Error: one is not there
    """
    if instance_ids is not None and len(instance_ids) <= interfaces.FEW:
        return [_server(req, uuid, shown)
                for uuid, shown in zip(req.ids.uuids('i', instance_ids), instance_ids)]
    found = req.pages('compute', '/servers/detail', 'servers')
    if instance_ids is None:
        return found
    wanted = set(req.ids.uuids('i', instance_ids))
    found = [server for server in found if server['id'] in wanted]
    for uuid in wanted - {server['id'] for server in found}:
        found.append(_server(req, uuid, req.ids.one('i', uuid)))
    return found


def _server(req: operations.Request, uuid: str, shown: str) -> dict[str, Any]:
    try:
        return dict(req.call('compute', 'GET', f'/servers/{uuid}')['server'])
    except errors.ServiceRefused as refused:
        if refused.status != 404:
            raise
    since = (datetime.datetime.now(datetime.UTC) - REMEMBERED).strftime('%Y-%m-%dT%H:%M:%SZ')
    deleted = req.call('compute', 'GET', '/servers/detail', query={'changes-since': since})
    for server in deleted['servers']:
        if server['id'] == uuid and server['status'] == 'DELETED':
            return dict(server)
    raise errors.not_found('i', shown)


# ---- describe

def describe_instances(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    servers = servers_of(req, given.get('InstanceIds') or None)
    view = _Shown(req, servers)
    instances = filters.apply([view.one(server) for server in servers], given.get('Filters'), FILTERS)
    page, token = filters.page(instances, given, 'InstanceId')
    return {'Reservations': [_reservation(req, instance) for instance in page], 'NextToken': token}


def describe_instance_status(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    servers = servers_of(req, given.get('InstanceIds') or None)
    names = req.ids.shown('i', [server['id'] for server in servers])
    rows = []
    for server in servers:
        state = state_of(server)
        if state != 'running' and not given.get('IncludeAllInstances'):
            continue
        status = 'ok' if state == 'running' else 'not-applicable'
        rows.append({'InstanceId': names[server['id']], 'InstanceState': _state(state),
                     'AvailabilityZone': server.get('OS-EXT-AZ:availability_zone') or None,
                     'InstanceStatus': {'Status': status}, 'SystemStatus': {'Status': status}})
    rows = filters.apply(rows, given.get('Filters'), {
        'instance-state-name': _nested('InstanceState', 'Name'), 'availability-zone': _nested('AvailabilityZone'),
        'instance-state-code': _nested('InstanceState', 'Code'),
        'instance-status.status': _nested('InstanceStatus', 'Status'),
        'system-status.status': _nested('SystemStatus', 'Status')})
    page, token = filters.page(rows, given, 'InstanceId')
    return {'InstanceStatuses': page, 'NextToken': token}


# ---- run

def run_instances(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    requested, given = given, run_parameters.of_request(launch_templates.merged(req, given))
    run_parameters.check(given)
    least, most = given.get('MinCount', 1), given.get('MaxCount', 1)
    if not 1 <= least <= most:
        raise errors.invalid('MinCount', least)
    given_tags = tags.given(given.get('TagSpecifications'), 'instance')
    body: dict[str, Any] = {'server': {
        'name': given_tags.get('Name') or 'instance', 'flavorRef': _flavor(req, given.get('InstanceType')),
        'metadata': given_tags, 'min_count': least, 'max_count': most, 'return_reservation_id': True,
        'networks': _networks(req, given), **_source(req, given)}}
    server = body['server']
    if given.get('KeyName'):
        server['key_name'] = given['KeyName']
    if user_data := run_parameters.user_data(given):
        server['user_data'] = base64.b64encode(user_data).decode()
    placement = given.get('Placement') or {}
    if placement.get('AvailabilityZone'):
        server['availability_zone'] = placement['AvailabilityZone']
    if placement.get('GroupName'):
        body['os:scheduler_hints'] = {'group': placement_groups.named(req, placement['GroupName'])['id']}
    groups = [{'name': name} for name in given.get('SecurityGroups') or ()]
    groups += [{'name': req.find('sg', shown, 'network', '/security-groups/{}')['security_group']['id']}
               for shown in given.get('SecurityGroupIds') or ()]
    if groups:
        server['security_groups'] = groups
    reservation = _reserved(req, requested, body)
    servers = req.call('compute', 'GET', '/servers/detail', query={'reservation_id': reservation})['servers']
    view = _Shown(req, servers)
    return {'ReservationId': reservation, 'OwnerId': req.project_id, 'Groups': [],
            'Instances': [view.one(server, index) for index, server in enumerate(
                sorted(servers, key=lambda server: str(server['name'])))]}


def _reserved(req: operations.Request, requested: operations.Given, body: dict[str, Any]) -> str:
    """The id of the reservation that POST /servers makes. The compute API knows tokens, too: it finds what a request
    has made that was broken off; ``client_tokens`` knows which parameters a token came with.
    """
    headers = {'Idempotency-Key': f'ec2:{requested["ClientToken"]}'} if requested.get('ClientToken') else {}
    req.caller.writes('compute', 'POST', '/servers', body)          # a dry run ends here, with its rules looked at
    return client_tokens.once(req, 'RunInstances', requested, lambda: None, lambda: str(
        req.call('compute', 'POST', '/servers', body, headers=headers)['reservation_id']))


def _flavor(req: operations.Request, name: str | None) -> str:
    """The id of the flavor with the name of an instance type."""
    if not name:
        raise errors.missing('InstanceType')
    for flavor in req.pages('compute', '/flavors', 'flavors'):
        if flavor['name'] == name:
            return str(flavor['id'])
    raise errors.Ec2Error('InvalidInstanceType', f'The instance type {name[:255]!r} does not exist.')


def _networks(req: operations.Request, given: operations.Given) -> Any:
    if not given.get('SubnetId'):
        if given.get('PrivateIpAddress'):
            raise errors.missing('SubnetId')
        return _first_networks(req)
    subnet = req.find('subnet', given['SubnetId'], 'network', '/subnets/{}')['subnet']
    _check_groups(req, given, subnet['id'])
    fixed = {'fixed_ip': given['PrivateIpAddress']} if given.get('PrivateIpAddress') else {}
    return [{'uuid': subnet['network_id'], **fixed}]


def _first_networks(req: operations.Request) -> Any:
    """The networks of an instance that names no subnet: the one network of the project's first VPC.

    :raises Ec2Error: it has none
    """
    made = vpcs.Vpcs(req).of_subnets
    if not made:
        return 'auto'
    rows = req.call('network', 'GET', '/subnets')['subnets']
    of_others = {row['network_id'] for row in rows if row['id'] in made}
    outside = {row['id'] for row in req.call('network', 'GET', '/networks',
                                             query={'router:external': 'true'})['networks']}
    left = {row['network_id'] for row in rows} - of_others - outside
    if len(left) != 1:
        raise errors.Ec2Error('MissingInput', 'The first VPC has no network, or several: the request must contain the '
                                              'parameter SubnetId.')
    return [{'uuid': left.pop()}]


def _check_groups(req: operations.Request, given: operations.Given, subnet: str) -> None:
    """
    :raises Ec2Error: a security group is of another VPC than the subnet
    """
    places = db_vpcs.groups_of_project(req.api_db, req.project_id) if given.get('SecurityGroupIds') else {}
    vpc = vpcs.Vpcs(req).of_subnets.get(subnet) if places else None
    for shown in given.get('SecurityGroupIds') or ():
        place = places.get(req.ids.uuid('sg', shown))
        if place and place != vpc:
            raise errors.Ec2Error('InvalidParameter', f'Security group {shown} and subnet {given["SubnetId"]} belong '
                                                      'to different networks.')


def _source(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    """What the servers boot from: the image, and the other block devices."""
    if not given.get('ImageId'):
        raise errors.missing('ImageId')
    source: dict[str, Any] = {'imageRef': req.find('ami', given['ImageId'], 'image', '/images/{}')['id']}
    devices = []
    for mapping in given.get('BlockDeviceMappings') or ():
        ebs = mapping['Ebs']
        device = {'boot_index': -1, 'destination_type': 'volume', 'device_name': mapping.get('DeviceName'),
                  'delete_on_termination': ebs.get('DeleteOnTermination', True),
                  'source_type': 'snapshot' if ebs.get('SnapshotId') else 'blank'}
        if ebs.get('SnapshotId'):
            device['uuid'] = req.find('snap', ebs['SnapshotId'], 'volume', '/snapshots/{}')['snapshot']['id']
        if ebs.get('VolumeSize'):
            device['volume_size'] = ebs['VolumeSize']
        if run_parameters.volume_type(ebs):
            device['volume_type'] = run_parameters.volume_type(ebs)
        devices.append({name: value for name, value in device.items() if value is not None})
    if devices:
        root = {'boot_index': 0, 'source_type': 'image', 'destination_type': 'local', 'uuid': source['imageRef'],
                'delete_on_termination': True}
        source['block_device_mapping_v2'] = [root, *devices]
    return source


# ---- actions

def _changes(req: operations.Request, given: operations.Given, done: dict[str, str],
             change: Any) -> list[dict[str, Any]]:
    """Change each instance of a request; what it was and what it becomes.

    :param done: {state that needs no change: itself}
    :param change: callable(server), for those that do
    """
    servers = servers_of(req, given['InstanceIds'])
    rows = []
    names = req.ids.shown('i', [server['id'] for server in servers])
    for server in servers:
        before = state_of(server)
        after = done.get(before) or change(server)
        rows.append({'InstanceId': names[server['id']], 'PreviousState': _state(before), 'CurrentState': _state(after)})
    return rows


def _act(req: operations.Request, server: dict[str, Any], action: str, body: Any = None) -> None:
    try:
        req.call('compute', 'POST', f'/servers/{server["id"]}/action', {action: body})
    except errors.ServiceRefused as refused:
        if refused.status == 409:
            raise errors.Ec2Error('IncorrectInstanceState', refused.message) from None
        raise


def start_instances(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    def start(server: dict[str, Any]) -> str:
        _act(req, server, STARTS.get(server['OS-EXT-STS:vm_state'], 'os-start'))
        return 'pending'
    return {'StartingInstances': _changes(req, given, {'running': 'running', 'pending': 'pending'}, start)}


def stop_instances(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    def stop(server: dict[str, Any]) -> str:
        _act(req, server, 'suspend' if given.get('Hibernate') else 'os-stop')
        return 'stopping'
    return {'StoppingInstances': _changes(req, given, {'stopped': 'stopped', 'stopping': 'stopping'}, stop)}


def terminate_instances(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    def terminate(server: dict[str, Any]) -> str:
        req.call('compute', 'DELETE', f'/servers/{server["id"]}')
        return 'shutting-down'
    gone = {'shutting-down': 'shutting-down'}
    rows = _changes(req, given, gone, lambda server: (
        'terminated' if server['status'] == 'DELETED' else terminate(server)))
    return {'TerminatingInstances': rows}


def reboot_instances(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    for server in servers_of(req, given['InstanceIds']):
        _act(req, server, 'reboot', {'type': 'SOFT'})
    return {}


# ---- one instance

def _one(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    server, = servers_of(req, [given['InstanceId']])
    return server


def get_console_output(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    server = _one(req, given)
    answer = req.call('compute', 'POST', f'/servers/{server["id"]}/action', {'os-getConsoleOutput': {}})
    return {'InstanceId': req.ids.one('i', server['id']), 'Timestamp': datetime.datetime.now(datetime.UTC),
            'Output': base64.b64encode(answer['output'].encode()).decode()}


def get_password_data(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    server = _one(req, given)
    found = req.call('compute', 'GET', f'/servers/{server["id"]}/os-server-password')
    return {'InstanceId': req.ids.one('i', server['id']), 'Timestamp': datetime.datetime.now(datetime.UTC),
            'PasswordData': found['password']}


def _user_data(req: operations.Request, server: dict[str, Any]) -> dict[str, Any]:
    return {'UserData': {'Value': server.get('OS-EXT-SRV-ATTR:user_data')}}


def _groups(req: operations.Request, server: dict[str, Any]) -> list[dict[str, Any]]:
    found = req.call('compute', 'GET', f'/servers/{server["id"]}/os-security-groups')['security_groups']
    return [{'GroupId': req.ids.one('sg', group['id']), 'GroupName': group['name']} for group in found]


# attribute: function of (request, server) that gives its part of the answer
ATTRIBUTES: dict[str, Any] = {
    'instanceType': lambda req, server: {'InstanceType': {'Value': server['flavor'].get('original_name')}},
    'userData': _user_data,
    'disableApiTermination': lambda req, server: {'DisableApiTermination': {'Value': server['locked']}},
    'rootDeviceName': lambda req, server: {'RootDeviceName': {'Value': server.get('OS-EXT-SRV-ATTR:root_device_name')}},
    'instanceInitiatedShutdownBehavior': lambda req, server: {'InstanceInitiatedShutdownBehavior': {'Value': 'stop'}},
    'ebsOptimized': lambda req, server: {'EbsOptimized': {'Value': False}},
    'kernel': lambda req, server: {}, 'ramdisk': lambda req, server: {},       # of the image, if there are any
    'groupSet': lambda req, server: {'Groups': _groups(req, server)},
    'blockDeviceMapping': lambda req, server: {
        'BlockDeviceMappings': _Shown(req, [server]).one(server)['BlockDeviceMappings']},
}


def describe_instance_attribute(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    if given['Attribute'] not in ATTRIBUTES:
        raise errors.unsupported(f'The attribute {given["Attribute"][:64]!r} is not known here.')
    server = _one(req, given)
    return {'InstanceId': req.ids.one('i', server['id']), **ATTRIBUTES[given['Attribute']](req, server)}


def modify_instance_attribute(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    """Termination protection alone, and only off: a lock of the compute API would stop every other action as well."""
    server = _one(req, given)
    if (given.get('DisableApiTermination') or {}).get('Value'):
        raise errors.unsupported('Instances cannot be protected from termination; lock the server in the compute API.')
    if server['locked']:
        raise errors.Ec2Error('OperationNotPermitted', 'The server is locked in the compute API.')
    return {}


OPERATIONS = [
    operations.row('DescribeInstances', describe_instances, 'InstanceIds' + operations.PAGED),
    operations.row('DescribeInstanceStatus', describe_instance_status,
                   'InstanceIds IncludeAllInstances' + operations.PAGED),
    operations.row('RunInstances', run_instances,
                   f'{run_parameters.TAKES} MinCount MaxCount SubnetId PrivateIpAddress ClientToken LaunchTemplate '
                   'NetworkInterfaces',
                   run_parameters.IGNORES, makes='server'),
    operations.row('StartInstances', start_instances, 'InstanceIds'),
    operations.row('StopInstances', stop_instances, 'InstanceIds Hibernate', 'Force'),
    operations.row('TerminateInstances', terminate_instances, 'InstanceIds'),
    operations.row('RebootInstances', reboot_instances, 'InstanceIds'),
    operations.row('GetConsoleOutput', get_console_output, 'InstanceId', 'Latest'),
    operations.row('GetPasswordData', get_password_data, 'InstanceId'),
    operations.row('DescribeInstanceAttribute', describe_instance_attribute, 'InstanceId Attribute'),
    operations.row('ModifyInstanceAttribute', modify_instance_attribute, 'InstanceId DisableApiTermination'),
]
