"""What tests share with nova/tests/unit/test_loaded_modules.py."""
LOADS = """
from nova.runtime import concurrency
concurrency.setup('native')
import importlib, json, sys
import oslo_messaging
import futurist
for name in sys.argv[1:]:
    importlib.import_module(name)
from nova import conf
conf.new(files=[])
found = {name.partition('.')[0] for name in sys.modules} | ({'sqlalchemy.orm'} & set(sys.modules))
print(json.dumps(sorted(found - set(sys.stdlib_module_names) - {'nova', '__mp_main__'})))
"""
COMMON = ('nova.cmd.common', 'nova.runtime.service', 'nova.runtime.monitoring', 'nova.cloud.assembly', 'nova.rpc.bus')
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
