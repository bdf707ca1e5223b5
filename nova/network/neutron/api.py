"""Network operations for the compute API with Neutron; the class has the same methods as nova.network.api.API."""
from collections.abc import Callable, Collection
from typing import Any

from oslo_config.cfg import ConfigOpts
from oslo_utils import timeutils

from nova import exception
from nova.conf.placement import placement as placement_options
from nova.context import RequestContext
from nova.network.neutron import documents
from nova.network.neutron.documents import Network
from nova.network.neutron.documents import Port
from nova.network.neutron.documents import Subnet
from nova.network import selection
from nova.network.neutron import network_selection
from nova.network.neutron import client
from nova.network.neutron import devices
from nova.network.neutron import floating
from nova.network.neutron import groups
from nova.network.neutron import vifs
from nova.objects.network_info import PortRequest
from nova.objects import pci
from nova.runtime import rest_client

Document = dict[str, Any]
_NETWORKS: documents.Kind[Document] = documents.Kind('networks')         # documents that the compute API shows
DEFAULT = 'default'


class API:
    """Counterpart of nova.network.api.API. Requests to Neutron carry the caller's token.

    :param conf: the configuration
    """

    def __init__(self, conf: ConfigOpts, neutron: client.Neutron | None = None) -> None:
        self.conf, self.neutron = conf, neutron or client.Neutron(conf)
        self._guaranteed = placement_options.enabled(conf)

    def groups_of(self, context: RequestContext) -> groups.Groups:
        """Return the operations on security groups for the caller."""
        return groups.Groups(self.neutron, context)

    def floating_ips_of(self, context: RequestContext) -> floating.FloatingIps:
        """Return the operations on floating addresses for the caller."""
        return floating.FloatingIps(self.neutron, context, self.conf.neutron.default_floating_pool)

    # ---- checks of requests

    def validate_networks(self, context: RequestContext, requested: list[PortRequest] | str | None,
                          count: int = 1, guarantees: bool = True,
                          groups: Collection[str] = ()) -> selection.CheckedNetworks:
        neutron, project_id = self.neutron, str(context.project_id)
        if requested == 'none' or requested == []:
            return selection.CheckedNetworks(requested, False)
        if requested is None or isinstance(requested, str):
            network = network_selection.default_network(neutron, context, project_id)
            if network is None and requested == 'auto':
                if network_selection.AUTO not in neutron.extensions(context):
                    raise exception.NetworkRequestInvalid(reason='no network is available to the project.')
                network_selection.topology(neutron, context, project_id, dry_run=True)
            return selection.CheckedNetworks(
                requested if network is None else None,
                network is None or network_selection.groups_are_used(network, groups))
        ports, networks, subnets = self._named(context, requested)
        for request in requested:
            self._check(project_id, ports, networks, subnets, request, count)
        if not guarantees and any(port.get('resource_request') for port in ports.values()):
            raise exception.NetworkRequestInvalid(
                reason='servers with ports that request a bandwidth or packet rate need microversion 2.72 or '
                       'later.')
        secured = [network_selection.groups_are_used(networks[str(request['network_id'])], groups)
                   for request in requested if not request.get('port_id')]
        self._check_room(context, sum(not request.get('port_id') for request in requested) * count)
        known = self._group_names(context, ports.values())
        return selection.CheckedNetworks(requested, any(secured), self._devices(context, ports.values()),
                                         tuple(sorted(set(known.values()))))

    def ensure_network(self, context: RequestContext) -> None:
        project_id = str(context.project_id)
        if network_selection.default_network(self.neutron, context, project_id) is None:
            network_selection.topology(self.neutron, context, project_id, dry_run=False)

    def _devices(self, context: RequestContext, ports: Collection[Port]) -> tuple[pci.Request, ...]:
        """Return requests for the PCI devices that ports need on a host.

        :raises NetworkRequestInvalid: the network of such a port has no physical network
        """
        found = [port for port in ports if devices.vnic_type(port) in devices.TYPES]
        if not found:
            return ()
        if not self.neutron.has_account:
            raise exception.NetworkRequestInvalid(reason='ports with a vnic_type other than normal need an account in '
                                                         '[neutron] that sees physical networks.')
        networks = {row['id']: row for row in self.neutron.list(
            network_selection.system(context), documents.NETWORKS, id={port['network_id'] for port in found})}
        return tuple(request for port in found if (request := devices.request(port, networks[port['network_id']])))

    def _named(self, context: RequestContext, requested: list[PortRequest],
               ) -> tuple[dict[str, Port], dict[str, Network], list[Subnet]]:
        """Return (ports, networks, subnets) named in requests, as the caller sees them.

        Ports are read twice: as the caller, to check visibility, and as the system, to get resource_request.
        """
        neutron = self.neutron
        wanted = {str(request['port_id']) for request in requested if request.get('port_id')}
        ports = {port['id']: port for port in neutron.list(context, documents.PORTS, id=wanted)}
        if ports and neutron.has_account:            # only administrators get resource_request
            found = neutron.list(network_selection.system(context), documents.PORTS, id=set(ports))
            ports = {port['id']: port for port in found}
        idents = {str(request['network_id']) for request in requested if request.get('network_id')}
        networks = network_selection.usable(neutron, context, str(context.project_id), idents) if idents else {}
        fixed = {str(request['network_id']) for request in requested if request.get('fixed_ip')}
        return ports, networks, neutron.list(context, documents.SUBNETS, network_id=fixed) if fixed else []

    def _check(self, project_id: str, ports: dict[str, Port], networks: dict[str, Network],
               subnets: list[Subnet], request: PortRequest, count: int) -> None:
        if count > 1 and (request.get('port_id') or request.get('fixed_ip')):
            raise exception.NetworkRequestInvalid(reason='a port or a fixed IP can be used by one server only.')
        try:
            if request.get('port_id'):
                network_selection.check_port(ports.get(str(request['port_id'])), request, project_id,
                                             guaranteed=self._guaranteed)
            else:
                network_selection.check_network(networks, subnets, request)
        except exception.NotFound as error:
            raise exception.NetworkRequestInvalid(reason=error.message) from None

    def _check_room(self, context: RequestContext, wanted: int) -> None:
        """Check the project's port quota; raises PortLimitExceeded (the quota does not allow so many ports)."""
        if not wanted or 'quota_details' not in self.neutron.extensions(context):
            return
        missing = exception.NotFound()
        path = f'/quotas/{rest_client.checked(str(context.project_id), missing)}/details'
        port = self.neutron.call(context, 'GET', path, missing)['quota']['port']
        used = port['used'] + port['reserved']
        if 0 <= port['limit'] < used + wanted:
            raise exception.PortLimitExceeded(
                reason=f'{wanted} ports are needed, {used} of {port["limit"]} ports of the project are in use.')

    def check_attach(self, context: RequestContext, project_id: str, server_networks: set[str],
                     request: PortRequest) -> selection.CheckedNetworks:
        if not request['port_id'] and not request['network_id']:
            usable = network_selection.usable(
                self.neutron, context, project_id, server_networks) if server_networks else {}
            chosen = next(iter(usable.values())) if len(usable) == 1 else network_selection.default_network(
                self.neutron, context, project_id)
            if chosen is None:
                raise exception.NetworkRequestInvalid(reason='no network is available to the project.')
            request = {**request, 'network_id': chosen['id']}
        ports, networks, subnets = self._named(context, [request])
        if request['port_id']:
            network_selection.check_port(
                ports.get(request['port_id']), request, project_id, guaranteed=self._guaranteed)
        else:
            network_selection.check_network(networks, subnets, request)
        return selection.CheckedNetworks([request], devices=self._devices(context, ports.values()))

    def check_detach(self, context: RequestContext, project_id: str, instance_uuid: str,
                     port_id: str | None = None) -> None:
        """Do nothing: Neutron checks the user's token."""

    def check_addresses(self, context: RequestContext, instance_uuid: str) -> None:
        """Do nothing: Neutron checks the user's token."""

    def check_security_groups(self, context: RequestContext, names: list[str]) -> list[str]:
        wanted = [name for name in names or () if name != DEFAULT]
        known: dict[str, str] = {}
        for row in network_selection.groups(self.neutron, context, str(context.project_id), wanted):
            known[row['id']] = row['name']
        return list(dict.fromkeys(known.get(name, name) for name in names or ()))

    # ---- security groups of servers

    def security_groups_for(self, context: RequestContext,
                            instance_uuids: list[str]) -> dict[str, list[documents.Group]]:
        ports = self.neutron.list(context, documents.PORTS, device_id=instance_uuids)
        idents = {ident for port in ports for ident in port.get('security_groups') or ()}
        known = {row['id']: row for row in self.neutron.list(context, documents.GROUPS, id=idents)}
        found: dict[str, dict[str, documents.Group]] = {}
        for port in ports:
            found.setdefault(port['device_id'], {}).update(
                {ident: known[ident] for ident in port.get('security_groups') or () if ident in known})
        return {uuid: sorted(rows.values(), key=lambda row: (row['name'], row['id'])) for uuid, rows in found.items()}

    def group_names_of(self, context: RequestContext, instance_uuids: list[str]) -> dict[str, list[str]]:
        """See nova.network.api. Neutron gets two requests for each batch of servers."""
        ports = self.neutron.list(context, documents.PORTS, device_id=instance_uuids,
                                  fields=('id', 'device_id', 'security_groups'))
        known = self._group_names(context, ports)
        found: dict[str, set[str]] = {}
        for port in ports:
            found.setdefault(port['device_id'], set()).update(
                known[ident] for ident in port.get('security_groups') or () if ident in known)
        return {uuid: sorted(names) for uuid, names in found.items()}

    def _group_names(self, context: RequestContext, ports: Collection[Port]) -> dict[str, str]:
        """Return {id: name} of the ports' security groups, in at most one request."""
        idents = {ident for port in ports for ident in port.get('security_groups') or ()}
        return {row['id']: row['name'] or row['id'] for row in self.neutron.list(
            context, documents.GROUPS, id=idents, fields=('id', 'name'))}

    def add_security_group(self, context: RequestContext, project_id: str, instance_uuid: str, name: str) -> None:
        if not self._change_groups(context, project_id, instance_uuid, name,
                                   lambda idents, ident: [*(each for each in idents if each != ident), ident]):
            raise exception.NetworkRequestInvalid(reason='the server has no port with port security and an address.')

    def remove_security_group(self, context: RequestContext, project_id: str, instance_uuid: str,
                              name: str) -> None:
        if not self._change_groups(context, project_id, instance_uuid, name,
                                   lambda idents, ident: [each for each in idents if each != ident], present=True):
            raise exception.SecurityGroupNotFound(security_group_id=name)

    def _change_groups(self, context: RequestContext, project_id: str, instance_uuid: str, name: str,
                       change: Callable[[list[str], str], list[str]], present: bool = False) -> int:
        """Change the groups of a server's ports and return the number of affected ports."""
        group, = network_selection.groups(self.neutron, context, project_id, [name])
        count = 0
        for port in self.neutron.list(context, documents.PORTS, device_id=instance_uuid):
            before = port.get('security_groups') or []
            if not port.get('port_security_enabled', True) or present and group['id'] not in before:
                continue
            count += 1
            after = change(before, group['id'])
            if after != before:
                self.neutron.update(context, documents.PORTS, port['id'], {'security_groups': after},
                                    exception.PortNotFound(port_id=port['id']))
        return count

    def security_group_rules(self, context: RequestContext, group_ids: list[str]) -> dict[str, list[documents.Rule]]:
        found: dict[str, list[documents.Rule]] = {ident: [] for ident in group_ids}
        for rule in self.neutron.list(context, documents.RULES, security_group_id=group_ids):
            found[rule['security_group_id']].append(rule)
        return found

    def security_groups_by_id(self, context: RequestContext, group_ids: set[str]) -> dict[str, documents.Group]:
        return {row['id']: row for row in self.neutron.list(context, documents.GROUPS, id=group_ids)}

    # ---- networks and ports

    def list_networks(self, context: RequestContext) -> list[Document]:
        return sorted(map(_network, self.neutron.list(context, _NETWORKS)), key=lambda row: (row['name'], row['id']))

    def show_network(self, context: RequestContext, ident: str) -> Document:
        return _network(self.neutron.show(context, _NETWORKS, ident, exception.NetworkNotFound(network_id=ident[:80])))

    def subnets_of(self, context: RequestContext, network_ids: list[str]) -> dict[str, list[Subnet]]:
        found: dict[str, list[Subnet]] = {ident: [] for ident in network_ids}
        for row in self.neutron.list(context, documents.SUBNETS, network_id=network_ids):
            found[row['network_id']].append(row)
        return {ident: sorted(rows, key=lambda row: (row.get('created_at') or '', row['id']))
                for ident, rows in found.items()}

    def ports_of(self, context: RequestContext, instance_uuid: str) -> list[documents.ServerPort]:
        ports = self.neutron.list(context, documents.PORTS, device_id=instance_uuid)
        if ports and self.neutron.has_account:  # read as the system: users cannot see order and tags in the profile
            ours = self.neutron.list(network_selection.system(context), documents.PORTS, device_id=instance_uuid)
            seen = {port['id'] for port in ports}
            ports = [port for port in vifs.sort_ports(ours) if port['id'] in seen]
        return [{**port, 'tag': vifs.profile(port).get(vifs.TAG)} for port in ports]


def _network(row: Document) -> Document:
    """Convert a network to the format of the compute API's views."""
    times = {name: timeutils.normalize_time(timeutils.parse_isotime(row[name])) if row.get(name) else None
             for name in ('created_at', 'updated_at')}
    return {**row, 'bridge': None, **times}
