"""Fixtures of the functional tests, and which of them run on which threads."""
import collections
import itertools
import os
import threading

import pytest

from nova.db import engine
from nova.runtime import concurrency
from nova.tests import long_runs
from nova.tests import plan
from nova.tests import schemas
from nova.tests.functional import base


def _for_other_model(item, number):
    """With NOVA_TEST_ALTERNATE=1: whether ``nova.tests.plan`` leaves a test to the other thread model."""
    if item.get_closest_marker('threads'):
        return False
    if not plan.fits(item.path.name, plan.BOTH):
        return concurrency.model() != concurrency.DEFAULT_MODEL
    if long_runs.LONG or plan.fits(item.path.name, plan.MODELS_OWN):
        return False
    return concurrency.MODELS[number % 2] != concurrency.model()


@pytest.fixture(autouse=True)
def threadless(request, monkeypatch):
    """A test of a file of ``plan.THREADLESS`` fails when it starts a thread."""
    if request.path.name in plan.THREADLESS and not request.node.get_closest_marker('threads'):
        here, start = threading.current_thread(), threading.Thread.start

        def refuse(thread):
            assert threading.current_thread() is not here, f'{thread.name} starts: this test needs the mark threads'
            start(thread)
        monkeypatch.setattr(threading.Thread, 'start', refuse)


def pytest_configure(config):
    config.addinivalue_line('markers', 'threads: starts threads, in a file whose other tests start none')


def pytest_collection_modifyitems(config, items):
    if os.environ.get('NOVA_TEST_ALTERNATE') == '1':
        numbers = collections.defaultdict(itertools.count)          # of a test in its file
        elsewhere = [item for item in items if _for_other_model(item, next(numbers[item.path]))]
        config.hook.pytest_deselected(items=elsewhere)
        left = set(elsewhere)
        items[:] = [item for item in items if item not in left]


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
