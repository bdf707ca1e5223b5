"""Interfaces and objects of the code that is imported, as data; runs on the code of older releases, too."""
import importlib
import json

from nova import objects

TOPICS = ('compute', 'conductor', 'network', 'scheduler')


def current():
    """{'interfaces': {topic: {'version', 'methods': {name: row}}}, 'objects': {name: {'version', 'fields'}}}"""
    return {'interfaces': {topic: _interface(topic) for topic in TOPICS},
            'objects': {name: _object(getattr(objects, name)) for name in sorted(objects.__all__)
                        if name != 'NovaObject'}}


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
    found = importlib.import_module(f'nova.{topic}.interface').INTERFACE
    return {'version': found.version, 'methods': {name: _row(row) for name, row in sorted(found.methods.items())}}


def _row(row):
    newer = {each.name: each.since for each in getattr(row, 'newer', ())}
    return {'arguments': [[name, newer.get(name, row.since)] for name in row.arguments], 'call': row.call,
            'since': row.since}


def _object(kind):
    return {'version': kind.VERSION, 'fields': {name: repr(field) for name, field in sorted(kind.fields.items())}}
