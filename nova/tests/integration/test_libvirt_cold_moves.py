"""Cold moves of QEMU guests between two hosts that share no disks; the needs are those of moving.py."""
import os
import pathlib

import pytest

from nova import exception
from nova import states
from nova.runtime import disk_space
from nova.tests import long_runs
from nova.tests.integration import moving
from nova.tests.support import libvirt as base
from nova.virt import driver as contract
from nova.virt.libvirt.local_disks import files as local_files
from nova.virt.libvirt.local_disks import new_disks
from nova.virt.libvirt.moves import disk_transfer
from nova.virt.libvirt.moves import transfer_progress

pytestmark = moving.needed
ONE, TWO = 'compute1', 'compute2'


@pytest.fixture(scope='module')
def fleet():
    with moving.hosts() as made:
        yield made


@pytest.fixture(autouse=True)
def clean(fleet):
    yield
    fleet.clear()


def finish(fleet, instance, sent):
    image = fleet.images.show(None, base.DISK_ID)
    fleet.drivers[TWO].features[contract.Resize].finish_migration(None, instance, sent,
                                                                  contract.SpawnRequest(image=image,
                                                                                      network_info=[]), True)


@long_runs.only
def test_a_guest_is_resized_to_another_host_and_confirmed(fleet):
    instance = fleet.spawn(ONE, ephemeral_gb=1)
    fleet.booted(ONE, instance)
    fleet.type(ONE, instance, 'echo on-the-disk >/dev/vdb; sync; echo is-$((40+2))', 'is-42')
    fleet.drivers[TWO].features[contract.Resize].accept_guest(None, instance, {})
    sent = fleet.drivers[ONE].features[contract.Resize].send_guest(None, instance, TWO, [], 0)
    instance.root_gb, instance.memory_mb = 2, 128
    for _attempt in range(2):                            # again, after a crash
        finish(fleet, instance, sent)
    assert fleet.guests() == {ONE: {}, TWO: {instance.uuid: states.RUNNING}}
    fleet.booted(TWO, instance)
    fleet.type(TWO, instance, 'head -n1 /dev/vdb; echo came-$((40+2))', 'came-42')
    assert b'\non-the-disk' in fleet.drivers[TWO].console_output(instance)
    place = pathlib.Path(fleet.drivers[TWO].storage.path(instance.uuid))
    assert local_files.qcow2_size(place / 'disk') == 2 << 30
    assert (place / 'disk.ephemeral0').stat().st_blocks * 512 < 100 << 20       # holes did not become zeros
    kept = {name: fleet.drivers[name].features[contract.Resize].resize_backups() for name in (ONE, TWO)}
    assert kept == {ONE: [instance.uuid], TWO: []}
    fleet.drivers[ONE].features[contract.Resize].confirm_migration(None, instance, [])
    fleet.only_at(TWO, instance)
    assert 'nova-' not in fleet.virsh(ONE, 'pool-list', '--all')


def test_a_move_is_reverted(fleet, monkeypatch):
    instance = fleet.spawn(ONE)
    for name in (ONE, TWO):                              # a full disk is found before anything is stopped or copied
        monkeypatch.setattr(fleet.drivers[name].storage, 'reserve', disk_space.Reserve(1 << 60))
    with pytest.raises(exception.VirtError, match='the disk of this host has less free space than'):
        fleet.drivers[TWO].features[contract.Resize].accept_guest(None, instance, {})
    fleet.drivers[ONE].features[contract.Resize].accept_guest(None, instance, {})  # it stays, and takes no more
    monkeypatch.undo()
    sent = fleet.drivers[ONE].features[contract.Resize].send_guest(None, instance, TWO, [], 0)
    finish(fleet, instance, sent)
    for _attempt in range(2):
        fleet.drivers[TWO].features[contract.Resize].drop_migrated(None, instance, [])
    for _attempt in range(2):
        fleet.drivers[ONE].features[contract.Resize].finish_revert_migration(None, instance, [], [], True)
        # the guest that was taken back is none that came
        fleet.drivers[ONE].features[contract.Resize].drop_migrated(None, instance, [])
    fleet.only_at(ONE, instance)
    assert not os.path.exists(fleet.drivers[ONE].storage.backup_path(instance.uuid))
    fleet.booted(ONE, instance)


@long_runs.only
def test_an_image_that_is_gone_comes_along(fleet, monkeypatch):
    instance = fleet.spawn(ONE)
    sent, show = fleet.drivers[ONE].features[contract.Resize].send_guest(None, instance, TWO, [], 0), fleet.images.show
    for path in pathlib.Path(fleet.drivers[TWO].storage.directory, '_base').iterdir():
        path.unlink()

    class Gone(type(fleet.images)):
        def show(self, context, image_id):
            raise exception.ImageNotFound(image_id=image_id)
    monkeypatch.setattr(fleet.drivers[TWO].storage.cache, '_images', Gone())
    finish(fleet, instance, sent)
    assert show(None, base.DISK_ID)
    fleet.booted(TWO, instance)
    assert 'disk.base' in fleet.files(TWO, instance.uuid)
    fleet.drivers[ONE].features[contract.Resize].confirm_migration(None, instance, [])
    # a resize on this host takes it into the new directory, and a revert has that of before
    sent, instance.root_gb = fleet.drivers[TWO].features[contract.Resize].send_guest(None, instance, TWO, [], 0), 2
    finish(fleet, instance, sent)
    fleet.booted(TWO, instance)
    assert 'disk.base' in fleet.files(TWO, instance.uuid)
    fleet.drivers[TWO].features[contract.Resize].drop_migrated(None, instance, [])
    fleet.drivers[TWO].features[contract.Resize].finish_revert_migration(None, instance, [], [], False)
    assert 'disk.base' in fleet.files(TWO, instance.uuid)


def interrupt(fleet, instance, sent):
    """Leave what a nova-compute has that was killed when the files were here, and something was made of them."""
    directory = pathlib.Path(fleet.drivers[TWO].storage.path(instance.uuid))
    directory.mkdir(mode=0o711)
    copies = transfer_progress.IncomingTransfer(
        str(directory), {'source': sent['source'], 'sizes': new_disks.flavor_sizes(instance)}, TWO)
    there = disk_transfer.LibvirtAddresses(fleet.drivers[TWO].conf).uri_of(fleet.address(ONE))
    disk_transfer.fetch(there, sent['source']['directory'],
                        ['disk', 'disk.config'], str(directory), 60, copies)
    (directory / 'disk.ephemeral0').write_bytes(b'half of it')
    return directory


def test_files_that_came_before_a_restart_are_the_guests(fleet):
    """They do not come again, and what was made of them is made anew."""
    instance = fleet.spawn(ONE)
    sent = fleet.drivers[ONE].features[contract.Resize].send_guest(None, instance, TWO, [], 0)
    instance.ephemeral_gb = 1
    came = (interrupt(fleet, instance, sent) / 'disk').stat().st_ino
    finish(fleet, instance, sent)
    place = pathlib.Path(fleet.drivers[TWO].storage.path(instance.uuid))
    assert (place / 'disk').stat().st_ino == came and (place / 'disk.ephemeral0').stat().st_size == 1 << 30
    assert not transfer_progress.is_there(str(place))
    fleet.drivers[ONE].features[contract.Resize].confirm_migration(None, instance, [])
    fleet.only_at(TWO, instance)


@long_runs.only
def test_files_that_came_before_a_restart_go_with_the_server_or_with_its_move(fleet):
    """nova-compute finds them when it is back, and asks what has become of the server (compute/orphans.py)."""
    instance = fleet.spawn(ONE)
    sent = fleet.drivers[ONE].features[contract.Resize].send_guest(None, instance, TWO, [], 0)
    interrupt(fleet, instance, sent)
    assert fleet.drivers[TWO].leftovers() == {instance.uuid: True} and fleet.drivers[ONE].leftovers() == {}
    fleet.drivers[TWO].destroy(None, instance, [])
    assert fleet.files(TWO, instance.uuid) == [] and fleet.drivers[TWO].leftovers() == {}
    assert interrupt(fleet, instance, sent).exists()
    fleet.drivers[TWO].features[contract.Resize].drop_migrated(None, instance, [])
    fleet.drivers[ONE].features[contract.Resize].finish_revert_migration(None, instance, [], [], True)
    fleet.only_at(ONE, instance)


@long_runs.only
def test_a_source_that_cannot_be_reached_leaves_nothing_and_keeps_the_guest(fleet):
    instance = fleet.spawn(ONE)
    sent = fleet.drivers[ONE].features[contract.Resize].send_guest(None, instance, TWO, [], 0)
    for address, said in (('127.0.0.77', 'fetch the disks'), ('h/system?command=/bin/touch', 'not an address')):
        with pytest.raises(exception.VirtError, match=said):
            finish(fleet, instance, {**sent, 'source': {**sent['source'], 'address': address}})
    assert fleet.files(TWO, instance.uuid) == [] and instance.uuid not in fleet.drivers[TWO].guests()
    fleet.drivers[ONE].features[contract.Resize].finish_revert_migration(None, instance, [], [], True)
    fleet.booted(ONE, instance)


@long_runs.only
def test_encrypted_disks_travel_as_they_are_and_open_there(fleet):
    """The files are copied without being opened; the other host gets the key as this one did. New disks
    have it, too."""
    key = '5' * 64
    for each in fleet.drivers.values():
        each.use_keys(lambda uuid: key)
    flavor = {'name': 'sealed', 'swap': 0, 'extra_specs': {'hw:ephemeral_encryption': 'true'}}
    instance = fleet.spawn(ONE, flavor=flavor, image_properties={})
    fleet.booted(ONE, instance)
    fleet.type(ONE, instance, 'echo on-the-disk >/mark; sync; echo is-$((40+2))', 'is-42')
    sent = fleet.drivers[ONE].features[contract.Resize].send_guest(None, instance, TWO, [], 0)
    assert key not in str(sent)
    instance.root_gb, instance.ephemeral_gb = 2, 1
    finish(fleet, instance, sent)
    fleet.booted(TWO, instance)
    fleet.type(TWO, instance, 'cat /mark; echo came-$((40+2))', 'came-42')
    assert b'on-the-disk' in fleet.drivers[TWO].console_output(instance)
    place = pathlib.Path(fleet.drivers[TWO].storage.path(instance.uuid))
    for name in ('disk', 'disk.config', 'disk.ephemeral0'):
        content = (place / name).read_bytes()
        assert b'LUKS\xba\xbe' in content and b'on-the-disk' not in content, name
    fleet.drivers[ONE].features[contract.Resize].confirm_migration(None, instance, [])
    fleet.only_at(TWO, instance)
