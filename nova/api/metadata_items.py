"""Single metadata items of a resource: show, update, delete."""
from collections.abc import Callable
from collections.abc import Mapping

from nova import exception
from nova.api import request as api_request
from nova.json_types import JsonDocument

Change = Callable[[dict[str, str]], dict[str, str]]


def show(metadata: Mapping[str, str], key: str) -> JsonDocument:
    """Return the document of one item.

    :raises MetadataItemNotFound: the item does not exist
    """
    if key not in metadata:
        raise exception.MetadataItemNotFound(key=key[:80])
    return {'meta': {key: metadata[key]}}


def given(req: api_request.Request, key: str) -> dict[str, str]:
    """Return the item of the body as a dictionary.

    :raises BadRequest: the item's key differs from the key in the URL
    """
    item: dict[str, str] = req.body['meta']
    if list(item) != [key]:
        raise exception.BadRequest('Request body and URI mismatch' if len(item) == 1 else
                                   'Request body contains too many items')
    return item


def without(key: str) -> Change:
    """Return a function that removes an item, and raises MetadataItemNotFound for an unknown key."""
    def change(metadata: dict[str, str]) -> dict[str, str]:
        show(metadata, key)
        return {name: value for name, value in metadata.items() if name != key}
    return change
