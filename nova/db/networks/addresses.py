"""Addresses as shown to operators: used addresses with their owners, and reserved addresses."""
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from nova.db import statements
from nova.db.networks import networks
from nova.db.tables import network as t


def taken(conn: sa.Connection, host: str | None = None) -> Sequence[Any]:
    """Return rows (address, network's name, mac_address, device_id, host, expires_at) of used and reserved addresses.

    ``expires_at`` is the end of the DHCP lease, or None.
    :param host: only addresses of ports on this host
    """
    a, p, lease = t.addresses.c, t.ports.c, t.leases.c
    statement = sa.select(
        a.address, t.networks.c.name, p.mac_address, p.device_id, p.host, lease.expires_at).select_from(
        t.addresses.join(t.subnets, t.subnets.c.id == a.subnet_id).join(
            t.networks, t.networks.c.id == t.subnets.c.network_id).outerjoin(t.ports, p.id == a.port_id).outerjoin(
                t.leases, sa.and_(lease.subnet_id == a.subnet_id, lease.number == a.number,
                                  lease.port_id == a.port_id))).where(
                a.port_id.is_not(None)).order_by(t.networks.c.name, a.subnet_id, a.number)
    return conn.execute(statement if host is None else statement.where(p.host == host)).all()


def host_subnets(conn: sa.Connection) -> list[Any]:
    """Return the rows of the subnets of flat networks, which are in the hosts' own routing table."""
    return statements.dicts(conn.execute(sa.select(t.subnets).join(
        t.networks, t.networks.c.id == t.subnets.c.network_id).where(t.networks.c.network_type == networks.FLAT)))


def unreserve(conn: sa.Connection, subnet_id: str, number: int, mark: str) -> bool:
    """Release an address that was reserved with ``mark`` as port_id; return False if it has another port_id."""
    c = t.addresses.c
    return bool(conn.execute(sa.delete(t.addresses).where(
        c.subnet_id == subnet_id, c.number == number, c.port_id == mark)).rowcount)
