"""Ports of guests that are missing in a restored database: insert them from the records of the host."""
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from nova.db.networks import networks
from nova.db.networks import ports
from nova.db.networks import security_groups
from nova.db.tables import network as t
from nova.db.tables.rows import NetworksRow


def enter(conn: sa.Connection, server: dict[str, Any], host: str, number_of: Callable[[str], int],
          has_port_security: Callable[[NetworksRow], bool], dns_name: str) -> list[str]:
    """Insert the missing ports of a server; return the ids of ports that cannot be inserted.

    A port cannot be inserted if the project cannot use its network, or if another port has its MAC or IP address.
    :param server: fields of the server: 'uuid', 'project_id', 'availability_zone', 'network_info', 'security_groups'
    :param number_of: number of an address in its subnet
    :param has_port_security: whether new ports in a network have port security
    :param dns_name: DNS name of the server
    """
    vifs = [vif for vif in server.get('network_info') or () if isinstance(vif, dict) and vif.get('id')]
    known = ports.of_ids(conn, [vif['id'] for vif in vifs]) if vifs else {}
    named = server.get('security_groups') or [security_groups.DEFAULT]
    groups = [group['id'] for group in security_groups.of_project(conn, server['project_id']) if group['name'] in named]
    # only networks that the project may use, because the host's record may name any network
    lost, usable = [], networks.usable(conn, server['project_id'])
    for position, vif in enumerate(vifs):
        if vif['id'] in known:
            continue
        addresses = _free(conn, vif, number_of) if vif['network']['id'] in usable else None
        if addresses is None:
            lost.append(str(vif['id']))
            continue
        secured = has_port_security(usable[vif['network']['id']][0])
        networks.insert(conn, t.ports, [{
            'id': vif['id'], 'project_id': server['project_id'], 'network_id': vif['network']['id'], 'name': '',
            'mac_address': vif['address'], 'admin_state_up': True, 'status': 'ACTIVE', 'device_id': server['uuid'],
            'device_owner': f'compute:{server.get("availability_zone") or "nova"}', 'host': host,
            'position': position, 'tag': vif.get('tag'), 'created_by_compute': True,
            'port_security_enabled': secured, 'dns_name': dns_name}])
        for row in addresses:
            networks.forget_rests(conn, row['subnet_id'], [row['number']])
        networks.insert_addresses(conn, [{
            'subnet_id': row['subnet_id'], 'number': row['number'], 'address': row['address'], 'port_id': vif['id'],
            'released_at': None} for row in addresses])
        if secured:
            security_groups.bind(conn, [(vif['id'], group) for group in groups])
    return lost


def _free(conn: sa.Connection, vif: dict[str, Any], number_of: Callable[[str], int]) -> list[dict[str, Any]] | None:
    """Return address rows (without port_id) for a VIF; None if its MAC or address is in use, or a subnet is missing."""
    network = vif['network']
    if ports.count(conn, mac_address=vif['address']):
        return None
    found = []
    for subnet in network.get('subnets') or ():
        if networks.get(conn, t.subnets, subnet['id']) is None:
            return None
        for ip in subnet['ips']:
            number = number_of(ip['address'])
            c = t.addresses.c
            if conn.execute(sa.select(c.port_id).where(
                    c.subnet_id == subnet['id'], c.number == number, c.port_id.is_not(None))).first():
                return None
            found.append({'subnet_id': subnet['id'], 'number': number, 'address': ip['address']})
    return found
