"""What the compute service needs of a hypervisor: a dozen required methods, and features as mixins.

A driver inherits ``ComputeDriver`` and the mixins it can do. Its capabilities are computed from them, so that flag
and method cannot disagree. Every method is idempotent: called again after a crash it finishes what was begun.
A driver knows no database and no RPC; it is handed what it needs.
"""
import dataclasses
import typing


@dataclasses.dataclass
class NodeResources:
    """What one node has; becomes a row of compute_nodes. Sizes in MiB and GiB."""

    node: str
    vcpus: int
    memory_mb: int
    local_gb: int
    hypervisor_type: str
    hypervisor_version: int
    host_ip: str | None = None
    cpu_info: dict = dataclasses.field(default_factory=dict)
    disk_available_least: int | None = None
    supported_instances: list = dataclasses.field(default_factory=list)   # [[arch, hypervisor type, vm mode]]
    uptime: str | None = None


class ImageSource(typing.Protocol):
    """Where a driver gets image bytes from; handed to it by the compute service."""

    def show(self, image_id) -> dict:
        """{'id', 'disk_format', 'container_format', 'size', 'checksum', 'os_hash_value', 'properties', …}."""

    def download(self, image_id, path) -> None:
        """Write the image's bytes to ``path``, checksum verified; raises ImageNotFound, ImageUnacceptable."""

    def upload(self, image_id, path, disk_format) -> None:
        """Upload the file as the data of an image that exists and is queued."""


@dataclasses.dataclass
class SpawnRequest:
    """What ``spawn`` gets besides the instance.

    image           dict as ImageSource.show gives it, or None when booting from a volume
    network_info    list of VIFs (nova/network/model.py)
    block_devices   list of dicts (rows of block_device_mappings)
    injected_files  [(path, bytes)]
    admin_password  str or None
    config_drive    {path in the drive: bytes}, or None when the server gets no config drive
    """

    image: dict | None
    network_info: list
    block_devices: list = dataclasses.field(default_factory=list)
    injected_files: list = dataclasses.field(default_factory=list)
    admin_password: str | None = None
    config_drive: dict | None = None


class ComputeDriver:
    """Required of every driver. ``instance`` is an objects.Instance (``uuid``, ``name``, ``flavor``, …).

    :param conf: the configuration
    :param host: name of the compute host
    :param images: an ImageSource
    """

    def __init__(self, conf, host, images):
        self.conf, self.host, self.images = conf, host, images
        self.on_event = lambda uuid, power_state: None

    @classmethod
    def capabilities(cls):
        """{feature: bool} of every mixin there is."""
        return {mixin.feature: issubclass(cls, mixin) for mixin in MIXINS}

    def init_host(self):
        """Connect, check that guests can run here, clean what a crash left that belongs to nobody."""
        raise NotImplementedError

    def watch(self, callback):
        """Call ``callback(uuid, power_state)`` whenever a guest changes by itself."""
        self.on_event = callback

    def stop(self):
        """Let go of the hypervisor; guests go on."""

    def resources(self):
        """[NodeResources] of this host, as they are now."""
        raise NotImplementedError

    def guests(self):
        """{instance uuid: power state} of every guest of ours on this host."""
        raise NotImplementedError

    def power_state(self, instance):
        """One of states' power states; raises GuestNotFound."""
        raise NotImplementedError

    def spawn(self, context, instance, request: SpawnRequest):
        """Make its disks, define the guest and start it. Raises BuildFailed, ImageUnacceptable, VirtError."""
        raise NotImplementedError

    def destroy(self, context, instance, network_info, keep_disks=False):
        """Stop the guest and remove all that belongs to it; no error when nothing is there."""
        raise NotImplementedError

    def power_on(self, context, instance, network_info):
        """Start the guest, defining it again when it is gone."""
        raise NotImplementedError

    def power_off(self, instance, timeout=0):
        """Ask the guest to shut down, wait ``timeout`` seconds, then switch it off."""
        raise NotImplementedError

    def reboot(self, context, instance, network_info, hard):
        """Soft: through the guest's system, hard when that does not work; hard: power cycle."""
        raise NotImplementedError

    def console_output(self, instance):
        """The bytes that its serial console printed, at most the last 100 KiB."""
        raise NotImplementedError


class Pause:
    feature = 'pause'

    def pause(self, instance):
        raise NotImplementedError

    def unpause(self, instance):
        raise NotImplementedError


class Suspend:
    feature = 'suspend'

    def suspend(self, instance):
        """Memory to disk, guest off."""
        raise NotImplementedError

    def resume(self, context, instance, network_info):
        raise NotImplementedError


class Snapshot:
    feature = 'snapshot'

    def snapshot(self, context, instance, image_id, progress):
        """Upload the root disk as the data of ``image_id``; ``progress(task_state)`` tells where it is."""
        raise NotImplementedError


MIXINS = (Pause, Suspend, Snapshot)
