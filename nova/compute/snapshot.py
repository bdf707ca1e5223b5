"""Images of servers, and their consoles."""
import contextlib

from nova import exception
from nova import states
from nova.image import api as image_api
from nova.image.embedded import unfinished

CONSOLE_BYTES = 100 * 1024
# of an image that is made, and of a backup
TASKS = (states.IMAGE_SNAPSHOT_PENDING, states.IMAGE_SNAPSHOT, states.IMAGE_BACKUP, states.IMAGE_PENDING_UPLOAD,
         states.IMAGE_UPLOADING)


class Snapshot:
    """The part of the compute's manager that makes images and reads consoles; mixed into it."""

    def snapshot_instance(self, ctx, instance, image_id):
        self.queue.submit(instance.uuid, self._snapshot, ctx, instance, image_id)

    def _snapshot(self, ctx, instance, image_id):
        with self.task(ctx, instance, 'compute_snapshot_instance', running=(states.IMAGE_SNAPSHOT_PENDING,),
                       begin={'task_state': states.IMAGE_SNAPSHOT}) as task:
            task.undo(self._remove_image, task.ctx, image_id)
            if task.instance.image_id:
                self.driver.snapshot(task.ctx, task.instance, image_id, task.step)
            else:
                self.conductor.snapshot_volumes(ctx, instance_uuid=instance.uuid, image_id=image_id)
            task.ends(power_state=self.driver.power_state(task.instance))

    def abandon_snapshot(self, ctx, instance, image_id, backup_type=None, rotation=None):
        """A snapshot or backup that a restart of this service interrupted: the server is set free, its image removed.

        An image that is whole stays: its owner may have seen it already. As a backup it counts in the rotation.
        """
        self.queue.submit(instance.uuid, self._abandon, ctx, instance, image_id, backup_type, rotation)

    def _abandon(self, ctx, instance, image_id, backup_type, rotation):
        with self.task(ctx, instance, 'compute_snapshot_instance', running=TASKS) as task:
            if not image_id or not unfinished.remove(self._images_of(task), image_id):
                raise exception.VirtError(operation='make the image',
                                          reason='the service was restarted meanwhile')
            if rotation is not None:
                self._rotate_backups(task.ctx, task.instance, image_id, backup_type, rotation)
            task.ends(power_state=self.driver.power_state(task.instance))

    def _images_of(self, task):
        return image_api.BoundImages(self.images, task.ctx)

    def _remove_image(self, ctx, image_id):
        with contextlib.suppress(exception.ImageNotFound):
            self.images.delete(ctx, image_id)

    def get_console_output(self, ctx, instance, length):
        """The last ``length`` lines of the serial console, all that is kept (100 KiB) for None.

        A client that asks for a number of lines and counts them finds that number: nothing follows the last one.

        :raises InstanceNotReady: the server has no guest at the moment
        """
        try:
            output = self.driver.console_output(instance)
        except exception.GuestNotFound:
            raise exception.InstanceNotReady(instance_id=instance.uuid) from None
        text = output[-CONSOLE_BYTES:].decode('utf-8', errors='replace')
        if length is None:
            return text
        lines = text.removesuffix('\n').split('\n')
        return '\n'.join(lines[-length:]) if length > 0 else ''
