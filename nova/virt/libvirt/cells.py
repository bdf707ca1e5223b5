"""Where on the host a guest without a topology of its own runs: pure functions, used by placement.py.

It is kept within one NUMA node, where least is used, so that its memory is near its CPUs. Nothing is claimed for that:
each host chooses by itself, again at every start of the guest.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TYPE_CHECKING

from nova import exception
from nova.hardware import fit
from nova.hardware import usage
from nova.objects import numa

if TYPE_CHECKING:
    from nova.virt.libvirt.xml import Guest


def floating(host: numa.HostTopology, guest: Guest, others: Sequence[Guest],
             limits: fit.Overcommit) -> tuple[int | None, frozenset[int]]:
    """(id of the NUMA node for an xml.Guest without a topology, the CPUs that it may run on).

    (None, all CPUs that are shared) where no node has room for the whole guest.

    :param host: HostTopology without guests
    :param others: [xml.Guest] of all the others of this host
    :param limits: fit.Overcommit
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


def placed(host: numa.HostTopology | None, guest: Guest) -> numa.GuestTopology:
    """The GuestTopology of an xml.Guest that has one.

    :raises VirtError: it was placed on NUMA nodes, or CPUs, that the host does not have any more
    """
    topology = numa.load_guest(guest.numa or '')
    for part in topology.cells:
        cell = host.cell(part.id) if host is not None else None
        if cell is None or not set((part.cpu_pinning or {}).values()) <= cell.cpus:
            raise exception.VirtError(operation='place the guest', reason=(
                f'the host does not give guests the CPUs of NUMA node {part.id} any more that it was placed on'))
    return topology
