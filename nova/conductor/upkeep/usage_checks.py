"""Usage checks: compare recorded claims and quota usage with the actual servers."""
import logging
import time
from typing import Any

from nova import states
from nova.conductor.cell_services import CellServices
from nova.db.moves import migrations as server_migrations
from nova.db.placement import claims
from nova.db.placement import pci_devices
from nova.db.projects import quotas
from nova.db.servers import instances
from nova.db.servers import mappings
from nova.runtime import metrics

LOG = logging.getLogger(__name__)

PAGE = 1000
SIZE_CHECK_INTERVAL_S = 600        # seconds between two checks of the sizes of all servers; see doubt_sizes
MIN_MISCOUNT_AGE_S = 90            # seconds between two runs of count_sizes, in which a request has ended its writes

Sizes = dict[str, tuple[int, int]]       # {instance uuid: (vCPUs, MiB of memory)}


class ClaimCheck:
    """Compares the recorded usage of compute nodes with the servers on them.

    drift  number of corrected differences; should stay 0
    """

    def __init__(self, services: CellServices) -> None:
        self._cell_db = services.cell_db
        self.drift = 0

    def audit(self) -> list[dict[str, Any]]:
        """Correct differences, and count them in ``drift``; return the differences."""
        mended = [*self._cell_db.run(claims.audit), *self._cell_db.run(pci_devices.audit)]
        self.drift += len(mended)
        metrics.USAGE_AUDITS.inc()
        metrics.USAGE_DRIFT.inc(len(mended))
        return mended


class QuotaCheck:
    """Compares quota usage with the servers of the cell."""

    def __init__(self, services: CellServices) -> None:
        self._cell_uuid, self._cell_db, self._api_db = services.cell.uuid, services.cell_db, services.api_db
        self._miscounted: list[str] = []    # uuids of servers with a wrong size in the quota at the last check
        self._sizes_due = 0.0               # time of the next check of all servers, in monotonic seconds

    def count_sizes(self) -> int:
        """Correct the sizes of servers, and of open moves, in the quota usage; return the number of corrections.

        The API database and the cell's database differ only between the two writes of a request, or after a failure
        between these writes. Only a difference that two successive checks find is corrected.
        """
        try:
            return self._mend_sizes() if self._miscounted else self._check_sizes()
        except Exception:
            self.doubt_sizes()
            raise

    def _check_sizes(self) -> int:
        if time.monotonic() < self._sizes_due:
            return 0
        # set before the check, so that a call of doubt_sizes() during the check has an effect
        self._sizes_due = time.monotonic() + SIZE_CHECK_INTERVAL_S
        marker = ''
        wrong: list[Any] = []
        while True:
            with self._api_db.reader() as conn:
                counted = mappings.sizes(conn, self._cell_uuid, marker, PAGE)
            if not counted:
                break
            wrong.extend(self._wrong_sizes(counted))
            marker = max(counted)
        self._miscounted = wrong
        return 0

    def doubt_sizes(self) -> None:
        """Request a check of all sizes, after a database was unavailable."""
        self._sizes_due = 0.0

    def _wrong_sizes(self, counted: Sizes) -> Sizes:
        with self._cell_db.reader() as conn:
            needed = server_migrations.needs_many(conn, list(counted))
        return {uuid: size for uuid, size in needed.items() if counted[uuid] != size}

    def _mend_sizes(self) -> int:
        suspects, self._miscounted = self._miscounted[:PAGE], self._miscounted[PAGE:]
        with self._api_db.reader() as conn:
            counted = mappings.sizes_of(conn, self._cell_uuid, suspects)
        wrong = self._wrong_sizes(counted)
        for uuid, size in wrong.items():
            LOG.warning('Corrected the size of server %s in the quota usage.', uuid)
            self._api_db.run(quotas.set_size, uuid, *size)
        return len(wrong)

    def count_soft_deleted(self) -> int:
        """Exclude the soft-deleted servers, and no others, from the quota usage; return the number of corrections.

        The API database and the cell's database differ only if a process failed between its writes to both.
        """
        with self._api_db.reader() as conn:
            queued = mappings.queued(conn)
        with self._cell_db.reader() as conn:
            soft = {row['uuid']: row['task_state'] for row in instances.in_state(conn, states.SOFT_DELETED)}
            others = instances.get_many(conn, list(queued - soft.keys()))
        wrong = {uuid: True for uuid, task_state in soft.items() if task_state is None and uuid not in queued}
        wrong.update({uuid: False for uuid, row in others.items() if row['task_state'] is None})
        for uuid, value in wrong.items():
            LOG.warning('Server %s is %s the quota usage again.', uuid, 'excluded from' if value else 'included in')
            self._api_db.run(mappings.set_queued, uuid, value)
        return len(wrong)
