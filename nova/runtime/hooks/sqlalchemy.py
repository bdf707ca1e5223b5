"""Private parts of SQLAlchemy 2.1.9: the methods of a dialect that a pool calls.

They take an engine: nothing is imported, since not every daemon loads SQLAlchemy.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal


def replace_method(engine: Any, name: Literal['do_begin', 'do_ping', 'do_rollback'], method: Callable[..., Any]) -> Any:
    """Replace a method of one engine's dialect, and return the previous one."""
    before = getattr(engine.dialect, name)
    setattr(engine.dialect, name, method)
    return before
