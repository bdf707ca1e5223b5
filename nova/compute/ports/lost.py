"""Ports that a server has lost and whose devices its guest has still: the event that said so was lost.

What a server shows of its ports is what its guest was given; what the network service lists is what it has. What is
shown and is not listed any more is taken from the guest. A network service that lists nothing proves nothing: its user
may have lost the rights to see ports, and every guest would lose its own. So devices are taken away only where another
port is listed, of the same server or, at the start, of any server of the host.
"""
from __future__ import annotations

import logging
import typing

from nova import context
from nova import exception
from nova import objects
from nova import states
from nova.compute.host import Host
from nova.compute.ports import interfaces
from nova.runtime import concurrency
from nova.virt import driver as virt

LOG = logging.getLogger(__name__)

Vif = dict[str, typing.Any]


def lost(shown: list[Vif], listed: list[Vif]) -> list[Vif]:
    """Of the ports that a server shows, those that the network service does not list."""
    known = {vif['id'] for vif in listed}
    return [vif for vif in shown if vif['id'] not in known]


def detach(host: Host, ctx: context.RequestContext, server: objects.Instance, vif: Vif) -> None:
    """Take the device of a port that is gone from the guest, and give it back when it is one of the host.

    :raises VirtError: the guest holds it
    """
    feature = host.driver.get_feature(virt.Interfaces)
    if feature:
        feature.detach_interface(ctx, server, vif)
        if interfaces.is_device(vif):
            host.conductor.port_gone(ctx, instance_uuid=server.uuid, host=host.name, port_id=vif['id'])


def settle(host: Host, ctx: context.RequestContext, server: objects.Instance, listed: list[Vif],
           trusted: bool) -> list[Vif]:
    """Detach what the server has lost; what it is to show: that which is listed, and what its guest has still.

    :param trusted: the network service lists ports of other servers of the host
    """
    held = []
    for vif in lost(server.network_info, listed):
        if not (listed or trusted):
            LOG.warning('The network service lists no port of server %s: port %s stays in its guest.', server.uuid,
                        vif['id'])
            held.append(vif)
            continue
        LOG.warning('Port %s of server %s is gone: it is taken from the guest.', vif['id'], server.uuid)
        try:
            detach(host, ctx, server, vif)
        except exception.VirtError as error:
            LOG.warning('Port %s stays in the guest of server %s: %s', vif['id'], server.uuid, error.message)
            held.append(vif)
    return [*listed, *held]


class LostPorts:
    """The comparison at the start of the service, in the background: it waits for a network service that is away.

    :param settled: function(ctx, server, trusted) that reads the ports of a server again, in the server's own queue
    :param differs: function: whether guests are newer than the database, which may not know ports either
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
            LOG.warning('The ports of guests are not compared with those of servers: %s', error.message)

    def look(self) -> None:
        """Ask for the ports of each server that has a guest here; queue what is to be done about those that differ."""
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
            LOG.warning('Ports of %d servers are not listed, and stay in their guests: the database is older than the '
                        'guests.', len(differ))
            return
        for server in differ:
            host.submit(server, self._settled, ctx, server, trusted)
