"""Images of servers with a volume for their root disk: they have no data, and name the snapshots that have."""
from __future__ import annotations

from typing import Any

from nova import exception
from nova.hardware import disks
from nova.web import json_text


def has_data(image: dict[str, Any]) -> bool:
    """Whether an image has data of its own."""
    return bool(image.get('size') or not image['properties'].get(disks.MAPPING))


def root_snapshot(image: dict[str, Any]) -> str:
    """The id of the snapshot of the root disk, which may be none of the caller's: the image's owner wrote it.

    :raises BadRequest: it names none
    """
    try:
        return next(str(each['snapshot_id']) for each in json_text.parse(image['properties'][disks.MAPPING])
                    if each.get('boot_index') == 0)
    except (ValueError, TypeError, AttributeError, KeyError, StopIteration):
        raise exception.BadRequest(f'Image {image["id"]} has no data, and its block_device_mapping names no snapshot '
                                   'for a root disk.') from None
