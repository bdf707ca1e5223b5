"""EC2 operations on security group rules."""
from collections.abc import Iterator
import contextlib
from typing import Any

from nova.ec2 import errors
from nova.ec2 import filters
from nova.ec2 import operations
from nova.ec2 import tags
from nova.ec2.networks import routing
from nova.ec2.networks import security_groups
from nova.json_types import JsonDocument
from nova.network import group_rules


def _wanted(req: operations.Request, given: operations.Given, direction: str) -> Iterator[dict[str, Any]]:
    """Yield the rules in a request in the form of the network service."""
    permissions = list(given.get('IpPermissions') or ())
    if given.get('IpProtocol'):
        single: dict[str, Any] = {name: value for name, value in given.items()
                                  if name in ('IpProtocol', 'FromPort', 'ToPort')}
        if given.get('CidrIp'):
            single['IpRanges'] = [{'CidrIp': given['CidrIp']}]
        permissions.append(single)
    if given.get('SourceSecurityGroupName'):
        permissions.append({'IpProtocol': security_groups.ALL, 'UserIdGroupPairs': [
            {'GroupName': given['SourceSecurityGroupName']}]})
    if not permissions:
        raise errors.missing('IpPermissions')
    for permission in permissions:
        base = {'direction': direction, **_ports(permission)}
        parts = [{'ethertype': 'IPv4', 'remote_ip_prefix': part.get('CidrIp'), 'description': part.get('Description')}
                 for part in permission.get('IpRanges') or ()]
        parts += [{'ethertype': 'IPv6', 'remote_ip_prefix': part.get('CidrIpv6'),
                   'description': part.get('Description')} for part in permission.get('Ipv6Ranges') or ()]
        parts += [{'ethertype': 'IPv6' if base.get('protocol') == 'icmpv6' else 'IPv4',
                   'remote_group_id': security_groups.group_of(
                       req, part.get('GroupId'), part.get('GroupName'))['id'],
                   'description': part.get('Description')} for part in permission.get('UserIdGroupPairs') or ()]
        if permission.get('PrefixListIds'):
            raise errors.unsupported('Prefix lists are not supported.')
        if not parts:
            raise errors.Ec2Error('InvalidParameterValue', 'A permission must have address ranges or groups.')
        for part in parts:
            yield {**base, **{name: value for name, value in part.items() if value is not None}}


def _ports(permission: dict[str, Any]) -> dict[str, Any]:
    """Return protocol and ports of a permission in the form of the network service, without fields that mean any.

    :raises Ec2Error: no protocol, or no valid range of ports
    """
    protocol = str(permission.get('IpProtocol') or '')
    first, last = permission.get('FromPort'), permission.get('ToPort')
    if not protocol:
        raise errors.missing('IpProtocol')
    if protocol == security_groups.ALL:
        return {}
    protocol = security_groups.protocol(protocol, None)
    if protocol in security_groups.ICMP:                          # FromPort is the ICMP type, ToPort the code; -1: any
        ports = {name: value for name, value in (('port_range_min', first), ('port_range_max', last))
                 if value not in (None, -1)}
    else:
        ports = _port_range(protocol, first, last)
    return {'protocol': protocol, **ports}


def _port_range(protocol: str, first: int | None, last: int | None) -> dict[str, int]:
    """Return the fields of a range of ports; {} for all ports. EC2 ignores the ports of a protocol without ports."""
    means_all = (security_groups.EVERY_PORT,) if protocol in security_groups.NEED_PORTS else (
        security_groups.EVERY_PORT, (None, None), (-1, -1), (0, 0))
    if protocol not in group_rules.WITH_PORTS or (first, last) in means_all:
        return {}
    if first is None or last is None:
        raise errors.Ec2Error('InvalidParameterValue', f'A permission for {protocol} must have FromPort and ToPort.')
    first = first or 1                                            # packets have no port 0
    if not 1 <= first <= last <= security_groups.EVERY_PORT[1]:
        raise errors.Ec2Error('InvalidParameterValue', 'FromPort and ToPort must be a range of ports. To allow all '
                                                       'ports, specify FromPort 0 and ToPort 65535.')
    return {'port_range_min': first, 'port_range_max': last}


def _authorize(direction: str) -> operations.Handler:
    def handler(req: operations.Request, given: operations.Given) -> JsonDocument:
        group = security_groups.given_group(req, given)
        found = tags.given(given.get('TagSpecifications'), 'security-group-rule')
        rules = [{**rule, 'security_group_id': group['id']} for rule in _wanted(req, given, direction)]
        made: list[dict[str, Any]] = []
        with contextlib.ExitStack() as undo:      # create all rules or none
            for rule in rules:
                made.append(_create(req, rule))
                undo.callback(routing.undo, req, 'DELETE', f'/security-group-rules/{made[-1]["id"]}')
            for rule in made:
                undo.callback(tags.forget, req, 'sgr', rule['id'])
                tags.put(req, 'sgr', rule['id'], found)
            undo.pop_all()
        return {'Return': True, 'SecurityGroupRules': _shown(req, made)}
    return handler


def _create(req: operations.Request, rule: dict[str, Any]) -> dict[str, Any]:
    try:
        return dict(req.call('network', 'POST', '/security-group-rules', {'security_group_rule': rule})[
            'security_group_rule'])
    except errors.ServiceRefused as refused:
        if refused.status == 409 and 'uota' not in refused.message:
            raise errors.Ec2Error('InvalidPermission.Duplicate', refused.message) from None
        raise


def _revoke(direction: str) -> operations.Handler:
    def handler(req: operations.Request, given: operations.Given) -> JsonDocument:
        group = security_groups.given_group(req, given)
        present = group['security_group_rules']
        chosen = []
        if given.get('SecurityGroupRuleIds'):
            wanted = req.uuids('sgr', given['SecurityGroupRuleIds'])
            chosen = [rule for rule in present if rule['id'] in wanted and rule['direction'] == direction]
            if len(chosen) < len(set(wanted)):
                raise errors.not_found('sgr', given['SecurityGroupRuleIds'][0])
        else:
            for rule in _wanted(req, given, direction):
                chosen.append(_present(present, rule))
        with contextlib.ExitStack() as undo:      # revoke all rules or none; a restored rule has a new ID
            for rule in {rule['id']: rule for rule in chosen}.values():
                with errors.ignored(404):                # another request has revoked the rule
                    req.call('network', 'DELETE', f'/security-group-rules/{rule["id"]}')
                    undo.callback(routing.undo, req, 'POST', '/security-group-rules', {'security_group_rule': {
                        name: rule[name] for name in _CREATED if rule.get(name) is not None}})
                tags.forget(req, 'sgr', rule['id'])
            undo.pop_all()
        return {'Return': True}
    return handler


def _describe(direction: str) -> operations.Handler:
    """Return a handler that sets descriptions of rules; an omitted description is removed."""
    def handler(req: operations.Request, given: operations.Given) -> JsonDocument:
        group = security_groups.given_group(req, given)
        present = [rule for rule in group['security_group_rules'] if rule['direction'] == direction]
        wanted: dict[str, str] = {}
        for part in given.get('SecurityGroupRuleDescriptions') or ():
            rule_id = req.uuid('sgr', part.get('SecurityGroupRuleId') or '')
            if rule_id not in {rule['id'] for rule in present}:
                raise errors.not_found('sgr', part['SecurityGroupRuleId'])
            wanted[rule_id] = part.get('Description') or ''
        if given.get('IpPermissions') or not wanted:
            for rule in _wanted(req, given, direction):
                wanted[_present(present, rule)['id']] = rule.get('description') or ''
        _put(req, {rule_id: {'description': text} for rule_id, text in wanted.items()})  # after all rules were found
        return {'Return': True}
    return handler


def modify_security_group_rules(req: operations.Request, given: operations.Given) -> JsonDocument:
    """Modify rules.

    :raises Ec2Error: Neutron can modify only the description
    """
    group = security_groups.given_group(req, given)
    present = {rule['id']: rule for rule in group['security_group_rules']}
    wanted: dict[str, dict[str, Any]] = {}
    for part in given['SecurityGroupRules']:
        rule = present.get(req.uuid('sgr', part['SecurityGroupRuleId']))
        if rule is None:
            raise errors.not_found('sgr', part['SecurityGroupRuleId'])
        change = part.get('SecurityGroupRule') or {}
        permission = {**{name: change[name] for name in ('IpProtocol', 'FromPort', 'ToPort') if name in change},
                      'IpRanges': [{'CidrIp': change['CidrIpv4']}] if change.get('CidrIpv4') else [],
                      'Ipv6Ranges': [{'CidrIpv6': change['CidrIpv6']}] if change.get('CidrIpv6') else [],
                      'UserIdGroupPairs': [{'GroupId': change['ReferencedGroupId']}] if change.get(
                          'ReferencedGroupId') else [],
                      'PrefixListIds': [change['PrefixListId']] if change.get('PrefixListId') else []}
        parts = list(_wanted(req, {'IpPermissions': [permission]}, rule['direction']))
        if len(parts) != 1:
            raise errors.Ec2Error('InvalidParameterCombination', 'A rule has one address range or group.')
        wanted[rule['id']] = {'description': change.get('Description') or ''}
        if not _same(rule, parts[0]):
            if not req.own_network:
                raise errors.unsupported('The network service of this cloud can modify only the description of a rule: '
                                         'revoke it and authorize another one.')
            wanted[rule['id']] |= {name: parts[0].get(name) for name in _CHANGED}
    _put(req, wanted)
    return {'Return': True}


def _put(req: operations.Request, wanted: dict[str, dict[str, Any]]) -> None:
    """Change rules.

    :param wanted: {UUID: fields of the network service}
    """
    for rule_id, values in wanted.items():
        with errors.OnStatus((404, 405, 501), lambda _refused: errors.unsupported(             # Neutron cannot
                'The network service of this cloud cannot modify rules.')), errors.OnStatus(
                409, lambda refused: errors.Ec2Error('InvalidPermission.Duplicate', refused.message)):
            req.call('network', 'PUT', f'/security-group-rules/{rule_id}', {'security_group_rule': values})


def _present(present: list[dict[str, Any]], rule: dict[str, Any]) -> dict[str, Any]:
    for row in present:
        if _same(row, rule):
            return row
    raise errors.Ec2Error('InvalidPermission.NotFound', 'The group has no such rule.')


_CHANGED = ('ethertype', 'protocol', 'port_range_min', 'port_range_max', 'remote_ip_prefix', 'remote_group_id')
_CREATED = (*_CHANGED, 'remote_address_group_id', 'security_group_id', 'direction', 'description')
_ANYWHERE = (None, '0.0.0.0/0', '::/0')


def _same(row: dict[str, Any], rule: dict[str, Any]) -> bool:
    protocols = [security_groups.shown_protocol(each.get('protocol'), each['ethertype']) for each in (row, rule)]
    if protocols[0] != protocols[1] or any(row[name] != rule.get(name) for name in (
            'direction', 'ethertype', 'port_range_min', 'port_range_max', 'remote_group_id')):
        return False
    here, there = row['remote_ip_prefix'], rule.get('remote_ip_prefix')
    return bool(here == there or here in _ANYWHERE and there in _ANYWHERE)


def _rule(req: operations.Request, rule: dict[str, Any], names: dict[Any, Any]) -> dict[str, Any]:
    protocol = security_groups.shown_protocol(rule['protocol'], rule['ethertype'])
    first, last = security_groups.shown_ports(protocol, rule['port_range_min'], rule['port_range_max'])
    shown: dict[str, Any] = {
        'SecurityGroupRuleId': names[rule['id']], 'GroupId': req.ids.one('sg', rule['security_group_id']),
        'GroupOwnerId': req.project_id, 'IsEgress': rule['direction'] == 'egress', 'IpProtocol': protocol,
        'FromPort': -1 if first is None else first, 'ToPort': -1 if last is None else last,
        'Description': rule.get('description') or None}
    if rule['remote_group_id']:
        shown['ReferencedGroupInfo'] = {'GroupId': req.ids.one('sg', rule['remote_group_id']), 'UserId': req.project_id}
    elif rule['ethertype'] == 'IPv6':
        shown['CidrIpv6'] = rule['remote_ip_prefix'] or '::/0'
    else:
        shown['CidrIpv4'] = rule['remote_ip_prefix'] or '0.0.0.0/0'
    return shown


def _shown(req: operations.Request, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the views of rules with their tags."""
    uuids = [rule['id'] for rule in rules]
    names, kept = req.ids.shown('sgr', uuids), tags.of(req, 'sgr', uuids)
    return [{**_rule(req, rule, names), 'Tags': kept[rule['id']]} for rule in rules]


def describe_security_group_rules(req: operations.Request, given: operations.Given) -> JsonDocument:
    rules = [rule for group in routing.groups(req) for rule in group['security_group_rules']]
    shown = filters.choose(_shown(req, rules), 'SecurityGroupRuleId', given.get('SecurityGroupRuleIds'), 'sgr')
    return filters.answer('SecurityGroupRules', shown, given, 'SecurityGroupRuleId', {
        'group-id': 'GroupId', 'security-group-rule-id': 'SecurityGroupRuleId'})


_RULES = 'GroupId IpPermissions IpProtocol FromPort ToPort CidrIp'


OPERATIONS = [
    operations.row('AuthorizeSecurityGroupIngress', _authorize('ingress'),
                   _RULES + ' GroupName SourceSecurityGroupName TagSpecifications', makes='security_group_rule'),
    operations.row('AuthorizeSecurityGroupEgress', _authorize('egress'), _RULES + ' TagSpecifications',
                   makes='security_group_rule'),
    operations.row('RevokeSecurityGroupIngress', _revoke('ingress'),
                   _RULES + ' GroupName SourceSecurityGroupName SecurityGroupRuleIds'),
    operations.row('RevokeSecurityGroupEgress', _revoke('egress'), _RULES + ' SecurityGroupRuleIds'),
    *(operations.row(f'UpdateSecurityGroupRuleDescriptions{direction.capitalize()}', _describe(direction),
                     'GroupId GroupName IpPermissions SecurityGroupRuleDescriptions')
      for direction in ('ingress', 'egress')),
    operations.row('ModifySecurityGroupRules', modify_security_group_rules, 'GroupId SecurityGroupRules'),
    operations.row('DescribeSecurityGroupRules', describe_security_group_rules,
                   'SecurityGroupRuleIds' + operations.PAGED),
]
