"""Online data migrations: convert rows of an older release in batches while the services run.

The conductors run them in the background; ``nova-manage db online_data_migrations`` runs them immediately. A migration
stays in ROWS as long as an upgrade from a release that needs it is supported. Concurrent runs are safe, because
converted rows are skipped.
"""
import dataclasses
import logging
import time
import typing
from typing import Any

from nova.db import engine
from nova.db.cells import rows as cell_rows
from nova.db.cells.cells import Cells
from nova.db.tables.api import host_mappings

LOG = logging.getLogger(__name__)

BATCH = 50                   # maximum number of rows in a batch
IDLE_INTERVAL_S = 3600                # pause after a run that found nothing to convert
BACKGROUND_S = 60            # interval of the background runs


@dataclasses.dataclass(frozen=True)
class Migration:
    """
    find     function(api_db, cells, limit) -> at most ``limit`` items to convert
    convert  function(api_db, cells, found) -> number of converted items; an item is converted completely or not at all
    """

    name: str
    find: typing.Callable[..., Any]
    convert: typing.Callable[..., Any]


# ---- hosts that reported before hosts were mapped to cells

def unmapped_hosts(api_db: engine.Database, cells: Cells, limit: int | None) -> list[tuple[str, str]]:
    """Return [(host, cell uuid)] of at most ``limit`` (None: all) compute hosts without a mapping to a cell."""
    with api_db.reader() as conn:
        known = cell_rows.cells_of_hosts(conn)
    answers, _down = cells.read(lambda conn: cell_rows.reporting(conn, by_service=True))
    return [(host, cell.uuid) for cell, hosts in answers for host in hosts if host not in known][:limit]


def _map_hosts(api_db: engine.Database, cells: Cells, found: list[tuple[str, str]]) -> int:
    api_db.run(engine.insert_many_ignore, host_mappings,
               [{'host': host, 'cell_uuid': cell_uuid} for host, cell_uuid in found])
    return len(found)


ROWS = (Migration('map_hosts_to_cells', unmapped_hosts, _map_hosts),)


def run_batch(migration: Migration, api_db: engine.Database, cells: Cells, limit: int | None = None) -> tuple[int, int]:
    """Run one batch of a migration; return the numbers of (found, converted) items.

    :param limit: size of the batch, or None for BATCH
    """
    limit = BATCH if limit is None else limit
    found = migration.find(api_db, cells, limit)
    return len(found), migration.convert(api_db, cells, found) if found else 0


def unfinished(api_db: engine.Database, cells: Cells) -> list[str]:
    """Return the names of the migrations that have rows to convert."""
    return [migration.name for migration in ROWS if migration.find(api_db, cells, 1)]


class Background:
    """Runs one batch of each migration in turn; ``counts`` is {name: number of converted rows}."""

    def __init__(self, api_db: engine.Database, cells: Cells) -> None:
        self._api_db, self._cells = api_db, cells
        self.counts = {migration.name: 0 for migration in ROWS}
        self._rests_until: dict[str, float] = {}

    def run(self) -> None:
        now = time.monotonic()
        for migration in ROWS:
            if self._rests_until.get(migration.name, 0) > now:
                continue
            try:
                found, done = run_batch(migration, self._api_db, self._cells)
            except Exception:
                LOG.exception('Online data migration %s failed. The next background run tries again.', migration.name)
                continue
            self.counts[migration.name] += done
            if not found:
                self._rests_until[migration.name] = now + IDLE_INTERVAL_S
            elif done:
                LOG.info('Online data migration %s converted %d rows', migration.name, done)
