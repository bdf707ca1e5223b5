"""Requests to the Networking API, and dependencies of their handlers."""
from __future__ import annotations

import dataclasses
import datetime
from typing import Protocol, TYPE_CHECKING
from wsgiref.types import WSGIEnvironment

from nova.network import ipam
from nova.web.request import BaseRequest

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts

    from nova.context import RequestContext
    from nova.db.engine import Database
    from nova.network.rest.servers import Servers
    from nova.policy import Policy


class NetworkClient(Protocol):
    """RPC client of the network service; see nova/network/interface.py."""

    def refresh_ports(self, context: RequestContext, *, port_ids: list[str]) -> None: ...


@dataclasses.dataclass
class Deps:
    """Dependencies of the operations.

    api_db       the API database
    network_rpc  client to notify the network service of filter changes; None: no notification
    servers      Servers, to notify hosts of changed addresses; None: no notification
    rules        policy.Policy of the API; None for callers other than the API
    """

    conf: ConfigOpts
    api_db: Database
    network_rpc: NetworkClient | None = None
    servers: Servers | None = None
    rules: Policy | None = None

    @property
    def quarantine_cutoff(self) -> datetime.datetime:
        """Addresses that were released before this time can be assigned again."""
        return ipam.quarantine_cutoff(self.conf.network.dhcp_lease_time)


class NetworkRequest(BaseRequest):
    """Request to a handler.

    query   [(name, value)]
    body    object with the attributes of the resource; a list of objects for a bulk creation
    """

    __slots__ = ('deps',)

    def __init__(self, environ: WSGIEnvironment, deps: Deps) -> None:
        super().__init__(environ)
        self.deps = deps
