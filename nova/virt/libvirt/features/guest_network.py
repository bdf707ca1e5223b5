"""Validate the network interfaces that a guest reports, because guests are not trusted. Pure functions."""
import ipaddress
import itertools
import re
from collections.abc import Mapping
from typing import Any

from nova.virt.driver import GuestInterface

INTERFACES, ADDRESSES = 32, 16           # maximum number of interfaces, and of addresses of each interface
_NAME = re.compile(r'[0-9A-Za-z._:@-]{1,15}\Z')          # Linux allows 15 characters
_MAC = re.compile(r'[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z')


def described(found: object) -> list[GuestInterface]:
    """Return the valid interfaces except the loopback interface.

    :param found: result of libvirt's interfaceAddresses: {name: {'hwaddr', 'addrs': [{'addr', 'prefix'}] or None}}
    """
    pairs = itertools.islice(found.items() if isinstance(found, Mapping) else (), 4 * INTERFACES)
    shown = [_one(name, values) for name, values in pairs if isinstance(values, Mapping)]
    return [each for each in shown if each is not None][:INTERFACES]


def _one(name: object, values: Mapping[str, Any]) -> GuestInterface | None:
    mac = str(values.get('hwaddr') or '')[:17].lower()
    if not isinstance(name, str) or not _NAME.match(name) or not _MAC.match(mac) or mac == '00:00:00:00:00:00':
        return None
    given = values.get('addrs')
    found = [_address(each) for each in (given if isinstance(given, list) else [])[:ADDRESSES]]
    return {'name': name, 'mac_address': mac, 'addresses': [address for address in found if address]}


def _address(given: object) -> str | None:
    if not isinstance(given, Mapping):
        return None
    try:
        return str(ipaddress.ip_interface((str(given['addr'])[:45], int(given['prefix']))))
    except (KeyError, TypeError, ValueError):
        return None
