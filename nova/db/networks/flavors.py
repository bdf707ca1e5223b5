"""Neutron flavors and service profiles, which belong to no project."""
from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from nova import context as nova_context
from nova.db import statements
from nova.db.tables import network as t

if TYPE_CHECKING:
    from nova.db.tables.rows import NetworkFlavorsRow


def visible(_context: nova_context.RequestContext) -> sa.ColumnElement[bool]:
    """Return a condition that all rows meet: only policy rules restrict access to them."""
    return sa.true()


def every(conn: sa.Connection) -> list[NetworkFlavorsRow]:
    """Return all flavors by id."""
    return statements.rows(conn, t.flavors, ('id',))


def total(conn: sa.Connection, table: sa.Table) -> int:
    """Return the number of rows of a table."""
    return conn.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
