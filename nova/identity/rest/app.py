"""HTTP API of the embedded identity service: the subset of Keystone's v3 API that common clients use."""
from __future__ import annotations

import http.client
import typing
from wsgiref.types import WSGIEnvironment

from nova import context
from nova import exception
from nova import policies
from nova import policy
from nova.db.audit import log
from nova.identity import access_rules
from nova.identity import auth
from nova.identity.rest import handlers
from nova.identity.rest import openapi
from nova.identity.rest import operations
from nova.identity.rest import resources
from nova.runtime.http import priorities
from nova.web import application
from nova.web import faults
from nova.web import json_text
from nova.web import mapper
from nova.web import params
from nova.web.request import Headers
from nova.web.request import Response
from nova.web.routes import Route

if typing.TYPE_CHECKING:
    from nova.identity.embedded.service import IdentityService
    from nova.json_types import Json


class IdentityApi(application.Api[operations.Request]):
    """The identity API for ``application.Application``: paths below /v3, and the version document.

    :param uri: public URL for WWW-Authenticate; None: the address that received the request
    :param rules: policy.Policy of the identity API; None: its defaults
    """

    max_body = 114688
    stores_data = False              # accept requests while the disk is full: without a login, users cannot free space

    def __init__(self, service: IdentityService, uri: str | None = None, rules: policy.Policy | None = None) -> None:
        super().__init__(handlers.ROUTES)
        self._service, self._uri = service, uri
        self._policy = rules or policy.Policy(None, policies.IDENTITY)

    def request(self, environ: WSGIEnvironment) -> operations.Request:
        # replace the logging context of the previous request in this thread
        request_id = environ.setdefault('openstack.request_id', context.new_request_id())
        context.RequestContext(request_id=request_id, remote_address=environ.get('REMOTE_ADDR'), overwrite=True)
        return operations.Request(environ, self._service, self._policy)

    def find(self, req: operations.Request) -> tuple[mapper.Methods | None, list[str]] | Response:
        """Find the operation of a request.

        :raises Unsupported: Keystone has the operation, but the embedded service does not
        """
        if req.method == 'GET' and application.segments_of(req.path) == ['openapi.json']:
            return openapi.DESCRIBER.response(req, handlers.ROUTES)
        found = super().find(req)
        if isinstance(found, tuple) and found[0] is None and (feature := operations.keystone_feature(req.path)):
            raise exception.Unsupported(f'The embedded identity service has no {feature}. Use Keystone for that.')
        return found

    def authorize(self, req: operations.Request, row: Route, parts: application.Parts) -> None:
        req.query = params.parse_plain(req.environ)
        values, segments = [*parts.values()], row.path.split('/')
        log.named(f'identity:{row.called}', route=row.path, code=row.status,
                  target_type=segments[2] if values else row.path[4:],
                  target_id=values[0] if values else None, target_part='/'.join(values[1:]) or None)
        if not row.public:
            # A change has a lasting effect, so the token of a write is validated without the cache.
            req.ask_as(self._service.validate(req.header('X-Auth-Token'), trusted=row.method == 'GET'))
            if (row.method, row.path) != ('GET', '/v3/auth/tokens'):       # access rules do not limit token validation
                access_rules.check(req.caller.credential, ('identity',), req.environ)
            context.set_caller(req.caller.user_id, req.caller.project_id)
            if 'service' not in req.caller.roles:            # a service acts for many projects
                priorities.join(req.environ, req.caller.project_id or req.caller.user_id)
            log.asked_by(req.caller)
            if row.policy is not None:
                req.authorize_path(row.policy, parts)
        if row.errors == operations.HASHES:
            self._service.checks.expect_room(req.remote_address)         # raises if the hash pool is full

    def parse(self, raw: bytes) -> Json:
        try:
            return json_text.parse(raw)
        except ValueError:
            raise exception.BadRequest('The body is not valid JSON.') from None

    def fault(self, req: operations.Request, error: Exception) -> Response:
        headers = []
        if isinstance(error, exception.FactorsMissing):
            log.about(error.user['id'])
            return Response(resources.receipt(error), error.code, [
                ('Openstack-Auth-Receipt', error.sealed), ('WWW-Authenticate', self._challenge(req))])
        code, message, _english = faults.explain(error, req.environ.get('openstack.request_id'))
        facts = getattr(error, 'kwargs', {})
        if code == 401:
            headers.append(('WWW-Authenticate', self._challenge(req)))
        if 'retry_after' in facts:
            headers.append(('Retry-After', str(facts['retry_after'])))
        if 'allow' in facts:
            headers.append(('Allow', ', '.join(facts['allow'])))
        return Response({'error': {'code': code, 'message': message, 'title': http.client.responses[code]}}, code,
                        headers)

    def _challenge(self, req: operations.Request) -> str:
        return auth.challenge(req.environ, self._uri)

    def finish(self, req: operations.Request, code: int, headers: Headers,
               error: Exception | None) -> Headers:
        return [('Vary', 'X-Auth-Token'), ('x-openstack-request-id', req.environ['openstack.request_id'])]


def Application(service: IdentityService, uri: str | None = None,
                rules: policy.Policy | None = None) -> application.Application:
    """Build the WSGI application, to be mounted at /identity; the parameters are those of IdentityApi."""
    return application.Application(IdentityApi(service, uri, rules))
