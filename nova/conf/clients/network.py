"""[network]: addresses, bridges and filters of the servers' networks."""
import ipaddress
from typing import Any

from oslo_config import cfg
from oslo_config import types

GROUP = 'network'
MAX_GUARANTEE = 2_000_000_000         # maximum guaranteed rate, so that sums of such rates fit into 32 bits


def _range(text: str) -> str:
    """Option type of a list item: an IPv4 network."""
    return str(ipaddress.IPv4Network(text))


def _vlans(text: str) -> str:
    """Option type of a list item: a VLAN range of a physical network, NAME:FIRST:LAST."""
    name, *numbers = text.split(':')
    if not name or len(numbers) != 2 or not all(number.isascii() and number.isdigit() for number in numbers):
        raise ValueError(f'{text!r} is not NAME:FIRST:LAST')
    if not 1 <= int(numbers[0]) <= int(numbers[1]) <= 4094:
        raise ValueError(f'{text!r}: VLANs are 1 to 4094')
    return text


def _amounts(text: str, count: int) -> bool:
    parts = text.split(':')
    return len(parts) == count and all(
        part.isascii() and part.isdigit() and int(part) <= MAX_GUARANTEE for part in parts)


def _bandwidth(text: str) -> str:
    """Option type of a list item: the bandwidth that a host guarantees in a physical network, NAME:EGRESS:INGRESS."""
    name, _, amounts = text.partition(':')
    if not name or len(name) > 128 or not _amounts(amounts, 2):
        raise ValueError(f'{text!r} is not NAME:EGRESS:INGRESS with numbers up to {MAX_GUARANTEE}')
    return text


def _packet_rate(text: str) -> str:
    """Option type: a packet rate for both directions together, or EGRESS:INGRESS."""
    if text and not (_amounts(text, 1) or _amounts(text, 2)):
        raise ValueError(f'{text!r} is neither a number nor EGRESS:INGRESS with numbers up to {MAX_GUARANTEE}')
    return text


# typed as Any, because the annotations of oslo.config allow no other types than its own classes
_RANGE: Any = _range
_VLANS: Any = _vlans
_BANDWIDTH: Any = _bandwidth
_PACKET_RATE: Any = _packet_rate

OPTIONS = [
    cfg.StrOpt('backend', default='embedded', choices=['embedded', 'neutron'],
               help='Network service. embedded: networks, ports and addresses are in the API database, and the '
                    'driver below configures them on the hosts. neutron: a Networking service ([neutron]) stores '
                    'them, and its agents configure them. The other options of this section then have no effect. '
                    'Run nova-network once or twice per deployment instead of on each host. It manages '
                    'the ports of all hosts with the account of [neutron].'),
    cfg.StrOpt('driver', default='linux', max_length=255,
               help='Name of an entry point in the group nova.network.drivers, or path of a class. linux: '
                    'configure bridges, dnsmasq and nftables on this host; needs root. fake: addresses and ports '
                    'are real rows, but the host is not changed.'),
    cfg.StrOpt('manager', default='FlatDHCPManager', max_length=255,
               help='How embedded networks assign addresses to guests: FlatDHCPManager, FlatManager, VlanManager, '
                    'the name of an entry point in the group nova.network.managers, or the path of a class. '
                    'FlatDHCPManager: DHCP. FlatManager: no DHCP; guests read their addresses from their config '
                    'drives. VlanManager: DHCP, and project networks are VLANs of vlan_ranges instead of VXLAN. '
                    'The value applies when the default network and subnets are created. Set the same value on all '
                    'hosts.'),
    cfg.BoolOpt('agent', default=False,
                help='Whether nova-network on this host is an agent. An agent has no database. It reads the data '
                     'of its host by RPC from the network services, which run with [network] driver = fake on the '
                     'hosts of the conductors. nova-compute and nova-network on a host need the same value. false: '
                     'nova-network opens the databases itself.'),
    cfg.StrOpt('bridge', default='br-nova', regex=r'^[A-Za-z][A-Za-z0-9_-]{0,14}\Z',
               help='Bridge of the default network. Other device names on the host derive from it. Two clouds on '
                    'one machine need different names.'),
    cfg.StrOpt('default_network_name', default='private', max_length=255,
               help='Name of the network that the first start creates. All projects share it.'),
    cfg.StrOpt('default_cidr', default='10.44.0.0/24',
               help='Address range of the default network. The first address is the gateway, on the bridge of '
                    'every host. The option is read on the first start only. The range must not overlap a network '
                    'of the host.'),
    cfg.ListOpt('dns_servers', default=[], item_type=types.IPAddress(version=4),
                help='Name servers for guests of networks that define none. Empty: the gateway, which forwards '
                     'queries to the name servers of the host.'),
    cfg.IntOpt('mtu', default=1500, min=576, max=65535,
               help='MTU, in bytes, of networks that are created without one.'),
    cfg.IntOpt('dhcp_lease_time', default=600, min=120, max=86400 * 30,
               help='Duration of a DHCP lease in seconds. A released address is not assigned again for the same '
                    'time, so that two guests never use one address.'),
    cfg.HostAddressOpt('metadata_host', version=4,
                       help='Address to which requests of guests to 169.254.169.254 are redirected, at [metadata] '
                            'port. Empty: the gateway of the default network.'),
    cfg.StrOpt('metadata_ca_file', default='',
               help='CA certificate (PEM) that verifies nova-api-metadata at metadata_host. With it, the metadata '
                    'relays of hosts with agent = true use TLS. Empty: plain HTTP; others on the network to '
                    'metadata_host can read the metadata of guests.'),
    cfg.ListOpt('project_ranges', default=[], item_type=_RANGE,
                help='Address ranges, such as 10.128.0.0/9, from which projects may create networks and subnets in '
                     'the routing table of the hosts. Empty: project networks are isolated from that table and '
                     'from each other, and may use any addresses; only administrators may create networks in that '
                     'table.'),
    cfg.HostAddressOpt('tunnel_address', version=4,
                       help='Address of this host for traffic from other hosts: frames of project networks (VXLAN, '
                            'UDP port 4789) and connections of guests that move to this host (UDP port 4788). '
                            'Anyone who can reach this address can inject packets into these networks, so use a '
                            'network that only the hosts can reach. Empty: my_ip.'),
    cfg.BoolOpt('routers', default=True,
                help='Whether this host may run project routers. Set it on hosts that are connected to the '
                     'physical networks.'),
    cfg.ListOpt('router_hosts', default=[], item_type=types.String(max_length=255),
                help='Names of the hosts that may run project routers. A compromised host that is not listed '
                     'cannot attract routers by setting the option routers. The network services read this list; '
                     'it must be the same on all of them. Routers on other hosts move to a listed one. Empty: '
                     'every host that sets routers.'),
    cfg.StrOpt('routing', default='distributed', choices=['distributed', 'central'],
               help='Path of packets between the networks of a router. distributed: each host routes for its own '
                    'guests between VXLAN networks; only external traffic passes through the router host. central: '
                    'all routed packets pass through the router host. The network services read this option; it '
                    'must be the same on all of them. Routing remains central while a host runs a release without '
                    'distributed routing.'),
    cfg.DictOpt('physical_networks', default={},
                help='Bridges on the hosts that connect external networks, as NAME:BRIDGE. The operator creates '
                     'the bridge and attaches a network card of the host. An external network without a physical '
                     'network uses a bridge on which the host itself is the gateway.'),
    cfg.ListOpt('vlan_ranges', default=[], item_type=_VLANS,
                help='VLAN ids for networks of type vlan, as NAME:FIRST:LAST, where NAME is one of '
                     'physical_networks. The switch ports between the hosts must carry these VLANs tagged. '
                     'Administrators may specify other ids.'),
    cfg.ListOpt('guaranteed_bandwidth', default=[], item_type=_BANDWIDTH,
                help='Bandwidth that this host can guarantee to guests, as NAME:EGRESS:INGRESS in kbit/s, directions '
                     'as the guests see them. NAME is one of physical_networks, or rp_tunnelled for all networks '
                     'without a physical network. Servers whose ports ask for a guaranteed bandwidth get only hosts '
                     'with enough of it. Empty: this host guarantees none, so these servers get other hosts. State '
                     'at most the speed of the network card minus what the host itself needs.'),
    cfg.Opt('guaranteed_packet_rate', type=_PACKET_RATE, default='',
            help='Packet rate that this host can guarantee to guests, in thousands of packets a second: a number for '
                 'both directions together, or EGRESS:INGRESS. Policies must ask in the same form. Empty: none.'),
    cfg.BoolOpt('flow_offload', default=True,
                help='Whether nftables forwards packets of established connections directly between devices, '
                     'without the bridge, in networks of type vxlan. Offloading ends when the security rules '
                     'change. With this option, connection tracking accepts out-of-window TCP packets '
                     '(nf_conntrack_tcp_be_liberal and nf_conntrack_tcp_ignore_invalid_rst are enabled). This may '
                     'conflict with a firewall of the operator.'),
    cfg.ListOpt('guest_to_host_ports', default=[], item_type=types.Port(),
                help='TCP ports of the host that guests may reach, in addition to DHCP, DNS, ping and metadata. '
                     'Add the port of the compute API if programs in guests use it.'),
    cfg.Opt('quota', type=types.Dict(types.Integer(min=-1)),
            default={'network': 100, 'subnet': 100, 'port': 500, 'security_group': 10,
                     'security_group_rule': 100, 'router': 10, 'floatingip': 50, 'rbac_policy': 10,
                     'subnetpool': 10, 'trunk': 50, 'dns_domain': 10, 'dns_entry': 100},
            help='Limits of one project for resources of the network API. -1: no limit.'),
    cfg.StrOpt('policy_file', default='network_policy.yaml', max_length=4096,
               help='Policy file of the embedded network API, absolute or in a configuration directory. Changes take '
                    'effect within seconds. It is separate because rules such as admin_or_owner have a meaning of '
                    'their own in each API. The default file need not exist.'),
]
