"""The three walks on a host of 4+2+2 CPUs: what is stored and what libvirt is told, to the letter."""
import json
from xml.etree import ElementTree as etree

import pytest

from nova.hardware import cpu_topology
from nova.hardware import fit
from nova.hardware import guest_request
from nova.hardware import usage
from nova.objects import numa
from nova.tests import numa_seed
from nova.tests.support.numa_walks import ONE_CELL
from nova.tests.support.numa_walks import STORED_ONE
from nova.tests.support.numa_walks import STORED_TWO
from nova.tests.support.numa_walks import TWO_CELLS
from nova.tests.support.numa_walks import text
from nova.virt.libvirt import capabilities
from nova.virt.libvirt.domain import placement


def flavor(**specs):
    return {'vcpus': 4, 'memory_mb': 1024, 'extra_specs': {'hw:' + name: value for name, value in specs.items()}}


@pytest.mark.parametrize('clusters', [False, True])
def test_the_host_is_stored_in_its_form(clusters):
    found = capabilities.topology(etree.fromstring(numa_seed.capabilities(clusters)))
    stored = numa.dump_host(found)
    for each, expected in zip(stored['nova_object.data']['cells'], numa_seed.STORED['nova_object.data']['cells']):
        extra = set(each['nova_object.data']) - set(expected['nova_object.data'])
        assert extra <= {'socket'}
        for name in extra:
            del each['nova_object.data'][name]
    assert json.dumps(stored) == json.dumps(numa_seed.STORED)


def test_stored_host_topology_is_dumped_unchanged():
    assert json.dumps(numa.dump_host(numa_seed.host())) == json.dumps(numa_seed.STORED)


def test_other_writers_forms_are_read():
    versioned = {'nova_object.version': '1.2', 'nova_object.namespace': 'nova', 'nova_object.changes': ['cells'],
                 **numa_seed.STORED}
    assert numa.load_host(json.dumps(versioned)) == numa_seed.host()


def test_without_topology_the_guest_is_kept_on_the_third_node():
    asked = {'vcpus': 1, 'memory_mb': 512, 'extra_specs': {}}
    assert guest_request.topology(asked, {}) is None
    cell = usage.floating_cell(numa_seed.host(), 1, 512)
    assert text(placement.vcpu(1, usage.shared_cpus(cell))) == '<vcpu placement="static" cpuset="6-7">1</vcpu>'
    assert text(placement.cpu(cpu_topology.choose(1, {}, {}))) == (
        '<cpu>\n  <topology sockets="1" cores="1" threads="1" />\n</cpu>')


@pytest.mark.parametrize('nodes, expected, stored', [('1', ONE_CELL, STORED_ONE), ('2', TWO_CELLS, STORED_TWO)])
@pytest.mark.parametrize('before', [(), ('1',)])
@pytest.mark.parametrize('pack', [False, True])
@pytest.mark.parametrize('ratio', [4.0, 16.0])
def test_random_guests_with_topology_are_placed_as_recorded(nodes, expected, stored, before, pack, ratio):
    """The same whether or not the guest of the walk before is still there."""
    host, limits = numa_seed.host(), fit.Overcommit(cpu_ratio=ratio)
    for other in before:
        there = guest_request.topology(flavor(numa_nodes=other), {})
        host = usage.claim(host, fit.fit(host, there, limits, pack=pack).topology, limits)
    asked = flavor(numa_nodes=nodes)
    guest = fit.fit(host, guest_request.topology(asked, {}), limits, pack=pack).topology
    host = usage.claim(host, guest, limits)
    made = {'vcpu': placement.vcpu(4), 'cputune': placement.cputune(host, guest),
            'cpu': placement.cpu(cpu_topology.choose(4, asked['extra_specs'], {}, guest), guest),
            'numatune': placement.numatune(guest)}
    assert {name: text(element) for name, element in made.items()} == expected
    assert placement.memory_backing(host, guest) is None
    data = numa.dump_guest(guest)
    assert data == {'nova_object.name': 'InstanceNUMATopology',
                    'nova_object.data': {'instance_uuid': None, 'cells': stored}}
    assert list(data['nova_object.data']['cells'][0]['nova_object.data']) == list(stored[0]['nova_object.data'])
