"""SQL functions that behave the same on SQLite, MariaDB and PostgreSQL."""
from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.ext import compiler as sa_compiler

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler


class position(sa.sql.functions.GenericFunction[int]):
    """Case-sensitive position of a text in another, from 1; 0 if absent."""

    type = sa.Integer()
    inherit_cache = True
    name = 'nova_position'


@sa_compiler.compiles(position)
def _position(element: position, compiler: SQLCompiler, **kwargs: object) -> str:
    return f'instr({compiler.process(element.clauses, **kwargs)})'


@sa_compiler.compiles(position, 'postgresql')
def _position_postgresql(element: position, compiler: SQLCompiler, **kwargs: object) -> str:
    return f'strpos({compiler.process(element.clauses, **kwargs)})'


@sa_compiler.compiles(position, 'mysql')
@sa_compiler.compiles(position, 'mariadb')
def _position_mysql(element: position, compiler: SQLCompiler, **kwargs: object) -> str:
    text, part = (compiler.process(clause, **kwargs) for clause in element.clauses)
    return f'instr({text}, cast({part} as binary))'
