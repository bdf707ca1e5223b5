"""DHCP leases of addresses, as reported by the hosts."""
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from nova import utils
from nova.db import engine
from nova.db.tables import network as t


def record(conn: sa.Connection, host: str, leases: Sequence[Mapping[str, Any]]) -> None:
    """Store leases that a host reports.

    If no port on the host has the address and MAC, only the end of an already stored lease is updated.

    :param leases: [{'mac', 'address', 'expires_at': Unix time}]
    """
    until = {(each['mac'], each['address']): utils.from_timestamp(each['expires_at']) for each in leases}
    if not until:
        return
    a, p, lease = t.addresses.c, t.ports.c, t.leases.c
    addresses = sorted({address for _mac, address in until})
    rows = conn.execute(sa.select(a.subnet_id, a.number, a.address, a.port_id, p.mac_address).join(
        t.ports, p.id == a.port_id).where(a.address.in_(addresses), sa.or_(p.host == host, p.migrating_to == host)))
    fresh = [{**row._mapping, 'host': host, 'expires_at': until[row.mac_address, row.address]} for row in rows
             if (row.mac_address, row.address) in until]
    held = {(row['mac_address'], row['address']) for row in fresh}
    if fresh:
        conn.execute(sa.delete(t.leases).where(sa.tuple_(lease.subnet_id, lease.number).in_(
            [(row['subnet_id'], row['number']) for row in fresh])))
        engine.insert_many_ignore(conn, t.leases, fresh)
    # no port on this host has the address any more, and another guest may get it: insert no lease, only update the end
    for mac, address in sorted(until.keys() - held):
        conn.execute(sa.update(t.leases).where(lease.address == address, lease.mac_address == mac, lease.host == host)
                     .values(expires_at=until[mac, address]))
