"""A rebuild with another image asks the filters whether the image may run on the server's host.

The scheduler has no part in a rebuild otherwise: without this question it would be a way around every filter that
looks at images (CVE-2017-16239).
"""
from nova.db.servers import instance_actions
from nova.db.servers import instances
from nova.db.servers import request_specs


class Rebuilder:
    """The part of the conductor's manager for rebuilds; mixed into it.

    Needs ``self._cell_db``, ``self._api_db``, ``self._scheduler`` and image_grants.Granter.
    """

    def check_rebuild(self, ctx, instance_uuid):
        """See interface.py. What was allowed once is not asked again: the old disks may be gone by then."""
        with self._cell_db.reader() as conn:
            row = instances.get(conn, instance_uuid)
            arguments = instance_actions.arguments_of_open(conn, [instance_uuid]).get(instance_uuid) or {}
        previous = arguments.pop('previous', None)
        if previous is None:
            return
        spec = self.get_request_spec(ctx, instance_uuid)
        if (spec.image or {}).get('id') != row['image_id']:
            spec.image = self._images_of(ctx, instance_uuid, read=[row['image_id']]).show(row['image_id'])
        self._scheduler.check_host(ctx, spec=spec, host=row['host'], node=row['node'])
        self._cell_db.run(instance_actions.set_arguments, instance_uuid, arguments)

    def image_kept(self, instance_uuid):
        """Columns of a server whose task fails: a rebuild that was never allowed leaves it the image that it has.

        Not before the task ends: who asks again, because an answer was lost, is told the same of the same image.
        """
        with self._cell_db.reader() as conn:
            arguments = instance_actions.arguments_of_open(conn, [instance_uuid]).get(instance_uuid) or {}
        previous = arguments.get('previous')
        if previous is None:
            return {}

        def write(conn):
            spec = request_specs.get_many(conn, [instance_uuid]).get(instance_uuid)
            if spec is not None:
                spec.image = previous['image']
                request_specs.update(conn, spec)
        self._api_db.run(write)
        return previous['columns']
