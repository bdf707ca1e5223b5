"""Ownership of service names, and statements that record heartbeats of many services."""
from collections.abc import Collection, Iterable
import datetime
import uuid as uuidlib

import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.db import engine
from nova.db import statements
from nova.db.services import services as services_db
from nova.db.tables.cell import services
from nova.db.tables.rows import ServicesRow

MAX_ROWS = 1000               # maximum number of rows in one statement


def registered(conn: sa.Connection, host: str, binary: str, version: int, identity: str) -> ServicesRow | None:
    """Return the row of a service with these values as a dict, or None."""
    return statements.first(conn, services, host=host, binary=binary, version=version, identity=identity)


def register(conn: sa.Connection, host: str, binary: str, topic: str, zone: str, version: int, identity: str,
             down_time: int) -> ServicesRow:
    """Register an identity as the owner of a service name; return the row as a dict. This records no heartbeat.

    A compute service's name keeps its owner, because the guests depend on the name. Another identity may take the
    name of any other service after ``down_time`` seconds without a heartbeat.
    :raises ServiceExists: another identity owns the name
    """
    now = utils.utcnow()
    mine = {'host': host, 'binary': binary}
    engine.insert_ignore(conn, services, dict(
        uuid=str(uuidlib.uuid4()), topic=topic, availability_zone=zone, version=version, created_at=now,
        disabled=False, forced_down=False, identity=identity, **mine))
    free = services.c.identity.is_(None) | (services.c.identity == identity)
    if topic != 'compute':
        silent = now - datetime.timedelta(seconds=down_time)
        free |= services.c.last_seen_at.is_(None) | (services.c.last_seen_at < silent)
    taken = conn.execute(sa.update(services).where(
        services.c.host == host, services.c.binary == binary, free).values(
        identity=identity, version=version, topic=topic)).rowcount
    if not taken:
        raise exception.ServiceExists(host=host, binary=binary)
    return statements.one(conn, services, **mine)


_KNOWN = sa.select(services.c.id, services.c.host, services.c.binary, services.c.identity).where(
    services.c.host.in_(sa.bindparam('hosts', expanding=True)))
_SEEN = sa.update(services).where(services.c.id.in_(sa.bindparam('ids', expanding=True))).values(
    last_seen_at=sa.bindparam('now', type_=services.c.last_seen_at.type))
_BACK = sa.select(services.c.host).where(
    services.c.id.in_(sa.bindparam('ids', expanding=True)), services.c.topic == 'compute',
    services.c.last_seen_at.is_(None) | (services.c.last_seen_at < sa.bindparam(
        'before', type_=services.c.last_seen_at.type)))


def known(conn: sa.Connection, hosts: Collection[str]) -> dict[tuple[str, str], tuple[int, str | None]]:
    """Return {(host, binary): (id, identity)} of all services of these hosts."""
    found, hosts = {}, sorted(hosts)
    for begin in range(0, len(hosts), MAX_ROWS):
        rows = conn.execute(_KNOWN, {'hosts': hosts[begin:begin + MAX_ROWS]})
        found.update({(row.host, row.binary): (row.id, row.identity) for row in rows})
    return found


def seen(conn: sa.Connection, numbers: Iterable[int]) -> int:
    """Record heartbeats of the services with these ids; return the number of services.

    The nodes of compute services that were down are marked as changed, so that the schedulers see them immediately.
    """
    now, numbers, count = utils.utcnow(), sorted(numbers), 0
    for begin in range(0, len(numbers), MAX_ROWS):
        ids = {'ids': numbers[begin:begin + MAX_ROWS]}
        back = conn.execute(_BACK, {
            **ids, 'before': now - datetime.timedelta(seconds=services_db.HEARTBEAT_TIMEOUT_S)}).scalars().all()
        if back:
            services_db.touch_nodes(conn, back)
        count += conn.execute(_SEEN, {**ids, 'now': now}).rowcount
    return count
