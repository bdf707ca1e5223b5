"""Files that are replaced as a whole."""
import os
import stat

import pytest

from nova.runtime import durable_files


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.mark.parametrize('wanted', [0o600, 0o640, 0o644])
@pytest.mark.parametrize('umask', [0o000, 0o077])
def test_a_file_is_replaced_with_its_mode_whatever_the_umask(tmp_path, wanted, umask):
    path = tmp_path / 'file'
    path.write_bytes(b'before')
    before = os.umask(umask)
    try:
        durable_files.replace(path, b'after', wanted)
    finally:
        os.umask(before)
    assert path.read_bytes() == b'after' and mode(path) == wanted and os.listdir(tmp_path) == ['file']


def test_the_content_is_on_the_disk_before_the_name_and_the_name_before_the_return(tmp_path, monkeypatch):
    steps, fsync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, 'fsync', lambda number: (
        steps.append('directory' if stat.S_ISDIR(os.fstat(number).st_mode) else 'file'), fsync(number)))
    monkeypatch.setattr(os, 'replace', lambda *paths: (steps.append('rename'), replace(*paths)))
    durable_files.replace(tmp_path / 'file', b'content')
    assert steps == ['file', 'rename', 'directory']
    steps.clear()
    durable_files.commit(tmp_path / 'file', tmp_path / 'other')
    assert steps == ['file', 'rename', 'directory'] and os.listdir(tmp_path) == ['other']


def test_an_error_leaves_the_file_and_no_part(tmp_path):
    path = tmp_path / 'file'
    path.write_bytes(b'before')
    with pytest.raises(ZeroDivisionError), durable_files.replacing(path) as file:
        file.write(b'half')
        raise ZeroDivisionError
    assert path.read_bytes() == b'before' and os.listdir(tmp_path) == ['file']
    (tmp_path / 'directory').mkdir()
    with pytest.raises(OSError):
        durable_files.replace(tmp_path / 'directory', b'content')
    assert sorted(os.listdir(tmp_path)) == ['directory', 'file']


def test_create_leaves_the_file_of_the_first_process(tmp_path):
    path = tmp_path / 'file'
    assert durable_files.create(path, b'first') and not durable_files.create(path, b'second')
    assert path.read_bytes() == b'first' and mode(path) == 0o600 and os.listdir(tmp_path) == ['file']
