"""Ports: what a server is connected by."""
from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from datetime import datetime
import functools
from typing import Any, TYPE_CHECKING

import sqlalchemy as sa

from nova import context as nova_context
from nova import exception
from nova import utils
from nova.db import statements
from nova.db.networks import networks
from nova.db.networks import routers
from nova.db.networks import security_groups
from nova.db.placement import categories
from nova.db.networks import revisions
from nova.db.tables import network as t

if TYPE_CHECKING:
    from nova.db.tables.rows import PortsRow


def of_device(conn: sa.Connection, device_id: str) -> list[PortsRow]:
    """The ports of a server, in its order, as dicts."""
    return statements.rows(conn, t.ports, ('position', 'id'), device_id=device_id)


_AT = sa.select(t.ports.c.device_id).join(t.addresses, t.addresses.c.port_id == t.ports.c.id).where(
    t.ports.c.device_id != '', t.ports.c.device_owner.not_like('network:%'))


_OTHER = t.ports.alias('other')
_OF_ANOTHER = sa.and_(
    _OTHER.c.project_id != t.ports.c.project_id,
    sa.or_(_OTHER.c.port_security_enabled.is_(sa.false()), _OTHER.c.allowed_address_pairs.is_not(None)))
# The network has a port of another project that may send from other addresses: they do not say whose a request is.
_MAY_BE_ANOTHER = sa.exists().where(_OTHER.c.network_id == t.ports.c.network_id, _OF_ANOTHER)


def device_at(conn: sa.Connection, address: str) -> str | None:
    """The server whose port alone has an address of the hosts' own networks; None: no server has it, or several."""
    found = conn.execute(_AT.where(t.addresses.c.address == address, t.ports.c.network_id.not_in(
        sa.select(t.networks.c.id).where(t.networks.c.network_type != networks.FLAT)))).scalars().all()
    return found[0] if len(found) == 1 else None


def device_by_network(conn: sa.Connection, network_id: str, address: str, host: str) -> str | None:
    """The server on a host that has an address in a network, or None, also where another project may send from it."""
    c = t.ports.c
    return conn.execute(_AT.where(t.addresses.c.address == address, c.network_id == network_id, ~_MAY_BE_ANOTHER,
                                  sa.or_(c.host == host, c.migrating_to == host))).scalar()


def device_by_router(conn: sa.Connection, router_id: str, address: str, host: str) -> str | None:
    """The server that has an address in a subnet of a router; None, too, when neither the router nor the server is on
    this host, or when the address does not say whose a request is.

    A router leads answers where its routes say, and packets come to it from all of its networks. So it is the router of
    the server's project, or that of a network which an administrator has given to all; and no other project may send
    from any address in any of its networks.
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
_DEFAULT_GROUP = sa.select(t.default_security_groups.c.security_group_id).where(
    t.default_security_groups.c.project_id == sa.bindparam('of_project')).scalar_subquery().label('default_group')
_AND_DEFAULT_GROUP = sa.select(_DEFAULT_GROUP, t.ports).select_from(
    _ONE.outerjoin(t.ports, t.ports.c.device_id.in_(sa.bindparam('of_devices', expanding=True)))
).order_by(t.ports.c.position, t.ports.c.id)


def of_devices_and_default_group(conn: sa.Connection, device_ids: list[str],
                                 project_id: str) -> tuple[list[PortsRow], str | None]:
    """(the ports of servers of a project, each server's in its order, id of the project's default group or None), in
    one statement."""
    rows = statements.dicts(conn.execute(_AND_DEFAULT_GROUP, {'of_devices': device_ids, 'of_project': project_id}))
    default = rows[0]['default_group']
    for row in rows:
        del row['default_group']
    return [row for row in rows if row['id'] is not None], default


def of_ids(conn: sa.Connection, idents: list[str] | set[str]) -> dict[str, PortsRow]:
    """{id: port} of these ports."""
    return {row['id']: row for row in networks.many(conn, t.ports, idents)}


def on_host(conn: sa.Connection, host: str) -> list[PortsRow]:
    """Ports of the guests that are on a host, or arrive there. A router's are no guest's: no groups filter them."""
    c = t.ports.c
    return [statements.to_dict(row) for row in conn.execute(
        sa.select(t.ports).where(sa.or_(c.host == host, c.migrating_to == host), c.device_id != '',
                                 c.device_owner.not_like('network:router_%')).order_by(c.id)).mappings()]


def lock_many(conn: sa.Connection, idents: list[str]) -> dict[str, PortsRow]:
    """{id: port} of these ports, locked until the transaction ends."""
    if not idents:
        return {}
    statement = (
        sa.select(t.ports).where(t.ports.c.id.in_(list(idents))).order_by(t.ports.c.id).with_for_update()
    )
    return {row['id']: statements.to_dict(row) for row in conn.execute(statement).mappings()}


def bind(conn: sa.Connection, ident: str, values: dict[str, Any]) -> bool:
    """Give a port that no device has to a server; False when a device has it."""
    return bool(
        revisions.execute(
            conn,
            sa.update(t.ports)
            .where(t.ports.c.id == ident, t.ports.c.device_id == '')
            .values(**values, updated_at=utils.utcnow(), revision=t.ports.c.revision + 1)
        ).rowcount
    )


def move(conn: sa.Connection, device_id: str, host: str) -> None:
    """The server's ports are on this host now."""
    revisions.execute(conn, sa.update(t.ports).where(t.ports.c.device_id == device_id).values(
        host=host, migrating_to='', updated_at=utils.utcnow(), revision=t.ports.c.revision + 1))


def expect(conn: sa.Connection, device_id: str, host: str) -> None:
    """The server's ports are plumbed on this host, too: it is about to arrive there."""
    c = t.ports.c
    revisions.execute(conn, sa.update(t.ports).where(c.device_id == device_id, c.host != host).values(
        migrating_to=host, updated_at=utils.utcnow(), revision=c.revision + 1))


def forget_expected(conn: sa.Connection, device_id: str, host: str) -> int:
    """The server does not arrive on this host; how many ports expected it."""
    c = t.ports.c
    return revisions.execute(conn, sa.update(t.ports).where(c.device_id == device_id, c.migrating_to == host).values(
        migrating_to='', updated_at=utils.utcnow(), revision=c.revision + 1)).rowcount


def leave(conn: sa.Connection, device_id: str, host: str) -> None:
    """The server's ports that are on this host are on none now."""
    c = t.ports.c
    revisions.execute(conn, sa.update(t.ports).where(c.device_id == device_id, c.host == host).values(
        host='', updated_at=utils.utcnow(), revision=c.revision + 1))


# routed: it has floating addresses, or something is forwarded to it. Most ports have neither, and cost no statement.
_TO_GIVE_BACK = sa.select(
    t.ports.c.id, t.ports.c.device_id, t.ports.c.made_for_server, t.ports.c.host,
    sa.or_(sa.exists().where(t.floating_ips.c.port_id == t.ports.c.id),
           sa.exists().where(t.port_forwardings.c.internal_port_id == t.ports.c.id)).label('routed'),
).with_for_update(of=t.ports)
_OF_DEVICES = _TO_GIVE_BACK.where(t.ports.c.device_id.in_(sa.bindparam('device_ids', expanding=True)))


def to_give_back(conn: sa.Connection, device_ids: list[str]) -> Sequence[Any]:
    """Rows of the ports of these servers for give_back_rows, locked until the transaction ends."""
    return conn.execute(_OF_DEVICES, {'device_ids': device_ids}).all()


def give_back(conn: sa.Connection, device_ids: list[str]) -> int:
    """Remove the ports made for these servers, unbind the users' own; return how many ports there were."""
    return give_back_rows(conn, to_give_back(conn, list(device_ids)))


def give_back_one(conn: sa.Connection, ident: str, device_id: str, attached_by: str | None = None) -> int:
    """The same of one port of a server; 0 when it has left it.

    :param attached_by: only when this request attached it
    """
    c = t.ports.c
    condition = (c.id == ident) & (c.device_id == device_id)
    if attached_by is not None:
        condition &= c.attached_by == attached_by
    return give_back_rows(conn, conn.execute(_TO_GIVE_BACK.where(condition)).all())


def give_back_rows(conn: sa.Connection, rows: Sequence[Any]) -> int:
    """The same of rows that are locked."""
    c = t.ports.c
    made = [row.id for row in rows if row.made_for_server]
    own = [row.id for row in rows if not row.made_for_server]
    if made:
        remove(conn, made, any(row.routed for row in rows))
    if own:
        revisions.execute(conn, sa.update(t.ports).where(c.id.in_(own)).values(
            device_id='', device_owner='', host='', migrating_to='', status='DOWN', tag=None, attached_by=None,
            updated_at=utils.utcnow(), revision=c.revision + 1))
    return len(rows)


def remove(conn: sa.Connection, idents: list[str], routed: bool = True) -> None:
    """Delete ports and what belongs to them.

    :param routed: whether any of them may have a floating address or a forwarding
    """
    networks.release(conn, idents)
    if routed:
        routers.forget_ports(conn, idents)
    security_groups.unbind(conn, idents)
    revisions.execute(conn, sa.delete(t.ports).where(t.ports.c.id.in_(idents)))


def devices(conn: sa.Connection) -> set[str]:
    """Ids of the servers that have ports, each once."""
    c = t.ports.c
    return set(conn.execute(sa.select(c.device_id).where(
        c.device_id != '', c.device_owner.like('compute:%')).distinct()).scalars())


def older_devices(conn: sa.Connection, device_ids: set[str], before: datetime) -> list[str]:
    """Of these servers those whose newest port change is older than a moment."""
    c = t.ports.c
    return list(conn.execute(sa.select(c.device_id).where(c.device_id.in_(list(device_ids)))
                             .group_by(c.device_id).having(sa.func.max(c.updated_at) < before)).scalars())


OF_SERVERS = 'compute:'                # how the owners of ports of servers begin
# what the service itself puts on ports
DHCP, GATEWAY, INTERFACE, FLOATING = (f'network:{name}' for name in (
    'dhcp', 'router_gateway', 'router_interface', 'floatingip'))


_SERVED = sa.select(t.addresses.c.subnet_id, t.addresses.c.address).join(
    t.ports, t.ports.c.id == t.addresses.c.port_id).where(
        t.ports.c.network_id.in_(sa.bindparam('of_networks', expanding=True)), t.ports.c.device_owner == DHCP)


def dhcp_addresses(conn: sa.Connection, network_ids: list[str]) -> dict[str, str]:
    """{subnet id: the address of DHCP and DNS there}, whatever other ports the networks have."""
    return {row.subnet_id: row.address for row in conn.execute(_SERVED, {'of_networks': network_ids})}


def give_services(conn: sa.Connection, network_id: str, project_id: str) -> None:
    """Let the ports of DHCP and DNS of a network be a project's."""
    revisions.execute(conn, sa.update(t.ports).where(
        t.ports.c.network_id == network_id, t.ports.c.device_owner == DHCP).values(project_id=project_id))


def in_network(conn: sa.Connection, network_id: str) -> list[PortsRow]:
    """The ports of a network."""
    return networks.many(conn, t.ports, [network_id], 'network_id')


def count(conn: sa.Connection, **values: Any) -> int:
    """How many ports have these values in their columns."""
    conditions = [t.ports.c[name] == value for name, value in values.items()]
    return conn.execute(sa.select(sa.func.count()).select_from(t.ports).where(*conditions)).scalar_one()


def remove_from_router(conn: sa.Connection, port: Mapping[str, Any]) -> None:
    """Remove a router's port and the router's interface with it."""
    for held in networks.addresses_of(conn, [port['id']]).get(port['id'], ()):
        routers.leave(conn, port['device_id'], held['subnet_id'])
    remove(conn, [port['id']])


def evict(conn: sa.Connection, network: Any) -> None:
    """Remove the ports of projects that may no longer use a network.

    Interfaces of routers and free ports go at once. A server keeps its port until it is detached or deleted.
    """
    if network['shared']:
        return
    networks.usable(conn, nova_context.ALL_PROJECTS, [network['id']], lock=True)       # no port is made meanwhile
    allowed = {network['project_id'], '', *(row['target_project'] for row in networks.many(
        conn, t.shares, [network['id']], 'network_id'))}
    if networks.EVERYBODY in allowed:
        return
    foreign = [port for port in in_network(conn, network['id']) if port['project_id'] not in allowed]
    for port in foreign:
        if port['device_owner'] == INTERFACE:
            remove_from_router(conn, port)
    remove(conn, [port['id'] for port in foreign if not port['device_id']])


# ---- conditions of lists --------------------------------------------------------

def visible(context: nova_context.RequestContext) -> Any:
    """Ports that the caller may see: the project's own, and all in its networks.

    One of an administrative server, like the server, is for administrators and services.
    """
    own = networks.own(t.ports)(context) if not nova_context.one_project(context.sees) else _in_reach(context.sees)
    return own if context.is_admin or 'service' in (context.roles or ()) else _regular(own)


def seen(conn: sa.Connection, context: nova_context.RequestContext, idents: list[str] | set[str],
         ) -> dict[str, PortsRow]:
    """{id: port} of those of these ports that the caller may see."""
    if not idents or context.is_admin:
        return of_ids(conn, idents)
    return {row['id']: row for row in statements.dicts(conn.execute(
        sa.select(t.ports).where(t.ports.c.id.in_(list(idents)), visible(context))))}


@functools.lru_cache(maxsize=256)
def _in_reach(project_id: str) -> Any:
    return sa.or_(t.ports.c.project_id == project_id, t.ports.c.network_id.in_(
        sa.select(t.networks.c.id).where(t.networks.c.project_id == project_id)))


@functools.lru_cache(maxsize=256)
def _regular(condition: Any) -> Any:
    return condition & sa.not_(categories.is_administrative(t.ports.c.device_id))


def by_fixed_ips(values: list[str]) -> Any:
    """``fixed_ips=ip_address=10.0.0.3``, ``fixed_ips=subnet_id=…``, ``ip_address_substr``: all hold.

    :raises BadRequest: another attribute
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


def by_groups(values: list[str]) -> Any:
    """Ports that are in one of these security groups."""
    c = t.port_security_groups.c
    return t.ports.c.id.in_(sa.select(c.port_id).where(c.security_group_id.in_(values)))
