"""Room that writers claim on a file system: for all of them together, in all processes of a machine."""
import multiprocessing
import os
import signal

import pytest

from nova import exception
from nova.runtime import disk_space

MIB = disk_space.MIB
FREE = 100 * MIB                 # of the file system
RESERVE = 40 * MIB


@pytest.fixture
def reserve(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_space, 'free_bytes', lambda path: FREE)
    return disk_space.Reserve(RESERVE, str(tmp_path / 'ledger'))


def claim(reserve, tmp_path, size, name='a'):
    return reserve.claim(str(tmp_path), size, str(tmp_path / name))


def test_claims_count_together(reserve, tmp_path):
    first = claim(reserve, tmp_path, 40 * MIB)
    with pytest.raises(exception.InsufficientStorage):
        claim(reserve, tmp_path, 21 * MIB, 'b')
    with pytest.raises(exception.InsufficientStorage):
        reserve.check(str(tmp_path), 21 * MIB)
    second = claim(reserve, tmp_path, 20 * MIB, 'b')
    assert reserve.room(str(tmp_path)) == 0
    first.end()
    first.end()
    assert reserve.room(str(tmp_path)) == 40 * MIB
    second.end()
    assert reserve.room(str(tmp_path)) == 60 * MIB
    assert os.listdir(tmp_path / 'ledger') == ['lock']


def test_written_bytes_of_a_space_claim_count_once(reserve, tmp_path):
    held = claim(reserve, tmp_path, 40 * MIB)
    (tmp_path / 'a').write_bytes(b'x' * 30 * MIB)            # free_bytes is fixed here: 10 MiB are claimed still
    assert reserve.room(str(tmp_path)) == 50 * MIB
    held.end()


def test_readers_without_the_lock_leave_a_claim_that_is_being_created(reserve, tmp_path):
    held = claim(reserve, tmp_path, 10 * MIB)
    new = tmp_path / 'ledger' / 'new'                        # created; its process has not locked it yet
    new.touch()
    reserve.check(str(tmp_path))
    assert reserve.room(str(tmp_path)) == 50 * MIB and new.exists()
    claim(reserve, tmp_path, 0, 'b').end()                   # holds the lock
    assert not new.exists()
    held.end()


def test_a_claim_grows_in_steps_while_there_is_room(reserve, tmp_path):
    held = claim(reserve, tmp_path, 0)
    held.need(MIB)                                           # a step ahead has no room
    assert held.size == MIB
    held.need(60 * MIB)
    with pytest.raises(exception.InsufficientStorage):
        held.need(60 * MIB + 1)
    assert held.size == 60 * MIB
    reserve.size = 0
    held.need(70 * MIB)
    held.end()


def test_a_claim_grows_a_step_ahead(reserve, tmp_path):
    reserve.size = MIB
    held = claim(reserve, tmp_path, 0)
    held.need(1)
    assert held.size == disk_space.STEP + 1
    held.end()


def test_claims_on_another_file_system_do_not_count(reserve, tmp_path):
    held = reserve.claim('/proc', 50 * MIB, '/proc/x')
    assert reserve.room(str(tmp_path)) == 60 * MIB
    held.end()


def _hold(ledger, directory, ready):
    disk_space.free_bytes = lambda path: FREE
    held = disk_space.Reserve(RESERVE, ledger).claim(directory, 50 * MIB, os.path.join(directory, 'b'))
    ready.send(held.size)
    signal.pause()


def test_claims_of_another_process_count_while_it_lives(reserve, tmp_path):
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context('spawn').Process(
        target=_hold, args=(str(tmp_path / 'ledger'), str(tmp_path), there))
    process.start()
    assert here.recv() == 50 * MIB
    assert reserve.room(str(tmp_path)) == 10 * MIB
    with pytest.raises(exception.InsufficientStorage):
        claim(reserve, tmp_path, 11 * MIB)
    process.kill()
    process.join()
    assert reserve.room(str(tmp_path)) == 60 * MIB
    claim(reserve, tmp_path, 60 * MIB).end()                 # removes the claim of the ended process
    assert os.listdir(tmp_path / 'ledger') == ['lock']


def test_without_a_reserve_nothing_is_claimed(tmp_path):
    with disk_space.Reserve(0, str(tmp_path / 'ledger')).claimed(str(tmp_path), 1 << 60) as held:
        held.need(1 << 61)
    assert not (tmp_path / 'ledger').exists()


def test_a_ledger_that_cannot_be_used_bounds_each_writer_by_itself(reserve, tmp_path):
    (tmp_path / 'ledger').write_text('')
    claim(reserve, tmp_path, 60 * MIB).end()
    with pytest.raises(exception.InsufficientStorage):
        claim(reserve, tmp_path, 61 * MIB)
