"""Availability, choice, claim and release of a host's PCI devices."""
import collections
import dataclasses
import functools
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from nova.objects import numa
from nova.objects import pci

Kind = tuple[str, str, int | None, tuple[tuple[str, Any], ...]]       # vendor, product, node, tags

_OTHERS = re.compile('[^A-Z0-9_]+')
MAX_TRIES = 10000                  # maximum tries of a search, which nearly always succeeds with the first choices


def pools(devices: Sequence[pci.Device]) -> list[pci.Pool]:
    """Return [Pool] of the available devices in a deterministic order."""
    counts = collections.Counter(_kind(device) for device in devices if device.status == pci.AVAILABLE)
    return [pci.Pool(vendor_id=vendor, product_id=product, numa_node=node, count=count, tags=dict(tags))
            for (vendor, product, node, tags), count in sorted(counts.items(), key=lambda item: _sortable(item[0]))]


def supports(available: Sequence[pci.Pool], requests: Sequence[pci.Request], host: numa.HostTopology | None = None,
             cells: Collection[int] | None = None) -> bool:
    """Tell whether the pools satisfy the requests. Conflicts between devices are found only by choose().

    :param available: [Pool]
    :param host: HostTopology, or None for a guest without topology
    :param cells: ids of the host cells on which the guest is placed
    """
    return _assign(available, requests, host, cells) is not None


def taken(available: Sequence[pci.Pool], requests: Sequence[pci.Request], host: numa.HostTopology | None = None,
          cells: Collection[int] | None = None) -> list[pci.Pool] | None:
    """Return the pools without the requested devices, or None if devices are missing; arguments as in supports()."""
    numbers = _assign(available, requests, host, cells)
    return None if numbers is None else [dataclasses.replace(pool, count=pool.count - numbers[position])
                                         for position, pool in enumerate(available)]


def _assign(available: Sequence[pci.Pool], requests: Sequence[pci.Request], host: numa.HostTopology | None,
            cells: Collection[int] | None) -> dict[int, int] | None:
    """Return {position of a pool: number of taken devices}, or None if devices are missing."""
    units = [request for request in requests for _ in range(request.count)]
    allowed = [[position for position, pool in enumerate(available)
                if _matches(pool, request) and _near(pool.numa_node, request.numa_policy, host, cells)]
               for request in units]
    owners: dict[int, list[int]] = {position: [] for position in range(len(available))}

    def assign(unit: int, tried: set[int]) -> bool:
        for position in allowed[unit]:
            if position in tried:
                continue
            tried.add(position)
            mine = owners[position]
            if len(mine) < available[position].count:
                mine.append(unit)
                return True
            for other in mine:
                if assign(other, tried):
                    mine.remove(other)
                    mine.append(unit)
                    return True
        return False
    if not all(assign(unit, set()) for unit in range(len(units))):
        return None
    return {position: len(mine) for position, mine in owners.items()}


def choose(devices: Sequence[pci.Device], requests: Sequence[pci.Request], host: numa.HostTopology | None = None,
           cells: Collection[int] | None = None) -> dict[str, int] | None:
    """Return the devices for a guest, {address: index of the request}, or None if no choice fits.

    Near devices are preferred, then virtual functions of devices that are in use, then the lowest address.
    """
    if not supports(pools(devices), requests, host, cells):
        return None
    # assign devices first to requests with the fewest candidates
    units = sorted((index for index, request in enumerate(requests) for _ in range(request.count)),
                   key=lambda index: sum(_admits(device, requests[index], host, cells) for device in devices))
    used = {device.parent_addr for device in devices if device.status == pci.CLAIMED}
    chosen: dict[str, tuple[pci.Device, int]] = {}
    tries = 0

    def candidates(request: pci.Request) -> list[pci.Device]:
        fit = [device for device in devices if _admits(device, request, host, cells) and _compatible(device, chosen)]
        return sorted(fit, key=lambda device: (not _near(device.numa_node, 'required', host, cells),
                                               device.parent_addr not in used, device.address))

    def search(position: int) -> bool:
        nonlocal tries
        if position == len(units):
            return True
        seen = set()
        for device in candidates(requests[units[position]]):
            same = (_kind(device)[:3], _kind(device)[3], device.parent_addr)
            if device.dev_type != pci.PHYSICAL and same in seen:
                continue                     # an equivalent device was tried
            seen.add(same)
            tries += 1
            if tries > MAX_TRIES:
                return False
            chosen[device.address] = (device, units[position])
            if search(position + 1):
                return True
            del chosen[device.address]
        return False
    if not search(0):
        return None
    return {address: index for address, (_, index) in sorted(chosen.items())}


def claim(devices: Sequence[pci.Device], requests: Sequence[pci.Request], chosen: Mapping[str, int], instance_uuid: str,
          claimed_by_move: bool = False) -> list[pci.Device]:
    """Return the devices after a guest has claimed ``chosen`` (see choose()).

    :param claimed_by_move: whether the devices are for a move of the guest
    :raises ValueError: a device is not available
    """
    changed = []
    for device in devices:
        if device.address in chosen:
            if device.status != pci.AVAILABLE:
                raise ValueError(f'PCI device {device.address} is {device.status}')
            device = dataclasses.replace(device, status=pci.CLAIMED, instance_uuid=instance_uuid,
                                         claimed_by_move=claimed_by_move,
                                         request_id=requests[chosen[device.address]].request_id)
        changed.append(device)
    missing = set(chosen) - {device.address for device in devices}
    if missing:
        raise ValueError(f'there is no PCI device {", ".join(sorted(missing))}')
    _exclusive(changed)
    return settled(changed)


def release(devices: Sequence[pci.Device], instance_uuid: str, request_id: str | None = None,
            claimed_by_move: bool | None = None) -> list[pci.Device]:
    """Return the devices after a guest has released some; released devices that the host no longer has are dropped.

    :param request_id: release only devices of this request; None: of all requests
    :param claimed_by_move: True: release only devices for a move; False: only other devices; None: all devices
    """
    found = []
    for device in devices:
        if (device.instance_uuid == instance_uuid and request_id in (None, device.request_id)
                and claimed_by_move in (None, device.claimed_by_move)):
            if device.status == pci.REMOVED:
                continue
            device = dataclasses.replace(device, status=pci.AVAILABLE, instance_uuid=None, request_id=None,
                                         claimed_by_move=False)
        found.append(device)
    return settled(found)


def settled(devices: Sequence[pci.Device]) -> list[pci.Device]:
    """Return the devices, with unassigned ones marked as available or unavailable.

    If a device is assigned to a guest, its parent and its children are unavailable.
    """
    claimed = {device.address for device in devices if device.status in pci.ASSIGNED}
    parents = {device.parent_addr for device in devices if device.status in pci.ASSIGNED and device.parent_addr}
    found = []
    for device in devices:
        if device.status not in pci.ASSIGNED:
            barred = device.address in parents or device.parent_addr in claimed
            device = dataclasses.replace(device, status=pci.UNAVAILABLE if barred else pci.AVAILABLE)
        found.append(device)
    return found


def _exclusive(devices: Sequence[pci.Device]) -> None:
    claimed = {device.address for device in devices if device.status == pci.CLAIMED}
    for device in devices:
        if device.address in claimed and device.parent_addr in claimed:
            raise ValueError(f'PCI devices {device.address} and {device.parent_addr} exclude each other')


def _kind(device: pci.Device) -> Kind:
    tags = tuple(sorted({**device.tags, 'dev_type': device.dev_type}.items()))
    return device.vendor_id, device.product_id, device.numa_node, tags


def _sortable(kind: Kind) -> tuple[Any, ...]:
    vendor, product, node, tags = kind
    return vendor, product, -1 if node is None else node, tags


def _matches(pool: pci.Pool, request: pci.Request) -> bool:
    facts = {'vendor_id': pool.vendor_id, 'product_id': pool.product_id, **pool.tags}
    return any(_agrees(facts, spec) for spec in request.spec)


def _agrees(facts: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
    # devices tagged as remote_managed are only for requests with remote_managed true
    if facts.get('remote_managed') == 'true' and spec.get('remote_managed') != 'true':
        return False
    for name, value in spec.items():
        if name == 'traits':
            if not _names(value) <= _names(facts.get(name)):
                return False
        elif name == 'resource_class':
            if not value or _names(value) != _names(facts.get(name)):
                return False
        elif facts.get(name) != value:
            return False
    return True


@functools.lru_cache(4096)
def _names(text: str | None) -> frozenset[str]:
    """Return the normalized names in a comma-separated text.

    The configuration may have any spelling of a resource class or trait: gpu.a is CUSTOM_GPU_A.
    """
    return frozenset(_OTHERS.sub('_', name.strip().upper()).removeprefix('CUSTOM_')
                     for name in (text or '').split(',') if name.strip())


def _near(node: int | None, policy: str | None, host: numa.HostTopology | None, cells: Collection[int] | None) -> bool:
    """Tell whether the NUMA policy allows a device at this node for a guest on these cells."""
    if cells is None or policy == 'preferred':
        return True
    if policy == 'legacy':
        return node is None or node in cells
    if policy == 'required':
        return node in cells
    if host is None:
        return False
    # host.cell() returns None if the options have removed the CPUs of a cell since the guest was placed
    sockets = {place.socket for place in map(host.cell, cells) if place is not None} - {None}
    place = host.cell(node)
    return place is not None and place.socket in sockets


def _admits(device: pci.Device, request: pci.Request, host: numa.HostTopology | None,
            cells: Collection[int] | None) -> bool:
    if device.status != pci.AVAILABLE or not _near(device.numa_node, request.numa_policy, host, cells):
        return False
    facts = {'vendor_id': device.vendor_id, 'product_id': device.product_id, **device.tags,
             'dev_type': device.dev_type}
    return any(_agrees(facts, spec) for spec in request.spec)


def _compatible(device: pci.Device, chosen: Mapping[str, tuple[pci.Device, int]]) -> bool:
    """Tell whether a device is neither chosen nor parent or child of a chosen one."""
    return device.address not in chosen and device.parent_addr not in chosen and all(
        other.parent_addr != device.address for other, _ in chosen.values())
