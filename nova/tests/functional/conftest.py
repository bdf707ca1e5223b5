"""Fixtures of the functional tests, and which of them run on which threads."""
import collections
import itertools
import os
import threading
import zlib

import pytest

from nova.db import engine
from nova.runtime import concurrency
from nova.tests import long_runs
from nova.tests import schemas
from nova.tests.functional import base

# Files of what the models of threads do differently: listeners, waits, workers, races, queues, tasks that go on while
# others run. They run on both models.
BOTH = ('test_attacks.py', 'test_cells_cloud.py', 'test_consoles.py', 'test_core_', 'test_disorder_cloud.py',
        'test_events.py', 'test_growing_cloud.py', 'test_heartbeats.py', 'test_http_', 'test_interfaces.py',
        'test_live_cloud.py', 'test_moves_cloud.py', 'test_other_actions.py', 'test_outside_services.py',
        'test_overload.py', 'test_prefer_wait.py', 'test_restart.py', 'test_servers_cells.py',
        'test_servers_races.py', 'test_shares_of_projects.py', 'test_tls_listener.py', 'test_volumes.py',
        'test_volumes_races.py', 'test_volumes_recovery.py', 'test_write_batch.py')
# Of these, what both models must be asked for in each test: bytes, connections, processes. In short runs the tests of
# the others go to the two models in turn.
MODELS_OWN = ('test_attacks.py', 'test_consoles.py', 'test_events.py', 'test_http_', 'test_outside_services.py',
              'test_overload.py', 'test_prefer_wait.py', 'test_restart.py', 'test_shares_of_projects.py',
              'test_tls_listener.py')
# Files whose tests start no thread: a request is answered by the thread that sends it, over SQLite, and neither model
# switches there. `threadless` holds them to it; those of their tests that need threads have the mark `threads`, and run
# on both.
THREADLESS = (
    'test_api_requests.py', 'test_api_versions.py', 'test_bulk_action.py', 'test_categories.py', 'test_flavors.py',
    'test_hosts.py', 'test_idempotency.py', 'test_image_proxy.py', 'test_instance_actions.py', 'test_keypairs.py',
    'test_live_api.py', 'test_moves_api.py', 'test_placement_explain.py', 'test_quotas.py', 'test_rate_limits.py',
    'test_servers_actions.py', 'test_servers_create.py', 'test_servers_fuzz.py', 'test_servers_list.py',
    'test_usage.py')
# Files whose tests have one form and a subject each: every other test runs on one model, the rest on the other. Both
# models have the form, and each subject is had once.
HALVES = ('test_lost_replies_cloud.py',)


def _for_other_model(item, number):
    """With NOVA_TEST_ALTERNATE=1 what is not of BOTH runs on one model; which one is a matter of the file's name."""
    name = item.path.name
    if name in HALVES:
        return _of_other_model(number)
    if item.get_closest_marker('threads'):
        return False
    if name.startswith(BOTH):
        return not (long_runs.LONG or name.startswith(MODELS_OWN)) and _of_other_model(number)
    return concurrency.MODELS[zlib.crc32(name.encode()) % 2] != concurrency.model()


def _of_other_model(number):
    return concurrency.MODELS[number % 2] != concurrency.model()


@pytest.fixture(autouse=True)
def threadless(request, monkeypatch):
    """A test of a file of THREADLESS fails when it starts a thread."""
    if request.path.name in THREADLESS and not request.node.get_closest_marker('threads'):
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
