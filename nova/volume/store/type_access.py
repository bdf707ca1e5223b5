"""The projects that may use a type of volumes that is not public; what others have of it already stays."""
from __future__ import annotations

import typing

from nova import exception
from nova.db.engine import Connection
from nova.db.volumes import types as db
from nova.volume.store import types

MOST = 10000                             # projects of one type


class TypeAccess:
    """
    :param database: the API database
    """

    def __init__(self, database: typing.Any) -> None:
        self._db = database

    def projects(self, kind: types.Type) -> list[str]:
        """Ids of those that may use a type.

        :raises NotFound: it is public, and has no such list
        """
        if kind['is_public']:
            raise exception.NotFound('Access list not available for public volume types.')
        with self._db.reader() as conn:
            return db.projects(conn, kind['id'])

    def allow(self, ident: str, project_id: str) -> None:
        """
        :raises VolumeTypeNotFound, BadRequest, Conflict: the project may use it already
        """
        def write(conn: Connection) -> None:
            row = _private(conn, ident)
            if len(db.projects(conn, row['id'])) >= MOST:
                raise exception.BadRequest(f'{MOST} projects may use the volume type already.')
            if not db.allow(conn, row['id'], project_id):
                raise exception.Conflict('The project may use the volume type already.')
        self._db.run(write)

    def forbid(self, ident: str, project_id: str) -> None:
        """
        :raises VolumeTypeNotFound, BadRequest, NotFound: the project may not use it anyway
        """
        def write(conn: Connection) -> None:
            row = _private(conn, ident)
            if not db.forbid(conn, row['id'], project_id):
                raise exception.NotFound('The project may not use the volume type.')
        self._db.run(write)


def _private(conn: Connection, ident: str) -> types.Type:
    row = types.changeable(conn, ident)
    if row['is_public']:
        raise exception.BadRequest('All projects may use this volume type: make it private first.')
    return row
