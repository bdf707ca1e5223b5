"""EC2 operations on placement groups: server groups with anti-affinity or network proximity."""
from typing import Any, TypedDict

from nova.ec2 import errors
from nova.ec2 import filters
from nova.ec2 import operations
from nova.ec2 import tags
from nova.json_types import JsonDocument

POLICIES = {'spread': 'anti-affinity', 'cluster': 'network-proximity'}       # {strategy: policy of server groups}
STRATEGIES = {policy: strategy for strategy, policy in POLICIES.items()}


class ServerGroup(TypedDict):
    """A server group of the compute API, with the fields that placement groups read."""

    id: str
    name: str
    policy: str
    project_id: str
    members: list[str]


def _all(req: operations.Request) -> list[ServerGroup]:
    """Return the project's groups with a supported policy; of groups with the same name, only the oldest."""
    found: dict[str, ServerGroup] = {}
    query: dict[str, Any] = {'limit': operations.PAGE, 'offset': 0}
    while True:
        rows = req.call('compute', 'GET', '/os-server-groups', query=query)['server_groups']
        for row in rows:
            if row['policy'] in STRATEGIES and row['project_id'] == req.project_id:
                found.setdefault(row['name'], row)
        if len(rows) < operations.PAGE:
            return list(found.values())
        query['offset'] += operations.PAGE


def names(req: operations.Request) -> dict[str, str]:
    """Return {UUID: name} of the placement groups."""
    return {group['id']: group['name'] for group in _all(req)}


def named(req: operations.Request, name: str) -> ServerGroup:
    """Return the server group with the name of a placement group.

    :raises Ec2Error: the group does not exist
    """
    for group in _all(req):
        if group['name'] == name:
            return group
    raise errors.Ec2Error('InvalidPlacementGroup.Unknown', f'The placement group {name[:255]!r} does not exist.')


def _shown(req: operations.Request, groups: list[ServerGroup]) -> list[dict[str, Any]]:
    uuids = [group['id'] for group in groups]
    known, kept = req.ids.shown('pg', uuids), tags.of(req, 'pg', uuids)
    return [{'GroupName': group['name'], 'GroupId': known[group['id']], 'State': 'available',
             'Strategy': STRATEGIES[group['policy']],
             'GroupArn': f'arn:aws:ec2:{req.region}:{req.project_id}:placement-group/{group["name"]}',
             'SpreadLevel': 'host' if STRATEGIES[group['policy']] == 'spread' else None,
             'Tags': kept[group['id']]} for group in groups]


def create_placement_group(req: operations.Request, given: operations.Given) -> JsonDocument:
    strategy, name = given.get('Strategy') or 'cluster', given.get('GroupName')
    if not name:
        raise errors.missing('GroupName')
    if strategy == 'partition':
        raise errors.unsupported('Partitions are not supported.')
    if strategy not in POLICIES:
        raise errors.invalid('Strategy', strategy)
    if given.get('SpreadLevel') and strategy != 'spread':
        raise errors.Ec2Error('InvalidParameterCombination', 'SpreadLevel requires the strategy spread.')
    if given.get('SpreadLevel', 'host') != 'host':
        raise errors.unsupported('The only supported SpreadLevel is host.')
    found = tags.given(given.get('TagSpecifications'), 'placement-group')
    if any(group['name'] == name for group in _all(req)):
        raise errors.Ec2Error('InvalidPlacementGroup.Duplicate', f'The placement group {name[:255]!r} already exists.')
    made = req.call('compute', 'POST', '/os-server-groups', {'server_group': {
        'name': name, 'policy': POLICIES[strategy]}})
    tags.put(req, 'pg', made['server_group']['id'], found)
    return {'PlacementGroup': _shown(req, [made['server_group']])[0]}


def describe_placement_groups(req: operations.Request, given: operations.Given) -> JsonDocument:
    groups = _all(req)
    names = given.get('GroupNames')
    if names:
        groups = [named(req, name) for name in names]
    shown = filters.choose(_shown(req, groups), 'GroupId', given.get('GroupIds'), 'pg')
    return {'PlacementGroups': filters.apply(shown, given.get('Filters'), {
        'group-arn': 'GroupArn', 'group-name': 'GroupName', 'state': 'State', 'strategy': 'Strategy',
        'spread-level': 'SpreadLevel'})}


def delete_placement_group(req: operations.Request, given: operations.Given) -> JsonDocument:
    group = named(req, given.get('GroupName') or '')
    if group['members']:
        raise errors.Ec2Error('InvalidPlacementGroup.InUse',
                              f'The placement group {group["name"]!r} has instances.')
    req.call('compute', 'DELETE', f'/os-server-groups/{group["id"]}')
    tags.forget(req, 'pg', group['id'])
    return {}


OPERATIONS = [
    operations.row('CreatePlacementGroup', create_placement_group, 'GroupName Strategy SpreadLevel TagSpecifications',
                   makes='server_group'),
    operations.row('DescribePlacementGroups', describe_placement_groups, 'GroupNames GroupIds Filters'),
    operations.row('DeletePlacementGroup', delete_placement_group, 'GroupName'),
]
