"""What a compute can have of the embedded store while it works on servers: what its task was given."""
import pytest

from nova import context
from nova import exception
from nova.tests.support import waiting
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support.isolation import VERSION
from nova.tests.support.isolation import add_user
from nova.virt import driver as virt
from nova.virt.fake import driver as fake


class Driver(fake.FakeDriver):
    """Takes note of the contexts that it is called with, and tries to have another image with each."""

    stolen = None
    contexts, found, refused = [], [], []

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.features.update({feature: Feature(self, feature) for feature in (
            virt.Rescue, virt.Snapshot, virt.ImageCache)})

    def attempt(self, ctx, instance, image_id):
        self.contexts.append(ctx)
        if image_id:
            self.found.append(self.images.show(ctx, image_id)['id'])
        for ask in (lambda: self.images.show(ctx, self.stolen), lambda: self.images.delete(ctx, self.stolen),
                    lambda: self.images.download(ctx, self.stolen, '/nonexistent/x'),
                    lambda: self.images.upload(ctx, self.stolen, '/nonexistent/x', 'raw')):
            try:
                ask()
            except (exception.ImageNotFound, exception.Forbidden) as error:
                self.refused.append(error)
            else:
                raise AssertionError('an image of another project was to be had')

    def spawn(self, context, instance, request):
        self.attempt(context, instance, request.image and request.image['id'])
        super().spawn(context, instance, request)


class Feature:
    """Do what the driver's own object for a feature does, after the tries of ``Driver``."""

    def __init__(self, driver, feature):
        self.driver, self.own = driver, driver.features[feature]

    def rescue(self, context, instance, network_info, image, *more):
        self.driver.attempt(context, instance, image['id'])
        self.own.rescue(context, instance, network_info, image, *more)

    def unrescue(self, *arguments):
        self.own.unrescue(*arguments)

    def snapshot(self, context, instance, image_id, *more):
        self.driver.attempt(context, instance, image_id)
        self.own.snapshot(context, instance, image_id, *more)

    def cache_image(self, context, image_id):
        self.driver.attempt(context, None, image_id)
        self.own.cache_image(context, image_id)


@pytest.fixture(scope='module')
def cloud(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fake, 'FakeDriver', Driver)
        with cloud_fixture.running(tmp_path_factory.mktemp('grants')) as made:
            yield made


@pytest.fixture
def driver(cloud, users):
    Driver.contexts, Driver.found, Driver.refused = [], [], []
    Driver.stolen = users[0].upload_image(name='secret', visibility='private')
    return Driver


@pytest.fixture(scope='module')
def users(cloud):
    """(the victim, somebody else, an administrator of the second one's project)."""
    admin = cloud.admin(VERSION)
    return tuple(add_user(admin, project, role) for project, role in (
        ('victim', 'member'), ('worker', 'member'), ('worker', 'admin')))


def act(client, server, status='ACTIVE', **body):
    answer = client.post(f'/servers/{server}/action', body)
    assert answer.status_code in (200, 202), answer.text
    client.wait_for(server, status)
    return answer


@pytest.mark.parametrize('who', [1, 2])
def test_computes_read_images_by_grants_of_their_tasks(users, driver, who):
    """Whoever asks: an administrator's task is no administrator, either."""
    client = users[who]
    image, other = client.upload_image(name='image'), client.upload_image(name='other')
    rescue = client.upload_image(name='rescue')
    server = client.boot(image, networks='none')['id']
    client.wait_for(server)
    act(client, server, rebuild={'imageRef': other})
    copy = act(client, server, createImage={'name': 'copy'}).json()['image_id']
    backup = act(client, server, createBackup={'name': 'b', 'backup_type': 'daily', 'rotation': 1}).json()['image_id']
    again = act(client, server, createBackup={'name': 'b', 'backup_type': 'daily', 'rotation': 1}).json()['image_id']
    act(client, server, 'RESCUE', rescue={'rescue_image_ref': rescue})
    act(client, server, unrescue=None)
    act(client, server, 'SHELVED_OFFLOADED', shelve=None)
    act(client, server, unshelve=None)
    shelved, = {ident for ident in driver.found} - {image, other, copy, backup, again, rescue}
    assert driver.found == [image, other, copy, backup, again, rescue, shelved, shelved]
    assert len(driver.refused) == 4 * len(driver.found)
    assert {client.get(f'/image/v2/images/{ident}').status_code for ident in (backup, shelved)} == {404}
    assert client.get(f'/image/v2/images/{copy}').json()['status'] == 'active'
    assert users[0].get(f'/image/v2/images/{driver.stolen}').status_code == 200
    assert client.delete(f'/servers/{server}').status_code == 204


def test_image_caching_reads_images_by_grants(cloud, users, driver):
    admin, image = cloud.admin(VERSION), users[0].upload_image(name='wanted', visibility='private')
    aggregate = admin.post('/os-aggregates', {'aggregate': {'name': 'a'}}).json()['aggregate']['id']
    assert admin.post(f'/os-aggregates/{aggregate}/action', {'add_host': {'host': 'host1'}}).status_code == 200
    answer = admin.post(f'/os-aggregates/{aggregate}/images', {'cache': [{'id': image}]})
    assert answer.status_code == 202, answer.text
    waiting.wait_for(lambda: driver.refused[3:], 20, 'the image to be fetched')
    assert driver.found == [image]


def test_a_host_names_no_other_image(cloud, users, driver):
    """A copy of a server's volumes goes into the image that was made for it."""
    conductor = cloud.services[0].manager
    client = users[1]
    server = client.boot(client.upload_image(name='image'), networks='none')['id']
    client.wait_for(server)
    with pytest.raises(exception.ImageNotFound):
        conductor.methods.snapshot_volumes(context.admin_context(), server, driver.stolen)
    assert client.delete(f'/servers/{server}').status_code == 204
