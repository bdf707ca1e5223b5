#!/usr/bin/env python3
"""Types of rows, made from the tables: nova/db/tables/rows.py. It has those that a module of nova uses.
Types of requests, made from the fields of the Networking API's resources: nova/network/rest/values.py.

    tools/row_types.py write     make the modules again after a table or field has changed, or an import of a type
    tools/row_types.py check     exit 0 when they are as the tables, the imports and the fields want them
"""
import importlib
import pathlib
import pkgutil
import re
import sys
import textwrap
from typing import Any

import sqlalchemy as sa

PACKAGE = 'nova.db.tables'
WRITTEN = pathlib.Path(__file__).resolve().parents[1] / 'nova' / 'db' / 'tables' / 'rows.py'
HEAD = '''"""Types of the rows: what ``dict(row)`` of each table has. Made by tools/row_types.py; do not edit."""
import datetime
from typing import Any
from typing import TypedDict
'''
VALUES = WRITTEN.parents[2] / 'network' / 'rest' / 'values.py'
VALUES_HEAD = '''"""Types of requests: the checked values that handlers of the Networking API get.

In an update, keys may be missing.

Made by tools/row_types.py; do not edit.
"""
from typing import TypedDict
'''
KINDS = {str: 'str', bool: 'bool', type(None): 'None', dict: 'dict[str, str]'}
WORDS = {'string': 'str', 'integer': 'int', 'number': 'float', 'boolean': 'bool', 'null': 'None'}
TYPES = ((sa.DateTime, 'datetime.datetime'), (sa.Boolean, 'bool'), (sa.Integer, 'int'), (sa.Float, 'float'),
         (sa.LargeBinary, 'bytes'), (sa.TypeDecorator, 'Any'), (sa.String, 'str'))


def tables() -> list[sa.Table]:
    """The tables of all databases, each name once; a table that both databases have is the same in both."""
    sys.path.insert(0, str(WRITTEN.parents[3]))
    package = importlib.import_module(PACKAGE)
    found: dict[str, sa.Table] = {}
    for module in sorted({module.name for module in pkgutil.iter_modules(package.__path__)} - {WRITTEN.stem}):
        values = vars(importlib.import_module(f'{PACKAGE}.{module}')).values()
        for table in (value for value in values if isinstance(value, sa.Table)):
            found.setdefault(table.name, table)
    return [found[name] for name in sorted(found)]


def used_types() -> set[str]:
    """Names of the types that modules use."""
    return {name for path in WRITTEN.parents[2].rglob('*.py')
            if path != WRITTEN and PACKAGE in (text := path.read_text())
            for name in re.findall(r'\b[A-Z]\w+Row\b', text)}


def type_of(column: sa.Column) -> str:
    """The annotation of a column's value."""
    name = next(name for kind, name in TYPES if isinstance(column.type, kind))
    return f'{name} | None' if column.nullable and name != 'Any' else name


def typed_dict(name: str, types: dict[str, str], closing: str = '}') -> str:
    """The definition of a type.

    :param types: {key: annotation}
    """
    # a field's space would be a place to break a line
    fields = ', '.join(f"'{key}': {annotation}".replace(' ', '\0') for key, annotation in types.items())
    filled = textwrap.fill(f'{fields}{closing})', 120, initial_indent='    ', subsequent_indent='    ',
                           break_long_words=False, break_on_hyphens=False).replace('\0', ' ')
    return f"\n{name} = TypedDict('{name}', {{\n{filled}\n"


def written() -> str:
    """The text of the module of rows."""
    parts, used = [HEAD], used_types()
    for table in tables():
        name = camel(table.name) + 'Row'
        if name in used:
            parts.append(typed_dict(name, {column.name: type_of(column) for column in table.columns}))
    return ''.join(parts)


def camel(name: str) -> str:
    return ''.join(part.capitalize() for part in name.split('_'))


def json_type(schema: dict[str, Any], name: str, found: dict[str, dict[str, str]]) -> str:
    """The annotation of a checked value; a value that a type converts has the first type of its schema.

    :param name: of the type of an object whose keys have several types; it is added to ``found``
    """
    if 'type' not in schema:
        words = sorted({KINDS[type(value)] for value in schema['enum']}, key='None'.__eq__)
        return ' | '.join(words)
    words = [schema['type']] if isinstance(schema['type'], str) else schema['type']
    if words[0] == 'array':
        known = f'list[{json_type(schema["items"], name, found)}]'
    elif words[0] == 'object':
        types = {key: json_type(each, name + camel(key), found) for key, each in schema['properties'].items()}
        known = f'dict[str, {next(iter(types.values()))}]' if len({*types.values()}) == 1 else name
        if known == name:
            found[name] = types
    else:
        known = WORDS[words[0]]
    convert = getattr(schema, 'convert', lambda _name, value: value)
    return f'{known} | None' if 'null' in words[1:] and convert(name, None) is None else known


def values() -> str:
    """The text of the module of requests."""
    from nova.network.rest import app
    from nova.web import resource
    parts = [VALUES_HEAD]
    for kind in app.RESOURCES.values():
        objects: dict[str, dict[str, str]] = {}
        types = {}
        for field in kind.attributes.values():
            schema = resource.schema_of(field.type, 0) if field.accepts is None else field.accepts
            known = json_type(schema, camel(kind.name) + camel(field.name.rpartition(':')[2]), objects)
            absent = field.default is None and not field.required and 'create' in field.write
            types[field.name] = f'{known} | None' if absent and 'None' not in known else known
        for name, each in {**objects, camel(kind.name) + 'Values': types}.items():
            parts.append(typed_dict(name, each, '}, total=False'))
    return ''.join(parts)


def main() -> int:
    """Write or check; see the head of this file."""
    if sys.argv[1:] == ['write']:
        WRITTEN.write_text(written())
        VALUES.write_text(values())
        return 0
    if sys.argv[1:] != ['check']:
        print(__doc__, file=sys.stderr)
        return 2
    wrong = [path.name for path, text in ((WRITTEN, written()), (VALUES, values())) if path.read_text() != text]
    if wrong:
        print(f'{", ".join(wrong)}: run tools/row_types.py write', file=sys.stderr)
    return bool(wrong)


if __name__ == '__main__':
    sys.exit(main())
