"""Volumes of a whole cloud with real guests, by the commands of its users: the guest sees and keeps its data."""
import json
import os
import pathlib
import shutil
import sys
import tempfile
import types

import pytest

from nova.tests import long_runs
from nova.tests import warm_client
from nova.tests.functional import cloud as cloud_fixture
from nova.tests.support import libvirt as test_libvirt
from nova.tests.support.volume_files import begin
from nova.tests.support.waiting import wait_for

if test_libvirt._REASON is not None:
    pytest.skip(test_libvirt._REASON, allow_module_level=True)

from nova.tests.support.libvirt_volumes import read
from nova.tests.support.libvirt_volumes import run as type_line
from nova.tests.support.libvirt_volumes import write

BIN = pathlib.Path(sys.executable).parent
GIB = 2 ** 30


@pytest.fixture(scope='module')
def cloud():
    directory = pathlib.Path(tempfile.mkdtemp(prefix='nova-volumes-', dir='/var/tmp'))      # QEMU's user passes through
    directory.chmod(0o711)
    try:
        with cloud_fixture.running(directory, compute_driver='libvirt', libvirt__virt_type='qemu') as made:
            client = made.client()
            client.upload_image((test_libvirt.GUEST / 'guest.qcow2').read_bytes(), 'guest', disk_format='qcow2')
            yield made
            for server in client.get('/servers').json()['servers']:
                client.delete('/servers/' + server['id'])
                wait_for(lambda: client.get('/servers/' + server['id']).status_code == 404, 120, 'its end')
    finally:
        shutil.rmtree(directory)


@pytest.fixture(scope='module')
def openstack(cloud):
    environ = {'PATH': f'{BIN}:{os.environ["PATH"]}', 'HOME': str(cloud.state_path), 'LANG': 'C.UTF-8',
               'OS_CLOUD': 'nova-demo', 'OS_CLIENT_CONFIG_FILE': str(cloud.clouds_yaml)}

    def openstack(command, code=0):
        ended, printed = warm_client.client().run(command.split(), environ)
        assert ended == code, f'openstack {command}:\n{printed}'
        return printed.strip()
    return openstack


class Guest(test_libvirt.Rig):
    """The rig's ways to a guest's console, for a guest of the cloud."""

    def __init__(self, cloud):
        self.driver, = (service.manager.driver for service in cloud.services if service.binary == 'nova-compute')


def status(openstack, kind, name, wanted):
    wait_for(lambda: openstack(f'{kind} show {name} -c status -f value') == wanted, 120, f'{name} to be {wanted}')


def test_a_guest_sees_and_keeps_its_data(cloud, openstack):
    rig, volumes = Guest(cloud), cloud.state_path / 'volumes'
    openstack('server create --image guest --boot-from-volume 1 --flavor m1.nano --nic none --wait web')
    guest = types.SimpleNamespace(uuid=openstack('server show web -c id -f value'))
    rig.booted(guest)
    root, = json.loads(openstack('server show web -c volumes_attached -f json'))['volumes_attached']
    assert (volumes / root['id']).stat().st_size == GIB
    openstack('volume create --size 1 data')
    status(openstack, 'volume', 'data', 'available')
    data = openstack('volume show data -c id -f value')
    openstack('server add volume web data')
    status(openstack, 'volume', 'data', 'in-use')
    wait_for(lambda: data[:20] in type_line(rig, guest, 'cat /sys/block/vdb/serial'), 60, 'the disk to be seen')
    write(rig, guest, '/dev/vdb', 'before')
    # a snapshot of one moment, while the guest goes on
    openstack('volume snapshot create --volume data --force snap')
    status(openstack, 'volume snapshot', 'snap', 'available')
    write(rig, guest, '/dev/vdb', 'after')
    # larger, while the guest has it
    openstack('--os-volume-api-version 3.42 volume set --size 2 data')
    wait_for(lambda: str(2 * GIB // 512) in type_line(rig, guest, 'cat /sys/block/vdb/size'), 60, 'the new size')
    # the volume of the snapshot has what was there then
    openstack('volume create --snapshot snap copy')
    status(openstack, 'volume', 'copy', 'available')
    copy = openstack('volume show copy -c id -f value')
    assert begin(volumes / copy, 6) == b'before' and begin(volumes / data, 5) == b'after'
    # an image of the server, which is snapshots of its volumes
    type_line(rig, guest, 'echo kept >/root/file; sync')
    openstack('server image create --name copied --wait web')
    openstack('server remove volume web data')
    status(openstack, 'volume', 'data', 'available')
    assert 'vdb' not in type_line(rig, guest, 'ls /sys/block')
    openstack('server delete --wait web')
    status(openstack, 'volume', root['id'], 'available')
    # another server of the same volume
    openstack(f'server create --volume {root["id"]} --flavor m1.nano --nic none --wait again')
    guest.uuid = openstack('server show again -c id -f value')
    rig.booted(guest)
    assert 'kept' in type_line(rig, guest, 'cat /root/file')
    openstack('server add volume again data')
    status(openstack, 'volume', 'data', 'in-use')
    wait_for(lambda: 'vdb' in type_line(rig, guest, 'ls /sys/block'), 60, 'the disk to be seen')
    assert 'after' in read(rig, guest, '/dev/vdb', 5)
    openstack('server delete --wait again')


@long_runs.only
def test_a_server_of_an_image_of_volumes_boots(cloud, openstack):
    """openstackclient names the image as a local disk, too: the guest of ``createImage`` of a server on volumes got an
    empty one."""
    rig = Guest(cloud)
    openstack('server create --image guest --boot-from-volume 1 --flavor m1.nano --nic none --wait first')
    guest = types.SimpleNamespace(uuid=openstack('server show first -c id -f value'))
    rig.booted(guest)
    type_line(rig, guest, 'echo from the image >/root/file; sync')
    openstack('server image create --name image-of-volumes --wait first')
    type_line(rig, guest, 'echo later >/root/file; sync')
    openstack('server create --image image-of-volumes --flavor m1.nano --nic none --wait second')
    guest.uuid = openstack('server show second -c id -f value')
    assert len(json.loads(openstack('server show second -c volumes_attached -f json'))['volumes_attached']) == 1
    rig.booted(guest)
    assert 'from the image' in type_line(rig, guest, 'cat /root/file')
