"""Default volume types of projects."""
from alembic import op
import sqlalchemy as sa

revision = 'api_expand_0003'
down_revision = 'api_expand_0002'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'volume_default_types',
        sa.Column('project_id', sa.String(255), primary_key=True),
        sa.Column('type_id', sa.String(36), nullable=False, index=True),
        mysql_engine='InnoDB', mysql_charset='utf8mb4')
