"""The Images interface over both homes, recovery after a crash, and real clients over a real HTTP server."""
import contextlib
import hashlib
import json
import logging
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import uuid

import pytest

from nova import conf as nova_conf
from nova import context
from nova import exception
from nova.cloud import assembly
from nova.db.images import images as db_images
from nova.image.embedded.images import EmbeddedImages
from nova.image import glance
from nova.image import granted
from nova.image.rest.app import Application
from nova.tests import image_corpus as corpus
from nova.tests import image_service as service
from nova.tests.support import waiting
from nova.tests import warm_client

SECRET = 'x:' + service.ALICE


class Home:
    """One implementation of Images, and what is behind it."""

    def __init__(self, images, store):
        self.images, self.store = images, store
        self.alice = context.RequestContext(user_id='u', project_id=service.ALICE, roles=['member', 'reader'],
                                            auth_token=SECRET, overwrite=False)
        self.bob = context.RequestContext(user_id='b', project_id=service.BOB, roles=['member', 'reader'],
                                          auth_token='x:' + service.BOB, overwrite=False)

    def data_file(self):
        name, = os.listdir(self.store.files.directory)
        return os.path.join(self.store.files.directory, name)


@pytest.fixture(params=['embedded', 'glance'])
def home(request, tmp_path):
    store = service.store(tmp_path)
    if request.param == 'embedded':
        yield Home(assembly.images(nova_conf.new(files=[]), None, store), store)
        return
    with service.listening(Application(store)) as address:
        conf = nova_conf.new(files=[], image__backend='glance', glance__endpoint_override=address,
                             glance__auth_type='none')
        images = assembly.remote_images(conf)
        assert isinstance(images, glance.GlanceImages)
        yield Home(images, store)


def test_embedded_images_can_be_uploaded_and_downloaded(home, tmp_path):
    source, target = tmp_path / 'source', tmp_path / 'target'
    source.write_bytes(corpus.qcow2())
    image = home.images.create(home.alice, {'name': 'one', 'properties': {'a': '1'}, 'tags': ['t'], 'min_ram': 5})
    assert (image['status'], image['properties'], image['tags'], image['min_ram']) == ('queued', {'a': '1'}, ['t'], 5)
    with pytest.raises(exception.ImageInactive):
        home.images.download(home.alice, image['id'], str(target))
    granted.BoundImages(home.images, home.alice).upload(image['id'], str(source), 'qcow2')
    image = home.images.show(home.alice, image['id'])
    assert (image['status'], image['disk_format'], image['container_format']) == ('active', 'qcow2', 'bare')
    assert (image['size'], image['virtual_size'], image['os_hash_algo']) == (len(corpus.qcow2()), 2 ** 20, 'sha512')
    assert image['created_at'].tzinfo is None and image['created_at'] <= image['updated_at']
    home.images.download(home.alice, image['id'], str(target))
    assert target.read_bytes() == corpus.qcow2() and stat.S_IMODE(target.stat().st_mode) == 0o600
    changed = home.images.update(home.alice, image['id'], {'name': 'two', 'properties': {'b': '2'}})
    assert (changed['name'], changed['properties']) == ('two', {'a': '1', 'b': '2'})
    changed = home.images.update(home.alice, image['id'], {'properties': {'c': '3'}}, purge_props=True)
    assert changed['properties'] == {'c': '3'}
    home.images.delete(home.alice, image['id'])
    with pytest.raises(exception.ImageNotFound):
        home.images.show(home.alice, image['id'])


def test_embedded_images_are_listed_and_filtered(home):
    ids = [home.images.create(home.alice, {'name': f'n{n}', 'tags': ['x', f't{n}']})['id'] for n in range(3)]
    assert [image['id'] for image in home.images.list(home.alice)] == ids[::-1]
    assert [image['id'] for image in home.images.list(home.alice, {'name': 'n1'})] == [ids[1]]
    assert [image['id'] for image in home.images.list(home.alice, {'tag': ['x', 't2']})] == [ids[2]]
    assert [image['id'] for image in home.images.list(home.alice, limit=1, marker=ids[2])] == [ids[1]]
    assert [image['id'] for image in home.images.list(home.alice, sort='name:asc')] == ids
    assert home.images.list(home.bob) == []


def test_images_of_others_and_wrong_ids_raise_not_found(home, tmp_path):
    image = home.images.create(home.alice, {'visibility': 'private'})
    for call in (home.images.show, home.images.delete, lambda *args: home.images.download(*args, str(tmp_path / 'x')),
                 lambda *args: home.images.update(*args, {'name': 'x'})):
        for image_id in (image['id'], str(uuid.uuid4()), '../../v2/images', '', None, 'a/b?c'):
            with pytest.raises(exception.ImageNotFound):
                call(home.bob, image_id)
    assert not (tmp_path / 'x').exists()


def test_dangerous_upload_is_refused(home, tmp_path):
    path = tmp_path / 'disk'
    path.write_bytes(corpus.qcow2(backing=b'/etc/passwd'))
    image = home.images.create(home.alice, {})
    for declared in ('raw', 'qcow2'):
        with pytest.raises(exception.ImageUnacceptable):
            home.images.upload(home.alice, image['id'], str(path), declared)
    assert home.images.show(home.alice, image['id'])['status'] == 'queued'
    assert os.listdir(home.store.files.directory) == []


def test_amazon_formats_are_accepted(home, tmp_path):
    path = tmp_path / 'kernel'
    path.write_bytes(corpus.kernel())
    image = home.images.create(home.alice, {})
    home.images.upload(home.alice, image['id'], str(path), 'aki')
    assert home.images.show(home.alice, image['id'])['container_format'] == 'aki'


def test_changed_image_data_fails_the_download(home, tmp_path):
    path = tmp_path / 'disk'
    path.write_bytes(corpus.qcow2())
    image = home.images.create(home.alice, {})
    home.images.upload(home.alice, image['id'], str(path), 'qcow2')
    with open(home.data_file(), 'r+b') as file:
        file.seek(100000)
        file.write(b'!')
    with pytest.raises(exception.ImageUnacceptable, match='checksum'):
        home.images.download(home.alice, image['id'], str(tmp_path / 'target'))
    assert sorted(name for name in os.listdir(tmp_path) if name.startswith('target')) == []


def test_download_inspects_again(home, tmp_path):
    """What an older deployment let in is refused before a tool sees it."""
    path = tmp_path / 'disk'
    path.write_bytes(corpus.qcow2())
    image = home.images.create(home.alice, {})
    home.images.upload(home.alice, image['id'], str(path), 'qcow2')
    with open(home.data_file(), 'r+b') as file:
        file.write(corpus.qcow2(features=4)[:200])
    home.store.db.run(db_images.update, image['id'], {'os_hash_algo': None, 'os_hash_value': None, 'checksum': None})
    with pytest.raises(exception.ImageUnacceptable, match='external data'):
        home.images.download(home.alice, image['id'], str(tmp_path / 'target'))


def test_image_with_unsupported_hash_algorithms_is_refused(home, tmp_path):
    path = tmp_path / 'disk'
    path.write_bytes(corpus.qcow2())
    image = home.images.create(home.alice, {})
    home.images.upload(home.alice, image['id'], str(path), 'qcow2')
    target, known = str(tmp_path / 'target'), hashlib.md5(path.read_bytes()).hexdigest()
    for columns in ({'os_hash_algo': 'later', 'checksum': known}, {'os_hash_algo': None, 'checksum': None}):
        home.store.db.run(db_images.update, image['id'], columns)
        home.images.download(home.alice, image['id'], target)
    home.store.db.run(db_images.update, image['id'], {'os_hash_algo': 'later'})
    with pytest.raises(exception.ImageUnacceptable, match='cannot compute its checksum'):
        home.images.download(home.alice, image['id'], str(tmp_path / 'refused'))
    assert not (tmp_path / 'refused').exists()


def test_sparse_data_stays_sparse(tmp_path):
    store = service.store(tmp_path)
    home = Home(EmbeddedImages(store), store)
    path = tmp_path / 'disk'
    path.write_bytes(b'\1' * 4096 + bytes(8 * corpus.MIB) + b'\2' * 4096 + bytes(corpus.MIB))
    image = home.images.create(home.alice, {})
    home.images.upload(home.alice, image['id'], str(path), 'raw')
    home.images.download(home.alice, image['id'], str(tmp_path / 'target'))
    assert (tmp_path / 'target').read_bytes() == path.read_bytes()
    assert (tmp_path / 'target').stat().st_blocks * 512 < 2 * corpus.MIB


def given(home, path, disk_format='qcow2'):
    image = home.images.create(home.alice, {})
    home.images.upload(home.alice, image['id'], str(path), disk_format, give=True)
    return home.images.show(home.alice, image['id'])


def test_a_given_file_is_moved_into_the_store(tmp_path):
    """Its bytes are written once: by the program that made it."""
    store = service.store(tmp_path)
    home = Home(EmbeddedImages(store), store)
    path = tmp_path / 'disk'
    path.write_bytes(corpus.qcow2() + os.urandom(3 * corpus.MIB))
    data, inode = path.read_bytes(), path.stat().st_ino
    image = given(home, path)
    stored = home.data_file()
    assert not path.exists() and os.stat(stored).st_ino == inode and os.stat(stored).st_mode & 0o777 == 0o600
    assert image['status'] == 'active' and image['size'] == len(data)
    waiting.wait_for(lambda: home.images.show(home.alice, image['id'])['checksum'], 30, 'the checksums')
    image = home.images.show(home.alice, image['id'])
    assert image['os_hash_algo'] == 'sha512' and image['checksum'] == hashlib.md5(data).hexdigest()
    assert image['os_hash_value'] == hashlib.sha512(data).hexdigest()
    home.images.download(home.alice, image['id'], str(tmp_path / 'target'))
    assert (tmp_path / 'target').read_bytes() == data


@pytest.mark.parametrize('obstacle', ['a writer', 'a second name', 'another file system'])
def test_a_given_file_that_cannot_be_moved_is_copied(tmp_path, obstacle):
    store = service.store(tmp_path)
    home = Home(EmbeddedImages(store), store)
    with contextlib.ExitStack() as stack:
        path = tmp_path / 'disk'
        if obstacle == 'another file system':
            path = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(dir='/dev/shm'))) / 'disk'
            assert os.stat('/dev/shm').st_dev != os.stat(tmp_path).st_dev
        path.write_bytes(corpus.qcow2())
        if obstacle == 'a writer':               # QEMU that goes on writing could change what was inspected
            stack.enter_context(open(path, 'r+b'))
        elif obstacle == 'a second name':
            os.link(path, tmp_path / 'second')
        image = given(home, path)
        assert image['status'] == 'active' and image['checksum'] == hashlib.md5(corpus.qcow2()).hexdigest()
        assert path.exists() and os.stat(home.data_file()).st_ino != path.stat().st_ino


def test_a_given_file_is_inspected(tmp_path):
    store = service.store(tmp_path)
    home = Home(EmbeddedImages(store), store)
    path = tmp_path / 'disk'
    path.write_bytes(corpus.qcow2(features=4))
    image = home.images.create(home.alice, {})
    with pytest.raises(exception.ImageUnacceptable, match='external data'):
        home.images.upload(home.alice, image['id'], str(path), 'qcow2', give=True)
    assert home.images.show(home.alice, image['id'])['status'] == 'queued'
    assert not os.listdir(store.files.directory)


def test_silent_image_service_raises_unavailable(tmp_path):
    conf = nova_conf.new(files=[], image__backend='glance', glance__endpoint_override='http://127.0.0.1:9',
                         glance__auth_type='none')
    ctx = context.RequestContext(auth_token='canary-token', overwrite=False)
    with pytest.raises(exception.Unavailable) as caught:
        assembly.remote_images(conf).show(ctx, str(uuid.uuid4()))
    assert 'canary' not in str(caught.value)


def test_interrupted_download_raises_unavailable(tmp_path):
    store, path = service.store(tmp_path), tmp_path / 'disk'
    path.write_bytes(corpus.qcow2())
    served = Application(store)

    def interrupted(environ, start_response):
        chunks = served(environ, start_response)
        if environ['PATH_INFO'].endswith('/file') and environ['REQUEST_METHOD'] == 'GET':
            return [b''.join(chunks)[:1000]]
        return chunks
    with service.listening(interrupted) as address:
        conf = nova_conf.new(files=[], image__backend='glance', glance__endpoint_override=address,
                             glance__auth_type='none')
        home = Home(assembly.remote_images(conf), store)
        image = home.images.create(home.alice, {})
        home.images.upload(home.alice, image['id'], str(path), 'qcow2')
        with pytest.raises(exception.Unavailable, match='Image service'):
            home.images.download(home.alice, image['id'], str(tmp_path / 'target'))
    assert not list(tmp_path.glob('target*'))


# ---- crashes -----------------------------------------------------------------

CRASH = """
import os, sys
from nova.tests import image_service as service
store = service.store(sys.argv[1])
ctx = service.caller(service.ALICE)
image = store.create(ctx, {'name': 'cut', 'disk_format': 'raw', 'container_format': 'bare'})
print(image['id'], flush=True)
def chunks():
    yield b'x' * 100000
    os.kill(os.getpid(), 9)
store.upload(ctx, image['id'], chunks())
"""


def test_upload_interrupted_by_a_crash_is_removed(tmp_path):
    whole = service.store(tmp_path)
    ctx = service.caller(service.ALICE)
    kept = whole.create(ctx, {'disk_format': 'raw', 'container_format': 'bare'})
    whole.upload(ctx, kept['id'], [b'kept'])
    crashed = subprocess.run([sys.executable, '-c', CRASH, str(tmp_path)], capture_output=True, text=True, timeout=300)
    image_id = crashed.stdout.strip()
    assert crashed.returncode == -9 and whole.show(ctx, image_id)['status'] == 'saving'
    assert len(os.listdir(whole.files.directory)) == 2
    restarted = service.store(tmp_path)
    assert restarted.show(ctx, image_id)['status'] == 'queued'
    assert os.listdir(restarted.files.directory) == [restarted.show(ctx, kept['id'])['data_id']]
    restarted.upload(ctx, image_id, [b'again'])
    assert restarted.show(ctx, image_id)['status'] == 'active'


def test_disk_full_leaves_nothing(tmp_path):
    store = service.store(tmp_path)
    ctx = service.caller(service.ALICE)
    image = store.create(ctx, {'disk_format': 'raw', 'container_format': 'bare'})

    def chunks():
        yield b'x' * 1000
        raise OSError(28, 'No space left on device')
    with pytest.raises(exception.InsufficientStorage):
        store.upload(ctx, image['id'], chunks())
    assert store.show(ctx, image['id'])['status'] == 'queued' and os.listdir(store.files.directory) == []


# ---- clients -----------------------------------------------------------------

@pytest.fixture
def address(tmp_path):
    with service.listening(service.application(tmp_path)) as found:
        yield found


@pytest.fixture
def cloud(address):
    return _connect(address, service.ALICE)


def _connect(address, project):
    openstack = pytest.importorskip('openstack', reason='openstacksdk is not installed')
    return openstack.connect(auth_type='admin_token', auth={'endpoint': address, 'token': f'x:{project}'},
                             image_endpoint_override=address)


def test_openstacksdk_manages_images(cloud, address, tmp_path, caplog):
    caplog.set_level(logging.DEBUG, 'nova')
    path = tmp_path / 'disk.qcow2'
    path.write_bytes(corpus.qcow2())
    image = cloud.image.create_image('sdk', filename=str(path), disk_format='qcow2', container_format='bare',
                                     validate_checksum=True, tags=['t'], wait=True, meta={'min_ram': 3})
    assert (image.status, image.min_ram, image.tags) == ('active', 3, ['t'])
    assert image.properties['owner_specified.openstack.object'] == 'images/sdk'
    assert cloud.image.find_image('sdk').id == image.id
    cloud.image.download_image(image, output=str(tmp_path / 'back'))
    assert (tmp_path / 'back').read_bytes() == corpus.qcow2()
    changed = cloud.image.update_image(image, name='renamed', hw_disk_bus='virtio', is_protected=True)
    assert (changed.name, changed.hw_disk_bus, changed.is_protected) == ('renamed', 'virtio', True)
    cloud.image.update_image(image, is_protected=False)
    for number in range(5):
        cloud.image.create_image(f'more{number}', allow_duplicates=True)
    assert len(list(cloud.image.images(limit=2))) == 6
    member = cloud.image.add_member(image, member=service.BOB)
    assert (member.status, [row.member_id for row in cloud.image.members(image)]) == ('pending', [service.BOB])
    bob = _connect(address, service.BOB)
    assert bob.image.update_member(service.BOB, image.id, status='accepted').status == 'accepted'
    assert [row.id for row in bob.image.images()] == [image.id]
    cloud.image.remove_member(service.BOB, image)
    cloud.image.delete_image(image)
    assert cloud.image.find_image('renamed') is None
    assert SECRET not in caplog.text


@pytest.fixture
def run(address):
    pytest.importorskip('openstackclient', reason='python-openstackclient is not installed')
    clean = {name: value for name, value in os.environ.items() if not name.startswith('OS_')}
    clean['OS_IMAGE_ENDPOINT_OVERRIDE'] = address            # discovers versions there, as with a catalog

    def command(*args, project=service.ALICE, fails=False):
        status, printed = warm_client.client().run(['--os-auth-type', 'admin_token', '--os-endpoint', address,
                                                    '--os-token', f'x:{project}', 'image', *args], clean)
        assert bool(status) == fails, printed
        return json.loads(printed) if '-fjson' in args else printed
    return command


def test_openstackclient_manages_images(run, tmp_path):
    (tmp_path / 'disk').write_bytes(corpus.qcow2())
    image = run('create', 'cli', '--file', str(tmp_path / 'disk'), '--disk-format', 'qcow2', '--min-disk', '1',
                '--property', 'a=b', '--tag', 't', '-fjson')
    assert image['name'] == 'cli' and run('show', 'cli', '-fjson')['status'] == 'active'
    assert [row['Name'] for row in run('list', '--long', '-fjson')] == ['cli']
    run('set', 'cli', '--property', 'c=d', '--tag', 'u', '--name', 'new', '--shared')
    shown = run('show', 'new', '-fjson')
    assert shown['properties']['c'] == 'd' and sorted(shown['tags']) == ['t', 'u']
    run('unset', 'new', '--property', 'a', '--tag', 't')
    shown = run('show', 'new', '-fjson')
    assert 'a' not in shown['properties'] and shown['tags'] == ['u']
    run('save', 'new', '--file', str(tmp_path / 'saved'))
    assert (tmp_path / 'saved').read_bytes() == corpus.qcow2()
    run('delete', 'new')
    assert run('list', '-fjson') == []


def test_openstack_client_sees_why_an_image_is_refused(run, tmp_path):
    (tmp_path / 'disk').write_bytes(corpus.qcow2(backing=b'/etc/passwd').ljust(3 * corpus.MIB, b'\1'))
    said = run('create', 'bad', '--file', str(tmp_path / 'disk'), '--disk-format', 'qcow2', fails=True)
    assert 'backing file' in said


class DeletedMeanwhile(EmbeddedImages):
    """Hides images with the name hidden, which their owner deletes while a page is filtered."""

    def _allows(self, ctx, rule, image):
        if image['name'] == 'hidden':
            self.store.delete(ctx, image['id'])
        return image['name'] != 'hidden'


@pytest.mark.parametrize('sort', [None, 'name:asc', 'size:desc,id:asc'])
def test_a_list_continues_after_a_hidden_page_whose_last_image_was_deleted(tmp_path, sort):
    store = service.store(tmp_path)
    home = Home(EmbeddedImages(store), store)
    for name in ('zzz', 'hidden', 'hidden', 'hidden'):
        home.images.create(home.alice, {'name': name})
    assert [image['name'] for image in DeletedMeanwhile(store).list(home.alice, limit=1, sort=sort)] == ['zzz']
