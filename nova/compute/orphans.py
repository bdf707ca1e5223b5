"""Orphans: resources of servers that are not on this host, such as guests, files, and copies kept for a return.

A host misses messages while it is down or disconnected, for example about servers that are deleted or moved. At its
start, after a reconnect and periodically, the host therefore searches for orphans and asks a conductor about each.
"""
import collections.abc
import logging

from nova import context
from nova import exception
from nova import objects
from nova import states
from nova.compute import records
from nova.compute.host import Host
from nova.compute.records import FILES
from nova.compute.records import GUEST
from nova.compute.records import INCOMING
from nova.compute.records import RESIZE_BACKUP
from nova.compute.records import SHARED
from nova.runtime import metrics
from nova.virt import driver as virt

LOG = logging.getLogger(__name__)

_TEXTS = {GUEST: 'The guest', FILES: 'Files of an incomplete operation', RESIZE_BACKUP: 'The resize backup',
          SHARED: 'Files of an incomplete operation of this host, or of one that shares its directory,',
          INCOMING: 'Files prepared for a live migration on shared disks'}
_LEFT = {True: '%s of server %s: no conductor knows the server. Nothing is removed; an operator should look at it.',
         False: '%s of server %s: its row names another host, but the row is not newer than this host\'s '
                'record. Nothing is removed. See `nova-manage state differences`.'}
Found = dict[str, str]                   # {uuid: kind of the resource}


class Orphans:
    """Removes resources of servers that are not on this host; in doubt, keeps the resources for an administrator."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._left: Found = {}
        metrics.ORPHANS.watch(self, lambda orphans: orphans.left())

    def left(self) -> dict[tuple[str], int]:
        """Return {(kind,): number} of the orphans that the last check left in place."""
        return {(what,): list(self._left.values()).count(what) for what in _TEXTS}

    def find(self, guests: collections.abc.Iterable[str]) -> Found:
        """Return the resources of servers on this host. Call it before the servers are read, so that a server
        that arrives in between does not count as an orphan.

        :param guests: uuids of the driver's guests, read earlier
        """
        driver = self._host.driver
        migration, resize = driver.get_feature(virt.LiveMigration), driver.get_feature(virt.Resize)
        found = dict.fromkeys(migration.incoming_guests() if migration else (), INCOMING)
        found.update(dict.fromkeys(resize.resize_backups() if resize else (), RESIZE_BACKUP))
        for uuid, own in driver.leftovers().items():
            if own or uuid not in found:
                found[uuid] = FILES if own else SHARED
        return {**found, **dict.fromkeys(guests, GUEST)}

    def settle(self, ctx: context.RequestContext, found: Found,
               servers: collections.abc.Container[str]) -> dict[str, records.Row]:
        """Remove resources of a server if its row is newer than the record and the server is deleted or elsewhere.

        :param servers: uuids of this host's servers
        :returns: reports of the conductors about the other servers
        """
        host = self._host
        others = {uuid: what for uuid, what in sorted(found.items()) if uuid not in servers}
        rows = self._rows(ctx, list(others)) if others else {}
        left = {}
        for uuid, what in others.items():
            row = rows.get(uuid)
            if row is None:
                continue
            if host.records.allows_removal(what, uuid, row):
                host.queue.submit(uuid, self._remove, ctx, uuid, what)
            elif row.state == states.UNKNOWN or what == GUEST and row.state in states.GONE:
                left[uuid] = what
                if self._left.get(uuid) != what:         # log it once, and again after a restart
                    LOG.warning(_LEFT[row.state == states.UNKNOWN], _TEXTS[what], uuid)
        self._left = left
        return rows

    def _rows(self, ctx: context.RequestContext, uuids: list[str]) -> dict[str, records.Row]:
        """Return {uuid: records.Row}. Resources of servers that are missing in the result must not be removed."""
        conductor, host = self._host.conductor, self._host.name
        return {uuid: records.Row(**row) for uuid, row in
                conductor.server_states(ctx, host=host, uuids=uuids).items()}

    def may_remove(self, ctx: context.RequestContext, uuid: str, what: str) -> bool:
        """Return whether the server is gone according to its row, and the row is newer than this host's record."""
        row = self._rows(ctx, [uuid]).get(uuid)
        return row is not None and self._host.records.allows_removal(what, uuid, row)

    def _remove(self, ctx: context.RequestContext, uuid: str, what: str) -> None:
        """Remove an orphan; runs in the server's queue.

        The conductor is asked again first: a move that does not run in this queue may have begun.
        """
        driver, guest = self._host.driver, objects.Instance(uuid=uuid, network_info=[])
        if not self.may_remove(ctx, uuid, what):
            return
        LOG.info('%s of server %s: removed, because the server is deleted or on another host.', _TEXTS[what], uuid)
        try:
            if what == RESIZE_BACKUP:
                self._host.driver_with(virt.Resize).confirm_migration(ctx, guest, [])
            elif what == INCOMING:
                self._host.driver_with(virt.LiveMigration).discard_incoming_guest(uuid)
                self._host.network.unprepare_for_instance(ctx, instance_uuid=uuid, host=self._host.name)
            else:
                driver.destroy(ctx, guest, [])
        except (exception.NovaException, OSError, ValueError) as error:
            LOG.error('%s of server %s: removal failed, an operator must check it: %s', _TEXTS[what], uuid, error)
            self._left = {**self._left, uuid: what}
            return
        self._host.records.forget(uuid)
        metrics.ORPHANS_REMOVED.labels(what).inc()
