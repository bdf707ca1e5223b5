"""External events of the network and volume services about a server, handled in the server's queue."""
import logging
import typing

from nova import context
from nova import exception
from nova import hooks
from nova import objects
from nova.compute.host import Host
from nova.compute.ports import lost as lost_ports
from nova.compute.ports import plugging
from nova.network import interface
from nova.objects.network_info import Vif
from nova.virt import driver as virt

LOG = logging.getLogger(__name__)
Found = typing.TypeVar('Found')

NETWORK_CHANGES = (interface.NETWORK_CHANGED['name'], plugging.PLUGGED, plugging.UNPLUGGED)


class ExternalEvents:
    """Handles events {'name', 'tag', 'status'}; other events are only logged."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._acts: dict[str, typing.Callable[
            [context.RequestContext, objects.Instance, plugging.Event], None]] = {
            'network-vif-deleted': self._vif_deleted,
            'volume-extended': self._volume_extended,
        }

    def external_instance_event(self, ctx: context.RequestContext, instance: objects.Instance,
                                events: list[plugging.Event]) -> None:
        self._host.plugging.report(instance.uuid, events)
        self._host.submit(instance, self._external_events, ctx, instance, events)

    def _external_events(self, ctx: context.RequestContext, instance: objects.Instance,
                         events: list[plugging.Event]) -> None:
        for event in events:
            LOG.info('Server %s: %s %s %s', instance.uuid, event['name'], event['tag'] or '', event['status'])
            act = self._acts.get(event['name'])
            if act is not None:
                self._try(act, ctx, instance, event)
        changes = [event for event in events if event['name'] in NETWORK_CHANGES]
        if changes:                  # read the ports once for all events, because the Networking service repeats events
            self._try(self._read_ports, ctx, instance, changes)

    @staticmethod
    def _try(act: typing.Callable[[context.RequestContext, objects.Instance, Found], None],
             ctx: context.RequestContext, instance: objects.Instance, events: Found) -> None:
        try:
            act(ctx, instance, events)
        except (exception.InstanceChanged, exception.InstanceNotFound):
            raise
        except Exception:
            LOG.exception('Cannot handle events %s of server %s.', events, instance.uuid)

    def settle_ports(self, ctx: context.RequestContext, instance: objects.Instance, trusted: bool) -> None:
        """Read the server's ports again, because ports/lost.py has found other ports in the network service."""
        try:
            self._read_ports(ctx, instance, [], trusted)
        except (exception.InstanceChanged, exception.InstanceNotFound):
            LOG.info('Server %s is no longer on this host: its ports are not checked.', instance.uuid)
        except exception.NovaException as error:
            LOG.warning('Cannot check the ports of server %s: %s', instance.uuid, error.message)

    def _read_ports(self, ctx: context.RequestContext, instance: objects.Instance,
                    events: list[plugging.Event], trusted: bool = False) -> None:
        """Read the server's ports again, and detach lost ports from the guest.

        The Networking service returns the status of a port. Its plugging events are ignored: they may be late, repeated
        or for ports that were never plugged. With the embedded network, the last plugging event decides the status.
        """
        server = self._current(ctx, instance)
        states = {event['tag']: event['name'] == plugging.PLUGGED and event['status'] == 'completed'
                  for event in events if event['name'] in (plugging.PLUGGED, plugging.UNPLUGGED)}
        shown = {vif['id']: vif['active'] for vif in server.network_info}
        vifs = self._host.network.network_info(ctx, instance_uuid=server.uuid)
        for vif in vifs:
            if 'details' not in vif:
                vif['active'] = states.get(vif['id'], shown.get(vif['id'], vif['active']))
        self._write_network_info(ctx, server, lost_ports.settle(self._host, ctx, server, vifs, trusted))

    def _vif_deleted(self, ctx: context.RequestContext, instance: objects.Instance,
                     event: plugging.Event) -> None:
        """Remove a deleted port from the guest and from the server's ports."""
        server = self._current(ctx, instance)
        for vif in server.network_info:
            if vif['id'] == event['tag']:
                lost_ports.detach(self._host, ctx, server, vif)
        self._write_network_info(ctx, server, [vif for vif in server.network_info if vif['id'] != event['tag']])

    def _volume_extended(self, ctx: context.RequestContext, instance: objects.Instance,
                         event: plugging.Event) -> None:
        """Resize the disk of the guest to the new size if the driver supports this."""
        host = self._host
        server = self._current(ctx, instance)
        devices = [device for device in host.volumes.get_block_devices(ctx, instance_uuid=server.uuid)
                   if device['volume_id'] == event['tag']]
        feature = host.driver.get_feature(virt.ExtendVolume)
        if not devices or feature is None:
            LOG.warning('Cannot resize volume %s in the guest of server %s.', event['tag'], server.uuid)
            return
        device = host.volumes.refresh_volume(ctx, instance_uuid=server.uuid, bdm_uuid=devices[0]['uuid'])
        feature.extend_volume(ctx, server, device)

    @hooks.add_hook('instance_network_info')
    def _write_network_info(self, ctx: context.RequestContext, server: objects.Instance,
                            vifs: list[Vif]) -> None:
        host = self._host
        if vifs != server.network_info:
            host.conductor.update_instance(ctx, instance_uuid=server.uuid, values={'network_info': vifs},
                                           expect={'host': [host.name]})

    def _current(self, ctx: context.RequestContext, instance: objects.Instance) -> objects.Instance:
        """Read the server from the database.

        :raises InstanceChanged, InstanceNotFound: the server is no longer on this host
        """
        host = self._host
        return host.conductor.update_instance(ctx, instance_uuid=instance.uuid, values={},
                                              expect={'host': [host.name]})
