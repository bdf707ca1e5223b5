"""The table of a cell's database about servers on their way to another cell, or from one."""
import sqlalchemy as sa

from nova.db import types
from nova.db.tables.placement import cell_table

# A row in each of the two cells, for some milliseconds; what stays was broken off and is settled by a conductor.
cell_moves = cell_table(
    'cell_moves',
    sa.Column('instance_uuid', sa.String(36), primary_key=True),
    sa.Column('move_id', sa.String(36), nullable=False),
    sa.Column('other_cell', sa.String(36), nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('base', types.Json),               # where it leaves: the first snapshot that the other cell got
)
