"""Network namespaces of this host, and the veth pairs that connect them to its bridges.

The name of a namespace is a mount point. Under systemd a unit's mounts are private and end with the unit
(PrivateMounts= and options that imply it, systemd.exec(5)). A namespace without a name or process disappears with its
connections. So a process stays in each namespace, and the next start of the daemon restores the name.
"""
from collections.abc import Iterable
import contextlib
import ipaddress
import json
import os
import pathlib
import signal
from typing import Any

from nova.network.linux import addresses
from nova.network.linux import runner

NAMES = pathlib.Path('/run/netns')           # directory of ip-netns(8)
# directory with a file for each namespace: pid of the process that keeps the namespace, inode of the namespace
HOLDERS = pathlib.Path('/run/nova-namespaces')
# Devices must ignore router advertisements; otherwise the kernel adds an address derived from the MAC, which may equal
# the address that this service assigns. A kernel without IPv6 does not have this file.
_NO_AUTOCONF = 'file=/proc/sys/net/ipv6/conf/default/accept_ra; [ ! -e $file ] || echo 0 > $file'
_HOLD = 'sleep infinity </dev/null >/dev/null 2>&1 & echo $! $(stat -L -c %i /proc/$!/ns/net)'
_ANY = {4: '0.0.0.0/0', 6: '::/0'}


class Namespace:
    """One namespace.

    :param run: a Runner of the host
    :param name: name of the namespace
    """

    def __init__(self, run: runner.Runner, name: str) -> None:
        self.host, self.name = run, name
        self.run = runner.Runner((*run.prefix, 'ip', 'netns', 'exec', name))

    def ensure(self) -> bool:
        """Create the namespace if it is missing, or complete an interrupted creation. Return whether it was missing."""
        made = False
        named = (NAMES / self.name).exists()
        if not (named and self._lives()):
            if named:
                self.host('ip', 'netns', 'del', self.name, check=False)      # a stale name
            holder = self._holder()
            made = holder is None
            self.host('ip', 'netns', *(('add', self.name) if made else ('attach', self.name, str(holder))))
        if self._holder() is None:                               # _hold is the last step of a creation
            self.run('ip', 'link', 'set', 'lo', 'up')
            self.run('sh', '-c', _NO_AUTOCONF)
            self._hold()
        return made

    def _lives(self) -> bool:
        return self.run.link('lo') is not None

    def _holder(self) -> int | None:
        """Return the process that keeps the namespace, or None."""
        try:
            pid, number = (HOLDERS / self.name).read_text().split()
            return int(pid) if _number(int(pid)) == int(number) else None
        except (FileNotFoundError, ValueError):
            return None

    def _hold(self) -> None:
        HOLDERS.mkdir(exist_ok=True)
        (HOLDERS / self.name).write_text(self.run('sh', '-c', _HOLD))

    def set(self, **values: str) -> None:
        """Write sysctls of the namespace. In the argument names, '__' stands for '/' in the path below /proc/sys."""
        lines = [f'echo {value} > /proc/sys/{name.replace("__", "/")}' for name, value in values.items()]
        self.run('sh', '-c', '; '.join(lines))

    def remove(self) -> None:
        holder = self._holder()
        if holder is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(holder, signal.SIGKILL)
        (HOLDERS / self.name).unlink(missing_ok=True)
        self.host('ip', 'netns', 'del', self.name, check=False)

    def link(self, device: str, bridge: str, mac: str, mtu: int) -> bool:
        """Ensure a veth pair between a bridge of the host and this namespace. Return whether it was created."""
        known, made = self.run.link(device), False
        if known is None or self.host.link(device) is None:
            self.host('ip', 'link', 'del', 'dev', device, check=False)
            self.host('ip', 'link', 'add', device, 'mtu', str(mtu), 'type', 'veth', 'peer', 'name', device, 'mtu',
                      str(mtu), 'address', mac, 'netns', self.name)
            known, made = {'mtu': mtu, 'address': mac, 'flags': []}, True
        if known['address'] != mac:
            self.run('ip', 'link', 'set', 'dev', device, 'address', mac)
        if known['mtu'] != mtu:
            for run in (self.host, self.run):
                run('ip', 'link', 'set', 'dev', device, 'mtu', str(mtu))
        self.host('ip', 'link', 'set', 'dev', device, 'master', bridge, 'up')
        if 'UP' not in known['flags']:
            self.run('ip', 'link', 'set', 'dev', device, 'up')
        return made

    def devices(self) -> list[str]:
        """Return the names of all devices except lo."""
        return [link['ifname'] for link in self.run.links('link', 'show') if link['ifname'] != 'lo']

    def unlink(self, device: str) -> None:
        self.run('ip', 'link', 'del', 'dev', device, check=False)

    def addresses(self, device: str, wanted: list[str]) -> bool:
        """Set a device's addresses (with prefix length); keep IPv6 link-local ones. Return whether any is new."""
        present = self.run.link(device, command='address') or {}
        known = [f'{each["local"]}/{each["prefixlen"]}' for each in present.get('addr_info', ())
                 if each['scope'] == 'global' or each['local'].startswith('169.254.')]
        return addresses.update(self.run, device, known, wanted)

    def routes(self, wanted: Iterable[tuple[str, str]]) -> None:
        """Set the static routes: (destination, next hop). Packets to a destination use all of its next hops."""
        for version in (4, 6):
            text = self.run('ip', '-json', f'-{version}', 'route', 'show', 'proto', 'static', check=False)
            for command, check in route_commands(version, json.loads(text or '[]'), wanted):
                self.run('ip', f'-{version}', 'route', *command, check=check)


def route_commands(version: int, present: Iterable[dict[str, Any]],
                   wanted: Iterable[tuple[str, str]]) -> list[tuple[list[str], bool]]:
    """Return the changes of static routes of an IP version: (arguments of ``ip route``, whether they must succeed).

    :param present: routes as ``ip -json`` prints them: ``default``, and hosts without a prefix length
    :param wanted: (destination, next hop) of both versions
    """
    known: dict[str, set[str | None]] = {}
    for route in present:
        destination = str(ipaddress.ip_network(_ANY[version] if route['dst'] == 'default' else route['dst']))
        known.setdefault(destination, set()).update(hop.get('gateway') for hop in route.get('nexthops', [route]))
    mine: dict[str, set[str]] = {}
    for destination, hop in wanted:
        address = ipaddress.ip_address(hop)
        if address.version == version:
            mine.setdefault(str(ipaddress.ip_network(destination)), set()).add(str(address))
    found = [(['del', destination, 'proto', 'static'], False) for destination in known.keys() - mine.keys()]
    for destination, hops in mine.items():
        if known.get(destination) != hops:
            each = [['via', hop] for hop in sorted(hops)]
            parts = each[0] if len(each) == 1 else [word for part in each for word in ('nexthop', *part)]
            found.append((['replace', destination, 'proto', 'static', *parts], True))
    return found


def _number(pid: int) -> int | None:
    """Return the inode of a process's network namespace, or None if the process does not exist."""
    try:
        return os.stat(f'/proc/{pid}/ns/net').st_ino
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def managed(prefix: str) -> list[str]:
    """Return the names of this host's namespaces with a prefix."""
    return sorted(path.name for path in NAMES.iterdir() if path.name.startswith(prefix)) if NAMES.is_dir() else []
