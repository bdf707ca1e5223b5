"""Host aggregates in the API database: groups of hosts with metadata. Some aggregates define an availability zone.

Changes of members or zones begin with ``lock``, because no constraint of the database enforces that a host is in at
most one zone.
"""
import builtins
from collections.abc import Sequence
import datetime
from typing import Any, cast, Final, TypedDict
import uuid as uuidlib

import sqlalchemy as sa
from oslo_db import exception as db_exc

from nova import exception
from nova import utils
from nova.db import engine
from nova.db.projects import quotas
from nova.db.tables.aggregates import aggregate_hosts
from nova.db.tables.aggregates import aggregates
from nova.db.types import ColumnValues

ZONE: Final = 'availability_zone'          # metadata key of the availability zone, which is stored in a column


class Aggregate(TypedDict):
    """An aggregate with its sorted hosts. ``metadata`` does not contain the zone."""

    id: int
    uuid: str
    name: str
    availability_zone: str | None
    metadata: dict[str, str]
    created_at: datetime.datetime
    updated_at: datetime.datetime | None
    hosts: 'builtins.list[str]'


def lock(conn: sa.Connection) -> None:
    """Lock the members and zones of all aggregates until this transaction ends."""
    quotas.lock(conn, 'aggregates:')


def get(conn: sa.Connection, aggregate_id: int) -> Aggregate:
    """Return an aggregate.

    :raises AggregateNotFound: it does not exist
    """
    row = conn.execute(sa.select(aggregates).where(aggregates.c.id == aggregate_id)).mappings().first()
    if row is None:
        raise exception.AggregateNotFound(aggregate_id=aggregate_id)
    return _with_hosts(conn, [row])[0]


def list(conn: sa.Connection) -> builtins.list[Aggregate]:
    """Return all aggregates in the form of ``get``, oldest first."""
    return _with_hosts(conn, conn.execute(sa.select(aggregates).order_by(aggregates.c.id)).mappings().all())


def _with_hosts(conn: sa.Connection, rows: Sequence[sa.RowMapping]) -> builtins.list[Aggregate]:
    hosts: dict[Any, Any] = {}
    found = sa.select(aggregate_hosts).order_by(aggregate_hosts.c.host)
    if len(rows) == 1:
        found = found.where(aggregate_hosts.c.aggregate_id == rows[0]['id'])
    for aggregate_id, host in conn.execute(found) if rows else ():
        hosts.setdefault(aggregate_id, []).append(host)
    return [cast(Aggregate, {**row, 'hosts': hosts.get(row['id'], [])}) for row in rows]


def create(conn: sa.Connection, name: str, zone: str | None) -> Aggregate:
    """Create an aggregate without hosts; return its row.

    :raises AggregateNameExists: the name is in use
    """
    row: dict[str, Any] = {'uuid': str(uuidlib.uuid4()), 'name': name, ZONE: zone, 'metadata': {},
                           'created_at': utils.utcnow()}
    if not engine.insert_ignore(conn, aggregates, row).rowcount:
        raise exception.AggregateNameExists(aggregate_name=name)
    return get(conn, conn.execute(sa.select(aggregates.c.id).where(aggregates.c.uuid == row['uuid'])).scalar_one())


def update(conn: sa.Connection, aggregate_id: int, values: ColumnValues) -> Aggregate:
    """Update columns; return the new row. The caller must hold the lock to change the zone.

    :raises AggregateNotFound, AggregateNameExists, ZoneConflict:
    """
    row = get(conn, aggregate_id)
    if zone := values.get(ZONE):
        _refuse_two_zones(conn, aggregate_id, row['hosts'], str(zone))
    try:
        conn.execute(sa.update(aggregates).where(aggregates.c.id == aggregate_id)
                     .values(updated_at=utils.utcnow(), **values))
    except db_exc.DBDuplicateEntry:
        raise exception.AggregateNameExists(aggregate_name=values['name']) from None
    return get(conn, aggregate_id)


def set_metadata(conn: sa.Connection, aggregate_id: int, changes: dict[str, str | None]) -> Aggregate:
    """Set metadata items, or remove items that are None; return the new row. The caller must hold the lock.

    :raises AggregateNotFound, ZoneConflict:
    """
    changes = dict(changes)
    values = {ZONE: changes.pop(ZONE)} if ZONE in changes else {}
    merged = {**get(conn, aggregate_id)['metadata'], **changes}
    return update(conn, aggregate_id, {
        'metadata': {key: value for key, value in merged.items() if value is not None}, **values})


def delete(conn: sa.Connection, aggregate_id: int) -> None:
    """Remove an aggregate without hosts. The caller must hold the lock.

    :raises AggregateNotFound, AggregateNotEmpty:
    """
    if get(conn, aggregate_id)['hosts']:
        raise exception.AggregateNotEmpty(aggregate_id=aggregate_id)
    conn.execute(sa.delete(aggregates).where(aggregates.c.id == aggregate_id))


def add_host(conn: sa.Connection, aggregate_id: int, host: str) -> Aggregate:
    """Add a host; return the aggregate. The caller must hold the lock.

    :raises AggregateNotFound, AggregateHostExists, ZoneConflict:
    """
    row = get(conn, aggregate_id)
    if row[ZONE]:
        _refuse_two_zones(conn, aggregate_id, [host], row[ZONE])
    if not engine.insert_ignore(conn, aggregate_hosts, {'aggregate_id': aggregate_id, 'host': host}).rowcount:
        raise exception.AggregateHostExists(aggregate_id=aggregate_id, host=host)
    return _touched(conn, aggregate_id)


def remove_host(conn: sa.Connection, aggregate_id: int, host: str) -> Aggregate:
    """Remove a host; return the aggregate. The caller must hold the lock.

    :raises AggregateNotFound, AggregateHostNotFound:
    """
    get(conn, aggregate_id)
    if not conn.execute(sa.delete(aggregate_hosts).where(
            aggregate_hosts.c.aggregate_id == aggregate_id, aggregate_hosts.c.host == host)).rowcount:
        raise exception.AggregateHostNotFound(aggregate_id=aggregate_id, host=host)
    return _touched(conn, aggregate_id)


def _touched(conn: sa.Connection, aggregate_id: int) -> Aggregate:
    conn.execute(sa.update(aggregates).where(aggregates.c.id == aggregate_id).values(updated_at=utils.utcnow()))
    return get(conn, aggregate_id)


def forget_host(conn: sa.Connection, host: str) -> None:
    """Remove a deleted host from all aggregates."""
    lock(conn)
    conn.execute(sa.delete(aggregate_hosts).where(aggregate_hosts.c.host == host))


def zone_names(conn: sa.Connection) -> set[str]:
    """Return the zones defined by aggregates, with or without hosts."""
    return set(conn.scalars(sa.select(aggregates.c.availability_zone).where(
        aggregates.c.availability_zone.is_not(None)).distinct()))


def zones(conn: sa.Connection, hosts: builtins.list[str] | None = None) -> dict[str, str]:
    """Return {host: zone} of hosts with a zone from an aggregate.

    :param hosts: only these hosts, or None for all
    """
    statement = sa.select(aggregate_hosts.c.host, aggregates.c.availability_zone).where(
        aggregate_hosts.c.aggregate_id == aggregates.c.id, aggregates.c.availability_zone.is_not(None))
    if hosts is not None:
        statement = statement.where(aggregate_hosts.c.host.in_(hosts))
    return {host: zone for host, zone in conn.execute(statement)}


def described(conn: sa.Connection, hosts: builtins.list[str] | None = None) -> dict[str, builtins.list[dict[str, Any]]]:
    """Return {host: [{'id', 'uuid', 'name', 'metadata'}]}: the aggregates of each host, sorted by id.

    The metadata include the zone. Hosts in the same aggregates share one list object.
    :param hosts: only these hosts, or None for all
    """
    statement = sa.select(aggregate_hosts.c.host, aggregate_hosts.c.aggregate_id).order_by(
        aggregate_hosts.c.aggregate_id)
    if hosts is not None:
        statement = statement.where(aggregate_hosts.c.host.in_(hosts))
    ids: dict[Any, Any] = {}
    for host, number in conn.execute(statement):
        ids[host] = (*ids.get(host, ()), number)
    known = {row['id']: _described(row) for row in conn.execute(sa.select(aggregates).where(
        aggregates.c.id.in_({number for numbers in ids.values() for number in numbers}))).mappings()} if ids else {}
    lists = {numbers: [known[number] for number in numbers] for numbers in set(ids.values())}
    return {host: lists[numbers] for host, numbers in ids.items()}


def _described(row: sa.RowMapping) -> dict[str, Any]:
    metadata = {**row['metadata'], **({ZONE: row[ZONE]} if row[ZONE] else {})}
    return {'id': row['id'], 'uuid': row['uuid'], 'name': row['name'], 'metadata': dict(sorted(metadata.items()))}


def _refuse_two_zones(conn: sa.Connection, aggregate_id: int, hosts: builtins.list[str], zone: str) -> None:
    """Check that no host is in another zone.

    :raises ZoneConflict: another aggregate puts one of the hosts into another zone
    """
    others = conn.execute(sa.select(aggregate_hosts.c.host, aggregates.c.availability_zone).where(
        aggregate_hosts.c.aggregate_id == aggregates.c.id, aggregates.c.id != aggregate_id,
        aggregate_hosts.c.host.in_(hosts), aggregates.c.availability_zone.is_not(None)))
    for host, other in others:
        if other != zone:                # compared here because MariaDB ignores case
            raise exception.ZoneConflict(host=host, zone=other)
