"""Views of the compute API's servers as EC2 instances."""
from collections.abc import Sequence
import datetime
from typing import Any

from nova.api.servers import devices
from nova.api.servers.schemas import CATEGORY
from nova.db.placement.categories import REGULAR
from nova.ec2 import errors
from nova.ec2 import ids
from nova.ec2 import operations
from nova.ec2 import protocol
from nova.ec2 import tags
from nova.ec2.images import listing
from nova.ec2.instances import metadata_options
from nova.ec2.instances import placement_groups
from nova.ec2.instances import reservations
from nova.ec2.instances import states
from nova.ec2.networks import interfaces
from nova.ec2.server import Server
from nova.image import fields as image_fields

DELETED_SHOWN_FOR = datetime.timedelta(hours=1)      # time for which a deleted instance is shown if its ID is requested

DEFAULT_ARCHITECTURE = 'x86_64'
IMAGE = tags.HIDDEN + 'image'             # metadata item: UUID of the image in RunInstances
WINDOWS = 'windows'
_NOWHERE: tuple[None, None, None] = (None, None, None)
# constant attributes of all instances, for features that the cloud does not have
CONSTANTS: dict[str, Any] = {
    'CapacityReservationSpecification': {'CapacityReservationPreference': 'open'}, 'EbsOptimized': False,
    'EnaSupport': False, 'EnclaveOptions': {'Enabled': False}, 'HibernationOptions': {'Configured': False},
    'Hypervisor': 'xen',                 # EC2 also reports xen for its Nitro hypervisor
    'MaintenanceOptions': {'AutoRecovery': 'default'}, 'Monitoring': {'State': 'disabled'}, 'ProductCodes': [],
    'PrivateDnsNameOptions': {'HostnameType': 'ip-name', 'EnableResourceNameDnsARecord': False,
                              'EnableResourceNameDnsAAAARecord': False},
    'SourceDestCheck': True, 'StateTransitionReason': '', 'UsageOperation': 'RunInstances',
    'VirtualizationType': 'hvm'}


def _addresses(server: Server, kind: str) -> list[str]:
    return [address['addr'] for network in server['addresses'].values() for address in network
            if address['version'] == 4 and address.get('OS-EXT-IPS:type', 'fixed') == kind]


class Instances:
    """Builds views of servers; reads the IDs of all servers in one lookup."""

    def __init__(self, req: operations.Request, servers: Sequence[Server],
                 rows: dict[str, list[dict[str, str]]] | None = None) -> None:
        """
        :param rows: {UUID of a server: its tags in the API database}, if known
        """
        self._rows = tags.of(req, 'i', [server['id'] for server in servers]) if rows is None else rows
        self._groups = placement_groups.names(req) if any(server.get('server_groups') for server in servers) else {}
        self._instances = req.ids.shown('i', [server['id'] for server in servers])
        volumes = {volume['id'] for server in servers
                   for volume in server.get('os-extended-volumes:volumes_attached') or ()}
        self._volumes, self._attached = req.ids.shown('vol', volumes), _attached(req) if volumes else {}
        self._images = req.ids.shown('ami', {
            image or None for server in servers for image in (self._image_of(server), *_parts_of(server))})
        # Skip new servers, which have no ports yet.
        self._interfaces = interfaces.Interfaces(req, [
            server['id'] for server in servers if server['addresses'] or server['status'] != 'BUILD'])
        self._systems = listing.systems(req, {image for server in servers if (image := self._image_of(server))})

    def facts(self, server: Server) -> list[Any]:
        """Collect the data for the view of a server, as a list that can be dumped as JSON."""
        volumes = server.get('os-extended-volumes:volumes_attached') or ()
        return [self._instances[server['id']],
                [self._images[image or None] for image in (self._image_of(server), *_parts_of(server))],
                [[self._volumes[volume['id']], *self._attached.get((volume['id'], server['id']), _NOWHERE)[:2]]
                 for volume in volumes],
                self._interfaces.facts(server), self._rows.get(server['id'], []),
                next((self._groups[group] for group in server.get('server_groups') or ()
                      if group in self._groups), None),
                list(self._systems.get(self._image_of(server) or '', (None, None)))]

    def _image_of(self, server: Server) -> str | None:
        """Return the image of a server, or the image of its root volume."""
        places = [self._attached.get((volume['id'], server['id']), _NOWHERE)
                  for volume in server.get('os-extended-volumes:volumes_attached') or ()]
        named = server['metadata'].get(IMAGE, '')        # may be invalid: users can change it
        if image_fields.is_uuid(named):
            return image_of(server) or named
        return image_of(server) or next((image for device, _since, image in places if device == root_of(server)), None)

    def one(self, server: Server, index: int | None = None) -> dict[str, Any]:
        """Collect the data of a server and build its view."""
        return instance(server, self.facts(server), index)


def instance(server: Server, facts: list[Any], index: int | None = None) -> dict[str, Any]:
    """Build the view of a server from collected data.

    :param facts: see ``Instances.facts``; the view depends on nothing else, so that it can be cached
    :param index: launch index, if known
    """
    ident, (image, kernel, ramdisk), attached, ports, rows, group, (architecture, system) = facts
    private, public = _addresses(server, 'fixed'), _addresses(server, 'floating')
    fault = server.get('fault')
    volumes = server.get('os-extended-volumes:volumes_attached') or ()
    mappings = [{'DeviceName': device, 'Ebs': {
        'VolumeId': shown, 'Status': 'attached', 'AttachTime': protocol.time(since) if since else None,
        'DeleteOnTermination': bool(volume.get('delete_on_termination'))}}
        for volume, (shown, device, since) in zip(volumes, attached, strict=True)]
    root = root_of(server)
    from_volume = not image_of(server) or any(mapping['DeviceName'] == root for mapping in mappings)
    windows = system == WINDOWS
    return {
        **CONSTANTS, 'InstanceId': ident, 'ImageId': image, 'State': states.shown(states.state_of(server)),
        'Architecture': architecture or DEFAULT_ARCHITECTURE,
        'Platform': 'windows' if windows else None, 'PlatformDetails': 'Windows' if windows else 'Linux/UNIX',
        'ClientToken': server['metadata'].get(reservations.TOKEN) or '',
        'PrivateDnsName': server['name'], 'PublicDnsName': (public or [''])[0],
        'StateReason': {'Code': 'Server.InternalError', 'Message': fault['message']} if fault else None,
        'KeyName': server.get('key_name'), 'AmiLaunchIndex': index_of(server) if index is None else index,
        'InstanceType': server['flavor'].get('original_name'), 'LaunchTime': protocol.time(server['created']),
        'CpuOptions': {'CoreCount': server['flavor'].get('vcpus'), 'ThreadsPerCore': 1},
        'Placement': {'AvailabilityZone': server.get('OS-EXT-AZ:availability_zone') or None, 'GroupName': group or '',
                      'Tenancy': 'default'},
        'PrivateIpAddress': private[0] if private else None, 'PublicIpAddress': public[0] if public else None,
        'KernelId': ids.image_as('aki', kernel), 'RamdiskId': ids.image_as('ari', ramdisk),
        'RootDeviceType': 'ebs' if from_volume else 'instance-store', 'RootDeviceName': root,
        'BlockDeviceMappings': mappings, **interfaces.shown(server, ports),
        'MetadataOptions': metadata_options.shown(server['metadata']),
        'Tags': tags.merged(server['metadata'], rows), protocol.CATEGORY: server.get(CATEGORY),
    }


def _attached(req: operations.Request) -> dict[tuple[str, str], tuple[str, str | None, str | None]]:
    """Return {(UUID of a volume, UUID of a server): (device name, time of attachment, source image)}."""
    return {(volume['id'], attachment['server_id']): (attachment['device'], attachment.get('attached_at'),
                                                      _image_named(volume.get('volume_image_metadata') or {}))
            for volume in req.pages('volume', '/volumes/detail', 'volumes')
            for attachment in volume['attachments'] if attachment.get('device')}


def image_of(server: Server) -> str | None:
    """Return the UUID of a server's image, or None if the server boots from a volume."""
    return server['image']['id'] if server.get('image') else None


def _parts_of(server: Server) -> tuple[str | None, str | None]:
    """Return the images of a server's kernel and ramdisk."""
    return server.get('OS-EXT-SRV-ATTR:kernel_id') or None, server.get('OS-EXT-SRV-ATTR:ramdisk_id') or None


def root_of(server: Server) -> str:
    """Return the name of a server's root device."""
    return server.get('OS-EXT-SRV-ATTR:root_device_name') or devices.ROOT


def index_of(server: Server) -> int | None:
    """Return the launch index of an instance, or None if unknown."""
    found: int | None = server.get('OS-EXT-SRV-ATTR:launch_index')
    return reservations.index_of(server) if found is None else found


def category_of(server: Server) -> str:
    """Return the category of a server."""
    return str(server.get(CATEGORY) or REGULAR)


def servers_of(req: operations.Request, instance_ids: Sequence[str] | None = None) -> list[Server]:
    """Return detailed servers of the caller's project: the servers with these IDs, or all.

    :raises Ec2Error: a server does not exist
    """
    if instance_ids is not None and len(instance_ids) <= operations.MAX_SINGLE_READS:
        return [_server(req, uuid, shown)
                for uuid, shown in zip(req.uuids('i', instance_ids), instance_ids)]
    found = req.pages('compute', '/servers/detail', 'servers')
    if instance_ids is None:
        return found
    wanted = set(req.uuids('i', instance_ids))
    found = [server for server in found if server['id'] in wanted]
    for uuid in wanted - {server['id'] for server in found}:
        found.append(_server(req, uuid, req.ids.one('i', uuid)))
    return found


def _server(req: operations.Request, uuid: str, shown: str) -> Server:
    with errors.ignored(404):
        found: Server = req.call('compute', 'GET', f'/servers/{uuid}')['server']
        return found
    since = (datetime.datetime.now(datetime.UTC) - DELETED_SHOWN_FOR).strftime('%Y-%m-%dT%H:%M:%SZ')
    for found in req.pages('compute', '/servers/detail', 'servers', {'changes-since': since}):
        if found['id'] == uuid and found['status'] == 'DELETED':
            return found
    raise errors.not_found('i', shown)


def one_of(req: operations.Request, given: operations.Given) -> Server:
    """Return the server of a request's InstanceId.

    :raises Ec2Error: the server does not exist
    """
    server, = servers_of(req, [given['InstanceId']])
    return server


def _image_named(metadata: dict[str, Any]) -> str | None:
    """Return the image ID in a volume's metadata, or None if malformed: owners can change the metadata."""
    found = metadata.get('image_id')
    return found if found and image_fields.is_uuid(found) else None
