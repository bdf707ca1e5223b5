"""Shadow tables of a cell: what `nova-manage db archive_deleted_rows` takes out of the reach of every request.

Each has the columns of its original without their rules, so that a row fits whatever it held, and ``gone_at``: when
the server, or the audited period, ended. ``nova-manage db purge`` goes by it.
"""
from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from nova.db import types
from nova.db.tables.cell import instance_action_events
from nova.db.tables.cell import instance_actions
from nova.db.tables.cell import instances_history
from nova.db.tables.cell import metadata
from nova.db.tables.cell import migrations
from nova.db.tables.usage import task_log


def _shadow(original: Any, name: str) -> Any:
    """SQLite gives the number of a deleted row to a new one, so the original's key is no key here."""
    columns = [sa.Column(column.name, column.type, nullable=True) for column in original.columns]
    return sa.Table(
        f'shadow_{name}', metadata,
        sa.Column('shadow_id', sa.BigInteger().with_variant(sa.Integer, 'sqlite'), primary_key=True),
        sa.Column('gone_at', types.DateTime, nullable=False), *columns,
        sa.Index(f'ix_shadow_{name}_gone', 'gone_at'),
        **types.TABLE_OPTIONS)


# original: where its rows go
SHADOWS = {table: _shadow(table, name) for table, name in (
    (instances_history, 'instances'), (instance_actions, 'instance_actions'),
    (instance_action_events, 'instance_action_events'), (migrations, 'migrations'), (task_log, 'task_log'))}
