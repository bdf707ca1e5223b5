"""Backups: images of a server of which only the newest few of a type are kept."""
import logging

from nova import exception
from nova import states

LOG = logging.getLogger(__name__)


class Backup:
    """The part of the compute's manager that makes backups; mixed into it."""

    def backup_instance(self, ctx, instance, image_id, backup_type, rotation):
        self.queue.submit(instance.uuid, self._backup, ctx, instance, image_id, backup_type, rotation)

    def _backup(self, ctx, instance, image_id, backup_type, rotation):
        with self.task(ctx, instance, 'compute_backup_instance', running=(states.IMAGE_BACKUP,)) as task:
            task.undo(self._remove_image, task.ctx, image_id)
            self.driver.snapshot(task.ctx, task.instance, image_id, task.step)
            self._rotate_backups(task.ctx, task.instance, image_id, backup_type, rotation)
            task.ends(power_state=self.driver.power_state(task.instance))

    def _rotate_backups(self, ctx, instance, image_id, backup_type, rotation):
        """Delete all but the newest ``rotation`` backups of this type of a server.

        Those of the project that made this one: anybody can write another server's id into an image of his own.
        """
        wanted = {'image_type': 'backup', 'backup_type': backup_type, 'instance_uuid': instance.uuid,
                  'owner': self.images.show(ctx, image_id)['owner'], 'status': 'active'}
        found, marker = [], None
        while True:
            page = self.images.backups(ctx, wanted, marker)
            found += page
            if not page:
                break
            marker = page[-1]['id']
        for image in reversed(found[rotation:]):         # the new one last: whose they are is seen from it
            try:
                self.images.delete(ctx, image['id'])
            except exception.ImageNotFound:
                pass
            except exception.NovaException as error:          # a protected one stays
                LOG.warning('Backup %s of server %s is not deleted: %s', image['id'], instance.uuid, error.message)
