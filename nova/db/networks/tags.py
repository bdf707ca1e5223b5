"""Tags of network resources."""
from collections.abc import Iterable
from typing import Any

from oslo_db import exception as db_exc
import sqlalchemy as sa

from nova import exception
from nova.db.networks import networks
from nova.db.tables import network as t


def of(conn: sa.Connection, resource_ids: Iterable[str]) -> dict[str, list[str]]:
    """Return {resource id: [tag]}, sorted."""
    found = networks.values_of(conn, t.tags.c.resource_id, resource_ids, t.tags.c.tag)
    return {ident: sorted(tag for tag, in rows) for ident, rows in found.items()}


def replace(conn: sa.Connection, resource_id: str, wanted: list[str]) -> None:
    """Replace the tags of a resource.

    :raises BadRequest: the database compares two of the tags as equal, as MariaDB does with tags that differ in case
    """
    conn.execute(sa.delete(t.tags).where(t.tags.c.resource_id == resource_id))
    if not wanted:
        return
    try:
        conn.execute(sa.insert(t.tags), [{'resource_id': resource_id, 'tag': tag} for tag in sorted(set(wanted))])
    except db_exc.DBDuplicateEntry:
        raise exception.BadRequest('This database does not store tags of one resource that differ only in case or in '
                                   'accents.') from None


def having(column: sa.Column[Any], values: list[str], every: bool, without: bool) -> sa.ColumnElement[bool]:
    """Return a condition on rows of resources with these tags.

    :param column: column of the resource's id
    :param every: whether all tags are required; otherwise one is enough
    :param without: negate the condition
    """
    def tagged(tag: str) -> sa.ColumnElement[bool]:
        return column.in_(sa.select(t.tags.c.resource_id).where(t.tags.c.tag == tag))
    joined = (sa.and_ if every else sa.or_)(*map(tagged, values))
    return sa.not_(joined) if without else joined
