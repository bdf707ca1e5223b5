"""What is counted of the requests to the compute API, in front of its pipeline: refused ones are counted, too."""
import time

from nova.api import health
from nova.runtime import metrics

METHODS = frozenset({'GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'})
ROUTE = 'nova.route'            # in the environ: the Route that serves a request, set by the Application


class Measured:
    """
    :param app: the whole pipeline
    """

    def __init__(self, app):
        self._app = app

    def __call__(self, environ, start_response):
        if environ.get('PATH_INFO') == health.PATH:
            return self._app(environ, start_response)
        begun, answered = time.monotonic(), []

        def start(status, headers, *more):
            answered.append(status[:3])
            return start_response(status, headers, *more)
        environ.pop(ROUTE, None)
        try:
            with metrics.API_RUNNING.during():
                return self._app(environ, start)
        finally:
            self._count(environ, answered[-1] if answered else '500', time.monotonic() - begun)

    @staticmethod
    def _count(environ, status, seconds):
        method = environ['REQUEST_METHOD']
        method = method if method in METHODS else 'other'
        row = environ.get(ROUTE)
        path, action = (row.path, row.action or '') if row is not None else ('', '')
        metrics.API_REQUESTS.labels(method, path, action, status).inc()
        metrics.API_SECONDS.labels(method, path).observe(seconds)
