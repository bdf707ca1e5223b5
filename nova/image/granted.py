"""Image requests with the grant of a task, and image requests with a fixed context."""
from collections.abc import Callable, Sequence
from typing import TypeVar

from nova import context
from nova import exception
from nova.image import grants
from nova.image.api import Filters
from nova.image.api import Images
from nova.objects.image import Image
from nova.objects.image import ImageValues
from nova.runtime import progress

_Result = TypeVar('_Result')


class GrantedImages:
    """Access to images for tasks: the methods of virt.driver.ImageSource, and operations for snapshots of servers.

    ``ctx`` has the grant of the task (context.RequestContext.granted). The methods raise ImageNotFound if the grant is
    missing or does not cover the image, and Forbidden if the grant has expired.

    Requests use the user's token until it expires, so that the image service also checks the user's permissions. Later
    requests use the service token, so this class must check the grant.
    """

    def __init__(self, images: Images) -> None:
        self._images = images

    def show(self, ctx: context.RequestContext, image_id: str) -> Image:
        return self._ask(ctx, image_id, False, lambda who: self._images.show(who, image_id))

    def download(self, ctx: context.RequestContext, image_id: str, path: str,
                 moved: progress.Moved = progress.ignore) -> None:
        self._ask(ctx, image_id, False, lambda who: self._images.download(who, image_id, path, moved))

    def upload(self, ctx: context.RequestContext, image_id: str, path: str, disk_format: str,
               moved: progress.Moved = progress.ignore, give: bool = False) -> None:
        self._ask(ctx, image_id, True,
                  lambda who: self._images.upload(who, image_id, path, disk_format, moved=moved, give=give))

    def update(self, ctx: context.RequestContext, image_id: str, values: ImageValues) -> Image:
        return self._ask(ctx, image_id, True, lambda who: self._images.update(who, image_id, values))

    def delete(self, ctx: context.RequestContext, image_id: str) -> None:
        self._ask(ctx, image_id, True, lambda who: self._images.delete(who, image_id))

    def backups(self, ctx: context.RequestContext, filters: Filters,
                marker: str | None = None) -> Sequence[Image]:
        """Return a page of the server's backups, newest first.

        :param filters: see Images.list
        """
        grant = grants.load(ctx.image_grant or '')
        if not grant.rotate:
            raise exception.Forbidden('The image grant does not allow backups.')
        filters = {**filters, 'image_type': grants.BACKUP, 'instance_uuid': grant.server or ''}
        return _with_token(ctx, lambda who: self._images.list(who, filters, marker=marker,
                                                              sort='created_at:desc,id:desc'))

    def _ask(self, ctx: context.RequestContext, image_id: str, write: bool,
             function: Callable[[context.RequestContext], _Result]) -> _Result:
        if ctx.image_grant is None:
            raise exception.ImageNotFound(image_id=str(image_id)[:64])
        grant = grants.load(ctx.image_grant)
        if not grant.may(image_id, write) and not (grant.rotate and grant.has_backup(
                _with_token(ctx, lambda who: self._images.show(who, image_id)))):
            raise exception.ImageNotFound(image_id=str(image_id)[:64])
        return _with_token(ctx, function, grant.may(image_id, write=True))


class BoundImages:
    """Image requests that all use the context given to the constructor."""

    def __init__(self, images: Images | GrantedImages, ctx: context.RequestContext) -> None:
        self._images, self._ctx = images, ctx

    def show(self, image_id: str) -> Image:
        return self._images.show(self._ctx, image_id)

    def upload(self, image_id: str, path: str, disk_format: str) -> None:
        self._images.upload(self._ctx, image_id, path, disk_format)

    def update(self, image_id: str, values: ImageValues) -> Image:
        return self._images.update(self._ctx, image_id, values)

    def delete(self, image_id: str) -> None:
        self._images.delete(self._ctx, image_id)


def _with_token(ctx: context.RequestContext, function: Callable[[context.RequestContext], _Result],
                copy: bool = False) -> _Result:
    """Call a function with the user's token, or with the service token if the user's token has expired.

    :param copy: whether the image is a snapshot of the server. A snapshot belongs to the user who requested it, for
        example an administrator. If the user who unshelves the server may not read the snapshot, use the service token
    """
    if ctx.auth_token:
        try:
            return function(grants.holder(ctx, ctx.image_grant))
        except exception.Unauthorized:
            pass                         # the token has expired
        except (exception.ImageNotFound, exception.Forbidden):
            if not copy:
                raise
    return function(grants.holder(ctx, ctx.image_grant, token=False))
