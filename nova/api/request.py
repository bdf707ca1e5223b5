"""One request as handlers see it, and what they may answer."""
import collections
import dataclasses
import io
import threading
import urllib.parse
import uuid

import orjson

from nova import exception
from nova.api import params
from nova.api import versions

INNER = 'nova.inner'      # in the environ of what another operation asked for: not counted against the caller's rate


@dataclasses.dataclass(frozen=True)
class Response:
    """An answer with more than a body.

    body     JSON-able, bytes of a JSON document that is ready, a Stream, or None
    status   None: the code of the row
    headers  [(name, value)]
    """

    body: object = None
    status: int | None = None
    headers: tuple = ()


class Stream:
    """A body that is sent while it is made.

    :param chunks: iterator of bytes
    :param end: called once, when the last chunk was sent or the client is gone
    """

    def __init__(self, chunks, content_type, end):
        self._chunks, self.content_type, self._end = chunks, content_type, end

    def __iter__(self):
        return self._chunks

    def close(self):
        end, self._end = self._end, None
        if end is not None:
            self._chunks.close()
            end()


class Streams:
    """How many streams are open: so many in all, and of one project no more than half of them."""

    def __init__(self, most):
        self._most, self._share = most, -(-most // 2)
        self._open, self._lock = collections.Counter(), threading.Lock()

    def acquire(self, owner):
        """Whether one more may be opened; it counts until it is released."""
        with self._lock:
            if self._open.total() >= self._most or self._open[owner] >= self._share:
                return False
            self._open[owner] += 1
            return True

    def release(self, owner):
        with self._lock:
            self._open[owner] -= 1
            self._open += collections.Counter()              # without those that have none


class Request:
    """What a handler gets.

    context   the caller (nova.context.RequestContext); None only where the row is public
    version   minor version, an int; 1 under /v2
    relaxed   True under /v2
    body      the validated, converted body; None without one
    query     params.QueryValues; empty where the row has no Query
    services  see app.Services
    record    nova.db.audit.log.Record of a request that writes, once its route is known, else None
    once      idempotency.Once of a request with an Idempotency-Key, else None
    """

    __slots__ = ('environ', 'services', 'context', 'version', 'relaxed', 'route', 'body', 'query', 'request_id',
                 'project_in_path', 'base_path', 'record', 'once', 'found_in', '_allowed', '_link_prefix')

    def __init__(self, environ, services):
        self.environ, self.services = environ, services
        self.context = self.route = self.body = self.once = self.record = None
        self.query = params.QueryValues()
        self.version, self.relaxed = versions.MIN_VERSION, False
        self.request_id = None
        self.project_in_path = ''
        self.base_path = '/v2.1'
        self.found_in = {}                       # server: uuid of the cell in which it was looked for
        self._allowed = {}
        self._link_prefix = None

    @property
    def method(self):
        """GET for HEAD, which is answered by the same rows."""
        method = self.environ['REQUEST_METHOD']
        return 'GET' if method == 'HEAD' else method

    @property
    def project_id(self):
        return self.context.project_id

    @property
    def user_id(self):
        return self.context.user_id

    def has(self, behaviour):
        """Whether this request's version has a behaviour of versions.HISTORY."""
        return self.version >= versions.SINCE[behaviour]

    def new_uuid(self):
        """A uuid for what the request makes; a repeated request with an Idempotency-Key gets the same ones again."""
        return self.once.uuid() if self.once is not None else str(uuid.uuid4())

    # ---- may they ------------------------------------------------------------

    def own(self):
        """The policy target of what belongs to the caller."""
        return {'project_id': self.context.project_id, 'user_id': self.context.user_id}

    def allows(self, rule, target=None):
        """Whether the caller passes a rule; asked once per rule and owner.

        :param target: {'project_id', 'user_id'} of the resource; the caller's own unless given
        """
        key = (rule, target and (target.get('project_id'), target.get('user_id')))
        found = self._allowed.get(key)
        if found is None:
            target = self.own() if target is None else target
            found = self._allowed[key] = self.services.policy.allows(self.context, rule, target)
        return found

    def authorize(self, rule, target=None):
        """:raises PolicyDenied: the caller does not pass the rule"""
        if not self.allows(rule, target):
            raise exception.PolicyDenied(rule=rule)

    # ---- other operations ----------------------------------------------------

    def ask(self, method, path, body=None, query=''):
        """(code, JSON document or None) of another operation of this API, asked by the same caller at the same version.

        :param path: below the version
        """
        data = b'' if body is None else orjson.dumps(body)
        environ = {**self.environ, 'REQUEST_METHOD': method, 'QUERY_STRING': query, 'CONTENT_LENGTH': str(len(data)),
                   'CONTENT_TYPE': 'application/json', 'wsgi.input': io.BytesIO(data), INNER: True,
                   'SCRIPT_NAME': mount_path(self.environ), 'PATH_INFO': self.base_path + self.project_in_path + path}
        environ.pop('HTTP_IDEMPOTENCY_KEY', None)
        started = []
        answer = b''.join(self.services.application(environ, lambda status, _headers: started.append(int(status[:3]))))
        return started[0], orjson.loads(answer) if answer else None

    # ---- links ---------------------------------------------------------------

    @property
    def host_url(self):
        """Scheme, host and the path below which the API is mounted; [api] compute_link_prefix wins."""
        if self._link_prefix is None:
            configured = self.services.conf.api.compute_link_prefix
            self._link_prefix = configured.rstrip('/') if configured else (
                origin(self.environ) + mount_path(self.environ))
        return self._link_prefix

    def url(self, *parts):
        """The URL of a resource below this API version, with the project id when the request had it."""
        return '/'.join((self.host_url + self.base_path + self.project_in_path, *map(_quoted, parts)))

    def bookmark(self, *parts):
        """The URL of a resource without a version."""
        return '/'.join((self.host_url + self.project_in_path, *map(_quoted, parts)))

    def links(self, *parts):
        """The links of a resource: self and bookmark."""
        path = '/'.join(map(_quoted, parts))
        return [{'rel': 'self', 'href': f'{self.host_url}{self.base_path}{self.project_in_path}/{path}'},
                {'rel': 'bookmark', 'href': f'{self.host_url}{self.project_in_path}/{path}'}]

    def image_url(self, image_id):
        """Where the image service shows an image."""
        configured = self.services.conf.api.image_link_prefix
        prefix = configured.rstrip('/') if configured else origin(self.environ) + '/image'
        return f'{prefix}/images/{_quoted(image_id)}'


def _quoted(part):
    return urllib.parse.quote(str(part), safe='/@')


def origin(environ):
    host = environ.get('HTTP_HOST') or '%s:%s' % (environ['SERVER_NAME'], environ['SERVER_PORT'])
    return f'{environ["wsgi.url_scheme"]}://{host}'


def mount_path(environ):
    """SCRIPT_NAME without the version that a URL map may have moved into it."""
    script = environ.get('SCRIPT_NAME', '').rstrip('/')
    for version in ('/v2.1', '/v2'):
        if script.endswith(version):
            return script[:-len(version)]
    return script
