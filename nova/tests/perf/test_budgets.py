"""What a request may cost, in calls and statements: these do not depend on the machine."""
import sys

import pytest
import sqlalchemy as sa

from nova.tests import server_rows
from nova.tests.functional import base
from nova.tests.functional import servers

CALLS_PER_SERVER = 90            # of a detail list; the architecture allows 250
CALLS_PER_NAME = 15              # of a plain list
FEW, MANY = 100, 600


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    fixture = servers.Servers(tmp_path_factory.mktemp('budgets'))
    fixture.add_servers(*(server_rows.row(n, project_id=base.PROJECT) for n in range(MANY)))
    yield fixture
    fixture.close()


def calls(function):
    """Python and C functions called by ``function``."""
    count = 0

    def profile(_frame, event, _argument):
        nonlocal count
        count += event in ('call', 'c_call')
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


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


@pytest.mark.parametrize('path, admin, expected', [
    ('/servers', False, 1), ('/servers/detail', False, 1), ('/servers/detail', True, 2)])
def test_statements_of_a_list(cloud, path, admin, expected):
    """One SELECT, and one for the services where their state is shown."""
    client = cloud.admin(project=base.PROJECT) if admin else cloud.client()
    seen = statements(cloud.cell_db, lambda: client.get(path, version='2.104'))
    assert len(seen) == expected, seen
    assert statements(cloud.api_db, lambda: client.get(path, version='2.104')) == []


def test_showing_a_server_is_one_select(cloud):
    uuid = cloud.add_server()
    seen = statements(cloud.cell_db, lambda: cloud.client().get(f'/servers/{uuid}', version='2.104'))
    assert len(seen) == 1
