"""What comes right before the commit of a database transaction, and what follows it; nova/db/engine.py calls it.

It stands here for those who record something in a transaction of others and know no database.
"""
import collections
import functools
import threading
import typing

Callback = typing.Callable[[], object]

AFTER = 'nova_after'       # in the info of a connection: [(function, otherwise)] of its transaction
BEFORE = 'nova_before'     # the same: {function: what it is called with}


class Connection(typing.Protocol):
    """A database connection."""

    @property
    def info(self) -> dict[typing.Any, typing.Any]: ...


def after(conn: Connection, function: Callback, otherwise: Callback | None = None) -> None:
    """Call ``function()`` when the transaction of a writer() has been committed; never when it is not.

    :param otherwise: is called instead when it is not; it must not fail
    """
    conn.info[AFTER].append((function, otherwise))


def before(conn: Connection, function: typing.Callable[[typing.Any, set[str]], object], word: str) -> None:
    """Call ``function(conn, words)`` once, as the last thing of the transaction of a writer() before its commit.

    :param word: the function gets all that were given in the transaction
    """
    conn.info[BEFORE].setdefault(function, set()).add(word)


class Order:
    """Calls functions after commits, those of one key in the order in which they were added.

    Who adds holds the lock of a row of the key, so this is the order of the commits. Without it the threads that have
    committed could overtake each other.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, collections.deque[list[Callback | None]]] = {}

    @property
    def waiting(self) -> int:
        """Keys with functions that are not called yet."""
        return len(self._waiting)

    def add(self, conn: Connection, key: str, function: Callback) -> None:
        """Call ``function()`` when the transaction is committed and all before it are over.

        :param function: it must not block or fail
        """
        place: list[Callback | None] = [None]          # what to call, once it is known
        with self._lock:
            self._waiting.setdefault(key, collections.deque()).append(place)
        after(conn, functools.partial(self._settle, key, place, function),
              functools.partial(self._settle, key, place, _nothing))

    def _settle(self, key: str, place: list[Callback | None], function: Callback) -> None:
        with self._lock:
            place[0] = function
            waiting = self._waiting[key]
            while waiting and (first := waiting[0][0]) is not None:
                waiting.popleft()
                first()
            if not waiting:
                del self._waiting[key]


def _nothing() -> None:
    """In the place of what was rolled back."""
