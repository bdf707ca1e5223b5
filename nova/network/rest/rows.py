"""Resources of the Networking API: a Field object for each field of a resource.

A Field has the type, column, rules, filter and description of a field, and the values that requests set
(nova/web/resource.py).
"""
from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, cast, Generic, TYPE_CHECKING, TypedDict, TypeVar

from nova import exception
from nova.db.networks import networks as db
from nova.db.networks import tags as db_tags
from nova.db.networks.listing import CHANGED_SINCE
from nova.db.networks.listing import comparable
from nova.db.networks.listing import Listing
from nova.db.networks.listing import PAGING
from nova.db.networks.listing import TAG_FILTERS
from nova.json_types import Json
from nova.json_types import JsonObject
from nova.network.rest import permissions
from nova.network.rest import schemas as s
from nova.web import params
from nova.web import resource
from nova.web.fields import Constant
from nova.web.resource import Schema

if TYPE_CHECKING:
    import typing_extensions

    from nova.context import RequestContext
    from nova.db.engine import Column
    from nova.db.engine import Condition
    from nova.db.engine import Connection
    from nova.db.engine import Table
    from nova.network.rest.request import Deps

View = dict[str, Any]                     # a resource as the API returns it
Load = Callable[['Connection', 'RequestContext', list[dict[str, Any]]], None]
BOTH = 'create update'                    # requests to create and to update may set the field
_COMPARED = frozenset(('id', 'network_id', *permissions.COMPARED))       # always read, because rules compare these
_MAX_VIEWS = 100                          # maximum number of cached selections of fields


class Owned(TypedDict):
    """Column that identifies the owner of a row."""

    project_id: str


class Stored(TypedDict):
    """Columns that each table of resources has."""

    id: str
    revision: int


class NewOwner(TypedDict, total=False):
    """Values of a request that name the owner of a new resource."""

    project_id: str | None
    tenant_id: str | None


Found = TypeVar('Found')
R = TypeVar('R', bound=Stored)             # the row type of a resource
if TYPE_CHECKING:
    V = typing_extensions.TypeVar('V', default=Any)       # the type of the values in requests
else:
    V = TypeVar('V')


@dataclasses.dataclass(frozen=True)
class Field(resource.Field):
    """A field.

    default   value for create requests without the field
    guarded   whether requests with the field need the rule create_RESOURCE:NAME or update_RESOURCE:NAME
    parts     keys of the value, or of the items of a list, that each have a rule create_RESOURCE:NAME:KEY
    checked   further keys with a rule; functions of the resource check these rules
    load      function(conn, context, rows): adds to the rows the column that ``get`` reads
    lists     function(conn, ids of rows) -> {id: the list that ``get`` reads}; empty lists may be missing
    where     function(values of a filter) -> condition; None: the filter compares the column
    listed    whether lists can be filtered by the field
    hidden    whether null may stand for a value that the caller does not see
    chosen    whether null in a creation lets the service choose the value; updates refuse null
    """

    default: object = None
    guarded: bool = False
    parts: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    load: Load | None = None
    lists: Callable[[Connection, list[str]], Mapping[str, Sequence[Any]]] | None = None
    where: Callable[[list[str]], Condition] | None = None
    listed: bool = True
    hidden: bool = False
    chosen: bool = False

    @functools.cached_property
    def check(self) -> s.TypeValidator:
        """Return the validator of the field's values in requests."""
        return s.TypeValidator(self.accepts if self.accepts is not None else resource.schema_of(self.type, 0))


def column(name: str, type_: resource.Type, doc: str, **more: Any) -> Field:
    """Return a field that shows the column with its name; for the parameters see Field."""
    return Field(name, type_, name, doc, **more)


@dataclasses.dataclass(frozen=True)
class Rows(resource.Resource):
    """A table, and fields that requests may set."""

    table: Table[Any]
    fields: tuple[Field, ...]

    @functools.cached_property
    def attributes(self) -> dict[str, Field]:
        """Return {name: field} of the fields that requests accept."""
        return {field.name: field for field in self.fields if field.write}

    def parse(self, values: Mapping[str, Json], write: str) -> dict[str, Any]:
        """Return the checked values of a request; if it creates a resource, with defaults for missing values.

        :raises InvalidInput, BadRequest: unknown or read-only name, invalid or missing value
        """
        known = self.attributes
        unknown = sorted(str(name)[:60] for name in values if name not in known)
        if unknown:
            raise exception.BadRequest(f'Unrecognized attribute(s) {", ".join(map(repr, unknown[:10]))}')
        found = {}
        for name, value in values.items():
            if write not in known[name].write:
                method = 'POST' if write == 'create' else 'PUT'
                raise exception.BadRequest(f"Attribute '{name}' not allowed in {method}")
            if value is None and known[name].chosen and write == 'update':
                raise exception.InvalidInput(reason=f'{name}: null is supported only in a creation.')
            found[name] = known[name].check(name, value)
        if write == 'update':
            return found
        missing = [name for name, field in known.items() if field.required and name not in found]
        if missing:
            raise exception.BadRequest(f"Failed to parse request. Required attribute '{missing[0]}' not specified")
        return {**{name: field.default for name, field in known.items() if write in field.write}, **found}

    def restricted(self, given: Mapping[str, Json], values: Mapping[str, Any], write: str) -> Iterator[str]:
        """Yield the names of attributes, and of their keys, that the caller may set only if a rule allows it.

        A creation with the default value needs no rule, but an update does: it could undo an administrator's setting.

        :param given: attributes of the request
        :param values: parsed values of these attributes
        """
        for name in given:
            field, value = self.attributes[name], values[name]
            if not field.guarded or write == 'create' and value == field.default:
                continue
            yield name
            parts = value if isinstance(value, list) else [value or {}]
            yield from (f'{name}:{part}' for part in field.parts if any(part in each for each in parts))

    def rules_of(self, write: str) -> Iterator[str]:
        """Yield all rules of the guarded attributes and of their keys."""
        for name, field in self.attributes.items():
            if field.guarded and write in field.write:
                for part in (name, *(f'{name}:{each}' for each in (*field.parts, *field.checked))):
                    yield f'{write}_{self.name}:{part}'

    def different(self, view: Mapping[str, Any], values: JsonObject) -> JsonObject:
        """Return the values that an update changes, and the values of related attributes (_TOGETHER).

        :param view: the resource as the caller reads it
        """
        known = self.attributes
        found = {name: value for name, value in values.items() if not (
            name in view and view[name] == value and name in known and 'update' in known[name].write
            and not (value is None and known[name].hidden))}
        for names in _TOGETHER:
            if names & found.keys():
                found |= {name: values[name] for name in names & values.keys()}
        return found

    def stored(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return {column: value} of the fields with a column, except None values."""
        columns = self.table.c
        return {field.source: values[name] for name, field in self.attributes.items()
                if values.get(name) is not None and field.source in columns}

    def accepted(self, write: str, **more: Schema) -> Schema:
        """Return the JSON Schema of the attributes of a request.

        :param more: {name: schema} of further attributes
        """
        required = [field.name for field in self.fields if field.required and write == 'create']
        return resource.closed(*required, **{**self.properties(write), **more})


# sets of attributes that are interpreted or checked together
_TOGETHER = ({'port_id', 'fixed_ip_address'}, {'internal_port_id', 'internal_ip_address'},
             {'gateway_ip', 'allocation_pools'}, {'port_security_enabled', 'security_groups'})


@dataclasses.dataclass(frozen=True)
class Action:
    """An operation on one resource.

    path      path below the path of the resource
    function  function(conn, deps, context, row, body, **parts) -> document or None; a GET has its query as ``body``
    body      schema of the body
    query     parameters of the query
    answer    document of the response; None: PUT returns the resource
    """

    method: str
    path: str
    function: Callable[..., Any]
    answer: resource.Document | None = None
    body: Schema | None = None
    status: int | None = None
    query: params.Pairs | None = None


@dataclasses.dataclass(frozen=True)
class Resource(Rows, Generic[R, V]):
    """A resource.

    visible   function(context) -> condition on rows visible to the caller
    create, delete   function(conn, deps, context, values | row); create returns the id
    update    function(conn, deps, context, row, values); None: only store the values
    missing   function(id) -> the error for a missing row
    prepare   function(conn, context): called in a separate transaction before rows are listed
    actions   resource-specific operations
    server_view   function(conn, row) -> (port id or None, data that the compute API shows in the port's server)
    at        path below /v2.0; '': the plural, with hyphens
    of_network   whether the rows are ports or subnets; rules may compare the owner of their network
    unchangeable   whether every update is rejected, so that updates have no rule
    """

    visible: Callable[[RequestContext], Condition]
    create: Callable[[Connection, Deps, RequestContext, V], str]
    delete: Callable[[Connection, Deps, RequestContext, R], None]
    missing: Callable[[str], Exception]
    update: Callable[[Connection, Deps, RequestContext, R, V], None] | None = None
    prepare: Callable[[Connection, RequestContext], None] | None = None
    actions: tuple[Action, ...] = ()
    server_view: Callable[[Connection, R], tuple[str | None, Hashable]] | None = None
    at: str = ''
    of_network: bool = False
    unchangeable: bool = False

    @property
    def path(self) -> str:
        return self.at or self.plural.replace('_', '-')

    @functools.cached_property
    def tagged(self) -> bool:
        return any(field.name == 'tags' for field in self.fields)

    @functools.cached_property
    def read_rules(self) -> dict[str, str]:
        """Return {restricted field: rule that is needed to read the field}."""
        return {field.name: field.rule for field in self.fields if field.rule}

    @functools.cached_property
    def listing(self) -> Listing:
        """Return the filters of a list."""
        columns: dict[str, Column] = {}
        constants: dict[str, Any] = {}
        special = {}
        for field in self.fields:
            if field.where is not None:
                special[field.name] = field.where
            elif isinstance(field.get, Constant):
                constants[field.name] = field.get.value
            elif field.listed and (column := comparable(self.table, field.source)) is not None:
                columns[field.name] = column
        return Listing(self.table, columns, constants, special,
                       any(field.load is load_shared and field.listed for field in self.fields))

    @functools.cached_property
    def query(self) -> params.Pairs:
        """Return the query parameters of a list."""
        listing = self.listing
        names = dict.fromkeys((*listing.columns, *listing.constants, *listing.special))
        if listing.shares:
            names['shared'] = None
        return params.Pairs(*names, *TAG_FILTERS, CHANGED_SINCE, *PAGING, closed=1)

    # ---- rows

    def get(self, conn: Connection, ident: str) -> R:
        """Return a row.

        :raises NotFound: there is no such row; the error is ``missing(ident)``
        """
        return found(db.get(conn, self.table, ident), self.missing(ident))

    def locked(self, conn: Connection, ident: str) -> R:
        """Lock a row until the transaction ends and return it."""
        return found(db.lock(conn, self.table, ident), self.missing(ident))

    # ---- documents

    @functools.cached_property
    def _selections(self) -> dict[frozenset[str], resource.View]:
        return {}

    def selection(self, names: frozenset[str]) -> resource.View:
        """Return a view of the fields ``names``, or of all fields if ``names`` is empty."""
        if not names:
            return self.view('show')
        found = self._selections.get(names)
        if found is None:
            if len(self._selections) >= _MAX_VIEWS:
                self._selections.clear()
            found = self._selections[names] = resource.View(
                *(field for field in self.view('show').rows if field.name in names))
        return found

    def documents(self, conn: Connection, context: RequestContext, rows: Sequence[Mapping[str, Any]],
                  names: frozenset[str] = frozenset()) -> list[View]:
        """Return the documents of rows, with the fields that the caller may read.

        :param names: fields; empty: all fields
        """
        view = self.selection(names)
        projects = {row['project_id'] for row in rows} if view.checks else ()
        passed = permissions.passed(context, view.checks, projects)
        shown = cast('list[Field]', view.active(0, frozenset[str]().union(*passed.values())))
        loaded = [{**row} for row in rows]
        for load in dict.fromkeys(field.load for field in shown if field.load is not None):
            load(conn, context, loaded)
        for field in shown:
            if field.lists is not None:
                known = field.lists(conn, [row['id'] for row in loaded])
                for row in loaded:
                    row[field.source] = known.get(row['id'], [])
        if not view.checks:
            build = view.compiled(0)
            return [build(row, context) for row in loaded]
        builds = {project: view.compiled(0, rules) for project, rules in passed.items()}
        return [builds[row['project_id']](row, context) for row in loaded]

    def narrowed(self, context: RequestContext, named: set[str]) -> frozenset[str]:
        """Return the fields in ``named`` and the fields that rules compare; an empty result means all fields."""
        if not named or permissions.further(context, f'get_{self.name}'):
            return frozenset()
        return frozenset(named & {field.name for field in self.fields} | _COMPARED)

    def columns(self, names: frozenset[str]) -> list[str] | None:
        """Return the columns that these fields need, or None for all columns."""
        found, known = {'id'}, {*self.table.c.keys()}
        for field in self.selection(names).rows if names else ():
            if field.columns:
                found.update(field.columns)
            elif isinstance(field.get, str):
                found.update({field.get} & known)
            elif not isinstance(field.get, Constant):
                return None
        return sorted(found | {'project_id'} & known) if names else None


def load_shared(conn: Connection, context: RequestContext, rows: list[dict[str, Any]]) -> None:
    """Add ``is_shared`` to rows: whether the row is shared with the caller's project."""
    known = db.shared_among(conn, [row['id'] for row in rows], context.project_id)
    for row in rows:
        row['is_shared'] = bool(row.get('shared')) or row['id'] in known


def moment(name: str, doc: str, listed: bool) -> Field:
    return Field(name, s.TIME, lambda row, context: row[name].isoformat(timespec='seconds') + 'Z', doc, columns=(name,),
                 column=name, listed=listed)


def zones(table: Table[Any]) -> tuple[Field, Field]:
    """Return the fields of availability zones. The only zone is nova."""
    return (Field('availability_zones', s.TEXTS, Constant(['nova']), 'Availability zones.'),
            Field('availability_zone_hints', s.TEXTS, lambda row, context: row['zone_hints'] or [],
                  'Requested availability zones.', column='zone_hints', columns=('zone_hints',), write=BOTH,
                  accepts=s.ZONE_HINTS, default=[], where=lambda values: db.with_hints(table, values)))


IDENT = column('id', s.UUID, 'ID.')
NAME = column('name', s.TEXT, 'Name.', write=BOTH, accepts=s.NAME, default='')
DESCRIPTION = column('description', s.TEXT, 'Description.', write=BOTH, accepts=s.clearable(s.NAME), default='')
OWNER = (column('project_id', s.TEXT, 'Project.', write='create', accepts=s.nullable(s.NAME)),
         Field('tenant_id', s.TEXT, 'project_id', 'The same as project_id.', write='create',
               accepts=s.nullable(s.NAME)))
TIMES = (moment('created_at', 'Time of the creation.', True), moment('updated_at', 'Time of the last change.', False),
         Field('revision_number', s.NUMBER, 'revision', 'Number of changes.'))
ADMIN_STATE = column('admin_state_up', s.FLAG, 'Administrative state.', write=BOTH, accepts=s.BOOLEAN, default=True)
SHARED = Field('shared', s.FLAG, 'is_shared', 'Whether other projects can use it.', column='shared', load=load_shared,
               columns=('shared',), write=BOTH, accepts=s.BOOLEAN, default=False, guarded=True)
TAGS = Field('tags', s.TEXTS, 'tags', 'Tags.', lists=db_tags.of)
COMMON = (IDENT, *OWNER, DESCRIPTION, *TIMES, TAGS)
NAMED = (*COMMON, NAME)


class Answer(resource.Document):
    """Response with the fields of a resource.

    :param selected: whether the query may select fields
    """

    def __init__(self, of: Rows, selected: bool = False) -> None:
        self.resource, self._selected = of, selected
        super().__init__({})
        self.checks = of.view('show').checks

    def item(self, version: int) -> Schema:
        found = self.resource.view('show').schema(version)
        return {**found, 'required': []} if self._selected else found

    def schema(self, version: int) -> Schema:
        return s.shape(**{self.resource.name: self.item(version)})


class CreateAnswer(Answer):
    """Response of a creation: one resource, or several."""

    def schema(self, version: int) -> Schema:
        return {'anyOf': [super().schema(version), s.shape(**{self.resource.plural: s.array(self.item(version))})]}


class Page(Answer):
    """Page of a list."""

    def schema(self, version: int) -> Schema:
        return resource.closed(self.resource.plural, **{
            self.resource.plural: s.array(self.item(version)), f'{self.resource.plural}_links': s.LINKS})


# ---- functions of resources --------------------------------------------------

def below(body: JsonObject, name: str) -> JsonObject:
    """Return the object under a key of a body.

    :raises BadRequest: the value is not an object
    """
    found = body.get(name)
    if not isinstance(found, dict):
        raise exception.BadRequest(f"Unable to find '{name}' in request body")
    return found


def found(row: Found | None, missing: Exception) -> Found:
    """Return the row if it exists; another request may have deleted it.

    :raises missing: the row is None
    """
    if row is None:
        raise missing
    return row


def is_owner(context: RequestContext, row: Owned) -> bool:
    return context.is_admin or bool(context.project_id) and row['project_id'] == context.project_id


def new_owner(context: RequestContext, values: NewOwner) -> str:
    """Return the project of a new resource; removes tenant_id and project_id from ``values``."""
    tenant, project = values.pop('tenant_id', None), values.pop('project_id', None)
    if tenant and project and tenant != project:
        raise exception.BadRequest("'project_id' and 'tenant_id' do not match")
    wanted = project or tenant or context.project_id
    if not wanted:
        raise exception.BadRequest("Running without keystone requires that tenant_id is specified")
    if wanted != context.project_id and not context.is_admin:
        raise exception.PolicyDenied(rule='create for another project')
    return wanted
