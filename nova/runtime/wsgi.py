"""WSGI mounts: dispatch of the applications of one server by path, and common responses."""
from collections.abc import Callable, Iterable, Iterator

import orjson
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from nova import exception
from nova.json_types import Json
from nova.json_types import JsonObject
from nova.runtime.http import framing
from nova.runtime.http import server

Server = server.Server
THREADS = server.THREADS

MAX_BODY = 1 << 20                  # default limit of a request body in bytes

Answer = tuple[str, str, bytes]     # (status, content type, body)
Headers = Iterable[tuple[str, str]]


class Mount:
    """An application below a path.

    :param strip: whether to move the path from PATH_INFO to SCRIPT_NAME
    :param max_body: maximum bytes of a request body; None: the application limits it
    :param api: (name of the API, path of its version below ``path``) in the index; None: not in the index
    """

    def __init__(self, path: str, application: WSGIApplication, *, strip: bool = True,
                 max_body: int | None = MAX_BODY, api: tuple[str, str] | None = None) -> None:
        self.path, self.application, self.strip, self.max_body, self.api = path, application, strip, max_body, api


class Mounts:
    """Dispatches to the application with the longest matching path; GET / returns the URLs of the APIs."""

    def __init__(self, mounts: Iterable[Mount]) -> None:
        self._mounts: list[Mount] = []
        for mount in mounts:
            self.add(mount)

    def add(self, mount: Mount) -> None:
        """Add an application."""
        self._mounts = sorted([*self._mounts, mount], key=lambda other: -len(other.path))

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get('PATH_INFO') or '/'
        for mount in self._mounts:
            if path == mount.path or path.startswith(mount.path + '/'):
                break
        else:
            if path == '/' and environ['REQUEST_METHOD'] in ('GET', 'HEAD'):
                url = f"{environ['wsgi.url_scheme']}://{environ.get('HTTP_HOST') or environ['SERVER_NAME']}"
                apis: JsonObject = {mount.api[0]: url + mount.path + mount.api[1]
                                    for mount in self._mounts if mount.api is not None}
                return _json(environ, start_response, '200 OK', {'services': apis}, [('Vary', 'Accept')])
            return _error(environ, start_response, '404 Not Found', 'Nothing is served at this path.')
        if mount.strip:
            environ['SCRIPT_NAME'] = environ.get('SCRIPT_NAME', '') + mount.path
            environ['PATH_INFO'] = path[len(mount.path):]
        if mount.max_body is not None:
            length = environ.get('CONTENT_LENGTH') or ''
            if length.isdigit() and int(length) > mount.max_body:
                return _error(environ, start_response, '413 Request Entity Too Large',
                              f'The request is larger than {mount.max_body} bytes.', [('Connection', 'close')])
            if environ.get('wsgi.input_terminated'):
                environ['wsgi.input'] = _Capped(environ['wsgi.input'], mount.max_body)
        return mount.application(environ, start_response)


class _Capped:
    """A request body without a Content-Length; reading more than ``limit`` bytes fails."""

    def __init__(self, body: framing.Readable, limit: int) -> None:
        self._body, self._limit, self._left = body, limit, limit

    def _counted(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise exception.TooLarge(limit=self._limit)
        return data

    def _size(self, size: int) -> int:
        return self._left + 1 if size is None or size < 0 else min(size, self._left + 1)

    def read(self, size: int = -1) -> bytes:
        return self._counted(self._body.read(self._size(size)))

    def readline(self, size: int = -1) -> bytes:
        return self._counted(self._body.readline(self._size(size)))

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b'')


def read_only(environ: WSGIEnvironment, start_response: StartResponse,
              found: Callable[[], Answer]) -> list[bytes]:
    """Serve a read-only resource, and forbid caches to store it.

    :param found: returns the response; called for GET and HEAD only
    """
    if environ['REQUEST_METHOD'] in ('GET', 'HEAD'):
        status, kind, body = found()
        headers: tuple[tuple[str, str], ...] = ()
    else:
        status, kind, body = '405 Method Not Allowed', 'text/plain', b'Only GET and HEAD are allowed.\n'
        headers = (('Allow', 'GET, HEAD'),)
    return answer(environ, start_response, status, kind, body, (('Cache-Control', 'no-store'), *headers))


def answer(environ: WSGIEnvironment, start_response: StartResponse, status: str, kind: str, body: bytes,
           headers: Headers = ()) -> list[bytes]:
    """Send a response of known length, without its body after HEAD."""
    start_response(status, [('Content-Type', kind), ('Content-Length', str(len(body))), *headers])
    return [] if environ['REQUEST_METHOD'] == 'HEAD' else [body]


def _json(environ: WSGIEnvironment, start_response: StartResponse, status: str, document: Json,
          headers: Headers = ()) -> list[bytes]:
    return answer(environ, start_response, status, 'application/json', orjson.dumps(document), headers)


def _error(environ: WSGIEnvironment, start_response: StartResponse, status: str, message: str,
           headers: Headers = ()) -> list[bytes]:
    code, title = status.split(' ', 1)
    return _json(environ, start_response, status,
                 {'error': {'code': int(code), 'title': title, 'message': message}}, headers)
