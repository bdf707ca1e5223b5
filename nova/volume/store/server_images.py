"""Images of volume-backed servers: they have no data, but refer to snapshots."""
from __future__ import annotations

from typing import TYPE_CHECKING

from nova import exception
from nova.hardware import disks
from nova.web import json_text

if TYPE_CHECKING:
    from nova.objects.image import Image


def has_data(image: Image) -> bool:
    """Return whether an image has data."""
    return bool(image.get('size') or not image['properties'].get(disks.MAPPING))


def root_snapshot(image: Image) -> str:
    """Return the id of the root disk's snapshot. The image's owner wrote it: the caller may not have access.

    :raises BadRequest: the image refers to none
    """
    try:
        return next(str(each['snapshot_id']) for each in json_text.parse(image['properties'][disks.MAPPING])
                    if each.get('boot_index') == 0)
    except (ValueError, TypeError, AttributeError, KeyError, StopIteration):
        raise exception.BadRequest(f'Image {image["id"]} has no data, and its block_device_mapping has no snapshot for '
                                   'a root disk.') from None
