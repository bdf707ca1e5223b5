"""Security groups in the deprecated compute API, which has only rules for incoming packets."""
import builtins
from typing import Any, cast
import uuid

from oslo_config.cfg import ConfigOpts

from nova import context as nova_context
from nova import exception
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.networks import networks
from nova.db.networks import security_groups
from nova.db.tables import network as t
from nova.db.tables.rows import SecurityGroupRulesRow
from nova.db.tables.rows import SecurityGroupsRow
from nova.network import caller_rules
from nova.network import quotas
from nova.network import group_rules


class Groups:
    """Operations on the groups of a project, or of any project (ALL_PROJECTS, for administrators).

    :param conf: the configuration
    :param api_db: the API database
    :param rules: CallerRules, the policy checks
    :param context: the caller
    """

    def __init__(self, conf: ConfigOpts, api_db: Database, rules: caller_rules.CallerRules,
                 context: nova_context.RequestContext) -> None:
        self.conf, self.api_db, self._rules, self._context = conf, api_db, rules, context

    def list(self, project_id: nova_context.Projects | str) -> builtins.list[SecurityGroupsRow]:
        """Return groups sorted by name; creates the project's default group if it is missing."""
        if nova_context.one_project(project_id):
            self.api_db.run(security_groups.ensure_default, nova_context.the_project(project_id))
        with self.api_db.reader() as conn:
            rows = networks.page(conn, t.security_groups, networks.of_project(t.security_groups, project_id),
                                 [('name', 'asc'), ('id', 'asc')], None, None)
            return self._rules.readable(conn, self._context, 'get_security_group', rows)

    def show(self, project_id: nova_context.Projects | str, ident: str) -> SecurityGroupsRow:
        with self.api_db.reader() as conn:
            row = _get(conn, project_id, ident)
            if not self._rules.allows(conn, self._context, 'get_security_group', row):
                raise exception.SecurityGroupNotFound(security_group_id=ident)
            return row

    def create(self, project_id: str, name: str, description: str) -> SecurityGroupsRow:
        """Create a group and return its row.

        :raises BadRequest: the name is reserved for the default group
        :raises QuotaExceeded:
        """
        return self.api_db.run(self._create, project_id, name, description)

    def _create(self, conn: Connection, project_id: str, name: str, description: str) -> SecurityGroupsRow:
        self._rules.check(conn, self._context, 'create_security_group', {'project_id': project_id})
        if name == security_groups.DEFAULT:
            raise exception.BadRequest('Security group default already exists in every project.')
        quotas.check(conn, self.conf, 'security_group', project_id)
        ident = str(uuid.uuid4())
        networks.insert(conn, t.security_groups, [
            {'id': ident, 'project_id': project_id, 'name': name, 'description': description}])
        security_groups.begin(conn, ident, project_id)
        return _get(conn, project_id, ident)

    def update(self, project_id: nova_context.Projects | str, ident: str, name: str,
               description: str) -> SecurityGroupsRow:
        """Update a group and return its row.

        :raises BadRequest: the default group cannot be renamed, and its name is reserved
        """
        return self.api_db.run(self._update, project_id, ident, name, description)

    def _update(self, conn: Connection, project_id: nova_context.Projects | str, ident: str, name: str,
                description: str) -> SecurityGroupsRow:
        row = _get(conn, project_id, ident)
        self._rules.check(conn, self._context, 'update_security_group', row)
        if name != row['name'] and security_groups.DEFAULT in (name, row['name']):
            raise exception.BadRequest('Security group default cannot be renamed, and its name is reserved.')
        networks.update(conn, t.security_groups, ident, {'name': name, 'description': description})
        return _get(conn, project_id, ident)

    def delete(self, project_id: nova_context.Projects | str, ident: str) -> None:
        """Delete a group; raises BadRequest (a port is in it, or it is the default group)."""
        self.api_db.run(self._delete, project_id, ident)

    def _delete(self, conn: Connection, project_id: nova_context.Projects | str, ident: str) -> None:
        networks.lock(conn, t.security_groups, ident)
        self._rules.check(conn, self._context, 'delete_security_group', _get(conn, project_id, ident))
        if security_groups.in_use(conn, ident):
            raise exception.BadRequest(exception.SecurityGroupInUse.template % {'security_group_id': ident})
        if security_groups.is_default(conn, ident):
            raise exception.BadRequest('Security group default cannot be deleted.')
        security_groups.remove(conn, ident)

    def add_rule(self, project_id: str, rule: group_rules.NewRule) -> SecurityGroupRulesRow:
        """Add a rule for incoming packets and return its row.

        :raises SecurityGroupNotFound, InvalidInput, BadRequest, QuotaExceeded:
        """
        return self.api_db.run(self._add_rule, project_id, {**rule, 'direction': 'ingress'})

    def _add_rule(self, conn: Connection, project_id: str, rule: dict[str, Any]) -> SecurityGroupRulesRow:
        locked = networks.lock(conn, t.security_groups, rule['security_group_id'])
        if locked is not None and nova_context.covers(project_id, locked['project_id']):
            quotas.check(conn, self.conf, 'security_group_rule', locked['project_id'])
        group = _get(conn, project_id, rule['security_group_id'])
        self._rules.check(conn, self._context, 'create_security_group_rule', group)
        if rule['remote_group_id']:
            _get(conn, project_id, rule['remote_group_id'])
        rule = group_rules.check_rule(rule)
        known = networks.many(conn, t.security_group_rules, [group['id']], 'security_group_id')
        if group_rules.key(rule) in map(group_rules.key, known):
            raise exception.BadRequest('This rule already exists in the group.')
        row = {**rule, 'id': str(uuid.uuid4()), 'project_id': group['project_id'], 'description': ''}
        networks.insert(conn, t.security_group_rules, [row])
        return cast('SecurityGroupRulesRow', row)          # without created_at and updated_at

    def remove_rule(self, project_id: nova_context.Projects | str, ident: str) -> None:
        """Remove a rule; raises SecurityGroupRuleNotFound."""
        self.api_db.run(self._remove_rule, project_id, ident)

    def _remove_rule(self, conn: Connection, project_id: nova_context.Projects | str, ident: str) -> None:
        row = networks.get(conn, t.security_group_rules, ident)
        if row is None or row['direction'] != 'ingress' or not nova_context.covers(
                project_id, row['project_id']):
            raise exception.SecurityGroupRuleNotFound(rule_id=ident)
        self._rules.check(conn, self._context, 'delete_security_group_rule', row)
        networks.delete(conn, t.security_group_rules, ident)


def _get(conn: Connection, project_id: nova_context.Projects | str, ident: str) -> SecurityGroupsRow:
    """Return a group of the project.

    :raises SecurityGroupNotFound: no such group in the project
    """
    row = networks.get(conn, t.security_groups, ident)
    if row is None or not nova_context.covers(project_id, row['project_id']):
        raise exception.SecurityGroupNotFound(security_group_id=ident)
    return row
