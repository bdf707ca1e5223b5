"""Operations of every resource: list, create, show, update and delete."""
from __future__ import annotations

import collections.abc
import functools
import logging
import re
import typing

from nova import exception
from nova.db.networks import networks as db
from nova.db.networks import tags as db_tags
from nova.json_types import JsonDocument
from nova.json_types import Json
from nova.json_types import JsonObject
from nova.network import ipam
from nova.network.rest import attributes
from nova.network.rest import calls
from nova.network.rest import faults
from nova.network.rest import pages
from nova.network.rest import servers
from nova.network.rest.resource import Resource
from nova.network.rest.resource import R
from nova.network.rest.resource import Stored
from nova.network.rest.resource import View
from nova.network.rest.resource import found as found_row
from nova.web import sizes
from nova.web.routes import Route

if typing.TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.db.engine import Connection
    from nova.network.rest.request import NetworkRequest

LOG = logging.getLogger(__name__)

_Shown = tuple[str | None, collections.abc.Hashable]           # see Resource.server_view
MAX_BULK = 100              # resources created by one request
MAX_TAGS = 50               # maximum of one resource


class WrappedBody:
    """A body with the resource's name as its only key, and the attributes below it.

    :param name: name of the resource
    :param many: key of a list of objects for bulk creation; None: single only
    """

    def __init__(self, name: str, many: str | None = None) -> None:
        self.name, self.many = name, many

    def validate(self, document: JsonObject, _version: int = 0, _relaxed: bool = False) -> JsonObject:
        """Return the value below the name.

        :raises BadRequest: the value is not an object
        """
        several = document.get(self.many) if self.many and self.name not in document else None
        if isinstance(several, list) and several and all(isinstance(each, dict) for each in several):
            if len(several) > MAX_BULK:
                raise exception.BadRequest(f'One request can create at most {MAX_BULK} {self.many}.')
            return {str(self.many): several}
        return attributes.below(document, self.name)


class UncheckedBody:
    """A body that the handler validates."""

    def validate(self, document: JsonObject, _version: int = 0, _relaxed: bool = False) -> JsonObject:
        if not isinstance(document, dict):
            raise exception.BadRequest('An object is expected.')
        return document


def _views(conn: Connection, context: RequestContext, resource: Resource[R], rows: list[R],
           query: pages.Query = ()) -> list[View]:
    """Return the views of rows, with their tags unless the query excludes them."""
    views = resource.views(conn, context, rows)
    named = pages.named(query)
    if resource.tagged and rows and (not named or 'tags' in named):
        known = db_tags.of(conn, [row['id'] for row in rows])
        for view in views:
            view['tags'] = known.get(view['id'], [])
    return views


def _columns(resource: Resource[R], query: pages.Query) -> tuple[list[str] | None, set[str]]:
    """Return (columns to read, requested fields) of a list; columns None: whole rows."""
    named = pages.named(query)
    if resource.narrow is None or not named:
        return None, named
    plain, others, _views = resource.narrow
    if not named <= {*plain, *others}:
        return None, named
    return [name for name in plain if name in named or name == 'id'], named


def index(resource: Resource[R], req: NetworkRequest) -> JsonDocument:
    if resource.prepare:
        with req.deps.api_db.writer() as conn:
            resource.prepare(conn, req.context)
    columns, named = _columns(resource, req.query)
    with req.deps.api_db.reader() as conn:
        rows, limit = resource.listing.page(conn, req.query, resource.visible(req.context), columns)
        if columns is not None and resource.narrow is not None:
            views = resource.narrow[2](conn, rows, named)
        else:
            whole = typing.cast('list[R]', rows)           # no columns were chosen
            views = pages.fields(req.query, _views(conn, req.context, resource, whole, req.query))
    number = sizes.fitting(views)
    document = {resource.plural: views[:number]}
    if len(rows) == limit or number < len(views):
        document[resource.plural + '_links'] = pages.next_link(req.url, req.query, rows[number - 1])
    return document


def show(resource: Resource[R], req: NetworkRequest, id: str) -> JsonDocument:
    with req.deps.api_db.reader() as conn:
        view = _views(conn, req.context, resource, [calls.get_visible(conn, req.context, resource, id)], req.query)
    return {resource.singular: pages.fields(req.query, view)[0]}


def create(resource: Resource[R], req: NetworkRequest) -> JsonDocument:
    several = req.body.get(resource.plural) if resource.plural not in resource.attributes else None

    def make(conn: Connection) -> tuple[list[View], list[str]]:
        found = []
        for each in several or [req.body]:                  # all or none are created
            wanted = _tags_of(each) if resource.tagged else None
            ident = calls.create(conn, req.deps, req.context, resource, each)
            if wanted:
                db_tags.replace(conn, ident, wanted)
            found.append(ident)
        rows = [_made(conn, resource, ident) for ident in found]
        return _views(conn, req.context, resource, rows), _showing(conn, {_shown(conn, resource, row) for row in rows})

    views, showing = req.deps.api_db.run(ipam.retry_on_duplicate(make))
    _refresh(resource, req, showing)
    return {resource.plural: views} if several else {resource.singular: views[0]}


def _tags_of(body: JsonObject) -> list[str] | None:
    """Return the tags of a new resource, and remove them from its attributes."""
    return _check_tags(body.pop('tags')) if 'tags' in body else None


def update(resource: Resource[R], req: NetworkRequest, id: str) -> JsonDocument:
    def change(conn: Connection) -> tuple[View, list[str]]:
        row = calls.get_changeable(conn, req.context, resource, id, f'update_{resource.singular}')
        _check_revision(req, row)
        before, shown = _views(conn, req.context, resource, [row])[0], _shown(conn, resource, row)
        given = attributes.different(resource.attributes, before, req.body)
        values = attributes.parse(resource.attributes, req.context, given, creating=False)
        if not values:
            return before, []
        resource.update(conn, req.deps, req.context, row, values)
        made = _made(conn, resource, id)
        after = _shown(conn, resource, made)
        return _views(conn, req.context, resource, [made])[0], _showing(conn, {shown, after}) if shown != after else []

    view, showing = req.deps.api_db.run(ipam.retry_on_duplicate(change))
    _refresh(resource, req, showing)
    return {resource.singular: view}


def delete(resource: Resource[R], req: NetworkRequest, id: str) -> None:
    def drop(conn: Connection) -> list[str]:
        row = calls.removable(conn, req.context, resource, id)
        _check_revision(req, row)
        showing = _showing(conn, {_shown(conn, resource, row)})
        calls.delete(conn, req.deps, req.context, resource, row)
        return showing

    _refresh(resource, req, req.deps.api_db.run(drop))


def act(resource: Resource[R], function: collections.abc.Callable[..., JsonDocument | None], reads: bool,
        req: NetworkRequest, id: str, **parts: str) -> JsonDocument | None:
    """Handle a resource-specific operation."""
    def work(conn: Connection) -> JsonDocument | None:
        if reads:
            row = calls.get_visible(conn, req.context, resource, id)
            return function(conn, req.deps, req.context, row, None, **parts)
        row = calls.get_changeable(conn, req.context, resource, id, f'update_{resource.singular}')
        return function(conn, req.deps, req.context, row, req.body, **parts)

    if reads:
        with req.deps.api_db.reader() as conn:
            return work(conn)
    found = req.deps.api_db.run(ipam.retry_on_duplicate(work))
    _refresh(resource, req)
    if found is None and req.method != 'DELETE':
        return show(resource, req, id)
    return found


# ---- tags ------------------------------------------------------------------------

def _check_tags(values: Json) -> list[str]:
    return attributes.items(_check_tag, MAX_TAGS)(values)


def _check_tag(value: Json) -> str:
    tag = attributes.text(255)(value)
    if not tag or ',' in tag:
        raise exception.InvalidInput(reason='a tag must be a non-empty string without a comma.')
    return tag


def tags(resource: Resource[R], req: NetworkRequest, id: str) -> JsonDocument | None:
    """Handle GET, PUT or DELETE of all tags."""
    def work(conn: Connection) -> JsonDocument:
        row = calls.get_visible(conn, req.context, resource, id)
        if req.method == 'GET':
            return {'tags': db_tags.of(conn, [row['id']]).get(row['id'], [])}
        if not resource.writable(req.context, row):
            raise exception.PolicyDenied(rule=f'update_{resource.singular}_tags')
        wanted = _check_tags(req.body.get('tags')) if req.method == 'PUT' else []
        db_tags.replace(conn, row['id'], wanted)
        return {'tags': sorted(set(wanted))}
    found = req.deps.api_db.run(work)
    return None if req.method == 'DELETE' else found


def tag(resource: Resource[R], req: NetworkRequest, id: str, tag: str) -> None:
    """Handle GET, PUT or DELETE of one tag."""
    def work(conn: Connection) -> None:
        row = calls.get_visible(conn, req.context, resource, id)
        known = db_tags.of(conn, [row['id']]).get(row['id'], [])
        if req.method != 'PUT' and tag not in known:
            raise faults.TagNotFound(tag=tag[:60])
        if req.method == 'GET':
            return
        if not resource.writable(req.context, row):
            raise exception.PolicyDenied(rule=f'update_{resource.singular}_tags')
        db_tags.replace(conn, row['id'], _check_tags([*known, tag]) if req.method == 'PUT' else
                        [each for each in known if each != tag])
    req.deps.api_db.run(work)


def _check_revision(req: NetworkRequest, row: Stored) -> None:
    """Check the revision in If-Match: revision_number=N."""
    given = req.header('If-Match', None)
    if given is None:
        return
    name, _, number = given.partition('=')
    if name.strip() != 'revision_number' or not re.fullmatch('[0-9]{1,18}', number.strip()):
        raise exception.BadRequest('If-Match must be revision_number=N.')
    if int(number.strip()) != row['revision']:
        raise faults.RevisionNumberConstraintFailed(expected=number.strip(), current=row['revision'])


def _shown(conn: Connection, resource: Resource[R], row: R) -> _Shown:
    return resource.server_view(conn, row) if resource.server_view is not None else (None, None)


def _showing(conn: Connection, shown: set[_Shown]) -> list[str]:
    """Return the uuids of the servers that show the rows among their addresses."""
    idents = {ident for ident, _what in shown if ident is not None}
    return servers.of_ports(conn, idents) if idents else []


def _refresh(resource: Resource[R], req: NetworkRequest, showing: collections.abc.Sequence[str] = ()) -> None:
    """Notify the network service of a change.

    :param showing: uuids of servers that show the change
    """
    refresh(req, resource.singular)
    if showing and req.deps.servers is not None:
        req.deps.servers.changed(req.context, list(showing))


def refresh(req: NetworkRequest, what: str) -> None:
    """Notify the network service. Hosts without the notification find the change with their next report."""
    if req.deps.network_rpc is None:
        return
    try:
        req.deps.network_rpc.refresh_ports(req.context, port_ids=[])
    except exception.Unavailable as error:
        LOG.warning('Cannot notify the network service of a changed %s: %s', what, error)


def _made(conn: Connection, resource: Resource[R], ident: str) -> R:
    return found_row(db.get(conn, resource.table, ident), resource.missing(ident))


def routes(resource: Resource[R]) -> collections.abc.Iterator[Route]:
    """Return the routes of a resource. Their policy names appear in the audit log and in errors."""
    one, body = f'/{resource.path}/{{id}}', WrappedBody(resource.singular)

    def route(method: str, path: str, handler: collections.abc.Callable[..., JsonDocument | None], name: str,
              status: int = 200, body: WrappedBody | UncheckedBody | None = None) -> Route:
        return Route(method, path, functools.partial(handler, resource), f'{name}_{resource.singular}', status=status,
                     body=body)
    yield route('GET', f'/{resource.path}', index, 'list')
    yield route('POST', f'/{resource.path}', create, 'create', 201, WrappedBody(resource.singular, resource.plural))
    yield route('GET', one, show, 'show')
    yield route('PUT', one, update, 'update', body=body)
    yield route('DELETE', one, delete, 'delete', 204)
    for method, path, function in resource.actions:
        status = {'POST': 201, 'DELETE': 204}.get(method, 200)
        yield Route(method, f'{one}/{path}', functools.partial(act, resource, function, method == 'GET'),
                    f'{path.partition("/")[0].replace("-", "_")}_{resource.singular}', status=status,
                    body=UncheckedBody() if method in ('POST', 'PUT') else None)
    # clients expect tags below the plural, independent of the resource's path
    for path in dict.fromkeys((f'{one}/tags', f'/{resource.plural}/{{id}}/tags' if resource.at else f'{one}/tags')
                              ) if resource.tagged else ():
        yield route('GET', path, tags, 'show_tags')
        yield route('PUT', path, tags, 'update_tags', body=UncheckedBody())
        yield route('DELETE', path, tags, 'delete_tags', 204)
        yield route('GET', path + '/{tag}', tag, 'show_tag', 204)
        yield route('PUT', path + '/{tag}', tag, 'update_tag', 201)
        yield route('DELETE', path + '/{tag}', tag, 'delete_tag', 204)
