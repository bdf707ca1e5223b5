"""The embedded image service: permissions, database rows and files. The HTTP API and the Python API use it.

Callers see public and community images, their own images, and images shared with them. Only administrators see the
default images of instance categories. The data of an image is uploaded once: the status changes from queued to saving
and then to active. After a failed upload the image returns to queued and has no file.
"""
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
import contextlib
import os
from typing import Any, BinaryIO, cast
import uuid

from oslo_db import exception as db_exc

from nova import exception
from nova import policies
from nova import policy
from nova import utils
from nova.context import RequestContext
from nova.db import engine
from nova.db.audit import log
from nova.db.engine import Connection
from nova.db.engine import Database
from nova.db.images import images as db_images
from nova.db.projects import quotas as db_quotas
from nova.db.projects import storage_quotas
from nova.db.tables.rows import ImageMembersRow
from nova.image import fields
from nova.image import grants
from nova.image import inspector
from nova.image import resources
from nova.image.embedded import digests
from nova.image.embedded import imports
from nova.image.embedded import pending_hashes
from nova.image.embedded.files import Files
from nova.image.embedded.search import Search
from nova.image.embedded.stored_image import StoredImage
from nova.json_types import Json
from nova.runtime import disk_space
from nova.web import sizes

GIB = 2 ** 30
MAX_MEMBERS = 128
FEW = sizes.PAGE // sizes.IMAGE          # images in a page if each image's document has the maximum size
STEP = 64 * 2 ** 20              # quota bytes that an upload of unknown length reserves in one step
PUBLISHING = {'public': 'publicize_image', 'community': 'communitize_image'}     # {visibility: rule to set it}
Change = tuple[Mapping[str, 'Json'], Mapping[str, 'Json'], list[str]]          # columns, properties, tags


class Store:
    """Images of one deployment.

    :param db: the API database
    :param directory: directory of the files; only one process may serve it
    :param max_size: maximum size of an image in bytes
    :param max_virtual_size: maximum virtual size of an image's disk in bytes
    :param limits: function(conn, project id) -> the project's limits of storage_quotas.IMAGES
    :param reserve: nova.runtime.disk_space.Reserve of the directory's file system
    :param rules: policy.Policy of the image API; None: its defaults
    :param importing: methods and limits of image imports
    """

    def __init__(self, db: Database, directory: str, *, max_size: int = 256 * GIB, max_virtual_size: int = 2048 * GIB,
                 limits: Callable[[Connection, str], dict[str, int]] = storage_quotas.unlimited,
                 reserve: disk_space.Reserve = disk_space.Reserve(), rules: policy.Policy | None = None,
                 importing: imports.Settings = imports.Settings()) -> None:
        self.policy = rules or policy.Policy(None, policies.IMAGE)
        self.db, self.max_virtual_size, self._limits = db, max_virtual_size, limits
        self.files, self.digests = Files(directory, max_size, reserve), digests.Digests()
        self._pending = pending_hashes.PendingHashes(db, self.files)
        self.imports = imports.Imports(self, importing)
        self._key = grants.new_key()  # not stored, so tasks need new grants after a restart

    def recover(self) -> None:
        """Reset interrupted uploads; call once at start, before the first upload."""
        self.db.run(db_images.reset_saving)
        self.imports.recover()
        with self.db.reader() as conn:
            known = db_images.data_ids(conn)
        self.files.delete_incomplete(known)
        self._pending.recover()

    def sign(self, grant: grants.Grant) -> str:
        """Sign a grants.Grant for this store."""
        return grants.dump(grant, self._key)

    # ---- reading -------------------------------------------------------------

    def show(self, ctx: RequestContext, image_id: str) -> StoredImage:
        """Return the image's row with 'properties' and 'tags'.

        :raises ImageNotFound: the image does not exist or is not visible to the caller
        """
        with self.db.reader() as conn:
            return self._visible(conn, ctx, image_id)

    def page(self, ctx: RequestContext, search: Search) -> list[StoredImage]:
        """Return the rows that match a search.

        :raises InvalidMarker: the marker is not a visible image
        """
        with self.db.reader() as conn:
            if ctx.image_grant is not None:
                return _backups(conn, grants.load(ctx.image_grant, self._key), search)
            if search.marker:
                try:
                    search.marker = self._visible(conn, ctx, search.marker)['id']
                except exception.ImageNotFound:
                    raise exception.InvalidMarker(marker=search.marker) from None
            return cast('list[StoredImage]', db_images.page(conn, search, ctx.sees, FEW, sizes.first))

    def open(self, ctx: RequestContext, image_id: str) -> tuple[StoredImage, BinaryIO | None]:
        """Return (row, file open for reading); the file is None if the image has no data.

        :raises Forbidden: the image is deactivated and the caller is not an administrator
        """
        with self.db.reader() as conn:
            image = self._visible(conn, ctx, image_id)
        if image['status'] == 'deactivated' and not is_admin(ctx):
            raise exception.Forbidden('The requested image has been deactivated. Image data download is forbidden.')
        if image['status'] not in ('active', 'deactivated'):
            return image, None
        try:
            return image, self.files.open(image['data_id'])
        except FileNotFoundError:                # the image was deleted meanwhile
            raise exception.ImageNotFound(image_id=image_id) from None

    # ---- writing -------------------------------------------------------------

    def create(self, ctx: RequestContext, values: Mapping[str, Json],
               properties: Mapping[str, Json] | None = None, tags: Collection[str] = ()) -> StoredImage:
        """Create a queued image and return it.

        :raises BadRequest: invalid value
        :raises PolicyDenied: the caller may not create images, or not with this owner or visibility
        :raises Conflict: the id is in use
        """
        _check_values(values, properties or {}, tags, 'create')
        texts = cast('dict[str, str]', properties or {})
        sizes.check({'name': values.get('name'), 'properties': texts, 'tags': list(tags)}, sizes.IMAGE,
                    'Name, properties and tags of an image')
        now = utils.utcnow()
        ident = str(values.get('id') or uuid.uuid4()).lower()
        columns = {**resources.NEW, 'owner': ctx.project_id, **values, 'id': ident, 'status': 'queued'}
        self._authorize(ctx, 'add_image', columns)
        self._check_visibility(ctx, {}, columns)
        _check_formats({}, columns)
        log.about(ident)
        try:
            return self.db.run(self._insert, ctx, {**columns, 'created_at': now, 'updated_at': now}, texts, tags)
        except db_exc.DBDuplicateEntry:
            raise exception.Conflict(f'Image ID {ident} already exists!') from None

    def _insert(self, conn: Connection, ctx: RequestContext, row: dict[str, Any], properties: dict[str, str],
                tags: Collection[str]) -> StoredImage:
        self._check_references(conn, ctx, properties)
        self._use(conn, row['owner'], 'image_count_total', 1)
        if not db_images.insert(conn, row, properties, list(dict.fromkeys(tags))):
            raise exception.Conflict(f'Image ID {row["id"]} already exists!')
        return _read(conn, row['id'])

    def update(self, ctx: RequestContext, image_id: str, change: Callable[[StoredImage], Change]) -> StoredImage:
        """Update an image and return it.

        :param change: function(present row) -> new (values, properties, tags), called in the transaction; values are
            columns
        """
        return self.db.run(self._update, ctx, image_id, change)

    def _update(self, conn: Connection, ctx: RequestContext, image_id: str,
                change: Callable[[StoredImage], Change]) -> StoredImage:
        image = self.changeable(conn, ctx, image_id, 'modify_image')
        values, wanted, tags = change(image)
        properties = cast('dict[str, str]', wanted)              # _check_values checks that new values are texts
        added = {name: value for name, value in properties.items() if image['properties'].get(name, ...) != value}
        _check_values(values, added, tags, 'update', total=len(properties))
        before = {'name': image['name'], 'properties': image['properties'], 'tags': image['tags']}
        sizes.check({'name': values.get('name', image['name']), 'properties': properties, 'tags': list(tags)},
                    sizes.IMAGE, 'Name, properties and tags of an image', before)
        self._check_references(conn, ctx, added)
        if not is_admin(ctx) and values.get('owner', image['owner']) != image['owner']:
            raise exception.Forbidden('Only an administrator may set the owner of an image.')
        self._check_visibility(ctx, image, values)
        _check_formats(image, values)
        if image['status'] != 'queued' and any(image[name] != values.get(name, image[name])
                                               for name in ('disk_format', 'container_format')):
            raise exception.Forbidden('The formats of an image that has data cannot be changed.')
        db_images.update(conn, image['id'], {**values, 'updated_at': utils.utcnow()})
        if properties != image['properties']:
            db_images.set_properties(conn, image['id'], properties)
        if list(tags) != image['tags']:
            db_images.set_tags(conn, image['id'], list(dict.fromkeys(tags)))
        return _read(conn, image['id'])

    def delete(self, ctx: RequestContext, image_id: str) -> None:
        """Delete an image and its file; readers with the open file are not affected."""
        image = self.db.run(self._delete, ctx, image_id)
        if image['data_id'] and image['status'] not in db_images.UNFINISHED:
            self.files.remove(image['data_id'])
            self.digests.forget(image['data_id'])

    def _delete(self, conn: Connection, ctx: RequestContext, image_id: str) -> StoredImage:
        image = self.changeable(conn, ctx, image_id, 'delete_image')
        if image['protected']:
            raise exception.Forbidden(f'Image {image_id} is protected and cannot be deleted.')
        db_images.delete(conn, image['id'])
        return image

    def set_active(self, ctx: RequestContext, image_id: str, active: bool) -> None:
        """Deactivate or reactivate an image."""
        self.db.run(self._set_active, ctx, image_id, active)

    def _set_active(self, conn: Connection, ctx: RequestContext, image_id: str, active: bool) -> None:
        image = self.changeable(conn, ctx, image_id, 'reactivate' if active else 'deactivate')
        if image['status'] not in ('active', 'deactivated'):
            raise exception.Forbidden(f"An image in status '{image['status']}' cannot be deactivated or reactivated.")
        db_images.update(conn, image['id'], {'status': 'active' if active else 'deactivated',
                                             'updated_at': utils.utcnow()})

    def upload(self, ctx: RequestContext, image_id: str, chunks: Iterable[bytes], length: int = 0,
               on_disk: int | None = None, status: str = 'active') -> None:
        """Store the data of a queued image. No transaction is open during the transfer.

        ``length`` bytes of the quota are reserved at the start, and further bytes in steps. A failed upload releases
        the reserved bytes.

        :param length: expected number of bytes, or 0 if unknown
        :param on_disk: expected number of bytes without holes; None means ``length``
        :param status: of the image afterwards: active, or uploading for data that waits for its import
        :raises Conflict: the image is not queued
        :raises QuotaExceeded: the image's project would have too many bytes or uploads
        :raises InsufficientStorage: not enough disk space
        :raises ImageUnacceptable, TooLarge: the data is refused; the image returns to queued
        :raises Gone: the image was deleted during the upload
        """
        if length > self.files.max_size:         # do not read data that will be refused
            raise exception.TooLarge(limit=self.files.max_size)
        self.files.check_room(length if on_disk is None else on_disk)
        data_id = str(uuid.uuid4())
        self.receive(self._claimed(ctx, image_id, data_id, length), data_id, chunks, length, status)

    def receive(self, image: StoredImage, data_id: str, chunks: Iterable[bytes], length: int = 0,
                status: str = 'active') -> None:
        """Store the data of an image that ``claim`` returned; for parameters and errors see ``upload``."""
        with self._saving(image, data_id, status) as columns:
            columns.update(self.files.write(data_id, self._counted(image, data_id, chunks, length),
                                            inspector.expected(image), self.max_virtual_size, image['id']))

    def adopt(self, ctx: RequestContext, image_id: str, path: str) -> bool:
        """Use a local file as the data of a queued image, without copying its data (Files.adopt).

        The image becomes active without checksums, which are computed in the background.

        :param path: a file that the caller no longer uses
        :returns: False if the file must be uploaded instead; the image is queued
        :raises: see ``upload``
        """
        data_id = str(uuid.uuid4())
        image = self._claimed(ctx, image_id, data_id, os.path.getsize(path))
        with self._saving(image, data_id) as columns:
            columns.update(self.files.adopt(data_id, path, inspector.expected(image), self.max_virtual_size,
                                            image['id']) or {})
        if columns:
            self._pending.add(image['id'], data_id)
        return bool(columns)

    @contextlib.contextmanager
    def _saving(self, image: StoredImage, data_id: str, status: str = 'active') -> Iterator[dict[str, Any]]:
        """Context manager of an upload: yields a dict that the block fills with the columns for the data.

        At the end of the block the image gets ``status`` and these columns. If the block raises or the dict is empty,
        the image returns to queued.
        """
        columns: dict[str, Any] = {}
        try:
            yield columns
        finally:
            if not columns:
                self.release(image['id'], data_id)
        if not columns:
            return
        try:
            settled = self._settle(image['id'], data_id, {**columns, 'status': status})
        except engine.CommitUnanswered:          # the image may be active, so keep its file
            raise
        except BaseException:
            self.files.remove(data_id)
            raise
        if not settled:
            self.files.remove(data_id)
            raise exception.Gone(f'Image {image["id"]} was deleted while it was uploaded.')
        with contextlib.suppress(FileNotFoundError), self.files.open(data_id) as file:
            self.digests.remember(data_id, digests.state_of(file))

    def _counted(self, image: StoredImage, data_id: str, chunks: Iterable[bytes],
                 reserved: int) -> Iterator[bytes]:
        """Yield chunks after reserving quota for their bytes."""
        received = 0
        for chunk in chunks:
            received += len(chunk)
            if received > reserved:
                reserved = self.db.run(self._reserve, image, data_id, received)
            yield chunk

    def _reserve(self, conn: Connection, image: StoredImage, data_id: str, needed: int) -> int:
        """Reserve quota for an upload: ``needed`` bytes and up to STEP more; return the number of reserved bytes."""
        if not db_images.lock_upload(conn, image['id'], data_id):  # same lock order as in claim: image, project
            raise exception.Gone(f'Image {image["id"]} was deleted while it was uploaded.')
        db_images.update(conn, image['id'], {'reserved': 0})
        room = self._use(conn, image['owner'], 'image_size_total', needed)
        reserved = needed + STEP if room is None else min(needed + STEP, room)
        db_images.update(conn, image['id'], {'reserved': reserved})
        return reserved

    def _use(self, conn: Connection, owner: str | None, resource: str, adding: int) -> int | None:
        """Check a project's quota and lock it until the transaction ends.

        :param adding: bytes, or number of uploads
        :returns: available amount including ``adding``, or None if unlimited
        :raises QuotaExceeded:
        """
        if owner is None:                # no quota for images that an administrator created without a project
            return None
        db_quotas.lock(conn, owner)
        return storage_quotas.check(resource, adding, self._limits(conn, owner), _used(conn, owner))

    def usage(self, ctx: RequestContext) -> dict[str, tuple[int, int]]:
        """Return {resource: (limit, used)} of the caller's project, in bytes or numbers of images."""
        with self.db.reader() as conn:
            limits, used = self._limits(conn, ctx.project_id or ''), _used(conn, ctx.project_id or '')
            staged = db_images.staged(conn, ctx.project_id or '')
        return {**{name: (limits[name], used[name]) for name in storage_quotas.IMAGES},
                'image_stage_total': (limits['image_size_total'], staged)}      # included in image_size_total

    def _claimed(self, ctx: RequestContext, image_id: str, data_id: str, length: int) -> StoredImage:
        with engine.undone_if_unanswered(lambda: self.release(image_id, data_id)):
            return self.db.run(self.claim, ctx, image_id, data_id, length)

    def release(self, image_id: str, data_id: str) -> None:
        """Return an image to queued, if ``claim`` has reserved it for this file."""
        self._settle(image_id, data_id, {'status': 'queued', 'data_id': None})

    def claim(self, conn: Connection, ctx: RequestContext, image_id: str, data_id: str, length: int,
              status: str = 'saving') -> StoredImage:
        """Reserve a queued image for an upload; the image has ``status`` during the transfer.

        :raises: as ``upload``
        """
        image = self.changeable(conn, ctx, image_id, 'upload_image')
        if image['disk_format'] is None or image['container_format'] is None:
            raise exception.BadRequest('Properties disk_format and container_format must be set before data is '
                                       'uploaded.')
        if image['status'] != 'queued':
            raise exception.Conflict(f"Image {image_id} is in status '{image['status']}'; data can be uploaded "
                                     "only to an image in status 'queued'.")
        self._use(conn, image['owner'], 'image_count_uploading', 1)
        self._use(conn, image['owner'], 'image_size_total', length)
        db_images.update(conn, image['id'], {'status': status, 'data_id': data_id, 'reserved': length})
        return image

    def _settle(self, image_id: str, data_id: str, values: dict[str, Any]) -> bool:
        """Record the end of an upload; return False if the image is gone.

        :raises CommitUnanswered: the values may have been written, and the repeated write failed
        """
        def write() -> bool:
            return self.db.run(db_images.update, image_id, {**values, 'reserved': 0, 'updated_at': utils.utcnow()},
                               data_id=data_id)
        try:
            return write()
        except engine.CommitUnanswered as unknown:       # ``data_id`` makes the write idempotent
            try:
                return write()
            except db_exc.DBError:
                raise unknown from None

    # ---- members -------------------------------------------------------------

    def members(self, ctx: RequestContext, image_id: str, member: str | None = None) -> list[ImageMembersRow]:
        """Return the members of a shared image; a caller who is a member gets only its own row.

        :raises NotFound: ``member`` is given and is not a member
        :raises PolicyDenied: the caller may not read the members
        """
        with self.db.reader() as conn:
            image = self._visible(conn, ctx, image_id)
            self._authorize(ctx, 'get_members' if member is None else 'get_member', image)
            self._check_shared(image)
            rows = db_images.members(conn, image['id'], member)
        if not may_change(ctx, image):
            rows = [row for row in rows if row['member'] == ctx.project_id]
        if member is not None and not rows:
            raise exception.NotFound(f'{member} is not a member of image {image_id}.')
        return rows

    def add_member(self, ctx: RequestContext, image_id: str, member: Json) -> ImageMembersRow:
        if not member or not fields.is_text(member, 255):
            raise exception.BadRequest('A member must have 1 to 255 characters.')
        if '/' in member:                # no path would name the member
            raise exception.BadRequest('The id of a member must not contain "/".')
        try:
            return self.db.run(self._add_member, ctx, image_id, member)
        except db_exc.DBDuplicateEntry:
            raise exception.Conflict(f'{member} is already a member of image {image_id}.') from None

    def _add_member(self, conn: Connection, ctx: RequestContext, image_id: str, member: str) -> ImageMembersRow:
        image = self.changeable(conn, ctx, image_id, 'add_member')
        self._check_shared(image)
        present = db_images.members(conn, image['id'])
        if any(row['member'] == member for row in present):
            raise exception.Conflict(f'{member} is already a member of image {image_id}.')
        if len(present) >= MAX_MEMBERS:
            raise exception.TooLarge(f'An image may have at most {MAX_MEMBERS} members.')
        now = utils.utcnow()
        row: ImageMembersRow = {'image_id': image['id'], 'member': member, 'status': 'pending', 'created_at': now,
                                'updated_at': now}
        db_images.add_member(conn, row)
        return row

    def update_member(self, ctx: RequestContext, image_id: str, member: str, status: Json) -> ImageMembersRow:
        """Set the status of a member of a shared image. By default only the member may do this, not the owner."""
        if not isinstance(status, str) or status not in resources.MEMBER_STATUSES:
            raise exception.BadRequest(f'status must be one of {", ".join(resources.MEMBER_STATUSES)}.')
        row = self.members(ctx, image_id, member)[0]
        self._authorize(ctx, 'modify_member', self.show(ctx, image_id), member)
        changed: ImageMembersRow = {**row, 'status': status, 'updated_at': utils.utcnow()}
        self.db.run(db_images.update_member, row['image_id'], member,
                    {'status': status, 'updated_at': changed['updated_at']})
        return changed

    def delete_member(self, ctx: RequestContext, image_id: str, member: str) -> None:
        self.db.run(self._delete_member, ctx, image_id, member)

    def _delete_member(self, conn: Connection, ctx: RequestContext, image_id: str, member: str) -> None:
        image = self.changeable(conn, ctx, image_id, 'delete_member')
        self._check_shared(image)
        if not db_images.delete_member(conn, image['id'], member):
            raise exception.NotFound(f'{member} is not a member of image {image_id}.')

    # ---- permissions ---------------------------------------------------------

    def _visible(self, conn: Connection, ctx: RequestContext, image_id: str,
                 lock: bool = False) -> StoredImage:
        image = cast('StoredImage | None', db_images.get(
            conn, image_id.lower(), lock)) if fields.is_uuid(image_id) else None
        if ctx.image_grant is not None:
            if image and self._granted(conn, ctx, image):
                return image
            raise exception.ImageNotFound(image_id=str(image_id)[:64])
        if image and image['administrative'] and not is_admin(ctx):
            image = None
        if image and (may_change(ctx, image) or image['visibility'] in ('public', 'community')
                      or (image['visibility'] == 'shared' and ctx.project_id
                          and db_images.members(conn, image['id'], ctx.project_id))):
            return image
        raise exception.ImageNotFound(image_id=str(image_id)[:64])

    def _granted(self, conn: Connection, ctx: RequestContext, image: StoredImage, write: bool = False) -> bool:
        """Return whether the caller's grant, signed by this store, covers the image."""
        grant = grants.load(ctx.image_grant or '', self._key)
        return grant.may(image['id'], write) or (
            grant.has_backup(image) and image['owner'] == _owner_of_copies(conn, grant))

    def changeable(self, conn: Connection, ctx: RequestContext, image_id: str, rule: str) -> StoredImage:
        """Lock and return an image that the caller may change.

        :param rule: rule that guards the change, for callers without a grant
        :raises ImageNotFound: the image is not visible to the caller
        :raises Forbidden, PolicyDenied: the caller may not change it
        """
        image = self._visible(conn, ctx, image_id, lock=True)
        if ctx.image_grant is not None:
            if not self._granted(conn, ctx, image, write=True):
                raise exception.Forbidden('The image grant does not allow to change this image.')
            return image
        self._authorize(ctx, rule, image)
        return image

    def allows(self, ctx: RequestContext, rule: str, image: Mapping[str, Any], member: str | None = None) -> bool:
        """Return whether a rule allows the caller to use a visible image.

        :param member: member that the operation concerns; None: the caller, if the image is shared with it
        """
        owner, visibility = image['owner'], image['visibility']
        if member is None and visibility == 'shared' and owner != ctx.project_id and not is_admin(ctx):
            member = ctx.project_id
        return self.policy.allows(ctx, rule, {'project_id': owner, 'owner': owner, 'visibility': visibility,
                                              'member_id': member})

    def _authorize(self, ctx: RequestContext, rule: str, image: Mapping[str, Any], member: str | None = None) -> None:
        if not self.allows(ctx, rule, image, member):
            raise exception.PolicyDenied(rule=rule)

    def _check_visibility(self, ctx: RequestContext, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Check that the caller may make an image public or a community image."""
        wanted = new.get('visibility')
        if wanted in PUBLISHING and wanted != old.get('visibility'):
            self._authorize(ctx, PUBLISHING[wanted], {'owner': None, **old, **new})

    def _check_references(self, conn: Connection, ctx: RequestContext, properties: dict[str, str]) -> None:
        """Raise BadRequest if a property refers to an image that is not visible to the caller."""
        for name in fields.REFERENCES:
            if properties.get(name):
                try:
                    self._visible(conn, ctx, properties[name])
                except exception.ImageNotFound as error:
                    raise exception.BadRequest(error.message) from None

    @staticmethod
    def _check_shared(image: StoredImage) -> None:
        if image['visibility'] != 'shared':
            raise exception.Forbidden('Only shared images have members.')


def _read(conn: Connection, image_id: str) -> StoredImage:
    """Return an image as it is in this transaction."""
    image = db_images.get(conn, image_id)
    if image is None:
        raise exception.ImageNotFound(image_id=image_id)
    return cast('StoredImage', image)


def is_admin(ctx: RequestContext) -> bool:
    """Return whether the caller may use all images: only administrators without a grant may."""
    return bool(ctx.is_admin) and ctx.image_grant is None


def _backups(conn: Connection, grant: grants.Grant, search: Search) -> list[StoredImage]:
    """Return the backups of a server that a rotation may delete: backups with the new backup's owner."""
    owner = _owner_of_copies(conn, grant)
    if not grant.rotate or owner is None or grant.server is None:
        return []
    search.equal['owner'] = [owner]
    search.properties.update(image_type=grants.BACKUP, instance_uuid=grant.server)
    return cast('list[StoredImage]', db_images.page(conn, search, owner, FEW, sizes.first))


def _owner_of_copies(conn: Connection, grant: grants.Grant) -> str | None:
    found = [db_images.get(conn, image_id) for image_id in grant.write]
    return found[0]['owner'] if found and found[0] else None


def _used(conn: Connection, owner: str) -> dict[str, int]:
    return dict(zip(storage_quotas.IMAGES, db_images.used(conn, owner), strict=True))


def may_change(ctx: RequestContext, image: StoredImage) -> bool:
    return is_admin(ctx) or bool(ctx.project_id) and image['owner'] == ctx.project_id


def _check_values(values: Mapping[str, Json], properties: Mapping[str, Json], tags: Collection[str], when: str,
                  total: int | None = None) -> None:
    for name, value in {**values, **properties}.items():
        resources.check_settable(name, when)
        resources.check(name, value)
    resources.check('tags', list(tags))
    if (len(properties) if total is None else total) > resources.MAX_PROPERTIES:
        raise exception.TooLarge(f'An image may have at most {resources.MAX_PROPERTIES} properties.')


def _check_formats(old: Mapping[str, object], new: Mapping[str, object]) -> None:
    """Raise BadRequest if the disk format and the container format exclude each other."""
    disk = new.get('disk_format', old.get('disk_format'))
    container = new.get('container_format', old.get('container_format'))
    amazon = ('aki', 'ari', 'ami')
    if disk and container and disk != container and (disk in amazon or container in amazon):
        raise exception.BadRequest(f'Disk format {disk} and container format {container} do not fit each other.')
    if disk and disk not in inspector.ACCEPTS:
        raise exception.BadRequest(f'Disk format {disk} is not supported.')
