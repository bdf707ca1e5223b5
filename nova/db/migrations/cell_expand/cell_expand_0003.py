"""Floats of eight bytes on MariaDB. Hosts write their allocation ratios again with the next report."""
from alembic import op
from sqlalchemy.dialects import mysql

revision = 'cell_expand_0003'
down_revision = 'cell_expand_0002'
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name != 'mysql':
        return
    for name in ('cpu', 'ram', 'disk'):
        op.alter_column('compute_nodes', f'{name}_allocation_ratio', type_=mysql.DOUBLE(asdecimal=False), existing_nullable=False)
