"""Guarantees of bandwidth and packet rates: amounts that hosts can guarantee, and amounts that their ports need.

Claims have no rows: the ports on a host are the claims. A port uses the guarantees of its QoS policy, or of its
network's QoS policy. It uses them on its host and, during a migration, also on the destination. ``claim`` locks the
host's row and compares the sum of these guarantees with the host's reported amounts. The caller writes the port's host
in the same transaction, before it claims.
"""
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from nova import exception
from nova.db.networks import networks
from nova.db.networks.ports import OF_SERVERS
from nova.db.tables import network as t
from nova.db.tables.rows import NetworksRow
from nova.db.tables.rows import QosMinimumsRow
from nova.objects import guarantees as names

Amounts = dict[tuple[str, str], int]       # {(resource class, physical network, or '' for packet rates): amount}


class Needs(NamedTuple):
    """Guarantees that a server's ports need, and the amounts that are free on each host."""

    needed: Amounts
    left: dict[str, Amounts]


def key(kind: str, direction: str, physical_network: str | None) -> tuple[str, str]:
    """Return the key in Amounts for a rule of this type and direction, in a network on this physical network."""
    return names.CLASSES[kind, direction][0], physical_network or names.TUNNELLED if kind == names.BANDWIDTH else ''


def of_policies(conn: sa.Connection, policy_ids: Iterable[str]) -> dict[str, list[QosMinimumsRow]]:
    """Return {policy id: rows of its guarantees, by type and direction}."""
    found: dict[str, list[QosMinimumsRow]] = {}
    for row in sorted(networks.many(conn, t.qos_minimums, policy_ids, 'policy_id'),
                      key=lambda row: (row['type'], row['direction'])):
        found.setdefault(row['policy_id'], []).append(row)
    return found


# ---- needs of ports -------------------------------------------------------------

def needs(conn: sa.Connection, ports: Iterable[tuple[str, str | None]], nets: Mapping[str, NetworksRow]) -> Amounts:
    """Return the sum of the guarantees that ports need. If the ports have no policy, no statement runs.

    :param ports: (id of the network, id of the port's policy or None) of each port
    :param nets: rows of their networks by id
    """
    policies = [(policy or nets[network]['qos_policy_id'], nets[network]) for network, policy in ports]
    known = of_policies(conn, {policy for policy, _network in policies if policy})
    found: Amounts = {}
    for policy, network in policies:
        for row in known.get(policy or '', ()):
            name = key(row['type'], row['direction'], network['physical_network'])
            found[name] = found.get(name, 0) + row['amount']
    return found


def needs_of(conn: sa.Connection, server: str, port_ids: Collection[str] = (),
             network_ids: Collection[str] = ()) -> Amounts:
    """Return the guarantees that the ports of a server need.

    :param network_ids: networks of requested ports, for a server without ports
    """
    c = t.ports.c
    rows = conn.execute(sa.select(c.device_id, c.network_id, c.qos_policy_id).where(sa.or_(
        sa.and_(c.device_id == server, c.device_owner.startswith(OF_SERVERS)), c.id.in_(list(port_ids))))).all()
    ports: list[tuple[str, str | None]] = [(row.network_id, row.qos_policy_id) for row in rows]
    if not any(row.device_id == server for row in rows):
        ports += [(ident, None) for ident in network_ids]
    nets = {row['id']: row for row in networks.many(conn, t.networks, {network for network, _policy in ports})}
    return needs(conn, [port for port in ports if port[0] in nets], nets)


# ---- hosts ----------------------------------------------------------------------

def _uses(place: sa.ColumnElement[str], condition: sa.ColumnElement[bool]) -> list[sa.Select[Any]]:
    """Return SELECTs of the guarantees that guests' ports use; ``place`` is the column with the ports' host."""
    columns = (place.label('host'), t.qos_minimums.c.type, t.qos_minimums.c.direction, t.qos_minimums.c.amount,
               t.networks.c.physical_network)
    both = sa.select(*columns).where(
        place != '', t.ports.c.device_owner.startswith(OF_SERVERS), t.ports.c.network_id == t.networks.c.id, condition)
    return [both.where(t.qos_minimums.c.policy_id == t.ports.c.qos_policy_id),
            both.where(t.qos_minimums.c.policy_id == t.networks.c.qos_policy_id, t.ports.c.qos_policy_id.is_(None))]


def used(conn: sa.Connection, host: str | None = None, without: str = '') -> dict[str, Amounts]:
    """Return {host: amounts that its ports use}.

    :param host: return only this host
    :param without: uuid of a server whose ports do not count
    """
    c = t.ports.c
    each = sa.union_all(*(select for place in (c.host, c.migrating_to) for select in _uses(
        place, sa.and_(c.device_id != without, sa.true() if host is None else place == host)))).subquery().c
    columns = (each.host, each.type, each.direction, each.physical_network)
    found: dict[str, Amounts] = {}
    for row in conn.execute(sa.select(*columns, sa.func.sum(each.amount).label('amount')).group_by(*columns)):
        amounts, name = found.setdefault(row.host, {}), key(row.type, row.direction, row.physical_network)
        amounts[name] = amounts.get(name, 0) + int(row.amount)       # packet rates have a row for each physical network
    return found


def stated(guarantees: Mapping[str, Mapping[str, int]] | None) -> Amounts:
    """Return the column ``guarantees`` of a host as Amounts."""
    return {(name, physical): amount for name, amounts in (guarantees or {}).items()
            for physical, amount in amounts.items()}


def free(conn: sa.Connection, server: str) -> dict[str, Amounts]:
    """Return {host: amounts free for a server} of hosts that report guarantees; the server's own ports do not count."""
    of_hosts = {row.host: stated(row.guarantees) for row in conn.execute(
        sa.select(t.hosts.c.host, t.hosts.c.guarantees).where(t.hosts.c.guarantees.is_not(None)))}
    taken = used(conn, without=server) if of_hosts else {}
    return {host: {name: amount - taken.get(host, {}).get(name, 0) for name, amount in amounts.items()}
            for host, amounts in of_hosts.items() if amounts}


def lacking(needed: Amounts, left: Amounts) -> str:
    """Return a phrase for an error message about the first needed amount that exceeds ``left``, or ''."""
    for (name, physical), amount in sorted(needed.items()):
        there = left.get((name, physical), 0)
        if there < amount:
            return f'{max(there, 0)} of {amount} {names.NAMES[name]}' + (f' on {physical}' if physical else '')
    return ''


def claim(conn: sa.Connection, host: str, needed: Collection[tuple[str, str]]) -> None:
    """Check that a host can guarantee the amounts of all ports that are on it or migrate to it.

    :param needed: keys of the amounts that the new ports need; without keys, no statement runs
    :raises PortBindingFailed: the host cannot guarantee them
    """
    if not needed or not host:
        return
    row = conn.execute(sa.select(t.hosts.c.guarantees).where(t.hosts.c.host == host).with_for_update()).first()
    uses = used(conn, host).get(host, {})
    missing = lacking({name: uses.get(name, 0) for name in needed}, stated(row.guarantees if row else None))
    if missing:
        raise exception.PortBindingFailed(
            reason=f'the host cannot guarantee what all its ports need: it has only {missing}.')


def claim_server(conn: sa.Connection, server: str, host: str) -> None:
    """Claim the guarantees of a server's ports on the host to which they have moved; see claim()."""
    claim(conn, host, needs_of(conn, server))


def claim_policy(conn: sa.Connection, policy_id: str) -> None:
    """Claim a changed policy's guarantees on all hosts of its ports; see claim()."""
    rules = of_policies(conn, [policy_id]).get(policy_id, ())
    if not rules:
        return
    c = t.ports.c
    found = conn.execute(sa.select(c.host, c.migrating_to, t.networks.c.physical_network).join(
        t.networks, t.networks.c.id == c.network_id).where(
            c.device_owner.startswith(OF_SERVERS), c.host != '',
            sa.func.coalesce(c.qos_policy_id, t.networks.c.qos_policy_id) == policy_id).distinct()).all()
    wanted: dict[str, set[tuple[str, str]]] = {}
    for row in found:
        for place in filter(None, (row.host, row.migrating_to)):
            wanted.setdefault(place, set()).update(
                key(rule['type'], rule['direction'], row.physical_network) for rule in rules)
    for host, keys in sorted(wanted.items()):
        claim(conn, host, keys)
