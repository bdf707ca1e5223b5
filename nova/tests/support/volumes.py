"""What tests share with nova/tests/functional/test_volumes.py."""
import pytest

from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support.waiting import wait_for
from nova.virt.fake import FakeDriver

HOSTS = ['h1', 'h2']
UNFINISHED = ('creating', 'downloading')         # statuses of a volume whose data is being made after the answer


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with cloud_fixture.running(tmp_path_factory.mktemp('cloud'), HOSTS, quota__instances=-1, quota__cores=-1,
                               quota__ram=-1) as made:
        yield made


@pytest.fixture(scope='module')
def user(cloud):
    return cloud.client(version='2.60')


@pytest.fixture(scope='module')
def image_id(user):
    return user.upload_image()


def drivers(cloud):
    return {service.host: service.manager.driver for service in cloud.services
            if service.binary == 'nova-compute'}


def guest_volumes(cloud, server_id):
    """{volume id: device} that the server's guest has."""
    for driver in drivers(cloud).values():
        assert isinstance(driver, FakeDriver)
        if server_id in driver.guests():
            return driver.machine.guests[server_id].get('volumes', {})
    return None


def volume(user, **values):
    """Create a volume, wait for its data, and return its id."""
    answer = user.post('/volume/v3/volumes', {'volume': {'size': 1, **values}})
    assert answer.status_code == 202, answer.text
    ident = answer.json()['volume']['id']
    wait_for(lambda: show(user, ident)['status'] not in UNFINISHED, 60, 'the data of the volume')
    return ident


def show(user, volume_id):
    return user.get(f'/volume/v3/volumes/{volume_id}').json().get('volume')


def status(user, volume_id, wanted):
    return wait_for(lambda: (found := show(user, volume_id)) and found['status'] == wanted and found)


def boot(user, image_id, **fields):
    server = {'name': 'vm', 'flavorRef': '42', 'networks': 'none', **({'imageRef': image_id} if image_id else {}),
              **fields}
    answer = user.post('/servers', {'server': server}, version=user.version if 'tag' not in str(fields) else '2.79')
    assert answer.status_code == 202, answer.text
    return user.wait_for(answer.json()['server']['id'])['id']


def attach(user, server_id, volume_id, version=None, **values):
    return user.post(f'/servers/{server_id}/os-volume_attachments',
                     {'volumeAttachment': {'volumeId': volume_id, **values}}, version=version)


def attachments(user, server_id, version='2.89'):
    return user.get(f'/servers/{server_id}/os-volume_attachments', version=version).json()['volumeAttachments']


def gone(user, server_id):
    user.delete(f'/servers/{server_id}')
    user.wait_for(server_id, 'DELETED')
