"""Fixtures of the functional tests."""
import os

import pytest

from nova.db import engine
from nova.db import tables_cell
from nova.tests.functional import base


@pytest.fixture
def api(tmp_path):
    """A whole compute API over databases of its own (see base.ApiFixture)."""
    fixture = base.ApiFixture(tmp_path)
    yield fixture
    fixture.close()


@pytest.fixture(params=['sqlite', 'mysql', 'postgresql'])
def database_url(request):
    """Of a cell's database: None, for SQLite; the empty ones of NOVA_TEST_MYSQL_URL and NOVA_TEST_POSTGRESQL_URL."""
    if request.param == 'sqlite':
        yield None
        return
    url = os.environ.get(f'NOVA_TEST_{request.param.upper()}_URL')
    if not url:
        pytest.skip(f'NOVA_TEST_{request.param.upper()}_URL is not set')
    yield url
    database = engine.Database(url)
    tables_cell.metadata.drop_all(database.engine)
    database.dispose()
