"""What the bodies of answers hold: a row for each field, with the microversions in which it is there.

``responses.tsv`` has the public facts of the compute API; ``own.tsv`` the operations that only this product has;
``amended.tsv`` the fields where the public facts merge several forms into one or this product shows more: its rows
take the place of all rows of their field. ``forms.tsv`` names the other form that an object may have, ``headers.tsv``
the headers that only some answers have. The OpenAPI document and the reference pages are made of them, and the
contract tests compare real answers with them.

Columns: operation ('GET /servers/{id}', with the action's name behind POST …/action), field ('servers[].links[].href';
'<regular expression>' for keys that are not fixed), min and max version, type in words that ``schemas`` understands.
The field '(no other fields)' says that the list is complete; '(event stream)' that the body is one instead of JSON;
'(no body)' stands alone for an addition that answers nothing.
"""
import csv
import functools
import pathlib
import re

FILES = ('responses', 'amended', 'own')
CLOSED, NO_BODY = '(no other fields)', '(no body)'
MEDIA_TYPES = {'(event stream)': 'text/event-stream'}


@functools.cache
def rows(name):
    """The rows of a file, as dicts of texts."""
    with open(pathlib.Path(__file__).parent / f'{name}.tsv', newline='') as file:
        return list(csv.DictReader(file, delimiter='\t', quoting=csv.QUOTE_NONE))


@functools.cache
def responses():
    """{operation without the names of its path's parts: [row]}."""
    found = {}
    amended = {(nameless(row['operation']), row['field']) for row in rows('amended')}
    for name in FILES:
        for row in rows(name):
            operation = nameless(row['operation'])
            if name != 'responses' or (operation, row['field']) not in amended:
                found.setdefault(operation, []).append(row)
    return found


@functools.cache
def own():
    """The operations that are additions of this product."""
    return frozenset(nameless(row['operation']) for row in rows('own'))


def nameless(path):
    return re.sub(r'\{\w+\}', '{}', path)


def minor(text, default=None):
    """The minor version of '2.N', or the default where nothing stands."""
    return int(text.partition('.')[2]) if text else default


def at(operation, version):
    """{field: type in words} of an operation's answer at a version; empty when nothing is known of it."""
    return {row['field']: row['type'] or '' for row in responses().get(nameless(operation), ())
            if _holds(row, version)}


def media_type(operation):
    """The media type of an operation's answer that is no JSON document, else None."""
    return next((MEDIA_TYPES[row['field']] for row in responses().get(nameless(operation), ())
                 if row['field'] in MEDIA_TYPES), None)


def forms(operation, version):
    """The rows of forms.tsv for an operation."""
    return [row for row in rows('forms') if nameless(row['operation']) == nameless(operation) and _holds(row, version)]


def headers(operation, version):
    """The rows of headers.tsv for an operation."""
    return [row for row in rows('headers')
            if nameless(row['operation']) == nameless(operation) and _holds(row, version)]


def _holds(row, version):
    return minor(row['min']) <= version and (not row['max'] or version <= minor(row['max']))


def described(operation):
    """Whether an operation's answer has a body that the facts describe."""
    return any(row['field'] != NO_BODY for row in responses().get(nameless(operation), ()))
