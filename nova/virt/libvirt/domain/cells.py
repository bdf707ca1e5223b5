"""Placement of guests on NUMA nodes: pure functions, used by placement.py.

A guest without a NUMA topology runs on the node with the least usage, so that its memory is near its CPUs. The
placement is not claimed: each start of the guest selects a node again.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from nova import exception
from nova.hardware import fit
from nova.hardware import usage
from nova.objects import numa


class Guest(Protocol):
    """The attributes of an xml.Guest that its placement depends on.

    numa  GuestTopology as text; None: the guest has none
    cell  id of the NUMA node of a guest without a topology; None: any node
    """

    vcpus: int
    memory_mb: int
    numa: str | None
    cell: int | None


def floating(host: numa.HostTopology, guest: Guest, others: Sequence[Guest],
             limits: fit.Overcommit) -> tuple[int | None, frozenset[int]]:
    """Choose the NUMA node of a guest without a topology: (id of the node, CPUs that the guest may run on).

    (None, all shared CPUs) if no node has room for the whole guest.

    :param host: HostTopology without guests
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


def placed(host: numa.HostTopology | None, guest: Guest) -> numa.GuestTopology:
    """Return the GuestTopology of a guest that has one.

    :raises VirtError: the host no longer has the NUMA nodes or CPUs that the guest was placed on
    """
    topology = numa.load_guest(guest.numa or '')
    for part in topology.cells:
        cell = host.cell(part.id) if host is not None else None
        if cell is None or not set((part.cpu_pinning or {}).values()) <= cell.cpus:
            raise exception.VirtError(operation='place the guest', reason=(
                f'the host does not give guests the CPUs of NUMA node {part.id} any more that it was placed on'))
    return topology
