"""Interface between the compute service and a hypervisor driver: required methods and optional features.

A driver inherits ``ComputeDriver`` and registers an object for each supported feature in ``ComputeDriver.features``,
from which its capabilities are computed. Every method is idempotent: a repeated call after a crash completes the
interrupted work. A driver uses no database and no RPC; the compute service passes all data.
"""
from collections.abc import Callable
import dataclasses
import os
import re
import types
import typing
from typing import Any

from oslo_config.cfg import ConfigOpts

from nova import exception
from nova.context import RequestContext
from nova.json_types import JsonObject
from nova.objects.block_device import AttachedVolume
from nova.objects.block_device import BlockDevice
from nova.objects.block_device import DetachedShare
from nova.objects.block_device import Share
from nova.objects.block_device import VolumeDevice
from nova.objects.image import Image
from nova.objects.network_info import DeletedPort
from nova.objects.network_info import Vif
from nova.objects import pci
from nova.objects.flavor import Flavor
from nova.objects.instance import Instance
from nova.runtime import privileges
from nova.runtime import progress
from nova.virt import monitors

_Feature = typing.TypeVar('_Feature')

GUEST_AGENT = 'guest_agent'              # capabilities that are attributes of ComputeDriver, not features
DEVICE_NAMES = 'device_names'
SCREENSHOT_BYTES = 32 * 1024 * 1024      # enough for 3840 x 2160 pixels with three bytes each (24 MiB)


NetworkInfo = list[Vif]


class ConsolePlace(typing.TypedDict):
    """Address at which a proxy reaches a console. ``path`` is a Unix socket of a serial console on the guest's host."""

    host: str
    port: int | None
    tls_port: int | None
    internal_access_path: str | None
    password: str | None


# Address of a host's hypervisor, and the directory of a guest's files on this host
GuestLocation = typing.TypedDict('GuestLocation', {'address': str, 'directory': str})

# Data that source and destination of a live migration exchange; each driver uses only some of the keys
MigrationFacts = typing.TypedDict('MigrationFacts', {
    # whether the disks are copied; None: the hosts decide
    'block_migration': bool | None, 'over_commit': bool, 'free_bytes': int,
    # fingerprints of the guest's record and pool disks, as the destination sees them: with shared storage, the source
    # computes equal fingerprints
    'seen': list[str | int] | None, 'pool_seen': str | None,
    'cpu_features': list[str] | None, 'virt_type': str, 'memory_source': str, 'numa_topology': str | None,
    'tls': bool, 'tls_able': bool, 'address': str, 'source': GuestLocation,
    # guest: its record; domain: its definition at the destination; incremental: whether only overlays of disks are
    # copied, because the destination has the backing images
    'guest': dict[str, Any], 'domain': str, 'incremental': bool}, total=False)


# Processor of a host. ``topology``: {'sockets', 'cores', 'threads'}.
CpuInfo = typing.TypedDict('CpuInfo', {
    'arch': str | None, 'model': str | None, 'vendor': str | None, 'topology': dict[str, int],
    'features': list[str]}, total=False)

# Interface that a guest reports. ``addresses`` are texts such as '192.0.2.3/24'.
GuestInterface = typing.TypedDict('GuestInterface', {'name': str, 'mac_address': str, 'addresses': list[str]})

# Resource usage of a guest with the names of the compute API's diagnostics (2.48). Unknown values are None.
GuestDiagnostics = typing.TypedDict('GuestDiagnostics', {
    'hypervisor': str, 'hypervisor_os': str, 'uptime': int | None,           # seconds
    'cpu_details': list[dict[str, int | None]],            # {'id', 'time' (ns), 'utilisation' (%)}
    'disk_details': list[dict[str, int | None]],           # the API's counters
    'nic_details': list[dict[str, str | int | None]],      # 'mac_address' and the API's counters
    'memory_details': dict[str, int],                      # {'maximum', 'used'} in MiB
    'guest_interfaces': typing.NotRequired[list[GuestInterface]]})


@dataclasses.dataclass
class NodeResources:
    """Resources of one node, stored as a row of compute_nodes. Sizes are in MiB (``_mb``) and GiB (``_gb``).

    vcpus          number of host CPUs that guests share
    numa_topology  serialized HostTopology of objects.numa without guests; None if the host has no NUMA topology
    pci_devices    [objects.pci.Device], all devices available for passthrough
    traits         traits of this node; ``guest_traits`` has the traits of all nodes of the driver
    """

    node: str
    vcpus: int
    memory_mb: int
    local_gb: int
    hypervisor_type: str
    hypervisor_version: int
    host_ip: str | None = None
    cpu_info: CpuInfo = dataclasses.field(default_factory=CpuInfo)
    disk_available_least: int | None = None
    supported_instances: list[list[str]] = dataclasses.field(default_factory=list)   # [[arch, type, vm mode]]
    uptime: str | None = None
    numa_topology: str | None = None
    pci_devices: list[pci.Device] = dataclasses.field(default_factory=list)
    traits: list[str] = dataclasses.field(default_factory=list)


def uptime() -> str:
    """Return the value of NodeResources.uptime for this machine: one line in the format of uptime(1)."""
    with open('/proc/uptime') as file:
        minutes = int(float(file.read().split()[0])) // 60
    load = ', '.join(f'{value:.2f}' for value in os.getloadavg())
    return f'up {minutes // 1440} days, {minutes // 60 % 24}:{minutes % 60:02}, load average: {load}'


class ImageSource(typing.Protocol):
    """Image service of a driver, implemented by the compute service.

    ``context`` is the request context that the driver's method received. It determines which images are accessible.
    """

    def show(self, context: RequestContext, image_id: str) -> Image:
        """Return the image."""

    def download(self, context: RequestContext, image_id: str, path: str,
                 moved: progress.Moved = progress.ignore) -> None:
        """Write the image's data to ``path`` and verify the checksum; raises ImageNotFound, ImageUnacceptable.

        :param moved: called periodically with the number of bytes received
        """

    def upload(self, context: RequestContext, image_id: str, path: str, disk_format: str,
               moved: progress.Moved = progress.ignore, give: bool = False) -> None:
        """Upload a file as the data of an existing image in the status queued.

        :param moved: called periodically with the number of bytes sent
        :param give: True: the caller no longer needs the file, so the store may take the file itself instead of a copy
        """


@dataclasses.dataclass
class SpawnRequest:
    """Parameters of ``spawn`` other than the instance.

    image           dict as returned by ImageSource.show, or None when booting from a volume
    network_info    list of VIFs (nova/objects/network_info.py)
    block_devices   list of dicts (rows of block_device_mappings)
    injected_files  [(path, bytes)]
    admin_password  str or None
    config_drive    {path in the drive: bytes}, or None if the server gets no config drive
    await_networks  function that waits for the VIFs. The driver calls it after plugging the VIFs and before the guest
                    runs. It raises if networking fails. None: do not wait
    keep_machine    whether to reuse the state that ``destroy(keep_machine=True)`` preserved
    report          called periodically with the percentage done. An error that it raises cancels the build
    """

    image: Image | None
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
    """Failed host from which a server is evacuated, for ComputeDriver.fence.

    host                  name of the host
    off                   whether the server was off on that host and no start was in progress
    block_devices         block devices of the server with their connections on that host
    clients               storage clients that watch_disk_clients recorded on that host, or None
    accepts_two_writers   whether an operator accepts the risk that two guests write to the same disks
    """

    host: str
    off: bool
    block_devices: list[BlockDevice]
    clients: dict[str, list[str] | None] | None = None
    accepts_two_writers: bool = False


class Hypervisor(typing.Protocol):
    """Methods that every driver must implement."""

    def init_host(self) -> None:
        """Connect to the hypervisor, check that guests can run on this host, and remove files that a crash left."""

    def resources(self) -> list[NodeResources]:
        """Return the current resources of each node of this host."""

    def guests(self) -> dict[str, int]:
        """Return {instance uuid: power state} of every guest of this service on the host."""

    def power_state(self, instance: Instance) -> int:
        """Return the power state of a guest, a number of nova.states; raises GuestNotFound."""

    def spawn(self, context: RequestContext, instance: Instance, request: SpawnRequest) -> None:
        """Create the disks, define the guest and start it. Raises BuildFailed, ImageUnacceptable, VirtError."""

    def destroy(self, context: RequestContext, instance: Instance, network_info: NetworkInfo, keep_disks: bool = False,
                keep_machine: bool = False) -> None:
        """Stop the guest and remove all its resources; no error if there are none.

        :param keep_disks: preserve the disks
        :param keep_machine: preserve TPM state and UEFI variables for a rebuild, as far as the new guest uses them
        """

    def power_on(self, context: RequestContext, instance: Instance, network_info: NetworkInfo) -> None:
        """Start the guest. If the hypervisor has no definition of the guest, define it first."""

    def power_off(self, instance: Instance, timeout: int = 0) -> None:
        """Request a shutdown from the guest. If the guest is not off after ``timeout`` seconds, power it off."""

    def reboot(self, context: RequestContext, instance: Instance, network_info: NetworkInfo, hard: bool) -> None:
        """Reboot the guest.

        :param hard: True: power cycle. False: reboot through the guest OS, with a power cycle as the fallback
        """

    def console_output(self, instance: Instance) -> bytes:
        """Return the output of the serial console, at most the last 100 KiB."""


class ComputeDriver(Hypervisor):
    """Base class of drivers: constructor arguments, and defaults of the methods that are not required.

    :param host: name of the compute host
    :param inspect_image: function (path, disk format) that raises ImageUnacceptable; None skips the inspection
    :param helper: runtime.privileges.Helper that runs privileged operations; None runs them in this process

    features      {class of FEATURES: object that implements the feature}; the object can be the driver
    real_guests   False if the host needs no network devices for guests, as for simulated guests and bare metal
    guest_agent   whether passwords and quiescing require an agent in the guest
    device_names  False if the guest OS names its disks regardless of the request
    usage         reader of the counters of guests and nodes
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
        self.usage = monitors.Usage(host)

    def capabilities(self) -> dict[str, bool]:
        """Return {name of a feature, GUEST_AGENT or DEVICE_NAMES: whether this driver has the capability}."""
        return {**{name_of(feature): feature in self.features for feature in FEATURES},
                GUEST_AGENT: self.guest_agent, DEVICE_NAMES: self.device_names}

    def get_feature(self, feature: type[_Feature]) -> _Feature | None:
        """Return the object that implements a feature, or None if this driver does not have the feature.

        :param feature: one of FEATURES
        """
        return typing.cast('_Feature | None', self.features.get(feature))

    @property
    def weaknesses(self) -> list[str]:
        """Return sentences that describe missing isolation between guests on this host. Call after ``init_host``."""
        return []

    def watch(self, callback: Callable[[str, int], None]) -> None:
        """Set the function that the driver calls when a guest changes its power state without a request."""
        self.on_event = callback

    def watch_hypervisor(self, callback: Callable[[str], None]) -> None:
        """Set the function to call with a reason when the hypervisor stops responding, and with '' when it resumes."""
        self.on_hypervisor = callback

    def use_keys(self, disk_key: Callable[[str], str] | None,
                 volume_key: Callable[[str, str], str] | None = None) -> None:
        """Set the functions that provide passphrases.

        :param disk_key: ``disk_key(server uuid)`` returns the passphrase of a server's encrypted disks
        :param volume_key: ``volume_key(server uuid, volume id)`` returns the passphrase of an encrypted volume. Both
            functions may raise errors
        """
        self.disk_key, self.volume_key = disk_key, volume_key

    def use_certificates(self, certificate: Callable[[RequestContext, str], bytes] | None) -> None:
        """Set a function ``certificate(context, id)`` that returns an image signer's certificate or raises an error."""
        self.certificate = certificate

    def stop(self) -> None:
        """Disconnect from the hypervisor; guests keep running."""

    def guest_state(self, uuid: str) -> int | None:
        """Return the power state of a guest, or None if the guest is not in ``guests()``."""
        found: int | None = self.guests().get(uuid)
        return found

    def leftovers(self) -> dict[str, bool]:
        """Return {uuid: whether the files are local} of servers with files on this host but not in ``guests()``.

        Either an operation was interrupted, or the guest is stopped. ``destroy`` removes the files.
        """
        return {}

    def cpu_flags(self, node: NodeResources) -> list[str]:
        """Return the processor flags of a NodeResources."""
        return node.cpu_info.get('features', [])

    def guest_traits(self) -> list[str]:
        """Return the traits for the guest options that this host supports, see nova/hardware/guest_option_rows.py."""
        return []

    def host_cpu_stats(self) -> dict[str, int]:
        """Return the CPU counters of this host in the format of monitors.local_cpu_stats."""
        return monitors.local_cpu_stats()

    def has_disks(self, instance: Instance, source: str) -> bool:
        """Return whether the server's disks are on storage that this host shares with the previous host ``source``."""
        return False

    def why_unstartable(self, instance: Instance) -> str | None:
        """Return why a server of this host cannot start (a disk or the guest record is missing), or None if it can."""
        try:
            self.power_state(instance)
        except exception.GuestNotFound:
            return f'Host {self.host} has no disks of server {instance.uuid}.'
        return None

    def fence(self, instance: Instance, former: FormerHost) -> bool:
        """Fence a failed host: prevent its guest from writing to disks and volumes of a server evacuated to this host.

        :returns: True if the former guest cannot write; False if it may write and an operator has accepted the risk
        :raises NotFenced: the former guest may write and no operator has accepted the risk
        """
        return True

    def watch_disk_clients(self, record: Callable[[str, dict[str, list[str] | None], bool], None]) -> None:
        """Set the function ``record(uuid, {image: client addresses or None}, started)``.

        The driver calls the function before a guest writes to its disks. Clients are the storage clients that have
        opened an image for the guest. ``started`` is False if the images were attached to a running guest.
        """

    def guests_with_clients(self) -> list[str]:
        """Return uuids of the guests with disks in a storage that requires ``record`` (see ``watch_disk_clients``)."""
        return []

    def open_clients(self, uuid: str) -> dict[str, list[str] | None]:
        """Return {image: addresses of its storage clients, or None if unknown} of a running guest."""
        return {}

    def device_addresses(self, instance: Instance) -> dict[str, list[str]]:
        """Return known device addresses of the guest: {MAC address, volume id or device name: [bus, address]}."""
        return {}

    def power_on_here(self, context: RequestContext, instance: Instance, network_info: NetworkInfo,
                      block_devices: list[BlockDevice]) -> None:
        """Start a guest that ran on another host, with disks on shared storage (``has_disks``).

        :param block_devices: as in SpawnRequest, with this host's connections to the volumes
        """
        return self.power_on(context, instance, network_info)


# ---- features: one class each --------------------------------------------------

class Pause(typing.Protocol):
    def pause(self, instance: Instance) -> None: ...

    def unpause(self, instance: Instance) -> None: ...


class Suspend(typing.Protocol):
    def suspend(self, instance: Instance) -> None:
        """Save the memory to disk and stop the guest."""

    def resume(self, context: RequestContext, instance: Instance, network_info: NetworkInfo) -> None: ...


class Snapshot(typing.Protocol):
    def snapshot(self, context: RequestContext, instance: Instance, image_id: str, step: Callable[[str], None],
                 report: progress.Report = progress.ignore) -> None:
        """Copy the root disk and upload the copy as the data of ``image_id``.

        :param step: called with the task state at the begin of copy and upload
        :param report: called periodically with the percentage done. If it raises, the driver cancels the snapshot and
            raises that error
        """


class Rescue(typing.Protocol):
    def rescue(self, context: RequestContext, instance: Instance, network_info: NetworkInfo, image: Image,
               admin_password: str,
               block_devices: list[BlockDevice], config_drive: dict[str, bytes] | None = None) -> None:
        """Create a rescue disk from ``image``, and start the guest from it with the guest's root disk attached.

        :param image: dict as returned by ImageSource.show
        :param block_devices, config_drive: as in SpawnRequest
        :raises ImageUnacceptable: the image cannot rescue a guest; the guest is off and has its own disks
        """

    def unrescue(self, context: RequestContext, instance: Instance, network_info: NetworkInfo) -> None:
        """Start the guest from its usual disks and remove the rescue disk."""


class StableRescue(typing.Protocol):
    """Rescue in which the guest keeps all its devices, including volumes, and gets an additional rescue disk.

    The image properties hw_rescue_device and hw_rescue_bus select the type of the rescue disk.
    """


class EncryptedDisks(typing.Protocol):
    """Encryption of local disks if flavor or image requests it (nova.hardware.guest_options.encrypts).

    The function ``disk_key`` returns the passphrase; see ``use_keys``.
    """


class EncryptedVolumes(typing.Protocol):
    """LUKS volumes. If the data of a connection has ``encrypted``, ``volume_key`` returns the passphrase."""


class Volumes(typing.Protocol):
    """Hot-plug of volumes; SpawnRequest.block_devices has the volumes of a new guest. Each method is idempotent.

    ``device`` is a row of block_device_mappings with ``connection_info`` ({'driver_volume_type', 'data'}).
    """

    def volume_connector(self) -> JsonObject:
        """Return the connector properties of this host for Block Storage: {'host', 'ip', 'initiator', …}."""

    def attached_volumes(self) -> dict[str, dict[str, AttachedVolume]]:
        """Return {uuid: {volume id: {'attachment_id', 'device_name'}}} of the guests that have volumes."""

    def attach_volume(self, context: RequestContext, instance: Instance, device: VolumeDevice) -> None:
        """Attach a volume to a running or stopped guest."""

    def detach_volume(self, context: RequestContext, instance: Instance, device: VolumeDevice) -> None:
        """Detach a volume; no error if the guest does not have the volume or does not exist."""

    def swap_volume(self, context: RequestContext, instance: Instance, old: VolumeDevice, new: VolumeDevice) -> None:
        """Copy one volume to another while the guest runs, and switch the guest to the copy."""

    def rename_volume(self, context: RequestContext, instance: Instance, volume_id: str, stays: str) -> None:
        """Replace ``volume_id`` by ``stays`` in the records of a guest.

        After the migration of a volume, Block Storage renames the new volume to the id ``stays`` of the old volume.
        """


class Shares(typing.Protocol):
    """Shared file systems. A share of a stopped guest is attached at its next start. Each method is idempotent."""

    def attach_share(self, context: RequestContext, instance: Instance, share: Share) -> None:
        """Mount a share for a guest: {'share_id', 'tag', 'export_location', 'protocol', 'access' (share/api.py)}."""

    def detach_share(self, context: RequestContext, instance: Instance, share: DetachedShare) -> None:
        """Detach a share, {'share_id'}; no error if the guest does not have the share."""


class Password(typing.Protocol):
    def set_admin_password(self, instance: Instance, password: str) -> None:
        """Change the administrator's password in the guest; raises VirtError if no guest agent responds."""


class Quiesce(typing.Protocol):
    """Quiesce a guest before snapshots of its volumes. ``Snapshot.snapshot`` does not call these methods."""

    def quiesce(self, instance: Instance) -> None:
        """Flush and freeze the file systems; raises VirtError if no guest agent responds."""

    def unquiesce(self, instance: Instance) -> None:
        """Thaw the file systems; no error if they are not frozen."""


class CrashDump(typing.Protocol):
    def trigger_crash_dump(self, instance: Instance) -> None:
        """Send a non-maskable interrupt, so that the guest's kernel crashes and dumps its memory."""


class Diagnostics(typing.Protocol):
    def diagnostics(self, instance: Instance) -> GuestDiagnostics:
        """Return the resource usage of a running guest; raises GuestNotFound."""


class Interfaces(typing.Protocol):
    def attach_interface(self, context: RequestContext, instance: Instance, vif: Vif) -> None:
        """Plug a VIF (nova/objects/network_info.py) into a running or stopped guest; idempotent."""

    def detach_interface(self, context: RequestContext, instance: Instance, vif: Vif | DeletedPort) -> None:
        """Unplug a VIF; no error if the VIF or guest is missing. Raises VirtError if the guest keeps the device."""


class PortDevices(typing.Protocol):
    """``attach_interface`` and ``detach_interface`` support ports that are host devices (SR-IOV).

    ``attach_interface`` plugs all missing devices of the instance, ``detach_interface`` unplugs only the port's device.
    """


class Consoles(typing.Protocol):
    def console(self, instance: Instance, kind: str) -> ConsolePlace | None:
        """Return the address at which a proxy reaches a console of a guest.

        :param kind: 'vnc', 'spice', 'serial' or 'mks'
        :returns: None if there is no console
        :raises ConsoleTypeUnavailable: the guest has no such console
        :raises GuestNotFound:
        """


class Screenshots(typing.Protocol):
    def screenshot(self, instance: Instance) -> bytes:
        """Return an image of the first screen of a running guest: PPM or PNG, at most SCREENSHOT_BYTES.

        :raises Unsupported: the guest has no screen
        :raises GuestNotFound:
        :raises VirtError: the image is too large or does not arrive in time
        """


class Resize(typing.Protocol):
    """Cold migration to another host, or a resize on the same host, which is then both source and destination.

    The source keeps the old guest until the move is confirmed or reverted.
    """

    def accept_guest(self, context: RequestContext, instance: Instance, flavor: Flavor) -> None:
        """At the destination: check that this host can run the guest; raises VirtError if not."""

    def send_guest(self, context: RequestContext, instance: Instance, dest_host: str | None, network_info: NetworkInfo,
                   timeout: int) -> JsonObject:
        """At the source: stop the guest like ``power_off`` and keep it as a backup, which ``guests()`` does not list.

        :returns: JSON document of the guest for ``finish_migration`` at the destination
        """

    def finish_migration(self, context: RequestContext, instance: Instance, guest: JsonObject, request: SpawnRequest,
                         power_on: bool) -> None:
        """At the destination: create the guest with the instance's current flavor.

        :param guest: result of ``send_guest``
        :param power_on: start the guest afterwards
        """

    def drop_migrated(self, context: RequestContext, instance: Instance, network_info: NetworkInfo) -> None:
        """At the destination: remove the results of ``finish_migration``, but keep a backup of ``send_guest``."""

    def finish_revert_migration(self, context: RequestContext, instance: Instance, network_info: NetworkInfo,
                                block_devices: list[BlockDevice], power_on: bool) -> None:
        """At the source: restore the guest from the backup of ``send_guest``; raises GuestNotFound.

        :param block_devices: the guest's volumes, as in SpawnRequest
        """

    def confirm_migration(self, context: RequestContext, instance: Instance, network_info: NetworkInfo) -> None:
        """At the source: delete the backup of ``send_guest``; no error if it does not exist."""

    def resize_backups(self) -> list[str]:
        """Return uuids of the guests with a backup of ``send_guest`` on this host."""


class Growth(typing.Protocol):
    """Hot-plug of CPUs and memory, within the maximum of the flavor (nova/hardware/growth.py)."""

    def grow(self, instance: Instance, flavor: Flavor) -> None:
        """Increase the vCPUs and memory of a guest to the values of this flavor, which must not be smaller. Idempotent.

        :raises VirtError: the guest keeps its previous CPUs and memory
        """


class LiveMigration(typing.Protocol):
    """Live migration. The two hosts exchange data in the dict ``facts`` (MigrationFacts).

    After the checks, ``facts['numa_topology']`` is the serialized GuestTopology at the destination, or None.
    """

    def check_destination(self, instance: Instance, block_migration: bool | None,
                          disk_over_commit: bool) -> MigrationFacts:
        """At the destination: check that this host can run the guest, and return facts.

        :param block_migration: True: copy the disks. False: require shared disks. None: copy disks that are not shared
        :param disk_over_commit: compare free space with the used size of disks instead of their virtual size
        :raises MigrationPreCheckError:
        """

    def check_source(self, instance: Instance, facts: MigrationFacts) -> MigrationFacts:
        """At the source: check with the destination's facts that the guest can migrate, and return facts.

        :raises MigrationPreCheckError:
        """

    def pre_live_migration(self, context: RequestContext, instance: Instance, network_info: NetworkInfo,
                           block_devices: list[BlockDevice], facts: MigrationFacts) -> MigrationFacts:
        """At the destination: prepare to receive the guest and return facts.

        After a crash the caller repeats the call, or calls ``rollback_live_migration``.
        """

    def live_migrate(self, context: RequestContext, instance: Instance, destination: str | None,
                     facts: MigrationFacts, progress: Callable[[dict[str, int]], None]) -> None:
        """At the source: migrate the guest. Return when the guest runs only at the destination.

        :param progress: called periodically with {'memory_total_bytes', 'memory_processed_bytes',
            'memory_remaining_bytes', 'disk_total_bytes', …}. An error that it raises cancels the migration
        :raises MigrationAborted: the migration was aborted. After any error, the guest keeps running on the source
        """

    def abort_live_migration(self, instance: Instance) -> None:
        """At the source: end ``live_migrate`` with MigrationAborted; no error if no migration is in progress."""

    def force_complete_live_migration(self, instance: Instance) -> None:
        """At the source: pause the guest or switch to post-copy, so that the migration completes soon."""

    def await_live_migration(self, instance: Instance, progress: Callable[[dict[str, int]], None]) -> None:
        """At the source, after a restart: if a migration is in post-copy, wait until it has completed.

        :param progress: as in ``live_migrate``
        """

    def has_arrived(self, uuid: str) -> bool:
        """At the destination: return whether the migration is complete, so that the guest runs on this host."""

    def post_live_migration_at_source(self, context: RequestContext, instance: Instance, network_info: NetworkInfo,
                                      facts: MigrationFacts) -> None:
        """At the source: remove the files and devices of a migrated guest; no error if there are none."""

    def post_live_migration_at_destination(self, context: RequestContext, instance: Instance,
                                           network_info: NetworkInfo) -> None:
        """At the destination: make the definition of the migrated guest persistent."""

    def rollback_live_migration(self, context: RequestContext, instance: Instance, network_info: NetworkInfo,
                                facts: MigrationFacts) -> None:
        """At the destination: undo ``pre_live_migration`` for a guest that did not arrive."""

    def incoming_guests(self) -> list[str]:
        """At the destination: return uuids of prepared guests (see ``pre_live_migration``) with shared disks."""

    def discard_incoming_guest(self, uuid: str) -> None:
        """At the destination: undo ``pre_live_migration`` for one of ``incoming_guests``, but keep the shared disks."""


class ExtendVolume(typing.Protocol):
    def extend_volume(self, context: RequestContext, instance: Instance, device: VolumeDevice) -> None:
        """Make the new size of a volume visible to the guest: ``device['volume_size']`` in GiB. Idempotent."""


class VolumeCopies(typing.Protocol):
    """Full copies of attached volumes."""

    def copy_volume(self, context: RequestContext, instance: Instance, volume_id: str, create_info: dict[str, str],
                    begun: Callable[[], None] | None = None) -> None:
        """Copy the volume at one point in time into the existing file ``create_info['new_file']``.

        :param begun: called at this point in time: later writes of the guest are not in the copy
        """


class VolumeFile(typing.TypedDict):
    """Name and format of the active file of a volume: the file to which the guest writes."""

    name: str
    format: str


class AssistedSnapshots(typing.Protocol):
    """Snapshots of file-based volumes: the hypervisor adds and merges files of a backing chain for Block Storage."""

    def create_volume_snapshot(self, context: RequestContext, instance: Instance, volume_id: str,
                               create_info: dict[str, str]) -> VolumeFile:
        """Switch the guest to ``create_info['new_file']``, a qcow2 overlay of the volume's active file. Idempotent.

        :raises VirtError: the new file is not an overlay of the active file; the guest still uses the active file
        """

    def delete_volume_snapshot(self, context: RequestContext, instance: Instance, volume_id: str, snapshot_id: str,
                               delete_info: dict[str, str | None],
                               report: progress.Report = progress.ignore) -> VolumeFile:
        """Merge ``delete_info['file_to_merge']`` into its backing file ``delete_info['merge_target_file']``.

        If there is no merge target, merge the backing files above ``file_to_merge`` into the active file. If both
        are None, merge all backing files.

        :raises VirtError: the files do not exist or the merge failed; the volume's content is unchanged
        """


class HostControl(typing.Protocol):
    """Power and maintenance of the host."""

    def host_power_action(self, action: str) -> str:
        """Run 'reboot', 'shutdown' or 'startup', and return a name of the action for the API response."""

    def set_host_maintenance(self, enabled: bool) -> None:
        """Set maintenance mode, in which a host starts no new guests."""


class ImageCache(typing.Protocol):
    def cache_image(self, context: RequestContext, image_id: str) -> None:
        """Download an image into the cache, so that a later ``spawn`` needs no download.

        :raises ImageNotFound, ImageUnacceptable: this host cannot cache the image
        """


class Adoption(typing.Protocol):
    def adopt(self, context: RequestContext, instance: Instance, request: SpawnRequest) -> None:
        """Take over a guest that another program has created and that has the server's uuid.

        The guest keeps its power state and the paths of its disks.
        :raises BuildFailed: adoption is impossible; the guest is unchanged
        :raises GuestNotFound:
        """

    def let_go(self, instance: Instance) -> None:
        """Undo an incomplete ``adopt``: remove the records of the guest. The guest and its disks do not change."""


FEATURES = (Pause, Suspend, Snapshot, Rescue, StableRescue, Password, Quiesce, CrashDump, Diagnostics, Interfaces,
            Consoles, Screenshots, Volumes, Shares, Resize, Growth, LiveMigration, ExtendVolume, VolumeCopies,
            AssistedSnapshots, HostControl, ImageCache, Adoption, EncryptedDisks, EncryptedVolumes, PortDevices)


def name_of(feature: type[object]) -> str:
    """Return the capability name of a feature class, for example stable_rescue for StableRescue."""
    return re.sub('(?<!^)(?=[A-Z])', '_', feature.__name__).lower()


def missing_methods(driver: ComputeDriver) -> list[str]:
    """Return the names of required methods that a driver or the objects in its ``features`` do not implement."""
    kind = type(driver)
    missing = [name for name, method in _methods(Hypervisor) if getattr(kind, name, None) in (None, method)]
    for feature, implementation in driver.features.items():
        missing += [f'{feature.__name__}.{name}' for name, method in _methods(feature)
                    if not hasattr(implementation, name) or getattr(type(implementation), name, None) is method]
    return missing


def _methods(protocol: type[object]) -> list[tuple[str, object]]:
    return [(name, value) for name, value in vars(protocol).items()
            if isinstance(value, types.FunctionType) and not name.startswith('_')]
