"""The operations that every resource has: list, create, show, update and delete."""
import collections.abc
import functools
import logging
import typing

from nova import exception
from nova.db.audit import log
from nova.db.networks import networks as db
from nova.network import ipam
from nova.network.face import attributes
from nova.network.face import pages
from nova.network.face.resource import Resource
from nova.web.request import Request
from nova.web.routes import Route

LOG = logging.getLogger(__name__)

MAX_ID = 255                # characters of an id that are looked up


class Wrapped:
    """A body: the resource's name, and below it what is given of the resource.

    :param name: of the resource
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def validate(self, document: dict, _version: int = 0, _relaxed: bool = False) -> dict:
        """What stands below the name.

        :raises BadRequest: no object does
        """
        if not isinstance(document.get(self.name), dict):
            raise exception.BadRequest(f"Unable to find '{self.name}' in request body")
        return document[self.name]


def index(resource: Resource, req: Request) -> dict:
    if resource.prepare:
        with req.face.api_db.writer() as conn:
            resource.prepare(conn, req.context)
    with req.face.api_db.reader() as conn:
        rows, limit = resource.listing.page(conn, req.query, resource.visible(req.context))
        views = resource.views(conn, req.context, rows)
    document = {resource.plural: pages.fields(req.query, views)}
    if len(rows) == limit:
        document[resource.plural + '_links'] = pages.next_link(req.url, req.query, rows[-1])
    return document


def show(resource: Resource, req: Request, id: str) -> dict:
    with req.face.api_db.reader() as conn:
        view = resource.views(conn, req.context, [_get(conn, req.context, resource, id)])
    return {resource.singular: pages.fields(req.query, view)[0]}


def create(resource: Resource, req: Request) -> dict:
    def make(conn: typing.Any) -> dict:
        values = attributes.parse(resource.attributes, req.context, req.body, creating=True)
        ident = resource.create(conn, req.face, req.context, values)
        log.about(ident)
        return resource.views(conn, req.context, [db.get(conn, resource.table, ident)])[0]

    view = req.face.api_db.run(ipam.arbitrated(make))
    _refresh(resource, req)
    return {resource.singular: view}


def update(resource: Resource, req: Request, id: str) -> dict:
    def change(conn: typing.Any) -> dict:
        row = _get(conn, req.context, resource, id)
        if not resource.writable(req.context, row):
            raise exception.PolicyDenied(rule=f'update_{resource.singular}')
        values = attributes.parse(resource.attributes, req.context, req.body, creating=False)
        resource.update(conn, req.face, req.context, row, values)
        return resource.views(conn, req.context, [db.get(conn, resource.table, id)])[0]

    view = req.face.api_db.run(ipam.arbitrated(change))
    _refresh(resource, req)
    return {resource.singular: view}


def delete(resource: Resource, req: Request, id: str) -> None:
    def drop(conn: typing.Any) -> None:
        row = _get(conn, req.context, resource, id)
        if not resource.writable(req.context, row):
            raise exception.PolicyDenied(rule=f'delete_{resource.singular}')
        resource.delete(conn, req.face, req.context, row)

    req.face.api_db.run(drop)
    _refresh(resource, req)


def _refresh(resource: Resource, req: Request) -> None:
    """Notify the network service. One that does not answer finds the committed change at its next audit."""
    if req.face.network_rpc is None:
        return
    try:
        req.face.network_rpc.refresh_security(req.context, port_ids=[])
    except exception.Unavailable as error:
        LOG.warning('The network service was not notified of a changed %s: %s', resource.singular, error)


def _get(conn: typing.Any, context: typing.Any, resource: Resource, ident: str) -> dict:
    """The row that the caller may see; another project's row is missing like one that is not there."""
    row = db.seen(conn, resource.table, resource.visible(context), ident[:MAX_ID])
    if row is None:
        raise resource.missing(ident[:MAX_ID])
    return row


def routes(resource: Resource) -> collections.abc.Iterator[Route]:
    """The rows of a resource; the policy of each is its name in the audit log and in a refusal."""
    one, body = f'/{resource.path}/{{id}}', Wrapped(resource.singular)

    def route(method: str, path: str, handler: typing.Any, name: str, status: int = 200,
              body: Wrapped | None = None) -> Route:
        return Route(method, path, functools.partial(handler, resource), f'{name}_{resource.singular}', status=status,
                     body=body)
    yield route('GET', f'/{resource.path}', index, 'list')
    yield route('POST', f'/{resource.path}', create, 'create', 201, body)
    yield route('GET', one, show, 'show')
    yield route('PUT', one, update, 'update', body=body)
    yield route('DELETE', one, delete, 'delete', 204)
