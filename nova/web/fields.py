"""Fields of a response, with versions and rules, compiled into one function that builds a dict.

    VIEW = Fields(
        Field('id', 'flavor_id'),                              # a column
        Field('swap', lambda row, req: row['swap'] or '', until=74),
        Field('swap', 'swap', since=75),
        Field('extra_specs', 'extra_specs', since=61, rule='os_compute_api:os-flavor-extra-specs:index'),
    )
    build = VIEW.builder(req)
    {'flavors': [build(row) for row in rows]}

Versions and rules are evaluated once, when the function is compiled, and not for each row.
"""
from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Collection, Iterable

from nova import utils
from nova.json_types import Encodable
from nova.web import routes

Build = Callable[[typing.Any, typing.Any], dict[str, typing.Any]]         # (row, view) -> dict
Target = dict[str, str | None]                        # policy target: {'project_id', 'user_id'} of a resource


class Caller(typing.Protocol):
    """The attributes of a request that determine which fields the response has."""

    version: int

    def allows(self, rule: str, target: Target | None = None) -> bool:
        """Return True if the caller passes a rule."""


class Absent:
    def __repr__(self) -> str:
        return 'ABSENT'


ABSENT = Absent()        # returned by a getter if the row does not have the field


class Constant:
    """Getter that returns one fixed value for every row."""

    def __init__(self, value: Encodable) -> None:
        self.value = value


def moment(name: str) -> Callable[[typing.Any, typing.Any], typing.Any]:
    """Return a getter that formats a time column as whole seconds with a Z. None stays None."""
    return lambda row, view: utils.isotime(row[name])


def exact_moment(name: str) -> Callable[[typing.Any, typing.Any], typing.Any]:
    """Return a getter that formats a time column as microseconds without a zone. None stays None."""
    return lambda row, view: utils.exact_time(row[name])


class Shape:
    """JSON type of a nested value.

    :param members: (path, type[, since[, until]]): the path '' is the value itself, '.key' and '[]' are below it. The
        type is in the notation of nova.web.json_types. since and until: first and last version with the path.
    """

    def __init__(self, *members: tuple[typing.Any, ...]) -> None:
        self.members = tuple((*member, 1, None)[:4] if len(member) == 2 else (*member, None)[:4] for member in members)

    def at(self, version: int) -> dict[str, str]:
        """Return {path: type} at a version, with types in the notation of nova.web.json_types."""
        return {place: words for place, words, since, until in self.members
                if since <= version and (until is None or version <= until)}


class Row(routes.Versioned):
    """A field that builds responses: base of Field, and of the fields of nova.web.resource."""

    name: str
    get: str | Callable[[typing.Any, typing.Any], typing.Any] | Constant | None
    rule: str | None
    optional: bool
    columns: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Field(Row):
    """One field.

    name    key of the field in the response
    get     column name, or a function(row, view) that returns the value; if ``optional``, it may return ABSENT
    since, until   first and last minor version
    rule    policy rule that the caller must pass to see the field
    optional   whether the field may be absent
    columns    columns that a ``get`` function reads: listings select only declared columns (see Fields.columns)
    type       JSON type in the notation of nova.web.json_types, or a Shape. None if the type is declared elsewhere (see
               nova.api.response_types)
    """

    name: str
    get: str | Callable[[typing.Any, typing.Any], typing.Any]
    since: int = 1
    until: int | None = None
    rule: str | None = None
    optional: bool = False
    columns: tuple[str, ...] = ()
    type: str | Shape | None = None

    def described(self, version: int) -> dict[str, str]:
        """Return {path: type} of the value at a version; empty if ``type`` is None."""
        if self.type is None:
            return {}
        return {'': self.type} if isinstance(self.type, str) else self.type.at(version)


class Fields:
    """Ordered table of response fields."""

    def __init__(self, *rows: Row) -> None:
        self.rows = rows
        self._builders: dict[tuple[int, frozenset[str]], Build] = {}
        self._rules: dict[int, tuple[str, ...]] = {}

    def __add__(self, other: Fields | Iterable[Row]) -> Fields:
        return Fields(*self.rows, *(other.rows if isinstance(other, Fields) else other))

    def rules(self, version: int) -> tuple[str, ...]:
        """Return the policy rules of the fields of this version."""
        found = self._rules.get(version)
        if found is None:
            found = self._rules[version] = tuple(sorted({
                row.rule for row in self.rows if row.rule and row.at(version)}))
        return found

    def allowed(self, req: Caller, target: Target | None = None) -> frozenset[str]:
        """Return the rules of this table that the caller passes; builders are cached by version and these rules."""
        return frozenset([rule for rule in self.rules(req.version) if req.allows(rule, target)])

    def described(self, version: int) -> dict[str, str]:
        """Return {path: type} of all fields that a response may have at a version."""
        return {row.name + place: words for row in self.rows if isinstance(row, Field) and row.at(version)
                for place, words in row.described(version).items()}

    def active(self, version: int, allowed: Collection[str] = frozenset()) -> list[Row]:
        return [row for row in self.rows if row.at(version) and (row.rule is None or row.rule in allowed)]

    def columns(self, version: int, allowed: Collection[str] = frozenset()) -> set[str]:
        """Return the columns that a listing must select for the active fields."""
        names: set[str] = set()
        for row in self.active(version, allowed):
            names.update((row.get,) if isinstance(row.get, str) else row.columns)
        return names

    def builder(self, req: Caller, view: object = None,
                target: Target | None = None) -> Callable[[typing.Any], dict[str, typing.Any]]:
        """Return ``build(row)`` -> dict for a request.

        :param view: second argument of the getters; default: the request
        :param target: policy target of the rules; default: the caller's project
        """
        build = self.compiled(req.version, self.allowed(req, target))
        view = req if view is None else view
        return lambda row: build(row, view)

    def compiled(self, version: int, allowed: frozenset[str] = frozenset()) -> Build:
        """Return ``build(row, view)`` -> dict, cached for each version and set of rules."""
        build = self._builders.get((version, allowed))
        if build is None:
            build = self._builders[version, allowed] = _compile(self.active(version, allowed))
        return build


def _compile(rows: Iterable[Row]) -> Build:
    """Compile a function that returns one dict literal, with subscripts for columns and calls for other fields."""
    names: dict[str, typing.Any] = {'ABSENT': ABSENT}
    items: dict[str, str] = {}
    optional: list[tuple[str, str]] = []
    for number, row in enumerate(rows):
        if isinstance(row.get, str):
            value = f'row[{row.get!r}]'
        elif isinstance(row.get, Constant):
            value, names[f'value{number}'] = f'value{number}', row.get.value
        else:
            value, names[f'get{number}'] = f'get{number}(row, view)', row.get
        if row.optional and callable(row.get):
            optional.append((row.name, value))
        else:
            items[row.name] = value
            optional = [other for other in optional if other[0] != row.name]       # this value replaces theirs
    literal = ', '.join(f'{name!r}: {value}' for name, value in items.items())
    additions = ''.join(f'    value = {value}\n    if value is not ABSENT:\n        built[{name!r}] = value\n'
                        for name, value in optional)
    source = f'def build(row, view):\n    built = {{{literal}}}\n{additions}    return built\n'
    exec(compile(source, '<fields>', 'exec'), names)
    return names['build']
