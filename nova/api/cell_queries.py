"""Queries of all cells in parallel; cells that are down are skipped."""
from collections.abc import Callable
from typing import Any, TypeVar

from nova import exception
from nova.api import request as api_request
from nova.db import engine
from nova.db.cells import cells as db_cells

R = TypeVar('R')
# [(cell, result)] of the cells that respond, [cells that are down]
Answers = tuple[list[tuple[db_cells.Cell, Any]], list[db_cells.Cell]]


def ask(req: api_request.Request,
        function: Callable[[engine.Connection], Any]) -> Answers:
    """Return ([(cell, ``function(conn)``)] of the cells that respond, [cells that are down]).

    :raises ServiceUnavailable: no cell responds, or the configuration forbids partial results
    """
    return _answered(req, *req.services.cells.read(function))


def ask_cells(req: api_request.Request,
              function: Callable[[db_cells.Cell], Any]) -> Answers:
    """Like ``ask``, but call ``function(cell)`` instead of ``function(conn)``."""
    return _answered(req, *req.services.cells.scatter(function))


def _answered(req: api_request.Request, found: list[tuple[db_cells.Cell, Any]],
              down: list[db_cells.Cell]) -> Answers:
    if not found:
        raise exception.ServiceUnavailable(service='database')
    check(req, down)
    return found, down


def check(req: api_request.Request, down: list[db_cells.Cell]) -> None:
    """Refuse a partial result, unless the request's version or the configuration allows it.

    :raises ServiceUnavailable: a cell is down, and this version or the configuration forbids partial results
    """
    if down and not req.has('down_cells') and not req.services.conf.api.list_records_by_skipping_down_cells:
        raise exception.ServiceUnavailable(service='database')


def rows(req: api_request.Request, function: Callable[[engine.Connection], Any]) -> list[Any]:
    """Return the concatenated results of ``function(conn)`` in all cells that respond."""
    return [row for _cell, found in ask(req, function)[0] for row in found]


def first(req: api_request.Request,
          function: Callable[[engine.Connection], Any]) -> tuple[db_cells.Cell | None, Any]:
    """Return (cell, ``function(conn)``) of the first cell with a result; (None, None) if no cell has one.

    :param function: returns nothing or raises NotFound if its cell does not have the object
    :raises ServiceUnavailable: no responding cell has the object, and a cell is down
    """
    return next(iter(_having(req, function)), (None, None))


def only(req: api_request.Request, function: Callable[[engine.Connection], Any],
         id: str) -> tuple[db_cells.Cell | None, Any]:
    """Like ``first``, for an object with a numeric ID, which is unique only within a cell.

    :param id: the number that the client sent
    :raises BadRequest: several cells have the number
    :raises ServiceUnavailable: see ``first``
    """
    found = _having(req, function)
    if len(found) > 1:
        raise exception.BadRequest(f'The number {id} is ambiguous: {len(found)} cells use it. '
                                   'Use the UUID, with version 2.53 or later.')
    return next(iter(found), (None, None))


def _having(req: api_request.Request, function: Callable[[engine.Connection], R]) -> list[tuple[db_cells.Cell, R]]:
    def find(conn: engine.Connection) -> R | None:
        try:
            return function(conn)
        except exception.NotFound:
            return None
    answers, down = req.services.cells.read(find)
    found = [(cell, result) for cell, result in answers if result]
    if down and not found:
        raise exception.ServiceUnavailable(service='database')
    return found
