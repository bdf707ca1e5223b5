"""Floats of eight bytes and long descriptions on MariaDB."""
from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = 'api_expand_0017'
down_revision = 'api_expand_0016'
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name != 'mysql':
        return
    op.alter_column('flavors', 'rxtx_factor', type_=mysql.DOUBLE(), existing_nullable=False)
    op.execute(sa.text('UPDATE flavors SET rxtx_factor = ROUND(rxtx_factor, 6)'))     # what four bytes have kept
    for table in ('flavors', 'instance_categories'):
        op.alter_column(table, 'description', type_=mysql.MEDIUMTEXT(), existing_nullable=True)
