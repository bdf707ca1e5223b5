"""The leases of this host: files of nova-dhcpbridge for those that begin and end, dnsmasq's own for how long they last.

dnsmasq renews a lease without a word. Files are looked at when their directory has changed; a whole look, once a
minute, takes the time of renewed leases from what dnsmasq itself keeps.
"""
from __future__ import annotations

from collections.abc import Iterable
import pathlib
import time
from typing import Any

from nova import exception
from nova.network.linux import dhcp
from nova.network.linux import dhcpbridge
from nova.runtime import programs
from nova.runtime import versioned_records

COMMAND = 'nova-dhcpbridge'
FIELDS = ('mac', 'address', 'until')
FORMAT = versioned_records.RecordFormat(
    name='record of a lease', version=dhcpbridge.VERSION, fields=frozenset(FIELDS), required=frozenset(FIELDS))
MAX = 65536                      # files that are read: dnsmasq has no more leases


class Leases:
    """
    :param directory: of the files of nova-dhcpbridge
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self._seen = 0
        self._unreadable = versioned_records.UnreadableRecords()

    def prepare(self, arguments: list[str]) -> tuple[list[str], list[str]]:
        """(arguments before dnsmasq, dnsmasq's with the one that makes it call nova-dhcpbridge)."""
        script = programs.installed(COMMAND)
        if script is None:
            return [], arguments
        dhcp.make_directory(self.directory)
        return ['env', f'{dhcpbridge.DIRECTORY}={self.directory}'], [*arguments, f'--dhcp-script={script}']

    def read(self, servers: Iterable[pathlib.Path]) -> list[dict[str, Any]]:
        """[{'mac', 'address', 'until'}] that nova-dhcpbridge has left since the last call, and all leases of these.

        :param servers: directories of dnsmasqs
        """
        found = {(each['mac'], each['address']): each for each in self._files()}
        for directory in servers:
            for mac, address, until in kept(directory):
                found[mac, address] = {'mac': mac, 'address': address, 'until': until}
        return list(found.values())

    def _files(self) -> list[dict[str, Any]]:
        try:
            changed = self.directory.stat().st_mtime_ns
        except FileNotFoundError:
            return []
        if changed == self._seen:
            return []
        found, now = [], time.time()
        for path in sorted(self.directory.glob('[!.]*'))[:MAX]:
            try:
                given = FORMAT.read_as(path, _lease)
            except exception.RecordUnreadable as error:
                self._unreadable.add(str(path), error)
                continue
            if given is None:
                continue
            found.append(given)
            if given['until'] <= now:                        # nothing follows but another one
                path.unlink(missing_ok=True)
        self._unreadable.discard_missing()
        self._seen = changed
        return found


def _lease(values: dict[str, Any]) -> dict[str, Any]:
    return {'mac': str(values['mac']), 'address': str(values['address']), 'until': int(values['until'])}


def kept(directory: pathlib.Path) -> list[tuple[str, str, int]]:
    """[(MAC, address, Unix time of its end)] of the leases that the dnsmasq of a directory keeps.

    Of IPv6 it keeps no MAC; the file of hosts has it.
    """
    macs = {}
    for line in _lines(directory / 'hosts'):
        words = line.split(',')
        if len(words) > 1:
            macs[words[1].strip('[]')] = words[0]
    found = []
    for line in _lines(directory / 'leases'):
        words = line.split()
        mac = macs.get(words[2]) if len(words) > 3 and words[0].isdigit() else None
        if mac is not None and (':' in words[2] or words[1] == mac):
            found.append((mac, words[2], int(words[0])))
    return found


def _lines(path: pathlib.Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except FileNotFoundError:
        return []
