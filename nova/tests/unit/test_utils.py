"""Small things."""
import threading

from nova import utils


def test_what_was_set_is_taken_once():
    event = threading.Event()
    assert not utils.taken(event)
    event.set()
    assert utils.taken(event) and not utils.taken(event)
