"""Image grants: access of one task to the images that it needs. Compute hosts have no other access to images.

The API looks up each image in a request with the permissions of the requesting user, and stores the image ids. With
each task, the conductor sends the compute host a grant for exactly these images. The grant lists images to read and
images to write, such as the snapshot that the task creates. A grant expires at the task's time limit. The image service
treats images outside the grant as not found.

The embedded store signs grants and verifies signatures. With an external image service, granted.GrantedImages enforces
the grants; see ADR 0013.
"""
import base64
import binascii
from collections.abc import Iterable
import dataclasses
import hmac
import json
import os
import time

from nova import context
from nova import exception
from nova.objects.image import Image

KEY_BYTES = 32
BACKUP = 'backup'                       # image_type of backups, which the rotation of createBackup deletes


@dataclasses.dataclass(frozen=True)
class Grant:
    """Access of a task to images.

    server    uuid of the task's server, or None if a host prefetches images
    host      host that executes the task
    read      ids of images that the task may read
    write     ids of images that the task may upload, update, delete and read
    rotate    whether the task may list and delete the server's backups that have the same owner as the ``write`` images
    expires   seconds since the epoch
    """

    server: str | None
    host: str | None
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    rotate: bool = False
    expires: float = 0

    def may(self, image_id: str, write: bool = False) -> bool:
        """Return whether the grant covers an image."""
        ident = str(image_id).lower()
        return ident in self.write or not write and ident in self.read

    def has_backup(self, image: Image) -> bool:
        """Return whether the grant covers the deletion of a backup; the caller also compares the owners."""
        properties = image['properties']
        return (self.rotate and properties.get('image_type') == BACKUP
                and properties.get('instance_uuid') == self.server)


def make(server: str | None, host: str | None, lifetime_s: float, read: Iterable[str | None] = (),
         write: Iterable[str | None] = (), rotate: bool = False) -> Grant:
    """Create a Grant that expires after ``lifetime_s``; None and '' among the ids are ignored."""
    return Grant(server, host, _ids(read), _ids(write), rotate, time.time() + lifetime_s)


def _ids(given: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ident.lower() for ident in given if ident))


def dump(grant: Grant, key: bytes | None = None) -> str:
    """Encode a grant as text, signed if a key is given."""
    body = base64.urlsafe_b64encode(json.dumps(dataclasses.asdict(grant), separators=(',', ':')).encode())
    return f'{body.decode()}.{_signature(body, key)}'


def load(text: str, key: bytes | None = None) -> Grant:
    """Decode and check a grant.

    :param key: signing key that the grant must have, or None if the sender is trusted
    :raises Forbidden: the grant is invalid, not signed with the key, or expired
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
    """Return a key for ``dump`` and ``load``."""
    return os.urandom(KEY_BYTES)


def holder(ctx: context.RequestContext, text: str | None, token: bool = True) -> context.RequestContext:
    """Return a context that has no access right but the grant: no project, roles or administrator rights.

    :param ctx: context of the request
    :param token: whether to include the user's token, for an image service that checks it
    """
    made = context.RequestContext(
        auth_token=ctx.auth_token if token else None, token_expires_at=ctx.token_expires_at if token else None,
        user_id=ctx.user_id, request_id=ctx.request_id, is_admin=False, overwrite=False)
    return made.granted(text)
