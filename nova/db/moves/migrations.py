"""Moves of servers: rows of the migrations table, each with the claim that a move holds on a second node.

A share is the claimed amount of a node's resources, see claims.py.

    create   insert a row and end an unfinished older move of the server
    hold     record the destination's share, after claims.claim in the same transaction
    swap     exchange the shares of the server's row and of the move; the usage of nodes is unchanged
    keep     give the claim to the server, which got the new flavor on its node
    release  release the claim
    update   set other columns if the row has the expected values

Every function takes a connection in a transaction. Conditions in the UPDATEs detect concurrent changes: if the row has
changed, the function reports it and the caller must end the transaction. Functions change the server's row before the
move's row.

Statuses, as in the compute API:
* cold moves: pre-migrating, migrating, post-migrating, finished, then confirming, confirmed or reverting, reverted
* live migrations: queued, preparing, running, completed or cancelled
* evacuations: accepted, pre-migrating, done

Any move may end in error or failed.
"""
from datetime import datetime
from typing import Any
import uuid as uuidlib

import sqlalchemy as sa

from nova import context as nova_context
from nova import exception
from nova.json_types import JsonDocument
from nova import states
from nova import utils
from nova.actions import Action
from nova.db import statements
from nova.db.placement import claims
from nova.db.placement import numa_claims
from nova.db.placement import pci_devices
from nova.db.placement import zones
from nova.db.servers import console_tokens
from nova.db.servers import instances
from nova.db.servers import tasks
from nova.db.tables import cell as t
from nova.db.tables.rows import ComputeNodesRow, InstancesRow, MigrationsRow
from nova.db.types import ColumnValue, ColumnValues
from nova.objects import pci
from nova.objects.flavor import Flavor

RESIZE, MIGRATION, LIVE_MIGRATION, EVACUATION = 'resize', 'migration', 'live-migration', 'evacuation'
COLD = (RESIZE, MIGRATION)
OVER = states.ENDED_MOVES
OPEN = states.OPEN_MOVES             # the index of the column serves IN, not NOT IN
# statuses of a live migration in progress
LIVE_IN_PROGRESS = ('queued', 'preparing', 'running')
_NOTHING = {'claimed_host': None, 'claimed_node': None, 'claimed_vcpus': 0, 'claimed_memory_mb': 0,
            'claimed_local_gb': 0, 'claimed_numa_topology': None}


def create(conn: sa.Connection, ctx: nova_context.RequestContext, row: InstancesRow, migration_type: str, status: str,
           *, new_flavor: Flavor | None = None, arguments: JsonDocument | None = None,
           **values: object) -> MigrationsRow:
    """Create a move of a server, given its instances row; return the migrations row, which holds no share yet.

    :param new_flavor: flavor after the move, or None for the current flavor
    :param arguments: data needed to continue the move
    :param values: other columns
    """
    abandon(conn, row['uuid'])
    now = utils.utcnow()
    made = {'uuid': str(uuidlib.uuid4()), 'instance_uuid': row['uuid'], 'project_id': ctx.project_id or '',
            'user_id': ctx.user_id or '', 'migration_type': migration_type, 'status': status, 'created_at': now,
            'updated_at': now, 'request_id': ctx.request_id, 'arguments': arguments or {}, 'claims_swapped': False,
            'source_compute': row['host'], 'source_node': row['node'], 'dest_compute': None, 'dest_node': None,
            'dest_host': None, 'old_flavor': row['flavor'], 'new_flavor': new_flavor or row['flavor'], **values}
    inserted = conn.execute(sa.insert(t.migrations).values(**made)).inserted_primary_key
    assert inserted is not None                  # never None for an INSERT of one row
    return get(conn, inserted[0])


def get(conn: sa.Connection, migration_id: int, lock: bool = False) -> MigrationsRow:
    """Return the row with this id as a dict.

    :param lock: lock the row until the transaction ends
    :raises MigrationNotFound: there is no such row
    """
    statement = sa.select(t.migrations).where(t.migrations.c.id == migration_id)
    row = conn.execute(statement.with_for_update() if lock else statement).mappings().first()
    if row is None:
        raise exception.MigrationNotFound(migration_id=migration_id)
    return statements.to_dict(row)


def open_of(conn: sa.Connection, uuid: str) -> list[MigrationsRow]:
    """Return the unfinished moves of a server, oldest first; normally at most one."""
    statement = sa.select(t.migrations).where(
        t.migrations.c.instance_uuid == uuid, t.migrations.c.status.not_in(OVER)).order_by(t.migrations.c.id)
    return statements.dicts(conn.execute(statement))


def open_of_many(conn: sa.Connection, uuids: list[str]) -> dict[str, MigrationsRow]:
    """Return {instance uuid: its newest unfinished move}."""
    statement = sa.select(t.migrations).where(
        t.migrations.c.instance_uuid.in_(uuids), t.migrations.c.status.not_in(OVER)).order_by(t.migrations.c.id)
    return {row['instance_uuid']: statements.to_dict(row) for row in conn.execute(statement).mappings()}


def open_on_host(conn: sa.Connection, host: str) -> list[MigrationsRow]:
    """Return the unfinished moves from or to a host, oldest first."""
    c = t.migrations.c
    statement = sa.select(t.migrations).where(
        sa.or_(c.source_compute == host, c.dest_compute == host), c.status.in_(OPEN)).order_by(c.id)
    return statements.dicts(conn.execute(statement))


def finished_before(conn: sa.Connection, before: datetime, limit: int = 200) -> list[MigrationsRow]:
    """Return moves that have been waiting for confirmation since before this time."""
    c = t.migrations.c
    statement = sa.select(t.migrations).where(c.status == 'finished', c.updated_at < before).order_by(c.id).limit(limit)
    return statements.dicts(conn.execute(statement))


def place_of(conn: sa.Connection, uuid: str,
             project_id: nova_context.Projects | str) -> tuple[datetime, int, str] | None:
    """Return the position of a move in pages, (created_at, id, uuid), or None.

    :param project_id: project of the server, or ALL_PROJECTS
    """
    c = t.migrations.c
    statement = sa.select(c.created_at, c.id, c.uuid).where(c.uuid == uuid)
    if nova_context.one_project(project_id):
        statement = statement.where(c.project_id == project_id)
    found = conn.execute(statement).first()
    return None if found is None else (found.created_at, found.id, found.uuid)


def page(conn: sa.Connection, project_id: nova_context.Projects, filters: dict[str, str] | None = None, *,
         host: str | None = None, limit: int | None = None, after: tuple[datetime, int, str] | None = None,
         changes_since: datetime | None = None, changes_before: datetime | None = None) -> list[MigrationsRow]:
    """Return moves, newest first. Uuids break ties, so that the order is the same in all cells.

    :param project_id: project of the servers, or ALL_PROJECTS
    :param filters: {column: value or list of values}
    :param host: source or destination host
    :param after: position (place_of) of the last move of the previous page
    """
    c = t.migrations.c
    statement = sa.select(t.migrations).order_by(c.created_at.desc(), c.id.desc(), c.uuid.desc())
    if nova_context.one_project(project_id):
        statement = statement.where(c.project_id == project_id)
    for name, wanted in (filters or {}).items():
        statement = statement.where(c[name].in_(wanted) if isinstance(wanted, (list, tuple)) else c[name] == wanted)
    if host is not None:
        statement = statement.where(sa.or_(c.source_compute == host, c.dest_compute == host))
    if after is not None:
        statement = statement.where(sa.tuple_(c.created_at, c.id, c.uuid)
                                    < sa.tuple_(sa.literal(after[0], sa.DateTime), *after[1:]))
    if changes_since is not None:
        statement = statement.where(c.updated_at >= changes_since)
    if changes_before is not None:
        statement = statement.where(c.updated_at <= utils.end_of_second(changes_before))
    if limit is not None:
        statement = statement.limit(limit)
    return statements.dicts(conn.execute(statement))


def update(conn: sa.Connection, migration_id: int, values: ColumnValues,
           expect: ColumnValues | None = None) -> bool:
    """Update a move if its row satisfies ``expect`` ({column: allowed value or values}); return whether it was updated.

    Only hold, swap, keep and release change the columns of the claim.
    """
    conditions = [t.migrations.c.id == migration_id]
    for name, allowed in (expect or {}).items():
        conditions.append(t.migrations.c[name].in_(list(allowed)) if isinstance(allowed, (list, tuple, set, frozenset))
                          else t.migrations.c[name] == allowed)
    statement = sa.update(t.migrations).where(*conditions).values({'updated_at': utils.utcnow(), **values})
    return bool(conn.execute(statement).rowcount)


def hold(conn: sa.Connection, migration_id: int, node: ComputeNodesRow, requested: dict[str, int],
         statuses: tuple[str, str, str, str]) -> bool:
    """Record that a move holds a claim on a node (a compute_nodes row); return whether the move may hold it.

    Return False if the move's status is not in ``statuses``, or if the move holds a share already. Then the caller must
    release the claim with claims.free_node.
    """
    c = t.migrations.c
    statement = sa.update(t.migrations).where(
        c.id == migration_id, c.claimed_host.is_(None), c.claims_swapped.is_(sa.false()),
        c.status.in_(statuses)).values(
        updated_at=utils.utcnow(), dest_compute=node['host'], dest_node=node['node'], dest_host=node['host_ip'],
        claimed_host=node['host'], claimed_node=node['node'],
        **{f'claimed_{name}': requested[name] for name in claims.RESOURCES})
    return bool(conn.execute(statement).rowcount)


def swap(conn: sa.Connection, migration: MigrationsRow, *, forward: bool, expect: ColumnValues,
         values: dict[str, str] | None = None, status: str | None = None,
         arguments: JsonDocument | None = None, running: bool = False) -> InstancesRow:
    """Move the server: write the other host and flavor into its row. The move then holds the row's former share.

    :param migration: row of the move
    :param forward: True for the destination and the new flavor, False for the return to the source
    :param expect: {column: allowed values} of the instances row
    :param values: other columns of the instances row
    :param status, arguments: new values of the move, or None to leave them unchanged
    :param running: whether the guest kept running, so that open consoles may follow it
    :returns: the new instances row
    :raises InstanceChanged, InstanceNotFound: the server or the move is not as expected; the caller must roll back
    """
    uuid = migration['instance_uuid']
    instances.lock(conn, uuid)
    row = instances.get(conn, uuid)
    flavor, host, node = ((migration['new_flavor'], migration['dest_compute'], migration['dest_node']) if forward else
                          (migration['old_flavor'], migration['source_compute'], migration['source_node']))
    place = {'host': host, 'node': node, 'availability_zone': zones.of(conn, [host]).get(host) if host else None,
             'numa_topology': migration['claimed_numa_topology']}
    claim = {f'claimed_{name}': value for name, value in claims.resources(row).items()}
    changed = instances.update_where(conn, uuid, {**flavor_values(flavor), **place, **(values or {})}, expect)
    (console_tokens.delete_unused if running else console_tokens.delete)(conn, uuid)
    new: dict[str, Any] = {'claimed_host': row['host'], 'claimed_node': row['node'], **claim,
                           'claims_swapped': forward, 'claimed_numa_topology': row['numa_topology']}
    if status is not None:
        new['status'] = status
    if arguments is not None:
        new['arguments'] = arguments
    if changed is None or not update(conn, migration['id'], new, {
            'claims_swapped': not forward, 'claimed_host': host, 'claimed_node': node}):
        raise exception.InstanceChanged(instance_id=uuid)
    if pci.requested(row['flavor']) or pci.requested(flavor):
        pci_devices.swap(conn, uuid)
    return changed


def keep(conn: sa.Connection, migration_id: int) -> None:
    """End a move of a server that remains on its node and got the new flavor in this transaction.

    The server keeps as much of the claim as the flavors differ by; the rest is released.
    """
    migration = get(conn, migration_id, lock=True)
    old, new = migration['old_flavor'], migration['new_flavor']
    claimed = _claimed(migration)
    update(conn, migration_id, {f'claimed_{name}': claimed[name] - (new[name] - old[name])
                                for name in ('vcpus', 'memory_mb')})
    release(conn, migration_id, status='confirmed')


def release(conn: sa.Connection, migration_id: int, status: str | None = None,
            expect: ColumnValues | None = None) -> bool:
    """Release the share of a move and set its status; return whether the move had an expected status. Idempotent."""
    migration = get(conn, migration_id, lock=True)
    values = dict(_NOTHING) if status is None else {**_NOTHING, 'status': status}
    if not update(conn, migration_id, values, expect):
        return False
    host, node = migration['claimed_host'], migration['claimed_node']
    if host is not None and node is not None:
        claims.free_share(conn, host, node, _claimed(migration))
        if migration['claimed_numa_topology'] is not None:
            numa_claims.free(conn, host, node, migration['claimed_numa_topology'])
        if pci.requested(migration['old_flavor'] if migration['claims_swapped'] else migration['new_flavor']):
            pci_devices.release(conn, host, node, migration['instance_uuid'], claimed_by_move=True)
    return True


def _claimed(migration: MigrationsRow) -> dict[str, int]:
    """Return {resource in claims.RESOURCES: amount that the move holds}."""
    return {'vcpus': migration['claimed_vcpus'], 'memory_mb': migration['claimed_memory_mb'],
            'local_gb': migration['claimed_local_gb']}


def needs(conn: sa.Connection, uuid: str) -> tuple[int, int] | None:
    """Return the largest vCPUs and MiB of memory among the flavors of a server and its moves; None: no such server."""
    return needs_many(conn, [uuid]).get(uuid)


def needs_many(conn: sa.Connection, uuids: list[str]) -> dict[str, tuple[int, int]]:
    """Return {instance uuid: (vCPUs, MiB of memory)} of existing servers; see needs."""
    columns = (t.instances.c.uuid, t.instances.c.vcpus, t.instances.c.memory_mb)
    sizes = {row.uuid: [(row.vcpus, row.memory_mb)] for row in conn.execute(
        sa.select(*columns).where(t.instances.c.uuid.in_(uuids)))}
    moves = sa.select(t.migrations.c.instance_uuid, t.migrations.c.old_flavor, t.migrations.c.new_flavor).where(
        t.migrations.c.instance_uuid.in_(uuids), t.migrations.c.status.not_in(OVER))
    for move in conn.execute(moves):
        for flavor in (move.old_flavor, move.new_flavor):
            sizes.get(move.instance_uuid, []).append((flavor['vcpus'], flavor['memory_mb']))
    return {uuid: (max(vcpus for vcpus, _ in found), max(memory for _, memory in found))
            for uuid, found in sizes.items()}


def begin_end(conn: sa.Connection, ctx: nova_context.RequestContext, uuid: str, action: Action, status: str,
              admin: bool | None = False) -> InstancesRow:
    """Begin the confirmation or the revert (``action``) of a resized server; return its instances row.

    :param status: new status of the server's move
    :raises NotResized: no move of the server waits for this action
    :raises InstanceInvalidState: see tasks.begin, also for other errors
    """
    row = tasks.begin(conn, ctx, uuid, action, admin=admin)
    found = [move for move in open_of(conn, uuid) if move['status'] == 'finished']
    if not found or not update(conn, found[-1]['id'], {'status': status}, {'status': 'finished'}):
        raise exception.NotResized(instance_id=uuid)
    return row


def abandon(conn: sa.Connection, uuid: str) -> None:
    """End the unfinished moves of a server with the status error, and release their shares."""
    for move in open_of(conn, uuid):
        release(conn, move['id'], status='error')


def flavor_values(flavor: Flavor) -> dict[str, ColumnValue]:
    """Return the columns of an instances row that a flavor determines."""
    return {'flavor': flavor, 'flavor_id': flavor['flavor_id'], 'vcpus': flavor['vcpus'],
            'memory_mb': flavor['memory_mb'], 'root_gb': flavor['root_gb'], 'ephemeral_gb': flavor['ephemeral_gb']}
