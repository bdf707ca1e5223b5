"""RunInstances: creates servers with the compute API."""
from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from nova.api.ec2 import client_tokens
from nova.api.ec2 import errors
from nova.api.ec2 import operations
from nova.api.ec2 import protocol
from nova.api.ec2 import tags
from nova.api.ec2.instances import block_devices
from nova.api.ec2.instances import launch_templates
from nova.api.ec2.instances import metadata_options
from nova.api.ec2.instances import placement_groups
from nova.api.ec2.instances import reservations
from nova.api.ec2.instances import run_parameters
from nova.api.ec2.instances import types
from nova.api.ec2.instances import views
from nova.api.ec2.networks import subnet_placement
from nova.api.ec2.networks import vpcs
from nova.api.servers.schemas import CATEGORY
from nova.db.ec2 import vpcs as db_vpcs

RESERVATION = 'r-'               # prefix of a reservation ID; UUIDs do not begin with it


def run_instances(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    requested, given = given, run_parameters.of_request(launch_templates.merged(req, given))
    run_parameters.check(given)
    least, most = given.get('MinCount', 1), given.get('MaxCount', 1)
    if not 1 <= least <= most:
        raise errors.invalid('MinCount', least)
    given_tags = tags.given(given.get('TagSpecifications'), 'instance')
    reservation = reservations.begin(req, requested.get('ClientToken'))
    body: dict[str, Any] = {'server': {
        'name': given_tags.get('Name') or 'instance', **_category(req, given),
        'metadata': given_tags | metadata_options.items(req, given.get('MetadataOptions') or {})
        | reservations.items(reservation, most),
        'min_count': least, 'max_count': most,
        'return_reservation_id': most > 1,
        'networks': _networks(req, given), **block_devices.source_of(req, given)}}
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
    made, servers = _made(req, requested, given, body)
    if servers is None:
        servers = _servers(req, made)
    req.ids.begin('i', [server['id'] for server in servers])
    view = views.Instances(req, servers)
    if servers:                          # servers of an older release may not have the reservation
        reservation = reservations.of(servers[0], req.ids.one('i', servers[0]['id']))
    return {'ReservationId': reservation, 'OwnerId': req.project_id, 'Groups': [],
            'Instances': [view.one(server, index) for index, server in enumerate(servers)]}


def _servers(req: operations.Request, made: str) -> list[dict[str, Any]]:
    """Return the existing servers of an earlier POST /servers.

    :param made: result of ``_made``
    """
    if made.startswith(RESERVATION):
        found = req.call('compute', 'GET', '/servers/detail', query={'reservation_id': made})
        return sorted(found['servers'], key=lambda server: (len(server['name']), server['name']))     # …-2 before …-10
    try:
        return [req.call('compute', 'GET', f'/servers/{made}')['server']]
    except errors.ServiceRefused as refused:
        if refused.status != 404:
            raise
        return []                        # the token was reused after the server was deleted


def _made(req: operations.Request, requested: operations.Given, given: operations.Given, body: dict[str, Any],
          ) -> tuple[str, list[dict[str, Any]] | None]:
    """Create servers; return (UUID of one server or reservation ID of several, new servers or None).

    The token is also passed to the compute API, which finds the servers of an interrupted request. ``client_tokens``
    checks the parameters of a token. The compute API checks the visibility of the image.
    """
    headers, servers = {'Prefer': 'return=representation'}, list[dict[str, Any]]()
    if requested.get('ClientToken'):
        headers['Idempotency-Key'] = f'ec2:{requested["ClientToken"]}'
    if req.caller.dry:
        _image(req, given)
    req.caller.writes('compute', 'POST', '/servers', body)          # a dry run checks the rules and ends here

    def make() -> str:
        try:
            answer = req.call('compute', 'POST', '/servers', body, headers=headers)
        except errors.ServiceRefused as refused:
            if refused.status in (400, 404):
                _image(req, given)       # report an invalid image as such
            raise
        shown = answer['servers'] if 'servers' in answer else [answer['server']] if 'server' in answer else []
        servers.extend(server for server in shown if 'status' in server)
        return str(answer['reservation_id'] if 'reservation_id' in answer else answer['server']['id'])
    made = client_tokens.once(req, 'RunInstances', requested, lambda _since: None, make)
    return made, servers or None


def _networks(req: operations.Request, given: operations.Given) -> str | list[dict[str, str]]:
    if given.get('NetworkInterfaces'):
        common = {name: given[name] for name in ('MaxCount', 'SecurityGroupIds') if given.get(name)}
        return [_network(req, {**common, **each}) for each in given['NetworkInterfaces']]
    if given.get('NetworkInterfaceId') or given.get('SubnetId'):
        return [_network(req, given)]
    if given.get('PrivateIpAddress'):
        raise errors.missing('SubnetId')
    return _first_networks(req)


def _network(req: operations.Request, given: operations.Given) -> dict[str, str]:
    """Return one network of the compute API for an existing network interface or a subnet."""
    if given.get('NetworkInterfaceId'):
        if given.get('MaxCount', 1) != 1:
            raise errors.Ec2Error('InvalidParameterCombination', 'A network interface can have only one instance.')
        port = req.find('eni', given['NetworkInterfaceId'], 'network', '/ports/{}')['port']
        if port['device_id']:
            raise errors.Ec2Error('InvalidNetworkInterface.InUse', f'The network interface '
                                  f'{given["NetworkInterfaceId"]} is in use.')
        return {'port': port['id']}
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
    """Check the VPC of security groups.

    :param wanted: IDs of security groups
    :param subnet: UUID
    :raises Ec2Error: a security group belongs to another VPC than the subnet
    """
    places = db_vpcs.groups_of_project(req.api_db, req.project_id) if wanted else {}
    vpc = vpcs.Vpcs(req).of_subnets.get(subnet) if places else None
    for shown in wanted:
        place = places.get(req.uuid('sg', shown))
        if place and place != vpc:
            raise errors.Ec2Error('InvalidParameter', f'Security group {shown} and the subnet belong to different '
                                                      'networks.')


def _category(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    """Return the instance category and flavor; the category may have a default flavor.

    :raises Ec2Error: unknown instance type
    """
    category = given.get(protocol.CATEGORY)
    flavor = {} if category and not given.get('InstanceType') else {
        'flavorRef': types.flavor_of(req, given.get('InstanceType'))}
    return flavor | ({CATEGORY: category} if category else {})


def _image(req: operations.Request, given: operations.Given) -> None:
    """Check the image.

    :raises Ec2Error: the image is not visible to the caller
    """
    if not given.get('ImageId'):         # the category has an image
        return
    req.find('ami', given['ImageId'], 'image', '/images/{}')


OPERATIONS = [
    operations.row('RunInstances', run_instances,
                   f'{run_parameters.TAKES} MinCount MaxCount SubnetId PrivateIpAddress ClientToken LaunchTemplate '
                   f'NetworkInterfaces {protocol.CATEGORY}',
                   run_parameters.IGNORES, makes='server'),
]
