"""Interface to images; the backends are the embedded store and Glance.

An image is a dict: 'id', 'name', 'status', 'visibility', 'owner', 'protected', 'size', 'virtual_size', 'min_ram',
'min_disk', 'disk_format', 'container_format', 'checksum', 'os_hash_algo', 'os_hash_value', 'os_hidden', 'created_at'
and 'updated_at' (naive UTC datetimes), 'properties' ({name: text}) and 'tags' ([text]).
"""
from __future__ import annotations

from collections.abc import Iterator
import contextlib
import os
from typing import Any, TYPE_CHECKING
import uuid

from nova import exception
from nova.image import fields
from nova.image import grants
from nova.image.embedded import files
from nova.image.embedded import search
from nova.image.inspector import inspect_file
from nova.image.inspector import verify
from nova.runtime import disk_space
from nova.runtime import progress

if TYPE_CHECKING:
    from nova.context import RequestContext

AMAZON = ('aki', 'ari', 'ami')
GIB = 2 ** 30


class Images:
    """Interface of a backend. Images that the caller (``ctx``) may not see raise ImageNotFound.

    :ivar in_place: whether ``readable`` returns a file of the store without a copy
    """

    in_place = False

    def show(self, ctx: RequestContext, image_id: str) -> Any:
        """Return one image; raises ImageNotFound."""
        raise NotImplementedError

    def list(self, ctx: RequestContext, filters: dict[str, Any] | None = None, limit: int | None = None,
             marker: str | None = None, sort: str | None = None) -> Any:
        """List images, newest first.

        :param filters: {name: value} as in the Image API; a list of values repeats the name
        :param limit: maximum number; None: the Image API's page size
        :param marker: id of the previous page's last image
        :param sort: 'name:asc,created_at:desc'
        :raises InvalidMarker, BadRequest:
        """
        raise NotImplementedError

    def create(self, ctx: RequestContext, values: Any) -> Any:
        """Create an image without data (status queued) and return it; 'properties' and 'tags' as in an image."""
        raise NotImplementedError

    def update(self, ctx: RequestContext, image_id: str, values: Any, purge_props: bool = False) -> Any:
        """Update an image and return it; properties are merged with the present ones, or replace them."""
        raise NotImplementedError

    def delete(self, ctx: RequestContext, image_id: str) -> Any:
        """Delete an image; raises ImageNotFound, Forbidden (protected, or not the caller's)."""
        raise NotImplementedError

    def download(self, ctx: RequestContext, image_id: str, path: Any, moved: progress.Moved = progress.ignore) -> Any:
        """Write the data atomically to ``path`` (mode 0600); checksum and headers are verified.

        :param moved: progress callback with the number of received bytes
        :raises ImageNotFound, ImageInactive, ImageUnacceptable, Forbidden:
        """
        raise NotImplementedError

    @contextlib.contextmanager
    def readable(self, ctx: RequestContext, image_id: str, path: str, group: int | None = None) -> Iterator[str]:
        """Context manager: path of a file with the data, which is not written to.

        Results may be used only after the block has ended without an error: the checksum may be verified concurrently.

        :param path: path for a copy, if the data cannot be read in place
        :param group: id of a group with read access
        :raises ImageNotFound, ImageInactive, ImageUnacceptable, Forbidden:
        """
        self.download(ctx, image_id, path)
        try:
            if group is not None:
                os.chown(path, -1, group)
                os.chmod(path, 0o640)
            yield path
        finally:
            os.unlink(path)

    def upload(self, ctx: RequestContext, image_id: str, path: Any, disk_format: str,
               container_format: Any = None, moved: progress.Moved = progress.ignore, give: bool = False) -> Any:
        """Upload a file as the data of a queued image.

        :param container_format: None: bare, or the disk format for aki, ari and ami
        :param moved: progress callback with the number of sent bytes
        :param give: the caller no longer uses the file, so the store may take it over
        :raises ImageUnacceptable: the file is not in ``disk_format``, or refers to other files
        :raises QuotaExceeded: the image's project has not enough quota
        :raises InsufficientStorage: the store has not enough space
        """
        raise NotImplementedError

    def check_header(self, path: str, disk_format: str) -> None:
        """Check a file written by a guest's QEMU before a tool opens it.

        :raises ImageUnacceptable: it has another format, or refers to other files
        """
        verify_file(path, disk_format, 'of a guest', 0)

    def grant(self, grant: grants.Grant) -> str:
        """Encode a grants.Grant for a task of a compute host."""
        return grants.dump(grant)


class EmbeddedImages(Images):
    """Images in the embedded store (nova.image.embedded.service.Store)."""

    in_place = True

    def __init__(self, store: Any) -> None:
        self.store = store

    def show(self, ctx: RequestContext, image_id: str) -> dict[str, Any]:
        return _public(self.store.show(ctx, image_id))

    def list(self, ctx: RequestContext, filters: dict[str, Any] | None = None, limit: int | None = None,
             marker: str | None = None, sort: str | None = None) -> list[dict[str, str]]:
        wanted = search.parse(query_pairs(filters, limit, marker, sort))
        return [_public(row) for row in self.store.page(ctx, wanted)]

    def create(self, ctx: RequestContext, values: dict[str, Any]) -> dict[str, Any]:
        columns = {name: value for name, value in values.items() if name not in ('properties', 'tags')}
        return _public(self.store.create(ctx, columns, values.get('properties'), values.get('tags') or ()))

    def update(self, ctx: RequestContext, image_id: str, values: dict[str, Any],
               purge_props: bool = False) -> dict[str, Any]:
        columns = {name: value for name, value in values.items() if name not in ('properties', 'tags')}

        def change(image: dict[str, Any]) -> tuple[dict[str, str], dict[str, str], list[str]]:
            properties = values.get('properties')
            if properties is None or not purge_props:
                properties = {**image['properties'], **(properties or {})}
            return columns, properties, values.get('tags', image['tags'])
        return _public(self.store.update(ctx, image_id, change))

    def delete(self, ctx: RequestContext, image_id: str) -> None:
        self.store.delete(ctx, image_id)

    def download(self, ctx: RequestContext, image_id: str, path: str,
                 moved: progress.Moved = progress.ignore) -> None:
        image, source = self.store.open(ctx, image_id)
        if source is None:
            raise exception.ImageInactive(image_id=image_id)
        with source, complete_file(path) as (temporary, target):
            files.copy(source, target, moved)
            files.verify_download(temporary, image, self.store.max_virtual_size)

    @contextlib.contextmanager
    def readable(self, ctx: RequestContext, image_id: str, path: str, group: int | None = None) -> Iterator[str]:
        image, source = self.store.open(ctx, image_id)
        if source is None:
            raise exception.ImageInactive(image_id=image_id)
        with source:
            place = self.store.files.path(image['data_id'])
            try:
                verify_file(place, image['disk_format'], image['id'], self.store.max_virtual_size)
                if group is not None:
                    self.store.files.grant_read(image['data_id'], group)
            except FileNotFoundError:                # deleted after it was opened
                raise exception.ImageNotFound(image_id=image_id) from None
            with self.store.digests.checked(image, source):
                yield place

    def upload(self, ctx: RequestContext, image_id: str, path: str, disk_format: str,
               container_format: Any = None, moved: progress.Moved = progress.ignore, give: bool = False) -> None:
        set_formats(self, ctx, image_id, disk_format, container_format)
        if give and self.store.adopt(ctx, image_id, path):
            return
        with open(path, 'rb') as file:
            self.store.upload(ctx, image_id, progress.Reader(file, moved), os.fstat(file.fileno()).st_size,
                              disk_space.used_bytes(path))

    def grant(self, grant: grants.Grant) -> str:
        return self.store.sign(grant)


class BoundImages:
    """Requests for images with a fixed context.

    :param images: an Images, or a grants.GrantedImages
    """

    def __init__(self, images: Any, ctx: RequestContext) -> None:
        self._images, self._ctx = images, ctx

    def show(self, image_id: str) -> dict[str, Any]:
        return self._images.show(self._ctx, image_id)

    def download(self, image_id: str, path: str) -> None:
        self._images.download(self._ctx, image_id, path)

    def upload(self, image_id: str, path: str, disk_format: str) -> None:
        self._images.upload(self._ctx, image_id, path, disk_format)

    def update(self, image_id: str, values: dict[str, dict[str, str]]) -> dict[str, Any]:
        return self._images.update(self._ctx, image_id, values)

    def delete(self, image_id: str) -> None:
        self._images.delete(self._ctx, image_id)


# ---- shared by both backends -------------------------------------------------

def query_pairs(filters: dict[str, Any] | None, limit: int | None, marker: str | None,
                sort: str | None) -> list[tuple[str, str]]:
    """Return [(name, text)] of query parameters of the Image API."""
    wanted = {**(filters or {}), 'limit': limit, 'marker': marker, 'sort': sort}
    return [(name, str(value)) for name, values in wanted.items()
            for value in (values if isinstance(values, (list, tuple)) else [values]) if value is not None]


def set_formats(images: Images, ctx: RequestContext, image_id: str, disk_format: str,
                container_format: Any) -> None:
    """Set the formats of a queued image before an upload."""
    container_format = container_format or (disk_format if disk_format in AMAZON else 'bare')
    wanted = {'disk_format': disk_format, 'container_format': container_format}
    image = images.show(ctx, image_id)
    if any(image[name] != value for name, value in wanted.items()):
        images.update(ctx, image_id, wanted)


def verify_file(path: str, disk_format: str, image_id: str, max_virtual_size: int) -> None:
    """Raise ImageUnacceptable unless the file is safe to open as ``disk_format``."""
    verify(inspect_file(path), disk_format, max_virtual_size, image_id)


@contextlib.contextmanager
def complete_file(path: str) -> Iterator[tuple[str, Any]]:
    """Context manager: (temporary path, open file) that atomically becomes ``path``."""
    temporary = f'{path}.{uuid.uuid4().hex}.part'
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, 'wb') as target:
            yield temporary, target
            target.flush()
        os.rename(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _public(row: dict[str, Any]) -> dict[str, Any]:
    image = {name: row[name] for name in fields.FIELDS if name in row}
    image['properties'], image['tags'] = row['properties'], row['tags']
    return image
