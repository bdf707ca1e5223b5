"""Data of a placement: what a server requires of a host, its special resources, its group and its claim."""
from __future__ import annotations

import collections.abc
import dataclasses
import typing

import numpy as np

from nova.db.tables.rows import ComputeNodesRow
from nova import objects
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.scheduler import host_view

PINNED = 'numa'              # key in Claim.taken; the value is (HostTopology before the claim, pinned GuestTopology)


@dataclasses.dataclass(frozen=True)
class Group:
    """Server group of a request.

    policies      names of the policies
    max_per_host  maximum number of members on a host for the policy anti-affinity
    moving        uuid of the server to place if it already exists (then it does not count as a member), or None
    members       {host: number of members on the host or moving to it}
    capabilities  {key: requirement on hosts} for the policy host-capabilities
    between       whether a member has two hosts, because it moves or its move can still be reverted
    places        {uuid of a cell: {(uuid of a member, host)}}
    unknown       cells that did not answer and may have members
    within        the only network locality that this attempt may use (policy network-proximity); None: any locality
    """

    uuid: str
    policies: frozenset[str]
    max_per_host: int
    moving: str | None
    members: collections.abc.Mapping[str, int]
    capabilities: dict[str, str] = dataclasses.field(default_factory=dict)
    within: str | None = None
    between: bool = False
    places: dict[str, set[tuple[str, str]]] = dataclasses.field(default_factory=dict)
    unknown: tuple[db_cells.Cell, ...] = ()


@typing.runtime_checkable
class Limits(typing.Protocol):
    """Filter that returns limits, which the claim uses instead of the capacity in the node's row."""

    def limits(self, hosts: host_view.Hosts, position: int) -> dict[str, float]: ...


class SpecialResource:
    """Request for a resource that an amount cannot describe, such as NUMA cells or PCI devices.

    The functions of node_claims.KINDS create the objects in ``request.special``. A filter preselects hosts
    by the data of the host table, which may be stale. ``take`` checks and claims the resource in the database.
    """

    def take(self, conn: engine.Connection, node: ComputeNodesRow, claim: Claim) -> bool:
        """Claim the resource on a node in the claim's transaction. Return False if the node lacks the resource.

        The caller has locked the node's row and has claimed vCPUs, memory and disk. The caller calls ``take`` of each
        resource in the order of KINDS. If a call returns False, the caller rolls all changes back.
        :param node: the current compute_nodes row
        :param claim: the server's claim. Columns for the server's or migration's row are added to ``claim.values``
        """
        raise NotImplementedError

    def verified(self, hosts: host_view.Hosts) -> host_view.Hosts:
        """Return a view with current data of the resource. Called after the claim failed on all chosen hosts."""
        return hosts

    def consume(self, hosts: host_view.Hosts, position: int) -> None:
        """Mark the resource as used in the caller's copy of the view, before a host for the next server is chosen."""


@dataclasses.dataclass(frozen=True)
class Request:
    """The requirements that a host must meet for one server.

    resources       {resource: amount}, see db.placement.claims.resources
    zone, host, node   requested availability zone, host and node; None: any
    cell            uuid of the cell in which the server must stay; None: any cell
    disabled_cells  uuids of the cells that get no new servers
    forced          whether an administrator forces the host, so that only its capacity is checked
    failed_nodes    [(host, node)] on which builds of the server failed
    ignored         names of excluded hosts
    aggregate       id of the required aggregate; None: any host
    hypervisor      required hypervisor type of a move; None: any type
    group           server group of the server, or None
    spec            RequestSpec of the server
    facts           {name of a filter: data that is not in the host table}, see filters.facts
    limiting        filters with ``limits`` that apply to the claim
    special         the SpecialResource objects
    requirements    {key: value} that hosts must have for the server's instance category
    """

    resources: dict[str, int]
    zone: str | None = None
    host: str | None = None
    node: str | None = None
    forced: bool = False
    failed_nodes: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()
    aggregate: int | None = None
    hypervisor: str | None = None
    group: Group | None = None
    spec: objects.RequestSpec | None = None
    facts: dict[str, typing.Any] = dataclasses.field(default_factory=dict)
    limiting: tuple[Limits, ...] = ()
    special: tuple[SpecialResource, ...] = ()
    requirements: dict[str, str] = dataclasses.field(default_factory=dict)
    cell: str | None = None
    disabled_cells: tuple[str, ...] = ()

    @property
    def zones(self) -> set[str | None]:
        """Allowed availability zones; if ``zone`` is None, do not use this attribute, because any zone is allowed."""
        return {self.zone, *(part.strip() for part in (self.zone or '').split(','))}

    def view(self, hosts: host_view.Hosts) -> RequestView:
        """Return a view for this request that shares the arrays of ``hosts``."""
        twin = object.__new__(RequestView)
        twin.__dict__.update(hosts.__dict__)
        twin.request, twin.policies, twin.members = self, frozenset(), None
        if self.group is not None:
            twin.policies, twin.members = self.group.policies, np.zeros(len(hosts), dtype=np.int64)
            for host, number in self.group.members.items():
                twin.members[hosts.positions(host)] = number
        return twin


class RequestView(host_view.Hosts):
    """View of the hosts for one request, with the policies and members of its group."""

    request: Request


@dataclasses.dataclass
class Claim:
    """Claim of a server on a host of a view, in a transaction.

    migration_id    migration that stores the claim in its row, or None if the server's row stores the claim
    request         the Request
    values          further columns that the caller writes to the row that stores the claim (instances or migrations)
    taken           {name: data that a special resource provides for the ``take`` of later special resources}
    """

    position: int
    host: str
    node_id: int
    instance_uuid: str
    migration_id: int | None
    request: Request
    values: dict[str, typing.Any] = dataclasses.field(default_factory=dict)
    taken: dict[str, typing.Any] = dataclasses.field(default_factory=dict)
    savepoint: engine.Savepoint | None = None
