"""Access log: one line for each HTTP request, if [http] access_log is set."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
import logging
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    ExcInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]

LOG = logging.getLogger(__name__)

MAX_PATH = 512                           # maximum characters of the path in a log line
MAX_WORD = 64                            # maximum characters of any other value that a caller controls
CONTEXT = 'nova.context'                 # key of environ: context of an authenticated request


class AccessLog:
    """Outermost WSGI middleware, which logs a request when the response has been sent or was interrupted.

    :param application: the wrapped application
    """

    def __init__(self, application: WSGIApplication) -> None:
        self._application = application

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        begun, method = time.monotonic(), environ['REQUEST_METHOD']
        path = environ.get('SCRIPT_NAME', '') + environ.get('PATH_INFO', '')   # wsgi.Mounts changes both keys later
        answered: dict[str, str] = {}

        def start(status: str, headers: list[tuple[str, str]], /,
                  *more: ExcInfo | None) -> Callable[[bytes], object]:
            answered.update({name.lower(): value for name, value in headers}, status=status[:3])
            return start_response(status, headers, *more)

        def end(size: int) -> None:
            caller = environ.get(CONTEXT)
            LOG.info('request_id=%s remote=%s user=%s project=%s "%s %s" status=%s time=%.3f size=%s',
                     _word(answered.get('x-openstack-request-id') or environ.get('openstack.request_id')),
                     _word(environ.get('REMOTE_ADDR')), _word(getattr(caller, 'user_id', None)),
                     _word(getattr(caller, 'project_id', None)), _word(method), _word(path, MAX_PATH),
                     answered.get('status', '500'), time.monotonic() - begun,
                     size or answered.get('content-length', 0))
        try:
            body = self._application(environ, start)
        except BaseException:
            end(0)
            raise
        return _Body(body, end)


class _Body:
    """A response body that counts its bytes.

    :ivar part: see nova.web.request.Stream
    """

    def __init__(self, body: Iterable[bytes], end: Callable[[int], None]) -> None:
        self._body, self._size, self.part = body, 0, getattr(body, 'part', None)
        self._end: Callable[[int], None] | None = end

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._body:
            self._size += len(chunk)
            yield chunk

    def close(self) -> None:
        close = getattr(self._body, 'close', None)
        try:
            if close is not None:
                close()
        finally:
            end, self._end = self._end, None
            if end is not None:
                end(self._size)


def _word(value: object, most: int = MAX_WORD) -> str:
    """Escape quotes, spaces and line ends in a value that the caller controls."""
    text = '-' if value in (None, '') else str(value)[:most]
    return ''.join(char if char.isprintable() and char not in '"\\ ' else f'\\x{ord(char):02x}' for char in text)
