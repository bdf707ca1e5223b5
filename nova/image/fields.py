"""Names and values of image fields, used by clients of image services and by the embedded image service."""
from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard, TypeVar
import uuid

from nova.objects.image import Image

if TYPE_CHECKING:
    from nova.json_types import Json

_Value = TypeVar('_Value')

DISK_FORMATS = ('raw', 'qcow2', 'iso', 'ami', 'aki', 'ari', 'vmdk', 'vhd', 'vhdx', 'vdi')
CONTAINER_FORMATS = ('bare', 'ami', 'aki', 'ari')
COLUMNS = tuple(name for name in Image.__annotations__ if name != 'properties')
LINKS = frozenset({'self', 'file', 'schema', 'direct_url', 'locations'})
# properties that refer to other images
REFERENCES = ('kernel_id', 'ramdisk_id')


def is_text(value: Json, longest: int) -> TypeGuard[str]:
    """Return whether a value is a string that all supported databases can store."""
    return isinstance(value, str) and len(value) <= longest and '\0' not in value and not _surrogate(value)


def _surrogate(value: str) -> bool:
    return not value.isascii() and any('\ud800' <= character <= '\udfff' for character in value)


def is_uuid(value: str) -> bool:
    """Return whether a string is a UUID with hyphens, in lower or upper case."""
    try:
        return str(uuid.UUID(value)) == value.lower()
    except (ValueError, AttributeError, TypeError):
        return False


def split(flat: dict[str, _Value]) -> tuple[dict[str, _Value], dict[str, _Value]]:
    """Split an image document of the API into ({name in COLUMNS or LINKS: value}, {property: value})."""
    columns = {name: value for name, value in flat.items() if name in COLUMNS or name in LINKS}
    return columns, {name: value for name, value in flat.items() if name not in columns}
