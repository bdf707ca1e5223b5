"""GET /healthcheck on the API's port, for load balancers: 200 OK, or 503 and the reason to avoid this node.

    [filter:healthcheck]
    paste.filter_factory = nova.api.health:factory
    disable_by_file_path = /etc/nova/healthcheck_disable

The check returns 503 while the process shuts down, or while the configured file exists, so that operators can drain a
node. The check does not query the database: a database failure must not take all API nodes out of service. /readyz of
[monitoring] queries the database.
"""
import functools
import os
from collections.abc import Callable
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from nova.runtime import wsgi
from nova.web import pipeline

PATH = '/healthcheck'


def factory(global_conf: dict[str, str], disable_by_file_path: str = ''
            ) -> Callable[[WSGIApplication], pipeline.FilterChain]:
    """Filter factory for Paste."""
    return lambda app: pipeline.prepend(HealthCheck(disable_by_file_path).answer, app)


class HealthCheck:
    """Health check filter.

    :param disabled_by: path of the file that takes this node out of service; '': none
    """

    def __init__(self, disabled_by: str = '') -> None:
        self._disabled_by = disabled_by

    def answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes] | None:
        """Answer requests for /healthcheck. This is a filter of web.pipeline."""
        if environ.get('PATH_INFO') != PATH:
            return None
        return wsgi.read_only(environ, start_response, functools.partial(self._state, environ))

    def _state(self, environ: WSGIEnvironment) -> tuple[str, str, bytes]:
        stopping = environ.get('nova.stopping')
        if stopping is not None and stopping.is_set():
            return '503 Service Unavailable', 'text/plain', b'STOPPING'
        if self._disabled_by and os.path.exists(self._disabled_by):
            return '503 Service Unavailable', 'text/plain', b'DISABLED BY FILE'
        return '200 OK', 'text/plain', b'OK'
