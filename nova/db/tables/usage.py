"""The table of usage audits in a cell's database."""
from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from nova.db import types
from nova.db.tables.cell import cell_table

if TYPE_CHECKING:
    from nova.db.tables.rows import TaskLogRow

# one row for each host and period; the primary key prevents concurrent audits of one period
task_log: types.Table[TaskLogRow] = cell_table(
    'task_log',
    sa.Column('host', sa.String(255), primary_key=True),
    sa.Column('period_beginning', types.DateTime, primary_key=True),
    sa.Column('period_ending', types.DateTime, primary_key=True),
    sa.Column('state', sa.String(16), nullable=False),               # RUNNING, DONE
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Column('task_items', sa.Integer, nullable=False, default=0),  # number of servers
    sa.Column('errors', sa.Integer, nullable=False, default=0),
    sa.Column('message', sa.String(255), nullable=False),
    sa.Index('ix_task_log_period', 'period_beginning', 'period_ending'),
)
