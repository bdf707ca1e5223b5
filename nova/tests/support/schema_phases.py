"""What tests share with nova/tests/unit/test_schema_phases.py."""
import pytest
import sqlalchemy as sa

from nova import exception
from nova.db import schema as migration

EXPANSION = '''
from alembic import op
import sqlalchemy as sa
revision, down_revision, branch_labels, depends_on = {revision!r}, {before!r}, None, None
def upgrade():
    op.add_column('services', sa.Column('mood', sa.String(10), nullable=True))
    op.create_table('moods', sa.Column('name', sa.String(10), primary_key=True), mysql_charset='utf8mb4')
'''
CONTRACTION = '''
from alembic import op
import sqlalchemy as sa
revision, down_revision, branch_labels, depends_on = 'cell_contract_0001', None, None, None
def upgrade():
    with op.batch_alter_table('services') as batch:
        batch.drop_column('disabled_reason')
'''


class Releases:
    """This release, and ``next()``: one whose code has a further expansion and a contraction."""

    def __init__(self, directory, monkeypatch):
        self._patch = monkeypatch
        self._this, self._next = migration.DIRECTORY, directory / 'next'
        head = migration.head('cell')
        after = f'cell_expand_{int(head[-4:]) + 1:04d}'
        for name in ('api_expand', 'cell_expand', 'api_contract', 'cell_contract'):
            (self._next / name).mkdir(parents=True)
            for path in (self._this / name).glob('*.py'):
                (self._next / name / path.name).symlink_to(path)
        for path in self._this.glob('*.*'):
            (self._next / path.name).symlink_to(path)
        (self._next / 'cell_expand' / f'{after}.py').write_text(EXPANSION.format(revision=after, before=head))
        if not list((self._next / 'cell_contract').glob('cell_*')):
            (self._next / 'cell_contract' / 'cell_contract_0001.py').write_text(CONTRACTION)

    def next(self):
        self._patch.setattr(migration, 'DIRECTORY', self._next)

    def this(self):
        self._patch.setattr(migration, 'DIRECTORY', self._this)


@pytest.fixture
def releases(tmp_path, monkeypatch):
    return Releases(tmp_path, monkeypatch)


def check_phases(db, releases):
    """A release and the next one on one database; also run on MariaDB and PostgreSQL by integration/test_databases."""
    migration.sync(db, 'cell')
    releases.next()
    assert migration.is_behind(db, 'cell')
    with pytest.raises(exception.DatabaseNotReady):
        migration.check(db, 'cell')
    migration.sync(db, 'cell')
    migration.check(db, 'cell')
    assert {'mood', 'disabled_reason'} <= columns(db)                 # expanding drops nothing
    releases.this()
    migration.check(db, 'cell')                                       # the older code still starts
    assert not migration.is_behind(db, 'cell')
    migration.sync(db, 'cell')                                        # and its command leaves the schema alone
    with db.writer() as conn:
        conn.exec_driver_sql("INSERT INTO services (uuid, host, binary, topic, availability_zone, created_at, version,"
                             " disabled, forced_down) VALUES ('u', 'h', 'nova-compute', 'compute', 'z',"
                             " '2026-01-01 00:00:00', 1, false, false)".replace(' binary,', f' {quoted(conn)},'))
    releases.next()
    assert migration.is_behind(db, 'cell', migration.CONTRACT)
    assert migration.contract(db, 'cell') and not migration.contract(db, 'cell')
    assert 'disabled_reason' not in columns(db)
    migration.check(db, 'cell')
    releases.this()
    with pytest.raises(exception.DatabaseTooNew, match='cell_contract_0001'):
        migration.check(db, 'cell')


def quoted(conn):
    return conn.dialect.identifier_preparer.quote('binary')


def columns(db):
    with db.reader() as conn:
        return {column['name'] for column in sa.inspect(conn).get_columns('services')}
