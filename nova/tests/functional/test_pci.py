"""Servers with PCI devices below the API: who gets which, and that they come back."""
import collections
import functools
import json
import threading
import time

import pytest
import sqlalchemy as sa

from nova import exception
from nova import states
from nova.db.placement import pci_devices
from nova.db.services import services
from nova.db.tables import cell as tables_cell
from nova.objects import pci
from nova.tests import core
from nova.tests import races
from nova.tests.support.pci import CARD
from nova.tests.support.pci import GPUS
from nova.tests.support.pci import flavor
from nova.tests.support.pci import free
from nova.tests.support.pci import given
from nova.tests.support.pci import options
from nova.tests.support.pci import owners
from nova.tests.support.pci import rows


@pytest.fixture
def make(tmp_path):
    made = []

    def make(hosts=('host1', 'host2'), devices=GPUS, **more):
        cloud = core.Cloud(tmp_path, hosts=hosts, **options(devices), **more)
        made.append(cloud)
        return cloud
    yield make
    for cloud in made:
        assert cloud.conductor.claim_check.audit() == []
        cloud.close()


def statuses(cloud, host='host1'):
    return [row['status'] for row in rows(cloud, host)]


# ---- what a host has ---------------------------------------------------------

def test_a_host_reports_the_devices_that_are_for_guests(make):
    cloud = make(devices=[*GPUS, *CARD, {'address': '0000:00:1f.0', 'vendor_id': '8087', 'product_id': '0001'}])
    found = rows(cloud, 'host1')
    assert [row['address'] for row in found] == [*(each['address'] for each in CARD), *(
        each['address'] for each in GPUS)]
    assert found[0]['tags'] == {'physical_network': 'net1'} and set(statuses(cloud)) == {'available'}
    assert free(cloud) == {'host1': 5, 'host2': 5}


def test_nothing_is_written_when_nothing_changed(make):
    cloud = make()
    before = cloud.node('host1')['change_number']
    cloud.computes['host1'].inventory.report()
    assert cloud.node('host1')['change_number'] == before


def test_devices_that_come_go_and_change(make):
    cloud = make()
    compute = cloud.computes['host1']

    def report(*devices):
        cloud.conf.set_override('pci_devices', [json.dumps(devices)], group='fake')
        compute.inventory.report()
        return [(row['address'], row['product_id'], row['numa_node']) for row in rows(cloud, 'host1')]
    assert report(dict(GPUS[0], numa_node=1), *CARD[:1]) == [
        (CARD[0]['address'], '154d', None), (GPUS[0]['address'], '20b0', 1)]
    assert free(cloud)['host1'] == 2
    assert report() == [] and cloud.node('host1')['pci_stats'] is None
    assert report(GPUS[1]) == [(GPUS[1]['address'], '20b0', None)] and free(cloud)['host1'] == 1


def test_a_device_that_vanishes_while_a_server_has_it_is_kept_until_it_is_given_back(make, caplog):
    cloud = make(hosts=('host1',))
    first, second = cloud.boot(flavor=flavor()), cloud.boot(flavor=flavor())
    address, = (address for (_, address), (uuid, _) in owners(cloud).items() if uuid == first)
    cloud.conf.set_override('pci_devices', [json.dumps([each for each in GPUS if each['address'] != address])],
                            group='fake')
    cloud.computes['host1'].inventory.report()
    assert sorted(statuses(cloud)) == ['claimed', 'removed'] and len(owners(cloud)) == 2
    assert address in caplog.text and first in caplog.text
    cloud.conf.set_override('pci_devices', [json.dumps(GPUS)], group='fake')
    cloud.computes['host1'].inventory.report()
    assert statuses(cloud) == ['claimed', 'claimed']
    cloud.conf.set_override('pci_devices', ['[]'], group='fake')
    cloud.computes['host1'].inventory.report()
    for uuid in (first, second):
        cloud.delete(uuid)
    cloud.settle()
    assert rows(cloud) == [] and cloud.node('host1')['pci_stats'] is None


def test_devices_go_with_their_host(make):
    cloud = make()
    cloud.boot(flavor=flavor(), requested_host='host1')
    with cloud.db.reader() as conn:
        numbers = {row['host']: row['uuid'] for row in services.list(conn, topic='compute')}
    for uuid in numbers.values():
        cloud.db.run(services.delete, uuid)
    assert statuses(cloud, 'host1') == ['claimed'] and rows(cloud, 'host2') == []
    for compute in cloud.computes.values():
        cloud.heartbeat(compute.host.name)
        compute.inventory.report()
    assert free(cloud) == {'host1': 1, 'host2': 2}
    cloud.conductor.claim_check.audit()              # the usage of the new row


@pytest.mark.parametrize('option, values', [
    ('pci__device_spec', ['{"vendor": "10de"}']), ('fake__pci_devices', ['nothing'])])
def test_a_host_with_a_mistake_in_its_options_does_not_start(tmp_path, option, values):
    with pytest.raises(exception.InvalidInput, match='pci'):
        core.Cloud(tmp_path, **{option: values})


# ---- who gets them -----------------------------------------------------------

def test_servers_beyond_the_devices_are_refused(make):
    cloud = make()
    uuids = [uuid for _ in range(6) for uuid in cloud.create(flavor=flavor())]
    cloud.settle()
    found = collections.Counter(cloud.row(uuid)['vm_state'] for uuid in uuids)
    assert found == {states.ACTIVE: 4, states.ERROR: 2}
    assert given(cloud) == {place: uuid for place, (uuid, held) in owners(cloud).items()} and len(given(cloud)) == 4
    fault = next(cloud.row(uuid)['fault'] for uuid in uuids if cloud.row(uuid)['vm_state'] == states.ERROR)
    assert '2 have too few free PCI devices (gpu:1)' in fault['message']
    assert free(cloud) == {'host1': 0, 'host2': 0}
    cloud.delete(next(uuid for uuid in uuids if cloud.row(uuid)['host'] == 'host2'))
    cloud.settle()
    assert free(cloud) == {'host1': 0, 'host2': 1}
    assert cloud.row(cloud.boot(flavor=flavor()))['host'] == 'host2'


def test_servers_of_one_request_see_what_the_others_take(make):
    cloud = make()
    uuids = cloud.create(count=2, flavor=flavor(2))
    cloud.settle()
    assert {cloud.row(uuid)['host'] for uuid in uuids} == {'host1', 'host2'} and len(given(cloud)) == 4
    uuids = cloud.create(count=1, flavor=flavor(2))
    cloud.settle()
    assert '2 have too few free PCI devices (gpu:2)' in cloud.row(uuids[0])['fault']['message']


def test_hosts_with_devices_are_kept_for_who_asks(make):
    cloud = make(devices=[dict(each, host='host2') for each in GPUS], filter_scheduler__pci_weight_multiplier=10.0)
    assert {cloud.row(cloud.boot())['host'] for _ in range(3)} == {'host1'}
    assert cloud.row(cloud.boot(flavor=flavor()))['host'] == 'host2'


def test_host_with_the_fewest_sufficient_devices_is_chosen(make):
    devices = [dict(GPUS[0], host='host1'), *(dict(each, host='host2') for each in GPUS)]
    cloud = make(devices=devices)
    assert cloud.row(cloud.boot(flavor=flavor()))['host'] == 'host1'
    assert cloud.row(cloud.boot(flavor=flavor(2)))['host'] == 'host2'


def test_physical_function_and_its_virtual_ones_exclude_each_other(make):
    cloud = make(hosts=('host1',), devices=CARD)
    whole = flavor(name='nic', dev_type='type-PF')
    function = flavor(name='vf', dev_type='type-VF', physical_network='net1')
    uuid = cloud.boot(flavor=function)
    assert statuses(cloud) == ['unavailable', 'claimed', 'available']
    refused, = cloud.create(flavor=whole)
    cloud.settle()
    assert cloud.row(refused)['vm_state'] == states.ERROR
    cloud.delete(uuid)
    cloud.settle()
    cloud.boot(flavor=whole)
    assert statuses(cloud) == ['claimed', 'unavailable', 'unavailable']


def test_a_forced_host_must_have_the_devices_too(make):
    cloud = make(devices=[dict(each, host='host2') for each in GPUS])
    uuid, = cloud.create(flavor=flavor(), force_host='host1')
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.ERROR and owners(cloud) == {}


def test_a_dry_run_of_a_server_counts_its_own_devices_as_free(make):
    cloud = make(hosts=('host1',))
    uuid = cloud.boot(flavor=flavor(2))
    spec = cloud.conductor.methods.get_request_spec(None, uuid)
    found = cloud.scheduler.methods.explain(cloud.ctx, spec, [uuid], uuid, 10, 0)
    assert [choice['host'] for choice in found['choices']] == ['host1']
    other, = cloud.insert(flavor=flavor(2))
    spec = cloud.conductor.methods.get_request_spec(None, other)
    found = cloud.scheduler.methods.explain(cloud.ctx, spec, [other], None, 10, 0)
    assert found['choices'] == [] and found['reason'] == '1 host: 1 has too few free PCI devices (gpu:2).'
    assert len(owners(cloud)) == 2 and cloud.row(other)['host'] is None
    cloud.delete(other)
    cloud.settle()


def test_servers_without_devices_cost_no_statement(make):
    cloud = make()
    seen = []
    sa.event.listen(cloud.db.engine, 'before_cursor_execute',
                    lambda conn, cursor, statement, *_: seen.append(statement))
    cloud.delete(cloud.boot())
    cloud.settle()
    assert seen and not any('pci_devices' in each or 'SAVEPOINT' in each for each in seen)


# ---- where builds fail -------------------------------------------------------

def test_a_build_that_fails_gives_back_and_takes_elsewhere(make):
    cloud = make()
    cloud.computes['host1'].driver.failures['spawn'] = exception.VirtError(operation='spawn', reason='test')
    uuids = [uuid for _ in range(2) for uuid in cloud.create(flavor=flavor())]
    cloud.settle()
    assert {cloud.row(uuid)['host'] for uuid in uuids} == {'host2'}
    assert {host for host, _ in owners(cloud)} == {'host2'} and free(cloud) == {'host1': 2, 'host2': 0}


def test_claimed_devices_are_kept_for_an_interrupted_build(make):
    cloud = make(hosts=('host1',))
    cloud.bus.lost = lambda topic, method, server: method == 'build_instance'
    uuid, = cloud.create(flavor=flavor())
    cloud.settle()
    assert len(owners(cloud)) == 1 and given(cloud) == {}
    cloud.kill_compute('host1')
    cloud.bus.lost = None
    cloud.start_compute('host1')
    cloud.settle()
    assert cloud.row(uuid)['vm_state'] == states.ACTIVE
    assert given(cloud) == {place: owner for place, (owner, _) in owners(cloud).items()} and len(given(cloud)) == 1


def test_the_audit_mends_what_differs(make):
    cloud = make(hosts=('host1',))
    uuid = cloud.boot(flavor=flavor())
    lost = 'f0000000-0000-0000-0000-00000000000f'
    for held in (False, True):
        assert cloud.db.run(pci_devices.claim, 'host1', 'host1', [pci.Request(1, ({'vendor_id': '10de'},))], lost,
                            held)
        address, = (row['address'] for row in rows(cloud) if row['instance_uuid'] == lost)
        assert cloud.conductor.claim_check.audit() == [{'host': 'host1', 'node': 'host1', 'column': 'pci_devices',
                                            'was': f'{address} {lost}', 'is': address}]
        assert {owner for owner, _ in owners(cloud).values()} == {uuid} and free(cloud) == {'host1': 1}
    nodes = tables_cell.compute_nodes
    with cloud.db.writer() as conn:
        conn.execute(sa.update(nodes).values(pci_stats=[]))
    assert [each['column'] for each in cloud.conductor.claim_check.audit()] == ['pci_stats']
    assert free(cloud) == {'host1': 1}


# ---- races -------------------------------------------------------------------

def test_a_server_that_is_deleted_while_it_is_placed(make):
    cloud = make()
    uuid, = cloud.insert(flavor=flavor())
    spec = cloud.conductor.methods.get_request_spec(None, uuid)
    cloud.delete(uuid)
    cloud.settle()
    assert cloud.scheduler.methods.select_destinations(cloud.ctx, spec, [uuid]) == [[]]
    assert owners(cloud) == {} and free(cloud) == {'host1': 2, 'host2': 2}


EIGHT = [{'address': f'0000:8{number}:00.0', 'vendor_id': '10de', 'product_id': '20b0'} for number in range(8)]


@pytest.fixture
def any_cloud(tmp_path, database_url):
    """Two hosts with eight devices, on each database."""
    cloud = core.Cloud(tmp_path, hosts=('host1', 'host2'), url=database_url, **options(EIGHT))
    yield cloud
    assert cloud.conductor.claim_check.audit() == []
    cloud.close()


def test_parallel_schedulers_never_share_a_device(any_cloud):
    """24 servers want 16 devices of 2 hosts, each placed by a scheduler that knows nothing of the others."""
    cloud = any_cloud
    uuids = cloud.insert(24, flavor=flavor())
    assert races.place(cloud, uuids) == {'host1': 8, 'host2': 8, None: 8}
    assert len({uuid for uuid, _ in owners(cloud).values()}) == 16 and free(cloud) == {'host1': 0, 'host2': 0}
    for uuid, held in owners(cloud).values():
        assert not held and cloud.row(uuid)['host']


def test_two_claims_never_share_a_device(any_cloud):
    """Threads that claim and give back 1 to 3 devices of two hosts; nobody ever has what another has."""
    cloud, threads, rounds = any_cloud, 16, 6
    taken, lock, over = {}, threading.Lock(), []

    def had(uuid, host):
        with cloud.db.reader() as conn:
            return {(host, device.address) for device in pci_devices.of_instance(conn, uuid, host)}

    def live(number):
        for turn in range(rounds):
            host, uuid = f'host{number % 2 + 1}', f'{number:04}-{turn}'
            asked = [pci.Request((number + turn) % 3 + 1, ({'vendor_id': '10de'},))]
            if not cloud.db.run(pci_devices.claim, host, host, asked, uuid):
                continue
            mine = had(uuid, host)
            with lock:
                over.extend(mine & taken.keys())
                taken.update(dict.fromkeys(mine, uuid))
            time.sleep(0.002)
            if len(mine) != asked[0].count or had(uuid, host) != mine:
                over.append(uuid)
            with lock:
                for place in mine:
                    del taken[place]
            cloud.db.run(pci_devices.release, host, host, uuid)
    races.at_once(*(functools.partial(live, number) for number in range(threads)))
    assert over == [] and set(statuses(cloud)) == {'available'}
    assert free(cloud) == {'host1': 8, 'host2': 8}


def test_device_reports_between_claims_lose_no_device(any_cloud):
    """Devices vanish and come back while servers get them and give them back: in the end all are there and free."""
    cloud, done = any_cloud, threading.Event()
    all_of_them = pci.dump([pci.Device(**each) for each in EIGHT])

    def report():
        for turn in range(40):
            fewer = [each for number, each in enumerate(all_of_them) if number % 4 != turn % 4]
            for found in (fewer, all_of_them):
                cloud.db.run(pci_devices.report, 'host1', 'host1', found)
        done.set()

    def live(number):
        turn = 0
        while not done.is_set():
            time.sleep(0)                    # green threads take turns only where one pauses
            uuid, turn = f'{number:04}-{turn}', turn + 1
            asked = [pci.Request(2, ({'vendor_id': '10de'},))]
            if cloud.db.run(pci_devices.claim, 'host1', 'host1', asked, uuid):
                with cloud.db.reader() as conn:
                    assert len(pci_devices.of_instance(conn, uuid, 'host1')) == 2
                cloud.db.run(pci_devices.release, 'host1', 'host1', uuid)
    races.at_once(report, *(functools.partial(live, number) for number in range(4)))
    cloud.db.run(pci_devices.report, 'host1', 'host1', all_of_them)
    assert statuses(cloud) == ['available'] * 8 and free(cloud)['host1'] == 8
