"""Alembic runs this for one branch, on the connection that nova.db.schema has opened."""
from alembic import context

from nova.db import repeatable_ddl  # noqa: F401, alembic finds the class

attributes = context.config.attributes
context.configure(connection=attributes['connection'], target_metadata=attributes.get('metadata'),
                  render_item=attributes.get('render_item'), version_table=attributes['version_table'])
with context.begin_transaction():
    context.run_migrations()
