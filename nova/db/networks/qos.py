"""Policies of quality of service, and their rules."""
from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from nova import context as nova_context
from nova.db.networks import networks
from nova.db.networks import revisions
from nova.db.tables import network as t


def visible(context: nova_context.RequestContext) -> Any:
    """Condition on policies that the caller may see and use: its own, those for all, and those shared with it."""
    project_id, c = context.sees, t.qos_policies.c
    if not nova_context.one_project(project_id):
        return c.id.is_not(None)
    return networks.or_shared(t.qos_policies, context, sa.or_(c.project_id == project_id, c.shared))


def rules_of(conn: sa.Connection, policy_ids: Any) -> dict[str, list[dict[str, Any]]]:
    """{policy id: rows of its rules, by direction}"""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(networks.many(conn, t.qos_rules, policy_ids, 'policy_id'), key=lambda row: row['direction']):
        found.setdefault(row['policy_id'], []).append(row)
    return found


def in_use(conn: sa.Connection, policy_id: str) -> str:
    """What uses a policy, as 'port ID' or 'network ID'; '' for nothing."""
    for name, table in (('port', t.ports), ('network', t.networks)):
        found = conn.execute(sa.select(table.c.id).where(table.c.qos_policy_id == policy_id).limit(1)).scalar()
        if found:
            return f'{name} {found}'
    return ''


def users(conn: sa.Connection, policy_id: str) -> set[str]:
    """The projects whose ports or networks use a policy."""
    return {project for table in (t.ports, t.networks) for project in conn.execute(
        sa.select(table.c.project_id).distinct().where(table.c.qos_policy_id == policy_id)).scalars()}


def remove(conn: sa.Connection, policy_id: str) -> None:
    revisions.execute(conn, sa.delete(t.qos_rules).where(t.qos_rules.c.policy_id == policy_id))
    networks.end_shares(conn, policy_id)
    networks.delete(conn, t.qos_policies, policy_id)


def of_ports(conn: sa.Connection, ports: list[Any], nets: dict[str, Any]) -> dict[str, list[list[Any]]]:
    """{port id: [[direction, kbit/s, burst in kbit]]} of guests' ports: their own policy's, else their network's.

    :param nets: rows of their networks by id
    """
    policies = {port['id']: port['qos_policy_id'] or nets[port['network_id']]['qos_policy_id'] for port in ports
                if port['network_id'] in nets and port['device_owner'].startswith('compute:')}
    rules = rules_of(conn, {policy for policy in policies.values() if policy})
    return {port: [[rule['direction'], rule['max_kbps'], rule['max_burst_kbps']] for rule in rules[policy]]
            for port, policy in policies.items() if policy in rules}
