"""Assignment of host CPUs to the pinned vCPUs of a guest cell."""
import dataclasses
import math
from collections.abc import Iterable, Sequence

from nova.objects import numa


@dataclasses.dataclass(frozen=True)
class Pinned:
    """Host CPUs for a guest cell.

    cpus      {vCPU: CPU of the host}
    reserved  CPUs for the emulator's threads
    threads   number of consecutive vCPUs on each core
    """

    cpus: dict[int, int]
    reserved: frozenset[int]
    threads: int


def pin(cell: numa.HostCell, vcpus: Iterable[int], policy: str | None, reserve: int = 0) -> Pinned | None:
    """Choose host CPUs for vCPUs. Return a Pinned that depends only on the arguments, or None if CPUs are missing.

    prefer   take whole cores if possible, so that few cores are shared with other guests
    require  take only cores with several threads; the last of an odd number of vCPUs may take one thread of a core
    isolate  take one core for each vCPU, and leave the sibling threads idle
    :param cell: HostCell
    :param policy: as in GuestTopology.cpu_thread_policy
    :param reserve: number of CPUs for the emulator's threads
    """
    vcpus = sorted(vcpus)
    free = cell.pinnable - cell.pinned_cpus
    cores = _cores(cell)
    if policy == 'isolate':
        single = [core[:1] for core in cores if free.issuperset(core)][:len(vcpus) + reserve]
        return _made(vcpus, single, threads=1) if len(single) == len(vcpus) + reserve else None
    if policy == 'require':
        cores = [core for core in cores if len(core) > 1]
    left = [usable for usable in (tuple(cpu for cpu in core if cpu in free) for core in cores) if usable]
    taken = _pack(left, len(vcpus), whole=policy == 'require')
    if taken is None:
        return None
    threads = math.gcd(*map(len, taken)) if taken else 1
    gone = {cpu for part in taken for cpu in part}
    left = [rest for rest in (tuple(cpu for cpu in core if cpu not in gone) for core in left) if rest]
    spare = _pack(left, reserve)
    return None if spare is None else _made(vcpus, [*taken, *spare], threads)


def blocked(cell: numa.HostCell, cpus: Iterable[int], policy: str | None) -> frozenset[int]:
    """Return these CPUs and, with ``isolate``, their siblings: other guests may not be pinned to any of them."""
    if policy != 'isolate':
        return frozenset(cpus)
    return frozenset(cpus).union(*(group for group in cell.siblings if not group.isdisjoint(cpus)))


def _cores(cell: numa.HostCell) -> list[tuple[int, ...]]:
    """Return the ordered CPUs of each core that has CPUs for pinning."""
    grouped = frozenset().union(*cell.siblings)
    groups = [*cell.siblings, *({cpu} for cpu in cell.pinnable - grouped)]
    return sorted(tuple(sorted(group)) for group in groups if not cell.pinnable.isdisjoint(group))


def _pack(cores: Iterable[tuple[int, ...]], need: int, whole: bool = False) -> list[tuple[int, ...]] | None:
    """Select ``need`` CPUs and split as few cores as possible; return the selected CPUs by core, or None if too few.

    :param whole: no part is a single CPU, except the last part of an odd number of CPUs
    """
    taken, cores = [], list(cores)
    while need:
        usable = [core for core in cores if len(core) > 1] if whole and need > 1 else cores
        fitting = [core for core in usable if len(core) <= need]
        if not usable:
            return None
        core = min(fitting, key=lambda core: (-len(core), core)) if fitting else min(
            usable, key=lambda core: (len(core), core))
        taken.append(core[:need])
        cores.remove(core)
        need -= len(taken[-1])
    return taken


def _made(vcpus: Sequence[int], parts: Iterable[Sequence[int]], threads: int) -> Pinned:
    cpus = [cpu for part in parts for cpu in part]
    return Pinned(cpus=dict(zip(vcpus, cpus)), reserved=frozenset(cpus[len(vcpus):]), threads=threads)
