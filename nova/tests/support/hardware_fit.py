"""What tests share with nova/tests/unit/test_hardware_fit.py."""
import dataclasses

from hypothesis import strategies as st

from nova.hardware import fit
from nova.hardware import guest_request
from nova.objects import numa
from nova.objects import pci


def cell(number=0, first=0, count=8, threads=1, memory=4096, **values):
    """A cell of ``count`` CPUs from ``first`` on; siblings are half the cell apart, as they mostly are."""
    cores = count // threads
    siblings = tuple(frozenset(range(first + core, first + count, cores)) for core in range(cores))
    return numa.HostCell(id=number, cpuset=frozenset(range(first, first + count)), memory=memory,
                         siblings=siblings if threads > 1 else (), **values)


def host(*cells):
    return numa.HostTopology(cells)


def guest(vcpus=4, memory_mb=1024, **specs):
    return guest_request.topology({'vcpus': vcpus, 'memory_mb': memory_mb, 'extra_specs': {
        'hw:' + name: value for name, value in specs.items()}}, {})


def pinned(vcpus=4, **specs):
    return guest(vcpus, cpu_policy='dedicated', **specs)


LARGE = (numa.Pages(4, 200000), numa.Pages(2048, 512), numa.Pages(1048576, 2))


def pool(node, count=1):
    return pci.Pool('8086', '154d', node, count, {'dev_type': 'type-PCI'})


def request(policy, count=1):
    return pci.Request(count, ({'vendor_id': '8086', 'product_id': '154d', 'dev_type': 'type-PCI'},), policy)


@st.composite
def hosts(draw):
    cells, first = [], 0
    for number in range(draw(st.integers(1, 4))):
        threads = draw(st.sampled_from([1, 2, 4]))
        count = threads * draw(st.integers(1, 4))
        small, large = draw(st.integers(0, 2000)), draw(st.integers(0, 600))
        made = cell(number, first, count, threads, memory=small + large * 2, mempages=(
            numa.Pages(4, small * 256), numa.Pages(2048, large, reserved=draw(st.integers(0, large)))))
        if draw(st.booleans()):
            shared = frozenset(draw(st.sets(st.sampled_from(sorted(made.cpuset)))))
            made = dataclasses.replace(made, cpuset=shared, pcpuset=made.cpuset - shared)
        cells.append(made)
        first += count
    return host(*cells)


@st.composite
def guests(draw):
    nodes = draw(st.integers(1, 3))
    specs = {'numa_nodes': str(nodes)}
    vcpus = nodes * draw(st.integers(1, 4))
    policy = draw(st.sampled_from(['shared', 'dedicated', 'mixed']))
    if policy == 'mixed' and vcpus > 1:
        specs |= {'cpu_policy': 'mixed', 'cpu_dedicated_mask': '^0'}
        if draw(st.booleans()):
            specs['emulator_threads_policy'] = 'isolate'
    elif policy == 'dedicated':
        specs |= {'cpu_policy': 'dedicated',
                  'cpu_thread_policy': draw(st.sampled_from(['prefer', 'isolate', 'require'])),
                  'emulator_threads_policy': draw(st.sampled_from(['share', 'isolate']))}
    size = draw(st.sampled_from([None, 'small', 'large', 'any', '2MB']))
    if size:
        specs['mem_page_size'] = size
    return guest(vcpus, nodes * draw(st.integers(1, 800)), **specs)


LIMITS = st.builds(fit.Overcommit, cpu_ratio=st.sampled_from([1.0, 1.5, 4.0]), ram_ratio=st.sampled_from([1.0, 1.5]))
