"""What nobody works on any more: tasks whose messages or owners were lost, mappings without servers, old history."""
import datetime
import logging

import sqlalchemy as sa

from nova import context
from nova import exception
from nova import objects
from nova import states
from nova import utils
from nova.conductor import migrate
from nova.conductor import state
from nova.db.cells import rows as cell_rows
from nova.db.moves import cell_transfer
from nova.db.moves import live_migrations
from nova.db.moves import migrations as server_migrations
from nova.db.placement import claims
from nova.db.placement import pci_devices
from nova.db.projects import idempotency
from nova.db.servers import history
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.tables.api import instance_mappings
from nova.objects import faults
from nova.runtime import concurrency
from nova.runtime import metrics

LOG = logging.getLogger(__name__)

MAPPING_AGE_S = 120          # a mapping whose server's row is not there after so long: the API died in between
NEW_MAPPING_S = 1800         # those that are looked at every minute
PAGE = 1000
SEND_AGAIN_S = 1

# task state -> action that set it; of actions that share one, the method and its arguments are the same
RUNNING = {action.running: action for action in states.ACTIONS.values()
           if (action.method or action.conductor) and action.running and action.name != 'evacuate'}
# later task states of the same actions
RUNNING.update({
    states.REBOOT_PENDING: states.ACTIONS['reboot'], states.REBOOT_STARTED: states.ACTIONS['reboot'],
    states.REBOOT_PENDING_HARD: states.ACTIONS['reboot-hard'],
    states.REBOOT_STARTED_HARD: states.ACTIONS['reboot-hard'],
    states.REBUILD_BLOCK_DEVICE_MAPPING: states.ACTIONS['rebuild'],
    states.REBUILD_SPAWNING: states.ACTIONS['rebuild'],
    states.IMAGE_SNAPSHOT: states.ACTIONS['createImage'],
    states.IMAGE_PENDING_UPLOAD: states.ACTIONS['createImage'],
    states.IMAGE_UPLOADING: states.ACTIONS['createImage'],
    states.SHELVING_IMAGE_PENDING_UPLOAD: states.ACTIONS['shelve'],
    states.SHELVING_IMAGE_UPLOADING: states.ACTIONS['shelve'],
})


def decide(row, host_up, old):
    """What to do about an overdue open action on the server of this row.

    :param row: the instances row, None when the server is gone
    :param host_up: whether its host's service is up
    :param old: it has been open for longer than anything takes
    :returns: 'settle' (it is on its way to another cell), 'close', 'delete', 'fail', 'build', 'replace' (it is built on
        another host), 'resend', 'continue' or 'abandon' (a move), 'migrate' (a live one) or 'wait'
    """
    if row is not None and row.get('cell_move') is not None:
        return 'settle'
    if row is None or row['task_state'] is None and row['vm_state'] != states.BUILDING:
        return 'close'
    if row['task_state'] == states.DELETING:
        return 'delete'
    if row['task_state'] == states.MIGRATING:
        return 'migrate'
    if row['task_state'] in migrate.STEPS:
        return 'abandon' if old else 'continue'
    if old:
        return 'fail'
    if row['vm_state'] == states.BUILDING:
        if row['host'] is None:
            return 'build'
        return 'resend' if host_up else 'replace'
    if row['task_state'] in RUNNING and RUNNING[row['task_state']].conductor:
        return 'resend'
    if row['task_state'] not in RUNNING:
        return 'wait'
    return 'resend' if host_up else 'wait'


def decide_evacuation(row, host_up, old):
    """The same about an evacuation, which shares its task state with a rebuild: 'evacuate' while it is one."""
    if row is not None and row['task_state'] == states.REBUILDING:
        return 'evacuate'
    return decide(row, host_up, old)


def decide_beside(row, host_up, old):
    """The same about one that goes on beside others: 'close_beside', 'give_up', 'take_up' or 'wait'."""
    if row is None or row['host'] is None:
        return 'close_beside'
    if old:
        return 'give_up'
    return 'again' if host_up else 'wait'


class Reconciler:
    """The part of the conductor's manager that looks after lost work; mixed into it beside Builder."""

    def reconcile(self):
        """Take up every overdue task; the number of those taken up."""
        now = utils.utcnow()
        with self._cell_db.reader() as conn:
            overdue = instance_actions.overdue(conn, now)
            rows = instances.get_many(conn, list({action['instance_uuid'] for action in overdue}))
            up = {host: self.host_is_up(conn, host) for host in {row['host'] for row in rows.values()} if host}
        with self._cell_db.broke_off() as cell, self._api_db.broke_off() as top:
            if cell or top:                  # they answer by now
                self.messages_lost()
        later = now + datetime.timedelta(seconds=self._conf.conductor.task_deadline)
        taken = 0
        for action in overdue:
            row = rows.get(action['instance_uuid'])
            if not self._cell_db.run(instance_actions.postpone, action, later):
                continue
            old = (now - action['started_at']).total_seconds() > self._conf.conductor.task_give_up
            decided = decide_beside if action['action'] in states.BESIDE else (
                decide_evacuation if action['action'] == 'evacuate' else decide)
            what = decided(row, bool(row) and up.get(row['host'], False), old)
            LOG.info('Task %s of server %s is overdue: %s.', action['action'], action['instance_uuid'], what)
            metrics.RECONCILED.labels(what).inc()
            try:
                getattr(self, '_' + what)(action, row)
            except exception.Unavailable as error:           # nobody was told: the next look tells
                LOG.warning('Task %s of server %s is sent later: %s', action['action'], action['instance_uuid'],
                            error.message)
                self._cell_db.run(instance_actions.postpone, {**action, 'deadline': later},
                                  utils.utcnow() + datetime.timedelta(seconds=SEND_AGAIN_S))
            except exception.NovaException as error:
                LOG.warning('Task %s of server %s goes on waiting: %s', action['action'],
                            action['instance_uuid'], error)
            taken += 1
        return taken

    def _settle(self, action, row):
        """See that the server is in one cell; where it is this one, go on with what waits."""
        cell_transfer.settle(self._api_db, self._cells, self._cells.default, row['uuid'])
        with self._cell_db.reader() as conn:
            row = instances.get_many(conn, [row['uuid']]).get(row['uuid'])
            up = row is not None and row['host'] is not None and self.host_is_up(conn, row['host'])
        if row is not None and row['cell_move'] is None:
            getattr(self, '_' + decide(row, up, False))(action, row)

    def settle_cell_moves(self):
        """Settle the servers that were left on their way between this cell and another one; their number."""
        if len(self._cells.all()) == 1:
            return 0
        return cell_transfer.settle_all(self._api_db, self._cells, self._cells.default)

    def _close(self, action, row):
        self._cell_db.run(instance_actions.finish, action['instance_uuid'], beside=False)

    def _close_beside(self, action, row):
        self._cell_db.run(instance_actions.finish, action['instance_uuid'], request_id=action['request_id'])

    def _give_up(self, action, row):
        self.give_up_volume(context.on_behalf_of(action), action)
        self.end_beside(context.on_behalf_of(action), row['uuid'], 'conductor_reconcile', row['host'], {},
                        error='The host did not finish the operation.')

    def _again(self, action, row):
        self._compute.take_up(context.on_behalf_of(action), server=row['host'], instance=objects.Instance.from_row(row),
                              action=action['action'], arguments=action['arguments'] or {})

    def _wait(self, action, row):
        """Its deadline has moved; the host does it when it is back."""

    def _delete(self, action, row):
        self.delete_instance(context.on_behalf_of(action), row['uuid'])

    def _build(self, action, row):
        self.build_instances(context.on_behalf_of(action), [row['uuid']])

    def _replace(self, action, row):
        self.replace_build(context.on_behalf_of(action), row)

    def _fail(self, action, row):
        error = exception.HostUnavailable(host=row['host'])
        if row['vm_state'] == states.BUILDING:
            message = ('The host did not finish building the server, and no other host took it.' if row['host']
                       else 'The server was waiting for a host for too long.')
            if self.fail_build(row['uuid'], faults.fault(error, message)) and row['host']:
                self._network.deallocate_for_instance(context.on_behalf_of(action), instance_uuid=row['uuid'],
                                                      host=row['host'])
        else:
            fault = faults.fault(error, 'The host did not finish the operation.')
            self.end_task(None, row['uuid'], 'conductor_reconcile', row['host'], {'task_state': None},
                          {'task_state': row['task_state']}, fault, fault['details'])

    def _migrate(self, action, row):
        self.continue_live_migration(context.on_behalf_of(action), row['uuid'])

    def _evacuate(self, action, row):
        self.continue_evacuation(context.on_behalf_of(action), row['uuid'])

    def _continue(self, action, row):
        self.continue_move(context.on_behalf_of(action), row['uuid'])

    def _abandon(self, action, row):
        """A move that hangs: as if its present step had failed."""
        with self._cell_db.reader() as conn:
            moves = server_migrations.open_of(conn, row['uuid'])
        if not moves:
            self._fail(action, row)
            return
        method, host = migrate.next_step(row['task_state'], moves[-1]) or (None, None)
        if method == 'finish_revert_resize' and self._is_up(host):
            self.continue_move(context.on_behalf_of(action), row['uuid'])
            return
        error = exception.HostUnavailable(host=host)
        self.move_failed(context.on_behalf_of(action), moves[-1]['id'], host, 'conductor_reconcile',
                         faults.fault(error, 'The host did not finish the operation.'))

    def _resend(self, action, row):
        action_row = states.BUILD if row['vm_state'] == states.BUILDING else RUNNING[row['task_state']]
        if action_row.conductor:
            getattr(self, action_row.conductor)(context.on_behalf_of(action), row['uuid'])
            return
        method = self._compute_interface.methods[action_row.method]
        arguments = {name: value for name, value in (action['arguments'] or {}).items()
                     if name in method.arguments}
        ctx = context.on_behalf_of(action)
        if 'spec' in method.arguments:
            arguments['spec'] = self.get_request_spec(ctx, row['uuid'])
        missing = set(method.arguments) - {'instance'} - arguments.keys()
        if missing:
            self._fail(action, row)
            return
        getattr(self._compute, method.name)(ctx, server=row['host'], instance=objects.Instance.from_row(row),
                                            **arguments)

    def take_over(self):
        """Take up at once what a process that died has left: for a deployment whose only process starts again.

        Call it before the first request: until then a mapping without a row is one that was lost.
        """
        self.remove_lost_mappings(0)
        passed = utils.utcnow() - datetime.timedelta(seconds=1)
        self._cell_db.run(instance_actions.hasten, passed)
        self._cell_db.run(live_migrations.hasten, passed)
        concurrency.spawn('take-over', self._take_up)

    def _take_up(self):
        try:
            while self.reconcile():
                pass
        except Exception:
            LOG.exception('What was interrupted is not taken up at once; the periodic task does it.')

    def remove_new_lost_mappings(self):
        """The same soon, for those whose API lost its database in between: they count against a quota."""
        return self.remove_lost_mappings(within_s=NEW_MAPPING_S)

    def remove_lost_mappings(self, age_s=MAPPING_AGE_S, within_s=None):
        """Mappings to this cell and specs of servers whose rows were never written, or are deleted; the number removed.

        A row that is missing may be about to be written while its mapping is younger than ``age_s``, unless the
        history has it. One whose mapping is older than all services of this database was never to be here: the
        configuration names another database than the cell's.

        :param within_s: only of those that are younger than so many seconds
        """
        before = utils.utcnow() - datetime.timedelta(seconds=age_s)
        marker, removed = '', 0
        while True:
            page = sa.select(instance_mappings.c.instance_uuid, instance_mappings.c.created_at).where(
                instance_mappings.c.instance_uuid > marker,
                instance_mappings.c.cell_uuid == self._cells.default.uuid).order_by(
                instance_mappings.c.instance_uuid).limit(PAGE)
            if within_s is not None:
                since = utils.utcnow() - datetime.timedelta(seconds=within_s)
                page = page.where(instance_mappings.c.created_at > since)
            with self._api_db.reader() as conn:
                created = {row.instance_uuid: row.created_at for row in conn.execute(page)}
            if not created:
                return removed
            with self._cell_db.reader() as conn:
                missing = list(created.keys() - instances.existing(conn, list(created)))
                deleted = history.deleted(conn, missing)
                first = cell_rows.first_service_at(conn) if missing else None
            oldest = before if first is None else first - datetime.timedelta(seconds=MAPPING_AGE_S)   # clocks differ
            lost = [uuid for uuid in missing if uuid in deleted or oldest <= created[uuid] < before]
            older = [uuid for uuid in missing if uuid not in deleted and created[uuid] < min(oldest, before)]
            if older:
                LOG.error('%d servers of this cell are older than its database, which has not got them; their mappings '
                          'stay. Look whether [database] connection names the right one.', len(older))
            if lost:
                lost = self._api_db.run(state.forget, lost, self._cells.default.uuid)
                LOG.warning('%d servers have a mapping and no row; the mappings are removed.', len(lost))
                for uuid in lost:
                    self.release_attachments(context.admin_context(), uuid)
                removed += len(lost)
            marker = max(created)

    def audit(self):
        """Compare the nodes' usage with their servers; what differed is mended and counted in ``drift``."""
        mended = [*self._cell_db.run(claims.audit), *self._cell_db.run(pci_devices.audit)]
        self.drift += len(mended)
        metrics.AUDITS.inc()
        metrics.DRIFT.inc(len(mended))
        return mended

    def expire_idempotency_keys(self):
        """Forget answers that are older than clients may ask for again."""
        lifetime = datetime.timedelta(seconds=self._conf.api.idempotency_key_lifetime)
        self._api_db.run(idempotency.expire, utils.utcnow() - lifetime)

    def expire_history(self):
        """Remove servers that were deleted longer ago than configured."""
        days = self._conf.conductor.deleted_servers_kept_days
        before = utils.utcnow() - datetime.timedelta(days=days)
        while days and self._cell_db.run(history.expire, before):
            pass
