"""Reconciler: continue overdue tasks. Their message was lost, or their owner (a conductor or a host) has failed."""
import collections.abc
import datetime
import logging
import typing

from nova import actions
from nova import context
from nova import exception
from nova import objects
from nova import states
from nova import utils
from nova.compute import interface as compute_interface
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Context
from nova.conductor.cell_services import Row
from nova.conductor.moves import cold
from nova.conductor.moves.evacuation import Evacuations
from nova.conductor.moves.live import LiveMigrations
from nova.conductor.servers.builds import Builds
from nova.conductor.servers.deletion import Deletion
from nova.conductor.servers.shelving import Shelving
from nova.conductor.servers.specs import RequestSpecs
from nova.conductor.servers.tasks import Tasks
from nova.conductor.servers.volumes import Volumes
from nova.conductor.upkeep.usage_checks import QuotaCheck
from nova.db.moves import cell_transfer
from nova.db.moves import live_migrations
from nova.db.moves import migrations as server_migrations
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import port_devices
from nova.objects import faults
from nova.objects import pci
from nova.runtime import concurrency
from nova.runtime import metrics
from nova.runtime import encrypted_passwords
from nova.db.tables.rows import InstancesRow

LOG = logging.getLogger(__name__)

ATTACH, DETACH = (actions.ACTIONS[name].record for name in ('attach_interface', 'detach_interface'))
RESEND_DELAY_S = 1
START_GRACE_S = 15               # seconds within which hosts report after a restart of all services
STEPS = {                        # step -> description for the log
    'settle': 'end the move to another cell', 'close': 'end the action, because no task is left',
    'close_beside': 'end the background action', 'give_up': 'roll the background action back',
    'again': 'send the background action again', 'wait': 'wait for the host', 'delete': 'delete the server',
    'build': 'build the server', 'replace': 'build the server on another host', 'fail': 'fail the task',
    'abandon': 'fail the step of the cold move', 'resend': 'send the message again',
    'continue': 'continue the cold move', 'migrate': 'continue the live migration',
    'evacuate': 'continue the evacuation'}

Work = collections.abc.Callable[[Row, typing.Any], None]
GoOn = collections.abc.Callable[[Context, str], None]


def decide(row: InstancesRow | None, host_up: bool, old: bool) -> str:
    """Return the step for an overdue open action on the server of this row.

    :param row: the instances row, None when the server is gone
    :param host_up: whether its host's service is up
    :param old: the action is older than the longest possible task
    :returns: key of STEPS
    """
    if row is not None and row.get('cell_move') is not None:
        return 'settle'
    if row is None or row['task_state'] is None and row['vm_state'] != states.BUILDING:
        return 'close'
    if row['task_state'] == states.DELETING:
        return 'delete'
    if row['task_state'] == states.MIGRATING:
        return 'migrate'
    if row['task_state'] in actions.STEP_OF_TASK:
        return 'abandon' if old else 'continue'
    if old:
        return 'fail'
    if row['vm_state'] == states.BUILDING:
        if row['host'] is None:
            return 'build'
        return 'resend' if host_up else 'replace'
    action = actions.OF_TASK.get(row['task_state'] or '')
    if action is not None and (action.calls.conductor or host_up):
        return 'resend'
    return 'wait'


def decide_evacuation(row: InstancesRow | None, host_up: bool, old: bool) -> str:
    """Return 'evacuate' for an overdue evacuation in the task state REBUILDING; otherwise the result of ``decide``."""
    if row is not None and row['task_state'] == states.REBUILDING:
        return 'evacuate'
    return decide(row, host_up, old)


def decide_background(row: InstancesRow | None, host_up: bool, old: bool) -> str:
    """Return the step for an overdue action without a task state."""
    if row is None or row['host'] is None:
        return 'close_beside'
    if old:
        return 'give_up'
    return 'again' if host_up else 'wait'


class Reconciler:
    """Continues overdue tasks."""

    def __init__(self, services: CellServices, sizes: QuotaCheck, specs: RequestSpecs, tasks: Tasks, builds: Builds,
                 deletion: Deletion, volumes: Volumes, shelving: Shelving, moves: cold.ColdMoves, live: LiveMigrations,
                 evacuations: Evacuations) -> None:
        self._services, self._conf = services, services.conf
        self._cell_db, self._api_db = services.cell_db, services.api_db
        self._passwords = encrypted_passwords.Passwords(services.conf)
        self._sizes, self._specs, self._tasks, self._builds = sizes, specs, tasks, builds
        self._deletion, self._volumes, self._moves = deletion, volumes, moves
        # key of STEPS -> function(action, row) that runs this step
        self._work: dict[str, Work] = {
            'settle': self._settle, 'close': self._close, 'close_beside': self._close_background,
            'give_up': self._give_up, 'again': self._repeat, 'wait': _wait, 'delete': self._delete,
            'build': self._build, 'replace': self._replace, 'fail': self._fail, 'abandon': self._abandon,
            'resend': self._resend, 'continue': _going_on(moves.continue_move),
            'migrate': _going_on(live.continue_live_migration),
            'evacuate': _going_on(evacuations.continue_evacuation)}
        # name of a conductor method in actions.ACTIONS -> the method, which continues the action of a server
        self._go_on: dict[str, GoOn] = {
            'continue_move': moves.continue_move, 'continue_live_migration': live.continue_live_migration,
            'continue_evacuation': evacuations.continue_evacuation, 'unshelve_instance': shelving.unshelve_instance}

    def messages_lost(self) -> None:
        """Mark waiting actions as overdue, because their messages may be lost. There are three cases:

        - message queues were declared again: messages in these queues, and in the queues of hosts, are lost
        - a database was unavailable, or services could not report: after a write, the message may not have been sent
        - this conductor starts: an earlier process may have died after it received messages
        """
        self._expedite(utils.utcnow() + datetime.timedelta(seconds=START_GRACE_S), untaken=True)
        self._sizes.doubt_sizes()

    def _expedite(self, when: datetime.datetime, untaken: bool = False) -> None:
        """Mark actions as overdue.

        :param untaken: only actions that no service has begun
        """
        self._cell_db.run(instance_actions.expedite, when, untaken=untaken)
        self._cell_db.run(live_migrations.expedite, when)

    def _expedite_deletions(self, now: datetime.datetime) -> None:
        """Mark deletions on hosts that are down as overdue, because their deadlines only give a host that is up time to
        finish."""
        with self._cell_db.reader() as conn:
            down = [host for host in instance_actions.hosts_that_delete(conn, now)
                    if not self._services.host_is_up(host, conn)]
        if down:
            self._cell_db.run(instance_actions.expedite_deletions, down, now)

    def reconcile(self, expedites: bool = True) -> int:
        """Continue every overdue task; return the number of these tasks.

        :param expedites: whether deletions on hosts that are down count as overdue
        """
        now = utils.utcnow()
        if expedites:
            self._expedite_deletions(now)
        with self._cell_db.reader() as conn:
            overdue = instance_actions.overdue(conn, now)
            rows = instances.get_many(conn, list({action['instance_uuid'] for action in overdue}))
            hosts = {row['host'] for row in rows.values() if row['host'] is not None}
            up = {host: self._services.host_is_up(host, conn) for host in hosts}
        with self._cell_db.broke_off() as cell, self._api_db.broke_off() as top:
            if cell or top:                  # a database was unavailable, and now answers again
                self.messages_lost()
        later = now + datetime.timedelta(seconds=self._conf.conductor.task_deadline)
        taken = 0
        for action in overdue:
            row = rows.get(action['instance_uuid'])
            if not self._cell_db.run(instance_actions.postpone, action, later):
                continue
            old = (now - action['started_at']).total_seconds() > self._conf.conductor.task_timeout
            decided = decide_background if action['action'] in actions.BACKGROUND else (
                decide_evacuation if action['action'] == 'evacuate' else decide)
            host = None if row is None else row['host']
            what = decided(row, host is not None and up.get(host, False), old)
            LOG.info('Task %s of server %s is overdue. Next step: %s.', action['action'], action['instance_uuid'],
                     STEPS[what])
            metrics.RECONCILER_DECISIONS.labels(what).inc()
            try:
                self._work[what](action, row)
            except exception.Unavailable as error:           # the message was not sent; the next check sends it
                LOG.warning('Task %s of server %s is sent later: %s', action['action'], action['instance_uuid'],
                            error.message)
                self._cell_db.run(instance_actions.postpone, {**action, 'deadline': later},
                                  utils.utcnow() + datetime.timedelta(seconds=RESEND_DELAY_S))
            except exception.NovaException as error:
                LOG.warning('Task %s of server %s cannot continue yet: %s', action['action'],
                            action['instance_uuid'], error)
            taken += 1
        return taken

    def _settle(self, action: Row, row: Row) -> None:
        """End the server's move between cells; if the server is then in this cell, continue the action."""
        cell_transfer.settle(self._api_db, self._services.cells, self._services.cell, row['uuid'])
        with self._cell_db.reader() as conn:
            here = instances.get_many(conn, [row['uuid']]).get(row['uuid'])
            up = here is not None and here['host'] is not None and self._services.host_is_up(here['host'], conn)
        if here is not None and here['cell_move'] is None:
            self._work[decide(here, up, False)](action, here)

    def settle_cell_moves(self) -> int:
        """End interrupted moves of servers between this cell and another one; return their number."""
        if len(self._services.cells.all()) == 1:
            return 0
        return cell_transfer.settle_all(self._api_db, self._services.cells, self._services.cell)

    def _close(self, action: Row, row: Row | None) -> None:
        self._cell_db.run(instance_actions.finish, action['instance_uuid'], background=False)

    def _close_background(self, action: Row, row: Row | None) -> None:
        self._settle_port(action, row)
        self._cell_db.run(instance_actions.finish, action['instance_uuid'], request_id=action['request_id'])

    def _settle_port(self, action: Row, row: Row | None) -> None:
        """Release the PCI device of a port after an attachment or a detachment that no host will end.

        It stays claimed if the server has the port. After a detachment it also stays claimed if the host is up, because
        the guest may still have it; a user can repeat the detachment.
        """
        port_id, attached_by = (action['arguments'] or {}).get('port_id'), action['request_id']
        if row is None or action['action'] not in (ATTACH, DETACH) or port_id not in pci.of_ports(row['flavor']):
            return
        if action['action'] == DETACH:
            if row['host'] is not None and self._services.host_is_up(row['host']):
                return
            attached_by = None
        if self._services.network.find_port(context.on_behalf_of(action), instance_uuid=row['uuid'], port_id=port_id,
                                            attached_by=attached_by) is None:
            self._cell_db.run(port_devices.release, row['uuid'], port_id)

    def _give_up(self, action: Row, row: Row) -> None:
        self._settle_port(action, row)
        try:
            self._volumes.give_up_volume(context.on_behalf_of(action), action)
        except exception.VolumeConnected as error:
            LOG.info('Task %s of server %s stays open: %s', action['action'], row['uuid'], error)
            if self._services.host_is_up(row['host']):
                self._repeat(action, row)
            return
        self._tasks.end_background(context.on_behalf_of(action), row['uuid'], 'conductor_reconcile', row['host'], {},
                               error='The host did not finish the operation.')

    def _repeat(self, action: Row, row: Row) -> None:
        self._services.compute.resume_background(
            context.on_behalf_of(action), server=row['host'], instance=objects.Instance.from_row(row),
            action=action['action'], arguments=action['arguments'] or {})

    def _delete(self, action: Row, row: Row) -> None:
        self._deletion.delete_instance(context.on_behalf_of(action), row['uuid'])

    def _build(self, action: Row, row: Row) -> None:
        self._builds.build_instances(context.on_behalf_of(action), [row['uuid']])

    def _replace(self, action: Row, row: Row) -> None:
        self._builds.replace_build(context.on_behalf_of(action), row)

    def _fail(self, action: Row, row: Row) -> None:
        error = exception.HostUnavailable(host=row['host'])
        if row['vm_state'] != states.BUILDING:
            self._end(row, faults.fault(error, 'The host did not finish the operation.'))
        elif row['host'] and self._volumes.are_connected(row['uuid']):
            self._end(row, faults.fault(error, (
                'The host did not finish building the server. The server keeps its host and volumes, because its guest '
                'may use the volumes.')), vm_state=states.ERROR)
        else:
            message = ('The host did not finish building the server, and no other host took it.' if row['host']
                       else 'The server was waiting for a host for too long.')
            self._builds.fail_build(row['uuid'], faults.fault(error, message))

    def _end(self, row: Row, fault: faults.Fault, **values: str) -> None:
        """End the task of a server with a fault, unless the server has changed since ``row`` was read."""
        self._tasks.end_task(None, row['uuid'], 'conductor_reconcile', row['host'], {'task_state': None, **values},
                             {name: row[name] for name in ('task_state', 'vm_state', 'host')}, fault, fault['details'])

    def _abandon(self, action: Row, row: Row) -> None:
        """End an overdue cold move as if its current step had failed."""
        with self._cell_db.reader() as conn:
            moves = server_migrations.open_of(conn, row['uuid'])
        if not moves:
            self._fail(action, row)
            return
        method, host = cold.next_step(row['task_state'], moves[-1]) or (None, None)
        up = host is not None and self._services.host_is_up(host)
        if method == actions.GROW.method and row['task_state'] == states.RESIZE_FINISH:
            # The guest may have grown: keep the claim until its host reports the result.
            if up:
                self._moves.continue_move(context.on_behalf_of(action), row['uuid'])
            return
        if method == 'finish_revert_resize' and up:
            self._moves.continue_move(context.on_behalf_of(action), row['uuid'])
            return
        error = exception.HostUnavailable(host=host)
        self._moves.move_failed(context.on_behalf_of(action), moves[-1]['id'], host, 'conductor_reconcile',
                                faults.fault(error, 'The host did not finish the operation.'))

    def _resend(self, action: Row, row: Row) -> None:
        calls = (actions.BUILD if row['vm_state'] == states.BUILDING else actions.OF_TASK[row['task_state']]).calls
        if calls.conductor:
            self._go_on[calls.conductor](context.on_behalf_of(action), row['uuid'])
            return
        method = compute_interface.INTERFACE.methods[calls.method or '']
        kept = self._passwords.decrypted(action['arguments'], row['uuid'])
        arguments: dict[str, object] = {name: value for name, value in kept.items() if name in method.arguments}
        ctx = context.on_behalf_of(action)
        if 'spec' in method.arguments:
            arguments['spec'] = self._specs.get_request_spec(ctx, row['uuid'])
        missing = set(method.arguments) - {'instance'} - arguments.keys()
        if missing:
            self._fail(action, row)
            return
        getattr(self._services.compute, method.name)(ctx, server=row['host'], instance=objects.Instance.from_row(row),
                                                     **arguments)

    def take_over(self) -> None:
        """Continue interrupted tasks immediately: in a deployment with a single process, no other process owns them."""
        self._expedite(utils.utcnow() - datetime.timedelta(seconds=1))
        concurrency.spawn('take-over', self._take_up)

    def _take_up(self) -> None:
        try:
            expedites = True
            while self.reconcile(expedites):
                expedites = False            # otherwise a deletion that always fails would repeat the loop forever
        except Exception:
            LOG.exception('Cannot resume interrupted tasks now; the periodic task retries.')


def _going_on(function: GoOn) -> Work:
    """Return a function(action, row) that calls ``function`` for the action's server."""
    def go_on(action: Row, row: Row) -> None:
        function(context.on_behalf_of(action), row['uuid'])
    return go_on


def _wait(action: Row, row: Row | None) -> None:
    """Do nothing: the deadline is extended, and the host continues the task when it is back."""
