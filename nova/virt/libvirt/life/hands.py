"""What a feature may do with the guests of the driver, handed to it by name."""
from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass(frozen=True)
class Hands:
    """
    storage      Storage
    images       ImageSource
    hypervisor   Host
    steps        LocalSteps or RemoteSteps
    copy_seconds   that a copy of a disk may take
    operation    context manager of a uuid: holds back the events of a guest that is being changed
    recorded     (uuid, network_info) -> xml.Guest as it is recorded, on the networks that it has now;
                 raises GuestNotFound
    known        (uuid) -> xml.Guest as it is recorded; raises GuestNotFound
    guest_of     (instance, SpawnRequest, disks, boot files, the Volumes that it had) -> xml.Guest
    volumes_of   (instance, block devices, machine type, local disks, the Volumes that it had) -> [disk.Volume],
                 connected to this host; raises VirtError
    described    (xml.Guest) -> its domain XML, with its place on this host
    start        (xml.Guest) defines it, and starts it
    define       (xml.Guest) defines it
    shut_down    (uuid, seconds) requests it of a running guest -> whether it is off; raises GuestNotFound
    power_off    (instance, seconds)
    disconnect   ([disk.Volume]): nothing on this host uses them any more
    remove       (uuid, keep_disks=False): domain and files; nothing when there are none
    undo         (uuid): as remove, without its volumes, and a failure is logged alone
    """

    storage: Any
    images: Any
    hypervisor: Any
    steps: Any
    copy_seconds: float
    operation: Callable[[str], contextlib.AbstractContextManager[None]]
    recorded: Callable[[str, Any], Any]
    known: Callable[[str], Any]
    guest_of: Callable[..., Any]
    volumes_of: Callable[[Any, Any, str, list[Any], list[Any]], list[Any]]
    described: Callable[[Any], str]
    start: Callable[[Any], None]
    define: Callable[[Any], None]
    shut_down: Callable[[str, float], bool]
    power_off: Callable[[Any, int], None]
    disconnect: Callable[[Any], None]
    remove: Callable[..., None]
    undo: Callable[[str], None]


class Feature:
    """Mixed into the driver, which makes ``hands`` before any method is called."""

    hands: Hands
