"""Networks, subnets and addresses."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
import functools
from typing import Any, TYPE_CHECKING

import sqlalchemy as sa

from nova import exception
from nova import context as nova_context
from nova import utils
from nova.db import statements
from nova.db.networks import limits
from nova.db.networks import revisions
from nova.db.tables import network as t
from nova.db.types import ColumnValue

if TYPE_CHECKING:
    from nova.db.tables.rows import AddressesRow, NetworksRow, SubnetsRow
    from nova.db.types import ColumnValues, RowT, Table


# in shares (Neutron RBAC policies), EVERYBODY as target_project means all projects; SHARED is the action
EVERYBODY, SHARED = '*', 'access_as_shared'
FLAT, OVERLAY, VLAN = 'flat', 'vxlan', 'vlan'  # types of networks
SEGMENTS = range(1, 1 << 16)  # numbers (VNIs) of overlay networks: 16 bits, because they are also conntrack zones
MAX_SPANS = 200
VLANS = range(1, 4095)                      # VLAN ids of a physical network (IEEE 802.1Q)


def stamped(values: ColumnValues) -> dict[str, ColumnValue]:
    """Return the values of a new row, with the times of creation and update and the revision 1."""
    now = utils.utcnow()
    return {'created_at': now, 'updated_at': now, 'revision': 1, **values}


def get(conn: sa.Connection, table: Table[RowT], ident: str) -> RowT | None:
    """Return the row with this id as a dict, or None."""
    return statements.first(conn, table, id=ident)


def lock(conn: sa.Connection, table: Table[RowT], ident: str) -> RowT | None:
    """Return the row with this id, locked until the transaction ends, or None."""
    row = conn.execute(sa.select(table).where(table.c.id == ident).with_for_update()).mappings().first()
    return statements.to_dict(row) if row else None


@functools.cache
def _many(table: sa.Table, column: str) -> sa.Select[Any]:
    return sa.select(table).where(table.c[column].in_(sa.bindparam('idents', expanding=True)))


def many(conn: sa.Connection, table: Table[RowT], idents: Iterable[object], column: str = 'id') -> list[RowT]:
    """Return the rows with one of these values in ``column`` as dicts; without values, no statement runs."""
    idents = list(idents)
    return statements.dicts(conn.execute(_many(table, column), {'idents': idents})) if idents else []


@functools.cache
def _values(column: sa.Column[Any], columns: tuple[sa.Column[Any], ...]) -> sa.Select[Any]:
    return sa.select(column, *columns).where(column.in_(sa.bindparam('idents', expanding=True))).order_by(*columns)


def values_of(conn: sa.Connection, column: sa.Column[Any], idents: Iterable[str],
              *columns: sa.Column[Any]) -> dict[str, list[list[Any]]]:
    """Read ``columns`` of the rows whose ``column`` is one of ``idents``.

    Return {value of ``column``: [[value of each of ``columns``]]}; the lists are sorted.

    This function is faster than ``many``, which builds a dict for each row.
    """
    idents, found = list(idents), dict[str, list[list[Any]]]()
    for value, *row in conn.execute(_values(column, columns), {'idents': idents}).all() if idents else ():
        found.setdefault(value, []).append(row)
    return found


def insert(conn: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    """Insert rows (dicts with equal keys) in one statement."""
    if rows:
        revisions.execute(conn, statements.insert(table), [stamped(row) for row in rows])


def update(conn: sa.Connection, table: sa.Table, ident: str, values: ColumnValues) -> bool:
    """Update a row, its update time and its revision; return False if the row does not exist."""
    return bool(revisions.execute(conn, sa.update(table).where(table.c.id == ident).values(
        **values, updated_at=utils.utcnow(), revision=table.c.revision + 1)).rowcount)


def delete(conn: sa.Connection, table: sa.Table, ident: str) -> bool:
    """Delete a row and its tags; return False if it did not exist."""
    delete_tags(conn, [ident])
    return bool(revisions.execute(conn, sa.delete(table).where(table.c.id == ident)).rowcount)


def delete_tags(conn: sa.Connection, idents: list[str]) -> None:
    """Delete the tags of resources."""
    conn.execute(sa.delete(t.tags).where(t.tags.c.resource_id.in_(idents)))


def visible(context: nova_context.RequestContext) -> sa.ColumnElement[bool]:
    """Return a condition on networks that the caller may see and use."""
    return _visible_to(context.sees)


# Conditions are cached for each project, so that ``_seen`` can cache the statements that contain them.
@functools.lru_cache(maxsize=256)
def _visible_to(project_id: nova_context.Projects | str) -> sa.ColumnElement[bool]:
    return sa.or_(_usable_by(project_id), t.networks.c.external)


@functools.lru_cache(maxsize=256)
def _usable_by(project_id: nova_context.Projects | str) -> sa.ColumnElement[bool]:
    if not nova_context.one_project(project_id):
        return sa.true()
    return sa.or_(t.networks.c.project_id == project_id, t.networks.c.shared, t.networks.c.id.in_(
        shared_with(project_id)))


def shared_with(project: str | sa.BindParameter[str] | None, action: str = SHARED) -> sa.Select[Any]:
    """Select the ids of resources that other projects share with a project: networks, policies, groups, pools."""
    return sa.select(t.shares.c.network_id).where(t.shares.c.target_project.in_([project, EVERYBODY]),
                                                  t.shares.c.action == action)


def shared_among(conn: sa.Connection, idents: Iterable[str], project_id: str | None) -> set[str]:
    """Return the subset of ids that are shared with a project, or with all projects."""
    return {row['network_id'] for row in many(conn, t.shares, idents, 'network_id')
            if row['target_project'] in (project_id, EVERYBODY)}


def is_shared_with(conn: sa.Connection, network_id: str, project_id: str) -> bool:
    """Tell whether a share (RBAC policy) allows this project, or all projects, to use a network."""
    return conn.execute(shared_with(project_id).where(t.shares.c.network_id == network_id)).first() is not None


def visible_subnets(context: nova_context.RequestContext) -> sa.ColumnElement[bool]:
    """Return a condition on subnets of networks that the caller may use."""
    return _subnets_usable_by(context.sees)


@functools.lru_cache(maxsize=256)
def _subnets_usable_by(project_id: nova_context.Projects | str) -> sa.ColumnElement[bool]:
    return t.subnets.c.network_id.in_(sa.select(t.networks.c.id).where(_usable_by(project_id)))


def own(table: sa.Table) -> Callable[[nova_context.RequestContext], sa.ColumnElement[bool]]:
    """Return a function(context) -> condition on the rows of the caller's project (all rows for administrators)."""
    return lambda context: of_project(table, context.sees)


@functools.lru_cache(maxsize=1024)
def of_project(table: sa.Table, project_id: nova_context.Projects | str) -> sa.ColumnElement[bool]:
    """Return the condition on rows of a project, or of ALL_PROJECTS."""
    return table.c.project_id == project_id if nova_context.one_project(project_id) else table.c.id.is_not(None)


def own_or_shared(table: sa.Table,
                  *for_all: sa.ColumnElement[bool]) -> Callable[[nova_context.RequestContext], sa.ColumnElement[bool]]:
    """Return a function(context) -> condition on the rows of ``own`` and the rows shared with the caller's project.

    :param for_all: conditions on rows that all projects see
    """
    @functools.lru_cache(maxsize=256)
    def of_some(project_id: nova_context.Projects | str) -> sa.ColumnElement[bool]:
        condition = of_project(table, project_id)
        if not nova_context.one_project(project_id):
            return condition
        return sa.or_(condition, *for_all, table.c.id.in_(shared_with(project_id)))
    return lambda context: of_some(context.sees)


def seen(conn: sa.Connection, table: Table[RowT], condition: sa.ColumnElement[bool], ident: str) -> RowT | None:
    """Return the row with this id as a dict, or None if it does not exist or does not meet a condition."""
    row = conn.execute(_seen(table, condition), {'ident': ident}).mappings().first()
    return None if row is None else statements.to_dict(row)


@functools.lru_cache(maxsize=1024)
def _seen(table: sa.Table, condition: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return sa.select(table).where(condition, table.c.id == sa.bindparam('ident'))


def host_ranges(conn: sa.Connection) -> Sequence[str]:
    """Return the CIDRs of the subnets of all flat networks, and lock these networks until the transaction ends."""
    flat = sa.select(t.networks.c.id).where(t.networks.c.network_type == FLAT)
    conn.execute(flat.order_by(t.networks.c.id).with_for_update()).all()
    return conn.execute(sa.select(t.subnets.c.cidr).where(t.subnets.c.network_id.in_(flat))).scalars().all()


def ranges_of(conn: sa.Connection, network_id: str) -> Sequence[str]:
    """Return the CIDRs of a network's subnets."""
    return conn.execute(sa.select(t.subnets.c.cidr).where(t.subnets.c.network_id == network_id)).scalars().all()


def on_physical(values: list[str]) -> sa.ColumnElement[bool]:
    """Return a condition on networks on one of these physical networks or host bridges."""
    c = t.networks.c
    return sa.or_(c.physical_network.in_(values),
                  sa.and_(c.physical_network.is_(None), c.network_type == FLAT, c.bridge.in_(values)))


def with_number(values: list[str]) -> sa.ColumnElement[bool]:
    """Return a condition on networks with one of these segmentation ids (VLAN ids or VNIs)."""
    numbers = [int(value) for value in values if value.isascii() and value.isdigit() and len(value) < 10]
    c = t.networks.c
    return sa.or_(
        c.id.in_(sa.select(t.vlans.c.network_id).where(t.vlans.c.vlan.in_(numbers))),
        sa.and_(c.network_type == OVERLAY, c.id.in_(sa.select(t.segments.c.network_id).where(
            t.segments.c.number.in_(numbers)))))


def add_segment(conn: sa.Connection, network_id: str, number: int) -> None:
    """Assign a number to an overlay network; the primary key prevents duplicates."""
    revisions.execute(conn, sa.insert(t.segments), [{'number': number, 'network_id': network_id}])


def segments_of(conn: sa.Connection, network_ids: Iterable[str]) -> dict[str, int]:
    """Return {network id: number} of overlay networks."""
    return {row['network_id']: row['number'] for row in many(conn, t.segments, network_ids, 'network_id')}


def add_vlan(conn: sa.Connection, network_id: str, physical_network: str, vlan: int) -> None:
    """Assign a VLAN to a network; the primary key prevents duplicates."""
    revisions.execute(conn, sa.insert(t.vlans), [
        {'physical_network': physical_network, 'vlan': vlan, 'network_id': network_id}])


def vlans_of(conn: sa.Connection, network_ids: Iterable[str]) -> dict[str, int]:
    """Return {network id: VLAN} of VLAN networks."""
    return {row['network_id']: row['vlan'] for row in many(conn, t.vlans, network_ids, 'network_id')}


def vlans_on(conn: sa.Connection, physical_network: str) -> set[int]:
    """Return the VLANs in use on a physical network."""
    return set(conn.execute(sa.select(t.vlans.c.vlan).where(
        t.vlans.c.physical_network == physical_network)).scalars())


def remove_network(conn: sa.Connection, ident: str) -> None:
    """Remove a network with its subnets, segment number or VLAN, and shares."""
    for subnet in many(conn, t.subnets, [ident], 'network_id'):
        remove_subnet(conn, subnet['id'])
    forget_numbers(conn, ident)
    end_shares(conn, ident)
    delete(conn, t.networks, ident)


def end_shares(conn: sa.Connection, ident: str) -> None:
    """Remove all shares of a network or another resource."""
    conn.execute(sa.delete(t.shares).where(t.shares.c.network_id == ident))


def forget_numbers(conn: sa.Connection, ident: str) -> None:
    """Release the segment number and the VLAN of a network."""
    for table in (t.segments, t.vlans):
        revisions.execute(conn, sa.delete(table).where(table.c.network_id == ident))


def remove_subnet(conn: sa.Connection, ident: str) -> None:
    """Remove a subnet and its addresses."""
    revisions.execute(conn, sa.delete(t.addresses).where(t.addresses.c.subnet_id == ident))
    delete(conn, t.subnets, ident)


def _with_subnets(condition: sa.ColumnElement[bool]) -> tuple[sa.Select[Any], sa.Select[Any]]:
    """Return (SELECT of networks with their subnets, SELECT that locks these subnets).

    PostgreSQL cannot lock the rows of an outer join, so a separate statement locks the subnets first.
    """
    both = sa.select(t.networks, *[c.label('subnet_' + c.name) for c in t.subnets.c]).select_from(
        t.networks.outerjoin(t.subnets, t.subnets.c.network_id == t.networks.c.id)).where(condition)
    locked = sa.select(t.subnets.c.id).where(t.subnets.c.network_id.in_(
        sa.select(t.networks.c.id).where(condition))).order_by(t.subnets.c.id).with_for_update()
    return both.order_by(t.networks.c.id, t.subnets.c.created_at, t.subnets.c.id), locked


_USABLE = _with_subnets(sa.or_(
    t.networks.c.project_id == sa.bindparam('of_project'), t.networks.c.shared,
    t.networks.c.id.in_(shared_with(sa.bindparam('of_project', type_=sa.String)))))
_NAMED = _with_subnets(t.networks.c.id.in_(sa.bindparam('idents', expanding=True)))
_USABLE_AND_ROOM, _NAMED_AND_ROOM = (both.add_columns(limits.room('port', t.ports)) for both, _locked in (
    _USABLE, _NAMED))


def usable(conn: sa.Connection, project_id: nova_context.Projects | str, idents: list[str] | set[str] | None = None,
           lock: bool = False) -> dict[str, tuple[NetworksRow, list[SubnetsRow]]]:
    """Return {network id: (network, [subnet])} of networks that a project may use.

    :param project_id: project, or ALL_PROJECTS if the caller has already checked ``idents``
    :param idents: ids of the networks, or None for all networks that the project may use
    :param lock: whether to lock the subnets until the transaction ends, which serializes requests for addresses. For a
        network without subnets, the network's row is locked, which prevents a change of the owner
    """
    named = nova_context.one_project(project_id)
    if idents is None and not named:
        raise TypeError('Without ids of networks, project_id must be one project.')
    both, locked = _USABLE if idents is None else _NAMED
    parameters = {'of_project': project_id} if idents is None else {'idents': list(idents)}
    locks = lock and conn.dialect.name != 'sqlite'           # SQLite needs no lock: it has one writer
    if locks:
        conn.execute(locked, parameters).all()
    found = _networks_of(conn.execute(both, parameters).all())
    bare = [ident for ident, (_network, subnets) in found.items() if not subnets]
    if locks and bare:
        conn.execute(_KEPT, {'idents': bare}).all()
        found = _networks_of(conn.execute(both, parameters).all())       # the rows may have changed before the lock
    if named:
        _mark_shared(conn, found, str(project_id))
    return found


def usable_and_room(conn: sa.Connection, project_id: str, idents: set[str] | None, default_limit: int) -> tuple[
        dict[str, tuple[NetworksRow, list[SubnetsRow]]], int | None]:
    """Return (result of ``usable``, number of ports that the quota still allows) from one statement.

    The number is None if it is unlimited, or if there is no network.

    :param default_limit: as in limits.left
    """
    parameters: dict[str, Any] = {'of_project': project_id, 'default_limit': default_limit}
    rows = conn.execute(*((_USABLE_AND_ROOM, parameters) if idents is None else (
        _NAMED_AND_ROOM, {**parameters, 'idents': list(idents)}))).all()
    found = _networks_of(rows)
    _mark_shared(conn, found, project_id)
    return found, rows[0].room if rows else None


def _mark_shared(conn: sa.Connection, found: dict[str, tuple[NetworksRow, list[SubnetsRow]]], project_id: str) -> None:
    for network, _subnets in found.values():
        if not network['shared'] and network['project_id'] != project_id:
            network['shared'] = is_shared_with(conn, network['id'], project_id)


def lock_with_subnets(conn: sa.Connection, ident: str) -> NetworksRow:
    """Lock a network and its subnets, so that no port is added until the transaction ends; return the network's row.

    :raises NetworkNotFound:
    """
    row = lock(conn, t.networks, ident)
    if row is None:
        raise exception.NetworkNotFound(network_id=ident)
    conn.execute(_NAMED[1], {'idents': [ident]}).all()
    return row


# a shared lock, so that requests for ports of one network do not wait for each other
_KEPT = sa.select(t.networks.c.id).where(t.networks.c.id.in_(sa.bindparam('idents', expanding=True))).order_by(
    t.networks.c.id).with_for_update(read=True)


def _networks_of(rows: Iterable[sa.Row[Any]]) -> dict[str, tuple[NetworksRow, list[SubnetsRow]]]:
    """Return the networks of rows from a statement of ``_with_subnets``; further columns are ignored."""
    names, subnet_names = t.networks.c.keys(), t.subnets.c.keys()
    found: dict[Any, Any] = {}
    for row in rows:
        network, subnet = dict(zip(names, row)), dict(zip(subnet_names, row[len(names):]))
        entry = found.setdefault(network['id'], (network, []))
        if subnet['id'] is not None:
            entry[1].append(subnet)
    return found


# ---- addresses ----------------------------------------------------------------

def numbers(conn: sa.Connection, subnet_id: str, first: int, last: int, limit: int) -> Sequence[Any]:
    """Return [(address as integer, port id, time of release)] of used and released addresses in a range, ascending."""
    c = t.addresses.c
    return conn.execute(sa.select(c.number, c.port_id, c.released_at).where(
        c.subnet_id == subnet_id, c.number.between(first, last)).order_by(c.number).limit(limit)).all()


def oldest_resting(conn: sa.Connection, subnet_id: str, spans: list[tuple[int, int]],
                   besides: Collection[int] = ()) -> int | None:
    """Return the address that has rested longest in the ranges [(first, last)], as integer, or None.

    :param besides: addresses to skip
    """
    c = t.addresses.c
    within = sa.or_(*[c.number.between(first, last) for first, last in spans])
    return conn.execute(sa.select(c.number).where(c.subnet_id == subnet_id, c.port_id.is_(None), within,
                                                  c.number.not_in(list(besides)))
                        .order_by(c.released_at).limit(1)).scalar()


_RESTS = sa.delete(t.addresses).where(
    t.addresses.c.subnet_id == sa.bindparam('of_subnet'), t.addresses.c.port_id.is_(None),
    t.addresses.c.number.in_(sa.bindparam('of_numbers', expanding=True)))


def forget_rests(conn: sa.Connection, subnet_id: str, numbers: list[int]) -> None:
    """Delete the rows of resting addresses, so that ports can get these addresses."""
    conn.execute(_RESTS, {'of_subnet': subnet_id, 'of_numbers': sorted(numbers)})


def insert_addresses(conn: sa.Connection, rows: list[AddressesRow]) -> None:
    if rows:
        revisions.execute(conn, statements.insert(t.addresses), rows)


def release(conn: sa.Connection, port_ids: list[str]) -> None:
    """Release the addresses of these ports; an address then stays unused ("rests") for some time."""
    revisions.execute(conn, sa.update(t.addresses).where(t.addresses.c.port_id.in_(port_ids)).values(
        port_id=None, released_at=utils.utcnow()))


def release_some(conn: sa.Connection, port_id: str, addresses: list[str]) -> None:
    """Release some addresses of one port; an address then stays unused ("rests") for some time."""
    revisions.execute(conn, sa.update(t.addresses).where(
        t.addresses.c.port_id == port_id, t.addresses.c.address.in_(list(addresses))).values(
            port_id=None, released_at=utils.utcnow()))


def addresses_of(conn: sa.Connection, port_ids: list[str]) -> dict[str, list[dict[str, str]]]:
    """Return {port id: [{'subnet_id', 'ip_address'}]}."""
    c = t.addresses.c
    found = values_of(conn, c.port_id, port_ids, c.number, c.subnet_id, c.address)
    return {port: [{'subnet_id': subnet, 'ip_address': address} for _number, subnet, address in rows]
            for port, rows in found.items()}


def used_addresses(conn: sa.Connection, subnet_id: str, address: str | None = None) -> int | None:
    """Count the used addresses in a subnet; if ``address`` is given, count only that address."""
    conditions = [t.addresses.c.subnet_id == subnet_id, t.addresses.c.port_id.is_not(None)]
    if address is not None:
        conditions.append(t.addresses.c.address == address)
    return conn.execute(sa.select(sa.func.count()).select_from(t.addresses).where(*conditions)).scalar()


def used_by_subnet(conn: sa.Connection, subnet_ids: list[str]) -> dict[str, int]:
    """Return {subnet id: number of used addresses} of these subnets, without zeros."""
    c = t.addresses.c
    return {ident: count for ident, count in conn.execute(
        sa.select(c.subnet_id, sa.func.count()).where(c.subnet_id.in_(subnet_ids), c.port_id.is_not(None)).group_by(
            c.subnet_id))} if subnet_ids else {}


def used_in_spans(conn: sa.Connection, spans: Sequence[tuple[str, int, int]]) -> dict[str, int]:
    """Count the used addresses in spans (subnet id, first, last); return {subnet id: count} without zeros.

    A statement has at most MAX_SPANS conditions, because SQLite limits the depth of an expression.
    """
    c, found = t.addresses.c, dict[str, int]()
    for start in range(0, len(spans), MAX_SPANS):
        for ident, count in conn.execute(sa.select(c.subnet_id, sa.func.count()).where(c.port_id.is_not(None), sa.or_(*(
                sa.and_(c.subnet_id == ident, c.number.between(first, last))
                for ident, first, last in spans[start:start + MAX_SPANS]))).group_by(c.subnet_id)):
            found[ident] = found.get(ident, 0) + count
    return found


def with_hints(table: sa.Table, values: list[str]) -> sa.ColumnElement[bool]:
    """Return a condition on networks or routers with one of these availability zone hints."""
    return sa.or_(sa.false(), *(table.c.zone_hints == [value] for value in values))


def with_ip_version(values: list[str]) -> sa.ColumnElement[bool]:
    """Return a condition on networks with subnets of these IP versions.

    :raises BadRequest: a value is neither 4 nor 6
    """
    if not {'4', '6'}.issuperset(values):
        raise exception.BadRequest('ip_version is 4 or 6.')
    return t.networks.c.id.in_(sa.select(t.subnets.c.network_id).where(
        t.subnets.c.ip_version.in_([int(value) for value in values])))


def forget_resting(conn: sa.Connection, before: datetime) -> None:
    """Delete addresses that have rested long enough, and addresses with a lease that has ended since their release."""
    c, lease = t.addresses.c, t.leases.c
    ended = sa.exists().where(lease.subnet_id == c.subnet_id, lease.number == c.number,
                              lease.expires_at > c.released_at, lease.expires_at < utils.utcnow())
    conn.execute(sa.delete(t.addresses).where(c.port_id.is_(None), sa.or_(c.released_at < before, ended)))
    conn.execute(sa.delete(t.leases).where(lease.expires_at < before))


# ---- pages ----------------------------------------------------------------------

def page(conn: sa.Connection, table: sa.Table, condition: sa.ColumnElement[bool], sort: list[tuple[str, str]],
         marker: sa.RowMapping | None, limit: int | None, columns: Sequence[str] | None = None) -> list[Any]:
    """Return rows (dicts) that meet a condition, after the marker's row.

    :param sort: [(column name, 'asc' or 'desc')]; the last column must be unique
    :param marker: row after which the page begins, or None
    :param limit: maximum number of rows, or None
    :param columns: columns of the rows, or None for all
    """
    statement = sa.select(*(table.c[name] for name in columns)) if columns else sa.select(table)
    statement = statement.where(condition)
    if marker is not None:
        branches: list[sa.ColumnElement[bool]] = []
        equal: list[sa.ColumnElement[bool]] = []
        for name, direction in sort:
            column = table.c[name]
            value = sa.literal(marker[name], column.type)        # SQLAlchemy cannot compare a column with True
            branches.append(sa.and_(*equal, column > value if direction == 'asc' else column < value))
            equal.append(column == value)
        statement = statement.where(sa.or_(*branches))
    statement = statement.order_by(*[getattr(table.c[name], direction)() for name, direction in sort])
    if limit is not None:
        statement = statement.limit(limit)
    return statements.dicts(conn.execute(statement))


def default_id(conn: sa.Connection) -> str | None:
    """Return the id of the default network, or None."""
    return conn.execute(sa.select(t.networks.c.id).where(
        t.networks.c.is_default, sa.not_(t.networks.c.external)).limit(1)).scalar()


def default_gateway(conn: sa.Connection) -> str | None:
    """Return a gateway address in the default network, or None."""
    return conn.execute(
        sa.select(t.subnets.c.gateway_ip).join(t.networks, t.networks.c.id == t.subnets.c.network_id).where(
            t.networks.c.is_default, sa.not_(t.networks.c.external),
            t.subnets.c.gateway_ip.is_not(None)).limit(1)).scalar()


def count(conn: sa.Connection, table: sa.Table, project_id: str) -> int:
    """Return the number of rows of a project in a table."""
    return conn.execute(sa.select(sa.func.count()).select_from(table).where(
        table.c.project_id == project_id)).scalar_one()
