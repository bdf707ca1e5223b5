"""JSON types of response bodies, by operation and microversion.

Most types come from the tables of Field objects that build the responses, see ``tables``. The files add:

- ``rest.tsv``: responses without a table, keys outside the object that a table describes, and fields that differ
  between operations. Its rows take precedence over rows of a table.
- ``forms.tsv``: conditions under which an object has other fields.
- ``headers.tsv``: headers that only some responses have.

The OpenAPI document and the reference pages are generated from these types. Contract tests compare the types with the
public API reference and with real responses.

Columns of rest.tsv: operation ('GET /servers/{}', with the action's name after POST …/action), field
('servers[].links[].href'; '<regular expression>' for variable keys), min and max version, type in the notation of
nova.web.json_types.

Special fields: '(no other fields)': the list of fields is complete; '(event stream)': the body is not JSON; '(no
body)': empty response; '(addition)': the operation is an API extension. The type '(absent)' removes a table's field.
"""
import csv
import functools
import pathlib
import typing

from nova.api import versions
from nova.api.response_types import tables
from nova.web import json_types
from nova.web.openapi import nameless

CLOSED, NO_BODY, ADDITION, ABSENT = '(no other fields)', '(no body)', '(addition)', '(absent)'
MEDIA_TYPES = {'(event stream)': 'text/event-stream'}
SAME = ('/os-volumes_boot', '/servers')       # paths of two resources with equal responses
SAME_UNTIL = versions.SINCE['no_volumes_boot'] - 1
Row = dict[str, str]


@functools.cache
def rows(name: str) -> list[Row]:
    """Return the rows of a file as dicts."""
    with open(pathlib.Path(__file__).parent / f'{name}.tsv', newline='') as file:
        return list(csv.DictReader(file, delimiter='\t', quoting=csv.QUOTE_NONE))


@functools.cache
def _rest() -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows('rest'):
        found.setdefault(nameless(row['operation']), []).append(row)
    return found


@functools.cache
def responses() -> dict[str, list[Row]]:
    """Return {operation without parameter names: rows}, with one row for each form of a field."""
    operations = dict.fromkeys((*tables.TABLES, *_rest()))
    below = [operation.replace(SAME[1], SAME[0], 1) for operation in operations if f' {SAME[1]}' in operation]
    return {operation: _rows_of(operation) for operation in (*operations, *below)}


def _rows_of(operation: str) -> list[Row]:
    spans: dict[str, list[list[typing.Any]]] = {}
    for version in range(versions.MIN_VERSION, versions.MAX_VERSION + 1):
        for field, words in at(operation, version).items():
            known = spans.setdefault(field, [])
            if known and known[-1][0] == words and known[-1][2] == version - 1:
                known[-1][2] = version
            else:
                known.append([words, version, version])
    return [{'operation': operation, 'field': field, 'min': versions.text(first),
             'max': '' if last == versions.MAX_VERSION else versions.text(last), 'type': words}
            for field, known in spans.items() for words, first, last in known]


@functools.cache
def own() -> frozenset[str]:
    """Return the operations that are API extensions."""
    return frozenset(operation for operation, found in _rest().items()
                     if any(row['field'] == ADDITION for row in found))


@typing.overload
def minor(text: str, default: int) -> int: ...


@typing.overload
def minor(text: str, default: None = None) -> int | None: ...


def minor(text: str, default: int | None = None) -> int | None:
    """Return the minor version of '2.N', or the default for ''."""
    return int(text.partition('.')[2]) if text else default


def at(operation: str, version: int) -> dict[str, str]:
    """Return {field: type} of an operation's response at a version; empty for an unknown operation."""
    operation = nameless(operation)
    if SAME[0] in operation:
        return at(operation.replace(*SAME, 1), version) if version <= SAME_UNTIL else {}
    rest = [row for row in _rest().get(operation, ()) if row['field'] != ADDITION]
    shown = tables.TABLES.get(operation)
    held = {row['field']: row['type'] for row in rest if _holds(row, version)}
    if shown is None or not held:            # no row in rest.tsv: this version lacks the operation
        return held
    found = shown.at(version) | held
    return {field: words for field, words in found.items() if words != ABSENT}


def body(operation: str, version: int) -> json_types.Schema | None:
    """Return the JSON Schema of a response at a version; None without a body or for an unknown operation."""
    fields = at(operation, version)
    return json_types.body({field: words for field, words in fields.items() if field[0] != '('}, CLOSED in fields,
                           {row['field']: row for row in forms(operation, version)})


def media_type(operation: str) -> str | None:
    """Return the media type of a response that is not JSON, else None."""
    return next((MEDIA_TYPES[row['field']] for row in _rest().get(nameless(operation), ())
                 if row['field'] in MEDIA_TYPES), None)


def forms(operation: str, version: int) -> list[Row]:
    """Return the rows of forms.tsv for an operation."""
    return [row for row in rows('forms') if nameless(row['operation']) == nameless(operation) and _holds(row, version)]


def headers(operation: str, version: int) -> list[Row]:
    """Return the rows of headers.tsv for an operation."""
    return [row for row in rows('headers')
            if nameless(row['operation']) == nameless(operation) and _holds(row, version)]


def _holds(row: Row, version: int) -> bool:
    return minor(row['min'], versions.MIN_VERSION) <= version <= minor(row['max'], version)


def described(operation: str) -> bool:
    """Return True if the operation's response has a body that a table or file describes."""
    return any(row['field'] != NO_BODY for row in responses().get(nameless(operation), ()))
