"""Instance actions and their events: the record of what was done to a server, and of what is being done."""
import datetime

import sqlalchemy as sa

from nova import exception
from nova import states
from nova import utils
from nova.db.tables_cell import instance_action_events
from nova.db.tables_cell import instance_actions
from nova.db.tables_cell import instances

DEADLINE_S = 600        # a task that says nothing for so long is looked after by a reconciler


def insert(conn, ctx, uuids, action, *, arguments=None, deadline_s=DEADLINE_S, owner=None, finished=False,
           message=None):
    """Record an action on servers; it is open (in progress) unless ``finished``."""
    now = utils.utcnow()
    conn.execute(sa.insert(instance_actions), [dict(
        instance_uuid=uuid, action=action, request_id=ctx.request_id, project_id=ctx.project_id,
        user_id=ctx.user_id, started_at=now, updated_at=now, finished_at=now if finished else None,
        owner=owner, deadline=None if finished else now + datetime.timedelta(seconds=deadline_s),
        arguments=arguments, message=message) for uuid in uuids])


_MAIN = instance_actions.c.action.not_in(sorted(states.BESIDE))


def _open(uuid):
    return sa.and_(instance_actions.c.instance_uuid == uuid, instance_actions.c.finished_at.is_(None))


def _which(uuid, request_id=None, beside=True):
    """Open actions of a server: all, only the one of a request, or all but those beside the main one."""
    found = _open(uuid)
    if request_id is not None:
        found &= instance_actions.c.request_id == request_id
    return found if beside else found & _MAIN


def take(conn, uuid, owner, deadline_s=DEADLINE_S, request_id=None):
    """Whoever works on a server now says so, and when others may look after it; False when there is no such action.

    :param request_id: of the action beside others; None: the main one of the server
    """
    now = utils.utcnow()
    return bool(conn.execute(
        sa.update(instance_actions).where(_which(uuid, request_id, beside=request_id is not None)).values(
            owner=owner, updated_at=now, deadline=now + datetime.timedelta(seconds=deadline_s))).rowcount)


def finish(conn, uuid, event=None, *, host=None, error=None, traceback=None, action=None, request_id=None,
           beside=True):
    """Close the open actions of a server, with an event for each when ``event`` is named.

    :param error: sentence for the user when it failed
    :param traceback: for administrators
    :param action: name of the action that the result belongs to; others that are open were cut short by it
    :param request_id: only the one of this request
    :param beside: False: not those that go on beside the main one
    """
    now = utils.utcnow()
    failed = error is not None
    which = _which(uuid, request_id, beside)
    if event:
        columns = {
            'action_id': instance_actions.c.id, 'event': sa.literal(event, sa.String),
            'started_at': instance_actions.c.updated_at, 'finished_at': sa.literal(now, sa.DateTime),
            'result': sa.literal('Error' if failed else 'Success', sa.String),
            'details': sa.literal(error, sa.Text), 'traceback': sa.literal(traceback, sa.Text),
            'host': sa.literal(host, sa.String)}
        named = sa.and_(which, instance_actions.c.action == action) if action else which
        conn.execute(sa.insert(instance_action_events).from_select(
            list(columns), sa.select(*columns.values()).where(named), include_defaults=False))
    message = sa.literal('Error') if failed else instance_actions.c.message
    if action:
        message = sa.case((instance_actions.c.action == action, message), else_=sa.literal('Error'))
    conn.execute(sa.update(instance_actions).where(which).values(
        finished_at=now, updated_at=now, deadline=None, message=message,
        arguments=None))               # nothing is done again; they may hold a password


def forget(conn, uuid, request_id):
    """Remove the open action of a request that was refused in the end."""
    conn.execute(sa.delete(instance_actions).where(_open(uuid), instance_actions.c.request_id == request_id))


def add_event(conn, uuid, event, *, host=None, error=None, traceback=None):
    """A step of the open action that has ended, while the action goes on."""
    now = utils.utcnow()
    columns = {
        'action_id': instance_actions.c.id, 'event': sa.literal(event, sa.String),
        'started_at': instance_actions.c.updated_at, 'finished_at': sa.literal(now, sa.DateTime),
        'result': sa.literal('Success' if error is None else 'Error', sa.String),
        'details': sa.literal(error, sa.Text), 'traceback': sa.literal(traceback, sa.Text),
        'host': sa.literal(host, sa.String)}
    conn.execute(sa.insert(instance_action_events).from_select(
        list(columns), sa.select(*columns.values()).where(_open(uuid)), include_defaults=False))


def by_instance(conn, uuid, *, limit=None, marker=None, changes_since=None, changes_before=None):
    """Actions of a server (deleted ones too), newest first.

    :param marker: request id of the last action of the page before
    :raises InstanceActionNotFound: of the marker
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
        statement = statement.where(table.c.updated_at <= changes_before)
    statement = statement.order_by(table.c.started_at.desc(), table.c.id.desc())
    if limit is not None:
        statement = statement.limit(limit)
    return [dict(row) for row in conn.execute(statement).mappings()]


def get(conn, uuid, request_id):
    """The action that a request began.

    :raises InstanceActionNotFound:
    """
    table = instance_actions
    statement = (sa.select(table).where(table.c.instance_uuid == uuid, table.c.request_id == request_id)
                 .order_by(table.c.id.desc()))
    row = conn.execute(statement).mappings().first()
    if row is None:
        raise exception.InstanceActionNotFound(request_id=request_id, instance_id=uuid)
    return dict(row)


def events(conn, action_id):
    """Events of one action, newest first."""
    table = instance_action_events
    statement = (sa.select(table).where(table.c.action_id == action_id)
                 .order_by(table.c.started_at.desc(), table.c.id.desc()))
    return [dict(row) for row in conn.execute(statement).mappings()]


def set_arguments(conn, uuid, arguments):
    """What the main open action of a server needs to be done again."""
    conn.execute(sa.update(instance_actions).where(_which(uuid, beside=False)).values(arguments=arguments))


def arguments_of_open(conn, uuids):
    """{instance uuid: arguments} of the newest open action of each that has one."""
    table = instance_actions
    statement = (sa.select(table.c.instance_uuid, table.c.arguments)
                 .where(table.c.instance_uuid.in_(uuids), table.c.finished_at.is_(None), _MAIN)
                 .order_by(table.c.id))
    return {row.instance_uuid: row.arguments for row in conn.execute(statement)}


def beside_on_host(conn, host):
    """Rows of the open actions of a host's servers that set no task state, oldest first."""
    table = instance_actions
    statement = sa.select(table).join_from(table, instances, instances.c.uuid == table.c.instance_uuid).where(
        instances.c.host == host, table.c.finished_at.is_(None), ~_MAIN).order_by(table.c.id)
    return [dict(row) for row in conn.execute(statement).mappings()]


def images_of_open(conn, uuid):
    """Ids of the images that open actions of a server make."""
    rows = conn.execute(sa.select(instance_actions.c.arguments).where(_open(uuid))).scalars()
    return [arguments['image_id'] for arguments in rows if arguments and 'image_id' in arguments]


def postpone(conn, row, deadline):
    """Take an overdue action (a row) for looking after; False when somebody else did."""
    statement = sa.update(instance_actions).where(
        instance_actions.c.id == row['id'], instance_actions.c.finished_at.is_(None),
        instance_actions.c.deadline == row['deadline']).values(deadline=deadline)
    return bool(conn.execute(statement).rowcount)


def hasten(conn, deadline):
    """Give the open actions of servers without a host this deadline, unless theirs comes first.

    Those of servers on a host are that host's to take up.
    """
    table = instance_actions
    homeless = sa.select(instances.c.uuid).where(
        instances.c.host.is_(None), instances.c.task_state.is_not(None))
    conn.execute(sa.update(table).where(table.c.finished_at.is_(None), table.c.deadline > deadline,
                                        table.c.instance_uuid.in_(homeless)).values(deadline=deadline))


def overdue(conn, now, limit=200):
    """Open actions whose deadline has passed, oldest first."""
    table = instance_actions
    statement = (sa.select(table).where(table.c.finished_at.is_(None), table.c.deadline < now)
                 .order_by(table.c.deadline).limit(limit))
    return [dict(row) for row in conn.execute(statement).mappings()]
