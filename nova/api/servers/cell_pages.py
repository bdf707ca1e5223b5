"""Pages of server lists that span several cells.

Each cell is first asked for its estimated share of the page, and again if the last row that it returned precedes the
end of the page. In total about one page of rows is read for any number of cells. Cells without servers of the project
are skipped.
"""
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

GROWTH = 4            # factor by which the number of rows grows when a cell is read again


@dataclasses.dataclass
class _Part:
    """Rows that were read from one cell, and the position of the next read."""

    size: int                                  # number of rows of the next read
    place: Place
    rows: Rows = dataclasses.field(default_factory=list)
    ended: bool = False


class CellPage:
    """A page of a query. ``down`` lists the cells that did not respond; ``answered`` is True if any cell responded.

    :param place: position after which the page begins; None: first page
    :param prepare: function(query, place) -> function(cell) that returns the rows of a cell after the position
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
        """Return the servers of the page in their order.

        A new server moves from the default cell to the cell of its host. The default cell is read first, for a
        whole page of rows. So a server that moves during the request is found in the default cell or in its new cell.
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
        """Return cells with servers of the project that were not read yet."""
        cells, project = self._cells.all(), self._query.project_id
        if nova_context.one_project(project) and self._query.rows == 'live':
            with self._api_db.reader() as conn:
                having = mappings.cells_of_project(conn, str(project))
            cells = [cell for cell in cells if cell.uuid in having]
        return [cell for cell in cells if cell not in self._parts and cell not in self.down]

    def _unread(self, merged: Rows) -> list[db_cells.Cell]:
        """Return cells with further rows that may belong to the page."""
        last = merged[self._limit - 1] if len(merged) >= self._limit else None
        return [cell for cell, part in self._parts.items() if not part.ended and (
            last is None or listing.precedes(part.rows[-1], last, self._query))]

    def _ask(self, cells: Collection[db_cells.Cell], size: int = 0) -> None:
        """Read the next rows of cells. Cells that do not respond are down, and their rows are dropped."""
        if not cells:
            return
        reads: dict[tuple[int, Place], Read] = {}          # {(number of rows, place): query}, shared by cells
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
    """Return the number of rows to request in the first read of each cell: enough to make second reads rare.

    The standard deviation of a cell's share is about the square root of the mean. The result is the mean plus two
    standard deviations.
    """
    mean = limit / max(count, 1)
    return min(limit, math.ceil(mean + 2 * math.sqrt(mean)))
