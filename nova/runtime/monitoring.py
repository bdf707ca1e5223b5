"""HTTP listener for a daemon's metrics and health.

    GET /metrics    metrics for Prometheus; needs no database or broker
    GET /healthz    200: main loop, heartbeats and workers of the process work. 503: the process needs a restart
    GET /readyz     200: databases, broker and the queue of the process work. 503: do not send requests to the process

The listener needs no authentication: responses contain no secrets, and only callers on this host get details.
"""
from collections.abc import Callable
import functools
import ipaddress
import logging
import socket

from oslo_config.cfg import ConfigOpts
import orjson
from wsgiref.types import StartResponse, WSGIEnvironment

from nova import exception
from nova.json_types import JsonObject
from nova.runtime import health
from nova.runtime import metrics
from nova.runtime import service
from nova.runtime import wsgi

LOG = logging.getLogger(__name__)

PORTS = {'nova-all': 9770, 'nova-api': 9771, 'nova-compute': 9772, 'nova-conductor': 9773, 'nova-network': 9774,
         'nova-scheduler': 9775, 'nova-api-metadata': 9776,
         'nova-api-ec2': 9777, 'nova-volume': 9778, 'nova-cert': 9779,
         'nova-objectstore': 9780}
THREADS = 4


class Monitor:
    """The listener for metrics and health checks.

    It must be the first part of a Process, so that it serves while the other parts start and stop.

    :param binary: determines the port if none is configured
    :param exposed: function like metrics.exposed, for this process and its workers
    :param listener: an inherited listening socket; None: create it according to the options
    """

    def __init__(self, conf: ConfigOpts, process: service.Process, binary: str,
                 exposed: Callable[[str], tuple[bytes, str]] = metrics.exposed,
                 listener: socket.socket | None = None) -> None:
        self._options, self._process, self._binary = conf.monitoring, process, binary
        self._exposed, self._listener = exposed, listener
        self._server: wsgi.Server | None = None

    @property
    def port(self) -> int | None:
        """The actual port, or None before the start and after the stop."""
        return None if self._server is None else self._server.port

    def start(self) -> None:
        """Listen and serve.

        :raises InvalidInput: the configured port cannot be used
        """
        given = self._options.port
        port = PORTS.get(self._binary) if given is None else given
        if not self._options.enabled or port is None:
            return
        server = wsgi.Server(Application(self._process, self._exposed), self._options.listen, port, threads=THREADS,
                             listener=self._listener)
        try:
            server.listen()
        except exception.InvalidInput as error:
            if given is not None:
                raise
            LOG.warning('There are no metrics of this %s: %s Give each process a port in [monitoring].', self._binary,
                        error)
            return
        server.start()
        self._server = server
        metrics.HEALTHY.watch(self._process, lambda process: {(): health.well(process.alive())})
        LOG.info('Metrics and health of %s are on %s:%s', self._binary, self._options.listen, server.port)

    def stop(self, timeout: float) -> bool:
        server, self._server = self._server, None
        return server.stop(min(timeout, 1)) if server else True


class Application:
    """The WSGI application of the listener."""

    def __init__(self, process: service.Process, exposed: Callable[[str], tuple[bytes, str]] = metrics.exposed) -> None:
        self._process, self._exposed = process, exposed
        self._paths = {'/metrics': self._metrics, '/healthz': self._healthz, '/readyz': self._readyz}

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        answer = self._paths.get(environ.get('PATH_INFO', ''), _nothing)
        return wsgi.read_only(environ, start_response, functools.partial(answer, environ))

    def _metrics(self, environ: WSGIEnvironment) -> wsgi.Answer:
        body, kind = self._exposed(environ.get('HTTP_ACCEPT', ''))
        return '200 OK', kind, body

    def _healthz(self, environ: WSGIEnvironment) -> wsgi.Answer:
        return _told(environ, self._process.alive())

    def _readyz(self, environ: WSGIEnvironment) -> wsgi.Answer:
        return _told(environ, self._process.ready())


def _nothing(environ: WSGIEnvironment) -> wsgi.Answer:
    return '404 Not Found', 'text/plain', b'There are /metrics, /healthz and /readyz.\n'


def _told(environ: WSGIEnvironment, found: health.States) -> wsgi.Answer:
    good = health.well(found)
    document: JsonObject = {'status': 'ok' if good else 'failed'}
    if _is_local(environ.get('REMOTE_ADDR', '')):
        document['checks'] = {name: {'status': 'ok' if well else 'failed', **details}
                              for name, (well, details) in sorted(found.items())}
    return '200 OK' if good else '503 Service Unavailable', 'application/json', orjson.dumps(document) + b'\n'


def _is_local(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
