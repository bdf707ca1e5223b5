"""Data that decide what a host may do with a server or a move. Each function runs one SELECT."""
import dataclasses
from typing import Any

import sqlalchemy as sa

from nova.db.moves import migrations as server_migrations
from nova.db.tables import cell as t


@dataclasses.dataclass
class Server:
    """Columns, moves and actions of a server, which decide what a host may do with the server.

    host, task_state, project_id, user_id, system_metadata   columns of the server's row
    moves     unfinished moves: [{'id', 'source_compute', 'dest_compute', 'status', 'claims_swapped', 'migration_type'}]
    actions   open actions: [{'id', 'action', 'request_id', 'project_id', 'user_id', 'owner', 'arguments'}]
    """

    uuid: str
    host: str | None
    task_state: str | None
    project_id: str
    user_id: str
    system_metadata: dict[str, Any]
    moves: list[Any]
    actions: list[Any]


@dataclasses.dataclass
class Move:
    """Row and actions of a move, which decide what a host may do with the move.

    row       row of the migrations table
    actions   open actions of the given request, as in Server
    """

    row: dict[str, Any]
    actions: list[Any]


_SERVER = ('uuid', 'host', 'task_state', 'project_id', 'user_id', 'system_metadata')
_MOVE = ('id', 'source_compute', 'dest_compute', 'status', 'claims_swapped', 'migration_type')
_ACTION = ('id', 'action', 'request_id', 'project_id', 'user_id', 'owner', 'arguments')


def _labelled(table: sa.Table, names: tuple[str, ...], prefix: str) -> list[Any]:
    return [table.c[name].label(f'{prefix}_{name}') for name in names]


def _unlabelled(row: sa.RowMapping, names: tuple[str, ...], prefix: str) -> dict[str, Any]:
    return {name: row[f'{prefix}_{name}'] for name in names}


_OPEN_ACTION = t.instance_actions.c.finished_at.is_(None)
_OF_SERVER = sa.select(
    *_labelled(t.instances, _SERVER, 's'), *_labelled(t.migrations, _MOVE, 'm'),
    *_labelled(t.instance_actions, _ACTION, 'a')).select_from(
    t.instances.outerjoin(t.migrations, (t.migrations.c.instance_uuid == t.instances.c.uuid)
                          & t.migrations.c.status.not_in(server_migrations.OVER))
    .outerjoin(t.instance_actions, (t.instance_actions.c.instance_uuid == t.instances.c.uuid) & _OPEN_ACTION)).where(
    t.instances.c.uuid == sa.bindparam('of_uuid')).order_by(t.instance_actions.c.id)
_OF_MOVE = sa.select(t.migrations, *_labelled(t.instance_actions, _ACTION, 'a')).select_from(t.migrations.outerjoin(
    t.instance_actions, (t.instance_actions.c.instance_uuid == t.migrations.c.instance_uuid) & _OPEN_ACTION
    & (t.instance_actions.c.request_id == sa.bindparam('of_request')))).where(
    t.migrations.c.id == sa.bindparam('of_id'))
_EVER_THERE = sa.select(t.migrations.c.id).where(
    t.migrations.c.instance_uuid == sa.bindparam('of_uuid'),
    sa.or_(t.migrations.c.source_compute == sa.bindparam('of_host'),
           t.migrations.c.dest_compute == sa.bindparam('of_host'))).limit(1)


def server(conn: sa.Connection, uuid: str) -> Server | None:
    """Return the Server with this uuid, or None."""
    rows = conn.execute(_OF_SERVER, {'of_uuid': uuid}).mappings().all()
    if not rows:
        return None
    moves = {row['m_id']: _unlabelled(row, _MOVE, 'm') for row in rows if row['m_id'] is not None}
    actions = {row['a_id']: _unlabelled(row, _ACTION, 'a') for row in rows if row['a_id'] is not None}
    return Server(**_unlabelled(rows[0], _SERVER, 's'), moves=list(moves.values()), actions=list(actions.values()))


def move(conn: sa.Connection, migration_id: int | None, request_id: str | None) -> Move | None:
    """Return the Move with this id, with the open actions of a request, or None."""
    rows = conn.execute(_OF_MOVE, {'of_id': migration_id, 'of_request': request_id}).mappings().all()
    if not rows:
        return None
    return Move({column.name: rows[0][column.name] for column in t.migrations.columns},
                [_unlabelled(row, _ACTION, 'a') for row in rows if row['a_id'] is not None])


def was_there(conn: sa.Connection, uuid: str, host: str) -> bool:
    """Tell whether any move of a server, including finished moves, was from or to a host."""
    return conn.execute(_EVER_THERE, {'of_uuid': uuid, 'of_host': host}).first() is not None
