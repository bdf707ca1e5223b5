"""Interface to images; the backends are the embedded store and Glance."""
from collections.abc import Iterator, Mapping, Sequence
import contextlib
import os
from typing import BinaryIO
import uuid

from nova.context import RequestContext
from nova.image import grants
from nova.image.inspector import inspect_file
from nova.image.inspector import verify
from nova.objects.image import Image
from nova.objects.image import ImageValues
from nova.runtime import progress

Filters = Mapping[str, str | list[str] | None]           # {name: value or values}; the value None is no filter
AMAZON = ('aki', 'ari', 'ami')
GIB = 2 ** 30


class Images:
    """Interface of a backend. Methods raise ImageNotFound for images that the caller (``ctx``) may not see.

    :ivar in_place: whether ``readable`` returns a file of the store without a copy
    """

    in_place = False

    def show(self, ctx: RequestContext, image_id: str) -> Image:
        """Return one image; raises ImageNotFound."""
        raise NotImplementedError

    def check_download(self, ctx: RequestContext, image: Image) -> None:
        """Refuse a caller that may not download the data of an image; raises PolicyDenied.

        Call this before a task begins: the host that runs the task downloads the image without the caller's rights.
        """

    def list(self, ctx: RequestContext, filters: Filters | None = None,
             limit: int | None = None, marker: str | None = None, sort: str | None = None) -> Sequence[Image]:
        """List images, newest first.

        :param filters: {name: value} as in the Image API; a list of values repeats the name
        :param limit: maximum number, or None for the Image API's page size
        :param marker: id of the last image on the previous page
        :param sort: 'name:asc,created_at:desc'
        :raises InvalidMarker, BadRequest:
        """
        raise NotImplementedError

    def create(self, ctx: RequestContext, values: ImageValues) -> Image:
        """Create an image without data (status queued) and return it.

        :param values: fields of the image, with 'properties' and 'tags'
        """
        raise NotImplementedError

    def update(self, ctx: RequestContext, image_id: str, values: ImageValues, purge_props: bool = False) -> Image:
        """Update an image and return it. New properties are added to the present ones, or replace them if
        ``purge_props``.
        """
        raise NotImplementedError

    def delete(self, ctx: RequestContext, image_id: str) -> None:
        """Delete an image; raises ImageNotFound, Forbidden (protected, or not the caller's)."""
        raise NotImplementedError

    def download(self, ctx: RequestContext, image_id: str, path: str,
                 moved: progress.Moved = progress.ignore) -> None:
        """Write the data atomically to ``path`` (mode 0600); checksum and headers are verified.

        :param moved: progress callback with the number of received bytes
        :raises ImageNotFound, ImageInactive, ImageUnacceptable, Forbidden:
        """
        raise NotImplementedError

    @contextlib.contextmanager
    def readable(self, ctx: RequestContext, image_id: str, path: str, group: int | None = None) -> Iterator[str]:
        """Context manager that yields the path of a file with the data. The caller must not write to the file.

        The checksum may be verified while the block runs. If the block ends with an error, the caller must discard all
        that it derived from the file.

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

    def upload(self, ctx: RequestContext, image_id: str, path: str, disk_format: str,
               container_format: str | None = None, moved: progress.Moved = progress.ignore,
               give: bool = False) -> None:
        """Upload a file as the data of a queued image.

        :param container_format: None for the default: bare, or the disk format itself for aki, ari and ami
        :param moved: progress callback with the number of sent bytes
        :param give: whether the store may take the file over, because the caller no longer uses it
        :raises ImageUnacceptable: the file is not in ``disk_format``, or refers to other files
        :raises QuotaExceeded: the image would exceed its project's quota
        :raises InsufficientStorage: the store does not have enough space
        """
        raise NotImplementedError

    def check_header(self, path: str, disk_format: str) -> None:
        """Check a disk that a guest could write, before a tool opens it.

        :raises ImageUnacceptable: the file has another format, or refers to other files
        """
        verify_file(path, disk_format, 'of a guest', 0)

    def grant(self, grant: grants.Grant) -> str:
        """Encode a grants.Grant as text, which a compute host sends with its requests."""
        return grants.dump(grant)


# ---- shared by both backends -------------------------------------------------

def query_pairs(filters: Filters | None, limit: int | None, marker: str | None,
                sort: str | None) -> list[tuple[str, str]]:
    """Return [(name, text)] of query parameters of the Image API."""
    wanted = {**(filters or {}), 'limit': limit, 'marker': marker, 'sort': sort}
    return [(name, str(value)) for name, values in wanted.items()
            for value in (values if isinstance(values, (list, tuple)) else [values]) if value is not None]


def set_formats(images: Images, ctx: RequestContext, image_id: str, disk_format: str,
                container_format: str | None) -> None:
    """Set the formats of a queued image before an upload."""
    container_format = container_format or (disk_format if disk_format in AMAZON else 'bare')
    image = images.show(ctx, image_id)
    if (image['disk_format'], image['container_format']) != (disk_format, container_format):
        images.update(ctx, image_id, {'disk_format': disk_format, 'container_format': container_format})


def verify_file(path: str, disk_format: str, image_id: str, max_virtual_size: int) -> None:
    """Raise ImageUnacceptable unless the file is safe to open as ``disk_format``."""
    verify(inspect_file(path), disk_format, max_virtual_size, image_id)


@contextlib.contextmanager
def complete_file(path: str) -> Iterator[tuple[str, BinaryIO]]:
    """Context manager that yields (temporary path, open file); at the end the file is renamed to ``path``."""
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
