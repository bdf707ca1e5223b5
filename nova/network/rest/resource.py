"""A resource of the Network API: rows, attributes, and the functions for create, update and delete."""
from __future__ import annotations

import dataclasses
import datetime
import typing
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence

from nova import utils
from nova.context import RequestContext
from nova.json_types import JsonDocument

if typing.TYPE_CHECKING:
    from nova.db.engine import Condition
    from nova.db.engine import Connection
    from nova.db.engine import Table
    from nova.db.networks.listing import Listing
    from nova.network.rest.attributes import Attribute
    from nova.network.rest.request import Deps

View = dict[str, typing.Any]           # a resource as clients read it


class Owned(typing.TypedDict):
    """Columns that decide who may change a row."""

    project_id: str


class Described(Owned):
    """Columns that every resource has."""

    id: str
    description: str
    created_at: datetime.datetime
    updated_at: datetime.datetime
    revision: int


class Stored(typing.TypedDict):
    """Columns of every table of resources."""

    id: str
    revision: int


Found = typing.TypeVar('Found')
R = typing.TypeVar('R', bound=Stored)             # the row type of a resource


@dataclasses.dataclass(frozen=True)
class Resource(typing.Generic[R]):
    """A resource.

    visible   function(context) -> condition on rows visible to the caller
    writable  function(context, row) -> whether the caller may change the row
    removable function(conn, context, row) -> whether the caller may delete the row; None: as writable
    views     function(conn, context, rows) -> list of dicts
    create, update, delete   function(conn, deps, context, values | row, values | row); create returns the id
    missing   function(id) -> the error for a missing row
    prepare   function(conn, context): called in a transaction before a list
    narrow    (columns, other fields, function(conn, rows, fields) -> views): reads for lists with only these fields
    tagged    whether it has tags
    shown     function(conn, row) -> (port id or None, data of the row that the port's server shows)
    at        path; '': the plural
    actions   (method, path below one, function(conn, deps, context, row, body, **parts) -> document or None)
    """

    singular: str
    plural: str
    table: Table[R]
    attributes: dict[str, Attribute]
    listing: Listing
    visible: Callable[[RequestContext], Condition]
    writable: Callable[[RequestContext, R], bool]
    views: Callable[[Connection, RequestContext, list[R]], list[View]]
    create: Callable[[Connection, Deps, RequestContext, dict[str, typing.Any]], str]
    update: Callable[[Connection, Deps, RequestContext, R, dict[str, typing.Any]], None]
    delete: Callable[[Connection, Deps, RequestContext, R], None]
    missing: Callable[[str], Exception]
    prepare: Callable[[Connection, RequestContext], None] | None = None
    actions: tuple[tuple[str, str, Callable[..., JsonDocument | None]], ...] = ()
    narrow: tuple[Sequence[str], Collection[str],
                  Callable[[Connection, list[dict[str, typing.Any]], set[str]], list[View]]] | None = None
    tagged: bool = True
    server_view: Callable[[Connection, R], tuple[str | None, Hashable]] | None = None
    at: str = ''
    removable: Callable[[Connection, RequestContext, R], bool] | None = None

    @property
    def path(self) -> str:
        return self.at or self.plural.replace('_', '-')


def found(row: Found | None, missing: Exception) -> Found:
    """Return a row, or raise ``missing``, because another request may have deleted the row.

    :raises missing: the row is None
    """
    if row is None:
        raise missing
    return row


def owner(context: RequestContext, row: Owned) -> bool:
    return context.is_admin or bool(context.project_id) and row['project_id'] == context.project_id


def columns(row: Mapping[str, typing.Any], names: Iterable[str]) -> View:
    """Return some columns of a row."""
    return {name: row[name] for name in names}


def times(row: Described) -> View:
    """Return the attributes that every resource has."""
    return {'id': row['id'], 'project_id': row['project_id'], 'tenant_id': row['project_id'],
            'description': row['description'], 'created_at': utils.isotime(row['created_at']),
            'updated_at': utils.isotime(row['updated_at']), 'revision_number': row['revision'], 'tags': []}
