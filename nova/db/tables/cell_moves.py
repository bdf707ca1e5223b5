"""The table of a cell's database for servers that are being transferred to or from another cell."""
from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from nova.db import types
from nova.db.tables.cell import cell_table

if TYPE_CHECKING:
    from nova.db.tables.rows import CellMovesRow

# each of the two cells has a row for some milliseconds; the conductor finishes or rolls back interrupted transfers
cell_moves: types.Table[CellMovesRow] = cell_table(
    'cell_moves',
    sa.Column('instance_uuid', sa.String(36), primary_key=True),
    sa.Column('move_id', sa.String(36), nullable=False),
    sa.Column('other_cell', sa.String(36), nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    # in the source cell: the snapshot that was copied to the other cell first
    sa.Column('base', types.Json),
)
