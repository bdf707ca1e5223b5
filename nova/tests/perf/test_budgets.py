"""What a request may cost, in calls and statements: these do not depend on the machine."""
import uuid

import pytest
import sqlalchemy as sa

from nova.db.projects import flavors
from nova.identity import auth
from nova.tests import image_service
from nova.tests import server_rows
from nova.tests.functional import base
from nova.tests.functional import servers
from nova.tests.support import token_cache as test_token_cache
from nova.tests.support.budgets import calls


CALLS_PER_SERVER = 60            # of a detail list; the architecture allows 250
CALLS_PER_NAME = 3               # of a plain list
CALLS_TO_SHOW = 970              # an administrator at the newest version; 200 of them read the groups of the ports
CALLS_TO_RECORD = 185            # a write: its record in the audit log
CALLS_TO_CREATE = 4000 + CALLS_TO_RECORD     # until 202
CALLS_TO_DELETE = 1400 + CALLS_TO_RECORD
FEW, MANY = 100, 600


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    fixture = servers.Servers(tmp_path_factory.mktemp('budgets'))
    fixture.add_servers(*(server_rows.row(n, project_id=base.PROJECT) for n in range(MANY)))
    yield fixture
    fixture.close()


def statements(database, function):
    seen = []

    def note(_conn, _cursor, statement, *_more):
        if not statement.startswith('PRAGMA'):
            seen.append(statement)
    sa.event.listen(database.engine, 'before_cursor_execute', note)
    function()
    sa.event.remove(database.engine, 'before_cursor_execute', note)
    return seen


def per_server(client, path, version):
    def get(limit):
        answer = client.get(f'{path}?limit={limit}', version=version)
        assert len(answer.json['servers']) == limit
    get(FEW)                     # compiled and cached from now on
    few, many = (calls(lambda limit=limit: get(limit)) for limit in (FEW, MANY))
    return (many - few) / (MANY - FEW)


@pytest.mark.parametrize('version', ['2.1', '2.104'])
@pytest.mark.parametrize('admin', [True, False])
def test_calls_per_server_of_a_detail_list(cloud, version, admin):
    client = cloud.admin(project=base.PROJECT) if admin else cloud.client()
    assert per_server(client, '/servers/detail', version) <= CALLS_PER_SERVER


def test_calls_per_server_of_a_list(cloud):
    assert per_server(cloud.client(), '/servers', '2.104') <= CALLS_PER_NAME


@pytest.mark.parametrize('path, admin, expected, of_ports', [
    ('/servers', False, 1, 0), ('/servers/detail', False, 1, 1), ('/servers/detail', True, 2, 1)])
def test_statements_of_a_list(cloud, path, admin, expected, of_ports):
    """One SELECT, one for the services where their state is shown, one for the groups of the ports."""
    client = cloud.admin(project=base.PROJECT) if admin else cloud.client()
    seen = statements(cloud.cell_db, lambda: client.get(path, version='2.104'))
    assert len(seen) == expected, seen
    assert len(statements(cloud.api_db, lambda: client.get(path, version='2.104'))) == of_ports


def least(function):
    """The calls once everything is compiled and cached."""
    return min(calls(function) for _ in range(5))


def test_calls_of_one_server(cloud):
    client, uuid = cloud.admin(project=base.PROJECT), cloud.add_server()
    assert least(lambda: client.get(f'/servers/{uuid}', version='2.104')) <= CALLS_TO_SHOW
    assert least(lambda: client.post('/servers', cloud.body())) <= CALLS_TO_CREATE
    doomed = [cloud.add_server() for _ in range(5)]
    assert least(lambda: client.delete(f'/servers/{doomed.pop()}')) <= CALLS_TO_DELETE


def test_showing_a_server_is_one_select(cloud):
    uuid = cloud.add_server()
    seen = statements(cloud.cell_db, lambda: cloud.client().get(f'/servers/{uuid}', version='2.104'))
    assert len(seen) == 1


CALLS_TO_KNOW_A_TOKEN = 110      # auth_token alone takes 700


def test_calls_of_a_token_that_is_known(tmp_path):
    keystone = test_token_cache.Keystone()
    with image_service.listening(keystone) as keystone.address:
        guarded = test_token_cache.guarded(keystone, tmp_path, auth.KeystoneContext(
            lambda environ, start: start('200 OK', []) or []))
        environ = {'REQUEST_METHOD': 'GET', 'PATH_INFO': '/', 'HTTP_X_AUTH_TOKEN': 't', 'SERVER_NAME': 'cloud.test',
                   'SERVER_PORT': '80', 'wsgi.url_scheme': 'http', 'REMOTE_ADDR': '192.0.2.7'}
        assert least(lambda: guarded(dict(environ), lambda status, headers, error=None: None)) <= CALLS_TO_KNOW_A_TOKEN


# ---- lists of other things ---------------------------------------------------

WHOLE_CALLS_PER_SERVER = 140     # with volumes, tags, networks and groups in their rows
CALLS_PER_HYPERVISOR = 130
CALLS_PER_FLAVOR = 70


@pytest.fixture(scope='module')
def full(tmp_path_factory):
    """Servers that have all that a list shows; as many hosts and flavors."""
    fixture = servers.Servers(tmp_path_factory.mktemp('full'))
    fixture.add_servers(*(server_rows.row(
        n, project_id=base.PROJECT, host=f'h{n}-', node=f'n{n}-', tags=',a,b,c,', metadata={'k': 'v', 'other': 'w'},
        server_group_id=str(uuid.uuid4()), scheduler_hints={'group': [str(uuid.uuid4())]},
        security_groups=['default', 'web'], volumes=[
            {'id': str(uuid.uuid4()), 'delete_on_termination': False} for _ in range(2)]) for n in range(MANY)))
    with fixture.cell_db.writer() as conn:
        for n in range(MANY):
            fixture.add_host(conn, f'h{n}-', f'n{n}-')
    with fixture.api_db.writer() as conn:
        for n in range(MANY):
            flavors.create(conn, {'flavor_id': f'f{n}', 'name': f'f{n}', 'memory_mb': n, 'vcpus': 1, 'root_gb': 1,
                                  'extra_specs': {'hw:cpu_policy': 'shared'}})
    yield fixture
    fixture.close()


# (path, what its list is called, calls per item, statements in the cell's database, in the API's)
LISTS = (
    # servers; services, whose state is shown; the groups of their ports
    ('/servers/detail', 'servers', WHOLE_CALLS_PER_SERVER, 2, 1),
    ('/os-hypervisors/detail', 'hypervisors', CALLS_PER_HYPERVISOR, 3, 0),      # nodes, services, workloads
    ('/os-hypervisors/detail?with_servers=true', 'hypervisors', CALLS_PER_HYPERVISOR, 4, 0),     # and servers
    ('/flavors/detail', 'flavors', CALLS_PER_FLAVOR, 0, 1),
)


@pytest.mark.parametrize('path, name, bound, cell, api', LISTS, ids=[row[0] for row in LISTS])
def test_budget_of_a_list(full, path, name, bound, cell, api):
    """One statement, and one a relation, however long the list is; so many calls an item."""
    admin = full.admin(project=base.PROJECT, version='2.104')

    def get(limit):
        answer = admin.get(f'{path}{"&" if "?" in path else "?"}limit={limit}')
        assert len(answer.json[name]) == limit, answer.body[:200]
    get(FEW)
    for limit in (FEW, MANY):
        assert len(statements(full.cell_db, lambda: get(limit))) == cell
        assert len(statements(full.api_db, lambda: get(limit))) == api
    few, many = (calls(lambda limit=limit: get(limit)) for limit in (FEW, MANY))
    assert (many - few) / (MANY - FEW) <= bound
