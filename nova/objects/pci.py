"""PCI devices for guests, pools of devices, and requests of guests."""
import dataclasses
from collections.abc import Collection
from typing import Any

from nova import utils
from nova.objects.flavor import Flavor

AVAILABLE, CLAIMED, UNAVAILABLE, REMOVED = 'available', 'claimed', 'unavailable', 'removed'
ASSIGNED = (CLAIMED, REMOVED)            # statuses of devices that are assigned to a guest
PCI, PHYSICAL, VIRTUAL, MEDIATED = 'type-PCI', 'type-PF', 'type-VF', 'type-MD'
TYPES = (PCI, PHYSICAL, VIRTUAL, MEDIATED)


@dataclasses.dataclass(frozen=True)
class Device:
    """A function of a PCI device on a host, or a mediated device that the host can create.

    address      'domain:bus:slot.function', hexadecimal, lower case; four more digits for a mediated device
    parent_addr  address of a virtual function's physical function, or of a mediated device's parent
    devname      network interface of the device or, for a virtual function, of its physical function
    tags         from the configuration: physical_network, trusted, remote_managed, resource_class, …
    status       'unavailable': a physical function with claimed virtual functions, or a virtual function of a claimed
                 physical function; 'removed': assigned to a guest, but the host no longer finds the device
    claimed_by_move   True: the claim belongs to a move of the server; False: to the server on its current host
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
    claimed_by_move: bool = False


@dataclasses.dataclass(frozen=True)
class Pool:
    """The number of available devices of one kind on a host; ``tags`` also contains the dev_type."""

    vendor_id: str
    product_id: str
    numa_node: int | None
    count: int
    tags: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Request:
    """A request for devices.

    count        number of devices
    spec         alternatives; each is a dict with some of the keys 'vendor_id', 'product_id', 'dev_type' and tags
    numa_policy  'required', 'preferred', 'legacy' or 'socket'
    alias_name   PCI alias in the flavor
    request_id   id of the port that needs the device; None: not for a port
    """

    count: int
    spec: tuple[Any, ...]
    numa_policy: str = 'legacy'
    alias_name: str | None = None
    request_id: str | None = None


def dump(values: list[Any] | tuple[Any, ...]) -> list[dict[str, Any]]:
    """Return devices, pools or requests as JSON values."""
    return [dataclasses.asdict(value) for value in values]


def load_devices(values: list[dict[str, str]] | tuple[Any, ...]) -> list[Device]:
    """Return the Devices of JSON values; unknown fields are ignored."""
    return [utils.from_known(Device, value) for value in values]


def load_pools(values: list[dict[str, Any]] | tuple[Any, ...]) -> list[Pool]:
    return [Pool(**value) for value in values]


def load_requests(values: list[dict[str, Any]] | tuple[Any, ...]) -> list[Request]:
    return [Request(**dict(value, spec=tuple(value['spec']))) for value in values]


def requested(flavor: Flavor | None) -> tuple[Request, ...]:
    """Return the device requests in a server's stored flavor. Later changes of PCI aliases have no effect."""
    return tuple(load_requests(flavor and flavor.get('pci_requests') or ()))


def of_ports(flavor: Flavor) -> dict[str, Request]:
    """Return {port id: Request} of the requests that belong to ports."""
    return {request.request_id: request for request in requested(flavor) if request.request_id}


def with_ports(flavor: Flavor, requests: Collection[Request]) -> Flavor:
    """Return the stored flavor with these requests in place of its requests for ports."""
    kept = [*(request for request in requested(flavor) if not request.request_id), *requests]
    others = flavor.copy()
    others.pop('pci_requests', None)
    return {**others, 'pci_requests': dump(kept)} if kept else others
