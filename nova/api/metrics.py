"""Request metrics of the compute API. They wrap the whole pipeline, so that refused requests are counted."""
import functools
import time
from typing import Any

from nova.api import health
from nova.runtime import metrics
from nova.web import bodies

METHODS = frozenset({'GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'})
ROUTE = 'nova.route'            # key in the environ: the matched Route, set by the Application


class MetricsMiddleware:
    """WSGI wrapper that counts and times requests.

    :param app: the whole pipeline
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    def __call__(self, environ: bodies.Environ, start_response: Any) -> Any:
        if environ.get('PATH_INFO') == health.PATH:
            return self._app(environ, start_response)
        begun, answered = time.monotonic(), []

        def start(status: str, headers: Any, *more: Any) -> Any:
            answered.append(status[:3])
            return start_response(status, headers, *more)
        environ.pop(ROUTE, None)
        try:
            with metrics.API_RUNNING.during():
                return self._app(environ, start)
        finally:
            self._count(environ, answered[-1] if answered else '500', time.monotonic() - begun)

    @staticmethod
    def _count(environ: bodies.Environ, status: str, seconds: float) -> None:
        method = environ['REQUEST_METHOD']
        method = method if method in METHODS else 'other'
        row = environ.get(ROUTE)
        path, action = (row.path, row.action or '') if row is not None else ('', '')
        counter, histogram = _series(method, path, action, status)
        counter.inc()
        histogram.observe(seconds)


@functools.cache
def _series(method: str, path: str, action: str, status: str) -> tuple[Any, Any]:
    """Return the counter and the histogram of these labels, which never contain values of clients."""
    return metrics.API_REQUESTS.labels(method, path, action, status), metrics.API_SECONDS.labels(method, path)
