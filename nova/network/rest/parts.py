"""Sub-resources (parts) of a resource, for example port forwardings of floating addresses and rules of QoS policies."""
from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Generic, TYPE_CHECKING

from nova import exception
from nova.db.networks import networks as db
from nova.json_types import JsonDocument
from nova.json_types import JsonObject
from nova.network.rest import pages
from nova.network.rest.rows import Action
from nova.network.rest.rows import Answer
from nova.network.rest.rows import below
from nova.network.rest.rows import Page
from nova.network.rest.rows import R
from nova.network.rest.rows import Rows
from nova.web.resource import closed
from nova.web.resource import Schema

if TYPE_CHECKING:
    from nova.context import RequestContext
    from nova.db.engine import Connection
    from nova.network.rest.request import Deps


Part = dict[str, Any]                   # row of a sub-resource


@dataclasses.dataclass(frozen=True)
class Parts(Rows, Generic[R]):
    """Operations on the sub-resources (parts) of a resource (row).

    of       column with the id of the resource
    order    columns that sort the parts
    lock     function(conn, row) -> locked row
    check    function(conn, context, row, part, others) -> further columns of a new or changed part, or None
    changed  function(conn, row, part, is_deleted), called after each change
    missing  function(row, id) -> the error for a missing part
    columns  function(row, values, known part or None) -> columns; None: those of the fields
    constant further columns of the parts in the table; rows with other values are not parts
    store, remove   function(conn, part) that replace the standard statements
    ignored  attributes that requests may contain but that have no effect
    """

    of: str
    order: tuple[str, ...]
    lock: Callable[[Connection, R], R]
    check: Callable[[Connection, RequestContext, R, Part, list[Part]], Part | None]
    changed: Callable[[Connection, R, Part, bool], None]
    missing: Callable[[R, str], exception.NovaException]
    columns: Callable[[R, Mapping[str, Any], Part | None], Part] | None = None
    constant: Mapping[str, str] = dataclasses.field(default_factory=dict)
    store: Callable[[Connection, Any], None] | None = None
    remove: Callable[[Connection, Part], None] | None = None
    ignored: tuple[str, ...] = ()

    def read(self, conn: Connection, row: R) -> list[Part]:
        """Return the parts of a resource."""
        found = [part for part in db.many(conn, self.table, [row['id']], self.of)
                 if self.constant.items() <= part.items()]
        return sorted(found, key=lambda part: [part[name] for name in self.order])

    def shown(self, part: Mapping[str, Any]) -> JsonObject:
        return self.view('show').compiled(0)(part, None)

    def _given(self, body: JsonObject) -> JsonObject:
        return {name: value for name, value in below(body, self.name).items() if name not in self.ignored}

    def _one(self, conn: Connection, row: R, ident: str) -> Part:
        for part in self.read(conn, row):
            if part['id'] == ident:
                return part
        raise self.missing(row, ident)

    def _stored(self, conn: Connection, context: RequestContext, row: R, known: Part | None,
                values: dict[str, Any]) -> JsonDocument:
        """Check and store a new or changed part; return its document."""
        before = known or {'id': str(uuid.uuid4()), self.of: row['id'], **self.constant}
        part = {**before, **(self.columns(row, values, known) if self.columns else self.stored(values))}
        others = [each for each in self.read(conn, row) if each['id'] != part['id']]
        part |= self.check(conn, context, row, part, others) or {}
        if self.store is not None:
            self.store(conn, part)
        elif known is None:
            db.insert(conn, self.table, [part])
        else:
            db.update(conn, self.table, part['id'], {
                name: value for name, value in part.items() if value != known[name]})
        self.changed(conn, row, part, False)
        return {self.name: self.shown(part)}

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
        values = self.parse(self._given(body), 'create')
        return self._stored(conn, context, self.lock(conn, row), None, values)

    def update_part(self, conn: Connection, deps: Deps, context: RequestContext, row: R, body: JsonObject,
                    part: str) -> JsonDocument:
        row = self.lock(conn, row)
        known = self._one(conn, row, part)
        values = self.parse(self.different(self.shown(known), self._given(body)), 'update')
        return self._stored(conn, context, row, known, values) if values else {self.name: self.shown(known)}

    def delete_part(self, conn: Connection, deps: Deps, context: RequestContext, row: R, body: None,
                    part: str) -> None:
        row = self.lock(conn, row)
        known = self._one(conn, row, part)
        if self.remove is not None:
            self.remove(conn, known)
        else:
            db.delete(conn, self.table, known['id'])
        self.changed(conn, row, known, True)

    def actions(self) -> tuple[Action, ...]:
        """Return the operations on these parts, for ``actions`` of the Resource that has the parts."""
        one, answer = self.plural + '/{part}', Answer(self)

        def body(write: str) -> Schema:
            return closed(self.name, **{self.name: self.accepted(write, **dict.fromkeys(self.ignored, {}))})
        return (Action('GET', self.plural, self.list_parts, Page(self),
                       query=pages.parameters(self._names, narrowed=False)),
                Action('POST', self.plural, self.create_part, answer, body('create')),
                Action('GET', one, self.show_part, answer),
                Action('PUT', one, self.update_part, answer, body('update')),
                Action('DELETE', one, self.delete_part))
