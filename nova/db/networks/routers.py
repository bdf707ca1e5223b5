"""Routers, their interfaces, floating addresses and port forwardings."""
from collections.abc import Iterable

import sqlalchemy as sa

from nova import utils
from nova.db import statements
from nova.db.networks import dns
from nova.db.networks import hosts
from nova.db.networks import networks
from nova.db.networks import revisions
from nova.db.tables import network as t
from nova.db.tables import rows as db_rows


def interfaces(conn: sa.Connection, router_ids: Iterable[str]) -> list[db_rows.RouterInterfacesRow]:
    """Return the interface rows of routers."""
    return networks.many(conn, t.router_interfaces, router_ids, 'router_id')


def add_interface(conn: sa.Connection, router_id: str, subnet_id: str, port_id: str) -> None:
    """Add a subnet to a router; the primary key prevents duplicates."""
    conn.execute(sa.insert(t.router_interfaces), [
        {'router_id': router_id, 'subnet_id': subnet_id, 'port_id': port_id}])


def remove_interface(conn: sa.Connection, router_id: str, subnet_id: str) -> None:
    c = t.router_interfaces.c
    conn.execute(sa.delete(t.router_interfaces).where(c.router_id == router_id, c.subnet_id == subnet_id))


def leave(conn: sa.Connection, router_id: str, subnet_id: str) -> None:
    """Remove a subnet and its port from a router; disassociate the router's floating addresses from the subnet."""
    here = sa.select(t.addresses.c.port_id).where(t.addresses.c.subnet_id == subnet_id)
    c, through = t.floating_ips.c, sa.select(t.floating_ips.c.id).where(t.floating_ips.c.router_id == router_id)
    _delete_forwardings(conn, t.port_forwardings.c.floating_ip_id.in_(through),
                        t.port_forwardings.c.internal_port_id.in_(here))
    revisions.execute(conn, sa.update(t.floating_ips).where(c.router_id == router_id, c.port_id.in_(here)).values(
        port_id=None, fixed_ip_address=None, router_id=None, status='DOWN', updated_at=utils.utcnow(),
        revision=c.revision + 1))
    remove_interface(conn, router_id, subnet_id)


def subnets_on(conn: sa.Connection, router_id: str) -> list[db_rows.SubnetsRow]:
    """Return the subnets of a router's interfaces."""
    return networks.many(conn, t.subnets, [row['subnet_id'] for row in interfaces(conn, [router_id])])


def addresses_on(conn: sa.Connection, subnet_id: str) -> set[str]:
    """Return the addresses of routers in a subnet."""
    ports = [row['port_id'] for row in networks.many(conn, t.router_interfaces, [subnet_id], 'subnet_id')]
    return {held['ip_address'] for each in networks.addresses_of(conn, ports).values() for held in each
            if held['subnet_id'] == subnet_id}


def towards(conn: sa.Connection, subnet_id: str, external_network_id: str, project_id: str) -> str | None:
    """Return the router that translates a project's floating address from the external network to a subnet, or None.

    The router with the gateway's address has priority, because guests send responses to it. Next are routers of that
    project, then routers of the subnet's project. Routers of other projects are not used: they could redirect traffic.
    """
    of, held = t.router_interfaces.c, t.addresses.c
    rows = conn.execute(sa.select(
        t.routers.c.id, t.routers.c.project_id, t.subnets.c.project_id.label('of_subnet'),
        sa.exists().where(held.port_id == of.port_id, held.subnet_id == of.subnet_id,
                          held.address == t.subnets.c.gateway_ip).label('is_gateway'))
        .join(t.router_interfaces, of.router_id == t.routers.c.id).join(t.subnets, t.subnets.c.id == of.subnet_id)
        .where(of.subnet_id == subnet_id, t.routers.c.external_network_id == external_network_id)
        .order_by(t.routers.c.created_at, t.routers.c.id)).all()
    chosen = [*(row.id for row in rows if row.is_gateway), *(row.id for row in rows if row.project_id == project_id),
              *(row.id for row in rows if row.project_id == row.of_subnet)]
    return str(chosen[0]) if chosen else None


def floating_through(conn: sa.Connection, router_id: str) -> list[db_rows.FloatingIpsRow]:
    """Return the floating addresses that a router translates."""
    return networks.many(conn, t.floating_ips, [router_id], 'router_id')


def floating_of(conn: sa.Connection, port_ids: Iterable[str]) -> dict[tuple[str, str], str]:
    """Return {(port id, fixed address): floating address} of these ports."""
    c = t.floating_ips.c
    found = networks.values_of(conn, c.port_id, port_ids, c.fixed_ip_address, c.floating_ip_address)
    return {(port, fixed): address for port, rows in found.items() for fixed, address in rows}


_REACHABLE = sa.select(sa.or_(
    sa.exists().where(t.floating_ips.c.port_id.in_(sa.bindparam('port_ids', expanding=True))),
    sa.exists().where(t.port_forwardings.c.internal_port_id.in_(sa.bindparam('port_ids', expanding=True)))))


def are_reachable(conn: sa.Connection, port_ids: list[str]) -> bool:
    """Tell whether any of these ports has a floating address or a port forwarding."""
    return bool(conn.execute(_REACHABLE, {'port_ids': port_ids}).scalar_one())


def forget_ports(conn: sa.Connection, port_ids: list[str]) -> None:
    """Disassociate floating addresses from removed ports and delete forwardings to them."""
    c, now = t.floating_ips.c, utils.utcnow()
    revisions.execute(conn, sa.update(t.floating_ips).where(c.port_id.in_(port_ids)).values(
        port_id=None, fixed_ip_address=None, router_id=None, status='DOWN', updated_at=now, revision=c.revision + 1))
    _delete_forwardings(conn, t.port_forwardings.c.internal_port_id.in_(port_ids))


def forget_addresses(conn: sa.Connection, port_id: str, addresses: list[str]) -> None:
    """Disassociate floating addresses from some addresses of a port, and delete forwardings to these."""
    c, f = t.floating_ips.c, t.port_forwardings.c
    revisions.execute(conn, sa.update(t.floating_ips).where(
        c.port_id == port_id, c.fixed_ip_address.in_(addresses)).values(
            port_id=None, fixed_ip_address=None, router_id=None, status='DOWN', updated_at=utils.utcnow(),
            revision=c.revision + 1))
    _delete_forwardings(conn, f.internal_port_id == port_id, f.internal_ip_address.in_(addresses))


def _delete_forwardings(conn: sa.Connection, *conditions: sa.ColumnElement[bool]) -> None:
    """Delete forwardings; a floating address without further forwardings leaves its router."""
    c, f = t.floating_ips.c, t.port_forwardings.c
    idents = conn.execute(sa.select(c.id).where(c.id.in_(sa.select(f.floating_ip_id).where(*conditions))).order_by(
        c.id).with_for_update()).scalars().all()
    if not idents:
        return
    revisions.execute(conn, sa.delete(t.port_forwardings).where(*conditions))
    revisions.execute(conn, sa.update(t.floating_ips).where(
        c.id.in_(idents), c.port_id.is_(None), ~sa.exists().where(f.floating_ip_id == c.id)).values(
            router_id=None, status='DOWN', updated_at=utils.utcnow(), revision=c.revision + 1))


def forwardings(conn: sa.Connection, floating_ip_ids: Iterable[str]) -> list[db_rows.PortForwardingsRow]:
    """Return the forwarding rows of these floating addresses, by protocol and external port."""
    found = networks.many(conn, t.port_forwardings, floating_ip_ids, 'floating_ip_id')
    return sorted(found, key=lambda row: (row['protocol'], row['external_port']))


def helpers(conn: sa.Connection, router_ids: Iterable[str]) -> dict[str, list[db_rows.RouterConntrackHelpersRow]]:
    """Return {router id: rows of its conntrack helpers, by protocol and port}."""
    found: dict[str, list[db_rows.RouterConntrackHelpersRow]] = {}
    for row in sorted(networks.many(conn, t.conntrack_helpers, router_ids, 'router_id'),
                      key=lambda row: (row['protocol'], row['port'])):
        found.setdefault(row['router_id'], []).append(row)
    return found


def remove_floating(conn: sa.Connection, ident: str) -> None:
    """Remove a floating address with its forwardings and names; the caller removes its port."""
    row = networks.get(conn, t.floating_ips, ident)
    if row is not None:
        dns.forget_floating(conn, row['floating_ip_address'], row['project_id'])
    revisions.execute(conn, sa.delete(t.port_forwardings).where(t.port_forwardings.c.floating_ip_id == ident))
    networks.delete(conn, t.floating_ips, ident)


def places(conn: sa.Connection) -> dict[str, str]:
    """Return {router id: name of its host, or ''} of the routers that get a host automatically."""
    c = t.routers.c
    return {ident: host for ident, host in conn.execute(
        sa.select(c.id, c.host).where(~c.taken | (c.host != '')).order_by(c.id))}


def on_hosts(conn: sa.Connection) -> dict[str, int]:
    """Return {host: number of routers}."""
    c = t.routers.c
    return {host: number for host, number in conn.execute(
        sa.select(c.host, sa.func.count()).where(c.host != '').group_by(c.host))}


def with_status(values: list[str], down_time: int) -> sa.ColumnElement[bool]:
    """Return a condition on routers with one of these statuses: ACTIVE on a live gateway host, otherwise DOWN."""
    active = t.routers.c.host.in_(hosts.with_routers(down_time))
    return sa.or_(*[{'ACTIVE': active, 'DOWN': ~active}.get(value.upper(), sa.false()) for value in values])


def active(conn: sa.Connection, idents: list[str], down_time: int) -> set[str]:
    """Return the subset of ids of routers with the status ACTIVE."""
    c = t.routers.c
    return set(conn.execute(sa.select(c.id).where(c.id.in_(idents), with_status(['ACTIVE'], down_time))).scalars())


def place(conn: sa.Connection, ident: str, host: str, was: str = '') -> bool:
    """Move a router and its ports from ``was`` to a host, or to no host (''); return False if it is not on ``was``."""
    c, p, now = t.routers.c, t.ports.c, utils.utcnow()
    moved = revisions.execute(conn, sa.update(t.routers).where(c.id == ident, c.host == was).values(
        host=host, taken=not host, updated_at=now)).rowcount
    if moved:
        revisions.execute(conn, sa.update(t.ports).where(
            p.device_id == ident, p.device_owner.like('network:router_%')).values(
                host=host, status='ACTIVE' if host else 'DOWN', updated_at=now, revision=p.revision + 1))
    return bool(moved)


def of_host(conn: sa.Connection, host: str) -> list[db_rows.RoutersRow]:
    """Return rows of the routers on a host."""
    return statements.rows(conn, t.routers, ('id',), host=host)


def elsewhere(conn: sa.Connection, network_ids: Iterable[str], project_ids: Iterable[str],
              host: str) -> list[db_rows.RoutersRow]:
    """Return rows of routers that have an interface in one of these networks and are on other hosts or on no host.

    Routers of other projects are included only if they have a subnet's gateway address, because any project may attach
    routers to a shared network.
    """
    of, held = t.router_interfaces.c, t.addresses.c
    is_gateway = sa.exists().where(held.port_id == of.port_id, held.subnet_id == of.subnet_id,
                                   held.address == t.subnets.c.gateway_ip)
    concerned = sa.select(of.router_id).join(t.subnets, t.subnets.c.id == of.subnet_id).join(
        t.routers, t.routers.c.id == of.router_id).where(
            t.subnets.c.network_id.in_(list(network_ids)),
            sa.or_(t.routers.c.project_id.in_(list(project_ids)), is_gateway))
    return statements.dicts(conn.execute(sa.select(t.routers).where(
        t.routers.c.host != host, t.routers.c.id.in_(concerned)).order_by(t.routers.c.id)))
