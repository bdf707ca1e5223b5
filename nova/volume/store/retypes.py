"""Change the type of existing volumes. Their data is not moved or changed."""
from nova import context as nova_context
from nova import exception
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.projects import quotas
from nova.db.tables.volume import volumes
from nova.db.volumes import volumes as db
from nova.volume.store import limits as volume_limits
from nova.volume.store import rows
from nova.volume.store import types

STATUSES = ('available', 'in-use')


class Retypes:
    """Type changes.

    :param database: the API database
    """

    def __init__(self, database: Database, limits: volume_limits.Limits) -> None:
        self._db, self._limits = database, limits

    def retype(self, ctx: nova_context.RequestContext, volume_id: str, name: str) -> None:
        """Change the type of a volume.

        :raises VolumeNotFound, VolumeTypeNotFound:
        :raises InvalidVolume: status or attachments of the volume do not permit the change
        :raises BadRequest: the volume already has the type, the backend does not support it, or encryption would change
        :raises InvalidInput: the type is not available in the zone of the volume
        :raises QuotaExceeded: the project may not have more volumes of the type
        """
        def write(conn: Connection) -> None:
            row = rows.volume(conn, ctx, volume_id, lock=True)
            wanted = types.find(conn, name, ctx.sees, lock=True)
            if wanted['name'] == row['volume_type']:           # as Cinder does
                raise exception.BadRequest(f'The volume already has type {wanted["name"]}.')
            types.check_backend(wanted)
            types.zone_of(wanted, row['availability_zone'], row['availability_zone'])
            if row['key_id'] or wanted['encryption']:
                raise exception.BadRequest('Encryption cannot be changed by a retype. Copy the data to a volume of the '
                                           'other type.')
            if row['status'] not in STATUSES:
                raise exception.InvalidVolume(reason=f'Volume status must be {" or ".join(STATUSES)}, but it is '
                                                     f'{row["status"]}.')
            multiattach = types.is_multiattach(wanted)
            if multiattach != bool(row['multiattach']) and row['status'] != 'available':
                raise exception.InvalidVolume(reason='multiattach can be changed only while the volume is available.')
            quotas.lock(conn, row['project_id'])
            self._limits.check_type(conn, row['project_id'], wanted, 'volumes', row['size'])
            db.update(conn, volumes, row['id'], {'volume_type': wanted['name'], 'multiattach': multiattach})
        self._db.run(write)
