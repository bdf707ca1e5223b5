"""What tests share with nova/tests/integration/test_libvirt_ceph_disks.py."""
import base64
import pathlib

import pytest

from nova.tests import ceph as cephs
from nova.tests.support import libvirt as test_libvirt

ceph = cephs.ceph
state_path = test_libvirt.state_path
SECRET = '0d3e0a5e-52b0-4a41-9b5b-3a1c4a8c2f01'


@pytest.fixture(scope='module')
def secret(ceph):
    """As an operator gives libvirt the key of a user of Ceph; it is gone with libvirtd."""
    connection = test_libvirt.libvirt.open(test_libvirt.URI)
    made = connection.secretDefineXML(f"<secret ephemeral='yes' private='yes'><uuid>{SECRET}</uuid>"
                                      "<usage type='ceph'><name>disks of guests</name></usage></secret>")
    made.setValue(base64.b64decode(ceph.key))
    yield
    made.undefine()
    connection.close()


class Rig(test_libvirt.Rig):
    def __init__(self, state_path, options):
        self.images, self.events = test_libvirt.Images(), []
        self.uploads, self.image, self.bridge = self.images.uploads, self.images.show(None, test_libvirt.DISK_ID), None
        self.driver = test_libvirt.make_driver(state_path, self.images, **options)
        self.driver.init_host()
        self.instances = pathlib.Path(self.driver.storage.directory)


@pytest.fixture(scope='module')
def options(ceph):
    return {'libvirt__images_type': 'rbd', 'libvirt__images_rbd_pool': ceph.pool, 'libvirt__rbd_user': ceph.user,
            'libvirt__images_rbd_ceph_conf': str(ceph.conf), 'libvirt__rbd_secret_uuid': SECRET}


@pytest.fixture(scope='module')
def rig(state_path, options, secret):
    made = Rig(state_path, options)
    yield made
    for found in made.driver.guests():
        made.driver.destroy(None, test_libvirt.make_instance(uuid=found), [])
    made.driver.stop()


@pytest.fixture
def instance(rig):
    made = test_libvirt.make_instance()
    yield made
    rig.driver.destroy(None, made, [])


def disks(ceph, instance):
    """Names of a server's disks in the pool."""
    return sorted(name.partition('_')[2] for name in ceph.images()
                  if name.startswith(instance.uuid) and not name.endswith('_record'))
