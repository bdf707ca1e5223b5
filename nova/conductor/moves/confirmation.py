"""Automatic confirmation of cold moves."""
import datetime
import logging

from nova import actions
from nova import context
from nova import exception
from nova import utils
from nova.conductor.cell_services import CellServices
from nova.conductor.moves.cold import ColdMoves
from nova.db.moves import migrations as server_migrations

LOG = logging.getLogger(__name__)


class Confirmation:
    """Confirms cold moves after a time."""

    def __init__(self, services: CellServices, moves: ColdMoves) -> None:
        self._conf, self._cell_db, self._moves = services.conf, services.cell_db, moves

    def confirm_old_moves(self) -> int:
        """Confirm moves that wait longer than resize_confirm_window; return their number."""
        window = self._conf.resize_confirm_window
        if not window:
            return 0
        with self._cell_db.reader() as conn:
            moves = server_migrations.finished_before(conn, utils.utcnow() - datetime.timedelta(seconds=window))
        confirmed = 0
        for move in moves:
            ctx = context.on_behalf_of(move)
            try:
                self._cell_db.run(server_migrations.begin_end, ctx, move['instance_uuid'],
                                  actions.ACTIONS['confirmResize'], 'confirming', True)
            except exception.NovaException as error:
                LOG.info('Cannot confirm the move of server %s automatically: %s', move['instance_uuid'], error)
                continue
            self._moves.continue_move(ctx, move['instance_uuid'])
            confirmed += 1
        return confirmed
