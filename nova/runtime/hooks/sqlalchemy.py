"""Private parts of SQLAlchemy 2.1.9: the methods of a dialect that a connection pool calls.

This module does not import SQLAlchemy, because some daemons do not need it.
"""
from collections.abc import Callable
from typing import Literal, ParamSpec, Protocol, TypeVar

P = ParamSpec('P')
R = TypeVar('R')


class Engine(Protocol):
    @property
    def dialect(self) -> object: ...


def replace_method(engine: Engine, name: Literal['do_begin', 'do_ping', 'do_rollback'],
                   method: Callable[P, R]) -> Callable[P, R]:
    """Replace a method of one engine's dialect, and return the previous one."""
    before: Callable[P, R] = getattr(engine.dialect, name)
    setattr(engine.dialect, name, method)
    return before
