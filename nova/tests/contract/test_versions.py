"""Nothing that travels between services changes without a version, and every version is known to the older ones.

A row that fails here was changed: give what is new a ``since`` (interfaces) or put it into ``ADDED`` (objects), raise
the minor version, enter it in RELEASES of rpc/versions.py, and run tools/freeze_versions.py.
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
    for name, before in older['objects'].items():
        after = newer['objects'][name]
        if parsed(before['version'])[0] != parsed(after['version'])[0]:
            continue                                      # a new major version may be anything
        if before['fields'] != after['fields'] and before['version'] == after['version']:
            found.append(f'{name} has other fields and the same version')
        found += [f'{name}.{field} is gone or changed' for field, kind in before['fields'].items()
                  if after['fields'].get(field) != kind]
    return found


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
def test_only_additions_with_a_version(version):
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
    (lambda m: m['interfaces']['network']['methods']['leave_host']['arguments'].reverse(),
     'network.leave_host has other arguments'),
    (lambda m: m['objects']['Instance']['fields'].update(mood="String(nullable=True)"),
     'Instance has other fields and the same version'),
    (lambda m: m['objects']['Instance']['fields'].pop('host'), 'Instance.host is gone or changed'),
], ids=['method', 'argument', 'gone', 'cast', 'order', 'field', 'lost-field'])
def test_a_change_without_a_version_is_found(change, sentence):
    newer = older_release.read(versions.OLDEST)
    change(newer)
    assert sentence in changes(older_release.read(versions.OLDEST), newer)
