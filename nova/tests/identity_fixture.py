"""A whole identity service in a directory, and a client that speaks to its WSGI application."""
import contextlib
import socketserver
import threading
import time
from wsgiref import simple_server

import webob

from nova import conf as nova_conf
from nova.db import engine
from nova.db.tables import identity as tables_identity  # noqa: F401  (its tables belong to the metadata)
from nova.identity.rest import app
from nova.identity.embedded import bootstrap
from nova.identity.embedded import catalog
from nova.identity.embedded import service
from nova.tests import openapi_answers
from nova.tests import schemas

ROUNDS = 4          # bcrypt's least: the tests log in often


class IdentityCloud:
    """The service with its first users.

    :param path: a pathlib.Path of an empty directory
    :param base_url: in the catalog
    :param clock: of one-time codes
    :param elapsed: of the delays after failed logins
    :param options: of the group [identity]
    """

    def __init__(self, path, base_url='http://cloud.example', db_url=None, clock=time.time,
                 elapsed=time.monotonic, **options):
        options = {'password_hash_rounds': ROUNDS, 'validation_cache_time': 60} | options
        self.conf = nova_conf.new([], files=[],
                                  **{f'identity__{name}': value for name, value in options.items()})
        self.path, self.clock = path, clock
        self.db = engine.Database(db_url or f'sqlite:///{path}/api.sqlite')
        schemas.create(self.db, 'api')
        self.service = service.IdentityService(self.conf, self.db, str(path / 'keys'),
                                               catalog.for_base(base_url), clock, elapsed)
        self.passwords = bootstrap.bootstrap(self.service)
        self.app = app.Application(self.service)

    def sibling(self):
        """Another process' service on the same database and keys."""
        return service.IdentityService(self.conf, self.db, str(self.path / 'keys'), self.service.built_in,
                                       self.clock)

    def token(self, user='admin', project=None):
        names = {'admin': 'admin', 'demo': 'demo', 'nova': 'service'}
        return self.service.login(user, self.passwords[user], project or names[user])[0]

    def id_of(self, noun, name):
        return self.service.find(noun, name=name)['id']

    def call(self, method, path, body=None, token=None, address='192.0.2.1', check=True, **headers):
        """A webob.Response of the application, mounted at /identity.

        :param check: compare it with the OpenAPI document
        """
        req = webob.Request.blank(path, base_url='http://cloud.example/identity', method=method)
        req.environ['REMOTE_ADDR'] = address
        if isinstance(body, bytes):
            req.body = body
        elif body is not None:
            req.json = body
        if token is not None:
            req.headers['X-Auth-Token'] = token
        for name, value in headers.items():
            req.headers[name.replace('_', '-')] = value
        reply = req.get_response(self.app)
        if check:
            openapi_answers.IDENTITY.check(method, path.partition('?')[0], body, reply.status_int, reply.headers,
                                           reply.text)
        return reply


def password_auth(user, password, project=None):
    """The body of a login by names in the default domain."""
    domain = {'id': 'default'}
    body = {'auth': {'identity': {'methods': ['password'], 'password': {
        'user': {'name': user, 'password': password, 'domain': domain}}}}}
    if project:
        body['auth']['scope'] = {'project': {'name': project, 'domain': domain}}
    return body


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True


class _Quiet(simple_server.WSGIRequestHandler):
    def log_message(self, *args):
        """Requests are not logged."""


@contextlib.contextmanager
def served(application):
    """Serve a WSGI application on a free port of 127.0.0.1; yields the port."""
    server = simple_server.make_server('127.0.0.1', 0, application, _Server, _Quiet)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
