"""Security groups, their rules and the ports in them."""
from collections.abc import Iterable
from typing import Any
import uuid

import sqlalchemy as sa

from nova import context as nova_context
from nova import exception
from nova.db import engine
from nova.db import statements
from nova.db.networks import group_templates
from nova.db.networks import networks
from nova.db.networks import revisions
from nova.db.tables import network as t
from nova.db.tables.rows import SecurityGroupsRow

DEFAULT = 'default'


def of_project(conn: sa.Connection, project_id: str) -> list[SecurityGroupsRow]:
    """Return the groups of a project as dicts."""
    return statements.dicts(conn.execute(sa.select(t.security_groups).where(
        t.security_groups.c.project_id == nova_context.the_project(project_id))))


# condition on groups that the caller may see and use for ports: own and shared groups
visible = networks.own_or_shared(t.security_groups)


def shared_with(conn: sa.Connection, project_id: str, idents: list[str], lock: bool = False) -> set[str]:
    """Return the subset of ids that are groups shared with a project.

    :param lock: prevent changes of the shares until the transaction ends
    """
    c = t.security_groups.c
    if lock and idents:
        conn.execute(sa.select(c.id).where(c.id.in_(idents)).order_by(c.id).with_for_update(read=True)).all()
    return set(conn.execute(sa.select(c.id).where(
        c.id.in_(idents), c.id.in_(networks.shared_with(project_id)))).scalars()) if idents else set()


def users(conn: sa.Connection, group_id: str) -> set[str]:
    """Return the projects with ports in a group."""
    binding = t.port_security_groups.c
    return set(conn.execute(sa.select(t.ports.c.project_id).distinct().join(
        t.port_security_groups, binding.port_id == t.ports.c.id).where(
            binding.security_group_id == group_id)).scalars())


def ensure_default(conn: sa.Connection, project_id: str) -> str:
    """Return the id of the project's ``default`` group; create it with its rules if it is missing."""
    c, group = t.default_security_groups.c, t.security_groups.c
    condition = c.project_id == nova_context.the_project(project_id)
    known = conn.execute(sa.select(c.security_group_id, group.id).outerjoin(
        t.security_groups, group.id == c.security_group_id).where(condition)).first()
    if known and known.id:
        return str(known.id)
    ident = str(uuid.uuid4())
    if known:                    # an earlier release deleted the group alone
        made = conn.execute(sa.update(t.default_security_groups).where(
            condition, c.security_group_id == known.security_group_id).values(security_group_id=ident)).rowcount
    else:
        made = engine.insert_ignore(conn, t.default_security_groups,
                                    {'project_id': project_id, 'security_group_id': ident}).rowcount
    if not made:
        return conn.execute(sa.select(c.security_group_id).where(condition).with_for_update()).scalar_one()
    networks.insert(conn, t.security_groups, [
        {'id': ident, 'project_id': project_id, 'name': DEFAULT, 'description': 'Default security group'}])
    begin(conn, ident, project_id, True)
    return ident


def begin(conn: sa.Connection, group_id: str, project_id: str, default: bool = False) -> None:
    """Insert the initial rules of a new group."""
    rows = group_templates.rules(conn, group_id, project_id, default)
    if rows:
        networks.insert(conn, t.security_group_rules, rows)


def is_default(conn: sa.Connection, group_id: str) -> bool:
    c = t.default_security_groups.c
    return conn.execute(sa.select(c.project_id).where(c.security_group_id == group_id)).first() is not None


def bind(conn: sa.Connection, pairs: list[tuple[str, str]]) -> None:
    """Add existing ports to groups, given as different [(port id, group id)]. The groups exist until the commit.

    One statement inserts the rows and locks the groups: a group that is deleted meanwhile would keep its ports.

    :raises SecurityGroupNotFound, PortNotFound: deleted concurrently
    """
    if not pairs:
        return
    port, group = t.ports.c.id, t.security_groups.c.id
    port_ids, group_ids = {port_id for port_id, _group_id in pairs}, {group_id for _port_id, group_id in pairs}
    chosen = sa.select(port, group).join_from(t.ports, t.security_groups, sa.true()).where(
        port.in_(port_ids), group.in_(group_ids))
    if len(pairs) < len(port_ids) * len(group_ids):
        chosen = chosen.where(sa.tuple_(port, group).in_(pairs))
    made = revisions.execute(conn, sa.insert(t.port_security_groups).from_select(
        ['port_id', 'security_group_id'],
        chosen.with_for_update(read=True, key_share=True, of=t.security_groups))).rowcount
    if made < len(pairs):
        gone = group_ids - {row['id'] for row in networks.many(conn, t.security_groups, group_ids)}
        raise exception.SecurityGroupNotFound(security_group_id=min(gone)) if gone else exception.PortNotFound(
            port_id=min(port_ids))


def unbind(conn: sa.Connection, port_ids: list[str]) -> None:
    revisions.execute(conn, sa.delete(t.port_security_groups).where(t.port_security_groups.c.port_id.in_(port_ids)))


def join(conn: sa.Connection, port_ids: list[str], group_id: str) -> int:
    """Add ports to a group; return the number of new members."""
    joined = sum(engine.insert_ignore(conn, t.port_security_groups,
                                      {'port_id': port, 'security_group_id': group_id}).rowcount
                 for port in port_ids)
    if joined:
        revisions.changed(conn)
    return joined


def leave(conn: sa.Connection, port_ids: list[str], group_id: str) -> int:
    """Remove ports from a group; return the number of removed members."""
    c = t.port_security_groups.c
    return revisions.execute(conn, sa.delete(t.port_security_groups).where(
        c.port_id.in_(port_ids), c.security_group_id == group_id)).rowcount


def stateless(conn: sa.Connection, idents: Iterable[str]) -> list[str]:
    """Return the subset of ids that are stateless groups."""
    c = t.security_groups.c
    return sorted(conn.execute(sa.select(c.id).where(c.id.in_(list(idents)), sa.not_(c.stateful))).scalars())


def of_ports(conn: sa.Connection, port_ids: list[str]) -> dict[str, list[str]]:
    """Return {port id: [group id]}."""
    c = t.port_security_groups.c
    found = networks.values_of(conn, c.port_id, port_ids, c.security_group_id)
    return {port: sorted(group for group, in rows) for port, rows in found.items()}


def on_host(conn: sa.Connection, host: str) -> set[str]:
    """Return the ids of the groups of ports that are on a host or migrate to it."""
    port, binding = t.ports.c, t.port_security_groups.c
    return set(conn.execute(sa.select(binding.security_group_id).distinct().join_from(
        t.ports, t.port_security_groups, binding.port_id == port.id).where(
            sa.or_(port.host == host, port.migrating_to == host), port.device_id != '')).scalars())


def in_use(conn: sa.Connection, group_id: str) -> bool:
    """Tell whether a port is in the group."""
    c = t.port_security_groups.c
    return (
        conn.execute(sa.select(c.port_id).where(c.security_group_id == group_id).limit(1)).first() is not None
    )


def remove(conn: sa.Connection, group_id: str) -> bool:
    """Delete a group, its rules, and rules of other groups that refer to it; return False if it did not exist."""
    c = t.security_group_rules.c
    revisions.execute(conn, sa.delete(t.security_group_rules).where(
        sa.or_(c.security_group_id == group_id, c.remote_group_id == group_id)))
    networks.end_shares(conn, group_id)
    default = t.default_security_groups
    conn.execute(sa.delete(default).where(default.c.security_group_id == group_id))
    return networks.delete(conn, t.security_groups, group_id)


def members(conn: sa.Connection, group_ids: set[str]) -> dict[str, list[str]]:
    """Return {group id: [address]} of the ports in these groups on all hosts."""
    if not group_ids:
        return {}
    binding, address = t.port_security_groups.c, t.addresses.c
    found: dict[Any, Any] = {}
    for group_id, ip in conn.execute(
            sa.select(binding.security_group_id, address.address).join_from(
                t.port_security_groups, t.addresses, address.port_id == binding.port_id).where(
                    binding.security_group_id.in_(list(group_ids)))):
        found.setdefault(group_id, []).append(ip)
    return found


def of_devices(conn: sa.Connection, device_ids: list[str]) -> dict[str, list[SecurityGroupsRow]]:
    """Return {server uuid: [group row]}: the distinct security groups of the server's ports, by name."""
    binding, port = t.port_security_groups, t.ports.c
    if not device_ids:
        return {}
    found: dict[Any, Any] = {}
    for row in conn.execute(
            sa.select(port.device_id, t.security_groups).distinct().select_from(
                t.ports.join(binding, binding.c.port_id == port.id).join(
                    t.security_groups, t.security_groups.c.id == binding.c.security_group_id)).where(
                        port.device_id.in_(list(device_ids))).order_by(t.security_groups.c.name)).mappings():
        group = dict(row)
        found.setdefault(group.pop('device_id'), []).append(group)
    return found


def names_of_ports(conn: sa.Connection, port_ids: list[str]) -> list[str]:
    """Return the distinct names of the groups of these ports. A group without a name is listed with its id."""
    c, binding = t.security_groups.c, t.port_security_groups.c
    found = conn.execute(sa.select(c.name, c.id).distinct().join(
        t.port_security_groups, binding.security_group_id == c.id).where(binding.port_id.in_(port_ids)).order_by(
            c.name, c.id)) if port_ids else ()
    return list(dict.fromkeys(name or ident for name, ident in found))


_NAMES = sa.select(t.ports.c.device_id, t.security_groups.c.name, t.security_groups.c.id).distinct().select_from(
    t.ports.outerjoin(t.port_security_groups, t.port_security_groups.c.port_id == t.ports.c.id).outerjoin(
        t.security_groups, t.security_groups.c.id == t.port_security_groups.c.security_group_id)).where(
            t.ports.c.device_id.in_(sa.bindparam('of_devices', expanding=True))).order_by(
                t.ports.c.device_id, t.security_groups.c.name, t.security_groups.c.id)


def names_of_devices(conn: sa.Connection, device_ids: list[str]) -> dict[str, list[str]]:
    """Return {server uuid: names of the groups of the server's ports}, read in one statement.

    A group without a name is listed with its id.
    """
    found: dict[str, dict[str, None]] = {}
    for device, name, ident in conn.execute(_NAMES, {'of_devices': device_ids}) if device_ids else ():
        names = found.setdefault(device, {})
        if ident is not None:
            names[name or ident] = None
    return {device: list(names) for device, names in found.items()}


def defaults_among(conn: sa.Connection, group_ids: Iterable[str]) -> set[str]:
    """Return the subset of groups that are a project's default group."""
    group_id = t.default_security_groups.c.security_group_id
    return set(conn.execute(sa.select(group_id).where(group_id.in_(group_ids))).scalars())
