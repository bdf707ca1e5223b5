"""The embedded image service over a temporary SQLite database, and a client of its HTTP face."""
import contextlib
import io
import json
import socketserver
import threading
import urllib.parse
from wsgiref import simple_server

from nova import context
from nova.db import engine
from nova.image.embedded import service as embedded
from nova.image.rest.app import Application
from nova.tests import openapi_answers
from nova.tests import schemas

ADMIN, ALICE, BOB = 'admin-project', 'alice-project', 'bob-project'
MIB = 2 ** 20


def store(path, **bounds):
    """A Store in a directory; called again on the same directory it finds what is there."""
    db = engine.Database(f'sqlite:///{path}/api.sqlite')
    schemas.create(db, 'api')
    made = embedded.Store(db, f'{path}/images', **{'max_size': 64 * MIB, 'max_virtual_size': 2 ** 40, **bounds})
    made.recover()
    return made


def caller(project, roles=('member', 'reader')):
    """The context of a user of a project; that of an administrator for ADMIN."""
    if project == ADMIN:
        roles = ('admin', *roles)
    return context.RequestContext(user_id=f'user-of-{project}', project_id=project, roles=list(roles),
                                  is_admin='admin' in roles, overwrite=False)


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.body = int(status.split()[0]), body
        self.headers = {name.lower(): value for name, value in headers}

    @property
    def json(self):
        return json.loads(self.body)


class Client:
    """Speaks WSGI to the face in the name of one project."""

    def __init__(self, application, project=ALICE, roles=('member', 'reader')):
        self.application, self.ctx = application, caller(project, roles) if project else None

    def __call__(self, method, path, body=None, *, kind='application/json', headers=None, environ=None):
        data = body if isinstance(body, bytes) else b'' if body is None else json.dumps(body).encode()
        path, _, query = path.partition('?')
        given = {'REQUEST_METHOD': method, 'SCRIPT_NAME': '/image', 'QUERY_STRING': query,
                 'PATH_INFO': urllib.parse.unquote(path, 'latin-1'), 'wsgi.url_scheme': 'http',
                 'HTTP_HOST': 'cloud.test', 'SERVER_NAME': 'cloud.test', 'SERVER_PORT': '80',
                 'wsgi.input': io.BytesIO(data), 'CONTENT_LENGTH': str(len(data)), 'CONTENT_TYPE': kind,
                 'nova.context': self.ctx}
        given.update({'HTTP_' + name.upper().replace('-', '_'): value for name, value in (headers or {}).items()})
        given.update(environ or {})
        started = []
        chunks = self.application(given, lambda *args: started.append(args))
        try:
            content = b''.join(chunks)
        finally:
            if hasattr(chunks, 'close'):
                chunks.close()
        answer = Answer(started[0][0], started[0][1], content)
        openapi_answers.IMAGE.check(method, path, body, answer.status, answer.headers, content)
        return answer

    def patch(self, path, *operations):
        return self('PATCH', path, [dict(zip(('op', 'path', 'value'), operation)) for operation in operations],
                    kind='application/openstack-images-v2.1-json-patch')

    def create(self, data=None, **fields):
        """An image, with data when given; its document."""
        fields = {'disk_format': 'raw', 'container_format': 'bare', **fields}
        image = self('POST', '/v2/images', fields)
        assert image.status == 201, image.body
        url = f'/v2/images/{image.json["id"]}'
        if data is not None:
            answer = self('PUT', f'{url}/file', data, kind='application/octet-stream')
            assert answer.status == 204, answer.body
        return self('GET', url).json


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True


class _Quiet(simple_server.WSGIRequestHandler):
    def log_message(self, *args):
        pass


@contextlib.contextmanager
def listening(application):
    """The address of a real HTTP server; the token 'x:PROJECT' makes the caller a user of that project."""
    def authenticated(environ, start_response):
        token = environ.get('HTTP_X_AUTH_TOKEN', '')
        if token.startswith('x:'):
            environ['nova.context'] = caller(token[2:])
        return application(environ, start_response)

    def mounted(environ, start_response):
        environ['SCRIPT_NAME'], environ['PATH_INFO'] = '/image', environ['PATH_INFO'].removeprefix('/image')
        return authenticated(environ, start_response)
    server = simple_server.make_server('127.0.0.1', 0, mounted, _Server, _Quiet)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f'http://127.0.0.1:{server.server_port}/image'
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def application(path, **bounds):
    return Application(store(path, **bounds))
