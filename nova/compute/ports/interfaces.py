"""Ports and addresses that a server gains and loses after its build."""

from nova import context
from nova import objects
from nova.compute import background_actions
from nova.compute import device_addresses
from nova.compute.host import Host
from nova.objects.network_info import DeletedPort
from nova.objects.network_info import PortRequest
from nova.objects.network_info import Vif
from nova.virt import driver as virt


def is_device(vif: Vif) -> bool:
    """Return whether a port uses a PCI device of the host; the device must be released with the port."""
    return bool(vif.get('pci_slot'))


def _devices_of(server: objects.Instance, port_id: str) -> list[DeletedPort]:
    """Return the PCI devices of a deleted port, which the guest may still have."""
    return [{'id': port_id, 'pci_slot': device.address, 'address': None} for device in server.devices()
            if device.request_id == port_id]


class Interfaces:
    """Attaches and detaches ports, adds and removes fixed addresses."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def attach_interface(self, ctx: context.RequestContext, instance: objects.Instance, port_id: str,
                         network_id: str | None, fixed_ip: str | None, tag: str | None) -> Vif:
        """Allocate a port for the server and plug it; return the port's VIF.

        :param port_id: id of an existing port, or of the new port in ``network_id``
        :raises NetworkNotFound, PortNotFound, PortInUse, FixedIpInUse, NoMoreFixedIps, NetworkRequestInvalid,
            QuotaExceeded, VirtError: everything is rolled back
        """
        request: PortRequest = {'port_id': port_id, 'network_id': network_id, 'fixed_ip': fixed_ip, 'tag': tag}
        return self._host.queue.run(instance.uuid, self._attach_interface, ctx, instance, request,
                                    project_id=instance.project_id)

    def _attach_interface(self, ctx: context.RequestContext, instance: objects.Instance,
                          request: PortRequest) -> Vif:
        host = self._host
        with background_actions.action(host, ctx, instance, 'compute_attach_interface') as current:
            server, plugged = current.instance, list[Vif]()
            current.undo(self._take_back, ctx, server, request['port_id'] or '', plugged)
            vif = host.network.attach_port(ctx, instance=server, request=request, attached_by=ctx.request_id,
                                           host=host.name)
            driver = host.driver_with(virt.Interfaces)
            plugged.append(vif)
            current.insists = is_device(vif)
            driver.attach_interface(ctx, server, vif)
            device_addresses.record(host, ctx, server, device_addresses.has_tags([vif]))
            current.ends(network_info=host.set_up_networks(ctx, server))
        return vif

    def _take_back(self, ctx: context.RequestContext, server: objects.Instance, port_id: str,
                   plugged: list[Vif]) -> None:
        """Unplug the port and release it. If the guest keeps a PCI device, the server keeps device and port."""
        try:
            for vif in plugged:
                self._host.driver_with(virt.Interfaces).detach_interface(ctx, server, vif)
        except Exception:
            if not any(map(is_device, plugged)):
                self._give_back(ctx, server, port_id)
            raise
        self._give_back(ctx, server, port_id)

    def _give_back(self, ctx: context.RequestContext, server: objects.Instance, port_id: str) -> None:
        self._host.network.detach_port(ctx, instance_uuid=server.uuid, port_id=port_id, attached_by=ctx.request_id,
                                       host=self._host.name)

    def abandon_interface(self, ctx: context.RequestContext, instance: objects.Instance, port_id: str,
                          **_request: object) -> None:
        """Roll back an attachment that a restart interrupted: the caller of attach_interface has received an error."""
        self._host.submit(instance, self._abandon_interface, ctx, instance, port_id)

    def _abandon_interface(self, ctx: context.RequestContext, instance: objects.Instance, port_id: str) -> None:
        host = self._host
        with background_actions.action(host, ctx, instance, 'compute_attach_interface') as current:
            server = current.instance
            vif = host.network.find_port(ctx, instance_uuid=server.uuid, port_id=port_id,
                                         attached_by=ctx.request_id)
            if vif:
                if is_device(vif):
                    current.keep()
                    current.insists = True
                host.driver_with(virt.Interfaces).detach_interface(ctx, server, vif)
                self._give_back(ctx, server, port_id)
            current.ends(network_info=host.set_up_networks(ctx, server))
            current.fails('The service was restarted while the port was being attached.')

    def detach_interface(self, ctx: context.RequestContext, instance: objects.Instance, port_id: str) -> None:
        """Unplug a port and release it; idempotent, so it is repeated after a crash."""
        self._host.submit(instance, self._detach_interface, ctx, instance, port_id)

    def _detach_interface(self, ctx: context.RequestContext, instance: objects.Instance, port_id: str) -> None:
        host = self._host
        with background_actions.action(host, ctx, instance, 'compute_detach_interface') as current:
            server = current.instance
            vif = host.network.find_port(ctx, instance_uuid=server.uuid, port_id=port_id, attached_by=None)
            shown = [vif for vif in server.network_info if vif['id'] == port_id]
            for plugged in [vif] if vif else shown or _devices_of(server, port_id):
                host.driver_with(virt.Interfaces).detach_interface(ctx, server, plugged)
            host.network.detach_port(ctx, instance_uuid=server.uuid, port_id=port_id, attached_by=None,
                                     host=host.name)
            current.ends(network_info=host.set_up_networks(ctx, server))

    # ---- addresses

    def add_fixed_ip(self, ctx: context.RequestContext, instance: objects.Instance, network_id: str) -> None:
        self._host.submit(instance, self._add_fixed_ip, ctx, instance, network_id)

    def _add_fixed_ip(self, ctx: context.RequestContext, instance: objects.Instance, network_id: str) -> None:
        host, uuid = self._host, instance.uuid
        with background_actions.action(host, ctx, instance, 'compute_add_fixed_ip') as current:
            vifs = host.network.network_info(ctx, instance_uuid=uuid)
            known = [ip['address'] for vif in vifs for subnet in vif['network']['subnets'] for ip in subnet['ips']]
            host.network.add_address(ctx, instance_uuid=uuid, network_id=network_id, known_addresses=known,
                                     host=host.name)
            current.ends(network_info=host.set_up_networks(ctx, current.instance))

    def abandon_fixed_ip(self, ctx: context.RequestContext, instance: objects.Instance, network_id: str) -> None:
        """Mark an interrupted request for an address as failed, and read the server's addresses again."""
        self._host.submit(instance, self._abandon_fixed_ip, ctx, instance)

    def _abandon_fixed_ip(self, ctx: context.RequestContext, instance: objects.Instance) -> None:
        with background_actions.action(self._host, ctx, instance, 'compute_add_fixed_ip') as current:
            current.ends(network_info=self._host.set_up_networks(ctx, current.instance))
            current.fails('The service was restarted while the address was being added.')

    def remove_fixed_ip(self, ctx: context.RequestContext, instance: objects.Instance, address: str) -> None:
        self._host.submit(instance, self._remove_fixed_ip, ctx, instance, address)

    def _remove_fixed_ip(self, ctx: context.RequestContext, instance: objects.Instance, address: str) -> None:
        host = self._host
        with background_actions.action(host, ctx, instance, 'compute_remove_fixed_ip') as current:
            host.network.remove_address(ctx, instance_uuid=instance.uuid, address=address, host=host.name)
            current.ends(network_info=host.set_up_networks(ctx, current.instance))
