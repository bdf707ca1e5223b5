"""Names of roles that are unique in their domain. Roles of domains that are there keep the names of all domains."""
from alembic import op
import sqlalchemy as sa

revision = 'api_expand_0015'
down_revision = 'api_expand_0014'
branch_labels = None
depends_on = None

NAMES = {'uq': 'uq_%(table_name)s_%(column_0_name)s'}                # a constraint of SQLite has no name


def upgrade() -> None:
    op.add_column('identity_roles', sa.Column('name_space', sa.String(64), nullable=False, server_default=''))
    before = next(each['name'] for each in sa.inspect(op.get_bind()).get_unique_constraints('identity_roles')
                  if each['column_names'] == ['name'])
    with op.batch_alter_table('identity_roles', naming_convention=NAMES) as table:
        table.drop_constraint(before or 'uq_identity_roles_name', type_='unique')
        table.create_unique_constraint('uniq_identity_roles_name', ['name_space', 'name'])
