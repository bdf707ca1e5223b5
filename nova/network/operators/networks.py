"""Operator tasks of the embedded network service: nova-manage, and the deprecated os-networks API."""
from collections.abc import Mapping
import ipaddress
from typing import Any, TypedDict

from oslo_config.cfg import ConfigOpts

from nova import context as nova_context
from nova import exception
from nova import utils
from nova.db.audit import log
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.networks import addresses
from nova.db.networks import networks
from nova.db.networks import ports
from nova.db.tables import network as t
from nova.db.tables.rows import NetworksRow
from nova.network import ipam
from nova.network import quotas

RESERVED = 'reserved'            # value of port_id that marks reserved addresses
MAX_FREE_ADDRESSES = 16384                # maximum number of listed free addresses


def host_subnet(conn: Connection, address: str) -> tuple[Any, int]:
    """Return (subnet of a flat network with this address, the address's number; see ipam.number_of).

    :raises InvalidInput: invalid address
    :raises NotFound: no such subnet
    """
    try:
        wanted = ipaddress.ip_address(address)
    except ValueError:
        raise exception.InvalidInput(f"'{address[:60]}' is not an IP address.") from None
    for subnet in addresses.host_subnets(conn):
        if wanted in ipaddress.ip_network(subnet['cidr']):
            return subnet, ipam.number_of(wanted)
    raise exception.NotFound(f'{wanted} is in no subnet of a flat network.')


def reserve(api_db: Database, address: str, reserved: bool) -> None:
    """Reserve an address of a flat network, or end its reservation. Ports do not get reserved addresses.

    :raises InvalidInput, NotFound, FixedIpInUse:
    """
    def change(conn: Connection) -> None:
        subnet, number = host_subnet(conn, address)
        if not reserved:
            if not addresses.unreserve(conn, subnet['id'], number, RESERVED):
                raise exception.NotFound(f'{address} is not reserved.')
            return
        wanted = [{'ip_address': str(ipaddress.ip_address(address))}]
        ipam.claim(conn, subnet['network_id'], [subnet], RESERVED, wanted, utils.utcnow())
    api_db.run(ipam.retry_on_duplicate(change))


FixedAddress = TypedDict('FixedAddress', {
    'address': str, 'cidr': str, 'reserved': bool, 'host': str | None, 'instance_id': str | None})


def show_fixed(api_db: Database, address: str) -> FixedAddress:
    """Return an address of a flat network.

    :raises InvalidInput, NotFound:
    """
    with api_db.reader() as conn:
        subnet, number = host_subnet(conn, address)
        known = [row for row in networks.numbers(conn, subnet['id'], number, number, 1) if row.port_id]
        holder = known[0].port_id if known else None
        port = ports.of_ids(conn, {holder}).get(holder) if holder else None
    return {'address': address, 'cidr': subnet['cidr'], 'reserved': holder == RESERVED,
            'host': port['host'] or None if port else None, 'instance_id': port['device_id'] or None if port else None}


def floating(api_db: Database, host: str | None = None) -> list[dict[str, Any]]:
    """Return all allocated and at most MAX_FREE_ADDRESSES free floating IPs in os-floating-ips-bulk's format.

    :param host: only addresses of servers on this host, and no free addresses
    """
    with api_db.reader() as conn:
        rows = networks.page(conn, t.floating_ips, t.floating_ips.c.id.is_not(None),
                             [('floating_ip_address', 'asc'), ('id', 'asc')], None, None)
        nets = {row['id']: row for row in networks.many(conn, t.networks, {row['floating_network_id'] for row in rows})}
        held = ports.of_ids(conn, {row['port_id'] for row in rows if row['port_id']})
        found = _free_floating(conn) if host is None else []
    for row in rows:
        port, network = held.get(row['port_id'] or ''), nets.get(row['floating_network_id'])
        if network is None:              # the network and its addresses were deleted concurrently
            continue
        if host is None or port is not None and port['host'] == host:
            found.append(_shown_floating(
                network, row['floating_ip_address'], row['project_id'], port['device_id'] or None if port else None,
                row['fixed_ip_address']))
    return sorted(found, key=lambda shown: (int(ipaddress.ip_address(shown['address'])), shown['pool']))


def _free_floating(conn: Connection) -> list[dict[str, Any]]:
    """Return free addresses of the pools in os-floating-ips-bulk's format."""
    outside = {row['id']: row for row in networks.page(conn, t.networks, t.networks.c.external,
                                                       [('name', 'asc'), ('id', 'asc')], None, None)}
    found: list[dict[str, Any]] = []
    for subnet in networks.many(conn, t.subnets, outside, 'network_id'):
        network = outside[subnet['network_id']]
        for low, high in ipam.pool_spans(subnet) if subnet['ip_version'] == 4 else ():
            for number in ipam.unused(conn, subnet['id'], low, high, MAX_FREE_ADDRESSES - len(found)):
                found.append(_shown_floating(network, ipam.address_of(subnet['cidr'], number)))
    return found


def _shown_floating(network: Mapping[str, Any], address: str, project_id: str | None = None,
                    instance_uuid: str | None = None, fixed_ip: str | None = None) -> dict[str, Any]:
    """Return a floating address in os-floating-ips-bulk's format.

    :param network: row of the network that is the pool
    """
    return {'address': address, 'pool': network['name'],
            'interface': network['physical_network'] or network['bridge'], 'project_id': project_id,
            'instance_uuid': instance_uuid, 'fixed_ip': fixed_ip}


def delete_network(api_db: Database, ident: str) -> None:
    """Delete a network without ports, and its subnets.

    :raises NetworkNotFound, NetworkInUse:
    """
    def delete(conn: Connection) -> None:
        networks.lock_with_subnets(conn, ident)
        found = ports.in_network(conn, ident)
        if any(port['device_owner'] != ports.DHCP for port in found):
            raise exception.NetworkInUse(network_id=ident)
        ports.remove(conn, [port['id'] for port in found])
        networks.remove_network(conn, ident)
    api_db.run(delete)


def assign_network(api_db: Database, ident: str, project: str | None) -> None:
    """Assign a network to a project; None: to all projects.

    :raises NetworkNotFound:
    :raises NetworkInUse: other projects have ports in the network; without ``project``: any project has ports
    :raises Conflict: an external network cannot be assigned to all projects
    """
    def change(conn: Connection) -> None:
        if project is None:
            release(conn, ident)
            return
        networks.lock_with_subnets(conn, ident)
        if _holders(conn, ident) - {project, ''}:            # ports of the network service have the project ''
            raise exception.NetworkInUse(network_id=ident)
        give(conn, ident, project)
    api_db.run(change)


def give(conn: Connection, ident: str, project: str | None) -> None:
    """Assign a network and its subnets to a project, or to all (None); remove the network's RBAC policies.

    :raises NetworkNotFound:
    """
    owner = project or ''
    if not networks.update(conn, t.networks, ident, {'project_id': owner, 'shared': project is None}):
        raise exception.NetworkNotFound(network_id=ident)
    for subnet in networks.many(conn, t.subnets, [ident], 'network_id'):
        networks.update(conn, t.subnets, subnet['id'], {'project_id': owner})
    networks.end_shares(conn, ident)
    ports.give_services(conn, ident, owner)


def release(conn: Connection, ident: str) -> None:
    """Assign a network to all projects.

    :raises NetworkNotFound:
    :raises NetworkInUse: the network has servers, or a router, which would forward packets of other projects
    :raises Conflict: the network is external
    """
    row = networks.lock_with_subnets(conn, ident)
    if row['external']:
        raise exception.Conflict('An external network cannot be assigned to servers of all projects.')
    if _holders(conn, ident):
        raise exception.NetworkInUse(network_id=ident)
    give(conn, ident, None)


def add_network_to_project(conf: ConfigOpts, api_db: Database, context: nova_context.RequestContext,
                           ident: str | None) -> None:
    """Assign an unowned network to the caller's project.

    :param ident: id of the network; None: any unowned network without ports
    :raises NetworkNotFound: the network is not visible to the caller
    :raises NetworkInUse: other projects have ports in the network
    :raises Conflict: the network belongs to a project, is the default or external; or no network is free
    :raises QuotaExceeded:
    """
    project = nova_context.the_project(context.project_id)

    def take(conn: Connection) -> None:
        quotas.check(conn, conf, 'network', project)
        row = _free(conn, context) if ident is None else _taken(conn, context, ident[:255], project)
        log.about(row['id'])
        give(conn, row['id'], project)
    api_db.run(take)


def _free(conn: Connection, context: nova_context.RequestContext) -> NetworksRow:
    """Lock and return the first unowned network without ports, except networks that concurrent requests have locked.

    :raises Conflict:
    """
    c = t.networks.c
    for row in networks.page(conn, t.networks, networks.visible(context) & (c.project_id == '') & c.shared &
                             ~c.is_default & ~c.external, [('name', 'asc'), ('id', 'asc')], None, None):
        if _holders(conn, row['id']):
            continue
        try:
            found = networks.lock_with_subnets(conn, row['id'])
        except exception.NetworkNotFound:        # deleted concurrently
            continue
        if found['project_id'] == '' and found['shared'] and not _holders(conn, row['id']):
            return found
    raise exception.Conflict('No network is free.')


def _taken(conn: Connection, context: nova_context.RequestContext, ident: str, project: str) -> NetworksRow:
    """Lock and return a network that may be assigned to the project. For errors see add_network_to_project."""
    if networks.seen(conn, t.networks, networks.visible(context), ident) is None:
        raise exception.NetworkNotFound(network_id=ident)
    row = networks.lock_with_subnets(conn, ident)
    if row['project_id'] not in ('', project) or row['is_default'] or row['external']:
        raise exception.Conflict(f'Network {row["id"]} cannot be assigned to a project.')
    if _holders(conn, row['id']) - {project}:
        raise exception.NetworkInUse(network_id=row['id'])
    return row


def _holders(conn: Connection, ident: str) -> set[str]:
    """Return the projects with ports in a network."""
    return {port['project_id'] for port in ports.in_network(conn, ident) if port['device_owner'] != ports.DHCP}
