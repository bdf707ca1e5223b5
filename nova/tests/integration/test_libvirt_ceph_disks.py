"""Guests whose own disks lie in a real Ceph: [libvirt] images_type = rbd."""
import contextlib
import json
import subprocess
import uuid

import pytest

from nova import exception
from nova import states
from nova.tests import long_runs
from nova.tests.support import libvirt as test_libvirt
from nova.tests.support import libvirt_ceph_disks
from nova.tests.support import libvirt_volumes as with_volumes
from nova.tests.support.libvirt_ceph_disks import SECRET
from nova.tests.support.libvirt_ceph_disks import disks
from nova.virt import driver as contract
from nova.virt.libvirt.local_disks import new_disks

ceph = libvirt_ceph_disks.ceph
instance = libvirt_ceph_disks.instance
options = libvirt_ceph_disks.options
rig = libvirt_ceph_disks.rig
secret = libvirt_ceph_disks.secret
state_path = libvirt_ceph_disks.state_path


pytestmark = test_libvirt.pytestmark
IMAGE = f'image_{test_libvirt.DISK_ID}'
GIB = 1 << 30


def size(ceph, instance, name='disk'):
    return json.loads(ceph.rbd('info', '--format', 'json', f'{instance.uuid}_{name}'))['size']


def test_a_server_lives_in_the_pool_and_leaves_nothing(ceph, rig, instance, state_path):
    """Boot, a second one from the same image, snapshots of both kinds, a Ceph that is away, deletion."""
    instance.flavor = {**(instance.flavor or {}), 'swap': 8}
    test_libvirt.spawn(rig, instance, config_drive={'openstack/latest/meta_data.json': json.dumps(
        {'uuid': instance.uuid, 'hostname': 'my-name'}).encode()})
    rig.booted(instance)
    assert b'my-name' in rig.console(instance)
    assert disks(ceph, instance) == ['disk', 'disk.config', 'disk.swap'] and size(ceph, instance) == GIB
    assert sorted(path.name for path in rig.instances.joinpath(instance.uuid).glob('disk*')) == []
    before, downloads = ceph.rbd('info', IMAGE), list(rig.images.downloads)
    second = test_libvirt.make_instance()
    test_libvirt.spawn(rig, second)
    assert ceph.rbd('info', IMAGE) == before and rig.images.downloads == downloads
    assert len(ceph.rbd('children', f'{IMAGE}@base').split()) == 2
    with_volumes.run(rig, instance, 'echo kept-by-ceph >/root/file; sync')
    ceph.stop()
    ceph.start()
    with_volumes.run(rig, instance, 'echo again >>/root/file; sync')
    for image_id, running in (('running', True), ('off', False)):
        if not running:
            rig.driver.power_off(instance)
        rig.driver.features[contract.Snapshot].snapshot(None, instance, image_id, lambda _state: None)
        data, form = rig.uploads[image_id]
        (state_path / 'copy').write_bytes(data)
        subprocess.run(['qemu-img', 'convert', '-f', form, '-O', 'raw', state_path / 'copy', state_path / 'raw'],
                       check=True)
        assert b'kept-by-ceph' in (state_path / 'raw').read_bytes()
        # of the disk of 1 GiB what it has, while the guest runs as well
        assert (state_path / 'copy').stat().st_size < 128 << 20
        assert '@copy' not in ceph.rbd('snap', 'ls', '--format', 'json', f'{instance.uuid}_disk')
    rig.driver.destroy(None, second, [])
    rig.driver.destroy(None, instance, [])
    assert ceph.images() == [IMAGE]


def test_the_clients_of_a_guest_are_recorded_before_it_runs(ceph, rig, instance, monkeypatch):
    """Of each start: ceph forgets a client that is cut off, and an evacuation has to shut it out (ADR 0014)."""
    found = []

    def record(uuid, images, started):
        found.append((uuid, images, started, rig.driver.hypervisor.power_state(uuid)))
    monkeypatch.setattr(rig.driver.clients, 'record', record)
    image, data = f'{ceph.pool}/{instance.uuid}_disk', f'data-{instance.uuid}'

    def watchers(name):
        return {each['address'] for each in json.loads(ceph.rbd('status', '--format', 'json', name))['watchers']}

    def is_recorded():
        uuid, images, started, state = found.pop()
        assert (uuid, started, state) == (instance.uuid, True, states.POWER_PAUSED) and found == []
        assert images == {image: sorted(watchers(image.partition('/')[2]))} and len(images[image]) == 1
        assert rig.driver.power_state(instance) == states.RUNNING
        return images[image]
    test_libvirt.spawn(rig, instance, config_drive={'a': b'b'})
    first = is_recorded()
    rig.driver.reboot(None, instance, [], True)
    second = is_recorded()
    assert first != second
    rig.driver.features[contract.Suspend].suspend(instance)
    rig.driver.features[contract.Suspend].resume(None, instance, [])
    assert is_recorded() not in (first, second)
    ceph.rbd('create', '--size', '1M', data)
    place = {'name': f'{ceph.pool}/{data}', 'hosts': [ceph.monitor[0]], 'ports': [str(ceph.monitor[1])],
             'auth_enabled': True, 'auth_username': ceph.user, 'secret_uuid': SECRET}
    device = {'volume_id': str(uuid.uuid4()), 'destination_type': 'volume', 'device_name': '/dev/vdc',
              'connection_info': {'driver_volume_type': 'rbd', 'data': place}}
    rig.booted(instance)
    rig.driver.features[contract.Volumes].attach_volume(None, instance, device)
    assert [each[1:3] for each in found] == [
        ({f'{ceph.pool}/{data}': None}, False), ({f'{ceph.pool}/{data}': sorted(watchers(data))}, False)]
    assert rig.driver.open_clients(instance.uuid) == {
        image: sorted(watchers(image.partition('/')[2])), f'{ceph.pool}/{data}': sorted(watchers(data))}
    rig.driver.destroy(None, instance, [])
    ceph.rbd('rm', '--no-progress', data)


def test_a_guest_whose_clients_are_not_recorded_does_not_run(rig, instance, monkeypatch):
    def record(uuid, images, started):
        raise exception.InstanceChanged(instance_id=uuid)
    monkeypatch.setattr(rig.driver.clients, 'record', record)
    with pytest.raises(exception.InstanceChanged):
        test_libvirt.spawn(rig, instance)
    assert instance.uuid not in rig.driver.guests()


@long_runs.only
def test_a_resize_grows_and_a_revert_takes_it_back(ceph, rig, instance):
    test_libvirt.spawn(rig, instance)
    rig.booted(instance)
    with_volumes.run(rig, instance, 'echo before >/root/file; sync')
    for revert in (True, False):
        instance.root_gb, instance.ephemeral_gb = 2, 1
        sent = rig.driver.features[contract.Resize].send_guest(None, instance, 'a-host', [], 0)
        request = test_libvirt.contract.SpawnRequest(image=rig.image, network_info=[])
        rig.driver.features[contract.Resize].finish_migration(None, instance, sent, request, True)
        assert size(ceph, instance) == 2 * GIB and disks(ceph, instance) == ['disk', 'disk.ephemeral0']
        rig.booted(instance)
        with_volumes.run(rig, instance, f'echo after-{revert} >>/root/file; sync')
        if revert:
            instance.root_gb, instance.ephemeral_gb = 1, 0
            rig.driver.features[contract.Resize].finish_revert_migration(None, instance, [], [], True)
            assert size(ceph, instance) == GIB and disks(ceph, instance) == ['disk']
            rig.booted(instance)
        else:
            rig.driver.features[contract.Resize].confirm_migration(None, instance, [])
        assert ceph.rbd('snap', 'ls', f'{instance.uuid}_disk') == ''
    text = with_volumes.run(rig, instance, 'cat /root/file')
    assert 'before' in text and 'after-False' in text and 'after-True' not in text


@long_runs.only
def test_a_rescue_comes_and_goes(ceph, rig, instance):
    test_libvirt.spawn(rig, instance)
    rig.driver.features[contract.Rescue].rescue(None, instance, [], rig.image, 'x', [])
    rig.booted(instance)
    assert disks(ceph, instance) == ['disk', 'disk.rescue']
    assert 'vdb' in with_volumes.run(rig, instance, 'ls /sys/block')
    rig.driver.features[contract.Rescue].unrescue(None, instance, [])
    assert disks(ceph, instance) == ['disk']


@long_runs.only
def test_another_host_without_the_record_takes_nothing(ceph, rig, instance, options, tmp_path_factory):
    """It can neither make the server anew nor remove its disks."""
    test_libvirt.spawn(rig, instance)
    ceph.rbd('rm', '--no-progress', f'{instance.uuid}_record')   # as an older release has made it
    other = test_libvirt.libvirt_driver.LibvirtDriver(test_libvirt.configuration.new(
        files=[], state_path=str(tmp_path_factory.mktemp('other')), **options), 'other', rig.images, None)
    other.storage.prepare()
    with pytest.raises(exception.VirtError, match='share the directory'):
        other.has_disks(instance, 'a-host')
    with pytest.raises(exception.VirtError, match='share the directory'):
        other.features[contract.Resize].accept_guest(None, instance, {})
    with pytest.raises(exception.VirtError, match='share the directory'):
        new_disks.create(other.storage, None, instance,
                                       test_libvirt.contract.SpawnRequest(image=rig.image, network_info=[]))
    other.storage.remove(instance.uuid)
    assert disks(ceph, instance) == ['disk']


@long_runs.only
def test_two_hosts_that_share_the_record_share_the_disks(ceph, rig, instance, options, state_path):
    """The second takes over what the first has left when it died, with its data."""
    test_libvirt.spawn(rig, instance)
    rig.booted(instance)
    with_volumes.run(rig, instance, 'echo kept-by-ceph >/root/file; sync')
    subprocess.run(['virsh', '-c', test_libvirt.URI, 'destroy', instance.uuid], check=True, capture_output=True)
    other = test_libvirt.libvirt_driver.LibvirtDriver(test_libvirt.configuration.new(
        files=[], state_path=str(state_path), **options), 'other', rig.images, None)
    other.init_host()
    try:
        assert other.has_disks(instance, 'a-host')
        shown = rig.console(instance).count(test_libvirt.PROMPT)
        other.power_on(None, instance, [])
        test_libvirt.wait_for(lambda: rig.console(instance).count(test_libvirt.PROMPT) > shown,
                              test_libvirt.BOOT_SECONDS, 'the guest to boot again')
        assert 'kept-by-ceph' in with_volumes.run(rig, instance, 'cat /root/file')
        rig.driver.storage.remove_unused_images()
    finally:
        with contextlib.suppress(exception.NovaException):
            other.destroy(None, instance, [])
        other.stop()
    assert disks(ceph, instance) == []


def test_room_is_that_of_the_pool_and_unused_images_leave_it(ceph, rig, state_path, options):
    found = rig.driver.resources()[0]
    assert found.local_gb <= 2 and found.disk_available_least <= found.local_gb      # the OSD's 2 GiB
    old = test_libvirt.make_driver(state_path, rig.images, **options, libvirt__remove_unused_base_images_after=60)
    old.storage.backends.new._max_age = -1
    old.storage.backends.new.remove_unused()
    assert ceph.images() == []


def test_a_host_without_the_secret_does_not_start(ceph, rig, options, tmp_path):
    with pytest.raises(exception.VirtError, match='rbd_secret_uuid'):
        test_libvirt.make_driver(tmp_path, rig.images, **{
            **options, 'libvirt__rbd_secret_uuid': str(uuid.uuid4())}).init_host()
