"""Requests to the compute API."""
from __future__ import annotations

import collections.abc
import io
import re
import typing
import urllib.parse
import uuid
from wsgiref.types import WSGIEnvironment

import orjson

from nova import context as nova_context
from nova import exception
from nova.api import versions
from nova.json_types import Json
from nova.web import pipeline
from nova.web import preferences
from nova.web import request
from nova.web.routes import Route

if typing.TYPE_CHECKING:
    from nova.api.idempotent_request import IdempotentRequest
    from nova.api.services import Services
    from nova.db.audit import log

Row = collections.abc.Mapping[str, typing.Any]        # row of a table: {column: value}
Document = dict[str, typing.Any]                      # JSON object of a body, or part of one
Target = dict[str, str | None]                        # policy target: {'project_id', 'user_id'} of a resource

ADOPTS = 'nova.adopts'    # key in the environ of nova-manage vm adopt: UUID of the guest that the new server adopts
EC2 = 'nova.ec2'          # key in the environ of requests from the EC2 API of this process
INNER = 'nova.inner'      # key in the environ of requests from ``ask``; if true, rate limits do not count them
_PLAIN = re.compile(r'[A-Za-z0-9_.~/@-]*')                # characters that need no quoting in a URL


class Request(request.BaseRequest):
    """Argument of the handlers of the compute API.

    version   minor version; 1 under /v2
    relaxed   whether unknown keys are ignored; True under /v2
    segments  path segments below version and project
    context   the caller; None for a public route
    record    nova.db.audit.log.Record of a request that is audited, else None
    attempt   IdempotentRequest of a request with an Idempotency-Key, else None
    """

    __slots__ = ('services', 'request_id', 'project_in_path', 'base_path', 'segments', 'record', 'attempt', 'found_in',
                 '_allowed', '_link_prefix')

    context: nova_context.RequestContext
    services: Services
    route: Route                                 # None before routing
    attempt: IdempotentRequest | None
    record: log.Record | None

    def __init__(self, environ: WSGIEnvironment, services: Services) -> None:
        super().__init__(environ)
        self.services = services
        self.version = versions.MIN_VERSION
        self.attempt = self.record = None
        self.request_id = request_id_of(environ)
        self.segments: list[str] = []
        self.project_in_path = ''
        self.base_path = '/v2.1'
        self.found_in: dict[str, str] = {}       # {server ID: UUID of the cell in which the server was looked up}
        self._allowed: dict[tuple[str, typing.Any], bool] = {}
        self._link_prefix: str | None = None

    @property
    def project_id(self) -> str:
        return typing.cast(str, self.context.project_id)

    @property
    def user_id(self) -> str:
        return typing.cast(str, self.context.user_id)

    def has(self, behaviour: str) -> bool:
        """Return True if this request's version has a behaviour of versions.HISTORY."""
        return self.version >= versions.SINCE[behaviour]

    def new_uuid(self) -> str:
        """Return a UUID for a new resource; repetitions of a request with an Idempotency-Key get the same UUIDs."""
        return self.attempt.uuid() if self.attempt is not None else str(uuid.uuid4())

    @property
    def adopts(self) -> str | None:
        """UUID of the existing guest that the new server adopts, or None. Clients cannot set it."""
        return self.environ.get(ADOPTS)

    @property
    def of_ec2(self) -> bool:
        """True if the EC2 API of this process sent the request. Clients cannot set it."""
        return EC2 in self.environ

    # ---- authorization -------------------------------------------------------

    def own(self) -> Target:
        """Return the policy target for the caller's own resources."""
        return {'project_id': self.context.project_id, 'user_id': self.context.user_id}

    def allows(self, rule: str, target: Target | None = None) -> bool:
        """Return True if the caller passes a rule; cached for each rule and target.

        :param target: {'project_id', 'user_id'} of the resource; default: the caller's own resources
        """
        key = (rule, target and (target.get('project_id'), target.get('user_id')))
        found = self._allowed.get(key)
        if found is None:
            target = self.own() if target is None else target
            found = self._allowed[key] = self.services.policy.allows(self.context, rule, target)
        return found

    def authorize(self, rule: str, target: Target | None = None) -> None:
        """Check a rule.

        :raises PolicyDenied: the caller does not pass the rule
        """
        if not self.allows(rule, target):
            raise exception.PolicyDenied(rule=rule)

    # ---- other operations ----------------------------------------------------

    def ask(self, method: str, path: str, body: Json = None, query: str = '',
            caller: nova_context.RequestContext | None = None, version: str | None = None,
            counted: bool = False) -> tuple[int, typing.Any]:
        """Call another operation of this API for the same caller; return (code, JSON document or None).

        The call never waits for the end of a task, because the header Prefer is removed.

        :param path: path below the version
        :param caller: context that replaces the caller; the calling code must document why this is allowed
        :param version: microversion of /v2.1; default: the version of this request
        :param counted: count the call against the caller's rate limits
        """
        data = b'' if body is None else orjson.dumps(body)
        environ = {**self.environ, 'REQUEST_METHOD': method, 'QUERY_STRING': query, 'CONTENT_LENGTH': str(len(data)),
                   'CONTENT_TYPE': 'application/json', 'wsgi.input': io.BytesIO(data), INNER: not counted,
                   'SCRIPT_NAME': mount_path(self.environ), 'PATH_INFO': self.base_path + self.project_in_path + path}
        for header in ('HTTP_IDEMPOTENCY_KEY', preferences.HEADER):
            environ.pop(header, None)
        if caller is not None:
            environ |= {'nova.context': caller, 'PATH_INFO': self.base_path + path}
        if version is not None:
            environ.pop('HTTP_X_OPENSTACK_NOVA_API_VERSION', None)
            environ |= {'HTTP_OPENSTACK_API_VERSION': f'compute {version}', 'PATH_INFO': '/v2.1' + path}
        started = pipeline.Started()
        answer = b''.join(self.services.application(environ, started))
        return started.code, orjson.loads(answer) if answer else None

    # ---- links ---------------------------------------------------------------

    @property
    def host_url(self) -> str:
        """Scheme, host and mount point of the API; [api] compute_link_prefix takes precedence."""
        if self._link_prefix is None:
            configured = self.services.conf.api.compute_link_prefix
            self._link_prefix = configured.rstrip('/') if configured else (
                request.origin(self.environ) + mount_path(self.environ))
        return self._link_prefix

    def url(self, *parts: object) -> str:       # type: ignore[override]
        """Return the URL of a resource below this API version, with the project ID if the request had one."""
        return '/'.join((self.host_url + self.base_path + self.project_in_path, *map(_quoted, parts)))

    def bookmark(self, *parts: object) -> str:
        """Return the bookmark of a resource: a URL without a version."""
        return '/'.join((self.host_url + self.project_in_path, *map(_quoted, parts)))

    def links(self, *parts: object) -> list[dict[str, str]]:
        """Return the self and bookmark links of a resource."""
        path = '/'.join(map(_quoted, parts))
        return [{'rel': 'self', 'href': f'{self.host_url}{self.base_path}{self.project_in_path}/{path}'},
                {'rel': 'bookmark', 'href': f'{self.host_url}{self.project_in_path}/{path}'}]

    def image_url(self, image_id: str) -> str:
        """Return the URL of an image in the image service."""
        configured = self.services.conf.api.image_link_prefix
        prefix = configured.rstrip('/') if configured else request.origin(self.environ) + '/image/v2'
        return f'{prefix}/images/{_quoted(image_id)}'


def request_id_of(environ: WSGIEnvironment) -> str:
    """Return the request ID of the response and the log."""
    context = environ.get('nova.context')
    if context is not None:
        return context.request_id
    return environ.get('openstack.request_id') or nova_context.new_request_id()


def _quoted(part: object) -> str:
    text = str(part)
    return text if _PLAIN.fullmatch(text) else urllib.parse.quote(text, safe='/@')


def mount_path(environ: WSGIEnvironment) -> str:
    """Return SCRIPT_NAME without the version segment that a URL map moved there from the path."""
    script = environ.get('SCRIPT_NAME', '').rstrip('/')
    for version in ('/v2.1', '/v2'):
        if script.endswith(version):
            return script[:-len(version)]
    return script
