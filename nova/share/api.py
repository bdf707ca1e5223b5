"""Interface to shared file systems; ``manila`` is the client of a service."""
from typing import NoReturn, TypedDict

from nova.context import RequestContext
from nova import exception


class Share(TypedDict):
    id: str
    project_id: str
    status: str
    export_location: str
    protocol: str                            # NFS, CEPHFS


class Shares:
    """Interface of a backend. Methods raise ShareNotFound for a share that the caller (``ctx``) may not see.

    A project that sees a share may still lack access to it: public shares are visible to all projects.
    """

    def get(self, ctx: RequestContext, share_id: str) -> Share:
        """Return one share; raises ShareNotFound."""
        raise NotImplementedError

    def allow(self, ctx: RequestContext, share_id: str, address: str, protocol: str | None) -> dict[str, str] | None:
        """Allow the host with an address to mount the share; idempotent.

        :returns: {'user', 'key'} of Ceph for a CephFS share; None: no credentials needed
        :raises ShareNotFound, Conflict, Unavailable:
        """
        raise NotImplementedError

    def deny(self, ctx: RequestContext, share_id: str, address: str, protocol: str | None) -> None:
        """Revoke the access; no error if the access or the share no longer exists."""
        raise NotImplementedError


class NoShares(Shares):
    """Backend of a deployment without a Shared File Systems service: no share exists."""

    def get(self, ctx: RequestContext, share_id: str) -> NoReturn:
        raise exception.ShareNotFound(share_id=share_id)
