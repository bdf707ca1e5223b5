"""How deep the way of a request is: frames of ours on the stack when the database is asked."""
import datetime
import pathlib
import sys
import traceback

import pytest
import sqlalchemy as sa
from paste.deploy import loadwsgi

from nova import utils
import nova
from nova.api import metrics
from nova.identity import tokens
from nova.tests.functional import base
from nova.tests.functional import servers
from nova.web import paste_registry

APPLICATION, MIDDLEWARE = 10, 4
PASTE = pathlib.Path(__file__).parents[3] / 'etc/nova/api-paste.ini'
OWN = str(pathlib.Path(nova.__file__).parent)


class Tokens:
    """What EmbeddedAuth uses of an identity service."""

    def validate(self, token, allow_expired=False):
        now = utils.utcnow()
        claims = tokens.Claims(user_id=base.USER, scope='project', scope_id=base.PROJECT, methods=('password',),
                               audit_ids=('x',), issued_at=now, expires_at=now + datetime.timedelta(hours=1))
        return tokens.TokenData(claims=claims, user_id=base.USER, user_name='u', user_domain_id='d',
                                user_domain_name='D', project_id=base.PROJECT, roles=('member', 'reader'))


@pytest.fixture
def cloud(tmp_path):
    fixture = servers.Servers(tmp_path)
    yield fixture
    fixture.close()


def stack_at_the_database(cloud, ask):
    """The frames of the product below ``ask`` when the row of the server is read: (module, function)."""
    stacks = []

    def note(_conn, _cursor, statement, *_more):
        if 'instances' in statement and not stacks:
            stacks.append([frame for frame in traceback.extract_stack(sys._getframe())
                           if frame.filename.startswith(OWN) and not frame.filename.startswith(f'{OWN}/tests/')])
    sa.event.listen(cloud.cell_db.engine, 'before_cursor_execute', note)
    ask()
    sa.event.remove(cloud.cell_db.engine, 'before_cursor_execute', note)
    return [(pathlib.Path(frame.filename).stem, frame.name) for frame in stacks[0]]


def test_show_a_server(cloud):
    uuid = cloud.add_server()
    stack = stack_at_the_database(cloud, lambda: cloud.client().get(f'/servers/{uuid}', version='2.104'))
    assert stack[0] == ('application', '__call__') and len(stack) <= APPLICATION, stack


def test_middleware_of_the_pipeline(cloud):
    uuid, service = cloud.add_server(), Tokens()
    pipeline = metrics.MetricsMiddleware(loadwsgi.loadapp(f'config:{PASTE}', name='embedded', global_conf={
        'api_services': paste_registry.register(cloud.services), 'identity_service': paste_registry.register(service),
        'policy': paste_registry.register(cloud.policy), 'conf': paste_registry.register(cloud.conf)}))
    client = base.Client(pipeline, project=None)
    client.audited = False                       # the pipeline has no services to look for records
    stack = stack_at_the_database(cloud, lambda: client.get(f'/servers/{uuid}', headers={'X-Auth-Token': 'x'}))
    middleware = stack[:stack.index(('application', '__call__'))]
    assert len(middleware) <= MIDDLEWARE, middleware
