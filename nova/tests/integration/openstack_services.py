"""Glance, Neutron and Cinder as their projects publish them, behind a Keystone of a test: their APIs and databases.

No disk and no packet is behind them: Glance stores files, volumes of Cinder are rows, and Neutron binds each port at
once. Their programs come from the environment that NOVA_TEST_KEYSTONE names (tools/test_services.sh makes it).
"""
import contextlib
import os
import subprocess

import pytest
import requests

from nova.tests.integration import keystone
from nova.tests.integration import servers

# lines that each service has
COMMON = '''[keystone_authtoken]
www_authenticate_uri = {identity}/v3
service_token_roles_required = true
{account}[cors]
allowed_origin = {dashboard}
expose_headers = X-Subject-Token,x-openstack-request-id
allow_methods = GET,HEAD,POST,PUT,PATCH,DELETE
allow_headers = Content-Type,X-Auth-Token,OpenStack-API-Version
'''
ACCOUNT = '''auth_type = password
auth_url = {identity}/v3
username = admin
password = {password}
project_name = admin
user_domain_id = default
project_domain_id = default
'''
GLANCE = '''[DEFAULT]
enabled_backends = files:file
[glance_store]
default_backend = files
[files]
filesystem_store_datadir = {directory}/images
[os_glance_tasks_store]
filesystem_store_datadir = {directory}/tasks
[os_glance_staging_store]
filesystem_store_datadir = {directory}/staging
[database]
connection = sqlite:///{directory}/glance.sqlite
sqlite_synchronous = false
[paste_deploy]
flavor = keystone
config_file = {etc}/glance/glance-api-paste.ini
{common}'''
NEUTRON = '''[DEFAULT]
auth_strategy = keystone
core_plugin = ml2
service_plugins = router
transport_url = fake:/
api_paste_config = {etc}/neutron/api-paste.ini
state_path = {directory}
dhcp_agent_notification = false
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
[database]
connection = {database}
[oslo_concurrency]
lock_path = {directory}/lock
[ml2]
mechanism_drivers = nova_test
type_drivers = local,vxlan
project_network_types = vxlan
extension_drivers = port_security
[ml2_type_vxlan]
vni_ranges = 1:4096
{common}'''
CINDER = '''[DEFAULT]
host = controller
state_path = {directory}
api_paste_config = {etc}/cinder/api-paste.ini
resource_query_filters_file = {etc}/cinder/resource_filters.json
auth_strategy = keystone
transport_url = {broker}
glance_api_servers = {glance}
enabled_backends = rows
[rows]
volume_driver = nova_test_volumes.Driver
volume_backend_name = rows
[database]
connection = {database}
[oslo_concurrency]
lock_path = {directory}/lock
[coordination]
backend_url = file://{directory}/coordination
[nova]
{account}{common}'''
VOLUMES = '''
from cinder.volume import driver
class Driver(driver.VolumeDriver):
    def do_setup(self, context): pass
    def check_for_setup_error(self): pass
    def create_volume(self, volume): pass
    def delete_volume(self, volume): pass
    def create_snapshot(self, snapshot): pass
    def delete_snapshot(self, snapshot): pass
    def create_volume_from_snapshot(self, volume, snapshot): pass
    def extend_volume(self, volume, new_size): pass
    def ensure_export(self, context, volume): pass
    def create_export(self, context, volume, connector): pass
    def remove_export(self, context, volume): pass
    def initialize_connection(self, volume, connector):
        return {'driver_volume_type': 'iscsi', 'data': {
            'target_portal': '192.0.2.1:3260', 'target_iqn': 'iqn.2010-10.org.openstack:' + volume.name,
            'target_lun': 1, 'target_discovered': False, 'volume_id': volume.id}}
    def terminate_connection(self, volume, connector, **more): pass
    def get_volume_stats(self, refresh=False):
        return {'volume_backend_name': 'rows', 'vendor_name': 'test', 'driver_version': '1',
                'storage_protocol': 'iSCSI', 'total_capacity_gb': 1000,
                'free_capacity_gb': 1000, 'reserved_percentage': 0}
'''
PORTS = '''
from neutron_lib.plugins.ml2 import api
class Driver(api.MechanismDriver):
    def initialize(self): pass
    @property
    def connectivity(self): return 'l2'
    def bind_port(self, context):
        segment = context.segments_to_bind[0]
        context.set_binding(segment['id'], 'ovs', {'port_filter': True}, 'ACTIVE')
'''
PACKAGE = {
    'nova_test_volumes.py': VOLUMES, 'nova_test_ports.py': PORTS,
    'nova_test_ports-1.0.dist-info/METADATA': 'Metadata-Version: 2.1\nName: nova-test-ports\nVersion: 1.0\n',
    'nova_test_ports-1.0.dist-info/entry_points.txt':
        '[neutron.ml2.mechanism_drivers]\nnova_test = nova_test_ports:Driver\n'}


def programs():
    """The directory of the services' programs; the test is skipped, with the reason, where one is missing."""
    place = keystone.programs()
    for name in ('glance-manage', 'neutron-db-manage', 'cinder-manage'):
        if not (place / name).exists():
            pytest.skip(f'the environment of NOVA_TEST_KEYSTONE has no {name}')
    return place


class Services:
    """The three services in one directory.

    :param identity: URL of Keystone, whose user admin has ``password``
    :param dashboard: origin of the page that asks them
    :ivar urls: {name: URL of the API} of those that run
    """

    def __init__(self, directory, stack, identity, password, dashboard):
        self._place, self._directory, self._stack, self.urls = programs(), directory, stack, {}
        account = ACCOUNT.format(identity=identity, password=password)
        self._values = {'etc': self._place.parent / 'etc', 'account': account, 'common': COMMON.format(
            identity=identity, account=account, dashboard=dashboard)}
        for name, text in PACKAGE.items():
            path = directory / 'drivers' / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def glance(self):
        file = self._settings('glance', 'glance-api.conf', GLANCE)
        self._manage('glance', 'glance-manage', '--config-file', file, 'db_sync')
        self._serve('glance', '', {'OS_GLANCE_CONFIG_DIR': file.parent})

    def neutron(self, database):
        """
        :param database: URL of an empty database: the migrations of Neutron do not run on SQLite
        """
        file = self._settings('neutron', 'neutron.conf', NEUTRON, database=database)
        self._manage('neutron', 'neutron-db-manage', '--config-file', file, 'upgrade', 'heads')
        self._serve('neutron', '', {'OS_NEUTRON_CONFIG_DIR': file.parent, 'OS_NEUTRON_CONFIG_FILES': 'neutron.conf'})

    def cinder(self, broker, database):
        """
        :param broker: URL of the messages between its processes
        :param database: URL of an empty database: green threads that wait for a lock of SQLite stop their process
        """
        file = self._settings('cinder', 'cinder.conf', CINDER, broker=broker, database=database,
                              glance=self.urls['glance'])
        self._manage('cinder', 'cinder-manage', '--config-file', file, 'db', 'sync')
        for kind in ('scheduler', 'volume'):
            self._run(f'cinder-{kind}', [self._place / f'cinder-{kind}', '--config-file', file], {})
        self._serve('cinder', '/v3', {}, '--config-file', file)

    def _settings(self, name, file, text, **values):
        directory = self._directory / name
        directory.mkdir()
        (self._directory / f'.{name}').symlink_to(directory)         # where its middleware for CORS looks
        path = directory / file
        path.write_text(text.format(directory=directory, **self._values, **values))
        return path

    def _environment(self, more):
        return {**os.environ, 'HOME': str(self._directory), 'PATH': f'{self._place}:{os.environ["PATH"]}',
                'PYTHONPATH': str(self._directory / 'drivers'), 'PYTHONWARNINGS': 'ignore',
                **{name: str(value) for name, value in more.items()}}

    def _manage(self, name, program, *arguments):
        done = subprocess.run([self._place / program, *arguments], env=self._environment({}), capture_output=True,
                              text=True, timeout=servers.START_S, check=False)
        assert done.returncode == 0, f'{name}: {done.stderr[-2000:]}'

    def _run(self, name, command, more):
        log = self._directory / f'{name}.log'
        return self._stack.enter_context(servers._running(command, log, env=self._environment(more))), log

    def _serve(self, name, path, more, *arguments):
        port = servers.free_port()
        process, log = self._run(name, [self._place / 'python', '-c', servers.WSGI.format(name), *arguments],
                                 {'PORT': port, **more})
        self.urls[name] = f'http://127.0.0.1:{port}{path}'
        servers._wait(lambda: _answers(f'http://127.0.0.1:{port}/'), process, log)


def _answers(url):
    with contextlib.suppress(requests.RequestException):
        return requests.get(url, timeout=60).status_code < 500
    return False
