"""What tests share with nova/tests/functional/test_volume_files.py."""
import pathlib

from nova import conf as nova_conf
from nova import context
from nova.db import engine
from nova.db.tables import volume as tables_volume
from nova.db.volumes import volumes as db_volumes
from nova.image.embedded import service as image_store
from nova.image.embedded.images import EmbeddedImages
from nova.tests.support import waiting
from nova.tests.support.volumes import UNFINISHED
from nova.volume import embedded

GIB = 2 ** 30
ALICE = context.RequestContext(user_id='u', project_id='alice', roles=['member'], overwrite=False)
HOST = {'host': 'h1', 'ip': '192.0.2.1'}
SERVER = '11111111-2222-3333-4444-555555555555'


def begin(path, length, at=0):
    """Bytes of a file, which is not read as a whole: a volume has a GiB at least."""
    with open(path, 'rb') as file:
        file.seek(at)
        return file.read(length)


class Home:
    def __init__(self, directory):
        self.directory = directory
        self.db = engine.Database(f'sqlite:///{directory}/api.sqlite')
        tables_volume.volumes.metadata.create_all(self.db.engine)
        self.open_images()
        self.start()

    def open_images(self):
        self.images = EmbeddedImages(image_store.Store(self.db, str(self.directory / 'images')))

    def start(self, sandbox=False):
        """The process ends, and another one goes on."""
        self.open_images()
        conf = nova_conf.new(files=[], host='h1', state_path=str(self.directory),
                             libvirt__sandbox_qemu_img=sandbox, image__free_disk_reserve=0)
        self.volumes = embedded.EmbeddedVolumes(conf, self.db, self.images)
        self.volumes.recover()
        return self.volumes

    def path(self, volume_id):
        return pathlib.Path(self.volumes.files.volume(volume_id))

    def write(self, volume_id, data, at=0):
        with open(self.path(volume_id), 'r+b') as file:
            file.seek(at)
            file.write(data)

    def read(self, volume_id, length=5, at=0):
        return begin(self.path(volume_id), length, at)

    def ended(self, ask):
        """What ``ask`` gives once it is not being made any more."""
        return waiting.wait_for(lambda: (found := ask())['status'] not in UNFINISHED and found, what='the data')

    def made(self, *args, **kwargs):
        volume_id = self.volumes.create(ALICE, *args, **kwargs)['id']
        found = self.ended(lambda: self.volumes.get(ALICE, volume_id))
        assert found['status'] == 'available'
        return volume_id

    def image(self, path, disk_format='raw'):
        """(id of an image, path of its file in the store)"""
        ident = self.images.create(ALICE, {'name': 'i'})['id']
        self.images.upload(ALICE, ident, str(path), disk_format)
        return ident, self.image_path(ident)

    def image_path(self, ident):
        return self.images.store.files.path(self.images.store.show(ALICE, ident)['data_id'])

    def snapshot(self, volume_id):
        ident = self.volumes.create_snapshot(ALICE, volume_id, 's')['id']
        assert self.ended(lambda: self.volumes.get_snapshot(ALICE, ident))['status'] == 'available'
        return ident

    def set(self, table, ident, **values):
        self.db.run(db_volumes.update, table, ident, values)
