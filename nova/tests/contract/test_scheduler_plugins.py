"""Filters and weighers of others, and another driver, by class path and by entry point."""
import sys
import types

import numpy as np
import pytest

from nova import conf as nova_conf
from nova.scheduler import driver
from nova.scheduler import filters
from nova.scheduler import manager
from nova.scheduler import pipeline
from nova.scheduler import weights
from nova.tests import placement


class RamFilter(filters.BaseHostFilter):
    """The example of the documentation, with its ratio."""

    def host_passes(self, host_state, filter_properties):
        instance_type = filter_properties.get('instance_type')
        requested_ram = instance_type['memory_mb']
        free_ram_mb = host_state.free_ram_mb
        total_usable_ram_mb = host_state.total_usable_ram_mb
        used_ram_mb = total_usable_ram_mb - free_ram_mb
        return total_usable_ram_mb * 1.5 - used_ram_mb >= requested_ram


class MyFilter(filters.BaseHostFilter):
    seen = []

    def host_passes(self, host_state, filter_properties):
        MyFilter.seen.append((host_state, filter_properties))
        return host_state.host != 'h0'


class OfSpec(filters.BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        return spec_obj.project_id == 'p' and host_state.host == 'h0'


class Plain:
    def host_passes(self, host, spec):
        return spec.flavor['name'] == 'm1.small'


class PlainProperties:
    def host_passes(self, host_state, filter_properties):
        return filter_properties['scheduler_hints'] == {'same_host': 'u1', 'group': ['g']}


class Crashing(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        return 1 / (int(host_state.host[1:]) % 2)


class Neighbours(filters.BaseHostFilter):
    needs_instances = True

    def host_passes(self, host_state, filter_properties):
        return 'u1' not in host_state.instances


class Masked(filters.Filter):
    def mask(self, hosts, request):
        return hosts.host == 'h1'


def several():
    return [MyFilter, Plain]


class Even(weights.BaseHostWeigher):
    def weight_multiplier(self):
        return 2.0

    def weight_object(self, host_state, weight_properties):
        assert weight_properties['instance_type']['name'] == 'm1.small'
        return 7 if int(host_state.host[1:]) % 2 == 0 else 3


class AtOnce(weights.BaseHostWeigher):
    def weight_objects(self, weighed_obj_list, weight_properties):
        return [weighed.obj.vcpus_used for weighed in weighed_obj_list]


class Grizzly(weights.BaseHostWeigher):
    """The names that other releases had."""

    def weight_multiplier(self, host_state):
        return 1.0 if host_state.host == 'h0' else 10.0

    def _weigh_object(self, host_state, weight_properties):
        return int(host_state.host[1:])


class CrashingWeigher(weights.BaseHostWeigher):
    def weight_object(self, host_state, weight_properties):
        raise KeyError('x')


class Short(weights.BaseHostWeigher):
    def weight_objects(self, weighed_obj_list, weight_properties):
        return [1]


class Nan(weights.BaseHostWeigher):
    def weight_object(self, host_state, weight_properties):
        return float('nan')


HERE = __name__


def conf(tmp_path, text):
    """A configuration read from a file, as an operator writes it."""
    path = tmp_path / 'nova.conf'
    path.write_text(text)
    return nova_conf.new(files=[str(path)])


def chosen(configuration, table, names=None, **asked):
    found = filters.load(configuration, names or configuration.filter_scheduler.enabled_filters)
    left, removals = placement.narrow(table, placement.request(**asked), found)
    return [table.host[position] for position in left], removals


def test_documented_example_filter_is_loaded(tmp_path):
    MyFilter.seen.clear()
    configuration = conf(tmp_path, f'''
[DEFAULT]
scheduler_driver=nova.scheduler.FilterScheduler
scheduler_available_filters=nova.scheduler.filters.standard_filters
scheduler_available_filters={HERE}.MyFilter
scheduler_default_filters=RamFilter,ComputeFilter,MyFilter
''')
    table = placement.hosts({}, {}, {'disabled': True}, {'memory_mb_used': 8192})
    left, removals = chosen(configuration, table, hints={'same_host': 'u1'}, forced=False)
    assert left == ['h1']
    assert [(removal.filter, removal.hosts) for removal in removals] == [
        ('RamFilter', ('h3',)), ('ComputeFilter', ('h2',)), ('MyFilter', ('h0',))]
    # it is asked about those only that are left
    assert [state.host for state, _ in MyFilter.seen] == ['h0', 'h1']


def test_documented_ram_filter_replaces_the_default(tmp_path):
    configuration = conf(tmp_path, f'''
[DEFAULT]
scheduler_available_filters={HERE}.RamFilter
scheduler_default_filters=RamFilter
''')
    table = placement.hosts({'memory_mb_used': 8192}, {'memory_mb_used': 12288 - 512}, {'memory_mb_used': 12288 - 511})
    assert chosen(configuration, table)[0] == ['h0', 'h1']


def test_plugin_filter_receives_host_state_and_filter_properties():
    MyFilter.seen.clear()
    table = placement.hosts({'vcpus_used': 3, 'running_vms': 2, 'aggregates': placement.aggregates({'k': 'v'}),
                             'metrics': [{'name': 'cpu.percent', 'value': 5}]})
    chosen(placement.conf(), table, [f'{HERE}.MyFilter'], failed_nodes=(('h9', 'n9'),), ignored=('h8',),
           hints={'same_host': 'u1', 'different_host': ['u2']}, extra_specs={'k': 'v'}, zone='nova')
    (state, properties), = MyFilter.seen
    assert (state.host, state.nodename, state.vcpus_used, state.num_instances) == ('h0', 'n0', 3, 2)
    assert (state.free_ram_mb, state.free_disk_mb) == (8192, 102400)
    assert state.aggregates[0]['metadata'] == {'k': 'v'} and state.metrics == {'cpu.percent': 5}
    assert (state.hypervisor_type, state.hypervisor_version, state.host_ip) == ('QEMU', 7002000, '192.0.2.1')
    assert {'context', 'request_spec', 'instance_type', 'scheduler_hints', 'instance_uuids', 'config_options',
            'force_hosts', 'force_nodes', 'ignore_hosts', 'retry', 'project_id', 'os_type', 'limits', 'pci_requests',
            'group_hosts', 'group_policies'} <= properties.keys()
    assert properties['scheduler_hints'] == {'same_host': 'u1', 'different_host': ['u2']}
    assert properties['retry'] == {'num_attempts': 2, 'hosts': [['h9', 'n9']]}
    assert properties['ignore_hosts'] == ['h8'] and properties['force_hosts'] == []
    assert properties['instance_type']['extra_specs'] == {'k': 'v'} and properties['instance_type']['flavorid'] == '1'
    spec = properties['request_spec']
    assert spec['instance_properties']['project_id'] == properties['context'].project_id == 'p'
    assert spec['image']['id'] == placement.IMAGE_ID and spec['instance_type']['memory_mb'] == 512


@pytest.mark.parametrize(('name', 'asked', 'left'), [
    ('OfSpec', {}, ['h0']),
    ('Plain', {}, ['h0', 'h1']),
    ('PlainProperties', {'hints': {'same_host': 'u1', 'group': ['g']}}, ['h0', 'h1']),
    ('Masked', {}, ['h1']),
    ('Neighbours', {'facts': {'Neighbours': {('h0', 'n0', 'u1'), ('h1', 'n1', 'u2')}}}, ['h1']),
])
def test_plugin_may_be_a_class_function_or_instance(name, asked, left):
    assert chosen(placement.conf(), placement.hosts({}, {}), [f'{HERE}.{name}'], **asked)[0] == left


def test_a_function_may_give_several_classes(tmp_path):
    configuration = conf(tmp_path, f'[filter_scheduler]\navailable_filters={HERE}.several\n'
                                   'enabled_filters=MyFilter,Plain\n')
    names = [each.name for each in filters.load(configuration, configuration.filter_scheduler.enabled_filters)]
    assert names[-2:] == ['MyFilter', 'Plain']


def test_a_plugin_that_fails_lets_the_host_not_pass(caplog):
    left, removals = chosen(placement.conf(), placement.hosts({}, {}, {}), [f'{HERE}.Crashing'])
    assert left == ['h1']
    assert (removals[-1].filter, removals[-1].reason) == ('Crashing', 'do not pass Crashing')
    assert 'Filter Crashing failed on host h0: division by zero' in caplog.text
    assert 'Filter Crashing failed on 2 of 3 hosts' in caplog.text


@pytest.mark.parametrize(('name', 'expected'), [
    ('Even', [2, 0, 2]), ('AtOnce', [0, 0.5, 1]), ('Grizzly', [0, 5, 10]),
    # what fails counts for nothing
    ('CrashingWeigher', [0, 0, 0]), ('Short', [0, 0, 0]), ('Nan', [0, 0, 0]),
])
def test_plugin_weigher_orders_hosts(tmp_path, name, expected):
    configuration = conf(tmp_path, f'[DEFAULT]\nscheduler_weight_classes={HERE}.{name}\n')
    table = pipeline.mutable_view(placement.hosts({}, {'vcpus_used': 1}, {'vcpus_used': 2}), placement.request())
    found = weights.load(configuration)
    assert [each.name for each in found] == [name]
    assert weights.weigh(table, np.arange(3), found).tolist() == pytest.approx(expected)


@pytest.fixture
def package(tmp_path):
    """A distribution of somebody else, with entry points."""
    folder = tmp_path / 'site'
    info = folder / 'placement_plugins-1.dist-info'
    info.mkdir(parents=True)
    (info / 'METADATA').write_text('Metadata-Version: 2.1\nName: placement-plugins\nVersion: 1\n')
    (info / 'entry_points.txt').write_text(f'''
[nova.scheduler.filters]
even = {HERE}:Masked
[nova.scheduler.weights]
even = {HERE}:Even
[nova.scheduler.driver]
mine = {HERE}:Mine
half = {HERE}:Half
''')
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))


class Mine(manager.SchedulerManager):
    def __init__(self, conf, api_db, cells):
        self.made_with = (api_db, cells)


class Half:
    def select_destinations(self, ctx, spec, instance_uuids):
        return []


def test_plugins_are_loaded_from_entry_points(package):
    assert chosen(placement.conf(), placement.hosts({}, {}), ['even'])[0] == ['h1']
    assert chosen(placement.conf(filter_scheduler__available_filters=['even']), placement.hosts({}, {}),
                  ['Masked'])[0] == ['h1']
    assert [each.name for each in weights.load(placement.conf(filter_scheduler__weight_classes=['even']))] == ['Even']
    with pytest.raises(ValueError, match='filter odd does not exist; available are .*TypeAffinityFilter, even'):
        filters.load(placement.conf(), ['odd'])


def test_scheduler_driver_is_loaded_by_name_or_class_path(package):
    databases = types.SimpleNamespace(), types.SimpleNamespace()
    for name in ('mine', f'{HERE}.Mine'):
        assert driver.load(placement.conf(scheduler__driver=name), *databases).made_with == databases
    with pytest.raises(ValueError, match='driver: half is not a class with the methods .*select_move') as caught:
        driver.load(placement.conf(scheduler__driver='half'), *databases)
    assert 'select_destinations' not in str(caught.value)
    for name in ('chance', 'nova.nowhere.Driver'):
        with pytest.raises(ValueError, match=f'{name} could not be loaded .* Use one of filter_scheduler, half, mine'):
            driver.load(placement.conf(scheduler__driver=name), *databases)


@pytest.mark.parametrize(('available', 'enabled', 'text'), [
    ([], 'RamFiler', 'enabled_filters: filter RamFiler does not exist; available are AggregateCoreFilter, '),
    ([], 'nova.nowhere.Filter', 'enabled_filters: nova.nowhere.Filter could not be loaded '),
    (['nova.nowhere.Filter'], 'RamFilter', 'available_filters: nova.nowhere.Filter could not be loaded '),
    ([f'{HERE}.Nobody'], 'RamFilter', f'{HERE}.Nobody could not be loaded (Class Nobody cannot be found). Use one of '),
    ([f'{HERE}.MyFilter'], 'RamFilter', 'enabled_filters: filter RamFilter does not exist; available are MyFilter.'),
    ([], 'collections.OrderedDict', 'has no method host_passes'),
])
def test_a_name_that_is_not_there_is_refused_at_the_start(available, enabled, text):
    options = {'filter_scheduler__available_filters': available} if available else {}
    with pytest.raises(ValueError) as caught:
        filters.load(placement.conf(**options), [enabled])
    assert text in str(caught.value)
