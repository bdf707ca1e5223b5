"""The table of VPN instances of projects in the API database: their public addresses."""
import sqlalchemy as sa

from nova.db import types
from nova.db.tables.api import table

# the servers are those of the category in instance_mappings
vpns = table(
    'vpns',
    sa.Column('project_id', sa.String(64), primary_key=True),
    sa.Column('public_address', sa.String(45)),              # set by an operator; NULL: that of the server
    sa.Column('public_port', sa.Integer),
    sa.Column('started_at', types.DateTime),                   # begin of the server's creation; NULL: not being created
)
