"""Claims of ports on what their hosts have of a network; without a Placement service there are none to make."""
from __future__ import annotations

from collections.abc import Callable, Iterator
import contextlib
from typing import Any
from typing import TYPE_CHECKING

from oslo_config.cfg import ConfigOpts

from nova.conf.placement import placement as placement_options
from nova.network.neutron import placement
from nova.network.neutron import requests
from nova.network.neutron import vifs

if TYPE_CHECKING:
    from nova.context import RequestContext

Document = dict[str, Any]


class Claims:
    """
    :param nodes: () -> [(host, node's name, node's uuid)] of the compute hosts that there are
    """

    def __init__(self, conf: ConfigOpts, nodes: Callable[[], list[tuple[str, str, str]]]) -> None:
        self._placement = placement.Placement(conf) if placement_options.enabled(conf) else None
        self._nodes = nodes

    @property
    def there(self) -> bool:
        """Whether ports may request something."""
        return self._placement is not None

    def begin(self, ctx: RequestContext) -> None:
        """Periodic: new hosts get their providers."""
        if self._placement is not None:
            self._placement.begin(ctx, {node: ident for _host, node, ident in self._nodes()})

    @contextlib.contextmanager
    def profile(self, ctx: RequestContext, port: Document, host: str, server: str | None = None) -> Iterator[Document]:
        """Claim what a server's port requests of a host: the profile that its binding there gets in the block. When the
        block fails, the claim is given back.

        :param server: its uuid, where the port does not say so yet
        :raises PortBindingFailed: it is not to be had there
        """
        kept = {name: value for name, value in vifs.profile(port).items() if name != vifs.ALLOCATION}
        if not requests.groups(port):
            yield kept
            return
        if self._placement is None:
            raise vifs.no_guarantee(port)
        owner = server or port['device_id']
        allocation = self._placement.claim(ctx, port, owner, host, self._node(host))
        try:
            yield {**kept, vifs.ALLOCATION: allocation}
        except BaseException:
            self._placement.release(ctx, port['id'], owner, host)
            raise

    def release(self, ctx: RequestContext, port: Document, host: str) -> None:
        """Give back what a server's port has of a host; no request of a port that never had any."""
        if self._placement is not None and (requests.groups(port) or vifs.ALLOCATION in vifs.profile(port)):
            self._placement.release(ctx, port['id'], port['device_id'], host)

    def release_gone(self, ctx: RequestContext, port_id: str, server: str, host: str) -> None:
        """The same of a port that is not there any more."""
        if self._placement is not None:
            self._placement.release(ctx, port_id, server, host)

    def release_server(self, ctx: RequestContext, server: str, project: str, host: str) -> None:
        """Give back what a server that goes still has of its host, by ports that its project took from it."""
        if self._placement is not None:
            self._placement.release_server(ctx, server, project, self._node(host))

    def _node(self, host: str) -> str:
        """Name of a host's provider."""
        return next((node for name, node, _ident in self._nodes() if name == host), host)
