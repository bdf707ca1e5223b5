"""Placing guests onto hosts, and what they take there: by cases, and by properties that hold in all of them."""
import dataclasses
import json

import hypothesis
import pytest
from hypothesis import strategies as st

from nova.hardware import fit
from nova.hardware import pinning
from nova.hardware import usage
from nova.objects import numa
from nova.tests import numa_seed
from nova.tests.support.hardware_fit import LARGE
from nova.tests.support.hardware_fit import LIMITS
from nova.tests.support.hardware_fit import cell
from nova.tests.support.hardware_fit import guest
from nova.tests.support.hardware_fit import guests
from nova.tests.support.hardware_fit import host
from nova.tests.support.hardware_fit import hosts
from nova.tests.support.hardware_fit import pinned
from nova.tests.support.hardware_fit import pool
from nova.tests.support.hardware_fit import request


def where(found):
    assert found.topology is not None, found.reason
    return [part.id for part in found.topology.cells]


# ---- pinning within a cell ---------------------------------------------------

SMT = {'count': 8, 'threads': 2}            # siblings 0,4 1,5 2,6 3,7


@pytest.mark.parametrize('values, taken, count, policy, expected, threads', [
    ({}, (), 3, None, [0, 1, 2], 1),
    ({}, (0, 2), 3, 'prefer', [1, 3, 4], 1),
    (SMT, (), 4, 'prefer', [0, 4, 1, 5], 2),
    (SMT, (), 3, 'prefer', [0, 4, 1], 1),
    (SMT, (0,), 3, 'prefer', [1, 5, 4], 1),                      # a broken core serves the odd one
    (SMT, (0, 1), 2, 'prefer', [2, 6], 2),
    (SMT, (0, 1, 2, 3), 2, 'prefer', [4, 5], 1),
    (SMT, (0, 1), 4, 'require', [2, 6, 3, 7], 2),
    (SMT, (0,), 1, 'require', [4], 1),
    (SMT, (0,), 3, 'require', [1, 5, 4], 1),
    (SMT, (), 2, 'isolate', [0, 1], 1),
    (SMT, (4,), 3, 'isolate', [1, 2, 3], 1),
    ({}, (0,), 3, 'isolate', [1, 2, 3], 1),
    ({'count': 12, 'threads': 4}, (), 8, 'prefer', [0, 3, 6, 9, 1, 4, 7, 10], 4),
    ({'count': 12, 'threads': 4}, (), 6, 'prefer', [0, 3, 6, 9, 1, 4], 2)])
def test_pinning_follows_the_thread_policy(values, taken, count, policy, expected, threads):
    found = pinning.pin(cell(pinned_cpus=frozenset(taken), **values), range(count), policy)
    assert [found.cpus[vcpu] for vcpu in range(count)] == expected
    assert found.threads == threads and not found.reserved


@pytest.mark.parametrize('values, taken, count, policy, reserve', [
    ({}, (), 9, None, 0), ({}, (1,), 8, 'prefer', 0), ({}, (), 8, 'prefer', 1),
    ({}, (), 2, 'require', 0),                                    # no threads, no siblings
    (SMT, (0, 1, 2), 4, 'require', 0), (SMT, (), 5, 'isolate', 0), (SMT, (), 4, 'isolate', 1),
    (SMT, (0, 1), 3, 'isolate', 0)])
def test_pinning_returns_none_without_enough_cpus(values, taken, count, policy, reserve):
    assert pinning.pin(cell(pinned_cpus=frozenset(taken), **values), range(count), policy, reserve) is None


@pytest.mark.parametrize('policy, count, reserved', [(None, 4, {2}), (None, 3, {5}), ('isolate', 2, {2}),
                                                     ('require', 2, {1})])
def test_pinning_reserves_cpus_for_the_emulator(policy, count, reserved):
    assert pinning.pin(cell(**SMT), range(count), policy, 1).reserved == reserved


def test_the_emulators_cpu_is_beside_the_first_pinned_ones():
    asked = guest(cpu_policy='mixed', numa_nodes='2', cpu_dedicated_mask='2-3', emulator_threads_policy='isolate')
    halves = [dataclasses.replace(cell(number, number * 8), cpuset=frozenset({number * 8}),
                                  pcpuset=frozenset(range(number * 8 + 1, number * 8 + 8))) for number in range(2)]
    found = fit.fit(host(*halves), asked, fit.Overcommit(cpu_ratio=4))
    assert found.topology is None, 'two vCPUs of a node do not share one CPU'
    halves[0] = dataclasses.replace(halves[0], cpuset=frozenset({0, 1}), pcpuset=frozenset(range(2, 8)))
    found = fit.fit(host(*halves), asked)
    assert [part.reserved_cpus for part in found.topology.cells] == [set(), {11}]


def test_isolation_needs_the_whole_core():
    """A thread on which guests float is a neighbour, too."""
    mixed = dataclasses.replace(cell(**SMT), cpuset=frozenset({4}), pcpuset=frozenset({0, 1, 5, 2}))
    assert pinning.pin(mixed, [0], 'isolate').cpus == {0: 1}
    assert pinning.pin(mixed, [0, 1], 'isolate') is None
    assert pinning.blocked(mixed, {1}, 'isolate') == {1, 5} and pinning.blocked(mixed, {1}, None) == {1}


# ---- which cells -------------------------------------------------------------

@pytest.mark.parametrize('asked, expected', [
    (guest(numa_nodes='1'), [0]), (guest(numa_nodes='2'), [0, 1]), (guest(2, numa_nodes='1'), [0]),
    (guest(6, 1200, numa_nodes='3'), [0, 1, 2]), (guest(2, 2000, numa_nodes='1'), [0])])
def test_guests_are_placed_on_the_recorded_host_as_expected(asked, expected):
    assert where(fit.fit(numa_seed.host(), asked)) == expected


@pytest.mark.parametrize('asked, words', [
    (guest(numa_nodes='4'), '3 NUMA nodes'), (guest(5, numa_nodes='1'), 'CPUs'), (guest(6, 1200, numa_nodes='2'),
                                                                               'too few NUMA nodes with room'),
    (guest(1, 4000, numa_nodes='1'), 'memory'), (guest(4, 6000, numa_nodes='2'), 'too few NUMA nodes with room'),
    (guest(mem_page_size='large'), 'memory pages'), (guest(mem_page_size='2MB'), 'memory pages'),
    (guest(mem_page_size='1GB'), 'memory pages'), (pinned(5), 'pinning'), (pinned(2, cpu_thread_policy='require'),
                                                                       'pinning'),
    (guest(cpu_policy='mixed', cpu_dedicated_mask='0'), 'for pinning')])
def test_unplaceable_guest_is_refused_with_the_reason(asked, words):
    found = fit.fit(numa_seed.host(), asked)
    assert found.topology is None and words in found.reason


def test_a_host_without_topology_takes_no_guest_that_has_one():
    assert fit.fit(None, guest(numa_nodes='1')) == (None, 'has no NUMA topology')


def test_an_odd_guest_finds_its_only_match():
    asked = guest(6, 1200, numa_nodes='2', **{'numa_cpus.0': '0-1', 'numa_cpus.1': '2-5', 'numa_mem.0': '600',
                                              'numa_mem.1': '600'})
    assert where(fit.fit(numa_seed.host(), asked)) == [1, 0]


def test_emptiest_cell_is_preferred_unless_packing():
    used = host(cell(0, cpu_usage=4, memory_usage=512), cell(1, 8), cell(2, 16, cpu_usage=2, memory_usage=256))
    assert where(fit.fit(used, guest(numa_nodes='1'))) == [1]
    assert where(fit.fit(used, guest(numa_nodes='1'), pack=True)) == [0]
    assert where(fit.fit(used, guest(numa_nodes='2'))) == [1, 2]
    assert where(fit.fit(used, guest(numa_nodes='2'), pack=True)) == [0, 2]


def test_further_cells_are_near_the_first():
    far = {0: {0: 10, 1: 30, 2: 20}, 1: {0: 30, 1: 10, 2: 30}, 2: {0: 20, 1: 30, 2: 10}}
    here = host(*(cell(number, number * 8, distances=far[number]) for number in range(3)))
    assert where(fit.fit(here, guest(numa_nodes='2'))) == [0, 2]
    full = dataclasses.replace(here.cells[2], cpu_usage=8)
    assert where(fit.fit(host(*here.cells[:2], full), guest(numa_nodes='2'))) == [0, 1]


def test_sixteen_cells_are_decided_at_once():
    """Every odd cell is too small: the search must not try all of the sets."""
    here = host(*(cell(number, number * 8, memory=4096 if number % 2 else 64) for number in range(32)))
    assert where(fit.fit(here, guest(32, 32000, numa_nodes='16'))) == list(range(1, 32, 2))
    assert fit.fit(here, guest(34, 34000, numa_nodes='17')).topology is None


@pytest.mark.parametrize('ratio, usage_, fits', [(1.0, 4, True), (1.0, 5, False), (2.0, 12, True), (2.0, 13, False),
                                                 (1.15, 5, True), (1.15, 6, False)])
def test_cpus_are_shared_up_to_the_ratio(ratio, usage_, fits):
    here = host(cell(cpu_usage=usage_))
    assert bool(fit.fit(here, guest(numa_nodes='1'), fit.Overcommit(cpu_ratio=ratio)).topology) is fits


def test_no_guest_exceeds_a_cell_whatever_the_ratio():
    limits = fit.Overcommit(cpu_ratio=16, ram_ratio=16)
    assert fit.fit(host(cell()), guest(9, numa_nodes='1'), limits).topology is None
    assert fit.fit(host(cell()), guest(1, 4097, numa_nodes='1'), limits).topology is None


@pytest.mark.parametrize('ratio, usage_, fits', [(1.0, 3072, True), (1.0, 3073, False), (1.5, 5120, True),
                                                 (1.5, 5121, False)])
def test_memory_is_shared_up_to_the_ratio(ratio, usage_, fits):
    here = host(cell(memory_usage=usage_))
    assert bool(fit.fit(here, guest(numa_nodes='1'), fit.Overcommit(ram_ratio=ratio)).topology) is fits


# ---- pages -------------------------------------------------------------------

@pytest.mark.parametrize('size, memory_mb, expected', [
    ('small', 512, 4), ('large', 512, 2048), ('large', 1024, 1048576), ('any', 1024, 1048576), ('any', 513, 4),
    ('2MB', 512, 2048), ('4', 512, 4), ('1GB', 2048, 1048576), ('large', 3072, None), ('1GB', 512, None),
    ('2MB', 513, None), ('1GB', 3072, None), ('16384', 512, None)])
def test_guest_memory_uses_free_pages_of_the_requested_size(size, memory_mb, expected):
    here = host(cell(memory=8192, mempages=LARGE))
    found = fit.fit(here, guest(1, memory_mb, mem_page_size=size))
    assert (found.topology and found.topology.cells[0].pagesize) == expected


def test_reserved_and_used_pages_are_not_given():
    pages = (numa.Pages(4, 200000), numa.Pages(2048, 512, used=200, reserved=100))
    here = host(cell(memory=2048, mempages=pages))
    assert fit.fit(here, guest(1, 424, mem_page_size='2MB')).topology
    assert fit.fit(here, guest(1, 426, mem_page_size='2MB')).topology is None


def test_large_pages_are_not_for_other_guests():
    here = host(cell(memory=2048, mempages=(numa.Pages(4, 262144), numa.Pages(2048, 512))))
    assert fit.fit(here, guest(1, 1024, numa_nodes='1')).topology
    assert fit.fit(here, guest(1, 1025, numa_nodes='1')).topology is None
    claimed = usage.claim(here, fit.fit(here, guest(1, 1024, mem_page_size='2MB')).topology)
    assert fit.free_memory(claimed.cells[0]) == 1024
    assert fit.fit(claimed, guest(1, 2, mem_page_size='2MB')).topology is None


# ---- CPUs that are shared, and CPUs that are pinned --------------------------

PARTED = {'cpuset': frozenset({0, 1}), 'pcpuset': frozenset(range(2, 8))}


def test_parted_cpus_serve_their_purpose():
    here = host(dataclasses.replace(cell(cpu_usage=2), **PARTED))
    assert set(fit.fit(here, pinned(6)).topology.cells[0].cpu_pinning.values()) == set(range(2, 8))
    assert fit.fit(here, pinned(7)).topology is None
    assert fit.fit(here, guest(1, numa_nodes='1')).topology is None
    mixed = fit.fit(here, guest(4, cpu_policy='mixed', cpu_dedicated_mask='1-3'), fit.Overcommit(cpu_ratio=2)).topology
    assert set(mixed.cells[0].cpu_pinning) == {1, 2, 3} and mixed.cells[0].shared == {0}
    claimed = usage.claim(here, mixed, fit.Overcommit(cpu_ratio=2)).cells[0]
    assert claimed.cpu_usage == 3 and claimed.pinned_cpus == {2, 3, 4}


def test_cpus_that_are_not_parted_are_shared_or_pinned_never_both():
    assert fit.fit(host(cell(cpu_usage=1)), pinned(1)).topology is None
    assert fit.fit(host(cell(pinned_cpus=frozenset({1}))), guest(1, numa_nodes='1')).topology is None
    both = host(cell(0, cpu_usage=1), cell(1, 8, pinned_cpus=frozenset({8})))
    assert where(fit.fit(both, pinned(4))) == [1]
    assert where(fit.fit(both, guest(4, numa_nodes='1'))) == [0]


def test_pinned_threads_are_recorded():
    found = fit.fit(host(cell(**SMT)), pinned(4)).topology.cells[0]
    assert found.cpu_topology == {'sockets': 1, 'cores': 2, 'threads': 2}
    shown = numa.shown(numa.GuestTopology((found,)))
    assert shown == {'pagesize_kb': None, 'nodes': [{
        'vcpu_set': [0, 1, 2, 3], 'siblings': [[0, 1], [2, 3]], 'memory_mb': 1024, 'host_node': 0,
        'cpu_pinning': {'0': 0, '1': 4, '2': 1, '3': 5}}]}


def test_isolated_guests_keep_their_neighbours_idle_and_give_back_all():
    here = host(cell(**SMT))
    first = fit.fit(here, pinned(2, cpu_thread_policy='isolate', emulator_threads_policy='isolate')).topology
    claimed = usage.claim(here, first)
    assert claimed.cells[0].pinned_cpus == {0, 4, 1, 5, 2, 6}
    assert fit.free_pinnable(claimed.cells[0]) == 2
    assert usage.free(claimed, first) == here


# ---- devices -----------------------------------------------------------------

SOCKETS = host(cell(0, socket=0), cell(1, 8, socket=0), cell(2, 16, socket=1), cell(3, 24))


@pytest.mark.parametrize('pools, requests, nodes, expected', [
    ([pool(2)], [request('required')], '1', [2]), ([pool(2)], [request('legacy')], '1', [2]),
    ([pool(2)], [request('preferred')], '1', [2]), ([pool(2)], [request('socket')], '1', [2]),
    ([pool(1)], [request('socket')], '2', [1, 0]),
    ([pool(None)], [request('legacy')], '1', [0]), ([pool(None)], [request('preferred')], '1', [0]),
    ([pool(None)], [request('required')], '1', None), ([pool(None)], [request('socket')], '1', None),
    ([pool(3)], [request('socket')], '1', None),                 # its socket is not known
    ([pool(0), pool(2)], [request('required', 2)], '1', None),
    ([pool(0), pool(2)], [request('required', 2)], '2', [0, 2]),
    ([pool(3), pool(2)], [request('required', 2)], '2', [2, 3]),
    ([pool(2)], [request('required', 2)], '1', None), ([pool(2)], [], '1', [0]), ([pool(0)], [], '1', [1]),
    ([pool(0)], [], '4', [1, 2, 3, 0]), ([], [request('preferred')], '1', None)])
def test_guest_is_placed_near_its_devices(pools, requests, nodes, expected):
    found = fit.fit(SOCKETS, guest(numa_nodes=nodes), devices=(pools, requests))
    assert (found.topology and [part.id for part in found.topology.cells]) == expected
    assert found.topology or 'PCI' in found.reason


def test_a_near_device_does_not_help_a_cell_without_room():
    here = host(cell(0), cell(1, 8, cpu_usage=8))
    assert fit.fit(here, guest(numa_nodes='1'), devices=([pool(1)], [request('required')])).topology is None
    assert where(fit.fit(here, guest(numa_nodes='1'), devices=([pool(1)], [request('preferred')]))) == [0]


# ---- usage -------------------------------------------------------------------

def test_claims_add_up_in_the_stored_form():
    here = numa_seed.host()
    placed = fit.fit(here, guest(numa_nodes='2', mem_page_size='small')).topology
    stored = json.loads(json.dumps(numa.dump_host(usage.claim(here, placed))))
    data = [each['nova_object.data'] for each in stored['nova_object.data']['cells']]
    assert [(each['cpu_usage'], each['memory_usage']) for each in data] == [(2, 512), (2, 512), (0, 0)]
    assert [each['mempages'][0]['nova_object.data']['used'] for each in data] == [131072, 131072, 0]


@pytest.mark.parametrize('other, words', [
    ({'cpu_usage': 5}, 'CPUs'), ({'memory_usage': 3500}, 'memory'), ({'pinned_cpus': frozenset({0})}, 'CPUs')])
def test_claim_of_taken_resources_is_refused(other, words):
    placed = fit.fit(host(cell()), guest(numa_nodes='1')).topology
    with pytest.raises(usage.Overcommitted, match=words):
        usage.claim(host(cell(**other)), placed)


@pytest.mark.parametrize('other, words', [
    ({'cpu_usage': 1}, 'for pinning'), ({'pinned_cpus': frozenset({3})}, 'for pinning'), ({'count': 2}, 'for pinning'),
    ({'pcpuset': frozenset({7})}, 'for pinning')])
def test_claim_of_taken_pinned_cpus_is_refused(other, words):
    placed = fit.fit(host(cell()), pinned()).topology
    with pytest.raises(usage.Overcommitted, match=words):
        usage.claim(host(cell(**other)), placed)


def test_claim_of_taken_pages_is_refused():
    here = host(cell(memory=8192, mempages=LARGE))
    placed = fit.fit(here, guest(1, 2048, mem_page_size='1GB')).topology
    with pytest.raises(usage.Overcommitted, match='pages'):
        usage.claim(usage.claim(here, placed), placed)


def test_claim_without_placement_is_refused():
    with pytest.raises(usage.Overcommitted):
        usage.claim(host(cell()), pinned())
    with pytest.raises(usage.Overcommitted):
        usage.claim(host(cell(memory=8192, mempages=LARGE)), guest(mem_page_size='large'))
    with pytest.raises(usage.Overcommitted, match='no NUMA node 1'):
        usage.claim(host(cell()), guest(numa_nodes='2'))


def test_nothing_is_given_back_twice():
    here = host(cell(mempages=LARGE, memory=8192))
    for asked in (guest(numa_nodes='1'), pinned(), guest(mem_page_size='large')):
        placed = fit.fit(here, asked).topology
        claimed = usage.claim(here, placed)
        assert usage.free(claimed, placed) == here
        with pytest.raises(usage.Overcommitted):
            usage.free(here, placed)


def test_only_pinned_cpus_are_given_back():
    placed = fit.fit(host(cell()), pinned()).topology
    with pytest.raises(usage.Overcommitted, match='to release are not pinned'):
        usage.free(host(cell(memory_usage=2048, pinned_cpus=frozenset({0, 1, 2, 7}))), placed)


def test_recount_forgets_what_nobody_has_and_counts_what_runs():
    here = host(cell())
    placed = fit.fit(here, pinned()).topology
    wrong = host(cell(cpu_usage=3, memory_usage=77, pinned_cpus=frozenset({7})))
    assert usage.recount(wrong, [placed]) == usage.claim(here, placed)
    assert usage.recount(wrong, [placed, placed]).cells[0].memory_usage == 2048
    gone = dataclasses.replace(placed, cells=(dataclasses.replace(placed.cells[0], id=9),))
    assert usage.recount(wrong, [gone]) == here


# ---- guests without topology -------------------------------------------------

def test_guests_that_float_are_spread_over_the_cells():
    floating, order = {}, []
    for _ in range(8):
        found = usage.floating_cell(numa_seed.host(), 1, 64, floating)
        vcpus, memory = floating.get(found.id, (0, 0))
        floating[found.id] = (vcpus + 1, memory + 64)
        order.append(found.id)
    assert order[:3] == [2, 1, 0] and {number: order.count(number) for number in order} == {0: 4, 1: 2, 2: 2}


@pytest.mark.parametrize('vcpus, memory_mb, floating, expected', [
    (1, 512, {}, 2), (3, 512, {}, 0), (5, 512, {}, None), (1, 1968, {}, 1), (1, 3000, {}, 0), (1, 4000, {}, None),
    (1, 512, {2: (0, 1500)}, 1)])
def test_floating_guest_gets_the_least_used_cell_with_room(vcpus, memory_mb, floating, expected):
    found = usage.floating_cell(numa_seed.host(), vcpus, memory_mb, floating)
    assert (found and found.id) == expected


@pytest.mark.parametrize('memory_mb, ratio, expected', [(1000, 1.5, 2), (1200, 1.5, 1), (1200, 1.0, 0)])
def test_guests_that_float_share_memory_up_to_the_ratio(memory_mb, ratio, expected):
    others = {2: (0, 1800), 1: (0, 1000)}
    found = usage.floating_cell(numa_seed.host(), 1, memory_mb, others, fit.Overcommit(1.0, ratio))
    assert found.id == expected


def test_guests_float_on_no_cpu_that_is_pinned():
    here = host(dataclasses.replace(cell(), pinned_cpus=frozenset({0, 1})))
    assert usage.shared_cpus(here.cells[0]) == frozenset(range(2, 8))
    assert usage.floating_cell(here, 7, 64) is None


# ---- what always holds -------------------------------------------------------

def check(here, limits):
    for each in here.cells:
        assert each.pinned_cpus <= each.cpus
        assert each.cpu_usage <= len(each.cpuset) * limits.cpu_ratio
        assert not (each.pcpuset is None and each.cpu_usage and each.pinned_cpus)
        for pages in each.mempages:
            assert 0 <= pages.used and (pages.free >= 0 or not pages.used)
        small = each.memory - sum(pages.total * pages.size_kb for pages in each.mempages[1:]) // 1024
        large = sum(pages.used * pages.size_kb for pages in each.mempages[1:]) // 1024
        assert each.memory_usage - large <= small * limits.ram_ratio


@hypothesis.settings(max_examples=200, deadline=None)
@hypothesis.given(hosts(), st.lists(guests(), max_size=8), LIMITS, st.booleans())
def test_guests_come_and_go_and_nothing_is_ever_overcommitted(here, asked, limits, pack):
    empty, placed = here, []
    for each in asked:
        found = fit.fit(here, each, limits, pack=pack)
        assert found == fit.fit(here, each, limits, pack=pack)
        assert (found.topology is None) == bool(found.reason)
        if found.topology is None:
            continue
        parts = found.topology.cells
        assert len({part.id for part in parts}) == len(parts)
        assert [part.cpuset for part in parts] == [part.cpuset for part in each.cells]
        for part in parts:
            assert set(part.cpu_pinning or ()) == part.pcpuset
            mine = [*(part.cpu_pinning or {}).values(), *part.reserved_cpus]
            assert len(mine) == len(set(mine)) and not here.cell(part.id).pinned_cpus & set(mine)
        assert sum(len(part.reserved_cpus) for part in parts) == (each.emulator_threads_policy == 'isolate')
        assert numa.load_guest(json.dumps(numa.dump_guest(found.topology))) == found.topology
        before, here = here, usage.claim(here, found.topology, limits)
        assert usage.free(here, found.topology) == before
        placed.append(found.topology)
        check(here, limits)
    assert numa.load_host(json.dumps(numa.dump_host(here))) == here
    assert usage.recount(here, placed) == here
    for each in placed:
        here = usage.free(here, each)
    assert here == empty


@hypothesis.settings(max_examples=200, deadline=None)
@hypothesis.given(st.integers(1, 4), st.integers(1, 6), st.sets(st.integers(0, 23)), st.integers(1, 12),
                  st.sampled_from(['prefer', 'require', 'isolate']), st.integers(0, 1))
def test_pinning_gives_what_its_policy_says(threads, cores, taken, need, policy, reserve):
    here = cell(count=threads * cores, threads=threads)
    here = dataclasses.replace(here, pinned_cpus=frozenset(taken) & here.cpuset)
    found = pinning.pin(here, range(need), policy, reserve)
    free = here.cpuset - here.pinned_cpus
    if policy == 'prefer':
        assert (found is not None) == (len(free) >= need + reserve)
    if found is None:
        return
    mine = [found.cpus[vcpu] for vcpu in range(need)]
    assert len({*mine, *found.reserved}) == need + reserve and {*mine, *found.reserved} <= free
    core_of = {cpu: cpu % cores for cpu in here.cpuset}
    if policy == 'isolate':
        assert len({core_of[cpu] for cpu in {*mine, *found.reserved}}) == need + reserve
        assert pinning.blocked(here, mine, policy).isdisjoint(here.pinned_cpus)
    if policy == 'require':
        assert threads > 1
        alone = [cpu for cpu in mine if sum(core_of[cpu] == core_of[other] for other in mine) == 1]
        assert len(alone) <= 1
    for first in range(0, need, found.threads):
        assert len({core_of[cpu] for cpu in mine[first:first + found.threads]}) == 1
