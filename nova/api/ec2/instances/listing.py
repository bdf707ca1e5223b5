"""EC2 operations that list instances and their status."""
from __future__ import annotations

from typing import Any

from nova.api.ec2 import filters
from nova.api.ec2 import ids
from nova.api.ec2 import operations
from nova.api.ec2 import protocol
from nova.api.ec2 import xml_cache
from nova.api.ec2.instances import reservations
from nova.api.ec2.instances import states
from nova.api.ec2.instances import views
from nova.db.placement.categories import REGULAR

FIELDS = {'instance-id': 'InstanceId', 'instance-type': 'InstanceType', 'key-name': 'KeyName',
          'private-ip-address': 'PrivateIpAddress', 'ip-address': 'PublicIpAddress', 'launch-time': 'LaunchTime',
          'private-dns-name': 'PrivateDnsName', 'vpc-id': 'VpcId', 'subnet-id': 'SubnetId',
          'root-device-type': 'RootDeviceType', 'reservation-id': 'ReservationId',
          'launch-index': 'AmiLaunchIndex', 'root-device-name': 'RootDeviceName'}


def _nested(*path: str) -> filters.Values:
    def value(item: filters.Item) -> object:
        found: Any = item
        for name in path:
            found = found.get(name) if found else None
        return found
    return value


def _of_volumes(field: str) -> filters.Values:
    return lambda item: [mapping['Ebs'][field] for mapping in item['BlockDeviceMappings']]


FILTERS: dict[str, filters.Values] = {
    **{name: _nested(field) for name, field in FIELDS.items()},
    'instance-state-name': _nested('State', 'Name'), 'instance-state-code': _nested('State', 'Code'),
    'availability-zone': _nested('Placement', 'AvailabilityZone'),
    'instance.group-name': lambda item: [group['GroupName'] for group in item['SecurityGroups']],
    'group-name': lambda item: [group['GroupName'] for group in item['SecurityGroups']],
    **dict.fromkeys(('instance.group-id', 'group-id'), lambda item: [
        group.get('GroupId') for group in item['SecurityGroups']]),
    **{name: ids.forms_of_image(field) for name, field in (
        ('image-id', 'ImageId'), ('kernel-id', 'KernelId'), ('ramdisk-id', 'RamdiskId'))},
    'block-device-mapping.device-name': lambda item: [
        mapping['DeviceName'] for mapping in item['BlockDeviceMappings']],
    **{f'block-device-mapping.{name}': _of_volumes(field) for name, field in (
        ('volume-id', 'VolumeId'), ('status', 'Status'), ('delete-on-termination', 'DeleteOnTermination'))},
    'instance-category': lambda item: item[protocol.CATEGORY] or REGULAR,
}


def _reservation(project_id: str, reservation: str, instances: list[dict[str, Any]]) -> dict[str, Any]:
    return {'ReservationId': reservation, 'OwnerId': project_id, 'Groups': [], 'Instances': instances}


def describe_instances(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    servers = views.servers_of(req, given.get('InstanceIds') or None)
    view = views.Instances(req, servers)
    if given.get('Filters'):
        rows = [{**(instance := view.one(server)), 'ReservationId': reservations.of(server, instance['InstanceId']),
                 'instance': instance} for server in servers]
        page, token = filters.page(filters.apply(rows, given['Filters'], FILTERS), given, 'InstanceId')
        return {'Reservations': [_reservation(req.project_id, reservation, [row['instance'] for row in some])
                                 for reservation, some in reservations.grouped(page).items()], 'NextToken': token}
    items = [{'InstanceId': (facts := view.facts(server))[0], 'ReservationId': reservations.of(server, facts[0]),
              'facts': [server, facts]} for server in servers]
    page, token = filters.page(items, given, 'InstanceId')
    return {'Reservations': [
        req.fragments.get([req.project_id, reservation, [item['facts'] for item in some]], _write)
        for reservation, some in reservations.grouped(page).items()], 'NextToken': token}


def _write(facts: list[Any]) -> xml_cache.XmlFragment:
    """Return the XML of a reservation; it depends only on the facts."""
    project_id, reservation, some = facts
    made = _reservation(project_id, reservation, [views.instance(server, of_server) for server, of_server in some])
    return protocol.item('DescribeInstances', 'Reservations', made)


def describe_instance_status(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    servers = views.servers_of(req, given.get('InstanceIds') or None)
    names = req.ids.shown('i', [server['id'] for server in servers])
    rows = []
    for server in servers:
        state = states.state_of(server)
        if state != 'running' and not given.get('IncludeAllInstances'):
            continue
        status = 'ok' if state == 'running' else 'not-applicable'
        rows.append({'InstanceId': names[server['id']], 'InstanceState': states.shown(state),
                     'AvailabilityZone': server.get('OS-EXT-AZ:availability_zone') or None,
                     'InstanceStatus': {'Status': status}, 'SystemStatus': {'Status': status}})
    rows = filters.apply(rows, given.get('Filters'), {
        'instance-state-name': _nested('InstanceState', 'Name'), 'availability-zone': _nested('AvailabilityZone'),
        'instance-state-code': _nested('InstanceState', 'Code'),
        'instance-status.status': _nested('InstanceStatus', 'Status'),
        'system-status.status': _nested('SystemStatus', 'Status')})
    page, token = filters.page(rows, given, 'InstanceId')
    return {'InstanceStatuses': page, 'NextToken': token}


OPERATIONS = [
    operations.row('DescribeInstances', describe_instances, 'InstanceIds' + operations.PAGED),
    operations.row('DescribeInstanceStatus', describe_instance_status,
                   'InstanceIds IncludeAllInstances' + operations.PAGED),
]
