"""Volumes and shares on this host: for builds and moves of servers, and for later attachments."""
import collections.abc
import contextlib
import functools
import logging
import threading
import time
import typing

from nova import context
from nova import exception
from nova.json_types import JsonObject
from nova import objects
from nova.objects.block_device import BlockDevice
from nova.objects.block_device import VolumeDevice
from nova import states
from nova.compute import background_actions
from nova.compute import device_addresses
from nova.compute import queue
from nova.compute.host import Host
from nova.hardware import disks
from nova.virt import driver as virt

LOG = logging.getLogger(__name__)

POLL_S = 1           # seconds between two checks of volumes that are being created
REPORT_S = 5         # seconds between two progress reports of a merge
MERGED = 89          # progress in percent at the end of a merge; 90 tells the volume service that the merge is complete

Devices = list[BlockDevice]


class Volumes:
    """Connects volumes to this host and attaches them to guests."""

    def __init__(self, host: Host) -> None:
        self._host = host

    # ---- all volumes of a server

    def connect(self, ctx: context.RequestContext, server: objects.Instance, spec: objects.RequestSpec) -> Devices:
        """Return the server's block devices: local disks of the request, and volumes connected to this host.

        :raises BuildFailed: a volume does not become usable in time, or the driver cannot attach volumes
        :raises ServiceStopping: the next start of the service continues the task
        """
        host = self._host
        requested = spec.block_devices or []
        local = [device for device in requested if device.get('destination_type') != 'volume']
        if server.vm_state == states.BUILDING and len(local) == len(requested):
            return local
        deadline = time.monotonic() + host.conf.volume.ready_timeout
        while True:
            volumes = host.volumes.prepare_volumes(ctx, instance_uuid=server.uuid, connector=self.connector())
            waiting = [str(device['volume_id']) for device in volumes if device['connection_info'] is None]
            if not waiting:
                return [*local, *volumes]
            if time.monotonic() > deadline:
                raise exception.BuildFailed(instance_id=server.uuid, reason='volumes were not ready in time: '
                                            + ', '.join(waiting))
            if host.stopping.wait(POLL_S):
                raise exception.ServiceStopping(instance_id=server.uuid)

    def connector(self) -> JsonObject | None:
        """Return the connector of this host for volume services, or None if the driver cannot attach volumes."""
        volumes = self._host.driver.get_feature(virt.Volumes)
        return volumes.volume_connector() if volumes else None

    def complete(self, ctx: context.RequestContext, server: objects.Instance, devices: Devices) -> None:
        """Mark the volumes of a running guest as in use."""
        if any(device.get('destination_type') == 'volume' for device in devices):
            self._host.volumes.complete_volumes(ctx, instance_uuid=server.uuid)
        device_addresses.record(self._host, ctx, server, device_addresses.has_tags((*server.network_info, *devices)))

    def disconnect(self, ctx: context.RequestContext, server: objects.Instance,
                   devices: Devices | None = None) -> None:
        """Disconnect the server's volumes from this host; they remain attached to the server.

        :param devices: result of ``connect``; None: unknown
        """
        if devices is None or any(device.get('destination_type') == 'volume' for device in devices):
            self._host.volumes.disconnect_volumes(ctx, instance_uuid=server.uuid)

    # ---- one volume

    def attach_volume(self, ctx: context.RequestContext, instance: objects.Instance, bdm_uuid: str) -> None:
        self._host.submit(instance, self._attach_volume, ctx, instance, bdm_uuid)

    def _attach_volume(self, ctx: context.RequestContext, instance: objects.Instance, bdm_uuid: str) -> None:
        """Attach a volume. After a crash the task is repeated, so each step must be idempotent."""
        host = self._host
        with _recorded(), background_actions.action(host, ctx, instance, 'compute_attach_volume') as current:
            server, which = current.instance, {'instance_uuid': instance.uuid, 'bdm_uuid': bdm_uuid}
            plugged = list[VolumeDevice]()
            current.undo(self._take_back, ctx, current, bdm_uuid, plugged)
            device = host.volumes.connect_volume(ctx, connector=self.connector(), **which)
            driver = host.driver_with(virt.Volumes)
            plugged.append(device)
            driver.attach_volume(ctx, server, device)
            host.volumes.volume_attached(ctx, **which)
            device_addresses.record(host, ctx, server, device_addresses.has_tags([device]))

    def _take_back(self, ctx: context.RequestContext, current: background_actions.BackgroundAction, bdm_uuid: str,
                   plugged: list[VolumeDevice]) -> None:
        """Detach the volume and release it. If the guest keeps the disk, the server keeps the volume."""
        for device in plugged:
            current.insists = True
            self._host.driver_with(virt.Volumes).detach_volume(ctx, current.instance, device)
            current.insists = False
        self._host.volumes.volume_detached(ctx, instance_uuid=current.instance.uuid, bdm_uuid=bdm_uuid)

    def detach_volume(self, ctx: context.RequestContext, instance: objects.Instance, bdm_uuid: str) -> None:
        self._host.submit(instance, self._detach_volume, ctx, instance, bdm_uuid)

    def _detach_volume(self, ctx: context.RequestContext, instance: objects.Instance, bdm_uuid: str) -> None:
        host = self._host
        with _recorded(), background_actions.action(host, ctx, instance, 'compute_detach_volume') as current:
            which = {'instance_uuid': instance.uuid, 'bdm_uuid': bdm_uuid}
            try:
                device = host.volumes.get_volume_device(ctx, **which)
            except exception.InstanceChanged:
                return                   # already detached by an action that a crash interrupted
            current.undo(host.volumes.volume_detach_failed, ctx, **which)
            host.driver_with(virt.Volumes).detach_volume(ctx, current.instance, device)
            current.keep()
            host.volumes.volume_detached(ctx, **which)

    def swap_volume(self, ctx: context.RequestContext, instance: objects.Instance, bdm_uuid: str,
                    new_volume_id: str, new_attachment_id: str) -> None:
        self._host.submit(instance, self._swap_volume, ctx, instance, bdm_uuid, new_volume_id,
                          new_attachment_id)

    def _swap_volume(self, ctx: context.RequestContext, instance: objects.Instance, bdm_uuid: str,
                     new_volume_id: str, new_attachment_id: str) -> None:
        host = self._host
        with _recorded(), background_actions.action(host, ctx, instance, 'compute_swap_volume') as current:
            which = {'instance_uuid': instance.uuid, 'bdm_uuid': bdm_uuid, 'new_volume_id': new_volume_id,
                     'new_attachment_id': new_attachment_id}
            device = host.volumes.get_volume_device(ctx, instance_uuid=instance.uuid, bdm_uuid=bdm_uuid)
            info = device['connection_info']
            if device['attachment_id'] != new_attachment_id:  # not yet swapped by an attempt that a crash interrupted
                current.undo(host.volumes.volume_swap_failed, ctx, **which)
                info = host.volumes.connect_new_volume(ctx, attachment_id=new_attachment_id,
                                                       connector=self.connector(), device_name=device['device_name'])
                new: VolumeDevice = {**device, 'volume_id': new_volume_id, 'attachment_id': new_attachment_id,
                       'connection_info': info}
                host.driver_with(virt.Volumes).swap_volume(ctx, current.instance, device, new)
            current.keep()
            stays = host.volumes.volume_swapped(ctx, connection_info=info, **which)
            if stays != new_volume_id:
                host.driver_with(virt.Volumes).rename_volume(ctx, current.instance, new_volume_id, stays)


class _Copies:
    """Volume copies of a server that run in the background; a task of the server waits until they have begun."""

    def __init__(self) -> None:
        self._begun: set[str] = set()
        self._changed = threading.Condition()

    def begin(self, snapshot_id: str) -> None:
        """Record that the copy for a snapshot has begun (later writes of the guest are not in it), or has failed."""
        with self._changed:
            self._begun.add(snapshot_id)
            self._changed.notify_all()

    def wait(self, snapshot_ids: collections.abc.Iterable[str], timeout_s: float) -> bool:
        """Wait until the copies for all of these snapshots have begun; return False after ``timeout_s``."""
        wanted = set(snapshot_ids)
        with self._changed:
            return self._changed.wait_for(lambda: wanted <= self._begun, timeout_s)


class VolumeSnapshots:
    """Copies volumes, and creates and merges snapshot files for the volume service."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._beside: dict[str, _Copies] = {}

    @contextlib.contextmanager
    def copying(self, uuid: str) -> collections.abc.Iterator[_Copies]:
        """Copy volumes outside of the server's queue, because the task in the with block waits for the copies."""
        copies = self._beside[uuid] = _Copies()
        try:
            yield copies
        finally:
            del self._beside[uuid]

    def create_volume_snapshot(self, ctx: context.RequestContext, instance: objects.Instance, volume_id: str,
                               create_info: dict[str, str]) -> None:
        copies, snapshot_id = self._beside.get(instance.uuid), create_info['snapshot_id']

        def make(begun: typing.Callable[[], None] | None = None) -> None:
            if create_info.get('type') == disks.COPY:
                self._host.driver_with(virt.VolumeCopies).copy_volume(ctx, instance, volume_id, create_info, begun)
            else:
                self._note(ctx, instance, volume_id, self._host.driver_with(
                    virt.AssistedSnapshots).create_volume_snapshot(ctx, instance, volume_id, create_info))
        if copies is None:
            self._host.submit(instance, self._work, ctx, snapshot_id, 'creating', make)
            return
        begin = functools.partial(copies.begin, snapshot_id)

        def work() -> None:
            try:
                make(begin)
            finally:
                begin()
        # a queue for each guest, because QEMU copies one disk of a guest at a time
        self._host.queue.submit(f'{instance.uuid} {queue.COPIES}', self._work, ctx, snapshot_id, 'creating', work,
                                build=queue.COPIES, project_id=instance.project_id)

    def delete_volume_snapshot(self, ctx: context.RequestContext, instance: objects.Instance, volume_id: str,
                               snapshot_id: str, delete_info: dict[str, str | None]) -> None:
        reported_at = time.monotonic()

        def report(percent: int) -> None:
            nonlocal reported_at
            if time.monotonic() - reported_at >= REPORT_S:
                reported_at = time.monotonic()
                self._host.volumes.volume_snapshot_status(ctx, snapshot_id=snapshot_id, status='deleting',
                                                          progress=f'{percent * MERGED // 100}%')
        self._host.submit(instance, self._work, ctx, snapshot_id, 'deleting', lambda: self._note(
            ctx, instance, volume_id, self._host.driver_with(virt.AssistedSnapshots).delete_volume_snapshot(
                ctx, instance, volume_id, snapshot_id, delete_info, report)))

    def _note(self, ctx: context.RequestContext, instance: objects.Instance, volume_id: str,
              file: virt.VolumeFile) -> None:
        """Record the new file of a volume in its connection_info, from which this host builds the guest later."""
        self._host.volumes.volume_file_changed(ctx, instance_uuid=instance.uuid, volume_id=volume_id, file=file)

    def _work(self, ctx: context.RequestContext, snapshot_id: str, status: str,
              work: typing.Callable[[], typing.Any]) -> None:
        """Run the work and report progress or failure to the volume service, which waits for the result."""
        try:
            work()
            progress = '90%'
        except Exception as error:
            LOG.warning('Snapshot %s: %s', snapshot_id, error, exc_info=not isinstance(error, exception.NovaException))
            status, progress = f'error_{status}' if status == 'deleting' else 'error', '0%'
        self._host.volumes.volume_snapshot_status(ctx, snapshot_id=snapshot_id, status=status, progress=progress)


SHARE_ATTACHED, SHARE_FAILED = 'attached', 'error'


class Shares:
    """Attaches and detaches shares of a stopped server; its guest mounts them at its next start."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def attach_share(self, ctx: context.RequestContext, instance: objects.Instance, share_id: str) -> None:
        self._host.submit(instance, self._attach_share, ctx, instance, share_id)

    def _attach_share(self, ctx: context.RequestContext, instance: objects.Instance, share_id: str) -> None:
        host = self._host
        with _recorded(), background_actions.action(host, ctx, instance, 'compute_attach_share') as current:
            which = {'instance_uuid': instance.uuid, 'share_id': share_id}
            current.undo(host.volumes.share_attached, ctx, status=SHARE_FAILED, **which)
            mapping = host.volumes.allow_share(ctx, host=host.name, **which)
            driver = host.driver_with(virt.Shares)
            current.undo(driver.detach_share, ctx, current.instance, mapping)
            driver.attach_share(ctx, current.instance, mapping)
            host.volumes.share_attached(ctx, status=SHARE_ATTACHED, **which)

    def detach_share(self, ctx: context.RequestContext, instance: objects.Instance, share_id: str) -> None:
        self._host.submit(instance, self._detach_share, ctx, instance, share_id)

    def _detach_share(self, ctx: context.RequestContext, instance: objects.Instance, share_id: str) -> None:
        host = self._host
        with _recorded(), background_actions.action(host, ctx, instance, 'compute_detach_share') as current:
            which = {'instance_uuid': instance.uuid, 'share_id': share_id}
            current.undo(host.volumes.share_attached, ctx, status=SHARE_FAILED, **which)
            host.driver_with(virt.Shares).detach_share(ctx, current.instance, {'share_id': share_id})
            current.keep()
            host.volumes.share_detached(ctx, host=host.name, **which)


@contextlib.contextmanager
def _recorded() -> collections.abc.Iterator[None]:
    """Suppress an error, because the action record contains the error and no caller waits for the result."""
    try:
        yield
    except (exception.InstanceChanged, exception.InstanceNotFound):
        raise
    except exception.NovaException:
        return
