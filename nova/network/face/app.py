"""The HTTP face of the embedded network service: the Networking API v2.0 as its clients use it.

The middleware before it puts the caller into ``environ['nova.context']``. A resource is a row of RESOURCES.
"""
import logging

import orjson
import webob

from nova import exception
from nova.db.audit import log
from nova.db.networks import networks as db
from nova.network import ipam
from nova.network.face import attributes
from nova.network.face import documents
from nova.network.face import faults
from nova.network.face import groups
from nova.network.face import listing
from nova.network.face import networks
from nova.network.face import ports
from nova.network.face import quotas
from nova.web import json_text

LOG = logging.getLogger(__name__)

MAX_BODY = 256 * 1024           # bytes
MAX_QUERY = 64 * 1024
# parts of the path -> (method, code of success, handler)
METHODS = {1: (('GET', 200, '_list'), ('POST', 201, '_create')),
           2: (('GET', 200, '_show'), ('PUT', 200, '_update'), ('DELETE', 204, '_delete'))}
RESOURCES = {resource.path: resource for resource in
             (networks.NETWORKS, networks.SUBNETS, ports.PORTS, groups.GROUPS, groups.RULES)}


class Application:
    """A WSGI application, to be mounted at /network.

    :param api_db: the API database
    :param network_rpc: client of the network service, told of changes that its filters must follow; None:
            nobody is
    """

    def __init__(self, conf, api_db, network_rpc=None):
        self.conf, self.api_db, self.network_rpc = conf, api_db, network_rpc

    def __call__(self, environ, start_response):
        request = webob.Request(environ)
        try:
            status, document = self._dispatch(request)
        except exception.NovaException as error:
            if error.code >= 500:
                LOG.error('The network API failed: %s', error)
            status, document = faults.body(error)
        except Exception:
            LOG.exception('Unexpected error in the network API')
            status, document = faults.body(exception.NovaException())
        response = webob.Response(status=status)
        if document is None:
            del response.content_type
        else:
            response.content_type, response.body = 'application/json', orjson.dumps(document)
        return response(environ, start_response)

    def _dispatch(self, request):
        path = _path(request)
        if path == []:
            _only(request, 'GET')
            return 200, {'versions': [documents.version(request.application_url)]}
        if path[0] != 'v2.0':
            raise exception.NotFound()
        context = request.environ.get('nova.context')
        if context is None:
            raise exception.Unauthorized()
        # some clients still name a format
        path = [*path[1:-1], path[-1].removesuffix('.json')] if len(path) > 1 else []
        if not path:
            _only(request, 'GET')
            return 200, self._index(request)
        if path[0] not in documents.OF_NOBODY:
            if not context.project_id and path[0] in RESOURCES:
                log.named(f'network:{request.method.lower()}', target_type=path[0])
            context.require_project()
        resource = RESOURCES.get(path[0])
        if resource is None:
            _only(request, 'GET')
            return 200, self._document(context, path, request)
        if len(path) > 2:
            raise exception.NotFound()
        status, method = _only(request, *METHODS[len(path)])
        log.named(f'network:{method.strip("_")}_{resource.singular}', code=status, target_type=resource.plural,
                    target_id=path[1] if path[1:] else None, route=f'/v2.0/{path[0]}' + '/{id}' * len(path[1:]))
        if request.method not in ('GET', 'HEAD') and not context.may_write():
            raise exception.PolicyDenied(rule=f'{method.strip("_")}_{resource.singular}')
        return status, getattr(self, method)(context, resource, request, *path[1:])

    # ---- resources ----------------------------------------------------------------------

    def _list(self, context, resource, request):
        query = _query(request)
        if resource.prepare:
            with self.api_db.writer() as conn:
                resource.prepare(conn, context)
        with self.api_db.reader() as conn:
            rows, limit = resource.listing.page(conn, query, resource.visible(context))
            views = resource.views(conn, context, rows)
        document = {resource.plural: listing.fields(query, views)}
        if len(rows) == limit:
            document[resource.plural + '_links'] = listing.next_link(request.path_url, query, rows[-1])
        return document

    def _show(self, context, resource, request, ident):
        with self.api_db.reader() as conn:
            view = resource.views(conn, context, [_get(conn, context, resource, ident)])
        return {resource.singular: listing.fields(_query(request), view)[0]}

    def _create(self, context, resource, request):
        given = _body(request, resource.singular)

        def make(conn):
            values = attributes.parse(resource.attributes, context, given, creating=True)
            ident = resource.create(conn, self, context, values)
            log.about(ident)
            return resource.views(conn, context, [db.get(conn, resource.table, ident)])[0]

        view = self.api_db.run(ipam.arbitrated(make))
        self._refresh(context, resource)
        return {resource.singular: view}

    def _update(self, context, resource, request, ident):
        given = _body(request, resource.singular)

        def change(conn):
            row = _get(conn, context, resource, ident)
            if not resource.writable(context, row):
                raise exception.PolicyDenied(rule=f'update_{resource.singular}')
            values = attributes.parse(resource.attributes, context, given, creating=False)
            resource.update(conn, self, context, row, values)
            return resource.views(conn, context, [db.get(conn, resource.table, ident)])[0]

        view = self.api_db.run(ipam.arbitrated(change))
        self._refresh(context, resource)
        return {resource.singular: view}

    def _delete(self, context, resource, request, ident):
        def drop(conn):
            row = _get(conn, context, resource, ident)
            if not resource.writable(context, row):
                raise exception.PolicyDenied(rule=f'delete_{resource.singular}')
            resource.delete(conn, self, context, row)

        self.api_db.run(drop)
        self._refresh(context, resource)

    def _refresh(self, context, resource):
        """What changed is a fact already; a network service that does not answer now mends it at its next
        audit."""
        if self.network_rpc is None:
            return
        try:
            self.network_rpc.refresh_security(context, port_ids=[])
        except exception.Unavailable as error:
            LOG.warning('The network service was not told of a changed %s: %s', resource.singular, error)

    # ---- other documents -----------------------------------------------------------------

    def _index(self, request):
        """What is here; a version document, too, for clients whose catalog names this path."""
        url = request.application_url
        return {'version': documents.version(url),
                'resources': [{'name': resource.singular, 'collection': resource.plural,
                               'links': [{'rel': 'self', 'href': f'{url}/v2.0/{path}'}]}
                              for path, resource in RESOURCES.items()]}

    def _document(self, context, path, request):
        name = '/'.join(path)
        if name == 'extensions':
            return {'extensions': documents.extensions()}
        if path[0] == 'extensions' and len(path) == 2:
            for extension in documents.extensions():
                if extension['alias'] == path[1]:
                    return {'extension': extension}
            raise exception.ExtensionNotFound(alias=path[1])
        if name == 'availability_zones':
            return {'availability_zones': listing.fields(_query(request), documents.zones())}
        if name in documents.EMPTY:
            return {path[-1].replace('-', '_'): []}
        if path[0] == 'quotas':
            return self._quotas(context, path[1:])
        raise exception.NotFound()

    def _quotas(self, context, path):
        if not path:
            return {'quotas': []}
        if path[0] in ('tenant', 'project') and len(path) == 1:
            return {path[0]: {f'{path[0]}_id': context.project_id}}
        if path[0] != context.project_id and not context.is_admin:
            raise exception.NotFound()
        if len(path) == 1 or path[1:] == ['default']:
            return {'quota': quotas.limits(self.conf)}
        if path[1:] == ['details']:
            with self.api_db.reader() as conn:
                return {'quota': quotas.details(conn, self.conf, path[0])}
        raise exception.NotFound()


def _get(conn, context, resource, ident):
    """The row that the caller may see; others' and none are alike."""
    rows = db.page(conn, resource.table, resource.visible(context) & (resource.table.c.id == ident[:255]),
                   [('id', 'asc')], None, 1)
    if not rows:
        raise resource.missing(ident[:255])
    return rows[0]


def _path(request):
    try:
        return [part for part in request.path_info.split('/') if part]
    except UnicodeDecodeError:
        raise exception.NotFound() from None


def _query(request):
    if len(request.query_string) > MAX_QUERY:
        raise exception.BadRequest('The query is too long.')
    try:
        return list(request.GET.items())
    except UnicodeDecodeError:
        raise exception.BadRequest('The query is not UTF-8.') from None


def _only(request, *rows):
    """The rest of the row of the request's method; rows are methods or (method, …)."""
    wanted = 'GET' if request.method == 'HEAD' else request.method
    for row in rows:
        method, *rest = (row,) if isinstance(row, str) else row
        if method == wanted:
            return rest
    raise exception.MethodNotAllowed()


def _body(request, name):
    """The object below the resource's name."""
    if (request.content_length or 0) > MAX_BODY:
        raise exception.TooLarge(limit=MAX_BODY)
    text = request.body_file.read(MAX_BODY + 1)
    if len(text) > MAX_BODY:
        raise exception.TooLarge(limit=MAX_BODY)
    try:
        document = json_text.parse(text)
    except ValueError:
        raise exception.BadRequest('Malformed request body: it is not JSON.')
    if not isinstance(document, dict) or not isinstance(document.get(name), dict):
        raise exception.BadRequest(f"Unable to find '{name}' in request body")
    return document[name]
