"""The real application over real databases, spoken to as a client would."""
import io
import json
import urllib.parse

import sqlalchemy as sa

from nova import conf as nova_conf
from nova import context
from nova import policy
from nova.api import app
from nova.api import audit as audited
from nova.api import metrics
from nova.db import engine
from nova.db.cells import cells
from nova.db.placement import categories
from nova.db.tables.audit import records
from nova.tests import schemas
from nova.volume import embedded

PROJECT, USER = 'a' * 32, 'u' * 32


class Answer:
    """status (int), headers (lower-case names), body (bytes), json."""

    def __init__(self, status, headers, body):
        self.status, self.body = status, body
        self.headers = {name.lower(): value for name, value in headers}

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def fault(self):
        """(body key, code, message)."""
        (key, fault), = self.json.items()
        return key, fault['code'], fault['message']


class Client:
    """Speaks WSGI to an application.

    :param version: microversion text, or None to send no header
    :cvar audited: whether each write that is carried out is looked up in the audit log: there is one record of it
    """

    audited = False

    def __init__(self, application, *, project=PROJECT, user=USER, roles=('member', 'reader'), version=None,
                 prefix='/v2.1'):
        self.application, self.project, self.user = application, project, user
        self.roles, self.version, self.prefix = roles, version, prefix

    def request(self, method, path, body=None, *, version=None, headers=None, raw=None, environ=None):
        path, _, query = (self.prefix + path).partition('?')
        data = raw if raw is not None else b'' if body is None else json.dumps(body).encode()
        given = {'REQUEST_METHOD': method, 'SCRIPT_NAME': '', 'QUERY_STRING': query,
                 'PATH_INFO': urllib.parse.unquote(path, 'latin-1'),
                 'wsgi.url_scheme': 'http', 'HTTP_HOST': 'cloud.test:8774', 'SERVER_NAME': 'cloud.test',
                 'SERVER_PORT': '8774', 'wsgi.input': io.BytesIO(data), 'CONTENT_LENGTH': str(len(data)),
                 'CONTENT_TYPE': 'application/json', 'REMOTE_ADDR': '192.0.2.7'}
        version = version or self.version
        if version:
            given['HTTP_OPENSTACK_API_VERSION'] = f'compute {version}'
        for name, value in (headers or {}).items():
            given['HTTP_' + name.upper().replace('-', '_')] = value
        if self.project:
            caller = given['nova.context'] = context.RequestContext(
                user_id=self.user, project_id=self.project, roles=list(self.roles), overwrite=False)
            caller.is_admin = self.application.services.policy.is_admin(caller)      # as the middleware does
        given.update(environ or {})
        started = []
        chunks = self.application(given, lambda status, pairs: started.append((int(status[:3]), pairs)))
        answer = Answer(*started[0], b''.join(chunks))
        if self.audited and answer.status < 400:
            self._check_record(given, answer)
        return answer

    def _check_record(self, environ, answer):
        row, services = environ.get(metrics.ROUTE), self.application.services
        if row is None or not audited.has_record(row) or 'nova.context' not in environ:
            return
        asked = sa.select(records.c.outcome, records.c.user_id, records.c.code).where(
            records.c.request_id == answer.headers['x-openstack-request-id'],
            records.c.action == audited.action_of(row))
        found = []
        for database in (services.api_db, *(cell.db for cell in services.cells.all())):
            with database.reader() as conn:
                found += conn.execute(asked).all()
        assert [one.outcome for one in found] == ['accepted'], (row.method, row.path, row.action, found)
        assert found[0].user_id == environ['nova.context'].user_id

    def get(self, path, **more):
        return self.request('GET', path, **more)

    def post(self, path, body=None, **more):
        return self.request('POST', path, body, **more)

    def put(self, path, body=None, **more):
        return self.request('PUT', path, body, **more)

    def delete(self, path, **more):
        return self.request('DELETE', path, **more)


class ApiFixture:
    """An application with databases of its own below a directory, and no other service.

    :param overrides: options as nova.conf.new takes them
    :param services: fields of app.Services in place of the None that they are here
    :param url_of: function(name) -> URL of a new, empty database; None: SQLite below the directory
    """

    def __init__(self, directory, routes=None, services=None, url_of=None, **overrides):
        self.conf = nova_conf.new(**{'state_path': str(directory), **overrides})
        url_of = url_of or f'sqlite:///{directory}/{{}}.sqlite'.format
        self.api_db, self.cell_db = engine.Database(url_of('api')), engine.Database(url_of('cell1'))
        schemas.create(self.api_db, 'api')
        schemas.create(self.cell_db, 'cell')
        self.api_db.run(categories.ensure)
        self.cells = cells.Cells(self.conf, self.api_db, self.cell_db, lambda url: self.services)
        self.policy = policy.Policy(self.conf)
        self.services = app.Services(conf=self.conf, api_db=self.api_db, cells=self.cells, policy=self.policy,
                                     all_rules=(self.policy,), **(services or {}))
        if self.services.volumes is None:
            self.services.volumes = embedded.EmbeddedVolumes(self.conf, self.api_db, self.services.images)
        self.application = app.Application(self.services, routes)

    def client(self, **who):
        return Client(self.application, **who)

    def admin(self, **who):
        return self.client(**{'roles': ('admin', 'member', 'reader'), 'user': 'admin-user', **who})

    def close(self):
        self.api_db.dispose()
        self.cell_db.dispose()
