"""What a real guest can read of images: kernel and ramdisk of its own, and of nobody else.

A kernel of a few bytes prints the beginning of its ramdisk at its console. Needs root and a libvirtd that answers.
"""
import os
import pathlib
import shutil
import tempfile

import pytest

from nova.tests import long_runs
from nova.tests import multiboot
from nova.tests.support import waiting
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support.isolation import PATCH
from nova.tests.support.isolation import VERSION
from nova.tests.support.isolation import add_user

libvirt = pytest.importorskip('libvirt', reason='libvirt-python is not installed')

BOOT_SECONDS = 120
SECRET = b'the bytes of a private image of another project '
OWN = b'the bytes of an image of my own '


def _missing():
    if os.geteuid() != 0:
        return 'needs root'
    try:
        libvirt.open('qemu:///system').close()
    except libvirt.libvirtError as error:
        return f'libvirt does not answer: {error}'
    return None


_REASON = _missing()
pytestmark = pytest.mark.skipif(_REASON is not None, reason=str(_REASON))


@pytest.fixture(scope='module')
def cloud():
    directory = pathlib.Path(tempfile.mkdtemp(prefix='nova-images-', dir='/var/tmp'))       # QEMU's user passes through
    directory.chmod(0o711)
    with cloud_fixture.running(directory, compute_driver='libvirt', libvirt__virt_type='qemu') as made:
        yield made
        client = made.admin(VERSION)
        for server in client.get('/servers?all_tenants=1').json()['servers']:
            client.delete('/servers/' + server['id'])
            client.wait_for(server['id'], 'DELETED')
    shutil.rmtree(directory)


@pytest.fixture(scope='module')
def victim(cloud):
    return add_user(cloud.admin(VERSION), 'victim', 'member')


@pytest.fixture(scope='module')
def client(cloud):
    return add_user(cloud.admin(VERSION), 'thief', 'member')


@pytest.fixture
def kernel(client):
    return client.upload_image(multiboot.kernel(), 'kernel', disk_format='aki', container_format='aki')


@pytest.fixture
def secret(victim):
    """A raw image of the victim that he lent for a moment: it may be named, and may not be used."""
    return victim.upload_image(padded(SECRET), 'secret', disk_format='ari', container_format='ari',
                               visibility='shared')


class Lent:
    """While it lasts the image is shared with the client's project."""

    def __init__(self, owner, image, client):
        self.owner, self.client, self.path = owner, client, f'/image/v2/images/{image}/members'

    def __enter__(self):
        assert self.owner.post(self.path, {'member': self.client.project_id}).status_code == 200

    def __exit__(self, *_error):
        assert self.owner.delete(f'{self.path}/{self.client.project_id}').status_code == 204
        assert self.client.get(self.path.removesuffix('/members')).status_code == 404


def padded(text):
    return text.ljust(multiboot.SHOWN, b'.').ljust(4096, b'\0')


def root(client, **properties):
    """The answer to the upload of a disk image with these properties."""
    return client.post('/image/v2/images', {'name': 'root', 'disk_format': 'ami', 'container_format': 'ami',
                                            **properties})


def filled(client, answer):
    """The id of the image with data."""
    assert answer.status_code == 201, answer.text
    sent = client.request('PUT', f'/image/v2/images/{answer.json()["id"]}/file', data=b'\0' * 1048576,
                          headers={'Content-Type': 'application/octet-stream'})
    assert sent.status_code == 204
    return answer.json()['id']


def boot(client, image, code=202):
    answer = client.post('/servers', {'server': {'name': 'server', 'imageRef': image, 'flavorRef': '42',
                                                 'networks': 'none'}})
    assert answer.status_code == code, answer.text
    return code == 202 and answer.json()['server']['id']


def console(client, server):
    """What the kernel printed, once it has ended."""
    def printed():
        text = client.post(f'/servers/{server}/action', {'os-getConsoleOutput': {}}).json().get('output', '')
        return text if multiboot.END.decode() in text else None
    return waiting.wait_for(printed, BOOT_SECONDS, 'the guest to print').encode()


def test_guest_boots_with_its_own_kernel_and_ramdisk(client, kernel):
    ramdisk = client.upload_image(padded(OWN), 'ramdisk', disk_format='ari', container_format='ari')
    server = boot(client, filled(client, root(client, kernel_id=kernel, ramdisk_id=ramdisk)))
    client.wait_for(server)
    assert OWN in console(client, server)


def test_private_image_of_another_project_is_refused_as_ramdisk(victim, client, kernel):
    """The attack of a member who knows the id alone."""
    stolen = victim.upload_image(padded(SECRET), 'secret', visibility='private')
    answer = root(client, kernel_id=kernel, ramdisk_id=stolen)
    if answer.status_code == 201:
        server = boot(client, filled(client, answer))
        client.wait_for(server)
        assert SECRET not in console(client, server)
    assert answer.status_code == 400 and stolen in answer.text


def test_image_that_is_no_longer_shared_is_refused_as_ramdisk(victim, client, kernel, secret):
    """Named while it could be seen, used when it could not."""
    with Lent(victim, secret, client):
        image = filled(client, root(client, kernel_id=kernel, ramdisk_id=secret))
    answer = client.post('/servers', {'server': {'name': 'server', 'imageRef': image, 'flavorRef': '42',
                                                 'networks': 'none'}})
    if answer.status_code == 202:
        server = answer.json()['server']['id']
        client.wait_for(server)
        assert SECRET not in console(client, server)
    assert answer.status_code == 400 and secret in answer.text


@long_runs.only
def test_property_added_to_a_shelved_image_does_not_lend_a_private_ramdisk(victim, client, kernel, secret):
    """The copy of a shelved server belongs to the user, who can write any properties into it."""
    server = boot(client, filled(client, root(client, kernel_id=kernel)))
    client.wait_for(server)
    assert client.post(f'/servers/{server}/action', {'shelve': None}).status_code == 202
    client.wait_for(server, 'SHELVED_OFFLOADED')
    found = client.get('/image/v2/images?visibility=private').json()['images']
    shelved = next(image['id'] for image in found if image.get('instance_uuid') == server)
    with Lent(victim, secret, client):
        assert client.request('PATCH', f'/image/v2/images/{shelved}', [
            {'op': 'add', 'path': '/ramdisk_id', 'value': secret}], headers=PATCH).status_code == 200
    assert client.post(f'/servers/{server}/action', {'unshelve': None}).status_code == 202
    client.wait_for(server)
    text = console(client, server)
    assert SECRET not in text
