"""Other types for volumes that are there. Their blocks stay where and as they are."""
from __future__ import annotations

import typing

from nova import context as nova_context
from nova import exception
from nova.db.engine import Connection
from nova.db.tables.volume import volumes
from nova.db.volumes import volumes as db
from nova.volume.store import rows
from nova.volume.store import types

STATUSES = ('available', 'in-use')


class Retypes:
    """
    :param database: the API database
    """

    def __init__(self, database: typing.Any) -> None:
        self._db = database

    def retype(self, ctx: nova_context.RequestContext, volume_id: str, name: str) -> None:
        """Give a volume another type.

        :raises VolumeNotFound, VolumeTypeNotFound:
        :raises InvalidVolume: its status, or what servers have of it, forbids it
        :raises BadRequest: it has that type, or its blocks would have to be written again
        """
        def write(conn: Connection) -> None:
            row = rows.volume(conn, ctx, volume_id, lock=True)
            wanted = types.find(conn, name, ctx.sees, lock=True)
            if wanted['name'] == row['volume_type']:           # as the Block Storage service
                raise exception.BadRequest(f'The volume has the type {wanted["name"]} already.')
            if row['key_id'] or wanted['encryption']:
                raise exception.BadRequest('A volume is encrypted from its first block on, or never: it keeps its '
                                           'type. Copy what is on it, in a server, to a volume of the other type.')
            if row['status'] not in STATUSES:
                raise exception.InvalidVolume(reason=f'Volume status must be {" or ".join(STATUSES)}, but it is '
                                                     f'{row["status"]}.')
            multiattach = types.is_multiattach(wanted)
            if multiattach != bool(row['multiattach']) and row['status'] != 'available':
                raise exception.InvalidVolume(reason='whether several servers may have it at once changes while no '
                                                     'server has it.')
            db.update(conn, volumes, row['id'], {'volume_type': wanted['name'], 'multiattach': multiattach})
        self._db.run(write)
