"""Asking the cells of a deployment: side by side, and without those that do not answer."""
from collections.abc import Callable, Collection
from typing import Any

from nova import exception
from nova.api import request as api_request
from nova.db import engine
from nova.db.cells import cells as db_cells
from nova.db.cells import rows as cell_rows

# what each cell gave that answers, and those that are down
Answers = tuple[list[tuple[db_cells.Cell, Any]], list[db_cells.Cell]]


def ask(req: api_request.Request,
        function: Callable[[engine.Connection], Any]) -> Answers:
    """([(cell, what ``function(conn)`` gives)] of the cells that answer, [cells that are down]).

    :raises ServiceUnavailable: none answers, or the operator wants no partial answers
    """
    return _answered(req, *req.services.cells.read(function))


def ask_cells(req: api_request.Request,
              function: Callable[[db_cells.Cell], Any]) -> Answers:
    """``ask`` with ``function(cell)``."""
    return _answered(req, *req.services.cells.scatter(function))


def _answered(req: api_request.Request, found: list[tuple[db_cells.Cell, Any]],
              down: list[db_cells.Cell]) -> Answers:
    if not found:
        raise exception.ServiceUnavailable(service='database')
    check(req, down)
    return found, down


def check(req: api_request.Request, down: list[db_cells.Cell]) -> None:
    """:raises ServiceUnavailable: a cell is down, at a version that cannot say so, and the operator wants no partial
    answers
    """
    if down and not req.has('down_cells') and not req.services.conf.api.list_records_by_skipping_down_cells:
        raise exception.ServiceUnavailable(service='database')


def rows(req: api_request.Request, function: Callable[[engine.Connection], Any]) -> list[Any]:
    """What ``function(conn)`` gives in all cells that answer, in one list."""
    return [row for _cell, found in ask(req, function)[0] for row in found]


def first(req: api_request.Request,
          function: Callable[[engine.Connection], Any]) -> tuple[db_cells.Cell | None, Any]:
    """(cell, what ``function(conn)`` gives there) of the first cell that has it; (None, None): none has.

    :param function: gives nothing, or raises NotFound, where it is not
    :raises ServiceUnavailable: no cell that answers has it, and another does not answer
    """
    return next(iter(_having(req, function)), (None, None))


def only(req: api_request.Request, function: Callable[[engine.Connection], Any],
         id: str) -> tuple[db_cells.Cell | None, Any]:
    """The same of what has a number of its own in each cell.

    :param id: what the client calls it by
    :raises BadRequest: several cells have it
    :raises ServiceUnavailable: as ``first``
    """
    found = _having(req, function)
    if len(found) > 1:
        raise exception.BadRequest(f'{len(found)} cells have something with the number {id}: ask for it by its uuid, '
                                   'at version 2.53 or later.')
    return next(iter(found), (None, None))


def _having(req: api_request.Request, function: Callable[[engine.Connection], Any]) -> list[tuple[db_cells.Cell, Any]]:
    def find(conn: engine.Connection) -> Any:
        try:
            return function(conn)
        except exception.NotFound:
            return None
    answers, down = req.services.cells.read(find)
    found = [(cell, result) for cell, result in answers if result]
    if down and not found:
        raise exception.ServiceUnavailable(service='database')
    return found


def of_hosts(req: api_request.Request, hosts: Collection[str]) -> list[tuple[db_cells.Cell, str]]:
    """[(cell, host)] of hosts by their mappings; those without one are the default cell's."""
    cells = req.services.cells
    if len(cells.all()) == 1:
        return [(cells.default, host) for host in hosts]
    with req.services.api_db.reader() as conn:
        known = cell_rows.cells_of_hosts(conn, hosts)
    return [(cells.get(known[host]) or cells.default if host in known else cells.default, host) for host in hosts]
