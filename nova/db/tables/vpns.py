"""The table of VPN instances of projects in the API database: their public addresses."""
import sqlalchemy as sa

from nova.db import types
from nova.db.tables.api import table

# the servers are found by their category in instance_mappings
vpns = table(
    'vpns',
    sa.Column('project_id', sa.String(64), primary_key=True),
    sa.Column('public_address', sa.String(45)),              # set by an operator; NULL for the server's address
    sa.Column('public_port', sa.Integer),
    # start of the server's creation, or NULL if it is not being created
    sa.Column('started_at', types.DateTime),
)
