"""What tests share with nova/tests/perf/test_boot_budget.py."""
import collections
import threading
import time

import pytest
import sqlalchemy as sa

from nova.db.cells import cells
from nova.rpc import inprocess
from nova.scheduler import host_table

# Of one boot with one port of a network, without what goes by the clock. Measured: 26, 6 and 6; one of the
# statements is the record in the audit log, in the transaction that reserves, and one the revision of networks, in the
# one that makes the port.
STATEMENTS, WRITE_TRANSACTIONS, MESSAGES = 26, 6, 6
# beginnings of the names of threads that work by the clock, not for the boot
PERIODIC = ('conductor-', 'scheduler-', 'network-', 'compute-', 'heartbeats')
# No service reports meanwhile, and none counts as down because of that.
QUIET = {'report_interval': 3600, 'service_down_time': 86400, 'update_resources_interval': 3600,
         'conductor__reconcile_interval': 300}
# What whoever comes first looks at again when so many seconds have passed, once for all that come after.
BY_THE_CLOCK = ((host_table, 'WINDOW_S'), (host_table, 'FULL_READ_S'), (cells, 'REFRESH_S'))


class Counter:
    """Counts while it is open, in all threads; what periodic tasks do, by the thread's name, is left out."""

    def __init__(self, monkeypatch, *databases):
        self.counts, self.seen, self.open = collections.Counter(), [], False
        for database in databases:
            sa.event.listen(database.engine, 'before_cursor_execute', self._statement)
            sa.event.listen(database.engine, 'commit', lambda _conn: self._count('write transactions', 'COMMIT'))
        send = inprocess.Driver.send

        def counted(driver, target, ctxt, message, *args, **kwargs):
            self._count('messages', f"{target.topic}.{message['method']}")
            return send(driver, target, ctxt, message, *args, **kwargs)
        monkeypatch.setattr(inprocess.Driver, 'send', counted)

    def _statement(self, _conn, _cursor, statement, *_more):
        if not statement.startswith('PRAGMA'):
            self._count('statements', statement)

    def _count(self, what, detail):
        name = threading.current_thread().name
        if self.open and not name.startswith(PERIODIC):
            self.counts[what] += 1
            self.seen.append(f'{name}: {detail}')

    def of(self, function, ended):
        """Counts of ``function``, and of all that follows until ``ended`` says so and a moment has passed."""
        self.counts.clear()
        self.seen.clear()
        self.open = True
        function()
        while True:
            time.sleep(0.3)              # nobody asks meanwhile: the question would count
            self.open = False
            if ended():
                return dict(self.counts)
            self.open = True


@pytest.fixture
def still(monkeypatch):
    """The clocks stand: what a statement is made for is the boot, on the slowest machine as well."""
    for module, name in BY_THE_CLOCK:
        monkeypatch.setattr(module, name, float('inf'))
