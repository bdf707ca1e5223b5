"""Changes of the items of metadata that a row has in a column: of volumes, of the images on them, of snapshots."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nova import exception
from nova.volume.face import schemas
from nova.web import sizes

Row = dict[str, Any]
Change = Callable[[Row], Row]            # a row -> the values to write
MOST = {'metadata': sizes.METADATA, 'image_metadata': sizes.IMAGE}      # bytes of JSON


def added(column: str, given: dict[str, str], refusal: str) -> Change:
    """Add items to those that are there, or put them in their place.

    :raises BadRequest: by the change, with the text of the refusal: there would be more than MOST_ITEMS
    """
    def change(row: Row) -> Row:
        merged = {**row[column], **given}
        if len(merged) > schemas.MOST_ITEMS:
            raise exception.BadRequest(refusal)
        sizes.check(merged, MOST[column], column, row[column])
        return {column: merged}
    return change


def replaced(given: dict[str, str] | None) -> dict[str, str] | None:
    """The metadata of a new thing, or in place of what was there.

    :raises TooLarge:
    """
    sizes.check(given, MOST['metadata'], 'metadata')
    return given


def removed(column: str, key: str) -> Change:
    """:raises MetadataItemNotFound: by the change: there is no such item"""
    def change(row: Row) -> Row:
        if key not in row[column]:
            raise exception.MetadataItemNotFound(key=key[:255])
        return {column: {name: value for name, value in row[column].items() if name != key}}
    return change
