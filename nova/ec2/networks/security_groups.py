"""EC2 operations on security groups."""
from collections.abc import Sequence
import contextlib
from typing import Any, TypedDict, cast

from nova import exception
from nova.db.ec2 import vpcs as db
from nova.ec2 import errors
from nova.ec2 import filters
from nova.ec2 import operations
from nova.ec2 import tags
from nova.ec2.networks import routing
from nova.ec2.networks import vpcs
from nova.json_types import JsonDocument
from nova.network import group_rules

DIRECTIONS = {'ingress': 'IpPermissions', 'egress': 'IpPermissionsEgress'}
ALL = '-1'                                        # all protocols
ICMP = ('icmp', 'icmpv6')
NEED_PORTS = ('tcp', 'udp')
EVERY_PORT = (0, 65535)                           # as EC2 shows it; the network service omits the range


class Group(TypedDict):
    """Fields of a security group in the network service that the EC2 API reads."""
    id: str
    name: str
    security_group_rules: list[dict[str, Any]]


def protocol(given: str | None, ethertype: str | None) -> str:
    """Return the name or number of a protocol in EC2's form.

    :raises Ec2Error: the protocol is unknown
    """
    try:
        return group_rules.canonical_protocol(given, ethertype) or ALL
    except exception.InvalidInput as error:
        raise errors.Ec2Error('InvalidParameterValue', error.message) from None


def shown_protocol(stored: str | None, ethertype: str | None) -> str:
    """Return the protocol of a stored rule; a name that only the Networking service knows is unchanged."""
    try:
        return group_rules.canonical_protocol(stored, ethertype) or ALL
    except exception.InvalidInput:
        return ALL if stored in ('ip', 'hopopt') else str(stored)


def shown_ports(protocol: str, first: int | None, last: int | None) -> tuple[int | None, int | None]:
    """Return FromPort and ToPort of a rule of the network service; (None, None) for a rule without ports.

    :param protocol: as ``shown_protocol`` returns it
    """
    if protocol in ICMP:
        return -1 if first is None else first, -1 if last is None else last
    return EVERY_PORT if protocol in NEED_PORTS and first is None else (first, last)


def named(req: operations.Request, names: Sequence[str]) -> list[Group]:
    """Return the groups with these names. Names are those of the default VPC; groups of other VPCs have only IDs.

    :raises Ec2Error: a group does not exist, or several groups have the name
    """
    of_others, known = vpcs.Vpcs(req).of_groups, dict[str, list[Group]]()
    for group in routing.groups(req):
        if group['id'] not in of_others:
            known.setdefault(group['name'], []).append(cast(Group, group))
    for name in names:
        if name not in known:
            raise errors.Ec2Error('InvalidGroup.NotFound', f'The security group {name[:255]!r} does not exist in the '
                                                           'default VPC.')
        if len(known[name]) > 1:             # the Networking API allows it
            raise errors.Ec2Error('InvalidParameterValue', f'The default VPC has several security groups with the name '
                                                           f'{name[:255]!r}: specify the ID of one.')
    return [known[name][0] for name in names]


def group_of(req: operations.Request, ident: str | None, name: str | None) -> Group:
    """Return the group that a request names by ID, or by name in the default VPC.

    :raises Ec2Error: the group does not exist
    """
    if ident:
        return cast(Group, routing.with_known_rules(
            req.find('sg', ident, 'network', '/security-groups/{}')['security_group']))
    if not name:
        raise errors.missing('GroupId')
    return named(req, [name])[0]


def _permission(req: operations.Request, rule: dict[str, Any], names: dict[Any, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {'IpProtocol': shown_protocol(rule['protocol'], rule['ethertype'])}
    shown['FromPort'], shown['ToPort'] = shown_ports(
        shown['IpProtocol'], rule['port_range_min'], rule['port_range_max'])
    if rule['remote_group_id']:
        shown['UserIdGroupPairs'] = [{'GroupId': names.get(rule['remote_group_id']), 'UserId': req.project_id,
                                      'Description': rule.get('description') or None}]
    elif rule['ethertype'] == 'IPv6':
        shown['Ipv6Ranges'] = [{'CidrIpv6': rule['remote_ip_prefix'] or '::/0',
                                'Description': rule.get('description') or None}]
    else:
        shown['IpRanges'] = [{'CidrIp': rule['remote_ip_prefix'] or '0.0.0.0/0',
                              'Description': rule.get('description') or None}]
    return shown


def _rule_filters(prefix: str, permissions: str) -> dict[str, filters.Values]:
    """Return the filters on the rules of one direction."""
    paths = {'protocol': 'IpProtocol', 'from-port': 'FromPort', 'to-port': 'ToPort', 'cidr': 'IpRanges.CidrIp',
             'ipv6-cidr': 'Ipv6Ranges.CidrIpv6', 'group-id': 'UserIdGroupPairs.GroupId',
             'group-name': 'UserIdGroupPairs.GroupName', 'user-id': 'UserIdGroupPairs.UserId',
             'prefix-list-id': 'PrefixListIds.PrefixListId'}
    return {prefix + name: f'{permissions}.{path}' for name, path in paths.items()}


FILTERS: dict[str, filters.Values] = {
    'group-id': 'GroupId', 'group-name': 'GroupName', 'vpc-id': 'VpcId', 'description': 'Description',
    'owner-id': 'OwnerId', **_rule_filters('ip-permission.', 'IpPermissions'),
    **_rule_filters('egress.ip-permission.', 'IpPermissionsEgress')}


def given_group(req: operations.Request, given: operations.Given) -> Group:
    """Return the group that a request names; see ``group_of``."""
    return group_of(req, given.get('GroupId'), given.get('GroupName'))


def describe_security_groups(req: operations.Request, given: operations.Given) -> JsonDocument:
    groups = routing.groups(req)
    rules = [rule for group in groups for rule in group['security_group_rules']]
    names = req.ids.shown('sg', [group['id'] for group in groups] + [rule['remote_group_id'] for rule in rules])
    kept = tags.of(req, 'sg', [group['id'] for group in groups])
    known, shown = vpcs.Vpcs(req), []
    for group in groups:
        sorted_rules = {key: [_permission(req, rule, names) for rule in group['security_group_rules']
                              if rule['direction'] == direction] for direction, key in DIRECTIONS.items()}
        shown.append({'GroupId': names[group['id']], 'GroupName': group['name'], 'OwnerId': req.project_id,
                      'VpcId': known.shown(known.of_groups.get(group['id'])), 'Tags': kept[group['id']],
                      'Description': group.get('description') or '', 'SecurityGroupArn':
                          f'arn:aws:ec2:{req.region}:{req.project_id}:security-group/{names[group["id"]]}',
                      **sorted_rules})
    shown = filters.choose(shown, 'GroupId', given.get('GroupIds'), 'sg')
    if given.get('GroupNames'):              # names of the default VPC, see ``named``
        shown = [group for group in shown if group['VpcId'] == req.vpc]
    shown = filters.choose_named(shown, 'GroupName', given.get('GroupNames'), 'InvalidGroup.NotFound',
                                 'The security group {} does not exist.')
    return filters.answer('SecurityGroups', shown, given, 'GroupId', FILTERS)


def create_security_group(req: operations.Request, given: operations.Given) -> JsonDocument:
    if not given.get('GroupName'):
        raise errors.missing('GroupName')
    known = vpcs.Vpcs(req)
    vpc = known.find(given['VpcId']) if given.get('VpcId') else None
    if any(group['name'] == given['GroupName'] and known.of_groups.get(group['id']) == vpc
           for group in routing.groups(req)):
        raise errors.Ec2Error('InvalidGroup.Duplicate', f'The security group {given["GroupName"]!r} already exists.')
    found = tags.given(given.get('TagSpecifications'), 'security-group')
    made = req.call('network', 'POST', '/security-groups', {'security_group': {
        'name': given['GroupName'], 'description': given.get('Description') or ''}})['security_group']
    with contextlib.ExitStack() as undo:
        undo.callback(routing.undo, req, 'DELETE', f'/security-groups/{made["id"]}')
        if vpc:
            req.api_db.run(db.add_group, req.project_id, made['id'], vpc)
        tags.put(req, 'sg', made['id'], found)
        undo.pop_all()
    return {'GroupId': req.ids.one('sg', made['id']), 'Tags': tags.shown(found)}


def delete_security_group(req: operations.Request, given: operations.Given) -> JsonDocument:
    group = given_group(req, given)
    rules = [rule['id'] for each in routing.groups(req) for rule in each['security_group_rules']
             if group['id'] in (each['id'], rule['remote_group_id'])]         # these are deleted with the group
    try:
        req.call('network', 'DELETE', f'/security-groups/{group["id"]}')
    except errors.ServiceRefused as refused:
        if refused.status == 409:
            shown = refused.message.replace(group['id'], req.ids.one('sg', group['id']))
            raise errors.Ec2Error('DependencyViolation', shown) from None
        raise
    req.api_db.run(db.remove_group, group['id'])
    tags.forget(req, 'sg', group['id'])
    tags.forget(req, 'sgr', *rules)
    return {'Return': True, 'GroupId': req.ids.one('sg', group['id'])}


OPERATIONS = [
    operations.row('DescribeSecurityGroups', describe_security_groups, 'GroupIds GroupNames' + operations.PAGED),
    operations.row('CreateSecurityGroup', create_security_group, 'GroupName Description TagSpecifications VpcId',
                   makes='security_group'),
    operations.row('DeleteSecurityGroup', delete_security_group, 'GroupId GroupName'),
]
