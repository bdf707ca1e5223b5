"""Quotas: limits of projects, checked in the transaction that uses resources.

Usage is counted from instance_mappings under a lock of the project's row. Therefore parallel requests cannot exceed a
limit, and reservations are not needed.
"""
from collections.abc import Collection
from typing import Any, overload

from oslo_config.cfg import ConfigOpts
import sqlalchemy as sa

from nova import context as nova_context
from nova import exception
from nova.db import engine
from nova.db.tables.aggregates import server_groups
from nova.db.tables import api as t

DEFAULT_CLASS = 'default'
WHOLE_PROJECT = ''
# resources of a project; the usage of the first three (COUNTED) is the sum over the project's servers
RESOURCES = ('instances', 'cores', 'ram', 'metadata_items', 'injected_files', 'injected_file_content_bytes',
             'injected_file_path_length', 'key_pairs', 'server_groups', 'server_group_members')
COUNTED = ('instances', 'cores', 'ram')
UNLIMITED = -1


def configured(conf: ConfigOpts) -> dict[str, int]:
    """Return {resource: limit} of the configuration."""
    options = conf.quota
    return {name: options[name] for name in RESOURCES}


def defaults(conn: sa.Connection, conf: ConfigOpts) -> dict[str, int]:
    """Return {resource: limit} of projects without limits in ``quotas``, from the default class or configuration."""
    return configured(conf) | class_limits(conn, DEFAULT_CLASS)


def class_limits(conn: sa.Connection, class_name: str,
                 resources: Collection[str] = RESOURCES) -> dict[str, int]:
    """Return the limits that a quota class sets for ``resources``, as {resource: limit}."""
    rows = conn.execute(sa.select(t.quota_classes.c.resource, t.quota_classes.c.hard_limit)
                        .where(t.quota_classes.c.class_name == class_name))
    return {resource: limit for resource, limit in rows if resource in resources}


class Limits(dict[str, int]):
    """{resource: limit} of a project; -1 is unlimited. Limits of single users in the project apply in addition.

    users   {user id: {resource: limit}} of users with own limits
    """

    def __init__(self, limits: dict[str, int], users: dict[str, dict[str, int]]) -> None:
        super().__init__(limits)
        self.users = users

    def of(self, user_id: str) -> dict[str, int]:
        """Return {resource: limit} of one user."""
        return {**self, **self.users.get(user_id, {})}


_LIMITS = sa.union_all(
    sa.select(t.quotas.c.resource, t.quotas.c.hard_limit, t.quotas.c.user_id, sa.literal(1).label('rank'))
    .where(t.quotas.c.project_id == sa.bindparam('of_project')),
    sa.select(t.quota_classes.c.resource, t.quota_classes.c.hard_limit, sa.literal(''), sa.literal(0))
    .where(t.quota_classes.c.class_name == DEFAULT_CLASS))


@overload
def limits_of(conn: sa.Connection, conf: ConfigOpts, project_id: str) -> Limits: ...


@overload
def limits_of(conn: sa.Connection, conf: ConfigOpts, project_id: str, user_id: str) -> dict[str, int]: ...


@overload
def limits_of(conn: sa.Connection, conf: ConfigOpts, project_id: str,
              user_id: str | None) -> Limits | dict[str, int]: ...


def limits_of(conn: sa.Connection, conf: ConfigOpts, project_id: str,
              user_id: str | None = None) -> Limits | dict[str, int]:
    """Return the Limits of a project, or {resource: limit} of one user in the project."""
    rows = conn.execute(_LIMITS, {'of_project': nova_context.the_project(project_id)})
    limits = configured(conf)
    users: dict[str, dict[str, int]] = {}
    # a later row overrides an earlier one: rows of the default class are first, then those of the project
    for row in sorted(rows, key=lambda row: row.rank):
        if row.resource in limits:
            mine = limits if row.user_id == WHOLE_PROJECT else users.setdefault(row.user_id, {})
            mine[row.resource] = row.hard_limit
    found = Limits(limits, users)
    return found if user_id is None else found.of(user_id)


def own_limits(conn: sa.Connection, project_id: str, resources: Collection[str]) -> dict[str, int]:
    """Return the limits of ``resources`` that are set for the whole project, as {resource: limit}."""
    rows = conn.execute(sa.select(t.quotas.c.resource, t.quotas.c.hard_limit).where(
        t.quotas.c.project_id == project_id, t.quotas.c.user_id == WHOLE_PROJECT))
    return {resource: limit for resource, limit in rows if resource in resources}


def set_limits(conn: sa.Connection, project_id: str, limits: dict[str, int], user_id: str | None = None) -> None:
    """Store limits of a project, or of one user in the project."""
    owner = WHOLE_PROJECT if user_id is None else user_id
    for resource, limit in limits.items():
        key = {'project_id': project_id, 'user_id': owner, 'resource': resource}
        mine = sa.and_(*(t.quotas.c[name] == value for name, value in key.items()))
        if not conn.execute(sa.update(t.quotas).where(mine).values(hard_limit=limit)).rowcount:
            engine.insert_ignore(conn, t.quotas, {**key, 'hard_limit': limit})


def delete_limits(conn: sa.Connection, project_id: str, user_id: str | None = None,
                  resources: tuple[str, ...] = RESOURCES, prefixes: tuple[str, ...] = ()) -> None:
    """Delete the limits of a project and of its users, or of one user in the project.

    :param prefixes: resources whose names begin with one of these are deleted also
    """
    mine = sa.and_(t.quotas.c.project_id == nova_context.the_project(project_id), sa.or_(
        t.quotas.c.resource.in_(resources), *(t.quotas.c.resource.startswith(each) for each in prefixes)))
    if user_id is not None:
        mine = sa.and_(mine, t.quotas.c.user_id == user_id)
    conn.execute(sa.delete(t.quotas).where(mine))


def delete_resources(conn: sa.Connection, resources: Collection[str]) -> None:
    """Delete the limits of all projects for resources that no longer exist."""
    conn.execute(sa.delete(t.quotas).where(t.quotas.c.resource.in_(resources)))


def set_class_limits(conn: sa.Connection, class_name: str, limits: dict[str, int]) -> None:
    """Store limits of a quota class."""
    for resource, limit in limits.items():
        mine = sa.and_(t.quota_classes.c.class_name == class_name, t.quota_classes.c.resource == resource)
        if not conn.execute(sa.update(t.quota_classes).where(mine).values(hard_limit=limit)).rowcount:
            engine.insert_ignore(conn, t.quota_classes, {
                'class_name': class_name, 'resource': resource, 'hard_limit': limit})


def project_usage(conn: sa.Connection, project_id: str, user_id: str | None = None) -> dict[str, int]:
    """Return {resource: usage} of all counted resources; key pairs are counted only for a user."""
    used = usage(conn, project_id, user_id)
    if user_id is not None:
        used['key_pairs'] = key_pair_usage(conn, user_id)
    used['server_groups'] = server_group_usage(conn, project_id, user_id)
    return used


def server_group_usage(conn: sa.Connection, project_id: str, user_id: str | None = None) -> int:
    statement = sa.select(sa.func.count()).select_from(server_groups).where(
        server_groups.c.project_id == nova_context.the_project(project_id))
    if user_id is not None:
        statement = statement.where(server_groups.c.user_id == user_id)
    return conn.execute(statement).scalar_one()


def key_pair_usage(conn: sa.Connection, user_id: str) -> int:
    statement = sa.select(sa.func.count()).select_from(t.key_pairs).where(t.key_pairs.c.user_id == user_id)
    return conn.execute(statement).scalar_one()


_USED = sa.select(
    sa.func.count(), sa.func.coalesce(sa.func.sum(t.instance_mappings.c.vcpus), 0),
    sa.func.coalesce(sa.func.sum(t.instance_mappings.c.memory_mb), 0)).where(
    t.instance_mappings.c.project_id == sa.bindparam('of_project'),
    t.instance_mappings.c.queued_for_delete.is_(sa.false()))
_USED_BY = _USED.where(t.instance_mappings.c.user_id == sa.bindparam('of_user'))


def usage(conn: sa.Connection, project_id: str, user_id: str | None = None) -> dict[str, int]:
    """Return {'instances', 'cores', 'ram'} used by the servers of a project, or of one user in the project."""
    statement = _USED if user_id is None else _USED_BY
    of = {'of_project': nova_context.the_project(project_id)} | ({} if user_id is None else {'of_user': user_id})
    return dict(zip(COUNTED, map(int, conn.execute(statement, of).one())))


def server_counts(conn: sa.Connection) -> dict[str, int]:
    """Return {project id: number of servers} of all projects with servers."""
    of = t.instance_mappings.c
    return {project_id: number for project_id, number in conn.execute(
        sa.select(of.project_id, sa.func.count()).where(of.queued_for_delete.is_(sa.false())).group_by(of.project_id))}


def lock(conn: sa.Connection, project_id: str) -> None:
    """Serialize the quota checks of a project until this transaction ends. SQLite needs no lock, as it has one
    writer.
    """
    engine.lock_row(conn, t.quota_locks, {'project_id': project_id})


def check_and_use(conn: sa.Connection, limits: Limits, project_id: str, user_id: str, count: int, vcpus_each: int,
                  memory_mb_each: int) -> None:
    """Check that new servers are within the quota of the project, and within the user's quota in the project.

    The caller then inserts their instance_mappings in the same transaction.
    :param limits: limits_of the project
    :param user_id: the user who creates the servers
    :raises QuotaExceeded: with the names of all exceeded resources
    """
    wanted = {'instances': count, 'cores': count * vcpus_each, 'ram': count * memory_mb_each}
    lock(conn, project_id)
    for bounds, used in _bounds(conn, limits, project_id, user_id):
        _refuse_over(bounds, used, wanted)


def fit(conn: sa.Connection, limits: Limits, project_id: str, user_id: str, least: int, most: int, vcpus_each: int,
        memory_mb_each: int) -> int:
    """Return the number of servers, from ``least`` to ``most``, within the quota; see check_and_use.

    :raises QuotaExceeded: the quota allows fewer than ``least``
    """
    each = {'instances': 1, 'cores': vcpus_each, 'ram': memory_mb_each}
    lock(conn, project_id)
    found = _bounds(conn, limits, project_id, user_id)
    room = [(bounds[name] - used[name]) // size for bounds, used in found for name, size in each.items()
            if size and bounds[name] >= 0]
    count = max(least, min([most, *room]))
    for bounds, used in found:
        _refuse_over(bounds, used, {name: size * count for name, size in each.items()})
    return count


def _bounds(conn: sa.Connection, limits: Limits | dict[str, int], project_id: str,
            user_id: str) -> list[tuple[Any, dict[str, int]]]:
    """Return [(limits, usage)] of the project and, if the user has own limits in the project, of the user."""
    found = [(limits, usage(conn, project_id))]
    own = limits.users.get(user_id, {}) if isinstance(limits, Limits) else {}
    if own.keys() & set(COUNTED):
        bounds = {name: own.get(name, UNLIMITED) for name in COUNTED}
        found.append((bounds, usage(conn, project_id, user_id)))
    return found


def check_and_grow(conn: sa.Connection, limits: Limits | dict[str, int], project_id: str, uuid: str, vcpus: int,
                   memory_mb: int) -> None:
    """Count a larger size of a server in its project's quota, if the quota allows it.

    A smaller size is not counted here but later, by set_size.
    :raises QuotaExceeded: with the names of all exceeded resources
    """
    lock(conn, project_id)
    table = t.instance_mappings
    counted = conn.execute(sa.select(table.c.vcpus, table.c.memory_mb, table.c.user_id).where(
        table.c.instance_uuid == uuid)).first()
    if counted is None:
        # the server was deleted; the later transaction that begins the move raises the error
        return
    most = max(counted.vcpus, vcpus), max(counted.memory_mb, memory_mb)
    for bounds, used in _bounds(conn, limits, project_id, counted.user_id):
        _refuse_over(bounds, used, {'cores': most[0] - counted.vcpus, 'ram': most[1] - counted.memory_mb})
    set_size(conn, uuid, *most)


def set_size(conn: sa.Connection, uuid: str, vcpus: int, memory_mb: int) -> None:
    """Set the size that a server has in its project's quota usage."""
    conn.execute(sa.update(t.instance_mappings).where(t.instance_mappings.c.instance_uuid == uuid).values(
        vcpus=vcpus, memory_mb=memory_mb))


def _refuse_over(limits: Limits | dict[str, int], used: dict[str, int], wanted: dict[str, int]) -> None:
    """Check amounts against limits.

    :raises QuotaExceeded: with the names of all exceeded resources of ``wanted``
    """
    over = [name for name in wanted
            if wanted[name] > 0 and limits[name] >= 0 and used[name] + wanted[name] > limits[name]]
    if over:
        raise exception.QuotaExceeded(
            resource=', '.join(over), requested=', '.join(str(wanted[name]) for name in over),
            used=', '.join(str(used[name]) for name in over), limit=', '.join(str(limits[name]) for name in over))


def check_server_groups(conn: sa.Connection, limits: Limits, project_id: str, user_id: str) -> None:
    """Check that another server group is within the limit of the project, and within the user's limit in the project.

    The caller then inserts the group in the same transaction.
    :param limits: limits_of the project
    :raises LimitExceeded: the limit is reached
    """
    own = limits.users.get(user_id, {}).get('server_groups', UNLIMITED)
    for limit, owner in ((limits['server_groups'], None), (own, user_id)):
        if limit >= 0:
            lock(conn, project_id)
            if server_group_usage(conn, project_id, owner) >= limit:
                raise exception.LimitExceeded(resource='server groups', limit=limit)


def check_key_pairs(conn: sa.Connection, limits: dict[str, int], user_id: str) -> None:
    """Check that a new key pair is within a user's limit; the caller inserts the key pair in the same transaction.

    :raises LimitExceeded: the limit is reached
    """
    if limits['key_pairs'] < 0:
        return
    lock(conn, f'user:{user_id}'[:255])
    look_at_key_pairs(conn, limits, user_id)


def look_at_key_pairs(conn: sa.Connection, limits: dict[str, int], user_id: str) -> None:
    """Check the limit of key pairs without a lock, before a key pair is made. check_key_pairs may still fail later.

    :raises LimitExceeded: the limit is reached
    """
    if 0 <= limits['key_pairs'] <= key_pair_usage(conn, user_id):
        raise exception.LimitExceeded(resource='key pairs', limit=limits['key_pairs'])
