"""Schema changes on MariaDB and MySQL that can be repeated after an interruption.

These servers commit each CREATE and ALTER, so a killed migration leaves a revision partly done and not recorded. The
next run begins the revision again and skips what exists. PostgreSQL and SQLite roll the revision back.
"""
from __future__ import annotations

from typing import Any

from alembic.ddl.mysql import MySQLImpl
import sqlalchemy as sa


class RepeatableImpl(MySQLImpl):
    """Alembic's operations of the dialect mysql; alembic uses the last class with this ``__dialect__``."""

    __dialect__ = 'mysql'

    def create_table(self, table: sa.Table, **words: object) -> None:
        columns = {each['name'] for each in self._inspector().get_columns(table.name)} if self._inspector().has_table(
            table.name) else set()
        if columns >= {*table.columns.keys()}:                 # not the table of another product
            for index in table.indexes:
                self.create_index(index)
        else:
            super().create_table(table, **words)

    def create_index(self, index: sa.Index, **words: object) -> None:
        assert index.table is not None
        if index.name not in {each['name'] for each in self._inspector().get_indexes(index.table.name)}:
            super().create_index(index, **words)

    def add_column(self, table_name: str, column: sa.Column[Any], **words: Any) -> None:
        if column.name not in {each['name'] for each in self._inspector().get_columns(table_name)}:
            super().add_column(table_name, column, **words)

    def _inspector(self) -> sa.Inspector:
        assert self.connection is not None                     # offline migrations are not supported
        return sa.inspect(self.connection)
