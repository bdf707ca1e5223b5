"""PCI devices that guests may have, pools of them, and what a guest asks for, as data."""
from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

from nova import utils

AVAILABLE, CLAIMED, UNAVAILABLE, REMOVED = 'available', 'claimed', 'unavailable', 'removed'
HELD = (CLAIMED, REMOVED)            # a guest has it
PCI, PHYSICAL, VIRTUAL, MEDIATED = 'type-PCI', 'type-PF', 'type-VF', 'type-MD'
TYPES = (PCI, PHYSICAL, VIRTUAL, MEDIATED)


@dataclasses.dataclass(frozen=True)
class Device:
    """One function of a device on a host, or a mediated device that could be made of one.

    address      'domain:bus:slot.function', hexadecimal, small letters; four digits more of a mediated one
    parent_addr  of a virtual function: its physical function; of a mediated device: that of which it is made
    devname      name of its network interface; of a virtual function: that of its physical function
    tags         what the configuration says of it: physical_network, trusted, remote_managed, resource_class, …
    status       'unavailable': a physical function whose virtual ones are claimed, or the other way round;
                 'removed': a guest has it, and its host does not find it any more
    held         it is in the share that a move of the guest holds, not in the one of the server's own row
    """

    address: str
    vendor_id: str
    product_id: str
    dev_type: str = PCI
    numa_node: int | None = None
    parent_addr: str | None = None
    devname: str | None = None
    tags: dict[str, Any] = dataclasses.field(default_factory=dict)
    status: str = AVAILABLE
    instance_uuid: str | None = None
    request_id: str | None = None
    held: bool = False


@dataclasses.dataclass(frozen=True)
class Pool:
    """How many devices of one kind are available on a host; ``tags`` has their dev_type, too."""

    vendor_id: str
    product_id: str
    numa_node: int | None
    count: int
    tags: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Request:
    """
    count        devices
    spec         alternatives, each {'vendor_id', 'product_id', 'dev_type', and tags}, whatever matters
    numa_policy  'required', 'preferred', 'legacy' or 'socket'
    alias_name   what a flavor requests; request_id: the port that does
    """

    count: int
    spec: tuple[Any, ...]
    numa_policy: str = 'legacy'
    alias_name: str | None = None
    request_id: str | None = None


def dump(values: list[Any] | tuple[Any, ...]) -> list[dict[str, Any]]:
    """Devices, pools or requests as JSON values."""
    return [dataclasses.asdict(value) for value in values]


def load_devices(values: list[dict[str, str]] | tuple[Any, ...]) -> list[Device]:
    """[Device] of records; fields of another release are ignored."""
    return [utils.from_known(Device, value) for value in values]


def load_pools(values: list[dict[str, Any]] | tuple[Any, ...]) -> list[Pool]:
    return [Pool(**value) for value in values]


def load_requests(values: list[dict[str, Any]] | tuple[Any, ...]) -> list[Request]:
    return [Request(**dict(value, spec=tuple(value['spec']))) for value in values]


def requested(flavor: dict[str, Any]) -> tuple[Request, ...]:
    """(Request, …) of what a server keeps of its flavor: the aliases as they were defined when it got the flavor."""
    return tuple(load_requests((flavor or {}).get('pci_requests') or ()))


def of_ports(flavor: dict[str, Any]) -> dict[str, Request]:
    """{id of a port: Request} of those that its ports need."""
    return {request.request_id: request for request in requested(flavor) if request.request_id}


def with_ports(flavor: dict[str, Any], requests: Collection[Request]) -> dict[str, Any]:
    """What a server keeps of a flavor when its ports need these devices, and no others."""
    kept = [*(request for request in requested(flavor) if not request.request_id), *requests]
    others = {name: value for name, value in flavor.items() if name != 'pci_requests'}
    return {**others, 'pci_requests': dump(kept)} if kept else others
