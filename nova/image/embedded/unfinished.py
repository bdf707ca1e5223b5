"""Images that were to become copies of servers, and whose makers are gone."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova import exception

if TYPE_CHECKING:
    from nova.image.api import BoundImages


WHOLE = ('active', 'deactivated')


def whole(images: BoundImages, image_id: str) -> bool:
    """Whether an image has all of its data; raises ImageNotFound.

    :param images: nova.image.api.BoundImages
    """
    return images.show(image_id)['status'] in WHOLE


def remove(images: BoundImages, image_id: str) -> bool:
    """Remove an image that never got its data; True when it is whole, and stays.

    :param images: nova.image.api.BoundImages
    """
    try:
        if whole(images, image_id):
            return True
        images.delete(image_id)
    except exception.ImageNotFound:
        pass
    return False
