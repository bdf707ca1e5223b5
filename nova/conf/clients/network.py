"""[network]: addresses, bridges and filters of the servers' networks."""
import ipaddress
from typing import Any

from oslo_config import cfg
from oslo_config import types

GROUP = 'network'


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


# Any, because the annotations of oslo.config allow only its own type classes
_RANGE: Any = _range
_VLANS: Any = _vlans

OPTIONS = [
    cfg.StrOpt('backend', default='embedded', choices=['embedded', 'neutron'],
               help='Where networks, ports and addresses are. embedded: in the API database, carried out on the hosts '
                    'by the driver below. neutron: in a Networking service ([neutron]), whose agents do it; the other '
                    'options of this section have no effect then, and nova-network is needed once or twice in the '
                    'whole deployment instead of on each host: only it has the account of [neutron].'),
    cfg.StrOpt('driver', default='linux', max_length=255,
               help='The name of an entry point of the group nova.network.drivers, or the path of a class. '
                    'linux: bridges, dnsmasq and nftables on this host; needs root. '
                    'fake: addresses and ports are real rows, the host is left alone.'),
    cfg.StrOpt('manager', default='FlatDHCPManager', max_length=255,
               help="How the hosts' own networks serve their guests: FlatDHCPManager, FlatManager, VlanManager, the "
                    'name of an entry point of the group nova.network.managers, or the path of a class. '
                    'FlatDHCPManager: by DHCP. '
                    'FlatManager: not at all, guests have their addresses from their config drives. VlanManager: by '
                    'DHCP, and networks of projects are VLANs of vlan_ranges instead of VXLAN. It decides when '
                    'the default network is made, and when subnets are. The same on all hosts.'),
    cfg.BoolOpt('agent', default=False,
                help='Whether nova-network on this host is an agent: it has no database and asks the network services '
                     '([network] driver = fake, next to the conductors) for what concerns this host. nova-compute and '
                     'nova-network of a host need the same value. false: it opens the databases itself.'),
    cfg.StrOpt('bridge', default='br-nova', regex=r'^[A-Za-z][A-Za-z0-9_-]{0,14}\Z',
               help='Bridge of the default network. Other names on the host derive from it: two clouds on '
                    'one machine need two names.'),
    cfg.StrOpt('default_network_name', default='private', max_length=255,
               help='Name of the network that the first start makes, shared by all projects.'),
    cfg.StrOpt('default_cidr', default='10.44.0.0/24',
               help='Addresses of the default network; the first one is the gateway, on the bridge of every '
                    'host. Read on the first start only. Must not overlap a network that the host is in.'),
    cfg.ListOpt('dns_servers', default=[], item_type=types.IPAddress(version=4),
                help='Name servers given to guests of networks that name none. Empty: the gateway, which '
                     "asks the host's own name servers."),
    cfg.IntOpt('mtu', default=1500, min=576, max=65535,
               help='Largest packet, in bytes, of networks made without one.'),
    cfg.IntOpt('dhcp_lease_time', default=600, min=120, max=86400 * 30,
               help='Seconds that a DHCP lease lasts. A released address rests as long, so that no two '
                    'guests believe that they own it.'),
    cfg.HostAddressOpt('metadata_host', version=4,
                       help='Where requests of guests to 169.254.169.254 go, at [metadata] port. Empty: '
                            'the gateway of the default network.'),
    cfg.StrOpt('metadata_ca_file', default='',
               help='Authority of the certificate of nova-api-metadata at metadata_host, PEM: relays of hosts with '
                    'agent = true speak TLS with it then. Empty: plain HTTP. What guests get is read there.'),
    cfg.ListOpt('project_ranges', default=[], item_type=_RANGE,
                help='Address ranges, as 10.128.0.0/9, in which projects may make networks and subnets of their '
                     'own in the routing table of the hosts. Empty: networks of projects are apart from it and '
                     'from each other, with any addresses, and administrators alone make others.'),
    cfg.HostAddressOpt('tunnel_address', version=4,
                       help='Address of this host, to which other hosts send the frames of networks of projects '
                            '(VXLAN, UDP port 4789), and the connections of guests that move to this host (UDP '
                            'port 4788). Who reaches it there can send into these networks: it belongs into a '
                            'network of the hosts alone. Empty: my_ip.'),
    cfg.BoolOpt('routers', default=True,
                help='Whether routers of projects may be put on this host, for hosts that reach the physical '
                     'networks.'),
    cfg.ListOpt('router_hosts', default=[], item_type=types.String(max_length=255),
                help='Names of the hosts that may have routers of projects, so that a host that was taken over gets '
                     'none by saying that it may. Read by the network services; the same on all of them. A router on '
                     'another host moves. Empty: each host that says so (routers).'),
    cfg.StrOpt('routing', default='distributed', choices=['distributed', 'central'],
               help='Where packets between the networks of a router go. distributed: each host leads those of its own '
                    'guests, for networks that are VXLAN, and only what goes out passes the host that has the router. '
                    'central: all of them pass that host. Read by the network services; the same on all of them. It '
                    'is central while a host is of a release that does not know the other way.'),
    cfg.DictOpt('physical_networks', default={},
                help='Where networks to the outside leave the hosts, as NAME:BRIDGE. The bridge is one that the '
                     'operator made, with a card of the host. A network to the outside that names none is on a '
                     'bridge of the host itself, which is its gateway.'),
    cfg.ListOpt('vlan_ranges', default=[], item_type=_VLANS,
                help='VLANs that networks of type vlan get, as NAME:FIRST:LAST, NAME one of physical_networks. The '
                     'ports of the switches between the hosts have them tagged. Administrators may name others.'),
    cfg.BoolOpt('flow_offload', default=True,
                help='Whether nftables forwards packets of established connections from device to device, past the '
                     'bridge, in networks of type vxlan, until the security rules change. Connection tracking then '
                     'accepts TCP packets outside of the window (nf_conntrack_tcp_be_liberal and '
                     'nf_conntrack_tcp_ignore_invalid_rst are switched on), which a firewall of the operator may '
                     'not want.'),
    cfg.ListOpt('guest_to_host_ports', default=[], item_type=types.Port(),
                help='TCP ports of the host that guests may reach, besides DHCP, DNS, ping and metadata. '
                     'The port of the compute API belongs here when programs in guests use it.'),
    cfg.Opt('quota', type=types.Dict(types.Integer(min=-1)),
            default={'network': 100, 'subnet': 100, 'port': 500, 'security_group': 10,
                     'security_group_rule': 100, 'router': 10, 'floatingip': 50, 'rbac_policy': 10,
                     'subnetpool': 10, 'dns_domain': 10, 'dns_entry': 100},
            help='What one project may make through the network API. -1: no limit.'),
]
