"""Chain of WSGI filters that inspect a request before the application, run in one call."""
import collections.abc
import typing

Environ = dict[str, typing.Any]
# returns the response, or None to continue
Step = collections.abc.Callable[[Environ, typing.Any], typing.Any]


class Steps:
    """WSGI application behind a chain of filters.

    :param steps: filters in their order
    """

    def __init__(self, steps: collections.abc.Iterable[Step], application: typing.Any) -> None:
        self.steps, self.application = tuple(steps), application

    def __call__(self, environ: Environ, start_response: typing.Any) -> typing.Any:
        for step in self.steps:
            answer = step(environ, start_response)
            if answer is not None:
                return answer
        return self.application(environ, start_response)


def before(step: Step, application: typing.Any) -> Steps:
    """Prepend one filter to an application."""
    if isinstance(application, Steps):
        return Steps((step, *application.steps), application.application)
    return Steps((step,), application)
