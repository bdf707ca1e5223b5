"""Network state of a migrating server on its destination host."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova.db.engine import Connection
from nova.db.networks import ports

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.network import gateways
    from nova.network.host.network import HostNetwork
    from nova.objects.instance import Instance


class Migrations:
    """RPC methods for migrating servers.

    :param hosts: gateways.Gateways of the service
    """

    def __init__(self, network: HostNetwork, hosts: gateways.Gateways) -> None:
        self._network, self._hosts = network, hosts

    def prepare_for_instance(self, context: RequestContext, instance: Instance, host: str) -> list[dict[str, str]]:
        """Prepare the destination host; see interface.py."""
        def prepare(conn: Connection) -> list[dict[str, str]]:
            ports.expect(conn, instance.uuid, host)
            return self._network.vifs(conn, ports.of_device(conn, instance.uuid))
        vifs = self._network.api_db.run(prepare)
        if vifs:
            self._follow(host)
        return vifs

    def unprepare_for_instance(self, context: RequestContext, instance_uuid: str, host: str) -> None:
        if self._network.api_db.run(ports.forget_expected, instance_uuid, host):
            self._follow(host)

    def _follow(self, host: str) -> None:
        """Refresh all hosts, because each must know the migration before the guest runs at its destination."""
        if host == self._network.host or self._hosts.others:
            self._network.refresh()

    def network_info(self, context: RequestContext, instance_uuid: str) -> list[dict[str, str]]:
        with self._network.api_db.reader() as conn:
            return self._network.vifs(conn, ports.of_device(conn, instance_uuid))
