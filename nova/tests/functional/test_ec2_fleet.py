"""nova-api-ec2 and nova-objectstore as a fleet has them: the services over HTTP, at the addresses of a catalog.

The services are those of an all-in-one, whose identity service answers as Keystone does.
"""
import contextlib
import socketserver
import threading
from wsgiref import simple_server

import pytest
import yaml

from nova import conf as nova_conf
from nova import policy
from nova.cert import signing
from nova.ec2 import calls
from nova.ec2 import errors
from nova.ec2 import part
from nova.objectstore import audit
from nova.objectstore import part as object_store
from nova.runtime import wsgi
from nova.tests.functional import callers
from nova.tests.functional import cloud as whole
from nova.tests.support import bundles as test_bundles
from nova.tests.support import ec2 as test_ec2
from nova.tests.support import ec2_bundles as bundles
from nova.tests.support import objectstore as test_objectstore

pytestmark = test_bundles.pytestmark
CONFIG = '''[DEFAULT]
state_path = {state}
[api]
nova_network_resources = true
[ec2]
auth_type = password
auth_url = {url}/identity/v3
username = {username}
password = {password}
project_name = {project_name}
user_domain_name = Default
project_domain_name = Default
'''
encrypted, small = bundles.encrypted, bundles.small


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True


class _Quiet(simple_server.WSGIRequestHandler):
    def log_message(self, *words):
        """Says nothing."""


@contextlib.contextmanager
def serving(application, path):
    """URL of an application below a path."""
    mounts = wsgi.Mounts([wsgi.Mount(path, application, max_body=None)])
    server = simple_server.make_server('127.0.0.1', 0, mounts, _Server, _Quiet)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f'http://127.0.0.1:{server.server_port}'
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Remote:
    """What the tests of the all-in-one's faces use of a cloud.

    :param url: in place of its own
    """

    def __init__(self, url):
        self.url = url


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    bits, signing.AUTHORITY_BITS = signing.AUTHORITY_BITS, 2048
    try:
        with whole.running(tmp_path_factory.mktemp('fleet'), ['host1'], objectstore__enabled=True,
                           api__nova_network_resources=True) as running:
            yield running
    finally:
        signing.AUTHORITY_BITS = bits


@pytest.fixture(scope='module')
def conf(cloud, tmp_path_factory):
    auth = yaml.safe_load(cloud.clouds_yaml.read_text())['clouds']['nova-service']['auth']
    path = tmp_path_factory.mktemp('conf') / 'nova.conf'
    path.write_text(CONFIG.format(url=cloud.url, state=path.parent, **{
        name: auth[name] for name in ('username', 'password', 'project_name')}))
    return nova_conf.new(files=[str(path)])


@pytest.fixture(scope='module')
def client(cloud):
    return cloud.client()


@pytest.fixture(scope='module')
def pair(client):
    return test_ec2.keys_of(client)


@pytest.fixture(scope='module')
def ec2(cloud, conf, pair):
    application = part.remote(conf, cloud.api_db, policy.Policy(conf), '', cloud.bus)
    with serving(application, test_ec2.PATH) as url:
        yield test_ec2.boto(Remote(url), pair)


def s3_of(cloud, pair, client):
    made = test_objectstore.connect(cloud, pair)
    made.create_bucket(Bucket='images')
    made.signing_key = bundles.pair_of(client)[0]
    return made


def test_a_bundle_becomes_an_image(cloud, ec2, pair, client, small):
    """Its parts are read, and its data are sent, over HTTP, while they are made."""
    s3 = s3_of(cloud, pair, client)
    location = bundles.upload(s3, small[0], 'first')
    made = ec2.register_image(ImageLocation=location, Name='first')['ImageId']
    found = bundles.settled(ec2, made)
    assert found['State'] == 'available', found
    assert bundles.data_of(client, 'first')[1] == small[1]
    ec2.deregister_image(ImageId=made)
    assert bundles.refused(ec2.register_image, ImageLocation='images/none', Name='x') == ('InvalidManifest', 400)
    broken = bundles.bundle_of(bytes(2_000_000), small[0].encrypted)
    broken.digests['disk.img.part.0'] = '0' * 40
    made = ec2.register_image(ImageLocation=bundles.upload(s3, broken, 'broken'), Name='broken')['ImageId']
    found = bundles.settled(ec2, made)
    assert found['State'] == 'failed' and 'digest of disk.img.part.0' in found['StateReason']['Message']
    image, stored = bundles.data_of(client, 'broken')
    assert stored is None and image['status'] == 'queued'


def test_the_instances_of_a_request_are_one_reservation(client, ec2):
    """The compute API believes no client about it, and has an id of its own: they are found again by that."""
    client.upload_image(b'\0' * 1024, name='plain')
    image, = ec2.describe_images(Filters=[{'Name': 'name', 'Values': ['plain']}])['Images']
    flavor = min(ec2.describe_instance_types()['InstanceTypes'], key=lambda row: row['MemoryInfo']['SizeInMiB'])
    made, again = (ec2.run_instances(ImageId=image['ImageId'], InstanceType=flavor['InstanceType'], MinCount=2,
                                     MaxCount=2, ClientToken='twice') for _ in range(2))
    ids = sorted(row['InstanceId'] for row in made['Instances'])
    shown, = ec2.describe_instances(InstanceIds=ids)['Reservations']
    assert ids == sorted(row['InstanceId'] for row in again['Instances'])
    assert made['ReservationId'] == again['ReservationId'] == shown['ReservationId']
    found = client.get(f'/servers/detail?reservation_id={made["ReservationId"]}').json()
    assert found['servers'] == []
    ec2.terminate_instances(InstanceIds=ids)


def test_bundles_need_an_object_store(conf, client):
    with pytest.raises(errors.NoService):
        list(calls.RemoteServices(None, 'public', 'RegionOne', 5).read(
            calls.User(client.token, client.user_id, client.project_id, (), []), 'object', '/a/b', {}))


def test_unavailable_service_returns_a_retryable_error(conf, client, pair):
    catalog = [{'type': 's3', 'endpoints': [{'interface': 'public', 'region_id': 'RegionOne',
                                             'url': 'http://127.0.0.1:9/'}]}]
    from keystoneauth1 import session
    services = calls.RemoteServices(session.Session(), 'public', 'RegionOne', 5)
    with pytest.raises(errors.Ec2Error) as found:
        list(services.read(calls.User('x', 'x', 'x', (), catalog), 'object', '/a/b', {}))
    assert found.value.code == 'Unavailable'


def test_the_object_store_asks_keystone(cloud, conf, pair, client):
    """Whose a token is. Signatures are checked by a call that the identity service of an all-in-one does not have."""
    conf.set_override('path', str(cloud.state_path / 'objects-of-the-fleet'), group='objectstore')
    local = object_store.application(conf, policy.Policy(conf), object_store.LocalCallers(cloud.identity),
                                     audit.logged)
    with serving(local, '/objectstore') as url:
        s3 = test_objectstore.connect(Remote(url), pair)
        s3.create_bucket(Bucket='bucket')
        s3.put_object(Bucket='bucket', Key='key', Body=b'abc')
    application = object_store.application(conf, policy.Policy(conf), object_store.RemoteCallers(conf), audit.logged)
    with serving(application, '/objectstore') as url:
        other = callers.Identity(cloud.admin()).in_project('fleet-stranger', 'reader')
        unscoped = callers.Identity(cloud.admin()).without_project()['unscoped']
        for token, code in ((client.token, 200), (other.token, 404), (unscoped.token, 403), ('nonsense', 403),
                            ('x' * 5000, 403)):
            answer = client.session.get(f'{url}/objectstore/bucket/key', headers={'X-Auth-Token': token})
            assert answer.status_code == code, answer.text
