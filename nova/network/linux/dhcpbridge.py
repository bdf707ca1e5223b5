"""nova-dhcpbridge: called by dnsmasq when a lease begins, changes or ends.

The program writes a file for each lease; nova-network reads these files. DHCP requests of guests make dnsmasq start the
program, so frames.py limits their rate. To start fast, the program imports only the standard library and nova.version.
"""
import argparse
import ipaddress
import json
import os
import pathlib
import re
import sys
import time
import typing

from nova import version

DIRECTORY = 'NOVA_DHCP_LEASES'           # environment variable with the directory of the lease files
VERSION = 2                              # version of the file format (leases.py); earlier releases cannot read it
MAC = re.compile(r'[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z')
EPILOG = ('More input comes from the environment: DNSMASQ_LEASE_EXPIRES or DNSMASQ_LEASE_LENGTH, and DNSMASQ_MAC for '
          f'IPv6, where CLIENT is a DUID. {DIRECTORY} is the directory of the files. Other actions are ignored: '
          'dnsmasq may add new ones.')


class Parser(argparse.ArgumentParser):
    """A parser that reports an error in one sentence."""

    def error(self, message: str) -> typing.NoReturn:
        self.exit(2, f'{self.prog}: {message}; see {self.prog} --help\n')


def main(arguments: list[str] | None = None) -> int:
    parser = Parser('nova-dhcpbridge', epilog=EPILOG, description=(
        'Handles lease updates from DHCP servers. dnsmasq calls it as dhcp-script; it is not a daemon.'))
    parser.add_argument('--version', action='version', version=f'%(prog)s {version.VERSION}')
    parser.add_argument('action', help='add: a lease began. old: it exists or changed. del: it ended.')
    parser.add_argument('client', nargs='?', default='', help='the MAC address')
    parser.add_argument('address', nargs='?', default='', help='the leased address')
    parser.add_argument('name', nargs='?', default='', help='host name of the guest; not used')
    given, directory = parser.parse_args(arguments), os.environ.get(DIRECTORY, '')
    if given.action not in ('add', 'old', 'del'):
        return 0
    if not directory:
        print(f'nova-dhcpbridge: {DIRECTORY} is not set; dnsmasq of nova-network sets it.', file=sys.stderr)
        return 2
    mac = (os.environ.get('DNSMASQ_MAC') or given.client).lower()
    try:
        address = str(ipaddress.ip_address(given.address))
    except ValueError:
        print(f"nova-dhcpbridge: '{given.address[:60]}' is not an IP address.", file=sys.stderr)
        return 2
    if MAC.fullmatch(mac):
        write(pathlib.Path(directory), mac, address, _until(given.action))
    return 0


def _until(action: str) -> int:
    """Return the Unix time at which the lease ends or ended."""
    now, expires, length = int(time.time()), *(os.environ.get(f'DNSMASQ_LEASE_{name}', '')
                                               for name in ('EXPIRES', 'LENGTH'))
    if action == 'del':
        return now
    return int(expires) if expires.isdigit() else now + int(length if length.isdigit() else 0)


def write(directory: pathlib.Path, mac: str, address: str, expires_at: int) -> None:
    """Write the file of a lease atomically."""
    name = f'{mac}_{address}'.replace(':', '-')
    fresh = directory / f'.{name}.{os.getpid()}'
    fresh.write_text(json.dumps({'version': VERSION, 'readable_by': VERSION, 'mac': mac, 'address': address,
                                 'expires_at': expires_at}))
    fresh.replace(directory / name)      # no fsync: dnsmasq also stores the lease
