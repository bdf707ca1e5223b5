"""Real QEMU guests with pinned CPUs and a NUMA node, on the machine's own topology; needs what test_libvirt.py does."""
import os
import subprocess
from xml.etree import ElementTree as etree

import pytest

from nova import exception
from nova.hardware import cpus
from nova.hardware import fit
from nova.hardware import guest_request
from nova.objects import numa
from nova.tests import long_runs
from nova.tests.support import libvirt as base
from nova.virt import driver as contract

pytestmark = base.pytestmark
libvirt = base.libvirt
state_path, module_rig, rig = base.state_path, base.module_rig, base.rig
COUNT = os.cpu_count() or 1


@pytest.fixture
def instance(rig):
    made = base.make_instance(vcpus=min(2, COUNT), memory_mb=128)
    yield made
    rig.driver.destroy(None, made, [])


def place(rig, instance, **specs):
    """Give it the topology that a scheduler would choose on this machine."""
    flavor = {'name': 'numa', 'swap': 0, 'vcpus': instance.vcpus, 'memory_mb': instance.memory_mb,
              'extra_specs': {'hw:' + name: value for name, value in specs.items()}}
    found = fit.fit(numa.load_host(rig.driver.resources()[0].numa_topology), guest_request.topology(flavor, {}))
    assert found.topology, found.reason
    instance.flavor, instance.numa_topology = flavor, numa.text_of_guest(found.topology)
    return found.topology


def virsh(*arguments):
    return subprocess.check_output(['virsh', '-c', base.URI, *arguments], text=True)


def affinity(instance):
    """[CPUs of the host that each vCPU may run on], as libvirt says."""
    lines = virsh('vcpupin', instance.uuid).splitlines()[2:]
    return [cpus.parse(line.split()[1]) for line in lines if line.strip()]


def threads(instance):
    """The same, as the kernel says of QEMU's threads."""
    found = {}
    for name in virsh('qemu-monitor-command', instance.uuid, '--hmp', 'info cpus').split('* ')[-1].splitlines():
        if 'thread_id=' in name:
            number = int(name.split('#')[1].split(':')[0])
            found[number] = frozenset(os.sched_getaffinity(int(name.split('thread_id=')[1].split()[0])))
    return [found[number] for number in sorted(found)]


def domain(instance):
    return etree.fromstring(virsh('dumpxml', instance.uuid))


def test_the_host_says_its_nodes(rig):
    found, = rig.driver.resources()
    cells = numa.load_host(found.numa_topology).cells
    assert frozenset().union(*(cell.cpuset for cell in cells)) == frozenset(range(COUNT))
    assert found.vcpus == COUNT and all(cell.memory and cell.mempages for cell in cells)


def test_a_pinned_guest_runs_on_its_cpus(rig, instance):
    topology = place(rig, instance, cpu_policy='dedicated')
    base.spawn(rig, instance)
    pinning = topology.cells[0].cpu_pinning
    wished = [frozenset({pinning[number]}) for number in range(instance.vcpus)]
    assert affinity(instance) == wished and len(set(wished)) == instance.vcpus
    assert threads(instance) == wished
    root = domain(instance)
    assert root.find('./numatune/memory').get('mode') == 'strict'
    assert [cell.get('cpus') for cell in root.findall('./cpu/numa/cell')] == [cpus.show(range(instance.vcpus))]
    rig.booted(instance)
    rig.type(instance, "grep -c ^processor /proc/cpuinfo | sed 's/^/cpus=/'")
    base.wait_for(lambda: f'cpus={instance.vcpus}'.encode() in rig.console(instance), base.BOOT_SECONDS,
                  'the guest to count')


@long_runs.only
def test_a_guest_with_a_node_stays_on_it(rig, instance):
    topology = place(rig, instance, numa_nodes='1')
    base.spawn(rig, instance)
    cell = numa.load_host(rig.driver.resources()[0].numa_topology).cell(topology.cells[0].id)
    assert affinity(instance) == [cell.cpuset] * instance.vcpus
    memnode = domain(instance).find('./numatune/memnode')
    assert (memnode.get('cellid'), memnode.get('nodeset')) == ('0', str(cell.id))
    rig.booted(instance)


@long_runs.only
def test_guest_is_pinned_again_after_a_power_cycle_and_a_resize(rig, instance):
    place(rig, instance, cpu_policy='dedicated')
    base.spawn(rig, instance)
    before = affinity(instance)
    rig.driver.power_off(instance)
    rig.driver.power_on(None, instance, [])
    assert affinity(instance) == before
    rig.driver.reboot(None, instance, [], hard=True)
    assert affinity(instance) == before
    old = instance.numa_topology
    sent = rig.driver.features[contract.Resize].send_guest(None, instance, rig.driver.host, [], 0)
    place(rig, instance, numa_nodes='1')
    rig.driver.features[contract.Resize].finish_migration(None, instance, sent,
                                                          contract.SpawnRequest(image=rig.image, network_info=[]), True)
    assert affinity(instance) != before or COUNT == 1
    instance.numa_topology = old
    rig.driver.features[contract.Resize].finish_revert_migration(None, instance, [], [], True)
    assert affinity(instance) == before


@long_runs.only
def test_other_guests_do_not_use_pinned_cpus(state_path, rig, instance):
    """With one CPU for sharing and the rest for pinning, guests without a topology get the one."""
    if COUNT < 2:
        pytest.skip('this machine has one CPU')
    made = base.make_driver(state_path / 'parted', rig.images, compute__cpu_shared_set='0',
                            compute__cpu_dedicated_set=f'1-{COUNT - 1}')
    (state_path / 'parted').mkdir(mode=0o711)
    made.init_host()
    plain, pinned = base.make_instance(memory_mb=64), base.make_instance(memory_mb=64)
    parted = type('Parted', (), {'driver': made, 'image': rig.image})
    try:
        assert made.resources()[0].vcpus == 1
        base.spawn(parted, plain)
        assert affinity(plain) == [{0}]
        place(parted, pinned, cpu_policy='dedicated')
        base.spawn(parted, pinned)
        assert affinity(pinned) == [{1}]
        assert domain(plain).find('vcpu').get('cpuset') == '0'
    finally:
        for each in (plain, pinned):
            made.destroy(None, each, [])
        made.stop()


def test_guest_does_not_start_if_its_host_lost_the_cpus(rig, instance):
    place(rig, instance, cpu_policy='dedicated')
    base.spawn(rig, instance)
    rig.driver.power_off(instance)
    whole, rig.driver.platform.topology = rig.driver.platform.topology, numa.HostTopology(())
    try:
        with pytest.raises(exception.VirtError, match='NUMA node'):
            rig.driver.power_on(None, instance, [])
    finally:
        rig.driver.platform.topology = whole
    rig.driver.power_on(None, instance, [])
