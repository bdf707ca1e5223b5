"""Placement of a guest's NUMA cells on a host.

Each guest cell gets a separate host cell. The result depends only on the arguments.
"""
import dataclasses
import itertools
import typing
from collections.abc import Iterable, Iterator, Sequence

from nova.hardware import pci_pools
from nova.hardware import pinning
from nova.objects import numa
from nova.objects import pci

Devices = tuple[Sequence[pci.Pool], Sequence[pci.Request]]

MAX_SETS = 5000            # maximum number of sets of host cells that are checked for near PCI devices

# reasons why a guest's cell does not fit on a host's cell, in the order of the checks. If it fits on no host cell, the
# last of their reasons in this order is reported.
MEMORY = 'has no NUMA node with enough free memory'
PAGES = 'has no NUMA node with enough free memory pages of the requested size'
CPUS = 'has no NUMA node with enough free CPUs'
NOT_PINNED = 'has no NUMA node with CPUs for pinning'
PINNED = 'has no NUMA node with enough free CPUs for pinning'
_REASONS = (MEMORY, PAGES, CPUS, NOT_PINNED, PINNED)


@dataclasses.dataclass(frozen=True)
class Overcommit:
    """Overcommit ratios of a cell for guests without pinning."""

    cpu_ratio: float = 1.0
    ram_ratio: float = 1.0


class Fit(typing.NamedTuple):
    """Result of a fit: the pinned GuestTopology, or None and a ``reason``.

    The reason is a predicate with the host as subject, such as 'has no NUMA topology'.
    """

    topology: numa.GuestTopology | None
    reason: str | None = None


def fit(host: numa.HostTopology | None, guest: numa.GuestTopology, limits: Overcommit = Overcommit(),
        devices: Devices | None = None, pack: bool = False) -> Fit:
    """Place a guest on the free resources of a host.

    Cells with the most free resources are preferred, or with ``pack`` the most used cells. Cells near PCI devices are
    the last choice for guests without devices, and the first choice for others. Host cells of one guest are near each
    other.
    :param host: HostTopology, or None if the host reports none
    :param guest: GuestTopology (hardware.guest_request), not yet pinned
    :param devices: (pools, requests) of the host's PCI devices and of the guest (hardware.pci_pools)
    :returns: a Fit
    """
    if host is None:
        return Fit(None, 'has no NUMA topology')
    if len(guest.cells) > len(host.cells):
        return Fit(None, f'has {len(host.cells)} NUMA nodes, fewer than the {len(guest.cells)} requested ones')
    pools, requests = devices or ((), ())
    order = _order(host, guest, limits, (pools, requests), pack)
    # the CPU for the emulator's threads is in the cell of the first pinned vCPUs
    first = next((part.id for part in guest.cells if part.pcpuset), None)
    reserve = first if guest.emulator_threads_policy == 'isolate' else None
    table = [{cell.id: _pinned_part(cell, part, guest.cpu_thread_policy, limits, reserve=int(part.id == reserve))
              for cell in order} for part in guest.cells]
    for row in table:
        reasons = [found for found in row.values() if isinstance(found, str)]
        if len(reasons) == len(row):
            return Fit(None, max(reasons, key=_REASONS.index))
    fitting = [{number for number, found in row.items() if not isinstance(found, str)} for row in table]
    usable = [cell for cell in order if any(cell.id in numbers for numbers in fitting)]
    if _match(fitting, [cell.id for cell in usable]) is None:
        return Fit(None, 'has too few NUMA nodes with room for the nodes that the guest requests')
    for chosen in _sets(usable, len(guest.cells), devices=bool(requests)):
        numbers = [cell.id for cell in chosen]
        if requests and not pci_pools.supports(pools, requests, host, numbers):
            continue
        match = _match(fitting, numbers)
        if match is not None:
            cells = tuple(found for row, number in zip(table, match) if not isinstance(found := row[number], str))
            return Fit(dataclasses.replace(guest, cells=cells))
    return Fit(None, 'has no free PCI devices near the NUMA nodes')


def free_cpus(cell: numa.HostCell, limits: Overcommit = Overcommit()) -> int:
    """Return the number of vCPUs that can be added to the cell's shared CPUs."""
    if cell.pcpuset is None and cell.pinned_cpus:
        return 0
    return max(0, _floor(len(cell.cpuset) * limits.cpu_ratio) - cell.cpu_usage)


def free_pinnable(cell: numa.HostCell) -> int:
    """Return the number of free CPUs for pinning."""
    if cell.pcpuset is None and cell.cpu_usage:
        return 0
    return len(cell.pinnable - cell.pinned_cpus)


def free_memory(cell: numa.HostCell, limits: Overcommit = Overcommit()) -> int:
    """Return the free MiB for guests without a page size; large pages are excluded."""
    large = _large(cell.mempages)
    total = cell.memory - sum(pages.total * pages.size_kb for pages in large) // 1024
    used = cell.memory_usage - sum(pages.used * pages.size_kb for pages in large) // 1024
    return max(0, _floor(max(total, 0) * limits.ram_ratio) - used)


def _floor(value: float) -> int:
    return int(value + 1e-6)           # 100 * 1.15 is slightly less than 115


def _large(mempages: Iterable[numa.Pages]) -> list[numa.Pages]:
    smallest = min((pages.size_kb for pages in mempages), default=0)
    return [pages for pages in mempages if pages.size_kb > smallest]


def _order(host: numa.HostTopology, guest: numa.GuestTopology, limits: Overcommit, devices: Devices,
           pack: bool) -> list[numa.HostCell]:
    pools, requests = devices
    near = {pool.numa_node for pool in pools if pool.count}
    pinned = any(cell.pcpuset for cell in guest.cells)

    def rank(cell: numa.HostCell) -> tuple[typing.Any, ...]:
        far = (cell.id in near) != bool(requests)
        if pack:
            return (far, -cell.cpu_usage - len(cell.pinned_cpus), -cell.memory_usage, cell.id)
        free = free_pinnable(cell) if pinned else free_cpus(cell, limits)
        return (far, -free, -free_memory(cell, limits), cell.id)
    return sorted(host.cells, key=rank)


def _sets(order: Sequence[numa.HostCell], size: int, devices: bool) -> Iterator[Sequence[numa.HostCell]]:
    """Yield candidate lists of host cells for a guest. The first candidates are each cell with its nearest cells.

    Without devices, the last candidate is the list of all cells. The caller has checked that the guest fits on
    this list. With devices, other sets of cells follow.
    """
    seen = set()
    for first in order:
        others = [cell for cell in order if cell is not first]
        near = [first, *sorted(others, key=lambda cell: first.distances.get(cell.id, 0))[:size - 1]]
        seen.add(frozenset(cell.id for cell in near))
        yield near
    if not devices:
        yield order
        return
    for found in itertools.islice(itertools.combinations(order, size), MAX_SETS):
        if frozenset(cell.id for cell in found) not in seen:
            yield found


def _match(fitting: Sequence[set[int]], numbers: Sequence[int]) -> list[int] | None:
    """Return a separate host cell for each guest cell, or None. Cells that are earlier in ``numbers`` are preferred.

    :param fitting: [host cells that a guest cell fits in] in the order of the guest's cells
    """
    chosen = []
    left = list(numbers)
    for position, mine in enumerate(fitting):
        for number in left:
            rest = [other for other in left if other != number]
            if number in mine and _matchable(fitting[position + 1:], rest):
                chosen.append(number)
                left = rest
                break
        else:
            return None
    return chosen


def _matchable(fitting: Sequence[set[int]], numbers: Sequence[int]) -> bool:
    """Tell whether every guest cell can get a separate host cell (augmenting paths).

    :param fitting: see ``_match``
    :param numbers: the available host cells
    """
    owner: dict[int, int] = {}

    def assign(position: int, tried: set[int]) -> bool:
        for number in numbers:
            if number in fitting[position] and number not in tried:
                tried.add(number)
                if number not in owner or assign(owner[number], tried):
                    owner[number] = position
                    return True
        return False
    return all(assign(position, set()) for position in range(len(fitting)))


def _pinned_part(cell: numa.HostCell, part: numa.GuestCell, policy: str | None, limits: Overcommit,
                 reserve: int) -> numa.GuestCell | str:
    """Return the guest cell placed on this host cell, or the reason why it does not fit."""
    pagesize = place_pages(cell, part, limits)
    if isinstance(pagesize, str):
        return pagesize
    if len(part.shared) > len(cell.cpuset) or len(part.shared) > free_cpus(cell, limits):
        return CPUS
    found = dataclasses.replace(part, id=cell.id, pagesize=pagesize, cpu_pinning=None, cpu_topology=None,
                                 reserved_cpus=frozenset())
    if not part.pcpuset:
        return found
    if cell.pcpuset is None and (cell.cpu_usage or part.shared):
        return NOT_PINNED
    pinned = pinning.pin(cell, part.pcpuset, policy, reserve)
    if pinned is None:
        return PINNED
    topology = None if part.shared else {
        'sockets': 1, 'cores': len(part.pcpuset) // pinned.threads, 'threads': pinned.threads}
    return dataclasses.replace(found, cpu_pinning=pinned.cpus, reserved_cpus=pinned.reserved, cpu_topology=topology)


def place_pages(cell: numa.HostCell, part: numa.GuestCell, limits: Overcommit) -> int | str | None:
    """Return a guest cell's page size in KiB on a host cell (None if not requested), or why the cell does not fit."""
    need_kb = part.memory * 1024
    if part.pagesize is None:
        enough = part.memory <= cell.memory and part.memory <= free_memory(cell, limits)
        return None if enough else MEMORY
    large = _large(cell.mempages)
    for pages in sorted(cell.mempages, key=lambda pages: -pages.size_kb):
        kinds = ('any', 'large' if pages in large else 'small', pages.size_kb)
        # guests without a page size share the pages of the smallest size
        room = pages in large or part.memory <= free_memory(cell)
        if part.pagesize in kinds and room and not need_kb % pages.size_kb and need_kb // pages.size_kb <= pages.free:
            return pages.size_kb
    return PAGES
