"""Requests of one batch that ask for the same: each gets the host that it gets when all are looked at for it."""
import functools
import random
import uuid as uuidlib

import pytest

from nova import conf as nova_conf
from nova import exception
from nova import objects
from nova import utils
from nova.scheduler import filters
from nova.scheduler import host_view
from nova.scheduler import pipeline
from nova.scheduler import placement_request
from nova.scheduler import request_classes
from nova.scheduler import weights

AGGREGATES = [{'id': 1, 'uuid': str(uuidlib.UUID(int=1)), 'name': 'a', 'metadata': {'ram_weight_multiplier': '3.5'}}]


def row(number, dice, kind):
    used = {'equal': lambda: 0, 'steps': lambda: dice.randrange(4) * 512, 'any': lambda: dice.randrange(7000),
            'full': lambda: 8192 - dice.randrange(4) * 512}[kind]
    return {'id': number + 1, 'host': f'h{number}', 'node': f'n{number}', 'change_number': 1, 'cell': 'c',
            'usage_change_number': 1,
            'vcpus': 8, 'memory_mb': 8192, 'local_gb': 100, 'reserved_memory_mb': 0, 'reserved_disk_gb': 0,
            'cpu_allocation_ratio': 2.0, 'ram_allocation_ratio': 1.0, 'disk_allocation_ratio': 1.0,
            'vcpus_used': 0 if kind == 'equal' else dice.randrange(16), 'memory_mb_used': used(), 'local_gb_used': 0,
            'running_vms': 0, 'io_ops': 0 if kind == 'equal' else dice.randrange(3), 'failed_builds': 0,
            'capabilities': {}, 'hypervisor_type': 'fake', 'hypervisor_version': 1 + number % 2,
            'availability_zone': f'zone{number % 2}', 'disabled': False, 'forced_down': False,
            'last_seen_at': utils.utcnow(), 'metrics': None, 'pci_stats': None,
            'aggregates': AGGREGATES if kind == 'any' and number % 3 == 0 else []}


def spec(uuid, zone, **values):
    return objects.RequestSpec(**{**dict(
        instance_uuid=uuid, project_id='p', user_id='u', flavor={'flavor_id': '1', 'extra_specs': {}},
        image={'id': 'i', 'properties': {}}, availability_zone=zone, requested_networks='none', security_groups=[],
        injected_files=[], admin_password=None, block_devices=[], hints={}, force_host=None, force_node=None,
        requested_host=None, requested_node=None, retry_hosts=[], num_instances=1), **values})


def requests(dice, count):
    """Of a few shapes, with and without a zone; one shape lacks room soon."""
    small = {'vcpus': 1, 'memory_mb': 512, 'local_gb': 1}
    shapes = [(small, None), (small, 'zone1'), ({'vcpus': 4, 'memory_mb': 2048, 'local_gb': 20}, None),
              ({'vcpus': 0, 'memory_mb': 64, 'local_gb': 0}, None)]
    for _ in range(count):
        asked, zone = dice.choice(shapes)
        uuid = str(uuidlib.UUID(int=dice.getrandbits(128)))
        yield uuid, placement_request.Request(dict(asked), zone=zone, spec=spec(uuid, zone))


@functools.cache
def loaded():
    conf = nova_conf.new(files=[])
    return filters.load(conf, conf.filter_scheduler.enabled_filters), weights.load(conf)


@pytest.mark.parametrize('count', [1, 7, 60, 400])
@pytest.mark.parametrize('kind', ['equal', 'steps', 'any', 'full'])
@pytest.mark.parametrize('most', [1, 3])
def test_a_batch_decides_as_one_after_the_other(count, kind, most):
    dice = random.Random(f'{count} {kind}')
    hosts = host_view.Hosts([row(number, dice, kind) for number in range(count)])
    using, weighers = loaded()
    together, single, shapes, placed = hosts.copy(), hosts.copy(), [], 0
    for uuid, request in requests(dice, 100):
        shape = next((each for each in shapes if each.includes(request)), None)
        if shape is None:
            shape = request_classes.RequestClass(together, request, using, weighers, pipeline.SPREAD, most)
            shapes.append(shape)
        found = shape.select(uuid)
        try:
            expected, = pipeline.choose(single, request, using, weighers, [uuid], enough_hosts=16)
        except exception.NoValidHost:
            assert isinstance(found, pipeline.NoCandidates)
            continue
        ranking, = found
        assert list(ranking) == list(expected[:most])
        together.consume(ranking[0], request.resources)
        single.consume(expected[0], request.resources)
        placed += 1
    assert len(shapes) == 4 and (placed == 100 if count == 400 and kind != 'full' else placed < 100 or count > 7)


def test_most_of_the_time_the_hosts_are_looked_at_once(monkeypatch):
    dice = random.Random(1)
    hosts = host_view.Hosts([row(number, dice, 'steps') for number in range(400)])
    using, weighers = loaded()
    looks, survivors = [], pipeline.survivors
    monkeypatch.setattr(pipeline, 'survivors', lambda *args: looks.append(1) or survivors(*args))
    shape = None
    for _ in range(64):
        uuid = str(uuidlib.UUID(int=dice.getrandbits(128)))
        request = placement_request.Request({'vcpus': 1, 'memory_mb': 64, 'local_gb': 0}, spec=spec(uuid, None))
        shape = shape or request_classes.RequestClass(hosts, request, using, weighers, pipeline.SPREAD, 1)
        hosts.consume(shape.select(uuid)[0][0], request.resources)
    assert len(looks) < 32


@pytest.mark.parametrize('values', [
    {'image': {'id': 'j', 'properties': {}}}, {'project_id': 'q'}, {'user_id': 'v'},
    {'flavor': {'flavor_id': '1', 'extra_specs': {'trait:CUSTOM_A': 'required'}}}])
def test_values_that_filters_read_make_a_different_request_class(values):
    hosts, asked = host_view.Hosts([row(0, random.Random(1), 'equal')]), {'vcpus': 1, 'memory_mb': 1, 'local_gb': 1}
    uuid, other = str(uuidlib.uuid4()), str(uuidlib.uuid4())
    shape = request_classes.RequestClass(hosts, placement_request.Request(asked, spec=spec(uuid, None)), (), (),
                                         pipeline.SPREAD, 1)
    assert shape.includes(placement_request.Request(dict(asked), spec=spec(other, None)))
    assert not shape.includes(placement_request.Request(asked, spec=spec(other, None, **values)))
    assert not shape.includes(placement_request.Request({**asked, 'vcpus': 2}, spec=spec(other, None)))
    assert not shape.includes(placement_request.Request(asked, zone='z', spec=spec(other, None)))


def test_plugins_and_lookups_are_excluded_from_request_classes():
    class Own(filters.Filter):
        def mask(self, hosts, request):
            return hosts.all_pass

    using, weighers = loaded()
    assert request_classes.all_builtin(using, weighers)
    assert not request_classes.all_builtin([*using, Own(None)], weighers)
    uuid = str(uuidlib.uuid4())
    asked = {'vcpus': 1, 'memory_mb': 1, 'local_gb': 1}
    assert request_classes.simple(placement_request.Request(asked, spec=spec(uuid, None)), [uuid])
    assert not request_classes.simple(placement_request.Request(asked, spec=spec(uuid, None)), [uuid, uuid])
    assert not request_classes.simple(
        placement_request.Request(asked, spec=spec(uuid, None), facts={'IoOpsFilter': frozenset()}), [uuid])
    assert not request_classes.simple(
        placement_request.Request(asked, spec=spec(uuid, None, hints={'query': ['x']})), [uuid])
