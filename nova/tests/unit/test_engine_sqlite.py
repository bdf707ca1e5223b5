"""The transactions of SQLite: each sees what was committed before it began. And who may read its files."""
import contextlib
import ctypes
from ctypes.util import find_library
import os
import sqlite3
import subprocess
import threading
import time

from oslo_db import exception as db_exc
import pytest
import sqlalchemy as sa

from nova.db import engine
from nova.db import errors
from nova.db import spare_room
from nova.runtime import metrics


def test_unread_result_releases_its_read_snapshot(tmp_path):
    """A kept connection went on showing the moment of an older SELECT whose rows nobody had fetched."""
    db = engine.Database(f'sqlite:///{tmp_path}/t.sqlite')
    with db.writer() as conn:
        conn.execute(sa.text('CREATE TABLE numbers (number INTEGER)'))
        conn.execute(sa.text('INSERT INTO numbers VALUES (:number)'), [{'number': number} for number in range(100)])
    with db.reader() as conn:
        unread = conn.execute(sa.text('SELECT number FROM numbers'))
        assert unread.fetchone() == (0,)
        with db.writer() as other:
            other.execute(sa.text('INSERT INTO numbers VALUES (100)'))
    for _ in range(2):          # both connections are kept
        with db.reader() as first, db.reader() as second:
            assert [conn.execute(sa.text('SELECT count(*) FROM numbers')).scalar() for conn in (first, second)] == [
                101, 101]
    db.dispose()


def test_result_of_a_failed_block_releases_its_read_snapshot(tmp_path):
    """The connection went back with the result open: its next write was refused, as one of an older moment."""
    db = engine.Database(f'sqlite:///{tmp_path}/t.sqlite', pool_size=1, max_overflow=1)
    with db.writer() as conn:
        conn.execute(sa.text('CREATE TABLE numbers (number INTEGER)'))
        conn.execute(sa.text('INSERT INTO numbers VALUES (:number)'), [{'number': number} for number in range(100)])
    unread = []
    with pytest.raises(LookupError), db.reader() as conn:
        unread.append(conn.execute(sa.text('SELECT number FROM numbers')))
        assert unread[0].fetchone() == (0,)
        with db.writer() as other:
            other.execute(sa.text('INSERT INTO numbers VALUES (100)'))
        raise LookupError
    for number in range(2):     # the kept connection and the one that came back
        with db.writer() as first:
            first.execute(sa.text('INSERT INTO numbers VALUES (:number)'), {'number': 101 + number})
            with db.reader() as second:
                assert second.execute(sa.text('SELECT count(*) FROM numbers')).scalar() == 101 + number
            db._idle.rotate()
    db.dispose()


def test_connections_that_have_read_a_large_table_keep_few_of_its_pages(tmp_path):
    """Each could keep 16 MB, and there may be fifty to a database: a process could grow by as much as its history."""
    connections, size = 8, 12 << 20
    used = ctypes.CDLL(find_library('sqlite3')).sqlite3_memory_used
    used.restype = ctypes.c_int64
    db = engine.Database(f'sqlite:///{tmp_path}/t.sqlite')
    with db.writer() as conn:
        conn.execute(sa.text('CREATE TABLE texts (text TEXT)'))
        conn.execute(sa.text('INSERT INTO texts VALUES (:text)'), [{'text': 'x' * 1024}] * (size // 1024))
    before = used()
    with contextlib.ExitStack() as stack:
        for _each in range(connections):
            conn = stack.enter_context(db.reader())
            assert conn.execute(sa.text("SELECT count(*) FROM texts WHERE text LIKE '%y%'")).scalar() == 0
    assert used() - before < connections * 3 << 20
    db.dispose()


def test_a_connection_that_is_idle_for_long_is_closed(tmp_path, monkeypatch):
    """A burst opened dozens; each kept megabytes of pages and statements for as long as the process lived."""
    used = ctypes.CDLL(find_library('sqlite3')).sqlite3_memory_used
    used.restype = ctypes.c_int64
    db = engine.Database(f'sqlite:///{tmp_path}/t.sqlite', name='burst')
    with db.writer() as conn:
        conn.execute(sa.text('CREATE TABLE texts (text TEXT)'))
        conn.execute(sa.text('INSERT INTO texts VALUES (:text)'), [{'text': 'x' * 1024}] * 1024)
    with contextlib.ExitStack() as stack:
        for _each in range(5):
            stack.enter_context(db.reader()).execute(sa.text('SELECT max(text) FROM texts'))
    before = used()
    assert db.connections() == {('burst', 'in_use'): 0, ('burst', 'idle'): 5}
    monkeypatch.setattr(engine, 'SQLITE_IDLE_S', 0.05)
    time.sleep(0.1)
    for _each in range(6):                       # each transaction closes one at most
        db.ping()
    assert db.connections() == {('burst', 'in_use'): 0, ('burst', 'idle'): 1}
    assert before - used() > 4 << 20
    db.dispose()


def test_database_files_are_readable_by_their_owner_only(tmp_path):
    """Whoever makes them, and whatever umask he has: tokens and passwords' hashes stand in them."""
    path = tmp_path / 't.sqlite'
    db = engine.Database(f'sqlite:///{path}')
    before = os.umask(0)
    try:
        with db.writer() as conn:
            conn.execute(sa.text('CREATE TABLE numbers (number INTEGER)'))
            modes = {file.name: oct(file.stat().st_mode & 0o777) for file in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == {name: '0o600' for name in ('t.sqlite', 't.sqlite-shm', 't.sqlite-wal')}
    db.dispose()
    path.chmod(0o640)                                   # an administrator's own choice
    with db.reader() as conn:
        assert conn.execute(sa.text('SELECT count(*) FROM numbers')).scalar() == 0
    assert path.stat().st_mode & 0o777 == 0o640
    db.dispose()


# ---- a file that another process has locked

def test_a_transaction_waits_for_a_locked_file_for_a_bounded_time(tmp_path, monkeypatch):
    """Ten attempts of 30 s each, one request after the other: a POST had no answer after 150 s."""
    monkeypatch.setattr(engine, 'SQLITE_BUSY_S', 1)
    path = tmp_path / 't.sqlite'
    db = engine.Database(f'sqlite:///{path}', name='locked')
    db.run(lambda conn: conn.execute(sa.text('CREATE TABLE numbers (number INTEGER)')))
    gave_up = metrics.DB_FAILURES.labels('locked')._value.get()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute('BEGIN IMMEDIATE')
    took = []

    def write():
        began = time.monotonic()
        with pytest.raises(db_exc.DBDeadlock):
            db.run(lambda conn: conn.execute(sa.text('INSERT INTO numbers VALUES (1)')))
        took.append(time.monotonic() - began)
    threads = [threading.Thread(target=write) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(took) == 5 and max(took) < 6, took
    assert metrics.DB_FAILURES.labels('locked')._value.get() == gave_up + 5
    other.execute('ROLLBACK')
    db.run(lambda conn: conn.execute(sa.text('INSERT INTO numbers VALUES (1)')))
    db.dispose()
    other.close()


def test_error_of_a_busy_write_lock_names_its_holder(tmp_path, monkeypatch):
    """It said that the file was locked, although another thread was writing."""
    monkeypatch.setattr(engine, 'SQLITE_BUSY_S', 0.1)
    db = engine.Database(f'sqlite:///{tmp_path}/t.sqlite')
    found = []

    def write():
        try:
            db.run(lambda _conn: None)
        except db_exc.DBDeadlock as error:
            found.append(errors.reason(error))
    with db.writer():
        thread = threading.Thread(target=write)
        thread.start()
        thread.join(60)
    assert found == ['another transaction of this process held the write lock for 0.1 s']
    db.dispose()


# ---- a disk that is full

@pytest.fixture
def small(tmp_path):
    """A file system of 16 MiB."""
    if os.geteuid():
        pytest.skip('mounts a file system')
    directory = tmp_path / 'small'
    directory.mkdir()
    subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=16m', 'tmpfs', directory], check=True)
    yield directory
    subprocess.run(['umount', directory], check=True)


def fill(directory):
    with open(directory / 'filler', 'ab', buffering=0) as file:
        for size in (1 << 20, 4096):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))


def test_a_full_disk_has_room_for_what_frees_some(small):
    db = engine.Database(f'sqlite:///{small}/t.sqlite')
    db.keep_spare_room()
    db.run(lambda conn: conn.execute(sa.text('CREATE TABLE texts (text TEXT)')))
    add = sa.text('INSERT INTO texts VALUES (:text)')
    for _ in range(20):
        db.run(lambda conn: conn.execute(add, {'text': 'x' * 10_000}))
    spare = small / 't.sqlite.spare'
    before = spare.stat().st_size
    assert before == 1 << 20
    fill(small)
    with spare_room.for_request(adds=True), pytest.raises(errors.Unwritable) as caught:
        for _ in range(1000):
            db.run(lambda conn: conn.execute(add, {'text': 'x' * 10_000}))
    assert errors.is_full(caught.value) and spare.stat().st_size == before
    with spare_room.for_request(adds=False):
        for _ in range(100):
            db.run(lambda conn: conn.execute(sa.text('DELETE FROM texts WHERE rowid = (SELECT min(rowid) FROM texts)')))
    with db.reader() as conn:
        assert not conn.execute(sa.text('SELECT count(*) FROM texts')).scalar()
    (small / 'filler').unlink()
    db._spare._look_at = 0
    db.run(lambda conn: conn.execute(add, {'text': 'x'}))
    assert spare.stat().st_size == before, 'there is room again'
    db.dispose()


def test_the_series_of_what_is_given_up_is_there_from_the_start(tmp_path):
    """A series that begins at 1 has no increase: the alert never fired."""
    engine.Database(f'sqlite:///{tmp_path}/t.sqlite', name='fresh').dispose()
    assert 'nova_db_failures_total{database="fresh"} 0' in metrics.exposed()[0].decode()
