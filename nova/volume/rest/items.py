"""Changes of metadata columns: metadata of volumes and snapshots, image metadata of volumes."""
from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TYPE_CHECKING, TypedDict

from nova import exception
from nova.json_types import JsonObject
from nova.volume.rest import schemas
from nova.web import sizes

if TYPE_CHECKING:
    from typing_extensions import ReadOnly



class Items(TypedDict):
    """Columns of a row of a volume or snapshot."""

    metadata: ReadOnly[dict[str, str]]
    image_metadata: ReadOnly[dict[str, str]]


Column = Literal['metadata', 'image_metadata']
Change = Callable[[Items], JsonObject]   # a row -> values to write
MOST = {'metadata': sizes.METADATA, 'image_metadata': sizes.IMAGE}      # bytes of JSON


def added(column: Column, given: dict[str, str], refusal: str) -> Change:
    """Return a change that adds or replaces items.

    :raises BadRequest: by the returned change, for more than MOST_ITEMS items; ``refusal`` is the message
    """
    def change(row: Items) -> JsonObject:
        merged: JsonObject = {**row[column], **given}
        if len(merged) > schemas.MOST_ITEMS:
            raise exception.BadRequest(refusal)
        sizes.check(merged, MOST[column], column, row[column])
        return {column: merged}
    return change


def replaced(given: dict[str, str] | None) -> dict[str, str]:
    """Check and return metadata for a create or a replacement.

    :raises TooLarge:
    """
    sizes.check(given, MOST['metadata'], 'metadata')
    return given or {}


def removed(column: Column, key: str) -> Change:
    """Return a change that removes an item; the change raises MetadataItemNotFound if the item is missing."""
    def change(row: Items) -> JsonObject:
        if key not in row[column]:
            raise exception.MetadataItemNotFound(key=key[:255])
        return {column: {name: value for name, value in row[column].items() if name != key}}
    return change
