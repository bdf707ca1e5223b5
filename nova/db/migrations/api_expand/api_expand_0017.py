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
    op.alter_column('flavors', 'rxtx_factor', type_=mysql.DOUBLE(asdecimal=False), existing_nullable=False)
    flavors = sa.table('flavors', sa.column('id', sa.Integer), sa.column('rxtx_factor', mysql.DOUBLE(asdecimal=False)))
    for number, factor in op.get_bind().execute(sa.select(flavors.c.id, flavors.c.rxtx_factor)).all():
        op.execute(sa.update(flavors).where(flavors.c.id == number).values(
            rxtx_factor=float(f'{factor:.6g}')))                   # the digits that four bytes keep and MariaDB showed
    for table in ('flavors', 'instance_categories'):
        op.alter_column(table, 'description', type_=mysql.MEDIUMTEXT(), existing_nullable=True)
