"""One dnsmasq a bridge: DHCP for the ports that the database knows, and DNS.

It outlives the service that started it: a service that starts finds it by its pid file and command line, and
leaves
it alone when it runs with the arguments that it should have.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
import ipaddress
import os
import pathlib
import shutil
import signal
from typing import Any, TYPE_CHECKING
import time

from nova.network.host.state import Names

if TYPE_CHECKING:
    from nova.network.host.state import Network, Subnet
    from nova.network.linux.leases import Leases

STOP_S = 5


class Dhcp:
    """The DHCP server of one bridge.

    :param run: a Runner
    :param bridge: its name
    :param directory: where its files live
    :param leases: where its leases are kept for reports, None: nowhere
    """

    def __init__(self, run: Any, bridge: str, directory: pathlib.Path, leases: Leases | None = None) -> None:
        self._leases = leases
        self.run, self.bridge, self.directory = run, bridge, pathlib.Path(directory)
        self.pid_file, self.hosts = self.directory / 'pid', self.directory / 'hosts'
        self.leases, self.names = self.directory / 'leases', self.directory / 'names'

    def arguments(self, network: Network, lease_time: int, name_servers: Callable[..., Any],
                  domains: Sequence[str] = (), domain: str = '') -> list[str]:
        """The command line for a network.

        :param name_servers: subnet -> [address] that its guests get
        :param domains: whose names no other server is queried for
        :param domain: the search domain of its guests
        """
        words = [
            'dnsmasq',
            '--conf-file=/dev/null',
            '--no-hosts',
            '--bind-interfaces',
            '--except-interface=lo',
            f'--interface={self.bridge}',
            f'--pid-file={self.pid_file}',
            f'--dhcp-hostsfile={self.hosts}',
            f'--dhcp-leasefile={self.leases}',
            f'--addn-hosts={self.names}',
            *of_domain(domain),
            *[f'--local=/{each}/' for each in domains if each != domain],
            '--dhcp-no-override',
            '--dhcp-authoritative',
            '--quiet-dhcp',
            '--bogus-priv',
            f'--dhcp-option=option:mtu,{network.mtu}',
            '--dhcp-lease-max=65536',
        ]
        for index, subnet in enumerate(served(network)):
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

    def apply(self, network: Any, ports: Any, lease_time: Any, name_servers: Any,
              names: Names = Names((), ()), domain: str = '') -> None:
        """Serve these ports: start the server, signal changes to it, or restart it when its arguments
        changed.

        :param names: that users gave to addresses
        :param domain: the search domain of its guests
        """
        make_directory(self.directory)
        changed = write(self.names, lines(names.entries))
        text = ''.join(
            f'{port.mac},{address},host-{address.replace(".", "-")}\n'
            for port in sorted(ports, key=lambda port: port.id)
            for address in port.addresses
            if any(
                ipaddress.ip_address(address) in ipaddress.ip_network(subnet.cidr)
                for subnet in served(network)
            )
        )
        self.keep(text, self.arguments(network, lease_time, name_servers, names.domains, domain), changed)

    def keep(self, text: str, arguments: list[str], changed: bool = False) -> None:
        """Have a server with these hosts and arguments.

        :param text: of the file of hosts
        :param changed: another file that it reads again was written
        """
        changed = write(self.hosts, text) or changed
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

    def _stale(self, hosts: Any) -> Any:
        """Lines of leases whose address another guest has now: dnsmasq would refuse it to that one."""
        owners = {line.split(',')[1]: line.split(',')[0] for line in hosts.splitlines()}
        return {line for line in _lines(self.leases) if len(line.split()) > 2
                and owners.get(line.split()[2], line.split()[1]) != line.split()[1]}

    def _forget(self, stale: Any) -> None:
        if stale:
            write(self.leases, ''.join(line + '\n' for line in _lines(self.leases) if line not in stale))

    def pid(self) -> Any:
        """The process that serves this bridge, or None: a pid file may be older than the process of that
        number."""
        try:
            pid = int(self.pid_file.read_text())
        except (FileNotFoundError, ValueError):
            return None
        return pid if f'--pid-file={self.pid_file}' in command_line(pid) else None

    def stop(self) -> None:
        pid = self.pid()
        if pid is None:
            return
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        while self.pid() and time.monotonic() < deadline:
            time.sleep(0.02)

    def remove(self) -> None:
        """Stop it and delete its files."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


def of_domain(domain: str) -> list[str]:
    """Arguments that announce a search domain, and keep queries for its names and for names without a dot.

    No other server is queried for these, so a type that a known name lacks gets NOERROR without data. Resolvers such as
    musl's take REFUSED, the answer where there is no other server, for a failure of the name server. Of names without a
    dot dnsmasq keeps A and AAAA alone, which is what resolvers ask for.
    """
    announced = [f'--domain={domain}', f'--local=/{domain}/', f'--dhcp-option=option:domain-search,{domain}',
                 f'--dhcp-option=option6:domain-search,{domain}']
    return ['--domain-needed', *(announced if domain else ())]


def lines(entries: Iterable[tuple[str, str]]) -> str:
    """A file of addresses and their names, as dnsmasq reads it."""
    return ''.join(f'{address} {name}\n' for address, name in entries)


def served(network: Network) -> list[Subnet]:
    """The subnets of a network that DHCP serves: the server answers from the gateway's address."""
    return [subnet for subnet in network.subnets if subnet.dhcp and subnet.gateway]


def command_line(pid: int) -> list[str]:
    """The arguments of a process, [] when there is none."""
    try:
        return pathlib.Path(f'/proc/{pid}/cmdline').read_bytes().decode(errors='replace').split('\0')[:-1]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _lines(path: Any) -> Any:
    try:
        return path.read_text().splitlines()
    except FileNotFoundError:
        return []


def make_directory(path: pathlib.Path) -> None:
    """The directory and what is missing above it, readable for dnsmasq's own user, whatever the process's umask."""
    for directory in [*reversed(path.parents), path]:
        if not directory.exists():
            directory.mkdir()
            directory.chmod(0o755)


def write(path: pathlib.Path, text: str) -> bool:
    """Replace a file's text in one step; False when it has that text already."""
    if path.exists() and path.read_text() == text:
        return False
    fresh = path.with_suffix('.new')
    fresh.write_text(text)
    fresh.chmod(0o644)
    fresh.replace(path)
    return True
