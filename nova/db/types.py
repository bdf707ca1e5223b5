"""Column types that behave the same on SQLite, MariaDB and PostgreSQL."""
from __future__ import annotations

from collections.abc import Collection, Mapping
import datetime
import functools
from typing import Any, Generic, TYPE_CHECKING, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from nova import json_types
from nova import utils

# MariaDB's TEXT is limited to 64 KiB, its DATETIME to whole seconds, and its FLOAT to four bytes
LongText = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')
Float = sa.Float().with_variant(mysql.DOUBLE(asdecimal=False), 'mysql', 'mariadb')
DateTime = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
Number = sa.BigInteger().with_variant(sa.Integer, 'sqlite')       # SQLite generates ids only for INTEGER keys

# set explicitly: the default collation of utf8mb4 depends on the server's release (nova.db.collations)
COLLATION = 'utf8mb4_general_ci'
TABLE_OPTIONS: dict[str, Any] = {'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': COLLATION}

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    RowT = TypeVar('RowT', default=Any)

    class Table(sa.Table, Generic[RowT]):
        """A table with the type of its rows, from nova.db.tables.rows."""
else:
    Table = sa.Table

# a mapping (also a TypedDict) is a JSON document; a collection is a JSON list, or the allowed values of a column
ColumnValue: TypeAlias = ('None | bool | int | float | str | bytes | datetime.datetime | Collection[ColumnValue] | '
                          'Mapping[str, object]')
ColumnValues: TypeAlias = Mapping[str, ColumnValue]
Columns = ReadOnlyColumnCollection[str, sa.ColumnElement[Any]]           # columns of a table or subquery


class Json(sa.types.TypeDecorator[Any]):
    """A JSON document in a text column; None is NULL."""

    impl = LongText
    cache_ok = True

    def process_bind_param(self, value: dict[str, Any] | list[Any] | None, dialect: sa.Dialect) -> str | None:
        return None if value is None else utils.dump_json(value)

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> json_types.Json:
        return None if value is None else utils.load_json(value)


class Shared(Json):
    """A JSON document that is equal in many rows. Equal texts are read as one object, which must not be changed."""

    cache_ok = True

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> json_types.Json:
        return None if value is None else _shared(value)


class SharedList(Json):
    """A JSON list that is equal in many rows. Equal texts are one object, which must not be changed. NULL is []."""

    cache_ok = True

    def process_result_value(self, value: str | None, dialect: sa.Dialect) -> json_types.Json:
        return _EMPTY if value is None else _shared(value)


_EMPTY: list[Any] = []
_shared = functools.lru_cache(maxsize=4096)(utils.load_json)
