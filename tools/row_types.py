#!/usr/bin/env python3
"""Types of rows, made from the tables: nova/db/tables/rows.py. It has those that a module of nova uses.

    tools/row_types.py write     make the module again after a table has changed, or an import of a type
    tools/row_types.py check     exit 0 when it is as the tables and the imports want it
"""
import importlib
import pathlib
import pkgutil
import re
import sys
import textwrap

import sqlalchemy as sa

PACKAGE = 'nova.db.tables'
WRITTEN = pathlib.Path(__file__).resolve().parents[1] / 'nova' / 'db' / 'tables' / 'rows.py'
HEAD = '''"""Types of the rows: what ``dict(row)`` of each table has. Made by tools/row_types.py; do not edit."""
import datetime
from typing import Any
from typing import TypedDict
'''
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


def written() -> str:
    """The module's text."""
    parts, used = [HEAD], used_types()
    for table in tables():
        name = ''.join(part.capitalize() for part in table.name.split('_')) + 'Row'
        if name not in used:
            continue
        # a field's space would be a place to break a line
        fields = ', '.join(f"'{column.name}': {type_of(column)}".replace(' ', '\0') for column in table.columns)
        filled = textwrap.fill(f'{fields}}})', 120, initial_indent='    ', subsequent_indent='    ',
                               break_long_words=False, break_on_hyphens=False).replace('\0', ' ')
        parts.append(f"\n{name} = TypedDict('{name}', {{\n{filled}\n")
    return ''.join(parts)


def main() -> int:
    """Write or check; see the head of this file."""
    if sys.argv[1:] == ['write']:
        WRITTEN.write_text(written())
        return 0
    if sys.argv[1:] != ['check']:
        print(__doc__, file=sys.stderr)
        return 2
    if WRITTEN.read_text() == written():
        return 0
    print(f'{WRITTEN.name} is not what the tables say: run tools/row_types.py write', file=sys.stderr)
    return 1


if __name__ == '__main__':
    sys.exit(main())
