"""Sub-resources (parts) of a resource, for example port forwardings of floating addresses and rules of QoS policies."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import cast, Generic, TYPE_CHECKING, TypedDict, TypeVar

from nova import exception
from nova.json_types import JsonDocument
from nova.json_types import JsonObject
from nova.network.rest import pages
from nova.network.rest.rows import Action
from nova.network.rest.rows import Answer
from nova.network.rest.rows import below
from nova.network.rest.rows import Page
from nova.network.rest.rows import R
from nova.network.rest.rows import Rows
from nova.network.rest.rows import V
from nova.web.resource import closed
from nova.web.resource import Schema

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.db.engine import Connection
    from nova.network.rest.request import Deps


class Kept(TypedDict):
    """Columns that each table of sub-resources has."""

    id: str


P = TypeVar('P', bound=Kept)            # the row type of a sub-resource


@dataclasses.dataclass(frozen=True)
class Parts(Rows, Generic[R, P, V]):
    """Operations on the sub-resources (parts) of a resource (row).

    read     function(conn, row) -> parts
    lock     function(conn, row) -> locked row
    create   function(conn, context, row, values) -> part
    update   function(conn, context, row, part, values) -> changed part
    delete   function(conn, row, part)
    missing  function(row, id) -> the error for a missing part
    ignored  attributes that requests may contain but that have no effect
    """

    read: Callable[[Connection, R], Sequence[P]]
    lock: Callable[[Connection, R], R]
    create: Callable[[Connection, RequestContext, R, V], P]
    update: Callable[[Connection, RequestContext, R, P, V], P]
    delete: Callable[[Connection, R, P], None]
    missing: Callable[[R, str], exception.NovaException]
    ignored: tuple[str, ...] = ()

    def shown(self, part: P) -> JsonObject:
        return self.view('show').compiled(0)(part, None)

    def _given(self, body: JsonObject) -> JsonObject:
        return {name: value for name, value in below(body, self.name).items() if name not in self.ignored}

    def _one(self, conn: Connection, row: R, ident: str) -> P:
        for part in self.read(conn, row):
            if part['id'] == ident:
                return part
        raise self.missing(row, ident)

    @property
    def _names(self) -> list[str]:
        """Return the fields by which lists can be filtered and sorted."""
        return [field.name for field in self.view('show').rows]

    def list_parts(self, conn: Connection, deps: Deps, context: RequestContext, row: R,
                   query: pages.Query) -> JsonDocument:
        return {self.plural: pages.select(query, [self.shown(part) for part in self.read(conn, row)], self._names)}

    def show_part(self, conn: Connection, deps: Deps, context: RequestContext, row: R, query: pages.Query,
                  part: str) -> JsonDocument:
        return {self.name: self.shown(self._one(conn, row, part))}

    def create_part(self, conn: Connection, deps: Deps, context: RequestContext, row: R,
                    body: JsonObject) -> JsonDocument:
        values = cast('V', self.parse(self._given(body), 'create'))
        return {self.name: self.shown(self.create(conn, context, self.lock(conn, row), values))}

    def update_part(self, conn: Connection, deps: Deps, context: RequestContext, row: R, body: JsonObject,
                    part: str) -> JsonDocument:
        row = self.lock(conn, row)
        known = self._one(conn, row, part)
        values = cast('V', self.parse(self.different(self.shown(known), self._given(body)), 'update'))
        return {self.name: self.shown(self.update(conn, context, row, known, values) if values else known)}

    def delete_part(self, conn: Connection, deps: Deps, context: RequestContext, row: R, body: None,
                    part: str) -> None:
        row = self.lock(conn, row)
        self.delete(conn, row, self._one(conn, row, part))

    def actions(self) -> tuple[Action, ...]:
        """Return the operations on these parts, for ``actions`` of the Resource that has the parts."""
        one, answer = self.plural + '/{part}', Answer(self)

        def body(write: str) -> Schema:
            return closed(self.name, **{self.name: self.accepted(write, **dict.fromkeys(self.ignored, {}))})
        return (Action('GET', self.plural, self.list_parts, Page(self), query=pages.parameters(self._names)),
                Action('POST', self.plural, self.create_part, answer, body('create')),
                Action('GET', one, self.show_part, answer),
                Action('PUT', one, self.update_part, answer, body('update')),
                Action('DELETE', one, self.delete_part))
