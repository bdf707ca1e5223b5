"""Image documents, which the image service returns and accepts."""
from __future__ import annotations

import datetime
from typing import cast, NotRequired, TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from typing_extensions import ReadOnly

# properties that an image made of a server or volume does not inherit: they are valid only for the original image
NOT_INHERITED = frozenset({'image_type', 'backup_type', 'base_image_ref', 'instance_uuid', 'user_id', 'owner_id',
                           'os_hash_algo', 'os_hash_value', 'stores',
                           'img_signature', 'img_signature_hash_method', 'img_signature_key_type',
                           'img_signature_certificate_uuid'})


class StoredImage(TypedDict):
    """The part of an image that request specs store. min_ram is in MiB, min_disk in GiB, size in bytes.

    ``id``: None for a guest that boots from a volume. ``trusted_certs``: ids of the certificates that the user
    trusts; only in the specs of new guests.
    """

    id: ReadOnly[str | None]
    name: ReadOnly[str | None]
    status: ReadOnly[str]
    min_ram: ReadOnly[int]
    min_disk: ReadOnly[int]
    size: ReadOnly[int | None]
    disk_format: ReadOnly[str | None]
    container_format: ReadOnly[str | None]
    checksum: ReadOnly[str | None]
    os_hash_algo: ReadOnly[str | None]
    os_hash_value: ReadOnly[str | None]
    owner: ReadOnly[str | None]
    properties: ReadOnly[dict[str, str]]
    trusted_certs: NotRequired[list[str] | None]


_STORED = tuple(name for name in StoredImage.__annotations__ if name != 'trusted_certs')


class Image(StoredImage):
    """An image. virtual_size is in bytes; times are naive UTC."""

    id: ReadOnly[str]
    visibility: ReadOnly[str]
    protected: ReadOnly[bool]
    os_hidden: ReadOnly[bool]
    virtual_size: ReadOnly[int | None]
    created_at: ReadOnly[datetime.datetime]
    updated_at: ReadOnly[datetime.datetime]
    tags: ReadOnly[list[str]]


def stored(image: Image) -> StoredImage:
    """Return the stored fields of an image."""
    return cast(StoredImage, {name: image.get(name) for name in _STORED})


class ImageValues(TypedDict, total=False):
    """Values of a new or changed image."""

    id: str
    name: str | None
    visibility: str
    owner: str | None
    protected: bool
    os_hidden: bool
    disk_format: str | None
    container_format: str | None
    min_disk: int
    min_ram: int
    properties: dict[str, str]
    tags: list[str]
