"""DHCP, DNS and router advertisements of overlay networks: a dnsmasq in a namespace of each network."""
from collections.abc import Sequence
import ipaddress
import pathlib

from nova.network import relay
from nova.network.host import state as host_state
from nova.network.linux import dhcp
from nova.network.linux import dnsmasq_files
from nova.network.linux import frames
from nova.network.linux import runner
from nova.network.linux.leases import Leases

WEEK_S = 7 * 86400                # valid lifetime of an advertised prefix


class OverlayDnsmasq(dhcp.Dnsmasq):
    """The dnsmasq of one overlay.

    :param run: a Runner in the namespace
    :param device: the device in the namespace
    :param directory: directory of its files
    :param domain: DNS domain of the guests, '' for none
    :param leases: collects leases for reports; None: leases are not reported
    """

    def __init__(self, run: runner.Runner, device: str, directory: pathlib.Path, domain: str,
                 leases: Leases | None = None) -> None:
        super().__init__(run, device, directory, leases)
        self.options, self.domain = self.directory / 'options', domain

    def arguments_of(self, overlay: host_state.Overlay, lease_time: int, more_servers: list[str],
                     domains: Sequence[str] = ()) -> list[str]:
        """Return the command line.

        :param more_servers: name servers for subnets without their own
        :param domains: names below these are not forwarded to other servers
        """
        words = ['dnsmasq', '--conf-file=/dev/null', '--no-hosts', '--no-resolv', '--bind-dynamic',
                 '--except-interface=lo', f'--interface={self.bridge}', f'--pid-file={self.pid_file}',
                 f'--dhcp-hostsfile={self.hosts}', f'--dhcp-leasefile={self.leases}', f'--addn-hosts={self.names}',
                 f'--dhcp-optsfile={self.options}',
                 '--dhcp-no-override', '--dhcp-authoritative', '--quiet-dhcp', '--quiet-dhcp6', '--quiet-ra',
                 '--dhcp-lease-max=65536', f'--dhcp-option=option:mtu,{overlay.mtu}', f'--ra-param={self.bridge},'
                 f'mtu:{overlay.mtu},0,0']
        words += dhcp.domain_arguments(self.domain)
        words += [f'--local=/{domain}/' for domain in domains if domain != self.domain]
        for index, subnet in enumerate(overlay.subnets):
            arguments = self._ipv4_arguments if '.' in subnet.cidr else self._ipv6_arguments
            words += arguments(subnet, f'subnet{index}', lease_time, more_servers)
        return words

    def _ipv4_arguments(self, subnet: host_state.OverlaySubnet, tag: str, lease_time: int,
                        more_servers: list[str]) -> list[str]:
        if subnet.dhcp is None:
            return []
        cidr = ipaddress.ip_network(subnet.cidr)
        # a route to this host for metadata requests; guests that ignore this route send the requests to their router
        routes = [f'{relay.ADDRESS}/32,{subnet.dhcp}',
                  *[f'{route["destination"]},{route["nexthop"]}' for route in subnet.routes]]
        if subnet.gateway:  # send a default route, too: guests that get routes ignore the router option (RFC 3442)
            routes.append(f'0.0.0.0/0,{subnet.gateway}')
        servers = ','.join([subnet.dhcp, *(subnet.dns or frames.of_version(more_servers, 4))])
        return [f'--dhcp-range=set:{tag},{cidr.network_address},static,{cidr.netmask},{lease_time}s',
                f'--dhcp-option=tag:{tag},option:router{"," + subnet.gateway if subnet.gateway else ""}',
                f'--dhcp-option=tag:{tag},option:dns-server,{servers}',
                f'--dhcp-option=tag:{tag},option:classless-static-route,{",".join(routes)}']

    def _ipv6_arguments(self, subnet: host_state.OverlaySubnet, tag: str, lease_time: int,
                        _more: list[str]) -> list[str]:
        if subnet.dhcp is None or subnet.mode is None:
            return []
        cidr = ipaddress.ip_network(subnet.cidr)
        kind = {'slaac': 'ra-only', 'dhcpv6-stateless': 'ra-stateless', 'dhcpv6-stateful': 'static'}[subnet.mode]
        servers = ','.join(f'[{each}]' for each in [subnet.dhcp, *subnet.dns])
        period = max(lease_time, 120) if subnet.mode == 'dhcpv6-stateful' else WEEK_S
        return ['--enable-ra', f'--dhcp-range=set:{tag},{cidr.network_address},{kind},{cidr.prefixlen},{period}s',
                f'--dhcp-option=tag:{tag},option6:dns-server,{servers}']

    def serve(self, overlay: host_state.Overlay, lease_time: int, more_servers: list[str],
              more: host_state.Names = host_state.Names((), ())) -> None:
        """Serve the overlay's guests: start dnsmasq, make it reread changed files, or restart it with new arguments.

        :param more: user-defined DNS names; names of guests take precedence
        """
        domain = '.' + self.domain if self.domain else ''
        guests = {lease['name'] + domain for lease in overlay.leases if lease['name']}
        names = ''.join(f'{lease["address"]} {lease["name"]}{domain} {lease["name"]}\n'
                        for lease in overlay.leases if lease['name'])
        names += dhcp.hosts_file(each for each in more.entries if each[1] not in guests)
        dnsmasq_files.make_directory(self.directory)
        options = ''.join(_option(lease, option) for lease in overlay.leases for option in lease['options'])
        changed = [dnsmasq_files.write(self.names, names), dnsmasq_files.write(self.options, options)]
        self.ensure_running(''.join(map(self._host, overlay.leases)), self.arguments_of(
            overlay, lease_time, more_servers, more.domains), any(changed))

    @staticmethod
    def _host(lease: host_state.StaticLease) -> str:
        name = lease['name'] or 'host-' + lease['address'].replace('.', '-').replace(':', '-')
        address = f'[{lease["address"]}]' if ':' in lease['address'] else lease['address']
        return f'{lease["mac"]},{address},set:{_tag(lease)},{name}\n'


def _tag(lease: host_state.StaticLease) -> str:
    return 'port' + lease['mac'].replace(':', '')


def _option(lease: host_state.StaticLease, option: host_state.DhcpOption) -> str:
    four = option.get('ip_version', 4) == 4
    if four != ('.' in lease['address']):
        return ''
    name = option['opt_name']
    words = name if name.isdigit() and four else f'{"option" if four else "option6"}:{name}'
    return f'tag:{_tag(lease)},{words},{option["opt_value"]}\n'


class RouterAdvertiser(dhcp.Dnsmasq):
    """The dnsmasq of one router; it only sends router advertisements."""

    def advertise(self, ranges: list[tuple[str, str, str]]) -> None:
        """Send router advertisements on devices.

        :param ranges: [(device, IPv6 range, mode)]
        """
        if not ranges:
            self.stop()
            return
        dnsmasq_files.make_directory(self.directory)
        words = ['dnsmasq', '--conf-file=/dev/null', '--no-hosts', '--no-resolv', '--port=0', '--bind-dynamic',
                 '--except-interface=lo', f'--pid-file={self.pid_file}', f'--dhcp-leasefile={self.leases}',
                 '--enable-ra', '--quiet-ra', '--quiet-dhcp6']
        for device, cidr, mode in ranges:
            network = ipaddress.ip_network(cidr)
            kind = {'slaac': 'ra-only', 'dhcpv6-stateless': 'ra-stateless', 'dhcpv6-stateful': 'static'}[mode]
            words += [f'--interface={device}', f'--dhcp-range={network.network_address},{kind},{network.prefixlen},'
                      f'{WEEK_S}s']
        self.ensure_running('', words)
