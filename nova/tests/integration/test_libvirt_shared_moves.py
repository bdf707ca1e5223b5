"""Moves of QEMU guests between hosts that share the directory of all guests; the needs are those of moving.py."""
import pytest

from nova import exception
from nova import states
from nova.objects import pci
from nova.tests import long_runs
from nova.tests.integration import moving
from nova.virt import driver as contract

pytestmark = moving.needed
ONE, TWO = 'compute1', 'compute2'
OPTIONS = {'share': 'shared'}


@pytest.fixture(scope='module')
def fleet():
    with moving.hosts(**OPTIONS) as made:
        yield made


@pytest.fixture(autouse=True)
def clean(fleet):
    yield
    fleet.clear()


def test_shared_disks_are_found_and_stay_where_they_are(fleet):
    instance = fleet.spawn(ONE)
    fleet.booted(ONE, instance)
    disk = fleet.drivers[ONE].storage.path(instance.uuid, 'disk')
    with open(disk, 'rb') as file:
        with pytest.raises(exception.MigrationPreCheckError, match='share the disks'):
            fleet.prepare(ONE, TWO, instance, block=True)
        facts = fleet.migrate(ONE, TWO, instance)
        assert not facts['block_migration']
        fleet.only_at(TWO, instance)
        with open(disk, 'rb') as after:
            assert moving.os.path.sameopenfile(file.fileno(), after.fileno())
    assert fleet.drivers[TWO].storage.load(instance.uuid).ownership.host == TWO
    fleet.drivers[ONE].destroy(None, instance, [])           # a host that comes back does not take them away
    fleet.drivers[TWO].reboot(None, instance, [], True)
    fleet.booted(TWO, instance)


@long_runs.only
def test_a_rollback_takes_no_disk_away(fleet):
    fleet.drivers[ONE].stop()
    fleet.make_driver(ONE, libvirt__live_migration_bandwidth=1)          # else it may have gone before it reports
    instance = fleet.spawn(ONE)

    def refuse(_values):
        raise exception.InstanceChanged(instance_id=instance.uuid)
    with pytest.raises(exception.InstanceChanged):
        fleet.migrate(ONE, TWO, instance, refuse)
    fleet.only_at(ONE, instance)
    assert fleet.drivers[ONE].storage.load(instance.uuid).ownership.successor is None
    fleet.drivers[ONE].reboot(None, instance, [], True)
    fleet.booted(ONE, instance)
    fleet.drivers[ONE].destroy(None, instance, [])
    assert fleet.files(ONE, instance.uuid) == []


@long_runs.only
def test_an_evacuated_guest_keeps_its_disks(fleet):
    """Also when the attempt is made twice, and when the first host comes back. Its CPUs and devices are those that it
    has there: it was started with those of the dead host, which other guests may have.
    """
    instance = fleet.spawn(ONE)
    fleet.booted(ONE, instance)
    fleet.type(ONE, instance, 'echo kept-$((40+2)) >/etc/kept; sync; cat /etc/kept', 'kept-42')
    assert not fleet.drivers[ONE].has_disks(instance, TWO)
    fleet.virsh(ONE, 'destroy', instance.uuid)
    here, there = fleet.drivers[ONE], fleet.drivers[TWO]
    record = here.storage.load(instance.uuid)
    record.hostdevs, record.resources.numa = [pci.Device('ffff:ff:1f.7', '8086', '154d')], 'of the dead host'
    here.storage.save(record)
    for _attempt in range(2):
        assert there.has_disks(instance, ONE)
        there.destroy(None, instance, [], keep_disks=True)
        there.power_on_here(None, instance, [], [])
    assert fleet.drivers[ONE].has_disks(instance, ONE) is False
    fleet.drivers[ONE].destroy(None, instance, [])
    assert fleet.guests() == {ONE: {}, TWO: {instance.uuid: states.RUNNING}}
    fleet.drivers[TWO].reboot(None, instance, [], True)


@long_runs.only
def test_a_cold_move_fetches_nothing_and_is_reverted(fleet):
    instance = fleet.spawn(ONE)
    sent = fleet.drivers[ONE].features[contract.Resize].send_guest(None, instance, TWO, [], 0)
    sent['source']['address'] = '127.0.0.77'
    image = fleet.images.show(None, moving.base.DISK_ID)
    fleet.drivers[TWO].features[contract.Resize].finish_migration(None, instance, sent,
                                                                  contract.SpawnRequest(image=image,
                                                                                      network_info=[]), True)
    assert fleet.guests() == {ONE: {}, TWO: {instance.uuid: states.RUNNING}}
    kept = {name: fleet.drivers[name].features[contract.Resize].resize_backups() for name in (ONE, TWO)}
    assert kept == {ONE: [instance.uuid], TWO: []}
    fleet.drivers[TWO].features[contract.Resize].drop_migrated(None, instance, [])
    fleet.drivers[ONE].features[contract.Resize].finish_revert_migration(None, instance, [], [], True)
    fleet.only_at(ONE, instance)
    fleet.booted(ONE, instance)
