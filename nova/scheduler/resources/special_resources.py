"""Special resources: resources of a node without a counted amount, such as NUMA cells and PCI devices."""
from __future__ import annotations

import typing

from nova.db import engine


if typing.TYPE_CHECKING:
    from nova.scheduler import host_view
    from nova.scheduler import node_claims

PINNED = 'numa'              # key in Claim.taken: (HostTopology before the claim, pinned GuestTopology)


class SpecialResource:
    """A special resource of one request, created by a function of node_claims.KINDS, stored in ``request.special``.

    A filter preselects hosts from the table; ``take`` decides.
    """

    def take(self, conn: engine.Connection, node: typing.Mapping[str, typing.Any], claim: node_claims.Claim) -> bool:
        """Take the resource from a node in the claim's transaction; return whether the node has it.

        The node's row is locked until the transaction ends, and its counted resources are claimed. If this or a later
        resource returns False, all changes are rolled back. The order is that of KINDS.
        :param node: the current compute_nodes row
        :param claim: the server's claim; columns for the holder's row go into ``claim.values``
        """
        raise NotImplementedError

    def verified(self, hosts: host_view.Hosts) -> host_view.Hosts:
        """Return a view with exact data, after every host that the filter let through has refused the claim."""
        return hosts

    def consume(self, hosts: host_view.Hosts, position: int) -> None:
        """Update the caller's own view as if the node had given the resource, for the next server."""
