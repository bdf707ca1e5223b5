"""Projects, users, roles, role assignments and application credentials."""
from __future__ import annotations

import datetime
import functools
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TYPE_CHECKING, TypedDict, TypeVar, TypeVarTuple, Unpack

from oslo_db import exception as db_exc

from nova import exception
from nova import utils
from nova.db import engine
from nova.db.audit import log
from nova.db.identity import assignments
from nova.db.identity import directory as queries
from nova.db.identity.directory import Noun, Row, RowT
from nova.db.tables.rows import (
    IdentityApplicationCredentialsRow, IdentityDomainsRow, IdentityProjectsRow, IdentityRolesRow, IdentityUsersRow)
from nova.identity import hashing as hash_pool
from nova.identity import passwords
from nova.identity import tokens
from nova.identity.embedded import access_rules
from nova.identity.embedded import domains
from nova.identity.embedded import effective_roles
from nova.identity.embedded import password_rules
from nova.identity.embedded.effective_roles import Reference

if TYPE_CHECKING:
    from nova.db.types import ColumnValue
    from nova.db.types import ColumnValues
    from nova.json_types import Json
    from nova.json_types import JsonObject

Tags = list[str]
Rows = list[RowT]
_Args = TypeVarTuple('_Args')
_Result = TypeVar('_Result')
Projects = list[IdentityProjectsRow]

DOMAIN, SYSTEM, ROLES = effective_roles.DOMAIN, effective_roles.SYSTEM, effective_roles.ROLES

MAX_CREDENTIALS = 200    # maximum application credentials of a user
MAX_DEPTH = 5             # maximum levels of projects below a domain
MAX_EXTRA = 4096          # maximum bytes of the additional attributes of a resource


class UserValues(TypedDict, total=False):
    """Changed values of a user."""

    name: str
    password: str | None
    description: str | None
    email: str | None
    enabled: bool
    default_project_id: str | None
    options: JsonObject
    extra: JsonObject


class Directory:
    """Reads and changes the directory. Every change calls ``forget``, which clears token caches.

    :param db: the API database
    :param rounds: cost of new password hashes
    :param hashing: hashing.HashPool
    :param rules: password_rules.PasswordRules
    """

    def __init__(self, db: engine.Database, rounds: int, hashing: hash_pool.HashPool,
                 rules: password_rules.PasswordRules) -> None:
        self.db = db
        self.rounds = rounds
        self.hashing = hashing
        self.rules = rules

    def forget(self) -> None:
        """Do nothing; subclasses override this hook, which is called after every change."""

    def write(self, function: Callable[[engine.Connection, Unpack[_Args]], _Result], *args: *_Args,
              noun: str = 'row', name: str = '') -> _Result:
        """Run ``function(conn, …)`` in a transaction; a duplicate name raises IdentityExists."""
        try:
            result = self.db.run(function, *args)
        except db_exc.DBDuplicateEntry:
            raise exception.IdentityExists(noun=noun, name=name) from None
        self.forget()
        return result

    def _hashed(self, lane: str, secret: str) -> str:
        """Hash a secret.

        :param lane: queue of the hash pool: a user, or '' for administrators
        """
        return self.hashing.run(lane, passwords.hashed, secret, self.rounds)

    # ---- all nouns

    def find(self, noun: Noun[RowT], **match: ColumnValue) -> RowT | None:
        """Return the row that has the column values ``match``, or None."""
        with self.db.reader() as conn:
            return queries.get(conn, noun, **match)

    def get(self, noun: Noun[RowT], row_id: str) -> RowT:
        row = self.find(noun, id=row_id)
        if row is None:
            raise exception.IdentityNotFound(noun=noun.replace('_', ' '), id=row_id)
        return row

    def list(self, noun: Noun[RowT], **match: str | bool | None) -> Rows[RowT]:
        with self.db.reader() as conn:
            return queries.rows(conn, noun, None, **match)

    def create_row(self, noun: Noun[RowT], values: ColumnValues,
                   insert: Callable[[engine.Connection, str, RowT], None] = queries.create) -> RowT:
        """Create a row with a new id, unless the values have one."""
        row: Any = {'id': uuid.uuid4().hex, 'created_at': utils.utcnow()}
        row |= {name: value for name, value in values.items() if name != 'id' or value}
        log.about(row['id'])
        self.write(insert, noun, row, noun=noun, name=row.get('name') or row['id'])
        return row

    def update_row(self, noun: Noun[RowT], row_id: str, values: ColumnValues,
                   prepare: Callable[[engine.Connection, RowT], None] | None = None) -> RowT:
        """Update a row.

        :param prepare: function(conn, previous row), called in the same transaction
        """
        def change(conn: engine.Connection) -> RowT:
            row: Any = queries.get(conn, noun, id=row_id)
            if row is None:
                raise exception.IdentityNotFound(noun=noun.replace('_', ' '), id=row_id)
            if prepare is not None:
                prepare(conn, row)
            changed: dict[str, Any] = {**values}
            if 'extra' in changed:
                changed['extra'] = merged_extra(row['extra'], changed['extra'])
            if changed:
                queries.update(conn, noun, row_id, changed)
            return row | changed
        return self.write(change, noun=noun, name=str(values.get('name', '')))

    def delete_with(self, noun: str, function: Callable[[engine.Connection, str], bool], row_id: str) -> None:
        """Delete a row with ``function``, which returns False if the row does not exist."""
        if not self.write(function, row_id):
            raise exception.IdentityNotFound(noun=noun.replace('_', ' '), id=row_id)

    # ---- projects

    def create_project(self, name: str, *, description: str = '', enabled: bool = True, tags: Sequence[str] = (),
                       project_id: str | None = None, parent_id: str | None = None,
                       domain_id: str = DOMAIN['id'], extra: JsonObject | None = None) -> IdentityProjectsRow:
        """Create a project.

        :param parent_id: None or the domain: a top-level project
        :raises BadRequest: unknown parent, or of another domain
        :raises Forbidden: the parent is disabled, or the new project would be too deep
        """
        return self.create_row(queries.PROJECT, {
            'id': project_id, 'domain_id': domain_id, 'name': name, 'description': description,
            'enabled': enabled, 'tags': list(tags), 'extra': merged_extra(None, extra),
            'parent_id': None if parent_id == domain_id else parent_id}, _insert_project)

    def update_project(self, project_id: str, **values: Json) -> IdentityProjectsRow:
        """Update a project.

        :raises Forbidden: it would be disabled above an enabled project, or enabled below a disabled one
        """
        def prepare(conn: engine.Connection, row: IdentityProjectsRow) -> None:
            queries.lock(conn, 'project', project_id)
            if values.get('enabled') is False and any(child['enabled'] for child in queries.below(conn, [project_id])):
                raise exception.Forbidden(f'Cannot disable project {project_id}: a project below it is enabled.')
            if values.get('enabled') and not all(parent['enabled'] for parent in queries.above(conn, row)):
                raise exception.Forbidden(f'Cannot enable project {project_id}: a project above it is disabled.')
        return self.update_row(queries.PROJECT, project_id, values, prepare)

    def change_tags(self, project_id: str, change: Callable[[Tags], Tags]) -> Tags:
        """Replace the tags of a project by ``change(tags)`` and return them."""
        def apply(conn: engine.Connection) -> Tags:
            queries.lock(conn, 'project', project_id)
            row = queries.get(conn, queries.PROJECT, id=project_id)
            if row is None:
                raise exception.IdentityNotFound(noun='project', id=project_id)
            tags: Tags = change(row['tags'])
            queries.update(conn, 'project', project_id, {'tags': tags})
            return tags
        return self.write(apply)

    def delete_project(self, project_id: str) -> None:
        """Delete a project.

        :raises Forbidden: there are projects below it
        """
        self.delete_with('project', _delete_leaf, project_id)

    def tree(self, project_id: str) -> tuple[Projects, Projects]:
        """Return (projects above a project, nearest first; projects below it, nearest first)."""
        row = self.get(queries.PROJECT, project_id)
        with self.db.reader() as conn:
            return queries.above(conn, row), queries.below(conn, [project_id])

    def projects_of(self, user_id: str) -> Projects:
        """Return the enabled projects on which the user has a role."""
        with self.db.reader() as conn:
            return queries.projects_of(conn, user_id)

    def domains_of(self, user_id: str) -> Rows[IdentityDomainsRow]:
        """Return the enabled domains on which the user has a role."""
        with self.db.reader() as conn:
            held = sorted(assignments.held_targets(conn, user_id))
            found = [domains.find(conn, {'id': domain_id}) for kind, domain_id in held
                     if kind == 'domain' and effective_roles.effective(conn, user_id, 'domain', domain_id)]
        return [row for row in found if row is not None and row['enabled']]

    # ---- users

    def create_user(self, name: str, password: str | None = None, *, description: str | None = None,
                    email: str | None = None, enabled: bool = True, default_project_id: str | None = None,
                    options: JsonObject | None = None, user_id: str | None = None,
                    domain_id: str = DOMAIN['id'], extra: JsonObject | None = None) -> IdentityUsersRow:
        """Create a user. Without a password the user cannot log in.

        :raises PasswordRefused: the password violates the rules
        """
        if password is not None:
            self.rules.check(password)
        return self.create_row(queries.USER, {
            'id': user_id, 'domain_id': domain_id, 'name': name, 'description': description,
            'email': email, 'enabled': enabled, 'default_project_id': default_project_id,
            'options': _merged({}, options or {}), 'extra': merged_extra(None, extra),
            'password_hash': None if password is None else self._hashed('', password),
            'password_expires_at': None if password is None else self.rules.expires_at()}, _insert_in_domain)

    def update_user(self, user_id: str, by_rules: bool = True, **given: Unpack[UserValues]) -> IdentityUsersRow:
        """Update a user. A new password, or disabling the user, invalidates the user's tokens.

        :param by_rules: False for a generated password
        :param given: columns, and ``password``; ``options`` are merged, None removes an option
        :raises PasswordRefused: the password violates the rules
        """
        values: dict[str, Any] = {**given}
        if 'password' in values:
            password = values.pop('password')
            if password is not None and by_rules:
                self.rules.check(password)
            values['password_hash'] = None if password is None else self._hashed('', password)
            values['password_expires_at'] = None if password is None else self.rules.expires_at()
        if 'password_hash' in values or values.get('enabled') is False:
            values['tokens_revoked_until'] = utils.utcnow()
        options = values.get('options', {})

        def prepare(conn: engine.Connection, user: IdentityUsersRow) -> None:
            if 'password_hash' in values:
                self._remember_password(conn, user)
            if options:                  # lock: a concurrent request may change other options of the user
                row = queries.get(conn, queries.USER, id=user_id) if queries.lock(conn, queries.USER, user_id) else None
                if row is None:
                    raise exception.IdentityNotFound(noun='user', id=user_id)
                values['options'] = _merged(row['options'] or {}, options)
        if not options:
            values.pop('options', None)
        return self.update_row(queries.USER, user_id, values, prepare)

    def _remember_password(self, conn: engine.Connection, user: IdentityUsersRow) -> None:
        if self.rules.history > 1 and user['password_hash'] is not None:
            queries.remember_password(conn, user['id'], user['password_hash'], self.rules.history - 1)

    def delete_user(self, user_id: str) -> None:
        self.delete_with('user', queries.delete_user, user_id)

    # ---- roles

    def create_role(self, name: str, *, description: str | None = None, role_id: str | None = None,
                    domain_id: str | None = None, extra: JsonObject | None = None) -> IdentityRolesRow:
        """Create a role.

        :param domain_id: of a domain-specific role, which tokens do not have, but the roles that it implies
        """
        return self.create_row(queries.ROLE, {
            'id': role_id, 'name': name, 'description': description, 'domain_id': domain_id,
            'name_space': domain_id or '', 'extra': merged_extra(None, extra)}, _insert_in_domain)

    def update_role(self, role_id: str, **values: Json) -> IdentityRolesRow:
        self._refuse_default(role_id)
        return self.update_row(queries.ROLE, role_id, values)

    def delete_role(self, role_id: str) -> None:
        self._refuse_default(role_id)
        self.delete_with('role', queries.delete_role, role_id)

    def _refuse_default(self, role_id: str) -> None:
        role = self.get(queries.ROLE, role_id)
        if effective_roles.is_default(role):
            raise exception.Forbidden(f'The default role {role["name"]} cannot be changed.')

    # ---- role assignments

    def assign_role(self, actor_id: str, role_id: str, target_type: str, target_id: str, actor: str = 'user') -> None:
        """Assign a role to a user or group.

        :param target_type: 'project', 'domain', 'system', or a kind of ``effective_roles.BELOW``
        """
        self._check_assignment(actor, actor_id, role_id, target_type, target_id)
        self.write(assignments.assign, actor_id, target_type, target_id, role_id, actor)

    def unassign_role(self, actor_id: str, role_id: str, target_type: str, target_id: str,
                      actor: str = 'user') -> None:
        """Remove a role assignment. Tokens lose the role; application credentials with the role become invalid."""
        self._check_assignment(actor, actor_id, role_id, target_type, target_id)
        if not self.write(assignments.unassign, actor_id, target_type, target_id, role_id, actor):
            raise exception.IdentityNotFound(noun='role assignment', id=role_id)

    def _check_assignment(self, actor: str, actor_id: str, role_id: str, target_type: str, target_id: str) -> None:
        self.get(Noun[Row](actor), actor_id)
        self.check_target(target_type, target_id)
        role = self.get(queries.ROLE, role_id)
        if role['domain_id'] is not None and target_type == 'system':
            raise exception.Forbidden(f'Role {role["name"]} is domain-specific: it cannot be assigned on the system.')

    def check_target(self, target_type: str, target_id: str) -> None:
        if target_type in ('project', effective_roles.BELOW['project']):
            self.get(queries.PROJECT, target_id)
        elif target_type != 'system':
            self.domain(target_id)

    def domain(self, domain_id: str) -> IdentityDomainsRow:
        with self.db.reader() as conn:
            row = domains.find(conn, {'id': domain_id})
        if row is None:
            raise exception.IdentityNotFound(noun='domain', id=domain_id)
        return row

    def held_roles(self, actor_id: str, target_type: str, target_id: str,
                   actor: str = 'user') -> Rows[IdentityRolesRow]:
        """Return the roles that are directly assigned to a user or group, without implied or inherited roles."""
        self.get(Noun[Row](actor), actor_id)
        self.check_target(target_type, target_id)
        with self.db.reader() as conn:
            held = assignments.assigned_role_ids(conn, actor, actor_id, (target_type, target_id))
            return queries.rows(conn, queries.ROLE, ids=held)

    def effective_roles(self, user_id: str, target_type: str, target_id: str) -> effective_roles.Roles:
        """Return the roles that a token of a user for a target has; see ``effective_roles.effective``."""
        with self.db.reader() as conn:
            return effective_roles.effective(conn, user_id, target_type, target_id)

    # ---- application credentials

    def create_application_credential(self, data: tokens.TokenData, name: str, *, secret: str | None = None,
                                      description: str | None = None,
                                      roles: Sequence[Reference] | None = None,
                                      expires_at: datetime.datetime | None = None, unrestricted: bool = False,
                                      rules: Sequence[Mapping[str, str]] | None = None,
                                      ) -> tuple[IdentityApplicationCredentialsRow, str]:
        """Create an application credential for the project of a token, with all or some roles of the token.

        :param data: TokenData of the creator
        :param secret: None: generate one
        :param rules: access rules, rows of {'id'} or {'service', 'method', 'path'}; None: all requests are allowed
        :returns: (row, secret)
        :raises Forbidden: the user has too many credentials or access rules
        """
        if data.project_id is None:
            raise exception.BadRequest('An application credential needs a token that is scoped to a project.')
        if expires_at is not None and expires_at <= utils.utcnow():
            raise exception.BadRequest('expires_at must be in the future.')
        secret = secret or passwords.generate()
        row = self.create_row(queries.APPLICATION_CREDENTIAL, {
            'user_id': data.user_id, 'project_id': data.project_id, 'name': name, 'description': description,
            'secret_hash': self._hashed(data.user_id, secret), 'role_ids': effective_roles.chosen(
                data.role_rows, roles or data.role_rows, lambda key: exception.BadRequest(
                    'A role of the application credential is not one of your roles.')),
            'unrestricted': unrestricted, 'expires_at': expires_at}, functools.partial(_insert_credential, rules or ()))
        return row, secret

    def delete_row(self, noun: str, row_id: str) -> None:
        """Delete a row that nothing else refers to."""
        self.delete_with(noun, lambda conn, found: queries.delete(conn, noun, found), row_id)


def _insert_in_domain(conn: engine.Connection, noun: str,
                      row: IdentityProjectsRow | IdentityUsersRow | IdentityRolesRow) -> None:
    if row['domain_id'] is not None:
        domains.expect(conn, row['domain_id'])
    queries.create(conn, noun, row)


def _insert_project(conn: engine.Connection, noun: str, row: IdentityProjectsRow) -> None:
    if row['parent_id'] is not None:
        parent = (queries.get(conn, queries.PROJECT, id=row['parent_id'])
                  if queries.lock(conn, noun, row['parent_id']) else None)
        if parent is None:
            raise exception.BadRequest(f'Could not find the parent project: {row["parent_id"]}.')
        if parent['domain_id'] != row['domain_id']:
            raise exception.BadRequest(f'The parent project {parent["id"]} belongs to another domain.')
        above = [parent, *queries.above(conn, parent)]
        if not all(project['enabled'] for project in above):
            raise exception.Forbidden(f'Cannot create a project below project {parent["id"]}: it is disabled.')
        if len(above) >= MAX_DEPTH:
            raise exception.Forbidden(f'Projects can be nested in {MAX_DEPTH} levels.')
    _insert_in_domain(conn, noun, row)


def _delete_leaf(conn: engine.Connection, project_id: str) -> bool:
    queries.lock(conn, 'project', project_id)
    if queries.count(conn, 'project', parent_id=project_id):
        raise exception.Forbidden(f'Cannot delete project {project_id}: there are projects below it.')
    return queries.delete_project(conn, project_id)


def _insert_credential(rules: Sequence[Mapping[str, str]], conn: engine.Connection, noun: str,
                       row: IdentityApplicationCredentialsRow) -> None:
    if not queries.lock(conn, 'user', row['user_id']):  # lock the user, so that concurrent requests obey the limit
        raise exception.IdentityNotFound(noun='user', id=row['user_id'])
    if queries.count(conn, noun, user_id=row['user_id']) >= MAX_CREDENTIALS:
        raise exception.Forbidden(f'A user can have at most {MAX_CREDENTIALS} application credentials.')
    row['access_rule_ids'] = access_rules.ids_of(conn, row['user_id'], rules) if rules else None
    queries.create(conn, noun, row)


def merged_extra(present: JsonObject | None, changes: JsonObject | None) -> JsonObject | None:
    """Return the additional attributes after a change; an attribute with the value null is removed.

    :raises BadRequest: they are too large
    """
    extra = _merged(present or {}, changes or {})
    if len(utils.encode_json(extra)) > MAX_EXTRA:
        raise exception.BadRequest(f'The additional attributes take more than {MAX_EXTRA} bytes.')
    return extra or None


def _merged(options: JsonObject, changes: JsonObject) -> JsonObject:
    return {name: value for name, value in (options | changes).items() if value is not None}
