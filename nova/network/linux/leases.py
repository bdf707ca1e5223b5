"""DHCP leases of this host. nova-dhcpbridge records when a lease begins or ends; dnsmasq's files have renewals.

dnsmasq does not call nova-dhcpbridge when it renews a lease. The files of nova-dhcpbridge are read when their directory
has changed. A full scan, once a minute, reads the expiry of renewed leases from dnsmasq's lease files.
"""
from collections.abc import Iterable
import contextlib
import pathlib
import time

from nova import exception
from nova.json_types import JsonObject
from nova.network.host.state import Lease
from nova.network.linux import dhcpbridge
from nova.network.linux import dnsmasq_files
from nova.runtime import programs
from nova.runtime import versioned_records

COMMAND = 'nova-dhcpbridge'
FIELDS = frozenset(Lease.__annotations__)


def _from_version_1(values: JsonObject) -> JsonObject:
    return {'expires_at' if name == 'until' else name: value for name, value in values.items()}


# files of version 1 may remain after an upgrade; their field ``until`` is the expiry
FORMAT = versioned_records.RecordFormat[Lease](
    name='record of a lease', version=dhcpbridge.VERSION, readable_by=dhcpbridge.VERSION,
    upgrades={1: _from_version_1}, fields=FIELDS, required=FIELDS)
MAX = 65536                      # maximum number of files that one call reads; the next call reads the following ones


class Leases:
    """Leases of one host.

    :param directory: directory of nova-dhcpbridge's files
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self._seen = 0                   # mtime of the directory when the last complete pass over its files began
        self._begun, self._after = 0, ''  # mtime when an incomplete pass began, and the last file name that it read
        self._unreadable = versioned_records.UnreadableRecords()

    def prepare(self, arguments: list[str]) -> tuple[list[str], list[str]]:
        """Return (prefix of the command, arguments of dnsmasq): dnsmasq then runs nova-dhcpbridge as dhcp-script."""
        script = programs.installed(COMMAND)
        if script is None:
            return [], arguments
        dnsmasq_files.make_directory(self.directory)
        return ['env', f'{dhcpbridge.DIRECTORY}={self.directory}'], [*arguments, f'--dhcp-script={script}']

    def read(self, servers: Iterable[pathlib.Path]) -> list[Lease]:
        """Return the leases in new files of nova-dhcpbridge, and the leases in the files of dnsmasq.

        :param servers: directories of dnsmasq processes
        """
        found = {(each['mac'], each['address']): each for each in self._files()}
        for directory in servers:
            for mac, address, until in read_leases(directory):
                found[mac, address] = {'mac': mac, 'address': address, 'expires_at': until}
        return list(found.values())

    def _files(self) -> list[Lease]:
        try:
            changed = self.directory.stat().st_mtime_ns
        except FileNotFoundError:
            return []
        if changed == self._seen:
            return []
        if not self._after:
            self._begun = changed
        paths = sorted(path for path in self.directory.glob('[!.]*') if path.name > self._after)
        found, now = [], time.time()
        for path in paths[:MAX]:
            try:
                given = FORMAT.read_as(path, _lease)
            except exception.RecordUnreadable as error:
                self._unreadable.add(str(path), error)
                continue
            if given is None:
                continue
            found.append(given)
            if given['expires_at'] <= now:                        # report an ended lease only once
                self._remove(path, given)
        self._unreadable.discard_missing()
        if len(paths) > MAX:
            self._after = paths[MAX - 1].name
        else:
            self._after, self._seen = '', self._begun
        return found

    def _remove(self, path: pathlib.Path, ended: Lease) -> None:
        """Remove the file of an ended lease, unless nova-dhcpbridge has replaced it since it was read."""
        removed = self.directory / '.removed'
        try:
            path.replace(removed)
            replaced = FORMAT.read_as(removed, _lease) != ended
        except FileNotFoundError:
            return
        except exception.RecordUnreadable:
            replaced = True
        if replaced:
            with contextlib.suppress(FileExistsError):            # replaced again
                path.hardlink_to(removed)
        removed.unlink()


def _lease(values: Lease) -> Lease:
    return {'mac': str(values['mac']), 'address': str(values['address']), 'expires_at': int(values['expires_at'])}


def read_leases(directory: pathlib.Path) -> list[tuple[str, str, int]]:
    """Return [(MAC, address, Unix time of expiry)] of the leases in a dnsmasq directory.

    dnsmasq stores no MAC for IPv6 leases; the hosts file has the MACs.
    """
    macs = {}
    for line in dnsmasq_files.lines(directory / 'hosts'):
        words = line.split(',')
        if len(words) > 1:
            macs[words[1].strip('[]')] = words[0]
    found = []
    for line in dnsmasq_files.lines(directory / 'leases'):
        words = line.split()
        mac = macs.get(words[2]) if len(words) > 3 and words[0].isdigit() else None
        if mac is not None and (':' in words[2] or words[1] == mac):
            found.append((mac, words[2], int(words[0])))
    return found
