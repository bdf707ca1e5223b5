"""Image check of rebuilds: the scheduler filters decide whether a new image may run on the server's host.

A rebuild does not select a host. Without this check it would bypass every filter that checks images (CVE-2017-16239).
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


class Rebuilds:
    """Checks the images of rebuilds."""

    def __init__(self, services: CellServices, specs: RequestSpecs,
                 grants: ImageGrants) -> None:
        self._services, self._specs, self._grants = services, specs, grants

    def check_rebuild(self, ctx: Context, instance_uuid: str) -> None:
        """See interface.py. A repeated call checks nothing, because the host may have deleted the old disks already.

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
        image_id = row['image_id']
        if image_id is not None and (spec.image or {}).get('id') != image_id:
            spec.image = self._grants.images_of(ctx, instance_uuid, read=[image_id]).show(image_id)
        self._services.scheduler.check_host(ctx, spec=spec, host=row['host'], node=row['node'])
        cell_db.run(instance_actions.set_arguments, instance_uuid, arguments)

    def image_kept(self, instance_uuid: str) -> ColumnValues:
        """Restore the image in the request spec after a refused rebuild; return the columns of the previous image.

        The caller writes the columns when the task ends. Until then a repeated check gives the same result.
        """
        with self._services.cell_db.reader() as conn:
            arguments = instance_actions.arguments_of_open(conn, [instance_uuid]).get(instance_uuid) or {}
        previous = arguments.get('previous')
        if previous is None:
            return {}

        def write(conn: Connection) -> None:
            spec = request_specs.get_many(conn, [instance_uuid]).get(instance_uuid)
            if spec is not None:
                spec.image = previous['image']
                request_specs.update(conn, spec)
        self._services.api_db.run(write)
        return dict(previous['columns'])
