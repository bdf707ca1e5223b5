"""Volumes of a real Cinder, as its project publishes it, in a real Ceph, with real guests: what only Cinder refuses.

Cinder comes from the environment that NOVA_TEST_KEYSTONE names (tools/test.sh integration makes it).
"""
import base64
import contextlib
import os
import pathlib
import shutil
import tempfile
import types
import uuid

import pytest
import requests
import yaml
from keystoneauth1 import loading

from nova import context
from nova.tests import ceph as cephs
from nova.tests import long_runs
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.integration import servers
from nova.tests.support import libvirt as test_libvirt
from nova.tests.support.waiting import wait_for
from nova.volume import cinder as cinder_client

if test_libvirt._REASON is not None:
    pytest.skip(test_libvirt._REASON, allow_module_level=True)

from nova.tests.support.libvirt_volumes import run as type_line
from nova.tests.support.libvirt_volumes import write

ceph = cephs.ceph
GIB = 2 ** 30
SECRET = '0d6ab6c5-6d0c-4d0b-9a3b-4a5c2a1f7e02'
START_S = 90
SETTINGS = '''[DEFAULT]
host = controller
state_path = {directory}
api_paste_config = {etc}/api-paste.ini
resource_query_filters_file = {etc}/resource_filters.json
auth_strategy = keystone
transport_url = {broker}
glance_api_servers = {cloud}/image
enabled_backends = ceph
osapi_volume_workers = 1
osapi_volume_listen = 127.0.0.1
osapi_volume_listen_port = {port}
[ceph]
volume_driver = cinder.volume.drivers.rbd.RBDDriver
volume_backend_name = ceph
rbd_pool = {ceph.pool}
rbd_ceph_conf = {ceph.conf}
rbd_user = {ceph.user}
rbd_secret_uuid = {secret}
[database]
connection = {database}
[oslo_concurrency]
lock_path = {directory}/lock
[coordination]
backend_url = file://{directory}/coordination
[cinder_sys_admin]
helper_command = {place}/privsep-helper
[nova]
{account}
[keystone_authtoken]
service_token_roles_required = true
{account}'''
ACCOUNT = '''auth_type = password
auth_url = {identity}
username = {auth[username]}
password = {auth[password]}
project_name = {auth[project_name]}
user_domain_id = default
project_domain_id = default
'''
SERVER = '''
import socketserver, sys
from wsgiref import simple_server
port, sys.argv = int(sys.argv[2]), ['cinder-api', '--config-file', sys.argv[1]]
from cinder.wsgi import api
class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True
simple_server.make_server('127.0.0.1', port, api.application, Server).serve_forever()
'''


class Cloud(cloud_fixture.Cloud):
    """Its volumes are Cinder's, where the account of this cloud's own service asks."""

    def _compose(self):
        auth = yaml.safe_load(self.clouds_yaml.read_text())['clouds']['nova-service']['auth']
        self.conf.register_opts(loading.get_auth_plugin_conf_options('password'), group='cinder')
        for name, value in {'auth_url': self.url + '/identity/v3', 'username': auth['username'],
                            'password': auth['password'], 'project_name': auth['project_name'],
                            'user_domain_id': 'default', 'project_domain_id': 'default'}.items():
            self.conf.set_override(name, value, group='cinder')
        super()._compose()


def programs():
    """The directory of Cinder's programs; the test is skipped, with the reason, where it cannot run."""
    place = pathlib.Path(os.environ.get('NOVA_TEST_KEYSTONE', '/nonexistent')) / 'bin'
    if not (place / 'cinder-volume').exists():
        pytest.skip('NOVA_TEST_KEYSTONE names no environment with Cinder')
    if not list((place.parent / 'lib').glob('python*/site-packages/rbd.*.so')):
        pytest.skip("Cinder's environment has no Python packages of Ceph")
    return place


@pytest.fixture(scope='module')
def cloud(ceph):
    programs()
    directory = pathlib.Path(tempfile.mkdtemp(prefix='nova-cinder-', dir='/var/tmp'))      # QEMU's user passes through
    directory.chmod(0o711)
    give_secret(ceph)
    try:
        with cloud_fixture.running(
                directory, kind=Cloud, compute_driver='libvirt', libvirt__virt_type='qemu', volume__backend='cinder',
                cinder__auth_type='password',
                cinder__endpoint_override=f'http://127.0.0.1:{servers.free_port()}/v3') as made:
            admin, service = made.admin(), made.client('nova-service')
            role = admin.get('/identity/v3/roles?name=admin').json()['roles'][0]['id']        # it has service
            path = f'/identity/v3/projects/{service.project_id}/users/{service.user_id}/roles/{role}'
            assert admin.put(path).status_code == 204
            yield made
    finally:
        forget_secret()
        shutil.rmtree(directory)


def give_secret(ceph):
    connection = test_libvirt.libvirt.open(test_libvirt.URI)
    connection.secretDefineXML(f"<secret ephemeral='yes' private='yes'><uuid>{SECRET}</uuid><usage type='ceph'>"
                               '<name>volumes of Cinder</name></usage></secret>').setValue(base64.b64decode(ceph.key))
    connection.close()


def forget_secret():
    connection = test_libvirt.libvirt.open(test_libvirt.URI)
    for secret in connection.listAllSecrets():
        if secret.UUIDString() == SECRET:
            secret.undefine()
    connection.close()


@pytest.fixture(scope='module')
def cinder(cloud, ceph):
    """Started Cinder, and its API for the users of the cloud."""
    place, url = programs(), cloud.conf.cinder.endpoint_override
    port = int(url.rpartition(':')[2].partition('/')[0])
    auth = yaml.safe_load(cloud.clouds_yaml.read_text())['clouds']['nova-service']['auth']
    with servers._directory() as directory, servers.SHARED['mariadb']() as new_database, \
            contextlib.ExitStack() as stack:
        file = directory / 'cinder.conf'
        file.write_text(SETTINGS.format(
            directory=directory, database=new_database('cinder'), place=place, etc=place.parent / 'etc' / 'cinder',
            cloud=cloud.url, ceph=ceph, port=port, secret=SECRET,
            broker=servers.virtual_host().url.replace('nova-rabbit://', 'rabbit://'),
            account=ACCOUNT.format(identity=cloud.url + '/identity/v3', auth=auth)))
        environ = {**os.environ, 'HOME': str(directory), 'PATH': f'{place}:{os.environ["PATH"]}',
                   'PYTHONWARNINGS': 'ignore'}
        log = directory / 'log'
        with servers._running([place / 'cinder-manage', '--config-file', file, 'db', 'sync'], log, env=environ) as made:
            assert made.wait(START_S) == 0, log.read_text()[-2000:]
        api = stack.enter_context(servers._running([place / 'python', '-c', SERVER, file, str(port)], log, env=environ))
        for kind in ('scheduler', 'volume'):
            stack.enter_context(servers._running([place / f'cinder-{kind}', '--config-file', file],
                                                 directory / f'log.{kind}', env=environ))
        made = Cinder(url, cloud)
        servers._wait(lambda: _answers(url), api, log)
        wait_for(lambda: made.get('/scheduler-stats/get_pools', made.admin)['pools'], START_S,
                 'the scheduler to know the pool')
        yield made


def _answers(url):
    with contextlib.suppress(requests.ConnectionError):
        return requests.get(url + '/', timeout=60).status_code < 500
    return False


class Cinder:
    """Requests of users to its API."""

    def __init__(self, url, cloud):
        self.url, self.user, self.admin = url, cloud.client(), cloud.admin()

    def get(self, path, client=None):
        return self.ask('GET', path, client=client).json()

    def ask(self, method, path, body=None, client=None, version='3.66'):
        client = client or self.user
        answer = requests.request(method, f'{self.url}/{client.project_id}{path}', json=body, timeout=60, headers={
            'X-Auth-Token': client.token, 'OpenStack-API-Version': f'volume {version}'})
        assert answer.status_code < 300, answer.text
        return answer

    def make(self, **values):
        """A volume that is available."""
        ident = self.ask('POST', '/volumes', {'volume': {'size': 1, **values}}).json()['volume']['id']
        self.becomes(ident, 'available')
        return ident

    def becomes(self, ident, status, kind='volume'):
        def now():
            found = self.get(f'/{kind}s/{ident}')[kind]['status']
            assert found == status or 'error' not in found, found
            return found == status
        wait_for(now, 60, f'{kind} {ident} to be {status}')

    def attachments(self, server):
        return self.get(f'/attachments?all_tenants=1&instance_id={server}', self.admin)['attachments']


@pytest.fixture(scope='module')
def user(cloud, cinder):
    made = cloud.client(version='2.90')
    made.image = made.upload_image((test_libvirt.GUEST / 'guest.qcow2').read_bytes(), 'guest', disk_format='qcow2')
    yield made
    for server in made.get('/servers').json()['servers']:
        end(made, server['id'])


def boot(user, **mapping):
    mapping = {'boot_index': 0, 'destination_type': 'volume', 'volume_size': 1, **mapping}
    return user.boot('', networks='none', block_device_mapping_v2=[mapping])['id']


def end(user, server):
    assert user.delete('/servers/' + server).status_code == 204
    wait_for(lambda: user.get('/servers/' + server).status_code == 404, 60, 'its end')


class Guest(test_libvirt.Rig):
    """The rig's ways to a guest's console, for a guest of the cloud."""

    def __init__(self, cloud):
        self.driver, = (service.manager.driver for service in cloud.services if service.binary == 'nova-compute')


def act(user, server, name, values):
    answer = user.post(f'/servers/{server}/action', {name: values})
    assert answer.status_code == 202, answer.text
    user.wait_for(server)
    return answer


@long_runs.only
def test_a_guest_sees_and_keeps_its_data(cloud, cinder, user):
    rig = Guest(cloud)
    server = boot(user, source_type='image', uuid=user.image)
    root = user.wait_for(server)['os-extended-volumes:volumes_attached'][0]['id']
    guest = types.SimpleNamespace(uuid=server)
    rig.booted(guest)
    data = cinder.make(name='data')
    path = f'/servers/{server}/os-volume_attachments'
    assert user.post(path, {'volumeAttachment': {'volumeId': data}}).status_code == 200
    cinder.becomes(data, 'in-use')
    wait_for(lambda: data[:20] in type_line(rig, guest, 'cat /sys/block/vdb/serial'), 60, 'the disk to be seen')
    write(rig, guest, '/dev/vdb', 'before')
    # what is in use: a snapshot, and more room that the guest sees
    snapshot = cinder.ask('POST', '/snapshots', {'snapshot': {'volume_id': data}}).json()['snapshot']['id']
    cinder.becomes(snapshot, 'available', 'snapshot')
    cinder.ask('POST', f'/volumes/{data}/action', {'os-extend': {'new_size': 2}})
    wait_for(lambda: str(2 * GIB // 512) in type_line(rig, guest, 'cat /sys/block/vdb/size'), 60, 'the new size')
    write(rig, guest, '/dev/vdb', 'after')
    copy = cinder.make(snapshot_id=snapshot)
    assert user.delete(f'{path}/{data}').status_code == 202
    cinder.becomes(data, 'available')
    type_line(rig, guest, 'echo kept >/root/file; sync')
    # the image of a server is snapshots of its owner's: once they were of the service's project, and nobody found them
    act(user, server, 'createImage', {'name': 'copied'})
    shown = cinder.get(f'/snapshots/detail?volume_id={root}')['snapshots']
    assert [each['name'] for each in shown] == ['snapshot for server']
    end(user, server)
    wait_for(lambda: cinder.attachments(server) == [], 20, 'the attachments to go')
    # another server of the same volume, with what the first one has left on both
    server = boot(user, source_type='volume', uuid=root)
    user.wait_for(server)
    guest.uuid = server
    rig.booted(guest)
    assert 'kept' in type_line(rig, guest, 'cat /root/file')
    for ident, text in ((data, 'after'), (copy, 'before')):
        assert user.post(f'/servers/{server}/os-volume_attachments',
                         {'volumeAttachment': {'volumeId': ident}}).status_code == 200
        cinder.becomes(ident, 'in-use')
        wait_for(lambda: ident[:20] in type_line(rig, guest, 'cat /sys/block/vd?/serial'), 60, 'the disk to be seen')
        name = 'vdb' if ident == data else 'vdc'
        assert text in type_line(rig, guest, f'head -c {len(text)} /dev/{name}')
    end(user, server)
    wait_for(lambda: cinder.attachments(server) == [], 20, 'the attachments to go')


def test_the_volume_of_a_build_that_failed_is_given_back(cloud, ceph, cinder, user):
    """Cinder reserves no volume again that is attaching, and lets a service without a service token end no attachment:
    it stayed so for ever."""
    root = cinder.make(imageRef=user.image)
    forget_secret()
    try:
        server = boot(user, source_type='volume', uuid=root)
        user.wait_for(server, 'ERROR')
    finally:
        give_secret(ceph)
    cinder.becomes(root, 'available')
    wait_for(lambda: cinder.attachments(server) == [], 20, 'the attachment to go')
    end(user, server)


def test_two_hosts_reach_the_volume_of_a_server_that_moves(cloud, cinder, user):
    """Cinder refuses a connector for the second of two attachments that was made without one."""
    volumes, system = cinder_client.CinderVolumes(cloud.conf), context.admin_context()
    data, server = cinder.make(), str(uuid.uuid4())
    held = volumes.attach(system, data, server)
    volumes.connect(system, held, {'host': 'host1', 'ip': '192.0.2.1'}, '/dev/vdb')
    volumes.complete(system, held)
    made, info = volumes.attach_elsewhere(system, data, server, held, {'host': 'host2', 'ip': '192.0.2.2'}, '/dev/vdb')
    assert (info['driver_volume_type'], info['host'], info['data']['secret_uuid']) == ('rbd', 'host2', SECRET)
    volumes.complete(system, made)
    assert {each['id'] for each in cinder.attachments(server)} == {held, made}
    volumes.detach(system, held)
    cinder.becomes(data, 'in-use')
    volumes.detach(system, made)
    cinder.becomes(data, 'available')
