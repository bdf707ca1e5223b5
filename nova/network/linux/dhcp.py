"""One dnsmasq process for each bridge serves DNS, and DHCP to the ports in the database.

The process outlives the service. A restarted service finds the process by pid file and command line, and restarts it
only if its arguments differ.
"""
from collections.abc import Callable, Collection, Iterable, Sequence
import ipaddress
import os
import pathlib
import shutil
import signal

from nova.network.host import state as host_state
from nova.network.linux import dnsmasq_files
from nova.network.linux.leases import Leases
from nova.network.linux.runner import Runner
from nova.runtime import process_exit

STOP_S = 5                       # seconds for each signal


class Dnsmasq:
    """The DHCP server of one bridge.

    :param run: a Runner
    :param bridge: name of the bridge
    :param directory: directory of its files
    :param leases: collects leases for reports; None: leases are not reported
    """

    def __init__(self, run: Runner, bridge: str, directory: pathlib.Path, leases: Leases | None = None) -> None:
        self._leases = leases
        self.run, self.bridge, self.directory = run, bridge, pathlib.Path(directory)
        self.pid_file, self.hosts = self.directory / 'pid', self.directory / 'hosts'
        self.leases, self.names = self.directory / 'leases', self.directory / 'names'

    def arguments(self, network: host_state.Network, lease_time: int,
                  name_servers: Callable[[host_state.Subnet], list[str]],
                  domains: Sequence[str] = (), domain: str = '') -> list[str]:
        """Return the command line for a network.

        :param name_servers: function: subnet -> [address] for its guests
        :param domains: names below these are not forwarded to other servers
        :param domain: search domain of the guests
        """
        words = [
            'dnsmasq', '--conf-file=/dev/null', '--no-hosts', '--bind-dynamic', '--except-interface=lo',
            f'--interface={self.bridge}', f'--pid-file={self.pid_file}', f'--dhcp-hostsfile={self.hosts}',
            f'--dhcp-leasefile={self.leases}', f'--addn-hosts={self.names}', *domain_arguments(domain),
            *[f'--local=/{each}/' for each in domains if each != domain], '--dhcp-no-override', '--dhcp-authoritative',
            '--quiet-dhcp', '--bogus-priv', f'--dhcp-option=option:mtu,{network.mtu}', '--dhcp-lease-max=65536']
        for index, subnet in enumerate(dhcp_subnets(network)):
            cidr, tag = ipaddress.ip_network(subnet.cidr), f'subnet{index}'
            words.append(f'--dhcp-range=set:{tag},{cidr.network_address},static,{cidr.netmask},{lease_time}s')
            routes = [f'{route["destination"]},{route["nexthop"]}' for route in subnet.routes]
            if routes:
                routes.append(f'0.0.0.0/0,{subnet.gateway}')
            words += [f'--dhcp-option=tag:{tag},option:router,{subnet.gateway}',
                      f'--dhcp-option=tag:{tag},option:dns-server,{",".join(name_servers(subnet))}',
                      *[f'--dhcp-option=tag:{tag},option:classless-static-route,{",".join(routes)}'
                        for routes in [routes] if routes]]
        return words

    def apply(self, network: host_state.Network, ports: Iterable[host_state.Port], lease_time: int,
              name_servers: Callable[[host_state.Subnet], list[str]],
              names: host_state.Names = host_state.Names((), ()), domain: str = '') -> None:
        """Serve DHCP to the ports: start dnsmasq, make it reread changed files, or restart it with new arguments.

        :param names: user-defined DNS names
        :param domain: search domain of the guests
        """
        dnsmasq_files.make_directory(self.directory)
        changed = dnsmasq_files.write(self.names, hosts_file(names.entries))
        text = ''.join(
            f'{port.mac},{address},host-{address.replace(".", "-")}\n'
            for port in sorted(ports, key=lambda port: port.id)
            for address in port.addresses
            if any(ipaddress.ip_address(address) in ipaddress.ip_network(subnet.cidr)
                   for subnet in dhcp_subnets(network)))
        self.ensure_running(text, self.arguments(network, lease_time, name_servers, names.domains, domain), changed)

    def ensure_running(self, text: str, arguments: list[str], changed: bool = False) -> None:
        """Ensure that a server runs with this hosts file and these arguments.

        :param text: content of the hosts file
        :param changed: whether another file that the server rereads has changed
        """
        changed = dnsmasq_files.write(self.hosts, text) or changed
        before, arguments = self._leases.prepare(arguments) if self._leases else ([], arguments)
        pid = self.pid()
        if pid and (self._stale(text) or command_line(pid) != arguments):
            self.stop()
            pid = None
        if pid is None:
            self._forget(self._stale(text))
            self.run(*before, *arguments)
        elif changed:
            os.kill(pid, signal.SIGHUP)

    def _stale(self, hosts: str) -> set[str]:
        """Return lines of the lease file with former owners: dnsmasq would refuse these addresses to new owners."""
        owners = {line.split(',')[1]: line.split(',')[0] for line in hosts.splitlines()}
        return {line for line in dnsmasq_files.lines(self.leases) if len(line.split()) > 2
                and owners.get(line.split()[2], line.split()[1]) != line.split()[1]}

    def _forget(self, stale: Collection[str]) -> None:
        if stale:
            lines = dnsmasq_files.lines(self.leases)
            dnsmasq_files.write(self.leases, ''.join(line + '\n' for line in lines if line not in stale))

    def pid(self) -> int | None:
        """Return the pid of this bridge's dnsmasq, or None; a stale pid file may have the pid of another process."""
        try:
            pid = int(self.pid_file.read_text())
        except (FileNotFoundError, ValueError):
            return None
        return pid if f'--pid-file={self.pid_file}' in command_line(pid) else None

    def stop(self) -> None:
        """Stop the server and wait until its addresses are free; a server that does not stop is killed."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            pid = self.pid()
            if pid is None or process_exit.end(pid, number, STOP_S):
                return

    def remove(self) -> None:
        """Stop the server and delete its files."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


def domain_arguments(domain: str) -> list[str]:
    """Return arguments that announce a search domain and keep queries for it on this host.

    dnsmasq does not forward queries for the domain and for names without a dot. If a known name has no record of the
    queried type, dnsmasq returns NOERROR without data. A forwarded query would get REFUSED if there is no upstream
    server. musl's resolver treats REFUSED as a failure of the name server. For names without a dot, dnsmasq keeps only
    A and AAAA queries on this host; resolvers send no other types.
    """
    announced = [f'--domain={domain}', f'--local=/{domain}/', f'--dhcp-option=option:domain-search,{domain}',
                 f'--dhcp-option=option6:domain-search,{domain}']
    return ['--domain-needed', *(announced if domain else ())]


def hosts_file(entries: Iterable[tuple[str, str]]) -> str:
    """Return the content of a hosts file from (address, name) pairs."""
    return ''.join(f'{address} {name}\n' for address, name in entries)


def dhcp_subnets(network: host_state.Network) -> list[host_state.Subnet]:
    """Return the subnets that DHCP serves: those with a gateway address, from which the server replies."""
    return [subnet for subnet in network.subnets if subnet.dhcp and subnet.gateway]


def command_line(pid: int) -> list[str]:
    """Return the arguments of a process, or [] if it does not exist."""
    try:
        return pathlib.Path(f'/proc/{pid}/cmdline').read_bytes().decode(errors='replace').split('\0')[:-1]
    except (FileNotFoundError, ProcessLookupError):
        return []
