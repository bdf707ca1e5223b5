"""Security groups and their rules, of the network service."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nova.api.ec2 import errors
from nova.api.ec2 import filters
from nova.api.ec2 import operations
from nova.api.ec2 import routing
from nova.api.ec2 import tags
from nova.api.ec2 import vpcs
from nova.db.ec2 import vpcs as db

DIRECTIONS = {'ingress': 'IpPermissions', 'egress': 'IpPermissionsEgress'}
ALL = '-1'                                        # protocol that stands for all
ICMP = ('icmp', 'icmpv6', 'ipv6-icmp')


def _group_of(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    """The group that a request names by id, or by name within the project.

    :raises Ec2Error: there is none
    """
    if given.get('GroupId'):
        return dict(req.find('sg', given['GroupId'], 'network', '/security-groups/{}')['security_group'])
    name = given.get('GroupName')
    if not name:
        raise errors.missing('GroupId')
    for group in routing.groups(req):
        if group['name'] == name:
            return group
    raise errors.Ec2Error('InvalidGroup.NotFound', f'The security group {name[:255]!r} does not exist.')


def _permission(req: operations.Request, rule: dict[str, Any], names: dict[Any, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {'IpProtocol': rule['protocol'] or ALL, 'FromPort': rule['port_range_min'],
                             'ToPort': rule['port_range_max']}
    if rule['protocol'] in ICMP and rule['port_range_max'] is None and rule['port_range_min'] is not None:
        shown['ToPort'] = -1
    if rule['remote_group_id']:
        shown['UserIdGroupPairs'] = [{'GroupId': names.get(rule['remote_group_id']), 'UserId': req.project_id,
                                      'Description': rule.get('description') or None}]
    elif rule['ethertype'] == 'IPv6':
        shown['Ipv6Ranges'] = [{'CidrIpv6': rule['remote_ip_prefix'] or '::/0'}]
    else:
        shown['IpRanges'] = [{'CidrIp': rule['remote_ip_prefix'] or '0.0.0.0/0',
                              'Description': rule.get('description') or None}]
    return shown


def describe_security_groups(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    groups = routing.groups(req)
    rules = [rule for group in groups for rule in group['security_group_rules']]
    names = req.ids.shown('sg', [group['id'] for group in groups] + [rule['remote_group_id'] for rule in rules])
    kept = tags.of(req, 'sg', [group['id'] for group in groups])
    known, places = vpcs.Vpcs(req), db.groups_of_project(req.api_db, req.project_id)
    shown = []
    for group in groups:
        sorted_rules = {key: [_permission(req, rule, names) for rule in group['security_group_rules']
                              if rule['direction'] == direction] for direction, key in DIRECTIONS.items()}
        shown.append({'GroupId': names[group['id']], 'GroupName': group['name'], 'OwnerId': req.project_id,
                      'VpcId': known.shown(places.get(group['id'])), 'Tags': kept[group['id']],
                      'Description': group.get('description') or '',
                      **sorted_rules})
    shown = filters.choose(shown, 'GroupId', given.get('GroupIds'), 'sg')
    wanted = given.get('GroupNames') or ()
    for name in wanted:
        if name not in {group['GroupName'] for group in shown}:
            raise errors.Ec2Error('InvalidGroup.NotFound', f'The security group {name[:255]!r} does not exist.')
    if wanted:
        shown = [group for group in shown if group['GroupName'] in wanted]
    shown = filters.apply(shown, given.get('Filters'), {
        'group-id': lambda group: group['GroupId'], 'group-name': lambda group: group['GroupName'],
        'vpc-id': lambda group: group['VpcId'], 'description': lambda group: group['Description'],
        'owner-id': lambda group: group['OwnerId'],
        'ip-permission.protocol': lambda group: [row['IpProtocol'] for row in group['IpPermissions']],
        'ip-permission.from-port': lambda group: [row['FromPort'] for row in group['IpPermissions']],
        'ip-permission.to-port': lambda group: [row['ToPort'] for row in group['IpPermissions']],
        'ip-permission.cidr': lambda group: [part['CidrIp'] for row in group['IpPermissions']
                                             for part in row.get('IpRanges') or ()]})
    page, token = filters.page(shown, given, 'GroupId')
    return {'SecurityGroups': page, 'NextToken': token}


def create_security_group(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    if not given.get('GroupName'):
        raise errors.missing('GroupName')
    vpc = vpcs.Vpcs(req).find(given['VpcId']) if given.get('VpcId') else None
    places = db.groups_of_project(req.api_db, req.project_id)
    if any(group['name'] == given['GroupName'] and places.get(group['id']) == vpc for group in routing.groups(req)):
        raise errors.Ec2Error('InvalidGroup.Duplicate', f'The security group {given["GroupName"]!r} exists.')
    found = tags.given(given.get('TagSpecifications'), 'security-group')
    made = req.call('network', 'POST', '/security-groups', {'security_group': {
        'name': given['GroupName'], 'description': given.get('Description') or ''}})['security_group']
    if vpc:
        req.api_db.run(db.add_group, req.project_id, made['id'], vpc)
    tags.put(req, 'sg', made['id'], found)
    return {'GroupId': req.ids.one('sg', made['id']), 'Tags': tags.shown(found)}


def delete_security_group(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    group = _group_of(req, given)
    try:
        req.call('network', 'DELETE', f'/security-groups/{group["id"]}')
    except errors.ServiceRefused as refused:
        if refused.status == 409:
            shown = refused.message.replace(group['id'], req.ids.one('sg', group['id']))
            raise errors.Ec2Error('DependencyViolation', shown) from None
        raise
    req.api_db.run(db.remove_group, group['id'])
    return {'Return': True, 'GroupId': req.ids.one('sg', group['id'])}


# ---- rules

def _wanted(req: operations.Request, given: operations.Given, direction: str) -> Iterator[dict[str, Any]]:
    """The rules that a request names, as the network service has them."""
    permissions = list(given.get('IpPermissions') or ())
    if given.get('IpProtocol'):
        single: dict[str, Any] = {name: given[name] for name in ('IpProtocol', 'FromPort', 'ToPort') if name in given}
        if given.get('CidrIp'):
            single['IpRanges'] = [{'CidrIp': given['CidrIp']}]
        permissions.append(single)
    if not permissions:
        raise errors.missing('IpPermissions')
    for permission in permissions:
        base = {'direction': direction, **_ports(permission)}
        parts = [{'ethertype': 'IPv4', 'remote_ip_prefix': part.get('CidrIp'), 'description': part.get('Description')}
                 for part in permission.get('IpRanges') or ()]
        parts += [{'ethertype': 'IPv6', 'remote_ip_prefix': part.get('CidrIpv6'),
                   'description': part.get('Description')} for part in permission.get('Ipv6Ranges') or ()]
        parts += [{'ethertype': 'IPv4', 'remote_group_id': _group_of(req, part)['id'],
                   'description': part.get('Description')} for part in permission.get('UserIdGroupPairs') or ()]
        if permission.get('PrefixListIds'):
            raise errors.unsupported('There are no prefix lists.')
        if not parts:
            raise errors.Ec2Error('InvalidParameterValue', 'A permission names ranges of addresses or groups.')
        for part in parts:
            yield {**base, **{name: value for name, value in part.items() if value is not None}}


def _ports(permission: dict[str, Any]) -> dict[str, Any]:
    protocol = str(permission.get('IpProtocol') or '')
    first, last = permission.get('FromPort'), permission.get('ToPort')
    if not protocol:
        raise errors.missing('IpProtocol')
    if protocol == ALL:
        return {}
    ports = {'port_range_min': first, 'port_range_max': last}
    if protocol in ICMP:                          # type and code; -1 is any
        ports = {name: value for name, value in ports.items() if value != -1}
    elif protocol in ('tcp', 'udp', '6', '17') and (first is None or last is None):
        raise errors.Ec2Error('InvalidParameterValue', 'A permission for tcp or udp has FromPort and ToPort.')
    return {'protocol': protocol, **{name: value for name, value in ports.items() if value is not None}}


def _authorize(direction: str) -> operations.Handler:
    def handler(req: operations.Request, given: operations.Given) -> dict[str, Any]:
        group = _group_of(req, given)
        rules = [{**rule, 'security_group_id': group['id']} for rule in _wanted(req, given, direction)]
        made: list[dict[str, Any]] = []
        try:
            for rule in rules:
                made.append(req.call('network', 'POST', '/security-group-rules',
                                     {'security_group_rule': rule})['security_group_rule'])
        except errors.ServiceRefused as refused:
            for rule in made:                     # all of them or none
                req.call('network', 'DELETE', f'/security-group-rules/{rule["id"]}')
            if refused.status == 409 and 'uota' not in refused.message:
                raise errors.Ec2Error('InvalidPermission.Duplicate', refused.message) from None
            raise
        names = req.ids.shown('sgr', [rule['id'] for rule in made])
        return {'Return': True, 'SecurityGroupRules': [_rule(req, rule, names) for rule in made]}
    return handler


def _revoke(direction: str) -> operations.Handler:
    def handler(req: operations.Request, given: operations.Given) -> dict[str, Any]:
        group, present = _group_of(req, given), []
        present = group['security_group_rules']
        chosen = []
        if given.get('SecurityGroupRuleIds'):
            wanted = req.ids.uuids('sgr', given['SecurityGroupRuleIds'])
            chosen = [rule['id'] for rule in present if rule['id'] in wanted and rule['direction'] == direction]
            if len(chosen) < len(set(wanted)):
                raise errors.not_found('sgr', given['SecurityGroupRuleIds'][0])
        else:
            for rule in _wanted(req, given, direction):
                rule.pop('description', None)
                found = next((row['id'] for row in present if _same(row, rule)), None)
                if found is None:
                    raise errors.Ec2Error('InvalidPermission.NotFound', 'The group has no such rule.')
                chosen.append(found)
        for rule_id in dict.fromkeys(chosen):
            req.call('network', 'DELETE', f'/security-group-rules/{rule_id}')
        return {'Return': True}
    return handler


_ANYWHERE = (None, '0.0.0.0/0', '::/0')


def _same(row: dict[str, Any], rule: dict[str, Any]) -> bool:
    for name in ('direction', 'ethertype', 'protocol', 'port_range_min', 'port_range_max', 'remote_group_id'):
        if row[name] != rule.get(name):
            return False
    here, there = row['remote_ip_prefix'], rule.get('remote_ip_prefix')
    return bool(here == there or here in _ANYWHERE and there in _ANYWHERE)


def _rule(req: operations.Request, rule: dict[str, Any], names: dict[Any, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        'SecurityGroupRuleId': names[rule['id']], 'GroupId': req.ids.one('sg', rule['security_group_id']),
        'GroupOwnerId': req.project_id, 'IsEgress': rule['direction'] == 'egress',
        'IpProtocol': rule['protocol'] or ALL,
        'FromPort': -1 if rule['port_range_min'] is None else rule['port_range_min'],
        'ToPort': -1 if rule['port_range_max'] is None else rule['port_range_max'],
        'Description': rule.get('description') or None}
    if rule['remote_group_id']:
        shown['ReferencedGroupInfo'] = {'GroupId': req.ids.one('sg', rule['remote_group_id']), 'UserId': req.project_id}
    elif rule['ethertype'] == 'IPv6':
        shown['CidrIpv6'] = rule['remote_ip_prefix'] or '::/0'
    else:
        shown['CidrIpv4'] = rule['remote_ip_prefix'] or '0.0.0.0/0'
    return shown


def describe_security_group_rules(req: operations.Request, given: operations.Given) -> dict[str, Any]:
    rules = [rule for group in routing.groups(req) for rule in group['security_group_rules']]
    names = req.ids.shown('sgr', [rule['id'] for rule in rules])
    shown = filters.choose([_rule(req, rule, names) for rule in rules], 'SecurityGroupRuleId',
                           given.get('SecurityGroupRuleIds'), 'sgr')
    shown = filters.apply(shown, given.get('Filters'), {
        'group-id': lambda rule: rule['GroupId'], 'security-group-rule-id': lambda rule: rule['SecurityGroupRuleId']})
    page, token = filters.page(shown, given, 'SecurityGroupRuleId')
    return {'SecurityGroupRules': page, 'NextToken': token}


_RULES = 'GroupId IpPermissions IpProtocol FromPort ToPort CidrIp'
OPERATIONS = [
    operations.row('DescribeSecurityGroups', describe_security_groups, 'GroupIds GroupNames' + operations.PAGED),
    operations.row('DescribeSecurityGroupRules', describe_security_group_rules,
                   'SecurityGroupRuleIds' + operations.PAGED),
    operations.row('CreateSecurityGroup', create_security_group, 'GroupName Description TagSpecifications VpcId',
                   makes='security_group'),
    operations.row('DeleteSecurityGroup', delete_security_group, 'GroupId GroupName'),
    operations.row('AuthorizeSecurityGroupIngress', _authorize('ingress'), _RULES + ' GroupName',
                   makes='security_group_rule'),
    operations.row('AuthorizeSecurityGroupEgress', _authorize('egress'), _RULES, makes='security_group_rule'),
    operations.row('RevokeSecurityGroupIngress', _revoke('ingress'),
                   _RULES + ' GroupName SecurityGroupRuleIds'),
    operations.row('RevokeSecurityGroupEgress', _revoke('egress'), _RULES + ' SecurityGroupRuleIds'),
]
