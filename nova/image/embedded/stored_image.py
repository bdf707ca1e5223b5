"""Rows of the embedded image store."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova.objects.image import Image

if TYPE_CHECKING:
    from typing_extensions import ReadOnly


class StoredImage(Image):
    """An image with the columns of the store.

    administrative  whether an instance category (nova/db/placement/categories.py) uses this image by default for its
                    servers; only administrators see it
    """

    data_id: ReadOnly[str]
    administrative: ReadOnly[bool]
