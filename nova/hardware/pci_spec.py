"""Parse the options for PCI devices: devices that guests may get, and aliases that flavors request.

The options ``[pci] device_spec`` (formerly passthrough_whitelist) and ``[pci] alias`` contain JSON in the form of
https://docs.openstack.org/nova/latest/configuration/config.html and admin/pci-passthrough.html. Errors in the
configuration raise ValueError, errors in a flavor BadRequest.
"""
import dataclasses
import json
import re
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence

from nova import exception
from nova.hardware import guest_request
from nova.objects import pci
from nova.objects.flavor import Flavor

Made = typing.TypeVar('Made')

PARTS = {'domain': 0xFFFF, 'bus': 0xFF, 'slot': 0x1F, 'function': 0x7}         # {part: highest number}
_ADDRESS = re.compile(r'([0-9a-f]{4}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])\Z')
_PATTERN = re.compile(r'(?:(?P<domain>[^:.]*):)?(?P<bus>[^:.]*):(?P<slot>[^:.]*)(?:\.(?P<function>[^:.]*))?\Z')
_ID = re.compile(r'(?:0x)?([0-9a-fA-F]{4})\Z')
_SPEC_KEYS = {'vendor_id', 'product_id', 'address', 'devname', 'physical_network', 'trusted', 'remote_managed',
              'managed', 'live_migratable', 'resource_class', 'traits'}
_ALIAS_KEYS = {'name', 'vendor_id', 'product_id', 'device_type', 'numa_policy', 'capability_type', 'resource_class',
               'traits', 'live_migratable', 'mdev_type'}
VGPU = 'VGPU'                # resource class by which flavors request virtual GPUs
_SWITCHES = ('trusted', 'remote_managed', 'managed', 'live_migratable')

@dataclasses.dataclass(frozen=True)
class DeviceSpec:
    """Selects the devices of the host that match every attribute that is not None.

    address   {part: compiled pattern}; a virtual function also matches by the address or name of its physical function
    """

    vendor_id: str | None = None
    product_id: str | None = None
    address: dict[str, re.Pattern[str]] | None = None
    devname: str | None = None
    tags: dict[str, str] = dataclasses.field(default_factory=dict)

    def admits(self, device: pci.Device) -> bool:
        return (self.vendor_id in (None, device.vendor_id) and self.product_id in (None, device.product_id)
                and self.devname in (None, device.devname)
                and (self.address is None or any(_agrees(self.address, address)
                                                 for address in (device.address, device.parent_addr) if address)))


class Alias(typing.NamedTuple):
    """PCI devices that flavors request by name.

    spec   alternatives; a device must match one of them
    """

    name: str
    spec: tuple[dict[str, str], ...]
    numa_policy: str


def device_specs(values: Iterable[str]) -> list[DeviceSpec]:
    """Return [DeviceSpec] of the option's values: each a JSON object or a list of objects.

    :raises ValueError: a value is malformed
    """
    return [_device_spec(item) for value in values for item in _items(value, 'device_spec')]


def configured(read: Callable[[Iterable[str]], Made], values: Iterable[str]) -> Made:
    """Parse an option's values with ``read`` (device_specs or aliases).

    :raises InvalidInput: the values are malformed
    """
    try:
        return read(values)
    except ValueError as error:
        raise exception.InvalidInput(f'[pci] {error}') from None


def admitted(specs: Sequence[DeviceSpec], devices: Iterable[pci.Device]) -> list[pci.Device]:
    """Select the devices that guests may get, each with the tags of the first matching spec.

    Mediated devices are always included, because a host reports only those that are for guests. Devices in PCI
    domains above ffff (some storage controllers) cannot be assigned to guests.
    """
    found = []
    for device in devices:
        if device.dev_type == pci.MEDIATED:
            found.append(device)
            continue
        if not _ADDRESS.match(device.address):
            continue
        spec = next((spec for spec in specs if spec.admits(device)), None)
        if spec is not None:
            found.append(dataclasses.replace(device, tags=spec.tags))
    return found


def aliases(values: Iterable[str]) -> dict[str, Alias]:
    """Parse the option's values, JSON objects, to {name: Alias}. Objects with the same name are alternatives.

    :raises ValueError: a value is malformed, or alternatives differ in device_type or numa_policy
    """
    found: dict[str, Alias] = {}
    for item in (item for value in values for item in _items(value, 'alias')):
        name, spec, policy = _alias(item)
        known = found.get(name)
        if known and (known.numa_policy, known.spec[0]['dev_type']) != (policy, spec['dev_type']):
            raise ValueError(f'alias {name}: all of its definitions must have one device_type and one numa_policy.')
        found[name] = Alias(name, (*(known.spec if known else ()), spec), policy)
    return found


def requests(known: Mapping[str, Alias], flavor: Flavor,
             properties: Mapping[str, str] | None) -> list[pci.Request]:
    """Return [Request] of a flavor's ``pci_passthrough:alias`` (comma-separated ``name:count``) and ``resources:VGPU``.

    :param known: {name: Alias}
    :raises InvalidInput: the extra spec is malformed, or names an undefined alias
    """
    specs = flavor['extra_specs'] or {}
    text, policy = specs.get('pci_passthrough:alias'), guest_request.pci_policy(flavor, properties)
    number = _graphics(specs)
    found = [pci.Request(number, ({'dev_type': pci.MEDIATED},), policy or 'legacy', VGPU)] if number else []
    for part in text.split(',') if text else ():
        name, _, count = (word.strip() for word in part.partition(':'))
        if not re.fullmatch('0*[1-9][0-9]{0,3}', count):
            raise exception.InvalidInput(reason=f'pci_passthrough:alias {part!r} is not of the form name:count.')
        if name not in known:
            raise exception.InvalidInput(reason=f'PCI alias {name} is not defined.')
        found.append(pci.Request(count=int(count), spec=known[name].spec, alias_name=name,
                                 numa_policy=policy or known[name].numa_policy))
    return found


def _graphics(specs: Mapping[str, str]) -> int:
    """Return the number of virtual GPUs that a flavor requests."""
    text = str(specs.get(f'resources:{VGPU}', 0)).strip()
    if not re.fullmatch('[0-9]{1,3}', text):
        raise exception.InvalidInput(reason=f'resources:{VGPU} is {text[:40]!r}; it is a number up to 999.')
    return int(text)


def _items(value: str, option: str) -> list[dict[str, typing.Any]]:
    try:
        decoded = json.loads(value)
    except (ValueError, RecursionError):
        raise ValueError(f'{option} is not JSON: {value!r}') from None
    items = decoded if isinstance(decoded, list) else [decoded]
    if not all(isinstance(item, dict) for item in items):
        raise ValueError(f'{option} is not a JSON object: {value!r}')
    return items


def _device_spec(item: dict[str, typing.Any]) -> DeviceSpec:
    _known_keys('device_spec', item, _SPEC_KEYS)
    if 'address' in item and 'devname' in item:
        raise ValueError('device_spec: give address or devname, not both.')
    tags = _tags('device_spec', item, ('physical_network', 'resource_class', 'traits', *_SWITCHES))
    return DeviceSpec(vendor_id=_identifier(item, 'vendor_id'), product_id=_identifier(item, 'product_id'),
                      address=_patterns(item['address']) if 'address' in item else None,
                      devname=item.get('devname'), tags=tags)


def _alias(item: dict[str, typing.Any]) -> tuple[str, dict[str, str], str]:
    _known_keys('alias', item, _ALIAS_KEYS)
    name, kind = item.get('name'), item.get('device_type', pci.PCI)
    policy = item.get('numa_policy', 'legacy')
    if not isinstance(name, str) or not re.fullmatch(r'[^:,\s]([^:,]{0,254}[^:,\s])?', name):
        raise ValueError(f'alias: the name {name!r} is empty, too long, or has a colon or comma.')
    if item.get('capability_type', 'pci') != 'pci':
        raise ValueError(f'alias {name}: capability_type can only be pci.')
    if kind not in pci.TYPES:
        raise ValueError(f'alias {name}: device_type may be {", ".join(pci.TYPES)}.')
    if policy not in guest_request.PCI_POLICIES:
        raise ValueError(f'alias {name}: numa_policy may be {", ".join(guest_request.PCI_POLICIES)}.')
    spec = {'dev_type': kind, **_tags(f'alias {name}', item, ('resource_class', 'traits', 'live_migratable',
                                                              'mdev_type'))}
    for key in ('vendor_id', 'product_id'):
        value = _identifier(item, key)
        if value:
            spec[key] = value
    return name, spec, policy


def _known_keys(option: str, item: dict[str, typing.Any], known: set[str]) -> None:
    unknown = sorted(set(item) - known)
    if unknown:
        raise ValueError(f'{option}: there is no key {", ".join(unknown)}.')


def _tags(option: str, item: dict[str, typing.Any], names: Iterable[str]) -> dict[str, str]:
    """Return {name: text} of the tags in an item; boolean tags (_SWITCHES) become 'true' or 'false'."""
    found = {}
    for name in names:
        value = item.get(name)
        if value is None:
            continue
        if not isinstance(value, (str, bool)):
            raise ValueError(f'{option}: {name} must be text.')
        found[name] = str(str(value).lower() in guest_request.TRUE).lower() if name in _SWITCHES else str(value)
    if 'traits' in found:
        found['traits'] = ','.join(sorted(filter(None, (name.strip() for name in found['traits'].split(',')))))
    return found


def _identifier(item: dict[str, typing.Any], key: str) -> str | None:
    """Return four hexadecimal digits, or None for any."""
    value = item.get(key, '*')
    match = _ID.match(value) if isinstance(value, str) else None
    if value == '*':
        return None
    if not match:
        raise ValueError(f'{key} is {value!r}; it must have four hexadecimal digits, or be *.')
    return match[1].lower()


def _patterns(address: object) -> dict[str, re.Pattern[str]]:
    """Return {part: pattern} of an address: a text with wildcards, or {part: regular expression}."""
    if isinstance(address, dict):
        _known_keys('address', address, set(PARTS))
        try:
            return {part: re.compile(address.get(part, '.*'), re.IGNORECASE) for part in PARTS}
        except (re.error, TypeError, OverflowError, RecursionError):
            raise ValueError(f'address: {address!r} has an invalid regular expression.') from None
    match = _PATTERN.match(address) if isinstance(address, str) else None
    if not match:
        raise ValueError(f'address is {address!r}; its form is domain:bus:slot.function.')
    found = {}
    for part, most in PARTS.items():
        text = match[part]
        if text in (None, '', '*'):
            found[part] = re.compile('.*')
        elif re.fullmatch('[0-9a-fA-F]{1,4}', text) and int(text, 16) <= most:
            found[part] = re.compile(f'{int(text, 16):0{len(f"{most:x}")}x}')
        else:
            raise ValueError(f'address {address!r}: {part} is at most {most:x}, hexadecimal, or *.')
    return found


def _agrees(patterns: dict[str, re.Pattern[str]], address: str) -> bool:
    match = _ADDRESS.match(address)
    return match is not None and all(pattern.fullmatch(value)
                                     for pattern, value in zip((patterns[part] for part in PARTS), match.groups()))
