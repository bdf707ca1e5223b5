"""Messages, notifications and tables change with a version only, and the release before works with each change.

A row that fails here was changed: give what is new a ``since`` (interfaces) or put it into ``ADDED`` (objects), raise
the minor version (payloads, too), enter it in RELEASES of rpc/versions.py, and run tools/freeze_versions.py. A new
column may be NULL or has a ``server_default``. Records on disks: test_records.py.
"""

import pytest

from nova import objects
from nova.rpc import versions
from nova.rpc.interface import parsed
from nova.tests import older_release
from nova.tests.older_release import manifest

CURRENT = manifest.current()
OLDER = [version for version in versions.RELEASES if version < versions.VERSION]


def changes(older, newer):
    """Sentences about what makes ``newer`` no superset of ``older`` that says its versions."""
    found = []
    for topic, before in older['interfaces'].items():
        after = newer['interfaces'][topic]
        found += _interface_changes(topic, before, after)
    for kind in ('objects', 'payloads'):
        for name, before in older.get(kind, {}).items():         # VERSION 1 has no frozen payloads and tables
            found += _field_changes(name, before, newer[kind].get(name))
    for name, before in older.get('tables', {}).items():
        found += _column_changes(name, before['columns'], newer['tables'].get(name))
    return found


def _field_changes(name, before, after):
    if after is None:
        yield f'{name} is gone'
        return
    if parsed(before['version'])[0] != parsed(after['version'])[0]:
        return                                            # a new major version may be anything
    if before['fields'] != after['fields'] and before['version'] == after['version']:
        yield f'{name} has other fields and the same version'
    for field, kind in before['fields'].items():
        if after['fields'].get(field) != kind:
            yield f'{name}.{field} is gone or changed'


def _column_changes(name, before, after):
    """Columns without which the release before cannot read, or cannot write, a row."""
    if after is None:
        yield f'table {name} is gone'
        return
    for column, kind in before.items():
        if column not in after['columns']:
            yield f'column {name}.{column} is gone'
        elif after['columns'][column].removesuffix(manifest.REQUIRED) != kind.removesuffix(manifest.REQUIRED):
            yield f'column {name}.{column} has another type'
        elif after['columns'][column].endswith(manifest.REQUIRED) > kind.endswith(manifest.REQUIRED):
            yield f'column {name}.{column} may no longer be left out'
    for column in after['columns'].keys() - before.keys():
        if after['columns'][column].endswith(manifest.REQUIRED):
            yield f'column {name}.{column} is new, and the release before leaves it out: it needs a server_default'


def _interface_changes(topic, before, after):
    known = parsed(before['version'])
    for name, row in after['methods'].items():
        old = before['methods'].get(name)
        if old is None:
            if not known < parsed(row['since']) <= parsed(after['version']):
                yield f'{topic}.{name} is new and says since {row["since"]}'
            continue
        if row['call'] != old['call'] or row['since'] != old['since']:
            yield f'{topic}.{name} is another kind of message'
        if row['arguments'][:len(old['arguments'])] != old['arguments']:
            yield f'{topic}.{name} has other arguments'
        for argument, since in row['arguments'][len(old['arguments']):]:
            if not known < parsed(since) <= parsed(after['version']):
                yield f'{topic}.{name} has a new argument {argument} that says since {since}'
    for name in before['methods'].keys() - after['methods'].keys():
        yield f'{topic}.{name} is gone'


@pytest.mark.parametrize('version', OLDER)
def test_versions_differ_by_additions_with_a_new_version_only(version):
    assert changes(older_release.read(version), CURRENT) == []


def test_this_release_is_what_its_frozen_table_says():
    """Run tools/freeze_versions.py, after what is new has got a version."""
    assert older_release.read(versions.VERSION) == CURRENT


@pytest.mark.parametrize('version', versions.RELEASES)
def test_releases_name_the_versions_of_their_code(version):
    frozen, release = older_release.read(version), versions.RELEASES[version]
    assert release.interfaces == {topic: row['version'] for topic, row in frozen['interfaces'].items()}
    assert release.objects == {name: row['version'] for name, row in frozen['objects'].items()}


def test_fields_that_came_later_are_left_out_for_older_ones():
    for name, row in older_release.read(versions.OLDEST)['objects'].items():
        kind = getattr(objects, name)
        added = {field for since, fields in kind.ADDED.items() if parsed(since) > parsed(row['version'])
                 for field in fields}
        assert set(kind.fields) - added == set(row['fields']), name


@pytest.mark.parametrize('change, sentence', [
    (lambda m: m['interfaces']['compute']['methods'].update(
        new={'arguments': [], 'call': False, 'since': '1.0'}), 'compute.new is new and says since 1.0'),
    (lambda m: m['interfaces']['compute']['methods']['stop_instance']['arguments'].append(['hard', '1.0']),
     'compute.stop_instance has a new argument hard that says since 1.0'),
    (lambda m: m['interfaces']['compute']['methods'].pop('ping'), 'compute.ping is gone'),
    (lambda m: m['interfaces']['compute']['methods']['ping'].update(call=False),
     'compute.ping is another kind of message'),
    (lambda m: m['interfaces']['network']['methods']['unbind_ports']['arguments'].reverse(),
     'network.unbind_ports has other arguments'),
    (lambda m: m['objects']['Instance']['fields'].update(mood="String(nullable=True)"),
     'Instance has other fields and the same version'),
    (lambda m: m['objects']['Instance']['fields'].pop('host'), 'Instance.host is gone or changed'),
    (lambda m: m['payloads']['FlavorPayload']['fields'].update(mood=''),
     'FlavorPayload has other fields and the same version'),
    (lambda m: m['payloads']['FlavorPayload']['fields'].pop('name'), 'FlavorPayload.name is gone or changed'),
    (lambda m: m['payloads'].pop('FlavorPayload'), 'FlavorPayload is gone'),
    (lambda m: m['tables'].pop('cell.instances'), 'table cell.instances is gone'),
    (lambda m: m['tables']['cell.instances']['columns'].pop('host'), 'column cell.instances.host is gone'),
    (lambda m: m['tables']['cell.instances']['columns'].update(host='INTEGER'),
     'column cell.instances.host has another type'),
    (lambda m: m['tables']['cell.instances']['columns'].update(
        host=m['tables']['cell.instances']['columns']['host'] + manifest.REQUIRED),
     'column cell.instances.host may no longer be left out'),
    (lambda m: m['tables']['cell.instances']['columns'].update(mood='INTEGER' + manifest.REQUIRED),
     'column cell.instances.mood is new, and the release before leaves it out: it needs a server_default'),
], ids=['method', 'argument', 'gone', 'cast', 'order', 'field', 'lost-field', 'payload', 'lost-in-payload',
        'lost-payload', 'lost-table', 'lost-column', 'type', 'required', 'new-column'])
def test_a_change_without_a_version_is_found(change, sentence):
    newer = older_release.read(versions.VERSION)
    change(newer)
    assert changes(older_release.read(versions.VERSION), newer).count(sentence) == 1
    assert changes(older_release.read(versions.VERSION), older_release.read(versions.VERSION)) == []


@pytest.mark.parametrize('change', [
    lambda m: m['payloads']['FlavorPayload'].update(version='1.99', fields={
        **m['payloads']['FlavorPayload']['fields'], 'mood': ''}),
    lambda m: m['payloads']['FlavorPayload'].update(version='2.0', fields={}),
    lambda m: m['tables']['cell.instances']['columns'].update(mood='INTEGER'),
    lambda m: m['tables'].update({'cell.moods': {'version': 'cell', 'columns': {'mood': 'INTEGER'}}}),
], ids=['minor', 'major', 'column', 'table'])
def test_addition_with_a_version_is_accepted(change):
    newer = older_release.read(versions.VERSION)
    change(newer)
    assert changes(older_release.read(versions.VERSION), newer) == []
