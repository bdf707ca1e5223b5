"""Transfer of servers between cells, in the steps of db/moves/cell_steps.py.

No two databases are locked at the same time. An interrupted attempt leaves rows in cell_moves, with which any process
can finish the attempt or roll it back. It is finished if the server's mapping names the new cell, or if
the new cell has the claim and the server still waits for a host.
"""
from collections.abc import Mapping
import logging
from typing import Any

from sqlalchemy import Connection

from nova.db.cells import cells as db_cells
from nova.db.engine import Database
from nova.db.moves import cell_steps
from nova.db.tables.rows import CellMovesRow
from nova.objects.request_spec import Selection
from nova.db.types import ColumnValues

LOG = logging.getLogger(__name__)

ATTEMPT_TIMEOUT_S = 15            # age after which an attempt counts as interrupted
ROUNDS = 20                  # maximum number of times that concurrent changes are copied


class Transfer:
    """One attempt to transfer waiting servers from their cell to the cells of their hosts.

    :param source: the servers' current cell, a db.cells.Cell
    """

    def __init__(self, api_db: Database, cells: db_cells.Cells, source: db_cells.Cell) -> None:
        self._api_db, self._cells, self.source = api_db, cells, source
        self.id = cell_steps.new_id()
        self._snapshots: dict[str, cell_steps.Snapshot] = {}      # {uuid: Snapshot} of the marked servers
        self.arrived: dict[str, db_cells.Cell] = {}              # {uuid: Cell with a copy}

    def leave(self, uuids: list[str], dest: db_cells.Cell) -> dict[str, cell_steps.Snapshot]:
        """Return {uuid: Snapshot} of the servers that this attempt has marked and may transfer."""
        known = [uuid for uuid in uuids if uuid in self._snapshots]
        fresh = [uuid for uuid in uuids if uuid not in self._snapshots]
        if known:
            self.source.db.run(cell_steps.retarget, self.id, known, dest.uuid)
        if fresh:
            mine = self._api_db.run(cell_steps.register, self.id, self.source.uuid, fresh)
            try:
                left = self.source.db.run(cell_steps.leave, self.id, list(mine), dest.uuid) if mine else {}
            except db_cells.UNREACHABLE:
                self._api_db.run(cell_steps.cancel, self.id, list(mine))  # so that the next attempt need not wait
                raise
            self._snapshots.update(left)
            refused = list(mine - left.keys())
            if refused:
                self._api_db.run(cell_steps.cancel, self.id, refused)
        return {uuid: self._snapshots[uuid] for uuid in uuids if uuid in self._snapshots}

    def arrive(self, conn: Connection, dest: db_cells.Cell, places: Mapping[str, ColumnValues]) -> None:
        """Insert hidden copies of servers, in the transaction that claims resources for them.

        :param places: {uuid: {column: value}}, the columns that assign the hosts
        """
        cell_steps.arrive(conn, self.id, self.source.uuid, {
            uuid: (self._snapshots[uuid], place) for uuid, place in places.items()})

    def has_arrived(self, uuids: dict[str, list[Selection]] | list[str], dest: db_cells.Cell) -> None:
        """Record that the transaction of ``arrive`` was committed."""
        self.arrived.update(dict.fromkeys(uuids, dest))

    def give_up(self, uuids: list[str] | None = None) -> None:
        """End the attempt for servers (default: all). In unreachable cells, rows remain until ``settle`` is called."""
        uuids = [uuid for uuid in (self._snapshots if uuids is None else uuids) if uuid in self._snapshots]
        if not uuids:
            return
        where = self._api_db.run(cell_steps.cancel, self.id, uuids)
        now = {uuid: where.get(uuid, (self.source.uuid,))[0] for uuid in uuids}
        for dest, part in _by_cell({uuid: self.arrived.pop(uuid) for uuid in uuids
                                    if uuid in self.arrived and now[uuid] != self.arrived[uuid].uuid}):
            _drop(dest, part, self.id)
        back = [uuid for uuid in uuids if now[uuid] == self.source.uuid]
        self.source.db.run(cell_steps.stay, self.id, back)
        for uuid in back:
            del self._snapshots[uuid]

    def finish(self) -> set[str]:
        """Switch the copied servers to the cells of their hosts; return the servers that are in those cells and wait to
        be built.
        """
        done = set()
        for dest, uuids in _by_cell(self.arrived):
            try:
                done |= self._finish(dest, uuids)
            except db_cells.UNREACHABLE as error:
                LOG.warning('The transfer of %d servers to cell %s is interrupted: %s', len(uuids), dest.name, error)
        return done

    def _finish(self, dest: db_cells.Cell, uuids: list[str]) -> set[str]:
        with self.source.db.reader() as conn:
            now = cell_steps.snapshots(conn, uuids, whole=False)
            changed = [uuid for uuid, snapshot in now.items() if snapshot.plain() != self._snapshots[uuid].plain()]
            now.update(cell_steps.snapshots(conn, changed) if changed else {})
        waiting = {uuid: snapshot for uuid, snapshot in now.items()
                   if snapshot.waiting and snapshot.row['cell_move'] == cell_steps.OUTGOING}
        self.give_up([uuid for uuid in uuids if uuid not in waiting])       # they no longer wait for a host
        base = {uuid: self._snapshots[uuid].plain() for uuid in waiting}
        for uuid in waiting.keys() & set(changed):
            dest.db.run(cell_steps.copy_changes, uuid, base[uuid], waiting[uuid])      # the copy is still hidden
            base[uuid] = waiting[uuid].plain()
        switched = self._api_db.run(cell_steps.switch, self.id, list(waiting), dest.uuid) if waiting else set()
        self.give_up([uuid for uuid in waiting if uuid not in switched])      # another attempt has moved them
        dest.db.run(cell_steps.activate, list(switched))
        last = clear(self.source, dest, {uuid: base[uuid] for uuid in switched})
        return {uuid for uuid in switched if uuid not in last or last[uuid].waiting}


def clear(source: db_cells.Cell, dest: db_cells.Cell, base: dict[str, cell_steps.Plain]
          ) -> dict[str, cell_steps.Snapshot]:
    """Remove servers from their old cell, and apply changes made there meanwhile to the new cell.

    :param base: {uuid: plain Snapshot in the new cell}
    :returns: {uuid: last Snapshot in the old cell} of servers with concurrent changes
    """
    known, copied = dict(base), {}
    for _ in range(ROUNDS):
        if not known:
            break
        changed = source.db.run(cell_steps.remove, list(known), known)
        for uuid, snapshot in changed.items():
            dest.db.run(cell_steps.copy_changes, uuid, known[uuid], snapshot)
        copied.update(changed)
        known = {uuid: snapshot.plain() for uuid, snapshot in changed.items()}
    if known:
        LOG.warning('The rows of %d servers in their old cell %s changed during each attempt to remove them. A later '
                    'attempt follows.', len(known), source.name)
    return copied


def _drop(dest: db_cells.Cell, uuids: list[str], move_id: str) -> None:
    try:
        dest.db.run(cell_steps.drop, uuids, move_id)
    except db_cells.UNREACHABLE as error:
        LOG.warning('Cannot remove the copies of %d servers in cell %s; they will be removed later: %s', len(uuids),
                    dest.name, error)


def _by_cell(cell_of: dict[str, db_cells.Cell]) -> list[tuple[db_cells.Cell, list[str]]]:
    """Convert {uuid: Cell} to [(Cell, uuids of its servers)]."""
    found: dict[Any, Any] = {}
    for uuid, cell in cell_of.items():
        found.setdefault(cell.uuid, (cell, []))[1].append(uuid)
    return list(found.values())


# ---- interrupted attempts --------------------------------------------------------------

def settled_homes(api_db: Database, cells: db_cells.Cells, uuids: list[str]) -> dict[str, str]:
    """Return {uuid: uuid of its cell} of the existing servers, after finishing or rolling back interrupted attempts."""
    with api_db.reader() as conn:
        where = cell_steps.where(conn, uuids)
    old = [(uuid, cell_uuid, move_id) for uuid, (cell_uuid, move_id) in where.items()
           if move_id and cell_steps.age_s(move_id) > ATTEMPT_TIMEOUT_S]
    for uuid, cell_uuid, move_id in old:
        if (cell := cells.get(cell_uuid)) is not None:
            settle(api_db, cells, cell, uuid)
        api_db.run(cell_steps.cancel, move_id, [uuid])           # if the attempt did not mark the server
    if old:
        with api_db.reader() as conn:
            where = cell_steps.where(conn, uuids)
    return {uuid: cell_uuid for uuid, (cell_uuid, _) in where.items()}


def settle_all(api_db: Database, cells: db_cells.Cells, cell: db_cells.Cell) -> int:
    """Finish or roll back the interrupted attempts from or to a cell; return the number of servers."""
    with cell.db.reader() as conn:
        found = cell_steps.records(conn)
    old = [record['instance_uuid'] for record in found if cell_steps.waits_since(record) > ATTEMPT_TIMEOUT_S]
    return sum(_settled(api_db, cells, cell, uuid) for uuid in old)


def _settled(api_db: Database, cells: db_cells.Cells, cell: db_cells.Cell, uuid: str) -> bool:
    try:
        return settle(api_db, cells, cell, uuid)
    except db_cells.UNREACHABLE as error:
        LOG.warning('Cannot complete the interrupted transfer of server %s from or to cell %s now; retrying later: %s',
                    uuid, cell.name, error)
    except Exception:                        # continue with the other servers
        LOG.exception('Cannot finish or roll back the transfer of server %s from or to cell %s.', uuid, cell.name)
    return False


def settle(api_db: Database, cells: db_cells.Cells, cell: db_cells.Cell, uuid: str) -> bool:
    """Finish an interrupted attempt to transfer a server, or roll it back; return False if there was no attempt.

    :param cell: source or destination of the transfer
    """
    with cell.db.reader() as conn:
        record = next(iter(cell_steps.records(conn, uuids=[uuid])), None)
        snapshot = cell_steps.snapshots(conn, [uuid]).get(uuid)
    if record is None:
        return False
    LOG.warning('The transfer of server %s from or to cell %s was interrupted; it is finished or rolled back now.',
                uuid, cell.name)
    if snapshot is None:
        cell.db.run(cell_steps.forget, [uuid])
    elif snapshot.row['cell_move'] == cell_steps.OUTGOING:
        _settle_outgoing(api_db, cells, cell, record, snapshot)
    else:
        _settle_coming(api_db, cells, cell, record)
    place = _where(api_db, uuid)[0]
    home = cells.get(place) if place is not None else None
    if home is not None:
        home.db.run(cell_steps.expedite, uuid)
    return True


def _where(api_db: Database, uuid: str) -> tuple[str | None, str | None]:
    with api_db.reader() as conn:
        return cell_steps.where(conn, [uuid]).get(uuid, (None, None))


def _settle_outgoing(api_db: Database, cells: db_cells.Cells, cell: db_cells.Cell, record: CellMovesRow,
                    snapshot: cell_steps.Snapshot) -> None:
    uuid, move_id = record['instance_uuid'], record['move_id']
    now, registered = _where(api_db, uuid)
    dest = cells.get(record['other_cell'])
    if now == cell.uuid:
        if registered == move_id and snapshot.waiting and dest is not None and _go_on(
                api_db, cells, cell, dest, record, snapshot):
            return
        now = api_db.run(cell_steps.cancel, move_id, [uuid]).get(uuid, (None,))[0]
    if now is None:
        cell.db.run(cell_steps.remove_deleted, uuid)
    elif now == cell.uuid:
        if dest is not None:
            _drop(dest, [uuid], move_id)
        cell.db.run(cell_steps.stay, move_id, [uuid])
    else:
        dest = cells.get(now)
        assert dest is not None          # a mapping refers to an existing cell
        dest.db.run(cell_steps.activate, [uuid])
        clear(cell, dest, {uuid: record['base']})


def _go_on(api_db: Database, cells: db_cells.Cells, cell: db_cells.Cell, dest: db_cells.Cell, record: CellMovesRow,
           snapshot: cell_steps.Snapshot) -> bool:
    """Finish an attempt whose claim was committed; return False if there is no claim."""
    uuid = record['instance_uuid']
    try:
        with dest.db.reader() as conn:
            there = next(iter(cell_steps.records(conn, uuids=[uuid])), None)
            copy = cell_steps.snapshots(conn, [uuid]).get(uuid)
        if there is None or copy is None or there['move_id'] != record['move_id']:
            return False
        move = Transfer(api_db, cells, cell)
        move.id, move.arrived, move._snapshots = record['move_id'], {uuid: dest}, {uuid: snapshot}
        dest.db.run(cell_steps.copy_changes, uuid, record['base'], snapshot)
        move.finish()
        return True
    except db_cells.UNREACHABLE as error:
        LOG.info('Server %s cannot move to unreachable cell %s: %s', uuid, dest.name, error)
        return False


def _settle_coming(api_db: Database, cells: db_cells.Cells, cell: db_cells.Cell, record: CellMovesRow) -> None:
    uuid, move_id = record['instance_uuid'], record['move_id']
    now, registered = _where(api_db, uuid)
    if now == cell.uuid:
        cell.db.run(cell_steps.activate, [uuid])
        return
    source = cells.get(record['other_cell'])
    if registered == move_id and source is not None:
        settle(api_db, cells, source, uuid)
        now = api_db.run(cell_steps.cancel, move_id, [uuid]).get(uuid, (None,))[0]
    if now == cell.uuid:
        cell.db.run(cell_steps.activate, [uuid])
    else:
        cell.db.run(cell_steps.drop, [uuid], move_id)
