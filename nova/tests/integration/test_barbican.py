"""Keys of encrypted volumes out of a real Barbican, which checks tokens with this product's identity service.

Barbican comes from the environment that NOVA_TEST_KEYSTONE names (tools/test.sh integration makes it).
"""
import base64
import contextlib
import os
import pathlib
import secrets
import socket
import time
import types
import uuid

import pytest
import requests
import yaml

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova.conductor.servers import disk_keys
from nova.db.servers import disk_keys as db
from nova.db.tables import volume as tables
from nova.db.volumes import keys as volume_keys
from nova.db.volumes import volumes
from nova.tests.functional import cloud as fixture
from nova.tests.integration import servers
from nova.tests.support import image_signatures as signatures
from nova.tests.support import pci_cloud as test_pci_cloud
from nova.tests.support.waiting import wait_for
from nova.virt import image_signatures
from nova.volume import barbican
from nova.volume import embedded

SETTINGS = '''[DEFAULT]
host_href = {url}
transport_url = fake:/
db_auto_create = True
[database]
connection = sqlite:///{directory}/barbican.sqlite
sqlite_synchronous = false
[secretstore]
enabled_secretstore_plugins = store_crypto
[crypto]
enabled_crypto_plugins = simple_crypto
[simple_crypto_plugin]
kek = {kek}
[queue]
enable = False
[keystone_authtoken]
auth_type = password
auth_url = {identity}
username = {auth[username]}
password = {auth[password]}
project_name = {auth[project_name]}
user_domain_id = default
project_domain_id = default
'''
ACCOUNT = '''[conductor]
disk_key_backend = barbican
[barbican]
endpoint_override = {url}
auth_type = password
auth_url = {identity}
username = {auth[username]}
password = {auth[password]}
project_name = {auth[project_name]}
user_domain_id = default
project_domain_id = default
'''
PIPES = '''[composite:main]
use = egg:Paste#urlmap
/v1: barbican
[pipeline:barbican]
pipeline = authtoken context app
[filter:authtoken]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
[filter:context]
paste.filter_factory = barbican.api.middleware.context:ContextMiddleware.factory
[app:app]
paste.app_factory = barbican.api.app:create_main_app
'''
SERVER = '''
import os, socketserver, sys
from wsgiref import simple_server
from oslo_config import cfg
from barbican.common import config
config.CONF(['--config-file', sys.argv[1]], project='barbican')
from paste import deploy
class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True
made = deploy.loadapp('config:' + sys.argv[2])
def app(environ, start):
    environ['webob.adhoc_attrs'] = {'request_id': 'req-1'}           # of a filter that is left out here
    return made(environ, start)
simple_server.make_server('127.0.0.1', int(sys.argv[3]), app, Server).serve_forever()
'''


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with fixture.running(tmp_path_factory.mktemp('cloud'), ['host1']) as made:
        yield made


@pytest.fixture(scope='module')
def url(cloud):
    place = pathlib.Path(os.environ.get('NOVA_TEST_KEYSTONE', '/nonexistent')) / 'bin'
    if not (place / 'barbican-manage').exists():
        pytest.skip('NOVA_TEST_KEYSTONE names no environment with Barbican')
    port = servers.free_port()
    auth = yaml.safe_load(cloud.clouds_yaml.read_text())['clouds']['nova-service']['auth']
    with servers._directory() as directory:
        address = f'http://127.0.0.1:{port}'
        file = directory / '.barbican' / 'barbican.conf'             # below HOME: some of it reads that alone
        file.parent.mkdir()
        file.write_text(SETTINGS.format(
            url=address, directory=directory, identity=cloud.url + '/identity/v3', auth=auth,
            kek=base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()))
        (directory / 'paste.ini').write_text(PIPES)
        log = directory / 'log'
        command = [place / 'python', '-W', 'ignore', '-c', SERVER, file, directory / 'paste.ini',
                   str(port)]
        with servers._running(command, log, env={**os.environ, 'HOME': str(directory)}) as process:
            servers._wait(lambda: _answers(address), process, log)
            yield address


def _answers(url):
    with contextlib.suppress(requests.ConnectionError):
        return requests.get(url + '/v1/secrets', timeout=60).status_code == 401      # it wants a token
    return False


def store(client, url, kind, payload):
    """The id of a new secret of a client's project."""
    answer = client.session.post(url + '/v1/secrets', headers={'X-Auth-Token': client.token}, json={
        'name': 'k', 'secret_type': kind, 'payload': payload, **(
            {'payload_content_type': 'text/plain'} if kind == 'passphrase' else {
                'algorithm': 'aes', 'bit_length': 256, 'mode': 'xts',
                'payload_content_type': 'application/octet-stream', 'payload_content_encoding': 'base64'})})
    assert answer.status_code == 201, answer.text
    return answer.json()['secret_ref'].rpartition('/')[2]


def caller(client, token=None):
    return context.RequestContext(user_id=client.user_id, project_id=client.project_id, overwrite=False,
                                  auth_token=token or client.token)


def test_a_key_is_for_requests_of_its_owner(cloud, url):
    """As Block Storage makes passphrases of keys: os_brick.utils.get_passphrase_from_secret gives the same."""
    owner, other, key = cloud.client(), cloud.client('nova-service'), secrets.token_bytes(32)
    keys = barbican.Barbican(nova_conf.new(files=[], barbican__endpoint_override=url))
    symmetric = store(owner, url, 'symmetric', base64.b64encode(key).decode())
    assert keys.passphrase(caller(owner), symmetric) == key.hex()
    assert keys.passphrase(caller(owner), store(owner, url, 'passphrase', 'plain words')) == 'plain words'
    for who, ident, why in ((other, symmetric, 'refuses access'), (owner, symmetric[:-4] + 'ffff', 'refuses access'),
                            (owner, '../orders', 'has an invalid id'),
                            (owner, store(owner, url, 'opaque', base64.b64encode(key).decode()), 'not a LUKS key')):
        with pytest.raises(exception.InvalidVolume, match=why):
            keys.passphrase(caller(who), ident)
    with pytest.raises(exception.Unavailable):
        keys.passphrase(caller(owner, 'no token of ours'), symmetric)


def test_a_forged_image_is_refused_by_a_certificate_of_the_service(cloud, url, tmp_path):
    """As Glance's documentation stores it: base64 of a PEM file. Who may not read it gets no guest of the image."""
    owner, other, key = cloud.client(), cloud.client('nova-service'), signatures.ec.generate_private_key(
        signatures.ec.SECP384R1())
    signatures.certificate(tmp_path, 'signer', key)
    ident = store(owner, url, 'certificate', base64.b64encode((tmp_path / 'signer.pem').read_bytes()).decode())
    keys = barbican.Barbican(nova_conf.new(files=[], barbican__endpoint_override=url))
    verifier = image_signatures.Verifier('', lambda: keys.certificate)
    (tmp_path / 'data').write_bytes(signatures.DATA)
    (tmp_path / 'forged').write_bytes(signatures.DATA + b'x')
    signed = signatures.image(key, ident, 'ECC_SECP384R1', trusted=[ident])
    verifier.verify(caller(owner), signed, str(tmp_path / 'data'))
    symmetric = store(owner, url, 'symmetric', base64.b64encode(secrets.token_bytes(32)).decode())
    for who, given, file, why in (
            (owner, signed, 'forged', 'does not match its data'), (other, signed, 'data', 'no certificate'),
            (owner, signatures.image(key, symmetric, 'ECC_SECP384R1'), 'data', 'no certificate'),
            (owner, signatures.image(key, '../orders', 'ECC_SECP384R1'), 'data', 'not valid')):
        with pytest.raises(exception.ImageUnacceptable, match=why):
            verifier.verify(caller(who), given, str(tmp_path / file))


def secrets_of(client, url, name):
    answer = client.session.get(f'{url}/v1/secrets?name={name}', headers={'X-Auth-Token': client.token})
    assert answer.status_code == 200, answer.text
    return [each['secret_ref'] for each in answer.json()['secrets']]


def test_volume_keys_are_stored_by_the_service_account(cloud, url, tmp_path):
    """The database has the id alone. A copy keeps the key; with the last of both it is gone from Barbican, also where
    it did not answer, or where the answer to the making was lost."""
    auth = yaml.safe_load(cloud.clouds_yaml.read_text())['clouds']['nova-admin']['auth']
    (tmp_path / 'nova.conf').write_text(ACCOUNT.format(url=url, identity=cloud.url + '/identity/v3', auth=auth))

    def store_of(**more):
        conf = nova_conf.new(files=[str(tmp_path / 'nova.conf')], state_path=str(tmp_path), image__free_disk_reserve=0,
                             volume__encryption_key_backend='barbican', libvirt__sandbox_qemu_img=False, **more)
        return embedded.EmbeddedVolumes(conf, cloud.api_db, None)
    store, admin = store_of(), cloud.admin()
    alice = context.RequestContext(user_id='u', project_id='alice', roles=['member'], overwrite=False)
    kind = store.types.create('in barbican', None, {})
    store.types.set_encryption(kind['id'], {'provider': 'luks'}, new=True)

    def made(store, **given):
        ident = store.create(alice, 1, **given)['id']
        wait_for(lambda: store.get(alice, ident)['status'] == 'available', 60, 'the volume')
        return ident

    def key_of(ident):
        with cloud.api_db.reader() as conn:
            return volume_keys.get(conn, volumes.get(conn, tables.volumes, ident, 'alice')['key_id'])
    first = made(store, volume_type='in barbican')
    row, key = key_of(first), store.passphrase(alice, first)
    name = f'volume key {row["id"]}'
    assert row['encryption_key_id'] == 'barbican' and key not in str(row) and not (tmp_path / 'disk-keys').exists()
    assert secrets_of(admin, url, name) == [f'{url}/v1/secrets/{row["encrypted_key"]}']
    copy = made(store, source_volume_id=first)
    assert store.passphrase(alice, copy) == key
    store.delete(alice, first)
    store.jobs.delete_unused_keys()
    assert secrets_of(admin, url, name) and store.passphrase(alice, copy) == key
    away = store_of(barbican__endpoint_override='http://127.0.0.1:1')
    with pytest.raises(exception.Unavailable):
        away.create(alice, 1, volume_type='in barbican')
    with pytest.raises(exception.Unavailable):
        away.passphrase(alice, copy)
    with socket.create_server(('127.0.0.1', 0)) as mute:  # takes connections and answers nothing
        hung = store_of(barbican__endpoint_override=f'http://127.0.0.1:{mute.getsockname()[1]}', barbican__timeout=1)
        begun = time.monotonic()
        with pytest.raises(exception.Unavailable, match='Key Manager'):
            hung.create(alice, 1, volume_type='in barbican')
        assert time.monotonic() - begun < 20             # one limit, or a few where it is asked again
        hung.stop(30)
    away.delete(alice, copy)                             # what it cannot destroy now, the next start does
    away.stop(30)
    assert secrets_of(admin, url, name)
    lost = str(uuid.uuid4())                             # a secret whose id never came back
    with cloud.api_db.writer() as conn:
        volume_keys.insert(conn, lost, kind['id'], 'barbican', '')
    store.keys._manager.store(context.admin_context(), f'volume key {lost}', 'words')
    assert len(secrets_of(admin, url, f'volume key {lost}')) == 1
    store.recover()
    wait_for(lambda: not secrets_of(admin, url, name) and not secrets_of(admin, url, f'volume key {lost}'), 30,
             'the secrets to go')
    with cloud.api_db.reader() as conn:
        assert volume_keys.unused_outside(conn) == [] and not volume_keys.of_type(conn, kind['id'])
    # of a volume that is refused, nothing stays
    with pytest.raises(exception.InvalidInput):
        store.create(alice, 1, volume_type='in barbican', availability_zone='nowhere')
    wait_for(lambda: not volume_keys_of(cloud), 30, 'the key to go')
    store.stop(5)


def volume_keys_of(cloud):
    with cloud.api_db.reader() as conn:
        return volume_keys.unused_outside(conn)


def test_disk_keys_are_stored_by_the_service_account(cloud, url, tmp_path):
    """The database has the id alone; the key is gone from Barbican when the server ends."""
    auth = yaml.safe_load(cloud.clouds_yaml.read_text())['clouds']['nova-admin']['auth']
    (tmp_path / 'nova.conf').write_text(ACCOUNT.format(url=url, identity=cloud.url + '/identity/v3', auth=auth))
    conf = nova_conf.new(files=[str(tmp_path / 'nova.conf')], state_path=str(tmp_path))
    keys = disk_keys.DiskKeys(types.SimpleNamespace(conf=conf, cell_db=cloud.cell_db))
    clients = test_pci_cloud.Clients(cloud)
    clients.flavor('sealed', hw__ephemeral_encryption='true')
    server, system = clients.boot('sealed')['id'], context.admin_context()
    key = keys.get_disk_key(system, server)
    assert len(key) == 64 and keys.get_disk_key(system, server) == key
    with cloud.cell_db.reader() as conn:
        row = db.get(conn, server)
    assert row['encryption_key_id'] == 'barbican' and key not in str(row) and not (tmp_path / 'disk-keys').exists()
    address = f'{url}/v1/secrets/{row["encrypted_key"]}'
    codes = [client.session.get(address, headers={'X-Auth-Token': client.token}).status_code
             for client in (cloud.admin(), cloud.client())]
    assert codes[0] == 200 and codes[1] in (403, 404)
    for _attempt in range(2):
        keys.destroy_disk_key(system, server)
    assert cloud.admin().session.get(address, headers={'X-Auth-Token': cloud.admin().token}).status_code == 404
    with pytest.raises(exception.DiskKeyUnavailable, match='does not have the key'):
        keys.get_disk_key(system, server)
