"""What a daemon loads before it serves: its memory and the time of its start."""
import json
import os
import subprocess
import sys

import pytest

LOADS = """
from nova.runtime import concurrency
concurrency.setup('native')
import importlib, json, sys
from nova.cmd import common
common.load_messaging()
import futurist
for name in sys.argv[1:]:
    importlib.import_module(name)
from nova import conf
conf.new(files=[])
found = {name.partition('.')[0] for name in sys.modules} | ({'sqlalchemy.orm'} & set(sys.modules))
print(json.dumps(sorted(found - set(sys.stdlib_module_names) - {'nova', '__mp_main__'})))
"""
COMMON = ('nova.cmd.common', 'nova.runtime.service', 'nova.runtime.monitoring', 'nova.cloud.assembly', 'nova.rpc.bus')
# What oslo.config, oslo.log, oslo.messaging, oslo.policy's options and oslo.versionedobjects bring with them, used or
# not. eventlet is not among them (nova/runtime/hooks/oslo_service.py).
OSLO = {
    'amqp', 'bcrypt', 'cachetools', 'cffi', 'cryptography', 'cython_runtime', 'dateutil', 'debtcollector',
    'fasteners', 'futurist', 'idna', 'iso8601', 'kombu', 'msgpack', 'netaddr', 'oslo_concurrency', 'oslo_config',
    'oslo_context', 'oslo_i18n', 'oslo_log', 'oslo_messaging', 'oslo_metrics', 'oslo_policy', 'oslo_serialization',
    'oslo_service', 'oslo_utils', 'oslo_versionedobjects', 'packaging', 'pbr', 'psutil', 'rfc3986', 'six', 'stevedore',
    'systemd', 'typing_extensions', 'vine', 'wrapt', 'yaml', 'yappi', 'zoneinfo'}
BUS = {'orjson', 'pamqp', 'prometheus_client'}
HTTP_SERVER = {'cheroot', 'jaraco', 'more_itertools'}             # of [monitoring]
NAMESPACES = {'paste', 'repoze', 'google', 'sphinxcontrib'}       # a .pth file makes them in every process
DISTRIBUTION = {'sitecustomize', 'apport_python_hook'}            # Debian's and Ubuntu's Python, in every process
EACH = OSLO | BUS | HTTP_SERVER | NAMESPACES | DISTRIBUTION
HTTP_CLIENT = {'certifi', 'chardet', 'charset_normalizer', 'keystoneauth1', 'os_service_types', 'requests', 'socks',
               'urllib3'}
DATABASE = {'oslo_db', 'sqlalchemy'}          # without sqlalchemy.orm, which has 5 to 8 MB and is used by nothing here
HTTP_FACE = {'attr', 'attrs', 'jsonpointer', 'jsonschema', 'jsonschema_specifications', 'referencing',
             'rfc3339_validator', 'routes', 'rpds'}
# daemon: (modules that its parts import, all libraries that it may load for them beside EACH)
DAEMONS = {
    'nova-compute': (('nova.compute.manager', 'nova.image.glance', 'nova.image.grants', 'nova.virt.fake.driver'),
                     HTTP_CLIENT),
    'nova-scheduler': (('nova.scheduler.driver', 'nova.scheduler.manager', 'nova.db.cells.cells'),
                       DATABASE | {'numpy'}),
    'nova-conductor': (('nova.conductor.manager', 'nova.db.cells.cells'), DATABASE),
    'nova-volume': (('nova.cloud.block_storage', 'nova.policy', 'nova.runtime.tls', 'nova.db.cells.cells',
                     'nova.image.api', 'nova.image.embedded.service', 'nova.volume.embedded',
                     'nova.volume.store.guests'), DATABASE | HTTP_FACE),
    'nova-network': (('nova.network.manager', 'nova.network.drivers', 'nova.db.cells.cells'), DATABASE),
}


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
