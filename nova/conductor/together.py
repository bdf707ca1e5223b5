"""Writes that come at a moment, of many hosts, in one transaction; each is refused by itself."""
from nova import exception
from nova.runtime import batching

MOST = 100                   # writes of one transaction


class Write(batching.Item):
    """
    :param key: writes are done in the order of their keys, by all conductors, so that none waits for one that waits
                for it
    :param function: function(conn) -> its result; run again when the transaction lost a deadlock
    """

    def __init__(self, key, function):
        super().__init__()
        self.key, self.function, self.result = key, function, None


class Together:
    """
    :param db: Database
    """

    def __init__(self, db):
        self._db = db
        self._gathering = batching.Gathering(self._work, MOST)

    def run(self, key, function):
        """As Database.run does it, with what others have brought meanwhile."""
        write = Write(key, function)
        self._gathering.bring(write)
        return write.result

    def _work(self, writes):
        if len(writes) == 1:
            writes[0].result = self._db.run(writes[0].function)
        else:
            self._db.run(_write_all, sorted(writes, key=lambda write: write.key))


def _write_all(conn, writes):
    for write in writes:
        savepoint, write.error = conn.begin_nested(), None
        try:
            write.result = write.function(conn)
        except exception.NovaException as error:         # of this one; any other ends them all
            savepoint.rollback()
            write.error = error
        else:
            savepoint.commit()
