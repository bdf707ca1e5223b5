"""Small things."""
import threading

import pytest

from nova import utils


def taken(event):
    with utils.taken(event) as found:
        return found


def test_set_event_is_taken_once():
    event = threading.Event()
    assert not taken(event)
    event.set()
    assert taken(event) and not taken(event)


def test_event_stays_set_if_its_handling_fails():
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


def test_event_set_during_handling_is_taken_next_time():
    event = threading.Event()
    event.set()
    with utils.taken(event):
        event.set()
    assert taken(event)
