"""One request as handlers see it, and what they may answer."""
import collections
import collections.abc
import dataclasses
import threading
import typing
import urllib.parse

from nova import exception
from nova.runtime.http import priorities
from nova.web import params
from nova.web import routes

_SAFE = "/~!$&'()*+,;=:@"          # characters of a path that a URL repeats as they are
_USUAL_PORTS = {'http': ':80', 'https': ':443'}
_PIECE = 256 * 1024                # bytes of a file that are read at once
Headers = collections.abc.Sequence[tuple[str, str]]


@dataclasses.dataclass(frozen=True)
class Response:
    """An answer with more than a body.

    body     JSON-able, bytes that are ready, a Stream, or None
    status   None: the code of the row
    headers  [(name, value)]; a Content-Type takes the place of the API's own
    """

    body: typing.Any = None
    status: int | None = None
    headers: Headers = ()


class Stream:
    """A body that is sent while it is made.

    :param chunks: iterator of bytes
    :param content_type: its media type
    :param end: called once, when the last chunk was sent or the client is gone
    :param size: bytes, where they are known
    :param part: (a file that is open, its first byte, bytes) where the chunks are this part of it; a server may send
        it without them
    """

    def __init__(self, chunks: typing.Any, content_type: str, end: typing.Callable[[], None],
                 size: int | None = None, part: tuple[typing.BinaryIO, int, int] | None = None) -> None:
        self._chunks, self.content_type, self.size, self.part = chunks, content_type, size, part
        self._end: typing.Callable[[], None] | None = end

    @classmethod
    def of_file(cls, file: typing.BinaryIO, start: int, size: int, content_type: str) -> typing.Self:
        """A part of an open file, which is closed at the end."""
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


def _pieces(file: typing.BinaryIO, left: int) -> typing.Iterator[bytes]:
    """So many bytes of a file, from where it stands."""
    while left and (piece := file.read(min(_PIECE, left))):
        left -= len(piece)
        yield piece


class Streams:
    """How many streams are open: a number in all, and of one project no more than half of it."""

    def __init__(self, most: int) -> None:
        self._most, self._share = most, -(-most // 2)
        self._open: collections.Counter[str] = collections.Counter()
        self._lock = threading.Lock()

    def acquire(self, owner: str) -> bool:
        """Whether one more may be opened; it counts until it is released."""
        with self._lock:
            if self._open.total() >= self._most or self._open[owner] >= self._share:
                return False
            self._open[owner] += 1
            return True

    def release(self, owner: str) -> None:
        with self._lock:
            self._open[owner] -= 1
            self._open += collections.Counter()              # without those that have none


class Request:
    """What a handler gets.

    environ   of WSGI
    path      decoded, below the point where the API is mounted
    context   the caller (nova.context.RequestContext), None where there is none
    route     the Route that was found, else None
    version   minor version of the row that serves it; 1 where an API has no versions of rows
    relaxed   True where unknown keys of a body are ignored
    body      the validated, converted body; None without one
    query     QueryValues; empty where the row has no Query
    """

    __slots__ = ('environ', 'path', 'context', 'route', 'version', 'relaxed', 'body', 'query')

    def __init__(self, environ: dict[str, typing.Any]) -> None:
        self.environ, self.path = environ, ''
        self.context: typing.Any = environ.get('nova.context')
        self.route: routes.Route | None = None
        self.version, self.relaxed = 1, False
        self.body: typing.Any = None
        self.query: typing.Any = params.QueryValues()

    @property
    def method(self) -> str:
        """GET for HEAD, which is answered by the same rows."""
        method = self.environ['REQUEST_METHOD']
        return 'GET' if method == 'HEAD' else method

    def header(self, name: str, default: typing.Any = '') -> typing.Any:
        """The value of a header; the default where the request has none."""
        key = name.upper().replace('-', '_')
        return self.environ.get(key if key in ('CONTENT_TYPE', 'CONTENT_LENGTH') else f'HTTP_{key}', default)

    def rest(self) -> None:
        """Let requests of other projects go first, between two parts of a long request."""
        priorities.rest(self.environ)

    @property
    def content_type(self) -> str:
        """The media type of the body, without its parameters."""
        return self.environ.get('CONTENT_TYPE', '').partition(';')[0].strip()

    @property
    def root_url(self) -> str:
        """Scheme, host and path of the point where the API is mounted."""
        url = origin(self.environ).removesuffix(_USUAL_PORTS.get(self.environ['wsgi.url_scheme'], ':'))
        return url + _quoted(self.environ.get('SCRIPT_NAME', ''))

    @property
    def url(self) -> str:
        """The URL of the request, without its query."""
        return self.root_url + _quoted(self.environ.get('PATH_INFO', ''))


def origin(environ: dict[str, typing.Any]) -> str:
    """Scheme and host of a request, as the client named them."""
    host = environ.get('HTTP_HOST') or '{SERVER_NAME}:{SERVER_PORT}'.format(**environ)
    return f'{environ["wsgi.url_scheme"]}://{host}'


def decoded_path(environ: dict[str, typing.Any]) -> str:
    """The path of a request below the point where the API is mounted.

    :raises BadRequest: it is not UTF-8, or has a NUL character
    """
    path = environ.get('PATH_INFO', '')
    if not path.isascii():
        try:
            path = path.encode('latin-1').decode()
        except UnicodeError:
            raise exception.BadRequest('The path is not UTF-8 encoded.') from None
    if '\0' in path:
        raise exception.BadRequest('The path has a NUL character.')
    return path


def _quoted(path: str) -> str:
    return urllib.parse.quote(path.encode('latin-1'), safe=_SAFE)
