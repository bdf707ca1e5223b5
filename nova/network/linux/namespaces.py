"""Network namespaces of this host, and the pairs of devices that join them with its bridges."""
from __future__ import annotations

import json
import pathlib
from typing import Any

from nova.network.linux import runner


class Namespace:
    """One namespace.

    :param run: a Runner of the host
    :param name: of the namespace
    """

    def __init__(self, run: runner.Runner, name: str) -> None:
        self.host, self.name = run, name
        self.run = runner.Runner((*run.prefix, 'ip', 'netns', 'exec', name))

    def ensure(self) -> bool:
        """Make it where it is missing; True when it was made."""
        if (pathlib.Path('/run/netns') / self.name).exists():
            if self.run('ip', 'link', 'set', 'lo', 'up', check=False) == '' and self._lives():
                return False
            self.host('ip', 'netns', 'del', self.name, check=False)      # a name without a namespace, after a reboot
        self.host('ip', 'netns', 'add', self.name)
        self.run('ip', 'link', 'set', 'lo', 'up')
        return True

    def _lives(self) -> bool:
        return bool(self.run('ip', '-json', 'link', 'show', 'dev', 'lo', check=False))

    def set(self, **values: str) -> None:
        """Write kernel settings of it: path below /proc/sys with '__' for '/' -> value."""
        lines = [f'echo {value} > /proc/sys/{name.replace("__", "/")}' for name, value in values.items()]
        self.run('sh', '-c', '; '.join(lines))

    def remove(self) -> None:
        self.host('ip', 'netns', 'del', self.name, check=False)

    def link(self, device: str, bridge: str, mac: str, mtu: int) -> bool:
        """A pair of devices of this name: one end on a bridge of the host, the other here; True when it was made."""
        known, made = self.show(device), False
        if known is None or not _exists(self.host, device):
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

    def show(self, device: str) -> Any:
        """What ``ip`` tells of a device, or None."""
        text = self.run('ip', '-json', 'address', 'show', 'dev', device, check=False)
        return json.loads(text)[0] if text.strip() else None

    def devices(self) -> list[str]:
        """Names of the devices but lo."""
        found = json.loads(self.run('ip', '-json', 'link', 'show', check=False) or '[]')
        return [link['ifname'] for link in found if link['ifname'] != 'lo']

    def unlink(self, device: str) -> None:
        self.run('ip', 'link', 'del', 'dev', device, check=False)

    def addresses(self, device: str, wanted: list[str]) -> bool:
        """Give a device these addresses, with prefix lengths, and no others but link-local ones; True: it got one."""
        known = [f'{each["local"]}/{each["prefixlen"]}' for each in (self.show(device) or {}).get('addr_info', ())
                 if each['scope'] == 'global' or each['local'].startswith('169.254.')]
        for address in known:
            if address not in wanted:
                self.run('ip', 'address', 'del', address, 'dev', device)
        fresh = [address for address in wanted if address not in known]
        for address in fresh:
            more = ['nodad'] if ':' in address else []
            self.run('ip', 'address', 'add', address, 'dev', device, *more)
        return bool(fresh)

    def routes(self, wanted: dict[str, str]) -> None:
        """Have these routes (destination -> next hop), and of those that were made this way no others."""
        for family in ('-4', '-6'):
            text = self.run('ip', '-json', family, 'route', 'show', 'proto', 'static', check=False)
            known = {route['dst']: route.get('gateway') for route in json.loads(text or '[]')}
            mine = {destination: hop for destination, hop in wanted.items() if (':' in hop) == (family == '-6')}
            for destination in known.keys() - mine.keys():
                self.run('ip', family, 'route', 'del', destination, 'proto', 'static', check=False)
            for destination, hop in mine.items():
                if known.get(destination) != hop:
                    self.run('ip', family, 'route', 'replace', destination, 'via', hop, 'proto', 'static')


def _exists(run: runner.Runner, device: str) -> bool:
    return bool(run('ip', '-json', 'link', 'show', 'dev', device, check=False).strip())


def ours(prefix: str) -> list[str]:
    """Names of the namespaces of this host that begin so."""
    directory = pathlib.Path('/run/netns')
    return sorted(path.name for path in directory.iterdir() if path.name.startswith(prefix)) if (
        directory.is_dir()) else []
