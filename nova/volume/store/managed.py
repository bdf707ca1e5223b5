"""Turn files in the volume host's directory ``unmanaged`` into volumes, and volumes into files there."""
from __future__ import annotations

import contextlib
from typing import cast, NamedTuple, TYPE_CHECKING
import uuid

from nova import context as nova_context
from nova import exception
from nova.db.audit import log
from nova.db.engine import CommitUnanswered
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.tables import volume as t
from nova.db.tables.rows import VolumesRow
from nova.db.volumes import volumes as db
from nova.hardware import disks
from nova.volume.store import files as volume_files
from nova.volume.store import limits as volume_limits
from nova.volume.store import rows
from nova.volume.store import types

if TYPE_CHECKING:
    from nova.json_types import JsonObject

HOST = 'nova@embedded#default'           # os-vol-host-attr:host of all volumes
GIB = 2 ** 30
STATUSES = ('available', 'error')


class File(NamedTuple):
    """A file without a volume; ``size`` in GiB, rounded up."""

    name: str
    size: int


class Managed:
    """Operations that manage and unmanage volumes.

    :param database: the API database
    """

    def __init__(self, database: Database, files: volume_files.VolumeFiles, limits: volume_limits.Limits) -> None:
        self._db, self._files, self._limits = database, files, limits

    def unmanaged(self) -> list[File]:
        """Return the files without a volume, sorted by name."""
        return [File(name, -(-size // GIB)) for name, size in sorted(self._files.unmanaged_sizes().items())]

    def manage(self, ctx: nova_context.RequestContext, name: str, zone: str, values: JsonObject,
               volume_type: str | None) -> VolumesRow:
        """Turn a file into a volume of the caller's project. The file is extended to whole GiB.

        :param values: columns of the volume
        :raises InvalidInput: the name is invalid, or there is no such file
        :raises VolumeTypeNotFound:
        :raises BadRequest: volumes of the type are encrypted, or the backend does not support the type
        :raises QuotaExceeded:
        :raises Conflict: another request has just managed the file
        """
        found = {file.name: file for file in self.unmanaged()}.get(name) if disks.FILE_NAME.match(name) else None
        if found is None:
            raise exception.InvalidInput(reason=f'There is no file {name[:255]!r} in the directory of unmanaged '
                                                'volumes.')
        ident = str(uuid.uuid4())

        def write(conn: Connection) -> VolumesRow:
            kind = types.find(conn, volume_type, ctx.sees, lock=True)
            if kind['encryption']:
                raise exception.BadRequest('A file cannot become an encrypted volume. Copy its data to one.')
            types.check_backend(kind)
            size = volume_limits.check_size(found.size)
            project_id = nova_context.the_project(ctx.project_id)
            self._limits.check(conn, project_id, 'volumes', size, size, kind['name'])
            made = db.insert(conn, t.volumes, {
                'bootable': False, 'metadata': {}, **values, 'id': ident, 'project_id': project_id,
                'user_id': ctx.user_id, 'size': size, 'volume_type': kind['name'], 'image_metadata': {},
                'status': 'available', 'multiattach': types.is_multiattach(kind), 'readonly': False,
                'availability_zone': types.zone_of(kind, zone, zone)})
            self._files.adopt(name, ident, size * GIB)
            return cast(VolumesRow, made)
        log.about(ident)
        try:
            return self._db.run(write)
        except CommitUnanswered:         # the new volume may exist, so keep its file
            raise
        except FileNotFoundError as error:
            raise exception.Conflict(f'The file {name!r} is no longer in the directory of unmanaged volumes: another '
                                     'request has managed or moved it.') from error
        except BaseException:
            with contextlib.suppress(FileNotFoundError):           # not found: the transaction failed before the move
                self._files.release(ident, name)
            raise

    def unmanage(self, ctx: nova_context.RequestContext, volume_id: str) -> None:
        """Delete a volume and keep its file as ``volume-<id>``.

        The file moves after the commit, because the transaction may be repeated or fail.
        :raises VolumeNotFound:
        :raises InvalidVolume: the volume is in use, is encrypted, has snapshots, or has no file
        """
        def write(conn: Connection) -> str:
            row = rows.volume(conn, ctx, volume_id, lock=True)
            if row['status'] not in STATUSES or db.attachments(conn, volume_ids=[row['id']]):
                raise exception.InvalidVolume(reason=f'Volume status must be {" or ".join(STATUSES)}, but it is '
                                                     f'{row["status"]}.')
            if row['key_id']:
                raise exception.InvalidVolume(reason='it is encrypted, and its key would be deleted.')
            if db.has_snapshots(conn, row['id']) or db.being_copied(conn, row['id']):
                raise exception.InvalidVolume(reason='it has snapshots or is being copied.')
            if self._files.size(self._files.volume(row['id'])) is None:
                raise exception.InvalidVolume(reason='the file of the volume is not on this host.')
            db.delete_transfer(conn, row['id'])
            db.delete(conn, t.volumes, row['id'])
            return row['id']
        ident = self._db.run(write)      # the id as stored, because MariaDB's comparison ignores case
        self._files.release(ident, f'volume-{ident}')
