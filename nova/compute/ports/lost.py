"""Lost ports: ports that a server no longer has, but its guest still has as devices, because an event was lost.

The server's row has the ports of the guest; the network service lists the ports of the server. A port that is only in
the row is detached from the guest. An empty list does not prove a loss, because the service's user may have lost
the right to see ports. Devices are therefore detached only if the service lists another port of the server or, at
start-up, a port of any server of the host.
"""
import logging
import typing

from nova import context
from nova import exception
from nova import objects
from nova.objects.network_info import Vif
from nova import states
from nova.compute.host import Host
from nova.compute.ports import interfaces
from nova.runtime import concurrency
from nova.virt import driver as virt

LOG = logging.getLogger(__name__)



def lost(shown: list[Vif], listed: list[Vif]) -> list[Vif]:
    """Return the ports in a server's row that the network service does not list."""
    known = {vif['id'] for vif in listed}
    return [vif for vif in shown if vif['id'] not in known]


def detach(host: Host, ctx: context.RequestContext, server: objects.Instance, vif: Vif) -> None:
    """Detach the device of a deleted port from the guest; release it if it is a PCI device of the host.

    :raises VirtError: the guest does not release the device
    """
    feature = host.driver.get_feature(virt.Interfaces)
    if feature:
        feature.detach_interface(ctx, server, vif)
        if interfaces.is_device(vif):
            host.conductor.release_port_device(ctx, instance_uuid=server.uuid, host=host.name, port_id=vif['id'])


def settle(host: Host, ctx: context.RequestContext, server: objects.Instance, listed: list[Vif],
           trusted: bool) -> list[Vif]:
    """Detach lost ports; return the ports for the server's row: listed ports, and ports that the guest still has.

    :param trusted: the network service lists ports of other servers of the host
    """
    held = []
    for vif in lost(server.network_info, listed):
        if not (listed or trusted):
            LOG.warning('The network service lists no port of server %s: port %s is kept in its guest.', server.uuid,
                        vif['id'])
            held.append(vif)
            continue
        LOG.warning('Port %s of server %s was deleted: it is detached from the guest.', vif['id'], server.uuid)
        try:
            detach(host, ctx, server, vif)
        except exception.VirtError as error:
            LOG.warning('Cannot detach port %s from the guest of server %s: %s', vif['id'], server.uuid, error.message)
            held.append(vif)
    return [*listed, *held]


class LostPorts:
    """Comparison of ports at start-up, in the background, because it waits until a network service answers.

    :param settled: function(ctx, server, trusted) that reads the ports of a server again, in the server's queue
    :param differs: function that returns whether guests are newer than the database, which then may lack their ports
    """

    def __init__(self, host: Host,
                 settled: typing.Callable[[context.RequestContext, objects.Instance, bool], None],
                 differs: typing.Callable[[], bool] = lambda: False) -> None:
        self._host, self._settled, self._differs = host, settled, differs

    def start(self) -> None:
        concurrency.spawn(f'lost-ports-{self._host.name}', self._look)

    def _look(self) -> None:
        try:
            self.look()
        except exception.NovaException as error:
            LOG.warning('Cannot compare the ports of guests with those of servers: %s', error.message)

    def look(self) -> None:
        """Compare the ports of each server that has a guest on this host; queue the servers with lost ports."""
        host, ctx = self._host, context.admin_context()
        if virt.Interfaces not in host.driver.features:
            return
        guests, trusted, differ = host.driver.guests(), False, list[objects.Instance]()
        for entry in host.conductor.instances_on_host(ctx, host=host.name):
            server = entry['instance']
            if host.stopping.is_set():
                return
            if server.uuid not in guests or server.vm_state == states.BUILDING or not server.network_info:
                continue
            listed = host.network.network_info(ctx, instance_uuid=server.uuid)
            trusted = trusted or bool(listed)
            if lost(server.network_info, listed):
                differ.append(server)
        if differ and self._differs():
            LOG.warning('Guests of %d servers keep ports that the network service does not list: they are newer than '
                        'the database.', len(differ))
            return
        for server in differ:
            host.submit(server, self._settled, ctx, server, trusted)
