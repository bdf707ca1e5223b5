"""HTTP application of a console proxy: page, assets and WebSocket.

The console and its page share a URL: ``Upgrade: websocket`` selects the console. The token in the URL grants access.
Against attacks from other sites, requests with an unknown Host or a forbidden Origin are refused.
"""
from collections.abc import Callable, Iterable, Sequence
import http
import logging
import pathlib
import re
from typing import Any
import urllib.parse
from wsgiref.types import WSGIEnvironment

from oslo_config.cfg import ConfigOpts
from websockets import datastructures
from websockets import http11
from websockets import protocol as websocket_protocol
from websockets import server as websocket_server
from websockets import typing

from nova import context
from nova import exception
from nova.console import relay
from nova.console import sessions
from nova.runtime import wsgi
from nova.web import static

HERE = pathlib.Path(__file__).parent
# kind of proxy: (page, its paths, option with its URL)
PAGES = {
    'vnc': ('vnc', ('/vnc_auto.html', '/vnc_lite.html', '/vnc.html'), ('vnc', 'novncproxy_base_url')),
    'spice': ('spice', ('/spice_auto.html', '/spice.html'), ('spice', 'html5proxy_base_url')),
    'serial': ('serial', ('/', '/index.html', ''), ('serial_console', 'base_url')),
}
_NO_SNIFFING = ('X-Content-Type-Options', 'nosniff')
SUBPROTOCOL = typing.Subprotocol('binary')
_PORTS = {'http': 80, 'https': 443, 'ws': 80, 'wss': 443}
_HOST = re.compile(r'[A-Za-z0-9._-]{1,253}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?')
_HOP = ('connection', 'upgrade', 'sec-websocket-accept', 'sec-websocket-protocol')


def assets() -> dict[str, static.File]:
    """Return {path: file} of all assets."""
    return {f'/assets/{prefix}{name}': file for folder, prefix in (('pages', 'pages/'), ('static', ''))
            for name, file in static.Files(HERE / folder).files.items()}


class Application:
    """WSGI application of one kind of console proxy.

    :param kind: 'vnc', 'spice' or 'serial'
    :param found: sessions.Sessions
    :param served: result of ``assets``
    :param url: public URL of the proxy
    """

    def __init__(self, conf: ConfigOpts, kind: str, found: sessions.Sessions, served: dict[str, static.File],
                 url: str) -> None:
        self._conf, self._kind, self._sessions, self._served = conf, kind, found, served
        page, self._pages, _option = PAGES[kind]
        self._page = served[f'/assets/pages/{page}.html']
        self._allowed = {name.lower() for name in conf.console.allowed_origins}
        # hosts that are allowed with every port
        self._hosts = {_hostname(name) for name in self._allowed if not re.search(r':[0-9]+$', name)} - {None}
        self._names = {'localhost', conf.my_ip, urllib.parse.urlsplit(url).hostname,
                       *map(_hostname, self._allowed)} - {None}

    def __call__(self, environ: WSGIEnvironment, start_response: Callable[..., Any]) -> Iterable[bytes]:
        context.RequestContext(remote_address=environ.get('REMOTE_ADDR'), overwrite=True)
        try:
            host = self._host(environ)
            if 'HTTP_UPGRADE' in environ:
                return self._upgrade(environ, start_response, host)
            return self._get(environ, start_response, host)
        except exception.NovaException as error:
            return wsgi.answer(environ, start_response, f'{error.code} {http.HTTPStatus(error.code).phrase}',
                               'text/plain; charset=utf-8', f'{error.message}\n'.encode())

    # ---- pages

    def _get(self, environ: WSGIEnvironment, start_response: Callable[..., Any], host: str) -> Iterable[bytes]:
        path = environ.get('PATH_INFO', '')
        if environ['REQUEST_METHOD'] not in ('GET', 'HEAD'):
            return wsgi.answer(environ, start_response, '405 Method Not Allowed', 'text/plain',
                               b'Only GET and HEAD are allowed.\n', [('Allow', 'GET, HEAD')])
        if path in self._pages:
            if not path:                         # relative URLs in the page need the slash
                query = environ.get('QUERY_STRING', '')
                return wsgi.answer(environ, start_response, '307 Temporary Redirect', 'text/plain', b'', [
                    ('Location', f"{environ.get('SCRIPT_NAME', '').rpartition('/')[2]}/{query and '?' + query}")])
            return static.answer(environ, start_response, self._page, 'no-store', [
                ('Content-Security-Policy', self._policy(host)), ('Referrer-Policy', 'no-referrer'),
                ('Permissions-Policy', 'camera=(), microphone=()'), _NO_SNIFFING])
        if path in self._served:                 # a page and its modules must be of one release
            return static.answer(environ, start_response, self._served[path], static.REVALIDATE, [_NO_SNIFFING])
        raise exception.NotFound('Not found. Open consoles with the URL from the compute API.')

    def _policy(self, host: str) -> str:
        """Return the Content-Security-Policy: resources of this origin only, and allowed parent frames."""
        frames = ' '.join(["'self'", *sorted(name for name in self._allowed if _HOST.fullmatch(name))])
        return (f"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
                f"connect-src 'self' ws://{host} wss://{host}; base-uri 'none'; form-action 'none'; "
                f'frame-ancestors {frames}')

    # ---- validation

    def _host(self, environ: WSGIEnvironment) -> str:
        """Return the Host of a request. Unknown hosts are refused, because they would allow DNS rebinding.

        :raises BadRequest: the host is unknown
        """
        host = environ.get('HTTP_HOST', '')
        if _hostname(host) not in self._names | {'127.0.0.1', '::1', environ['SERVER_NAME'].strip('[]')}:
            raise exception.BadRequest('Unknown host name: the operator must use it in the base URL of '
                                       'the consoles, or list it in allowed_origins of [console].')
        return str(host)

    def _check_origin(self, environ: WSGIEnvironment, host: str) -> None:
        """Check the origin of the page that opens the console.

        :raises Forbidden: the origin is not allowed
        """
        origin = environ.get('HTTP_ORIGIN')
        if origin is None:                       # not a browser
            return
        found = re.fullmatch(r'(https?|wss?)://([^/?#@\s]{1,260})', origin.lower())
        if found:
            scheme, netloc = found.groups()
            same = _with_port(netloc, scheme) == _with_port(host.lower(), scheme)
            if same or netloc in self._allowed or _hostname(netloc) in self._hosts:
                return
        raise exception.Forbidden('Pages of this origin are not allowed to open consoles.')

    # ---- the WebSocket

    def _upgrade(self, environ: WSGIEnvironment, start_response: Callable[..., Any], host: str) -> Iterable[bytes]:
        self._check_origin(environ, host)
        if environ.get('CONTENT_LENGTH') not in (None, '', '0') or 'HTTP_TRANSFER_ENCODING' in environ:
            raise exception.BadRequest('A WebSocket request must not have a body.')
        upgrade = environ.get('nova.upgrade')
        if upgrade is None:
            raise exception.Unsupported('This HTTP server does not support WebSockets.')
        response = websocket_server.ServerProtocol(
            select_subprotocol=_subprotocol, logger=_quiet()).accept(_request(environ))
        if response.status_code != 101:
            return wsgi.answer(environ, start_response, f'{response.status_code} {response.reason_phrase}',
                               'text/plain; charset=utf-8', bytes(response.body or b''),
                               [('Upgrade', 'websocket')] if response.status_code == 426 else ())
        # The state is OPEN because the HTTP server has read the handshake request and sends the response.
        protocol = websocket_server.ServerProtocol(state=websocket_protocol.OPEN, max_size=relay.FRAME, logger=_quiet())
        upgrade(self._sessions.open(self._kind, _token(environ), environ.get('REMOTE_ADDR', ''), protocol))
        start_response('101 Switching Protocols', [
            (name, value) for name, value in response.headers.raw_items() if name.lower() in _HOP])
        return []


def _hostname(netloc: str) -> str | None:
    """Return the host of HOST[:PORT] in lower case and without brackets, or None if the text is invalid."""
    try:
        return urllib.parse.urlsplit(f'//{netloc}').hostname if _HOST.fullmatch(netloc) else None
    except ValueError:                           # brackets without an IPv6 address
        return None


def _with_port(netloc: str, scheme: str) -> str:
    return netloc if re.search(r':[0-9]+$', netloc) else f'{netloc}:{_PORTS[scheme]}'


def _subprotocol(_protocol: websocket_server.ServerProtocol,
                 offered: Sequence[typing.Subprotocol]) -> typing.Subprotocol | None:
    """Select our subprotocol if offered; current clients offer none."""
    return SUBPROTOCOL if SUBPROTOCOL in offered else None


def _request(environ: WSGIEnvironment) -> http11.Request:
    headers = datastructures.Headers()
    for name, value in environ.items():
        if name.startswith('HTTP_'):
            headers[name[5:].replace('_', '-')] = value
    return http11.Request('/', headers, environ['REQUEST_METHOD'], environ.get('SERVER_PROTOCOL', ''))


def _token(environ: WSGIEnvironment) -> str:
    """Return the token in the query.

    :raises ConsoleTokenNotFound: the token is missing or repeated
    """
    try:
        found = urllib.parse.parse_qs(environ.get('QUERY_STRING', ''), max_num_fields=20).get('token', [])
    except ValueError:
        found = []
    if len(found) != 1:
        raise exception.ConsoleTokenNotFound()
    return found[0]


def _quiet() -> logging.Logger:
    """Return a disabled logger, because the library logs headers with the client's token."""
    logger = logging.getLogger('nova.console.websockets')
    logger.disabled = True
    return logger
