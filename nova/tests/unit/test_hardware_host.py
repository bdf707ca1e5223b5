"""Which of a host's processors and pages its configuration leaves to guests."""
import pytest

from nova import conf as configuration
from nova import exception
from nova.hardware import fit
from nova.hardware import guest_request
from nova.hardware import host as hosts
from nova.hardware import usage
from nova.objects import numa
from nova.tests import numa_seed


def configured(**options):
    return hosts.configured(numa_seed.host(), configuration.new(files=[], **options))


def test_without_options_all_cpus_are_shared_and_pinnable():
    assert configured() == numa_seed.host()
    assert hosts.configured(None, configuration.new(files=[])) is None
    assert hosts.shared_count(configured()) == 8


@pytest.mark.parametrize('shared, dedicated, expected, count', [
    ('0-1,4', '2-3,6-7', [([0, 1], [2, 3]), ([4], []), ([], [6, 7])], 3),
    ('0-3', None, [([0, 1, 2, 3], [])], 4), (None, '4-7', [([], [4, 5]), ([], [6, 7])], 0)])
def test_cpu_sets_partition_the_cells(shared, dedicated, expected, count):
    found = configured(compute__cpu_shared_set=shared, compute__cpu_dedicated_set=dedicated)
    assert [(sorted(cell.cpuset), sorted(cell.pcpuset)) for cell in found.cells] == expected
    assert hosts.shared_count(found) == count


def test_reserved_huge_pages_reduce_the_pages_of_a_cell():
    found = configured(reserved_huge_pages=['node:0,size:4,count:100', 'node:2, size:2MB, count:3'])
    assert [[pages.reserved for pages in cell.mempages] for cell in found.cells] == [[100, 0], [0, 0], [0, 0]]


@pytest.mark.parametrize('options, words', [
    ({'compute__cpu_shared_set': '0-3', 'compute__cpu_dedicated_set': '3-4'}, 'both have 3'),
    ({'compute__cpu_shared_set': 'x'}, 'not a set of CPUs'),
    ({'reserved_huge_pages': ['node:0']}, 'not of the form'), ({'fake__numa_cells': ['4']}, 'not of the form')])
def test_invalid_hardware_options_are_refused(options, words):
    with pytest.raises(exception.InvalidOption, match=words):
        configured(**options)
        hosts.of_cells(options['fake__numa_cells'])


def test_numa_cells_are_parsed_from_text():
    found = hosts.of_cells(['4:3857', ' 2:1969:512'])
    assert [(cell.id, sorted(cell.cpuset), cell.memory) for cell in found.cells] == [
        (0, [0, 1, 2, 3], 3857), (1, [4, 5], 1969)]
    assert found.cells[1].mempages == (numa.Pages(4, 945 * 256), numa.Pages(2048, 512))
    assert fit.free_memory(found.cells[1]) == 945, 'large pages are not for those who ask for none'


def test_unused_topology_has_no_usage():
    asked = guest_request.topology({'vcpus': 2, 'memory_mb': 512, 'extra_specs': {'hw:cpu_policy': 'dedicated'}}, {})
    host = numa_seed.host()
    taken = usage.claim(host, fit.fit(host, asked).topology)
    assert taken != host and hosts.unused(taken) == host


def test_large_pages_count_where_their_file_system_is_mounted():
    """They were reported although hugetlbfs was not mounted: no guest could have them."""
    host = hosts.of_cells(['4:1024:128'])
    meminfo, mounts = 'HugePages_Total:     128\nHugepagesize:       2048 kB\n', 'proc /proc proc rw,nosuid 0 0\n'
    for line, sizes in (('', []), ('hugetlbfs /dev/hugepages hugetlbfs rw,relatime 0 0', [2048]),
                        ('hugetlbfs /dev/hugepages hugetlbfs rw,relatime,pagesize=2M 0 0', [2048]),
                        ('hugetlbfs /mnt/big hugetlbfs rw,pagesize=1024M 0 0', [1048576]),
                        ('none /tmp/hugetlbfs tmpfs rw 0 0', [])):
        usable = hosts.mounted_pages(mounts + line, meminfo)
        assert sorted(usable) == sizes
        found, = hosts.with_pages(host, usable).cells
        assert [pages.size_kb for pages in found.mempages] == [4, *(size for size in sizes if size == 2048)]
