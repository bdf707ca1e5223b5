"""What a host has of servers that are not on it: guests, their files, and what was put aside for a way back.

A host that was down, or cut off, hears of nothing that happens meanwhile: servers are deleted while they come, or go on
to another host. So it looks at its start, when it is back, and from time to time, and asks a conductor about each.
"""
import collections.abc
import logging

from nova import context
from nova import exception
from nova import objects
from nova import states
from nova.compute import records
from nova.compute.host import Host
from nova.compute.records import COMING
from nova.compute.records import FILES
from nova.compute.records import GUEST
from nova.compute.records import KEPT
from nova.compute.records import SHARED
from nova.runtime import metrics
from nova.virt import driver as virt

LOG = logging.getLogger(__name__)

_TEXTS = {GUEST: 'The guest', FILES: 'What a step that did not come to its end has left', KEPT: 'What was put aside',
          SHARED: 'What a step of this host, or of one that shares its directory, has left',
          COMING: 'What was made ready for a live migration on shared disks'}
_LEFT = {True: '%s of %s is of no server that is known; it is left alone and should be looked at.',
         False: '%s of %s is elsewhere by its row, which is not newer than this host\'s record; it is left alone. '
                'See `nova-manage state differences`.'}
Found = dict[str, str]                   # {uuid: what of it is here}


class Strays:
    """Removes what belongs to no server of this host; in doubt it stays, and is to be looked at."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._left: Found = {}
        metrics.STRAYS_LEFT.watch(self, lambda strays: strays.left())

    def left(self) -> dict[tuple[str], int]:
        """{(what,): number} of what was left alone when this looked last."""
        return {(what,): list(self._left.values()).count(what) for what in _TEXTS}

    def find(self, guests: collections.abc.Iterable[str]) -> Found:
        """What is here, to be looked for before the servers are read: so none is taken for a stray that comes.

        :param guests: of the driver, as they were before
        """
        driver = self._host.driver
        migration, resize = driver.get_feature(virt.LiveMigration), driver.get_feature(virt.Resize)
        found = dict.fromkeys(migration.awaited_guests() if migration else (), COMING)
        found.update(dict.fromkeys(resize.kept_guests() if resize else (), KEPT))
        for uuid, own in driver.remnants().items():
            if own or uuid not in found:
                found[uuid] = FILES if own else SHARED
        return {**found, **dict.fromkeys(guests, GUEST)}

    def settle(self, ctx: context.RequestContext, found: Found,
               servers: collections.abc.Container[str]) -> dict[str, records.Row]:
        """Remove what is of servers that are known to be deleted, or to live elsewhere, by a row that is newer than the
        record; leave any other alone.

        :param servers: uuids of this host's
        :returns: what conductors say of the others
        """
        host = self._host
        others = {uuid: what for uuid, what in sorted(found.items()) if uuid not in servers}
        rows = self._rows(ctx, list(others)) if others else {}
        left = {}
        for uuid, what in others.items():
            row = rows.get(uuid)
            if row is None:
                continue
            if records.is_removable(what, host.records.get(uuid), row):
                host.queue.submit(uuid, self._remove, ctx, uuid, what)
            elif row.fate == states.UNKNOWN or what == GUEST and row.fate in states.GONE:
                left[uuid] = what
                if self._left.get(uuid) != what:         # once, and again after a restart
                    LOG.warning(_LEFT[row.fate == states.UNKNOWN], _TEXTS[what], uuid)
        self._left = left
        return rows

    def _rows(self, ctx: context.RequestContext, uuids: list[str]) -> dict[str, records.Row]:
        """{uuid: records.Row}; what is not named is not to be touched."""
        conductor, host = self._host.conductor, self._host.name
        try:
            return {uuid: records.Row(**row) for uuid, row in
                    conductor.server_rows(ctx, host=host, uuids=uuids).items()}
        except exception.Unsupported:                    # conductors of the release before do not say how old it is
            pass
        try:
            return {uuid: records.Row(fate) for uuid, fate in
                    conductor.became_of(ctx, host=host, uuids=uuids).items()}
        except exception.Unsupported:                    # nor in which way it is gone
            return dict.fromkeys(conductor.stray_guests(ctx, host=host, uuids=uuids), records.Row(states.ELSEWHERE))

    def may_remove(self, ctx: context.RequestContext, uuid: str, what: str) -> bool:
        """Whether a server is gone by a row that is newer than this host's record."""
        row = self._rows(ctx, [uuid]).get(uuid)
        return row is not None and records.is_removable(what, self._host.records.get(uuid), row)

    def _remove(self, ctx: context.RequestContext, uuid: str, what: str) -> None:
        """In the server's queue: ask again right before it goes. A move may have begun, which passes no queue."""
        driver, guest = self._host.driver, objects.Instance(uuid=uuid, network_info=[])
        if not self.may_remove(ctx, uuid, what):
            return
        LOG.info('%s of %s is removed: the server is deleted, or elsewhere.', _TEXTS[what], uuid)
        try:
            if what == KEPT:
                self._host.driver_with(virt.Resize).confirm_migration(ctx, guest, [])
            elif what == COMING:
                self._host.driver_with(virt.LiveMigration).give_up_guest(uuid)
                self._host.network.unprepare_for_instance(ctx, instance_uuid=uuid, host=self._host.name)
            else:
                driver.destroy(ctx, guest, [])
        except (exception.NovaException, OSError, ValueError) as error:
            LOG.error('%s of %s could not be removed, and should be looked at: %s', _TEXTS[what], uuid, error)
            self._left = {**self._left, uuid: what}
            return
        self._host.records.forget(uuid)
        metrics.STRAYS_REMOVED.labels(what).inc()
