"""Public interface of the HTTP server."""
from __future__ import annotations

from collections.abc import Iterable
import dataclasses
import resource
import socket
import threading
import ssl
import time
from typing import TYPE_CHECKING

from nova import exception
from nova.runtime import concurrency
from nova.runtime import health
from nova.runtime.http import addresses
from nova.runtime.http import capacity
from nova.runtime.http import framing
from nova.runtime.http import limits as http_limits
from nova.runtime.http import priorities

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

    from nova.runtime.http import green
    from nova.runtime.http import native

THREADS = 32                        # concurrent requests
BACKLOG = 1024
LOOP_STUCK_S = 60                   # time without an iteration after which the loop counts as stuck


class Server:
    """Server of one WSGI application at one address. Large uploads and downloads are streamed.

    :param port: 0 selects a free port; the attribute ``port`` is the actual port after ``start``
    :param drain: seconds after a stop request in which it still accepts requests, until load balancers notice
    :param plan: priorities.Plan; None: ``threads`` for all requests, and uploads to every path
    :param trusted: addresses and networks of proxies, to which the limits of one client do not apply
    :param limits: other limits, for tests
    :param body: maximum bytes of a body that is not an upload; None: see ``limits``
    :param tls: TLS context of the connections; None: plain HTTP
    :param listener: an inherited listening socket; None: create it at the address
    :raises InvalidInput: a trusted proxy is neither an address nor a network
    """

    def __init__(self, application: WSGIApplication, host: str, port: int, *, threads: int = THREADS, drain: float = 0,
                 plan: priorities.Plan | None = None, trusted: Iterable[str] = (),
                 limits: http_limits.Limits = http_limits.LIMITS, body: int | None = None,
                 tls: ssl.SSLContext | None = None, listener: socket.socket | None = None) -> None:
        self.application, self.host, self.port = application, host, port
        self._plan = plan or priorities.Plan(threads, max(1, threads // 2),
                                             classes=[priorities.RequestClass(b'', '', uploads=True)])
        self._trusted = addresses.Trusted.of_option(trusted)
        body = max(limits.body, body or 0)
        self._limits = dataclasses.replace(limits, body=body,
                                           bodies_per_address=max(limits.bodies_per_address, 2 * body))
        self._drain, self._tls, self._given = drain, tls, listener
        self._server: native.Native | green.Green | None = None
        self._stopping = threading.Event()

    def listen(self) -> None:
        """Bind the address; connections wait until ``start``.

        :raises InvalidInput: the address cannot be used
        """
        if concurrency.model() == 'eventlet':
            from nova.runtime.http import green
            make: type[native.Native | green.Green] = green.Green
        else:
            from nova.runtime.http import native
            make = native.Native
        listener = self._given or listening_socket(self.host, self.port)
        self.port = listener.getsockname()[1]
        facts = framing.Facts(self.application, (self.host, self.port), int(self._limits.idle_s), self._stopping,
                              self._tls)
        most = min(self._limits.connections, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        self._server = make(listener, facts, self._limits, self._plan,
                            capacity.Capacity(self._limits, self._trusted, most), self._trusted)

    def start(self) -> None:
        """Serve in the background."""
        if self._server is None:
            self.listen()
        assert self._server is not None
        self._server.start()

    def alive(self) -> health.States:
        """Return the health, see nova.runtime.health. Busy threads or a slow client are not failures.

        The workers count as dead if requests of a priority wait, and for health.STUCK_S no request of this priority
        has started or ended, and no upload or download of it has progressed.
        """
        server = self._server
        if server is None:
            return {}
        turned_s = time.monotonic() - server.turned
        waiting, working, idle_s = server.dispatcher.state()
        return {f'http {self.port} loop': (turned_s < LOOP_STUCK_S, {'seconds_since_turn': round(turned_s, 1)}),
                f'http {self.port} workers': (not waiting or idle_s < health.STUCK_S, {
                    'workers': self._plan.size, 'working': working, 'waiting': waiting,
                    'seconds_since_progress': round(idle_s, 1)})}

    def stop(self, timeout: float = 0) -> bool:
        """Take no new connection, finish running requests; return True if they ended within ``timeout`` s."""
        self._stopping.set()
        if self._server is None:
            return True
        deadline = time.monotonic() + timeout
        time.sleep(min(self._drain, timeout))
        server, self._server = self._server, None
        return server.stop(max(0, deadline - time.monotonic()))


def listening_socket(host: str, port: int, shared: bool = False) -> socket.socket:
    """Return a listening socket at the first usable address of ``host``.

    :param port: 0: a free port
    :param shared: other processes of this user may share the address
    :raises InvalidInput: the address cannot be used
    """
    failed: OSError | None = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        found, failed = [], error
    for family, kind, protocol, _name, address in found:
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)       # accepted sockets inherit this option
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.bind(address)
            listener.listen(BACKLOG)
            return listener
        except OSError as error:
            listener.close()
            failed = error
    raise exception.InvalidInput(f'Cannot listen on {host}:{port}: {failed and failed.strerror or failed}.') from None
