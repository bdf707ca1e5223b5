"""What one host's plumbing is made from: plain data, read from the database in one moment."""
from __future__ import annotations

from collections.abc import Callable
import dataclasses
from typing import Any

from sqlalchemy import Connection

from nova.db.networks import networks
from nova.db.networks import ports
from nova.db.networks import security_groups
from nova.db.tables import network as t


@dataclasses.dataclass
class Subnet:
    cidr: str
    gateway: str | None
    dhcp: bool
    dns: list
    routes: list                    # [{'destination', 'nexthop'}]


@dataclasses.dataclass
class Network:
    id: str
    bridge: str
    mtu: int
    is_default: bool
    subnets: list


@dataclasses.dataclass
class Port:
    """A guest's port on this host. ``groups``: ids of its security groups."""

    id: str
    device: str
    mac: str
    bridge: str
    addresses: list
    groups: list


@dataclasses.dataclass
class HostState:
    """
    rules    {group id: [row of security_group_rules]} of the groups of the ports
    members  {group id: [address]} of the groups that rules name as remote ones
    """

    networks: list
    ports: list
    rules: dict
    members: dict


def load(conn: Connection, host: str, devname: Callable[..., Any]) -> HostState:
    """The HostState of a host, in seven statements.

    :param devname: port id -> name of its device
    """
    rows = ports.on_host(conn, host)
    idents = [row['id'] for row in rows]
    fixed = networks.addresses_of(conn, idents)
    groups = security_groups.of_ports(conn, idents)
    used = {group for of_port in groups.values() for group in of_port}
    rules = {group: [] for group in used}
    for rule in networks.many(conn, t.security_group_rules, used, 'security_group_id'):
        rules[rule['security_group_id']].append(rule)
    remote = {
        rule['remote_group_id'] for of_group in rules.values() for rule in of_group if rule['remote_group_id']
    }
    known = {row['id']: row for row in
             networks.page(conn, t.networks, t.networks.c.bridge != '', [('id', 'asc')], None, None)}
    subnets = {}
    for row in networks.many(conn, t.subnets, known, 'network_id'):
        subnets.setdefault(row['network_id'], []).append(
            Subnet(
                row['cidr'], row['gateway_ip'], row['enable_dhcp'], row['dns_nameservers'], row['host_routes']
            )
        )
    return HostState(
        networks=[
            Network(row['id'], row['bridge'], row['mtu'], row['is_default'], subnets.get(ident, []))
            for ident, row in known.items()
        ],
        ports=[
            Port(
                row['id'],
                devname(row['id']),
                row['mac_address'],
                known[row['network_id']]['bridge'],
                [entry['ip_address'] for entry in fixed.get(row['id'], [])] if row['admin_state_up'] else [],
                groups.get(row['id'], []),
            )
            for row in rows
            if row['network_id'] in known
        ],
        rules={group: sorted(of_group, key=lambda rule: rule['id']) for group, of_group in rules.items()},
        members={
            group: sorted(found)
            for group, found in (
                {group: [] for group in remote} | security_groups.members(conn, remote)
            ).items()
        },
    )
