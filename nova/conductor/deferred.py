"""What happens by itself after a time: shelved servers leave their hosts, soft-deleted ones go for good."""
import dataclasses
import datetime
import logging

from nova import context
from nova import exception
from nova import objects
from nova import states
from nova import utils
from nova.db.servers import console_tokens
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import mappings
from nova.db.servers import tasks

LOG = logging.getLogger(__name__)

OFFLOAD = states.ACTIONS['shelveOffload']
# not as an owner's delete, which is done whatever the server is: only while nobody restores it
RECLAIM = dataclasses.replace(states.ACTIONS['forceDelete'], vm_states=(states.SOFT_DELETED,),
                              task_states=states.IDLE)


class Deferred:
    """The part of the conductor's manager for such work; mixed into it."""

    def offload_shelved(self):
        """Let servers leave their hosts that were shelved for shelved_offload_time seconds; their number."""
        seconds = self._conf.shelved_offload_time
        if seconds <= 0:
            return 0
        before = utils.utcnow() - datetime.timedelta(seconds=seconds)
        done = 0
        for row in self._idle(states.SHELVED):
            since = row['system_metadata'].get('shelved_at')
            if row['host'] and since and datetime.datetime.fromisoformat(since) <= before:
                done += self._by_itself(row, OFFLOAD, self._offload)
        return done

    def _offload(self, ctx, row):
        self._compute.shelve_offload_instance(ctx, server=row['host'], instance=objects.Instance.from_row(row))

    def reclaim_deleted(self):
        """Delete what was soft-deleted reclaim_instance_interval seconds ago; the number of servers."""
        seconds = self._conf.reclaim_instance_interval
        if seconds <= 0:
            return 0
        before = utils.utcnow() - datetime.timedelta(seconds=seconds)
        return sum(self._by_itself(row, RECLAIM, lambda ctx, row: self.delete_instance(ctx, row['uuid']))
                   for row in self._idle(states.SOFT_DELETED) if row['deleted_at'] and row['deleted_at'] <= before)

    def _idle(self, vm_state):
        with self._cell_db.reader() as conn:
            return instances.in_state(conn, vm_state, idle=True)

    def _by_itself(self, row, action, go_on):
        """Begin an action in the name of the system; whether it began."""
        ctx = context.on_behalf_of(row)
        ctx.observer = self.notifier if self.notifier.on else None
        try:
            row = self._cell_db.run(tasks.begin, ctx, row['uuid'], action, None, None, True)
        except (exception.Conflict, exception.InstanceNotFound) as error:
            LOG.info('Server %s is left alone: %s', row['uuid'], error.message)
            return False
        try:
            go_on(ctx, row)
        except exception.Unavailable as error:
            LOG.warning('%s of server %s waits for a reconciler: %s', action.name, row['uuid'], error.message)
            self._cell_db.run(instance_actions.unsent, ctx.request_id)
        return True

    def count_soft_deleted(self):
        """Make the quota leave out the servers that are soft-deleted, and no others; the number of those mended.

        The two databases differ only when a process died between its writes to them.
        """
        with self._api_db.reader() as conn:
            queued = mappings.queued(conn)
        with self._cell_db.reader() as conn:
            soft = {row['uuid']: row['task_state'] for row in instances.in_state(conn, states.SOFT_DELETED)}
            others = instances.get_many(conn, list(queued - soft.keys()))
        wrong = {uuid: True for uuid, task_state in soft.items() if task_state is None and uuid not in queued}
        wrong.update({uuid: False for uuid, row in others.items() if row['task_state'] is None})
        for uuid, value in wrong.items():
            LOG.warning('Server %s is %s by the quota again.', uuid, 'left out' if value else 'counted')
            self._api_db.run(mappings.set_queued, uuid, value)
        return len(wrong)

    def expire_console_tokens(self):
        return self._cell_db.run(console_tokens.expire)
