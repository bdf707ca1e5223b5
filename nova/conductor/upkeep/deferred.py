"""Deferred actions: offload shelved servers and delete soft-deleted servers after a configured time."""
import collections.abc
import dataclasses
import datetime
import logging

from nova import actions
from nova import context
from nova import exception
from nova import objects
from nova import states
from nova import utils
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Context
from nova.conductor.cell_services import Row
from nova.conductor.servers.deletion import Deletion
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import tasks
from nova.objects import instance

LOG = logging.getLogger(__name__)

OFFLOAD = actions.ACTIONS['shelveOffload']
# the action forceDelete, allowed only in SOFT_DELETED: a server that was restored before is not deleted
RECLAIM = dataclasses.replace(actions.ACTIONS['forceDelete'], conditions=actions.Conditions((states.SOFT_DELETED,)))


class DeferredActions:
    """Begins deferred actions."""

    def __init__(self, services: CellServices, deletion: Deletion) -> None:
        self._conf, self._cell_db, self._compute = services.conf, services.cell_db, services.compute
        self._notifier, self._deletion = services.notifier, deletion

    def offload_shelved(self) -> int:
        """Offload servers that were shelved shelved_offload_time seconds ago; return their number."""
        seconds = self._conf.shelved_offload_time
        if seconds <= 0:
            return 0
        before = utils.utcnow() - datetime.timedelta(seconds=seconds)
        done = 0
        for row in self._idle(states.SHELVED):
            value = row['system_metadata'].get(instance.SHELVED_AT)
            since = instance.shelving_time(value)
            if value is not None and since is None:
                LOG.warning('Server %s is not offloaded: its %s is not a time.', row['uuid'], instance.SHELVED_AT)
            elif row['host'] and since and since <= before:
                done += self._begin(row, OFFLOAD, self._offload)
        return done

    def _offload(self, ctx: Context, row: Row) -> None:
        self._compute.shelve_offload_instance(ctx, server=row['host'], instance=objects.Instance.from_row(row))

    def reclaim_deleted(self) -> int:
        """Delete servers that were soft-deleted reclaim_instance_interval seconds ago; return their number."""
        seconds = self._conf.reclaim_instance_interval
        if seconds <= 0:
            return 0
        before = utils.utcnow() - datetime.timedelta(seconds=seconds)
        return sum(self._begin(row, RECLAIM, lambda ctx, row: self._deletion.delete_instance(ctx, row['uuid']))
                   for row in self._idle(states.SOFT_DELETED) if row['deleted_at'] and row['deleted_at'] <= before)

    def _idle(self, vm_state: str) -> collections.abc.Sequence[Row]:
        with self._cell_db.reader() as conn:
            return instances.in_state(conn, vm_state, idle=True)

    def _begin(self, row: Row, action: actions.Action, go_on: collections.abc.Callable[[Context, Row], None]) -> bool:
        """Begin an action that no user has requested; return whether it has begun.

        :param go_on: function(context, row), called after the action has begun
        """
        ctx = context.on_behalf_of(row)
        ctx.observer = self._notifier if self._notifier.on else None
        try:
            row = self._cell_db.run(tasks.begin, ctx, row['uuid'], action, None, None, True)
        except (exception.Conflict, exception.InstanceNotFound) as error:
            LOG.info('Server %s is skipped: %s', row['uuid'], error.message)
            return False
        try:
            go_on(ctx, row)
        except exception.Unavailable as error:
            LOG.warning('%s of server %s waits for a reconciler: %s', action.name, row['uuid'], error.message)
            self._cell_db.run(instance_actions.unsent, ctx.request_id)
        return True
