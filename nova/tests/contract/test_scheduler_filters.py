"""Every filter does what its documentation says."""
import datetime
import json
import pathlib

import pytest

from nova import utils
from nova.db.placement import server_groups
from nova.scheduler import filters
from nova.scheduler import pipeline
from nova.scheduler import placement_request
from nova.scheduler.filters import groups
from nova.scheduler.filters import operators
from nova.tests import placement
from nova.tests.placement import aggregates

PAGE = pathlib.Path(__file__).resolve().parents[3] / 'doc/source/admin/scheduler.rst'
OLD = utils.utcnow() - datetime.timedelta(hours=1)
FEATURES = {'arch': 'x86_64', 'features': ['aes', 'avx', 'mmx', 'ssse3'], 'topology': {'cores': 4}}
GCC = {'capabilities': {'compiler': 'gcc 12', 'version': '2.1.0', 'gpu': True}}


def extra(key, value):
    return {'extra_specs': {key: value}}


def hint(**hints):
    return {'hints': hints}


# filter, the columns of each host, what is asked for, the hosts that pass, what is said about the others
CASES = [
    # "does no operation. It passes all the available hosts."
    ('AllHostsFilter', [{'disabled': True}, {}], {}, 'h0 h1', None),
    # "filters hosts based on the architecture, hypervisor type, and virtual machine mode"
    ('ImagePropertiesFilter', [{}, {'supported_instances': [['aarch64', 'qemu', 'hvm']]}],
     {'properties': {'architecture': 'arm64', 'hypervisor_type': 'qemu'}}, 'h1',
     'does not run guests of the image (architecture aarch64, hypervisor type qemu)'),
    ('ImagePropertiesFilter', [{}, {'supported_instances': [['x86_64', 'kvm', 'xen'], ['i686', 'kvm', 'hvm']]}],
     {'properties': {'hw_architecture': 'x86_64', 'hw_vm_mode': 'hvm'}}, 'h0',
     'does not run guests of the image (architecture x86_64, VM mode hvm)'),
    ('ImagePropertiesFilter', [{}, {'supported_instances': []}], {'properties': {'img_hv_type': 'KVM'}}, 'h0',
     'does not run guests of the image (hypervisor type kvm)'),
    ('ImagePropertiesFilter', [{}, {'hypervisor_version': 8000001}, {'hypervisor_version': 9000000}],
     {'properties': {'img_hv_requested_version': '>=8.0, <9'}}, 'h1',
     'do not run guests of the image (hypervisor version >=8.0, <9)'),
    ('ImagePropertiesFilter', [{}], {'properties': {'img_hv_requested_version': 'new'}}, '',
     'does not run guests of the image (hypervisor version new)'),
    ('ImagePropertiesFilter', [{}, {'supported_instances': []}], {'properties': {'os_distro': 'x'}}, 'h0 h1', None),
    # "Use a comma to specify multiple zones."
    ('AvailabilityZoneFilter', [{}, {'availability_zone': 'a'}, {'availability_zone': 'b'}], {'zone': 'a'}, 'h1',
     'are not in availability zone a'),
    ('AvailabilityZoneFilter', [{}, {'availability_zone': 'a'}, {'availability_zone': 'b'}], {'zone': 'a, b'}, 'h1 h2',
     'is not in availability zone a, b'),
    # "`capabilities:cpu_info:features` is a valid scope format"; "ignores the namespace" of others
    ('ComputeCapabilitiesFilter', [{'cpu_info': FEATURES}, {}],
     extra('capabilities:cpu_info:features', '<all-in> aes mmx'), 'h0',
     "does not satisfy the flavor's extra specs (cpu_info:features)"),
    ('ComputeCapabilitiesFilter', [{'cpu_info': FEATURES}, {}], extra('hw:cpu_policy', 'dedicated'), 'h0 h1', None),
    ('ComputeCapabilitiesFilter', [{'hypervisor_type': 'fake'}, {}], extra('hypervisor_type', 'fake'), 'h0',
     "does not satisfy the flavor's extra specs (hypervisor_type)"),
    ('ComputeCapabilitiesFilter', [GCC, {}], extra('capabilities:compiler', '<in> gcc'), 'h0',
     "does not satisfy the flavor's extra specs (compiler)"),
    ('ComputeCapabilitiesFilter', [GCC, {}], extra('capabilities:gpu', 'True'), 'h0',
     "does not satisfy the flavor's extra specs (gpu)"),
    ('ComputeCapabilitiesFilter', [{'cpu_info': FEATURES}, {}],
     extra('capabilities:cpu_info:topology:cores', '>= 4'), 'h0',
     "does not satisfy the flavor's extra specs (cpu_info:topology:cores)"),
    # what depends on usage
    ('ComputeCapabilitiesFilter', [{'memory_mb_used': 8000}, {}], extra('capabilities:free_ram_mb', '>= 1024'), 'h1',
     "does not satisfy the flavor's extra specs (free_ram_mb)"),
    ('ComputeCapabilitiesFilter', [{}, {'running_vms': 3}], extra('capabilities:num_instances', '<= x'), '',
     "do not satisfy the flavor's extra specs (num_instances)"),
    ('ComputeCapabilitiesFilter', [{'running_vms': 3}, {}], extra('capabilities:num_instances', '3'), 'h0',
     "does not satisfy the flavor's extra specs (num_instances)"),
    ('ComputeCapabilitiesFilter', [{}], extra('capabilities:num_instances:x', '>= 0'), '',
     "does not satisfy the flavor's extra specs (num_instances:x)"),
    ('ComputeCapabilitiesFilter', [{}], extra('group_policy', 'none'), 'h0', None),
    # "checks that the aggregate metadata satisfies any extra specifications"
    ('AggregateInstanceExtraSpecsFilter', [{'aggregates': aggregates({'ssd': 'true'})}, {}], extra('ssd', 'true'), 'h0',
     "is in no aggregate that satisfies the flavor's extra specs (ssd)"),
    ('AggregateInstanceExtraSpecsFilter',
     [{'aggregates': aggregates({'kind': 'value1,value2'}, {'kind': 'value3'})},
      {'aggregates': aggregates({'x': 'y'})}],
     extra('aggregate_instance_extra_specs:kind', '<or> value2 <or> value9'), 'h0',
     "is in no aggregate that satisfies the flavor's extra specs (kind)"),
    ('AggregateInstanceExtraSpecsFilter', [{'aggregates': aggregates({'speed': '10'})}, {}],
     extra('capabilities:speed', '>= 10'), 'h0 h1', None),
    # "passes all hosts that are operational and enabled"
    ('ComputeFilter', [{}, {'disabled': True}, {'forced_down': True}, {'last_seen_at': OLD}], {}, 'h0',
     'are down or disabled'),
    ('CoreFilter', [{'vcpus_used': 16}, {'vcpus_used': 15}], {}, 'h1',
     'has too few free vCPUs (largest free 0, asked 1)'),
    # "If more than one value is found for a host […], the minimum value will be used."
    ('AggregateCoreFilter', [{'vcpus_used': 8}, {'vcpus_used': 8, 'aggregates': aggregates(
        {'cpu_allocation_ratio': '4.0'}, {'cpu_allocation_ratio': '1.0'})}], {}, 'h0',
     'has too few free vCPUs (largest free 0, asked 1)'),
    ('AggregateCoreFilter', [{'vcpus_used': 16, 'aggregates': aggregates({'cpu_allocation_ratio': '4.0'})},
                             {'vcpus_used': 16, 'aggregates': aggregates({'cpu_allocation_ratio': 'many'})}], {}, 'h0',
     'has too few free vCPUs (largest free 0, asked 1)'),
    ('RamFilter', [{'memory_mb_used': 8000}, {}], {}, 'h1',
     'has too little free memory (largest free 192 MB, asked 512 MB)'),
    ('AggregateRamFilter', [{'memory_mb_used': 8000, 'aggregates': aggregates({'ram_allocation_ratio': '1.5'})},
                            {'memory_mb_used': 8000}], {}, 'h0',
     'has too little free memory (largest free 192 MB, asked 512 MB)'),
    ('DiskFilter', [{'local_gb_used': 100}, {}], {}, 'h1', 'has too little free disk (largest free 0 GB, asked 1 GB)'),
    ('AggregateDiskFilter', [{'local_gb_used': 100, 'aggregates': aggregates({'disk_allocation_ratio': '2'})},
                             {'local_gb_used': 100}], {}, 'h0',
     'has too little free disk (largest free 0 GB, asked 1 GB)'),
    # "the host will be ignored by scheduler if more than `max_instances_per_host` are already existing"
    ('NumInstancesFilter', [{'running_vms': 50}, {'running_vms': 49}], {}, 'h1', 'has as many servers as allowed'),
    ('AggregateNumInstancesFilter',
     [{'running_vms': 50, 'aggregates': aggregates({'max_instances_per_host': '60'})},
      {'running_vms': 5, 'aggregates': aggregates({'max_instances_per_host': '60'}, {'max_instances_per_host': '5'})}],
     {}, 'h0', 'has as many servers as allowed'),
    ('IoOpsFilter', [{'io_ops': 8}, {'io_ops': 7}], {}, 'h1',
     'is busy with as many builds, moves and snapshots as allowed'),
    ('IoOpsFilter', [{'io_ops': 8}, {}], {'facts': {'IoOpsFilter': {('h1', 'n1', 8)}}}, 'h0',
     'is busy with as many builds, moves and snapshots as allowed'),
    ('AggregateIoOpsFilter', [{'io_ops': 2, 'aggregates': aggregates({'max_io_ops_per_host': '2'})}, {'io_ops': 2}], {},
     'h1', 'is busy with as many builds, moves and snapshots as allowed'),
    # "allows to put a new instance on a host within the same IP block"
    ('SimpleCIDRAffinityFilter', [{}, {'host_ip': '192.0.3.1'}, {'host_ip': None}],
     hint(build_near_host_ip='192.0.2.77'), 'h0', 'are not in the network 192.0.2.77/24'),
    ('SimpleCIDRAffinityFilter', [{}, {'host_ip': '192.0.3.1'}, {'host_ip': '2001:db8::1'}],
     hint(build_near_host_ip='192.0.2.77', cidr='/23'), 'h0 h1', 'is not in the network 192.0.2.77/23'),
    ('SimpleCIDRAffinityFilter', [{'host_ip': '2001:db8:0:1::5'}, {'host_ip': '2001:db8:0:2::5'}, {}],
     hint(build_near_host_ip='2001:db8:0:1::9', cidr='/64'), 'h0', 'are not in the network 2001:db8:0:1::9/64'),
    ('SimpleCIDRAffinityFilter', [{}], hint(build_near_host_ip='192.0.2.77', cidr='/99'), '',
     'cannot be near 192.0.2.77/99, which is not a network'),
    # "puts the instance on a different host from a set of instances", "on the same host as another instance in a set"
    ('DifferentHostFilter', [{}, {}], {**hint(different_host='u1'), 'facts': {'DifferentHostFilter': {'h0'}}}, 'h1',
     'has one of the servers that the hint different_host names'),
    ('DifferentHostFilter', [{}, {}], {**hint(different_host='u1'), 'facts': {'DifferentHostFilter': set()}}, 'h0 h1',
     None),
    ('SameHostFilter', [{}, {}], {**hint(same_host=['u1', 'u2']), 'facts': {'SameHostFilter': {'h0'}}}, 'h0',
     'has none of the servers that the hint same_host names'),
    ('SameHostFilter', [{}, {}], hint(same_host='u1'), '', 'have none of the servers that the hint same_host names'),
    ('SameHostFilter', [{}, {}], {}, 'h0 h1', None),
    # "Only passes hosts that have not been previously attempted."
    ('RetryFilter', [{}, {}], {'failed_nodes': (('h0', 'n0'), ('h1', 'other'))}, 'h1',
     'has failed to build this server before'),
    # it is always asked, of moves
    ('MovedGuestFilter', [{'hypervisor_type': 'fake'}, {}], {'hypervisor': 'fake'}, 'h0',
     'has no hypervisor of type fake, as the guest needs'),
    ('MovedGuestFilter', [{'hypervisor_type': 'fake'}, {}], {}, 'h0 h1', None),
    # "whose value (`trusted/untrusted`) must match the integrity of a host"
    ('TrustedFilter', [{}, {}, {}], {**extra('trust:trusted_host', 'trusted'),
                                     'facts': {'TrustedFilter': {'h0': 'trusted', 'h1': 'untrusted'}}}, 'h0',
     'are not attested as trusted'),
    ('TrustedFilter', [{}, {}], extra('trust:trusted_host', 'untrusted'), '', 'could not be attested'),
    ('TrustedFilter', [{}], {}, 'h0', None),
    # "Only passes hosts that are not already running an instance of the requested type."
    ('TypeAffinityFilter', [{}, {}], {'facts': {'TypeAffinityFilter': {'h1'}}}, 'h0',
     'has a server of flavor m1.small already'),
    # "passes hosts if no `instance_type` key is set or the metadata value contains the name"
    ('AggregateTypeAffinityFilter',
     [{}, {'aggregates': aggregates({'instance_type': 'm1.nano,m1.small'})},
      {'aggregates': aggregates({'instance_type': 'm1.nano'})}], {}, 'h0 h1',
     'is reserved for other flavors than m1.small'),
    # "isolate tenants in specific aggregates. To specify multiple tenants use a comma."
    ('AggregateMultiTenancyIsolation',
     [{}, {'aggregates': aggregates({'filter_tenant_id': 'o,p'})},
      {'aggregates': aggregates({'filter_tenant_id': 'o'})},
      {'aggregates': aggregates({'filter_tenant_id': 'o'}, {'filter_tenant_id2': 'p'})}], {}, 'h0 h1 h3',
     'is reserved for other projects'),
    # "isolates hosts based on image properties and aggregate meta-data […] at least one value matches"
    ('AggregateImagePropertiesIsolation',
     [{}, {'aggregates': aggregates({'os': 'linux,bsd'})}, {'aggregates': aggregates({'os': 'windows'})},
      {'aggregates': aggregates({'licence': 'yes'})}], {'properties': {'os': 'bsd'}}, 'h0 h1 h3',
     'is reserved for images with other properties'),
    # machines of bare metal are for flavors that ask for one of their class, and for no others
    ('MachineFilter', [{'hypervisor_type': 'ironic', 'traits': ['CUSTOM_GOLD']}, {}], {}, 'h1',
     'is bare metal, which the flavor does not request'),
    ('MachineFilter', [{}, {}], {}, 'h0 h1', None),
    ('MachineFilter', [{'hypervisor_type': 'ironic', 'traits': ['CUSTOM_GOLD']}, {}, {'traits': ['CUSTOM_GOLD']},
                       {'hypervisor_type': 'ironic', 'traits': ['CUSTOM_TIN']}], extra('resources:CUSTOM_GOLD', '1'),
     'h0', 'have no free machine of resource class CUSTOM_GOLD'),
    ('MachineFilter', [{'hypervisor_type': 'ironic', 'traits': ['CUSTOM_GOLD'], 'running_vms': 1}],
     extra('resources:CUSTOM_GOLD', '1'), '', 'has no free machine of resource class CUSTOM_GOLD'),
    ('MachineFilter', [{'hypervisor_type': 'ironic', 'traits': []}], extra('resources:CUSTOM_GOLD', '1'), '',
     'has no machine of resource class CUSTOM_GOLD that is ready'),
    ('TraitsFilter', [{'traits': ['HW_CPU_X86_AVX']}, {}], extra('trait:HW_CPU_X86_AVX', 'required'), 'h0',
     'lacks the required traits HW_CPU_X86_AVX'),
    ('TraitsFilter', [{'traits': ['CUSTOM_OLD']}, {}], {'properties': {'trait:CUSTOM_OLD': 'forbidden'}}, 'h1',
     'has one of the forbidden traits CUSTOM_OLD'),
    ('TraitsFilter', [{'traits': ['A']}, {}], extra('trait2:A', 'required'), 'h0', 'lacks the required traits A'),
    ('TraitsFilter', [{}], extra('traits:A', 'required'), 'h0', None),
    ('TraitsFilter', [{'traits': ['A', 'B']}, {'traits': ['A']}, {}],
     {'extra_specs': {'trait:A': 'required'}, 'properties': {'trait:B': 'forbidden'}}, 'h1',
     'do not satisfy the traits (required: A; forbidden: B)'),
]


@pytest.mark.parametrize(('name', 'changes', 'asked', 'left', 'reason'), CASES)
def test_filter_passes_the_expected_hosts_and_has_a_reason(name, changes, asked, left, reason):
    table = placement.hosts(*changes)
    assert placement.passing(placement.only(name), table, placement.request(**asked)) == (left.split(), reason)


@pytest.mark.parametrize(('name', 'asked'), {name: asked for name, _hosts, asked, *_ in CASES}.items())
def test_filter_passes_none_of_no_hosts(name, asked):
    left, removals = placement.narrow(placement.hosts(), placement.request(**asked), [placement.only(name)])
    assert list(left) == [] and removals == []


def test_every_filter_has_a_case():
    elsewhere = {'CellFilter', 'RequestedHostFilter', 'RequestedAggregateFilter', 'JsonFilter', 'IsolatedHostsFilter',
                 'MetricsFilter'}
    here = {name for name, cls in filters.builtin_filters().items() if cls.__module__.rpartition('.')[2] in (
        'bare_metal', 'builtin', 'capabilities', 'aggregates', 'busy', 'hints', 'query', 'trusted')}
    assert {name for name, *_ in CASES} == here - elsewhere


@pytest.mark.parametrize(('requirement', 'yes', 'no'), [
    # = is greater or equal, as it is with vcpus
    ('= 5', [5, '5', 6.0, '7'], [4, 'x', None, True]),
    ('== 5', [5, '5.0'], [4, 6, 'x']),
    ('!= 5', [4, '6'], [5, 'x', None]),
    ('>= 5', [5, 6], [4, None]),
    ('<= 5', [5, '4'], [6, 'x']),
    ('s== 2.1.0', ['2.1.0'], ['2.1', None, 2.1]),
    ('s!= 2.1.0', ['2.1', 3], ['2.1.0', None]),
    ('s>= b', ['b', 'c'], ['a']),
    ('s> b', ['c'], ['a', 'b']),
    ('s<= b', ['a', 'b'], ['c']),
    ('s< b', ['a'], ['b', 'c']),
    ('<in> gcc', ['gcc 12', 'a gcc', ['clang', 'gcc']], ['clang', None, []]),
    ('<all-in> aes mmx', [['aes', 'mmx', 'sse'], 'mmx aes', 'aes,mmx'], [['aes'], 'aesmmx', None]),
    ('<or> fpu <or> gpu', ['fpu', 'gpu', ['x', 'gpu']], ['fpu gpu', 'tpu', None]),
    # "If there is no operator specified, then a default operator of `s==` is used."
    ('value', ['value'], ['values', None, ['value']]),
    ('true', ['true', True], [False, 'True', 1]),
    # what is no number satisfies no comparison of numbers
    ('>= five', [], [5, 'five']),
    ('>= nan', [], [5]),
    ('>=5', ['>=5'], [6]),
])
def test_requirement_operators_match_the_documented_values(requirement, yes, no):
    assert [value for value in yes if not operators.matches(value, requirement)] == []
    assert [value for value in no if operators.matches(value, requirement)] == []


def test_requirement_operators_are_the_documented_ones():
    assert set(operators.OPERATORS) == {'=', '==', '!=', '>=', '<=', 's==', 's!=', 's>=', 's>', 's<=', 's<', '<in>',
                                        '<all-in>', '<or>'}


@pytest.mark.parametrize('value', [4, 5, 6])
@pytest.mark.parametrize('sign', ['=', '==', '!=', '>=', '<='])
def test_an_array_of_numbers_is_compared_as_one_is(sign, value):
    table = placement.hosts({'running_vms': value})
    left, _ = placement.passing(placement.only('ComputeCapabilitiesFilter'), table, placement.request(
        **extra('capabilities:num_instances', f'{sign} 5')))
    assert bool(left) == operators.matches(value, f'{sign} 5')


QUERY = ['and', ['>=', '$free_ram_mb', 1024], ['>=', '$free_disk_mb', 200 * 1024]]


@pytest.mark.parametrize(('query', 'left'), [
    (QUERY, 'h1'),
    (['=', '$host', 'h0'], 'h0'),
    (['in', '$host', 'h0', 'h2'], 'h0 h2'),
    (['in', '$host', ['h0', 'h2']], 'h0 h2'),
    (['in', '$host', 'h1', []], 'h1'),
    (['<', '$vcpus_used', 1], 'h0 h1'),
    (['<=', '$vcpus_used', 4, 5], 'h0 h1 h2'),
    (['>', '$vcpus_used', 3], 'h2'),
    (['not', ['>', '$vcpus_used', 3]], 'h0 h1'),
    (['or', ['=', '$host', 'h0'], ['=', '$nodename', 'n2']], 'h0 h2'),
    (['=', '$capabilities.gpu', True], 'h1'),
    (['=', '$cpu_info.topology.cores', 4], ''),
    (['<', '$host', 4], ''),
    (['=', 1, 1], 'h0 h1 h2'),
])
@pytest.mark.parametrize('form', [json.dumps, lambda query: query])
def test_json_filter_evaluates_queries(query, left, form):
    table = placement.hosts({'local_gb': 100}, {'local_gb': 300, 'capabilities': {'gpu': True}},
                            {'vcpus_used': 4, 'memory_mb_used': 8000, 'local_gb': 300})
    asking = placement.request(**hint(query=[form(query)]))
    assert placement.passing(placement.only('JsonFilter'), table, asking)[0] == left.split()


@pytest.mark.parametrize(('query', 'reason'), [
    ('no json', 'it is not JSON'),
    ('{}', 'it is not a list that begins with an operation'),
    ('["drop", "$host"]', "'drop' with 1 operands is not an operation"),
    ('["=", "$password", 1]', "'$password' is not an attribute"),
    ('["=", "$host"]', "'=' with 1 operands is not an operation"),
    ('["not", ["=", 1, 1], ["=", 1, 1]]', "'not' has 2 operands"),
    ('["and", ["in", "$host", []], ["=", 1, 1]]', "'in' with 2 operands is not an operation"),
    ('["and", 5]', "'5' is not a condition"),
    ('["=", ["$host"], 1]', 'an operand is a list or an object instead of a constant or an attribute'),
    ('[' * 40 + ']' * 40, 'it is too large'),
    (json.dumps(['or', *[['=', 1, 1]] * 300]), 'it is too large'),
    ({'a': 1}, 'it is not a list that begins with an operation'),
])
def test_invalid_json_query_passes_no_host(query, reason):
    left, told = placement.passing(placement.only('JsonFilter'), placement.hosts({}), placement.request(
        **hint(query=query)))
    assert left == [] and told.startswith('cannot be judged by the hint query: ' + reason)


@pytest.mark.parametrize(('images', 'restrict', 'left'), [
    ([placement.IMAGE_ID], True, 'h0'),
    ([placement.IMAGE_ID], False, 'h0'),
    (['other'], True, 'h1'),
    (['other'], False, 'h0 h1'),
    ([], True, 'h1'),
])
def test_isolated_hosts_run_isolated_images(images, restrict, left):
    """Isolated hosts run isolated images, "can run non isolated images if the flag […] is set to false"."""
    each = placement.only('IsolatedHostsFilter', filter_scheduler__isolated_hosts=['h0'],
                          filter_scheduler__isolated_images=images,
                          filter_scheduler__restrict_isolated_hosts_to_isolated_images=restrict)
    assert placement.passing(each, placement.hosts({}, {}), placement.request())[0] == left.split()


def test_metrics_filter_removes_hosts_without_metrics():
    """"Only hosts with the available metrics are passed." """
    table = placement.hosts({'metrics': [{'name': 'cpu.percent', 'value': 1.0}]},
                            {'metrics': [{'name': 'other', 'value': 1.0}]}, {})
    setting = {'metrics__weight_setting': ['cpu.percent=-1.0']}
    assert placement.passing(placement.only('MetricsFilter', **setting), table, placement.request()) == (
        ['h0'], 'do not measure the metrics that are weighed')
    assert placement.passing(placement.only('MetricsFilter'), table, placement.request())[0] == ['h0', 'h1', 'h2']
    names = [each.name for each in filters.load(placement.conf(**setting), [])]
    assert 'MetricsFilter' in names                      # required, unless
    names = [each.name for each in filters.load(placement.conf(**setting, metrics__required=False), [])]
    assert 'MetricsFilter' not in names
    with pytest.raises(ValueError, match='weight_setting: \'cpu\' is not of the form name=number'):
        filters.load(placement.conf(metrics__weight_setting=['cpu']), [])


def test_properties_of_a_namespace_alone_isolate():
    each = placement.only('AggregateImagePropertiesIsolation',
                          filter_scheduler__aggregate_image_properties_isolation_namespace='os',
                          filter_scheduler__aggregate_image_properties_isolation_separator='.')
    table = placement.hosts({'aggregates': aggregates({'kind': 'x'})}, {'aggregates': aggregates({'os.kind': 'x'})})
    asking = placement.request(properties={'kind': 'y', 'os.kind': 'y'})
    assert placement.passing(each, table, asking)[0] == ['h0']


def test_a_server_of_the_same_request_counts():
    """The second server of a request does not join the first where that is not allowed."""
    uuids = ['11111111-2222-3333-4444-555555555555', '11111111-2222-3333-4444-555555555556']
    for name, changes in (('TypeAffinityFilter', [{}, {}]), ('NumInstancesFilter', [{'running_vms': 49}] * 2),
                          ('IoOpsFilter', [{'io_ops': 7}] * 2)):
        rankings = pipeline.choose(placement.hosts(*changes), placement.request(), [placement.only(name)], (), uuids)
        assert {ranking[0] for ranking in rankings} == {0, 1}


def test_server_group_filters_apply_the_policy():
    for name, policy, left in (('ServerGroupAffinityFilter', server_groups.AFFINITY, ['h0']),
                               ('ServerGroupAntiAffinityFilter', server_groups.ANTI_AFFINITY, ['h1'])):
        group = placement_request.Group('g', frozenset([policy]), 1, None, {'h0': 1})
        asking = placement.request(group=group)
        table = pipeline.mutable_view(placement.hosts({}, {}), asking)
        assert placement.passing(placement.only(name), table, asking)[0] == left


def test_a_forced_host_is_asked_for_room_only():
    table = placement.hosts({'availability_zone': 'other', 'disabled': True})
    found = filters.load(placement.conf(), sorted(filters.builtin_filters().keys() - {'NUMATopologyFilter'}))
    asking = placement.request(host='h0', forced=True, zone='z', **extra('trait:X', 'required'))
    assert list(placement.narrow(table, asking, found)[0]) == [0]


def test_reasons_of_one_and_of_several_hosts_are_sentences():
    for name, changes, asked, _, reason in CASES:
        if reason is None:
            continue
        assert '|' not in reason
        table = placement.hosts(*changes, *changes)
        (removal,) = placement.narrow(table, placement.request(**asked), [placement.only(name)])[1]
        assert removal.count == 1 or removal.reason.split(' ')[0] in (
            'are', 'have', 'do', 'lack', 'cannot', 'could'), (name, removal.reason)


def test_cached_filter_results_do_not_depend_on_usage():
    """A view with other usage gives other answers where usage counts, and the same where it does not."""
    table = placement.hosts({}, {})
    each, asking = placement.only('ComputeCapabilitiesFilter'), placement.request(
        **extra('capabilities:free_ram_mb', '>= 1024'))
    assert placement.passing(each, table, asking)[0] == ['h0', 'h1']
    full = table.with_usage({0: {**table.rows[0], 'memory_mb_used': 8192}})
    assert placement.passing(each, full, asking)[0] == ['h1']
    aggregate = placement.only('AggregateCoreFilter')
    assert placement.passing(aggregate, table, placement.request())[0] == ['h0', 'h1']
    full = table.with_usage({0: {**table.rows[0], 'vcpus_used': 16}})
    assert placement.passing(aggregate, full, placement.request())[0] == ['h1']


@pytest.mark.skipif(not PAGE.exists(), reason='the documentation is not part of an installed nova')
def test_page_names_the_filters_that_are_always_active():
    text = PAGE.read_text()
    rest = text.partition('always active:')[2].partition('\nCapabilities\n')[0]
    active, _, forced = rest.partition('For a forced host')
    assert 'the filters of server groups' in active
    assert [each.__name__ for each in filters.always()
            if each not in groups.FILTERS and each.__name__ not in active] == []
    assert [each.__name__ for each in filters.always() if each.selects_hosts and each.__name__ not in forced] == []
