"""HTTP API of the embedded key manager: the Key Manager API v1 (Barbican).

The preceding middleware sets ``environ['nova.context']``. Operations are in handlers.ROUTES.
"""
from __future__ import annotations

import re
from typing import TYPE_CHECKING
from wsgiref.types import WSGIEnvironment

from nova import exception
from nova.db.audit import log
from nova.keymanager.rest import handlers
from nova.keymanager.rest import openapi
from nova.keymanager.rest.openapi import MICROVERSIONS
from nova.keymanager.rest.request import KeyManagerRequest
from nova.keymanager.rest.request import MAX_BODY
from nova.web import application
from nova.web import faults
from nova.web import params
from nova.web.request import Response

if TYPE_CHECKING:
    from nova.json_types import JsonObject
    from nova.keymanager.store import KeyStore
    from nova.policy import Policy
    from nova.web.mapper import Methods
    from nova.web.request import BaseRequest
    from nova.web.request import Headers
    from nova.web.routes import Route

TYPES = ('key-manager',)                 # service type in the catalog
PATH = '/key-manager'
DOCUMENT = 'openapi.json'                # path of the OpenAPI document below the mount point
_PART = re.compile(r'\{\w+\}')
_DOCUMENT_QUERY = params.Query(params.Param('microversion', {'type': 'string'}, since=0), closed=0)


def version(url: str) -> JsonObject:
    """Return the version document.

    :param url: root of the service
    """
    return {'id': 'v1', 'status': 'CURRENT', 'min_version': MICROVERSIONS.text(MICROVERSIONS.minimum),
            'max_version': MICROVERSIONS.text(MICROVERSIONS.maximum),
            'links': [{'rel': 'self', 'href': f'{url.rstrip("/")}/v1/'}], 'media-types': [
                {'base': 'application/json', 'type': 'application/vnd.openstack.key-manager-v1+json'}]}


def is_public(environ: WSGIEnvironment) -> bool:
    """Return whether a request is for a version document or the OpenAPI document, which need no token."""
    return environ.get('PATH_INFO', '').rstrip('/') in ('', '/v1', '/' + DOCUMENT)


class KeyManagerApi(application.Api[KeyManagerRequest]):
    """Paths below /v1.

    :param rules: policy.Policy of the Key Manager API
    """

    max_body = MAX_BODY

    def __init__(self, store: KeyStore, rules: Policy) -> None:
        super().__init__(handlers.ROUTES)
        self._store, self._policy = store, rules

    def request(self, environ: WSGIEnvironment) -> KeyManagerRequest:
        return KeyManagerRequest(environ, self._store, self._policy)

    def find(self, req: KeyManagerRequest) -> tuple[Methods | None, list[str]] | Response:
        segments = application.segments_of(req.path)
        req.version = MICROVERSIONS.negotiate(req.environ)
        if segments in ([], ['v1']):
            if req.method != 'GET':
                raise exception.MethodNotAllowed()
            found = version(req.root_url)
            return Response({'version': found} if segments else {'versions': [found]}, 200 if segments else 300)
        if segments == [DOCUMENT] and req.method == 'GET':
            wanted = _DOCUMENT_QUERY.validate(req.environ.get('QUERY_STRING', ''), 0).one('microversion', 'latest')
            return openapi.DESCRIBER.response(req, handlers.ROUTES, MICROVERSIONS.parse(wanted), MICROVERSIONS.vary)
        if (req.method == 'PUT' and len(segments) == 3 and segments[:2] == ['v1', 'secrets']
                and req.header('Content-Encoding').lower() == 'base64'):
            # Content-Encoding describes the payload here, not the transfer
            req.is_base64 = True
            del req.environ['HTTP_CONTENT_ENCODING']
        return self.mapper.find(segments, req.method)

    def authorize(self, req: KeyManagerRequest, row: Route, parts: application.Parts) -> None:
        values = [*parts.values(), None, None]
        log.named(f'key_manager:{row.called}', route=_PART.sub('{id}', row.path), code=row.status,
                  target_type=row.path.split('/')[2], target_id=values[0], target_part=values[1])
        if req.context is None:
            raise exception.Unauthorized()
        req.context.require_project()
        if row.policy is not None:
            req.authorize(row.policy)
        if row.query is None:
            params.Query(closed=0).validate(req.environ.get('QUERY_STRING', ''), req.version)
        if row.method in ('POST', 'PUT', 'PATCH') and not row.streams and req.content_type not in (
                '', application.JSON):
            raise exception.UnsupportedMediaType()

    def fault(self, req: BaseRequest, error: Exception) -> Response:
        code, message, _english = faults.explain(error, req.environ.get('openstack.request_id'))
        return Response(openapi.fault(code, message), code)

    def finish(self, req: KeyManagerRequest, code: int, headers: Headers, error: Exception | None) -> Headers:
        return MICROVERSIONS.headers(req.version)


def Application(store: KeyStore, rules: Policy) -> application.Application:
    """Return the WSGI application, to be mounted at PATH; the parameters are those of KeyManagerApi."""
    return application.Application(KeyManagerApi(store, rules))
