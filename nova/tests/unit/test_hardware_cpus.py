"""Sets of CPUs, page sizes, host options, and what guests see as their processor."""
import re

import hypothesis
import pytest
from hypothesis import strategies as st

from nova import exception
from nova.hardware import cpu_topology
from nova.hardware import cpus
from nova.hardware import guest_option_rows
from nova.hardware import host
from nova.objects import numa


@pytest.mark.parametrize('text, expected', [
    ('0', {0}), ('0-3', {0, 1, 2, 3}), ('0-3,^2,8', {0, 1, 3, 8}), (' 1 , 3 - 4 ', {1, 3, 4}), ('^1', set()),
    ('0-0', {0}), ('5,1,5', {1, 5}), ('0-7,^2-5', {0, 1, 6, 7})])
def test_cpu_set_specification_is_parsed(text, expected):
    assert cpus.parse(text) == expected


@pytest.mark.parametrize('text', ['', 'x', '1,', '3-1', '-1', '1--2', '0x1', '^', '^^1', '1;2', '0-99999999', '70000',
                                  '1\n2', '٣'])
def test_malformed_cpu_set_is_refused(text):
    with pytest.raises(ValueError):
        cpus.parse(text)


@pytest.mark.parametrize('cpuset, text', [
    ((), ''), ((3,), '3'), ((0, 1, 2, 3), '0-3'), ((5, 1, 4, 0), '0-1,4-5'), ((0, 2, 4), '0,2,4')])
def test_cpu_set_is_shown_with_ranges(cpuset, text):
    assert cpus.show(cpuset) == text


@hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])       # a busy machine
@hypothesis.given(st.frozensets(st.integers(0, 300), min_size=1))
def test_formatted_cpu_set_parses_to_itself(cpuset):
    assert cpus.parse(cpus.show(cpuset)) == cpuset


@pytest.mark.parametrize('text, vcpus, expected', [
    ('^0-1', 4, {2, 3}), ('0-1', 4, {0, 1}), ('0-3,^0', 4, {1, 2, 3}), ('^0,^3', 4, {1, 2}), ('0', 1, {0})])
def test_cpu_mask_selects_the_cpus_of_a_guest(text, vcpus, expected):
    assert cpus.mask(text, vcpus) == expected


@pytest.mark.parametrize('text', ['4', '^4', '0-9', 'all'])
def test_invalid_cpu_mask_is_refused(text):
    with pytest.raises(ValueError):
        cpus.mask(text, 4)


@pytest.mark.parametrize('text, expected', [
    ('small', 'small'), ('LARGE', 'large'), ('any', 'any'), ('2048', 2048), ('2MB', 2048), ('2MiB', 2048),
    ('2 m', 2048), ('1GB', 1048576), ('1g', 1048576), ('4k', 4), (2048, 2048), ('1TB', 1 << 30), ('2048KB', 2048),
    ('2Mi', 2048), ('0002048', 2048)])
def test_page_size_accepts_names_and_units(text, expected):
    assert cpus.page_size(text) == expected
    assert re.fullmatch(guest_option_rows.PAGE_SIZE, str(text))


@pytest.mark.parametrize('text', ['', '0', 'huge', '-1', '2 ponies', '1.5GB', '0MB', '9' * 13, '2048B', '5ib'])
def test_invalid_page_size_is_refused(text):
    with pytest.raises(ValueError):
        cpus.page_size(text)
    assert not re.fullmatch(guest_option_rows.PAGE_SIZE, text)


# ---- the options of a host ---------------------------------------------------

def cell(number=0, first=0, count=4, **values):
    return numa.HostCell(id=number, cpuset=frozenset(range(first, first + count)), memory=4096, **values)


def test_reserved_huge_pages_are_counted_per_cell_and_size():
    assert host.reserved_pages(['node:0,size:2048,count:64', 'node:1, size:1GB, count:1', 'node:0,size:1GB,count:2']
                               ) == {0: {2048: 64, 1048576: 2}, 1: {1048576: 1}}


@pytest.mark.parametrize('value', ['', 'node:0', 'node:0,size:large,count:1', 'node:a,size:4,count:1',
                                   'node:0,size:2 ponies,count:1', 'size:4,node:0,count:1'])
def test_malformed_reserved_huge_pages_are_refused(value):
    with pytest.raises(ValueError):
        host.reserved_pages([value])


@pytest.mark.parametrize('shared, dedicated, expected', [
    (None, None, [({0, 1, 2, 3}, None), ({4, 5, 6, 7}, None)]),
    ({0, 1, 4, 5}, {2, 3, 6, 7}, [({0, 1}, {2, 3}), ({4, 5}, {6, 7})]),
    (None, {2, 3}, [(set(), {2, 3})]),
    ({4, 9}, None, [({4}, set())])])
def test_host_cpus_are_partitioned_into_shared_and_dedicated(shared, dedicated, expected):
    found = host.partition(numa.HostTopology((cell(0), cell(1, 4))), shared and frozenset(shared),
                           dedicated and frozenset(dedicated))
    assert [(each.cpuset, each.pcpuset) for each in found.cells] == expected


def test_partition_keeps_the_siblings_that_guests_may_have_and_reserves_pages():
    siblings = (frozenset({0, 2}), frozenset({1, 3}))
    whole = numa.HostTopology((cell(siblings=siblings, mempages=(numa.Pages(4, 100), numa.Pages(2048, 8))),))
    found = host.partition(whole, frozenset({0}), frozenset({1, 3}), {0: {2048: 3}, 5: {2048: 9}}).cells[0]
    assert found.siblings == (frozenset({1, 3}),)
    assert [(pages.reserved, pages.free) for pages in found.mempages] == [(0, 100), (3, 5)]
    assert host.partition(whole, reserved={0: {2048: 99}}).cells[0].mempages[1].free == 0


def test_partition_refuses_a_cpu_for_two_purposes():
    with pytest.raises(ValueError, match='2'):
        host.partition(numa.HostTopology((cell(),)), frozenset({1, 2}), frozenset({2, 3}))


# ---- sockets, cores, threads -------------------------------------------------

def choose(vcpus, specs=None, properties=None, topology=None):
    found = cpu_topology.choose(vcpus, {f'hw:cpu_{k}': v for k, v in (specs or {}).items()},
                                {f'hw_cpu_{k}': v for k, v in (properties or {}).items()}, topology)
    return found['sockets'], found['cores'], found['threads']


@pytest.mark.parametrize('vcpus, specs, properties, expected', [
    (1, {}, {}, (1, 1, 1)), (4, {}, {}, (4, 1, 1)),
    (8, {'sockets': '2'}, {}, (2, 4, 1)), (8, {'cores': '4'}, {}, (2, 4, 1)), (8, {'threads': '2'}, {}, (4, 1, 2)),
    (8, {'sockets': '2', 'cores': '2', 'threads': '2'}, {}, (2, 2, 2)),
    (8, {'max_sockets': '1'}, {}, (1, 8, 1)), (8, {'max_sockets': '2', 'max_cores': '2'}, {}, (2, 2, 2)),
    (8, {'max_sockets': '4'}, {'max_sockets': '2'}, (2, 4, 1)),
    (8, {}, {'max_sockets': 2}, (2, 4, 1)),
    (8, {'sockets': '2'}, {'sockets': '4'}, (4, 2, 1)),
    (8, {'sockets': '2'}, {'cores': '8'}, (1, 8, 1)),            # an image's wishes replace all of a flavor's
    (6, {'sockets': '4'}, {}, (6, 1, 1)),                         # a wish that cannot be kept
    (7, {'max_sockets': '1', 'max_threads': '1'}, {}, (1, 7, 1))])
def test_cpu_topology_follows_limits_and_preferences(vcpus, specs, properties, expected):
    assert choose(vcpus, specs, properties) == expected


@pytest.mark.parametrize('vcpus, specs, properties', [
    (8, {'max_sockets': '2'}, {'max_sockets': '4'}), (8, {'max_cores': '2'}, {'cores': '4'}),
    (8, {'max_cores': '2', 'cores': '4'}, {}), (8, {'max_sockets': '1', 'max_cores': '2', 'max_threads': '2'}, {}),
    (7, {'max_sockets': '2', 'max_cores': '2'}, {'max_threads': '1'}),
    (4, {'sockets': '0'}, {}), (4, {'sockets': 'two'}, {}), (4, {}, {'cores': '-1'}), (4, {}, {'cores': '²'}),
    (4, {}, {'threads': '9' * 30})])
def test_impossible_cpu_topology_is_refused(vcpus, specs, properties):
    with pytest.raises(exception.InvalidInput):
        choose(vcpus, specs, properties)


def pinned(*threads):
    cells = tuple(numa.GuestCell(id=number, cpuset=frozenset(range(4)), memory=1, cpu_topology={
        'sockets': 1, 'cores': 4 // each, 'threads': each}) for number, each in enumerate(threads))
    return numa.GuestTopology(cells)


@pytest.mark.parametrize('threads, specs, expected', [
    ((2,), {}, (4, 1, 2)), ((2, 2), {'sockets': '2'}, (2, 2, 2)), ((2, 1), {}, (8, 1, 1)), ((4, 2), {}, (4, 1, 2)),
    ((1,), {'threads': '2'}, (8, 1, 1)),                        # siblings that are none would mislead the guest
    ((2,), {'max_threads': '1'}, (8, 1, 1))])
def test_threads_are_those_of_the_pinned_cpus(threads, specs, expected):
    assert choose(8, specs, topology=pinned(*threads)) == expected


LIMIT = st.none() | st.integers(1, 64).map(str)


@hypothesis.settings(deadline=None)
@hypothesis.given(st.integers(1, 64), st.fixed_dictionaries({name: LIMIT for name in (
    'max_sockets', 'max_cores', 'max_threads')}))
def test_the_product_is_the_number_of_vcpus_and_within_the_limits(vcpus, limits):
    limits = {name: value for name, value in limits.items() if value}
    try:
        found = choose(vcpus, limits)
    except exception.InvalidInput:
        most = [int(limits.get(name, 64)) for name in ('max_sockets', 'max_cores', 'max_threads')]
        assert not any(s * c * t == vcpus for s in range(1, most[0] + 1) for c in range(1, most[1] + 1)
                       for t in range(1, most[2] + 1))
        return
    assert found[0] * found[1] * found[2] == vcpus
    for value, name in zip(found, ('max_sockets', 'max_cores', 'max_threads')):
        assert value <= int(limits.get(name, 64))
