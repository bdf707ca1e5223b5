"""Every weigher does what its documentation says; the sum, the multipliers and what aggregates override."""
import numpy as np
import pytest

from nova.db.placement import server_groups
from nova.scheduler import pipeline
from nova.scheduler import placement_request
from nova.scheduler import weights
from nova.tests import placement
from nova.tests.placement import aggregates

LAZY = {f'filter_scheduler__{option}': 0.0 for _, option, _ in weights.WEIGHERS} | {'metrics__weight_multiplier': 0.0}


def weighed(table, request=None, **options):
    found = weights.load(placement.conf(**{**LAZY, **options}))
    view = pipeline.mutable_view(table, request or placement.request())
    return weights.weigh(view, np.arange(len(view)), found).tolist()


# option of the multiplier, columns of three hosts, what they weigh at the multiplier 1
CASES = [
    # "sorted with the largest weight winning"
    ('ram_weight_multiplier', [{}, {'memory_mb_used': 4096}, {'memory_mb_used': 8192}], [1, 0.5, 0]),
    ('cpu_weight_multiplier', [{'vcpus_used': 16}, {'vcpus_used': 12}, {}], [0, 0.25, 1]),
    ('disk_weight_multiplier', [{'local_gb_used': 100}, {'local_gb_used': 50}, {}], [0, 0.5, 1]),
    # "If the multiplier is positive, the weigher prefer choosing heavy workload compute hosts"
    ('io_ops_weight_multiplier', [{}, {'io_ops': 2}, {'io_ops': 8}], [0, 0.25, 1]),
    ('build_failure_weight_multiplier', [{}, {'failed_builds': 1}, {'failed_builds': 2}], [1, 0.5, 0]),
    ('hypervisor_version_weight_multiplier',
     [{'hypervisor_version': 7000000}, {'hypervisor_version': 8000000}, {'hypervisor_version': 9000000}], [0, 0.5, 1]),
]


@pytest.mark.parametrize(('option', 'changes', 'expected'), CASES)
def test_weigher_returns_the_documented_weights(option, changes, expected):
    table = placement.hosts(*changes)
    assert weighed(table, **{f'filter_scheduler__{option}': 1.0}) == pytest.approx(expected)
    if option != 'build_failure_weight_multiplier':
        expected = [-2 * each for each in expected]
        assert weighed(table, **{f'filter_scheduler__{option}': -2.0}) == pytest.approx(expected)
    # equal hosts weigh nothing
    assert weighed(placement.hosts({}, {}), **{f'filter_scheduler__{option}': 5.0}) == [0, 0]


@pytest.mark.parametrize(('policy', 'option', 'expected'), [
    (server_groups.SOFT_AFFINITY, 'soft_affinity_weight_multiplier', [0, 0.5, 1]),
    (server_groups.SOFT_ANTI_AFFINITY, 'soft_anti_affinity_weight_multiplier', [1, 0.5, 0]),
])
def test_soft_server_groups_weigh_hosts_by_members(policy, option, expected):
    group = placement_request.Group('g', frozenset([policy]), 1, None, {'h1': 1, 'h2': 2})
    table = placement.hosts({}, {}, {})
    options = {f'filter_scheduler__{option}': 1.0}
    assert weighed(table, placement.request(group=group), **options) == pytest.approx(expected)
    assert weighed(table, **options) == [0, 0, 0]


def measured(**values):
    return {'metrics': [{'name': name.replace('_', '.'), 'value': value} for name, value in values.items()]}


def test_metrics_weigher_sums_metrics_by_ratio():
    """"The final weight would be name1.value * 1.0 + name2.value * -1.0." """
    table = placement.hosts(measured(name1=10, name2=0), measured(name1=10, name2=5), measured(name1=0, name2=0))
    options = {'metrics__weight_multiplier': 1.0, 'metrics__weight_setting': ['name1=1.0', 'name2=-1.0']}
    assert weighed(table, **options) == pytest.approx([1, 0.5, 0])
    missing = placement.hosts(measured(name1=10, name2=0), measured(name1=10), {})
    assert weighed(missing, **options) == pytest.approx([1, 0, 0])
    assert weighed(missing, **{**options, 'metrics__weight_of_unavailable': 20.0}) == pytest.approx([0, 1, 1])
    assert weighed(table, metrics__weight_multiplier=1.0) == [0, 0, 0]


def test_weight_is_the_sum_of_normalized_weights_times_multipliers():
    """weight = w1_multiplier * norm(w1) + w2_multiplier * norm(w2) + …"""
    table = placement.hosts({'memory_mb_used': 8192}, {'vcpus_used': 16}, {})
    assert weighed(table, filter_scheduler__ram_weight_multiplier=2.0,
                   filter_scheduler__cpu_weight_multiplier=0.5) == pytest.approx([0.5, 2, 2.5])


def test_aggregates_override_multipliers():
    """The smallest of several values; one that is no number does not count."""
    table = placement.hosts(
        {}, {'aggregates': aggregates({'ram_weight_multiplier': '3'}, {'ram_weight_multiplier': '-2'})},
        {'aggregates': aggregates({'ram_weight_multiplier': 'x'})}, {'memory_mb_used': 8192})
    assert weighed(table, filter_scheduler__ram_weight_multiplier=1.0) == pytest.approx([1, -2, 1, 0])
    # also one that does not count elsewhere
    assert weighed(table) == pytest.approx([0, -2, 0, 0])
    table = placement.hosts({**measured(cpu=1), 'aggregates': aggregates({'metrics_weight_multiplier': '5'})},
                            measured(cpu=0))
    assert weighed(table, metrics__weight_setting=['cpu=1.0']) == pytest.approx([5, 0])


def test_a_host_whose_builds_fail_is_chosen_last():
    table = placement.hosts({'failed_builds': 1}, {'memory_mb_used': 7000, 'vcpus_used': 15, 'local_gb_used': 90})
    found = weights.load(placement.conf())
    view = pipeline.mutable_view(table, placement.request())
    assert list(pipeline.rank(view, np.arange(2), found, '11111111-2222-3333-4444-555555555555')) == [1, 0]


def test_weight_classes_are_selected_by_name():
    def names(*classes):
        return [each.name for each in weights.load(placement.conf(filter_scheduler__weight_classes=list(classes)))]
    everything = names('nova.scheduler.weights.all_weighers')
    assert everything == [*(name for name, *_ in weights.WEIGHERS), weights.METRICS]
    assert names('RAMWeigher', 'nova.scheduler.weights.cpu.CPUWeigher') == ['RAMWeigher', 'CPUWeigher']
    assert names() == []
    for name in ('RAMWieger', 'nova.nowhere.Weigher', 'nova.scheduler.weights.Nope'):
        with pytest.raises(ValueError, match=f'weight_classes: {name} could not be loaded .*RAMWeigher') as caught:
            names(name)
        assert 'nova.scheduler.weights.all_weighers' in str(caught.value)
    with pytest.raises(ValueError, match='is not a subclass of nova.scheduler.weights.BaseHostWeigher'):
        names('collections.OrderedDict')


def test_every_weigher_has_a_case():
    tested = {option for option, *_ in CASES} | {
        'soft_affinity_weight_multiplier', 'soft_anti_affinity_weight_multiplier', 'pci_weight_multiplier'}
    assert tested == {option for _, option, _ in weights.WEIGHERS}
