"""Placement groups of the strategy spread: server groups that keep their servers on different hosts."""
from __future__ import annotations

from typing import Any

from nova.api.ec2 import errors
from nova.api.ec2 import filters
from nova.api.ec2 import operations
from nova.api.ec2 import tags

SPREAD = 'anti-affinity'                  # the policy that is the strategy spread
REFUSED = {'cluster': 'The compute API makes no group whose servers are near each other in the network.',
           'partition': 'Partitions are not supported.'}


def _all(req: operations.Request) -> list[dict[str, Any]]:
    """The caller's groups that EC2 has a word for; of several with one name the oldest."""
    found: dict[str, dict[str, Any]] = {}
    query: dict[str, Any] = {'limit': operations.PAGE, 'offset': 0}
    while True:
        rows = req.call('compute', 'GET', '/os-server-groups', query=query)['server_groups']
        for row in rows:
            if row['policy'] == SPREAD and row['project_id'] == req.project_id:
                found.setdefault(row['name'], row)
        if len(rows) < operations.PAGE:
            return list(found.values())
        query['offset'] += operations.PAGE


def named(req: operations.Request, name: str) -> dict[str, Any]:
    """The server group of a placement group's name.

    :raises Ec2Error: there is none
    """
    for group in _all(req):
        if group['name'] == name:
            return group
    raise errors.Ec2Error('InvalidPlacementGroup.Unknown', f'The placement group {name[:255]!r} does not exist.')


def _shown(req: operations.Request, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    uuids = [group['id'] for group in groups]
    known, kept = req.ids.shown('pg', uuids), tags.of(req, 'pg', uuids)
    return [{'GroupName': group['name'], 'GroupId': known[group['id']], 'State': 'available', 'Strategy': 'spread',
             'SpreadLevel': 'host', 'Tags': kept[group['id']]} for group in groups]


def create_placement_group(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    strategy, name = given.get('Strategy') or 'cluster', given.get('GroupName')
    if not name:
        raise errors.missing('GroupName')
    if strategy in REFUSED:
        raise errors.unsupported(REFUSED[strategy])
    if strategy != 'spread':
        raise errors.invalid('Strategy', strategy)
    if given.get('SpreadLevel', 'host') != 'host':
        raise errors.unsupported('Instances are spread over hosts: SpreadLevel is host.')
    found = tags.given(given.get('TagSpecifications'), 'placement-group')
    if any(group['name'] == name for group in _all(req)):
        raise errors.Ec2Error('InvalidPlacementGroup.Duplicate', f'The placement group {name[:255]!r} exists.')
    made = req.call('compute', 'POST', '/os-server-groups', {'server_group': {'name': name, 'policy': SPREAD}})
    tags.put(req, 'pg', made['server_group']['id'], found)
    return {'PlacementGroup': _shown(req, [made['server_group']])[0]}


def describe_placement_groups(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    groups = _all(req)
    names = given.get('GroupNames')
    if names:
        groups = [named(req, name) for name in names]
    shown = filters.choose(_shown(req, groups), 'GroupId', given.get('GroupIds'), 'pg')
    return {'PlacementGroups': filters.apply(shown, given.get('Filters'), {
        'group-name': lambda group: group['GroupName'], 'state': lambda group: group['State'],
        'strategy': lambda group: group['Strategy'], 'spread-level': lambda group: group['SpreadLevel']})}


def delete_placement_group(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    group = named(req, given.get('GroupName') or '')
    if group['members']:
        raise errors.Ec2Error('InvalidPlacementGroup.InUse',
                              f'The placement group {group["name"]!r} has instances.')
    req.call('compute', 'DELETE', f'/os-server-groups/{group["id"]}')
    return {}


OPERATIONS = [
    operations.row('CreatePlacementGroup', create_placement_group, 'GroupName Strategy SpreadLevel TagSpecifications',
                   makes='server_group'),
    operations.row('DescribePlacementGroups', describe_placement_groups, 'GroupNames GroupIds Filters'),
    operations.row('DeletePlacementGroup', delete_placement_group, 'GroupName'),
]
