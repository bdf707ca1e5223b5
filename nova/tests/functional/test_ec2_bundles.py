"""Bundled images in the object store become images: made as euca-bundle-image makes them, registered with boto3."""
import os
import threading
import types

import botocore.exceptions
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
import pytest
import requests

from nova import exception
from nova.cert import signing
from nova.cmd.manage import main as manage
from nova.ec2 import errors
from nova.ec2 import operations
from nova.ec2.bundles import manifests
from nova.ec2.images import imports
from nova.ec2.images import registration
from nova.tests.support import waiting
from nova.tests.functional import callers
from nova.tests.functional import cloud as whole
from nova.tests.support import bundles as test_bundles
from nova.tests.support import ec2 as test_ec2
from nova.tests.support import ec2_bundles
from nova.tests.support import objectstore as test_objectstore
from nova.tests.support.ec2_bundles import bundle_of
from nova.tests.support.ec2_bundles import data_of
from nova.tests.support.ec2_bundles import pair_of
from nova.tests.support.ec2_bundles import refused
from nova.tests.support.ec2_bundles import settled
from nova.tests.support.ec2_bundles import shown
from nova.tests.support.ec2_bundles import sign
from nova.tests.support.ec2_bundles import upload

client = ec2_bundles.client
cloud = ec2_bundles.cloud
ec2 = ec2_bundles.ec2
encrypted = ec2_bundles.encrypted
pair = ec2_bundles.pair
s3 = ec2_bundles.s3
small = ec2_bundles.small


pytestmark = test_bundles.pytestmark
MIB = 1 << 20
def test_a_bundle_becomes_an_image(ec2, s3, client, small):
    bundle, data = small
    location = upload(s3, bundle, 'first')
    assert refused(ec2.register_image, ImageLocation=location, Name='dry', DryRun=True) == ('DryRunOperation', 412)
    made = ec2.register_image(ImageLocation=location, Name='first', Description='of a bundle', TagSpecifications=[
        {'ResourceType': 'image', 'Tags': [{'Key': 'job', 'Value': 'web'}]}])['ImageId']
    found = settled(ec2, made)
    assert found['State'] == 'available' and found['ImageLocation'] == location and found['Architecture'] == 'x86_64'
    assert found['ImageType'] == 'machine' and found['Tags'] == [{'Key': 'job', 'Value': 'web'}]
    image, stored = data_of(client, 'first')
    assert stored == data and image['disk_format'] == 'raw' and image['description'] == 'of a bundle'
    path = f'/image/v2/images/{image["id"]}'
    waiting.wait_for(lambda: client.get(path).json()['image_progress'] == '100', 20, '100 %')
    assert [row['ImageId'] for row in ec2.describe_images(Filters=[
        {'Name': 'manifest-location', 'Values': [location]}])['Images']] == [made]
    server = client.boot(image['id'], networks='none', version='2.37')['id']
    client.wait_for(server)
    client.delete(f'/servers/{server}')
    ec2.deregister_image(ImageId=made)
    assert refused(ec2.describe_images, ImageIds=[made]) == ('InvalidAMIID.NotFound', 400)
    assert not ec2.describe_images(Filters=[{'Name': 'name', 'Values': ['dry']}])['Images']


def test_registered_kernel_boots_an_image(ec2, s3, client, encrypted):
    kernel = bundle_of(b'kernel' * 1000, encrypted, kernel='<kernel_id>true</kernel_id>')
    aki = ec2.register_image(ImageLocation=upload(s3, kernel, 'kernel'), Name='kernel')['ImageId']
    assert settled(ec2, aki)['ImageType'] == 'kernel' and data_of(client, 'kernel')[0]['disk_format'] == 'aki'
    named = f'<kernel_id>{aki.replace("ami", "aki")}</kernel_id>'
    machine = bundle_of(bytes(MIB), encrypted, kernel=named)
    ami = ec2.register_image(ImageLocation=upload(s3, machine, 'machine'), Name='machine')['ImageId']
    found = settled(ec2, ami)
    assert (found['State'], found['ImageType']) == ('available', 'machine')
    assert found['KernelId'] == aki.replace('ami', 'aki')
    assert data_of(client, 'machine')[0]['disk_format'] == 'ami'
    other = bundle_of(bytes(MIB), encrypted, kernel='<kernel_id>aki-00000000</kernel_id>')
    assert refused(ec2.register_image, ImageLocation=upload(s3, other, 'other'), Name='x')[0] == 'InvalidAMIID.NotFound'


@pytest.fixture
def go():
    """What imports wait for in a test."""
    event = threading.Event()
    yield event
    event.set()


def test_it_is_pending_and_tells_how_far_it_is(ec2, s3, client, encrypted, monkeypatch, go):
    """The image is there at once; who deregisters it meanwhile ends the work."""
    reached = threading.Event()

    def slowly(self, pieces):
        for number, piece in enumerate(real(self, pieces)):
            yield piece
            if number == 9:
                reached.set()
                go.wait(60)
    real = imports._Import._counted
    monkeypatch.setattr(imports._Import, '_counted', slowly)
    location = upload(s3, bundle_of(os.urandom(20 * 65536), encrypted), 'slow')
    made = ec2.register_image(ImageLocation=location, Name='slow')['ImageId']
    assert reached.wait(60)
    found = shown(ec2, made)
    progress = int(found['StateReason']['Message'].split()[-2])
    assert found['State'] == 'pending' and 0 < progress < 100
    image, stored = data_of(client, 'slow')
    assert stored is None and image['status'] == 'saving' and image['image_progress'] == str(progress)
    ec2.deregister_image(ImageId=made)
    go.set()
    waiting.wait_for(lambda: not [thread for thread in threading.enumerate() if thread.name == 'ec2-import'], 60,
                     'the end of the import')
    assert not client.get('/image/v2/images?name=slow').json()['images']


def test_import_of_a_stopped_process_fails_and_can_be_deregistered(ec2, s3, cloud, small, monkeypatch):
    """Its image is failed after a while, and is deregistered like any other."""
    monkeypatch.setattr(imports.Imports, '_work', lambda self, _work, _pieces, project: self._places.release(project))
    made = ec2.register_image(ImageLocation=upload(s3, small[0], 'left'), Name='left')['ImageId']
    assert shown(ec2, made)['State'] == 'pending'
    monkeypatch.setattr(imports, 'UPDATE_TIMEOUT_S', -1)
    found = shown(ec2, made)
    assert found['State'] == 'failed' and found['StateReason']['Message'] == imports.LOST
    ec2.deregister_image(ImageId=made)


def test_parallel_imports_are_limited(ec2, s3, small, monkeypatch, go):
    def wait(self, pieces):
        go.wait(60)
        yield from real(self, pieces)
    real = imports._Import._counted
    monkeypatch.setattr(imports._Import, '_counted', wait)
    location, made = upload(s3, small[0], 'many'), []
    for _ in range(imports.MAX_IMPORTS // 2):
        made.append(ec2.register_image(ImageLocation=location, Name='many')['ImageId'])
    assert refused(ec2.register_image, ImageLocation=location, Name='x') == ('RequestLimitExceeded', 503)
    go.set()
    for image in made:
        assert settled(ec2, image)['State'] == 'available'
        ec2.deregister_image(ImageId=image)
    assert not ec2.describe_images(Filters=[{'Name': 'name', 'Values': ['x']}])['Images']


# ---- strangers -------------------------------------------------------------------

def test_another_project_has_no_such_object(cloud, client, s3, small, ec2):
    """Not the manifest, and not by a bucket of the same name; nor is a bundle that it has the way to another's."""
    location = upload(s3, small[0], 'mine')
    other = callers.Identity(cloud.admin()).in_project('stranger', 'member')
    pair, own = test_ec2.keys_of(other), ec2
    theirs, ec2 = test_objectstore.connect(cloud, pair), test_ec2.boto(cloud, pair)
    assert refused(ec2.register_image, ImageLocation=location, Name='x') == ('InvalidManifest', 400)
    theirs.create_bucket(Bucket='images')
    assert refused(ec2.register_image, ImageLocation=location, Name='x') == ('InvalidManifest', 400)
    copied = s3.get_object(Bucket='images', Key='mine/disk.img.manifest.xml')['Body'].read()
    theirs.put_object(Bucket='images', Key='mine/disk.img.manifest.xml', Body=copied)
    assert 'a user of your project' in reason(ec2.register_image, ImageLocation=location, Name='x')
    theirs.put_object(Bucket='images', Key='mine/disk.img.manifest.xml', Body=sign(small[0].xml(), pair_of(other)[0]))
    client.upload_image(name='kernel of its owner')
    named = [{'Name': 'name', 'Values': ['kernel of its owner']}]
    kernel, = (image['ImageId'] for image in own.describe_images(Owners=['self'], Filters=named)['Images'])
    assert refused(ec2.register_image, ImageLocation=location, KernelId=kernel, Name='x')[0] == 'InvalidAMIID.NotFound'
    made = ec2.register_image(ImageLocation=location, Name='x')['ImageId']
    found = settled(ec2, made)
    assert found['State'] == 'failed' and 'disk.img.part.0 of the image is not in' in found['StateReason']['Message']


SPOILT = {
    'another digest': (lambda b: b.digests.update({'disk.img.part.1': '0' * 40}), 'digest of disk.img.part'),
    'the digest of the image': (lambda b: setattr(b, 'digest', '0' * 40), 'digest of the image'),
    'a larger part': (lambda b: setattr(b, 'bundled', b.bundled - 1), 'larger than'),
    'another size': (lambda b: setattr(b, 'size', b.size + 1), 'differs from the manifest'),
    'a part that is not there': (lambda b: b.digests.update({'disk.img.part.99': '0' * 40}), 'disk.img.part.99'),
    'a part of somebody else': (lambda b: b.digests.update({'disk.img.manifest.xml': '0' * 40}), 'larger than'),
}


@pytest.mark.parametrize('name', SPOILT)
def test_a_spoilt_bundle_is_no_image(ec2, s3, client, encrypted, name):
    spoil, sentence = SPOILT[name]
    bundle = bundle_of(os.urandom(300_000), encrypted)
    spoil(bundle)
    made = ec2.register_image(ImageLocation=upload(s3, bundle, 'spoilt'), Name='spoilt')['ImageId']
    found = settled(ec2, made)
    assert found['State'] == 'failed' and sentence in found['StateReason']['Message']
    image, stored = data_of(client, 'spoilt')
    assert stored is None and image['status'] == 'queued' and image['size'] is None
    ec2.deregister_image(ImageId=made)


def test_it_is_inspected_as_any_upload_is(ec2, s3, encrypted):
    """A disk of QEMU's format names other files; nothing of the kind gets in as a raw one."""
    data = b'QFI\xfb' + (3).to_bytes(4, 'big') + bytes(65528)
    made = ec2.register_image(ImageLocation=upload(s3, bundle_of(data, encrypted), 'qcow2'), Name='qcow2')['ImageId']
    found = settled(ec2, made)
    assert found['State'] == 'failed' and 'data is qcow2' in found['StateReason']['Message']


def _replaced(before, after):
    return lambda text: text.replace(before, after, 1)


MANIFESTS = {
    'an entity': _replaced(b'<manifest>', b'<!DOCTYPE m [<!ENTITY a "b"><!ENTITY c "&a;&a;">]><manifest>'),
    'a file': _replaced(b'<manifest>', b'<!DOCTYPE m SYSTEM "file:///etc/passwd"><manifest>'),
    'a path': _replaced(b'<filename>disk', b'<filename>../disk'),
    'more parts than there are': _replaced(b'parts count="', b'parts count="1'),
    'a huge size': _replaced(b'<size>', b'<size>1000000'),
    'nothing': lambda text: b'', 'too long': lambda text: text + b' ' * manifests.MAX_BYTES,
    'an architecture': _replaced(b'x86_64', b'vax'), 'a type': _replaced(b'>machine<', b'>toaster<'),
    'a key of another cloud': _replaced(b'<ec2_encrypted_iv>', b'<ec2_encrypted_iv>00'),
}


@pytest.mark.parametrize('name', MANIFESTS)
def test_invalid_manifest_leaves_no_image(ec2, s3, client, small, name):
    before = len(client.get('/image/v2/images').json()['images'])
    xml = MANIFESTS[name](small[0].xml())
    location = upload(s3, small[0], 'hostile', sign(xml, s3.signing_key) if b'<image>' in xml else xml)
    code, status = refused(ec2.register_image, ImageLocation=location, Name='hostile')
    assert code in ('InvalidManifest', 'InvalidParameterValue') and status == 400
    assert len(client.get('/image/v2/images').json()['images']) == before


def reason(call, **given):
    with pytest.raises(botocore.exceptions.ClientError) as error:
        call(**given)
    assert error.value.response['Error']['Code'] == 'InvalidManifest'
    return error.value.response['Error']['Message']


def test_bundle_signature_needs_a_valid_certificate_of_the_project(cloud, ec2, s3, client, small, tmp_path, capsys):
    """A user of the project, by a certificate of the cloud that is not revoked; what was signed is what is read."""
    def register(xml):
        return reason(ec2.register_image, ImageLocation=upload(s3, small[0], 'signed', xml), Name='x')
    wanted = 'it is not signed with a valid certificate'
    key, certificate = pair_of(client)
    signed = sign(small[0].xml(), key)
    assert wanted in register(small[0].xml())                                       # 00
    assert wanted in register(signed.replace(b'part.1</filename>', b'part.0</filename>'))
    assert 'two elements' in register(signed.replace(b'<signature>', b'<image><size>1</size></image><signature>'))
    own = signing.key_pem(rsa.generate_private_key(65537, 2048))
    assert wanted in register(sign(small[0].xml(), own))
    serial = x509.load_pem_x509_certificate(certificate.encode()).serial_number
    config = tmp_path / 'manage.conf'
    config.write_text(f'[DEFAULT]\nstate_path = {cloud.state_path}\n')
    assert manage.main(['--config-file', str(config), 'cert', 'revoke', '--serial', f'{serial:040x}']) == 0
    assert wanted in register(signed)


@pytest.mark.parametrize('location', [
    '', 'images', 'images/', '/images/a', 'images/../other/a', 'images/a/./b', 'images//a', 'images/..', '../images/a',
    'IMAGES/a', 'images/a\nb', 'http://127.0.0.1/a', 'images/' + 'a' * 2000, 'i/a', '169.254.169.254/../a'])
def test_invalid_image_location_is_refused(ec2, s3, location):
    code, status = refused(ec2.register_image, ImageLocation=location, Name='x')
    assert code in ('InvalidParameterValue', 'MissingParameter', 'InvalidManifest') and status == 400


def test_unsupported_register_image_parameters_are_refused(ec2, s3, small):
    location = upload(s3, small[0], 'refused')
    assert refused(ec2.register_image, ImageLocation=location, VirtualizationType='paravirtual', Name='x')[0] == (
        'UnsupportedOperation')
    assert refused(ec2.register_image, ImageLocation=location, Name='x', BlockDeviceMappings=[
        {'DeviceName': 'vda', 'Ebs': {'SnapshotId': 'snap-00000001'}}])[0] == 'InvalidParameterCombination'
    assert refused(ec2.register_image, Name='x')[0] == 'MissingParameter'


def test_tokens_read_objects_of_their_project(cloud, s3, client):
    """What the EC2 API reads with, as its user: no more than the signature of the user could, and no writes."""
    s3.put_object(Bucket='images', Key='a b', Body=b'abc')
    url = cloud.url + '/objectstore/images/a%20b'
    other = callers.Identity(cloud.admin()).in_project('reader-of-others', 'reader')
    with requests.Session() as http:
        http.trust_env = False

        def ask(method, token, **more):
            return http.request(method, url, headers={'X-Auth-Token': token}, **more)
        assert ask('GET', client.token).content == b'abc'
        assert ask('GET', other.token).status_code == 404
        assert ask('GET', 'nonsense').status_code == 403
        for method in ('PUT', 'DELETE', 'POST'):
            assert ask(method, client.token, data=b'x').status_code == 403
        assert http.get(url).status_code == 403
    assert s3.get_object(Bucket='images', Key='a b')['Body'].read() == b'abc'


def test_without_the_certificate_service_nothing_is_opened(tmp_path):
    with whole.running(tmp_path, ['host1'], objectstore__enabled=True) as plain:
        ec2 = test_ec2.boto(plain, test_ec2.keys_of(plain.client()))
        assert refused(ec2.register_image, ImageLocation='images/a', Name='x') == ('UnsupportedOperation', 400)


def test_unavailable_certificate_service_returns_a_retryable_error(cloud):
    """Found with a service that was stopped: what the bus raises then is an answer that clients repeat."""
    def away(project_id, text):
        raise exception.ServiceUnavailable(service='nova-cert')
    request = types.SimpleNamespace(project_id='a' * 32, bundles=operations.Bundles(
        away, away, MIB, imports.Imports()))
    with pytest.raises(errors.Ec2Error) as found:
        registration._certified(request.bundles.decrypt, request.project_id, '00')
    assert (found.value.code, found.value.status) == ('Unavailable', 503)
