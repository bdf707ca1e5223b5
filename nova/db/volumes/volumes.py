"""Rows of the embedded block storage service. Functions that must exclude concurrent changes lock the volume's row
first.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
import datetime
import operator
from typing import Any, TYPE_CHECKING

import sqlalchemy as sa

from nova import context as nova_context
from nova import exception
from nova import utils
from nova.db import functions
from nova.db import statements
from nova.db import types
from nova.db.placement import categories
from nova.db.tables.rows import VolumeAttachmentsRow
from nova.db.tables import volume as t
from nova.db.types import ColumnValues

if TYPE_CHECKING:
    from nova.db.types import RowT


def insert(conn: sa.Connection, table: sa.Table, values: ColumnValues) -> dict[str, Any]:
    """Insert a row and return it as a dict."""
    now = utils.utcnow()
    row = {'created_at': now, 'updated_at': now, **values} if 'updated_at' in table.c else {'created_at': now, **values}
    conn.execute(sa.insert(table).values(**row))
    return row


def get(conn: sa.Connection, table: types.Table[RowT], ident: str, project_id: nova_context.Projects | str,
        lock: bool = False) -> RowT | None:
    """Return the row with this id as a dict, or None.

    :param project_id: project that must own the row, or ALL_PROJECTS
    :param lock: lock the row until the transaction ends
    """
    statement = sa.select(table).where(table.c.id == ident)
    if nova_context.one_project(project_id):
        statement = statement.where(table.c.project_id == project_id)
    row = conn.execute(statement.with_for_update() if lock else statement).mappings().first()
    return statements.to_dict(row) if row else None


def update(conn: sa.Connection, table: sa.Table, ident: str, values: ColumnValues,
           statuses: Collection[str] | None = None) -> bool:
    """Update a row; return False if it does not exist or its status is not in ``statuses``."""
    statement = sa.update(table).where(table.c.id == ident)
    if statuses is not None:
        statement = statement.where(table.c.status.in_(statuses))
    stamp = {'updated_at': utils.utcnow()} if 'updated_at' in table.c else {}
    return bool(conn.execute(statement.values(**stamp, **values)).rowcount)


def _has_items(column: sa.Column[Any], items: dict[str, str]) -> sa.ColumnElement[bool]:
    """Return the condition that a JSON object in a text column has these items.

    It searches for each item after a brace or a comma. Text within a value cannot match: its quotes are escaped.
    """
    text = sa.type_coerce(column, sa.Text)
    return sa.and_(*(sa.or_(*(functions.position(text, before + utils.dump_json({key: value})[1:-1]) > 0
                              for before in '{,')) for key, value in items.items()))


OPERATORS: dict[str, Callable[[sa.Column[Any], Any], sa.ColumnElement[bool]]] = {
    'eq': operator.eq, 'neq': operator.ne, 'gt': operator.gt, 'gte': operator.ge, 'lt': operator.lt, 'lte': operator.le,
    'in': lambda column, values: column.in_(values), 'has': _has_items}
Comparisons = Sequence[tuple[str, str, Any]]             # (column, key of OPERATORS, value)
NEWEST = (('created_at', 'desc'), ('id', 'desc'))        # default order of lists


def kind_of(table: sa.Table, column: str) -> type:
    """Return the type of a column's values (bool, int, str, datetime or dict), to parse a filter of a query string."""
    kind = table.c[column].type
    if isinstance(kind, sa.DateTime):
        return datetime.datetime
    if isinstance(kind, types.Json):
        return dict
    return bool if isinstance(kind, sa.Boolean) else int if isinstance(kind, sa.Integer) else str


def delete(conn: sa.Connection, table: sa.Table, ident: str) -> None:
    conn.execute(sa.delete(table).where(table.c.id == ident))


def attachments(conn: sa.Connection, *, volume_ids: list[str] | None = None,
                instance_uuid: str | None = None) -> list[VolumeAttachmentsRow]:
    """Return the attachment rows of volumes and of a server, oldest first; None: of all."""
    table = t.volume_attachments
    statement = sa.select(table).order_by(table.c.created_at, table.c.id)
    if volume_ids is not None:
        statement = statement.where(table.c.volume_id.in_(volume_ids))
    if instance_uuid is not None:
        statement = statement.where(table.c.instance_uuid == instance_uuid)
    return statements.dicts(conn.execute(statement))


def readonly(conn: sa.Connection, volume_ids: set[str]) -> set[str]:
    """Return the subset of these volumes that are read-only."""
    return set(conn.execute(sa.select(t.volumes.c.id).where(
        t.volumes.c.id.in_(sorted(volume_ids)), t.volumes.c.readonly)).scalars())


def connected(conn: sa.Connection, attachment_id: str | None = None) -> list[dict[str, Any]]:
    """Return the attachments (or only ``attachment_id``) with a connector, each with the volume's column 'readonly'."""
    table = t.volume_attachments
    statement = sa.select(table, t.volumes.c.readonly).join(t.volumes, t.volumes.c.id == table.c.volume_id).where(
        table.c.connector.is_not(None))
    if attachment_id is not None:
        statement = statement.where(table.c.id == attachment_id)
    return statements.dicts(conn.execute(statement))


def delete_snapshots(conn: sa.Connection, volume_id: str) -> list[str]:
    """Delete all snapshots of a volume; return their ids."""
    table = t.volume_snapshots
    found = list(conn.execute(sa.select(table.c.id).where(table.c.volume_id == volume_id).with_for_update()).scalars())
    conn.execute(sa.delete(table).where(table.c.volume_id == volume_id))
    return found


def snapshots(conn: sa.Connection, volume_id: str) -> list[tuple[str, int]]:
    """Return [(id, size in GiB)] of the snapshots of a volume."""
    c = t.volume_snapshots.c
    return [(ident, size) for ident, size in conn.execute(sa.select(c.id, c.size).where(c.volume_id == volume_id))]


def give_snapshots(conn: sa.Connection, volume_id: str, project_id: str, user_id: str | None) -> None:
    """Set the owner of the snapshots of a volume."""
    conn.execute(sa.update(t.volume_snapshots).where(t.volume_snapshots.c.volume_id == volume_id).values(
        project_id=project_id, user_id=user_id, updated_at=utils.utcnow()))


def delete_transfer(conn: sa.Connection, volume_id: str) -> None:
    """Delete the transfer offer of a volume, if there is one."""
    conn.execute(sa.delete(t.volume_transfers).where(t.volume_transfers.c.volume_id == volume_id))


def every(conn: sa.Connection, table: sa.Table) -> list[dict[str, Any]]:
    """Return all rows of a table, for a comparison with the files at start-up."""
    return statements.dicts(conn.execute(sa.select(table).order_by(table.c.created_at)))


def unfinished(conn: sa.Connection, table: sa.Table, equal: ColumnValues) -> list[dict[str, Any]]:
    """Return the rows in status 'creating' with these column values."""
    conditions = [table.c[name] == value for name, value in equal.items()]
    return statements.dicts(conn.execute(sa.select(table).where(table.c.status == 'creating', *conditions)))


def in_statuses(conn: sa.Connection, table: sa.Table, statuses: Collection[str]) -> list[dict[str, Any]]:
    return statements.dicts(conn.execute(sa.select(table).where(table.c.status.in_(statuses))))


def is_temporary(conn: sa.Connection, snapshot_id: str) -> bool:
    """Tell whether a snapshot was created only for a backup."""
    table = t.volume_backups
    return conn.execute(sa.select(table.c.id).where(
        table.c.snapshot_id == snapshot_id, table.c.temporary).limit(1)).first() is not None


def being_copied(conn: sa.Connection, volume_id: str) -> bool:
    """Tell whether a snapshot or a copy of a volume is being created; meanwhile writes to the volume are forbidden."""
    return bool(unfinished(conn, t.volume_snapshots, {'volume_id': volume_id})
                or unfinished(conn, t.volumes, {'source_volume_id': volume_id})
                or unfinished(conn, t.volume_backups, {'volume_id': volume_id, 'snapshot_id': None}))


def copied_from(conn: sa.Connection, snapshot_ids: list[str]) -> bool:
    """Tell whether volumes or backups are being created from any of these snapshots."""
    return any(conn.execute(sa.select(table.c.id).where(
        table.c.status == 'creating', table.c.snapshot_id.in_(snapshot_ids)).limit(1)).first() is not None
        for table in (t.volumes, t.volume_backups))


def has_snapshots(conn: sa.Connection, volume_id: str) -> bool:
    table = t.volume_snapshots
    return conn.execute(sa.select(table.c.id).where(table.c.volume_id == volume_id).limit(1)).first() is not None


def used(conn: sa.Connection, project_id: str) -> dict[str, int]:
    """Return {'volumes', 'snapshots', 'gigabytes', 'backups', 'backup_gigabytes'} of a project."""
    sums = {}
    for name, table in (('volumes', t.volumes), ('snapshots', t.volume_snapshots), ('backups', t.volume_backups)):
        sums[name], sums[name + '_size'] = conn.execute(sa.select(
            sa.func.count(), sa.func.coalesce(sa.func.sum(table.c.size), 0)).where(
            table.c.project_id == project_id)).one()
    return {'volumes': sums['volumes'], 'snapshots': sums['snapshots'],
            'gigabytes': int(sums['volumes_size']) + int(sums['snapshots_size']),
            'backups': sums['backups'], 'backup_gigabytes': int(sums['backups_size'])}


def used_of_types(conn: sa.Connection, project_id: str, volume_type: str | None = None) -> dict[str, int]:
    """Return {'volumes_TYPE', 'snapshots_TYPE', 'gigabytes_TYPE'} of a project's volumes and of their snapshots.

    :param volume_type: count only this type
    """
    kind, copies = t.volumes.c.volume_type, t.volume_snapshots
    of_project = sa.and_(t.volumes.c.project_id == project_id,
                         sa.true() if volume_type is None else kind == volume_type)
    found: dict[str, int] = {}
    for noun, table, rows in (('volumes', t.volumes, t.volumes), ('snapshots', copies, copies.join(
            t.volumes, t.volumes.c.id == copies.c.volume_id))):
        for name, number, size in conn.execute(sa.select(kind, sa.func.count(), sa.func.sum(table.c.size)).select_from(
                rows).where(of_project).group_by(kind)):
            found[f'{noun}_{name}'] = number
            found[f'gigabytes_{name}'] = found.get(f'gigabytes_{name}', 0) + int(size)
    return found


_HELD = t.volume_attachments.alias('held')


def is_administrative(table: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition that a row's volume is attached to, or reserved for, a server that only administrators see.

    :param table: volumes, or volume_snapshots or volume_attachments, which reference a volume
    """
    return sa.exists().where(_HELD.c.volume_id == table.c['id' if table is t.volumes else 'volume_id'],
                             categories.is_administrative(_HELD.c.instance_uuid))


def is_restored(conn: sa.Connection, backup_id: str) -> bool:
    """Tell whether a backup is being restored to a volume."""
    return conn.execute(sa.select(t.volumes.c.id).where(
        t.volumes.c.backup_id == backup_id, t.volumes.c.status == 'restoring-backup').limit(1)).first() is not None


def owner(conn: sa.Connection, table: sa.Table, ident: str) -> dict[str, str] | None:
    """Return {'project_id', 'user_id' (if the table has this column)} of a row, or None if the row does not exist."""
    columns = [table.c[name] for name in ('project_id', 'user_id') if name in table.c]
    row = conn.execute(sa.select(*columns).where(table.c.id == ident)).first()
    return None if row is None else dict(row._mapping)


def of_administrative(conn: sa.Connection, table: sa.Table, ident: str) -> bool:
    """Tell whether ``is_administrative`` is true for a row."""
    return conn.execute(sa.select(table.c.id).where(table.c.id == ident, is_administrative(table))).first() is not None


def page(conn: sa.Connection, table: sa.Table, project_id: nova_context.Projects | str, equal: ColumnValues, *,
         administrative: bool, compare: Comparisons = (), marker: str | None = None,
         sort: Sequence[tuple[str, str]] = NEWEST, limit: int | None = None, offset: int = 0) -> list[dict[str, Any]]:
    """Return a page of rows (dicts) of a project.

    :param project_id: project of the rows, or ALL_PROJECTS
    :param equal: {column: value} that the rows must have
    :param administrative: whether to include volumes of servers that only administrators see
    :param compare: further conditions
    :param marker: id of the row before the first one
    :param sort: [(column, 'asc' or 'desc')]; the last one must be unique
    :raises InvalidMarker: none of these rows has the marker as id
    """
    conditions = _conditions(table, project_id, equal, administrative, compare)
    row = None
    if marker:
        row = next(iter(_page(conn, table, [*conditions, table.c.id == marker], limit=1)), None)
        if row is None:
            raise exception.InvalidMarker(marker=marker[:255])
    return _page(conn, table, conditions, marker=row, sort=sort, limit=limit, offset=offset)


def count(conn: sa.Connection, table: sa.Table, project_id: nova_context.Projects | str, equal: ColumnValues,
          administrative: bool, compare: Comparisons = ()) -> int:
    """Return the number of rows on all pages; the parameters are those of ``page``."""
    return conn.execute(sa.select(sa.func.count()).select_from(table).where(
        *_conditions(table, project_id, equal, administrative, compare))).scalar_one()


def matching(table: sa.Table, equal: ColumnValues, compare: Comparisons) -> sa.Select[tuple[str]]:
    """Return a subquery for the operator 'in': the ids of the rows that meet the conditions, of all projects."""
    return sa.select(table.c.id).where(*_conditions(table, nova_context.ALL_PROJECTS, equal, True, compare))


def summary(conn: sa.Connection, project_id: nova_context.Projects | str, administrative: bool,
            ) -> tuple[int, int, dict[str, set[str]]]:
    """Return (number of volumes, total GiB, {metadata key: its values}); the parameters are those of ``page``."""
    conditions = _conditions(t.volumes, project_id, {}, administrative)
    total, size = conn.execute(sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(t.volumes.c.size), 0)).where(
        *conditions)).one()
    items: dict[str, set[str]] = {}
    for metadata in conn.execute(sa.select(t.volumes.c.metadata).where(*conditions)).scalars():
        for key, value in (metadata or {}).items():
            items.setdefault(key, set()).add(value)
    return int(total), int(size), items


def _conditions(table: sa.Table, project_id: nova_context.Projects | str, equal: ColumnValues,
                administrative: bool, compare: Comparisons = ()) -> list[sa.ColumnElement[bool]]:
    conditions = [table.c[name] == value for name, value in equal.items()]
    conditions += [OPERATORS[op](table.c[name], value) for name, op, value in compare]
    if nova_context.one_project(project_id):
        conditions.append(table.c.project_id == project_id)
    if not administrative:
        conditions.append(sa.not_(is_administrative(table)))
    return conditions


def _page(conn: sa.Connection, table: sa.Table, conditions: list[sa.ColumnElement[bool]], *,
          sort: Sequence[tuple[str, str]] = NEWEST, marker: Mapping[str, Any] | None = None, limit: int | None = None,
          offset: int = 0) -> list[dict[str, Any]]:
    """Return rows (dicts) that meet the conditions, after the row ``marker``."""
    statement = sa.select(table).where(*conditions)
    if marker is not None:
        branches: list[sa.ColumnElement[bool]] = []
        equal: list[sa.ColumnElement[bool]] = []
        for name, direction in sort:
            column, value = table.c[name], marker[name]
            branches.append(sa.and_(*equal, _after(column, value, direction)))
            equal.append(column.is_(None) if value is None else column == value)
        statement = statement.where(sa.or_(*branches))
    for name, direction in sort:
        # NULL is last in both directions on every database
        statement = statement.order_by(table.c[name].is_(None), getattr(table.c[name], direction)())
    return statements.dicts(conn.execute(statement.limit(limit).offset(offset or None)))


def _after(column: sa.Column[Any], value: object, direction: str) -> sa.ColumnElement[bool]:
    if value is None:
        return sa.false()
    value = sa.literal(value, column.type)           # as a parameter: SQLAlchemy rejects < and > with the constant True
    beyond = column > value if direction == 'asc' else column < value
    return sa.or_(beyond, column.is_(None)) if column.nullable else beyond
