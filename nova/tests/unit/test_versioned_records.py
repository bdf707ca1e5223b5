"""Versioned records: what one release reads of the records of another release."""
import json
import os

import pytest

from nova import exception
from nova.runtime import versioned_records

FIRST = versioned_records.RecordFormat(
    name='record of a test', fields=frozenset({'size'}), required=frozenset({'size'}))
SECOND = versioned_records.RecordFormat(
    name='record of a test', version=2, fields=frozenset({'size', 'colour'}), required=frozenset({'size'}),
    upgrades={1: lambda values: {'colour': 'red', **values}})
THIRD = versioned_records.RecordFormat(
    name='record of a test', version=3, readable_by=3, fields=frozenset({'bytes', 'colour'}),
    required=frozenset({'bytes'}),
    upgrades={2: lambda values: {**{name: value for name, value in values.items() if name != 'size'},
                                 'bytes': values['size'] * 1024}})


def test_a_record_without_a_header_has_version_1(tmp_path):
    path = tmp_path / 'record'
    path.write_text(json.dumps({'size': 1}))
    assert FIRST.read(path) == {'size': 1}
    assert SECOND.read(path) == {'size': 1, 'colour': 'red'}


def test_the_release_before_reads_a_record_with_a_new_field_and_keeps_the_field(tmp_path):
    path = tmp_path / 'record'
    SECOND.write(path, {'size': 1, 'colour': 'blue'})
    found = FIRST.read(path)
    assert found == {'size': 1, 'colour': 'blue'}
    FIRST.write(path, {**found, 'size': 2})
    assert json.loads(path.read_text()) == {'version': 1, 'readable_by': 1, 'size': 2, 'colour': 'blue'}
    assert SECOND.read(path) == {'size': 2, 'colour': 'blue'}


def test_the_release_before_refuses_a_record_whose_fields_have_another_meaning(tmp_path):
    path = tmp_path / 'record'
    THIRD.write(path, {'bytes': 1024})
    with pytest.raises(exception.RecordUnreadable) as caught:
        SECOND.read(path)
    assert caught.value.message == (
        f'The record of a test {path} cannot be read: a newer release wrote it in version 3, which needs version 3 or '
        'later, and this release reads versions 1 to 2. Upgrade this service.')
    SECOND.write(path, {'size': 1, 'colour': 'blue'})
    assert THIRD.read(path) == {'bytes': 1024, 'colour': 'blue'}


def test_a_record_that_is_too_old_is_refused(tmp_path):
    path = tmp_path / 'record'
    path.write_text(json.dumps({'size': 1}))
    with pytest.raises(exception.RecordUnreadable, match='an older release wrote it in version 1, and this release '
                                                         'reads versions 2 to 3'):
        THIRD.read(path)


@pytest.mark.parametrize('content, reason', [
    (b'', 'it is empty'),
    (b'{"size": ', 'it is not JSON'),
    (b'\x00\xff', 'it is not JSON'),
    (b'[' * 100000, 'it is not JSON'),
    (b'[1]', 'it is not a JSON object'),
    (b'{}', 'it lacks size'),
    (b'{"size": 1, "version": "2"}', 'its version 2 is not a version number'),
    (b'{"size": 1, "version": true}', 'its version True is not a version number'),
    (b'{"size": 1, "version": 0}', 'its version 0 is not a version number'),
    (b'{"size": 1, "version": 1, "readable_by": 2}', 'its version 1 is not a version number'),
    (b'{"size": 1}'.ljust(versioned_records.MAX_BYTES + 1), 'it has more than'),
], ids=['empty', 'torn', 'binary', 'deep', 'list', 'fields', 'text', 'bool', 'zero', 'header', 'huge'])
def test_a_damaged_record_is_refused_by_a_sentence(tmp_path, content, reason):
    path = tmp_path / 'record'
    path.write_bytes(content)
    with pytest.raises(exception.RecordUnreadable) as caught:
        FIRST.read(path)
    assert caught.value.message.startswith(f'The record of a test {path} cannot be read: {reason}')


def test_a_value_of_another_type_is_refused_by_a_sentence(tmp_path):
    path = tmp_path / 'record'
    path.write_text(json.dumps({'size': 'x', 'version': 2}))
    with pytest.raises(exception.RecordUnreadable, match='a field has an unexpected value'):
        FIRST.read_as(path, lambda values: int(values['size']))
    path.write_text(json.dumps({'size': None, 'version': 2}))
    with pytest.raises(exception.RecordUnreadable, match='a field has an unexpected value'):
        THIRD.read(path)


def test_a_path_that_is_no_file_is_refused_by_a_sentence(tmp_path):
    assert FIRST.read(tmp_path / 'none') is None
    with pytest.raises(exception.RecordUnreadable, match='Is a directory'):
        FIRST.read(tmp_path)
    os.mkfifo(tmp_path / 'fifo')
    with pytest.raises(exception.RecordUnreadable, match='it is empty'):
        FIRST.read(tmp_path / 'fifo')


@pytest.mark.parametrize('values', [
    {'version': 2, 'upgrades': {2: dict}}, {'readable_by': 2}, {'required': frozenset({'none'})},
    {'parts': {'none.of': frozenset()}}])
def test_a_format_without_a_complete_way_to_its_version_is_refused(values):
    with pytest.raises(ValueError, match='a format'):
        versioned_records.RecordFormat(name='a format', fields=frozenset({'size'}), **values)


def test_a_record_that_cannot_be_read_is_logged_once(caplog):
    found, error = versioned_records.UnreadableRecords(), exception.RecordUnreadable(name='a', source='b', reason='c')
    found.add('b', error)
    found.add('b', error)
    assert [each.getMessage() for each in caplog.records] == [
        'The a b cannot be read: c. Only what this record describes is affected.']
    assert found and 'b' in found
    found.discard('b')
    assert not found
    found.add('b', error)
    assert len(caplog.records) == 2
