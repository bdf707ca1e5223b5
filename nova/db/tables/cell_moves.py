"""The table of a cell's database for servers in transfer to or from another cell."""
import sqlalchemy as sa

from nova.db import types
from nova.db.tables.placement import cell_table

# a row in each of both cells for some milliseconds; the conductor settles the rows of interrupted transfers
cell_moves = cell_table(
    'cell_moves',
    sa.Column('instance_uuid', sa.String(36), primary_key=True),
    sa.Column('move_id', sa.String(36), nullable=False),
    sa.Column('other_cell', sa.String(36), nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('base', types.Json),               # in the source: the first snapshot copied to the other cell
)
