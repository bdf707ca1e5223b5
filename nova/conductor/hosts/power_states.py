"""Power state reports of hosts: concurrent reports are compared and written as one batch.

A host waits for the answer before its next task on a server, so a stale state is never written. A batch does not wait
for further reports: reports that arrive during a write are in the next batch.
"""
import collections
import collections.abc
import logging

from nova import states
from nova.conductor.cell_services import Connection
from nova.conductor.cell_services import Context
from nova.conductor.cell_services import Row
from nova.db import engine
from nova.db.servers import console_tokens
from nova.db.servers import instances
from nova.runtime import batching

LOG = logging.getLogger(__name__)

MAX_REPORTS = 500      # maximum reports in a transaction

# Power states in which console tokens stay valid; in other states another guest may get the port of the console.
WITH_CONSOLE = frozenset({states.RUNNING, states.POWER_PAUSED})


class Report(batching.Item):
    """Power states reported by one host: {uuid: power state}."""

    def __init__(self, host: str, found: dict[str, int]) -> None:
        super().__init__()
        self.host, self.found = host, found


class PowerStates:
    """Collects reports of power states in batches, and writes the batches.

    :param db: Database of the cell
    """

    def __init__(self, db: engine.Database) -> None:
        self._db = db
        self._batches = batching.Batch(self.write, MAX_REPORTS)

    def report_power_states(self, ctx: Context | None, host: str, states: dict[str, int]) -> None:
        """Store {uuid: power state} of the host's servers that have no task in progress; return after the write."""
        self._batches.run(Report(host, states))

    @property
    def waiting(self) -> int:
        """Number of reports that wait for the transaction in progress."""
        return self._batches.waiting

    def write(self, reports: collections.abc.Sequence[Report]) -> None:
        """Write these reports in one transaction, or nothing if no state has changed."""
        found = {(uuid, report.host): state for report in reports for uuid, state in report.found.items()}
        with self._db.reader() as conn:
            changed = _changed(instances.power_state_rows(conn, {uuid for uuid, _host in found}), found)
        if changed:
            self._db.run(_write, sorted(row['uuid'] for row, *_ in changed), found)


def _changed(rows: collections.abc.Iterable[Row], found: dict[tuple[str, str], int]) -> list[tuple[Row, str, int]]:
    """Return [(row, new vm state, new power state)] of the changed servers."""
    idle = [(row, found[row['uuid'], row['host']]) for row in rows
            if row['task_state'] is None and (row['uuid'], row['host']) in found]
    after = [(row, states.vm_state_for(row['vm_state'], state), state) for row, state in idle]
    return [(row, vm_state, state) for row, vm_state, state in after
            if (vm_state, state) != (row['vm_state'], row['power_state'])]


def _write(conn: Connection, uuids: list[str], found: dict[tuple[str, str], int]) -> None:
    """Compare again with locked rows, because a task may have begun, and write the changes."""
    same = collections.defaultdict(list)
    for row, vm_state, state in _changed(instances.power_state_rows(conn, uuids, lock=True), found):
        same[vm_state, state].append(row['uuid'])
        if vm_state != row['vm_state']:
            LOG.info('Server %s is %s: its guest has power state %s.', row['uuid'], vm_state, state)
    for (vm_state, state), some in same.items():
        instances.set_power_states(conn, some, vm_state, state)
    if ended := [uuid for (_, state), some in same.items() if state not in WITH_CONSOLE for uuid in some]:
        console_tokens.delete(conn, *ended)
