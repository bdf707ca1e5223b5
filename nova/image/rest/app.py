"""HTTP API of the embedded image service: the Image API v2.

Middleware in front of this application sets ``environ['nova.context']``. Paths, status codes and documents follow the
published Image API; operations are in handlers.ROUTES.
"""
from __future__ import annotations

import re
import typing
from wsgiref.types import WSGIEnvironment

from nova import exception
from nova.db.audit import log
from nova.image.embedded import metadefs
from nova.image.rest import handlers
from nova.image.rest import openapi
from nova.image.rest import views
from nova.image.rest.request import ImageRequest
from nova.web import application
from nova.web import faults
from nova.web.mapper import Methods
from nova.web.request import BaseRequest
from nova.web.request import Response
from nova.web.routes import Route

if typing.TYPE_CHECKING:
    from nova.image.embedded.service import Store

_VERSIONS = {'': 300, '/v2': 300, '/versions': 200, '/v2/versions': 200}  # {path of a version document: status code}
_PART = re.compile(r'\{\w+\}')


class ImageApi(application.Api[ImageRequest]):
    """Dispatch of requests to the operations of the Image API."""

    content_type = 'application/json; charset=UTF-8'

    def __init__(self, store: Store) -> None:
        super().__init__(handlers.ROUTES)
        self.store, self._metadefs = store, metadefs.Metadefs(store.db, store.policy)

    def request(self, environ: WSGIEnvironment) -> ImageRequest:
        return ImageRequest(environ, self.store, self._metadefs)

    def find(self, req: ImageRequest) -> tuple[Methods | None, list[str]] | Response:
        path = req.path.rstrip('/')
        if path in _VERSIONS:
            return Response(views.versions(req.root_url.rstrip('/')), _VERSIONS[path])
        if path == '/openapi.json' and req.method == 'GET':
            return openapi.DESCRIBER.response(req, handlers.ROUTES)
        if req.environ['REQUEST_METHOD'] == 'HEAD':
            methods, values = self.mapper.find(application.segments_of(req.path), req.method)
            return {name: rows for name, rows in methods.items() if name != 'GET'} if methods else None, values
        return super().find(req)

    def authorize(self, req: ImageRequest, row: Route, parts: application.Parts) -> None:
        values = [*parts.values(), None, None]
        log.named(f'image:{row.called}', route=_PART.sub('{id}', row.path), code=row.status,
                  target_type='metadefs' if 'namespace' in parts else 'images', target_id=values[0],
                  target_part=values[1])
        if req.context is None:
            raise exception.Unauthorized()
        if not row.any_scope:
            req.context.require_project()
        if row.policy is not None:
            self.store.policy.authorize(req.context, row.policy, {
                'project_id': req.context.project_id, 'user_id': req.context.user_id})

    def fault(self, req: BaseRequest, error: Exception) -> Response:
        code, message, _english = faults.explain(error, req.environ.get('openstack.request_id'))
        if isinstance(error, exception.QuotaExceeded):
            code = 413                   # the Image API documents 413 for exceeded quotas
        return handlers.fault(code, message, getattr(error, 'kwargs', {}).get('allow'))


def Application(store: Store) -> application.Application:
    """Return the WSGI application, to be mounted at /image."""
    return application.Application(ImageApi(store))
