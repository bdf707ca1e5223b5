"""Claim resources of hosts for ports that request them; a claim is an allocation in the Placement service."""
from collections.abc import Callable, Iterator
import contextlib
from typing import Any

from oslo_config.cfg import ConfigOpts

from nova.conf.placement import placement as placement_options
from nova.context import RequestContext
from nova.network.neutron.documents import Port
from nova.network.neutron import placement
from nova.network.neutron import requests
from nova.network.neutron import vifs

Document = dict[str, Any]


class Claims:
    """Claims of ports.

    :param nodes: function: () -> [(host, node name, node uuid)] of the compute hosts
    """

    def __init__(self, conf: ConfigOpts, nodes: Callable[[], list[tuple[str, str, str]]]) -> None:
        self._placement = placement.Placement(conf) if placement_options.enabled(conf) else None
        self._nodes = nodes

    @property
    def enabled(self) -> bool:
        """Whether ports may request resources."""
        return self._placement is not None

    def begin(self, ctx: RequestContext) -> None:
        """Periodic task: create resource providers of new hosts."""
        if self._placement is not None:
            self._placement.begin(ctx, {node: ident for _host, node, ident in self._nodes()})

    @contextlib.contextmanager
    def profile(self, ctx: RequestContext, port: Port, host: str, server: str | None = None) -> Iterator[Document]:
        """Claim a port's resources on a host and yield the binding profile. If the block raises, release the claim.

        :param server: uuid of the server, if the port has no device_id yet
        :raises PortBindingFailed: the host lacks the resources
        """
        kept = {name: value for name, value in vifs.profile(port).items() if name != vifs.ALLOCATION}
        if not requests.groups(port):
            yield kept
            return
        if self._placement is None:
            raise vifs.placement_required(port)
        owner = server or port['device_id']
        allocation = self._placement.claim(ctx, port, owner, host, self._node(host))
        try:
            yield {**kept, vifs.ALLOCATION: allocation}
        except BaseException:
            self._placement.release(ctx, port['id'], owner, host)
            raise

    def release(self, ctx: RequestContext, port: Port, host: str) -> None:
        """Release a port's resources on a host. Do nothing if the port requests no resources."""
        if self._placement is not None and (requests.groups(port) or vifs.ALLOCATION in vifs.profile(port)):
            self._placement.release(ctx, port['id'], port['device_id'], host)

    def release_deleted(self, ctx: RequestContext, port_id: str, server: str, host: str) -> None:
        """Release the resources of a deleted port."""
        if self._placement is not None:
            self._placement.release(ctx, port_id, server, host)

    def release_server(self, ctx: RequestContext, server: str, project: str, host: str) -> None:
        """Release the remaining claims of a deleted server: claims for ports that its project has detached."""
        if self._placement is not None:
            self._placement.release_server(ctx, server, project, self._node(host))

    def _node(self, host: str) -> str:
        """Return the name of a host's resource provider."""
        return next((node for name, node, _ident in self._nodes() if name == host), host)
