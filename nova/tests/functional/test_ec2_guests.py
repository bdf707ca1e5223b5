"""Documents that a guest reads of itself, and what the EC2 API and the compute API say of the same server."""
import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
import pytest
import webob

from nova.api.metadata import app as metadata
from nova.tests.support import waiting
from nova.tests.functional import cloud as whole
from nova.tests.support import ec2 as test_ec2
from nova.tests.support import isolation as test_isolation


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with whole.running(tmp_path_factory.mktemp('guests'), ['host1']) as running:
        yield running


@pytest.fixture(scope='module')
def demo(cloud):
    client = cloud.client()
    kernel, ramdisk = (client.upload_image(b'\0' * 1024, name=name, disk_format=name, container_format=name)
                       for name in ('aki', 'ari'))
    client.image = client.upload_image(b'\0' * 1024, name='guest', kernel_id=kernel, ramdisk_id=ramdisk)
    made = cloud.admin().post('/flavors', {'flavor': {
        'name': 'e1.disks', 'id': 'e1', 'ram': 64, 'vcpus': 1, 'disk': 1, 'OS-FLV-EXT-DATA:ephemeral': 2, 'swap': 64}})
    assert made.status_code == 200, made.text
    return client


@pytest.fixture(scope='module')
def ec2(cloud, demo):
    return test_ec2.boto(cloud, test_ec2.keys_of(demo))


class Guest:
    """A server, seen from inside.

    :param fields: of POST /servers
    """

    def __init__(self, cloud, client, **fields):
        self._service = metadata.Application(cloud.conf, cloud.api_db, cloud.cells)
        self.uuid = client.boot(client.image, **fields)['id']
        server = client.wait_for(self.uuid)
        self._address = next(iter(server['addresses'].values()))[0]['addr']

    def ask(self, path, method='GET', body=b''):
        request = webob.Request.blank(path, remote_addr=self._address, method=method, body=body)
        return request.get_response(self._service)

    def read(self, path):
        answer = self.ask(path)
        assert answer.status_code == 200, (path, answer.text)
        return answer.text


def status(client, volume):
    return client.get(f'/volume/v3/volumes/{volume}').json()['volume']['status']


def certificate():
    """A self-signed certificate, as text."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, 'me')])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(1))
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def test_a_guest_reads_every_disk_that_it_has(cloud, demo):
    """It read of its root disk alone."""
    guest = Guest(cloud, demo, flavor='e1')
    volume = demo.post('/volume/v3/volumes', {'volume': {'size': 1}}).json()['volume']['id']
    waiting.wait_for(lambda: status(demo, volume) == 'available', 60, 'a volume')
    made = demo.post(f'/servers/{guest.uuid}/os-volume_attachments', {'volumeAttachment': {'volumeId': volume}})
    assert made.status_code == 200, made.text
    waiting.wait_for(lambda: status(demo, volume) == 'in-use', 60, 'an attached volume')
    path = '/latest/meta-data/block-device-mapping'
    names = guest.read(path).split('\n')
    assert {name: guest.read(f'{path}/{name}') for name in names} == {
        'ami': 'vda', 'root': '/dev/vda', 'ephemeral0': '/dev/vdb', 'swap': '/dev/vdc', 'ebs0': '/dev/vdd'}


def test_ids_that_a_guest_reads_are_known_to_the_ec2_api(cloud, demo, ec2):
    """No request had named them before, and the EC2 API answered that there are none."""
    guest = Guest(cloud, demo)
    ami, aki, ari = (guest.read(f'/latest/meta-data/{name}-id') for name in ('ami', 'kernel', 'ramdisk'))
    assert (ami[:4], aki[:4], ari[:4]) == ('ami-', 'aki-', 'ari-')
    for shown in (ari, aki, ami):
        found = ec2.describe_image_attribute(ImageId=shown, Attribute='description')
        assert found['ImageId'][4:] == shown[4:]
    assert [row['Name'] for shown in (ami, aki, ari) for row in ec2.describe_images(ImageIds=[shown])['Images']] == [
        'guest', 'aki', 'ari']
    image, = ec2.describe_images(Filters=[{'Name': 'kernel-id', 'Values': [aki]}, {
        'Name': 'ramdisk-id', 'Values': [ari]}, {'Name': 'image-id', 'Values': [ami]}])['Images']
    assert (image['KernelId'], image['RamdiskId']) == (aki, ari)
    assert test_ec2.refused(ec2.describe_image_attribute, ImageId='aki-' + '0' * 17, Attribute='description')[0] == (
        'InvalidAMIID.NotFound')
    mac = guest.read('/latest/meta-data/mac')
    place = f'/latest/meta-data/network/interfaces/macs/{mac}'
    eni, subnet = guest.read(place + '/interface-id'), guest.read(place + '/subnet-id')
    found = ec2.describe_network_interface_attribute(NetworkInterfaceId=eni, Attribute='description')
    assert found['NetworkInterfaceId'] == eni
    assert ec2.create_network_interface(SubnetId=subnet)['NetworkInterface']['SubnetId'] == subnet


def test_a_guest_knows_the_type_of_its_key_pair(cloud, demo):
    """A certificate was described as a key of SSH."""
    keys = {'ssh': test_isolation.PUBLIC_KEY, 'x509': certificate()}
    for kind, text in keys.items():
        made = demo.post('/os-keypairs', {'keypair': {'name': kind, 'type': kind, 'public_key': text}}, version='2.2')
        assert made.status_code == 201, made.text
        guest = Guest(cloud, demo, key_name=kind)
        document = guest.ask('/openstack/latest/meta_data.json').json
        key, = document['keys']
        assert (key['name'], key['type'], key['data'].strip()) == (kind, kind, text.strip())
        assert guest.ask('/latest/meta-data/public-keys/0/openssh-key').status_code == (200 if kind == 'ssh' else 404)


def test_a_rebuilt_guest_posts_a_password_of_its_own(cloud, demo):
    """The password of the former guest stayed, and the new one got 409."""
    guest, path = Guest(cloud, demo), '/openstack/latest/password'
    assert guest.ask(path, 'POST', b'first').status_code == 200
    assert guest.ask(path, 'POST', b'second').status_code == 409
    shown = f'/servers/{guest.uuid}/os-server-password'
    assert demo.get(shown).json()['password'] == 'first'
    rebuilt = demo.post(f'/servers/{guest.uuid}/action', {'rebuild': {'imageRef': demo.image}})
    assert rebuilt.status_code == 202, rebuilt.text
    demo.wait_for(guest.uuid)
    assert demo.get(shown).json()['password'] == '' and guest.read(path) == ''
    assert guest.ask(path, 'POST', b'second').status_code == 200
    assert demo.get(shown).json()['password'] == 'second'
