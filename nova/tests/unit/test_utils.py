"""Small things."""
import threading

import pytest

from nova import utils


def taken(event):
    with utils.taken(event) as found:
        return found


def test_what_was_set_is_taken_once():
    event = threading.Event()
    assert not taken(event)
    event.set()
    assert taken(event) and not taken(event)


def test_what_nothing_could_be_done_about_is_not_taken():
    event = threading.Event()
    event.set()
    with pytest.raises(OSError), utils.taken(event) as found:
        assert found
        raise OSError
    assert taken(event)
    with pytest.raises(OSError), utils.taken(event) as found:
        assert not found
        raise OSError
    assert not taken(event)


def test_what_is_set_meanwhile_is_taken_the_next_time():
    event = threading.Event()
    event.set()
    with utils.taken(event):
        event.set()
    assert taken(event)
