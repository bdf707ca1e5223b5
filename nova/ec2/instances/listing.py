"""EC2 operations that list instances and their status."""
from typing import Any

from nova.db.placement.categories import REGULAR
from nova.ec2 import filters
from nova.ec2 import ids
from nova.ec2 import operations
from nova.ec2 import protocol
from nova.ec2 import xml_cache
from nova.ec2.instances import reservations
from nova.ec2.instances import states
from nova.ec2.instances import views
from nova.json_types import JsonDocument

FILTERS: dict[str, filters.Values] = {
    'instance-id': 'InstanceId', 'instance-type': 'InstanceType', 'key-name': 'KeyName', 'vpc-id': 'VpcId',
    'private-ip-address': 'PrivateIpAddress', 'ip-address': 'PublicIpAddress', 'launch-time': 'LaunchTime',
    'private-dns-name': 'PrivateDnsName', 'subnet-id': 'SubnetId', 'root-device-type': 'RootDeviceType',
    'reservation-id': 'ReservationId', 'launch-index': 'AmiLaunchIndex', 'root-device-name': 'RootDeviceName',
    'instance-state-name': 'State.Name', 'instance-state-code': 'State.Code',
    'availability-zone': 'Placement.AvailabilityZone', 'instance.group-name': 'SecurityGroups.GroupName',
    'group-name': 'SecurityGroups.GroupName', 'instance.group-id': 'SecurityGroups.GroupId',
    'group-id': 'SecurityGroups.GroupId', 'block-device-mapping.device-name': 'BlockDeviceMappings.DeviceName',
    'block-device-mapping.volume-id': 'BlockDeviceMappings.Ebs.VolumeId',
    'block-device-mapping.status': 'BlockDeviceMappings.Ebs.Status',
    'block-device-mapping.delete-on-termination': 'BlockDeviceMappings.Ebs.DeleteOnTermination',
    **{name: ids.forms_of_image(field) for name, field in (
        ('image-id', 'ImageId'), ('kernel-id', 'KernelId'), ('ramdisk-id', 'RamdiskId'))},
    'instance-category': lambda item: item[protocol.CATEGORY] or REGULAR,
    'architecture': 'Architecture', 'availability-zone-id': 'Placement.AvailabilityZone',
    'block-device-mapping.attach-time': 'BlockDeviceMappings.Ebs.AttachTime', 'client-token': 'ClientToken',
    'capacity-reservation-specification.capacity-reservation-preference':
        'CapacityReservationSpecification.CapacityReservationPreference',
    'dns-name': 'PublicDnsName', 'ebs-optimized': 'EbsOptimized', 'ena-support': 'EnaSupport',
    'enclave-options.enabled': 'EnclaveOptions.Enabled',
    'hibernation-options.configured': 'HibernationOptions.Configured', 'hypervisor': 'Hypervisor',
    'maintenance-options.auto-recovery': 'MaintenanceOptions.AutoRecovery',
    'metadata-options.http-endpoint': 'MetadataOptions.HttpEndpoint',
    'metadata-options.http-protocol-ipv4': 'MetadataOptions.HttpEndpoint',
    'metadata-options.http-protocol-ipv6': 'MetadataOptions.HttpProtocolIpv6',
    'metadata-options.http-put-response-hop-limit': 'MetadataOptions.HttpPutResponseHopLimit',
    'metadata-options.http-tokens': 'MetadataOptions.HttpTokens',
    'metadata-options.instance-metadata-tags': 'MetadataOptions.InstanceMetadataTags',
    'metadata-options.state': 'MetadataOptions.State', 'monitoring-state': 'Monitoring.State', 'owner-id': 'OwnerId',
    'placement-group-name': 'Placement.GroupName', 'platform': 'Platform', 'platform-details': 'PlatformDetails',
    'private-dns-name-options.enable-resource-name-dns-a-record': 'PrivateDnsNameOptions.EnableResourceNameDnsARecord',
    'private-dns-name-options.enable-resource-name-dns-aaaa-record':
        'PrivateDnsNameOptions.EnableResourceNameDnsAAAARecord',
    'private-dns-name-options.hostname-type': 'PrivateDnsNameOptions.HostnameType', 'reason': 'StateTransitionReason',
    'source-dest-check': 'SourceDestCheck', 'state-reason-code': 'StateReason.Code',
    'state-reason-message': 'StateReason.Message', 'tenancy': 'Placement.Tenancy',
    'usage-operation': 'UsageOperation', 'virtualization-type': 'VirtualizationType',
    **{f'network-interface.{name}': f'NetworkInterfaces.{path}' for name, path in {
        'addresses.association.ip-owner-id': 'PrivateIpAddresses.Association.IpOwnerId',
        'addresses.association.public-ip': 'PrivateIpAddresses.Association.PublicIp',
        'addresses.primary': 'PrivateIpAddresses.Primary',
        'addresses.private-ip-address': 'PrivateIpAddresses.PrivateIpAddress',
        'association.ip-owner-id': 'Association.IpOwnerId', 'association.public-ip': 'Association.PublicIp',
        'attachment.attachment-id': 'Attachment.AttachmentId',
        'attachment.delete-on-termination': 'Attachment.DeleteOnTermination',
        'attachment.device-index': 'Attachment.DeviceIndex',
        'attachment.network-card-index': 'Attachment.NetworkCardIndex', 'attachment.status': 'Attachment.Status',
        'description': 'Description', 'group-id': 'Groups.GroupId', 'group-name': 'Groups.GroupName',
        'mac-address': 'MacAddress', 'network-interface-id': 'NetworkInterfaceId', 'owner-id': 'OwnerId',
        'private-ip-address': 'PrivateIpAddress', 'source-dest-check': 'SourceDestCheck', 'status': 'Status',
        'subnet-id': 'SubnetId', 'vpc-id': 'VpcId'}.items()},
    'network-interface.attachment.instance-id': 'InstanceId',
    'network-interface.attachment.instance-owner-id': 'OwnerId',
    'network-interface.availability-zone': 'Placement.AvailabilityZone',
    **filters.fixed('false', 'operator.managed network-interface.deny-all-igw-traffic network-interface.ipv6-native '
                             'network-interface.operator.managed network-interface.requester-managed'),
    **filters.unset(
        'affinity boot-mode capacity-reservation-id current-instance-boot-mode host-id iam-instance-profile.arn '
        'capacity-reservation-specification.capacity-reservation-target.capacity-reservation-id '
        'capacity-reservation-specification.capacity-reservation-target.capacity-reservation-resource-group-arn '
        'iam-instance-profile.id iam-instance-profile.name instance-lifecycle ipv6-address '
        'network-performance-options.bandwidth-weighting operator.principal outpost-arn placement-partition-number '
        'product-code product-code.type requester-id spot-instance-request-id tpm-support usage-operation-update-time '
        + ' '.join(f'network-interface.{name}' for name in (
            'addresses.association.allocation-id', 'addresses.association.association-id',
            'addresses.association.carrier-ip', 'addresses.association.customer-owned-ip',
            'addresses.association.public-dns-name', 'addresses.private-dns-name', 'association.allocation-id',
            'association.association-id', 'association.carrier-ip', 'association.customer-owned-ip',
            'association.public-dns-name', 'attachment.attach-time',
            'ipv4-prefixes.ipv4-prefix', 'ipv6-address', 'ipv6-addresses.ipv6-address',
            'ipv6-addresses.is-primary-ipv6', 'ipv6-prefixes.ipv6-prefix', 'operator.principal', 'outpost-arn',
            'private-dns-name', 'public-dns-name', 'requester-id', 'tag-key', 'tag-value')))}


def _reservation(project_id: str, reservation: str, instances: list[dict[str, Any]]) -> dict[str, Any]:
    return {'ReservationId': reservation, 'OwnerId': project_id, 'Groups': [], 'Instances': instances}


def describe_instances(req: operations.Request, given: operations.Given) -> JsonDocument:
    servers = views.servers_of(req, given.get('InstanceIds') or None)
    view = views.Instances(req, servers)
    if given.get('Filters'):
        rows = [{**(instance := view.one(server)), 'ReservationId': reservations.of(server, instance['InstanceId']),
                 'OwnerId': req.project_id, 'instance': instance} for server in servers]
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
    """Return the XML of a reservation. The XML depends only on ``facts``, so that it can be cached."""
    project_id, reservation, some = facts
    made = _reservation(project_id, reservation, [views.instance(server, of_server) for server, of_server in some])
    return protocol.item('DescribeInstances', 'Reservations', made)


def describe_instance_status(req: operations.Request, given: operations.Given) -> JsonDocument:
    servers = views.servers_of(req, given.get('InstanceIds') or None)
    names = req.ids.shown('i', [server['id'] for server in servers])
    rows: list[dict[str, Any]] = []
    for server in servers:
        state = states.state_of(server)
        if state != 'running' and not given.get('IncludeAllInstances'):
            continue
        reachable = {'Status': 'ok', 'Details': [{'Name': 'reachability', 'Status': 'passed'}]} if (
            state == 'running') else {'Status': 'not-applicable'}
        rows.append({'InstanceId': names[server['id']], 'InstanceState': states.shown(state),
                     'AvailabilityZone': server.get('OS-EXT-AZ:availability_zone') or None,
                     'InstanceStatus': reachable, 'SystemStatus': reachable, 'Events': []})
    return filters.answer('InstanceStatuses', rows, given, 'InstanceId', {
        'instance-state-name': 'InstanceState.Name', 'instance-state-code': 'InstanceState.Code',
        'availability-zone': 'AvailabilityZone', 'instance-status.status': 'InstanceStatus.Status',
        'system-status.status': 'SystemStatus.Status', 'availability-zone-id': 'AvailabilityZone',
        'instance-status.reachability': 'InstanceStatus.Details.Status',
        'system-status.reachability': 'SystemStatus.Details.Status', **filters.fixed('false', 'operator.managed'),
        **filters.unset('event.code event.description event.instance-event-id event.not-after event.not-before '
                        'event.not-before-deadline operator.principal attached-ebs-status.status '
                        'application-status.status')})


OPERATIONS = [
    operations.row('DescribeInstances', describe_instances, 'InstanceIds' + operations.PAGED),
    operations.row('DescribeInstanceStatus', describe_instance_status,
                   'InstanceIds IncludeAllInstances' + operations.PAGED),
]
