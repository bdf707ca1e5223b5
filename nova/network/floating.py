"""Floating addresses of a network service that has none: what the compute API says of it."""
from __future__ import annotations

from typing import Any

from nova import exception

Document = dict[str, Any]


class NoFloatingIps:
    """A floating IP is {'id', 'ip', 'pool', 'fixed_ip', 'instance_id'}; all are asked for in the name of one caller."""

    def pools(self) -> list[str]:
        """Names of the networks that floating IPs are of."""
        return []

    def all(self) -> list[Document]:
        return []

    def show(self, ident: str) -> Document:
        raise exception.NotFound(f'Floating IP {ident[:80]} could not be found.')

    def create(self, pool: str | None) -> Document:
        """
        :param pool: name or id of one; None: the usual one
        """
        raise exception.NotFound('There is no pool of floating IPs.')

    def delete(self, ident: str) -> None:
        self.show(ident)

    def add(self, instance_uuid: str, address: str, fixed: str | None) -> None:
        """Give a server an address of the caller's; ``fixed`` is the server's address behind it, None: any."""
        self.show(address)

    def remove(self, instance_uuid: str, address: str) -> None:
        self.show(address)
