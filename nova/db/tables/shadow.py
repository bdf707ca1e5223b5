"""Shadow tables of a cell for `nova-manage db archive_deleted_rows`.

A shadow table has the columns of its original, without constraints, so that every row fits. The additional column
``ended_at`` is the time of the server's deletion or the end of the audited period; ``nova-manage db purge`` reads it.
"""
import sqlalchemy as sa

from nova.db import types
from nova.db.tables import cell as t


def _shadow(original: sa.Table, name: str) -> sa.Table:
    """Define a shadow table. It has a separate primary key, because SQLite reuses the ids of deleted rows."""
    columns = [sa.Column(column.name, column.type, nullable=True) for column in original.columns]
    return sa.Table(
        f'shadow_{name}', t.metadata,
        sa.Column('shadow_id', types.Number, primary_key=True),
        sa.Column('ended_at', types.DateTime, nullable=False), *columns,
        sa.Index(f'ix_shadow_{name}_ended', 'ended_at'),
        **types.TABLE_OPTIONS)


# {original: its shadow table}
SHADOWS = {table: _shadow(table, name) for table, name in (
    (t.instances_history, 'instances'), (t.instance_actions, 'instance_actions'),
    (t.instance_action_events, 'instance_action_events'), (t.migrations, 'migrations'), (t.task_log, 'task_log'))}
