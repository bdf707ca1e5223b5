"""Inference rules, groups, and lists of role assignments."""
from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
import dataclasses
import functools
from typing import TYPE_CHECKING

from nova import exception
from nova.db import engine
from nova.db.identity import assignments as queries
from nova.db.identity import directory as rows
from nova.db.identity.assignments import Target
from nova.db.tables.rows import IdentityGroupsRow, IdentityProjectsRow, IdentityUsersRow
from nova.identity import tokens
from nova.identity.embedded import domains
from nova.identity.embedded import effective_roles

if TYPE_CHECKING:
    from nova.identity.embedded.directory import Directory

BELOW = effective_roles.BELOW
OF_DOMAIN = ('domain', BELOW['domain'])
Roles = effective_roles.Roles
Projects = Collection[IdentityProjectsRow]

MAX_INFERENCE_RULES = 1000         # maximum inference rules
MAX_MEMBERS = 10000      # maximum users of a group
MAX_GROUPS_OF_USER = 200
MAX_LISTED = 10000       # maximum role assignments in one list


class NamedAssignment(queries.Assignment):
    """An assignment with the names of its target and domains; names that do not apply are None."""

    actor_domain: tokens.Named | None
    project_domain: tokens.Named | None
    target_name: str | None


@dataclasses.dataclass
class Wanted:
    """Filters of a list of role assignments.

    kind, target_id   target: project, domain or system, and its id
    subtree           whether the projects below the target are included
    inherited         whether only assignments that apply to the projects below their target are listed
    domain_id         only assignments on this domain and its projects
    """

    user_id: str | None = None
    group_id: str | None = None
    role_id: str | None = None
    kind: str | None = None
    target_id: str | None = None
    subtree: bool = False
    inherited: bool = False
    domain_id: str | None = None


class Grants:
    """Inference rules, groups and lists of assignments.

    :param directory: has the database and the users
    """

    def __init__(self, directory: Directory) -> None:
        self._directory, self._db = directory, directory.db

    # ---- inference rules

    def roles(self) -> Roles:
        """Return ``effective_roles.known_roles``."""
        with self._db.reader() as conn:
            return effective_roles.known_roles(conn)

    def imply(self, prior_id: str, implied_id: str) -> None:
        """Make a role imply another.

        :raises Forbidden: the implied role is admin, or there are too many rules
        """
        prior, implied = self._directory.get(rows.ROLE, prior_id), self._directory.get(rows.ROLE, implied_id)
        if implied['name'] == 'admin' or prior_id == implied_id or implied['domain_id'] is not None:
            raise exception.Forbidden(f'Role {implied["name"]} cannot be implied by role {prior["name"]}.')
        known = self.roles()
        if implied_id in next(role['implied'] for role in known if role['id'] == prior_id):
            return
        if sum(len(role['implied']) for role in known) >= MAX_INFERENCE_RULES:
            raise exception.Forbidden(f'There can be at most {MAX_INFERENCE_RULES} inference rules.')
        self._directory.write(queries.imply, prior_id, implied_id)

    def check_implied(self, prior_id: str, implied_id: str) -> tuple[queries.Role, queries.Role]:
        """Return the roles of an inference rule.

        :raises IdentityNotFound: there is no such rule
        """
        roles = {role['id']: role for role in self.roles()}
        for role_id in (prior_id, implied_id):
            if role_id not in roles:
                raise exception.IdentityNotFound(noun='role', id=role_id)
        if implied_id not in roles[prior_id]['implied']:
            raise exception.IdentityNotFound(noun=f'inference rule of role {prior_id} for role', id=implied_id)
        return roles[prior_id], roles[implied_id]

    def unimply(self, prior_id: str, implied_id: str) -> None:
        prior, implied = self.check_implied(prior_id, implied_id)
        if not self._directory.write(queries.unimply, prior_id, implied_id):
            raise exception.Forbidden(f'The default role {prior["name"]} always implies {implied["name"]}.')

    # ---- groups

    def add_member(self, group_id: str, user_id: str) -> None:
        """Add a user to a group; the user may already be a member."""
        self._directory.get(rows.USER, user_id)
        self._directory.get(rows.GROUP, group_id)
        self._directory.write(_add_member, group_id, user_id)

    def remove_member(self, group_id: str, user_id: str) -> None:
        if not self._directory.write(queries.remove_member, group_id, user_id):
            raise exception.IdentityNotFound(noun=f'user in group {group_id}', id=user_id)

    def members(self, group_id: str) -> list[IdentityUsersRow]:
        """Return the users of a group."""
        self._directory.get(rows.GROUP, group_id)
        with self._db.reader() as conn:
            return rows.rows(conn, rows.USER, [member[1] for member in queries.memberships(conn, [group_id])])

    def groups_of(self, user_id: str) -> list[IdentityGroupsRow]:
        self._directory.get(rows.USER, user_id)
        with self._db.reader() as conn:
            found = queries.memberships(conn, user_id=user_id)
            return rows.rows(conn, rows.GROUP, [member[0] for member in found])

    def role_ids_of(self, group_id: str) -> set[str]:
        """Return the ids of the roles that tokens get from a group on any target; see ``effective_roles.of_tokens``."""
        with self._db.reader() as conn:
            assigned = queries.assigned_role_ids(conn, 'group', group_id)
            return {role['id'] for role in effective_roles.of_tokens(assigned, effective_roles.known_roles(conn))}

    def role_ids_of_user(self, user_id: str) -> set[str]:
        """Return the ids of the roles that tokens of a user have on any target; see ``effective_roles.of_tokens``.

        The roles of groups and trusts are included.
        """
        with self._db.reader() as conn:
            found = queries.held_role_ids(conn, user_id)
            found.update(*(trust['role_ids'] for trust in rows.rows(conn, rows.TRUST, trustee_user_id=user_id)))
            return {role['id'] for role in effective_roles.of_tokens(found, effective_roles.known_roles(conn))}

    def is_member(self, group_id: str, user_id: str) -> bool:
        with self._db.reader() as conn:
            return bool(queries.memberships(conn, [group_id], user_id))

    # ---- lists of assignments

    def listed(self, wanted: Wanted) -> list[NamedAssignment]:
        """Return at most ``MAX_LISTED`` stored assignments that match; see ``queries.listed`` and ``_named``."""
        with self._db.reader() as conn:
            targets, kinds = self._targets(conn, wanted), [*BELOW.values()] if wanted.inherited else None
            role_ids, found = None if wanted.role_id is None else [wanted.role_id], []
            for actor, actor_id in (('user', wanted.user_id), ('group', wanted.group_id)):
                if (wanted.group_id if actor == 'user' else wanted.user_id) is None:
                    found += queries.listed(conn, actor, None if actor_id is None else [actor_id], role_ids, targets,
                                            MAX_LISTED, kinds)
            return _named(conn, found[:MAX_LISTED], rows.rows(conn, rows.PROJECT))

    def effective(self, wanted: Wanted) -> list[NamedAssignment]:
        """Return the assignments of users that result from groups, inheritance and implied roles.

        Each row has the names added by ``_named``, and ``group_id`` if the user has the role as member of a group.

        :raises BadRequest: more than ``MAX_LISTED`` stored assignments match, and the first ones result in fewer
        """
        with self._db.reader() as conn:
            known = effective_roles.known_roles(conn)
            on, projects = self._direct(conn, wanted), rows.rows(conn, rows.PROJECT)
            targets = None if on is None else _sources(on, projects)
            users = None if wanted.user_id is None else [wanted.user_id]
            roles = None if wanted.role_id is None else [role['id'] for role in known if any(
                each['id'] == wanted.role_id for each in effective_roles.expand([role['id']], known))]
            found = queries.listed(conn, 'user', users, roles, targets, MAX_LISTED + 1)
            mine = None if users is None else [member[0] for member in queries.memberships(
                conn, user_id=wanted.user_id)]
            of_groups = queries.listed(conn, 'group', mine, roles, targets, MAX_LISTED + 1)
            members = queries.memberships(conn, {row['actor_id'] for row in of_groups}, wanted.user_id)
            result = _expanded(found + of_groups, members, known, projects, on, wanted.role_id)
            if len(result) < MAX_LISTED < max(len(found), len(of_groups)):
                raise exception.BadRequest(f'More than {MAX_LISTED} role assignments match. '
                                           'Narrow the list with a user or a scope.')
            return _named(conn, result, projects)

    def _targets(self, conn: engine.Connection, wanted: Wanted) -> list[Target] | None:
        """Return the wanted targets, and again with the kinds of inherited assignments (BELOW); None: all targets."""
        on = self._direct(conn, wanted)
        return None if on is None else on + [(BELOW[kind], target_id) for kind, target_id in on if kind in BELOW]

    def _direct(self, conn: engine.Connection, wanted: Wanted) -> list[Target] | None:
        found = self._asked(conn, wanted)
        if wanted.domain_id is None:
            return found
        own = {('domain', wanted.domain_id), *(('project', project['id']) for project in rows.rows(
            conn, rows.PROJECT, domain_id=wanted.domain_id))}
        return [*own] if found is None else [target for target in found if target in own]

    def _asked(self, conn: engine.Connection, wanted: Wanted) -> list[Target] | None:
        if wanted.kind is None or wanted.target_id is None:
            return None
        found = [(wanted.kind, wanted.target_id)]
        if wanted.subtree and domains.find(conn, {'id': wanted.target_id}) is not None:
            found = [('project', project['id'])
                     for project in rows.rows(conn, rows.PROJECT, domain_id=wanted.target_id)]
        elif wanted.subtree:
            found += [('project', project['id']) for project in rows.below(conn, [wanted.target_id])]
        return found


def _add_member(conn: engine.Connection, group_id: str, user_id: str) -> None:
    for noun, row_id in (('user', user_id), ('group', group_id)):  # lock, so that concurrent requests obey the limits
        if not rows.lock(conn, noun, row_id):
            raise exception.IdentityNotFound(noun=noun, id=row_id)
    groups = [member[0] for member in queries.memberships(conn, user_id=user_id)]
    if group_id in groups:
        return
    if len(groups) >= MAX_GROUPS_OF_USER:
        raise exception.Forbidden(f'A user can be in at most {MAX_GROUPS_OF_USER} groups.')
    if len(queries.memberships(conn, [group_id])) >= MAX_MEMBERS:
        raise exception.Forbidden(f'A group can have at most {MAX_MEMBERS} users.')
    queries.add_member(conn, group_id, user_id)


def _named(conn: engine.Connection, found: Sequence[queries.Assignment], projects: Projects) -> list[NamedAssignment]:
    """Add to assignments the names of their targets and domains."""
    of_project = {project['id']: project for project in projects}
    ids = {row['actor_domain_id'] for row in found} | {project['domain_id'] for project in projects}
    names = domains.names(conn, ids | {row['target_id'] for row in found if row['target_type'] in OF_DOMAIN})
    refs: dict[str, tokens.Named] = {domain_id: {'id': domain_id, 'name': name} for domain_id, name in names.items()}
    named: list[NamedAssignment] = []
    for row in found:
        project = None if row['target_type'] in OF_DOMAIN else of_project.get(row['target_id'])
        named.append({**row, 'actor_domain': refs.get(row['actor_domain_id']),
                      'project_domain': refs.get(project['domain_id']) if project else None,
                      'target_name': project['name'] if project else names.get(row['target_id'])})
    return named


def _sources(on: Collection[Target], projects: Projects) -> set[Target]:
    """Return these targets, and the parents and domains from which they inherit assignments.

    ``effective_roles.targets_of`` does the same for a single target.
    """
    parents: dict[str, str | None] = {project['id']: project['parent_id'] for project in projects}
    domain_ids: dict[str, str] = {project['id']: project['domain_id'] for project in projects}
    found = set(on)
    for kind, target_id in on:
        if kind == 'project' and target_id in parents:
            found.add((BELOW['domain'], domain_ids[target_id]))
            parent_id = parents[target_id]
            while parent_id is not None:
                found.add((BELOW['project'], parent_id))
                parent_id = parents.get(parent_id)
    return found


def _expanded(found: Sequence[queries.Assignment], members: Collection[tuple[str, str, str, str]], known: Roles,
              projects: Projects, on: Collection[Target] | None, role_id: str | None) -> list[queries.Assignment]:
    """Return the assignments of users that result from stored ones, at most ``MAX_LISTED``.

    An inherited assignment is replaced by assignments on the projects, and an assignment of a group by assignments of
    its members. Implied roles are added. Duplicates are removed.

    :param members: result of ``queries.memberships``
    :param on: the wanted targets, or None
    """
    children: dict[str | None, list[str]] = {}
    of_domain: dict[str, list[str]] = {}
    for project in projects:
        children.setdefault(project['parent_id'], []).append(project['id'])
        of_domain.setdefault(project['domain_id'], []).append(project['id'])
    users: dict[str, list[queries.Actor]] = {}
    for group_id, user_id, name, domain_id in members:
        users.setdefault(group_id, []).append({'actor': 'user', 'actor_id': user_id, 'actor_name': name,
                                               'actor_domain_id': domain_id, 'group_id': group_id})
    wanted = None if on is None else set(on)

    def below(project_id: str) -> Iterator[str]:
        for child in children.get(project_id, ()):
            yield child
            yield from below(child)

    @functools.cache
    def targets(kind: str, target_id: str) -> list[Target]:
        if kind in BELOW.values():
            inheriting = of_domain.get(target_id, ()) if kind == BELOW['domain'] else below(target_id)
            reached = [('project', project_id) for project_id in inheriting]
        else:
            reached = [(kind, target_id)]
        return reached if wanted is None else [target for target in reached if target in wanted]

    @functools.cache
    def roles(assigned_id: str) -> Roles:
        return [role for role in effective_roles.of_tokens([assigned_id], known) if role_id in (None, role['id'])]
    result: dict[tuple[str, str, str, str], queries.Assignment] = {}
    for row in found:
        for kind, target_id in targets(row['target_type'], row['target_id']):
            for role in roles(row['role_id']):
                actors: Sequence[queries.Actor] = [row] if row['actor'] == 'user' else users.get(row['actor_id'], ())
                for actor in actors:
                    result.setdefault((actor['actor_id'], kind, target_id, role['id']), {
                        **row, **actor, 'target_type': kind, 'target_id': target_id,
                        'role_id': role['id'], 'role_name': role['name']})
                if len(result) >= MAX_LISTED:
                    return list(result.values())[:MAX_LISTED]
    return list(result.values())
