"""Parameters of a request with their versions, compiled into a validator for each version.

    CREATE = Object(
        Param('flavor', Object(
            Param('name', NAME, required=True),
            Param('ram', POSITIVE, required=True),
            Param('description', DESCRIPTION, since=55),
        ), required=True))
    LIST = Query(Param('limit', LIMIT), Param('marker', STRING), closed=75)

A ``Route`` takes an Object as ``body`` and a Query as ``query``. The handler gets validated and converted values:
``'2'`` becomes 2 for an integer that may be a string, ``'yes'`` becomes True for a boolean.
"""
from __future__ import annotations

import dataclasses
import functools
import re
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol
from wsgiref.types import WSGIEnvironment

from jsonschema import exceptions as schema_errors

from nova import exception
from nova.json_types import Encodable
from nova.json_types import Json
from nova.json_types import JsonObject
from nova.web import formats
from nova.web import json_schema
from nova.web.routes import Versioned

Schema = json_schema.Schema
Convert = Callable[[Any], Any]
Rule = tuple[Any, Convert | None]                 # (validator, converter)

MAX_SHOWN = 80            # characters of an invalid value in an error message
MAX_PARAMS = 500          # pairs in one query string


class Typed(Protocol):
    """Type of a parameter's value at each version."""

    def schema(self, version: int, relaxed: bool = False) -> Schema:
        """Return the JSON Schema."""

    def converter(self, version: int, relaxed: bool = False) -> Convert | None:
        """Return the function that converts a valid value, or None."""

    def prune(self, value: Json, version: int) -> Json:
        """Remove the keys that this version does not know (/v2 ignores them)."""


class Type:
    """A JSON Schema and a function that converts a valid value.

    :param schema: the JSON Schema, the same in all versions
    :param convert: called with a valid value, or None
    :param relaxed: another JSON Schema under /v2, or None
    :param secret: error messages do not show the value
    """

    def __init__(self, schema: Schema, convert: Convert | None = None, relaxed: Schema | None = None,
                 secret: bool = False) -> None:
        self._schema = {**schema, 'writeOnly': True} if secret else schema
        self._relaxed = relaxed or self._schema
        self._convert = convert

    def schema(self, version: int, relaxed: bool = False) -> Schema:
        return self._relaxed if relaxed else self._schema

    def converter(self, version: int, relaxed: bool = False) -> Convert | None:
        return self._convert

    def prune(self, value: Json, version: int) -> Json:
        return value


class Array:
    """A list of one type; ``limits`` are minItems, maxItems, uniqueItems."""

    def __init__(self, items: Typed | Schema, **limits: int) -> None:
        self.items, self.limits = _typed(items), limits

    def schema(self, version: int, relaxed: bool = False) -> Schema:
        return {'type': 'array', 'items': self.items.schema(version, relaxed), **self.limits}

    def converter(self, version: int, relaxed: bool = False) -> Convert | None:
        each = self.items.converter(version, relaxed)
        return each and (lambda values: [each(value) for value in values])

    def prune(self, value: Json, version: int) -> Json:
        return [self.items.prune(item, version) for item in value] if isinstance(value, list) else value


@dataclasses.dataclass(frozen=True)
class Param(Versioned):
    """One parameter of a body or a query.

    name     key of the parameter, or None if ``pattern`` (a regular expression) matches many keys
    type     Type, Array, Object or a plain JSON Schema
    since, until   first and last minor version; several rows may share a name
    required whether a body without the parameter is refused
    """

    name: str | None
    type: Any
    since: int = 1
    until: int | None = None
    required: bool = False
    pattern: str | None = None


class Object:
    """A JSON object: its parameters by version.

    :param closed: True: unknown keys are refused; an int: from this minor version on; False: never
    :param limits: maxProperties and the like
    """

    def __init__(self, *params: Param, closed: bool | int = True, nullable: bool = False, **limits: Json) -> None:
        self.params = [dataclasses.replace(param, type=_typed(param.type)) for param in params]
        self.closed, self.nullable, self.limits = closed, nullable, limits

    def __add__(self, params: Iterable[Param]) -> Object:
        """Return a copy of the object with more parameters."""
        return Object(*self.params, *params, closed=self.closed, nullable=self.nullable, **self.limits)

    def at(self, version: int) -> list[Param]:
        return [param for param in self.params if param.at(version)]

    def is_closed(self, version: int) -> bool:
        return self.closed if isinstance(self.closed, bool) else version >= self.closed

    def schema(self, version: int, relaxed: bool = False) -> Schema:
        params = self.at(version)
        schema: dict[str, Encodable] = {
            'type': ['object', 'null'] if self.nullable else 'object', **self.limits,
            'properties': {str(p.name): p.type.schema(version, relaxed) for p in params if p.pattern is None},
            'required': [p.name for p in params if p.required]}
        patterns = {p.pattern: p.type.schema(version, relaxed) for p in params if p.pattern is not None}
        if patterns:
            schema['patternProperties'] = patterns
        if self.is_closed(version):
            schema['additionalProperties'] = False
        return schema

    def converter(self, version: int, relaxed: bool = False) -> Convert | None:
        steps = [(p.name, convert) for p in self.at(version)
                 if p.name is not None and (convert := p.type.converter(version, relaxed))]

        def convert_all(value: dict[str, Any] | None) -> dict[str, Any] | None:
            if value is not None:
                for name, convert in steps:
                    if name in value:
                        value[name] = convert(value[name])
            return value
        return convert_all if steps else None

    def prune(self, value: Json, version: int) -> Json:
        return self._pruned(value, version) if isinstance(value, dict) else value

    def _pruned(self, value: JsonObject, version: int) -> JsonObject:
        known = {p.name: p.type for p in self.at(version) if p.pattern is None}
        patterns = [(re.compile(json_schema.anchored(p.pattern)), p.type)
                    for p in self.at(version) if p.pattern is not None]
        kept = {}
        for key, item in value.items():
            type_ = known.get(key) or next((t for pattern, t in patterns if pattern.search(key)), None)
            if type_ is not None:
                kept[key] = type_.prune(item, version)
            elif not self.is_closed(version):
                kept[key] = item
        return kept

    @functools.cached_property
    def _compiled(self) -> dict[tuple[int, bool], tuple[Any, Convert | None]]:
        return {}

    def compiled(self, version: int, relaxed: bool = False) -> tuple[Any, Convert | None]:
        """Return the cached (validator, converter or None) of a version."""
        found = self._compiled.get((version, relaxed))
        if found is None:
            validator = json_schema.Validator(self.schema(version, relaxed), format_checker=formats.CHECKER)
            found = self._compiled[version, relaxed] = (validator, self.converter(version, relaxed))
        return found

    def validate(self, value: dict[str, Any], version: int, relaxed: bool = False) -> dict[str, Any]:
        """Validate and convert a body.

        :raises BadRequest: the message names the invalid field
        """
        if relaxed and isinstance(value, dict):          # the schema refuses other types
            value = self._pruned(value, version)
        validator, convert = self.compiled(version, relaxed)
        error = schema_errors.best_match(validator.iter_errors(value))
        if error is not None:
            raise exception.BadRequest(sentence(error))
        return convert(value) if convert else value


def document(key: str, *params: Param, closed: bool | int = True, **limits: Json) -> Object:
    """Return the Object of a body with one required key, whose value is an object with these parameters."""
    return Object(Param(key, Object(*params, closed=closed, nullable=False, **limits), required=True))


class QueryValues(dict[str, Any]):
    """Valid and converted values of a query string: {name: [values]}."""

    def one(self, name: str, default: Any = None) -> Any:
        """Return the last value of a key, or the default if the key is not given."""
        values = self.get(name)
        return values[-1] if values else default

    def many(self, name: str) -> list[Any]:
        return self.get(name, [])


class Query:
    """Keys of a query string.

    :param closed: minor version from which unknown keys are refused; earlier versions ignore them. None: never refused
    :param single: minor version from which a key may be given only once; None: never
    """

    def __init__(self, *params: Param, closed: int | None = None, single: int | None = None) -> None:
        self.params = [dataclasses.replace(param, type=_typed(param.type)) for param in params]
        self.closed, self.single = closed, single
        self._by_version: dict[int, tuple[dict[str | None, Rule], list[tuple[re.Pattern[str], Rule]]]] = {}

    def is_closed(self, version: int) -> bool:
        """Return True if unknown keys are refused."""
        return self.closed is not None and version >= self.closed

    def _compiled(self, version: int) -> tuple[dict[str | None, Rule], list[tuple[re.Pattern[str], Rule]]]:
        found = self._by_version.get(version)
        if found is None:
            params = [p for p in self.params if p.at(version)]
            rows = [(p, (json_schema.Validator(p.type.schema(version), format_checker=formats.CHECKER),
                         p.type.converter(version))) for p in params]
            found = self._by_version[version] = (
                {p.name: row for p, row in rows if p.pattern is None},
                [(re.compile(json_schema.anchored(p.pattern)), row) for p, row in rows if p.pattern is not None])
        return found

    def validate(self, query_string: str, version: int, relaxed: bool = False) -> QueryValues:
        """Validate and convert a raw query string.

        :raises BadRequest: a value is invalid, or a key is refused by this version
        """
        if not query_string:
            return QueryValues()
        known, patterns = self._compiled(version)
        values, unknown = QueryValues(), []
        for name, value in parse_query(query_string):
            row = known.get(name) or next((row for pattern, row in patterns if pattern.search(name)), None)
            if row is None:
                unknown.append(name)
                continue
            validator, convert = row
            error = next(validator.iter_errors(value), None)
            if error is not None:
                raise exception.BadRequest(sentence(error, name))
            values.setdefault(name, []).append(convert(value) if convert else value)
        if unknown and self.is_closed(version) and not relaxed:
            raise exception.BadRequest('Additional properties are not allowed (%s)' % _names(unknown))
        if self.single is not None and version >= self.single:
            for name, given in values.items():
                if len(given) > 1:
                    raise exception.BadRequest(
                        f'Invalid input for query parameter {name}. It may be given only once.')
        return values


def parse_query(query_string: str) -> list[tuple[str, str]]:
    """Parse a query string into [(name, value)].

    :raises BadRequest: the string is not UTF-8, has control characters or too many pairs
    """
    try:
        pairs = urllib.parse.parse_qsl(query_string, keep_blank_values=True, errors='strict',
                                       max_num_fields=MAX_PARAMS)
    except UnicodeDecodeError:
        raise exception.BadRequest('Query string is not UTF-8 encoded') from None
    except ValueError:
        raise exception.BadRequest(f'Query string has more than {MAX_PARAMS} parameters.') from None
    for name, value in pairs:
        if '\0' in name or '\0' in value:
            raise exception.BadRequest('Query string contains a NUL character.')
    return pairs


MAX_QUERY = 64 * 1024     # characters of a query string


def parse_pairs(environ: WSGIEnvironment) -> list[tuple[str, str]]:
    """Parse the query of a request into [(name, value)], for an API that validates the values.

    :raises BadRequest: the query is too long, or see ``parse_query``
    """
    return parse_bounded(environ.get('QUERY_STRING', ''))


class Pairs(Query):
    """Parameters of a query string; the handler gets [(name, value)] and checks the names.

    :param names: parameters of the OpenAPI document
    """

    def __init__(self, *names: str, closed: int | None = None) -> None:
        super().__init__(*(Param(name, {'type': 'string'}) for name in names), closed=closed)

    def validate(self, query_string: str, version: int, relaxed: bool = False) -> Any:
        return parse_bounded(query_string)


def parse_bounded(text: str) -> list[tuple[str, str]]:
    """Parse a query string into [(name, value)].

    :raises BadRequest: the query is too long, or see ``parse_query``
    """
    if len(text) > MAX_QUERY:
        raise exception.BadRequest(f'The query is longer than {MAX_QUERY} characters.')
    return parse_query(text) if text else []


def parse_plain(environ: WSGIEnvironment) -> dict[str, str]:
    """Parse the query of a request into {name: last value}."""
    return dict(parse_pairs(environ))


def _typed(type_: Typed | Schema) -> Typed:
    return Type(type_) if isinstance(type_, Mapping) else type_


# ---- error messages ---------------------------------------------------------

_SENTENCES: dict[str, Callable[[Any], str]] = {
    'type': lambda e: f'It is not of type {_or(e.validator_value)}.',
    'enum': lambda e: f'It is not one of {_some(e.validator_value)}.',
    'const': lambda e: f'It is not {e.validator_value!r}.',
    'format': lambda e: formats.SENTENCES.get(e.validator_value, f"It is not a '{e.validator_value}'."),
    'pattern': lambda e: f'It does not match {e.validator_value!r}.',
    'minLength': lambda e: f'It is shorter than {e.validator_value} characters.',
    'maxLength': lambda e: f'It is longer than {e.validator_value} characters.',
    'minimum': lambda e: f'It is less than the minimum of {e.validator_value}.',
    'maximum': lambda e: f'It is greater than the maximum of {e.validator_value}.',
    'minItems': lambda e: f'It has fewer than {e.validator_value} items.',
    'maxItems': lambda e: f'It has more than {e.validator_value} items.',
    'uniqueItems': lambda e: 'It has items that are equal.',
    'minProperties': lambda e: f'It has fewer than {e.validator_value} properties.',
    'maxProperties': lambda e: f'It has more than {e.validator_value} properties.',
    'required': lambda e: f'{_missing(e)!r} is a required property.',
    'additionalProperties': lambda e: f'Additional properties are not allowed ({_names(_extra(e))}){_key_rule(e)}',
}


def sentence(error: schema_errors.ValidationError, name: str | None = None) -> str:
    """Return the message about a schema error: field, value (shortened, omitted if secret or nested), reason."""
    path = '.'.join([name] if name else [str(part) for part in error.absolute_path])
    reason = _SENTENCES.get(error.validator, lambda e: 'It matches none of the allowed forms.')(error)
    if not path:
        return reason if error.validator in ('required', 'additionalProperties') else f'Invalid input. {reason}'
    return f'Invalid input for field/attribute {_cut(path)}. {_value(error)}{reason}'


def _value(error: schema_errors.ValidationError) -> str:
    if (isinstance(error.instance, (dict, list)) or 'writeOnly' in error.schema
            or any('writeOnly' in (cause.schema or {}) for cause in _ancestors(error))):
        return ''
    return f'Value: {_cut(str(error.instance))}. '


def _ancestors(error: schema_errors.ValidationError) -> Iterator[schema_errors.ValidationError]:
    while error.parent is not None:
        error = error.parent
        yield error


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + '…'


def _or(types: str | list[str]) -> str:
    return ' or '.join([types] if isinstance(types, str) else types)


def _some(values: Sequence[object]) -> str:
    return ', '.join(repr(value) for value in values[:20]) + (', …' if len(values) > 20 else '')


def _missing(error: schema_errors.ValidationError) -> str:
    return next(name for name in error.validator_value if name not in error.instance)


def _extra(error: schema_errors.ValidationError) -> list[str]:
    known = error.schema.get('properties', {})
    patterns = error.schema.get('patternProperties', {})
    return [key for key in error.instance if key not in known
            and not any(re.search(json_schema.anchored(pattern), key) for pattern in patterns)]


def _key_rule(error: schema_errors.ValidationError) -> str:
    """Return the sentence about the allowed keys of an object with variable keys, or ''."""
    rules = [_KEY_RULES[pattern] for pattern in error.schema.get('patternProperties', {}) if pattern in _KEY_RULES]
    return ''.join(f'. {rule}' for rule in rules)


def _names(names: Sequence[str]) -> str:
    shown = ', '.join(repr(_cut(name)) for name in names[:5]) + (', …' if len(names) > 5 else '')
    return shown + (' was unexpected' if len(names) == 1 else ' were unexpected')


# ---- types that several resources share --------------------------------------

TRUE = (True, 'True', 'TRUE', 'true', '1', 'ON', 'On', 'on', 'YES', 'Yes', 'yes')
FALSE = (False, 'False', 'FALSE', 'false', '0', 'OFF', 'Off', 'off', 'NO', 'No', 'no')
MAX_INT = 0x7FFFFFFF


class _BooleanType(Type):
    """Boolean: true, false or a word in TRUE or FALSE; the numbers 0 and 1 are refused."""

    def __init__(self) -> None:
        super().__init__({'enum': [*TRUE, *FALSE]}, convert=lambda value: value in TRUE)


def integer(minimum: int | None = None, maximum: int | None = None) -> Type:
    """Return the type of an integer that may be sent as a string of digits; handlers get an int."""
    signed = minimum is None or minimum < 0
    schema = {'type': ['integer', 'string'], 'format': 'signed' if signed else 'digits'}
    limits = {key: value for key, value in (('minimum', minimum), ('maximum', maximum)) if value is not None}
    text = _Bounds(minimum, maximum)
    return Type({**schema, **limits, 'allOf': [{'format': text.format_name}]} if limits else schema, convert=int)


class _Bounds:
    """Bounds of a number that is sent as a string: JSON Schema applies its bounds to numbers only."""

    def __init__(self, minimum: int | None, maximum: int | None) -> None:
        self.format_name = f'integer from {minimum} to {maximum}'
        formats.bounded(self.format_name, minimum, maximum)


def string(min_length: int | None = None, max_length: int | None = None, pattern: str | None = None,
           **more: Json) -> Schema:
    limits = {'minLength': min_length, 'maxLength': max_length, 'pattern': pattern}
    return {'type': 'string', **{key: value for key, value in limits.items() if value is not None}, **more}


def nullable(schema: Schema) -> Schema:
    return {**schema, 'type': [schema['type'], 'null']}


STRING = {'type': 'string'}
UUID = string(format='uuid')
NAME = Type(string(1, 255, format='name'), convert=str.strip,
            relaxed=string(1, 255, format='name_with_leading_trailing_spaces'))
DESCRIPTION = nullable(string(0, 65535, format='printable'))
HOST = string(1, 255, r'^[a-zA-Z0-9-._]*$')
BOOLEAN = _BooleanType()
POSITIVE = integer(1, MAX_INT)
NON_NEGATIVE = integer(0, MAX_INT)
LIMIT = integer(0)
IPV4 = string(format='ipv4')
IPV6 = string(format='ipv6')
IP_ADDRESS = {'type': 'string', 'oneOf': [{'format': 'ipv4'}, {'format': 'ipv6'}]}
DATE_TIME = Type(string(format='date-time'), convert=formats.parse_time)
REGEX = string(format='regex')
METADATA_KEY = r'^[a-zA-Z0-9-_:. ]{1,255}$'
_KEY_RULES = {METADATA_KEY: "A key has 1 to 255 characters of a-z, A-Z, 0-9, '-', '_', ':', '.' and the space."}
METADATA = Object(Param(None, string(max_length=255), pattern=METADATA_KEY))
