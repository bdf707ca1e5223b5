"""A real iSCSI target (tgt) for real QEMU guests: libiscsi in QEMU, CHAP by a secret of libvirt.

test_libvirt_storages.py has what guests do with volumes of such targets.
"""
import uuid

import pytest

from nova import exception
from nova.tests.support import libvirt as test_libvirt
from nova.tests.support import libvirt_iscsi
from nova.tests.support.libvirt_iscsi import PASSWORD
from nova.tests.support.libvirt_iscsi import connection
from nova.tests.support.libvirt_iscsi import forget_secrets
from nova.tests.support.libvirt_iscsi import missing
from nova.virt import driver as contract

target = libvirt_iscsi.target


state_path, module_rig, rig, instance = (test_libvirt.state_path, test_libvirt.module_rig, test_libvirt.rig,
                                         test_libvirt.instance)
pytestmark = [test_libvirt.pytestmark, pytest.mark.skipif(missing() is not None, reason=str(missing()))]


@pytest.fixture(autouse=True)
def no_secret_left(module_rig):
    yield
    forget_secrets()


def device(target, password=PASSWORD):
    """A row of block_device_mappings."""
    return {'uuid': str(uuid.uuid4()), 'volume_id': str(uuid.uuid4()), 'destination_type': 'volume',
            'source_type': 'volume', 'device_name': '/dev/vdb', 'volume_size': 1, 'boot_index': None,
            'connection_info': connection(target, password)}


def test_a_wrong_password_opens_nothing(target, rig, instance):
    test_libvirt.spawn(rig, instance)
    with pytest.raises(exception.VirtError):
        rig.driver.features[contract.Volumes].attach_volume(None, instance, device(target, 'ein-anderes-wort-9'))
    assert not rig.driver.storage.load(instance.uuid).volumes
