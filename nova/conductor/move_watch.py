"""What is looked after, time and again, beside the steps of the moves: old ones that nobody confirms, and the quota."""
import datetime
import logging

from nova import context
from nova import exception
from nova import states
from nova import utils
from nova.db import mappings
from nova.db import quotas
from nova.db import server_migrations

LOG = logging.getLogger(__name__)

PAGE = 1000


class MoveWatch:
    """The part of the conductor's manager that watches the moves; mixed into it beside Migrator."""

    _miscounted = frozenset()        # servers whose size the quota counted wrongly at the last look

    def confirm_old_moves(self):
        """Confirm the moves whose owners were silent for longer than resize_confirm_window; how many."""
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
                                  states.ACTIONS['confirmResize'], 'confirming', True)
            except exception.NovaException as error:
                LOG.info('The move of server %s is not confirmed by itself: %s', move['instance_uuid'], error)
                continue
            self.continue_move(ctx, move['instance_uuid'])
            confirmed += 1
        return confirmed

    def count_sizes(self):
        """Make the quota count the sizes that servers have, or may get by a move; the number of those mended.

        The two databases differ only while a request is between its writes to them, or when a process died there:
        what is wrong at two looks in a row is mended.
        """
        marker, wrong = '', {}
        while True:
            with self._api_db.reader() as conn:
                counted = mappings.sizes(conn, self._cells.default.uuid, marker, PAGE)
            if not counted:
                break
            with self._cell_db.reader() as conn:
                needed = server_migrations.needs_many(conn, list(counted))
            wrong.update({uuid: size for uuid, size in needed.items() if counted[uuid] != size})
            marker = max(counted)
        mended = [uuid for uuid in wrong if uuid in self._miscounted]
        for uuid in mended:
            LOG.warning('The quota counts server %s with the size that it has again.', uuid)
            self._api_db.run(quotas.set_size, uuid, *wrong.pop(uuid))
        self._miscounted = frozenset(wrong)
        return len(mended)
