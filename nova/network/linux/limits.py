"""Bandwidth of guests' ports, and marks of what they send, as a table of nft by itself (ADR 0036 says why not tc).

A limit counts from one load of its chain to the next. So what changes is loaded alone: changes of other ports, or of
rules of security groups, do not give a guest its burst again.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nova.network.host.state import Port
from nova.network.linux import runner

SIDES = {'egress': 'from', 'ingress': 'to'}       # direction, seen from the guest -> side of its device
LEAST_BURST = 70_000                              # bytes: a frame that is not cut yet, up to 64 KiB, passes at all
MOST_BURST = (1 << 32) - 1                         # bytes: a number of 32 bits in the kernel
DEFAULT_BURST = 0.8                               # seconds of the rate, where a rule names none


class Limits:
    """The limits of one host.

    :param run: a Runner of the host
    :param table: name of the table of filters, from which this one's derives
    """

    def __init__(self, run: runner.Runner, table: str) -> None:
        self._run, self.table = run, table + '_limits'
        self._loaded: dict[str, list[str]] | None = None         # {chain: its rules}; None: it is not known

    def apply(self, ports: list[Port], tables: Callable[[], str]) -> None:
        """Have these limits.

        :param tables: gives what ``nft list tables`` prints
        """
        wanted: dict[str, list[str]] = {}
        for port in ports:
            for direction, kbps, burst in port.limits:
                wanted.setdefault(f'{SIDES[direction]}_{port.device}', []).append(rule(kbps, burst))
            if port.mark is not None:
                wanted.setdefault(f'from_{port.device}', []).extend(marking(port.mark))
        if not wanted and self._loaded == {}:
            return
        present = f'table bridge {self.table}\n' in tables()
        if not present or self._loaded is None:
            if present or wanted:
                self._run('nft', '-f', '-', stdin=remove(self.table) + (_frame(self.table) if wanted else ''))
            self._loaded = {}
            present = bool(wanted)
        text = ''.join(_changes(self.table, self._loaded, wanted)) if present else ''
        if text:
            self._run('nft', '-f', '-', stdin=text)
        self._loaded = wanted

    def forget(self) -> None:
        """Remove them all."""
        self._run('nft', '-f', '-', stdin=remove(self.table))
        self._loaded = None


def rule(kbps: int, burst_kb: int) -> str:
    """The statement of a limit.

    :param kbps: kilobits a second
    :param burst_kb: kilobits; 0: as much as the rate gives in DEFAULT_BURST
    """
    burst = min(max(LEAST_BURST, int((burst_kb or kbps * DEFAULT_BURST) * 125)), MOST_BURST)
    return f'limit rate over {kbps * 125} bytes/second burst {burst} bytes drop'


def marking(value: int) -> list[str]:
    """The rules that give packets a value of the field DS; what a guest has written there is lost."""
    return [f'ether type {kind} {kind} dscp set {value}' for kind in ('ip', 'ip6')]


def remove(table: str) -> str:
    return f'table bridge {table}\ndelete table bridge {table}\n'


def _frame(table: str) -> str:
    lines = [f'table bridge {table} {{']
    for side, hook, name in (('from', 'prerouting', 'iifname'), ('to', 'postrouting', 'oifname')):
        lines += [f'  map {side}_guest {{', '    type ifname : verdict', '  }', f'  chain {hook} {{',
                  f'    type filter hook {hook} priority -310; policy accept;', f'    {name} vmap @{side}_guest', '  }']
    return '\n'.join([*lines, '}']) + '\n'


def _changes(table: str, known: dict[str, list[str]], wanted: dict[str, list[str]]) -> Any:
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
