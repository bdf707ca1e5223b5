"""Special resources: what a request takes of a node besides counted amounts, such as NUMA cells and PCI devices."""
from __future__ import annotations

import typing

from nova.db import engine


if typing.TYPE_CHECKING:
    from nova.scheduler import host_view
    from nova.scheduler import node_claims

PINNED = 'numa'              # in Claim.taken: (HostTopology as it was, pinned GuestTopology)


class SpecialResource:
    """What one request takes; made by a function of node_claims.KINDS, found in ``request.special``.

    A filter guesses from the table which hosts have it; ``take`` decides.
    """

    def take(self, conn: engine.Connection, node: typing.Mapping[str, typing.Any], claim: node_claims.Claim) -> bool:
        """Take it of a node, in the claim's transaction; whether the node has it.

        The node's row is locked until the transaction ends, its numbers are claimed, and what this writes is undone
        when it, or another one after it, gives False. They are taken in the order of KINDS.

        :param node: the whole compute_nodes row as it is now
        :param claim: for which server; a column that the holder's row is to have goes into ``claim.values``
        """
        raise NotImplementedError

    def verified(self, hosts: host_view.Hosts) -> host_view.Hosts:
        """A view on which the filter guesses no more: every host that it let through on this one has refused."""
        return hosts

    def consume(self, hosts: host_view.Hosts, position: int) -> None:
        """Let a view, which is the caller's own, be as if the node had given it: for the next server."""
