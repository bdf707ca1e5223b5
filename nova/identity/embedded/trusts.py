"""Trusts: a user, the trustor, delegates roles on a project to another user, the trustee."""
from __future__ import annotations

from collections.abc import Sequence
import datetime
from typing import TYPE_CHECKING

from nova import exception
from nova import utils
from nova.db import engine
from nova.db.audit import log
from nova.db.identity import directory as queries
from nova.identity import tokens
from nova.identity.embedded import domains
from nova.identity.embedded import effective_roles

if TYPE_CHECKING:
    from nova.db.tables.rows import IdentityRolesRow
    from nova.db.tables.rows import IdentityTrustsRow
    from nova.identity.embedded.directory import Directory

MAX_TRUSTS = 200                   # maximum trusts of a trustor


class Trusts:
    """Creates, reads and deletes trusts.

    :param directory: has the database and the users
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def create(self, data: tokens.TokenData, trustee_id: str, project_id: str,
               roles: Sequence[effective_roles.Reference], impersonation: bool, expires_at: datetime.datetime | None,
               remaining_uses: int | None) -> IdentityTrustsRow:
        """Create a trust of the caller.

        :param data: of the caller's token
        :param roles: the trustor must have each on the project
        :raises Forbidden: the trustor does not have a role, or has too many trusts
        :raises IdentityNotFound: unknown trustee
        """
        if expires_at is not None and expires_at <= utils.utcnow():
            raise exception.BadRequest('expires_at must be in the future.')
        self._directory.get(queries.USER, trustee_id)
        # treat an unknown project as a project on which the trustor has no role
        held = self._directory.effective_roles(data.user_id, 'project', project_id) if self._directory.find(
            queries.PROJECT, id=project_id) else []
        if data.credential is not None:          # an application credential may have fewer roles than its owner
            names = data.roles if project_id == data.project_id else ()
            held = [role for role in held if role['name'] in names]
        return self._directory.create_row(queries.TRUST, {
            'trustor_user_id': data.user_id, 'trustee_user_id': trustee_id, 'project_id': project_id,
            'role_ids': effective_roles.chosen(held, roles, lambda key: exception.Forbidden(
                f'The trustor does not have the role {key} on this project.')),
            'impersonation': impersonation, 'expires_at': expires_at, 'remaining_uses': remaining_uses}, _insert)

    def get(self, trust_id: str, user_id: str | None = None) -> IdentityTrustsRow:
        """Return a trust.

        :param user_id: must be the trustor or the trustee; None: any trust
        :raises IdentityNotFound: unknown or expired trust, or of other users
        """
        row = self._directory.find(queries.TRUST, id=trust_id)
        if row is None or is_expired(row) or user_id not in (None, row['trustor_user_id'], row['trustee_user_id']):
            raise exception.IdentityNotFound(noun='trust', id=trust_id)
        return row

    def matching(self, **match: str) -> list[IdentityTrustsRow]:
        """Return the trusts that have not expired."""
        return [row for row in self._directory.list(queries.TRUST, **match) if not is_expired(row)]

    def delete(self, trust_id: str) -> None:
        self._directory.delete_row('trust', trust_id)

    def roles(self, row: IdentityTrustsRow) -> list[IdentityRolesRow]:
        """Return the roles of a trust."""
        with self._directory.db.reader() as conn:
            return queries.rows(conn, queries.ROLE, row['role_ids'])

    def use(self, row: IdentityTrustsRow) -> None:
        """Decrease the remaining uses of a trust, if they are limited.

        :raises Unauthorized: the trust has been used as often as it may
        """
        if row['remaining_uses'] is not None:
            with log.recording(None):      # no audit record for the use: the login has a record
                if not self._directory.db.run(queries.use_trust, row['id']):
                    raise exception.Unauthorized()


def is_expired(row: IdentityTrustsRow) -> bool:
    return row['expires_at'] is not None and row['expires_at'] <= utils.utcnow()


def user_of(row: IdentityTrustsRow) -> str:
    """Return the user id for tokens of a trust: the trustor's with impersonation, otherwise the trustee's."""
    return row['trustor_user_id' if row['impersonation'] else 'trustee_user_id']


def load(conn: engine.Connection, claims: tokens.Claims, known: effective_roles.Roles,
         ) -> tuple[tokens.Trust, effective_roles.Roles]:
    """Return (trust of a token in the form of the token document, roles that it grants).

    The token becomes invalid if the trust is deleted or expires, or if the trustor loses a role of the trust. It
    also becomes invalid if the trustor or the trustee is disabled or gets a new password.

    :param known: result of ``effective_roles.known_roles``
    :raises Unauthorized: the token is not valid
    """
    row = queries.get(conn, queries.TRUST, id=claims.trust_id)
    if row is None or is_expired(row) or (user_of(row), row['project_id']) != (claims.user_id, claims.scope_id):
        raise exception.Unauthorized()
    for user_id in (row['trustor_user_id'], row['trustee_user_id']):
        user = queries.get(conn, queries.USER, id=user_id)
        if (user is None or not user['enabled']
                or user['tokens_revoked_until'] and claims.issued_at <= user['tokens_revoked_until']):
            raise exception.Unauthorized()
        domains.enabled(conn, {user['domain_id']})
    held = effective_roles.effective(conn, row['trustor_user_id'], 'project', row['project_id'], known)
    if not set(row['role_ids']) <= {role['id'] for role in held}:
        raise exception.Unauthorized()
    return ({'id': row['id'], 'impersonation': row['impersonation'],
             'trustor_user': {'id': row['trustor_user_id']}, 'trustee_user': {'id': row['trustee_user_id']}},
            effective_roles.expand(row['role_ids'], known))


def _insert(conn: engine.Connection, noun: str, row: IdentityTrustsRow) -> None:
    if not queries.lock(conn, 'user', row['trustor_user_id']):       # lock, so that concurrent requests obey the limit
        raise exception.IdentityNotFound(noun='user', id=row['trustor_user_id'])
    queries.delete_expired_trusts(conn, row['trustor_user_id'], row['created_at'])
    if queries.count(conn, noun, trustor_user_id=row['trustor_user_id']) >= MAX_TRUSTS:
        raise exception.Forbidden(f'A user can have at most {MAX_TRUSTS} trusts.')
    queries.create(conn, noun, row)
