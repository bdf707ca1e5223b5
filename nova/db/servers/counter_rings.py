"""Stored ring buffers of usage counters (nova/objects/counter_rings.py).

A row contains the ring buffer of one owner (server or node) with slots of ``step`` seconds.
"""
from collections.abc import Mapping
import zlib

import sqlalchemy as sa

from nova.db import engine
from nova.db.tables import cell as t
from nova.objects import counter_rings
from nova.objects.counters import Counters

_c = t.counter_rings.c
_READ = sa.select(_c.owner_uuid, _c.data).where(
    _c.step == sa.bindparam('step'), _c.owner_uuid.in_(sa.bindparam('owners', expanding=True)))
_READ_LOCKED = _READ.order_by(_c.owner_uuid).with_for_update()
_WRITE = sa.update(t.counter_rings).where(
    _c.owner_uuid == sa.bindparam('owner'), _c.step == sa.bindparam('of_step')).values(data=sa.bindparam('ring'))
_SERVERS = sa.select(t.instances.c.uuid).where(t.instances.c.host == sa.bindparam('host'))
_NODES = sa.select(t.compute_nodes.c.node, t.compute_nodes.c.uuid).where(
    t.compute_nodes.c.host == sa.bindparam('host'))


def servers_of(conn: sa.Connection, host: str) -> set[str]:
    """Return the uuids of the servers of a host."""
    return set(conn.execute(_SERVERS, {'host': host}).scalars())


def nodes_of(conn: sa.Connection, host: str) -> dict[str, str]:
    """Return {node: uuid} of the compute nodes of a host."""
    return {node: uuid for node, uuid in conn.execute(_NODES, {'host': host})}


def record(conn: sa.Connection, source: str, order: float, samples: Mapping[str, Counters], now: float) -> None:
    """Add samples to the rings of their owners. A ring with longer slots is read and written only when a slot ends.

    :param source: host and boot that counted
    :param order: monotonic time of the samples on their host
    :param samples: {uuid of a server or compute node: Counters}
    :param now: seconds since 1970
    """
    step = counter_rings.FINEST
    stored = _stored(conn, step, samples, lock=True)
    changed: dict[str, counter_rings.Ring] = {}
    ended: dict[int, dict[str, tuple[int, counter_rings.SlotValues]]] = {}
    for owner, sample in samples.items():
        ring = counter_rings.CounterRing(stored.get(owner))
        slots = ring.record(zlib.crc32(f'{source} {sample.run}'.encode()), order, sample, now)
        if slots is not None:
            changed[owner] = ring
            for coarse, slot in slots.items():
                ended.setdefault(coarse, {})[owner] = slot
    _write(conn, step, changed, stored)
    for coarse, slots_of in ended.items():
        stored = _stored(conn, coarse, slots_of)
        changed = {owner: counter_rings.Ring(coarse, stored.get(owner)) for owner in slots_of}
        for owner, (number, values) in slots_of.items():
            changed[owner].add(number, values)
        _write(conn, coarse, changed, stored)


def _stored(conn: sa.Connection, step: int, owners: Mapping[str, object], lock: bool = False) -> dict[str, bytes]:
    found = conn.execute(_READ_LOCKED if lock else _READ, {'step': step, 'owners': list(owners)})
    return {owner: data for owner, data in found}


def _write(conn: sa.Connection, step: int, rings: Mapping[str, counter_rings.Ring],
           stored: Mapping[str, bytes]) -> None:
    known = [{'owner': owner, 'of_step': step, 'ring': bytes(ring.data)} for owner, ring in rings.items()
             if owner in stored]
    new = [{'owner_uuid': owner, 'step': step, 'data': bytes(ring.data)} for owner, ring in rings.items()
           if owner not in stored]
    if known:
        conn.execute(_WRITE, known)
    if new:
        engine.insert_many_ignore(conn, t.counter_rings, new)


def read(conn: sa.Connection, owner: str, step: int) -> dict[int, bytes]:
    """Return {step: data} of two rings of a server or compute node: the finest ring, and the ring with this step."""
    return {found: data for found, data in conn.execute(sa.select(_c.step, _c.data).where(
        _c.owner_uuid == owner, _c.step.in_({counter_rings.FINEST, step})))}


def delete_orphans(conn: sa.Connection) -> int:
    """Delete the rings of deleted servers and removed compute nodes; return their number."""
    return conn.execute(sa.delete(t.counter_rings).where(
        _c.owner_uuid.not_in(sa.select(t.instances.c.uuid)),
        _c.owner_uuid.not_in(sa.select(t.compute_nodes.c.uuid)))).rowcount
