"""Rings of counters."""
from alembic import op
import sqlalchemy as sa

revision = 'cell_expand_0002'
down_revision = 'cell_expand_0001'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'counter_rings',
        sa.Column('owner_uuid', sa.String(36), primary_key=True),
        sa.Column('step', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column('data', sa.LargeBinary, nullable=False), mysql_engine='InnoDB', mysql_charset='utf8mb4',
    )
