"""Shadow tables of a cell for `nova-manage db archive_deleted_rows`.

A shadow table has the columns of its original, without constraints, so that every row fits. In addition it has
``ended_at``, the time of the server's deletion or the end of the audited period, which ``nova-manage db purge`` uses.
"""
from __future__ import annotations

import sqlalchemy as sa

from nova.db import types
from nova.db.tables.cell import instance_action_events
from nova.db.tables.cell import instance_actions
from nova.db.tables.cell import instances_history
from nova.db.tables.cell import metadata
from nova.db.tables.cell import migrations
from nova.db.tables.usage import task_log


def _shadow(original: sa.Table, name: str) -> sa.Table:
    """Define a shadow table. It has a separate primary key, because SQLite reuses the ids of deleted rows."""
    columns = [sa.Column(column.name, column.type, nullable=True) for column in original.columns]
    return sa.Table(
        f'shadow_{name}', metadata,
        sa.Column('shadow_id', sa.BigInteger().with_variant(sa.Integer, 'sqlite'), primary_key=True),
        sa.Column('ended_at', types.DateTime, nullable=False), *columns,
        sa.Index(f'ix_shadow_{name}_gone', 'ended_at'),
        **types.TABLE_OPTIONS)


# original: shadow table
SHADOWS = {table: _shadow(table, name) for table, name in (
    (instances_history, 'instances'), (instance_actions, 'instance_actions'),
    (instance_action_events, 'instance_action_events'), (migrations, 'migrations'), (task_log, 'task_log'))}
