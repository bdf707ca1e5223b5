"""Bus addresses of a server's devices inside its guest, recorded by its host.

The system metadata of a server with tagged devices contains the record under the key KEY::

    {key of a device: [bus, address]}

The key of a network interface is the MAC address, the key of a volume is its id, and the key of another disk is the
device name. The bus names are those of the metadata documents. Addresses consist of:

* ``pci``: an address such as ``0000:00:03.0``
* ``usb``: bus and port
* ``ide``: bus and unit
* ``scsi`` and ``sata``: controller, bus, target and unit
"""
import itertools
import re
import typing

from nova.json_types import Json
from nova.json_types import JsonObject

KEY = 'device_addresses'
BUSES = frozenset(('pci', 'usb', 'ide', 'scsi', 'sata'))
MAX_DEVICES = 256               # more than a guest has: at most 26 disks on each bus, and fewer interfaces
_NAME = re.compile(r'[\w/:.-]{1,64}\Z', re.ASCII)
_ADDRESS = re.compile(r'[0-9a-f:.]{1,32}\Z')

Addresses = dict[str, list[str]]


def is_record(values: Json) -> bool:
    """Return whether a value is a record within the limits."""
    return (isinstance(values, dict) and len(values) <= MAX_DEVICES
            and all(_is_device(name, place) for name, place in values.items()))


def _is_device(name: object, place: object) -> bool:
    """Return whether an entry of the record is valid."""
    return (isinstance(name, str) and bool(_NAME.match(name)) and isinstance(place, list) and len(place) == 2
            and all(isinstance(each, str) for each in place) and place[0] in BUSES and bool(_ADDRESS.match(place[1])))


def limited(found: Addresses) -> Addresses:
    """Return at most MAX_DEVICES valid entries. An entry is invalid, for example, if the serial number of an imported
    guest's disk is no valid key.
    """
    return dict(itertools.islice(((name, place) for name, place in found.items() if _is_device(name, place)),
                                 MAX_DEVICES))


def read(metadata: JsonObject | None) -> Addresses:
    """Return the record in a server's system metadata, or {} if it is missing or malformed."""
    values = (metadata or {}).get(KEY)
    return typing.cast(Addresses, values) if is_record(values) else {}


def of_device(device: typing.Mapping[str, typing.Any], known: Addresses) -> tuple[str, str]:
    """Return (bus, address) of a device for meta_data.json, from ``known`` if it has the device, else from ``device``.

    :param device: entry of ``devices`` in meta_data.json
    :param known: the record
    """
    key = (device.get('mac') or '').lower() or device.get('serial') or device.get('path')
    found = known.get(key) if key else None
    return (found[0], found[1]) if found else (device['bus'], device['address'])
