"""The table of a cell's database for servers in transfer to or from another cell."""
from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from nova.db import types
from nova.db.tables.cell import cell_table

if TYPE_CHECKING:
    from nova.db.tables.rows import CellMovesRow

# a row in each of both cells for some milliseconds; the conductor settles the rows of interrupted transfers
cell_moves: types.Table[CellMovesRow] = cell_table(
    'cell_moves',
    sa.Column('instance_uuid', sa.String(36), primary_key=True),
    sa.Column('move_id', sa.String(36), nullable=False),
    sa.Column('other_cell', sa.String(36), nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('base', types.Json),               # in the source: the first snapshot copied to the other cell
)
