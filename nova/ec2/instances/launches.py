"""RunInstances: creates servers with the compute API."""
import base64
from collections.abc import Callable
from collections.abc import Sequence
import contextlib
import functools
import logging
from typing import Any

from nova.api.servers.schemas import CATEGORY
from nova.ec2 import client_tokens
from nova.ec2 import errors
from nova.ec2 import operations
from nova.ec2 import protocol
from nova.ec2 import tags
from nova.ec2 import waits
from nova.ec2.instances import block_devices
from nova.ec2.instances import launch_templates
from nova.ec2.instances import metadata_options
from nova.ec2.instances import placement_groups
from nova.ec2.instances import reservations
from nova.ec2.instances import run_parameters
from nova.ec2.instances import types
from nova.ec2.instances import views
from nova.ec2.networks import network_interfaces
from nova.ec2.networks import public_addresses
from nova.ec2.networks import security_groups
from nova.ec2.networks import subnet_placement
from nova.ec2.networks import subnets
from nova.ec2.networks import vpcs
from nova.ec2.server import Server
from nova.json_types import JsonDocument

LOG = logging.getLogger(__name__)

RESERVATION = 'r-'               # prefix of a reservation ID; UUIDs do not begin with it


def run_instances(req: operations.Request, given: operations.Given) -> JsonDocument:
    requested = given
    given, of_template = launch_templates.merged(req, given)
    given = run_parameters.of_request(given)
    run_parameters.check(given)
    least, most = given.get('MinCount', 1), given.get('MaxCount', 1)
    if not 1 <= least <= most:
        raise errors.invalid('MinCount', least)
    given_tags, volume_tags = run_parameters.tags_of(given)
    reservation = reservations.begin(req, requested.get('ClientToken'))
    items, rows = tags.divided('i', given_tags)
    of_subnet = _of_subnet(req, given)
    public = given.get(run_parameters.PUBLIC, subnets.PUBLIC in of_subnet)
    outside = public_addresses.external_network(req) if public else None
    if public:
        items[public_addresses.ITEM] = 'true'
    source, of_devices = block_devices.source_of(req, given)
    body: dict[str, Any] = {'server': {
        'name': given_tags.get('Name') or 'instance', **_category(req, given),
        'metadata': items | metadata_options.items(req, given.get('MetadataOptions') or {}) | of_devices
        | _image_item(source) | of_template | reservations.items(reservation, most, requested.get('ClientToken')),
        'min_count': least, 'max_count': most,
        'return_reservation_id': most > 1,
        'networks': _networks(req, given), **source}}
    server = body['server']
    if given.get('KeyName'):
        server['key_name'] = given['KeyName']
    if user_data := run_parameters.user_data(given):
        server['user_data'] = base64.b64encode(user_data).decode()
    placement = given.get('Placement') or {}
    zone, of_it = placement.get('AvailabilityZone'), of_subnet.get(subnets.ZONE)
    if zone and of_it and zone != of_it:
        raise errors.Ec2Error('InvalidParameterValue', f'The subnet is in the availability zone {of_it}, not {zone}.')
    if zone or of_it:
        server['availability_zone'] = zone or of_it
    if placement.get('GroupName'):
        body['os:scheduler_hints'] = {'group': placement_groups.named(req, placement['GroupName'])['id']}
    names = given.get('SecurityGroups') or ()
    groups = [{'name': group['id']} for group in (security_groups.named(req, names) if names else ())]
    groups += [{'name': req.find('sg', shown, 'network', '/security-groups/{}')['security_group']['id']}
               for shown in given.get('SecurityGroupIds') or ()]
    if groups:
        server['security_groups'] = groups
    with waits.slot(req) if public or volume_tags else contextlib.nullcontext():
        made, servers = _made(req, requested, given, body, lambda uuids, new: _finish(
            req, uuids, new, outside, volume_tags, block_devices.count_volumes(source)))
    if servers is None:
        servers = _servers(req, made)
    req.ids.begin('i', [server['id'] for server in servers])
    for server in servers if rows else ():
        tags.put(req, 'i', server['id'], rows)
    view = views.Instances(req, servers, dict.fromkeys([server['id'] for server in servers], tags.shown(rows)))
    return {'ReservationId': reservation, 'OwnerId': req.project_id, 'Groups': [],
            'Instances': [view.one(server, index) for index, server in enumerate(servers)]}


def _servers(req: operations.Request, made: str) -> list[Server]:
    """Return the existing servers of an earlier POST /servers.

    :param made: result of ``_made``
    """
    if made.startswith(RESERVATION):
        found = req.call('compute', 'GET', '/servers/detail', query={'reservation_id': made})
        return sorted(found['servers'], key=lambda server: (len(server['name']), server['name']))     # …-2 before …-10
    with errors.ignored(404):
        return [req.call('compute', 'GET', f'/servers/{made}')['server']]
    return []                            # the token was reused after the server was deleted


def _finish(req: operations.Request, servers: Sequence[str], new: bool, outside: str | None,
            volume_tags: dict[str, str], volumes: int) -> None:
    """Wait until the servers have ports and volumes, then assign public addresses and tag the volumes.

    Servers in ERROR are skipped. If a step fails for one server, delete all new servers. Servers of an earlier request
    stay, because they may be in use. The caller holds a place for a waiting request (``waits.slot``).

    :param servers: UUIDs
    :param new: whether this request created them
    :param outside: UUID of the network of public addresses, or None without such addresses
    :param volumes: number of new volumes of each server
    :raises Ec2Error: no server is visible, no address, or a server gets its ports and volumes too late
    """
    if not outside and not volume_tags:
        return
    if not servers:
        raise errors.Ec2Error('IncorrectInstanceState', 'No instance of this request is visible: they were deleted, or '
                              'you may not see them. Public addresses and tags of volumes may be missing.')

    def is_ready(server: Server) -> bool:
        if server['status'] != 'BUILD':
            return True
        attached = server.get('os-extended-volumes:volumes_attached') or ()
        return (len(attached) >= volumes or not volume_tags) and (
            not outside or bool(public_addresses.ports_of(req, server['id'])))
    try:
        for uuid in servers:
            if not waits.poll(req, uuid, is_ready):
                raise errors.Ec2Error('IncorrectInstanceState', 'The instances got their ports and volumes too late. '
                                      'Try again later.')
            server = req.call('compute', 'GET', f'/servers/{uuid}')['server']
            if server['status'] == 'ERROR':
                continue
            if outside:
                public_addresses.assign(req, uuid, outside)
            for volume in server.get('os-extended-volumes:volumes_attached') or ():
                tags.put(req, 'vol', volume['id'], volume_tags)
    except (errors.Ec2Error, errors.ServiceRefused) as error:
        if new:
            _delete(req, servers, outside is not None)
        shown = errors.of_service(error) if isinstance(error, errors.ServiceRefused) else error
        # not a 5xx: clients would repeat the request, but its ClientToken refers to the deleted servers
        end = 'are terminated' if new else 'lack public addresses or tags of volumes'
        raise shown if shown.status < 500 else errors.Ec2Error(
            'IncorrectInstanceState', f'The instances {end}: {shown.message}') from None


def _delete(req: operations.Request, servers: Sequence[str], public: bool) -> None:
    """Delete the servers of a failed request and release their public addresses.

    If a call fails, the other calls are still made.
    """
    for uuid in servers:
        addresses: list[dict[str, Any]] = []
        try:
            if public:
                addresses = public_addresses.assigned_to(req, uuid)
        except (errors.Ec2Error, errors.ServiceRefused) as error:
            LOG.warning('Cannot list the public addresses of server %s: %s', uuid, error)
        steps = [functools.partial(req.call, 'compute', 'DELETE', f'/servers/{uuid}')]
        steps += [functools.partial(public_addresses.release, req, [address]) for address in addresses]
        for step in steps:
            try:
                step()
            except (errors.Ec2Error, errors.ServiceRefused) as error:
                LOG.warning('Cannot clean up after the failed launch of server %s: %s', uuid, error)


def _of_subnet(req: operations.Request, given: operations.Given) -> dict[str, str]:
    """Return the internal attributes (hidden tags) of the subnet that a request names; {} without a subnet."""
    shown = given.get('SubnetId') or next((
        each['SubnetId'] for each in given.get('NetworkInterfaces') or () if each.get('SubnetId')), None)
    return tags.attributes(req, 'subnet', req.uuid('subnet', shown)) if shown else {}


def _made(req: operations.Request, requested: operations.Given, given: operations.Given, body: dict[str, Any],
          finish: Callable[[list[str], bool], None]) -> tuple[str, list[Server] | None]:
    """Create servers; return (id, servers). The id is the UUID of a single server, otherwise the reservation ID. The
    servers are None if the token was used before.

    The token is also passed to the compute API, which finds the servers of an interrupted request. ``client_tokens``
    refuses a token that was used with other parameters. The compute API checks the visibility of the image.

    :param finish: function(UUIDs of the servers, whether this request created them) that completes the request
    """
    headers, servers = {'Prefer': 'return=representation'}, list[Server]()
    if requested.get('ClientToken'):
        headers['Idempotency-Key'] = f'ec2:{requested["ClientToken"]}'
    if req.caller.dry:
        _image(req, given)
    req.caller.writes('compute', 'POST', '/servers', body)          # a dry run ends here, after policy checks
    networks = body['server']['networks']
    ports = [] if networks == 'auto' else [each['port'] for each in networks if 'port' in each]

    def make() -> str:
        try:
            answer = req.call('compute', 'POST', '/servers', body, headers=headers)
        except errors.ServiceRefused as refused:
            if refused.status in (400, 404):
                _image(req, given)       # raises an error about the image if the caller cannot see it
            for port in ports if refused.status in (400, 409) else ():
                _check_unused(req, port)
            raise
        for port in ports:
            if network_interfaces.INDEX in tags.attributes(req, 'eni', port):    # DeviceIndex at the old instance
                tags.remove_attribute(req, 'eni', port, network_interfaces.INDEX)
        shown = answer['servers'] if 'servers' in answer else [answer['server']] if 'server' in answer else []
        made = str(answer['reservation_id'] if 'reservation_id' in answer else answer['server']['id'])
        # the response to a repeated request has no representations
        new = [server for server in shown if 'status' in server]
        servers.extend(new or _servers(req, made))
        finish([server['id'] for server in servers], bool(new))
        return made
    made = client_tokens.once(req, 'RunInstances', requested, lambda _since: None, make)
    return made, servers or None


def _check_unused(req: operations.Request, port: str) -> None:
    """Check that a port is not in use.

    :param port: UUID
    :raises Ec2Error: the port is in use
    """
    if req.call('network', 'GET', f'/ports/{port}')['port']['device_id']:
        raise errors.Ec2Error('InvalidNetworkInterface.InUse',
                              f'The network interface {req.ids.one("eni", port)} is in use.')


def _networks(req: operations.Request, given: operations.Given) -> str | list[dict[str, str]]:
    if given.get('NetworkInterfaces'):
        return [_network(req, {**given, **each}) for each in given['NetworkInterfaces']]
    if given.get('NetworkInterfaceId') or given.get('SubnetId'):
        return [_network(req, {**given})]
    if given.get('PrivateIpAddress'):
        raise errors.missing('SubnetId')
    check_groups(req, given.get('SecurityGroupIds') or (), '')
    return _first_networks(req)


def _network(req: operations.Request, given: operations.Structure) -> dict[str, str]:
    """Return the item of ``networks`` in POST /servers for an existing network interface or a subnet."""
    if given.get('NetworkInterfaceId'):
        if given.get('MaxCount', 1) != 1:
            raise errors.Ec2Error('InvalidParameterCombination', 'A network interface can have only one instance.')
        # not whether it is in use: in a repeated request with a ClientToken, it is that of the instance
        return {'port': req.find('eni', given['NetworkInterfaceId'], 'network', '/ports/{}')['port']['id']}
    network, subnet = subnet_placement.place_of(req, given['SubnetId'], given.get('PrivateIpAddress'))
    check_groups(req, given.get('SecurityGroupIds') or (), subnet)
    fixed = {'fixed_ip': given['PrivateIpAddress']} if given.get('PrivateIpAddress') else {}
    return {'uuid': network, **fixed}


def _first_networks(req: operations.Request) -> str | list[dict[str, str]]:
    """Return the networks of an instance without a subnet: the only network of the default VPC.

    :raises Ec2Error: the default VPC does not have exactly one network
    """
    made = vpcs.Vpcs(req).of_subnets
    if not made:
        return 'auto'
    rows = req.pages('network', '/subnets', 'subnets')
    of_others = {row['network_id'] for row in rows if row['id'] in made}
    outside = {row['id'] for row in req.call('network', 'GET', '/networks',
                                             query={'router:external': 'true'})['networks']}
    left = {row['network_id'] for row in rows} - of_others - outside
    if len(left) != 1:
        raise errors.Ec2Error('MissingInput', 'The default VPC has no network or several: the request must contain the '
                                              'parameter SubnetId.')
    return [{'uuid': left.pop()}]


def check_groups(req: operations.Request, wanted: Sequence[str], subnet: str) -> None:
    """Check that security groups do not belong to another VPC than the subnet.

    :param wanted: IDs of security groups
    :param subnet: UUID; an unknown one is of the default VPC
    :raises Ec2Error: a security group belongs to another VPC than the subnet
    """
    known = vpcs.Vpcs(req)
    vpc = known.of_subnets.get(subnet) if wanted and known.of_groups else None
    for shown in wanted:
        place = known.of_groups.get(req.uuid('sg', shown))
        if place and place != vpc:
            raise errors.Ec2Error('InvalidParameter', f'Security group {shown} and the subnet belong to different '
                                                      'networks.')


def _category(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    """Return the keys of POST /servers for the instance category and the flavor, which may be the category's default.

    :raises Ec2Error: unknown instance type
    """
    category = given.get(protocol.CATEGORY)
    flavor = {} if category and not given.get('InstanceType') else {
        'flavorRef': types.flavor_of(req, given.get('InstanceType'))}
    return flavor | ({CATEGORY: category} if category else {})


def _image_item(source: block_devices.Source) -> dict[str, str]:
    """Return the metadata item with the image, because the compute API shows no image of servers with a root volume."""
    return {views.IMAGE: source['imageRef']} if 'imageRef' in source else {}


def _image(req: operations.Request, given: operations.Given) -> None:
    """Check the image.

    :raises Ec2Error: the image is not visible to the caller
    """
    if not given.get('ImageId'):         # without ImageId, the default image of the category is used
        return
    req.find('ami', given['ImageId'], 'image', '/images/{}')


OPERATIONS = [
    operations.row('RunInstances', run_instances,
                   f'{run_parameters.TAKES} MinCount MaxCount SubnetId PrivateIpAddress ClientToken LaunchTemplate '
                   f'NetworkInterfaces {protocol.CATEGORY}',
                   makes='server'),
]
