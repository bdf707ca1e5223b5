"""Running guests of a cloud of the tree before the first release go on, and are those of a cloud of this tree."""
import pathlib
import shutil
import tempfile

import pytest

from nova.tests import long_runs
from nova.tests.functional import cloud as clouds
from nova.tests.older_release import tree
from nova.tests.support import conversion as test_conversion
from nova.tests.support import libvirt as test_libvirt
from nova.tests.support.conversion import before
from nova.tests.support.waiting import wait_for

if test_libvirt._REASON is not None:
    pytest.skip(test_libvirt._REASON, allow_module_level=True)

import libvirt

__all__ = ('before',)


@pytest.fixture
def directory():
    made = pathlib.Path(tempfile.mkdtemp(prefix='nova-conversion-', dir='/var/tmp'))       # QEMU's user passes through
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


def domain_id(uuid):
    """Return the number that libvirt gives a guest for as long as it runs, -1 where it does not run."""
    connection = libvirt.open('qemu:///system')
    try:
        return connection.lookupByUUIDString(uuid).ID()
    finally:
        connection.close()


@long_runs.only
@pytest.mark.timeout(900)
def test_running_guests_of_the_tree_before_go_on(before, directory):
    state, config = directory / 'state', directory / 'nova.conf'
    more = '[libvirt]\nvirt_type = qemu\n'
    config.write_text(test_conversion.CONFIG.format(state=state, more=more))
    with tree.nova_all(before, config, 'libvirt'):
        client = test_conversion.client_of(state)
        image = client.upload_image((test_libvirt.GUEST / 'guest.qcow2').read_bytes(), 'guest', disk_format='qcow2')
        server = client.boot(image, networks='none', version='2.37')['id']
        client.wait_for(server)
        running = domain_id(server)
    assert running >= 0 and domain_id(server) == running
    with clouds.running(state, compute_driver='libvirt', libvirt__virt_type='qemu') as cloud:
        client = cloud.client()
        try:
            assert client.wait_for(server)['OS-EXT-STS:power_state'] == 1
            assert domain_id(server) == running
            client.post(f'/servers/{server}/action', {'reboot': {'type': 'HARD'}})
            client.wait_for(server)
            wait_for(lambda: domain_id(server) > running, 60, 'another run of the guest')
        finally:
            client.delete('/servers/' + server)
            client.wait_for(server, 'DELETED')
