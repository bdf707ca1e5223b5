"""Server groups and their members.

A group stands in the API database; its members are the servers whose instance_mappings name it, so that a member
leaves with its mapping. In a cell the servers' rows name it, too: what claims go by.
"""
import collections
import uuid as uuidlib

import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.db import engine
from nova.db import quotas
from nova.db.tables_aggregates import server_groups
from nova.db.tables_api import instance_mappings
from nova.db.tables_cell import instances
from nova.db.tables_cell import migrations
from nova.db.tables_placement import group_locks

# ---- the API database --------------------------------------------------------


def get(conn, group_id):
    """A group's row as a dict, with ``members``: uuids of its servers, oldest first.

    :raises ServerGroupNotFound:
    """
    return _with_members(conn, [_row(conn, group_id)])[0]


def _row(conn, group_id):
    row = conn.execute(sa.select(server_groups).where(server_groups.c.uuid == group_id)).mappings().first()
    if row is None:
        raise exception.ServerGroupNotFound(group_id=group_id)
    return row


def page(conn, project_id=None, *, limit=None, offset=0):
    """Groups, oldest first, as ``get`` gives them.

    :param project_id: only of this project; None: of all
    """
    statement = sa.select(server_groups).order_by(server_groups.c.id).limit(limit).offset(offset)
    if project_id is not None:
        statement = statement.where(server_groups.c.project_id == project_id)
    return _with_members(conn, conn.execute(statement).mappings().all())


def _with_members(conn, rows):
    members = {row['uuid']: [] for row in rows}
    c = instance_mappings.c
    if rows:
        for group_id, uuid in conn.execute(sa.select(c.server_group_id, c.instance_uuid).where(
                c.server_group_id.in_(list(members))).order_by(c.created_at, c.instance_uuid)):
            members[group_id].append(uuid)
    return [{**row, 'members': members[row['uuid']]} for row in rows]


def create(conn, limits, values):
    """A new group; its row.

    :param limits: what quotas.limits_of gave
    :param values: project_id, user_id, name, policy and rules
    :raises LimitExceeded: the project has as many as it may
    """
    quotas.check_server_groups(conn, limits, values['project_id'], values['user_id'])
    row = {'uuid': str(uuidlib.uuid4()), 'created_at': utils.utcnow(), **values}
    conn.execute(sa.insert(server_groups).values(**row))
    return {**row, 'members': []}


def delete(conn, group_id):
    """Remove a group; its members go on without it.

    :raises ServerGroupNotFound:
    """
    quotas.lock(conn, _row(conn, group_id)['project_id'])        # nobody joins meanwhile
    if not conn.execute(sa.delete(server_groups).where(server_groups.c.uuid == group_id)).rowcount:
        raise exception.ServerGroupNotFound(group_id=group_id)
    conn.execute(sa.update(instance_mappings).where(instance_mappings.c.server_group_id == group_id)
                 .values(server_group_id=None))


def room(conn, limits, project_id, group_id, least, most):
    """How many new servers, from ``least`` to ``most``, may join a group of the project.

    The caller holds the project's lock and adds the members in the same transaction.

    :raises BadRequest: the project has no such group
    :raises LimitExceeded: fewer than ``least``
    """
    mine = sa.select(server_groups.c.id).where(server_groups.c.uuid == group_id,
                                               server_groups.c.project_id == project_id)
    if conn.execute(mine).first() is None:
        raise exception.BadRequest(f'Server group {group_id} could not be found.')
    limit = limits['server_group_members']
    if limit < 0:
        return most
    members = sa.select(sa.func.count()).select_from(instance_mappings).where(
        instance_mappings.c.server_group_id == group_id)
    left = limit - conn.execute(members).scalar()
    if left < least:
        raise exception.LimitExceeded(resource='servers in group', limit=limit)
    return min(most, left)


def existing(conn, group_ids):
    """Those of ``group_ids`` that are there."""
    return set(conn.execute(sa.select(server_groups.c.uuid).where(server_groups.c.uuid.in_(group_ids))).scalars())


def find(conn, group_id):
    """The row of a group, None when there is none (any more)."""
    row = conn.execute(sa.select(server_groups).where(server_groups.c.uuid == group_id)).mappings().first()
    return None if row is None else dict(row)


# ---- a cell's database -------------------------------------------------------

def lock(conn, group_id):
    """No other claim for a member of the group is decided until this transaction ends."""
    engine.lock_row(conn, group_locks, {'group_uuid': group_id})


def hosts(conn, group_id, but=None):
    """Counter {host: members on it, or on their way to it}.

    :param but: uuid of a server that does not count
    """
    here = sa.select(instances.c.uuid, instances.c.host).where(
        instances.c.server_group_id == group_id, instances.c.host.is_not(None))
    coming = sa.select(instances.c.uuid, migrations.c.held_host).where(
        instances.c.server_group_id == group_id, migrations.c.instance_uuid == instances.c.uuid,
        migrations.c.held_host.is_not(None))
    found = set()
    for statement in (here, coming):
        found.update(tuple(row) for row in conn.execute(statement))
    return collections.Counter(host for uuid, host in found if uuid != but)


def mentioned(conn):
    """Ids of the groups that servers' rows name."""
    return set(conn.execute(sa.select(instances.c.server_group_id).where(
        instances.c.server_group_id.is_not(None)).distinct()).scalars())


def forget(conn, group_ids):
    """Servers are in none of these groups any more; removes what the claims had of them."""
    conn.execute(sa.update(instances).where(instances.c.server_group_id.in_(group_ids))
                 .values(server_group_id=None))
    conn.execute(sa.delete(group_locks).where(group_locks.c.group_uuid.in_(group_ids)))
