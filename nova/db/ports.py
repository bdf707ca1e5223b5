"""Ports: what a server is connected by."""
import sqlalchemy as sa

from nova import utils
from nova.db import networks
from nova.db import security_groups
from nova.db import tables_network as t


def of_device(conn, device_id):
    """The ports of a server, in its order, as dicts."""
    c = t.ports.c
    return [dict(row) for row in conn.execute(
        sa.select(t.ports).where(c.device_id == device_id).order_by(c.position, c.id)).mappings()]


def of_ids(conn, idents):
    """{id: port} of these ports."""
    return {row['id']: row for row in networks.many(conn, t.ports, idents)}


def on_host(conn, host):
    c = t.ports.c
    return [dict(row) for row in conn.execute(
        sa.select(t.ports).where(c.host == host, c.device_id != '').order_by(c.id)).mappings()]


def lock_many(conn, idents):
    """{id: port} of these ports, locked until the transaction ends."""
    if not idents:
        return {}
    statement = (
        sa.select(t.ports).where(t.ports.c.id.in_(list(idents))).order_by(t.ports.c.id).with_for_update()
    )
    return {row['id']: dict(row) for row in conn.execute(statement).mappings()}


def bind(conn, ident, values):
    """Give a port that no device has to a server; False when a device has it."""
    return bool(
        conn.execute(
            sa.update(t.ports)
            .where(t.ports.c.id == ident, t.ports.c.device_id == '')
            .values(**values, updated_at=utils.utcnow(), revision=t.ports.c.revision + 1)
        ).rowcount
    )


def move(conn, device_id, host):
    """The server's ports are on this host now."""
    conn.execute(sa.update(t.ports).where(t.ports.c.device_id == device_id).values(
        host=host, updated_at=utils.utcnow(), revision=t.ports.c.revision + 1))


def give_back(conn, device_ids):
    """Remove the ports made for these servers, unbind the users' own; return how many ports there were."""
    c = t.ports.c
    rows = conn.execute(
        sa.select(c.id, c.made_for_server).where(c.device_id.in_(device_ids)).with_for_update()
    ).all()
    made = [row.id for row in rows if row.made_for_server]
    own = [row.id for row in rows if not row.made_for_server]
    if made:
        remove(conn, made)
    if own:
        conn.execute(sa.update(t.ports).where(c.id.in_(own)).values(
            device_id='', device_owner='', host='', status='DOWN', tag=None,
            updated_at=utils.utcnow(), revision=c.revision + 1))
    return len(rows)


def remove(conn, idents):
    """Delete ports and what belongs to them."""
    networks.release(conn, idents)
    security_groups.unbind(conn, idents)
    conn.execute(sa.delete(t.ports).where(t.ports.c.id.in_(idents)))


def devices(conn):
    """Ids of the servers that have ports, each once."""
    c = t.ports.c
    return set(conn.execute(sa.select(c.device_id).where(
        c.device_id != '', c.device_owner.like('compute:%')).distinct()).scalars())


def older_devices(conn, device_ids, before):
    """Of these servers those whose newest port change is older than a moment."""
    c = t.ports.c
    return list(conn.execute(sa.select(c.device_id).where(c.device_id.in_(list(device_ids)))
                             .group_by(c.device_id).having(sa.func.max(c.updated_at) < before)).scalars())


def count(conn, condition):
    return conn.execute(sa.select(sa.func.count()).select_from(t.ports).where(condition)).scalar()
