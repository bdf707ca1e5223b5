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
for name in sys.argv[1:]:
    importlib.import_module(name)
print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))
"""
COMMON = ('nova.runtime.service', 'nova.runtime.monitoring', 'nova.cloud.assembly', 'nova.rpc.bus')
# daemon: (modules that its parts import, libraries that it has no use for)
DAEMONS = {
    'nova-compute': (('nova.compute.manager', 'nova.virt.fake.driver'),
                     {'sqlalchemy', 'alembic', 'numpy', 'dns', 'keystonemiddleware', 'webob', 'routes', 'websockets'}),
    'nova-scheduler': (('nova.scheduler.manager',), {'dns', 'keystonemiddleware', 'websockets', 'libvirt'}),
    'nova-conductor': (('nova.conductor.manager',), {'dns', 'keystonemiddleware', 'websockets', 'libvirt'}),
}


@pytest.mark.parametrize('daemon', DAEMONS)
def test_a_daemon_loads_no_library_that_it_does_not_use(daemon):
    modules, unwanted = DAEMONS[daemon]
    environ = {name: value for name, value in os.environ.items() if name != 'EVENTLET_NO_GREENDNS'}
    done = subprocess.run([sys.executable, '-W', 'ignore', '-c', LOADS, *COMMON, *modules], env=environ, check=True,
                          capture_output=True, text=True)
    loaded = set(json.loads(done.stdout))
    assert 'oslo_messaging' in loaded and not loaded & unwanted
