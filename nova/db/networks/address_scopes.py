"""Address scopes: sets of subnet pools with disjoint prefixes. Traffic within a scope is routed without translation.
"""
from collections.abc import Collection

import sqlalchemy as sa

from nova import context as nova_context
from nova.db.networks import networks
from nova.db.tables import network as t
from nova.db.tables.rows import AddressScopesRow
from nova.db.tables.rows import SubnetPoolsRow


# condition on scopes that the caller may see and use: own, public and shared scopes
visible = networks.own_or_shared(t.address_scopes, t.address_scopes.c.shared)


def pools(conn: sa.Connection, ident: str) -> list[SubnetPoolsRow]:
    """Return the subnet pools of a scope."""
    return networks.many(conn, t.subnet_pools, [ident], 'address_scope_id')


def users(conn: sa.Connection, ident: str) -> set[str]:
    """Return the projects with subnet pools in a scope."""
    return {pool['project_id'] for pool in pools(conn, ident)}


def locked(conn: sa.Connection, context: nova_context.RequestContext, ident: str) -> AddressScopesRow | None:
    """Return a scope that the caller sees, locked until the transaction ends, or None."""
    row = networks.lock(conn, t.address_scopes, ident)            # the lock prevents changes of its RBAC policies
    return None if networks.seen(conn, t.address_scopes, visible(context), ident) is None else row


def of_pools(conn: sa.Connection, idents: Collection[str]) -> dict[str, str]:
    """Return {pool id: scope id} of the pools that have a scope."""
    c = t.subnet_pools.c
    rows = conn.execute(sa.select(c.id, c.address_scope_id).where(
        c.id.in_(list(idents)), c.address_scope_id.is_not(None))).all() if idents else ()
    return {row.id: row.address_scope_id for row in rows}


_OF_SUBNETS = sa.select(
    t.subnets.c.network_id, t.subnets.c.ip_version, t.subnet_pools.c.address_scope_id).outerjoin_from(
        t.subnets, t.subnet_pools, t.subnet_pools.c.id == t.subnets.c.subnetpool_id).where(
            t.subnets.c.network_id.in_(sa.bindparam('of_networks', expanding=True))).distinct()


def of_networks(conn: sa.Connection, idents: Collection[str]) -> dict[tuple[str, int], str | None]:
    """Return {(network id, IP version): scope id, or None if no scope} for each IP version of the networks' subnets."""
    rows = conn.execute(_OF_SUBNETS, {'of_networks': list(idents)}).all() if idents else ()
    return {(row.network_id, row.ip_version): row.address_scope_id for row in rows}


def shares_network(conn: sa.Connection, pool_id: str, version: int) -> bool:
    """Return whether any network has subnets of this pool and also other subnets of the same IP version.

    The other subnets belong to another pool or to no pool.
    """
    own, other = t.subnets.alias('own'), t.subnets.alias('other')
    return conn.execute(sa.select(sa.literal(1)).where(
        own.c.subnetpool_id == pool_id, other.c.network_id == own.c.network_id, other.c.ip_version == version,
        sa.or_(other.c.subnetpool_id.is_(None), other.c.subnetpool_id != pool_id)).limit(1)).first() is not None


def on_networks(version: int, values: list[str]) -> sa.ColumnElement[bool]:
    """Return a condition on networks with subnets of an IP version in one of these scopes."""
    c = t.subnets.c
    return t.networks.c.id.in_(sa.select(c.network_id).join(
        t.subnet_pools, t.subnet_pools.c.id == c.subnetpool_id).where(
            c.ip_version == version, t.subnet_pools.c.address_scope_id.in_(values)))
