"""Online data migrations: convert rows of an older release in batches while the services run.

The conductors run them in the background, and ``nova-manage db online_data_migrations`` runs them at once. A migration
stays in ROWS as long as an upgrade from a release that needs it is supported. Concurrent runs are safe, because
converted rows are skipped.
"""
from __future__ import annotations

import dataclasses
import logging
import time
import typing
from typing import Any, TYPE_CHECKING

import sqlalchemy as sa

from nova.db import engine
from nova.db.cells import rows as cell_rows
from nova.db.tables.api import host_mappings
from nova.db.tables.api import instance_mappings
from nova.db.ec2 import ids
from nova.db.tables.api import request_specs as specs
from nova.db.tables.ec2 import ec2_ids

if TYPE_CHECKING:
    from nova.db.cells.cells import Cell, Cells

LOG = logging.getLogger(__name__)

BATCH = 50                   # rows of one batch
REST_S = 3600                # pause after a run that found nothing to convert
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
    """Return [(host, cell uuid)] of at most ``limit`` compute hosts without a mapping. None means no limit."""
    with api_db.reader() as conn:
        known = cell_rows.cells_of_hosts(conn)
    answers, _down = cells.scatter(_compute_hosts)
    return [(host, cell.uuid) for cell, hosts in answers for host in hosts if host not in known][:limit]


def _compute_hosts(cell: Cell) -> dict[str, str]:
    with cell.db.reader() as conn:
        return cell_rows.reporting(conn, by_service=True)


def _map_hosts(api_db: engine.Database, cells: Cells, found: list[tuple[str, str]]) -> int:
    api_db.run(_insert_mappings, [{'host': host, 'cell_uuid': cell_uuid} for host, cell_uuid in found])
    return len(found)


def _insert_mappings(conn: sa.Connection, rows: list[dict[str, str]]) -> None:
    engine.insert_many_ignore(conn, host_mappings, rows)


# ---- request specs that are older than instance categories

def _specs_without_category(api_db: engine.Database, cells: Cells, limit: int) -> list[Any]:
    """Return [(instance uuid, category)]."""
    with api_db.reader() as conn:
        return list(conn.execute(
            sa.select(specs.c.instance_uuid, instance_mappings.c.category)
            .join_from(specs, instance_mappings, instance_mappings.c.instance_uuid == specs.c.instance_uuid)
            .where(sa.cast(specs.c.spec, sa.Text).not_like('%"category"%')).limit(limit)))


def _give_categories(api_db: engine.Database, cells: Cells, found: list[Any]) -> int:
    return api_db.run(_store_categories, {uuid: category for uuid, category in found})


def _store_categories(conn: sa.Connection, categories: dict[str, str]) -> int:
    rows = conn.execute(sa.select(specs).where(specs.c.instance_uuid.in_(categories)).with_for_update()).all()
    for row in rows:
        row.spec['nova_object.data']['category'] = categories[row.instance_uuid]
    if rows:
        conn.execute(sa.update(specs).where(specs.c.instance_uuid == sa.bindparam('uuid')),
                     [{'uuid': row.instance_uuid, 'spec': row.spec} for row in rows])
    return len(rows)


# ---- ids of the EC2 API without the column ``digits``, which older releases did not fill

def _ids_without_digits(api_db: engine.Database, cells: Cells, limit: int) -> list[Any]:
    """Return [(number, uuid)]."""
    with api_db.reader() as conn:
        query = sa.select(ec2_ids.c.id, ec2_ids.c.uuid).where(ec2_ids.c.digits.is_(None))
        return list(conn.execute(query.limit(limit)))


def _give_digits(api_db: engine.Database, cells: Cells, found: list[Any]) -> int:
    def write(conn: sa.Connection) -> int:
        conn.execute(sa.update(ec2_ids).where(ec2_ids.c.id == sa.bindparam('number')),
                     [{'number': number, 'digits': ids.digits_of(uuid)} for number, uuid in found])
        return len(found)
    return api_db.run(write)


ROWS = (
    Migration('map_hosts_to_cells', unmapped_hosts, _map_hosts),
    Migration('request_spec_categories', _specs_without_category, _give_categories),
    Migration('ec2_id_digits', _ids_without_digits, _give_digits),
)


def run_batch(migration: Migration, api_db: engine.Database, cells: Cells, limit: int | None = None) -> tuple[int, int]:
    """Run one batch of a migration; return the numbers (found, converted).

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
                self._rests_until[migration.name] = now + REST_S
            elif done:
                LOG.info('Online data migration %s converted %d rows', migration.name, done)
