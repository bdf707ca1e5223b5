"""Fixtures of the functional tests."""
import os

import pytest

from nova.db import engine
from nova.tests import schemas
from nova.tests.functional import base

# The files that take longest: they come first, so that no process has one of them left when the others have ended.
LONG = ('test_lost_replies_cloud.py', 'test_identity_clients.py', 'test_core_lost_replies.py', 'test_fuzz_faces.py',
        'test_http_workers.py', 'test_callers.py', 'test_consoles.py', 'test_attacks.py', 'test_network_clients.py',
        'test_login_flood.py', 'test_image_clients.py', 'test_certificates.py', 'test_cells_cloud.py')


def pytest_collection_modifyitems(items):
    rank = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


@pytest.fixture
def api(tmp_path):
    """A whole compute API over databases of its own (see base.ApiFixture)."""
    fixture = base.ApiFixture(tmp_path)
    yield fixture
    fixture.close()


@pytest.fixture(scope='session')
def used_urls():
    """A set of URLs of databases whose tables go at the end of all tests."""
    urls = set()
    yield urls
    for url in urls:
        schemas.drop(url)


@pytest.fixture(params=['sqlite', 'mysql', 'postgresql'])
def database_url(request, used_urls):
    """Of a cell's database: None, for SQLite; the empty ones of NOVA_TEST_MYSQL_URL and NOVA_TEST_POSTGRESQL_URL."""
    if request.param == 'sqlite':
        yield None
        return
    url = os.environ.get(f'NOVA_TEST_{request.param.upper()}_URL')
    if not url:
        pytest.skip(f'NOVA_TEST_{request.param.upper()}_URL is not set')
    used_urls.add(url)
    yield url
    database = engine.Database(url)
    schemas.empty(database, 'cell')
    database.dispose()
