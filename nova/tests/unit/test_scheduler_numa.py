"""Many hosts' cells as arrays: the mask never hides a host that would take the guest."""
import dataclasses
import json

import hypothesis
import pytest
from hypothesis import strategies as st

from nova.hardware import fit
from nova.hardware import host as hardware_host
from nova.hardware import usage
from nova.objects import numa
from nova.scheduler.filters import base
from nova.scheduler.filters import numa as filters
from nova.scheduler.resources import numa as cells
from nova.tests import numa_seed
from nova.tests.support import hardware_fit as test_hardware_fit

guest, pinned, cell, host = (test_hardware_fit.guest, test_hardware_fit.pinned, test_hardware_fit.cell,
                             test_hardware_fit.host)
HOSTS = [None, numa_seed.host(), host(cell(0, threads=2), cell(1, 8, threads=2)), host(cell(memory=512)),
         host(cell(memory=8192, mempages=test_hardware_fit.LARGE)), host(cell(cpu_usage=1)),
         host(cell(threads=2, pinned_cpus=frozenset({0, 1, 2})))]
LIMITS = [fit.Overcommit()] * len(HOSTS)


def placed(hosts, wanted, devices=None, pack=False):
    """(position, the pinned topology) of the first of these hosts that takes a guest, and why the others did not."""
    reasons = {}
    for position, here, limits in hosts:
        found = fit.fit(here, wanted, limits, (devices or {}).get(position), pack)
        if found.topology is not None:
            return position, found.topology, reasons
        reasons[position] = found.reason
    return None, None, reasons


@pytest.mark.parametrize('asked, expected', [
    (guest(numa_nodes='1'), [1, 2, 4, 5]), (guest(numa_nodes='2'), [1, 2]), (guest(6, 900, numa_nodes='3'), [1]),
    (guest(8, 900, numa_nodes='1'), [2, 4]), (guest(1, 600, numa_nodes='1'), [1, 2, 4, 5]),
    (pinned(4), [1, 2, 4, 6]), (pinned(4, numa_nodes='2'), [1, 2]),
    (pinned(2, cpu_thread_policy='require'), [2, 6]), (pinned(2, cpu_thread_policy='isolate'), [1, 2, 4]),
    (pinned(1, cpu_thread_policy='isolate'), [1, 2, 4, 6]),
    (guest(mem_page_size='large'), [4]), (guest(mem_page_size='2MB'), [4]), (guest(mem_page_size='small'), [1]),
    (guest(numa_nodes='4'), [])])
def test_numa_mask_selects_hosts_with_room(asked, expected):
    assert list(cells.Cells(HOSTS, LIMITS).mask(asked).nonzero()[0]) == expected


def test_shared_beside_pinned_cpus_need_cells_with_both_kinds():
    mixed = guest(4, cpu_policy='mixed', cpu_dedicated_mask='^0')
    both = hardware_host.partition(host(cell()), shared=frozenset({0}), dedicated=frozenset({1, 2, 3}))
    found = cells.Cells([host(cell()), both], LIMITS[:2])
    assert list(found.mask(mixed)) == [False, True] and fit.fit(both, mixed).topology is not None
    assert fit.fit(host(cell()), mixed).reason == fit.NOT_PINNED


def test_numa_reason_joins_the_two_commonest_lacks():
    class Filter(filters.NUMATopologyFilter):
        def lacks(self, hosts, request, position):
            return (fit.CPUS, fit.MEMORY, fit.MEMORY)[position]
    assert base.conjugated(Filter(None).reason(None, None, [0, 1, 2]), 3) == (
        'have no NUMA node with enough free memory or no NUMA node with enough free CPUs')
    assert base.conjugated(Filter(None).reason(None, None, [0]), 1) == fit.CPUS


def test_numa_request_without_numa_hosts_selects_none():
    assert not cells.Cells([None, None], LIMITS[:2]).mask(guest(numa_nodes='1')).any()
    assert len(cells.Cells([], [])) == 0 and not len(cells.Cells([], []).mask(guest(numa_nodes='1')))


def test_limits_are_those_of_the_hosts_rows():
    row = {'cpu_allocation_ratio': 2.0, 'ram_allocation_ratio': 1.5}
    assert cells.limits(row) == fit.Overcommit(cpu_ratio=2.0, ram_ratio=1.5)
    full = host(cell(cpu_usage=8))
    mask = cells.Cells([full, full], [fit.Overcommit(), cells.limits(row)]).mask(guest(numa_nodes='1'))
    assert list(mask) == [False, True]


def test_changed_hosts_update_the_numa_cells():
    known = cells.Cells(HOSTS, LIMITS)
    asked = guest(numa_nodes='1')
    taken = usage.claim(HOSTS[1], fit.fit(HOSTS[1], asked).topology)
    new = known.changed({0: (HOSTS[4], fit.Overcommit()), 1: (taken, fit.Overcommit()), 4: (None, fit.Overcommit())})
    again = cells.Cells([HOSTS[4], taken, *HOSTS[2:4], None, *HOSTS[5:]], LIMITS)
    for each in (asked, guest(mem_page_size='large'), pinned(4)):
        assert list(new.mask(each)) == list(again.mask(each))
    assert list(known.mask(asked).nonzero()[0]) == [1, 2, 4, 5], 'the older view stays as it was'
    wide = host(*(cell(number, number * 8) for number in range(4)))
    wider = known.changed({0: (wide, fit.Overcommit())})
    assert list(wider.mask(guest(numa_nodes='4')).nonzero()[0]) == [0]
    assert list(wider.mask(asked).nonzero()[0]) == [0, 1, 2, 4, 5]
    assert not known.mask(guest(numa_nodes='4')).any()


def look(order, asked, **options):
    return placed([(position, HOSTS[position], fit.Overcommit()) for position in order], asked, **options)


def test_numa_placement_uses_the_first_fitting_cell():
    position, found, reasons = look([3, 5, 2, 1], pinned(4))
    assert position == 2 and found.cells[0].cpu_pinning and set(reasons) == {3, 5}
    assert look([0, 3], guest(numa_nodes='1')) == (
        None, None, {0: 'has no NUMA topology', 3: fit.MEMORY})
    near = test_hardware_fit.pool(1), test_hardware_fit.request('required')
    position, found, _ = look([1, 2], guest(numa_nodes='1'),
                              devices={1: ([], [near[1]]), 2: ([near[0]], [near[1]])})
    assert position == 2 and found.cells[0].id == 1
    used = host(cell(0), cell(1, 8, cpu_usage=1))
    assert [placed([(7, used, fit.Overcommit())], guest(numa_nodes='1'), pack=pack)[1].cells[0].id
            for pack in (False, True)] == [0, 1]


@hypothesis.settings(max_examples=200, deadline=None)
@hypothesis.given(st.lists(test_hardware_fit.hosts(), min_size=1, max_size=3),
                  st.lists(test_hardware_fit.guests(), min_size=1, max_size=4), test_hardware_fit.LIMITS)
def test_no_host_that_would_take_the_guest_is_hidden(hosts, guests, limits):
    for asked in guests:
        mask = cells.Cells(hosts, [limits] * len(hosts)).mask(asked)
        for position, here in enumerate(hosts):
            found = fit.fit(here, asked, limits)
            assert mask[position] or found.topology is None
            if len(asked.cells) == 1 and asked.cpu_policy == 'shared':
                assert mask[position] == (found.topology is not None)
            if found.topology is not None:
                hosts[position] = usage.claim(here, found.topology, limits)


def test_reserved_cpus_are_left_to_the_close_look():
    asked = pinned(8, emulator_threads_policy='isolate')
    here = [host(cell())]
    assert cells.Cells(here, LIMITS[:1]).mask(asked)[0]
    assert placed([(0, here[0], fit.Overcommit())], asked) == (None, None, {0: fit.PINNED})


def test_a_cell_of_memory_alone_takes_no_vcpu():
    bare = numa.HostTopology((dataclasses.replace(cell(), cpuset=frozenset()),))
    assert not cells.Cells([bare], LIMITS[:1]).mask(guest(numa_nodes='1')).any()


def test_stored_topologies_give_the_same_as_loaded_ones():
    texts = [each and numa.text_of_host(each) for each in HOSTS]
    foreign = [each and json.dumps(numa.dump_host(each), indent=1) for each in HOSTS]
    known = cells.Cells(HOSTS, LIMITS)
    for other in (cells.Cells(texts, LIMITS), cells.Cells(foreign, LIMITS),
                  cells.Cells([None] * len(HOSTS), LIMITS).changed(dict(enumerate(zip(texts, LIMITS))))):
        for each in (guest(numa_nodes='1'), guest(numa_nodes='2'), guest(mem_page_size='large'), pinned(4),
                     pinned(2, cpu_thread_policy='require')):
            assert list(other.mask(each)) == list(known.mask(each))


def test_stored_cell_texts_load_as_the_same_cells():
    for each in HOSTS[1:]:
        for stored in (numa.text_of_host(each), json.dumps(numa.dump_host(each))):
            assert tuple(map(numa.load_cell, numa.cell_texts(stored))) == each.cells
    assert numa.cell_texts(numa.text_of_host(numa.HostTopology(()))) == []
