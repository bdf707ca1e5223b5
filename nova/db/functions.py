"""SQL functions that behave the same on SQLite, MariaDB and PostgreSQL."""
from __future__ import annotations

from typing import Any, TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.ext import compiler as sa_compiler

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler


class position(sa.sql.functions.GenericFunction[int]):
    """Case-sensitive position of a text in another, from 1; 0 if absent."""

    type = sa.Integer()
    inherit_cache = True
    name = 'nova_position'


class bytes_of(sa.sql.functions.GenericFunction[str]):
    """A text that is compared by bytes. The order of bytes is the order of code points, as in Python."""

    type = sa.String()
    inherit_cache = True
    name = 'nova_bytes'


# {function: {dialect: SQL of the function}}; the dialect '' stands for all others
_FORMS: dict[type[sa.sql.functions.GenericFunction[Any]], dict[str, str]] = {
    position: {'': 'instr({}, {})', 'postgresql': 'strpos({}, {})', 'mysql': 'instr({}, cast({} as binary))'},
    bytes_of: {'': '{}', 'postgresql': '({} COLLATE "C")', 'mysql': 'cast({} as binary)'},
}


def _compiles(function: type[sa.sql.functions.GenericFunction[Any]], dialect: str, form: str) -> None:
    def compiled(element: sa.sql.functions.GenericFunction[Any], compiler: SQLCompiler, **kwargs: object) -> str:
        return form.format(*(compiler.process(clause, **kwargs) for clause in element.clauses))
    sa_compiler.compiles(function, *filter(None, (dialect,)))(compiled)


for _function, _by_dialect in _FORMS.items():
    for _dialect, _form in _by_dialect.items():
        _compiles(_function, _dialect, _form)
