"""Tables of the embedded network service, in the API database."""
from typing import Any

import sqlalchemy as sa

from nova.db import types
from nova.db.tables.api import table
from nova.db.tables import rows

_id = sa.String(36)
_text = sa.String(255)


def _described() -> list[sa.Column[Any]]:
    return [
        sa.Column('description', _text, nullable=False, default=''),
        sa.Column('created_at', types.DateTime, nullable=False),
        sa.Column('updated_at', types.DateTime, nullable=False),
        sa.Column('revision', sa.Integer, nullable=False, default=1),
    ]


networks: types.Table[rows.NetworksRow] = table(
    'networks',
    sa.Column('id', _id, primary_key=True),
    sa.Column('project_id', _text, nullable=False, default='', index=True),
    sa.Column('name', _text, nullable=False, default='', index=True),
    sa.Column('shared', sa.Boolean, nullable=False, default=False),
    sa.Column('is_default', sa.Boolean, nullable=False, default=False),
    sa.Column('admin_state_up', sa.Boolean, nullable=False, default=True),
    sa.Column('bridge', sa.String(15), nullable=False, unique=True),
    sa.Column('mtu', sa.Integer, nullable=False),
    # flat: in the hosts' own routing table; vxlan: overlay network; vlan: VLAN of a physical network
    sa.Column('network_type', sa.String(16), nullable=False, default='flat', server_default='flat'),
    sa.Column('physical_network', _text),                            # physical network of an external or VLAN network
    sa.Column('external', sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    sa.Column('port_security_enabled', sa.Boolean, nullable=False, default=True, server_default=sa.true()),
    sa.Column('qos_policy_id', _id, index=True),                     # QoS policy for guest ports without a policy
    sa.Column('zone_hints', types.Json),                             # availability zones requested at creation
    # search domain of guests, with a final dot as in the API; '' for the configured domain
    sa.Column('dns_domain', _text, nullable=False, default='', server_default=''),
    *_described(),
)

# VNI of an overlay network; the primary key prevents duplicates
segments = table(
    'network_segments',
    sa.Column('number', sa.Integer, primary_key=True, autoincrement=False),
    sa.Column('network_id', _id, nullable=False, unique=True),
)

# VLAN id of a network on a physical network of the hosts; the primary key prevents duplicates
vlans = table(
    'network_vlans',
    sa.Column('physical_network', _text, primary_key=True),
    sa.Column('vlan', sa.Integer, primary_key=True, autoincrement=False),
    sa.Column('network_id', _id, nullable=False, unique=True),
)

# shares (RBAC policies) of networks and other resources; target_project '*' means all projects
shares: types.Table[rows.NetworkSharesRow] = table(
    'network_shares',
    sa.Column('id', _id, primary_key=True),
    sa.Column('project_id', _text, nullable=False, default='', index=True),
    sa.Column('network_id', _id, nullable=False),                    # id of the network or of another shared resource
    sa.Column('object_type', sa.String(16), nullable=False, default='network', server_default='network'),
    sa.Column('action', sa.String(32), nullable=False),              # access_as_shared, access_as_external
    sa.Column('target_project', _text, nullable=False),
    *_described(),
    sa.UniqueConstraint('network_id', 'action', 'target_project', name='uq_network_shares'),
    sa.Index('ix_network_shares_target', 'target_project'),
)

tags = table(
    'network_tags',
    sa.Column('resource_id', _id, primary_key=True),
    sa.Column('tag', sa.String(255), primary_key=True),
)

# limits of projects that differ from the configuration
limits = table(
    'network_limits',
    sa.Column('project_id', _text, primary_key=True),
    sa.Column('resource', sa.String(64), primary_key=True),
    sa.Column('hard_limit', sa.Integer, nullable=False),
)

# hosts of overlay networks, with the tunnel address and the time of the last report
hosts: types.Table[rows.NetworkHostsRow] = table(
    'network_hosts',
    sa.Column('host', _text, primary_key=True),
    sa.Column('address', sa.String(39), nullable=False),
    sa.Column('gateway', sa.Boolean, nullable=False, default=False),  # may host routers
    sa.Column('last_seen_at', types.DateTime, nullable=False),
    # release (runtime/release.py) of the code that configures networks on the host, or 0 if unknown
    sa.Column('version', sa.Integer, nullable=False, default=0, server_default='0'),
    sa.Column('admin_state_up', sa.Boolean, nullable=False, default=True, server_default=sa.true()),
    sa.Column('description', _text),
    # bandwidth and packet rate that the host can guarantee: {resource class: {physical network or '': amount}}
    sa.Column('guarantees', types.Json),
)

# DNS domains of os-floating-ip-dns, and their entries, with which users name addresses
dns_domains: types.Table[rows.DnsDomainsRow] = table(
    'dns_domains',
    sa.Column('id', _id, primary_key=True),
    # a full name has at most 253 characters: the entry's name (63), a dot and the name of the domain (189)
    sa.Column('name', sa.String(189), nullable=False),
    # only networks of this project resolve the domain; '' for the networks of all projects
    sa.Column('project_id', _text, nullable=False, default=''),
    # the only project that may create entries in a public domain; '' for all projects
    sa.Column('for_project', _text, nullable=False, default=''),
    sa.UniqueConstraint('name', 'project_id', name='uniq_dns_domains0name0project_id'),
)
dns_entries: types.Table[rows.DnsEntriesRow] = table(
    'dns_entries',
    sa.Column('domain_id', _id, primary_key=True),
    sa.Column('name', sa.String(63), primary_key=True),
    sa.Column('project_id', _text, nullable=False, index=True),      # creator
    sa.Column('address', sa.String(39), nullable=False, index=True),
)

# last DHCP lease of an address, as reported by dnsmasq
leases = table(
    'network_leases',
    sa.Column('subnet_id', _id, primary_key=True),
    sa.Column('number', sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column('address', sa.String(39), nullable=False, index=True),
    sa.Column('port_id', _id, nullable=False),                       # port that had the address
    sa.Column('mac_address', sa.String(17), nullable=False),
    sa.Column('host', _text, nullable=False),
    sa.Column('expires_at', types.DateTime, nullable=False),              # end of the lease, possibly in the past
)

# change counters of the tables that hosts read (db/networks/revisions.py): a kind's counter is the sum of its rows
revisions = table(
    'network_revisions',
    sa.Column('kind', sa.String(8), primary_key=True),               # filters: security group rules; rest: other data
    sa.Column('shard', sa.Integer, primary_key=True, autoincrement=False),
    sa.Column('number', sa.BigInteger, nullable=False),
)

# address scopes: the prefixes of the subnet pools in a scope do not overlap. Adding a prefix locks the scope's row
address_scopes: types.Table[rows.AddressScopesRow] = table(
    'address_scopes',
    sa.Column('id', _id, primary_key=True),
    sa.Column('project_id', _text, nullable=False, default='', index=True),
    sa.Column('name', _text, nullable=False, default=''),
    sa.Column('shared', sa.Boolean, nullable=False, default=False),
    sa.Column('ip_version', sa.Integer, nullable=False),
    *_described(),
)

# subnet pools; an allocation of a subnet locks the pool's row, so that subnets never overlap
subnet_pools: types.Table[rows.SubnetPoolsRow] = table(
    'subnet_pools',
    sa.Column('id', _id, primary_key=True),
    sa.Column('project_id', _text, nullable=False, default='', index=True),
    sa.Column('name', _text, nullable=False, default=''),
    sa.Column('shared', sa.Boolean, nullable=False, default=False),
    sa.Column('ip_version', sa.Integer, nullable=False),
    sa.Column('default_ip_version', sa.Integer, unique=True),        # IP version for which the pool is the default
    sa.Column('prefixes', types.Json, nullable=False),               # [CIDR], disjoint and merged
    sa.Column('default_prefixlen', sa.Integer, nullable=False),
    sa.Column('min_prefixlen', sa.Integer, nullable=False),
    sa.Column('max_prefixlen', sa.Integer, nullable=False),
    # limit of each project in IPv4 addresses or IPv6 /64 networks
    sa.Column('default_quota', sa.Integer),
    sa.Column('address_scope_id', _id, index=True),
    *_described(),
)

subnets: types.Table[rows.SubnetsRow] = table(
    'subnets',
    sa.Column('id', _id, primary_key=True),
    sa.Column('project_id', _text, nullable=False, default=''),
    sa.Column('network_id', _id, nullable=False, index=True),
    sa.Column('name', _text, nullable=False, default='', index=True),
    sa.Column('cidr', sa.String(43), nullable=False),
    sa.Column('subnetpool_id', _id, index=True),                     # pool from which the range was allocated
    sa.Column('ipv6_ra_mode', sa.String(20)),                        # slaac, dhcpv6-stateful, dhcpv6-stateless
    sa.Column('ipv6_address_mode', sa.String(20)),
    sa.Column('ip_version', sa.Integer, nullable=False, default=4),
    sa.Column('gateway_ip', sa.String(39)),
    sa.Column('enable_dhcp', sa.Boolean, nullable=False, default=True),
    sa.Column('allocation_pools', types.Json, nullable=False),       # [{'start', 'end'}]
    sa.Column('dns_nameservers', types.Json, nullable=False),        # [address]
    sa.Column('host_routes', types.Json, nullable=False),            # [{'destination', 'nexthop'}]
    sa.Column('service_types', types.Json),                          # [device_owner] of allowed ports; empty for all
    *_described(),
)

ports: types.Table[rows.PortsRow] = table(
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
    # destination host of a migration; the port is already configured on that host
    sa.Column('migrating_to', _text, nullable=False, default='', server_default='', index=True),
    sa.Column('position', sa.Integer, nullable=False, default=0),    # order of the server's ports
    sa.Column('tag', sa.String(60)),
    # whether the port was created for the server and is deleted with the server; other ports belong to users
    sa.Column('created_by_compute', sa.Boolean, nullable=False, default=False),
    # id of the request that attached the port to an existing server; only a rollback of this request releases the port
    sa.Column('attached_by', _text),
    sa.Column('port_security_enabled', sa.Boolean, nullable=False, default=True, server_default=sa.true()),
    sa.Column('allowed_address_pairs', types.SharedList),            # [{'ip_address', 'mac_address'}]
    sa.Column('extra_dhcp_opts', types.SharedList),                  # [{'opt_name', 'opt_value', 'ip_version'}]
    sa.Column('dns_name', sa.String(63), nullable=False, default='', server_default=''),
    sa.Column('qos_policy_id', _id, index=True),
    *_described(),
)

# trunks: the device of a parent port (port_id) carries the traffic of subports in VLANs
trunks: types.Table[rows.TrunksRow] = table(
    'trunks',
    sa.Column('id', _id, primary_key=True),
    sa.Column('project_id', _text, nullable=False, default='', index=True),
    sa.Column('name', _text, nullable=False, default=''),
    sa.Column('port_id', _id, nullable=False, unique=True),
    sa.Column('admin_state_up', sa.Boolean, nullable=False, default=True),
    *_described(),
)

# subports of trunks; the keys prevent that a port is in two trunks, and that two ports have one VLAN of a trunk
trunk_subports: types.Table[rows.TrunkSubportsRow] = table(
    'trunk_subports',
    sa.Column('port_id', _id, primary_key=True),
    sa.Column('trunk_id', _id, nullable=False),
    sa.Column('segmentation_type', sa.String(16), nullable=False),   # vlan
    sa.Column('segmentation_id', sa.Integer, nullable=False),
    sa.UniqueConstraint('trunk_id', 'segmentation_type', 'segmentation_id', name='uq_trunk_subports'),
)

qos_policies: types.Table[rows.QosPoliciesRow] = table(
    'qos_policies',
    sa.Column('id', _id, primary_key=True),
    sa.Column('project_id', _text, nullable=False, default='', index=True),
    sa.Column('name', _text, nullable=False, default=''),
    sa.Column('shared', sa.Boolean, nullable=False, default=False),
    *_described(),
)

# bandwidth limits of policies, one for each direction
qos_rules: types.Table[rows.QosRulesRow] = table(
    'qos_rules',
    sa.Column('id', _id, primary_key=True),
    sa.Column('policy_id', _id, nullable=False),
    sa.Column('direction', sa.String(8), nullable=False),            # egress or ingress, as seen from the guest
    sa.Column('max_kbps', sa.Integer, nullable=False),
    sa.Column('max_burst_kbps', sa.Integer, nullable=False, default=0),
    *_described(),
    sa.UniqueConstraint('policy_id', 'direction', name='uq_qos_rules'),
)

# DSCP marks (DS field, RFC 2474) that policies set in packets of guests
qos_markings: types.Table[rows.QosMarkingsRow] = table(
    'qos_markings',
    sa.Column('policy_id', _id, primary_key=True),
    sa.Column('id', _id, nullable=False),                            # id of the rule
    sa.Column('dscp_mark', sa.Integer, nullable=False),
)

# guarantees of policies: minimum bandwidths (kbit/s) and packet rates (thousands of packets a second)
qos_minimums: types.Table[rows.QosMinimumsRow] = table(
    'qos_minimums',
    sa.Column('id', _id, primary_key=True),
    sa.Column('policy_id', _id, nullable=False),
    sa.Column('type', sa.String(32), nullable=False),                # minimum_bandwidth, minimum_packet_rate
    sa.Column('direction', sa.String(8), nullable=False),            # egress, ingress; packet rates: also any
    sa.Column('amount', sa.Integer, nullable=False),
    *_described(),
    sa.UniqueConstraint('policy_id', 'type', 'direction', name='uq_qos_minimums'),
)

routers: types.Table[rows.RoutersRow] = table(
    'routers',
    sa.Column('id', _id, primary_key=True),
    sa.Column('project_id', _text, nullable=False, default='', index=True),
    sa.Column('name', _text, nullable=False, default='', index=True),
    sa.Column('admin_state_up', sa.Boolean, nullable=False, default=True),
    sa.Column('external_network_id', _id, index=True),               # the gateway is a port in this network
    sa.Column('enable_snat', sa.Boolean, nullable=False, default=True),
    sa.Column('routes', types.Json, nullable=False),                 # [{'destination', 'nexthop'}]
    sa.Column('host', _text, nullable=False, default=''),            # host with the router's namespace
    sa.Column('zone_hints', types.Json),                             # availability zones requested at creation
    sa.Column('flavor_id', _id, index=True),
    sa.Column('qos_policy_id', _id, index=True),                     # QoS policy of the gateway
    # whether an administrator has removed the router from its host; only an administrator places it again
    sa.Column('taken', sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    *_described(),
)

flavors: types.Table[rows.NetworkFlavorsRow] = table(
    'network_flavors',
    sa.Column('id', _id, primary_key=True),
    sa.Column('name', _text, nullable=False, default=''),
    sa.Column('service_type', sa.String(32), nullable=False),        # L3_ROUTER_NAT for routers
    sa.Column('enabled', sa.Boolean, nullable=False, default=True),
    sa.Column('profile_ids', types.Json, nullable=False),            # ids of service_profiles
    *_described(),
)

service_profiles: types.Table[rows.NetworkServiceProfilesRow] = table(
    'network_service_profiles',
    sa.Column('id', _id, primary_key=True),
    sa.Column('driver', _text, nullable=False, default=''),          # '' or nova-network, the only provider
    sa.Column('metainfo', types.LongText, nullable=False),
    sa.Column('enabled', sa.Boolean, nullable=False, default=True),
    *_described(),
)

# interfaces of routers; the primary key prevents that concurrent requests add a subnet to a router twice
router_interfaces: types.Table[rows.RouterInterfacesRow] = table(
    'router_interfaces',
    sa.Column('router_id', _id, primary_key=True),
    sa.Column('subnet_id', _id, primary_key=True, index=True),
    sa.Column('port_id', _id, nullable=False, index=True),
)

conntrack_helpers: types.Table[rows.RouterConntrackHelpersRow] = table(
    'router_conntrack_helpers',
    sa.Column('id', _id, primary_key=True),
    sa.Column('router_id', _id, nullable=False),
    sa.Column('protocol', sa.String(8), nullable=False),             # tcp, udp
    sa.Column('port', sa.Integer, nullable=False),
    sa.Column('helper', sa.String(32), nullable=False),
    *_described(),
    sa.UniqueConstraint('router_id', 'protocol', 'port', name='uq_router_conntrack_helpers'),
)

floating_ips: types.Table[rows.FloatingIpsRow] = table(
    'floating_ips',
    sa.Column('id', _id, primary_key=True),
    sa.Column('project_id', _text, nullable=False, default='', index=True),
    sa.Column('floating_network_id', _id, nullable=False, index=True),
    sa.Column('floating_ip_address', sa.String(39), nullable=False, index=True),
    sa.Column('floating_port_id', _id, nullable=False, unique=True),  # port with the external address
    sa.Column('port_id', _id, index=True),
    sa.Column('fixed_ip_address', sa.String(39)),
    sa.Column('router_id', _id, index=True),
    sa.Column('status', sa.String(16), nullable=False, default='DOWN'),
    *_described(),
    sa.UniqueConstraint('port_id', 'fixed_ip_address', name='uq_floating_ips_fixed'),
)

port_forwardings: types.Table[rows.PortForwardingsRow] = table(
    'port_forwardings',
    sa.Column('id', _id, primary_key=True),
    sa.Column('project_id', _text, nullable=False, default=''),
    sa.Column('floating_ip_id', _id, nullable=False),
    sa.Column('protocol', sa.String(8), nullable=False),             # tcp, udp
    sa.Column('external_port', sa.Integer, nullable=False),
    sa.Column('internal_port_id', _id, nullable=False, index=True),
    sa.Column('internal_ip_address', sa.String(39), nullable=False),
    sa.Column('internal_port', sa.Integer, nullable=False),
    # number of forwarded ports; they begin at external_port and internal_port
    sa.Column('ports', sa.Integer, nullable=False, default=1, server_default='1'),
    *_described(),
    sa.UniqueConstraint('floating_ip_id', 'protocol', 'external_port', name='uq_port_forwardings'),
)

# addresses in use, and released addresses until their deletion (port_id NULL); the primary key prevents duplicates
addresses: types.Table[rows.AddressesRow] = table(
    'addresses',
    sa.Column('subnet_id', _id, primary_key=True),
    sa.Column('number', sa.BigInteger, primary_key=True, autoincrement=False),     # ipam.number_of(address)
    sa.Column('address', sa.String(39), nullable=False, index=True),
    sa.Column('port_id', _id, index=True),
    sa.Column('released_at', types.DateTime),
)

security_groups: types.Table[rows.SecurityGroupsRow] = table(
    'security_groups',
    sa.Column('id', _id, primary_key=True),
    sa.Column('project_id', _text, nullable=False),
    sa.Column('name', _text, nullable=False),
    # False: connections are not tracked, so replies need separate rules
    sa.Column('stateful', sa.Boolean, nullable=False, default=True, server_default=sa.true()),
    *_described(),
    sa.Index('ix_security_groups_project_name', 'project_id', 'name'),
)

# one row for each project, so that concurrent first requests of a project create only one default group
default_security_groups = table(
    'default_security_groups',
    sa.Column('project_id', _text, primary_key=True),
    sa.Column('security_group_id', _id, nullable=False),
)

security_group_rules: types.Table[rows.SecurityGroupRulesRow] = table(
    'security_group_rules',
    sa.Column('id', _id, primary_key=True),
    sa.Column('project_id', _text, nullable=False, index=True),
    sa.Column('security_group_id', _id, nullable=False, index=True),
    sa.Column('direction', sa.String(8), nullable=False),            # ingress, egress
    sa.Column('ethertype', sa.String(4), nullable=False),            # IPv4, IPv6
    sa.Column('protocol', sa.String(40)),                            # a name, a number, or NULL for all
    sa.Column('port_range_min', sa.Integer),                         # ICMP: type
    sa.Column('port_range_max', sa.Integer),                         # ICMP: code
    sa.Column('remote_ip_prefix', sa.String(43)),
    sa.Column('remote_group_id', _id, index=True),
    sa.Column('remote_address_group_id', _id, index=True),
    *_described(),
)

# address groups: lists of address ranges for rules; inserting a rule that names a group locks the group's row
address_groups: types.Table[rows.AddressGroupsRow] = table(
    'address_groups',
    sa.Column('id', _id, primary_key=True),
    sa.Column('project_id', _text, nullable=False, default='', index=True),
    sa.Column('name', _text, nullable=False, default=''),
    sa.Column('addresses', types.Json, nullable=False),              # [CIDR]
    *_described(),
)

# templates of the rules in new groups. group_templates.ensure inserts the built-in templates. A removed built-in
# template keeps its row, with ``removed`` set
default_group_rules: types.Table[rows.DefaultSecurityGroupRulesRow] = table(
    'default_security_group_rules',
    sa.Column('id', _id, primary_key=True),
    sa.Column('direction', sa.String(8), nullable=False),
    sa.Column('ethertype', sa.String(4), nullable=False),
    sa.Column('protocol', sa.String(40)),
    sa.Column('port_range_min', sa.Integer),
    sa.Column('port_range_max', sa.Integer),
    sa.Column('remote_ip_prefix', sa.String(43)),
    # whether the rule allows traffic from members of the group
    sa.Column('from_own_group', sa.Boolean, nullable=False, default=False),
    # whether new default groups get the rule
    sa.Column('used_in_default_sg', sa.Boolean, nullable=False, default=False),
    # whether other new groups get the rule
    sa.Column('used_in_non_default_sg', sa.Boolean, nullable=False, default=True),
    sa.Column('removed', sa.Boolean, nullable=False, default=False),
    *_described(),
)

# automatically allocated network and router of a project; the primary key prevents duplicates
topologies = table(
    'auto_topologies',
    sa.Column('project_id', _text, primary_key=True),
    sa.Column('network_id', _id, nullable=False, unique=True),
    sa.Column('router_id', _id, nullable=False),
)

port_security_groups = table(
    'port_security_groups',
    sa.Column('port_id', _id, primary_key=True),
    sa.Column('security_group_id', _id, primary_key=True, index=True),
)
