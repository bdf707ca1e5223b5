"""Ports: connections of servers to networks."""
from collections.abc import Sequence
from datetime import datetime
import functools
from typing import Any

import sqlalchemy as sa

from nova import context as nova_context
from nova import exception
from nova import utils
from nova.db import statements
from nova.db.networks import limits
from nova.db.networks import networks
from nova.db.networks import routers
from nova.db.networks import security_groups
from nova.db.networks import trunks
from nova.db.placement import categories
from nova.db.networks import revisions
from nova.db.tables import network as t
from nova.db.tables.rows import PortsRow


def of_device(conn: sa.Connection, device_id: str) -> list[PortsRow]:
    """Return the ports of a server as dicts, in the order of its interfaces."""
    return statements.rows(conn, t.ports, ('position', 'id'), device_id=device_id)


# SQL expression for the server of a port; a subport belongs to the server of the trunk's parent port
_PARENT = t.ports.alias('parent')
_SERVER = sa.case((t.ports.c.device_owner == trunks.SUBPORT, sa.select(_PARENT.c.device_id).join(
    t.trunks, t.trunks.c.port_id == _PARENT.c.id).where(
        t.trunks.c.id == t.ports.c.device_id).correlate(t.ports).scalar_subquery()), else_=t.ports.c.device_id)
_AT = sa.select(_SERVER).join_from(t.ports, t.addresses, t.addresses.c.port_id == t.ports.c.id).where(
    t.ports.c.device_id != '', t.ports.c.device_owner.not_like('network:%'))


_OTHER = t.ports.alias('other')
_OF_ANOTHER = sa.and_(
    _OTHER.c.project_id != t.ports.c.project_id,
    sa.or_(_OTHER.c.port_security_enabled.is_(sa.false()), _OTHER.c.allowed_address_pairs.is_not(None)))
# Whether the network has a port of another project that may send from addresses of other ports. An address in the
# network then does not identify a server.
_MAY_BE_ANOTHER = sa.exists().where(_OTHER.c.network_id == t.ports.c.network_id, _OF_ANOTHER)


def device_at(conn: sa.Connection, address: str) -> str | None:
    """Return the only server that has this address in the flat networks, or None if no or several servers have it."""
    found = conn.execute(_AT.where(t.addresses.c.address == address, t.ports.c.network_id.not_in(
        sa.select(t.networks.c.id).where(t.networks.c.network_type != networks.FLAT)))).scalars().all()
    return found[0] if len(found) == 1 else None


def device_by_network(conn: sa.Connection, network_id: str, address: str, host: str) -> str | None:
    """Return the server on a host that has this address in a network.

    Return None if there is no such server, or if a port of another project may send from this address.
    """
    c = t.ports.c
    return conn.execute(_AT.where(t.addresses.c.address == address, c.network_id == network_id, ~_MAY_BE_ANOTHER,
                                  sa.or_(c.host == host, c.migrating_to == host))).scalar()


def device_by_router(conn: sa.Connection, router_id: str, address: str, host: str) -> str | None:
    """Return the server with an address in a subnet of a router, or None.

    The router or the server must be on this host. The address must also identify the server, although the router's
    owner controls where responses go, and all its networks can send packets from the address. Therefore:

    * The router must belong to the server's project, or to the owner of the server's network if all projects share it.
    * No other project may be able to send from arbitrary addresses in any of the router's networks.
    """
    of_router = sa.select(t.router_interfaces.c.subnet_id).join(
        t.routers, t.routers.c.id == t.router_interfaces.c.router_id).where(
            t.routers.c.id == router_id)
    here = sa.or_(t.ports.c.host == host, sa.exists().where(t.routers.c.id == router_id, t.routers.c.host == host))
    behind = sa.select(t.subnets.c.network_id).where(t.subnets.c.id.in_(of_router))
    given = sa.exists().where(t.networks.c.id == t.ports.c.network_id, t.networks.c.shared,
                              t.networks.c.project_id == t.routers.c.project_id).correlate(t.ports, t.routers)
    trusted = sa.exists().where(t.routers.c.id == router_id, sa.or_(
        t.routers.c.project_id == t.ports.c.project_id, given)).correlate(t.ports)
    another = sa.exists().where(_OTHER.c.network_id.in_(behind), _OF_ANOTHER).correlate(t.ports)
    return conn.execute(_AT.where(t.addresses.c.address == address, t.addresses.c.subnet_id.in_(of_router), here,
                                  trusted, ~another)).scalar()


_ONE = sa.select(sa.literal(1).label('one')).subquery()
_DEFAULT_GROUP = sa.select(t.security_groups.c.id).join(
    t.default_security_groups, t.default_security_groups.c.security_group_id == t.security_groups.c.id).where(
    t.default_security_groups.c.project_id == sa.bindparam('of_project')).scalar_subquery().label('default_group')
_FOR_ALLOCATION = sa.select(_DEFAULT_GROUP, limits.room('port', t.ports), t.ports).select_from(
    _ONE.outerjoin(t.ports, t.ports.c.device_id.in_(sa.bindparam('of_devices', expanding=True)))
).order_by(t.ports.c.position, t.ports.c.id)


def for_allocation(conn: sa.Connection, device_ids: list[str], project_id: str,
                   default_limit: int) -> tuple[list[PortsRow], str | None, int | None]:
    """Read facts about servers of a project in one statement.

    Return (sorted ports of the servers, id of the project's default security group or None, number of ports that the
    quota still allows or None).

    :param default_limit: as in limits.left
    """
    rows = statements.dicts(conn.execute(_FOR_ALLOCATION, {
        'of_devices': device_ids, 'of_project': project_id, 'default_limit': default_limit}))
    (default, room), = {(row.pop('default_group'), row.pop('room')) for row in rows}
    return [row for row in rows if row['id'] is not None], default, room


def of_ids(conn: sa.Connection, idents: list[str] | set[str]) -> dict[str, PortsRow]:
    """Return {id: port} of these ports."""
    return {row['id']: row for row in networks.many(conn, t.ports, idents)}


def on_host(conn: sa.Connection, host: str) -> list[PortsRow]:
    """Return the ports of guests that are on a host or migrate to it. Router ports are omitted, as they have no
    filters.
    """
    c = t.ports.c
    return statements.dicts(conn.execute(
        sa.select(t.ports).where(sa.or_(c.host == host, c.migrating_to == host), c.device_id != '',
                                 c.device_owner.not_like('network:router_%')).order_by(c.id)))


def lock_many(conn: sa.Connection, idents: list[str]) -> dict[str, PortsRow]:
    """Return {id: port} of these ports, locked until the transaction ends."""
    if not idents:
        return {}
    statement = (
        sa.select(t.ports).where(t.ports.c.id.in_(list(idents))).order_by(t.ports.c.id).with_for_update()
    )
    return {row['id']: statements.to_dict(row) for row in conn.execute(statement).mappings()}


def bind(conn: sa.Connection, ident: str, values: dict[str, Any]) -> bool:
    """Bind a free port to a server; return False if the port already has a device."""
    found = revisions.execute(conn, sa.update(t.ports).where(t.ports.c.id == ident, t.ports.c.device_id == '').values(
        **values, updated_at=utils.utcnow(), revision=t.ports.c.revision + 1)).rowcount
    if found:
        trunks.follow(conn, t.ports.c.id == ident)
    return bool(found)


def move(conn: sa.Connection, device_id: str, host: str) -> None:
    """Move the server's ports to this host."""
    revisions.execute(conn, sa.update(t.ports).where(t.ports.c.device_id == device_id).values(
        host=host, migrating_to='', updated_at=utils.utcnow(), revision=t.ports.c.revision + 1))
    trunks.follow(conn, t.ports.c.device_id == device_id)


def expect(conn: sa.Connection, device_id: str, host: str) -> None:
    """Record the destination host of a server's ports; this host then plumbs them before the server arrives."""
    c = t.ports.c
    revisions.execute(conn, sa.update(t.ports).where(c.device_id == device_id, c.host != host).values(
        migrating_to=host, updated_at=utils.utcnow(), revision=c.revision + 1))
    trunks.follow(conn, c.device_id == device_id)


def forget_expected(conn: sa.Connection, device_id: str, host: str) -> int:
    """Clear the destination host of a server's ports; return the number of ports."""
    c = t.ports.c
    found = revisions.execute(conn, sa.update(t.ports).where(c.device_id == device_id, c.migrating_to == host).values(
        migrating_to='', updated_at=utils.utcnow(), revision=c.revision + 1)).rowcount
    trunks.follow(conn, c.device_id == device_id)
    return found


def leave(conn: sa.Connection, device_id: str, host: str) -> None:
    """Unbind the server's ports from this host."""
    c = t.ports.c
    revisions.execute(conn, sa.update(t.ports).where(c.device_id == device_id, c.host == host).values(
        host='', updated_at=utils.utcnow(), revision=c.revision + 1))
    trunks.follow(conn, c.device_id == device_id)


_TO_GIVE_BACK = sa.select(
    t.ports.c.id, t.ports.c.device_id, t.ports.c.created_by_compute, t.ports.c.host).with_for_update()
_OF_DEVICES = _TO_GIVE_BACK.where(t.ports.c.device_id.in_(sa.bindparam('device_ids', expanding=True)))


def to_give_back(conn: sa.Connection, device_ids: list[str]) -> Sequence[Any]:
    """Return rows of the ports of these servers, locked until the transaction ends, for ``give_back_rows``."""
    return conn.execute(_OF_DEVICES, {'device_ids': device_ids}).all()


def give_back(conn: sa.Connection, device_ids: list[str]) -> int:
    """Remove ports that nova created for these servers, and unbind their other ports; return the number of ports."""
    return give_back_rows(conn, to_give_back(conn, list(device_ids)))


def give_back_one(conn: sa.Connection, ident: str, device_id: str, attached_by: str | None = None) -> int:
    """Release one port of a server as in ``give_back``; return 0 if the port has another device.

    :param attached_by: release the port only if this request attached it
    """
    c = t.ports.c
    condition = (c.id == ident) & (c.device_id == device_id)
    if attached_by is not None:
        condition &= c.attached_by == attached_by
    return give_back_rows(conn, conn.execute(_TO_GIVE_BACK.where(condition)).all())


def give_back_rows(conn: sa.Connection, rows: Sequence[Any]) -> int:
    """Release the ports of these locked rows as in ``give_back``."""
    c = t.ports.c
    made = [row.id for row in rows if row.created_by_compute]
    own = [row.id for row in rows if not row.created_by_compute]
    if made:
        # a separate statement: one that waits for the locks of the ports does not see what it waited for
        remove(conn, made, routers.are_reachable(conn, made))
    if own:
        revisions.execute(conn, sa.update(t.ports).where(c.id.in_(own)).values(
            device_id='', device_owner='', host='', migrating_to='', status='DOWN', tag=None, attached_by=None,
            updated_at=utils.utcnow(), revision=c.revision + 1))
        trunks.follow(conn, c.id.in_(own))
    return len(rows)


def remove(conn: sa.Connection, idents: list[str], routed: bool = True) -> None:
    """Delete ports and their related rows.

    :param routed: whether any of them may have a floating address or a forwarding
    """
    networks.release(conn, idents)
    if routed:
        routers.forget_ports(conn, idents)
    security_groups.unbind(conn, idents)
    networks.delete_tags(conn, idents)
    revisions.execute(conn, sa.delete(t.ports).where(t.ports.c.id.in_(idents)))


def devices(conn: sa.Connection) -> set[str]:
    """Return the ids of the servers with ports."""
    c = t.ports.c
    return set(conn.execute(sa.select(c.device_id).where(
        c.device_id != '', c.device_owner.like('compute:%')).distinct()).scalars())


def older_devices(conn: sa.Connection, device_ids: set[str], before: datetime) -> list[str]:
    """Return the subset of servers without changes of their ports since a time."""
    c = t.ports.c
    return list(conn.execute(sa.select(c.device_id).where(c.device_id.in_(list(device_ids)))
                             .group_by(c.device_id).having(sa.func.max(c.updated_at) < before)).scalars())


OF_SERVERS = 'compute:'                # prefix of device_owner for ports of servers
# device_owner of ports of the network service
DHCP, GATEWAY, INTERFACE, FLOATING = (f'network:{name}' for name in (
    'dhcp', 'router_gateway', 'router_interface', 'floatingip'))


_SERVED = sa.select(t.addresses.c.subnet_id, t.addresses.c.address).join(
    t.ports, t.ports.c.id == t.addresses.c.port_id).where(
        t.ports.c.network_id.in_(sa.bindparam('of_networks', expanding=True)), t.ports.c.device_owner == DHCP)


def dhcp_addresses(conn: sa.Connection, network_ids: list[str]) -> dict[str, str]:
    """Return {subnet id: address of the DHCP and DNS service}."""
    return {row.subnet_id: row.address for row in conn.execute(_SERVED, {'of_networks': network_ids})}


def give_services(conn: sa.Connection, network_id: str, project_id: str) -> None:
    """Assign the DHCP and DNS ports of a network to a project."""
    revisions.execute(conn, sa.update(t.ports).where(
        t.ports.c.network_id == network_id, t.ports.c.device_owner == DHCP).values(project_id=project_id))


def in_network(conn: sa.Connection, network_id: str) -> list[PortsRow]:
    """Return the ports of a network."""
    return networks.many(conn, t.ports, [network_id], 'network_id')


def count(conn: sa.Connection, **values: object) -> int:
    """Return the number of ports with these column values."""
    conditions = [t.ports.c[name] == value for name, value in values.items()]
    return conn.execute(sa.select(sa.func.count()).select_from(t.ports).where(*conditions)).scalar_one()


def remove_from_router(conn: sa.Connection, port: PortsRow) -> None:
    """Remove a router's port, and the router interfaces in the subnets of the port's addresses."""
    for held in networks.addresses_of(conn, [port['id']]).get(port['id'], ()):
        routers.leave(conn, port['device_id'], held['subnet_id'])
    remove(conn, [port['id']])


def evict(conn: sa.Connection, network_id: str, owner: str) -> None:
    """Remove the ports of projects that may no longer use a network. The network must not be public.

    Router interfaces and unbound ports are removed immediately. A server keeps its port until it is detached or
    deleted.
    """
    networks.usable(conn, nova_context.ALL_PROJECTS, [network_id], lock=True)       # prevents new ports
    allowed = {owner, '', *(row['target_project'] for row in networks.many(
        conn, t.shares, [network_id], 'network_id'))}
    if networks.EVERYBODY in allowed:
        return
    foreign = [port for port in in_network(conn, network_id) if port['project_id'] not in allowed]
    for port in foreign:
        if port['device_owner'] == INTERFACE:
            remove_from_router(conn, port)
    subports = trunks.unused_subports(conn, [
        port['id'] for port in foreign if port['device_owner'] == trunks.SUBPORT])
    unused = [port['id'] for port in foreign if not port['device_id'] or port['id'] in subports]
    trunks.remove(conn, subports)
    trunks.end(conn, unused)
    remove(conn, unused)


# ---- conditions of lists --------------------------------------------------------

def visible(context: nova_context.RequestContext) -> sa.ColumnElement[bool]:
    """Return a condition on ports visible to the caller: ports of the project, and all ports in the project's networks.

    Ports of administrative servers, such as VPN instances, are visible only to administrators and services.
    """
    own = networks.own(t.ports)(context) if not nova_context.one_project(context.sees) else _in_reach(context.sees)
    return own if context.is_admin or 'service' in (context.roles or ()) else _regular(own)


def seen(conn: sa.Connection, context: nova_context.RequestContext, idents: list[str] | set[str],
         ) -> dict[str, PortsRow]:
    """Return {id: port} of these ports, limited to those that the caller may see."""
    if not idents or context.is_admin:
        return of_ids(conn, idents)
    return {row['id']: row for row in statements.dicts(conn.execute(
        sa.select(t.ports).where(t.ports.c.id.in_(list(idents)), visible(context))))}


@functools.lru_cache(maxsize=256)
def _in_reach(project_id: str) -> sa.ColumnElement[bool]:
    return sa.or_(t.ports.c.project_id == project_id, t.ports.c.network_id.in_(
        sa.select(t.networks.c.id).where(t.networks.c.project_id == project_id)))


@functools.lru_cache(maxsize=256)
def _regular(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    return condition & sa.not_(categories.is_administrative(t.ports.c.device_id))


def by_fixed_ips(values: list[str]) -> sa.ColumnElement[bool]:
    """Return the condition of the filter ``fixed_ips``, with values such as ``ip_address=10.0.0.3``.

    :raises BadRequest: a value names another attribute
    """
    c = t.addresses.c
    conditions: dict[str, list[str]] = {}
    for value in values:
        name, _, wanted = value.partition('=')
        conditions.setdefault(name, []).append(wanted)
    columns = {'ip_address': c.address, 'subnet_id': c.subnet_id}
    clauses = []
    for name, texts in conditions.items():
        if name == 'ip_address_substr':
            clauses.append(sa.or_(*[c.address.contains(part, autoescape=True) for part in texts]))
        elif name in columns:
            clauses.append(columns[name].in_(texts))
        else:
            raise exception.BadRequest(f"fixed_ips: '{name[:60]}' is invalid attribute for filtering")
    return t.ports.c.id.in_(sa.select(c.port_id).where(c.port_id.is_not(None), *clauses))


def by_groups(values: list[str]) -> sa.ColumnElement[bool]:
    """Return a condition on ports in one of these security groups."""
    c = t.port_security_groups.c
    return t.ports.c.id.in_(sa.select(c.port_id).where(c.security_group_id.in_(values)))
