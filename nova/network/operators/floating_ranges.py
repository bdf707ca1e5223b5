"""Ranges of floating addresses, managed by operators (nova-manage and the deprecated os-floating-ips-bulk)."""
import ipaddress
import uuid

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.db.audit import log
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.networks import networks
from nova.db.tables import network as t
from nova.network import ipam

POOL = 'public'                  # default pool


def create(conf: ConfigOpts, api_db: Database, ip_range: str, pool: str, interface: str | None) -> str | None:
    """Create a range of floating addresses: a subnet of the external network that has the pool's name. If this network
    is missing, create it. The first address of the range is the gateway.

    :param interface: one of [network] physical_networks; None: the interface of the pool, or the host's routing table
    :returns: the interface
    :raises InvalidInput, Conflict:
    """
    cidr = ipam.parse_cidr(ip_range)
    log.about(str(cidr))
    if interface is not None and interface not in conf.network.physical_networks:
        raise exception.InvalidInput(f"'{interface[:60]}' is not in [network] physical_networks.")

    def make(conn: Connection) -> str | None:
        if any(cidr.overlaps(ipaddress.ip_network(other)) for other in networks.host_ranges(conn)):
            raise exception.Conflict(f'{cidr} overlaps with another subnet.')
        found = networks.page(conn, t.networks, (t.networks.c.name == pool) & t.networks.c.external, [('id', 'asc')],
                              None, 1)
        ident = found[0]['id'] if found else str(uuid.uuid4())
        if not found:
            networks.insert(conn, t.networks, [{
                'id': ident, 'project_id': '', 'name': pool, 'shared': False, 'is_default': False,
                'admin_state_up': True, 'bridge': 'br' + ident.replace('-', '')[:12], 'mtu': conf.network.mtu,
                'network_type': networks.FLAT, 'physical_network': interface, 'external': True, 'description': ''}])
        elif interface is not None and found[0]['physical_network'] != interface:
            raise exception.InvalidInput(f'Pool {pool} is on another interface.')
        gateway = cidr.network_address + 1
        networks.insert(conn, t.subnets, [{
            'id': str(uuid.uuid4()), 'project_id': '', 'network_id': ident, 'name': '', 'cidr': str(cidr),
            'ip_version': 4, 'gateway_ip': str(gateway), 'enable_dhcp': False,
            'allocation_pools': ipam.default_pools(cidr, gateway), 'dns_nameservers': [], 'host_routes': [],
            'description': ''}])
        return str(found[0]['physical_network'] or '') or None if found else interface
    return api_db.run(make)


def delete(api_db: Database, ip_range: str) -> None:
    """Delete a range of floating addresses, unless one of its addresses is in use.

    :raises InvalidInput, NotFound, Conflict:
    """
    cidr = str(ipam.parse_cidr(ip_range))
    log.about(cidr)

    def drop(conn: Connection) -> None:
        outside = networks.page(conn, t.networks, t.networks.c.external, [('id', 'asc')], None, None)
        for subnet in networks.many(conn, t.subnets, [row['id'] for row in outside], 'network_id'):
            if subnet['cidr'] == cidr:
                networks.lock(conn, t.subnets, subnet['id'])
                if networks.used_addresses(conn, subnet['id']):
                    raise exception.Conflict(f'Addresses of {cidr} are in use.')
                networks.remove_subnet(conn, subnet['id'])
                return
        raise exception.NotFound(f'Floating address range {cidr} could not be found.')
    api_db.run(drop)
