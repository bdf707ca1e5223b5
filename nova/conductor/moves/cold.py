"""Cold moves: resize and migrate, from the request to the confirmation.

The move's row and the server's task state hold the progress. The API, a restarted host or the reconciler calls
``continue_move``, which sends the message of the next step. Compute services run the steps (compute/moves/resize.py)
and call a method here at the end of a step. This method commits one transaction and sends the next message. The table
shows the task state, the status of the move, the work, and the method of the compute service:

    resize_prep        pre-migrating    the destination is chosen and checks the guest   prep_resize
    resize_migrating   migrating        the source stops the guest, keeps its files      resize_instance
    resize_migrated    post-migrating   the server's row names the destination
    resize_finish                       the destination creates the guest                finish_resize
    None (RESIZED)     finished
    resize_confirming  confirming       the source removes its copy                      confirm_resize
    resize_reverting   reverting        the destination removes the guest                revert_resize
                                        the row names the source; it restores the guest  finish_revert_resize

A resize of a running guest (``in_place`` in the move's arguments, hardware/growth.py) claims the additional
resources on the server's host. It has one step:

    resize_prep        pre-migrating    the resources are claimed                        grow_instance
    resize_finish      pre-migrating    the host hot-plugs CPUs and memory               grow_instance
"""
import datetime
import logging
import typing

from nova import actions
from nova import context
from nova import exception
from nova.json_types import JsonObject
from nova import objects
from nova import states
from nova import utils
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Connection
from nova.conductor.cell_services import Context
from nova.conductor.cell_services import Row
from nova.conductor.events import Change
from nova.conductor.events import Events
from nova.conductor.servers.specs import RequestSpecs
from nova.db.moves import migrations as server_migrations
from nova.db.projects import quotas
from nova.db.servers import history
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import request_specs
from nova.db.tables.rows import InstancesRow
from nova.db.tables.rows import MigrationsRow
from nova.notify.events import END
from nova.notify.events import ERROR
from nova.notify.events import START
from nova.objects import faults

LOG = logging.getLogger(__name__)

_UNPLACED = 'conductor_migrate_server'       # event of a failure to find a destination
# statuses after the destination has created the guest
_SENT = ('finished', 'confirming', 'confirmed', 'reverting', 'reverted')


def grows(migration: Row) -> bool:
    """Return whether the move is a resize of a running guest on its host."""
    return bool(migration['arguments'].get('in_place'))


def next_step(task_state: str, migration: Row) -> tuple[str, str] | None:
    """Return (compute method, host) of the next step in this task state; None: no destination is claimed.

    :param migration: the open move of the server
    """
    if task_state == states.RESIZE_PREP and migration['claimed_host'] is None:
        return None
    step = actions.GROW if grows(migration) else actions.STEP_OF_TASK[task_state]
    if step is actions.REVERT and not migration['claims_swapped']:
        step = actions.TAKE_BACK
    return _step_of(step, migration)


class ColdMoves:
    """Resizes and migrates servers; interface.py describes the RPC methods."""

    def __init__(self, services: CellServices, events: Events, specs: RequestSpecs) -> None:
        self._services, self._conf = services, services.conf
        self._cell_db, self._api_db = services.cell_db, services.api_db
        self._events, self._specs = events, specs

    def continue_move(self, ctx: Context, instance_uuid: str) -> None:
        """Send the message of the current step of a cold move, if the server is in such a move."""
        with self._cell_db.reader() as conn:
            row = instances.get_many(conn, [instance_uuid]).get(instance_uuid)
            migration = server_migrations.open_of_many(conn, [instance_uuid]).get(instance_uuid)
        if row is None or migration is None or row['task_state'] not in actions.STEP_OF_TASK:
            return
        if migration['migration_type'] not in server_migrations.COLD:
            return
        step = next_step(row['task_state'], migration)
        if step is None:
            self._settle_quota(instance_uuid)
            self._seek(ctx, row, migration)
        else:
            self._send_step(ctx, row, migration, *step)

    def continue_moves(self, ctx: Context, host: str, resize_backups: list[str]) -> list[dict[str, typing.Any]]:
        """See interface.py."""
        with self._cell_db.reader() as conn:
            moves = server_migrations.open_on_host(conn, host)
            rows = instances.get_many(conn, [*resize_backups, *{move['instance_uuid'] for move in moves}])
            generations = history.generations(conn, [uuid for uuid in resize_backups if uuid not in rows])
        generations |= {uuid: row['generation'] for uuid, row in rows.items()}
        for move in moves:
            row = rows.get(move['instance_uuid'])
            if row is None or row['task_state'] not in actions.STEP_OF_TASK:
                continue
            try:
                self.continue_move(context.on_behalf_of(move), row['uuid'])
            except exception.NovaException as error:
                LOG.warning('The move of server %s cannot continue yet: %s', row['uuid'], error)
        needed = {move['instance_uuid'] for move in moves if move['source_compute'] == host}
        living = {uuid for uuid in resize_backups if uuid in rows and rows[uuid]['host'] == host}
        # hide details of servers on other hosts
        return [{'instance': objects.Instance.from_row(rows[uuid]) if uuid in living else
                 objects.Instance(uuid=uuid, generation=generations[uuid]), 'restore': uuid in living}
                for uuid in resize_backups if uuid not in needed and uuid in generations]

    # ---- the destination ----

    def _seek(self, ctx: Context, row: InstancesRow, migration: MigrationsRow) -> None:
        """Choose and claim a destination, and send the first step to the destination."""
        uuid, arguments = row['uuid'], migration['arguments']
        spec = self._specs.of([uuid]).get(uuid)
        if spec is None:
            return
        try:
            selections = self._services.scheduler.select_move(
                ctx, spec=spec, migration_id=migration['id'], target=arguments.get('host'), force=False,
                ignore=[*arguments.get('ignored_hosts', ()), *arguments.get('tried_hosts', ())])
        except exception.Unavailable as error:
            self._services.retry_soon(error, uuid)
            return
        except exception.NovaException as error:
            LOG.info('No other host found for server %s: %s', uuid, error.message)
            self.move_failed(ctx, migration['id'], None, _UNPLACED,
                             arguments.get('refusal') or faults.fault(error))
            return
        if selections:
            with self._cell_db.reader() as conn:
                migration = server_migrations.get(conn, migration['id'])
            first = actions.GROW if grows(migration) else actions.PREPARE
            self._send_step(ctx, row, migration, *_step_of(first, migration))

    def move_refused(self, ctx: Context, migration_id: int, host: str, fault: faults.Fault) -> None:
        """Try the next destination after a refusal."""
        def write(conn: Connection) -> tuple[MigrationsRow, int] | None:
            migration = server_migrations.get(conn, migration_id, lock=True)
            if migration['status'] != 'pre-migrating' or migration['claimed_host'] != host:
                return None
            change = self._events.of(conn, ctx, migration['instance_uuid'], migration)
            tried = [*migration['arguments'].get('tried_hosts', ()), host]
            server_migrations.release(conn, migration_id)
            server_migrations.update(conn, migration_id, {
                'arguments': {**migration['arguments'], 'tried_hosts': tried, 'refusal': faults.stored(fault)}})
            instance_actions.add_event(conn, migration['instance_uuid'], 'compute_prep_resize', host=host,
                                       error=fault['message'], traceback=fault['details'])
            if change:
                change.record('resize', ERROR, instances.get(conn, migration['instance_uuid']), host, fault=fault)
            return migration, len(tried)
        found = self._cell_db.run(write)
        if found is None:
            return
        migration, attempts = found
        if migration['arguments'].get('host') or attempts >= self._conf.scheduler.max_attempts:
            self.move_failed(ctx, migration_id, host, _UNPLACED, fault)
        else:
            self.continue_move(ctx, migration['instance_uuid'])

    def move_accepted(self, ctx: Context, migration_id: int, host: str) -> None:
        """Send the step of the source after the destination has accepted the guest."""
        def write(conn: Connection) -> tuple[MigrationsRow, InstancesRow] | None:
            migration = server_migrations.get(conn, migration_id, lock=True)
            if server_migrations.update(conn, migration_id, {'status': 'migrating'}, {
                    'status': ['pre-migrating', 'migrating'], 'claimed_host': host, 'claims_swapped': False}):
                row = instances.get(conn, migration['instance_uuid'])
                if migration['status'] == 'pre-migrating':
                    change = self._events.of(conn, ctx, row['uuid'], migration)
                    instance_actions.add_event(conn, row['uuid'], 'compute_prep_resize', host=host)
                    if change:
                        change.record('resize_prep', END, row, host)
                return migration, row
            return None
        found = self._cell_db.run(write)
        if found is not None:
            migration, row = found
            self._send_step(ctx, row, migration, *_step_of(actions.SEND, migration))

    # ---- the server moves ----

    def move_sent(self, ctx: Context, migration_id: int, host: str, guest: JsonObject) -> None:
        """Set the destination as the server's host. The source has stopped the guest and kept its files."""
        def write(conn: Connection) -> tuple[InstancesRow | None, MigrationsRow]:
            migration = server_migrations.get(conn, migration_id)
            if migration['claims_swapped'] and migration['status'] == 'post-migrating':
                return instances.get(conn, migration['instance_uuid']), migration        # a repeated call
            if migration['status'] in _SENT:
                return None, migration
            change = self._events.of(conn, ctx, migration['instance_uuid'], migration)
            arguments = {**migration['arguments'], 'guest': guest}
            row = server_migrations.swap(
                conn, migration, forward=True, status='post-migrating', arguments=arguments,
                values={'task_state': states.RESIZE_MIGRATED},
                expect={'task_state': states.RESIZE_MIGRATING, 'host': host})
            instance_actions.add_event(conn, row['uuid'], 'compute_resize_instance', host=host)
            if change:
                change.record('resize', END, row, host)
            return row, server_migrations.get(conn, migration_id)
        row, migration = self._cell_db.run(write)
        if row is not None:
            self._send_step(ctx, row, migration, *_step_of(actions.FINISH, migration))

    def move_finished(self, ctx: Context, migration_id: int, host: str, power_state: int,
                      network_info: list[Row]) -> None:
        """Set the server to RESIZED, after the destination has created the guest. The owner must then confirm."""
        migration = self._move(migration_id)
        if grows(migration):
            self._grown(ctx, migration, host, power_state)
            return

        def write(conn: Connection) -> None:
            migration = server_migrations.get(conn, migration_id)
            if migration['status'] in _SENT:                        # a repeated call, perhaps after confirmation
                return
            arguments = {name: value for name, value in migration['arguments'].items() if name != 'guest'}
            change = self._events.of(conn, ctx, migration['instance_uuid'], migration)
            row = _end(conn, change, migration, 'compute_finish_resize', host, None, {
                'vm_state': states.RESIZED, 'power_state': power_state, 'network_info': network_info},
                {'task_state': states.RESIZE_FINISH, 'host': host})
            if change:
                change.record('resize_finish', END, row, host)
            server_migrations.update(conn, migration_id, {'status': 'finished', 'arguments': arguments})
        self._cell_db.run(write)

    def _grown(self, ctx: Context, migration: MigrationsRow, host: str, power_state: int) -> None:
        """End a resize of a running guest."""
        if migration['status'] in server_migrations.OVER:
            return                                              # a repeated call
        flavor = migration['new_flavor']
        self._settle_quota(migration['instance_uuid'], migration['new_flavor'])
        self._api_db.run(_note_flavor, migration['instance_uuid'], flavor)

        def write(conn: Connection) -> None:
            change = self._events.of(conn, ctx, migration['instance_uuid'], migration)
            row = _end(conn, change, migration, actions.GROW.frame.task_event, host, None, {
                'power_state': power_state, **server_migrations.flavor_values(flavor)},
                {'task_state': states.RESIZE_FINISH, 'host': host})
            if change:
                change.record('resize_finish', END, row, host)
            server_migrations.keep(conn, migration['id'])
        self._cell_db.run(write)

    def move_confirmed(self, ctx: Context, migration_id: int, host: str | None) -> None:
        """End the move after the source has removed its copy, or is down."""
        migration = self._move(migration_id)
        if migration['status'] != 'confirming':
            return
        self._settle_quota(migration['instance_uuid'], migration['new_flavor'])
        self._api_db.run(_note_flavor, migration['instance_uuid'], migration['new_flavor'])

        def write(conn: Connection) -> None:
            change = self._events.of(conn, ctx, migration['instance_uuid'], migration)
            off = instances.get(conn, migration['instance_uuid'])['power_state'] == states.SHUTDOWN
            row = _end(conn, change, migration, 'compute_confirm_resize', host, None, {
                'vm_state': states.STOPPED if off else states.ACTIVE}, {'task_state': states.RESIZE_CONFIRMING})
            if change:
                change.record('resize_confirm', END, row, host)
            server_migrations.release(conn, migration_id, status='confirmed')
        self._cell_db.run(write)

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
            self.continue_move(ctx, move['instance_uuid'])
            confirmed += 1
        return confirmed

    def reverted_guest_removed(self, ctx: Context, migration_id: int, host: str) -> None:
        """Set the source as the server's host, after the destination has removed the guest."""
        if self._move(migration_id)['status'] == 'reverted':
            return                                              # a repeated call
        row, migration = self._cell_db.run(self._swap_back, migration_id, None)
        self._send_step(ctx, row, migration, *_step_of(actions.TAKE_BACK, migration))

    def _swap_back(self, conn: Connection, migration_id: int,
                   fault: faults.Fault | None) -> tuple[InstancesRow, MigrationsRow]:
        migration = server_migrations.get(conn, migration_id)
        if not migration['claims_swapped'] and migration['status'] == 'reverting':
            return instances.get(conn, migration['instance_uuid']), migration        # a repeated call
        arguments = {name: value for name, value in migration['arguments'].items() if name != 'guest'}
        if fault is not None:
            arguments['fault'] = faults.stored(fault)
        row = server_migrations.swap(
            conn, migration, forward=False, status='reverting', arguments=arguments,
            values={'task_state': states.RESIZE_REVERTING},
            expect={'task_state': [states.RESIZE_REVERTING, states.RESIZE_MIGRATED, states.RESIZE_FINISH],
                    'host': migration['dest_compute']})
        return row, server_migrations.get(conn, migration_id)

    def move_reverted(self, ctx: Context, migration_id: int, host: str, power_state: int,
                      network_info: list[Row]) -> None:
        """End a move after the source has restored the guest, for a revert or after a failure of the destination."""
        migration = self._move(migration_id)
        if migration['status'] != 'reverting':
            return
        self._settle_quota(migration['instance_uuid'], migration['old_flavor'])
        fault = migration['arguments'].get('fault')

        def write(conn: Connection) -> None:
            change = self._events.of(conn, ctx, migration['instance_uuid'], migration)
            row = _end(conn, change, migration, 'compute_finish_revert_resize', host, fault, {
                'vm_state': migration['arguments']['old_vm_state'], 'power_state': power_state,
                'network_info': network_info}, {'task_state': states.RESIZE_REVERTING, 'host': host})
            if change:
                change.states(row)
                if not fault:            # failures of the destination are already recorded
                    change.record('resize_revert', END, row, host)
            server_migrations.release(conn, migration_id, status='error' if fault else 'reverted')
        self._cell_db.run(write)

    # ---- failures ----

    def move_failed(self, ctx: Context, migration_id: int, host: str | None, event: str, fault: faults.Fault) -> None:
        """Roll back a move after a failed step. The host of this step has undone the step, or never finished it."""
        migration = self._move(migration_id)
        with self._cell_db.reader() as conn:
            row = instances.get_many(conn, [migration['instance_uuid']]).get(migration['instance_uuid'])
        if row is None or row['task_state'] not in actions.STEP_OF_TASK:
            return
        if migration['status'] in server_migrations.OVER:
            return
        task_state = row['task_state']
        try:
            if task_state in (states.RESIZE_MIGRATED, states.RESIZE_FINISH) and not grows(migration):
                self._return_move(ctx, row, migration_id, host, event, fault)
            else:
                self._end_move(ctx, row, migration, host, event, fault)
        except exception.InstanceChanged:
            LOG.info('Server %s was deleted or changed while its move failed.', row['uuid'])
            self._settle_quota(row['uuid'])

    def _return_move(self, ctx: Context, moved: InstancesRow, migration_id: int, host: str | None, event: str,
                     fault: faults.Fault) -> None:
        """Return the guest to the source after the destination failed."""
        spec = self._events.spec(moved['uuid']) if event == _UNPLACED else None

        def write(conn: Connection) -> tuple[InstancesRow, MigrationsRow]:
            change = self._events.of(conn, ctx, moved['uuid'])
            row, migration = self._swap_back(conn, migration_id, fault)
            instance_actions.add_event(conn, row['uuid'], event, host=host, error=fault['message'],
                                       traceback=fault['details'])
            if change:
                _record_failure(change, row, event, host, fault, spec)
            return row, migration
        row, migration = self._cell_db.run(write)
        self._send_step(ctx, row, migration, *_step_of(actions.TAKE_BACK, migration))

    def _end_move(self, ctx: Context, row: InstancesRow, migration: MigrationsRow, host: str | None, event: str,
                  fault: faults.Fault) -> None:
        """End a failed move that needs no rollback, in one transaction.

        A failed confirmation or revert can be requested again. If the source cannot start the guest
        again, the server is set to ERROR; a hard reboot may help.
        """
        task_state = row['task_state']
        over: str | None = 'error'
        values = {}
        if task_state == states.RESIZE_REVERTING and not migration['claims_swapped']:
            values = {'vm_state': states.ERROR}
        elif task_state in (states.RESIZE_CONFIRMING, states.RESIZE_REVERTING):
            over = None
        if over:
            self._settle_quota(row['uuid'], migration['old_flavor'])
        spec = self._events.spec(row['uuid']) if event == _UNPLACED else None

        def write(conn: Connection) -> None:
            change = self._events.of(conn, ctx, row['uuid'], migration)
            ended = _end(conn, change, migration, event, host, fault, values,
                         {'task_state': task_state, 'host': row['host']})
            if change:
                _record_failure(change, ended, event, host, fault, spec)
            if over:
                server_migrations.release(conn, migration['id'], status=over)
            else:
                server_migrations.update(conn, migration['id'], {'status': 'finished'})
        self._cell_db.run(write)

    def end_all(self, conn: Connection, uuid: str) -> set[str]:
        """Release the resources claimed by moves of a deleted server.

        :param conn: connection of the caller's transaction
        :returns: the other hosts that may have files of the server
        """
        hosts: set[str] = set()
        for move in server_migrations.open_of(conn, uuid):
            hosts.update(host for host in (move['source_compute'], move['dest_compute']) if host is not None)
            server_migrations.release(conn, move['id'],
                                      status='confirmed' if move['status'] == 'finished' else 'error')
        return hosts

    def drop_on(self, ctx: Context, host: str, uuid: str) -> None:
        """Remove a server's files from a host. A host that is down removes them when it is back."""
        try:
            self._services.compute.discard_migrated_instance(
                ctx, server=host, instance=objects.Instance(uuid=uuid, host=None))
        except exception.Unavailable as error:
            LOG.info('Host %s removes its files of server %s when it is back: %s', host, uuid, error.message)

    # ---- steps and rows ----

    def _move(self, migration_id: int) -> MigrationsRow:
        with self._cell_db.reader() as conn:
            return server_migrations.get(conn, migration_id)

    def _send_step(self, ctx: Context, row: InstancesRow, migration: MigrationsRow, method: str, host: str) -> None:
        if method == 'prep_resize':
            self._events.publish(ctx, 'resize_prep', START, row, host, migration)
        arguments = {'instance': objects.Instance.from_row(row), 'migration': objects.Migration.from_row(migration)}
        if method == 'finish_resize':
            arguments['spec'] = self._specs.get_request_spec(ctx, row['uuid'])
        if method == 'confirm_resize' and not self._services.host_is_up(host):
            # do not wait for the host: it removes its copy when it is back
            self.move_confirmed(ctx, migration['id'], None)
            return
        if method == 'prep_resize' and not self._services.host_is_up(host):
            # send nothing: the broker would keep the message until the host is up again
            self.move_refused(ctx, migration['id'], host, faults.fault(exception.HostUnavailable(host=host)))
            return
        try:
            getattr(self._services.compute, method)(ctx, server=host, **arguments)
        except exception.Unavailable as error:
            if method == 'prep_resize':
                self.move_refused(ctx, migration['id'], host, faults.fault(error))
            else:
                self._services.retry_soon(error, row['uuid'])

    def _settle_quota(self, uuid: str, flavor: Row | None = None) -> None:
        """Set the quota usage of a server to this flavor; None: to the maximum of the server and its moves.

        Call it before the move ends: later it could overwrite the quota that another request has reserved.
        """
        if flavor is not None:
            self._api_db.run(quotas.set_size, uuid, flavor['vcpus'], flavor['memory_mb'])
            return
        with self._cell_db.reader() as conn:
            sizes = server_migrations.needs(conn, uuid)
        if sizes is not None:
            self._api_db.run(quotas.set_size, uuid, *sizes)


def _step_of(step: actions.Step, migration: Row) -> tuple[str, str]:
    return step.method, migration[step.end]


def _note_flavor(conn: Connection, uuid: str, flavor: Row) -> None:
    """Store the flavor for later placements and builds of the server."""
    spec = request_specs.get_many(conn, [uuid]).get(uuid)
    if spec is not None:
        spec.flavor = flavor
        request_specs.update(conn, spec)


def _record_failure(change: Change, row: InstancesRow, event: str, host: str | None, fault: faults.Fault,
                    spec: objects.RequestSpec | None) -> None:
    if event == _UNPLACED:
        change.no_host('migrate_server', row, fault, spec)
    else:
        change.failure('resize', row, host, fault)


def _end(conn: Connection, change: Change | None, migration: MigrationsRow, event: str, host: str | None,
         fault: faults.Fault | None, values: dict[str, typing.Any], expect: dict[str, typing.Any]) -> InstancesRow:
    """Finish an action: update the server, record event and action. Return the server's row if ``change`` is set."""
    uuid = migration['instance_uuid']
    values = {'task_state': None, **values}
    if fault is not None:
        values['fault'] = faults.stored(fault)
    row = instances.update(conn, uuid, values, expect, returning=bool(change))
    instance_actions.finish(conn, uuid, event, host=host, error=fault['message'] if fault else None,
                            traceback=fault['details'] if fault else None, background=False)
    return row
