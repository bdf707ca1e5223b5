"""One collation for all tables of a MariaDB or MySQL database.

The default collation of utf8mb4 depends on the server: utf8mb4_general_ci before MariaDB 11.5, utf8mb4_uca1400_ai_ci
since then, utf8mb4_0900_ai_ci in MySQL 8. Columns of different collations cannot be compared. A database keeps the
collation that most of its tables have, so that an upgrade rebuilds no large table. A new database has
``types.COLLATION``.
"""
import collections
from collections.abc import Collection, Iterator
import contextlib
import logging

import sqlalchemy as sa

from nova.db import types

LOG = logging.getLogger(__name__)


def found(conn: sa.Connection, tables: Collection[str]) -> dict[str, str]:
    """Return {name of an existing table: its collation}. The dict is empty unless the database is MariaDB or MySQL."""
    if conn.dialect.name != 'mysql':
        return {}
    rows = conn.execute(sa.text('SELECT table_name, table_collation FROM information_schema.tables '
                                'WHERE table_schema = DATABASE() AND table_collation IS NOT NULL'))
    return {name: collation for name, collation in rows if name in tables}


def common(collations: Collection[str]) -> str:
    """Return the collation of most tables, or ``types.COLLATION`` if there are no tables or a tie."""
    counts = collections.Counter(collations)
    most = max(counts.values(), default=0)
    candidates = [name for name, count in counts.items() if count == most]
    return candidates[0] if len(candidates) == 1 else types.COLLATION


def unify(conn: sa.Connection, tables: Collection[str]) -> None:
    """Convert tables to the collation of most tables; each conversion locks, rebuilds and commits one table."""
    present = found(conn, tables)
    collation = common(present.values())
    for name, other in sorted(present.items()):
        if other != collation:
            LOG.info('Converting the table %s from the collation %s to %s', name, other, collation)
            conn.exec_driver_sql(f'ALTER TABLE `{name}` CONVERT TO CHARACTER SET utf8mb4 COLLATE {collation}')


@contextlib.contextmanager
def stated(conn: sa.Connection, tables: Collection[str]) -> Iterator[None]:
    """Create tables in the block with the collation of the existing tables, because migrations name no collation."""
    collation = common(found(conn, tables).values())

    def state(table: sa.Table, connection: sa.Connection, **_options: object) -> None:
        if connection is conn and 'mysql_charset' in table.kwargs:
            table.kwargs['mysql_collate'] = collation
    sa.event.listen(sa.Table, 'before_create', state)
    try:
        yield
    finally:
        sa.event.remove(sa.Table, 'before_create', state)
