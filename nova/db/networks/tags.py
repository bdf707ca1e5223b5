"""Tags of networks, subnets, ports, routers and the like."""
from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from nova.db.networks import networks
from nova.db.tables import network as t


def of(conn: sa.Connection, resource_ids: Any) -> dict[str, list[str]]:
    """{resource id: [tag]}, sorted."""
    found = networks.values_of(conn, t.tags.c.resource_id, resource_ids, t.tags.c.tag)
    return {ident: sorted(tag for tag, in rows) for ident, rows in found.items()}


def replace(conn: sa.Connection, resource_id: str, wanted: list[str]) -> None:
    """Give a resource these tags and no others."""
    conn.execute(sa.delete(t.tags).where(t.tags.c.resource_id == resource_id))
    if wanted:
        conn.execute(sa.insert(t.tags), [{'resource_id': resource_id, 'tag': tag} for tag in sorted(set(wanted))])


def having(column: Any, values: list[str], every: bool, without: bool) -> Any:
    """Condition on rows whose id column is that of a resource with all (any) of these tags, or without."""
    def tagged(tag: str) -> Any:
        return column.in_(sa.select(t.tags.c.resource_id).where(t.tags.c.tag == tag))
    joined = (sa.and_ if every else sa.or_)(*map(tagged, values))
    return sa.not_(joined) if without else joined
