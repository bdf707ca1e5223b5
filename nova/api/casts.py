"""Messages about what was accepted. Where no broker takes one, a reconciler finds the open action row."""
import logging
from collections.abc import Callable
from typing import Any

from oslo_db import exception as db_exc

from nova import context as nova_context
from nova import exception
from nova.api import request as api_request
from nova.api.servers import lookup as server_lookup
from nova.db.cells import cells as db_cells
from nova.db.servers import instance_actions
from nova.db.tables.rows import InstancesRow

LOG = logging.getLogger(__name__)


def send(cell: db_cells.Cell | None, method: Callable[..., object], context: nova_context.RequestContext,
         **arguments: Any) -> None:
    """Cast ``method(context, **arguments)``.

    :param cell: which has the open action rows: its reconciler sends at its next look what no host took. None: another
        one looks after what the message is about
    """
    try:
        method(context, **arguments)
    except exception.Unavailable as error:
        LOG.warning('A request that was accepted waits for a reconciler: %s', error.message)
        if cell is not None:
            _hasten(cell, context)


def _hasten(cell: db_cells.Cell, context: nova_context.RequestContext) -> None:
    try:
        cell.db.run(instance_actions.unsent, context.request_id)
    except db_exc.DBError as error:              # the request stays accepted; its deadline comes
        LOG.warning('The reconciler could not be notified: %s', error)


def to_host(req: api_request.Request, cell: db_cells.Cell, row: InstancesRow, method: Callable[..., object],
            **arguments: Any) -> None:
    """Notify the host of a server.

    :param row: the server's
    :param method: of the compute clients of its cell
    """
    send(cell, method, req.context, server=row['host'], instance=server_lookup.to_object(row), **arguments)
