"""What tests share with nova/tests/functional/test_ec2_bundles.py."""
import hashlib
import io
import os
import subprocess
import tarfile
import tempfile

import pytest

from nova.cert import signing
from nova.tests.support import waiting
from nova.tests.functional import cloud as whole
from nova.tests.support import bundles as test_bundles
from nova.tests.support import ec2 as test_ec2
from nova.tests.support import objectstore as test_objectstore

refused = test_ec2.refused


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    bits, signing.AUTHORITY_BITS = signing.AUTHORITY_BITS, 2048
    try:
        with whole.running(tmp_path_factory.mktemp('bundles'), ['host1'], objectstore__enabled=True,
                           api__nova_network_resources=True, image__max_size=1) as running:
            yield running
    finally:
        signing.AUTHORITY_BITS = bits


@pytest.fixture(scope='module')
def client(cloud):
    return cloud.client()


@pytest.fixture(scope='module')
def pair(client):
    return test_ec2.keys_of(client)


@pytest.fixture(scope='module')
def s3(cloud, pair, client):
    made = test_objectstore.connect(cloud, pair)
    made.create_bucket(Bucket='images')
    made.signing_key = pair_of(client)[0]
    return made


@pytest.fixture(scope='module')
def ec2(cloud, pair):
    return test_ec2.boto(cloud, pair)


@pytest.fixture(scope='module')
def encrypted(client, tmp_path_factory):
    """The key and the vector as the tools write them: encrypted by openssl for the certificate of the cloud."""
    path = tmp_path_factory.mktemp('keys') / 'cloud.pem'
    path.write_text(client.get('/os-certificates/root').json()['certificate']['data'])
    words = ['openssl', 'pkeyutl', '-encrypt', '-certin', '-inkey', path]
    return [subprocess.run(words, input=text.encode(), capture_output=True, check=True).stdout.hex()
            for text in (test_bundles.KEY, test_bundles.IV)]


def bundle_of(data, encrypted, **more):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode='w', format=tarfile.GNU_FORMAT) as archive:
        member = tarfile.TarInfo('disk.img')
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return test_bundles.Bundle(made.getvalue(), len(data), encrypted=encrypted, **more)


def sign(text, key):
    """A manifest with the signature of a user's key (PEM), made by openssl as the tools do."""
    with tempfile.NamedTemporaryFile('w') as file:
        file.write(key)
        file.flush()
        made = subprocess.run(['openssl', 'pkeyutl', '-sign', '-inkey', file.name, '-pkeyopt', 'digest:sha1'],
                              input=hashlib.sha1(test_bundles.signed_part(text)).digest(), capture_output=True,
                              check=True).stdout.hex()
    return text.replace(b'<signature>00<', b'<signature>%s<' % made.encode())


def pair_of(client):
    """(key, certificate) of a user, PEM."""
    made = client.post('/os-certificates', {}).json()['certificate']
    return made['private_key'], made['data']


def upload(s3, bundle, folder, xml=None):
    """Leave a bundle in the object store, as euca-upload-bundle does; the location of its manifest."""
    if xml is None:
        xml = sign(bundle.xml(), s3.signing_key)
    for name, part in bundle.parts.items():
        s3.put_object(Bucket='images', Key=f'{folder}/{name}', Body=part)
    s3.put_object(Bucket='images', Key=f'{folder}/disk.img.manifest.xml', Body=xml)
    return f'images/{folder}/disk.img.manifest.xml'


@pytest.fixture(scope='module')
def small(encrypted):
    """(bundle, bytes) of a small image."""
    data = os.urandom(300_000)
    return bundle_of(data, encrypted), data


def shown(ec2, image):
    return ec2.describe_images(ImageIds=[image])['Images'][0]


def settled(ec2, image):
    """An image that is no longer pending."""
    found = []
    waiting.wait_for(lambda: found.append(shown(ec2, image)) or found[-1]['State'] != 'pending', 20, 'an import')
    return found[-1]


def data_of(client, name):
    """(the Image API's document, data) of the image of a name."""
    image, = client.get(f'/image/v2/images?name={name}').json()['images']
    answer = client.get(f'/image/v2/images/{image["id"]}/file')
    return image, answer.content if answer.status_code == 200 else None
