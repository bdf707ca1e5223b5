"""Queries of the embedded identity service: projects, users, roles, assignments, credentials, revocations.

Every function takes an open connection of the API database and returns plain dicts.
"""
from __future__ import annotations

from collections.abc import Collection
from collections.abc import Mapping
import datetime
from typing import Any

import sqlalchemy as sa

from nova.db import engine
from nova.db import statements
from nova.db.tables import identity as tables

NOUNS = {
    'project': tables.identity_projects,
    'user': tables.identity_users,
    'role': tables.identity_roles,
    'application_credential': tables.identity_application_credentials,
    'credential': tables.identity_credentials,
}


def get(conn: sa.Connection, noun: str, **match: Any) -> Any:
    """The one row of a noun whose columns equal ``match``, or None."""
    return statements.first(conn, NOUNS[noun], **match)


def rows(conn: sa.Connection, noun: str, ids: Collection[Any] | None = None, **match: Any) -> list[Any]:
    """The rows of a noun, oldest first; ``ids`` narrows them to these ids, ``match`` to equal columns."""
    table = NOUNS[noun]
    query = sa.select(table).filter_by(**match).order_by(table.c.created_at, table.c.id)
    if ids is not None:
        query = query.where(table.c.id.in_(ids))
    return [dict(row) for row in conn.execute(query).mappings()]


def create(conn: sa.Connection, noun: str, values: dict[str, Any]) -> None:
    conn.execute(NOUNS[noun].insert().values(**values))


def update(conn: sa.Connection, noun: str, row_id: Any, values: dict[str, Any]) -> bool:
    """True when the row was there."""
    table = NOUNS[noun]
    return bool(conn.execute(table.update().where(table.c.id == row_id).values(**values)).rowcount)


def count(conn: sa.Connection, noun: str, **match: Any) -> Any:
    return conn.execute(sa.select(sa.func.count()).select_from(NOUNS[noun]).filter_by(**match)).scalar()


def enabled_projects(conn: sa.Connection, ids: Collection[str]) -> set[str]:
    """Those of the projects that are there and enabled."""
    table = tables.identity_projects
    return set(conn.execute(sa.select(table.c.id).where(table.c.id.in_(sorted(ids)), table.c.enabled)).scalars())


def delete_project(conn: sa.Connection, project_id: str) -> Any:
    """Remove a project, the roles held on it and the credentials bound to it; False when there is none."""
    _delete_assignments(conn, target_type='project', target_id=project_id)
    credentials, users = tables.identity_application_credentials, tables.identity_users
    conn.execute(credentials.delete().where(credentials.c.project_id == project_id))
    conn.execute(users.update().where(users.c.default_project_id == project_id)
                 .values(default_project_id=None))
    others = tables.identity_credentials
    conn.execute(others.delete().where(others.c.project_id == project_id, others.c.type == 'ec2'))
    # of a user, who goes on logging in with them
    conn.execute(others.update().where(others.c.project_id == project_id).values(project_id=None))
    return _delete(conn, 'project', project_id)


def past_passwords(conn: sa.Connection, user_id: str) -> Any:
    """Hashes of the passwords that a user had, the newest first."""
    table = tables.identity_passwords
    return list(conn.execute(sa.select(table.c.password_hash).filter_by(user_id=user_id)
                             .order_by(table.c.id.desc())).scalars())


def remember_password(conn: sa.Connection, user_id: str, password_hash: str, keep: Any) -> None:
    """Add a hash to a user's past ones, of which the newest ``keep`` are kept."""
    table = tables.identity_passwords
    conn.execute(table.insert().values(user_id=user_id, password_hash=password_hash))
    ids = list(conn.execute(sa.select(table.c.id).filter_by(user_id=user_id).order_by(table.c.id.desc())).scalars())
    conn.execute(table.delete().where(table.c.id.in_(ids[keep:])))


def delete_user(conn: sa.Connection, user_id: str) -> Any:
    """Remove a user, the roles held, the credentials owned and the past passwords; False when there is none."""
    _delete_assignments(conn, user_id=user_id)
    past = tables.identity_passwords
    conn.execute(past.delete().where(past.c.user_id == user_id))
    for credentials in (tables.identity_application_credentials, tables.identity_credentials):
        conn.execute(credentials.delete().where(credentials.c.user_id == user_id))
    return _delete(conn, 'user', user_id)


def delete_role(conn: sa.Connection, role_id: str) -> Any:
    """Remove a role from everybody who holds it; False when there is none."""
    _delete_assignments(conn, role_id=role_id)
    return _delete(conn, 'role', role_id)


def delete_application_credential(conn: sa.Connection, credential_id: str) -> Any:
    return _delete(conn, 'application_credential', credential_id)


def lock_user(conn: sa.Connection, user_id: str) -> bool:
    """Lock the row of a user until the transaction ends; False when there is none."""
    table = tables.identity_users
    return conn.execute(sa.select(table.c.id).where(table.c.id == user_id).with_for_update()).first() is not None


def delete_credential(conn: sa.Connection, credential_id: str) -> Any:
    return _delete(conn, 'credential', credential_id)


def use_totp_step(conn: sa.Connection, user_id: str, step: Any) -> bool:
    """Take the one-time code of a step; False when it, or a later one, was taken before."""
    table = tables.identity_users
    unused = sa.or_(table.c.totp_step.is_(None), table.c.totp_step < step)
    return bool(conn.execute(table.update().where(table.c.id == user_id, unused).values(totp_step=step)).rowcount)


def sealed_blobs(conn: sa.Connection, after: str, limit: int) -> list[Any]:
    """[(id, sealed blob)] of the credentials whose id is above ``after``, by id."""
    table = tables.identity_credentials
    query = sa.select(table.c.id, table.c.sealed_blob).where(table.c.id > after).order_by(table.c.id).limit(limit)
    return [tuple(row) for row in conn.execute(query)]


def replace_blob(conn: sa.Connection, credential_id: str, old: Any, new: Any) -> None:
    """Store another sealed blob in the place of the one that was read; one that has changed since stays."""
    table = tables.identity_credentials
    conn.execute(table.update().where(table.c.id == credential_id, table.c.sealed_blob == old)
                 .values(sealed_blob=new))


def _delete(conn: sa.Connection, noun: str, row_id: Any) -> bool:
    table = NOUNS[noun]
    return bool(conn.execute(table.delete().where(table.c.id == row_id)).rowcount)


def _delete_assignments(conn: sa.Connection, **match: Any) -> Any:
    table = tables.identity_assignments
    conditions = (table.c[name] == value for name, value in match.items())
    return conn.execute(table.delete().where(*conditions)).rowcount


def assign(conn: sa.Connection, user_id: str, target_type: str, target_id: str, role_id: str) -> None:
    """Give a role; giving it again changes nothing."""
    engine.insert_ignore(conn, tables.identity_assignments, {
        'user_id': user_id, 'target_type': target_type, 'target_id': target_id, 'role_id': role_id})


def unassign(conn: sa.Connection, user_id: str, target_type: str, target_id: str, role_id: str) -> bool:
    """Take a role away; False when it was not held."""
    return bool(_delete_assignments(conn, user_id=user_id, target_type=target_type, target_id=target_id,
                                    role_id=role_id))


def assignments(conn: sa.Connection, **match: Any) -> list[Any]:
    """Rows of user_id, target_type, target_id, role_id with their names.

    :param match: columns of the assignment that must be equal
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
    return [dict(row) for row in conn.execute(query).mappings()]


def held_role_ids(conn: sa.Connection, user_id: str, target_type: str, target_id: str) -> Any:
    table = tables.identity_assignments
    return set(conn.execute(sa.select(table.c.role_id).filter_by(
        user_id=user_id, target_type=target_type, target_id=target_id)).scalars())


def projects_of(conn: sa.Connection, user_id: str) -> list[Any]:
    """The enabled projects on which a user holds a role, oldest first."""
    table, projects = tables.identity_assignments, tables.identity_projects
    held = sa.select(table.c.target_id).filter_by(user_id=user_id, target_type='project')
    query = (sa.select(projects).where(projects.c.id.in_(held), projects.c.enabled)
             .order_by(projects.c.created_at, projects.c.id))
    return [dict(row) for row in conn.execute(query).mappings()]


def revoke(conn: sa.Connection, audit_id: str, forget_at: datetime.datetime, now: Any) -> None:
    """Remember that a token is void until ``forget_at``, and forget those whose time is over."""
    table = tables.identity_revoked_tokens
    conn.execute(table.delete().where(table.c.forget_at < now))
    engine.insert_ignore(conn, table, {'audit_id': audit_id, 'forget_at': forget_at})


def revoked(conn: sa.Connection, audit_id: str) -> bool:
    table = tables.identity_revoked_tokens
    return conn.execute(sa.select(table.c.audit_id).filter_by(audit_id=audit_id)).first() is not None


def ended_tokens(conn: sa.Connection, used: Mapping[str, tuple[str, datetime.datetime]]) -> set[str]:
    """The audit ids of tokens that were good once, and have been made void since.

    :param used: audit id: (id of the user, when the token was good)
    """
    table, users = tables.identity_revoked_tokens, tables.identity_users
    ended = set(conn.execute(sa.select(table.c.audit_id).where(table.c.audit_id.in_(sorted(used)))).scalars())
    columns = sa.select(users.c.id, users.c.enabled, users.c.tokens_void_until)
    found = {row.id: row for row in conn.execute(columns.where(users.c.id.in_({user for user, _at in used.values()})))}
    for audit_id, (user_id, at) in used.items():
        user = found.get(user_id)
        if user is None or not user.enabled or user.tokens_void_until and at <= user.tokens_void_until:
            ended.add(audit_id)
    return ended
