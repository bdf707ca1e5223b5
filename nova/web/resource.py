"""Resources of an HTTP API: each field is one row with its type, column, versions, rule, filter and description.

    VOLUME = Resource('volume', 'volumes', tables.volumes, (
        Field('id', UUID, 'id', 'ID of the volume.', views='list show create', filter='id', sort=True),
        Field('size', INTEGER, 'size', 'Size in GiB.', write='create', accepts=SIZE, filter='size', sort=True),
        Field('host', TEXT, 'host', 'Backend.', rule='admin', since=7),
    ))
    Route('GET', '/volumes/{id}', show, answer=One(VOLUME, 'show'))
    Route('POST', '/volumes', create, body=VOLUME.body('create'), answer=One(VOLUME, 'create'))

The handler returns a row, and the ``answer`` of the Route builds the document from it. Types are JSON Schemas. The same
type validates requests and describes requests and responses in the OpenAPI document.
"""
from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TYPE_CHECKING, TypeAlias

import jsonschema

from nova import exception
from nova.json_types import Encodable
from nova.json_types import Json
from nova.json_types import JsonObject
from nova.web import fields
from nova.web import json_schema

if TYPE_CHECKING:
    from nova.db.engine import Table

Schema = json_schema.Schema
Reason: TypeAlias = str | Callable[[Any], str]        # why a value is refused, or function(value) -> reason or ''
Getter = Callable[[Any, Any], Any]       # (row, request) -> value
Prepare: TypeAlias = Callable[[Any, Any], Sequence[Any]]     # (conn, rows) -> rows
MAX_SHOWN = 64                           # maximum length of a key in an error message


class Described(Protocol):
    """A type whose JSON Schema depends on the minor version."""

    def schema(self, version: int) -> Schema:
        """Return the JSON Schema at a version."""


Type: TypeAlias = Schema | Described | Sequence[Schema | Described]      # a sequence: [type of items]


class Converted(dict[str, Encodable]):
    """A JSON Schema with a function ``convert(name, value)``, which converts valid values of requests."""

    def __init__(self, schema: Schema, convert: Callable[[str, Any], Any]) -> None:
        super().__init__(schema)
        self.convert = convert


def converted(name: str, schema: Schema, value: Any) -> Any:
    """Convert a valid value if the schema is Converted. Nested values are converted first."""
    if isinstance(value, dict):
        known = json_schema.part(schema, 'properties')
        value = {key: converted(name, json_schema.part(known, key), item) for key, item in value.items()}
    elif isinstance(value, list):
        items = json_schema.part(schema, 'items')
        value = [converted(name, items, item) for item in value]
    return schema.convert(name, value) if isinstance(schema, Converted) else value


def schema_of(type_: Type, version: int) -> Schema:
    """Return the JSON Schema of a type at a version."""
    if isinstance(type_, Sequence):
        return {'type': 'array', 'items': schema_of(type_[0], version)}
    return type_ if isinstance(type_, Mapping) else type_.schema(version)


def closed(*required: str, **properties: Schema) -> Schema:
    """Return the schema of an object that may have only these properties."""
    return {'type': 'object', 'properties': properties, 'additionalProperties': False,
            **({'required': list(required)} if required else {})}


def shape(**properties: Schema) -> Schema:
    """Return the schema of an object that must have all of these properties, and no others."""
    return closed(*properties, **properties)


@dataclasses.dataclass(frozen=True)
class Field(fields.Row):
    """One field of a resource.

    name      key in requests and responses
    type      type of the value in responses
    get       column name, ``get(row, request)``, or a fields.Constant; None: the field is not shown
    doc       description in the OpenAPI document
    views     names of the views with the field
    since, until   first and last minor version with the field in responses
    rule      policy rule that the caller must pass to see the field
    optional  responses may omit the field: ``get`` may return fields.ABSENT
    column    column for ``filter`` and ``sort``; default: ``get``
    filter    names of query parameters that filter lists by the column
    sort      whether lists can be sorted by the column
    write     requests that accept the field: 'create', 'update'
    accepts   JSON Schema of the value in requests; default: ``type``
    required  whether a create request must have the field
    aliases   other names of the field in requests
    refused   why a request with a value for this field is refused; '': the request is accepted
    """

    name: str
    type: Type
    get: str | Getter | fields.Constant | None
    doc: str
    views: str = 'show create'
    since: int = 0
    until: int | None = None
    rule: str | None = None
    optional: bool = False
    column: str = ''
    filter: str = ''
    sort: bool = False
    write: str = ''
    accepts: Schema | None = None
    required: bool = False
    aliases: tuple[str, ...] = ()
    refused: str = ''
    columns: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """Column by which lists are filtered and sorted."""
        return self.column or str(self.get)


class View(fields.Fields):
    """Fields of a response: builds documents from rows (see fields.Fields) and returns their schema."""

    rows: tuple[Field, ...]

    @property
    def checks(self) -> tuple[str, ...]:
        """Return the rules of all fields."""
        return tuple(dict.fromkeys(field.rule for field in self.rows if field.rule))

    def documents(self, request: Any) -> Callable[[Any], dict[str, Any]]:
        """Return a function(row) -> document. The function evaluates the rules once for each project and user.

        :param request: request with a method ``allows(rule, row)`` that checks a rule for a row
        """
        rules = self.rules(request.version)
        if not rules:
            plain: Any = self.compiled(request.version)
            return functools.partial(plain, view=request)
        builds: dict[tuple[Any, Any], fields.Build] = {}

        def build(row: Any) -> dict[str, Any]:
            owner = row.get('project_id'), row.get('user_id')
            if owner not in builds:
                whose = row if 'project_id' in row else None
                builds[owner] = self.compiled(request.version, frozenset(
                    [rule for rule in rules if request.allows(rule, whose)]))
            return builds[owner](row, request)
        return build

    def schema(self, version: int) -> Schema:
        """Return the JSON Schema of the document at a version."""
        shown = [field for field in self.rows if field.at(version)]
        return {'type': 'object', 'additionalProperties': False,
                'properties': {field.name: {**schema_of(field.type, version), 'description': field.doc}
                               for field in shown},
                'required': [field.name for field in shown if field.rule is None and not field.optional]}


@dataclasses.dataclass(frozen=True)
class Resource:
    """A kind of objects in an API, for example volumes.

    name, plural   keys of one object and of a list in documents
    table          table from which lists read rows; None: rows come from elsewhere
    fields         the fields, in the order of responses
    view_class     class of the views
    """

    view_class: ClassVar[type[View]] = View

    name: str
    plural: str
    table: Table | None
    fields: tuple[Field, ...]

    @functools.cached_property
    def _views(self) -> dict[str, View]:
        names = {view for field in self.fields for view in field.views.split()}
        return {name: self.view_class(*(field for field in self.fields if name in field.views.split()))
                for name in names}

    def view(self, name: str) -> View:
        """Return the fields of one view."""
        return self._views[name]

    @functools.cached_property
    def filters(self) -> dict[str, str]:
        """Return {query parameter: column}."""
        return {name: field.source for field in self.fields for name in field.filter.split()}

    @functools.cached_property
    def sort_keys(self) -> list[str]:
        """Return the columns that lists can be sorted by."""
        return [field.source for field in self.fields if field.sort]

    def properties(self, write: str) -> dict[str, Schema]:
        """Return {name: schema} of the fields that a request of the kind ``write`` accepts."""
        return {name: schema_of(field.type, 0) if field.accepts is None else field.accepts
                for field in self.fields if write in field.write.split()
                for name in (field.name, *field.aliases)}

    def body(self, write: str, closed_since: int | None = None, ignored: Mapping[str, Reason] | None = None) -> Body:
        """Return the Body of requests of the kind ``write``.

        :param closed_since, ignored: see Body
        """
        required = [field.name for field in self.fields if field.required and write == 'create']
        return Body(self.name, closed(*required, **self.properties(write)), ignored, closed_since,
                    {field.name: field.refused for field in self.fields if field.refused})

    def written(self, write: str, values: Mapping[str, Json]) -> list[tuple[Field, Any]]:
        """Return (field, value) of the fields that a request sets."""
        given = self.given(values)
        return [(field, given[field.name]) for field in self.fields
                if write in field.write.split() and field.name in given]

    def given(self, values: Mapping[str, Json]) -> dict[str, Any]:
        """Return {name of a field: value} of a request. A value under an alias has priority."""
        names = {alias: field.name for field in self.fields for alias in field.aliases}
        return {**values, **{names[alias]: values[alias] for alias in names if alias in values}}


# ---- answers -----------------------------------------------------------------

class Document:
    """A response whose handler returns the document.

    :param required, optional: {key: type}
    """

    checks: tuple[str, ...] = ()

    def __init__(self, required: Mapping[str, Type], optional: Mapping[str, Type] | None = None) -> None:
        self._required, self._optional = required, optional or {}

    def schema(self, version: int) -> Schema:
        return {'type': 'object', 'additionalProperties': False, 'required': [*self._required], 'properties': {
            name: schema_of(type_, version) for name, type_ in (*self._required.items(), *self._optional.items())}}

    def render(self, request: Any, result: Any) -> Any:
        return result


class One(Document):
    """A response {name of the resource: object}. The handler returns the row."""

    def __init__(self, resource: Resource, view: str) -> None:
        self.key, self.view = resource.name, resource.view(view)
        self.checks = self.view.checks
        super().__init__({self.key: self.view})

    def render(self, request: Any, result: Any) -> Any:
        return {self.key: self.view.documents(request)(result)}


class Page(Document):
    """A page of a list. The handler builds the document from ``resource`` and ``view``.

    :param prepare: function(conn, rows) -> rows with additional data that the view needs
    :param more: {optional key of the document: type}
    """

    def __init__(self, resource: Resource, view: str, prepare: Prepare | None = None,
                 more: Mapping[str, Type] | None = None) -> None:
        self.resource, self.view, self.prepare = resource, resource.view(view), prepare
        self.checks = self.view.checks
        super().__init__({resource.plural: [self.view]}, more)


class Plain(Document):
    """A response with the same schema at all versions."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def schema(self, version: int) -> Schema:
        return self._schema


# ---- request bodies ----------------------------------------------------------

def check_known(given: Mapping[str, Json], known: Collection[str], where: str) -> None:
    """Refuse unknown keys.

    :param where: path of ``given`` in the body; empty for the body
    :raises BadRequest: unknown key
    """
    unknown = ', '.join(repr(key[:MAX_SHOWN]) for key in sorted(given.keys() - known)[:3])
    if unknown:
        raise exception.BadRequest(f'Invalid input for field/attribute {where or "body"}: unknown key {unknown}.')


def refuse(given: Mapping[str, Json], refused: Mapping[str, Reason]) -> None:
    """Refuse keys with an unsupported value; null and empty values are accepted.

    :param refused: {key: reason}
    :raises BadRequest: one of the keys has a value that is refused
    """
    for key, reason in refused.items():
        if given.get(key):
            why = reason if isinstance(reason, str) else reason(given[key])
            if why:
                raise exception.BadRequest(f'Invalid input for field/attribute {key}: {why}')


class Body:
    """A body with one key. The handler gets the validated and converted value below the key.

    :param content: JSON Schema of the value
    :param ignored: {another key of the body: Reason to refuse a value}. Accepted, null and empty values are ignored.
    :param closed_since: minor version from which unknown keys of the value are refused; None: all versions
    :param refused: {key in the value: reason to refuse requests with this key}
    """

    def __init__(self, key: str, content: Schema, ignored: Mapping[str, Reason] | None = None,
                 closed_since: int | None = None, refused: Mapping[str, str] | None = None) -> None:
        self.key, self._ignored, self._closed_since, self._refused = key, ignored or {}, closed_since, refused or {}
        self.content = content if closed_since is None else {**content, 'additionalProperties': True}
        self._known = json_schema.part(content, 'properties')
        self._validator = json_schema.Validator(self.content)

    def schema(self, version: int, relaxed: bool = False) -> Schema:
        """Return the JSON Schema of the body at a version."""
        content = self.content
        if self._closed_since is not None and version >= self._closed_since:
            content = {**content, 'additionalProperties': False}
        return closed(self.key, **{self.key: content}, **dict.fromkeys(self._ignored, {}))

    def validate(self, document: JsonObject, version: int = 0, relaxed: bool = False) -> Any:
        """Validate a body and return the value below the key.

        :raises BadRequest: missing, invalid, unsupported or unknown key
        """
        refuse(document, self._ignored)
        check_known(document, {self.key, *self._ignored}, '')
        value = document.get(self.key)
        if value is None:
            raise exception.BadRequest(
                f"Invalid input for field/attribute {self.key}: '{self.key}' is a required property.")
        error = jsonschema.exceptions.best_match(self._validator.iter_errors(value))
        if error is not None:
            path = '.'.join(str(part) for part in (self.key, *error.absolute_path))
            if error.validator == 'additionalProperties' and error.validator_value is False:
                check_known(error.instance, error.schema['properties'], path[:200])
            raise exception.BadRequest(f'Invalid input for field/attribute {path[:200]}: {error.validator} is not met.')
        if isinstance(value, dict):
            refuse(value, self._refused)
            if self._closed_since is not None and version >= self._closed_since:
                check_known(value, self._known, self.key)
            return {key: converted(key, json_schema.part(self._known, key), item) for key, item in value.items()}
        return value


class Whole(Body):
    """A body without an outer key: the whole body is the value."""

    def __init__(self, content: Schema, refused: Mapping[str, str] | None = None) -> None:
        super().__init__('body', content, refused=refused)

    def schema(self, version: int, relaxed: bool = False) -> Schema:
        return self.content

    def validate(self, document: JsonObject, version: int = 0, relaxed: bool = False) -> Any:
        """Validate a body and return it; see Body."""
        return super().validate({self.key: document}, version, relaxed)
