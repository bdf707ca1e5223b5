"""Cleanup of incomplete snapshot images after a failed task."""
from nova import exception
from nova.image.granted import BoundImages


COMPLETE_STATUSES = ('active', 'deactivated')


def is_complete(images: BoundImages, image_id: str) -> bool:
    """Return whether an image has all its data; raises ImageNotFound."""
    return images.show(image_id)['status'] in COMPLETE_STATUSES


def remove(images: BoundImages, image_id: str) -> bool:
    """Delete an image that lacks data. Return True if the image is complete and therefore kept."""
    try:
        if is_complete(images, image_id):
            return True
        images.delete(image_id)
    except exception.ImageNotFound:
        pass
    return False
