"""A separate nft table for guests' ports: bandwidth limits, DSCP marks, and the tc class of each frame.

ADR 0026 explains why nftables and not tc limits the bandwidth.

Loading a chain resets its limits and gives the guest a new burst. So only changed chains are loaded.
"""
from collections.abc import Callable, Iterator, Mapping

from nova.network.host.state import Port
from nova.network.linux import frames
from nova.network.linux import runner

SIDES = {'egress': 'from', 'ingress': 'to'}       # {direction for the guest: prefix of chain names}
LEAST_BURST = 70_000  # minimum burst in bytes, above the size of an unsegmented frame (64 KiB)
MAX_BURST_BYTES = (1 << 32) - 1                         # maximum burst in bytes, which the kernel stores in 32 bits
DEFAULT_BURST = 0.8                               # default burst of a rule: seconds at its full rate


class Limits:
    """Limits of one host.

    :param run: a Runner of the host
    :param table: name of the filter table; the limit table's name is derived from it
    """

    def __init__(self, run: runner.Runner, table: str) -> None:
        self._run, self.table = run, table + '_limits'
        self._loaded: dict[str, list[str]] | None = None         # {chain: its rules}; None: unknown

    def apply(self, ports: list[Port], tables: Callable[[], str], classes: Mapping[str, str]) -> None:
        """Load the limits of these ports.

        :param tables: function that returns the output of ``nft list tables``
        :param classes: {device of a port: class of tc for its frames}, see guarantees.py
        """
        wanted: dict[str, list[str]] = {}
        for port in ports:
            for direction, kbps, burst in port.limits:
                wanted.setdefault(f'{SIDES[direction]}_{port.device}', []).append(rule(kbps, burst))
            if port.device in classes:
                wanted.setdefault(f'from_{port.device}', []).append(f'meta priority set {classes[port.device]}')
            if port.dscp_mark is not None:
                wanted.setdefault(f'from_{port.device}', []).extend(marking(port.dscp_mark))
        if not wanted and self._loaded == {}:
            return
        present = f'table bridge {self.table}\n' in tables()
        if not present or self._loaded is None:
            if present or wanted:
                self._run('nft', '-f', '-', stdin=frames.removal('bridge', self.table) + (
                    _frame(self.table) if wanted else ''))
            self._loaded = {}
            present = bool(wanted)
        text = ''.join(_changes(self.table, self._loaded, wanted)) if present else ''
        if text:
            self._run('nft', '-f', '-', stdin=text)
        self._loaded = wanted

    def forget(self) -> None:
        """Remove all limits."""
        self._run('nft', '-f', '-', stdin=frames.removal('bridge', self.table))
        self._loaded = None


def rule(kbps: int, burst_kb: int) -> str:
    """Return the nft statement of a limit.

    :param kbps: kilobits a second
    :param burst_kb: kilobits; 0: the amount of DEFAULT_BURST seconds
    """
    burst = min(max(LEAST_BURST, int((burst_kb or kbps * DEFAULT_BURST) * 125)), MAX_BURST_BYTES)
    return f'limit rate over {kbps * 125} bytes/second burst {burst} bytes drop'


def marking(value: int) -> list[str]:
    """Return rules that set the DSCP value of packets and overwrite the guest's value."""
    return [f'ether type {kind} {kind} dscp set {value}' for kind in ('ip', 'ip6')]


def _frame(table: str) -> str:
    lines = [f'table bridge {table} {{']
    for side, hook, name in (('from', 'prerouting', 'iifname'), ('to', 'postrouting', 'oifname')):
        lines += [f'  map {side}_guest {{', '    type ifname : verdict', '  }', f'  chain {hook} {{',
                  f'    type filter hook {hook} priority -310; policy accept;', f'    {name} vmap @{side}_guest', '  }']
    return '\n'.join([*lines, '}']) + '\n'


def _changes(table: str, known: dict[str, list[str]], wanted: dict[str, list[str]]) -> Iterator[str]:
    for name in sorted(known.keys() | wanted.keys()):
        side, _, device = name.partition('_')
        if known.get(name) == wanted.get(name):
            continue
        if name in known:
            yield (f'delete element bridge {table} {side}_guest {{ "{device}" }}\nflush chain bridge {table} {name}\n'
                   f'delete chain bridge {table} {name}\n')
        if name in wanted:
            yield (f'add chain bridge {table} {name}\n'
                   + ''.join(f'add rule bridge {table} {name} {each}\n' for each in wanted[name])
                   + f'add element bridge {table} {side}_guest {{ "{device}" : jump {name} }}\n')
