"""Beginning of an action on a server: a conditional UPDATE of the server's row, and an INSERT of the open action."""
from typing import Any, NoReturn

from sqlalchemy import Connection

from nova import actions
from nova import exception
from nova.context import RequestContext
from nova.db.servers import event_facts
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import shares
from nova.db.tables.rows import InstancesRow
from nova.db.types import ColumnValues
from nova.json_types import JsonDocument
from nova.objects import pci


def begin(conn: Connection, ctx: RequestContext, uuid: str, action: actions.Action,
          arguments: JsonDocument | None = None, values: ColumnValues | None = None,
          admin: bool | None = False) -> InstancesRow:
    """Begin ``action`` (a row of actions.ACTIONS) on a server if its state and lock allow it.

    :param arguments: arguments of the compute method except the instance; they are stored for a repetition
    :param values: columns to set with the task state
    :param admin: whether the caller may act on a locked server
    :returns: the new row of the instance
    :raises InstanceNotFound, InstanceIsLocked, InstanceNotReady, InstanceInvalidState: nothing was changed
    :raises Conflict: the server has shares, an equal action is in progress, or a port with a device is being attached
        or detached; the caller must roll back
    """
    conditions = action.conditions
    expect: dict[str, Any] = {column: allowed for column, allowed in (
        ('vm_state', conditions.vm_states), ('task_state', conditions.task_states)) if allowed is not actions.ANY}
    if conditions.locked and not admin:
        expect['locked'] = False
    if action.needs_host:
        expect['host'] = instances.SET
    values = dict(values or {})
    if action.running is not None:
        values['task_state'] = action.running
    observer = ctx.observer
    before = instances.get(conn, uuid) if observer is not None and observer.states else None
    row = instances.update_where(conn, uuid, values, expect)
    if row is None:
        _refuse(instances.get(conn, uuid), action, admin)
    if conditions.refused_with_shares and shares.by_instance(conn, uuid):
        raise exception.Conflict(f'This server has shares (openstack server share list), so {action.record} is '
                                 f'refused: {conditions.refused_with_shares}.')
    if conditions.one_at_a_time and instance_actions.is_open(conn, uuid, action.record):
        raise exception.Conflict(f'The action {action.record} of this server is in progress. Retry when it has ended.')
    if conditions.claims_devices:
        _refuse_with_ports_under_way(conn, row, action)
    instance_actions.insert(conn, ctx, [uuid], action.record, arguments=arguments,
                            finished=action.running is None and not action.background)
    if observer is not None:
        event_facts.record_begun(conn, ctx, action, before, row)
    return row


def _refuse_with_ports_under_way(conn: Connection, row: InstancesRow, action: actions.Action) -> None:
    """Refuse an action that claims devices on another host while a port with a device is being attached or detached.

    :raises Conflict: there is such a port; if it were removed later, its new claim would have no owner
    """
    needing = pci.of_ports(row['flavor'])
    if needing and needing.keys() & set(instance_actions.ports_under_way(conn, row['uuid'])):
        raise exception.Conflict('A port of this server that uses a device of the host is being attached or detached. '
                                 'Retry when that has ended.')


def cancel(conn: Connection, ctx: RequestContext, uuid: str, action: actions.Action) -> None:
    """Undo ``begin`` of this request. Call this function only if no service got a message about the action."""
    instances.set_where(conn, uuid, {'task_state': None}, {'task_state': action.running})
    instance_actions.forget(conn, uuid, ctx.request_id)


def check(row: InstancesRow, action: actions.Action, admin: bool | None = False) -> None:
    """Check whether ``action`` could begin on a server with this row; ``begin`` checks again.

    :raises InstanceIsLocked, InstanceNotReady, InstanceInvalidState:
    """
    conditions = action.conditions
    locked = conditions.locked and row['locked'] and not admin
    if (locked or not conditions.allows(row['vm_state'], row['task_state'])
            or action.needs_host and row['host'] is None):
        _refuse(row, action, admin)


def check_states(row: InstancesRow, action: actions.Action, name: str | None = None) -> None:
    """Check whether the states of a server allow ``action``; ``begin`` checks again.

    :param name: name of the operation in the error; default: that of the action
    :raises InstanceInvalidState:
    """
    for attr, state, allowed in (('vm_state', row['vm_state'], action.conditions.vm_states),
                                 ('task_state', row['task_state'], action.conditions.task_states)):
        if allowed is not actions.ANY and state not in allowed:
            raise exception.InstanceInvalidState(attr=attr, instance_id=row['uuid'], method=name or action.record,
                                                 state=state)


def _refuse(row: InstancesRow, action: actions.Action, admin: bool | None) -> NoReturn:
    """Raise the exception that says why ``action`` cannot begin on this row."""
    uuid = row['uuid']
    if action.conditions.locked and row['locked'] and not admin:
        raise exception.InstanceIsLocked(instance_id=uuid)
    check_states(row, action)
    if action.needs_host and row['host'] is None:
        raise exception.InstanceNotReady(instance_id=uuid)
    raise exception.InstanceChanged(instance_id=uuid)  # the row has changed since the UPDATE and now allows the action
