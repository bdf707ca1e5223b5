"""PCI devices in the scheduler's view: pools as arrays, the filter and the weigher."""
import types

import numpy as np
import pytest

from nova.hardware import pci_pools
from nova.objects import pci
from nova.scheduler import host_view
from nova.scheduler import weights
from nova.scheduler.filters import pci as filters
from nova.scheduler.resources import pci as placement
from nova.scheduler.resources import pci_table


def stats(count, vendor='10de', node=None):
    return pci.dump([pci.Pool(vendor, '20b0', node, count, {'dev_type': pci.PCI})])


def request(count=1, vendor='10de', name='gpu'):
    return pci.Request(count, ({'vendor_id': vendor},), alias_name=name)


ALIKE = stats(2)
STATS = [None, ALIKE, ALIKE, stats(1), [], [*stats(1), *stats(2, '8086')]]


@pytest.fixture
def free():
    return pci_table.FreeDevices(STATS)


def test_free_devices_are_counted_for_each_host(free):
    assert free.counts.tolist() == [0, 2, 2, 1, 0, 3]
    assert pci_table.FreeDevices([None, []]).counts is None and pci_table.FreeDevices([]).counts is None


def test_alike_hosts_are_judged_once(free, monkeypatch):
    asked, really = [], pci_pools.supports
    monkeypatch.setattr(pci_pools, 'supports', lambda pools, requests: asked.append(1) or really(pools, requests))
    assert free.mask([request(2)]).tolist() == [False, True, True, False, False, False]
    assert len(asked) == 2, 'of those that have as many at all'


@pytest.mark.parametrize('requests, expected', [
    ([request()], [1, 2, 3, 5]), ([request(), request(2, '8086')], [5]), ([request(2), request()], []), ([], range(6))])
def test_pci_mask_selects_hosts_with_free_devices(free, requests, expected):
    assert np.flatnonzero(free.mask(requests)).tolist() == list(expected)


def test_devices_taken_by_one_server_are_not_offered_to_the_next(free):
    left = free.without(1, [request()]).without(5, [request(2, '8086')])
    assert left.counts.tolist() == [0, 1, 2, 1, 0, 1]
    assert free.counts.tolist() == [0, 2, 2, 1, 0, 3], 'the view that others have is as it was'
    assert left.without(0, [request()]) is left


def test_many_changes_do_not_pile_up(free):
    for number in range(200):
        free = free.changed({number % 6: stats(number)})
    assert free.counts.tolist() == [198, 199, 194, 195, 196, 197]
    assert len(free._known.pools) <= 30


def test_taken_devices_stay_taken_when_unused_pci_stats_are_removed(free):
    free = free.without(5, [request(2, '8086')])
    for number in range(200):
        free = free.changed({0: stats(number)})
    assert free.counts.tolist() == [199, 2, 2, 1, 0, 1]
    assert not free.mask([request(1, '8086')])[5]


def hosts(stats):
    return types.SimpleNamespace(pci=pci_table.FreeDevices(stats), all_pass=np.ones(len(stats), dtype=bool))


def asking(*requests):
    return types.SimpleNamespace(special=(placement.Devices(requests),) if requests else ())


def test_pci_filter_removes_hosts_without_devices():
    each, view = filters.PciPassthroughFilter(None), hosts(STATS)
    assert each.mask(view, asking()) is view.all_pass
    assert each.mask(view, asking(request(2))).tolist() == [False, True, True, False, False, False]
    reason = each.reason(view, asking(request(2), request(1, '8086', 'nic')), np.array([0]))
    assert reason == 'has|have too few free PCI devices (gpu:2, nic:1)'
    near = "near the guest's NUMA nodes (gpu:2)"
    assert each.reason(view, asking(request(2)), np.array([0, 1])) == (
        f'has|have too few free PCI devices, or none {near}')
    assert each.reason(view, asking(request(2)), np.array([1, 2])) == f'has|have no free PCI devices {near}'
    assert each.checks_capacity and not each.run_on_rebuild


def test_pci_weigher_prefers_hosts_with_few_devices():
    """The documented three hosts: one device, many, none."""
    assert weights.pci_devices(hosts([stats(1), stats(8), None])).tolist() == [-1, -8, 0]
    assert weights.pci_devices(hosts([None, None])) is None


def row(number, **values):
    return {'id': number, 'host': f'host{number}', 'node': f'host{number}', 'change_number': 1, 'vcpus': 8,
            'memory_mb': 1024, 'local_gb': 10, 'reserved_memory_mb': 0, 'reserved_disk_gb': 0,
            'cpu_allocation_ratio': 1.0, 'ram_allocation_ratio': 1.0, 'disk_allocation_ratio': 1.0, 'vcpus_used': 0,
            'memory_mb_used': 0, 'local_gb_used': 0, 'running_vms': 0, 'capabilities': {}, 'hypervisor_type': 'fake',
            'availability_zone': 'nova', 'disabled': False, 'forced_down': False, 'last_seen_at': None,
            'pci_stats': None, **values}


def test_the_view_follows_claims():
    view = host_view.Hosts([row(1, pci_stats=ALIKE), row(2, pci_stats=ALIKE), row(3)])
    after = view.with_usage({0: row(1, pci_stats=stats(1)), 2: row(3, vcpus_used=1)})
    assert view.pci.counts.tolist() == [2, 2, 0] and after.pci.counts.tolist() == [1, 2, 0]
    assert view.with_usage({1: row(2, pci_stats=ALIKE, vcpus_used=2)}).pci is view.pci
    other = after.copy()
    placement.Devices([request()]).consume(other, 1)
    assert other.pci.counts.tolist() == [1, 1, 0] and after.pci.counts.tolist() == [1, 2, 0]


def test_number_of_new_pci_stats_is_visible_only_after_their_pools():
    """Other threads read the number without the lock, and then the pools."""
    class Pools(list):
        def append(self, pools):
            assert id(pools.stats) not in kinds._numbers
            super().append(pools)
    kinds, first, second = pci_table._PoolKinds(), stats(1), stats(2)
    kinds.pools = Pools()
    assert [kinds.number(each) for each in (first, second, first)] == [0, 1, 0]
    assert [each.stats for each in kinds.pools] == [first, second]
