"""Metadata of volumes and snapshots, and image metadata of volumes: changes and routes."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TYPE_CHECKING, TypedDict

from nova import exception
from nova.json_types import JsonObject
from nova.volume.rest import schemas
from nova.web import sizes
from nova.web.resource import Body
from nova.web.resource import Resource

if TYPE_CHECKING:
    from typing_extensions import ReadOnly

    from nova.volume.embedded import EmbeddedVolumes
    from nova.volume.rest.request import VolumeRequest
    from nova.web.routes import Route


class Items(TypedDict):
    """Metadata columns of a row of a volume or snapshot."""

    metadata: ReadOnly[dict[str, str]]
    image_metadata: ReadOnly[dict[str, str]]


Column = Literal['metadata', 'image_metadata']
Change = Callable[[Items], JsonObject]   # function(row) -> {column: value to write}
MAX_BYTES = {'metadata': sizes.METADATA, 'image_metadata': sizes.IMAGE}      # maximum bytes of a column as JSON


def added(column: Column, given: dict[str, str], refusal: str) -> Change:
    """Return a change that adds or replaces items.

    :raises BadRequest: by the returned change, for more than MOST_ITEMS items; ``refusal`` is the message
    """
    def change(row: Items) -> JsonObject:
        merged: JsonObject = {**row[column], **given}
        if len(merged) > schemas.MAX_METADATA_ITEMS:
            raise exception.BadRequest(refusal)
        sizes.check(merged, MAX_BYTES[column], column, row[column])
        return {column: merged}
    return change


def replaced(given: dict[str, str] | None) -> dict[str, str]:
    """Check and return metadata for a create or a replacement.

    :raises TooLarge:
    """
    sizes.check(given, MAX_BYTES['metadata'], 'metadata')
    return given or {}


def removed(column: Column, key: str) -> Change:
    """Return a change that removes an item; the change raises MetadataItemNotFound if the item is missing."""
    def change(row: Items) -> JsonObject:
        if key not in row[column]:
            raise exception.MetadataItemNotFound(key=key[:255])
        return {column: {name: value for name, value in row[column].items() if name != key}}
    return change


def changed(resource: Resource, given: JsonObject) -> JsonObject:
    """Return the columns that an update changes.

    :raises TooLarge: metadata
    """
    found = {field.source: value for field, value in resource.written('update', given) if
             field.name != 'metadata' or value is not None}
    if 'metadata' in found:
        found['metadata'] = {**replaced(found['metadata'])}
    return found


def routes(plural: str, suffix: str, rules: Sequence[str], stored: Callable[[EmbeddedVolumes], Any],
           ) -> tuple[Route, ...]:
    """Return the routes of a resource's metadata.

    :param suffix: end of the operations' names
    :param rules: of show, add, replace and delete
    :param stored: function(store) -> object with ``get`` and ``update``
    """
    refusal = f'A {plural[:-1]} has at most {schemas.MAX_METADATA_ITEMS} metadata items.'

    def show(request: VolumeRequest, ident: str) -> JsonObject:
        return {'metadata': stored(request.store).get(request.context, ident)['metadata']}

    def change(request: VolumeRequest, ident: str, function: Change) -> JsonObject:
        return {'metadata': stored(request.store).update(request.context, ident, function)['metadata']}

    def add(request: VolumeRequest, ident: str) -> JsonObject:
        return change(request, ident, added('metadata', request.body, refusal))

    def replace(request: VolumeRequest, ident: str) -> JsonObject:
        given = replaced(request.body)
        return change(request, ident, lambda row: {'metadata': {**given}})

    def delete(request: VolumeRequest, ident: str, key: str) -> None:
        change(request, ident, removed('metadata', key))

    path, body, answer = f'/{plural}/{{ident}}/metadata', Body('metadata', schemas.ITEMS), schemas.METADATA_ANSWER
    route = schemas.route
    return (route('GET', path, show, rules[0], answer=answer, name=f'show_{suffix}'),
            route('POST', path, add, rules[1], body=body, answer=answer, name=f'add_{suffix}'),
            route('PUT', path, replace, rules[2], body=body, answer=answer, name=f'replace_{suffix}'),
            route('DELETE', f'{path}/{{key}}', delete, rules[3], name=f'delete_{suffix}'))
