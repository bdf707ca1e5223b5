"""Select networks, ports and groups of a project: for checks in the API, and again during the build."""
from collections.abc import Collection
from typing import Any
import ipaddress

from nova import context as nova_context
from nova import exception
from nova.context import RequestContext
from nova.network.neutron import documents
from nova.network.neutron.documents import Network
from nova.network.neutron.documents import Port
from nova.network.neutron.documents import Subnet
from nova.network import security
from nova.network.neutron import client
from nova.network.neutron import vifs
from nova.objects.network_info import PortRequest
from nova.runtime import rest_client

Document = dict[str, Any]

# prefixes of device_owner for ports that servers cannot use: router ports and subports
OTHER_OWNERS = ('network:', 'trunk:')
AUTO = 'auto-allocated-topology'          # alias and path of the extension


def usable(neutron: client.Neutron, ctx: RequestContext, project_id: str,
           idents: Collection[str]) -> dict[str, Network]:
    """Return {id: network} of the networks in which the project may create ports.

    :param ctx: a user of the project, or the system
    """
    rows = {row['id']: row for row in neutron.list(ctx, documents.NETWORKS, id=set(idents))}
    found = {ident: row for ident, row in rows.items() if row['project_id'] == project_id or row.get('shared')}
    rest = [ident for ident in rows if ident not in found]
    if not rest:
        return found
    if ctx.auth_token and not ctx.is_admin:
        allowed = {ident for ident in rest if not rows[ident].get('router:external')}
    else:
        policies = neutron.list(ctx, documents.POLICIES, object_id=rest, object_type='network',
                                action='access_as_shared', target_tenant=project_id)
        allowed = {policy['object_id'] for policy in policies}
    return {**found, **{ident: rows[ident] for ident in allowed}}


def default_network(neutron: client.Neutron, ctx: RequestContext, project_id: str) -> Network | None:
    """Return the network of a server without requested networks: the project's network, else a shared network, or None.

    :raises NetworkAmbiguous: several networks qualify
    """
    for filters in ({'project_id': project_id}, {'shared': 'true'}):
        rows = [row for row in neutron.list(ctx, documents.NETWORKS, **filters)
                if row['admin_state_up'] and row['subnets'] and (row['project_id'] == project_id
                                                                 or not row.get('router:external'))]
        if len(rows) > 1:
            raise exception.NetworkAmbiguous()
        if rows:
            return rows[0]
    return None


def topology(neutron: client.Neutron, ctx: RequestContext, project_id: str, dry_run: bool) -> str | None:
    """Return the id of the automatically allocated network; None for a dry run, or without the extension.

    :raises NetworkRequestInvalid: the service is not prepared for automatic allocation
    """
    if AUTO not in neutron.extensions(ctx):
        return None
    missing = exception.NetworkRequestInvalid(reason='the Networking service cannot allocate a network automatically.')
    made = neutron.call(ctx, 'GET', f'/{AUTO}/{rest_client.checked(project_id, missing)}', missing,
                        params={'fields': 'dry-run'} if dry_run else {})
    ident = made['auto_allocated_topology']['id']
    return None if dry_run else str(ident)


def check_port(port: Port | None, request: PortRequest, project_id: str, instance_uuid: str | None = None,
               guaranteed: bool = False) -> Port:
    """Check and return the port in a request.

    :param guaranteed: whether there is a Placement service for resource requests
    :raises PortNotFound: no such port in the project
    :raises PortInUse, NetworkRequestInvalid:
    """
    ident = str(request['port_id'])
    if port is None or port['project_id'] != project_id:
        raise exception.PortNotFound(port_id=ident[:80])
    if port['device_id'] and port['device_id'] != instance_uuid:
        raise exception.PortInUse(port_id=ident)
    if str(port.get('device_owner') or '').startswith(OTHER_OWNERS):  # a subport may have no device_id
        raise exception.PortInUse(port_id=ident)
    if not port['fixed_ips'] and port.get('ip_allocation') == 'immediate':
        raise exception.NetworkRequestInvalid(reason=f'port {ident} has no fixed address.')
    vifs.check_usable(port, guaranteed)
    return port


def check_network(networks: dict[str, Network], subnets: list[Subnet], request: PortRequest) -> Network:
    """Check and return the network in a request.

    :param subnets: subnets of the networks
    :raises NetworkNotFound: no such network that the project may use
    :raises NetworkRequestInvalid: the network has no subnet, or no subnet with the address
    """
    ident = str(request['network_id'])
    network = networks.get(ident)
    if network is None:
        raise exception.NetworkNotFound(network_id=ident[:80])
    if not network['subnets']:
        raise exception.NetworkRequestInvalid(reason=f'network {ident} has no subnet.')
    if request.get('fixed_ip'):
        address = ipaddress.ip_address(str(request['fixed_ip']))
        if not any(address in ipaddress.ip_network(subnet['cidr']) for subnet in subnets
                   if subnet['network_id'] == ident):
            raise exception.NetworkRequestInvalid(reason=f'{address} is in no subnet of network {ident}.')
    return network


def groups_are_used(network: Network, names: Collection[str]) -> bool:
    """Return whether new ports in the network get security groups.

    :raises NetworkRequestInvalid: new ports get no groups, but ``names`` has groups other than the default
    """
    return security.check_used(network['id'], bool(network.get('port_security_enabled', True)), names)


def groups(neutron: client.Neutron, ctx: RequestContext, project_id: str, names: Collection[str]
           ) -> list[documents.Group]:
    """Return the project's security groups for names or ids, in order without duplicates.

    :raises SecurityGroupNotFound, SecurityGroupAmbiguous:
    """
    rows = neutron.list(ctx, documents.GROUPS, project_id=project_id) if names else []
    found: dict[str, documents.Group] = {}
    for name in names:
        fits = [row for row in rows if row['id'] == name] or [row for row in rows if row['name'] == name]
        if not fits:
            raise exception.SecurityGroupNotFound(security_group_id=name)
        if len(fits) > 1:
            raise exception.SecurityGroupAmbiguous(name=name)
        found[fits[0]['id']] = fits[0]
    return list(found.values())


def system(ctx: RequestContext | None = None) -> RequestContext:
    """Return the compute service's own context, with the request id of ``ctx`` and no user token."""
    return nova_context.admin_context(ctx.request_id if ctx is not None else None)
