"""Image check of rebuilds: the scheduler filters decide whether a new image may run on the server's host.

A rebuild keeps the host. Without this check it would bypass every filter that checks images (CVE-2017-16239).
"""

from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Connection
from nova.conductor.cell_services import Context
from nova.conductor.servers.image_grants import ImageGrants
from nova.conductor.servers.specs import RequestSpecs
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import request_specs
from nova.db.types import ColumnValues
from nova.objects import image as objects_image
from nova.objects.image import StoredImage
from nova.objects.instance import REIMAGE


class Rebuilds:
    """Checks the images of rebuilds."""

    def __init__(self, services: CellServices, specs: RequestSpecs,
                 grants: ImageGrants) -> None:
        self._services, self._specs, self._grants = services, specs, grants

    def check_rebuild(self, ctx: Context, instance_uuid: str) -> None:
        """See interface.py. After a successful check, a repeated call never fails: the old disks may be deleted.

        :raises NoValidHost: a filter refuses the image
        """
        cell_db = self._services.cell_db
        with cell_db.reader() as conn:
            row = instances.get(conn, instance_uuid)
            arguments = instance_actions.arguments_of_open(conn, [instance_uuid]).get(instance_uuid) or {}
        previous = arguments.pop('previous', None)
        if previous is None:
            return
        spec = self._specs.get_request_spec(ctx, instance_uuid)
        restored = spec.image == previous['image']       # an earlier call of image_kept, before the task ended
        if not previous.get('other_image', True):        # the API of the previous release stores only other images
            if restored and spec.image is not None:
                spec.image = {**spec.image, 'properties': row['image_properties'],
                              'trusted_certs': row['trusted_certs']}
                self._store_image(instance_uuid, spec.image)
            cell_db.run(instance_actions.set_arguments, instance_uuid, arguments)
            return
        if restored:
            # the row of a server that boots from a volume has no image
            image_id = row['image_id'] or row['system_metadata'][REIMAGE]
            found = objects_image.stored(self._grants.images_of(ctx, instance_uuid, read=[image_id]).show(image_id))
            spec.image = {**found, 'id': row['image_id'], 'trusted_certs': row['trusted_certs']}
        self._services.scheduler.check_host(ctx, spec=spec, host=row['host'], node=row['node'])
        if restored:
            self._store_image(instance_uuid, spec.image)
        cell_db.run(instance_actions.set_arguments, instance_uuid, arguments)

    def image_kept(self, instance_uuid: str) -> ColumnValues:
        """Restore the image in the request spec after a refused rebuild; return the former columns of the server's row.

        The caller writes these when the task ends. Until then, a repeated call finds them in the action's arguments.
        """
        with self._services.cell_db.reader() as conn:
            arguments = instance_actions.arguments_of_open(conn, [instance_uuid]).get(instance_uuid) or {}
        previous = arguments.get('previous')
        if previous is None:
            return {}
        self._store_image(instance_uuid, previous['image'])
        return dict(previous['columns'])

    def _store_image(self, instance_uuid: str, image: StoredImage | None) -> None:
        """Set the image in the stored request spec."""
        def write(conn: Connection) -> None:
            spec = request_specs.get_many(conn, [instance_uuid]).get(instance_uuid)
            if spec is not None:
                spec.image = image
                request_specs.update(conn, spec)
        self._services.api_db.run(write)
