"""Rows of services, one for each daemon and host, updated by heartbeats."""
import builtins
from collections.abc import Collection, Iterable, Mapping, Sequence
import datetime
from typing import Any, cast
import uuid as uuidlib

import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.db import engine
from nova.db import statements
from nova.db.placement import pci_devices
from nova.db.tables.cell import compute_nodes
from nova.db.tables.cell import services
from nova.db.tables.rows import ServicesRow
from nova.db.types import ColumnValues

AUTOMATIC = 'AUTO: '  # prefix of disabled_reason if the host disabled its service; the host enables it again
HEARTBEAT_TIMEOUT_S = 20  # seconds without a heartbeat after which a compute service may have been treated as down


def report(conn: sa.Connection, host: str, binary: str, topic: str, zone: str, version: int) -> ServicesRow:
    """Record a heartbeat and return the row as a dict. The first heartbeat inserts the row.

    The nodes of a host that was down are marked as changed, so that the schedulers use the host again immediately.
    """
    now = utils.utcnow()
    mine = {'host': host, 'binary': binary}
    row = statements.first(conn, services, **mine)
    if row is None:
        engine.insert_ignore(conn, services, dict(
            uuid=str(uuidlib.uuid4()), host=host, binary=binary, topic=topic, availability_zone=zone,
            version=version, created_at=now, last_seen_at=now, disabled=False, forced_down=False))
    else:
        statements.update(conn, services, {'last_seen_at': now, 'version': version, 'topic': topic}, id=row['id'])
    seen = row and row['last_seen_at']
    if topic == 'compute' and (seen is None or (now - seen).total_seconds() > HEARTBEAT_TIMEOUT_S):
        touch_nodes(conn, [host])
    return statements.one(conn, services, **mine)


def touch_nodes(conn: sa.Connection, hosts: Collection[str] | sa.Select[Any]) -> None:
    """Mark the nodes of hosts as changed for the schedulers.

    :param hosts: names of the hosts, or a SELECT of the names
    """
    conn.execute(sa.update(compute_nodes).where(compute_nodes.c.host.in_(hosts)).values(change_number=utils.change_number()))


def get(conn: sa.Connection, service_id: str | int) -> ServicesRow:
    """Return a service by its uuid or number.

    :raises ServiceNotFound: it does not exist
    """
    text = str(service_id)
    if len(text) == 36:
        condition = services.c.uuid == text
    elif text.isascii() and text.isdigit() and len(text) <= 9:
        condition = services.c.id == int(text)
    else:
        raise exception.ServiceNotFound(service_id=service_id)
    row = conn.execute(sa.select(services).where(condition)).mappings().first()
    if row is None:
        raise exception.ServiceNotFound(service_id=service_id)
    return statements.to_dict(row)


def update(conn: sa.Connection, service_id: str | int, values: ColumnValues) -> ServicesRow:
    """Update a service (disabled, disabled_reason, forced_down, …); return the row.

    Its compute nodes are marked as changed for the schedulers.
    :raises ServiceNotFound: it does not exist
    """
    row = get(conn, service_id)
    conn.execute(sa.update(services).where(services.c.id == row['id'])
                 .values({'updated_at': utils.utcnow(), **values}))
    touch_nodes(conn, [row['host']])
    return cast('ServicesRow', {**row, **values})        # the keys of ``values`` are columns


def set_availability(conn: sa.Connection, host: str, reason: str) -> Sequence[ServicesRow]:
    """Disable the compute service of a host that cannot accept servers, or enable it again.

    :param reason: reason for disabling the service, or '' to enable it; a new reason replaces an earlier one
    :returns: the changed rows
    """
    wanted = (AUTOMATIC + reason)[:255] if reason else None
    changed = []
    # lock the rows, because an operator may change them concurrently
    for row in statements.dicts(conn.execute(sa.select(services).where(
            services.c.host == host, services.c.topic == 'compute').order_by(services.c.id).with_for_update())):
        ours = row['disabled'] and (row['disabled_reason'] or '').startswith(AUTOMATIC)
        if row['disabled_reason'] != wanted if ours else reason and not row['disabled']:
            changed.append(update(conn, row['id'], {'disabled': bool(reason), 'disabled_reason': wanted}))
    return changed


def delete(conn: sa.Connection, service_id: str) -> ServicesRow:
    """Delete a service and its compute nodes. If the daemon still runs, its next report inserts the service again.

    :raises ServiceNotFound: it does not exist
    """
    row = get(conn, service_id)
    conn.execute(sa.delete(services).where(services.c.id == row['id']))
    if row['topic'] == 'compute':
        conn.execute(sa.delete(compute_nodes).where(compute_nodes.c.host == row['host']))
        pci_devices.forget(conn, row['host'])
    return row


def refuse_running(conn: sa.Connection, service_id: str, down_time: int) -> None:
    """Check that a service does not run, before it is deleted. The next report of a running service would insert its
    row again, enabled, even if the service was forced down.

    :raises ServiceNotFound, ServiceRunning:
    """
    row = get(conn, service_id)
    row['forced_down'] = False
    now = utils.utcnow()
    silent_s = None if row['last_seen_at'] is None else int((now - row['last_seen_at']).total_seconds())
    if is_up(row, down_time, now):
        raise exception.ServiceRunning(
            binary=row['binary'], host=row['host'], reason=f'it reported {silent_s} s ago. Stop it, wait until its '
                                                           f'last report is more than {down_time} s old')
    gap = unheard(conn, now)
    if gap is not None and gap.total_seconds() > down_time and any_up(conn, [row], down_time):
        raise exception.ServiceRunning(
            binary=row['binary'], host=row['host'], reason=f'it reported {silent_s} s ago, and no service of its cell '
                                                           'has reported since, so it may run. Start a conductor of '
                                                           'the cell')


def others_of_host(conn: sa.Connection, host: str, but: int) -> bool:
    """Tell whether a host has another service in this cell than the one with the id ``but``."""
    return conn.execute(sa.select(services.c.id).where(
        services.c.host == host, services.c.id != but).limit(1)).first() is not None


def is_up(row: Mapping[str, Any] | sa.RowMapping, down_time: int, now: datetime.datetime) -> bool:
    """Tell whether a service is up: not forced down, with a heartbeat within ``down_time`` seconds."""
    seen = row['last_seen_at']
    return not row['forced_down'] and seen is not None and abs((now - seen).total_seconds()) <= down_time


def any_up(conn: sa.Connection, rows: Iterable[Mapping[str, Any] | sa.RowMapping], down_time: int) -> bool:
    """Tell whether one of these services of a cell counts as up for decisions about servers, such as an evacuation.

    The age of a heartbeat is measured at the time of the cell's newest heartbeat. So no service counts as down while
    heartbeats cannot be written, because the database or all conductors are down. When they run again,
    ``resume`` corrects the rows.
    """
    now = utils.utcnow()
    if any(is_up(row, down_time, now) for row in rows):
        return True
    gap = unheard(conn, now)
    return gap is not None and any(is_up(row, down_time, now - gap) for row in rows)


def host_is_down(conn: sa.Connection, host: str, down_time: int) -> bool:
    """Tell whether a host's compute service is down. The service's row is locked, so a heartbeat waits for the
    transaction's end.
    """
    statement = sa.select(services).where(services.c.host == host, services.c.topic == 'compute').with_for_update()
    return not any_up(conn, statements.dicts(conn.execute(statement)), down_time)


def unheard(conn: sa.Connection, now: datetime.datetime) -> datetime.timedelta | None:
    """Return the time since the newest heartbeat in the cell, or None without heartbeats."""
    newest = conn.execute(sa.select(sa.func.max(services.c.last_seen_at))).scalar()
    return None if newest is None else max(now - newest, datetime.timedelta())


def resume(conn: sa.Connection, down_time: int, quiet_s: int) -> int:
    """If the cell had no heartbeat for ``quiet_s`` seconds, record one now for each service that was up before.

    Call this idempotent function before the next heartbeat is written. Return the number of changed services.
    """
    now = utils.utcnow()
    gap = unheard(conn, now)
    if gap is None or gap.total_seconds() <= quiet_s:
        return 0
    newest = now - gap
    were_up = sa.and_(services.c.last_seen_at <= newest,
                      services.c.last_seen_at >= newest - datetime.timedelta(seconds=down_time))
    touch_nodes(conn, sa.select(services.c.host).where(services.c.topic == 'compute', were_up))
    return conn.execute(sa.update(services).where(were_up).values(last_seen_at=now)).rowcount


def lowest_versions(conn: sa.Connection, down_time: int) -> dict[str, int]:
    """Return {topic: lowest version} of the live services.

    A service is live if its last heartbeat is at most ``down_time`` seconds older than the newest heartbeat. So an
    outage that affects all services excludes no service.
    """
    now = utils.utcnow()
    since = now - (unheard(conn, now) or datetime.timedelta()) - datetime.timedelta(seconds=down_time)
    rows = conn.execute(sa.select(services.c.topic, sa.func.min(services.c.version)).where(
        services.c.last_seen_at >= since).group_by(services.c.topic))
    return {topic: version for topic, version in rows}


def list(conn: sa.Connection, **filters: object) -> builtins.list[ServicesRow]:
    """Return services with columns equal to the filters, oldest first."""
    conditions = [services.c[name] == value for name, value in filters.items() if value is not None]
    return statements.dicts(conn.execute(sa.select(services).where(*conditions).order_by(services.c.id)))
