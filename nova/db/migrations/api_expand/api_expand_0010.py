"""Tasks of image imports."""
from alembic import op
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

revision = 'api_expand_0010'
down_revision = 'api_expand_0009'
branch_labels = None
depends_on = None

LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')
MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')


def upgrade() -> None:
    op.create_table(
        'image_tasks',
        sa.Column('id', sa.String(36), primary_key=True), sa.Column('image_id', sa.String(36), nullable=False),
        sa.Column('type', sa.String(16), nullable=False), sa.Column('status', sa.String(16), nullable=False),
        sa.Column('message', LONG_TEXT, nullable=False), sa.Column('owner', sa.String(255)),
        sa.Column('user_id', sa.String(255)), sa.Column('request_id', sa.String(255)),
        sa.Column('input', LONG_TEXT, nullable=False), sa.Column('created_at', MOMENT, nullable=False),
        sa.Column('updated_at', MOMENT, nullable=False), sa.Index('ix_image_tasks_image', 'image_id'),
        sa.Index('ix_image_tasks_owner', 'owner', 'created_at'), mysql_engine='InnoDB', mysql_charset='utf8mb4',
    )
