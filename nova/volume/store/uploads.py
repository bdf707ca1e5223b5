"""Images created from volumes (``openstack image create --volume``)."""
import contextlib
import functools
import logging
from typing import cast

from nova import context as nova_context
from nova import exception
from nova.db import engine
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.tables import rows as db_rows
from nova.db.tables.volume import volumes
from nova.db.volumes import volumes as db
from nova.objects import image as image_objects
from nova.objects.image import Image
from nova.objects.image import ImageValues
from nova.volume import api
from nova.volume.store import jobs
from nova.volume.store import files as volume_files
from nova.volume.store import rows

LOG = logging.getLogger(__name__)

UPLOADING = 'uploading'
FORMATS = ('raw', 'qcow2')               # formats of new images
# image metadata of a volume that a new image does not inherit
_OWN = image_objects.NOT_INHERITED | {'container_format', 'disk_format', 'min_disk', 'min_ram', 'size', 'checksum',
                                      'image_id', 'image_name'}


class Uploads:
    """Uploads of volumes as images. The status 'uploading' blocks other operations that would change the data.

    :param database: the API database
    :param volume_jobs: schedules the uploads
    """

    def __init__(self, database: Database, files: volume_files.VolumeFiles, volume_jobs: jobs.VolumeJobs,
                 images: api.Images) -> None:
        self._db, self._files, self._jobs, self._images = database, files, volume_jobs, images

    def begin(self, ctx: nova_context.RequestContext, volume_id: str, disk_format: str,
              values: ImageValues) -> tuple[rows.Volume, Image]:
        """Create an image and start the upload; return (volume, image).

        :param values: name, visibility and protected of the image
        :raises InvalidVolume: the volume is attached, or an operation is in progress
        :raises Forbidden, BadRequest, QuotaExceeded: the caller may not create such an image
        """
        def reserve(conn: Connection) -> rows.Volume:
            row = rows.volume(conn, ctx, volume_id, lock=True)
            if row['status'] != jobs.AVAILABLE:
                raise exception.InvalidVolume(reason=f'Volume {row["id"]} status must be available, but it is '
                                                     f'{row["status"]}. For a volume in use, create a snapshot, a '
                                                     'volume from it, and an image of that volume.')
            if row['key_id']:
                raise exception.InvalidVolume(reason='it is encrypted, but its image would not be.')
            return rows.with_attachments(conn, [rows.change(conn, volumes, row, {'status': UPLOADING})])[0]

        def undo() -> None:
            if not self._jobs.is_busy(volume_id):        # busy: another upload
                self._end(volume_id)
        with engine.undone_if_unanswered(undo):
            row = self._db.run(reserve)
        try:
            properties = {
                name: str(value) for name, value in row['image_metadata'].items() if name not in _OWN}
            image = self._images.create(ctx, {**values, 'disk_format': disk_format, 'container_format': 'bare',
                                              'min_disk': row['size'], 'properties': properties})
        except BaseException:
            self._end(row['id'])
            raise
        self._jobs.work(row, functools.partial(self._upload, ctx, row['id'], image, disk_format))
        return row, image

    def _upload(self, ctx: nova_context.RequestContext, volume_id: str, image: Image, disk_format: str) -> None:
        image_id = image['id']
        with self._db.reader() as conn:
            row = rows.find_volume(conn, volume_id)
        try:
            if row is None or row['status'] != UPLOADING:
                raise exception.InvalidVolume(reason='it is gone, or its status was reset.')
            with self._files.as_image(self._files.volume(volume_id), disk_format) as path:
                self._images.upload(ctx, image_id, path, disk_format)
        except Exception as error:
            known = isinstance(error, exception.NovaException)
            LOG.warning('Cannot create image %s from volume %s: %s', image_id, volume_id, error, exc_info=not known)
            with contextlib.suppress(exception.NovaException):   # without the deletion, clients would wait for the data
                if image['protected']:
                    self._images.update(ctx, image_id, {'protected': False})
                self._images.delete(ctx, image_id)
        finally:
            self._end(volume_id)

    def _end(self, volume_id: str) -> None:
        self._db.run(db.update, volumes, volume_id, {'status': jobs.AVAILABLE}, statuses=[UPLOADING])

    def recover(self) -> None:
        """Make volumes available again after a crash has interrupted their uploads.

        The uploads are not repeated, because the caller's permissions may have changed. The images stay 'queued'.
        """
        for row in self._uploading():
            self._end(row['id'])

    def resume(self) -> None:
        """Make volumes available again if their job has ended while the database was away."""
        for row in self._uploading():
            if self._jobs.is_abandoned(row, jobs.RESUME_S):
                self._end(row['id'])

    def _uploading(self) -> list[db_rows.VolumesRow]:
        with self._db.reader() as conn:
            return cast('list[db_rows.VolumesRow]', db.in_statuses(conn, volumes, [UPLOADING]))
