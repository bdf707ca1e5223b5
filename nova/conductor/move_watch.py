"""What is looked after, time and again, beside the steps of the moves: old ones that nobody confirms, and the quota."""
import datetime
import logging
import time

from nova import context
from nova import exception
from nova import states
from nova import utils
from nova.db.moves import migrations as server_migrations
from nova.db.projects import quotas
from nova.db.servers import mappings

LOG = logging.getLogger(__name__)

PAGE = 1000
SIZES_S = 600                # between two looks at the sizes of all servers, unless they are in doubt
MISCOUNTED_S = 90            # what is wrong for so long is not between the two writes of a request


class MoveWatch:
    """The part of the conductor's manager that watches the moves; mixed into it beside Migrator."""

    _miscounted = ()                 # uuids of servers whose size the quota counted wrongly at the last look
    _sizes_due = 0.0                 # when all are looked at again, in monotonic seconds

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

        The two databases differ only while a request is between its writes to them, or when a process or a database
        died there: what is wrong at two looks in a row is mended.
        """
        try:
            return self._mend_sizes() if self._miscounted else self._look_at_sizes()
        except Exception:
            self.doubt_sizes()
            raise

    def _look_at_sizes(self):
        if time.monotonic() < self._sizes_due:
            return 0
        self._sizes_due = time.monotonic() + SIZES_S         # who doubts them while this looks is heard
        marker, wrong = '', []
        while True:
            with self._api_db.reader() as conn:
                counted = mappings.sizes(conn, self._cells.default.uuid, marker, PAGE)
            if not counted:
                break
            wrong.extend(self._wrong_sizes(counted))
            marker = max(counted)
        self._miscounted = wrong
        return 0

    def doubt_sizes(self):
        """Look at all sizes at the next time: a database has been away."""
        self._sizes_due = 0.0

    def _wrong_sizes(self, counted):
        with self._cell_db.reader() as conn:
            needed = server_migrations.needs_many(conn, list(counted))
        return {uuid: size for uuid, size in needed.items() if counted[uuid] != size}

    def _mend_sizes(self):
        suspects, self._miscounted = self._miscounted[:PAGE], self._miscounted[PAGE:]
        with self._api_db.reader() as conn:
            counted = mappings.sizes_of(conn, self._cells.default.uuid, suspects)
        wrong = self._wrong_sizes(counted)
        for uuid, size in wrong.items():
            LOG.warning('The quota counts server %s with the size that it has again.', uuid)
            self._api_db.run(quotas.set_size, uuid, *size)
        return len(wrong)
