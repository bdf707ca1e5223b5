"""Tables of the embedded network service, in the API database."""
from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from nova.db import types
from nova.db.tables.api import table

_id = sa.String(36)
_text = sa.String(255)


def _described() -> Any:
    return [
        sa.Column('description', _text, nullable=False, default=''),
        sa.Column('created_at', types.DateTime, nullable=False),
        sa.Column('updated_at', types.DateTime, nullable=False),
        sa.Column('revision', sa.Integer, nullable=False, default=1),
    ]


networks = table(
    'networks',
    sa.Column('id', _id, primary_key=True),
    sa.Column('project_id', _text, nullable=False, default='', index=True),
    sa.Column('name', _text, nullable=False, default='', index=True),
    sa.Column('shared', sa.Boolean, nullable=False, default=False),
    sa.Column('is_default', sa.Boolean, nullable=False, default=False),
    sa.Column('admin_state_up', sa.Boolean, nullable=False, default=True),
    sa.Column('bridge', sa.String(15), nullable=False, unique=True),
    sa.Column('mtu', sa.Integer, nullable=False),
    *_described(),
)

subnets = table(
    'subnets',
    sa.Column('id', _id, primary_key=True),
    sa.Column('project_id', _text, nullable=False, default=''),
    sa.Column('network_id', _id, nullable=False, index=True),
    sa.Column('name', _text, nullable=False, default='', index=True),
    sa.Column('cidr', sa.String(43), nullable=False, unique=True),
    sa.Column('ip_version', sa.Integer, nullable=False, default=4),
    sa.Column('gateway_ip', sa.String(39)),
    sa.Column('enable_dhcp', sa.Boolean, nullable=False, default=True),
    sa.Column('allocation_pools', types.Json, nullable=False),       # [{'start', 'end'}]
    sa.Column('dns_nameservers', types.Json, nullable=False),        # [address]
    sa.Column('host_routes', types.Json, nullable=False),            # [{'destination', 'nexthop'}]
    *_described(),
)

ports = table(
    'ports',
    sa.Column('id', _id, primary_key=True),
    sa.Column('project_id', _text, nullable=False, default='', index=True),
    sa.Column('network_id', _id, nullable=False, index=True),
    sa.Column('name', _text, nullable=False, default='', index=True),
    sa.Column('mac_address', sa.String(17), nullable=False, unique=True),
    sa.Column('admin_state_up', sa.Boolean, nullable=False, default=True),
    sa.Column('status', sa.String(16), nullable=False, default='DOWN'),
    sa.Column('device_id', _text, nullable=False, default='', index=True),       # the server's uuid
    sa.Column('device_owner', _text, nullable=False, default=''),
    sa.Column('host', _text, nullable=False, default='', index=True),
    # the host where the server is about to arrive, and the port's plumbing is in place already
    sa.Column('migrating_to', _text, nullable=False, default='', server_default='', index=True),
    sa.Column('position', sa.Integer, nullable=False, default=0),    # order among the server's ports
    sa.Column('tag', sa.String(60)),
    # made for the server, and gone with it; the other ports are users' own and outlive it
    sa.Column('made_for_server', sa.Boolean, nullable=False, default=False),
    # the request that attached it to a server that ran already: what it began is finished, or taken back, once
    sa.Column('attached_by', _text),
    *_described(),
)

# An address in use, or resting after its use (port_id NULL). The key arbitrates between requests.
addresses = table(
    'addresses',
    sa.Column('subnet_id', _id, primary_key=True),
    sa.Column('number', sa.BigInteger, primary_key=True, autoincrement=False),     # the address as an integer
    sa.Column('address', sa.String(39), nullable=False, index=True),
    sa.Column('port_id', _id, index=True),
    sa.Column('released_at', types.DateTime),
)

security_groups = table(
    'security_groups',
    sa.Column('id', _id, primary_key=True),
    sa.Column('project_id', _text, nullable=False),
    sa.Column('name', _text, nullable=False),
    *_described(),
    sa.Index('ix_security_groups_project_name', 'project_id', 'name'),
)

# A row a project: two first requests of a project make one group.
default_security_groups = table(
    'default_security_groups',
    sa.Column('project_id', _text, primary_key=True),
    sa.Column('security_group_id', _id, nullable=False),
)

security_group_rules = table(
    'security_group_rules',
    sa.Column('id', _id, primary_key=True),
    sa.Column('project_id', _text, nullable=False, index=True),
    sa.Column('security_group_id', _id, nullable=False, index=True),
    sa.Column('direction', sa.String(8), nullable=False),            # ingress, egress
    sa.Column('ethertype', sa.String(4), nullable=False),            # IPv4, IPv6
    sa.Column('protocol', sa.String(40)),                            # a name, a number, or NULL for any
    sa.Column('port_range_min', sa.Integer),                         # ICMP: type
    sa.Column('port_range_max', sa.Integer),                         # ICMP: code
    sa.Column('remote_ip_prefix', sa.String(43)),
    sa.Column('remote_group_id', _id, index=True),
    *_described(),
)

port_security_groups = table(
    'port_security_groups',
    sa.Column('port_id', _id, primary_key=True),
    sa.Column('security_group_id', _id, primary_key=True, index=True),
)
