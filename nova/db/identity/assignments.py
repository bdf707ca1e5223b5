"""Queries of the embedded identity service: groups, role assignments and implied roles.

The functions take an open connection of the API database and return plain dicts. A target of an assignment is a pair
(target_type, target_id): see ``identity_assignments`` in ``nova/db/tables/identity.py``.
"""
from __future__ import annotations

from collections.abc import Collection
from typing import NotRequired, TypedDict

import sqlalchemy as sa

from nova.db import engine
from nova.db import statements
from nova.db.tables import identity as tables
from nova.db.tables import rows

Target = tuple[str, str]


class Role(rows.IdentityRolesRow):
    """A role with the ids of the roles that it implies directly."""

    implied: set[str]


class Actor(TypedDict):
    """A user or group with a role.

    group_id   id of the group through which a user has the role
    """

    actor: str
    actor_id: str
    actor_name: str
    actor_domain_id: str
    group_id: NotRequired[str]


class Assignment(Actor):
    """A role of an actor on a target."""

    target_type: str
    target_id: str
    role_id: str
    role_name: str

# {kind of actor: table of assignments}; the first column of each table is the actor's id
ACTORS = {'user': tables.identity_assignments, 'group': tables.identity_group_assignments}


def _actor(kind: str) -> sa.Column[str]:
    return ACTORS[kind].c[f'{kind}_id']


def _on(table: sa.Table, targets: Collection[Target]) -> sa.ColumnElement[bool]:
    """Return the condition that an assignment has one of these targets."""
    ids: dict[str, list[str]] = {}                 # one condition for each kind: SQLite limits the depth of expressions
    for kind, target_id in sorted(targets):
        ids.setdefault(kind, []).append(target_id)
    return sa.or_(sa.false(), *(sa.and_(table.c.target_type == kind, table.c.target_id.in_(found))
                                for kind, found in ids.items()))


def assign(conn: sa.Connection, actor_id: str, target_type: str, target_id: str, role_id: str,
           actor: str = 'user') -> None:
    """Assign a role; idempotent."""
    engine.insert_ignore(conn, ACTORS[actor], {
        f'{actor}_id': actor_id, 'target_type': target_type, 'target_id': target_id, 'role_id': role_id})


def unassign(conn: sa.Connection, actor_id: str, target_type: str, target_id: str, role_id: str,
             actor: str = 'user') -> bool:
    """Remove an assignment; return False if it does not exist."""
    return bool(statements.delete(conn, ACTORS[actor], target_type=target_type, target_id=target_id, role_id=role_id,
                                  **{f'{actor}_id': actor_id}))


def delete_of(conn: sa.Connection, **match: str) -> None:
    """Delete those assignments of users and groups that have the column values ``match``."""
    for table in ACTORS.values():
        if set(match) <= set(table.c.keys()):
            statements.delete(conn, table, **match)


def assigned_role_ids(conn: sa.Connection, actor: str, actor_id: str, target: Target | None = None) -> set[str]:
    """Return the ids of the roles that are assigned directly to a user or group.

    :param target: one target, or None for all targets
    """
    table = ACTORS[actor]
    query = sa.select(table.c.role_id).where(_actor(actor) == actor_id).distinct()
    return set(conn.execute(query if target is None else query.where(_on(table, [target]))).scalars())


def held_role_ids(conn: sa.Connection, user_id: str, targets: Collection[Target] | None = None) -> set[str]:
    """Return the ids of the roles that a user has on targets, directly and as a member of groups.

    :param targets: some targets, or None for all targets
    """
    users, groups, members = ACTORS['user'], ACTORS['group'], tables.identity_memberships
    direct = sa.select(users.c.role_id).where(users.c.user_id == user_id)
    through = (sa.select(groups.c.role_id).join(members, members.c.group_id == groups.c.group_id)
               .where(members.c.user_id == user_id))
    if targets is not None:
        direct, through = direct.where(_on(users, targets)), through.where(_on(groups, targets))
    return set(conn.execute(direct.union(through)).scalars())


def held_targets(conn: sa.Connection, user_id: str) -> set[Target]:
    """Return the targets on which a user has a role, directly or as a member of groups."""
    users, groups, members = ACTORS['user'], ACTORS['group'], tables.identity_memberships
    direct = sa.select(users.c.target_type, users.c.target_id).where(users.c.user_id == user_id)
    through = (sa.select(groups.c.target_type, groups.c.target_id)
               .join(members, members.c.group_id == groups.c.group_id).where(members.c.user_id == user_id))
    return {(kind, target_id) for kind, target_id in conn.execute(direct.union(through))}


def listed(conn: sa.Connection, actor: str, actor_ids: Collection[str] | None = None,
           role_ids: Collection[str] | None = None, targets: Collection[Target] | None = None, most: int = 0,
           kinds: Collection[str] | None = None) -> list[Assignment]:
    """Return the assignments of users or groups that match all other arguments.

    :param actor: 'user' or 'group'
    :param kinds: types of targets; None: all
    :param most: maximum number of rows
    """
    table, roles = ACTORS[actor], tables.identity_roles
    actors = tables.identity_users if actor == 'user' else tables.identity_groups
    query = (sa.select(_actor(actor).label('actor_id'), table.c.target_type, table.c.target_id, table.c.role_id,
                       actors.c.name.label('actor_name'), actors.c.domain_id.label('actor_domain_id'),
                       roles.c.name.label('role_name'))
             .join(actors, actors.c.id == _actor(actor)).join(roles, roles.c.id == table.c.role_id)
             .order_by(_actor(actor), table.c.target_type, table.c.target_id, table.c.role_id).limit(most))
    if actor_ids is not None:
        query = query.where(_actor(actor).in_(sorted(actor_ids)))
    if role_ids is not None:
        query = query.where(table.c.role_id.in_(sorted(role_ids)))
    if kinds is not None:
        query = query.where(table.c.target_type.in_(sorted(kinds)))
    if targets is not None:
        query = query.where(_on(table, targets))
    return [row | {'actor': actor} for row in statements.dicts(conn.execute(query))]


# ---- implied roles

def roles(conn: sa.Connection) -> list[Role]:
    """Return all roles, oldest first; ``implied`` contains the ids of the roles that stored rules imply."""
    table, rules = tables.identity_roles, tables.identity_implied_roles
    query = (sa.select(table, rules.c.implied_role_id).outerjoin(rules, rules.c.prior_role_id == table.c.id)
             .order_by(table.c.created_at, table.c.id))
    found: dict[str, Role] = {}
    for row in statements.dicts(conn.execute(query)):
        implied = row.pop('implied_role_id')
        entry = found.setdefault(row['id'], row | {'implied': set()})
        if implied is not None:
            entry['implied'].add(implied)
    return list(found.values())


def imply(conn: sa.Connection, prior_id: str, implied_id: str) -> None:
    """Add the rule that a role implies another; idempotent."""
    engine.insert_ignore(conn, tables.identity_implied_roles, {
        'prior_role_id': prior_id, 'implied_role_id': implied_id})


def unimply(conn: sa.Connection, prior_id: str, implied_id: str) -> bool:
    return bool(statements.delete(conn, tables.identity_implied_roles, prior_role_id=prior_id,
                                  implied_role_id=implied_id))


def delete_rules(conn: sa.Connection, role_id: str) -> None:
    """Delete the inference rules of a role."""
    table = tables.identity_implied_roles
    conn.execute(table.delete().where(sa.or_(table.c.prior_role_id == role_id, table.c.implied_role_id == role_id)))


# ---- members of groups

def add_member(conn: sa.Connection, group_id: str, user_id: str) -> None:
    engine.insert_ignore(conn, tables.identity_memberships, {'group_id': group_id, 'user_id': user_id})


def remove_member(conn: sa.Connection, group_id: str, user_id: str) -> bool:
    return bool(statements.delete(conn, tables.identity_memberships, group_id=group_id, user_id=user_id))


def delete_memberships(conn: sa.Connection, **match: str) -> None:
    """Delete the memberships with this group_id or user_id."""
    statements.delete(conn, tables.identity_memberships, **match)


def memberships(conn: sa.Connection, group_ids: Collection[str] | None = None, user_id: str | None = None,
                ) -> list[tuple[str, str, str, str]]:
    """Return [(group id, user id, user name, domain of the user)] in these groups or of this user."""
    table, users = tables.identity_memberships, tables.identity_users
    query = (sa.select(table.c.group_id, table.c.user_id, users.c.name, users.c.domain_id)
             .join(users, users.c.id == table.c.user_id)
             .order_by(users.c.created_at, users.c.id))
    if group_ids is not None:
        query = query.where(table.c.group_id.in_(sorted(group_ids)))
    if user_id is not None:
        query = query.where(table.c.user_id == user_id)
    return [tuple(row) for row in conn.execute(query)]
