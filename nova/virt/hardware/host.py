"""What of a host's cells is for guests: the options that keep CPUs and pages for a purpose."""
import dataclasses
import re

from nova.virt.hardware import cpus

_RESERVED = re.compile(r'node:([0-9]{1,4}),\s*size:([^,]+),\s*count:([0-9]{1,12})\Z')


def reserved_pages(values):
    """{cell id: {KiB: pages}} of ``reserved_huge_pages``: each ``node:0,size:2048,count:64``, the size in KiB or with
    a unit.

    :raises ValueError: one is not of the form
    """
    found = {}
    for value in values:
        match = _RESERVED.match(value.strip())
        size = cpus.page_size(match[2]) if match else None
        if not isinstance(size, int):
            raise ValueError(f'reserved_huge_pages {value!r} is not of the form node:0,size:2048,count:64')
        found.setdefault(int(match[1]), {})[size] = int(match[3])
    return found


def partition(host, shared=None, dedicated=None, reserved=None):
    """The HostTopology with CPUs and pages parted. Cells that have no CPU for guests are left out.

    :param shared: CPUs for guests that share (``cpu_shared_set``), dedicated: for pinning (``cpu_dedicated_set``);
                   None: not given. With neither, all CPUs are for both; with one of them, for its purpose alone.
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
