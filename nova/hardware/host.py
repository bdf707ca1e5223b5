"""NUMA topology of a host, restricted by the options that reserve CPUs and memory pages."""
import dataclasses
import re
from collections.abc import Collection, Iterable

from oslo_config import cfg
from oslo_utils import strutils

from nova import exception
from nova.hardware import cpus
from nova.objects import numa

_CELL = re.compile(r'([1-9][0-9]{0,3}):([1-9][0-9]{0,9})(?::([0-9]{1,9}))?\Z')
_RESERVED = re.compile(r'node:([0-9]{1,4}),\s*size:([^,]+),\s*count:([0-9]{1,12})\Z')


def reserved_pages(values: Iterable[str]) -> dict[int, dict[int, int]]:
    """Parse ``reserved_huge_pages`` (``node:0,size:2048,count:64``; size in KiB or with a unit).

    :returns: {cell id: {KiB: pages}}

    :raises ValueError: a value is malformed
    """
    found: dict[int, dict[int, int]] = {}
    for value in values:
        match = _RESERVED.match(value.strip())
        size = cpus.page_size(match[2]) if match else None
        if not match or not isinstance(size, int):
            raise ValueError(f'reserved_huge_pages {value!r} is not of the form node:0,size:2048,count:64')
        found.setdefault(int(match[1]), {})[size] = int(match[3])
    return found


def configured(host: numa.HostTopology | None, conf: cfg.ConfigOpts) -> numa.HostTopology | None:
    """Return the HostTopology restricted by the options, or None if the host has no topology.

    :raises InvalidOption: an option is malformed, or options contradict each other
    """
    if host is None:
        return None
    try:
        sets = {name: None if not conf.compute[name] else cpus.parse(conf.compute[name])
                for name in ('cpu_shared_set', 'cpu_dedicated_set')}
        return partition(host, sets['cpu_shared_set'], sets['cpu_dedicated_set'],
                         reserved_pages(conf.reserved_huge_pages))
    except ValueError as error:
        raise exception.InvalidOption(str(error)) from None


def shared_count(host: numa.HostTopology) -> int:
    """Return the number of shared CPUs."""
    return sum(len(cell.cpuset) for cell in host.cells)


def with_pages(host: numa.HostTopology, usable: Collection[int]) -> numa.HostTopology:
    """Return the HostTopology without large pages of unusable sizes.

    :param usable: sizes of large pages in KiB
    """
    def kept(cell: numa.HostCell) -> tuple[numa.Pages, ...]:
        pages = sorted(cell.mempages, key=lambda each: each.size_kb)
        return (*pages[:1], *(each for each in pages[1:] if each.size_kb in usable))
    return dataclasses.replace(host, cells=tuple(dataclasses.replace(cell, mempages=kept(cell)) for cell in host.cells))


def mounted_pages(mounts: str, meminfo: str) -> frozenset[int]:
    """Return the sizes in KiB of large pages that a hypervisor can use, from mounted hugetlbfs file systems.

    :param mounts, meminfo: texts of /proc/mounts and /proc/meminfo; the latter has the default size
    """
    default = re.search(r'^Hugepagesize:\s+([0-9]+) kB$', meminfo, re.MULTILINE)
    found = set()
    for line in mounts.splitlines():
        _device, _path, kind, options, *_rest = line.split()
        if kind == 'hugetlbfs':
            named = re.search(r'(?:^|,)pagesize=([0-9]+[KMG]?)(?:,|$)', options)
            found.add(strutils.string_to_bytes(named[1] + 'B', return_int=True) // 1024 if named
                      else int(default[1]) if default else 0)
    return frozenset(found)


def unused(host: numa.HostTopology) -> numa.HostTopology:
    """Return the HostTopology as if the host had no guests."""
    return dataclasses.replace(host, cells=tuple(dataclasses.replace(
        cell, cpu_usage=0, memory_usage=0, pinned_cpus=frozenset(),
        mempages=tuple(dataclasses.replace(pages, used=0) for pages in cell.mempages)) for cell in host.cells))


def of_cells(texts: Iterable[str]) -> numa.HostTopology:
    """Parse a HostTopology; a cell is ``CPUs:MiB`` or ``CPUs:MiB:pages of 2 MiB``. CPUs are numbered across cells.

    :raises InvalidOption: a text is malformed
    """
    cells, first = [], 0
    for number, text in enumerate(texts):
        match = _CELL.match(text.strip())
        if not match:
            raise exception.InvalidOption(f'numa_cells: {text!r} is not of the form CPUs:MiB or CPUs:MiB:large pages')
        count, memory, large = (int(part or 0) for part in match.groups())
        large = min(large, memory // 2)
        cells.append(numa.HostCell(
            id=number, cpuset=frozenset(range(first, first + count)), memory=memory,
            mempages=(numa.Pages(4, (memory - 2 * large) * 256), numa.Pages(2048, large))))
        first += count
    return numa.HostTopology(tuple(cells))


def partition(host: numa.HostTopology, shared: frozenset[int] | None = None, dedicated: frozenset[int] | None = None,
              reserved: dict[int, dict[int, int]] | None = None) -> numa.HostTopology:
    """Return the HostTopology with CPUs divided into shared and dedicated ones, and with reserved pages.

    Cells without CPUs for guests are omitted.

    :param shared: CPUs for guests without pinning (``cpu_shared_set``), or None
    :param dedicated: CPUs for pinning (``cpu_dedicated_set``), or None. If both sets are None, all CPUs serve both
        purposes. If only one set is None, the host has no CPUs for the guests of this set.
    :param reserved: see reserved_pages()
    :raises ValueError: the sets have a CPU in common
    """
    if shared and dedicated and shared & dedicated:
        raise ValueError(f'cpu_shared_set and cpu_dedicated_set both have {cpus.show(shared & dedicated)}')
    cells = []
    for cell in host.cells:
        cell = dataclasses.replace(cell, mempages=tuple(
            dataclasses.replace(pages, reserved=min(pages.total, (reserved or {}).get(cell.id, {}).get(
                pages.size_kb, 0))) for pages in cell.mempages))
        if shared is not None or dedicated is not None:
            cell = dataclasses.replace(cell, cpuset=cell.cpuset & (shared or frozenset()),
                                       pcpuset=cell.cpuset & (dedicated or frozenset()))
        if cell.cpus:
            siblings = (group & cell.cpus for group in cell.siblings)
            cells.append(dataclasses.replace(cell, siblings=tuple(group for group in siblings if len(group) > 1)))
    return dataclasses.replace(host, cells=tuple(cells))
