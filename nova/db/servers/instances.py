"""Rows of servers in their cell's database."""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
import functools
from typing import Any, TYPE_CHECKING

import sqlalchemy as sa

from nova import exception
from nova import states
from nova import utils
from nova.db import statements
from nova.db.tables import cell as t
from nova.db.tables.rows import InstancesRow
from nova.db.types import ColumnValues

if TYPE_CHECKING:
    from sqlalchemy.sql.dml import ReturningUpdate

COLUMNS = tuple(column.name for column in t.instances.columns)
BLANK: dict[str, Any] = dict.fromkeys(COLUMNS)          # an empty row
_MOVED = tuple(name for name in COLUMNS if name != 'id')
FEW = 16  # maximum number of expected values with one parameter each; longer lists use an expanding parameter
NEXT_GENERATION = t.instances.c.generation + 1     # generation of a server after a change of ``host``
SET = object()                # as an expected value: any value but NULL
_UUID = t.instances.c.uuid == sa.bindparam('key_uuid')
_LOCK = sa.select(t.instances.c.id).where(_UUID).with_for_update()
_OF_MANY = t.instances.c.uuid.in_(sa.bindparam('uuids', expanding=True))
_MANY = sa.select(t.instances).where(_OF_MANY)
_STATES = sa.select(*(t.instances.c[name] for name in ('uuid', 'host', 'vm_state', 'task_state', 'power_state'))).where(
    _OF_MANY)
_STATES_LOCKED = _STATES.order_by(t.instances.c.uuid).with_for_update()
_SET_STATES = sa.update(t.instances).where(_OF_MANY)


def insert(conn: sa.Connection, rows: list[dict[str, Any]]) -> None:
    """Insert servers, a list of {column: value} with equal keys."""
    now = utils.utcnow()
    conn.execute(statements.insert(t.instances), [{'created_at': now, 'updated_at': now, **row} for row in rows])


def get(conn: sa.Connection, uuid: str) -> InstancesRow:
    """Return the row of a server as a dict.

    :raises InstanceNotFound: the server does not exist; deleted servers are in the history
    """
    row = statements.first(conn, t.instances, uuid=uuid)
    if row is None:
        raise exception.InstanceNotFound(instance_id=uuid)
    return row


def columns_of(conn: sa.Connection, names: tuple[str, ...], host: str | None = None) -> list[Any]:
    """Return tuples of these columns of all servers, or of the servers of a host, oldest first."""
    statement = sa.select(*(t.instances.c[name] for name in names)).order_by(t.instances.c.created_at, t.instances.c.id)
    if host:
        statement = statement.where(t.instances.c.host == host)
    return list(conn.execute(statement))


def owner_of(conn: sa.Connection, uuid: str) -> sa.Row[Any, Any] | None:
    """Return (uuid, project_id) of a server in this cell, or None."""
    c = t.instances.c
    return conn.execute(sa.select(c.uuid, c.project_id).where(c.uuid == uuid)).first()


def lock(conn: sa.Connection, uuid: str) -> None:
    """Lock the row until the transaction ends. SQLite needs no lock, as it has one writer."""
    if conn.dialect.name != 'sqlite':
        conn.execute(_LOCK, {'key_uuid': uuid})


def get_many(conn: sa.Connection, uuids: list[str]) -> dict[str, InstancesRow]:
    """Return {uuid: row} of the existing servers."""
    rows = conn.execute(_MANY, {'uuids': list(uuids)}).mappings()
    return {row['uuid']: statements.to_dict(row) for row in rows}


_BUILDING_TASKS = (states.SCHEDULING, states.BLOCK_DEVICE_MAPPING, states.NETWORKING, states.SPAWNING)


def count_building(conn: sa.Connection, most: int) -> dict[str, int]:
    """Return {project: number of servers that wait to be built or are being built}, counting at most ``most``
    servers of all projects.
    """
    some = sa.select(t.instances.c.project_id).where(
        t.instances.c.task_state.in_(_BUILDING_TASKS)).limit(most).subquery()
    found = conn.execute(sa.select(some.c.project_id, sa.func.count()).group_by(some.c.project_id))
    return {project_id: number for project_id, number in found}


def in_state(conn: sa.Connection, vm_state: str, idle: bool = False) -> list[InstancesRow]:
    """Return the rows of the servers in this vm state. If ``idle``, only servers without a task are returned."""
    statement = sa.select(t.instances).where(t.instances.c.vm_state == vm_state).order_by(t.instances.c.id)
    if idle:
        statement = statement.where(t.instances.c.task_state.is_(None))
    return statements.dicts(conn.execute(statement))


def merged(conn: sa.Connection, uuid: str, values: ColumnValues) -> ColumnValues:
    """Return ``values`` with a complete ``system_metadata``: the row's items, updated; the value None removes an item.

    The row is locked, because other processes add keys.
    """
    given = values.get('system_metadata')
    if not isinstance(given, Mapping):
        return values
    lock(conn, uuid)
    both = {**get(conn, uuid)['system_metadata'], **given}
    return {**values, 'system_metadata': {key: value for key, value in both.items() if value is not None}}


def by_host(conn: sa.Connection, host: str) -> list[InstancesRow]:
    """Return the rows of the servers of a host, oldest first."""
    statement = sa.select(t.instances).where(t.instances.c.host == host).order_by(t.instances.c.id)
    return statements.dicts(conn.execute(statement))


def _expected(uuid: str,
              expect: ColumnValues | None) -> tuple[tuple[tuple[str, int, bool, bool], ...], dict[str, Any]]:
    """Return (conditions, parameters) for a statement that applies only if the server has the expected values.

    A condition is (column, number of allowed values or -1 if many, allows NULL, allows all other values).
    """
    expected: list[tuple[str, int, bool, bool]] = []
    parameters: dict[str, Any] = {'key_uuid': uuid}
    for name, allowed in (expect or {}).items():
        allowed = allowed if isinstance(allowed, (list, tuple, set, frozenset)) else [allowed]
        values = [value for value in allowed if value is not None and value is not SET]
        many = len(values) > FEW
        expected.append((name, -1 if many else len(values), None in allowed, SET in allowed))
        parameters.update([(f'expect_{name}', values)] if many else [
            (f'expect_{name}_{number}', value) for number, value in enumerate(values)])
    return tuple(expected), parameters


def _conditions(expected: tuple[tuple[str, int, bool, bool], ...]) -> Iterator[sa.ColumnElement[bool]]:
    yield _UUID
    for name, values, null, anything in expected:
        column = t.instances.c[name]
        parameters = [sa.bindparam(f'expect_{name}_{number}', type_=column.type) for number in range(values)]
        choices = [column == parameters[0]] if values == 1 else [column.in_(parameters or sa.bindparam(
            f'expect_{name}', expanding=True))] if values else []
        if null:
            choices.append(column.is_(None))
        if anything:
            choices.append(column.is_not(None))
        yield sa.or_(*choices) if choices else sa.false()


@functools.cache
def _update_of(expected: tuple[tuple[str, int, bool, bool], ...], returning: bool,
               moves: bool) -> sa.Update | ReturningUpdate[Any]:
    """Return the UPDATE of a server with these conditions.

    :param moves: whether the host changes, which increases the generation
    """
    statement = sa.update(t.instances).where(*_conditions(expected))
    if moves:
        statement = statement.values(generation=NEXT_GENERATION)
    return statement.returning(*t.instances.columns) if returning else statement


@functools.cache
def _delete_of(expected: tuple[tuple[str, int, bool, bool], ...]) -> sa.Delete:
    return sa.delete(t.instances).where(*_conditions(expected))


def _set(conn: sa.Connection, uuid: str, values: ColumnValues, expect: ColumnValues | None,
         returning: bool) -> sa.CursorResult[Any]:
    expected, parameters = _expected(uuid, expect)
    statement = _update_of(expected, returning, 'host' in values and 'generation' not in values)
    computed = {name: value for name, value in values.items() if isinstance(value, sa.ClauseElement)}
    if computed:
        statement = statement.values(computed)
    plain = {name: value for name, value in values.items() if name not in computed}
    return conn.execute(statement, {'updated_at': utils.utcnow(), **plain, **parameters})


def update_where(conn: sa.Connection, uuid: str, values: ColumnValues,
                 expect: ColumnValues | None = None) -> InstancesRow | None:
    """Update a server if its row satisfies ``expect``; return the new row, or None.

    MariaDB needs two statements; other databases support UPDATE … RETURNING.
    :param expect: {column: allowed value or values}; None stands for NULL, SET for anything else
    """
    if conn.dialect.update_returning:
        row = _set(conn, uuid, values, expect, True).mappings().first()
        return None if row is None else statements.to_dict(row)
    return get(conn, uuid) if _set(conn, uuid, values, expect, False).rowcount else None


def set_where(conn: sa.Connection, uuid: str, values: ColumnValues, expect: ColumnValues | None = None) -> bool:
    """Update a server if its row satisfies ``expect``; return whether the row was updated."""
    return bool(_set(conn, uuid, values, expect, False).rowcount)


def update(conn: sa.Connection, uuid: str, values: ColumnValues, expect: ColumnValues | None = None,
           returning: bool = False) -> Any:
    """Update a server if its row satisfies ``expect``; return True, or the new row if ``returning``.

    The result has the type Any, because some callers pass a variable as ``returning``.
    :raises InstanceChanged: the row does not satisfy ``expect``
    :raises InstanceNotFound: the row does not exist
    """
    changed: Any = (update_where if returning else set_where)(conn, uuid, values, expect)
    if not changed:
        get(conn, uuid)
        raise exception.InstanceChanged(instance_id=uuid)
    return changed


def _to_history() -> sa.Insert:
    set_to = {'vm_state': states.DELETED, 'task_state': None, 'power_state': states.NOSTATE, 'progress': 0,
              'locked': False, 'cell_move': None}
    now = ('deleted_at', 'terminated_at', 'updated_at')
    source = sa.select(*[
        sa.bindparam('now', type_=t.instances.c[name].type).label(name) if name in now
        else sa.literal(set_to[name], t.instances.c[name].type).label(name) if name in set_to
        else t.instances.c[name] for name in _MOVED]).where(_UUID)
    return sa.insert(t.instances_history).from_select(_MOVED, source, include_defaults=False)


_TO_HISTORY = _to_history()


def destroy(conn: sa.Connection, uuid: str, now: datetime, expect: ColumnValues | None = None,
            devices: bool = True, shares: bool = True) -> None:
    """Move a server's row to the history, with ``now`` as the time of deletion, and delete dependent rows.

    :param devices: whether the server may have block devices
    :param shares: whether the server may have shares
    :raises InstanceChanged: the row does not exist or does not satisfy ``expect``; the caller must roll back
    """
    conn.execute(_TO_HISTORY, {'key_uuid': uuid, 'now': now})
    expected, parameters = _expected(uuid, expect)
    if not conn.execute(_delete_of(expected), parameters).rowcount:
        raise exception.InstanceChanged(instance_id=uuid)
    for table, has in ((t.block_device_mappings, devices), (t.share_mappings, shares), (t.console_auth_tokens, True)):
        if has:
            statements.delete(conn, table, instance_uuid=uuid)


def existing(conn: sa.Connection, uuids: list[str]) -> set[str]:
    """Return those of ``uuids`` that have a row."""
    return set(conn.execute(sa.select(t.instances.c.uuid).where(t.instances.c.uuid.in_(uuids))).scalars())


def power_state_rows(conn: sa.Connection, uuids: Collection[str], lock: bool = False) -> Sequence[Any]:
    """Return rows of the existing servers with 'uuid', 'host', 'vm_state', 'task_state' and 'power_state'.

    :param lock: lock the rows until the transaction ends
    """
    return conn.execute(_STATES_LOCKED if lock else _STATES, {'uuids': list(uuids)}).mappings().all()


def set_power_states(conn: sa.Connection, uuids: list[str], vm_state: str, power_state: int) -> None:
    """Set the vm state and the power state of servers that this transaction has locked."""
    conn.execute(_SET_STATES, {'uuids': uuids, 'vm_state': vm_state, 'power_state': power_state,
                               'updated_at': utils.utcnow()})
