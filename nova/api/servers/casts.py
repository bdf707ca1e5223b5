"""RPC casts for accepted requests. If the broker is unavailable, a reconciler processes the open action row."""
import logging
from collections.abc import Callable

from oslo_db import exception as db_exc

from nova import context as nova_context
from nova import exception
from nova import objects
from nova.api import request as api_request
from nova.db.cells import cells as db_cells
from nova.db.servers import instance_actions
from nova.db.tables.rows import InstancesRow

LOG = logging.getLogger(__name__)


def send(cell: db_cells.Cell | None, method: Callable[..., object], context: nova_context.RequestContext,
         **arguments: object) -> None:
    """Cast ``method(context, **arguments)``.

    :param cell: cell with the open action rows; its reconciler then sends casts that failed. None: the caller needs no
     reconciler.
    """
    try:
        method(context, **arguments)
    except exception.Unavailable as error:
        LOG.warning('Cannot send an accepted request to its host; a reconciler will repeat it: %s', error.message)
        if cell is not None:
            _hasten(cell, context)


def _hasten(cell: db_cells.Cell, context: nova_context.RequestContext) -> None:
    try:
        cell.db.run(instance_actions.unsent, context.request_id)
    except db_exc.DBError as error:              # the reconciler repeats the request at the action's deadline
        LOG.warning('Cannot mark an unsent request for the reconciler: %s', error)


def to_host(req: api_request.Request, cell: db_cells.Cell, row: InstancesRow, method: Callable[..., object],
            **arguments: object) -> None:
    """Cast to the host of a server.

    :param row: row of the server
    :param method: method of the compute clients of its cell
    """
    send(cell, method, req.context, server=row['host'], instance=objects.Instance.from_row(row), **arguments)
