"""nova-dhcpbridge: what dnsmasq calls when a lease begins, changes or ends.

It leaves a file a lease, which nova-network of the host reads. It imports nothing of the rest: a guest makes it run as
often as its requests for addresses get through.
"""
from __future__ import annotations

import argparse
import ipaddress
import json
import os
import pathlib
import re
import sys
import time

DIRECTORY = 'NOVA_DHCP_LEASES'           # variable of dnsmasq's environment: where the files are
VERSION = 1                              # of the format of the files (leases.py)
MAC = re.compile(r'[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z')
EPILOG = ('dnsmasq names more by its environment: DNSMASQ_LEASE_EXPIRES or DNSMASQ_LEASE_LENGTH, and DNSMASQ_MAC for '
          f'IPv6, where CLIENT is another identifier. {DIRECTORY} is the directory of the files. Other actions than '
          'these are ignored, as dnsmasq may have new ones.')


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser('nova-dhcpbridge', epilog=EPILOG, description=(
        'Handles lease updates from DHCP servers: dnsmasq calls it, with dhcp-script. It is no daemon.'))
    parser.add_argument('action', help='add: a lease begins. old: it is there, or another one. del: it ended.')
    parser.add_argument('client', nargs='?', default='', help='the MAC address')
    parser.add_argument('address', nargs='?', default='', help='what is leased')
    parser.add_argument('name', nargs='?', default='', help='of the guest; not used')
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
        print(f"nova-dhcpbridge: '{given.address[:60]}' is no address.", file=sys.stderr)
        return 2
    if MAC.fullmatch(mac):
        write(pathlib.Path(directory), mac, address, _until(given.action))
    return 0


def _until(action: str) -> int:
    """The second (Unix time) at which the lease ends, or ended."""
    now, expires, length = int(time.time()), *(os.environ.get(f'DNSMASQ_LEASE_{name}', '')
                                               for name in ('EXPIRES', 'LENGTH'))
    if action == 'del':
        return now
    return int(expires) if expires.isdigit() else now + int(length if length.isdigit() else 0)


def write(directory: pathlib.Path, mac: str, address: str, until: int) -> None:
    """Leave the file of a lease, in one step."""
    name = f'{mac}_{address}'.replace(':', '-')
    fresh = directory / f'.{name}.{os.getpid()}'
    fresh.write_text(json.dumps({'version': VERSION, 'readable_by': 1, 'mac': mac, 'address': address, 'until': until}))
    fresh.replace(directory / name)      # dnsmasq's own file has the lease after a power failure
