"""Queries of the embedded identity service: projects, users, roles, assignments, credentials, revocations.

The functions take an open connection of the API database and return plain dicts.
"""
from __future__ import annotations

from collections.abc import Collection
from collections.abc import Mapping
import datetime
from typing import Any, TYPE_CHECKING

import sqlalchemy as sa

from nova.db import engine
from nova.db import statements
from nova.db.tables import identity as tables

if TYPE_CHECKING:
    from nova.db.tables.rows import IdentityProjectsRow
    from nova.db.types import ColumnValues

NOUNS = {
    'project': tables.identity_projects,
    'user': tables.identity_users,
    'role': tables.identity_roles,
    'application_credential': tables.identity_application_credentials,
    'credential': tables.identity_credentials,
}


def get(conn: sa.Connection, noun: str, **match: object) -> dict[str, Any] | None:
    """Return the only row of a resource type whose columns equal ``match``, or None."""
    return statements.first(conn, NOUNS[noun], **match)


def rows(conn: sa.Connection, noun: str, ids: Collection[str] | None = None,
         **match: object) -> list[dict[str, Any]]:
    """Return the rows of a resource type, oldest first, with these ``ids`` and with columns equal to ``match``."""
    table = NOUNS[noun]
    query = sa.select(table).filter_by(**match).order_by(table.c.created_at, table.c.id)
    if ids is not None:
        query = query.where(table.c.id.in_(ids))
    return statements.dicts(conn.execute(query))


def create(conn: sa.Connection, noun: str, values: ColumnValues) -> None:
    conn.execute(NOUNS[noun].insert().values(**values))


def update(conn: sa.Connection, noun: str, row_id: str, values: ColumnValues) -> bool:
    """Update a row; return whether it exists."""
    table = NOUNS[noun]
    return bool(conn.execute(table.update().where(table.c.id == row_id).values(**values)).rowcount)


def count(conn: sa.Connection, noun: str, **match: object) -> int:
    return conn.execute(sa.select(sa.func.count()).select_from(NOUNS[noun]).filter_by(**match)).scalar_one()


def enabled_projects(conn: sa.Connection, ids: Collection[str]) -> set[str]:
    """Return the ids of the existing and enabled projects."""
    table = tables.identity_projects
    return set(conn.execute(sa.select(table.c.id).where(table.c.id.in_(sorted(ids)), table.c.enabled)).scalars())


def delete_project(conn: sa.Connection, project_id: str) -> bool:
    """Remove a project, the roles on it and its credentials; return False if it does not exist."""
    _delete_assignments(conn, target_type='project', target_id=project_id)
    credentials, users = tables.identity_application_credentials, tables.identity_users
    conn.execute(credentials.delete().where(credentials.c.project_id == project_id))
    conn.execute(users.update().where(users.c.default_project_id == project_id)
                 .values(default_project_id=None))
    others = tables.identity_credentials
    conn.execute(others.delete().where(others.c.project_id == project_id, others.c.type == 'ec2'))
    # the other credentials are for the login of their users, who keep them without the project
    conn.execute(others.update().where(others.c.project_id == project_id).values(project_id=None))
    return _delete(conn, 'project', project_id)


def past_passwords(conn: sa.Connection, user_id: str) -> list[str]:
    """Return the hashes of a user's former passwords, newest first."""
    table = tables.identity_passwords
    return list(conn.execute(sa.select(table.c.password_hash).filter_by(user_id=user_id)
                             .order_by(table.c.id.desc())).scalars())


def remember_password(conn: sa.Connection, user_id: str, password_hash: str, keep: int) -> None:
    """Add a hash to a user's former passwords and keep the newest ``keep``."""
    table = tables.identity_passwords
    conn.execute(table.insert().values(user_id=user_id, password_hash=password_hash))
    ids = list(conn.execute(sa.select(table.c.id).filter_by(user_id=user_id).order_by(table.c.id.desc())).scalars())
    conn.execute(table.delete().where(table.c.id.in_(ids[keep:])))


def delete_user(conn: sa.Connection, user_id: str) -> bool:
    """Remove a user with roles, credentials and former passwords; return False if the user does not exist."""
    _delete_assignments(conn, user_id=user_id)
    past = tables.identity_passwords
    conn.execute(past.delete().where(past.c.user_id == user_id))
    for credentials in (tables.identity_application_credentials, tables.identity_credentials):
        conn.execute(credentials.delete().where(credentials.c.user_id == user_id))
    return _delete(conn, 'user', user_id)


def delete_role(conn: sa.Connection, role_id: str) -> bool:
    """Remove a role and its assignments; return False if it does not exist."""
    _delete_assignments(conn, role_id=role_id)
    return _delete(conn, 'role', role_id)


def delete_application_credential(conn: sa.Connection, credential_id: str) -> bool:
    return _delete(conn, 'application_credential', credential_id)


def lock_user(conn: sa.Connection, user_id: str) -> bool:
    """Lock the row of a user until the transaction ends; return False if it does not exist."""
    table = tables.identity_users
    return conn.execute(sa.select(table.c.id).where(table.c.id == user_id).with_for_update()).first() is not None


def delete_credential(conn: sa.Connection, credential_id: str) -> bool:
    return _delete(conn, 'credential', credential_id)


def use_totp_step(conn: sa.Connection, user_id: str, step: int) -> bool:
    """Use the one-time code of a time step; return False if the code of this or a later step was used before."""
    table = tables.identity_users
    unused = sa.or_(table.c.totp_step.is_(None), table.c.totp_step < step)
    return bool(conn.execute(table.update().where(table.c.id == user_id, unused).values(totp_step=step)).rowcount)


def encrypted_blobs(conn: sa.Connection, after: str, limit: int) -> list[tuple[str, str]]:
    """Return [(id, encrypted blob)] of the credentials with an id above ``after``, by id."""
    table = tables.identity_credentials
    query = sa.select(table.c.id, table.c.encrypted_blob).where(table.c.id > after).order_by(table.c.id).limit(limit)
    return [tuple(row) for row in conn.execute(query)]


def replace_blob(conn: sa.Connection, credential_id: str, old: str, new: str) -> None:
    """Replace an encrypted blob unless it has changed since it was read."""
    table = tables.identity_credentials
    conn.execute(table.update().where(table.c.id == credential_id, table.c.encrypted_blob == old)
                 .values(encrypted_blob=new))


def _delete(conn: sa.Connection, noun: str, row_id: str) -> bool:
    table = NOUNS[noun]
    return bool(conn.execute(table.delete().where(table.c.id == row_id)).rowcount)


def _delete_assignments(conn: sa.Connection, **match: str) -> int:
    table = tables.identity_assignments
    conditions = (table.c[name] == value for name, value in match.items())
    return conn.execute(table.delete().where(*conditions)).rowcount


def assign(conn: sa.Connection, user_id: str, target_type: str, target_id: str, role_id: str) -> None:
    """Assign a role; repeating it has no effect."""
    engine.insert_ignore(conn, tables.identity_assignments, {
        'user_id': user_id, 'target_type': target_type, 'target_id': target_id, 'role_id': role_id})


def unassign(conn: sa.Connection, user_id: str, target_type: str, target_id: str, role_id: str) -> bool:
    """Remove an assignment; return False if it does not exist."""
    return bool(_delete_assignments(conn, user_id=user_id, target_type=target_type, target_id=target_id,
                                    role_id=role_id))


def assignments(conn: sa.Connection, **match: str) -> list[dict[str, Any]]:
    """Return rows of user_id, target_type, target_id and role_id, with the names of users, targets and roles.

    :param match: {column: value} that the assignments must have
    """
    table = tables.identity_assignments
    projects, users, roles = tables.identity_projects, tables.identity_users, tables.identity_roles
    query = (sa.select(table, users.c.name.label('user_name'), projects.c.name.label('project_name'),
                       roles.c.name.label('role_name'))
             .join(users, users.c.id == table.c.user_id)
             .join(roles, roles.c.id == table.c.role_id)
             .outerjoin(projects, sa.and_(table.c.target_type == 'project',
                                          projects.c.id == table.c.target_id))
             .where(*(table.c[name] == value for name, value in match.items()))
             .order_by(table.c.user_id, table.c.target_type, table.c.target_id, table.c.role_id))
    return statements.dicts(conn.execute(query))


def held_role_ids(conn: sa.Connection, user_id: str, target_type: str, target_id: str) -> set[str]:
    table = tables.identity_assignments
    return set(conn.execute(sa.select(table.c.role_id).filter_by(
        user_id=user_id, target_type=target_type, target_id=target_id)).scalars())


def projects_of(conn: sa.Connection, user_id: str) -> list[IdentityProjectsRow]:
    """Return the enabled projects on which a user has a role, oldest first."""
    table, projects = tables.identity_assignments, tables.identity_projects
    held = sa.select(table.c.target_id).filter_by(user_id=user_id, target_type='project')
    query = (sa.select(projects).where(projects.c.id.in_(held), projects.c.enabled)
             .order_by(projects.c.created_at, projects.c.id))
    return statements.dicts(conn.execute(query))


def revoke(conn: sa.Connection, audit_id: str, expires_at: datetime.datetime, now: datetime.datetime) -> None:
    """Revoke a token until ``expires_at``, and delete expired revocations."""
    table = tables.identity_revoked_tokens
    conn.execute(table.delete().where(table.c.expires_at < now))
    engine.insert_ignore(conn, table, {'audit_id': audit_id, 'expires_at': expires_at})


def revoked(conn: sa.Connection, audit_id: str) -> bool:
    table = tables.identity_revoked_tokens
    return conn.execute(sa.select(table.c.audit_id).filter_by(audit_id=audit_id)).first() is not None


def ended_tokens(conn: sa.Connection, used: Mapping[str, tuple[str, datetime.datetime]]) -> set[str]:
    """Return the audit ids of those tokens that were valid at a recorded time and have been revoked since.

    :param used: audit id: (id of the user, time when the token was valid)
    """
    table, users = tables.identity_revoked_tokens, tables.identity_users
    ended = set(conn.execute(sa.select(table.c.audit_id).where(table.c.audit_id.in_(sorted(used)))).scalars())
    columns = sa.select(users.c.id, users.c.enabled, users.c.tokens_revoked_until)
    found = {row.id: row for row in conn.execute(columns.where(users.c.id.in_({user for user, _at in used.values()})))}
    for audit_id, (user_id, at) in used.items():
        user = found.get(user_id)
        if user is None or not user.enabled or user.tokens_revoked_until and at <= user.tokens_revoked_until:
            ended.add(audit_id)
    return ended
