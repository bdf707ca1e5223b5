"""Usage of request rate limits by all API processes, stored as the time when a limit will be unused again."""
from collections.abc import Iterable

import sqlalchemy as sa

from nova.db import engine
from nova.db.tables.api import rate_limits


class NotTaken(Exception):
    """A limit is used up or its row is missing; the caller must roll back."""


def take(conn: sa.Connection, owner: str, steps: dict[str, tuple[int, int]], now: int) -> None:
    """Count one request against all limits of its owner, in one UPDATE.

    :param steps: {name: (microseconds of one request, microseconds of the whole limit)}
    :param now: microseconds since the epoch
    :raises NotTaken: a limit is used up, or its row does not exist
    """
    table = rate_limits
    step = sa.case({name: step for name, (step, _window) in steps.items()}, value=table.c.name)
    latest = sa.case({name: now + window - step for name, (step, window) in steps.items()}, value=table.c.name)
    begins = sa.case((table.c.full_at < now, now), else_=table.c.full_at)
    taken = conn.execute(sa.update(table).where(
        table.c.owner == owner, table.c.name.in_(sorted(steps)), table.c.full_at <= latest,
    ).values(full_at=begins + step)).rowcount
    if taken != len(steps):
        raise NotTaken


def begin(conn: sa.Connection, owner: str, names: dict[str, tuple[int, int]], now: int) -> None:
    """Insert the missing rows of an owner, as unused limits."""
    for name in sorted(names):
        engine.insert_ignore(conn, rate_limits, {'owner': owner, 'name': name, 'full_at': now})


def full_at(conn: sa.Connection, owner: str, names: Iterable[str]) -> dict[str, int]:
    """Return {name: time when the limit is completely unused again, in microseconds since the epoch}."""
    table = rate_limits
    rows = conn.execute(sa.select(table.c.name, table.c.full_at).where(
        table.c.owner == owner, table.c.name.in_(sorted(names))))
    return {row.name: row.full_at for row in rows}


def prune(conn: sa.Connection, now: int) -> None:
    """Delete rows of completely unused limits."""
    conn.execute(sa.delete(rate_limits).where(rate_limits.c.full_at < now))
