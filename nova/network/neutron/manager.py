"""Network service of a deployment with Neutron: ports of servers and their bindings to hosts.

NeutronManager has the same RPC methods as nova.network.manager. Each process of this service serves all hosts, because
hosts have no Neutron account. nova/network/authority.py authorizes the hosts.
"""
import logging
from collections.abc import Callable
from typing import Any

from oslo_config.cfg import ConfigOpts

from nova import context as nova_context
from nova import exception
from nova.json_types import JsonObject
from nova.network.neutron import documents
from nova.network.neutron.documents import Network
from nova.network.neutron.documents import Port
from nova.network import selection
from nova.network.host import network as host_network
from nova.network.interface import INTERFACE
from nova.network.neutron import bindings
from nova.network.neutron import network_selection
from nova.network.neutron import claims
from nova.network.neutron import client
from nova.network.neutron import devices
from nova.network.neutron import vifs
from nova.objects.instance import Instance
from nova.objects.network_info import PortRequest
from nova.objects.network_info import Vif
from nova.rpc.interface import Methods
from nova.rpc.interface import named

LOG = logging.getLogger(__name__)

Document = dict[str, Any]
COMPUTE = 'compute:'                  # prefix of the device_owner of server ports
DNS = 'dns-integration'               # extension: ports have dns_name


class NeutronManager:
    """RPC methods with a Neutron backend.

    :param conf: the configuration
    :param host_of: function: server uuid -> name of its host, or None. Decides which ports a host may release
    :param nodes: function: () -> [(host, node name, node uuid)] of the compute hosts with claims of ports
    :param project_of: function: server uuid -> id of its project, or None if the server is gone
    """

    methods: Methods

    def __init__(self, conf: ConfigOpts, host_of: Callable[[str], str | None],
                 neutron: client.Neutron | None = None,
                 nodes: Callable[[], list[tuple[str, str, str]]] = list,
                 project_of: Callable[[str], str | None] = lambda uuid: None) -> None:
        self.conf, self._host_of, self._project_of = conf, host_of, project_of
        self.neutron = neutron = neutron or client.Neutron(conf)
        self.claims = claims.Claims(conf, nodes)
        self.bindings = bindings.Bindings(neutron, self.claims)
        self.methods = Methods(INTERFACE, named(
            self.allocate_for_instance, self.deallocate_for_instance, self.attach_port, self.find_port,
            self.detach_port, self.add_address, self.remove_address, self.setup_for_instance, self.unbind_ports,
            self.prepare_for_instance, self.unprepare_for_instance, self.network_info, self.refresh_ports,
            self.report_host, self.report_leases, self.host_state))

    def begin(self) -> None:
        """Periodic task: create resource providers of new hosts."""
        self.claims.begin(network_selection.system())

    # ---- creation and deletion of servers

    def allocate_for_instance(self, context: nova_context.RequestContext, instance: Instance,
                              requested_networks: list[PortRequest] | str | None,
                              security_groups: list[str] | None, host: str) -> list[Vif]:
        """See interface.py. A repeated call creates missing ports, and rebinds ports that are bound to another host."""
        if requested_networks == 'none' or requested_networks == []:
            return []
        ctx = network_selection.system(context)
        there = {vifs.profile(port).get(vifs.POSITION): port for port in self._ports(ctx, instance.uuid)}
        if requested_networks is None or isinstance(requested_networks, str):
            requests = [] if there else self._default(ctx, instance.project_id)
        else:
            requests = selection.normalized(requested_networks) or []
        networks = self._networks(ctx, instance.project_id, requests)
        groups = None
        if security_groups and list(security_groups) != ['default']:
            groups = [group['id'] for group in network_selection.groups(
                self.neutron, ctx, instance.project_id, security_groups)]
        for position, request in enumerate(requests):
            if position in there:
                continue
            profile = {vifs.POSITION: position, **({vifs.TAG: request['tag']} if request.get('tag') else {})}
            there[position] = self._allocate_port(ctx, instance, request, networks, groups, host, profile)
        ports = [self._move(ctx, port, instance, host) for port in there.values()]
        return self._vifs(ctx, ports)

    def _default(self, ctx: nova_context.RequestContext, project_id: str) -> list[PortRequest]:
        """Return the port requests of a server without requested networks."""
        network = network_selection.default_network(self.neutron, ctx, project_id)
        return selection.normalized([{'network_id': network['id']}] if network else []) or []

    def _networks(self, ctx: nova_context.RequestContext, project_id: str,
                  requests: list[PortRequest]) -> dict[str, Network]:
        idents = {str(request['network_id']) for request in requests if request['network_id']}
        return network_selection.usable(self.neutron, ctx, project_id, idents) if idents else {}

    def _allocate_port(self, ctx: nova_context.RequestContext, instance: Instance, request: PortRequest,
                       networks: dict[str, Network], groups: list[str] | None, host: str,
                       profile: Document) -> Port:
        """Bind an existing port of the project, or create a port."""
        zone = instance.availability_zone or self.conf.default_availability_zone
        values: Document = {'device_id': instance.uuid, 'device_owner': COMPUTE + zone, 'binding:host_id': host}
        if request['port_id'] and not request['network_id']:
            missing = exception.PortNotFound(port_id=request['port_id'])
            port = network_selection.check_port(
                self.neutron.show(ctx, documents.PORTS, request['port_id'], missing), request, instance.project_id,
                instance.uuid, self.claims.enabled)
            named = {} if port.get('dns_name') else self._dns_name(ctx, instance)
            with self.claims.profile(ctx, port, host, instance.uuid) as kept:
                values['binding:profile'] = {**kept, **profile, **({vifs.NAMED: True} if named else {}),
                                             **devices.profile(port, instance.devices(), host)}
                return self._assign_port(ctx, port, instance, values | named)
        network = network_selection.check_network(networks, [], {**request, 'fixed_ip': None})
        values |= {'network_id': network['id'], 'project_id': instance.project_id, 'admin_state_up': True,
                   'binding:profile': {**profile, vifs.MADE: True}, **self._dns_name(ctx, instance)}
        if request['fixed_ip']:
            values['fixed_ips'] = [{'ip_address': request['fixed_ip']}]
        if groups is not None and network_selection.groups_are_used(network, groups):
            values['security_groups'] = groups
        port = self.neutron.create(ctx, documents.PORTS, values, exception.NetworkNotFound(network_id=network['id']))
        if port.get('resource_request'):
            self.neutron.delete(ctx, documents.PORTS, port['id'])
            raise exception.NetworkRequestInvalid(
                reason=f'network {network["id"]} has a QoS policy with a guaranteed bandwidth or packet rate. Create a '
                       'port first and pass its id, so that the scheduler selects a host with these resources.')
        return port

    def _dns_name(self, ctx: nova_context.RequestContext, instance: Instance) -> Document:
        """Return {'dns_name': name of the server}, or {} if it has none or this Neutron has no DNS."""
        name = host_network.dns_name(instance)
        return {'dns_name': name} if name and DNS in self.neutron.extensions(ctx) else {}

    def _assign_port(self, ctx: nova_context.RequestContext, port: Port, instance: Instance,
                     values: Document) -> Port:
        """Assign a project's port to the server."""
        missing = exception.PortNotFound(port_id=port['id'])
        try:
            return self.neutron.update(ctx, documents.PORTS, port['id'], values, missing, port.get('revision_number'))
        except exception.NetworkConflict:
            now = self.neutron.show(ctx, documents.PORTS, port['id'], missing)
            if now['device_id'] not in ('', instance.uuid):
                raise exception.PortInUse(port_id=port['id']) from None
            raise

    def deallocate_for_instance(self, context: nova_context.RequestContext, instance_uuid: str,
                                host: str | None) -> None:
        """Delete ports created for the server; unbind ports created by the project.

        :param host: release only ports that no other host has taken over; None: all ports
        """
        ctx, caller = network_selection.system(context), context.sender_host
        ports = self._ports(ctx, instance_uuid)
        if host is not None:
            ports = [port for port in ports if port.get('binding:host_id') in (host, '')]
        if caller is not None and any(port.get('binding:host_id') != caller for port in ports) \
                and self._host_of(instance_uuid) != caller:
            ports = [port for port in ports if port.get('binding:host_id') == caller]
        for port in ports:
            self._release_port(ctx, port)
        of_server = self._host_of(instance_uuid) if host is None else None
        project = self._project_of(instance_uuid) if of_server and caller in (None, of_server) else None
        if of_server and project:
            try:
                self.claims.release_server(ctx, instance_uuid, project, of_server)
            except exception.NovaException as error:         # do not fail: the ports are already released
                LOG.warning('Cannot release claims of detached ports of server %s on %s: %s', instance_uuid,
                            of_server, error)

    def _release_port(self, ctx: nova_context.RequestContext, port: Port) -> None:
        if vifs.profile(port).get(vifs.MADE):
            self.neutron.delete(ctx, documents.PORTS, port['id'])
            return
        self.bindings.forget_others(ctx, port)
        self.claims.release(ctx, port, port.get('binding:host_id') or '')
        kept = {name: value for name, value in vifs.profile(port).items() if name not in vifs.OURS}
        named = {'dns_name': ''} if vifs.profile(port).get(vifs.NAMED) else {}
        try:
            self.neutron.update(ctx, documents.PORTS, port['id'], {
                'device_id': '', 'device_owner': '', 'binding:host_id': '', 'binding:profile': kept, **named},
                exception.PortNotFound(port_id=port['id']))
        except exception.PortNotFound:
            LOG.debug('Port %s was deleted by its owner.', port['id'])

    # ---- migration of servers

    def setup_for_instance(self, context: nova_context.RequestContext, instance: Instance, host: str) -> list[Vif]:
        ctx = network_selection.system(context)
        return self._vifs(ctx, [self._move(ctx, port, instance, host) for port in self._ports(ctx, instance.uuid)])

    def _move(self, ctx: nova_context.RequestContext, port: Port, instance: Instance, host: str) -> Port:
        """Bind the port to the host, with the PCI device that the server has there.

        If ``instance`` has no ``pci_devices``, the port keeps its device.
        """
        if port.get('binding:host_id') == host and not instance.obj_attr_is_set('pci_devices'):
            return self.bindings.move(ctx, port, host)
        profile = {**vifs.profile(port), **devices.profile(port, instance.devices(), host)}
        if profile != vifs.profile(port) and port.get('binding:host_id') == host:    # the host stays; change the device
            port = self.neutron.update(ctx, documents.PORTS, port['id'], {'binding:profile': profile},
                                       exception.PortNotFound(port_id=port['id']))
        return self.bindings.move(ctx, {**port, 'binding:profile': profile}, host)

    def prepare_for_instance(self, context: nova_context.RequestContext, instance: Instance,
                             host: str) -> list[Vif]:
        ctx = network_selection.system(context)
        ports = self._ports(ctx, instance.uuid)
        return self._vifs(ctx, ports, {port['id']: self.bindings.prepare(ctx, port, host) for port in ports})

    def unprepare_for_instance(self, context: nova_context.RequestContext, instance_uuid: str, host: str) -> None:
        ctx = network_selection.system(context)
        for port in self._ports(ctx, instance_uuid):
            if port.get('binding:host_id') != host:
                self.bindings.forget(ctx, port, host)

    def unbind_ports(self, context: nova_context.RequestContext, instance_uuid: str, host: str) -> None:
        ctx = network_selection.system(context)
        for port in self._ports(ctx, instance_uuid):
            if port.get('binding:host_id') == host:
                self.bindings.unbind(ctx, port)

    def network_info(self, context: nova_context.RequestContext, instance_uuid: str) -> list[Vif]:
        ctx = network_selection.system(context)
        return self._vifs(ctx, self._ports(ctx, instance_uuid))

    def refresh_ports(self, context: nova_context.RequestContext, port_ids: list[str]) -> None:
        """Do nothing: Neutron's agents apply changes."""

    def report_host(self, context: nova_context.RequestContext, host: str, address: str, routers: bool,
                    version: int = 0, guarantees: Document | None = None) -> None:
        """Refuse agents of this network service; raises InvalidInput (always; Neutron has its own agents)."""
        raise exception.InvalidInput(reason='[network] backend is neutron: its hosts have no agent of this network '
                                            'service. Remove [network] agent from their configuration.')

    def report_leases(self, context: nova_context.RequestContext, host: str, leases: list[Document]) -> None:
        """Refuse; see report_host.

        :raises InvalidInput: always
        """
        self.report_host(context, host, '', False)

    def host_state(self, context: nova_context.RequestContext, host: str, physical_networks: dict[str, str],
                   address: str, applied_state: JsonObject | None = None) -> None:
        """Refuse; see report_host.

        :raises InvalidInput: always
        """
        self.report_host(context, host, address, False)

    # ---- ports of existing servers

    def attach_port(self, context: nova_context.RequestContext, instance: Instance, request: PortRequest,
                    attached_by: str, host: str) -> Vif:
        ctx = network_selection.system(context)
        ports = self._ports(ctx, instance.uuid)
        port = _find_port(ports, str(request['port_id']), attached_by)
        if port is None:
            position = 1 + max((vifs.profile(each).get(vifs.POSITION, -1) for each in ports), default=-1)
            profile = {vifs.POSITION: position, vifs.REQUEST: attached_by, vifs.KEY: request['port_id'],
                       **({vifs.TAG: request['tag']} if request.get('tag') else {})}
            networks = self._networks(ctx, instance.project_id, [request])
            if any(each['id'] == request['port_id'] for each in ports):
                raise exception.PortInUse(port_id=request['port_id'])
            port = self._allocate_port(ctx, instance, request, networks, None, host, profile)
        port = self.bindings.move(ctx, port, host)
        return self._vifs(ctx, [port])[0]

    def find_port(self, context: nova_context.RequestContext, instance_uuid: str, port_id: str,
                  attached_by: str | None) -> Vif | None:
        ctx = network_selection.system(context)
        port = _find_port(self._ports(ctx, instance_uuid), port_id, attached_by)
        return self._vifs(ctx, [port])[0] if port else None

    def detach_port(self, context: nova_context.RequestContext, instance_uuid: str, port_id: str,
                    attached_by: str | None, host: str) -> None:
        ctx = network_selection.system(context)
        port = _find_port(self._ports(ctx, instance_uuid), port_id, attached_by)
        if port is not None:
            self._release_port(ctx, port)
        else:
            self.claims.release_deleted(ctx, port_id, instance_uuid, host)

    def add_address(self, context: nova_context.RequestContext, instance_uuid: str, network_id: str,
                    known_addresses: list[str], host: str) -> None:
        ctx = network_selection.system(context)
        ports = [port for port in self._ports(ctx, instance_uuid) if port['network_id'] == network_id]
        if not ports:
            raise exception.NetworkNotFound(network_id=network_id)
        if any(ip['ip_address'] not in known_addresses for port in ports for ip in port['fixed_ips']):
            return
        port = ports[0]
        subnets = self.neutron.list(ctx, documents.SUBNETS, network_id=network_id, ip_version=4)
        if not subnets:
            raise exception.NetworkRequestInvalid(reason=f'network {network_id} has no IPv4 subnet.')
        used = {ip['subnet_id'] for ip in port['fixed_ips']}
        chosen = next((subnet['id'] for subnet in subnets if subnet['id'] in used), subnets[0]['id'])
        self.neutron.update(ctx, documents.PORTS, port['id'],
                            {'fixed_ips': [*port['fixed_ips'], {'subnet_id': chosen}]},
                            exception.PortNotFound(port_id=port['id']), port.get('revision_number'))

    def remove_address(self, context: nova_context.RequestContext, instance_uuid: str, address: str,
                       host: str) -> None:
        ctx = network_selection.system(context)
        for port in self._ports(ctx, instance_uuid):
            left = [ip for ip in port['fixed_ips'] if ip['ip_address'] != address]
            if left != port['fixed_ips']:
                self.neutron.update(ctx, documents.PORTS, port['id'], {'fixed_ips': left},
                                    exception.PortNotFound(port_id=port['id']), port.get('revision_number'))
                break

    # ---- reading

    def _ports(self, ctx: nova_context.RequestContext, instance_uuid: str) -> list[Port]:
        """Return a server's ports in order. They belong to its project and have the binding profile key POSITION.

        A port's owner may set device_id and device_owner to any values, but only services write the profile. The key
        may remain from a server of another project, so projects are compared. Subports have the device_owner of trunks.
        If this cell has no row of the server, ports of any project count, so that its ports can be released.
        """
        rows = self.neutron.list(ctx, documents.PORTS, device_id=instance_uuid)
        project_id = self._project_of(instance_uuid) if rows else None
        return vifs.sort_ports([row for row in rows if row['device_owner'].startswith(COMPUTE)
                                and vifs.POSITION in vifs.profile(row) and project_id in (None, row['project_id'])])

    def _vifs(self, ctx: nova_context.RequestContext, ports: list[Port],
              prepared: dict[str, documents.Binding] | None = None) -> list[Vif]:
        """Return the VIFs of ports. ``prepared``: {port id: inactive binding to show}."""
        if not ports:
            return []
        networks = {row['id']: row for row in self.neutron.list(
            ctx, documents.NETWORKS, id={port['network_id'] for port in ports})}
        subnets = self.neutron.list(ctx, documents.SUBNETS, id={
            ip['subnet_id'] for port in ports for ip in port['fixed_ips']})
        subnets.sort(key=lambda row: (row.get('created_at') or '', row['id']))
        floating: dict[str, dict[str, list[str]]] = {}
        if 'router' in self.neutron.extensions(ctx):
            for row in self.neutron.list(ctx, documents.FLOATING_IPS, port_id={port['id'] for port in ports}):
                floating.setdefault(row['port_id'], {}).setdefault(
                    row['fixed_ip_address'], []).append(row['floating_ip_address'])
        return [vifs.vif(port, networks[port['network_id']], subnets, floating.get(port['id'], {}),
                         (prepared or {}).get(port['id'])) for port in vifs.sort_ports(ports)]


def _find_port(ports: list[Port], key: str, attached_by: str | None) -> Port | None:
    """Return the port with ``key`` as its id or as its binding profile key KEY, or None."""
    for port in ports:
        profile = vifs.profile(port)
        if key in (port['id'], profile.get(vifs.KEY)) and attached_by in (None, profile.get(vifs.REQUEST)):
            return port
    return None
