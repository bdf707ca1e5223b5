"""Rows of servers, in their cell's database."""
import sqlalchemy as sa

from nova import exception
from nova import states
from nova import utils
from nova.db.tables_cell import block_device_mappings
from nova.db.tables_cell import instances
from nova.db.tables_cell import instances_history
from nova.db.tables_cell import share_mappings
from nova.db.tables_console import console_auth_tokens

COLUMNS = tuple(column.name for column in instances.columns)
_MOVED = tuple(name for name in COLUMNS if name != 'id')


def insert(conn, rows):
    """Insert servers: a list of {column: value}, all with the same keys."""
    now = utils.utcnow()
    conn.execute(sa.insert(instances), [{'created_at': now, 'updated_at': now, **row} for row in rows])


def get(conn, uuid):
    """The row of a server as a dict.

    :raises InstanceNotFound: there is none (a deleted one stands in the history)
    """
    row = conn.execute(sa.select(instances).where(instances.c.uuid == uuid)).mappings().first()
    if row is None:
        raise exception.InstanceNotFound(instance_id=uuid)
    return dict(row)


def lock(conn, uuid):
    """Nobody else changes the row until the transaction ends; SQLite has one writer anyway."""
    if conn.dialect.name != 'sqlite':
        conn.execute(sa.select(instances.c.id).where(instances.c.uuid == uuid).with_for_update())


def get_many(conn, uuids):
    """{uuid: row} of those that exist."""
    rows = conn.execute(sa.select(instances).where(instances.c.uuid.in_(uuids))).mappings()
    return {row['uuid']: dict(row) for row in rows}


def in_state(conn, vm_state, idle=False):
    """Rows of the servers with this vm state; ``idle``: those that nothing is being done to."""
    statement = sa.select(instances).where(instances.c.vm_state == vm_state).order_by(instances.c.id)
    if idle:
        statement = statement.where(instances.c.task_state.is_(None))
    return [dict(row) for row in conn.execute(statement).mappings()]


def merged(conn, uuid, values):
    """The same values, in which ``system_metadata`` holds what the row has as well; a key set to None goes.

    The row is locked: others add keys of their own.
    """
    if 'system_metadata' not in values:
        return values
    lock(conn, uuid)
    both = {**get(conn, uuid)['system_metadata'], **values['system_metadata']}
    return {**values, 'system_metadata': {key: value for key, value in both.items() if value is not None}}


def by_host(conn, host):
    """Rows of the servers of a host, oldest first."""
    statement = sa.select(instances).where(instances.c.host == host).order_by(instances.c.id)
    return [dict(row) for row in conn.execute(statement).mappings()]


def expectations(expect):
    """Conditions for ``{column: allowed value or list of allowed values}``; None among them is NULL."""
    conditions = []
    for name, allowed in (expect or {}).items():
        column = instances.c[name]
        allowed = list(allowed) if isinstance(allowed, (list, tuple, set, frozenset)) else [allowed]
        values = [value for value in allowed if value is not None]
        choices = [column.in_(values)] if values else []
        if None in allowed:
            choices.append(column.is_(None))
        conditions.append(sa.or_(*choices) if choices else sa.false())
    return conditions


def update_where(conn, uuid, values, conditions=()):
    """One conditional UPDATE of a server; the row as it is afterwards, None when no row fits the conditions.

    One statement where the database can return what it updated, two where it cannot (MariaDB).
    """
    statement = (sa.update(instances).where(instances.c.uuid == uuid, *conditions)
                 .values({'updated_at': utils.utcnow(), **values}))
    if conn.dialect.update_returning:
        row = conn.execute(statement.returning(*instances.columns)).mappings().first()
        return None if row is None else dict(row)
    return get(conn, uuid) if conn.execute(statement).rowcount else None


def set_where(conn, uuid, values, conditions=()):
    """One conditional UPDATE of a server; whether a row fitted the conditions."""
    statement = (sa.update(instances).where(instances.c.uuid == uuid, *conditions)
                 .values({'updated_at': utils.utcnow(), **values}))
    return bool(conn.execute(statement).rowcount)


def update(conn, uuid, values, expect=None):
    """UPDATE a server, if ``expect`` ({column: allowed value or values}) holds; True.

    :raises InstanceChanged: the row is not as expected
    :raises InstanceNotFound: the row is gone
    """
    if not set_where(conn, uuid, values, expectations(expect)):
        get(conn, uuid)
        raise exception.InstanceChanged(instance_id=uuid)
    return True


def destroy(conn, uuid, now, expect=None):
    """Move a server's row to the history, as deleted at ``now``, and remove what belongs to it alone.

    :raises InstanceChanged: it is gone, or not as expected; the caller's transaction must end
    """
    set_to = {'vm_state': states.DELETED, 'task_state': None, 'power_state': states.NOSTATE, 'progress': 0,
              'deleted_at': now, 'terminated_at': now, 'updated_at': now, 'locked': False}
    source = sa.select(*[sa.literal(set_to[name], instances.c[name].type).label(name) if name in set_to
                         else instances.c[name] for name in _MOVED]).where(instances.c.uuid == uuid)
    conn.execute(sa.insert(instances_history).from_select(_MOVED, source, include_defaults=False))
    gone = sa.delete(instances).where(instances.c.uuid == uuid, *expectations(expect))
    if not conn.execute(gone).rowcount:
        raise exception.InstanceChanged(instance_id=uuid)
    for table in (block_device_mappings, share_mappings):
        conn.execute(sa.delete(table).where(table.c.instance_uuid == uuid))
    conn.execute(sa.delete(console_auth_tokens).where(console_auth_tokens.c.instance_uuid == uuid))


def existing(conn, uuids):
    """Those of ``uuids`` that have a row."""
    return set(conn.execute(sa.select(instances.c.uuid).where(instances.c.uuid.in_(uuids))).scalars())
