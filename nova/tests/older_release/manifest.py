"""Interfaces, objects, payloads of notifications and tables of the code that is imported, as data."""
import importlib
import json

from sqlalchemy.dialects import sqlite

from nova import objects
from nova.db import schema
from nova.notify import payloads

REQUIRED = ' NOT NULL'                   # and no default: each row has a value
# {topic: (module, its name there)}; older releases lack some
TOPICS = {**{topic: (topic, 'INTERFACE') for topic in ('cert', 'compute', 'conductor', 'network', 'scheduler')},
          'network_agent': ('network', 'AGENT')}


def current():
    """{'interfaces': {topic: {'version', 'methods': {name: row}}}, 'objects': {name: {'version', 'fields'}},
    'payloads': {name: {'version', 'fields'}}, 'tables': {branch.table: {'version': branch, 'columns'}}}
    """
    return {'interfaces': {topic: made for topic in TOPICS if (made := _interface(topic))},
            'objects': {name: _object(getattr(objects, name)) for name in sorted(objects.__all__)
                        if name != 'NovaObject'},
            'payloads': {name: {'version': row.version, 'fields': dict.fromkeys(sorted(row.fields), '')}
                         for name, row in payloads.PAYLOADS.items()},
            'tables': {f'{branch}.{name}': {'version': branch, 'columns': _columns(table)}
                       for branch in schema.BRANCHES for name, table in schema.metadata(branch).tables.items()}}


def dump(manifest):
    """As JSON text, a line for each method and field."""
    lines = []
    for kind, parts in sorted(manifest.items()):
        lines.append(f' {json.dumps(kind)}: {{')
        for name, part in sorted(parts.items()):
            (inner, rows), = [(key, value) for key, value in part.items() if key != 'version']
            lines.append(f'  {json.dumps(name)}: {{"version": {json.dumps(part["version"])}, "{inner}": {{')
            lines += [f'   {json.dumps(key)}: {json.dumps(value)},' for key, value in sorted(rows.items())]
            lines[-1] = lines[-1].rstrip(',') + '}},'
        lines[-1] = lines[-1].rstrip(',') + '},'
    return '{\n' + '\n'.join(lines).rstrip(',') + '}\n'


def _interface(topic):
    module, name = TOPICS[topic]
    found = getattr(importlib.import_module(f'nova.{module}.interface'), name, None)
    if found is None:
        return None
    return {'version': found.version, 'methods': {name: _row(row) for name, row in sorted(found.methods.items())}}


def _row(row):
    newer = {each.name: each.since for each in getattr(row, 'newer', ())}
    return {'arguments': [[name, newer.get(name, row.since)] for name in row.arguments], 'call': row.call,
            'since': row.since}


def _columns(table):
    """{name: type, and what a row must have}. A release that does not know a column leaves it out of its rows."""
    return {column.name: column.type.compile(sqlite.dialect()) + (
        '' if column.nullable or column.server_default is not None or column.primary_key else REQUIRED)
        for column in table.columns}


def _object(kind):
    return {'version': kind.VERSION, 'fields': {name: repr(field) for name, field in sorted(kind.fields.items())}}
