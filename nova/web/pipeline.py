"""Chain of WSGI filters that inspect a request before the application, run in one call."""
import collections.abc
import typing

Environ = dict[str, typing.Any]
# returns the response, or None to continue
Filter = collections.abc.Callable[[Environ, typing.Any], typing.Any]


class FilterChain:
    """WSGI application behind a chain of filters.

    :param filters: filters in their order
    """

    def __init__(self, filters: collections.abc.Iterable[Filter], application: typing.Any) -> None:
        self.filters, self.application = tuple(filters), application

    def __call__(self, environ: Environ, start_response: typing.Any) -> typing.Any:
        for filter_ in self.filters:
            answer = filter_(environ, start_response)
            if answer is not None:
                return answer
        return self.application(environ, start_response)


def prepend(filter_: Filter, application: typing.Any) -> FilterChain:
    """Prepend one filter to an application."""
    if isinstance(application, FilterChain):
        return FilterChain((filter_, *application.filters), application.application)
    return FilterChain((filter_,), application)
