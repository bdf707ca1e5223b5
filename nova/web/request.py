"""Request and response types of handlers."""
from __future__ import annotations

import collections.abc
import dataclasses
import typing
import urllib.parse
from wsgiref.types import WSGIEnvironment

from nova import exception
from nova.runtime.http import priorities
from nova.web import params
from nova.web import routes

_SAFE = "/~!$&'()*+,;=:@"          # characters in a path that need no quoting in a URL
_USUAL_PORTS = {'http': ':80', 'https': ':443'}
_PIECE = 256 * 1024                # maximum bytes that one call reads from a file
Headers = collections.abc.Sequence[tuple[str, str]]


@dataclasses.dataclass(frozen=True)
class Response:
    """Result of a handler that sets status or headers.

    body     JSON-able data, bytes, a Stream, or None
    status   None: the status code of the Route
    headers  [(name, value)]; Content-Type replaces the default of the API
    brief    the body without the representation that the client preferred; None: there is none
    """

    body: Content = None
    status: int | None = None
    headers: Headers = ()
    brief: Content = None


class Stream:
    """A response body that is generated while it is sent.

    :param chunks: iterator of bytes
    :param content_type: media type of the body
    :param end: called once, after the last chunk or when the client has disconnected
    :param size: number of bytes, if known
    :param part: (open file, first byte, number of bytes) if the chunks are this part of a file; the HTTP server may
        then send the file directly
    """

    def __init__(self, chunks: collections.abc.Iterable[bytes], content_type: str, end: typing.Callable[[], None],
                 size: int | None = None, part: tuple[typing.BinaryIO, int, int] | None = None) -> None:
        self._chunks, self.content_type, self.size, self.part = chunks, content_type, size, part
        self._end: typing.Callable[[], None] | None = end

    @classmethod
    def of_file(cls, file: typing.BinaryIO, start: int, size: int, content_type: str) -> typing.Self:
        """Return a Stream of a part of an open file. The Stream closes the file at the end."""
        file.seek(start)
        return cls(_pieces(file, size), content_type, file.close, size, (file, start, size))

    def __iter__(self) -> typing.Iterator[bytes]:
        return iter(self._chunks)

    def close(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            close = getattr(self._chunks, 'close', None)
            if close is not None:
                close()
            end()


# type of a response body
Content: typing.TypeAlias = collections.abc.Mapping[str, object] | collections.abc.Sequence[object] | Stream | None


def _pieces(file: typing.BinaryIO, left: int) -> typing.Iterator[bytes]:
    """Yield ``left`` bytes from the current position of a file."""
    while left and (piece := file.read(min(_PIECE, left))):
        left -= len(piece)
        yield piece


class BaseRequest:
    """Request, which handlers get as an argument. Each API has a subclass.

    environ   environment of WSGI
    path      decoded path below the mount point of the API
    context   the caller (nova.context.RequestContext), or None
    route     the matching Route, or None
    version   minor version of the response; 1 for an API without microversions
    relaxed   True if unknown keys of a body are ignored
    body      the validated, converted body; None if the request has none
    query     QueryValues; empty if the Route has no Query
    """

    __slots__ = ('environ', 'path', 'context', 'route', 'version', 'relaxed', 'body', 'query')

    def __init__(self, environ: WSGIEnvironment) -> None:
        self.environ, self.path = environ, ''
        self.context: typing.Any = environ.get('nova.context')
        self.route: routes.Route | None = None
        self.version, self.relaxed = 1, False
        self.body: typing.Any = None
        self.query: typing.Any = params.QueryValues()

    @property
    def method(self) -> str:
        """HTTP method; GET for HEAD requests, because both methods use the same Route."""
        method = self.environ['REQUEST_METHOD']
        return 'GET' if method == 'HEAD' else method

    @typing.overload
    def header(self, name: str) -> str: ...

    @typing.overload
    def header(self, name: str, default: None) -> str | None: ...

    def header(self, name: str, default: str | None = '') -> str | None:
        """Return the value of a header, or the default."""
        key = name.upper().replace('-', '_')
        return self.environ.get(key if key in ('CONTENT_TYPE', 'CONTENT_LENGTH') else f'HTTP_{key}', default)

    def rest(self) -> None:
        """Let requests of other projects run first; long requests call this repeatedly."""
        priorities.rest(self.environ)

    @property
    def content_type(self) -> str:
        """Media type of the request body, without parameters."""
        return self.environ.get('CONTENT_TYPE', '').partition(';')[0].strip()

    @property
    def root_url(self) -> str:
        """Scheme, host and mount point of the API."""
        url = origin(self.environ).removesuffix(_USUAL_PORTS.get(self.environ['wsgi.url_scheme'], ':'))
        return url + _quoted(self.environ.get('SCRIPT_NAME', ''))

    @property
    def url(self) -> str:
        """URL of the request, without the query string."""
        return self.root_url + _quoted(self.environ.get('PATH_INFO', ''))


def origin(environ: WSGIEnvironment) -> str:
    """Return scheme and host as the client sent them."""
    host = environ.get('HTTP_HOST') or '{SERVER_NAME}:{SERVER_PORT}'.format(**environ)
    return f'{environ["wsgi.url_scheme"]}://{host}'


def decoded_path(environ: WSGIEnvironment) -> str:
    """Return the decoded path of a request below the mount point of the API.

    :raises BadRequest: the path is not UTF-8, or contains a NUL character
    """
    path = environ.get('PATH_INFO', '')
    if not path.isascii():
        try:
            path = path.encode('latin-1').decode()
        except UnicodeError:
            raise exception.BadRequest('The path is not UTF-8 encoded.') from None
    if '\0' in path:
        raise exception.BadRequest('The path contains a NUL character.')
    return path


def _quoted(path: str) -> str:
    return urllib.parse.quote(path.encode('latin-1'), safe=_SAFE)
