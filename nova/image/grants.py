"""Grants: what the work on one server may do with images, in the place of the rights of who does the work.

Who accepts a request looks up every image that it names as the user who asks. A conductor knows from the rows what was
found, and gives the compute host, with each task, a grant for exactly that: some images to read, some to write (the
copy that the task makes), until the task would be given up. A compute asks for images with the grant of the task alone:
what it does not name does not exist, for any user.

The embedded store issues signed grants and checks their signatures. Another image service does not check them; there
the client below enforces the grant, see doc/source/adr/0012-image-grants.rst.
"""
from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
import dataclasses
import hmac
import json
import os
import time
from typing import Any

from nova import context
from nova import exception
from nova.runtime import progress


KEY_BYTES = 32
BACKUP = 'backup'                       # image_type of the images that a rotation removes


@dataclasses.dataclass(frozen=True)
class Grant:
    """
    server    uuid of the server that is worked on; None: images that a host fetches before any server needs them
    host      that works on it
    read      ids of images
    write     ids of images that the work fills, describes and removes; they may be read, too
    rotate    also: list the backups of the server that have the owner of those in ``write``, and remove them
    expires   seconds since the epoch
    """

    server: str | None
    host: str | None
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    rotate: bool = False
    expires: float = 0

    def may(self, image_id: str, write: bool = False) -> bool:
        """Whether it names the image."""
        ident = str(image_id).lower()
        return ident in self.write or not write and ident in self.read

    def has_backup(self, image: dict[str, Any]) -> bool:
        """Whether a rotation may remove this image, if it belongs to whom the new one belongs to."""
        properties = image['properties']
        return (self.rotate and properties.get('image_type') == BACKUP
                and properties.get('instance_uuid') == self.server)


def make(server: str | None, host: str | None, lifetime_s: float, read: Iterable[str | None] = (),
         write: Iterable[str | None] = (), rotate: bool = False) -> Grant:
    """A Grant that ends in so many seconds; ids that are None or empty are left out."""
    return Grant(server, host, _ids(read), _ids(write), rotate, time.time() + lifetime_s)


def _ids(given: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ident.lower() for ident in given if ident))


def dump(grant: Grant, key: bytes | None = None) -> str:
    """The grant as text, with a signature where there is a key."""
    body = base64.urlsafe_b64encode(json.dumps(dataclasses.asdict(grant), separators=(',', ':')).encode())
    return f'{body.decode()}.{_signature(body, key)}'


def load(text: str, key: bytes | None = None) -> Grant:
    """The Grant of a text.

    :param key: that it must be signed with; None: who has sent it is trusted
    :raises Forbidden: it is none, it was not signed with the key, or it has expired
    """
    body, _dot, signature = text.partition('.')
    if key is not None and not hmac.compare_digest(_signature(body.encode(), key).encode(), signature.encode()):
        raise exception.Forbidden('The image grant is not signed by this service.')
    try:
        values = json.loads(base64.urlsafe_b64decode(body))
        grant = Grant(**{**values, 'read': tuple(values['read']), 'write': tuple(values['write'])})
    except (ValueError, TypeError, KeyError, binascii.Error):
        raise exception.Forbidden('The image grant cannot be read.') from None
    if time.time() >= grant.expires:
        raise exception.Forbidden('The image grant has expired.')
    return grant


def _signature(body: bytes, key: bytes | None) -> str:
    return '' if key is None else hmac.digest(key, body, 'sha256').hex()


def new_key() -> bytes:
    """A key for ``dump`` and ``load``."""
    return os.urandom(KEY_BYTES)


def holder(ctx: context.RequestContext, text: str | None, token: bool = True) -> context.RequestContext:
    """The context of who has a grant and nothing else: no project, no role, no administrator.

    :param ctx: of the request that is worked on
    :param token: the user's token goes with it, for an image service that checks it
    """
    made = context.RequestContext(
        auth_token=ctx.auth_token if token else None, token_expires_at=ctx.token_expires_at if token else None,
        user_id=ctx.user_id, request_id=ctx.request_id, is_admin=False, overwrite=False)
    return made.granted(text)


class GrantedImages:
    """Images for those who work on servers: a virt.driver.ImageSource, and what a copy of a server needs besides.

    ``ctx`` carries the grant of the task (context.RequestContext.granted). An image that it does not name raises
    ImageNotFound; once it has expired all raise Forbidden.

    Requests are sent with the user's token until it expires: the image service checks it as well. After that they are
    sent with the token of the service, so the grant is also checked here.

    :param images: nova.image.api.Images
    """

    def __init__(self, images: Any) -> None:
        self._images = images

    def show(self, ctx: context.RequestContext, image_id: str) -> dict[str, Any]:
        return self._ask(ctx, image_id, False, lambda who: self._images.show(who, image_id))

    def download(self, ctx: context.RequestContext, image_id: str, path: str,
                 moved: progress.Moved = progress.ignore) -> None:
        self._ask(ctx, image_id, False, lambda who: self._images.download(who, image_id, path, moved))

    def upload(self, ctx: context.RequestContext, image_id: str, path: str, disk_format: str,
               moved: progress.Moved = progress.ignore, give: bool = False) -> None:
        self._ask(ctx, image_id, True,
                  lambda who: self._images.upload(who, image_id, path, disk_format, moved=moved, give=give))

    def update(self, ctx: context.RequestContext, image_id: str, values: dict[str, dict[str, str]]) -> dict[str, str]:
        return self._ask(ctx, image_id, True, lambda who: self._images.update(who, image_id, values))

    def delete(self, ctx: context.RequestContext, image_id: str) -> None:
        self._ask(ctx, image_id, True, lambda who: self._images.delete(who, image_id))

    def backups(self, ctx: context.RequestContext, filters: dict[str, str],
                marker: str | None = None) -> list[dict[str, str]]:
        """A page of the backups of the server, the newest first.

        :param filters: as Images.list takes them
        """
        grant = _grant_of(ctx)
        if grant is not None and not grant.rotate:
            raise exception.Forbidden('The image grant is for no backup.')
        if grant is not None:
            filters = {**filters, 'image_type': BACKUP, 'instance_uuid': grant.server or ''}
        return _with_token(ctx, lambda who: self._images.list(who, filters, marker=marker,
                                                              sort='created_at:desc,id:desc'))

    def _ask(self, ctx: context.RequestContext, image_id: str, write: bool,
             function: Callable[..., Any]) -> Any:
        grant = _grant_of(ctx)
        if grant is None:
            if not ctx.auth_token:               # a conductor of an older release, and no token
                raise exception.ImageNotFound(image_id=str(image_id)[:64])
        elif not grant.may(image_id, write) and not (grant.rotate and grant.has_backup(
                _with_token(ctx, lambda who: self._images.show(who, image_id)))):
            raise exception.ImageNotFound(image_id=str(image_id)[:64])
        return _with_token(ctx, function, grant is not None and grant.may(image_id, write=True))


def _grant_of(ctx: context.RequestContext) -> Grant | None:
    """The Grant of a context; None: it has none, because who has sent the task gives none yet."""
    return None if ctx.image_grant is None else load(ctx.image_grant)


def _with_token(ctx: context.RequestContext, function: Callable[..., Any], copy: bool = False) -> Any:
    """Ask with the user's token; with the service's own when that has ended.

    :param copy: the image is a copy of the server: it belongs to the user who requested it, maybe an administrator, and
        not to every user who may unshelve the server
    """
    if ctx.auth_token:
        try:
            return function(holder(ctx, ctx.image_grant))
        except exception.Unauthorized:
            if ctx.image_grant is None:
                raise
        except (exception.ImageNotFound, exception.Forbidden):
            if not copy:
                raise
    return function(holder(ctx, ctx.image_grant, token=False))
