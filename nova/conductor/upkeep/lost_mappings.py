"""Removal of instance mappings without a server: an API process died between its writes to two databases."""
import datetime
import logging

from nova import context
from nova import exception
from nova import utils
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Connection
from nova.conductor.servers.deletion import forget
from nova.conductor.servers.volumes import Volumes
from nova.db.cells import rows as cell_rows
from nova.db.servers import history
from nova.db.servers import instances
from nova.db.servers import mappings

LOG = logging.getLogger(__name__)

NEW_MAPPING_S = 1800         # age in seconds below which mappings are checked every minute
PAGE = 1000


class LostMappings:
    """Removes lost mappings."""

    def __init__(self, services: CellServices, volumes: Volumes) -> None:
        self._cell_uuid, self._cell_db, self._api_db = services.cell.uuid, services.cell_db, services.api_db
        self._volumes = volumes
        self._unreleased: set[str] = set()          # servers without a mapping that may have attachments

    def remove_new_lost_mappings(self) -> int:
        """Remove lost mappings younger than NEW_MAPPING_S; this runs often, because they count against quotas."""
        return self.remove_lost_mappings(within_s=NEW_MAPPING_S)

    def remove_lost_mappings(self, age_s: float = mappings.LOST_AFTER_S, within_s: float | None = None) -> int:
        """Remove the mappings to this cell and the request specs of servers that are deleted or have no instance row.

        Mappings younger than ``age_s`` are skipped, because the row may be written soon. Mappings of servers in
        the history are always removed. If mappings are older than the cell database's first service row, [database]
        connection may name the wrong database, so they are kept.

        :param within_s: only mappings younger than this
        :returns: the number removed
        """
        before = utils.utcnow() - datetime.timedelta(seconds=age_s)
        marker, removed = '', 0
        self._release_attachments()
        while True:
            since = None if within_s is None else utils.utcnow() - datetime.timedelta(seconds=within_s)
            with self._api_db.reader() as conn:
                created = mappings.created(conn, self._cell_uuid, marker, PAGE, since)
            if not created:
                return removed
            removed += self._remove(created, before)
            marker = max(created)

    def _remove(self, created: dict[str, datetime.datetime], before: datetime.datetime) -> int:
        """Remove the lost mappings of one page that are older than ``before`` or belong to deleted servers."""
        with self._cell_db.reader() as conn:
            missing = list(created.keys() - instances.existing(conn, list(created)))
            deleted = history.deleted(conn, missing)
            first = cell_rows.first_service_at(conn) if missing else None
        # clocks differ
        oldest = before if first is None else first - datetime.timedelta(seconds=mappings.LOST_AFTER_S)
        lost = [uuid for uuid in missing if uuid in deleted or oldest <= created[uuid] < before]
        older = [uuid for uuid in missing if uuid not in deleted and created[uuid] < min(oldest, before)]
        if older:
            LOG.error('%d servers have a mapping to this cell but no row in its database, and are older than this '
                      'database. Their mappings are kept. Check [database] connection.', len(older))
        if not lost:
            return 0
        removed = self._api_db.run(_forget_unchanged, {uuid: created[uuid] for uuid in lost}, self._cell_uuid)
        if not removed:                  # other processes deleted or renewed the mappings after the page was read
            return 0
        LOG.warning('%d servers have a mapping and no row, first %s; the mappings are removed.', len(removed),
                    removed[0])
        self._unreleased.update(removed)
        self._release_attachments()
        return len(removed)

    def _release_attachments(self) -> None:
        """Release the attachments of removed servers; the next run repeats what the block storage does not answer."""
        for uuid in list(self._unreleased):
            try:
                self._volumes.release_attachments(context.admin_context(), uuid)
            except exception.Unavailable as error:
                LOG.warning('Cannot release the volumes of server %s, which was not stored: %s', uuid, error)
                continue
            self._unreleased.discard(uuid)


def _forget_unchanged(conn: Connection, created: dict[str, datetime.datetime], cell_uuid: str) -> list[str]:
    """Remove servers whose mappings are unchanged from the API database; return their uuids."""
    uuids = mappings.lock_unchanged(conn, created, cell_uuid)
    forget(conn, uuids)
    return uuids
