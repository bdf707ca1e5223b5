"""What the bodies of answers hold, by operation and microversion.

Most of it is in the types of the Field rows that make the answers (``tables`` says which table an operation shows).
``rest.tsv`` has what no Field says: answers that handlers build by themselves, keys around a table, and fields
whose form differs from one operation to another; its rows take the place of a table's. ``forms.tsv`` names the other
form that an object may have, ``headers.tsv`` the headers that only some answers have. The OpenAPI document and the
reference pages are made of them; contract tests compare them with the public facts, and real answers with them.

Columns: operation ('GET /servers/{}', with the action's name behind POST …/action), field ('servers[].links[].href';
'<regular expression>' for keys that are not fixed), min and max version, type in the words of nova.web.json_types.
The field '(no other fields)' says that the list is complete, '(event stream)' that the body is one instead of JSON,
'(no body)' stands alone for an answer of nothing, and '(addition)' says that the operation is this product's alone. The
type '(absent)' takes away a table's field.
"""
import csv
import functools
import pathlib
import re
import typing

from nova.api import versions
from nova.api.facts import tables
from nova.web import json_types

CLOSED, NO_BODY, ADDITION, ABSENT = '(no other fields)', '(no body)', '(addition)', '(absent)'
MEDIA_TYPES = {'(event stream)': 'text/event-stream'}
SAME = ('/os-volumes_boot', '/servers')       # operations below the first answer what those below the second do
SAME_UNTIL = versions.SINCE['no_volumes_boot'] - 1
Row = dict[str, str]


@functools.cache
def rows(name: str) -> list[Row]:
    """The rows of a file, as dicts of texts."""
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
    """{operation without the names of its path's parts: rows}, a row for each form of a field."""
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
    """The operations that are additions of this product."""
    return frozenset(operation for operation, found in _rest().items()
                     if any(row['field'] == ADDITION for row in found))


def nameless(path: str) -> str:
    return re.sub(r'\{\w+\}', '{}', path)


@typing.overload
def minor(text: str, default: int) -> int: ...


@typing.overload
def minor(text: str, default: None = None) -> int | None: ...


def minor(text: str, default: int | None = None) -> int | None:
    """The minor version of '2.N', or the default where nothing stands."""
    return int(text.partition('.')[2]) if text else default


def at(operation: str, version: int) -> dict[str, str]:
    """{field: type in words} of an operation's answer at a version; empty when nothing is known of it."""
    operation = nameless(operation)
    if SAME[0] in operation:
        return at(operation.replace(*SAME, 1), version) if version <= SAME_UNTIL else {}
    rest = [row for row in _rest().get(operation, ()) if row['field'] != ADDITION]
    shown = tables.TABLES.get(operation)
    held = {row['field']: row['type'] for row in rest if _holds(row, version)}
    if shown is None or not held:            # every operation that there is has a row
        return held
    found = shown.at(version) | held
    return {field: words for field, words in found.items() if words != ABSENT}


def body(operation: str, version: int) -> json_types.Schema | None:
    """The JSON Schema of an operation's answer at a version; None where it has no body, or nothing is known of it."""
    fields = at(operation, version)
    return json_types.body({field: words for field, words in fields.items() if field[0] != '('}, CLOSED in fields,
                           {row['field']: row for row in forms(operation, version)})


def media_type(operation: str) -> str | None:
    """The media type of an operation's answer that is no JSON document, else None."""
    return next((MEDIA_TYPES[row['field']] for row in _rest().get(nameless(operation), ())
                 if row['field'] in MEDIA_TYPES), None)


def forms(operation: str, version: int) -> list[Row]:
    """The rows of forms.tsv for an operation."""
    return [row for row in rows('forms') if nameless(row['operation']) == nameless(operation) and _holds(row, version)]


def headers(operation: str, version: int) -> list[Row]:
    """The rows of headers.tsv for an operation."""
    return [row for row in rows('headers')
            if nameless(row['operation']) == nameless(operation) and _holds(row, version)]


def _holds(row: Row, version: int) -> bool:
    return minor(row['min'], versions.MIN_VERSION) <= version <= minor(row['max'], version)


def described(operation: str) -> bool:
    """Whether an operation's answer has a body that is described here."""
    return any(row['field'] != NO_BODY for row in responses().get(nameless(operation), ()))
