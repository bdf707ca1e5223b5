"""Servers of the compute API, as instances."""
from __future__ import annotations

from collections.abc import Sequence
import datetime
from typing import Any

from nova.api.ec2 import errors
from nova.api.ec2 import operations
from nova.api.ec2 import tags
from nova.api.ec2.instances import metadata_options
from nova.api.ec2.instances import reservations
from nova.api.ec2.instances import states
from nova.api.ec2.networks import interfaces

REMEMBERED = datetime.timedelta(hours=1)            # for which a terminated instance is shown to who names it


def _addresses(server: dict[str, Any], kind: str) -> list[str]:
    return [address['addr'] for network in server['addresses'].values() for address in network
            if address['version'] == 4 and address.get('OS-EXT-IPS:type', 'fixed') == kind]


class Instances:
    """Servers as instances, with the ids of all in one look at the table."""

    def __init__(self, req: operations.Request, servers: Sequence[dict[str, Any]]) -> None:
        self._instances = req.ids.shown('i', [server['id'] for server in servers])
        self._images = req.ids.shown('ami', {_image_of(server) for server in servers})
        volumes = {volume['id'] for server in servers
                   for volume in server.get('os-extended-volumes:volumes_attached') or ()}
        self._volumes, self._devices = req.ids.shown('vol', volumes), _devices(req) if volumes else {}
        # One whose build has just begun has no port yet.
        self._interfaces = interfaces.Interfaces(req, [
            server['id'] for server in servers if server['addresses'] or server['status'] != 'BUILD'])

    def facts(self, server: dict[str, Any]) -> list[Any]:
        """What ``instance`` reads but a server's document, of JSON."""
        volumes = server.get('os-extended-volumes:volumes_attached') or ()
        return [self._instances[server['id']], self._images[_image_of(server)],
                [[self._volumes[volume['id']], self._devices.get(volume['id'])] for volume in volumes],
                self._interfaces.facts(server)]

    def one(self, server: dict[str, Any], index: int | None = None) -> dict[str, Any]:
        """A server as an instance."""
        return instance(server, self.facts(server), index)


def instance(server: dict[str, Any], facts: list[Any], index: int | None = None) -> dict[str, Any]:
    """A server as an instance.

    :param facts: see ``Instances.facts``; nothing else is read, so that the answer may be remembered by these
    :param index: its place in its reservation, where that is known
    """
    ident, image, devices, ports = facts
    private, public = _addresses(server, 'fixed'), _addresses(server, 'floating')
    state = states.state_of(server)
    fault = server.get('fault')
    volumes = server.get('os-extended-volumes:volumes_attached') or ()
    return {
        'InstanceId': ident, 'ImageId': image,
        'State': states.shown(state), 'PrivateDnsName': server['name'], 'PublicDnsName': (public or [''])[0],
        'StateReason': {'Code': 'Server.InternalError', 'Message': fault['message']} if fault else None,
        'KeyName': server.get('key_name'), 'AmiLaunchIndex': reservations.index_of(server) if index is None else index,
        'InstanceType': server['flavor'].get('original_name'), 'LaunchTime': server['created'],
        'Placement': {'AvailabilityZone': server.get('OS-EXT-AZ:availability_zone') or None},
        'Monitoring': {'State': 'disabled'}, 'PrivateIpAddress': private[0] if private else None,
        'PublicIpAddress': public[0] if public else None,
        'RootDeviceType': 'instance-store' if _image_of(server) else 'ebs',
        'BlockDeviceMappings': [{'DeviceName': device, 'Ebs': {
            'VolumeId': shown, 'Status': 'attached',
            'DeleteOnTermination': bool(volume.get('delete_on_termination'))}}
            for volume, (shown, device) in zip(volumes, devices, strict=True)],
        **interfaces.shown(server, ports),
        'MetadataOptions': metadata_options.shown(server['metadata']),
        'Tags': tags.shown(server['metadata']), 'VirtualizationType': 'hvm',
    }


def _devices(req: operations.Request) -> dict[str, str]:
    """{uuid of a volume: where its server has it}, as the block storage says."""
    return {volume['id']: attachment['device'] for volume in req.pages('volume', '/volumes/detail', 'volumes')
            for attachment in volume['attachments'] if attachment.get('device')}


def _image_of(server: dict[str, Any]) -> str | None:
    return server['image']['id'] if server.get('image') else None


def servers_of(req: operations.Request, instance_ids: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Servers of the caller's project in detail: those of these ids, or all.

    :raises Ec2Error: one is not there
    """
    if instance_ids is not None and len(instance_ids) <= operations.FEW:
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


def _server(req: operations.Request, uuid: str, shown: str) -> dict[str, Any]:
    try:
        return dict(req.call('compute', 'GET', f'/servers/{uuid}')['server'])
    except errors.ServiceRefused as refused:
        if refused.status != 404:
            raise
    since = (datetime.datetime.now(datetime.UTC) - REMEMBERED).strftime('%Y-%m-%dT%H:%M:%SZ')
    for server in req.pages('compute', '/servers/detail', 'servers', {'changes-since': since}):
        if server['id'] == uuid and server['status'] == 'DELETED':
            return dict(server)
    raise errors.not_found('i', shown)


def one_of(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    """The server of a request's InstanceId.

    :raises Ec2Error: it is not there
    """
    server, = servers_of(req, [given['InstanceId']])
    return server
