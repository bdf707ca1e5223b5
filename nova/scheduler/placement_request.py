"""Request of a placement: requirements of a server on a host, its special resources, its group and its claim."""
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

PINNED = 'numa'              # key in Claim.taken: (HostTopology before the claim, pinned GuestTopology)


@dataclasses.dataclass(frozen=True)
class Group:
    """A server group in placement.

    policies      names of its policies
    max_per_host  members that a host may have under anti-affinity
    moving        uuid of the moving server, which does not count as a member, or None
    members       {host: members on it, or moving to it}
    capabilities  {key: requirement on hosts}, under host-capabilities
    between       whether a member has two hosts, because it moves or its move can still be reverted
    places        {uuid of a cell: {(member, host)}}
    unknown       cells that did not answer; members may be there
    within        network locality to which this attempt is limited under network-proximity, or None for any
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
    """A filter whose limits replace a node's own numbers in the claim."""

    def limits(self, hosts: host_view.Hosts, position: int) -> dict[str, float]: ...


class SpecialResource:
    """A resource of a node without a counted amount, such as NUMA cells or PCI devices, for one request.

    A function of node_claims.KINDS creates the resource and stores it in ``request.special``. A filter preselects hosts
    from the table; ``take`` decides.
    """

    def take(self, conn: engine.Connection, node: ComputeNodesRow, claim: Claim) -> bool:
        """Take the resource from a node in the claim's transaction; return whether the node has it.

        The node's row is locked until the transaction ends, and its counted resources are claimed. If the method of
        this or a later resource returns False, all changes are rolled back. Resources are taken in the order of KINDS.
        :param node: the current compute_nodes row
        :param claim: the server's claim; columns for the holder's row go into ``claim.values``
        """
        raise NotImplementedError

    def verified(self, hosts: host_view.Hosts) -> host_view.Hosts:
        """Return a view with exact data. Called after every host that passed the filter has refused the claim."""
        return hosts

    def consume(self, hosts: host_view.Hosts, position: int) -> None:
        """Update the caller's copy of the view for the next server, as if the node had assigned the resource."""


@dataclasses.dataclass(frozen=True)
class Request:
    """Requirements of one server on a host.

    resources       {resource: amount}, see db.claims.resources
    zone, host, node   requested ones, or None for any
    cell            uuid of the cell in which the server must stay, or None for any
    disabled_cells  uuids of the cells that get no new servers, sorted
    forced          an administrator forces the host, so only its capacity is checked
    failed_nodes    (host, node) of failed builds of the server
    ignored         names of excluded hosts
    aggregate       id of the required aggregate, or None for any
    hypervisor      hypervisor type that can run the guest, or None for any
    group           server group of the server
    spec            the whole request of the server
    facts           {name of a filter: data from outside the table}, see filters.facts
    limiting        filters whose ``limits`` apply to the claim
    special         special resources of the request
    requirements    {key: value} that the server's instance category requires of hosts
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
        """The allowed zones. Use only if ``zone`` is not None."""
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
    """View of the hosts for one request."""

    request: Request


@dataclasses.dataclass
class Claim:
    """A server's claim on a host of a view, during its transaction.

    instance_uuid   the server
    migration_id    the move that holds the claim, or None if the server's own row does
    request         the Request
    values          further columns for the row that holds the claim (instances or migrations), written by the caller
    taken           data for special resources that are taken later: {name: anything}
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
