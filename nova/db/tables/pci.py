"""The table of a cell's database for the assignment of PCI devices."""
from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from nova.db import types
from nova.db.tables.cell import cell_table

if TYPE_CHECKING:
    from nova.db.tables.rows import PciDevicesRow

# One row for each assignable device of a host; see objects.pci.Device. If ``held`` is true, the device belongs to the
# share of a move (migrations.held_host), not to the server's own share.
pci_devices: types.Table[PciDevicesRow] = cell_table(
    'pci_devices',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer, 'sqlite'), primary_key=True),
    sa.Column('host', sa.String(255), nullable=False),
    sa.Column('node', sa.String(255), nullable=False),
    sa.Column('address', sa.String(16), nullable=False),
    sa.Column('created_at', types.DateTime, nullable=False),
    sa.Column('updated_at', types.DateTime, nullable=False),
    sa.Column('vendor_id', sa.String(4), nullable=False),
    sa.Column('product_id', sa.String(4), nullable=False),
    sa.Column('dev_type', sa.String(8), nullable=False),     # objects.pci.TYPES
    sa.Column('numa_node', sa.Integer),
    sa.Column('parent_addr', sa.String(16)),                 # address of a virtual function's physical function
    sa.Column('devname', sa.String(255)),                    # name of the network interface
    sa.Column('tags', types.Json, nullable=False),           # from the configuration
    sa.Column('status', sa.String(16), nullable=False),      # available, claimed, unavailable, removed
    sa.Column('instance_uuid', sa.String(36)),
    sa.Column('request_id', sa.String(36)),                  # port that requested the device
    sa.Column('held', sa.Boolean, nullable=False, default=False),
    sa.UniqueConstraint('host', 'node', 'address', name='uniq_pci_devices_node_address'),
    sa.Index('ix_pci_devices_instance', 'instance_uuid'))
