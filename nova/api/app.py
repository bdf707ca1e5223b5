"""The compute API as a WSGI application: the walk of every request, in one place.

path → row → version → caller → policy → body and query → handler → JSON. What a step refuses is an exception,
and ``faults`` makes the answer of it.
"""
import dataclasses
import functools
import http
import importlib
import logging
import pkgutil
import re
import weakref

import orjson

from nova import context as nova_context
from nova import exception
from nova import notify
from nova.api import admission
from nova.api import audit as audited
from nova.api import faults
from nova.api import idempotency
from nova.api import metrics
from nova.api import rate_limits
from nova.api import routing
from nova.api import version_choices
from nova.api import versions
from nova.api.request import INNER
from nova.api.request import Request
from nova.api.request import Response
from nova.api.request import Stream
from nova.api.request import Streams
from nova.api.servers import lookup as server_lookup
from nova.db.audit import log
from nova.hardware import pci_spec
from nova.share import api as share_api

__all__ = ('Application', 'Request', 'Response', 'Services', 'all_routes', 'factory', 'offer', 'offered', 'public')

LOG = logging.getLogger(__name__)

MAX_DEPTH = 32                    # nested objects and lists of a body
_JSON_TYPES = ('application/json', '')
_STATUS = {status.value: f'{status.value} {status.phrase}' for status in http.HTTPStatus}
_PROJECT_ID = re.compile(r'[0-9a-f-]{32,36}')     # what a project's id looks like in Keystone
_PREFIXES = {'v2.1': False, 'v2': True}          # first segment of a path: relaxed validation?
FOLDERS = ('attachments', 'documents', 'flavors', 'groups', 'hosts', 'projects', 'proxies', 'server_actions', 'servers')
GROUPS = 'v3.0'                                  # first segment of the paths of nova.api.groups.groups


@dataclasses.dataclass
class Services:
    """What handlers may use; ``req.services``.

    conf       the configuration
    api_db     nova.db.engine.Database of the API database
    cells      nova.db.cells.cells.cells.cells.Cells: .default, .get(uuid), .all() of Cell(uuid, name, db)
    policy     nova.policy.Policy
    conductor, compute, network, scheduler   RPC clients: client.method(ctx, server=None, **arguments)
    images     nova.image.api facade: show, list, create, update, delete
    networks   nova.network.api facade
    volumes    nova.volume.api.Volumes
    shares     nova.share.api.Shares
    rates      nova.api.rate_limits.RateLimits; the Application sets it
    application   the Application itself, for operations that ask for others
    streams    request.Streams: the event streams that are open
    builds     admission.Builds; the Application sets it
    auditor    nova.db.audit.records.records.log.Auditor; the Application sets it
    notifier   nova.notify: who is told of what the API does
    """

    conf: object
    api_db: object
    cells: object
    policy: object
    conductor: object = None
    compute: object = None
    network: object = None
    scheduler: object = None
    images: object = None
    networks: object = None
    volumes: object = None
    shares: object = share_api.NoShares()
    rates: object = None
    application: object = None
    streams: object = None
    builds: object = None
    auditor: object = None
    notifier: object = notify.OFF

    @functools.cached_property
    def pci_aliases(self):
        """{name: virt.hardware.pci_spec.Alias} of the configuration.

        :raises InvalidInput: it is not of the form
        """
        return pci_spec.configured(pci_spec.aliases, self.conf.pci.alias)

    def check(self):
        """Read now what a request would be the first to read, so that a mistake fails the start and not the request.

        :raises InvalidInput: the configuration is not of the form
        """
        return self.pci_aliases


# Paste hands over strings alone: the services of this process by name, for as long as somebody keeps them.
_offered = weakref.WeakValueDictionary()


def offer(services):
    """A name of Services, to be given as ``api_services`` in the ``global_conf`` of paste's loadapp."""
    name = f'api-{id(services)}'
    _offered[name] = services
    return name


def offered(global_conf):
    """The Services that whoever loads a pipeline has offered."""
    return _offered[global_conf['api_services']]


def factory(global_conf, **local):
    """Paste's application factory."""
    return Application(offered(global_conf))


def public(environ):
    """Whether a request is for a version document, or to find out which versions there are: it needs no token."""
    parts = environ.get('PATH_INFO', '').strip('/').split('/')       # '' is a version document wherever it is mounted
    if parts[0] in _PREFIXES:
        parts = parts[1:]
    elif _prefix_of_script(environ) is None:
        return parts[0] != GROUPS
    return parts in ([], [''], ['.json']) or parts[0] in ('versions', 'versions.json') and len(parts) <= 2


def all_routes():
    """The rows of every module in the folders of nova.api."""
    rows = []
    for folder in FOLDERS:
        package = importlib.import_module(f'nova.api.{folder}')
        for found in sorted(module.name for module in pkgutil.iter_modules(package.__path__)):
            rows += getattr(importlib.import_module(f'{package.__name__}.{found}'), 'ROUTES', ())
    return rows


class Application:
    """The WSGI callable.

    Middleware before it puts the caller into ``environ['nova.context']``.

    :param services: Services
    :param routes: Route rows; None: those of every resource
    """

    def __init__(self, services, routes=None):
        self.services = services
        self.routes = list(all_routes() if routes is None else routes)
        self._tree = routing.Tree([row for row in self.routes if row.api])
        self._root = routing.Tree([row for row in self.routes if not row.api])
        self._max_body = services.conf.api.max_request_body_size
        services.application = self
        services.streams = Streams(services.conf.api.event_streams)
        services.builds = admission.Builds(services.conf.api.max_waiting_builds)
        services.auditor = log.Auditor(services.api_db, services.notifier)
        services.rates = rate_limits.RateLimits(services.conf.api.rate_limits, services.api_db)

    def __call__(self, environ, start_response):
        req = Request(environ, self.services)
        req.request_id = request_id_of(environ)
        try:
            code, headers, body = self._serve(req)
        except Exception as error:
            code, headers, body = faults.answer(error, req.request_id, environ.get('HTTP_ACCEPT_LANGUAGE', ''))
            audited.finish(req, code, error)
            body = orjson.dumps(body)
            if req.route is None and code == 406:
                headers.append(('Vary', versions.VARY))
            else:
                headers += versions.headers(req.version) if not req.relaxed else []
        else:
            audited.finish(req, code, headers=headers)
        headers += request_id_headers(req.request_id)
        if isinstance(body, Stream):
            headers += [('Content-Type', body.content_type), ('Cache-Control', 'no-store')]
        elif body or code not in (204, 304):
            headers += [('Content-Type', 'application/json'), ('Content-Length', str(len(body)))]
        start_response(_STATUS.get(code) or f'{code} Unknown', headers)
        if environ['REQUEST_METHOD'] == 'HEAD':
            if isinstance(body, Stream):
                body.close()
            return []
        return body if isinstance(body, Stream) else [body]

    def _serve(self, req):
        environ = req.environ
        context = environ.get('nova.context')
        if context is not None:
            req.context = context
            if self.services.notifier.on:
                context.observer = self.services.notifier
        path = decoded_path(environ)
        if path.strip('/') in _PREFIXES and not path.endswith('/') or not path and _prefix_of_script(environ):
            return 302, [('Location', f'{req.host_url}/{path.strip("/") or _prefix_of_script(environ)}/')], b''
        try:
            return self._dispatch(req, context, path)
        except exception.NotFound:
            # An id may end so itself; what is not there under it is meant in that format.
            if environ['REQUEST_METHOD'] not in ('GET', 'HEAD') or not path.endswith('.json'):
                raise
        return self._dispatch(req, context, path[:-5])

    def _dispatch(self, req, context, path):
        environ = req.environ
        methods, values, segments = self._match(req, context, path)
        if methods is None:
            return version_choices.answer(req, segments)
        rows = self._rows_of_method(req, methods)
        if not req.relaxed:
            req.version = versions.negotiate(environ)
        if self.services.rates and context is not None and not rows[0][0].public and INNER not in environ:
            self.services.rates.check(req, segments if rows[0][0].api else segments[2:])
        try:
            _check_scope(context, rows[0][0])
        except exception.ProjectNeeded:
            audited.begin_refused(req, rows[0][0], dict(zip(rows[0][1], values)))
            raise
        raw = document = None
        if environ['REQUEST_METHOD'] in ('POST', 'PUT', 'PATCH'):
            raw = self._read(environ)
            document = parse_json(raw) if rows[0][0].action is not None else None
        req.route, names = row, names = routing.choose(rows, req.version, document)
        environ[metrics.ROUTE] = row
        _check_scope(context, row)
        audited.begin(req, dict(zip(names, values)), status_of(row, req.version))
        if row.policy is not None:
            req.authorize(row.policy)
        if row.query is not None:
            req.query = row.query.validate(environ.get('QUERY_STRING', ''), req.version, req.relaxed)
        if row.body is not None:
            body = parse_json(raw) if document is None else document
            req.body = row.body.validate(body, req.version, req.relaxed)

        def work():
            try:
                return self._answer(req, row, row.handler(req, **dict(zip(names, values))))
            except (exception.InstanceNotFound, exception.InstanceChanged):
                if not server_lookup.has_moved(req):
                    raise
            req.found_in.clear()                 # it got its host, and with it another cell, while it was looked for
            return self._answer(req, row, row.handler(req, **dict(zip(names, values))))
        if idempotency.wanted(environ, row):
            return idempotency.serve(req, parse_json(raw) if raw else None, audited.recorded(req, work))
        return audited.recorded(req, work)()

    def _match(self, req, context, path):
        """({method: rows}, values of the parts, segments) of the request's path; segments are those below the version
        and the project. No rows for a path that names no version.

        :raises NotFound: nothing is there
        :raises BadRequest: it names another project than the caller's
        """
        segments = path.strip('/').split('/') if path.strip('/') else []
        named = bool(segments) and segments[0] in _PREFIXES
        prefix = segments.pop(0) if named else _prefix_of_script(req.environ)
        if segments and segments[-1] == '.json':
            segments.pop()
        if prefix is None:
            methods, values = self._find(self._root, req, segments)
            if methods is None and segments[:1] == [GROUPS]:
                raise exception.NotFound()
            prefix = None if methods else version_choices.version_of(req.environ)
            if prefix is None:
                return methods, values, segments
        req.relaxed, req.base_path = _PREFIXES[prefix], '/' + prefix
        if segments and not self._tree.knows(segments[0]) and (
                not segments[0].endswith('.json') or not self._tree.knows(segments[0][:-5])):
            project = segments.pop(0)
            if context is None:
                raise exception.Unauthorized()
            if not segments or not (project == context.project_id or _PROJECT_ID.fullmatch(project)):
                raise exception.NotFound()
            if project != context.project_id:
                raise exception.BadRequest('Malformed request url: the project id in it is not the one '
                                           'of the token.')
            req.project_in_path = '/' + project
        methods, values = self._find(self._tree, req, segments)
        if methods is None:
            raise exception.NotFound()
        return methods, values, segments

    @staticmethod
    def _find(tree, req, segments):
        methods, values = tree.find(segments, req.method)
        if methods is None and segments and segments[-1].endswith('.json'):
            methods, values = tree.find([*segments[:-1], segments[-1][:-5]], req.method)
        return methods, values

    @staticmethod
    def _rows_of_method(req, methods):
        rows = methods.get(req.method)
        if rows is None and req.method == 'DELETE' and req.environ['PATH_INFO'].endswith('/'):
            raise exception.NotFound()       # an id that is empty
        if rows is None:
            raise exception.MethodNotAllowed(allow=sorted(methods))
        return rows

    def _read(self, environ):
        raw = read_body(environ, self._max_body)
        if raw and environ.get('CONTENT_TYPE', '').partition(';')[0].strip().lower() not in _JSON_TYPES:
            raise exception.UnsupportedMediaType()
        return raw

    @staticmethod
    def _answer(req, row, result):
        headers, body, code = [], result, None
        if isinstance(result, Response):
            body, code = result.body, result.status
            headers += result.headers
        code = code or status_of(row, req.version)
        if row.api and not req.relaxed:
            headers += versions.headers(req.version)
        if not isinstance(body, (bytes, Stream)):
            body = b'' if body is None else orjson.dumps(body)
        return code, headers, body


def _check_scope(context, row):
    """Let nobody in who cannot be: the one place for all operations of this API.

    :raises Unauthorized: there is no caller
    :raises ProjectNeeded: the caller's token has no project, and the operation is about what belongs to one
    """
    if row.public:
        return
    if context is None:
        raise exception.Unauthorized()
    if not row.any_scope:
        context.require_project()


def _prefix_of_script(environ):
    """'v2.1' or 'v2' when a URL map has moved it into SCRIPT_NAME, else None."""
    last = environ.get('SCRIPT_NAME', '').rstrip('/').rpartition('/')[2]
    return last if last in _PREFIXES else None


def read_body(environ, most):
    """The bytes of a request's body.

    :raises TooLarge: there are more than ``most``
    """
    length = environ.get('CONTENT_LENGTH') or ''
    if length:
        if not (length.isascii() and length.isdigit()) or len(length) > 18:
            raise exception.BadRequest('Content-Length is not a number.')
        if int(length) > most:
            raise exception.TooLarge(limit=most)
        return environ['wsgi.input'].read(int(length))
    if environ.get('wsgi.input_terminated') or 'chunked' in environ.get('HTTP_TRANSFER_ENCODING', ''):
        raw = environ['wsgi.input'].read(most + 1)
        if len(raw) > most:
            raise exception.TooLarge(limit=most)
        return raw
    return b''


def status_of(row, version):
    """The code of success of a row at a version."""
    if isinstance(row.status, int):
        return row.status
    return row.status[max(since for since in row.status if since <= version)]


def decoded_path(environ):
    path = environ.get('PATH_INFO', '')
    if not path.isascii():
        try:
            path = path.encode('latin-1').decode()
        except UnicodeError:
            raise exception.BadRequest('The path is not UTF-8 encoded.') from None
    if '\0' in path:
        raise exception.BadRequest('The path has a NUL character.')
    return path


def parse_json(raw):
    """The object that a body holds.

    :raises BadRequest: it is no JSON object, or nested too deeply, or has NUL characters
    """
    if not raw:
        raise exception.BadRequest('Malformed request body: there is none.')
    try:
        body = orjson.loads(raw)
    except ValueError:                      # also NaN, Infinity, bytes that are not UTF-8
        raise exception.BadRequest('Malformed request body: it is not JSON.') from None
    if not isinstance(body, dict):
        raise exception.BadRequest('Malformed request body: it is not a JSON object.')
    if raw.count(b'{') + raw.count(b'[') > MAX_DEPTH or b'\\u0000' in raw:
        _inspect(body)
    return body


def _inspect(body):
    """Refuse what few bodies can have: too many levels, and NUL characters, which databases do not take."""
    level, depth = [body], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise exception.BadRequest(f'Malformed request body: it has more than {MAX_DEPTH} levels.')
        inner = []
        for value in level:
            items = [*value, *value.values()] if isinstance(value, dict) else value
            if any(isinstance(item, str) and '\0' in item for item in items):
                raise exception.BadRequest('Malformed request body: it has a NUL character.')
            inner += [item for item in items if isinstance(item, (dict, list))]
        level = inner


def request_id_headers(request_id):
    return [('x-openstack-request-id', request_id), ('x-compute-request-id', request_id)]


def request_id_of(environ):
    """The id under which a request is answered and logged."""
    context = environ.get('nova.context')
    if context is not None:
        return context.request_id
    return environ.get('openstack.request_id') or nova_context.new_request_id()
