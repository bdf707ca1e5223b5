"""Synchronization of a cell with the API database: host aggregates, server groups, image caching."""
import datetime
import itertools
import logging

from nova import context
from nova import exception
from nova import utils
from nova.conductor.cell_services import CellServices
from nova.conductor.cell_services import Connection
from nova.db.placement import aggregates
from nova.db.placement import image_cache
from nova.db.placement import server_groups
from nova.db.placement import zones
from nova.image import grants

LOG = logging.getLogger(__name__)


class Synchronization:
    """Repairs rows of the cell that differ from the API database."""

    def __init__(self, services: CellServices) -> None:
        self._services, self._conf = services, services.conf
        self._cell_db, self._api_db = services.cell_db, services.api_db

    def follow_zones(self) -> dict[str, str]:
        """Correct the zones and aggregates in the rows of hosts; return {host: zone} of the hosts with a changed zone.

        They are wrong if the API died between its writes to two databases, or if the default zone was renamed.
        """
        with self._api_db.reader() as conn:
            wanted, listed = aggregates.zones(conn), aggregates.described(conn)
        with self._cell_db.reader() as conn:
            rows = zones.rows(conn)
        different = [host for host, zone, _ in rows if zone != self._zone(wanted, host)]
        others = [host for host, _, found in rows if found != listed.get(host, [])]
        if not different and not others:
            return {}

        def run(conn: Connection) -> dict[str, str]:
            aggregates.lock(conn)
            in_zones, now = aggregates.zones(conn, different), aggregates.described(conn, others)

            def write(cell_conn: Connection) -> dict[str, str]:
                zones.describe(cell_conn, {host: now.get(host, []) for host in others})
                return zones.mend(cell_conn, {host: self._zone(in_zones, host) for host in different})
            return self._cell_db.run(write)
        mended = self._api_db.run(run)
        for host, zone in mended.items():
            LOG.warning('Host %s is in availability zone %s from now on.', host, zone)
        return mended

    def _zone(self, found: dict[str, str], host: str) -> str:
        return found.get(host, self._conf.default_availability_zone)

    def forget_groups(self) -> set[str]:
        """Remove servers from deleted groups: the row of a server created during the deletion still names the group."""
        with self._cell_db.reader() as conn:
            mentioned = server_groups.mentioned(conn)
        with self._api_db.reader() as conn:
            lost = mentioned - server_groups.existing(conn, list(mentioned)) if mentioned else set()
        if lost:
            self._cell_db.run(server_groups.forget, list(lost))
        return lost

    def resend_image_caching(self) -> int:
        """Repeat image caching requests to hosts that did not answer; drop requests older than the deadline.

        :returns: the number of images that were requested again
        """
        now = utils.utcnow()
        self._cell_db.run(image_cache.expire, now)
        with self._cell_db.reader() as conn:
            rows = image_cache.overdue(conn, now)
            up = {host for host in {row['host'] for row in rows} if self._services.host_is_up(host, conn)}
        oldest = now - datetime.timedelta(seconds=self._conf.conductor.task_timeout)
        lost = [row['id'] for row in rows if row['created_at'] < oldest]
        if lost:
            LOG.warning('%d images were not cached: their hosts did not fetch them before the deadline.', len(lost))
            self._cell_db.run(image_cache.give_up, lost)
        waiting = [row for row in rows if row['created_at'] >= oldest]
        if waiting:
            later = now + datetime.timedelta(seconds=self._conf.conductor.task_deadline)
            self._cell_db.run(image_cache.postpone, [row['id'] for row in waiting], later)
        mine = sorted((row for row in waiting if row['host'] in up), key=lambda row: (row['host'], row['request_id']))
        for (host, request_id), group in itertools.groupby(mine, lambda row: (row['host'], row['request_id'])):
            image_ids = [row['image_id'] for row in group]
            grant = grants.make(None, host, self._conf.conductor.task_timeout, image_ids)
            try:
                self._services.compute.cache_images(context.admin_context(request_id), server=host, image_ids=image_ids,
                                                    grant=self._services.images.grant(grant))
            except exception.Unavailable as error:
                LOG.warning('Cannot request images from host %s yet: %s', host, error.message)
        return len(mine)
