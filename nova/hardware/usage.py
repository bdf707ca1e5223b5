"""Usage of a host's cells by guests: claim, release and recount."""
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from nova.hardware import fit
from nova.hardware import host as hosts
from nova.hardware import pinning
from nova.objects import numa


class Overcommitted(ValueError):
    """A guest would take unavailable resources, or release resources that it does not have."""


def claim(host: numa.HostTopology, guest: numa.GuestTopology, limits: fit.Overcommit = fit.Overcommit()
          ) -> numa.HostTopology:
    """Return the HostTopology with the resources of the pinned guest added to its usage.

    :raises Overcommitted: the guest no longer fits, because another guest was placed first
    """
    return _changed(host, guest, 1, limits)


def free(host: numa.HostTopology, guest: numa.GuestTopology) -> numa.HostTopology:
    """Return the HostTopology with the resources of the guest released.

    :raises Overcommitted: the guest does not have these resources
    """
    return _changed(host, guest, -1, None)


def recount(host: numa.HostTopology, guests: Iterable[numa.GuestTopology]) -> numa.HostTopology:
    """Return the HostTopology with a usage that counts exactly these pinned guests, for an audit.

    Resources beyond the capacity are counted too, because the guests run. Guest cells without a host cell are ignored.
    """
    empty = hosts.unused(host)
    known = {cell.id for cell in host.cells}
    for guest in guests:
        here = tuple(part for part in guest.cells if part.id in known)
        empty = _changed(empty, dataclasses.replace(guest, cells=here), 1, None)
    return empty


def floating_cell(host: numa.HostTopology, vcpus: int, memory_mb: int,
                  floating: Mapping[int, tuple[int, int]] | None = None,
                  limits: fit.Overcommit = fit.Overcommit()) -> numa.HostCell | None:
    """Return the cell to which a guest without topology is confined.

    Return None if no cell has room for the guest; it then runs on all shared CPUs. The usage in ``host`` excludes
    guests without topology. The cell with the lowest CPU usage is chosen; among equals the smallest, which leaves large
    cells for guests with many CPUs.

    :param floating: {cell id: (vCPUs, MiB)} of the guests in each cell
    :param limits: overcommit ratio of memory; the vCPUs must not outnumber the shared CPUs of the cell
    """
    taken = {cell.id: (floating or {}).get(cell.id, (0, 0)) for cell in host.cells}
    room = {cell.id: min(cell.memory, fit.free_memory(cell, limits) - taken[cell.id][1]) for cell in host.cells}
    usable = [cell for cell in host.cells if vcpus <= len(shared_cpus(cell)) and memory_mb <= room[cell.id]]

    def rank(cell: numa.HostCell) -> tuple[Any, ...]:
        size = len(shared_cpus(cell))
        return ((cell.cpu_usage + taken[cell.id][0]) / size, size, fit.free_memory(cell), cell.id)
    return min(usable, key=rank, default=None)


def shared_cpus(cell: numa.HostCell) -> frozenset[int]:
    """Return the shared CPUs of a cell to which no guest is pinned."""
    return cell.cpuset - cell.pinned_cpus


def _changed(host: numa.HostTopology, guest: numa.GuestTopology, sign: int,
             limits: fit.Overcommit | None) -> numa.HostTopology:
    cells = {cell.id: cell for cell in host.cells}
    for part in guest.cells:
        if part.id not in cells:
            raise Overcommitted(f'there is no NUMA node {part.id}')
        if sign > 0 and limits is not None:
            _check(cells[part.id], part, guest, limits)
        cells[part.id] = _cell(cells[part.id], part, guest, sign)
    return dataclasses.replace(host, cells=tuple(cells[cell.id] for cell in host.cells))


def _check(cell: numa.HostCell, part: numa.GuestCell, guest: numa.GuestTopology, limits: fit.Overcommit) -> None:
    taken = _taken(cell, part, guest)
    wrong = None
    if len(part.shared) > min(len(cell.cpuset), fit.free_cpus(cell, limits)):
        wrong = 'CPUs'
    elif set(part.cpu_pinning or ()) != part.pcpuset or not taken <= cell.pinnable or taken & cell.pinned_cpus or (
            taken and cell.pcpuset is None and (cell.cpu_usage or part.shared)):
        wrong = 'CPUs for pinning'
    elif part.pagesize is None:
        if part.memory > min(cell.memory, fit.free_memory(cell, limits)):
            wrong = 'memory'
    elif fit.place_pages(cell, part, limits) != part.pagesize:
        wrong = 'memory pages'
    if wrong:
        raise Overcommitted(f'NUMA node {cell.id} does not have enough free {wrong}')


def _taken(cell: numa.HostCell, part: numa.GuestCell, guest: numa.GuestTopology) -> frozenset[int]:
    """Return the CPUs to which no other guest may be pinned because of this guest."""
    return pinning.blocked(cell, {*(part.cpu_pinning or {}).values(), *part.reserved_cpus}, guest.cpu_thread_policy)


def _cell(cell: numa.HostCell, part: numa.GuestCell, guest: numa.GuestTopology, sign: int) -> numa.HostCell:
    taken = _taken(cell, part, guest)
    if sign < 0 and not taken <= cell.pinned_cpus:
        raise Overcommitted(f'NUMA node {cell.id}: some of the CPUs to release are not pinned')
    changed = dataclasses.replace(
        cell, cpu_usage=cell.cpu_usage + sign * len(part.shared), memory_usage=cell.memory_usage + sign * part.memory,
        pinned_cpus=cell.pinned_cpus | taken if sign > 0 else cell.pinned_cpus - taken,
        mempages=tuple(_pages(pages, part, sign) for pages in cell.mempages))
    if min(changed.cpu_usage, changed.memory_usage, *(pages.used for pages in changed.mempages)) < 0:
        raise Overcommitted(f'NUMA node {cell.id} would have negative usage')
    return changed


def _pages(pages: numa.Pages, part: numa.GuestCell, sign: int) -> numa.Pages:
    if part.pagesize != pages.size_kb:
        return pages
    return dataclasses.replace(pages, used=pages.used + sign * part.memory * 1024 // pages.size_kb)
