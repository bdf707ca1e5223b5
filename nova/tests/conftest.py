"""What holds for a whole test session, before anything else is imported: the thread model, no cloud of the caller's.

SQLite's databases of all tests of a process share what SQLAlchemy has compiled: each test has databases of its own, and
would compile every statement anew. None of them need outlive a power cut. Garbage is looked for as in a daemon.
``nova.tests.limits`` bounds the time of a test.
"""
import gc
import os

import pytest

pytest.register_assert_rewrite('nova.tests.support')

from nova.runtime import concurrency

concurrency.setup()

# Whoever uses the quickstart's cloud has exported OS_CLOUD; clients that tests start must not go there.
for _name in [name for name in os.environ if name.startswith('OS_')]:
    del os.environ[_name]


def _hasten_sqlite():
    import sqlalchemy as sa
    from sqlalchemy import util
    from sqlalchemy.dialects.sqlite import pysqlite

    from nova.db import engine

    # what is compiled is found by its statement and its dialect
    pysqlite.dialect.__eq__ = lambda self, other: type(self) is type(other)
    pysqlite.dialect.__hash__ = lambda self: hash(type(self))
    shared, make = util.LRUCache(4000), engine._sqlite_engine

    def made(*args):
        found = make(*args)
        found._compiled_cache = shared
        sa.event.listen(found, 'connect', lambda connection, _record: connection.execute('PRAGMA synchronous=OFF'))
        return found
    engine._sqlite_engine = made


_hasten_sqlite()


def pytest_configure(config):
    from nova.tests import limits
    limits.register(config)


def pytest_collection_finish():
    gc.freeze()                          # modules stay until the end
