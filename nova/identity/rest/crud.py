"""Handlers of list, create, show, update and delete for kinds of resources."""
from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from nova import exception
from nova.db.identity import directory as queries
from nova.db.tables.rows import IdentityDomainsRow
from nova.db.tables.rows import IdentityRolesRow
from nova.identity.embedded import password_rules
from nova.identity.embedded.resources import Resources
from nova.identity.rest import operations
from nova.identity.rest import resources
from nova.identity.rest import schemas
from nova.identity.rest.operations import Request
from nova.identity.rest.operations import Stored
from nova.identity.rest.schemas import Page
from nova.json_types import JsonObject
from nova.web.resource import Document
from nova.web.resource import One
from nova.web.resource import shape
from nova.web.routes import Route

Rows = Sequence[Any]
RouteRules = tuple[str | None, tuple[str, ...]]
Match = dict[str, str | bool | None]


class Crud:
    """Operations on the resources of one kind; each operation checks one policy rule.

    :cvar exact: whether a filter without a value matches empty values; otherwise it is ignored
    :cvar filters: query parameters in addition to the filters of the fields
    :cvar root: path in front of the path of the list
    :param shown: resource in the response of "show"; None: as in the other responses
    """

    exact = False
    filters: tuple[str, ...] = ()
    root = '/v3'

    def __init__(self, kind: schemas.Kind, shown: schemas.Kind | None = None) -> None:
        self.kind, self.shown = kind, shown or kind

    def store(self, req: Request) -> Resources[Any]:
        return req.service.resources[self.kind.name]

    def match(self, req: Request) -> Match:
        """Return {column: value} of the filters of the query."""
        match: Match = {name: text for name in self.kind.filters
                         if (text := req.query.get(name)) is not None and (text or self.exact)}
        if 'enabled' in match:
            match['enabled'] = operations.flag(req.query, 'enabled')
        return match

    def list(self, req: Request) -> Rows:
        rows = self.visible(req, self.store(req).list(**self.match(req)))
        return operations.compared(req, rows, self.kind.filters)

    def visible(self, req: Request, rows: Rows) -> Rows:
        """Return the rows that match the query and that the caller may see."""
        return rows

    def create(self, req: Request, **parts: str) -> Stored:
        return self.store(req).create([self.kind.values(req.body, new=True)])[0]

    def show(self, req: Request, **parts: str) -> Stored:
        return self.store(req).get(*parts.values())

    def update(self, req: Request, **parts: str) -> Stored:
        """Update a resource.

        :raises BadRequest: the body has another id
        :raises Forbidden: a field cannot be changed
        """
        values, (row_id,) = self.kind.values(req.body, new=False), parts.values()
        operations.expect_id(req.body, row_id)
        values.pop('id', None)
        fixed = [name for name in self.kind.fixed if name in values]
        row = self.store(req).get(row_id) if fixed else {}
        for name in fixed:
            if values.pop(name) != row[name]:
                raise exception.Forbidden(f'The {self.kind.fixed[name]} of a {self.kind.name} cannot be changed.')
        return self.store(req).update(row_id, values)

    def delete(self, req: Request, **parts: str) -> None:
        self.store(req).delete(*parts.values())

    # ---- routes

    def rules(self, verb: str, plural: bool = False) -> RouteRules:
        """Return (policy rule that the route checks, further rules that its handler checks) of an operation."""
        return f'identity:{verb}_{self.kind.plural if plural else self.kind.name}', ()

    def creation(self) -> Route:
        kind = self.kind
        return Route('POST', f'{self.root}/{kind.plural}', self.create, *self.rules('create'), status=201,
                     name=f'create_{kind.name}', answer=One(kind, 'show'),
                     body=schemas.Body(kind.content('create'), kind.name))

    def routes(self) -> Iterator[Route]:
        kind, path = self.kind, f'{self.root}/{self.kind.plural}'
        noun, one = kind.name, f'{path}/{{{kind.name}_id}}'
        yield Route('GET', path, self.list, *self.rules('list', plural=True), name=f'list_{kind.plural}',
                    query=schemas.Query(*kind.filters, *self.filters), answer=Page(kind))
        yield self.creation()
        yield Route('GET', one, self.show, *self.rules('get'), name=f'show_{noun}', answer=One(self.shown, 'show'))
        yield Route('PATCH', one, self.update, *self.rules('update'), name=f'update_{noun}', answer=One(kind, 'show'),
                    body=schemas.Body(kind.content('update'), noun))
        yield Route('DELETE', one, self.delete, *self.rules('delete'), name=f'delete_{noun}', status=204)


class Domains(Crud):
    """Domains. A caller with a domain-scoped token sees only this domain, unless the caller is an administrator."""

    def visible(self, req: Request, rows: Rows) -> Rows:
        own = req.caller.domain_id
        return rows if own is None or req.is_admin else [row for row in rows if row['id'] == own]


class InDomain(Crud):
    """Resources that belong to a domain. With a domain-scoped token, lists have only this domain by default."""

    def match(self, req: Request) -> Match:
        match = super().match(req)
        return match if req.caller.domain_id is None else {'domain_id': req.caller.domain_id, **match}

    def create(self, req: Request, **parts: str) -> Stored:
        values = self.kind.values(req.body, new=True)
        values['domain_id'] = values.get('domain_id') or self.default_domain(req, values)
        policy, _checks = self.rules('create')
        req.authorize(str(policy), req.in_domain(values['domain_id']))
        return self.store(req).create([values])[0]

    def default_domain(self, req: Request, values: JsonObject) -> str:
        return req.domain_id

    def update(self, req: Request, **parts: str) -> Stored:
        if req.body.get('domain_id', ...) is None:
            del req.body['domain_id']
        return super().update(req, **parts)


class DomainProject(IdentityDomainsRow):
    """A domain in the form of a project."""

    domain_id: None
    parent_id: None
    is_domain: bool


def _as_project(row: IdentityDomainsRow) -> DomainProject:
    return {**row, 'domain_id': None, 'parent_id': None, 'is_domain': True}


_NOT_OF_DOMAIN = ('domain_id', 'parent_id')          # fields of a project that a domain lacks


class Projects(InDomain):
    """Projects. A domain is also a project: with is_domain=true, a list has domains instead of other projects."""

    exact, filters = True, ('is_domain', *resources.TAG_FILTERS)

    def rules(self, verb: str, plural: bool = False) -> RouteRules:
        rule, checks = super().rules(verb, plural)
        return rule, (*checks, f'identity:{verb}_domain{"s" if plural else ""}')

    def _domains(self, req: Request, verb: str, row_id: str) -> Resources[Any] | None:
        """Return the store of the domains if the ID is the ID of a domain, otherwise None.

        :raises Forbidden: the caller may not perform the operation on the domain
        """
        found = req.service.resources['domain']
        if not found.list(id=row_id):
            return None
        req.authorize(f'identity:{verb}_domain', {'target.domain.id': row_id})
        return found

    def _of_domain(self, req: Request, new: bool) -> dict[str, Any]:
        """Convert the body of a project that acts as a domain to columns of the domain; raises BadRequest."""
        if any(req.body.get(name) for name in _NOT_OF_DOMAIN):
            raise exception.BadRequest('A project that acts as a domain has no parent and no domain.')
        return resources.DOMAINS.values({name: value for name, value in req.body.items() if name not in (
            'is_domain', *_NOT_OF_DOMAIN)}, new)

    def create(self, req: Request, **parts: str) -> Stored:
        if not resources.project_flag('is_domain', req.body.get('is_domain', False)):
            return super().create(req)
        req.authorize('identity:create_domain')
        return _as_project(req.service.resources['domain'].create([self._of_domain(req, new=True)])[0])

    def delete(self, req: Request, **parts: str) -> None:
        (self._domains(req, 'delete', *parts.values()) or self.store(req)).delete(*parts.values())

    def match(self, req: Request) -> Match:
        match = super().match(req)
        parent_id = match.get('parent_id')
        # if the parent is a domain, match its top-level projects, unless the query names another domain
        if isinstance(parent_id, str) and match.get('domain_id', parent_id) == parent_id and any(
                row['id'] == parent_id for row in req.service.resources['domain'].list()):
            match |= {'parent_id': None, 'domain_id': parent_id}
        return match

    def update(self, req: Request, **parts: str) -> Stored:
        """Update a project.

        :raises BadRequest: the body has another id
        :raises Forbidden: a field cannot be changed
        """
        domains = self._domains(req, 'update', *parts.values())
        is_domain = domains is not None
        if resources.project_flag('is_domain', req.body.get('is_domain', is_domain)) != is_domain:
            raise exception.Forbidden('The field is_domain of a project cannot be changed.')
        if domains is not None:
            row_id, = parts.values()
            operations.expect_id(req.body, row_id)
            return _as_project(domains.update(row_id, self._of_domain(req, new=False)))
        row: Any = super().show(req, **parts)
        if req.body.get('parent_id', ...) in (None, row['domain_id']):
            req.body['parent_id'] = None                    # a top-level project
        return super().update(req, **parts)

    def default_domain(self, req: Request, values: JsonObject) -> str:
        """Return the ID of the parent's domain. The parent may be a project or a domain."""
        parent_id = values.get('parent_id')
        if not parent_id:
            return req.domain_id
        parent = req.service.find(queries.PROJECT, id=str(parent_id))
        with exception.AsBadRequest(exception.IdentityNotFound):
            return str(parent['domain_id'] if parent else req.service.domain(str(parent_id))['id'])

    def list(self, req: Request) -> Rows:
        if req.query.get('is_domain', '').lower() not in ('1', 'true'):
            return super().list(req)
        req.authorize_path('identity:list_domains', {})
        own, wanted = req.caller.domain_id, Crud.match(self, req).items()     # a domain has no domain_id
        found = [_as_project(row) for row in req.service.resources['domain'].list()
                 if own is None or req.is_admin or row['id'] == own]
        return self.visible(req, [row for row in found if all(row.get(name) == value for name, value in wanted)])

    def visible(self, req: Request, rows: Rows) -> Rows:
        wanted = {name: set(req.query[name].split(',')) for name in _TAGGED if req.query.get(name)}
        return [row for row in rows if all(_TAGGED[name](tags, set(row['tags'])) for name, tags in wanted.items())]

    def show(self, req: Request, **parts: str) -> Stored:
        """Return a project, with parents and subtree as lists or as IDs if the query asks for them.

        The lists contain only projects on which the caller has a role, unless the caller is an administrator.

        :raises BadRequest: the query asks for a list and for IDs of the same projects
        """
        domains = self._domains(req, 'get', *parts.values())
        if domains is not None:
            return _as_project(domains.get(*parts.values()))
        row: Any = super().show(req, **parts)
        query = req.query
        if not any(f'{name}_as_{form}' in query for name in ('parents', 'subtree') for form in ('list', 'ids')):
            return row
        shown: dict[str, Any] = {}
        above, below = req.service.tree(row['id'])
        seen = None if req.is_admin else {own['id'] for own in req.service.projects_of(req.caller.user_id)}
        build = self.kind.view('show').documents(req)
        for name, rows in (('parents', above), ('subtree', below)):
            if f'{name}_as_list' in query and f'{name}_as_ids' in query:
                raise exception.BadRequest(f'Use one of {name}_as_list and {name}_as_ids.')
            if f'{name}_as_list' in query:
                shown[name] = [{'project': build(found)} for found in rows if seen is None or found['id'] in seen]
        if 'parents_as_ids' in query:
            shown['parents'] = None
            for parent_id in (row['domain_id'], *(parent['id'] for parent in reversed(above))):
                shown['parents'] = {parent_id: shown['parents']}
        if 'subtree_as_ids' in query:
            children: dict[str | None, list[str]] = {}
            for found in below:
                children.setdefault(found['parent_id'], []).append(found['id'])
            shown['subtree'] = _nested(row['id'], children)
        return row | shown


_TAGGED: dict[str, Callable[[set[str], set[str]], bool]] = dict(zip(resources.TAG_FILTERS, (
    lambda wanted, tags: wanted <= tags, lambda wanted, tags: bool(wanted & tags),
    lambda wanted, tags: not wanted <= tags, lambda wanted, tags: not wanted & tags), strict=True))


def _nested(project_id: str, children: Mapping[str | None, Sequence[str]]) -> JsonObject | None:
    """Return the projects below a project as nested dictionaries {id of a child: its children or None}, or None."""
    return {child: _nested(child, children) for child in children.get(project_id, ())} or None


class Users(InDomain):
    exact, filters = True, ('password_expires_at',)

    def visible(self, req: Request, rows: Rows) -> Rows:
        """Apply the filter ``password_expires_at=lt:2026-11-28T00:00:00Z``. Without an operator, compare for equality.
        """
        text = req.query.get('password_expires_at')
        if text is None:
            return rows
        op, _colon, rest = text.partition(':')
        compare, moment = (_COMPARE[op], rest) if op in _COMPARE else (operator.eq, text)
        limit = operations.moment_of(moment, 'password_expires_at')
        return [row for row in rows if (end := password_rules.end_of(row)) is not None and compare(end, limit)]

    def update(self, req: Request, **parts: str) -> Stored:
        self._expect_roles_of(req, **parts)
        return super().update(req, **parts)

    def delete(self, req: Request, **parts: str) -> None:
        self._expect_roles_of(req, **parts)
        super().delete(req, **parts)

    def _expect_roles_of(self, req: Request, user_id: str) -> None:
        """Check that the caller has all roles of a user. Otherwise a caller could set a password and use the roles.

        :raises Forbidden: the caller is no administrator and lacks one of the roles
        """
        req.expect_roles(req.service.grants.role_ids_of_user(user_id),
                         'You can change a user only if you have every role of the user.')


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    'lt': operator.lt, 'lte': operator.le, 'gt': operator.gt, 'gte': operator.ge, 'eq': operator.eq,
    'neq': operator.ne}


class Roles(Crud):
    """Roles. Separate policy rules apply to domain-specific roles."""

    exact = True

    def rules(self, verb: str, plural: bool = False) -> RouteRules:
        return None, _of_role(verb, 's' if plural else '')

    def match(self, req: Request) -> Match:
        return {'domain_id': None} | super().match(req)       # without a filter, only global roles

    def _authorized(self, req: Request, verb: str, role_id: str) -> IdentityRolesRow:
        """Check the rule of an operation on a role, and return the role.

        :raises IdentityNotFound: the role does not exist
        """
        row = req.service.find(queries.ROLE, id=role_id)
        req.authorize_path(_of_role(verb)[bool(row and row['domain_id'])], {'role_id': role_id})
        if row is None:
            raise exception.IdentityNotFound(noun='role', id=role_id)
        return row

    def list(self, req: Request) -> Rows:
        req.authorize(_of_role('list', 's')['domain_id' in req.query])
        return super().list(req)

    def create(self, req: Request, **parts: str) -> Stored:
        req.authorize(_of_role('create')[bool(req.body.get('domain_id'))])
        return super().create(req)

    def show(self, req: Request, **parts: str) -> Stored:
        return self._authorized(req, 'get', **parts)

    def update(self, req: Request, **parts: str) -> Stored:
        self._authorized(req, 'update', **parts)
        return super().update(req, **parts)

    def delete(self, req: Request, **parts: str) -> None:
        self._authorized(req, 'delete', **parts)
        super().delete(req, **parts)


def _of_role(verb: str, plural: str = '') -> tuple[str, str]:
    """Return the rules of an operation: (for global roles, for domain-specific roles)."""
    return f'identity:{verb}_role{plural}', f'identity:{verb}_domain_role{plural}'


class Regions(Crud):
    """Regions. Clients may choose the ID of a region."""

    def create(self, req: Request, **parts: str) -> Stored:
        values, (named,) = self.kind.values(req.body, new=True), parts.values() or (None,)
        if named and len(named) > (most := resources.MAX_REGION_ID):
            raise exception.BadRequest(f'The id of a region can have at most {most} characters.')
        if named and values.setdefault('id', named) != named:
            raise exception.BadRequest('The id of the region differs from that in the path.')
        return self.store(req).create([values])[0]

    def routes(self) -> Iterator[Route]:
        yield from super().routes()
        yield Route('PUT', '/v3/regions/{region_id}', self.create, *self.rules('create'), status=201,
                    name='create_region', answer=One(self.kind, 'show'),
                    body=schemas.Body(self.kind.content('update'), 'region'))


class RegisteredLimits(Crud):
    """Registered limits. One request may create several limits."""

    def create_all(self, req: Request) -> JsonObject:
        rows = self.store(req).create([self.kind.values(given, new=True) for given in req.body])
        return {self.kind.plural: [*map(self.kind.view('show').documents(req), rows)]}

    def creation(self) -> Route:
        plural, content = self.kind.plural, schemas.array(self.kind.content('create'), 1, 100)
        return Route('POST', f'/v3/{plural}', self.create_all, f'identity:create_{plural}', status=201,
                     name=f'create_{plural}', answer=Document({plural: [self.kind.view('show')]}),
                     body=schemas.Body(content, plural))


class Limits(RegisteredLimits):
    """Limits. Unless the rule SHOW lets the caller see every limit, lists have only the limits of the token's scope."""

    SHOW = 'identity:get_limit'

    def rules(self, verb: str, plural: bool = False) -> RouteRules:
        return (None, (self.SHOW,)) if verb == 'get' else super().rules(verb, plural)

    def visible(self, req: Request, rows: Rows) -> Rows:
        if req.allows(self.SHOW):
            return rows
        return [row for row in rows if row['project_id'] and row['project_id'] == req.caller.project_id
                or row['domain_id'] and row['domain_id'] == req.caller.domain_id]

    def show(self, req: Request, **parts: str) -> Stored:
        row: Any = super().show(req, **parts)
        # omit attributes without a value: None would match a caller without a domain
        target = {'target.limit.domain.id': row['domain_id']} if not row['project_id'] else {
            'target.limit.project_id': row['project_id'],
            'target.limit.project.domain_id': req.service.get(queries.PROJECT, row['project_id'])['domain_id']}
        if not req.allows(self.SHOW, target):
            raise exception.IdentityNotFound(noun='limit', id=row['id'])
        return row


def limit_model(req: Request) -> JsonObject:
    return {'model': {'name': 'flat', 'description': 'A limit of a project or a domain replaces the registered '
                                                     'limit; limits of different projects are independent.'}}


_CRUD: tuple[Crud, ...] = (
    Domains(resources.DOMAINS), Projects(resources.PROJECT, resources.RELATED), Users(resources.USER),
    Roles(resources.ROLE), InDomain(resources.GROUP),
    Crud(resources.POLICY), Regions(resources.REGION), Crud(resources.SERVICE), Crud(resources.ENDPOINT),
    RegisteredLimits(resources.REGISTERED_LIMIT), Limits(resources.LIMIT))
ROUTES = [
    Route('GET', '/v3/limits/model', limit_model, 'identity:get_limit_model', answer=Document({
          'model': shape(name=schemas.STRING, description=schemas.STRING)})),
    *(row for crud in _CRUD for row in crud.routes()),
]
