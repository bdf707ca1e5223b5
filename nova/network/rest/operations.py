"""Operations of every resource: list, create, show, update and delete."""
from __future__ import annotations

import collections.abc
import functools
import logging
import re
import typing

from nova import exception
from nova import policies
from nova.db.engine import Condition
from nova.db.networks import networks as db
from nova.db.networks import tags as db_tags
from nova.json_types import JsonDocument
from nova.json_types import Json
from nova.json_types import JsonObject
from nova.network import ipam
from nova.network.rest import calls
from nova.network.rest import faults
from nova.network.rest import pages
from nova.network.rest import permissions
from nova.network.rest import schemas
from nova.network.rest import servers
from nova.network.rest.rows import Answer
from nova.network.rest.rows import below
from nova.network.rest.rows import CreateAnswer
from nova.network.rest.rows import Page
from nova.network.rest.rows import R
from nova.network.rest.rows import Resource
from nova.network.rest.rows import Stored
from nova.network.rest.rows import View
from nova.web import params
from nova.web import sizes
from nova.web.resource import check_known
from nova.web.resource import closed
from nova.web.resource import Document
from nova.web.resource import Schema
from nova.web.routes import Route

if typing.TYPE_CHECKING:
    from nova.db.engine import Connection
    from nova.network.rest.request import NetworkRequest

LOG = logging.getLogger(__name__)

_Shown = tuple[str | None, collections.abc.Hashable]           # result of Resource.server_view
MAX_BULK = 100              # maximum of resources that one request creates
_TAGS = schemas.TypeValidator(schemas.TAGS)
_TAGS_ANSWER = Document({'tags': schemas.TEXTS})


class WrappedBody:
    """A body with one key, the resource's name; the value is an object with the attributes.

    :param name: name of the resource
    :param attributes: schema of the attributes
    :param many: key of a list of objects for bulk creation; None: no bulk creation
    """

    def __init__(self, name: str, attributes: Schema, many: str | None = None) -> None:
        self.name, self._attributes, self.many = name, attributes, many

    def schema(self, _version: int = 0, _relaxed: bool = False) -> Schema:
        one = closed(self.name, **{self.name: self._attributes})
        if self.many is None:
            return one
        several: Schema = {'type': 'array', 'minItems': 1, 'maxItems': MAX_BULK, 'items': self._attributes}
        return {'anyOf': [one, closed(self.many, **{self.many: several})]}

    def validate(self, document: JsonObject, _version: int = 0,
                 _relaxed: bool = False) -> JsonObject | list[JsonObject]:
        """Return the object with the attributes, or a list of objects for a bulk creation.

        The handlers check the attributes later, with the row.

        :raises BadRequest: the value is not an object, or the list has too many
        """
        several = document.get(self.many) if self.many and self.name not in document else None
        if isinstance(several, list) and several and all(isinstance(each, dict) for each in several):
            if len(several) > MAX_BULK:
                raise exception.BadRequest(f'One request can create at most {MAX_BULK} {self.many}.')
            return typing.cast('list[JsonObject]', several)
        return below(document, self.name)


class UncheckedBody:
    """A body whose values the handler validates.

    :param schema: schema of the body in the OpenAPI document
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def schema(self, _version: int = 0, _relaxed: bool = False) -> Schema:
        return self._schema

    def validate(self, document: JsonObject, _version: int = 0, _relaxed: bool = False) -> JsonObject:
        if not isinstance(document, dict):
            raise exception.BadRequest('An object is expected.')
        return document

    def check_keys(self, document: JsonObject) -> None:
        """Refuse unknown keys; handlers call this after the check of their rule.

        :raises BadRequest:
        """
        known = self._schema.get('properties')
        if isinstance(known, dict):
            check_known(document, known, '')


def index(resource: Resource[R], req: NetworkRequest) -> JsonDocument:
    if resource.prepare:
        with req.deps.api_db.writer() as conn:
            resource.prepare(conn, req.context)
    names = resource.narrowed(req.context, pages.named(req.query))
    with req.deps.api_db.reader() as conn:
        page = resource.listing.page(conn, req.query, _condition(resource, req), resource.columns(names),
                                     req.context.project_id)
        compared = resource.documents(conn, req.context, page.rows, names)
        shown = permissions.readable(conn, req.context, f'get_{resource.name}', compared, resource.of_network)
    views = pages.fields(req.query, compared)
    number = sizes.fitting(views)
    allowed = [view for view, may in zip(views[:number], shown) if may]
    document = {resource.plural: allowed[::-1] if page.reverse else allowed}
    if links := pages.links(req.url, req.query, page, number):
        document[resource.plural + '_links'] = links
    return document


def _condition(resource: Resource[R], req: NetworkRequest) -> Condition:
    """Return a condition for the visible rows in which the caller may read all fields of filters and sort keys.

    A filter on an unreadable field would reveal its value.

    :raises BadRequest: the caller may not read one of the fields in any row
    """
    rules, condition = resource.read_rules, resource.visible(req.context)
    for name in {value if key == 'sort_key' else key for key, value in req.query} & rules.keys():
        if permissions.allows(req.context, rules[name], permissions.target({})):
            continue
        if not permissions.allows(req.context, rules[name], permissions.own(req.context)):
            raise exception.BadRequest(f"['{name}'] is invalid attribute for filtering or sorting: you may not read it")
        condition &= resource.table.c.project_id == req.context.project_id
    return condition


def show(resource: Resource[R], req: NetworkRequest, id: str) -> JsonDocument:
    with req.deps.api_db.reader() as conn:
        view = resource.documents(conn, req.context, [calls.get_visible(conn, req.context, resource, id)])
        if permissions.readable(conn, req.context, f'get_{resource.name}', view, resource.of_network) != [True]:
            raise resource.missing(id[:calls.MAX_ID])
    return {resource.name: pages.fields(req.query, view)[0]}


def create(resource: Resource[R], req: NetworkRequest) -> JsonDocument:
    several = req.body if isinstance(req.body, list) else None

    def make(conn: Connection) -> tuple[list[View], list[str]]:
        found = []
        for each in several or [req.body]:                  # create all in one transaction
            values = {name: value for name, value in each.items() if name != 'tags' or not resource.tagged}
            wanted = _check_tags(each['tags']) if len(values) < len(each) else None
            ident = calls.create(conn, req.deps, req.context, resource, values)
            if wanted:
                calls.authorize(conn, req.context, resource, rule_of_tags(resource, 'create'),
                                resource.get(conn, ident))
                db_tags.replace(conn, ident, wanted)
            found.append(ident)
        rows = [resource.get(conn, ident) for ident in found]
        showing = _showing(conn, {_shown(conn, resource, row) for row in rows})
        return resource.documents(conn, req.context, rows), showing

    views, showing = req.deps.api_db.run(ipam.retry_on_duplicate(make))
    _refresh(resource, req, showing)
    return {resource.plural: views} if several else {resource.name: views[0]}


def update(resource: Resource[R], req: NetworkRequest, id: str) -> JsonDocument:
    def change(conn: Connection) -> tuple[View, list[str]]:
        row = calls.get_visible(conn, req.context, resource, id)
        if not resource.unchangeable:
            calls.authorize(conn, req.context, resource, f'update_{resource.name}', row)
        _check_revision(conn, resource, req, row)
        before, shown = resource.documents(conn, req.context, [row])[0], _shown(conn, resource, row)
        given = resource.different(before, req.body)
        values = resource.parse(given, 'update')
        if not values:
            return before, []
        calls.authorize_fields(conn, req.context, resource, given, values, row)
        if resource.update is None:
            db.update(conn, resource.table, row['id'], resource.stored(values))
        else:
            resource.update(conn, req.deps, req.context, row, values)
        made = resource.get(conn, id)
        after = _shown(conn, resource, made)
        return resource.documents(conn, req.context, [made])[0], _showing(
            conn, {shown, after}) if shown != after else []

    view, showing = req.deps.api_db.run(ipam.retry_on_duplicate(change))
    _refresh(resource, req, showing)
    return {resource.name: view}


def delete(resource: Resource[R], req: NetworkRequest, id: str) -> None:
    def drop(conn: Connection) -> list[str]:
        row = calls.get_changeable(conn, req.context, resource, id, f'delete_{resource.name}')
        _check_revision(conn, resource, req, row)
        showing = _showing(conn, {_shown(conn, resource, row)})
        resource.delete(conn, req.deps, req.context, row)
        return showing

    _refresh(resource, req, req.deps.api_db.run(drop))


def act(resource: Resource[R], function: collections.abc.Callable[..., JsonDocument | None], reads: bool,
        req: NetworkRequest, id: str, **parts: str) -> JsonDocument | None:
    """Handle a resource-specific operation. The first rule of the route guards the operation."""
    assert req.route is not None                      # a routed request
    rule, body = req.route.checks[0], req.route.body

    def work(conn: Connection) -> tuple[JsonDocument | None, list[str]]:
        row = calls.get_changeable(conn, req.context, resource, id, rule)
        if body is not None:
            body.check_keys(req.body)
        shown = {_shown(conn, resource, row)} if not reads else set()
        answer = function(conn, req.deps, req.context, row, req.query if reads else req.body, **parts)
        shown ^= {_shown(conn, resource, row)} if not reads else set()
        return answer, _showing(conn, shown)

    if reads:
        with req.deps.api_db.reader() as conn:
            return work(conn)[0]
    found, showing = req.deps.api_db.run(ipam.retry_on_duplicate(work))
    _refresh(resource, req, showing)
    if found is None and req.method != 'DELETE':
        return show(resource, req, id)
    return found


# ---- tags ------------------------------------------------------------------------

def _check_tags(values: Json) -> list[str]:
    found: list[str] = _TAGS('tags', values)
    return found


def rule_of_tags(resource: Resource[R], verb: str) -> str:
    """Return the rule of a resource's tags; if there is none, the rule that reads or updates the resource."""
    rule = f'{verb}_{resource.name}:tags'
    return rule if rule in policies.NETWORK.guards else f'{"get" if verb == "get" else "update"}_{resource.name}'


_VERBS = {'GET': 'get', 'POST': 'create', 'PUT': 'update', 'DELETE': 'delete'}


def _tagged(conn: Connection, resource: Resource[R], req: NetworkRequest, ident: str) -> R:
    """Return a row, locked for a change, and check that the caller may read or change the row's tags."""
    row = calls.get_visible(conn, req.context, resource, ident)
    view = row if req.method != 'GET' else resource.documents(conn, req.context, [row])[0]
    calls.authorize(conn, req.context, resource, rule_of_tags(resource, _VERBS[req.method]), view)
    return row if req.method == 'GET' else resource.locked(conn, row['id'])


def tags(resource: Resource[R], req: NetworkRequest, id: str) -> JsonDocument | None:
    """Handle GET, PUT or DELETE of all tags."""
    assert req.route is not None                      # a routed request
    body = req.route.body

    def work(conn: Connection) -> JsonDocument:
        row = _tagged(conn, resource, req, id)
        if req.method == 'GET':
            return {'tags': db_tags.of(conn, [row['id']]).get(row['id'], [])}
        if body is not None:
            body.check_keys(req.body)
        wanted = _check_tags(req.body.get('tags')) if body is not None else []
        db_tags.replace(conn, row['id'], wanted)
        return {'tags': sorted(set(wanted))}
    found = req.deps.api_db.run(work)
    return None if req.method == 'DELETE' else found


def tag(resource: Resource[R], req: NetworkRequest, id: str, tag: str) -> None:
    """Handle GET, PUT or DELETE of one tag."""
    def work(conn: Connection) -> None:
        row = _tagged(conn, resource, req, id)
        known = db_tags.of(conn, [row['id']]).get(row['id'], [])
        if req.method != 'PUT' and tag not in known:
            raise faults.TagNotFound(tag=tag[:60])
        if req.method == 'GET':
            return
        db_tags.replace(conn, row['id'], _check_tags([*known, tag]) if req.method == 'PUT' else
                        [each for each in known if each != tag])
    req.deps.api_db.run(work)


def _check_revision(conn: Connection, resource: Resource[R], req: NetworkRequest, row: Stored) -> None:
    """Check the revision in If-Match: revision_number=N. Other changes of the row wait until the transaction ends."""
    given = req.header('If-Match', None)
    if given is None:
        return
    name, _, number = given.partition('=')
    if name.strip() != 'revision_number' or not re.fullmatch('[0-9]{1,18}', number.strip()):
        raise exception.BadRequest('If-Match must be revision_number=N.')
    current = resource.locked(conn, row['id'])['revision']
    if int(number.strip()) != current:
        raise faults.RevisionNumberConstraintFailed(expected=number.strip(), current=current)


def _shown(conn: Connection, resource: Resource[R], row: R) -> _Shown:
    return resource.server_view(conn, row) if resource.server_view is not None else (None, None)


def _showing(conn: Connection, shown: set[_Shown]) -> list[str]:
    """Return the uuids of the servers that show data of these ports (Resource.server_view)."""
    idents = {ident for ident, _what in shown if ident is not None}
    return servers.of_ports(conn, idents) if idents else []


def _refresh(resource: Resource[R], req: NetworkRequest, showing: collections.abc.Sequence[str] = ()) -> None:
    """Notify the network service of a change.

    :param showing: uuids of servers that show the change
    """
    refresh(req, resource.name)
    if showing and req.deps.servers is not None:
        req.deps.servers.changed(req.context, list(showing))


def refresh(req: NetworkRequest, what: str) -> None:
    """Notify the network service. Hosts that miss the notification find the change with their next report."""
    if req.deps.network_rpc is None:
        return
    try:
        req.deps.network_rpc.refresh_ports(req.context, port_ids=[])
    except exception.Unavailable as error:
        LOG.warning('Cannot notify the network service of a changed %s: %s', what, error)


# paths of sub-resources; group 1 of the match is the sub-resource's name in policy rules
_BELOW = re.compile('(port_forwarding|service_profile|conntrack_helper|[a-z_]+_rule)s(/.*)?')
_READS = {'l3-agents': 'get_l3-agents'}


def rule_of_action(resource: Resource[R], method: str, path: str) -> str:
    """Return the rule of a resource-specific operation.

    :param path: below the resource
    """
    below = _BELOW.fullmatch(path)
    return f'{_VERBS[method]}_{resource.name}_{below[1]}' if below else _READS.get(path, path)


def routes(resource: Resource[R]) -> collections.abc.Iterator[Route]:
    """Return the routes of a resource. The handlers check the rules, because the checks need the row."""
    name, one = resource.name, f'/{resource.path}/{{id}}'
    answer, selected = Answer(resource), Answer(resource, selected=True)

    def route(method: str, path: str, handler: collections.abc.Callable[..., JsonDocument | None], called: str,
              *rules: str, answer: Document | None = None, **more: typing.Any) -> Route:
        fields = answer.checks if answer is not None else ()
        return Route(method, path, functools.partial(handler, resource), None, (*rules, *fields), answer=answer,
                     name=f'{called}_{name}', **more)
    created = resource.accepted('create', **({'tags': schemas.TAGS} if resource.tagged else {}))
    yield route('GET', f'/{resource.path}', index, 'list', f'get_{name}', answer=Page(resource, selected=True),
                query=resource.query)
    yield route('POST', f'/{resource.path}', create, 'create', f'create_{name}', *resource.rules_of('create'),
                *([rule_of_tags(resource, 'create')] if resource.tagged else ()), status=201,
                answer=CreateAnswer(resource), body=WrappedBody(name, created, resource.plural))
    yield route('GET', one, show, 'show', f'get_{name}', answer=selected, query=params.Pairs('fields'))
    yield route('PUT', one, update, 'update', *(() if resource.unchangeable else (f'update_{name}',)),
                *resource.rules_of('update'), answer=answer, body=WrappedBody(name, resource.accepted('update')))
    yield route('DELETE', one, delete, 'delete', f'delete_{name}', status=204)
    for action in resource.actions:
        reads = action.method == 'GET'
        handler = functools.partial(act, resource, action.function, reads)
        status = action.status or {'POST': 201, 'DELETE': 204}.get(action.method, 200)
        yield Route(action.method, f'{one}/{action.path}', handler, None,
                    (rule_of_action(resource, action.method, action.path),), status=status,
                    answer=action.answer or (selected if action.method == 'PUT' else None),
                    body=UncheckedBody(action.body) if action.body is not None else None, query=action.query,
                    name=f'{action.path.partition("/")[0].replace("-", "_")}_{name}')
    # clients expect tags below /PLURAL/ID, even if the resource has another path
    for path in dict.fromkeys((f'{one}/tags', f'/{resource.plural}/{{id}}/tags' if resource.at else f'{one}/tags')
                              ) if resource.tagged else ():
        read, change, remove = (rule_of_tags(resource, verb) for verb in ('get', 'update', 'delete'))
        yield route('GET', path, tags, 'show_tags', read, answer=_TAGS_ANSWER)
        yield route('PUT', path, tags, 'update_tags', change, answer=_TAGS_ANSWER,
                    body=UncheckedBody(closed('tags', tags=schemas.TAGS)))
        yield route('DELETE', path, tags, 'delete_tags', remove, status=204)
        yield route('GET', path + '/{tag}', tag, 'show_tag', read, status=204)
        yield route('PUT', path + '/{tag}', tag, 'update_tag', change, status=201)
        yield route('DELETE', path + '/{tag}', tag, 'delete_tag', remove, status=204)
