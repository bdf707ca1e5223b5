"""Interfaces and objects of the code that is imported, as data; runs on the code of older releases, too."""
import importlib
import json

from nova import objects

# {topic: (module, its name there)}; older releases lack some
TOPICS = {**{topic: (topic, 'INTERFACE') for topic in ('cert', 'compute', 'conductor', 'network', 'scheduler')},
          'network_agent': ('network', 'AGENT')}


def current():
    """{'interfaces': {topic: {'version', 'methods': {name: row}}}, 'objects': {name: {'version', 'fields'}}}"""
    return {'interfaces': {topic: made for topic in TOPICS if (made := _interface(topic))},
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
    module, name = TOPICS[topic]
    found = getattr(importlib.import_module(f'nova.{module}.interface'), name, None)
    if found is None:
        return None
    return {'version': found.version, 'methods': {name: _row(row) for name, row in sorted(found.methods.items())}}


def _row(row):
    newer = {each.name: each.since for each in getattr(row, 'newer', ())}
    return {'arguments': [[name, newer.get(name, row.since)] for name in row.arguments], 'call': row.call,
            'since': row.since}


def _object(kind):
    return {'version': kind.VERSION, 'fields': {name: repr(field) for name, field in sorted(kind.fields.items())}}
