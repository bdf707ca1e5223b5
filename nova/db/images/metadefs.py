"""Queries for metadata definitions: namespaces and their items, as dicts."""
from collections.abc import Collection

import sqlalchemy as sa

from nova.db import statements
from nova.db.tables import image as t
from nova.db.tables.rows import MetadefItemsRow
from nova.db.tables.rows import MetadefNamespacesRow

_NAMESPACES, _ITEMS = t.metadef_namespaces, t.metadef_items


def find(conn: sa.Connection, namespace: str, lock: bool = False) -> MetadefNamespacesRow | None:
    """Return a namespace by its name, or None.

    :param lock: lock the row until the transaction ends
    """
    query = sa.select(_NAMESPACES).where(_NAMESPACES.c.namespace == namespace)
    row = conn.execute(query.with_for_update() if lock else query).mappings().first()
    return statements.to_dict(row) if row else None


def namespaces(conn: sa.Connection, project_id: str | None, **match: str) -> list[MetadefNamespacesRow]:
    """Return the namespaces that have the column values ``match``, oldest first.

    :param project_id: project that may see the namespaces (its own and public ones); None: all
    """
    query = sa.select(_NAMESPACES).filter_by(**match).order_by(_NAMESPACES.c.created_at, _NAMESPACES.c.id)
    if project_id is not None:
        query = query.where(sa.or_(_NAMESPACES.c.owner == project_id, _NAMESPACES.c.visibility == 'public'))
    return statements.dicts(conn.execute(query))


def count(conn: sa.Connection) -> int:
    return conn.execute(sa.select(sa.func.count()).select_from(_NAMESPACES)).scalar_one()


def insert(conn: sa.Connection, values: MetadefNamespacesRow) -> None:
    conn.execute(_NAMESPACES.insert().values(**values))


def update(conn: sa.Connection, row: MetadefNamespacesRow) -> None:
    conn.execute(_NAMESPACES.update().where(_NAMESPACES.c.id == row['id']).values(**row))


def delete(conn: sa.Connection, namespace_id: str) -> None:
    """Delete a namespace with its items."""
    delete_items(conn, namespace_id)
    statements.delete(conn, _NAMESPACES, id=namespace_id)


def items(conn: sa.Connection, namespace_ids: Collection[str], **match: str) -> list[MetadefItemsRow]:
    """Return the items with the column values ``match`` in these namespaces, oldest first."""
    query = sa.select(_ITEMS).where(_ITEMS.c.namespace_id.in_(sorted(namespace_ids))).filter_by(**match)
    return statements.dicts(conn.execute(query.order_by(_ITEMS.c.created_at, _ITEMS.c.name)))


def insert_item(conn: sa.Connection, values: MetadefItemsRow) -> None:
    conn.execute(_ITEMS.insert().values(**values))


def update_item(conn: sa.Connection, name: str, row: MetadefItemsRow) -> None:
    """Replace the item with this name; the new item may have another name."""
    conn.execute(_ITEMS.update().filter_by(
        namespace_id=row['namespace_id'], kind=row['kind'], name=name).values(**row))


def delete_items(conn: sa.Connection, namespace_id: str, **match: str) -> int:
    """Delete the items of a namespace that have the column values ``match``; return their number."""
    return statements.delete(conn, _ITEMS, namespace_id=namespace_id, **match)
