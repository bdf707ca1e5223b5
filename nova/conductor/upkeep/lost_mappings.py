"""Instance mappings without a server: an API process died between its writes to two databases."""
import datetime
import logging

from nova import context
from nova import utils
from nova.conductor.cell_services import CellServices
from nova.conductor.servers.deletion import forget
from nova.conductor.servers.volumes import Volumes
from nova.db.cells import rows as cell_rows
from nova.db.servers import history
from nova.db.servers import instances
from nova.db.servers import mappings

LOG = logging.getLogger(__name__)

MAPPING_AGE_S = 120          # seconds after which a mapping without an instance row counts as lost
NEW_MAPPING_S = 1800         # age in seconds below which mappings are checked every minute
PAGE = 1000


class LostMappings:
    """Removes lost mappings."""

    def __init__(self, services: CellServices, volumes: Volumes) -> None:
        self._cell_uuid, self._cell_db, self._api_db = services.cell.uuid, services.cell_db, services.api_db
        self._volumes = volumes

    def remove_new_lost_mappings(self) -> int:
        """Remove young lost mappings soon, because they count against a quota."""
        return self.remove_lost_mappings(within_s=NEW_MAPPING_S)

    def remove_lost_mappings(self, age_s: float = MAPPING_AGE_S, within_s: float | None = None) -> int:
        """Remove the mappings to this cell and the request specs of servers that are deleted or have no instance row.

        Mappings younger than ``age_s`` are skipped, because the row may be written soon. Mappings of servers in
        the history are always removed. Mappings older than the first service row of the cell database are skipped,
        because [database] connection may name the wrong database.

        :param within_s: only mappings younger than this
        :returns: the number removed
        """
        before = utils.utcnow() - datetime.timedelta(seconds=age_s)
        marker, removed = '', 0
        while True:
            since = None if within_s is None else utils.utcnow() - datetime.timedelta(seconds=within_s)
            with self._api_db.reader() as conn:
                created = mappings.created(conn, self._cell_uuid, marker, PAGE, since)
            if not created:
                return removed
            removed += self._remove(created, before)
            marker = max(created)

    def _remove(self, created: dict[str, datetime.datetime], before: datetime.datetime) -> int:
        """Remove the mappings of one page that are older than ``before``, or name deleted servers."""
        with self._cell_db.reader() as conn:
            missing = list(created.keys() - instances.existing(conn, list(created)))
            deleted = history.deleted(conn, missing)
            first = cell_rows.first_service_at(conn) if missing else None
        oldest = before if first is None else first - datetime.timedelta(seconds=MAPPING_AGE_S)   # clocks differ
        lost = [uuid for uuid in missing if uuid in deleted or oldest <= created[uuid] < before]
        older = [uuid for uuid in missing if uuid not in deleted and created[uuid] < min(oldest, before)]
        if older:
            LOG.error('%d servers of this cell are older than its database and have no row there; their mappings are '
                      'kept. Check whether [database] connection names the right database.', len(older))
        if not lost:
            return 0
        removed = self._api_db.run(forget, lost, self._cell_uuid)
        if not removed:                  # the servers were deleted with their mappings after the page was read
            return 0
        LOG.warning('%d servers have a mapping and no row, first %s; the mappings are removed.', len(removed),
                    removed[0])
        for uuid in removed:
            self._volumes.release_attachments(context.admin_context(), uuid)
        return len(removed)
