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
    found = {tuple(each['column_names']): each['name']
             for each in sa.inspect(op.get_bind()).get_unique_constraints('identity_roles')}
    with op.batch_alter_table('identity_roles', naming_convention=NAMES) as table:
        if ('name',) in found:                             # MariaDB keeps each step of an interrupted revision
            table.drop_constraint(found['name',] or 'uq_identity_roles_name', type_='unique')
        if ('name_space', 'name') not in found:
            table.create_unique_constraint('uniq_identity_roles_name', ['name_space', 'name'])
