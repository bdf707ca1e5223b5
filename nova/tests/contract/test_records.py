"""Records on disks: no field changes without a version, and no module writes state files in its own way.

A format that fails here was changed: raise its version, add an upgrade, and run tools/freeze_versions.py
(doc/source/contributor/records.rst).
"""
import ast
import copy
import dataclasses
import pathlib

import pytest

pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova.tests.older_release import records

ROOT = pathlib.Path(__file__).parents[2]
FORMATS = records.formats()

# (file, call): why the call is no state file that durable_files should write
OTHER_WRITERS = {
    ('durable_files.py', 'os.replace'): 'the function itself',
    ('durable_files.py', 'os.link'): 'the function itself',
    ('contents.py', 'Path.rename'): 'contents that are not in the index, moved aside whole',
    ('state_backup.py', 'os.rename'): 'a restore syncs whole trees before it renames them',
    ('api.py', 'os.rename'): 'an image on its way into a cache or a volume, which commits it',
    ('files.py', 'os.rename'): 'an upload on its way into the image store, which commits it; a disk before encryption',
    ('files.py', 'os.replace'): 'a deleted volume goes to the trash',
    ('dnsmasq_files.py', 'write_text'): 'configuration of dnsmasq, made again at each start',
    ('dnsmasq_files.py', 'Path.replace'): 'configuration of dnsmasq, made again at each start',
    ('dhcpbridge.py', 'write_text'): 'a lease, which dnsmasq has in a file of its own; no import for speed',
    ('dhcpbridge.py', 'Path.replace'): 'a lease, which dnsmasq has in a file of its own; no import for speed',
    ('leases.py', 'Path.replace'): 'an ended lease, which is moved before it is removed',
    ('namespaces.py', 'write_text'): 'the number of a process, in /run',
    ('replays.py', 'os.replace'): 'the binary log of numbers, whose records are appended',
    ('machine.py', 'write_bytes'): 'simulated guests need not survive a power failure',
    ('machine.py', 'os.replace'): 'simulated guests need not survive a power failure',
    ('consoles.py', 'os.replace'): 'rotation of a log',
    ('cold_moves.py', 'os.rename'): 'an image that came along with a disk',
    ('tpm_state.py', 'os.replace'): 'the state of a TPM on its way to libvirt',
    ('resize.py', 'os.rename'): 'the directory of a guest',
    ('records.py', 'os.replace'): 'an unreadable record, kept beside the new one',
}
_PATHS = ('rename', 'replace', 'link')


def writers(text):
    """Calls of a module that replace files or write JSON to them."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ''
        name = node.func.attr
        if (owner == 'os' and name in _PATHS) or (owner in ('json', 'pickle') and name == 'dump'):
            yield f'{owner}.{name}'
        elif name in ('write_text', 'write_bytes'):
            yield name
        elif name in ('rename', 'replace') and len(node.args) == 1 and not node.keywords and owner not in (
                'dataclasses', 'durable_files'):
            yield f'Path.{name}'


def test_state_files_are_written_by_durable_files():
    found = {(path.name, call) for path in ROOT.rglob('*.py') if 'tests' not in path.relative_to(ROOT).parts
             for call in writers(path.read_text())}
    assert sorted(found - OTHER_WRITERS.keys()) == [], (
        'write a record with versioned_records.RecordFormat, another file with durable_files.replace')
    assert sorted(OTHER_WRITERS.keys() - found) == []


@pytest.mark.parametrize('text, call', [
    ('os.replace(part, path)', 'os.replace'), ('json.dump(values, file)', 'json.dump'),
    ('part.rename(path)', 'Path.rename'), ('path.write_text(json.dumps(values))', 'write_text'),
    ('os.link(part, path)', 'os.link')])
def test_other_ways_to_write_a_file_are_found(text, call):
    assert list(writers(text)) == [call]


@pytest.mark.parametrize('text', ['text.replace("a", "b")', 'dataclasses.replace(guest)', 'json.dumps(values)',
                                  'durable_files.replace(path, content)'])
def test_code_without_file_writes_is_not_reported(text):
    assert list(writers(text)) == []


def test_no_format_has_changed_without_a_version():
    """Raise the version, and run tools/freeze_versions.py."""
    assert records.changes(records.frozen(), FORMATS) == []


GUEST = 'record of a guest'


def _changed(**values):
    return {**FORMATS, GUEST: dataclasses.replace(FORMATS[GUEST], **values)}


MORE = FORMATS[GUEST].fields | {'mood'}
FEWER = FORMATS[GUEST].fields - {'numa'}
UPGRADES = {1: lambda values: values}


@pytest.mark.parametrize('newer, sentences', [
    (_changed(fields=MORE), ['record of a guest has other fields and the same version 1']),
    (_changed(fields=FEWER), ['record of a guest has other fields and the same version 1']),
    (_changed(parts={}), ['record of a guest has other fields and the same version 1']),
    (_changed(version=2, upgrades=UPGRADES, fields=MORE), ['record of a guest has a version 2 that is not frozen']),
    (_changed(version=2, upgrades=UPGRADES, fields=FEWER), [
        'record of a guest has a version 2 that is not frozen',
        'record of a guest.numa is gone, and version 1 has it: raise readable_by']),
    (_changed(version=2, readable_by=2, upgrades=UPGRADES, fields=FEWER), [
        'record of a guest has a version 2 that is not frozen']),
    (_changed(version=2, upgrades=UPGRADES, required=FORMATS[GUEST].required - {'uuid'}), [
        'record of a guest has a version 2 that is not frozen',
        'record of a guest lacks uuid, which version 1 requires: raise readable_by']),
    ({name: made for name, made in FORMATS.items() if name != GUEST}, ['record of a guest is gone']),
], ids=['field', 'lost-field', 'part', 'version', 'lost-in-version', 'incompatible', 'required', 'gone'])
def test_a_change_of_a_format_without_a_version_is_found(newer, sentences):
    assert records.changes(copy.deepcopy(records.frozen()), newer) == sentences
