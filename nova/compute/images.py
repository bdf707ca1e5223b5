"""Images of servers, including backups, and prefetched images."""
import contextlib
import dataclasses
import logging
import time
from collections.abc import Iterator

from oslo_utils import strutils

from nova import actions
from nova import context
from nova import exception
from nova import objects
from nova import states
from nova.compute import tasks
from nova.compute import volumes
from nova.compute.host import Host
from nova.image import granted
from nova.image.embedded import incomplete
from nova.objects.image import Image
from nova.virt import driver as virt

LOG = logging.getLogger(__name__)

SNAPSHOT_POLL_INTERVAL_S = 0.5      # seconds between two checks of incomplete volume snapshots
COPY_S = 4 * 3600               # seconds after which incomplete snapshots fail the task
MAX_FREEZE_S = 10                     # maximum seconds for which file systems are frozen, while the copies begin

# states of the task that rolls back an interrupted snapshot or backup
ABANDON = dataclasses.replace(actions.ACTIONS['createImage'].frame, started=None, taken_in=(
    *actions.ACTIONS['createImage'].tasks, states.IMAGE_BACKUP))


def of_task(host: Host, task: tasks.Task) -> granted.BoundImages:
    """Return the client for the images that a task may use."""
    return granted.BoundImages(host.images, task.ctx)


def remove(host: Host, ctx: context.RequestContext, image_id: str) -> None:
    """Delete an image if it exists."""
    with contextlib.suppress(exception.ImageNotFound):
        host.images.delete(ctx, image_id)


def _take(host: Host, task: tasks.Task, image_id: str) -> None:
    """Upload the root disk of a task's server as the data of an image."""
    host.driver_with(virt.Snapshot).snapshot(task.ctx, task.instance, image_id, task.step, task.gauge())


class Snapshots:
    """Creates images and backups of servers."""

    def __init__(self, host: Host, *, volume_snapshots: volumes.VolumeSnapshots) -> None:
        self._host, self._volume_snapshots = host, volume_snapshots

    def snapshot_instance(self, ctx: context.RequestContext, instance: objects.Instance, image_id: str) -> None:
        self._host.submit(instance, self._snapshot, ctx, instance, image_id)

    def _snapshot(self, ctx: context.RequestContext, instance: objects.Instance, image_id: str) -> None:
        host = self._host
        with tasks.task(host, ctx, instance, actions.ACTIONS['createImage'].frame) as task:
            task.undo(remove, host, task.ctx, image_id)
            if task.instance.image_id:
                _take(host, task, image_id)
            else:
                self._copy_volumes(ctx, task.instance, image_id)
            task.ends(power_state=host.driver.power_state(task.instance))

    def _copy_volumes(self, ctx: context.RequestContext, instance: objects.Instance, image_id: str) -> None:
        """Create snapshots of all volumes and wait for completion; a frozen guest makes the snapshots consistent."""
        with self._volume_snapshots.copying(instance.uuid) as copies:
            with self._at_rest(instance) as rests:
                ends = time.monotonic() + MAX_FREEZE_S
                left = self._snapshot_volumes(ctx, instance.uuid, image_id)
                # stay frozen until copies on this host have begun, and snapshots of other services are complete
                while rests and left and not copies.wait(left, SNAPSHOT_POLL_INTERVAL_S):
                    if time.monotonic() > ends:
                        LOG.warning('Some volume copies of server %s have not begun after %s s: it is unfrozen.',
                                    instance.uuid, MAX_FREEZE_S)
                        break
                    left = self._check_snapshots(ctx, instance.uuid, image_id, left)
            deadline = time.monotonic() + COPY_S
            while left:
                if time.monotonic() > deadline:
                    raise exception.VirtError(operation='copy the volumes', reason=f'it took over {COPY_S} s')
                time.sleep(SNAPSHOT_POLL_INTERVAL_S)
                left = self._check_snapshots(ctx, instance.uuid, image_id, left)

    def _check_snapshots(self, ctx: context.RequestContext, instance_uuid: str, image_id: str,
                         left: list[str]) -> list[str]:
        """Return the ids of incomplete snapshots.

        If a service is away, these are still ``left``: an error would end the task, and its snapshots would be orphans.
        """
        try:
            return self._snapshot_volumes(ctx, instance_uuid, image_id)
        except exception.Unavailable as error:
            LOG.warning('Cannot check the volume copies of server %s: %s', instance_uuid, error.message)
            return left

    def _snapshot_volumes(self, ctx: context.RequestContext, instance_uuid: str, image_id: str) -> list[str]:
        """Start or check the snapshots of the server's volumes; return the ids of incomplete ones.

        If the list is empty, the image is complete too.
        """
        return self._host.volumes.snapshot_volumes(ctx, instance_uuid=instance_uuid, image_id=image_id, wait=True,
                                                   list_incomplete=True)

    @contextlib.contextmanager
    def _at_rest(self, instance: objects.Instance) -> Iterator[bool]:
        """Freeze the guest's file systems in the block if its image has a guest agent; yield whether they are frozen.

        :raises VirtError: the freeze failed, and the image has os_require_quiesce
        """
        agent, properties = self._host.driver.get_feature(virt.Quiesce), instance.image_properties or {}
        required = strutils.bool_from_string(properties.get('os_require_quiesce'))
        wanted = required or strutils.bool_from_string(properties.get('hw_qemu_guest_agent'))
        power_state = self._host.driver.power_state
        if required and agent is None:
            raise exception.GuestAgentUnavailable(operation='freeze the file systems',
                                                  reason='this hypervisor has no agents in guests')
        if not wanted or agent is None or power_state(instance) == states.SHUTDOWN:
            yield False
            return
        rests = True
        try:
            try:
                agent.quiesce(instance)
            except exception.VirtError as error:
                if required:
                    raise
                rests = False
                LOG.warning('Cannot freeze server %s while its volumes are copied: %s', instance.uuid, error.message)
            yield rests
        finally:
            with contextlib.suppress(exception.VirtError, exception.GuestNotFound):     # the guest was not frozen
                agent.unquiesce(instance)

    def backup_instance(self, ctx: context.RequestContext, instance: objects.Instance, image_id: str,
                        backup_type: str, rotation: int) -> None:
        """Create an image, and keep only the newest ``rotation`` backups of this type of the server."""
        self._host.submit(instance, self._backup, ctx, instance, image_id, backup_type, rotation)

    def _backup(self, ctx: context.RequestContext, instance: objects.Instance, image_id: str, backup_type: str,
                rotation: int) -> None:
        host = self._host
        with tasks.task(host, ctx, instance, actions.ACTIONS['createBackup'].frame) as task:
            task.undo(remove, host, task.ctx, image_id)
            _take(host, task, image_id)
            self._rotate_backups(task.ctx, task.instance, image_id, backup_type, rotation)
            task.ends(power_state=host.driver.power_state(task.instance))

    def abandon_snapshot(self, ctx: context.RequestContext, instance: objects.Instance, image_id: str | None,
                         backup_type: str | None = None, rotation: int | None = None) -> None:
        """Roll back a snapshot or backup that a restart interrupted: reset the server and delete the image.

        A complete image is kept, because its owner may have seen it. A complete backup counts for the rotation.
        """
        self._host.submit(instance, self._abandon, ctx, instance, image_id, backup_type, rotation)

    def _abandon(self, ctx: context.RequestContext, instance: objects.Instance, image_id: str | None,
                 backup_type: str | None, rotation: int | None) -> None:
        host = self._host
        with tasks.task(host, ctx, instance, ABANDON) as task:
            if not image_id or not incomplete.remove(of_task(host, task), image_id):
                raise exception.VirtError(operation='make the image',
                                          reason='the service was restarted meanwhile')
            if rotation is not None:
                self._rotate_backups(task.ctx, task.instance, image_id, backup_type, rotation)
            task.ends(power_state=host.driver.power_state(task.instance))

    def _rotate_backups(self, ctx: context.RequestContext, instance: objects.Instance, image_id: str,
                        backup_type: str | None, rotation: int) -> None:
        """Delete all but the newest ``rotation`` backups of this type of a server.

        Only backups of the same project are deleted: any user can write another server's id into image properties.
        """
        images = self._host.images
        wanted = {'image_type': 'backup', 'backup_type': backup_type, 'instance_uuid': instance.uuid,
                  'owner': images.show(ctx, image_id)['owner'], 'status': 'active'}
        found: list[Image] = []
        marker: str | None = None
        while page := images.backups(ctx, wanted, marker):
            found += page
            marker = page[-1]['id']
        for image in reversed(found[rotation:]):         # the new backup last: a repetition reads its owner
            try:
                images.delete(ctx, image['id'])
            except exception.ImageNotFound:
                pass
            except exception.NovaException as error:          # a protected backup cannot be deleted
                LOG.warning('Cannot delete backup %s of server %s: %s', image['id'], instance.uuid, error.message)


class ImageCache:
    """Fetches images into the cache of this host before a server needs them."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def cache_images(self, ctx: context.RequestContext, image_ids: list[str], grant: str | None = None) -> None:
        for image_id in image_ids:
            self._host.queue.submit(f'image:{image_id}', self._cache_image, ctx.granted(grant), image_id)

    def _cache_image(self, ctx: context.RequestContext, image_id: str) -> None:
        """Fetch an image. If a crash or a temporary failure prevents an answer, the conductor repeats the request."""
        reason = None
        try:
            self._host.driver_with(virt.ImageCache).cache_image(ctx, image_id)
        except (exception.NotFound, exception.BadRequest) as error:
            LOG.warning('Cannot fetch image %s in advance: %s', image_id, error.message)
            reason = error.message
        self._host.conductor.image_cached(ctx, host=self._host.name, image_id=image_id, reason=reason)
