"""The fake driver's live migration keeps the contract of virt.driver.LiveMigration, with two hosts of one cloud."""
import threading
import time

import pytest

from nova import conf as nova_conf
from nova import exception
from nova import states
from nova.tests import core
from nova.tests.contract import driver_contract
from nova.virt import driver
from nova.virt import fake


class Rig:
    def __init__(self, path):
        self.conf = nova_conf.new(files=[], fake__state_dir=str(path))
        self.here, self.there = (self.make(host) for host in ('host1', 'host2'))
        self.source, self.destination = (each.features[driver.LiveMigration] for each in (self.here, self.there))
        self.instance = driver_contract.make_instance()
        self.here.spawn(None, self.instance, driver.SpawnRequest(image=core.IMAGE, network_info=[]))
        self.reports = []

    def make(self, host):
        made = fake.FakeDriver(self.conf, host, None)
        made.init_host()
        return made

    def prepare(self):
        facts = self.source.check_source(self.instance, self.destination.check_destination(self.instance, None, False))
        return self.destination.pre_live_migration(None, self.instance, [{'id': 'port'}], [], facts)

    def migrate(self, facts, progress=None):
        self.source.live_migrate(None, self.instance, 'host2', facts, progress or self.reports.append)

    def where(self):
        return [each.host for each in (self.here, self.there) if self.instance.uuid in each.guests()]

    def in_thread(self, facts):
        errors = []

        def run():
            try:
                self.migrate(facts)
            except exception.NovaException as error:
                errors.append(type(error))
        thread = threading.Thread(target=run)
        thread.start()
        deadline = time.monotonic() + 120
        while self.instance.uuid not in self.source.jobs:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        return thread, errors


@pytest.fixture
def rig(tmp_path):
    return Rig(tmp_path)


def test_live_migration_moves_the_guest_and_its_power_state(rig):
    rig.here.features[driver.Pause].pause(rig.instance)
    rig.migrate(rig.prepare())
    assert rig.where() == ['host2'] and rig.there.power_state(rig.instance) == states.POWER_PAUSED
    assert rig.there.machine.guests[rig.instance.uuid]['networks'] == ['port']
    assert rig.reports[-1] == {
        'memory_total_bytes': 128 << 20, 'memory_processed_bytes': 128 << 20, 'memory_remaining_bytes': 0,
        'disk_total_bytes': 1 << 30, 'disk_processed_bytes': 1 << 30, 'disk_remaining_bytes': 0}
    rig.destination.post_live_migration_at_destination(None, rig.instance, [])
    rig.source.post_live_migration_at_source(None, rig.instance, [], {})
    assert rig.make('host1').guests() == {} and list(rig.make('host2').guests()) == [rig.instance.uuid]


def test_a_host_that_does_not_expect_the_guest_does_not_get_it(rig):
    facts = rig.prepare()
    rig.destination.rollback_live_migration(None, rig.instance, [], facts)
    with pytest.raises(exception.VirtError, match='does not expect'):
        rig.migrate(facts)
    assert rig.where() == ['host1']


def test_migration_to_an_unreachable_host_leaves_the_guest_on_the_source(rig):
    facts = rig.prepare()
    rig.destination.disconnect()
    with pytest.raises(exception.VirtError, match='connection'):
        rig.migrate(facts)
    assert rig.where() == ['host1']


def test_live_migration_can_be_aborted_and_forced(rig):
    facts = rig.prepare()
    rig.source.abort_live_migration(rig.instance)                     # nothing is under way
    rig.here.delays['live_migrate'] = 60
    thread, errors = rig.in_thread(facts)
    rig.source.abort_live_migration(rig.instance)
    thread.join(20)
    assert errors == [exception.MigrationAborted] and rig.where() == ['host1']
    thread, errors = rig.in_thread(facts)
    rig.source.force_complete_live_migration(rig.instance)
    thread.join(20)
    assert errors == [] and rig.where() == ['host2']


def test_a_report_that_is_refused_leaves_the_guest_here(rig):
    def refuse(values):
        raise exception.InstanceChanged(instance_id=rig.instance.uuid)
    with pytest.raises(exception.InstanceChanged):
        rig.migrate(rig.prepare(), refuse)
    assert rig.where() == ['host1'] and rig.source.jobs == {}


def test_live_migration_of_local_disks_needs_block_migration(rig):
    assert rig.destination.check_destination(rig.instance, False, False) == {'block_migration': False}     # it has none
    rig.instance.image_id = '11111111-2222-3333-4444-555555555555'
    with pytest.raises(exception.MigrationPreCheckError):
        rig.destination.check_destination(rig.instance, False, False)
    rig.there.machine.shares_disks = True
    assert rig.destination.check_destination(rig.instance, False, False) == {'block_migration': False}
    assert rig.there.has_disks(rig.instance, 'host1')


def test_clouds_of_one_process_do_not_reach_each_other(rig, tmp_path):
    other = Rig(tmp_path / 'other')
    facts = rig.prepare()
    rig.destination.disconnect()
    other.destination.pre_live_migration(None, rig.instance, [], [], facts)
    with pytest.raises(exception.VirtError):
        rig.migrate(facts)


@pytest.mark.parametrize('topology', ['{"cells": []}', None])
def test_guest_has_the_topology_of_its_destination_also_after_post_copy(rig, topology):
    facts = {**rig.source.check_source(rig.instance, {}), 'numa_topology': topology}
    rig.destination.pre_live_migration(None, rig.instance, [{'id': 'port'}], [], facts)
    rig.here.machine.guests[rig.instance.uuid].update({'ahead': 'host2', 'numa_topology': 'of host1'})
    rig.source.await_live_migration(rig.instance, rig.reports.append)
    guest = rig.there.machine.guests[rig.instance.uuid]
    assert rig.where() == ['host2'] and (guest['numa_topology'], guest['networks']) == (topology, ['port'])
