"""Numbers of messages that came once: what is refused after many others, and after a restart."""
import os
import stat

import pytest

from nova import exception
from nova.rpc import replays

KEY, OTHER = 'a' * 40, 'b' * 40
DAY = 24 * 3600


def number(index):
    return f'{index:024x}'


def made(path, most=10):
    return replays.Replays(str(path / 'services' / 'numbers'), DAY, most)


def test_a_number_comes_once_for_each_key(tmp_path):
    seen = made(tmp_path)
    seen.check(KEY, number(1), 1000)
    seen.check(OTHER, number(1), 1000)
    with pytest.raises(exception.MessageRepeated):
        seen.check(KEY, number(1), 1000)


@pytest.mark.parametrize('restarted', [False, True])
def test_the_first_number_does_not_come_again_after_many_others(tmp_path, restarted):
    seen = made(tmp_path)
    for index in range(40):
        seen.check(KEY, number(index), 1000 + index)
    if restarted:
        seen = made(tmp_path)
    for index in range(40):
        with pytest.raises(exception.MessageRefused):
            seen.check(KEY, number(index), 1000 + index)
    with pytest.raises(exception.MessageRefused, match='may have been dropped'):
        seen.check(KEY, number(100), 1005)           # it may have been one of those
    seen.check(OTHER, number(100), 1005)             # another key has no floor yet
    seen.check(KEY, number(101), 1039)


def test_a_restart_forgets_no_number(tmp_path):
    made(tmp_path).check(KEY, number(1), 1000)
    again = made(tmp_path)
    again.check(KEY, number(2), 1000)                # of the same second, or one that has waited
    again.check(KEY, number(3), 900)
    for index, at in ((1, 1000), (2, 1000), (3, 900)):
        with pytest.raises(exception.MessageRepeated):
            made(tmp_path).check(KEY, number(index), at)


def test_a_record_that_a_crash_has_cut_off_hides_no_other(tmp_path):
    made(tmp_path).check(KEY, number(1), 1000)
    path, = (tmp_path / 'services').iterdir()
    with open(path, 'ab') as file:
        file.write(b'half')
    made(tmp_path).check(KEY, number(2), 1001)
    for index in (1, 2):
        with pytest.raises(exception.MessageRepeated):
            made(tmp_path).check(KEY, number(index), 1000)


def test_files_are_bounded_and_their_owner_s(tmp_path):
    seen = made(tmp_path)
    for index in range(200):
        seen.check(KEY, number(index), 1000 + index)
    files = {path.name: path for path in (tmp_path / 'services').iterdir()}
    assert set(files) == {'numbers.newer', 'numbers.older', 'numbers.floors'}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files.values())
    assert sum(path.stat().st_size for path in files.values()) <= 10 * replays.RECORD.size + 100


def test_floors_of_keys_end_when_the_time_of_their_messages_has_passed(tmp_path):
    seen = made(tmp_path)
    for index in range(10):
        seen.check(OTHER, number(index), 1000)
    for index in range(20):
        seen.check(KEY, number(index), 1000 + 2 * DAY + index)
    assert OTHER not in (tmp_path / 'services' / 'numbers.floors').read_text()


def test_messages_go_on_where_nothing_can_be_written(tmp_path, caplog):
    (tmp_path / 'services').write_text('a file')
    seen = made(tmp_path)
    for index in range(30):
        seen.check(KEY, number(index), 1000 + index)
    with pytest.raises(exception.MessageRefused):
        seen.check(KEY, number(0), 1000)
    assert [record.levelname for record in caplog.records if 'cannot be kept' in record.message] == ['WARNING']
    assert os.path.isfile(tmp_path / 'services')
