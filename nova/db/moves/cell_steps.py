"""Steps of the transfer of a new server from its first cell to the cell of its host: ADR 0006.

    register   API database   reserve the server's mapping for this attempt
    leave      old cell       mark the server's row as outgoing, and read it
    arrive     new cell       insert a hidden copy, in the transaction that claims resources for the server
    switch     API database   change the mapping to the new cell, where the server is from now on
    activate   new cell       make the copy an ordinary row
    copy_changes   new cell   apply the changes in the old cell since it was read
    remove     old cell       remove the server's rows unless they have changed since they were read

Each step is an idempotent transaction in one database. ``cancel``, ``stay`` and ``drop`` roll an attempt back if
``switch`` has not run yet. db/moves/cell_transfer.py calls the steps in order.
"""
from collections.abc import Mapping, Sequence
import dataclasses
import datetime
import secrets
import time
from typing import Any, TypedDict

import sqlalchemy as sa

from nova import states
from nova import utils
from nova.db import statements
from nova.db.placement import claims
from nova.db.tables.api import instance_mappings
from nova.db.tables import cell as t
from nova.db.tables.cell import cell_moves
from nova.db.tables.rows import CellMovesRow, InstanceActionsRow
from nova.json_types import JsonObject

OUTGOING, INCOMING = 'outgoing', 'incoming'       # values of instances.cell_move
# columns that are not copied: each cell sets its own values, or the claim in the new cell sets them
_PLACED = frozenset(('id', 'uuid', 'created_at', 'updated_at', 'host', 'node', 'availability_zone', 'numa_topology',
                     'cell_move'))
_COPIED = tuple(str(column.name) for column in t.instances.columns if column.name not in _PLACED)
_RELATED = (t.block_device_mappings, t.share_mappings, t.volume_keys)
_DELETES = (states.DELETING, states.SOFT_DELETING)


class Plain(TypedDict):
    """Columns and actions of a server as JSON values, to detect concurrent changes by a comparison."""

    row: JsonObject
    actions: list[list[str]]


@dataclasses.dataclass
class Snapshot:
    """A server in one cell: its row and the related rows, as dicts."""

    row: dict[str, Any]
    actions: list[Any] = dataclasses.field(default_factory=list)
    events: list[Any] = dataclasses.field(default_factory=list)
    related: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def waiting(self) -> bool:
        """Whether the server still waits for a host."""
        return (self.row['vm_state'], self.row['task_state']) == (states.BUILDING, states.SCHEDULING)

    def plain(self) -> Plain:
        return utils.load_json(utils.dump_json({
            'row': {name: self.row[name] for name in _COPIED},
            'actions': [[*map(str, _key(action)), str(action['finished_at'])] for action in self.actions]}))


def _key(action: InstanceActionsRow) -> tuple[str, str, datetime.datetime]:
    """Return a key that identifies an action in both cells; ids differ between cells."""
    return action['request_id'], action['action'], action['started_at']


def new_id() -> str:
    """Return a new id of an attempt, which contains its start time."""
    return f'{time.time_ns() // 1_000_000:013}-{secrets.token_hex(11)}'


def age_s(move_id: str) -> float:
    return time.time() - int(move_id.partition('-')[0]) / 1000


# ---- the API database ----------------------------------------------------------

_m = instance_mappings.c
_OF_THEM = _m.instance_uuid.in_(sa.bindparam('uuids', expanding=True))
_WHERE = sa.select(_m.instance_uuid, _m.cell_uuid, _m.move_id).where(_OF_THEM)


def where(conn: sa.Connection, uuids: list[str]) -> dict[str, tuple[str, str | None]]:
    """Return {uuid: (uuid of its cell, id of the attempt to move it or None)} of the existing servers."""
    return {row.instance_uuid: (row.cell_uuid, row.move_id) for row in conn.execute(_WHERE, {'uuids': list(uuids)})}


def register(conn: sa.Connection, move_id: str, cell_uuid: str, uuids: list[str]) -> set[str]:
    """Reserve the mappings of servers for an attempt; return the servers that only this attempt may move."""
    conn.execute(sa.update(instance_mappings).where(
        _m.instance_uuid.in_(uuids), _m.cell_uuid == cell_uuid, _m.move_id.is_(None)).values(move_id=move_id))
    return {uuid for uuid, (_, found) in where(conn, uuids).items() if found == move_id}


def cancel(conn: sa.Connection, move_id: str, uuids: list[str]) -> dict[str, tuple[str, str | None]]:
    """Cancel an attempt and return the cells of its servers; see ``where``."""
    conn.execute(sa.update(instance_mappings).where(_m.instance_uuid.in_(uuids), _m.move_id == move_id)
                 .values(move_id=None))
    return where(conn, uuids)


def switch(conn: sa.Connection, move_id: str, uuids: list[str], cell_uuid: str) -> set[str]:
    """Change the mappings to another cell; return the set of servers that are in that cell now."""
    conn.execute(sa.update(instance_mappings).where(_m.instance_uuid.in_(uuids), _m.move_id == move_id)
                 .values(cell_uuid=cell_uuid, move_id=None))
    return {uuid for uuid, (found, _) in where(conn, uuids).items() if found == cell_uuid}


# ---- either cell -----------------------------------------------------------------

def records(conn: sa.Connection, uuids: list[str] | None = None) -> list[CellMovesRow]:
    """Return rows of cell_moves, oldest first.

    :param uuids: only these servers
    """
    statement = sa.select(cell_moves).order_by(cell_moves.c.created_at)
    if uuids is not None:
        statement = statement.where(cell_moves.c.instance_uuid.in_(uuids))
    return statements.dicts(conn.execute(statement))


def snapshots(conn: sa.Connection, uuids: list[str], lock: bool = False, whole: bool = True) -> dict[str, Snapshot]:
    """Return {uuid: Snapshot} of the servers of the cell.

    :param lock: lock the rows until the transaction ends
    :param whole: whether to include events and other related rows, which a check for changes does not need
    """
    uuids = list(uuids)
    statement = sa.select(t.instances).where(t.instances.c.uuid.in_(uuids)).order_by(t.instances.c.id)
    if lock:
        statement = statement.with_for_update()
    found = {row['uuid']: Snapshot(dict(row)) for row in conn.execute(statement).mappings()}
    actions = {}
    for action in _rows(conn, t.instance_actions, 'instance_uuid', list(found)):
        if action['instance_uuid'] in found:
            found[action['instance_uuid']].actions.append(action)
            actions[action['id']] = action['instance_uuid']
    if not whole:
        return found
    for event in _rows(conn, t.instance_action_events, 'action_id', list(actions)):
        found[actions[event['action_id']]].events.append(event)
    for table in _RELATED:
        for row in _rows(conn, table, 'instance_uuid', list(found)):
            found[row['instance_uuid']].related.setdefault(table.name, []).append(row)
    return found


def _rows(conn: sa.Connection, table: sa.Table, column: str, values: Sequence[int | str]) -> list[Any]:
    """Return the rows of a table with one of these values in a column, as dicts."""
    if not values:
        return []
    return statements.dicts(conn.execute(sa.select(table).where(table.c[column].in_(values)).order_by(table.c.id)))


def _delete(conn: sa.Connection, found: dict[str, Snapshot]) -> None:
    """Remove all rows of the servers in ``found``, {uuid: Snapshot}, which the caller has locked."""
    uuids = list(found)
    actions = [action['id'] for snapshot in found.values() for action in snapshot.actions]
    conn.execute(sa.delete(t.instance_action_events).where(t.instance_action_events.c.action_id.in_(actions)))
    # disk keys are not copied, because a server without a host has no disks and the new cell creates a key
    for table in (t.instance_actions, *_RELATED, t.disk_keys, cell_moves):
        conn.execute(sa.delete(table).where(table.c.instance_uuid.in_(uuids)))
    conn.execute(sa.delete(t.instances).where(t.instances.c.uuid.in_(uuids)))


def expedite(conn: sa.Connection, uuid: str) -> None:
    """Make actions overdue: this cell got no RPC message, so its reconciler must build or delete the server."""
    now = utils.utcnow()
    waiting = sa.select(t.instances.c.uuid).where(
        t.instances.c.uuid == uuid, t.instances.c.task_state.in_((states.SCHEDULING, *_DELETES)))
    conn.execute(sa.update(t.instance_actions).where(
        t.instance_actions.c.instance_uuid.in_(waiting), t.instance_actions.c.finished_at.is_(None),
        t.instance_actions.c.deadline > now).values(deadline=now))


def forget(conn: sa.Connection, uuids: list[str]) -> None:
    """Remove the cell_moves rows of servers."""
    conn.execute(sa.delete(cell_moves).where(cell_moves.c.instance_uuid.in_(uuids)))


# ---- the old cell ----------------------------------------------------------------

def leave(conn: sa.Connection, move_id: str, uuids: list[str], other_cell: str) -> dict[str, Snapshot]:
    """Mark as outgoing those servers that wait for a host and have no mark; return {uuid: Snapshot}."""
    c = t.instances.c
    marked = list(conn.execute(sa.select(c.uuid).where(
        c.uuid.in_(uuids), c.vm_state == states.BUILDING, c.task_state == states.SCHEDULING, c.host.is_(None),
        c.cell_move.is_(None)).with_for_update()).scalars())
    if not marked:
        return {}
    conn.execute(sa.update(t.instances).where(c.uuid.in_(marked)).values(cell_move=OUTGOING))
    found = snapshots(conn, marked)
    forget(conn, marked)                             # remove the rows of earlier attempts
    conn.execute(sa.insert(cell_moves), [
        {'instance_uuid': uuid, 'move_id': move_id, 'other_cell': other_cell, 'created_at': utils.utcnow(),
         'base': snapshot.plain()} for uuid, snapshot in found.items()])
    return found


def retarget(conn: sa.Connection, move_id: str, uuids: list[str], other_cell: str) -> None:
    """Change the destination cell of marked servers."""
    conn.execute(sa.update(cell_moves).where(cell_moves.c.instance_uuid.in_(uuids), cell_moves.c.move_id == move_id)
                 .values(other_cell=other_cell))


def stay(conn: sa.Connection, move_id: str, uuids: list[str]) -> None:
    """Remove the mark OUTGOING from servers after the attempt was rolled back."""
    mine = list(conn.execute(sa.select(cell_moves.c.instance_uuid).where(
        cell_moves.c.instance_uuid.in_(uuids), cell_moves.c.move_id == move_id)).scalars())
    if mine:
        conn.execute(sa.update(t.instances).where(t.instances.c.uuid.in_(mine), t.instances.c.cell_move == OUTGOING)
                     .values(cell_move=None))
        forget(conn, mine)


def remove(conn: sa.Connection, uuids: list[str], known: dict[str, Plain]) -> dict[str, Snapshot]:
    """Remove the servers that still equal ``known`` ({uuid: plain Snapshot}); return {uuid: Snapshot} of the others."""
    found = {uuid: snapshot for uuid, snapshot in snapshots(conn, uuids, lock=True, whole=False).items()
             if snapshot.row['cell_move'] == OUTGOING}
    same = {uuid: snapshot for uuid, snapshot in found.items() if snapshot.plain() == known[uuid]}
    if same:
        _delete(conn, same)
    changed = found.keys() - same.keys()
    return snapshots(conn, list(changed)) if changed else {}


def remove_deleted(conn: sa.Connection, uuid: str) -> None:
    """Remove the old rows of a server that was deleted in its new cell."""
    found = snapshots(conn, [uuid], lock=True, whole=False)
    if found and found[uuid].row['cell_move'] == OUTGOING:
        _delete(conn, found)


# ---- the new cell ----------------------------------------------------------------

def arrive(conn: sa.Connection, move_id: str, other_cell: str,
           coming: Mapping[str, tuple[Snapshot, Mapping[str, Any]]]) -> None:
    """Insert hidden copies of servers, in the transaction that claims resources for them.

    :param coming: {uuid: (Snapshot, {column: value})}
    """
    uuids = list(coming)
    drop(conn, uuids)                                # remove copies of attempts that were rolled back
    forget(conn, uuids)
    conn.execute(sa.insert(t.instances), [
        {**{name: value for name, value in snapshot.row.items() if name != 'id'}, **place, 'cell_move': INCOMING}
        for snapshot, place in coming.values()])
    conn.execute(sa.insert(cell_moves), [
        {'instance_uuid': uuid, 'move_id': move_id, 'other_cell': other_cell, 'created_at': utils.utcnow()}
        for uuid in uuids])
    for table in _RELATED:
        rows = [row for snapshot, _ in coming.values() for row in snapshot.related.get(table.name, ())]
        if rows:
            conn.execute(sa.insert(table), [_without_id(row) for row in rows])
    _insert_actions(conn, [(snapshot, snapshot.actions) for snapshot, _ in coming.values()])


def _without_id(row: dict[str, Any]) -> dict[Any, Any]:
    return {name: value for name, value in row.items() if name != 'id'}


def _insert_actions(conn: sa.Connection, wanted: list[tuple[Snapshot, list[Any]]]) -> None:
    """Insert actions with their events; ``wanted`` is [(Snapshot, its actions to insert)]."""
    rows = [_without_id(action) for _, actions in wanted for action in actions]
    if not rows:
        return
    conn.execute(sa.insert(t.instance_actions), rows)
    events: dict[Any, Any] = {}
    for snapshot, actions in wanted:
        numbers = {action['id']: (action['instance_uuid'], *_key(action)) for action in actions}
        for event in snapshot.events:
            if event['action_id'] in numbers:
                events.setdefault(numbers[event['action_id']], []).append(event)
    if events:
        here = {(row['instance_uuid'], *_key(row)): row['id']
                for row in _rows(conn, t.instance_actions, 'instance_uuid', list({key[0] for key in events}))}
        conn.execute(sa.insert(t.instance_action_events), [
            {**_without_id(event), 'action_id': here[key]} for key, found in events.items() for event in found])


def activate(conn: sa.Connection, uuids: list[str]) -> None:
    """Make hidden copies of servers ordinary rows."""
    activated = list(conn.execute(sa.select(t.instances.c.uuid).where(
        t.instances.c.uuid.in_(uuids), t.instances.c.cell_move == INCOMING)).scalars())
    if activated:
        conn.execute(sa.update(t.instances).where(t.instances.c.uuid.in_(activated)).values(cell_move=None))
        forget(conn, activated)


def drop(conn: sa.Connection, uuids: list[str], move_id: str | None = None) -> int:
    """Remove hidden copies and release their claims; return the number of copies.

    :param move_id: only the copies of this attempt
    """
    statement = sa.select(t.instances).join(cell_moves, cell_moves.c.instance_uuid == t.instances.c.uuid).where(
        t.instances.c.uuid.in_(uuids), t.instances.c.cell_move == INCOMING).order_by(t.instances.c.id)
    if move_id is not None:
        statement = statement.where(cell_moves.c.move_id == move_id)
    rows = statements.dicts(conn.execute(statement.with_for_update()))
    for row in rows:
        claims.free(conn, row)
    if rows:
        _delete(conn, snapshots(conn, [row['uuid'] for row in rows], whole=False))
    return len(rows)


def copy_changes(conn: sa.Connection, uuid: str, base: Plain, snapshot: Snapshot) -> None:
    """Apply the changes in the old cell since ``base`` (a plain Snapshot) to the row in the new cell.

    Changes in the new cell are newer and take precedence.
    """
    here = snapshots(conn, [uuid], lock=True).get(uuid)
    if here is None:
        return
    mine, theirs = here.plain()['row'], snapshot.plain()['row']
    before = {**theirs, **base['row']}               # an older release may have recorded fewer columns
    values = {name: _merged(before[name], theirs[name], mine[name], snapshot.row[name])
              for name in _COPIED if theirs[name] != before[name] and theirs[name] != mine[name]
              and (mine[name] == before[name] or isinstance(theirs[name], dict))}
    if theirs['task_state'] in _DELETES and mine['task_state'] not in _DELETES:
        values['task_state'] = theirs['task_state']             # a deletion takes precedence over other changes
    if values:
        conn.execute(sa.update(t.instances).where(t.instances.c.uuid == uuid).values(
            updated_at=utils.utcnow(), **values))
    known = {_key(action): action for action in here.actions}
    _insert_actions(conn, [(snapshot, [action for action in snapshot.actions if _key(action) not in known])])
    for action in snapshot.actions:
        same = known.get(_key(action))
        if same is not None and same['finished_at'] is None and action['finished_at'] is not None:
            conn.execute(sa.update(t.instance_actions).where(t.instance_actions.c.id == same['id']).values(
                {name: action[name] for name in ('finished_at', 'updated_at', 'message', 'deadline', 'arguments')}))


def _merged(base: object, theirs: object, mine: object, value: object) -> object:
    """Return ``value``; for dicts, ``mine`` plus the changes in ``theirs`` of keys that ``mine`` has as in ``base``."""
    if not (isinstance(theirs, dict) and isinstance(mine, dict) and isinstance(base, dict)):
        return value
    changed = {key for key in base.keys() | theirs.keys()
               if base.get(key) != theirs.get(key) and mine.get(key) == base.get(key)}
    kept = {key: found for key, found in mine.items() if key not in changed}
    return {**kept, **{key: theirs[key] for key in changed if key in theirs}}


def waits_since(record: CellMovesRow) -> float:
    """Return the number of seconds since a cell_moves row was inserted."""
    return (utils.utcnow() - record['created_at']) / datetime.timedelta(seconds=1)
