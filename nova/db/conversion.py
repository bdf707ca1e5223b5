"""Conversion of a database that was created by the code before the first release.

The newest schema revision of that code (``schema.PREDECESSORS``) and the first revision of the present code have the
same tables, but some names differ. The conversion renames columns, indexes and stored values as ROWS lists them, and
records the new revision. All changes are in one transaction, except on MariaDB, which commits each rename of a column
separately. An interrupted conversion can be repeated: it skips columns with their new name. Databases of any other
revision are refused.

To rename a stored value: rename it in the code and add a row to ROWS. Also put the old value into a row of
``nova/tests/older_release/rows.json``; ``unit/test_conversion.py`` fails without it. To rename a column:
rename it in the tables and in the first revision, which creates them, and add a row to ROWS. Examples:

    Column('disk_keys', 'sealed', 'encrypted_key')               a column; put this row before the rows of its values
    Index('t', 'ix_t_old', 'ix_t_new')                           an index
    Value('instances', 'cell_move', 'leaving', 'outgoing')       the whole value of a column
    Key('instance_actions', 'arguments', 'told', 'event_facts')  a key of the JSON object that a column holds

``nova.runtime.stored_files`` renames stored files. Do not add to ROWS after the first release: renamed
values then need an online data migration (``nova.db.online_migrations``), because two releases run during an upgrade.
"""
from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import sqlite3
from typing import Any, TYPE_CHECKING

import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.db import engine
from nova.db import schema
from nova.runtime import durable_files

if TYPE_CHECKING:
    from sqlalchemy import Connection

LOG = logging.getLogger(__name__)

BATCH = 500                  # maximum number of documents that one statement reads


@dataclasses.dataclass(frozen=True)
class Value:
    """A renamed value of a column."""

    table: str
    column: str
    old: str
    new: str

    @property
    def place(self) -> str:
        """Text for the log: what ``apply`` changes."""
        return f'rows of {self.table}.{self.column}'

    def apply(self, conn: Connection) -> int:
        """Rename the value in all rows; return their number."""
        column: sa.ColumnClause[Any] = sa.column(self.column)
        table = sa.table(self.table, column)
        return conn.execute(sa.update(table).where(column == self.old).values({self.column: self.new})).rowcount


@dataclasses.dataclass(frozen=True)
class Key:
    """A renamed key of the JSON object that a column holds."""

    table: str
    column: str
    old: str
    new: str

    @property
    def place(self) -> str:
        """Text for the log: what ``apply`` changes."""
        return f'rows of {self.table}.{self.column}'

    def apply(self, conn: Connection) -> int:
        """Rename the key in all rows; return their number. The table must have a primary key of one column."""
        name, = sa.inspect(conn).get_pk_constraint(self.table)['constrained_columns']
        column: sa.ColumnClause[Any] = sa.column(self.column)
        key: sa.ColumnClause[Any] = sa.column(name)
        table = sa.table(self.table, column, key)
        statement = sa.update(table).where(key == sa.bindparam('key')).values({self.column: sa.bindparam('renamed')})
        # read only the primary keys first, because the documents of a large table do not fit into memory
        keys, count = conn.scalars(sa.select(key).where(column.like(f'%"{self.old}"%'))).all(), 0
        for begin in range(0, len(keys), BATCH):
            found = conn.execute(sa.select(key, column).where(key.in_(keys[begin:begin + BATCH]))).all()
            changed = [{'key': ident, 'renamed': renamed} for ident, text in found
                       if (renamed := self._renamed(text)) is not None]
            if changed:
                conn.execute(statement, changed)
            count += len(changed)
        return count

    def _renamed(self, text: str) -> str | None:
        """Return the text of the changed object, or None if the object does not have the key."""
        document = utils.load_json(text)
        if not isinstance(document, dict) or self.old not in document:
            return None
        return utils.dump_json({self.new if name == self.old else name: value for name, value in document.items()})


@dataclasses.dataclass(frozen=True)
class Column:
    """A renamed column. An index ``ix_<table>_<column>`` is renamed with it."""

    table: str
    old: str
    new: str

    @property
    def place(self) -> str:
        """Text for the log: what ``apply`` changes."""
        return f'columns of {self.table}'

    def apply(self, conn: Connection) -> int:
        """Rename the column and its index unless they have the new names; return the number of renamed columns."""
        quote = conn.dialect.identifier_preparer.quote
        renames = self.old in {column['name'] for column in sa.inspect(conn).get_columns(self.table)}
        if renames:
            conn.exec_driver_sql(f'ALTER TABLE {quote(self.table)} RENAME COLUMN {quote(self.old)} TO '
                                 f'{quote(self.new)}')
        Index(self.table, f'ix_{self.table}_{self.old}', f'ix_{self.table}_{self.new}').apply(conn)
        return int(renames)


@dataclasses.dataclass(frozen=True)
class Index:
    """A renamed index. Column renames ``ix_<table>_<column>`` with it; list other indexes here."""

    table: str
    old: str
    new: str

    @property
    def place(self) -> str:
        """Text for the log: what ``apply`` changes."""
        return f'indexes of {self.table}'

    def apply(self, conn: Connection) -> int:
        """Rename the index unless it has the new name; return the number of renamed indexes."""
        quote = conn.dialect.identifier_preparer.quote
        found = [index for index in sa.inspect(conn).get_indexes(self.table) if index['name'] == self.old]
        for index in found:
            columns = ', '.join(quote(str(name)) for name in index['column_names'])
            for statement in _index_renames(conn.dialect.name, quote(self.table), quote(self.old), quote(self.new),
                                            columns):
                conn.exec_driver_sql(statement)
        return len(found)


def _index_renames(dialect: str, table: str, old: str, new: str, columns: str) -> list[str]:
    """Return the statements that rename an index. SQLite cannot rename an index, so drop and create it."""
    if dialect == 'postgresql':
        return [f'ALTER INDEX {old} RENAME TO {new}']
    if dialect == 'sqlite':
        return [f'DROP INDEX {old}', f'CREATE INDEX {new} ON {table} ({columns})']
    return [f'ALTER TABLE {table} RENAME INDEX {old} TO {new}']


# {branch: renamed columns and indexes, then renamed values}
ROWS: dict[str, tuple[Column | Index | Value | Key, ...]] = {
    'api': (
        Column('default_security_group_rules', 'of_group', 'from_own_group'),
        Column('default_security_group_rules', 'in_default', 'used_in_default_sg'),
        Column('default_security_group_rules', 'in_others', 'used_in_non_default_sg'),
        Column('ec2_client_tokens', 'tried_at', 'attempted_at'),
        Column('ec2_route_tables', 'main_of', 'main_vpc_id'),
        Column('idempotency_keys', 'tried_at', 'attempted_at'),
        Column('identity_credentials', 'sealed_blob', 'encrypted_blob'),
        Column('identity_revoked_tokens', 'forget_at', 'expires_at'),
        Column('identity_users', 'tokens_void_until', 'tokens_revoked_until'),
        Column('message_keys', 'ends_at', 'expires_at'),
        Column('message_keys', 'vouched_by', 'signed_by'),
        Column('message_keys', 'voucher', 'key_signature'),
        Column('network_hosts', 'seen_at', 'last_seen_at'),
        Column('network_leases', 'until', 'expires_at'),
        Column('ports', 'made_for_server', 'created_by_compute'),
        Column('subnet_pools', 'default_of', 'default_ip_version'),
        Column('volume_encryption_keys', 'sealed', 'encrypted_key'),
        Column('volume_encryption_keys', 'sealed_with', 'encryption_key_id'),
        Column('vpns', 'begun_at', 'started_at'),
        Key('volume_attachments', 'connector', 'leaves', 'previous_host'),
    ),
    'cell': (
        Column('compute_nodes', 'changed', 'change_number'),
        Column('compute_nodes', 'used_changed', 'usage_change_number'),
        Column('compute_nodes', 'numa_changed', 'numa_change_number'),
        Column('console_auth_tokens', 'user_token_ends_at', 'user_token_expires_at'),
        Column('console_auth_tokens', 'used_until', 'session_expires_at'),
        Column('disk_keys', 'sealed', 'encrypted_key'),
        Column('disk_keys', 'sealed_with', 'encryption_key_id'),
        Column('guest_reports', 'settled', 'resolved'),
        Column('host_maintenances', 'next_look', 'next_check_at'),
        *(Column(table, old, new) for table in ('migrations', 'shadow_migrations') for old, new in (
            ('held_host', 'claimed_host'), ('held_node', 'claimed_node'), ('held_vcpus', 'claimed_vcpus'),
            ('held_memory_mb', 'claimed_memory_mb'), ('held_local_gb', 'claimed_local_gb'),
            ('held_numa_topology', 'claimed_numa_topology'), ('swapped', 'claims_swapped'))),
        Index('migrations', 'ix_migrations_held', 'ix_migrations_claimed'),
        Column('pci_devices', 'held', 'claimed_by_move'),
        *(row for name in ('instances', 'instance_actions', 'instance_action_events', 'migrations', 'task_log')
          for row in (Column(f'shadow_{name}', 'gone_at', 'ended_at'),
                      Index(f'shadow_{name}', f'ix_shadow_{name}_gone', f'ix_shadow_{name}_ended'))),
        Column('volume_keys', 'sealed', 'encrypted_key'),
        Column('volume_keys', 'sealed_with', 'encryption_key_id'),
        Key('instance_actions', 'arguments', 'told', 'event_facts'),
        Key('instance_actions', 'arguments', 'sealed_password', 'encrypted_password'),
        Value('instances', 'cell_move', 'leaving', 'outgoing'),
        Value('instances', 'cell_move', 'coming', 'incoming'),
        Value('host_maintenance_servers', 'state', 'kept', 'skipped'),
        Value('host_maintenance_servers', 'state', 'gone', 'deleted'),
        Key('migrations', 'arguments', 'grows', 'in_place'),
        Key('migrations', 'arguments', 'ignore', 'ignored_hosts'),
        Key('migrations', 'arguments', 'left', 'old_attachments'),
        Key('migrations', 'arguments', 'tried', 'tried_hosts'),
    ),
}


def renamed_columns(branch: str, table: str) -> dict[str, str]:
    """Return {old name: new name} of the columns of a table."""
    return {row.old: row.new for row in ROWS[branch] if isinstance(row, Column) and row.table == table}


def is_due(db: engine.Database, branch: str) -> bool:
    """Return whether a database was created by the code before the first release."""
    return schema.version(db) == schema.PREDECESSORS[branch]


def copy(db: engine.Database, path: str) -> None:
    """Copy an SQLite database to a new file (mode 0600) that has the owner of the database.

    :raises InvalidInput: the file cannot be written; it does not exist afterwards
    """
    part = f'{db.url.database}.before-conversion.part'
    try:
        for name in (part, part + '-wal', part + '-shm', part + '-journal'):        # left by an interrupted copy
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        with contextlib.closing(sqlite3.connect(part)) as target, db.reader() as conn:
            source: Any = conn.connection.driver_connection
            source.backup(target)
            found = target.execute('PRAGMA quick_check(1)').fetchone()[0]
        if found != 'ok':
            raise sqlite3.DatabaseError(found)
        if owner := durable_files.owner_of(str(db.url.database)):
            os.chown(part, *owner, follow_symlinks=False)
        durable_files.commit(part, path)
    except (OSError, sqlite3.Error) as error:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise exception.InvalidInput(f'Cannot copy the database {db.url.database} to {path}: {error}. Nothing was '
                                     'converted.') from None


def convert(db: engine.Database, branch: str) -> bool:
    """Convert a database, or return False if it needs no conversion. The caller must have copied the database, and no
    service may use it.
    """
    with db.writer() as conn, schema.alone(conn):
        if schema.version_of(conn) != schema.PREDECESSORS[branch]:
            return False
        counts = {row: row.apply(conn) for row in ROWS[branch]}
        schema.stamp(conn, schema.revisions(branch)[0])
    for row, count in counts.items():
        LOG.info('Renamed %s to %s in %d %s', row.old, row.new, count, row.place)
    LOG.info('Converted the %s database to revision %s', branch, schema.revisions(branch)[0])
    return True
