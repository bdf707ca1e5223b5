"""The contract between the compute service and a hypervisor: a dozen required methods, and optional features.

A driver inherits ``ComputeDriver`` and registers an object for each feature that it has in ``ComputeDriver.features``.
A capability is the presence of a feature, so flag and method cannot disagree. Every method is idempotent: called
again after a crash it completes the interrupted work. A driver uses no database and no RPC; the compute service
passes it what it needs.
"""
from __future__ import annotations

from collections.abc import Callable
import dataclasses
import os
import types
import typing
from typing import Any, TYPE_CHECKING

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.runtime import progress
from nova.virt import monitors

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.objects import pci
    from nova.objects.instance import Instance
    from nova.runtime import privileges

_Feature = typing.TypeVar('_Feature')

GUEST_AGENT = 'guest_agent'              # capabilities: attributes of ComputeDriver
DEVICE_NAMES = 'device_names'
SCREENSHOT_BYTES = 32 * 1024 * 1024      # 3840 x 2160 points of three bytes are 24 MiB


# Documents whose keys are those of other services, or of one driver alone
Vif = dict[str, Any]                     # nova/objects/network_info.py
NetworkInfo = list[Vif]
BlockDevice = dict[str, Any]             # a row of block_device_mappings
ImageDocument = dict[str, Any]           # ImageSource.show
MigrationFacts = dict[str, Any]          # what the hosts of a live migration find out about it
GuestDocument = dict[str, Any]           # of a driver's own making, JSON-able


class ConsolePlace(typing.TypedDict):
    """Where a proxy reaches a console. The path of a serial console is that of a socket on the guest's own host."""

    host: str
    port: int | None
    tls_port: int | None
    internal_access_path: str | None
    password: str | None


class AttachedVolume(typing.TypedDict):
    """A volume of a guest. ``attachment_id`` is None where the driver does not know it."""

    attachment_id: str | None
    device_name: str | None


class Destination(typing.TypedDict):
    """The host to which a guest migrates: its name, and the address to connect to, if it has one."""

    host: str | None
    address: str | None


@dataclasses.dataclass
class NodeResources:
    """What one node has; becomes a row of compute_nodes. Sizes in MiB and GiB.

    vcpus          processors that guests share
    numa_topology  HostTopology of objects.numa without guests, as text; None: the host has none
    pci_devices    [objects.pci.Device], all that could be given to guests
    traits         of this node alone
    """

    node: str
    vcpus: int
    memory_mb: int
    local_gb: int
    hypervisor_type: str
    hypervisor_version: int
    host_ip: str | None = None
    cpu_info: dict[str, Any] = dataclasses.field(default_factory=dict)
    disk_available_least: int | None = None
    supported_instances: list[list[str]] = dataclasses.field(default_factory=list)   # [[arch, type, vm mode]]
    uptime: str | None = None
    numa_topology: str | None = None
    pci_devices: list[pci.Device] = dataclasses.field(default_factory=list)
    traits: list[str] = dataclasses.field(default_factory=list)


def uptime() -> str:
    """How long this machine runs, one line in the form that uptime(1) prints; NodeResources.uptime."""
    with open('/proc/uptime') as file:
        minutes = int(float(file.read().split()[0])) // 60
    load = ', '.join(f'{value:.2f}' for value in os.getloadavg())
    return f'up {minutes // 1440} days, {minutes // 60 % 24}:{minutes % 60:02}, load average: {load}'


class ImageSource(typing.Protocol):
    """Where a driver gets image bytes from; handed to it by the compute service.

    ``context`` is the one that the driver's method was called with: it says which images may be had.
    """

    def show(self, context: RequestContext, image_id: str) -> ImageDocument:
        """{'id', 'disk_format', 'container_format', 'size', 'checksum', 'os_hash_value', 'properties', …}."""

    def download(self, context: RequestContext, image_id: str, path: str,
                 moved: progress.Moved = progress.ignore) -> None:
        """Write the image's bytes to ``path``, checksum verified; raises ImageNotFound, ImageUnacceptable.

        :param moved: called now and then with the bytes that have come
        """

    def upload(self, context: RequestContext, image_id: str, path: str, disk_format: str,
               moved: progress.Moved = progress.ignore, give: bool = False) -> None:
        """Upload the file as the data of an image that exists and is queued; ``moved`` as for ``download``.

        :param give: the caller does not use the file any more: the store may keep the file itself
        """


@dataclasses.dataclass
class SpawnRequest:
    """What ``spawn`` gets besides the instance.

    image           dict as ImageSource.show gives it, or None when booting from a volume
    network_info    list of VIFs (nova/objects/network_info.py)
    block_devices   list of dicts (rows of block_device_mappings)
    injected_files  [(path, bytes)]
    admin_password  str or None
    config_drive    {path in the drive: bytes}, or None when the server gets no config drive
    await_networks  to be called when the VIFs are plugged and before the guest runs, and raises when its network cannot
                    be had; None: there is nothing to wait for
    keep_machine    the guest gets what ``destroy`` has left with ``keep_machine``
    report          to be called now and then with the hundredths that are done; when it raises, the build is given up
                    and the error goes on
    """

    image: ImageDocument | None
    network_info: NetworkInfo
    block_devices: list[BlockDevice] = dataclasses.field(default_factory=list)
    injected_files: list[tuple[str, bytes]] = dataclasses.field(default_factory=list)
    admin_password: str | None = None
    config_drive: dict[str, bytes] | None = None
    await_networks: Callable[[], None] | None = None
    report: progress.Report = progress.ignore
    keep_machine: bool = False


@dataclasses.dataclass(frozen=True)
class FormerHost:
    """A dead host from which a server is taken over, for ComputeDriver.fence.

    host                  its name
    off                   the server was switched off there, and nothing was starting it
    block_devices         the server's, with the connections that it had there
    clients               what watch_disk_clients has recorded there; None: nothing
    accepts_two_writers   an operator accepts the risk that two guests write to the same disks
    """

    host: str
    off: bool
    block_devices: list[BlockDevice]
    clients: dict[str, list[str] | None] | None = None
    accepts_two_writers: bool = False


class Hypervisor(typing.Protocol):
    """The methods that every driver must implement."""

    def init_host(self) -> None:
        """Connect, check that guests can run here, remove what a crash left and no guest owns."""
        raise NotImplementedError

    def resources(self) -> list[NodeResources]:
        """[NodeResources] of this host, as they are now."""
        raise NotImplementedError

    def guests(self) -> dict[str, int]:
        """{instance uuid: power state} of every guest of ours on this host."""
        raise NotImplementedError

    def power_state(self, instance: Instance) -> int:
        """One of states' power states; raises GuestNotFound."""
        raise NotImplementedError

    def spawn(self, context: RequestContext, instance: Instance, request: SpawnRequest) -> None:
        """Make its disks, define the guest and start it. Raises BuildFailed, ImageUnacceptable, VirtError."""
        raise NotImplementedError

    def destroy(self, context: RequestContext, instance: Instance, network_info: NetworkInfo, keep_disks: bool = False,
                keep_machine: bool = False) -> None:
        """Stop the guest and remove all that belongs to it; no error when nothing is there.

        :param keep_disks: leave the disks
        :param keep_machine: leave the state of its TPM and its UEFI variables, as far as the instance has the same
            ones still: it is rebuilt
        """
        raise NotImplementedError

    def power_on(self, context: RequestContext, instance: Instance, network_info: NetworkInfo) -> None:
        """Start the guest, defining it again when it is gone."""
        raise NotImplementedError

    def power_off(self, instance: Instance, timeout: int = 0) -> None:
        """Ask the guest to shut down, wait ``timeout`` seconds, then switch it off."""
        raise NotImplementedError

    def reboot(self, context: RequestContext, instance: Instance, network_info: NetworkInfo, hard: bool) -> None:
        """Soft: through the guest's system, hard when that does not work; hard: power cycle."""
        raise NotImplementedError

    def console_output(self, instance: Instance) -> bytes:
        """The bytes that its serial console printed, at most the last 100 KiB."""
        raise NotImplementedError


class ComputeDriver(Hypervisor):
    """Base class of drivers: what a driver is made of, and defaults of the methods that are not required.

    :param conf: the configuration
    :param host: name of the compute host
    :param images: an ImageSource
    :param inspect_image: a function of a path and a disk format that raises ImageUnacceptable; None: nothing is checked
    :param helper: runtime.privileges.Helper that does privileged steps; None: this process does all itself

    ``features`` is {feature: the object that implements it}; the keys are among ``FEATURES``. A driver that inherits
    feature classes implements them itself.

    ``real_guests`` is False where nothing runs: no network is plumbed for such guests. ``guest_agent`` is True where a
    password and a quiet file system are up to an agent in the guest. ``device_names`` is False where the system in the
    guest names its disks by itself, whatever a request asks for.
    """

    real_guests = True
    guest_agent = False
    device_names = True

    def __init__(self, conf: ConfigOpts, host: str, images: ImageSource,
                 inspect_image: Callable[[str, str], None] | None = None,
                 helper: privileges.Helper | None = None) -> None:
        self.conf, self.host, self.images, self.inspect_image, self.helper = conf, host, images, inspect_image, helper
        self.features: dict[type[object], object] = {
            feature: self for feature in FEATURES if feature in type(self).__mro__}
        self.on_event: Callable[[str, int], None] = lambda uuid, power_state: None
        self.on_hypervisor: Callable[[str], None] = lambda reason: None
        self.disk_key: Callable[[str], str] | None = None
        self.volume_key: Callable[[str, str], str] | None = None
        self.certificate: Callable[[RequestContext, str], bytes] | None = None

    def capabilities(self) -> dict[str, bool]:
        """Return {capability: whether this driver has it}: the names of FEATURES, GUEST_AGENT and DEVICE_NAMES."""
        return {**{feature.feature: feature in self.features for feature in FEATURES},
                GUEST_AGENT: self.guest_agent, DEVICE_NAMES: self.device_names}

    def get_feature(self, feature: type[_Feature]) -> _Feature | None:
        """Return the object that implements a feature, or None if this driver does not have the feature.

        :param feature: one of FEATURES
        """
        return typing.cast('_Feature | None', self.features.get(feature))

    @property
    def weaknesses(self) -> list[str]:
        """Sentences: why guests that break out are not kept from each other on this host; after ``init_host``."""
        return []

    def watch(self, callback: Callable[[str, int], None]) -> None:
        """Call ``callback(uuid, power_state)`` whenever a guest changes by itself."""
        self.on_event = callback

    def watch_hypervisor(self, callback: Callable[[str], None]) -> None:
        """Call ``callback(reason)`` when the hypervisor stops to answer, and ``callback('')`` when it answers again."""
        self.on_hypervisor = callback

    def use_keys(self, disk_key: Callable[[str], str] | None,
                 volume_key: Callable[[str, str], str] | None = None) -> None:
        """Take ``disk_key(server uuid)``, which gives the passphrase of a server's encrypted disks, or raises, and
        ``volume_key(server uuid, volume id)``, the same of an encrypted volume."""
        self.disk_key, self.volume_key = disk_key, volume_key

    def use_certificates(self, certificate: Callable[[RequestContext, str], bytes] | None) -> None:
        """Take ``certificate(context, id)``, which gives a certificate of a signer of images, or raises."""
        self.certificate = certificate

    def stop(self) -> None:
        """Let go of the hypervisor; guests go on."""

    def guest_state(self, uuid: str) -> int | None:
        """The power state of one of ``guests()``; None: it is not among them."""
        found: int | None = self.guests().get(uuid)
        return found

    def remnants(self) -> dict[str, bool]:
        """{uuid: whether they are this host's alone} of servers of which files are here, and no guest in ``guests()``:
        of a guest that is off, or of a step that did not come to its end. ``destroy`` removes them."""
        return {}

    def cpu_flags(self, node: NodeResources) -> list[str]:
        """Flags of the processors of a NodeResources."""
        return node.cpu_info.get('features', [])

    def guest_traits(self) -> list[str]:
        """Traits of what guests can be given here, by the table of nova/hardware/guest_option_rows.py."""
        return []

    def host_cpu_stats(self) -> dict[str, int]:
        """What monitors.local_cpu_stats gives, of this host."""
        return monitors.local_cpu_stats()

    def has_disks(self, instance: Instance, source: str) -> bool:
        """Whether this host reaches the disks of a server on storage shared with ``source``, its host before."""
        return False

    def why_unstartable(self, instance: Instance) -> str | None:
        """Why a server of this host cannot be started: a disk, or the record of its guest, is missing. None: it can."""
        try:
            self.power_state(instance)
        except exception.GuestNotFound:
            return f'Host {self.host} has no disks of server {instance.uuid}.'
        return None

    def fence(self, instance: Instance, former: FormerHost) -> bool:
        """Keep the guest of a dead host from writing to the disks and volumes of a server that this host takes over.

        :returns: whether nothing of it writes any more; False: an operator has accepted that it may
        :raises NotFenced: it may, and no operator has accepted that
        """
        return True

    def watch_disk_clients(self, record: Callable[[str, dict[str, list[str] | None], bool], None]) -> None:
        """Call ``record(uuid, {image: addresses of clients or None}, started)`` with the clients of a storage that a
        guest's disks are opened with, before the guest writes.

        ``started`` is False where images were added to those of a guest that runs.
        """

    def guests_with_clients(self) -> list[str]:
        """Uuids of the guests whose disks are in such a storage."""
        return []

    def open_clients(self, uuid: str) -> dict[str, list[str] | None]:
        """The same of a guest that runs, as far as they can be found out now; {}: it has none."""
        return {}

    def device_addresses(self, instance: Instance) -> dict[str, list[str]]:
        """Return where the guest finds its devices: {MAC address, volume id or device name: [bus, address]}.

        Unknown devices are left out.
        """
        return {}

    def power_on_here(self, context: RequestContext, instance: Instance, network_info: NetworkInfo,
                      block_devices: list[BlockDevice]) -> None:
        """As ``power_on``, of a guest whose disks this host has taken over (``has_disks``).

        :param block_devices: as of a SpawnRequest: how this host reaches its volumes
        """
        return self.power_on(context, instance, network_info)


# ---- features: one class each --------------------------------------------------

class Pause(typing.Protocol):
    feature: typing.ClassVar[str] = 'pause'

    def pause(self, instance: Instance) -> None:
        raise NotImplementedError

    def unpause(self, instance: Instance) -> None:
        raise NotImplementedError


class Suspend(typing.Protocol):
    feature: typing.ClassVar[str] = 'suspend'

    def suspend(self, instance: Instance) -> None:
        """Memory to disk, guest off."""
        raise NotImplementedError

    def resume(self, context: RequestContext, instance: Instance, network_info: NetworkInfo) -> None:
        raise NotImplementedError


class Snapshot(typing.Protocol):
    feature: typing.ClassVar[str] = 'snapshot'

    def snapshot(self, context: RequestContext, instance: Instance, image_id: str, step: Callable[[str], None],
                 report: progress.Report = progress.ignore) -> None:
        """Upload the root disk as the data of ``image_id``; say each step with ``step(task_state)``.

        :param report: called now and then with the hundredths of copy and upload that are done; when it raises, the
            snapshot is given up and the error goes on
        """
        raise NotImplementedError


class Rescue(typing.Protocol):
    feature: typing.ClassVar[str] = 'rescue'

    def rescue(self, context: RequestContext, instance: Instance, network_info: NetworkInfo, image: ImageDocument,
               admin_password: str,
               block_devices: list[BlockDevice], config_drive: dict[str, bytes] | None = None) -> None:
        """Start the guest from a disk made of ``image``, its own root disk attached as well; idempotent.

        :param image: dict as ImageSource.show gives it
        :param block_devices, config_drive: as in SpawnRequest
        :raises ImageUnacceptable: no guest can be rescued with this image; the guest has its own disks, and is off
        """
        raise NotImplementedError

    def unrescue(self, context: RequestContext, instance: Instance, network_info: NetworkInfo) -> None:
        """Start the guest from its own disks again, and remove the rescue disk."""
        raise NotImplementedError


class StableRescue(typing.Protocol):
    """While it is rescued all of the guest's devices stay as they are, volumes too: the rescue disk is
    added, of the kind that the image's properties hw_rescue_device and hw_rescue_bus say."""

    feature: typing.ClassVar[str] = 'stable_rescue'


class EncryptedDisks(typing.Protocol):
    """Local disks of servers whose flavor or image asks for it (nova.hardware.guest_options.encrypts) are encrypted
    with what ``disk_key`` gives; see ``use_keys``."""

    feature: typing.ClassVar[str] = 'encrypted_disks'


class EncryptedVolumes(typing.Protocol):
    """Volumes whose connection says 'encrypted' are opened with what ``volume_key`` gives (LUKS)."""

    feature: typing.ClassVar[str] = 'encrypted_volumes'


class Volumes(typing.Protocol):
    """A device is a row of block_device_mappings with its ``connection_info`` ({'driver_volume_type', 'data'}).

    Guests are made with the volumes in SpawnRequest.block_devices; these come and go later. Each does nothing when
    it was done before.
    """

    feature: typing.ClassVar[str] = 'volumes'

    def volume_connector(self) -> dict[str, Any]:
        """What a block storage must know of this host: {'host', 'ip', 'initiator', …}."""
        raise NotImplementedError

    def attached_volumes(self) -> dict[str, dict[str, AttachedVolume]]:
        """{uuid: {volume id: {'attachment_id', 'device_name'}}} of the guests that have volumes."""
        raise NotImplementedError

    def attach_volume(self, context: RequestContext, instance: Instance, device: BlockDevice) -> None:
        """Give a guest a disk; it may be off."""
        raise NotImplementedError

    def detach_volume(self, context: RequestContext, instance: Instance, device: BlockDevice) -> None:
        """Take it away; no error when there is no such disk, or no guest."""
        raise NotImplementedError

    def swap_volume(self, context: RequestContext, instance: Instance, old: BlockDevice, new: BlockDevice) -> None:
        """Copy what is on one volume to another while the guest runs, and let it use that."""
        raise NotImplementedError

    def rename_volume(self, context: RequestContext, instance: Instance, volume_id: str, stays: str) -> None:
        """The block storage has moved a volume: the new one, ``volume_id``, has the id of the old one now. Nothing for
        drivers that do not know volumes by their ids."""
        raise NotImplementedError


class Shares(typing.Protocol):
    """Shared file systems; a guest that is off gets them when it is started. Each does nothing when it was done."""

    feature: typing.ClassVar[str] = 'shares'

    def attach_share(self, context: RequestContext, instance: Instance, share: dict[str, Any]) -> None:
        """Mount a share for a guest: {'share_id', 'tag', 'export_location', 'protocol', 'access' (share/api.py)}."""
        raise NotImplementedError

    def detach_share(self, context: RequestContext, instance: Instance, share: dict[str, Any]) -> None:
        """Take it away: {'share_id'}; no error when it is not there."""
        raise NotImplementedError


class Password(typing.Protocol):
    feature: typing.ClassVar[str] = 'password'

    def set_admin_password(self, instance: Instance, password: str) -> None:
        """Change the administrator's password in the guest; raises VirtError when no agent there does it."""
        raise NotImplementedError


class Quiesce(typing.Protocol):
    """Bringing what runs in the guest to rest while its volumes are copied; ``snapshot`` does so by itself."""

    feature: typing.ClassVar[str] = 'quiesce'

    def quiesce(self, instance: Instance) -> None:
        """Write out the file systems, and hold back what is written next; raises VirtError when no agent does it."""
        raise NotImplementedError

    def unquiesce(self, instance: Instance) -> None:
        """Go on; no error when it is not at rest."""
        raise NotImplementedError


class CrashDump(typing.Protocol):
    feature: typing.ClassVar[str] = 'crash_dump'

    def trigger_crash_dump(self, instance: Instance) -> None:
        """Make the guest's kernel crash and dump its memory, as a non-maskable interrupt does."""
        raise NotImplementedError


class Diagnostics(typing.Protocol):
    feature: typing.ClassVar[str] = 'diagnostics'

    def diagnostics(self, instance: Instance) -> dict[str, Any]:
        """What a running guest uses, by the names of the compute API's diagnostics (2.48), all of them:

        ``hypervisor``, ``hypervisor_os``, ``uptime`` (s); ``cpu_details`` [{'id', 'time' (ns), 'utilisation' (%)}];
        ``disk_details`` and ``nic_details`` with the counters named there; ``memory_details`` {'maximum', 'used'}
        (MiB). What is not known is None. ``guest_interfaces`` may be missing: what the guest itself says of its
        network, [{'name', 'mac_address', 'addresses'}]. Raises GuestNotFound.
        """
        raise NotImplementedError


class Interfaces(typing.Protocol):
    feature: typing.ClassVar[str] = 'interfaces'

    def attach_interface(self, context: RequestContext, instance: Instance, vif: Vif) -> None:
        """Plug a VIF (nova/objects/network_info.py) into the guest, running or not; nothing when it is there."""
        raise NotImplementedError

    def detach_interface(self, context: RequestContext, instance: Instance, vif: Vif) -> None:
        """Unplug it; nothing when neither it nor the guest is there. Raises VirtError when the guest holds it."""
        raise NotImplementedError


class PortDevices(typing.Protocol):
    """``attach_interface`` and ``detach_interface`` take ports that are a device of the host, too: after them the guest
    has the devices that the instance has, or without that of the port."""

    feature: typing.ClassVar[str] = 'port_devices'


class Consoles(typing.Protocol):
    feature: typing.ClassVar[str] = 'consoles'

    def console(self, instance: Instance, kind: str) -> ConsolePlace | None:
        """Where a proxy reaches a console of a guest.

        :param kind: 'vnc', 'spice', 'serial' or 'mks'
        :returns: None where there is none
        :raises ConsoleTypeUnavailable: the guest has no such console
        :raises GuestNotFound:
        """
        raise NotImplementedError


class Screenshots(typing.Protocol):
    feature: typing.ClassVar[str] = 'screenshots'

    def screenshot(self, instance: Instance) -> bytes:
        """What the first screen of a running guest shows: PPM or PNG, at most SCREENSHOT_BYTES.

        :raises Unsupported: the guest has no screen
        :raises GuestNotFound:
        :raises VirtError: it is larger, or does not come in time
        """
        raise NotImplementedError


class Resize(typing.Protocol):
    """Cold moves: a guest goes to another host, or changes its flavor on its own host (both ends are here then).

    The source keeps what a revert needs until the move is confirmed.
    """

    feature: typing.ClassVar[str] = 'resize'

    def accept_guest(self, context: RequestContext, instance: Instance, flavor: dict[str, Any]) -> None:
        """Look whether this host, the destination, can take the guest; raises VirtError when not."""
        raise NotImplementedError

    def send_guest(self, context: RequestContext, instance: Instance, dest_host: str | None, network_info: NetworkInfo,
                   timeout: int) -> GuestDocument:
        """Stop the guest, as power_off does, and put it aside, out of ``guests()``.

        :returns: what ``finish_migration`` needs of it elsewhere, JSON-able
        """
        raise NotImplementedError

    def finish_migration(self, context: RequestContext, instance: Instance, guest: GuestDocument, request: SpawnRequest,
                         power_on: bool) -> None:
        """Make the guest here, with the instance's flavor as it is now.

        :param guest: what ``send_guest`` gave
        :param power_on: whether it runs afterwards
        """
        raise NotImplementedError

    def drop_migrated(self, context: RequestContext, instance: Instance, network_info: NetworkInfo) -> None:
        """Remove what ``finish_migration`` made; what this host keeps as a source stays. No error without it."""
        raise NotImplementedError

    def finish_revert_migration(self, context: RequestContext, instance: Instance, network_info: NetworkInfo,
                                block_devices: list[BlockDevice],
                                power_on: bool) -> None:
        """Take the guest back that was put aside; raises GuestNotFound.

        :param block_devices: its volumes, as in SpawnRequest
        """
        raise NotImplementedError

    def confirm_migration(self, context: RequestContext, instance: Instance, network_info: NetworkInfo) -> None:
        """Remove for ever what was put aside; no error when nothing is there."""
        raise NotImplementedError

    def kept_guests(self) -> list[str]:
        """Uuids of the guests that are put aside here."""
        raise NotImplementedError


class Growth(typing.Protocol):
    """Guests that run get more CPUs and memory, within the maximum of their flavor (nova/hardware/growth.py)."""

    feature: typing.ClassVar[str] = 'growth'

    def grow(self, instance: Instance, flavor: dict[str, Any]) -> None:
        """Give a guest the vCPUs and the memory of this flavor, which are no less than it has; again: the same.

        :raises VirtError: it has not got them, and what it has is what it had
        """
        raise NotImplementedError


class LiveMigration(typing.Protocol):
    """Moving a running guest. What one host finds out about it travels to the other one as ``facts``, a plain dict.

    After the checks ``facts['numa_topology']`` is the GuestTopology that it has at the destination, as text, for a
    guest that has one.
    """

    feature: typing.ClassVar[str] = 'live_migration'

    def check_destination(self, instance: Instance, block_migration: bool | None,
                          disk_over_commit: bool) -> MigrationFacts:
        """At the destination: whether the guest could run here -> facts.

        :param block_migration: True: its disks are copied; False: they are shared; None: as they are found
        :param disk_over_commit: room is counted by what disks use instead of what they may grow to
        :raises MigrationPreCheckError:
        """
        raise NotImplementedError

    def check_source(self, instance: Instance, facts: MigrationFacts) -> MigrationFacts:
        """At the source, with the destination's facts: whether the guest can leave -> facts.

        :raises MigrationPreCheckError:
        """
        raise NotImplementedError

    def pre_live_migration(self, context: RequestContext, instance: Instance, network_info: NetworkInfo,
                           block_devices: list[BlockDevice],
                           facts: MigrationFacts) -> MigrationFacts:
        """At the destination: make ready to receive the guest -> facts. Repeated, or undone by
        ``rollback_live_migration``, also after a crash."""
        raise NotImplementedError

    def live_migrate(self, context: RequestContext, instance: Instance, destination: Destination,
                     facts: MigrationFacts, progress: Callable[[dict[str, int]], None]) -> None:
        """At the source: returns when the guest runs at the destination and not here any more.

        :param progress: called now and then with {'memory_total_bytes', 'memory_processed_bytes',
            'memory_remaining_bytes', the same of 'disk'}; when it raises, the guest stays here and the error goes on
        :raises MigrationAborted: it was aborted; this and any other error leave the guest running here
        """
        raise NotImplementedError

    def abort_live_migration(self, instance: Instance) -> None:
        """At the source: let ``live_migrate`` end with MigrationAborted; no error when nothing is under way."""
        raise NotImplementedError

    def force_complete_live_migration(self, instance: Instance) -> None:
        """At the source: pause the guest, or run it at the destination already, so that the rest is copied soon."""
        raise NotImplementedError

    def await_live_migration(self, instance: Instance, progress: Callable[[dict[str, int]], None]) -> None:
        """At the source, after a restart: returns when a guest that runs at its destination already has all of itself
        there (post-copy), at once for any other. ``progress`` as for ``live_migrate``."""
        raise NotImplementedError

    def has_arrived(self, uuid: str) -> bool:
        """At the destination: whether the hypervisor has the guest, and it is not on its way any more."""
        raise NotImplementedError

    def post_live_migration_at_source(self, context: RequestContext, instance: Instance, network_info: NetworkInfo,
                                      facts: MigrationFacts) -> None:
        """Remove what the guest that has left still has here; no error when there is nothing."""
        raise NotImplementedError

    def post_live_migration_at_destination(self, context: RequestContext, instance: Instance,
                                           network_info: NetworkInfo) -> None:
        """Let the guest that has arrived belong here for good."""
        raise NotImplementedError

    def rollback_live_migration(self, context: RequestContext, instance: Instance, network_info: NetworkInfo,
                                facts: MigrationFacts) -> None:
        """At the destination: remove what was made ready for a guest that has not come."""
        raise NotImplementedError

    def awaited_guests(self) -> list[str]:
        """Uuids of guests that this host has made ready for on disks that it shares with another one."""
        raise NotImplementedError

    def give_up_guest(self, uuid: str) -> None:
        """Remove what was made ready for one of ``awaited_guests``, but for the disks, which are the other host's."""
        raise NotImplementedError


class ExtendVolume(typing.Protocol):
    feature: typing.ClassVar[str] = 'extend_volume'

    def extend_volume(self, context: RequestContext, instance: Instance, device: BlockDevice) -> None:
        """Let the guest see the size that a volume has now: ``device['volume_size']``, GiB. Again: the same."""
        raise NotImplementedError


class VolumeCopies(typing.Protocol):
    """Whole copies of volumes that guests have."""

    feature: typing.ClassVar[str] = 'volume_copies'

    def copy_volume(self, context: RequestContext, instance: Instance, volume_id: str, create_info: dict[str, str],
                    begun: Callable[[], None] | None = None) -> None:
        """Copy the volume as it is at one moment into the file ``create_info['new_file']``, which is there.

        :param begun: called when what the guest writes does not change the copy any more
        """
        raise NotImplementedError


class VolumeFile(typing.TypedDict):
    """The file of a volume that its guest writes to: its name among the others of the volume, and its format."""

    name: str
    format: str


class AssistedSnapshots(typing.Protocol):
    """Chains of files of a volume that the hypervisor makes and merges for the volume service."""

    feature: typing.ClassVar[str] = 'assisted_snapshots'

    def create_volume_snapshot(self, context: RequestContext, instance: Instance, volume_id: str,
                               create_info: dict[str, str]) -> VolumeFile:
        """Let the guest write to ``create_info['new_file']``, a qcow2 file next to the volume's present one, on which
        it lies. Again: the same.

        :raises VirtError: it is no such file; the guest goes on with the present one
        """
        raise NotImplementedError

    def delete_volume_snapshot(self, context: RequestContext, instance: Instance, volume_id: str, snapshot_id: str,
                               delete_info: dict[str, str | None],
                               report: progress.Report = progress.ignore) -> VolumeFile:
        """Merge ``delete_info['file_to_merge']`` into ``delete_info['merge_target_file']``, which it lies on. Without
        the latter: merge what is between the guest's file and ``file_to_merge`` (None: all below) into the guest's.

        :raises VirtError: it has no such files, or the merge failed; the volume has the content that it had
        """
        raise NotImplementedError


class HostControl(typing.Protocol):
    """The machine itself."""

    feature: typing.ClassVar[str] = 'host_control'

    def host_power_action(self, action: str) -> str:
        """'reboot', 'shutdown' or 'startup' -> what is being done, as a word."""
        raise NotImplementedError

    def set_host_maintenance(self, enabled: bool) -> None:
        """In maintenance a host starts no new guests."""
        raise NotImplementedError


class ImageCache(typing.Protocol):
    feature: typing.ClassVar[str] = 'image_cache'

    def cache_image(self, context: RequestContext, image_id: str) -> None:
        """Fetch an image now, so that a later ``spawn`` finds it here.

        :raises ImageNotFound, ImageUnacceptable: it never will be here
        """
        raise NotImplementedError


class Adoption(typing.Protocol):
    feature: typing.ClassVar[str] = 'adoption'

    def adopt(self, context: RequestContext, instance: Instance, request: SpawnRequest) -> None:
        """Take over the guest that the hypervisor has under the server's uuid and that another program has made.

        It goes on, or stays off, and its disks stay where they are.
        :raises BuildFailed: it cannot be taken over; it is as it was
        :raises GuestNotFound:
        """
        raise NotImplementedError

    def let_go(self, instance: Instance) -> None:
        """The end of an ``adopt`` that did not come to its end: the guest is as it was, its disks stay."""
        raise NotImplementedError


FEATURES = (Pause, Suspend, Snapshot, Rescue, StableRescue, Password, Quiesce, CrashDump, Diagnostics, Interfaces,
            Consoles, Screenshots, Volumes, Shares, Resize, Growth, LiveMigration, ExtendVolume, VolumeCopies,
            AssistedSnapshots, HostControl, ImageCache, Adoption, EncryptedDisks, EncryptedVolumes, PortDevices)


def missing_methods(driver: ComputeDriver) -> list[str]:
    """Return the names of methods that a driver, or an object in its ``features``, does not implement."""
    kind = type(driver)
    missing = [name for name, method in _methods(Hypervisor) if getattr(kind, name, None) in (None, method)]
    for feature, implementation in driver.features.items():
        missing += [f'{feature.__name__}.{name}' for name, method in _methods(feature)
                    if not hasattr(implementation, name) or getattr(type(implementation), name, None) is method]
    return missing


def _methods(protocol: type[object]) -> list[tuple[str, object]]:
    return [(name, value) for name, value in vars(protocol).items()
            if isinstance(value, types.FunctionType) and not name.startswith('_')]
