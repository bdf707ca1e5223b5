"""Projects, users, roles, role assignments and application credentials."""
from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Collection, Sequence
from typing import Any, TYPE_CHECKING, TypedDict, TypeVar, TypeVarTuple, Unpack

from oslo_db import exception as db_exc

from nova import exception
from nova import utils
from nova.db import engine
from nova.db.audit import log
from nova.db.identity import directory as queries
from nova.db.tables.rows import IdentityProjectsRow
from nova.identity import hashing as hash_pool
from nova.identity import passwords
from nova.identity import tokens
from nova.identity.embedded import password_rules

if TYPE_CHECKING:
    from nova.json_types import Json
    from nova.json_types import JsonObject

Row = dict[str, Any]                     # of any kind of object (noun): user, project, role, …
Rows = list[Row]
_Args = TypeVarTuple('_Args')
_Result = TypeVar('_Result')
Projects = list[IdentityProjectsRow]

DOMAIN: dict[str, Any] = {'id': 'default', 'name': 'Default', 'description': 'The default domain', 'enabled': True}

MOST_CREDENTIALS = 200    # application credentials of a user

SYSTEM = 'all'            # the system as target of a role and as scope of a token

# Each role implies the next one; service is independent.
LADDER = ('admin', 'manager', 'member', 'reader')
ROLES = (*LADDER, 'service')
IMPLIED = {role: LADDER[place + 1:] for place, role in enumerate(LADDER)}


def is_domain(id: str | None = None, name: str | None = None) -> bool:
    """Return True if an ID or name (case-insensitive) is that of the only domain."""
    return id == DOMAIN['id'] if id is not None else (name or '').lower() == DOMAIN['name'].lower()


def expand(held_ids: Collection[str], roles: Rows) -> Rows:
    """Return the effective rows of ``roles`` for these IDs, including implied roles."""
    held = {role['name'] for role in roles if role['id'] in held_ids}
    names = held.union(*(IMPLIED.get(name, ()) for name in held))
    return [role for role in roles if role['name'] in names]


class UserValues(TypedDict, total=False):
    """Changed values of a user."""

    name: str
    password: str | None
    description: str | None
    email: str | None
    enabled: bool
    default_project_id: str | None
    options: JsonObject


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
        """Hook that is called after every change."""

    def write(self, function: Callable[[engine.Connection, Unpack[_Args]], _Result], *args: *_Args,
              noun: str = 'row', name: str = '') -> _Result:
        """Run ``function(conn, …)`` in a transaction; a duplicate name becomes IdentityExists."""
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

    def find(self, noun: str, **match: str) -> Row | None:
        """Return the row that matches, or None."""
        with self.db.reader() as conn:
            return queries.get(conn, noun, **match)

    def get(self, noun: str, row_id: str) -> dict[str, Any]:
        row = self.find(noun, id=row_id)
        if row is None:
            raise exception.IdentityNotFound(noun=noun.replace('_', ' '), id=row_id)
        return row

    def list(self, noun: str, **match: str | bool) -> Rows:
        with self.db.reader() as conn:
            return queries.rows(conn, noun, None, **match)

    def _create(self, noun: str, values: dict[str, Any],
                insert: Callable[[engine.Connection, str, dict[str, Any]], None] = queries.create) -> dict[str, Any]:
        row: dict[str, Any] = {'id': uuid.uuid4().hex, 'created_at': utils.utcnow()}
        row |= {name: value for name, value in values.items() if name != 'id' or value}
        log.about(row['id'])
        self.write(insert, noun, row, noun=noun, name=row['name'])
        return row

    def _update(self, noun: str, row_id: str, values: dict[str, Any],
                prepare: Callable[[engine.Connection, dict[str, Any]], None] | None = None) -> dict[str, Any]:
        """Update a row.

        :param prepare: function(conn, previous row), called in the same transaction
        """
        def change(conn: engine.Connection) -> dict[str, Any]:
            row = queries.get(conn, noun, id=row_id)
            if row is None:
                raise exception.IdentityNotFound(noun=noun, id=row_id)
            if prepare is not None:
                prepare(conn, row)
            if values:
                queries.update(conn, noun, row_id, values)
            return row | values
        return self.write(change, noun=noun, name=values.get('name', ''))

    def _delete(self, noun: str, function: Callable[[engine.Connection, str], bool], row_id: str) -> None:
        if not self.write(function, row_id):
            raise exception.IdentityNotFound(noun=noun.replace('_', ' '), id=row_id)

    # ---- projects

    def create_project(self, name: str, *, description: str = '', enabled: bool = True, tags: Sequence[str] = (),
                       project_id: str | None = None) -> dict[str, Any]:
        return self._create('project', {
            'id': project_id, 'domain_id': DOMAIN['id'], 'name': name, 'description': description,
            'enabled': enabled, 'tags': list(tags)})

    def update_project(self, project_id: str, **values: Json) -> dict[str, Any]:
        return self._update('project', project_id, values)

    def delete_project(self, project_id: str) -> None:
        self._delete('project', queries.delete_project, project_id)

    def projects_of(self, user_id: str) -> Projects:
        """Return the enabled projects on which the user has a role."""
        with self.db.reader() as conn:
            return queries.projects_of(conn, user_id)

    # ---- users

    def create_user(self, name: str, password: str | None = None, *, description: str | None = None,
                    email: str | None = None, enabled: bool = True, default_project_id: str | None = None,
                    options: dict[str, Any] | None = None, user_id: str | None = None) -> dict[str, Any]:
        """Create a user. Without a password the user cannot log in.

        :raises PasswordRefused: the password violates the rules
        """
        if password is not None:
            self.rules.check(password)
        return self._create('user', {
            'id': user_id, 'domain_id': DOMAIN['id'], 'name': name, 'description': description,
            'email': email, 'enabled': enabled, 'default_project_id': default_project_id,
            'options': _merged({}, options or {}),
            'password_hash': None if password is None else self._hashed('', password),
            'password_expires_at': None if password is None else self.rules.expires_at()})

    def update_user(self, user_id: str, by_rules: bool = True, **given: Unpack[UserValues]) -> dict[str, Any]:
        """Update a user; a new password, or disabling, invalidates tokens.

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

        def prepare(conn: engine.Connection, user: dict[str, Any]) -> None:
            if 'password_hash' in values:
                self._remember_password(conn, user)
            if options:                  # another request may change other options
                if not queries.lock_user(conn, user_id) or (row := queries.get(conn, 'user', id=user_id)) is None:
                    raise exception.IdentityNotFound(noun='user', id=user_id)
                values['options'] = _merged(row['options'] or {}, options)
        if not options:
            values.pop('options', None)
        return self._update('user', user_id, values, prepare)

    def _remember_password(self, conn: engine.Connection, user: dict[str, Any]) -> None:
        if self.rules.history > 1 and user['password_hash'] is not None:
            queries.remember_password(conn, user['id'], user['password_hash'], self.rules.history - 1)

    def delete_user(self, user_id: str) -> None:
        self._delete('user', queries.delete_user, user_id)

    # ---- roles

    def create_role(self, name: str, *, description: str | None = None, role_id: str | None = None) -> dict[str, Any]:
        return self._create('role', {'id': role_id, 'name': name, 'description': description})

    def update_role(self, role_id: str, **values: Json) -> dict[str, Any]:
        self._refuse_default(role_id)
        return self._update('role', role_id, values)

    def delete_role(self, role_id: str) -> None:
        self._refuse_default(role_id)
        self._delete('role', queries.delete_role, role_id)

    def _refuse_default(self, role_id: str) -> None:
        role = self.get('role', role_id)
        if role['name'] in ROLES:
            raise exception.Forbidden(f'The default role {role["name"]} cannot be changed.')

    # ---- role assignments

    def assign_role(self, user_id: str, role_id: str, target_type: str, target_id: str) -> None:
        """Assign a role on a project, the domain or the system.

        :param target_type: 'project', 'domain' or 'system'
        """
        self._check_assignment(user_id, role_id, target_type, target_id)
        self.write(queries.assign, user_id, target_type, target_id, role_id)

    def unassign_role(self, user_id: str, role_id: str, target_type: str, target_id: str) -> None:
        """Remove a role assignment; tokens and credentials lose the role."""
        self._check_assignment(user_id, role_id, target_type, target_id)
        if not self.write(queries.unassign, user_id, target_type, target_id, role_id):
            raise exception.IdentityNotFound(noun='role assignment', id=role_id)

    def _check_assignment(self, user_id: str, role_id: str, target_type: str, target_id: str) -> None:
        self.get('user', user_id)
        self.check_target(target_type, target_id)
        self.get('role', role_id)

    def check_target(self, target_type: str, target_id: str) -> None:
        if target_type == 'project':
            self.get('project', target_id)
        elif target_type == 'domain' and not is_domain(id=target_id):
            raise exception.IdentityNotFound(noun='domain', id=target_id)

    def held_roles(self, user_id: str, target_type: str, target_id: str) -> Rows:
        """Return the assigned roles, without implied ones."""
        self.get('user', user_id)
        self.check_target(target_type, target_id)
        with self.db.reader() as conn:
            held = queries.held_role_ids(conn, user_id, target_type, target_id)
            return queries.rows(conn, 'role', ids=held)

    def assignments(self, effective: bool = False, role_id: str | None = None, **match: str) -> Rows:
        """Return rows of queries.assignments; ``effective`` adds implied roles.

        :param match: user_id, target_type, target_id
        """
        with self.db.reader() as conn:
            rows = queries.assignments(conn, **match)
            roles = queries.rows(conn, 'role') if effective else []
        if effective:
            found = {(row['user_id'], row['target_type'], row['target_id'], role['id']):
                     row | {'role_id': role['id'], 'role_name': role['name']}
                     for row in rows for role in expand({row['role_id']}, roles)}
            rows = list(found.values())
        return [row for row in rows if role_id in (None, row['role_id'])]

    # ---- application credentials

    def create_application_credential(self, data: tokens.TokenData, name: str, *, secret: str | None = None,
                                      description: str | None = None, roles: Rows | None = None,
                                      expires_at: datetime.datetime | None = None,
                                      unrestricted: bool = False) -> tuple[dict[str, Any], str]:
        """Create a credential for the project of a token, with all or some of its roles.

        :param data: TokenData of the creator
        :param secret: None: generate one
        :param roles: rows of {'id'} or {'name'}
        :returns: (row, secret)
        :raises Forbidden: the user has too many credentials
        """
        if data.project_id is None:
            raise exception.BadRequest('An application credential needs a token that is scoped to a project.')
        if expires_at is not None and expires_at <= utils.utcnow():
            raise exception.BadRequest('expires_at must be in the future.')
        secret = secret or passwords.generate()
        row = self._create('application_credential', {
            'user_id': data.user_id, 'project_id': data.project_id, 'name': name, 'description': description,
            'secret_hash': self._hashed(data.user_id, secret), 'role_ids': _subset(data.role_rows, roles),
            'unrestricted': unrestricted, 'expires_at': expires_at}, _insert_credential)
        return row, secret

    def delete_application_credential(self, credential_id: str) -> None:
        self._delete('application_credential', queries.delete_application_credential, credential_id)


def _insert_credential(conn: engine.Connection, noun: str, row: dict[str, Any]) -> None:
    if not queries.lock_user(conn, row['user_id']):          # concurrent requests cannot exceed the limit
        raise exception.IdentityNotFound(noun='user', id=row['user_id'])
    if queries.count(conn, noun, user_id=row['user_id']) >= MOST_CREDENTIALS:
        raise exception.Forbidden(f'A user can have {MOST_CREDENTIALS} application credentials.')
    queries.create(conn, noun, row)


def _merged(options: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in (options | changes).items() if value is not None}


def _subset(held: Sequence[dict[str, Any]], wanted: Rows | None) -> list[str]:
    """Return the IDs of the requested roles; each must be in ``held``."""
    if not wanted:
        return [role['id'] for role in held]
    chosen = []
    for role in wanted:
        key = 'id' if 'id' in role else 'name'
        found = next((row['id'] for row in held if row[key] == role.get(key)), None)
        if found is None:
            raise exception.BadRequest('A role of the application credential is not one of your roles.')
        chosen.append(found)
    return chosen
