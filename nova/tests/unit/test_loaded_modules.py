"""What a daemon loads before it serves: its memory and the time of its start."""
import json
import os
import subprocess
import sys

import pytest
from nova.tests.support.loaded_modules import COMMON
from nova.tests.support.loaded_modules import DAEMONS
from nova.tests.support.loaded_modules import LOADS


# What oslo.config, oslo.log, oslo.messaging, oslo.policy's options and oslo.versionedobjects bring with them, used or
# not.
OSLO = {
    'amqp', 'bcrypt', 'cachetools', 'cffi', 'cryptography', 'cython_runtime', 'dateutil', 'debtcollector', 'eventlet',
    'fasteners', 'futurist', 'greenlet', 'idna', 'iso8601', 'kombu', 'msgpack', 'netaddr', 'oslo_concurrency',
    'oslo_config', 'oslo_context', 'oslo_i18n', 'oslo_log', 'oslo_messaging', 'oslo_metrics', 'oslo_policy',
    'oslo_serialization', 'oslo_service', 'oslo_utils', 'oslo_versionedobjects', 'packaging', 'pbr', 'psutil',
    'rfc3986', 'six', 'stevedore', 'systemd', 'typing_extensions', 'vine', 'wrapt', 'yaml', 'yappi', 'zoneinfo'}
BUS = {'orjson', 'pamqp', 'prometheus_client'}
HTTP_SERVER = {'cheroot', 'jaraco', 'more_itertools'}             # of [monitoring]
NAMESPACES = {'paste', 'repoze', 'google', 'sphinxcontrib'}       # a .pth file makes them in every process
DISTRIBUTION = {'sitecustomize', 'apport_python_hook'}            # Debian's and Ubuntu's Python, in every process
EACH = OSLO | BUS | HTTP_SERVER | NAMESPACES | DISTRIBUTION
@pytest.mark.parametrize('daemon', DAEMONS)
def test_a_daemon_loads_no_library_that_it_does_not_use(daemon):
    """A compute host has no use for a database, for arrays, or for what checks tokens and schemas; the options of
    other services loaded an HTTP client into every daemon, 8 MB, asked or not.
    """
    modules, used = DAEMONS[daemon]
    environ = {name: value for name, value in os.environ.items() if name != 'EVENTLET_NO_GREENDNS'}
    done = subprocess.run([sys.executable, '-W', 'ignore', '-c', LOADS, *COMMON, *modules], env=environ, check=True,
                          capture_output=True, text=True)
    loaded = {name for name in json.loads(done.stdout) if not name.startswith('_')}
    assert 'oslo_messaging' in loaded and loaded - EACH - used == set()
    assert used & loaded, 'The list names what nothing loads.'
