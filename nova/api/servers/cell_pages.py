"""A page of a list whose servers are in several cells.

Of each cell its share of the page is read and a little more, and of one whose rows end before the page does what comes
after them: in all about a page, however many cells there are. Cells that have no servers of the project are left out.
"""
from __future__ import annotations

from collections.abc import Callable, Collection
import dataclasses
import math
from typing import Any

from nova import context as nova_context
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.servers import listing
from nova.db.servers import mappings

Rows = list[dict[str, Any]]
Place = tuple[Any, ...] | None
Read = Callable[[db_cells.Cell], Rows]
Prepare = Callable[[listing.Query, Place], Read]

GROWTH = 4            # times as many rows as the time before, of a cell that is read again


@dataclasses.dataclass
class _Part:
    """What one cell has given, and whether it has more."""

    size: int                                  # rows that are read of it at a time
    place: Place
    rows: Rows = dataclasses.field(default_factory=list)
    ended: bool = False


class CellPage:
    """The page of a query with a limit; ``down`` are the cells that have not answered, ``answered`` the others.

    :param place: where the page begins; None: at the first row
    :param prepare: function(query, place) -> function(cell) that gives the rows of a cell after the place
    """

    def __init__(self, cells: db_cells.Cells, api_db: engine.Database, query: listing.Query, place: Place,
                 prepare: Prepare) -> None:
        assert query.limit is not None
        self._cells, self._api_db, self._query, self._prepare = cells, api_db, query, prepare
        self._limit, self._place = query.limit, place
        self._parts: dict[db_cells.Cell, _Part] = {}
        self.down: list[db_cells.Cell] = []

    @property
    def answered(self) -> bool:
        return bool(self._parts)

    def rows(self) -> Rows:
        """The servers of the page in their order.

        Of the default cell a whole page is read, before the others: a server that is not there any more has arrived in
        another cell by then.
        """
        self._ask([self._cells.default], self._limit)
        others = self._unread_cells()
        self._ask(others, share(self._limit, len(others)))
        while True:
            merged = listing.merge([part.rows for part in self._parts.values()],
                                   dataclasses.replace(self._query, limit=None))
            unread = self._unread(merged)
            arrived = [] if unread else self._unread_cells()
            if not unread and not arrived:
                return merged[:self._limit]
            self._ask(unread)
            self._ask(arrived, self._limit)

    def _unread_cells(self) -> list[db_cells.Cell]:
        """Cells with servers of the project of which nothing has been read."""
        cells, project = self._cells.all(), self._query.project_id
        if nova_context.one_project(project) and self._query.rows == 'live':
            with self._api_db.reader() as conn:
                having = mappings.cells_of_project(conn, str(project))
            cells = [cell for cell in cells if cell.uuid in having]
        return [cell for cell in cells if cell not in self._parts and cell not in self.down]

    def _unread(self, merged: Rows) -> list[db_cells.Cell]:
        """Cells whose next rows may be of the page."""
        last = merged[self._limit - 1] if len(merged) >= self._limit else None
        return [cell for cell, part in self._parts.items() if not part.ended and (
            last is None or listing.precedes(part.rows[-1], last, self._query))]

    def _ask(self, cells: Collection[db_cells.Cell], size: int = 0) -> None:
        """Ask cells for their next rows; those that do not answer are down, with what they gave before."""
        if not cells:
            return
        reads: dict[tuple[int, Place], Read] = {}          # of most cells the same is read
        for cell in cells:
            part = self._parts.setdefault(cell, _Part(size, self._place))
            if (part.size, part.place) not in reads:
                reads[part.size, part.place] = self._prepare(
                    dataclasses.replace(self._query, limit=part.size), part.place)
        wanted = {cell: reads[self._parts[cell].size, self._parts[cell].place] for cell in cells}
        found, down = self._cells.ask(list(cells), lambda cell: wanted[cell](cell))
        for cell in down:
            del self._parts[cell]
        self.down += down
        for cell, rows in found:
            part = self._parts[cell]
            part.rows += rows
            part.ended = len(rows) < part.size
            if rows:
                part.place = listing.place_after(rows[-1], self._query)
            part.size = min(self._limit, part.size * GROWTH)


def share(limit: int, count: int) -> int:
    """Rows that are read of each of so many cells at first, so that few are read again.

    A cell's part of a page spreads about its mean by the root of it.
    """
    mean = limit / max(count, 1)
    return min(limit, math.ceil(mean + 2 * math.sqrt(mean)))
