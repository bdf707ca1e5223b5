"""Administrative states of hosts of networks, and routers that an administrator took from their host."""
from alembic import op
import sqlalchemy as sa

revision = 'api_expand_0012'
down_revision = 'api_expand_0011'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('network_hosts', sa.Column('admin_state_up', sa.Boolean, nullable=False, server_default=sa.true()))
    op.add_column('network_hosts', sa.Column('description', sa.String(255)))
    op.add_column('routers', sa.Column('taken', sa.Boolean, nullable=False, server_default=sa.false()))
