"""Attach, find and detach ports of existing servers, idempotently."""
import uuid

from oslo_config.cfg import ConfigOpts

from nova import context as nova_context
from nova import exception
from nova.db.engine import Connection
from nova.db.networks import networks
from nova.db.networks import ports
from nova.db.networks import routers
from nova.db.networks import security_groups
from nova.db.tables import network as t
from nova.db.tables import rows as db_rows
from nova.network import ipam
from nova.network import quotas
from nova.network import security
from nova.network import selection
from nova.network.host import network as host_network
from nova.objects.instance import Instance
from nova.objects.network_info import PortRequest
from nova.objects.network_info import Vif

_WithSubnets = tuple[db_rows.NetworksRow, list[db_rows.SubnetsRow]]


class Attachments:
    """Attach and detach one port of a server, and change its addresses.

    ``attached_by`` is the id of the request that attaches the port. A retry finds the port by this id and attaches no
    second port. The rollback of a request detaches only ports that this request attached.
    """

    def __init__(self, network: host_network.HostNetwork) -> None:
        self._network = network

    def attach_port(self, context: nova_context.RequestContext, instance: Instance, request: PortRequest,
                    attached_by: str, host: str) -> Vif:
        """Attach a port; see interface.py."""
        found = self._network.api_db.run(ipam.retry_on_duplicate(self._attach), instance, request, attached_by, host)
        if host == self._network.host:
            self._network.refresh()
        return found

    def _attach(self, conn: Connection, instance: Instance, request: PortRequest, attached_by: str,
                host: str) -> Vif:
        project_id, port_id = instance.project_id, request['port_id']
        assert port_id is not None               # the caller has chosen the id of a new port
        port = ports.lock_many(conn, [port_id]).get(port_id)
        if port is not None and port['device_id'] == instance.uuid and port['attached_by'] == attached_by:
            return self._vif_of(conn, port)
        if request['network_id']:
            quotas.check(conn, self._network.conf, 'port', project_id)
        network_id = request['network_id'] or (port['network_id'] if port else None)
        known = networks.usable(conn, project_id, {network_id} if network_id else set(), lock=True)
        others = ports.of_device(conn, instance.uuid)
        binding: host_network.Binding = {
            **self._network.binding(instance, host), 'attached_by': attached_by, 'tag': request['tag'],
            'position': max((other['position'] for other in others), default=-1) + 1}
        if request['network_id'] is None:
            bound = bind(conn, port, request, project_id, binding)
            host_network.claim_guarantees(conn, host, [bound], known)
            return self._vif_of(conn, bound)
        network, subnets = selection.usable_network(known, request['network_id'], project_id)
        made: host_network.ServerPort = {**new_port(project_id, network, {
            **binding, 'dns_name': host_network.dns_name(instance)}), 'id': port_id}
        _claim_now(conn, self._network.conf, network, subnets, made, request['fixed_ip'])
        networks.insert(conn, t.ports, [{**made}])
        host_network.claim_guarantees(conn, host, [made], known)
        if made['port_security_enabled']:
            security_groups.bind(conn, [(port_id, group) for group in security.resolve(conn, project_id, None)])
        return self._vif_of(conn, made)

    def find_port(self, context: nova_context.RequestContext, instance_uuid: str, port_id: str,
                  attached_by: str | None) -> Vif | None:
        with self._network.api_db.reader() as conn:
            port = ports.of_ids(conn, [port_id]).get(port_id)
            if port is None or port['device_id'] != instance_uuid:
                return None
            if attached_by is not None and port['attached_by'] != attached_by:
                return None
            return self._vif_of(conn, port)

    def detach_port(self, context: nova_context.RequestContext, instance_uuid: str, port_id: str,
                    attached_by: str | None, host: str) -> None:
        if self._network.api_db.run(ports.give_back_one, port_id, instance_uuid, attached_by):
            self._network.refresh()

    def add_address(self, context: nova_context.RequestContext, instance_uuid: str, network_id: str,
                    known_addresses: list[str], host: str) -> None:
        """Add an address; see interface.py.

        :param known_addresses: the server's addresses before the call
        """
        self._network.api_db.run(ipam.retry_on_duplicate(self._add_address), instance_uuid, network_id,
                                 frozenset(known_addresses))
        self._network.refresh()

    def _add_address(self, conn: Connection, instance_uuid: str, network_id: str, known: frozenset[str]) -> None:
        usable = networks.usable(conn, nova_context.ALL_PROJECTS, {network_id}, lock=True)
        on_network = [port for port in ports.of_device(conn, instance_uuid) if port['network_id'] == network_id]
        if not on_network:
            raise exception.NetworkNotFound(network_id=network_id)
        port_id = on_network[0]['id']
        held = networks.addresses_of(conn, [port_id]).get(port_id, ())
        if known.issuperset(entry['ip_address'] for entry in held):
            _claim_now(conn, self._network.conf, *_of_version_4(usable[network_id]), on_network[0], None)

    def remove_address(self, context: nova_context.RequestContext, instance_uuid: str, address: str, host: str) -> None:
        def remove(conn: Connection) -> None:
            idents = [port['id'] for port in ports.of_device(conn, instance_uuid)]
            ports.lock_many(conn, idents)
            held = networks.addresses_of(conn, idents)
            for port_id in idents:
                if any(entry['ip_address'] == address for entry in held.get(port_id, ())):
                    networks.release_some(conn, port_id, [address])
                    routers.forget_addresses(conn, port_id, [address])
                    break
        self._network.api_db.run(remove)
        self._network.refresh()

    def _vif_of(self, conn: Connection, port: db_rows.PortsRow | host_network.ServerPort) -> Vif:
        return self._network.vifs(conn, [port])[0]


def new_port(project_id: str, network: db_rows.NetworksRow, binding: host_network.Binding) -> host_network.ServerPort:
    """Return the row of a new port of a server, with the port security of the network."""
    return {'id': str(uuid.uuid4()), 'project_id': project_id, 'network_id': network['id'], 'name': '',
            'mac_address': ipam.new_mac(), 'admin_state_up': True, 'created_by_compute': True, 'description': '',
            'port_security_enabled': has_port_security(network), **binding}


def has_port_security(network: db_rows.NetworksRow) -> bool:
    """Return whether new server ports in a network have port security."""
    # always on in flat networks, because projects share them
    return bool(network['port_security_enabled'] or network['network_type'] == networks.FLAT)


def _of_version_4(found: _WithSubnets) -> _WithSubnets:
    """Return the network with the subnets for one more address: the IPv4 subnets, or all subnets if none is IPv4."""
    network, subnets = found
    return network, [subnet for subnet in subnets if subnet['ip_version'] == 4] or subnets


def claim(allocator: ipam.AddressAllocator, network: db_rows.NetworksRow, subnets: list[db_rows.SubnetsRow],
          port: db_rows.PortsRow | host_network.ServerPort, address: str | None) -> list[dict[str, str]]:
    """Claim ``address`` for a port, or free addresses if ``address`` is None. Return [{'subnet_id', 'ip_address'}].

    :param port: id, MAC, project and device_owner of the port
    :raises NetworkRequestInvalid: guests cannot use the address, or only the network's owner may use it
    :raises FixedIpInUse, NoMoreFixedIps:
    """
    wanted = [{'ip_address': address}] if address else []
    try:
        return allocator.claim(network['id'], subnets, port['id'], wanted, port['mac_address'],
                               anywhere=port['project_id'] == network['project_id'], owner=port['device_owner'])
    except exception.InvalidInput as error:
        raise exception.NetworkRequestInvalid(reason=error.kwargs['reason'])


def _claim_now(conn: Connection, conf: ConfigOpts, network: db_rows.NetworksRow, subnets: list[db_rows.SubnetsRow],
               port: db_rows.PortsRow | host_network.ServerPort, address: str | None) -> None:
    allocator = ipam.AddressAllocator(conn, ipam.quarantine_cutoff(conf.network.dhcp_lease_time))
    claim(allocator, network, subnets, port, address)
    allocator.store()


def bind(conn: Connection, port: db_rows.PortsRow | None, request: PortRequest, project_id: str,
         binding: host_network.Binding) -> db_rows.PortsRow:
    """Bind a user's port to the server."""
    if port is None or port['project_id'] != project_id:
        raise exception.PortNotFound(port_id=request['port_id'])
    if port['device_id'] or not ports.bind(conn, port['id'], {**binding}):
        raise exception.PortInUse(port_id=port['id'])
    return {**port, **binding}
