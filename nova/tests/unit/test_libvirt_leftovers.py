"""Directories of guests that libvirt does not have: whose they are."""
import json

import pytest

pytest.importorskip('libvirt', reason='libvirt-python is not installed')
from nova.tests.support import libvirt_moves as moves
from nova.virt.libvirt.moves import shared_storage
from nova.virt.libvirt.moves import transfer_progress

UUID = moves.UUID


@pytest.fixture
def stored(tmp_path):
    return moves.store(tmp_path / 'instances', 'one')


@pytest.fixture
def directory(stored, tmp_path):
    path = tmp_path / 'instances' / UUID
    path.mkdir()
    return path


def arrive(directory, host):
    transfer_progress.IncomingTransfer(str(directory), {}, host).begin()


def test_copies_that_came_for_a_move_are_found(stored, directory):
    arrive(directory, 'one')
    (directory / 'disk.part').write_bytes(b'half')
    assert shared_storage.leftovers(stored, 'one', ()) == {UUID: True}
    assert shared_storage.leftovers(stored, 'one', {UUID: 1}) == {}


def test_copies_of_a_host_that_shares_the_directory_are_not(stored, directory):
    arrive(directory, 'two')
    assert shared_storage.leftovers(stored, 'one', ()) == {}


@pytest.mark.parametrize('content', [None, '{"version": 1, "move": {}, "files": {}}', '{"version"', '[]'])
def test_creator_of_a_directory_without_a_record_is_unknown(stored, directory, content):
    """Or with one of before, or one that cannot be read."""
    if content:
        (directory / transfer_progress.NAME).write_text(content)
    assert shared_storage.leftovers(stored, 'one', ()) == {UUID: False}


def test_a_record_says_whose_the_files_are(stored, directory, tmp_path):
    guest = moves.record(stored)
    stored.save(guest)
    assert shared_storage.leftovers(stored, 'one', ()) == {UUID: True}
    path = directory / 'guest.json'
    known = json.loads(path.read_text())
    for change, found in (({'host': 'two'}, {}), ({'host': None}, {UUID: False}), ({'successor': 'two'}, {})):
        path.write_text(json.dumps({**known, **change}))
        assert shared_storage.leftovers(stored, 'one', ()) == found
    path.write_text('{"no": "record"}')
    assert shared_storage.leftovers(stored, 'one', ()) == {UUID: False}


def test_directories_with_other_names_are_ignored(stored, tmp_path):
    for name in ('_base', f'{UUID}_kept', 'notes'):
        (tmp_path / 'instances' / name).mkdir(exist_ok=True)
    (tmp_path / 'instances' / UUID.replace('8', '9')).write_bytes(b'a file')
    assert shared_storage.leftovers(stored, 'one', ()) == {}
