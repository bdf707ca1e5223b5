"""Callbacks before and after the commit of a database transaction; nova/db/engine.py calls them.

This module is outside nova.db, so that code that must not import nova.db can register callbacks.
"""
import collections
import functools
import threading
import typing

from nova.runtime import queues

Callback = typing.Callable[[], object]

AFTER = 'nova_after'       # key in Connection.info; value: [(function, otherwise)], see ``after``
BEFORE = 'nova_before'     # key in Connection.info; value: {function: the set ``words`` that the function gets}


class Connection(typing.Protocol):
    """A database connection."""

    @property
    def info(self) -> dict[typing.Any, typing.Any]: ...


def after(conn: Connection, function: Callback, otherwise: Callback | None = None) -> None:
    """Call ``function()`` after the commit of a transaction of ``writer()``; not after a rollback.

    :param otherwise: called instead after a rollback; it must not fail
    """
    conn.info[AFTER].append((function, otherwise))


def before(conn: Connection, function: typing.Callable[[typing.Any, set[str]], object], word: str) -> None:
    """Call ``function(conn, words)`` once, as the last step of a transaction of ``writer()`` before its commit.

    :param word: member of the set ``words``, which contains the words of all calls of ``before`` with this function
    """
    conn.info[BEFORE].setdefault(function, set()).add(word)


class OrderedCallbacks:
    """Calls functions after commits; it calls the functions of one key in the order of the commits.

    The caller of ``add`` holds a row lock of the key, so the order of ``add`` is the order of the commits. Without this
    class, a thread that commits first could call its function last.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, collections.deque[list[Callback | None]]] = {}
        queues.watch(queues.CALLBACKS, self, lambda callbacks: queues.Size(callbacks.waiting, 0))

    @property
    def waiting(self) -> int:
        """Return the number of keys with pending functions."""
        return len(self._waiting)

    def add(self, conn: Connection, key: str, function: Callback) -> None:
        """Call ``function()`` after the transaction is committed and all earlier transactions of the key have ended.

        :param function: it must not block or fail
        """
        place: list[Callback | None] = [None]          # the function to call; None until the transaction has ended
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
    """Do nothing; replaces the function of a transaction that was rolled back."""
