"""Tables of a cell's database for the maintenance of hosts."""
from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from nova.db import types
from nova.db.tables.cell import cell_table

if TYPE_CHECKING:
    from nova.db.tables.rows import HostMaintenanceServersRow, HostMaintenancesRow

_number = sa.BigInteger().with_variant(sa.Integer, 'sqlite')

# the last maintenance of each host; db/moves/maintenance.py describes statuses and transitions
host_maintenances: types.Table[HostMaintenancesRow] = cell_table(
    'host_maintenances',
    sa.Column('id', _number, primary_key=True),
    sa.Column('uuid', sa.String(36), nullable=False, unique=True),
    sa.Column('host', sa.String(255), nullable=False, unique=True),
    # aggregate in the API database whose hosts take the servers
    sa.Column('aggregate_id', sa.Integer, nullable=False),
    sa.Column('status', sa.String(16), nullable=False),
    sa.Column('message', types.LongText),                    # sentence about failures
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Column('stopped_at', types.DateTime),
    # time when a conductor processes it next, or NULL if no work is left
    sa.Column('next_check_at', types.DateTime),
    sa.Column('project_id', sa.String(255)),
    sa.Column('user_id', sa.String(255)),
    sa.Index('ix_host_maintenances_next_check_at', 'next_check_at'),
    sa.Index('ix_host_maintenances_aggregate', 'aggregate_id'),
)

# servers of a maintenance with their plan and result
host_maintenance_servers: types.Table[HostMaintenanceServersRow] = cell_table(
    'host_maintenance_servers',
    sa.Column('maintenance_id', _number, primary_key=True, autoincrement=False),
    sa.Column('instance_uuid', sa.String(36), primary_key=True),
    sa.Column('direction', sa.String(4), nullable=False),    # away or back
    sa.Column('state', sa.String(8), nullable=False),
    sa.Column('migration_id', _number),                      # the server's last move
    sa.Column('dest', sa.String(255)),                       # destination of the move
    sa.Column('reason', types.LongText),                     # reason of a failure
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Index('ix_host_maintenance_servers_state', 'maintenance_id', 'state'),
)
