"""Instance actions and their events. An open main action has set the task state; background actions set none."""
from collections.abc import Collection
import datetime
import functools
from collections.abc import Sequence
from typing import Any, cast

import sqlalchemy as sa

from nova import actions
from nova import exception
from nova.json_types import JsonDocument
from nova.json_types import JsonObject
from nova.objects.flavor import Flavor
from nova import states
from nova import utils
from nova.context import RequestContext
from nova.db import engine
from nova.db import statements
from nova.db import types
from nova.db.tables.cell import instance_action_events
from nova.db.tables.cell import instance_actions
from nova.db.tables.cell import instances
from nova.db.tables.rows import InstanceActionEventsRow, InstanceActionsRow
from nova.runtime import metrics

DEADLINE_S = 600        # time without progress after which a reconciler handles a task
EVENT_FACTS = 'event_facts'          # key in an action's arguments; its {name: value} is only for notifications
START_TIMEOUT_S = 120         # time without an owner after which the action's message is treated as lost


def insert(conn: sa.Connection, ctx: RequestContext, uuids: list[str], action: str, *,
           arguments: JsonDocument | None = None, deadline_s: int = START_TIMEOUT_S, owner: str | None = None,
           finished: bool = False, message: str | None = None,
           arguments_of_each: Sequence[JsonDocument] | None = None) -> None:
    """Insert an action on servers; it is open (in progress) unless ``finished``.

    :param arguments: arguments, which must not contain plain passwords (runtime/encrypted_passwords.py)
    :param arguments_of_each: arguments for each uuid instead of ``arguments``
    """
    now = utils.utcnow()
    of_each: Sequence[JsonDocument | None] = [arguments] * len(uuids)
    if arguments_of_each is not None:
        of_each = arguments_of_each
    conn.execute(statements.insert(instance_actions), [dict(
        instance_uuid=uuid, action=action, request_id=ctx.request_id, project_id=ctx.project_id,
        user_id=ctx.user_id, started_at=now, updated_at=now, finished_at=now if finished else None,
        owner=owner, deadline=None if finished else now + datetime.timedelta(seconds=deadline_s),
        arguments=own, message=message) for uuid, own in zip(uuids, of_each, strict=True)])


_MAIN = sa.not_(statements.one_of(instance_actions.c.action, actions.BACKGROUND))
_OPEN = sa.and_(instance_actions.c.instance_uuid == sa.bindparam('of_uuid'), instance_actions.c.finished_at.is_(None))
_OF_REQUEST = instance_actions.c.request_id == sa.bindparam('of_request')


def _which(of_request: bool = False, background: bool = True) -> sa.ColumnElement[bool]:
    """Return the condition for open actions of a server; optionally only of one request, or only main actions."""
    found = _OPEN & _OF_REQUEST if of_request else _OPEN
    return found if background else found & _MAIN


def _of(uuid: str, request_id: str | None = None) -> dict[str, str]:
    """Return the values of the bound parameters of ``_which``."""
    return {'of_uuid': uuid} if request_id is None else {'of_uuid': uuid, 'of_request': request_id}


@functools.cache
def _update_of(of_request: bool, background: bool) -> sa.Update:
    return sa.update(instance_actions).where(_which(of_request, background))


def take(conn: sa.Connection, uuid: str, owner: str, deadline_s: float = DEADLINE_S,
         request_id: str | None = None) -> bool:
    """Set an open action's owner and the deadline for its recovery by another service; return False if none is open.

    :param request_id: request id of a background action, or None for the main action of the server
    """
    now = utils.utcnow()
    one = request_id is not None
    return bool(conn.execute(_update_of(one, one), {
        'owner': owner, 'updated_at': now, 'deadline': now + datetime.timedelta(seconds=deadline_s),
        **_of(uuid, request_id)}).rowcount)


@functools.cache
def _event_of(of_request: bool, background: bool, named: bool) -> sa.Insert:
    """Return an INSERT that adds an event to each action of ``_which``; if ``named``, only to actions of one name."""
    columns = {'action_id': instance_actions.c.id, 'started_at': instance_actions.c.updated_at, **{
        name: sa.bindparam('event_' + name, type_=instance_action_events.c[name].type)
        for name in ('event', 'finished_at', 'result', 'details', 'traceback', 'host')}}
    which = _which(of_request, background)
    if named:
        which &= instance_actions.c.action == sa.bindparam('of_action')
    return sa.insert(instance_action_events).from_select(
        list(columns), sa.select(*columns.values()).where(which), include_defaults=False)


def _event(event: str, now: datetime.datetime, host: str | None, error: str | None,
           traceback: str | None) -> dict[str, Any]:
    """Return the values of the event columns for the INSERT of ``_event_of``."""
    return {'event_event': event, 'event_finished_at': now, 'event_host': host, 'event_details': error,
            'event_result': 'Success' if error is None else 'Error', 'event_traceback': traceback}


@functools.cache
def _finish(of_request: bool, background: bool, named: bool, failed: bool) -> sa.Update:
    message: sa.ColumnElement[str | None] = sa.literal('Error') if failed else instance_actions.c.message
    if named:
        message = sa.case((instance_actions.c.action == sa.bindparam('of_action'), message), else_=sa.literal('Error'))
    return _update_of(of_request, background).values(message=message)


def finish(conn: sa.Connection, uuid: str, event: str | None = None, *, host: str | None = None,
           error: str | None = None, traceback: str | None = None, action: str | None = None,
           request_id: str | None = None, background: bool = True) -> None:
    """Close the open actions of a server, with an event for each if ``event`` is given.

    :param error: sentence for the user if the action failed
    :param traceback: traceback for administrators
    :param action: name of the action with this result; the other open actions are marked as failed
    :param request_id: only the action of this request
    :param background: whether to include background actions
    """
    now = utils.utcnow()
    which = (request_id is not None, background, action is not None)
    of = _of(uuid, request_id) if action is None else {**_of(uuid, request_id), 'of_action': action}
    if event:
        conn.execute(_event_of(*which), {**_event(event, now, host, error, traceback), **of})
    ended = conn.execute(_finish(*which, error is not None), {
        'finished_at': now, 'updated_at': now, 'deadline': None,
        'arguments': None, **of}).rowcount      # a closed action is not repeated, so it needs no arguments
    if ended:
        counter = metrics.ACTIONS_ENDED.labels(event or 'none', 'success' if error is None else 'error')
        engine.after_commit(conn, functools.partial(counter.inc, ended))


def forget(conn: sa.Connection, uuid: str, request_id: str, *, finished: bool = False) -> None:
    """Delete the open action of a refused request.

    :param finished: also an action that was inserted as finished
    """
    which = instance_actions.c.instance_uuid == sa.bindparam('of_uuid') if finished else _OPEN
    conn.execute(sa.delete(instance_actions).where(which, _OF_REQUEST), _of(uuid, request_id))


def add_event(conn: sa.Connection, uuid: str, event: str, *, host: str | None = None, error: str | None = None,
              traceback: str | None = None) -> None:
    """Add an event for a finished step to the open actions of a server."""
    conn.execute(_event_of(False, True, False), {
        **_event(event, utils.utcnow(), host, error, traceback), **_of(uuid)})


_LAST_EVENT = sa.select(*[instance_action_events.c[name] for name in ('event', 'host', 'result')]).join(
    instance_actions, instance_actions.c.id == instance_action_events.c.action_id).where(
    instance_actions.c.instance_uuid == sa.bindparam('of_uuid'), _OF_REQUEST).order_by(
    instance_action_events.c.id.desc()).limit(1)


def was_last(conn: sa.Connection, uuid: str, request_id: str, event: str, host: str | None,
             failed: bool = False) -> bool:
    """Tell whether the last event of a request on a server has this name, host and result."""
    found = conn.execute(_LAST_EVENT, _of(uuid, request_id)).first()
    return found is not None and tuple(found) == (event, host, 'Error' if failed else 'Success')


_OWNED = sa.select(instance_actions.c.id).where(_OPEN & _MAIN, instance_actions.c.owner == sa.bindparam('of_owner'))


def owns(conn: sa.Connection, uuid: str, owner: str) -> bool:
    """Tell whether this service (see ``take``) is the owner of an open main action of a server."""
    return conn.execute(_OWNED, {'of_uuid': uuid, 'of_owner': owner}).first() is not None


def by_instance(conn: sa.Connection, uuid: str, *, limit: int | None = None, marker: str | None = None,
                changes_since: datetime.datetime | None = None,
                changes_before: datetime.datetime | None = None) -> list[InstanceActionsRow]:
    """Return the actions of a server, newest first. The server may be deleted.

    :param marker: request id of the last action of the previous page
    :raises InstanceActionNotFound: the marker does not exist
    """
    table = instance_actions
    statement = sa.select(table).where(table.c.instance_uuid == uuid)
    if marker is not None:
        last = get(conn, uuid, marker)
        statement = statement.where(sa.tuple_(table.c.started_at, table.c.id)
                                    < sa.tuple_(sa.literal(last['started_at'], sa.DateTime), last['id']))
    if changes_since is not None:
        statement = statement.where(table.c.updated_at >= changes_since)
    if changes_before is not None:
        statement = statement.where(table.c.updated_at <= utils.end_of_second(changes_before))
    statement = statement.order_by(table.c.started_at.desc(), table.c.id.desc())
    if limit is not None:
        statement = statement.limit(limit)
    return statements.dicts(conn.execute(statement))


def get(conn: sa.Connection, uuid: str, request_id: str) -> InstanceActionsRow:
    """Return the action of a request.

    :raises InstanceActionNotFound: it does not exist
    """
    table = instance_actions
    statement = (sa.select(table).where(table.c.instance_uuid == uuid, table.c.request_id == request_id)
                 .order_by(table.c.id.desc()))
    row = conn.execute(statement).mappings().first()
    if row is None:
        raise exception.InstanceActionNotFound(request_id=request_id, instance_id=uuid)
    return cast('InstanceActionsRow', statements.to_dict(row))


def events(conn: sa.Connection, action_id: int) -> list[InstanceActionEventsRow]:
    """Return the events of an action, newest first."""
    table = instance_action_events
    statement = (sa.select(table).where(table.c.action_id == action_id)
                 .order_by(table.c.started_at.desc(), table.c.id.desc()))
    return statements.dicts(conn.execute(statement))


def set_arguments(conn: sa.Connection, uuid: str, arguments: JsonDocument) -> None:
    """Set the arguments with which a server's main action is repeated."""
    conn.execute(_update_of(False, False), {'arguments': arguments, **_of(uuid)})


_OPEN_OF_MANY = sa.select(*(instance_actions.c[name] for name in (
    'instance_uuid', 'action', 'arguments', 'request_id', 'project_id', 'user_id'))).where(
    instance_actions.c.instance_uuid.in_(sa.bindparam('uuids', expanding=True)),
    instance_actions.c.finished_at.is_(None), _MAIN).order_by(instance_actions.c.id)


def open_of_many(conn: sa.Connection, uuids: list[str]) -> dict[str, sa.RowMapping]:
    """Return {instance uuid: newest open main action}, with 'action', 'arguments' and the ids of the request."""
    return {row['instance_uuid']: row for row in conn.execute(_OPEN_OF_MANY, {'uuids': list(uuids)}).mappings()}


def arguments_of_open(conn: sa.Connection, uuids: list[str]) -> dict[str, dict[str, Any] | None]:
    """Return {instance uuid: arguments} of the newest open main actions."""
    return {uuid: row['arguments'] for uuid, row in open_of_many(conn, uuids).items()}


_FLAVORS = sa.select(instances.c.uuid, instances.c.flavor, instance_actions.c.arguments).join_from(
    instances, instance_actions, sa.and_(instance_actions.c.instance_uuid == instances.c.uuid,
                                         instance_actions.c.finished_at.is_(None), _MAIN), isouter=True).where(
    instances.c.uuid.in_(sa.bindparam('uuids', expanding=True))).order_by(instance_actions.c.id)


def flavors_and_arguments(conn: sa.Connection, uuids: list[str]) -> dict[str, tuple[Flavor, JsonObject | None]]:
    """Return {instance uuid: (stored flavor, arguments of the newest open main action)} of the existing servers."""
    return {uuid: (flavor, arguments) for uuid, flavor, arguments in conn.execute(_FLAVORS, {'uuids': list(uuids)})}


def background_on_host(conn: sa.Connection, host: str) -> list[InstanceActionsRow]:
    """Return the open background actions of a host's servers, oldest first."""
    table = instance_actions
    statement = sa.select(table).join_from(table, instances, instances.c.uuid == table.c.instance_uuid).where(
        instances.c.host == host, table.c.finished_at.is_(None), ~_MAIN).order_by(table.c.id)
    return [_again(row) for row in conn.execute(statement).mappings()]


_ARGUMENTS = sa.select(instance_actions.c.arguments).where(
    _OPEN, statements.one_of(instance_actions.c.action, actions.IMAGE_CREATING))


def images_of_open(conn: sa.Connection, uuid: str) -> list[str]:
    """Return the ids of the images that open actions of a server create."""
    rows = conn.execute(_ARGUMENTS, _of(uuid)).scalars()
    return [arguments['image_id'] for arguments in rows if arguments and 'image_id' in arguments]


_OPEN_OF_NAME = sa.select(instance_actions.c.id).where(
    _OPEN, instance_actions.c.action == sa.bindparam('of_action')).limit(1)


def is_open(conn: sa.Connection, uuid: str, action: str) -> bool:
    """Tell whether a server has an open action of this name."""
    return conn.execute(_OPEN_OF_NAME, {'of_uuid': uuid, 'of_action': action}).first() is not None


_OF_PORTS = sa.select(instance_actions.c.arguments).where(
    _OPEN, instance_actions.c.action.in_(('attach_interface', 'detach_interface')))


def ports_under_way(conn: sa.Connection, uuid: str) -> list[str]:
    """Return the ids of the ports that are being attached to, or detached from, a server."""
    rows = conn.execute(_OF_PORTS, _of(uuid)).scalars()
    return [arguments['port_id'] for arguments in rows if arguments and arguments.get('port_id')]


_OF_ONE = sa.select(instance_actions).where(_OPEN, _OF_REQUEST)


def open_of(conn: sa.Connection, uuid: str, request_id: str) -> InstanceActionsRow | None:
    """Return the open action of a request on a server, or None."""
    row = conn.execute(_OF_ONE, _of(uuid, request_id)).mappings().first()
    return None if row is None else cast('InstanceActionsRow', statements.to_dict(row))


def postpone(conn: sa.Connection, row: InstanceActionsRow, deadline: datetime.datetime) -> bool:
    """Postpone an overdue action (a row), so that only the caller handles it; return False if its deadline changed."""
    statement = sa.update(instance_actions).where(
        instance_actions.c.id == row['id'], instance_actions.c.finished_at.is_(None),
        instance_actions.c.deadline == row['deadline']).values(deadline=deadline)
    return bool(conn.execute(statement).rowcount)


def unsent(conn: sa.Connection, request_id: str) -> None:
    """Make a request's untaken actions due for the reconciler. The caller knows that their message was not sent."""
    now = utils.utcnow()
    conn.execute(sa.update(instance_actions).where(
        instance_actions.c.finished_at.is_(None), instance_actions.c.deadline > now,
        instance_actions.c.request_id == request_id, instance_actions.c.owner.is_(None)).values(deadline=now))


def expedite(conn: sa.Connection, deadline: datetime.datetime, uuids: tuple[str, ...] | None = None,
           untaken: bool = False) -> None:
    """Set an earlier deadline for the open actions of servers without a host.

    Actions of servers with a host are excluded, because the host recovers them.
    :param uuids: instead of the servers without a host, these servers, if their task waits for a conductor
    :param untaken: whether to include main actions without an owner on all servers, because a message may be lost
    """
    table = instance_actions
    waiting = sa.select(instances.c.uuid)
    waiting = (waiting.where(instances.c.host.is_(None), instances.c.task_state.is_not(None)) if uuids is None else
               waiting.where(instances.c.uuid.in_(uuids), instances.c.task_state.in_(actions.WAITING)))
    which: sa.ColumnElement[bool] = table.c.instance_uuid.in_(waiting)
    if untaken:
        which |= table.c.owner.is_(None) & _MAIN
    conn.execute(sa.update(table).where(table.c.finished_at.is_(None), table.c.deadline > deadline,
                                        which).values(deadline=deadline))


_HOSTS_THAT_DELETE = sa.select(instances.c.host).distinct().join_from(
    instance_actions, instances, instances.c.uuid == instance_actions.c.instance_uuid).where(
    instance_actions.c.finished_at.is_(None), instance_actions.c.deadline > sa.bindparam('now', type_=types.DateTime),
    instances.c.task_state == states.DELETING, instances.c.host.is_not(None))


def hosts_that_delete(conn: sa.Connection, now: datetime.datetime) -> list[str]:
    """Return the hosts with pending deletions of servers."""
    return list(conn.execute(_HOSTS_THAT_DELETE, {'now': now}).scalars())


def expedite_deletions(conn: sa.Connection, hosts: Collection[str], now: datetime.datetime) -> None:
    """Make the pending deletions on these hosts due for the reconciler, because the hosts are down."""
    conn.execute(sa.update(instance_actions).where(
        _MAIN, instance_actions.c.finished_at.is_(None), instance_actions.c.deadline > now,
        instance_actions.c.instance_uuid.in_(sa.select(instances.c.uuid).where(
            instances.c.task_state == states.DELETING, instances.c.host.in_(hosts)))).values(
        deadline=now - datetime.timedelta(seconds=1)))


def _again(row: sa.RowMapping) -> InstanceActionsRow:
    """Return the row of an action for its repetition: the arguments without EVENT_FACTS."""
    arguments = row['arguments']
    return cast('InstanceActionsRow', {**row, 'arguments': arguments and {
        name: value for name, value in arguments.items() if name != EVENT_FACTS}})


def overdue(conn: sa.Connection, now: datetime.datetime, limit: int = 200) -> list[InstanceActionsRow]:
    """Return open actions with an expired deadline, oldest first."""
    table = instance_actions
    statement = (sa.select(table).where(table.c.finished_at.is_(None), table.c.deadline < now)
                 .order_by(table.c.deadline).limit(limit))
    return [_again(row) for row in conn.execute(statement).mappings()]
