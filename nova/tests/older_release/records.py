"""Formats of the records on disks (nova.runtime.versioned_records): those of this tree, and the frozen ones.

``records.json`` has {name: {version: {'readable_by', 'fields', 'parts', 'required'}}}. ``tools/freeze_versions.py``
adds the version of this tree and changes no other version.
"""
import importlib
import json
import pathlib

from nova.runtime import versioned_records
from nova.tests import older_release

FILE = older_release.DIRECTORY / 'records.json'
ROOT = pathlib.Path(__file__).parents[2]


def formats():
    """{name: RecordFormat} of all modules that define one.

    :raises ValueError: two formats have one name
    """
    found = {}
    for path in sorted(ROOT.rglob('*.py')):
        if 'tests' in path.relative_to(ROOT).parts or 'RecordFormat[' not in path.read_text():
            continue
        module = importlib.import_module('.'.join(path.relative_to(ROOT.parent).with_suffix('').parts))
        for value in vars(module).values():
            if isinstance(value, versioned_records.RecordFormat) and found.setdefault(value.name, value) is not value:
                raise ValueError(f'Two formats have the name {value.name}.')
    return found


def described(made):
    """A RecordFormat as JSON has it."""
    return {'readable_by': made.readable_by, 'fields': None if made.fields is None else sorted(made.fields),
            'parts': {name: sorted(fields) for name, fields in sorted(made.parts.items())},
            'required': sorted(made.required)}


def frozen():
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def freeze():
    known = frozen()
    for name, made in formats().items():
        known.setdefault(name, {})[str(made.version)] = described(made)
    FILE.write_text(json.dumps(known, indent=1, sort_keys=True) + '\n')


def changes(older, newer):
    """Sentences about formats that changed without a version, or that the releases before cannot read.

    :param older: frozen formats
    :param newer: {name: RecordFormat}
    """
    found = [f'{name} is gone' for name in older.keys() - newer.keys()]
    for name, made in newer.items():
        versions = older.get(name, {})
        now = described(made)
        if str(made.version) not in versions:
            found.append(f'{name} has a version {made.version} that is not frozen')
        elif versions[str(made.version)] != now:
            found.append(f'{name} has other fields and the same version {made.version}')
        for version in range(made.readable_by, made.version):
            before = versions.get(str(version))
            if before is not None:
                found += _missing(name, version, before, now)
    return found


def _missing(name, version, before, now):
    """Fields that a release reads and no longer finds, although the record says that this release can read it."""
    for field in set(before['required']) - set(now['required']):
        yield f'{name} lacks {field}, which version {version} requires: raise readable_by'
    for field in set(before['fields'] or ()) - set(now['fields'] or ()):
        yield f'{name}.{field} is gone, and version {version} has it: raise readable_by'
    for part, fields in before['parts'].items():
        for field in set(fields) - set(now['parts'].get(part, ())):
            yield f'{name}.{part}.{field} is gone, and version {version} has it: raise readable_by'
