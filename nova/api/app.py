"""The compute API, a WSGI application built on nova.web.application."""
import collections.abc
import functools
import importlib
import pkgutil
import re
from wsgiref.types import WSGIEnvironment

from nova import context as nova_context
from nova import exception
from nova.api import build_admission
from nova.api import audit as audited
from nova.api import extensions
from nova.api import faults
from nova.api import idempotency
from nova.api import metrics
from nova.api import rate_limits
from nova.api import version_choices
from nova.api import versions
from nova.api import prefer_wait
from nova.api.request import INNER
from nova.api.request import Request
from nova.api.services import Services
from nova.api.servers import lookup as server_lookup
from nova.db.audit import log
from nova.runtime import encrypted_passwords
from nova.runtime import fairness
from nova.runtime import queues
from nova.web import application
from nova.web import bodies
from nova.web import paste_registry
from nova.web import preferences
from nova.web.mapper import Mapper
from nova.web.mapper import Methods
from nova.web.request import Headers
from nova.web.request import Response
from nova.web.request import decoded_path
from nova.web.routes import Route

__all__ = ('Application', 'Request', 'Response', 'Services', 'all_routes', 'factory', 'public')

_JSON_TYPES = ('application/json', '')
_PROJECT_ID = re.compile(r'[0-9a-f-]{32,36}')     # format of project IDs in Keystone
_PREFIXES = {'v2.1': False, 'v2': True}          # {first segment of the path: whether unknown keys are ignored}
FOLDERS = ('attachments', 'documents', 'flavors', 'groups', 'hosts', 'projects', 'proxies', 'server_actions', 'servers')
OPENAPI = 'openapi.json'              # path of the OpenAPI document at the root and below each version
WAITING_SHARE = 4                     # at most 1 of 4 HTTP threads may wait for the end of a task
GROUPS = 'v3.0'                                  # first segment of the paths of nova.api.groups.groups


def factory(global_conf: dict[str, str], **local: str) -> 'Application':
    """Application factory for Paste."""
    return Application(paste_registry.lookup(global_conf['api_services']))


def public(environ: WSGIEnvironment) -> bool:
    """Return whether a request needs no token: its path has no version, or names a version or OpenAPI document."""
    parts = environ.get('PATH_INFO', '').strip('/').split('/')       # an empty path names a version document
    if parts[0] in _PREFIXES:
        parts = parts[1:]
    elif _prefix_of_script(environ) is None:
        return parts[0] != GROUPS
    return parts in ([], [''], ['.json'], [OPENAPI])


@functools.cache
def all_routes() -> tuple[Route, ...]:
    """Return the routes of every module in the folders of nova.api."""
    rows: list[Route] = []
    for folder in FOLDERS:
        package = importlib.import_module(f'nova.api.{folder}')
        for found in sorted(module.name for module in pkgutil.iter_modules(package.__path__)):
            rows += getattr(importlib.import_module(f'{package.__name__}.{found}'), 'ROUTES', ())
    return tuple(rows)


class ComputeApi(application.Api[Request]):
    """The compute API as part of the HTTP application: paths below /v2.1, /v2 and /v3.0, and the root.

    :param services: Services
    :param routes: Route rows
    """

    def __init__(self, services: Services, routes: collections.abc.Iterable[Route]) -> None:
        self._plugins = extensions.load()
        self.services, self.routes = services, tuple(extensions.without_conflicts(routes, self._plugins))
        self.mapper = Mapper([row for row in self.routes if row.api])
        self._root = Mapper([row for row in self.routes if not row.api])
        self.max_body = services.conf.api.max_request_body_size
        self._waits = prefer_wait.PreferWait(services.cells, max(2, services.conf.http.threads // WAITING_SHARE))

    def path(self, environ: WSGIEnvironment) -> str:
        return decoded_path(environ)                 # raises BadRequest if the path is not text

    def request(self, environ: WSGIEnvironment) -> Request:
        req = Request(environ, self.services)
        if req.context is not None:
            if self.services.notifier.on:
                req.context.observer = self.services.notifier
            if req.of_ec2:                           # the token of a separate nova-api-ec2 has this role
                req.context.service_roles = ['service']
        return req

    # ---- routing ---------------------------------------------------------------

    def find(self, req: Request) -> tuple[Methods | None, list[str]] | Response:
        path, mounted = req.path, _prefix_of_script(req.environ)
        if path.strip('/') in _PREFIXES and not path.endswith('/') or not path and mounted:
            return Response(b'', 302, [('Location', f'{req.host_url}/{path.strip("/") or mounted}/')])
        segments = application.segments_of(path)
        prefix = segments.pop(0) if segments and segments[0] in _PREFIXES else mounted
        if segments and segments[-1] == '.json':
            segments.pop()
        if prefix is None:
            methods, values = self._find(self._root, req, segments)
            if methods is None and segments[:1] == [GROUPS]:
                raise exception.NotFound()
            if methods is not None:
                req.segments = segments[2:]
                return methods, values
            prefix = version_choices.version_of(req.environ)
            if prefix is None:
                return version_choices.answer(req, segments)
        req.relaxed, req.base_path = _PREFIXES[prefix], '/' + prefix
        if segments == [OPENAPI]:
            req.segments = segments
            return self._find(self._root, req, segments)
        if segments and not self.mapper.knows(segments[0]) and (
                not segments[0].endswith('.json') or not self.mapper.knows(segments[0][:-5])):
            self._take_project(req, segments)
        req.segments = segments
        return self._find(self.mapper, req, segments)

    @staticmethod
    def _take_project(req: Request, segments: list[str]) -> None:
        """Remove the project ID from the front of a path.

        :raises NotFound: the path is empty
        :raises BadRequest: the path names a project other than the caller's
        """
        project = segments.pop(0)
        if req.context is None:
            raise exception.Unauthorized()
        if not segments or not (project == req.context.project_id or _PROJECT_ID.fullmatch(project)):
            raise exception.NotFound()
        if project != req.context.project_id:
            raise exception.BadRequest('Malformed request URL: its project ID differs from that of the token.')
        req.project_in_path = '/' + project

    @staticmethod
    def _find(mapper: Mapper, req: Request, segments: list[str]) -> tuple[Methods | None, list[str]]:
        methods, values = mapper.find(segments, req.method)
        if methods is None and segments and segments[-1].endswith('.json'):
            methods, values = mapper.find([*segments[:-1], segments[-1][:-5]], req.method)
        return methods, values

    def refuse_method(self, req: Request, methods: Methods) -> Exception:
        if req.method == 'DELETE' and req.environ['PATH_INFO'].endswith('/'):
            return exception.NotFound()       # 404, not 405: the path ends with an empty ID
        return super().refuse_method(req, methods)

    def negotiate(self, req: Request) -> None:
        if not req.relaxed:
            req.version = versions.negotiate(req.environ)

    def set_retry_path(self, req: Request) -> bool:
        """Remove the suffix .json from the path of a GET request; return False if nothing was removed.

        A request is first routed with the suffix, because the suffix may be part of an ID.
        """
        if req.method != 'GET' or not req.path.endswith('.json'):
            return False
        req.path = req.path[:-5]
        return True

    # ---- authorization ---------------------------------------------------------

    def admit(self, req: Request, row: Route, parts: application.Parts) -> None:
        if self.services.rates and req.context is not None and not row.public and not req.environ.get(INNER):
            self.services.rates.check(req.context, req.environ, req.segments,
                                      exception.RateLimited if req.has('keypair_types') else exception.OverLimit)
        try:
            _check_scope(req.context, row)
        except exception.ProjectNeeded:
            audited.begin_refused(req, row, parts)
            raise

    def read(self, req: Request, row: Route) -> bytes:
        raw = bodies.read(req.environ, self.max_body)
        if raw and req.content_type.lower() not in _JSON_TYPES:
            raise exception.UnsupportedMediaType()
        return raw

    def check(self, req: Request, row: Route, parts: application.Parts) -> None:
        self._plugins.run(req)

    def authorize(self, req: Request, row: Route, parts: application.Parts) -> None:
        req.environ[metrics.ROUTE] = row
        _check_scope(req.context, row)
        audited.begin(req, parts, row.code(req.version))
        if row.policy is not None:
            req.authorize(row.policy)

    # ---- response --------------------------------------------------------------

    def perform(self, req: Request, raw: bytes, work: application.Work) -> Response:
        if req.record is None:               # the request is not audited
            return self._carry_out(req, work)
        recorded = audited.recorded(req, functools.partial(self._carry_out, req, work))
        if idempotency.wanted(req.environ, req.route):
            response = idempotency.serve(req, bodies.parse(raw) if raw else None, recorded)
        else:
            response = recorded()
        return self._waits.answer(req, response) if preferences.HEADER in req.environ else response

    def _carry_out(self, req: Request, work: application.Work) -> Response:
        try:
            return self.answer(req, work())
        except (exception.InstanceNotFound, exception.InstanceChanged):
            if not server_lookup.has_moved(req):
                raise
        req.found_in.clear()                 # the server moved from cell0 to the cell of its host during the request
        return self.answer(req, work())

    def headers(self, req: Request) -> Headers:
        return versions.headers(req.version) if req.route.api and not req.relaxed else []

    def fault(self, req: Request, error: Exception) -> Response:
        code, headers, body = faults.answer(error, req.request_id, req.header('Accept-Language'))
        if req.route is None and code == 406:
            headers.append(('Vary', versions.VARY))
        elif not req.relaxed:
            headers += versions.headers(req.version)
        return Response(body, code, headers)

    def finish(self, req: Request, code: int, headers: Headers,
               error: Exception | None) -> Headers:
        audited.finish(req, code, error, headers)
        return request_id_headers(req.request_id)


class Application(application.Application):
    """The compute API as a WSGI callable.

    :param services: Services; the application adds its own members
    :param routes: Route rows; default: the routes of all resources
    """

    def __init__(self, services: Services, routes: collections.abc.Iterable[Route] | None = None) -> None:
        self.services = services
        super().__init__(ComputeApi(services, all_routes() if routes is None else routes))
        if extensions.load().rules:
            services.policy.add(extensions.load().rules)
        services.application = self
        services.passwords = encrypted_passwords.Passwords(services.conf)
        services.streams = fairness.ConcurrencyLimit(queues.EVENT_STREAMS, services.conf.api.event_streams)
        services.builds = build_admission.BuildAdmission(services.conf.api.max_waiting_builds)
        services.auditor = log.Auditor(services.api_db, services.notifier)
        services.rates = rate_limits.RateLimits(services.conf.api.rate_limits, services.api_db)


def _check_scope(context: nova_context.RequestContext | None, row: Route) -> None:
    """Refuse a caller without a token or without a project.

    :raises Unauthorized: the request has no valid token
    :raises ProjectNeeded: the token has no project, and the operation concerns resources of a project
    """
    if row.public:
        return
    if context is None:
        raise exception.Unauthorized()
    if not row.any_scope:
        context.require_project()


def _prefix_of_script(environ: WSGIEnvironment) -> str | None:
    """Return 'v2.1' or 'v2' if a URL map moved this segment of the path into SCRIPT_NAME, else None."""
    last = environ.get('SCRIPT_NAME', '').rstrip('/').rpartition('/')[2]
    return last if last in _PREFIXES else None


def request_id_headers(request_id: str) -> list[tuple[str, str]]:
    return [('x-openstack-request-id', request_id), ('x-compute-request-id', request_id)]
