"""Handlers for members of groups, implied roles and role assignments."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from nova import exception
from nova.db.identity.assignments import Role
from nova.db.tables.rows import IdentityGroupsRow, IdentityRolesRow, IdentityUsersRow
from nova.identity.embedded import directory
from nova.identity.embedded import effective_roles
from nova.identity.embedded import grants
from nova.identity.rest import operations
from nova.identity.rest import resources
from nova.identity.rest import schemas
from nova.identity.rest.operations import Request
from nova.identity.rest.schemas import Page
from nova.json_types import JsonObject
from nova.web.resource import Document
from nova.web.resource import Schema
from nova.web.routes import Route

NamedT = TypeVar('NamedT', IdentityUsersRow, IdentityGroupsRow)


# ---- members of groups

def list_members(req: Request, group_id: str) -> Sequence[IdentityUsersRow]:
    return operations.compared(req, _named(req, req.service.grants.members(group_id)), ('name',))


def _named(req: Request, rows: list[NamedT]) -> list[NamedT]:
    """Return the rows that match the query's filter "name", if it has one."""
    return [row for row in rows if req.query.get('name') in (None, row['name'])]


def check_member(req: Request, group_id: str, user_id: str) -> None:
    if not req.service.grants.is_member(group_id, user_id):
        raise exception.IdentityNotFound(noun=f'user in group {group_id}', id=user_id)


def add_member(req: Request, group_id: str, user_id: str) -> None:
    """Add a user to a group.

    :raises Forbidden: the caller is not an administrator and lacks a role of the group
    """
    req.expect_roles(req.service.grants.role_ids_of(group_id),
                     'You can add users to a group only if you have every role of the group.')
    req.service.grants.add_member(group_id, user_id)


# ---- implied roles

GET_RULE, CHECK_RULE = 'identity:get_implied_role', 'identity:check_implied_role'


def _rule(req: Request, prior: Role, implied: list[Role] | Role) -> JsonObject:
    shown = resources.IMPLIED.view('show').documents(req)
    return {'prior_role': shown(prior),
            'implies': [*map(shown, implied)] if isinstance(implied, list) else shown(implied)}


def _rules(req: Request) -> dict[str, JsonObject]:
    """Return {id of a role: its inference rules}."""
    roles = req.service.grants.roles()
    return {prior['id']: _rule(req, prior, [role for role in roles if role['id'] in prior['implied']])
            for prior in roles}


def list_rules(req: Request) -> JsonObject:
    return {'role_inferences': [rule for rule in _rules(req).values() if rule['implies']],
            'links': {'self': operations.url_of(req)}}


def list_implied(req: Request, role_id: str) -> JsonObject:
    rules = _rules(req)
    if role_id not in rules:
        raise exception.IdentityNotFound(noun='role', id=role_id)
    return {'role_inference': rules[role_id], 'links': {'self': operations.url_of(req)}}


def show_rule(req: Request, role_id: str, implied_id: str) -> JsonObject:
    req.authorize(CHECK_RULE if req.environ['REQUEST_METHOD'] == 'HEAD' else GET_RULE)
    return {'role_inference': _rule(req, *req.service.grants.check_implied(role_id, implied_id)),
            'links': {'self': operations.url_of(req)}}


def create_rule(req: Request, role_id: str, implied_id: str) -> JsonObject:
    req.service.grants.imply(role_id, implied_id)
    return {'role_inference': _rule(req, *req.service.grants.check_implied(role_id, implied_id)),
            'links': {'self': operations.url_of(req)}}


# ---- role assignments

OF_ONE, OF_TREE = 'identity:list_role_assignments', 'identity:list_role_assignments_for_tree'


def list_assignments(req: Request) -> list[grants.NamedAssignment]:
    """List role assignments.

    :raises BadRequest: filters that cannot be combined
    """
    query, wanted = req.query, grants.Wanted()
    wanted.subtree, effective = (operations.flag(query, name) for name in ('include_subtree', 'effective'))
    req.authorize(OF_TREE if wanted.subtree else OF_ONE, req.in_domain(req.domain_id))
    wanted.user_id, wanted.group_id, wanted.role_id = (query.get(f'{noun}.id') or None for noun in (
        'user', 'group', 'role'))
    targets = [(kind, query[f'scope.{kind}.id']) for kind in ('project', 'domain') if query.get(f'scope.{kind}.id')]
    if query.get('scope.system'):
        targets.append(('system', directory.SYSTEM))
    wanted.inherited = bool(query.get('scope.OS-INHERIT:inherited_to'))
    if len(targets) > 1 or wanted.user_id and wanted.group_id:
        raise exception.BadRequest('A list of role assignments can be filtered by one scope, and by a user or a group.')
    if wanted.subtree and (not targets or targets[0][0] != 'project'):
        raise exception.BadRequest('include_subtree needs scope.project.id.')
    if effective and (wanted.group_id or wanted.inherited):
        raise exception.BadRequest('effective cannot be combined with group.id or scope.OS-INHERIT:inherited_to: '
                                   'effective assignments are those of users on projects.')
    if targets:
        wanted.kind, wanted.target_id = targets[0]
    wanted.domain_id = None if req.is_admin else req.caller.domain_id
    return req.service.grants.effective(wanted) if effective else req.service.grants.listed(wanted)


FILTERS = ('user.id', 'group.id', 'role.id', 'scope.project.id', 'scope.domain.id', 'scope.system',
           'scope.OS-INHERIT:inherited_to', 'effective', 'include_subtree', 'include_names')


class Grant:
    """Operations on roles that users or groups (actors) have in projects, domains or the system (targets).

    :param actor: 'user' or 'group'
    :param kind: 'project', 'domain' or 'system'
    :param inherited: the projects below the target inherit the role
    """

    def __init__(self, actor: str, kind: str, inherited: bool = False) -> None:
        self._actor, self._kind = actor, kind
        self._target = effective_roles.BELOW[kind] if inherited else kind
        prefix = '/v3/OS-INHERIT' if inherited else '/v3'
        target = 'system' if kind == 'system' else f'{kind}s/{{{kind}_id}}'
        self._path = f'{prefix}/{target}/{actor}s/{{{actor}_id}}/roles'
        self._suffix = '/inherited_to_projects' if inherited else ''

    def _ids(self, parts: dict[str, str]) -> tuple[str, str, str]:
        """Return (actor's id, kind of the target as stored, target's id). The system has the id directory.SYSTEM."""
        return parts[f'{self._actor}_id'], self._target, parts.get(f'{self._kind}_id', directory.SYSTEM)

    def list(self, req: Request, **parts: str) -> directory.Rows[IdentityRolesRow]:
        return req.service.held_roles(*self._ids(parts), actor=self._actor)

    def check(self, req: Request, role_id: str, **parts: str) -> None:
        if role_id not in {row['id'] for row in self.list(req, **parts)}:
            raise exception.IdentityNotFound(noun='role assignment', id=role_id)

    def assign(self, req: Request, role_id: str, **parts: str) -> None:
        """Assign a role.

        :raises Forbidden: the caller is no administrator and does not have the role
        """
        req.expect_roles({role_id}, 'You can assign only roles that you have.')
        actor_id, kind, target_id = self._ids(parts)
        req.service.assign_role(actor_id, role_id, kind, target_id, self._actor)

    def unassign(self, req: Request, role_id: str, **parts: str) -> None:
        actor_id, kind, target_id = self._ids(parts)
        req.service.unassign_role(actor_id, role_id, kind, target_id, self._actor)

    def routes(self) -> Iterator[Route]:
        named = f'_system_grant{{}}_for_{self._actor}' if self._kind == 'system' else '_grant{}'
        one, where = self._path + '/{role_id}' + self._suffix, f'{self._actor}_on_{self._target}'
        yield Route('GET', self._path + self._suffix, self.list, f'identity:list{named.format("s")}',
                    name=f'list_roles_of_{where}', answer=Page(resources.ROLE))
        for method, handler, verb in (('GET', self.check, 'check'), ('PUT', self.assign, 'create'),
                                      ('DELETE', self.unassign, 'revoke')):
            yield Route(method, one, handler, f'identity:{verb}{named.format("")}', status=204,
                        name=f'{handler.__name__}_role_of_{where}')


ACTORS = ('user', 'group')
MEMBER = '/v3/groups/{group_id}/users/{user_id}'
IMPLIED = '/v3/roles/{role_id}/implies'
_NAME = schemas.Query('name')
_RULES: Schema = {'type': 'array', 'items': resources.INFERENCES}
ROUTES = [
    Route('GET', '/v3/groups/{group_id}/users', list_members, 'identity:list_users_in_group', query=_NAME,
          answer=Page(resources.USER)),
    Route('GET', '/v3/users/{user_id}/groups', lambda req, user_id: _named(req, req.service.grants.groups_of(user_id)),
          'identity:list_groups_for_user', query=_NAME, answer=Page(resources.GROUP), name='list_groups_of_user'),
    Route('GET', MEMBER, check_member, 'identity:check_user_in_group', status=204),
    Route('PUT', MEMBER, add_member, 'identity:add_user_to_group', status=204),
    Route('DELETE', MEMBER, lambda req, group_id, user_id: req.service.grants.remove_member(group_id, user_id),
          'identity:remove_user_from_group', status=204, name='remove_member'),
    Route('GET', '/v3/role_inferences', list_rules, 'identity:list_role_inference_rules',
          answer=Document({'role_inferences': _RULES, 'links': schemas.LINK})),
    Route('GET', IMPLIED, list_implied, 'identity:list_implied_roles',
          answer=Document({'role_inference': resources.INFERENCES, 'links': schemas.LINK})),
    Route('GET', IMPLIED + '/{implied_id}', show_rule, checks=(GET_RULE, CHECK_RULE), answer=(_RULE := Document(
          {'role_inference': resources.INFERENCE, 'links': schemas.LINK}))),
    Route('PUT', IMPLIED + '/{implied_id}', create_rule, 'identity:create_implied_role', status=201, answer=_RULE),
    Route('DELETE', IMPLIED + '/{implied_id}',
          lambda req, role_id, implied_id: req.service.grants.unimply(role_id, implied_id),
          'identity:delete_implied_role', status=204, name='delete_rule'),
    Route('GET', '/v3/role_assignments', list_assignments, checks=(OF_ONE, OF_TREE), query=schemas.Query(*FILTERS),
          answer=Page(resources.ASSIGNMENT, most=lambda: grants.MAX_LISTED)),
    *(row for actor in ACTORS for kind in ('project', 'domain', 'system')
      for row in Grant(actor, kind).routes()),
    *(row for actor in ACTORS for kind in effective_roles.BELOW for row in Grant(actor, kind, inherited=True).routes()),
]
