"""HTTP API of the embedded block storage: the Block Storage API v3.

The preceding middleware sets ``environ['nova.context']``. Operations are in handlers.ROUTES.
"""
from __future__ import annotations

from collections.abc import Mapping
import re
import typing
from wsgiref.types import WSGIEnvironment

from nova import exception
from nova import policies
from nova import policy
from nova.db.audit import log
from nova.db.volumes import volumes as db
from nova.json_types import JsonObject
from nova.volume.rest import handlers
from nova.volume.rest import listing
from nova.volume.rest import openapi
from nova.volume.rest.openapi import MICROVERSIONS
from nova.volume.rest.request import VolumeRequest
from nova.web import application
from nova.web import faults
from nova.web import params
from nova.web.mapper import Methods
from nova.web.request import Headers
from nova.web.request import Response
from nova.web.routes import Route

if typing.TYPE_CHECKING:
    from nova.volume.embedded import EmbeddedVolumes

_PART = re.compile(r'\{\w+\}')
# {segment of a path: name of a feature that this service does not support}
_CINDER = {'group_types': 'groups of volumes', 'group_snapshots': 'groups of volumes',
           'workers': 'cleanup of workers'}
# {segment of a path: unsupported feature}; GET requests at these paths return an empty list
_NOT_WRITTEN = {'groups': 'groups of volumes', 'consistencygroups': 'groups of volumes'}
DOCUMENT = 'openapi.json'            # path below the mount point
_DOCUMENT_QUERY = listing.Query('microversion')


def version(url: str) -> JsonObject:
    """Return the version document.

    :param url: root of the service
    """
    return {'id': 'v3.0', 'status': 'CURRENT', 'version': MICROVERSIONS.text(MICROVERSIONS.maximum),
            'min_version': '3.0', 'updated': '2023-08-31T00:00:00Z', 'links': [{'rel': 'self', 'href': f'{url}/v3/'}],
            'media-types': [{'base': 'application/json', 'type': 'application/vnd.openstack.volume+json;version=3'}]}


class VolumeApi(application.Api[VolumeRequest]):
    """Block Storage API, with paths below /v3 and below /v3/{project id}.

    :param rules: policy.Policy of the block storage API; None: its defaults
    """

    def __init__(self, store: EmbeddedVolumes, rules: policy.Policy | None = None) -> None:
        super().__init__(handlers.ROUTES)
        self._store, self._policy = store, rules or policy.Policy(None, policies.BLOCK_STORAGE)

    def request(self, environ: WSGIEnvironment) -> VolumeRequest:
        return VolumeRequest(environ, self._store, self._policy)

    def find(self, req: VolumeRequest) -> tuple[Methods | None, list[str]] | Response:
        req.version = MICROVERSIONS.negotiate(req.environ)
        segments = [segment for segment in req.path.split('/') if segment]
        if segments in ([], ['v3']):
            if req.method != 'GET':
                raise exception.MethodNotAllowed()
            return Response({'versions': [version(req.root_url)]}, 200)
        if segments == [DOCUMENT] and req.method == 'GET':
            wanted = _DOCUMENT_QUERY.validate(req.environ.get('QUERY_STRING', ''), 0).get('microversion', 'latest')
            return openapi.DESCRIBER.response(req, handlers.ROUTES, MICROVERSIONS.parse(wanted), MICROVERSIONS.vary)
        if segments.pop(0) != 'v3':
            raise exception.NotFound()
        if req.context is None:
            raise exception.Unauthorized()
        if not req.context.project_id:
            log.named(f'volume:{req.method.lower()}')
        req.context.require_project()
        absent = _CINDER if req.method == 'GET' else {**_CINDER, **_NOT_WRITTEN}
        feature = next((absent[name] for name in segments[:2] if name in absent), None)
        if feature is not None:
            raise exception.Unsupported(f'The embedded block storage has no {feature}. Use Cinder for that.')
        named = segments.pop(0) if not self.mapper.knows(segments[0]) else req.context.project_id
        if named != req.context.project_id:
            # ignoring the URL would list rows of the token's project instead of the project in the URL
            if req.context.is_admin and segments and self.mapper.knows(segments[0]):
                raise exception.BadRequest('The project in the URL differs from the token. Administrators select '
                                           'projects in the query of lists (all_tenants, project_id).')
            raise exception.NotFound()
        return self.mapper.find(segments, req.method)

    def authorize(self, req: VolumeRequest, row: Route, parts: application.Parts) -> None:
        name, values = 'volume:' + row.called, [*parts.values(), None, None]
        log.named(name, code=row.status, target_type=row.path.split('/')[1], target_id=values[0],
                  target_part=values[1], route='/v3' + _PART.sub('{id}', row.path))
        if row.policy is not None:
            req.authorize(row.policy, self._owner(req, row.policy, row, parts))
        if row.query is None:
            req.query = params.parse_plain(req.environ)

    def _owner(self, req: VolumeRequest, rule: str, row: Route, parts: application.Parts) -> Mapping[str, str] | None:
        """Return project_id and user_id of the resource in the path; None: the caller's project owns the resource.

        Users have access only to their own project, so most rules need no lookup of the owner. For changes of
        quotas, the project in the path is the owner; limits.py checks reads of quotas.
        """
        if 'project_id' in parts and req.method != 'GET':
            return {'project_id': parts['project_id']}
        table = handlers.owned_table(row)
        if table is None or not req.context.is_admin and self._policy.compares(rule) <= {'project_id'}:
            return None
        with self._store.db.reader() as conn:
            found = db.owner(conn, table, parts['ident'][:64])
        return found if found and (req.context.is_admin or found['project_id'] == req.context.project_id) else None

    def check(self, req: VolumeRequest, row: Route, parts: application.Parts) -> None:
        if not req.trusted:
            handlers.check_shown(req, row, parts)

    def fault(self, req: VolumeRequest, error: Exception) -> Response:
        code, message, _english = faults.explain(error, req.environ.get('openstack.request_id'))
        if isinstance(error, exception.QuotaExceeded):
            code = 413                   # status that the Block Storage API documents for exceeded quotas
        return Response(faults.document(code, message), code)

    def finish(self, req: VolumeRequest, code: int, headers: Headers,
               error: Exception | None) -> Headers:
        return MICROVERSIONS.headers(req.version)


def Application(store: EmbeddedVolumes, rules: policy.Policy | None = None) -> application.Application:
    """Return the WSGI application, to be mounted at /volume; the parameters are those of VolumeApi."""
    return application.Application(VolumeApi(store, rules))
