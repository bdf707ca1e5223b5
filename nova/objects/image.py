"""Image documents, which the image service returns and accepts."""
from __future__ import annotations

import datetime
from typing import NotRequired, TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from typing_extensions import ReadOnly


class Image(TypedDict):
    """An image. min_ram is in MiB, min_disk in GiB, the other sizes in bytes; times are naive UTC.

    ``trusted_certs``: ids of the certificates that the user of a server trusts. Only the image of a new guest has them.
    """

    id: ReadOnly[str]
    name: ReadOnly[str | None]
    status: ReadOnly[str]
    visibility: ReadOnly[str]
    owner: ReadOnly[str | None]
    protected: ReadOnly[bool]
    os_hidden: ReadOnly[bool]
    disk_format: ReadOnly[str | None]
    container_format: ReadOnly[str | None]
    min_disk: ReadOnly[int]
    min_ram: ReadOnly[int]
    size: ReadOnly[int | None]
    virtual_size: ReadOnly[int | None]
    checksum: ReadOnly[str | None]
    os_hash_algo: ReadOnly[str | None]
    os_hash_value: ReadOnly[str | None]
    created_at: ReadOnly[datetime.datetime]
    updated_at: ReadOnly[datetime.datetime]
    properties: ReadOnly[dict[str, str]]
    tags: ReadOnly[list[str]]
    trusted_certs: NotRequired[list[str] | None]


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
