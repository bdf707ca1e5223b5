"""Trunks: the device of a parent port carries the traffic of further ports, the subports, in VLANs."""
from collections.abc import Collection
from collections.abc import Iterable
from typing import NamedTuple

import sqlalchemy as sa

from nova import utils
from nova.db import statements
from nova.db.networks import networks
from nova.db.networks import revisions
from nova.db.tables import network as t
from nova.db.tables.rows import TrunkSubportsRow
from nova.db.tables.rows import TrunksRow

SUBPORT = 'trunk:subport'            # device_owner of subports; their device_id is the trunk's id
VLAN = 'vlan'                        # the segmentation type of subports


class Details(NamedTuple):
    """A subport in the API's representation of a trunk."""

    port_id: str
    segmentation_type: str
    segmentation_id: int
    mac_address: str


def of_ports(conn: sa.Connection, port_ids: Collection[str]) -> dict[str, TrunksRow]:
    """Return {port id: trunk} of parent ports."""
    rows: list[TrunksRow] = statements.dicts(conn.execute(
        sa.select(t.trunks).where(t.trunks.c.port_id.in_(list(port_ids))))) if port_ids else []
    return {row['port_id']: row for row in rows}


_DETAILS = sa.select(t.trunk_subports, t.ports.c.mac_address).join(
    t.ports, t.ports.c.id == t.trunk_subports.c.port_id).where(
        t.trunk_subports.c.trunk_id.in_(sa.bindparam('of_trunks', expanding=True))).order_by(
            t.trunk_subports.c.segmentation_id)


def subports(conn: sa.Connection, trunk_ids: Collection[str]) -> dict[str, list[Details]]:
    """Return {trunk id: subports in the order of their VLANs}."""
    found: dict[str, list[Details]] = {ident: [] for ident in trunk_ids}
    for row in conn.execute(_DETAILS, {'of_trunks': list(trunk_ids)}) if trunk_ids else ():
        found[row.trunk_id].append(Details(row.port_id, row.segmentation_type, row.segmentation_id, row.mac_address))
    return found


def of_subports(conn: sa.Connection, port_ids: Collection[str]) -> dict[str, TrunkSubportsRow]:
    """Return {port id: row} of the ports that are subports."""
    rows: list[TrunkSubportsRow] = statements.dicts(conn.execute(
        sa.select(t.trunk_subports).where(t.trunk_subports.c.port_id.in_(list(port_ids))))) if port_ids else []
    return {row['port_id']: row for row in rows}


def parents(conn: sa.Connection, port_ids: Collection[str]) -> set[str]:
    """Return the ids of the parent ports of subports."""
    return set(conn.execute(sa.select(t.trunks.c.port_id).join(
        t.trunk_subports, t.trunk_subports.c.trunk_id == t.trunks.c.id).where(
            t.trunk_subports.c.port_id.in_(list(port_ids)))).scalars()) if port_ids else set()


def unused_subports(conn: sa.Connection, port_ids: Collection[str]) -> set[str]:
    """Return the subset of subports with a parent port that has no device."""
    return set(conn.execute(sa.select(t.trunk_subports.c.port_id).join(
        t.trunks, t.trunks.c.id == t.trunk_subports.c.trunk_id).join(
            t.ports, t.ports.c.id == t.trunks.c.port_id).where(
                t.trunk_subports.c.port_id.in_(list(port_ids)), t.ports.c.device_id == '')).scalars(),
    ) if port_ids else set()


def add(conn: sa.Connection, trunk_id: str, parent_id: str, rows: list[TrunkSubportsRow]) -> None:
    """Add subports to a trunk and copy the host and status of the parent port to them."""
    idents = [row['port_id'] for row in rows]
    if idents:
        revisions.execute(conn, sa.insert(t.trunk_subports), [{**row} for row in rows])
        _change(conn, idents, device_owner=SUBPORT, device_id=trunk_id)
        follow(conn, t.ports.c.id == parent_id)


def remove(conn: sa.Connection, port_ids: Collection[str]) -> None:
    """Remove subports from their trunk and unbind them."""
    if port_ids:
        revisions.execute(conn, sa.delete(t.trunk_subports).where(t.trunk_subports.c.port_id.in_(list(port_ids))))
        _change(conn, port_ids, device_owner='', device_id='', host='', migrating_to='', status='DOWN')


def end(conn: sa.Connection, parent_ids: Collection[str]) -> None:
    """Delete the trunks of these parent ports."""
    trunks = [row['id'] for row in of_ports(conn, parent_ids).values()]
    remove(conn, [each.port_id for of_trunk in subports(conn, trunks).values() for each in of_trunk])
    if trunks:
        networks.delete_tags(conn, trunks)
        revisions.execute(conn, sa.delete(t.trunks).where(t.trunks.c.id.in_(trunks)))


def _change(conn: sa.Connection, port_ids: Iterable[str], **values: str) -> None:
    c = t.ports.c
    revisions.execute(conn, sa.update(t.ports).where(c.id.in_(list(port_ids))).values(
        **values, updated_at=utils.utcnow(), revision=c.revision + 1))


def follow(conn: sa.Connection, parents: sa.ColumnElement[bool]) -> None:
    """Copy the host, destination host and status of changed parent ports to their subports.

    :param parents: condition on the parent ports
    """
    c = t.ports.c
    places: dict[tuple[str, str, str], list[str]] = {}
    for ident, *place in conn.execute(
            sa.select(t.trunk_subports.c.port_id, c.host, c.migrating_to, c.status).select_from(
                t.ports.join(t.trunks, t.trunks.c.port_id == c.id).join(
                    t.trunk_subports, t.trunk_subports.c.trunk_id == t.trunks.c.id)).where(parents)).all():
        places.setdefault((place[0], place[1], place[2]), []).append(ident)
    for (host, migrating_to, status), idents in sorted(places.items()):
        _change(conn, sorted(idents), host=host, migrating_to=migrating_to, status=status)


def with_status(values: list[str]) -> sa.ColumnElement[bool]:
    """Return a condition on trunks with one of these statuses. A trunk has the status of its parent port."""
    return t.trunks.c.port_id.in_(sa.select(t.ports.c.id).where(t.ports.c.status.in_(values)))
