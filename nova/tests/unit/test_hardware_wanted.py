"""What a flavor and an image ask for together: every rule, and every refusal."""
import pytest

from nova import exception
from nova.hardware import guest_request


def flavor(vcpus=4, memory_mb=1024, **specs):
    """Extra specs of the hw namespace; two underscores are a full stop."""
    return {'vcpus': vcpus, 'memory_mb': memory_mb,
            'extra_specs': {'hw:' + name.replace('__', '.'): value for name, value in specs.items()}}


def image(**properties):
    return {'hw_' + name.replace('__', '.'): value for name, value in properties.items()}


def cells(topology):
    return [(sorted(cell.cpuset), cell.memory) for cell in topology.cells]


@pytest.mark.parametrize('specs, properties', [
    ({}, {}), ({'cpu_policy': 'shared'}, {}), ({}, {'cpu_policy': 'shared'}), ({'cpu_sockets': '2'}, {}),
    ({'emulator_threads_policy': 'share'}, {}), ({'cpu_realtime': 'no', 'cpu_realtime_mask': '^0'}, {}),
    ({'numa_nodes': ''}, {'cpu_policy': ' '})])
def test_flavor_without_options_requests_no_topology(specs, properties):
    assert guest_request.topology(flavor(**specs), image(**properties)) is None


@pytest.mark.parametrize('specs, properties, expected', [
    ({'numa_nodes': '1'}, {}, [([0, 1, 2, 3], 1024)]),
    ({'numa_nodes': '2'}, {}, [([0, 1], 512), ([2, 3], 512)]),
    ({}, {'numa_nodes': 2}, [([0, 1], 512), ([2, 3], 512)]),
    ({'numa_nodes': '2', 'numa_cpus__0': '0', 'numa_cpus__1': '1-3', 'numa_mem__0': '256', 'numa_mem__1': '768'}, {},
     [([0], 256), ([1, 2, 3], 768)]),
    ({'numa_nodes': '2'}, {'numa_cpus__0': '0,2', 'numa_cpus__1': '1,3', 'numa_mem__0': '1000', 'numa_mem__1': '24'},
     [([0, 2], 1000), ([1, 3], 24)]),
    ({'numa_nodes': '2', 'numa_cpus__0': '0', 'numa_cpus__1': '1-3'}, {'numa_mem__0': '256', 'numa_mem__1': '768'},
     [([0], 256), ([1, 2, 3], 768)]),
    ({'mem_page_size': 'large'}, {}, [([0, 1, 2, 3], 1024)]),
    ({'cpu_policy': 'dedicated'}, {}, [([0, 1, 2, 3], 1024)])])
def test_requested_nodes_divide_cpus_and_memory(specs, properties, expected):
    assert cells(guest_request.topology(flavor(**specs), image(**properties))) == expected


GIVEN = {'numa_nodes': '2', 'numa_cpus__0': '0,1', 'numa_cpus__1': '2,3', 'numa_mem__0': '512', 'numa_mem__1': '512'}


@pytest.mark.parametrize('specs, properties, words', [
    ({'numa_nodes': '0'}, {}, 'numa_nodes'), ({'numa_nodes': 'x'}, {}, 'numa_nodes'),
    ({'numa_nodes': '-1'}, {}, 'numa_nodes'),
    ({}, {'numa_nodes': '1.5'}, 'numa_nodes'), ({'numa_nodes': '5'}, {}, 'at most 4'),
    ({'numa_nodes': '3'}, {}, 'evenly'),
    ({'numa_nodes': '9' * 40}, {}, 'numa_nodes'),
    ({'numa_nodes': '2'}, {'numa_nodes': '2'}, 'override'),
    ({'numa_cpus__0': '0-3'}, {}, 'need numa_nodes'), ({}, {'numa_mem__0': '1024'}, 'need numa_nodes'),
    ({**GIVEN, 'numa_mem__1': '511'}, {}, '1023'),
    ({**GIVEN, 'numa_mem__1': '0'}, {}, 'positive'), ({**GIVEN, 'numa_mem__1': 'all'}, {}, 'positive'),
    ({**GIVEN, 'numa_cpus__1': '2'}, {}, 'must name all vCPUs'),
    ({**GIVEN, 'numa_cpus__1': '2-4'}, {}, 'must name all vCPUs'),
    ({**GIVEN, 'numa_cpus__1': '1-3'}, {}, 'CPUs of another node: 1'),
    ({**GIVEN, 'numa_cpus__1': 'x'}, {}, 'not a set'),
    ({**GIVEN, 'numa_cpus__1': ''}, {}, 'not a set'), ({**GIVEN, 'numa_cpus__1': '^2'}, {}, 'names no CPU'),
    ({**GIVEN, 'numa_cpus__2': '3'}, {}, '0 to 1'), ({**GIVEN, 'numa_mem__x': '3'}, {}, '0 to 1'),
    ({'numa_nodes': '2', 'numa_cpus__0': '0,1', 'numa_cpus__1': '2,3'}, {}, 'numa_mem is set for: none'),
    ({'numa_nodes': '2', 'numa_mem__0': '512', 'numa_mem__1': '512'}, {}, 'numa_cpus is set for: none'),
    (GIVEN, {'numa_cpus__0': '0,1'}, 'override'), (GIVEN, {'numa_mem__0': '512'}, 'override')])
def test_invalid_numa_nodes_are_refused(specs, properties, words):
    with pytest.raises(exception.InvalidInput, match=words):
        guest_request.topology(flavor(**specs), image(**properties))


def test_memory_must_divide_evenly():
    with pytest.raises(exception.InvalidInput):
        guest_request.topology(flavor(memory_mb=1025, numa_nodes='2'), {})


# ---- policies ----------------------------------------------------------------

POLICIES = (None, 'shared', 'dedicated', 'mixed')


@pytest.mark.parametrize('ours', POLICIES)
@pytest.mark.parametrize('theirs', POLICIES)
def test_cpu_policies_follow_the_policy_matrix(ours, theirs):
    """A flavor with the policy dedicated takes precedence; other differences are conflicts."""
    specs = {'cpu_policy': ours, 'numa_nodes': '1'}
    if 'mixed' in (ours, theirs) and ours != 'dedicated':
        specs['cpu_dedicated_mask'] = '0'
    if ours and theirs and ours != theirs and ours != 'dedicated':
        with pytest.raises(exception.InvalidInput):
            guest_request.topology(flavor(**specs), image(cpu_policy=theirs))
    else:
        found = guest_request.topology(flavor(**specs), image(cpu_policy=theirs))
        assert found.cpu_policy == (ours or theirs or 'shared')
        assert len(found.cells[0].pcpuset) == {'shared': 0, 'dedicated': 4, 'mixed': 1}[found.cpu_policy]


@pytest.mark.parametrize('specs, properties, expected', [
    ({'cpu_thread_policy': 'isolate'}, {}, 'isolate'), ({}, {'cpu_thread_policy': 'require'}, 'require'),
    ({'cpu_thread_policy': 'prefer'}, {'cpu_thread_policy': 'prefer'}, 'prefer'), ({}, {}, None)])
def test_thread_policy_comes_from_flavor_or_image(specs, properties, expected):
    found = guest_request.topology(flavor(cpu_policy='dedicated', **specs), image(**properties))
    assert found.cpu_thread_policy == expected


@pytest.mark.parametrize('mask, nodes, expected', [
    ('2-3', '1', [[2, 3]]), ('^0', '2', [[1], [2, 3]]), ('0', '2', [[0], []])])
def test_mixed_policy_pins_the_cpus_of_the_mask(mask, nodes, expected):
    found = guest_request.topology(flavor(cpu_policy='mixed', cpu_dedicated_mask=mask, numa_nodes=nodes), {})
    assert [sorted(cell.pcpuset) for cell in found.cells] == expected
    assert [cell.shared for cell in found.cells] == [cell.cpuset - cell.pcpuset for cell in found.cells]


@pytest.mark.parametrize('specs, properties, realtime, pinned', [
    ({'cpu_policy': 'dedicated', 'cpu_realtime_mask': '^0'}, {}, {1, 2, 3}, {0, 1, 2, 3}),
    ({'cpu_policy': 'dedicated', 'cpu_realtime_mask': '^0'}, {'cpu_realtime_mask': '^0-1'}, {2, 3}, {0, 1, 2, 3}),
    ({'cpu_policy': 'dedicated', 'emulator_threads_policy': 'isolate'}, {}, {0, 1, 2, 3}, {0, 1, 2, 3}),
    ({'cpu_policy': 'mixed', 'cpu_realtime_mask': '2-3'}, {}, {2, 3}, {2, 3}),
    ({'cpu_policy': 'mixed', 'cpu_dedicated_mask': '1-3'}, {}, {1, 2, 3}, {1, 2, 3}),
    ({'cpu_policy': 'mixed', 'cpu_realtime_mask': '3'}, {}, {3}, {3})])
def test_realtime_mask_selects_realtime_cpus(specs, properties, realtime, pinned):
    found = guest_request.topology(flavor(cpu_realtime='yes', **specs), image(**properties))
    assert found.realtime == realtime and found.cells[0].pcpuset == pinned


@pytest.mark.parametrize('specs, properties, words', [
    ({'cpu_policy': 'most'}, {}, 'cpu_policy'), ({}, {'cpu_policy': 'most'}, 'cpu_policy'),
    ({'cpu_thread_policy': 'isolate'}, {}, 'needs the cpu_policy dedicated'),
    ({'cpu_policy': 'dedicated', 'cpu_thread_policy': 'require'}, {'cpu_thread_policy': 'isolate'},
     'of the flavor is'),
    ({'cpu_policy': 'dedicated', 'cpu_thread_policy': 'x'}, {}, 'cpu_thread_policy'),
    ({'emulator_threads_policy': 'isolate'}, {}, 'needs the cpu_policy'),
    ({'cpu_policy': 'dedicated', 'emulator_threads_policy': 'x'}, {}, 'emulator_threads_policy'),
    ({'cpu_policy': 'mixed'}, {}, 'needs cpu_dedicated_mask'),
    ({'cpu_policy': 'dedicated', 'cpu_dedicated_mask': '0'}, {}, 'needs the cpu_policy mixed'),
    ({'cpu_dedicated_mask': '0'}, {}, 'needs the cpu_policy mixed'),
    ({'cpu_policy': 'mixed', 'cpu_dedicated_mask': '0-3'}, {}, 'both pinned and shared'),
    ({'cpu_policy': 'mixed', 'cpu_dedicated_mask': '^0-3'}, {}, 'both pinned and shared'),
    ({'cpu_policy': 'mixed', 'cpu_dedicated_mask': '0-9'}, {}, 'a guest with 4 vCPUs does not have'),
    ({'cpu_policy': 'mixed', 'cpu_dedicated_mask': 'x'}, {}, 'not a set'),
    ({'cpu_realtime': 'true'}, {}, 'needs the cpu_policy'),
    ({'cpu_realtime': 'true', 'cpu_policy': 'dedicated'}, {}, 'without real-time'),
    ({'cpu_realtime': 'true', 'cpu_policy': 'dedicated', 'cpu_realtime_mask': '^0-3'}, {}, 'excludes all CPUs'),
    ({'cpu_realtime': 'true', 'cpu_policy': 'dedicated', 'cpu_realtime_mask': '9'}, {}, 'does not have'),
    ({'cpu_realtime': '1', 'cpu_policy': 'mixed', 'cpu_dedicated_mask': '0-1', 'cpu_realtime_mask': '1'}, {},
     'cannot be combined'),
    ({'cpu_realtime': '1', 'cpu_policy': 'mixed', 'cpu_dedicated_mask': '0-1'}, {'cpu_realtime_mask': '1'},
     'cannot be combined')])
def test_contradictory_cpu_policies_are_refused(specs, properties, words):
    with pytest.raises(exception.InvalidInput, match=words):
        guest_request.topology(flavor(**specs), image(**properties))


def test_mixed_policy_accepts_a_thread_policy():
    found = guest_request.topology(flavor(cpu_policy='mixed', cpu_dedicated_mask='0', cpu_thread_policy='isolate'), {})
    assert found.cpu_thread_policy == 'isolate'


@pytest.mark.parametrize('number, specs, properties, words', [
    ('4', {}, {}, None), ('3', {}, {}, 'must be the flavor'), ('0', {}, {}, 'positive'), ('x', {}, {}, 'positive'),
    ('4', {'cpu_policy': 'dedicated'}, {}, 'cannot be combined'),
    ('4', {}, {'cpu_policy': 'dedicated'}, 'cannot be combined')])
def test_resources_pcpu_requests_dedicated_cpus(number, specs, properties, words):
    asked = flavor(**specs)
    asked['extra_specs'][guest_request.DEDICATED] = number
    assert guest_request.concerns(asked, {})
    if words is None:
        found = guest_request.topology(asked, {})
        assert found.cpu_policy == 'dedicated' and found.cells[0].pcpuset == {0, 1, 2, 3}
    else:
        with pytest.raises(exception.InvalidInput, match=words):
            guest_request.topology(asked, image(**properties))


@pytest.mark.parametrize('specs, properties', [
    ({'numa_nodes': '1'}, {}), ({}, {'numa_nodes': '1'}), ({'cpu_policy': 'dedicated'}, {}),
    ({'mem_page_size': 'any'}, {}), ({}, {'mem_page_size': 'any'}), ({'emulator_threads_policy': 'share'}, {})])
def test_specs_and_properties_that_request_a_topology_are_recognized(specs, properties):
    assert guest_request.concerns(flavor(**specs), image(**properties))
    assert not guest_request.concerns(flavor(watchdog_action='reset'), image(disk_bus='virtio'))


# ---- pages and devices -------------------------------------------------------

@pytest.mark.parametrize('ours, theirs, expected', [
    ('large', None, 'large'), ('small', None, 'small'), ('any', None, 'any'), ('2MB', None, 2048),
    ('2048', None, 2048), ('large', '1GB', 1048576), ('any', '2048', 2048), ('any', 'small', 'small')])
def test_page_size_of_the_image_needs_permission_of_the_flavor(ours, theirs, expected):
    found = guest_request.topology(flavor(numa_nodes='2', mem_page_size=ours), image(mem_page_size=theirs))
    assert [cell.pagesize for cell in found.cells] == [expected] * 2


@pytest.mark.parametrize('ours, theirs', [
    (None, '2048'), ('small', '2048'), ('2048', '1GB'), ('2048', '2048'), ('large', 'x'), ('0', None), ('huge', None)])
def test_invalid_page_sizes_are_refused(ours, theirs):
    with pytest.raises(exception.InvalidInput, match='mem_page_size'):
        guest_request.topology(flavor(mem_page_size=ours), image(mem_page_size=theirs))


@pytest.mark.parametrize('ours, theirs, expected', [
    (None, None, None), ('socket', None, 'socket'), (None, 'required', 'required'), ('legacy', 'legacy', 'legacy')])
def test_pci_policy_comes_from_flavor_or_image(ours, theirs, expected):
    assert guest_request.pci_policy(flavor(pci_numa_affinity_policy=ours),
                                    image(pci_numa_affinity_policy=theirs)) == expected


@pytest.mark.parametrize('ours, theirs', [('required', 'preferred'), ('x', None), (None, 'x')])
def test_invalid_pci_policies_are_refused(ours, theirs):
    with pytest.raises(exception.InvalidInput, match='pci_numa_affinity_policy'):
        guest_request.pci_policy(flavor(pci_numa_affinity_policy=ours), image(pci_numa_affinity_policy=theirs))


def test_a_hostile_value_is_quoted_and_refused():
    with pytest.raises(exception.InvalidInput):
        guest_request.topology(flavor(numa_nodes={'a': 1}), {})


@pytest.mark.parametrize('specs', [{'numa_nodes': '1'}, {'cpu_policy': 'dedicated'}, {'mem_page_size': 'any'}, {
    'cpu_policy': 'mixed', 'cpu_dedicated_mask': '0'}, {'cpu_realtime': '1', 'cpu_policy': 'dedicated'}])
def test_a_flavor_of_absurd_size_is_refused_and_not_written_out(specs):
    with pytest.raises(exception.InvalidInput, match='more than 8192'):
        guest_request.topology(flavor(vcpus=2 ** 31 - 1, memory_mb=2 ** 31 - 1, **specs), {})
    assert guest_request.topology(flavor(vcpus=2 ** 31 - 1), {}) is None
