"""Chain of WSGI filters that inspect a request before the application; one WSGI callable runs them all."""
import collections.abc
import types
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

Headers = list[tuple[str, str]]
# of start_response
ExcInfo = tuple[type[BaseException], BaseException, types.TracebackType] | tuple[None, None, None]
# a filter returns the response, or None to pass the request on
Filter = collections.abc.Callable[[WSGIEnvironment, StartResponse], collections.abc.Iterable[bytes] | None]


class Started:
    """``start_response`` that stores status and headers."""

    status: str
    headers: Headers

    def __call__(self, status: str, headers: Headers, _exc_info: object = None
                 ) -> collections.abc.Callable[[bytes], object]:
        self.status, self.headers = status, headers
        return bytes              # the function write() of WSGI, which no application of this tree calls

    @property
    def code(self) -> int:
        return int(self.status[:3])


class FilterChain:
    """WSGI application behind a chain of filters.

    :param filters: filters in their order
    """

    def __init__(self, filters: collections.abc.Iterable[Filter], application: WSGIApplication) -> None:
        self.filters, self.application = tuple(filters), application

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> collections.abc.Iterable[bytes]:
        for filter_ in self.filters:
            answer = filter_(environ, start_response)
            if answer is not None:
                return answer
        return self.application(environ, start_response)


def prepend(filter_: Filter, application: WSGIApplication) -> FilterChain:
    """Prepend one filter to an application."""
    if isinstance(application, FilterChain):
        return FilterChain((filter_, *application.filters), application.application)
    return FilterChain((filter_,), application)
