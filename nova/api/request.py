"""One request to the compute API as its handlers see it."""
from __future__ import annotations

import collections.abc
import io
import re
import typing
import urllib.parse
import uuid

import orjson

from nova import context as nova_context
from nova import exception
from nova.api import versions
from nova.web import preferences
from nova.web import request
from nova.web.routes import Route

if typing.TYPE_CHECKING:
    from nova.api import app
    from nova.api import idempotency
    from nova.db.audit import log

Row = collections.abc.Mapping[str, typing.Any]        # of a table: {column: value}
Document = dict[str, typing.Any]                      # of a body, or a part of one
Target = dict[str, str | None]                        # for the policy: {'project_id', 'user_id'} of a resource

ADOPTS = 'nova.adopts'    # in the environ of a command: uuid of a guest that is there, for the server that is created
EC2 = 'nova.ec2'          # in the environ of what the EC2 API asks for in the same process
INNER = 'nova.inner'      # in the environ of another operation's request; true: not counted against the caller's rate
_PLAIN = re.compile(r'[A-Za-z0-9_.~/@-]*')                # nothing in it is quoted


class Request(request.Request):
    """What a handler of the compute API gets.

    version   1 under /v2
    relaxed   True under /v2
    services  see app.Services
    segments  of the path, below the version and the project
    context   the caller; None where a row is public
    record    nova.db.audit.log.Record of a request that writes, once its route is known, else None
    once      idempotency.Once of a request with an Idempotency-Key, else None
    """

    __slots__ = ('services', 'request_id', 'project_in_path', 'base_path', 'segments', 'record', 'once', 'found_in',
                 '_allowed', '_link_prefix')

    context: nova_context.RequestContext
    services: app.Services
    route: Route                                 # None until it is found
    once: idempotency.Once | None
    record: log.Record | None
    request_id: str | None

    def __init__(self, environ: dict[str, typing.Any], services: app.Services) -> None:
        super().__init__(environ)
        self.services = services
        self.version = versions.MIN_VERSION
        self.once = self.record = self.request_id = None
        self.segments: list[str] = []
        self.project_in_path = ''
        self.base_path = '/v2.1'
        self.found_in: dict[str, str] = {}       # server: uuid of the cell in which it was looked for
        self._allowed: dict[tuple[str, typing.Any], bool] = {}
        self._link_prefix: str | None = None

    @property
    def project_id(self) -> str:
        return typing.cast(str, self.context.project_id)

    @property
    def user_id(self) -> str:
        return typing.cast(str, self.context.user_id)

    def has(self, behaviour: str) -> bool:
        """Whether this request's version has a behaviour of versions.HISTORY."""
        return self.version >= versions.SINCE[behaviour]

    def new_uuid(self) -> str:
        """A uuid for what the request makes; a repeated request with an Idempotency-Key gets the same ones again."""
        return self.once.uuid() if self.once is not None else str(uuid.uuid4())

    @property
    def adopts(self) -> str | None:
        """The uuid of the guest that the new server takes over; None: it is built. No client can say it."""
        return self.environ.get(ADOPTS)

    @property
    def of_ec2(self) -> bool:
        """Whether the EC2 API of this process asks. No client can say it."""
        return EC2 in self.environ

    # ---- may they ------------------------------------------------------------

    def own(self) -> Target:
        """The policy target of what belongs to the caller."""
        return {'project_id': self.context.project_id, 'user_id': self.context.user_id}

    def allows(self, rule: str, target: Target | None = None) -> bool:
        """Whether the caller passes a rule; checked once per rule and owner.

        :param target: {'project_id', 'user_id'} of the resource; the caller's own unless given
        """
        key = (rule, target and (target.get('project_id'), target.get('user_id')))
        found = self._allowed.get(key)
        if found is None:
            target = self.own() if target is None else target
            found = self._allowed[key] = self.services.policy.allows(self.context, rule, target)
        return found

    def authorize(self, rule: str, target: Target | None = None) -> None:
        """:raises PolicyDenied: the caller does not pass the rule"""
        if not self.allows(rule, target):
            raise exception.PolicyDenied(rule=rule)

    # ---- other operations ----------------------------------------------------

    def ask(self, method: str, path: str, body: typing.Any = None, query: str = '',
            caller: nova_context.RequestContext | None = None, version: str | None = None,
            counted: bool = False) -> tuple[int, typing.Any]:
        """(code, JSON document or None) of another operation of this API, for the same caller at the same version.

        It never waits for the end of what it begins.

        :param path: below the version
        :param caller: context of who asks in place of the same; a row that does so says why it may
        :param version: microversion, of /v2.1
        :param counted: whether it counts against the caller's rate, as a request of its own
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
        started: list[int] = []
        answer = b''.join(self.services.application(environ, lambda status, _headers: started.append(int(status[:3]))))
        return started[0], orjson.loads(answer) if answer else None

    # ---- links ---------------------------------------------------------------

    @property
    def host_url(self) -> str:
        """Scheme, host and the path below which the API is mounted; [api] compute_link_prefix wins."""
        if self._link_prefix is None:
            configured = self.services.conf.api.compute_link_prefix
            self._link_prefix = configured.rstrip('/') if configured else (
                request.origin(self.environ) + mount_path(self.environ))
        return self._link_prefix

    def url(self, *parts: object) -> str:       # type: ignore[override]
        """The URL of a resource below this API version, with the project id when the request had it."""
        return '/'.join((self.host_url + self.base_path + self.project_in_path, *map(_quoted, parts)))

    def bookmark(self, *parts: object) -> str:
        """The URL of a resource without a version."""
        return '/'.join((self.host_url + self.project_in_path, *map(_quoted, parts)))

    def links(self, *parts: object) -> list[dict[str, str]]:
        """The links of a resource: self and bookmark."""
        path = '/'.join(map(_quoted, parts))
        return [{'rel': 'self', 'href': f'{self.host_url}{self.base_path}{self.project_in_path}/{path}'},
                {'rel': 'bookmark', 'href': f'{self.host_url}{self.project_in_path}/{path}'}]

    def image_url(self, image_id: str) -> str:
        """Return the URL at which the image service shows an image."""
        configured = self.services.conf.api.image_link_prefix
        prefix = configured.rstrip('/') if configured else request.origin(self.environ) + '/image/v2'
        return f'{prefix}/images/{_quoted(image_id)}'


def _quoted(part: object) -> str:
    text = str(part)
    return text if _PLAIN.fullmatch(text) else urllib.parse.quote(text, safe='/@')


def mount_path(environ: dict[str, typing.Any]) -> str:
    """SCRIPT_NAME without the version that a URL map may have moved into it."""
    script = environ.get('SCRIPT_NAME', '').rstrip('/')
    for version in ('/v2.1', '/v2'):
        if script.endswith(version):
            return script[:-len(version)]
    return script
