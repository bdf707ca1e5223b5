"""Databases of older schemas with rows in them, brought to the newest one."""
import uuid

import sqlalchemy as sa
from alembic import command

from nova.db import schema as migration
from nova.db.placement import categories
from nova.db.servers import listing
from nova.tests import server_rows


def at(db, branch, revision):
    """Bring an empty database to an older revision."""
    with db.writer() as conn:
        command.upgrade(migration.config(branch, conn), revision)


def fill(db, table, row):
    """A row of a table as the database has it, which may have fewer columns than the code's."""
    with db.writer() as conn:
        found = sa.Table(table, sa.MetaData(), autoload_with=conn)
        conn.execute(sa.insert(found).values(**{name: value for name, value in row.items() if name in found.c}))


def check_categories(make):
    """Servers of before instance categories are regular after the upgrade, and the predefined categories are there.

    :param make: function(name) -> an empty Database
    """
    api_db, db = make('older_api'), make('older_cell')
    at(api_db, 'api', 'api_0002')
    at(db, 'cell', 'cell_0002')
    ident, row = str(uuid.uuid4()), server_rows.row(1)
    row = {name: '{}' if isinstance(value, (dict, list)) else value for name, value in row.items()}
    fill(db, 'instances', {**row, 'uuid': ident})
    fill(api_db, 'instance_mappings', {
        'instance_uuid': ident, 'cell_uuid': 'c', 'project_id': 'p', 'user_id': 'u', 'vcpus': 1, 'memory_mb': 1,
        'created_at': server_rows.START, 'queued_for_delete': False})
    migration.sync(api_db, 'api')
    migration.sync(db, 'cell')
    with api_db.reader() as conn:
        assert conn.execute(sa.text('SELECT category FROM instance_mappings')).scalars().all() == ['regular']
        assert [row['name'] for row in categories.page(conn)] == ['regular', 'vpn']
        assert categories.is_used(conn, 'regular') and not categories.is_used(conn, 'vpn')
    with db.reader() as conn:
        assert listing.by_uuid(conn, ident)['category'] == 'regular'
    api_db.run(categories.create, {'name': 'storage'})
    api_db.run(categories.delete, 'storage')
    api_db.run(categories.create, {'name': 'storage'})
    api_db.run(categories.purge, 'storage')
    with api_db.reader() as conn:
        assert [row['name'] for row in categories.page(conn, deleted=True)] == ['regular', 'vpn', 'storage']
