"""Servers changed since a time, including deleted ones."""
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from nova import context as nova_context
from nova import states
from nova.db.tables.cell import instances
from nova.db.tables.cell import instances_history

COLUMNS = ('id', 'uuid', 'project_id', 'display_name', 'vm_state', 'task_state', 'power_state', 'progress')


def since(conn: sa.Connection, moment: datetime, *, project_id: nova_context.Projects | str,
          category: str | None = None, limit: int = 1000) -> list[dict[Any, Any]]:
    """Return the servers changed at or after a time as dicts of COLUMNS, ``changed_at`` and ``deleted``, oldest first.

    :param moment: naive UTC datetime
    :param project_id: only this project, or ALL_PROJECTS
    :param category: only this instance category
    :param limit: maximum number of rows; further rows with the time of the last one are returned too
    """
    rows = []
    for table, changed_at, deleted in ((instances, instances.c.updated_at, False),
                                       (instances_history, instances_history.c.deleted_at, True)):
        statement = sa.select(*[table.c[name] for name in COLUMNS], changed_at.label('changed_at'))
        if nova_context.one_project(project_id):
            statement = statement.where(table.c.project_id == project_id)
        if category is not None:
            statement = statement.where(table.c.category == category)
        found = [dict(row, deleted=deleted) for row in conn.execute(
            statement.where(changed_at >= moment).order_by(changed_at).limit(limit)).mappings()]
        if len(found) == limit:
            last = found[-1]['changed_at']
            seen = {row['id'] for row in found if row['changed_at'] == last}
            found += [dict(row, deleted=deleted) for row in conn.execute(
                statement.where(changed_at == last)).mappings() if row['id'] not in seen]
        rows += found
    rows.sort(key=lambda row: row['changed_at'])
    return rows if len(rows) <= limit else [row for row in rows if row['changed_at'] <= rows[limit - 1]['changed_at']]


def busy(conn: sa.Connection, uuids: list[str]) -> dict[str, bool]:
    """Return {uuid: whether the server has a task in progress} of the existing servers."""
    rows = conn.execute(sa.select(instances.c.uuid, instances.c.vm_state, instances.c.task_state).where(
        instances.c.uuid.in_(uuids)))
    return {row.uuid: row.task_state is not None or row.vm_state == states.BUILDING for row in rows}
