"""HTTP API of the embedded block storage: the Block Storage API v3.

The preceding middleware sets ``environ['nova.context']``. Operations are in handlers.ROUTES.
"""
from __future__ import annotations

import re
import typing

from nova import exception
from nova.db.audit import log
from nova.volume.rest import handlers
from nova.volume.rest import views
from nova.volume.rest.request import VolumeRequest
from nova.web import application
from nova.web import faults
from nova.web import params
from nova.web.mapper import Methods
from nova.web.request import Headers
from nova.web.request import Response
from nova.web.routes import Route
from nova.web.versions import Microversions

if typing.TYPE_CHECKING:
    from nova.volume.embedded import EmbeddedVolumes

_PART = re.compile(r'\{\w+\}')
VOLUME = Microversions('volume', 3, 0, views.MAX_VERSION, other_major=exception.BadRequest)


class VolumeApi(application.Api[VolumeRequest]):
    """Paths below /v3, and below /v3/{project id}."""

    def __init__(self, store: EmbeddedVolumes) -> None:
        super().__init__(handlers.ROUTES)
        self._store = store

    def request(self, environ: dict[str, typing.Any]) -> VolumeRequest:
        return VolumeRequest(environ, self._store)

    def find(self, req: VolumeRequest) -> tuple[Methods | None, list[str]] | Response:
        req.microversion = VOLUME.negotiate(req.environ)
        segments = [segment for segment in req.path.split('/') if segment]
        if segments in ([], ['v3']):
            if req.method != 'GET':
                raise exception.MethodNotAllowed()
            return Response({'versions': [views.version(req.root_url)]}, 200)
        if segments.pop(0) != 'v3':
            raise exception.NotFound()
        if req.context is None:
            raise exception.Unauthorized()
        if not req.context.project_id:
            log.named(f'volume:{req.method.lower()}')
        req.context.require_project()
        named = segments.pop(0) if not self.mapper.knows(segments[0]) else req.context.project_id
        if named != req.context.project_id:
            # otherwise it would list the administrator's project
            if req.context.is_admin and segments and self.mapper.knows(segments[0]):
                raise exception.BadRequest('The project in the URL differs from the token. Administrators select '
                                           'projects in the query of lists (all_tenants, project_id).')
            raise exception.NotFound()
        return self.mapper.find(segments, req.method)

    def authorize(self, req: VolumeRequest, row: Route, parts: application.Values) -> None:
        name, values = 'volume:' + row.handler.__name__, [*parts.values(), None, None]
        log.named(name, code=row.status, target_type=row.path.split('/')[1], target_id=values[0],
                  target_part=values[1], route='/v3' + _PART.sub('{id}', row.path))
        if row.method != 'GET' and not req.context.may_write() or not req.satisfies(row.policy):
            raise exception.PolicyDenied(rule=name)
        req.query = params.parse_plain(req.environ)

    def check(self, req: VolumeRequest, row: Route, parts: application.Values) -> None:
        if not req.trusted:
            handlers.check_shown(req, row, parts)

    def fault(self, req: VolumeRequest, error: Exception) -> Response:
        code, message, _english = faults.explain(error, req.environ.get('openstack.request_id'))
        if isinstance(error, exception.QuotaExceeded):
            code = 413                   # as documented for this API
        return Response(faults.document(code, message), code)

    def finish(self, req: VolumeRequest, code: int, headers: Headers,
               error: Exception | None) -> Headers:
        return VOLUME.headers(req.microversion)


def Application(store: EmbeddedVolumes) -> application.Application:
    """Return the WSGI application, to be mounted at /volume."""
    return application.Application(VolumeApi(store))
