"""Events of servers: a conductor records each one in the transaction that changes the server.

    def write(conn):
        change = self._events.of(conn, ctx, uuid)
        row = instances.update(conn, uuid, values, expect, returning=bool(change))
        if change:
            change.record('pause', END, row, host)

Conductors write the begin and the end of every task, and record its events in the same transactions. An action needs
no code for its events: its row in nova/actions.py names them. The conductor that ends the task of a dead host records
the event. A transaction records no event if it is rolled back, repeats an earlier call, or is too late because the
server has changed. Without notifications ``change`` is None and no rows are read.
"""
import collections.abc
import contextlib
import typing

from oslo_db import exception as db_exc

from nova import actions
from nova import context
from nova import exception
from nova import notify
from nova import states
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Connection
from nova.conductor.cell_services import Context
from nova.db.servers import event_facts
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import request_specs
from nova.db.tables.rows import InstanceActionsRow, InstancesRow
from nova.db.tables.rows import MigrationsRow
from nova.notify import events
from nova.notify import payloads
from nova.notify.events import END
from nova.notify.events import ERROR
from nova.notify.events import START
from nova.objects.faults import Fault
from nova import objects


class Change:
    """Records the events of a change of a server in the transaction of the change.

    ctx     context of the request; for a message from a host, the context stored with the action of this request
    before  the server's row before the change, or None if there are no notifications of state changes
    """

    def __init__(self, notifier: notify.Notifier, conn: Connection, ctx: Context | None, uuid: str,
                 migration: MigrationsRow | None) -> None:
        self._notifier, self._conn, self._uuid = notifier, conn, uuid
        self._migration = migration
        self._actions = event_facts.open_actions(conn, uuid)
        self.before: InstancesRow | None = None
        if self._notifier.states:
            instances.lock(conn, uuid)
            self.before = instances.get_many(conn, [uuid]).get(uuid)
        self.ctx = self._requester(ctx)
        self._states_recorded = False

    def _requester(self, ctx: Context | None) -> Context:
        if ctx is None:
            return context.on_behalf_of(self._actions[-1]) if self._actions else context.admin_context()
        if ctx.sender_host is None:
            return ctx
        for action in self._actions:
            if action['request_id'] == ctx.request_id:
                return context.on_behalf_of(action)
        try:
            return context.on_behalf_of(instance_actions.get(self._conn, self._uuid, ctx.request_id))
        except exception.InstanceActionNotFound:             # no request: the host initiated the change
            return ctx

    @property
    def main_action(self) -> InstanceActionsRow | None:
        """The open action that is not a background action."""
        found = [action for action in self._actions if action['action'] not in actions.BACKGROUND]
        return found[-1] if found else None

    @property
    def background_action(self) -> InstanceActionsRow | None:
        """The open background action of the request."""
        found = [action for action in self._actions
                 if action['action'] in actions.BACKGROUND and action['request_id'] == self.ctx.request_id]
        return found[-1] if found else None

    def on_host(self) -> bool:
        """Return whether a host has a task on the server."""
        action = self.main_action
        return action is not None and (action['owner'] or '').startswith('compute:')

    # ---- events

    def states(self, row: InstancesRow) -> None:
        """Record a state change of the server, once in a transaction and only if such notifications are configured."""
        if self.before is not None and not self._states_recorded:
            with _harmless(self._notifier, 'instance.update'):
                self._states_recorded = self._notifier.record_states(self._conn, self.ctx, self.before, row,
                                                                     **self.about())

    def record(self, name: str, phase: str | None, row: InstancesRow, host: str | None = None, by: str | None = None,
               **about: object) -> None:
        """Record the state change of the server, then the event.

        :param name: name of a row of notify.events, without ``instance.``
        :param row: columns of the server at the end of the transaction
        :param host: host in the event
        :param by: service that the event names as its publisher; None: the event's default
        """
        self.states(row)
        action = self.main_action
        with _harmless(self._notifier, f'instance.{name}'):
            self._notifier.record(self._conn, self.ctx, 'instance.' + name, phase, row, host, by,
                                  action=action and action['action'], **{**self.about(), **about})

    def failure(self, name: str | None, row: InstancesRow, host: str | None, fault: Fault, **about: object) -> None:
        """Record a failed task of a host.

        :param name: name of the task's event, or None if the task has none
        """
        if name is not None and ERROR in events.EVENTS['instance.' + name].phases:
            self.record(name, ERROR, row, host, None, fault=fault, **about)
        self.states(row)
        with _harmless(self._notifier, 'compute.exception'):
            self._notifier.record(self._conn, self.ctx, 'compute.exception', ERROR, payloads.failure(fault) or {}, host,
                                  server_uuid=self._uuid)

    def no_host(self, task: str, row: InstancesRow, fault: Fault, spec: objects.RequestSpec | None) -> None:
        """Record that no host was found for a task: 'build_instances', 'migrate_server' or 'rebuild_server'.

        :param spec: result of ``Events.spec`` before the transaction
        """
        self.states(row)
        with _harmless(self._notifier, f'compute_task.{task}'):
            self._notifier.record(self._conn, self.ctx, 'compute_task.' + task, ERROR, {'uuid': self._uuid},
                                  fault=fault, state=row['vm_state'], method=task, spec=spec and spec.as_dict())

    def about(self) -> dict[str, typing.Any]:
        """Return additional values for the payloads of the server's events."""
        action = self.main_action
        about = {'image_id': (action and action['arguments'] or {}).get('image_id'),
                 **event_facts.attached(self._conn, self._uuid, self._notifier)}
        if self._migration is not None:
            about['new_flavor'] = self._migration['new_flavor']
        return about

    # ---- tasks of hosts

    def task_begun(self, row: InstancesRow, event: str, owner: str) -> None:
        """Record that a host has begun a task.

        :param event: name of the task's event
        :param owner: 'compute:' followed by the host name
        """
        name, host = actions.NOTIFICATION_OF_TASK.get(event), owner.partition(':')[2]
        self.states(row)
        if name is not None:
            self.record(name, START, row, host)
        if name == 'delete':
            self.record('shutdown', START, row, host)

    def stepped(self, row: InstancesRow) -> None:
        """Record a new task state. If an offload follows a shelve, record the shelve's end and the offload's start."""
        self.states(row)
        if row['task_state'] == states.SHELVING_OFFLOADING:
            self.record('shelve', END, row, row['host'])
            self.record('shelve_offload', START, row, row['host'])

    def task_ended(self, row: InstancesRow, event: str, host: str | None, fault: Fault | None) -> None:
        """Record the end of a task, or its failure if there is a ``fault``."""
        self.states(row)
        if event == 'conductor_unshelve_instance':          # not a failure of a host: no host was found
            return
        name = actions.NOTIFICATION_OF_TASK.get(event)
        if event == 'conductor_reconcile':
            name = _notification(self.main_action)
        if fault:
            self.failure(name, row, host, fault)
        elif name is not None:
            self.record(name, END, row, host)

    def background_begun(self, row: InstancesRow, host: str) -> None:
        """Record that a host has begun the background action of the request."""
        action = self.background_action
        name = _notification(action)
        if name is not None:
            self.record(name, START, row, host, **_arguments(action))

    def background_ended(self, row: InstancesRow, host: str, error: str | None, traceback: str | None) -> None:
        """Record the end of the background action of the request.

        :param error: message of a failure, or None
        """
        action = self.background_action
        name = _notification(action)
        self.states(row)
        if name is None:
            return
        if error is None:
            self.record(name, END, row, host, **_arguments(action))
        else:
            self.failure(name, row, host, {'code': 500, 'message': error,
                                           'details': f'NovaException: {error}\n{traceback or ""}'},
                         **_arguments(action))


def _notification(action: InstanceActionsRow | None) -> str | None:
    """Return the event type of the notifications of an open action, or None."""
    row = actions.OF_RECORD.get(action['action'] if action else '')
    return None if row is None else row.events.notification


def _arguments(action: InstanceActionsRow | None) -> dict[str, typing.Any]:
    """Return the part of an action's arguments that payloads contain."""
    arguments = action and action['arguments'] or {}
    return {**{name: arguments[name] for name in ('new_volume_id', 'share_id') if name in arguments},
            **arguments.get(instance_actions.EVENT_FACTS, {})}


@contextlib.contextmanager
def _harmless(notifier: notify.Notifier, what: str) -> collections.abc.Iterator[None]:
    """Ignore failures to record an event. Database errors propagate to the caller that owns the transaction."""
    try:
        yield
    except db_exc.DBError:
        raise
    except Exception:
        notifier.failed(what)


class Events:
    """Records changes of servers as events, if notifications are configured."""

    def __init__(self, services: CellServices) -> None:
        self._notifier, self._api_db, self._cell_db = services.notifier, services.api_db, services.cell_db

    def of(self, conn: Connection, ctx: Context | None, uuid: str,
           migration: MigrationsRow | None = None) -> Change | None:
        """Return the Change with which a transaction records events of a server, or None if notifications are off.

        Call it in the transaction before the server or its actions are changed.

        :param migration: row of the server's move
        """
        notifier = self._notifier
        if not notifier.on:
            return None
        with _harmless(notifier, f'a change of server {uuid}'):
            return Change(notifier, conn, ctx, uuid, migration)
        return None

    def spec(self, uuid: str) -> objects.RequestSpec | None:
        """Read a server's request spec for an event; None if notifications are off or the server has no spec.

        Call it before the transaction that records the event. Otherwise that transaction would hold its locks in the
        cell until the API database answers.
        """
        if not self._notifier.on:
            return None
        try:
            with self._api_db.reader() as conn:
                found = request_specs.get_many(conn, [uuid]).get(uuid)
        except Exception:
            self._notifier.failed(f'request spec of server {uuid}')
            return None
        return found

    def publish(self, ctx: Context | None, name: str, phase: str | None, row: InstancesRow, host: str | None,
                migration: MigrationsRow | None = None) -> None:
        """Publish an event outside of a transaction, for example before a call to a host.

        :param name: name of a row of notify.events, without ``instance.``
        """
        notifier = self._notifier
        if not notifier.on:
            return
        try:
            with self._cell_db.reader() as conn:
                change = Change(notifier, conn, ctx, row['uuid'], migration)
                notifier.publish(change.ctx, 'instance.' + name, phase, row, host, **change.about())
        except Exception:
            notifier.failed(f'instance.{name} of server {row["uuid"]}')

    def notify(self, ctx: Context, instance_uuid: str, event: str, phase: str, host: str) -> None:
        """See interface.py."""
        if self._notifier.on and f'instance.{event}' in events.EVENTS:
            with self._cell_db.reader() as conn:
                row = event_facts.row(conn, instance_uuid)
            if row is not None:
                self.publish(ctx, event, phase, row, host)
