"""What servers used over a time: those that are there, and those that the history has."""
from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TYPE_CHECKING

import sqlalchemy as sa

from nova import context as nova_context
from nova.db import engine
from nova.db import statements
from nova.db.tables.cell import instances
from nova.db.tables.cell import instances_history

if TYPE_CHECKING:
    from nova.db.tables.rows import InstancesRow

COLUMNS = ('uuid', 'project_id', 'host', 'display_name', 'vm_state', 'launched_at', 'terminated_at', 'memory_mb',
           'vcpus', 'root_gb', 'ephemeral_gb')
FETCH = 1000             # rows held at once where all of them are read


def _between(begin: datetime, end: datetime, *conditions: Callable[..., Any],
             columns: list[Any] | tuple[str, ...]) -> Any:
    """SELECT of the servers that ran at some time from ``begin`` to ``end``."""
    def of(table: sa.Table, *more: Any) -> sa.Select[Any]:
        c = table.c
        return sa.select(*[c[name] for name in columns]).where(
            c.launched_at < end, sa.or_(c.terminated_at.is_(None), c.terminated_at >= begin), *more,
            *[condition(c) for condition in conditions])
    # a server is deleted when, or after, it was terminated: the index of that time serves here
    return sa.union_all(of(instances), of(instances_history, instances_history.c.deleted_at >= begin))


def servers(conn: sa.Connection, begin: datetime, end: datetime, project_id: nova_context.Projects | str,
            flavor: bool = True, category: str | None = None) -> Any:
    """Rows of the servers that ran in a time, as they come; a few are held at once.

    :param project_id: of this project, or ALL_PROJECTS
    :param flavor: with the whole flavor (a server's list shows its name)
    :param category: of this instance category alone
    """
    statement = _between(begin, end, *_of(project_id, category), columns=(*COLUMNS, 'flavor') if flavor else COLUMNS)
    engine.piecewise(conn)
    return conn.execute(statement.execution_options(yield_per=FETCH)).mappings()


def _of(project_id: nova_context.Projects | str, category: str | None) -> list[Callable[..., Any]]:
    """Conditions; a category of None is any."""
    return [condition for wanted, condition in (
        (nova_context.one_project(project_id), lambda c: c.project_id == project_id),
        (category is not None, lambda c: c.category == category)) if wanted]


def page(conn: sa.Connection, begin: datetime, end: datetime, limit: int, project_id: nova_context.Projects | str,
         marker: str | None = None, category: str | None = None) -> list[sa.RowMapping]:
    """The first ``limit`` of these rows in the order of the servers' ids, after the id ``marker``."""
    conditions = _of(project_id, category)
    if marker is not None:
        conditions.append(lambda c: c.uuid > marker)
    statement = _between(begin, end, *conditions, columns=(*COLUMNS, 'flavor')).order_by('uuid').limit(limit)
    return list(conn.execute(statement).mappings())


def is_known(conn: sa.Connection, uuid: str, project_id: nova_context.Projects | str) -> bool:
    """Whether there is, or was, such a server of a project, or of ALL_PROJECTS."""
    conditions = _of(project_id, None)
    return any(conn.execute(sa.select(table.c.id).where(
        table.c.uuid == uuid, *(condition(table.c) for condition in conditions)).limit(1)).first()
        for table in (instances, instances_history))


def on_host(conn: sa.Connection, host: str, begin: datetime, end: datetime) -> list[InstancesRow]:
    """Rows of the servers that ran on a host in a time, all columns."""
    statement = _between(begin, end, lambda c: c.host == host, columns=instances.columns.keys())
    return statements.dicts(conn.execute(statement))


def count_on_host(conn: sa.Connection, host: str, begin: datetime, end: datetime) -> int:
    """How many servers ran on a host in a time."""
    statement = _between(begin, end, lambda c: c.host == host, columns=('uuid',))
    return conn.execute(sa.select(sa.func.count()).select_from(statement.subquery())).scalar_one()
