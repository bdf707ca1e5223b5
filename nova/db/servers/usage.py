"""Usage of servers over a period, including deleted servers in the history."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, NotRequired, TypedDict

import sqlalchemy as sa

from nova import context as nova_context
from nova.db import engine
from nova.db import statements
from nova.db import types
from nova.db.tables.cell import instances
from nova.db.tables.cell import instances_history
from nova.db.tables.rows import InstancesRow

# columns of a server from which its usage is computed
ServerUsage = TypedDict('ServerUsage', {
    'uuid': str, 'project_id': str, 'host': str | None, 'display_name': str, 'vm_state': str, 'launched_at': datetime,
    'terminated_at': datetime | None, 'memory_mb': int, 'vcpus': int, 'root_gb': int, 'ephemeral_gb': int,
    'flavor': NotRequired[Any]})
COLUMNS = tuple(name for name in ServerUsage.__annotations__ if name != 'flavor')
FETCH = 1000             # rows that a stream keeps in memory
_Condition = Callable[[types.Columns], sa.ColumnElement[bool]]


def _between(begin: datetime, end: datetime, *conditions: _Condition,
             columns: Iterable[str]) -> sa.CompoundSelect[Any]:
    """Return a SELECT of the servers that ran at some time between ``begin`` and ``end``."""
    def of(table: sa.Table, *more: sa.ColumnElement[bool]) -> sa.Select[Any]:
        c = table.c
        return sa.select(*[c[name] for name in columns]).where(
            c.launched_at < end, sa.or_(c.terminated_at.is_(None), c.terminated_at >= begin), *more,
            *[condition(c) for condition in conditions])
    # deleted_at is never before terminated_at, so this indexed condition excludes no wanted row
    return sa.union_all(of(instances), of(instances_history, instances_history.c.deleted_at >= begin))


def servers(conn: sa.Connection, begin: datetime, end: datetime, project_id: nova_context.Projects | str,
            flavor: bool = True, category: str | None = None) -> Iterator[ServerUsage]:
    """Stream the rows of the servers that ran in a period.

    :param project_id: only this project, or ALL_PROJECTS
    :param flavor: whether to include the whole flavor; a list shows only its name
    :param category: only this instance category
    """
    statement = _between(begin, end, *_of(project_id, category), columns=(*COLUMNS, 'flavor') if flavor else COLUMNS)
    engine.stream_rows(conn)
    return map(statements.to_dict, conn.execute(statement.execution_options(yield_per=FETCH)).mappings())


def _of(project_id: nova_context.Projects | str, category: str | None) -> list[_Condition]:
    """Return the conditions for a project and a category; None matches any category."""
    return [condition for wanted, condition in (
        (nova_context.one_project(project_id), lambda c: c.project_id == project_id),
        (category is not None, lambda c: c.category == category)) if wanted]


def page(conn: sa.Connection, begin: datetime, end: datetime, limit: int, project_id: nova_context.Projects | str,
         marker: str | None = None, category: str | None = None) -> list[ServerUsage]:
    """Return a page of the rows of ``servers``, by uuid: the first ``limit`` rows after the uuid ``marker``."""
    conditions = _of(project_id, category)
    if marker is not None:
        conditions.append(lambda c: c.uuid > marker)
    statement = _between(begin, end, *conditions, columns=(*COLUMNS, 'flavor')).order_by('uuid').limit(limit)
    return statements.dicts(conn.execute(statement))


def is_known(conn: sa.Connection, uuid: str, project_id: nova_context.Projects | str) -> bool:
    """Tell whether a server with this uuid exists or existed, in a project or, with ALL_PROJECTS, in any."""
    conditions = _of(project_id, None)
    return any(conn.execute(sa.select(table.c.id).where(
        table.c.uuid == uuid, *(condition(table.c) for condition in conditions)).limit(1)).first()
        for table in (instances, instances_history))


def on_host(conn: sa.Connection, host: str, begin: datetime, end: datetime) -> list[InstancesRow]:
    """Return the rows of the servers that ran on a host in a period, with all columns."""
    statement = _between(begin, end, lambda c: c.host == host, columns=instances.columns.keys())
    return statements.dicts(conn.execute(statement))


def count_on_host(conn: sa.Connection, host: str, begin: datetime, end: datetime) -> int:
    """Return the number of servers that ran on a host in a period."""
    statement = _between(begin, end, lambda c: c.host == host, columns=('uuid',))
    return conn.execute(sa.select(sa.func.count()).select_from(statement.subquery())).scalar_one()
