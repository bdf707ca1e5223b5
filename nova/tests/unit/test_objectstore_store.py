"""What requests to the object store cost, and what many at once get of a project's share."""
import concurrent.futures
import errno
import threading

import pytest
import sqlalchemy as sa

from nova import exception
from nova import utils
from nova.objectstore import errors
from nova.db.objects import tables as t
from nova.objectstore import store as stores
from nova.runtime import disk_space

MIB = 1 << 20


@pytest.fixture
def store(tmp_path):
    made = stores.Store(tmp_path, stores.Limits(1000 * MIB, 10 ** 6, 10), disk_space.Reserve(0))
    made.make_bucket('p', 'bucket')
    yield made
    made.close()


def fill(store, *keys):
    with store._db.writer() as conn:
        conn.execute(sa.insert(t.objects), [
            {'bucket_id': 1, 'key': key, 'file': f'{number:032}', 'size': 1, 'etag': 'e', 'headers': {},
             'modified_at': utils.utcnow()} for number, key in enumerate(sorted(keys))])


def walk(store, delimiter, most, prefix=''):
    """(keys, prefixes) of all pages."""
    keys, prefixes, after = [], [], ''
    while after is not None:
        page = store.page('p', 'bucket', prefix, delimiter, after, most)
        assert len(page.rows) + len(page.prefixes) <= most
        keys += [row.key for row in page.rows]
        prefixes += page.prefixes
        after = page.next
    return keys, prefixes


def test_a_page_of_prefixes_reads_few_rows(store):
    """Each prefix cost a page of rows: a thousand of them a million rows, and 18 seconds of a processor."""
    fill(store, *(f'{folder:04}/{number:02}' for folder in range(300) for number in range(10)))
    limits = []

    @sa.event.listens_for(store._db.engine, 'before_cursor_execute')
    def note(conn, cursor, statement, parameters, context, many):
        if 'LIMIT' in statement:
            limits.append(parameters[-2])            # SQLite has an offset behind it
    page = store.page('p', 'bucket', '', '/', '', 200)
    assert len(page.prefixes) == 200 and page.next
    assert 200 <= len(limits) < 210 and sum(limits) < 450


@pytest.mark.parametrize('most', (1, 2, 3, 7, 100))
def test_all_pages_together_are_all_that_is_there(store, most):
    names = ['a', 'a/1', 'a/2', 'b', 'c/1', 'c/d/1', 'c/d/2', 'd', 'e', 'f', 'g', 'h/1', 'i', 'j']
    fill(store, *names)
    assert walk(store, '', most) == (names, [])
    assert walk(store, '/', most) == (['a', 'b', 'd', 'e', 'f', 'g', 'i', 'j'], ['a/', 'c/', 'h/'])
    assert walk(store, '/', most, 'c/') == (['c/1'], ['c/d/'])


def test_a_page_after_a_common_prefix_begins_after_its_keys(store):
    """A client that went on after the last prefix got the prefix again, and NextMarker was no key and no prefix."""
    fill(store, 'a', 'a/', 'a/1', 'a/b/1', 'a/b/2', 'c/1')

    def page(prefix, after, most=9, **given):
        found = store.page('p', 'bucket', prefix, '/', after, most, **given)
        return [row.key for row in found.rows], found.prefixes, found.next
    assert page('', '', 2) == (['a'], ['a/'], 'a/')
    assert page('', 'a/') == ([], ['c/'], None)
    assert page('', 'a/', skip=False) == ([], ['a/', 'c/'], None)
    assert page('a/', 'a/') == (['a/1'], ['a/b/'], None)             # here it is a key
    assert page('a/', 'a/b/') == ([], [], None)
    assert page('', 'a/b/') == ([], ['a/', 'c/'], None)


@pytest.mark.parametrize('most', (1, 2, 3, 100))
def test_keys_with_the_last_character_are_listed_once(store, most):
    last = chr(0x10ffff)
    names = ['a', f'b/{last}', f'b/{last}1', f'b/{last}{last}', f'c{last}', f'c{last}x', last, f'{last}1', 256 * last]
    fill(store, *names)
    names.sort()
    assert walk(store, '', most) == (names, [])
    assert walk(store, '', most, 'b/') == ([f'b/{last}', f'b/{last}1', f'b/{last}{last}'], [])
    assert walk(store, '', most, f'c{last}') == ([f'c{last}', f'c{last}x'], [])
    assert walk(store, '/', most) == ([each for each in names if '/' not in each], ['b/'])


def slowly(arrived, go_on):
    yield b'a'
    arrived.set()
    assert go_on.wait(30)


def put(store, key, size, pieces=(b'a',)):
    """Write an object that is said to be so large."""
    return store.put('p', 'bucket', key, iter(pieces), size, {}, lambda: 'e')


def test_running_uploads_count_towards_the_quota(store):
    """As many at once as there are threads were on the disk before the first of them was counted."""
    arrived, go_on = threading.Event(), threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        first = pool.submit(put, store, 'a', 600 * MIB, slowly(arrived, go_on))
        assert arrived.wait(30)
        upload = store.begin_upload('p', 'bucket', 'c', {})
        try:
            with pytest.raises(errors.S3Error, match='bytes'):
                put(store, 'b', 600 * MIB)
            with pytest.raises(errors.S3Error, match='bytes'):
                store.put_part('p', 'bucket', 'c', upload, 1, iter([b'b']), 600 * MIB, lambda: '00')
            put(store, 'b', MIB)
        finally:
            go_on.set()
        assert first.result(30).size == 600 * MIB
    store.remove('p', 'bucket', ['a'])
    put(store, 'b', 990 * MIB)


def test_interrupted_uploads_do_not_count_towards_the_quota(store):
    def broken():
        yield b'a'
        raise errors.S3Error('IncompleteBody', 'It broke off.')
    for _attempt in range(3):
        with pytest.raises(errors.S3Error, match='broke off'):
            put(store, 'a', 900 * MIB, broken())
    put(store, 'a', 900 * MIB)


def test_an_upload_is_completed_by_one_request_at_a_time(store):
    """Each wrote a copy of all its parts, however many there were."""
    upload, etag = store.begin_upload('p', 'bucket', 'a', {}), '0' * 32
    store.put_part('p', 'bucket', 'a', upload, 1, iter([b'a' * MIB]), MIB, lambda: etag)
    arrived, go_on = threading.Event(), threading.Event()

    def watched(number, pieces):
        arrived.set()
        assert go_on.wait(30)
        yield from pieces
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        first = pool.submit(store.complete, 'p', 'bucket', 'a', upload, [(1, etag)], watched, None)
        assert arrived.wait(30)
        try:
            with pytest.raises(errors.S3Error) as refused:
                store.complete('p', 'bucket', 'a', upload, [(1, etag)], lambda number, pieces: pieces, None)
        finally:
            go_on.set()
        assert (refused.value.code, refused.value.status) == ('SlowDown', 503)
        assert first.result(30).size == MIB


def test_a_repeated_completion_returns_the_object(store):
    """A client that missed the response was told that the upload does not exist."""
    upload, etag = store.begin_upload('p', 'bucket', 'a', {}), '0' * 32
    store.put_part('p', 'bucket', 'a', upload, 1, iter([b'a']), 1, lambda: etag)

    def complete(*wanted, key='a'):
        return store.complete('p', 'bucket', key, upload, wanted, lambda number, pieces: pieces, None)
    made = complete((1, etag))
    assert complete((1, etag)) == made
    for wanted in ([], [(1, '1' * 32)], [(1, 'no digits')], [(1, etag), (2, etag)]):
        with pytest.raises(errors.S3Error, match='does not exist'):
            complete(*wanted)
    with pytest.raises(errors.S3Error, match='upload does not exist'):
        complete((1, etag), key='b')
    put(store, 'a', 1)
    with pytest.raises(errors.S3Error, match='upload does not exist'):
        complete((1, etag))


@pytest.mark.parametrize('number, raised', [(errno.EIO, OSError), (errno.ENOSPC, exception.InsufficientStorage)])
def test_only_a_full_disk_is_reported_as_full(store, number, raised):
    def broken():
        yield b'a'
        raise OSError(number, 'broken')
    with pytest.raises(raised):
        put(store, 'a', 1, broken())
    assert list(store._contents._directory.glob('*/*')) == []


@pytest.mark.parametrize('aborted, code', [(True, 'NoSuchUpload'), (False, 'InvalidPart')])
def test_a_part_that_is_removed_during_the_completion_is_reported(store, aborted, code):
    """The answer was that the store had no free space."""
    upload, etag = store.begin_upload('p', 'bucket', 'a', {}), '0' * 32

    def part(number):
        store.put_part('p', 'bucket', 'a', upload, number, iter([b'a' * 5 * MIB]), 5 * MIB, lambda: etag)
    for number in (1, 2):
        part(number)

    def watched(number, pieces):
        if aborted and number == 1:
            store.abort('p', 'bucket', 'a', upload)
        elif number == 1:
            part(2)
        yield from pieces
    with pytest.raises(errors.S3Error) as refused:
        store.complete('p', 'bucket', 'a', upload, [(1, etag), (2, etag)], watched, None)
    assert refused.value.code == code


def test_a_lost_part_is_not_blamed_on_the_client(store):
    upload, etag = store.begin_upload('p', 'bucket', 'a', {}), '0' * 32
    row = store.put_part('p', 'bucket', 'a', upload, 1, iter([b'a']), 1, lambda: etag)
    store._contents.remove(row.file)
    with pytest.raises(FileNotFoundError):
        store.complete('p', 'bucket', 'a', upload, [(1, etag)], lambda number, pieces: pieces, None)
