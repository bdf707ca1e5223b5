"""Legacy rule names of policy files, and the rules that replace them.

An operation of the older API could check two rules: a core rule (``compute:``) and an extension rule
(``compute_extension:``). Both rules had to pass, so their checks are joined by "and". If a file has only the core rule,
the check of the extension is unknown. The core rule is then joined with the current default by "and", so it can only
restrict the default.

``compute:get_all_tenants`` is omitted on purpose. Older files permit it to everybody, because the older API also
checked in code that the caller is an administrator.
"""
from __future__ import annotations

from collections.abc import Mapping
import functools
import re

CORE, EXTENSION = 'compute:', 'compute_extension:'
ALL = ':*'          # suffix that means all rules of an extension except those in policies.EXTRAS
_S, _O = 'os_compute_api:servers:', 'os_compute_api:os-'


def _hyphenated(name: str) -> str:
    """Replace the underscores in the extension part of a legacy name by hyphens, as in current rule names."""
    extension, colon, operation = name.partition(':')
    return extension.replace('_', '-') + colon + operation


# legacy names that differ from the current rule name only in hyphens
_SAME = '''
    availability_zone:list availability_zone:detail console_auth_tokens console_output evacuate
    extended_server_attributes flavor_access floating_ip_pools instance_actions:events keypairs:index keypairs:show
    keypairs:create keypairs:delete migrations:index server_diagnostics simple_tenant_usage:show
    simple_tenant_usage:list
'''
# legacy names that cover all rules of an extension, and differ from its current name only in hyphens
_EACH = '''
    aggregates attach_interfaces baremetal_nodes deferred_delete floating_ips hosts hypervisors
    instance_usage_audit_log multinic server_groups server_password services
'''
# (legacy name without compute_extension:, current rules)
_EXTENSIONS = (
    *((name, (_O + _hyphenated(name),)) for name in _SAME.split()),
    *((name, (_O + _hyphenated(name) + ALL,)) for name in _EACH.split()),
    ('admin_actions:pause', (_O + 'pause-server:pause',)),
    ('admin_actions:unpause', (_O + 'pause-server:unpause',)),
    ('admin_actions:suspend', (_O + 'suspend-server:suspend',)),
    ('admin_actions:resume', (_O + 'suspend-server:resume',)),
    ('admin_actions:lock', (_O + 'lock-server:lock',)),
    ('admin_actions:unlock', (_O + 'lock-server:unlock',)),
    ('admin_actions:injectNetworkInfo', (_O + 'admin-actions:inject_network_info',)),
    ('admin_actions:createBackup', (_O + 'create-backup',)),
    ('admin_actions:migrateLive', (_O + 'migrate-server:migrate_live',)),
    ('admin_actions:migrate', (_O + 'migrate-server:migrate',)),
    ('admin_actions:resetState', (_O + 'admin-actions:reset_state',)),
    ('consoles', (_O + 'remote-consoles',)),
    ('flavor_access:addTenantAccess', (_O + 'flavor-access:add_tenant_access',)),
    ('flavor_access:removeTenantAccess', (_O + 'flavor-access:remove_tenant_access',)),
    ('flavorextraspecs:index', (_O + 'flavor-extra-specs:index',)),
    ('flavorextraspecs:show', (_O + 'flavor-extra-specs:show',)),
    ('flavorextraspecs:create', (_O + 'flavor-extra-specs:create',)),
    ('flavorextraspecs:update', (_O + 'flavor-extra-specs:update',)),
    ('flavorextraspecs:delete', (_O + 'flavor-extra-specs:delete',)),
    ('flavormanage', (_O + 'flavor-manage' + ALL,)),
    ('instance_actions', (_O + 'instance-actions:list', _O + 'instance-actions:show')),
    ('networks:view', (_O + 'networks' + ALL,)),
    ('os-assisted-volume-snapshots:create', (_O + 'assisted-volume-snapshots:create',)),
    ('os-assisted-volume-snapshots:delete', (_O + 'assisted-volume-snapshots:delete',)),
    ('os-server-external-events:create', (_O + 'server-external-events:create',)),
    ('os-tenant-networks', (_O + 'tenant-networks' + ALL,)),
    ('quota_classes', (_O + 'quota-class-sets' + ALL,)),
    ('quotas:show', (_O + 'quota-sets:show', _O + 'quota-sets:defaults', _O + 'quota-sets:detail')),
    ('quotas:update', (_O + 'quota-sets:update',)),
    ('quotas:delete', (_O + 'quota-sets:delete',)),
    ('rescue', (_O + 'rescue', _O + 'unrescue')),
    ('security_groups', (_O + 'security-groups' + ALL, _O + 'security-groups:rule' + ALL)),
    ('shelve', (_O + 'shelve:shelve',)),
    ('unshelve', (_O + 'shelve:unshelve',)),
    ('shelveOffload', (_O + 'shelve:shelve_offload',)),
    ('used_limits_for_admin', ('os_compute_api:limits:other_project',)),
    ('volume_attachments:index', (_O + 'volumes-attachments:index',)),
    ('volume_attachments:show', (_O + 'volumes-attachments:show',)),
    ('volume_attachments:create', (_O + 'volumes-attachments:create',)),
    ('volume_attachments:update', (_O + 'volumes-attachments:update',)),
    ('volume_attachments:delete', (_O + 'volumes-attachments:delete',)),
    ('volumes', (_O + 'volumes' + ALL, _O + 'volumes:snapshots' + ALL)),
)
# (legacy name without compute:, current rules)
_CORE = (
    *((name, (_S + name,)) for name in (
        'create', 'create:attach_network', 'create:attach_volume', 'create:forced_host', 'update', 'delete', 'start',
        'stop', 'reboot', 'rebuild', 'resize', 'confirm_resize', 'revert_resize')),
    ('get', (_S + 'show',)),
    ('get_all', (_S + 'index', _S + 'detail')),
    ('snapshot', (_S + 'create_image',)),
    ('snapshot_volume_backed', (_S + 'create_image:allow_volume_backed',)),
    ('backup', (_O + 'create-backup',)),
    ('pause', (_O + 'pause-server:pause',)),
    ('unpause', (_O + 'pause-server:unpause',)),
    ('suspend', (_O + 'suspend-server:suspend',)),
    ('resume', (_O + 'suspend-server:resume',)),
    ('lock', (_O + 'lock-server:lock',)),
    ('unlock', (_O + 'lock-server:unlock',)),
    ('unlock_override', (_O + 'lock-server:unlock:unlock_override',)),
    ('rescue', (_O + 'rescue',)),
    ('unrescue', (_O + 'unrescue',)),
    ('shelve', (_O + 'shelve:shelve',)),
    ('unshelve', (_O + 'shelve:unshelve',)),
    ('shelve_offload', (_O + 'shelve:shelve_offload',)),
    ('restore', (_O + 'deferred-delete:restore',)),
    ('force_delete', (_O + 'deferred-delete:force',)),
    ('set_admin_password', (_O + 'admin-password',)),
    ('get_console_output', (_O + 'console-output',)),
    ('get_diagnostics', (_O + 'server-diagnostics',)),
    ('get_instance_metadata', ('os_compute_api:server-metadata:index', 'os_compute_api:server-metadata:show')),
    ('update_instance_metadata', ('os_compute_api:server-metadata:create', 'os_compute_api:server-metadata:update',
                                  'os_compute_api:server-metadata:update_all')),
    ('delete_instance_metadata', ('os_compute_api:server-metadata:delete',)),
    ('attach_interface', (_O + 'attach-interfaces:create',)),
    ('detach_interface', (_O + 'attach-interfaces:delete',)),
    ('attach_volume', (_O + 'volumes-attachments:create',)),
    ('detach_volume', (_O + 'volumes-attachments:delete',)),
    ('swap_volume', (_O + 'volumes-attachments:swap',)),
    ('add_fixed_ip', (_O + 'multinic:add',)),
    ('remove_fixed_ip', (_O + 'multinic:remove',)),
    ('security_groups:add_to_instance', (_O + 'security-groups:add',)),
    ('security_groups:remove_from_instance', (_O + 'security-groups:remove',)),
)
NAMES: dict[str, tuple[str, ...]] = {
    **{EXTENSION + name: rules for name, rules in _EXTENSIONS}, **{CORE + name: rules for name, rules in _CORE}}
# rules for which the older API checked only the core rule
_CORE_ALONE = frozenset(rule for name, rules in _CORE for rule in rules if rule.startswith(_S))


@functools.cache
def _of_rules(known: frozenset[str], extras: frozenset[str]) -> dict[str, list[str]]:
    """Return {current rule: [legacy names]}; names of extension rules precede names of core rules."""
    found: dict[str, list[str]] = {}
    for name, rules in NAMES.items():
        for rule in rules:
            if rule.endswith(ALL):
                meant = [each for each in known - extras if each.rpartition(':')[0] == rule[:-len(ALL)]]
            else:
                meant = [rule]
            for each in meant:
                found.setdefault(each, []).append(name)
    return found


def text(rule: str, known: Mapping[str, str], written: Mapping[str, str],
         extras: frozenset[str]) -> tuple[str, str] | None:
    """Return (check, legacy name that sets it) of a rule, or None if the files have none of its legacy names.

    :param known: {rule: current default}
    :param written: {name: check} of the files, as text
    :param extras: rules that do not follow their extension
    """
    names = [name for name in _of_rules(frozenset(known), extras).get(rule, ()) if name in written]
    if not names:
        return None
    checks = [written[name] for name in names]
    if names[0].startswith(CORE) and rule not in _CORE_ALONE:
        checks.append(known[rule])
    checks += _bound(known[rule], known)
    return ' and '.join(f'({check or "@"})' for check in checks), names[0]


def _bound(check: str, known: Mapping[str, str]) -> list[str]:
    """Return [check that limits a rule to the caller's user or project] if the current default has this limit, or [].

    The older API enforced the limit in code, so its policy files could permit quotas and key pairs to everybody.
    """
    named = re.findall(r'rule:(\w+)', check)
    whole = ' '.join([check, *(known[name] for name in named if name in known)])
    for name in named:
        whole += ' ' + ' '.join(known.get(inner, '') for inner in re.findall(r'rule:(\w+)', known.get(name, '')))
    return [f'rule:context_is_admin or {mark}:%({mark})s' for mark in ('user_id', 'project_id')
            if f'{mark}:%({mark})s' in whole][:1]
