"""The transactions of SQLite: each sees what was committed before it began. And who may read its files."""
import os

import pytest
import sqlalchemy as sa

from nova.db import engine


def test_a_result_that_was_not_read_to_its_end_does_not_keep_its_moment(tmp_path):
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


def test_nor_does_one_in_a_block_that_raised(tmp_path):
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


def test_nobody_else_reads_its_files(tmp_path):
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
