"""Access of projects to private volume types. Removing access does not affect existing volumes."""
from nova import exception
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.volumes import types as db
from nova.volume.store import types

MAX_PROJECTS = 10000                             # maximum number of projects with access to a type


class TypeAccess:
    """Access to private types.

    :param database: the API database
    """

    def __init__(self, database: Database) -> None:
        self._db = database

    def projects(self, kind: types.Type) -> list[str]:
        """Return the ids of projects with access to a type.

        :raises NotFound: the type is public
        """
        if kind['is_public']:
            raise exception.NotFound('Access list not available for public volume types.')
        with self._db.reader() as conn:
            return db.projects(conn, kind['id'])

    def allow(self, ident: str, project_id: str) -> None:
        """Give a project access to a type; raises VolumeTypeNotFound, BadRequest, Conflict (access exists)."""
        def write(conn: Connection) -> None:
            row = _private(conn, ident)
            if len(db.projects(conn, row['id'])) >= MAX_PROJECTS:
                raise exception.BadRequest(f'{MAX_PROJECTS} projects already have access to the volume type.')
            if not db.allow(conn, row['id'], project_id):
                raise exception.Conflict('The project already has access to the volume type.')
        self._db.run(write)

    def forbid(self, ident: str, project_id: str) -> None:
        """Remove a project's access to a type.

        :raises VolumeTypeNotFound:
        :raises BadRequest: the type is public, built-in or the default of the project
        :raises NotFound: the project has no access
        """
        def write(conn: Connection) -> None:
            row = _private(conn, ident)
            if db.default_of(conn, project_id) == row['id']:
                raise exception.BadRequest('The volume type is the default of the project. Unset the default first.')
            if not db.forbid(conn, row['id'], project_id):
                raise exception.NotFound('The project has no access to the volume type.')
        self._db.run(write)


def _private(conn: Connection, ident: str) -> types.Type:
    row = types.changeable(conn, ident)
    if row['is_public']:
        raise exception.BadRequest('The volume type is public. Make it private first.')
    return row
