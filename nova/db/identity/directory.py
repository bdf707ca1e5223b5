"""Queries of the embedded identity service: projects, users, roles, credentials, trusts, revocations.

The functions take an open connection of the API database and return plain dicts.
"""
from __future__ import annotations

from collections.abc import Collection
from collections.abc import Mapping
import datetime
from typing import Any, Generic, TYPE_CHECKING, TypedDict, TypeVar
import uuid

import sqlalchemy as sa

from nova import utils
from nova.db import engine
from nova.db import statements
from nova.db.identity import assignments
from nova.db.tables import identity as tables

if TYPE_CHECKING:
    from nova.db.tables.rows import IdentityProjectEndpointsRow
    from nova.db.tables.rows import IdentityProjectsRow
    from nova.db.types import ColumnValues
    from nova.db.types import Table

NOUNS: dict[str, Table[Any]] = {}


class Row(TypedDict):
    """Columns that every resource type has."""

    id: str
    created_at: datetime.datetime


RowT = TypeVar('RowT', bound=Row)


class Noun(str, Generic[RowT]):
    """Name of a resource type; the type parameter is the type of its rows."""


def _noun(name: str, table: Table[RowT]) -> Noun[RowT]:
    NOUNS[name] = table
    return Noun(name)


DOMAIN = _noun('domain', tables.identity_domains)
POLICY = _noun('policy', tables.identity_policies)
PROJECT = _noun('project', tables.identity_projects)
USER = _noun('user', tables.identity_users)
ROLE = _noun('role', tables.identity_roles)
APPLICATION_CREDENTIAL = _noun('application_credential', tables.identity_application_credentials)
CREDENTIAL = _noun('credential', tables.identity_credentials)
ACCESS_RULE = _noun('access_rule', tables.identity_access_rules)
TRUST = _noun('trust', tables.identity_trusts)
GROUP = _noun('group', tables.identity_groups)
REGION = _noun('region', tables.identity_regions)
SERVICE = _noun('service', tables.identity_services)
ENDPOINT = _noun('endpoint', tables.identity_endpoints)
ENDPOINT_GROUP = _noun('endpoint_group', tables.identity_endpoint_groups)
REGISTERED_LIMIT = _noun('registered_limit', tables.identity_registered_limits)
LIMIT = _noun('limit', tables.identity_limits)


def get(conn: sa.Connection, noun: Noun[RowT], **match: object) -> RowT | None:
    """Return the only row of a resource type that has the column values ``match``, or None."""
    return statements.first(conn, NOUNS[noun], **match)


def rows(conn: sa.Connection, noun: Noun[RowT], ids: Collection[str] | None = None, **match: object) -> list[RowT]:
    """Return the rows of a resource type with these ``ids`` and the column values ``match``, oldest first."""
    table = NOUNS[noun]
    query = sa.select(table).filter_by(**match).order_by(table.c.created_at, table.c.id)
    if ids is not None:
        query = query.where(table.c.id.in_(ids))
    return statements.dicts(conn.execute(query))


def create(conn: sa.Connection, noun: str, values: Row | ColumnValues) -> None:
    conn.execute(NOUNS[noun].insert().values(**values))


def update(conn: sa.Connection, noun: str, row_id: str, values: ColumnValues) -> bool:
    """Update a row; return whether it exists."""
    table = NOUNS[noun]
    return bool(conn.execute(table.update().where(table.c.id == row_id).values(**values)).rowcount)


def count(conn: sa.Connection, noun: str, **match: object) -> int:
    return conn.execute(sa.select(sa.func.count()).select_from(NOUNS[noun]).filter_by(**match)).scalar_one()


def enabled_projects(conn: sa.Connection, ids: Collection[str]) -> set[str]:
    """Return the subset of ``ids`` that are enabled projects of enabled domains."""
    table = tables.identity_projects
    return set(conn.execute(sa.select(table.c.id).where(table.c.id.in_(sorted(ids)), *_USABLE)).scalars())


_DISABLED = sa.select(tables.identity_domains.c.id).where(sa.not_(tables.identity_domains.c.enabled))
_USABLE = (tables.identity_projects.c.enabled, tables.identity_projects.c.domain_id.not_in(_DISABLED))


def delete_domain(conn: sa.Connection, domain_id: str) -> bool:
    """Remove a domain with its users, groups, projects and roles; return False if it does not exist."""
    for noun, remove in (('project', delete_project), ('user', delete_user), ('group', delete_group),
                         ('role', delete_role)):
        for row in rows(conn, Noun[Row](noun), domain_id=domain_id):
            remove(conn, row['id'])
    for kind in ('domain', 'below_domain'):
        assignments.delete_of(conn, target_type=kind, target_id=domain_id)
    statements.delete(conn, tables.identity_limits, domain_id=domain_id)
    return delete(conn, 'domain', domain_id)


def revoke_tokens_of_domain(conn: sa.Connection, domain_id: str, now: datetime.datetime) -> None:
    """Revoke the tokens of all users of a domain."""
    users = tables.identity_users
    conn.execute(users.update().where(users.c.domain_id == domain_id).values(tokens_revoked_until=now))


def delete_project(conn: sa.Connection, project_id: str) -> bool:
    """Remove a project, the roles on it, its credentials, trusts and limits; return False if it does not exist."""
    for kind in ('project', 'below_project'):
        assignments.delete_of(conn, target_type=kind, target_id=project_id)
    for table in (tables.identity_trusts, tables.identity_limits, tables.identity_project_endpoints):
        statements.delete(conn, table, project_id=project_id)
    credentials, users = tables.identity_application_credentials, tables.identity_users
    conn.execute(credentials.delete().where(credentials.c.project_id == project_id))
    conn.execute(users.update().where(users.c.default_project_id == project_id)
                 .values(default_project_id=None))
    others = tables.identity_credentials
    conn.execute(others.delete().where(others.c.project_id == project_id, others.c.type == 'ec2'))
    # keep other credentials without the project, because users need them to log in
    conn.execute(others.update().where(others.c.project_id == project_id).values(project_id=None))
    return delete(conn, 'project', project_id)


def project_limits(conn: sa.Connection, project_id: str, registered_ids: Collection[str]) -> dict[str, int]:
    """Return {id of a registered limit: limit of the project} for the registered limits that the project overrides."""
    table = tables.identity_limits
    return {row.registered_limit_id: row.resource_limit for row in conn.execute(
        sa.select(table.c.registered_limit_id, table.c.resource_limit).where(
            table.c.project_id == project_id, table.c.registered_limit_id.in_(registered_ids)))}


def set_project_limit(conn: sa.Connection, project_id: str, registered_id: str, limit: int) -> None:
    """Set the limit by which a project overrides a registered limit."""
    table = tables.identity_limits
    mine = sa.and_(table.c.project_id == project_id, table.c.registered_limit_id == registered_id)
    if not conn.execute(table.update().where(mine).values(resource_limit=limit)).rowcount:
        engine.insert_ignore(conn, table, {
            'id': uuid.uuid4().hex, 'registered_limit_id': registered_id, 'project_id': project_id, 'domain_id': '',
            'resource_limit': limit, 'created_at': utils.utcnow()})


def delete_project_limit(conn: sa.Connection, project_id: str, registered_id: str) -> None:
    statements.delete(conn, tables.identity_limits, project_id=project_id, registered_limit_id=registered_id)


def project_endpoints(conn: sa.Connection, **match: str) -> list[IdentityProjectEndpointsRow]:
    """Return rows with the column values ``match`` that associate endpoints or endpoint groups with projects."""
    return statements.rows(conn, tables.identity_project_endpoints, (), **match)


def add_project_endpoint(conn: sa.Connection, project_id: str, kind: str, target_id: str) -> None:
    """Associate an endpoint or endpoint group with a project; idempotent."""
    engine.insert_ignore(conn, tables.identity_project_endpoints, {
        'project_id': project_id, 'kind': kind, 'target_id': target_id})


def delete_project_endpoints(conn: sa.Connection, **match: str) -> None:
    statements.delete(conn, tables.identity_project_endpoints, **match)


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
    """Remove a user with all dependent rows; return False if the user does not exist."""
    assignments.delete_of(conn, user_id=user_id)
    for table in (tables.identity_memberships, tables.identity_passwords, tables.identity_application_credentials,
                  tables.identity_credentials, tables.identity_access_rules):
        statements.delete(conn, table, user_id=user_id)
    trusts = tables.identity_trusts
    conn.execute(trusts.delete().where(sa.or_(trusts.c.trustor_user_id == user_id,
                                              trusts.c.trustee_user_id == user_id)))
    return delete(conn, 'user', user_id)


def delete_role(conn: sa.Connection, role_id: str) -> bool:
    """Remove a role, its assignments and inference rules; return False if it does not exist."""
    assignments.delete_of(conn, role_id=role_id)
    assignments.delete_rules(conn, role_id)
    return delete(conn, 'role', role_id)


def delete(conn: sa.Connection, noun: str, row_id: str) -> bool:
    """Delete a row; return False if it does not exist."""
    return bool(statements.delete(conn, NOUNS[noun], id=row_id))


def delete_group(conn: sa.Connection, group_id: str) -> bool:
    """Remove a group with its roles and memberships; return False if it does not exist."""
    assignments.delete_of(conn, group_id=group_id)
    assignments.delete_memberships(conn, group_id=group_id)
    return delete(conn, 'group', group_id)


def delete_matching(conn: sa.Connection, noun: str, **match: str) -> None:
    statements.delete(conn, NOUNS[noun], **match)


def lock(conn: sa.Connection, noun: str, row_id: str) -> bool:
    """Lock a row until the transaction ends; return False if it does not exist."""
    table = NOUNS[noun]
    return conn.execute(sa.select(table.c.id).where(table.c.id == row_id).with_for_update()).first() is not None


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


def below(conn: sa.Connection, project_ids: Collection[str]) -> list[IdentityProjectsRow]:
    """Return the descendants of these projects, nearest first."""
    table = tables.identity_projects
    found: list[IdentityProjectsRow] = []
    level = sorted(project_ids)
    while level:
        rows = statements.dicts(conn.execute(sa.select(table).where(table.c.parent_id.in_(level))
                                             .order_by(table.c.created_at, table.c.id)))
        found += rows
        level = [row['id'] for row in rows]
    return found


def above(conn: sa.Connection, project: IdentityProjectsRow) -> list[IdentityProjectsRow]:
    """Return the ancestors of a project, nearest first."""
    found: list[IdentityProjectsRow] = []
    parent_id = project['parent_id']
    while parent_id is not None:
        row = statements.first(conn, tables.identity_projects, id=parent_id)
        if row is None:
            break
        found.append(row)
        parent_id = row['parent_id']
    return found


def projects_of(conn: sa.Connection, user_id: str) -> list[IdentityProjectsRow]:
    """Return the enabled projects of enabled domains on which a user has a role, oldest first."""
    held = assignments.held_targets(conn, user_id)
    projects = tables.identity_projects
    ids = {target_id for kind, target_id in held if kind == 'project'}
    ids |= {row['id'] for row in below(conn, [row_id for kind, row_id in held if kind == 'below_project'])}
    domains = sorted(row_id for kind, row_id in held if kind == 'below_domain')
    query = sa.select(projects).where(*_USABLE, sa.or_(
        projects.c.id.in_(sorted(ids)), projects.c.domain_id.in_(domains)))
    return statements.dicts(conn.execute(query.order_by(projects.c.created_at, projects.c.id)))


def revoke(conn: sa.Connection, audit_id: str, expires_at: datetime.datetime, now: datetime.datetime) -> None:
    """Revoke a token until ``expires_at``, and delete expired revocations."""
    table = tables.identity_revoked_tokens
    conn.execute(table.delete().where(table.c.expires_at < now))
    engine.insert_ignore(conn, table, {'audit_id': audit_id, 'expires_at': expires_at, 'revoked_at': now})


class Revocation(TypedDict, total=False):
    """A revoked token (audit_id), or a user whose tokens are revoked."""

    audit_id: str
    user_id: str
    revoked_at: datetime.datetime


def revocations(conn: sa.Connection, since: datetime.datetime | None, most: int) -> list[Revocation]:
    """Return at most ``most`` revocations since a time, newest first."""
    table, users = tables.identity_revoked_tokens, tables.identity_users
    queries = [(sa.select(table.c.audit_id, table.c.revoked_at), table.c.revoked_at),
               (sa.select(users.c.id.label('user_id'), users.c.tokens_revoked_until.label('revoked_at')),
                users.c.tokens_revoked_until)]
    found: list[Revocation] = []
    for query, at in queries:
        after = at.is_not(None) if since is None else at >= since
        found += statements.dicts(conn.execute(query.where(after).order_by(at.desc()).limit(most)))
    return sorted(found, key=lambda row: row['revoked_at'], reverse=True)[:most]


def use_trust(conn: sa.Connection, trust_id: str) -> bool:
    """Count one use of a trust with a limited number of uses; return False if no use remains."""
    table = tables.identity_trusts
    left = sa.and_(table.c.id == trust_id, table.c.remaining_uses > 0)
    return bool(conn.execute(table.update().where(left).values(remaining_uses=table.c.remaining_uses - 1)).rowcount)


def delete_expired_trusts(conn: sa.Connection, trustor_id: str, now: datetime.datetime) -> None:
    table = tables.identity_trusts
    conn.execute(table.delete().where(table.c.trustor_user_id == trustor_id, table.c.expires_at <= now))


def revoked(conn: sa.Connection, audit_id: str) -> bool:
    table = tables.identity_revoked_tokens
    return conn.execute(sa.select(table.c.audit_id).filter_by(audit_id=audit_id)).first() is not None


def ended_tokens(conn: sa.Connection, used: Mapping[str, tuple[str, datetime.datetime]]) -> set[str]:
    """Return the audit ids of the tokens in ``used`` that were revoked or have a disabled or deleted user.

    :param used: {audit id: (id of the user, last time when the token was known to be valid)}
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
