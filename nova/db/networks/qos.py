"""QoS policies and their rules."""
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from nova.db.networks import guarantees
from nova.db.networks import networks
from nova.db.networks import revisions
from nova.db.networks import trunks
from nova.db.networks.ports import OF_SERVERS
from nova.db.tables import network as t
from nova.db.tables import rows as db_rows
from nova.objects import guarantees as names


# condition on policies that the caller may see and use: own, public and shared policies
visible = networks.own_or_shared(t.qos_policies, t.qos_policies.c.shared)


def rules_of(conn: sa.Connection, policy_ids: Iterable[str]) -> dict[str, list[db_rows.QosRulesRow]]:
    """Return {policy id: rows of its rules, by direction}."""
    found: dict[str, list[db_rows.QosRulesRow]] = {}
    for row in sorted(networks.many(conn, t.qos_rules, policy_ids, 'policy_id'), key=lambda row: row['direction']):
        found.setdefault(row['policy_id'], []).append(row)
    return found


def in_use(conn: sa.Connection, policy_id: str) -> str:
    """Return one resource that uses a policy, as 'port ID', 'network ID' or 'router ID', or '' if there is none."""
    for name, table in (('port', t.ports), ('network', t.networks), ('router', t.routers)):
        found = conn.execute(sa.select(table.c.id).where(table.c.qos_policy_id == policy_id).limit(1)).scalar()
        if found:
            return f'{name} {found}'
    return ''


def without_guarantees(conn: sa.Connection, policy_id: str) -> str:
    """Return 'router ID' or 'subport ID' if a resource with this policy cannot have a minimum rate, else ''."""
    c = t.ports.c
    for name, statement in (
            ('router', sa.select(t.routers.c.id).where(t.routers.c.qos_policy_id == policy_id)),
            ('subport', sa.select(c.id).where(c.qos_policy_id == policy_id, c.device_owner == trunks.SUBPORT))):
        found = conn.execute(statement.limit(1)).scalar()
        if found:
            return f'{name} {found}'
    return ''


def users(conn: sa.Connection, policy_id: str) -> set[str]:
    """Return the projects with ports, networks or routers that use a policy."""
    return {project for table in (t.ports, t.networks, t.routers) for project in conn.execute(
        sa.select(table.c.project_id).distinct().where(table.c.qos_policy_id == policy_id)).scalars()}


def remove(conn: sa.Connection, policy_id: str) -> None:
    revisions.execute(conn, sa.delete(t.qos_rules).where(t.qos_rules.c.policy_id == policy_id))
    revisions.execute(conn, sa.delete(t.qos_minimums).where(t.qos_minimums.c.policy_id == policy_id))
    unmark(conn, policy_id)
    networks.end_shares(conn, policy_id)
    networks.delete(conn, t.qos_policies, policy_id)


def markings_of(conn: sa.Connection, policy_ids: Iterable[str]) -> dict[str, db_rows.QosMarkingsRow]:
    """Return {policy id: row of its DSCP marking}."""
    return {row['policy_id']: row for row in networks.many(conn, t.qos_markings, policy_ids, 'policy_id')}


def mark(conn: sa.Connection, row: db_rows.QosMarkingsRow) -> None:
    """Set the DSCP marking of a policy."""
    unmark(conn, row['policy_id'])
    revisions.execute(conn, sa.insert(t.qos_markings), [row])


def unmark(conn: sa.Connection, policy_id: str) -> None:
    """Remove the DSCP marking of a policy."""
    revisions.execute(conn, sa.delete(t.qos_markings).where(t.qos_markings.c.policy_id == policy_id))


class Qualities(NamedTuple):
    """QoS settings of ports or routers.

    limits  {id: [[direction, kbit/s, burst in kbit]]}
    marks   {id: value of the DS field}
    guaranteed  {id: guaranteed egress bandwidth in kbit/s}
    """

    limits: dict[str, list[list[Any]]]
    marks: dict[str, int]
    guaranteed: dict[str, int]


def of_ports(conn: sa.Connection, ports: list[db_rows.PortsRow], nets: dict[str, db_rows.NetworksRow]) -> Qualities:
    """Return the settings of guest ports, from their policies or their networks'. Without policies, no statement runs.

    Subports have no guarantees.

    :param nets: rows of the ports' networks by id
    """
    found = of_policies(conn, {
        port['id']: port['qos_policy_id'] or nets[port['network_id']]['qos_policy_id'] for port in ports
        if port['network_id'] in nets and port['device_owner'].startswith((OF_SERVERS, trunks.SUBPORT))})
    for port in ports:
        if port['device_owner'] == trunks.SUBPORT:
            found.guaranteed.pop(port['id'], None)
    return found


def of_policies(conn: sa.Connection, policies: Mapping[str, str | None]) -> Qualities:
    """Return the settings of ports or routers, given as {id: policy id or None}."""
    chosen = {policy for policy in policies.values() if policy}
    rules, markings = rules_of(conn, chosen), markings_of(conn, chosen)
    egress = {policy: row['amount'] for policy, rows in guarantees.of_policies(conn, chosen).items() for row in rows
              if (row['type'], row['direction']) == (names.BANDWIDTH, 'egress')}
    return Qualities({port: [[rule['direction'], rule['max_kbps'], rule['max_burst_kbps']] for rule in rules[policy]]
                      for port, policy in policies.items() if policy in rules},
                     {port: markings[policy]['dscp_mark'] for port, policy in policies.items() if policy in markings},
                     {port: egress[policy] for port, policy in policies.items() if policy in egress})
