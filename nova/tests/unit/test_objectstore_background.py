"""Digests that are counted beside the thread that has the bytes."""
import hashlib
import os
import threading
import time

import pytest

from nova.objectstore import background_calls


@pytest.mark.parametrize('sizes', [[], [1], [65536] * 50, [background_calls.BATCH * 3, 7], [1] * 1000])
def test_background_calls_run_in_the_order_of_submission(sizes):
    pieces, digest, seen = [os.urandom(size) for size in sizes], hashlib.sha256(), []
    work = background_calls.BackgroundCalls()
    for number, piece in enumerate(pieces):
        work.add(digest.update, piece)
        work.then(seen.append, number)
    work.end()
    assert digest.digest() == hashlib.sha256(b''.join(pieces)).digest() and seen == list(range(len(pieces)))


def test_an_error_ends_the_count_before_its_end():
    """A wrong signature of a chunk must not be found by nobody because other bytes came behind it."""
    def wrong():
        raise ValueError('wrong')
    work = background_calls.BackgroundCalls()
    work.then(wrong)
    with pytest.raises(ValueError, match='wrong'):
        for _piece in range(4):
            work.add(hashlib.sha256().update, bytes(background_calls.BATCH))
        work.end()
    small = background_calls.BackgroundCalls()
    small.then(wrong)
    with pytest.raises(ValueError, match='wrong'):
        small.end()


def test_large_contents_are_counted_in_another_thread_one_batch_at_a_time():
    threads, running, most = set(), [], []

    def count(_piece):
        threads.add(threading.current_thread())
        running.append(1)
        most.append(len(running))
        time.sleep(0.002)
        running.pop()
    work = background_calls.BackgroundCalls()
    for _piece in range(8):
        work.add(count, bytes(background_calls.BATCH))
    work.end()
    assert threading.current_thread() not in threads and max(most) == 1 and len(most) == 8


def test_a_batch_of_small_pieces_has_a_bound():
    """A body that came byte by byte was a list of a million pieces, of some 400 bytes each."""
    work, most = background_calls.BackgroundCalls(), 0
    for _piece in range(3 * background_calls.CALLS):
        work.add(hashlib.sha256().update, b'x')
        most = max(most, len(work._batch))
    work.end()
    assert most < background_calls.CALLS
