"""Placement of guests on NUMA nodes of this host: pure functions, used by placement.py.

A guest without a NUMA topology runs on the NUMA node with the lowest usage, so that its memory is near its CPUs. The
database does not store this choice, so each start of the guest chooses again.
"""
import dataclasses
from collections.abc import Sequence
from typing import Any

from nova import exception
from nova.hardware import fit
from nova.hardware import usage
from nova.objects import numa
from nova.virt.libvirt.domain import memory


@dataclasses.dataclass
class Resources:
    """Processors and memory of a guest.

    processor      guest's CPU topology {'sockets', 'cores', 'threads'}; None: one core per socket
    numa           GuestTopology as text; None if the guest has no topology
    cell, cpuset   NUMA node (None: any) and CPUs (as text) of a guest without topology
    memory_source  memory backing with which the guest was started (memory.py)
    """

    vcpus: int
    memory_mb: int
    processor: dict[str, int] | None = None
    numa: str | None = None
    cell: int | None = None
    cpuset: str | None = None
    memory_source: str = memory.ANONYMOUS


def floating(host: numa.HostTopology, guest: Resources, others: Sequence[Resources],
             limits: fit.Overcommit) -> tuple[int | None, frozenset[int]]:
    """Choose the NUMA node of a guest without a topology. Return (id of the node, CPUs that the guest may use).

    If no node has room for the whole guest, return (None, all shared CPUs).

    :param host: HostTopology in which no guest uses resources
    :param others: all other guests of this host
    """
    host = usage.recount(host, [numa.load_guest(other.numa) for other in others if other.numa])
    there: dict[Any, tuple[int, int]] = {}
    for other in others:
        vcpus, memory = there.get(other.cell, (0, 0))
        there[other.cell] = (vcpus + other.vcpus, memory + other.memory_mb)
    there.pop(None, None)
    cell = usage.floating_cell(host, guest.vcpus, guest.memory_mb, there, limits)
    if cell is None:
        return None, frozenset().union(*(usage.shared_cpus(each) for each in host.cells))
    return cell.id, usage.shared_cpus(cell)


def placed(host: numa.HostTopology | None, guest: Resources) -> numa.GuestTopology:
    """Return the GuestTopology of a guest with a topology.

    :raises VirtError: the host no longer has the NUMA nodes or CPUs of the topology
    """
    topology = numa.load_guest(guest.numa or '')
    for part in topology.cells:
        cell = host.cell(part.id) if host is not None else None
        if cell is None or not set((part.cpu_pinning or {}).values()) <= cell.cpus:
            raise exception.VirtError(operation='place the guest', reason=(
                f'this host no longer offers the CPUs of NUMA node {part.id}, on which the guest is placed'))
    return topology
