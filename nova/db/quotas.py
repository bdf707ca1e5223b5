"""Quotas: limits of projects, and their check in the transaction that uses them.

Usage is what instance_mappings holds: counted under a lock of the project's row, so that parallel requests cannot
exceed a limit together, and nothing has to be released.
"""
import sqlalchemy as sa

from nova import exception
from nova.db import engine
from nova.db.tables_api import instance_mappings
from nova.db.tables_api import key_pairs
from nova.db.tables_api import quota_classes
from nova.db.tables_api import quota_locks
from nova.db.tables_api import quotas

DEFAULT_CLASS = 'default'
WHOLE_PROJECT = ''
# resources of a project, of which the first three are counted over its servers
RESOURCES = ('instances', 'cores', 'ram', 'metadata_items', 'injected_files', 'injected_file_content_bytes',
             'injected_file_path_length', 'key_pairs', 'server_groups', 'server_group_members')
COUNTED = ('instances', 'cores', 'ram')


def defaults(conn, conf):
    """{resource: limit} of a project that has none of its own: the default class, or the configuration."""
    return {name: conf.quota[name] for name in RESOURCES} | class_limits(conn, DEFAULT_CLASS)


def class_limits(conn, class_name):
    """{resource: limit} that a quota class sets."""
    rows = conn.execute(sa.select(quota_classes.c.resource, quota_classes.c.hard_limit)
                        .where(quota_classes.c.class_name == class_name))
    return {resource: limit for resource, limit in rows if resource in RESOURCES}


def limits_of(conn, conf, project_id, user_id=None):
    """{resource: limit} of a project, or of one user in it; -1 is no limit."""
    owners = [WHOLE_PROJECT] if user_id is None else [WHOLE_PROJECT, user_id]
    rows = conn.execute(sa.union_all(
        sa.select(quotas.c.resource, quotas.c.hard_limit, quotas.c.user_id, sa.literal(1).label('rank'))
        .where(quotas.c.project_id == project_id, quotas.c.user_id.in_(owners)),
        sa.select(quota_classes.c.resource, quota_classes.c.hard_limit, sa.literal(''), sa.literal(0))
        .where(quota_classes.c.class_name == DEFAULT_CLASS)))
    limits = {name: conf.quota[name] for name in RESOURCES}
    # What comes later wins: the default class, the project ('' as user), the user.
    for row in sorted(rows, key=lambda row: (row.rank, row.user_id)):
        if row.resource in limits:
            limits[row.resource] = row.hard_limit
    return limits


def set_limits(conn, project_id, limits, user_id=None):
    """Store limits of a project, or of one user in it."""
    owner = WHOLE_PROJECT if user_id is None else user_id
    for resource, limit in limits.items():
        key = {'project_id': project_id, 'user_id': owner, 'resource': resource}
        mine = sa.and_(*(quotas.c[name] == value for name, value in key.items()))
        if not conn.execute(sa.update(quotas).where(mine).values(hard_limit=limit)).rowcount:
            engine.insert_ignore(conn, quotas, {**key, 'hard_limit': limit})


def delete_limits(conn, project_id, user_id=None):
    """Back to the defaults: a project with its users, or one user."""
    mine = quotas.c.project_id == project_id
    if user_id is not None:
        mine = sa.and_(mine, quotas.c.user_id == user_id)
    conn.execute(sa.delete(quotas).where(mine))


def set_class_limits(conn, class_name, limits):
    """Store limits of a quota class."""
    for resource, limit in limits.items():
        mine = sa.and_(quota_classes.c.class_name == class_name, quota_classes.c.resource == resource)
        if not conn.execute(sa.update(quota_classes).where(mine).values(hard_limit=limit)).rowcount:
            engine.insert_ignore(conn, quota_classes, {
                'class_name': class_name, 'resource': resource, 'hard_limit': limit})


def usage(conn, project_id, user_id=None):
    """{'instances', 'cores', 'ram'} that a project's servers use, or one user's in it."""
    return _usage(conn, project_id, user_id, latest=False)


def project_usage(conn, project_id, user_id=None):
    """{resource: number in use} of everything that is counted; key pairs belong to users alone."""
    used = _usage(conn, project_id, user_id, latest=False)
    if user_id is not None:
        used['key_pairs'] = key_pair_usage(conn, user_id)
    used['server_groups'] = 0             # no operation makes one yet
    return used


def key_pair_usage(conn, user_id):
    return conn.execute(sa.select(sa.func.count()).select_from(key_pairs)
                        .where(key_pairs.c.user_id == user_id)).scalar()


def _usage(conn, project_id, user_id, latest):
    table = instance_mappings
    statement = sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(table.c.vcpus), 0),
                          sa.func.coalesce(sa.func.sum(table.c.memory_mb), 0)
                          ).where(table.c.project_id == project_id)
    if user_id is not None:
        statement = statement.where(table.c.user_id == user_id)
    if latest and conn.dialect.name in ('mysql', 'mariadb'):
        # a plain SELECT sees the moment of the transaction's first one, which may lie before the lock
        statement = statement.with_for_update(read=True)
    return dict(zip(COUNTED, map(int, conn.execute(statement).one())))


def lock(conn, project_id):
    """Let no other transaction of the project check a quota until this one ends. SQLite has one writer anyway."""
    dialect = conn.dialect.name
    if dialect == 'sqlite':
        return
    # One statement that locks an existing row exclusively: a shared lock first would end in deadlocks.
    insert = engine.insert_of(dialect)(quota_locks).values(project_id=project_id)
    same = {'project_id': insert.inserted.project_id if dialect == 'mysql' else insert.excluded.project_id}
    conn.execute(insert.on_duplicate_key_update(**same) if dialect == 'mysql' else
                 insert.on_conflict_do_update(index_elements=['project_id'], set_=same))


def check_and_use(conn, limits, project_id, user_id, count, vcpus_each, memory_mb_each):
    """Refuse servers that exceed the project's quota; the caller inserts their instance_mappings afterwards,
    in the same transaction.

    :param limits: what limits_of gave
    :param user_id: the user who creates them (quotas of single users are the administrators' to set)
    :raises QuotaExceeded: naming every resource of which there is not enough
    """
    wanted = {'instances': count, 'cores': count * vcpus_each, 'ram': count * memory_mb_each}
    lock(conn, project_id)
    used = _usage(conn, project_id, None, latest=True)
    over = [name for name in COUNTED
            if wanted[name] > 0 and limits[name] >= 0 and used[name] + wanted[name] > limits[name]]
    if over:
        raise exception.QuotaExceeded(
            resource=', '.join(over), requested=', '.join(str(wanted[name]) for name in over),
            used=', '.join(str(used[name]) for name in over), limit=', '.join(str(limits[name]) for name in over))


def check_key_pairs(conn, limits, user_id):
    """Refuse one more key pair of a user; the caller inserts it in the same transaction.

    :raises LimitExceeded:
    """
    if limits['key_pairs'] < 0:
        return
    lock(conn, f'user:{user_id}'[:255])
    if key_pair_usage(conn, user_id) >= limits['key_pairs']:
        raise exception.LimitExceeded(resource='key pairs', limit=limits['key_pairs'])
