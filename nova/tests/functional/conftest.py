"""Fixtures of the functional tests."""
import os

import pytest

from nova.db import engine
from nova.tests import schemas
from nova.tests.functional import base


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
