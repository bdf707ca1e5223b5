"""Effective roles of users: the default roles, implied and inherited roles."""
from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
import datetime
from typing import Literal, TypedDict

from nova.db import engine
from nova.db.identity import assignments as queries
from nova.db.identity import directory as rows
from nova.db.identity.assignments import Target
from nova.db.tables.rows import IdentityDomainsRow
from nova.db.tables.rows import IdentityRolesRow
from nova.identity import tokens

Roles = list[queries.Role]

DOMAIN: IdentityDomainsRow = {'id': 'default', 'name': 'Default', 'description': 'The default domain', 'enabled': True,
                              'tags': [], 'extra': None, 'created_at': datetime.datetime(1970, 1, 1)}
SYSTEM = 'all'            # id that stands for the system as target of assignments and scope of tokens

# {kind of target: stored kind of the inherited assignments, which apply only to projects below the target}
BELOW = {'project': 'below_project', 'domain': 'below_domain'}

# Default roles: each implies the next one; clients cannot change this. The role service is not in this chain.
LADDER = ('admin', 'manager', 'member', 'reader')
ROLES = (*LADDER, 'service')


class Reference(TypedDict, total=False):
    """A role in a request, with its id or its name."""

    id: str
    name: str


def is_default(role: IdentityRolesRow) -> bool:
    """Return whether a row is a default role, not a domain-specific role with the name of a default role."""
    return role['name'] in ROLES and role['domain_id'] is None


def known_roles(conn: engine.Connection) -> Roles:
    """Return all roles, oldest first."""
    found = queries.roles(conn)
    ids = {role['name']: role['id'] for role in found if role['domain_id'] is None}
    for role in found:
        if is_default(role) and role['name'] in LADDER[:-1]:
            implied = ids.get(LADDER[LADDER.index(role['name']) + 1])
            role['implied'].update([implied] if implied else ())
    return found


def expand(held_ids: Collection[str], roles: Roles) -> Roles:
    """Return the roles with these ids, and the roles that they imply, as rows of ``known_roles``."""
    implied = {role['id']: role['implied'] for role in roles}
    found: set[str] = set()
    todo = [role_id for role_id in held_ids if role_id in implied]
    while todo:
        role_id = todo.pop()
        if role_id not in found:
            found.add(role_id)
            todo += implied[role_id]
    return [role for role in roles if role['id'] in found]


def of_tokens(held_ids: Collection[str], roles: Roles) -> Roles:
    """Return the roles that a token with these roles has, including implied ones.

    Domain-specific roles are omitted: a token has only the roles that they imply.
    """
    return [role for role in expand(held_ids, roles) if role['domain_id'] is None]


def chosen(held: Sequence[tokens.Named], wanted: Sequence[Reference | tokens.Named],
           refusal: Callable[[str], Exception]) -> list[str]:
    """Return the ids of the wanted roles.

    :param held: roles to choose from
    :param refusal: function(id or name) -> error about a role that is not held
    """
    found: list[str] = []
    for role in wanted:
        key: Literal['id', 'name'] = 'id' if 'id' in role else 'name'
        row = next((row for row in held if row[key] == role[key]), None)
        if row is None:
            raise refusal(role[key])
        found.append(row['id'])
    return found


def targets_of(conn: engine.Connection, kind: str, target_id: str) -> list[Target]:
    """Return this target and, for a project, the targets from which the project inherits assignments."""
    found = [(kind, target_id)]
    if kind == 'project':
        project = rows.get(conn, rows.PROJECT, id=target_id)
        if project is not None:
            found += [(BELOW['project'], parent['id']) for parent in rows.above(conn, project)]
            found.append((BELOW['domain'], project['domain_id']))
    return found


def effective(conn: engine.Connection, user_id: str, kind: str, target_id: str, known: Roles | None = None) -> Roles:
    """Return the roles that a token of a user for a target has, see ``of_tokens``.

    :param known: result of ``known_roles``
    """
    known = known_roles(conn) if known is None else known
    return of_tokens(queries.held_role_ids(conn, user_id, targets_of(conn, kind, target_id)), known)
