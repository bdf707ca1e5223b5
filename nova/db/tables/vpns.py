"""The table of the VPN instances of projects, in the API database: where clients reach them."""
import sqlalchemy as sa

from nova.db import types
from nova.db.tables.api import table

# The servers themselves are those of the category in instance_mappings.
vpns = table(
    'vpns',
    sa.Column('project_id', sa.String(64), primary_key=True),
    sa.Column('public_address', sa.String(45)),              # what an operator has set; NULL: that of the server
    sa.Column('public_port', sa.Integer),
    sa.Column('begun_at', types.DateTime),                   # who makes the server now began then; NULL: none does
)
