"""Subnet pools."""
import sqlalchemy as sa

from nova import context as nova_context
from nova.db.networks import networks
from nova.db.tables import network as t
from nova.db.tables.rows import SubnetPoolsRow


# condition on pools that the caller may see and use: own, public and shared pools
visible = networks.own_or_shared(t.subnet_pools, t.subnet_pools.c.shared)


def default_id(conn: sa.Connection, context: nova_context.RequestContext, version: int) -> str | None:
    """Return the id of the default pool of an IP version if the caller sees the pool, otherwise None."""
    c = t.subnet_pools.c
    return conn.execute(sa.select(c.id).where(c.default_ip_version == version, visible(context))).scalar()


def pieces(conn: sa.Connection, pool_id: str) -> list[tuple[str, str]]:
    """Return [(project, CIDR)] of the subnets allocated from a pool."""
    c = t.subnets.c
    rows = conn.execute(sa.select(c.project_id, c.cidr).where(c.subnetpool_id == pool_id)).all()
    return [(row.project_id, row.cidr) for row in rows]


def locked(conn: sa.Connection, context: nova_context.RequestContext, ident: str) -> SubnetPoolsRow | None:
    """Return a pool that the caller sees, locked until the transaction ends, or None."""
    row = networks.lock(conn, t.subnet_pools, ident)             # the lock prevents changes of its RBAC policies
    return None if networks.seen(conn, t.subnet_pools, visible(context), ident) is None else row


def is_default(values: list[str]) -> sa.ColumnElement[bool]:
    """Return the condition of the filter ``is_default``.

    'true' selects the pools that are the default of an IP version, 'false' the other pools.
    """
    wanted = {value.lower() in ('true', '1') for value in values}
    column = t.subnet_pools.c.default_ip_version
    return sa.or_(*(column.is_not(None) if each else column.is_(None) for each in wanted))
