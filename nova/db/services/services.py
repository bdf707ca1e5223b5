"""Rows of services: one a daemon and host, kept alive by heartbeats."""
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
import datetime
from typing import Any
import uuid as uuidlib

import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.db import engine
from nova.db import statements
from nova.db.placement import pci_devices
from nova.db.tables.cell import compute_nodes
from nova.db.tables.cell import services

AUTOMATIC = 'AUTO: '  # begins the reason of a service that its host has disabled; the host enables it again
AWAY_S = 20          # a compute silent for longer may have been taken for dead


def report(conn: sa.Connection, host: str, binary: str, topic: str, zone: str, version: int) -> Any:
    """A heartbeat; makes the row on first contact. The row as a dict.

    The nodes of a host that was away are marked as changed, so that the schedulers see at once that it is back.
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
    seen: Any = row and row['last_seen_at']
    if topic == 'compute' and (seen is None or (now - seen).total_seconds() > AWAY_S):
        touch_nodes(conn, [host])
    return statements.first(conn, services, **mine)


def touch_nodes(conn: sa.Connection, hosts: Collection[str] | sa.Select[Any]) -> None:
    """Mark the nodes of hosts as changed, so that the schedulers look at them.

    :param hosts: their names, or a SELECT of them
    """
    conn.execute(sa.update(compute_nodes).where(compute_nodes.c.host.in_(hosts)).values(changed=utils.change_number()))


def get(conn: sa.Connection, service_id: str) -> Any:
    """A service by its uuid or its number.

    :raises ServiceNotFound:
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
    return dict(row)


def update(conn: sa.Connection, service_id: str, values: dict[str, Any]) -> dict[Any, Any]:
    """Change a service (disabled, disabled_reason, forced_down, …); the row afterwards.

    Its compute nodes are marked as changed, so that the schedulers see it at their next look.

    :raises ServiceNotFound:
    """
    row = get(conn, service_id)
    conn.execute(sa.update(services).where(services.c.id == row['id'])
                 .values({'updated_at': utils.utcnow(), **values}))
    touch_nodes(conn, [row['host']])
    return {**row, **values}


def set_availability(conn: sa.Connection, host: str, reason: str) -> Sequence[dict[Any, Any]]:
    """Disable the compute service of a host that can take no servers, and enable it when it can again.

    :param reason: why it can take none; '': it can
    :returns: the rows that were changed
    """
    wanted = (AUTOMATIC + reason)[:services.c.disabled_reason.type.length] if reason else None
    changed = []
    # an operator may change the same rows
    for row in statements.dicts(conn.execute(sa.select(services).where(
            services.c.host == host, services.c.topic == 'compute').order_by(services.c.id).with_for_update())):
        ours = row['disabled'] and (row['disabled_reason'] or '').startswith(AUTOMATIC)
        if (ours or not row['disabled']) and bool(row['disabled']) != bool(reason):
            changed.append(update(conn, row['id'], {'disabled': bool(reason), 'disabled_reason': wanted}))
    return changed


def delete(conn: sa.Connection, service_id: str) -> Any:
    """Remove a service, and its compute nodes when it is a compute; it comes back when the daemon reports again.

    :raises ServiceNotFound:
    """
    row = get(conn, service_id)
    conn.execute(sa.delete(services).where(services.c.id == row['id']))
    if row['topic'] == 'compute':
        conn.execute(sa.delete(compute_nodes).where(compute_nodes.c.host == row['host']))
        pci_devices.forget(conn, row['host'])
    return row


def refuse_running(conn: sa.Connection, service_id: str, down_time: int) -> None:
    """Refuse to remove a service that may run, whether it is forced down or not: its next report would make the row
    again, enabled.

    :raises ServiceNotFound, ServiceRunning:
    """
    row = {**get(conn, service_id), 'forced_down': False}
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


def others_of_host(conn: sa.Connection, row: Mapping[str, Any]) -> bool:
    """Whether the host of a service (a row) has another service in this cell."""
    return conn.execute(sa.select(services.c.id).where(
        services.c.host == row['host'], services.c.id != row['id']).limit(1)).first() is not None


def is_up(row: Mapping[str, Any], down_time: int, now: datetime.datetime) -> bool:
    """Whether a service counts as up: not forced down, and heard of within ``down_time`` seconds."""
    seen = row['last_seen_at']
    return not row['forced_down'] and seen is not None and abs((now - seen).total_seconds()) <= down_time


def any_up(conn: sa.Connection, rows: Any, down_time: int) -> bool:
    """Whether one of these services counts as up for who decides about servers; rows of the same cell.

    Silence counts up to the newest heartbeat of any service of the cell: while none could be written, because the
    database refused or no conductor was there, no service goes down. ``resume`` takes it from there.
    """
    now = utils.utcnow()
    if any(is_up(row, down_time, now) for row in rows):
        return True
    gap = unheard(conn, now)
    return gap is not None and any(is_up(row, down_time, now - gap) for row in rows)


def host_is_down(conn: sa.Connection, host: str, down_time: int) -> bool:
    """Whether a host's compute counts as down, and stays so until the transaction ends: a heartbeat waits."""
    statement = sa.select(services).where(services.c.host == host, services.c.topic == 'compute').with_for_update()
    rows = conn.execute(statement).mappings().all()
    return not any_up(conn, rows, down_time)


def unheard(conn: sa.Connection, now: datetime.datetime) -> Any:
    """For how long no service of the cell has been heard of, as a timedelta; None: none ever was."""
    newest = conn.execute(sa.select(sa.func.max(services.c.last_seen_at))).scalar()
    return None if newest is None else max(now - newest, datetime.timedelta())


def resume(conn: sa.Connection, down_time: int, quiet_s: int) -> Any:
    """After ``quiet_s`` seconds without a heartbeat of any service: count those that were up then as heard of now.

    To be called before a heartbeat is written; how many services there were. Called twice it changes nothing.
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


def lowest_versions(conn: sa.Connection, down_time: int) -> dict[Any, Any]:
    """{topic: lowest version of its services} of those that were heard of within ``down_time`` seconds.

    Before the newest heartbeat of all: after a time in which none could be written everybody would be left out.
    """
    now = utils.utcnow()
    since = now - (unheard(conn, now) or datetime.timedelta()) - datetime.timedelta(seconds=down_time)
    rows = conn.execute(sa.select(services.c.topic, sa.func.min(services.c.version)).where(
        services.c.last_seen_at >= since).group_by(services.c.topic))
    return {topic: version for topic, version in rows}


def list(conn: sa.Connection, **filters: Any) -> Any:
    """Services whose columns equal the filters, oldest first."""
    conditions = [services.c[name] == value for name, value in filters.items() if value is not None]
    return statements.dicts(conn.execute(sa.select(services).where(*conditions).order_by(services.c.id)))
