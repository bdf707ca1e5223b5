"""Zones and aggregates of a cell's compute hosts, copied from the API database into the cell's rows.

The schedulers read changed rows by change number, so they need no separate queries for zones and aggregates.
"""
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.db.tables import cell as t

_COMPUTE = t.services.c.topic == 'compute'


def of(conn: sa.Connection, hosts: list[str] | None = None) -> dict[str, str]:
    """Return {host: zone} of the compute services.

    :param hosts: only these hosts, or None for all
    """
    return {host: zone for host, zone, _ in rows(conn, hosts)}


def existing(conn: sa.Connection, names: Iterable[str]) -> set[str]:
    """Return the subset of names that are zones of compute services."""
    return set(conn.execute(sa.select(t.services.c.availability_zone).where(
        t.services.c.availability_zone.in_(set(names)), _COMPUTE).distinct()).scalars())


def aggregates_of(conn: sa.Connection, hosts: list[str] | None = None) -> dict[str, list[dict[str, Any]]]:
    """Return {host: its aggregates in the form of db.aggregates.described} of the compute services."""
    return {host: listed for host, _, listed in rows(conn, hosts)}


def rows(conn: sa.Connection, hosts: list[str] | None = None) -> Sequence[Any]:
    """Return [(host, zone, aggregates)] of the compute services."""
    statement = sa.select(t.services.c.host, t.services.c.availability_zone, t.services.c.aggregates).where(_COMPUTE)
    if hosts is not None:
        statement = statement.where(t.services.c.host.in_(hosts))
    return conn.execute(statement).all()


def move(conn: sa.Connection, wanted: dict[str, str]) -> None:
    """Move hosts to the zones {host: zone}; hosts of other cells are ignored.

    The nodes are locked first. Every claim needs this lock, so no server can arrive between the check and the update.
    :raises HostHasServers: a host with servers would change its zone; the caller must roll back
    """
    changing = _changing(of(conn, list(wanted)), wanted)
    if not changing:
        return
    conn.execute(sa.select(t.compute_nodes.c.id).where(t.compute_nodes.c.host.in_(list(changing)))
                 .order_by(t.compute_nodes.c.id).with_for_update())
    _refuse_busy(conn, changing)
    _write_zones(conn, changing)


def check(conn: sa.Connection, wanted: dict[str, str]) -> None:
    """Check whether ``move`` is possible now. Callers check all cells before they change the first one.

    :raises HostHasServers: a host with servers would change its zone
    """
    changing = _changing(of(conn, list(wanted)), wanted)
    if changing:
        _refuse_busy(conn, changing)


def _refuse_busy(conn: sa.Connection, changing: dict[str, str]) -> None:
    # the hosts of servers, and the hosts on which moves hold a claim
    for column in (t.instances.c.host, t.migrations.c.claimed_host):
        busy = sa.select(column).where(column.in_(list(changing))).limit(1)
        found = conn.execute(busy).scalar()
        if found is not None:
            raise exception.HostHasServers(host=found)


def describe(conn: sa.Connection, wanted: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Write aggregates, {host: list in the form of db.aggregates.described}, into the hosts' rows; return the changes.

    One UPDATE changes all hosts in the same aggregates.
    """
    changing = _changing(aggregates_of(conn, list(wanted)), wanted)
    batches: dict[Any, Any] = {}
    for host, listed in changing.items():
        batches.setdefault(utils.dump_json(listed), []).append(host)
    for hosts in batches.values():
        conn.execute(sa.update(t.services).where(t.services.c.host.in_(hosts), _COMPUTE)
                     .values(aggregates=changing[hosts[0]]))
    _mark(conn, list(changing))
    return changing


def mend(conn: sa.Connection, wanted: dict[str, str]) -> dict[str, str]:
    """Correct the zones of hosts and their servers that differ from {host: zone}; return the changed {host: zone}."""
    changing = _changing(of(conn, list(wanted)), wanted)
    _write_zones(conn, changing)
    for zone, hosts in _by_zone(changing).items():
        conn.execute(sa.update(t.instances).where(t.instances.c.host.in_(hosts)).values(availability_zone=zone))
    return changing


def current(host: str) -> sa.ScalarSelect[Any]:
    """Return an SQL expression for the current zone of a host; the scheduler's data may be stale."""
    return sa.select(t.services.c.availability_zone).where(t.services.c.host == host, _COMPUTE).scalar_subquery()


def _changing(present: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the items of ``wanted`` {host: value} that differ from ``present``; other hosts are ignored."""
    return {host: value for host, value in wanted.items() if present.get(host, value) != value}


def _by_zone(changing: dict[str, str]) -> dict[str, list[str]]:
    found: dict[Any, Any] = {}
    for host, zone in changing.items():
        found.setdefault(zone, []).append(host)
    return found


def _write_zones(conn: sa.Connection, changing: dict[str, str]) -> None:
    for zone, hosts in _by_zone(changing).items():
        conn.execute(sa.update(t.services).where(t.services.c.host.in_(hosts), _COMPUTE)
                     .values(availability_zone=zone))
    _mark(conn, list(changing))


def _mark(conn: sa.Connection, hosts: list[str]) -> None:
    """Make the schedulers read these hosts again."""
    if hosts:
        conn.execute(sa.update(t.compute_nodes).where(t.compute_nodes.c.host.in_(hosts))
                     .values(change_number=utils.change_number()))
