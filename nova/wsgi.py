"""HTTP: one server over either thread model, and the table of applications behind its paths."""
import contextlib
import logging
import socket
import threading
import time

import orjson

from nova import concurrency
from nova import exception
from nova import health

LOG = logging.getLogger(__name__)

THREADS = 32                        # requests served at once by native threads; an upload takes one for its time
GREEN_THREADS = 1000
BACKLOG = 1024
IDLE_S = 75                         # a kept-alive connection is closed after this silence, a slow sender too
MAX_HEADER = 65536                  # bytes of request line and headers; tokens of large catalogs fit
MAX_BODY = 1 << 20                  # bytes of a body where a mount allows no more


class Server:
    """Serves one WSGI application on one address. Uploads and downloads are streamed.

    :param port: 0 takes a free one; ``port`` is the true one after ``start``
    :param drain: seconds for which it goes on taking requests when it is to stop, for a load balancer to notice
    """

    def __init__(self, application, host, port, *, threads=THREADS, drain=0):
        self.application, self.host, self.port = application, host, port
        self._threads, self._drain = threads, drain
        self._work = health.Work(threads if concurrency.model() == 'native' else GREEN_THREADS)
        self._server = None
        self._stopping = threading.Event()

    def listen(self):
        """Take the address; who connects waits until ``start``.

        :raises InvalidInput: the address cannot be had
        """
        make = _Green if concurrency.model() == 'eventlet' else _Native
        try:
            self._server = make(_Terminated(self.application, self._stopping, self._work), self.host, self.port,
                                self._threads)
        except OSError as error:
            raise exception.InvalidInput(
                f'Cannot listen on {self.host}:{self.port}: {error.strerror or error}.') from None
        self.port = self._server.port

    def start(self):
        """Serve in the background."""
        if self._server is None:
            self.listen()
        self._server.start()

    def alive(self):
        """See nova.health."""
        return {f'http {self.port} workers': self._work.alive()}

    def stop(self, timeout=0):
        """Take no new connection, finish the requests that run; True when they ended within ``timeout`` s."""
        self._stopping.set()
        if self._server is None:
            return True
        deadline = time.monotonic() + timeout
        time.sleep(min(self._drain, timeout))
        timeout = max(0, deadline - time.monotonic())        # less than none would be forever for cheroot
        server, self._server = self._server, None
        stopping = concurrency.spawn('http-stop', server.stop, timeout)
        stopping.join(timeout + 1)
        return not stopping.is_alive()


class _Native:
    def __init__(self, application, host, port, threads):
        from nova import http1

        self._http = http1.make(application, host, port, numthreads=threads, server_name='nova',
                                request_queue_size=BACKLOG, timeout=IDLE_S)
        self._http.software = 'nova'
        self._http.max_request_header_size = MAX_HEADER
        self._http.error_log = _log
        self._http.keep_alive_conn_limit = GREEN_THREADS
        self._http.prepare()
        self.port = self._http.bind_addr[1]
        self._thread = None

    def start(self):
        self._thread = concurrency.spawn('http', self._http.serve)

    def stop(self, timeout):
        if self._thread is None:             # cheroot would wait for a loop that never ran
            self._http.socket.close()
            self._http.requests.stop(timeout)
            return
        self._http.shutdown_timeout = timeout
        self._http.stop()
        self._thread.join(timeout)


class _Green:
    def __init__(self, application, host, port, threads):
        import eventlet

        family = socket.AF_INET6 if ':' in host else socket.AF_INET
        self._application = _Careful(application)
        self._listener = eventlet.listen((host, port), family=family, backlog=BACKLOG, reuse_port=False)
        self._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = self._listener.getsockname()[1]
        self._thread = None

    def start(self):
        import eventlet.wsgi

        self._thread = eventlet.spawn(
            eventlet.wsgi.server, self._listener, self._application, max_size=GREEN_THREADS,
            log=logging.getLogger('eventlet.wsgi'), log_output=False, debug=False, socket_timeout=IDLE_S,
            keepalive=True, url_length_limit=MAX_HEADER, minimum_chunk_size=1)

    def stop(self, timeout):
        import eventlet
        import greenlet

        if self._thread is None:
            self._listener.close()
            return
        with eventlet.Timeout(timeout or 0.01, False), contextlib.suppress(greenlet.GreenletExit):
            self._thread.kill()          # leaves accept(), closes idle connections, waits for the busy ones
            self._thread.wait()


class _Careful:
    """Makes a fault of the client of a body that eventlet cannot read: bad chunks, a connection that breaks off."""

    def __init__(self, application):
        self._application = application

    def __call__(self, environ, start_response):
        environ['wsgi.input'] = _CarefulBody(environ['wsgi.input'])
        return self._application(environ, start_response)


class _CarefulBody:
    def __init__(self, body):
        self._body = body

    def read(self, size=-1):
        return self._do(self._body.read, size)

    def readline(self, size=-1):
        return self._do(self._body.readline, size)

    def __iter__(self):
        return iter(self.readline, b'')

    @staticmethod
    def _do(read, size):
        try:
            return read(None if size is None or size < 0 else size)
        except (OSError, ValueError):
            raise exception.BadRequest('The body of the request could not be read.') from None


def _log(message='', level=logging.INFO, traceback=False):
    LOG.log(level, '%s', message, exc_info=traceback)


class _Terminated:
    """Says that the end of a chunked body is known, so that applications may read it to its end.

    And gives answers that last an event to watch, ``nova.stopping``: it is set when the server stops.
    """

    def __init__(self, application, stopping, work):
        self._application, self._stopping, self._work = application, stopping, work

    def __call__(self, environ, start_response):
        environ['nova.stopping'] = self._stopping
        if environ.get('HTTP_TRANSFER_ENCODING', '').lower() == 'chunked':
            environ['wsgi.input_terminated'] = True
            environ.pop('CONTENT_LENGTH', None)
        with self._work:
            return self._application(environ, start_response)


class Mount:
    """An application below a path.

    :param strip: the application does not see the path, but gets it as SCRIPT_NAME
    :param max_body: bytes of a request body; None: no bound here
    """

    def __init__(self, path, application, *, strip=True, max_body=MAX_BODY):
        self.path, self.application, self.strip, self.max_body = path, application, strip, max_body


class Mounts:
    """Picks the application by the longest path; '/' is an index of them.

    :param index: what GET / answers, or a function of the host's URL
    """

    def __init__(self, mounts, index):
        self._mounts = sorted(mounts, key=lambda mount: -len(mount.path))
        self._index = index

    def __call__(self, environ, start_response):
        path = environ.get('PATH_INFO') or '/'
        for mount in self._mounts:
            if path == mount.path or path.startswith(mount.path + '/'):
                break
        else:
            if path == '/' and environ['REQUEST_METHOD'] in ('GET', 'HEAD'):
                url = f"{environ['wsgi.url_scheme']}://{environ.get('HTTP_HOST') or environ['SERVER_NAME']}"
                return _json(environ, start_response, '200 OK', self._index(url))
            return _error(environ, start_response, '404 Not Found', 'Nothing is served at this path.')
        if mount.strip:
            environ['SCRIPT_NAME'] = environ.get('SCRIPT_NAME', '') + mount.path
            environ['PATH_INFO'] = path[len(mount.path):]
        if mount.max_body is not None:
            length = environ.get('CONTENT_LENGTH') or ''
            if length.isdigit() and int(length) > mount.max_body:
                return _error(environ, start_response, '413 Request Entity Too Large',
                              f'The request is larger than {mount.max_body} bytes.', [('Connection', 'close')])
            if environ.get('wsgi.input_terminated'):
                environ['wsgi.input'] = _Capped(environ['wsgi.input'], mount.max_body)
        return mount.application(environ, start_response)


class _Capped:
    """A request body without a declared length, up to a limit."""

    def __init__(self, body, limit):
        self._body, self._limit, self._left = body, limit, limit

    def _counted(self, data):
        self._left -= len(data)
        if self._left < 0:
            raise exception.TooLarge(limit=self._limit)
        return data

    def _size(self, size):
        return self._left + 1 if size is None or size < 0 else min(size, self._left + 1)

    def read(self, size=-1):
        return self._counted(self._body.read(self._size(size)))

    def readline(self, size=-1):
        return self._counted(self._body.readline(self._size(size)))

    def __iter__(self):
        return iter(self.readline, b'')


def read_only(environ, start_response, answer):
    """Serve what can only be read, and is never stored on the way.

    :param answer: function that gives (status, content type, body); it is not called for other methods
    """
    if environ['REQUEST_METHOD'] in ('GET', 'HEAD'):
        (status, kind, body), headers = answer(), ()
    else:
        status, kind, body = '405 Method Not Allowed', 'text/plain', b'GET and HEAD alone.\n'
        headers = (('Allow', 'GET, HEAD'),)
    return _answer(environ, start_response, status, kind, body, (('Cache-Control', 'no-store'), *headers))


def _answer(environ, start_response, status, kind, body, headers):
    start_response(status, [('Content-Type', kind), ('Content-Length', str(len(body))), *headers])
    return [] if environ['REQUEST_METHOD'] == 'HEAD' else [body]


def _json(environ, start_response, status, document, headers=()):
    return _answer(environ, start_response, status, 'application/json', orjson.dumps(document), headers)


def _error(environ, start_response, status, message, headers=()):
    code, title = status.split(' ', 1)
    return _json(environ, start_response, status,
                 {'error': {'code': int(code), 'title': title, 'message': message}}, headers)
