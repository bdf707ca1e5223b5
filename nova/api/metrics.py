"""Request metrics of the compute API. The middleware wraps the whole pipeline, so that refused requests are counted."""
from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from nova.api import health
from nova.runtime import metrics
from nova.web import pipeline

if TYPE_CHECKING:
    import prometheus_client

METHODS = frozenset({'GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'})
ROUTE = 'nova.route'            # key in the environ, under which the Application stores the matched Route


class MetricsMiddleware:
    """WSGI wrapper that counts and times requests.

    :param app: the whole pipeline
    """

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get('PATH_INFO') == health.PATH:
            return self._app(environ, start_response)
        begun, answered = time.monotonic(), []

        def start(status: str, headers: pipeline.Headers, *more: pipeline.ExcInfo | None
                  ) -> Callable[[bytes], object]:
            answered.append(status[:3])
            return start_response(status, headers, *more)
        environ.pop(ROUTE, None)
        try:
            with metrics.API_RUNNING.during():
                return self._app(environ, start)
        finally:
            self._count(environ, answered[-1] if answered else '500', time.monotonic() - begun)

    @staticmethod
    def _count(environ: WSGIEnvironment, status: str, seconds: float) -> None:
        method = environ['REQUEST_METHOD']
        method = method if method in METHODS else 'other'
        row = environ.get(ROUTE)
        path, action = (row.path, row.action or '') if row is not None else ('', '')
        counter, histogram = _series(method, path, action, status)
        counter.inc()
        histogram.observe(seconds)


@functools.cache
def _series(method: str, path: str, action: str, status: str
            ) -> tuple[prometheus_client.Counter, prometheus_client.Histogram]:
    """Return the counter and the histogram of these labels. Labels never contain values that clients choose."""
    return metrics.API_REQUESTS.labels(method, path, action, status), metrics.API_SECONDS.labels(method, path)
