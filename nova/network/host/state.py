"""Network state of one host: plain data, read from the database in one transaction."""
from collections.abc import Mapping, Sequence
import dataclasses
import re
from typing import Any, NamedTuple, NotRequired, TypedDict

from nova.network import group_rules

# syntax of DHCP options, which the API, overlays.py and the host's privileged process check
OPTION_NAME = re.compile(r'[a-z0-9][a-z0-9-]{0,30}')
OPTION_VALUE = re.compile(r'[!#-~]([ !#-~]{0,253}[!#-~])?')         # printable ASCII without double quotes
OPTION_VERSIONS = (4, 6)
DOMAIN_LENGTH = 189  # maximum length of a domain, so that a name (label, dot, domain) has at most 253 characters
_LABEL = '[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?'
DOMAIN = re.compile(rf'(?=.{{1,{DOMAIN_LENGTH}}}\Z){_LABEL}(\.{_LABEL})*')
DEFAULT_DOMAIN = 'openstacklocal'        # same default as in Neutron


def search_domain(of_network: str, configured: str) -> str:
    """Return the DNS domain that DHCP and router advertisements announce to a network's guests.

    :param of_network: ``dns_domain`` of the network
    :param configured: [metadata] dhcp_domain
    """
    return of_network.rstrip('.') or configured.lower() or DEFAULT_DOMAIN


Rules = Mapping[str, Sequence[group_rules.Rule]]           # {group id: its rules}
Members = dict[str, list[str]]                              # {group id: addresses of its members}


class Route(TypedDict):
    destination: str
    nexthop: str


class AddressPair(TypedDict):
    ip_address: str                      # an address, or a range with '/'
    mac_address: str | None


class DhcpOption(TypedDict):
    opt_name: str
    opt_value: str
    ip_version: int


class Lease(TypedDict):
    """A DHCP lease; ``expires_at`` is the Unix time at which it ends or ended."""

    mac: str
    address: str
    expires_at: int


class StaticLease(TypedDict):
    """A static DHCP lease: address and options of a port; ``name`` is '' for a port without a DNS name."""

    mac: str
    address: str
    name: str
    options: list[DhcpOption]


@dataclasses.dataclass
class Subnet:
    cidr: str
    gateway: str | None
    dhcp: bool
    dns: list[str]
    routes: list[Route]


@dataclasses.dataclass
class Network:
    id: str
    bridge: str
    mtu: int
    is_default: bool
    subnets: list[Subnet]
    external: bool = False
    domain: str = ''                     # dns_domain of the network; '': use [metadata] dhcp_domain


@dataclasses.dataclass
class Port:
    """A guest's port on this host.

    groups  ids of its security groups
    """

    id: str
    device: str
    mac: str
    bridge: str
    addresses: list[str]
    groups: list[str]
    pairs: list[AddressPair] = dataclasses.field(default_factory=list)
    port_security: bool = True                                    # False: the filters drop only frames with VLAN tags
    limits: list[Any] = dataclasses.field(default_factory=list)  # [[direction, kbit/s, burst in kbit (0: default)]]
    dscp_mark: int | None = None                                  # DSCP value of the packets that the guest sends
    guaranteed_kbps: int = 0                                      # guaranteed bandwidth of frames that the guest sends
    incoming: bool = False  # the guest runs on another host and migrates to this one
    # during a migration: [address of the other host, key shared by the two hosts, in hexadecimal digits]
    migration: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Subport:
    """A subport of a trunk: VLAN id in the guest, bridge and MTU of the subport's network."""

    port: str
    vlan: int
    bridge: str
    mtu: int


@dataclasses.dataclass
class Trunk:
    """A trunk of a guest on this host: parent port, bridge and MTU of the parent's network."""

    port: str
    bridge: str
    mtu: int
    subports: list[Subport]


@dataclasses.dataclass
class OverlaySubnet:
    """Subnet of an overlay. ``mode``: ipv6_address_mode. ``dns``: name servers in addition to ``dhcp``."""

    cidr: str
    gateway: str | None
    dhcp: str | None                # address of the DHCP and DNS server; None: no server
    dns: list[str]
    routes: list[Route]
    mode: str | None


@dataclasses.dataclass
class Overlay:
    """An overlay network.

    mac        MAC of the DHCP and DNS port, equal on all hosts; None: no DHCP and DNS server on this host
    leases     static leases of all ports; leases of ports on other hosts have no DHCP options
    remotes    [[MAC, address of the port's host]] of ports on other hosts
    migrating  [[MAC, address of the target host]] of migrating guests. Frames go to the source host until the guest
               runs on the target
    vlan       VLAN id; None: the overlay is a VXLAN with id ``number``
    physical_bridge  the operator's bridge that carries the tagged VLAN; None: the host is not on the physical network
    domain     dns_domain of the network; '': use [metadata] dhcp_domain
    """

    id: str
    bridge: str
    number: int
    mtu: int
    mac: str | None
    subnets: list[OverlaySubnet]
    leases: list[StaticLease]
    remotes: list[list[str]]
    vlan: int | None = None
    physical_bridge: str | None = None
    migrating: list[list[str]] = dataclasses.field(default_factory=list)
    domain: str = ''


@dataclasses.dataclass
class RouterInterface:
    """An interface of a router: port id and MAC, bridge, and addresses with prefix lengths."""

    port: str
    mac: str
    bridge: str
    mtu: int
    addresses: list[str]
    modes: list[list[str]] = dataclasses.field(default_factory=list)         # [[IPv6 subnet, ipv6_ra_mode]]
    distributed: bool = False  # True: each host of the network has an interface with this MAC and these addresses
    # [[address, MAC]] of the network's guests; only for distributed interfaces
    neighbours: list[list[str]] = dataclasses.field(default_factory=list)
    scopes: list[str] = dataclasses.field(default_factory=lambda: ['', ''])     # address scopes [IPv4, IPv6]; '': none


@dataclasses.dataclass
class Router:
    """A router on this host.

    internal      [RouterInterface] to the router's networks
    external      the RouterInterface to the external network, or None
    gateway       next hop in the external network, or None
    snat          whether traffic without a floating address leaves with the router's external address
    floating_ips  [[floating address, fixed address]]
    port_forwardings  [[floating address, protocol, external port, fixed address, internal port]]
    port_ranges   [[floating address, protocol, first and last external port, fixed address, first internal port]]
    helpers       [[conntrack helper, protocol, destination port]]
    limits, dscp_mark  QoS of the external interface, in the format of Port
    role          CENTRAL: the router is on this host only. DVR_GATEWAY: this host connects the router to the external
                  network; other hosts have DVR_LOCAL instances. DVR_LOCAL: this host routes between the networks and
                  sends other traffic to the gateway host. DVR_ISOLATED: like DVR_LOCAL, but no gateway host is alive
    """

    id: str
    up: bool
    internal: list[RouterInterface]
    external: RouterInterface | None
    gateway: str | None
    snat: bool
    routes: list[Route]
    floating_ips: list[list[str]]
    port_forwardings: list[Any]
    role: str = 'central'
    port_ranges: list[Any] = dataclasses.field(default_factory=list)
    helpers: list[list[Any]] = dataclasses.field(default_factory=list)
    limits: list[Any] = dataclasses.field(default_factory=list)
    dscp_mark: int | None = None


# {conntrack helper of the kernel: transport protocols that it supports}
HELPERS = {'ftp': ('tcp',), 'irc': ('tcp',), 'pptp': ('tcp',), 'sane': ('tcp',), 'sip': ('tcp', 'udp'),
           'tftp': ('udp',)}
CENTRAL, DVR_GATEWAY, DVR_LOCAL, DVR_ISOLATED = ROLES = ('central', 'dvr_gateway', 'dvr_local', 'dvr_isolated')
DVR_LOCAL_ROLES = (DVR_LOCAL, DVR_ISOLATED)


def gateway_mac(mac: str) -> str:
    """Return the MAC of a distributed router on its gateway host; on other hosts, the router has the MAC ``mac``."""
    return f'{int(mac[:2], 16) ^ 0x08:02x}{mac[2:]}'


@dataclasses.dataclass
class HostState:
    """Network state of a host.

    rules    {group id: [rule]} of the security groups of the ports
    members  {group id: [address]} of the groups that rules name as remote groups
    stateless  ids of stateless groups of the ports: the rules of these groups are also checked for replies
    """

    networks: list[Network]
    ports: list[Port]
    rules: Rules
    members: Members
    overlays: list[Overlay] = dataclasses.field(default_factory=list)
    routers: list[Router] = dataclasses.field(default_factory=list)
    # {bridge of a flat network: the operator's bridge that connects the host to the physical network}
    physical_bridges: dict[str, str] = dataclasses.field(default_factory=dict)
    tunnel: str = ''                                               # this host's tunnel address
    host: str = ''                                                 # name of this host
    metadata_key: str = ''  # key with which the metadata relay signs (hexadecimal); '': no relay
    # user-defined DNS names: [[id of the network that resolves the name, or '' for all networks, address, full name]].
    # An entry with the address '' is a domain, see Names.domains
    dns_names: list[list[str]] = dataclasses.field(default_factory=list)
    trunks: list[Trunk] = dataclasses.field(default_factory=list)
    stateless: list[str] = dataclasses.field(default_factory=list)


def as_json(state: HostState) -> dict[str, Any]:
    """Encode a HostState as JSON. Rules keep only the columns that filters use."""
    return {**dataclasses.asdict(dataclasses.replace(state, rules={})), 'rules': rules_as_json(state.rules)}


class StateAnswer(TypedDict):
    """Answer to an agent: the host's complete state, changed rules with members of groups, or only the revision."""

    revision: list[int]
    state: NotRequired[dict[str, Any]]
    rules: NotRequired[Rules]
    members: NotRequired[Members]


class Names(NamedTuple):
    """User-defined DNS names that one network resolves.

    entries  [(address, full name)]
    domains  the domains that contain the names, and domains without names. Queries in these domains are not forwarded
    """

    entries: Sequence[tuple[str, str]]
    domains: Sequence[str]


DSCP_MARKS = (0, *range(8, 41, 2), 46, 48, 56)           # RFC 2474, 2597, 3246: DSCP values allowed for guests


def names_in(state: HostState, network_id: str) -> Names:
    """Return the names that a network resolves. Names of the network take precedence over names for all networks."""
    own = [(address, name) for of, address, name in state.dns_names if of == network_id and address]
    taken = {name for _address, name in own}
    return Names(own + [(address, name) for of, address, name in state.dns_names
                        if of == '' and address and name not in taken],
                 sorted({name for of, address, name in state.dns_names if of in ('', network_id) and not address}))


def rules_as_json(rules: Rules) -> dict[str, list[group_rules.Rule]]:
    """Encode ``rules`` of a HostState with the columns that filters use."""
    return {group: [group_rules.plain(row) for row in rows] for group, rows in rules.items()}


def remote_groups(rules: Rules) -> set[str]:
    """Return the ids of the remote groups in rules."""
    return {rule['remote_group_id'] for of_group in rules.values() for rule in of_group if rule['remote_group_id']}


def from_json(given: dict[str, Any]) -> HostState:
    """Decode a HostState from ``as_json``. The privileged process checks the values later.

    :raises TypeError: unknown or missing fields
    """
    return HostState(**{
        **given,
        'networks': [Network(**{**each, 'subnets': [Subnet(**one) for one in each['subnets']]})
                     for each in given['networks']],
        'ports': [Port(**each) for each in given['ports']],
        'overlays': [Overlay(**{**each, 'subnets': [OverlaySubnet(**one) for one in each['subnets']]})
                     for each in given['overlays']],
        'routers': [Router(**{**each, 'internal': [RouterInterface(**one) for one in each['internal']],
                              'external': each['external'] and RouterInterface(**each['external'])})
                    for each in given['routers']],
        'trunks': [Trunk(**{**each, 'subports': [Subport(**one) for one in each['subports']]})
                   for each in given['trunks']]})


class EncodedState:
    """JSON of a state that an agent received. Calling the object decodes it, so drivers accept the object as ``load``.

    The privileged process of the Linux driver gets the JSON, and validates and decodes it.
    """

    def __init__(self, encoded: dict[str, Any]) -> None:
        self.encoded = encoded

    def __call__(self) -> HostState:
        return from_json(self.encoded)

    def with_rules(self, rules: Rules, members: Members) -> 'EncodedState':
        """Return a copy of the state with the given rules.

        :param members: members of the remote groups that are new in ``rules``
        """
        known = {**self.encoded['members'], **members}
        return EncodedState({**self.encoded, 'rules': rules,
                             'members': {group: known[group] for group in remote_groups(rules)}})
