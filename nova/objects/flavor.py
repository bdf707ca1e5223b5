"""The flavor of a server, as stored in the rows of servers and moves, and in request specs."""
from __future__ import annotations

from typing import Any, NotRequired, TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from typing_extensions import ReadOnly


class Flavor(TypedDict):
    """A flavor. Memory and swap are in MiB, disks in GiB. ``pci_requests``: records of pci.Request."""

    id: ReadOnly[int]
    flavor_id: ReadOnly[str]
    name: ReadOnly[str]
    memory_mb: ReadOnly[int]
    vcpus: ReadOnly[int]
    root_gb: ReadOnly[int]
    ephemeral_gb: ReadOnly[int]
    swap: ReadOnly[int]
    rxtx_factor: ReadOnly[float]
    is_public: ReadOnly[bool]
    disabled: ReadOnly[bool]
    description: ReadOnly[str | None]
    extra_specs: ReadOnly[dict[str, str]]
    pci_requests: NotRequired[list[dict[str, Any]]]
