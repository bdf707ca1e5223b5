"""What the rest of the system needs of shared file systems: one interface. ``manila`` is the client of a service.

A share is a dict: 'id', 'project_id', 'status', 'export_location' and 'protocol' ('NFS', 'CEPHFS').
"""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

from nova import exception

if TYPE_CHECKING:
    from nova.context import RequestContext


class Shares:
    """The interface. ``ctx`` is who asks: what it may not see raises ShareNotFound.

    Who sees a share may not use it for that: a public one is seen by all projects.
    """

    def get(self, ctx: RequestContext, share_id: str) -> Any:
        """One share; raises ShareNotFound."""
        raise NotImplementedError

    def allow(self, ctx: RequestContext, share_id: str, address: str, protocol: str | None) -> dict[str, str] | None:
        """Let the host of an address mount the share; does nothing when it may.

        :returns: what it needs with the address: {'user', 'key'} of Ceph for a share of CephFS; None: nothing
        :raises ShareNotFound, Conflict, Unavailable:
        """
        raise NotImplementedError

    def deny(self, ctx: RequestContext, share_id: str, address: str, protocol: str | None) -> None:
        """Take that back; does nothing when it may not, or the share is gone."""
        raise NotImplementedError


class NoShares(Shares):
    """A deployment without a Shared File Systems service: every share is unknown."""

    def get(self, ctx: RequestContext, share_id: str) -> None:
        raise exception.ShareNotFound(share_id=share_id)
