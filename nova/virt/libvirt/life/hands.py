"""What a feature may do with the guests of the driver, handed to it by name."""
from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, TYPE_CHECKING

if TYPE_CHECKING:
    from nova.virt.driver import ImageSource
    from nova.virt.libvirt.host import Host
    from nova.virt.libvirt.privileged.remote import RemoteSteps
    from nova.virt.libvirt.privileged.steps import LocalSteps
    from nova.virt.libvirt.storage import Storage
    from nova.virt.libvirt.volumes.disk import Volume
    from nova.virt.libvirt.xml import Guest


@dataclasses.dataclass(frozen=True)
class Hands:
    """
    storage      Storage
    images       ImageSource
    hypervisor   Host
    steps        LocalSteps or RemoteSteps
    copy_seconds   that a copy of a disk may take
    share_program  path of nova-virtiofsd; None: it is looked for
    operation    context manager of a uuid: holds back the events of a guest that is being changed
    recorded     (uuid, network_info) -> xml.Guest as it is recorded, on the networks that it has now;
                 raises GuestNotFound
    known        (uuid) -> xml.Guest as it is recorded; raises GuestNotFound
    guest_of     (instance, SpawnRequest, disks, boot files, the Volumes that it had) -> xml.Guest
    volumes_of   (instance, block devices, machine type, local disks, the Volumes that it had) -> [disk.Volume],
                 connected to this host; raises VirtError
    described    (xml.Guest, keep=True) -> its domain XML, with its place on this host, which is recorded if kept
    start        (xml.Guest) defines it, and starts it
    define       (xml.Guest) defines it
    define_paused  (xml.Guest) defines it, and starts it without running an instruction of it
    power_off    (instance, seconds)
    disconnect   ([disk.Volume]): nothing on this host uses them any more
    remove       (uuid, keep_disks=False): domain and files; nothing when there are none
    undo         (uuid): as remove, without its volumes, and a failure is logged alone
    """

    storage: Storage
    images: ImageSource
    hypervisor: Host
    steps: LocalSteps | RemoteSteps
    copy_seconds: float
    share_program: str | None
    operation: Callable[[str], contextlib.AbstractContextManager[None]]
    recorded: Callable[[str, Any], Guest]
    known: Callable[[str], Guest]
    guest_of: Callable[..., Guest]
    volumes_of: Callable[[Any, Any, str, list[Any], list[Any]], list[Volume]]
    described: Callable[..., str]
    start: Callable[[Guest], None]
    define: Callable[[Guest], None]
    define_paused: Callable[[Guest], None]
    power_off: Callable[[Any, int], None]
    disconnect: Callable[[Iterable[Volume]], None]
    remove: Callable[..., None]
    undo: Callable[..., None]


class Feature:
    """Mixed into the driver, which makes ``hands`` before any method is called."""

    hands: Hands
