"""Batches of concurrent writes of many hosts in one transaction. A failed write does not fail the other writes."""
import collections.abc
import typing

from nova import exception
from nova.conductor.cell_services import Connection
from nova.db import engine
from nova.runtime import batching

MAX_WRITES = 100      # maximum writes in one transaction

Result = typing.TypeVar('Result')


class Write(batching.Item, typing.Generic[Result]):
    """One write of a batch.

    :param key: sort key, such as the id of the row; all conductors write in this order to avoid deadlocks
    :param function: function(conn) -> its result; it runs again after a deadlock
    """

    result: Result               # set when the transaction has ended

    def __init__(self, key: int, function: collections.abc.Callable[[Connection], Result]) -> None:
        super().__init__()
        self.key, self.function = key, function


class WriteBatches:
    """Combines concurrent writes to one database into batches.

    :param db: the database that is written to
    """

    def __init__(self, db: engine.Database) -> None:
        self._db = db
        self._batches = batching.Batch(self.write, MAX_WRITES)

    def run(self, key: int, function: collections.abc.Callable[[Connection], Result]) -> Result:
        """Run ``function(conn)`` in a transaction, with retries after deadlocks, together with concurrent writes.

        :returns: result of the function
        """
        write = Write(key, function)
        self._batches.run(write)
        return write.result

    @property
    def working(self) -> bool:
        """Whether a transaction is in progress."""
        return self._batches.working

    @property
    def waiting(self) -> int:
        """Number of writes that wait for the transaction in progress."""
        return self._batches.waiting

    def write(self, writes: list[Write[typing.Any]]) -> None:
        """Run a batch in one transaction."""
        if len(writes) == 1:
            writes[0].result = self._db.run(writes[0].function)
        else:
            self._db.run(_write_all, sorted(writes, key=lambda write: write.key))


def _write_all(conn: Connection, writes: list[Write[typing.Any]]) -> None:
    for write in writes:
        savepoint, write.error = conn.begin_nested(), None
        try:
            write.result = write.function(conn)
        except exception.NovaException as error:  # this error fails only this write; other errors fail the whole batch
            savepoint.rollback()
            write.error = error
        else:
            savepoint.commit()
