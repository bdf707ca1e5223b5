"""QoS policies of gateways of routers."""
from alembic import op
import sqlalchemy as sa

revision = 'api_expand_0014'
down_revision = 'api_expand_0013'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('routers', sa.Column('qos_policy_id', sa.String(36)))
    op.create_index('ix_routers_qos_policy_id', 'routers', ['qos_policy_id'])
