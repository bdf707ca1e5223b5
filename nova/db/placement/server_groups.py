"""Server groups and their members.

Groups are in the API database. The members of a group are the servers with the group's id in instance_mappings, so
deleted servers are not members. The servers' rows in the cells also contain the id, because claims need it. A group has
any number of policies. A change that restricts the hosts of members locks the group's project. Adding a member takes
the same lock, so no server can join during such a change.
"""
from collections.abc import Collection, Mapping, Sequence
import datetime
from typing import Any, cast, NotRequired, TypedDict
import uuid as uuidlib

import sqlalchemy as sa

from nova import context as nova_context
from nova import exception
from nova import utils
from nova.json_types import Json
from nova.db import engine
from nova.db.placement.categories import REGULAR
from nova.db.projects import quotas
from nova.db.tables.aggregates import server_groups
from nova.db.tables.api import instance_mappings
from nova.db.tables import cell as t

AFFINITY, ANTI_AFFINITY = 'affinity', 'anti-affinity'
SOFT_AFFINITY, SOFT_ANTI_AFFINITY = 'soft-affinity', 'soft-anti-affinity'
PROXIMITY, CAPABILITIES = 'network-proximity', 'host-capabilities'
# in the order in which the API lists them
POLICIES = (AFFINITY, ANTI_AFFINITY, SOFT_AFFINITY, SOFT_ANTI_AFFINITY, PROXIMITY, CAPABILITIES)
# policies that exclude each other; a group has at most one of them
OPPOSITES = (frozenset((AFFINITY, ANTI_AFFINITY)), frozenset((SOFT_AFFINITY, SOFT_ANTI_AFFINITY)))

SCOPE = 'capabilities:'          # prefix of metadata keys for the policy host-capabilities
MAX_SERVER_PER_HOST = 'max_server_per_host'     # rule of the policy anti-affinity
LOCALITY = 'network_locality'    # metadata key of aggregates and capability of hosts, for the policy network-proximity


class HostAggregate(TypedDict):
    """An aggregate in a row of a service."""

    id: int
    uuid: str
    name: str
    metadata: dict[str, str]


class Group(TypedDict):
    """A group. ``members`` are uuids of servers, oldest first; ``find`` omits this field."""

    id: int
    uuid: str
    project_id: str
    user_id: str
    name: str
    policies: list[str]
    rules: dict[str, int]
    metadata: dict[str, str]
    created_at: datetime.datetime
    members: NotRequired[list[str]]
    administrative: NotRequired[set[str]]


# ---- the API database --------------------------------------------------------


def get(conn: sa.Connection, group_id: str) -> Group:
    """Return a group with its members.

    :raises ServerGroupNotFound: it does not exist
    """
    return _with_members(conn, [_row(conn, group_id)])[0]


def get_locked(conn: sa.Connection, group_id: str) -> Group:
    """Return a group as in ``get``, locked against changes and new members until the transaction ends.

    :raises ServerGroupNotFound: it does not exist
    """
    locked, row = None, _row(conn, group_id)
    while row['project_id'] != locked:              # repeat if the project changed before the lock was taken
        locked = row['project_id']
        quotas.lock(conn, locked)
        row = _row(conn, group_id)
    return _with_members(conn, [row])[0]


def named(conn: sa.Connection, project_id: str, name: str) -> list[str]:
    """Return the ids of a project's groups with this name, oldest first."""
    c = server_groups.c
    rows = conn.execute(sa.select(c.uuid, c.name).where(
        c.project_id == nova_context.the_project(project_id), c.name == name).order_by(c.id))
    return [row.uuid for row in rows if row.name == name]           # MariaDB ignores case


def _row(conn: sa.Connection, group_id: str) -> sa.RowMapping:
    row = conn.execute(sa.select(server_groups).where(server_groups.c.uuid == group_id)).mappings().first()
    if row is None:
        raise exception.ServerGroupNotFound(group_id=group_id)
    return row


def page(conn: sa.Connection, project_id: nova_context.Projects | str, *, limit: int | None = None,
         offset: int = 0) -> list[Group]:
    """Return groups in the form of ``get``, oldest first.

    :param project_id: only groups of this project, or ALL_PROJECTS
    """
    statement = sa.select(server_groups).order_by(server_groups.c.id).limit(limit).offset(offset)
    if nova_context.one_project(project_id):
        statement = statement.where(server_groups.c.project_id == project_id)
    return _with_members(conn, conn.execute(statement).mappings().all())


def _with_members(conn: sa.Connection, rows: Sequence[sa.RowMapping]) -> list[Group]:
    members: dict[Any, Any] = {row['uuid']: [] for row in rows}
    administrative: dict[Any, Any] = {row['uuid']: set() for row in rows}
    c = instance_mappings.c
    if rows:
        for group_id, uuid, category in conn.execute(sa.select(c.server_group_id, c.instance_uuid, c.category).where(
                c.server_group_id.in_(list(members))).order_by(c.created_at, c.instance_uuid)):
            members[group_id].append(uuid)
            if category != REGULAR:
                administrative[group_id].add(uuid)
    return [{**_read(row), 'members': members[row['uuid']], 'administrative': administrative[row['uuid']]}
            for row in rows]


def _read(row: dict[str, Any] | sa.RowMapping) -> Group:
    found: dict[str, Any] = dict(row)
    return cast(Group, {**found, 'policies': _split(found.pop('policy')), 'metadata': found['metadata'] or {}})


def _written(values: dict[str, Any]) -> dict[str, Any]:
    """Convert values in the form of ``get`` to columns."""
    columns = {name: value for name, value in values.items() if name != 'policies'}
    if 'policies' in values:
        columns['policy'] = ','.join(name for name in POLICIES if name in values['policies'])
    return columns


def _split(policy: str) -> list[str]:
    return policy.split(',') if policy else []


def create(conn: sa.Connection, limits: quotas.Limits, values: dict[str, Any]) -> Group:
    """Create a group; return its row in the form of ``get``.

    :param limits: quotas.limits_of its project
    :param values: project_id, user_id, name and optionally policies, rules, metadata, uuid
    :raises LimitExceeded: the project's quota is used up
    :raises ServerGroupExists: the uuid is in use
    """
    quotas.check_server_groups(conn, limits, values['project_id'], values['user_id'])
    row = {'uuid': str(uuidlib.uuid4()), 'created_at': utils.utcnow(), 'rules': {}, 'metadata': {},
           **_written({'policies': (), **values})}
    if not engine.insert_ignore(conn, server_groups, row).rowcount:
        raise exception.ServerGroupExists(group_id=row['uuid'])
    return {**_read(row), 'members': [], 'administrative': set()}


def update(conn: sa.Connection, row: Group, values: dict[str, Any], limits: quotas.Limits | None = None) -> Group:
    """Update a group; return its row.

    :param row: row from get_locked in this transaction
    :param values: some of name, policies, rules, metadata and project_id
    :param limits: quotas.limits_of its new project
    :raises ServerGroupNotEmpty: the change would restrict the hosts of its members
    :raises LimitExceeded: the new project's quota is used up
    """
    before: Mapping[str, object] = row
    values = {name: value for name, value in values.items() if value != before[name]}
    if row['members'] and (what := _binding(row, values)):
        raise exception.ServerGroupNotEmpty(group_id=row['uuid'], what=what)
    if 'project_id' in values and limits is not None:
        quotas.check_server_groups(conn, limits, values['project_id'], row['user_id'])
    if values:
        conn.execute(sa.update(server_groups).where(server_groups.c.uuid == row['uuid']).values(**_written(values)))
    return cast(Group, {**row, **values})


def _binding(row: Group, values: dict[str, Any]) -> str | None:
    """Return the name of a change in ``values`` that would restrict the hosts of members, or None."""
    for name, what in (('policies', 'its policies'), ('rules', 'its rules'), ('project_id', 'its project')):
        if name in values:
            return what
    if (CAPABILITIES in row['policies'] and 'metadata' in values
            and capabilities(values['metadata']) != capabilities(row['metadata'])):
        return f'metadata that begins with {SCOPE}'
    return None


def capabilities(metadata: dict[str, str]) -> dict[str, str]:
    """Return the metadata items for the policy host-capabilities."""
    return {key: value for key, value in metadata.items() if key.startswith(SCOPE)}


def delete(conn: sa.Connection, group_id: str) -> None:
    """Remove a group; its members remain, without a group.

    :raises ServerGroupNotFound: it does not exist
    """
    get_locked(conn, group_id)                                   # prevents new members
    if not conn.execute(sa.delete(server_groups).where(server_groups.c.uuid == group_id)).rowcount:
        raise exception.ServerGroupNotFound(group_id=group_id)
    conn.execute(sa.update(instance_mappings).where(instance_mappings.c.server_group_id == group_id)
                 .values(server_group_id=None))


def room(conn: sa.Connection, limits: quotas.Limits, project_id: str, group_id: str, least: int, most: int) -> int:
    """Return the number of new servers, from ``least`` to ``most``, that may join a group of the project.

    The caller holds the project's lock and inserts the members in the same transaction.
    :raises BadRequest: the project has no such group
    :raises LimitExceeded: fewer than ``least`` servers may join
    """
    mine = sa.select(server_groups.c.id).where(server_groups.c.uuid == group_id,
                                               server_groups.c.project_id == project_id)
    if conn.execute(mine).first() is None:
        raise exception.BadRequest(f'Server group {group_id} could not be found.')
    limit = int(limits['server_group_members'])
    if limit < 0:
        return most
    members = sa.select(sa.func.count()).select_from(instance_mappings).where(
        instance_mappings.c.server_group_id == group_id)
    left = limit - int(conn.execute(members).scalar_one())
    if left < least:
        raise exception.LimitExceeded(resource='servers in group', limit=limit)
    return min(most, left)


def existing(conn: sa.Connection, group_ids: Collection[str]) -> set[str]:
    """Return the subset of ``group_ids`` that exist."""
    return set(conn.execute(sa.select(server_groups.c.uuid).where(server_groups.c.uuid.in_(group_ids))).scalars())


def find(conn: sa.Connection, group_id: str) -> Group | None:
    """Return the row of a group in the form of ``get`` without its members, or None."""
    row = conn.execute(sa.select(server_groups).where(server_groups.c.uuid == group_id)).mappings().first()
    return None if row is None else _read(row)


def member_cells(conn: sa.Connection, group_id: str) -> set[str]:
    """Return the uuids of the cells of a group's members."""
    return set(conn.execute(sa.select(instance_mappings.c.cell_uuid).where(
        instance_mappings.c.server_group_id == group_id).distinct()).scalars())


# ---- cell databases -------------------------------------------------------

def lock(conn: sa.Connection, group_id: str) -> None:
    """Lock a group against other claims for its members until this transaction ends."""
    engine.lock_row(conn, t.group_locks, {'group_uuid': group_id})


def places(conn: sa.Connection, group_id: str, but: str | None = None) -> set[tuple[str, str]]:
    """Return {(member, host)}: the member is on the host, moves to it, or can return to it.

    :param but: uuid of an excluded server
    """
    here = sa.select(t.instances.c.uuid, t.instances.c.host).where(
        t.instances.c.server_group_id == group_id, t.instances.c.host.is_not(None))
    coming = sa.select(t.instances.c.uuid, t.migrations.c.claimed_host).where(
        t.instances.c.server_group_id == group_id, t.migrations.c.instance_uuid == t.instances.c.uuid,
        t.migrations.c.claimed_host.is_not(None))
    # one statement: if a move and its server swapped their claims between two statements, a host would be missed
    return {(uuid, host) for uuid, host in conn.execute(sa.union_all(here, coming)) if uuid != but}


def localities(conn: sa.Connection, hosts: list[str]) -> dict[str, frozenset[str]]:
    """Return {host: frozenset of its network localities} of the existing hosts.

    A host has the locality that it reports, and the localities of its aggregates.
    """
    nodes = sa.select(t.compute_nodes.c.host, t.compute_nodes.c.capabilities, t.services.c.aggregates).select_from(
        t.compute_nodes.outerjoin(t.services, sa.and_(t.services.c.host == t.compute_nodes.c.host,
                                                      t.services.c.topic == 'compute'))).where(
        t.compute_nodes.c.host.in_(hosts))
    found: dict[Any, Any] = {}
    for host, own, listed in conn.execute(nodes) if hosts else ():
        found[host] = found.get(host, frozenset()) | locality(own, listed)
    return found


def locality(own: Mapping[str, Json] | None, listed: list[HostAggregate] | None) -> frozenset[str]:
    """Return the network localities of a host with these capabilities and aggregates."""
    values = [(own or {}).get(LOCALITY), *((each.get('metadata') or {}).get(LOCALITY) for each in listed or ())]
    return frozenset(value for value in values if value and isinstance(value, str))


def mentioned(conn: sa.Connection) -> set[Any]:
    """Return the ids of all groups in the rows of servers."""
    return set(conn.execute(sa.select(t.instances.c.server_group_id).where(
        t.instances.c.server_group_id.is_not(None)).distinct()).scalars())


def forget(conn: sa.Connection, group_ids: list[str]) -> None:
    """Remove servers from these groups and delete the groups' locks."""
    conn.execute(sa.update(t.instances).where(t.instances.c.server_group_id.in_(group_ids))
                 .values(server_group_id=None))
    conn.execute(sa.delete(t.group_locks).where(t.group_locks.c.group_uuid.in_(group_ids)))
