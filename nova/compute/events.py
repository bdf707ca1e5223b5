"""What the services of networks and volumes tell about a server: acted upon in the server's own queue."""
import logging

from nova import exception
from nova import hooks
from nova.virt import driver as virt

LOG = logging.getLogger(__name__)

# name of an event -> method; the others are only told (nobody here waits for them)
ACT = {
    'network-changed': '_network_changed',
    'network-vif-plugged': '_network_changed',
    'network-vif-unplugged': '_network_changed',
    'network-vif-deleted': '_vif_deleted',
    'volume-extended': '_volume_extended',
}


class ExternalEvents:
    """The part of the compute's manager that hears of events; mixed into it."""

    def external_instance_event(self, ctx, instance, events):
        self.queue.submit(instance.uuid, self._external_events, ctx, instance, events)

    def _external_events(self, ctx, instance, events):
        for event in events:
            LOG.info('Server %s: %s %s %s', instance.uuid, event['name'], event['tag'] or '', event['status'])
            act = ACT.get(event['name'])
            if act is None:
                continue
            try:
                getattr(self, act)(ctx, instance, event)
            except (exception.InstanceChanged, exception.InstanceNotFound):
                raise
            except Exception:
                LOG.exception('Event %s of server %s could not be acted upon.', event['name'], instance.uuid)

    def _network_changed(self, ctx, instance, event):
        """Read the server's ports again; an event about one port says whether that one is plugged."""
        server = self._still_here(ctx, instance)
        told = {'network-vif-plugged': event['status'] == 'completed', 'network-vif-unplugged': False}
        shown = {vif['id']: vif['active'] for vif in server.network_info}
        vifs = self.network.network_info(ctx, instance_uuid=server.uuid)
        for vif in vifs:
            vif['active'] = shown.get(vif['id'], vif['active'])
            if vif['id'] == event['tag'] and event['name'] in told:
                vif['active'] = told[event['name']]
        self._write_network_info(ctx, server, vifs)

    def _vif_deleted(self, ctx, instance, event):
        """The port is gone: it leaves the guest, and what the server shows."""
        server = self._still_here(ctx, instance)
        for vif in server.network_info:
            if vif['id'] == event['tag'] and isinstance(self.driver, virt.Interfaces):
                self.driver.detach_interface(ctx, server, vif)
        self._write_network_info(ctx, server, [vif for vif in server.network_info if vif['id'] != event['tag']])

    def _volume_extended(self, ctx, instance, event):
        """The guest sees the new size, where the driver can show it."""
        server = self._still_here(ctx, instance)
        devices = [device for device in self.conductor.get_block_devices(ctx, instance_uuid=server.uuid)
                   if device['volume_id'] == event['tag']]
        if not devices or not isinstance(self.driver, virt.ExtendVolume):
            LOG.warning('Volume %s of server %s keeps its size in the guest.', event['tag'], server.uuid)
            return
        device = self.conductor.refresh_volume(ctx, instance_uuid=server.uuid, bdm_uuid=devices[0]['uuid'])
        self.driver.extend_volume(ctx, server, device)

    @hooks.add_hook('instance_network_info')
    def _write_network_info(self, ctx, server, vifs):
        if vifs != server.network_info:
            self.conductor.update_instance(ctx, instance_uuid=server.uuid, values={'network_info': vifs},
                                           expect={'host': [self.host]})

    def _still_here(self, ctx, instance):
        """The server as it is now.

        :raises InstanceChanged, InstanceNotFound: it has left this host meanwhile
        """
        return self.conductor.update_instance(ctx, instance_uuid=instance.uuid, values={},
                                              expect={'host': [self.host]})
